#!/usr/bin/env python3
"""pf_start.py [-k WORD] - the start: the order of its steps, its user, and the owners of its
files.

Each verdict depends on the order of events or on existing files, never on time. Cases that need
root are skipped with a message without it. The last line is "N passed, N failed".
"""
import os
import pwd
import re
import signal
import socket
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from agent import *  # noqa: E402,F403
from pf_sandbox import CAPS, status  # noqa: E402

CASES = []
MIB = 1 << 20


def case(f):
    CASES.append(f)
    return f


def needs_root(f):
    def skip():
        print("skipped: %s, which needs root" % f.__name__.replace("_", " "))
    g = f if os.geteuid() == 0 else skip
    g.__name__ = f.__name__
    CASES.append(g)
    return f


def runs(a):
    """Start the agent, until it serves or has ended. Returns the exit status; None: it serves."""
    log = os.path.join(a.folder, "agent.log")
    seen = len(a.log()) if os.path.exists(log) else 0
    a.spawn_agent()
    p = a.processes["agent"]
    wait_for("the agent, or its end", 30,
             lambda: p.poll() is not None or "msg=started" in a.log()[seen:])
    return p.poll()


def told(a, want):
    """Check that it ended with 1 and a sentence that contains <want>."""
    equal(runs(a), 1, "exit status (%s)" % a.log()[-300:])
    assert want in a.log(), "%r is not in %r" % (want, a.log()[-400:])
    a.processes.pop("agent")


def served(a):
    wait_for("the agent", 10, lambda: a.get("/ready", a.metrics_port)[0] == 200)
    with a.client() as c:
        assert c.notify("route", request("u", chat("hello " * 20)))["txn.server"], "no server"


def ended(a):
    equal(a.end("agent"), 0, "exit status (%s)" % a.log()[-300:])


def messages(a):
    return re.findall(r'msg=("[^"]*"|\S+)', a.log())


@case
def addresses_and_the_log_come_before_memory():
    a = Agent(agent_conf="index: {max_bytes: 64 MiB}")
    try:
        a.spawn_agent()
        wait_for("the first line", 10, lambda: "msg=listening" in a.log())
        # from that line on a connection is accepted; it is answered once the agent has started
        with a.client(timeout=30) as c:
            assert c.notify("route", request("u", chat("hello " * 20)))["txn.server"], "no server"
        served(a)
        said = messages(a)
        order = [said.index(m) for m in ("listening", '"allocating the memory of the index"',
                                         '"memory of the index allocated"',
                                         "sandbox", "started")]
        equal((order, order[0]), (sorted(order), 0), "order of the log's lines")
        assert re.search(r'level=info msg="memory of the index allocated" '
                         r'index_max_bytes=67108864 ms=\d+', a.log()), "no time"
        ended(a)
    finally:
        a.stop()


@case
def what_cannot_be_had_is_told_behind_the_first_line():
    """If memory is refused, all addresses were open before. If an address is taken, no memory was
    requested."""
    a = Agent(agent_conf="index: {max_bytes: 63 GiB}")
    try:
        told(a, "index.max_bytes")
        equal(messages(a)[0], "listening", "first line")
    finally:
        a.stop()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        a = Agent()
        a.spop_address = "127.0.0.1:%d" % s.getsockname()[1]
        try:
            told(a, "cannot listen on")
            assert "memory of the index" not in a.log(), "memory was taken first"
        finally:
            a.stop()


# ---- user of the process 

@needs_root
def root_becomes_the_user():
    nobody = pwd.getpwnam("nobody")
    a = Agent()
    state = os.path.join(a.folder, "state")
    a.agent_conf = ("user: nobody\nindex: {max_bytes: 8 MiB, snapshot_file: %s/snap, "
                    "snapshot_every: 1 s}\nlog_feed: "
                    "{tcp: [], udp: [], token_file: %s/token}\n" % (state, a.folder))
    try:
        os.mkdir(state)
        os.chown(state, nobody.pw_uid, nobody.pw_gid)
        os.chmod(a.folder, 0o755)
        with open(os.path.join(a.folder, "token"), "w", opener=lambda p,
                  f: os.open(p, f, 0o600)) as f:
            f.write("0123456789abcdef")
        a.spop_address = "unix@%s/spop.sock" % state
        yaml = a.agent_yaml().replace("state_dir: %s\n" % a.folder, "state_dir: %s\n" % state)
        a.agent_yaml = lambda: re.sub(r"(?m)^log_feed: \{tcp: \[\"127.*\n", "", yaml)
        for start in ("first", "second"):
            a.start()
            served(a)
            opener = open("/proc/%d/task/%d/children" % (a.pid, a.pid)).read().split()[0]
            for pid in (a.pid, int(opener)):
                with open("/proc/%d/status" % pid) as f:
                    s = dict(re.findall(r"(\w+):\t(.*)", f.read()))
                equal((s["Uid"].split(), s["Gid"].split()),
                      ([str(nobody.pw_uid)] * 4, [str(nobody.pw_gid)] * 4), "ids of %s" % s["Name"])
                equal([s[c] for c in CAPS], ["0" * 16] * 5, "capabilities of %s" % s["Name"])
                assert "0" not in s["Groups"].split(), "groups of %s: %s" % (s["Name"], s["Groups"])
            equal([os.stat(os.path.join(state, n)).st_uid for n in ("key", "spop.sock")],
                  [nobody.pw_uid] * 2, "owners")
            wait_for("a snapshot", 10, lambda: a.metrics()["kvroute_snapshot_written_total"] >= 1)
            a.processes["agent"].send_signal(signal.SIGHUP)
            wait_for("a reload", 10, lambda: "msg=reloaded" in a.log())
            for process in ("agent", "opener"):
                equal(a.metrics()['kvroute_sandbox_refused_total{process="%s"}' % process], 0,
                      "calls refused")
            assert "capabilities=none uid=%d" % nobody.pw_uid in a.log(), "the log does not say it"
            ended(a)
            equal(sorted(os.listdir(state)), ["key", "snap"], "files at the end")
            equal("msg=\"snapshot loaded\"" in a.log(), start == "second", "snapshot loaded")
    finally:
        a.stop()


@needs_root
def only_root_becomes_another_user():
    for conf, want in (("user: nobody\n", "only root can change to user"),
                       ("group: nogroup\n", "only root can change"),
                       ("user: no-such-user\n", "there is no user no-such-user"),
                       ("user: nobody\ngroup: no-such-group\n", "there is no group no-such-group")):
        a = Agent(agent_conf=conf, before=lambda: os.setresuid(4711, 4711, 4711))
        os.chmod(a.folder, 0o755)
        try:
            told(a, want)
        finally:
            a.stop()


@needs_root
def a_number_that_is_no_user_needs_a_group():
    a = Agent(agent_conf="user: 47119\n")
    try:
        told(a, "set the key group as well")
    finally:
        a.stop()
    a = Agent(agent_conf="user: 47119\ngroup: 47118\n")
    os.chmod(a.folder, 0o755)
    try:
        a.start()
        served(a)
        s = status(a.pid)
        equal((s["Uid"], s["Gid"], s["Groups"]), ("47119", "47118", "47118"), "ids")
        ended(a)
    finally:
        a.stop()


@case
def who_it_is_already_needs_no_root():
    me = pwd.getpwuid(os.geteuid()).pw_name
    a = Agent(agent_conf="user: %s\n" % me)
    try:
        a.start()
        served(a)
        equal([status(a.pid)[c] for c in CAPS[1:3]], ["0" * 16] * 2, "capabilities")
        ended(a)
    finally:
        a.stop()


# ---- owners of files 

@needs_root
def files_of_others_are_refused():
    a = Agent()
    key = os.path.join(a.folder, "key")
    try:
        equal(runs(a), None, "exit status")
        ended(a)
        os.chown(key, 4711, 4711)
        told(a,
             "key belongs to user 4711, neither to root nor to the agent's user 0: if it is yours, "
             "chown it")
        os.chown(key, 0, 0)
        os.rename(key, key + ".to")
        os.symlink(key + ".to", key)
        os.lchown(key, 4711, 4711)
        told(a, "link that belongs to another user")
    finally:
        a.stop()


def with_snapshot(**kw):
    a = Agent(**kw)
    a.snap = os.path.join(a.folder, "snap")
    a.agent_conf += "index: {max_bytes: 1 MiB, snapshot_file: %s}\n" % a.snap
    return a


def filled(a):
    """A snapshot of its own."""
    a.start()
    served(a)
    a.feed({"uid": "u", "srv": "s1", "st": 200})
    ended(a)
    with open(a.snap, "rb") as f:
        return f.read()


@needs_root
def a_snapshot_of_another_user_is_rejected():
    """Root with its capabilities could open it, but its owner could write any content into it."""
    a = with_snapshot(argv=["--no-sandbox"])
    try:
        filled(a)
        os.chown(a.snap, 4711, 4711)
        a.start()
        assert "belongs to user 4711" in a.log() and "snapshot loaded" not in a.log(), a.log()[
            -600:]
        equal(os.path.exists(a.snap + ".refused"), True, "put aside")
        ended(a)
    finally:
        a.stop()


@case
def a_huge_snapshot_allocates_no_memory():
    """A sparse file of 2 GB for an index of 1 MiB is rejected by its size, by its beginning, and
    with a valid beginning. VmPeak shows allocations; with one arena, because each takes 64 MiB of
    addresses and their number depends on the scheduling of threads."""
    a = with_snapshot(env={"MALLOC_ARENA_MAX": "1"})
    try:
        head = filled(a)[:48]
        a.start()
        peak = int(re.search(r"VmPeak:\s+(\d+)", open("/proc/%d/status" % a.pid).read()).group(1))
        ended(a)
        for size, begin, want in ((2 << 30, head,
                                   "but with this index.max_bytes and events.max_bytes at most"),
                                  (2 * MIB, b"", "it is not a snapshot|it is no snapshot"),
                                  (2 * MIB, head, "cut short|truncated|checksum|no sense|wrong"),
                                  (2 * MIB, head[:40] + struct.pack("<Q", 1),
                                   "checksum of its header")):
            for name in os.listdir(a.folder):
                if name.startswith("snap"):
                    os.unlink(os.path.join(a.folder, name))
            with open(a.snap, "wb", opener=lambda p, f: os.open(p, f, 0o600)) as f:
                f.write(begin)
                f.truncate(size)
            seen = len(a.log())
            a.start()
            lines = a.log()[seen:]
            assert re.search("snapshot rejected.*(%s)" % want, lines), lines[-900:]
            now = int(re.search(r"VmPeak:\s+(\d+)",
                                open("/proc/%d/status" % a.pid).read()).group(1))
            assert SANITIZED or now - peak < 16 * 1024, "%d KiB more than without it" % (now - peak)
            served(a)
            ended(a)
    finally:
        a.stop()


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
