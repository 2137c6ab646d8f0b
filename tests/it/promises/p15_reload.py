#!/usr/bin/env python3
"""p15_reload.py [-k WORD] - promise 15: a reload of the agent loses no decision, and keeps the
tree.

20 SIGHUPs under load. Valid configurations are applied. Invalid ones of every kind are rejected
with file, line and column in the log, and the previous configuration stays. No request fails, each
gets an answer of the agent, and the cached share of the prompts is the same before and after.
"""
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from traffic import FAST, Fleet, Traffic, agent_log, hit_share, main, wait_for, warm  # noqa: E402

MIB = 1 << 20
LIMIT = "kvroute_spop_buffer_limit_bytes"
REQUESTS = 40           # between two reloads, at least
SLACK = 0.02

# A mistake in a file, and the text at its place; None: it has no line.
BAD = [
    ("colour: red", "colour"),
    ("policy: {rule: no_such_rule}", "no_such_rule"),
    ("policy:\n  load_ms: soon", "soon"),
    ("index: {max_bytes: 1}", "1}"),
    ("pools: [{name: a}, {name: a}]", "name: a}]"),
    ("policy: {rule: cost", None),
    ("threads: 1", "threads"),                  # twice: the fleet's own file has it too
    ("prompt: {text_page: 128}", None),         # good, but only at a start
]


def put(f, n, more=""):
    """Return a configuration that is visible in the metrics: <n> MiB of buffers."""
    f.spop_more, f.agent_conf = "max_bytes: %d MiB" % n, more
    text = f.agent_yaml()
    return f.write("kvroute.yaml", text), text


def place(text, mistake):
    """Return line and column, from 1, of the last <mistake> in <text>."""
    at = text.rindex(mistake)
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def reload(f, outcome):
    """Return the log lines of the reload."""
    start = os.path.getsize(os.path.join(f.folder, "agent.log"))
    f.processes["agent"].send_signal(signal.SIGHUP)
    return wait_for("the log to say \"%s\"" % outcome, 30,
                    lambda: (lambda s: s if outcome in s else "")(agent_log(f, start)))


def good(f, n):
    put(f, n)
    reload(f, "msg=reloaded")
    limit = f.metrics()[LIMIT]
    assert limit == n * MIB, "a good configuration: %d bytes of buffers instead of %d" % (
        limit, n * MIB)


def bad(f, n, kept, more, mistake):
    path, text = put(f, n, more)
    said = reload(f, "reload refused; the old configuration stays")
    if mistake is not None:
        line, column = place(text, mistake)
        want = "file=%s line=%d column=%d " % (path, line, column)
        assert want in said, "no \"%s\" for \"%s\" in: %s" % (want, more, said)
    assert "msg=reloaded" not in said, "taken: " + more
    limit = f.metrics()[LIMIT]
    assert limit == kept * MIB, "the old one is not kept: %d bytes of buffers instead of %d" % (
        limit, kept * MIB)


def twenty_reloads_under_load():
    with Fleet(engine_options=FAST) as f:
        t = Traffic(f)
        warm(t, f)
        with t:
            t.wait(20 * REQUESTS)
            begun, before = time.monotonic(), f.metrics()
            kept, n_good, n_bad = 256, 0, 0
            for i in range(20):
                t.wait(REQUESTS)
                if i % 5 < 3:
                    bad(f, 500 + i, kept, *BAD[n_bad % len(BAD)])
                    n_bad += 1
                else:
                    kept = 100 + i
                    good(f, kept)
                    n_good += 1
            t.wait(REQUESTS)
            ended = time.monotonic()
            t.wait(20 * REQUESTS)
            after = f.metrics()
        log = agent_log(f)
    first, last = t.between(0, begun), t.between(ended, ended + 3600)
    share = [hit_share(x) for x in (first, t.between(begun, ended), last)]
    unanswered = [r for r in t.rows if r.why == "" or r.server == ""]
    print("promise 15: reloads=%d refused=%d requests=%d failed=%d errors=%d unanswered=%d"
          % (n_good, n_bad, len(t.rows), len(t.failed()), len(t.errors()), len(unanswered)))
    print("promise 15: cached_share before=%.4f during=%.4f after=%.4f pages before=%d after=%d"
          % (*share, before["kvroute_index_pages"], after["kvroute_index_pages"]))
    assert not t.failed(), t.failed()[:3]
    assert not t.errors(), t.errors()[:3]
    assert not unanswered, unanswered[:3]
    assert log.count("msg=reloaded") == n_good
    assert share[0] > 0.8, "nothing was cached to begin with"
    assert min(share[1:]) >= share[0] - SLACK, "the share fell"
    assert after["kvroute_index_pages"] >= before["kvroute_index_pages"], "pages were lost"
    assert after["kvroute_spop_closed_total{reason=\"drain\"}"] == 0, "connections were closed"


def a_file_that_is_gone():
    """A missing file and an unreadable one are rejected, and the next valid one is applied."""
    with Fleet(engine_options=FAST) as f:
        good(f, 300)
        path = os.path.join(f.folder, "kvroute.yaml")
        os.unlink(path)
        said = reload(f, "reload refused")
        assert re.search(r"error=.*(No such file|cannot)", said), said
        assert f.metrics()[LIMIT] == 300 * MIB
        os.mkdir(path)
        reload(f, "reload refused")
        os.rmdir(path)
        good(f, 301)


def a_file_that_is_a_pipe():
    """A configuration that is a pipe, with a silent writer and without one: rejected at once, and
    the agent continues and can be stopped."""
    with Fleet(engine_options=FAST) as f:
        good(f, 300)
        path = os.path.join(f.folder, "kvroute.yaml")
        os.unlink(path)
        os.mkfifo(path)
        reload(f, "reload refused")
        held = os.open(path, os.O_RDWR)
        try:
            said = reload(f, "reload refused")
            assert "not a regular file" in said, said
        finally:
            os.close(held)
        assert f.metrics()[LIMIT] == 300 * MIB
        os.unlink(path)
        good(f, 301)


CASES = [twenty_reloads_under_load, a_file_that_is_gone, a_file_that_is_a_pipe]

if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
