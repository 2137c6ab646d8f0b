#!/usr/bin/env python3
"""prefill.py - pools.prefill in simulation (kvroutectl sim --prefill): engines that compute prompts
for others, against the same number that all do both. All is simulated, so no figure depends on the
machine. Prints, for each workload, load and number of prefill servers, a line a way:

    bench prefill workload=chat load=0.7 engines=8 prefill=2 way=rule ttft_mean=.. itl_ms=.. ...

    together   no prefill servers: all engines do both
    rule       the default rule, which splits what it finds cheaper to split
    never      prefill servers that are not used
    always     every prompt that is not short is split unless no answer runs where it is decoded
    stall=X    the default rule with another price of delaying answers (policy.stall)

and a line with the time to the end of the answer, which the rule minimizes, as a share above the
best of "together", "never" and "always":

    bench prefill_to_best workload=chat load=0.7 engines=8 prefill=2 e2e=-0.051 best=together

load is that of kvroutectl sim: with round robin, all engines would prefill for this share of the
time. With transfers as configured; then those of other speeds, to see what learning them is worth:

    bench prefill_transfer workload=chat transfer=80:40 way=learned e2e_mean=.. split=..

At the end the table of doc/measured.md. WORKLOADS, LOADS, ENGINES, PREFILLS, REQUESTS, SEEDS,
PROFILE choose what is run.
"""
import json
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(TOP, os.environ.get("B", "build/release"), "kvroutectl")
WORKLOADS = os.environ.get("WORKLOADS", "chat prefixes").split()
LOADS = os.environ.get("LOADS", "0.3 0.7 0.95").split()
ENGINES = os.environ.get("ENGINES", "8")
PREFILLS = os.environ.get("PREFILLS", "2 4").split()
REQUESTS = os.environ.get("REQUESTS", "3000")
SEEDS = os.environ.get("SEEDS", "3")
PROFILE = os.environ.get("PROFILE", "8b-h100")
WAYS = {"rule": "cost", "never": "cost:prefill_least=16777216",
        "always": "cost:stall=99,transfer_ms=0,transfer_per_1k_ms=0"}
STALLS = {"stall=%s" % s: "cost:stall=%s" % s for s in ("0", "0.25", "1")}
TRANSFERS = ["5:2.5", "20:10", "80:40"]
START = {"learned": "cost", "configured": "cost:learn_transfer=false"}


def sim(workload, load, presets, *options):
    """Return {preset: figures}."""
    out = subprocess.run([CTL, "sim", "--workload", workload, "--engines", ENGINES, "--limit",
                          REQUESTS, "--seeds", SEEDS, "--profile", PROFILE, "--load", load,
                          "--json", *options] + [x for p in presets for x in ("--preset", p)],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return {r["policy"]: r for r in map(json.loads, out.splitlines())}


def share_split(r):
    return r["split"] / r["requests"] / int(r.get("seeds", 1))


def figures(r):
    return ("ttft_mean=%.3f ttft_p99=%.2f itl_ms=%.2f e2e_mean=%.3f hit=%.3f split=%.3f" % (
        r["ttft_mean"], r["ttft_p99"], r["itl_mean"] * 1000, r["e2e_mean"], r["hit"],
        share_split(r)))


def cell(workload, load, together, prefill):
    ways = {**WAYS, **STALLS}
    got = sim(workload, load, list(ways.values()), "--prefill", prefill)
    rows = {"together": together, **{way: got[preset] for way, preset in ways.items()}}
    head = "workload=%s load=%s engines=%s prefill=%s" % (workload, load, ENGINES, prefill)
    for way, r in rows.items():
        print("bench prefill %s way=%s %s" % (head, way, figures(r)), flush=True)
    best = min(("together", "never", "always"), key=lambda w: rows[w]["e2e_mean"])
    print("bench prefill_to_best %s e2e=%+.3f best=%s" % (
        head, rows["rule"]["e2e_mean"] / rows[best]["e2e_mean"] - 1, best), flush=True)
    return rows


def table(cells):
    """Print the means of three ways, as markdown. <cells>: (workload, load, prefill), rows."""
    shown = (("ttft_mean", "%.3f", 1), ("itl_mean", "%.1f", 1000), ("e2e_mean", "%.2f", 1))
    print("\nTogether / always split / by the rule, %s engines, %s seeds" % (ENGINES, SEEDS))
    print("| workload | load | prefill servers | first token, s | between tokens, ms | end, s |"
          " split |\n|---|---|---|---|---|---|---|")
    for (workload, load, prefill), rows in cells:
        of = [rows[way] for way in ("together", "always", "rule")]
        print("| %s | %s | %s | %s | %.0f, %.0f %% |" % (
            workload, load, prefill,
            " | ".join(" / ".join(how % (times * r[key]) for r in of) for key, how, times in shown),
            100 * share_split(of[1]), 100 * share_split(of[2])))


def main():
    cells = []
    for workload in WORKLOADS:
        for load in LOADS:
            together = sim(workload, load, ["cost"])["cost"]
            for prefill in PREFILLS:
                cells.append(((workload, load, prefill), cell(workload, load, together, prefill)))
        for transfer in TRANSFERS:
            got = sim(workload, "0.7", list(START.values()), "--prefill", PREFILLS[0],
                      "--transfer", transfer)
            for way, preset in START.items():
                print("bench prefill_transfer workload=%s transfer=%s way=%s %s" % (
                    workload, transfer, way, figures(got[preset])), flush=True)
    table(cells)


if __name__ == "__main__":
    sys.exit(main())
