#!/usr/bin/env python3
"""p16_restart.py [-k WORD] - promise 16: after a restart with a snapshot, at least 95 % of the hit
share is back at once.

A real HAProxy and three stub engines. Each prompt is sent once in a pass, so that a hit comes only
from the snapshot, and a slow machine judges as many. Other properties that an operator relies on: a
kill while writing leaves a file that loads; a damaged file or a full disk is logged and stops
nothing; without a key no snapshot is written. The last line is "N passed, N failed".
"""
import concurrent.futures
import glob
import json
import os
import random
import signal
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
sys.dont_write_bytecode = True

import cases  # noqa: E402
from fleet import BUILD, HANG_SECONDS, TOP, Fleet, free_ports, wait_for  # noqa: E402
from spop_client import SpopClient  # noqa: E402

CASES = []
PROMPTS = 200


def case(f):
    CASES.append(f)
    return f


def prompt(i):
    """Return a prompt: one of eight system prompts, 1 KB, and 3 KB of its own."""
    def words(seed, n):
        rng = random.Random(seed)
        return " ".join("%x" % rng.getrandbits(40) for _ in range(n))
    return [{"role": "system", "content": words("s%d" % (i % 8), 95)},
            {"role": "user", "content": words(i, 280)}]


class Kept(Fleet):
    def __init__(self, every="0", more="", **kw):
        super().__init__(engines=3, **kw)
        self.snapshots = os.path.join(self.folder, "kept")
        os.mkdir(self.snapshots)
        self.file = os.path.join(self.snapshots, "index.snapshot")
        self.agent_conf = "index: {max_bytes: 32 MiB, snapshot_file: %s, snapshot_every: %s}%s" % (
            self.file, every, more)

    def log(self):
        with open(os.path.join(self.folder, "agent.log")) as f:
            return f.read()

    def left_over(self):
        return glob.glob(self.file + ".tmp.*")

    def again(self, sig=signal.SIGTERM):
        status = self.end("agent", sig)
        self.start_agent()
        wait_for("HAProxy's check of the agent", 10, lambda: self.up_servers("spoe_agent") == 1)
        return status

    def share(self, prompts):
        """Return the share of pages that the agent expected in the caches, and the share of tokens
        that the engines had cached."""
        def one(i):
            a = self.chat(prompt(i))
            assert a.status == 200, "status %d" % a.status
            usage = a.json()["usage"]
            return (int(a.pages or 0), int(a.prompt_pages or 0),
                    usage["prompt_tokens_details"]["cached_tokens"],
                    usage["prompt_tokens"])
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            got = list(pool.map(one, prompts))
        pages, asked, cached, tokens = (sum(c) for c in zip(*got))
        return pages / max(1, asked), cached / tokens


@case
def hit_share_is_back():
    # by matches alone: how fast an engine looks depends on the load of the machine
    with Kept(more="\npolicy: {rule: cache_aware}") as f:
        order = list(range(PROMPTS))
        f.share(order)
        random.Random(1).shuffle(order)
        before, engines_before = f.share(order)
        assert before > 0.9, "only %.3f before" % before
        assert f.again() == 0, "the agent did not end well"
        assert stat.S_IMODE(os.stat(f.file).st_mode) == 0o600, "mode of the file"
        start = time.time()
        after, engines_after = f.share(order)
        took = time.time() - start
        line = [s for s in f.log().splitlines() if "snapshot loaded" in s][-1]
        print("      " + line.split(" ", 1)[1])
        print("      hit share %.3f before, %.3f after (%d requests in %.1f s); of the engines "
              "%.3f and %.3f"
              % (before, after, PROMPTS, took, engines_before, engines_after))
        assert after >= 0.95 * before, "the agent's share fell from %.3f to %.3f" % (before, after)
        assert engines_after >= 0.95 * engines_before, (
            "the engines' share fell from %.3f to %.3f") % (engines_before, engines_after)
        assert f.metrics()["kvroute_snapshot_loaded_pages"] > PROMPTS * 40, "pages that came back"


@case
def without_a_snapshot_it_is_not():
    """Show that the case above can fail."""
    with Kept() as f:
        f.share(range(40))
        f.end("agent")
        os.unlink(f.file)
        f.again()
        after, _ = f.share(range(40))
        assert after < 0.5, "%.3f without a snapshot" % after
        assert "no snapshot yet; the index starts empty" in f.log()


def snapshot_of_all(f):
    """Wait for a snapshot that was begun after this call: one may be on its way. Return the
    metrics."""
    n = f.metrics()["kvroute_snapshot_written_total"]
    return wait_for("two more snapshots", 20, lambda: f.metrics()[
        "kvroute_snapshot_written_total"] >= n + 2 and f.metrics())


@case
def written_while_requests_run():
    with Kept(every="200ms") as f:
        f.share(range(60))
        m = snapshot_of_all(f)
        assert m["kvroute_snapshot_failed_total"] == 0 and m[
            "kvroute_snapshot_age_seconds"] < HANG_SECONDS, "figures"
        assert m["kvroute_snapshot_bytes"] > 60 * 40 * 8, "bytes"
        off = [k for k, v in m.items() if k.startswith("kvroute_sandbox{") and v != 1
               and "landlock" not in k]
        assert not off or "sandbox off" in f.log(), "gaps in the sandbox: %r" % off
        # the directory is open, so its name does not matter
        os.rename(f.snapshots, f.snapshots + "-away")
        n = f.metrics()["kvroute_snapshot_written_total"]
        wait_for("one more", 10, lambda: f.metrics()["kvroute_snapshot_written_total"] > n)
        for name in os.listdir(f.snapshots + "-away"):
            try:
                os.unlink(os.path.join(f.snapshots + "-away", name))
            except FileNotFoundError:
                pass
        wait_for("an empty directory to go", 10, lambda: rmdir(f.snapshots + "-away"))
        wait_for("a failure", 10, lambda: f.metrics()["kvroute_snapshot_failed_total"] >= 1)
        assert "cannot write the snapshot; the old one stays" in f.log()
        f.share(range(10))                                   # and requests go on
        os.mkdir(f.snapshots)
        assert f.end("agent") == 0, "the end"


def rmdir(path):
    for name in os.listdir(path):
        try:
            os.unlink(os.path.join(path, name))
        except FileNotFoundError:
            pass
    os.rmdir(path)
    return True


def stop_while_writing(f):
    """Stopped with the next file half-written: once it is stopped, the file is still there."""
    pid, end = f.processes["agent"].pid, time.time() + HANG_SECONDS
    while time.time() < end:
        if not f.left_over():
            continue
        os.kill(pid, signal.SIGSTOP)
        wait_for("all threads to stand", 10, lambda: standing(pid))
        if f.left_over():
            return
        os.kill(pid, signal.SIGCONT)
    raise TimeoutError("never in the midst of a write")


def standing(pid):
    def state(task):
        with open("/proc/%d/task/%s/stat" % (pid, task)) as g:
            return g.read().rsplit(")", 1)[1].split()[0]
    return all(state(t) in "Tt" for t in os.listdir("/proc/%d/task" % pid))


@case
def killed_while_writing():
    with Kept(every="20ms") as f:
        f.share(range(100))
        snapshot_of_all(f)
        caught = 0
        for _ in range(2):
            wait_for("a snapshot", 20, lambda: f.metrics()["kvroute_snapshot_written_total"] >= 1)
            stop_while_writing(f)
            os.kill(f.processes["agent"].pid, signal.SIGKILL)
            f.processes["agent"].wait()
            caught += bool(f.left_over())
            n = f.log().count("snapshot loaded")
            f.again(signal.SIGKILL)
            assert f.log().count("snapshot loaded") == n + 1, "it was not loaded: " + f.log()[-500:]
        assert caught == 2, "killed %d times in the midst of a write" % caught
        after, _ = f.share(range(100))
        assert after > 0.9, "%.3f after %d kills" % (after, caught)


@case
def left_over_files_go():
    with Kept() as f:
        f.end("agent")
        child = subprocess.Popen(["true"])
        child.wait()
        dead, alive = f.file + ".tmp.%d" % child.pid, f.file + ".tmp.%d" % os.getpid()
        other = f.file + ".tmp.x"
        for name in (dead, alive, other):
            open(name, "w").close()
        f.again()
        assert [os.path.exists(n) for n in (dead, alive, other)] == [
            False, True, True], ( "what is left of %r") % f.left_over()


@case
def broken_files_stop_nothing():
    with Kept() as f:
        f.share(range(20))
        f.end("agent")
        with open(f.file, "rb") as g:
            good = g.read()
        for what, bad, why in (("cut", good[:-100], "cut short"), ("empty", b"", "not a snapshot"),
                               ("flipped", good[:2000] + bytes([good[2000] ^ 4]) + good[2001:],
                                "checksum")):
            with open(f.file, "wb") as g:
                g.write(bad)
            n = len(f.log())
            f.start_agent()
            line = [s for s in f.log()[n:].splitlines() if "snapshot rejected" in s]
            assert len(line) == 1 and why in line[0] and "level=warn" in line[0], "%s: %r" % (
                what, line)
            f.end("agent")          # and writes an index that is empty
            with open(f.file + ".refused", "rb") as g:
                assert g.read() == bad, "%s: it is not kept aside" % what
        with open(f.file, "wb") as g:
            g.write(good)
        os.chmod(f.file, 0o644)
        f.again()
        assert "open to its group" in f.log()
        with open(f.file + ".refused", "rb") as g:
            assert g.read() == good, "a good one of the wrong mode is not kept aside"


def of_a_release(i):
    """The prompts in tests/data/snapshot, as JSON to the byte."""
    return json.dumps({"model": "m", "messages": [
        {"role": "system", "content": "You are a helper. " * 30},
        {"role": "user", "content": ("question %d " % i) * 60}]}).encode()


@case
def snapshots_of_earlier_agents_are_read():
    """Each file of tests/data/snapshot, with the agent as it is: all their prompts are known."""
    files = sorted(glob.glob(os.path.join(TOP, "tests/data/snapshot/*.hex")))
    assert len(files) >= 2, files
    for name in files:
        with tempfile.TemporaryDirectory(prefix="kvroute-old-") as folder:
            def put(where, what):
                with open(os.path.join(folder, where), "wb", opener=lambda p, flags: os.open(
                        p, flags, 0o600)) as g:
                    g.write(what)
                return os.path.join(folder, where)
            with open(name) as g:
                old = bytes.fromhex("".join(x for x in g if not x.startswith("#")))
            socket = os.path.join(folder, "spop.sock")
            conf = put("kvroute.yaml", (
                "spop: {listen: [\"unix@%s\"]}\nlog_feed: {tcp: [], udp: []}\n"
                "metrics: {listen: []}\npools: [{name: pool}]\nkey_file: %s\n"
                "index: {max_bytes: 1 MiB, snapshot_file: %s}\n" % (
                    socket, put("key", bytes(range(192))), put("snapshot", old))).encode())
            agent = subprocess.Popen([os.path.join(BUILD, "kvroute"), "-f", conf],
                                     stderr=subprocess.PIPE)
            try:
                wait_for("the agent", HANG_SECONDS, lambda: os.path.exists(socket))
                with SpopClient("unix@" + socket) as c:
                    def hit(i):
                        """At the server that has most of the prompt; no other may be chosen."""
                        return max((a["txn.hit"], a["txn.pages"]) for a in (
                            c.notify("route", {"pool": "pool", "path": "/v1/chat/completions",
                                               "uid": "u%d" % i, "load": "h/1;%s=1,0,0,1" % s,
                                               "body": of_a_release(i)}) for s in ("s1", "s2")))
                    wait_for("the snapshot", HANG_SECONDS, lambda: hit(0) == (1000, 20))
                    got = [hit(i) for i in range(4)]
            finally:
                agent.terminate()
                log = agent.communicate(timeout=HANG_SECONDS)[1].decode()
            assert got == [(1000, 20)] * 3 + [(450, 9)], "%s: %r" % (name, got)
            assert 'msg="snapshot loaded"' in log, log


@case
def no_key_no_snapshot():
    with Kept() as f:
        path = f.write("nokey.yaml",
                       "state_dir: /nonexistent\nindex: {snapshot_file: %s}\nspop: {listen: "
                       "[\"127.0.0.1:%d\"]}\n"
                       "metrics: {listen: []}\nlog_feed: {tcp: [], udp: []}\n"
                       % ((f.file,) + tuple(free_ports(1))))
        r = subprocess.run([os.path.join(BUILD, "kvroute"), "-f", path], capture_output=True,
                           text=True, timeout=HANG_SECONDS)
        assert r.returncode == 1 and ("index.snapshot_file needs a permanent key"
                                      in r.stderr), r.stderr


if __name__ == "__main__":
    sys.exit(cases.main(CASES, sys.argv[1:]))
