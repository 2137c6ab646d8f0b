"""metric_list.py - read agent/loop/metric_list.h, for the programs here that make files of it.

The file has comments and entries METRIC(...) only; anything else is an error, so that no entry is
overlooked.
"""
import collections
import os
import re
import textwrap

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIST = os.path.join(TOP, "agent/loop/metric_list.h")
TEXT = r'"(?:[^"\\\n]|\\.)*"'
ENTRY = re.compile(r'METRIC\((\w+), (COUNTER|GAUGE|HISTOGRAM), "(\w*)", "([\w,]*)", '
                   r'(STABLE|INTERNAL),\s*(%s(?:\s*%s)*)\)\s*' % (TEXT, TEXT))

Metric = collections.namedtuple("Metric", "name kind unit labels stable help")


def metrics():
    """Metric of each name, in the order of the list."""
    with open(LIST) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S).lstrip()
    found = {}
    while text:
        m = ENTRY.match(text)
        if not m:
            raise SystemExit("%s: not an entry: %s" % (LIST, text[:70]))
        words = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', m[6]))
        found[m[1]] = Metric(m[1], m[2].lower(), m[3], [x for x in m[4].split(",") if x],
                             m[5] == "STABLE", re.sub(r"\\(.)", r"\1", words))
        text = text[m.end():]
    return found


def wrapped(text, width=98):
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def update(files, check, made_by):
    """Write {path: text}, or with <check> name those that differ. Returns the exit status."""
    status = 0
    for path, text in files.items():
        full = os.path.join(TOP, path)
        have = open(full).read() if os.path.exists(full) else None
        if have == text:
            continue
        if check:
            print("%s is not what %s makes of the source: run make docs" % (path, made_by))
            status = 1
        else:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w") as f:
                f.write(text)
    return status
