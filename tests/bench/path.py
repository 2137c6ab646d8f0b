#!/usr/bin/env python3
"""path.py [-k WORD] - what HAProxy and the agent cost a request, line by line of the recipe.

CPU time, not wall time: us of HAProxy and of the agent for each request, from /proc/PID/schedstat
of their threads. HAProxy (one thread) and the agent (one thread) run on one processor, the load
(tests/tools/http_flood, CONNS connections, closed loop) and the engines (tests/tools/fast_engine)
on another. All rows of one version run side by side, each in turn, ROUNDS times; a row is the
median of its rounds. "faults" are HAProxy's minor page faults a request: above 20 this process
pays for its buffers (doc/haproxy-heap.md).

    bench path haproxy=2.6.12 row=recipe body=2048 cpu_us=.. haproxy_us=.. agent_us=.. faults=..

Then the latency that each row adds at a low rate: one client, one request at a time, in turn
(tests/tools/http_pace):

    bench path-latency haproxy=2.6.12 row=recipe body=2048 p50_us=.. added_us=.. over_noop=..

-k prints only rows with WORD in "VERSION ROW"; VERSIONS, SIZES, ROUNDS, REQUESTS, CONNS, LATENCY=0
change the run. Rows of SMG and sglang-router appear if they are installed: SMG=path, SGLANG=path.
"""
import os
import re
import shutil
import statistics
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/it"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from fleet import BUILD, free_ports, wait_for  # noqa: E402
from path_rows import Routed, Router, rows_of  # noqa: E402

VERSIONS = os.environ.get("VERSIONS", "2.6 3.2").split()
SIZES = [int(s) for s in os.environ.get("SIZES", "2048 16384 131072").split()]
ROUNDS = int(os.environ.get("ROUNDS", 5))
CONNS = os.environ.get("CONNS", "32")
TOOLS = os.path.join(BUILD, "tests/tools")
CPUS = sorted(os.sched_getaffinity(0))


def requests_of(size):
    """Requests of a round: about 0.3 s of CPU time."""
    return int(os.environ.get("REQUESTS", 0)) or max(600, 8000 * 2048 // (size + 8192) // 1 + 600)


def on_load_cpu():
    os.sched_setaffinity(0, {CPUS[-1]})


def tool(name, *argv):
    got = subprocess.run([os.path.join(TOOLS, name), *map(str, argv)], text=True, check=True,
                         stdout=subprocess.PIPE, preexec_fn=on_load_cpu)
    return [dict(f.split("=") for f in line.split()) for line in got.stdout.splitlines()]


def cpu_us(pid):
    """CPU time of a process since its start, all threads."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
            total += int(f.read().split()[0])
    return total / 1000


def minor_faults(pid):
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rsplit(")", 1)[1].split()[7])


def one_round(fleet, size, seed):
    router, agent = fleet.pids()
    before = cpu_us(router), cpu_us(agent) if agent else 0, minor_faults(router)
    got = tool("http_flood", CONNS, requests_of(size), size, seed, fleet.port)[0]
    n = int(got["requests"])
    if int(got["failed"]):
        raise RuntimeError("%s: requests failed: %s" % (fleet.row, got))
    return ((cpu_us(router) - before[0]) / n, (cpu_us(agent) - before[1]) / n if agent else 0,
            (minor_faults(router) - before[2]) / n)


def measure_cpu(version, fleets):
    for size in SIZES:
        for f in fleets:
            one_round(f, size, 1)
        rounds = [[one_round(f, size, 2 + r) for f in fleets] for r in range(ROUNDS)]
        for i, f in enumerate(fleets):
            sums = [r[i][0] + r[i][1] for r in rounds]
            print("bench path haproxy=%s row=%s body=%d cpu_us=%.1f least=%.1f haproxy_us=%.1f "
                  "agent_us=%.1f faults=%.1f" % (
                      version, f.row, size, statistics.median(sums), min(sums),
                      statistics.median(r[i][0] for r in rounds),
                      statistics.median(r[i][1] for r in rounds),
                      statistics.median(r[i][2] for r in rounds)), flush=True)


def measure_latency(version, fleets):
    for size in SIZES:
        got = tool("http_pace", 20, 100, size, *[f.port for f in fleets])
        p50 = {f.row: float(g["p50_us"]) for f, g in zip(fleets, got)}
        plain = p50["plain"]
        noop = p50.get("noop", plain) - plain
        for f in fleets:
            added = p50[f.row] - plain
            print("bench path-latency haproxy=%s row=%s body=%d p50_us=%.1f added_us=%.1f "
                  "over_noop=%.2f" % (version, f.row, size, p50[f.row], added,
                                      added / noop if noop > 0 else 0), flush=True)


def start_engines():
    """One process with four ports."""
    ports = free_ports(4)
    p = subprocess.Popen([os.path.join(TOOLS, "fast_engine"), *map(str, ports)],
                         stdout=subprocess.PIPE, preexec_fn=on_load_cpu)
    wait_for("the engine", 10, lambda: p.stdout.readline())
    return p, ports


def binary_of(version):
    return os.path.join(TOP, "build/haproxy", version, "haproxy")


def full_version(version):
    out = subprocess.run([binary_of(version), "-v"], capture_output=True, text=True).stdout
    return re.search(r"version ([0-9.]+)", out).group(1)


def peers():
    """Other routers, where they are installed."""
    for name, variable, program, more in (("smg", "SMG", "smg", ["launch"]),
                                          ("sglang-router", "SGLANG", "sglang-router", ["launch"])):
        path = os.environ.get(variable) or shutil.which(program)
        if path:
            yield name, [path] + more
        else:
            print("skipped: row %s: not installed; %s=path" % (name, variable))


def measure(version, word, ports):
    fleets = []
    try:
        for row in rows_of(version):
            if word in version + " " + row.name or row.name == "plain":
                fleets.append(Routed(row, binary_of(version), ports, CPUS[0]))
                fleets[-1].start()
        for name, argv in peers() if version == VERSIONS[0] else ():
            if word in name:
                fleets.append(Router(name, argv, ports, CPUS[0]))
                fleets[-1].start()
        measure_cpu(full_version(version), fleets)
        if os.environ.get("LATENCY") != "0":
            measure_latency(full_version(version), [f for f in fleets if f.in_latency()])
    finally:
        for f in fleets:
            f.stop()


def main(argv):
    word = argv[argv.index("-k") + 1] if "-k" in argv else ""
    have = [v for v in VERSIONS if os.path.exists(binary_of(v))]
    if not have:
        print("skipped: bench path, no HAProxy under build/haproxy (make deps)")
        return
    if len(CPUS) < 2:
        print("note: one processor: load and routers share it")
    engine, ports = start_engines()
    try:
        for version in have:
            measure(version, word, ports)
    finally:
        engine.terminate()
        engine.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
