"""wait_for.py SOCKET BACKEND/SERVER STATE - until HAProxy's stats socket says so; varnishtest sets
the limit."""
import socket
import sys
import time

path, server, state = sys.argv[1:]
backend, name = server.split("/")


def seen():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.sendall(b"show stat %s 4 -1\n" % backend.encode())
        rows = b"".join(iter(lambda: s.recv(65536), b"")).decode().splitlines()
    return any(r.split(",")[1] == name and r.split(",")[17].split()[0] == state for r in rows
               if r.startswith(backend + ","))


while True:
    try:
        if seen():
            break
    except OSError:
        pass
    time.sleep(0.02)
