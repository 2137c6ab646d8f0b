#!/usr/bin/env python3
"""feed.py [-k WORD] - the log feed of two HAProxys, and of a feed that loses lines.

HAPROXY names the binary. The last line is "N passed, N failed".
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import p_lossy_feed  # noqa: E402
import p_two_haproxies  # noqa: E402
import traffic  # noqa: E402

if __name__ == "__main__":
    sys.exit(traffic.main(p_two_haproxies.CASES + p_lossy_feed.CASES, sys.argv[1:]))
