#!/usr/bin/env python3
"""pf_threats.py [-k WORD] - attacks of doc/threats.md through a real HAProxy.

The last line is "N passed, N failed".
"""
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))

from agent import equal, main  # noqa: E402
from fleet import BUILD, HANG_SECONDS, Fleet, edited, wait_for  # noqa: E402
from spop_client import SpopClient  # noqa: E402

CASES = []
FEED_READ = 16384       # READ_MAX of agent/loop/logrx.c
TOKEN = "f9mK3vQ.w_2~Zt+bN/8xR=aL-0cHsYdE"


def case(f):
    CASES.append(f)
    return f


def words(seed, n):
    return " ".join("%s%d" % (seed, i) for i in range(n))


class Fed(Fleet):
    """A fleet whose clients choose the uid, so that a forger can know those of open requests: the
    worst case."""

    def __init__(self, token=False, feed=None, **kw):
        self.token, self.feed = token, feed
        own = kw.pop("edit", lambda text: text)
        edit = lambda text: edited(own(text), "%[uuid()]", "%[req.hdr(x-uid)]")
        super().__init__(edit=edit, conf="recipes/log-token.cfg" if token else "haproxy.cfg", **kw)

    def agent_yaml(self):
        text = super().agent_yaml()
        if self.feed:
            text = re.sub(r"log_feed: \{.*?\}\n", "log_feed: {%s}\n" % self.feed, text)
        if self.token:
            path = self.write("token", TOKEN + "\n")
            os.chmod(path, 0o600)
            text = text.replace("log_feed: {", "log_feed: {token_file: %s, " % path)
        return text

    def start_haproxy(self):
        os.environ["KVROUTE_TOKEN"] = TOKEN
        try:
            super().start_haproxy()
        finally:
            del os.environ["KVROUTE_TOKEN"]

    def lines(self, result="taken"):
        return int(self.metrics()['kvroute_feed_lines_total{result="%s"}' % result])

    def refused(self):
        m = self.metrics()
        return [int(m['kvroute_facts_refused_total{reason="%s"}' % r])
                for r in ("no_token", "wrong_token")]

    def log(self):
        with open(os.path.join(self.folder, "agent.log")) as f:
            return f.read()


# ---- forged facts

CONVERSATIONS, TURNS, FORGED = 12, 3, 10000


def forged(uid, n, server, token):
    """Return <n> lines about <uid>: served at once by another server, rejected by the right one."""
    lie = [{"uid": uid, "be": "pool", "srv": server, "want": "s1", "st": 200, "ts": "--", "tr": 1,
            "ta": 2, "rc": "+1"},
           {"uid": uid, "be": "pool", "srv": "s1", "st": 503, "ts": "SC", "tr": -1, "rc": "+1"}]
    guess = [{}, {"token": TOKEN[:-1] + "F"}, {"token": ""}, {"token": TOKEN[:-1]},
             {"token": TOKEN + "x"}]
    lines = [json.dumps({**lie[i % 2], **(guess[i % 5] if token else {})}) for i in range(n)]
    return ("\n".join(lines) + "\n").encode()


def traffic(fleet, forge=None):
    """Send conversations of several turns; <forge> acts while each request is open. Return the
    later turns that went to their first server, their answers, and the agent's counts."""
    home, kept, whys, before = {}, 0, [], fleet.lines()
    for turn in range(TURNS):
        for c in range(CONVERSATIONS):
            text = words("c%d" % c, 150) + words("t", 40 * turn)
            uid = "uid-%d-%d" % (c, turn)
            got = []
            t = threading.Thread(target=lambda: got.append(
                fleet.chat([{"role": "user", "content": text}], stream=True,
                           headers={"x-uid": uid})))
            t.start()
            wait_for("an open request", 5,
                     lambda: fleet.metrics()["kvroute_ledger_open_requests"] >= 1 or got)
            if forge:
                forge(uid)
            t.join()
            equal(got[0].status, 200, "status")
            whys.append(got[0].why)
            kept += turn > 0 and got[0].server == home[c]
            home.setdefault(c, got[0].engine)
    n = CONVERSATIONS * TURNS
    wait_for("the log lines", 10, lambda: fleet.lines() >= before + n)
    return kept, whys, fleet.metrics()


def forger(fleet, per_request, token, tcp, known):
    """One open socket to the feed, TCP or UDP."""
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.connect(("127.0.0.1", fleet.feed_port))
    sent = [0]

    def forge(uid):
        text = forged(uid if known else "guess-%d" % sent[0], per_request,
                      "s%d" % (2 + sent[0] // per_request % 3), token)
        n = text.count(b"\n")
        seen = lambda: sum(fleet.refused()) + fleet.lines() + fleet.metrics()[
            "kvroute_feed_udp_dropped_total"]
        target = seen() + n
        if tcp:
            s.sendall(text)
        else:
            for line in text.splitlines():
                s.send(line)
        sent[0] += n
        wait_for("the forged lines to be read", 10, lambda: seen() >= target)
    return forge, sent


def story(name, token, forging, tcp=True, known=True, per=None):
    per = per or -(-FORGED // (CONVERSATIONS * TURNS))
    with Fed(token=token, engine_options=["--prefill-tps", "3000"]) as f:
        forge, sent = forger(f, per, token, tcp, known) if forging else (None, [0])
        start = time.time()
        kept, whys, m = traffic(f, forge)
        later = CONVERSATIONS * (TURNS - 1)
        failures = sum(int(v) for k, v in m.items() if k.startswith("kvroute_failures_total"))
        print("      %-36s forged=%d refused=%d later_turns_at_home=%d/%d cached=%d "
              "failures_learned=%d seconds=%.1f" % (
            name, sent[0], sum(f.refused()), kept, later, whys.count("cached"), failures,
            time.time() - start))
        return kept, whys.count("cached"), failures, sent[0], f.refused(), later


@case
def forged_lines_with_a_token_change_nothing():
    calm = story("nobody forges", True, False)
    equal(calm[:3], (calm[5], calm[5], 0), "without a forger")
    equal(calm[4], [0, 0], "lines refused without a forger")
    for name, tcp in (("a token, forged over TCP", True), ("a token, forged over UDP", False)):
        got = story(name, True, True, tcp)
        assert got[3] >= FORGED, got[3]
        equal(got[:3], calm[:3], "routing, cached answers and failures with a forger")
        if tcp:
            equal(sum(got[4]), got[3], "forged lines that were refused")
            assert min(got[4]) > 0, got[4]


@case
def forged_lines_without_a_token():
    """Unknown uids have no effect. With the uids of open requests an attacker misdirects their next
    turns, which shows that the case above can fail. The token prevents this. On a busy machine the
    requests may be over before the forger's lines are read; then it tries again."""
    got = story("no token, uids not known", False, True, known=False)
    equal(got[:3], (got[5], got[5], 0), "routing with uids that are not known")
    for _ in range(5):
        got = story("no token, uids known", False, True, per=2)
        if got[0] < got[5]:
            return
    raise AssertionError("the forger had no effect, so the case above shows nothing")


@case
def a_wrong_token_is_said_and_never_shown():
    with Fed(token=True) as f:
        s = socket.create_connection(("127.0.0.1", f.feed_port))
        s.sendall(b'{"be":"pool"}\n{"uid":"u"}\n{"uid":"u","token":"AAAABBBBCCCCDDDD"}\n'
                  + b'{"uid":"u","token":"%s"}\n' % TOKEN.encode())
        wait_for("the last line", 5, lambda: f.lines() == 1)
        equal(f.refused(), [2, 1], "lines that are refused, also of those without a uid")
        log, page = f.log(), f.get("/metrics", f.metrics_port)[1]
        assert "has no token" in log and "has a wrong token" in log, log
        p = subprocess.run([os.path.join(BUILD, "kvroute"), "-f",
                            os.path.join(f.folder, "kvroute.yaml"), "-tv"], capture_output=True,
                           text=True)
        equal(p.returncode, 0, "-tv: " + p.stderr)
        assert "token_file: " in p.stdout, "-tv does not name the file"
        for where in (log, page, p.stdout, p.stderr):
            assert TOKEN not in where and "AAAABBBB" not in where, "a token is shown"
        with open("/proc/%d/environ" % f.processes["agent"].pid) as env:
            assert TOKEN not in env.read(), "the token is in the agent's environment"


@case
def token_files_open_to_others_are_refused():
    with Fed(token=True) as f:
        f.end("agent")
        os.chmod(os.path.join(f.folder, "token"), 0o640)
        p = subprocess.run([os.path.join(BUILD, "kvroute"), "-f",
                            os.path.join(f.folder, "kvroute.yaml")], capture_output=True, text=True,
                           timeout=HANG_SECONDS)
        equal(p.returncode, 1, "exit code")
        assert "chmod 0600" in p.stderr and TOKEN not in p.stderr, p.stderr


@case
def silent_connections_do_not_block_the_feed():
    """Silent connections, or ones that send rejected lines, take all places: HAProxy's line is
    still accepted."""
    feed = "tcp: [\"127.0.0.1:%d\"], udp: [], max_connections: 4"
    f = Fed(token=True)
    f.feed = feed % f.feed_port
    with f:
        held, asked = [], 0
        for line in range(1, 4):
            for _ in range(8):
                held.append(socket.create_connection(("127.0.0.1", f.feed_port)))
                held[-1].sendall(b'{"uid":"u","token":"AAAABBBBCCCCDDDD"}\n')
            # more than one may be needed, because a line is lost if HAProxy writes it into a
            # connection that has just ended
            until = time.monotonic() + HANG_SECONDS
            while f.lines() < line and time.monotonic() < until:
                asked += 1
                f.chat([{"role": "user", "content": words("x", 90)}],
                       headers={"x-uid": "u%d" % asked})
                time.sleep(0.1)
            assert f.lines() >= line, "round %d: no line came through" % line
        m = f.metrics()
        print("      24 connections of others, 4 places: pushed out %d, refused %d, HAProxy's "
              "lines %d of %d" % (
            m["kvroute_feed_pushed_out_total"], m["kvroute_feed_refused_total"], f.lines(), asked))
        assert m["kvroute_feed_pushed_out_total"] >= 20, m["kvroute_feed_pushed_out_total"]
        assert m["kvroute_feed_connections"] <= 4, m["kvroute_feed_connections"]


@case
def the_feed_on_unix_sockets():
    for kind in ("tcp", "udp"):
        f = Fed()
        path = os.path.join(f.folder, "log.sock")
        f.feed = "tcp: [], udp: []".replace(kind + ": []", kind + ": [\"unix@%s\"]" % path)
        old = f.edit
        if kind == "tcp":
            f.edit = lambda text: edited(old(text), "server agent 127.0.0.1:%d" % f.feed_port,
                                                    "server agent unix@" + path)
        else:
            f.edit = lambda text: edited(old(text), "log ring@kvroute-feed len",
                                                    "log %s len" % path)
        with f:
            equal(oct(os.stat(path).st_mode & 0o777), "0o660", "mode of the socket")
            f.chat([{"role": "user", "content": words("x", 90)}], headers={"x-uid": "u1"})
            wait_for("a log line over " + kind, 5, lambda: f.lines() == 1)
            f.end("agent")
            assert not os.path.exists(path), "the socket is still there"


@case
def addresses_beyond_loopback_are_warned_of():
    with Fed() as f:
        assert "not loopback" not in f.log(), "loopback is warned of"
        f.end("agent")
        text = f.agent_yaml().replace('"127.0.0.1:', '"*:')
        path = f.write("open.yaml", text)
        p = subprocess.run([os.path.join(BUILD, "kvroute"), "-t", "-f", path], capture_output=True,
                           text=True)
        equal((p.returncode, p.stdout), (0, "configuration is valid\n"), "-t")
        for key in ("spop.listen", "log_feed.tcp", "log_feed.udp", "metrics.listen"):
            assert "warning: %s has *:" % key in p.stderr, p.stderr
        f.spawn("agent", [os.path.join(BUILD, "kvroute"), "-f", path])
        wait_for("the agent", 10, lambda: f.get("/ready", f.metrics_port)[0] == 200)
        equal(len(re.findall(r"level=warn .*not loopback", f.log())), 4, "warnings in the log")


# ---- tenants

class Alone(Fleet):
    """An agent without HAProxy; the test sends what HAProxy would send."""

    def __init__(self, **kw):
        super().__init__(engines=0, **kw)
        self.n, self.spop = 0, None

    def start(self):
        self.start_agent()
        self.spop = SpopClient(self.spop_address)

    def stop(self, keep=False):
        if self.spop:
            self.spop.close()
        super().stop(keep)

    def ask(self, tenant, body, served=True, **more):
        """Send a request of <tenant>. Returns the answer's why, matched pages and hit. <served>:
        the engine answers it, so that the prompt becomes known."""
        self.n += 1
        uid = "u%d" % self.n
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        args = {"uid": uid, "pool": "pool", "load": "lb/1;s1=1,0,0,1;s2=1,0,0,1",
                "path": "/v1/chat/completions"}
        if tenant is not None:
            args["tenant"] = tenant
        args.update(more)
        a = self.spop.notify("route", {**args, "body": body})
        if served:
            self.spop.notify("first", {"uid": uid, "srv": a["txn.server"], "st": 200,
                                       "ct": "text/event-stream"})
            self.spop.notify("done", {"uid": uid, "srv": a["txn.server"], "st": 200, "ts": "--",
                                      "tr": 5, "ta": 9})
        else:
            self.spop.notify("done",
                             {"uid": uid, "srv": "<NOSRV>", "st": 503, "ts": "SC", "tr": -1})
        return a["txn.why"], a["txn.pages"], a["txn.hit"]


def chat(seed, **more):
    """Keys of the body itself in <more>."""
    return {"messages": [{"role": "user", "content": words(seed, 120)}], "model": "m", **more}


def cut(body):
    """Return the first part of a body, and its lengths as HAProxy would send them."""
    text = json.dumps(body).encode()
    return text[:len(text) * 9 // 10], {"blen": len(text) * 9 // 10, "bsize": len(text)}


@case
def a_flood_of_lines_does_not_delay_the_index():
    """The pages of a removed server are forgotten in steps of 64, one after each turn of reading,
    which is at most one read of each connection. The test counts lines read meanwhile, and allows
    four times as many. With one step for each tick, ten a second, a usual machine would read some
    20,000 lines for each."""
    n, connections, stop = 6000, 4, threading.Event()
    line = (b'{"uid":"nobody","be":"pool","srv":"new","st":200,"ts":"--","tw":1,"tc":1,"tr":1,'
            b'"ta":1,"out":1,"in":1}\n')
    junk = line * 640

    def flood():
        with socket.create_connection(("127.0.0.1", f.feed_port)) as s:
            while not stop.is_set():
                s.sendall(junk)

    f = Alone()
    f.agent_conf = "servers: {max_age: 1s}"
    with f:
        for i in range(n):
            f.ask(None, {"messages": [{"role": "user", "content": words(str(i), 20)}]},
                  load="lb/1;old=1,0,0,1")
        before = f.metrics()["kvroute_index_records"]
        floods = [threading.Thread(target=flood) for _ in range(connections)]
        for t in floods:
            t.start()
        try:
            def gone():
                f.ask(None, chat("x"), load="lb/1;new=1,0,0,1")
                m = f.metrics()
                return "kvroute_server_held_tokens{pool=\"pool\",server=\"old\"}" not in m and m

            def forgotten():
                m = f.metrics()
                return m["kvroute_index_records"] < 100 and m

            taken = lambda m: int(m["kvroute_feed_lines_total{result=\"taken\"}"])
            first = taken(wait_for("the server to go", 30, gone))
            meanwhile = taken(wait_for("what it held to go", 60, forgotten)) - first
        finally:
            stop.set()
            for t in floods:
                t.join()
        steps, turn = (before - 100) / 64, connections * FEED_READ / len(line)
        print("      %d records forgotten in %d steps: %d lines meanwhile, %.0f for each; a turn "
              "reads "
              "%.0f at most" % (before, steps, meanwhile, meanwhile / steps, turn))
        assert before > 0.9 * n, before
        assert meanwhile < steps * turn * 4, (meanwhile, steps, turn)


@case
def tenants_never_meet():
    """Two tenants send the same prompt, with every way to send tenant, model, salt and body: each
    gets the answers that it would get alone. The first tenant matches its own prompt, so there was
    something to match."""
    many, met, own = 60, {}, {}
    with Alone() as f:
        def try_out(name, mine, other):
            """<mine> and <other>: n -> (tenant, body, more). At the end the first tenant sends both
            again."""
            met[name] = own[name] = 0
            for i in range(many):
                t, b, m = mine("%s%d" % (name, i))
                f.ask(t, b, **m)
                ot, ob, om = other("%s%d" % (name, i))
                a = f.ask(ot, ob, served=False, **om)
                met[name] += (a[0] not in ("cold", "headless")) or a[1:] != (0, 0)
                a = f.ask(t, b, served=False, **m)
                own[name] += a[1] > 0
        plain = lambda whose, **more: lambda n: (whose, chat(n, **more), {})
        argued = lambda tenant, model: lambda n: (tenant, chat(n), {"model": model})
        try_out("tenant", plain("a"), plain("b"))
        try_out("none", plain("a"), plain(None))
        try_out("empty", plain(None), plain("a"))
        try_out("case", plain("a"), plain("A"))
        try_out("nul", plain("a"), plain("a\0b"))
        try_out("long", plain("a" * 5000), plain("a" * 5001))
        try_out("border", argued("ab", "c"), argued("a", "bc"))
        try_out("model", argued("a", "b"), argued("b", "a"))
        for key in ("cache_salt", "user", "tenant", "prompt_cache_key", "safety_identifier",
                    "metadata"):
            try_out("says_" + key, plain("a"),
                    plain("b", **{key: {"user_id": "a"} if key == "metadata" else "a"}))
        try_out("salt_of_the_other", plain("a", cache_salt="secret"),
                plain("b", cache_salt="secret"))
        try_out("salt_as_tenant", plain("a"), plain("", cache_salt="a"))
        try_out("tenant_as_salt", plain("", cache_salt="a"), plain("a"))
        half = lambda tenant: lambda n: (tenant,) + cut(chat(n))
        try_out("headless", half("a"), half("b"))
        for name in met:
            print("      %-24s %d prompts: %d met, %d of the own came back"
                  % (name, many, met[name], own[name]))
        equal({k: v for k, v in met.items() if v}, {}, "meetings")
        equal({k: v for k, v in own.items() if v != many}, {}, "own prompts that came back")


@case
def heads_stay_with_their_tenant():
    """A complete body gives model, tools and system text to later cut ones, for its own tenant
    only."""
    tools = [{"type": "function",
              "function": {"name": "f%d" % i, "description": words("d%d" % i, 20)}}
             for i in range(4)]
    lent = {"a": 0, "b": 0, None: 0}
    with Alone() as f:
        for i in range(40):
            head = {"messages": [{"role": "user", "content": words("opening%d" % i, 100)}]}
            f.ask("a", {**head, "model": "big", "tools": tools})
            longer = {"messages": head["messages"]
                      + [{"role": "assistant", "content": words("y", 99)}], "model": "big",
                      "tools": tools}
            text = json.dumps(longer).encode()
            part = text[:text.index(b'"model"')]
            for tenant in ("b", None, "a"):
                why = f.ask(tenant, part, served=False, blen=len(part), bsize=len(text))[0]
                lent[tenant] += why != "headless"
        m = f.metrics()
        print("      40 cut bodies each: head lent to its tenant %d times, to another %d, to none "
              "%d; recalled %d" % (
            lent["a"], lent["b"], lent[None], m["kvroute_bodies_cut_recalled_total"]))
        equal(lent, {"a": 40, "b": 0, None: 0}, "heads lent")
        equal(m["kvroute_bodies_cut_recalled_total"], 40, "heads recalled")


@case
def tenants_share_without_isolation():
    """With isolate_tenants: false tenants share prompts, which shows that the case before can
    fail."""
    with Alone(agent_conf="policy: {isolate_tenants: false}") as f:
        f.ask("a", chat("x"))
        equal(f.ask("b", chat("x"), served=False)[0], "cached", "why")


@case
def times_of_decisions_reveal_nothing():
    """100,000 prompts, half sent before by another tenant: tests/unit/route/test_timing.c"""
    p = subprocess.run([os.path.join(BUILD, "tests/unit/route/test_timing")], capture_output=True,
                       text=True,
                       env={**os.environ, "LONG": "1"},
                       cwd=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
    for line in p.stdout.splitlines():
        if "kept apart" in line:
            print("      " + line)
    equal(p.returncode, 0, p.stdout[-1000:] + p.stderr[-1000:])


# ---- the page

@case
def documents_name_existing_files_and_keys():
    """Files, keys, metrics and suites named in doc/threats.md and doc/promises.md exist."""
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
    page = ""
    for name in ("threats", "promises"):
        with open(os.path.join(top, "doc/%s.md" % name)) as p:
            page += p.read()
    with open(os.path.join(top, "tests/run.sh")) as r:
        text = r.read()
    suites = set(re.findall(r"(?m)^\t\[([\w.-]+)\]=", text))
    suites |= {"%s-%s" % (name, v) for v in re.search(r"for v in (.*); do", text).group(1).split()
               for name in re.search(r"for name in (.*); do", text).group(1).split()}
    told = {s for row in re.findall(r"(?m)^\|.*\|.*\|.*\|$", page)
            for group in re.findall(r"` \(([\w., -]+)", row) for s in re.split(r", ", group)}
    equal(sorted(told - suites - {"long"}), [], "suites that are not there")
    named = re.findall(r"`([^`\n]+)`", page)
    files = {n for n in named if re.match(r"(tests|haproxy-conf|doc)/\S+$", n)}
    equal([n for n in sorted(files) if not os.path.exists(os.path.join(top, n))], [],
          "files that are not there")
    with open(os.path.join(top, "doc/kvroute.yaml")) as y:
        keys = set()
        for line in y:
            m = re.match(r"( *)(?:- )?(\w+):(.*)", line)
            if m and not m.group(1):
                section = m.group(2)
                keys.add(section)
            elif m:
                keys.add(section + "." + m.group(2))
    sections = "spop|log_feed|metrics|index|heads|slices|ledger|prompt|policy"
    spoken = {n for n in named if re.fullmatch(r"(%s)\.\w+|max_\w+" % sections, n)}
    equal(sorted(spoken - keys), [], "keys that are not there")
    with Alone() as f:
        metrics = {re.sub(r"\{.*", "", m) for m in f.metrics()}
    figures = {n for n in named if n.startswith("kvroute_")}
    equal(sorted(figures - metrics), [], "metrics that are not there")
    print("      %d files, %d keys, %d metrics, %d suites"
          % (len(files), len(spoken), len(figures), len(told)))
    assert len(told) > 5 and len(files) > 25 and len(spoken) > 20 and len(
        figures) > 2, "too few were found"


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
