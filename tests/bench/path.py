#!/usr/bin/env python3
"""path.py [--write] [-k WORD] - what HAProxy and the agent cost a request, line by line.

CPU time, not wall time: us of HAProxy and of the agent for each request, from /proc/PID/schedstat
of their threads. HAProxy (one thread) and the agent (one thread) run on one processor, the load
(tests/tools/http_flood, CONNS connections, closed loop) and the engines (tests/tools/fast_engine)
on another. All rows of one version run side by side, each in turn, ROUNDS times after a round that
does not count; a row is the median of its rounds. "faults" are HAProxy's minor page faults a
request: above 20 this process pays for its buffers (doc/haproxy-heap.md).

    bench path haproxy=2.6.12 row=recipe body=2048 cpu_us=.. least=.. haproxy_us=.. agent_us=..
        faults=.. agent_faults=..

Then the latency that each row adds at a low rate: one client, one request at a time, each row in
turn (tests/tools/http_pace). The row "direct" is the engine without a router; added_us is the p50
above it. added_over_X compares added_us with that of the row X, p50_over_X the p50 itself:

    bench path-latency haproxy=2.6.12 row=recipe body=2048 p50_us=.. added_us=.. added_over_noop=..
        added_over_noop-unix=.. p50_over_noop=.. p50_over_noop-unix=..

At the end a table of agent and HAProxy above a no-op agent, beside the goals (path_goals.py).
--write puts the CPU time of all rows into haproxy-conf/README.md (path_table.py): on an idle
machine only.

-k prints only rows with WORD in "VERSION ROW". ROWS="plain noop best" names rows (path_rows.py);
ROWS=goals those of the goals, which takes less than four minutes. VERSIONS, SIZES, ROUNDS,
REQUESTS, CONNS, PACE="20 50" (rounds and requests of each, latency), ONE_MESSAGE=1 (latency with
bodies that no agent can know) and LATENCY=0 change the run. Rows of SMG and sglang-router appear
if they are installed, or SMG=path, SGLANG=path name them ("pip install smg" in a venv of its own).
"""
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/it"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import path_table  # noqa: E402
from fleet import BUILD, free_ports, wait_for  # noqa: E402
from path_goals import ROWS as GOAL_ROWS  # noqa: E402
from path_goals import cpu_model, print_conditions, print_goals, print_limits, ratio  # noqa: E402
from path_rows import Direct, Routed, Router, rows_of  # noqa: E402

VERSIONS = os.environ.get("VERSIONS", "2.6 3.2").split()
SIZES = [int(s) for s in os.environ.get("SIZES", "2048 16384 131072").split()]
ROUNDS = int(os.environ.get("ROUNDS", 5))
CONNS = os.environ.get("CONNS", "32")
PACE = os.environ.get("PACE", "20 50").split()
TOOLS = os.path.join(BUILD, "tests/tools")
CPUS = sorted(os.sched_getaffinity(0))


def wanted_rows():
    """The names of rows that are wanted, or None for all."""
    names = os.environ.get("ROWS", "").split()
    return GOAL_ROWS if names == ["goals"] else names or None


def requests_of(size):
    """Requests of a round: about 0.2 s of CPU time."""
    return int(os.environ.get("REQUESTS", 0)) or 600 + 32000000 // (size + 8192)


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


def flood(n, size, port, run=0):
    """Run 0 begins with one request of each conversation of this size; other runs go on."""
    got = tool("http_flood", CONNS, n, size, size, port, run)[0]
    if int(got["failed"]):
        raise RuntimeError("port %d: requests failed: %s" % (port, got))


def one_round(fleet, size, run):
    """(HAProxy's us, the agent's, HAProxy's faults, the agent's) for a request."""
    router, agent = fleet.pids()

    def spent():
        return [cpu_us(router), cpu_us(agent) if agent else 0, minor_faults(router),
                minor_faults(agent) if agent else 0]
    before, n = spent(), requests_of(size)
    flood(n, size, fleet.port, run)
    return [(b - a) / n for a, b in zip(before, spent())]


def measure_cpu(version, fleets, size):
    """Return {row: [round]}."""
    for f in fleets:
        flood(requests_of(size), size, f.port)
    rounds = [[one_round(f, size, 1 + r) for f in fleets] for r in range(ROUNDS)]
    for i, f in enumerate(fleets):
        sums = [r[i][0] + r[i][1] for r in rounds]
        print("bench path haproxy=%s row=%s body=%d cpu_us=%.1f least=%.1f haproxy_us=%.1f "
              "agent_us=%.1f faults=%.1f agent_faults=%.1f" % (
                  version, f.row, size, statistics.median(sums), min(sums),
                  *(statistics.median(r[i][k] for r in rounds) for k in range(4))), flush=True)
    return {f.row: [r[i] for r in rounds] for i, f in enumerate(fleets)}


def measure_latency(version, fleets, size):
    """Return {row: p50}."""
    flags = ["-m"] if os.environ.get("ONE_MESSAGE") == "1" else []
    got = tool("http_pace", *flags, *PACE, size, *[f.port for f in fleets])
    if any(int(g["failed"]) for g in got):
        raise RuntimeError("requests failed: %s" % got)
    p50 = {f.row: float(g["p50_us"]) for f, g in zip(fleets, got)}
    noops = [n for n in ("noop", "noop-unix") if n in p50]
    for f in fleets:
        added = p50[f.row] - p50["direct"]
        over = ["added_over_%s=%.2f" % (n, ratio(added, p50[n] - p50["direct"])) for n in noops]
        over += ["p50_over_%s=%.2f" % (n, ratio(p50[f.row], p50[n])) for n in noops]
        print("bench path-latency haproxy=%s row=%s body=%d p50_us=%.1f added_us=%.1f %s" % (
            version, f.row, size, p50[f.row], added, " ".join(over)), flush=True)
    return p50


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
    """[(name, argv)] of other routers, where they are installed."""
    found = []
    for name, variable in (("smg", "SMG"), ("sglang-router", "SGLANG")):
        path = os.environ.get(variable) or shutil.which(name)
        if path:
            found.append((name, [path, "launch", "--log-level", "warn"]))
        else:
            print("skipped: row %s: not installed; %s=path" % (name, variable))
    return found


def fleets_of(version, word, ports, others):
    """The rows of this version; other routers run beside those of the first version."""
    names = wanted_rows()
    for row in rows_of(version):
        if row.name == "plain" or (word in version + " " + row.name and
                                   (names is None or row.name in names)):
            yield Routed(row, binary_of(version), ports, CPUS[0])
    for name, argv in others:
        if word in name:
            yield Router(name, argv, ports, CPUS[0])


def measure(version, word, ports, others):
    """Return [(version, size, {row: [round]}, {row: p50})]."""
    fleets, results, full = [], [], full_version(version)
    try:
        for f in fleets_of(version, word, ports, others):
            fleets.append(f)
            f.start()
        slow = [Direct(ports[0])] + [f for f in fleets if f.in_latency()]
        for size in SIZES:
            rounds = measure_cpu(full, fleets, size)
            p50 = measure_latency(full, slow, size) if os.environ.get("LATENCY") != "0" else {}
            results.append((full, size, rounds, p50))
    finally:
        for f in fleets:
            f.stop()
    return results


def main(argv):
    word = argv[argv.index("-k") + 1] if "-k" in argv else ""
    have = [v for v in VERSIONS if os.path.exists(binary_of(v))]
    if not have:
        print("skipped: bench path, no HAProxy under build/haproxy (make deps)")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))       # what was started ends, too
    others, load = peers(), os.getloadavg()[0]
    print_conditions(CPUS, [full_version(v) for v in have], others)
    if len(CPUS) < 2:
        print("note: one processor: load and routers share it")
    engine, ports = start_engines()
    try:
        print_limits(SIZES, engine.pid, ports[0], flood, cpu_us)
        results = []
        for version in have:
            results += measure(version, word, ports, others if version == have[0] else ())
        print_goals(results)
        if "--write" in argv:
            path_table.write(results, ROUNDS, cpu_model(), load)
    finally:
        engine.terminate()
        engine.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
