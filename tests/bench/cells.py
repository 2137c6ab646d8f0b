#!/usr/bin/env python3
"""cells.py - find the public cells in which a published rule beats cost, by kvroutectl sim.

A cell is a trace, a number of engines and a load: "8:0.7" is 8 engines of which round robin would
use 0.7. Each rule of the agent runs with one seed; then cost and every rule within NEAR of the best
run with SEEDS seeds. Prints for each cell and kind of facts those, the best first:

    bench cells trace=mooncake_conversation cell=8:0.7 facts=first policy=cost mean_s=.. se=..
                p99_s=.. over_oracle=..
    bench cells_best trace=.. cell=.. facts=.. cost_s=.. published=smetric published_s=.. ahead=yes

ahead: cost has the smaller mean. se: of the mean, over the seeds. over_oracle: to the better of the
greedy oracles, which know the engines. Nothing here depends on the machine. TRACES (files;
../shared/data/traces/*.jsonl), CELLS, FACTS ("first end"), RULES, SEEDS (5) and NEAR (1.15) choose
what runs; all of it takes some 20 minutes of a processor.
"""
import glob
import json
import os
import subprocess
import sys

from sim_rules import rules

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(TOP, os.environ.get("B", "build/release"), "kvroutectl")
SHARED = os.path.join(TOP, "../shared/data/traces/*.jsonl")
TRACES = os.environ.get("TRACES", "").split() or sorted(glob.glob(SHARED))
CELLS = os.environ.get("CELLS", "8:0.5 8:0.7 8:0.8 16:0.7 16:0.8 16:0.85").split()
FACTS = os.environ.get("FACTS", "first end").split()
SEEDS, NEAR = os.environ.get("SEEDS", "5"), float(os.environ.get("NEAR", "1.15"))


def run(trace, cell, facts, of, seeds):
    engines, load = cell.split(":")
    presets = [x for rule in of for x in ("--preset", rule)]
    out = subprocess.run([CTL, "sim", trace, "--engines", engines, "--load", load, "--facts", facts,
                          "--json", "--seeds", seeds] + presets,
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return {r["policy"]: r for r in map(json.loads, out.splitlines())}


def one(trace, cell, facts, of):
    name = os.path.basename(trace).split(".")[0]
    quick = run(trace, cell, facts, of, "1")
    best = min(quick[r]["ttft_mean"] for r in of)
    near = [r for r in of if r == "cost" or quick[r]["ttft_mean"] <= NEAR * best]
    got = run(trace, cell, facts, near, SEEDS)
    for rule in sorted(near, key=lambda r: got[r]["ttft_mean"]):
        r = got[rule]
        print("bench cells trace=%s cell=%s facts=%s policy=%s mean_s=%.3f se=%.3f p99_s=%.3f "
              "over_oracle=%.2f" % (name, cell, facts, rule, r["ttft_mean"],
                                    r.get("ttft_mean_se", 0),
                                    r["ttft_p99"], r["ratio"]))
    others = {r: (got if r in near else quick)[r]["ttft_mean"] for r in of if r != "cost"}
    rival = min(others, key=others.get)
    ahead = got["cost"]["ttft_mean"] < others[rival]
    print("bench cells_best trace=%s cell=%s facts=%s cost_s=%.3f published=%s published_s=%.3f "
          "ahead=%s" % (name, cell, facts, got["cost"]["ttft_mean"], rival, others[rival],
                        "yes" if ahead else "no"), flush=True)


def main():
    if not TRACES:
        print("skipped: no trace; TRACES=files")
    for trace in TRACES:
        for cell in CELLS:
            for facts in FACTS:
                one(trace, cell, facts, rules(CTL))


if __name__ == "__main__":
    sys.exit(main())
