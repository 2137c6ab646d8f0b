#!/usr/bin/env python3
"""test_agents.py - the generator of agentic load: plans of tests/tools/agents_plan, the requests
that chat_load makes of them, and their replay on a stub engine. Verdicts do not depend on speed."""
import json
import os
import subprocess
import sys
import tempfile

from test_stub_engine import Engine, check, equal

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "it"))

import demo_agents  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("B", "build/release"))
DIR = os.path.join(BUILD, "tests/tools")
HANG = 180
APIS = {"chat": "messages", "messages": "messages", "responses": "input"}
# small prompts that are summarized often, subagents in each session, many edits
SMALL = ("--sessions", "12", "--shared", "3000", "--limit", "16000", "--task", "500", "--read",
         "1500", "--turns", "14", "--summary", "80", "--answer", "10", "--subagents", "1",
         "--edits", "0.2", "--pause", "0.001", "--over", "0.1", "--block", "64")
KINDS = {"first", "next", "edit", "summarize", "compacted"}


def plan(*options):
    return subprocess.run([os.path.join(DIR, "agents_plan"), *options], stdout=subprocess.PIPE,
                          check=True, timeout=HANG).stdout


def chat_load(text, *options, status=0):
    """Run chat_load with the plan <text>; returns what it prints."""
    with tempfile.NamedTemporaryFile() as f:
        f.write(text)
        f.flush()
        done = subprocess.run([os.path.join(DIR, "chat_load"), "--agents", f.name, *options],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=HANG)
    equal(done.returncode, status, "chat_load: %s" % done.stderr.decode())
    return done.stdout if status == 0 else done.stderr.decode()


def requests(text, api, *options):
    out = chat_load(text, "--api", api, "--dry", "-", *options)
    return [json.loads(line) for line in out.splitlines()]


def turns_of(lines):
    """{(session, agent): requests in order}"""
    out = {}
    for r in lines:
        out.setdefault((r["session"], r["agent"]), []).append(r)
    return out


def unmarked(x):
    """Without markers of caches."""
    if isinstance(x, list):
        return [unmarked(y) for y in x]
    if isinstance(x, dict):
        return {k: unmarked(v) for k, v in x.items() if k != "cache_control"}
    return x


def opening(r, api):
    body = r["body"]
    if api == "messages":
        return json.dumps([body["system"][1:], body["tools"]])
    if api == "chat":
        return json.dumps([body["messages"][0], body["tools"]])
    return json.dumps([body["instructions"], body["tools"]])


def said(r, api):
    return unmarked(r["body"][APIS[api]][1 if api == "chat" else 0:])


def test_equal_seeds_give_equal_bytes():
    one = plan(*SMALL, "--seed", "5")
    equal(one, plan(*SMALL, "--seed", "5"), "plans of one seed")
    check(one != plan(*SMALL, "--seed", "6"), "plans of two seeds")
    for api in APIS:
        bodies = chat_load(one, "--api", api, "--dry", "-")
        equal(bodies, chat_load(one, "--api", api, "--dry", "-"), "requests of one seed")
        check(bodies != chat_load(one, "--api", api, "--dry", "-", "--seed", "2"),
              "words of two seeds")


def test_lengths_are_those_of_published_sessions():
    lines = [json.loads(x) for x in plan("--sessions", "200").splitlines()]
    lengths = sorted(x["input_length"] for x in lines)
    check(20480 <= lengths[0] < 30000 and 179000 < lengths[-1] <= 180000, "from 20K to 180K tokens")
    check(110000 < lengths[len(lengths) // 2] < 165000, "median %d" % lengths[len(lengths) // 2])
    equal({x["plan"]["kind"] for x in lines}, KINDS, "kinds of turns")
    for x in lines:
        equal(x["plan"]["keep"] + x["plan"]["add"], x["input_length"], "tokens")
        equal(len(x["hash_ids"]), -(-x["input_length"] // 512), "blocks")


def test_bodies_have_their_length():
    """Of real size: 80 to 720 KB. Four bytes a token, and what JSON needs around the messages."""
    text = plan("--sessions", "2", "--turns", "12")
    for api in APIS:
        for r in requests(text, api):
            n, want = len(json.dumps(r["body"], separators=(",", ":"))), 4 * (r["keep"] + r["add"])
            check(abs(n - want) < 600, "%s: %d bytes of %d" % (r["kind"], n, want))


def test_a_turn_contains_the_one_before():
    """Except at a compaction, and after the place of an edit."""
    text = plan(*SMALL, "--sessions", "30")
    for api in APIS:
        seen = set()
        for agent in turns_of(requests(text, api)).values():
            equal(agent[0]["kind"], "first", "kind of an agent's first turn")
            for a, b in zip(agent, agent[1:]):
                seen.add(b["kind"])
                before, now = said(a, api), said(b, api)
                equal(opening(a, api), opening(b, api), "tools and system prompt")
                if b["kind"] in ("next", "summarize"):
                    equal(now[:len(before)], before, "messages of the turn before")
                    check(len(now) > len(before), "something is new")
                elif b["kind"] == "compacted":
                    equal(len(now), 1, "messages after a compaction")
                    check("summary" in json.dumps(now[0]), "it begins with the summary")
                else:
                    changed = [k for k, (x, y) in enumerate(zip(before, now)) if x != y]
                    check(len(changed) <= 1 and len(now) > len(before), "one message edited")
                    check(all(len(json.dumps(now[k])) < len(json.dumps(before[k]))
                              for k in changed), "it is shorter")
        equal(seen, KINDS - {"first"}, "kinds of turns")


def test_what_claude_code_changes_in_each_request():
    """The first block of the system prompt, and the place of the marker."""
    blocks, lines = set(), requests(plan(*SMALL), "messages")
    for body in (r["body"] for r in lines):
        blocks.add(body["system"][0]["text"])
        check(body["system"][0]["text"].startswith("x-anthropic-billing-header: cc_version="),
              body["system"][0])
        equal(["cache_control" in json.dumps(m) for m in body["messages"]],
              [False] * (len(body["messages"]) - 1) + [True], "marked messages")
        check("cache_control" in body["messages"][-1]["content"][-1], "its last block")
    equal(len(blocks), len(lines), "different first blocks")


def test_edits_keep_what_was_before_them():
    """Up to the planned token, or a bit more: a message is shortened at its end."""
    shortened = 0
    for agent in turns_of(requests(plan(*SMALL, "--sessions", "30"), "chat")).values():
        for a, b in zip(agent, agent[1:]):
            if b["kind"] != "edit":
                continue
            x, y = (json.dumps(said(r, "chat"), separators=(",", ":")) for r in (a, b))
            equal_bytes = next((i for i, (p, q) in enumerate(zip(x, y)) if p != q), len(x))
            check(equal_bytes + 12000 >= 4 * b["keep"] - 300,
                  "%d bytes of %d tokens" % (equal_bytes, b["keep"]))
            shortened += equal_bytes < len(x) - 2
    check(shortened > 20, "%d edits" % shortened)


def test_programs_share_their_opening_and_nothing_else():
    text = plan(*SMALL, "--sessions", "30", "--programs", "3")
    program = {x["plan"]["session"]: x["plan"]["program"] for x in map(json.loads,
                                                                       text.splitlines())}
    for api in APIS:
        of, firsts = {}, {}
        for r in requests(text, api):
            of.setdefault(program[r["session"]], set()).add(opening(r, api))
            if r["kind"] == "first":
                firsts[r["session"], r["agent"]] = json.dumps(said(r, api))
        equal([len(x) for x in of.values()], [1, 1, 1], "openings of each program")
        equal(len(set.union(*of.values())), 3, "openings of all")
        equal(len(set(firsts.values())), len(firsts), "first messages")
        check(any(agent > 0 for _, agent in firsts), "subagents")


def test_calls_and_results_belong_together():
    for api in APIS:
        for agent in turns_of(requests(plan(*SMALL), api)).values():
            items = said(agent[-1], api)
            text = json.dumps(items)
            if api == "chat":
                calls = [c["id"] for m in items for c in m.get("tool_calls", [])]
                results = [m["tool_call_id"] for m in items if m["role"] == "tool"]
            elif api == "messages":
                equal([m["role"] for m in items],
                      ["user", "assistant"] * (len(items) // 2) + ["user"], "roles")
                parts = [p for m in items for p in m["content"]]
                calls = [p["id"] for p in parts if p["type"] == "tool_use"]
                results = [p["tool_use_id"] for p in parts if p["type"] == "tool_result"]
            else:
                calls = [m["call_id"] for m in items if m["type"] == "function_call"]
                results = [m["call_id"] for m in items if m["type"] == "function_call_output"]
            equal(calls, results, "calls and their results")
            equal(len(set(calls)), len(calls), "ids")
            check(text.count("tool_") >= len(calls), "names of tools")


def test_sessions_have_the_names_that_clients_give():
    text = plan(*SMALL)
    for r, other in ((r, s) for a in turns_of(requests(text, "messages")).values()
                     for r, s in zip(a, a[1:])):
        equal(r["head"], other["head"], "headers of one agent")
        names = [line.split(":")[0] for line in r["head"].splitlines()]
        equal(names,
              ["x-claude-code-session-id", "x-claude-code-agent-id"][:2 if r["agent"] else 1],
              "headers")
    sessions, agents = {}, {}
    for r in requests(text, "messages"):
        lines = r["head"].splitlines()
        sessions.setdefault(lines[0], set()).add(r["session"])
        if r["agent"]:
            agents.setdefault(lines[1], set()).add((r["session"], r["agent"]))
    check(all(len(x) == 1 for x in [*sessions.values(), *agents.values()]), "each has its own")
    for api in APIS:
        for r in requests(text, api, "--names", "none"):
            equal((r["head"], "prompt_cache_key" in r["body"], "metadata" in r["body"]),
                  ("", False, False), "without a name")
        keys = {}
        for r in requests(text, api, "--names", "body"):
            key = r["body"]["metadata"]["user_id"] if api == "messages" \
                else r["body"]["prompt_cache_key"]
            keys.setdefault(key, set()).add((r["session"], 0 if api == "messages" else r["agent"]))
        check(all(len(x) == 1 for x in keys.values()) and len(keys) >= 12, "each has its own key")


def replay(text, *options, status=0, engine=("--blocks", "65536", "--prefill-tps", "5000000",
                                             "--decode-ms", "0.1")):
    with Engine(*engine) as e, tempfile.NamedTemporaryFile("r") as trace:
        out = chat_load(text, "--url", "127.0.0.1:%d" % e.port, "--json", "--out", "-",
                        "--concurrency", "32", "--trace", trace.name, *options, status=status)
        return out, [dict(w.split("=") for w in line.split()) for line in trace]


def test_a_replay_sends_each_turn_when_it_is_due():
    """After the answers that it waits for and its pause, as if agents worked."""
    text = plan(*SMALL)
    todo = {(x["plan"]["session"], x["plan"]["turn"]): x["plan"]
            for x in map(json.loads, text.splitlines())}
    for api in APIS:
        out, trace = replay(text, "--api", api)
        got = json.loads(out)
        equal((got["ok"], got["failed"], got["unstarted"]), (len(todo), 0, 0), "requests")
        ends = {(int(w["session"]), int(w["planned"])): float(w["t"]) + (
            float(w["total_ms"]) - float(w["late_ms"])) / 1e3 for w in trace}
        equal(set(ends), set(todo), "turns")
        for w in trace:
            session, turn = int(w["session"]), int(w["planned"])
            waits = [k for (s, k), x in todo.items() if s == session and x["join"] == turn]
            if turn > 0:
                waits.append(todo[session, turn]["after"])
            for k in waits:
                pause_s = todo[session, turn]["pause_ms"] / 1e3
                check(float(w["t"]) >= ends[session, k] + pause_s - 2e-3,
                      "session %d: turn %d after %d" % (session, turn, k))


def test_the_engine_finds_what_the_plan_keeps():
    """With room for all: opening and messages that stay, and the part of the answer as well."""
    text = plan(*SMALL, "--edits", "0")
    lines = [json.loads(x)["plan"] for x in text.splitlines()]
    kept = sum(x["keep"] for x in lines if x["kind"] not in ("first", "compacted"))
    whole = sum(x["keep"] + x["add"] for x in lines)
    got = json.loads(replay(text, "--api", "messages")[0])
    check(abs(got["prompt_tokens"] / whole - 1) < 0.03, "%d tokens of %d" % (got["prompt_tokens"],
                                                                             whole))
    check(got["cached_tokens"] > 0.97 * kept, "%d cached of %d" % (got["cached_tokens"], kept))


def test_a_session_ends_with_its_first_failure():
    text = plan(*SMALL)
    with Engine() as e:
        e.control("fail=503")
        with tempfile.NamedTemporaryFile("r") as out:
            chat_load(text, "--url", "127.0.0.1:%d" % e.port, "--json", "--out", out.name, status=1)
            got = json.load(out)
    equal((got["failed"], got["ok"], got["unstarted"]), (12, 0, 0), "one request a session")


def test_the_simulator_reads_the_same_plan():
    with tempfile.NamedTemporaryFile() as f:
        f.write(plan(*SMALL))
        f.flush()
        out = subprocess.run([os.path.join(BUILD, "kvroutectl"), "sim", f.name, "--engines", "2",
                              "--preset", "leastconn", "--json"], stdout=subprocess.PIPE,
                             check=True, timeout=HANG).stdout
    row = json.loads(out.splitlines()[0])
    check(row["hit"] > 0.5 and row["failed"] == 0, "%r" % row)


def test_what_is_no_plan_is_rejected():
    good = plan(*SMALL).splitlines(keepends=True)
    wrong = {b"": "it is empty", b"{}\n": "missing", b"x": "", b"".join(good[1:]): "order",
             good[0].replace(b'"kind":"first"', b'"kind":"last"'): "missing",
             good[0].replace(b'"join":-1', b'"join":5'): "that others wait for is missing",
             good[0].replace(b'"after":-1', b'"after":3'): "not before",
             good[0].replace(b'"keep":3000', b'"keep":1e9'): "range"}
    for text, why in wrong.items():
        check(why in chat_load(text, status=2), "says %r" % why)
    for options in (("--limit", "5000"), ("--turns", "0"), ("--sessions", "x"), ("more",)):
        done = subprocess.run([os.path.join(DIR, "agents_plan"), *options], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=HANG)
        equal((done.returncode, done.stdout), (2, b""), " ".join(options))


def test_the_plan_of_the_demo_is_varied():
    """make demo LOAD=agents: 20K to 180K tokens, subagents, a compaction, edits."""
    if demo_agents.CHOSEN:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = demo_agents.make_plan(folder)
        has = demo_agents.contents(path)
        check(demo_agents.is_varied(has), str(has))
        check(not demo_agents.is_varied({**has, "compactions": 0}), "a plan without a compaction")
        with open(path, "rb") as f:
            equal(len(requests(f.read(), "messages")), has["turns"], "turns that are sent")


def main():
    tests = [(n, f) for n, f in globals().items() if n.startswith("test_")]
    failed = 0
    for name, test in tests:
        try:
            test()
            print("ok    " + name[5:].replace("_", " "), flush=True)
        except Exception as e:
            failed += 1
            print("FAIL  %s: %s: %s" % (name[5:].replace("_", " "), type(e).__name__, e),
                  flush=True)
    print("%d passed, %d failed" % (len(tests) - failed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
