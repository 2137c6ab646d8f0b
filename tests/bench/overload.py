#!/usr/bin/env python3
"""overload.py - offer the agent more requests than it can decide: how many get an answer in time,
and how many of the answers are "overload".

One agent thread, in two configurations with expensive decisions, so that a client on another
processor can offer four times the capacity:

    tokens      a model with a tokenizer and a chat template, random words; late requests use text
    compare     pages of text, five rules with their own tables; late requests drop four of them,
                and everything else must be rejected

First the capacity is measured in a closed loop with 4 connections of 1 NOTIFY each, too few for any
request to be late. Then, for 8 and 64 connections with a window of 20:

    closed loop     only 8x20 is judged: at most 1 % of the answers may be "overload"
    open loop       1, 2 and 4 times the capacity; each NOTIFY is timed from when it was due, also
                    if it could not be sent

Requests beyond the windows of a client are visible only by asked_ms, which spop_load sends like the
recipes. Without it (SILENT=1), compare with 8x20 at 4 times looks to the agent like the closed
loop, where no request may be rejected: 160 requests are answered long before they are late, while
more and more wait in the client.

For each mode the limits are printed first:

    bench overload limits mode=compare capacity=.. uncompared=.. hurried_most=.. client_most=..
                   cores=.. load=..

<uncompared> is the share of <capacity> without compared rules, which should be 0. <hurried_most> is
the number of answers in a second in a closed loop of 64x20, where late requests are simplified or
rejected. <client_most> is the largest number that the client can offer, measured with an agent that
does nothing. If 4 times the capacity exceeds <hurried_most>, the rest must be rejected; if it
exceeds <client_most>, the client is late, not the agent.

Then one line for each run:

    bench overload mode=tokens shape=8x20 load=4.0 body=4000 capacity=.. offered=.. sent=..
                   within=.. overload=.. uncompared=.. hurried=.. p50_us=.. p99_us=.. max_us=..
                   limit=..

<within> is the share of all offered NOTIFYs whose ACK came within the 50 ms of the recipes' timeout
processing. <sent> is below <offered> if windows were full or the client was too slow. The bench
needs two free processors: a thread that stands still for a tenth of a second makes thousands of
requests late. <stood_ms> is the longest such pause of a thread in another process that wakes each
millisecond, and <busy> the share of the processors that others used.

SILENT=1 SECONDS_EACH=5 SHAPES=8x20,64x20 FACTORS=1,2,4 BODY=4000 MODES=tokens,compare
TOK=tokenizer.json KVROUTE=path of another agent
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/it"))
sys.dont_write_bytecode = True

from fleet import BUILD, free_ports, wait_for  # noqa: E402

CONF = """threads: 1
state_dir: %s
models_dir: %s
spop: {listen: ["127.0.0.1:%d"]}
log_feed: {tcp: [], udp: []}
metrics: {listen: ["127.0.0.1:%d"]}
index: {max_bytes: 64MiB}
%s
"""
MODES = {
    "tokens": "models: [{name: m, mode: tokens, tokenizer: tokenizer.json, chat_template: "
              "chat_template.jinja}]",
    "compare": "policy: {rule: prefixaware, compare: [block_tracker, gaie, gaie_full, aibrix]}",
}
TEMPLATE = '{% for m in messages %}{{ m.role + ": " + m.content }}{% endfor %}'
TOK = os.environ.get("TOK", os.path.join(TOP, "tests/data/tok/small.tokenizer.json"))
BODY, SECONDS = os.environ.get("BODY", "4000"), os.environ.get("SECONDS_EACH", "5")
SHAPES = [s.split("x") for s in os.environ.get("SHAPES", "8x20,64x20").split(",")]
FACTORS = [float(f) for f in os.environ.get("FACTORS", "1,2,4").split(",")]
WITHIN, SHED_CLOSED = 0.999, 0.01


class Watcher(threading.Thread):
    """Measures other load: the worst delay of a sleep of 1 ms, and the time of the processors."""

    def __init__(self):
        super().__init__(daemon=True)
        self.worst, self.over = 0, threading.Event()
        self.begun, self.used = time.monotonic(), self.jiffies()
        self.start()

    @staticmethod
    def jiffies():
        with open("/proc/stat") as f:
            fields = [int(x) for x in f.readline().split()[1:]]
        return sum(fields[:3]) + sum(fields[5:8])

    def run(self):
        while not self.over.is_set():
            begun = time.monotonic()
            time.sleep(0.001)
            self.worst = max(self.worst, time.monotonic() - begun - 0.001)

    def end(self, ours):
        """<ours>: seconds of CPU that the run itself took."""
        self.over.set()
        self.join()
        used = (self.jiffies() - self.used) / os.sysconf("SC_CLK_TCK") - ours
        return self.worst * 1e3, max(used, 0) / (time.monotonic() - self.begun) / os.cpu_count()


class Bench:
    def __init__(self, mode, agent, port, metrics):
        self.mode, self.agent, self.address = mode, agent, "127.0.0.1:%d" % port
        self.metrics, self.missed = metrics, []

    def get(self, path):
        return urllib.request.urlopen("http://127.0.0.1:%d%s" % (self.metrics, path),
                                      timeout=5).read().decode()

    def count(self, name):
        found = re.search(r"(?m)^%s (\S+)" % re.escape(name), self.get("/metrics"))
        return float(found.group(1)) if found else 0

    def cpu_s(self):
        with open("/proc/%d/stat" % self.agent.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        clients = os.times()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(clients[:4])

    def load(self, *args, address=None):
        silent = ["-A"] if os.environ.get("SILENT") else []
        out = subprocess.run([os.path.join(BUILD, "tests/tools/spop_load"), address or self.address,
                              "-b", BODY, "-t", SECONDS, "-x", *silent, *args],
                             capture_output=True, text=True)
        if out.returncode == 2:
            sys.exit("bench overload: " + out.stderr)
        return dict(f.split("=", 1) for f in out.stdout.split())

    def run(self, shape, factor, capacity, limit, judged, *args):
        counts = ("kvroute_spop_uncompared_total", "kvroute_spop_hurried_total")
        before, watcher, cpu = [self.count(c) for c in counts], Watcher(), self.cpu_s()
        got = self.load("-c", shape[0], "-w", shape[1], *args)
        stood, busy = watcher.end(self.cpu_s() - cpu)
        uncompared, hurried = [(self.count(c) - b) / float(got["acks"])
                               for c, b in zip(counts, before)]
        offered = factor * capacity if factor else float(got["rate"])
        print("bench overload mode=%s shape=%s load=%s body=%s capacity=%.0f offered=%.0f sent=%s "
              "lost=%s within=%s overload=%s uncompared=%.4f "
              "hurried=%.4f p50_us=%s p99_us=%s max_us=%s limit=%s stood_ms=%.0f busy=%.2f" % (
                  self.mode, "x".join(shape), factor or "closed", BODY, capacity, offered,
                  got["rate"], got["lost"], got["within"],
                  got["overload"], uncompared, hurried, got["p50_us"], got["p99_us"], got["max_us"],
                  limit, stood, busy), flush=True)
        if not judged(got):
            self.missed.append("%s %s at %s" % (self.mode, "x".join(shape),
                                                factor or "closed loop"))

    def limits(self):
        before = self.count("kvroute_spop_uncompared_total")
        got = self.load("-r", "0", "-c", "4", "-w", "1")
        uncompared = (self.count("kvroute_spop_uncompared_total") - before) / float(got["acks"])
        hurried = self.load("-r", "0", "-c", "64", "-w", "20")["rate"]
        address = "127.0.0.1:%d" % free_ports(1)[0]
        noop = subprocess.Popen([os.path.join(BUILD, "tests/tools/noop_spoa"), address],
                                stdout=subprocess.DEVNULL)
        try:
            wait_for("noop_spoa", 5, lambda: self.can_connect(address))
            client = self.load("-r", "0", "-c", "64", "-w", "20", address=address)["rate"]
        finally:
            noop.terminate()
            noop.wait()
        print("bench overload limits mode=%s capacity=%s uncompared=%.4f hurried_most=%s "
              "client_most=%s cores=%d load=%.1f" % (
            self.mode, got["rate"], uncompared, hurried, client, os.cpu_count(),
            os.getloadavg()[0]), flush=True)
        return float(got["rate"])

    @staticmethod
    def can_connect(address):
        try:
            socket.create_connection(address.split(":"), 1).close()
            return True
        except OSError:
            return False

    def all(self):
        capacity = self.limits()
        for shape in SHAPES:
            small = int(shape[0]) * int(shape[1]) <= 160
            self.run(shape, 0, capacity, "overload<=%g" % SHED_CLOSED if small else "none",
                     lambda got: not small or float(got["overload"]) <= SHED_CLOSED, "-r", "0")
            for f in FACTORS:
                self.run(shape, f, capacity, "within>=%g" % WITHIN,
                         lambda got: float(got["within"]) >= WITHIN,
                         "-r", "%.0f" % (f * capacity), "-o")


def bench(mode, folder):
    port, metrics = free_ports(2)
    path = os.path.join(folder, "kvroute.yaml")
    with open(path, "w") as f:
        f.write(CONF % (folder, folder, port, metrics, MODES[mode]))
    with open(os.path.join(folder, "log"), "w") as log:
        agent = subprocess.Popen([os.environ.get("KVROUTE", os.path.join(BUILD, "kvroute")), "-f",
                                  path], stderr=log)
    b = Bench(mode, agent, port, metrics)
    try:
        wait_for("the agent", 30, lambda: b.get("/ready") is not None)
        b.all()
    finally:
        agent.terminate()
        agent.wait()
    return b.missed


def main():
    missed = []
    for mode in os.environ.get("MODES", "tokens,compare").split(","):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(TOK, os.path.join(folder, "tokenizer.json"))
            with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
                f.write(TEMPLATE)
            missed += bench(mode, folder)
    print("bench overload missed=%d%s" % (len(missed), "".join(" " + repr(m) for m in missed)))
    sys.exit(len(missed) > 0)


main()
