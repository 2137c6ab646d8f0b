#!/usr/bin/env python3
"""path_agent.py - what a request costs the agent, in counts that no load of the machine changes.

A real HAProxy with the recipe sends the same requests (tests/tools/http_flood, a fixed seed, CONNS
connections, conversations that the agent knows) to engines that answer at once; the agent runs
under callgrind, then once more under strace. Each figure is for one request, its log line included:

    bench path-agent haproxy=2.6 body=2048 thread=spop-0 instructions=..
    bench path-agent haproxy=2.6 body=2048 thread=background instructions=..
    bench path-agent haproxy=2.6 body=2048 syscalls=.. recvfrom=.. sendto=.. ...

callgrind counts each step of "rep stosb" as an instruction, so memory that is wiped counts more
than it costs. -f prints the 25 functions with most instructions of each thread. VERSIONS, SIZES,
REQUESTS, CONNS, ROW change the run.
"""
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from path import CPUS, SIZES, binary_of, flood, start_engines  # noqa: E402
from path_rows import Routed, rows_of  # noqa: E402

VERSIONS = os.environ.get("VERSIONS", "2.6").split()
REQUESTS = int(os.environ.get("REQUESTS", 3000))
ROW = os.environ.get("ROW", "best")


class Counted(Routed):
    """The agent under callgrind, which does not count yet."""

    def spawn(self, name, argv, **kw):
        if name == "agent":
            self.out = os.path.join(self.folder, "callgrind")
            argv = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no",
                    "--separate-threads=yes", "--callgrind-out-file=" + self.out, *argv,
                    "--no-sandbox"]
        return super().spawn(name, argv, **kw)

    def count(self, on):
        subprocess.run(["callgrind_control", "-i", "on" if on else "off",
                        str(self.processes["agent"].pid)], stdout=subprocess.DEVNULL, check=True)


def threads_of(out):
    """{thread: text of callgrind_annotate}; the thread with more instructions answers HAProxy."""
    texts = []
    for i in range(1, 10):
        path = "%s-%02d" % (out, i)
        if os.path.exists(path):
            text = subprocess.run(["callgrind_annotate", path], capture_output=True,
                                  text=True).stdout
            total = re.search(r"(?m)^\s*([\d,]+).*PROGRAM TOTALS", text)
            if total:
                texts.append((int(total.group(1).replace(",", "")), text))
    return sorted(texts, reverse=True)[:2]


def ask(fleet, size, run):
    flood(REQUESTS, size, fleet.port, run)
    time.sleep(1)       # lines of the log feed


def started(kind, version, ports):
    row = [r for r in rows_of(version) if r.name == ROW][0]
    f = kind(row, binary_of(version), ports, CPUS[0])
    f.processing = "60s"
    f.start()
    return f


def instructions(version, size, ports, functions):
    f = started(Counted, version, ports)
    try:
        ask(f, size, 0)
        f.count(True)
        ask(f, size, 1)
        f.count(False)
        f.end("agent")
        for (total, text), name in zip(threads_of(f.out), ("spop-0", "background")):
            print("bench path-agent haproxy=%s body=%d thread=%s instructions=%.0f"
                  % (version, size, name, total / REQUESTS), flush=True)
            rows = re.findall(r"(?m)^\s*([\d,]+) \([ \d.]+%\)\s+(\S+:\S+)", text)
            for n, where in rows[:25] if functions else ():
                print("  %8.0f  %s" % (int(n.replace(",", "")) / REQUESTS,
                                       re.sub(r"^\S*/(\S+)$", r"\1", where)))
    finally:
        f.stop()


def syscalls(version, size, ports):
    f = started(Routed, version, ports)
    out = os.path.join(f.folder, "strace")
    try:
        ask(f, size, 0)
        with open(out, "w") as to:
            p = subprocess.Popen(["strace", "-c", "-f", "-p", str(f.pids()[1])], stderr=to)
            time.sleep(1)
            ask(f, size, 1)
            p.terminate()
            p.wait()
        with open(out) as got:
            counts = {w[-1]: int(w[3]) / REQUESTS for w in map(str.split, got)
                      if len(w) > 4 and w[3].isdigit()}
        total = counts.pop("total", 0)
        rows = sorted(counts.items(), key=lambda x: -x[1])[:6]
        print("bench path-agent haproxy=%s body=%d syscalls=%.3f %s" % (
            version, size, total, " ".join("%s=%.3f" % r for r in rows)), flush=True)
    finally:
        f.stop()


def main(argv):
    missing = [p for p in ("valgrind", "strace") if not shutil.which(p)]
    engine, ports = start_engines()
    try:
        for p in missing:
            print("skipped: %s is not installed" % p)
        for version in VERSIONS:
            for size in SIZES:
                if "valgrind" not in missing:
                    instructions(version, size, ports, "-f" in argv)
                if "strace" not in missing:
                    syscalls(version, size, ports)
    finally:
        engine.terminate()
        engine.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
