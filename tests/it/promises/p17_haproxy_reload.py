#!/usr/bin/env python3
"""p17_haproxy_reload.py [-k WORD] - promise 17: a reload of HAProxy is smooth.

HAProxy in master-worker mode gets SIGUSR2 ten times under load, as in production: clients that keep
their connections and others that do not, some with streams. No request fails, none has an error of
the SPOE filter, and each old worker ends soon after its last stream. The agent keeps nothing of it:
no connection, none in CLOSE_WAIT, no open request.

A stopping worker closes idle connections at once, and a client may just be sending a request on
one. It must send it again, as clients do, unless "option idle-close-on-response" is set. Both cases
are tested.

Log lines in the ring of an old worker are lost with it (measured on 2.6, 3.0 and 3.2), so the
ledger closes those requests after ledger.max_silence. Over UDP no line is lost, and the ledger has
nothing to close.
"""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from traffic import TEXTS, Fleet, Traffic, main, wait_for, warm  # noqa: E402
from fleet import edited  # noqa: E402

# a connection that an agent keeps open lasts for the filter's "timeout idle", a minute
OLD_WORKER_SECONDS = 30
SILENCE_MS = 1500
REQUESTS = 30           # between two reloads, at least
CLIENTS = 8
ENGINE = ["--prefill-tps", "1000000", "--decode-ms", "5"]
CONF = "ledger: {max_silence: %dms}" % SILENCE_MS
CLOSE_WAIT = "08"


def workers(f):
    pid = f.processes["haproxy"].pid
    with open("/proc/%d/task/%d/children" % (pid, pid)) as g:
        return set(g.read().split())


def reload(f):
    """Return the seconds until the old worker has ended; a new one runs meanwhile."""
    old = workers(f)
    start = time.monotonic()
    f.processes["haproxy"].send_signal(signal.SIGUSR2)
    wait_for("a new worker", 30, lambda: workers(f) - old)
    wait_for("the old worker's end", 60, lambda: not workers(f) & old)
    return time.monotonic() - start


def close_wait(f):
    """Return the connections at the agent's ports that only the peer has closed."""
    ours = {"%04X" % p for p in (f.agent_port, f.feed_port, f.metrics_port)}
    with open("/proc/%d/net/tcp" % f.processes["agent"].pid) as g:
        rows = [line.split() for line in g][1:]
    return sum(r[3] == CLOSE_WAIT and r[1].split(":")[1] in ours for r in rows)


def held(m):
    return m["kvroute_spop_connections"], m["kvroute_feed_connections"], m[
        "kvroute_process_open_fds"]


def closed(m):
    return {k.split('"')[1]: int(v) for k, v in m.items()
            if k.startswith("kvroute_ledger_closed_total")}


def under_load(f, feed, reloads):
    """Return the number of log lines that did not reach the agent, the reasons why requests were
    closed without one, and the number of requests sent again."""
    kept, fresh = Traffic(f, clients=CLIENTS // 2,
                          tokens=10), Traffic(f, clients=CLIENTS // 2, tokens=10, keep=False)
    long = Traffic(f, clients=2, stream=1, tokens=70)
    warm(kept, f)
    with kept, fresh, long:
        kept.wait(5 * REQUESTS)
        before = held(f.metrics())
        gone, waiting = [], 0
        for _ in range(reloads):
            kept.wait(REQUESTS)
            gone.append(reload(f))
            waiting = max(waiting, close_wait(f))
        # requests of the last old worker are closed while others are sent
        last = time.monotonic() + SILENCE_MS / 1000 + 2
        wait_for("the load to go on", 60, lambda: time.monotonic() > last)
        kept.wait(REQUESTS)
        after = wait_for("connections to be given back", 30,
                         lambda: (lambda h: h if all(a <= b + CLIENTS for a, b in zip(h, before))
                                  else ())(held(f.metrics())))
    m = wait_for("the ledger to be empty", 10,
                 lambda: (lambda m: m if m["kvroute_ledger_open_requests"] == 0
                          else None)(f.metrics()))
    wait_for("no CLOSE_WAIT", 10, lambda: close_wait(f) == 0)
    rows = kept.rows + fresh.rows + long.rows
    failed, errors = [r.trouble for r in rows if r.trouble], [r.error for r in rows if r.error]
    stale = kept.stale + fresh.stale + long.stale
    lost = TEXTS + len(rows) - m["kvroute_feed_lines_total{result=\"taken\"}"]
    print("promise 17: feed=%s reloads=%d requests=%d failed=%d spoe_errors=%d not_asked=%d "
          "asked_again=%d old_worker_max_s=%.2f"
          % (feed, reloads, len(rows), len(failed), len(errors), sum(r.why == "" for r in rows),
             stale, max(gone)))
    print("promise 17: spop, feed, fds before=%d,%d,%d after=%d,%d,%d close_wait=%d "
          "log_lines_lost=%d closed=%s"
          % (*before, *after, waiting, lost, closed(m)))
    assert not failed, failed[:3]
    assert not errors, errors[:3]
    assert max(gone) < OLD_WORKER_SECONDS, "an old worker stayed for %.1f s" % max(gone)
    assert m["kvroute_facts_total{kind=\"done\"}"] > 0 and closed(m)["age"] == 0
    return lost, closed(m), stale


def reloads_with_the_ring():
    with Fleet(engine_options=ENGINE, agent_conf=CONF) as f:
        under_load(f, "ring", 10)


def patient_with_idle_connections(text):
    assert "option http-no-delay\n    log global" in text
    return edited(text, "option http-no-delay\n    log global",
                        "option http-no-delay\n    option idle-close-on-response\n    log global")


def reloads_with_udp():
    with Fleet(engine_options=ENGINE, agent_conf=CONF, conf="recipes/udp-log.cfg",
                      edit=patient_with_idle_connections) as f:
        lost, by, stale = under_load(f, "udp", 3)
        assert lost == 0 and by["silence"] == 0, "log lines were lost"
        assert stale == 0, "%d clients had to ask again" % stale


CASES = [reloads_with_the_ring, reloads_with_udp]

if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
