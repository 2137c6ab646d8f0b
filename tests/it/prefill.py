#!/usr/bin/env python3
"""prefill.py [-k WORD] - prompts that one engine computes and another decodes: stub engines in both
roles, stub sidecars, a real HAProxy with haproxy-conf/recipes/prefill.cfg, and the agent.

      client -> HAProxy -> sidecar of s1 --prompt--> p1 (as x-prefiller-host-port says)
                                `------request-----> engine s1 --fetches the KV--> p1

The prefill servers are configured as four times as fast, so that it pays to split a long prompt
while nothing else runs. Last line: N passed, N failed."""
import http.client
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import cases  # noqa: E402
from fleet import BUILD, HANG_SECONDS, TOP, Fleet, edited, wait_for  # noqa: E402
from stories import check, equal, next_turn, text, user  # noqa: E402

LONG, SHORT = 8000, 400             # bytes
FAST = ["--prefill-tps", "100000", "--decode-ms", "1"]
STORIES = []


def story(f):
    STORIES.append(f)
    return f


class Split(Fleet):
    """<sidecars>: whether each decode server has one. <strict>: as Dynamo's. <more>: another decode
    pool of one server."""

    def __init__(self, decode=2, prefill=2, sidecars=True, strict=False, more=False, agent=True):
        self.prefills = ["p%d" % (i + 1) for i in range(prefill)]
        self.sidecars, self.strict, self.more, self.doors = sidecars, strict, more, {}
        super().__init__(engines=decode, conf="recipes/prefill.cfg", engine_options=FAST,
                         pools=("pool", "prefill") + ("other", ) * more, agent=agent)
        self.decodes = self.names
        self.up_wanted = decode + prefill

    def start(self):
        for name in self.decodes + self.prefills:
            self.start_engine(name)
        for name in self.decodes:
            self.doors[name] = self.engines[name]
            if self.sidecars:
                self.start_sidecar(name)
        if self.with_agent:
            self.start_agent()
        self.start_haproxy()

    def start_sidecar(self, name):
        p = self.spawn("sidecar-" + name,
                       [sys.executable, os.path.join(TOP, "tests/tools/stub_sidecar.py"),
                        "--engine", "127.0.0.1:%d" % self.engines[name]]
                       + ["--strict"] * self.strict,
                       stdout=subprocess.PIPE)
        line = p.stdout.readline().decode()
        self.doors[name] = int(re.search(r"listen=127\.0\.0\.1:(\d+)", line).group(1))

    def agent_yaml(self):
        fast = ", prefill_tokens_per_s: 32000"
        return super().agent_yaml() + (
            "index: {max_bytes: 16 MiB}\n"
            "stats_feed: {sockets: [\"unix@%s\"], interval: 50 ms}\npools:\n"
            "  - {name: pool, prefill: prefill}\n%s  - {name: prefill%s}\n"
            % (self.stats_path, "  - {name: other, prefill: prefill}\n" * self.more, fast))

    def put_servers(self, cfg):
        shown = self.decodes[:1] if self.more else self.decodes
        for i, name in enumerate(shown):
            cfg = edited(cfg, "127.0.0.1:%d" % (8001 + i), "127.0.0.1:%d" % self.doors[name])
        for i in range(len(shown), 4):
            cfg = re.sub(r"(?m)^    server s%d .*\n" % (i + 1), "", cfg)
            cfg = re.sub(r";s%d=[^;\"]*" % (i + 1), "", cfg)
        for i, name in enumerate(self.prefills):
            cfg = edited(cfg, "127.0.0.1:%d" % (8011 + i), "127.0.0.1:%d" % self.engines[name])
        for i in range(len(self.prefills), 2):
            cfg = re.sub(r"(?m)^    server p%d .*\n" % (i + 1), "", cfg)
        return cfg

    def haproxy_cfg(self):
        cfg = super().haproxy_cfg()
        return two_pools(cfg, [self.doors[n] for n in self.decodes]) if self.more else cfg

    def write(self, name, content):
        if self.more and name == "kvroute.spoe":
            content = edited(content, "pool=str(pool)", "pool=var(txn.pool)")
        return super().write(name, content)

    def stop(self, keep=False):
        self.end("haproxy", 2)
        ends = set()
        for name in self.decodes + self.prefills:
            self.end("sidecar-" + name, 9)
            ends.add(self.end(name))
        super().stop(keep)
        check(ends <= {0, None}, "engines ended with %r" % ends)    # also of a sanitizer's find

    # ---- what was seen

    def ready(self):
        """The agent knows the prefill servers when it names one."""
        n = [0]

        def named():
            n[0] += 1
            return self.chat([user(text("ready %d" % n[0], LONG))]).prefill
        wait_for("the agent to name a prefill server", 5, named)
        return self

    def sidecar(self, name):
        return json.loads(self.get("/sidecar", self.doors[name])[1])

    def split(self):
        """Requests that sidecars have split, and that they sent to their engine alone."""
        seen = [self.sidecar(n) for n in self.decodes]
        return (sum(s.get("split", 0) for s in seen),
                sum(s.get("alone", 0) + s.get("fallback", 0) for s in seen))

    def engine(self, name):
        return json.loads(self.get("/control", self.controls[name])[1])

    def wait_down(self, name):
        wait_for("the agent to see %s down" % name, 5, lambda: self.metrics()[
            'kvroute_server_up{pool="prefill",server="%s"}' % name] == 0)

    def at(self, address):
        return next(n for n in self.prefills if address == "127.0.0.1:%d" % self.engines[n])

    def decision(self):
        return json.loads(self.get("/decisions?n=1", self.metrics_port)[1])["decisions"][0]

    def steady(self):
        """What is tested must not depend on the speed of the machine."""
        return "policy: {learn_rate: false, learn_transfer: false}\n"

    def idle(self):
        """Wait until the agent knows the end of all requests: an open one is work that waits."""
        wait_for("the end of all requests", 5, lambda: not any(
            v for k, v in self.metrics().items() if k.startswith("kvroute_server_open_requests")))

    def good(self, messages, **more):
        if "agent" in self.processes:
            self.idle()
        a = self.chat(messages, **more)
        equal(a.status, 200, "status")
        return a


def talk(seed, n=LONG):
    return [user(text(seed, n))]


# ---- the tools themselves

def ask(port, body, headers=()):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_SECONDS)
    try:
        c.putrequest("POST", "/v1/chat/completions")
        body = json.dumps(body).encode()
        for k, v in [("content-length", str(len(body)))] + list(headers):
            c.putheader(k, v)
        c.endheaders(body)
        r = c.getresponse()
        return r.status, json.loads(r.read())
    finally:
        c.close()


class Pair(Split):
    """Two engines and a sidecar, without HAProxy and agent."""

    def __init__(self, options=(), strict=False):
        super().__init__(decode=1, prefill=1, strict=strict, agent=False)
        self.engine_options += list(options)

    def start_haproxy(self):
        pass


@story
def engines_hold_and_fetch():
    body = {"messages": talk("hold", 4000), "max_tokens": 3}
    away = {"do_remote_decode": True, "do_remote_prefill": False}
    with Pair() as f:
        p, d = f.engines["p1"], f.engines["s1"]
        status, got = ask(p, {**body, "max_tokens": 1, "kv_transfer_params": away})
        params, n = got["kv_transfer_params"], got["usage"]["prompt_tokens"]
        equal((status, params["do_remote_prefill"]), (200, True), "answer")
        equal(params["remote_num_tokens"], n, "tokens")
        there = f.engine("p1")
        equal((there["held"], there["holding"]), (1, 1), "held")
        check(there["blocks_free"] <= there["blocks"] - n // 16, "the blocks are free: %r" % there)
        ask(p, body)
        status, got = ask(d, {**body, "kv_transfer_params": params})
        equal((status, got["usage"]["completion_tokens"]), (200, 3), "decode")
        here, there = f.engine("s1"), f.engine("p1")
        equal((here["fetched"], here["given_tokens"], here["unfetched"]), (1, n - 1, 0), "fetched")
        equal((there["given"], there["holding"]), (1, 0), "given")
        equal(there["blocks_free"], there["blocks"], "free blocks")
        # a second time it is not there, and the engine computes what it has not cached
        status, got = ask(d, {**body, "kv_transfer_params": params})
        equal((status, f.engine("s1")["unfetched"]), (200, 1), "a second time")
        for bad in ({**away, "do_remote_prefill": True}, {"do_remote_prefill": True},
                    {**params, "remote_port": 0}, {**params, "remote_host": "x" * 100}):
            equal(ask(d, {**body, "kv_transfer_params": bad})[0], 400, "%r" % bad)
    with Pair(["--hold-s", "0.05"]) as f:
        ask(f.engines["p1"], {**body, "kv_transfer_params": away})
        wait_for("the end of the hold", 1, lambda: f.engine("p1")["expired"] == 1)
        equal(f.engine("p1")["blocks_free"], f.engine("p1")["blocks"], "free blocks")


@story
def a_client_that_leaves_during_a_transfer():
    body = {"messages": talk("leaves", 4000), "max_tokens": 3}
    with Pair(["--transfer-ms", "60000"]) as f:
        got = ask(f.engines["p1"], {**body, "kv_transfer_params": {"do_remote_decode": True}})[1]
        c = http.client.HTTPConnection("127.0.0.1", f.engines["s1"], timeout=HANG_SECONDS)
        c.request("POST", "/v1/chat/completions", json.dumps(
            {**body, "kv_transfer_params": got["kv_transfer_params"]}))
        wait_for("the fetch", 2, lambda: f.engine("s1")["fetched"] == 1)
        c.close()
        wait_for("the end of the request", 2, lambda: f.engine("s1")["aborted"] == 1)
        here = f.engine("s1")
        equal((here["running"], here["waiting"]), (0, 0), "requests")
        equal(here["blocks_free"], here["blocks"], "free blocks")


NAME = "x-prefiller-host-port"


@story
def the_sidecars_contract():
    body = {"messages": talk("contract", 4000), "max_tokens": 3, "stream_options": {}}
    for strict in (False, True):
        with Pair(strict=strict) as f:
            door, to = f.doors["s1"], "127.0.0.1:%d" % f.engines["p1"]
            equal(ask(door, body)[0], 200, "without the header")
            equal(f.engine("p1")["requests"], 0, "requests to p1")
            equal(ask(door, body, [(NAME, to)])[1]["usage"]["completion_tokens"], 3, "tokens")
            equal((f.engine("p1")["output_tokens"], f.engine("s1")["fetched"]), (1, 1), "split")
            asked = f.engine("s1")["requests"]
            for bad in ([""], [to, to], ["nowhere"], [to + "0000"], ["127.0.0.1:0"]):
                equal(ask(door, body, [(NAME, v) for v in bad])[0], 502, "%r" % bad)
            equal(ask(door, {**body, "kv_transfer_params": {"do_remote_prefill": True}},
                      [(NAME, to)])[0], 400, "the client's own parameters")
            equal(f.engine("s1")["requests"], asked, "requests to s1")
            f.control("p1", "fail=503")
            equal(ask(door, body, [(NAME, to)])[0], 503 if strict else 200, "p1 fails")
            f.control("p1", "fail=429")
            equal(ask(door, body, [(NAME, to)])[0], 429, "p1 is full")
            f.control("p1", "dead=refuse")
            equal(ask(door, body, [(NAME, to)])[0], 502 if strict else 200, "p1 is dead")


# ---- on HAProxy

@story
def split_and_not_split():
    with Split() as f:
        f.ready()
        split, alone = f.split()
        one = f.good(talk("split"))
        there = f.at(one.prefill)
        equal(f.split(), (split + 1, alone), "split")
        d = f.decision()
        equal((d["prefill"], d["server"], d["pool"]), (there, one.server, "pool"), "decision")
        check(0 < d["there_s"] < d["here_s"], "prices of %r" % d)
        why = subprocess.run([os.path.join(BUILD, "kvroutectl"), "why", "-n", "1",
                              "127.0.0.1:%d" % f.metrics_port], capture_output=True, text=True)
        said = "%s was to compute the prompt: at %s none of" % (there, there)
        check(said in why.stdout, why.stdout)
        equal(f.engine(one.server)["unfetched"], 0, "prompts that could not be fetched")
        # short
        two = f.good(talk("short", SHORT))
        equal((two.prefill, f.split()), ("", (split + 1, alone + 1)), "a short prompt")
        check("prefill_best" not in f.decision(), "compared: %r" % f.decision())
        # cached: what is left of the second turn is short
        three = f.good(next_turn(talk("split"), one, 1))
        equal((three.prefill, three.engine), ("", one.server), "a second turn")
        check(int(three.hit) > 800 and three.cached() > 1000,
              "hit %s, cached %d" % (three.hit, three.cached()))
        # a client cannot name a server, nor hide the agent's
        own = {NAME: "127.0.0.1:%d" % f.engines[there]}
        four = f.good(talk("short of a client", SHORT), headers=own)
        equal((four.prefill, f.split()), ("", (split + 1, alone + 3)), "the client's header")
        five = f.good(talk("long of a client"), headers={NAME: "127.0.0.1:1"})
        check(five.prefill, "not split")
        equal(f.split(), (split + 2, alone + 3), "the client's header and the agent's")
        stream = f.good(talk("stream"), stream=True, max_tokens=5)
        check(stream.prefill and len(stream.text()) == 20, "the stream is %r" % stream.text())
        f.idle()


@story
def only_whole_prompts_are_split():
    """Embeddings have no prompt that is decoded; a continued response is where it was stored."""
    with Split() as f:
        n = [0]

        def ask(path, more):
            n[0] += 1
            a = f.post(path, {"model": "stub", "input": text("whole %d" % n[0], LONG), **more})
            equal(a.status, 200, "%s %r" % (path, more))
            return a.prefill

        f.ready()
        wait_for("a split response", HANG_SECONDS, lambda: ask("/v1/responses", {}))
        split, alone = f.split()
        asks = (("/v1/responses", {"previous_response_id": "resp_1"}),
                ("/v1/responses", {"conversation": "conv_1"}), ("/v1/embeddings", {}))
        for path, more in asks:
            f.idle()
            equal(ask(path, more), "", "%s %r" % (path, more))
        equal(f.split(), (split, alone + len(asks)), "split")


def cached_of(d, server):
    return next(c["cached_tokens"] for c in d["candidates"] if c["server"] == server)


@story
def both_hold_the_prompt_afterwards():
    """The decode server by the next decision. Then that server is drained: the prompt goes to the
    other one, and the prefill server that computed it has it cached."""
    with Split() as f:
        f.ready()
        one = f.good(talk("both"))
        there = f.at(one.prefill)
        other = next(n for n in f.decodes if n != one.server)
        tokens = one.json()["usage"]["prompt_tokens"]

        two = f.good(next_turn(talk("both"), one, 1))
        equal((two.prefill, two.engine), ("", one.server), "a second turn")
        check(cached_of(f.decision(), one.server) > tokens * 0.9, "not cached: %r" % f.decision())
        f.haproxy_command("set server pool/%s state maint" % one.server)
        before = f.engine(there)
        computed = before["prompt_tokens"] - before["cached_tokens"]
        three = f.good(talk("both") + [user(text("other", 2000))])
        equal((three.engine, three.prefill and f.at(three.prefill)), (other, there), "the holder")
        d, after = f.decision(), f.engine(there)
        equal((d["prefill"], cached_of(d, other)), (there, 0), "decision")
        computed = after["prompt_tokens"] - after["cached_tokens"] - computed
        check(computed < tokens / 2, "%d of %d tokens computed again" % (computed, tokens))


@story
def a_dead_prefill_server():
    """llm-d's sidecars let their engine compute the prompt. Dynamo's fail requests until HAProxy's
    check of the server has failed; from then on none."""
    for strict in (False, True):
        with Split(strict=strict) as f:
            f.ready()
            f.control("p1", "dead=refuse")
            if strict:
                f.wait_down("p1")
            seen = set()
            for i in range(12):
                seen.add(f.good(talk("dead %d" % i)).prefill)
            check("127.0.0.1:%d" % f.engines["p2"] in seen, "p2 is not used: %r" % seen)
            f.wait_down("p1")
            f.control("p2", "dead=refuse")
            f.wait_down("p2")
            for i in range(4):
                equal(f.good(talk("none %d" % i)).prefill, "", "prefill")


@story
def a_dead_decode_server():
    """Sidecar and engine are one host: both end. HAProxy sends the request to the other server,
    with the same prefill server."""
    with Split() as f:
        f.ready()
        one = f.good(talk("dead"))
        f.end("sidecar-" + one.server, 9)
        f.end(one.server, 9)
        for i in range(8):
            a = f.good(next_turn(talk("dead"), one, i) if i < 3 else talk("dead %d" % i))
            check(a.engine != one.server, "answered by the dead one")
        wait_for("HAProxy's check", 5, lambda: f.up_servers("pool") == 1)
        last = f.good(talk("after"))
        check(last.prefill and last.server != one.server, "%r %r" % (last.prefill, last.server))


@story
def without_sidecars_all_is_answered():
    """The header reaches the engines, which ignore it. Nothing is transferred, so the prefill
    servers are never asked."""
    with Split(sidecars=False) as f:
        f.ready()
        split = [bool(f.good(talk("absent %d" % i)).prefill) for i in range(6)]
        check(any(split), "not split")
        equal([f.engine(n)["requests"] for n in f.prefills], [0, 0], "requests to prefill servers")


@story
def without_the_agent_nothing_is_split():
    with Split() as f:
        f.ready()
        split, alone = f.split()
        f.end("agent", 9)
        wait_for("HAProxy's check of the agent", 5, lambda: f.up_servers("spoe_agent") == 0)
        for i in range(4):
            f.good(talk("no agent %d" % i), headers={NAME: "127.0.0.1:%d" % f.engines["p1"]})
        equal(f.split(), (split, alone + 4), "split")


def two_pools(cfg, doors):
    """The recipe with one server in its pool, and another pool "other" with one, for requests with
    "x-pool: other"."""
    a, b = cfg.index("\nbackend pool\n"), cfg.index("# ---- the prefill servers, from here")
    other = edited(cfg[a:b], "\nbackend pool\n", "backend other\n")
    other = edited(other, "127.0.0.1:%d" % doors[0], "127.0.0.1:%d" % doors[1])
    cfg = cfg[:b] + other + cfg[b:]
    return edited(cfg, "    default_backend pool",
                  "    http-request set-var(txn.pool) str(pool)\n"
                  "    http-request set-var(txn.pool) str(other) if { hdr(x-pool) other }\n"
                  "    use_backend other if { hdr(x-pool) other }\n    default_backend pool")


@story
def two_decode_pools_share_prefill_servers():
    with Split(prefill=1, more=True) as f:
        f.ready()
        for pool, server, messages in (("pool", "s1", talk("two")), ("other", "s2", talk("two o"))):
            a = f.good(messages, headers={"x-pool": pool})
            d = f.decision()
            equal((a.engine, d["pool"], d["prefill"]), (server, pool, "p1"), "decision")
        # what p1 computed for one pool it need not compute for the other
        f.good(next_turn(talk("two"), a, 1) + talk("more"), headers={"x-pool": "other"})
        d = f.decision()
        check(d["prefill"] == "p1" and d["prefill_cached_tokens"] > 1500, "decision %r" % d)
        shown = f.metrics()
        equal(shown['kvroute_pool_prefill_total{pool="other"}'], 2, "prompts of the pool other")
        check(shown['kvroute_pool_prefill_total{pool="pool"}'] >= 1, "none of the pool pool")


if __name__ == "__main__":
    sys.exit(cases.main(STORIES, sys.argv[1:]))
