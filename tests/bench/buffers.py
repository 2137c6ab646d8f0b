#!/usr/bin/env python3
"""buffers.py - what HAProxy's buffers cost: CPU and memory of a real HAProxy and of the agent, for
tune.bufsize 16K to 1M, bodies that are shown in one message (cut) or in slices, and on HAProxy 3.4
and later in slices from large buffers (tune.bufsize 16384, tune.bufsize.large of that size).

A stub engine answers at once. HAProxy and the agent have one thread each, and HAProxy's environment
is that of haproxy-conf/haproxy.service.conf. For each case one line:

    bench buffers haproxy=2.6.12 how=cut bufsize=65536 body=2048 visible=62464 requests=1000
                  haproxy_us=.. agent_us=.. faults=.. idle_kb=.. open=100 open_kb=.. peak_kb=..

haproxy_us, agent_us: CPU time a request, one request at a time. faults: minor page faults of
HAProxy a request. idle_kb: resident memory of HAProxy before the first request. open_kb: with
<open> requests of which all but the last byte was sent, each on its own connection; peak_kb: the
most so far. Of a body that the buffer cannot hold the first part was sent on by then. visible:
bytes of a long body that the agent gets. CPU times depend on the machine and on what else runs
there; compare lines of one run.

BODIES, SIZES, OPEN (100), HOW ("cut sliced large") and HAPROXYS (paths; those under build/haproxy)
choose what runs.
"""
import glob
import os
import platform
import re
import socket
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/it"))
sys.dont_write_bytecode = True

from fleet import BUILD, Fleet  # noqa: E402

SIZES = [int(s) for s in os.environ.get("SIZES", "16384 65536 262144 1048576").split()]
BODIES = [int(s) for s in os.environ.get("BODIES", "2048 65536 614400").split()]
OPEN = int(os.environ.get("OPEN", "100"))
HOW = os.environ.get("HOW", "cut sliced large").split()
HAPROXYS = os.environ.get("HAPROXYS", "").split() or \
    sorted(glob.glob(os.path.join(TOP, "build/haproxy/*/haproxy")))
SLICES, SLICE = 8, 13000        # of recipes/sliced.cfg
SMALL = 16384
ENGINE = ["--prefill-tps", "1e9", "--decode-ms", "0", "--decode-seq-ms", "0", "--blocks",
          "65536"]


def version(binary):
    out = subprocess.run([binary, "-v"], capture_output=True, text=True, check=True).stdout
    return re.search(r"version (\S+)", out).group(1)


def is_since(binary, major, minor):
    return tuple(int(x) for x in re.match(r"(\d+)\.(\d+)", version(binary)).groups()) >= (
        major, minor)


def fleet(binary, how, size):
    def edit(text):
        text = text.replace("    maxconn 2000\n", "    maxconn 2000\n    nbthread 1\n")
        if how == "large":
            return text.replace("tune.bufsize.large 131072", "tune.bufsize.large %d" % size)
        text = re.sub(r"(?m)^    tune\.bufsize\.large.*\n", "", text)
        return text.replace(" use-large-buffer", "")

    sliced = {} if how == "cut" else {"conf": "recipes/sliced.cfg", "spoe": "recipes/sliced.spoe"}
    return Fleet(engines=1, show=False, threads=1, haproxy=binary, engine_options=ENGINE,
                 bufsize=size if how != "large" else None, edit=edit, **sliced)


def worker_of(master):
    """The process that serves: the master's child, once there is one."""
    with open("/proc/%d/task/%d/children" % (master, master)) as f:
        return int(f.read().split()[0])


def cpu_us(pid):
    ns = 0
    for path in glob.glob("/proc/%d/task/*/schedstat" % pid):
        with open(path) as f:
            ns += int(f.read().split()[0])
    return ns / 1000


def faults_of(pid):
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rpartition(")")[2].split()[7])


def memory_kb(pid, name):
    with open("/proc/%d/status" % pid) as f:
        return int(re.search(name + r":\s+(\d+) kB", f.read()).group(1))


def settled_kb(pid):
    """Resident memory, once it has not changed for a while; half a minute at most."""
    last, same = -1, 0
    for _ in range(300):
        now = memory_kb(pid, "VmRSS")
        same = same + 1 if now == last else 0
        if same == 5:
            break
        last = now
        time.sleep(0.1)
    return last


def request(n):
    text = "".join("word%d " % (i % 97) for i in range(n // 7 + 1))[:n]
    body = b'{"model":"stub","max_tokens":1,"messages":[{"role":"user","content":"%s"}]}' \
        % text.encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n" \
        b"content-length: %d\r\n\r\n" % len(body) + body


def with_open_requests(port, body, pid):
    """Return the resident memory while OPEN requests are not complete, and the most of all time."""
    clients, bytes_out = [], request(body)
    try:
        for _ in range(OPEN):
            clients.append(socket.create_connection(("127.0.0.1", port), 60))
            clients[-1].sendall(bytes_out[:-1])
        now = settled_kb(pid)
        for c in clients:
            c.sendall(bytes_out[-1:])
        for c in clients:
            c.recv(1)
    finally:
        for c in clients:
            c.close()
    return now, memory_kb(pid, "VmHWM")


def pace(port, body, n):
    out = subprocess.run([os.path.join(BUILD, "tests/tools/http_pace"), "-m", "1", str(n),
                          str(body), str(port)], capture_output=True, text=True, check=True).stdout
    if "failed=0" not in out:
        raise RuntimeError("requests failed: " + out)


def visible(how, size):
    return size - 3072 if how == "cut" else min(size - 2048, SLICES * SLICE)


def one(binary, how, size, body):
    n = max(60, min(1000, 32000000 // body))
    with fleet(binary, how, size) as f:
        agent, haproxy = f.processes["agent"].pid, worker_of(f.processes["haproxy"].pid)
        idle = memory_kb(haproxy, "VmRSS")
        pace(f.port, body, n // 10)
        h, a, m = cpu_us(haproxy), cpu_us(agent), faults_of(haproxy)
        pace(f.port, body, n)
        h, a, m = (x / n for x in (cpu_us(haproxy) - h, cpu_us(agent) - a, faults_of(haproxy) - m))
        now, peak = with_open_requests(f.port, body, haproxy)
        print("bench buffers haproxy=%s how=%s bufsize=%d body=%d visible=%d requests=%d "
              "haproxy_us=%.1f agent_us=%.1f faults=%.2f idle_kb=%d open=%d open_kb=%d peak_kb=%d"
              % (version(binary), how, size, body, visible(how, size), n, h, a, m, idle, OPEN, now,
                 peak), flush=True)


def main():
    if not HAPROXYS:
        print("skipped: bench buffers, no HAProxy under build/haproxy (make deps)")
    print("conditions: %d processors, load %.1f, kernel %s; HAProxy and agent one thread each"
          % (os.cpu_count(), os.getloadavg()[0], platform.release()), flush=True)
    for binary in HAPROXYS:
        for how in HOW:
            for size in SIZES:
                if how == "large" and (size == SMALL or not is_since(binary, 3, 4)):
                    continue
                for body in BODIES:
                    one(binary, how, size, body)


if __name__ == "__main__":
    sys.exit(main())
