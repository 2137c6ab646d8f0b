#!/usr/bin/env python3
"""peers.py - compare kvroute with the installed routers: one load, separate engines for each.

Eight stub engines of 8000 prompt tokens a second for each peer. 240 conversations of 6 turns over
16 system prompts of 20 KB begin, four a second; their users think for two seconds between turns,
drawn from an exponential (think=exp) or always two (think=const). Times to the first token count
from when a request was due. Prints a line a run, then means, then one for each rival:

    bench peers seed=5 think=exp peer=kvroute mean_ms=.. p50_ms=.. p99_ms=.. cached=..
                most_sent=.. requests=.. failed=.. late_ms=.. busy=..
    bench peers_mean think=exp peer=kvroute seeds=5 mean_ms=.. p50_ms=.. p99_ms=.. ..
    bench peers_ahead think=exp peer=kvroute of=smg seeds=5 mean=.. p50=.. p99=.. all=..

peers_ahead: seeds in which kvroute was ahead in each figure, and in all three. most_sent: requests
of the engine with most, over the mean. late_ms: p99 of the load generator's delay; busy: the share
of the processors that all processes used. If late_ms is above 20, differences are chance: if an
agent gets no processor for 50 ms, HAProxy does not wait and balances its requests.

    kvroute      HAProxy with haproxy-conf/ and the agent, nothing configured; HAPROXY=path (2.6,
                 which reports no first tokens)
    kvroute-new  the same on HAPROXY_NEW=path (3.2), which reports them
    leastconn    HAProxy alone, balance leastconn
    hash         HAProxy alone, a consistent hash of the session's header, hash-balance-factor 150
    smg          SMG as it comes (cache_aware): smg in PATH, or SMG=path
    sglang       sglang-router as it comes: sglang-router in PATH, or SGLANG=path
    vllm         vLLM's router as it comes (cache_aware): vllm-router in PATH, or VLLM=path
    vllm-sticky  the same with --policy sticky_least_loaded by the session's header

What is not installed is skipped by name. "python3 -m venv V && V/bin/pip install smg" installs SMG;
sglang-router brings an "smg" of its own, so each of the three needs its own folder.

The engines sleep instead of computing: a run takes 80 s and few processor seconds. Peers of one
seed run one after another, or PARALLEL=3 of them at once, before the next seed does, so that a busy
hour meets all alike. PEERS, SEEDS ("5 6 7 8 9"), THINKS ("exp const") and CONVERSATIONS choose.
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
LOAD = ["--conversations", os.environ.get("CONVERSATIONS", "240"), "--turns", "6",
        "--system-prompts", "16", "--system-bytes", "20000", "--user-bytes", "3000",
        "--max-tokens", "64", "--concurrency", "256", "--rate", "4", "--think", "2",
        "--session", "x-session-id"]
HASHED = """    balance hdr(x-session-id)
    hash-type consistent
    hash-balance-factor 150"""
LOAD_ENTRY = "s{0}=%[srv_is_up(s{0})],%[srv_conn(s{0})],%[srv_queue(s{0})],%[srv_weight(s{0})]"
FIGURES = (("mean_ms", "%.0f"), ("p50_ms", "%.0f"), ("p99_ms", "%.0f"), ("cached", "%.3f"),
           ("most_sent", "%.2f"))


class Peer(Fleet):
    """Engines and a router to them, which listens on <port>."""

    def __init__(self, routed=False, haproxy=None, balance=None):
        self.balance = balance
        super().__init__(engines=ENGINES, agent=routed, routed=routed, show=False, processing=None,
                         haproxy=haproxy, session=True, edit=self.for_eight,
                         engine_options=["--prefill-tps", "8000"])

    def for_eight(self, text):
        """The configuration of four servers, for eight: servers and entries of the load string."""
        more = list(enumerate(self.names, 1))[4:]
        servers = "".join("    server s%d 127.0.0.1:%d\n" % (n, self.engines[s]) for n, s in more)
        load = "".join(";" + LOAD_ENTRY.format(n) for n, _ in more)
        text = re.sub(r"(?m)^    server s4 .*\n", lambda m: m.group(0) + servers, text)
        text = text.replace("%[srv_weight(s4)]\"", "%[srv_weight(s4)]" + load + "\"")
        return text.replace("    balance leastconn", self.balance) if self.balance else text

    def counts(self):
        return [json.loads(self.control(name, "")[1])["finished"] for name in self.names]


class Router(Peer):
    """A separate router in place of HAProxy."""

    def __init__(self, argv, quiet="warn"):
        self.argv = argv + ["--log-level", quiet]
        super().__init__()

    def start_haproxy(self):
        urls = ["http://127.0.0.1:%d" % self.engines[n] for n in self.names]
        self.spawn("router", self.argv + ["--host", "127.0.0.1", "--port", str(self.port),
                                          "--prometheus-port", str(self.metrics_port),
                                          "--worker-urls"] + urls)
        self.wait_alive("router", "the router", lambda: self.get("/health")[0] == 200)
        hello = [{"role": "user", "content": "hello"}]
        wait_for("an answer through the router", 20, lambda: self.chat(hello).status == 200)

    def stop(self, keep=False):
        self.end("router")
        super().stop(keep)


def peers():
    """{name: a function that makes it, or why it cannot be made}"""
    smg = os.environ.get("SMG") or shutil.which("smg")
    sglang = os.environ.get("SGLANG") or shutil.which("sglang-router")
    vllm = os.environ.get("VLLM") or shutil.which("vllm-router")
    sticky = ["--policy", "sticky_least_loaded", "--request-id-headers", "x-session-id"]
    no_vllm = "vllm-router is not installed; VLLM=path"
    old, new = ("%s does not exist" % p for p in (HAPROXY, NEW))
    has_old, has_new = os.path.exists(HAPROXY), os.path.exists(NEW)
    return {
        "kvroute": (lambda: Peer(routed=True)) if has_old else old,
        "kvroute-new": (lambda: Peer(routed=True, haproxy=NEW)) if has_new else new,
        "leastconn": (lambda: Peer()) if has_old else old,
        "hash": (lambda: Peer(balance=HASHED)) if has_old else old,
        "smg": (lambda: Router([smg, "launch"])) if smg else "smg is not installed; SMG=path",
        "sglang": (lambda: Router([sglang, "launch"])) if sglang
        else "sglang-router is not installed; SGLANG=path",
        "vllm": (lambda: Router([vllm], "warning")) if vllm else no_vllm,
        "vllm-sticky": (lambda: Router([vllm] + sticky, "warning")) if vllm else no_vllm,
    }


def jiffies():
    """Of all processors since the start: used, and all."""
    with open("/proc/stat") as f:
        fields = [int(x) for x in f.readline().split()[1:]]
    return sum(fields[:3]) + sum(fields[5:8]), sum(fields[:8])


def run(make, seed, think):
    more = ["--think-constant"] if think == "const" else []
    with make() as f:
        warm, before = f.counts(), jiffies()
        argv = [os.path.join(BUILD, "tests/tools/chat_load"), "--url", "127.0.0.1:%d" % f.port]
        out = subprocess.run(argv + ["--json", "--seed", seed] + LOAD + more,
                             stdout=subprocess.PIPE, text=True).stdout
        after = jiffies()
        sent = [b - a for a, b in zip(warm, f.counts())]
    got = json.loads(out)
    return {"mean_ms": got["ttft_mean_ms"], "p50_ms": got["ttft_p50_ms"],
            "p99_ms": got["ttft_p99_ms"], "cached": got["cached_share"],
            "most_sent": max(sent) / max(1, statistics.mean(sent)),
            "requests": got["requests"], "failed": got["failed"], "late_ms": got["late_p99_ms"],
            "busy": (after[0] - before[0]) / max(1, after[1] - before[1])}


def figures(row):
    return " ".join("%s=%s" % (key, form % row[key]) for key, form in FIGURES)


def print_means(think, rows):
    for name, got in rows.items():
        mean = {key: statistics.mean(r[key] for r in got) for key, _ in FIGURES}
        print("bench peers_mean think=%s peer=%s seeds=%d %s"
              % (think, name, len(got), figures(mean)))


def print_ahead(think, ours, rows):
    for name, theirs in rows.items():
        if name.startswith("kvroute"):
            continue
        wins = [[a[k] < b[k] for k in ("mean_ms", "p50_ms", "p99_ms")]
                for a, b in zip(rows[ours], theirs)]
        print("bench peers_ahead think=%s peer=%s of=%s seeds=%d mean=%d p50=%d p99=%d all=%d"
              % (think, ours, name, len(wins), *(sum(w[i] for w in wins) for i in range(3)),
                 sum(all(w) for w in wins)))


def main():
    known = peers()
    chosen = os.environ.get("PEERS", " ".join(known)).split()
    for name in [n for n in chosen if isinstance(known[n], str)]:
        print("skipped: %s: %s" % (name, known[name]), flush=True)
        chosen.remove(name)
    rows = {think: {name: [] for name in chosen} for think in THINKS}
    with ThreadPoolExecutor(PARALLEL) as pool:
        for seed in SEEDS:
            jobs = [(think, name, pool.submit(run, known[name], seed, think))
                    for think in THINKS for name in chosen]
            for think, name, job in jobs:
                got = job.result()
                rows[think][name].append(got)
                print("bench peers seed=%s think=%s peer=%s %s requests=%d failed=%d late_ms=%.0f "
                      "busy=%.2f" % (seed, think, name, figures(got), got["requests"],
                                     got["failed"], got["late_ms"], got["busy"]), flush=True)
    for think in THINKS:
        print_means(think, rows[think])
        for ours in [n for n in chosen if n.startswith("kvroute")]:
            print_ahead(think, ours, rows[think])


if __name__ == "__main__":
    sys.exit(main())
