#!/usr/bin/env python3
"""oracle_engine.py - compare the token ids that a real vLLM 0.32 reported for its prompts with
those of `kvroutectl pages`.

	make oracle                                      all oracles, this one included
	python3 tests/tools/oracle_engine.py [NAME]      only bodies whose name contains NAME
	python3 tests/tools/oracle_engine.py goldens     writes tests/data/chat/gpt_oss.json again:
	                                                 the shortest body of each kind

Needs the recordings and tokenizers of ../shared; without them it prints that and exits with 0.
Pages have one token each, so two bodies have equal keys where their ids are equal: the body itself,
and a completions body with the engine's ids as prompt."""
import gzip
import json
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
HOME = os.path.join(ROOT, "build", "oracle-engine")
SHARED = os.path.join(ROOT, "..", "shared", "data")
RECORDED = os.path.join(SHARED, "vllm", "prompt_ids.json.gz")
TOKENIZERS = os.path.join(SHARED, "tokenizers")
DAY = "2026-11-22"	# on which it was recorded: templates print it
LLAMA = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
MODELS = {	# tokenizer, its configuration, template, more for the model's entry
    "llama": ("llama-3.2", LLAMA, "meta-llama-Llama-3.2-3B-Instruct", ""),
    "qwen3": ("qwen3", "qwen3.tokenizer_config.json", None, ""),
    "gptoss": ("gpt-oss", "gpt-oss.tokenizer_config.json", None, "    chat: harmony\n"),
}
# Rejected because of an option of that engine, not because of the body.
OPTIONS = ["requires --tool-call-parser", "--trust-request-chat-template"]


def prepare(model):
    tokenizer, config, template, more = MODELS[model]
    where = os.path.join(HOME, model)
    os.makedirs(where, exist_ok=True)
    path = os.path.join(where, "tokenizer.json")
    if not os.path.exists(path):
        with gzip.open(f"{TOKENIZERS}/tokenizer_json/{tokenizer}.tokenizer.json.gz") as f, open(
            path + ".part", "wb") as out:
            out.write(f.read())
        os.rename(path + ".part", path)
    if isinstance(config, str):
        config = json.load(open(f"{TOKENIZERS}/tokenizer_json/{config}"))
    json.dump(config, open(os.path.join(where, "tokenizer_config.json"), "w"))
    if template:
        text = open(f"{TOKENIZERS}/chat/templates/{template}.jinja", encoding="utf-8",
                    newline="").read()
        open(os.path.join(where, "chat_template.jinja"), "w", encoding="utf-8",
             newline="").write(text)
    conf = os.path.join(where, "kvroute.yaml")
    open(conf,
         "w").write(f"state_dir: {where}\nmodels_dir: {HOME}\nprompt:\n  page_size: 1\nmodels:\n  "
                    f"- name: m\n    mode: tokens\n"
                    f"    tokenizer: {model}/tokenizer.json\n    block_size: 1\n    transformers: "
                    f"\"5.20\"\n{more}")
    return conf


def pages(conf, path, bodies):
    """Return for each body its lines as a dict, and the keys of its pages."""
    p = subprocess.run([f"{ROOT}/kvroutectl", "pages", "-f", conf, "--path", path, "--date", DAY,
                        "--keys", "--null"],
                       input=b"".join(b.encode("utf-8", "surrogatepass") + b"\0" for b in bodies),
                       capture_output=True)
    out = []
    for block in p.stdout.decode().split("\n\n")[:-1]:
        d = {"keys": []}
        for line in block.splitlines():
            word, _, rest = line.partition(" ")
            if word == "page":
                d["keys"].append(rest.split()[-1])
            else:
                d[word] = rest.strip()
        out.append(d)
    if len(out) != len(bodies):
        sys.exit(f"kvroutectl pages: {len(out)} answers to {len(bodies)} bodies: "
                 f"{p.stderr.decode()[-300:]}")
    return out


def as_ids(r):
    body = {"model": "m", "prompt": r["prompt_token_ids"]}
    salt = json.loads(r["body"]).get("cache_salt")
    return json.dumps({**body, "cache_salt": salt} if salt else body)


def verdict(r, ours, theirs):
    """Return None if ours equals the engine's, else the difference. It begins with "option" if an
    option of the engine causes it."""
    refused = ours.get("why") == "badbody"
    text = "mode=text" in ours.get("of", "")
    if r["status"] != 200:
        if refused:
            return None
        said = str(r["error"])
        return ("option: " if any(o in said for o in OPTIONS)
                else "") + f"engine {r['status']} {said[:150]}, ours takes it"
    if refused or text:
        return (f"engine {len(r['prompt_token_ids'])} tokens, ours "
                f"{'refused' if refused else 'text'}")
    if ours["keys"] == theirs["keys"] and ours["space"] == theirs["space"]:
        return None
    same = next((i for i, (a, b) in enumerate(zip(ours["keys"], theirs["keys"])) if a != b),
                min(len(ours["keys"]), len(theirs["keys"])))
    return (f"engine {len(r['prompt_token_ids'])} tokens, ours {ours.get('tokens')}; the same for "
            f"the first {same}")


def compare(model, rows):
    conf = prepare(model)
    paths = sorted({r["path"] for r in rows})
    ours = {}
    for path in paths:
        mine = [r for r in rows if r["path"] == path]
        ours.update(zip([r["name"] for r in mine], pages(conf, path, [r["body"] for r in mine])))
    answered = [r for r in rows if r["status"] == 200]
    theirs = dict(zip([r["name"] for r in answered],
                      pages(conf, "/v1/completions", [as_ids(r) for r in answered])))
    wrong = options = 0
    for r in rows:
        v = verdict(r, ours[r["name"]], theirs.get(r["name"]))
        if v and v.startswith("option: "):
            options += 1
        elif v:
            wrong += 1
            print(f"FAIL  {model} {r['name']}: {v}")
    print(f"{'ok   ' if not wrong else 'FAIL '} engine ids of {model}: "
          f"{len(rows) - wrong - options} of {len(rows)} bodies, "
          f"{options} refused by an option of that engine")
    return wrong


def bytes_of_letters():
    seen = list(range(0x21, 0x7f)) + list(range(0xa1, 0xad)) + list(range(0xae, 0x100))
    other = [b for b in range(256) if b not in seen]
    return {**{chr(b): b for b in seen}, **{chr(0x100 + i): b for i, b in enumerate(other)}}


def decoder():
    """Return a function that makes the text of gpt-oss's ids."""
    tokenizer = json.load(gzip.open(f"{TOKENIZERS}/tokenizer_json/gpt-oss.tokenizer.json.gz"))
    letter = bytes_of_letters()
    text = {i: bytes(letter[c] for c in t) for t, i in tokenizer["model"]["vocab"].items()}
    text.update({a["id"]: a["content"].encode() for a in tokenizer["added_tokens"]})
    return lambda ids: b"".join(text[i] for i in ids).decode()


def goldens(rows):
    """Write bodies for gpt-oss, which needs no template, with the text of the engine's ids; null:
    the engine rejected the body."""
    text_of = decoder()
    best = {}
    for r in rows:
        kind = re.sub(r"-\d+$", "", r["name"])
        if r["model"] == "gptoss" and r["path"] == "/v1/chat/completions" and len(r["body"]) < 2000:
            best.setdefault(kind, r)
            best[kind] = min(best[kind], r, key=lambda x: len(x["body"]))
    best["chat-reasoning, of an earlier turn"] = next(r for r in rows if r["model"] == "gptoss"
                                                      and r["name"] == "chat-reasoning-118")
    out = [{"name": kind, "body": r["body"],
            "text": text_of(r["prompt_token_ids"]) if r["status"] == 200
            else None} for kind, r in sorted(best.items())]
    os.makedirs(f"{ROOT}/tests/data/chat", exist_ok=True)
    with open(f"{ROOT}/tests/data/chat/gpt_oss.json", "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(g) for g in out) + "\n]\n")
    return 0


def main():
    if not os.path.exists(RECORDED) or not os.path.isdir(TOKENIZERS):
        print("skipped: oracle: no recordings of an engine in ../shared/data/vllm")
        return 0
    if sys.argv[1:] == ["goldens"]:
        return goldens(json.load(gzip.open(RECORDED)))
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    rows = [r for r in json.load(gzip.open(RECORDED)) if only in r["name"]]
    return 1 if sum(compare(m, [r for r in rows if r["model"] == m]) for m in MODELS) else 0


if __name__ == "__main__":
    sys.exit(main())
