#!/usr/bin/env python3
"""spoa_example.py SPOA FOLDER KVROUTECTL - the example agent of spoe/example with a real HAProxy,
whose files are those of FOLDER with free ports, and with kvroutectl spop-check."""
import http.client
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from fleet import HAPROXY, Ports, edited, wait_for  # noqa: E402


def ask(port, path):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        c.request("GET", path)
        r = c.getresponse()
        r.read()
        return r.status, r.getheader("verdict"), r.getheader("length")
    except OSError:
        return None
    finally:
        c.close()


def main(spoa, folder, ctl):
    ports = Ports()
    web, agent = ports.take(), ports.take()
    tmp = tempfile.TemporaryDirectory()
    with open(os.path.join(folder, "haproxy.cfg")) as f:
        cfg = edited(edited(f.read(), "127.0.0.1:8080", "127.0.0.1:%d" % web),
                     "127.0.0.1:12345", "127.0.0.1:%d" % agent)
    with open(os.path.join(tmp.name, "haproxy.cfg"), "w") as f:
        f.write(cfg.replace("example.spoe", os.path.join(folder, "example.spoe")))
    running = [subprocess.Popen([spoa, str(agent)]),
               subprocess.Popen([os.path.abspath(HAPROXY), "-f", tmp.name + "/haproxy.cfg"])]
    try:
        wait_for("an answer of HAProxy with the agent's variables", 20,
                 lambda: ask(web, "/short") == (200, "good", "6"))
        long = "/" + 50 * "x"
        assert ask(web, long) == (200, "long", "51"), ask(web, long)
        out = subprocess.run([ctl, "spop-check", "127.0.0.1:%d" % agent], capture_output=True,
                             text=True)
        assert out.returncode == 0, out.stdout + out.stderr
        print(out.stdout.splitlines()[-1])
    finally:
        for p in running:
            p.terminate()
            p.wait()
        ports.close()
        tmp.cleanup()


if __name__ == "__main__":
    main(*sys.argv[1:])
