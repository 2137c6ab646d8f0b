#!/usr/bin/env python3
"""p_lossy_feed.py [-k WORD] - log lines that are lost, repeated, late or in pieces.

A proxy between HAProxy's ring and the agent does so to three of ten lines. The agent learns from
the log which requests have ended, so its ledger becomes wrong. But no request may fail. The number
of open requests must not drift during the load, and must return to 0 within the documented time
after it. Requests must be spread as without the proxy. A line that comes twice is counted, and is
used once.
"""
import collections
import os
import random
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

# noqa: E402
from traffic import FAST, HANG_SECONDS, TEXTS, Fleet, Traffic, main, shares, wait_for, warm
from fleet import edited  # noqa: E402

SHARE = 0.3
CLIENTS = 8
CUT_EVERY_S = 0.7       # HAProxy 3.2 waits for a second before it connects again
OPEN = "kvroute_ledger_open_requests"


class BadFeed:
    """Receives HAProxy's lines and sends them to the agent at <port>, changed by <how>."""

    def __init__(self, port, how, share=SHARE):
        self.port, self.how, self.share, self.random = port, how, share, random.Random(5)
        self.came = self.dropped = self.twice = self.swapped = self.cut = 0
        self.held, self.to, self.cut_at = [], None, time.monotonic()
        self.s = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.s.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                c, _ = self.s.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        try:
            with c, socket.create_connection(("127.0.0.1",
                                              self.port)) as to, c.makefile("rb") as lines:
                self.to, self.cut_at = to, time.monotonic()
                for line in lines:
                    self.came += 1
                    if not self.give(to, line):
                        return
        except OSError:
            pass

    def give(self, to, line):
        """Return False if the connection was cut."""
        bad = self.random.random() < self.share
        if self.how == "reordered":
            return self.reorder(to, line, bad)
        if self.how == "lost" and bad:
            self.dropped += 1
            return True
        if self.how == "cut" and time.monotonic() > self.cut_at + CUT_EVERY_S:
            self.cut += 1
            to.sendall(line[:self.random.randrange(1, len(line))])
            return False
        to.sendall(line)
        if self.how == "twice" and bad:
            self.twice += 1
            to.sendall(line)
        return True

    def reorder(self, to, line, bad):
        """Hold some lines back until there are five, then send them in reverse order."""
        if bad:
            self.held.append(line)
            self.swapped += 1
        else:
            to.sendall(line)
        if len(self.held) >= 5:
            self.flush()
        return True

    def flush(self):
        held, self.held = self.held, []
        self.to.sendall(b"".join(reversed(held)))

    def __str__(self):
        return "came=%d lost=%d twice=%d late=%d cut=%d" % (
            self.came, self.dropped, self.twice, self.swapped, self.cut)

    def close(self):
        self.s.close()


class BadlyFed(Fleet):
    def __init__(self, how, share=SHARE, max_age_s=6, **kw):
        super().__init__(agent_conf="ledger: {max_age: %ds}" % max_age_s, edit=self.by_the_proxy,
                         **kw)
        self.feed = BadFeed(self.feed_port, how, share)

    def by_the_proxy(self, text):
        old = "server agent 127.0.0.1:%d" % self.feed_port
        assert text.count(old) == 1
        return edited(text, old, "server agent 127.0.0.1:%d" % self.feed.own_port)

    def stop(self, keep=False):
        super().stop(keep)
        self.feed.close()


def busiest(rows):
    """Return the requests of the busiest second."""
    ends = collections.Counter(int(r.end) for r in rows)
    return max(ends.values())


def closed_by(m, reason):
    return m["kvroute_ledger_closed_total{reason=\"%s\"}" % reason]


def enough(f):
    """Wait until the feed has lost enough lines and the agent has reacted, at any speed."""
    if f.feed.how == "cut":
        return f.feed.cut >= 3
    return f.feed.came >= 300 and (f.feed.how != "lost" or closed_by(f.metrics(), "load") > 0)


def a_bad_feed(how, seconds, max_age_s, judge):
    """Run at least <seconds> of load; <judge> checks the feed's counts and the metrics before and
    after."""
    def case():
        with BadlyFed(how, max_age_s=max_age_s, engine_options=FAST) as f:
            t = Traffic(f, clients=CLIENTS, tokens=10)
            warm(t, f)
            half = [[], []]         # samples of open requests in each half
            with t:
                begun = time.monotonic()
                while time.monotonic() < begun + seconds or not enough(f):
                    assert time.monotonic() < begun + HANG_SECONDS, "too little came: %s" % f.feed
                    late = time.monotonic() > begun + seconds / 2
                    half[late].append(f.metrics()[OPEN])
                    time.sleep(0.05)
                ended = time.monotonic()
            closed = f.metrics()
            if how == "reordered":
                f.feed.flush()
            m = wait_for("nothing to be open", 60,
                         lambda: (lambda m: m if m[OPEN] == 0 else None)(f.metrics()))
            took = time.monotonic() - ended
            if how in ("twice", "lost"):      # the last ones may be on their way
                wait_for("all lines", 10,
                         lambda: f.metrics()["kvroute_feed_lines_total{result=\"taken\"}"]
                         == f.feed.came + f.feed.twice - f.feed.dropped)
                m = f.metrics()
        spread, rate = shares(t.rows), busiest(t.rows)
        print("feed %s: %s requests=%d failed=%d errors=%d taken=%d bad=%d unknown=%d"
              % (how, f.feed, len(t.rows), len(t.failed()), len(t.errors()),
                 m["kvroute_feed_lines_total{result=\"taken\"}"],
                 m["kvroute_feed_lines_total{result=\"bad\"}"], m["kvroute_facts_unknown_total"]))
        print("feed %s: open most=%d,%d of %d clients, %.0f requests/s; closed load=%d age=%d; 0 "
              "after %.1f s; shares %s"
              % (how, max(half[0]), max(half[1]), CLIENTS, rate, closed_by(m, "load"),
                 closed_by(m, "age"), took,
                 " ".join("%s=%.2f" % s for s in spread.items())))
        assert not t.failed(), t.failed()[:3]
        assert not t.errors(), t.errors()[:3]
        assert len(spread) == 4 and min(spread.values()) > 0.04 and max(
            spread.values()) < 0.6, spread
        # requests whose ends are lost count as load, the more the faster the machine is, and load
        # takes some from their cache
        cached = sum(r.why == "cached" for r in t.rows) / len(t.rows)
        assert cached > (0.5 if how == "lost" else 0.9), "%.2f found in the cache" % cached
        # at most the open requests, those lost in the two rounds that find it, and those that the
        # second round does not see
        bound = 2 * CLIENTS + SHARE * rate * 6
        assert max(half[1]) <= bound, "open requests drift: %d, bound %d" % (max(half[1]), bound)
        # with the default, ten minutes, or without an end it would not be over by now
        assert took < HANG_SECONDS, "open for %.1f s after the load" % took
        judge(f.feed, m, closed)
    case.__name__ = "lines_" + how
    return case


def lost(feed, m, closed):
    assert feed.dropped > SHARE / 2 * feed.came
    assert m["kvroute_feed_lines_total{result=\"taken\"}"] == feed.came - feed.dropped
    assert closed_by(closed, "age") == 0 and closed_by(closed,
                                                       "load") > 0, (
         "load strings do not find what is lost")


def twice(feed, m, closed):
    assert feed.twice > SHARE / 2 * feed.came
    assert m["kvroute_facts_unknown_total"] >= feed.twice, "not all that came twice are counted"
    assert closed_by(m, "age") + closed_by(m, "load") == 0


def reordered(feed, m, closed):
    assert feed.swapped > SHARE / 2 * feed.came
    assert closed_by(m, "age") <= 5, "what comes late was closed by age"


def cut(feed, m, closed):
    assert feed.cut >= 2 and m["kvroute_feed_accepted_total"] >= feed.cut


def a_failure_told_twice_teaches_once():
    """If every line comes twice, each failure of an engine is still counted once."""
    with BadlyFed("twice", share=1, engine_options=FAST) as f:
        t = Traffic(f, clients=CLIENTS, tokens=5)
        warm(t, f)
        for name in f.names:
            f.control(name, "fail=500")
        with t:
            wait_for("failures", 60, lambda: len(t.failed()) >= 20)
        wait_for("all lines", 10, lambda: f.metrics()["kvroute_feed_lines_total{result=\"taken\"}"]
                 == 2 * (len(t.rows) + TEXTS))
        m = f.metrics()
        n = len(t.failed())
        print("feed twice: answers of 500=%d failures counted=%d facts unknown=%d of %d lines"
              % (n, m["kvroute_failures_total{kind=\"5xx\"}"], m["kvroute_facts_unknown_total"],
                 2 * (len(t.rows) + TEXTS)))
        assert set(t.failed()) == {"status 500"}
        assert m["kvroute_failures_total{kind=\"5xx\"}"] == n


CASES = [a_bad_feed("lost", 8, 15, lost), a_bad_feed("twice", 3, 6, twice),
         a_bad_feed("reordered", 3, 6, reordered),
         a_bad_feed("cut", 5, 3, cut), a_failure_told_twice_teaches_once]

if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
