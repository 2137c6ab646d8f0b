#!/usr/bin/env python3
"""path_threads.py - what a request costs the agent with 1 and 2 threads, and which locks wait.

tests/tools/spop_load sends NOTIFYs of 2 KB (the end of an earlier request, and the next request) as
fast as they are answered, on CONNS connections. per_core is requests for each second of the agent's
CPU time, so it does not depend on the number of processors or on other load, except through caches.

    bench path-threads threads=2 notifies=.. cpu_us=.. per_core=..
    bench path-threads threads=2 taken=.. waited=.. share=.. (a request, tests/tools/lock_shim.c)
      path_threads.py -f adds the functions whose locks were waited for most

The two lines are of two runs, because counting costs time. COUNT, CONNS and THREADS change them.
"""
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

COUNT = os.environ.get("COUNT", "200000")
CONNS = os.environ.get("CONNS", "8")
THREADS = os.environ.get("THREADS", "1 2").split()
SITES = 256
CONF = """threads: %s
state_dir: %s
spop: {listen: ["127.0.0.1:%d"]}
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


def run(threads, counted):
    """(NOTIFYs, CPU us of the agent, [(waited, taken, site)])"""
    port, metrics = free_ports(2)
    env = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kvroute.yaml")
        with open(path, "w") as f:
            f.write(CONF % (threads, folder, port, metrics))
        locks = os.path.join(folder, "locks")
        with open(locks, "wb") as f:
            f.write(bytes(16 + 24 * SITES))
        if counted:
            env.update(LD_PRELOAD=os.path.join(BUILD, "tests/tools/lock_shim.so"), LOCK_FILE=locks)
        with open(os.path.join(folder, "log"), "w") as log:
            agent = subprocess.Popen([os.path.join(BUILD, "kvroute"), "-f", path], stderr=log,
                                     env=env)
        try:
            wait_for("the agent", 10, lambda: ready(metrics))
            before = cpu_us(agent.pid)
            out = subprocess.run([os.path.join(BUILD, "tests/tools/spop_load"),
                                  "127.0.0.1:%d" % port, "-c", CONNS, "-n", COUNT, "-b", "2048"],
                                 stdout=subprocess.PIPE, text=True, check=True).stdout
            used = cpu_us(agent.pid) - before
            said = dict(f.split("=", 1) for f in out.split())
            with open(locks, "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
                sites = [struct.unpack_from("QQQ", m, 16 + 24 * i) for i in range(SITES)]
        finally:
            agent.terminate()
            agent.wait()
    return int(said["notifies"]), used, [(w, t, s) for s, t, w in sites if s]


def main(argv):
    for threads in THREADS:
        n, used, _ = run(threads, False)
        print("bench path-threads threads=%s notifies=%d cpu_us=%.2f per_core=%.0f"
              % (threads, n, used / n, 1e6 * n / used), flush=True)
        n, used, sites = run(threads, True)
        taken, waited = sum(s[1] for s in sites), sum(s[0] for s in sites)
        print("bench path-threads threads=%s taken=%.2f waited=%.5f share=%.6f"
              % (threads, taken / n, waited / n, waited / taken if taken else 0), flush=True)
        for w, t, site in sorted(sites, reverse=True)[:8] if "-f" in argv else ():
            print("  %-28s taken=%.3f waited=%.5f a request" % (function_of(site), t / n, w / n))


if __name__ == "__main__":
    main(sys.argv[1:])
