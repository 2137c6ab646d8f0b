#!/usr/bin/env python3
"""share_sim.py - several agents for one fleet of simulated engines, by kvroutectl sim: one agent,
agents that share nothing, and agents that share, at each delay and loss, with a cut in the middle,
and with one HAProxy for all. Prints a line a run:

    bench share-sim source=agentic engines=8 agents=8 share=yes delay_ms=5 loss=0 cut=no haproxies=8
              hit=.. mean_s=.. p99_s=.. hit_off=.. mean_off=.. entries_median=.. entries_mean=..
              decide_us=.. bytes_median=.. bytes_mean=.. alone_median=.. wire_mean=..
              repair_mean=.. write_us=.. write_share=.. apply_us=.. apply_share=.. repair_us=..
              pairs=.. differing=.. settled_s=..

hit_off and mean_off compare with one agent: the difference of the hit shares, and the mean time to
the first token over that of one agent, less 1. Entries and bytes are those about one request: in
batches with many others, or with alone_median each in a batch of its own; wire_mean is of all
batches, per request, and repair_mean what of it is not about a request: digests, pages sent again,
headers and signs of life. Times are CPU microseconds of this machine for one request; apply_us is
spent by each sibling, and the shares are those of decide_us. All else is simulated and comes out
the same everywhere. settled_s: seconds after the last request until all agents held the same pairs
of a server and a page; -1.0: never.

AGENTS, DELAYS (ms), LOSSES, ENGINES, LIMIT (requests), SEEDS and TRACE choose what is run. The
recorded trace is left out by name if it is not there.
"""
import json
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(TOP, os.environ.get("B", "build/release"), "kvroutectl")
TRACE = os.environ.get("TRACE", os.path.join(
    os.path.dirname(TOP), "shared", "data", "traces", "mooncake_conversation.jsonl"))
AGENTS = os.environ.get("AGENTS", "1 2 4 8").split()
DELAYS = os.environ.get("DELAYS", "1 5 50").split()
LOSSES = os.environ.get("LOSSES", "0 0.01 0.1").split()
ENGINES = os.environ.get("ENGINES", "8")
LIMIT = os.environ.get("LIMIT", "")
SEEDS = os.environ.get("SEEDS", "1")
SOURCES = {"conversation": [TRACE, "--load", "0.7"],
           "agentic": ["--workload", "agentic", "--profile", "8b-h100-bigkv", "--speed", "1"]}


def run(source, agents, *options):
    limit = ["--limit", LIMIT] if LIMIT else []
    out = subprocess.run([CTL, "sim", *SOURCES[source], *limit, "--json", "--engines", ENGINES,
                          "--seeds", SEEDS, "--preset", "cost", "--agents", agents, *options],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.splitlines()[0])


def say(source, r, one, delay="-", loss="-", cut="no", haproxies=None):
    n = r["agents"]
    line = ("bench share-sim source=%s engines=%s agents=%d share=%s delay_ms=%s loss=%s cut=%s "
            "haproxies=%s hit=%.4f mean_s=%.4f p99_s=%.3f hit_off=%+.4f mean_off=%+.4f "
            "decide_us=%.1f") % (
        source, ENGINES, n, "yes" if r["share"] else "no", delay, loss, cut, haproxies or n,
        r["hit"], r["ttft_mean"], r["ttft_p99"], r["hit"] - one["hit"],
        r["ttft_mean"] / one["ttft_mean"] - 1, r["agents_decide_us"])
    if r["share"]:
        line += " entries_median=%.0f entries_mean=%.2f" % (r["entries_median"], r["entries_mean"])
        line += (" bytes_median=%.0f bytes_mean=%.0f alone_median=%.0f wire_mean=%.0f "
                 "repair_mean=%.0f") % (r["bytes_median"], r["bytes_mean"], r["alone_median"],
                                        r["wire_mean"], r["wire_mean"] - r["bytes_mean"])
        line += " write_us=%.2f write_share=%.3f apply_us=%.2f apply_share=%.3f repair_us=%.2f" % (
            r["write_us"], r["write_us"] / r["agents_decide_us"],
            r["apply_us"], r["apply_us"] / r["agents_decide_us"], r["repair_us"])
        line += " pairs=%d differing=%d settled_s=%.1f" % (
            r["pairs"], r["differing"], r["settled_s"])
    print(line, flush=True)


def table(source):
    one = run(source, "1")
    for n in AGENTS:
        if n == "1":
            say(source, one, one)
            continue
        say(source, run(source, n, "--no-share"), one)
        for delay in DELAYS:
            for loss in LOSSES:
                say(source, run(source, n, "--share-delay", delay, "--share-loss", loss), one,
                    delay, loss)
        for cut in ("0.4-0.6", "0.8-1"):
            say(source, run(source, n, "--share-cut", cut), one, "5", "0", cut)
        say(source, run(source, n, "--one-haproxy", "--agents-random"), one, "5", "0",
            haproxies="1")


def main():
    for source in SOURCES:
        if source == "conversation" and not os.path.exists(TRACE):
            print("skipped: conversation: %s is not there" % TRACE)
        else:
            table(source)


if __name__ == "__main__":
    sys.exit(main())
