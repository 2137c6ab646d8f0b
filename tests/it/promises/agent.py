"""agent.py - one agent with a SPOP client of the tests instead of HAProxy, for stories about lack
of memory and descriptors.

    with Agent() as a:
        with a.client() as c:
            a.route(c, "uid-1", body)
"""
import ctypes
import http.client
import json
import mmap
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
sys.dont_write_bytecode = True

from cases import main  # noqa: E402,F401
from fleet import BUILD, HANG_SECONDS, TOP, Fleet, wait_for  # noqa: E402
from spop_client import SpopClient  # noqa: E402

LOAD = "lb/1;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1"
SANITIZED = "asan" in BUILD or "tsan" in BUILD     # their allocator changes all figures
SHIM = os.path.join(BUILD, "tests/tools/fault_shim.so")
LIVE_SHIM = os.path.join(BUILD, "tests/tools/live_shim.so")


class Shared:
    """A file of 64-bit words that a library of tests/tools and this program both map."""

    def __init__(self, folder, name):
        self.path = os.path.join(folder, name)
        with open(self.path, "wb") as f:
            f.write(bytes(4096))
        with open(self.path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 4096)
        self.words = (ctypes.c_uint64 * len(self.WORDS)).from_buffer(self.map)

    def get(self, word):
        return self.words[self.WORDS.index(word)]

    def put(self, **values):
        for word, v in values.items():
            self.words[self.WORDS.index(word)] = v


class Fault(Shared):
    """Select the allocation of the agent that fails: tests/tools/fault_shim.c."""

    WORDS = ("armed", "seen", "fail_at", "fail_n", "failed", "bytes", "spared")

    def __init__(self, folder):
        super().__init__(folder, "fault")

    def arm(self, at, n=1):
        self.put(seen=0, failed=0, spared=0, fail_at=at, fail_n=n)
        self.put(armed=1)

    def disarm(self):
        self.put(armed=0)
        return self.get("failed")


class Live(Shared):
    """Allocated memory of the agent, from tests/tools/live_shim.c."""

    WORDS = ("blocks", "bytes", "most", "ask", "heap", "heap_free")

    def __init__(self, folder):
        super().__init__(folder, "live")

    def heap(self, a):
        """Return (bytes of glibc's arenas, free bytes of them)."""
        self.put(ask=1)
        wait_for("an allocation of the agent", 60, lambda: a.metrics() and self.get("ask") == 0)
        return self.get("heap"), self.get("heap_free")


class Late(threading.Thread):
    """Measure the largest delay of a sleeping program's wakeup from now on until <over>."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.over = 0, False
        self.start()

    def run(self):
        while not self.over:
            start = time.monotonic()
            time.sleep(0.05)
            self.most = max(self.most, time.monotonic() - start - 0.05)


class Agent(Fleet):
    def __init__(self, argv=(), fault=False, live=False, env=None, before=None, **kw):
        super().__init__(engines=0, **kw)
        self.argv, self.before, self.env = list(argv), before, dict(os.environ, **(env or {}))
        self.fault = Fault(self.folder) if fault else None
        self.live = Live(self.folder) if live and not SANITIZED else None
        if self.live:
            self.env.update(LD_PRELOAD=LIVE_SHIM, LIVE_FILE=self.live.path)
        if fault:
            # by default a sanitizer requires its library to be the first
            asan = os.environ.get("ASAN_OPTIONS",
                                  "") + ":verify_asan_link_order=0:allocator_may_return_null=1"
            self.env.update(LD_PRELOAD=SHIM, FAULT_FILE=self.fault.path, ASAN_OPTIONS=asan)

    def start(self):
        self.spawn_agent()
        wait_for("the agent", 10, lambda: self.get("/ready", self.metrics_port)[0] == 200)

    def spawn_agent(self):
        path = self.write("kvroute.yaml", self.agent_yaml())
        program = os.path.join(BUILD, "kvroute")
        if self.before:
            # it may become a user who cannot search the folders of this tree, as /root
            program = os.path.join(self.folder, "kvroute")
            if not os.path.exists(program):
                shutil.copy(os.path.join(BUILD, "kvroute"), program)
        self.spawn("agent", [program, "-f", path] + self.argv, env=self.env, preexec_fn=self.before)

    @property
    def pid(self):
        return self.processes["agent"].pid

    def log(self):
        with open(os.path.join(self.folder, "agent.log"), errors="replace") as f:
            return f.read()

    def client(self, size=16380, **kw):
        return SpopClient(self.spop_address, max_frame_size=size, **kw)

    def cpu_s(self):
        with open("/proc/%d/stat" % self.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss(self):
        with open("/proc/%d/status" % self.pid) as f:
            return int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1)) * 1024

    def feed(self, *lines):
        with socket.create_connection(("127.0.0.1", self.feed_port), 5) as s:
            s.sendall("".join(json.dumps(line) + "\n" for line in lines).encode())


def chat(text, **more):
    return json.dumps({"messages": [{"role": "user", "content": text}], "model": "m", **more})


def request(uid, body, path="/v1/chat/completions", **more):
    """The arguments of a route message."""
    body = body.encode() if isinstance(body, str) else body
    return {"uid": uid, "pool": "llm", "load": LOAD, "path": path, "blen": len(body),
            "bsize": len(body), **more, "body": body}


def fds(a):
    return len(os.listdir("/proc/%d/fd" % a.pid))


def at_rest(a, most=None):
    """Return (descriptors, resident bytes) once no connection is left, not even that for /metrics,
    and at <most> so many descriptors."""
    wait_for("connections to end", 20, lambda: a.metrics()["kvroute_spop_connections"] == 0)
    if most is not None:
        wait_for("descriptors to come back to %d" % most, 10, lambda: fds(a) <= most)
        return fds(a), a.rss()
    least, until = fds(a), time.time() + 0.5
    while time.time() < until:
        time.sleep(0.02)
        least = min(least, fds(a))
    return least, a.rss()


FULL = tuple("kvroute_" + k for k in ("index_evicted_pages_total", "heads_evicted_total",
                                      'slices_lost_total{reason="room"}',
             'ledger_closed_total{reason="room"}', 'refused_total{what="pool"}',
                                      'refused_total{what="server"}'))


def not_full(a):
    """Return the budgets that were not reached yet."""
    m = a.metrics()
    return [k for k in FULL if m[k] == 0]


def fill(c, turn, numbers):
    """Send prompts, openings, unfinished slices, requests, pools and servers, new ones for each of
    <turn> and <numbers>."""
    tools = lambda i: [{"type": "function",
                        "function": {"name": "f%d" % i, "description": "d%d " % i * 200}}]
    ids = []
    for i in numbers:
        uid = "%s-%d" % (turn, i)
        body = chat("%s %s" % (uid, "word " * 4000), tools=tools(i))
        # served prompts are kept
        done = [("done", {"uid": uid, "srv": "s1", "st": 200, "tr": 5})] if i % 2 else []
        ids.append(c.send([("route", request(uid, body, tenant="t%d" % (i % 90)))] + done))
        ids.append(c.send([("route",
                            request("s" + uid, body[:9000], seq=0, blen=90000, bsize=90000))]))
        if i % 10 == 0:
            names = ";".join("x%s-%d-%d=1,0,0,1" % (turn, i, k) for k in range(60))
            ids.append(c.send([("route", dict(request("p" + uid, body), pool="pool%d" % (i % 300),
                                              load="lb/1;" + names))]))
        if len(ids) > 30:
            for x in ids:
                c.wait(x)
            ids = []
    for x in ids:
        c.wait(x)


def equal(got, want, what):
    assert got == want, "%s: %r instead of %r" % (what, got, want)
