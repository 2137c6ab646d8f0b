#!/usr/bin/env python3
"""Tests of the stub engine and the load generator, from outside: real processes, real sockets.

usage: test_stub_engine.py [DIR]     DIR holds stub_engine and chat_load (build/release/tests/tools)

Every test starts its own engine on a free port, and every wait has a limit. Times are simulated
work, so they are compared with wide margins: a busy machine makes things slower, never faster.
"""
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

DIR = sys.argv[1] if len(sys.argv) > 1 else "build/release/tests/tools"
BLOCK = 16
HANG = 180      # seconds: a longer wait is a hang, even on a busy machine
FAST = ["--prefill-tps", "1000000", "--decode-ms", "1"]


class Engine:
    """One stub_engine process, ended with the block it belongs to."""

    def __init__(self, *args, listen=("127.0.0.1:0",)):
        cmd = [os.path.join(DIR, "stub_engine")]
        for a in listen:
            cmd += ["--listen", a]
        self.proc = subprocess.Popen(cmd + list(args), stdout=subprocess.PIPE, text=True)
        words = dict(reversed(w.split("=", 1)) for w in self.proc.stdout.readline().split()[1:])
        self.addresses = {kind: addr for addr, kind in words.items()}
        self.port = int(next(a for a, k in words.items() if k == "listen" and "@" not in a)
                        .rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
        code = self.proc.wait(timeout=HANG)
        self.proc.stdout.close()
        if exc[0] is None:
            check(code == 0, "engine left with status %d" % code)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG)

    def call(self, method, path, body=None, headers=None, chunked=False):
        c = self.connect()
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if chunked:
            body = [body[i:i + 7].encode() for i in range(0, len(body), 7)]
        c.request(method, path, body, headers or {}, encode_chunked=chunked)
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return r, text

    def post(self, path, body, **kw):
        r, text = self.call("POST", path, body, **kw)
        check(r.status == 200, "status %d: %s" % (r.status, text))
        return json.loads(text)

    def chat(self, messages, max_tokens=4, **more):
        return self.post("/v1/chat/completions",
                         dict(messages=messages, model="m", max_tokens=max_tokens, **more))

    def control(self, query=None):
        r, text = self.call("POST" if query else "GET", "/control" + ("?" + query if query else ""))
        check(r.status == 200, text)
        return json.loads(text)

    def raw(self, data, timeout=HANG):
        """Send bytes, and return the answer until the end of the stream, or until no byte comes for
        <timeout>."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as s:
            got = b""
            try:
                s.sendall(data)
                while True:
                    part = s.recv(65536)
                    if not part:
                        return got
                    got += part
            except (socket.timeout, ConnectionError):
                return got


def answers(e):
    try:
        socket.create_connection(("127.0.0.1", e.port), timeout=HANG).close()
        return True
    except ConnectionRefusedError:
        return False


def check(good, why):
    if not good:
        raise AssertionError(why)


def equal(got, want, what=""):
    check(got == want, "%s: got %r, want %r" % (what, got, want))


def until(seen, seconds=HANG):
    """Wait until <seen()> is true."""
    end = time.monotonic() + seconds
    while not seen():
        check(time.monotonic() < end, "waited in vain")
        time.sleep(0.01)


def words(n, seed=0):
    r = random.Random(seed)
    return "".join(r.choice("abcdefghij klmnop") for _ in range(n))


def user(text):
    return {"role": "user", "content": text}


def usage(answer):
    u = answer["usage"]
    return u["prompt_tokens"], u["prompt_tokens_details"]["cached_tokens"]


def may_hit(n):
    return (n - 1) // BLOCK * BLOCK


def events(text):
    """The data of a whole event stream: JSON values, and "[DONE]"."""
    check(text.endswith("\n\n"), "stream ends inside an event")
    data = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    return [d if d == "[DONE]" else json.loads(d) for d in data]


# ---- answers ----

def test_health_and_models():
    with Engine("--name", "e7", "--model", "big") as e:
        r, _ = e.call("GET", "/health")
        equal((r.status, r.getheader("x-engine")), (200, "e7"), "health")
        _, text = e.call("GET", "/v1/models")
        equal(json.loads(text)["data"][0]["id"], "big", "model")
        equal(e.call("GET", "/nowhere")[0].status, 404, "unknown path")
        equal(e.call("GET", "/v1/chat/completions")[0].status, 405, "wrong method")
        equal(e.call("HEAD", "/health")[0].status, 200, "HEAD")


def test_chat_whole_and_streamed_say_the_same():
    body = {"messages": [user(words(300))], "model": "m", "max_tokens": 5}
    with Engine(*FAST) as e:
        whole = e.post("/v1/chat/completions", body)
        text = whole["choices"][0]["message"]["content"]
        equal(len(text), 20, "5 tokens of 4 bytes")
        r, stream = e.call("POST", "/v1/chat/completions", dict(body, stream=True))
        check(r.getheader("content-type").startswith("text/event-stream"), "content type")
        got = events(stream)
        equal(got[-1], "[DONE]", "last event")
        deltas = [c["choices"][0]["delta"].get("content", "") for c in got[:-1] if c["choices"]]
        equal("".join(deltas), text, "streamed text")
        equal(len([d for d in deltas if d]), 5, "one event a token")
        equal(usage(got[-2]), (usage(whole)[0], may_hit(usage(whole)[0])), "usage at the end")


def test_every_api_answers():
    cases = [
        ("/v1/completions", {"prompt": "a b c"}, lambda a: a["choices"][0]["text"]),
        ("/v1/completions", {"prompt": ["a b", "c"]}, lambda a: a["choices"][1]["text"]),
        ("/v1/completions", {"prompt": [1, 2, 3]}, lambda a: a["choices"][0]["text"]),
        ("/v1/completions", {"prompt": [[1], [2]]}, lambda a: a["choices"][1]["text"]),
        ("/v1/responses", {"input": "hi"}, lambda a: a["output"][0]["content"][0]["text"]),
        ("/v1/messages", {"messages": [user("hi")], "system": "be"},
         lambda a: a["content"][0]["text"]),
        ("/v1/embeddings", {"input": ["hi", "ho"]}, lambda a: a["data"][1]["embedding"]),
        ("/generate", {"text": "hi"}, lambda a: a["text"]),
        ("/generate", {"input_ids": [[5, 6], [7]]}, lambda a: a[1]["text"]),
    ]
    with Engine(*FAST) as e:
        for path, body, look in cases:
            check(look(e.post(path, body)), "%s gave nothing for %r" % (path, body))


def test_streams_of_other_apis_end_well():
    cases = [
        ("/v1/completions", {"prompt": "a b c"}, lambda last: last == "[DONE]"),
        ("/generate", {"text": "a b c"}, lambda last: last == "[DONE]"),
        ("/v1/responses", {"input": "a"}, lambda last: last["type"] == "response.completed"),
        ("/v1/messages", {"messages": [user("a")]}, lambda last: last["type"] == "message_stop"),
    ]
    with Engine(*FAST) as e:
        for path, body, good in cases:
            _, text = e.call("POST", path, dict(body, stream=True))
            check(good(events(text)[-1]), "%s ends with %r" % (path, events(text)[-1]))


def test_bad_requests_are_said_to_be():
    cases = [b"", b"not json", b"[]", b"{}", b'{"messages":[]}', b'{"messages":"x"}',
             b'{"messages":[1]}',
             b'{"messages":[{"role":"user","content":"x"}]', b'{"messages":[{}],"n":2}',
             b"[" * 100000, b'{"a":' * 1000, b'"\\ud800', b'{"messages":[{"role":"user"}]}}']
    with Engine(*FAST) as e:
        for body in cases:
            r, text = e.call("POST", "/v1/chat/completions", body)
            equal(r.status, 400, body[:40])
            check(json.loads(text)["error"]["message"], "no reason for %r" % body[:40])
        for ids in ([-1], [2**32], ["a", 1], [[]], []):
            equal(e.call("POST", "/v1/completions", {"prompt": ids})[0].status, 400, repr(ids))
        equal(e.control()["bad"], len(cases) + 5, "counted")
        e.chat([user("still well")])


# ---- the cache ----

def test_second_identical_prompt_is_cached():
    with Engine(*FAST) as e:
        for n in (1, 50, 64, 200, 1000):
            m = [user(words(n, n))]
            prompt, cached = usage(e.chat(m))
            equal(cached, 0, "first time, %d bytes" % n)
            equal(usage(e.chat(m)), (prompt, may_hit(prompt)), "second time, %d bytes" % n)


def test_last_token_is_always_computed():
    with Engine(*FAST) as e:
        for n, want in ((BLOCK - 1, 0), (BLOCK, 0), (BLOCK + 1, BLOCK), (2 * BLOCK, BLOCK),
                        (2 * BLOCK + 1, 2 * BLOCK)):
            body = {"prompt": [n] * n, "max_tokens": 1}
            e.post("/v1/completions", body)
            equal(usage(e.post("/v1/completions", body)), (n, want), "%d ids" % n)


def test_a_conversation_grows_and_its_answers_are_cached_too():
    with Engine(*FAST) as e:
        m, before = [{"role": "system", "content": words(500, 1)}], 0
        for turn in range(5):
            m.append(user(words(90, turn + 2)))
            a = e.chat(m, max_tokens=40)
            prompt, cached = usage(a)
            # all of the last prompt and of its answer but the token that never entered the cache
            equal(cached, (before + 39) // BLOCK * BLOCK if turn else 0, "turn %d" % turn)
            before = prompt
            m.append({"role": "assistant", "content": a["choices"][0]["message"]["content"]})


def test_model_salt_and_first_words_keep_prompts_apart():
    with Engine(*FAST) as e:
        m = [user(words(400))]
        e.chat(m)
        equal(usage(e.chat(m, cache_salt="a"))[1], 0, "other salt")
        other = e.post("/v1/chat/completions", {"messages": m, "model": "m2", "max_tokens": 1})
        equal(usage(other)[1], 0, "other model")
        equal(usage(e.chat([user("X" + m[0]["content"])]))[1], 0, "shifted by a byte")
        check(usage(e.chat(m))[1] > 0, "the same again")


def test_key_order_and_split_text_do_not_matter():
    with Engine(*FAST) as e:
        t = words(400)
        e.chat([user(t)])
        parts = [{"type": "text", "text": t[:101]}, {"type": "text", "text": t[101:]}]
        body = '{"stream":false,"max_tokens":1,"messages":%s,"model":"m"}' % json.dumps(
            [user(parts)])
        prompt, cached = usage(e.post("/v1/chat/completions", body))
        equal(cached, may_hit(prompt), "parts, messages first")


def test_least_recently_used_is_forgotten_first():
    ids = [[k] * (10 * BLOCK + 1) for k in range(4)]

    def ask(e, k):
        return usage(e.post("/v1/completions", {"prompt": ids[k], "max_tokens": 1}))[1]

    with Engine("--blocks", "33", *FAST) as e:      # three prompts of 10 blocks and a part each
        for k in (0, 1, 2):
            equal(ask(e, k), 0, "new")
        equal(ask(e, 0), 10 * BLOCK, "0 is used again")
        equal(ask(e, 3), 0, "3 takes the room of 1")
        equal(ask(e, 0), 10 * BLOCK, "0 is kept")
        equal(ask(e, 2), 10 * BLOCK, "2 is kept")
        check(ask(e, 1) < 10 * BLOCK, "1 is gone, from its end")
        check(e.control()["evicted"] > 0, "evictions are counted")


def test_too_long_a_prompt_is_refused_and_the_rest_goes_on():
    with Engine("--blocks", "8", *FAST) as e:
        r, _ = e.call("POST", "/v1/completions", {"prompt": [1] * (8 * BLOCK), "max_tokens": 1})
        equal(r.status, 400, "one token too many")
        r, _ = e.call("POST", "/v1/completions", {"prompt": [[1] * 20, [2] * 500], "max_tokens": 1})
        equal(r.status, 400, "the second of two")
        equal(usage(e.post("/v1/completions", {"prompt": [1] * (8 * BLOCK - 1), "max_tokens": 1})),
              (8 * BLOCK - 1, 0), "just fits")
        s = e.control()
        equal((s["running"], s["waiting"], s["blocks_free"]), (0, 0, 8), "nothing is held")


# ---- time, queue, batch ----

def test_prefill_takes_time_unless_cached():
    with Engine("--prefill-tps", "2000", "--decode-ms", "0") as e:
        body = {"prompt": list(range(1001)), "max_tokens": 1}
        t0 = time.monotonic()
        e.post("/v1/completions", body)
        t1 = time.monotonic()
        cached = []
        for _ in range(10):     # a busy machine may make one of them slow, not all
            t2 = time.monotonic()
            e.post("/v1/completions", body)
            cached.append(time.monotonic() - t2)
        check(t1 - t0 > 0.45, "1001 tokens at 2000 a second took %.3f s" % (t1 - t0))
        check(min(cached) < (t1 - t0) / 2, "cached took %.3f s at best" % min(cached))


def busy(e):
    s = e.control()
    return s["running"] + s["waiting"]


def open_streams(e, n, max_tokens):
    """One after the other: what arrives in one turn of the engine's loop has no order."""
    conns = []
    for k in range(n):
        c = e.connect()
        c.request("POST", "/v1/completions",
                  json.dumps({"prompt": [k + 1] * 20, "max_tokens": max_tokens, "stream": True}))
        conns.append(c)
        until(lambda: busy(e) == (k + 1))
    return conns


def test_queue_of_one_place():
    with Engine("--max-seqs", "1", "--decode-ms", "20") as e:
        t0, ends = time.monotonic(), []
        conns = open_streams(e, 3, 10)
        until(lambda: (e.control()["running"], e.control()["waiting"]) == (1, 2))
        _, text = e.call("GET", "/metrics")
        check('vllm:num_requests_waiting{engine="0",model_name="stub"} 2\n' in text,
              "waiting metric")
        for c in conns:
            c.getresponse().read()
            ends.append(time.monotonic() - t0)
        check(ends[0] < ends[1] < ends[2], "one after the other: %r" % ends)
        check(ends[2] > 0.52, "three times 9 steps of 20 ms, one after the other: %r" % ends)
        equal(e.control()["finished"], 3, "finished")


def test_a_batch_shares_its_steps():
    with Engine("--decode-ms", "20", "--decode-seq-ms", "0") as e:
        t0 = time.monotonic()
        for c in open_streams(e, 20, 30):
            equal(c.getresponse().read().count(b"data: "), 32, "30 tokens, usage, end")
        took = time.monotonic() - t0
        check(took > 0.57, "20 sequences side by side took %.3f s" % took)
        check(e.control()["steps"] < 300, "steps: as many as one behind the other would take")


def test_headers_early_and_late():
    with Engine("--prefill-tps", "1", "--headers-early") as e:
        (c,) = open_streams(e, 1, 1)
        c.getresponse()         # 20 s before the first token
        equal(e.control()["finished"], 0, "finished")
        c.close()
    with Engine("--prefill-tps", "25") as e:
        t0 = time.monotonic()
        (c,) = open_streams(e, 1, 1)
        c.getresponse().read()
        check(time.monotonic() - t0 > 0.75, "headers before 20 tokens at 25 a second")


# ---- control ----

def test_slow_fail_and_restore():
    with Engine("--prefill-tps", "1000000", "--decode-ms", "5") as e:
        e.control("slow=20")
        t0 = time.monotonic()
        e.chat([user("a")])
        check(time.monotonic() - t0 > 0.25, "3 steps of 100 ms")
        e.control("fail=503&slow=1")
        equal(e.call("POST", "/v1/completions", {"prompt": "x"})[0].status, 503, "fail=503")
        equal(e.call("GET", "/health")[0].status, 200, "health is another matter")
        r, text = e.call("POST", "/control", {"fail": 429})
        equal((r.status, json.loads(text)["fail"]), (200, 429), "as JSON")
        equal(e.call("POST", "/v1/completions", {"prompt": "x"})[0].status, 429, "fail=429")
        s = e.control("restore")
        equal((s["fail"], s["slow"], s["failed"]), (0, 1, 2), "restored; counted")
        e.chat([user("a")])


def test_orders_that_make_no_sense_change_nothing():
    with Engine(*FAST) as e:
        for q in ("slow=-1", "slow=x", "slow=nan", "fail=200", "fail=600", "health=odd",
                  "dead=maybe",
                  "dead=refuse", "nonsense=1", "reset=all", "stall=1&drop=-1"):
            equal(e.call("POST", "/control?" + q)[0].status, 400, q)
        for body in ("x", "[]", '{"fail":"often"}'):
            equal(e.call("POST", "/control", body)[0].status, 400, body)
        s = e.control()
        equal((s["slow"], s["fail"], s["stall"], s["health"]), (1, 0, False, "ok"), "state")


def test_stall_health_drop_and_reset():
    with Engine(*FAST) as e:
        e.control("stall=1&health=hang")
        for method, path, body in (("POST", "/v1/completions", b'{"prompt":"x"}'),
                                   ("GET", "/health", b"")):
            got = e.raw(b"%s %s HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" %
                        (method.encode(), path.encode(), len(body), body), timeout=0.3)
            equal(got, b"", "%s while stalled" % path)
        e.control("stall=0&health=fail")
        equal(e.call("GET", "/health")[0].status, 503, "health=fail")
        until(lambda: e.control()["aborted"] == 1)
        e.control("restore")
        m = [user(words(400))]
        e.chat(m)
        check(usage(e.chat(m))[1] > 0, "cached")
        equal(e.control("reset=cache")["blocks_cached"], 0, "reset")
        equal(usage(e.chat(m))[1], 0, "cached after reset")
        e.control("drop=3")
        try:
            _, text = e.call("POST", "/v1/chat/completions",
                             {"messages": m, "max_tokens": 9, "stream": True})
            check(False, "a cut stream looked whole: " + text)
        except http.client.IncompleteRead as cut:
            equal(cut.partial.count(b'"delta":{"content"'), 3, "tokens before the cut")
        equal(e.control()["dropped"], 1, "dropped")


def test_dead_for_a_while_and_for_good():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "control")
        with Engine("--control", "unix@" + path, *FAST) as e:
            kept = e.connect()
            kept.request("GET", "/health")
            kept.getresponse().read()
            e.control("dead=refuse")
            try:
                e.call("GET", "/health")
                check(False, "it still listens")
            except ConnectionRefusedError:
                pass
            equal(kept.sock.recv(1), b"", "kept connections are closed too")
            kept.close()
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(HANG)
                s.connect(path)
                s.sendall(b"POST /control?restore HTTP/1.1\r\nConnection: close\r\n\r\n")
                check(b"200 OK" in s.recv(65536), "control still answers")
            e.chat([user("back")])
            e.control("dead=refuse&for=0.2")
            until(lambda: answers(e))
            e.chat([user("back by itself")])
            e.control("dead=exit")
            equal(e.proc.wait(timeout=HANG), 0, "it left")


def test_client_abort_frees_its_place():
    with Engine("--max-seqs", "1", "--decode-ms", "20") as e:
        conns = open_streams(e, 3, 2000)
        until(lambda: (e.control()["running"], e.control()["waiting"]) == (1, 2))
        conns[1].close()
        until(lambda: (e.control()["running"], e.control()["waiting"]) == (1, 1))
        conns[0].close()
        conns[2].close()
        until(lambda: (e.control()["running"], e.control()["waiting"]) == (0, 0))
        s = e.control()
        equal((s["aborted"], s["blocks_free"] - s["blocks"]), (3, 0), "aborted; all blocks free")


# ---- clients and errors ----

def test_metrics_have_vllm_names():
    names = ("num_requests_running", "num_requests_waiting", "gpu_cache_usage_perc",
             "kv_cache_usage_perc",
             "prefix_cache_queries_total", "prefix_cache_hits_total", "prompt_tokens_total",
             "generation_tokens_total", "time_to_first_token_seconds_count")
    with Engine("--block-size", "32", "--blocks", "100", "--model", 'a"b', *FAST) as e:
        for _ in range(2):
            e.post("/v1/completions", {"prompt": [1] * 65, "max_tokens": 3})
        values = {}
        for line in e.call("GET", "/metrics")[1].splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name.split("{")[0]] = float(value)
                check("{" not in name or 'engine="0"' in name, line)
                if "cache_config_info" in name:
                    check('block_size="32"' in name and 'num_gpu_blocks="100"' in name, line)
                elif "{" in name:
                    check('model_name="a\\"b"' in name, line)
        got = [values["vllm:" + n] for n in names]
        equal(got, [0, 0, 0, 0, 130, 64, 130, 6, 2], "values")


def test_chunked_body_and_keep_alive():
    body = json.dumps({"messages": [user(words(300))], "model": "m", "max_tokens": 2})
    with Engine(*FAST) as e:
        first = e.post("/v1/chat/completions", body)
        again = e.post("/v1/chat/completions", body, chunked=True)
        equal(usage(again), (usage(first)[0], may_hit(usage(first)[0])),
              "chunked is the same prompt")
        c = e.connect()
        for _ in range(5):
            c.request("POST", "/v1/chat/completions", body)
            equal(c.getresponse().read()[:6], b'{"id":', "kept connection")
        c.close()
        two = b"POST /v1/completions HTTP/1.1\r\nContent-Length: 14\r\n\r\n" + b'{"prompt":"x"}'
        last = b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n"
        equal(e.raw(two * 3 + last).count(b"HTTP/1.1 200 OK"), 4, "pipelined")
        got = e.raw(b"GET /health HTTP/1.0\r\n\r\n")
        check(got.startswith(b"HTTP/1.1 200") and b"connection: close" in got, "HTTP/1.0")


def test_one_byte_at_a_time():
    body = b'{"prompt":"abc","max_tokens":1}'
    msg = (b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: "
           b"close\r\n\r\n" +
           b"5;x=y\r\n" + body[:5] + b"\r\n%X\r\n" % (len(body) - 5) + body[5:]
           + b"\r\n0\r\nt: 1\r\n\r\n")
    with Engine(*FAST) as e, socket.create_connection(("127.0.0.1", e.port), timeout=HANG) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(msg)):
            s.sendall(msg[i:i + 1])
        got = b""
        while part := s.recv(65536):
            got += part
        check(b"HTTP/1.1 200 OK" in got and b'"prompt_tokens":1' in got, repr(got))


def test_garbage_closes_one_connection_only():
    r = random.Random(7)
    head = b"POST /v1/completions HTTP/1.1\r\n"
    cases = [b"\0\1\2\3\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
             b"get / HTTP/1.1\r\n\r\n",
             b"DELETE / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
             b"GET / HTTP/1.1\r\na b: c\r\n\r\n", b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\n\r\n",
             b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
             b"GET / HTTP/1.1\r\na: " + b"x" * 70000,
             head + b"Content-Length: x\r\n\r\n", head + b"Content-Length: -1\r\n\r\n",
             head + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
             head + b"Content-Length: 999999999999\r\n\r\n",
             head + b"Transfer-Encoding: gzip\r\n\r\n",
             head + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
             head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
             head + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
             head + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc",
             b"\r\n" * 9, b"{" * 70000]
    with Engine(*FAST) as e:
        for case in cases:
            got = e.raw(case, timeout=2.0)
            check(got == b"" or b" 40" in got[:15] or b" 41" in got[:15],
                  "%r: %r" % (case[:50], got[:60]))
        for _ in range(100):
            e.raw(r.randbytes(r.randrange(1, 400)) + b"\r\n\r\n", timeout=0.5)
        e.chat([user("still well")])
        until(lambda: e.control()["connections"] == 1)


def test_cut_bodies_are_forgotten():
    with Engine(*FAST) as e:
        msg = b'POST /v1/completions HTTP/1.1\r\nContent-Length: 14\r\n\r\n{"prompt":"x"}'
        for n in range(1, len(msg)):
            with socket.create_connection(("127.0.0.1", e.port), timeout=HANG) as s:
                s.sendall(msg[:n])
        until(lambda: e.control()["connections"] == 1)
        equal(e.control()["requests"], 0, "no request was whole")


def test_unix_socket_and_two_listeners():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "e.sock")
        with Engine(listen=("127.0.0.1:0", "unix@" + path)) as e:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(HANG)
                s.connect(path)
                s.sendall(b"GET /health HTTP/1.1\r\n\r\n")
                check(s.recv(4096).startswith(b"HTTP/1.1 200"), "unix socket")
            load(e, "--conversations", "2", "--turns", "2", url="unix@" + path)


def test_many_connections_at_once():
    with Engine("--prefill-tps", "1000000", "--decode-ms", "10", "--max-seqs", "1000") as e:
        got = load(e, "--conversations", "1000", "--concurrency", "1000", "--turns", "1",
                   "--system-bytes", "200", "--user-bytes", "100", "--max-tokens", "5")
        equal((got["ok"], got["failed"]), (1000, 0), "requests")
        s = e.control()
        check(s["accepted"] >= 1000, "connections: %d" % s["accepted"])
        equal(s["blocks_free"], s["blocks"], "blocks free")


# ---- the load generator ----

def load(e, *args, url=None, status=0):
    cmd = [os.path.join(DIR, "chat_load"), "--url", url or "127.0.0.1:%d" % e.port, "--json"]
    done = subprocess.run(cmd + list(args), capture_output=True, text=True, timeout=HANG)
    equal(done.returncode, status, "chat_load: " + done.stderr + done.stdout)
    return json.loads(done.stdout)


def test_load_over_every_api_and_form():
    cases = [("chat",), ("completions",), ("messages",), ("responses",), ("chat", "--chunked"),
             ("chat", "--whole"), ("messages", "--whole"), ("responses", "--whole"),
             ("completions", "--whole", "--key-order", "model-first")]
    for api, *more in cases:
        with Engine("--name", "e1", *FAST) as e:
            got = load(e, "--api", api, "--conversations", "6", "--turns", "4", "--max-tokens", "4",
                       *more)
            s = e.control()
            equal((got["ok"], got["failed"], got["engine.e1"]), (24, 0, 24), api)
            equal((got["prompt_tokens"], got["cached_tokens"], got["output_tokens"]),
                  (s["prompt_tokens"], s["cached_tokens"], s["output_tokens"]),
                  api + ": both sides agree")
            check(got["cached_share"] > 0.6, "%s: cached %.3f" % (api, got["cached_share"]))
            equal((got["stuck"], got["follow_ups"]), (18, 18), api)


def test_load_measures_the_time_the_engine_takes():
    with Engine("--prefill-tps", "1000", "--decode-ms", "20", "--decode-seq-ms", "0") as e:
        with tempfile.NamedTemporaryFile("r") as trace:
            got = load(e, "--conversations", "1", "--turns", "2", "--max-tokens", "11", "--trace",
                       trace.name)
            lines = [dict(w.split("=") for w in line.split()) for line in trace]
        first, later = got["ttft_first_turn_p50_ms"], got["ttft_next_turns_p50_ms"]
        prompt = int(lines[0]["prompt"])
        check(first > prompt * 0.95, "%d uncached tokens took %.0f ms" % (prompt, first))
        check(10 < later < first / 2, "later turns took %.0f ms, the first %.0f" % (later, first))
        for name in ("ttft", "ttft_first_turn", "ttft_next_turns", "total"):
            p50, p90, p99 = (got["%s_p%d_ms" % (name, p)] for p in (50, 90, 99))
            check(0 < p50 <= p90 <= p99, name)
        equal([(w["turn"], w["result"], w["cached"] > "0") for w in lines],
              [("1", "ok", False), ("2", "ok", True)], "trace")
        for w in lines:
            least = int(w["prompt"]) - int(w["cached"]) + 10 * 20
            check(float(w["total_ms"]) > least * 0.95, "an answer took %s ms" % w["total_ms"])
            check(float(w["total_ms"]) > float(w["ttft_ms"]), "the first token came last")


def test_load_says_the_same_for_the_same_seed():
    got = []
    for seed in ("5", "5", "6"):
        with Engine(*FAST) as e:
            load(e, "--seed", seed, "--conversations", "1", "--turns", "2")
            reply = e.control()
            got.append((reply["prompt_tokens"], reply["cached_tokens"]))
            first = load(e, "--seed", "5", "--conversations", "1", "--turns", "1", "--max-tokens",
                         "1")
            equal(first["cached_tokens"] > 1000, seed == "5", "seed %s is known" % seed)
    equal(got[0], got[1], "same seed")


def test_load_through_a_naive_balancer():
    """Two engines behind a balancer that takes turns: later turns meet the same engine half the
    time."""
    with Engine("--name", "a", *FAST) as a, Engine("--name", "b", *FAST) as b:
        with Balancer([a.port, b.port]) as port:
            got = load(None, "--conversations", "12", "--turns", "4", "--max-tokens", "4",
                       url="127.0.0.1:%d" % port)
        equal(got["ok"], 48, "ok")
        equal(got["engine.a"] + got["engine.b"], 48, "both engines")
        check(got["engine.a"] > 10 and got["engine.b"] > 10, "spread: %r" % got)
        check(got["stuck"] < got["follow_ups"], "not all turns stay")
        equal(a.control()["prompt_tokens"] + b.control()["prompt_tokens"], got["prompt_tokens"],
              "tokens")


class Balancer:
    """A TCP relay that sends each request to the next engine: every answer ends its connection."""

    def __init__(self, ports):
        self.ports = ports

    def __enter__(self):
        code = """
import socket, sys, threading
ports, n = [int(p) for p in sys.argv[1:]], 0
def pump(a, b):
    try:
        while part := a.recv(65536):
            b.sendall(part)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass
def serve(c, port):
    s = socket.create_connection(("127.0.0.1", port))
    data = b""
    while b"\\r\\n\\r\\n" not in data:
        part = c.recv(65536)
        if not part:
            return
        data += part
    s.sendall(data.replace(b"\\r\\n", b"\\r\\nConnection: close\\r\\n", 1))
    threading.Thread(target=pump, args=(c, s), daemon=True).start()
    pump(s, c)
    s.close()
    c.close()
ls = socket.create_server(("127.0.0.1", 0))
print(ls.getsockname()[1], flush=True)
while True:
    c, _ = ls.accept()
    threading.Thread(target=serve, args=(c, ports[n % len(ports)]), daemon=True).start()
    n += 1
"""
        self.proc = subprocess.Popen([sys.executable, "-c", code] + [str(p) for p in self.ports],
                                     stdout=subprocess.PIPE, text=True)
        return int(self.proc.stdout.readline())

    def __exit__(self, *exc):
        self.proc.terminate()
        self.proc.wait(timeout=HANG)
        self.proc.stdout.close()


def test_load_counts_failures_by_kind():
    few = ("--conversations", "3", "--turns", "2")
    with Engine(*FAST) as e:
        e.control("fail=503")
        got = load(e, *few, status=1)
        equal((got["failed"], got["error.status"], got["status.503"]), (3, 3, 3), "status")
        e.control("fail=0&drop=2")
        equal(load(e, *few, status=1)["error.cut"], 3, "cut streams")
        equal(load(e, "--whole", *few, status=1)["error.closed"], 3, "closed before an answer")
        e.control("drop=0&stall=1")
        equal(load(e, *few, "--timeout", "0.2", status=1)["error.timeout"], 3, "timeouts")
        port = e.port
    equal(load(None, *few, url="127.0.0.1:%d" % port, status=1)["error.connect"], 3, "nobody there")


def test_load_kept_connection_that_closes_is_no_failure():
    with Engine(*FAST) as e:
        with subprocess.Popen([os.path.join(DIR, "chat_load"), "--url", "127.0.0.1:%d" % e.port,
                               "--json",
                               "--conversations", "1", "--turns", "2", "--think", "3"],
                              stdout=subprocess.PIPE, text=True) as p:
            until(lambda: e.control()["finished"] == 1)
            e.control("dead=refuse&for=0.1")
            got = json.loads(p.communicate(timeout=HANG)[0])
        equal((got["ok"], got["failed"]), (2, 0), "requests")


def test_load_stops_in_time_and_sends_headers():
    with Engine("--decode-ms", "5") as e:
        t0 = time.monotonic()
        got = load(e, "--conversations", "1000", "--turns", "100", "--seconds", "1", "--rate", "50")
        check(time.monotonic() - t0 < HANG, "limit of a second; all of it would take half an hour")
        check(got["unstarted"] > 900 and 1 <= got["ok"] < 1000, "unfinished: %r" % got)
    with socket.create_server(("127.0.0.1", 0)) as s:
        s.settimeout(HANG)
        cmd = [os.path.join(DIR, "chat_load"), "--url", "127.0.0.1:%d" % s.getsockname()[1],
               "--tenants", "1",
               "--tenant-header", "x-who", "--session", "x-talk", "--header",
               "authorization: Bearer k",
               "--conversations", "1", "--turns", "1"]
        with subprocess.Popen(cmd, stdout=subprocess.DEVNULL) as p:
            c, _ = s.accept()
            c.settimeout(HANG)
            head = c.recv(65536)
            c.close()
            equal(p.wait(timeout=HANG), 1, "an answer that never came fails")
        for line in (b"x-who: t0\r\n", b"x-talk: talk-1-0\r\n", b"authorization: Bearer k\r\n"):
            check(line in head, "%r is missing in %r" % (line, head[:300]))
        check(b'{"messages":[' in head, "messages come first")


def waits_of(e, *args):
    """Pauses as in the trace: from the end of an answer until the next turn is due."""
    with tempfile.NamedTemporaryFile("r") as trace:
        got = load(e, *args, "--trace", trace.name)
        lines = [{k: v for k, v in (w.split("=") for w in line.split())} for line in trace]
    ends, waits = {}, {}
    for w in lines:
        meant = float(w["t"]) - float(w["late_ms"]) / 1e3
        if w["talk"] in ends:
            waits[w["talk"], w["turn"]] = meant - ends[w["talk"]]
        ends[w["talk"]] = meant + float(w["total_ms"]) / 1e3
    return got, waits


def test_load_thinks_by_chance_or_alike():
    """An exponential of that mean, the same for the same seed; or all of one length."""
    few = ("--rate", "1000", "--conversations", "200", "--turns", "4", "--max-tokens", "2",
           "--concurrency", "64", "--system-bytes", "0", "--user-bytes", "20")
    with Engine(*FAST) as e:
        got, waits = waits_of(e, *few, "--think", "0.2")
        again, others = waits_of(e, *few, "--think", "0.2")
        _, unlike = waits_of(e, *few, "--think", "0.2", "--seed", "2")
        alike, same = waits_of(e, *few, "--think", "0.2", "--think-constant")
    equal((got["ok"], got["think_constant"], alike["think_constant"]), (800, 0, 1), "report")
    equal(len(waits), 600, "pauses")
    equal(got["think_mean_s"], again["think_mean_s"], "the same pauses for the same seed")
    check(all(abs(waits[k] - others[k]) < 1e-3 for k in waits), "a turn's pause is its own")
    equals = sum(abs(waits[k] - unlike[k]) < 1e-3 for k in waits)
    check(equals < 60, "another seed has other pauses")
    mean = sum(waits.values()) / len(waits)
    check(abs(mean - got["think_mean_s"]) < 1e-3, "mean %.4f, report %r" % (mean, got))
    check(0.17 < mean < 0.23, "600 pauses of 0.2 s: %.3f on average" % mean)     # 3.7 deviations
    for share, limit in ((0.5, 0.2 * 0.693), (0.9, 0.2 * 2.303)):
        below = sum(w < limit for w in waits.values()) / len(waits)
        check(abs(below - share) < 0.08, "%.3f of them are below %.3f s" % (below, limit))
    check(all(abs(w - 0.2) < 1e-3 for w in same.values()), "pauses that are all alike")
    equal(round(alike["think_mean_s"], 6), 0.2, "their mean")


def test_load_of_an_open_loop_counts_from_when_it_was_due():
    """One slot for simultaneous requests: a wait for the slot counts as a wait for the engine."""
    few = ("--conversations", "4", "--turns", "1", "--concurrency", "1", "--system-bytes", "0",
           "--user-bytes", "400", "--max-tokens", "3")
    with Engine("--prefill-tps", "1000000", "--decode-ms", "100", "--decode-seq-ms", "0") as e:
        due, closed = load(e, *few, "--rate", "1000"), load(e, *few)
    equal((due["open_loop"], closed["open_loop"]), (1, 0), "report")
    check(due["late_p99_ms"] > 3 * 200 * 0.95,
          "the last was sent %.0f ms late" % due["late_p99_ms"])
    check(due["ttft_p99_ms"] > due["late_p99_ms"], "its first token counts from then: %r" % due)
    check(due["total_p99_ms"] > due["ttft_p99_ms"] + 200 * 0.95, "and its answer: %r" % due)
    equal(closed["late_p99_ms"], 0, "a closed loop is never late")


def test_load_has_no_more_talks_at_once_than_it_may():
    """A conversation that waits for --live is due when there is room, 1.2 s after its schedule."""
    with Engine("--prefill-tps", "1000000", "--decode-ms", "50", "--decode-seq-ms", "0") as e:
        got = load(e, "--conversations", "4", "--turns", "2", "--live", "1", "--rate", "1000",
                   "--concurrency", "4", "--max-tokens", "5")
    equal((got["ok"], got["open_loop"]), (8, 1), "requests")
    check(got["late_p99_ms"] < 1000, "a talk was %.0f ms late" % got["late_p99_ms"])


def test_load_survives_odd_answers():
    answers = [b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
               b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {]\n\n",
               b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: [DONE]\n\n",
               b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz",
               b"HTTP/1.1 204 No\r\n\r\n",
               b"HTTP/1.1 100 Continue\r\n\r\n" * 2000, b""]
    with socket.create_server(("127.0.0.1", 0)) as s:
        s.settimeout(HANG)
        for answer in answers:
            cmd = [os.path.join(DIR, "chat_load"), "--url", "127.0.0.1:%d" % s.getsockname()[1],
                   "--json",
                   "--conversations", "1", "--turns", "1", "--system-bytes", "0", "--timeout", "2"]
            with subprocess.Popen(cmd, stdout=subprocess.PIPE, text=True) as p:
                c, _ = s.accept()
                c.recv(65536)
                c.sendall(answer)
                c.close()
                got = json.loads(p.communicate(timeout=HANG)[0])
                equal((p.returncode, got["ok"], got["failed"]), (1, 0, 1), repr(answer[:70]))


def main():
    tests = sorted((f.__code__.co_firstlineno, n, f) for n, f in globals().items()
                   if n.startswith("test_"))
    failed, start = 0, time.monotonic()
    for _, name, test in tests:
        t0 = time.monotonic()
        try:
            test()
            result = "ok"
        except Exception as e:
            failed += 1
            result = "FAILED: %s: %s" % (type(e).__name__, e)
        print("%5.2f s  %s: %s" % (time.monotonic() - t0, name[5:].replace("_", " "), result),
              flush=True)
    print("stub engine and load generator: %.1f s" % (time.monotonic() - start))
    print("%d passed, %d failed" % (len(tests) - failed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
