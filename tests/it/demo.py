#!/usr/bin/env python3
"""demo.py - the main job on a real HAProxy: a multi-turn chat load over four stub engines, first
balanced by leastconn alone, then with kvroute. Prints one table, the explanation of one decision,
and the speed of the engines as the agent learned it. KEEP=1 leaves the second set-up running;
"demo.py stop" (make demo-stop) ends it. LOAD=agents: demo_agents.py instead.

The load is open: conversations begin five a second and users think for three seconds on average,
independent of the engines, so times count from when a request was due. Each takes 50 s.
"""
import json
import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from fleet import BUILD, TOP, Fleet  # noqa: E402

KEPT = os.path.join(TOP, "build/demo.json")

# Engines with a cache of 96000 tokens; prompts of 3500 to 7700 tokens, of which a turn adds 1000.
# Their speed is not configured: the agent assumes its default until it has measured answers.
TPS, ASSUMED_TPS = 12000, 8000
ENGINE = ["--prefill-tps", str(TPS), "--blocks", "6000", "--decode-ms", "6"]
CONVERSATIONS, TURNS, SYSTEMS, RATE, THINK = 120, 5, 10, 5, 3
LOAD = ["--conversations", str(CONVERSATIONS), "--turns", str(TURNS), "--seed", "7",
        "--system-prompts", str(SYSTEMS), "--system-bytes", "10000", "--user-bytes", "4000",
        "--max-tokens", "24", "--concurrency", "100", "--rate", str(RATE), "--think", str(THINK)]


def run(routed):
    name = "kvroute" if routed else "leastconn"
    f = Fleet(engines=4, agent=routed, routed=routed, show=False, engine_options=ENGINE,
              session=True, processing=None)
    try:
        f.start()
        before = f.metrics() if routed else {}
        out = load(f, name)
        after = f.metrics() if routed else {}
        out["agent"] = agent_time(before, after)
        out["learned"] = learned(after)
        out["expected"] = expected(f) if routed else None
        out["why"] = why(f) if routed else []
    except BaseException:
        f.show_logs()
        f.stop()
        raise
    if routed and os.environ.get("KEEP") == "1":
        return out, f
    f.stop()
    return out, None


def load(f, name, options=tuple(LOAD)):
    path = os.path.join(f.folder, "load.json")
    argv = [os.path.join(BUILD, "tests/tools/chat_load"), "--url", "http://127.0.0.1:%d" % f.port,
            "--json",
            "--out", path, "--progress", *options]
    subprocess.run(argv + ["--label", "%-10s" % name], check=True, timeout=300)
    with open(path) as g:
        return json.load(g)


def agent_time(before, after):
    """p50 and p99 of the agent's own time, from its histogram: upper bounds of buckets, in
    microseconds."""
    buckets = []
    for key, value in after.items():
        if key.startswith("kvroute_decision_seconds_bucket"):
            bound = key.split('le="')[1].split('"')[0]
            buckets.append((float("inf") if bound == "+Inf" else float(bound),
                            value - before.get(key, 0)))
    buckets.sort()
    if not buckets or buckets[-1][1] == 0:
        return None
    at = lambda share: next(b for b, n in buckets if n >= share * buckets[-1][1])
    return at(.5) * 1e6, at(.99) * 1e6


def learned(metrics):
    """Return the mean of the agent's estimates of prompt tokens an engine computes in a second;
    None: unknown."""
    name = "kvroute_server_prefill_tokens_per_second{"
    rates = [v for k, v in metrics.items() if k.startswith(name)]
    return sum(rates) / len(rates) if rates else None


def expected(f):
    """Return how far the expected times to the first token were off: kvroute_pool_wait_error_ratio,
    the median of the latest; the share of all within 25 %, from kvroute_pool_wait_ratio; of how
    many. None: no such times."""
    m = f.metrics()
    upto = lambda le: m['kvroute_pool_wait_ratio_bucket{pool="pool",le="%s"}' % le]
    if upto("+Inf") == 0:
        return None
    return (m['kvroute_pool_wait_error_ratio{pool="pool"}'],
            (upto("1.25") - upto("0.75")) / upto("+Inf"), upto("+Inf"))


def why(f):
    """Return the explanation of kvroutectl for the last request that was routed to its
    conversation's server."""
    argv = [os.path.join(BUILD, "kvroutectl"), "why", "-n", "20", "127.0.0.1:%d" % f.metrics_port]
    lines = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    at = [i for i, line in enumerate(lines) if "(cached" in line]
    return lines[at[0] - 1:at[0] + 2] if at and at[0] > 0 else lines[:3]


def row(name, a, b):
    print("  %-40s %14s %14s" % (name, a, b))


def table(plain, routed):
    share = lambda o: "%.1f %%" % (100.0 * o["cached_tokens"] / max(1, o["prompt_tokens"]))
    ms = lambda v: "%.1f ms" % v
    print()
    row("", "leastconn", "kvroute")
    row("cached share of prompt tokens", share(plain), share(routed))
    for name, of in (("first turns", "ttft_first_turn"), ("later turns", "ttft_next_turns"),
                     ("all", "ttft")):
        for p in ("p50", "p99"):
            key = "%s_%s_ms" % (of, p)
            row("time to first token, %s, %s" % (name, p), ms(plain[key]), ms(routed[key]))
    row("whole load", "%.1f s" % plain["seconds"], "%.1f s" % routed["seconds"])
    for e in sorted(k for k in set(plain) | set(routed) if k.startswith("engine.")):
        row("requests at " + e[7:], plain.get(e, 0), routed.get(e, 0))
    row("failed requests", plain["failed"], routed["failed"])
    if routed["agent"]:
        row("agent time, p50 / p99, upper bounds", "", "<= %d / <= %d us" % routed["agent"])
    if routed["expected"]:
        row("error of the expected time, median", "", "%.0f %%" % (100 * routed["expected"][0]))
        row("of %d within 25 %%" % routed["expected"][2], "",
            "%.0f %%" % (100 * routed["expected"][1]))
    if routed["learned"]:
        print("  learned tokens/s of an engine: %d (true: %d; initial estimate: %d)" %
              (routed["learned"], TPS, ASSUMED_TPS))
    print()
    if routed["why"]:
        print("One of its choices, as kvroutectl why tells it:")
        print("\n".join("  " + line for line in routed["why"]) + "\n")


def keep(f):
    """Leave the processes of <f> running, and print how to use and stop them."""
    with open(KEPT, "w") as g:
        json.dump({"folder": f.folder, "pids": [p.pid for p in f.processes.values()]}, g)
    print("Still running; make demo-stop ends it. A request:\n\n"
          "  curl -s http://127.0.0.1:%d/v1/chat/completions -H 'content-type: application/json' "
          "\\\n"
          "       -d '{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}], \"model\": "
          "\"stub\"}'\n" % f.port)
    print("Page: http://127.0.0.1:%d/   Metrics: http://127.0.0.1:%d/metrics   Files: %s" %
          (f.metrics_port, f.metrics_port, f.folder))


def stop():
    if not os.path.exists(KEPT):
        return 0
    with open(KEPT) as g:
        kept = json.load(g)
    for pid in reversed(kept["pids"]):
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
    shutil.rmtree(kept["folder"], ignore_errors=True)
    os.unlink(KEPT)
    return 0


def main():
    if sys.argv[1:] == ["stop"]:
        return stop()
    stop()
    if os.environ.get("LOAD") == "agents":
        import demo_agents
        return demo_agents.main()
    print("HAProxy, four stub engines; %d conversations of %d turns on %d system prompts begin,\n"
          "%d a second, and their users think for %d s on average"
          % (CONVERSATIONS, TURNS, SYSTEMS, RATE, THINK), flush=True)
    plain, _ = run(False)
    routed, kept = run(True)
    table(plain, routed)
    if kept:
        keep(kept)
    worse = routed["cached_tokens"] / max(1,
                                          routed["prompt_tokens"]) <= plain["cached_tokens"] / max(
                                              1, plain["prompt_tokens"])
    return 1 if worse or routed["failed"] or plain["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
