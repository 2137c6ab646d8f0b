#!/usr/bin/env python3
"""A small SPOP 2.0 client: HAProxy's side of the protocol, for tests and for trying an agent by
hand.

    with SpopClient("127.0.0.1:9400") as c:      # or "unix@/run/kvroute/spop.sock", or a path
        c.notify("route", {"uid": "1", "body": b"{}"})   # -> {"txn.server": "s1", "txn.hit": 870}

Several in flight:  ids = [c.send([("route", args)]) for ...];  c.wait(ids[3])
In fragments:       c.notify("route", args, fragment=200)
A health check:     healthcheck("127.0.0.1:9400")

From the command line it sends one route message and prints each variable as key=value:

    spop_client.py -a 127.0.0.1:9400 uid=1 pool=llm blen:=2 body=@body.json

name=text is a string, name:=N an integer, name=@FILE the bytes of a file (@- is standard input)."""

import argparse
import socket
import struct
import sys

UNSET, HAPROXY_HELLO, HAPROXY_DISCONNECT, NOTIFY = 0, 1, 2, 3
AGENT_HELLO, AGENT_DISCONNECT, ACK = 101, 102, 103
FIN, ABORT = 1, 2
SCOPES = ("proc", "sess", "txn", "req", "res")


class SpopError(Exception):
    """The received bytes are not SPOP, or not the expected frame."""


class Disconnected(SpopError):
    """The agent sent AGENT-DISCONNECT, or closed the connection (status None)."""

    def __init__(self, status, message):
        super().__init__("disconnected: status %s, %s" % (status, message))
        self.status, self.message = status, message


# ---- bytes 

def varint(n):
    if n < 240:
        return bytes([n])
    out = [0xF0 | n & 0xFF]
    n = (n - 240) >> 4
    while n >= 128:
        out.append(0x80 | n & 0x7F)
        n = (n - 128) >> 7
    out.append(n)
    return bytes(out)


def string(s):
    s = s.encode() if isinstance(s, str) else bytes(s)
    return varint(len(s)) + s


class Typed:
    """A value with its SPOP type named: Typed("uint32", 5), Typed("ipv4", "192.0.2.1")."""

    TYPES = ("null", "bool", "int32", "uint32", "int64", "uint64", "ipv4", "ipv6", "str", "bin")

    def __init__(self, kind, value=None):
        self.kind, self.value = kind, value

    def encode(self):
        t, v = self.TYPES.index(self.kind), self.value
        if t == 0:
            return b"\x00"
        if t == 1:
            return b"\x11" if v else b"\x01"
        if t <= 5:
            return bytes([t]) + varint(v & 0xFFFFFFFFFFFFFFFF)
        if t <= 7:
            return bytes([t]) + socket.inet_pton(socket.AF_INET if t == 6 else socket.AF_INET6, v)
        return bytes([t]) + string(v)


def value(v):
    """A Python value as typed data, in the types HAProxy would use."""
    if isinstance(v, Typed):
        return v.encode()
    if v is None:
        return Typed("null").encode()
    if isinstance(v, bool):
        return Typed("bool", v).encode()
    if isinstance(v, int):
        return Typed("int64", v).encode()
    return Typed("str" if isinstance(v, str) else "bin", v).encode()


def kv_list(items):
    return b"".join(string(k) + value(v) for k, v in items)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def __len__(self):
        return len(self.data) - self.at

    def take(self, n):
        if n > len(self):
            raise SpopError("bytes are missing")
        self.at += n
        return self.data[self.at - n:self.at]

    def byte(self):
        return self.take(1)[0]

    def varint(self):
        n = self.byte()
        if n >= 240:
            shift = 4
            while True:
                b = self.byte()
                n += b << shift
                shift += 7
                if b < 128:
                    break
        if n >= 1 << 64:
            raise SpopError("varint out of range")
        return n

    def string(self):
        return self.take(self.varint())

    def name(self):
        return self.string().decode("utf-8", "backslashreplace")

    def value(self):
        b = self.byte()
        t = b & 0x0F
        if t == 0:
            return None
        if t == 1:
            return bool(b & 0x10)
        if t <= 5:
            n = self.varint()
            return n - (1 << 64) if t in (2, 4) and n >= 1 << 63 else n
        if t == 6:
            return socket.inet_ntop(socket.AF_INET, self.take(4))
        if t == 7:
            return socket.inet_ntop(socket.AF_INET6, self.take(16))
        if t == 8:
            return self.name()
        if t == 9:
            return self.string()
        raise SpopError("unknown data type %d" % t)

    def kv_list(self):
        out = {}
        while len(self):
            k = self.name()
            out[k] = self.value()
        return out


class Frame:
    def __init__(self, kind, flags, stream, frame, payload):
        self.kind, self.flags, self.payload = kind, flags, payload
        self.stream, self.frame = stream, frame

    def encode(self):
        body = (bytes([self.kind]) + struct.pack(">I", self.flags) + varint(self.stream) +
                varint(self.frame) + self.payload)
        return struct.pack(">I", len(body)) + body

    @classmethod
    def parse(cls, body):
        r = Reader(body)
        kind, flags = r.byte(), struct.unpack(">I", r.take(4))[0]
        stream, frame = r.varint(), r.varint()
        return cls(kind, flags, stream, frame, r.take(len(r)))

    def items(self):
        return Reader(self.payload).kv_list()

    def variables(self):
        """The actions of an ACK: {"txn.server": "s1"}; a variable unset is None."""
        r, out = Reader(self.payload), {}
        while len(r):
            action, n_args = r.byte(), r.byte()
            if (action, n_args) not in ((1, 3), (2, 2)):
                raise SpopError("action %d with %d arguments" % (action, n_args))
            scope = r.byte()
            if scope >= len(SCOPES):
                raise SpopError("scope %d" % scope)
            name = SCOPES[scope] + "." + r.name()
            out[name] = r.value() if action == 1 else None
        return out


def message(name, args):
    """One message; <args> is a dict, or pairs when an argument has no name or comes twice."""
    args = list(args.items() if isinstance(args, dict) else args)
    return string(name) + bytes([len(args)]) + kv_list(args)


# ---- a connection 

class SpopClient:
    """Open a connection and exchange HELLO; .hello has the values that the agent announced."""

    def __init__(self, address, timeout=180.0, max_frame_size=16380, capabilities="pipelining",
                 versions="2.0", engine_id="spop-client", handshake=True):
        self.frame_size, self.timeout = max_frame_size, timeout
        self.next_stream, self.acks, self.pending, self.buf = 1, {}, set(), b""
        self.hello = None
        self.sock = self._connect(address, timeout)
        if not handshake:
            return
        try:
            items = [("supported-versions", versions),
                     ("max-frame-size", Typed("uint32", max_frame_size)),
                     ("capabilities", capabilities)]
            if engine_id is not None:
                items.append(("engine-id", engine_id))
            self.hello = self.shake_hands(items)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _connect(address, timeout):
        path = address[5:] if address.startswith("unix@") else address if "/" in address else None
        if path is not None:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.settimeout(timeout)
            sock.connect(path)
            return sock
        host, _, port = address.rpartition(":")
        sock = socket.create_connection((host.strip("[]") or "127.0.0.1", int(port)), timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def __enter__(self):
        return self

    def __exit__(self, kind, exc, trace):
        if kind is None and self.sock:
            try:
                self.disconnect()
            except (SpopError, OSError):
                pass
        self.close()

    def close(self):
        if self.sock:
            self.sock.close()
        self.sock = None

    # frames, as they are

    def send_raw(self, data):
        self.sock.sendall(data)

    def send_frame(self, kind, payload=b"", flags=FIN, stream=0, frame=0):
        self.send_raw(Frame(kind, flags, stream, frame, payload).encode())

    def _receive(self, n):
        while len(self.buf) < n:
            data = self.sock.recv(65536)
            if not data:
                raise Disconnected(None, "the agent closed the connection")
            self.buf += data
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def read_frame(self):
        """Return the next frame of any kind. Raises Disconnected at the end of the stream."""
        n = struct.unpack(">I", self._receive(4))[0]
        if n > max(self.frame_size, 16384):
            raise SpopError("a frame of %d bytes" % n)
        f = Frame.parse(self._receive(n))
        if not f.flags & FIN:
            raise SpopError("the agent sent a fragment")
        return f

    def _expect(self, kind):
        f = self.read_frame()
        if f.kind == AGENT_DISCONNECT:
            items = f.items()
            raise Disconnected(items.get("status-code"), items.get("message"))
        if f.kind != kind:
            raise SpopError("a frame of type %d where %d should be" % (f.kind, kind))
        return f

    # the protocol

    def shake_hands(self, items):
        self.send_frame(HAPROXY_HELLO, kv_list(items))
        hello = self._expect(AGENT_HELLO).items()
        for key in ("version", "max-frame-size", "capabilities"):
            if key not in hello:
                raise SpopError("no %s in AGENT-HELLO" % key)
        if hello["max-frame-size"] > self.frame_size:
            raise SpopError("the agent raised max-frame-size")
        self.frame_size = hello["max-frame-size"]
        return hello

    def send(self, messages, stream=None, frame=1, fragment=None):
        """Send a NOTIFY and do not wait. <messages>: pairs of a name and its arguments. <fragment>:
        bytes of payload in each frame. Returns the ids for wait()."""
        if stream is None:
            stream, self.next_stream = self.next_stream, self.next_stream + 2
        payload = b"".join(message(n, a) for n, a in messages)
        if fragment is None:
            parts = [payload]
        else:
            parts = [payload[i:i + fragment] for i in range(0, len(payload), fragment)] or [b""]
        for i, part in enumerate(parts):
            self.send_frame(UNSET if i else NOTIFY, part, FIN if i == len(parts) - 1 else 0, stream,
                            frame)
        self.pending.add((stream, frame))
        return stream, frame

    def abort(self, stream, frame=1):
        """Abort a NOTIFY whose fragments were sent by hand."""
        self.send_frame(UNSET, b"", FIN | ABORT, stream, frame)
        self.pending.discard((stream, frame))

    def wait(self, ids):
        """Return the variables of the ACK to <ids>; other frames may come before it."""
        while ids not in self.acks:
            f = self._expect(ACK)
            if (f.stream, f.frame) not in self.pending:
                raise SpopError("an ACK nobody asked for: stream %d, frame %d"
                                % (f.stream, f.frame))
            if len(f.payload) + 7 > self.frame_size:
                raise SpopError("an ACK above the frame size")
            self.pending.remove((f.stream, f.frame))
            self.acks[(f.stream, f.frame)] = f.variables()
        return self.acks.pop(ids)

    def notify(self, name, args=None, **how):
        """Send one message and wait for its variables. <name> may be a list of (name, args)
        instead."""
        messages = [(name, args or {})] if isinstance(name, str) else name
        return self.wait(self.send(messages, **how))

    def disconnect(self, status=0, text="normal"):
        """Send HAPROXY-DISCONNECT and close. Returns the status of the agent's answer."""
        self.send_frame(HAPROXY_DISCONNECT, kv_list([("status-code", Typed("uint32", status)),
                                                     ("message", text)]))
        try:
            while True:
                f = self.read_frame()
                if f.kind == AGENT_DISCONNECT:
                    return f.items().get("status-code")
        finally:
            self.close()


def healthcheck(address, timeout=180.0):
    """Do the same as HAProxy's spop-check: HELLO, AGENT-HELLO, and the agent closes. Returns the
    hello."""
    c = SpopClient(address, timeout, handshake=False)
    try:
        hello = c.shake_hands([("supported-versions", "2.0"),
                               ("max-frame-size", Typed("uint32", 16380)),
                               ("capabilities", ""), ("healthcheck", True)])
        try:
            f = c.read_frame()
        except Disconnected:
            return hello
        raise SpopError("a frame of type %d after a health check" % f.kind)
    finally:
        c.close()


# ---- by hand 

def argument(text):
    name, eq, v = text.partition("=")
    if not eq:
        raise argparse.ArgumentTypeError("%r is no name=value" % text)
    if name.endswith(":"):
        return name[:-1], int(v)
    if v == "@-":
        return name, sys.stdin.buffer.read()
    if v.startswith("@"):
        with open(v[1:], "rb") as f:
            return name, f.read()
    return name, v


def main():
    p = argparse.ArgumentParser(description="Send one SPOP message and print the variables it "
                                            "sets.",
                                epilog="name=text, name:=integer, name=@file (bytes)")
    p.add_argument("-a", "--address", default="127.0.0.1:9400", help="host:port, unix@path or path")
    p.add_argument("-m", "--message", default="route")
    p.add_argument("-s", "--max-frame-size", type=int, default=16380)
    p.add_argument("-f", "--fragment", type=int, help="bytes of payload in each frame")
    p.add_argument("-t", "--timeout", type=float, default=5.0)
    p.add_argument("--healthcheck", action="store_true", help="only what spop-check does")
    p.add_argument("args", nargs="*", type=argument, metavar="name=value")
    o = p.parse_args()
    try:
        if o.healthcheck:
            out = healthcheck(o.address, o.timeout)
        else:
            with SpopClient(o.address, o.timeout, o.max_frame_size) as c:
                out = c.notify(o.message, o.args, fragment=o.fragment)
    except (SpopError, OSError) as e:
        print("spop_client: %s" % e, file=sys.stderr)
        return 1
    for k, v in out.items():
        print("%s=%s" % (k, v.decode("utf-8", "backslashreplace") if isinstance(v, bytes) else v))
    return 0


if __name__ == "__main__":
    sys.exit(main())
