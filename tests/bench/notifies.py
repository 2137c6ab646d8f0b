#!/usr/bin/env python3
"""notifies.py [-n COUNT] - NOTIFYs at the agent's socket: 20,000 a second on one thread for 30 s,
or COUNT as fast as they go.

The index is small enough to be full before the measured part, bodies are partly unique, so
everything that is kept also turns over. Prints

    bench socket rate=20000 body=4096 notifies=.. acks=.. p50_us=.. p99_us=..
                 rss_kib=A..B growth=.. limit=0.01

and exits with 1 if an ACK is missing or memory grew by more than the limit.
"""
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/it"))
sys.dont_write_bytecode = True

from fleet import BUILD, free_ports, wait_for  # noqa: E402

CONF = """threads: 1
state_dir: %s
spop: {listen: ["127.0.0.1:%d"]}
log_feed: {tcp: [], udp: []}
metrics: {listen: ["127.0.0.1:%d"]}
index: {max_bytes: 16MiB}
"""
LIMIT = 0.01


def ready(port):
    import urllib.request
    return urllib.request.urlopen("http://127.0.0.1:%d/ready" % port, timeout=1).status == 200


def metric(port, name):
    import urllib.request
    text = urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=5).read().decode()
    return float(re.search(r"(?m)^%s (\S+)" % name, text).group(1))


def main():
    count = int(sys.argv[2]) if sys.argv[1:2] == ["-n"] else 0
    port, metrics = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kvroute.yaml")
        with open(path, "w") as f:
            f.write(CONF % (folder, port, metrics))
        with open(os.path.join(folder, "log"), "w") as log:
            agent = subprocess.Popen([os.path.join(BUILD, "kvroute"), "-f", path], stderr=log)
        try:
            wait_for("the agent", 10, lambda: ready(metrics))
            pace = ["-n", str(count)] if count else ["-r", "20000", "-t", "30"]
            argv = [os.path.join(BUILD, "tests/tools/spop_load"), "127.0.0.1:%d" % port, "-p",
                    str(agent.pid)] + pace
            out = subprocess.run(argv, capture_output=True, text=True)
            if out.returncode == 2:
                sys.exit("bench socket: " + out.stderr)
            said = dict(f.split("=", 1) for f in out.stdout.split())
            said["evicted_pages"] = "%.0f" % metric(metrics, "kvroute_index_evicted_pages_total")
        finally:
            agent.terminate()
            agent.wait()
    print("bench socket rate=%s body=4096 %s limit=%g" % (count and "max" or 20000, " ".join(
        "%s=%s" % kv for kv in said.items() if kv[0] != "rate" or count), LIMIT))
    good = said["acks"] == said["notifies"] and float(said["growth"]) <= LIMIT and float(
        said["evicted_pages"]) > 0
    if count:
        print("%d passed, %d failed" % (good, not good))
    sys.exit(not good)


main()
