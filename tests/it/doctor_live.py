#!/usr/bin/env python3
"""doctor_live.py [-k WORD] - kvroutectl doctor --live: one request through a running HAProxy, and
the station at which it gets lost.

HAPROXY names the binary. The last line is "N passed, N failed".
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cases  # noqa: E402
from doctor_attach import certificate  # noqa: E402
from fleet import BUILD, MALLOC, TOP, Fleet, edited, wait_for  # noqa: E402


os.environ["KVROUTE_YAML"] = ""     # none of this machine
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
        # what only counts tokens fills no cache
        for path in ("/v1/messages/count_tokens", "/v1/responses/input_tokens",
                     "/v1beta/models/m:countTokens"):
            is_lost(f, "filter", "did not ask the agent", "--path", path)
        is_lost(f, "request", "does not take connections", "--url", "127.0.0.1:1")
        with unittest.mock.patch.dict(os.environ, PATH="/nowhere"):
            is_lost(f, "request", "openssl, which does not start: install it", "--url",
                    "https://127.0.0.1:%d" % f.port)
        is_lost(f, "HAProxy", "no answer from its stats socket", "--live", "/nowhere.sock")
        f.end("agent")
        wait_for("the agent's end", 10, lambda: f.up_servers("spoe_agent") == 0)
        is_lost(f, "agent", "holds each server of spoe_agent for down")


class Listed(Fleet):
    """The list of variables has <listed>, whatever the configuration reads."""

    listed = ""

    def name_vars(self, text):
        return re.sub(r"(set-var proc\.kvroute_vars) .*", r"\1 str(%s)" % self.listed, text)


class WithoutWhy(Listed):
    listed = "server+alt"


class WithoutServer(Listed):
    listed = "why"


def case_list_leaves_out():
    with WithoutWhy(engines=2, show=False, threads=1, agent_conf=CONF) as f:
        status, text = live(f, "--wait", "900")
        assert re.search("(?m)^note  filter: the list of variables .* leaves out why", text), text
        assert re.search("(?m)^ok    server: HAProxy took s", text), text
        assert re.search("(?m)^ok    feed: ", text) and "lost" not in text, text
    with WithoutServer(engines=2, show=False, threads=1, agent_conf=CONF) as f:
        is_lost(f, "server", "the list of variables .* leaves out server")


class Closed(Fleet):
    """The agent shows its decisions to nobody."""

    def agent_yaml(self):
        return edited(super().agent_yaml(), "metrics: {listen", "metrics: {decisions: none, listen")


class Bare(Fleet):
    """HAProxy without the two variables of haproxy.service.conf, and <flags>."""

    flags = []

    def spawn(self, name, argv, **kw):
        if name == "haproxy":
            argv = [argv[0], *self.flags, *argv[1:]]
            kw["env"] = {k: v for k, v in os.environ.items() if k not in MALLOC}
        return super().spawn(name, argv, **kw)


def case_heap():
    """Debian's 2.6 without the variables: its buffers return to the kernel. What costs a process
    that much is counted in faults, which no load of the machine changes."""
    old = os.path.join(TOP, "build/haproxy/2.6/haproxy")
    if not os.path.exists(old):
        print("skipped: no HAProxy 2.6")
        return
    for flags, word in (([], "slow"), (["-dMglobal"], "ok  ")):
        with Bare(engines=2, show=False, threads=1, agent_conf=CONF, haproxy=old) as f:
            f.end("haproxy", signal.SIGINT)
            os.unlink(f.stats_path)
            f.flags = flags
            f.start_haproxy()
            status, text = live(f, "--wait", "900", "--heap")
            slow = re.search("(?m)^slow  heap: process [0-9]+ of HAProxy faults", text)
            if word == "slow" and not slow:     # by luck: doc/haproxy-heap.md
                word = "ok  "
            assert re.search("(?m)^%s  heap: process [0-9]+ of HAProxy faults" % word, text), text
            assert status == 1 or word != "slow", text
            cases.equal("MALLOC_TRIM_THRESHOLD_=268435456" in text, word == "slow", text)
            cases.equal("-dMglobal" in text, word == "slow", text)


def case_heap_of_small_buffers():
    """Not examined: HAProxy would send the beginning of a body on."""
    with Bare(engines=2, show=False, threads=1, agent_conf=CONF, bufsize=65536) as f:
        status, text = live(f, "--wait", "900", "--heap")
        assert "heap" not in text and "ok    feed" in text, text


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


def case_drained():
    """The agent is not shown that a server is drained, but that its weight is 0."""
    for word, conf, told in (("state drain", CONF, True), ("weight 0", CONF, False),
                             ("state drain", CONF + "\nstats_feed: {sockets: [unix@%s]}", False)):
        with Drained(conf, engines=2, show=False, threads=1) as f:
            f.haproxy_command("set server pool/s1 " + word)
            text = live(f, "--wait", "900")[1]
            note = (r'(?m)^note  HAProxy: 1 server of pool is drained.*stats_feed: '
                    r'\{sockets: \["unix@/.*admin.sock"\]\}, if the agent.s user may write to it$')
            cases.equal(bool(re.search(note, text)), told, text)
            cases.equal("drained" in text, told, text)


class Drained(Fleet):
    """The agent's configuration has the path of HAProxy's socket for "%s"."""

    def __init__(self, extra, **more):
        self.extra = extra
        super().__init__(**more)

    def agent_yaml(self):
        return super().agent_yaml() + self.extra.replace("%s", self.stats_path) + "\n"


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


# ---- several agents

class TwoAgents(Fleet):
    """HAProxy asks the second agent; the first one is its backup."""

    def __init__(self, **more):
        super().__init__(engines=2, show=False, threads=1, agent_conf=CONF, **more)
        self.second_ports = [self.ports.take() for _ in range(3)]
        self.edit = self.add_second

    def add_second(self, text):
        spop, feed, _ = self.second_ports
        a1 = re.search(r"(?m)^    server a1 .*\n", text).group(0)
        text = text.replace(a1, a1.replace("\n", " backup\n") + a1.replace(
            "a1", "a2").replace(str(self.agent_port), str(spop)))
        ring = re.search(r"(?m)^    server agent \S+.*\n", text).group(0)
        return text.replace(ring, ring + ring.replace("agent ", "agent2 ").replace(
            str(self.feed_port), str(feed)))

    def start_agent(self):
        super().start_agent()
        spop, feed, metrics = self.second_ports
        text = self.agent_yaml()
        for old, new in ((self.agent_port, spop), (self.feed_port, feed),
                         (self.metrics_port, metrics)):
            text = text.replace(":%d" % old, ":%d" % new)
        os.makedirs(os.path.join(self.folder, "second"))
        self.second_yaml = self.write("second.yaml", text.replace(
            "state_dir: " + self.folder, "state_dir: " + os.path.join(self.folder, "second")))
        self.spawn("agent2", [os.path.join(BUILD, "kvroute"), "-f", self.second_yaml])
        self.wait_alive("agent2", "the second agent",
                        lambda: self.get("/ready", metrics)[0] == 200)

    def stop(self, keep=False):
        self.end("agent2")
        super().stop(keep)

    def start_haproxy(self):
        self.agent_checked = False
        super().start_haproxy()
        wait_for("both agents", 60, lambda: self.up_servers("spoe_agent") == 2)


def case_two_agents():
    with TwoAgents() as f:
        metrics = "127.0.0.1:%d" % f.second_ports[2]
        is_lost(f, "agent", "HAProxy asks another one")
        for more in (("-f", f.second_yaml), ("--metrics", metrics)):
            status, text = live(f, "--wait", "900", *more)
            assert "lost" not in text, text
            assert "ok    agent: the one at %s decided" % metrics in text, text
            assert re.search("(?m)^ok    feed: ", text), text
        status, text = live(f, "--wait", "900", "-f", f.second_yaml, "--metrics", "127.0.0.1:1")
        assert "note  agent: no answer from its metrics at 127.0.0.1:1" in text, text
        assert "lost" not in text, text


# ---- TLS

def case_tls():
    def edit(text):
        return re.sub(r"bind (\S+)", r"bind \1 ssl crt %s" % pem, text, count=1)

    if shutil.which("openssl") is None:
        print("skipped: clients over TLS, there is no openssl")
        return
    with tempfile.TemporaryDirectory(prefix="kvroute-") as folder:
        pem = certificate(folder)
        with small(edit) as f:
            status, text = live(f, "--wait", "900")
            assert "sent to https://127.0.0.1:%d, answer 200" % f.port in text, text
            for station in ("log", "filter", "server", "feed"):
                assert re.search("(?m)^ok    %s: " % station, text), text
            is_lost(f, "request", "closed the connection", "--url", "127.0.0.1:%d" % f.port)
            status, text = live(f, "--wait", "900", "--url", "https://localhost:%d" % f.port)
            assert "lost" not in text, text


# ---- errors of SPOE

class Mute:
    """An agent that takes connections and never answers, or closes each at once."""

    def __init__(self, closes):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port, self.closes, self.kept = self.socket.getsockname()[1], closes, []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client = self.socket.accept()[0]
            if self.closes:
                client.close()
            else:
                self.kept.append(client)


def to(port):
    """HAProxy asks that port, without a check."""
    return lambda text: re.sub(r"server a1 \S+ .*", "server a1 127.0.0.1:%d" % port, text)


def case_agent_mute():
    with small(to(Mute(False).port), agent_checked=False, processing="100ms") as f:
        is_lost(f, "filter", r"HAProxy's error (1|258), ")


def case_agent_closes():
    with small(to(Mute(True).port), agent_checked=False, processing="2s") as f:
        is_lost(f, "filter", r"HAProxy's error \d+, .*: \S")


def case_agent_stopped():
    """Its metrics do not answer either; HAProxy's error says more."""
    def edit(text):
        return re.sub(r"(server a1 \S+) .*", r"\1", text)

    with small(edit, agent_checked=False, processing="500ms") as f:
        arrives(f)
        f.processes["agent"].send_signal(signal.SIGSTOP)
        try:
            status, text = live(f, "--wait", "900")
        finally:
            f.processes["agent"].send_signal(signal.SIGCONT)
        cases.equal(status, 1, text)
        assert "note  agent: no answer from its metrics" in text, text
        assert re.search(r"(?m)^lost  filter: HAProxy's error \d+, .*: \S", text), text


def case_wrong_group():
    """A group with another message has no answer, so nothing tells of a decision."""
    def edit(text):
        return edited(text, "send-spoe-group kvroute route", "send-spoe-group kvroute hello")

    with tempfile.TemporaryDirectory(prefix="kvroute-") as folder:
        path = os.path.join(folder, "edited.spoe")
        with open(os.path.join(TOP, "haproxy-conf/kvroute.spoe")) as f:
            spoe = edited(f.read(), "groups route first", "groups route first hello")
        with open(path, "w") as f:
            f.write(spoe + "\nspoe-message hello\n    args uid=unique-id\n\n"
                    "spoe-group hello\n    messages hello\n")
        with small(edit, spoe=path) as f:
            is_lost(f, "filter", "did not ask the agent: .* the group and the conditions")


def case_engines_down():
    with small() as f:
        for name in f.names:
            f.haproxy_command("set server pool/%s state maint" % name)
        is_lost(f, "HAProxy", "no server of pool is up")


CASES = [v for k, v in list(globals().items()) if k.startswith("case_")]

if __name__ == "__main__":
    sys.exit(cases.main(CASES, sys.argv[1:]))
