#!/usr/bin/env python3
"""tuning.py [--write] [-k WORD] - the sweeps of doc/tuning.md: one setting at a time, simulated, so
that no figure depends on the machine. Prints a table for each sweep, in markdown; --write puts them
into doc/tuning.md between the lines that name this program there.

SEEDS (default 3) is the number of seeds of each row.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(TOP, os.environ.get("B", "build/release"), "kvroutectl")
PAGE = os.path.join(TOP, "doc/tuning.md")
SEEDS = os.environ.get("SEEDS", "3")
AGENTIC = "--workload agentic --profile 8b-h100-bigkv --speed 1 --limit 3000"


def options(template, values):
    """Rows whose setting is an option of the simulation."""
    return [(str(v), template % v, "") for v in values]


def policy(key, values):
    return options("--preset cost:" + key + "=%s", values)


def conf(key, values, more=""):
    """Rows whose setting is a key of the configuration, besides the line <more> of it."""
    part, name = key.split(".")
    return [(str(v), "--preset cost -f tuning.yaml", "{%s: {%s: %s}%s}\n" % (part, name, v, more))
            for v in values]


# name: (setting, workload, rows of (value, options, configuration))
SWEEPS = {
    "page size": ("prompt.text_page", "--workload chat --limit 4000",
                  conf("prompt.text_page", [16, 32, 64, 128, 256])),
    "page size, small index": ("prompt.text_page, with index.max_bytes 1 MiB",
                               "--workload chat --limit 4000",
                               conf("prompt.text_page", [32, 64, 128, 256],
                                    ", index: {max_bytes: 1 MiB}")),
    "index size": ("index.max_bytes", "--workload chat --limit 4000",
                   conf("index.max_bytes", ["1 MiB", "2 MiB", "4 MiB", "256 MiB"])),
    "guard, even prompts": ("policy.balance_abs_threshold",
                            "--workload agents --load 0.9 --limit 4000",
                            policy("balance_abs_threshold", [2, 8, 32, 64, 1000])),
    "guard, a few hot prompts": ("policy.balance_abs_threshold",
                                 "--workload prefixes --load 0.9 --limit 4000",
                                 policy("balance_abs_threshold", [2, 8, 32, 64, 1000])),
    "guard of cache_aware": ("policy.balance_abs_threshold", "--workload agents --load 0.9 "
                             "--limit 4000",
                             options("--preset cache_aware:balance_abs_threshold=%s",
                                     [2, 8, 32, 64])),
    "guard, ends of requests only": ("policy.balance_abs_threshold",
                                     "--workload chat --load 0.9 --facts end --limit 4000",
                                     policy("balance_abs_threshold", [2, 8, 32, 64, 1000])),
    "sessions": ("sessions.max_bytes", AGENTIC + " --body-limit 13300",
                 conf("sessions.max_bytes", ["0", "64 KiB", "8 MiB"])),
    "HAProxy's buffer": ("bytes that HAProxy shows", AGENTIC + " --preset cost",
                         options("--body-limit %s",
                                 [13300, 62452, 259060, 1045492])),
    "facts": ("reports that HAProxy sends", "--workload chat --load 0.9 --limit 4000 --preset cost",
              options("--facts %s", ["none", "end", "first"])),
    "capacity": ("policy.capacity, if caches have 100000 tokens",
                 "--workload prefixes --kv-tokens 100000 --facts end --limit 6000 --preset cost",
                 options("--capacity %s", [10000, 50000, 100000, 200000, 1000000])),
    "delay between agents": ("ms until a sibling knows a decision",
                             "--workload agents --agents 4 --limit 4000 --preset cost",
                             options("--share-delay %s", [1, 5, 50, 500, 5000]) +
                             [("not shared", "--no-share", "")]),
}


def run(workload, row):
    """The figures of the rule, and the command that repeats them."""
    value, more, text = row
    command = "kvroutectl sim %s %s --seeds %s" % (workload, more, SEEDS)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "tuning.yaml"), "w") as f:
            f.write(text)
        out = subprocess.run([CTL] + shlex.split(command)[1:] + ["--json"], cwd=folder, text=True,
                             stdout=subprocess.PIPE, check=True).stdout
    got = json.loads(out.splitlines()[0])
    if text:
        command = "echo '%s' > tuning.yaml; %s" % (text.strip(), command)
    return got, command


def table(name):
    setting, workload, rows = SWEEPS[name]
    lines = ["| " + setting + " | mean first token | 99 % | hit share | command |",
             "|---|---|---|---|---|"]
    for row in rows:
        got, command = run(workload, row)
        lines.append("| %s | %.3f s | %.2f s | %.3f | `%s` |" % (
            row[0], got["ttft_mean"], got["ttft_p99"], got["hit"], command))
    return "\n".join(lines) + "\n"


def main(argv):
    word = argv[argv.index("-k") + 1] if "-k" in argv else ""
    with open(PAGE) as f:
        page = f.read()
    for name in SWEEPS:
        if word not in name:
            continue
        made = table(name)
        print("%s\n\n%s" % (name, made), flush=True)
        begin, end = "<!-- tuning.py: %s -->\n" % name, "<!-- end -->\n"
        page = re.sub(re.escape(begin) + r"(?:.*\n)*?" + end, lambda _: begin + made + end, page)
    if "--write" in argv:
        with open(PAGE, "w") as f:
            f.write(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
