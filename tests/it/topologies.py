#!/usr/bin/env python3
"""topologies.py [-k WORD] [HAPROXY...] - run the recipes of haproxy-conf/ that have several agents.

Real HAProxys, agents, engines' stubs and a real Redis: files as operators copy them, with addresses
replaced. A conversation that began through one HAProxy or agent is continued on its server through
another one, and no request fails when an agent or a HAProxy is killed. Each story prints a line;
the last line is "N passed, N failed[, N skipped]".
"""
import concurrent.futures
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from fleet import BUILD, TOP, Fleet, wait_for  # noqa: E402
from store import Store, programs  # noqa: E402

RECIPES = os.path.join(TOP, "haproxy-conf/recipes")
# Timeout of the agent's answer, 50 ms in the recipes. If an agent dies, requests that wait for a
# connection to it wait for so long in HAProxy 3.0.
PATIENT = "10s"
DECIDED = "kvroute_decisions_total"
BATCHES = ['kvroute_share_batches_in_total{result="%s"}' % r for r in ("new", "joined", "hole")]


class Host(Fleet):
    """A host of a topology: a HAProxy, an agent, or both. The engines are those of <first>."""

    def __init__(self, top, conf, yaml, **kw):
        first = top.hosts[0] if top.hosts else None
        super().__init__(engines=0 if first else 3, conf="recipes/" + conf, haproxy=top.haproxy,
                         threads=1, processing=PATIENT, **kw)
        self.top, self.yaml = top, yaml
        self.first = first

    def addresses(self, text):
        """<text> with this host's addresses."""
        hosts = self.top.hosts
        for i, h in enumerate(hosts):
            ports = {9400: h.agent_port, 9401: h.feed_port, 9402: h.metrics_port}
            # the check's port stands on the line of its server
            text = re.sub(r"192\.0\.2\.%d:9400 check port 9402" % (10 + i),
                          "127.0.0.1:%d check port %d" % (h.agent_port, h.metrics_port), text)
            for old, new in ports.items():
                text = text.replace("192.0.2.%d:%d" % (10 + i, old), "127.0.0.1:%d" % new)
        own = {9400: self.agent_port, 9401: self.feed_port, 9402: self.metrics_port}
        for old, new in own.items():
            text = text.replace("127.0.0.1:%d" % old, "127.0.0.1:%d" % new)
        text = text.replace("check port 9402", "check port %d" % self.metrics_port)
        text = re.sub(r"127\.0\.0\.1:8081", "127.0.0.1:%d" % self.alive_port, text)
        return text

    def put_servers(self, text):
        text = re.sub(r"192\.0\.2\.2(\d):8000", r"127.0.0.1:800\1", text)
        return self.top.more(self.addresses(super().put_servers(text)))

    def agent_yaml(self):
        with open(os.path.join(RECIPES, self.yaml)) as f:
            text = f.read()
        # of this host's two addresses, which have the same port, one
        text = self.addresses(re.sub(r', "192\.0\.2\.10:\d+"', "", text))
        text = text.replace("spop: {", "spop: {timeout_processing: %s, " % PATIENT)
        if "udp: []" not in text:
            text = text.replace("log_feed: {", "log_feed: {udp: [], ")
        text = text.replace("share:\n", "share:\n  warm_timeout: 10 m\n")
        text = text.replace("/etc/kvroute", self.top.folder)
        for old, new in self.top.stores.items():
            text = text.replace(old, new)
        return text + "threads: 1\nstate_dir: %s\nindex: {max_bytes: 16 MiB}\n" % self.folder

    def spawn_agent(self):
        self.spawn("agent", [os.path.join(BUILD, "kvroute"), "-f",
                             self.write("kvroute.yaml", self.agent_yaml())])

    def start_agent(self):
        super().start_agent()
        wait_for("the store", 10, lambda: self.metrics()["kvroute_share_connected"] == 1)

    def start(self):
        if self.first is not None:
            self.names, self.engines = self.first.names, self.first.engines
            self.controls = self.first.controls
        else:
            for name in self.names:
                self.start_engine(name)

    def stop(self, keep=False):
        if self.first is not None:
            self.names = []
        super().stop(keep)

    def decided(self):
        return sum(v for k, v in self.metrics().items() if k.startswith(DECIDED + "{"))

    def agents_up(self):
        return self.up_servers("spoe_agent")


class Topology:
    """Hosts with a store. agents, proxies: how many of the hosts have one."""

    def __init__(self, haproxy, conf, yaml, hosts, proxies):
        self.haproxy, self.n_proxies = haproxy, proxies
        self.folder = tempfile.mkdtemp(prefix="kvroute-topology-")
        self.hosts, self.stores, self.more = [], {}, lambda text: text
        self.secrets()
        self.store = Store(password="store-password")
        self.stores = {'"192.0.2.30:6379", "192.0.2.31:6379"': '"%s"' % self.store.address}
        for i in range(hosts):
            h = Host(self, conf, yaml, agent_checked=False)
            h.alive_port = h.ports.take()
            self.hosts.append(h)

    def secrets(self):
        for name, what in (("fleet.key", os.urandom(192)), ("store.password", b"store-password\n")):
            path = os.path.join(self.folder, name)
            with open(path, "wb") as f:
                f.write(what)
            os.chmod(path, 0o600)

    def __enter__(self):
        try:
            self.store.start()
            for h in self.hosts:
                h.start()
            # together, because each waits for its siblings
            with concurrent.futures.ThreadPoolExecutor(len(self.hosts)) as pool:
                list(pool.map(lambda h: h.start_agent(), self.hosts))
            for h in self.hosts[:self.n_proxies]:
                h.start_haproxy()
            n = len(self.hosts)
            for h in self.hosts:
                wait_for("siblings", 10, lambda h=h: h.metrics()["kvroute_share_siblings"] == n - 1)
            return self
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def __exit__(self, kind, value, trace):
        if kind is not None:
            for h in self.hosts:
                if os.path.isdir(h.folder):
                    h.show_logs()
        for h in reversed(self.hosts):
            h.stop()
        self.store.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)


class Talk:
    """A conversation that grows with each question; all its answers come from one engine."""

    def __init__(self, name):
        self.name, self.engine, self.messages = name, None, []

    def ask(self, host):
        n = len(self.messages)
        self.messages.append({"role": "user", "content": "%s, question %d. " % (self.name, n)
                              + "An account of the matter %s. " % self.name * 60})
        a = host.chat(self.messages)
        if a.status != 200:
            raise AssertionError("%s: status %d" % (self.name, a.status))
        self.messages.append({"role": "assistant", "content": a.text()})
        return a

    def go_on(self, host):
        """Ask, and require the engine of the last time."""
        a = self.ask(host)
        if self.engine not in (None, a.engine):
            raise AssertionError("%s: on %s, was on %s (why %s, error %s)" % (
                self.name, a.engine, self.engine, a.why, a.error))
        self.engine = a.engine
        return a


def placed(hosts):
    return sum(h.metrics().get('kvroute_share_entries_in_total{kind="placed"}', 0) for h in hosts)


def batches(h):
    return sum(v for k, v in h.metrics().items() if k in BATCHES)


def settle(hosts):
    """Wait until each of <hosts> has applied what the others have decided before."""
    out = {h: h.metrics()["kvroute_share_batches_out_total"] for h in hosts}
    wait_for("a batch that was made after this moment", 10, lambda: all(
        h.metrics()["kvroute_share_batches_out_total"] >= out[h] + 2 for h in hosts))
    inward = {h: batches(h) for h in hosts}
    wait_for("batches of the siblings", 10, lambda: all(
        batches(h) >= inward[h] + 2 * (len(hosts) - 1) for h in hosts))


def shared(hosts, ask):
    """ask(), and wait until its decision has come to all <hosts> but the one that made it."""
    before = placed(hosts)
    got = ask()
    wait_for("the decision at the siblings", 10, lambda: placed(hosts) >= before + len(hosts) - 1)
    return got


def traffic_while(hosts, action, n=4):
    """<n> conversations at the same time through <hosts>, during action(). Every answer is a 200.
    Returns what action() does."""
    stop, talks = [], [Talk("talk %d of %d" % (i, time.time_ns())) for i in range(n)]

    def run(i):
        asked = 0
        while not stop:
            talks[i].ask(hosts[asked % len(hosts)])
            asked += 1
            if len(talks[i].messages) > 12:
                talks[i] = Talk("talk %d after %d" % (i, asked))
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        running = [pool.submit(run, i) for i in range(n)]
        try:
            got = action()
        finally:
            stop.append(True)
        for r in running:
            r.result()
        return got


def same(got, want, what):
    if got != want:
        raise AssertionError("%s: %r, expected %r" % (what, got, want))


# ---- stories: a function each, whose docstring is printed ----------------------------------------


def two_agents(haproxy):
    """two-agents.cfg: both decide, a conversation stays on its server, one is killed"""
    hashes = "/2.6/" not in haproxy and "/3.0/" not in haproxy
    with Topology(haproxy, "two-agents.cfg", "two-agents.yaml", 2, 0) as top:
        h, other = top.hosts
        # a connection above those that a1 may have goes to a2: few are enough here
        top.more = lambda text: text.replace("maxconn 32", "maxconn 1")

        def both_decide():
            h.end("haproxy", signal.SIGINT)
            if os.path.exists(h.stats_path):
                os.unlink(h.stats_path)
            h.start_haproxy()
            wait_for("both agents", 10, lambda: h.agents_up() == 2)
            traffic_while([h], lambda: time.sleep(0.3), 16)
            return h.decided() > 0 and other.decided() > 0
        wait_for("decisions of both", 10, both_decide)
        settle(top.hosts)
        talk = Talk("the ships of the line")
        for _ in range(8):
            shared(top.hosts, lambda: talk.go_on(h))
        if hashes:
            wait_for("all messages of a request at the agent that decided it", 10,
                     lambda: all(x.metrics()['kvroute_facts_total{kind="first"}'] == x.decided()
                                 for x in top.hosts))

        def kill():
            h.end("agent", signal.SIGKILL)
            wait_for("one agent", 10, lambda: h.agents_up() == 1)
        traffic_while([h], kill)
        same(talk.go_on(h).error, "", "error of a request that the other agent decided")

        def again():
            h.start_agent()
            wait_for("both agents", 10, lambda: h.agents_up() == 2)
        traffic_while([h], again)
        talk.go_on(h)


def own_agents(haproxy):
    """own-agents.cfg: talks through three HAProxys; an agent dies, and is asked again when warm"""
    with Topology(haproxy, "own-agents.cfg", "own-agents.yaml", 3, 3) as top:
        a, b, c = top.hosts
        for h in top.hosts:
            wait_for("all agents", 10, lambda h=h: h.agents_up() == 4)
        talks = [Talk("the harbour of %s" % t) for t in ("Genoa", "Lisbon", "Malta")]
        for h in (a, b, c):
            for t in talks:
                shared(top.hosts, lambda: t.go_on(h))
        for h in top.hosts:
            same(h.decided(), len(talks), "each HAProxy asks its own agent")

        def kill():
            b.end("agent", signal.SIGKILL)
            wait_for("others", 10, lambda: b.agents_up() == 2)
        traffic_while(top.hosts, kill)
        n = a.decided()
        for t in talks:
            same(t.go_on(b).error, "", "error of a request that a backup decided")
        same(a.decided(), n + len(talks), "decisions of the first backup")

        def again():
            top.store.stop()
            try:
                b.spawn_agent()
                wait_for("an answer that it is not ready", 10, lambda: "L7STS" in
                         b.haproxy_command("show stat spoe_agent 4 -1"))
                same(b.agents_up(), 2, "agents that may be asked while it is cold")
            finally:
                top.store.go_on()
            wait_for("all agents", 10, lambda: b.agents_up() == 4)
            same(b.metrics()["kvroute_share_warm"], 1, "warm")
        traffic_while(top.hosts, again)
        for h in top.hosts:
            wait_for("the store", 10, lambda h=h: h.metrics()["kvroute_share_connected"] == 1)
            wait_for("siblings", 10, lambda h=h: h.metrics()["kvroute_share_siblings"] == 2)
        n = b.decided()
        settle(top.hosts)
        for t in talks:
            t.go_on(b)
        same(b.decided() >= n + len(talks), True, "its own HAProxy asks it again")


def refused(host):
    """A worker ends by itself, some time after its master was killed."""
    try:
        host.get("/alive", host.alive_port)
        return False
    except OSError:
        return True


def pair(haproxy):
    """keepalived.cfg: the active host dies, the standby continues its conversations"""
    with Topology(haproxy, "keepalived.cfg", "own-agents.yaml", 2, 2) as top:
        a, b = top.hosts
        for h in top.hosts:
            wait_for("all agents", 10, lambda h=h: h.agents_up() == 3)
            same(h.get("/alive", h.alive_port)[0], 200, "what keepalived asks")
        talks = [Talk("the road to %s" % t) for t in ("Bergen", "Turin", "Sibiu")]
        for t in talks + talks:
            shared(top.hosts, lambda: t.go_on(a))
        same(b.decided(), 0, "decisions of the standby's agent")

        def kill():
            a.end("agent", signal.SIGKILL)
            wait_for("the standby's agent", 10, lambda: a.agents_up() == 1)
        traffic_while([a], kill)
        same(a.get("/alive", a.alive_port)[0], 200, "without an agent of its own")
        a.end("haproxy", signal.SIGKILL)
        wait_for("keepalived sees the end of HAProxy", 10, lambda: refused(a))
        n = b.decided()
        for t in talks:
            same(t.go_on(b).error, "", "error")
        same(b.decided(), n + len(talks), "decisions of the new active host's agent")


STORIES = [two_agents, own_agents, pair]


def main():
    args = sys.argv[1:]
    word = ""
    if "-k" in args:
        i = args.index("-k")
        word = args[i + 1]
        del args[i:i + 2]
    binaries = args or sorted(glob.glob(TOP + "/build/haproxy/*/haproxy"))
    stories = [(f, b) for f in STORIES for b in binaries if word in f.__name__]

    def run(story):
        start = time.monotonic()
        try:
            story[0](story[1])
            why = None
        except Exception as e:  # any exception in a story fails that story
            why = "%s: %s" % (type(e).__name__, e)
        return why, time.monotonic() - start

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for (f, binary), (why, seconds) in zip(stories, pool.map(run, stories)):
            failed += why is not None
            version = re.search(r"haproxy/([^/]+)/", binary)
            print("%s %s (HAProxy %s) %.1f s" % ("FAIL" if why else "ok  ", f.__doc__,
                                               version[1] if version else binary, seconds),
                  flush=True)
            if why:
                print("     ", why, flush=True)
    print("%d passed, %d failed" % (len(stories) - failed, failed))
    return failed != 0


if __name__ == "__main__":
    t = subprocess.run([os.path.join(BUILD, "kvroute"), "-t", "-f", "/dev/stdin"],
                       input="share: {servers: [127.0.0.1:6379]}\n", capture_output=True, text=True)
    if "without hiredis" in t.stderr or not programs():
        print("skipped: topologies, %s" % ("kvroute was built without hiredis" if programs() else
                                           "there is no redis-server"))
        print("0 passed, 0 failed, 1 skipped")
    else:
        sys.exit(main())
