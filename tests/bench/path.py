#!/usr/bin/env python3
"""path.py - the time that SPOE adds to a request: HAProxy alone, with an agent that does
nothing, with kvroute.

One client, one request at a time, 16 KB chat bodies, three HAProxys of the same recipe side by
side, in turn within one run (tests/tools/http_pace.c). The engine is a HAProxy that answers at
once. For each version of HAProxy one line:

    bench path haproxy=2.6.12 body=16384 plain_us=.. noop_added_us=..
               kvroute_added_us=.. ratio=.. limit=1.5

The no-op agent is the floor: the cost of SPOE with any agent. The p50 is over all requests; best_
is that of the fastest round, because other load only makes it longer.
"""
import os
import re
import socket
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/it"))
sys.dont_write_bytecode = True

from fleet import BUILD, Fleet, free_ports, wait_for  # noqa: E402

ROUNDS, PER_ROUND, BODY = int(os.environ.get("ROUNDS", 20)), 100, 16384
ENGINE = """
defaults
    mode http
    timeout client 60s
    timeout server 60s
    timeout connect 1s
frontend engine
    bind 127.0.0.1:%d
    http-request wait-for-body time 10s
    http-request return status 200 content-type application/json string "{\\"choices\\":[]}"
"""


class Path(Fleet):
    def __init__(self, kind, engine_port, **kw):
        super().__init__(engines=1, show=False, threads=1, processing=None, agent=kind != "plain",
                         routed=kind != "plain", **kw)
        self.kind, self.engine_port = kind, engine_port
        self.edit = lambda text: text.replace("    maxconn 2000\n",
                                              "    maxconn 2000\n    nbthread 1\n")

    def start_engine(self, name):
        self.engines[name] = self.engine_port

    def start_agent(self):
        if self.kind == "kvroute":
            super().start_agent()
        else:
            self.spawn("agent",
                       [os.path.join(BUILD, "tests/tools/noop_spoa"), self.spop_address, "s1"])


def version(binary):
    out = subprocess.run([binary, "-v"], capture_output=True, text=True).stdout
    return re.search(r"version (\S+)", out).group(1)


def measure(binary):
    port = free_ports(1)[0]
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as cfg:
        cfg.write(ENGINE % port)
        cfg.flush()
        engine = subprocess.Popen([binary, "-db", "-f", cfg.name])
        try:
            wait_for("the engine", 10, lambda: socket.create_connection(("127.0.0.1", port), 1))
            with Path("plain", port,
                      haproxy=binary) as plain, Path("noop", port, haproxy=binary) as noop, \
                    Path("kvroute", port, haproxy=binary) as ours:
                ports = [str(f.port) for f in (plain, noop, ours)]
                argv = [os.path.join(BUILD, "tests/tools/http_pace"), str(ROUNDS), str(PER_ROUND),
                        str(BODY)] + ports
                out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
                decided = sum(v for k, v in ours.metrics().items()
                              if k.startswith("kvroute_decisions_total"))
        finally:
            engine.terminate()
            engine.wait()
    rows = [dict(f.split("=") for f in line.split()) for line in out.splitlines()]
    p50 = [float(r["p50_us"]) for r in rows]
    best = [float(r["best_round_p50_us"]) for r in rows]
    failed = sum(int(r["failed"]) for r in rows)
    noop_added, ours_added = p50[1] - p50[0], p50[2] - p50[0]
    best_noop, best_ours = best[1] - best[0], best[2] - best[0]
    print("bench path haproxy=%s body=%d requests=%d plain_us=%.1f noop_added_us=%.1f "
          "kvroute_added_us=%.1f ratio=%.2f "
          "best_plain_us=%.1f best_noop_added_us=%.1f best_kvroute_added_us=%.1f best_ratio=%.2f "
          "limit=1.5 "
          "decided=%d failed=%d cpu=\"%s\" kernel=%s"
          % (version(binary), BODY, ROUNDS * PER_ROUND, p50[0], noop_added, ours_added,
             ours_added / noop_added,
             best[0], best_noop, best_ours, best_ours / best_noop, decided, failed, cpu(),
             os.uname().release), flush=True)


def cpu():
    with open("/proc/cpuinfo") as f:
        return re.search(r"model name\s*: (.*)", f.read()).group(1)


def main():
    have = [v for v in ("2.6", "3.0", "3.2")
            if os.path.exists(os.path.join(TOP, "build/haproxy", v, "haproxy"))]
    for v in [have[0], have[-1]] if len(have) > 1 else have:
        measure(os.path.join(TOP, "build/haproxy", v, "haproxy"))
    if not have:
        print("skipped: bench path, no HAProxy under build/haproxy (make deps)")


main()
