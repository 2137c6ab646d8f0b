#!/usr/bin/env python3
"""p03_garbage.py [-k WORD] - promise 3: garbage kills one connection only.

8 good connections send NOTIFYs at a fixed rate (spop_load). Others send the inputs that fuzzers
found (tests/fuzz/corpus/spop_conn and serve) and 100,000 random or randomly changed frames, several
on a connection until the agent closes it. Every NOTIFY of the good ones is ACKed, the agent
continues, and afterwards it has as many descriptors and as much allocated memory as before.

Allocations are counted by tests/tools/live_shim.c: every budget is full before the first round, and
another round may not increase the allocated memory. Resident memory is printed and not judged,
because it depends on the number of glibc's arenas and their fragmentation. FRAMES=n sets the number
of frames, SEED=n their seed.
"""
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import p05_split  # noqa: E402
from agent import *  # noqa: E402,F403
from p02_acks import fixed, noise  # noqa: E402
from raw import *  # noqa: E402,F403
from spop_client import AGENT_DISCONNECT, varint  # noqa: E402

FRAMES = int(os.environ.get("FRAMES", "100000"))
SEED = int(os.environ.get("SEED", "3"))
ROUNDS = 3
WARM = 15000
GOOD_RATE, GOOD_NOTIFIES = 1000, 3000
# Limit for all rounds after the first. A leak of a byte for each frame would be more, and so would
# the memory of a name in one of 8 frames.
HELD_GROWTH_MAX = 64 << 10
CORPORA = ("spop_conn", "serve")
# So small that fill() reaches all of them. Nothing expires meanwhile, even on a slow machine. Later
# ages are short, so that all that a round opens has expired at its end.
SMALL = """
index: {max_bytes: 1 MiB}
heads: {max_bytes: 64 KiB, max_tenant_bytes: 4 KiB}
slices: {max_bytes: 1 MiB, max_age: %s}
ledger: {max_entries: 1000, max_age: %s}
max_pools: 16
policy: {capacity_guess: 0}
log_level: error
"""
FILLING, AFTER = SMALL % ("1 h", "1 h"), SMALL % ("1 s", "1 s")
CASES = []


def case(f):
    CASES.append(f)
    return f


class Good:
    """Run spop_load on 8 connections: GOOD_NOTIFIES at their rate."""

    def __init__(self, a):
        # the tool's own timeout, at its end, does not matter
        env = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")
        self.p = subprocess.Popen([os.path.join(BUILD, "tests/tools/spop_load"), a.spop_address,
                                   "-c", "8", "-r", str(GOOD_RATE), "-b", "2048",
                                   "-n", str(GOOD_NOTIFIES)], env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)

    def runs(self):
        return self.p.poll() is None

    def end(self):
        """Return {name: value} of its last line."""
        out, err = self.p.communicate(timeout=HANG_SECONDS)
        assert self.p.returncode == 0, "a good connection has suffered: %s %s" % (
            out.decode(), err.decode())
        got = dict(word.split("=") for word in out.decode().split())
        equal((int(got["notifies"]), int(got["lost"])), (GOOD_NOTIFIES, 0),
              "NOTIFYs of good connections, and those without an ACK")
        return got


class Frames:
    """Random frames: good ones with few changes, frames of correct length with random content,
    noise."""

    def __init__(self, seed):
        self.rnd, self.payloads = random.Random(seed), [p for p in fixed() if len(p) < 8000]
        self.good = p05_split.session()[1:-1]

    def changed(self, frame):
        b = bytearray(frame)
        for _ in range(self.rnd.randint(1, 3)):
            at = self.rnd.randrange(4,
                                    len(b)) if self.rnd.random() < 0.97 else self.rnd.randrange(4)
            b[at] = self.rnd.choice((0, 1, 2, 3, 0x7f, 0x80, 0xef, 0xf0, 0xff,
                                     self.rnd.getrandbits(8)))
        if self.rnd.random() < 0.1:
            del b[self.rnd.randrange(4, len(b)):]
            b[:4] = struct.pack(">I", len(b) - 4)
        return bytes(b)

    def ids(self):
        r = self.rnd
        return b"".join(varint(r.choice((0, 1, 5, 11, 13, r.getrandbits(r.choice((8, 32, 64))))))
                        for _ in range(2))

    def made(self):
        """Return a frame with correct length and header, and random content."""
        r = self.rnd
        body = (bytes([r.choice((0, 3, 3, 3, 1, 2, 101, 103, 77))])
                + struct.pack(">I", r.choice((1, 1, 1, 0, 2, 3, r.getrandbits(32))))
                + self.ids() + r.choice((noise(r, r.randint(0, 60)), r.choice(self.payloads))))
        return struct.pack(">I", len(body)) + body

    def one(self):
        how = self.rnd.random()
        if how < 0.35:
            return self.changed(self.rnd.choice(self.good))
        if how < 0.65:
            return self.changed(notify(self.rnd.randint(1, 300), self.rnd.choice(self.payloads)))
        if how < 0.97:
            return self.made()
        return noise(self.rnd, self.rnd.randint(1, 100))

    def hello(self):
        return hello() if self.rnd.random() < 0.95 else self.changed(hello())


class Bad:
    """The number of frames on bad connections, and how the connections ended."""

    def __init__(self, a, seed=SEED):
        self.a, self.frames = a, Frames(seed)
        self.connections = self.sent = self.disconnects = self.resets = 0

    def connection(self, data):
        """Send <data>, then close our half: the agent closes the other."""
        rnd = self.frames.rnd
        self.connections += 1
        with Raw(self.a.spop_address, timeout=HANG_SECONDS) as c:
            try:
                if rnd.random() < 0.1:
                    at = rnd.randint(0, len(data))
                    c.send(data[:at])
                    data = data[at:]
                c.send(data)
                if rnd.random() < 0.05:         # closed without DISCONNECT
                    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.resets += 1
                    return
                c.sock.shutdown(socket.SHUT_WR)
                got = c.rest()
            except (BrokenPipeError, ConnectionResetError, OSError) as e:
                if isinstance(e, TimeoutError):
                    raise AssertionError("a connection was not ended: %r" % data[:200]) from None
                return
            self.disconnects += bool(got) and parse(got[-1]).kind == AGENT_DISCONNECT

    def corpus(self):
        n = 0
        for name in CORPORA:
            with tarfile.open(os.path.join(TOP, "tests/fuzz/corpus", name + ".tar.gz")) as archive:
                inputs = [archive.extractfile(m).read() for m in archive]
            n += len(inputs)
            for data in inputs:
                skip = 4 if name == "spop_conn" else 0      # bytes that the target reads as limits
                self.connection(data[skip:])
                self.connection(hello() + data[skip:])
                self.connection(hello() + notify(1, data[:60000])
                                + notify(3, route_message("corpus", data[:60000])))
        return n

    def chance(self, taken, good):
        """Send frames until the agent has read <taken> of them and <good> is done. Returns the
        number that it has read."""
        before, looked = self.a.metrics()["kvroute_spop_frames_total"], 0
        while looked < taken or good.runs():
            for _ in range(100):
                n = self.frames.rnd.choice((1, 2, 4, 8, 16))
                self.sent += n
                self.connection(self.frames.hello() + b"".join(self.frames.one() for _ in range(n)))
            looked = self.a.metrics()["kvroute_spop_frames_total"] - before - GOOD_NOTIFIES - 2 * 8
        return looked


def fill_all(a):
    """Fill every budget once, then wait until nothing is open."""
    with a.client(65532) as c:
        for turn in range(20):
            fill(c, "f%d" % turn, range(300))
            if not not_full(a):
                break
    assert not not_full(a), "budgets that were not met: %r" % not_full(a)
    a.agent_conf = AFTER
    a.write("kvroute.yaml", a.agent_yaml())
    a.processes["agent"].send_signal(signal.SIGHUP)
    held(a)


def held(a):
    """Return the bytes that the agent has allocated, once nothing is open."""
    idle = lambda m: m["kvroute_ledger_open_requests"] == 0 and m[
        "kvroute_slices_waiting_bytes"] == 0
    wait_for("requests and slices to be over", 20, lambda: idle(a.metrics()))
    return a.live.get("bytes") if a.live else 0


def one_round(a, bad, frames):
    """Return the frames accepted from bad connections, and the output of the good ones."""
    good = Good(a)
    bad.corpus()
    taken = bad.chance(frames, good)
    assert a.processes["agent"].poll() is None, "the agent has ended"
    return taken, good.end()


@case
def good_connections_do_not_notice():
    with Agent(threads=2, agent_conf=FILLING, live=True) as a:
        bad, pid = Bad(a), a.pid
        fill_all(a)
        one_round(a, bad, WARM)
        base_fds, base_rss = at_rest(a)
        kept, m0, begun = [held(a)], a.metrics(), time.time()
        bad.connections = bad.sent = bad.disconnects = bad.resets = 0
        taken, worst = 0, 0
        for _ in range(ROUNDS):
            n, said = one_round(a, bad, FRAMES // ROUNDS)
            taken, worst = taken + n, max(worst, int(said["p99_us"]))
            end_fds, end_rss = at_rest(a, base_fds)
            kept.append(held(a))
        took, m = time.time() - begun, a.metrics()
        equal(a.pid, pid, "process")
        assert taken >= FRAMES - ROUNDS, "%d bad frames taken: too few" % taken
        equal(m["kvroute_spop_acks_total"], m["kvroute_spop_notifies_total"],
              "ACKs of all connections")
        ended = m['kvroute_spop_closed_total{reason="protocol"}'] - m0[
            'kvroute_spop_closed_total{reason="protocol"}']
        print("      promise 3: %d bad frames taken (seed %d; %d sent on %d connections; %d ended "
              "for what they sent, %d got a DISCONNECT, "
              "%d reset) in %.1f s" % (taken, SEED, bad.sent, bad.connections, ended,
                                       bad.disconnects, bad.resets, took))
        print("      promise 3: 8 good connections meanwhile: %d NOTIFYs, 0 lost, p99 %d us; 0 "
              "crashes; descriptors %d, then %d"
              % (ROUNDS * GOOD_NOTIFIES, worst, base_fds, end_fds))
        if a.live:
            print("      promise 3: held %s KiB behind each round (most %d); of glibc's arenas of "
                  "%d KiB %d free; resident %d KiB, then %d"
                  % (", ".join("%.1f" % (k / 1024) for k in kept), a.live.get("most") >> 10,
                     *(x >> 10 for x in a.live.heap(a)),
                     base_rss >> 10, end_rss >> 10))
            assert max(kept) <= kept[0] + HELD_GROWTH_MAX, "%d bytes more are held" % (
                max(kept) - kept[0])
        p = a.processes["agent"]
        p.terminate()
        equal(p.wait(HANG_SECONDS), 0, "exit status (%s)" % a.log()[-500:])


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
