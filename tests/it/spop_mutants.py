"""spop_mutants.py - a small correct SPOE agent, and variants with one mistake each.

    with MutantAgent("never-acks") as a:
        ... a.address ...

Without a mutation it passes every case of `kvroutectl spop-check --strict`. A mutation is a name
that the agent tests at one place and then makes its mistake. MUTATIONS lists them with the cases
that must detect each. The agent shares no code with kvroute or the checker: its codec is that of
tests/tools/spop_client.py.
"""
import os
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
sys.dont_write_bytecode = True

from spop_client import (ABORT, ACK, AGENT_DISCONNECT, AGENT_HELLO, FIN,  # noqa: E402
                         HAPROXY_DISCONNECT, HAPROXY_HELLO, NOTIFY, UNSET, Frame, Reader,
                         SpopError, Typed, kv_list)

# Mistake: the cases that must fail. Others may fail only if the list ends with "*".
MUTATIONS = {
    "never-acks": ["notify/one", "notify/no-messages", "types/all", "ack/stream-0", "*"],
    "acks-another-stream": ["notify/one", "ack/stream-0", "ack/ids-by-length", "*"],
    "acks-frame-id-1": ["ack/frame-ids", "ack/ids-by-length", "ack/size", "streams/interleaved"],
    "acks-twice": ["notify/one", "streams/20-at-once", "*"],
    "acks-without-fin": ["notify/one", "*"],
    "acks-above-size": ["ack/size", "hello/size-256", "frame/at-size-256"],
    "acks-on-latest-connection": ["ack/same-connection", "*"],
    "acks-on-oldest-connection": ["ack/same-connection", "*"],
    "acks-with-bad-actions": ["notify/one", "*"],
    "acks-with-bad-scope": ["notify/one", "*"],
    "acks-aborted": ["fragments/abort", "disconnect/in-fragments"],
    "acks-each-fragment": ["fragments/three", "fragments/small", "fragments/interleaved",
                           "fragments/notify-between",
                           "fragments/abort", "fragments/open-twice", "disconnect/in-fragments"],
    "acks-before-hello": ["order/notify-before-hello"],
    "acks-no-empty-notify": ["notify/no-messages"],
    "closes-on-unknown-message": ["notify/unknown-message"],
    "silent-on-bad-payload": ["notify/nb-args-more", "notify/name-beyond-frame",
                              "notify/varint-13-bytes",
                              "notify/every-prefix", "*"],
    "no-goodbye": ["disconnect/after-hello", "disconnect/after-ack", "disconnect/before-hello",
                   "disconnect/after-notify",
                   "disconnect/idle-timeout", "disconnect/one-byte-writes", "*"],
    "goodbye-stays-open": ["disconnect/after-hello", "disconnect/after-ack",
                           "disconnect/own-status", "*"],
    "goodbye-without-status": ["disconnect/after-hello", "hello/no-size", "*"],
    "goodbye-of-own-status": ["hello/no-versions", "hello/versions-3.0-only", "frame/above-size",
                              "*"],
    "refuses-without-goodbye": ["hello/no-versions", "hello/no-size", "hello/versions-3.0-only",
                                "*"],
    "healthcheck-stays-open": ["hello/healthcheck-closes"],
    "healthcheck-unanswered": ["hello/healthcheck", "hello/healthcheck-closes",
                               "hello/healthcheck-as-haproxy"],
    "hello-version-1.0": ["hello/usual", "*"],
    "hello-raises-size": ["hello/usual", "hello/size-256", "*"],
    "hello-lowers-size": ["hello/usual"],
    "hello-without-capabilities": ["hello/usual", "*"],
    "hello-in-pieces": ["hello/length-word"],
    "hello-again": ["order/hello-twice"],
    "takes-version-3.0": ["hello/versions-3.0-only"],
    "takes-only-2.0": ["hello/versions-list", "hello/versions-reversed", "hello/versions-spaces",
                       "hello/versions-2.1"],
    "takes-no-size": ["hello/no-size", "*"],
    "takes-size-255": ["hello/size-255", "hello/size-0"],
    "wants-engine-id": ["hello/no-engine-id", "hello/healthcheck-as-haproxy"],
    "dies-on-length-0": ["frame/length-0", "*"],
    "waits-for-any-length": ["frame/length-2^31", "frame/length-2^32-1", "order/http-request",
                             "frame/above-size"],
    "size-off-by-one": ["frame/at-size", "frame/at-size-256"],
    "ids-of-32-bits": ["ack/ids-of-64-bits", "ack/ids-by-length"],
    "strings-are-utf8": ["notify/not-utf8"],
    "bool-has-a-byte": ["types/bool", "types/unused-flags", "types/all"],
    "ipv6-is-short": ["types/ipv6", "types/all"],
    "int32-is-not-extended": ["types/int32", "types/all"],
    "null-unknown": ["types/null", "types/all"],
    "a-read-is-a-frame": ["hello/one-byte-writes", "hello/every-cut", "notify/one-byte-writes",
                          "notify/every-cut", "*"],
    "a-read-is-one-frame-at-most": ["streams/20-at-once", "streams/interleaved", "*"],
    "one-connection-at-a-time": ["ack/same-connection", "peer/silent", "peer/half-a-frame"],
    "dies-on-half-a-frame": ["peer/hangs-up", "*"],
    "dies-on-reset": ["peer/resets", "*"],
}

class Bye(Exception):
    """End the connection with this status; None: without a DISCONNECT."""

    def __init__(self, status):
        super().__init__("bye %s" % status)
        self.status = status


class MutantReader(Reader):
    """Typed data, read wrongly on demand."""

    def __init__(self, data, mutation):
        super().__init__(data)
        self.m = mutation

    def value(self):
        kind = self.data[self.at] & 0x0F if len(self) else 0
        if kind == 0 and self.m == "null-unknown":
            raise Bye(4)
        v = super().value()
        if kind == 1 and self.m == "bool-has-a-byte":
            self.take(1)
        if kind == 2 and self.m == "int32-is-not-extended" and isinstance(v, int) and v < 0:
            raise Bye(4)
        if kind == 7 and self.m == "ipv6-is-short":
            self.at -= 12
        return v

    def name(self):
        raw = self.string()
        try:
            return raw.decode("utf-8", "strict" if self.m == "strings-are-utf8"
                              else "backslashreplace")
        except UnicodeDecodeError:
            raise Bye(4)


class Connection:
    def __init__(self, agent, sock):
        self.agent, self.sock, self.m = agent, sock, agent.mutation
        self.size, self.ready, self.open, self.buf = 16384, False, {}, b""

    # ---- bytes

    def take(self, n):
        while len(self.buf) < n:
            data = self.sock.recv(65536)
            if not data:
                if self.buf and self.m == "dies-on-half-a-frame":
                    self.agent.die()
                raise Bye(None)
            self.buf += data
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def read_frame(self):
        if self.m == "a-read-is-a-frame" or self.m == "a-read-is-one-frame-at-most":
            return self.read_frame_badly()
        n = struct.unpack(">I", self.take(4))[0]
        if n == 0 and self.m == "dies-on-length-0":
            self.agent.die()
        limit = self.size - (self.m == "size-off-by-one" and self.ready)
        if n > limit and self.m != "waits-for-any-length":
            raise Bye(3)
        if n < 7:
            raise Bye(4)
        return self.take(n)

    def read_frame_badly(self):
        if self.m == "a-read-is-a-frame":
            data = self.sock.recv(65536)
        else:       # waits for the whole frame, then drops the bytes after it
            data = self.take(4)
            data += self.take(min(struct.unpack(">I", data)[0], 1 << 20))
            self.buf = b""
        if not data:
            raise Bye(None)
        if len(data) < 11 or struct.unpack(">I", data[:4])[0] > len(data) - 4:
            raise Bye(4)
        return data[4:4 + struct.unpack(">I", data[:4])[0]]

    def send(self, data):
        self.sock.sendall(data)

    # ---- frames out

    def bye(self, status):
        if self.m == "goodbye-of-own-status" and status != 0:
            status = 42
        items = [("status-code", Typed("uint32", status)), ("message", "goodbye")]
        self.send(Frame(AGENT_DISCONNECT, FIN, 0, 0,
                        kv_list(items[self.m == "goodbye-without-status":])).encode())

    def ack(self, stream, frame):
        m = self.m
        payload = bytes([1, 3, 2]) + b"\x06server" + b"\x08\x02s1"
        if m == "acks-above-size":
            payload = bytes([1, 3, 2]) + b"\x06server" + b"\x08\xf0\x0a" + b"x" * 400
        if m == "acks-with-bad-actions":
            payload = bytes([1, 2, 2]) + b"\x06server"
        if m == "acks-with-bad-scope":
            payload = bytes([1, 3, 9]) + b"\x06server" + b"\x08\x02s1"
        if m == "never-acks":
            return
        if m == "acks-frame-id-1":
            frame = 1
        if m == "ids-of-32-bits":
            stream, frame = stream & 0xFFFFFFFF, frame & 0xFFFFFFFF
        data = Frame(ACK, 0 if m == "acks-without-fin" else FIN,
                     stream + (m == "acks-another-stream"), frame, payload).encode()
        if m == "acks-twice":
            data += data
        if m == "acks-on-oldest-connection":
            threading.Event().wait(0.05)    # ended ones have left the list
        to = {"acks-on-latest-connection": self.agent.latest,
              "acks-on-oldest-connection": self.agent.open[0]}.get(m, self)
        to.send(data)

    # ---- frames in

    def on_hello(self, f):
        if not f.flags & FIN:
            raise Bye(10)
        if f.stream or f.frame:
            raise Bye(4)
        items = f.items()
        for key, kind, status in (("supported-versions", str, 5), ("max-frame-size", int, 6),
                                  ("capabilities", str, 7)):
            if key not in items:
                if key == "max-frame-size" and self.m == "takes-no-size":
                    items[key] = 16380
                    continue
                raise Bye(status)
            if type(items[key]) is not kind:
                raise Bye(4)
        versions = [v.strip() for v in items["supported-versions"].split(",")]
        speaks = any(v.split(".")[0] == "2" for v in versions)
        if self.m == "takes-only-2.0":
            speaks = items["supported-versions"] == "2.0"
        if self.m == "takes-version-3.0":
            speaks = speaks or "3.0" in versions
        if not speaks:
            raise Bye(8)
        if self.m == "wants-engine-id" and "engine-id" not in items:
            raise Bye(4)
        if items["max-frame-size"] < 256 and self.m != "takes-size-255":
            raise Bye(9)
        self.size = min(items["max-frame-size"], 1 << 20)
        if self.m == "healthcheck-unanswered" and items.get("healthcheck"):
            raise Bye(None)
        said = {"hello-raises-size": 1 << 20,
                "hello-lowers-size": min(self.size, 4096)}.get(self.m, self.size)
        if self.m == "hello-lowers-size":
            self.size = said
        reply = [("version", "1.0" if self.m == "hello-version-1.0" else "2.0"),
                 ("max-frame-size", Typed("uint32", said)),
                 ("capabilities",
                  "" if self.m == "announces-nothing" else "pipelining,fragmentation")]
        data = Frame(AGENT_HELLO, FIN, 0, 0,
                     kv_list(reply[:2 if self.m == "hello-without-capabilities" else 3])).encode()
        if self.m == "hello-in-pieces":
            self.send(data[:2])
            data = data[2:]
            threading.Event().wait(0.005)
        self.send(data)
        self.ready = True
        if items.get("healthcheck") and self.m != "healthcheck-stays-open":
            raise Bye(None)

    def check_messages(self, payload):
        """Read all messages. Invalid ones are answered, too, because HAProxy waits for it."""
        r = MutantReader(payload, self.m)
        try:
            while len(r):
                name = r.name()
                if self.m == "closes-on-unknown-message" and name == "a-message-that-nobody-knows":
                    raise Bye(99)
                for _ in range(r.byte()):
                    r.name()
                    r.value()
        except SpopError:
            if self.m == "silent-on-bad-payload":
                return False
            if self.m in ("bool-has-a-byte", "ipv6-is-short"):
                raise Bye(4)
        return True

    def notify(self, ids, payload):
        if self.m == "acks-no-empty-notify" and not payload:
            return
        if self.check_messages(payload):
            self.ack(*ids)

    def on_notify(self, f):
        ids = (f.stream, f.frame)
        if ids in self.open:
            raise Bye(11)
        if f.flags & FIN:
            self.notify(ids, f.payload)
            return
        self.open[ids] = f.payload
        if self.m == "acks-each-fragment":
            self.ack(*ids)

    def on_unset(self, f):
        ids = (f.stream, f.frame)
        if ids not in self.open:
            raise Bye(12)
        payload = self.open[ids] = self.open[ids] + f.payload
        if self.m == "acks-each-fragment":
            self.ack(*ids)
        if f.flags & ABORT:
            del self.open[ids]
            if self.m == "acks-aborted":
                self.ack(*ids)
        elif f.flags & FIN:
            del self.open[ids]
            self.notify(ids, payload)

    def on_disconnect(self):
        if self.m == "acks-aborted":
            for ids in self.open:
                self.ack(*ids)
        if self.m == "no-goodbye":
            raise Bye(None)
        if self.m == "goodbye-stays-open":
            self.bye(0)
            self.take(1 << 30)
        raise Bye(0)

    def on_frame(self, f):
        if f.kind == HAPROXY_DISCONNECT:
            self.on_disconnect()
        elif f.kind == HAPROXY_HELLO and (not self.ready or self.m == "hello-again"):
            self.on_hello(f)
        elif not self.ready:
            if self.m == "acks-before-hello" and f.kind == NOTIFY:
                self.ack(f.stream, f.frame)
            raise Bye(4)
        elif f.kind == HAPROXY_HELLO:
            raise Bye(4)
        elif f.kind == NOTIFY:
            self.on_notify(f)
        elif f.kind == UNSET:
            self.on_unset(f)

    def serve(self):
        try:
            while True:
                try:
                    self.on_frame(Frame.parse(self.read_frame()))
                except (SpopError, ValueError):
                    raise Bye(4)
        except Bye as b:
            self.end(b.status)
        except ConnectionResetError:
            if self.m == "dies-on-reset":
                self.agent.die()
        except OSError:
            pass
        self.agent.open.remove(self)
        self.sock.close()

    def end(self, status):
        """Say why, then let the peer read it: closing with bytes unread would be a reset."""
        try:
            if status is not None and not (self.m == "refuses-without-goodbye" and status != 0):
                self.bye(status)
            self.sock.shutdown(socket.SHUT_WR)
            self.sock.settimeout(180)
            while self.sock.recv(65536):
                pass
        except OSError:
            pass


class MutantAgent:
    def __init__(self, mutation=""):
        self.mutation, self.dead, self.conns, self.open, self.latest = mutation, False, [], [], None
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.die()

    def die(self):
        """Close the listener and all connections, like a crash."""
        self.dead = True
        for s in [self.listener] + self.conns:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def accept(self):
        while not self.dead:
            try:
                sock, _ = self.listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                return
            self.conns = [c for c in self.conns if c.fileno() >= 0] + [sock]
            self.latest = Connection(self, sock)
            self.open.append(self.latest)
            if self.mutation == "one-connection-at-a-time":
                self.latest.serve()
            else:
                threading.Thread(target=self.latest.serve, daemon=True).start()


if __name__ == "__main__":
    with MutantAgent(sys.argv[1] if len(sys.argv) > 1 else "") as agent:
        print(agent.address, flush=True)
        agent.thread.join()
