#!/usr/bin/env python3
"""metrics.py [--check] - write the list of metrics in doc/kvroute.8 from agent/loop/metric_list.h.

The list is between the two lines that name this program there. --check changes nothing, and exits
with 1 if the page has another list than the source.
"""
import os
import sys

from metric_list import TOP, metrics, update, wrapped

PAGE = "doc/kvroute.8"
BEGIN = '.\\" the list, made by doc/metrics.py\n'
END = '.\\" the end of what doc/metrics.py made\n'


def mdoc(text):
    """<text> as lines of roff, at most 100 characters each."""
    lines = wrapped(text.replace("\\", "\\e").replace('"', "\\(dq"))
    return "\n".join("\\&" + x if x[:1] in ".'" else x for x in lines)


def listing():
    out = [".Bl -tag -width Ds\n"]
    for name, m in sorted(metrics().items()):
        braces = "{%s}" % ",".join(m.labels) if m.labels else ""
        kind = m.kind if m.stable else m.kind + ", internal"
        out.append(".It Li kvroute_%s%s Pq %s\n%s\n" % (name, braces, kind, mdoc(m.help)))
    return "".join(out) + ".El\n"


def main():
    with open(os.path.join(TOP, PAGE)) as f:
        page = f.read()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    made = before + BEGIN + listing() + END + after
    return update({PAGE: made}, sys.argv[1:] == ["--check"], "doc/metrics.py")


if __name__ == "__main__":
    sys.exit(main())
