#!/usr/bin/env python3
"""events.py: kvroutectl events against a publisher that speaks as engines do (python3-zmq).

Last line: N passed, N failed."""
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from cases import main  # noqa: E402
from fleet import BUILD, TOP, free_ports  # noqa: E402
from with_zmq import need_zmq  # noqa: E402

zmq = need_zmq("events")

from kv_recording import messages, recorded  # noqa: E402

CTL = os.path.join(BUILD, "kvroutectl")
CASES = []


def case(f):
    CASES.append(f)
    return f


def batches():
    """Name -> payload, as the unit tests read them."""
    found, name = {}, ""
    for line in open(os.path.join(TOP, "tests/data/kvevents/events.txt")):
        if line.startswith("batch "):
            name = line.split()[1]
            found[name] = b""
        elif line.startswith("\t"):
            found[name] += bytes.fromhex(line.strip())
    return found


class Watch:
    """A publisher, and kvroutectl events connected to it."""

    def __init__(self, *args):
        port, = free_ports(1)
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.XPUB)     # reports each new subscription
        self.socket.bind("tcp://127.0.0.1:%d" % port)
        self.p = subprocess.Popen([CTL, "events", *args, "127.0.0.1:%d" % port], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if not self.socket.poll(20000):
            raise AssertionError("no subscription within 20 s: %s" % self.p.communicate()[1])
        self.topic = self.socket.recv()[1:]

    def send(self, seq, payload, topic=b"kv@a@m"):
        self.socket.send_multipart([topic, seq.to_bytes(8, "big"), payload])

    def end(self):
        """Return exit status, lines, and the text of stderr."""
        try:
            out, err = self.p.communicate(timeout=60)
        finally:
            self.p.kill()
            self.context.destroy(linger=0)
        return self.p.returncode, out.splitlines(), err


def sums(line):
    return {k: int(v) for k, v in re.findall(r"(\w+)=(-?\d+)", line)}


@case
def every_encoding():
    """Each valid batch prints its events as lines; the sums count all of them."""
    good = {n: p for n, p in batches().items() if not n.startswith("bad_")}
    w = Watch("-n", str(len(good)))
    for seq, payload in enumerate(good.values()):
        w.send(seq, payload)
    status, lines, err = w.end()
    assert (status, err) == (0, ""), (status, err)
    total = sums(lines[-1])
    assert total["batches"] == len(good) and total["damaged"] == total["bad"] == 0, lines[-1]
    assert total["lost"] == total["gaps"] == total["restarts"] == 0, lines[-1]
    assert total["events"] == len(lines) - 1, (total, len(lines))
    assert any(" stored blocks=2 first=d93890273682c804 last=b3bd88a0611be529" in x for x in lines)
    assert any(re.search(r"lag_ms=-?\d+ rank=3 topic=kv@a@m stored", x) for x in lines)


@case
def tokens_are_not_printed():
    """Neither in decimal nor in hex."""
    w = Watch("-n", "1")
    w.send(0, batches()["v09_stored_chain"])
    status, lines, _ = w.end()
    text = "\n".join(lines)
    assert status == 0 and "tokens=32" in text
    for token in (153563, 153208, 152853):
        assert str(token) not in text and "%x" % token not in text, token


@case
def losses_and_restarts():
    payload = batches()["vmap_captured"]
    w = Watch("-n", "5")
    for seq in (7, 8, 12, 0, 1):
        w.send(seq, payload)
    status, lines, _ = w.end()
    total = sums(lines[-1])
    assert (status, total["lost"], total["gaps"], total["restarts"]) == (0, 3, 1, 1), lines[-1]
    assert "lost: 3 batches, sequences 9 to 11" in lines, lines
    assert "restarted: sequence 0 after 12" in lines, lines


@case
def hostile_bytes():
    """Invalid events are counted and reported, and the command continues."""
    w = Watch("-n", "6")
    for n in ("bad_huge_array", "bad_truncated"):
        w.send(0 if n == "bad_huge_array" else 1, batches()[n])
    w.socket.send_multipart([b"t", b"123", b"x"])
    w.socket.send_multipart([b"t"] * 9)
    w.send(2, os.urandom(1 << 20))
    w.send(3, batches()["vmap_captured"])
    status, lines, err = w.end()
    total = sums(lines[-1])
    assert (status, err, total["damaged"], total["events"]) == (0, "", 5, 1), (lines, err)


@case
def a_topic_and_only_sums():
    payload = batches()["vmap_captured"]
    w = Watch("-q", "-n", "2", "-t", "kv@b")
    assert w.topic == b"kv@b", w.topic
    for topic in (b"kv@a@m", b"kv@b@m", b"kv@c@m", b"kv@b@m"):
        w.send(0 if topic == b"kv@a@m" else 5, payload, topic)
    status, lines, _ = w.end()
    assert status == 0 and len(lines) == 1 and sums(lines[0])["batches"] == 2, lines


@case
def nothing_comes():
    """Without events the exit status after -s seconds is 1, and the remedy is printed."""
    w = Watch("-s", "1")
    status, lines, err = w.end()
    assert status == 1 and sums(lines[-1])["batches"] == 0, lines
    assert "connected to 127.0.0.1:" in err and "prefix caching" in err, err


@case
def no_publisher():
    """A port of another kind, such as that of replays, and one where nothing listens."""
    socket = zmq.Context.instance().socket(zmq.ROUTER)
    replay, closed = free_ports(2)
    socket.bind("tcp://127.0.0.1:%d" % replay)
    for port in (replay, closed):
        p = subprocess.run([CTL, "events", "-s", "1", "127.0.0.1:%d" % port], text=True,
                           capture_output=True)
        assert p.returncode == 1 and "no publisher answered" in p.stderr, (port, p.stderr)
        assert "--kv-events-config" in p.stderr, p.stderr
    socket.close(0)
    p = subprocess.run([CTL, "events", "127.0.0.1"], text=True, capture_output=True)
    assert p.returncode == 1 and "ADDRESS is the engine's host:port" in p.stderr, p.stderr


@case
def ended_by_a_signal():
    w = Watch()
    w.send(0, batches()["vmap_captured"])
    assert "stored" in w.p.stdout.readline()
    w.p.send_signal(signal.SIGINT)
    status, lines, err = w.end()
    assert (status, err) == (0, "") and sums(lines[-1])["batches"] == 1, (lines, err)


def counted(path):
    """The sums of events as the recorder counted them, with another decoder."""
    keys = {"BlockStored": "blocks_stored", "BlockRemoved": "blocks_removed"}
    total = {"blocks_stored": 0, "blocks_removed": 0, "clears": 0, "batches": 0, "events": 0}
    for line in gzip.open(path, "rt"):
        total["batches"] += 1
        for kind, hashes in json.loads(line)[3]:
            total["events"] += 1
            total[keys.get(kind, "clears")] += hashes if kind in keys else 1
    return total


def recordings_of_vllm():
    """Recordings of vLLM 0.32: the sums equal those of its recorder."""
    folder = os.path.join(TOP, "../shared/data/vllm")
    for name in ("a-llama-b128-sha256", "b-qwen3-b32-sha256", "d-gptoss-b32-hybrid",
                 "e-llama-b64-bytes-lora", "truth-qwen3-b32-sha256cbor"):
        path = os.path.join(folder, name)
        want = counted(path + ".times.gz")
        frames = list(messages(recorded(path, ".frames")))
        w = Watch("-q", "-n", str(len(frames)))
        for i, parts in enumerate(frames):
            w.socket.send_multipart(parts)
            if i % 500 == 499:
                time.sleep(0.05)        # a publisher drops what is above its high water mark
        status, lines, err = w.end()
        total = sums(lines[-1])
        print("recording: %s: %s" % (name, lines[-1]))
        assert (status, err) == (0, ""), (name, status, err)
        for key, n in {"damaged": 0, "bad": 0, "unknown": 0, "lost": 0, **want}.items():
            assert total[key] == n, (name, key, n, total)


@case
def used_wrongly():
    for args in ([], ["-n", "0", "a:1"], ["-n", "x", "a:1"], ["-s", "-1", "a:1"], ["a:1", "b:2"],
                 ["-z"]):
        p = subprocess.run([CTL, "events", *args], capture_output=True, text=True, timeout=20)
        assert p.returncode == 64 and "usage:" in p.stderr, (args, p)
    p = subprocess.run([CTL, "events", "nosuch://a:1"], capture_output=True, text=True, timeout=20)
    assert p.returncode == 1 and "nosuch://a:1: " in p.stderr, p
    p = subprocess.run([CTL, "events", "-h"], capture_output=True, text=True, timeout=20)
    assert p.returncode == 0 and "ADDRESS" in p.stdout, p


if __name__ == "__main__":
    p = subprocess.run([CTL, "events", "127.0.0.1"], capture_output=True, text=True, timeout=20)
    if "without libzmq" in p.stderr:
        print("skipped: events, kvroutectl was built without libzmq")
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(0)
    if os.path.exists(os.path.join(TOP, "../shared/data/vllm")):
        CASES.append(recordings_of_vllm)
    else:
        print("skipped: events, recordings of vLLM: there is no ../shared/data/vllm")
    sys.exit(main(CASES, sys.argv))
