#!/usr/bin/env python3
"""engine.py - compare the agent's hits with the cache of real engines.

    ENGINES="127.0.0.1:8001 127.0.0.1:8002" TOKENIZER=/path/to/tokenizer.json make engine-test

Real inference servers (vLLM with --enable-prompt-tokens-details) behind HAProxy and the agent get
more conversations than their caches hold, in turn, so that each finds its own evicted in part. The
pages that the agent expected are compared with the "cached_tokens" of each answer. Prints a line of
figures and exits with 1 if fewer than LEAST of them are exact. Engines must be idle with empty
caches.

    USERS=4           concurrent requests; more than the engines accept cause queues
    CONVERSATIONS=26  TURNS=5
    WORDS=3           length of a message: 1 is 20 to 300 words
    STREAM=1  MAX_TOKENS=8  SEED=1  MODEL=m  HAPROXY=build/haproxy/3.2/haproxy
    MODE=text         without the tokenizer: then an error of less than a block counts as exact
    LEAST=0.95        share that must be exact
    OUT=FILE          a line of JSON for each request
"""
import collections
import http.client
import json
import os
import random
import re
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fleet

WORDS = "alpha beta gamma delta server cache prompt token route balance engine holds " \
    "longest part of the its in a to and or not der die das Größe 東京 привет " \
    "naïve don't 12345 foo_bar".split()


def number(name, default):
    return type(default)(os.environ.get(name, default))


class Engines(fleet.Fleet):
    """A fleet whose engines already run."""
    learns = True

    def __init__(self, addresses, **kw):
        super().__init__(engines=len(addresses), **kw)
        self.addresses = addresses

    def start_engine(self, name):
        host, port = self.addresses[self.names.index(name)].rsplit(":", 1)
        if host not in ("127.0.0.1", "localhost"):
            raise SystemExit("engine.py: engines must be on 127.0.0.1, not on %s" % host)
        self.engines[name] = int(port)


def config_of(address):
    """{label: value} of the engine's cache."""
    c = http.client.HTTPConnection(address, timeout=10)
    c.request("GET", "/metrics")
    text = c.getresponse().read().decode()
    found = re.search(r"(?m)^vllm:cache_config_info\{(.*)\}", text)
    if not found:
        raise SystemExit("engine.py: %s says nothing of its cache: no vllm:cache_config_info"
                         % address)
    return dict(re.findall(r'(\w+)="([^"]*)"', found.group(1)))


class Load:
    def __init__(self, f, block):
        self.f, self.block = f, block
        self.n, self.turns = number("CONVERSATIONS", 26), number("TURNS", 5)
        self.seed, self.scale = number("SEED", 1), number("WORDS", 3)
        self.max_tokens, self.stream = number("MAX_TOKENS", 8), bool(number("STREAM", 1))
        self.model, self.pause = number("MODEL", "m"), number("PAUSE", 0.5)
        r = random.Random(self.seed)
        shared = [self.words(r, 300) for _ in range(3)]
        self.talk = [[{"role": "system", "content": shared[i % 3]}] for i in range(self.n)]
        self.random = [random.Random(self.seed * 1000 + i) for i in range(self.n)]
        self.queue = collections.deque((c, t) for t in range(self.turns) for c in range(self.n))
        self.rows, self.lock = [], threading.Lock()
        self.answered = collections.Counter()
        self.changed = threading.Condition(self.lock)

    @staticmethod
    def words(r, n):
        return " ".join(r.choice(WORDS) for _ in range(n))

    def ask(self, c, t):
        r, talk = self.random[c], self.talk[c]
        talk.append({"role": "user",
                     "content": self.words(r, r.choice([20, 60, 150, 300]) * self.scale)})
        more = {"stream_options": {"include_usage": True}} if self.stream else {}
        a = self.f.chat(talk, model=self.model, stream=self.stream, max_tokens=self.max_tokens,
                        temperature=0, ignore_eos=True, **more)
        row = {"conversation": c, "turn": t, "status": a.status, "why": a.why, "server": a.server,
               "hit": a.hit,
               "pages": int(a.pages or 0), "prompt_pages": int(a.prompt_pages or 0)}
        if a.status == 200:
            usage = [e["usage"] for e in a.events()
                     if e.get("usage")][-1] if self.stream else a.json()["usage"]
            row["prompt"] = usage["prompt_tokens"]
            row["cached"] = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        talk.append({"role": "assistant", "content": a.text() if a.status == 200 else ""})
        return row

    def user(self):
        while True:
            with self.lock:
                if not self.queue:
                    return
                c, t = self.queue.popleft()
                while self.answered[c] < t:     # the turn before it
                    self.changed.wait()
            row = self.ask(c, t)
            with self.lock:
                self.rows.append(row)
                self.answered[c] += 1
                self.changed.notify_all()
            time.sleep(self.random[c].random() * self.pause)

    def run(self):
        users = [threading.Thread(target=self.user) for _ in range(number("USERS", 4))]
        for u in users:
            u.start()
        for u in users:
            u.join()


def expected(row, block):
    """Return the tokens that the agent expected. A page of text counts as the average tokens of a
    page in the whole prompt."""
    return row["pages"] * (block or row["prompt"] / max(1, row["prompt_pages"]))


def main():
    addresses = os.environ.get("ENGINES", "").split()
    tokenizer = os.environ.get("TOKENIZER", "")
    text = os.environ.get("MODE", "") == "text"
    if not addresses or not (tokenizer or text):
        print("skipped: real engines: ENGINES=\"host:port ...\" and TOKENIZER=FILE say where they "
              "are (tests/it/engine.py)")
        return 0
    config = [config_of(a) for a in addresses]
    block = int(config[0]["block_size"])
    conf = "prompt: {text_page: 64}\nengines:\n" + "".join(
        "  - {name: s%d, pool: pool, metrics: \"http://%s/metrics\"}\n" % (i + 1, a)
        for i, a in enumerate(addresses))
    if not text:
        conf += ("models_dir: %s\nmodels:\n"
                 "  - {name: %s, mode: tokens, tokenizer: %s, block_size: %d}\n") % (
                     os.path.dirname(tokenizer), number("MODEL", "m"),
                     os.path.basename(tokenizer), block)
    with Engines(addresses, agent_conf=conf, bufsize=524288) as f:
        load = Load(f, block)
        load.run()
        m = f.metrics()
    good = [r for r in load.rows if "cached" in r and r["server"]]
    off = collections.Counter(round((expected(r, None if text else block) - r["cached"]) / block)
                              for r in good)
    blocks = sum(r["prompt"] for r in good) // block
    exact = off[0] / max(1, len(good))
    print("bench engine mode=%s block=%d blocks=%s servers=%d users=%d requests=%d answered=%d "
          "prompt_blocks=%d exact=%.3f high=%d low=%d "
          "mean_off_blocks=%.2f cached=%.3f room_tokens=%d"
          % ("text" if text else "tokens", block, config[0].get("num_gpu_blocks"), len(addresses),
             number("USERS", 4), len(load.rows), len(good),
             blocks, exact, sum(n for o, n in off.items() if o > 0),
             sum(n for o, n in off.items() if o < 0),
             sum(o * n for o, n in off.items()) / max(1, len(good)),
             sum(r["cached"] for r in good) / max(1, sum(r["prompt"] for r in good)),
             m['kvroute_server_room_tokens{pool="pool",server="s1"}']))
    print("off by blocks: %s" % dict(sorted(off.items())))
    if os.environ.get("OUT"):
        with open(os.environ["OUT"], "w") as out:
            out.writelines(json.dumps(r) + "\n" for r in load.rows)
    if len(good) < len(load.rows) or exact < number("LEAST", 0.95):
        print("FAILED: %d of %d answered, %.3f exact" % (len(good), len(load.rows), exact))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
