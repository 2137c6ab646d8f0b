#!/usr/bin/env python3
"""agentic.py - the default rule on sessions of coding agents (kvroutectl sim --workload agentic):
ahead of four published rules by the goals of tests/bench/agentic.py; near consistent hashing by
session in hits; a body cut to 256 KB is as good as a whole one. All is simulated, so
the figures are equal on every machine. tests/bench/agentic.py prints those of all rules."""
import json
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(TOP, os.environ.get("B", "build/release"), "kvroutectl")
FLEET = ["--engines", "4", "--limit", "1500", "--seeds", "2", "--speed", "1", "--profile",
         "8b-h100-bigkv"]
BEHIND = ("dynamo", "chwbl", "prefix_hash", "least_conn")
passed = failed = 0


def check(what, good, figures):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("%s  %s: %s" % ("ok  " if good else "FAIL", what, figures), flush=True)


def run(rules, *options):
    out = subprocess.run([CTL, "sim", "--workload", "agentic", *FLEET, "--json", *options] +
                         [x for r in rules for x in ("--preset", r)],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return {r["policy"]: r for r in map(json.loads, out.splitlines())}


def main():
    got = run(("cost", "consistent_hash") + BEHIND)
    ours = got["cost"]
    for rule in BEHIND:
        ttft, hit = 1 - ours["ttft_mean"] / got[rule]["ttft_mean"], ours["hit"] - got[rule]["hit"]
        check("cost ahead of %s" % rule, ttft >= 0.10 and hit >= 0.03,
              "%.0f %% less time to the first token, hit share %+.3f" % (100 * ttft, hit))
    rival = got["consistent_hash"]
    check("hit share near that of consistent_hash", ours["hit"] > rival["hit"] - 0.02,
          "%.3f of %.3f" % (ours["hit"], rival["hit"]))
    cut = run(["cost"], "--no-session", "--body-limit", "259000")["cost"]
    whole = run(["cost"], "--no-session")["cost"]
    check("a body cut to 256 KB", cut["hit"] > whole["hit"] - 0.01 and
          cut["ttft_mean"] < 1.10 * whole["ttft_mean"],
          "mean %.3f s of %.3f, hit share %.3f of %.3f" % (
              cut["ttft_mean"], whole["ttft_mean"], cut["hit"], whole["hit"]))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
