#!/usr/bin/env python3
"""page.py [-k WORD] - the page / of the metrics listener and its figures, /status.json, beside a
HAProxy with two stub engines. The page itself runs in headless Chromium where there is one.

SHOTS=FOLDER keeps a picture of it for a wide window and for a phone.
"""
import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import cases
from cases import equal
from fleet import Fleet, HANG_SECONDS, TOP, wait_for

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
OPENING = "You answer questions about trains. " * 200
CONF = 'policy: {learn_rate: false, compare: [round_robin]}\n'


def page_file():
    with open(os.path.join(TOP, "agent/loop/page.html")) as f:
        return f.read()


def with_traffic():
    f = Fleet(engines=2, agent_conf=CONF)
    f.start()
    for i in range(6):
        equal(f.chat([{"role": "system", "content": OPENING},
                      {"role": "user", "content": "Question %d" % (i // 2)}]).status, 200)
    wait_for("the ends of all requests", HANG_SECONDS, lambda: status(f)["ends"] == 6)
    return f


def status(f):
    code, text = f.get("/status.json", f.metrics_port)
    equal(code, 200)
    return json.loads(text)


def figures_are_those_of_metrics():
    f = with_traffic()
    try:
        s, m = status(f), f.metrics()
        equal(s["requests"], 6)
        equal(s["requests"], m["kvroute_requests_total"], "requests")
        equal(s["prompt_tokens"], m["kvroute_prompt_tokens_total"], "prompt tokens")
        equal(s["hit_tokens"], m["kvroute_hit_tokens_total"], "hit tokens")
        equal(s["hit_tokens"] > 0, True, "hits")
        equal(sum(s["why"].values()), 6, "decisions by why")
        equal([p["name"] for p in s["pools"]], ["pool"])
        equal(sorted(v["name"] for v in s["servers"]), ["s1", "s2"])
        equal(sum(v["picked"] for v in s["servers"]), 6)
        for v in s["servers"]:
            label = '{pool="pool",server="%s"}' % v["name"]
            equal(v["picked"], m["kvroute_server_picked_total" + label], v["name"])
            equal(v["held_tokens"], m["kvroute_server_held_tokens" + label], v["name"])
            equal(v["up"], True)
        equal([c["rule"] for c in s["compare"]], ["round_robin"])
        code, text = f.get("/decisions?n=6&blocks=1", f.metrics_port)
        equal(code, 200)
        blocks = [d["blocks"] for d in json.loads(text)["decisions"]]
        equal(len({b[0] for b in blocks}), 1, "one opening")
        equal("blocks" in f.get("/decisions?n=6", f.metrics_port)[1], False)
        equal("trains" in text + json.dumps(s), False, "text of a prompt")
    finally:
        f.stop()


def the_policy_allows_its_own_script_only():
    page = page_file()
    script = re.search(r"<script>(.*?)</script>", page, re.S)[1]
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    equal(re.search(r"script-src 'sha256-([^']+)'", page)[1], hashed, "write this into page.html")
    equal(re.search(r"default-src ([^;]+);", page)[1], "'none'")
    equal(re.findall(r"connect-src ([^;]+);", page), ["'self'"])
    others = set(re.findall(r"https?://[^\s\"']+", page)) - {"http://www.w3.org/2000/svg"}
    equal(others, set(), "addresses of others")
    equal(re.findall(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(", page), [],
          "text as HTML")


def run_chromium(f, *options):
    folder = os.path.join(f.folder, "chromium")
    return subprocess.run(
        [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + folder,
         "--disable-dev-shm-usage", "--virtual-time-budget=9000", *options,
         "http://127.0.0.1:%d/" % f.metrics_port],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=HANG_SECONDS, check=True).stdout


def shoot(f):
    folder = os.environ.get("SHOTS")
    if not folder:
        return
    for name, size in ("wide", "1280,1500"), ("phone", "390,1900"):
        run_chromium(f, "--window-size=" + size,
                     "--screenshot=%s/%s.png" % (os.path.abspath(folder), name))


def a_browser_shows_servers_decisions_and_prefixes():
    f = with_traffic()
    try:
        code, text = f.get("/", f.metrics_port)
        equal((code, text), (200, page_file()))
        if CHROMIUM is None:
            print("skipped: the page in a browser, there is no chromium")
            return
        seen = run_chromium(f, "--dump-dom").decode()
        for word in (">s1<", ">s2<", "6 in all", ">round_robin<", "#6", "First token, median",
                     "in 6 requests", "No problems found"):
            if word not in seen:
                raise AssertionError("the page does not show %r:\n%s" % (
                    word, re.sub(r"(?s)<(script|style)>.*?</\1>", "", seen)))
        equal(re.findall(r">(?:undefined|NaN|null)<", seen), [])
        shoot(f)
    finally:
        f.stop()


if __name__ == "__main__":
    sys.exit(cases.main([figures_are_those_of_metrics, the_policy_allows_its_own_script_only,
                         a_browser_shows_servers_decisions_and_prefixes], sys.argv))
