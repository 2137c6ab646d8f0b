"""network.py - a store that is reached over two networks, of which one can be cut.

    with Network() as net:
        s = Store(host=net.host, inside=net.inside)
        net.put(s)
        net.addresses[1]        # the store, by the second network
        net.cut()               # packets of the second network are lost; nobody is told
        net.heal()

As root these are two links into a network namespace. Where that is not possible, the second one is
a relay in this program that stops to pass bytes on, and to accept connections.
"""
import os
import select
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from fleet import free_ports  # noqa: E402

PREFIX = "kvroute-"


def ip(*words):
    r = subprocess.run(["ip", *words], capture_output=True, text=True)
    if r.returncode != 0:
        raise OSError("ip %s: %s" % (" ".join(words), r.stderr.strip()))
    return r.stdout


class Namespace:
    """One with two links. Its name has the number of this process; its addresses, of the range for
    benchmarks, have that of a port that this program holds."""

    def __init__(self):
        for name in (line.split()[0] for line in ip("netns", "list").splitlines()):
            pid = name[len(PREFIX):].split("-")[0]
            if name.startswith(PREFIX) and pid.isdigit() and not os.path.exists("/proc/" + pid):
                ip("netns", "del", name)        # of a test that was killed
        port = free_ports(1)[0]
        self.name = "%s%d-%d" % (PREFIX, os.getpid(), port)
        ip("netns", "add", self.name)
        try:
            self.hosts = [self.link(i, (port & 0x3fff) << 3 | i << 2) for i in (0, 1)]
            ip("-n", self.name, "link", "set", "dev", "lo", "up")
        except OSError:
            self.close()
            raise
        self.host, self.inside = self.hosts[0], ["ip", "netns", "exec", self.name]

    def link(self, i, n):
        def address(last):
            return "198.%d.%d.%d" % (18 + (n >> 16), n >> 8 & 255, (n & 255) + last)
        here, there = "kv%x-%d" % (n, i), "link%d" % i
        ip("link", "add", "dev", here, "type", "veth", "peer", "name", there, "netns", self.name)
        ip("address", "add", address(2) + "/30", "dev", here)
        ip("link", "set", "dev", here, "up")
        ip("-n", self.name, "address", "add", address(1) + "/30", "dev", there)
        ip("-n", self.name, "link", "set", "dev", there, "up")
        return address(1)

    def put(self, store):
        self.addresses = ["%s:%d" % (h, store.port) for h in self.hosts]

    def cut(self):
        ip("-n", self.name, "link", "set", "dev", "link1", "down")

    def heal(self):
        ip("-n", self.name, "link", "set", "dev", "link1", "up")

    def close(self):
        ip("netns", "del", self.name)


class Relay(threading.Thread):
    """Passes bytes on in both directions; a connection that ends ends on both sides."""

    host, inside = "127.0.0.1", []

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.other, self.passes, self.over = {}, True, False

    def put(self, store):
        self.port = store.port
        self.addresses = [store.address, "127.0.0.1:%d" % self.listener.getsockname()[1]]
        self.start()

    def accept(self):
        a, _ = self.listener.accept()
        try:
            b = socket.create_connection(("127.0.0.1", self.port))
        except OSError:
            a.close()
            return
        self.other[a], self.other[b] = b, a

    def drop(self, a):
        for s in (a, self.other.pop(a)):
            self.other.pop(s, None)
            s.close()

    def run(self):
        while not self.over:
            wanted = [self.listener, *self.other] if self.passes else []
            for s in select.select(wanted, [], [], 0.02)[0]:
                if s is self.listener:
                    self.accept()
                elif s in self.other:
                    try:
                        data = s.recv(65536)
                        self.other[s].sendall(data)
                    except OSError:
                        data = b""
                    if not data:
                        self.drop(s)

    def cut(self):
        self.passes = False

    def heal(self):
        self.passes = True

    def close(self):
        self.over = True
        if self.is_alive():
            self.join()
        for s in [self.listener, *self.other]:
            s.close()


class Network:
    def __enter__(self):
        try:
            self.way = Namespace()
        except OSError as e:
            print("      no network namespace here, so a relay is cut (%s)" % e)
            self.way = Relay()
        return self.way

    def __exit__(self, *_):
        self.way.close()
