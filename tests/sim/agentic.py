#!/usr/bin/env python3
"""agentic.py - the default rule on sessions of coding agents (kvroutectl sim --workload agentic):
ahead of published rules by the goals of tests/bench/agentic.py; where caches are full, of rules
that bind a session to a server; where they hold everything, as good as those; where they are nearly
full, sizes of caches that are inferred are nearly as good as those that engines report; a body cut
to 256 KB, or to 16 KB with a session, is as good as a whole one; for clients that name no session,
sessions.max_bytes at its default is as good as at 0, within 2 % where bodies are cut. All is
simulated, so the figures are equal on every machine. tests/bench/agentic.py prints those of all
rules."""
import json
import os
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(TOP, os.environ.get("B", "build/release"), "kvroutectl")
FLEET = ["--engines", "4", "--profile", "8b-h100-bigkv"]
NEARLY_FULL = ["--engines", "8", "--limit", "5000", "--seed", "13", "--seeds", "3", "--speed", "1"]
ROOMY = ["--limit", "1500", "--seeds", "2", "--speed", "1"]
FULL = ["--limit", "4000", "--seeds", "1", "--speed", "4"]
NAMELESS = ["--limit", "1500", "--seeds", "3", "--speed", "1", "--no-session"]
BOUND = ("sticky_least_loaded", "consistent_hash")
BEHIND = ("dynamo", "chwbl", "prefix_hash", "least_conn")
passed = failed = 0


def check(what, good, figures):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("%s  %s: %s" % ("ok  " if good else "FAIL", what, figures), flush=True)


def run(rules, *options, cell=ROOMY):
    out = subprocess.run([CTL, "sim", "--workload", "agentic", *FLEET, *cell, "--json", *options] +
                         [x for r in rules for x in ("--preset", r)],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return {r["policy"]: r for r in map(json.loads, out.splitlines())}


def of(a, b):
    return "mean %.3f s of %.3f, hit share %.3f of %.3f" % (
        a["ttft_mean"], b["ttft_mean"], a["hit"], b["hit"])


def ahead(got, rule, ttft, hit):
    ours, theirs = got["cost"], got[rule]
    less, more = 1 - ours["ttft_mean"] / theirs["ttft_mean"], ours["hit"] - theirs["hit"]
    check("cost ahead of %s" % rule, less >= ttft and more >= hit,
          "%.0f %% less time to the first token, hit share %+.3f" % (100 * less, more))


def without_names():
    """A cut body without a name gets one from its visible part; a whole one gets none."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write("sessions: {max_bytes: 0}\n")
        f.flush()
        for what, cut in (("cut to 16 KB", ["--body-limit", "13336"]),
                          ("cut to 256 KB", ["--body-limit", "259000"]), ("whole", [])):
            on = run(["cost"], *cut, cell=NAMELESS)["cost"]
            off = run(["cost"], *cut, "-f", f.name, cell=NAMELESS)["cost"]
            noise = 0.02 if cut else 0
            check("no session is named, bodies " + what + ": as good as without sessions",
                  on["ttft_mean"] <= (1 + noise) * off["ttft_mean"] and
                  on["hit"] >= off["hit"] - noise / 10, of(on, off))


def main():
    got = run(("cost", "sticky_least_loaded") + BEHIND)
    whole = got["cost"]
    for rule in BEHIND:
        ahead(got, rule, 0.10, 0.03)
    rival = got["sticky_least_loaded"]
    check("with room for all, as good as sticky_least_loaded",
          whole["hit"] > rival["hit"] - 0.005 and
          whole["ttft_mean"] < 1.05 * rival["ttft_mean"], of(whole, rival))
    full = run(("cost",) + BOUND, cell=FULL)
    for rule in BOUND:
        ahead(full, rule, 0.20, 0.01)
    inferred = run(["cost"], cell=NEARLY_FULL)["cost"]
    told = run(["cost"], "--engine-load", "polls", cell=NEARLY_FULL)["cost"]
    check("nearly full, sizes that are inferred nearly as good as sizes that engines report",
          inferred["ttft_mean"] < 1.07 * told["ttft_mean"], of(inferred, told))
    for what, most, cut in (("256 KB", 1.03, ("--body-limit", "259000", "--no-session")),
                            ("16 KB, with a session", 1.05, ("--body-limit", "13336"))):
        r = run(["cost"], *cut)["cost"]
        check("a body cut to " + what, r["hit"] > whole["hit"] - 0.01 and
              r["ttft_mean"] < most * whole["ttft_mean"], of(r, whole))
    without_names()
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
