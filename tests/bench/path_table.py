"""path_table.py - the table of haproxy-conf/README.md, "What each line costs", from path.py's rows.

It stands there between two marks, with the sentence that names its conditions."""
import os
import statistics
import textwrap

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
README = os.path.join(TOP, "haproxy-conf/README.md")
BEGIN, END = "<!-- path.py: cost -->\n", "<!-- end -->\n"

LABELS = {
    "plain": "leastconn only",
    "noop": "the recipe with an agent that does nothing, no log feed",
    "noop-unix": "the same, SPOE over a unix socket",
    "recipe": "the recipe, `haproxy.cfg`",
    "recipe-without-variables": "without the two variables (a process that pays)",
    "recipe-dMglobal": "instead of these, `-dMglobal`",
    "best": "**best**: SPOE over a unix socket, the ring over TCP",
    "best-hot-size": "best, without `tune.memory.hot-size`",
    "best-feed": "best, without the log feed",
    "best-load": "best, without counts in the load line",
    "best-vars": "best, without the list of variables: all are set",
    "best-sessions": "best, without the session lines",
    "best-uuid": "best, without `uuid()`",
    "best-token-counts": "best, without token counts (the lines `ptok`, `gtok`)",
    "best-nbsrv": "best, without `nbsrv`",
    "best-ptime": "best, without `option set-process-time`",
    "best-first": "best, without the group `first`",
    "best-body64k": "best, `bytes(0,65536)` in `kvroute.spoe`",
    "best-bufsize64k": "best, `tune.bufsize 65536`",
    "smg": "SMG in HAProxy's place",
    "sglang-router": "sglang-router in HAProxy's place",
}


def kb(size):
    return "%g KB" % (size / 1024)


def cell(rounds, row):
    sums = [r[0] + r[1] for r in rounds.get(row, ())]
    return "%.0f" % statistics.median(sums) if sums else "-"


def table_of(results):
    """<results> as print_goals() takes them."""
    heads = ["%s, %s" % (".".join(version.split(".")[:2]), kb(size))
             for version, size, _, _ in results]
    lines = ["| | %s |" % " | ".join(heads), "|---|" + "---|" * len(heads)]
    for row, label in LABELS.items():
        cells = [cell(rounds, row) for _, _, rounds, _ in results]
        if set(cells) != {"-"}:
            lines.append("| %s | %s |" % (label, " | ".join(cells)))
    return "\n".join(lines) + "\n"


def sentence_of(results, rounds, cpu, load):
    versions = sorted({version for version, _, _, _ in results})
    return textwrap.fill("Medians of %d rounds on %s, HAProxy %s; load average at the start %.1f."
                         % (rounds, cpu, " and ".join(versions), load), 100) + "\n"


def write(results, rounds, cpu, load):
    with open(README) as f:
        page = f.read()
    begin = page.index(BEGIN) + len(BEGIN)
    end = page.index(END, begin)
    text = sentence_of(results, rounds, cpu, load) + "\n" + table_of(results)
    with open(README, "w") as f:
        f.write(page[:begin] + text + page[end:])
