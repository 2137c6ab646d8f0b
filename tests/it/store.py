"""store.py - a real Redis or Valkey on loopback, and the part of its protocol that tests need.

    with Store() as s:
        s.command("XLEN", "kvroute:{kvroute:0}:log")
"""
import os
import shutil
import signal
import socket
import subprocess
import tempfile

from fleet import HANG_SECONDS, TOP, free_ports, wait_for

PROGRAMS = {name: os.path.join(TOP, "build/bin/%s-server" % name) for name in ("redis", "valkey")}


def programs():
    """The names of those that this machine has."""
    return [n for n, p in PROGRAMS.items() if os.path.exists(p)]


class StoreError(Exception):
    pass


class Connection:
    def __init__(self, port, host="127.0.0.1"):
        self.s = socket.create_connection((host, port), HANG_SECONDS)
        self.f = self.s.makefile("rb")

    def close(self):
        self.f.close()
        self.s.close()

    def command(self, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.s.sendall(b"*%d\r\n" % len(words) +
                       b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return self.answer()

    def answer(self):
        line = self.f.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("the store closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise StoreError(rest.decode())
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            n = int(rest)
            return None if n < 0 else self.f.read(n + 2)[:-2]
        if kind == b"*":
            n = int(rest)
            return None if n < 0 else [self.answer() for _ in range(n)]
        raise OSError("no answer of a store: %r" % line)


class Store:
    """One server. It keeps its port over kill() and start(). <host>: its address for this program;
    <inside>: a command that runs it."""

    def __init__(self, *options, program=None, password=None, port=None, host="127.0.0.1",
                 inside=()):
        self.program = PROGRAMS[program or os.environ.get("STORE", "redis")]
        self.host, self.inside = host, list(inside)
        self.options, self.password = list(options), password
        self.port = port or free_ports(1)[0]
        self.folder = tempfile.mkdtemp(prefix="kvroute-store-")
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        local = self.host == "127.0.0.1"
        argv = self.inside + [self.program, "--port", self.port, "--save", "", "--dir", self.folder,
                              "--bind", self.host if local else "0.0.0.0", "--protected-mode",
                              "yes" if local else "no", "--enable-debug-command", "yes"]
        if self.password:
            argv += ["--requirepass", self.password]
        with open(os.path.join(self.folder, "store.log"), "ab") as log:
            self.process = subprocess.Popen([str(a) for a in argv + self.options], stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL)
        wait_for("the store", 5, lambda: self.command("PING") == "PONG")

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def command(self, *words):
        c = Connection(self.port, self.host)
        try:
            if self.password:
                c.command("AUTH", self.password)
            return c.command(*words)
        finally:
            c.close()

    @property
    def address(self):
        return "%s:%d" % (self.host, self.port)
