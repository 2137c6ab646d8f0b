#!/usr/bin/env python3
"""runtime.py [-k WORD] - the runtime socket of an agent beside a HAProxy with two stub engines:
what commands answer, what bad input gets, and what many or slow clients cannot do.
"""
import json
import os
import pty
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading

import cases
from cases import equal
from fleet import Fleet, HANG_SECONDS, TOP, edited, wait_for

CTL = os.path.join(TOP, "kvroutectl")
OPENING = "You answer questions about trains. " * 200


class Runtime(Fleet):
    def __init__(self, **kw):
        conf = 'runtime: {path: "%s", mode: 0640}\nindex: {snapshot_file: "%s"}\n'
        super().__init__(engines=2, **kw)
        self.path = os.path.join(self.folder, "runtime.sock")
        self.snapshot = os.path.join(self.folder, "snapshot")
        self.agent_conf = conf % (self.path, self.snapshot) + self.agent_conf

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(HANG_SECONDS)
        s.connect(self.path)
        return s

    def send(self, raw, half=True):
        """Return all that comes back for these bytes."""
        with self.connect() as s:
            try:
                s.sendall(raw)
                if half:
                    s.shutdown(socket.SHUT_WR)
            except OSError:
                pass        # refused before all was sent
            return read_all(s)

    def ask(self, line):
        return self.send(line.encode() + b"\n").decode()

    def json(self, line):
        answer = self.ask(line + " json")
        equal(answer[-2:], "\n\n", "the end of an answer")
        return json.loads(answer)

    def ctl(self, *words, stdin=""):
        r = subprocess.run([CTL, *words], input=stdin, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=HANG_SECONDS, text=True)
        return r.returncode, r.stdout


def read_all(s):
    out = b""
    try:
        while True:
            more = s.recv(65536)
            if not more:
                return out
            out += more
    except ConnectionResetError:
        return out


def body(question):
    return json.dumps({"model": "stub", "messages": [
        {"role": "system", "content": OPENING}, {"role": "user", "content": question}]})


def with_traffic(f, n=4):
    for i in range(n):
        equal(f.chat([{"role": "system", "content": OPENING},
                      {"role": "user", "content": "Question %d" % i}]).status, 200)
    wait_for("the ends of all requests", HANG_SECONDS, lambda: f.json("show info")["ends"] == n)


def contains(text, *words):
    for w in words:
        if w not in text:
            raise AssertionError("no %r in:\n%s" % (w, text))


def figures_are_those_of_the_page():
    with Runtime() as f:
        with_traffic(f)
        equal(stat.S_IMODE(os.stat(f.path).st_mode), 0o640, "mode of the socket")
        code, page = f.get("/status.json", f.metrics_port)
        page = json.loads(page)
        equal(f.json("show info")["requests"], page["requests"])
        servers = f.json("show servers")["servers"]
        equal([s["picked"] for s in servers], [s["picked"] for s in page["servers"]])
        equal(f.json("show pools")["pools"][0]["name"], "pool")
        equal(f.json("show index")["index"]["pages"], page["index"]["pages"])
        equal(len(f.json("show decisions 3")["decisions"]), 3)
        equal(f.json("show problems"), {"problems": []})
        equal(f.json("show models")["models"][-1]["name"], "*")
        equal(f.json("show events"), {"events": []})
        equal(f.json("show share"), {"share": "off"})
        text = f.ask("show servers; show pools")
        equal(text.count("\n\n"), 2, "empty lines")
        contains(text, "# pool name up", "\npool   s1   yes", "# name mode facts")
        contains(f.ask("show info"), "requests: 4\n", "why.cached: ")
        equal("trains" in f.ask("show decisions 100 json") + f.ask("show spaces"), False)
        text = f.ask("show decisions 3")
        equal(len(text.strip().split("\n")), 4, text)
        equal(max(len(w) for w in text.split("\n")) <= 80, True, text)
        contains(text, "# number time", "prompt", "first_ms", " ok")
        equal(max(len(w) for w in f.ask("show servers").split("\n")) <= 132, True, "width")


def problems_have_ages_and_are_cleared():
    with Runtime() as f:
        for _ in range(4):
            with socket.create_connection(("127.0.0.1", f.agent_port)) as s:
                s.sendall(b"GET / HTTP/1.0\r\n\r\n")
                read_all(s)
        wait_for("the problem", HANG_SECONDS, lambda: f.json("show problems")["problems"])
        one = f.json("show problems")["problems"][0]
        equal(one["what"], "http_on_spop")
        equal(one["last_seen_s"] <= one["since_s"], True, one)
        contains(one["example"], "peer=")
        contains(f.ask("show problems"), "since_s: ", "last_seen_s: ", "quiet: no",
                 "remedy: use option")
        contains(f.ask("clear problems; show problems"), "those that last come back\n\nnone\n")
        equal(f.json("show problems"), {"problems": []})


def commands_are_joined_as_they_were_meant():
    with Runtime() as f:
        with_traffic(f)
        for words, want in ((["ask", "pool", "pool"], "server: s"),
                            (["ask pool pool"], "server: s"), (["ask"], "why: noload")):
            code, text = f.ctl("-s", f.path, *words, stdin=body("Question 9"))
            equal(code, 0, text)
            contains(text, want)
        contains(f.ctl("-s", f.path, "why", "a b; c")[1], "no decision of that uid")
        contains(f.ctl("-s", f.path, "show", "info", ";", "show", "pools")[1], "requests: 4",
                 "# name mode")
        contains(f.ctl("-s", f.path, "show info; show pools")[1], "requests: 4", "# name mode")


def the_configuration_shows_no_secret():
    f = Runtime()
    f.start = lambda: None      # once the file is there
    with f:
        token = os.path.join(f.folder, "token")
        with open(token, "w") as t:
            t.write("hidden-word-0123456789\n")
        os.chmod(token, 0o600)
        plain = f.agent_yaml()
        f.agent_yaml = lambda: edited(plain, "log_feed: {", 'log_feed: {token_file: "%s", ' % token)
        Fleet.start(f)
        text = f.ask("show config")
        contains(text, 'token_file: "%s"' % token, "runtime:\n", "  mode: 0640\n")
        equal("hidden-word" in text, False, "a token in the configuration")
        equal("#" in text, False, "comments")


def decisions_are_for_whom_the_key_says():
    f = Runtime()
    plain = f.agent_yaml()
    f.agent_yaml = lambda: edited(plain, "metrics: {", "metrics: {decisions: none, ")
    with f:
        code, text = f.get("/decisions", f.metrics_port)
        equal((code, text), (403, "not served to this address: metrics.decisions\n"))
        equal(f.get("/status.json", f.metrics_port)[0], 200)
        equal(f.ctl("why", "127.0.0.1:%d" % f.metrics_port)[0], 1)
        f.write("kvroute.yaml", plain)
        f.processes["agent"].send_signal(signal.SIGHUP)
        wait_for("the reload", HANG_SECONDS,
                 lambda: f.get("/decisions", f.metrics_port)[0] == 200)
        wait_for("the text of the reload", HANG_SECONDS,
                 lambda: "decisions: local\n" in f.ask("show config"))


def traces(f):
    return (f.json("show info")["requests"], f.json("show index")["index"]["pages"],
            [s["picked"] for s in f.json("show servers")["servers"]],
            f.json("show decisions 1")["decisions"][0]["decision"])


def mode_and_group_are_those_of_the_keys():
    with Runtime() as f:
        equal((stat.S_IMODE(os.stat(f.path).st_mode), os.stat(f.path).st_gid), (0o640, os.getgid()))
        plain = open(os.path.join(f.folder, "kvroute.yaml")).read()
        wrong = f.write("wrong.yaml", re.sub(r"127.0.0.1:\d+", "127.0.0.1:0", edited(
            plain, 'sock", ', 'sock2", group: nosuchgroup, ')))
        r = subprocess.run([os.path.join(TOP, "kvroute"), "-f", wrong], timeout=HANG_SECONDS,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        equal(r.returncode, 1)
        contains(r.stdout, "runtime.group: there is no group nosuchgroup", "groupadd")
        equal(os.path.exists(f.path + "2"), False, "a socket of a start that failed")
    equal(os.path.exists(f.path), False, "a socket after the end")


def why_and_ask_explain_without_a_trace():
    with Runtime() as f:
        with_traffic(f)
        uid = f.json("show decisions 1")["decisions"][0]["uid"]
        one = f.json("why " + uid)["decisions"][0]
        equal(one["model"], "stub")
        equal(one["after"]["state"], "done")
        contains(f.ask("why " + uid), "model: stub\n", "candidates:\n# load server",
                 "after.end: ok\n", "after.ts: --\n")
        for words in (["-s", f.path, uid], [uid, "127.0.0.1:%d" % f.metrics_port]):
            code, text = f.ctl("why", *words)
            equal(code, 0, text)
            contains(text, "model: stub", "the body came whole", "server", "promise", "cost",
                     "it was over", "decided in")
        before = traces(f)
        code, text = f.ctl("-s", f.path, "ask", "pool", "pool", "json", stdin=body("Question 9"))
        equal(code, 0, text)
        asked = json.loads(text)["decisions"][0]
        equal(asked["why"], "cached")
        equal(asked["decision"], 0)
        equal(traces(f), before, "requests, pages, servers picked, last decision")
        equal(f.chat([{"role": "system", "content": OPENING},
                      {"role": "user", "content": "Question 9"}]).status, 200)
        equal(f.json("show decisions 1")["decisions"][0]["server"], asked["server"])
        equal(f.ctl("why", "-s", f.path, "unknown")[0], 1)


def state_is_cleared_and_saved():
    with Runtime() as f:
        with_traffic(f)
        text = f.ctl("-s", f.path, "ask", "pool", "pool", stdin=body("x"))[1]
        space = re.search(r"space: (\w{32})", text)[1]
        contains(f.ask("show spaces"), space)
        held = lambda: sum(s["held_tokens"] for s in f.json("show servers")["servers"])
        equal(held() > 0, True, "tokens held")
        contains(f.ask("clear space " + "0" * 32), "0 records")
        equal(held() > 0, True, "tokens held")
        contains(f.ask("clear space " + space), "records of servers cut")
        equal(held(), 0, "tokens held after clear space")
        equal(f.chat([{"role": "system", "content": OPENING}]).status, 200)
        wait_for("pages", HANG_SECONDS, lambda: held() > 0)
        for name in "s1", "s2":
            contains(f.ask("clear server pool/" + name), "being forgotten")
        wait_for("no server to hold anything", HANG_SECONDS, lambda: held() == 0)
        contains(f.ask("save snapshot"), "being written")
        wait_for("the snapshot", HANG_SECONDS, lambda: os.path.exists(f.snapshot))
        contains(f.ask("set log level error"), "done")
        contains(f.ask("set log level info; show errors"), "done")
        for _ in range(4):
            with socket.create_connection(("127.0.0.1", f.agent_port)) as s:
                s.sendall(b"GET / HTTP/1.0\r\n\r\n")
                read_all(s)
        wait_for("a warning", HANG_SECONDS, lambda: "level=warn" in f.ask("show errors"))
        contains(f.ask("clear errors; show errors"), "cleared\n\nnone\n\n")


BAD = [
    (b"bogus\n", "refused at character 1: "),
    (b"show\n", "refused at character 5: expected info, servers"),
    (b"show info now\n", 'refused at character 11: "now" is too much'),
    (b"help; show nothing\n", "refused at character 12: "),
    (b"show decisions 0\n", "refused at character 16: expected a number of decisions"),
    (b"clear space 12\n", "refused at character 13: "),
    (b"clear server pool\n", "refused at character 14: expected POOL/SERVER"),
    (b"set log level loud\n", "refused at character 15: expected error, warn"),
    (b"ask 3; help\n{}\n", "refused at character 7: ask must be the last"),
    (b"ask 100\n{}", "the body ended after 2 of 100 bytes"),
    (b"ask 99999999\n", "refused at character 5: "),
    (b"show \x00info\n", "refused at character 6: byte 0x00 is not printable"),
    (b"\xff\xfe\n", "refused at character 1: byte 0xff"),
    (b"a " * 20 + b"\n", "more than 12 words"),
    (b"x" * 100000, "the line is longer than 2048 bytes"),
    (b"why nobody\n", "no decision of that uid is kept"),
    (b"ask 9 path /v1/completions\n{\"prompt\"", "why: noprompt"),
]


def bad_input_gets_its_place_and_remedy():
    with Runtime() as f:
        for raw, want in BAD:
            contains(f.send(raw).decode(), want)
        equal(f.send(b""), b"")
        equal(f.send(b"\n"), b"")
        equal(f.send(b";;;\n"), b"")
        equal(f.ctl("-s", f.path, "bogus")[0], 1)
        equal(f.ctl("-s", f.path + ".none", "help")[0], 1)
        answers = f.send(b"prompt\nshow index json\nbogus\nquit\n").decode()
        equal(answers.count("> "), 3, answers)
        contains(f.ctl("-s", f.path, stdin="show index\nquit\n")[1], "> index.bytes: ")
        equal(f.get("/live", f.metrics_port)[0], 200)


def many_commands_all_get_answers():
    with Runtime() as f:
        code, text = f.ctl("-s", f.path, stdin="help\n" * 20000 + "show info\n")
        equal(code, 0, text[-300:])
        equal(text.count(f.ask("help")), 20000, "answers")
        contains(text[-3000:], "requests: 0\n")
        code, text = f.ctl("-s", f.path, stdin="help\nbogus\nshow info\n")
        equal((code, "requests: 0\n" in text), (1, True), text)
        with open(f.write("commands", "quit\n" + "help\n" * 200000)) as commands:
            r = subprocess.run([CTL, "-s", f.path], stdin=commands, capture_output=True,
                               timeout=HANG_SECONDS)
        equal(r.returncode, 1, r.stderr)


def decisions_as_json_come_whole():
    with Runtime() as f:
        with_traffic(f, 60)
        code, text = f.ctl("why", "--json", "-s", f.path, "-n", "256")
        equal((code, len(text) > 40000), (0, True), text[:300])
        equal(len(json.loads(text)["decisions"]), 60)


def bytes_from_outside_command_no_terminal():
    with tempfile.TemporaryDirectory() as folder:
        for words, answer in ((["-s"], b"\x1b]0;x\x07line\n\x9bm"),
                              (["why", "-s"], b"\x1b]0;x\x07line\n\x9bm"),
                              (["why"], b"HTTP/1.0 500 X\r\n\r\n\x1b]0;x\x07line\n\x9bm")):
            path = os.path.join(folder, "s")
            with socket.socket(socket.AF_UNIX) as s:
                s.bind(path)
                s.listen()
                at = [path, "help"] if words == ["-s"] else \
                    [path] if "-s" in words else ["unix@" + path]
                ours, terminal = pty.openpty()
                p = subprocess.Popen([CTL, *words, *at], stdin=subprocess.DEVNULL, stdout=terminal,
                                     stderr=terminal)
                os.close(terminal)
                with s.accept()[0] as c:
                    c.recv(4096)
                    c.sendall(answer)
                out = b""
                while b"m" not in out:
                    out += os.read(ours, 4096)
                p.wait(HANG_SECONDS)
                os.close(ours)
                equal(out, b"?]0;x?line\r\n?m", words)
            os.remove(path)


def rubbish(f, i, stop):
    """Connect again and again: lines of noise, silence, half a command, a body that never comes."""
    noise = [os.urandom(3000), b"", b"show in", b"ask 1000000\n" + b"{" * 500, b"prompt\n" * 300]
    while not stop.is_set():
        try:
            with f.connect() as s:
                s.settimeout(0.2)
                s.sendall(noise[i % len(noise)])
                s.recv(100)
        except OSError:
            pass


def a_hundred_clients_with_rubbish_change_nothing():
    with Runtime() as f:
        with_traffic(f)
        stop = threading.Event()
        threads = [threading.Thread(target=rubbish, args=(f, i, stop)) for i in range(100)]
        for t in threads:
            t.start()
        try:
            for _ in range(3):
                wait_for("an answer", HANG_SECONDS,
                         lambda: "requests: 4" in try_ask(f, "show info"))
                equal(f.get("/live", f.metrics_port)[0], 200)
            equal(f.chat([{"role": "user", "content": OPENING}]).status, 200)
        finally:
            stop.set()
            for t in threads:
                t.join()
        wait_for("the last end", HANG_SECONDS, lambda: "ends: 5" in try_ask(f, "show info"))


def try_ask(f, line):
    try:
        return f.ask(line)
    except OSError:
        return ""


def a_slow_reader_delays_nobody():
    with Runtime() as f:
        with_traffic(f)
        slow = [f.connect() for _ in range(15)]
        for s in slow:
            s.sendall(b"show config;" * 150 + b"\n")
        for _ in range(5):
            wait_for("an answer", HANG_SECONDS, lambda: "requests: 4" in try_ask(f, "show info"))
            equal(f.get("/live", f.metrics_port)[0], 200)
        for s in slow:
            s.close()


if __name__ == "__main__":
    sys.exit(cases.main([
        figures_are_those_of_the_page, the_configuration_shows_no_secret,
        decisions_are_for_whom_the_key_says, mode_and_group_are_those_of_the_keys,
        problems_have_ages_and_are_cleared, commands_are_joined_as_they_were_meant,
        why_and_ask_explain_without_a_trace, state_is_cleared_and_saved,
        many_commands_all_get_answers, decisions_as_json_come_whole,
        bytes_from_outside_command_no_terminal,
        bad_input_gets_its_place_and_remedy, a_hundred_clients_with_rubbish_change_nothing,
        a_slow_reader_delays_nobody], sys.argv))
