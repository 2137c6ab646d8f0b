"""compose_ask.py PORT METRICS_PORT METRICS_PORT2 PROMETHEUS_PORT PROJECT - test the promises of the
running composition."""
import http.client
import json
import random
import re
import subprocess
import sys
import threading
import time
import urllib.parse

PORT, METRICS_PORT, METRICS_PORT2, PROMETHEUS_PORT = (int(a) for a in sys.argv[1:5])
PROJECT = sys.argv[5]
failed = 0


def docker(*args):
    return subprocess.run(["docker", *args], check=True, capture_output=True,
                          text=True).stdout.strip()


def container(service):
    return docker("ps", "-q", "--filter", "label=com.docker.compose.project=" + PROJECT,
                  "--filter", "label=com.docker.compose.service=" + service)


def words(seed, n):
    r = random.Random(seed)
    return " ".join(r.choice("alpha beta gamma delta epsilon zeta eta theta".split())
                    for _ in range(n))


def chat(messages):
    c = http.client.HTTPConnection("127.0.0.1", PORT, timeout=180)
    c.request("POST", "/v1/chat/completions",
              json.dumps({"messages": messages, "model": "stub", "max_tokens": 4}),
              {"content-type": "application/json"})
    r = c.getresponse()
    body = r.read()
    c.close()
    return r.status, r.getheader("x-engine"), json.loads(body) if r.status == 200 else {}


def turn(messages, answer, text):
    said = answer["choices"][0]["message"]["content"]
    return messages + [{"role": "assistant", "content": said}, {"role": "user", "content": text}]


def result(good, what):
    global failed
    failed += not good
    print("%s  %s" % ("ok  " if good else "FAIL", what), flush=True)


def wait(what, seconds, test):
    end = time.time() + seconds
    while time.time() < end:
        try:
            if test():
                return result(True, what)
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.2)
    result(False, what)


def steady(n, what):
    """n requests, none of which may fail."""
    bad = [s for s in (chat([{"role": "user", "content": words(i, 20)}])[0] for i in range(n))
           if s != 200]
    result(not bad, "%s: %d requests, %d failed" % (what, n, len(bad)))


def conversations(name, learned):
    """<learned>: speeds of engines are known, so that six requests, one after the other, may all go
    to the one that looked fastest."""
    talks = [[{"role": "user", "content": words("%s %d" % (name, i), 300)}] for i in range(6)]
    first = [chat(t) for t in talks]
    again = [chat(turn(t, f[2], words("next", 20))) for t, f in zip(talks, first)]
    result(all(f[0] == 200 for f in first + again),
           "twelve turns of six conversations are answered")
    if not learned:
        result(len({f[1] for f in first}) >= 3,
               "conversations spread: %s" % sorted(f[1] for f in first))
    result([f[1] for f in first] == [a[1] for a in again],
           "a second turn goes where the first went")
    cached = [a[2]["usage"]["prompt_tokens_details"]["cached_tokens"] for a in again if a[0] == 200]
    result(min(cached, default=0) > 200, "and its prefix is cached there: %s tokens" % cached)
    return [(turn(t, f[2], words("next", 20)), a) for t, f, a in zip(talks, first, again)]


def metrics(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        c.request("GET", "/metrics")
        return c.getresponse().read().decode()
    finally:
        c.close()


def up(port):
    """Returns how many servers the agent knows as up: HAProxy said so with a request."""
    return len(re.findall(r"(?m)^kvroute_server_up\{.*\} 1$", metrics(port)))


def sent_to_the_store(port):
    """Wait, at most 10 s, until the store has what the agent has learned."""
    end = time.time() + 10
    while "\nkvroute_share_waiting_bytes 0\n" not in metrics(port) and time.time() < end:
        time.sleep(0.1)


def one_agent_killed(talks):
    """The first turns were decided by the agent that is killed."""
    sent_to_the_store(METRICS_PORT)
    before = decided(METRICS_PORT2)
    docker("kill", container("agent"))
    steady(40, "agent killed")
    later = [chat(turn(t, a[2], words("later", 20))) for t, a in talks]
    moved = ["%s to %s, %s" % (a[1], x[1], x[0]) for x, (_, a) in zip(later, talks)
             if x[:2] != (200, a[1])]
    result(not moved, "the other agent, which had decided %d requests, continues all conversations "
           "where they were %s" % (before, "; ".join(moved)))
    now = decided(METRICS_PORT2)
    result(now >= before + 6, "it decided these: %d" % (now - before))


def decided(port):
    return sum(int(n) for n in
               re.findall(r"(?m)^kvroute_decisions_total\{.*\} (\d+)$", metrics(port)))


# ---- Prometheus ----

def prometheus(path, **query):
    c = http.client.HTTPConnection("127.0.0.1", PROMETHEUS_PORT, timeout=20)
    try:
        c.request("GET", "/api/v1/%s?%s" % (path, urllib.parse.urlencode(query)))
        return json.loads(c.getresponse().read())["data"]
    finally:
        c.close()


def watched():
    def up_targets():
        return sum(x["value"][1] == "1" for x in
                   prometheus("query", query='up{job="kvroute"}')["result"])

    wait("Prometheus reads both agents", 120, lambda: up_targets() == 2)
    rules = [r["name"] for g in prometheus("rules")["groups"] for r in g["rules"]]
    result(len(rules) >= 10 and "KvrouteDown" in rules,
           "it has the alert rules of doc/monitoring: %d" % len(rules))
    wait("a query has figures of requests", 60, lambda: any(
        float(x["value"][1]) > 0
        for x in prometheus("query", query="sum(kvroute_requests_total)")["result"]))


# ---- faults under load ----

class Load:
    """Six clients, each with conversations of three turns, one request after the other."""

    def __init__(self, what):
        self.what, self.ended = what, threading.Event()
        self.answered, self.failed = 0, []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.client, args=(i,)) for i in range(6)]

    def client(self, i):
        n = 0
        while not self.ended.is_set():
            n += 1
            messages = [{"role": "user", "content": words("%s %d %d" % (self.what, i, n), 200)}]
            for _ in range(3):
                try:
                    status, _, answer = chat(messages)
                except (OSError, http.client.HTTPException) as e:
                    status, answer = repr(e), None
                with self.lock:
                    if status == 200:
                        self.answered += 1
                    else:
                        self.failed.append(status)
                if status != 200 or self.ended.is_set():
                    break
                messages = turn(messages, answer, "next")

    def at_least(self, more):
        """Wait for <more> answers from now on."""
        n, end = self.answered + more, time.time() + 120
        while self.answered < n and time.time() < end:
            time.sleep(0.05)
        return self.answered >= n

    def __enter__(self):
        for t in self.threads:
            t.start()
        self.at_least(10)
        return self

    def __exit__(self, *_):
        went_on = self.at_least(20)
        self.ended.set()
        for t in self.threads:
            t.join()
        result(went_on and not self.failed, "%s: %d requests, %d failed %s" % (
            self.what, self.answered, len(self.failed), self.failed[:3] or ""))


def network(verb, service, name):
    """Cut a container off a network of the composition, or connect it again."""
    alias = ["--alias", service] if verb == "connect" else []
    docker("network", verb, *alias, "%s_%s" % (PROJECT, name), container(service))


def routed_again(what):
    """The agents decide requests of now."""
    before = decided(METRICS_PORT) + decided(METRICS_PORT2)
    wait(what, 60, lambda: chat([{"role": "user", "content": "again"}])[0] == 200 and
         decided(METRICS_PORT) + decided(METRICS_PORT2) >= before + 10)


def faults():
    with Load("an agent restarted") as load:
        docker("restart", "-t", "10", container("agent"))
        load.at_least(40)
    wait("both agents are ready again", 120, lambda: all(
        "\nkvroute_share_siblings 1\n" in metrics(p) for p in (METRICS_PORT, METRICS_PORT2)))
    with Load("HAProxy reloaded, twice") as load:
        for _ in range(2):
            docker("kill", "-s", "USR2", container("haproxy"))
            load.at_least(40)
    with Load("an engine paused") as load:
        docker("pause", container("s2"))
        load.at_least(60)
        docker("unpause", container("s2"))
    with Load("the network between HAProxy and one agent cut and healed") as load:
        network("disconnect", "agent", "spop")
        load.at_least(60)
        network("connect", "agent", "spop")
        load.at_least(60)
    with Load("the network between HAProxy and both agents cut and healed") as load:
        for service in "agent", "agent2":
            network("disconnect", service, "spop")
        load.at_least(60)
        for service in "agent", "agent2":
            network("connect", service, "spop")
        routed_again("the agents decide again")
    with Load("the store killed and started") as load:
        docker("kill", container("store"))
        load.at_least(60)
        docker("start", docker("ps", "-aq", "--filter",
                               "label=com.docker.compose.project=" + PROJECT,
                               "--filter", "label=com.docker.compose.service=store"))
    wait("the agents have the store again", 120, lambda: all(
        "\nkvroute_share_siblings 1\n" in metrics(p) for p in (METRICS_PORT, METRICS_PORT2)))


def timed(name, part, *args, **kwargs):
    """Print how long a part took, for compose-test.sh."""
    begun = time.time()
    got = part(*args, **kwargs)
    print("      %.0f s: %s" % (time.time() - begun, name), flush=True)
    return got


def ready():
    wait("HAProxy answers", 180, lambda: chat([{"role": "user", "content": "hello"}])[0] == 200)
    wait("both agents are ready and hear each other", 180, lambda: all(
        "\nkvroute_share_siblings 1\n" in metrics(p) for p in (METRICS_PORT, METRICS_PORT2)))
    hello = [{"role": "user", "content": "hello"}]
    wait("an agent decides, and four engines are up", 180,
         lambda: chat(hello)[0] == 200 and up(METRICS_PORT) == 4)


def killed():
    talks = conversations("later talk", learned=True)
    one_agent_killed(talks)
    talk, (_, engine, answer) = talks[0]
    docker("kill", container(engine))
    steady(30, "engine %s killed" % engine)
    status, other, _ = chat(turn(talk, answer, "and then?"))
    result(status == 200 and other != engine,
           "its conversation goes on at another engine: %s" % other)
    docker("kill", container("store"))
    steady(30, "store killed")
    docker("kill", container("agent2"))
    steady(40, "both agents killed")


timed("ready", ready)
timed("conversations", conversations, "talk", learned=False)
timed("Prometheus", watched)
timed("faults", faults)
timed("agents, an engine and the store killed", killed)
sys.exit(1 if failed else 0)
