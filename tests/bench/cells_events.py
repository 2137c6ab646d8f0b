#!/usr/bin/env python3
"""cells_events.py - what KV cache events are worth: cost with and without them, against oracles
that know the engines and against published rules, by kvroutectl sim.

A cell is a source of requests, a number of engines and a load: "8:0.7" is 8 engines of which round
robin would use 0.7. There are 19: the Mooncake conversation trace (../shared/data/traces) in 7, two
generated workloads in 6 each; with TRACES (files), 6 more for each of these. Prints

    bench cells_events source=agents cell=8:0.7 busy=.. overload=no policy=cost events=all
                       mean_s=.. se=.. over_oracle=.. hit=..
    bench cells_events_best source=.. cell=.. published=smetric published_events=none
                            published_s=.. ahead=yes|even|no
    bench cells_events_other source=.. cell=.. what=half|lost|.. over_oracle=.. without=..
    bench cells_events_sum cells=19 outside_overload=.. at_most_1.05=.. worst=..
                           worst_without=.. ahead=.. behind=..

events=all: each engine publishes, bodies are token ids, and a batch arrives 5 ms before the first
token; none: bodies are text. over_oracle: to the better one of two greedy oracles, which know each
cache and queue. busy: share of the time that its engines prefill. overload: the oracle that takes
the soonest first token has OVERLOAD (2) times the mean of the one that saves work, because queues
grow.

Published rules run without events, with one seed; the NEAR (3) best of them with all seeds, and
the best of these with events too. ahead: cost with events has a smaller mean than each of these;
even: the best of these has a mean smaller by less than two standard errors of the difference.

OTHER cells (8:0.7 of each source) run cost with the first half of the engines publishing; with 5 %
of the batches lost and no replay, which ends trust in an engine's events; with events 200 ms late;
and with a configured capacity of three times and of 0.3 times the true one, with and without
events.

Nothing here depends on the machine. SEEDS (3) seeds; RULES; all of it takes some 15 minutes of a
processor."""
import json
import os
import subprocess
import sys

from sim_rules import rules

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(TOP, os.environ.get("B", "build/release"), "kvroutectl")
TRACE = os.path.join(TOP, "../shared/data/traces/mooncake_conversation.jsonl")
SIX = ["8:0.5", "8:0.7", "8:0.8", "16:0.5", "16:0.7", "16:0.8"]
SEEDS, NEAR = os.environ.get("SEEDS", "3"), int(os.environ.get("NEAR", "3"))
OTHER = os.environ.get("OTHER", "8:0.7").split()
ONLY = os.environ.get("CELLS", "").split()
OVERLOAD = 2
CAPACITY = 500000  # of the profile
ALL = ["--events", "all"]


def sources():
    traces = ([TRACE] if os.path.exists(TRACE) else []) + os.environ.get("TRACES", "").split()
    if TRACE not in traces:
        print("skipped: %s, which is not there" % TRACE)
    for t in traces:
        yield os.path.basename(t).split(".")[0], [t], SIX + ["16:0.9"] * (t == TRACE)
    for w in os.environ.get("WORKLOADS", "agents prefixes").split():
        yield w, ["--workload", w], SIX


def run(source, cell, of, more=(), seeds=SEEDS):
    engines, load = cell.split(":")
    presets = [x for rule in of for x in ("--preset", rule)]
    out = subprocess.run([CTL, "sim", *source, "--engines", engines, "--load", load, "--json",
                          "--seeds", seeds, *presets, *more],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return {r["policy"]: r for r in map(json.loads, out.splitlines())}


def oracle_of(rows):
    return min((rows[r] for r in ("oracle", "oracle_ext10")), key=lambda r: r["ttft_mean"])


def state_of(rows):
    """Return how busy the engines are, and if that is overload."""
    greedy, saves = rows["oracle"]["ttft_mean"], rows["oracle_ext10"]["ttft_mean"]
    return oracle_of(rows)["offered"], "yes" if greedy > OVERLOAD * saves else "no"


def row(name, cell, state, r, events):
    print("bench cells_events source=%s cell=%s busy=%.2f overload=%s policy=%s events=%s "
          "mean_s=%.4f se=%.4f over_oracle=%.3f hit=%.3f"
          % (name, cell, *state, r["policy"], events, r["ttft_mean"], r.get("ttft_mean_se", 0),
             r["ratio"], r["hit"]), flush=True)


def published(name, source, cell, state):
    """Return the best published rule of a cell, and if it had events."""
    of = rules(CTL, without=("cost",))
    quick = run(source, cell, of, seeds="1")
    near = sorted(of, key=lambda r: quick[r]["ttft_mean"])[:NEAR]
    got = run(source, cell, near)
    for rule in near:
        row(name, cell, state, got[rule], "none")
    rule = min(near, key=lambda r: got[r]["ttft_mean"])
    informed = run(source, cell, [rule], ALL)[rule]
    row(name, cell, state, informed, "all")
    return min((got[rule], "none"), (informed, "all"), key=lambda b: b[0]["ttft_mean"])


def ahead_of(ours, theirs):
    error = (ours.get("ttft_mean_se", 0) ** 2 + theirs.get("ttft_mean_se", 0) ** 2) ** .5
    behind = ours["ttft_mean"] - theirs["ttft_mean"]
    return "yes" if behind < 0 else "even" if behind < 2 * error else "no"


def one(name, source, cell):
    with_all, without = run(source, cell, ["cost"], ALL), run(source, cell, ["cost"])
    state = state_of(without)
    row(name, cell, state, oracle_of(without), "known")
    row(name, cell, state, with_all["cost"], "all")
    row(name, cell, state, without["cost"], "none")
    best, events = published(name, source, cell, state)
    ahead = ahead_of(with_all["cost"], best)
    print("bench cells_events_best source=%s cell=%s cost_s=%.4f published=%s published_events=%s "
          "published_s=%.4f ahead=%s" % (name, cell, with_all["cost"]["ttft_mean"], best["policy"],
                                         events, best["ttft_mean"], ahead), flush=True)
    return {"overload": state[1], "all": with_all["cost"]["ratio"],
            "none": without["cost"]["ratio"], "ahead": ahead}


def other(name, source, cell):
    engines = int(cell.split(":")[0])
    ids = run(source, cell, ["cost"], ["--body", "ids"])["cost"]["ratio"]
    cases = [("half", ["--events", str(engines // 2)], None),
             ("lost_5_percent", ALL + ["--events-lost", "0.05"], None),
             ("late_200_ms", ALL + ["--events-delay", "200"], None),
             ("capacity_x3", ALL + ["--capacity", str(CAPACITY * 3)],
              ["--body", "ids", "--capacity", str(CAPACITY * 3)]),
             ("capacity_x0.3", ALL + ["--capacity", str(CAPACITY * 3 // 10)],
              ["--body", "ids", "--capacity", str(CAPACITY * 3 // 10)])]
    for what, more, without in cases:
        r = run(source, cell, ["cost"], more)["cost"]
        plain = run(source, cell, ["cost"], without)["cost"]["ratio"] if without else ids
        print("bench cells_events_other source=%s cell=%s what=%s over_oracle=%.3f without=%.3f "
              "lost=%d of %d" % (name, cell, what, r["ratio"], plain,
                                 r.get("batches_lost", 0),
                                 r.get("batches", 0) + r.get("batches_lost", 0)), flush=True)


def main():
    got = []
    for name, source, cells in sources():
        for cell in cells:
            if not ONLY or cell in ONLY:
                got.append(one(name, source, cell))
            if cell in OTHER and (not ONLY or cell in ONLY):
                other(name, source, cell)
    usual = [c for c in got if c["overload"] == "no"]
    print("bench cells_events_sum cells=%d outside_overload=%d at_most_1.05=%d worst=%.3f "
          "worst_without=%.3f ahead=%d behind=%d" % (
              len(got), len(usual), sum(c["all"] <= 1.05 for c in usual),
              max(c["all"] for c in usual), max(c["none"] for c in usual),
              sum(c["ahead"] == "yes" for c in got), sum(c["ahead"] == "no" for c in got)))


if __name__ == "__main__":
    sys.exit(main())
