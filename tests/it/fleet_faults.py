#!/usr/bin/env python3
"""fleet_faults.py [-k WORD] - four agents, two HAProxys and a store, with a fault at a time.

Requests run all the time. In each fault none fails, and each gets its decision from an agent; many
are decided while the store does nothing and the agents still wait for its answer, so no decision
waits for it. After each fault the agents hold the same pairs of a server and a page: these are
counted from the snapshot files that the agents write, by a reader of the test. Agents 1 and 2 reach
the store by another network than 3 and 4; each of the two has one that gives up a store without an
answer soon, and one that waits. Last line: N passed, N failed.
"""
import collections
import concurrent.futures
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "promises")]
sys.dont_write_bytecode = True

from cases import main  # noqa: E402
from fleet import BUILD, HAPROXY, TOP, Fleet, wait_for  # noqa: E402
from network import Network  # noqa: E402
from share import SECONDS, STREAM, Member  # noqa: E402
from snapshots import read_pairs  # noqa: E402
from store import Store, programs  # noqa: E402
from traffic import FAST, Traffic  # noqa: E402

ENGINES = 5             # one of them is the 20 % that leave and come back
SOON, LATE = "500 ms", "1 m"
REQUESTS = 40           # of each HAProxy in each step of a fault
REPAIRED = 'held_total{what="applied"}'
NEWER = os.path.join(TOP, "build/haproxy/3.2/haproxy")


class Agent(Member):
    def __init__(self, key, address, timeout):
        super().__init__(key, [address], alone=True, threads=1,
                         share="warm_timeout: 10 m, timeout: " + timeout)
        self.file = os.path.join(self.folder, "index.snapshot")
        self.index = "64 MiB, snapshot_file: %s, snapshot_every: 400 ms" % self.file
        self.agent_conf = "ledger: {max_silence: 2 s}"

    def decided(self):
        return sum(v for k, v in self.metrics().items()
                   if k.startswith("kvroute_decisions_total{"))

    def pairs(self, after):
        """What the first snapshot says that was begun after <after>, or None if there is none."""
        try:
            if os.stat(self.file).st_mtime < after:
                return None
            return read_pairs(self.file)
        except FileNotFoundError:
            return None


class Front(Fleet):
    """A HAProxy for all agents: recipes/two-agents.cfg with more agents and engines, and with the
    log over UDP, because a reload loses lines of a ring (promises/p17_haproxy_reload.py)."""

    def __init__(self, agents, haproxy, first=None):
        super().__init__(engines=0 if first else ENGINES, agent=False, haproxy=haproxy,
                         conf="recipes/two-agents.cfg", engine_options=FAST, processing="20s")
        self.agents, self.first, self.removed = agents, first, ()

    def start(self):
        if self.first is None:
            for name in self.names:
                self.start_engine(name)
        else:
            self.names, self.engines = self.first.names, self.first.engines
        self.start_haproxy()
        wait_for("the agents", SECONDS, lambda: self.agents_up() == len(self.agents))

    def agents_up(self):
        return self.up_servers("spoe_agent")

    def put_servers(self, text):
        names = [n for n in self.names if n not in self.removed]
        load = subprocess.run([os.path.join(TOP, "haproxy-conf/load.sh"), *names], check=True,
                              capture_output=True, text=True).stdout.splitlines()[0]
        text = re.sub(r"(?m)^    http-request set-var-fmt\(txn.load\) .*$", lambda _: load, text)
        lines = "".join("    server %s 127.0.0.1:%d\n" % (n, self.engines[n]) for n in names)
        text = re.sub(r"(?m)(^    server s\d .*\n)+", lambda _: lines, text)
        feeds = "".join("    log 127.0.0.1:%d len 4096 format raw local0 info info\n" % a.feed_port
                        for a in self.agents)
        text = re.sub(r"(?m)(^    log ring@.*\n)+", lambda _: feeds, text)
        text = re.sub(r"(?m)^ring kvroute-feed2?\n(    .*\n)+\n", "", text)
        text = text[:text.index("    option httpchk GET /ready\n")]
        return text + """\
    option httpchk GET /ready
.if version_atleast(3.2)
    balance hash var(ptxn.uid)
.endif
""" + "".join(
            "    server a%d 127.0.0.1:%d check port %d inter 200ms fall 1 rise 1 "
            "on-marked-down shutdown-sessions\n" % (i, a.agent_port, a.metrics_port)
            for i, a in enumerate(self.agents, 1))

    def workers(self):
        pid = self.processes["haproxy"].pid
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return set(f.read().split())

    def reload_without(self, *names):
        self.removed, old = names, self.workers()
        self.write("haproxy.cfg", self.haproxy_cfg())
        self.processes["haproxy"].send_signal(signal.SIGUSR2)
        wait_for("a new worker", SECONDS, lambda: self.workers() - old)
        wait_for("the old worker's end", SECONDS, lambda: not self.workers() & old)

    def stop(self, keep=False):
        if self.first is not None:
            self.names = []
        super().stop(keep)


class Scene:
    """All of it. .agents, .fronts, .store, .net"""

    def __init__(self, program):
        self.program, self.closers = program, []
        self.folder = tempfile.mkdtemp(prefix="kvroute-faults-")
        self.agents, self.fronts = [], []

    def __enter__(self):
        try:
            self.start()
            return self
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def start(self):
        key = os.path.join(self.folder, "key")
        with open(key, "wb") as f:
            f.write(os.urandom(192))
        os.chmod(key, 0o600)
        network = Network()
        self.net = network.__enter__()
        self.closers.append(network.__exit__)
        self.store = Store("--maxmemory-policy", "noeviction", program=self.program,
                           host=self.net.host, inside=self.net.inside)
        self.closers.append(self.store.__exit__)
        self.store.start()
        self.net.put(self.store)
        one, two = self.net.addresses
        for address, timeout in ((one, SOON), (one, LATE), (two, SOON), (two, LATE)):
            self.agents.append(Agent(key, address, timeout))
            self.closers.append(self.agents[-1].__exit__)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda a: a.start(), self.agents))
        for haproxy in (NEWER if os.path.exists(NEWER) else HAPROXY, HAPROXY):
            self.fronts.append(Front(self.agents, haproxy, self.fronts[0] if self.fronts else None))
            self.closers.append(self.fronts[-1].__exit__)
            self.fronts[-1].start()
        self.joined()

    def __exit__(self, kind, value, trace):
        for close in reversed(self.closers):
            close(kind, value, trace)
        shutil.rmtree(self.folder, ignore_errors=True)

    def joined(self):
        """All agents are connected, warm, and hear each other."""
        for a in self.agents:
            a.wait("connected", 1)
            a.wait("warm", 1)
            a.wait("siblings", len(self.agents) - 1)

    def every(self, name, value, agents=None):
        for a in self.agents if agents is None else agents:
            a.wait(name, value)

    def compared(self):
        """Return the number of pairs in snapshots that begin now, and how many of these are not in
        all of them."""
        after = time.time()
        got = [wait_for("a snapshot", SECONDS, lambda a=a: a.pairs(after)) for a in self.agents]
        n = collections.Counter(p for g in got for p in g)
        return len(n), sum(v < len(got) for v in n.values())

    def alike(self):
        """Wait until no pair differs. Returns the number of pairs, and the seconds that it took."""
        begun, last = time.time(), ()

        def equal():
            nonlocal last
            last = self.compared()
            return last[0] > 0 and last[1] == 0
        try:
            wait_for("the same pairs", SECONDS, equal)
        except TimeoutError:
            raise AssertionError("%d of %d pairs differ" % last[::-1])
        return last[0], time.time() - begun

    def sum_of(self, name):
        return sum(a.value(name) or 0 for a in self.agents)


class OwnWords(list):
    """Texts that many prompts begin with; each prompt has words of its own after it, so that the
    agents differ if one of them misses a single request."""

    def __getitem__(self, i):
        return "%s %x" % (super().__getitem__(i), random.getrandbits(2400))


class Load:
    """Requests through both HAProxys, until the block ends."""

    def __init__(self, scene):
        self.runs = [Traffic(f, clients=2) for f in scene.fronts]
        for r in self.runs:
            r.texts = OwnWords(r.texts)

    def __enter__(self):
        for r in self.runs:
            r.__enter__()
        self.go_on()
        return self

    def __exit__(self, *ignored):
        for r in self.runs:
            r.end()

    def go_on(self, n=REQUESTS):
        """Wait for <n> requests through each HAProxy that begin after this moment."""
        before = time.monotonic()
        for r in self.runs:
            wait_for("requests", SECONDS, lambda r=r: sum(
                row.start > before for row in r.rows[-4 * n:]) >= n)

    def rows(self):
        return [row for r in self.runs for row in r.rows]


def undecided(rows):
    """Requests for which no agent decided, or only in a hurry."""
    return [r for r in rows if r.error or r.why in ("", "overload")]


# ---- faults --------------------------------------------------------------------------------------
# Each is called under load, and ends with a fleet that is whole again. It returns the periods
# (start, end) in which HAProxy could not ask for some requests, or none.


def nothing(s, load):
    """For comparison."""
    load.go_on()


def killed(s, load):
    """It loses all that it has."""
    s.store.kill()
    s.every("connected", 0)
    load.go_on()
    s.store.start()


def stopped(s, load):
    """Agents 1 and 3 give it up soon; 2 and 4 still wait for its answer at the end."""
    s.store.stop()
    try:
        s.every("connected", 0, s.agents[0::2])
        load.go_on()
        for a in s.agents[1::2]:
            assert a.value("connected") == 1, "it does not wait for the store"
    finally:
        s.store.go_on()


def flushed(s, load):
    s.store.command("FLUSHALL")
    load.go_on()


def trimmed(s, load):
    """The streams keep one entry, while agents 3 and 4 do not read them."""
    def lost():
        return [a.value("store_losses_total") for a in s.agents[2:]]
    before = lost()
    s.net.cut()
    s.every("connected", 0, s.agents[2:3])
    load.go_on()
    s.store.command("XTRIM", STREAM, "MAXLEN", "=", 1)
    # agent 4 asks for the streams' state only on a new connection
    for line in s.store.command("CLIENT", "LIST").decode().splitlines():
        s.store.command("CLIENT", "KILL", "ID", re.search(r"\bid=(\d+)", line)[1]) \
            if "cmd=xread" in line else None
    s.net.heal()
    wait_for("a loss that is seen", SECONDS, lambda: all(
        n > b for n, b in zip(lost(), before)))


def full(s, load):
    s.store.command("CONFIG", "SET", "maxmemory", "1")
    s.every("connected", 0)
    load.go_on()
    s.store.command("CONFIG", "SET", "maxmemory", "0")


def cut(s, load):
    """Agents 3 and 4 are alone, each by itself, until their siblings count them as lost."""
    s.net.cut()
    s.every("siblings", 1, s.agents[:2])
    s.every("connected", 0, s.agents[2:3])
    load.go_on()
    assert s.compared()[1] > 0, "the pairs do not differ while the agents do not hear each other"
    s.net.heal()


def removed(s, load):
    """One of five servers leaves the configuration of both HAProxys, and comes back. A worker that
    stops has no server in spoe_agent for the last requests of its connections."""
    def reload(*without):
        start = time.monotonic()
        for f in s.fronts:
            f.reload_without(*without)
        return start, time.monotonic()
    first = reload("s5")
    load.go_on()
    rows = [r for r in load.rows() if r.start > first[1]]
    assert all(r.server != "s5" and r.engine != "s5" for r in rows), "it still gets requests"
    second = reload()
    wait_for("requests of it", SECONDS, lambda: any(
        r.start > second[1] and r.engine == "s5" for r in load.rows()))
    return first, second


def lost_agent(s, load):
    """An agent is killed under load, and started again. Requests that HAProxy had sent to it get no
    decision; from its check on, it sends none there."""
    a, start = s.agents[2], time.monotonic()
    a.end("agent", signal.SIGKILL)
    for f in s.fronts:
        wait_for("the other agents", SECONDS, lambda f=f: f.agents_up() == 3)
    end = time.monotonic()
    load.go_on()
    a.start_agent()
    for f in s.fronts:
        wait_for("all agents", SECONDS, lambda f=f: f.agents_up() == 4)
    return ((start, end), )


def under_load(s, fault):
    decided, repaired = sum(a.decided() for a in s.agents), s.sum_of(REPAIRED)
    with Load(s) as load:
        periods = fault(s, load) or ()
        s.joined()
        load.go_on()
    rows = load.rows()
    failed = [r.trouble for r in rows if r.trouble]
    assert failed == [], "%d requests failed: %s" % (len(failed), failed[:3])
    without = undecided(rows)
    late = [r for r in without if not any(a <= r.end and r.start <= z for a, z in periods)]
    assert late == [], late[:3]
    if not periods:
        n = sum(a.decided() for a in s.agents) - decided
        assert n == len(rows), "%d decisions for %d requests" % (n, len(rows))
    pairs, seconds = s.alike()
    for a in s.agents:
        assert a.value('dropped_total{what="batches"}') == 0
        assert a.metrics()["kvroute_index_evicted_records_total"] == 0, "the byte budget is used up"
    took = sorted(r.end - r.start for r in rows)
    print("      %-6s %-10s requests=%d failed=0 undecided=%d p50_ms=%.0f p99_ms=%.0f pairs=%d "
          "repaired=%d differing=0 alike_s=%.1f"
          % (s.program, fault.__name__, len(rows), len(without), 1000 * took[len(took) // 2],
             1000 * took[len(took) * 99 // 100], pairs, s.sum_of(REPAIRED) - repaired, seconds),
          flush=True)


FAULTS = {"redis": [nothing, killed, stopped, flushed, trimmed, full, cut, lost_agent, removed],
          "valkey": [killed, stopped, trimmed, cut]}


def run(program):
    with Scene(program) as s:
        for fault in FAULTS[program]:
            try:
                under_load(s, fault)
            except BaseException:
                print("      %s, in: %s" % (program, fault.__name__), flush=True)
                raise


def faults():
    """A fleet with each store, at the same time, because most of it is waiting."""
    with concurrent.futures.ThreadPoolExecutor(len(FAULTS)) as pool:
        for fleet in [pool.submit(run, p) for p in programs()]:
            fleet.result()


CASES = [faults] if programs() else []


if __name__ == "__main__":
    t = subprocess.run([os.path.join(BUILD, "kvroute"), "-t", "-f", "/dev/stdin"],
                       input="share: {servers: [127.0.0.1:6379]}\n", capture_output=True, text=True)
    if "without hiredis" in t.stderr or not CASES:
        print("skipped: fleet, %s" % ("kvroute was built without hiredis" if CASES else
                                      "there is neither redis-server nor valkey-server"))
        print("0 passed, 0 failed, 1 skipped")
    else:
        sys.exit(main(CASES, sys.argv))
