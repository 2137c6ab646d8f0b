#!/usr/bin/env python3
"""polls.py [-k WORD] - the sources that the agent polls: HAProxy's stats sockets, and metrics of
engines.

A real HAProxy and stub engines; one fleet a story. Prints a line for each; the last one is "N
passed, N failed".
"""
import collections
import http.client
import json
import os
import re
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import cases  # noqa: E402
import fleet  # noqa: E402
from fleet import edited, wait_for  # noqa: E402
from stories import check, conversation, equal, next_turn  # noqa: E402

STORIES = []
TIMEOUT_MS = 2000       # of one poll of an engine: one that is well answers by then
QUICK = "stats_feed: {sockets: [\"unix@%s\"], interval: 50 ms}\n"


def story(f):
    STORIES.append(f)
    return f


class Polled(fleet.Fleet):
    """<polls>: a function of the fleet that returns lines of the agent's configuration. It is
    called when the engines have their ports."""
    learns = True       # a story adds the section policy

    def __init__(self, polls=lambda f: "", **kw):
        super().__init__(**kw)
        self.polls = polls

    def agent_yaml(self):
        return super().agent_yaml() + "index: {max_bytes: 16 MiB}\n" + self.polls(self)

    def reload(self, polls):
        self.polls = polls
        self.write("kvroute.yaml", self.agent_yaml())
        before = self.log().count("reload")
        self.processes["agent"].send_signal(signal.SIGHUP)
        wait_for("the reload", 5, lambda: self.log().count("reload") > before)

    def log(self):
        with open(os.path.join(self.folder, "agent.log"), errors="replace") as f:
            return f.read()

    def connections_of(self, name):
        return json.loads(self.get("/control", self.controls[name])[1])["accepted"]

    def value(self, name):
        return self.metrics().get(name)

    def wait_value(self, name, test, seconds=5):
        return wait_for(name, seconds,
                        lambda: (lambda v: v is not None
                                 and (test(v) if callable(test) else v == test))(
            self.value(name)))


def sockets(f):
    return QUICK % f.stats_path


def engines(f, names=None, at=None, timeout_ms=TIMEOUT_MS, interval_ms=50):
    rows = "".join("  - {name: %s, pool: pool, metrics: \"%s\"}\n"
                   % (n, (at or {}).get(n, "127.0.0.1:%d" % f.engines[n]))
                   for n in names or f.names)
    return ("engine_feed: {interval: %d ms, timeout: %d ms}\nengines:\n" % (interval_ms, timeout_ms)
            + rows)


def server(name, metric):
    return "kvroute_%s{pool=\"pool\",server=\"%s\"}" % (metric, name)


def where(f, n, seed):
    return collections.Counter(f.chat(conversation("%s %d" % (seed, i))).engine for i in range(n))


# ---- stats sockets

@story
def drain_is_seen():
    with Polled(polls=sockets) as f:
        equal(len(where(f, 12, "before")), 4, "servers used")
        f.haproxy_command("set server pool/s2 state drain")
        f.haproxy_command("set server pool/s3 state maint")
        f.wait_value(server("s2", "server_closed"), 1)
        f.wait_value(server("s3", "server_closed"), 1)
        seen = where(f, 20, "drained")
        equal(sorted(seen), ["s1", "s4"], "servers used")
        f.haproxy_command("set server pool/s2 state ready")
        f.haproxy_command("set server pool/s3 state ready")
        f.haproxy_command("set server pool/s4 weight 0")
        f.wait_value(server("s2", "server_closed"), 0)
        wait_for("s3 to be up again", 5, lambda: f.up_servers("pool") == 4)
        equal(sorted(where(f, 20, "ready")), ["s1", "s2", "s3"], "servers used")
        equal(f.value("kvroute_stats_sockets"), 1, "sockets")
        check("HAProxy stats socket answers" in f.log(), "the log says nothing")


@story
def a_socket_that_denies():
    with Polled(polls=sockets) as f:
        if "capabilities kept" in f.log():
            print("skipped: a socket that denies, root keeps its capabilities with sanitizers")
            return
        # another error came before: HAProxy was not there yet
        os.chmod(f.stats_path, 0)
        remedy = "kvroute.yaml(5), stats_feed.sockets"
        wait_for("the warning with its remedy", 20, lambda: remedy in f.log())
        answers = f.log().count("HAProxy stats socket answers")
        os.chmod(f.stats_path, 0o600)
        wait_for("an answer", 20, lambda: f.log().count("stats socket answers") > answers)
        equal(f.log().count(remedy), 1, "warnings")


def eighty(f):
    def edit(text):
        text = re.sub(r"(?m)^    http-request set-var-fmt\(txn\.load\) .*\n", "", text)
        check("set-var-fmt(txn.load)" not in text, "there is a load string yet")
        more = "".join("    server s%d 127.0.0.1:%d\n" % (i, f[0].engines["s%d" % (i % 4 + 1)])
                       for i in range(5, 81))
        check("\ndefaults kvroute-agent" in text, "the pool ends elsewhere")
        return edited(text, "\ndefaults kvroute-agent", "\n" + more + "\ndefaults kvroute-agent")
    return edit


@story
def eighty_servers_without_a_load_string():
    """A pool too large for a load string; HAProxy's own health checks report which servers are
    up."""
    holder = []
    # an answer is valid for some intervals: long ones, because a busy machine may be late
    feed = "stats_feed: {sockets: [\"unix@%s\"], interval: 2 s}\npools: [{name: pool}]\n"
    f = Polled(polls=lambda f: feed % f.stats_path)
    f.edit = eighty(holder)
    holder.append(f)
    f.up_wanted = 80
    with f:
        f.wait_value("kvroute_stats_rows_total{result=\"taken\"}", lambda v: v >= 80)
        seen = collections.Counter()
        for i in range(40):
            got = f.chat(conversation("many %d" % i))
            equal(got.why, "cold", "why")
            seen[got.server] += 1
        check(len(seen) == 40, "40 new prompts went to %d servers" % len(seen))
        talk = conversation("again")
        one = f.chat(talk)
        two = f.chat(next_turn(talk, one, 1))
        equal((two.why, two.server), ("cached", one.server), "second turn")
        f.haproxy_command("set server pool/%s state drain" % one.server)
        f.wait_value(server(one.server, "server_closed"), 1)
        three = f.chat(next_turn(talk, one, 2))
        check(three.server not in ("", one.server), "the drained %s got it" % three.server)
        equal(f.value("kvroute_decisions_total{why=\"noload\"}"), 0, "decisions without load")


@story
def no_socket_no_answer_no_harm():
    """A missing socket, a hanging one, and one of another kind have no effect on requests."""
    with Hostile() as h:
        lines = lambda f: "stats_feed: {sockets: [\"unix@%s/nobody.sock\", " \
            "\"127.0.0.1:%d\", \"127.0.0.1:%d\"], interval: 50 ms, timeout: 100 ms}\n" % (
                f.folder, h.ports["hangs"], h.ports["garbage"])
        with Polled(polls=lines) as f:
            f.wait_value("kvroute_stats_polls_total{result=\"unreachable\"}", lambda v: v >= 3)
            f.wait_value("kvroute_stats_polls_total{result=\"bad\"}", lambda v: v >= 1)
            equal(len(where(f, 12, "x")), 4, "servers used")
            check("no answer in time" in f.log() and "not the table" in f.log(),
                  "the log says nothing")


# ---- engines

@story
def capacity_is_learned():
    with Polled(polls=engines, engine_options=["--blocks", "700", "--block-size", "32"]) as f:
        talk = conversation("c")
        one = f.chat(talk)
        f.wait_value(server(one.engine, "server_room_tokens"), 699 * 32)
        for name in f.names:
            f.wait_value(server(name, "engine_capacity_tokens"), 699 * 32)
        m = f.metrics()
        equal(m[server("s1", "engine_block_size_tokens")], 32, "block size")
        equal(m[server("s1", "engine_waiting_requests")], 0, "waiting")
        check(0 <= m[server(one.engine, "engine_kv_used_ratio")] < 1, "use of the cache")
        equal(m["kvroute_engines"], 4, "engines")
        f.haproxy_command("disable health pool/s1")         # they would be connections, too
        before, asked = f.connections_of("s1"), f.value(
            "kvroute_engine_polls_total{result=\"answered\"}")
        # 12 each
        f.wait_value("kvroute_engine_polls_total{result=\"answered\"}", lambda v: v >= asked + 48)
        # one check may have been in flight
        check(f.connections_of("s1") - before <= 3, "no connection was kept")
        f.reload(lambda f: engines(f) + "policy: {capacity: 1600}\n")
        f.wait_value(server(one.engine, "server_room_tokens"), 1600)
        f.end("s1", signal.SIGKILL)
        f.wait_value("kvroute_engine_polls_total{result=\"unreachable\"}", lambda v: v >= 1)
        wait_for("the report to be stale", 5,
                 lambda: server("s1", "engine_waiting_requests") not in f.metrics())
        equal(f.value(server("s2", "engine_waiting_requests")), 0, "the others")


@story
def requests_from_elsewhere_count():
    """Some engines get requests that HAProxy does not see: the other engines are preferred."""
    # a report counts for some intervals: long ones, so that a busy machine is not late
    slowly = lambda f: engines(f, interval_ms=1000)
    with Polled(polls=slowly, engine_options=["--decode-ms", "20"]) as f:
        where(f, 8, "warm")
        direct = [direct_chat(f, "s1", i) for i in range(10)]
        f.wait_value(server("s1", "engine_foreign_requests"), lambda v: v >= 8)
        equal(sorted(where(f, 12, "rest")), ["s2", "s3", "s4"], "servers used")
        for c in direct:
            c.close()
        f.wait_value(server("s1", "engine_foreign_requests"), 0)


def direct_chat(f, name, i):
    """A connection whose stream goes on until it is closed."""
    c = http.client.HTTPConnection("127.0.0.1", f.engines[name], timeout=fleet.HANG_SECONDS)
    c.request("POST", "/v1/chat/completions",
              json.dumps({"messages": conversation("direct %d" % i), "max_tokens": 40000,
                          "model": "stub",
                          "stream": True}), {"content-type": "application/json"})
    return c


@story
def load_by_path():
    """SGLang's /v1/loads in place of metrics."""
    at = lambda f: {n: "http://127.0.0.1:%d/v1/loads" % f.engines[n] for n in f.names}
    with Polled(polls=lambda f: engines(f, at=at(f)), engine_options=["--blocks", "700"]) as f:
        f.chat(conversation("l"))
        f.wait_value(server("s1", "engine_capacity_tokens"), 700 * 16)
        f.wait_value(server("s1", "engine_running_requests"), 0)
        f.control("s1", "kv=0.5")
        f.wait_value(server("s1", "engine_kv_used_ratio"), 0.5)
        equal(f.value("kvroute_engine_polls_total{result=\"bad\"}"), 0, "bad answers")


LIVE = dict(conf="recipes/engine-load.cfg")
USED = "kvroute_engine_kv_used_ratio{pool=\"pool\",server=\"%s\"}"
TAKEN = "kvroute_engine_headers_total{result=\"taken\"}"


def turns_until(f, talk, one, what, test, n=1000):
    """Send next turns of a conversation, not streamed, until test(answer)."""
    for i in range(n):
        got = f.chat(next_turn(talk, one, "%s %d" % (what, i)))
        if test(got):
            return got
    raise AssertionError("no turn " + what)


@story
def load_without_polls():
    """The load header of answers comes with the log line. An engine that reports a full cache loses
    its conversation; the report is about no other server."""
    with Polled(**LIVE) as f:
        talk = conversation("o")
        one = f.chat(talk)
        home = one.engine
        f.wait_value(TAKEN, lambda v: v >= 1)
        for i in range(20):
            f.settled()
            equal(f.chat(next_turn(talk, one, "before %d" % i)).engine, home, "a turn")
        equal(f.value("kvroute_engines"), 0, "engines polled")
        f.control(home, "kv=0.999")
        turns_until(f, talk, one, "goes elsewhere", lambda a: a.engine != home)
        # a report holds for 3 s: on a busy machine it may have expired when the page is read
        check("\"kv_s\":0.5" in f.get("/decisions", f.metrics_port)[1],
              "no decision has the cost of a full cache")
        for result in ("bad", "unknown"):
            equal(f.value("kvroute_engine_headers_total{result=\"%s\"}" % result), 0, result)
        used = {n: f.value(USED % n) for n in f.names}
        check(used[home] in (None, 0.999), "another share of %s" % home)
        check(all(v is None or v < 0.9 for n, v in used.items() if n != home), "of another server")


class Hostile:
    """Four endpoints with a fault each."""

    ANSWERS = {
        "garbage": b"\x00\xff\x01garbage {{{ \r\n\r\n",
        "status": b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n",
        "html": b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>",
        "hangs": None,
        "endless": b"HTTP/1.1 200 OK\r\n\r\n",
        "slow": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
    }

    def __enter__(self):
        self.on, self.ports, self.listeners = True, {}, []
        for name, answer in self.ANSWERS.items():
            s = socket.create_server(("127.0.0.1", 0))
            self.ports[name] = s.getsockname()[1]
            self.listeners.append(s)
            threading.Thread(target=self.accept, args=(s, name, answer), daemon=True).start()
        return self

    def accept(self, s, name, answer):
        while self.on:
            try:
                c, _ = s.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(c, name, answer), daemon=True).start()

    def answer(self, c, name, answer):
        try:
            if answer is None:
                time.sleep(fleet.HANG_SECONDS)
            c.settimeout(fleet.HANG_SECONDS)
            c.recv(4096)
            c.sendall(answer)
            while self.on and name == "endless":
                c.sendall(b"x_bucket{le=\"1\"} 1\n" * 3000)
            while self.on and name == "slow":
                time.sleep(0.05)
                c.sendall(b"v")
        except OSError:
            pass
        finally:
            c.close()

    def __exit__(self, *a):
        self.on = False
        for s in self.listeners:
            s.close()


@story
def bad_endpoints_harm_nothing():
    with Hostile() as h:
        kinds = list(h.ports)
        at = {k: "127.0.0.1:%d" % h.ports[k] for k in kinds}
        # Each is named once, with its first fault: so those that answer must do so in time.
        ms = 4 * TIMEOUT_MS
        with Polled(polls=lambda f: engines(f, ["s1", "s2"], timeout_ms=ms) + "".join(
                "  - {name: %s, pool: pool, metrics: \"%s\"}\n" % (k, at[k]) for k in kinds) +
                "  - {name: s3, pool: pool, metrics: \"127.0.0.1:9\"}\n") as f:
            first = f.chat(conversation("h"))
            f.wait_value("kvroute_engine_polls_total{result=\"bad\"}", lambda v: v >= 6)
            f.wait_value("kvroute_engine_polls_total{result=\"unreachable\"}", lambda v: v >= 4)
            taken = sorted(int(f.chat(conversation("h %d" % i)).us) for i in range(40))
            check(taken[20] < ms * 1000 / 20,
                  "half of the decisions took %d us, as if they waited for an endpoint" % taken[20])
            equal(f.chat(next_turn(conversation("h"), first, 1)).why, "cached", "second turn")
            for name in ("s1", "s2"):
                f.wait_value(server(name, "engine_running_requests"), 0)
            for word in ("no answer in time", "Connection refused", "HTTP status 404",
                         "no metric of a known engine", "not HTTP/1"):
                wait_for("the log to say: " + word, 5, lambda: word in f.log())
            log = f.log()
            bad = [line for line in log.splitlines() if "no metrics from engine" in line
                   and not re.search(r"server=s[12]\b", line)]
            check(len(bad) <= 9, "%d lines in the log" % len(bad))


# ---- addresses from the stats socket

STAR = "engine_feed: {interval: 50 ms, timeout: 2 s}\n" \
    "engines: [{name: \"*\", pool: pool, metrics: \"{address}:{port}\"}]\n"


@story
def servers_are_listed_once():
    """Engines are the servers that HAProxy shows; those that come, move and go are followed."""
    with Polled(polls=lambda f: sockets(f) + STAR, engine_options=["--decode-ms", "20"]) as f:
        f.wait_value("kvroute_engines", 4)
        f.chat(conversation("one"))
        for name in f.names:
            f.wait_value(server(name, "engine_running_requests"), 0)
        f.haproxy_command("add server pool/s9 127.0.0.1:%d" % f.engines["s1"])
        f.haproxy_command("enable server pool/s9")
        f.wait_value("kvroute_engines", 5)
        f.wait_value(server("s9", "engine_running_requests"), 0)
        f.haproxy_command("set server pool/s9 addr 127.0.0.1 port 9")
        f.wait_value("kvroute_engine_polls_total{result=\"unreachable\"}", lambda v: v >= 1)
        equal(f.value("kvroute_engines"), 5, "engines")
        f.haproxy_command("set server pool/s9 state maint")
        f.haproxy_command("del server pool/s9")
        f.wait_value("kvroute_engines", 4)
        one = direct_chat(f, "s3", 0)
        f.wait_value(server("s3", "engine_running_requests"), 1)
        equal(f.value(server("s2", "engine_running_requests")), 0, "running on s2")
        f.reload(lambda f: sockets(f) + STAR.replace("]\n", ", {name: s2, pool: pool, metrics: "
                                                     "\"127.0.0.1:%d\"}]\n" % f.engines["s3"]))
        f.wait_value(server("s2", "engine_running_requests"), 1)
        one.close()
        equal(f.value("kvroute_engines"), 4, "engines")
        f.reload(sockets)
        f.wait_value("kvroute_engines", 0)


def a_user_too(text):
    line = re.search(r"(?m)^ *stats socket .*$", text).group(0)
    path, = re.findall(r"stats socket (\S+)", line)
    return edited(text, line, "%s\n    stats socket %s.user mode 600 level user" % (line, path))


@story
def a_socket_without_addresses_is_named():
    lines = lambda f: QUICK % (f.stats_path + ".user") + STAR
    with Polled(polls=lines, edit=a_user_too) as f:
        wait_for("the warning", 5, lambda: "shows no addresses of servers" in f.log())
        f.wait_value("kvroute_stats_polls_total{result=\"answered\"}", lambda v: v >= 5)
        equal(f.log().count("shows no addresses of servers"), 1, "warnings")
        check("level operator" in f.log(), "no remedy is named")
        equal(f.value("kvroute_engines"), 0, "engines")
        f.reload(lambda f: sockets(f) + STAR)
        f.wait_value("kvroute_engines", 4)
        equal(len(where(f, 12, "x")), 4, "servers used")


# ---- reloads

@story
def a_reload_adds_and_removes():
    with Polled(polls=lambda f: engines(f, ["s1", "s2"])) as f:
        f.chat(conversation("r"))
        f.wait_value(server("s1", "engine_running_requests"), 0)
        f.wait_value(server("s1", "server_capacity_source"), 3)
        check(server("s3", "engine_running_requests") not in f.metrics(), "s3 is asked")
        # s3 by the port of another engine: the sandbox knows only the ports of the start
        f.reload(lambda f: engines(f, ["s2", "s3"], {"s3": "127.0.0.1:%d" % f.engines["s1"]}))
        f.wait_value(server("s3", "engine_running_requests"), 0)
        wait_for("s1 to be forgotten", 5,
                 lambda: server("s1", "engine_running_requests") not in f.metrics())
        equal(f.value(server("s1", "server_capacity_source")), 1,
              "who says how large the cache of s1 is")
        equal(f.value("kvroute_engines"), 2, "engines")
        f.reload(lambda f: "")
        f.wait_value("kvroute_engines", 0)
        f.reload(lambda f: engines(f, ["s1"]) + sockets(f))
        f.wait_value("kvroute_engines", 1)
        f.wait_value(server("s2", "server_watchers"), 1)
        f.reload(lambda f: engines(f, ["s4"]))
        refused = "cannot add an engine or a stats socket at port %d" % f.engines["s4"]
        abi = re.search(r"landlock=abi(\d+)", f.log())
        if abi and int(abi.group(1)) >= 4:
            check(refused in f.log(), "a new port is not refused")
            equal(f.value("kvroute_engines"), 1, "engines after what was refused")
        else:
            f.wait_value(server("s4", "engine_running_requests"), 0)


@story
def the_first_needs_a_restart():
    with Polled() as f:
        equal((f.value("kvroute_engines"), f.value("kvroute_stats_sockets")), (0, 0),
              "nobody is asked")
        sandboxed = f.value("kvroute_sandbox{part=\"seccomp\"}")
        f.reload(lambda f: engines(f, ["s1"]))
        if not sandboxed:
            f.wait_value("kvroute_engines", 1)
            return
        check("the sandbox was closed to all outgoing connections" in f.log(), "it is not refused")
        equal(f.value("kvroute_engines"), 0, "engines")
        equal(len(where(f, 8, "x")) > 1, True, "servers used")


if __name__ == "__main__":
    sys.exit(cases.main(STORIES, sys.argv[1:]))
