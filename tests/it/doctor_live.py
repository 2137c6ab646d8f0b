#!/usr/bin/env python3
"""doctor_live.py [-k WORD] - kvroutectl doctor --live: one request through a running HAProxy, and
the station at which it gets lost.

HAPROXY names the binary. The last line is "N passed, N failed".
"""
import os
import re
import socket
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cases  # noqa: E402
from fleet import BUILD, Fleet, edited, wait_for  # noqa: E402


CONF = "index: {max_bytes: 8 MiB}"


def live(f, *more):
    got = subprocess.run([os.path.join(BUILD, "kvroutectl"), "doctor", "-c", f.cfg_path, "-f",
                          os.path.join(f.folder, "kvroute.yaml"), "--live", f.stats_path, *more],
                         capture_output=True, text=True, timeout=1000)
    return got.returncode, got.stdout + got.stderr


def arrives(f, *more):
    status, text = live(f, "--wait", "900", *more)
    for station in ("HAProxy", "agent", "request", "log", "filter", "server", "feed"):
        assert re.search("(?m)^ok    %s: " % station, text), "%s\n%s" % (station, text)
    assert "lost" not in text, text


def is_lost(f, station, sentence, *more):
    status, text = live(f, *(more if "--wait" in more else ("--wait", "900", *more)))
    cases.equal(status, 1, text)
    cases.equal(len(re.findall("(?m)^lost ", text)), 1, text)
    assert re.search("(?m)^lost  %s: .*%s" % (station, sentence), text), text


def small(edit=None, **more):
    return Fleet(engines=2, show=False, threads=1, edit=edit, agent_conf=CONF, **more)


def case_arrives():
    with small() as f:
        arrives(f)
        arrives(f, "--path", "/v1/completions", "--model", "m", "--header", "x-a: b", "--url",
                "http://127.0.0.1:%d" % f.port)
        is_lost(f, "filter", "did not ask the agent", "--path", "/health")
        is_lost(f, "request", "does not take connections", "--url", "127.0.0.1:1")
        is_lost(f, "HAProxy", "no answer from its stats socket", "--live", "/nowhere.sock")
        f.end("agent")
        wait_for("the agent's end", 10, lambda: f.up_servers("spoe_agent") == 0)
        is_lost(f, "agent", "holds each server of spoe_agent for down")


class Closed(Fleet):
    """The agent shows its decisions to nobody."""

    def agent_yaml(self):
        return edited(super().agent_yaml(), "metrics: {listen", "metrics: {decisions: none, listen")


def case_decisions_not_shown():
    with Closed(engines=2, show=False, threads=1, agent_conf=CONF) as f:
        status, text = live(f, "--wait", "900")
        assert re.search("(?m)^ok    filter: .*metrics.decisions does not let this", text), text
        assert re.search("(?m)^ok    feed: ", text) and "lost" not in text, text


class Twins:
    """A stats socket before that of HAProxy: each line of a ring has a twin with another uid."""

    def __init__(self, f, times):
        self.path, self.back, self.times = os.path.join(f.folder, "twins.sock"), f.stats_path, times
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        self.socket.listen(8)
        self.uids = None    # of all lines before; the first answer only shows them
        threading.Thread(target=self.serve, daemon=True).start()

    def doubled(self, text):
        lines = [w for w in text.split("\n") if '"uid":"' in w]
        uids = [re.search('"uid":"([^"]*)', w).group(1) for w in lines]
        new = [w for w, uid in zip(lines, uids) if self.uids is not None and uid not in self.uids]
        self.uids = set(uids)
        if not new or self.times == 0:
            return text
        self.times -= 1
        return text + "\n".join(re.sub('"uid":"', '"uid":"foreign', w) for w in new) + "\n"

    def serve(self):
        while True:
            client = self.socket.accept()[0]
            command = client.recv(4096)
            with socket.socket(socket.AF_UNIX) as back:
                back.connect(self.back)
                back.sendall(command)
                text = b"".join(iter(lambda: back.recv(65536), b"")).decode()
            client.sendall((self.doubled(text) if "events" in command.decode() else text).encode())
            client.close()


def case_ambiguous():
    """With another client's line of the same size it asks once more, and names no foreign uid."""
    with small() as f:
        for times in (1, 2):
            status, text = live(f, "--wait", "900", "--live", Twins(f, times).path)
            os.unlink(os.path.join(f.folder, "twins.sock"))
            assert re.search("(?m)^note  log: another request of this size", text), text
            cases.equal(text.count("request: sent to"), 2, text)
            last = "lost  log: ring kvroute-feed has several" if times == 2 else "ok    feed: "
            assert last in text and "foreign" not in text, text


def case_lost_at_the_server():
    def edit(text):
        return re.sub(r"(?m)^    use-server .*\n", "    use-server s1 if TRUE\n", text)
    with small(edit) as f:
        f.haproxy_command("set server pool/s1 weight 0")
        is_lost(f, "server", "the agent chose s2 and HAProxy took s1")


def case_lost_in_the_load():
    with small(lambda t: re.sub(r"(?m)^ *http-request set-var-fmt\(txn.load\).*\n", "", t)) as f:
        is_lost(f, "agent", r"\(noload\)")


def case_lost_in_the_feed():
    with small(lambda t: re.sub(r"server agent \S+", "server agent 127.0.0.1:1", t)) as f:
        is_lost(f, "feed", "compare the server of ring kvroute-feed", "--wait", "1")


def case_lost_in_the_log():
    with small(lambda t: edited(t, "    log global\n", "")) as f:
        is_lost(f, "log", "no JSON line", "--wait", "1")


def case_denied():
    def edit(text):
        rule = "    http-request deny deny_status 401 if !{ req.hdr(x-key) -m found }\n"
        return edited(text, "    default_backend pool\n", rule + "    default_backend pool\n")
    with small(edit) as f:
        is_lost(f, "filter", "a rule of frontend llm answered")
        arrives(f, "--header", "x-key: 1")


def case_another_backend():
    def edit(text):
        text = edited(text, "    default_backend pool\n", "    use_backend other if { "
                      "path /v1/embeddings }\n    default_backend pool\n")
        return edited(text, "\nbackend pool\n", "\nbackend other\n    http-request return status "
                      "200\n\nbackend pool\n")
    with small(edit) as f:
        is_lost(f, "filter", "went to other", "--path", "/v1/embeddings")


CASES = [v for k, v in list(globals().items()) if k.startswith("case_")]

if __name__ == "__main__":
    sys.exit(cases.main(CASES, sys.argv[1:]))
