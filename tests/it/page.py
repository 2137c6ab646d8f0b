#!/usr/bin/env python3
"""page.py [-k WORD] - the page / of the metrics listener and its figures, /status.json, beside a
HAProxy with two stub engines. The page itself runs in headless Chromium where there is one.

SHOTS=FOLDER keeps pictures of it: wide and for a phone, light and dark.
"""
import base64
import hashlib
import json
import os
import re
import sys

import cases
from browser import CHROMIUM, Browser
from cases import equal
from fleet import Fleet, HANG_SECONDS, TOP, wait_for

OPENING = "You answer questions about trains. " * 200
# it tells first tokens, which 2.6 does not
NEWER = os.path.join(TOP, "build/haproxy/3.2/haproxy")
CONF = 'policy: {learn_rate: false, compare: [round_robin]}\n'


def page_file():
    with open(os.path.join(TOP, "agent/loop/page.html")) as f:
        return f.read()


def with_traffic():
    f = Fleet(engines=2, agent_conf=CONF, haproxy=NEWER if os.path.exists(NEWER) else None)
    f.start()
    for i in range(6):
        equal(f.chat([{"role": "system", "content": OPENING},
                      {"role": "user", "content": "Question %d" % (i // 2)}],
                     stream=i > 2).status, 200)
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
        equal([s["pools"][0][k] for k in ("unseen_kept_s", "unseen_came")], [None] * 2, "unknown")
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


def open_page(f, **how):
    b = Browser("http://127.0.0.1:%d/" % f.metrics_port, HANG_SECONDS, **how)
    try:
        b.wait("decisions", "document.querySelectorAll('#decisions button').length >= 6")
    except BaseException:
        b.close()
        raise
    return b


def shoot(f):
    folder = os.environ.get("SHOTS")
    if not folder:
        return
    for name, how in (("wide", {}), ("wide-dark", {"dark": True}), ("phone", {"width": 390}),
                      ("phone-dark", {"width": 390, "dark": True})):
        b = open_page(f, **how)
        b.picture("%s/%s.png" % (os.path.abspath(folder), name))
        b.close()


def a_browser_shows_servers_decisions_and_prefixes():
    f = with_traffic()
    try:
        code, text = f.get("/", f.metrics_port)
        equal((code, text), (200, page_file()))
        if CHROMIUM is None:
            print("skipped: the page in a browser, there is no chromium")
            return
        b = open_page(f)
        seen = b.value("document.querySelector('header').textContent + "
                       "document.querySelector('main').textContent")
        for word in ("s1", "s2", "6 in all", "round_robin", "#6", "in 6 requests",
                     "First token, median" if os.path.exists(NEWER) else "No first tokens yet",
                     "No problems found", "expected wait",
                     "In time: no request has got less than all", "hurried"):
            if word not in seen:
                raise AssertionError("the page does not show %r:\n%s" % (word, seen))
        equal(re.findall(r"\b(?:undefined|NaN|null)\b", seen), [])
        b.close()
        shoot(f)
    finally:
        f.stop()


# the figures of the agent with one of them raised, drawn, and what the page then says
RAISED = """(() => {
    const s = structuredClone(last), part = "%s".split(".");
    s[part[0]][part[1]] += 3;
    show_overload(s);
    const e = document.getElementById("overload-state");
    return [e.textContent, e.className];
})()"""


def states_of_overload():
    if CHROMIUM is None:
        print("skipped: the page in a browser, there is no chromium")
        return
    f = with_traffic()
    try:
        b = open_page(f)
        for figure, word in (("decisions.without_compare", "busy"),
                             ("decisions.hurried", "hurried"),
                             ("overload.text_bounded", "bounded"),
                             ("decisions.declined", "declined"),
                             ("overload.notifies_lost", "lost"),
                             ("overload.connections_refused", "refused"),
                             ("overload.claims_refused", "forgotten")):
            said, color = b.value(RAISED % figure)
            equal((said.split(":")[0], "(3 since" in said, color), (word, True, "bad"), figure)
        said = b.value("show_shadow({pools: [{shadow: {prompt_tokens: 100, hit_tokens: 60, "
                       "haproxy_hit_tokens: 20}}, {}]}), "
                       "document.getElementById('tiles').lastElementChild.textContent")
        equal(said, "found by HAProxy's balancing20.0 %60.0 % by kvroute, of the same prompts")
        for quiet, sentence in (("false", "since 5 min, last seen 20 s ago; example: server=s9"),
                                ("true", "since 5 min, last seen 20 s ago: perhaps it is cured")):
            said = b.value("""show_problems({problems: [{what: "server_unnamed", pool: "pool",
                since_s: 300, last_seen_s: 20, quiet: %s, example: "server=s9", message: "m",
                effect: "e", remedy: "r"}]}), document.getElementById("problems").textContent"""
                           % quiet)
            equal(sentence in said and "m (pool)" in said, True, said)
        for source, rate in (("guess", "~8000"), ("pool", "~8000"), ("learned", "8000")):
            said = b.value("""(() => { const s = structuredClone(last);
                s.servers.forEach(v => { v.speed_source = "%s"; v.tokens_per_s = 8000; });
                show_servers(s);
                return document.querySelector("#servers tbody tr").lastElementChild.textContent +
                    " " + document.getElementById("guesses").hidden; })()""" % source)
            equal(said.split()[0], rate, source)
        b.close()
    finally:
        f.stop()


LUMINANCE = """(() => {
    const lum = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => { x /= 255;
        return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
    const behind = e => { for (; e; e = e.parentElement) {
        const c = getComputedStyle(e).backgroundColor;
        if (!/, 0\\)$|transparent/.test(c)) return c; } return "rgb(255, 255, 255)"; };
    const out = [];
    for (const e of document.querySelectorAll("h1,h2,td,th,p,small,b,a,button,pre")) {
        if (!e.innerText || e.offsetParent === null) continue;
        const a = lum(getComputedStyle(e).color), b = lum(behind(e));
        out.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.innerText.slice(0, 40)]);
    }
    return [lum(behind(document.body)), out.length, out.sort((x, y) => x[0] - y[0])[0]];
})()"""


def dark_mode_follows_the_browser_and_can_be_read():
    if CHROMIUM is None:
        print("skipped: the page in a browser, there is no chromium")
        return
    f = with_traffic()
    try:
        b = open_page(f)
        for dark in False, True:
            b.scheme(dark)
            ground, n, least = b.value(LUMINANCE)
            equal(ground < 0.05, dark, "luminance of the ground: %s" % ground)
            equal(n > 60, True, "texts")
            equal(least[0] >= 4.5, True, "contrast of %r: %.1f" % (least[1], least[0]))
        b.close()
    finally:
        f.stop()


def at(b):
    return b.value("document.activeElement.dataset.key || ''")


def the_keyboard_opens_a_decision_and_stays_there():
    if CHROMIUM is None:
        print("skipped: the page in a browser, there is no chromium")
        return
    f = with_traffic()
    try:
        b = open_page(f)
        b.ask("Page.bringToFront")
        for _ in range(60):
            b.press("Tab")
            if at(b):
                break
        first = at(b)
        equal(first, "6", "the first button, by the keyboard")
        width = b.value("getComputedStyle(document.activeElement).outlineStyle")
        equal(width, "solid", "the focus is seen")
        b.press("Enter")
        b.wait("the explanation", "!document.getElementById('explained').hidden")
        equal(at(b), first, "the focus stays")
        equal(b.value("document.activeElement.getAttribute('aria-expanded')"), "true")
        equal("decision 6 " in b.value("document.getElementById('explained').textContent"), True)
        b.press("Tab")
        equal(at(b), "5", "the next one")
        b.press("Space")
        b.wait("another one", "document.getElementById('explained').textContent"
               ".startsWith('decision 5 ')")
        # decisions are looked at again every 5 s, which must not take the focus away
        b.value("document.querySelector('#decisions table').dataset.old = 1, 0")
        b.wait("a new table", "!document.querySelector('#decisions table').dataset.old")
        equal(at(b), "5", "the focus after a new look")
        b.press("Enter")
        b.wait("no explanation", "document.getElementById('explained').hidden")
        b.close()
    finally:
        f.stop()


def it_fits_a_phone():
    if CHROMIUM is None:
        print("skipped: the page in a browser, there is no chromium")
        return
    f = with_traffic()
    try:
        b = open_page(f, width=360)
        equal(b.value("document.documentElement.scrollWidth"), 360, "the page is not wider")
        equal(b.value("[...document.querySelectorAll('.scroll')].filter(x => x.scrollWidth > "
                      "x.clientWidth).every(x => x.tabIndex === 0)"), True,
              "tables that are can be scrolled by keys")
        b.close()
    finally:
        f.stop()


if __name__ == "__main__":
    sys.exit(cases.main([figures_are_those_of_metrics, the_policy_allows_its_own_script_only,
                         a_browser_shows_servers_decisions_and_prefixes,
                         states_of_overload, dark_mode_follows_the_browser_and_can_be_read,
                         the_keyboard_opens_a_decision_and_stays_there, it_fits_a_phone],
                        sys.argv))
