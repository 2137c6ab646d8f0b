#!/usr/bin/env python3
"""monitoring.py [--check] - write doc/monitoring from agent/loop/metric_list.h:

    dashboard.json     for Grafana; help texts and units of panels come from the list
    alerts.yaml        rules for Prometheus
    alerts_test.yaml   for "promtool test rules": each rule fires in one story, and not in another

A name, a label or a kind that the list does not have is an error here. --check changes nothing, and
exits with 1 if a file there is not what this program makes.
"""
import collections
import json
import re
import sys

from alert_rules import ALERTS
from metric_list import metrics, update, wrapped

FOLDER = "doc/monitoring/"
MADE = "made by doc/monitoring.py of agent/loop/metric_list.h: change these"
LIST = metrics()
UNITS = {"seconds": "s", "bytes": "bytes", "tokens": "short", "ratio": "percentunit", "": "short"}

# ---- expressions -----------------------------------------------------------------------------


def named(name, kinds, labels):
    m = LIST.get(name)
    if m is None or m.kind not in kinds or not set(labels) <= set(m.labels) | {"instance"}:
        raise SystemExit("no %s kvroute_%s with labels %s" % ("/".join(kinds), name, labels))
    return m


def series(name, kinds, by=(), suffix="", **only):
    m = named(name, kinds, [*by, *only])
    match = ['job=~"$job"', 'instance=~"$instance"']
    if "pool" in m.labels and name != "problem":
        match.append('pool=~"$pool"')
    match += ['%s="%s"' % item for item in only.items()]
    return "kvroute_%s%s{%s}" % (name, suffix, ",".join(match))


def summed(by, what):
    return "sum by (%s) (%s)" % (", ".join(by), what) if by else "sum(%s)" % what


def rate(name, *by, **only):
    return summed(by, "rate(%s[$__rate_interval])" % series(name, ["counter"], by, **only))


def gauge(name, *by, how="sum", **only):
    return summed(by, series(name, ["gauge"], by, **only)).replace("sum", how, 1)


def share(part, whole, *by):
    return "%s / %s" % (rate(part, *by), rate(whole, *by))


def quantile(q, name, *by):
    inner = summed(("le",) + by, "rate(%s[$__rate_interval])" % series(
        name, ["histogram"], by, "_bucket"))
    return "histogram_quantile(%g, %s)" % (q, inner)


# ---- the dashboard ---------------------------------------------------------------------------

Panel = collections.namedtuple("Panel", "title unit lines")  # <unit> None: that of its metric

ROWS = [
    ("At a glance", [
        Panel("Requests", "reqps", [("requests", rate("requests_total"))]),
        Panel("Prompt tokens found in a cache", "percentunit", [
            ("expected at the chosen server", share("hit_tokens_total", "prompt_tokens_total")),
            ("at the best server", share("best_hit_tokens_total", "prompt_tokens_total")),
            ("found by engines (their metrics)",
             share("engine_hit_tokens_total", "engine_asked_tokens_total")),
            ("found, by log lines",
             share("reported_hit_tokens_total", "reported_prompt_tokens_total"))]),
        Panel("Decisions by why", "reqps", [("{{why}}", rate("decisions_total", "why"))]),
        Panel("Problems", "short", [("{{instance}} {{what}} {{pool}}",
                                     gauge("problem", "instance", "what", "pool", how="max") +
                                     " > 0")]),
    ]),
    ("Times", [
        Panel("First token", None, [
            ("%s {{pool}}" % word, quantile(q, "pool_first_token_seconds", "pool"))
            for q, word in ((0.5, "median"), (0.95, "95 %"))]),
        Panel("Requests", None, [
            ("%s {{pool}}" % word, quantile(q, "pool_request_seconds", "pool"))
            for q, word in ((0.5, "median"), (0.95, "95 %"))]),
        Panel("Expected / real time to the first token", "none", [
            ("median {{pool}}", quantile(0.5, "pool_wait_ratio", "pool")),
            ("typical error {{pool}}", gauge("pool_wait_error_ratio", "pool", how="max"))]),
        Panel("Decisions", None, [
            ("median", quantile(0.5, "decision_seconds")),
            ("99 %", quantile(0.99, "decision_seconds"))]),
        Panel("Prompt tokens", None, [
            ("%s {{pool}}" % word, quantile(q, "pool_prompt_tokens", "pool"))
            for q, word in ((0.5, "median"), (0.95, "95 %"))]),
    ]),
    ("Servers", [
        Panel("Open requests", None, [
            ("{{pool}}/{{server}}", gauge("server_open_requests", "pool", "server"))]),
        Panel("Expected wait", None, [
            ("{{pool}}/{{server}}", gauge("server_wait_seconds", "pool", "server", how="max"))]),
        Panel("Choices", "reqps", [
            ("{{pool}}/{{server}}", rate("server_picked_total", "pool", "server"))]),
        Panel("Choices by why", "reqps", [
            ("{{server}} {{why}}", rate("server_choices_total", "server", "why"))]),
        Panel("Failures", "reqps", [
            ("{{pool}}/{{server}}", rate("server_failures_total", "pool", "server"))]),
        Panel("Cache fill", "percentunit", [
            ("{{pool}}/{{server}}",
             gauge("server_held_tokens", "pool", "server", how="max") + " / (" +
             gauge("server_capacity_tokens", "pool", "server", how="max") + " > 0)")]),
        Panel("Requests waiting in engines", None, [
            ("{{pool}}/{{server}}", gauge("engine_waiting_requests", "pool", "server",
                                          how="max"))]),
    ]),
    ("Shadow mode: the agent's choices and HAProxy's", [
        Panel("Prompt tokens found in a cache", "percentunit", [
            ("kvroute", share("shadow_hit_tokens_total", "shadow_prompt_tokens_total")),
            ("haproxy", share("shadow_haproxy_hit_tokens_total", "shadow_prompt_tokens_total"))]),
        Panel("Estimated time to the first token", "s", [
            ("kvroute", share("shadow_first_seconds_total", "shadow_requests_total")),
            ("haproxy", share("shadow_haproxy_first_seconds_total", "shadow_requests_total"))]),
        Panel("Prompt tokens of compared rules", "percentunit", [
            ("{{rule}}", rate("compare_hit_tokens_total", "rule") + " / ignoring(rule) "
             "group_left " + rate("prompt_tokens_total"))]),
    ]),
    ("Overload and errors", [
        Panel("Requests that got less", "reqps", [
            ("not decided (overload)", rate("decisions_total", why="overload")),
            ("cheap information only", rate("spop_hurried_total")),
            ("without compared rules", rate("spop_uncompared_total")),
            ("not all tokenized", rate("tokenize_bounded_total"))]),
        Panel("Whether HAProxy asked", "reqps", [
            ("{{asked}}", rate("log_requests_total", "asked"))]),
        Panel("Errors that HAProxy reports", "reqps", [
            ("{{code}}", rate("haproxy_errors_total", "code"))]),
        Panel("Failures of engines", "reqps", [("{{kind}}", rate("failures_total", "kind"))]),
        Panel("Connections refused or closed", "cps", [
            ("refused, {{reason}}", rate("spop_refused_total", "reason")),
            ("closed, {{reason}}", rate("spop_closed_total", "reason"))]),
        Panel("Lines of the log feed", "cps", [("{{result}}", rate("feed_lines_total",
                                                                   "result"))]),
    ]),
    ("Sharing", [
        Panel("Connected to the store", None, [
            ("{{instance}}", gauge("share_connected", "instance", how="min"))]),
        Panel("Delay of siblings", None, [
            ("{{instance}} of {{agent}}", gauge("share_lag_seconds", "instance", "agent",
                                                how="max"))]),
        Panel("Time since the last batch of siblings", None, [
            ("{{instance}} of {{agent}}", gauge("share_silent_seconds", "instance", "agent",
                                                how="max"))]),
        Panel("Parts that differ from a sibling", None, [
            ("{{instance}}", gauge("share_differing_parts", "instance", how="max"))]),
        Panel("Bytes of batches", "Bps", [
            ("{{direction}}", rate("share_bytes_total", "direction"))]),
    ]),
    ("Index, events and the process", [
        Panel("Memory of the index", "percentunit", [
            ("{{instance}}", gauge("index_bytes", "instance", how="max") + " / " +
             gauge("index_limit_bytes", "instance", how="max"))]),
        Panel("Pages evicted", "cps", [("pages", rate("index_evicted_pages_total"))]),
        Panel("State of KV cache events", None, [
            ("{{pool}}/{{server}}", gauge("events_state", "pool", "server", how="max"))]),
        Panel("Resident memory", None, [
            ("{{instance}}", gauge("process_resident_memory_bytes", "instance", how="max"))]),
        Panel("CPU", None, [
            ("{{instance}}", rate("process_cpu_seconds_total", "instance"))]),
    ]),
]


def names_in(expression):
    """Names of metrics, without the suffixes of histograms, in the order of use."""
    found = []
    for name in re.findall(r"\bkvroute_(\w+)", expression):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        name = base if base in LIST and LIST[base].kind == "histogram" else name
        if name not in found:
            found.append(name)
    return found


def description(panel):
    names = [n for _, e in panel.lines for n in names_in(e)]
    return "\n\n".join("kvroute_%s: %s" % (n, LIST[n].help) for n in dict.fromkeys(names))


def unit_of(panel):
    """Unit of the panel, or of its first metric."""
    return panel.unit or UNITS[LIST[names_in(panel.lines[0][1])[0]].unit]


def made_panel(panel, number, x, y):
    return {
        "id": number, "type": "timeseries", "title": panel.title,
        "description": description(panel),
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"h": 8, "w": 8, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": unit_of(panel), "min": 0, "custom": {
            "lineWidth": 1, "fillOpacity": 8, "showPoints": "never"}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                    "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [{"refId": chr(ord("A") + i), "expr": e, "legendFormat": legend,
                     "datasource": {"type": "prometheus", "uid": "${datasource}"},
                     "exemplar": "_bucket" in e}
                    for i, (legend, e) in enumerate(panel.lines)],
    }


def variable(name, label, query):
    return {"name": name, "label": label, "type": "query", "query": {"query": query, "refId": "v"},
            "datasource": {"type": "prometheus", "uid": "${datasource}"}, "definition": query,
            "includeAll": True, "multi": True, "allValue": ".*", "refresh": 2, "sort": 1,
            "current": {"text": "All", "value": "$__all"}}


def dashboard():
    panels, y, number = [], 0, 1
    for title, row in ROWS:
        panels.append({"id": number, "type": "row", "title": title, "collapsed": False,
                       "panels": [], "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}})
        y, number = y + 1, number + 1
        for i, panel in enumerate(row):
            panels.append(made_panel(panel, number, i % 3 * 8, y + i // 3 * 8))
            number += 1
        y += (len(row) + 2) // 3 * 8
    return json.dumps({
        "title": "kvroute", "uid": "kvroute", "schemaVersion": 39, "version": 1, "editable": True,
        "description": "What kvroute does and is worth. " + MADE + ".",
        "tags": ["haproxy", "llm"], "time": {"from": "now-3h", "to": "now"}, "refresh": "30s",
        "graphTooltip": 1, "annotations": {"list": []},
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource",
             "query": "prometheus", "current": {}, "hide": 0},
            variable("job", "Job", "label_values(kvroute_ready, job)"),
            variable("instance", "Agent", 'label_values(kvroute_ready{job=~"$job"}, instance)'),
            variable("pool", "Pool",
                     'label_values(kvroute_pool_requests_total{job=~"$job"}, pool)')]},
        "panels": panels}, indent=1) + "\n"


# ---- the rules -------------------------------------------------------------------------------


def folded(indent, key, text):
    pad = " " * indent
    lines = wrapped(text, 98 - indent - 2)
    return "%s%s: >-\n%s" % (pad, key, "".join("%s  %s\n" % (pad, x) for x in lines))


def rules():
    out = ["# Alert rules for Prometheus; %s.\n"
           "# Scrape agents as job \"kvroute\". Only requests are at stake that could have been\n"
           "# faster: without an agent, HAProxy balances as it does without kvroute.\n"
           "groups:\n- name: kvroute\n  rules:\n" % MADE]
    for a in ALERTS:
        for name in names_in(a.expr):
            if name not in LIST:
                raise SystemExit("%s: no metric kvroute_%s" % (a.name, name))
        out.append("  - alert: %s\n%s    for: %s\n    labels: {severity: %s}\n    annotations:\n"
                   % (a.name, folded(4, "expr", a.expr), a.lasts, a.severity))
        out.append(folded(6, "summary", a.summary) + folded(6, "description", a.remedy))
    return "".join(out)


def story(a, inputs, fires):
    out = ["- interval: 1m\n  input_series:\n"]
    for s, values in inputs:
        out.append("  - series: '%s'\n    values: %s\n" % (s, values))
    out.append("  alert_rule_test:\n  - alertname: %s\n    eval_time: %s\n" % (a.name, a.at))
    if not fires:
        return "".join(out) + "    exp_alerts: []\n"
    labels = {"severity": a.severity, **a.labels}
    out.append("    exp_alerts:\n    - exp_labels:\n" + "".join(
        "        %s: %s\n" % item for item in labels.items()) + "      exp_annotations:\n")
    out.append(folded(8, "summary", a.summary) + folded(8, "description", a.remedy))
    return "".join(out)


def tests():
    return ("# Stories for \"promtool test rules\";\n# %s.\nrule_files: [alerts.yaml]\n"
            "evaluation_interval: 1m\ntests:\n" % MADE) + "".join(
                story(a, a.bad, True) + story(a, a.good, False) for a in ALERTS)


def main():
    files = {FOLDER + "dashboard.json": dashboard(), FOLDER + "alerts.yaml": rules(),
             FOLDER + "alerts_test.yaml": tests()}
    return update(files, sys.argv[1:] == ["--check"], "doc/monitoring.py")


if __name__ == "__main__":
    sys.exit(main())
