#!/usr/bin/env python3
"""stable.py [--list] [-k WORD] - what doc/stable.md promises to keep is there: each name in
tests/data/stable/* is in the source of today, and the file of this version lacks none. --list
prints today's names, for that file. Nothing needs to be built."""
import glob
import os
import re
import sys

import cases
import manual
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


def commands():
    out = ["kvroutectl " + v for v in manual.verbs()]
    for verb in manual.verbs():
        out += ["kvroutectl %s %s" % (verb, o) for o in options_in(
            manual.section("kvroutectl.8", "Ss", verb))]
    top = manual.section("kvroute.8", "Sh", "DESCRIPTION")
    return out + ["kvroute " + o for o in options_in(top)]


def options_in(text):
    """Of items as ".It Fl f Ar FILE", ".It Fl V , Fl Fl version"."""
    out = set()
    for item in re.findall(r"^\.It (Fl .*)$", text, re.M):
        out |= {"-" + o for o in re.findall(r"(?<!Fl )\bFl (\w)\b", item)}
        out |= {"--" + o for o in re.findall(r"\bFl Fl ([\w-]+)", item)}
    return out


def exit_statuses():
    """Suite manual compares them with the programs."""
    return ["exit %d of %s" % (code, (page[:-2] + " " + verb).strip())
            for page in ("kvroute.8", "kvroutectl.8")
            for verb, codes in manual.codes_of(page).items() for code in codes]


def runtime_commands():
    shows = re.findall(r'^\tX\([A-Z]+, "(\w+)"', text_of("agent/loop/command.h"), re.M)
    rows = re.findall(r'\{ COMMAND_\w+, \{ ([^}]*) \}, FOLLOW', text_of("agent/loop/command.c"))
    others = {" ".join(re.findall(r'"(\w+)"', r)) for r in rows} - {"show"}
    return ["runtime " + c for c in ["show " + w for w in shows] + sorted(others)]


def fields_of(*name):
    """The members that a page writes: put_count(t, "name", ...), put_name(t, "name"), and
    ",\\"name\\":" in a format."""
    source = text_of(*name)
    return set(re.findall(r'\b(?:put_\w+|open_list)\(\w[\w>.-]*, "(\w+)"', source)) | set(
        re.findall(r'\\"(\w+)\\":', source))


def json_fields():
    return (["/status.json " + f for f in fields_of("agent/loop/status_page.c")] +
            ["/decisions " + f for f in fields_of("agent/loop/decisions_page.c")])


def pages():
    return ["page " + p for p in re.findall(
        r'span_eq\(path, SPAN\("(/[\w./]*)"\)', text_of("agent/loop/admin.c"))]


def installed():
    """The paths that "make install PREFIX=/usr" writes, and those of kvroute(8), FILES. Pages below
    share/doc are no promise, except that its examples are there."""
    where = dict(re.findall(r"^([A-Z]+DIR) +\?= (\S.*)$", text_of("Makefile"), re.M),
                 SYSCONFDIR="/etc", PREFIX="/usr")
    out = {"/" + p.lstrip("/") for item in re.findall(
        r"^\.It Pa (/.*)$", manual.section("kvroute.8", "Sh", "FILES"), re.M)
        for p in item.split(" , ")}
    for path in re.findall(r'"(\$[A-Z]+/[^"]*)"$', text_of("packaging/install.sh"), re.M):
        while "$" in re.sub(r"\$\{?page.*", "", path):
            path = re.sub(r"\$\(?([A-Z]+)\)?", lambda m: where[m[1]], path)
        if "page" in path:
            out |= {"/usr/share/man/man%s/%s" % (p[-1], os.path.basename(p))
                    for p in glob.glob(os.path.join(TOP, "doc/*.[58]"))}
        elif "/share/doc/" not in path:
            out.add(path)
    return ["path " + p for p in out]


def system():
    """Packages, unit, users and groups."""
    out = ["package " + p for p in re.findall(r"^Package: (\S+)$", text_of("debian/control"), re.M)]
    out += ["%s %s" % ({"u": "user", "g": "group"}[kind], name) for kind, name in re.findall(
        r"^([ug]) (\S+)", text_of("packaging/systemd/kvroute.sysusers"), re.M)]
    return out


def spop():
    return ["spop " + f for f in set(re.findall(r"\b(spop_\w+)\(", text_of("spoe/spop.h")))]


KINDS = {keys: 150, metrics: 100, arguments: 25, log_fields: 15, variables: 10, whys: 8, rules: 15,
         commands: 80, exit_statuses: 25, runtime_commands: 15, json_fields: 120, pages: 7,
         installed: 15, system: 4, spop: 10}
HEADER = "# Names that %s has: doc/stable.md. Made by tests/it/stable.py --list."


def version():
    return re.search(r"^VERSION := (\S+)$", text_of("Makefile"), re.M)[1]


def today():
    return sorted({name for kind in KINDS for name in kind()})


def all_kinds_are_found():
    """A pattern that no longer fits the source must not look like a kept promise."""
    for kind, least in KINDS.items():
        n = len(set(kind()))
        equal(n >= least, True, "%s: %d names, not %d" % (kind.__name__, n, least))


def names_in(path):
    return [x for x in text_of(path).split("\n") if x and not x.startswith("#")]


def names_of_releases_are_kept():
    releases = sorted(glob.glob(os.path.join(TOP, "tests/data/stable/*")))
    equal(len(releases) >= 1, True)
    found = set(today())
    for r in releases:
        equal([x for x in names_in(r) if x not in found], [], "gone since " + os.path.basename(r))


def the_file_of_this_version_is_up_to_date():
    """A name that it lacks would be no promise."""
    name = "tests/data/stable/" + version().rpartition(".")[0]
    listed = set(names_in(name))
    equal([x for x in today() if x not in listed], [],
          "not in %s: tests/it/stable.py --list > %s" % (name, name))


if __name__ == "__main__":
    if "--list" in sys.argv:
        print("\n".join([HEADER % version()] + today()))
        sys.exit(0)
    sys.exit(cases.main([all_kinds_are_found, names_of_releases_are_kept,
                         the_file_of_this_version_is_up_to_date], sys.argv))
