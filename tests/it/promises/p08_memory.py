#!/usr/bin/env python3
"""p08_memory.py [-k WORD] - promise 8: memory never passes its budgets.

In an agent with small budgets, each structure that grows with use is driven far beyond its budget,
while resident memory and the agent's own figures are sampled. No figure may exceed its budget, and
resident memory may reach 1.15 times the sum plus 32 MiB. Once all budgets are full, the agent must
not allocate more. Allocations are counted by tests/tools/live_shim.c, because resident memory also
depends on glibc's arenas and thus on the scheduling of threads.
"""
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from agent import BUILD, Agent, chat, equal, fill, main, not_full, request, wait_for  # noqa: E402
from fleet import TOP  # noqa: E402
from spop_client import SpopClient, SpopError  # noqa: E402

MIB = 1 << 20
PROGRAM_BYTES = 32 * MIB        # code, libraries, threads
SLACK = 1.15                    # overhead of an allocator
GROWTH_BYTES = 64 << 10         # allocated: half a byte for each NOTIFY of the longest case
CASES = []


def case(f):
    CASES.append(f)
    return f


class Small(Agent):
    """Set every budget to about its minimum, except those in <more>."""

    def __init__(self, index="8MiB", more="", **kw):
        super().__init__(spop="max_bytes: 16MiB, max_connections: 2500", live=True, **kw)
        self.agent_conf = ("index: {max_bytes: %s}\nheads: {max_bytes: 128KiB, max_tenant_bytes: "
                           "16KiB}\nslices: {max_bytes: 1MiB, max_age: 1 s}\n"
                           "turns: {max_bytes: 256KiB, tenant_floor: 16KiB}\n"
                           "ledger: {max_entries: 512}\nmax_pools: 8\n"
                           # bounded by the index
                           "policy: {capacity_guess: 0}\n%s" % (index, more))

    def held(self):
        """Bytes allocated, once no connection and no slice is left."""
        left = ("kvroute_spop_connections", "kvroute_slices_waiting_bytes")
        wait_for("connections and slices to end", 20,
                 lambda: (lambda m: not any(m[k] for k in left))(self.metrics()))
        if not self.live:
            return 0
        # a page of metrics that is being sent has 64 KiB or more, for a moment
        return min(self.live.get("bytes") for _ in range(20) if not time.sleep(0.05))

    def sum(self):
        """As kvroute -tv prints it."""
        out = subprocess.run([os.path.join(BUILD, "kvroute"), "-tv", "-f",
                              os.path.join(self.folder, "kvroute.yaml")], capture_output=True,
                             text=True)
        return int(re.search(r"(?m)^# What grows with use takes (\d+) MiB at most",
                             out.stdout).group(1)) * MIB


class Watch:
    """Samples each figure until the block ends: its maximum, and values above its limit."""

    def __init__(self, agent, limits=()):
        self.agent, self.limits = agent, {"index_bytes": "index_limit_bytes",
                                          "spop_buffer_bytes": "spop_buffer_limit_bytes"}
        self.fixed = dict(limits)
        self.most, self.above, self.rss, self.n, self.ended = {}, [], 0, 0, False
        self.failure = None

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.ended = True
        self.thread.join()
        if kind is None and self.failure:
            raise self.failure

    def run(self):
        try:
            while not self.ended:
                self.look()
                time.sleep(0.03)
        except Exception as e:
            self.failure = e

    def look(self):
        self.rss = max(self.rss, self.agent.rss())
        m = {k[len("kvroute_"):]: v for k, v in self.agent.metrics().items()}
        self.n += 1
        for k in list(self.limits) + list(self.fixed):
            limit = self.fixed[k] if k in self.fixed else m[self.limits[k]]
            self.most[k] = max(self.most.get(k, 0), m[k])
            if m[k] > limit:
                self.above.append((k, m[k], limit))

    def judge(self, sum_bytes):
        equal(self.above, [], "figures above their budgets")
        limit = SLACK * sum_bytes + PROGRAM_BYTES
        assert self.rss <= limit, "%d bytes resident, limit %d" % (self.rss, limit)
        assert self.n >= 5, "only %d samples" % self.n


def flat(before, after, what):
    assert after <= before + GROWTH_BYTES, "%s: %d bytes are held, and %d before" % (
        what, after, before)


@case
def ten_times_the_index():
    """New prompts at the socket, ten times the capacity of the index."""
    with Small() as a:
        limit, held, acks = 8 * MIB, [], 0
        with Watch(a) as w:
            # On a busy machine a thread may be used for the first time in a later round; a leak
            # grows in each.
            while len(held) < 2 or held[-1] > held[-2] + GROWTH_BYTES and len(held) < 5:
                load = subprocess.run([os.path.join(BUILD, "tests/tools/spop_load"), a.spop_address,
                                       "-n", "150000", "-c", "4", "-w", "16"],
                                      stdout=subprocess.PIPE, text=True)
                said = dict(f.split("=", 1) for f in load.stdout.split())
                equal(said["lost"], "0", "NOTIFYs without an ACK")
                acks += int(said["acks"])
                held.append(a.held())
        m = a.metrics()
        times = 1 + m["kvroute_index_evicted_pages_total"] / m["kvroute_index_pages"]
        print("promise 8: prompts=%d through_index=%.1fx index_bytes_most=%d of %d "
              "rss_most_mib=%.1f limit_mib=%.1f held_bytes=%d..%d samples=%d" % (
            acks, times, w.most["index_bytes"], limit, w.rss / MIB,
            (SLACK * limit + PROGRAM_BYTES) / MIB, *held[-2:], w.n))
        equal(m["kvroute_index_limit_bytes"], limit, "limit")
        assert times >= 10, "only %.1f times" % times
        assert w.most["index_bytes"] > 0.9 * limit, "the index was never full"
        w.judge(a.sum())
        assert w.rss <= SLACK * limit + PROGRAM_BYTES, "%d bytes resident, with an index of %d" % (
            w.rss, limit)
        flat(*held[-2:], "once the index was full")


def growth_of_threads(max_pages):
    """Return the sum, and what the first prompts of four threads allocated."""
    with Small(index="8MiB, max_pages: %d" % max_pages,
               more="prompt: {max_pages: 1024}\n", threads=4) as a:
        before = a.held()
        conns = [a.client() for _ in range(32)]
        for i, c in enumerate(conns):
            c.notify("route", request("t%d" % i, chat("thread %d" % i)))
        for c in conns:
            c.close()
        return a.sum(), a.held() - before


@case
def each_thread_counts():
    """What a thread allocates with its first prompt is in the sum, with the number of threads."""
    few, few_grew = growth_of_threads(16)
    many, grew = growth_of_threads(1 << 20)
    print("promise 8: four threads with chains of 2^20 pages: %d bytes more, %d in the sum" % (
        grew - few_grew, many - few))
    assert grew - few_grew > MIB, "the threads allocated nothing"
    assert grew - few_grew <= many - few + MIB // 4, "more than the sum allows"


def half_frames(a, n, size):
    """Open <n> connections that complete HELLO and send the first <size> bytes of a longer frame.
    Returns those that are still open."""
    conns = []
    for i in range(n):
        try:
            c = SpopClient(a.spop_address, 10, 65532)
            if i % 4:
                c.send_raw((60000).to_bytes(4, "big") + b"\3\0\0\0\1\1\1" + b"a" * size)
            else:       # a fragment, whole; the rest of the message never comes
                c.send_raw((size + 7).to_bytes(4, "big") + b"\3\0\0\0\0\1\1" + b"a" * size)
            conns.append(c)
        except (SpopError, OSError):
            pass
    return conns


def looked(client, uid, text):
    """Return how often <uid> was sent until it was decided; None: the answer is still overload."""
    for times in range(1, 1000):
        if client.notify("route", request(uid, chat(text)))["txn.why"] != "overload":
            return times
    return None


@case
def two_thousand_half_frames():
    """2000 connections with incomplete frames and messages, four times; HAProxy's connection
    continues."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    with Small() as a:
        answered = told = 0
        for _ in range(4):
            with Watch(a) as w, a.client() as good:
                good.notify("route", request("g", chat("good")))
                conns = half_frames(a, 2000, 20000)
                for i in range(50):
                    asked = wait_for("a look at a good request", 10,
                                     lambda: looked(good, "g%d" % i, "good %d" % i))
                    told, answered = told + asked - 1, answered + 1
                    if i % 10 == 0:
                        w.look()
                wait_for("the agent to have read", 10,
                         lambda: a.metrics()["kvroute_spop_buffer_bytes"] > 8 * MIB)
                w.look()
                m = a.metrics()
                held = m["kvroute_spop_connections"]
                for c in conns:
                    c.close()
                wait_for("the connections to be gone", 20,
                         lambda: a.metrics()["kvroute_spop_connections"] == 1)
            m = a.metrics()
            refused = {k: int(m['kvroute_spop_buffer_refused_total{kind="%s"}' % k])
                       for k in ("first", "large")}
            print("promise 8: half_frames=2000 connections_held=%d buffers_most=%.1f of 16 MiB "
                  "left=%d rss_most_mib=%.1f buffers_refused=%s answered=%d told_overload=%d" % (
                held, w.most["spop_buffer_bytes"] / MIB, m["kvroute_spop_buffer_bytes"],
                w.rss / MIB, refused, answered, told))
            w.judge(a.sum())
            assert w.rss <= SLACK * 16 * MIB + PROGRAM_BYTES, (
                "%d bytes resident, with buffers of 16 MiB") % w.rss
            assert m["kvroute_spop_buffer_bytes"] < 2 * MIB, "buffers that nobody has"
        assert sum(refused.values()) > 0, "the budget was never reached"


@case
def all_that_can_be_filled():
    """Heads, waiting slices, open requests, pools, servers: each far beyond its budget, all in one
    agent."""
    with Small(index="1MiB") as a:
        fixed = {"heads_bytes": 128 << 10, "turns_bytes": 256 << 10, "slices_waiting_bytes": MIB,
                 "ledger_open_requests": 512}
        held = []
        with Watch(a, fixed) as w:
            for turn in range(3):
                with a.client(65532) as c:
                    fill(c, turn, range(1500))
                w.look()
                held.append(a.held())
        equal(not_full(a), [], "budgets that were not met")
        print("promise 8: most: %s; rss_most_mib=%.1f of %.1f held_bytes=%s"
              % (", ".join("%s=%d of %d" % (
            k, w.most[k], fixed[k]) for k in fixed), w.rss / MIB,
                 (SLACK * a.sum() + PROGRAM_BYTES) / MIB, held))
        w.judge(a.sum())
        # a thread allocates its scratch with its first request, and a leak grows each time: so the
        # least growth is checked
        flat(*min(zip(held, held[1:]), key=lambda x: x[1] - x[0]), "after one more time")


@case
def lost_datagrams_are_counted():
    """The kernel's buffer for the log feed is a budget as well."""
    sent = 6000
    with Agent() as a:
        os.kill(a.pid, signal.SIGSTOP)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for i in range(sent):
                s.sendto(b'{"uid":"u%d","x":"%s"}' % (i, b"a" * 900), ("127.0.0.1", a.feed_port))
        os.kill(a.pid, signal.SIGCONT)
        got = lambda: [int(a.metrics()["kvroute_feed_" + k])
                       for k in ("datagrams_total", "udp_dropped_total")]
        wait_for("each to be taken or counted", 10, lambda: sum(got()) == sent)
        taken, dropped = got()
        print("      %d datagrams at a stopped agent: %d taken, %d counted as dropped"
              % (sent, taken, dropped))
        assert taken > 0 and dropped > 0, "nothing to be seen"


@case
def the_manual_has_them_all():
    """The table's keys, defaults and sum equal those that the program prints, and it lists every
    budget in bytes."""
    with open(os.path.join(TOP, "doc/kvroute.8")) as f:
        section = re.search(r"(?s)\.Sh MEMORY\n(.*?)\n\.Sh ", f.read()).group(1)
    table = dict(re.findall(r"(?m)^\.It [^.].* Ta Ic (\S+) Ta (.+)$", section))
    out = subprocess.run([os.path.join(BUILD, "kvroute"), "-tv"], capture_output=True,
                         text=True).stdout
    keys, prefix, kind = {}, "", ""
    for line in out.splitlines():
        m = re.match(r"( *)(\w+):(?: (.+))?$", line)
        if line.lstrip().startswith("# "):
            kind = re.match(r"# (\w+)",
                            line.lstrip()).group(1) if re.search(r"; default ", line) else kind
        elif m and not m.group(1) and m.group(3) is None:
            prefix = m.group(2) + "."
        elif m:
            keys[(prefix if m.group(1) else "") + m.group(2)] = (m.group(3), kind)
    as_printed = {"none": '""'}
    equal({k: v for k, v in table.items() if keys.get(k, ("", ""))[0] != as_printed.get(v, v)}, {},
          "rows that say other than the program")
    sizes = {k for k, (v, kind) in keys.items() if kind == "size" and v != "[]"} - {
        "spop.max_frame_size", "spop.max_joined",   # of one, within spop.max_bytes
        "record.max_bytes"}                         # of a file
    equal(sorted(sizes - set(table)), [], "sizes that are not in the table")
    mib = re.search(r"takes (\d+) MiB at most", out).group(1)
    text = section.replace("\n", " ")
    assert "the sum: %s MiB with the defaults" % mib in text, "the sum is %s MiB" % mib
    print("      %d budgets, %s MiB with the defaults" % (len(table), mib))
    assert len(table) >= 9 and len(sizes) >= 5, "too few were found"


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
