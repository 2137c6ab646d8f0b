#!/usr/bin/env python3
"""p18_slow.py [-k WORD] - promise 18: slow and half-open peers cannot block the agent; and
promise 19, overload.

500 silent connections (half of them without HELLO) and 100 that send a byte a second run beside 8
good ones. The verdict is the agent's work, which no load of the machine changes: a silent one costs
no read, and a byte of a slow one costs one, so that a request waits for one read of each slow one
at most. "bench slow_peers key=value ..." also tells the p99 of the good ones with and without the
others, measured in turn. All slow connections are closed after their timeout. So are peers that do
not read their ACKs, and their pending bytes are bounded. A peer that has closed its half is closed
at once.

A request that waited too long gets why=overload. The agent is stopped for a time while requests
arrive, so the result does not depend on the speed of the machine.
tests/unit/loop/test_overload.c tests the same with a clock in memory, tests/bench/overload.py with
the real one.
"""
import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from agent import *  # noqa: E402,F403
from p03_garbage import at_rest, fds  # noqa: E402
from p06_writes import Watched  # noqa: E402
from raw import *  # noqa: E402,F403
from spop_client import ACK, AGENT_DISCONNECT, AGENT_HELLO  # noqa: E402

IDLE, TRICKLING, GOOD = 500, 100, 8
ROUND_S, ROUNDS = 0.5, 3
# Time from a timeout to the closed descriptor: a sweep each quarter of a second, and a second for
# the peer to read the DISCONNECT.
BEHIND_S = 1.5
# Margin for a busy machine, plus ten times the delay of a sleeping program, because so many timers
# and turns may follow one another.
SLACK_S = 2.5
CASES = []


def case(f):
    CASES.append(f)
    return f


def load(a, seconds):
    """Run 8 good connections. Returns the last line of spop_load."""
    p = subprocess.run([os.path.join(BUILD, "tests/tools/spop_load"), a.spop_address, "-c", "8",
                        "-r", "2000", "-b", "4096", "-w", "8",
                        "-t", str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"))
    assert p.returncode == 0, "a good connection has suffered: %s %s" % (
        p.stdout.decode(), p.stderr.decode())
    got = dict(word.split("=") for word in p.stdout.decode().split())
    equal(got["lost"], "0", "NOTIFYs lost")
    return got


class Trickle(threading.Thread):
    """Once started, send a byte a second on each of <conns>, evenly spread, until end(). Closed
    connections are ignored."""

    def __init__(self, conns, data):
        super().__init__(daemon=True)
        self.conns, self.data, self.over, self.sent = conns, data, threading.Event(), 0
        self.at, self.gone = 0, set()

    def step(self):
        """Send a byte on the next connection."""
        c = self.conns[self.at % len(self.conns)]
        k = self.at // len(self.conns)
        self.at += 1
        if c not in self.gone and k < len(self.data[c]):
            try:
                c.send(self.data[c][k:k + 1])
                self.sent += 1
            except OSError:
                self.gone.add(c)

    def run(self):
        while not self.over.wait(1.0 / len(self.conns)):
            self.step()

    def end(self):
        self.over.set()
        if self.is_alive():
            self.join()


class Crowd:
    """Slow connections: silent before or after HELLO, or a byte a second before or after HELLO."""

    def __init__(self, a, idle=IDLE, trickling=TRICKLING, running=True):
        self.a, self.begun = a, time.time()
        self.silent = [Raw(a.spop_address) for _ in range(idle)]
        self.slow = [Raw(a.spop_address) for _ in range(trickling)]
        greeted = self.silent[::2] + self.slow[::2]
        for c in greeted:
            c.send(hello())
        for c in greeted:
            equal([parse(f).kind for f in c.frames(1)], [AGENT_HELLO], "the answer to HELLO")
        frame = notify(1, route_message("slow", chat("slow " * 200)))
        self.trickle = Trickle(self.slow,
                               {c: frame if i % 2 == 0 else hello()
                                for i, c in enumerate(self.slow)})
        if running:
            self.trickle.start()

    def all(self):
        return self.silent + self.slow

    def close(self):
        self.trickle.end()
        for c in self.all():
            c.close()


def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = 4096
    if soft < need:
        resource.setrlimit(resource.RLIMIT_NOFILE,
                           (min(need, hard) if hard != resource.RLIM_INFINITY else need, hard))


def one_by_one(a, good, n):
    """Ask <n> times, each time after the answer. Returns the reads of the agent."""
    start = a.writes.reads()
    for i in range(n):
        good[i % GOOD].send(notify(i + 1, route_message("g%d" % i, chat("good %d " % i * 20))))
        equal([parse(f).kind for f in good[i % GOOD].frames(1)], [ACK], "an answer")
    return a.writes.reads() - start


def all_at_once(a, good, crowd, i):
    """While the agent is stopped, each slow peer sends a byte and then each good one a NOTIFY.
    Returns the most reads before an answer."""
    start, row = a.writes.reads(), a.writes.n()
    with not_running(a):
        for _ in crowd.slow:
            crowd.trickle.step()
        for k, c in enumerate(good):
            c.send(notify(1000 + i, route_message("a%d-%d" % (k, i), chat("good %d " % i * 20))))
    for c in good:
        equal([parse(f).kind for f in c.frames(1)], [ACK], "an answer")
    rows = a.writes.since(row)
    equal(len(rows), GOOD, "writes")
    wait_for("each slow one to be read from", 10,
             lambda: a.writes.reads() - start >= TRICKLING + GOOD)
    return max(r[3] for r in rows) - start


@case
def a_silent_one_costs_no_read_and_a_byte_costs_one():
    """So between a request and its answer, whatever the others do, is one read of each at most."""
    many_descriptors()
    n, rounds = 200, 20
    with Watched(threads=1, spop="hello_timeout: 1 m, idle_timeout: 1 m") as a:
        good = open_peers(a, GOOD)
        crowd = Crowd(a, running=False)
        try:
            equal(one_by_one(a, good, n), n, "reads for %d requests beside silent ones" % n)
            start = a.writes.reads()
            most = max(all_at_once(a, good, crowd, i) for i in range(rounds))
            reads = a.writes.reads() - start
            # what comes after this is read after all of the above
            equal(one_by_one(a, good, n), n, "reads for %d requests after the bytes" % n)
            equal(crowd.trickle.sent, rounds * TRICKLING, "bytes of slow ones")
            equal(reads, rounds * (TRICKLING + GOOD), "reads for these bytes and %d requests"
                  % (rounds * GOOD))
            assert most <= TRICKLING + GOOD, "%d reads before an answer" % most
            print("      promise 18: beside %d silent ones %d reads for %d requests; with a byte "
                  "each of %d slow ones at once: at most %d reads before one of %d answers"
                  % (IDLE, n, n, TRICKLING, most, rounds * GOOD))
        finally:
            crowd.close()
            for c in good:
                c.close()


@case
def good_ones_lose_nothing():
    """Under load beside the crowd. Each read brings a request or a byte of a slow one; a request
    may come in two parts. The times are only told, because the machine may be busy."""
    many_descriptors()
    with Watched(threads=2, spop="hello_timeout: 1 m, idle_timeout: 1 m") as a:
        base, loaded, notifies, reads, bytes_sent = [], [], 0, 0, 0
        for _ in range(ROUNDS):
            base.append(int(load(a, ROUND_S)["p99_us"]))
            crowd = Crowd(a)
            try:
                start, sent = a.writes.reads(), crowd.trickle.sent
                got = load(a, ROUND_S)
                reads += a.writes.reads() - start
                bytes_sent += crowd.trickle.sent - sent
                wait_for("all slow ones, and no more, after the round", 20,
                         lambda: a.metrics()["kvroute_spop_connections"] == IDLE + TRICKLING)
                loaded.append(int(got["p99_us"]))
                notifies += int(got["notifies"])
            finally:
                crowd.close()
            wait_for("the crowd to leave", 20,
                     lambda: a.metrics()["kvroute_spop_connections"] == 0)
        print("bench slow_peers idle=%d byte_a_second=%d good=%d notifies=%d lost=0 reads=%d "
              "slow_bytes=%d rounds=%d base_p99_us=%d loaded_p99_us=%d"
              % (IDLE, TRICKLING, GOOD, notifies, reads, bytes_sent, ROUNDS, min(base),
                 min(loaded)))
        assert bytes_sent > 0, "no byte trickled"
        most = 2 * notifies + bytes_sent + ROUNDS * (TRICKLING + 4 * GOOD)
        assert reads <= most, "%d reads for %d requests and %d bytes of slow ones" % (
            reads, notifies, bytes_sent)


@case
def silent_and_slow_ones_are_ended():
    many_descriptors()
    timeout = 2
    with Agent(threads=2, spop="hello_timeout: %d s, idle_timeout: %d s" % (timeout, timeout)) as a:
        base = at_rest(a)[0]
        with a.client() as good:
            crowd = Crowd(a)
            opened, late = time.time(), Late()
            try:
                assert fds(a) >= base + IDLE + TRICKLING, "not all were accepted"
                slowest = 0
                while fds(a) > base + 1 and time.time() < opened + HANG_SECONDS:
                    begun = time.time()
                    assert good.notify("route",
                                       request("g", chat("good " * 50)))["txn.server"], "no server"
                    slowest = max(slowest, time.time() - begun)
                    time.sleep(0.02)
                returned = time.time()
                assert crowd.trickle.sent >= TRICKLING, "too few bytes were sent"
            finally:
                crowd.trickle.end()
                late.over = True
            m = a.metrics()
            equal(m['kvroute_spop_closed_total{reason="hello_timeout"}'], IDLE / 2 + TRICKLING / 2,
                  "ended without HELLO")
            equal(m['kvroute_spop_closed_total{reason="idle_timeout"}'], IDLE / 2 + TRICKLING / 2,
                  "ended behind HELLO")
            ends = [[parse(f) for f in c.rest()] for c in crowd.all()]
            polite = sum(bool(e) and e[-1].kind == AGENT_DISCONNECT
                         and e[-1].items()["status-code"] == 2 for e in ends)
            # one of those by the byte may have been written to after our end, and then sees a reset
            assert polite >= IDLE / 2, "%d got a DISCONNECT that says timeout" % polite
            crowd.close()
        took = returned - opened
        most = timeout + BEHIND_S + SLACK_S + 10 * late.most
        assert took <= most, "descriptors came back after %.1f s, more than %.1f s" % (took, most)
        print("      promise 18: %d connections, timeouts of %d s: all descriptors back %.1f s "
              "behind the last HELLO; %d told why; a good one's "
              "slowest answer meanwhile %.1f ms; %d lines in the log"
              % (IDLE + TRICKLING, timeout, took, polite, slowest * 1e3, a.log().count("\n")))


class Push:
    """Write <data> to each of <conns> and do not read: once, or repeatedly, until none accepts more
    for half a second and <enough>(metrics of the agent) is true. Closed connections are ignored.
    <sent>: bytes. <rss>: the agent's largest resident memory meanwhile."""

    def __init__(self, a, conns, data, once, enough):
        self.sent, self.rss, self.data, self.once = 0, 0, data, once
        self.at, last, end = dict.fromkeys(conns, 0), time.time(), time.time() + HANG_SECONDS
        for c in conns:
            c.sock.setblocking(False)
        while self.at and (time.time() < last + 0.5 or not enough(a.metrics())):
            assert time.time() < end, "the agent reads on and on: %d bytes" % self.sent
            before = self.sent
            for c in list(self.at):
                self.some(c)
            if self.sent > before:
                last = time.time()
            self.rss = max(self.rss, a.rss())
            time.sleep(0.01)

    def some(self, c):
        try:
            for _ in range(8):
                n = c.sock.send(self.data[self.at[c]:self.at[c] + 65536])
                self.sent += n
                self.at[c] += n
                if self.at[c] == len(self.data):
                    if self.once:
                        del self.at[c]
                        return
                    self.at[c] = 0
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            del self.at[c]


def open_peers(a, n, **kw):
    peers = [Raw(a.spop_address, **kw) for _ in range(n)]
    for c in peers:
        c.send(hello())
        equal([parse(f).kind for f in c.frames(1)], [AGENT_HELLO], "the answer to HELLO")
    return peers


def gone(a):
    return a.metrics()["kvroute_spop_connections"] == 0


@case
def who_does_not_read_is_not_read_from():
    timeout, n, rss_each, kernel_each = 3, 40, 64 << 10, 512 << 10
    with Agent(threads=2, spop="idle_timeout: %d s" % timeout, agent_conf="log_level: error") as a:
        load(a, 0.5)
        base, before = at_rest(a)
        peers = open_peers(a, n, receive_buffer=4096)
        m0 = a.metrics()
        p = Push(a, peers, b"".join(notify(2 * i + 1, b"") for i in range(3000)), once=False,
                 enough=lambda m: m[PAUSED] - m0[PAUSED] >= n)
        stopped, m, grown = time.time(), a.metrics(), p.rss - before
        assert m[PAUSED] - m0[PAUSED] >= n, "not all were stopped reading from"
        answered = m["kvroute_spop_sent_bytes_total"] - m0["kvroute_spop_sent_bytes_total"]
        # a closed half must not delay the end of any of them, nor keep the agent awake
        for c in peers[::2]:
            try:
                c.sock.shutdown(socket.SHUT_WR)
            except OSError:         # ended meanwhile
                pass
        cpu = a.cpu_s()
        time.sleep(0.5)
        cpu = a.cpu_s() - cpu
        got = load(a, 0.5)
        wait_for("those who do not read to be ended", timeout + BEHIND_S + SLACK_S, lambda: gone(a))
        took = time.time() - stopped
        assert cpu < 0.1, "%.2f s of CPU in half a second in which nothing was to be done" % cpu
        for c in peers:
            c.close()
        at_rest(a, base)
        equal(a.metrics()['kvroute_spop_closed_total{reason="idle_timeout"}'], n, "ended as idle")
        print("      promise 18: %d peers that read no ACK: %d KiB of NOTIFYs written, %d KiB of "
              "ACKs taken by the kernel (%d KiB each), the "
              "agent's own memory %+d KiB; ended %.1f s later (timeout %d s); good ones meanwhile: "
              "%s NOTIFYs, %s lost"
              % (n, p.sent >> 10, int(answered) >> 10, int(answered / n) >> 10, grown >> 10, took,
                 timeout, got["notifies"], got["lost"]))
        assert SANITIZED or grown <= n * rss_each, "%d KiB more memory" % (grown >> 10)
        assert answered <= n * kernel_each, "%d KiB of ACKs are kept for each who does not read" % (
            int(answered / n) >> 10)


@case
def half_frames_stay_within_the_budget():
    timeout, n, budget = 2, 100, 16 << 20
    with Agent(threads=2, spop="idle_timeout: %d s, max_bytes: 16 MiB" % timeout,
               agent_conf="log_level: error") as a:
        load(a, 0.5)
        base, before = at_rest(a)
        peers = [Raw(a.spop_address) for _ in range(n)]
        for c in peers:
            c.send(hello((1 << 20) - 4))
            c.frames(1)
        p = Push(a, peers, notify(1, route_message("half", chat("half " * 200000)))[:600000],
                 once=True,
                 enough=lambda m: m['kvroute_spop_buffer_refused_total{kind="large"}'] > 0)
        stopped, m, grown = time.time(), a.metrics(), p.rss - before
        assert m["kvroute_spop_buffer_bytes"] <= budget, "above the budget"
        assert m['kvroute_spop_buffer_refused_total{kind="large"}'] > 0, "the budget was never met"
        got = load(a, 0.5)
        wait_for("those with half a frame to be ended", timeout + BEHIND_S + SLACK_S,
                 lambda: gone(a))
        took = time.time() - stopped
        for c in peers:
            c.close()
        at_rest(a, base)
        equal(a.metrics()['kvroute_spop_closed_total{reason="idle_timeout"}'], n, "ended as idle")
        wait_for("the buffers to come back", 5,
                 lambda: a.metrics()["kvroute_spop_buffer_bytes"] <= 2 * a.threads * 20500)
        print("      promise 18: %d peers with half a frame of 1 MiB, a budget of 16 MiB: memory "
              "%+d KiB; ended %.1f s later (timeout %d s); good "
              "ones meanwhile: %s NOTIFYs, %s lost" % (n, grown >> 10, took, timeout,
                                                       got["notifies"], got["lost"]))
        assert SANITIZED or grown <= budget + (4 << 20), "%d KiB more memory" % (grown >> 10)


@case
def who_has_closed_its_half_is_ended():
    frame = notify(1, route_message("half", chat("half closed " * 100)))
    states = [("before HELLO", b"", []), ("within HELLO", hello()[:9], []),
              ("behind HELLO", hello(), [AGENT_HELLO]),
              ("within a frame", hello() + frame[:70], [AGENT_HELLO]),
              ("within fragments", hello() + fragments(1, b"x" * 900, 100)[0], [AGENT_HELLO]),
              ("behind NOTIFYs", hello() + frame + notify(3, b"") + notify(5, b"\xff"),
               [AGENT_HELLO, ACK, ACK, ACK])]
    with Agent(threads=2, spop="hello_timeout: 1 m, idle_timeout: 1 m") as a:
        base, slowest = at_rest(a)[0], 0
        for what, data, want in states * 5:
            with Raw(a.spop_address) as c:
                if data:
                    c.send(data)
                begun = time.time()
                c.sock.shutdown(socket.SHUT_WR)
                equal([parse(f).kind for f in c.rest()], want, what)
                wait_for(what + ": its end", 5,
                         lambda: a.metrics()["kvroute_spop_connections"] == 0)
                slowest = max(slowest, time.time() - begun)
        at_rest(a, base)
        equal(a.metrics()['kvroute_spop_closed_total{reason="eof"}'], 5 * len(states),
              "ended as the peer had")
        print("      promise 18: %d half-closed connections (%d states): each ended at once, the "
              "slowest after %.0f ms, its ACKs sent"
              % (5 * len(states), len(states), slowest * 1e3))


PAUSED = "kvroute_spop_paused_total"
OVERLOAD = 'kvroute_decisions_total{why="overload"}'
HURRIED = "kvroute_spop_hurried_total"
FREE, FEW = 4, 16       # agent/loop/overload_in.h: never hurried, never refused


def states(a):
    """Return the state of each thread of the agent."""
    out = set()
    for task in os.listdir("/proc/%d/task" % a.pid):
        with open("/proc/%d/task/%s/stat" % (a.pid, task)) as f:
            out.add(f.read().rsplit(")", 1)[1].split()[0])
    return out


@contextlib.contextmanager
def not_running(a):
    """Stop all threads of the agent within the block."""
    os.kill(a.pid, signal.SIGSTOP)
    try:
        wait_for("the agent to stop", 10, lambda: states(a) == {"T"})
        yield
    finally:
        os.kill(a.pid, signal.SIGCONT)


def waits(a):
    """Wait until every thread of the agent sleeps, and then longer than REST_US of worker.c, so
    that the agent counts as idle."""
    wait_for("the agent to have nothing to do", 10, lambda: "R" not in states(a))
    time.sleep(0.001)


def stopped(a, conns, each, seconds):
    """Send <each> NOTIFYs on each of <conns> while the agent is stopped, until <seconds> after the
    last. Returns the number of hurried answers, that of "overload" answers, and the seconds from
    the first byte to the last answer. Then one more NOTIFY on each connection must be decided.
    These come in groups of FEW, each to an idle agent, so none of them can have waited too long."""
    before = a.metrics()
    peers = open_peers(a, conns)
    with not_running(a):
        begun = time.monotonic()
        for k, c in enumerate(peers):
            c.send(b"".join(notify(i, route_message("%d-%d" % (k, i), chat("%d " % i * 20)))
                            for i in range(1, each + 1)))
        time.sleep(seconds)
    for c in peers:
        equal([(f.kind, f.stream) for f in map(parse, c.frames(each))],
              [(ACK, i) for i in range(1, each + 1)], "answers to those that waited")
    took, m = time.monotonic() - begun, a.metrics()
    for first in range(0, conns, FEW):
        waits(a)
        for c in peers[first:first + FEW]:
            c.send(notify(each + 1, route_message("last", chat("one more"))))
        for c in peers[first:first + FEW]:
            equal([f.kind for f in map(parse, c.frames(1))], [ACK], "the answer to one more")
    equal(a.metrics()[OVERLOAD], m[OVERLOAD], "requests refused after those that waited")
    for c in peers:
        c.close()
    return int(m[HURRIED] - before[HURRIED]), int(m[OVERLOAD] - before[OVERLOAD]), took


@case
def late_requests_get_overload():
    """The agent does not run while requests arrive: only the kernel knows how long they waited. All
    but the first 16 are older than the bound and get "overload". Later requests are decided, and so
    are small groups.

    If the kernel pauses a thread just when it polls its sockets, the thread takes that for an idle
    time, and the next 16 are not rejected either. So up to half may be decided.
    tests/unit/loop/test_overload.c counts exactly."""
    with Agent(threads=1, processing=None) as a:
        for conns, each in ((8, 20), (64, 20), (1, 100)):
            n = conns * each
            hurried, told, _ = stopped(a, conns, each, 0.15)
            print("      %d connections, %d requests each, that waited for 150 ms: %d refused, %d "
                  "hurried"
                  % (conns, each, told, hurried))
            assert n - max(FEW, n // 2) <= told <= n - FEW, "%d of %d were refused" % (told, n)
            assert FEW - FREE <= hurried <= n - told - FREE, "%d of %d were hurried" % (hurried, n)
        equal(stopped(a, FREE, 1, 0.15)[:2], (0, 0), "a few: hurried and refused")
        assert 'msg="requests waited too long in the agent"' in a.log(), a.log()


def younger(a, conns, each, seconds, than):
    """Repeat stopped() until the last answer came within <than> seconds, because a slower run on a
    busy machine proves nothing."""
    until = time.monotonic() + HANG_SECONDS
    while True:
        hurried, told, took = stopped(a, conns, each, seconds)
        if took < than:
            return hurried, told
        assert time.monotonic() < until, "no try took less than %g s" % than


@case
def requests_in_time_are_decided():
    """The same with a longer timeout in HAProxy: below both limits, an eighth and two fifths of
    "timeout processing", and between them."""
    with Agent(threads=1, spop="timeout_processing: 30 s") as a:
        equal(younger(a, 8, 20, 0.15, 30 / 8), (0, 0), "young ones hurried and refused")
    with Agent(threads=1, spop="timeout_processing: 5 s") as a:
        hurried, told = younger(a, 8, 20, 0.8, 5 * 2 / 5)
        equal(told, 0, "middle-aged ones refused")
        assert 160 / 2 <= hurried <= 160 - FREE, "%d of 160 middle-aged ones were hurried" % hurried


@case
def a_drain_reads_pending_data():
    """SIGTERM comes while connections have more unread data than one read takes: each NOTIFY gets
    its ACK, and the agent ends."""
    for _ in range(3):
        with Agent(threads=1, processing=None) as a:
            peers = open_peers(a, 4)
            with not_running(a):
                for k, c in enumerate(peers):
                    c.send(b"".join(notify(i,
                                           route_message("%d-%d" % (k, i), chat("%d " % i * 400)))
                                    for i in range(1, 41)))
                os.kill(a.pid, signal.SIGTERM)
            for c in peers:
                equal([(f.kind, f.stream) for f in map(parse, c.frames(41)[:40])],
                      [(ACK, i) for i in range(1, 41)], "answers at a drain")
            equal(a.processes["agent"].wait(60), 0, "exit status")
            for c in peers:
                c.close()


@case
def who_asks_much_does_not_delay_others():
    """One connection sends 60 long requests and seven send one each, all at once: the seven are
    answered before the one is read from a second time."""
    with Watched(threads=1) as a:
        peers = open_peers(a, 8)
        start = a.writes.n()
        burst = b"".join(notify(i, route_message("m%d" % i, chat("%d " % i * 2000)))
                         for i in range(1, 61))
        sender = threading.Thread(target=peers[0].send, args=(burst,))
        with not_running(a):
            sender.start()
            for k, c in enumerate(peers[1:]):
                c.send(notify(1, route_message("l%d" % k, chat("little"))))
            time.sleep(0.1)
        for c in peers[1:]:
            c.frames(1)
        peers[0].frames(60)
        sender.join()
        order = [row[0] for row in a.writes.since(start)]
        much = max(order, key=order.count)
        last = max(i for i, fd in enumerate(order) if fd != much)
        before = order[:last].count(much)
        assert before <= 1, ("%d of %d answers to the one that asks much came before those to "
                             "others") % (before, order.count(much))
        print("      one connection that asks 60 times as much: %d of its %d writes before the "
              "last of 7 others" % (before, order.count(much)))


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
