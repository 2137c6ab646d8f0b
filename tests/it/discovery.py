#!/usr/bin/env python3
"""discovery.py [-k WORD] - engines whose KV cache events are read without listing them: addresses
from HAProxy's stats socket, and what the engines tell.

A real HAProxy, the agent, and publishers that see who subscribes (XPUB of python3-zmq). Prints a
line for each story; the last one is "N passed, N failed".
"""
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import cases  # noqa: E402
from fleet import BUILD, HANG_SECONDS, HAPROXY, free_ports, wait_for  # noqa: E402
from stories import check, equal  # noqa: E402
from with_zmq import need_zmq  # noqa: E402

zmq = need_zmq("discovery")

STORIES = []
HOSTS = ["127.0.1.%d" % i for i in range(1, 5)]
HAPROXY_CFG = """global
    stats socket %(folder)s/admin.sock mode 600 level admin
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
backend pool
    balance roundrobin
%(servers)s
"""
AGENT_YAML = """threads: 1
state_dir: %(folder)s
spop: {listen: ["unix@%(folder)s/spop.sock"]}
log_feed: {tcp: [], udp: []}
metrics: {listen: ["unix@%(folder)s/metrics.sock"]}
index: {max_bytes: 1 MiB, shards: 1}
stats_feed: {sockets: ["unix@%(folder)s/admin.sock"], interval: 50 ms}
engine_feed: {interval: 50 ms, timeout: 5 s}
%(engines)s
"""
STAR = """engines:
  - name: "*"
    pool: pool
    events:
      endpoint: "tcp://{address}:%d"
"""


def story(f):
    STORIES.append(f)
    return f


class Publisher:
    """Counts subscriptions. <came>: that began; <now>: that there are."""

    def __init__(self, context, address):
        self.came = self.now = 0
        self.socket = context.socket(zmq.XPUB)
        self.socket.setsockopt(zmq.XPUB_VERBOSER, 1)    # each begin and each end
        self.socket.ipv6 = True
        self.socket.bind(address)

    def look(self):
        while self.socket.poll(0):
            message = self.socket.recv()
            self.came += message[:1] == b"\1"
            self.now += 1 if message[:1] == b"\1" else -1
        return self.now

    def close(self):
        self.socket.close(0)


class Engine:
    """HTTP of an engine: <answers> has the body for each path; other paths do not exist."""

    def __init__(self, host, answers):
        engine = self
        self.answers, self.asked = answers, []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                engine.asked.append(self.path)
                body = engine.answers.get(self.path)
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer((host, 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def metrics(ranks=1, started=1.7e9):
    rows = ["vllm:num_requests_running{engine=\"%d\"} 0.0" % r for r in range(ranks)]
    return "\n".join(rows + ["process_start_time_seconds %.1f" % started, ""]).encode()


def server_info(port, dp_size, option=None, **more):
    return json.dumps({"model_path": "m", "kv_events_config": option, "kv_events": {
        "publisher": "zmq", "endpoint_host": "*", "endpoint_port_base": port, "topic": "",
        "block_size": 64, "dp_size": dp_size, **more}}).encode()


class World:
    """HAProxy and the agent."""

    def __init__(self, servers, engines):
        self.servers, self.engines = servers, engines
        self.folder = tempfile.mkdtemp(prefix="kvroute-")
        self.context, self.publishers, self.processes = zmq.Context(), [], []

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            print(self.log())
        self.stop()

    def start(self):
        lines = "".join("    server %s %s\n" % s for s in self.servers)
        self.write("haproxy.cfg", HAPROXY_CFG % {"folder": self.folder, "servers": lines})
        self.spawn("haproxy", [HAPROXY, "-db", "-f", os.path.join(self.folder, "haproxy.cfg")])
        wait_for("HAProxy", 5, lambda: self.haproxy("show info"))
        self.write_engines(self.engines)
        self.agent = self.spawn("agent", [os.path.join(BUILD, "kvroute"), "-f",
                                          os.path.join(self.folder, "kvroute.yaml")])
        wait_for("the agent", 5, lambda: "msg=started" in self.log())

    def write_engines(self, engines):
        self.write("kvroute.yaml", AGENT_YAML % {"folder": self.folder, "engines": engines})

    def reload(self, engines):
        self.write_engines(engines)
        before = self.log().count("msg=reloaded")
        self.agent.send_signal(signal.SIGHUP)
        wait_for("the reload", 5, lambda: self.log().count("msg=reloaded") > before)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(text)

    def spawn(self, name, argv):
        with open(os.path.join(self.folder, name + ".log"), "ab") as log:
            p = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.processes.append(p)
        return p

    def log(self):
        path = os.path.join(self.folder, "agent.log")
        if not os.path.exists(path):
            return ""
        with open(path, errors="replace") as f:
            return f.read()

    def haproxy(self, command):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(HANG_SECONDS)
            s.connect(os.path.join(self.folder, "admin.sock"))
            s.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: s.recv(65536), b"")).decode()

    def publisher(self, host, port):
        return self.publisher_at("tcp://%s:%d" % (host, port))

    def publisher_at(self, address):
        p = Publisher(self.context, address)
        self.publishers.append(p)
        return p

    def stop(self):
        for p in reversed(self.processes):
            p.terminate()
        for p in self.processes:
            p.wait(HANG_SECONDS)
        for p in self.publishers:
            p.close()
        self.context.term()
        shutil.rmtree(self.folder, ignore_errors=True)


def subscribed(*publishers):
    wait_for("subscriptions", 5, lambda: all(p.look() == 1 for p in publishers))


def left(publisher):
    wait_for("the end of a subscription", 5, lambda: publisher.look() == 0)


@story
def publishers_of_a_pool_are_found():
    """Each server's publisher is read; servers that come, move and go are followed; the others keep
    their connection."""
    port, web = free_ports(2)
    servers = [("s1", "%s:%d" % (HOSTS[0], web)), ("s2", "%s:%d" % (HOSTS[1], web))]
    with World(servers, STAR % port) as w:
        one, two, three, four = [w.publisher(h, port) for h in HOSTS]
        subscribed(one, two)
        w.haproxy("set server pool/s2 addr %s" % HOSTS[2])
        subscribed(three)
        left(two)
        w.haproxy("add server pool/s9 %s:%d" % (HOSTS[3], web))
        subscribed(four)
        w.haproxy("disable server pool/s9")
        w.haproxy("del server pool/s9")
        left(four)
        subscribed(one, three)
        equal((one.came, three.came), (1, 1), "subscriptions of those that stayed")
        w.reload(STAR % port + "  - {name: s1, pool: pool, metrics: \"unix@/nowhere/s1.sock\"}\n")
        left(one)
        w.reload(STAR % port)
        subscribed(one, three)
        equal(three.came, 1, "subscriptions of the other")


@story
def an_old_haproxy_leaves_its_servers():
    """While HAProxy does not answer, the publishers stay; a new one with other servers counts."""
    port, web = free_ports(2)
    servers = [("s1", "%s:%d" % (HOSTS[0], web)), ("s2", "%s:%d" % (HOSTS[1], web))]
    with World(servers, STAR % port) as w:
        one, two, three, _ = [w.publisher(h, port) for h in HOSTS]
        subscribed(one, two)
        w.processes[0].terminate()
        w.processes[0].wait(HANG_SECONDS)
        wait_for("the agent to notice", 5,
                 lambda: "no answer from HAProxy stats socket" in w.log())
        equal((one.look(), two.look()), (1, 1), "subscriptions without HAProxy")
        w.servers = [("s1", "%s:%d" % (HOSTS[0], web)), ("s3", "%s:%d" % (HOSTS[2], web))]
        lines = "".join("    server %s %s\n" % s for s in w.servers)
        w.write("haproxy.cfg", HAPROXY_CFG % {"folder": w.folder, "servers": lines})
        w.spawn("haproxy", [HAPROXY, "-db", "-f", os.path.join(w.folder, "haproxy.cfg")])
        subscribed(three)
        left(two)
        equal((one.look(), one.came), (1, 1), "subscription of the server that stayed")


@story
def other_kinds_of_addresses():
    """IPv6, a unix socket of an engine, and a server whose address is a unix socket."""
    port, web = free_ports(2)
    servers = [("s1", "[::1]:%d" % web), ("s2", "unix@/nowhere/s2.sock"),
               ("s3", "%s:%d" % (HOSTS[0], web))]
    folder = tempfile.mkdtemp(prefix="kvroute-")
    lines = STAR % port + "  - {name: s3, pool: pool, events: {endpoint: \"ipc://%s/events\"}}\n" \
        % folder
    with World(servers, lines) as w:
        six = w.publisher("[::1]", port)
        local = w.publisher_at("ipc://%s/events" % folder)
        subscribed(six, local)
        check("engines=2 servers=2" in w.log(), "the server at a unix socket counts")
    shutil.rmtree(folder, ignore_errors=True)


@story
def ranks_are_those_of_the_metrics():
    port = free_ports(1)[0]
    engine = Engine(HOSTS[0], {"/metrics": metrics(ranks=2)})
    servers = [("s1", "%s:%d" % (HOSTS[0], engine.port))]
    lines = STAR % port + "    metrics: \"{address}:{port}\"\n"
    try:
        with World(servers, lines) as w:
            ranks = [w.publisher(HOSTS[0], port + r) for r in range(3)]
            subscribed(*ranks[:2])
            equal([p.came for p in ranks[:2]], [1, 1], "subscriptions")
            equal(ranks[2].look(), 0, "subscriptions of a third rank")
            check("/server_info" not in engine.asked, "it was asked for more than its metrics")
    finally:
        engine.close()


@story
def an_engine_is_asked():
    """Ports and ranks come from /server_info, again after a restart."""
    port, later, load = free_ports(3)
    option = json.dumps({"publisher": "zmq", "replay_endpoint": "tcp://*:%d" % later})
    engine = Engine(HOSTS[1], {"/metrics": metrics()})
    lines = "engines:\n  - name: s1\n    pool: pool\n    metrics: \"%s:%d\"\n" \
        "    events: {endpoint: auto}\n" % (HOSTS[1], engine.port)
    try:
        with World([("s1", "%s:%d" % (HOSTS[1], engine.port))], lines) as w:
            one, two = w.publisher(HOSTS[1], port), w.publisher(HOSTS[1], port + 1)
            moved, loads = w.publisher(HOSTS[1], later), w.publisher(HOSTS[1], load)
            wait_for("a question", 5, lambda: "/server_info" in engine.asked)
            wait_for("the metrics", 5, lambda: engine.asked.count("/metrics") > 3)
            check("does not tell where it publishes" in w.log(), "the log says nothing")
            engine.answers["/server_info"] = server_info(port, 2, option)
            engine.answers["/metrics"] = metrics(started=1.7e9 + 1)
            subscribed(one, two)
            told = (r"tells where it publishes.*port=%d replay_port=%d ranks=2 block_size=64 "
                    "load_port=0" % (port, later))
            check(re.search(told, w.log()), "the log says nothing")
            asked = engine.asked.count("/server_info")
            wait_for("the metrics", 5, lambda: engine.asked[-1] == "/metrics")
            engine.answers["/server_info"] = server_info(later, 1, load_endpoint_port_base=load)
            engine.answers["/metrics"] = metrics(started=1.7e9 + 2)
            subscribed(moved, loads)
            left(one)
            left(two)
            equal(engine.asked.count("/server_info"), asked + 1, "questions after the restart")
    finally:
        engine.close()


if __name__ == "__main__":
    sys.exit(cases.main(STORIES, sys.argv[1:]))
