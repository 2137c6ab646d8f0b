"""sim_results.py - runs of kvroutectl sim that are kept, for benches that take long.

A run is one seed of some rules with some options. Its results are appended, a JSON object a line,
to the file RESULTS (build/results/NAME.jsonl), so that a bench that was ended goes on where it was.
A kept result counts only for the same kvroutectl (CTL; that of the build) with the same options;
REUSE=rules takes those of published rules from other builds too, which is right if only the rule
cost was changed between them.
"""
import hashlib
import json
import os
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("B", "build/release"))
CTL = os.environ.get("CTL", os.path.join(BUILD, "kvroutectl"))
FIGURES = ("ttft_mean", "ttft_p50", "ttft_p99", "hit", "e2e_mean", "most_sent", "busy_cv")


class Results:
    def __init__(self, name):
        self.path = os.environ.get("RESULTS", os.path.join(TOP, "build/results", name + ".jsonl"))
        with open(CTL, "rb") as f:
            self.build = hashlib.sha256(f.read()).hexdigest()[:12]
        self.kept = {}
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        if os.path.exists(self.path):
            with open(self.path) as f:
                for line in f:
                    self.keep(line)

    def keep(self, line):
        """Remember a line; the last may be incomplete."""
        try:
            r = json.loads(line)
        except ValueError:
            return
        self.kept[r["build"], r["options"], r["seed"], r["rule"]] = r
        if os.environ.get("REUSE") == "rules" and not r["rule"].startswith("cost"):
            self.kept[self.build, r["options"], r["seed"], r["rule"]] = r

    def run(self, options, seed, rules):
        """Run the <rules> that are not kept; return a dictionary of all."""
        text = " ".join(os.path.basename(x) for x in options)
        missing = [r for r in rules if (self.build, text, seed, r) not in self.kept]
        if missing:
            out = subprocess.run([CTL, "sim", *options, "--seed", str(seed), "--json"] +
                                 [x for r in missing for x in ("--preset", r)],
                                 stdout=subprocess.PIPE, text=True, check=True).stdout
            with open(self.path, "a") as f:
                for r in map(json.loads, out.splitlines()):
                    line = json.dumps({"build": self.build, "options": text, "seed": seed,
                                       "rule": r["policy"], **{k: r[k] for k in FIGURES}})
                    f.write(line + "\n")
                    self.keep(line)
        return {r: self.kept[self.build, text, seed, r] for r in rules}


def mean(runs, figure):
    return sum(r[figure] for r in runs) / len(runs)
