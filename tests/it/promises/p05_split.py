#!/usr/bin/env python3
"""p05_split.py [-k WORD] - promise 5: split anywhere.

One session (HELLO, NOTIFYs whole and in interleaved fragments, an aborted one, DISCONNECT) is sent
repeatedly, each time in other pieces. The agent's replies must be the same bytes. The unit tests
and fuzz targets do this for the codec; this is the process with a real socket. Over a unix socket
the kernel reports when the agent has read a piece (SIOCOUTQ), so each piece is a separate read;
over TCP pieces may be joined on the way.

Every session meets the agent in the same state: the prompts are known after the first one, and each
request is reported as done. Only txn.us, the time of the answer, is removed before replies are
compared.
"""
import array
import fcntl
import os
import random
import struct
import sys
import termios
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from agent import *  # noqa: E402,F403
from raw import *  # noqa: E402,F403
from spop_client import ABORT, Reader  # noqa: E402

CASES = []
# All loads differ, because servers of equal load would take turns.
UNEVEN = "lb/1;s1=1,3,0,1;s2=1,0,0,1;s3=1,1,0,1;s4=1,2,0,1"
STEADY = "policy: {rule: cache_aware, penalty_failure: 0}"


def case(f):
    CASES.append(f)
    return f


def route(uid, text, **more):
    return route_message(uid, chat(text), load=UNEVEN, **more)


def done(uid):
    return message("done", {"uid": uid, "be": "llm", "srv": "s2", "st": 200, "ts": "--", "tr": 5})


def interleaved(*streams):
    """Interleave fragments of several NOTIFYs, one of each in turn."""
    out = []
    for i in range(max(map(len, streams))):
        out += [s[i] for s in streams if i < len(s)]
    return out


def session():
    """Return the frames of HAProxy's side, of every kind."""
    given_up = fragments(31, route("p31", "given up " * 20), 120)[:-1]
    return [
        hello(),
        notify(3, route("p3", "whole " * 40)),
        notify(5, message("nobody", {"a": 1, "b": "c", "d": None, "e": True})),
        notify(7, b""),
        *interleaved(fragments(11, route("p11", "first in pieces " * 20), 150),
                     fragments(13, route("p13", "second in pieces " * 20), 90),
                     given_up),
        Frame(UNSET, FIN | ABORT, 31, 1, b"").encode(),
        notify(15, b"\x05route\x02\x03uid"),
        Frame(77, FIN, 1, 1, b"of no known type").encode(),
        notify(300, done("p3") + done("p11") + done("p13"), frame=1000000),
        goodbye(),
    ]


def long_session():
    """Frames above a first input buffer (16 KiB), and around it."""
    return [
        hello(),
        notify(3, route("l3", "long one " * 2200)),
        notify(5, route("l5", "short")),
        *interleaved(fragments(7, route("l7", "long two " * 4000), 17000),
                     fragments(9, route("l9", "long three " * 900), 4000)),
        notify(11, done("l3") + done("l5") + done("l7") + done("l9")),
        goodbye(),
    ]


def edge_session():
    """NOTIFYs of every size about that of a first input buffer, 16388 bytes with the length word,
    and the longest agreed on."""
    frame = lambda i, n: notify(i, message("nobody", {"a": "x" * (n - 25)}))
    sizes = [*range(16380, 16400), 65532 + 4]
    out = [hello(), *(frame(2 * i + 1, n) for i, n in enumerate(sizes)), goodbye()]
    equal([len(f) for f in out[1:-1]], sizes, "sizes of frames")
    return out


def frames_of(data):
    out = []
    while data:
        n = 4 + struct.unpack_from(">I", data)[0]
        out, data = out + [data[:n]], data[n:]
    return out


def without_time(frame):
    """Return <frame> without the value of txn.us; all other bytes are unchanged."""
    f = parse(frame)
    if f.kind != 103:
        return frame
    r, out = Reader(f.payload), b""
    while len(r):
        at = r.at
        action, n_args, _ = r.byte(), r.byte(), r.byte()
        name = r.string()
        middle = r.at
        if n_args == 3:
            r.value()
        out += r.data[at:middle if (action, name) == (1, b"us") else r.at]
    return Frame(f.kind, f.flags, f.stream, f.frame, out).encode()


def read_by_agent(sock):
    """Wait until the other end of a unix socket has read all we wrote."""
    left, end = array.array("i", [1]), time.time() + HANG_SECONDS
    while True:
        fcntl.ioctl(sock, termios.TIOCOUTQ, left)
        if left[0] == 0:
            return
        assert time.time() < end, "the agent does not read"
        os.sched_yield()


def tell(address, pieces):
    """Send one session in <pieces> and return the replies. If the agent ends it early, the replies
    show it."""
    unix = address.startswith("unix@")
    with Raw(address) as c:
        try:
            for p in pieces:
                c.send(p)
                if unix:
                    read_by_agent(c.sock)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return b"".join(without_time(f) for f in c.rest())


def halves(frames):
    """All of it in two writes, cut at every byte."""
    data = b"".join(frames)
    for k in range(1, len(data)):
        yield [data[:k], data[k:]]


def each_in_two(frames):
    """Each frame in two writes of its own, cut at the k-th byte (shorter ones: at the last)."""
    for k in range(1, max(map(len, frames))):
        yield [part for f in frames for part in (f[:min(k, len(f) - 1)], f[min(k, len(f) - 1):])]


def by_size(frames, sizes):
    data = b"".join(frames)
    for n in sizes:
        yield [data[i:i + n] for i in range(0, len(data), n)]


def by_chance(frames, times, most, seed):
    data, rnd = b"".join(frames), random.Random(seed)
    for _ in range(times):
        out, at = [], 0
        while at < len(data):
            n = rnd.randint(1, rnd.choice((3, 30, most)))
            out.append(data[at:at + n])
            at += n
        yield out


def near(frames, step):
    """Two writes: cut every <step> bytes, and at each byte around the ends of frames and of
    buffers."""
    data = b"".join(frames)
    cuts, at = set(range(1, len(data), step)), 0
    for f in frames:
        for edge in (at, at + 4, at + 16384, at + 16388):
            cuts.update(range(edge - 3, edge + 4))
        at += len(f)
    for k in sorted(cuts):
        if 0 < k < len(data):
            yield [data[:k], data[k:]]


def owed(frames):
    """Return the replies that the agent must send for a session, as (kind, stream, frame):
    fragments are answered at the last one, aborted messages not at all."""
    out = [(101, 0, 0)]
    for f in map(parse, frames):
        if f.kind in (NOTIFY, UNSET) and f.flags & (FIN | ABORT) == FIN:
            out.append((103, f.stream, f.frame))
    return out + [(102, 0, 0)]


def known(address, frames):
    """Return the replies of a session whose prompts are known; they must not change, because they
    are compared."""
    for _ in range(3):
        tell(address, [b"".join(frames)])
    want = tell(address, [b"".join(frames)])
    equal([(f.kind, f.stream, f.frame) for f in map(parse, frames_of(want))], owed(frames),
          "what came for the session in one piece")
    for i in range(40):
        got = tell(address, frames if i % 2 else [b"".join(frames)])
        assert got == want, "replies differ by themselves: %r instead of %r" % (got, want)
    return want


def compare(a, frames, ways):
    """Compare the replies of <ways>, {name: pieces of a session}. Return their number."""
    want, counts = known(a.spop_address, frames), {}
    for name, how in ways.items():
        counts[name] = 0
        for pieces in how:
            got = tell(a.spop_address, pieces)
            assert got == want, "%s, in pieces of %s: %r instead of %r" % (
                name, list(map(len, pieces))[:20], got, want)
            counts[name] += 1
    return want, counts


def each_piece_is_read_alone(a, frames):
    """Answers of a session by single bytes leave one by one, which shows that the agent reads each
    piece alone."""
    before = a.metrics()["kvroute_spop_writes_total"]
    got = tell(a.spop_address, next(by_size(frames, [1])))
    wait_for("the last write", 5, lambda: a.metrics()["kvroute_spop_writes_total"] - before >= 9)
    equal(a.metrics()["kvroute_spop_writes_total"] - before, 9, "writes")
    return got


def show(what, frames, want, counts):
    print("      promise 5: %s, %d frames of %d bytes: %d sessions (%s), replies of %d bytes "
          "identical in all"
          % (what, len(frames), sum(map(len, frames)), sum(counts.values()),
             ", ".join("%s %d" % c for c in counts.items()), len(want)))


def on_unix(a):
    a.spop_address = "unix@" + os.path.join(a.folder, "spop.sock")
    return a


@case
def a_session_cut_anywhere():
    with on_unix(Agent(threads=1, agent_conf=STEADY)) as a:
        frames = session()
        want, counts = compare(a, frames, {
            "cut in two at every byte": halves(frames), "each frame in two": each_in_two(frames),
            "by the byte": by_size(frames, [1]),
            "by 2 to 4096": by_size(frames, [2, 3, 5, 7, 11, 13, 16, 17, 64, 100, 255, 256, 257,
                                             999, 1024, 4096]),
            "by chance": by_chance(frames, 40, 600, 5)})
        equal(each_piece_is_read_alone(a, frames), want, "once more by the byte")
        show("one session", frames, want, counts)


@case
def long_frames_cut_anywhere():
    with on_unix(Agent(threads=1, agent_conf=STEADY)) as a:
        frames = long_session()
        want, counts = compare(a, frames, {
            "cut in two": near(frames, 211),
            "by 4093 to 65536": by_size(frames, [4093, 16383, 16384, 16388, 16389, 32768, 65536]),
            "by chance": by_chance(frames, 20, 20000, 55)})
        show("a session of long frames", frames, want, counts)
        frames = edge_session()
        want, counts = compare(a, frames, {
            "whole": [frames],
            "by 4096 to 65536": by_size(frames, [4096, 16383, 16384, 16388, 16389, 65536]),
            "by chance": by_chance(frames, 20, 40000, 555)})
        show("a session of frames as long as buffers", frames, want, counts)


@case
def over_tcp_too():
    with Agent(threads=2, agent_conf=STEADY) as a:
        frames = session()
        data = b"".join(frames)
        want, counts = compare(a, frames, {
            "cut in two": ([data[:k], data[k:]] for k in range(1, len(data), 7)),
            "by the byte": by_size(frames, [1]),
            "by 2 to 1024": by_size(frames, [2, 3, 17, 256, 1024]),
            "by chance": by_chance(frames, 20, 600, 6)})
        show("over TCP", frames, want, counts)


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
