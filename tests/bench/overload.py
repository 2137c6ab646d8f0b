#!/usr/bin/env python3
"""overload.py - an agent that is asked four times as often as it can look: how many have their answer, or an empty-handed one
(why=overload), within the 50 ms of the recipes' timeout processing.

One thread and five rules with memories, so that a client on another processor can offer four times what it can do; first as
fast as answers come, which is what it can do; then FACTOR (4) times as many a second, whether answers come or not, WINDOW (64)
ahead at most on each of CONNS (64) connections. Prints

    bench overload body=4000 factor=4 capacity=.. offered=.. sent=.. within=.. overload=.. p50_us=.. p99_us=.. limit=0.999

It needs two processors that nobody else wants: <sent> a second is less than what was offered where the client has none of its
own, and then nothing is judged. A processor that stands still for a tenth of a second makes thousands late.
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
index: {max_bytes: 64MiB}
policy: {rule: simhash, compare: [block_tracker, gaie_full, aibrix, prefixaware]}
"""
BODY, FACTOR, SECONDS = 4000, float(os.environ.get("FACTOR", "4")), os.environ.get("SECONDS_EACH", "5")


def get(port, path):
    import urllib.request
    return urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, path), timeout=5).read().decode()


def overloaded(port):
    found = re.search(r'(?m)^kvroute_decisions_total\{why="overload"\} (\S+)', get(port, "/metrics"))
    return float(found.group(1)) if found else 0


def load(address, *args):
    out = subprocess.run([os.path.join(BUILD, "tests/tools/spop_load"), address, "-b", str(BODY), "-t", SECONDS, *args],
                         capture_output=True, text=True)
    if out.returncode == 2:
        sys.exit("bench overload: " + out.stderr)
    return dict(f.split("=", 1) for f in out.stdout.split())


def main():
    port, metrics = free_ports(2)
    address = "127.0.0.1:%d" % port
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kvroute.yaml")
        with open(path, "w") as f:
            f.write(CONF % (folder, port, metrics))
        with open(os.path.join(folder, "log"), "w") as log:
            agent = subprocess.Popen([os.path.join(BUILD, "kvroute"), "-f", path], stderr=log)
        try:
            wait_for("the agent", 10, lambda: get(metrics, "/ready") is not None)
            can = load(address, "-r", "0", "-c", "8", "-w", "4")
            before = overloaded(metrics)
            offered = FACTOR * float(can["rate"])
            got = load(address, "-r", "%.0f" % offered, "-c", os.environ.get("CONNS", "64"), "-w", os.environ.get("WINDOW", "64"))
            declined = (overloaded(metrics) - before) / float(got["notifies"])
        finally:
            agent.terminate()
            agent.wait()
    print("bench overload body=%d factor=%g capacity=%s offered=%.0f sent=%s within=%s overload=%.3f p50_us=%s p99_us=%s limit=0.999" % (
        BODY, FACTOR, can["rate"], offered, got["rate"], got["within"], declined, got["p50_us"], got["p99_us"]))
    sys.exit(float(got["rate"]) >= 0.95 * offered and float(got["within"]) < 0.999)


main()
