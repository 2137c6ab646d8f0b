"""path_rows.py - the rows of path.py: HAProxy with the recipe, and what each row changes in it.

    plain      leastconn, no filter, no log
    noop       the recipe with an agent that does nothing (tests/tools/noop_spoa), no log feed
    noop-unix  the same over a unix socket
    recipe     haproxy-conf/haproxy.cfg and kvroute.spoe as they are
    best       SPOE over a unix socket, the ring over TCP
    best-X     best without X
"""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/it"))

from fleet import BUILD, Fleet, edited, free_ports, wait_for  # noqa: E402


def without(pattern):
    """An edit that deletes the lines that begin with <pattern>."""
    def edit(text):
        new = re.sub(r"(?m)^ *%s.*\n" % pattern, "", text)
        if new == text:
            raise AssertionError("nothing to delete: " + pattern)
        return new
    return edit


def no_feed(text):
    return without("log (ring|global)")(text)


def no_load(text):
    """The agent still has the servers' names, and knows no counts of HAProxy."""
    return re.sub(r"%\[srv_is_up\((\w+)\)\],%\[srv_conn\(\w+\)\],%\[srv_queue\(\w+\)\],"
                  r"%\[srv_weight\(\w+\)\]", "1,0,0,1", text)


def no_sessions(text):
    return without(r"http-request set-var(-fmt)?\(txn.session\)")(text)


def no_first(text):
    return without(r"http-response (wait-for-body time 10m at-least|send-spoe-group)")(text)


def no_counts(text):
    text = without(r"http-response set-var-fmt\(txn.[pg]tok\)")(text)
    return without("http-response wait-for-body time 10m if json_answer")(text)


def no_uuid(text):
    return edited(text, "%[uuid()]", "%[hostname]-%pid-%rt")


def no_nbsrv(text):
    return edited(text, " { nbsrv(spoe_agent) gt 0 }", "")


def no_vars(text):
    return without("set-var proc.kvroute_vars")(text)


def no_hot_size(text):
    return without("tune.memory.hot-size")(text)


def plain(text):
    """HAProxy that only balances: no filter, no rule, no log."""
    text = without("(filter spoe|http-re(quest|sponse) |use-server|log |log-format|unique-id|acl "
                   "|tune.(bufsize|memory))")(text)
    return re.sub(r"(?ms)^\.if version_atleast\(3\.0\)\n\.endif\n", "", text)


class Row:
    def __init__(self, name, edits=(), agent="kvroute", unix=False, variables=True, flags=(),
                 spoe=(), bufsize=None):
        self.name, self.edits, self.agent, self.unix = name, list(edits), agent, unix
        self.variables, self.flags, self.spoe, self.bufsize = variables, flags, spoe, bufsize


def rows_of(version):
    new = tuple(map(int, version.split("."))) >= (3, 0)

    def best(name, *edits, **more):
        return Row(name, edits, **{"unix": True, **more})

    return [
        Row("plain", [plain], agent=None),
        Row("noop", [no_feed], agent="noop"),
        Row("noop-unix", [no_feed], agent="noop", unix=True),
        Row("recipe"),
        Row("recipe-without-variables", variables=False),
        Row("recipe-dMglobal", variables=False, flags=["-dMglobal"]),
        best("best"),
        best("best-tcp", unix=False),
        *([best("best-hot-size", no_hot_size)] if new else []),
        best("best-feed", no_feed),
        best("best-load", no_load),
        best("best-vars", no_vars),
        best("best-sessions", no_sessions),
        best("best-uuid", no_uuid),
        best("best-token-counts", no_counts),
        best("best-nbsrv", no_nbsrv),
        *([best("best-first", no_first)] if new else []),
        best("best-ptime", spoe=[("    option set-process-time ptime\n", "")]),
        best("best-body64k", spoe=[("bytes(0,256000)", "bytes(0,65536)")]),
        best("best-bufsize64k", bufsize=65536),
    ]


class Routed(Fleet):
    """HAProxy, with or without an agent, before engines that others started."""

    def __init__(self, row, haproxy, ports, cpu):
        super().__init__(engines=4, show=False, threads=1, processing=None, haproxy=haproxy,
                         agent=row.agent is not None, bufsize=row.bufsize,
                         agent_conf="index: {max_bytes: 32 MiB}")
        self.row, self.what, self.engine_ports, self.cpu = row.name, row, ports, cpu
        self.with_agent = row.agent is not None
        if row.unix:
            self.spop_address = "unix@" + os.path.join(self.folder, "spop.sock")
        self.edit = self.edit_all

    def edit_all(self, text):
        text = edited(text, "    maxconn 2000\n", "    maxconn 2000\n    nbthread 1\n")
        text = text.replace("maxconn 256", "maxconn 2000")
        # a check that is late on a busy machine must not take a server away
        text = text.replace("check inter 200ms fall 1", "check inter 1s fall 60")
        if self.what.unix:
            text = edited(text, "server a1 127.0.0.1:%d" % self.agent_port,
                          "server a1 " + self.spop_address)
        for edit in self.what.edits:
            text = edit(text)
        return text

    def start_engine(self, name):
        self.engines[name] = self.engine_ports[int(name[1:]) - 1]

    def start_agent(self):
        if self.what.agent == "noop":
            self.spawn("agent", [os.path.join(BUILD, "tests/tools/noop_spoa"), self.spop_address])
        else:
            super().start_agent()

    def write(self, name, text):
        for old, new in self.what.spoe if name == "kvroute.spoe" else ():
            text = edited(text, old, new)
        return super().write(name, text)

    def spawn(self, name, argv, **kw):
        if name == "haproxy":
            argv = [argv[0]] + list(self.what.flags) + argv[1:]
            if not self.what.variables:
                kw["env"] = dict(os.environ)
        return super().spawn(name, argv, preexec_fn=self.to_cpu, **kw)

    def to_cpu(self):
        os.sched_setaffinity(0, {self.cpu})

    def up_servers(self, backend):
        return 1 if backend == "spoe_agent" and not self.with_agent else super().up_servers(backend)

    def pids(self):
        """The worker of HAProxy, and the agent or None."""
        pid = int(re.search(r"(?m)^Pid: (\d+)", self.haproxy_command("show info")).group(1))
        agent = self.processes.get("agent")
        return pid, agent.pid if agent else None

    def in_latency(self):
        return self.row in ("plain", "noop", "noop-unix", "recipe", "best", "best-first")


class Direct:
    """An engine, without a router."""
    row = "direct"

    def __init__(self, port):
        self.port = port


class Router(Fleet):
    """Another router in HAProxy's place."""

    def __init__(self, name, argv, ports, cpu):
        super().__init__(engines=0, agent=False)
        self.row, self.argv, self.engine_ports, self.cpu = name, argv, ports, cpu

    def start_haproxy(self):
        urls = ["http://127.0.0.1:%d" % p for p in self.engine_ports]
        metrics, = free_ports(1)    # two routers would want the same one
        self.spawn("router", self.argv + ["--host", "127.0.0.1", "--port", str(self.port),
                                          "--prometheus-port", str(metrics),
                                          "--worker-urls", *urls],
                   preexec_fn=lambda: os.sched_setaffinity(0, {self.cpu}))
        body = {"model": "stub", "messages": [{"role": "user", "content": "hello"}]}
        wait_for("the router", 60,
                 lambda: self.post("/v1/chat/completions", body).status == 200)

    def pids(self):
        return self.processes["router"].pid, None

    def in_latency(self):
        return True

    def stop(self, keep=False):
        self.end("router")
        super().stop(keep)
