#!/usr/bin/env python3
"""problems.py [-k WORD] - attach a correct configuration, break it in one way, and find the one
log line that names the mistake.

Each case has its own HAProxy, agent and two engines, and the configuration that operators copy with
one edit. Requests are sent until /metrics report the problem. Then the log must have one warning of
that problem, with its remedy, and none of another. The correct configuration must show none during
the usual events of a day. Cases run in parallel, on HAProxy 2.6, 3.0 and 3.2 unless they name a
version; the last line is "N passed, N failed".
"""
import concurrent.futures
import os
import re
import signal
import socket
import ssl
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "promises"))
sys.dont_write_bytecode = True

import fleet  # noqa: E402
from fleet import TOP, wait_for  # noqa: E402
from p01_failure import FakeAgent  # noqa: E402

VERSIONS = {v: os.path.join(TOP, "build/haproxy/%s/haproxy" % v) for v in ("2.6", "3.0", "3.2")}
CONF = "index: {max_bytes: 8 MiB}\nproblems: {min_requests: 6, window: 500 ms}\n"
SEEN_WITHIN_S = 60      # on a busy machine
SIDE_BY_SIDE = 6


class Fleet(fleet.Fleet):
    """A fleet whose HAProxy may never reach the agent."""
    fake = None

    def __init__(self, cfg=None, spoe=None, version="3.0", conf="", **kw):
        super().__init__(engines=2, haproxy=VERSIONS[version], agent_conf=CONF + conf, threads=1,
                         show=False,
                         edit=lambda text: cfg(self, text) if cfg else text, **kw)
        if spoe:
            with open(os.path.join(TOP, "haproxy-conf/kvroute.spoe")) as f:
                self.spoe = self.write("edited.spoe", spoe(f.read()))

    def start_haproxy(self):
        self.with_agent = False         # not to be waited for
        super().start_haproxy()

    def stop(self, keep=False):
        super().stop(keep)
        if self.fake:
            self.fake.end()

    def raised(self):
        return {k for k, v in self.metrics().items() if k.startswith("kvroute_problem{") and v == 1}

    def lines(self, word="level=warn"):
        with open(os.path.join(self.folder, "agent.log")) as f:
            return [line for line in f.read().splitlines() if word in line and " problem=" in line]


def replace(old, new, regex=False):
    """Return an edit that replaces a text and fails if the text is missing."""
    def edit(*args):
        text = args[-1]
        got = re.sub(old, new, text) if regex else text.replace(old, new)
        if got == text:
            raise AssertionError("nothing to replace: %r" % old)
        return got
    return edit


def drop_line(word):
    return replace(r"(?m)^.*%s.*\n" % word, "", regex=True)


def move_below(word, below):
    """Move the line with <word> after the one with <below>."""
    def edit(f, text):
        line = re.search(r"(?m)^.*%s.*\n" % word, text).group(0)
        text = text.replace(line, "")
        at = re.search(r"(?m)^.*%s.*\n" % below, text).end()
        return text[:at] + line + text[at:]
    return edit


def port(name, of):
    """Return an edit that swaps two of the agent's ports."""
    def edit(f, text):
        numbers = {"spop": f.agent_port, "feed": f.feed_port, "metrics": f.metrics_port,
                   "closed": fleet.free_ports(1)[0],
                   "fake": f.fake and f.fake.s.getsockname()[1]}
        return replace("server %s 127.0.0.1:%d" % ({"spop": "a1", "feed": "agent"}[name],
                                                   numbers[name]),
                       "server %s 127.0.0.1:%d" % ({"spop": "a1", "feed": "agent"}[name],
                                                   numbers[of]))(text)
    return edit


def talk(f, size=3000, stream=None):
    """Send a new conversation, its second turn, and a request without the filter."""
    n = talk.n = talk.n + 1
    messages = [{"role": "user", "content": ("words %d " % n) * (size // 9)}]
    for s in ([False, True] if stream is None else [stream]):
        f.chat(messages, stream=s)
    f.get("/v1/models")


talk.n = 0


def talk_slowly(f):
    """Send the head of a request, and its body a moment later."""
    body = b'{"model":"stub","max_tokens":2,"messages":[{"role":"user","content":"%s"}]}' % (
        b"late " * 800)
    with socket.create_connection(("127.0.0.1", f.port), timeout=20) as s:
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: "
                  b"close\r\ncontent-length: %d\r\n\r\n" % len(body))
        time.sleep(0.05)
        s.sendall(body)
        while s.recv(65536):
            pass


def to_fake_agent(how):
    """Connect HAProxy to an agent that <how>; the log feed goes to ours."""
    def edit(f, text):
        f.fake = FakeAgent(0, how)
        return port("spop", "fake")(f, text)
    return edit


def scrape(of, tls=False):
    """Talk, and read the metrics at the wrong port, or with TLS."""
    def ask(f):
        talk(f)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        address = ("127.0.0.1", {"feed": f.feed_port, "metrics": f.metrics_port}[of])
        with socket.create_connection(address, timeout=0.5) as s:
            try:
                s = context.wrap_socket(s) if tls else s
                s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                s.shutdown(socket.SHUT_WR)
                s.recv(100)
            except OSError:
                pass
    return ask


def named(what, pool="pool", ask=talk, also=(), **kw):
    """Break the configuration, send requests until the metric is 1, and check the log."""
    with Fleet(**kw) as f:
        want = 'kvroute_problem{what="%s",pool="%s"}' % (what, pool)
        metrics = f.metrics()
        assert metrics['kvroute_problem{what="%s",pool=""}' % what] == 0, "not at 0 before"

        def asked():
            ask(f)
            return want in f.raised()
        wait_for(want, SEEN_WITHIN_S, asked)
        wait_for("the line of " + what, 10, lambda: f.lines(" problem=%s " % what))
        for _ in range(5):
            ask(f)
        lines = [line for line in f.lines() if " problem=%s " % what in line]
        assert len(lines) == 1 and " remedy=" in lines[0], lines
        others = {re.search(r" problem=(\S+)", line).group(1)
                  for line in f.lines()} - {what} - set(also)
        assert not others, "also named: %s" % sorted(others)


def sound(version):
    """Events of a normal day of a pool cause no warning and no metric."""
    with Fleet(version=version, processing="1s") as f:
        wait_for("the agent is up for HAProxy", 20, lambda: f.up_servers("spoe_agent") == 1)
        for i in range(12):
            talk(f)
        f.post("/v1/chat/completions", b"no JSON at all " * 300)
        f.post("/v1/chat/completions", {"model": "stub"})
        with socket.create_connection(("127.0.0.1", f.port), timeout=5) as s:       # and away
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 99999\r\n\r\n{")
        f.haproxy_command("set server pool/s1 weight 0")
        for i in range(6):
            talk(f)
        f.haproxy_command("set server pool/s1 weight 1")
        f.end("s2", signal.SIGKILL)                 # refused, redispatched, then down
        for i in range(6):
            talk(f)
        f.start_engine("s2")
        f.end("agent")                              # HAProxy keeps its log lines meanwhile
        for i in range(6):
            talk(f)
        f.start_agent()
        for i in range(6):
            talk(f)
        f.end("haproxy", signal.SIGINT)
        os.unlink(f.stats_path)
        f.start_haproxy()
        wait_for("the agent is up for HAProxy", 20, lambda: f.up_servers("spoe_agent") == 1)
        end = time.time() + 3
        while time.time() < end:
            talk(f)
        assert not f.raised(), f.raised()
        assert not f.lines(""), f.lines("")


def ends():
    """A corrected mistake ends: the metric returns to 0, and the log says so once."""
    with Fleet(cfg=drop_line("    use-server")) as f:
        want = 'kvroute_problem{what="not_followed",pool="pool"}'

        def asked(raised):
            talk(f)
            return (want in f.raised()) == raised
        wait_for(want, SEEN_WITHIN_S, lambda: asked(True))
        f.end("haproxy", signal.SIGINT)
        os.unlink(f.stats_path)
        f.edit = None
        f.start_haproxy()
        wait_for("the end of " + want, SEEN_WITHIN_S, lambda: asked(False))
        wait_for("the line that says so", 10, lambda: f.lines("level=info"))
        assert f.metrics()[want] == 0
        assert len(f.lines()) == 1 and len(f.lines("level=info")) == 1, f.lines("")


# HAProxy never reaches the agent, so it must give up soon, with the recipe's own timeouts.
UNREACHED = {"processing": None, "also": ["not_asked"]}

CASES = [
    ("log_on_http", dict(cfg=port("feed", "metrics"), pool="", also=["feed_missing"])),
    ("load_missing", dict(spoe=replace(" load=var(txn.load)", ""))),
    ("load_unset", dict(cfg=drop_line("set-var-fmt.txn.load"))),
    ("load_unset", dict(cfg=move_below("set-var-fmt.txn.load", "send-spoe-group kvroute route"))),
    ("load_bad", dict(cfg=replace("[srv_conn(s2)]", "[str(x)]"), also=["server_unnamed"])),
    ("server_unnamed", dict(cfg=replace(r";s2=[^;\"]*", "", regex=True))),
    ("pool_unset", dict(spoe=replace("pool=str(pool)", "pool=var(txn.pool)"), pool="")),
    ("pool_differs", dict(spoe=replace("str(pool)", "str(pol)"), pool="pol")),
    ("uid_missing", dict(cfg=drop_line("unique-id-format"), also=["feed_missing", "feed_plain"])),
    ("feed_missing", dict(cfg=port("feed", "closed"))),
    ("feed_missing", dict(cfg=replace("    log global\n", ""))),
    ("feed_plain", dict(cfg=replace(r"(?m)^    log-format .*$", "    option httplog", regex=True))),
    ("feed_fields", dict(cfg=replace('"srv":"%s",', ""))),
    ("body_buffer", dict(bufsize=16384, ask=lambda f: talk(f, 18000))),
    ("body_bound", dict(spoe=replace("bytes(0,256000)", "bytes(0,2000)"))),
    ("body_early", dict(cfg=drop_line("request wait-for-body time 10m"), ask=talk_slowly)),
    ("model_unasked", dict(conf="models: [{name: llama}]\n", pool="")),
    ("not_asked", dict(cfg=drop_line("set-var.txn.api"))),
    ("answer_lost", dict(spoe=replace("option var-prefix kvroute", "option var-prefix kv"))),
    ("not_followed", dict(cfg=drop_line("    use-server"))),
    ("spoe_too_big", dict(cfg=replace("%[hostname]/", "h" * 1600),
                          spoe=replace("bytes(0,256000)", "bytes(0,16000)"), bufsize=16384,
                          version="3.2", ask=lambda f: talk(f, 18000), also=["not_asked"])),
    ("spoe_timeout", dict(cfg=to_fake_agent("ACK of another stream"), processing="200ms")),
    ("spoe_failed",
     dict(cfg=to_fake_agent("closed at once"), processing="200ms", also=["spoe_timeout"])),
    ("proxy_on_spop",
     dict(cfg=replace("check inter 200ms fall 1 rise 1 on-marked",
                      "send-proxy check-send-proxy check inter 200ms fall 1 rise 1 on-marked"),
          pool="", **UNREACHED)),
    ("proxy_on_spop",
     dict(cfg=replace("check inter 200ms fall 1 rise 1 on-marked",
                      "send-proxy-v2 check-send-proxy check inter 200ms fall 1 rise 1 on-marked"),
          pool="", **UNREACHED)),
    ("tls_on_spop",
     dict(cfg=replace("check inter 200ms fall 1 rise 1 on-marked",
                      "ssl verify none check inter 200ms fall 1 rise 1 on-marked"), pool="",
          **UNREACHED)),
    ("http_on_spop",
     dict(cfg=replace("option spop-check", "option httpchk"), pool="", **UNREACHED)),
    ("log_on_spop", dict(cfg=port("feed", "spop"), pool="", also=["feed_missing"])),
    ("spop_on_feed", dict(cfg=port("spop", "feed"), pool="", **UNREACHED)),
    ("tls_on_feed", dict(cfg=replace(r"(server agent \S+)", r"\1 ssl verify none", regex=True),
                         pool="", also=["feed_missing", "feed_plain"])),
    ("http_on_feed", dict(ask=scrape("feed"), pool="")),
    ("tls_on_http", dict(ask=scrape("metrics", tls=True), pool="")),
    ("spop_on_http", dict(cfg=port("spop", "metrics"), pool="", **UNREACHED)),
]


def main(argv):
    word = argv[argv.index("-k") + 1] if "-k" in argv else ""
    todo = [(what, v, lambda what=what, kw=dict(kw, version=v): named(what, **kw))
            for what, kw in CASES for v in ([kw["version"]] if "version" in kw else VERSIONS)]
    todo[1:1] = [("sound", v, lambda v=v: sound(v)) for v in VERSIONS] + [("ends", "3.0", ends)]
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        running = [(what, version, pool.submit(run, case)) for what, version, case in todo
                   if word in what]
        for what, version, case in running:
            seconds, error = case.result()
            passed, failed = passed + (error is None), failed + (error is not None)
            print("%s  %-16s %s %6.1f s" % ("FAIL" if error else "ok  ", what, version, seconds))
            if error:
                print(error, flush=True)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


def run(case):
    start = time.time()
    try:
        case()
        return time.time() - start, None
    except Exception:
        return time.time() - start, traceback.format_exc(limit=-4)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
