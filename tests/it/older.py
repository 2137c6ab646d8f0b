#!/usr/bin/env python3
"""older.py [-k WORD] - an agent of an older version beside one of today, with a real Redis.

OLD=path names the older agent. Without it commit COMMIT is built from the history in a temporary
directory; without a history nothing is run. Last line: N passed, N failed."""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "promises")]
sys.dont_write_bytecode = True

from cases import main  # noqa: E402
from fleet import TOP, wait_for  # noqa: E402
from share import (SECONDS, Member, Pair, Scene, Store, all_read, ask, equal,  # noqa: E402
                   ready)

COMMIT = os.environ.get("COMMIT", "21c17acf")    # the first whose digests mean the same
CASES = []
old_program = None


def case(f):
    CASES.append(f)
    return f


class Older:
    """A member whose agent is of the older version, while <older> is set."""

    older = True

    def spawn(self, name, argv, **kw):
        if name == "agent" and self.older:
            argv = [old_program] + argv[1:]
        return super().spawn(name, argv, **kw)


class OlderMember(Older, Member):
    pass


class OlderPair(Older, Pair):
    pass


def all_ended(*members):
    for m in members:
        wait_for("ends of requests", SECONDS, lambda m=m: m.metrics()[
            "kvroute_ledger_open_requests"] == 0)


def goes_on(m, where, turns):
    """Each conversation goes on where it was."""
    for seed in where:
        all_ended(m)    # else the request before may still count
        got = ask(m, seed, turns)
        assert got.server == where[seed] and got.why == "cached", (seed, got.server, got.why)


def with_snapshot_file(m):
    m.file = os.path.join(m.folder, "index.snapshot")
    m.index += ", snapshot_file: %s, snapshot_every: 300 ms" % m.file


@case
def one_store():
    """Each finds what the other has placed; what they hold is equal; then each takes the snapshot
    that the other has written, and goes on from there."""
    with Store() as s:
        scene = Scene(s, 2, alone=False)
        scene.members[1].__class__ = OlderMember
        with scene as (new, old):
            ready(new, old)
            where = {seed: ask((new, old)[seed % 2], seed, 1).server for seed in range(20)}
            all_read((new, old))
            goes_on(new, where, 2)
            all_read((new, old))
            goes_on(old, where, 3)
            all_read((new, old))
            equal(s, new, old)
            for m in (new, old):
                for name, value in m.metrics().items():
                    assert not name.startswith("kvroute_share_skipped") or value == 0, (name, value)
                assert m.value('batches_in_total{result="newer"}') == 0
                assert m.value('batches_in_total{result="damaged"}') == 0
            for m, other in ((new, old), (old, new)):
                m.end("agent")
                wait_for("the end of its lease", SECONDS, lambda: other.value("siblings") == 0)
                s.command("DEL", "kvroute:{kvroute:0}:snapshot")
                m.start_agent()
                m.wait('snapshots_total{result="loaded"}', 1)
                ready(m, other)
                wait_for("HAProxy's check", SECONDS, lambda: m.up_servers("spoe_agent") == 1)
                goes_on(m, where, 4)
                all_ended(m, other)
                assert m.value('snapshots_total{result="refused"}') == 0


@case
def one_file():
    """An agent reads the snapshot file of the other version, in both directions."""
    with Store() as s:
        scene = Scene(s, 1, alone=False)
        m = scene.members[0]
        m.__class__ = OlderMember
        with_snapshot_file(m)
        with scene:
            ready(m)
            where = {seed: ask(m, seed, 1).server for seed in range(10)}
            for turn, m.older in ((2, False), (3, True)):
                all_ended(m)
                m.end("agent")
                s.command("FLUSHALL")
                before = len(m.log())
                m.start_agent()
                wait_for("HAProxy's check", SECONDS, lambda: m.up_servers("spoe_agent") == 1)
                assert "snapshot loaded" in m.log()[before:], m.log()[before:]
                goes_on(m, where, turn)


@case
def pair():
    """A backup takes the snapshot of the other version without a store, in both directions."""
    for older in (0, 1):
        scene = Scene(None, 2, alone=False, servers=["none"])
        for i, m in enumerate(scene.members):
            m.__class__ = OlderPair if i == older else Pair
        active, backup = scene.members
        active.more = "serve_snapshot: true"
        backup.more = "snapshot_from: [\"127.0.0.1:%d\"], snapshot_from_every: 1 s" % (
            active.metrics_port)
        name = 'kvroute_sibling_snapshots_total{result="loaded"}'
        with scene:
            where = {seed: ask(active, seed, 1).server for seed in range(10)}
            all_ended(active)
            n = backup.metrics()[name]
            wait_for("a later snapshot", SECONDS, lambda: backup.metrics()[name] > n + 1)
            for seed in where:
                goes_on(backup, {seed: where[seed]}, 2)
            assert "no sessions from a sibling" not in backup.log(), backup.log()


def build(folder):
    """Build the older agent in <folder>. Returns its path; None: there is no history."""
    if shutil.which("git") is None:
        return None
    there = subprocess.run(["git", "-C", TOP, "cat-file", "-e", COMMIT + "^{commit}"],
                           stderr=subprocess.DEVNULL).returncode == 0
    if not there:
        return None
    tar = subprocess.run(["git", "-C", TOP, "archive", COMMIT], check=True, stdout=subprocess.PIPE)
    subprocess.run(["tar", "x", "-C", folder], check=True, input=tar.stdout)
    ours = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "B")
    env = {k: v for k, v in os.environ.items() if k not in ours}
    subprocess.run(["make", "-s", "QUIET=1", "-j", str(os.cpu_count()), "kvroute"], cwd=folder,
                   check=True, env=env)
    return os.path.join(folder, "kvroute")


if __name__ == "__main__":
    work = tempfile.mkdtemp(prefix="kvroute-older-")
    try:
        old_program = os.environ.get("OLD") or build(work)
        if old_program is None:
            print("skipped: older, no history with %s here, and OLD names no older agent" % COMMIT)
            print("0 passed, 0 failed, 1 skipped")
        else:
            sys.exit(main(CASES, sys.argv))
    finally:
        shutil.rmtree(work)
