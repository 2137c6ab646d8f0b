#!/usr/bin/env python3
"""sim.py - compare the rules by kvroutectl sim: every workload, and the named traces, at two
loads. Prints a line a row:

    bench sim source=chat engines=8 load=0.7 facts=first policy=cost mean_s=.. p50_s=.. p99_s=..
              ratio=.. hit=.. failed=.. decide_us=..

ratio is the mean over that of the better oracle; decide_us is measured on this machine, all else is
simulated and comes out the same everywhere. RULES, LOADS, ENGINES and TRACES (files, with blanks
between) choose what is run.
"""
import json
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(TOP, os.environ.get("B", "build/release"), "kvroutectl")
RULES = os.environ.get("RULES", "cost cache_aware leastconn").split()
LOADS = os.environ.get("LOADS", "0.5 0.8").split()
ENGINES = os.environ.get("ENGINES", "8")
TRACES = os.environ.get("TRACES", "").split()
WORKLOADS = "chat agents system prefixes siblings cold join leave slow fail limit".split()


def rows(source, load, facts):
    presets = [x for rule in RULES for x in ("--preset", rule)]
    out = subprocess.run([CTL, "sim", *source, "--json", "--engines", ENGINES, "--load", load,
                          "--facts", facts, *presets],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def main():
    sources = [("--workload", w) for w in WORKLOADS] + [(t,) for t in TRACES]
    for source in sources:
        for load in LOADS:
            for facts in ("first", "end"):
                for r in rows(source, load, facts):
                    if facts == "end" and r["policy"] not in RULES:
                        continue
                    print("bench sim source=%s engines=%s load=%s facts=%s policy=%s mean_s=%.3f "
                          "p50_s=%.3f p99_s=%.3f ratio=%.2f "
                          "hit=%.3f failed=%d decide_us=%.1f"
                          % (os.path.basename(source[-1]), ENGINES, load, facts, r["policy"],
                             r["ttft_mean"], r["ttft_p50"],
                             r["ttft_p99"], r["ratio"], r["hit"], r["failed"], r["decide_us"]),
                          flush=True)


if __name__ == "__main__":
    sys.exit(main())
