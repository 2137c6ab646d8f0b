#!/usr/bin/env python3
"""answers.py [-k WORD] - HAProxy acts on the agent's answers: the recipes wait-limits.cfg,
priority.cfg and budgets.cfg with agent and stub engine, on each HAProxy under build/haproxy, or on
the one in HAPROXY. Each story goes on after the agent has died.

No verdict depends on speed: an engine that must be busy never answers, and what is compared
differs by hours.
"""
import glob
import hashlib
import http.client
import json
import os
import re
import socket
import sys
import threading

import cases
from cases import equal
from fleet import HANG_SECONDS, Fleet, HAPROXY, TOP, edited, wait_for

ACME = {"Authorization": "Bearer example-key-acme"}
UMBRELLA = {"x-api-key": "example-key-umbrella"}
BINARIES = [HAPROXY] if "HAPROXY" in os.environ \
    else sorted(glob.glob(TOP + "/build/haproxy/*/haproxy"))


def version_of(binary):
    return re.search(r"haproxy/([^/]+)/", binary)[1] if "haproxy/" in binary else binary


def text(word, tokens):
    """A prompt of about so many tokens that begins with <word>."""
    return (word + " ") * (4 * tokens // (len(word) + 1))


class Pending:
    """A request in a thread of its own."""

    def __init__(self, f, messages, headers=None, **more):
        self.answer, self.body, self.f = None, b"", f
        body = json.dumps({"messages": [{"role": "user", "content": messages}], "model": "stub",
                           "max_tokens": 1, **more})
        self.conn = http.client.HTTPConnection("127.0.0.1", f.port, timeout=HANG_SECONDS)
        self.conn.request("POST", "/v1/chat/completions", body,
                          {"content-type": "application/json", **(headers or {})})
        self.sock = self.conn.sock
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            self.answer = self.conn.getresponse()
            self.body = self.answer.read()
        except (OSError, http.client.HTTPException):
            pass

    def drop(self):
        """The client goes away."""
        self.sock.shutdown(2)
        self.thread.join(HANG_SECONDS)

    def join(self):
        self.thread.join(HANG_SECONDS)
        return self.answer.status if self.answer else None


def queued(f):
    """Requests that wait for s1, or, if no agent has named it, for any server."""
    rows = [line.split(",") for line in f.haproxy_command("show stat pool 6 -1").splitlines()]
    return sum(int(row[2]) for row in rows if row[0] == "pool")


def ask(f, messages="hello", headers=None, **more):
    return f.chat([{"role": "user", "content": messages}], headers=headers, **more)


def stall(f, *request):
    """A request that occupies the engine until its client goes away; others are answered."""
    before = json.loads(f.control("s1", "stall=1")[1])["stalled"]
    pending = Pending(f, *request)
    wait_for("the engine is occupied", 20,
             lambda: json.loads(f.control("s1", "stall=1")[1])["stalled"] == before + 1)
    equal(f.control("s1", "restore=1")[0], 200, "restore")
    return pending


def open_requests(f):
    return f.metrics()["kvroute_ledger_open_requests"]


def wait_facts(f):
    """Let the agent see the end of a stream, so that it knows of answers."""
    equal(ask(f, stream=True).status, 200, "the first request")
    wait_for("its facts", 20, lambda: open_requests(f) == 0 and any(
        k.startswith("kvroute_facts_total") and v > 0 for k, v in f.metrics().items()))
    equal(ask(f, stream=True).status, 200, "the second request")


def kill_agent(f):
    f.end("agent", 9)
    wait_for("HAProxy has noticed", 20, lambda: f.up_servers("spoe_agent") == 0)


# ---- stories

def refused_when_the_wait_is_too_long(binary):
    """wait-limits.cfg: each class has its own longest wait; what is refused costs the engine
    nothing"""
    # as slow as the engine will be: to the agent, too, the long prompt takes half an hour
    conf = "policy: {prefill_tokens_per_s: 10}"

    def limits(t):
        t = edited(t, "var(txn.kvroute.tokens),div(8)", "var(txn.kvroute.tokens),mul(100)")
        return edited(t, TOP + "/haproxy-conf/recipes/waits.map", waits)
    waits = os.path.join(os.environ.get("TMPDIR", "/tmp"), "waits.%d.map" % os.getpid())
    with open(waits, "w") as g:
        g.write("acme 2000000000\numbrella 60000\n")
    with Fleet(engines=1, haproxy=binary, conf="recipes/wait-limits.cfg", agent_conf=conf,
               edit=limits) as f:
        wait_facts(f)
        huge = ask(f, text("huge", 6000), UMBRELLA)
        equal((huge.status, "retry-after" in huge.headers), (413, False),
              "a prompt that takes 10 minutes alone")
        equal(ask(f, text("huge", 6000), ACME).status, 200, "a class that may wait so long")
        long = stall(f, text("long", 20000), ACME)
        equal(ask(f, text("other", 6000), UMBRELLA).status, 413, "while others wait")
        for key in (UMBRELLA, {}, {"x-api-key": "unknown"}):
            a = ask(f, text("short", 20), key)
            equal(a.status, 429, "a short request of %r" % key)
            equal(int(a.headers["retry-after"]) > 600, True, "seconds to wait, of 2000")
        for _ in range(20):
            equal(ask(f, text("short", 20), UMBRELLA).status, 429, "again")
        wait_for("no refused request is open", 20, lambda: open_requests(f) == 1)
        equal(ask(f, text("patient", 20), ACME).status, 200, "another class")
        equal([k for k, v in f.metrics().items() if k.startswith("kvroute_problem{") and v], [],
              "problems")
        equal(sum(v for k, v in f.metrics().items() if k.startswith("kvroute_failures_total")), 0,
              "failures of the engine")
        kill_agent(f)
        for key in (UMBRELLA, ACME, {}):
            equal(ask(f, text("late", 20), key).status, 200, "without the agent, %r" % key)
        long.drop()
    os.unlink(waits)


def served_in_order(f, names, requests):
    """The order in which <requests>, sent one after the other while the engine is stuck, are
    served."""
    first = stall(f, text("occupied", 500), ACME)
    pending = []
    for i, (name, (messages, key, more)) in enumerate(zip(names, requests)):
        pending.append(Pending(f, messages, key, **more))
        wait_for("%s is queued" % name, 20, lambda n=i: queued(f) == n + 1)
    first.drop()
    equal([p.join() for p in pending], [200] * len(pending), "all are served")
    # the engine counts requests as they come
    return [name for _, name in sorted(
        (int(json.loads(p.body)["id"].rpartition("-")[2]), name)
        for p, name in zip(pending, names))]


def queued_by_priority(binary):
    """priority.cfg: classes first, then short work before long, then as they came"""
    def edit(t):
        t = edited(t, "maxconn 16", "maxconn 1")
        t = edited(t, "timeout queue 30s", "timeout queue 1h")
        # hours instead of milliseconds, so that the order does not depend on when each came
        t = edited(t, "sub(txn.kvroute.hit_tokens),div(8)", "sub(txn.kvroute.hit_tokens),mul(200)")
        return edited(t, "mul(100)", "mul(20000)")
    hint = lambda n: {"nvext": {"agent_hints": {"priority": n}}}
    with Fleet(engines=1, haproxy=binary, conf="recipes/priority.cfg", edit=edit) as f:
        equal(ask(f, text("known", 1500)).status, 200, "a prompt to be cached")
        requests = [
            ("batch", (text("batch", 20), UMBRELLA, {})),
            ("long", (text("unseen", 1500), {}, {})),
            ("cached", (text("known", 1500), {}, {})),
            ("hinted", (text("other", 1500), {}, hint(10))),
            ("short", (text("tiny", 200), {}, {})),
            ("best", (text("best", 1500), ACME, hint(-8))),
        ]
        names, what = zip(*requests)
        equal(served_in_order(f, names, what),
              ["best", "cached", "short", "hinted", "long", "batch"], "with the agent")
        kill_agent(f)
        equal(served_in_order(f, names, what),
              ["best", "long", "cached", "hinted", "short", "batch"], "without the agent")


def budgets_of_tokens(binary):
    """budgets.cfg: a key has so many tokens a minute, a dear model uses more of them"""
    maps = os.path.join(os.environ.get("TMPDIR", "/tmp"), "budgets.%d" % os.getpid())
    with open(maps + ".map", "w") as g:
        g.write("acme 4000\numbrella 2000\ncrowd 2000\n")
    with open(maps + ".keys", "w") as g:
        with open(TOP + "/haproxy-conf/recipes/keys.map") as keys:
            g.write(keys.read())
        g.write("%s crowd\n" % hashlib.sha256(b"example-key-crowd").hexdigest())
    with open(maps + ".prices", "w") as g:
        g.write("dear 8\n")

    def edit(t):
        t = edited(t, TOP + "/haproxy-conf/recipes/budgets.map", maps + ".map")
        t = edited(t, TOP + "/haproxy-conf/recipes/prices.map", maps + ".prices")
        t = edited(t, TOP + "/haproxy-conf/recipes/keys.map", maps + ".keys")
        t = edited(t, "request wait-for-body time 10m", "request wait-for-body time 1h")
        t = edited(t, "timeout http-request 10s", "timeout http-request 1h")
        # a minute that does not end
        t = edited(t, "gpc_rate(1,60s)", "gpc_rate(1,20d)")
        return edited(t, "%[date,div(60)]", "now")
    with Fleet(engines=1, haproxy=binary, conf="recipes/budgets.cfg", edit=edit) as f:
        equal(ask(f).status, 401, "without a key")
        got = [ask(f, text("umbrella%d" % i, 600), UMBRELLA) for i in range(6)]
        equal([a.status for a in got], [200] * 4 + [429] * 2, "600 tokens each of 2000")
        equal(got[-1].headers["retry-after"], "60")
        equal(got[0].model, "stub", "variable model")
        equal(550 < int(got[0].tokens) < 700, True, "variable tokens: " + got[0].tokens)
        equal([ask(f, text("dear", 400), ACME, model="dear").status for _ in range(3)],
              [200, 200, 429], "400 tokens each at eight times the price, of 4000")
        at_once(f, "show table budgets")
        # HAProxy keeps an entry while a stream that counts in it has not quite ended
        wait_for("an empty table", 20, lambda: f.haproxy_command("clear table budgets") is not None
                 and "used:0" in f.haproxy_command("show table budgets"))
        kill_agent(f)
        got = [ask(f, text("umbrella%d" % i, 600), UMBRELLA).status for i in range(6)]
        equal(got, [200] * 4 + [429] * 2, "without the agent, by bytes")
        equal(ask(f, headers=ACME).status, 200, "another key")
    os.unlink(maps + ".map")
    os.unlink(maps + ".prices")
    os.unlink(maps + ".keys")


def at_once(f, show):
    """Requests that all pass the first look at the budget, because none has come in whole."""
    pending = []
    for i in range(6):
        body = json.dumps({"model": "stub", "max_tokens": 1, "messages": [
            {"role": "user", "content": text("crowd%d" % i, 600)}]}).encode()
        s = socket.create_connection(("127.0.0.1", f.port), HANG_SECONDS)
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json"
                  b"\r\nx-api-key: example-key-crowd\r\ncontent-length: %d\r\n\r\n" % len(body)
                  + body[:-1])
        pending.append(s)
    wait_for("all have passed it", 20, lambda: sum(
        int(n) for n in re.findall(r"key=crowd.* use=(\d+)", f.haproxy_command(show))) == 6)
    got = []
    for s in pending:
        s.sendall(b"}")
        answer = http.client.HTTPResponse(s)
        answer.begin()
        got.append(answer.status)
        answer.read()
        s.close()
    equal(got, [200] * 4 + [429] * 2, "600 tokens each of 2000, at once")


def on(story, binary):
    def run():
        story(binary)
    run.__name__ = "%s (%s)" % (story.__name__, version_of(binary))
    return run


STORIES = [on(s, b) for b in BINARIES
           for s in (refused_when_the_wait_is_too_long, queued_by_priority, budgets_of_tokens)]

if __name__ == "__main__":
    sys.exit(cases.main(STORIES, sys.argv))
