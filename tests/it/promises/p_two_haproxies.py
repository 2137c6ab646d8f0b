#!/usr/bin/env python3
"""p_two_haproxies.py [-k WORD] - two HAProxy processes, one agent.

Each sends its own load string. The agent adds the open requests of both, and a load string closes
only requests of its own process. If one process is killed, its open requests are closed after the
agent has heard only the other for ledger.max_silence. The other is not affected, and a prompt is
found at its server through either process.
"""
import collections
import http.client
import json
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

# noqa: E402
from traffic import HANG_SECONDS, HEADERS, Fleet, Traffic, a_text, hit_share, main, wait_for, warm

SILENCE_MS = 4000       # longer than either is silent under load
ENGINE = ["--prefill-tps", "1000000", "--decode-ms", "5"]
OPEN, BY_LOAD, BY_SILENCE = ("kvroute_ledger_open_requests",
                             "kvroute_ledger_closed_total{reason=\"load\"}",
                             "kvroute_ledger_closed_total{reason=\"silence\"}")


class TwoHaproxies(Fleet):
    """The second has the configuration of the first, except its port and socket."""

    def start(self):
        super().start()
        self.port2, path = self.ports.take(), os.path.join(self.folder, "admin2.sock")
        with open(self.cfg_path) as g:
            text = g.read().replace("bind 127.0.0.1:%d" % self.port,
                                    "bind 127.0.0.1:%d" % self.port2)
        self.spawn("haproxy-2", [self.haproxy_bin, "-db", "-f",
                                 self.write("haproxy2.cfg", text.replace(self.stats_path, path))])
        first, self.stats_path = self.stats_path, path
        self.wait_alive("haproxy-2", "the second HAProxy", lambda: os.path.exists(path)
                        and self.up_servers("pool") == len(self.names)
                        and self.up_servers("spoe_agent") == 1)
        self.stats_path = first

    def stop(self, keep=False):
        self.end("haproxy-2", signal.SIGINT)
        super().stop(keep)


class Parked:
    """Start <n> streams through <port> that continue until end()."""

    def __init__(self, port, n, what):
        self.ended, self.connections = collections.Counter(), []
        self.threads = [threading.Thread(target=self.read,
                                         args=(port, "%s %d " % (what, i) + a_text(i)))
                        for i in range(n)]
        for t in self.threads:
            t.start()

    def read(self, port, text):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_SECONDS)
        self.connections.append(c)
        try:
            c.request("POST", "/v1/chat/completions", json.dumps({
                "messages": [{"role": "user", "content": text}], "model": "stub", "stream": True,
                "max_tokens": 40000}), HEADERS)
            self.ended[b"[DONE]" in c.getresponse().read()] += 1
        except (OSError, http.client.HTTPException):
            self.ended["broken"] += 1

    def end(self):
        for c in self.connections:
            if c.sock:
                c.sock.shutdown(2)
        for t in self.threads:
            t.join()


def open_is(f, n, seconds=10):
    return wait_for("%d open requests" % n, seconds,
                    lambda: (lambda m: m if m[OPEN] == n else None)(f.metrics()))


def each_is_counted_and_one_is_killed():
    with TwoHaproxies(engine_options=ENGINE,
                      agent_conf="ledger: {max_silence: %dms}" % SILENCE_MS) as f:
        a, b = Traffic(f, clients=4, tokens=5), Traffic(f, clients=4, tokens=5, port=f.port2)
        warm(a, f)
        for t in (a, b):        # a prompt sent through one is known for the other
            t.holders = {}
            c = http.client.HTTPConnection("127.0.0.1", t.port, timeout=HANG_SECONDS)
            for n in range(len(t.texts)):
                t.ask(c, n)
                t.holders[n] = t.rows[-1].engine
            c.close()
            assert all(r.why == "cached" for r in t.rows), [
                r for r in t.rows if r.why != "cached"][:3]
        assert a.holders == b.holders, "the two are sent to different servers"

        open_is(f, 0)
        at_a, at_b = Parked(f.port, 6, "a"), Parked(f.port2, 3, "b")
        try:
            # each load string counts less than both have open, and closes none of the other's
            before = open_is(f, 9)
            with Traffic(f, clients=2,
                         tokens=5) as a1, Traffic(f, clients=2, tokens=5, port=f.port2) as b1:
                until = time.monotonic() + 2
                wait_for("two seconds of load", 60, lambda: time.monotonic() > until)
            m = open_is(f, 9)
            by_load = m[BY_LOAD] - before[BY_LOAD]
            assert by_load == 0 and m[BY_SILENCE] == 0, (
                "%d closed by load strings that were not theirs") % by_load
            first = a1.rows + b1.rows

            with Traffic(f, clients=4, tokens=5) as a2:
                a2.wait(100)
                b2 = Traffic(f, clients=4, tokens=5, port=f.port2)
                b2.__enter__()
                b2.wait(50)
                f.processes["haproxy-2"].kill()
                killed = time.monotonic()
                b2.end()
                most = f.metrics()[OPEN]
                # open requests: six parked streams, and those of four clients
                m = wait_for("its requests to be closed", 30,
                             lambda: (lambda m: m if m[OPEN] <= 6 + 4 and m[BY_SILENCE] >= 3
                                      else None)(f.metrics()))
                took = time.monotonic() - killed
                a2.wait(200)
                share = hit_share(a2.between(killed,
                                             killed + took)), hit_share(a2.between(
                    killed + took, killed + 3600))
            m = open_is(f, 6)
            assert at_a.ended == {}, "streams of the one that lives have ended: %s" % dict(
                at_a.ended)
        finally:
            at_a.end()
            at_b.end()
        last = open_is(f, 0)
        others = a.rows + first + a2.rows
        failed, errors = [r.trouble for r in others
                          if r.trouble], [r.error for r in others if r.error]
        print("two HAProxys: requests=%d failed=%d spoe_errors=%d not_asked=%d closed_by_load=%d"
              % (len(others), len(failed), len(errors), sum(r.why == "" for r in others),
                 last[BY_LOAD]))
        print("two HAProxys: one killed: open=%d closed_by_silence=%d in %.1f s (max_silence %.1f "
              "s), hit before=%.3f meanwhile=%.3f after=%.3f"
              % (most, last[BY_SILENCE], took, SILENCE_MS / 1000, hit_share(first), *share))
        assert not failed, failed[:3]
        assert not errors, errors[:3]
        assert all(r.why for r in others), "some were not asked about"
        assert took > SILENCE_MS / 1000 - 1, "too early: it might have been quiet only"
        assert min(share) >= hit_share(first) - 0.05, "answers are worse"
        wrong = [r for r in a2.rows if r.why != "cached"]
        assert len(wrong) <= len(a2.rows) // 20, wrong[:3]
        assert last[BY_LOAD] == 0, "%d closed by load" % last[BY_LOAD]


CASES = [each_is_counted_and_one_is_killed]

if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
