#!/usr/bin/env python3
"""sessions.py [-k WORD] - recipes/sessions.cfg with agent and stub engines, on HAProxy 2.6 and 3.2
under build/haproxy, or on the one in HAPROXY: where turns of sessions go whose bodies HAProxy shows
in part, and requests that continue a stored response.

No verdict depends on speed: the next request is sent when the agent has the end of the one before.
"""
import collections
import http.client
import os
import random
import sys

import cases
from answers import version_of
from cases import equal
from fleet import HANG_SECONDS, Fleet, HAPROXY, TOP, edited, wait_for

BINARIES = [HAPROXY] if "HAPROXY" in os.environ \
    else [p for p in (TOP + "/build/haproxy/%s/haproxy" % v for v in ("2.6", "3.2"))
          if os.path.exists(p)]
COMMON = "all sessions of one program begin with the same words " * 500     # 27 KB
FAST = ("--prefill-tps", "50000000", "--step-tokens", "400000", "--blocks", "131072")


def fleet(binary, **more):
    return Fleet(haproxy=binary, conf="recipes/sessions.cfg", engine_options=FAST, **more)


def turn(f, name, n, size=200000, header="x-session-id"):
    """Turn <n> of a session: what all have, then what only this one has."""
    own = ("%s says %d; " % (name, n)) * (size // 12)
    answer = f.chat([{"role": "system", "content": COMMON},
                     {"role": "user", "content": own[:size - len(COMMON) + 4000 * n]}],
                    headers={header: name} if name else {}, max_tokens=1)
    equal((answer.status, answer.cut != "0"), (200, True), "turn")
    f.settled()
    return answer


def warm(f):
    """Let each engine have the common part, which is all that HAProxy shows: one of them has weight
    at a time."""
    for name in f.names:
        for other in f.names:
            f.haproxy_command("set server pool/%s weight %d" % (other, other == name))
        equal(turn(f, "", 0, size=40000).engine, name, "the only engine with weight")
    for name in f.names:
        f.haproxy_command("set server pool/%s weight 1" % name)


def without_the_argument(text):
    """A configuration in which no request has a session."""
    return edited(text, "set-var-fmt(txn.session)", "set-var-fmt(txn.unused)")


def play(f, turns=4, sessions=6):
    """Sessions whose turns come in another order each time. Returns how many went to the engine of
    the turn before, of how many."""
    at, followed, order = {}, 0, list(range(sessions))
    for n in range(turns):
        random.Random(n).shuffle(order)
        for i in order:
            answer = turn(f, "talk-%d" % i, n)
            followed += at.get(i) == answer.engine
            at[i] = answer.engine
    return followed, (turns - 1) * sessions


def cut_turns_follow_their_session():
    for binary in BINARIES:
        with fleet(binary, bufsize=16384) as f:
            warm(f)
            followed, of = play(f)
            equal(followed, of, "turns to their session's engine, HAProxy " + version_of(binary))
            stayed = f.metrics()["kvroute_sessions_stayed_total"]
            equal(stayed, of, "sessions stayed")


def without_a_session_all_are_served():
    """All that tells them apart is hidden. The part that HAProxy shows names their session, which
    is the same for all, and load decides how far they follow it."""
    for binary in BINARIES[:1]:
        with fleet(binary, bufsize=16384, edit=without_the_argument) as f:
            warm(f)
            followed, of = play(f, turns=3)
            print("      %d of %d turns went to the engine of the turn before" % (followed, of))
            equal(of, 12, "turns after the first, all served")


def one_name_for_everything_gains_nothing():
    """Prompts of any length under one name are no turns of a conversation: they are spread."""
    for binary in BINARIES:
        with fleet(binary, bufsize=16384) as f:
            warm(f)
            sizes = [40000 + (i * 7919) % 19 * 9000 for i in range(24)]
            engines = collections.Counter(turn(f, "all", 0, size=n).engine for n in sizes)
            equal(len(engines), 4, "engines used: %r" % dict(engines))
            if max(engines.values()) > 12:
                raise AssertionError("pulled to one engine: %r" % dict(engines))


# ---- stored responses

def respond(f, text, stream=False, **more):
    """Returns the answer and the id of its response."""
    answer = f.post("/v1/responses", {"model": "stub", "input": text, "max_output_tokens": 2,
                                      "stream": stream, **more})
    equal(answer.status, 200, "status")
    if not stream:
        return answer, answer.json()["id"]
    return answer, next(e["response"]["id"] for e in answer.events() if "response" in e)


def a_response_is_continued_where_it_is_stored():
    for binary in BINARIES:
        streamed = (False, True) if version_of(binary) >= "3" else (False, )
        with fleet(binary) as f:
            stored = []
            for i in range(12):
                answer, name = respond(f, "begin %d " % i * 40, stream=streamed[i % len(streamed)])
                stored.append((name, answer.engine))
            wait_for("ids of responses", HANG_SECONDS,
                     lambda: f.metrics()["kvroute_responses"] == len(stored))
            if len({engine for _, engine in stored}) < 2:
                raise AssertionError("all are at one engine: %r" % stored)
            random.Random(1).shuffle(stored)
            for name, engine in stored:
                answer, _ = respond(f, "go on", previous_response_id=name)
                equal((answer.engine, answer.server, answer.why), (engine, engine, "sticky"),
                      "HAProxy %s, %s" % (version_of(binary), name))
            answer, _ = respond(f, "go on", previous_response_id="resp_unknown")
            got = f.metrics()
            equal((got["kvroute_responses_followed_total"],
                   got["kvroute_responses_unknown_total"]), (len(stored), 1), "counters")


class Fed(Fleet):
    """The agent reads HAProxy's stats socket, because load strings do not show "state drain"."""

    def agent_yaml(self):
        return super().agent_yaml() + ("stats_feed: {sockets: [\"unix@%s\"], interval: 50 ms}\n"
                                       % self.stats_path)


def a_drained_server_ends_what_it_has_stored():
    """New work goes elsewhere. In maintenance HAProxy sends it nothing."""
    for binary in BINARIES:
        with Fed(haproxy=binary, conf="recipes/sessions.cfg", engine_options=FAST) as f:
            answer, name = respond(f, "begin " * 40)
            wait_for("the response", HANG_SECONDS, lambda: f.metrics()["kvroute_responses"] == 1)
            at = answer.engine
            closed = 'kvroute_server_closed{pool="pool",server="%s"}' % at
            for command, bound in (("state drain", True), ("state ready", True), ("weight 0", True),
                                   ("weight 1", True), ("state maint", False)):
                f.haproxy_command("set server pool/%s %s" % (at, command))
                wait_for(command, HANG_SECONDS, lambda: f.metrics().get(closed) == (
                    command not in ("state ready", "weight 1")))
                what = "HAProxy %s, %s" % (version_of(binary), command)
                answer, _ = respond(f, "go on", previous_response_id=name)
                equal((answer.engine == at, answer.server == at, answer.why == "sticky"),
                      (bound, bound, bound), what)
                if command in ("state drain", "weight 0"):
                    for i in range(4):
                        other, _ = respond(f, "new %s %d " % (command, i) * 40)
                        equal(other.engine != at, True, "new work elsewhere, " + what)


def ask_by_path(f, method, path):
    """Returns the status of the answer."""
    c = http.client.HTTPConnection("127.0.0.1", f.port, timeout=HANG_SECONDS)
    try:
        c.request(method, path, headers={"content-length": "0"} if method == "POST" else {})
        r = c.getresponse()
        r.read()
        return r.status
    finally:
        c.close()


def a_response_is_asked_for_where_it_is_stored():
    """Any other engine answers 404."""
    for binary in BINARIES:
        with fleet(binary) as f:
            stored = [respond(f, "begin %d " % i * 40) for i in range(8)]
            wait_for("ids of responses", HANG_SECONDS,
                     lambda: f.metrics()["kvroute_responses"] == len(stored))
            if len({answer.engine for answer, _ in stored}) < 2:
                raise AssertionError("all are at one engine: %r" % stored)
            asks = (("GET", ""), ("GET", "?stream=true"), ("GET", "/input_items?limit=2"),
                    ("POST", "/cancel"), ("DELETE", ""))
            for method, end in asks:
                for _, name in stored:
                    equal(ask_by_path(f, method, "/v1/responses/" + name + end), 200,
                          "HAProxy %s, %s %s%s" % (version_of(binary), method, name, end))
            for path in ("nothing", "%2e%2e", "a" * 200, "x/y/z", "/"):
                equal(ask_by_path(f, "GET", "/v1/responses/" + path), 404, path[:20])
            equal(f.metrics()["kvroute_responses_followed_total"], len(asks) * len(stored),
                  "followed")


STORIES = [cut_turns_follow_their_session, without_a_session_all_are_served,
           one_name_for_everything_gains_nothing, a_response_is_continued_where_it_is_stored,
           a_drained_server_ends_what_it_has_stored, a_response_is_asked_for_where_it_is_stored]

if __name__ == "__main__":
    sys.exit(cases.main(STORIES, sys.argv))
