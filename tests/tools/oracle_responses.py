#!/usr/bin/env python3
"""oracle_responses.py - compare the token ids that vLLM 0.32 makes of bodies of /v1/responses for
gpt-oss (`vllm launch render`, which needs no weights) with those of `kvroutectl pages`.

	make oracle                                         all oracles, this one included
	python3 tests/tools/oracle_responses.py [SEED [N]]  bodies of each kind and N random ones
	python3 tests/tools/oracle_responses.py goldens     writes tests/data/chat/gpt_oss_items.json
	                                                    again: the bodies of each kind

Skipped without an engine: build/engine/venv/bin/vllm (make engine), or VLLM=path; and without the
tokenizer in ../shared. A body has as many pages as tokens, see oracle_engine.py."""
import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import oracle_engine as engine

VLLM = os.environ.get("VLLM", os.path.join(engine.ROOT, "build/engine/venv/bin/vllm"))
GOLDENS = os.path.join(engine.ROOT, "tests/data/chat/gpt_oss_items.json")
HANG_SECONDS = 300
CONFIG = {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 128,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 64, "vocab_size": 201088,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 150000,
    "num_local_experts": 4, "num_experts_per_tok": 2, "experts_per_token": 2,
    "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"],
    "hidden_act": "silu", "swiglu_limit": 7.0, "torch_dtype": "bfloat16", "eos_token_id": 200002,
    "pad_token_id": 199999, "attention_bias": True, "initial_context_length": 4096,
    "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "rope_type": "yarn",
                     "original_max_position_embeddings": 4096, "truncate": False},
}

# ---- bodies of each kind ----

USER = {"role": "user", "content": "Hi"}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}
ANSWER = {"type": "function_call_output", "call_id": "c1", "output": "res"}
CUSTOM = {"type": "custom_tool_call", "call_id": "c", "name": "x", "input": "y"}
PICTURE = {"type": "input_image", "image_url": "http://x/y.png"}
PYTHON = {"type": "code_interpreter", "container": {"type": "auto"}}
ANY = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def said(role, *texts, **more):
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role,
            "content": [{"type": kind, "text": t} for t in texts], **more}


def thought(*texts, summary=(), **more):
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": t} for t in summary],
            "content": [{"type": "reasoning_text", "text": t} for t in texts], **more}


def tool(name="f", **more):
    return {"type": "function", "name": name, "description": "does", "parameters": ANY, **more}


def body(items, **more):
    return {"model": "m", "input": items, **more}


# "text": vLLM renders them and kvroute does not, because other versions or options of the engine
# do it in another way; "taken": vLLM refuses them and kvroute does not, because later ones may not
KINDS = {
    "text": body("Hi"),
    "instructions": body("Hi", instructions="Be"),
    "empty instructions": body("Hi", instructions=""),
    "empty instructions and a tool": body("Hi", instructions="", tools=[tool()]),
    "system first": body([{"role": "system", "content": "S"}, USER]),
    "system first, parts": body([said("system", "S1", "S2"), USER]),
    "developer only": body([{"role": "developer", "content": "D"}]),
    "instructions and system": body([{"role": "system", "content": "S"}, USER], instructions="I"),
    "empty instructions and system": body([{"role": "system", "content": "S"}, USER],
                                          instructions="", tools=[tool()]),
    "empty system first": body([{"role": "system", "content": ""}, USER]),
    "empty system first and a tool": body([{"role": "system", "content": ""}, USER],
                                          tools=[tool()]),
    "no part of system first": body([{"role": "system", "content": []}, USER], tools=[tool()]),
    "later systems": body([USER, {"role": "system", "content": "S"},
                           {"role": "developer", "content": ""}, said("developer", "D", "E")]),
    "parts": body([said("user", "a", "", "b")]),
    "a picture": body([{"role": "user", "content": [{"type": "input_text", "text": "a"},
                                                    PICTURE]}]),
    "no part": body([{"role": "user", "content": []}]),
    "an answer": body([USER, {"role": "assistant", "content": "b"}, USER]),
    "an empty answer": body([USER, {"role": "assistant", "content": ""}, USER]),
    "an answer of parts": body([USER, said("assistant", "x", "y"), USER]),
    "a refusal": body([USER, {"type": "message", "role": "assistant", "content": [
        {"type": "refusal", "refusal": "no"}, {"type": "output_text", "text": "x"}]}, USER]),
    "an answer goes on": body([USER, said("assistant", "x", status="in_progress")]),
    "a call": body([USER, CALL, ANSWER]),
    "a call of a tool": body([USER, CALL, ANSWER], tools=[tool()], tool_choice="none"),
    "thought before a call": body([USER, thought("think"), CALL, ANSWER]),
    "text before a call": body([USER, said("assistant", "let me"), CALL, ANSWER]),
    "thought before an answer": body([USER, thought("think"), said("assistant", "x"), USER]),
    "old and new thought": body([USER, thought("old"), said("assistant", "x"), USER,
                                 thought("new"), CALL, ANSWER]),
    "thought of parts": body([USER, thought("a", "b", summary=["s"]), CALL, ANSWER]),
    "summary only": body([USER, {"type": "reasoning", "id": "r", "summary": [
        {"type": "summary_text", "text": "s"}]}, CALL, ANSWER]),
    "encrypted": body([USER, {"type": "reasoning", "summary": [], "encrypted_content": "x",
                              "content": None}, CALL, ANSWER]),
    "empty thought": body([USER, thought(""), CALL, ANSWER]),
    "thought first": body([thought("x"), USER]),
    "an answer to no call": body([USER, ANSWER]),
    "an answer before its call": body([USER, ANSWER, CALL]),
    "two calls of one id": body([USER, CALL, ANSWER, {**CALL, "name": "g"}, ANSWER]),
    "calls at once": body([USER, CALL, {**CALL, "call_id": "c2", "name": "g"},
                           {**ANSWER, "call_id": "c2"}, ANSWER]),
    "an empty answer of a tool": body([USER, CALL, {**ANSWER, "output": ""}]),
    "a call in a namespace": body([USER, {**CALL, "namespace": "n"}, ANSWER]),
    "no arguments": body([USER, {**CALL, "arguments": ""}, ANSWER]),
    "arguments are no text": body([USER, {**CALL, "arguments": {"a": 1}}, ANSWER]),
    "tokens as text": body("a<|end|>b", instructions="<|start|>"),
    "a tool of one's own": body([USER, CUSTOM]),
    "web search": body([USER, {"type": "web_search_call", "id": "w", "status": "completed",
                               "action": {"type": "search", "query": "q"}}]),
    "search as a tool": body("Hi", tools=[{"type": "web_search"}]),
    "an own tool": body("Hi", tools=[{"type": "custom", "name": "c"}]),
    "tools of a server": body("Hi", tools=[tool(), {"type": "mcp", "server_label": "x",
                                                    "server_url": "http://x"}]),
    "no tool": body("Hi", tools=[]),
    "a tool without parameters": body("Hi", tools=[{"type": "function", "name": "f"}]),
    "a tool with null": body("Hi", tools=[{"type": "function", "name": "f", "parameters": None,
                                           "strict": None}]),
    "a tool of anything": body("Hi", tools=[{"type": "function", "name": "f", "parameters": {}}]),
    "low": body("Hi", reasoning={"effort": "low"}),
    "high": body("Hi", reasoning={"effort": "high", "summary": "auto"}),
    "effort null": body("Hi", reasoning={"effort": None}),
    "effort none": body("Hi", reasoning={"effort": "none"}),
    "effort minimal": body("Hi", reasoning={"effort": "minimal"}),
    "effort of a template": body("Hi", chat_template_kwargs={"reasoning_effort": "high"}),
    "a format": body("Hi", text={"format": {"type": "json_schema", "name": "n",
                                            "schema": {"type": "object"}}}),
    "role tool": body([{"role": "tool", "content": "x"}]),
    "content null": body([{"role": "user", "content": None}]),
    "no content": body([{"role": "user"}]),
    "a phase": body([USER, said("assistant", "x", phase="commentary"), USER]),
    "an item by name": body([USER, {"type": "item_reference", "id": "x"}]),
    "an agent": body([said("developer", "rules"), said("user", "place"), said("user", "task"),
                      thought("hm", encrypted_content=""), CALL, ANSWER], instructions="I",
                     tools=[tool()], tool_choice="auto", parallel_tool_calls=False, stream=True,
                     reasoning={"effort": "medium", "summary": "auto"}, store=False,
                     include=["reasoning.encrypted_content"], prompt_cache_key="k"),
    "text: python": body("Hi", tools=[PYTHON]),
    "text: python and a tool": body("Hi", tools=[PYTHON, tool()]),
    "text: search": body("Hi", tools=[{"type": "web_search_preview"}]),
    "text: server": body("Hi", tools=[{"type": "mcp", "server_label": "x",
                                       "server_url": "http://x"}]),
    "text: messages before": body("Hi", previous_input_messages=[{"role": "user", "content": "a"}]),
    "text: conversation": body("Hi", conversation="c"),
    "taken: no summary": body([USER, {"type": "reasoning", "content": []}, CALL, ANSWER]),
    "taken: output_text of a user": body([{"role": "user", "content": [
        {"type": "output_text", "text": "x"}]}]),
    "taken: an untyped answer": body([USER, {"role": "assistant", "content": [
        {"type": "output_text", "text": "x"}]}]),
    "taken: a token in a name": body([USER, {**CALL, "name": "a<|end|>"}, ANSWER]),
}

# ---- random ones ----

WORDS = [
    "the", "server", " route", "HAProxy", "\n", "\n\n", "  ", "caf\u00e9", "\u6f22\u5b57", "123456",
    "<|end|>", "<|start|>assistant", "\t", "don't", "{\"a\": [1, 2]}", "\U0001f600", "e\u0301",
    "\u00a0", "//", "\r\n", " ", "#", "x" * 40,
]


def text(rng, most=12):
    return "".join(rng.choice(WORDS) + rng.choice(["", " "]) for _ in range(rng.randrange(most)))


def schema(rng, depth=3):
    kind = rng.randrange(8 if depth > 0 else 4)
    s = {} if rng.random() < 0.6 else {"description": text(rng, 6)}
    if kind < 2:
        return {**s, "type": rng.choice(["string", "integer", "number", "boolean", "null"])}
    if kind == 2:
        return {**s, "type": "string", "enum": ["a", "b c", "\u00e9"][:rng.randrange(1, 4)]}
    if kind == 3:
        return {**s, "type": ["string", "null"], "default": rng.choice(["a", 1, None, True])}
    if kind == 4:
        return {**s, "type": "array", "items": schema(rng, depth - 1)}
    if kind == 5:
        return {**s, rng.choice(["oneOf", "anyOf"]): [schema(rng, depth - 1) for _ in range(2)]}
    names = rng.sample(["path", "cmd", "x", "line_no", "a-b"], rng.randrange(4))
    return {**s, "type": "object", "properties": {n: schema(rng, depth - 1) for n in names},
            "required": [n for n in names if rng.random() < 0.5]}


def random_tool(rng, i):
    t = {"type": "function", "name": f"tool_{i}", "parameters": {**schema(rng, 0), **ANY}}
    if rng.random() < 0.8:
        t["parameters"] = {"type": "object", "properties": {"p": schema(rng), "q": schema(rng)},
                           "required": ["p"]}
    if rng.random() < 0.8:
        t["description"] = text(rng)
    if rng.random() < 0.3:
        t["strict"] = rng.choice([True, False, None])
    return t


def message(rng, role):
    form = rng.randrange(3)
    if form == 0:
        return {"role": role, "content": text(rng)}
    if form == 1:
        return {"type": "message", "role": role, "content": text(rng)}
    parts = said(role, *(text(rng) for _ in range(rng.randrange(4))))
    if role == "user" and rng.random() < 0.2:
        parts["content"].insert(0, PICTURE)
    return parts


def step(rng, called):
    """What a model said, and what its tools answered. <called>: ids of calls so far."""
    items = []
    if rng.random() < 0.6:
        items.append(thought(*(text(rng) for _ in range(rng.randrange(1, 3)))))
    if rng.random() < 0.15:
        items.append({"type": "reasoning", "id": "r", "summary": [
            {"type": "summary_text", "text": text(rng)}]})
    if rng.random() < 0.2:
        items.append(message(rng, "assistant"))
    new = []
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        old = called and rng.random() < 0.1
        new.append(rng.choice(called) if old else f"call_{len(called) + len(new)}")
        items.append({"type": "function_call", "call_id": new[-1], "arguments": text(rng),
                      "name": f"tool_{rng.randrange(4)}"})
    called += new
    rng.shuffle(new)
    items += [{"type": "function_call_output", "call_id": c, "output": text(rng)} for c in new]
    return items


def conversation(rng):
    """Bodies of the turns of an agent: each one is the one before and some items more."""
    items, called = [], []
    more = {"tools": [random_tool(rng, i) for i in range(rng.randrange(4))]}
    if rng.random() < 0.6:
        more["instructions"] = text(rng)
    if rng.random() < 0.5:
        more["reasoning"] = {"effort": rng.choice(["low", "medium", "high", None])}
    if rng.random() < 0.5:
        items.append(message(rng, rng.choice(["system", "developer"])))
    for _ in range(rng.randrange(1, 4)):
        items.append(message(rng, "user"))
        yield body(list(items), **more)
        for _ in range(rng.randrange(4)):
            items += step(rng, called)
            yield body(list(items), **more)
        if rng.random() < 0.8:
            items.append(message(rng, "assistant"))
        if rng.random() < 0.1:
            items.append(message(rng, "developer"))


# ---- the engine ----

class Engine:
    def __init__(self):
        self.home = os.path.join(engine.HOME, "gptoss")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        with open(os.path.join(self.home, "config.json"), "w") as f:
            json.dump(CONFIG, f)
        with open(os.path.join(self.home, "generation_config.json"), "w") as f:
            json.dump({"eos_token_id": 200002, "pad_token_id": 199999}, f)
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
               "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_HOST_IP": "127.0.0.1",
               "OMP_NUM_THREADS": "1", "VLLM_SYSTEM_START_DATE": engine.DAY}
        self.log = open(os.path.join(self.home, "engine.log"), "w")
        self.process = subprocess.Popen(
            ["nice", VLLM, "launch", "render", self.home, "--host", "127.0.0.1", "--port",
             str(self.port), "--served-model-name", "m", "--max-model-len", "131072",
             "--disable-uvicorn-access-log"], env=env, stdout=self.log, stderr=self.log)

    def __enter__(self):
        end = time.monotonic() + HANG_SECONDS
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).close()
                return self
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.5)
        self.__exit__()
        sys.exit(f"the engine did not start: {self.log.name}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()

    def ids(self, raw):
        """Return status, and ids or what was wrong."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/responses/render", data=raw.encode(),
            headers={"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as f:
                return f.status, json.loads(f.read())["token_ids"]
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()


def ask(e, bodies):
    """Return rows as those of oracle_engine.py."""
    with ThreadPoolExecutor(2) as pool:
        answers = pool.map(e.ids, [raw for _, raw in bodies])
    return [{"name": name, "path": "/v1/responses", "body": raw, "status": status,
             "prompt_token_ids" if status == 200 else "error": got}
            for (name, raw), (status, got) in zip(bodies, answers)]


def judge(r, ours, theirs):
    text_mode = "mode=text" in ours.get("of", "")
    if r["name"].startswith("text: "):
        return None if r["status"] == 200 and text_mode else "is no text, or refused by the engine"
    if r["name"].startswith("taken: "):
        return None if r["status"] != 200 and not text_mode else "is text, or taken by the engine"
    if r["status"] != 200 and text_mode:
        return None
    return engine.verdict(r, ours, theirs)


def compare(rows):
    conf = engine.prepare("gptoss")
    answered = [i for i, r in enumerate(rows) if r["status"] == 200]
    ours = engine.pages(conf, "/v1/responses", [r["body"] for r in rows])
    theirs = dict(zip(answered, engine.pages(conf, "/v1/completions",
                                             [engine.as_ids(rows[i]) for i in answered])))
    wrong = 0
    for i, r in enumerate(rows):
        v = judge(r, ours[i], theirs.get(i))
        if v:
            wrong += 1
            print(f"FAIL  {r['name']}: {v}\n{r['body']}")
    tokens = sum(len(rows[i]["prompt_token_ids"]) for i in answered)
    print(f"{'ok   ' if not wrong else 'FAIL '} responses of gpt-oss: {len(rows) - wrong} of "
          f"{len(rows)} bodies, {len(answered)} with {tokens} ids")
    return wrong


def goldens(rows):
    """null: the engine refuses it."""
    text_of = engine.decoder()
    out = [{"name": r["name"], "body": r["body"],
            "text": text_of(r["prompt_token_ids"]) if r["status"] == 200 else None}
           for r in rows if ": " not in r["name"]]
    with open(GOLDENS, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(g, ensure_ascii=False) for g in out) + "\n]\n")


def main():
    seed = int(sys.argv[1]) if sys.argv[1:] and sys.argv[1] != "goldens" else 1
    n = int(sys.argv[2]) if sys.argv[2:] else 400
    if not os.path.exists(VLLM) or not os.path.isdir(engine.TOKENIZERS):
        print(f"skipped: oracle of responses: no {VLLM} (make engine), or no ../shared/data")
        return 0
    engine.prepare("gptoss")
    bodies = [(name, json.dumps(b)) for name, b in KINDS.items()]
    rng = random.Random(seed)
    with Engine() as e:
        if sys.argv[1:] == ["goldens"]:
            goldens(ask(e, bodies))
            return 0
        while len(bodies) < len(KINDS) + n:
            bodies += [(f"random {len(bodies)}", json.dumps(b, ensure_ascii=rng.random() < 0.5))
                       for b in conversation(rng)]
        return 1 if compare(ask(e, bodies)) else 0


if __name__ == "__main__":
    sys.exit(main())
