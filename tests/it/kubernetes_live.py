#!/usr/bin/env python3
"""kubernetes_live.py WHAT HAPROXY.CFG KVROUTE.SPOE KVROUTE.YAML [AGENTS] - run HAProxy, AGENTS
agents (default 1) and stub engines with configurations of kubernetes/, and route two turns of a
conversation: the second must go to the engine of the first and find its prompt there, and HAProxy's
log line must reach the agent.

Only what a cluster provides is changed: names and ports become those of loopback, the places of
"server-template" become lines, and paths those of a temporary folder. The store is a Redis if this
machine has one (make deps); without one the agents share nothing. Ends with 0 if all of this
holds, and prints what was seen."""
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from fleet import BUILD, HAPROXY, PATIENT, TOP, Ports, edited, get, wait_for  # noqa: E402
from store import Store, programs  # noqa: E402

PLACES = 8      # of server-template


class Cluster:
    """Ports of loopback for addresses in the configurations."""

    def __init__(self, folder):
        self.folder, self.ports, self.known = folder, Ports(), {}

    def port(self, host, port):
        """<host>: the number of an agent, or a word."""
        key = host, int(port)
        if key not in self.known:
            self.known[key] = self.ports.take(udp=True)
        return self.known[key]

    def haproxy_cfg(self, text, engines):
        """The agents are kvroute-0, kvroute-1, or 127.0.0.1 for a sidecar."""
        def agent(m):
            host = int(m[1] or 0)
            line = "127.0.0.1:%d%s" % (self.port(host, m[2]), m[3])
            return re.sub(r"check port (\d+)",
                          lambda p: "check port %d" % self.port(host, p[1]), line)
        text = text.replace("/etc/haproxy/kvroute/kvroute.spoe", self.folder + "/kvroute.spoe")
        text = text.replace("/etc/haproxy/kvroute/", TOP + "/haproxy-conf/")
        text = text.replace("/run/haproxy/", self.folder + "/")
        text = text.replace("127.0.0.1:9999", "127.0.0.1:%d" % self.port("stats", 9999))
        text = re.sub(r"(?:kvroute-([01])|127\.0\.0\.1):(940\d)\b(.*)", agent, text)
        text = re.sub(r"bind :(\d+)", lambda m: "bind 127.0.0.1:%d" % self.port("here", m[1]), text)
        text = re.sub(r"127\.0\.0\.1:800(\d)",
                      lambda m: "127.0.0.1:%d" % engines[int(m[1]) - 1], text)
        places = "".join(
            "    server s%d 127.0.0.1:%d%s\n" % (
                i + 1, engines[i] if i < len(engines) else 1,
                "" if i < len(engines) else " disabled") for i in range(PLACES))
        text = re.sub(r"    server-template s %d .*\n" % PLACES, places, text)
        return re.sub(r"(?s)\nresolvers cluster\n.*?\n(?=\n)", "\n", text)

    def spoe(self, text, backend):
        text = re.sub(r"timeout (processing|hello) \d+ms", r"timeout \1 " + PATIENT, text)
        return edited(text, "pool=str(pool)", "pool=str(%s)" % backend)

    def kvroute_yaml(self, text, number, store):
        text = text.replace("127.0.0.1:9999", "127.0.0.1:%d" % self.port("stats", 9999))
        if "spop:" not in text:     # these are the defaults
            text = ('spop: {listen: ["127.0.0.1:9400"]}\nlog_feed: {tcp: ["127.0.0.1:9401"], '
                    'udp: []}\nmetrics: {listen: ["127.0.0.1:9402"]}\n') + text
        text = re.sub(r'"(?:0\.0\.0\.0|127\.0\.0\.1):(940\d)"',
                      lambda m: '"127.0.0.1:%d"' % self.port(number, m[1]), text)
        text = edited(text, "/run/kvroute/", self.folder + "/")
        text = text.replace("/run/haproxy/", self.folder + "/")
        if store:
            text = edited(text, "kvroute-store:6379", store.address)
        else:
            text = re.sub(r"(?m)^share:.*\n", "", text)
        text = re.sub(r"(?m)^spop: \{", "spop: {timeout_processing: %s, " % PATIENT, text)
        state = os.path.join(self.folder, "state%d" % number)
        return text + "state_dir: %s\npolicy: {learn_rate: false}\n" % state


def ask(port, messages):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=180)
    try:
        c.request("POST", "/v1/chat/completions", json.dumps(
            {"model": "m", "max_tokens": 4, "messages": messages}),
            {"content-type": "application/json"})
        r = c.getresponse()
        body = r.read()
        return r.status, r.getheader("x-engine"), json.loads(body) if r.status == 200 else {}
    finally:
        c.close()


def decided(ports):
    return sum(int(n) for p in ports for n in
               re.findall(r"(?m)^kvroute_decisions_total\{.*\} (\d+)$", get(p, "/metrics")[1]))


def two_turns(port, metrics):
    hello = [{"role": "user", "content": "hello"}]
    # from the stats socket the agent knows the servers a moment after it knows the pool
    wait_for("an agent chooses a server", 60, lambda: ask(port, hello)[0] == 200 and any(
        '"server":' in get(p, "/decisions?n=1")[1] for p in metrics))
    talk = [{"role": "user", "content": "what is in a manifest? " * 100}]
    status, first, answer = ask(port, talk)
    assert status == 200, "the first turn got %d" % status
    said = answer["choices"][0]["message"]["content"]
    talk += [{"role": "assistant", "content": said}, {"role": "user", "content": "and then?"}]
    before = decided(metrics)
    status, second, answer = ask(port, talk)
    assert status == 200, "the second turn got %d" % status
    assert decided(metrics) > before, "no agent decided the second turn"
    cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert first == second, "the second turn went to %s instead of %s" % (second, first)
    assert cached > 100, "%d tokens were cached" % cached
    wait_for("HAProxy's log line of it is learned", 60, lambda: any(
        '"status":200' in get(p, "/decisions?n=1")[1] for p in metrics))
    return "%s twice, %d tokens cached" % (first, cached)


def run(folder, store, what, files, n_agents):
    cluster, running = Cluster(folder), []

    def spawn(name, *argv, **kw):
        with open(os.path.join(folder, name + ".log"), "w") as log:
            running.append(subprocess.Popen(argv, **{"stdout": log, "stderr": log, **kw}))
        return running[-1]

    def write(name, text):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
        return f.name
    try:
        cfg, spoe, yaml = (open(f).read() for f in files)
        engines = [cluster.ports.take() for _ in range(2)]
        for i, port in enumerate(engines):
            spawn("engine%d" % i, BUILD + "/tests/tools/stub_engine", "--name", "e%d" % i,
                  "--listen", "127.0.0.1:%d" % port, "--control", "127.0.0.1:0")
        token = os.urandom(24).hex()
        for name, text in ("fleet.key", os.urandom(96).hex()), ("token", token):
            os.chmod(write(name, ""), 0o600)
            write(name, text)
        for i in range(n_agents):
            os.mkdir(os.path.join(folder, "state%d" % i), 0o700)
            name = write("kvroute%d.yaml" % i, cluster.kvroute_yaml(yaml, i, store))
            spawn("agent%d" % i, BUILD + "/kvroute", "-f", name)
        backend = re.search(r"(?ms)^backend (\S+)[^\n]*\n(?:    [^\n]*\n)*?    filter spoe", cfg)[1]
        write("kvroute.spoe", cluster.spoe(spoe, backend))
        name = write("haproxy.cfg", cluster.haproxy_cfg(cfg, engines))
        spawn("haproxy", HAPROXY, "-W", "-db", "-f", name,
              env={**os.environ, "KVROUTE_TOKEN": token})
        metrics = [cluster.port(i, 9402) for i in range(n_agents)]
        wait_for("the agents are ready", 60, lambda: all(
            get(p, "/ready")[0] == 200 for p in metrics))
        print("%s: %s%s" % (what, two_turns(cluster.port("here", 8080), metrics),
                            "" if store else ", without a store"))
        return 0
    except (AssertionError, TimeoutError) as e:
        print("%s: %s" % (what, e))
        for i in range(n_agents):
            print(get(cluster.port(i, 9402), "/decisions?n=2")[1])
        for name in sorted(os.listdir(folder)):
            if name.endswith(".log"):
                with open(os.path.join(folder, name)) as f:
                    print("---- %s\n%s" % (name, f.read()[-1500:]))
        return 1
    finally:
        for p in running:
            p.terminate()
        for p in running:
            p.wait()
        cluster.ports.close()


def main(what, cfg, spoe, yaml, n_agents="1"):
    with tempfile.TemporaryDirectory(prefix="kvroute-") as folder:
        if not programs():
            return run(folder, None, what, (cfg, spoe, yaml), int(n_agents))
        with Store() as store:
            return run(folder, store, what, (cfg, spoe, yaml), int(n_agents))


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
