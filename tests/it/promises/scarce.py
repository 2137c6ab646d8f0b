#!/usr/bin/env python3
"""scarce.py - lack of memory and descriptors: promise 20.

Environment: STRIDE (p20_scarce.py). The last line is "N passed, N failed".
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import agent  # noqa: E402
import p20_scarce  # noqa: E402

if __name__ == "__main__":
    sys.exit(agent.main(p20_scarce.CASES, sys.argv[1:]))
