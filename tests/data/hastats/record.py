#!/usr/bin/env python3
"""Record what real HAProxies answer on their stats socket: record.py VERSION=PATH ...

Writes VERSION-stat.csv ("show stat -1 4 -1": servers only), VERSION-all.csv ("show stat") and
VERSION-state.txt ("show servers state") beside this file. The unit test of feed/hastats reads them.
"""
import os, socket, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
SET = ["pool/drained state drain", "pool/maint state maint"]
ODD = b'HTTP/1.0 500 says "no", twice\r\n\r\n'


def listener():
    s = socket.create_server(("127.0.0.1", 0))
    s.listen(64)
    return s


def engine(conn):
    """Checks are answered at once, a request of a client never."""
    data = conn.recv(4096)
    if b"GET /gone" in data:
        conn.sendall(b"HTTP/1.0 %s\r\n\r\n" % (b"404 Not Found" if GONE.is_set() else b"200 OK"))
    elif b"GET /odd" in data:
        conn.sendall(ODD)
    elif data:
        time.sleep(60)
    conn.close()


def agent(conn):
    conn.sendall(b"drain 50%\n")
    conn.close()


def serve(sock, one):
    while True:
        conn, _ = sock.accept()
        threading.Thread(target=one, args=(conn,), daemon=True).start()


def ask(path, command):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.sendall(command.encode() + b"\n")
        return b"".join(iter(lambda: s.recv(65536), b""))


def record(version, haproxy, env):
    with tempfile.TemporaryDirectory() as tmp:
        env = dict(os.environ, DIR=tmp, **env)
        child = subprocess.Popen([haproxy, "-f", os.path.join(HERE, "haproxy.cfg")], env=env,
                                 stderr=subprocess.DEVNULL)
        try:
            path = os.path.join(tmp, "stats.sock")
            GONE.clear()
            time.sleep(1)
            GONE.set()
            clients = [socket.create_connection(("127.0.0.1", int(env["FRONT2"])))
                       for _ in range(5)]
            for c in clients:
                c.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            for line in SET:
                ask(path, "set server " + line)
            time.sleep(1)
            for name, command in (("-stat.csv", "show stat -1 4 -1"), ("-all.csv", "show stat"),
                                  ("-state.txt", "show servers state")):
                with open(os.path.join(HERE, version + name), "wb") as out:
                    out.write(ask(path, command))
            for c in clients:
                c.close()
        finally:
            child.terminate()
            child.wait()


GONE = threading.Event()


def main():
    socks = [listener() for _ in range(5)]
    ports = [str(s.getsockname()[1]) for s in socks]
    for s in socks[:3]:
        s.close()
    threading.Thread(target=serve, args=(socks[3], engine), daemon=True).start()
    threading.Thread(target=serve, args=(socks[4], agent), daemon=True).start()
    env = dict(zip(("FRONT", "FRONT2", "FRONT3", "ENGINE", "AGENT"), ports))
    for arg in sys.argv[1:]:
        record(*arg.split("=", 1), env)


if __name__ == "__main__":
    main()
