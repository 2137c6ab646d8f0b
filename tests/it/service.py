#!/usr/bin/env python3
"""service.py [-k WORD] - the agent under a service manager: when it says that it is ready,
reloading or stopping, that the watchdog hears nothing while a SPOP thread hangs, and that it works
where no memory may be executable. The last line is "N passed, N failed[, N skipped]"."""
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "promises"))
sys.dont_write_bytecode = True

from agent import Agent, chat, equal, main, request  # noqa: E402
from fleet import BUILD, TOP, wait_for  # noqa: E402

CASES = []
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
PR_SET_MDWE, PR_SET_MDWE_EXEC = 65, 1
PROMPT = chat("a prompt of some pages, so that there is a decision to make. " * 9)


def case(f):
    CASES.append(f)
    return f


class Managed(Agent):
    """An agent whose messages to the service manager are read here."""

    def __init__(self, watchdog_s=None, **kw):
        super().__init__(**kw)
        path = os.path.join(self.folder, "notify")
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(path)
        self.manager.setblocking(False)
        self.heard = []
        self.env.update(NOTIFY_SOCKET=path)
        if watchdog_s:
            self.env["WATCHDOG_USEC"] = str(int(watchdog_s * 1e6))

    def stop(self):
        super().stop()
        self.manager.close()

    def hear(self):
        """Read what has come; returns all messages so far."""
        while True:
            try:
                self.heard.append(self.manager.recv(4096).decode())
            except BlockingIOError:
                return self.heard

    def wait_message(self, word, after=0):
        """Wait for a message with <word> at <after> or later; returns its number."""
        return wait_for("%s to the service manager" % word, 60, lambda: [
            i + 1 for i, m in enumerate(self.hear())
            if i >= after and word in m.split("\n")])[0] - 1

    def thread(self, name):
        for tid in os.listdir("/proc/%d/task" % self.pid):
            with open("/proc/%d/task/%s/comm" % (self.pid, tid)) as f:
                if f.read().strip() == name:
                    return int(tid)
        raise KeyError(name)


class Frozen:
    """A thread that does not run inside the block, while the others of its process do."""

    def __init__(self, tid):
        self.tid = tid

    def call(self, what):
        if LIBC.ptrace(what, self.tid, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace %#x" % what)

    def __enter__(self):
        self.call(PTRACE_SEIZE)
        self.call(PTRACE_INTERRUPT)
        os.waitpid(self.tid, WALL)

    def __exit__(self, *what):
        self.call(PTRACE_DETACH)


def no_write_execute():
    """For a child before it becomes the agent: no writable memory may be executable."""
    if LIBC.prctl(PR_SET_MDWE, PR_SET_MDWE_EXEC, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_MDWE")


@case
def ready_means_answered():
    with Managed() as a:
        a.wait_message("READY=1")
        with a.client() as c:
            assert c.notify("route", request("u", PROMPT))["txn.server"], "no server"
        equal([m for m in a.hear() if "WATCHDOG=1" in m], [], "messages without a watchdog")
        equal(a.end("agent"), 0, "exit status")
        last = a.hear()[-1]
        assert last.startswith("STOPPING=1"), a.heard


@case
def reload_is_told():
    with Managed() as a:
        start = a.wait_message("READY=1") + 1
        path = os.path.join(a.folder, "kvroute.yaml")
        with open(path) as f:
            good = f.read()
        a.processes["agent"].send_signal(signal.SIGHUP)
        begun = a.wait_message("RELOADING=1", start)
        assert re.search(r"^MONOTONIC_USEC=\d+$", a.heard[begun], re.M), a.heard[begun]
        done = a.wait_message("STATUS=reloaded", begun)
        assert "READY=1" in a.heard[done], a.heard[done]
        with open(path, "a") as f:
            f.write("nonsense: 1\n")
        a.processes["agent"].send_signal(signal.SIGHUP)
        refused = a.wait_message("READY=1", a.wait_message("RELOADING=1", done + 1))
        assert "STATUS=reload refused" in a.heard[refused], a.heard[refused]
        with open(path, "w") as f:
            f.write(good)


@case
def watchdog_needs_every_spop_thread():
    argv = [] if os.geteuid() == 0 else ["--no-sandbox"]
    with Managed(watchdog_s=4, threads=2, argv=argv) as a:
        n = a.wait_message("WATCHDOG=1")
        n = a.wait_message("WATCHDOG=1", n + 1)
        with Frozen(a.thread("spop-1")):
            wait_for("a log line", 60, lambda: "a SPOP thread does not turn" in a.log())
            n = len(a.hear())
            time.sleep(2.5)     # more than two periods
            equal(a.hear()[n:], [], "messages while a thread hangs")
            with a.client() as c:       # the other thread answers
                assert c is not None
        a.wait_message("WATCHDOG=1", n)
        equal(a.end("agent"), 0, "exit status")


@case
def a_manager_that_is_gone_is_named():
    with Agent(env={"NOTIFY_SOCKET": "/nowhere/notify"}) as a:
        with a.client() as c:
            assert c.notify("route", request("u", PROMPT))["txn.server"], "no server"
        assert 'msg="cannot connect to the service manager"' in a.log(), a.log()
    with Managed() as a:        # it stops reading: nothing waits, and the end is the same
        a.wait_message("READY=1")
        a.manager.close()
        equal(a.end("agent"), 0, "exit status")


PATTERN = r"\p{N}{1,2}|[^\p{N}\s]+|\s+"


def token_pages(before):
    """(pages of a prompt, log) of an agent with a pattern that PCRE2 matches."""
    a = Agent(before=before)
    shutil.copy(os.path.join(TOP, "tests/data/tok/small.tiktoken"), a.folder)
    a.agent_conf = ("models_dir: %s\nmodels: [{name: m, mode: tokens, tokenizer: small.tiktoken, "
                    "pattern: '%s', block_size: 1}]\n" % (a.folder, PATTERN))
    with a:
        with a.client() as c:
            body = '{"model":"m","prompt":"%s"}' % ("abc 123 de 45 f " * 20)
            got = c.notify("route", request("u", body, path="/v1/completions"))
        equal(a.end("agent"), 0, "exit status")
        return got["txn.prompt_pages"], a.log()


@case
def patterns_work_without_executable_memory():
    pages, log = token_pages(None)
    assert " regex=jit" in log, log
    try:
        subprocess.run(["true"], preexec_fn=no_write_execute, check=True)
    except subprocess.SubprocessError:
        print("skipped: this kernel has no PR_SET_MDWE (Linux 6.3)")
        return
    without, log = token_pages(no_write_execute)
    assert " regex=interpreted" in log, log
    equal(without, pages, "pages without the JIT")
    assert pages > 20, pages
    equal([s for s in log.splitlines() if "level=error" in s or "refused system" in s], [], "log")


def no_chown():
    """For a child before it becomes the agent: each chown fails, as under the systemd unit."""
    lib = ctypes.CDLL("libseccomp.so.2")
    lib.seccomp_init.restype = ctypes.c_void_p
    allow, eperm = 0x7fff0000, 0x00050001
    rules = ctypes.c_void_p(lib.seccomp_init(ctypes.c_uint32(allow)))
    for name in b"chown", b"lchown", b"fchown", b"fchownat":
        number = lib.seccomp_syscall_resolve_name(name)
        if number >= 0 and lib.seccomp_rule_add(rules, ctypes.c_uint32(eperm), number, 0) != 0:
            raise OSError("seccomp_rule_add")
    if lib.seccomp_load(rules) != 0:
        raise OSError("seccomp_load")


@case
def a_runtime_socket_needs_no_chown():
    a = Agent(before=no_chown)
    path = os.path.join(a.folder, "runtime.sock")
    a.agent_conf = 'runtime: {path: "%s"}\n' % path
    with a:
        p = subprocess.run([os.path.join(BUILD, "kvroutectl"), "-s", path, "show", "info"],
                           text=True, capture_output=True)
        equal((p.returncode, "requests: 0" in p.stdout), (0, True), "show info")


@case
def the_unit_checks_before_it_signals():
    with open(os.path.join(TOP, "packaging/systemd/kvroute.service.in")) as f:
        lines = re.findall(r"(?m)^ExecReload=(.*)$", f.read())
    equal((" -t -f " in lines[0], lines[1:]),
          (True, ["/bin/sh -c 'kill -HUP \"$$MAINPID\"'"]), "ExecReload")
    p = subprocess.run([os.path.join(BUILD, "kvroute"), "-t", "-f", "/dev/stdin"], text=True,
                       input="nonsense: 1\n", capture_output=True)
    equal(p.returncode, 1, "status of a check that fails")


if __name__ == "__main__":
    sys.exit(main(CASES, sys.argv[1:]))
