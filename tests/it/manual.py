#!/usr/bin/env python3
"""manual.py [-k WORD] - the manual pages have exactly the words of the source, both ways: reasons,
problems, arguments, variables, messages, pages, rules, commands, runtime commands, options and
exit codes. Keys are checked by tests/unit/conf/test_doc.c, metrics by tests/it/monitoring.py.
"""
import os
import re
import subprocess
import sys
import tempfile

import cases
from cases import equal

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def text_of(*names):
    out = ""
    for name in names:
        with open(os.path.join(TOP, name)) as f:
            out += f.read()
    return out


def section(page, kind, title):
    """From the heading to the next one of the same or a higher level."""
    ends = r"^\.S[hs] " if kind == "Ss" else r"^\.Sh "
    found = re.search(r"^\.%s %s$(.*?)(?=%s|\Z)" % (kind, re.escape(title), ends),
                      text_of("doc/" + page), re.M | re.S)
    if not found:
        raise AssertionError("%s has no section %s" % (page, title))
    return found[1]


def items(text, macro):
    """First words of items: ".It Li a", ".It Ic a , b Ta ..."."""
    out = []
    for m in re.finditer(r"^\.It %s (.*?)(?: Ta .*)?$" % macro, text, re.M):
        out += re.sub(r"^\\&", "", m[1]).split(" , ")
    return out


def same(manual, source, what):
    equal((sorted(set(source) - set(manual)), sorted(set(manual) - set(source))), ([], []),
          what + ": (not in the manual, not in the source)")


def table(text, name):
    """Words of the rows of a C table <name>."""
    return re.findall(r'^\t\{ (?:NAME\()?"(\w+)"', re.search(
        r"\b%s\[\] = \{(.*?)^\};" % name, text, re.M | re.S)[1], re.M)


# ---- kvroute(8) ------------------------------------------------------------------------------


def reasons():
    source = re.findall(r'\bX\(\w+,\s*"(\w+)"\)', text_of("agent/policy/policy.h"))
    same(items(section("kvroute.8", "Sh", "ANSWERS"), "Li"), source, "why")


def arguments():
    source = text_of("agent/serve/message.c")
    route = [w for w in items(section("kvroute.8", "Ss", "route"), "Ic")]
    same(route, table(source, "request_args") + ["now_ms"], "arguments of route")
    facts = items(section("kvroute.8", "Ss", "first"), "Ic") + items(
        section("kvroute.8", "Ss", "done"), "Ic")
    same(facts, table(source, "fact_args"), "arguments of first and done")
    fields = re.findall(r'^\t\{ KEY\("(\w+)"\), F_(?!UNUSED)', text_of("agent/feed/logline.c"),
                        re.M)
    done = section("kvroute.8", "Ss", "done")
    words = set(items(done, "Ic")) | set(re.findall(r"^\.Ic (\w+)", done, re.M))
    equal(set(fields) - words - {"token"}, set(), "fields of log lines")
    item = re.search(r"^\.It Ic log_feed.token_file$(.*?)^\.It", text_of("doc/kvroute.yaml.5"),
                     re.M | re.S)[1]
    equal("token" in re.findall(r"^\.(?:Li|Ic|Ql) (\w+)", item, re.M), True, "the field token")


def messages():
    source = set(re.findall(r'name_is\(m->name, "(\w+)"\)', text_of("agent/serve/message.c")))
    manual = re.findall(r"^\.Ss ([a-z]+)(?:-1.*)?$", section("kvroute.8", "Sh", "MESSAGES"), re.M)
    same(manual, source, "messages")


def variables():
    source = set(re.findall(r'\bX\(\w+, "(\w+)"\)', text_of("agent/route/vars.h")))
    source |= set(re.findall(r'SPOP_SCOPE_TXN, "(\w+)"', text_of("agent/serve/serve.c")))
    same(items(section("kvroute.8", "Sh", "ANSWERS"), "Ic"), source, "variables")


def problems():
    source = text_of("agent/route/problems.h")
    words = re.findall(r'^\tX\([A-Z_]+, "(\w+)"', source, re.M)
    codes = re.findall(r"^\tX\((\d+), ([A-Z_]+),", source, re.M)
    manual = re.findall(r"^\.It Li (.*)$", section("kvroute.8", "Sh", "PROBLEMS"), re.M)
    same([w for w in manual if " , " not in w], words, "problems")
    same([w for w in manual if " , " in w], ["%s , %s" % (n, w.lower()) for n, w in codes],
         "error codes")


def pages():
    source = set(re.findall(r'span_eq\(path, SPAN\("(/[\w./]*)"\)', text_of("agent/loop/admin.c")))
    manual = re.findall(r"^\.It Pa (\S+)", section("kvroute.8", "Sh", "HTTP"), re.M)
    for path in re.findall(r"^\.It Pa (.*)$", section("kvroute.8", "Sh", "HTTP"), re.M):
        manual += path.split(" , ")
    same({p for p in manual if not p.endswith(",")}, source, "pages")


def signals():
    source = set(re.findall(r"\bSIG(TERM|INT|HUP|USR1|USR2)\b", text_of("agent/loop/loop.c")))
    manual = set(re.findall(r"SIG(\w+)", section("kvroute.8", "Sh", "SIGNALS")))
    equal(manual - {"KILL"}, source, "signals")


def options_of_kvroute():
    source = text_of("agent/main.c")
    short = re.search(r'getopt_long\(argc, argv, "([\w:]+)"', source)[1].replace(":", "")
    longs = set(re.findall(r'\{ "([\w-]+)",\s*(?:no|required)_argument', source))
    top = section("kvroute.8", "Sh", "SYNOPSIS")
    same(re.findall(r"(?<!Fl )\bFl (\w)\b", top) + re.findall(r"\| (\w)\b", top), short,
         "options of kvroute")
    same(re.findall(r"\bFl Fl ([\w-]+)", top), longs - {"help", "version"},
         "long options of kvroute")


# ---- kvroute.yaml(5) -------------------------------------------------------------------------


def rules():
    source = re.findall(r"\tX\([A-Z_0-9]+,\s*(\w+)\)", re.search(
        r"define POLICY_RULE_LIST(.*?)\n\n", text_of("agent/policy/policy.h"), re.S)[1])
    same(items(section("kvroute.yaml.5", "Sh", "RULES"), "Li"), source, "rules")


# ---- kvroutectl(8) ---------------------------------------------------------------------------

def verbs():
    return re.findall(r'^\t\{ "([\w-]+)", \w+,', text_of("agent/ctl/main.c"), re.M)


def commands():
    same(re.findall(r"^\.Ss ([\w-]+)$", text_of("doc/kvroutectl.8"), re.M), verbs(), "commands")
    same(re.findall(r"^\.Nm\n\.Cm ([\w-]+)", text_of("doc/kvroutectl.8"), re.M), verbs(),
         "commands of the synopsis")


def runtime_commands():
    text = text_of("agent/loop/command.h")
    shows = ["show " + w for w in re.findall(r'\tX\([A-Z]+, "(\w+)"', text)]
    rows = re.findall(r'\{ COMMAND_\w+, \{ ([^}]*) \}, FOLLOW', text_of("agent/loop/command.c"))
    others = [" ".join(re.findall(r'"(\w+)"', r)) for r in rows]
    same(re.findall(r"^\.It Ic ([a-z ]+?)(?: (?:Ar|Op)\b.*)?$",
                    section("kvroutectl.8", "Sh", "RUNTIME SOCKET"), re.M),
         shows + [o for o in others if o != "show"], "commands of the runtime socket")


def source_of(verb):
    """Files of agent/ctl that belong to a command: those with its name."""
    folder = os.path.join(TOP, "spop-check" if verb == "spop-check" else "agent/ctl")
    names = [n for n in sorted(os.listdir(folder)) if n.endswith(".c") and (
        verb == "spop-check" or n == verb + ".c" or n.startswith(verb + "_"))]
    return text_of(*[os.path.join(folder, n) for n in names])


def options():
    for verb in verbs():
        text = source_of(verb)
        longs = set(re.findall(r'\{ "([\w-]+)",\s*(?:no|required)_argument', text))
        short = set("".join(re.findall(r'getopt(?:_long)?\(\w+, \w+, "([\w:]+)"', text)))
        part = section("kvroutectl.8", "Ss", verb)
        same(re.findall(r"^\.It Fl Fl ([\w-]+)", part, re.M), longs - {"help"},
             "long options of " + verb)
        same(re.findall(r"^\.It Fl (\w)\b", part, re.M), short - {":", "h"},
             "short options of " + verb)


def run(*words):
    return subprocess.run([os.path.join(TOP, words[0]), *words[1:]], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=TOP,
                          timeout=60).returncode


def codes_of(page):
    """{command: codes} of EXIT STATUS; of kvroute "" ."""
    out, verb = {}, ""
    for line in section(page, "Sh", "EXIT STATUS").splitlines():
        named = re.match(r"\.Cm ([\w-]+)", line)
        verb = named[1] if named else verb
        code = re.match(r"\.It (\d+)$", line)
        if code:
            out.setdefault(verb, set()).add(int(code[1]))
    return out


def tuning():
    """Its keys exist, its commands run, and its alerts are those of doc/monitoring."""
    page = text_of("doc/tuning.md")
    keys = set(re.findall(r'^\t\{ "([\w.]+)",', text_of("agent/conf/keys.c"), re.M))
    named = set(re.findall(r"`([a-z]+\.[a-z_]+)[`:]", page)) - {"tune.bufsize"}
    equal(named - keys, set(), "keys")
    alerts = set(re.findall(r"- alert: (\w+)", text_of("doc/monitoring/alerts.yaml")))
    equal(set(re.findall(r"`(Kvroute\w+)`", page)) - alerts, set(), "alerts")
    known = set(re.findall(r"^METRIC\((\w+),", text_of("agent/loop/metric_list.h"), re.M))
    equal(set(re.findall(r"`kvroute_(\w+)", page)) - known, set(), "metrics")
    commands_of = re.findall(r"\| `((?:echo [^`]*; )?kvroutectl sim [^`]*)` \|", page)
    equal(len(commands_of) > 30, True, "commands")
    with tempfile.TemporaryDirectory() as folder:
        for command in commands_of[::4]:
            command = re.sub(r"--seeds \d+", "--seeds 1 --limit 40", command)
            p = subprocess.run(command.replace("kvroutectl", os.path.join(TOP, "kvroutectl")),
                               shell=True, cwd=folder, capture_output=True, text=True, timeout=60)
            equal(p.returncode, 0, command + "\n" + p.stderr)


def exit_codes():
    equal(codes_of("kvroute.8"), {"": {0, 1, 64}})
    equal(run("kvroute", "-t", "-f", "doc/kvroute.yaml"), 0)
    equal(run("kvroute", "-t", "-f", "/nowhere.yaml"), 1)
    equal(run("kvroute", "--nonsense"), 64)
    codes = codes_of("kvroutectl.8")
    same(codes, verbs(), "commands of EXIT STATUS")
    nowhere = {
        "doctor": ["-c", "/nowhere.cfg"], "events": ["-s", "1", "tcp://127.0.0.1:1"],
        "models": ["127.0.0.1:1"], "pages": ["-f", "/nowhere.yaml"],
        "render": ["--template", "/nowhere"], "sim": ["/nowhere.jsonl"],
        "spop-check": ["127.0.0.1:1"], "tokenize": ["--tokenizer", "/nowhere"],
        "top": ["-1", "127.0.0.1:1"], "trial": ["127.0.0.1:1"], "why": ["127.0.0.1:1"],
    }
    for verb in verbs():
        wrong = run("kvroutectl", verb, "--nonsense")
        equal(wrong in codes[verb] and wrong > 1, True, "%s --nonsense: %d" % (verb, wrong))
        failed = run("kvroutectl", verb, *nowhere[verb])
        equal(failed in codes[verb] and failed > 0, True, "%s, nothing there: %d" % (verb, failed))
        equal(run("kvroutectl", verb, "-h"), 0, verb)
        equal(2 in codes[verb] or "return 2;" not in source_of(verb), True, "code 2 of " + verb)


if __name__ == "__main__":
    sys.exit(cases.main([reasons, arguments, messages, variables, problems, pages, signals,
                         options_of_kvroute, rules, commands, options, tuning, exit_codes],
                        sys.argv))
