"""ready.py SOCKET - until the agent, whose metrics are there, says that it is ready; varnishtest
sets the limit."""
import socket
import sys
import time

while True:
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(sys.argv[1])
            s.sendall(b"GET /ready HTTP/1.0\r\n\r\n")
            if b" 200 " in s.recv(100):
                break
    except OSError:
        pass
    time.sleep(0.02)
