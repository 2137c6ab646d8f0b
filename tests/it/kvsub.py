#!/usr/bin/env python3
"""kvsub.py [-k WORD] - the agent, in its sandbox, reads KV cache events of publishers that speak as
engines do (python3-zmq): losses, replays, restarts, hostile bytes.

What the agent holds is compared with what the publisher holds. Last line: N passed, N failed."""
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from cases import main  # noqa: E402
from fleet import BUILD, Fleet, wait_for  # noqa: E402
from with_zmq import need_zmq  # noqa: E402

zmq = need_zmq("kvsub")

from kv_publisher import Publisher, pack  # noqa: E402

OFF, SYNCED, GAP, REPLAYING, DEGRADED, WAITING = range(6)
SECONDS = 20            # for what takes moments on an idle machine
CASES = []


def case(f):
    CASES.append(f)
    return f


def engine(p, name="e1", replay=True, endpoint=None, topic="", ranks=0):
    keys = ["endpoint: \"%s\"" % (endpoint or "tcp://%s:%d" % (p.host, p.port))]
    if replay and p.replay_port:
        keys.append("replay: \"tcp://%s:%d\"" % (p.host, p.replay_port))
    if topic:
        keys.append("topic: \"%s\"" % topic)
    if ranks:
        keys.append("ranks: %d" % ranks)
    return "  - {name: %s, pool: pool, events: {%s}}\n" % (name, ", ".join(keys))


class Agent(Fleet):
    """The agent alone."""

    def __init__(self, engines):
        super().__init__(engines=0)
        self.listed = engines
        self.index_keys = ""

    def start(self):
        self.start_agent()

    def agent_yaml(self):
        return super().agent_yaml() + ("index: {max_bytes: 16 MiB%s}\n" % self.index_keys +
                                       ("engines:\n" + self.listed if self.listed else ""))

    def reload(self, engines):
        self.listed = engines
        self.write("kvroute.yaml", self.agent_yaml())
        before = self.log().count("reload")
        self.processes["agent"].send_signal(signal.SIGHUP)
        wait_for("the reload", SECONDS, lambda: self.log().count("reload") > before)

    def log(self):
        with open(os.path.join(self.folder, "agent.log"), errors="replace") as f:
            return f.read()

    def value(self, name, server="e1"):
        return self.metrics().get('kvroute_events_%s{pool="pool",server="%s"}' % (name, server))

    def wait(self, name, test, server="e1", seconds=SECONDS):
        return wait_for("%s of %s" % (name, server), seconds, lambda: (
            lambda v: v is not None and (test(v) if callable(test) else v == test))(
                self.value(name, server)))

    def follows(self, p, server="e1", state=SYNCED):
        """Wait until the agent holds what the publisher holds."""
        try:
            wait_for("equal caches", SECONDS, lambda: (
                self.value("state", server) == state and
                self.value("blocks", server) == p.size()))
        except Exception:
            raise AssertionError("the publisher has %d blocks after %d batches; the agent: %s" % (
                p.size(), p.seq, self.figures(server)))

    def figures(self, server="e1"):
        m = self.metrics()
        end = '{pool="pool",server="%s"}' % server
        return {k[len("kvroute_events_"):-len(end)]: v for k, v in m.items()
                if k.startswith("kvroute_events_") and k.endswith(end)}

    def exact(self, p, server="e1", **figures):
        """The agent holds what the publisher holds, and nothing was lost on the way."""
        want = {"state": SYNCED, "blocks": p.size(), "stored_blocks_total": p.all_stored,
                "lost_batches_total": 0, "undecoded_batches_total": 0, "from_start": 1,
                "bad_frames_total": 0, "held_batches": 0, **figures}
        try:
            wait_for("equal caches", SECONDS,
                     lambda: want.items() <= self.figures(server).items())
        except Exception:
            f = self.figures(server)
            raise AssertionError("differ: %s; all: %s" % (
                {k: (f.get(k), v) for k, v in want.items() if f.get(k) != v}, f))
        return self.figures(server)

    def no_call_refused(self):
        m = self.metrics()
        assert m['kvroute_sandbox{part="seccomp"}'] == 1 or "sanitizer" in self.log()
        n = m['kvroute_sandbox_refused_total{process="agent"}']
        assert n == 0, [s for s in self.log().splitlines() if "refused system" in s]


class Scene:
    """An agent and its publishers, which are ended in any case."""

    def __init__(self, *publishers, engines=None):
        self.publishers = list(publishers)
        self.agent = Agent("".join(engine(p, "e%d" % (i + 1)) for i, p in enumerate(publishers))
                           if engines is None else engines)

    def __enter__(self):
        self.agent.__enter__()
        return self.agent

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.agent.no_call_refused()
                assert self.agent.end("agent") == 0, "exit status"
        finally:
            self.agent.__exit__(kind, value, trace)
            for p in self.publishers:
                p.end()


def is_free(port):
    with socket.socket() as a:
        try:
            a.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def take_ports(n):
    """Each with 16 neighbours for ranks. They are below those that the kernel gives to connections,
    because a publisher that restarts leaves its port for a moment."""
    found = []
    while len(found) < n:
        port = random.randrange(20000, 32000)
        if all(abs(port - x) > 16 for x in found) and all(is_free(port + r) for r in range(4)):
            found.append(port)
    return found


def publisher(**kw):
    port, replay = take_ports(2)
    return Publisher(port, replay, **kw)


def steps(p, n, at_once=20, pause=0.01):
    """Publish <n> batches; a publisher that never pauses is above what its sockets hold."""
    for i in range(0, n, at_once):
        p.publish(min(at_once, n - i))
        time.sleep(pause)


@case
def no_loss():
    """Every encoding, from the first batch and from a later one: the history is replayed."""
    for encoding in ("map", "array", "bytes", "sglang"):
        p = publisher(encoding=encoding)
        p.publish(300)
        with Scene(p) as a:
            a.follows(p)
            steps(p, 300)
            f = a.exact(p, batches_total=600, gaps_total=0)
            assert p.asked.count(0) == 1, p.asked
            assert f["stored_blocks_total"] == p.stored, (f, p.stored)
            assert f["removed_blocks_total"] == p.removed, (f, p.removed)


@case
def dropped_frames():
    """5 % and 30 % of the live batches are dropped; replays bring all of them."""
    for drop, encoding in ((0.05, "map"), (0.3, "map"), (0.05, "array"), (0.3, "sglang")):
        p = publisher(encoding=encoding)
        with Scene(p) as a:
            p.subscribed()
            p.drop = drop
            steps(p, 1500)
            p.drop = 0
            p.publish()
            f = a.exact(p, batches_total=1501)
            assert p.dropped > 0 and f["gaps_total"] > 0 and f["replays_total"] > 0, f
            assert f["stored_blocks_total"] == p.stored, (f, p.stored)
            print("      %s, %d of %d dropped: %d gaps, %d replays, %d batches replayed" % (
                encoding, p.dropped, p.seq, f["gaps_total"], f["replays_total"],
                f["replayed_batches_total"]))


@case
def dropped_frames_without_replay():
    """Losses are counted, and the stream is degraded; an emptied cache ends that."""
    p = Publisher(take_ports(1)[0])
    with Scene(p) as a:
        p.subscribed()
        p.publish(10)
        a.exact(p)
        p.drop = 1
        p.publish(7)
        p.drop = 0
        p.publish()
        a.wait("state", DEGRADED)
        assert a.value("lost_batches_total") == 7 and a.value("gaps_total") == 1
        assert "KV cache events are lost" in a.log() and "replay_endpoint" in a.log()
        p.begin_again = p.seq
        p.send(p.seq, pack([time.time(), [["AllBlocksCleared"]], 0]))
        a.wait("state", SYNCED)
        a.wait("blocks", 0)


@case
def a_lost_tail():
    """The last batches of a burst are lost, and none follows: a probe finds them."""
    p = publisher()
    with Scene(p) as a:
        p.subscribed()
        p.publish(20)
        a.exact(p)
        p.drop = 1
        p.publish(5)
        a.exact(p, gaps_total=1, batches_total=25)


@case
def restarts():
    """Mid-stream; while the agent is disconnected; to a number that was not reached, and beyond."""
    p = publisher()
    with Scene(p) as a:
        p.subscribed()
        steps(p, 100)
        a.exact(p)
        for meanwhile in (0, 1, 50, 400):
            before = a.value("restarts_total")
            p.restart(meanwhile)
            p.subscribed(SECONDS)
            if meanwhile == 0:
                p.publish()
            a.wait("restarts_total", lambda v: v > before)
            a.exact(p)
            steps(p, 40)
            a.exact(p)
        assert a.value("restarts_total") == 4, a.figures()
        assert a.log().count("an engine was restarted") == 4


@case
def a_restart_whose_first_replay_is_lost():
    """As when the request goes to the socket of the engine's last process."""
    p = publisher()
    with Scene(p) as a:
        p.subscribed()
        p.publish(20)
        a.exact(p)
        p.silent = True
        p.restart(5)
        p.subscribed(SECONDS)
        p.publish(3)
        a.wait("unanswered_replays_total", 1)
        p.silent = False
        a.exact(p, restarts_total=1, unanswered_replays_total=1)


@case
def the_same_engine_again():
    """A connection that was lost, and the engine lives: nothing is forgotten."""
    p = publisher()
    with Scene(p) as a:
        p.subscribed()
        steps(p, 50)
        a.exact(p)
        for n in (0, 30):
            p.close()
            a.wait("state", OFF)
            p.publish(n, live=False)
            p.open()
            p.subscribed(SECONDS)
            a.exact(p, restarts_total=0, resets_total=0)
        steps(p, 20)
        a.exact(p, restarts_total=0, batches_total=100)


@case
def the_agent_is_restarted():
    """Its snapshot has the blocks, which no replay could bring, and where to continue."""
    p = publisher(buffer=40)
    with Scene(p) as a:
        kept = os.path.join(a.folder, "kept")
        os.mkdir(kept, 0o700)
        p.subscribed(SECONDS)
        a.end("agent")
        a.index_keys = ", snapshot_file: %s/index.snapshot" % kept
        a.start_agent()
        p.subscribed(SECONDS)
        steps(p, 200)
        a.follows(p)
        for restarted in (False, True):
            asked = len(p.asked)
            assert a.end("agent") == 0
            if restarted:
                p.restart(meanwhile=30)
            else:
                p.publish(30, live=False)
            a.start_agent()
            a.follows(p)
            if restarted:
                assert a.value("restarts_total") == 1, a.figures()
            else:
                assert p.asked[asked] == 199 and 0 not in p.asked[asked:], p.asked
                assert a.value("lost_batches_total") == 0, a.figures()
            steps(p, 20)
            a.follows(p)
        assert "not in the snapshot" not in a.log(), a.log()


@case
def a_restart_without_replay():
    """A lower number tells it; the new stream is followed from there."""
    p = Publisher(take_ports(1)[0])
    with Scene(p) as a:
        p.subscribed()
        p.publish(50)
        a.exact(p)
        p.restart()
        p.subscribed(SECONDS)
        p.publish(20)
        a.exact(p, restarts_total=1)


@case
def two_ranks():
    """Rank r has port + r; each has its own numbers."""
    port, replay = take_ports(2)
    ps = [Publisher(port + r, replay + r, rank=r, seed=r + 5, topic=b"kv") for r in range(2)]
    with Scene(*ps, engines=engine(ps[0], ranks=2)) as a:
        for p in ps:
            p.subscribed()
        ps[1].drop = 0.2
        for _ in range(20):
            ps[0].publish(5)
            ps[1].publish(9)
            time.sleep(0.01)
        ps[1].drop = 0
        ps[1].publish()
        wait_for("both ranks", SECONDS, lambda: (
            a.value("ranks_synced") == 2 and a.value("batches_total") == 281 and
            a.value("blocks") == ps[0].size() + ps[1].size()))
        assert a.value("lost_batches_total") == 0
        ps[1].restart()
        ps[1].subscribed(SECONDS)
        ps[1].publish(3)
        wait_for("the restarted rank", SECONDS, lambda: (
            a.value("ranks_synced") == 2 and
            a.value("blocks") == ps[0].size() + ps[1].size()))
        assert a.value("restarts_total") == 1


@case
def a_silent_replay_socket():
    """After three requests the gap is lost; later gaps wait for nothing."""
    p = publisher()
    with Scene(p) as a:
        p.subscribed()
        p.publish(20)
        a.exact(p)
        p.silent = True
        p.drop = 1
        p.publish(3)
        p.drop = 0
        p.publish(2)
        a.wait("lost_batches_total", 3)
        a.wait("batches_total", 22)
        assert a.value("state") == DEGRADED and a.value("held_batches") == 0
        assert p.asked[-3:] == [20, 20, 20], p.asked


@case
def a_replay_above_the_high_water_mark():
    """The publisher's socket drops what it cannot send at once, the end of the replay too."""
    p = publisher(capacity=64)
    p.publish(6000)
    with Scene(p) as a:
        p.subscribed()
        a.exact(p, batches_total=6000)
        print("      6000 batches in %d requests" % len(p.asked))
        assert p.asked.count(0) == 1, p.asked


@case
def batches_that_are_gone():
    """The publisher keeps fewer than were lost."""
    p = publisher(buffer=10)
    with Scene(p) as a:
        p.subscribed()
        p.publish(10)           # a replay under way still has all of them
        a.exact(p)
        p.drop = 1
        p.publish(30)
        p.drop = 0
        p.publish()
        a.wait("lost_batches_total", 21)
        a.wait("state", DEGRADED)
        a.wait("batches_total", 20)


@case
def hostile_messages():
    """They are counted, and the stream goes on."""
    p = publisher()
    with Scene(p) as a:
        p.subscribed()
        p.publish(5)
        a.exact(p)
        for parts in ([b"t", b"123", b"x"], [b"t"] * 4, [b"t"] * 500, [b"t", b"", b""]):
            p.pub.send_multipart(parts)
        a.wait("bad_frames_total", 4)
        p.publish(5)
        a.follows(p)
        p.send(p.seq, os.urandom(1 << 20))
        p.seq += 1
        a.wait("undecoded_batches_total", 1)
        a.wait("state", DEGRADED)
        p.send(p.seq, pack([time.time(), [["AllBlocksCleared"]], 0]))
        a.wait("state", SYNCED)
        p.send(2 ** 64 - 1, b"x")
        a.wait("bad_frames_total", 5)
        assert a.value("batches_total") == 11, a.figures()


@case
def a_part_that_is_too_large():
    """The connection ends; what can be had comes with a replay."""
    p = publisher()
    with Scene(p) as a:
        p.subscribed()
        p.publish(5)
        a.exact(p)
        p.pub.send_multipart([b"t", b"12345678", b"\0" * (17 << 20)])
        p.subscribed(SECONDS)       # again
        p.publish(5)
        a.exact(p, batches_total=10, restarts_total=0)
        assert a.value("connections_total") >= 2


def read_exactly(c, n):
    got = b""
    while len(got) < n:
        more = c.recv(n - len(got))
        assert more, "the agent closed the connection"
        got += more
    return got


def handshake(c, kind=b"PUB"):
    """ZMTP 3.0 without security, by hand."""
    c.sendall(b"\xff" + b"\0" * 8 + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" * 32)
    read_exactly(c, 64)
    ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    c.sendall(b"\x04" + bytes([len(ready)]) + ready)


@case
def a_large_batch_lets_others_come_between():
    """Work is counted, not timed: what one turn applies of a rank is bounded."""
    p, q = publisher(), publisher(seed=7)
    n = 200000
    batch = pack([time.time(), [{"type": "BlockStored", "block_hashes": list(range(n)),
                                 "parent_block_hash": None, "token_ids": [1] * n, "block_size": 1,
                                 "medium": "GPU"}], None])
    with Scene(p, q) as a:
        for x in (p, q):
            x.subscribed()
        for _ in range(2):
            p.send(p.seq, batch)
            p.seq += 1
            q.publish(10)
        a.exact(q, "e2")
        a.wait("batches_total", 2)
        # half of the blocks may find no room, but each of them is work
        a.wait("slices_total", lambda v: v >= 2 * n // (4096 + 64) - 2)
        assert 4096 <= a.value("turn_work_max") <= 2 * 4096, a.figures()
        assert a.value("slices_total", "e2") == 0


@case
def a_message_without_end():
    """Parts that never end are bounded, although libzmq has no limit for them."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        listed = ("  - {name: e1, pool: pool, events: {endpoint: \"tcp://127.0.0.1:%d\"}}\n" % port)
        with Scene(engines=listed) as a:
            before = a.metrics()["kvroute_process_resident_memory_bytes"]
            most, sent = 0, 0
            for _ in range(2):
                s.settimeout(SECONDS)
                c, _ = s.accept()
                c.settimeout(SECONDS)
                handshake(c)
                c.settimeout(2)         # a half-closed connection takes nothing more
                part = b"\x03" + struct.pack(">Q", 1 << 16) + b"x" * (1 << 16)
                try:
                    while sent < 2 << 30:
                        c.sendall(part)
                        sent += len(part)
                        if sent % (len(part) * 64) == 0:
                            m = a.metrics()
                            most = max(most, m["kvroute_process_resident_memory_bytes"] - before)
                    raise AssertionError("2 GiB were sent, and the connection lives")
                except OSError:
                    pass
                c.close()
            print("      at most %d MiB of memory, %d MiB sent" % (most / 2 ** 20, sent / 2 ** 20))
            assert most < 768 << 20, most
            a.wait("connections_ended_total", lambda v: v >= 2)


@case
def mute_publishers():
    """One that listens and says nothing, one that is no ZeroMQ, and one that is absent."""
    p = publisher()
    with socket.socket() as mute, socket.socket() as web:
        for s in (mute, web):
            s.bind(("127.0.0.1", 0))
            s.listen(64)

        def serve():
            while True:
                try:
                    c, _ = web.accept()
                    c.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
                    c.close()
                except OSError:
                    return
        threading.Thread(target=serve, daemon=True).start()
        absent = take_ports(1)[0]
        listed = engine(p) + "".join(
            "  - {name: e%d, pool: pool, events: {endpoint: \"tcp://127.0.0.1:%d\"}}\n" % (i, port)
            for i, port in ((2, mute.getsockname()[1]), (3, web.getsockname()[1]), (4, absent)))
        with Scene(p, engines=listed) as a:
            p.subscribed()
            p.publish(30)
            a.exact(p)
            wait_for("three log lines", SECONDS, lambda: (
                a.log().count("no connection to an engine") >= 3))
            assert [a.value("state", "e%d" % i) for i in (2, 3, 4)] == [OFF] * 3
            assert a.log().count("KV cache events are complete") == 1
            web.shutdown(socket.SHUT_RDWR)


def answer_nonsense(socket):
    while True:
        try:
            socket.send_multipart([socket.recv_multipart()[0], b"", b"what?"])
        except zmq.ZMQError:
            return


@case
def replay_addresses_that_are_none():
    """One is the port of live events, the other that of something else; each is told once."""
    p, q = publisher(), publisher(seed=7)
    other = zmq.Context().socket(zmq.ROUTER)
    port = other.bind_to_random_port("tcp://127.0.0.1")
    threading.Thread(target=answer_nonsense, args=(other, ), daemon=True).start()
    p.replay_port, q.replay_port = p.port, port
    with Scene(p, q) as a:
        wait_for("two log lines", 3 * SECONDS, lambda: (
            a.log().count("does not replay its KV cache events") == 2))
        lines = [s for s in a.log().splitlines() if "does not replay" in s]
        assert ["received=nothing" in s for s in lines] == ["server=e1" in s for s in lines], lines
        assert all("remedy=" in s and "level=warn" in s for s in lines), lines
        for e in ("e1", "e2"):
            assert a.value("unanswered_replays_total", e) >= 1
        p.publish(5)
        q.publish(5)
        for e in ("e1", "e2"):
            a.wait("blocks", lambda n: n > 0, e)


@case
def an_engine_that_comes_later():
    p = publisher(start=False)
    with Scene(p) as a:
        wait_for("a log line", SECONDS, lambda: "no connection to an engine" in a.log())
        assert a.value("state") == OFF
        p.publish(10, live=False)
        p.open()
        p.subscribed(SECONDS)
        p.publish(10)
        a.exact(p, restarts_total=0)
        wait_for("a log line", SECONDS, lambda: "connected to an engine's KV" in a.log())
        assert a.log().count("no connection to an engine") == 1
        assert "KV cache events are complete" in a.log()


@case
def reloads():
    """Engines come and go; those that stay keep their state."""
    p, q = publisher(), publisher(seed=9)
    with Scene(p, q) as a:
        for x in (p, q):
            x.subscribed()
            x.publish(30)
        a.exact(p)
        a.exact(q, "e2")
        a.reload(engine(p))
        wait_for("e2 to go", SECONDS, lambda: a.value("state", "e2") is None)
        p.publish(10)
        a.exact(p, batches_total=40, replays_total=a.value("replays_total"))
        q.publish(10)
        a.reload(engine(p) + engine(q, "e2"))
        a.exact(q, "e2", batches_total=40)
        a.exact(p, batches_total=40)
        a.reload(engine(q))             # another address for the same server
        a.exact(q, batches_total=40)
        wait_for("e2 to go", SECONDS, lambda: a.value("state", "e2") is None)
        a.reload("")
        wait_for("no engine", SECONDS, lambda: a.value("state") is None)


@case
def publishers_that_connect():
    """The agent binds; topics tell the publishers apart, and the longest one wins."""
    port, r1, r2 = take_ports(3)
    at = "tcp://127.0.0.1:%d" % port
    p = Publisher(0, r1, topic=b"kv@a@m", connect=at, start=False)
    q = Publisher(0, r2, topic=b"kv@ab@m", connect=at, start=False, seed=7)
    listed = (engine(p, "e1", endpoint="tcp://*:%d" % port, topic="kv@a") +
              engine(q, "e2", endpoint="tcp://0.0.0.0:%d" % port, topic="kv@ab"))
    with Scene(p, q, engines=listed) as a:
        for x in (p, q):
            x.open()
            for _ in range(2):          # both topics
                x.subscribed()
        p.publish(30)
        q.publish(40)
        a.exact(p)
        a.exact(q, "e2")
        p.drop = 0.3
        steps(p, 100)
        p.drop = 0
        p.publish()
        a.exact(p, batches_total=131)
        q.restart(5)
        q.subscribed(SECONDS)
        q.publish(3)
        a.exact(q, "e2", restarts_total=1)
        a.exact(p, restarts_total=0)
        a.reload(engine(p, "e1", endpoint="tcp://*:%d" % port, topic="kv@a"))
        wait_for("e2 to go", SECONDS, lambda: a.value("state", "e2") is None)
        p.publish(5)
        a.exact(p, batches_total=136)


@case
def over_ipv6():
    port, replay = take_ports(2)
    try:
        p = Publisher(port, replay, host="[::1]")
    except zmq.ZMQError as e:
        print("skipped: events over IPv6: %s" % e)
        return
    with Scene(p) as a:
        p.subscribed()
        p.publish(20)
        a.exact(p)


@case
def frames_without_a_sequence():
    """Old publishers: topic and payload, or the payload alone."""
    p = Publisher(take_ports(1)[0])
    with Scene(p) as a:
        p.subscribed()
        for i in range(10):
            payload = pack([time.time(), p.events(), 0])
            p.pub.send_multipart([b"t", payload] if i % 2 else [payload])
        a.wait("batches_total", 10)
        a.follows(p)


@case
def no_token_in_log_or_metrics():
    p = publisher()
    with Scene(p) as a:
        p.subscribed()
        p.cache.systems = [[987654321] * 64]
        p.publish(20)
        a.exact(p)
        text = a.log() + repr(a.metrics())
        assert "987654321" not in text and "%x" % 987654321 not in text


@case
def the_sandbox_covers_its_threads():
    """The threads of libzmq have the filter, and the agent cannot be traced into another port."""
    p = publisher()
    with Scene(p) as a:
        if a.metrics()['kvroute_sandbox{part="seccomp"}'] == 0:
            print("skipped: threads of libzmq in the sandbox, which is off")
            return
        p.subscribed()
        p.publish()
        a.exact(p)
        pid = a.processes["agent"].pid
        names = set()
        for t in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/status" % (pid, t)) as f:
                s = dict(re.findall(r"(\w+):[ \t]*(.*)", f.read()))
            names.add(s["Name"])
            assert (s["Seccomp"], s["NoNewPrivs"]) == ("2", "1"), s
            # the kernel kills a process if a thread that blocks SIGSYS makes a refused call
            assert not int(s["SigBlk"], 16) >> (signal.SIGSYS - 1) & 1, s
        assert {"events", "ZMQbg/IO/0"} <= names, names


if __name__ == "__main__":
    t = subprocess.run([os.path.join(BUILD, "kvroutectl"), "events", "127.0.0.1"],
                       capture_output=True, text=True, timeout=20)
    if "without libzmq" in t.stderr:
        print("skipped: kvsub, kvroute was built without libzmq")
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(0)
    sys.exit(main(CASES, sys.argv))
