#!/usr/bin/env python3
"""p02_acks.py [-k WORD] - promise 2: every NOTIFY is ACKed.

A NOTIFY with any contents (unknown messages, arguments of any type or none, wrong counts, bodies of
every API, noise, or nothing) gets one ACK with its ids and at least one action, also if allocations
fail. An error according to HAProxy's specification gets a DISCONNECT with its status instead, after
the ACKs of earlier NOTIFYs. These are counted separately, and so are NOTIFYs that the sender
aborts, which get neither.
"""
import itertools
import os
import random
import signal
import struct
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from agent import *  # noqa: E402,F403
from p20_scarce import BODIES  # noqa: E402
from raw import *  # noqa: E402,F403
from spop_client import ABORT, ACK, AGENT_DISCONNECT, AGENT_HELLO, string, varint  # noqa: E402

NOTIFIES = 50000
CASES = []

VALUES = [Typed("null"), Typed("bool", True), Typed("int32", 7), Typed("uint32", 1 << 31),
          Typed("int64", -1), Typed("int64", 1 << 62),
          Typed("uint64", (1 << 64) - 1), Typed("ipv4", "192.0.2.1"), Typed("ipv6", "2001:db8::1"),
          Typed("str", ""),
          Typed("str", "x" * 300), Typed("str", "\u00ff\n\0"), Typed("bin", b""),
          Typed("bin", bytes(range(256)))]
REQUEST_ARGS = ("uid", "pool", "load", "path", "tenant", "model", "session", "body", "seq", "blen",
                "bsize")
FACT_ARGS = ("uid", "be", "srv", "want", "ct", "st", "ts", "tw", "tc", "tr", "ta", "out", "in",
             "rc")
NAMES = ("route", "route-1", "route-2", "route-9999", "first", "done", "nobody", "", "x" * 500,
         "route-x")
LOADS = ("", ";", "a/1", "a/1;s1", "a/1;s1=", "a/1;s1=1,0", "s1=1,0,0", "a/1;=1,0,0,1",
         "a/1;s1=9999999999,-1,x,0", ";" * 200,
         "a/1;" + ";".join("s%d=1,0,0,1" % i for i in range(300)))


def case(f):
    CASES.append(f)
    return f


def noise(rnd, n):
    return bytes(rnd.getrandbits(8) for _ in range(n))


def text(path, body):
    return request("t", json.dumps(body), path)


def fixed():
    """Return payloads, each with one defect."""
    good = text(*BODIES[0])
    fact = {"uid": "t", "be": "llm", "srv": "s1", "st": 200, "ts": "--", "tr": 5}
    yield b""
    for path, body in BODIES:
        whole = json.dumps(body).encode()
        yield message("route", text(path, body))
        for cut in (0, 1, 2, len(whole) // 3, len(whole) - 1):
            yield message("route", request("cut", whole[:cut], path))
        yield message("route", request("other", whole, "/nowhere"))
    for name in NAMES:
        yield message(name, good)
        yield message(name, {})
    for args, message_name, names in ((good, "route", REQUEST_ARGS), (fact, "done", FACT_ARGS),
                                      (fact, "first", FACT_ARGS)):
        for name in names:
            yield message(message_name, {k: v for k, v in args.items() if k != name})
            for v in VALUES:
                yield message(message_name, {**args, name: v})
        yield message(message_name, [*args.items(), *args.items()])
        yield message(message_name, [("", v) for v in args.values()])
    for load in LOADS:
        yield message("route", {**good, "load": load})
    for b in (b"\xff" * 500, b"[" * 5000, b"{\"messages\":" * 300, b"{\"messages\":[]}", b"null",
              b"{\"prompt\":" + b"9" * 999 + b"}",
              b"{\"messages\":[{\"role\":\"user\",\"content\":\"\xc3\x28 \\ud800 \\u00\"}]}"):
        yield message("route", {**good, "body": b})
    for n in (0, 1, len(good) - 1, len(good) + 1, 200, 255):      # the count lies
        yield string("route") + bytes([n]) + kv_list(good.items())
    for n in range(1, 60, 3):                                   # the end is missing
        yield message("route", good)[:n]
    yield string("route") + b"\x01" + string("uid") + b"\x0f"     # no such type
    yield string("route") + b"\x01" + string("uid") + b"\x08" + varint(1 << 40) + b"short"
    yield varint(1 << 60) + b"route"
    yield b"\xff" * 12
    for n in (2, 16, 17, 40, 200):
        yield message("nobody", {"a": 1}) * n
        yield message("done", fact) * n
    yield b"".join(message("route", request("m%d" % i, chat("many %d " % i * 30)))
                   for i in range(10))
    for i in range(6):                                          # slices, some of which never come
        yield message("route-%d" % i, request("sliced", "x" * 400, seq=i, blen=4000, bsize=4000))


def mixed(rnd, payloads):
    """Yield without end: one of <payloads>, some with changed bytes, several of them, or noise."""
    while True:
        how, p = rnd.random(), rnd.choice(payloads)
        if how < 0.4:
            yield p
        elif how < 0.7 and p:
            b = bytearray(p)
            for _ in range(rnd.randint(1, 4)):
                b[rnd.randrange(len(b))] = rnd.choice((0, 0xff, 0xf0, rnd.getrandbits(8)))
            yield bytes(b)
        elif how < 0.8:
            yield p[:rnd.randint(0, len(p))]
        elif how < 0.9:
            yield p + rnd.choice(payloads)
        else:
            yield noise(rnd, rnd.randint(0, 300))


class Peer:
    """A connection and its pending NOTIFYs."""

    def __init__(self, address, size):
        self.c, self.size, self.ids, self.owed = Raw(address), size, itertools.count(1), set()
        self.c.send(hello(size))
        equal([parse(f).kind for f in self.c.frames(1)], [AGENT_HELLO], "the first frame")
        self.sent = self.acked = self.given_up = 0

    def next_ids(self, rnd):
        n = next(self.ids)
        stream = rnd.choice((n, n, (1 << 40) + n, (1 << 64) - 1 - n))
        return stream, rnd.choice((1, 2, 1 << 31, (1 << 64) - 1))

    def frames_of(self, rnd, payload):
        """Return NOTIFYs as frames, whole or in fragments. Some are aborted half-way."""
        stream, frame = self.next_ids(rnd)
        if len(payload) + 40 <= self.size and rnd.random() < 0.8:
            self.owe(stream, frame)
            return [notify(stream, payload, frame)]
        parts = fragments(stream, payload, rnd.choice((self.size - 40, self.size // 3)), frame)
        if len(parts) > 1 and rnd.random() < 0.1:
            self.given_up += 1
            return parts[:-1] + [Frame(UNSET, FIN | ABORT, stream, frame, b"").encode()]
        self.owe(stream, frame)
        return parts

    def owe(self, stream, frame):
        self.owed.add((stream, frame))
        self.sent += 1

    def send(self, frames):
        self.c.send(b"".join(frames))

    def take(self, frames):
        for raw in frames:
            f = parse(raw)
            equal(f.kind, ACK, "a frame's type")
            assert len(raw) - 4 <= self.size, "an ACK of %d bytes where %d were agreed" % (
                len(raw) - 4, self.size)
            assert (f.stream, f.frame) in self.owed, "an ACK nobody waits for: %d, %d" % (
                f.stream, f.frame)
            assert f.variables(), "an ACK without an action"
            self.owed.remove((f.stream, f.frame))
            self.acked += 1

    def settle(self):
        """Read until no ACK is pending."""
        self.take(self.c.split())
        while self.owed:
            try:
                more = self.c.more()
            except TimeoutError:
                raise AssertionError("%d NOTIFYs are not ACKed" % len(self.owed)) from None
            if not more:
                raise ConnectionResetError("the stream ended, and %d NOTIFYs were not ACKed"
                                           % len(self.owed))
            self.take(self.c.split())

    def end(self):
        self.c.send(goodbye())
        equal([parse(f).kind for f in self.c.rest()], [AGENT_DISCONNECT],
              "what came behind the ACKs")
        self.c.close()


def counted(a, peers):
    sent, acked = sum(p.sent for p in peers), sum(p.acked for p in peers)
    m = a.metrics()
    equal(acked, sent, "ACKs")
    equal(m["kvroute_spop_notifies_total"], sent, "NOTIFYs as the agent counts")
    equal(m["kvroute_spop_acks_total"], sent, "ACKs as the agent counts")
    equal(m["kvroute_spop_aborts_total"], sum(p.given_up for p in peers), "NOTIFYs given up")
    return sent, acked, m


@case
def whatever_it_holds():
    seed = int(os.environ.get("SEED", "2"))
    rnd, payloads = random.Random(seed), list(fixed())
    with Agent(threads=2) as a:
        peers = [Peer(a.spop_address, size) for size in (256, 1024, 16380, 65532)]
        supply = itertools.chain(payloads, payloads, payloads, payloads, mixed(rnd, payloads))
        while sum(p.sent for p in peers) < NOTIFIES:
            for p in peers:
                todo = [p.frames_of(rnd, next(supply)) for _ in range(rnd.choice((1, 10, 40)))]
                p.send(itertools.chain(*todo) if rnd.random() < 0.5 else mixed_up(rnd, todo))
            for p in peers:
                p.settle()
        for p in peers:
            p.end()
        sent, acked, m = counted(a, peers)
        assert m["kvroute_spop_args_bad_total"] > 100 and m[
            "kvroute_spop_messages_unknown_total"] > 100, "not odd enough"
        assert m["kvroute_spop_fragments_total"] > 1000, "too few fragments"
        print("      promise 2: %d NOTIFYs (%d kinds and what chance makes of them, seed %d; %d "
              "fragments, %d made no sense): %d ACKs, %.0f %%; "
              "%d given up by the sender"
              % (sent, len(payloads), seed, m["kvroute_spop_fragments_total"],
                 m["kvroute_spop_args_bad_total"], acked,
                 100 * acked / sent, m["kvroute_spop_aborts_total"]))


def mixed_up(rnd, todo):
    """Interleave the frames of several NOTIFYs, each in its order. At most 30 NOTIFYs are open at
    once."""
    out = []
    for i in range(0, len(todo), 30):
        some = [list(t) for t in todo[i:i + 30]]
        while some:
            t = rnd.choice(some)
            out.append(t.pop(0))
            if not t:
                some.remove(t)
    return out


def errors():
    """Yield the errors of SPOE.txt: frames, and the status of the DISCONNECT."""
    yield "a frame longer than agreed", [struct.pack(">I", 65533) + b"\3\0\0\0\1\1\1"], 3
    yield "the longest length there is", [b"\xff\xff\xff\xff"], 3
    yield "a frame of nothing", [b"\0\0\0\0"], 4
    yield "a frame shorter than its header", [b"\0\0\0\4\3\0\0\0"], 4
    yield "a stream-id without end", [struct.pack(">I", 15) + b"\3\0\0\0\1" + b"\xff" * 10], 4
    yield "a second HELLO", [hello()], 4
    yield "NOTIFY anew before its last fragment", fragments(
        9, b"x" * 50, 20)[:1] + fragments(9, b"x" * 50, 20)[:1], 11
    yield "33 open at once", [fragments(100 + i, b"x" * 50, 20)[0] for i in range(33)], 11
    yield "a fragment of nothing", fragments(9, b"x" * 50, 20)[1:2], 12
    yield "fragments longer than joined", [Frame(UNSET if i else NOTIFY, 0, 9, 1,
                                                 b"x" * 65000).encode() for i in range(66)], 3


@case
def errors_get_a_disconnect():
    with Agent(threads=1) as a:
        peers, n = [], 0
        for what, frames, status in errors():
            p = Peer(a.spop_address, 65532)
            peers.append(p)
            for i in range(5):
                p.owe(1000 + i, 1)
            p.send([notify(1000 + i, message("route", text(*BODIES[i]))) for i in range(5)])
            try:
                p.send(frames)
            except (BrokenPipeError, ConnectionResetError):
                pass
            got = p.c.rest()
            assert got, what + ": nothing came"
            p.take(got[:-1])
            end = parse(got[-1])
            equal(end.kind, AGENT_DISCONNECT, what + ": the last frame")
            equal(end.items()["status-code"], status, what + ": status")
            equal(len(p.owed), 0, what + ": NOTIFYs before it that were not ACKed")
            p.c.close()
            n += 1
        sent, acked, m = counted(a, peers)
        print("      promise 2: %d frames that are errors: %d DISCONNECTs; the %d NOTIFYs before "
              "them: %d ACKs" % (n, n, sent, acked))


FAILING = [(1, 0), (1, 1), (2, 1), (3, 1), (1, 2), (2, 3), (4, 0)]


@case
def while_allocations_fail():
    """Send each kind of NOTIFY under each kind of failure. A frame that fits a first buffer arrives
    whole (a unix socket keeps it so) and is ACKed. For a longer or partial one the agent must store
    the first bytes. Without any memory it may close that connection, so that memory is left for the
    others; then it has not accepted the NOTIFY and does not count it."""
    payloads = list(fixed())
    rnd = random.Random(22)
    rest = mixed(rnd, payloads)
    payloads += [next(rest) for _ in range(400)]
    long = [message("route", request("long%d" % n, chat("long " * n))) for n in (3300, 6000, 12000)]
    agent = Agent(fault=True, threads=1)
    agent.spop_address = "unix@" + os.path.join(agent.folder, "spop.sock")
    with agent as a:
        p, failures = Peer(a.spop_address, 65532), 0
        # from the start, and long enough that all timers of the thread have expired
        a.fault.arm(1, 0)
        time.sleep(0.7)
        p.owe(1, 1)
        p.send([notify(1, payloads[1])])
        p.settle()
        a.fault.disarm()
        for i, payload in enumerate(payloads):
            whole = len(payload) < 16000
            for at, n in FAILING:
                a.fault.arm(at, n)
                p.owe(1 + i, 1)
                p.send([notify(1 + i, payload)])
                p.settle()
                failures += a.fault.disarm()
            assert whole, "a payload too long for this"
        short, short_failures = p.sent, failures
        closed, peers = 0, [p]
        for payload, (at, n), size in itertools.product(long, FAILING, (None, 15000, 900)):
            q = Peer(a.spop_address, 65532)
            frames = [notify(1, payload)] if size is None else fragments(1, payload, size)
            a.fault.arm(at, n)
            q.owe(1, 1)
            try:
                q.send(frames)
                q.settle()
                peers.append(q)
            except (BrokenPipeError, ConnectionResetError):
                closed += 1
            failures += a.fault.disarm()
            q.c.close()
        p.owe(1, 1)
        p.send([notify(1, payloads[1])])
        p.settle()
        sent, acked, m = counted(a, peers)
        equal(m['kvroute_spop_closed_total{reason="memory"}'], closed,
              "connections closed for want of memory")
        assert short_failures > 500 and failures > short_failures, "%d and %d failures: too few" % (
            short_failures, failures)
        assert m["kvroute_spop_lost_total"] > 10, "no long frame was answered without a look"
        p.end()
        print("      promise 2: %d NOTIFYs while %d allocations fail: %d ACKs, 100 %%; %d long "
              "ones: %d ACKs (%d without a look), "
              "%d not taken and their connections closed"
              % (short, short_failures, short, len(peers) - 1 + closed, len(peers) - 1,
                 m["kvroute_spop_lost_total"], closed))


@case
def at_the_end_of_the_agent():
    """NOTIFYs sent before SIGTERM are ACKed before the DISCONNECT."""
    with Agent(threads=2) as a:
        peers = [Peer(a.spop_address, 65532) for _ in range(40)]
        for p in peers:
            for i in range(1, 21):
                p.owe(i, 1)
            p.send([notify(i, message("route", request("e%d" % i, chat("the end " * 10))))
                    for i in range(1, 21)])
        a.processes["agent"].send_signal(signal.SIGTERM)
        for p in peers:
            got = p.c.rest()
            p.take(got[:-1])
            equal(parse(got[-1]).kind, AGENT_DISCONNECT, "the last frame")
            p.c.close()
        equal(a.processes["agent"].wait(HANG_SECONDS), 0, "exit status")
        sent, acked = sum(p.sent for p in peers), sum(p.acked for p in peers)
        equal(acked, sent, "ACKs")
        print("      promise 2: %d NOTIFYs as SIGTERM came: %d ACKs" % (sent, acked))


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
