#!/usr/bin/env python3
"""path_threads.py - what a request costs the agent with 1 and 2 threads, which locks wait, and what
16 threads would do.

tests/tools/spop_load sends NOTIFYs of SIZES (2 and 128 KB; the end of an earlier request, and the
next request, of which three quarters are new) as fast as they are answered, on CONNS connections.
per_core is requests for each second of the agent's CPU time, so it does not depend on the number of
processors or on other load, except through caches and processors that share a core.

    bench path-threads body=2048 threads=2 notifies=.. cpu_us=.. per_core=..
    bench path-threads body=2048 threads=2 taken=.. waited=.. share=..
        (a request, tests/tools/lock_shim.c; path_threads.py -f adds the functions whose locks were
        waited for most)
    bench path-threads body=2048 threads=1 held_us=.. most_us=.. longer=..
        (a request, tests/tools/hold_shim.c: how long locks were held, all and that of most; holds
        of more than 100 us do not count, because their thread was preempted; -f: by lock, with a
        function that takes it)
    bench path-threads body=2048 projected threads=16 per_core=.. per_core_low=.. total=..
        total_low=.. wait_us=..

The lines are of different runs, because counting costs time. The projection assumes a core for each
thread, always work for each, that one thread's CPU time less <held_us> needs no lock (a lock inside
another counts twice), that holds are as long as with one thread and exponentially distributed (they
vary less, so waits are rather too long), and that waiting threads are served in order (exact mean
value analysis of a closed network of queues). <total> is never more than one request for each
<most_us>. It does not know memory bandwidth, read-write locks and atomic counters; per_core_low
therefore assumes that each doubling of threads costs once more what locks do not explain of the
step from 1 to 2 threads. COUNT, CONNS, SIZES and THREADS change the run.
"""
import math
import mmap
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from path import BUILD, cpu_us, wait_for  # noqa: E402
from fleet import free_ports  # noqa: E402

COUNT = int(os.environ.get("COUNT", "200000"))       # for 2 KB; larger bodies get fewer
CONNS = os.environ.get("CONNS", "8")
THREADS = os.environ.get("THREADS", "1 2").split()
SIZES = [int(s) for s in os.environ.get("SIZES", "2048 131072").split()]
PROJECTED = 16
# library for LD_PRELOAD -> (variable with the name of its file, bytes before its records, records)
SHIMS = {"lock_shim": ("LOCK_FILE", 16, "QQQ", 256), "hold_shim": ("HOLD_FILE", 0, "QQQQQ", 4096)}
CONF = """threads: %s
state_dir: %s
spop: {listen: ["127.0.0.1:%d"], timeout_processing: 60s}
log_feed: {tcp: [], udp: []}
metrics: {listen: ["127.0.0.1:%d"]}
index: {max_bytes: 64MiB}
"""


def ready(port):
    import urllib.request
    return urllib.request.urlopen("http://127.0.0.1:%d/ready" % port, timeout=1).status == 200


def function_of(site):
    out = subprocess.run(["addr2line", "-f", "-e", os.path.join(BUILD, "kvroute"), hex(site - 1)],
                         capture_output=True, text=True).stdout
    return out.split("\n")[0]


def agent_env(shim, path):
    """The environment of an agent with a library that counts into the file <path>."""
    if shim is None:
        return dict(os.environ)
    variable, begin, record, n = SHIMS[shim]
    with open(path, "wb") as f:
        f.write(bytes(begin + struct.calcsize(record) * n))
    return dict(os.environ, LD_PRELOAD=os.path.join(BUILD, "tests/tools/%s.so" % shim),
                **{variable: path})


def records_of(shim, path):
    """The used records of the file, without their first field, and that field."""
    if shim is None:
        return []
    _, begin, record, n = SHIMS[shim]
    size = struct.calcsize(record)
    with open(path, "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
        all_of_them = [struct.unpack_from(record, m, begin + size * i) for i in range(n)]
    return [r for r in all_of_them if r[0]]


def load(port, count, size):
    out = subprocess.run([os.path.join(BUILD, "tests/tools/spop_load"), "127.0.0.1:%d" % port, "-c",
                          CONNS, "-n", str(count), "-b", str(size)],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    said = dict(f.split("=", 1) for f in out.split())
    if float(said["overload"]) > 0:
        print("note: answered with overload: %s" % said["overload"])
    return int(said["notifies"])


def run(threads, size, shim):
    """(NOTIFYs, CPU us of the agent for each, [(record of the shim, the same when warm)])"""
    port, metrics = free_ports(2)
    count = max(2000, COUNT * 2048 // size * (1 if size == 2048 else 4))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kvroute.yaml")
        with open(path, "w") as f:
            f.write(CONF % (threads, folder, port, metrics))
        counts = os.path.join(folder, "counts")
        with open(os.path.join(folder, "log"), "w") as log:
            agent = subprocess.Popen([os.path.join(BUILD, "kvroute"), "-f", path], stderr=log,
                                     env=agent_env(shim, counts))
        try:
            wait_for("the agent", 10, lambda: ready(metrics))
            load(port, count // 10, size)
            warm = {r[0]: r for r in records_of(shim, counts)}
            before = cpu_us(agent.pid)
            n = load(port, count, size)
            used = cpu_us(agent.pid) - before
            records = [(r, warm.get(r[0], (0,) * len(r))) for r in records_of(shim, counts)]
        finally:
            agent.terminate()
            agent.wait()
    return n, used / n, records


def times(demands, think, n):
    """(requests of <n> threads a us, us that each waits for locks): a closed network of queues."""
    queues, x, total = [0.0] * len(demands), 0, 0
    for k in range(1, n + 1):
        stays = [d * (1 + q) for d, q in zip(demands, queues)]
        total = sum(stays)
        x = k / (think + total)
        queues = [x * s for s in stays]
    return x, total - sum(demands)


def project(size, cpu, demands):
    """Print what PROJECTED threads do. <cpu>: {threads: us}; <demands>: us of each lock."""
    if 1 not in cpu:
        return
    think = max(0, cpu[1] - sum(demands))
    x, waits = times(demands, think, PROJECTED)
    per_core = 1e6 * x / PROJECTED
    kept = 1.0
    if 2 in cpu:
        kept = min(1, 1e6 / cpu[2] / (1e6 * times(demands, think, 2)[0] / 2))
    low = per_core * kept ** math.log2(PROJECTED)
    print("bench path-threads body=%d projected threads=%d per_core=%.0f per_core_low=%.0f "
          "total=%.0f total_low=%.0f wait_us=%.3f" % (
              size, PROJECTED, per_core, low, per_core * PROJECTED, low * PROJECTED, waits),
          flush=True)


def print_waits(size, threads, functions):
    n, _, records = run(threads, size, "lock_shim")
    sites = [(r[0], r[1] - w[1], r[2] - w[2]) for r, w in records]
    taken, waited = sum(s[1] for s in sites), sum(s[2] for s in sites)
    print("bench path-threads body=%d threads=%d taken=%.2f waited=%.5f share=%.6f"
          % (size, threads, taken / n, waited / n, waited / taken if taken else 0), flush=True)
    for site, t, w in sorted(sites, key=lambda s: -s[2])[:8] if functions else ():
        print("  %-28s taken=%.3f waited=%.5f a request" % (function_of(site), t / n, w / n))


def print_holds(size, functions):
    """Return the us a request that each lock is held."""
    n, _, records = run(1, size, "hold_shim")
    holds = sorted(((r[3] - w[3]) / 1000 / n, (r[2] - w[2]) / n, r[1]) for r, w in records)[::-1]
    held = [h[0] for h in holds]
    longer = sum(r[4] - w[4] for r, w in records) / n
    print("bench path-threads body=%d threads=1 held_us=%.3f most_us=%.3f longer=%.6f"
          % (size, sum(held), held[0] if held else 0, longer), flush=True)
    for us, taken, site in holds[:8] if functions else ():
        print("  %-28s taken=%.3f held_us=%.3f a request" % (function_of(site), taken, us))
    return held


def main(argv):
    for size in SIZES:
        cpu = {}
        for threads in map(int, THREADS):
            n, used, _ = run(threads, size, None)
            cpu[threads] = used
            print("bench path-threads body=%d threads=%d notifies=%d cpu_us=%.2f per_core=%.0f"
                  % (size, threads, n, used, 1e6 / used), flush=True)
            print_waits(size, threads, "-f" in argv)
        project(size, cpu, print_holds(size, "-f" in argv))


if __name__ == "__main__":
    main(sys.argv[1:])
