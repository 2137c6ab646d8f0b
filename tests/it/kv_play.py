"""kv_play.py - an agent that reads KV cache events, and recordings that are played to it in step
with their requests.

    with Engines() as e:
        p = e.play(Recording("tests/data/kvevents/vllm-small")).run()
        p.finish()
        same_set(e, p)
"""
import collections
import json
import os
import random
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "promises"))
sys.dont_write_bytecode = True

from agent import Agent, equal, request  # noqa: E402
from fleet import HANG_SECONDS, wait_for  # noqa: E402
from kv_publisher import pack  # noqa: E402
from kv_recording import Held, Player  # noqa: E402

PAGE = 16               # tokens in a page of requests, half a block of the recordings


def ports_in_a_row(ports, n):
    """Return the first of <n> free ports."""
    while True:
        first = ports.take()
        more = []
        try:
            for i in range(1, n):
                more.append(socket.socket())
                more[-1].bind(("127.0.0.1", first + i))
                more[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        except (OSError, OverflowError):
            for s in more:
                s.close()
            continue
        ports.held += more
        return first


class Engines(Agent):
    """An agent, and publishers that stand for engines: <servers> names them, each with <ranks>."""

    def __init__(self, servers=("s1", ), ranks=1, replay=True, framing="topic", conf=""):
        super().__init__()
        self.ranks, self.framing, self.publishers, self.uid = ranks, framing, {}, 0
        self.done = 0
        self.due = collections.Counter()        # server -> batches that must be applied
        self.plays = collections.defaultdict(list)
        self.at = {s: (ports_in_a_row(self.ports, ranks), ports_in_a_row(self.ports, ranks))
                   for s in servers}
        self.replay = replay
        entries = "".join(
            "\n  - {name: %s, pool: llm, events: {endpoint: \"tcp://127.0.0.1:%d\", %sranks: %d}}"
            % (s, live, "replay: \"tcp://127.0.0.1:%d\", " % again if replay else "", ranks)
            for s, (live, again) in self.at.items())
        self.agent_conf = "prompt: {page_size: %d}\n%s\nengines:%s" % (PAGE, conf, entries)
        self.fed = None

    def start(self):
        super().start()
        for s in self.at:
            for r in range(self.ranks):
                self.start_publisher(s, r)
        self.spop = self.client(size=1 << 20)
        self.fed = socket.create_connection(("127.0.0.1", self.feed_port))

    def start_publisher(self, server="s1", rank=0):
        live, again = self.at[server]
        p = Player(live + rank, again + rank if self.replay else 0, self.framing)
        self.publishers[server, rank] = p
        p.subscribed(HANG_SECONDS)
        return p

    def restart_publisher(self, server="s1", rank=0):
        self.publishers[server, rank].end()
        return self.start_publisher(server, rank)

    def stop(self, keep=False):
        for p in self.publishers.values():
            p.end()
        if self.fed:
            self.fed.close()
            self.spop.close()
        super().stop(keep)

    def figure(self, name, server="s1"):
        return self.metrics()['kvroute_events_%s{pool="llm",server="%s"}' % (name, server)]

    def wait_figure(self, name, want, server="s1"):
        wait_for("%s of %s to be %s" % (name, server, want), 30,
                 lambda: self.figure(name, server) == want)

    def wait_applied(self, server, batches=True):
        """Wait until the agent has applied all log lines, and all batches of the server."""
        def got():
            m = self.metrics()
            return (m['kvroute_facts_total{kind="done"}'],
                    m.get('kvroute_events_batches_total{pool="llm",server="%s"}' % server, 0))

        try:
            wait_for("log lines and batches", 60, lambda: [
                a >= b for a, b in zip(got(), (self.done, self.due[server]))] in (
                    [True, True], [True, batches]))
        except TimeoutError as e:
            raise TimeoutError("%s; due are %d and %d, applied %r" % (
                e, self.done, self.due[server], got()))

    def play(self, recording, *args, **kw):
        p = Play(self, recording, *args, **kw)
        self.plays[p.server].append(p)
        return p

    # ---- requests

    def ask(self, body, server="s1", path="/v1/completions", **more):
        """Send a request to <server>, the only one that is up. Returns its uid and answer."""
        self.uid += 1
        uid = "u%d" % self.uid
        more = {"load": "lb/1;%s=1,0,0,1" % server, **more}
        return uid, self.spop.notify("route", request(uid, body, path, **more))

    def serve(self, uid, prompt_tokens, out_tokens, server="s1"):
        """<server> has answered: what HAProxy reports of it."""
        self.spop.notify("first", {"uid": uid, "srv": server, "st": 200, "ct": "application/json"})
        line = {"uid": uid, "be": "llm", "srv": server, "want": server, "why": "cached", "st": 200,
                "ts": "--", "tw": 0, "tc": 0, "tr": 20, "ta": 30, "out": 600 + 4 * out_tokens,
                "in": 500, "rc": "0", "ptok": "%d 0+0+0" % prompt_tokens,
                "gtok": "%d 0" % out_tokens}
        self.fed.sendall(json.dumps(line).encode() + b"\n")
        self.done += 1

    def refuse(self, uid):
        """The request was not sent on, so it leaves nothing behind."""
        self.done += 1
        self.spop.notify("done", {"uid": uid, "be": "llm", "srv": "<NOSRV>", "st": 503, "ts": "SC",
                                  "tr": -1})

    def expected(self, body, server="s1", path="/v1/completions", **more):
        """Return the tokens that a request would find, and the rank that holds them."""
        uid, answer = self.ask(body, server, path, **more)
        self.refuse(uid)
        return answer["txn.pages"] * PAGE, answer.get("txn.rank")


def ids_body(ids, salt=None, model="m"):
    return json.dumps({"model": model, "prompt": ids, **({"cache_salt": salt} if salt else {})})


class Play:
    """A recording that is played to one rank of a server, in step with its requests."""

    def __init__(self, engines, recording, server="s1", rank=0, lost=lambda: False, encode=None):
        self.e, self.rec, self.server, self.rank = engines, recording, server, rank
        self.lost, self.encode = lost, encode or (lambda payload: payload)
        self.held = Held()
        self.sent = 0                   # batches
        self.behind = False             # the last batches were lost, and no later one told so
        self.n = collections.Counter()  # blocks too many: requests
        self.when_behind = collections.Counter()

    @property
    def publisher(self):
        return self.e.publishers[self.server, self.rank]

    def publish(self, until, live=True):
        """Publish the batches that came until then."""
        while self.sent < len(self.rec.payloads) and self.rec.times[self.sent] <= until:
            payload = self.rec.payloads[self.sent]
            self.sent += 1
            self.held.apply(payload)
            self.behind = not live or self.lost()
            self.publisher.publish(self.encode(payload), live=not self.behind)
            self.e.due[self.server] += self.e.replay or not self.behind

    def settle(self):
        """Wait until the agent has all that it can know of."""
        behind = any(p.behind for p in self.e.plays[self.server])
        self.e.wait_applied(self.server, batches=not behind)

    def step(self, r):
        """Play one request. Returns the agent's answer."""
        self.publish(r["sent"])
        self.settle()
        counter = self.when_behind if self.behind else self.n
        uid, answer = self.e.ask(ids_body(r["prompt"], r["salt"]), self.server)
        self.publish(r["answered"])
        self.e.serve(uid, len(r["prompt"]), len(r["out"]), self.server)
        counter[(answer["txn.pages"] * PAGE - r["cached"]) // r["block"]] += 1
        return answer

    def run(self, requests=None):
        for r in self.rec.requests if requests is None else requests:
            self.step(r)
        return self

    def finish(self):
        """Publish the rest, and an empty batch, so that a loss at the end is seen."""
        self.publish(float("inf"))
        if self.behind:
            self.behind = False
            self.publisher.publish(self.encode(pack([time.time(), [], 0])))
            self.e.due[self.server] += 1
        self.settle()

    def print_counts(self, what):
        more = ""
        if self.when_behind:
            more = "; asked while the last batch was lost: %s" % dict(self.when_behind)
        print("      %s: %d of %d exact; blocks too many: requests %s%s" % (
            what, self.n[0], sum(self.n.values()), dict(self.n), more))


def same_set(e, p, most=60, blocks=None):
    """Check that the agent has the blocks of the cache that the events of <p> leave: their number,
    and the part that is held of some prompts."""
    e.wait_figure("blocks", p.held.blocks() if blocks is None else blocks, p.server)
    time.sleep(0.3)             # no request is on its way any more
    nodes = range(len(p.held.nodes))
    asked = collections.Counter()
    for node in random.Random(5).sample(nodes, min(most, len(nodes))):
        found = p.held.prompt_of(node)
        if found is None:
            continue
        ids, salt, lora = found
        want = p.held.match(ids + [1], salt, lora)
        got, rank = e.expected(ids_body(ids + [1], salt, lora or "m"), p.server)
        equal(got, want, "tokens held of a prompt of %d, node %d" % (len(ids), node))
        if e.ranks > 1 and want > 0:
            equal(rank, p.rank, "rank that holds node %d" % node)
        asked[want == len(ids)] += 1
    print("      the same set: %d blocks; %d prompts held whole, %d in part or not" % (
        p.held.blocks(), asked[True], asked[False]))
