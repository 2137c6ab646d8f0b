"""raw.py - SPOP connections as bytes: a test sends any bytes and gets the raw reply.

    with Raw(a.spop_address) as c:
        c.send(hello() + notify(1, route_message("uid-1", body)))
        c.frames(2)                # the whole frames that came, each with its length word
        c.rest()                   # all up to the end of the stream
"""
import socket
import struct

from agent import HANG_SECONDS, request  # noqa: E402
from spop_client import (FIN, HAPROXY_DISCONNECT, HAPROXY_HELLO, NOTIFY, UNSET,  # noqa: E402
                         Frame, SpopClient, Typed, kv_list, message)


def hello(size=65532, **more):
    items = [("supported-versions", "2.0"), ("max-frame-size", Typed("uint32", size)),
             ("capabilities", "pipelining"),
             ("engine-id", "raw"), *more.items()]
    return Frame(HAPROXY_HELLO, FIN, 0, 0, kv_list(items)).encode()


def goodbye():
    return Frame(HAPROXY_DISCONNECT, FIN, 0, 0,
                 kv_list([("status-code", Typed("uint32", 0)), ("message", "normal")])).encode()


def notify(stream, payload, frame=1):
    return Frame(NOTIFY, FIN, stream, frame, payload).encode()


def fragments(stream, payload, size, frame=1):
    """The frames of one NOTIFY in pieces."""
    parts = [payload[i:i + size] for i in range(0, len(payload), size)] or [b""]
    return [Frame(UNSET if i else NOTIFY, FIN if i == len(parts) - 1 else 0, stream, frame,
                  p).encode()
            for i, p in enumerate(parts)]


def route_message(uid, body, **more):
    return message("route", request(uid, body, **more))


class Raw:
    def __init__(self, address, timeout=HANG_SECONDS, receive_buffer=None):
        if receive_buffer:      # before connect(), as TCP agrees on windows there
            host, _, port = address.rpartition(":")
            self.sock = socket.socket()
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            self.sock.settimeout(timeout)
            self.sock.connect((host, int(port)))
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.sock = SpopClient._connect(address, timeout)
        self.received, self.parsed = b"", 0

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def more(self):
        """Call recv() once. Returns False at the end of the stream."""
        data = self.sock.recv(262144)
        self.received += data
        return len(data) > 0

    def split(self):
        """Return the whole frames received since the last call."""
        out = []
        while len(self.received) - self.parsed >= 4:
            n = 4 + struct.unpack_from(">I", self.received, self.parsed)[0]
            if len(self.received) - self.parsed < n:
                break
            out.append(self.received[self.parsed:self.parsed + n])
            self.parsed += n
        return out

    def frames(self, n):
        out = self.split()
        while len(out) < n:
            if not self.more():
                raise ConnectionError("the stream ended behind %d of %d frames" % (len(out), n))
            out += self.split()
        assert len(out) == n, "%d frames instead of %d" % (len(out), n)
        return out

    def rest(self):
        """Return the frames up to the end of the stream, also if it ends with an error."""
        try:
            while self.more():
                pass
        except ConnectionResetError:
            pass
        out = self.split()
        assert self.parsed == len(self.received), "the stream ends within a frame"
        return out


def parse(frame):
    return Frame.parse(frame[4:])
