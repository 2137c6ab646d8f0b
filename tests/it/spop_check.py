#!/usr/bin/env python3
"""spop_check.py [-k WORD] - kvroutectl spop-check: kvroute passes it, and it finds the mistakes
of other agents.

The agent, on TCP and on a unix socket, passes every case, warnings included. The no-op agent of
tests/tools is shown. A small separate agent in Python passes it, too. With one mistake at a time
(spop_mutants.py) it fails the cases for that mistake, and no others if the mistake has only one
effect. The last line is "N passed, N failed".
"""
import json
import os
import re
import subprocess
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "promises"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from agent import Agent, equal, main, request  # noqa: E402
from fleet import BUILD, TOP, free_ports, wait_for  # noqa: E402
from spop_mutants import MUTATIONS, MutantAgent  # noqa: E402

CTL = os.path.join(BUILD, "kvroutectl")
AT_ONCE = 5
LONG_MS = 5000      # a machine that pauses for so long is broken
CASES = []


def case(f):
    CASES.append(f)
    return f


def check(*args, status=None):
    """kvroutectl spop-check: exit status, standard output, standard error."""
    p = subprocess.run([CTL, "spop-check"] + [str(a) for a in args], capture_output=True, text=True,
                       timeout=1800)
    if status is not None:
        assert p.returncode == status, "exit %d instead of %d: %s%s" % (
            p.returncode, status, p.stdout[-3000:], p.stderr)
    return p.returncode, p.stdout, p.stderr


def report(*args):
    status, out, err = check("--json", *args)
    try:
        return status, json.loads(out)
    except ValueError:
        raise AssertionError("no JSON: %s %s" % (out[-500:], err))


def named(r, result):
    return [c["name"] for c in r["cases"] if c["result"] == result]


def listed():
    return json.loads(check("--list", "--json", status=0)[1])


def everything_passes(address, *args):
    status, r = report("--strict", "--timeout", LONG_MS, *args, address)
    bad = [(c["name"], c["findings"]) for c in r["cases"] if c["result"] != "pass"]
    assert not bad, bad
    equal(status, 0, "exit status")
    equal(len(r["cases"]), len(listed()), "cases")
    equal((r["passed"], r["failed"], r["warned"], r["skipped"]), (len(r["cases"]), 0, 0, 0), "sums")
    return r


# ---- good agents 

@case
def our_agent_passes_on_tcp():
    with Agent() as a:
        r = everything_passes(a.spop_address)
        equal(r["agent"]["version"], "2.0", "version")
        print("kvroute on TCP: %d passed, slowest %.0f ms (%s)" % (
            r["passed"], *max((c["ms"], c["name"]) for c in r["cases"])))


@case
def our_agent_passes_on_a_unix_socket():
    a = Agent()
    a.spop_address = "unix@" + os.path.join(a.folder, "spop.sock")
    with a:
        everything_passes(a.spop_address)
        everything_passes(a.spop_address[5:])


@case
def names_are_resolved():
    with MutantAgent() as a:    # listens on 127.0.0.1 only, where localhost may be ::1 first
        check("--only", "notify/one", a.address.replace("127.0.0.1", "localhost"), status=0)
        check("--only", "notify/one", a.address.replace("127.0.0.1", ""), status=0)
        assert "127.0.0.1" not in check("--only", "notify/one",
                                        a.address.replace("127.0.0.1", "no-such-host.invalid"),
                                        status=2)[2]


@case
def our_agent_passes_with_its_own_message():
    args = []
    for k, v in request("uid-1", '{"model":"m","prompt":"one two three"}').items():
        args += ["--arg", "%s:=%d" % (k, v) if isinstance(v, int)
                 else "%s=%s" % (k, v if isinstance(v, str) else v.decode())]
    with Agent() as a:
        everything_passes(a.spop_address, "--message", "route", *args)


@case
def the_no_op_agent():
    address = "127.0.0.1:%d" % free_ports(1)[0]
    p = subprocess.Popen([os.path.join(BUILD, "tests/tools/noop_spoa"), address])
    try:
        wait_for("the no-op agent", 10, lambda: check("--only", "notify/one", address)[0] == 0)
        _, out, _ = check("--strict", "--timeout", LONG_MS, address)
        print("the no-op agent: %s" % out.splitlines()[-1])
        for line in out.splitlines():
            if line.startswith(("FAIL", "warn", "      found")):
                print("    " + line)
        assert re.search(r"^\d+ passed, 0 failed, 0 warned", out, re.M), out[-2000:]
    finally:
        p.kill()
        p.wait()


@case
def the_agent_of_this_test_passes():
    with MutantAgent() as a:
        everything_passes(a.address)


# ---- bad agents 

def judge_mutant(name, expected):
    exact = "*" not in expected
    wanted = [n for n in expected if n != "*"]
    args = [] if exact else [w for n in wanted for w in ("--only", n)]
    # bytes sent separately may arrive together if the machine pauses
    for timeout in (500, 2000, LONG_MS, 6 * LONG_MS):
        with MutantAgent(name) as a:
            status, r = report("--strict", "--timeout", timeout, *args, a.address)
        failed = named(r, "fail")
        extra = [n for n in failed if n not in wanted] if exact else []
        missed = [n for n in wanted if n not in failed]
        if not extra and not missed:
            break
    assert not missed, "not seen by %s" % missed
    assert not extra, "seen by %s, too" % extra
    equal(status, 1, "exit status")
    for c in r["cases"]:
        assert c["result"] != "fail" or (c["findings"] and "hex" in c["bytes_sent"]), c
    return failed


@case
def every_mutant_is_caught():
    left, lock, bad = sorted(MUTATIONS.items()), threading.Lock(), []

    def work():
        while True:
            with lock:
                if not left:
                    return
                name, expected = left.pop()
            start = time.time()
            try:
                failed = judge_mutant(name, expected)
                with lock:
                    print("    %-28s seen by %s%s (%.1f s)" % (
                        name, ", ".join(failed[:4]), " and %d more" % (len(failed) - 4)
                        if failed[4:] else "", time.time() - start))
            except Exception as e:
                with lock:
                    bad.append("%s: %s" % (name, e))
                    traceback.print_exc()
    threads = [threading.Thread(target=work) for _ in range(AT_ONCE)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad, "\n".join(bad)
    print("    %d mutants" % len(MUTATIONS))


# ---- printed report 

@case
def a_failure_names_all():
    with MutantAgent("no-goodbye") as a:
        out = check("--only", "disconnect/after-hello", a.address, status=1)[1]
    for words in (r"^FAIL  disconnect/after-hello$", r"clause +3\.2\.8",
                  r"sent +HAPROXY-DISCONNECT", r"expected +AGENT-DISCONNECT",
                  r"found +must: no AGENT-DISCONNECT came", r"0000: 00 00 00",
                  r"= HAPROXY-DISCONNECT stream=0", r"^0 passed, 1 failed"):
        assert re.search(words, out, re.M), "no /%s/ in\n%s" % (words, out)


@case
def a_should_is_a_warning_unless_strict():
    with MutantAgent("healthcheck-stays-open") as a:
        only = ["--only", "hello/healthcheck-closes", "--timeout", 300, a.address]
        status, r = report(*only)
        equal((status, named(r, "warn")), (0, ["hello/healthcheck-closes"]), "warned")
        status, r = report("--strict", *only)
        equal((status, named(r, "fail")), (1, ["hello/healthcheck-closes"]), "strict")


@case
def an_agent_that_dies_ends_the_run():
    with MutantAgent("dies-on-length-0") as a:
        status, r = report("--only", "frame/length-*", "--timeout", 200, a.address)
    equal((status, named(r, "fail")), (1, ["frame/length-0"]), "failed")
    equal(len(r["cases"]), 1, "cases run")
    assert "not run" in r["stopped"], r["stopped"]


@case
def what_the_agent_cannot_is_skipped():
    with MutantAgent("announces-nothing") as a:
        status, r = report("--timeout", LONG_MS, a.address)
    equal(status, 0, "exit status")
    skipped = named(r, "skip")
    for name in ("fragments/three", "streams/20-at-once"):
        assert name in skipped, skipped
    assert "fragments/first-only" not in skipped and "notify/one" not in skipped, skipped


@case
def usage_and_nobody_there():
    port = free_ports(1)[0]
    for args in ([], ["a", "b"], ["--only", "no-such", "x:1"], ["--timeout", "0", "x:1"],
                 ["--arg", "k", "x:1"], ["--nonsense"],
                 ["--message", "m" * 300, "x:1"], ["127.0.0.1:%d" % port], ["/nowhere/at.sock"],
                 ["nonsense"], ["--list", "x:1"]):
        status, out, err = check(*args)
        equal((status, out), (2, ""), "exit status and output of %s" % args)
        assert err, args
    assert "usage" in check("-h", status=0)[1]


@case
def the_page_lists_every_case():
    page = os.path.join(TOP, "doc/spop-check.md")
    with open(page) as f:
        text = f.read()
    for c in listed():
        row = "| `%s` | %s | %s | %s | %s |" % (c["name"], c["level"], c["clause"], c["sent"],
                                                c["expected"])
        assert row in text, "doc/spop-check.md lacks %s" % row
    rows = len(re.findall(r"^\| `[a-z]+/", text, re.M))
    equal(rows, len(listed()), "rows of doc/spop-check.md")


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
