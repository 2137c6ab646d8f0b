#!/usr/bin/env python3
"""stories.py [-k WORD] - HAProxy, the agent and engines together, one story for each property.

Every story starts its own fleet, is bounded in time and leaves nothing running. HAPROXY names the
binary, B the build folder. Prints a line for each story; the last line is "N passed, N failed".
"""
import collections
import http.client
import json
import os
import re
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
sys.dont_write_bytecode = True

import cases  # noqa: E402
from fleet import BUILD, HANG_SECONDS, HAPROXY, TOP, Fleet, edited, wait_for  # noqa: E402
from small_bpe import SmallBpe  # noqa: E402
from spop_client import AGENT_DISCONNECT, SpopClient  # noqa: E402

WORDS = ("time year people way day man thing woman life child world school state family student "
         "group country").split()
STORIES = []


def story(f):
    STORIES.append(f)
    return f


def text(seed, n):
    """Return about n bytes of words, the same for the same seed."""
    r = random.Random(seed)
    out = []
    size = 0
    while size < n:
        out.append(r.choice(WORDS))
        size += len(out[-1]) + 1
    return " ".join(out)[:n]


def user(content):
    return {"role": "user", "content": content}


def conversation(seed, system=800, first=600):
    return [{"role": "system", "content": text("system %s" % seed, system)},
            user(text("user %s" % seed, first))]


def next_turn(messages, answer, seed):
    return messages + [{"role": "assistant", "content": answer.text()},
                       user(text("next %s" % seed, 300))]


def equal(got, want, what):
    if got != want:
        raise AssertionError("%s: got %r, want %r" % (what, got, want))


def check(true, what):
    if not true:
        raise AssertionError(what)


# ---- routed

@story
def second_turn_follows_the_first():
    with Fleet() as f:
        talk = conversation("a")
        one = f.chat(talk)
        equal((one.status, one.why, one.engine), (200, "cold", one.server), "first turn")
        for turn in range(5):
            talk = next_turn(talk, one, turn)
            two = f.chat(talk)
            equal((two.why, two.engine), ("cached", one.engine), "turn %d" % (turn + 2))
            check(int(two.hit) > 500, "turn %d: hit %s" % (turn + 2, two.hit))
            check(two.cached() > 100,
                  "turn %d: the engine had %d tokens cached" % (turn + 2, two.cached()))
            one = two


@story
def routed_to_the_holder():
    """Eight conversations, then all of them once more, in another order: each finds its own
    server."""
    with Fleet() as f:
        talks = {i: conversation(i) for i in range(8)}
        first = {i: f.chat(t) for i, t in talks.items()}
        order = list(talks)
        random.Random(1).shuffle(order)
        for i in order:
            again = f.chat(next_turn(talks[i], first[i], i))
            equal(again.engine, first[i].engine, "conversation %d" % i)
            check(again.alt not in ("", again.server),
                  "alt is %r, server %r" % (again.alt, again.server))


@story
def two_conversations_spread():
    with Fleet(engines=2) as f:
        a, b = f.chat(conversation("a")), f.chat(conversation("b"))
        check(a.engine != b.engine, "both went to " + a.engine)


@story
def cold_ties_spread():
    with Fleet() as f:
        seen = collections.Counter(f.chat([user(text("cold %d" % i, 200))]).engine
                                   for i in range(40))
        check(len(seen) == 4 and max(seen.values()) <= 12, "40 cold prompts went %r" % dict(seen))


@story
def a_shared_system_prompt_does_not_attract_all_requests():
    """All conversations share the opening; under load the longest match must not decide alone."""
    with Fleet(engine_options=["--prefill-tps", "4000"]) as f:
        shared = {"role": "system", "content": text("shared", 3000)}
        f.chat([shared, user("hello")])
        seen, held = collections.Counter(), []
        for i in range(24):     # none ends before the last has been sent
            c, answer = endless(f, [shared, user(text("own %d" % i, 2500))])
            held.append(c)
            seen[answer.getheader("x-engine")] += 1
        for c in held:
            c.close()
        check(len(seen) >= 3 and max(seen.values()) <= 16, "24 requests went %r" % dict(seen))


def endless(f, messages):
    """Start a stream that lasts until its connection is closed. Return the connection and the
    answer so far."""
    c = http.client.HTTPConnection("127.0.0.1", f.port, timeout=HANG_SECONDS)
    body = {"messages": messages, "model": "stub", "stream": True, "max_tokens": 40000}
    c.request("POST", "/v1/chat/completions", json.dumps(body),
              {"content-type": "application/json"})
    return c, c.getresponse()


@story
def stream_reports_its_first_token():
    with Fleet() as f:
        talk = conversation("s")
        one = f.chat(talk, stream=True, max_tokens=8)
        check(one.body.rstrip().endswith(b"data: [DONE]"), "the stream is not whole")
        two = f.chat(next_turn(talk, one, "s"), stream=True, max_tokens=8)
        equal((two.engine, two.why), (one.engine, "cached"), "second turn")
        m = wait_for("two log lines", 5,
                     lambda: (lambda m: m if m["kvroute_facts_total{kind=\"done\"}"] >= 2
                              else None)(f.metrics()))
        equal(m["kvroute_facts_total{kind=\"first\"}"], 2 if reports_first() else 0,
              "first-token reports")
        equal(m["kvroute_ledger_open_requests"], 0, "open requests when all are done")


def reports_first():
    """The recipe leaves the message out before 3.0."""
    out = subprocess.run([HAPROXY, "-v"], capture_output=True, text=True).stdout
    return int(re.search(r"version (\d+)", out).group(1)) >= 3


def with_backup(text):
    """s4 is a backup server, and load.sh wrote the load line from that."""
    text = re.sub(r"(?m)^    server s4 .*$", r"\g<0> backup", text)
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as f:
        f.write(text)
        f.flush()
        line = subprocess.run([os.path.join(TOP, "haproxy-conf/load.sh"), "-f", f.name, "pool"],
                              capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return re.sub(r"(?m)^    http-request set-var-fmt\(txn.load\) .*$", lambda _: line, text)


def without_load(text):
    return re.sub(r"(?m)^    http-request set-var-fmt\(txn.load\) .*\n", "", with_backup(text))


@story
def a_backup_server_gets_no_request_while_others_are_up():
    """Through the load line and a stats socket: a backup server gets no request while another
    server is up, and all if none is."""
    for edit in (with_backup, without_load):
        # a busy machine answers some checks late
        f = Fleet(edit=lambda t, e=edit: e(t).replace("inter 200ms fall 1", "inter 500ms fall 4"))
        f.agent_conf = ("pools: [{name: pool}]\nstats_feed: {sockets: [\"unix@%s\"], interval: 100 "
                        "ms}") % f.stats_path
        with f:
            wait_for("a request to be routed", 10, lambda: f.chat([user("hello")]).server != "")
            got = [f.chat([user(text("backup %d" % i, 200))]) for i in range(30)]
            seen = collections.Counter(a.engine for a in got)
            check("s4" not in seen and len(seen) == 3,
                  "with all up 30 prompts went %r" % dict(seen))
            check(all(a.server == a.engine and a.alt != "s4" for a in got), "s4 was named")
            for name in ("s1", "s2", "s3"):
                f.end(name, signal.SIGKILL)
            wait_for("HAProxy to see it", 5, lambda: f.up_servers("pool") == 1)
            wait_for("the agent to see it", 5, lambda: f.chat([user("hello")]).server == "s4")
            got = [f.chat([user(text("more %d" % i, 200))]) for i in range(4)]
            equal([(a.engine, a.server) for a in got], [("s4", "s4")] * 4, "with one up")
            f.start_engine("s2")
            wait_for("HAProxy to see it", 5, lambda: f.up_servers("pool") == 2)
            wait_for("the agent to see it", 5, lambda: f.chat([user("hello")]).server == "s2")
            equal({f.chat([user(text("again %d" % i, 200))]).engine for i in range(10)}, {"s2"},
                  "with s2 back")


def hostile_defaults(text):
    """Options for HTTP that operators have in defaults and that would break the agent's
    connections."""
    worst = """    option forwardfor
    option http-server-close
    option httpchk GET /nothing
    option tcp-smart-connect
    compression algo gzip
    compression type application/json
    fullconn 1
    log global
    option httplog
    timeout tunnel 100ms
    timeout check 5s
    default-server send-proxy-v2 maxconn 1 maxqueue 1 inter 60s fall 9 rise 9 weight 0

frontend llm"""
    text = re.sub(r"(?m)^\nfrontend llm", lambda _: worst, text, count=1)
    text = re.sub(r"(?m)^    filter spoe .*$", r"\g<0>\n    filter compression", text)
    return edited(text, "    default-server check",
                        "    default-server no-send-proxy-v2 maxqueue 0 weight 1 check")


@story
def defaults_do_not_reach_the_agent():
    with Fleet(edit=hostile_defaults) as f:
        talk = conversation("defaults")
        one = f.chat(talk)
        equal((one.status, one.why, one.error), (200, "cold", ""), "first turn")
        with_agents = [None] * 12

        def ask(i):
            with_agents[i] = f.chat(next_turn(talk, one, i))
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        equal([(a.status, a.server != "", a.error) for a in with_agents], [(200, True, "")] * 12,
              "12 at once")
        time.sleep(0.3)         # more than "timeout tunnel"
        equal(f.chat(next_turn(talk, one, "z")).why, "cached", "after a pause")
        m = wait_for("log lines", 5,
                     lambda: (lambda m: m if m['kvroute_facts_total{kind="done"}'] >= 14
                              else None)(f.metrics()))
        equal(m['kvroute_feed_lines_total{result="bad"}'], 0, "bad lines")


TWO_MODELS = dict(conf="recipes/two-models.cfg", spoe="recipes/two-models.spoe",
                  pools=("pool-small", "pool-large"),
                  engine_options=["--prefill-tps", "10000000"],
                  agent_conf="models: [{name: large-70b, aliases: [big]}]")
POOLS = {"small-8b": {"s1", "s2"}, "large-70b": {"s3", "s4"}, "big": {"s3", "s4"}}


def is_stopped(pid):
    """Every thread, because a signal reaches them one after the other."""
    states = []
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/stat" % (pid, task)) as g:
            states.append(g.read().rsplit(")", 1)[1].split()[0])
    return set(states) == {"T"}


@story
def two_models_wait_once_for_a_hung_agent():
    """Two messages ask the agent: without an answer to the first, the second is not sent."""
    with Fleet(**dict(TWO_MODELS, processing="1s"),
               edit=lambda text: text.replace("inter 200ms fall 1", "inter 20s fall 3")) as f:
        talk = conversation("hung")
        equal(f.chat(talk, model="small-8b").why, "cold", "while it answers")
        f.processes["agent"].send_signal(signal.SIGSTOP)
        wait_for("the agent stops", HANG_SECONDS, lambda: is_stopped(f.processes["agent"].pid))
        try:
            took = []
            for _ in range(3):
                start = time.time()
                got = f.chat(talk, model="large-70b")
                took.append(time.time() - start)
                equal((got.status, got.engine in POOLS["large-70b"], got.why, got.error),
                      (200, True, "", "1"), "while it hangs")
            # two waits would take 2 s each time; one may on a busy machine
            check(1 <= min(took) < 1.8, "%r s with a time limit of 1 s" % took)
        finally:
            f.processes["agent"].send_signal(signal.SIGCONT)


@story
def two_models_behind_one_frontend():
    """The model is the last member of 400 KB: of a body that is seen whole, and of one that the
    buffer cuts."""
    whole = [user(text("whole", 400000))]
    with Fleet(bufsize=524288, **TWO_MODELS) as f:
        for model, pool in POOLS.items():
            got = f.post("/v1/chat/completions",
                         {"messages": whole, "max_tokens": 1, "model": model})
            equal((got.status, got.engine in pool, got.model_from, got.error),
                  (200, True, "body", ""), "400 KB for " + model)
            equal(got.model, "small-8b" if model == "small-8b" else "large-70b", "its name")
            equal(got.server, got.engine, "the agent's choice in that pool")
        equal(f.post("/v1/chat/completions",
                     {"messages": whole, "model": "unknown"}).engine in POOLS["small-8b"], True,
              "default")
    with Fleet(**TWO_MODELS) as f:
        asked = 0

        def ended():
            """A request counts as waiting at its server until its log line has come."""
            wait_for("log lines", HANG_SECONDS,
                     lambda: f.metrics()['kvroute_facts_total{kind="done"}'] >= asked)
        for model, pool in POOLS.items():
            talk = conversation("cut " + model)
            one = f.chat(talk, model=model)
            asked += 1
            equal((one.engine in pool, one.model_from), (True, "body"), "a short body for " + model)
            long = next_turn(talk, one, model) + [user(text("long", 400000))]
            for turn in range(2):
                ended()
                got = f.post("/v1/chat/completions",
                             {"messages": long, "max_tokens": 1, "model": model})
                asked += 1
                equal((got.status, got.cut, got.model_from), (200, "1", "head"),
                      "400 KB that are cut")
                check(got.engine in pool and got.engine == got.server,
                      "%s went to %s" % (model, got.engine))
            equal(got.engine, one.engine, "the server that holds its beginning")
        got = f.post("/v1/chat/completions",
                     {"messages": [user(text("new", 400000))], "model": "large-70b"})
        equal((got.status, got.engine in POOLS["small-8b"], got.model, got.model_from),
              (200, True, "", "none"), "nothing tells")
        equal(f.metrics()['kvroute_models_asked_total{from="head"}'], 6, "metric")
        f.end("agent", signal.SIGKILL)
        wait_for("HAProxy to see it", 5, lambda: f.up_servers("spoe_agent") == 0)
        for model in ("small-8b", "large-70b"):
            got = f.chat([user("no agent")], model=model)
            equal((got.status, got.engine in POOLS[model], got.why), (200, True, ""),
                  "without an agent")


# ---- failures

@story
def server_down_goes_to_alt():
    with Fleet() as f:
        talk = conversation("d")
        one = f.chat(talk)
        f.end(one.engine, signal.SIGKILL)
        wait_for("HAProxy to see it", 5, lambda: f.up_servers("pool") == 3)
        for turn in range(3):
            two = f.chat(next_turn(talk, one, "d"))
            equal(two.status, 200, "status")
            check(two.server != one.engine and two.engine == two.server,
                  "it was sent to " + two.server)


@story
def refused_connection_moves_at_once():
    """The server is down and HAProxy does not know yet: the request is redispatched, and the log
    line reports the other server."""
    slow_check = lambda text: edited(text, "check inter 200ms fall 1 rise 1 maxconn",
                                     "check inter 60s fall 3 rise 1 maxconn")
    with Fleet(edit=slow_check) as f:
        talk = conversation("r")
        one = f.chat(talk)
        f.end(one.engine, signal.SIGKILL)
        two = f.chat(next_turn(talk, one, "r"))
        equal((two.status, two.server), (200, one.engine), "the agent cannot know")
        check(two.engine != one.engine, "served by the dead")
        f.settled()


@story
def agent_absent():
    with Fleet(agent=False, processing=None) as f:
        for i in range(20):
            got = f.chat(conversation(i))
            equal((got.status, got.server), (200, ""), "request %d" % i)


@story
def agent_killed():
    with Fleet(processing=None) as f:
        talk = conversation("k")
        equal(f.chat(talk).status, 200, "before")
        f.end("agent", signal.SIGKILL)
        for i in range(20):     # the first may still wait for the agent
            equal(f.chat([user("%d" % i)], max_tokens=1).status, 200, "request %d" % i)
        wait_for("HAProxy's check of the agent", 10, lambda: f.up_servers("spoe_agent") == 0)
        for i in range(20):
            got = f.chat([user("%d" % i)], max_tokens=1)
            equal((got.status, got.why, got.error), (200, "", ""),
                  "request %d once the check has seen it" % i)
        f.start_agent()
        wait_for("HAProxy's check of the agent", 10, lambda: f.up_servers("spoe_agent") == 1)
        wait_for("a request to be routed again", 10, lambda: f.chat(talk).server != "")


@story
def agent_ends_when_asked():
    with Fleet() as f:
        f.chat(conversation("t"))
        equal(f.end("agent"), 0, "exit status after SIGTERM")


@story
def agent_told_twice_ends_at_once():
    with Fleet(engines=1, spop="drain: 60s") as f:
        f.end("haproxy", signal.SIGINT)
        log = lambda: open(os.path.join(f.folder, "agent.log")).read()
        # HAProxy would close after a DISCONNECT; this client does not
        c = SpopClient(f.spop_address)
        p = f.processes["agent"]
        p.send_signal(signal.SIGTERM)
        wait_for("the end to begin", 10, lambda: "msg=draining" in log())
        equal(c.read_frame().kind, AGENT_DISCONNECT, "what the client is told")
        p.send_signal(signal.SIGHUP)            # has no effect any more
        time.sleep(0.3)
        equal(p.poll(), None, "exit status while it drains")
        p.send_signal(signal.SIGTERM)
        equal(p.wait(HANG_SECONDS), 0, "exit status after a second SIGTERM")
        check("second signal to end" in log(), "the log does not say so")
        c.close()


@story
def agents_that_start_at_once_on_a_stale_socket():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "spop.sock")
        conf = os.path.join(folder, "kvroute.yaml")
        with open(conf, "w") as c:
            c.write("state_dir: %s\nspop: {listen: [\"unix@%s\"]}\nlog_feed: {tcp: [], udp: "
                    "[]}\nmetrics: {listen: []}\n" % (folder, path))
        for _ in range(5):
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(path)
            agents = [subprocess.Popen([os.path.join(BUILD, "kvroute"), "-f", conf],
                                       stderr=subprocess.PIPE, text=True) for _ in range(4)]
            try:
                wait_for("all but one to end", 20,
                         lambda: sum(a.poll() is not None for a in agents) == 3)
                losers = [a for a in agents if a.poll() is not None]
                equal([a.returncode for a in losers], [1] * 3, "exit status of the losers")
                check(all("another process listens there" in a.stderr.read() for a in losers),
                      "a loser does not say why")
                with SpopClient("unix@" + path) as c:
                    check(c.notify("route", {"uid": "u", "body": "{}"})["txn.why"],
                          "the winner does not answer")
            finally:
                for a in agents:
                    a.terminate()
                    a.wait()
                    a.stderr.close()
            check(not os.path.exists(path), "the winner has left its socket")


@story
def reload_keeps_the_index():
    with Fleet() as f:
        talk = conversation("h")
        one = f.chat(talk)
        reload(f, "policy: {rule: cache_aware, cache_threshold: 0.2}")
        two = f.chat(next_turn(talk, one, "h"))
        equal((two.engine, two.why), (one.engine, "cached"), "after a good reload")
        reload(f, "policy: {rule: no_such_rule}", refused=True)
        three = f.chat(next_turn(talk, one, "h2"))
        equal((three.engine, three.why), (one.engine, "cached"), "after a bad one")


def reload(f, conf, refused=False):
    """Reload with <conf>, and wait until the log has the result."""
    logged = os.path.getsize(os.path.join(f.folder, "agent.log"))
    f.agent_conf = conf
    f.write("kvroute.yaml", f.agent_yaml())
    f.processes["agent"].send_signal(signal.SIGHUP)

    def said():
        with open(os.path.join(f.folder, "agent.log")) as g:
            g.seek(logged)
            return [line for line in g if "reload" in line]
    line = wait_for("the reload", 5, said)[-1]
    equal("refused" in line, refused, line)


def decisions(f, query=""):
    status, page = f.get("/decisions" + query, f.metrics_port)
    equal(status, 200, "/decisions")
    return json.loads(page)["decisions"]


def done_decisions(f, n):
    """Return the last <n> decisions, once all of them have their log lines."""
    return wait_for("log lines", 5,
                    lambda: (lambda d: d if len(d) == n
                             and all(x["after"]["state"] == "done" for x in d)
                             else None)(decisions(f, "?n=%d" % n)))


@story
def kvroutectl_why_explains_requests():
    """kvroutectl why explains the last requests; their trace is accepted by kvroutectl sim."""
    def ctl(*args, **kw):
        return subprocess.run([os.path.join(BUILD, "kvroutectl"), *args], capture_output=True,
                              text=True, timeout=HANG_SECONDS, **kw)

    with Fleet(edit=lambda text: text.replace("%[uuid()]", "story-%rt")) as f:
        address = "127.0.0.1:%d" % f.metrics_port
        equal(ctl("why", address).returncode, 1, "before any decision")
        talk = conversation("why", system=6000)
        one = f.chat(talk)
        for turn in range(3):
            talk = next_turn(talk, one, turn)
            one = f.chat(talk)
        f.post("/v1/chat/completions", "{]")
        fourth = done_decisions(f, 5)[1]
        check("uid" not in fourth, "without a token for log lines no uid is shown")
        uid = next(u for u in ("story-%d" % n for n in range(30))
                   if [d["decision"] for d in decisions(f, "?uid=" + u)] == [fourth["decision"]])
        said = ctl("why", address)
        print("".join("      %s\n" % line for line in said.stdout.splitlines()[:6]), end="")
        equal(said.returncode, 0, "status")
        equal(len(re.findall(r"(?m)^\d{4}-\d\d-\d\dT.*Z pool$", said.stdout)), 5,
              "decisions in " + said.stdout)
        check("no server was named (badbody): its body is no JSON" in said.stdout, said.stdout)
        equal(len(re.findall(r"(?m)went to %s \(cached, by cost\): [\d,]+ of [\d,]+ tokens were "
                             r"there, .*; .* would have "
                             r"had to compute all: \S+ m?s$" % one.engine, said.stdout)), 3,
              "cached in " + said.stdout)
        one_only = ctl("why", "--uid", uid, address).stdout
        equal(re.findall(r"(?m)^\d{4}-\d\d-\d\dT.*Z pool(.*)$", one_only), [" " + uid], one_only)
        equal(len(json.loads(ctl("why", "-n", "2", "--json", address).stdout)["decisions"]), 2,
              "as JSON")
        equal(ctl("why", "--uid", "nobody", address).returncode, 1, "a uid of nobody")
        for _ in range(20):
            f.chat(talk)
        trace = f.write("day.jsonl", f.get("/decisions?n=4096&format=lines", f.metrics_port)[1])
        sim = ctl("sim", "--preset", "cost", "--engines", "4", trace)
        equal(sim.returncode, 0, sim.stderr)
        check(": 22 requests" in sim.stdout, sim.stdout)    # all but the first tenth
        print("".join("      %s\n" % line for line in sim.stdout.splitlines()[:1]), end="")


@story
def shadow_mode_shows_its_choices():
    """HAProxy's choice is unchanged (3.2 takes an idle server at random); the agent learns the real
    servers; a reload enables routing."""
    with Fleet(agent_conf="policy: {mode: shadow}") as f:
        talk = conversation("shadow")
        went = []
        while len(went) < 4 or len(set(went)) == 1 and len(went) < 16:
            turn = len(went)
            got = f.chat(talk)
            equal((got.status, got.server, got.alt, got.why), (200, "", "", "shadow"),
                  "turn %d" % (turn + 1))
            went.append(got.engine)
            done_decisions(f, turn + 1)
            talk = next_turn(talk, got, turn)
        check(len(set(went)) >= 2, "HAProxy balances to %r" % went)
        turns = len(went)
        seen = done_decisions(f, turns)
        equal([x["after"]["server"] for x in reversed(seen)], went, "where requests went")
        equal([x["why"] for x in reversed(seen)], ["cold"] + ["cached"] * (turns - 1), "why")
        for turn in range(1, turns):
            equal(list(reversed(seen))[turn]["server"], went[turn - 1],
                  "the holder of turn %d" % turn)
        check(all(x["mode"] == "shadow" for x in seen), "mode")
        m = f.metrics()
        equal((m['kvroute_decisions_total{why="shadow"}'],
               m['kvroute_pool_mode{pool="pool",mode="shadow"}'],
               m['kvroute_pool_choices_total{pool="pool"}'], m["kvroute_ledger_open_requests"]),
              (turns, 1, turns, 0), "figures")
        check(m["kvroute_hit_tokens_total"] > 300,
              "hits that would have been: %r" % m["kvroute_hit_tokens_total"])
        reload(f, "policy: {mode: on}")
        got = f.chat(talk)
        equal((got.engine, got.why), (went[-1], "cached"), "once it acts")
        reload(f, "policy: {mode: off}")
        got = f.chat(talk)
        equal((got.status, got.server, got.why, got.prompt_pages), (200, "", "shadow", "0"),
              "once it is off")
        equal(decisions(f, "?n=1")[0]["mode"], "on", "the last decision that was kept")


@story
def rules_are_compared_then_changed():
    """A rule is compared with the acting one, then replaces it at a reload; the index is kept."""
    with Fleet(agent_conf="policy: {compare: [round_robin, cache_aware]}") as f:
        talk = conversation("rules")
        one = f.chat(talk)
        for turn in range(8):
            talk = next_turn(talk, one, turn)
            two = f.chat(talk)
            equal(two.engine, one.engine, "turn %d" % (turn + 2))
            one = two
        m = f.metrics()
        n = {r: [m['kvroute_compare_%s{pool="pool",rule="%s"}' % (what, r)] for what in
                 ("choices_total", "same_total", "hit_tokens_total", "regret_seconds_total")]
             for r in ("round_robin", "cache_aware")}
        print("      %r" % n)
        equal(n["cache_aware"][:2], [9, 9], "choices of cache_aware, and the same")
        check(n["round_robin"][1] < 6 and n["round_robin"][2] < n["cache_aware"][2],
              "round robin did as well")
        check(n["round_robin"][3] > n["cache_aware"][3], "round robin regrets nothing")
        equal([c["rule"] for c in decisions(f, "?n=1")[0]["compare"]],
              ["round_robin", "cache_aware"], "in a decision")
        for i in range(24):
            equal(f.chat([user(text("judged %d" % i, 200 * i + 80))]).status, 200,
                  "status of short request %d" % i)
            f.settled()
        # a decision counts depending on HAProxy's open requests, so send until enough do
        wait_for("outcomes", HANG_SECONDS,
                 lambda: equal(f.chat(talk).engine, one.engine, "where it went") or
                 f.metrics()['kvroute_compare_other_first_tokens_total'
                             '{pool="pool",rule="round_robin"}'] > 4)
        said = subprocess.run([os.path.join(BUILD, "kvroutectl"), "why", "--compare",
                               "127.0.0.1:%d" % f.metrics_port], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        print("      " + said.replace("\n", "\n      ").rstrip())
        check(re.search(r"(?m)^pool pool: [1-9][0-9]* first tokens measured, [0-9.]+ s in the mean",
                        said), "the pool is not told: %s" % said)
        check(re.search(r"(?m)^round_robin +[0-9]+ +[0-9.]+% +[-+][0-9.]+ +[0-9.]+ +[0-9]+ ", said),
              "round_robin is not judged: %s" % said)
        reload(f, "policy: {rule: round_robin, compare: [cost]}")
        went = []
        for turn in range(4):
            talk = next_turn(talk, one, "rr%d" % turn)
            one = f.chat(talk)
            went.append(one.engine)
        equal(len(set(went)), 4, "servers of round robin, of %r" % went)
        equal({x["rule"] for x in decisions(f, "?n=4")}, {"round_robin"},
              "rule of the last decisions")
        reload(f, "policy: {rule: cost}")
        equal(f.chat(next_turn(talk, one, "end")).why, "cached", "what is known after two changes")


RECORDED_BLOCK = 64


@story
def recorded_traffic_is_simulated():
    """A recording is simulated: the cached share equals the agent's, with an error of at most one
    block for each request."""
    f = Fleet(engines=3)
    path = os.path.join(f.folder, "traffic.jsonl")
    f.agent_conf = "record: {file: %s, block_tokens: %d}" % (path, RECORDED_BLOCK)
    with f:
        for c in range(6):
            talk = [{"role": "system", "content": text("records %d" % (c % 2), 3000)},
                    user(text("record %d" % c, 1500))]
            for turn in range(4):
                a = f.chat(talk, stream=turn % 2 == 0)
                equal(a.status, 200, "status of turn %d" % turn)
                talk = next_turn(talk, a, "record %d %d" % (c, turn))
        equal(f.chat([user("x")], model="stub", headers={"x-uid": "last"}).status, 200,
              "status of the last")
        m = wait_for("the log lines", 20, lambda: (lambda m: m if m[
            "kvroute_ledger_open_requests"] == 0 else None)(f.metrics()))
        equal(f.end("agent"), 0, "exit status")
        with open(path) as lines:
            requests = [json.loads(line) for line in lines]
        equal(os.stat(path).st_mode & 0o7777, 0o600, "mode of the file")
        equal(len(requests), 25, "requests recorded")
        equal({r["block_size"] for r in requests}, {RECORDED_BLOCK}, "sizes of blocks")
        equal(len({r["server"] for r in requests}), 3, "servers")
        check(all(r["status"] == 200 and r["total_ms"] >= 0 for r in requests),
              "an end is not there: %r" % requests)
        tokens, cached = sum(r["input_length"]
                             for r in requests), sum(r["cached"] for r in requests)
        seen = m["kvroute_hit_tokens_total"] / m["kvroute_prompt_tokens_total"]
        out = subprocess.run([os.path.join(BUILD, "kvroutectl"), "sim", path, "--speed", "1",
                              "--first", "100", "--json", "--preset", "cost",
                              "--preset", "roundrobin"], check=True, stdout=subprocess.PIPE,
                             text=True).stdout
        hit = {r["policy"]: r["hit"] for r in map(json.loads, out.splitlines())}
        engines = {json.loads(line)["engines"] for line in out.splitlines()}
        bound = RECORDED_BLOCK * len(requests) / tokens
        print("      of %d tokens cached: the agent saw %.3f, recorded %.3f, simulated %.3f, with "
              "round robin %.3f; a block a request is %.3f"
              % (tokens, seen, cached / tokens, hit["cost"], hit["roundrobin"], bound))
        equal(engines, {3}, "engines simulated")
        check(abs(cached / tokens - seen) < 0.01, "the recording and the metrics differ")
        check(cached / tokens - bound - 0.05 < hit["cost"] < cached / tokens + 0.05,
              "simulated and seen differ")
        check(hit["roundrobin"] < hit["cost"] - 0.1, "round robin finds as much")


@story
def reload_names_every_mistake():
    """Up to ten are printed with their places, then the number of the others."""
    with Fleet() as f:
        for n in (3, 14):
            logged = os.path.getsize(os.path.join(f.folder, "agent.log"))
            f.agent_conf = "policy:\n" + "".join("  no_such_key_%d: 1\n" % i for i in range(n))
            f.write("kvroute.yaml", f.agent_yaml())
            f.processes["agent"].send_signal(signal.SIGHUP)

            def lines():
                with open(os.path.join(f.folder, "agent.log")) as g:
                    g.seek(logged)
                    return [line for line in g if "reload refused" in line]
            got = wait_for("the log", 5,
                           lambda: (lambda x: x if len(x) >= min(n, 11) else None)(lines()))
            named = [line for line in got if "no_such_key_" in line]
            equal(len(named), min(n, 10), "mistakes named")
            for i, line in enumerate(named):
                check("no_such_key_%d\\\"" % i in line, "out of order: " + line)
                check("line=" in line and "file=" in line, "no place in " + line)
            equal([line for line in got if "more=4" in line], got[10:], "what is left over")
            print("      %d mistakes: %d lines" % (n, len(got)))
        equal(f.chat(conversation("x")).why, "cold", "after bad reloads")


# ---- bodies

@story
def one_megabyte_body():
    with Fleet(bufsize=1200000, spop="max_frame_size: 2MiB",
               engine_options=["--blocks", "40000", "--prefill-tps", "400000"]) as f:
        talk = [user(text("mega", 1000000))]
        one = f.chat(talk)
        equal((one.status, one.cut), (200, "0"), "first")
        two = f.chat(next_turn(talk, one, "m"))
        equal((two.engine, two.why), (one.engine, "cached"), "second turn")
        check(int(two.pages) > 15000, "matched %s pages" % two.pages)


@story
def frames_too_large_for_the_agent():
    """The agent reports it once with the remedy, and requests are balanced. HAProxy's check of the
    agent also fails, but not from 3.2 on."""
    with Fleet(bufsize=1200000, processing=None, agent_checked=False) as f:
        for i in range(3):
            equal(f.chat([user("x %d" % i)]).status, 200, "status")

        def named():
            with open(os.path.join(f.folder, "agent.log")) as g:
                return [line for line in g if "1199996" in line]
        lines = wait_for("the log to name the size", 5, named)
        check(len(lines) == 1, "log lines that name the size: %d" % len(lines))
        check("max_frame_size" in lines[0] and "tune.bufsize" in lines[0],
              "no remedy in " + lines[0])


@story
def cut_body_of_unknown_model():
    """16 KB buffers and messages first: the model is never seen, and later turns still find the
    server of the first."""
    with Fleet(bufsize=16384) as f:
        talk = [user(text("cut", 60000))]
        one = f.chat(talk)
        equal((one.status, one.cut, one.why, one.engine), (200, "1", "headless", one.server),
              "first")
        two = f.chat(next_turn(talk, one, "c"))
        equal((two.engine, two.why), (one.engine, "headless"), "second turn")
        check(int(two.hit) > 900, "hit %s" % two.hit)
        other = f.chat([user(text("another", 60000))])
        equal(other.hit, "0", "another conversation")


@story
def cut_body_with_a_remembered_head():
    with Fleet(bufsize=16384) as f:
        tools = [{"type": "function",
                  "function": {"name": "look", "parameters": {"type": "object"}}}]
        talk = [user(text("grow", 9000))]
        one = f.chat(talk, tools=tools)
        equal((one.cut, one.why), ("0", "cold"), "seen whole")
        two = f.chat(talk + [{"role": "assistant", "content": one.text()},
                             user(text("more", 30000))], tools=tools)
        equal((two.cut, two.why, two.engine), ("1", "cached", one.engine),
              "cut, but its head is known")


@story
def the_name_of_a_session_is_what_the_headers_say():
    def shown(conf):
        return edited(conf, "    default_backend pool\n",
                      "    default_backend pool\n"
                      "    http-response set-header x-told %[var(txn.session)]\n")

    with Fleet(engines=1, edit=shown) as f:
        for headers, name in (
                ({}, ""),
                ({"x-session-id": "one"}, "one"),
                ({"x-session-id": "s" * 100}, "s" * 64),
                ({"x-claude-code-session-id": "claude-", "x-claude-code-agent-id": "sub"},
                 "claude-sub"),
                ({"session-id": "codex"}, "codex"),
                ({"x-opencode-session": "open"}, "open"),
                ({"x-user-id": "u"}, ""),
                ({"x-user-id": "u", "session_id": "codex"}, "codex")):
            equal(f.chat([user("hello")], headers=headers).headers.get("x-told", ""), name,
                  "session of %r" % headers)


@story
def a_user_names_a_session_only_if_nothing_else_does():
    with Fleet(engines=1) as f:
        opening, headers = [user(text("same", 9000))], {"x-user-id": "u"}
        for named, sessions in (({}, 1), ({}, 1), ({"prompt_cache_key": "a"}, 2),
                                ({"prompt_cache_key": "b"}, 3), ({"prompt_cache_key": "a"}, 3)):
            f.chat(opening, headers=headers, **named)
            f.settled()
            equal(f.metrics()["kvroute_sessions"], sessions, "sessions after %r" % named)


@story
def sliced_body():
    with Fleet(conf="recipes/sliced.cfg", spoe="recipes/sliced.spoe") as f:
        talk = [user(text("slice", 50000))]
        one = f.chat(talk)
        equal((one.status, one.cut, one.more, one.why), (200, "0", "0", "cold"), "first")
        two = f.chat(next_turn(talk, one, "s"))
        equal((two.engine, two.why, two.cut), (one.engine, "cached", "0"), "second turn")
        check(int(two.pages) > 700, "matched %s pages" % two.pages)
        m = wait_for("done", 5, lambda: (lambda m: m if m["kvroute_ledger_open_requests"] == 0
                                         else None)(f.metrics()))
        equal(m["kvroute_requests_total"], 2, "requests entered")
        equal(m["kvroute_slices_waiting"], 0, "slices left behind")


@story
def sliced_body_beyond_the_slices():
    with Fleet(conf="recipes/sliced.cfg", spoe="recipes/sliced.spoe") as f:
        talk = [user(text("long", 200000))]
        one = f.chat(talk)
        equal((one.status, one.cut), (200, "1"), "first")
        f.settled()
        two = f.chat(next_turn(talk, one, "l"))
        equal(two.engine, one.engine, "second turn")


@story
def chunked_transfer():
    with Fleet() as f:
        talk = conversation("c", first=40000)
        one = f.chat(talk, chunked=True)
        equal((one.status, one.cut, one.why), (200, "0", "cold"), "first")
        two = f.chat(next_turn(talk, one, "c"), chunked=True)
        equal((two.engine, two.why), (one.engine, "cached"), "second turn")


@story
def token_ids():
    with Fleet() as f:
        ids = [random.Random(5).randrange(100000) for _ in range(500)]
        one = f.post("/v1/completions", {"model": "stub", "prompt": ids, "max_tokens": 2})
        equal((one.status, one.why, one.prompt_pages), (200, "cold", "31"), "first")
        two = f.post("/v1/completions",
                     {"model": "stub", "prompt": ids + [1] * 40, "max_tokens": 2})
        equal((two.engine, two.why, two.pages), (one.engine, "cached", "31"), "longer")
        same = f.post("/generate",
                      {"input_ids": ids[:32], "sampling_params": {"max_new_tokens": 2}})
        equal((same.status, same.prompt_pages, same.pages), (200, "2", "0"),
              "SGLang's own API names no model: another space")


def tokens_conf():
    model = {"name": "stub", "aliases": ["other-name"], "mode": "tokens",
             "tokenizer": "llama.tokenizer.json", "block_size": 16}
    return "models_dir: %s\nmodels: %s" % (os.path.join(TOP, "tests/data/tok"), json.dumps([model]))


def shared(a, b):
    """Return the number of equal ids at the start."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


@story
def text_in_token_mode():
    """A growing prompt: the agent's counts equal those of a slow BPE, including BOS and the last
    token."""
    bpe = SmallBpe(os.path.join(TOP, "tests/data/tok/llama.tokenizer.json"))
    with Fleet(agent_conf=tokens_conf()) as f:
        prompt, before, sent, first = "The server has 12345 pages.\n\n", [], 0, None
        for turn in range(5):
            prompt += text("turn %d" % turn, 700 + 50 * turn) + "; that's \"all\".\n"
            ids = bpe.ids(prompt)
            # one token, because the next prompt omits the answer: an engine never computes the last
            # token, so no generated token is cached
            got = f.post("/v1/completions", {"model": "stub", "prompt": prompt, "max_tokens": 1})
            held = min(shared(before, ids), len(ids) - 1) // 16
            equal((got.status, got.prompt_pages, got.pages), (200, str(len(ids) // 16), str(held)),
                  "turn %d" % turn)
            equal(got.hit, str(held * 16 * 1000 // len(ids)), "turn %d: permille" % turn)
            first = first or got.engine
            equal(got.engine, first, "turn %d went elsewhere" % turn)
            before, sent = ids, sent + len(ids)
        equal(max(d["prompt_tokens"] for d in decisions(f)), len(before),
              "tokens of the last decision")
        as_ids = f.post("/v1/completions",
                        {"model": "other-name", "prompt": before, "max_tokens": 2})
        equal((as_ids.engine, as_ids.pages), (first, str((len(before) - 1) // 16)),
              "the same as ids, by another name")
        bare = f.post("/v1/completions", {"model": "stub", "prompt": prompt,
                                          "add_special_tokens": False, "max_tokens": 2})
        equal((bare.prompt_pages, bare.pages), (str((len(before) - 1) // 16), "0"),
              "without BOS all pages are others")
        m = f.metrics()
        equal((m["kvroute_tokenized_prompts_total"], m["kvroute_tokens_total"]),
              (6, sent + len(before) - 1), "counted")
        equal((m["kvroute_tokenize_failed_total"], m["kvroute_tokenize_bounded_total"]), (0, 0),
              "failures")
        equal(m['kvroute_model_mode{model="stub",mode="mixed"}'], 1,
              "the mode of the model: conversations have no template")
        check(m["kvroute_segment_cache_hits_total"] > 0, "nothing was found in the segment cache")


def ids_of_words(words):
    """The ids of the stub engine's text: four bytes each."""
    b = words.encode()
    return [int.from_bytes(b[i:i + 4], "little") for i in range(0, len(b), 4)]


@story
def the_next_turn_matches_the_answer():
    """The agent expects as many pages as the engine has if prompts of ids continue with the
    answers. For a prompt without the answer it expects too many once, because it does not see
    answers."""
    with Fleet(agent_conf=tokens_conf()) as f:
        r, ids, asked = random.Random("generated"), [], 0

        def ask(ids, n):
            nonlocal asked
            got = f.post("/v1/completions", {"model": "stub", "prompt": ids, "max_tokens": n})
            equal(got.status, 200, "status")
            asked += 1
            done_decisions(f, asked)    # because the log line has the generated tokens
            return got, ids_of_words(got.json()["choices"][0]["text"])

        def more(length):
            """Return ids up to <ids> in number, beginning after the answer."""
            return [r.randrange(300) for _ in range(length - len(ids))]

        held = 0
        # a tail of 15, which the first of two tokens fills; of 14, which it does not; blocks; one
        for turn, (length, n) in enumerate([(111, 2), (190, 2), (300, 40), (399, 1), (500, 2)]):
            ids = ids + more(length)
            got, out = ask(ids, n)
            equal((int(got.pages) * 16, len(out)), (got.cached(), n), "turn %d: as found" % turn)
            equal(got.cached(), held // 16 * 16, "turn %d: cached" % turn)
            ids, held = ids + out, length + n - 1
        other = [r.randrange(300) for _ in range(111)]
        ask(other, 2)
        other = other + [r.randrange(300) for _ in range(60)]
        left_out, _ = ask(other, 1)
        equal((left_out.cached(), left_out.pages), (96, "7"), "the answer left out")
        again, _ = ask(other, 1)
        equal((again.cached(), again.pages), (160, "10"), "the same prompt again")


@story
def counts_of_the_engine():
    """Answers that are not streamed report the engine's counts, for each API; for streams the agent
    uses bytes."""
    with Fleet(agent_conf=tokens_conf()) as f:
        ids = [random.Random(6).randrange(300) for _ in range(100)]
        asked = [("/v1/completions", {"prompt": ids, "max_tokens": 40}),
                 ("/v1/chat/completions", {"messages": [user("hello there")], "max_tokens": 30}),
                 ("/v1/responses", {"input": "hello there", "max_output_tokens": 20}),
                 ("/v1/messages", {"messages": [user("hello there")], "max_tokens": 10}),
                 ("/v1/completions", {"prompt": ids, "max_tokens": 40, "stream": True})]
        for path, body in asked:
            equal(f.post(path, {"model": "stub", **body}).status, 200, path)
        done = done_decisions(f, len(asked))
        by_time = [d["after"].get("output_tokens")
                   for d in sorted(done, key=lambda d: d["decision"])]
        equal(by_time[:4], [40, 30, 20, 10], "tokens that were generated")
        check(20 <= by_time[4] <= 80, "a stream of 40: %s" % by_time[4])
        m = f.metrics()
        equal((m["kvroute_prompt_tokens_compared_total"], m["kvroute_prompt_tokens_differ_total"]),
              (1, 0), "prompts of ids compared")


@story
def counts_that_differ():
    """If the engine counts texts of one tenant differently, they become text for this tenant; other
    tenants and other kinds are not affected."""
    tenant = lambda text: edited(text, "    http-request set-var-fmt(txn.load)",
                                 "    http-request set-var(txn.tenant) req.hdr(x-tenant)\n"
                                 "    http-request set-var-fmt(txn.load)")
    ctl = lambda f: subprocess.run([os.path.join(BUILD, "kvroutectl"), "models",
                                    "127.0.0.1:%d" % f.metrics_port],
                                   capture_output=True, text=True, check=True).stdout
    with Fleet(agent_conf=tokens_conf(), edit=tenant) as f:
        def pages(who, seed, n=900, **more):
            body = {"model": "stub", "prompt": text(seed, n), "max_tokens": 2, **more}
            return f.post("/v1/completions", body, headers={"x-tenant": who}).prompt_pages
        as_ids = pages("b", "probe", stream=True)
        check("stub: mixed" in ctl(f) and "as text" not in ctl(f), ctl(f))
        for i in range(8):
            pages("a", "differ %d" % i)
        wait_for("the kind is text", HANG_SECONDS,
                 lambda: f.metrics().get('kvroute_model_kind_text_tenants'
                                         '{model="stub",kind="completions"}') == 1)
        equal(pages("a", "probe", stream=True), str((900 + 63) // 64), "text for it")
        equal(pages("b", "probe", stream=True), as_ids, "for another tenant")
        check(pages("a", "probe", stream=True, add_special_tokens=True) != str((900 + 63) // 64),
              "text of another kind, too")
        check("stub: matched as text for 1 tenant, because the engine counts other tokens: "
              "completions\n" in ctl(
            f), ctl(f))
        m = f.metrics()
        equal((m['kvroute_model_mode{model="stub",mode="mixed"}'], m["kvroute_models_disagree"]),
              (1, 1), "modes")
        def told():
            with open(os.path.join(f.folder, "agent.log")) as g:
                return [line for line in g if "different numbers of prompt tokens" in line]
        lines = wait_for("the log line", HANG_SECONDS, told)    # written by the agent's next tick
        check(len(lines) == 1 and "model=stub kind=completions minutes=10" in lines[0],
              "log: %s" % lines)
        check("page" not in lines[0] and text("differ 0", 900)[:20] not in lines[0],
              "text in the log")


@story
def conversations_in_token_mode():
    """With the model's chat template, the agent's counts of each turn equal those of the ids of the
    rendered text."""
    bpe = SmallBpe(os.path.join(TOP, "tests/data/tok/llama.tokenizer.json"))
    begin, end = bpe.bos, [bpe.added["<|end|>"]]
    models = [{"name": "stub", "mode": "tokens", "tokenizer": "llama.tokenizer.json",
               "chat_template": "llama.chat_template.jinja",
               "tokenizer_config": "llama.tokenizer_config.json"}]
    with Fleet(agent_conf="models_dir: %s\nmodels: %s" % (
        os.path.join(TOP, "tests/data/tok"), json.dumps(models))) as f:
        talk, before = [user(text("turn 0", 900))], []
        for turn in range(4):
            ids = list(begin)
            for m in talk:
                ids += bpe.ids(m["role"] + ": " + m["content"], special=False) + end
            ids += bpe.ids("assistant: ", special=False)
            # one token, because the next turn has another answer: so no generated token is cached
            got = f.chat(talk, max_tokens=1)
            held = min(shared(before, ids), len(ids) - 1) // 16
            equal((got.status, got.prompt_pages, got.pages), (200, str(len(ids) // 16), str(held)),
                  "turn %d" % turn)
            talk = talk + [{"role": "assistant", "content": "It is so."},
                           user(text("turn %d" % (turn + 1), 300))]
            before = ids
        wrong = f.chat([user("x"), user("y")], max_tokens=2)
        equal(wrong.why, "badbody", "what the template refuses")
        m = f.metrics()
        equal((m["kvroute_chat_refused_total"], m["kvroute_chat_unknown_total"]), (1, 0), "counted")
        equal(m['kvroute_model_mode{model="stub",mode="tokens"}'], 1, "the mode of the model")


@story
def text_in_token_mode_in_slices():
    """A prompt in many slices gives the same pages as in one piece."""
    bpe = SmallBpe(os.path.join(TOP, "tests/data/tok/llama.tokenizer.json"))
    # repeated words, because for a vocabulary of 400 tokens others are expensive, and their work is
    # bounded
    words = random.Random("long")
    prompt = " ".join(words.choice("the server has pages and that is of agent with a request's "
                                   "prompt 12345".split()) for _ in range(9000))
    with Fleet(agent_conf=tokens_conf(), conf="recipes/sliced.cfg",
               spoe="recipes/sliced.spoe") as f:
        ids = bpe.ids(prompt)
        one = f.post("/v1/completions", {"prompt": prompt, "max_tokens": 2, "model": "stub"})
        two = f.post("/v1/completions",
                     {"prompt": prompt + " more.", "max_tokens": 2, "model": "stub"})
        equal((one.cut, two.cut), ("0", "0"), "all of it was seen")
        equal((one.prompt_pages, two.pages), (str(len(ids) // 16),) * 2, "pages")
        equal(two.engine, one.engine, "longer")


@story
def other_apis():
    with Fleet() as f:
        for path, body in other_bodies():
            one, two = f.post(path, body), f.post(path, body)
            equal((one.status, one.why), (200, "cold"), path)
            equal((two.status, two.why, two.engine), (200, "cached", one.engine), path + " again")


def other_bodies():
    long = lambda api: text(api, 2000)
    return [
        ("/v1/completions", {"model": "stub", "prompt": long("completions"), "max_tokens": 2}),
        ("/v1/responses", {"model": "stub", "input": long("responses"), "instructions": "be brief",
                           "max_output_tokens": 2}),
        ("/v1/messages", {"model": "stub", "system": "be quick",
                          "messages": [user(long("messages"))], "max_tokens": 2}),
        ("/v1/embeddings", {"model": "stub", "input": [long("embeddings"), "two"]}),
        ("/generate", {"text": long("generate"), "sampling_params": {"max_new_tokens": 2}}),
        ("/v1beta/models/stub:generateContent", contents(long("contents"))),
        ("/v1beta/models/stub:streamGenerateContent?alt=sse", contents(long("streamed contents")))]


def contents(prompt):
    return {"systemInstruction": {"parts": [{"text": prompt[:70]}]},
            "contents": [{"role": "user", "parts": [{"text": prompt}]}],
            "generationConfig": {"maxOutputTokens": 2}}


@story
def not_json_and_no_prompt():
    with Fleet() as f:
        bad = f.post("/v1/chat/completions", b"this is no JSON")
        equal((bad.server, bad.why), ("", "badbody"), "not JSON")
        none = f.post("/v1/chat/completions", {"model": "stub"})
        equal((none.server, none.why), ("", "noprompt"), "no prompt")
        other = f.get("/v1/models")
        equal(other[0], 200, "what is no inference request")


# ---- tenants

@story
def tenants_are_apart():
    tenant = lambda text: edited(text, "    http-request set-var-fmt(txn.load)",
                                 "    http-request set-var(txn.tenant) req.hdr(x-tenant)\n"
                                 "    http-request set-var-fmt(txn.load)")
    with Fleet(edit=tenant) as f:
        talk = conversation("t", system=4000)
        one = f.chat(talk, headers={"x-tenant": "acme"})
        again = f.chat(talk, headers={"x-tenant": "acme"})
        equal((again.why, again.engine), ("cached", one.engine), "the same tenant")
        other = f.chat(talk, headers={"x-tenant": "umbrella"})
        equal((other.why, other.hit, other.pages), ("cold", "0", "0"), "another tenant")


@story
def salts_and_models_are_apart():
    with Fleet() as f:
        talk = conversation("salt", system=4000)
        f.chat(talk)
        equal(f.chat(talk, cache_salt="x").hit, "0", "with a salt")
        equal(f.chat(talk, model="another").hit, "0", "another model")
        equal(f.chat(talk, cache_salt="x").why, "cached", "the same salt again")


# ---- other inputs

@story
def a_session_stays_on_one_server():
    """The session comes from the headers, for any body and load; several sessions use several
    servers."""
    with Fleet(agent_conf="policy: {rule: rendezvous}") as f:
        def where(seed, **headers):
            a = f.chat(conversation(seed, 200, 100),
                       headers={k.replace("_", "-"): v for k, v in headers.items()})
            equal((a.status, a.why, a.engine), (200, "sticky", a.server), "%s %r" % (seed, headers))
            return a.engine
        homes = {i: where("first %d" % i, x_session_id="session-%d" % i) for i in range(8)}
        check(len(set(homes.values())) > 1, "8 sessions, all on " + homes[0])
        for i in range(8):
            equal(where("second %d" % i, x_session_id="session-%d" % i), homes[i],
                  "session %d, another prompt" % i)
        other = next(i for i in homes if homes[i] != homes[0])
        for headers in ({"x_semantic_cluster_id": "session-0"},
                        {"x_session_id": "session-0", "x_user_id": "session-%d" % other},
                        {"x_session_id": "session", "x_semantic_cluster_id": "-0"},
                        {"x_semantic_cluster_id": "", "x_user_id": "session-0"}):
            equal(where("third", **headers), homes[0], "session of %r" % headers)
        f.chat(conversation("long"), headers={"x-session-id": "s" * 20000})     # still fits
        equal(where("long", x_session_id="s" * 64), where("again", x_session_id="s" * 3000),
              "64 bytes count")


@story
def agent_and_engines_on_unix_sockets():
    with Fleet() as f:
        f.end("haproxy", signal.SIGINT)
        f.end("agent")
        path = os.path.join(f.folder, "spop.sock")
        f.spop_address = "unix@" + path
        f.start_agent()
        equal(oct(os.stat(path).st_mode & 0o777), "0o660", "mode of the socket")
        f.edit = lambda text: edited(text, "server a1 127.0.0.1:%d" % f.agent_port,
                                           "server a1 unix@" + path)
        os.unlink(f.stats_path)
        f.start_haproxy()
        equal(f.chat(conversation("u")).why, "cold", "over the unix socket")
        equal(f.end("agent"), 0, "exit status")
        check(not os.path.exists(path), "the socket is still there")


@story
def log_feed_over_udp():
    udp = lambda text: edited(text, "log ring@kvroute-feed len 4096",
                                    "log 127.0.0.1:%d len 4096" % f.feed_port)
    f = Fleet(edit=udp)
    with f:
        for i in range(5):
            f.chat(conversation(i))
        wait_for("five log lines", 5,
                 lambda: f.metrics()["kvroute_facts_total{kind=\"done\"}"] == 5)
        equal(f.metrics()["kvroute_ledger_open_requests"], 0, "open requests")


@story
def a_correct_configuration_has_no_warnings():
    """With "log global" in defaults the feed also brings HAProxy's notices and lines of other
    frontends. They are skipped without a message, and a finished health check is no protocol
    error."""
    logged = lambda text: edited(text, "defaults\n", "defaults\n    log global\n", 1)
    closed = lambda m: (int(m['kvroute_spop_closed_total{reason="peer"}']),
                        int(m['kvroute_spop_closed_total{reason="protocol"}']))
    lines = lambda m: tuple(int(m['kvroute_feed_lines_total{result="%s"}' % r])
                            for r in ("taken", "bad"))
    with Fleet(edit=logged) as f:
        f.haproxy_command("set server pool/s1 health down")
        f.chat(conversation("n"))
        m = wait_for("a notice, and two health checks", 10,
                     lambda: (lambda m: m if m["kvroute_spop_healthchecks_total"] >= 2 and
                     m['kvroute_feed_lines_total{result="other"}'] >= 1 and lines(m)[0] == 1
                              else None)(f.metrics()))
        equal((closed(m)[0] >= 2, closed(m)[1]), (True, 0),
              "connections that HAProxy ended, and those the agent did")
        equal(lines(m)[1], 0, "bad lines")
        equal([x for x in open(os.path.join(f.folder, "agent.log")) if "level=warn" in x
               and "feed" in x], [], "warnings")


@story
def client_goes_away():
    """The client disconnects: the request is closed, and its pages are not stored."""
    # 50 s: the client disconnects before, and a step of the engine lasts no longer
    with Fleet(engine_options=["--prefill-tps", "20"]) as f:
        body = json.dumps({"messages": [user(text("gone", 4000))], "model": "stub",
                           "stream": True}).encode()
        s = socket.create_connection(("127.0.0.1", f.port))
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: "
                  b"application/json\r\n"
                  b"content-length: %d\r\n\r\n" % len(body) + body)
        wait_for("it to be open", 5, lambda: f.metrics()["kvroute_ledger_open_requests"] == 1)
        s.close()
        wait_for("it to be closed", 5, lambda: f.metrics()["kvroute_ledger_open_requests"] == 0)
        for name in f.names:
            f.control(name, "slow=0.001")
        again = f.chat([user(text("gone", 4000))], max_tokens=1)
        equal(again.hit, "0", "pages of a prompt that was never computed")


def telling_cached_tokens(text):
    """kvroute(8), MESSAGES: how ctok is added."""
    said = '"gtok":"%[var(txn.gtok)]"'
    text = edited(text, said, said + ',"ctok":"%[var(txn.ctok)]"')
    line = re.search(r"^ *http-response set-var\(txn.gtok\) \S+ (if .*)$", text, re.M)
    return text.replace(line[0], line[0] + "\n    http-response set-var(txn.ctok) "
                        "res.body,json_query('$.usage.prompt_tokens_details.cached_tokens',int),"
                        "add(0) " + line[1], 1)


@story
def tokens_that_engines_find_are_counted():
    with Fleet(edit=telling_cached_tokens) as f:
        found = asked = 0
        for i in range(4):
            a = f.chat(conversation("ctok" * 200), model="m")
            usage = json.loads(a.body)["usage"]
            found += usage["prompt_tokens_details"]["cached_tokens"]
            asked += usage["prompt_tokens"]
        wait_for("all ends", 10, lambda: f.metrics()[
            "kvroute_reported_prompt_tokens_total"] == asked)
        m = f.metrics()
        check(found > 0, "nothing was cached")
        equal(m["kvroute_reported_hit_tokens_total"], found, "found by engines")
        check(m["kvroute_reported_expected_tokens_total"] > 0, "expected")
        equal(m['kvroute_log_requests_total{asked="yes"}'], 4, "asked")


def openmetrics(f):
    c = http.client.HTTPConnection("127.0.0.1", f.metrics_port, timeout=HANG_SECONDS)
    c.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text"})
    r = c.getresponse()
    equal(r.getheader("content-type"),
          "application/openmetrics-text; version=1.0.0; charset=utf-8", "type")
    return r.read().decode()


@story
def metrics_are_well_formed():
    with Fleet() as f:
        f.chat(conversation("m"), model="m" * 100)
        f.chat([user("x")], model="evil\"} 1\n")
        status, page = f.get("/metrics", f.metrics_port)
        equal(status, 200, "status")
        check("mmmm" not in page and "evil" not in page, "a model name became a label")
        open_text = openmetrics(f)
        check(open_text.endswith("\n# EOF\n"), "no end of OpenMetrics")
        named = re.findall(r'_bucket\{.*\} \d+ # \{decision="(\d+)"\}', open_text)
        decisions = json.loads(f.get("/decisions?n=50", f.metrics_port)[1])["decisions"]
        known = [str(d["decision"]) for d in decisions]
        check(named and set(named) <= set(known), "exemplars %s of %s" % (named, known))
        promtool = os.path.join(TOP, "build/bin/promtool")
        if not os.path.exists(promtool):
            print("skipped: promtool is not at hand, so its opinion is not known")
            return
        p = subprocess.run([promtool, "check", "metrics"], input=page.encode(), capture_output=True)
        equal((p.returncode, p.stdout + p.stderr), (0, b""), "promtool")


def main(argv):
    print(subprocess.run([HAPROXY, "-v"], capture_output=True, text=True).stdout.split("\n")[0])
    return cases.main(STORIES, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
