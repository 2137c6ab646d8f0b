#!/usr/bin/env python3
"""path_agent.py - what a request costs the agent, or HAProxy, in counts that no load of the machine
changes.

A real HAProxy with the recipe sends the same requests (tests/tools/http_flood, a fixed seed, CONNS
connections, conversations that the agent knows) to engines that answer at once; the agent runs
under callgrind, then once more under strace. Each figure is for one request, its log line included:

    bench path-agent haproxy=2.6 row=best body=2048 thread=spop-0 instructions=..
    bench path-agent haproxy=2.6 row=best body=2048 thread=background instructions=..
    bench path-agent haproxy=2.6 row=best body=2048 process=agent syscalls=.. recvfrom=.. ...

PROCESS=haproxy counts HAProxy (its one thread is "haproxy"), so that two ROWS of path_rows.py tell
what a line of the recipe costs there. callgrind counts each step of "rep stosb" as an instruction,
so memory that is wiped counts more than it costs; it does not count the kernel. strace delays each
system call, so what comes together then is more than without it; with CONNS=1 nothing does. -f
prints the 25 functions with most instructions of each thread. VERSIONS, SIZES, REQUESTS, CONNS and
ROWS (best) change the run.
"""
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from path import CPUS, SIZES, binary_of, flood, start_engines  # noqa: E402
from path_rows import Routed, rows_of  # noqa: E402

VERSIONS = os.environ.get("VERSIONS", "2.6").split()
REQUESTS = int(os.environ.get("REQUESTS", 3000))
ROWS = os.environ.get("ROWS", "best").split()
PROCESS = os.environ.get("PROCESS", "agent")
THREADS = ["haproxy"] if PROCESS == "haproxy" else ["spop-0", "background"]


class Counted(Routed):
    """The process under callgrind, which does not count yet."""

    def spawn(self, name, argv, **kw):
        if name == PROCESS:
            self.out = os.path.join(self.folder, "callgrind")
            argv = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no",
                    "--separate-threads=yes", "--callgrind-out-file=" + self.out, *argv]
            if name == "agent":
                argv.append("--no-sandbox")
            else:       # a script that executes HAProxy, which is to be one process
                argv.insert(1, "--trace-children=yes")
                argv.remove("-W")
        return super().spawn(name, argv, **kw)

    def count(self, on):
        subprocess.run(["callgrind_control", "-i", "on" if on else "off",
                        str(self.processes[PROCESS].pid)], capture_output=True, check=True)


def threads_of(out):
    """[(instructions, text of callgrind_annotate)] of threads; the first one has most."""
    texts = []
    for path in [out] + ["%s-%02d" % (out, i) for i in range(1, 10)]:
        # the file without a number is for a process with one thread only
        if os.path.exists(path) and (path != out or not os.path.exists(out + "-01")):
            text = subprocess.run(["callgrind_annotate", path], capture_output=True,
                                  text=True).stdout
            total = re.search(r"(?m)^\s*([\d,]+).*PROGRAM TOTALS", text)
            if total:
                texts.append((int(total.group(1).replace(",", "")), text))
    return sorted(texts, reverse=True)


def ask(fleet, size, run):
    flood(REQUESTS, size, fleet.port, run)
    time.sleep(1)       # lines of the log feed


def started(kind, version, name, ports):
    row = [r for r in rows_of(version) if r.name == name][0]
    f = kind(row, binary_of(version), ports, CPUS[0])
    f.processing = "60s"
    f.start()
    return f


def instructions(version, row, size, ports, functions):
    f = started(Counted, version, row, ports)
    try:
        ask(f, size, 0)
        f.count(True)
        ask(f, size, 1)
        f.count(False)
        f.end(PROCESS, signal.SIGINT if PROCESS == "haproxy" else signal.SIGTERM)
        for (total, text), name in zip(threads_of(f.out), THREADS):
            print("bench path-agent haproxy=%s row=%s body=%d thread=%s instructions=%.0f"
                  % (version, row, size, name, total / REQUESTS), flush=True)
            rows = re.findall(r"(?m)^\s*([\d,]+) \([ \d.]+%\)\s+(\S+:\S+)", text)
            for n, where in rows[:25] if functions else ():
                print("  %8.0f  %s" % (int(n.replace(",", "")) / REQUESTS,
                                       re.sub(r"^\S*/(\S+)$", r"\1", where)))
    finally:
        f.stop()


def syscalls(version, row, size, ports):
    f = started(Routed, version, row, ports)
    out = os.path.join(f.folder, "strace")
    try:
        ask(f, size, 0)
        with open(out, "w") as to:
            pid = f.pids()[PROCESS == "agent"]
            p = subprocess.Popen(["strace", "-c", "-f", "-p", str(pid)], stderr=to)
            time.sleep(1)
            ask(f, size, 1)
            p.terminate()
            p.wait()
        with open(out) as got:
            counts = {w[-1]: int(w[3]) / REQUESTS for w in map(str.split, got)
                      if len(w) > 4 and w[3].isdigit()}
        total = counts.pop("total", 0)
        most = sorted(counts.items(), key=lambda x: -x[1])[:6]
        print("bench path-agent haproxy=%s row=%s body=%d process=%s syscalls=%.3f %s" % (
            version, row, size, PROCESS, total, " ".join("%s=%.3f" % c for c in most)), flush=True)
    finally:
        f.stop()


def main(argv):
    missing = [p for p in ("valgrind", "strace") if not shutil.which(p)]
    engine, ports = start_engines()
    try:
        for p in missing:
            print("skipped: %s is not installed" % p)
        for version, size, row in itertools.product(VERSIONS, SIZES, ROWS):
            if "valgrind" not in missing:
                instructions(version, row, size, ports, "-f" in argv)
            if "strace" not in missing:
                syscalls(version, row, size, ports)
    finally:
        engine.terminate()
        engine.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
