#!/usr/bin/env python3
"""buffer_cells.py - rule cost on recorded traces (kvroutectl sim), with bodies cut to what buffers
of HAProxy show. All is simulated, so no figure depends on the machine. Prints for each cell, as in
cells.py, the mean time to the first token with whole bodies, and one line a buffer; then one line
for all cells:

    bench buffer_cell trace=mooncake_conversation cell=8:0.7 bufsize=16384 visible=13336 session=no
                      whole_s=.. ttft_mean=.. hit=.. to_whole=+0.05
    bench buffer_cells bufsize=16384 visible=13336 session=no cells=6 geomean=+0.05 worst=+0.20

The row with 104000 visible bytes is recipes/sliced.cfg. The load of a cell is that of whole bodies.
TRACES (files; ../shared/data/traces/*.jsonl), CELLS, LIMIT (requests of each) and SEEDS choose what
runs.
"""
import glob
import json
import math
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(TOP, os.environ.get("B", "build/release"), "kvroutectl")
SHARED = os.path.join(TOP, "../shared/data/traces/*.jsonl")
TRACES = os.environ.get("TRACES", "").split() or sorted(glob.glob(SHARED))
CELLS = os.environ.get("CELLS", "8:0.5 8:0.7 8:0.8 16:0.7 16:0.8 16:0.85").split()
LIMIT, SEEDS = os.environ.get("LIMIT", "4000"), os.environ.get("SEEDS", "1")
LOAD_BYTES = 1000  # the load of some 30 servers
SHOWN = [(str(size), size - 2048 - LOAD_BYTES) for size in (16384, 65536)] + \
    [("sliced", 104000)] + \
    [(str(size), size - 2048 - LOAD_BYTES) for size in (262144, 1048576)]


def cost(trace, cell, *options):
    engines, load = cell.split(":")
    out = subprocess.run([CTL, "sim", trace, "--engines", engines, "--load", load, "--limit", LIMIT,
                          "--seeds", SEEDS, "--json", "--preset", "cost", *options],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return next(r for r in map(json.loads, out.splitlines()) if r["policy"] == "cost")


def main():
    ratios = {}
    if not TRACES:
        print("skipped: no trace; TRACES=files")
    for trace in TRACES:
        name = os.path.basename(trace).split(".")[0]
        for cell in CELLS:
            whole = cost(trace, cell, "--no-session")["ttft_mean"]
            for size, shown in SHOWN:
                for session in ("yes", "no"):
                    r = cost(trace, cell, "--body-limit", str(shown),
                             *([] if session == "yes" else ["--no-session"]))
                    ratio = r["ttft_mean"] / whole
                    ratios.setdefault((size, shown, session), []).append(ratio)
                    print("bench buffer_cell trace=%s cell=%s bufsize=%s visible=%d session=%s "
                          "whole_s=%.3f ttft_mean=%.3f hit=%.4f to_whole=%+.3f"
                          % (name, cell, size, shown, session, whole, r["ttft_mean"], r["hit"],
                             ratio - 1), flush=True)
    for (size, shown, session), of in ratios.items():
        print("bench buffer_cells bufsize=%s visible=%d session=%s cells=%d geomean=%+.3f "
              "worst=%+.3f" % (size, shown, session, len(of),
                               math.exp(sum(map(math.log, of)) / len(of)) - 1, max(of) - 1))


if __name__ == "__main__":
    sys.exit(main())
