#!/usr/bin/env python3
"""memory.py [-k WORD] - the memory of the agent: its size and its contents. Promises 8 and 14.

The last line is "N passed, N failed".
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import agent  # noqa: E402
import p08_memory  # noqa: E402
import p14_canary  # noqa: E402

if __name__ == "__main__":
    sys.exit(agent.main(p08_memory.CASES + p14_canary.CASES, sys.argv[1:]))
