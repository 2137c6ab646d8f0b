#!/usr/bin/env python3
"""pf_sandbox.py [-k WORD] - the agent in its sandbox with a real HAProxy: the kernel's view of
it, and normal operation.

The calls themselves are tested from inside by tests/unit/loop/test_sandbox.c. Here: every thread is
filtered; requests, feed, metrics, reloads (overwritten, replaced and linked files), and the end
work; so they do on older kernels, simulated by removing a call before the agent starts. The last
line is "N passed, N failed".
"""
import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True

from agent import equal, main  # noqa: E402
from fleet import BUILD, Fleet, wait_for  # noqa: E402

CASES = []
PARTS = ["seccomp", "landlock", "no_new_privs", "no_capabilities", "no_core", "open_refused",
         "execve_refused"]
CAPS = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
LANDLOCK = 444
SECCOMP = {"x86_64": 317, "aarch64": 277}.get(os.uname().machine)
EPERM, ENOSYS = 1, 38


def case(f):
    CASES.append(f)
    return f


def forbid(call, error):
    """Return a function for a child process before it becomes the agent: <call> fails with <error>,
    as if the kernel did not have it."""
    class Filter(ctypes.Structure):
        _fields_ = [("n", ctypes.c_ushort), ("code", ctypes.c_char_p)]

    def op(code, jt, jf, k):
        return code.to_bytes(2, sys.byteorder) + bytes([jt, jf]) + k.to_bytes(4, sys.byteorder)
    code = (op(0x20, 0, 0, 0) + op(0x15, 0, 1, call) + op(0x06, 0, 0, 0x50000 | error)
            + op(0x06, 0, 0, 0x7fff0000))
    libc = ctypes.CDLL(None, use_errno=True)

    def apply():
        if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(Filter(4, code))) != 0:
            raise OSError(ctypes.get_errno(), "no filter for the child")
    return apply


def has_seccomp():
    try:
        subprocess.run(["true"], preexec_fn=forbid(LANDLOCK, ENOSYS), check=True)
        return True
    except subprocess.SubprocessError:
        return False


class Boxed(Fleet):
    learns = True       # adds sections of its own

    def __init__(self, argv=(), before=None, **kw):
        super().__init__(engines=2, **kw)
        self.argv, self.before = list(argv), before

    def start_agent(self):
        path = self.write("kvroute.yaml", self.agent_yaml())
        self.spawn("agent", [os.path.join(BUILD, "kvroute"), "-f", path] + self.argv,
                   preexec_fn=self.before)
        wait_for("the agent", 10, lambda: self.get("/ready", self.metrics_port)[0] == 200)

    @property
    def pid(self):
        return self.processes["agent"].pid

    def log(self):
        with open(os.path.join(self.folder, "agent.log")) as f:
            return f.read().splitlines()

    def line(self, start):
        """Return the log line whose msg begins with the text."""
        return [s for s in self.log() if re.search(r'msg="?%s' % start, s)][0]

    def parts(self):
        m = self.metrics()
        return [int(m['kvroute_sandbox{part="%s"}' % p]) for p in PARTS]

    def opener(self):
        with open("/proc/%d/task/%d/children" % (self.pid, self.pid)) as f:
            return [int(p) for p in f.read().split()]

    def hup(self, want):
        """Send SIGHUP, wait for a log line that contains <want>, and return the new lines."""
        n = len(self.log())
        self.processes["agent"].send_signal(signal.SIGHUP)
        return wait_for("%r in the log" % want, 10,
                        lambda: [s for s in self.log()[n:] if want in s])

    def ask(self, word):
        a = self.chat([{"role": "user",
                        "content": "%s and more words, so that there is a prompt of some pages. "
                        % word * 9}])
        equal((a.status, a.server != ""), (200, True), "request " + word)

    def works(self, word):
        """Check a request, its log line, both figures of the process, and that the sandbox refused
        no call."""
        done = self.metrics()['kvroute_facts_total{kind="done"}']
        self.ask(word)
        wait_for("the log feed", 5,
                 lambda: self.metrics()['kvroute_facts_total{kind="done"}'] > done)
        m = self.metrics()
        for process in ("agent", "opener"):
            equal(m['kvroute_sandbox_refused_total{process="%s"}' % process], 0,
                  "calls refused: %s" % [s for s in self.log() if "refused system" in s])
        assert m["kvroute_process_open_fds"] > 8, "no figures"
        assert m["kvroute_process_resident_memory_bytes"] > 1e6, "no figures"


def status(pid, task=None):
    with open("/proc/%d/task/%d/status" % (pid, task or pid)) as f:
        return dict(re.findall(r"(\w+):\s*(\S+)", f.read()))


def limit(pid, name):
    with open("/proc/%d/limits" % pid) as f:
        return re.search(r"(?m)^%s +(\S+) +(\S+)" % name, f.read()).groups()


def gone(pid):
    try:
        return status(pid)["State"] == "Z"
    except FileNotFoundError:
        return True


@case
def the_kernel_agrees():
    with Boxed() as f:
        line = f.line("sandbox")
        print("      " + line.split(" ", 1)[1])
        for want in ("level=info", "msg=sandbox", "seccomp=on", "no_new_privs=on", "core=off",
                     "open=refused", "execve=refused", "capabilities=none"):
            assert want in line.split(), "%s is not in %s" % (want, line)
        landlock = int(re.search(r"landlock=(?:abi(\d+))?", line).group(1) or 0)
        if landlock == 0:
            print("skipped: Landlock, which this kernel does not have")
        equal(f.parts(), [1, int(landlock > 0), 1, 1, 1, 1, 1], "kvroute_sandbox")
        tasks = [int(t) for t in os.listdir("/proc/%d/task" % f.pid)]
        openers = f.opener()
        equal(len(openers), 1, "openers")
        for t in [(f.pid, t) for t in tasks] + [(openers[0], openers[0])]:
            s = status(*t)
            equal((s["Seccomp"], s["NoNewPrivs"]), ("2", "1"),
                  "Seccomp and NoNewPrivs of %s" % s["Name"])
            if os.geteuid() == 0:
                equal([s[c] for c in CAPS], ["0" * 16] * 5, "capabilities of %s" % s["Name"])
        equal(limit(f.pid, "Max core file size"), ("0", "0"), "core limit")
        equal(limit(openers[0], "Max core file size"), ("0", "0"), "core limit of the opener")
        assert len(tasks) >= 4, "too few threads: %r" % tasks
        print("      %d threads and the opener: filtered" % len(tasks))


@case
def all_works():
    with Boxed() as f:
        f.works("before")
        opener = f.opener()[0]
        path = os.path.join(f.folder, "kvroute.yaml")
        good = f.agent_yaml()
        for how in ("written over", "replaced", "linked", "linked again"):
            mistake = how.replace(" ", "_")
            for text, want in ((good + "policy: {no_%s: 1}\n" % mistake, "no_" + mistake),
                               (good, "msg=reloaded")):
                if how == "written over":
                    f.write("kvroute.yaml", text)
                else:
                    other = f.write("next-%d" % time.monotonic_ns(), text)
                    if "linked" in how:
                        os.symlink(other, other + ".link")
                        other += ".link"
                    os.rename(other, path)
                f.hup(want)
            f.ask(how)
        os.unlink(path)
        assert "No such file" in f.hup("reload refused")[0], "the reason is missing"
        f.write("kvroute.yaml", good)
        f.hup("msg=reloaded")
        f.works("after")
        for _ in range(20):
            f.hup("msg=reloaded")
        f.works("at last")
        equal([s for s in f.log() if "level=info" not in s and "reload refused" not in s], [],
              "complaints")
        equal(f.end("agent"), 0, "exit status after SIGTERM")
        wait_for("the end of the opener", 5, lambda: gone(opener))
        print("      4 mistakes and a missing file named, 25 reloads taken")


@case
def a_unix_socket_is_removed():
    with Boxed() as f:
        f.end("haproxy", signal.SIGINT)
        f.end("agent")
        path = os.path.join(f.folder, "spop.sock")
        f.spop_address = "unix@" + path
        f.start_agent()
        assert os.path.exists(path), "no socket"
        equal(f.parts()[0], 1, "seccomp")
        equal((f.end("agent"), os.path.exists(path)), (0, False),
              "exit status, and whether the socket is still there")


@case
def the_opener_ends_with_the_agent():
    with Boxed() as f:
        opener = f.opener()[0]
        f.end("agent", signal.SIGKILL)
        wait_for("the end of the opener", 5, lambda: gone(opener))
        f.start_agent()
        wait_for("HAProxy's check of the agent", 10, lambda: f.up_servers("spoe_agent") == 1)
        opener = f.opener()[0]
        os.kill(opener, signal.SIGKILL)
        assert "has ended; restart" in f.hup("reload refused")[0], "the reason is missing"
        wait_for("HAProxy's check of the agent", 10, lambda: f.up_servers("spoe_agent") == 1)
        f.works("without it")
        equal(f.end("agent"), 0, "exit status")


@case
def a_crash_leaves_no_core():
    with Boxed(processing=None) as f:      # the last request waits for an agent that has ended
        os.kill(f.pid, signal.SIGABRT)
        _, raw = os.waitpid(f.pid, 0)
        equal((os.WTERMSIG(raw), os.WCOREDUMP(raw)), (signal.SIGABRT, False), "signal and core")
        equal(f.chat([{"role": "user", "content": "without the agent"}]).status, 200, "status")


@case
def a_debugger_is_let_in():
    with Boxed(argv=["--no-sandbox"]) as f:
        line = f.line("sandbox")
        assert 'msg="sandbox off" why=--no-sandbox' in line, line
        equal(f.parts(), [0] * 7, "kvroute_sandbox")
        s = status(f.pid)
        equal((s["Seccomp"], s["NoNewPrivs"], f.opener()), ("0", "0", []),
              "Seccomp, NoNewPrivs, openers")
        f.works("open")
        f.hup("msg=reloaded")
        equal(f.end("agent"), 0, "exit status")


@case
def a_kernel_without_landlock():
    with Boxed(before=forbid(LANDLOCK, ENOSYS)) as f:
        line = f.line("sandbox")
        for want in ("level=info", 'landlock="off: Function not implemented"', "seccomp=on",
                     "open=refused", "execve=refused"):
            assert want in line, "%s is not in %s" % (want, line)
        equal(f.parts(), [1, 0, 1, 1, 1, 1, 1], "kvroute_sandbox")
        f.works("old")
        f.hup("msg=reloaded")
        equal(f.end("agent"), 0, "exit status")


@case
def a_snapshot_and_a_socket_without_landlock():
    """Only the second process may use paths: no system call of the agent takes one, with and
    without Landlock."""
    for before in (forbid(LANDLOCK, ENOSYS), None):
        with Boxed(before=before) as f:
            f.end("haproxy", signal.SIGINT)
            f.end("agent")
            path, snap = os.path.join(f.folder, "spop.sock"), os.path.join(f.folder, "snap")
            f.spop_address = "unix@" + path
            f.agent_conf += ("index: {max_bytes: 8 MiB, snapshot_file: %s, snapshot_every: 1 "
                             "s}\n") % snap
            f.start_agent()
            wait_for("two snapshots", 10,
                     lambda: f.metrics()["kvroute_snapshot_written_total"] >= 2)
            for process in ("agent", "opener"):
                equal(f.metrics()['kvroute_sandbox_refused_total{process="%s"}' % process], 0,
                      "calls refused")
            os.unlink(snap)
            equal((f.end("agent"), os.path.exists(path), os.path.exists(snap)), (0, False, True),
                  "exit status, socket, snapshot")
            equal([n for n in os.listdir(f.folder) if ".tmp." in n], [], "files left over")


@case
def a_container_without_seccomp():
    if SECCOMP is None:
        print("skipped: a container without seccomp, whose number here is not known")
        return
    with Boxed(before=forbid(SECCOMP, EPERM)) as f:
        line = f.line("sandbox")
        for want in ("level=warn", 'msg="sandbox is incomplete"',
                     'seccomp="off: Operation not permitted"', "no_new_privs=on"):
            assert want in line, "%s is not in %s" % (want, line)
        print("      " + line.split(" ", 1)[1])
        equal(f.parts()[0], 0, "seccomp")
        f.works("bare")
        f.hup("msg=reloaded")
        equal(f.end("agent"), 0, "exit status")


@case
def descriptors_are_raised_or_missed():
    with Boxed(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 2000)),
               spop="max_connections: 500") as f:
        equal(limit(f.pid, "Max open files"), ("2000", "2000"), "raised")
        equal([s for s in f.log() if "open files" in s], [], "warnings")
    with Boxed(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200)),
               spop="max_connections: 500") as f:
        line = f.line("the limit of open files is too low for the configuration")
        assert "level=warn" in line and "limit=200 needed=628" in line, line
        f.works("few")


@case
def checks_need_no_sandbox():
    for argv in (["-t"], ["-tv"], ["-V"], ["-h"], ["-t", "--no-sandbox"]):
        p = subprocess.run([os.path.join(BUILD, "kvroute")] + argv, capture_output=True, text=True)
        equal((p.returncode, p.stderr), (0, ""), " ".join(argv))
        if argv == ["-h"]:
            assert "--no-sandbox" in p.stdout, "-h does not name it"


def run(argv):
    if not has_seccomp():
        print("skipped: the sandbox, seccomp is refused to processes here")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    return main(CASES, argv)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
