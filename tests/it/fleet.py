"""fleet.py - a real HAProxy, the agent and stub engines on loopback, for stories and the demo.

    with Fleet(engines=4) as f:
        answer = f.chat([{"role": "user", "content": "hello"}])
        assert answer.engine in f.engines

The HAProxy configuration is the one operators copy, haproxy-conf/, with addresses and paths
replaced and, for stories, the decision shown in response headers. Ports are the kernel's choice.
Everything lives in one temporary folder and ends with the block, also after an exception.
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("B", os.path.join(TOP, "build/release"))
if not os.path.isabs(BUILD):
    BUILD = os.path.join(TOP, BUILD)
HAPROXY = os.environ.get("HAPROXY", os.path.join(TOP, "build/haproxy/2.6/haproxy"))

# A wait that takes longer is a hang, even on a busy machine. No verdict depends on this value.
HANG_SECONDS = float(os.environ.get("HANG_SECONDS", "180"))
START_SECONDS = HANG_SECONDS
# Timeouts of the agent's answer and of health checks of agent and engines, for stories that do not
# depend on the speed of the machine. None: the values of the recipe.
PATIENT = "60s"
# THREADS=8 behaves like 8 processors: the agent gets 8 threads, unless a story requests one.
THREADS = int(os.environ.get("THREADS", "0"))
SHOWN = ["server", "alt", "why", "hit", "pages", "prompt_pages", "us", "cut", "more", "error",
         "model", "model_from", "wait", "tokens", "hit_tokens", "priority", "prefill"]


# A shell that starts this program in the background, as tests/run.sh does, makes it ignore SIGINT,
# and its children would inherit that: HAProxy would not end on the signal, and every fleet would
# wait.
signal.signal(signal.SIGINT, signal.default_int_handler)

# HAProxy starts as haproxy-conf/README.md says: haproxy-conf/haproxy.service.conf.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "268435456"}


class Ports:
    """Ports of 127.0.0.1 that no other program gets, neither by bind(0) nor for its own
    connections, until close(). Each is held by a socket that does not listen. It gets SO_REUSEADDR
    after bind(), so that a server that sets this option, too, can bind the same port."""

    def __init__(self):
        self.held = []

    def take(self, udp=False):
        """A port; <udp>: one that is free for datagrams too, at this moment."""
        while True:
            s = socket.socket()
            self.held.append(s)
            s.bind(("127.0.0.1", 0))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = s.getsockname()[1]
            if not udp or self.datagrams_too(port):
                return port

    @staticmethod
    def datagrams_too(port):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            try:
                s.bind(("127.0.0.1", port))
                return True
            except OSError:
                return False

    def close(self):
        while self.held:
            self.held.pop().close()


ports_of_this_program = Ports()


def free_ports(n):
    """Return ports that stay reserved as long as this program runs."""
    return [ports_of_this_program.take() for _ in range(n)]


def edited(text, old, new, count=-1):
    """<text> with <old> replaced. An edit that finds nothing is an error, because the test would
    then run without it."""
    if old not in text:
        raise AssertionError("nothing to replace: %r" % old)
    return text.replace(old, new, count)


def wait_for(what, seconds, test):
    """Repeat test() until it is true; it may raise OSError. <seconds> is the time that it needs on
    an idle machine; a busy one gets HANG_SECONDS."""
    seconds = max(seconds, HANG_SECONDS)
    end = time.time() + seconds
    while True:
        try:
            got = test()
            if got:
                return got
        except (OSError, http.client.HTTPException):
            pass
        if time.time() > end:
            raise TimeoutError("%s: not within %g s" % (what, seconds))
        time.sleep(0.02)


class Answer:
    def __init__(self, status, headers, body, first_s, total_s):
        self.status, self.headers, self.body = status, headers, body
        self.first_s, self.total_s = first_s, total_s
        self.engine = headers.get("x-engine", "")

    def __getattr__(self, name):
        if name in SHOWN:
            return self.headers.get("x-kv-" + name.replace("_", "-"), "")
        raise AttributeError(name)

    def json(self):
        return json.loads(self.body)

    def events(self):
        """Return the data of a stream's events, except the closing one."""
        out = []
        for line in self.body.decode().split("\n"):
            if line.startswith("data: ") and line != "data: [DONE]":
                out.append(json.loads(line[6:]))
        return out

    def text(self):
        if "text/event-stream" not in self.headers.get("content-type", ""):
            return self.json()["choices"][0]["message"]["content"]
        parts = [c.get("delta", {}).get("content") or "" for e in self.events()
                 for c in e.get("choices", [])]
        return "".join(parts)

    def cached(self):
        usage = [e["usage"] for e in self.events()
                 if e.get("usage")][-1] if self.body.startswith(b"data:") \
            else self.json()["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"]


def get(port, path):
    """Return status and text of an answer of loopback."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_SECONDS)
    try:
        c.request("GET", path)
        r = c.getresponse()
        return r.status, r.read().decode()
    finally:
        c.close()


class Fleet:
    learns = False      # the rates of engines

    def __init__(self, engines=4, agent=True, haproxy=None, engine_options=(), agent_conf="",
                 conf="haproxy.cfg",
                 spoe="kvroute.spoe", bufsize=None, edit=None, threads=2, folder=None, show=True,
                 routed=True, session=False, spop="", processing=PATIENT,
                 pools=("pool",), agent_checked=True):
        self.names = ["s%d" % (i + 1) for i in range(engines)]
        self.with_agent, self.haproxy_bin = agent, haproxy or HAPROXY
        self.engine_options, self.agent_conf = list(engine_options), agent_conf
        self.conf, self.spoe, self.bufsize, self.edit = conf, spoe, bufsize, edit
        self.threads = THREADS if THREADS and threads > 1 else threads
        self.show, self.routed, self.session = show, routed, session
        self.processing = processing
        self.folder = folder or tempfile.mkdtemp(prefix="kvroute-")
        self.engines, self.controls, self.processes = {}, {}, {}
        self.ports = Ports()
        self.port, self.agent_port, self.metrics_port = (self.ports.take() for _ in range(3))
        self.feed_port = self.ports.take(udp=True)
        self.spop_address, self.spop_more = "127.0.0.1:%d" % self.agent_port, spop
        self.pools = pools              # backends of engines
        self.agent_checked = agent_checked      # False: HAProxy's check of the agent may fail
        self.up_wanted = None           # servers, where the configuration has more than engines
        self.stats_path = os.path.join(self.folder, "admin.sock")

    # ---- starting and ending

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            self.show_logs()
        self.stop()

    def start(self):
        for name in self.names:
            self.start_engine(name)
        if self.with_agent:
            self.start_agent()
        self.start_haproxy()

    def spawn(self, name, argv, **kw):
        log = open(os.path.join(self.folder, name + ".log"), "ab")
        env = {**os.environ, **MALLOC} if name.startswith("haproxy") else None
        p = subprocess.Popen(argv, stderr=log, cwd=TOP, stdin=subprocess.DEVNULL,
                             start_new_session=self.session,
                             **{"stdout": log, "env": env, **kw})
        self.processes[name] = p
        return p

    def start_engine(self, name):
        old = self.engines.get(name)
        p = self.spawn(name, [os.path.join(BUILD, "tests/tools/stub_engine"), "--name", name,
                              "--listen", "127.0.0.1:%d" % (old or self.ports.take()), "--control",
                              "127.0.0.1:0"]
                       + self.engine_options, stdout=subprocess.PIPE)
        line = p.stdout.readline().decode()
        if "listen=" not in line:
            raise RuntimeError("the stub engine did not start: see %s/%s.log" % (self.folder, name))
        self.engines[name] = int(re.search(r"listen=127\.0\.0\.1:(\d+)", line).group(1))
        self.controls[name] = int(re.search(r"control=127\.0\.0\.1:(\d+)", line).group(1))

    def spop_keys(self):
        """Return the keys of section spop except its addresses."""
        keys = [k for k in (self.spop_more, ) if k]
        if self.processing and "timeout_processing" not in self.spop_more:
            keys.append("timeout_processing: " + self.processing)
        return "".join(", " + k for k in keys)

    def agent_yaml(self):
        return ("threads: %d\nstate_dir: %s\nspop: {listen: [\"%s\"]%s}\n"
                "log_feed: {tcp: [\"127.0.0.1:%d\"], udp: [\"127.0.0.1:%d\"]}\nmetrics: {listen: "
                "[\"127.0.0.1:%d\"]}\n%s%s\n"
                % (self.threads, self.folder, self.spop_address, self.spop_keys(), self.feed_port,
                   self.feed_port, self.metrics_port, self.steady(), self.agent_conf))

    def steady(self):
        """Engines are as slow as the machine is busy; what is tested must not depend on it."""
        if self.learns or not self.processing or re.search(r"(?m)^policy:", self.agent_conf):
            return ""
        return "policy: {learn_rate: false}\n"

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def start_agent(self):
        path = self.write("kvroute.yaml", self.agent_yaml())
        self.spawn("agent", [os.path.join(BUILD, "kvroute"), "-f", path])
        self.wait_alive("agent", "the agent",
                        lambda: self.get("/ready", self.metrics_port)[0] == 200)

    def haproxy_cfg(self):
        with open(os.path.join(TOP, "haproxy-conf", self.conf)) as f:
            text = f.read()
        text = re.sub(r"stats socket \S+ mode 660", "stats socket %s mode 600" % self.stats_path,
                      text)
        text = re.sub(r"bind :8080", "bind 127.0.0.1:%d" % self.port, text)
        text = re.sub(r"127\.0\.0\.1:9400", "127.0.0.1:%d" % self.agent_port, text)
        text = re.sub(r"127\.0\.0\.1:9401", "127.0.0.1:%d" % self.feed_port, text)
        text = re.sub(r"/etc/haproxy/kvroute/\S*\.spoe", os.path.join(self.folder, "kvroute.spoe"),
                      text)
        text = re.sub(r"/etc/haproxy/kvroute/", os.path.join(TOP, "haproxy-conf/"), text)
        text = re.sub(r"check inter 2s fall 2 rise 1", "check inter 200ms fall 1 rise 1", text)
        text = re.sub(r"check inter 500ms", "check inter 200ms", text)
        if self.processing:
            text = re.sub(r"(?m)^    option (httpchk|spop-check)",
                          r"    timeout check %s\n\g<0>" % self.processing, text)
        if self.bufsize:
            text = re.sub(r"tune\.bufsize \d+", "tune.bufsize %d" % self.bufsize, text)
        text = self.put_servers(text)
        if not self.routed:
            text = re.sub(r"(?m)^    (filter spoe|http-re\w+ "
                          r"send-spoe-group|use-server|http-request set-var-fmt"
                          r"|http-response wait-for-body) .*\n", "", text)
        elif self.show:
            shown = "".join("    http-response set-header x-kv-%s %%[var(txn.kvroute.%s)]\n"
                            % (n.replace("_", "-"), n)
                            for n in SHOWN)
            text = text.replace("    default-server check", shown + "    default-server check")
        return self.name_vars(self.edit(text) if self.edit else text)

    def name_vars(self, text):
        """Let the agent set the variables that <text> reads, after edits of it."""
        used = sorted(set(re.findall(r"txn\.kvroute\.(\w+)", text)))
        return re.sub(r"(set-var proc\.kvroute_vars) .*", r"\1 str(%s)" % "+".join(used), text)

    def put_servers(self, text):
        for i in range(4):
            if i < len(self.names):
                text = re.sub(r"127\.0\.0\.1:%d\b" % (8001 + i),
                              "127.0.0.1:%d" % self.engines[self.names[i]], text)
            else:
                text = re.sub(r"(?m)^    server s%d .*\n" % (i + 1), "", text)
                text = re.sub(r";s%d=[^;\"]*" % (i + 1), "", text)
        return text

    def start_haproxy(self):
        with open(os.path.join(TOP, "haproxy-conf", self.spoe)) as f:
            spoe = f.read()
        if self.bufsize:
            spoe = re.sub(r"bytes\(0,256000\)", "bytes(0,%d)" % max(1024, self.bufsize - 3072),
                          spoe)
        if self.processing:
            spoe = re.sub(r"timeout (processing|hello) \d+ms", r"timeout \1 " + self.processing,
                          spoe)
        self.write("kvroute.spoe", spoe)
        self.cfg_path = self.write("haproxy.cfg", self.haproxy_cfg())
        self.spawn("haproxy", [self.haproxy_bin, "-W", "-db", "-f", self.cfg_path])
        self.wait_alive("haproxy", "HAProxy", lambda: os.path.exists(self.stats_path)
                        and sum(self.up_servers(p) for p in self.pools)
                        == (self.up_wanted or len(self.names)))
        if self.with_agent and self.routed and self.agent_checked:
            self.wait_alive("haproxy", "HAProxy's check of the agent",
                            lambda: self.up_servers("spoe_agent") == 1)

    def wait_alive(self, name, what, test):
        """As wait_for, but not for a process that has ended."""
        def alive_and():
            status = self.processes[name].poll()
            if status is not None:
                raise RuntimeError("%s ended with status %d instead" % (what, status))
            return test()
        wait_for(what, START_SECONDS, alive_and)

    def end(self, name, sig=signal.SIGTERM, seconds=HANG_SECONDS):
        p = self.processes.pop(name, None)
        if p is None:
            return None
        if p.poll() is None:
            p.send_signal(sig)
        try:
            p.wait(seconds)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
        if p.stdout:
            p.stdout.close()
        return p.returncode

    def stop(self, keep=False):
        for name in ["haproxy", "agent"] + self.names:
            self.end(name, signal.SIGTERM if name != "haproxy" else signal.SIGINT)
        self.ports.close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def show_logs(self):
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".log"):
                with open(os.path.join(self.folder, name), errors="replace") as f:
                    tail = f.read()[-3000:]
                if tail:
                    print("---- %s\n%s" % (name, tail))

    # ---- talking

    def get(self, path, port=None):
        return get(port or self.port, path)

    def post(self, path, body, headers=None, chunked=False, timeout=HANG_SECONDS):
        if not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        body = body.encode() if isinstance(body, str) else body
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        start = time.time()
        try:
            if chunked:
                pieces = (body[i:i + 1000] for i in range(0, len(body), 1000))
                c.request("POST", path, pieces, {"content-type": "application/json",
                                                 **(headers or {})}, encode_chunked=True)
            else:
                c.request("POST", path, body,
                          {"content-type": "application/json", **(headers or {})})
            r = c.getresponse()
            first = r.read(1)
            first_s = time.time() - start
            rest = r.read()
            return Answer(r.status, {k.lower(): v for k, v in r.getheaders()}, first + rest,
                          first_s, time.time() - start)
        finally:
            c.close()

    def chat(self, messages, model="stub", stream=False, max_tokens=4, headers=None, chunked=False,
             **more):
        """Keys in the order OpenAI's client sends them: messages first."""
        body = {"messages": messages, "model": model, "max_tokens": max_tokens, "stream": stream,
                **more}
        return self.post("/v1/chat/completions", body, headers, chunked)

    def control(self, name, query):
        c = http.client.HTTPConnection("127.0.0.1", self.controls[name], timeout=HANG_SECONDS)
        try:
            c.request("POST", "/control?" + query)
            r = c.getresponse()
            return r.status, r.read().decode()
        finally:
            c.close()

    def haproxy_command(self, command):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(HANG_SECONDS)
            s.connect(self.stats_path)
            s.sendall(command.encode() + b"\n")
            out = b""
            while True:
                got = s.recv(65536)
                if not got:
                    return out.decode()
                out += got

    def up_servers(self, backend):
        n = 0
        for line in self.haproxy_command("show stat %s 4 -1" % backend).splitlines():
            fields = line.split(",")
            n += len(fields) > 17 and fields[0] == backend and fields[17].startswith((
                "UP", "no check"))
        return n

    def settled(self):
        """Wait until the agent knows the end of every request. Until its log line has come, a
        request counts as waiting at its server, and the next may go to an idle one."""
        wait_for("log lines", HANG_SECONDS,
                 lambda: self.metrics()["kvroute_ledger_open_requests"] == 0)

    def metrics(self):
        """{'name{labels}': value} of the agent."""
        out = {}
        for line in self.get("/metrics", self.metrics_port)[1].splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                out[name] = float(value)
        return out
