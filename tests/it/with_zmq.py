"""with_zmq.py - python3-zmq, or a suite that says that it is skipped.

    from with_zmq import need_zmq
    zmq = need_zmq("events")        # before anything that imports zmq
"""
import os
import sys

DEBIAN = "/usr/bin/python3"


def need_zmq(suite):
    """Return the module zmq. Without it, end the suite as skipped."""
    try:
        import zmq
        return zmq
    except ImportError:
        # apt installs for Debian's own Python; another one may come first in PATH
        if os.path.exists(DEBIAN) and os.path.realpath(sys.executable) != os.path.realpath(DEBIAN):
            os.execv(DEBIAN, [DEBIAN, *sys.argv])
    print("skipped: %s, there is no python3-zmq" % suite)
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)
