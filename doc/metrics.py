#!/usr/bin/env python3
"""metrics.py [--check] - write the list of metrics in doc/kvroute.8 from the tables in the source.

The list is between the two lines that name this program there. --check changes nothing, and exits
with 1 if the page has another list than the source.
"""
import glob
import os
import re
import sys
import textwrap

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(TOP, "doc/kvroute.8")
BEGIN = '.\\" the list, made by doc/metrics.py\n'
END = '.\\" the end of what doc/metrics.py made\n'
TEXT = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
KINDS = {"COUNTER": "counter", "GAUGE": "gauge", "HISTOGRAM": "histogram"}


def unquote(c):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', c)).replace('\\"', '"').replace("\\\\", "\\")


def families():
    """[name, kind, labels, help] of each metric, in the order of the source."""
    found = {}

    def add(name, kind, help_text, label=""):
        f = found.setdefault(name, [KINDS[kind], [], help_text])
        for word in re.findall(r'(\w+)=', label):
            if word not in f[1]:
                f[1].append(word)

    for path in sorted(glob.glob(os.path.join(TOP, "agent/loop/*.c"))):
        with open(path) as f:
            c = f.read()
        if "TYPE kvroute_" not in c and "metrics_in.h" not in c:
            continue
        items = [(m.start(), "row", m) for m in re.finditer(
            r'\{ "(\w+)", "((?:[^"\\]|\\.)*)", (COUNTER|GAUGE), \w+\([^"]*?\),\s*(?:%s|NULL) \}'
            % TEXT, c)]
        items += [(m.start(), "column", m)
                  for m in re.finditer(r'\{ "(\w+)", '
                                       r'(COUNTER|GAUGE),\s+(?:offsetof\([^)]*\),\s*)?%s\}' % TEXT,
                                       c)]
        items += [(m.start(), "call", m)
                  for m in re.finditer(r'\bmetric_(?:single|family)\(\w+, "(\w+)", '
                                       r'(COUNTER|GAUGE|HISTOGRAM),\s*%s[,)]' % TEXT, c)]
        for _, what, m in sorted(items, key=lambda i: i[0]):
            if what == "row":
                if m[4]:
                    add(m[1], m[3], unquote(m[4]), m[2])
                else:
                    found[m[1]][1] += [w for w in re.findall(r'(\w+)=', m[2])
                                       if w not in found[m[1]][1]]
            else:
                add(m[1], m[2], unquote(m[3]))
    return found


def mdoc(text):
    """<text> as lines of roff, at most 100 characters each."""
    text = text.replace("\\", "\\e").replace('"', "\\(dq")
    lines = textwrap.wrap(text, 98, break_long_words=False, break_on_hyphens=False)
    return "\n".join("\\&" + x if x[:1] in ".'" else x for x in lines)


def listing():
    out = [".Bl -tag -width Ds\n"]
    for name, (kind, labels, help_text) in sorted(families().items()):
        braces = "{%s}" % ",".join(labels) if labels else ""
        out.append(".It Li kvroute_%s%s Pq %s\n%s\n" % (name, braces, kind, mdoc(help_text)))
    return "".join(out) + ".El\n"


def main():
    with open(PAGE) as f:
        page = f.read()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    made = before + BEGIN + listing() + END + after
    if sys.argv[1:] == ["--check"]:
        if made != page:
            print("doc/kvroute.8 has another list of metrics than the source: run doc/metrics.py",
                  file=sys.stderr)
        return made != page
    with open(PAGE, "w") as f:
        f.write(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
