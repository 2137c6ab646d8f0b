#!/usr/bin/env python3
"""agentic.py - sessions of coding agents (kvroutectl sim --workload agentic) under each rule of the
agent, and under cost with bodies cut to HAProxy's buffers. All is simulated, so no figure depends
on the machine. A cell is a number of requests, and how many times as fast sessions begin: with
"5000:1" the caches hold all sessions, with "8000:4" some are full, with "10000:4" all. A third part
is the speed of the first two engines: with "8000:4:0.5" they take twice as long as the others.
Prints a line a rule, the mean of SEEDS seeds:

    bench agentic cell=8000:4 rule=cost engines=8 seeds=5 ttft_mean=.. ttft_p99=.. hit=..
    bench agentic_lead cell=8000:4 over=cache_aware ttft=0.35 hit=0.041 ahead=yes
    bench agentic_ceiling cell=8000:4 oracle_ttft=.. oracle_hit=.. endless_ttft=.. endless_hit=..

rule=cost_known: cost, if engines report the sizes of their caches. ttft of agentic_lead is the
share of the mean that cost saves, hit the difference of the shares of prompt tokens found cached;
ahead: by at least 0.10 and 0.03, the goals. oracle: the better of the two that know the engines;
endless: the same with caches that never evict, which no rule can beat by much. And a line a buffer:

    bench agentic_buffer bufsize=16384 visible=13300 session=yes ttft_mean=.. hit=.. to_whole=+0.05

visible: bytes that a message can show (N in haproxy-conf/kvroute.spoe); to_whole: to the mean of
whole bodies without a session. RULES, ENGINES, CELLS, SEEDS, PROFILE and SKIP ("rules", "buffers")
choose what is run; BUFFER_CELL and BUFFER_ENGINES the cell of the buffers.
"""
import json
import os
import subprocess
import sys

from sim_rules import rules

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(TOP, os.environ.get("B", "build/release"), "kvroutectl")
ENGINES = os.environ.get("ENGINES", "8")
CELLS = os.environ.get("CELLS", "5000:1 8000:4 10000:4 8000:4:0.5").split()
BUFFER_CELL = os.environ.get("BUFFER_CELL", "2000:1")
BUFFER_ENGINES = os.environ.get("BUFFER_ENGINES", "4")
SEEDS = os.environ.get("SEEDS", "5")
PROFILE = os.environ.get("PROFILE", "8b-h100-bigkv")
SKIP = os.environ.get("SKIP", "").split()
LOAD_BYTES = 1000  # the load of some 30 servers
BUFFERS = [16384, 65536, 262144, 1048576]
LEAD_TTFT, LEAD_HIT = 0.10, 0.03


def run(of, cell, *options, engines=ENGINES):
    requests, speed, *slow = cell.split(":")
    slow = [x for i in range(2) for f in slow for x in ("--slow", "%d:%s" % (i, f))]
    out = subprocess.run([CTL, "sim", "--workload", "agentic", "--engines", engines, "--limit",
                          requests, "--seeds", SEEDS, "--profile", PROFILE, "--speed", speed,
                          "--json", *slow, *options] + [x for r in of for x in ("--preset", r)],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return {r["policy"]: r for r in map(json.loads, out.splitlines())}


def line(cell, rule, r):
    print("bench agentic cell=%s rule=%s engines=%s seeds=%s ttft_mean=%.3f ttft_p99=%.3f "
          "hit=%.4f" % (cell, rule, ENGINES, SEEDS, r["ttft_mean"], r["ttft_p99"], r["hit"]),
          flush=True)


def oracle(got):
    return min((got[r] for r in got if r.startswith("oracle")), key=lambda r: r["ttft_mean"])


def leads(cell, of):
    got = run(of, cell)
    got["cost_known"] = run(["cost"], cell, "--engine-load", "polls")["cost"]
    endless = oracle(run(["least_conn"], cell, "--kv-tokens", str(1 << 28)))
    for rule in sorted(got, key=lambda r: got[r]["ttft_mean"]):
        line(cell, rule, got[rule])
    for rule in of:
        if rule == "cost":
            continue
        ttft = 1 - got["cost"]["ttft_mean"] / got[rule]["ttft_mean"]
        hit = got["cost"]["hit"] - got[rule]["hit"]
        print("bench agentic_lead cell=%s over=%s ttft=%.3f hit=%.4f ahead=%s" % (
            cell, rule, ttft, hit, "yes" if ttft >= LEAD_TTFT and hit >= LEAD_HIT else "no"))
    print("bench agentic_ceiling cell=%s oracle_ttft=%.3f oracle_hit=%.4f endless_ttft=%.3f "
          "endless_hit=%.4f" % (cell, oracle(got)["ttft_mean"], oracle(got)["hit"],
                                endless["ttft_mean"], endless["hit"]), flush=True)


def buffers(cell):
    def cost(*options):
        return run(["cost"], cell, *options, engines=BUFFER_ENGINES)["cost"]

    whole = cost("--no-session")["ttft_mean"]
    for size in BUFFERS + [0]:
        visible = size - 2048 - LOAD_BYTES
        limit = ["--body-limit", str(visible)] if size else []
        for session in ("yes", "no"):
            r = cost(*limit, *([] if session == "yes" else ["--no-session"]))
            print("bench agentic_buffer bufsize=%s visible=%s session=%s ttft_mean=%.3f hit=%.4f "
                  "to_whole=%+.3f" % (size or "whole", visible if size else "all", session,
                                      r["ttft_mean"], r["hit"], r["ttft_mean"] / whole - 1),
                  flush=True)


def main():
    if "rules" not in SKIP:
        for cell in CELLS:
            leads(cell, rules(CTL))
    if "buffers" not in SKIP:
        buffers(BUFFER_CELL)


if __name__ == "__main__":
    sys.exit(main())
