#!/usr/bin/env python3
"""watch.py [-k WORD] - kvroutectl top in a terminal (tmux), and kvroutectl trial, beside a HAProxy
with two stub engines.
"""
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import threading

import cases
from cases import equal
from fleet import Fleet, HANG_SECONDS, TOP, wait_for

CTL = os.path.join(TOP, "kvroutectl")
TMUX = shutil.which("tmux")
OPENINGS = ["You answer questions about %s. " % w * 150 for w in ("trains", "ships", "planes")]


def chat(f, i):
    equal(f.chat([{"role": "system", "content": OPENINGS[i % 3]},
                  {"role": "user", "content": "Question %d" % i}]).status, 200)


def status(f):
    return json.loads(f.get("/status.json", f.metrics_port)[1])


class Terminal:
    """A shell in a terminal of its own, in which kvroutectl top runs."""

    def __init__(self, f):
        self.f = f
        self.socket = os.path.join(f.folder, "tmux")
        self.before, self.after = (os.path.join(f.folder, n) for n in ("before", "after"))
        self.pid = os.path.join(f.folder, "pid")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sh")

    def tmux(self, *words):
        return subprocess.run([TMUX, "-S", self.socket, *words], stdout=subprocess.PIPE,
                              timeout=HANG_SECONDS, check=True, text=True).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def start(self):
        for name in self.before, self.after, self.pid:
            if os.path.exists(name):
                os.remove(name)
        script = os.path.join(self.f.folder, "top.sh")
        with open(script, "w") as s:
            s.write("stty -g > %s; sh -c 'echo $$ > %s; exec %s top -d 0.2 127.0.0.1:%d'; "
                    "stty -g > %s.new; mv %s.new %s\n"
                    % (self.before, self.pid, CTL, self.f.metrics_port, self.after, self.after,
                       self.after))
        self.keys("sh " + script, "Enter")
        self.sees("SERVER", "pool/s1", "pool/s2", "q quit")

    def sees(self, *words):
        wait_for("%r on the screen" % (words,), HANG_SECONDS,
                 lambda: all(w in self.screen() for w in words))

    def is_restored(self):
        wait_for("the end of top", HANG_SECONDS, lambda: os.path.exists(self.after))
        with open(self.before) as a, open(self.after) as b:
            equal(b.read(), a.read(), "settings of the terminal")
        wait_for("the screen of before", HANG_SECONDS, lambda: self.tmux(
            "display-message", "-p", "#{alternate_on} #{cursor_flag}").strip() == "0 1")

    def end(self):
        subprocess.run([TMUX, "-S", self.socket, "kill-server"], stderr=subprocess.DEVNULL)


def top_shows_sorts_resizes_and_restores_the_terminal():
    if TMUX is None:
        print("skipped: kvroutectl top in a terminal, there is no tmux")
        return
    with Fleet(engines=2) as f:
        for i in range(4):
            chat(f, i)
        t = Terminal(f)
        try:
            t.start()
            t.sees("kvroute ", "4 requests", "*SERVER", "TOK/S")
            t.keys("o")
            t.sees("*OPEN")
            t.keys("p", "r")
            t.sees("*PICKED")
            chat(f, 4)
            t.sees("5 requests")
            t.tmux("resize-window", "-x", "40", "-y", "10")
            wait_for("a narrow screen", HANG_SECONDS, lambda: "TOK/S" not in t.screen() and
                     "*PICKED" in t.screen() and "q quit" in t.screen())
            t.tmux("resize-window", "-x", "80", "-y", "24")
            t.sees("TOK/S")
            t.keys("q")
            t.is_restored()
            t.start()
            with open(t.pid) as p:
                os.kill(int(p.read()), signal.SIGTERM)
            t.is_restored()
            t.start()
            f.end("agent")
            t.sees("no answer: ", "pool/s1")
            t.keys("C-c")
            t.is_restored()
        finally:
            t.end()


def drip(listener, stop):
    """Answer each connection with a byte every 0.5 s, without an end."""
    def one(c):
        with c:
            try:
                c.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
                while not stop.wait(0.5):
                    c.sendall(b" ")
            except OSError:
                pass
    while not stop.is_set():
        try:
            threading.Thread(target=one, args=(listener.accept()[0],)).start()
        except OSError:
            return


def top_ends_while_an_agent_answers_slowly():
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as s:
        threading.Thread(target=drip, args=(s, stop)).start()
        at = "127.0.0.1:%d" % s.getsockname()[1]
        try:
            code, text = run("top", "-1", at)
            equal((code, "timed out" in text), (1, True), text)
            for key in b"q", b"\x03":
                ours, terminal = pty.openpty()
                p = subprocess.Popen([CTL, "top", "-d", "0.1", at], stdin=terminal, stdout=terminal)
                os.close(terminal)
                while b"\033[?1049h" not in os.read(ours, 4096):
                    pass
                os.write(ours, key)
                out = b""
                while b"\033[?1049l" not in out:
                    out += os.read(ours, 4096)
                equal(p.wait(HANG_SECONDS), 0)
                os.close(ours)
        finally:
            stop.set()
            s.shutdown(socket.SHUT_RDWR)


def run(*words):
    r = subprocess.run([CTL, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=HANG_SECONDS, text=True, stdin=subprocess.DEVNULL)
    return r.returncode, r.stdout


def top_once_is_plain_text():
    with Fleet(engines=2) as f:
        chat(f, 0)
        code, text = run("top", "127.0.0.1:%d" % f.metrics_port)
        equal(code, 0, text)
        equal("\033" in text, False, "escape sequences")
        for word in "1 requests", "pool/s1", "pool/s2", "*SERVER":
            equal(word in text, True, word)
        equal(run("top", "-d", "0")[0], 64)
        equal(run("trial", "-x")[0], 64)


def trial_waits_for_speeds():
    """Prompts so short teach no speed, so there is no advice."""
    with Fleet(engines=2, agent_conf="policy: {mode: shadow}\n") as f:
        for i in range(20):
            chat(f, i)
        wait_for("20 ends", HANG_SECONDS, lambda: status(f)["ends"] == 20)
        equal({s["speed_source"] for s in status(f)["servers"]}, {"guess"})
        code, text = run("trial", "127.0.0.1:%d" % f.metrics_port)
        equal((code, text.count("\n")), (0, 3), text)
        equal("what that is in time is not known yet" in text, True, text)
        equal("too early to tell: the speeds of 0 of 2 servers are learned" in text, True, text)
        equal('"mode: on"' in text, False, text)


def trial_tells_what_shadow_mode_measured():
    with Fleet(engines=2, agent_conf="policy: {mode: shadow, learn_rate: false}\n") as f:
        at = "127.0.0.1:%d" % f.metrics_port
        code, text = run("trial", at)
        equal((code, "no request has come" in text), (1, True), text)
        for i in range(20):
            chat(f, i)
        wait_for("20 ends", HANG_SECONDS, lambda: status(f)["ends"] == 20)
        code, text = run("trial", at)
        equal((code, text.count("\n")), (0, 3), text)
        equal("In 20 requests of pool pool" in text, True, text)
        equal("too early to tell: the speeds of 2 of 2 servers are learned, and 20 of at least 100"
              in text, True, text)
        for i in range(20, 120):
            chat(f, i)
        wait_for("120 ends", HANG_SECONDS, lambda: status(f)["ends"] == 120)
        s = status(f)["pools"][0]["shadow"]
        equal(s["requests"], 120)
        code, text = run("trial", at)
        equal((code, text.count("\n")), (0, 3), text)
        saved = s["hit_tokens"] - s["haproxy_hit_tokens"]
        equal("In 120 requests of pool pool" in text, True, text)
        equal("%d prompt tokens" % abs(saved) in text, True, text)
        equal("With 95 % confidence" in text, True, text)
        equal('"mode: on"' in text, True, text)


if __name__ == "__main__":
    sys.exit(cases.main([top_shows_sorts_resizes_and_restores_the_terminal,
                         top_ends_while_an_agent_answers_slowly, top_once_is_plain_text,
                         trial_waits_for_speeds, trial_tells_what_shadow_mode_measured],
                        sys.argv))
