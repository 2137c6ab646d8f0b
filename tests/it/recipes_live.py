#!/usr/bin/env python3
"""recipes_live.py [HAPROXY...] - run the recipes of haproxy-conf/ and test what they promise.

Engines are a few lines of Python, and no agent runs. The stories test HAProxy alone: access,
queueing and the log line, and that every request is served without an agent. Each story prints a
line; the last line is "N passed, N failed". Ports are reserved by fleet.Ports.
"""
import concurrent.futures
import glob
import http.client
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
import time

from fleet import BUILD, HANG_SECONDS, MALLOC, Ports, edited

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ACME = {"Authorization": "Bearer example-key-acme"}
UMBRELLA = {"x-api-key": "example-key-umbrella"}


class Engine(http.server.ThreadingHTTPServer):
    """Answers each request with its own content; waits `pause` seconds before it answers a POST."""
    daemon_threads = True
    request_queue_size = 128
    pause = 0

    def __init__(self, address, handler=None):
        if isinstance(address, str):
            self.address_family = socket.AF_UNIX
        super().__init__(address, handler or Handler)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def server_bind(self):
        if self.address_family == socket.AF_INET:
            # shares the port with the socket that reserves it
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)

    def handle_error(self, *args):
        pass  # checks, and clients that disconnect


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return ""

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.answer(b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        time.sleep(self.server.pause)
        self.answer(body)

    def answer(self, body):
        out = json.dumps({"headers": {k.lower(): v for k, v in self.headers.items()},
                          "n": len(body)}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(out)))
        self.send_header("x-kvroute-server", "forged")
        self.end_headers()
        self.wfile.write(out)


class Answering(Handler):
    """Answers a POST as its body specifies: "type", "text", "length" (of the header), "hold" (send
    the second half when the test permits)."""
    go_on = threading.Event()

    def answer(self, body):
        ask = json.loads(body) if body else {"text": ""}
        text, half = ask["text"].encode(), len(ask["text"]) // 2
        self.send_response(200)
        self.send_header("content-type", ask.get("type", "application/json"))
        if ask.get("chunked"):
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(ask.get("length", len(text))))
        self.end_headers()
        for i, piece in enumerate((text[:half], text[half:]) if ask.get("hold") else (text, )):
            if i:
                self.go_on.wait(HANG_SECONDS)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if ask.get("chunked") else piece)
        self.wfile.write(b"0\r\n\r\n" if ask.get("chunked") else b"")
        self.close_connection = "length" in ask


class Reporting(Handler):
    """Answers a POST with its body as the load header, and says what format was asked for."""

    def answer(self, body):
        self.send_response_only(200)
        self.send_header("content-length", "0")
        self.send_header("x-asked", self.headers.get("endpoint-load-metrics-format", "none"))
        if body:
            self.wfile.write(b"".join(self._headers_buffer) + b"endpoint-load-metrics: " + body
                             + b"\r\n")
            self._headers_buffer = []
        self.end_headers()


class Feed:
    """The agent's log feed: keeps every line, from TCP or UDP."""

    def __init__(self, port):
        self.lines, self.port = [], port
        self.tcp = socket.create_server(("127.0.0.1", self.port))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, daemon=True).start()
        threading.Thread(target=self.datagrams, daemon=True).start()

    def accept(self):
        while True:
            conn, _ = self.tcp.accept()
            threading.Thread(target=lambda c=conn: self.lines.extend(c.makefile("rb")),
                             daemon=True).start()

    def datagrams(self):
        while True:
            self.lines.append(self.udp.recv(65536))

    def wait(self, n, seconds=HANG_SECONDS):
        end = time.monotonic() + seconds
        while len(self.lines) < n and time.monotonic() < end:
            time.sleep(0.02)
        return list(self.lines)


class Proxy:
    """A recipe, running with ports of its own."""

    def __init__(self, binary, recipe, engines=True, edit=None, handler=None, groups=None):
        self.dir = tempfile.mkdtemp(prefix="kvroute-live-")
        self.held = Ports()
        self.feed = Feed(self.held.take(udp=True))
        self.port = self.held.take()
        shutil.copytree(TOP + "/haproxy-conf", self.dir + "/conf")
        text = open(f"{self.dir}/conf/{recipe}").read()
        self.ports = [self.held.take() for _ in range(4)]
        for i, port in enumerate(self.ports):
            text = text.replace(f"127.0.0.1:{8001 + i}", f"127.0.0.1:{port}")
        for old, new in (("bind :8080", f"bind 127.0.0.1:{self.port}"),
                         ("127.0.0.1:9400", "127.0.0.1:1"),
                         ("127.0.0.1:9401", f"127.0.0.1:{self.feed.port}"),
                         ("inter 2s", "inter 100ms"),
                         ("    option httpchk", "    timeout check 60s\n    option httpchk"),
                         ("/etc/haproxy/kvroute", self.dir + "/conf"), ("/run/haproxy", self.dir),
                         ("/run/", self.dir + "/run/"), ("/dev/log", self.dir + "/log")):
            text = text.replace(old, new)
        text = edit(text) if edit else text
        self.handler = handler
        os.makedirs(self.dir + "/run/engines")
        os.makedirs(self.dir + "/run/kvroute")
        with open(self.dir + "/haproxy.cfg", "w") as f:
            f.write(text)
        self.engines = []
        if engines:
            self.start_engines()
        self.out = open(self.dir + "/out", "w+")
        self.proc = subprocess.Popen([binary, "-db", "-f", self.dir + "/haproxy.cfg"],
                                     env={**os.environ, **MALLOC}, extra_groups=groups,
                                     stdout=self.out, stderr=subprocess.STDOUT)
        end = time.monotonic() + HANG_SECONDS
        # Wait until HAProxy runs and has marked the agent as down, else the first requests wait for
        # it. Ask the stats socket, because a connection to its port would add a line to the feed,
        # which may come late.
        while b"DOWN" not in self.command("show stat spoe_agent 4 -1") and time.monotonic() < end:
            time.sleep(0.02)

    def start_engines(self):
        self.engines = [Engine(("127.0.0.1", p), self.handler or Handler) for p in self.ports]

    def command(self, text):
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(HANG_SECONDS)
                s.connect(self.dir + "/admin.sock")
                s.sendall(text.encode() + b"\n")
                return b"".join(iter(lambda: s.recv(65536), b""))
        except OSError:
            return b""

    def wait_servers(self, state):
        end = time.monotonic() + HANG_SECONDS
        while self.command("show stat pool 4 -1").count(state) < 4:
            if time.monotonic() > end:
                raise AssertionError(f"servers are not all {state.decode()}")
            time.sleep(0.05)

    def ask(self, body=b"{}", path="/v1/chat/completions", headers=None, method="POST",
            chunked=False, timeout=HANG_SECONDS):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            try:
                conn.request(method, path, iter([body]) if chunked else body, headers or {},
                             encode_chunked=chunked)
            except (BrokenPipeError, ConnectionResetError):
                pass  # rejected before all of it was read; the answer has arrived
            r = conn.getresponse()
            data = r.read()
            try:
                data = json.loads(data)
            except ValueError:
                pass
            return r.status, {k.lower(): v for k, v in r.getheaders()}, data
        finally:
            conn.close()

    def status(self, *args, **kw):
        return self.ask(*args, **kw)[0]

    def close(self):
        self.proc.send_signal(signal.SIGTERM)
        try:
            self.proc.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        for e in self.engines:
            e.shutdown()
            e.server_close()
        self.held.close()
        self.out.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def same(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what}: {got!r}, expected {want!r}")


# ---- stories: a function each, whose docstring is printed 

def main_file(binary):
    """haproxy.cfg: requests are served without an agent; the log line is JSON for any request"""
    p = Proxy(binary, "haproxy.cfg")
    try:
        nasty = "/v1/chat/completions?a={\"x\\%22,\"uid\":\"1\"}"
        same(p.status(), 200)
        same(p.status(path=nasty.replace('"', "%22").replace("\\", "%5C"),
                      headers={"user-agent": "\"},{\"\\"}), 200)
        with socket.create_connection(("127.0.0.1", p.port)) as s:
            s.sendall(b"NO\"NSENSE \\{\r\n\r\n")
            s.recv(1000)
        same(p.status(b"x" * 1000000), 200)
        lines = [json.loads(line) for line in p.feed.wait(4)]
        same(sorted(l["st"] for l in lines), [200, 200, 200, 400], "statuses in the feed")
        same(len({l["uid"] for l in lines}), 4, "different uids")
        same({l["srv"] for l in lines} <= {"s1", "s2", "s3", "s4", "<NOSRV>"}, True, "server names")
        same(sorted(lines[0]),
             sorted("uid be srv want why err st ts tw tc tr ta out in rc sq bq ptok gtok".split()),
             "fields")
        same({(l["ptok"], l["gtok"]) for l in lines}, {("-", "-")},
             "counts, where the agent was not asked")
    finally:
        p.close()


def first_byte(p, ask):
    """Request an answer whose second half waits for Answering.go_on. Returns the first half (None:
    none came before that) and a function that returns the rest."""
    conn = http.client.HTTPConnection("127.0.0.1", p.port, timeout=HANG_SECONDS)
    conn.request("POST", "/v1/chat/completions", json.dumps(ask).encode())
    r = conn.getresponse()
    return r.read(1), lambda: (r.read(), conn.close())


def counts(binary):
    """haproxy.cfg: the engine's counts are in the log line; streams and unfinished bodies are not
    delayed"""
    asked = lambda text: edited(text, "    option httpchk",
                                      "    http-request set-var(txn.kvroute.why) str(cached)\n    "
                                      "option httpchk")
    chat = '"choices":[{"message":{"content":"say \\"usage\\": {\\"prompt_tokens\\":1}"}}]'
    usage = lambda s: "{%s,\"usage\":{%s}}" % (chat, s)
    both = usage('"prompt_tokens":123,"completion_tokens":40')
    table = [
        ("123", "40", {"text": both}),
        ("77++", "8", {"text": usage('"input_tokens":77,"output_tokens":8')}),
        ("7+70+0", "8",
         {"text": usage('"input_tokens":7,"cache_read_input_tokens":70,'
                        '"cache_creation_input_tokens":0,"output_tokens":8')}),
        ("123", "40", {"text": both, "type": "Application/JSON; charset=utf-8"}),
        ("-", "-", {"text": both, "type": "text/event-stream"}),
        ("-", "-", {"text": both, "chunked": True}),
        ("-", "-", {"text": " " * 65536 + both}),
        ("123", "40", {"text": " " * 60000 + both}),
        ("++", "-", {"text": "{" + chat + "}"}),
        ("++", "-", {"text": "[" * 300}),
        ("1", "1",
         {"text": usage('"prompt_tokens":"1\\",\\"uid\\":\\"x","completion_tokens":1e3')}),
        ("-5", None,
         {"text": usage('"prompt_tokens":-5.7,"completion_tokens":99999999999999999999')}),
        ("++", "-", {"text": both[:40], "length": 1000}),
    ]
    Answering.go_on.clear()
    p = Proxy(binary, "haproxy.cfg", edit=asked, handler=Answering)
    try:
        for i, (ptok, gtok, ask) in enumerate(table):
            try:
                p.ask(json.dumps(ask).encode())
            except http.client.HTTPException:
                pass            # the one that ends too early
            line = json.loads(p.feed.wait(i + 1)[i])
            same(line["ptok"], ptok, json.dumps(ask)[-80:])
            same(gtok is None or line["gtok"] == gtok, True,
                 "gtok %r of %s" % (line["gtok"], json.dumps(ask)[-80:]))
            same(len(line["uid"]), 36, "a uid that the engine made")
        # their second half is sent when the client has the first byte of each
        held = [first_byte(p, {"text": "data: 1\n\ndata: 2\n\n", "type": "text/event-stream",
                               "chunked": True, "hold": True}),
                first_byte(p, {"text": both, "chunked": True, "hold": True}),
                first_byte(p, {"text": " " * 65536 + both, "hold": True})]
        same([h[0] for h in held], [b"d", b"{", b" "], "first bytes")
        Answering.go_on.set()
        for h in held:
            h[1]()
        same({json.loads(l)["ts"] for l in p.feed.wait(len(table) + 3)[len(table):]}, {"--"},
             "how they ended")
    finally:
        Answering.go_on.set()
        p.close()


def udp(binary):
    """udp-log.cfg: one JSON object a datagram"""
    p = Proxy(binary, "recipes/udp-log.cfg")
    try:
        same([p.status() for _ in range(3)], [200] * 3)
        same([json.loads(d)["st"] for d in p.feed.wait(3)], [200] * 3)
    finally:
        p.close()


def own_log(binary):
    """keep-your-log.cfg: the feed begins with JSON, the other log has none of it"""
    p = None
    with tempfile.TemporaryDirectory() as d, socket.socket(
        socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        try:
            p = Proxy(binary, "recipes/keep-your-log.cfg")
            own.bind(p.dir + "/log")
            own.settimeout(HANG_SECONDS)
            same(p.status(path="/v1/completions?{%22uid%22:1}"), 200)
            line = p.feed.wait(1)[0].decode()
            first, _ = json.JSONDecoder().raw_decode(line[line.index("{"):])
            same(first["st"], 200)
            same(len(first["uid"]), 36, "uid")
            mine = own.recv(65536).decode()
            same("\"uid\":" in mine, False, "JSON in the other log")
            same("POST /v1/completions?" in mine, True, "request in the other log")
        finally:
            if p:
                p.close()


def tenants(binary):
    """tenants.cfg: 401 without a key, 429 above the rate and above the open requests, others
    untouched"""
    p = Proxy(binary, "recipes/tenants.cfg")
    try:
        same(p.status(), 401)
        same(p.status(headers={"Authorization": "Bearer wrong"}), 401)
        status, _, data = p.ask(headers=ACME)
        same(status, 200)
        same("authorization" in data["headers"], False, "the key at the engine")
        for e in p.engines:
            e.pause = 0.5
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            got = sorted(pool.map(lambda _: p.status(headers=UMBRELLA), range(8)))
        same(got, [200] * 4 + [429] * 4, "8 at once where 4 may be")
        for e in p.engines:
            e.pause = 0
        got = [p.ask(headers=UMBRELLA) for _ in range(14)]
        same([g[0] for g in got], [200] * 12 + [429] * 2, "22 in 10 s where 20 may be")
        same(got[-1][1].get("retry-after"), "10")
        same(p.status(headers=ACME), 200, "another tenant")
    finally:
        p.close()


def models(binary):
    """models.cfg: only allowed models, and no body that engine and HAProxy could read
    differently"""
    p = Proxy(binary, "recipes/models.cfg")
    ok = (b'{"model": "small-8b", "messages": [{"role": "user", "content": "say \\"model\\": '
          b'\\"large-70b\\""}]}')
    schema = (b'{"model":"small-8b",'
              b'"tools":[{"parameters":{"properties":{"model":{"type":"string"}}}}]}')
    table = [
        (200, ok), (200, schema), (200, b'{"messages":[], "model":"small-8b"}'),
        (403, b'{"model":"large-70b"}'), (403, b'{"model":"acme/large-70b"}'), (403, b"{}"),
        (403, b"not json"),
        (403, b'{"nested":{"model":"small-8b"}}'), (403, b'{"model":["small-8b"]}'),
        (403, b'{"model":null}'),
        (403, '{"model":"small-8b"}'.encode("utf-16")), (400, b'{"model":"small-8b\\u0000x"}'),
        (400, b'{"model":"small\\u002d8b"}'),
        (400, b'{"model":"small-8b","model":"large-70b"}'),
        (400, b'{"model":"small-8b",\n"\\u006dodel" :\t"large-70b"}'),
        (400, b'{"model":"small-8b"}{"mod\\u0065l":"large-70b"}'),
        (413, b'{"model":"small-8b","x":"' + b"x" * 300000 + b'","model":"large-70b"}'),
    ]
    try:
        for want, body in table:
            same(p.status(body, headers=UMBRELLA), want, body[:60])
        same(p.status(b'{"model":"large-70b"}', headers=ACME), 200, "the other key")
        same(p.status(ok, headers=UMBRELLA, chunked=True), 411, "chunked")
        same(p.status(ok, headers=UMBRELLA, path="/v1/%63hat/completions"), 404,
             "another spelling of the path")
        same(p.status(None, headers=UMBRELLA, path="/v1/models", method="GET"), 200,
             "the list of models")
        same(p.status(ok), 401, "no key")
    finally:
        p.close()


def queueing(binary):
    """queueing.cfg: all engines replaced while requests wait; one drained by weight; no error"""
    p = Proxy(binary, "recipes/queueing.cfg", engines=False)
    try:
        p.wait_servers(b",DOWN,")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            waiting = [pool.submit(p.status) for _ in range(8)]
            time.sleep(2.5)
            same(any(w.done() for w in waiting), False, "answered while no engine is there")
            p.start_engines()
            same([w.result() for w in waiting], [200] * 8, "after they are back")
        p.wait_servers(b",UP,")
        same(len(p.feed.wait(8)), 8, "lines of those that waited")
        p.feed.lines.clear()
        p.command("set server pool/s1 weight 0")
        same([p.status() for _ in range(8)], [200] * 8)
        used = [(l["be"], l["srv"]) for l in map(json.loads, p.feed.wait(8))]
        same(len(used), 8, "lines of the next")
        same(("pool", "s1") in used, False, f"s1 used at weight 0, among {used}")
    finally:
        p.close()


def unix(binary):
    """unix-sockets.cfg: engines on unix sockets; the ring too from 3.0 on, before over TCP"""
    p = Proxy(binary, "recipes/unix-sockets.cfg", engines=False)
    old = "/2.6/" in binary     # connects again without a pause if no process listens
    try:
        lines = []
        if not old:
            ring = socket.socket(socket.AF_UNIX)
            ring.bind(f"{p.dir}/run/kvroute/log.sock")
            ring.listen(5)
            ring.settimeout(10)
            threading.Thread(target=lambda: lines.extend(ring.accept()[0].makefile("rb")),
                             daemon=True).start()
        p.engines = [Engine(f"{p.dir}/run/engines/s{i}.sock") for i in range(1, 5)]
        p.wait_servers(b",UP,")
        same([p.status() for _ in range(4)], [200] * 4)
        end = time.monotonic() + 10
        while len(lines) + len(p.feed.lines) < 4 and time.monotonic() < end:
            time.sleep(0.02)
        same((len(p.feed.lines) >= 4, len(lines) >= 4), (old, not old),
             "lines over TCP, over the unix socket")
    finally:
        p.close()


OTHERS, AGENTS, HAPROXYS, NOBODY = 50001, 50002, 50003, 65534     # numbers of groups and users


def unix_groups(binary):
    """unix-sockets.cfg: HAProxy started as root with a group reaches sockets that have this group
    by their directory, and none of another group, although its user is a member there"""
    if os.geteuid() != 0:
        print("skipped: groups of unix sockets: not root")
        return
    for group, state in ((HAPROXYS, b",UP,"), (AGENTS, b",DOWN,")):
        p = Proxy(binary, "recipes/unix-sockets.cfg", engines=False, groups=[AGENTS, OTHERS],
                  edit=lambda t: t.replace("global\n", "global\n    uid %d\n    gid %d\n" % (
                      NOBODY, HAPROXYS), 1))
        agent = None
        try:
            os.chmod(p.dir, 0o755)
            run = p.dir + "/run/kvroute"
            os.chown(run, AGENTS, group)
            os.chmod(run, 0o2750)
            with open(p.dir + "/kvroute.yaml", "w") as f:
                f.write('spop: {listen: ["unix@%s/spop.sock"]}\nmetrics: {listen: []}\n'
                        'log_feed: {tcp: ["unix@%s/log.sock"], udp: []}\n' % (run, run))
            # a copy, because its folder may be closed to other users
            shutil.copy(BUILD + "/kvroute", p.dir + "/kvroute")
            agent = subprocess.Popen(
                [p.dir + "/kvroute", "-f", p.dir + "/kvroute.yaml"], user=AGENTS, group=AGENTS,
                extra_groups=[], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            end = time.monotonic() + HANG_SECONDS
            sock = run + "/spop.sock"
            while not os.path.exists(sock) and time.monotonic() < end:
                time.sleep(0.02)
            st = os.stat(sock)
            same((st.st_uid, st.st_gid, st.st_mode & 0o777), (AGENTS, group, 0o660), "the socket")
            if state == b",UP,":
                while state not in p.command("show stat spoe_agent 4 -1") and (
                        time.monotonic() < end):
                    time.sleep(0.05)
                same(state in p.command("show stat spoe_agent 4 -1"), True, "HAProxy reaches it")
            else:       # the reason of the last check
                while b"ermission" not in p.command("show stat spoe_agent 4 -1") and (
                        time.monotonic() < end):
                    time.sleep(0.05)
                stat = p.command("show stat spoe_agent 4 -1")
                same((b",UP," in stat, b"ermission" in stat), (False, True), "it may not")
        finally:
            if agent is not None:
                agent.kill()
                agent.wait()
            p.close()


def headers(binary):
    """headers.cfg: an engine cannot forge decision headers"""
    p = Proxy(binary, "recipes/headers.cfg")
    try:
        status, head, _ = p.ask()
        same(status, 200)
        same([h for h in head if h.startswith("x-kvroute")], [], "headers without a decision")
    finally:
        p.close()


LOADS = [b"TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=2.0",
         b'JSON {"named_metrics": {"kv_cache_usage_perc": 0.4, "num_requests_waiting": 2.0}}']
HOSTILE_LOADS = [b'x","uid":"forged","srv":"s4","x":"', b"\\", b'\\"', b"a\\u0022,",
                 b"'%[env(PATH)]'", b"\xff\xfe\xc3(\x80", b"tab\there \x7f", b"y" * 3000,
                 b'"' * 3000, b"\xe2\x82" * 200]


def engine_load(binary):
    """engine-load.cfg: the load header is a field of the log line, whatever an engine sends"""
    p = Proxy(binary, "recipes/engine-load.cfg", handler=Reporting, edit=lambda t: edited(
        t, "bytes(0,256) if { var(txn.kvroute.why) -m found }", "bytes(0,256)"))
    try:
        p.wait_servers(b",UP,")
        for i, body in enumerate(LOADS + HOSTILE_LOADS + [b""]):
            status, head, _ = p.ask(body, headers={"endpoint-load-metrics-format": "JSON"})
            same((status, head["x-asked"]), (200, "TEXT"), body)
            same("endpoint-load-metrics" in head, False, "the client sees the header")
            line = json.loads(p.feed.wait(i + 1)[i])
            same(sorted(line), sorted("uid be srv want why err st ts tw tc tr ta out in rc sq bq "
                                      "ptok gtok orca".split()), body)
            same("forged" in (line["uid"], line["srv"]), False, body)
            same(len(line["orca"]) <= 256, True, "its length")
            if body in LOADS:
                same(line["orca"], body.decode())
            if body == b"":
                same(line["orca"], "-", "no header")
    finally:
        p.close()


def ranks(binary):
    """ranks.cfg: served without an agent; a client cannot choose the rank"""
    p = Proxy(binary, "recipes/ranks.cfg")
    try:
        status, _, data = p.ask(headers={"x-data-parallel-rank": "3"})
        same(status, 200)
        same("x-data-parallel-rank" in data["headers"], False, "the client's rank at the engine")
    finally:
        p.close()


def sliced(binary):
    """sliced.cfg: served without an agent, short and long"""
    p = Proxy(binary, "recipes/sliced.cfg")
    try:
        same([p.status(b"x" * n) for n in (10, 13001, 100000, 1000000)], [200] * 4)
    finally:
        p.close()


def main():
    binaries = sys.argv[1:] or sorted(glob.glob(TOP + "/build/haproxy/*/haproxy"))
    if not binaries:
        print("skip  no HAProxy under build/haproxy: tests/tools/deps.sh demo")
        print("0 passed, 1 failed")
        return 1
    stories = [(f, b) for b in binaries
               for f in (main_file, counts, udp, own_log, tenants, models, queueing, unix,
                         unix_groups, headers, engine_load, ranks, sliced)]

    def run(story):
        try:
            story[0](story[1])
            return None
        except Exception as e:  # any exception in a story fails that story
            return f"{type(e).__name__}: {e}"

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for (f, binary), why in zip(stories, pool.map(run, stories)):
            failed += why is not None
            version = re.search(r"haproxy/([^/]+)/", binary)
            print("FAIL " if why else "ok   ", f.__doc__,
                  f"(HAProxy {version[1] if version else binary})", flush=True)
            if why:
                print("     ", why, flush=True)
    print(f"{len(stories) - failed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
