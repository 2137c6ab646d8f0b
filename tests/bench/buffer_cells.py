#!/usr/bin/env python3
"""buffer_cells.py - rule cost with bodies cut to what buffers of HAProxy show, by kvroutectl sim.

The 19 cells are those of cells_events.py: the Mooncake conversation trace
(../shared/data/traces) in 7, two generated workloads in 6 each. All is simulated, so no figure
depends on the machine. Prints a line a cell and buffer; then one a source and one for all cells:

    bench buffer_cell source=mooncake_conversation cell=8:0.7 how=cut bufsize=16384 visible=13336
                      session=no whole_s=.. ttft_mean=.. hit=.. to_whole=+0.05
    bench buffer_cells source=agents how=cut bufsize=16384 visible=13336 session=no cells=6
                       geomean=+0.05 worst=+0.20
    bench buffer_least source=prefixes cell=8:0.7 session=no within=0.03 visible=62488

cut: one message; sliced: recipes/sliced.cfg, eight slices of 13000 bytes of what the buffer holds,
simulated as one message of as many bytes. to_whole: to the mean of whole bodies without a session
and with the same load. least: the shortest visible part of a cell whose mean, and those of all
longer ones, are at most WITHIN (0.03) above whole bodies; "none" if only whole bodies are.

At the end the table of haproxy-conf/README.md. What was run is kept (sim_results.py), so a bench
that was ended goes on: run it again with the same RESULTS. BUFFERS ("16384 65536 262144 1048576"),
HOW ("cut sliced"), SOURCES, CELLS, LIMIT (4000, requests of each) and SEEDS (1; the first is the
trace as recorded) choose what runs. All of it takes some 8 minutes of a processor a seed.
"""
import math
import os
import sys

from cells_events import sources
from sim_results import Results, mean

ONLY, CELLS = os.environ.get("SOURCES", "").split(), os.environ.get("CELLS", "").split()
BUFFERS = [int(x) for x in os.environ.get("BUFFERS", "16384 65536 262144 1048576").split()]
HOW = os.environ.get("HOW", "cut sliced").split()
LIMIT, SEEDS = os.environ.get("LIMIT", "4000"), int(os.environ.get("SEEDS", "1"))
WITHIN = float(os.environ.get("WITHIN", "0.03"))
LOAD_BYTES = 1000  # the load of some 30 servers
RESERVED = 1024 + 700  # of a buffer: tune.maxrewrite, and the headers of a request
SLICES = 8 * 13000  # of recipes/sliced.cfg
KEPT = Results("buffer_cells")


def visible(how, size):
    return size - 2048 - LOAD_BYTES if how == "cut" else min(SLICES, size - RESERVED)


def cost(source, cell, *more):
    """Return the results of the seeds at one cell. The load is that of whole bodies."""
    engines, load = cell.split(":")
    options = [*source, "--engines", engines, "--load", load, "--limit", LIMIT, *more]
    return [KEPT.run(options, seed, ["cost"])["cost"] for seed in range(1, 1 + SEEDS)]


def one_cell(name, source, cell, ratios):
    whole = mean(cost(source, cell, "--no-session"), "ttft_mean")
    for how in HOW:
        for size in BUFFERS:
            shown = visible(how, size)
            for session in ("yes", "no"):
                r = cost(source, cell, "--body-limit", str(shown),
                         *([] if session == "yes" else ["--no-session"]))
                ratio = mean(r, "ttft_mean") / whole
                ratios[name, cell, how, size, session] = ratio
                print("bench buffer_cell source=%s cell=%s how=%s bufsize=%d visible=%d session=%s "
                      "whole_s=%.3f ttft_mean=%.3f hit=%.4f to_whole=%+.3f"
                      % (name, cell, how, size, shown, session, whole, mean(r, "ttft_mean"),
                         mean(r, "hit"), ratio - 1), flush=True)


def least(name, cell, ratios):
    for session in ("yes", "no"):
        shown = "none"
        for size, how in sorted(((s, h) for h in HOW for s in BUFFERS), reverse=True,
                                key=lambda x: visible(x[1], x[0])):
            if ratios[name, cell, how, size, session] > 1 + WITHIN:
                break
            shown = visible(how, size)
        print("bench buffer_least source=%s cell=%s session=%s within=%.2f visible=%s" % (
            name, cell, session, WITHIN, shown))


def over_cells(ratios, name, how, size, session):
    """Return the number of cells of the source, "all" for each, their geometric mean, the worst."""
    of = [x for key, x in ratios.items() if name in ("all", key[0]) and
          key[2:] == (how, size, session)]
    return len(of), math.exp(sum(map(math.log, of)) / len(of)) - 1, max(of) - 1


def sums(ratios, names):
    for name in names:
        for how in HOW:
            for size in BUFFERS:
                for session in ("yes", "no"):
                    print("bench buffer_cells source=%s how=%s bufsize=%d visible=%d session=%s "
                          "cells=%d geomean=%+.3f worst=%+.3f" % (
                              name, how, size, visible(how, size), session,
                              *over_cells(ratios, name, how, size, session)))


def table(ratios, names):
    print("\n| `tune.bufsize` | visible bytes | %s |" % " | ".join(
        "%s, session | without" % name for name in names))
    print("|---|---|%s" % ("---|---|" * len(names)))
    for how in HOW:
        for size in BUFFERS:
            row = [over_cells(ratios, name, how, size, session)
                   for name in names for session in ("yes", "no")]
            print("| %d, %s | %d | %s |" % (size, how, visible(how, size), " | ".join(
                "%+.1f %% (%+.1f)" % (100 * g, 100 * w) for _, g, w in row)))


def main():
    ratios, names = {}, []
    for name, source, cells in sources():
        if ONLY and name not in ONLY:
            continue
        names.append(name)
        for cell in cells:
            if CELLS and cell not in CELLS:
                continue
            one_cell(name, source, cell, ratios)
            least(name, cell, ratios)
    if ratios:
        sums(ratios, names + ["all"])
        table(ratios, names + ["all"])


if __name__ == "__main__":
    sys.exit(main())
