#!/usr/bin/env python3
"""crowd.py - the effect of popular prefixes on a fleet: conversations on 1, 3, 16 and 64 system
prompts, equally or unequally popular, in open and in closed loops, with random or equal pauses,
from 30 to 80 % busy. Simulated by kvroutectl sim, so no figure depends on the machine. Prints a
line a row:

    bench crowd source=crowd-16-loop haste=3 busy=0.42 facts=first policy=cost mean_ms=..
                p99_ms=.. mean_ratio=.. p99_ratio=..
                most_sent=.. hit=.. spread=..

Each is a mean over SEEDS seeds; spread is the largest mean over the least one of them. The ratios
are to the greedy oracle: it knows the engines, and takes the soonest first token for each request.
most_sent: requests of the server with most, over the mean. busy: share of the time that the
oracle's engines prefill, the physical limit is 1. RULES, HASTES, SEEDS and REQUESTS choose what is
run.
"""
import json
import os
import statistics
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(TOP, os.environ.get("B", "build/release"), "kvroutectl")
RULES = os.environ.get("RULES", "cost").split()
HASTES = os.environ.get("HASTES", "2 3.5 5").split()
SEEDS = int(os.environ.get("SEEDS", "5"))
REQUESTS = os.environ.get("REQUESTS", "3000")
SOURCES = ["crowd-%d%s%s" % (n, zipf, loop) for n in (1, 3, 16, 64) for zipf in ("", "-zipf")
           for loop in ("", "-loop")
           if n > 1 or zipf == ""] + ["crowd-16-beat", "crowd-16-zipf-beat"]


def rows(source, haste, facts, seed):
    out = subprocess.run([CTL, "sim", "--workload", source, "--limit", REQUESTS, "--speed", haste,
                          "--facts", facts, "--seed",
                          str(seed), "--json"] + [x for r in RULES for x in ("--preset", r)],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    return {r["policy"]: r for r in map(json.loads, out.splitlines())}


def main():
    for source in SOURCES:
        for haste in HASTES:
            for facts in ("first", "end"):
                runs = [rows(source, haste, facts, seed) for seed in range(1, SEEDS + 1)]
                for rule in RULES:
                    def mean(key, of=rule):
                        return statistics.mean(r[of][key] for r in runs)
                    means = [r[rule]["ttft_mean"] for r in runs]
                    print("bench crowd source=%s haste=%s busy=%.2f facts=%s policy=%s "
                          "mean_ms=%.0f p99_ms=%.0f mean_ratio=%.2f "
                          "p99_ratio=%.2f most_sent=%.2f hit=%.3f spread=%.2f"
                          % (source, haste, mean("offered", "oracle"), facts, rule,
                             1e3 * mean("ttft_mean"),
                             1e3 * mean("ttft_p99"),
                             mean("ttft_mean") / mean("ttft_mean", "oracle"),
                             mean("ttft_p99") / mean("ttft_p99", "oracle"), mean("most_sent"),
                             mean("hit"),
                             max(means) / min(means)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
