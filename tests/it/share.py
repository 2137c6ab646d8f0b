#!/usr/bin/env python3
"""share.py [-k WORD] - agents of one fleet share their state through a real Redis and Valkey.

Each agent has a HAProxy of its own; all use the same engines. Faults of the store are made under
load: no request may fail, and afterwards all agents hold the same again. Last line: N passed, N
failed."""
import http.client
import http.server
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "promises")]
sys.dont_write_bytecode = True

from cases import main  # noqa: E402
from fleet import (BUILD, HANG_SECONDS, HAPROXY, TOP, Fleet, edited, free_ports,  # noqa: E402
                   wait_for)
from snapshots import read_pairs  # noqa: E402
from store import Store, StoreError, programs  # noqa: E402
from traffic import FAST, Traffic  # noqa: E402

CASES = []
SECONDS = 20            # for what takes moments on an idle machine
SANITIZED = "asan" in BUILD     # its allocator keeps what was freed
STREAM = "kvroute:{kvroute:0}:log"


def case(f):
    CASES.append(f)
    return f


class Member(Fleet):
    """An agent with its HAProxy, or alone. <first>: another one, whose engines it uses."""

    clock_off_s = 0

    def __init__(self, key, servers, first=None, alone=False, share="", index="16 MiB", **kw):
        super().__init__(engines=0 if alone or first else 3, **kw)
        self.first, self.alone = first, alone
        self.key, self.servers, self.more, self.index = key, servers, share, index

    def start(self):
        if self.first is not None:
            self.names, self.engines = self.first.names, self.first.engines
            self.controls = self.first.controls
        if self.alone:
            self.start_agent()
        elif self.first is not None:
            self.start_agent()
            self.start_haproxy()
        else:
            super().start()

    def spawn(self, name, argv, **kw):
        if name == "agent" and self.clock_off_s:
            kw["env"] = dict(os.environ, CLOCK_OFF_S=str(self.clock_off_s), LD_PRELOAD=os.path.join(
                BUILD, "tests/tools/clock_shim.so"), ASAN_OPTIONS="verify_asan_link_order=0")
        return super().spawn(name, argv, **kw)

    def stop(self, keep=False):
        if self.first is not None:
            self.names = []
        super().stop(keep)

    def agent_yaml(self):
        return super().agent_yaml() + (
            "key_file: %s\nindex: {max_bytes: %s}\nshare: {servers: [%s]%s}\n" % (
                self.key, self.index, ", ".join('"%s"' % s for s in self.servers),
                ", " + self.more if self.more else ""))

    def log(self):
        with open(os.path.join(self.folder, "agent.log"), errors="replace") as f:
            return f.read()

    def value(self, name):
        return self.metrics().get("kvroute_share_" + name)

    def wait(self, name, test, seconds=SECONDS):
        def ok():
            v = self.value(name)
            return v is not None and (test(v) if callable(test) else v == test)
        try:
            wait_for(name, seconds, ok)
        except TimeoutError:
            raise AssertionError("%s is %s; the log:\n%s" % (name, self.value(name),
                                                             self.log()[-3000:]))

    def no_call_refused(self):
        n = self.metrics()['kvroute_sandbox_refused_total{process="agent"}']
        assert n == 0, [s for s in self.log().splitlines() if "refused system" in s]


class Scene:
    """Members with one key file, which are ended in any case."""

    def __init__(self, store, n=1, alone=True, share="", servers=None, **kw):
        self.folder = tempfile.mkdtemp(prefix="kvroute-share-")
        self.key = os.path.join(self.folder, "key")
        with open(os.path.join(self.folder, "key"), "wb") as f:
            f.write(os.urandom(192))
        os.chmod(self.key, 0o600)
        self.members = []
        for _ in range(n):
            first = self.members[0] if self.members and not alone else None
            self.members.append(Member(self.key, servers or [store.address], first, alone, share,
                                       **kw))

    def secret(self, text):
        path = os.path.join(self.folder, "password")
        with open(path, "w") as f:
            f.write(text + "\n")
        os.chmod(path, 0o600)
        return path

    def __enter__(self):
        try:
            for m in self.members:
                m.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self.members if len(self.members) > 1 else self.members[0]

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                for m in self.members:
                    if "agent" in m.processes:
                        m.no_call_refused()
                        assert m.end("agent") == 0, "exit status"
        finally:
            for m in reversed(self.members):
                m.__exit__(kind, value, trace)
            shutil.rmtree(self.folder, ignore_errors=True)


# ---- the connection ------------------------------------------------------------------------------


@case
def connects_writes_and_reads():
    """Redis and Valkey, each alone: two agents hear each other."""
    for program in programs():
        with Store(program=program) as s, Scene(s, 2) as (a, b):
            for m in (a, b):
                m.wait("connected", 1)
                m.wait("warm", 1)
                m.wait("siblings", 1)
            assert s.command("XLEN", STREAM) > 0
            assert a.get("/ready", a.metrics_port)[0] == 200
            assert a.log().count("store connected") == 1, a.log()
            assert "level=warn" not in a.log().replace("sandbox is incomplete", ""), a.log()


@case
def store_comes_later():
    """The agent starts without a store, says so once, is ready after warm_timeout, and connects."""
    s = Store()
    try:
        with Scene(s, share="warm_timeout: 500 ms") as a:
            wait_for("a warning", SECONDS, lambda: "the store cannot be used" in a.log())
            assert "Connection refused" in a.log() and "start the store" in a.log(), a.log()
            assert a.value("connected") == 0
            s.start()
            a.wait("connected", 1)
            a.wait("warm", 1)
            assert a.log().count("the store cannot be used") == 1
            assert a.log().count("store connected") == 1
    finally:
        s.__exit__()


@case
def not_ready_before_it_is_warm():
    s = Store()
    try:
        scene = Scene(s, share="warm_timeout: 10 m")
        a = scene.members[0]
        a.wait_alive = lambda name, what, test: None        # it does not get ready
        with scene:
            def waits_for_the_fleet():
                status, text = a.get("/ready", a.metrics_port)[:2]
                return status == 503 and "fleet" in text    # before that it starts
            wait_for("the reason", SECONDS, waits_for_the_fleet)
            assert a.get("/live", a.metrics_port)[0] == 200
            s.start()
            wait_for("ready", SECONDS, lambda: a.get("/ready", a.metrics_port)[0] == 200)
            a.wait("warm", 1)
    finally:
        s.__exit__()


@case
def ready_always():
    s = Store()
    try:
        with Scene(s, share="warm_timeout: 10 m, ready: always") as a:
            assert a.get("/ready", a.metrics_port)[0] == 200 and a.value("warm") == 0
    finally:
        s.__exit__()


@case
def killed_and_started_again():
    """Without its data: the streams begin again."""
    with Store() as s, Scene(s, 2) as (a, b):
        for m in (a, b):
            m.wait("siblings", 1)
            m.wait("warm", 1)
        s.kill()
        for m in (a, b):
            m.wait("connected", 0)
            wait_for("a warning", SECONDS, lambda: "connection to the store lost" in m.log())
        s.start()
        for m in (a, b):
            m.wait("connected", 1)
            m.wait("siblings", 1)
            m.wait("store_losses_total", lambda v: v >= 1)
            assert m.log().count("store connected") == 2, m.log()
            assert "the stream was trimmed" not in m.log(), m.log()
        wait_for("the stream", SECONDS, lambda: s.command("XLEN", STREAM) > 4)


@case
def stopped():
    """A store that does not answer is left in time, and found again."""
    with Store() as s, Scene(s, share="timeout: 300 ms") as a:
        a.wait("warm", 1)
        s.stop()
        try:
            a.wait("connected", 0)
            wait_for("a warning", SECONDS, lambda: "in time" in a.log())
        finally:
            s.go_on()
        a.wait("connected", 1)
        before = a.value("batches_out_total")
        a.wait("batches_out_total", lambda v: v > before)


@case
def wrong_password():
    """Refused and said; the right one works, also for a user of an ACL with the listed commands
    only."""
    with Store(password="right-password") as s:
        scene = Scene(s, share="warm_timeout: 0")
        scene.members[0].more += ", password_file: %s" % scene.secret("wrong-password")
        with scene as a:
            wait_for("a warning", SECONDS, lambda: "WRONGPASS" in a.log())
            assert "check share.user and share.password_file" in a.log()
            assert "wrong-password" not in a.log()
        scene = Scene(s, share="warm_timeout: 0")
        with scene as a:
            wait_for("a warning", SECONDS, lambda: "NOAUTH" in a.log())
        scene = Scene(s)
        scene.members[0].more = "password_file: %s" % scene.secret("right-password")
        with scene as a:
            a.wait("warm", 1)
            a.wait("connected", 1)


@case
def password_in_an_error():
    """A store that does not know AUTH repeats what it was sent; the log does not."""
    with Store("--rename-command", "AUTH", "ANOTHER") as s:
        for secret in ("short-secret", "secret" * 40):
            scene = Scene(s, share="warm_timeout: 0")
            scene.members[0].more += ", password_file: %s" % scene.secret(secret)
            with scene as a:
                wait_for("a warning", SECONDS, lambda: "unknown command" in a.log())
                assert "secret" not in a.log().replace("/secret", ""), a.log()


def allowed_commands():
    """The commands that the manual lists for an ACL."""
    with open(os.path.join(os.path.dirname(BUILD), "../doc/kvroute.8")) as f:
        page = f.read()
    return page[page.index("ACL SETUSER kvroute"):].split(".Ed")[0].split()[3:]


@case
def user_of_an_acl():
    """What the manual lists is enough."""
    words = [w.replace(">PASSWORD", ">secret-of-kvroute") for w in allowed_commands()]
    with Store() as s:
        s.command("ACL", "SETUSER", "kvroute", *words)
        scene = Scene(s, 2, share="user: kvroute")
        for m in scene.members:
            m.more += ", password_file: %s" % scene.secret("secret-of-kvroute")
        with scene as (a, b):
            for m in (a, b):
                m.wait("connected", 1)
                m.wait("warm", 1)
                m.wait("siblings", 1)
            wait_for("a snapshot", SECONDS, lambda: sum(
                m.value('snapshots_total{result="written"}') for m in (a, b)) > 0)
            denied = s.command("ACL", "LOG")
            assert denied == [], denied


@case
def stopped_while_a_snapshot_is_written():
    """The writer gives up the one that it cannot end, and writes the next."""
    key = "kvroute:{kvroute:0}:snapshot"
    written = 'snapshots_total{result="written"}'
    with Store() as s, Scene(s, share="timeout: 300 ms") as a:
        a.wait(written, 1)
        s.command("DEL", key + "-fresh")
        wait_for("the lease", SECONDS, lambda: s.command("EXISTS", key + "-writer") == 1)
        s.stop()
        try:
            a.wait("connected", 0)
            a.wait('snapshots_total{result="failed"}', lambda v: v >= 1)
        finally:
            s.go_on()
        a.wait("connected", 1)
        s.command("DEL", key + "-writer", key + "-fresh")
        n = a.value(written)
        a.wait(written, lambda v: v > n)


@case
def a_user_who_may_run_no_script():
    """Snapshots are written all the same, and the log has what is missing."""
    words = [w.replace(">PASSWORD", ">secret-of-kvroute") for w in allowed_commands()]
    with Store() as s:
        s.command("ACL", "SETUSER", "kvroute", *words, "-eval")
        scene = Scene(s, share="user: kvroute")
        scene.members[0].more += ", password_file: %s" % scene.secret("secret-of-kvroute")
        with scene as a:
            a.wait('snapshots_total{result="written"}', lambda v: v >= 1)
            wait_for("the warning", SECONDS, lambda: "refuses the scripts" in a.log())
            assert "allow share.user the command EVAL" in a.log(), a.log()
            assert a.log().count("refuses the scripts") == 1, a.log()


@case
def an_agent_that_ends_gives_the_lease_back():
    """It ends while it writes a snapshot, and the store does not answer just then."""
    key = "kvroute:{kvroute:0}:snapshot"
    lease = key + "-writer"

    def exists():
        s.command("PERSIST", lease)         # it does not just expire
        return s.command("EXISTS", lease) == 1
    with Store() as s, Scene(s, share="timeout: 60 s") as a:
        a.wait('snapshots_total{result="written"}', 1)
        agent = a.processes["agent"]
        for _ in range(1000):               # it may have written the snapshot before it is stopped
            s.command("DEL", key + "-fresh")
            wait_for("the lease", SECONDS, lambda: s.command("EXISTS", lease) == 1)
            agent.send_signal(signal.SIGSTOP)
            time.sleep(0.02)                # what it sent is carried out
            if exists():
                break
            agent.send_signal(signal.SIGCONT)
        s.stop()
        try:
            agent.send_signal(signal.SIGCONT)
            assert a.end("agent") == 0
        finally:
            s.go_on()
        wait_for("the end of the lease", SECONDS, lambda: not exists())


@case
def lease_of_another():
    """The writer gives its lease back; one that another agent has taken meanwhile it leaves alone,
    and writes no more."""
    key = "kvroute:{kvroute:0}:snapshot"
    lease, written = key + "-writer", 'snapshots_total{result="written"}'
    with Store() as s, Scene(s) as a:
        a.wait(written, 1)
        wait_for("the end of the lease", SECONDS, lambda: s.command("EXISTS", lease) == 0)
        end = time.time() + SECONDS
        while True:             # it may have written the snapshot before the lease is taken
            s.command("DEL", key + "-fresh")
            wait_for("the lease", SECONDS, lambda: s.command("EXISTS", lease) == 1)
            if s.command("SET", lease, "another", "XX") == "OK":
                break
            assert time.time() < end
        a.wait('snapshots_total{result="failed"}', lambda v: v >= 1)
        assert "another agent has it" in a.log(), a.log()
        n = a.value("batches_out_total")
        a.wait("batches_out_total", lambda v: v > n + 4)
        assert s.command("GET", lease) == b"another"


@case
def emptied_while_the_clock_is_set_back():
    """New entries have lower positions than those that were read, and the connections stay: the
    agents find it, and hear each other again."""
    with Store() as s, Scene(s, 2) as (a, b):
        for m in (a, b):
            m.wait("warm", 1)
            m.wait("siblings", 1)
        s.command("XADD", STREAM, "9999999999999-0", "b", b"a clock that is ahead")
        for m in (a, b):
            m.wait('batches_in_total{result="damaged"}', 1)
        failures = [m.value("store_failures_total") for m in (a, b)]
        s.command("FLUSHALL")
        for m in (a, b):
            m.wait("store_losses_total", lambda v: v >= 1)
            assert "lower positions" in m.log(), m.log()
            n = m.value('batches_in_total{result="new"}')
            m.wait('batches_in_total{result="new"}', lambda v: v > n + 4)
        assert failures == [m.value("store_failures_total") for m in (a, b)]


@case
def as_many_parts_as_can_be():
    """Each part is asked for before the answer to the password has come."""
    with Store(password="right-password") as s:
        scene = Scene(s, 2, share="parts: 64")
        for m in scene.members:
            m.more += ", password_file: %s" % scene.secret("right-password")
        with scene as (a, b):
            for m in (a, b):
                m.wait("warm", 1)
                m.wait("siblings", 1)


@case
def clocks_that_differ():
    """Both agents say so: they would not repair what is lost between them."""
    with Store() as s:
        scene = Scene(s, 2)
        scene.members[1].clock_off_s = 100
        with scene as (a, b):
            for m in (a, b):
                wait_for("the problem", 2 * SECONDS, lambda m=m: m.metrics().get(
                    'kvroute_problem{what="clocks_differ",pool=""}') == 1)
                assert "more than 60 seconds off" in m.log(), m.log()
            lags = [v for k, v in b.metrics().items() if k.startswith("kvroute_share_lag_seconds")]
            assert len(lags) == 1 and lags[0] > 60, lags


@case
def slow_store_is_no_silence():
    """A store that does not answer for longer than the lease of siblings, but within
    share.timeout, ends no lease."""
    with Store() as s, Scene(s, 2, share="timeout: 1 m") as (a, b):
        for m in (a, b):
            m.wait("warm", 1)
            m.wait("siblings", 1)
        s.stop()
        try:
            time.sleep(4)       # the lease is 3 s; a longer pause changes nothing
        finally:
            s.go_on()
        before = [m.value('batches_in_total{result="new"}') for m in (a, b)]
        for m, n in zip((a, b), before):
            m.wait('batches_in_total{result="new"}', lambda v, n=n: v > n)
            assert m.value("gone_total") == 0 and m.value("siblings") == 1
        assert "fallen silent" not in a.log() + b.log()


@case
def full():
    """A store without memory refuses batches; they wait, and go when there is room."""
    with Store("--maxmemory-policy", "noeviction") as s, Scene(s) as a:
        a.wait("warm", 1)
        s.command("CONFIG", "SET", "maxmemory", "1")
        a.wait("store_errors_total", lambda v: v > 0)
        wait_for("a warning", SECONDS, lambda: "OOM" in a.log() and "maxmemory" in a.log())
        a.wait("connected", 0)
        s.command("CONFIG", "SET", "maxmemory", "0")
        a.wait("connected", 1)
        a.wait("waiting_bytes", lambda v: v < 10000)
        assert a.value('dropped_total{what="batches"}') == 0


@case
def readonly():
    """A replica of nothing that is listed."""
    with Store() as first, Store("--replicaof", "127.0.0.1 %d" % first.port) as s:
        with Scene(s, share="warm_timeout: 0") as a:
            wait_for("a warning", SECONDS, lambda: "it is a replica" in a.log())
            assert "list the primary in share.servers" in a.log(), a.log()
            assert a.value("connected") == 0


@case
def failover():
    """The primary dies, a replica becomes primary, and the old one comes back as a replica."""
    with Store() as one, Store() as two:
        two.command("REPLICAOF", "127.0.0.1", one.port)
        wait_for("the replica", SECONDS, lambda: b"up" in two.command("INFO", "replication").split(
            b"master_link_status:")[1][:4])
        with Scene(one, 2, servers=[two.address, one.address]) as (a, b):
            for m in (a, b):
                m.wait("siblings", 1)
                m.wait("warm", 1)
            one.kill()
            two.command("REPLICAOF", "NO", "ONE")
            for m in (a, b):
                m.wait("connected", 1)
            one.start()
            one.command("REPLICAOF", "127.0.0.1", two.port)
            n = two.command("XLEN", STREAM)
            wait_for("batches in the new primary", SECONDS,
                     lambda: two.command("XLEN", STREAM) > n + 4)
            # and back, as an operator does it without a loss
            wait_for("the replica", SECONDS, lambda: b"up" in one.command(
                "INFO", "replication").split(b"master_link_status:")[1][:4])

            def moved():
                try:
                    two.command("FAILOVER", "TO", "127.0.0.1", one.port)
                except StoreError:
                    pass                # it has not seen its replica, or is at it
                return one.command("ROLE")[0] == b"master"
            wait_for("the failover", SECONDS, moved)
            n = one.command("XLEN", STREAM)
            wait_for("batches in the old primary", SECONDS,
                     lambda: one.command("XLEN", STREAM) > n + 4)
            for m in (a, b):
                m.wait("connected", 1)
                m.wait("siblings", 1)


class Cluster:
    """Three primaries that share the slots."""

    def __init__(self, n=3, program=None):
        self.nodes = []
        while len(self.nodes) < n:
            port = free_ports(1)[0]
            if port > 55000:
                continue
            bus = free_ports(1)[0]
            self.nodes.append(Store("--cluster-enabled", "yes", "--cluster-port", str(bus),
                                    port=port, program=program))

    def __enter__(self):
        for n in self.nodes:
            n.start()
        make_cluster(self.nodes)
        return self.nodes

    def __exit__(self, *_):
        for n in self.nodes:
            n.__exit__()


def make_cluster(nodes):
    for i, n in enumerate(nodes):
        n.command("CLUSTER", "ADDSLOTSRANGE", i * 16384 // len(nodes),
                  (i + 1) * 16384 // len(nodes) - 1)
        n.command("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
    for n in nodes[1:]:
        nodes[0].command("CLUSTER", "MEET", "127.0.0.1", n.port, n.options[3])
    wait_for("the cluster", SECONDS, lambda: all(
        b"cluster_state:ok" in n.command("CLUSTER", "INFO") for n in nodes))


@case
def cluster():
    """Streams are on all nodes, and a slot that moves is followed."""
    for program in programs():
        with Cluster(program=program) as nodes, Scene(
                None, 2, servers=[n.address for n in nodes], share="cluster: true") as (a, b):
            for m in (a, b):
                m.wait("connected", 1)
                m.wait("warm", 1)
                m.wait("siblings", 1)
            keys = {n: n.command("KEYS", "*:log") for n in nodes}
            assert sum(len(k) for k in keys.values()) == 8, keys
            source = next(n for n in nodes if keys[n])
            target = nodes[(nodes.index(source) + 1) % 3]
            move_slot(nodes, source, target, keys[source][0])
            n = target.command("XLEN", keys[source][0])
            wait_for("batches in the new node", SECONDS,
                     lambda: target.command("XLEN", keys[source][0]) > n + 4)
            for m in (a, b):
                m.wait("connected", 1)
                m.wait('missing_batches_total', 0)


def move_slot(nodes, source, target, key):
    slot = source.command("CLUSTER", "KEYSLOT", key)
    ids = [n.command("CLUSTER", "MYID") for n in nodes]
    at, to = ids[nodes.index(source)], ids[nodes.index(target)]
    target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", at)
    source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", to)
    for k in source.command("CLUSTER", "GETKEYSINSLOT", slot, 100):
        source.command("MIGRATE", "127.0.0.1", target.port, k, 0, 5000)
    for n in (target, source):
        n.command("CLUSTER", "SETSLOT", slot, "NODE", to)


@case
def cluster_and_not():
    """share.cluster that is wrong is said in both directions."""
    with Cluster() as nodes:
        slot = nodes[0].command("CLUSTER", "KEYSLOT", STREAM)
        others = [n.address for i, n in enumerate(nodes) if slot * 3 // 16384 != i]
        with Scene(None, servers=others, share="warm_timeout: 0") as a:
            wait_for("a warning", SECONDS, lambda: "set share.cluster" in a.log())
    with Store() as s, Scene(s, share="warm_timeout: 0, cluster: true") as a:
        wait_for("a warning", SECONDS, lambda: "remove share.cluster" in a.log())


class Garbage(threading.Thread):
    """Answers every connection with bytes that are no answer, or with one without an end."""

    KINDS = [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"*2147483647\r\n", b"*-7\r\n",
             b"$99999999999\r\n", b"*65536\r\n" * 1000, b"\0" * 4096, b"$-1\r\n" * 100,
             b"+OK\r\n" * 100, b"*1\r\n" * 100, b":" + b"9" * 100000, b"", None]

    def __init__(self):
        super().__init__(daemon=True)
        self.s = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.s.getsockname()[1]
        self.n = 0
        self.start()

    def run(self):
        while True:
            try:
                c, _ = self.s.accept()
            except OSError:
                return
            kind = self.KINDS[self.n % len(self.KINDS)]
            self.n += 1
            threading.Thread(target=self.talk, args=(c, kind), daemon=True).start()

    @staticmethod
    def talk(c, kind):
        try:
            c.recv(4096)
            if kind is None:        # a text without an end
                c.sendall(b"$1000000000\r\n")
                while True:
                    c.sendall(b"x" * 65536)
            c.sendall(kind)
            time.sleep(0.2)
        except OSError:
            pass
        finally:
            c.close()


@case
def garbage():
    """No answer makes sense; the agent lives, its memory is bounded, and it says what listens."""
    g = Garbage()
    with Scene(g, share="warm_timeout: 0, timeout: 200 ms") as a:
        wait_for("all kinds of garbage", SECONDS * 3, lambda: g.n > 2 * len(g.KINDS))
        assert a.value("connected") == 0
        assert SANITIZED or a.metrics()["kvroute_process_resident_memory_bytes"] < 200 << 20
        wait_for("a warning", SECONDS, lambda: "the store cannot be used" in a.log())
        assert a.log().count("level=warn") <= 3, a.log()
    g.s.close()


class Reluctant(threading.Thread):
    """An empty store that closes the connection in place of the first answers to a command.
    <answers>: to commands, in place of the usual ones."""

    def __init__(self, word, times, answers=None):
        super().__init__(daemon=True)
        self.word, self.left, self.answers = word, times, answers or {}
        self.s = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.s.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                c, _ = self.s.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(c,), daemon=True).start()

    def answer(self, words):
        usual = {b"ROLE": b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n", b"XADD": b"$3\r\n1-1\r\n",
                 b"XINFO": b"-ERR no such key\r\n", b"MGET": b"*3\r\n$-1\r\n$-1\r\n$-1\r\n",
                 b"SET": b"+OK\r\n"}
        if words[0] == b"XREAD":
            time.sleep(0.2)
        return self.answers.get(words[0], usual.get(words[0], b"$-1\r\n"))

    def talk(self, c):
        f = c.makefile("rb")
        try:
            while True:
                n = int(f.readline()[1:])
                words = [f.read(int(f.readline()[1:]) + 2)[:-2] for _ in range(n)]
                if words[0] == self.word and self.left > 0:
                    self.left -= 1
                    return
                c.sendall(self.answer(words))
        except (OSError, ValueError):
            pass
        finally:
            f.close()
            c.close()


@case
def lost_while_it_asks_for_a_snapshot():
    """The connection ends before the answer; the agent asks again, and reads the streams."""
    r = Reluctant(b"GET", 1)
    with Scene(r, share="warm_timeout: 0") as a:
        a.wait("warm", 1)
        assert r.left == 0
    r.s.close()


@case
def a_snapshot_that_never_comes():
    """The store describes one, but each time it is to give a chunk, the connection ends."""
    meta = b"1 77 2 1000 0 1 5-0"
    r = Reluctant(b"HGET", 1 << 30, {b"GET": b"$%d\r\n%s\r\n" % (len(meta), meta)})
    with Scene(r, share="warm_timeout: 0, timeout: 200 ms") as a:
        a.wait("warm", 1)
        assert "snapshot in the store refused" in a.log()
    r.s.close()


@case
def entries_that_never_end():
    """An answer that begins and does not come in time is asked for in smaller pieces, and then
    left out."""
    part = b"*1\r\n*2\r\n$%d\r\n%s\r\n*1\r\n*2\r\n$3\r\n5-1\r\n*2\r\n$1\r\nb\r\n$5000\r\nxxx" % (
        len(STREAM), STREAM.encode())
    r = Reluctant(b"none", 0, {b"XREAD": part})
    with Scene(r, share="warm_timeout: 0, timeout: 200 ms") as a:
        wait_for("a word about it", SECONDS, lambda: "too long to be ours" in a.log())
    r.s.close()


@case
def others_in_the_stream():
    """Entries that are not ours, from a stranger's fleet, damaged or huge, are counted and
    skipped."""
    with Store() as s, Scene(s) as a:
        a.wait("warm", 1)
        a.wait('batches_in_total{result="own"}', lambda v: v > 0)
        own = s.command("XREVRANGE", STREAM, "+", "-", "COUNT", 1)[0][1][1]
        s.command("XADD", STREAM, "*", "b", b"nonsense")
        s.command("XADD", STREAM, "*", "b", "1", "c", "2")
        s.command("XADD", STREAM, "*", "b", own[:-1] + bytes([own[-1] ^ 1]))
        s.command("XADD", STREAM, "*", "b", b"\xff" * 200000)
        a.wait('batches_in_total{result="damaged"}', lambda v: v >= 4)
        huge = b"x" * (40 << 20)
        s.command("XADD", STREAM, "*", "b", huge)
        wait_for("a word about it", SECONDS, lambda: "too long to be ours" in a.log())
        before = a.value('batches_in_total{result="own"}')
        a.wait('batches_in_total{result="own"}', lambda v: v > before)
        a.wait("connected", 1)
        assert SANITIZED or a.metrics()["kvroute_process_resident_memory_bytes"] < 300 << 20


@case
def strangers():
    """A fleet with another key and the same name is refused and counted."""
    with Store() as s, Scene(s) as a, Scene(s) as b:
        for m in (a, b):
            m.wait('batches_in_total{result="stranger"}', lambda v: v > 3)
            assert m.value("siblings") == 0
            m.wait("warm", 1)
            wait_for("a warning", SECONDS, lambda: "agents with another key" in m.log())
            assert "the same file key_file" in m.log()


def other_version(a, what, number=1):
    """What an agent of another version writes under the key of <a>."""
    program = os.path.join(BUILD, "tests/tools/share_batch")
    return subprocess.run([program, a.key, what, str(number)], check=True,
                          stdout=subprocess.PIPE).stdout


def said_once(m, text, *more):
    wait_for("a line: " + text, SECONDS, lambda: text in m.log())
    lines = [s for s in m.log().splitlines() if text in s]
    assert len(lines) == 1 and all(x in lines[0] for x in more), lines


@case
def entries_of_another_version():
    """Batches of a later version, entries of a kind that does not exist and entries that lack a
    field are skipped, counted, and said once; a field more is ignored. Routing and sharing go
    on."""
    with Store() as s, Scene(s, 2, alone=False) as (a, b):
        ready(a, b)
        where = {seed: ask(a, seed, 1).server for seed in range(5)}
        for i in range(1, 4):
            s.command("XADD", STREAM, "*", "b", other_version(a, "newer", i))
        for i, what in enumerate(("kind", "short", "longer", "kind", "short")):
            s.command("XADD", STREAM, "*", "b", other_version(a, what, i + 1))
        for m in (a, b):
            m.wait('batches_in_total{result="newer"}', 3)
            m.wait('skipped_entries_total{reason="unknown"}', 2)
            m.wait('skipped_entries_total{reason="bad"}', 2)
            m.wait("siblings", 2)       # the one that wrote these, by what could be read
            said_once(m, "batches of a later version", "update this agent to the version")
            said_once(m, "entries of an unknown kind", "remedy=")
            said_once(m, "entries that this agent cannot read", "the same version")
        all_read_of(a, b)
        for seed in where:
            got = ask(b, seed, 2)
            assert got.server == where[seed] and got.why == "cached", (got.server, got.why)
        s.command("XADD", STREAM, "*", "b", other_version(a, "newer", 4))
        for m in (a, b):
            m.wait('batches_in_total{result="newer"}', 4)
            said_once(m, "batches of a later version")
            m.wait("differing_parts", 0)


def all_read_of(a, b):
    """Wait until <b> has what <a> has decided, beside a third agent."""
    def ok():
        va, vb = a.metrics(), b.metrics()
        return all(vb['kvroute_share_entries_in_total{kind="%s"}' % k] >=
                   va['kvroute_share_entries_out_total{kind="%s"}' % k] for k in ("placed", "fact"))
    wait_for("all entries", SECONDS, ok)


@case
def snapshots_of_another_format():
    """A snapshot whose description or bytes have another format is not read, and said; the agent
    becomes warm, and an agent of this version writes another one."""
    about = "kvroute:{kvroute:0}:snapshot"
    with Store() as s, Scene(s, 2) as (a, b):
        ready(a, b)
        for description, text in (
                ("2 abcd 1 256 0 1 0-0 and more",
                 "the snapshot in the store has an unknown format"),
                ("1 abcd 1 256 0 1 0-0", "its format is 99, this version reads 2 and 1")):
            b.end("agent")
            s.command("HSET", about + ":000000000000abcd", "0", other_version(a, "chunk", 0xabcd))
            s.command("SET", about, description)
            b.start_agent()
            b.wait("warm", 1)
            wait_for("a word about it", SECONDS, lambda text=text: text in b.log())
            b.wait('snapshots_total{result="loaded"}', lambda v: v >= 1)
            wait_for("a readable one", SECONDS, lambda: s.command("GET", about)[:1] == b"1" and
                     b" abcd " not in s.command("GET", about))


@case
def sessions_of_another_format():
    """The index of the snapshot is loaded without them."""
    with Store() as s, Scene(s, 2) as (a, b):
        ready(a, b)
        a.wait('snapshots_total{result="written"}', lambda v: v >= 1)
        b.end("agent")
        wait_for("the end of its lease", SECONDS, lambda: a.value("siblings") == 0)
        gen = s.command("GET", "kvroute:{kvroute:0}:snapshot").split()[1].decode()
        s.command("HSET", "kvroute:{kvroute:0}:snapshot:" + gen.rjust(16, "0"), "s0",
                  other_version(a, "sessions", int(gen, 16)))
        b.start_agent()
        b.wait("warm", 1)
        said_once(b, "the sessions of a snapshot in the store are not loaded", "their format is 99")
        b.wait('snapshots_total{result="loaded"}', 1)


@case
def the_error_changes():
    """Also the next error is said, with its remedy: the store comes back with a password."""
    with Store() as s, Scene(s) as a:
        a.wait("connected", 1)
        s.kill()
        wait_for("a warning", SECONDS, lambda: "start the store" in a.log())
        s.password = "a-new-password"
        s.start()
        wait_for("another warning", SECONDS,
                 lambda: "the store wants a password: set share.password_file" in a.log())


@case
def other_parts():
    """Agents with different share.parts are told so."""
    with Store() as s, Scene(s) as a:
        a.wait('snapshots_total{result="written"}', 1)
        scene = Scene(s, share="parts: 4")
        with scene as b:
            wait_for("a warning", SECONDS, lambda: "another number of parts" in b.log())


@case
def wrong_type():
    """The key holds something else."""
    with Store() as s:
        s.command("SET", STREAM, "x")
        with Scene(s, share="warm_timeout: 0") as a:
            wait_for("a warning", SECONDS, lambda: "WRONGTYPE" in a.log())
            s.command("DEL", STREAM)
            a.wait("connected", 1)


@case
def names():
    """A name is looked up at the start; one that is unknown does not stop the agent."""
    with Store() as s, Scene(s, servers=["localhost:%d" % s.port,
                                         "no-such-host.invalid:6379"]) as a:
        a.wait("connected", 1)
        a.wait("warm", 1)
        assert "its name was not found" in a.log() and "no-such-host" in a.log()


@case
def unix_socket():
    path = tempfile.mkdtemp(prefix="kvroute-store-") + "/s"
    try:
        with Store("--unixsocket", path) as s, Scene(s, servers=["unix@" + path]) as a:
            a.wait("connected", 1)
            a.wait("warm", 1)
    finally:
        shutil.rmtree(os.path.dirname(path))


def certificates(folder, name):
    """An authority, and a certificate of <name> that it has signed, in <folder>."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=an authority", "-days", "2")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", "store.key", "-out", "store.csr", "-subj", "/CN=" + name)
    with open(os.path.join(folder, "ext"), "w") as f:
        f.write("subjectAltName=DNS:%s\n" % name)
    openssl("x509", "-req", "-in", "store.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2",
            "-CAcreateserial", "-out", "store.pem", "-extfile", "ext")


@case
def over_tls_by_haproxy():
    """The recipe store-over-tls.cfg: HAProxy carries the connection, and refuses another name."""
    if shutil.which("openssl") is None:
        print("skipped: share over TLS, there is no openssl to make certificates")
        return
    folder = tempfile.mkdtemp(prefix="kvroute-tls-")
    ports = free_ports(3)
    try:
        certificates(folder, "store-1.example.org")
        with open(os.path.join(TOP, "haproxy-conf/recipes/store-over-tls.cfg")) as f:
            text = f.read()
        for port, listen, server in ((6379, ports[0], "10.0.0.5"), (6380, ports[1], "10.0.0.6")):
            text = edited(text, "bind 127.0.0.1:%d" % port, "bind 127.0.0.1:%d" % listen)
            text = edited(text, server + ":6379", "127.0.0.1:%d" % ports[2])
        text = edited(text, "@system-ca", os.path.join(folder, "ca.pem"))
        with open(os.path.join(folder, "haproxy.cfg"), "w") as f:
            f.write(text)
        with Store("--tls-port", ports[2], "--tls-auth-clients", "no",
                   "--tls-cert-file", os.path.join(folder, "store.pem"), "--tls-key-file",
                   os.path.join(folder, "store.key"), "--tls-ca-cert-file",
                   os.path.join(folder, "ca.pem")) as s:
            proxy = subprocess.Popen([HAPROXY, "-db", "-f", os.path.join(folder, "haproxy.cfg")],
                                     stderr=subprocess.DEVNULL)
            try:
                with Scene(s, servers=["127.0.0.1:%d" % p for p in ports[:2]]) as a:
                    a.wait("connected", 1)
                    a.wait("warm", 1)
                    assert s.command("XLEN", STREAM) > 0
                # the certificate has the name of the first server only
                with Scene(s, servers=["127.0.0.1:%d" % ports[1]], share="warm_timeout: 0") as a:
                    wait_for("a warning", SECONDS, lambda: "the store cannot be used" in a.log())
                    assert a.value("connected") == 0
            finally:
                proxy.kill()
                proxy.wait()
    finally:
        shutil.rmtree(folder)


def has_tls():
    """Whether kvroute was built with a hiredis that has TLS, from version 1 on."""
    t = subprocess.run([os.path.join(BUILD, "kvroute"), "-t", "-f", "/dev/stdin"],
                       input="share: {servers: [127.0.0.1:6379], tls: true}\n",
                       capture_output=True, text=True)
    return "has no TLS" not in t.stderr


class TlsStore(Store):
    """A store that speaks TLS only, except for the commands of this test, as <name>.

    It listens on both addresses that localhost may have, because an agent tries each."""

    def __init__(self, name):
        self.certificates = tempfile.mkdtemp(prefix="kvroute-tls-")
        certificates(self.certificates, name)
        self.name, self.tls_port = name, free_ports(1)[0]
        super().__init__("--tls-port", self.tls_port, "--tls-auth-clients", "no",
                         "--tls-cert-file", self.file("store.pem"), "--tls-key-file",
                         self.file("store.key"), "--tls-ca-cert-file", self.file("ca.pem"),
                         "--bind", "127.0.0.1", "-::1")

    def file(self, name):
        return os.path.join(self.certificates, name)

    def __exit__(self, *_):
        super().__exit__()
        shutil.rmtree(self.certificates, ignore_errors=True)

    @property
    def address(self):
        return "%s:%d" % (self.name, self.tls_port)


def no_tls(what):
    if has_tls() and shutil.which("openssl") is not None:
        return False
    print("skipped: %s, needs hiredis 1 and openssl" % what)
    return True


@case
def over_tls():
    """hiredis carries TLS. An authority that did not sign the certificate, and a store that does
    not run, are said, each with its remedy."""
    if no_tls("share.tls"):
        return
    with TlsStore("localhost") as s, TlsStore("localhost") as t:
        with Scene(s, 2, share="tls: true, tls_ca: %s" % s.file("ca.pem")) as (a, b):
            for m in (a, b):
                m.wait("connected", 1)
                m.wait("warm", 1)
                m.wait("siblings", 1)
            wait_for("a snapshot", SECONDS, lambda: sum(
                m.value('snapshots_total{result="written"}') for m in (a, b)) > 0)
            assert a.value("store_failures_total") == 0, a.log()
        with Scene(s, share="warm_timeout: 0, tls: true, tls_ca: %s" % t.file("ca.pem")) as a:
            wait_for("a warning", SECONDS, lambda: "the store cannot be used" in a.log())
            assert "set share.tls_ca" in a.log(), a.log()
            assert a.value("connected") == 0
        t.kill()
        with Scene(t, share="warm_timeout: 0, tls: true, tls_ca: %s" % t.file("ca.pem")) as a:
            wait_for("a warning", SECONDS, lambda: "the store cannot be used" in a.log())
            assert "remedy=\"start the store" in a.log(), a.log()


@case
def tls_beside_one_that_is_refused():
    """A server whose certificate is refused again and again does not disturb the other one."""
    if no_tls("share.tls with two servers"):
        return
    with TlsStore("localhost") as s, TlsStore("localhost") as t:
        with Scene(s, servers=[t.address, s.address],
                   share="tls: true, tls_ca: %s" % s.file("ca.pem")) as a:
            a.wait("connected", 1)
            a.wait("warm", 1)
            n = a.value("store_connections_total") - a.value("store_failures_total")
            a.wait("store_failures_total", lambda v: v > 10)
            time.sleep(0.3)     # a new connection to the refused one may be counted already
            assert a.value("store_connections_total") - a.value("store_failures_total") <= n + 1
            assert "connection to the store lost" not in a.log(), a.log()


# ---- without a store -----------------------------------------------------------------------------


class Pair(Member):
    def agent_yaml(self):
        return Fleet.agent_yaml(self) + "key_file: %s\nindex: {max_bytes: %s}\n%s\n" % (
            self.key, self.index, "share: {%s}" % self.more if self.more else "")


@case
def pair_without_a_store():
    """A backup has what the active agent knows, when it starts and later; no other key gets it."""
    scene = Scene(None, 3, alone=False, servers=["none"])
    active, backup, other = scene.members
    for m in scene.members:
        m.__class__ = Pair
    other.key = os.path.join(scene.folder, "other")
    with open(other.key, "wb") as f:
        f.write(os.urandom(192))
    os.chmod(other.key, 0o600)
    active.more = "serve_snapshot: true"
    source = "snapshot_from: [\"127.0.0.1:%d\"], snapshot_from_every: 1 s" % active.metrics_port
    backup.more = other.more = source

    def loaded(m, result="loaded"):
        return m.metrics()['kvroute_sibling_snapshots_total{result="%s"}' % result]

    with scene:
        def learned(n):
            """All answers so far are in the next snapshot."""
            wait_for("the ends of the requests", SECONDS, lambda: active.metrics()[
                'kvroute_facts_total{kind="done"}'] >= n)

        def goes_on(seed):
            """The next turn goes where the first went; the request before counts no longer."""
            wait_for("its end", SECONDS, lambda: backup.metrics()[
                "kvroute_ledger_open_requests"] == 0)
            got = ask(backup, seed, 2)
            assert got.server == where[seed] and got.why == "cached", (got.server, got.why)

        where = {seed: ask(active, seed, 1).server for seed in range(20)}
        learned(20)
        n = loaded(backup)
        wait_for("a later snapshot", SECONDS, lambda: loaded(backup) > n + 1)
        for seed in where:
            goes_on(seed)
        where.update({seed: ask(active, seed, 1).server for seed in range(20, 30)})
        backup.end("agent", signal.SIGKILL)
        backup.start_agent()            # /ready waits for the first
        assert loaded(backup) > 0
        learned(30)
        n = loaded(backup)
        wait_for("a later snapshot", SECONDS, lambda: loaded(backup) > n + 1)
        wait_for("HAProxy's check of the agent", SECONDS,
                 lambda: backup.up_servers("spoe_agent") == 1)
        for seed in range(20, 30):
            goes_on(seed)
        wait_for("a refusal", SECONDS, lambda: loaded(other, "failed") > 1)
        assert loaded(other) == 0 and "403" in other.log(), other.log()
        assert other.log().count("no snapshot from a sibling") == 1
        port = active.metrics_port
        assert active.get("/snapshot", port)[0] == 403
        assert active.get("/snapshot?proof=0000000000000000", port)[0] == 403
        assert backup.get("/snapshot?proof=1", backup.metrics_port)[0] == 404
        active.end("agent")
        wait_for("a warning", SECONDS, lambda: "no snapshot from a sibling" in backup.log())


# ---- agents with HAProxy and engines -------------------------------------------------------------


def conversation(seed, turns):
    """The messages before the answer of turn <turns>."""
    rng = random.Random(seed)

    def words(n):
        return " ".join("%x" % rng.getrandbits(40) for _ in range(n))
    out = [{"role": "system", "content": "group %d " % (seed % 4) * 40}]
    for i in range(turns):
        if i:
            out.append({"role": "assistant", "content": words(20)})
        out.append({"role": "user", "content": words(60)})
    return out


def all_read(members):
    """Wait until each member has applied all facts and decisions that the others have put."""
    def ok():
        values = [m.metrics() for m in members]
        for kind in ("placed", "fact"):
            out = [v['kvroute_share_entries_out_total{kind="%s"}' % kind] for v in values]
            got = [v['kvroute_share_entries_in_total{kind="%s"}' % kind] for v in values]
            if any(got[i] != sum(out) - out[i] for i in range(len(values))):
                return False
        return True
    wait_for("all entries", SECONDS, ok)


def ready(*members):
    for m in members:
        m.wait("warm", 1)
        m.wait("siblings", len(members) - 1)


def ask(m, seed, turns, **kw):
    a = m.chat(conversation(seed, turns), **kw)
    assert a.status == 200, a.status
    return a


@case
def two_agents_decide_as_one():
    """What agent A has placed, agent B finds: a conversation goes on at its server."""
    with Store() as s, Scene(s, 2, alone=False) as (a, b):
        ready(a, b)
        where = {}
        for turn in range(1, 5):
            for seed in range(20):
                m = (a, b)[(turn + seed) % 2]
                all_read((a, b))        # else the request before may still count
                got = ask(m, seed, turn)
                if turn > 1:
                    assert got.server == where[seed], (turn, seed, got.server, where[seed], got.why)
                    assert got.why == "cached" and int(got.pages) > 5, (got.why, got.pages)
                where[seed] = got.server
            all_read((a, b))
        assert len(set(where.values())) > 1, where
        for m in (a, b):
            assert m.value("ignored_facts_total") == 0, m.value("ignored_facts_total")
            assert m.value("unplaced_total") == 0, m.value("unplaced_total")


@case
def without_sharing_they_do_not():
    """The same with two fleets in one store: so the case above can fail."""
    with Store() as s:
        scene = Scene(s, 2, alone=False)
        scene.members[1].more = "fleet: another"
        with scene as (a, b):
            for m in (a, b):
                m.wait("warm", 1)
            moved = 0
            for seed in range(20):
                one = ask(a, seed, 1)
                other = ask(b, seed, 2)
                moved += one.server != other.server or other.why != "cached" or \
                    int(other.pages) < 10
            assert moved == 20, moved


@case
def open_requests_of_all_count():
    """Requests that are open through A are in the ledger of B, until they end or A is gone."""
    slow = ["--prefill-tps", "100000", "--decode-ms", "200"]
    with Store() as s, Scene(s, 2, alone=False, engine_options=slow) as (a, b):
        ready(a, b)
        threads = [threading.Thread(target=a.chat, args=(conversation(i, 1), ),
                                    kwargs={"stream": True, "max_tokens": 60}) for i in range(6)]
        for t in threads:
            t.start()
        b.wait("open_requests", 6)
        for t in threads:
            t.join()
        b.wait("open_requests", 0)
        all_read((a, b))
        # the lease of an agent that is killed
        threads = [threading.Thread(target=swallow, args=(a, i)) for i in range(6)]
        for t in threads:
            t.start()
        b.wait("open_requests", 6)
        a.end("agent", signal.SIGKILL)
        b.wait("open_requests", 0)
        b.wait("siblings", 0)
        b.wait("closed_by_lease_total", lambda v: v >= 1)
        assert "a sibling has fallen silent" in b.log()
        for t in threads:
            t.join()


def swallow(m, i):
    try:
        m.chat(conversation(i, 1), stream=True, max_tokens=60)
    except OSError:
        pass


@case
def restarted_agent_is_warm():
    """It has the state of its fleet when /ready says yes, and finds what its sibling placed
    meanwhile."""
    with Store() as s, Scene(s, 2, alone=False) as (a, b):
        ready(a, b)
        where = {seed: ask((a, b)[seed % 2], seed, 1).server for seed in range(30)}
        all_read((a, b))
        b.end("agent", signal.SIGKILL)
        where.update({seed: ask(a, seed, 1).server for seed in range(30, 40)})
        b.start_agent()
        wait_for("HAProxy's check of the agent", SECONDS, lambda: b.up_servers("spoe_agent") == 1)
        assert b.value("warm") == 1 and b.value('snapshots_total{result="loaded"}') >= 1, b.log()
        found = []
        for seed in range(40):
            got = ask(b, seed, 2)
            if got.server == where[seed] and got.why == "cached":
                found.append(seed)
        # an agent that knows nothing finds none; a busy machine sends some elsewhere
        before = sum(seed < 30 for seed in found)
        assert before >= 24 and len(found) - before >= 7, found
        print("      %d of 40 conversations found after a restart" % len(found))


class LaterSibling(http.server.BaseHTTPRequestHandler):
    """Gives snapshots of a format that does not exist yet."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"kvrsnap\n" + (99).to_bytes(4, "little") + bytes(300))
        self.close_connection = True

    def log_message(self, *_):
        pass


@case
def snapshots_of_another_format_without_a_store():
    """A sibling's and the own file are refused with both formats named, the former once; the agent
    decides as one that starts empty."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), LaterSibling)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    scene = Scene(None, 1, alone=False, servers=["none"])
    m = scene.members[0]
    m.__class__ = Pair
    m.file = os.path.join(scene.folder, "index.snapshot")
    with open(m.file, "wb") as f:
        f.write(b"kvrsnap\n" + (99).to_bytes(4, "little") + bytes(300))
    os.chmod(m.file, 0o600)
    m.index += ", snapshot_file: " + m.file
    m.more = "snapshot_from: [\"127.0.0.1:%d\"], snapshot_from_every: 1 s" % server.server_port
    try:
        with scene:
            said_once(m, "snapshot rejected; the index starts empty", "its format is 99")
            assert os.path.exists(m.file + ".refused")
            wait_for("three of them", SECONDS, lambda: m.metrics()[
                'kvroute_sibling_snapshots_total{result="failed"}'] >= 3)
            said_once(m, "no snapshot from a sibling", "this version reads 2 and 1",
                      "its format is 99", "give both agents the same version")
            first = ask(m, 1, 1)
            again = ask(m, 1, 2)
            assert again.server == first.server and again.why == "cached", again.why
    finally:
        server.shutdown()


SESSIONS = 12


def talk(m, turns=2):
    """Turns of some sessions."""
    for turn in range(1, turns + 1):
        for seed in range(SESSIONS):
            ask(m, seed, turn, prompt_cache_key="session %d" % seed)


def known_sessions(m):
    return m.metrics()["kvroute_sessions"]


@case
def restarted_agent_knows_the_sessions():
    """They are in the snapshot: the streams were trimmed. It goes on as if it had been there."""
    with Store() as s, Scene(s, 2, alone=False) as (a, b):
        ready(a, b)
        talk(a)
        all_read((a, b))
        assert known_sessions(a) == known_sessions(b) == SESSIONS
        b.end("agent")
        n = a.value('snapshots_total{result="written"}')
        s.command("SET", "kvroute:{kvroute:0}:snapshot-wanted", "00000000000000ab")
        a.wait('snapshots_total{result="written"}', lambda v: v > n)
        s.command("XTRIM", STREAM, "MAXLEN", "=", 1)
        b.start_agent()
        ready(a, b)
        assert known_sessions(b) == SESSIONS, b.log()
        assert b.metrics()["kvroute_sessions_turns_total"] == 0
        wait_for("HAProxy's check of the agent", SECONDS, lambda: b.up_servers("spoe_agent") == 1)
        talk(b, 3)
        assert known_sessions(b) == SESSIONS


@case
def backup_knows_the_sessions():
    """Without a store they come with the snapshot of the sibling, as they are at each reading."""
    scene = Scene(None, 2, alone=False, servers=["none"])
    active, backup = scene.members
    for m in scene.members:
        m.__class__ = Pair
    active.more = "serve_snapshot: true"
    backup.more = "snapshot_from: [\"127.0.0.1:%d\"], snapshot_from_every: 1 s" % (
        active.metrics_port)
    with scene:
        talk(active)
        wait_for("sessions", SECONDS, lambda: known_sessions(backup) == SESSIONS)
        ask(active, SESSIONS, 1, prompt_cache_key="a later one")
        wait_for("a session more", SECONDS, lambda: known_sessions(backup) == SESSIONS + 1)
        assert active.get("/snapshot/sessions", active.metrics_port)[0] == 403
        assert backup.get("/snapshot/sessions?proof=1", backup.metrics_port)[0] == 404
        assert "no sessions from a sibling" not in backup.log()


class BadPath(http.server.BaseHTTPRequestHandler):
    """Between a sibling and its reader: the sessions arrive as <server.way> says."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.close_connection = True
        way = self.server.way if self.path.startswith("/snapshot/sessions") else "whole"
        self.server.seen[way] = self.server.seen.get(way, 0) + 1
        if way == "reset":
            return
        link = http.client.HTTPConnection("127.0.0.1", self.server.sibling, timeout=SECONDS)
        link.request("GET", self.path)
        got = link.getresponse()
        body = got.read()
        link.close()
        self.send_response(503 if way == "busy" else got.status)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body[:20] if way == "cut short" else body)

    def log_message(self, *_):
        pass


@case
def sessions_of_a_sibling_that_do_not_arrive():
    """One warning until they arrive again, with the error and a remedy for it; none if the sibling
    is busy with another reader."""
    scene = Scene(None, 2, alone=False, servers=["none"])
    active, backup = scene.members
    for m in scene.members:
        m.__class__ = Pair
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), BadPath)
    server.sibling, server.way, server.seen = active.metrics_port, "busy", {}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    active.more = "serve_snapshot: true"
    backup.more = "snapshot_from: [\"127.0.0.1:%d\"], snapshot_from_every: 1 s" % (
        server.server_port)

    def warnings():
        return [s for s in backup.log().splitlines() if "no sessions from a sibling" in s]

    def answered(way):
        """The third answer of that kind has been taken, if the fourth is asked for."""
        server.way = way
        n = server.seen.get(way, 0)
        wait_for(way, SECONDS, lambda: server.seen.get(way, 0) >= n + 4)

    try:
        with scene:
            talk(active)
            answered("busy")
            assert not warnings(), warnings()
            for n, (way, error) in enumerate((("cut short", "they are cut short"),
                                              ("reset", "closed the connection"))):
                answered(way)
                assert len(warnings()) == n + 1 and error in warnings()[n], warnings()
                assert "it is asked again" in warnings()[n], warnings()
                assert n > 0 or known_sessions(backup) == 0
                server.way = "whole"
                wait_for("sessions", SECONDS, lambda: known_sessions(backup) == SESSIONS)
                answered("whole")
            assert len(warnings()) == 2, warnings()
    finally:
        server.shutdown()


def restarted(b, sig=signal.SIGTERM, meanwhile=lambda: None):
    """End and start the agent of <b>. Returns what it has logged since, and the snapshots of
    siblings that it has loaded."""
    b.end("agent", sig)
    before = len(b.log())
    meanwhile()
    b.start_agent()
    wait_for("HAProxy's check of the agent", SECONDS, lambda: b.up_servers("spoe_agent") == 1)
    assert b.value("warm") == 1
    return b.log()[before:], b.value('snapshots_total{result="loaded"}')


def same_pairs(a, b):
    """Wait until snapshots that both agents write from now on hold the same. Returns the pairs."""
    def got():
        after = time.time()
        for m in (a, b):
            wait_for("a snapshot", SECONDS, lambda m=m: os.stat(m.file).st_mtime > after)
        pairs = [read_pairs(m.file) for m in (a, b)]
        return pairs[0] == pairs[1] and pairs[0]
    return wait_for("the same pairs", SECONDS, got)


@case
def restarted_with_its_own_snapshot_file():
    """It reads on from the positions in its file, and has missed nothing. If the streams do not
    reach back to them, or are others, it loads the snapshot of a sibling."""
    with Store() as s:
        scene = Scene(s, 2, alone=False)
        for m in scene.members:
            m.file = os.path.join(m.folder, "index.snapshot")
            m.index += ", snapshot_file: %s, snapshot_every: 300 ms" % m.file
        seeds = iter(range(1000))
        with scene as (a, b):
            ready(a, b)

            def placed(m):
                for _ in range(10):
                    ask(m, next(seeds), 1)

            def with_position():
                with open(b.file, "rb") as f:
                    return b"kvrread" in f.read()

            def again(sig, lose=lambda: None):
                placed(b)
                placed(a)
                before = same_pairs(a, b)
                wait_for("positions", SECONDS, with_position)
                log, loaded = restarted(b, sig, lambda: (placed(a), lose()))
                after = same_pairs(a, b)
                assert len(after) >= len(before) + 100, (len(before), len(after))
                ready(a, b)
                return log, loaded, b.value('held_total{what="applied"}')
            for sig in (signal.SIGTERM, signal.SIGKILL):
                log, loaded, repaired = again(sig)
                assert "its own snapshot file" in log and loaded == 0, log
                assert repaired == 0, repaired
            for lose in (lambda: s.command("XTRIM", STREAM, "MAXLEN", "=", 1),
                         lambda: s.command("FLUSHALL")):
                log, loaded, _ = again(signal.SIGTERM, lose)
                assert "were lost in the store" in log and loaded >= 1, log
                assert "its own snapshot file" not in log, log


DIGESTS = 'entries_in_total{kind="digest"}'


def equal(s, *members):
    """All hold the same: digests made now, after new connections, differ nowhere, twice."""
    end, alike = time.time() + max(SECONDS, HANG_SECONDS), 0
    while alike < 2:
        before = [(m.value("resyncs_total"), m.value(DIGESTS)) for m in members]
        s.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        for m, (rounds, digests) in zip(members, before):
            m.wait("resyncs_total", lambda v, n=rounds: v > n)
            m.wait(DIGESTS, lambda v, n=digests: v > n + 1)
        time.sleep(0.5)         # the walk that compares them
        found = [m.value("differing_parts") for m in members]
        alike = alike + 1 if found == [0] * len(members) else 0
        assert time.time() < end, found


def fault(s, what):
    """Make a fault, and return what ends it."""
    if what == "killed":
        s.kill()
        return s.start
    if what == "stopped":
        s.stop()
        return s.go_on
    if what == "flushed":
        s.command("FLUSHALL")
    if what == "trimmed":
        s.command("XTRIM", STREAM, "MAXLEN", 0)
    if what == "password":
        s.command("CONFIG", "SET", "requirepass", "another")
        s.password = "another"
        s.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        def end():
            s.command("CONFIG", "SET", "requirepass", "")
            s.password = None
        return end
    if what == "full":
        s.command("CONFIG", "SET", "maxmemory", "1")
        return lambda: s.command("CONFIG", "SET", "maxmemory", "0")
    return lambda: None


@case
def faults_under_load():
    """Each fault of the store while requests run: none fails, none waits for the store, and
    afterwards all agents hold the same."""
    with Store("--maxmemory-policy", "noeviction") as s, \
            Scene(s, 2, alone=False, engine_options=FAST, share="timeout: 300 ms") as (a, b):
        ready(a, b)
        for what in ("killed", "stopped", "flushed", "trimmed", "password", "full"):
            with Traffic(a, clients=3) as x, Traffic(b, clients=3) as y:
                wait_for("requests", SECONDS, lambda: min(x.asked, y.asked) > 20)
                end = fault(s, what)
                # these are decided and answered while the store does nothing
                asked = x.asked, y.asked
                wait_for("requests in the fault", SECONDS,
                         lambda: x.asked > asked[0] + 100 and y.asked > asked[1] + 100)
                if what not in ("flushed", "trimmed"):
                    for m in (a, b):
                        m.wait("connected", 0)
                asked = x.asked, y.asked
                wait_for("requests in the fault", SECONDS,
                         lambda: x.asked > asked[0] + 50 and y.asked > asked[1] + 50)
                end()
                for m in (a, b):
                    m.wait("connected", 1)
                asked = x.asked, y.asked
                wait_for("requests after it", SECONDS,
                         lambda: x.asked > asked[0] + 50 and y.asked > asked[1] + 50)
            failed = x.failed() + y.failed()
            assert failed == [], failed[:3]
            late = [r for r in x.rows + y.rows if r.why == "overload"]
            assert late == [], late[:3]
            ready(a, b)
            equal(s, a, b)
            print("      %-9s 0 of %d requests failed" % (what, len(x.rows) + len(y.rows)))
        for m in (a, b):
            assert m.value('dropped_total{what="batches"}') == 0


@case
def agents_and_engines_come_and_go():
    """An agent is killed under load, and starts again."""
    with Store() as s, Scene(s, 2, alone=False, engine_options=FAST, processing="2s") as (a, b):
        ready(a, b)
        with Traffic(a, clients=3) as x, Traffic(b, clients=3) as y:
            wait_for("requests", SECONDS, lambda: min(x.asked, y.asked) > 30)
            for _ in range(2):
                b.end("agent", signal.SIGKILL)
                asked = x.asked, y.asked
                wait_for("requests without it", SECONDS,
                         lambda: x.asked > asked[0] + 50 and y.asked > asked[1] + 50)
                b.start_agent()
                asked = y.asked
                wait_for("requests after it", SECONDS, lambda: y.asked > asked + 50)
        failed = x.failed() + y.failed()
        assert failed == [], failed[:3]
        ready(a, b)
        equal(s, a, b)


if __name__ == "__main__":
    t = subprocess.run([os.path.join(BUILD, "kvroute"), "-t", "-f", "/dev/stdin"],
                       input="share: {servers: [127.0.0.1:6379]}\n", capture_output=True, text=True)
    if "without hiredis" in t.stderr:
        print("skipped: share, kvroute was built without hiredis")
    elif not programs():
        print("skipped: share, there is neither redis-server nor valkey-server")
    else:
        for p in {"redis", "valkey"} - set(programs()):
            print("skipped: share with %s-server, which is not available here" % p)
        sys.exit(main(CASES, sys.argv))
    print("0 passed, 0 failed, 1 skipped")
