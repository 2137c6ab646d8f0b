#!/usr/bin/env python3
"""sim.py [--cells 8:0.5,8:0.7,...] [--peers] [--limit N] - route a recorded trace with the real
agent, over SPOP, to simulated engines, and compare it with an oracle.

The engines, the trace and the reference policies are those of ../shared/tools/routesim.py and
../shared/data/traces; where they are not there, nothing is run and that is said. A cell is a number
of engines and a load. For each: mean time to first token of the agent, with first-token and end
reports and with end reports only, over the better one of the policies "oracle" and "oracle_ext10",
which know every cache and every queue.

Prints `bench sim ...` lines, and at the end the geometric means. Targets: 1.20 with both reports,
no cell above 1.5, ahead of every published policy (--peers runs them); 1.30 with end reports
only."""
import argparse
import copy
import importlib.util
import json
import math
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "..", "..")
SHARED = os.path.join(TOP, "..", "shared")
CELLS = "8:0.5,8:0.7,8:0.8,16:0.5,16:0.7,16:0.8,16:0.9"
ADDRESS = "127.0.0.1:9490"


def load_tool(path):
    spec = importlib.util.spec_from_file_location("routesim", path)
    m = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(m)
    return m


class Agent:
    """A new one for each run: it starts with nothing learned."""
    def __init__(self):
        self.p = subprocess.Popen([os.path.join(TOP, "kvroute"), "-f",
                                   os.path.join(HERE, "routesim.yaml")])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.terminate()
        self.p.wait()


def run_agent(tool, fleet, mapping):
    reqs, block, n, profile, speed = fleet
    with Agent():
        for attempt in range(100):
            try:
                policy = tool.Spoa(ADDRESS, mapping)
                return tool.run_one(reqs, block, n, profile, "kvroute", speed, policy=policy)
            except (ConnectionRefusedError, FileNotFoundError):
                if attempt == 99:
                    raise
                time.sleep(0.1)


def end_only(mapping):
    m = copy.deepcopy(mapping)
    del m["events"]["first_token"]
    return m


def published(tool):
    return [n for n, (_, group, _) in tool.POLICIES.items() if group in ("plain", "hash", "peer")]


def geomean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    ap.add_argument("--cells", default=os.environ.get("CELLS", CELLS))
    ap.add_argument("--limit", type=int, default=int(os.environ.get("LIMIT", "0")))
    ap.add_argument("--peers", action="store_true", default=bool(os.environ.get("PEERS")))
    a = ap.parse_args()
    script = os.path.join(SHARED, "tools", "routesim.py")
    trace = os.path.join(SHARED, "data", "traces", "mooncake_conversation.jsonl")
    if not os.path.exists(script) or not os.path.exists(trace):
        print("skipped: no data: ../shared/tools/routesim.py and ../shared/data/traces are not "
              "there")
        return 0
    tool = load_tool(script)
    with open(os.path.join(HERE, "routesim-map.json")) as f:
        mapping = json.load(f)
    reqs, block, _ = tool.load_trace(trace, limit=a.limit)
    profile = tool.Profile(**tool.PROFILES["8b-h100"])
    ratios = {"first": [], "end": []}
    for cell in a.cells.split(","):
        n, load = int(cell.split(":")[0]), float(cell.split(":")[1])
        fleet = (reqs, block, n, profile, tool.calibrate(reqs, block, n, profile, load))
        best = min(tool.run_one(reqs, block, n, profile, p, fleet[4])["ttft_mean"]
                   for p in ("oracle", "oracle_ext10"))
        line = ("bench sim trace=mooncake_conversation requests=%d engines=%d load=%.2f "
                "oracle_ms=%.0f") % (
            len(reqs), n, load, best * 1000)
        for facts, m in (("first", mapping), ("end", end_only(mapping))):
            r = run_agent(tool, fleet, m)
            ratios[facts].append(r["ttft_mean"] / best)
            line += " %s_ms=%.0f %s_ratio=%.3f %s_hit=%.3f" % (
                facts, r["ttft_mean"] * 1000, facts, ratios[facts][-1], facts, r["hit"])
        if a.peers:
            of = {p: tool.run_one(reqs, block, n, profile, p, fleet[4])["ttft_mean"]
                  for p in published(tool)}
            first = min(of, key=of.get)
            line += " best_published=%s best_published_ratio=%.3f" % (first, of[first] / best)
        print(line, flush=True)
    print("bench sim cells=%d first_geomean=%.3f first_worst=%.3f end_geomean=%.3f end_worst=%.3f"
          % (
        len(ratios["first"]), geomean(ratios["first"]), max(ratios["first"]),
        geomean(ratios["end"]),
        max(ratios["end"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
