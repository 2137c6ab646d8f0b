#!/usr/bin/env python3
"""Write the first inputs of every target to OUT/TARGET/: made from tests/data, the shipped
configuration and a few lines below. `make fuzz-merge` puts them, minimised, into the archives of
tests/fuzz/corpus/."""
import glob
import hashlib
import json
import os
import random
import re
import struct
import sys

if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit("usage: seeds.py OUT")
OUT = sys.argv[1]
APIS = ["none", "chat", "completions", "responses", "messages", "embeddings", "generate"]
API_BYTES = {"contents": 135, **{name: i for i, name in enumerate(APIS)}}


def put(target, data, keep=False):
    """<keep>: stored even if it reaches no new edge, because a choice between two constants is no
    edge."""
    for folder in [f"{OUT}/{target}"] + ([f"{OUT}/keep/{target}"] if keep else []):
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{hashlib.sha1(data).hexdigest()[:12]}", "wb") as f:
            f.write(data)


# ---- bodies 

def strings_of(path):
    """String literals of a C file, those next to each other joined: the cases of a unit test."""
    text = open(path, encoding="utf-8").read()
    words = dict(re.findall(r'#define (\w+)\s+((?:"(?:[^"\\]|\\.)*"\s*|\b[A-Z]\d+\b\s*)+)$', text,
                            re.M))
    for _ in range(3):
        for k, v in words.items():
            text = re.sub(rf"\b{k}\b", lambda m: v, text)
    for run in re.findall(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', text):
        parts = re.findall(r'"((?:[^"\\]|\\.)*)"', run)
        yield b"".join(p.encode().decode("unicode_escape").encode("latin-1", "replace")
                       for p in parts)


LONG = b"0123456789" * 120
MORE_BODIES = [
    b'{"cache_salt":"a","extra_key":"b","messages":[]}', b'{"extra_key":"b","cache_salt":"a"}',
    b'{"cache_salt":{"a":[1]},"extra_key":["x"],"model":["m"],"user":{"a":1}}',
    b'{"cache_salt":null,"model":null,"lora_path":null}',
    b'{"adapter_id":"a","lora_name":"b","lora_path":"c","user":"u","metadata":{"user_id":"v"}}',
    b'{"lora_path":["c","d"],"lora_name":["b"],"adapter_id":[null,"x"]}',
    b'{"lora_name":["b"],"lora_path":["c"],"lora_path":"e"}',
    b'{"metadata":{"user_id":"v"},"user":"u"}', b'{"metadata":[1],"user":2}',
    b'{"model":"' + LONG + b'","user":"' + LONG[:255] + b'","cache_salt":"' + LONG + b'"}',
    b'{"messages":[{"role":"user","content":[{"image_url":{"url":"data:' + LONG
    + b'","detail":"low"}},{"input_audio":{"data":"' + LONG + b'"}}]}]}',
    b'{"tools":[{"id":"x","cache_control":{"type":"ephemeral"},"a":1}],"functions":[{"name":"'
    + LONG[:100] + b'"}],'
    b'"documents":[{"t":"' + LONG[:70] + b'"}],"messages":[{"content":"x"}]}',
    b'{"functions":{"a":1},"documents":[],"functions":null}', b'{"tools":"text","functions":3}',
    b'{"image_data":["' + LONG + b'","b"],"text":"hi"}', b'{"image_data":null,"input_ids":[1,2,3]}',
    b'{"image_data":{"url":"u"},"text":["a","b"]}',
    b'{"messages":[{"content":"a","content":"b","tool_calls":['
    b'{"function":{"name":"f","arguments":{"x":[1,{"y":null}]}}},'
    b'{"custom":{"name":"g","input":"z"}}]}]}',
    b'{"messages":[{"tool_calls":[{"function":{"arguments":"' + LONG[:200]
    + b'"}}],"content":null,"reasoning":"' + LONG[:90] + b'"},{"content":"a"}]}',
    b'{"system":[{"text":"a"},{"text":"b"}],"messages":'
    b'[{"role":"user","content":[{"content":[{"text":"r"},'
    b'{"source":{"data":"' + LONG + b'"}}]}]}]}',
    b'[' * 11 + b'{"messages":[{"content":"deep"}]}' + b']' * 11, b'{"a":' * 10 + b'1' + b'}' * 10,
    b'[' * 140,
    b'{"input":[{"arguments":true,"type":"function_call"}],'
    b'"messages":[{"content":[{"input":false},{"input":true},{"input":null}]}]}',
    b'{"messages":[{"content":"a"},{"tool_calls":[{"function":{"arguments":"' + LONG[:100]
    + b'"}}],"tool_calls":[{"function":{"arguments":"' +
    LONG[:20] + b'"}}]},{"content":"a"},{"reasoning":"' + LONG[:150] + b'","reasoning":"'
    + LONG[:70] + b'"}]}',
    b'{"system":[{"text":"x-anthropic-billing-header: cch=1;"},{"text":"' + LONG
    + b'"}],"messages":[{"role":"user","content":"' + LONG + b'"}]}',
    b'{"messages":[{"role":"system","content":"x-anthropic-billing-header: cch=1;\\n' + LONG
    + b'"},{"content":["x-anthropic-billing-head","x-anthropic-billing-header","a"]},'
    b'{"role":"user","content":"' + LONG + b'"}]}',
    b'{"input":[[1,2],[3]],"prompt":[[1,2],[3]]}', b'{"input":["a","b"],"prompt":["a",1]}',
    b'{"prompt":[1,"a",-1,1.5,4294967296]}',
]


def bodies():
    for path in sorted(glob.glob("tests/data/bodies/*.json")):
        name = os.path.basename(path).split("-")[0]
        data = open(path, "rb").read()
        put("body", bytes([API_BYTES[name], 0, 1, 2]) + data)
        put("json", b"\0\3" + data)
        for k in (3, 5, 9):
            put("body", bytes([API_BYTES[name], k * 19 & 0x7f, k, 7]) + data[:len(data) * k // 10])
    for path in ["test_body.c", "test_cut.c"]:
        for s in strings_of(f"tests/unit/prompt/{path}"):
            if s.startswith(b"{") and len(s) > 8:
                for api in range(1, 7):
                    put("body", bytes([api, 0, 1, 4]) + s)
    for body in MORE_BODIES:
        for api in range(1, 7):
            put("body", bytes([api, 0, 1, 4]) + body)
    for path in ("/v1/chat/completions", "/openai/v1/responses?x=1", "/v1/messages/", "/generate",
                 "/v1/completions", "embeddings"):
        put("body", bytes([7, 0, 0, 0]) + path.encode())
    for s in strings_of("tests/unit/base/test_json.c"):
        put("json", b"\0\4" + s)


# ---- SPOP 

def hex_bytes(line):
    out = b""
    for text, run, times in re.findall(r'(?:"([^"]*)"|((?:[0-9a-fA-F]{2})+))(?:\*(\d+))?', line):
        out += (text.encode() if text else bytes.fromhex(run)) * int(times or 1)
    return out


def bytes_of(line):
    """Return the text before a comment; '#' may be in quotes."""
    return re.match(r'(?:[^"#]|"[^"]*")*', line).group(0)


def hex_cases(path):
    case, frame = [], False
    for line in open(path, encoding="utf-8"):
        key, _, rest = line.strip().partition(" ")
        if key == "case":
            if case:
                yield case
            case = []
        elif key in ("frame", "in"):
            case.append([key == "frame", hex_bytes(bytes_of(rest))])
        elif key == "+":
            case[-1][1] += hex_bytes(bytes_of(rest))
    if case:
        yield case


def hello_frame(size):
    """<size>: a number as SPOP writes it."""
    payload = b"\1\0\0\0\1\0\0\x12supported-versions\x08\x032.0"
    payload += b"\x0emax-frame-size\3" + size + b"\x0ccapabilities\x08\x0apipelining"
    return struct.pack(">I", len(payload)) + payload


def spop():
    for path in sorted(glob.glob("tests/data/spop/*.hex")):
        for case in hex_cases(path):
            stream = b"".join((struct.pack(">I", len(b)) if frame else b"") + b
                              for frame, b in case)
            if len(stream) < 5000:
                put("spop_conn", b"\0\0\2\3" + stream)
            for frame, b in case:
                if frame and len(b) < 2000:
                    put("spop_typed", b"\7" + b)
                    put("spop_typed", {1: b"\5", 2: b"\6", 3: b"\4"}.get(b[0], b"\4") + b[7:])
    for code in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 99):
        put("spop_typed", b"\6\x0bstatus-code\3" + bytes([code]), keep=True)
    put("spop_typed", b"\6\x07message\x08\2ab\x0bstatus-code\x08\1a")
    hello = hello_frame(b"\xfc\xf0\6")
    part = struct.pack(">I", 3007) + b"\3\0\0\0\0\1\1" + b"a" * 3000
    put("spop_conn", b"\0\0\2\3" + hello + part + part[:4] + b"\0\0\0\0\1\1\1" + part[11:])
    for answer in (0xd7, 0x97, 0x57, 0x17):
        put("spop_conn", bytes([1, 0, 2, answer]) + hello + b"\0\0\0\x0e\3\0\0\0\1\1\1\5route\0")
    for n in range(180, 240, 4):
        put("spop_conn", bytes([1, 0, 2, 1]) + hello_frame(b"\xf0\1") + b"\0\0\0\x0e\3\0\0\0\1"
            + bytes([n]) + b"\1\5route\0")
    for limits in (0x05, 0x1a, 0x2f, 0x30):
        put("spop_conn", bytes([limits, 1, 9, 0xe7]))
    for data in (b"\x00", b"\x11", b"\x01", b"\x02\xf0\x01", b"\x03\x05",
                 b"\x04\xff\xff\xff\xff\x0e", b"\x05\xf1\x00",
                 b"\x06\x7f\0\0\1", b"\x07" + b"\0" * 15 + b"\1", b"\x08\x03abc", b"\x09\x00",
                 b"\x02\xf0\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0e"):
        put("spop_typed", b"\2" + data * 2)
        put("spop_typed", b"\3\1k" + data + b"\2kk" + data)
        put("spop_typed", b"\0" + data)
        put("spop_typed", b"\1" + data)


# ---- text 

def conf():
    put("yaml", open("doc/kvroute.yaml", "rb").read())
    put("yaml", b"nobody: 1\nspop:\n" + b"".join(b"  k%d: 1\n" % i for i in range(70)))
    put("yaml", b"models:\n" + b"".join(b"  - name: m%d\n" % i for i in range(1030)))
    put("yaml", b"pools:\n" + b"".join(b"  - name: p%d\n" % i for i in range(70))
        + b"routing:\n  max_pools: 66\n")
    put("yaml", b"threads: " + b"1" * 5000 + b"\nx: [" + b"1," * 6000 + b"]\n")
    put("yaml", b"threads: [1" + b"," * 3000 + b"\n")
    for number in (b"1.2345678901234567", b"0.1", b"1e-9", b"1.0000000000000002",
                   b"29.999999999999996"):
        put("yaml", b"policy:\n  balance_rel_threshold: " + number
            + b"\n  attention_factor: 1.23456789e-9\n", keep=True)
    for name in ("good", "bad"):
        text = open(f"tests/data/conf/{name}.txt", "rb").read()
        for case in re.split(rb"^=== .*\n", text, flags=re.M)[1:]:
            case = re.split(rb"^=> ", case, flags=re.M)[0]
            put("yaml", re.sub(rb"\\(x[0-9a-f]{2}|[tre\\])",
                               lambda m: {b"t": b"\t", b"r": b"\r", b"e": b"", b"\\": b"\\"}.get(
                m.group(1)) if m.group(1)[:1] != b"x" else bytes.fromhex(m.group(1)[1:].decode()),
                               case))


def lines():
    for s in strings_of("tests/unit/feed/test_logline.c"):
        if b"{" in s:
            put("logline", s)
    put("logline",
        b'{"uid":"u","be":"llm","srv":"s1","want":"s2","why":"cached","err":0,'
        b'"st":200,"ts":"--","tw":0,'
        b'"tc":1,"tr":-1,"ta":50,"out":10,"in":20,"rc":"+1","sq":0,"bq":0}')
    for s in strings_of("tests/unit/loop/test_http.c"):
        if len(s) > 3:
            put("http", s)
    for nested in (b'{"a":{"uid":"b"}}', b'{"uid":"c","a":{"uid":"b","st":1}}',
                   b'{"uid":"c","a":["b",{"srv":"s"}],"srv":["x"]}',
                   b'{"uid":"c"}{"uid":"d"}', b'{"uid":{"uid":{"uid":"x"}},"be":"p"}',
                   b'[{"uid":"a"}]', b'{"uid":"a","uid":3,"uid":null}'):
        put("logline", nested)
    put("http", b"GET / HTTP/1.1\r\nX: " + b"a" * 8200, keep=True)
    put("logline", b'{"srv":"' + b"a" * 5000 + b'","uid":"' + b"b" * 5000 + b'"}')
    put("logline", b'{"uid":"u","want":"' + b"a" * 5000 + b'","srv":"' + b"b" * 5000 + b'"}')
    for end in ("CD", "SC", "SH", "sQ", "cQ", "PH", "PR", "KD", "DC", "LR", "RC", "IH", "UK", "-",
                "", "---"):
        put("logline", b'{"uid":"u","ts":"' + end.encode() + b'"}', keep=True)
    put("http", b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
    for s in strings_of("tests/unit/loop/test_command.c"):
        put("command", s)
    for s in (b"show info; show servers json;;why a\\;b; ask 5 pool p path /v1 tenant t model m",
              b"clear space " + b"0123456789abcdefABCDEF9876543210", b"set log level warn;prompt"):
        put("command", s)
    for s in strings_of("tests/unit/fleet/test_loadstr.c"):
        put("loadstr", s)
    put("loadstr", b"lb1/77;s1=1,0,0,1;s2=0,4294967296,3,100;s3=1,1")


def requests():
    line = b'{"timestamp": %s, "input_length": %s, "output_length": %s, "hash_ids": [%s]}\n'
    plain = line % (b"0", b"1300", b"5",
                    b"1, 2, 3") + line % (b"0", b"1024", b"1",
                                          b"1, 2") + line % (b"2500.5", b"40", b"9", b"4")
    put("requests", plain)
    put("requests",
        b" " + plain.replace(b"}", b', "session": "a\\u00e4"}',
                             1).replace(b"4]", b'"x", -7, 1e3, "%s"]' % LONG[:90]), keep=True)
    more = (b', "block_size": %s, "cached": 512, "first_ms": 80, "total_ms": 90, "status": %s, '
            b'"server": "16c39061"}\n')
    recorded = b"".join(line.replace(b"}\n", more) % (b"%d" % i, b"1300", b"5",
                                                      b"1, 2, %d" % (3 + i), block, status)
                        for i, (block,
                                status) in enumerate([(b"256", b"200"), (b"256", b"503"),
                                                      (b"528", b"200"), (b"256", b"200")]))
    for i in range(16):     # options are taken from the length
        put("requests", recorded + b" " * i, keep=True)
    put("requests", b"\n\r\n"
        + plain.replace(b"}", b', "session": 7, "more": {"hash_ids": [1, [2]], "timestamp": 3}}'))
    for bad in (line % (b"-1", b"1", b"1", b""), line % (b"1", b"1.5", b"1", b""),
                line % (b"1", b"99999999999", b"1", b""),
                line % (b"1", b"300", b"1", b"1, 2, 1"),
                line % (b"1", b"1", b"1", b"1,2,3,4,5,6,7,8,9,10,11,12"), b"{}", b"[1]", b"x",
                b"\n \t\n"):
        put("requests", plain + bad, keep=True)
        put("requests", bad)
    put("requests", line % (b"9", b"%d" % (700 * 16), b"3",
                            b",".join(b"%d" % k for k in range(700))), keep=True)
    put("requests", b'{"block_size": 512, "source": "x"}', keep=True)
    put("requests",
        b"".join(line % (b"%d" % (i % 9), b"%d" % (40 * i), b"3",
                         b",".join(b"%d" % (k * (i % 3 + 1)) for k in range(i * 2)))
                 for i in range(1, 40)))


def streams():
    marks = ("<|im_start|>user\n {} <|im_end|> <| <<< [L] x[R]  [LR] [S] a[S] word end_word "
             "[N]").encode()
    for kind in range(12):
        for cut, times in ((0, 0), (3, 40), (5, 200)):
            head = bytes([kind, cut, 0, cut, times])
            put("stream",
                head
                + "the other one, isn't it; STAR 42\n\nif (x1 == 10) {\n\treturn;\r\n}\n".encode(),
                keep=kind < 2)
            put("stream", head + "日本語、中文。が か\u3099。　〆、한국어 état e\u0301[N]".encode())
            put("stream", head + marks, keep=True)
            put("stream",
                head + b"\xff\xe3\x80 <|im_start\xe3|> [R]\xa0 word\xc2\n9\n/.\n/a'\x80\x80s")
        put("stream", bytes([kind, 1, 0, 1, 255]) + b"a" * 60, keep=True)


def stats():
    for path in sorted(glob.glob("tests/data/hastats/*-*.*")):
        data = open(path, "rb").read()
        rows = data.split(b"\n")
        put("stats", b"\x80\0" + b"\n".join(rows[:4] + rows[-2:]))
        put("stats", b"\x81\0" + data)
    for s in strings_of("tests/unit/feed/test_hastats.c"):
        put("stats", b"\x85\0" + s)
    head = b"# pxname,svname,qcur,scur,status,weight,type\n"
    row = b"p,s,1,2,UP,3,2\n"
    put("stats", b"\xc7\xff" + head + row[:-1] + b",\"x", keep=True)
    put("stats", b"\x07\0" + head[:-1] + b",x" * 1100 + b"\n" + row[:-1] + b",y" * 1100 + b"\n\n")
    put("stats", b"\x40\0" + head + row + b"p," + b"s" * 127 + row[3:] + b"p," + b"s" * 128
        + row[3:] + b"\n" + row)
    put("stats", b"\xff\0# " + b"n" * 128 + b"," + head[2:] + row + b"\n")
    for word in (b"UP 1/3", b"no check", b"DOWN (agent)", b"NOLB 1/2", b"DRAIN", b"MAINT (via p/a)",
                 b"GLAD", b'"UP"'):
        put("stats", b"\x33\0" + head + row.replace(b"UP", word) * 2 + b"\n", keep=True)
    for address in (b"10.0.0.7:8000", b"[fd00::7]:8000", b"unix", b"", b'"a,""b"', b"9" * 127,
                    b"9" * 128):
        put("stats", b"\x33\0" + head[:-1] + b",addr\n" + row[:-1] + b"," + address + b"\n\n")


def server_info():
    for s in strings_of("tests/unit/feed/test_server_info.c"):
        if s.startswith((b"{", b"[")):
            put("server_info", b"\x85" + s)
    events = (b'"kv_events": {"publisher": "zmq", "endpoint_host": "*", "endpoint_port_base": 5557,'
              b' "topic": "kv", "block_size": 64, "dp_size": 2}')
    option = (b'"kv_events_config": "{\\"publisher\\": \\"zmq\\", '
              b'\\"replay_endpoint\\": \\"tcp://*:5600\\"}"')
    for text in (events, option + b", " + events, events + b", " + option):
        put("server_info", b"\x21{" + text + b', "version": "0.5.20"}', keep=True)


def metrics():
    for path in sorted(glob.glob("tests/data/metrics/*.txt")):
        data = open(path, "rb").read()
        short = b"\n".join(l for l in data.split(b"\n") if b"_bucket" not in l)
        put("metrics", b"\x80\0" + short)
        put("metrics", b"\x21\1HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(short) + short)
        put("metrics", b"\x21\1HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n"
            % len(short) + short + b"\r\n0\r\n\r\n")
    for s in strings_of("tests/unit/feed/test_metrics.c"):
        if len(s) > 8:
            put("metrics", b"\x85\0" + s)
    for s in strings_of("tests/unit/feed/test_http_answer.c"):
        if s.startswith(b"HTTP/"):
            put("metrics", b"\x85\1" + s.replace(b"abc", b"vllm:num_requests_waiting 3\n"))
            put("metrics", b"\x85\1" + s)
    put("metrics",
        b"\x85\0"
        + b"".join(b'vllm:lora_requests_info{max_lora="40",running_lora_adapters="a%d"} %d\n'
                   % (i, i * 37 % 50) for i in range(40)))


def sentencepiece():
    sys.path.insert(0, "tests/tools")
    import oracle_families as families
    text = "the \ufb01ne o\u0301 on\u2122\r\n\u0600ab e\u0301\u0301 \u00a9\u200d".encode()
    for rules in (None, {"a": "b", "ab": "", "o\u0301": "x", "\u3000": " "}):
        table = families.charsmap(rules)
        put("sentencepiece", b"\0" + len(table).to_bytes(2, "big") + table + text)
    pieces = [("<unk>", 0, 2), ("<s>", 0, 3), ("a", -1, 1), ("b", -1, 1), ("ab", -1, 1),
              ("\u2581", -3, 1), ("\u2581\u2581", -9, 1), ("\u2581ab", -9, 1)]
    raw = [(f"<0x{b:02X}>", 0, 6) for b in range(256)]
    for more in ([], [("<user>", 0, 4), ("\t\t", 0, 4)]):
        put("sentencepiece", b"\1" + families.model(pieces + more + raw, one_space=not more))
    put("sentencepiece", b"\1" + families.model(pieces + raw, families.charsmap({"b": "a"})))
    for more in ([], raw):
        put("sentencepiece", b"\1" + families.model(pieces + more, kind=1, fallback=bool(more)))
    users = [(u, 0, 4) for u in ("a b", "aa", "\u2581x", " ", "o\u0301", "on", "onx")]
    for kind in (1, 2):
        for how in range(4):
            put("sentencepiece", b"\1" + families.model(
                pieces + users + (raw if kind == 2 else []), families.charsmap(), how & 1, True,
                kind, kind == 2, how >> 1))
    put("sentencepiece", b"\1" + families.model(
        pieces + [("z" * n, 0, 4) for n in range(1, 68)], kind=1, fallback=False))
    for name in families.MODELS:
        put("sentencepiece", b"\1" + open(f"tests/data/tok/{name}.model", "rb").read())
    for flags in range(16):
        put("lexicon", bytes([flags | 0x80, 9]) + bytes(range(3, 90)) * 2)


def tokenizers():
    for path in sorted(glob.glob("tests/data/tok/*.tokenizer.json")):
        put("tokenizer", b"\0" + open(path, "rb").read() + b"\0the <|end|> \xe6\x97\xa5 word\xff")
    for case in open("tests/data/tok/bad.txt", "rb").read().split(b"\n=== ")[1:]:
        text = b"\n".join(case.split(b"\n=> ")[0].split(b"\n")[1:])
        kind = 1 if text.startswith(b"--- config") else 2 if text.startswith(b"--- ranks") else 0
        put("tokenizer", bytes([kind])
            + (text.split(b"\n", 1)[1] if kind else text).replace(b"\\xff", b"\xff") + b"\0ab")
    ranks = open("tests/data/tok/small.tiktoken", "rb").read()
    for pattern in range(5):
        for normalizer in range(3):
            put("tokenizer", bytes([2 + 4 * pattern + 20 * normalizer]) + ranks
                + b"\0the routers \xe6\x97\xa5 12 e\xcc\x81<|im_end|>\xcc\xb8")
    put("tokenizer", b"\0" + open("tests/data/tok/small.tekken.json", "rb").read()
        + b"\0the [INST] routers\xff \xe6\x97\xa5 12")
    put("tokenizer", b"\2\n\x0e\n\5<unk>\x15\1\1\1\1\x18\2\x12\7\n\3a.b\x18\2")
    good = (b'{"model": {"vocab": {"a": 0, "b": 1, "ab": 2, "\\u2581": 3, "<0x20>": 4, "u": 5}, '
            b'"merges": [["a", "b"]], "unk_token": "u"%s}%s}\0ab\xffa c')
    put("tokenizer",
        b"\0" + good % (b', "fuse_unk": true, "byte_fallback": true, "ignore_merges": true', b""))
    for extra in (b'"normalizer": {"type": "NFC"}',
                  b'"normalizer": {"type": "Strip", "strip_left": true, "strip_right": false}',
                  b'"normalizer": {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}',
                  b'"pre_tokenizer": {"type": "Punctuation"}',
                  b'"pre_tokenizer": {"type": "Digits", "individual_digits": true}',
                  b'"pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "c"}',
                  b'"pre_tokenizer": {"type": "WhitespaceSplit"}',
                  b'"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": '
                  b'"never", "add_prefix_space": false, "split": true}',
                  b'"pre_tokenizer": {"type": "Split", "pattern": {"String": "b"}, "behavior": '
                  b'"MergedWithNext", "invert": true}',
                  b'"post_processor": {"type": "BertProcessing", "sep": ["a", 0], "cls": ["b", 1]}',
                  b'"post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, '
                  b'{"type": "RobertaProcessing", '
                  b'"sep": ["a", 0], "cls": ["b", 1], "trim_offsets": true, "add_prefix_space": '
                  b'false}]}'):
        put("tokenizer", b"\0" + good % (b"", b", " + extra))
    for cls in (b"LlamaTokenizerFast", b"GemmaTokenizer", b"GPTNeoXTokenizerFast", b"Other"):
        put("tokenizer",
            b'\1{"tokenizer_class": "%s", "add_bos_token": true, "add_eos_token": true, '
            b'"bos_token": "a", "eos_token": {"content": "b"}, '
            b'"additional_special_tokens": ["x", {"content": "y", "lstrip": true}], '
            b'"added_tokens_decoder": {"9": {"content": "z"}}}\0axyzb' % cls)
    put("tokenizer", b"\3\4\3\0<a>\3\1<b>\2\2  \4\4<a>>c <a>> <b>   x<a", keep=True)
    put("tokenizer", b"\3\3\5\x08<|e|>\2\x08|>\1\x0cn<|e|>\xcc\xb8<|e|>\xcc\x81n\xcc\x83|>")
    put("tokenizer", b"\3\2\1\7a\3\7 a \1\0 a  a a _a\xe3\x80\x80a")


# ---- scripts for serve 

def route(conn, uid, pool, load, turns, how=0, name=0, seq=0, cut=0, path=0, tenant=0, model=2):
    body = bytes([len(turns) | how]) + bytes(turns)
    return bytes([15, conn, 0, 0, name, seq, uid,
                  pool]) + load + bytes([path, tenant, model, 0]) + body + bytes([0, cut, 0, 0x80])


def fact(conn, uid, srv, st=0, ct=0, end=0, what=4):
    return bytes([15, conn, 0, what, uid, srv, st, ct, end, 20, 0, 0x80])


def serve():
    load = bytes([4, 0xa0, 0xa1, 0xa2, 0xa0])
    talk = route(0, 0, 0, load, [0x91, 0x52]) + fact(1, 0, 0) + fact(1, 0, 0, what=6)
    put("serve", talk)
    put("serve", talk * 3 + route(1, 1, 0, load, [0x91, 0x52, 0x73]) + bytes([5, 3, 200, 5]))
    put("serve", bytes([6, 0x77]) + talk + bytes([6, 0x81]) + talk + bytes([4, 255, 255, 5]) + talk)
    sliced = b"".join(route(i % 3, 3, 0, load, [0x91, 0x92, 0xf3, 0xf4], name=n, cut=c)
                      for i, (n, c) in enumerate(
        [(0, 200), (3, 150), (4, 100), (5, 0)]))
    put("serve", sliced + fact(0, 3, 1))
    put("serve",
        b"".join(route(i % 3, i % 8, i % 2, load, [0x91, 0x92, 0xf3, 0xf4], name=2, cut=c,
                       tenant=i % 4, how=h, model=m)
                 for i, (c, h, m) in enumerate([(0, 0, 0), (90, 0, 0), (0, 8, 0), (200, 8, 0),
                                                (3, 0x40, 1), (120, 0x48, 0)] * 4)))
    put("serve",
        b"".join(route(i % 3, i % 8, i % 4, load, [0x11 * (i % 9 + 1)] * 3, seq=0x80 | i % 4,
                       cut=i * 9,
                       how=0x48 if i % 3 else 8, path=i % 8, tenant=i % 4) for i in range(24)))
    put("serve", b"".join(fact(i % 3, i % 8, i % 8, i % 8, i % 4, i % 8, 4 + i % 3)
                          for i in range(16)) + talk)
    put("serve", bytes([0, 0xf1, 1]) + bytes([15, 0, 2 + 8 * 4 + 0x80]) + talk[3:]
        + bytes([4, 0, 255]) + talk)
    put("serve",
        b"".join(route(0, i % 8, 0, load, [0x10 * (i % 15) + 1, 0x81], how=8, tenant=i % 4)
                 + fact(0, i % 8, 0, what=6)
                 for i in range(30)) + route(0, 0, 0, load, [1, 0x81], how=8, cut=60, tenant=1))
    put("serve", b"".join(route(0, i % 8, 0, load, [0x11 * (i % 15) + 1, 0x13 + i], how=8)
                          for i in range(60)))
    put("serve",
        b"".join(route(0, i % 8, 0, load,
                       [(0xf1 + i % 13 + k * 3) % 256 for k in range(7)][::-1 if i % 2 else 1])
                 for i in range(40)))
    put("serve",
        b"".join(route(0, 0xc0 + i % 64, 0, load, [(37 * i + 11 * k + 200) % 256 for k in range(7)])
                 + fact(1, 0xc0 + i % 64, i % 3, what=6)
                 for i in range(120)))
    put("serve",
        b"".join(route(i % 3, 0xc0 + i, 0, bytes([0x44, i, 0xa0, 0xa1, 0xa2, 0xa0]), [0x91, i],
                       cut=i % 3 * 50, name=i % 2 * 3,
                       seq=0x80 if i > 30 else 0) for i in range(60)) + bytes([5])
        + fact(0, 0xc3, 1))
    put("serve", bytes([9, 0, 0, 0, 2, 0x91, 0x52, 0]) + talk
        + bytes([9, 0, 0, 0, 2, 0x91, 0x52, 1, 9, 0, 2, 2, 0x80, 0, 3, 91, 93, 0, 0]))
    put("serve",
        b"".join(route(0, i % 8, 0, load, [0x31], seq=0x80)[:-1] + bytes([t, k, 3, 45, 49, 50])
                 for i, (k, t) in enumerate([(0, 4), (1, 4), (2, 8), (5, 8), (6, 9), (5, 4), (7, 8),
                                             (8, 8)])))
    put("serve", bytes([15, 0, 0x7c]) + talk[3:] + bytes([15, 1, 0x79]) + talk[3:12] + talk[3:])
    put("serve", bytes([7, 1]) + talk + bytes([7, 0, 8, 1, 0, 8, 0, 1, 0, 0, 0]) + talk)
    def row(pool, server, how, process, holds=200):
        return bytes([13, pool, server, how, process, holds])

    def report(pool, server, capacity, adapters=0, holds=200):
        return bytes([14, pool, server, 4, 9, 128, 16, capacity, adapters, holds])

    rows = b"".join(row(0, i, 4 | i << 4, 0) for i in range(4))
    none = bytes([0])
    put("serve", talk + rows + b"".join(route(i % 3, i % 8, 0, none, [0x91, i]) for i in range(8)),
        keep=True)
    put("serve", talk + rows + row(0, 1, 6, 1) + row(0, 2, 7, 2) + row(0, 3, 0, 3) + talk
        + bytes([3, 100]) + talk, keep=True)
    put("serve", bytes([6, 0x30]) + rows + b"".join(row(0, 0, 0xf4, p, p * 9) for p in range(11))
        + route(0, 0, 0, none, [0x91]) * 3, keep=True)
    put("serve",
        talk + b"".join(report(0, i % 4, 250 - i * 9, i % 40)
                        + route(0, i % 8, 0, load, [0x11 * (i % 15) + 1, 0x31])
                        for i in range(24)) + bytes([5]), keep=True)
    put("serve", talk + b"".join(row(0, 0, 0x14, 0) + bytes([3, 20]) for _ in range(12))
        + route(0, 1, 0, none, [0x91]) * 4 +
        b"".join(row(0, 0, 0x04, 0) + bytes([3, 20]) for _ in range(12)) + bytes([5]), keep=True)
    for i in range(8):
        put("serve", talk + bytes([2, 0, i, i, 7 - i, i, i, 250, i]) + bytes([2, 0x80, 14])
            + b'{"uid":"u1"}xy' + talk)
    fragments = bytes([15, 0, 2 + 8 * 4]) + talk[3:]
    put("serve", fragments + fragments)
    put("serve",
        bytes([15, 0, 0, 7, 20]) + b"\5route\2\3uid\x08\2u1\3abc" + bytes([1, 0, 4, 0, 0, 0, 0]))


# ---- snapshots: the target puts checksums and counts right 

def snapshot(*sections):
    head = b"kvrsnap\n" + struct.pack("<IIIIQQQ", 1, 64, 16, 0, 1, 1, 0)
    return head + b"".join(struct.pack("<IIQ", kind, len(p), 0) + p
                           for kind, p in sections) + struct.pack("<IIQ", 3, 40, 0) + bytes(40)


def snap_space(a, b, tenant=0):
    return struct.pack("<BBHIQQ", 1, 0, tenant, 0, a, b)


def snap_node(parent, pages, owners, unused=0):
    return (struct.pack("<BBHIHHI", 2, 0, len(pages), parent, unused, len(owners), 0)
            + struct.pack("<%dQ" % len(pages), *pages)
            + b"".join(struct.pack("<HHIBBH", s, held, age, hits, 3, 0)
                       for s, held, age, hits in owners))


def snapshots():
    names = b"".join(struct.pack("<HH", i, len(n)) + n
                     for i, n in enumerate([b"a", b"bb", b"?", b"c" * 40]))
    node, owner = snap_node, (0, 1, 5, 1)
    small = (snap_space(1, 2) + node(1, [7, 8, 9], [(0, 3, 1, 1), (1, 2, 0, 9)])
             + node(2, [5], [owner]) + node(2, [6, 6], [(3, 2, 9, 2)]))
    put("snapshot", snapshot())
    put("snapshot", snapshot((1, names), (2, small)))
    put("snapshot", snapshot((1, names), (2, small[:24]), (2, small[24:])))
    put("snapshot", snapshot((2, small), (1, names), (7, b"x")))
    put("snapshot", snapshot((1, names + names), (2, small)))
    put("snapshot",
        snapshot((1, names),
                 (2, small + snap_space(3, 4, 9) + node(5, list(range(300)), [(1, 300, 2, 1)])
                   + node(6, list(range(40)), [(1, 39, 3, 1)]))))
    put("snapshot", snapshot((1, names), (2, snap_space(1, 2, 300))))
    put("snapshot", snapshot((1, names), (2, snap_space(1, 2) + node(1, [1], [owner, owner]))))
    put("snapshot", snapshot((1, names), (2, snap_space(1, 2) + node(1, [1], [(0, 2, 0, 0)]))))
    put("snapshot", snapshot((1, names), (2, snap_space(1, 2) + node(9, [1], [owner]))))
    put("snapshot", snapshot((1, names), (2, snap_space(1, 2) + node(1, [1], [owner], 8))))
    put("snapshot", snapshot((1, names[:5]), (2, b"\x03" + bytes(20))))
    chain = b"".join(node(i + 1, [i], [(i % 2, 1, i, i)]) for i in range(80))
    put("snapshot", snapshot((1, names), (2, snap_space(1, 2) + chain)))


# ---- vocabularies and texts 

def splits():
    lines = open("tests/data/tok/split_families.txt", encoding="utf-8").read().split("\n")
    texts = [re.sub(r"\\\\x(..)", lambda m: chr(int(m[1], 16)),
                    x[1:].replace("|", "")).encode("latin-1", "ignore")
             for x in lines if x.startswith("=")][:60]
    for i, t in enumerate(texts):
        put("split", bytes([0, i % 9, 0, i]) + t)
        put("split", bytes([2, i % 5] + [(i * k * 37) % 256 for k in range(1, 9)]) + t)
        put("split", bytes([3, i % 3] + [(i * k * 11) % 256 for k in range(1, 4)] + [0, i]) + t)
    hub = open("tests/data/tok/split_hub.txt", encoding="utf-8").read().split("\n")
    for i, x in enumerate(x for x in hub if x.startswith("pattern ")):
        p = re.sub(r"\\\\x(..)", lambda m: chr(int(m[1], 16)), x[8:]).encode("utf-8", "ignore")
        put("split", bytes([1, i % 20]) + p + b"\0" + texts[i % 60])
    for p in (rb"[a-w&&[^c-g]]+", rb"(?i:ss|st)+", rb"a{2}?b{,3}+", rb"\\p{Mn}|\\P{Word}|\\h\\H\\R",
              rb"(?<n>a)(?#c)\\A\\z\\G", rb"(a)\\1|\\b\\B"):
        put("split", bytes([1, 4]) + p.replace(b"\\\\", b"\\") + b"\0ass \xc3\x9f 12")


def bpe():
    rng = random.Random(5)
    for flags in range(0, 128, 3):
        merges = [rng.randrange(40) for _ in range(3 * 30)]
        text = [rng.choice([0, 1, 2, 3, 4, 5, 0, 0, 0xf5]) for _ in range(80)]
        put("bpe",
            bytes([rng.randrange(256), rng.randrange(8), flags, rng.randrange(256), 30] + merges
                  + text))
    put("bpe",
        bytes([0, 0, 0, 0, 9] + [0, 0, 1, 9, 9, 1, 10, 10, 1, 11, 11, 1, 12, 12, 1, 13, 13, 1, 0, 9,
                                 1, 9, 10, 1, 10, 11, 1] + [0] * 300))
    # a character of three bytes and two of them; then also longer tokens: tables without a jump
    wide = [4, 5, 1, 12, 6, 1, 13, 13, 1]
    longer = [14, 13, 1, 13, 0, 1, 13, 4, 1]
    text = [3, 3, 3, 0, 3, 3, 0xf5, 0xe4, 3, 0xf5, 0xe4, 0xf5, 0xb8, 3, 3, 3, 3, 3, 2, 3]
    for seed in 0, 7:
        put("bpe", bytes([0, seed, 0, 0, 3] + wide + text), True)
        put("bpe", bytes([0, seed, 8, 0, 6] + wide + longer + text), True)


# ---- KV cache events

def kv_events():
    """The batches of the unit test, and messages in each framing: 0xc1, parts, length and bytes."""
    payload = b""
    for line in open("tests/data/kvevents/events.txt"):
        if line.startswith("batch "):
            payload = b""
        elif line.startswith("\t"):
            payload += bytes.fromhex(line.strip())
        elif payload:
            put("kvevent", payload)
    seq, end = bytes(7) + b"\x29", b"\xff" * 8
    for parts in ([b"t", seq, b"p"], [b"t", b"p"], [b"p"], [b"", seq, b"p"], [b"", b"t", seq, b"p"],
                  [b"", end, b""], [b"", b"t", end, b""], [b"t", b"123", b"p"], [b"t"] * 6, []):
        put("kvevent",
            bytes([0xc1, len(parts)]) + b"".join(bytes([len(p)]) + p for p in parts))


# ---- load of engines

def engine_loads():
    """The cases of the unit tests, after the byte that names their form."""
    for s in strings_of("tests/unit/feed/test_orca.c"):
        if b"=" in s or b"{" in s or b":" in s:
            put("engine_load", b"\0" + s)
    for s in strings_of("tests/unit/feed/test_sgl_load.c"):
        if b"loads" in s or b"num_" in s:
            put("engine_load", b"\x02" + s)
    tag, ranks = b"\xa8LoadStat", b'{"num_running_reqs":%d,"num_waiting_reqs":1}'
    names = [b"num_running_reqs", b"num_waiting_reqs", b"num_tokens", b"max_total_num_tokens",
             b"attn_dp_rank", b"x"]
    for n in range(1, 9):
        put("engine_load", b"\x01" + bytes([0x90 + n]) + tag
            + bytes([5, 2, 9, 100, 1, 0xc0, 0x90])[:n - 1])
    put("engine_load", b"\x01" + bytes([0x81 + len(names)]) + b"\xa4type" + tag
        + b"".join(bytes([0xa0 + len(n)]) + n + bytes([i]) for i, n in enumerate(names)))
    put("engine_load", b'\x05{"loads":[' + b",".join(ranks % i for i in range(66)) + b"]}")


# ---- saved events: the target puts checksums and counts right

def saved_events():
    def frames(*parts):
        return (b"kvrevts\n" + struct.pack("<IIQQ", 1, 0, 0, 0)
                + b"".join(struct.pack("<IIQ", kind, len(p), 0) + p for kind, p in parts)
                + struct.pack("<IIQ", 3, 32, 0) + bytes(32))

    def run(parent, off, keys):
        return struct.pack("<IBBH%dQ" % len(keys), parent, off, len(keys), 0, *keys)

    def records(server, rank, pages, *recs):
        return struct.pack("<HHI", server, rank, pages) + b"".join(
            struct.pack("<QII", (h << 10) | (off << 4), r, copies) for h, off, r, copies in recs)

    root = struct.pack("<IBBHQ", 0, 0, 0, 0, 77)
    tree = (root + run(1, 0, [1, 2, 3]) + run(2, 1, [4, 5]) + run(2, 2, list(range(64)))
            + run(4, 63, [9]))
    some = records(1, 0, 1, (5, 0, 2, 1), (6, 1, 2, 1), (7, 2, 2, 0x11), (8, 0, 3, 0x20),
                   (9, 0, 5, 1))
    put("events_saved", frames())
    put("events_saved", frames((1, tree), (2, some)))
    put("events_saved", frames((1, tree[:len(root)]), (1, tree[len(root):]), (2, some),
                               (2, records(1, 1, 4, (5, 1, 4, 1), (6, 1, 4, 3))), (2, some)))
    put("events_saved",
        frames((1, run(2, 0, [1]) + root), (2, records(0, 0, 1, (1, 0, 1, 0x8421)))))
    put("events_saved", frames((1, run(2, 0, [1]) + run(1, 0, [2])), (2, some)))
    put("events_saved", frames((1, run(1, 0, [1])), (2, some)))
    put("events_saved",
        frames((1, root + root + run(1, 0, [1, 2]) + run(2, 0, [1, 2]) + run(3, 0, [2])),
               (2, records(1000, 0, 1, (1, 0, 3, 1)))))
    put("events_saved", frames((1, tree), *[(2, records(s, 0, 1, (5, 0, 2, 1), (6, 1, 2, 1)))
                                            for s in range(30)]))
    put("events_saved", frames((2, some), (1, tree), (7, b"x")))


# ---- batches of other agents 

def leb(v):
    out = b""
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def share():
    def entry(kind, payload):
        return struct.pack("<I", kind | len(payload) << 8) + payload

    def name(pool, server):
        return entry(0, leb(len(pool)) + pool + leb(len(server)) + server)

    uid, page, head = b"UUUUUUUU", b"PPPPPPPP", b"\0"
    space = page * 2 + leb(3) + leb(16) + leb(17)
    anchors = [leb(0), leb(64) + page]
    tokens = leb(1600) + leb(34000) + leb(32000)
    placed = [uid * 2 + head + space + a + b"\3" + bytes([flags]) + leb(700000) + leb(0) + tokens
              + leb(12) + grown + leb(16) + end + leb(n) + page * n
              for a, flags, grown, end, n in [
                  (anchors[0], 1, b"\0", b"", 3), (anchors[1], 0, b"\2" + leb(900), b"", 0),
                  (anchors[1], 30, b"\0", page + leb(34000) + leb(77777) + leb(3), 40)]]
    facts = [uid * 2 + leb(flags) + head + leb(201) + leb(1) + leb(5) * 4 + leb(70000) + leb(800)
             + leb(1) + leb(40001) + leb(301) for flags in (0, 1, 2, 7)]
    ends = leb(2) + (page + leb(12)) * 2
    some = ([name(b"llm", b"s1")] + [entry(1, p) for p in placed] + [entry(2, f) for f in facts]
            + [entry(3, uid + b"\1"), entry(4, head + space + anchors[1] + b"\5\6" + leb(9000)
                                            + leb(2) + page * 2),
               entry(5, head + b"\1" + leb(5000)), entry(6, head + leb(1000000) * 2 + leb(1 << 30)),
               entry(7, leb(20) + b"b" * 20), entry(8, b"\1" + leb(300)),
               entry(9, head + leb(16) + leb(200) + leb(0) + leb(4) + page * 4),
               entry(10, head + leb(3) + uid + ends), entry(11, head + uid + ends)])
    for e in some:
        put("share", b"\1" + name(b"llm", b"s1") + e)
        put("share", b"\1" + name(b"llm", b"s1") + e[:-3])
    put("share", b"\1" + b"".join(some))
    put("share", b"\1" + name(b"", b"") + name(b"a", b"b") + entry(5, b"\1\0\0more")
        + entry(99, b"new") + entry(8, b"\0\5"))
    put("share", b"\1" + name(b"n" * 127, b"m" * 127) + entry(5, b"\0\0\0") + name(b"n" * 128, b""))
    put("share", b"\1" + name(b"a", b"b") * 257 + entry(5, b"\1\0\0"))
    put("share", b"\1" + entry(8, b"\0" + b"\xff" * 9 + b"\1") + entry(8, b"\0" + b"\xff" * 10)
        + entry(8, b""))
    put("share", b"\0kvs\1" + b"\0" * 60)
    put("share", b"\0kvs\1" + b"\0" * 20)
    rng = random.Random(5)
    for kinds in ([0, 0, 3, 4], [0, 1, 2, 3, 4, 5], [2, 2, 2, 3, 4], [2, 2, 2, 2, 0, 3, 5],
                  [0, 3, 3, 3, 4, 6, 7], [0x40 + 3, 3, 0, 4, 4]):
        script = b""
        for _ in range(300):
            op = rng.choice(kinds) | rng.choice([0, 0x80]) | rng.choice([0, 8, 24])
            script += bytes([op]) + (bytes([rng.randrange(256)]) if op & 7 == 2 else b"")
        put("share", b"\2" + script)


# ---- chat templates 

def templates():
    """The cases of the unit tests: template, NUL, variables."""
    for path in sorted(glob.glob("tests/data/jinja/*.txt")):
        template, variables, inside = [], "{}", False
        for line in open(path, encoding="utf-8", newline="").read().split("\n"):
            if line.startswith("== "):
                template, variables, inside = [], "{}", True
            elif inside and line.startswith("-- "):
                variables = line[3:]
            elif inside and line[:3] in ("-> ", "!! ", "?? ", "XX "):
                put("jinja", "\n".join(template).encode() + b"\0" + variables.encode())
                inside = False
            elif inside:
                template.append(line)


def chats():
    """Bodies for gpt-oss: for harmony and a template, whole and cut."""
    for api, name in ((0, "gpt_oss"), (2, "gpt_oss_items")):
        for case in json.load(open(f"tests/data/chat/{name}.json", encoding="utf-8")):
            raw = case["body"].encode()
            if len(raw) > 1500:
                continue
            for template in (3, 0):
                put("chat", bytes([8 * api + template, 0]) + raw)
                put("chat", bytes([8 * api + template, 1]) + raw[:len(raw) * 2 // 3])


bodies()
chats()
kv_events()
engine_loads()
templates()
snapshots()
saved_events()
share()
bpe()
splits()
spop()
conf()
lines()
requests()
streams()
stats()
metrics()
server_info()
tokenizers()
sentencepiece()
serve()
