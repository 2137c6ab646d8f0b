#!/usr/bin/env python3
"""agentic.py - sessions of coding agents (kvroutectl sim --workload agentic) under each rule of the
agent, and under cost with bodies cut to HAProxy's buffers. All is simulated, so no figure depends
on the machine. Prints a line a rule, the mean of SEEDS seeds:

    bench agentic rule=cost engines=8 requests=5000 seeds=5 ttft_mean=.. ttft_p99=.. hit=..
    bench agentic_lead over=cache_aware ttft=0.35 hit=0.041 ahead=yes

ttft of agentic_lead is the share of the mean that cost saves, hit the difference of the shares of
prompt tokens found cached; ahead: by at least 0.10 and 0.03, the goals. And a line a buffer:

    bench agentic_buffer bufsize=16384 visible=13300 session=yes ttft_mean=.. hit=.. to_whole=+0.05

visible: bytes that a message can show (N in haproxy-conf/kvroute.spoe); to_whole: to the mean of
whole bodies without a session. RULES, ENGINES, REQUESTS, SEEDS, PROFILE and SKIP ("rules",
"buffers") choose what is run.
"""
import json
import os
import subprocess
import sys

from sim_rules import rules

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(TOP, os.environ.get("B", "build/release"), "kvroutectl")
ENGINES = os.environ.get("ENGINES", "8")
REQUESTS = os.environ.get("REQUESTS", "5000")
SEEDS = os.environ.get("SEEDS", "5")
PROFILE = os.environ.get("PROFILE", "8b-h100-bigkv")
SKIP = os.environ.get("SKIP", "").split()
LOAD_BYTES = 1000  # the load of some 30 servers
BUFFERS = [16384, 65536, 262144, 1048576]
LEAD_TTFT, LEAD_HIT = 0.10, 0.03


def run(of, *options):
    out = subprocess.run([CTL, "sim", "--workload", "agentic", "--engines", ENGINES, "--limit",
                          REQUESTS, "--seeds", SEEDS, "--profile", PROFILE, "--speed", "1",
                          "--json", *options] + [x for r in of for x in ("--preset", r)],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return {r["policy"]: r for r in map(json.loads, out.splitlines())}


def leads(of):
    got = run(of)
    ours = got["cost"]
    for rule in sorted(got, key=lambda r: got[r]["ttft_mean"]):
        r = got[rule]
        print("bench agentic rule=%s engines=%s requests=%s seeds=%s ttft_mean=%.3f ttft_p99=%.3f "
              "hit=%.4f" % (rule, ENGINES, REQUESTS, SEEDS, r["ttft_mean"], r["ttft_p99"],
                            r["hit"]))
    for rule in of:
        if rule == "cost":
            continue
        ttft = 1 - ours["ttft_mean"] / got[rule]["ttft_mean"]
        hit = ours["hit"] - got[rule]["hit"]
        print("bench agentic_lead over=%s ttft=%.3f hit=%.4f ahead=%s" % (
            rule, ttft, hit, "yes" if ttft >= LEAD_TTFT and hit >= LEAD_HIT else "no"), flush=True)


def buffers():
    whole = run(["cost"], "--no-session")["cost"]["ttft_mean"]
    for size in BUFFERS + [0]:
        visible = size - 2048 - LOAD_BYTES
        limit = ["--body-limit", str(visible)] if size else []
        for session in ("yes", "no"):
            r = run(["cost"], *limit, *([] if session == "yes" else ["--no-session"]))["cost"]
            print("bench agentic_buffer bufsize=%s visible=%s session=%s ttft_mean=%.3f hit=%.4f "
                  "to_whole=%+.3f" % (size or "whole", visible if size else "all", session,
                                      r["ttft_mean"], r["hit"], r["ttft_mean"] / whole - 1),
                  flush=True)


def main():
    if "rules" not in SKIP:
        leads(rules(CTL))
    if "buffers" not in SKIP:
        buffers()


if __name__ == "__main__":
    sys.exit(main())
