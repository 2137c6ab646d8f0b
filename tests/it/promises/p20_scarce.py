#!/usr/bin/env python3
"""p20_scarce.py [-k WORD] - promise 20: the agent survives the lack of memory and descriptors.

Memory: a story that uses every part of the agent is repeated, each time with another of its
allocations failing (tests/tools/fault_shim.c), until a run meets no failure. In each run the agent
does not crash. Every NOTIFY is ACKed, or its connection is closed for lack of memory and opened
again. Afterwards the agent answers as before, and SIGTERM ends it with 0. STRIDE=n runs only every
n-th, after n selected ones; "make test-long" has STRIDE=1.
"""
import itertools
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from agent import *  # noqa: E402,F403
from spop_client import FIN, NOTIFY, Disconnected, Frame, message  # noqa: E402

STRIDE = int(os.environ.get("STRIDE", "8"))
START_STRIDE = int(os.environ.get("START_STRIDE", STRIDE * 25))
LOG_SECONDS = 30        # between lines of one kind that are repeated
CASES = []

BODIES = [
    ("/v1/chat/completions",
     {"messages": [{"role": "system", "content": "be kind " * 30}, {"role": "user", "content": [
        {"type": "text", "text": "what is this " * 30},
        {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]},
        {"role": "assistant",
         "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{\"a\": 1}" * 20}}]}],
        "model": "m",
      "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": "b" * 200}}}]}),
    ("/v1/completions", {"model": "m", "prompt": "once upon a time " * 30}),
    ("/v1/completions", {"model": "m", "prompt": list(range(200))}),
    ("/v1/responses",
     {"model": "m", "instructions": "be brief " * 30, "input": "tell me more " * 30}),
    ("/v1/messages", {"model": "m", "system": "be kind " * 30,
                      "messages": [{"role": "user", "content": "hello " * 50}]}),
    ("/v1/embeddings", {"model": "m", "input": ["one text " * 20, "another text " * 20]}),
    ("/generate", {"text": "go on " * 50}),
]


def case(f):
    CASES.append(f)
    return f


class Story:
    """Use every part of an agent, over one SPOP connection that may be lost."""

    def __init__(self, agent):
        self.agent, self.client, self.closed, self.unanswered = agent, None, 0, 0

    def connect(self):
        for _ in range(3):
            try:
                self.client = self.agent.client(65532)
                return
            except (Disconnected, ConnectionError):
                self.closed += 1
        raise AssertionError("three connections were refused")

    def ask(self, messages, **how):
        """Send the messages of one NOTIFY and return its variables. If the connection is closed
        meanwhile, it is opened again, once."""
        for _ in range(2):
            if self.client is None:
                self.connect()
            try:
                got = self.client.notify(messages, **how)
                assert got, "an ACK without a variable"
                return got
            except (Disconnected, ConnectionError):
                self.client.close()
                self.client = None
                self.closed += 1
        raise AssertionError("two connections were closed")

    def http(self, path):
        for _ in range(3):
            try:
                status, text = self.agent.get(path, self.agent.metrics_port)
                if status == 200:
                    return text
                assert status == 500, "status %d of %s" % (status, path)
            except (ConnectionError, http.client.HTTPException):
                pass
            self.unanswered += 1
        raise AssertionError("no answer of %s" % path)

    def bodies(self):
        for i, (path, body) in enumerate(BODIES):
            self.ask([("route", request("r%d" % i, json.dumps(body), path))])

    def cut_and_sliced(self):
        text = json.dumps(BODIES[0][1])
        self.ask([("route", request("cut", text[:900]))])
        first = request("sliced", text[:1000])
        first["blen"] = first["bsize"] = len(text)
        self.ask([("route", dict(first, seq=0))])
        for k, at in enumerate(range(1000, len(text), 1000), 1):
            self.ask([("route-%d" % k, {"uid": "sliced", "body": text[at:at + 1000].encode()})])
        first["uid"] = "left"          # its other slices never come
        self.ask([("route", dict(first, seq=0))])
        self.ask([("route", request("fragments", text))], fragment=700)
        self.ask([("route", request("large", chat("word " * 9000)))])
        self.ask([("route", request("other", chat("more " * 90), pool="other"))])

    def half_a_frame(self):
        """Send one frame in two parts, with a request on another connection between them."""
        frame = Frame(NOTIFY, FIN, 1, 1,
                      message("route", request("half", chat("half " * 900)))).encode()
        for _ in range(2):
            c = None
            try:
                c = self.agent.client(65532)
                c.send_raw(frame[:2000])
                c.pending.add((1, 1))
                self.ask([("route", request("between", chat("between " * 90)))])
                c.send_raw(frame[2000:])
                assert c.wait((1, 1)), "an ACK without a variable"
                c.disconnect()
                return
            except (Disconnected, ConnectionError):
                self.closed += 1
            finally:
                if c is not None:       # else its HELLO had no answer
                    c.close()
        raise AssertionError("two connections were closed")

    def facts(self):
        self.ask([("first", {"uid": "r0", "srv": "s1", "st": 200, "ct": "text/event-stream"})])
        self.ask([("first", {"uid": "r1", "srv": "s2", "st": 200, "ct": "application/json"})])
        self.ask([("done", {"uid": "r2", "srv": "s3", "st": 503, "ts": "SH", "tr": 5})])
        for _ in range(3):
            try:
                self.agent.feed({"uid": "r0", "be": "llm", "srv": "s1", "st": 200, "ts": "--",
                                 "tr": 5},
                                {"uid": "r3", "be": "llm", "srv": "s4", "st": 200, "ts": "--",
                                 "tr": 5}, {"nothing": 1})
            except ConnectionError:
                self.unanswered += 1

    def reload(self):
        n = self.agent.log().count("reload")
        self.agent.processes["agent"].send_signal(signal.SIGHUP)
        wait_for("the reload", 5, lambda: self.agent.log().count("reload") > n)

    def tell(self):
        self.connect()
        self.bodies()
        self.cut_and_sliced()
        self.half_a_frame()
        self.facts()
        self.http("/metrics")
        self.reload()
        self.bodies()
        try:
            self.client.disconnect() if self.client else None
        except (Disconnected, ConnectionError):
            self.closed += 1


def ends_well(a, what):
    p = a.processes["agent"]
    p.send_signal(signal.SIGTERM)
    equal(p.wait(HANG_SECONDS), 0, "exit status" + what)


def telling(at, **kw):
    """Run the story with allocation <at> failing. Return the results; None: no allocation
    failed."""
    with Agent(fault=True, threads=1, **kw) as a:
        story, what = Story(a), ", allocation %d failing" % at
        try:
            a.fault.arm(at)
            story.tell()
            story.failed = a.fault.disarm()
            story.seen = a.fault.get("seen")
            assert a.processes["agent"].poll() is None, "the agent has ended"
            with a.client() as c:
                got = c.notify("route", request("after", chat("after all " * 20)))
            assert got.get("txn.server"), "no server afterwards: %r" % got
            m = a.metrics()
            equal(m["kvroute_spop_acks_total"], m["kvroute_spop_notifies_total"], "ACKs" + what)
            a.fault.arm(at - story.seen if at > story.seen else 0)      # the end has its own
            if at <= story.seen:
                a.fault.disarm()
            ends_well(a, what)
            story.failed += a.fault.disarm()
            story.seen_end = a.fault.get("seen") if at > story.seen else 0
        except Exception as e:
            print("      %s (%d bytes): %s" % (what[2:], a.fault.get("bytes"), e))
            raise
    return story


@case
def each_allocation_of_a_day_fails_once():
    begun, told, met, closed, unanswered = time.time(), 0, 0, 0, 0
    for at in itertools.chain(range(1, 9), itertools.count(9, STRIDE)):
        s = telling(at)
        told += 1
        if s.failed == 0:
            break
        equal(s.failed, 1, "allocations that failed")
        assert s.closed + s.unanswered <= 1, "one failure cost %d connections and %d answers" % (
            s.closed, s.unanswered)
        met, closed, unanswered = met + 1, closed + s.closed, unanswered + s.unanswered
    print("      %d allocations in a story; %d tellings, %d met a failure: %d SPOP connections "
          "closed, %d other answers missing, %.1f s"
          % (s.seen + s.seen_end, told, met, closed, unanswered, time.time() - begun))
    assert s.seen >= 50 and met >= min(50,
                                       s.seen // STRIDE), (
                                           "a story that meets no failure proves nothing")


@case
def no_memory_for_a_while():
    """Without any memory, existing connections get their answers, and afterwards the agent works
    as before."""
    with Agent(fault=True, threads=1) as a, a.client() as c:
        before = c.notify("route", request("before", chat("before " * 90)))
        assert before["txn.server"], before
        a.fault.arm(1, 0)
        for i in range(20):
            assert c.notify("route",
                            request("during%d" % i, chat("during %d " % i * 200))), "no variable"
        late = socket.create_connection(("127.0.0.1", a.agent_port), 5)
        cpu, start = a.cpu_s(), time.time()
        time.sleep(1.5)
        cpu = a.cpu_s() - cpu
        refused = a.fault.disarm()
        late.close()
        assert refused > 0, "nothing was refused"
        assert cpu < 0.3, "%.2f s of CPU in %.1f s" % (cpu, time.time() - start)
        with a.client() as d:
            assert d.notify("route",
                            request("after",
                                    chat("after " * 90)))["txn.server"], "no server afterwards"
        assert c.notify("route",
                        request("again", chat("again " * 90)))["txn.server"], "no server afterwards"
        m = a.metrics()
        equal(m["kvroute_spop_acks_total"], m["kvroute_spop_notifies_total"], "ACKs")
        print("      %d allocations refused in a row, 20 requests answered, %.2f s of CPU in 1.5 s"
              % (refused, cpu))
        ends_well(a, "")


def each_open(clients, do):
    """Call <do> with each client that is not closed. Return the results; a client whose connection
    the agent has closed, without a DISCONNECT, is closed too and has none."""
    got = []
    for c in clients:
        try:
            if c.sock:
                got.append(do(c))
        except (Disconnected, ConnectionError) as e:
            assert getattr(e, "status", None) is None, e
            c.close()
    return got


@case
def real_memory_runs_out():
    """RLIMIT_DATA just above the current size (RLIMIT_AS would count address space that malloc()
    only reserves, 64 MB for each thread): until the limit is lifted, long frames are answered
    without reading them, or their connections are closed for lack of memory."""
    body = chat("word " * 190000)
    with Agent(threads=2) as a, a.client() as small:
        if "asan" in BUILD:
            print("      not with a sanitizer, whose shadow is larger than any limit")
            return
        with open("/proc/%d/status" % a.pid) as f:
            size = int(re.search(r"VmData:\s+(\d+) kB", f.read()).group(1)) * 1024
        large = [a.client(1 << 20) for _ in range(6)]
        frames = {c: Frame(NOTIFY, FIN, 99, 1, message("route", request("h%d" % i, body))).encode()
                  for i, c in enumerate(large)}
        resource.prlimit(a.pid, resource.RLIMIT_DATA, (size + (2 << 20), resource.RLIM_INFINITY))
        each_open(large, lambda c: c.send_raw(frames[c][:500000]))
        for i in range(50):
            assert small.notify("route",
                                request("small%d" % i,
                                        chat("small %d " % i * 90)))["txn.server"], "no server"
        for c in large:
            c.pending.add((99, 1))
        each_open(large, lambda c: c.send_raw(frames[c][500000:]))
        got = each_open(large, lambda c: c.wait((99, 1)))
        lost, closed = sum("txn.why" not in v for v in got), len(large) - len(got)
        assert lost + closed > 0, "there was memory enough"
        resource.prlimit(a.pid, resource.RLIMIT_DATA,
                         (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        m = a.metrics()     # not before: the page of metrics needs memory too
        equal(m["kvroute_spop_lost_total"], lost, "kvroute_spop_lost_total")
        equal(m['kvroute_spop_closed_total{reason="memory"}'], closed, "closed for lack of memory")
        equal(m["kvroute_spop_acks_total"], m["kvroute_spop_notifies_total"], "ACKs")
        large = [c if c.sock else a.client(1 << 20) for c in large]
        again = [c.notify("route", request("again", body)) for c in large]
        assert all(v.get("txn.server") for v in again), "no server afterwards: %r" % again
        print("      of %d frames of 1 MB %d were answered without a look, and %d connections were "
              "closed; 50 small frames got a server" % (len(large), lost, closed))
        for c in large:
            c.disconnect()
        ends_well(a, "")


@case
def descriptors_run_out():
    """60 connections where 20 fit: accepted ones are served, no thread spins, and the others are
    served when some have closed."""
    with Agent(threads=2) as a:
        fds = lambda: len(os.listdir("/proc/%d/fd" % a.pid))
        base, good = at_rest(a)[0], [a.client() for _ in range(8)]
        limit = resource.prlimit(a.pid, resource.RLIMIT_NOFILE)
        most = base + 8 + 20
        resource.prlimit(a.pid, resource.RLIMIT_NOFILE, (most, limit[1]))
        first = time.time()
        crowd = [socket.create_connection(("127.0.0.1", a.agent_port), 5) for _ in range(60)]
        crowd += [socket.create_connection(("127.0.0.1", p), 5)
                  for p in (a.feed_port, a.metrics_port)]
        wait_for("the crowd", 5, lambda: fds() >= most)
        cpu, started = a.cpu_s(), time.time()
        time.sleep(2)
        cpu, slept = a.cpu_s() - cpu, time.time() - started
        slowest = 0
        for i in range(400):
            begun = time.time()
            assert good[i % 8].notify("route",
                                      request("g%d" % i,
                                              chat("good %d " % i * 90)))["txn.server"], "no server"
            slowest = max(slowest, time.time() - begun)
        lines = [s for s in a.log().splitlines() if "cannot accept" in s]
        assert cpu < 0.15 * slept, "%.2f s of CPU in %.1f s" % (cpu, slept)
        assert 1 <= len(lines) <= 1 + (time.time() - first) / LOG_SECONDS, (
            "%d lines in the log: %s") % (len(lines), lines[:5])
        a.processes["agent"].send_signal(signal.SIGHUP)
        wait_for("a reload without descriptors", 10, lambda: "reload refused" in a.log())
        for s in crowd:
            s.close()
        begun = time.time()
        with a.client() as c:
            assert c.notify("route",
                            request("after",
                                    chat("after " * 90)))["txn.server"], "no server afterwards"
        took = time.time() - begun
        wait_for("descriptors to come back", 5, lambda: fds() <= base + 8)
        m = a.metrics()
        assert m["kvroute_spop_accept_errors_total"] >= 1, "no error was counted"
        a.processes["agent"].send_signal(signal.SIGHUP)
        wait_for("a reload", 10, lambda: "msg=reloaded" in a.log())
        print("      %d connections waited, %.2f s of CPU in 2 s, %d log lines, %d errors counted; "
              "400 requests served, slowest %.1f ms; "
              "%.0f ms to the first answer once descriptors came back"
              % (60 - 20, cpu, len(lines), m["kvroute_spop_accept_errors_total"], slowest * 1e3,
                 took * 1e3))
        for c in good:
            c.close()
        ends_well(a, "")


@case
def a_start_with_few_descriptors():
    """With limits from 4 descriptors on, the start fails with a sentence that names the remedy, or
    the agent serves on each address."""
    refused, first, remedies = 0, None, 0
    for n in range(4, 60):
        a = Agent(threads=2, before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
        try:
            a.spawn_agent()
            p = a.processes["agent"]
            wait_for("the agent, or its end", 10,
                     lambda: p.poll() is not None or "msg=started" in a.log())
            if p.poll() is None:
                first = n
                with a.client() as c:       # all at once
                    a.feed({"uid": "nobody"})
                    assert c.notify("route",
                                    request("u", chat("hello " * 20)))["txn.server"], "no server"
                    equal(a.get("/ready", a.metrics_port)[0], 200, "/ready with %d descriptors" % n)
                ends_well(a, ", with %d descriptors" % n)
                break
            refused += 1
            remedies += "LimitNOFILE=" in a.log()
            equal(p.returncode, 1, "exit status with %d descriptors (%s)" % (n, a.log()[-300:]))
            assert re.search(r"(?m)^(kvroute|/\S+): ", a.log()) or "shared libraries" in a.log(), \
                "%d descriptors: no sentence: %r" % (n, a.log()[-300:])
        finally:
            a.stop()
    print("      %d starts refused; it runs from %s on" % (refused, first))
    assert first and refused > 5 and remedies > 3, "too few"


def start(at):
    """Start with allocation <at> failing. Return exit status (None: it runs), failures,
    allocations, output."""
    a = Agent(fault=True, threads=1, env={"FAULT_SPARE": "libseccomp"})
    try:
        a.fault.arm(at)
        a.spawn_agent()
        p = a.processes["agent"]
        wait_for("the agent, or its end", 10,
                 lambda: p.poll() is not None or "msg=started" in a.log())
        failed, seen = a.fault.disarm() + a.fault.get("spared"), a.fault.get("seen")
        if p.poll() is None:
            wait_for("the agent", 10, lambda: a.get("/ready", a.metrics_port)[0] == 200)
            with a.client() as c:
                assert c.notify("route",
                                request("u", chat("hello " * 20)))["txn.server"], "no server"
            ends_well(a, ", started with allocation %d failing" % at)
            return None, failed, seen, a.log()
        return p.returncode, failed, seen, a.log()
    except Exception:
        a.show_logs()
        raise
    finally:
        a.stop()


@case
def each_allocation_of_a_start_fails_once():
    """Except allocations of libseccomp: 2.5.4 frees twice if memory runs out in seccomp_load().
    sandbox_seccomp.c checks that memory is available before it calls."""
    told = refused = ran = 0
    for at in itertools.chain(range(1, 9), itertools.count(9, START_STRIDE)):
        status, failed, seen, log = start(at)
        told += 1
        if failed == 0:
            break
        if status is None:
            ran += 1
            continue
        refused += 1
        equal(status, 1, "exit status with allocation %d failing (%s)" % (at, log[-300:]))
        assert re.search(r"(?m)^(kvroute|/\S+): .*(memory|descriptors|cannot)",
                         log), "allocation %d: no sentence: %r" % (at, log[-300:])
    print("      %d allocations in a start; %d starts met a failure: %d refused with a sentence "
          "and status 1, %d went on without"
          % (seen, told - 1, refused, ran))
    assert told > 10 and refused > 3, "too few"


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
