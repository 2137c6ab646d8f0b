#!/usr/bin/env python3
"""stable.py [--list] [-k WORD] - what doc/stable.md promises to keep is there: each name in
tests/data/stable/* is in the source of today. --list prints today's names, for the file of a
release."""
import glob
import os
import re
import sys

import cases
from cases import equal

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def text_of(*name):
    with open(os.path.join(TOP, *name)) as f:
        return f.read()


def keys():
    return ["key " + k for k in re.findall(r'^\t\{ "([\w.]+)",', text_of("agent/conf/keys.c"),
                                           re.M)]


def metrics():
    entries = re.finditer(r'^METRIC\((\w+), (\w+), "\w*", "([\w,]*)", (\w+),',
                          text_of("agent/loop/metric_list.h"), re.M)
    return ["metric kvroute_%s %s {%s}" % (m[1], m[2].lower(), m[3]) for m in entries
            if m[4] != "INTERNAL"]


def arguments():
    return ["argument " + a for a in re.findall(r'^\t\{ NAME\("(\w+)"\), A_\w+,',
                                                text_of("agent/serve/message.c"), re.M)]


def log_fields():
    return ["log-field " + f for f in re.findall(r'^\t\{ KEY\("(\w+)"\), F_\w+,',
                                                 text_of("agent/feed/logline.c"), re.M)]


def variables():
    """What serve writes into an ACK."""
    source = "".join(text_of(f) for f in glob.glob(os.path.join(TOP, "agent/serve/*.c")))
    return ["variable " + v for v in
            set(re.findall(r'\bX\(\w+, "(\w+)"\)', text_of("agent/route/vars.h"))) |
            set(re.findall(r'SPOP_SCOPE_TXN, "(\w+)"', source))]


def whys():
    listed = re.search(r"define WHY_LIST(.*?)\n\n", text_of("agent/policy/policy.h"), re.S)[1]
    return ["why " + w for w in re.findall(r'"(\w+)"', listed)]


def rules():
    return ["rule " + r for r in re.findall(
        r"X\([A-Z_]+,\s*(?:\w+,\s*)?\"?([a-z_]+)", re.search(
            r"define POLICY_RULE_LIST(.*?)\n\n", text_of("agent/policy/policy.h"), re.S)[1])]


def verbs():
    return ["kvroutectl " + v for v in re.findall(
        r"^\.Ss ([a-z-]+)$", text_of("doc/kvroutectl.8"), re.M)]


def today():
    return sorted(set(keys() + metrics() + arguments() + log_fields() + variables() + whys() +
                      rules() + verbs()))


def all_kinds_are_found():
    """A pattern that no longer fits the source must not look like a kept promise."""
    found = today()
    for kind, least in {"key": 150, "metric": 100, "argument": 25, "log-field": 15, "variable": 10,
                        "why": 8, "rule": 15, "kvroutectl": 8}.items():
        n = sum(x.startswith(kind + " ") for x in found)
        equal(n >= least, True, "%d of kind %s" % (n, kind))


def names_of_releases_are_kept():
    releases = sorted(glob.glob(os.path.join(TOP, "tests/data/stable/*")))
    equal(len(releases) >= 1, True)
    found = set(today())
    for r in releases:
        gone = [x for x in text_of(r).split("\n") if x and not x.startswith("#")
                and x not in found]
        equal(gone, [], "gone since " + os.path.basename(r))


if __name__ == "__main__":
    if "--list" in sys.argv:
        print("\n".join(today()))
        sys.exit(0)
    sys.exit(cases.main([all_kinds_are_found, names_of_releases_are_kept], sys.argv))
