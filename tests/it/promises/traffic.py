"""traffic.py - clients that send requests without end, and the result of each.

    with Traffic(fleet, clients=8) as t:
        ...
    t.failed()          # every failed request
    share(t.between(a, b))

A prompt is one of a few long texts that all clients share, and a question of its own. Once each
text has been sent, nearly all of a prompt is in the cache of one engine, and a loss of that shows
in <hit>.

A request is sent again only if its kept connection was closed before a byte of the answer came, as
clients do; <stale> counts these.
"""
import collections
import http.client
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True

from cases import main  # noqa: E402,F401
from fleet import HANG_SECONDS, Fleet, wait_for  # noqa: E402,F401

FAST = ["--prefill-tps", "1000000", "--decode-ms", "2"]
WORDS = ("time year people way day man thing woman life child world school state family student "
         "group country").split()
TEXTS = 24
HEADERS = {"content-type": "application/json"}

Row = collections.namedtuple("Row", "start end trouble server engine why error hit")


def a_text(i, n=2500):
    r = random.Random("text %d" % i)
    return " ".join(r.choice(WORDS) for _ in range(n // 5))


class Traffic:
    """Run <clients> at once on <port>, each with a keep-alive connection. Every <stream>-th request
    (0: none) is a stream of <tokens> tokens."""

    def __init__(self, fleet, clients=8, stream=2, tokens=20, port=None, keep=True):
        self.port, self.stream, self.tokens, self.keep = port or fleet.port, stream, tokens, keep
        self.rows, self.over, self.asked, self.stale = [], False, 0, 0
        self.lock = threading.Lock()
        self.texts = [a_text(i) for i in range(TEXTS)]
        self.threads = [threading.Thread(target=self.client) for _ in range(clients)]

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *ignored):
        self.end()

    def end(self):
        self.over = True
        for t in self.threads:
            t.join()

    def number(self):
        with self.lock:
            self.asked += 1
            return self.asked

    def client(self):
        c = None
        while not self.over:
            c = c or http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_SECONDS)
            if not self.ask(c, self.number()) or not self.keep:
                c.close()
                c = None
        if c:
            c.close()

    def ask(self, c, n):
        stream = bool(self.stream) and n % self.stream == 0
        body = json.dumps({"messages": [{"role": "user",
                                         "content": "%s question %d" % (self.texts[n % TEXTS], n)}],
                           "model": "stub", "stream": stream,
                           "max_tokens": self.tokens if stream else 1})
        start, got, trouble = time.monotonic(), {}, ""
        try:
            r = self.send(c, body)
            data = r.read()
            got = {k.lower(): v for k, v in r.getheaders()}
            if r.status != 200:
                trouble = "status %d" % r.status
            elif stream and b"data: [DONE]" not in data:
                trouble = "a stream that breaks off"
        except (OSError, http.client.HTTPException) as e:
            trouble = repr(e)
        hit = int(got.get("x-kv-hit") or 0) / 1000
        self.rows.append(Row(start, time.monotonic(), trouble, got.get("x-kv-server", ""),
                             got.get("x-engine", ""),
                             got.get("x-kv-why", ""), got.get("x-kv-error", ""), hit))
        return not trouble

    def send(self, c, body):
        kept = c.sock is not None
        try:
            c.request("POST", "/v1/chat/completions", body, HEADERS)
            return c.getresponse()
        except ConnectionError:
            if not kept:
                raise
        with self.lock:
            self.stale += 1
        c.close()
        c.request("POST", "/v1/chat/completions", body, HEADERS)
        return c.getresponse()

    # ---- results

    def wait(self, n, seconds=HANG_SECONDS):
        """Wait for <n> more answers."""
        want, end = len(self.rows) + n, time.monotonic() + seconds
        while len(self.rows) < want:
            if time.monotonic() > end:
                raise TimeoutError("%d of %d answers in %d s"
                                   % (n - want + len(self.rows), n, seconds))
            time.sleep(0.01)

    def between(self, start, end):
        return [r for r in self.rows if r.start >= start and r.end <= end]

    def failed(self):
        return [r.trouble for r in self.rows if r.trouble]

    def errors(self):
        """Return the errors that HAProxy reports for the agent: timeouts, lost connections and
        others."""
        return [r.error for r in self.rows if r.error]


def warm(traffic, fleet):
    """Send every text once, and store its server."""
    c = http.client.HTTPConnection("127.0.0.1", fleet.port, timeout=HANG_SECONDS)
    for n in range(TEXTS):
        traffic.ask(c, n)
    c.close()
    assert not traffic.failed(), traffic.failed()[:3]
    traffic.rows.clear()


def hit_share(rows):
    return sum(r.hit for r in rows) / max(1, len(rows))


def shares(rows):
    """Return the share of the requests that each engine got."""
    n = collections.Counter(r.engine for r in rows)
    return {e: n[e] / len(rows) for e in sorted(n)}


def agent_log(fleet, start=0):
    with open(os.path.join(fleet.folder, "agent.log"), errors="replace") as f:
        f.seek(start)
        return f.read()
