#!/usr/bin/env python3
"""on_socket.py [-k WORD] - the agent on real sockets: promises 2, 3, 5, 6 and 18, one after
another.

The last line is "N passed, N failed".
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import agent  # noqa: E402
import p02_acks  # noqa: E402
import p03_garbage  # noqa: E402
import p05_split  # noqa: E402
import p06_writes  # noqa: E402
import p18_slow  # noqa: E402

if __name__ == "__main__":
    sys.exit(agent.main(p02_acks.CASES + p03_garbage.CASES + p05_split.CASES + p06_writes.CASES
                        + p18_slow.CASES, sys.argv[1:]))
