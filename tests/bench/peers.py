#!/usr/bin/env python3
"""peers.py - kvroute beside the routers that are installed: the same load, the same engines, in turns of one run.

Eight stub engines of 8000 prompt tokens a second for each peer; 240 conversations of 6 turns over 16 system prompts of 20 KB arrive
four a second, and their users think for two seconds between turns, by chance (think=exp) and all alike (think=const). Every time
counts from when the request was meant to be sent. Prints a line a run, then a table of means and one line for each rival:

    bench peers seed=5 think=exp peer=kvroute mean_ms=.. p50_ms=.. p99_ms=.. cached=.. most_sent=.. requests=.. failed=.. busy=..
    bench peers_mean think=exp peer=kvroute seeds=5 ...
    bench peers_ahead think=exp of=smg seeds=5 mean=.. p50=.. p99=.. all=..      seeds in which kvroute was ahead in each, and in all

    kvroute      HAProxy with haproxy-conf/ and the agent, nothing configured; HAPROXY: which (2.6, which reports no first tokens)
    kvroute-new  the same on HAPROXY_NEW (3.2), which does
    leastconn    HAProxy alone, balance leastconn
    hash         HAProxy alone, a consistent hash of the session's header, each server bounded to 1.5 times its share
    smg          SMG with its defaults (cache_aware); found as "smg" in PATH, or SMG=path
    sglang       sglang-router with its defaults; "sglang-router" in PATH, or SGLANG=path

What is not installed is skipped by name; "python3 -m venv V && V/bin/pip install smg" installs one, sglang-router in a V of its own.
The engines sleep instead of computing, so that a run takes 80 s and little of the processors. busy: the share of them that all
processes of this machine used meanwhile. PARALLEL=2: so many peers at once, each with engines of its own. Peers of one seed run one
after another (or side by side) before the next seed does, so that a busy hour meets all of them.

PEERS, SEEDS ("5 6 7 8 9"), THINKS ("exp const"), PARALLEL (1) and CONVERSATIONS (240) choose what is run.
"""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/it"))
sys.dont_write_bytecode = True

from fleet import BUILD, HAPROXY, Fleet, wait_for  # noqa: E402

ENGINES = 8
NEW = os.environ.get("HAPROXY_NEW", os.path.join(TOP, "build/haproxy/3.2/haproxy"))
SEEDS = os.environ.get("SEEDS", "5 6 7 8 9").split()
THINKS = os.environ.get("THINKS", "exp const").split()
PARALLEL = int(os.environ.get("PARALLEL", "1"))
LOAD = ["--conversations", os.environ.get("CONVERSATIONS", "240"), "--turns", "6", "--system-prompts", "16", "--system-bytes", "20000",
        "--user-bytes", "3000", "--max-tokens", "64", "--concurrency", "256", "--rate", "4", "--think", "2",
        "--session", "x-session-id"]
HASHED = "    balance hdr(x-session-id)\n    hash-type consistent\n    hash-balance-factor 150"
FIGURES = (("mean_ms", "%.0f"), ("p50_ms", "%.0f"), ("p99_ms", "%.0f"), ("cached", "%.3f"), ("most_sent", "%.2f"))


class Peer(Fleet):
    """Engines and something in front of them, which listens on <port>."""

    def __init__(self, routed=False, haproxy=None, balance=None):
        self.balance = balance
        super().__init__(engines=ENGINES, agent=routed, routed=routed, show=False, processing=None, haproxy=haproxy, session=True,
                         engine_options=["--prefill-tps", "8000"], edit=self.eight)

    def eight(self, text):
        """The configuration of four servers, for eight."""
        for n, name in enumerate(self.names[4:], 5):
            text = re.sub(r"(?m)^(    server s%d .*\n)" % (n - 1),
                                                      r"\1    server %s 127.0.0.1:%d\n" % (name, self.engines[name]), text)
            text = re.sub(r'(?m)(%%\[srv_weight\(s%d\)\])(")' % (n - 1),
                          r"\1;s%d=%%[srv_is_up(s%d)],%%[srv_conn(s%d)],%%[srv_queue(s%d)],%%[srv_weight(s%d)]\2" % (n, n, n, n, n), text)
        return text.replace("    balance leastconn", self.balance) if self.balance else text

    def counts(self):
        return [self.state(name)["finished"] for name in self.names]

    def state(self, name):
        return json.loads(self.control(name, "")[1])


class Router(Peer):
    """A router of its own in the place of HAProxy."""

    def __init__(self, argv):
        self.argv = argv
        super().__init__()

    def start_haproxy(self):
        urls = ["http://127.0.0.1:%d" % self.engines[n] for n in self.names]
        self.spawn("router", self.argv + ["--host", "127.0.0.1", "--port", str(self.port), "--prometheus-port",
                                          str(self.metrics_port), "--log-level", "warn", "--worker-urls"] + urls)
        self.wait_alive("router", "the router", lambda: self.get("/health")[0] == 200)
        wait_for("an answer through the router", 20, lambda: self.chat([{"role": "user", "content": "hello"}]).status == 200)

    def stop(self, keep=False):
        self.end("router")
        super().stop(keep)


def found(env, name):
    return os.environ.get(env) or shutil.which(name)


def peers():
    """{name: a function that makes it, or why it cannot be}"""
    smg, sglang = found("SMG", "smg"), found("SGLANG", "sglang-router")
    haproxy = os.path.exists(HAPROXY)
    missing = "%s does not exist" % HAPROXY
    return {
        "kvroute": (lambda: Peer(routed=True)) if haproxy else missing,
        "kvroute-new": (lambda: Peer(routed=True, haproxy=NEW)) if os.path.exists(NEW) else "%s does not exist" % NEW,
        "leastconn": (lambda: Peer()) if haproxy else missing,
        "hash": (lambda: Peer(balance=HASHED)) if haproxy else missing,
        "smg": (lambda: Router([smg, "launch"])) if smg else "smg is not installed (pip install smg; SMG=path)",
        "sglang": (lambda: Router([sglang, "launch"])) if sglang else "sglang-router is not installed (SGLANG=path)",
    }


def jiffies():
    with open("/proc/stat") as f:
        fields = [int(x) for x in f.readline().split()[1:]]
    return sum(fields[:3]) + sum(fields[5:8]), sum(fields[:8])


def run(make, seed, think):
    with make() as f:
        before, warm = jiffies(), f.counts()
        done = subprocess.run([os.path.join(BUILD, "tests/tools/chat_load"), "--url", "127.0.0.1:%d" % f.port, "--json", "--seed", seed]
                              + LOAD + (["--think-constant"] if think == "const" else []), stdout=subprocess.PIPE, text=True)
        after, got = jiffies(), json.loads(done.stdout)
        sent = [b - a for a, b in zip(warm, f.counts())]
    return {"mean_ms": got["ttft_mean_ms"], "p50_ms": got["ttft_p50_ms"], "p99_ms": got["ttft_p99_ms"], "cached": got["cached_share"],
            "most_sent": max(sent) / statistics.mean(sent), "requests": got["requests"], "failed": got["failed"],
            "late_ms": got["late_p99_ms"], "busy": (after[0] - before[0]) / max(1, after[1] - before[1])}


def figures(row):
    return " ".join("%s=%s" % (key, form % row[key]) for key, form in FIGURES)


def ahead(think, rows, of):
    """In how many seeds kvroute was ahead of <of> in each figure that counts."""
    wins = [[a[k] < b[k] for k in ("mean_ms", "p50_ms", "p99_ms")] for a, b in zip(rows["kvroute"], rows[of])]
    print("bench peers_ahead think=%s of=%s seeds=%d mean=%d p50=%d p99=%d all=%d"
          % (think, of, len(wins), *(sum(w[i] for w in wins) for i in range(3)), sum(all(w) for w in wins)), flush=True)


def table(think, rows):
    for name, got in rows.items():
        mean = {key: statistics.mean(r[key] for r in got) for key, _ in FIGURES}
        print("bench peers_mean think=%s peer=%s seeds=%d %s" % (think, name, len(got), figures(mean)), flush=True)
    for name in rows:
        if name != "kvroute" and "kvroute" in rows:
            ahead(think, rows, name)


def main():
    known = peers()
    chosen = os.environ.get("PEERS", " ".join(known)).split()
    for name in [n for n in chosen if isinstance(known[n], str)]:
        print("skipped: %s: %s" % (name, known[name]), flush=True)
        chosen.remove(name)
    rows = {think: {name: [] for name in chosen} for think in THINKS}
    with ThreadPoolExecutor(PARALLEL) as pool:
        for seed in SEEDS:
            jobs = [(think, name, pool.submit(run, known[name], seed, think)) for think in THINKS for name in chosen]
            for think, name, job in jobs:
                got = job.result()
                rows[think][name].append(got)
                print("bench peers seed=%s think=%s peer=%s %s requests=%d failed=%d late_ms=%.0f busy=%.2f"
                      % (seed, think, name, figures(got), got["requests"], got["failed"], got["late_ms"], got["busy"]), flush=True)
    for think in THINKS:
        table(think, rows[think])


if __name__ == "__main__":
    sys.exit(main())
