#!/usr/bin/env python3
"""prefill.py - pools.prefill in simulation (kvroutectl sim --prefill): two of eight engines compute
prompts for the others. At each load the default rule must be as good as the best of: eight engines
that do both, prefill servers that are never used, and prefill servers that are always used. All is
simulated, so the figures are equal on every machine. tests/bench/prefill.py prints more."""
import json
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(TOP, os.environ.get("B", "build/release"), "kvroutectl")
NEVER, ALWAYS = "cost:prefill_least=16777216", "cost:stall=99,transfer_ms=0,transfer_per_1k_ms=0"
MOST = 1.03     # of the best, to the end of the answer
passed = failed = 0


def check(what, good, figures):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("%s  %s: %s" % ("ok  " if good else "FAIL", what, figures), flush=True)


def run(workload, load, *rules, options=()):
    out = subprocess.run([CTL, "sim", "--workload", workload, "--limit", "1500", "--engines", "8",
                          "--load", load, "--json", *options] +
                         [x for r in rules for x in ("--preset", r)],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    got = {r["policy"]: r for r in map(json.loads, out.splitlines())}
    return [got[r] for r in rules]


def main():
    for workload in "chat", "prefixes":
        for load in "0.3", "0.7", "0.95":
            together, = run(workload, load, "cost")
            ours, never, always = run(workload, load, "cost", NEVER, ALWAYS,
                                      options=["--prefill", "2"])
            best = min(r["e2e_mean"] for r in (together, never, always))
            what = "%s at load %s" % (workload, load)
            check(what, ours["e2e_mean"] < MOST * best,
                  "%.3f s to the end; together %.3f, never %.3f, always %.3f" % tuple(
                      r["e2e_mean"] for r in (ours, together, never, always)))
            check(what + ", first tokens", ours["ttft_mean"] < always["ttft_mean"],
                  "%.3f s; together %.3f, never %.3f, always %.3f" % tuple(
                      r["ttft_mean"] for r in (ours, together, never, always)))
            if load != "0.3":
                check(what + ", between tokens", ours["itl_mean"] < 0.95 * together["itl_mean"],
                      "%.1f ms; together %.1f" % tuple(
                          1e3 * r["itl_mean"] for r in (ours, together)))
    slow, = run("chat", "0.7", "cost", options=["--prefill", "2", "--transfer", "400:400"])
    check("transfers that take longer than computing", slow["split"] < 100,
          "%d of %d prompts split" % (slow["split"], slow["requests"]))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
