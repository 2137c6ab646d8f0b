"""path_goals.py - what path.py prints beside its rows: conditions, what the bytes cost any program,
and the distance from the goals."""
import ctypes
import ctypes.util
import os
import platform
import re
import resource
import statistics
import subprocess
import time

# At most so much above an agent that does nothing: CPU time of agent and HAProxy together, feed
# included, us for each size of a body; and the latency that an agent adds, as a multiple of its.
CPU_GOALS = {2048: 5, 16384: 8, 131072: 25}
LATENCY_GOAL = 1.2
ROWS = "plain noop noop-unix recipe best best-vars".split()
# what a row is compared with
NOOP_OF = {"recipe": ["noop"], "best": ["noop", "noop-unix"]}


# ---- conditions ---------------------------------------------------------------------------------

def first_match(pattern, text):
    got = re.search(pattern, text)
    return got.group(1) if got else "?"


def said(*argv):
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def package_of(program):
    """The version of the Python package whose venv has <program>."""
    code = "import importlib.metadata as m; print(m.version('%s'))" % os.path.basename(program)
    return said(os.path.join(os.path.dirname(program), "python3"), "-c", code) or "?"


def cpu_model():
    with open("/proc/cpuinfo") as f:
        return first_match(r"model name\s*: (.*)", f.read())


def print_conditions(cpus, versions, peers):
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    print("conditions: cpu=\"%s\" processors=%d load=%.1f kernel=%s commit=%s haproxy=%s%s" % (
        cpu_model(), len(cpus), os.getloadavg()[0], platform.release(),
        said("git", "-C", top, "rev-parse", "--short", "HEAD") or "?", ",".join(versions),
        "".join(" %s=%s" % (name, package_of(argv[0])) for name, argv in peers)), flush=True)
    if os.getloadavg()[0] > 0.7:
        print("note: other programs run: compare rows only", flush=True)


# ---- limits -------------------------------------------------------------------------------------

def us_each(size, call):
    """us of call(to, from) with <size> bytes that are in no near cache; the least of five."""
    n = max(64, (8 << 20) // size)
    memory = [ctypes.create_string_buffer(b"x" * size, size + 64) for _ in range(n)]
    to = ctypes.create_string_buffer(size + 64)
    best = None
    for _ in range(5):
        began = time.perf_counter()
        for m in memory:
            call(to, m)
        took = (time.perf_counter() - began) / n * 1e6
        best = took if best is None else min(best, took)
    return best


def hash_function():
    path = ctypes.util.find_library("xxhash")
    f = ctypes.CDLL(path).XXH3_64bits if path else None
    if f:
        f.restype, f.argtypes = ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_size_t]
    return f


def send_and_receive(engine, port, size, flood, cpu_us):
    """(us of the load, us of the engine) for a request that no router forwards."""
    spent = []
    for n in (1000, 3000):
        a, b = resource.getrusage(resource.RUSAGE_CHILDREN), cpu_us(engine)
        flood(n, size, port)
        c, d = resource.getrusage(resource.RUSAGE_CHILDREN), cpu_us(engine)
        spent.append(((c.ru_utime + c.ru_stime - a.ru_utime - a.ru_stime) * 1e6, d - b))
    return [max(0, (spent[1][i] - spent[0][i]) / 2000) for i in (0, 1)]


def print_limits(sizes, engine, port, flood, cpu_us):
    """What the bytes of a request cost any program: to send and to receive them over loopback (a
    router does both, and once more for an agent), to copy and to hash them."""
    hashes = hash_function()
    for size in sizes:
        send, receive = send_and_receive(engine, port, size, flood, cpu_us)
        nothing = us_each(size, lambda to, m: ctypes.memmove(to, m, 0))
        copy = us_each(size, lambda to, m: ctypes.memmove(to, m, size)) - nothing
        hashed = us_each(size, lambda to, m: hashes(m, size)) - nothing if hashes else 0
        print("bench path-limit body=%d send_us=%.1f receive_us=%.1f copy_us=%.2f hash_us=%.2f"
              % (size, send, receive, copy, max(0, hashed)), flush=True)


# ---- goals --------------------------------------------------------------------------------------

def above(rounds, row, noop):
    """(HAProxy, agent, both) of <row> above those of <noop>: medians of the rounds' differences."""
    pairs = list(zip(rounds[row], rounds[noop]))
    return [statistics.median(f(a) - f(b) for a, b in pairs)
            for f in (lambda r: r[0], lambda r: r[1], lambda r: r[0] + r[1])]


def ratio(a, b):
    return a / b if b > 0 else 0


def met(value, goal):
    return "-" if goal is None else "yes" if value <= goal else "no"


def print_goals(results):
    """<results>: [(version, size, {row: [round]}, {row: p50, also of "direct"})]."""
    print("\nagent and HAProxy above an agent that does nothing")
    print("%-10s %7s %-10s %-10s %8s %8s %8s %5s %-4s %8s %5s %-4s" % (
        "haproxy", "body", "row", "above", "haproxy", "agent", "cpu us", "goal", "met", "added p50",
        "goal", "met"))
    for version, size, rounds, p50 in results:
        for row, noops in NOOP_OF.items():
            for noop in noops:
                if row not in rounds or noop not in rounds:
                    continue
                haproxy, agent, both = above(rounds, row, noop)
                goal = CPU_GOALS.get(size)
                line = "%-10s %7d %-10s %-10s %8.1f %8.1f %8.1f %5s %-4s" % (
                    version, size, row, noop, haproxy, agent, both, goal or "-", met(both, goal))
                if row in p50 and noop in p50:
                    added = ratio(p50[row] - p50["direct"], p50[noop] - p50["direct"])
                    line += " %8.2fx %5s %-4s" % (added, LATENCY_GOAL, met(added, LATENCY_GOAL))
                print(line, flush=True)
