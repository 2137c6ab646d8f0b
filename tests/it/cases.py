"""cases.py - run test functions one after another and print the result of each; shared by all
suites."""
import sys
import time
import traceback


def equal(got, want, what=""):
    if got != want:
        raise AssertionError("%s: %r, expected %r" % (what, got, want))


def main(cases, argv):
    """Run the functions; with -k WORD only those with WORD in their name. Last line: N passed,
    N failed. Returns 1 if some failed."""
    word = argv[argv.index("-k") + 1] if "-k" in argv else ""
    passed = failed = 0
    for c in cases:
        if word not in c.__name__:
            continue
        start = time.time()
        try:
            c()
            passed += 1
            result = "ok  "
        except Exception:
            traceback.print_exc(limit=6, file=sys.stdout)
            failed += 1
            result = "FAIL"
        print("%s  %-45s %6.1f s" % (result, c.__name__, time.time() - start), flush=True)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0
