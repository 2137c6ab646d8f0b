#!/usr/bin/env python3
"""pf_models.py [-k WORD] - tokenizers in a running agent: loaded at the start, from images, at
reloads in the sandbox, under load.

The tokenizers are made here: byte-level, with as many merges as a story needs. The last line is "N
passed, N failed".
"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from agent import BUILD, SANITIZED, Agent, equal, main, request, wait_for  # noqa: E402

CASES = []
BIG = 150000            # merges: as many as the largest vocabularies have


def case(f):
    CASES.append(f)
    return f


def alphabet():
    """Return the character of each byte in a byte-level vocabulary."""
    seen = [b for b in range(256) if 33 <= b <= 126 or b >= 161 and b != 173]
    unseen = [b for b in range(256) if b not in seen]
    return {**{b: chr(b) for b in seen}, **{b: chr(256 + i) for i, b in enumerate(unseen)}}


def tokenizer(merges=50, seed=1, **more):
    """Return the text of a tokenizer.json."""
    rng = random.Random(seed)
    vocab = {c: b for b, c in sorted(alphabet().items())}
    parts = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pairs = []
    while len(pairs) < merges:
        a, b = rng.choice(parts), rng.choice(parts)
        if a + b in vocab or len(a + b) > 16:
            continue
        vocab[a + b] = len(vocab)
        pairs.append(a + " " + b)
        if len(parts) < 4000:
            parts.append(a + b)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab,
             "merges": pairs}
    return json.dumps({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
                       "normalizer": None,
                       "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
                       "model": model, **more},
                      ensure_ascii=False)


class Models(Agent):
    """An agent with models in <folder>/models, and the lines of its log about them."""

    def __init__(self, models="", files=None, **kw):
        super().__init__(**kw)
        self.dir = os.path.join(self.folder, "models")
        os.makedirs(self.dir, exist_ok=True)
        for name, text in (files or {}).items():
            self.put(name, text)
        self.name_models(models)

    def name_models(self, models):
        self.agent_conf = "models_dir: %s\nindex: {max_bytes: 16 MiB}\nmodels: [%s]" % (
            self.dir, models)

    def put(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(text.encode() if isinstance(text, str) else text)
        return path

    def image(self, name):
        return os.path.join(self.dir, name + ".kvroute")

    def loaded(self, start=0):
        """Return (model, source) of each tokenizer loaded according to the log from <start>."""
        return re.findall(r'msg="tokenizer loaded" model=(\S+) .*source=(\w+)', self.log()[start:])

    def hup(self, models, want):
        """Reload, and return the log lines of it."""
        self.name_models(models)
        self.write("kvroute.yaml", self.agent_yaml())
        start = len(self.log())
        self.processes["agent"].send_signal(signal.SIGHUP)
        return wait_for("%r in the log" % want, 30,
                        lambda: (lambda s: s if want in s else "")(self.log()[start:]))

    def again(self):
        """Stop and start the agent. Return the models that were loaded, and the warnings."""
        equal(self.end("agent"), 0, "exit status")
        start = len(self.log())
        self.start()
        return self.loaded(start), [s for s in self.log()[start:].splitlines() if "level=warn" in s
                                    and "compiled" in s]

    def works(self, model="m"):
        """Check that a prompt is known when it is sent again."""
        body = json.dumps({"model": model,
                           "prompt": "tokens of %s and words of a prompt, " % model * 30})
        with self.client() as c:
            for i in range(2):
                uid = "%s-%d-%d" % (model, i, time.monotonic_ns())
                a = c.notify("route", request(uid, body, path="/v1/completions"))
                c.notify("first",
                         {"uid": uid, "srv": a["txn.server"], "st": 200, "ct": "application/json"})
                c.notify("done", {"uid": uid, "be": "llm", "srv": a["txn.server"], "st": 200,
                                  "ts": "--", "tr": 5})
        assert a["txn.prompt_pages"] > 0, "no pages: %r" % a
        assert a["txn.hit"] > 0, "its own prompt is not known: %r" % a


def model(name, file, more=""):
    return "{name: %s, mode: tokens, tokenizer: %s%s}" % (name, file, more and ", " + more)


@case
def the_next_start_takes_the_image():
    with Models(model("m", "a/tokenizer.json"), {"a/tokenizer.json": tokenizer(BIG // 2)}) as f:
        equal(f.loaded(), [("m", "json")], "at first")
        f.works()
        equal(os.stat(f.image("a/tokenizer.json")).st_mode & 0o137, 0,
              "who else may write to the image, or others read it")
        equal(f.again(), ([("m", "image")], []), "at the next start")
        f.works()
        ms = [int(x) for x in re.findall(r'msg="tokenizer loaded".* ms=(\d+)', f.log())]
        print("      %d merges: %d ms from tokenizer.json, %d ms from the image" % (BIG // 2, *ms))
        m = f.metrics()
        assert m['kvroute_tokenizer_bytes{model="m"}'] > 1e6, "kvroute_tokenizer_bytes"
        assert 0 < m['kvroute_tokenizer_load_seconds{model="m",source="image"}'] < 60, (
            "kvroute_tokenizer_load_seconds")


@case
def a_bad_image_is_one_line_and_made_anew():
    with Models(model("m", "a/tokenizer.json"),
                {"a/tokenizer.json": tokenizer(5000), "b/tokenizer.json": tokenizer(5000, 2)}) as f:
        image = f.image("a/tokenizer.json")
        with open(image, "rb") as g:
            good = g.read()
        f.name_models(model("m", "b/tokenizer.json"))
        f.again()
        with open(f.image("b/tokenizer.json"), "rb") as g:
            other = g.read()
        f.name_models(model("m", "a/tokenizer.json"))
        flipped = bytearray(good)
        flipped[len(good) // 2] ^= 1
        bad = {"empty": b"", "half-written": good[:len(good) // 2], "one byte short": good[:-1],
               "damaged": bytes(flipped),
               "foreign": other, "of another version": good[:16] + b"0.0.1\0" + good[22:],
               "no image": b"x" * 5000}
        for what, data in bad.items():
            with open(image, "wb") as g:
                g.write(data)
            loaded, warnings = f.again()
            equal((loaded, len(warnings)), ([("m", "json")], 1), what)
            with open(image, "rb") as g:
                equal(g.read() == good, True, "the image made anew: " + what)
        f.put("a/tokenizer.json", tokenizer(5001))
        loaded, warnings = f.again()
        equal((loaded, len(warnings)), ([("m", "json")], 1), "old")
        os.chmod(image, 0o666)
        loaded, warnings = f.again()
        equal((loaded, len(warnings)), ([("m", "json")], 1), "one that all may write to")
        equal(f.again(), ([("m", "image")], []), "at last")
        f.works()


@case
def a_crash_leaves_no_half_image():
    with Models(model("m", "a/tokenizer.json"), {"a/tokenizer.json": tokenizer(BIG // 2)}) as f:
        f.end("agent")
        image = f.image("a/tokenizer.json")
        for i in range(12):
            if os.path.exists(image):
                os.unlink(image)
            f.spawn_agent()
            time.sleep(0.15 + 0.05 * i)
            f.end("agent", signal.SIGKILL)
            whole = os.path.exists(image)
            f.spawn_agent()
            wait_for("the agent", 30, lambda: f.get("/ready", f.metrics_port)[0] == 200)
            equal(f.loaded()[-1], ("m", "image" if whole else "json"), "after a crash")
            f.end("agent")
            left = [n for n in os.listdir(os.path.dirname(image)) if ".tmp." in n]
            equal(left, [], "files that were left")
        equal([s for s in f.log().splitlines() if "is not used" in s], [],
              "images that were refused")
        f.start()


@case
def a_reload_takes_tokenizers_in_the_sandbox():
    files = {"a/tokenizer.json": tokenizer(2000), "blobs/12": tokenizer(2000, 2),
             "bad.json": '{"model":\n {"type": "WordLevel"}}'}
    with Models(model("m", "a/tokenizer.json"), files) as f:
        f.works()
        os.makedirs(os.path.join(f.dir, "snap"))
        os.symlink("../blobs/12", os.path.join(f.dir, "snap/tokenizer.json"))
        both = model("m", "a/tokenizer.json",
                     "aliases: [n]") + ", " + model("k-*", "snap/tokenizer.json", "block_size: 32")
        said = f.hup(both, "msg=reloaded")
        equal(re.findall(r'msg="tokenizer loaded" model=(\S+)', said), ["k-*"],
              "what was loaded; the other is kept")
        f.works("m")
        f.works("k-1")
        f.put("new/tokenizer.json", tokenizer(2000, 3))        # put there while it runs
        said = f.hup(both + ", " + model("z", "new/tokenizer.json"), "msg=reloaded")
        equal(re.findall(r'msg="tokenizer loaded" model=(\S+)', said), ["z"], "what was loaded")
        f.works("z")
        f.put("a/tokenizer.json", tokenizer(1999))             # other content
        said = f.hup(both, "msg=reloaded")
        equal(re.findall(r'msg="tokenizer loaded" model=(\S+)', said), ["m"], "what was loaded")
        f.works("m")
        equal([s for s in f.log().splitlines() if "level=info" not in s], [], "complaints")
        secret = os.path.join(f.folder, "secret.json")
        with open(secret, "w") as g:
            g.write(tokenizer(10))
        os.symlink("../secret.json", os.path.join(f.dir, "out.json"))
        os.symlink(secret, os.path.join(f.dir, "absolute.json"))
        os.symlink(f.folder, os.path.join(f.dir, "up"))
        os.mkfifo(os.path.join(f.dir, "pipe"))
        refused = [("out.json", "leads out of it"), ("absolute.json", "leads out of it"),
                   ("up/secret.json", "leads out of it"),
                   ("pipe", "not a regular file"), ("missing.json", "No such file"),
                   ("a", "directory"), ("../secret.json", "has .. in it"),
                   (secret, "not beneath models_dir"), ("bad.json", "WordLevel")]
        for name, why in refused:
            said = f.hup(both + ", " + model("bad", name),
                         "reload refused; the old configuration stays")
            assert why in said, "%s: %r is not in %s" % (name, why, said)
            assert "msg=reloaded" not in said, "taken: " + name
        assert "bad.json line=2 column=" in said, "no place: " + said
        f.works("m")
        f.works("k-2")
        equal(f.end("agent"), 0, "exit status")
        print("      4 reloads taken, %d refused with their reason" % len(refused))


@case
def a_pattern_that_a_reload_compiles_is_no_alarm():
    """PCRE2 requests executable memory, which the sandbox refuses. It then works without, and no
    refusal is counted."""
    t = json.loads(tokenizer(200))
    split = {"type": "Split", "pattern": {"Regex": "[a-f]+|[^a-f]+?x|."}, "behavior": "Isolated",
             "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": False}
    t["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, level]}
    with Models("", {"a/tokenizer.json": json.dumps(t)}) as f:
        f.hup(model("m", "a/tokenizer.json"), "msg=reloaded")
        f.works("m")
        equal(f.metrics()['kvroute_sandbox_refused_total{process="agent"}'], 0, "calls refused")
        equal([s for s in f.log().splitlines() if "level=info" not in s], [], "complaints")
        equal(f.end("agent"), 0, "exit status")


@case
def a_check_loads_them_too():
    with Models() as f:
        f.put("a/tokenizer.json", tokenizer(300))
        f.put("bad.json", '{"model":\n {"type": "WordLevel"}}')
        for name, rc, want in (("a/tokenizer.json", 0, ""), ("bad.json", 1, "models/bad.json:2:"),
                               ("missing.json", 1, "No such file")):
            f.name_models(model("m", name))
            p = subprocess.run([os.path.join(BUILD, "kvroute"), "-t", "-f",
                                f.write("check.yaml", f.agent_yaml())],
                               capture_output=True, text=True)
            equal((p.returncode, want in p.stderr), (rc, True),
                  "kvroute -t with %s: %s" % (name, p.stderr))
        equal(os.path.exists(f.image("a/tokenizer.json")), False, "an image made by a check")


class Asking(threading.Thread):
    """Requests one after the other, and the time of each."""

    def __init__(self, f, i):
        super().__init__()
        self.f, self.i, self.ms, self.errors, self.stop = f, i, [], [], False

    def run(self):
        try:
            with self.f.client() as c:
                while not self.stop:
                    n = len(self.ms)
                    body = json.dumps({"model": "m", "prompt": "turn %d of somebody %d, "
                                       % (n // 4, self.i) * 60})
                    start = time.monotonic()
                    a = c.notify("route",
                                 request("u-%d-%d" % (self.i, n), body, path="/v1/completions"))
                    self.ms.append((start, (time.monotonic() - start) * 1000))
                    if a.get("txn.server", "") == "":
                        self.errors.append(a)
                    time.sleep(0.002)
        except Exception as e:                  # noqa: B902, raised again after join()
            self.errors.append(e)


@case
def loading_a_tokenizer_delays_no_request():
    """Loading takes the main thread long; requests must not wait a large part of that time."""
    with Models(model("m", "a/tokenizer.json"), {"a/tokenizer.json": tokenizer(500)}) as f:
        big = tokenizer(BIG)
        for i in range(4):
            f.put("big%d/tokenizer.json" % i, big + "\n" * i)     # another content
        askers = [Asking(f, i) for i in range(4)]
        for t in askers:
            t.start()
        try:
            time.sleep(1)
            spans, took = [], []
            for i in range(4):
                start = time.monotonic()
                said = f.hup(model("m", "big%d/tokenizer.json" % i), "msg=reloaded")
                spans.append((start, time.monotonic()))
                took += [int(x) for x in re.findall(r'msg="tokenizer loaded".* ms=(\d+)', said)]
            time.sleep(0.5)
        finally:
            for t in askers:
                t.stop = True
            for t in askers:
                t.join()
        equal([e for t in askers for e in t.errors], [], "errors")
        every = [x for t in askers for x in t.ms]
        during = sorted(ms for at, ms in every if any(a <= at <= b for a, b in spans))
        idle = sorted(ms for at, ms in every if at < spans[0][0])
        # answers of each client during each load: a count, so the speed of the machine cancels out
        answers = [sum(a <= at and at + ms / 1000 <= b for at, ms in t.ms)
                   for a, b in spans for t in askers]
        print("models: loads=%d ms=%s requests=%d p50_ms=%.2f p99_ms=%.2f max_ms=%.1f "
              "least_answers=%d; "
              "before: p50_ms=%.2f p99_ms=%.2f max_ms=%.1f"
              % (len(took), "/".join(map(str, took)), len(during), during[len(during) // 2],
                 during[len(during) * 99 // 100],
                 during[-1], min(answers), idle[len(idle) // 2], idle[len(idle) * 99 // 100],
                 idle[-1]))
        equal(len(took), 4, "tokenizers loaded")
        assert len(during) > 100, "too few requests to say anything: %d" % len(during)
        # A client whose thread waits for a load gets one or two answers during it: before the agent
        # has seen the signal, and after it wrote the line.
        if min(took) < 100:
            print("skipped: models: this machine loads %d merges within %d ms, too fast to see who "
                  "waits" % (BIG, min(took)))
        else:
            assert min(answers) >= 5, "an asker had %d answers during a load" % min(answers)
            assert during[-5] < max(took), "several waited %.0f ms" % during[-5]
        m = f.metrics()
        assert m["kvroute_process_resident_memory_bytes"] < 1.15 * budget(f) + (
            32 << 20), "more memory than was said"


def budget(f):
    """Return the sum that kvroute -tv prints for the current file, in bytes."""
    p = subprocess.run([os.path.join(BUILD, "kvroute"), "-tv", "-f",
                        os.path.join(f.folder, "kvroute.yaml")],
                       capture_output=True, text=True, check=True)
    return int(re.search(r"takes (\d+) MiB at most", p.stdout).group(1)) << 20


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
