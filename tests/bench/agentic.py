#!/usr/bin/env python3
"""agentic.py - sessions of coding agents (kvroutectl sim --workload agentic) under each rule of the
agent, and under cost with bodies cut to HAProxy's buffers. All is simulated, so no figure depends
on the machine. A cell is a number of requests, and how many times as fast sessions begin: with
"5000:1" the caches hold nearly all sessions, with "8000:4" some are full, with "10000:4" all. A
third part is the speed of the first two engines: with "8000:4:0.5" they take twice as long as the
others. Prints a line a rule, the mean of SEEDS seeds from SEED on:

    bench agentic cell=8000:4 rule=cost engines=8 seeds=11-15 ttft_mean=.. ttft_p99=.. hit=..
    bench agentic_lead cell=8000:4 over=cache_aware ttft=0.35 se=0.02 hit=0.041 ahead=yes
    bench agentic_ceiling cell=8000:4 oracle_ttft=.. oracle_hit=.. endless_ttft=.. endless_hit=..

rule=cost_known: cost, if engines report the sizes of their caches. ttft of agentic_lead is the
share of the mean that cost saves, se the standard error of the mean of that share over the seeds,
hit the difference of the shares of prompt tokens found cached; ahead: by at least 0.10 and 0.03,
the goals. oracle: the better of the two that know the engines; endless: the same with caches that
never evict, which no rule can beat by much. And a line a buffer:

    bench agentic_buffer bufsize=16384 visible=13300 session=yes ttft_mean=.. hit=.. to_whole=+0.05

visible: bytes that a message can show (N in haproxy-conf/kvroute.spoe); to_whole: to the mean of
whole bodies without a session. At the end the table of doc/measured.md, unless the rules are
skipped. What was run is kept (sim_results.py), so a bench that was ended goes on. RULES, ENGINES,
CELLS, SEED (11), SEEDS (5), PROFILE and SKIP ("rules", "buffers") choose what is run; BUFFER_CELL,
BUFFER_SEED and BUFFER_ENGINES those of the buffers. All of it takes some 50 minutes of a processor.
"""
import os
import sys

from sim_results import CTL, Results, mean
from sim_rules import rules

ENGINES = os.environ.get("ENGINES", "8")
CELLS = os.environ.get("CELLS", "5000:1 8000:4 10000:4 8000:4:0.5").split()
BUFFER_CELL = os.environ.get("BUFFER_CELL", "2000:1")
BUFFER_ENGINES = os.environ.get("BUFFER_ENGINES", "4")
BUFFER_SEED = int(os.environ.get("BUFFER_SEED", "1"))
SEED, SEEDS = int(os.environ.get("SEED", "11")), int(os.environ.get("SEEDS", "5"))
PROFILE = os.environ.get("PROFILE", "8b-h100-bigkv")
SKIP = os.environ.get("SKIP", "").split()
LOAD_BYTES = 1000  # the load of some 30 servers
BUFFERS = [16384, 65536, 262144, 1048576]
LEAD_TTFT, LEAD_HIT = 0.10, 0.03
ORACLES = ["oracle", "oracle_ext10"]
KEPT = Results("agentic")


def run(of, cell, *more, engines=ENGINES, first=SEED):
    """Return for each rule its results, one a seed."""
    requests, speed, *slow = cell.split(":")
    slow = [x for i in range(2) for f in slow for x in ("--slow", "%d:%s" % (i, f))]
    options = ["--workload", "agentic", "--engines", engines, "--limit", requests, "--profile",
               PROFILE, "--speed", speed, *slow, *more]
    got = [KEPT.run(options, seed, of) for seed in range(first, first + SEEDS)]
    return {rule: [g[rule] for g in got] for rule in of}


def seconds(runs):
    return mean(runs, "ttft_mean")


def oracle(got):
    return min((got[r] for r in ORACLES), key=seconds)


def line(cell, rule, runs):
    print("bench agentic cell=%s rule=%s engines=%s seeds=%d-%d ttft_mean=%.3f ttft_p99=%.3f "
          "hit=%.4f" % (cell, rule, ENGINES, SEED, SEED + SEEDS - 1, seconds(runs),
                        mean(runs, "ttft_p99"), mean(runs, "hit")), flush=True)


def lead(cell, rule, ours, theirs):
    ttft = 1 - seconds(ours) / seconds(theirs)
    hit = mean(ours, "hit") - mean(theirs, "hit")
    each = [1 - a["ttft_mean"] / b["ttft_mean"] for a, b in zip(ours, theirs)]
    off = sum((x - sum(each) / SEEDS) ** 2 for x in each)
    print("bench agentic_lead cell=%s over=%s ttft=%.3f se=%.3f hit=%.4f ahead=%s" % (
        cell, rule, ttft, (off / max(1, SEEDS - 1) / SEEDS) ** 0.5, hit,
        "yes" if ttft >= LEAD_TTFT and hit >= LEAD_HIT else "no"), flush=True)


def leads(cell, of):
    got = run([*of, *ORACLES], cell)
    if "cost" in of:
        got["cost_known"] = run(["cost"], cell, "--engine-load", "polls")["cost"]
    got["endless"] = oracle(run(ORACLES, cell, "--kv-tokens", str(1 << 28)))
    for rule in sorted(set(got) - {"endless"}, key=lambda r: seconds(got[r])):
        line(cell, rule, got[rule])
    for rule in of:
        if rule != "cost" and "cost" in of:
            lead(cell, rule, got["cost"], got[rule])
    best = oracle(got)
    print("bench agentic_ceiling cell=%s oracle_ttft=%.3f oracle_hit=%.4f endless_ttft=%.3f "
          "endless_hit=%.4f" % (cell, seconds(best), mean(best, "hit"), seconds(got["endless"]),
                                mean(got["endless"], "hit")), flush=True)
    return got


def table(cells, by_cell):
    """Print the mean and the share of tokens cached of each rule, the best first, as markdown."""
    print("\nRules on %s engines, seeds %d to %d: mean time to the first token, tokens cached" % (
        ENGINES, SEED, SEED + SEEDS - 1))
    print("| rule | %s |\n|%s" % (" | ".join("`%s`" % c for c in cells), "---|" * (1 + len(cells))))
    order = sorted(set(by_cell[cells[0]]) - set(ORACLES),
                   key=lambda r: sum(seconds(by_cell[c][r]) for c in cells))
    for rule in order:
        print("| `%s` | %s |" % (rule, " | ".join("%.3g s, %.1f %%" % (
            seconds(by_cell[c][rule]), 100 * mean(by_cell[c][rule], "hit")) for c in cells)))


def buffers(cell):
    def cost(*options):
        return run(["cost"], cell, *options, engines=BUFFER_ENGINES, first=BUFFER_SEED)["cost"]

    whole = seconds(cost("--no-session"))
    for size in BUFFERS + [0]:
        visible = size - 2048 - LOAD_BYTES
        limit = ["--body-limit", str(visible)] if size else []
        for session in ("yes", "no"):
            r = cost(*limit, *([] if session == "yes" else ["--no-session"]))
            print("bench agentic_buffer bufsize=%s visible=%s session=%s ttft_mean=%.3f hit=%.4f "
                  "to_whole=%+.3f" % (size or "whole", visible if size else "all", session,
                                      seconds(r), mean(r, "hit"), seconds(r) / whole - 1),
                  flush=True)


def main():
    if "rules" not in SKIP:
        table(CELLS, {cell: leads(cell, rules(CTL)) for cell in CELLS})
    if "buffers" not in SKIP:
        buffers(BUFFER_CELL)


if __name__ == "__main__":
    sys.exit(main())
