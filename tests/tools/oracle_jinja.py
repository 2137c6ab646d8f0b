#!/usr/bin/env python3
"""Compare `kvroutectl render` with Python's Jinja2, set up as Hugging Face does.

  oracle_jinja.py [-n N] [-s SEED] TEMPLATE...   generated conversations through each template
  oracle_jinja.py --cases FILE...                the answers in tests/data/jinja
  oracle_jinja.py --update FILE...               the same, rewritten by Python's results

Needs Debian's python3-jinja2. Tests do not need it: their answers are in the tree."""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from datetime import datetime

import jinja2
from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime(2026, 8, 1, 12, 0, 0)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(text, variables):
    """Return ("text", output), ("raised", "Type: message") or ("syntax", message)."""
    try:
        template = environment().from_string(text)
    except jinja2.TemplateSyntaxError as e:
        return "syntax", f"{e.lineno} {e}"
    try:
        return "text", template.render(**variables)
    except Exception as e:  # any exception of a template
        return "raised", f"{type(e).__name__}: {e}"


# ---- cases 

def read_cases(path):
    """Return lines to keep unchanged, and [name, template, variables, answer] lists."""
    out, case = [], None
    for line in open(path, encoding="utf-8", newline="").read().split("\n"):
        if line.startswith("== "):
            case = [line[3:], [], None, None]
            out.append(case)
        elif case is None:
            out.append(line)
        elif line.startswith("-- "):
            case[2] = line[3:]
        elif line[:3] in ("-> ", "!! ", "?? ", "XX "):
            case[3] = line
            case = None
        else:
            case[1].append(line)
    return out


def answer_of(case):
    if case[3] and case[3][:2] in ("??", "XX") and len(case[3].split()) > 2 - (case[3][0] == "?"):
        return case[3]  # a message of ours: unknown here
    kind, what = render("\n".join(case[1]), json.loads(case[2] or "{}"))
    if kind == "syntax":
        return "XX " + what.split(" ", 1)[0]
    if kind == "raised":
        return "!! " + what.split("\n")[0]
    return "-> " + json.dumps(what, ensure_ascii=False)


def cases(paths, update):
    wrong = 0
    for path in paths:
        lines = []
        for c in read_cases(path):
            if isinstance(c, str):
                lines.append(c)
                continue
            answer = answer_of(c)
            if answer != c[3]:
                wrong += 1
                if not update:
                    print(f"{path}: {c[0]}: {c[3]}\n    Python: {answer}")
            lines += ["== " + c[0], *c[1], *(["-- " + c[2]] if c[2] else []), answer]
        if update:
            open(path, "w", encoding="utf-8", newline="").write("\n".join(lines))
    return 0 if update else wrong


# ---- generated conversations 

WORDS = ["Hello", "  leading", "trailing  ", "\n\nlines\n", "<|im_end|>", "<think>", "</think>",
         "caf\u00e9", "\u4f60\u597d", "\U0001f600",
         "it's", '"quoted"', "a\\b", "<&>", "\t", "{{ x }}", "{% if %}", "\u00a0", "1.5", "",
         "\u200b", "\x7f", "</tool_call>", "e\u0301", "[INST]"]


def some_text(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(6)))


def some_value(rng, depth=0):
    kinds = ["s", "i", "f", "b", "n"] + (["l", "d"] if depth < 3 else [])
    k = rng.choice(kinds)
    if k == "s":
        return some_text(rng)
    if k == "i":
        return rng.choice([0, 1, -1, 42, 10**15, 10**25, -(10**20)])
    if k == "f":
        return rng.choice([0.0, -0.0, 1.5, 1e22, 1e-7, 123456789.123, rng.random(),
                           rng.random() * 10 ** rng.randrange(-300, 300)])
    if k == "b":
        return rng.random() < 0.5
    if k == "n":
        return None
    if k == "l":
        return [some_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(["a", "city", "items", "type", "caf\u00e9", "get",
                        "x y"]): some_value(rng, depth + 1) for _ in range(rng.randrange(4))}


def some_tool(rng):
    properties = {}
    for _ in range(rng.randrange(4)):
        kind = rng.choice(["string", "integer", "number", "boolean", "array", "object",
                           ["string", "null"]])
        p = {"type": kind}
        if rng.random() < 0.7:
            p["description"] = some_text(rng)
        if rng.random() < 0.3:
            p["enum"] = [some_text(rng) for _ in range(rng.randrange(3))]
        if rng.random() < 0.3:
            p["default"] = some_value(rng)
        if kind == "array":
            p["items"] = {"type": rng.choice(["string", "integer"])}
        if kind == "object":
            p["properties"] = {"inner": {"type": "string"}}
        properties[rng.choice(["city", "unit", "days", "q", "items", "x"])] = p
    f = {"name": rng.choice(["get_weather", "add", "search"]), "description": some_text(rng),
         "parameters": {"type": "object", "properties": properties,
                        "required": sorted(properties)[:rng.randrange(3)]}}
    if rng.random() < 0.2:
        f["strict"] = True
    return {"type": "function", "function": f} if rng.random() < 0.9 else f


def some_content(rng):
    r = rng.random()
    if r < 0.75:
        return some_text(rng)
    if r < 0.9:
        return [{"type": "text", "text": some_text(rng)} for _ in range(rng.randrange(1, 3))]
    return rng.choice([None, "", [], [{"type": "image"}],
                       [{"type": "image_url", "image_url": {"url": "x"}}], some_value(rng)])


def some_body(rng):
    messages = []
    if rng.random() < 0.6:
        messages.append({"role": rng.choice(["system", "system", "developer"]),
                         "content": some_content(rng)})
    for turn in range(rng.randrange(1, 4)):
        messages.append({"role": "user", "content": some_content(rng)})
        if rng.random() < 0.3 and turn == 2:
            break
        m = {"role": "assistant", "content": some_content(rng)}
        if rng.random() < 0.3:
            m[rng.choice(["reasoning_content", "thinking", "reasoning"])] = some_text(rng)
        if rng.random() < 0.3:
            args = {k: some_value(rng)
                    for k in rng.sample(["city", "n", "items"], rng.randrange(3))}
            calls = [{"id": "call%05d" % rng.randrange(99999), "type": "function",
                      "function": {"name": "get_weather", "arguments": args if rng.random() < 0.6
                                   else json.dumps(args)}}
                     for _ in range(rng.randrange(1, 3))]
            m["tool_calls"] = calls
            messages.append(m)
            for c in calls:
                messages.append({"role": "tool", "name": "get_weather", "tool_call_id": c["id"],
                                 "content": some_content(rng)})
            m = {"role": "assistant", "content": some_content(rng)}
        messages.append(m)
    if rng.random() < 0.7:
        messages.append({"role": "user", "content": some_content(rng)})
    body = {"messages": messages, "bos_token": "<BOS>", "eos_token": "<EOS>"}
    if rng.random() < 0.4:
        body["tools"] = [some_tool(rng) for _ in range(rng.randrange(1, 3))]
    if rng.random() < 0.2:
        body["add_generation_prompt"] = False
    for k in "enable_thinking", "thinking", "reasoning_effort", "preserve_thinking":
        if rng.random() < 0.15:
            body[k] = rng.choice([True, False, "low", "high"])
    return body


def ours(template, body):
    p = subprocess.run(["./kvroutectl", "render", "--template", template, "--date",
                        NOW.isoformat()], input=json.dumps(body).encode(),
                       capture_output=True, check=False)
    if p.returncode == 0:
        return "text", p.stdout.decode()
    words = p.stderr.decode("utf-8", "replace").split(": ", 2)[2].rstrip("\n")
    kind, _, what = words.partition(": ")
    return kind, what


def compare(templates, n, seed):
    count = {"text": 0, "raised": 0}
    wrong = 0
    for path in templates:
        rng = random.Random(f"{seed} {os.path.basename(path)}")
        text = open(path, encoding="utf-8", newline="").read()
        for i in range(n):
            body = some_body(rng)
            theirs = render(text, {"tools": None, "documents": None, "add_generation_prompt": True,
                                   **body})
            mine = ours(path, body)
            if theirs[0] == mine[0] and (theirs[0] == "raised" or theirs[1] == mine[1]):
                count[theirs[0]] += 1
                if theirs[0] == "raised" and not theirs[1].split("\n")[0].startswith(
                    mine[1].split("\n")[0][:200]):
                    print(f"{os.path.basename(path)} {i}: raised for another reason\n  theirs "
                          f"{theirs[1][:160]}\n  ours   {mine[1][:160]}")
                continue
            wrong += 1
            with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as f:
                json.dump(body, f)
            print(f"{os.path.basename(path)} {i}: {f.name}\n  theirs {theirs[0]}: "
                  f"{theirs[1][-300:]!r}\n  ours   {mine[0]}: {mine[1][-300:]!r}")
    print(f"{count['text']} texts and {count['raised']} refusals the same, {wrong} not")
    return wrong


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-n", type=int, default=20)
    p.add_argument("-s", default="1")
    p.add_argument("--cases", action="store_true")
    p.add_argument("--update", action="store_true")
    p.add_argument("files", nargs="+")
    a = p.parse_args()
    if a.cases or a.update:
        return 1 if cases(a.files, a.update) else 0
    return 1 if compare(a.files, a.n, a.s) else 0


sys.exit(main())
