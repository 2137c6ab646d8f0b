#!/usr/bin/env python3
"""p06_writes.py [-k WORD] - promise 6: one write per frame.

tests/tools/write_shim.c records each write of the agent to a socket. HELLO, an ACK and a DISCONNECT
of any reason take one write each. NOTIFYs that arrive together may be answered together, so there
may be fewer writes than frames, but never more. Each write ends at the end of a frame.
"""
import mmap
import os
import random
import signal
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from agent import *  # noqa: E402,F403
from raw import *  # noqa: E402,F403
from spop_client import ACK, AGENT_DISCONNECT, AGENT_HELLO  # noqa: E402

SHIM_FILE_BYTES = 16 + 65536 * 32
CASES = []


def case(f):
    CASES.append(f)
    return f


class Writes:
    """The rows of the shim's file."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "writes")
        with open(self.path, "wb") as f:
            f.truncate(SHIM_FILE_BYTES)
        with open(self.path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), SHIM_FILE_BYTES)

    def n(self):
        return struct.unpack_from("=Q", self.map, 0)[0]

    def reads(self):
        return struct.unpack_from("=Q", self.map, 8)[0]

    def since(self, start):
        """[(descriptor, asked, done, reads before it)]"""
        assert self.n() <= 65536, "more writes than the shim keeps"
        return wait_for("writes to return", 10, lambda: self.returned(start))[0]

    def returned(self, start):
        """Return None if the peer has the bytes but write() has not returned yet."""
        rows = [struct.unpack_from("=qqqq", self.map, 16 + 32 * i) for i in range(start, self.n())]
        return None if any(r[2] == 0 for r in rows) else (rows, )


class Watched(Agent):
    def __init__(self, **kw):
        super().__init__(**kw)
        self.writes = Writes(self.folder)
        asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        self.env.update(LD_PRELOAD=os.path.join(BUILD, "tests/tools/write_shim.so"),
                        WRITES_FILE=self.writes.path, ASAN_OPTIONS=asan)


def ends_of(sizes):
    out, at = set(), 0
    for n in sizes:
        at += n
        out.add(at)
    return out


def check(rows, frames, what, exact=True):
    """Check that <rows> wrote <frames>, each whole: one write each, or fewer unless <exact>."""
    asked = [r[1] for r in rows]
    equal([r[2] for r in rows], asked, what + ": bytes the socket took")
    equal(sum(asked), sum(len(f) for f in frames), what + ": bytes")
    if exact:
        equal(asked, [len(f) for f in frames], what + ": the sizes of writes")
    assert len(rows) <= len(frames), "%s: %d writes for %d frames" % (what, len(rows), len(frames))
    cut = ends_of(asked) - ends_of(len(f) for f in frames)
    assert not cut, "%s: writes that end within a frame, at %s" % (what, sorted(cut))
    return len(rows)


def kinds(frames):
    return [parse(f).kind for f in frames]


BODY = chat("one write for each frame " * 40)
LONG = chat("a body longer than a first buffer " * 900)
ONE_BY_ONE = [
    ("a route message", notify(3, route_message("w1", BODY))),
    ("an unknown message", notify(5, message("nobody", {"a": 1}))),
    ("nothing", notify(7, b"")),
    ("no sense", notify(9, b"\xff\xff\xff")),
    ("two messages",
     notify(11,
            route_message("w2", BODY) + message("done", {"uid": "w1", "srv": "s1", "st": 200}))),
    ("a long body", notify(13, route_message("w3", LONG))),
    ("fragments", b"".join(fragments(15, route_message("w4", LONG), 3000))),
]
REFUSED = [
    ("a second HELLO", hello(), 4),
    ("a frame longer than agreed", b"\x7f\xff\xff\xff", 3),
    ("a fragment of nothing", Frame(UNSET, FIN, 99, 1, b"").encode(), 12),
    ("ids that cannot be read", struct.pack(">I", 7) + bytes([NOTIFY]) + b"\0\0\0\1\xff\xff", 4),
]


class Session:
    """A connection, and the writes of the agent for it."""

    def __init__(self, a, address):
        self.a, self.at, self.c = a, a.writes.n(), Raw(address)
        self.frames = self.written = 0
        self.fd = None      # of the agent's end

    def ask(self, what, data, want, exact=True):
        """Send <data> and expect frames of the kinds <want>, each in one write."""
        self.c.send(data)
        got = self.c.frames(len(want))
        equal(kinds(got), want, what)
        rows = self.a.writes.since(self.at)
        self.at += len(rows)
        self.fd = rows[0][0] if self.fd is None else self.fd
        # at its end the agent writes to its opener, too, which removes socket files
        rows = [r for r in rows if r[0] == self.fd]
        self.frames, self.written = self.frames + len(got), self.written + check(
            rows, got, what, exact)
        return got


def each_alone(a, address):
    frames = written = 0
    s = Session(a, address)
    s.ask("HELLO", hello(), [AGENT_HELLO])
    for what, data in ONE_BY_ONE:
        s.ask(what, data, [ACK])
    s.ask("DISCONNECT", goodbye(), [AGENT_DISCONNECT])
    assert not s.c.rest(), "more behind the end"
    s.c.close()
    frames, written = s.frames, s.written
    h = Session(a, address)
    h.ask("a health check", hello(healthcheck=True), [AGENT_HELLO])
    assert not h.c.rest(), "more behind a health check"
    h.c.close()
    frames, written = frames + 1, written + h.written
    for what, data, status in REFUSED:
        r = Session(a, address)
        r.ask("HELLO", hello(), [AGENT_HELLO])
        got = r.ask(what, data, [AGENT_DISCONNECT])
        equal(parse(got[0]).items()["status-code"], status, what)
        assert not r.c.rest(), "more behind the end"
        r.c.close()
        frames, written = frames + r.frames, written + r.written
    return frames, written


def watched(where, **kw):
    a = Watched(threads=1, **kw)
    if where == "unix":
        a.spop_address = "unix@" + os.path.join(a.folder, "spop.sock")
    return a


@case
def one_write_for_each_frame():
    frames = written = 0
    for where in ("tcp", "unix"):
        with watched(where) as a:
            f, w = each_alone(a, a.spop_address)
            frames, written = frames + f, written + w
            drained = Session(a, a.spop_address)
            drained.ask("HELLO", hello(), [AGENT_HELLO])
            a.processes["agent"].send_signal(signal.SIGTERM)
            drained.ask("drained", b"", [AGENT_DISCONNECT])
            ends = drained.c.rest()
            equal(a.processes["agent"].wait(10), 0, "exit status")
        with watched(where, spop="idle_timeout: 1 s") as a:
            idle = Session(a, a.spop_address)
            idle.ask("HELLO", hello(), [AGENT_HELLO])
            idle.ask("too long idle", b"", [AGENT_DISCONNECT])
            ends += idle.c.rest()
        assert not ends, "more behind the end"
        for s in (idle, drained):
            s.c.close()
            frames, written = frames + s.frames, written + s.written
    equal(written, frames, "writes")
    print("      promise 6: %d frames asked for one by one (HELLO, ACK, DISCONNECT; TCP and unix): "
          "%d writes" % (frames, written))


def fits(group, frames):
    """Tell if the writes <group> are <frames> and end where these end."""
    return sum(map(len, frames)) == sum(r[2] for r in group) and \
        not ends_of(r[2] for r in group) - ends_of(map(len, frames))


def connections_of(groups, connections):
    """Find the frames that each descriptor has written: one connection for each. Return None if
    there is no way. Several may fit one descriptor, because short answers have equal lengths."""
    if not groups:
        return {}
    fd = next(iter(groups))
    others = {k: v for k, v in groups.items() if k != fd}
    for i, frames in enumerate(connections):
        if fits(groups[fd], frames):
            rest = connections_of(others, connections[:i] + connections[i + 1:])
            if rest is not None:
                return {fd: frames, **rest}
    return None


@case
def answers_together_end_where_frames_end():
    """Send NOTIFYs in bursts of 1 to 200 on 8 connections at a time to two threads."""
    rnd, frames, writes, largest = random.Random(6), 0, 0, 0
    bodies = [chat("%d words " % i * (5 + 40 * i)) for i in range(8)]
    with Watched(threads=2) as a:
        for _ in range(6):
            at, conns, sent = a.writes.n(), [Raw(a.spop_address) for _ in range(8)], {}
            for i, c in enumerate(conns):
                c.send(hello())
                sent[c] = 1
            for burst in (1, 200, rnd.randint(2, 20), rnd.randint(20, 100)):
                for i, c in enumerate(conns):
                    c.send(b"".join(notify(10 * k + 3,
                                           route_message("b%d-%d" % (i, k), rnd.choice(bodies)),
                                           frame=burst)
                                    for k in range(burst)))
                    sent[c] += burst
            for c in conns:
                c.send(goodbye())
            by_bytes = {}
            for c in conns:
                got = c.rest()
                equal(len(got), sent[c] + 1, "frames of a connection")
                by_bytes[c] = got
                c.close()
            rows = a.writes.since(at)
            frames, writes = frames + sum(map(len, by_bytes.values())), writes + len(rows)
            largest = max(largest, max(r[1] for r in rows))
            groups = {}
            for r in rows:
                groups.setdefault(r[0], []).append(r)
            equal(len(groups), len(conns), "descriptors written to")
            found = connections_of(groups, list(by_bytes.values()))
            assert found, "writes that end within a frame, or are no frames: %s" % {
                fd: group[:5] for fd, group in groups.items()}
            for fd, got in found.items():
                check(groups[fd], got, "descriptor %d" % fd, exact=False)
        m = a.metrics()
        equal(m["kvroute_spop_acks_total"], m["kvroute_spop_notifies_total"], "ACKs")
    assert writes < frames, "no two answers left together: nothing was batched"
    print("      promise 6: %d frames in bursts: %d writes (%.1f frames each, the largest %d "
          "bytes), 0 frames over two writes"
          % (frames, writes, frames / writes, largest))


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
