#!/usr/bin/env python3
"""p01_failure.py [-k WORD] - promise 1: an agent failure never fails a request.

The agent is absent, killed, stopped, silent, or answers nonsense, each while 1000 requests or more go through a real
HAProxy with the recipe. None may fail. Those that pay, pay "timeout processing" and at most 10 ms on top of what the
same HAProxy takes without an agent in the same run (the slowest of those, as the machine itself stands still at times);
and once HAProxy's check has seen the failure, none pays. What is judged is the middle one of those that paid: with this
many threads and processes on two cores the slowest says more of the machine than of the timer; it is printed as well. For the
same reason a handful is not judged: fewer than one request in a hundred.
"""
import http.client
import os
import signal
import socket
import struct
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
sys.dont_write_bytecode = True

from fleet import Fleet  # noqa: E402
from spop_client import ACK, AGENT_DISCONNECT, AGENT_HELLO, FIN, HAPROXY_HELLO, NOTIFY, Frame, Typed, kv_list, \
    message  # noqa: E402,F401

TIMEOUT_PROCESSING_MS = 50
SLACK_MS = 10
CLIENTS, PER_CLIENT = 4, 260
ENGINE = ["--prefill-tps", "10000000", "--decode-ms", "0"]
BODY = (b'{"model":"stub","max_tokens":1,"messages":[{"role":"user","content":"'
        + b"one two three four five six seven eight nine ten. " * 20 + b'"}]}')
HEADERS = {"content-type": "application/json"}


# ---- clients -------------------------------------------------------------------------------------------------

class Load:
    """CLIENTS connections, each asking one request behind the other until <stop> or <n> are done."""

    def __init__(self, port, n=PER_CLIENT):
        self.port, self.n, self.rows, self.failed = port, n, [], []
        self.threads = [threading.Thread(target=self.client) for _ in range(CLIENTS)]

    def client(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        for _ in range(self.n):
            start = time.monotonic()
            try:
                c.request("POST", "/v1/chat/completions", BODY, HEADERS)
                r = c.getresponse()
                r.read()
                if r.status != 200:
                    self.failed.append("status %d" % r.status)
            except OSError as e:
                self.failed.append(repr(e))
                c.close()
            self.rows.append((start, (time.monotonic() - start) * 1e3))

    def start(self):
        for t in self.threads:
            t.start()
        return self

    def join(self):
        for t in self.threads:
            t.join()
        return self


# ---- agents that are none ------------------------------------------------------------------------------------

def hello_frame():
    return Frame(AGENT_HELLO, FIN, 0, 0, kv_list([("version", "2.0"), ("max-frame-size", Typed("uint32", 65532)),
                                                  ("capabilities", "pipelining")])).encode()


def raw(kind, stream, frame, payload=b""):
    return Frame(kind, FIN, stream, frame, payload).encode()


SET_SERVER = bytes([1, 3, 2]) + b"\x06server" + b"\x08\x02s1"
REPLIES = {
    "random bytes": lambda f: os.urandom(200),
    "a frame of 4 GB": lambda f: b"\xff\xff\xff\xff" + os.urandom(64),
    "a frame of 0 bytes": lambda f: b"\0\0\0\0",
    "ACK of another stream": lambda f: raw(ACK, f.stream + 7, f.frame, SET_SERVER),
    "half an ACK, then closed": lambda f: raw(ACK, f.stream, f.frame, SET_SERVER)[:9],
    "actions that are none": lambda f: raw(ACK, f.stream, f.frame, b"\x63\x03\x09" + os.urandom(40)),
    "DISCONNECT instead": lambda f: raw(AGENT_DISCONNECT, 0, 0, kv_list([("status-code", Typed("uint32", 0)),
                                                                        ("message", "no")])),
    "closed at once": lambda f: b"",
    "a server that is none": lambda f: raw(ACK, f.stream, f.frame, bytes([1, 3, 2]) + b"\x06server" + b"\x08\x04nono"),
}
CLOSES = ("half an ACK, then closed", "DISCONNECT instead", "closed at once")


class FakeAgent:
    """Answers HELLO and health checks as it should, so that HAProxy believes in it, and each NOTIFY with <reply>."""

    def __init__(self, port, how):
        self.how, self.reply = how, REPLIES.get(how)
        self.s = socket.create_server(("127.0.0.1", port), backlog=512)
        self.held = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                c, _ = self.s.accept()
            except OSError:
                return
            self.held.append(c)
            if self.how != "silent":
                threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    @staticmethod
    def take(c, n):
        data = b""
        while len(data) < n:
            more = c.recv(n - len(data))
            if not more:
                raise OSError("closed")
            data += more
        return data

    def serve(self, c):
        try:
            while True:
                f = Frame.parse(self.take(c, struct.unpack(">I", self.take(c, 4))[0]))
                if f.kind == HAPROXY_HELLO:
                    c.sendall(hello_frame())
                elif f.kind == NOTIFY:
                    c.sendall(self.reply(f))
                    if self.how in CLOSES:
                        break
                else:
                    break
        except Exception:
            pass
        c.close()

    def end(self):
        self.s.close()
        for c in self.held:
            c.close()


# ---- cases ---------------------------------------------------------------------------------------------------

def baseline():
    with Fleet(engines=2, agent=False, routed=False, show=False, engine_options=ENGINE) as f:
        load = Load(f.port).start().join()
    assert not load.failed, "without an agent: %s" % load.failed[:3]
    ms = sorted(t for _, t in load.rows)
    return ms[len(ms) // 2], ms[-1]


def judge(case, load, base, bypass_from=None):
    """<bypass_from>: a time from which on HAProxy must have left the agent out."""
    median, worst = base
    added = [t - median for _, t in load.rows]
    payers = sorted(a for a in added if a > TIMEOUT_PROCESSING_MS / 2)
    paid, paid_p50 = len(payers), payers[len(payers) // 2] if payers else 0
    late = [t - median for s, t in load.rows if bypass_from and s > bypass_from]
    late_paid = sum(a > TIMEOUT_PROCESSING_MS / 2 for a in late)
    limit = TIMEOUT_PROCESSING_MS + SLACK_MS + (worst - median)
    print("promise 1: case=\"%s\" requests=%d failed=%d paid=%d added_p50_ms=%.2f paid_p50_ms=%.1f worst_ms=%.1f limit_ms=%.1f"
          % (case, len(load.rows), len(load.failed), paid, sorted(added)[len(added) // 2], paid_p50, max(added), limit)
          + (" paid_after_bypass=%d of %d" % (late_paid, len(late)) if bypass_from else ""), flush=True)
    assert len(load.rows) >= 1000, "only %d requests" % len(load.rows)
    assert not load.failed, "failed: %s" % load.failed[:3]
    assert paid < len(load.rows) // 100 or paid_p50 <= limit, "those that paid, paid %.1f ms, limit %.1f" % (paid_p50, limit)
    assert max(added) < 2000, "a request waited %.0f ms" % max(added)
    if bypass_from:
        assert len(late) > 50, "no requests left to see the bypass by"
        assert late_paid <= len(late) // 20, "%d of %d paid after the bypass" % (late_paid, len(late))


def absent(base):
    with Fleet(engines=2, agent=False, routed=True, show=False, engine_options=ENGINE) as f:
        judge("absent", Load(f.port).start().join(), base)


def signalled(name, sig):
    def case(base):
        with Fleet(engines=2, show=False, engine_options=ENGINE) as f:
            load = Load(f.port, 600).start()
            time.sleep(0.4)
            f.processes["agent"].send_signal(sig)
            at = time.monotonic()
            load.join()
            f.processes["agent"].send_signal(signal.SIGCONT)
            judge(name, load, base, at + 1.5 if load.rows[-1][0] > at + 1.7 else None)
    return name, case


def fake(how):
    def case(base):
        f = Fleet(engines=2, agent=False, routed=True, show=False, engine_options=ENGINE)
        agent = FakeAgent(f.agent_port, how)
        try:
            with f:
                judge(how, Load(f.port, PER_CLIENT).start().join(), base)
        finally:
            agent.end()
    return how, case


CASES = [("absent", absent), signalled("kill -9", signal.SIGKILL), signalled("SIGSTOP", signal.SIGSTOP)] \
    + [fake(how) for how in ["silent"] + sorted(REPLIES)]


def main():
    word = sys.argv[2] if sys.argv[1:2] == ["-k"] else ""
    base = baseline()
    print("without an agent: median %.2f ms, slowest %.1f ms" % base)
    passed = failed = 0
    for name, run in CASES:
        if word not in name:
            continue
        try:
            run(base)
            passed += 1
        except Exception:
            failed += 1
            print("failed: %s\n%s" % (name, traceback.format_exc()))
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(failed > 0)


if __name__ == "__main__":
	main()
