#!/usr/bin/env python3
"""reload.py [-k WORD] - reloads of the agent and of HAProxy under load: promises 15 and 17, one
after the other.

HAPROXY names the binary. The last line is "N passed, N failed".
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import p15_reload  # noqa: E402
import p17_haproxy_reload  # noqa: E402
import traffic  # noqa: E402

if __name__ == "__main__":
    sys.exit(traffic.main(p15_reload.CASES + p17_haproxy_reload.CASES, sys.argv[1:]))
