#!/usr/bin/env python3
"""share_store.py - what one Redis or Valkey carries for agents that share (make bench-share-store).

Environment: AGENTS="2 4 8 16 32" numbers of agents; RATE=50 requests a second of each, in runs that
are not as fast as possible; PAGES="30 80" new pages of a request; SECONDS=3 of a run. Each run has
a store of its own. The lines are explained in tests/bench/store_load.c.
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../it"))
sys.dont_write_bytecode = True

from fleet import BUILD  # noqa: E402
from store import Store, programs  # noqa: E402


def numbers(name, default):
    return [int(n) for n in os.environ.get(name, default).split()]


def run(program, agents, rate, pages):
    with Store(program=program) as s:
        subprocess.run([os.path.join(BUILD, "tests/bench/store_load"), program, str(s.port),
                        str(s.process.pid), str(agents), str(rate), str(pages),
                        os.environ.get("SECONDS", "3")], check=True)


def main():
    if not programs():
        print("skipped: bench-share-store, there is neither redis-server nor valkey-server")
    for program in programs():
        for pages in numbers("PAGES", "30 80"):
            for agents in numbers("AGENTS", "2 4 8 16 32"):
                for rate in numbers("RATE", "50") + [0]:
                    run(program, agents, rate, pages)


main()
