#!/usr/bin/env python3
"""p14_canary.py [-k WORD] - promise 14: no text and no token of a prompt leaves the process.

Unique words are sent in prompts of every kind, tenants, salts and headers, through a real HAProxy
and directly, at log level debug; once with models in text mode, once with tokenizers and a chat
template. Then the test searches for them in the log, in all bytes that the agent sent over its
sockets (compared with the agent's own count), in every page of its HTTP listener, in the output of
kvroutectl, in files (one of them a recording of the traffic) and in its environment. Its writable
memory must not contain them 2 s after the last request, neither as text nor as a run of token ids,
whether a client sent the ids or the agent made them. This includes the segment cache, because it
stores ids in a form that only the text itself can decrypt.
"""
import functools
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import closing

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from agent import BUILD, TOP, Agent, Late, equal, main, request, wait_for  # noqa: E402
from fleet import edited  # noqa: E402
from pf_threats import Fed, words  # noqa: E402
from spop_client import SpopClient  # noqa: E402

# plus ten times the delay of a process that only sleeps, because up to ten timers may follow one
# another
WIPED_SECONDS = 2
WORDS = {"text": "Zq7cnryTextW4", "image": "Zq7cnryImageW4", "tool": "Zq7cnryToolW4",
         "tenant": "Zq7cnryTenantW4",
         "salt": "Zq7cnrySaltW4", "header": "Zq7cnryHeaderW4", "user": "Zq7cnryUserW4",
         "line": "Zq7cnryLineW4"}
# token ids; they arrive as digits, and may be stored as numbers
IDS = list(range(1913770021, 1913770021 + 7 * 300, 7))
NEEDLES = {k: [w.encode(), w.encode("utf-16-le")] for k, w in WORDS.items()}
NEEDLES["ids"] = [str(i).encode()
                  for i in IDS[9:200:38]] + [i.to_bytes(4, "little") for i in IDS[9:200:38]]
# of tests/data/tok, by the model's name
TOKENIZERS = {"m": "llama.tokenizer.json", "plain": "small.tokenizer.json"}
RUN = 8                     # ids in a row, as 32-bit words: too many of one word to be chance


def id_runs():
    """The last ids of each word by each tokenizer, as bytes."""
    for name in TOKENIZERS.values():
        for word in (WORDS["text"], WORDS["tool"]):
            out = subprocess.run([os.path.join(BUILD, "kvroutectl"), "tokenize", "--tokenizer",
                                  os.path.join(TOP, "tests/data/tok", name)],
                                 input=b" " + word.encode(), capture_output=True, check=True).stdout
            ids = [int(i) for i in out.split()]
            assert len(ids) > RUN, "too few ids: %r" % ids
            yield struct.pack("<%dI" % RUN, *ids[-RUN:])


NEEDLES["runs"] = list(id_runs())
# one of these is in each of them
COMMON = NEEDLES["runs"] + [b"Zq7cnry", "Zq7cnry".encode("utf-16-le"),
                            b"191377"] + NEEDLES["ids"][-5:]
CASES = []
RECORDING = "traffic.jsonl"


def case(f):
    CASES.append(f)
    return f


def hits(data):
    """Return {kind: number of occurrences in <data>}, without zeros."""
    data = data.encode() if isinstance(data, str) else data
    if not any(c in data for c in COMMON):
        return {}
    found = {kind: sum(data.count(n) for n in needles) for kind, needles in NEEDLES.items()}
    return {kind: n for kind, n in found.items() if n}


def memory_hits(pid):
    """Search the writable memory of process <pid>."""
    found = {}
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as mem:
        for line in maps:
            m = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line)
            if "w" not in m.group(3):
                continue
            at, end = int(m.group(1), 16), int(m.group(2), 16)
            mem.seek(at)
            try:
                for kind, n in hits(mem.read(end - at)).items():
                    found[kind] = found.get(kind, 0) + n
            except OSError:
                pass
    return found


def open_files(pid):
    held = []
    for d in os.listdir("/proc/%d/fd" % pid):
        try:
            held.append(os.readlink("/proc/%d/fd/%s" % (pid, d)))
        except FileNotFoundError:       # closed meanwhile
            pass
    return held


class Wire:
    """A proxy between HAProxy and the agent that stores the agent's bytes."""

    def __init__(self, port, to):
        self.to, self.said, self.lock = to, bytearray(), threading.Lock()
        self.s = socket.create_server(("127.0.0.1", port), backlog=128)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                c, _ = self.s.accept()
                a = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                return
            for s in (c, a):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.copy, args=(c, a, False), daemon=True).start()
            threading.Thread(target=self.copy, args=(a, c, True), daemon=True).start()

    def copy(self, frm, to, keep):
        try:
            while True:
                data = frm.recv(65536)
                if not data:
                    break
                if keep:
                    with self.lock:
                        self.said += data
                to.sendall(data)
        except OSError:
            pass
        for s, how in ((to, socket.SHUT_WR), (frm, socket.SHUT_RD)):
            try:
                s.shutdown(how)
            except OSError:
                pass

    def end(self):
        self.s.close()


class Tapped(Fed):
    """Take tenants and models from headers, so that they can carry words."""

    def __init__(self, **kw):
        super().__init__(edit=lambda text: edited(text, "    unique-id-format",
                                                        "    http-request set-var(txn.tenant) "
                                                        "req.hdr(x-tenant)\n"
                                                        "    http-request set-var(txn.session) "
                                                        "req.hdr(x-session)\n    unique-id-format"),
                         **kw)
        self.inner_port = self.ports.take()
        self.spop_address = "127.0.0.1:%d" % self.inner_port

    def start(self):
        self.wire = Wire(self.agent_port, self.inner_port)
        self.wired = "127.0.0.1:%d" % self.agent_port
        super().start()

    def stop(self, keep=False):
        super().stop(keep)
        if hasattr(self, "wire"):
            self.wire.end()

    @property
    def pid(self):
        return self.processes["agent"].pid


def prompts():
    """Return paths and bodies of all kinds that carry a word."""
    w = WORDS
    text = " ".join([w["text"], words("p", 40)] * 12)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + w["image"] * 30}}
    tools = [{"type": "function",
              "function": {"name": "f", "description": w["tool"] + words("d", 50),
                           "parameters": {"x": w["tool"]}}}]
    user = lambda content: {"role": "user", "content": content}
    bodies = [
        {"messages": [{"role": "system", "content": text}, user(text)], "model": "m"},
        {"messages": [user([{"type": "text", "text": text}, image])], "model": "m", "stream": True},
        {"messages": [user(text)], "model": "m", "tools": tools, "user": w["user"],
         "metadata": {"user_id": w["user"]}},
        {"messages": [user(text)], "model": "m", "cache_salt": w["salt"]},
        {"messages": [user("x"),
                      {"role": "assistant",
                       "tool_calls": [{"function": {"name": w["tool"],
                                                    "arguments": json.dumps({"q": text})}}]}]},
        {"messages": text}, {"messages": [text]}, {text: text},
        {"messages": [{"role": text, "content": 5}], "model": "m"},
        {"messages": [user(text * 700)], "model": "m"},       # longer than HAProxy shows
        {"messages": [user(text)] * 3, "tools": tools},
    ]
    raw = [text.encode(), b'{"messages":"' + text.encode(),
           json.dumps(bodies[0]).encode()[:-30] + b"\0\1}{", text.encode("utf-16-le"),
           json.dumps(bodies[0]).encode().replace(b"c", b"\\u0063")]
    for b in [json.dumps(b).encode() for b in bodies] + raw:
        yield "/v1/chat/completions", b
    # fields that the chat template uses
    turns = [user(text), {"role": "assistant", "content": text}, user(text)]
    long = w["text"] * 3000
    for b in [turns, turns[:1] + [{"role": "assistant", "content": text * 50}] + turns[2:],
              [user(long)], [user(text)] + turns[1:2] * 2]:
        yield "/v1/chat/completions", json.dumps({"messages": b, "model": "m",
                                                  "tools": tools}).encode()
        yield "/v1/chat/completions", json.dumps({"model": "m", "messages": b}).encode()[:-40]
    for body in [{"model": "plain", "prompt": text}, {"model": "plain", "prompt": [text, long]},
                 {"model": "m", "prompt": text * 60},
                 {"model": "m",
                  "prompt": "".join(chr(0x4e00 + i % 997) for i in range(9000)) + text}]:
        yield "/v1/completions", json.dumps(body, ensure_ascii=False).encode()
    for path, body in [("/v1/completions", {"prompt": IDS, "model": "m"}),
                       ("/v1/completions", {"prompt": text, "model": "m"}),
                       ("/v1/embeddings", {"input": [text, text]}),
                       ("/v1/responses", {"input": text, "instructions": text}),
                       ("/v1/messages", {"system": text, "messages": [user(text)], "tools": tools}),
                       ("/generate", {"input_ids": IDS, "text": text}),
                       ("/generate", {"text": text, "image_data": w["image"] * 30})]:
        yield path + "?key=" + w["header"], json.dumps(body).encode()


def through_haproxy(f):
    n = 0
    for n, (path, body) in enumerate(prompts()):
        headers = {"x-uid": "u%d" % n, "authorization": "Bearer " + WORDS["header"],
                   "x-other": WORDS["header"] * 20}
        if n % 3:
            headers.update({"x-tenant": WORDS["tenant"], "x-session": WORDS["header"]})
        f.post(path, body, headers)
    return n + 1


def by_hand(f):
    """Send messages that HAProxy would not send: arguments of wrong types, unknown names,
    fragments, slices."""
    text, n = WORDS["text"] + words("h", 200), 0
    with SpopClient(f.wired, capabilities="fragmentation,pipelining") as c:
        for body in [b[:9000] for _, b in prompts()]:
            n += 1
            args = request("h%d" % n, body, tenant=WORDS["tenant"], session=WORDS["header"])
            c.notify("route", args, fragment=700 if n % 2 else None)
            c.notify(text[:100], {text[:100]: text, "uid": text})
            c.notify("done", {"uid": "h%d" % n, "srv": "nowhere", "be": "nowhere", "st": 200})
            c.notify("first", {"uid": WORDS["tenant"], "srv": 5, "ct": WORDS["header"]})
        body = json.dumps({"messages": [{"role": "user", "content": text}], "model": "m"}).encode()
        for i in range(3):      # its last slice never comes
            c.notify("route" if i == 0 else "route-%d" % i,
                     request("sliced", body[400 * i:400 * i + 400], seq=i, blen=len(body),
                             tenant=WORDS["tenant"]))
    return n


def noise(f):
    """Send invalid data to every port, and return the answers."""
    back = b""
    text = (WORDS["text"] + " " + WORDS["header"] + "\n").encode()
    http = lambda line: line + b" HTTP/1.1\r\nHost: " + WORDS[
        "header"].encode() + b"\r\nX: " + text.strip() + b"\r\n\r\n" + text
    for port in (f.agent_port, f.feed_port, f.metrics_port):
        for data in (text, http(b"GET /" + text.split()[0]), http(b"POST /metrics"),
                     http(b"GET /metrics?" + text.split()[1]), http(b"GET /live"),
                     http(b"GET /ready"), b"\0\0\1\0\1\0\0\0\1\0\0" + text, b"\xff\xff" + text):
            with socket.create_connection(("127.0.0.1", port), 5) as s:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                if port == f.feed_port:
                    continue
                try:
                    while True:
                        got = s.recv(65536)
                        if not got:
                            break
                        back += got
                except OSError:
                    pass
    w = WORDS["line"]
    lines = [{"uid": w, "be": w, "srv": w, "st": 200, "ts": "--"}, {"uid": "u1", "path": w * 100},
             {w: w}, {"uid": [w]}]
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with socket.create_connection(("127.0.0.1", f.feed_port), 5) as s:
        for line in [json.dumps(x).encode() for x in lines] + [w.encode() * 3]:
            s.sendall(line[:len(line) // 2])
            time.sleep(0.02)
            s.sendall(line[len(line) // 2:] + b"\n")
            udp.sendto(line, ("127.0.0.1", f.feed_port))
        s.sendall(b'{"uid":"' + w.encode())
        wait_for("the lines", 10, lambda: f.metrics()["kvroute_feed_datagrams_total"] >= 5)
    udp.close()
    return back


def wiped(pid):
    """Return the seconds until the first search of the memory that found no word."""
    start, late = time.monotonic(), Late()
    try:
        while True:
            begun = time.monotonic() - start
            found = memory_hits(pid)
            if not found:
                return begun
            assert begun < WIPED_SECONDS + 10 * late.most, (
                "in memory %.1f s after the last request: %r") % (begun, found)
    finally:
        late.over = True


CONF = "log_level: debug\nindex: {max_bytes: 16MiB}\nsegment_cache: {max_bytes: 4MiB}"


@case
def no_prompt_leaves_the_agent():
    f = Tapped(agent_conf=CONF)
    f.agent_conf += "\nrecord: {file: %s, block_tokens: 16}" % os.path.join(f.folder, RECORDING)
    with f:
        no_prompt_text_leaves_the_process(f, ["key", RECORDING])


def with_models(f):
    """Add tokenizers and a chat template to the configuration."""
    models = []
    for name, tokenizer in TOKENIZERS.items():
        path = os.path.join(f.folder, "models", name)
        os.makedirs(path)
        shutil.copy(os.path.join(TOP, "tests/data/tok", tokenizer),
                    os.path.join(path, "tokenizer.json"))
        models.append("{name: %s, mode: tokens, tokenizer: %s/tokenizer.json}" % (name, name))
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        shutil.copy(os.path.join(TOP, "tests/data/tok", "llama." + name),
                    os.path.join(f.folder, "models/m", name))
    f.agent_conf = CONF + "\nmodels_dir: %s/models\nmodels: [%s]" % (f.folder, ", ".join(models))


@case
def nor_with_a_tokenizer():
    f = Tapped(agent_conf=CONF)
    with_models(f)
    with f:
        no_prompt_text_leaves_the_process(f, ["key", "models"])


def model_is_dropped(f):
    """A reload without the model empties the segment cache."""
    f.agent_conf = CONF + "\nmodels_dir: %s/models" % f.folder
    f.write("kvroute.yaml", f.agent_yaml())
    f.processes["agent"].send_signal(signal.SIGHUP)
    wait_for("the reload", 10, lambda: f.metrics()["kvroute_segment_cache_bytes"] == 0)


def no_prompt_text_leaves_the_process(f, made):
    """Send prompts and search every output; <made>: files that the agent may write besides its
    logs."""
    n = through_haproxy(f) + by_hand(f)
    came_back = noise(f)
    pages = "".join("%d\n%s" % f.get(p, f.metrics_port)
                    for p in ("/metrics", "/live", "/ready", "/", "/metrics/" + WORDS["header"],
                                      "/decisions?n=4096", "/decisions?n=4096&format=lines"))
    shown = [pages.count(w) for w in ("\"decision\":", "\"hash_ids\":")]
    assert min(shown) > 20, "too few decisions: %r" % shown
    m = f.metrics()
    sent, log = bytes(f.wire.said), f.log()
    print("      %d prompts; the agent sent %d bytes to HAProxy and others, %d of HTTP, and logged "
          "%d" % (
        n, len(sent), len(pages) + len(came_back), len(log)))
    # checks of HAProxy add to both at any time
    wait_for("as many bytes seen as sent", 20, lambda: f.metrics()[
        "kvroute_spop_sent_bytes_total"] == len(f.wire.said))
    assert m["kvroute_spop_notifies_total"] > 100 and m[
        "kvroute_prompt_tokens_total"] > 10000, "too little was asked"
    assert "level=debug" in log or log.count("\n") > 5, "there is nothing in the log"
    with open("/proc/%d/environ" % f.pid, "rb") as e, open("/proc/%d/cmdline" % f.pid, "rb") as c:
        places = {"the log": log, "what it sent": sent, "HTTP": pages,
                  "answers to noise": came_back,
                  "environ": e.read(), "cmdline": c.read()}
    files = [x for x in os.listdir(f.folder)
             if x not in ("admin.sock", "kvroute.spoe", "kvroute.yaml", "haproxy.cfg")
             and not x.endswith(".log")]
    equal(sorted(files), made, "files in the state directory")
    with open(os.path.join(f.folder, "key"), "rb") as k:
        places["the key file"] = k.read()
    held = open_files(f.pid)
    equal([h for h in held
           if not re.match(r"(socket|anon_inode|pipe):|/dev/null$|/proc/|" + re.escape(f.folder)
                           + r"/(agent\.log|" + re.escape(RECORDING) + ")$", h)], [],
          "other files it has open")
    equal({where: hits(what) for where, what in places.items() if hits(what)}, {}, "words found")
    in_memory(f)
    if "models" in made:
        m = f.metrics()
        used = {k: int(m["kvroute_" + k])
                for k in ("tokens_total", "segment_cache_hit_tokens_total", "segment_cache_bytes")}
        print("      " + ", ".join("%s %d" % kv for kv in used.items()))
        assert min(used.values()) > 1000, "tokens were not made, or not kept"
        model_is_dropped(f)
    equal(f.end("agent"), 0, "exit status")
    equal(hits(f.log()), {}, "words in the log at the end")
    if RECORDING in made:
        with open(os.path.join(f.folder, RECORDING), "rb") as r:
            lines = r.read()
        shown = sum('"hash_ids":[1' in json.dumps(json.loads(line), separators=(",", ":"))
                    for line in lines.splitlines())
        print("      %d requests recorded, %d of them begin with the first block"
              % (lines.count(b"\n"), shown))
        assert lines.count(b"\n") > 40 and shown > 5, "too little was recorded"
        equal(hits(lines), {}, "words in the recording")


def in_memory(f):
    half = SpopClient(f.wired)
    frame = b"".join(w.encode()
                     for w in WORDS.values()) + b"".join(NEEDLES["ids"] + NEEDLES["runs"])
    # half of a NOTIFY: the agent must keep it
    half.send_raw((9000).to_bytes(4, "big") + b"\3\0\0\0\1\1\1" + frame)
    feed = socket.create_connection(("127.0.0.1", f.feed_port), 5)
    feed.sendall(b'{"uid":"' + WORDS["line"].encode())                         # and half of a line
    time.sleep(0.1)
    try:
        wait_for("the half frame to be seen", 5, lambda: set(memory_hits(f.pid)) == set(NEEDLES))
    except PermissionError:
        print("skipped: the agent's memory, which only root may read")
        return
    through_haproxy(f)
    by_hand(f)
    half.close()
    feed.sendall(b'"}\n')       # it stays open
    print("      in memory while half a frame waits; then nothing: clean %.2f s after the last "
          "request" % wiped(f.pid))
    feed.close()


# a small memory is searched fast, so that questions do not pause
SMALL = ("index: {max_bytes: 16MiB}\nsegment_cache: {max_bytes: 0}\n"
         "turns: {max_bytes: 0}")


def long_prompt(c):
    """Send a prompt of about 10 KB, and wait for its ACK."""
    messages = [{"role": "user", "content": (WORDS["text"] + " ") * 700}]
    c.notify("route", request("long", json.dumps({"messages": messages, "model": "m"}),
                              tenant="A"))


def text_hits(pid):
    return memory_hits(pid).get("text", 0)


def after_a_prompt(f):
    """Call <f> with an agent that has just answered a long prompt, and another client of it."""
    @functools.wraps(f)
    def run():
        with Agent(agent_conf=SMALL, threads=1) as a, a.client() as c, closing(a.client()) as other:
            try:
                text_hits(a.pid)
            except PermissionError:
                print("skipped: the agent's memory, which only root may read")
                return
            long_prompt(c)
            f(a, other)
    return run


@case
@after_a_prompt
def a_frame_that_waits_keeps_no_prompt_of_others(a, waiting):
    """A connection that has part of a frame borrowed its buffer from the one before."""
    waiting.send_raw((8192).to_bytes(4, "big") + b"\3")
    print("      clean %.2f s after the prompt" % wiped(a.pid))


@case
@after_a_prompt
def nor_do_spare_buffers_of_a_busy_worker(a, other):
    """Short frames overwrite only the start of a buffer, and the worker is never quiet."""
    asking = os.fork()      # a thread would pause during searches
    if asking == 0:
        try:
            while True:
                other.notify("done", {"uid": "x", "srv": "s1", "be": "llm", "st": 200})
                time.sleep(0.02)
        finally:
            os._exit(0)
    try:
        print("      clean %.2f s after the prompt, while others ask" % wiped(a.pid))
    finally:
        os.kill(asking, signal.SIGKILL)
        os.waitpid(asking, 0)


@case
def kvroutectl_shows_no_text():
    f = Agent()
    try:
        path = f.write("kvroute.yaml", f.agent_yaml())
        shown = 0
        for at, body in prompts():
            p = subprocess.run([os.path.join(BUILD, "kvroutectl"), "pages", "-f", path, "--path",
                                at.split("?")[0], "--keys"], input=body,
                               capture_output=True)
            shown += b"pages " in p.stdout
            equal(hits(p.stdout + p.stderr), {},
                  "words in what kvroutectl says of %s %s..." % (at, body[:60]))
        print("      pages of %d bodies shown" % shown)
        assert shown > 8, "too few bodies had pages"
    finally:
        f.stop()


def as_its_user(uid, what):
    """Return the errno of a process of user <uid> that reads file <what>; 0: it can."""
    pid = os.fork()
    if pid == 0:
        try:
            if os.getuid() == 0:
                os.setgid(uid)
                os.setuid(uid)
            with open(what, "rb") as f:
                f.read(1)
            os._exit(0)
        except OSError as e:
            os._exit(e.errno)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@case
def others_cannot_read_its_memory():
    """No core file, and no access for other processes of its user. Without the sandbox they have
    access, which shows that the test works."""
    uid = 65534 if os.getuid() == 0 else os.getuid()

    def drop():
        if os.getuid() == 0:
            os.setgid(uid)
            os.setuid(uid)
    for argv, closed in (([], True), (["--no-sandbox"], False)):
        a = Agent(argv=argv, before=drop)
        os.chmod(a.folder, 0o755)
        if os.getuid() == 0:
            os.chown(a.folder, uid, uid)
        with a:
            with open("/proc/%d/limits" % a.pid) as f:
                core = re.search(r"Max core file size +(\S+) +(\S+)", f.read()).groups()
            seen = {what: as_its_user(uid, "/proc/%d/%s" % (a.pid, what)) == 0
                    for what in ("environ", "maps", "auxv")}
            if closed:
                equal(core, ("0", "0"), "limit of cores")
            if os.getuid() == 0:
                equal(os.stat("/proc/%d/environ" % a.pid).st_uid, 0 if closed else uid,
                      "owner of its files in /proc")
            equal(seen, {what: not closed for what in seen}, "what others of its user can read")
            equal(a.end("agent"), 0, "exit status")


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
