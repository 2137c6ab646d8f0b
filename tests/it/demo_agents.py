"""demo_agents.py - make demo LOAD=agents: sessions of coding agents, with tools, subagents, edits
and compactions, over four stub engines behind a real HAProxy: balanced by leastconn; each session
on one server (a stick table); with kvroute, if HAProxy shows it the first 13 KB of a body, and if
it shows the whole. Prints one table. The load is that of the simulator
(tests/tools/agents_plan.c), with shorter pauses and answers; of each session those turns which the
plan has in the first SECONDS, if first tokens took no time. Each column answers the same requests,
all of them: in a fixed time a session whose server is slow would ask less often, and so count less
in the mean.

The newest HAProxy under build/haproxy, which reports first tokens from 3.0 on, or the one in
HAPROXY.
"""
import glob
import json
import os
import statistics
import subprocess
import tempfile

from demo import expected, learned, load
from fleet import BUILD, HAPROXY, TOP, Fleet, edited

# Engines with a cache of 400,000 tokens, where attention takes its share as on a GPU that is so
# fast. Their speed is not configured.
TPS = 32000
ENGINE = ["--prefill-tps", str(TPS), "--attention-ns", "0.3", "--blocks", "25000", "--decode-ms",
          "6", "--step-tokens", "8192"]
SECONDS = 36
CHOSEN = "SESSIONS" in os.environ or "SEED" in os.environ
PLAN = ["--sessions", os.environ.get("SESSIONS", "16"), "--seed", os.environ.get("SEED", "41"),
        "--over", "15", "--turns", "25", "--read", "14000", "--pause", "0.4", "--answer", "60",
        "--summary", "400", "--edits", "0.03"]
LOAD = ["--api", "messages", "--concurrency", "200", "--timeout", "170"]
BINARY = HAPROXY if "HAPROXY" in os.environ else \
    max(glob.glob(TOP + "/build/haproxy/*/haproxy"), default=HAPROXY)
SESSION = "req.hdr(x-claude-code-session-id)"


def sticky(text):
    return edited(text, "backend pool\n", "backend pool\n    stick-table type string len 64 size "
                  "10k expire 30m\n    stick on %s\n" % SESSION)


COLUMNS = [
    ("leastconn", {"agent": False, "routed": False}),
    ("sticky", {"agent": False, "routed": False, "edit": sticky}),
    ("kvroute, 16 KB", {"bufsize": 16384}),
    ("kvroute, 1 MB", {"bufsize": 1 << 20, "spop": "max_frame_size: 1048576"}),
]


def run(name, options, plan):
    f = Fleet(haproxy=BINARY, engines=4, show=False, engine_options=ENGINE, processing=None,
              **options)
    try:
        f.start()
        out = load(f, name, ["--agents", plan] + LOAD)
        metrics = f.metrics() if f.with_agent else {}
        out["learned"] = learned(metrics)
        out["expected"] = expected(f) if f.with_agent else None
    except BaseException:
        f.show_logs()
        f.stop()
        raise
    f.stop()
    return out


def make_plan(folder):
    path = os.path.join(folder, "plan")
    lines = subprocess.run([os.path.join(BUILD, "tests/tools/agents_plan")] + PLAN, check=True,
                           stdout=subprocess.PIPE, text=True).stdout.splitlines()
    turns = [json.loads(line) for line in lines]
    late = {}       # the first turn of each session that is not sent
    for x in turns:
        if x["timestamp"] > 1000 * SECONDS:
            late.setdefault(x["plan"]["session"], x["plan"]["turn"])
    with open(path, "w") as f:
        for x in turns:
            end = late.get(x["plan"]["session"], len(turns))
            if x["plan"]["join"] >= end:
                x["plan"]["join"] = -1
            if x["plan"]["turn"] < end:
                f.write(json.dumps(x, separators=(",", ":")) + "\n")
    return path


def contents(path):
    """Return what the plan has, as a dictionary."""
    with open(path) as f:
        turns = [json.loads(line) for line in f]
    kinds = [x["plan"]["kind"] for x in turns]
    tokens = [x["input_length"] for x in turns]
    return {"sessions": len({x["plan"]["session"] for x in turns}), "turns": len(turns),
            "subagents": sum(x["plan"]["kind"] == "first" and x["plan"]["agent"] > 0
                             for x in turns),
            "compactions": kinds.count("compacted"), "edits": kinds.count("edit"),
            "smallest": min(tokens), "median": statistics.median(tokens), "largest": max(tokens)}


def is_varied(has):
    """Tell if the plan has what agents do: prompts of 20K to 180K tokens, subagents, a summary."""
    return (has["subagents"] >= 4 and has["compactions"] >= 1 and has["edits"] >= 1 and
            has["smallest"] <= 21000 and has["largest"] >= 179000)


def describe(has):
    return ("HAProxy, four stub engines of %d tokens/s; the plan: sessions %d, turns %d,\n"
            "subagents %d, compactions %d, edits %d; prompts of %.0fK to %.0fK tokens, median "
            "%.0fK (4 bytes each)" % (
                TPS, has["sessions"], has["turns"], has["subagents"], has["compactions"],
                has["edits"], has["smallest"] / 1000, has["largest"] / 1000,
                has["median"] / 1000))


def row(name, cells):
    print("  %-36s" % name + "".join("%16s" % c for c in cells))


def table(results):
    all_of = [r for _, r in results]
    ms = lambda key: ["%.0f ms" % r[key] for r in all_of]
    print()
    row("", [name for name, _ in results])
    row("time to first token, mean", ms("ttft_mean_ms"))
    row("time to first token, p90", ms("ttft_p90_ms"))
    row("cached share of prompt tokens", ["%.1f %%" % (100 * r["cached_share"]) for r in all_of])
    row("whole load", ["%.1f s" % r["seconds"] for r in all_of])
    row("answered requests", ["%d" % r["ok"] for r in all_of])
    row("failed requests", ["%d" % r["failed"] for r in all_of])
    row("error of the expected time, median",
        ["%.0f %%" % (100 * r["expected"][0]) if r["expected"] else "" for r in all_of])
    row("of all, expected within 25 %",
        ["%.0f %%" % (100 * r["expected"][1]) if r["expected"] else "" for r in all_of])
    row("learned tokens/s", ["%.0f" % r["learned"] if r["learned"] else "" for r in all_of])
    print()


def main():
    with tempfile.TemporaryDirectory(prefix="kvroute-") as folder:
        plan = make_plan(folder)
        has = contents(plan)
        print(describe(has), flush=True)
        if not CHOSEN and not is_varied(has):
            print("demo: the plan lacks subagents, compactions, edits or long prompts")
            return 1
        results = [(name, run(name, options, plan)) for name, options in COLUMNS]
    table(results)
    worse = any(r["ttft_mean_ms"] >= results[0][1]["ttft_mean_ms"] for _, r in results[2:])
    return 1 if worse or any(r["failed"] for _, r in results) else 0
