#!/usr/bin/env python3
"""p10_work.py [-k WORD] - promise 10: the cost of a request is bounded for any text; with a real
HAProxy, next to good requests.

Hostile bodies are 240 KB of new random letters, as conversations of a model in token mode. Nothing
is timed here: the work of each hostile request must be limited, which the agent counts in steps,
and each good request must be decided completely. Their delay is measured by "make bench-attack"
(tests/bench/attack.py). The last line is "N passed, N failed".
"""
import http.client
import json
import os
import random
import shutil
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from traffic import FAST, Fleet, main  # noqa: E402
from fleet import TOP, edited, wait_for  # noqa: E402

CASES = []
LETTERS = bytes(ord(" ") if i % 9 == 0 else ord("a") + i % 26 for i in range(256))
WORDS = ("the request of a server and to that pages which holds longest part prompt in its cache "
         "when it is sent by people").split()
SMALL = os.path.join(TOP, "tests/data/tok")


def case(f):
    CASES.append(f)
    return f


def equal(got, want, what):
    assert got == want, "%s: %r, expected %r" % (what, got, want)


def body(text, model="m"):
    return json.dumps({"messages": [{"role": "user", "content": text}], "model": model,
                       "max_tokens": 1})


def hostile(rng, n=240000):
    return body(rng.randbytes(n).translate(LETTERS).decode())


def good(rng, n=4000):
    return body(" ".join(rng.choice(WORDS) for _ in range(n // 5)))


class Attacked(Fleet):
    """A fleet whose model "m" has a tokenizer and a template: the named ones, or the small ones of
    the tests."""

    def __init__(self, tokenizer_file=None, template_file=None, **kw):
        # the stub engine counts tokens differently, and a kind of body whose counts differ would
        # leave token mode
        without = lambda text: edited(text, ',"ptok":"%[var(txn.ptok)]"', "")
        super().__init__(engine_options=FAST, edit=without, **kw)
        models = os.path.join(self.folder, "models")
        os.makedirs(models)
        shutil.copy(tokenizer_file or os.path.join(SMALL, "llama.tokenizer.json"),
                    os.path.join(models, "tokenizer.json"))
        shutil.copy(template_file or os.path.join(SMALL, "llama.chat_template.jinja"),
                    os.path.join(models, "t.jinja"))
        self.agent_conf = ("models_dir: %s\nindex: {max_bytes: 64 MiB}\n"
                           "models: [{name: m, mode: tokens, tokenizer: tokenizer.json, "
                           "chat_template: t.jinja}]" % models)

    def ask(self, text, connection=None):
        """Return the headers of the answer in lower case, and its status."""
        c = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request("POST", "/v1/chat/completions", text, {"content-type": "application/json"})
        r = c.getresponse()
        r.read()
        if connection is None:
            c.close()
        return {k.lower(): v for k, v in r.getheaders()}, r.status

    def limits(self):
        m = self.metrics()
        return {w: m['kvroute_tokenize_limits_total{limit="%s"}' % w]
                for w in ("body", "tenant", "late")}


def decided(headers, status):
    return status == 200 and bool(headers.get("x-kv-server")) and headers.get("x-kv-why") not in (
        "", "overload", None)


@case
def hostile_text_is_cut_short_and_good_text_is_not():
    with Attacked(processing="20s") as f:
        rng = random.Random(time.time_ns())
        want = [hostile(rng) for _ in range(40)]
        outcomes, lock = [], threading.Lock()

        def attack(some):
            for text in some:
                headers, status = f.ask(text)
                with lock:
                    outcomes.append(decided(headers, status))

        threads = [threading.Thread(target=attack, args=(want[i::4],)) for i in range(4)]
        for t in threads:
            t.start()
        mine = [decided(*f.ask(good(rng))) for _ in range(100)]
        for t in threads:
            t.join()
        equal(mine.count(True), 100, "good requests that were decided")
        equal(outcomes.count(True), 40, "hostile requests that were decided")
        equal(f.metrics()["kvroute_tokenize_failed_total"], 0, "failures of the tokenizer")
        equal(f.metrics()["kvroute_tokenize_bounded_total"], 40,
              "requests whose work was cut short")
        equal(sum(f.limits().values()), 40, "the same, by what cut them")


@case
def the_next_one_goes_on_from_there():
    """Send the same conversation twice: the beginning of the second is known, so more of it becomes
    pages."""
    with Attacked(processing="20s") as f:
        rng = random.Random(time.time_ns())
        text = hostile(rng)
        first, _ = f.ask(text)
        # while the first counts as open, the second may go to an idle server
        wait_for("the end of the first", 20,
                 lambda: f.metrics()["kvroute_ledger_open_requests"] == 0)
        second, _ = f.ask(text)
        assert int(first["x-kv-prompt-pages"]) > 0, first
        assert int(second["x-kv-prompt-pages"]) > int(first["x-kv-prompt-pages"]), (first, second)
        equal(second["x-kv-server"], first["x-kv-server"], "the server")
        equal(int(second["x-kv-pages"]) >= int(first["x-kv-prompt-pages"]) - 1, True,
              "pages that were known")


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv))
