#!/usr/bin/env python3
"""monitoring.py [-k WORD] - the dashboard and the alert rules of doc/monitoring: they are what the
list of metrics makes, they name only what it has, and the rules fire when they should.

This reads the list and the expressions in its own way, so that a mistake in doc/monitoring.py
shows.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

import cases
from cases import equal

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(TOP, "doc/monitoring")
PROMTOOL = os.path.join(TOP, "build/bin/promtool")
# of Prometheus: its own labels, and words of expressions
OWN = {"job", "instance", "le"}


def text_of(name):
    with open(os.path.join(TOP, name)) as f:
        return f.read()


def listed():
    """{name: (kind, labels, internal)}"""
    entries = re.finditer(r'^METRIC\((\w+), (\w+), "\w*", "([\w,]*)", (\w+),',
                          text_of("agent/loop/metric_list.h"), re.M)
    return {m[1]: (m[2], set(filter(None, m[3].split(","))), m[4] == "INTERNAL") for m in entries}


def dashboard():
    return json.loads(text_of("doc/monitoring/dashboard.json"))


def rules():
    """[(name, expression, texts)] of the alert rules."""
    out = []
    for part in text_of("doc/monitoring/alerts.yaml").split("  - alert: ")[1:]:
        expr = re.search(r"expr: >-\n((?: {6}.*\n)+)", part)[1]
        texts = re.search(r"annotations:\n((?: {6,}.*\n)+)", part)[1]
        out.append((part.split("\n")[0], " ".join(expr.split()), " ".join(texts.split())))
    return out


def expressions():
    out = [t["expr"] for p in dashboard()["panels"] for t in p.get("targets", [])]
    return out + [e for _, e, _ in rules()]


def base(name, known):
    for suffix in "_bucket", "_sum", "_count":
        if name.endswith(suffix) and known.get(name[:-len(suffix)], ("",))[0] == "HISTOGRAM":
            return name[:-len(suffix)]
    return name


def names_and_labels_are_those_of_the_list():
    known = listed()
    equal(len(known) > 280, True)
    for e in expressions():
        names = {base(n, known) for n in re.findall(r"\bkvroute_(\w+)", e)}
        equal(names - set(known), set(), e)
        labels = set(re.findall(r"[{,](\w+)=", e))
        for group in re.findall(r"\bby \(([^)]*)\)", e):
            labels |= {x.strip() for x in group.split(",")}
        have = set().union(*(known[n][1] for n in names)) if names else set()
        equal(labels - have - OWN, set(), e)


def counters_are_rates_and_gauges_are_not():
    known = listed()
    for e in expressions():
        for m in re.finditer(r"(\w*)\(?kvroute_(\w+)", e):
            kind = known[base(m[2], known)][0]
            equal(m[1] == "rate", kind != "GAUGE", "%s in %s" % (m[2], e))


def alerts_name_no_internal_metric():
    known = listed()
    for name, e, _ in rules():
        for n in re.findall(r"\bkvroute_(\w+)", e):
            equal(known[base(n, known)][2], False, name + " uses " + n)


def texts_name_keys_and_metrics_that_exist():
    keys = set(re.findall(r'^\t\{ "([\w.]+)",', text_of("agent/conf/keys.c"), re.M))
    known = listed()
    sections = set(re.findall(r"^\.Sh (.*)$", text_of("doc/kvroute.8"), re.M))
    for name, _, words in rules():
        for key in re.findall(r"(?<![\w/.])([a-z_]+\.[a-z_]+)\b", words):
            equal(key in keys, True, name + ": " + key)
        for n in re.findall(r"\bkvroute_(\w+)", words):
            equal(base(n, known) in known, True, name + ": " + n)
        for title in re.findall(r"kvroute\(8\), ([A-Z][A-Z ]+)\b", words):
            equal(title.strip() in sections, True, name + ": " + title)


def the_dashboard_has_its_rows():
    d = dashboard()
    rows = [p["title"] for p in d["panels"] if p["type"] == "row"]
    equal(len(rows), 7)
    equal(len({p["id"] for p in d["panels"]}), len(d["panels"]))
    boxes = [p["gridPos"] for p in d["panels"]]
    taken = {(x, y) for b in boxes for x in range(b["x"], b["x"] + b["w"])
             for y in range(b["y"], b["y"] + b["h"])}
    equal(len(taken), sum(b["w"] * b["h"] for b in boxes), "panels overlap")
    used = " ".join(expressions())
    for name in ("hit_tokens_total", "best_hit_tokens_total", "reported_hit_tokens_total",
                 "pool_first_token_seconds", "decisions_total", "server_open_requests", "problem",
                 "share_connected", "haproxy_errors_total", "shadow_haproxy_hit_tokens_total"):
        equal("kvroute_" + name in used, True, name)


def files_are_what_the_list_makes():
    for program in "doc/monitoring.py", "doc/metrics.py":
        p = subprocess.run([sys.executable, os.path.join(TOP, program), "--check"],
                           capture_output=True, text=True)
        equal((p.returncode, p.stdout + p.stderr), (0, ""), program)


def every_metric_is_written():
    """What is in the list and nowhere else is never on the page."""
    folder = os.path.join(TOP, "agent/loop")
    source = "".join(text_of(os.path.join(folder, f)) for f in sorted(os.listdir(folder))
                     if f.startswith("metrics") and f.endswith(".c"))
    used = set(re.findall(r"\bM_(\w+)", source))
    equal(set(listed()) - used, set(), "never written")


def promtool_finds_no_fault():
    if not os.path.exists(PROMTOOL):
        print("skipped: promtool is not at hand, so the rules are not tested")
        return
    for what in ("check", "alerts.yaml"), ("test", "alerts_test.yaml"):
        p = subprocess.run([PROMTOOL, what[0], "rules", what[1]], cwd=FOLDER, capture_output=True,
                           text=True)
        equal(p.returncode, 0, p.stdout + p.stderr)


def expressions_of_panels_parse():
    """As recording rules, with values in place of Grafana's variables."""
    if not os.path.exists(PROMTOOL):
        print("skipped: promtool is not at hand, so the panels are not tested")
        return
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write("groups:\n- name: panels\n  rules:\n")
        for i, e in enumerate(t["expr"] for p in dashboard()["panels"]
                              for t in p.get("targets", [])):
            e = e.replace("$__rate_interval", "5m")
            equal(set(re.findall(r"\$\w+", e)) - {"$job", "$instance", "$pool"}, set(), e)
            f.write("  - record: panel:%d\n    expr: '%s'\n" % (i, e))
        f.flush()
        p = subprocess.run([PROMTOOL, "check", "rules", f.name], capture_output=True, text=True)
        equal(p.returncode, 0, p.stdout + p.stderr)
        equal("%d rules found" % (i + 1) in p.stdout, True, p.stdout)


def each_rule_has_both_stories():
    stories = text_of("doc/monitoring/alerts_test.yaml").split("- interval:")[1:]
    fires = [re.search(r"alertname: (\w+)", s)[1] for s in stories if "exp_alerts: []" not in s]
    quiet = [re.search(r"alertname: (\w+)", s)[1] for s in stories if "exp_alerts: []" in s]
    names = [name for name, _, _ in rules()]
    equal((fires, quiet), (names, names))


if __name__ == "__main__":
    sys.exit(cases.main([
        names_and_labels_are_those_of_the_list, counters_are_rates_and_gauges_are_not,
        alerts_name_no_internal_metric, texts_name_keys_and_metrics_that_exist,
        the_dashboard_has_its_rows, files_are_what_the_list_makes, every_metric_is_written,
        promtool_finds_no_fault, expressions_of_panels_parse,
        each_rule_has_both_stories], sys.argv))
