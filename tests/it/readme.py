#!/usr/bin/env python3
"""readme.py [build] [package] - what README.md tells a new user, done word for word: its commands
are taken from it and run as root in a fresh Debian. Default: both walks.

  build     in roots of Debian's smallest set of packages: what "make demo" and "make test" begin
            with, an installation, and in the first one "make deb-deps deb". Its packages are left
            in build/readme.
  package   the section "Attach it to your HAProxy", under a real systemd, beside a HAProxy in
            operation. Clients send requests all the time, and none may fail. In the roots that
            package.sh has made, with the packages of this commit: those of the walk "build", or
            else of suites package and debian13. Its lines with "make" are not run.

SUITE=name: only on that one. DEB=path: "package" with this package. A root, package or archive that
is not available is skipped by name. Last line: "N passed, N failed[, N skipped]".
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECTION = "Attach it to your HAProxy"
TREE = "/root/kvroute"
CFG = "/etc/haproxy/haproxy.cfg"
SUITES = {"bookworm": "Debian 12", "trixie": "Debian 13"}
BUILT = os.path.join(TOP, "build/readme")   # packages of the walk "build"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HANG_SECONDS = 180
STEP, MOST = 100, 1500  # requests before trial has a verdict: "about a thousand"
DECISION = "http://127.0.0.1:9402/decisions?n=1"
STATUS = "http://127.0.0.1:9402/status.json"
# Conversations of four turns until the file /root/stop is there. Each begins with a text of its
# own, of about 1600 tokens, because only prompts that are computed teach the speeds of engines;
# what kvroute would save are the turns that leastconn sends elsewhere.
CLIENT = r"""
until [ -e /root/stop ]; do
    text=$(printf "$RANDOM$RANDOM-%s " {1..500})
    for turn in 1 2 3 4; do
        text+=" and then $turn"
        curl -s -o /dev/null -w '%{http_code}\n' -H content-type:application/json -d '{"model": "m",
            "max_tokens": 4, "stream": true, "messages": [{"role": "user",
            "content": "'"$text"'"}]}' http://127.0.0.1:8080/v1/chat/completions >> /root/codes
        [ ! -e /root/stop ] || break
    done
done
"""
passed = failed = skipped = 0


def result(good, what):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("%s  %s" % ("ok  " if good else "FAIL", what), flush=True)
    return good


def skip(what):
    global skipped
    skipped += 1
    print("skipped: README.md: " + what, flush=True)


def section(title):
    """The text of README.md below a heading; of its beginning without one."""
    with open(os.path.join(TOP, "README.md")) as f:
        parts = re.split(r"^## (.*)\n", f.read(), flags=re.M)
    return dict(zip(["", *parts[1::2]], parts[0::2]))[title]


def commands(text):
    """The lines of its blocks of code, without comments."""
    blocks = re.findall(r"^    (.*)$", text, re.M)
    return [c for c in (re.sub(r"\s+# .*", "", b).strip() for b in blocks) if c]


def wait_for(what, seconds=HANG_SECONDS):
    end = time.time() + seconds
    while not what():
        if time.time() > end:
            return False
        time.sleep(0.2)
    return True


class Booted:
    """A root under systemd; its processes and files end with the block."""

    def __init__(self, tarball):
        self.folder = tempfile.mkdtemp(prefix="kvroute-readme-", dir="/var/tmp")
        self.root = os.path.join(self.folder, "root")
        self.boot = subprocess.Popen(
            ["bash", os.path.join(TOP, "tests/it/boot.sh"), tarball, self.root], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.init = self.boot.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.boot.stdin.close()
        self.boot.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return self.root + name

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def run(self, command):
        """Run a shell command in the tree, with yes to what it asks: (status, output)."""
        enter = ["nsenter", "-t", self.init, *"-m -p -n -u -i -C -r -w".split()]
        p = subprocess.run(
            enter + ["env", "-i", "PATH=" + PATH, "HOME=/root", "LC_ALL=C.UTF-8", "TERM=dumb",
                     "bash", "-c", "cd %s 2> /dev/null\n%s" % (TREE, command)],
            input="y\n" * 100, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace")
        return p.returncode, p.stdout

    def good(self, command):
        return self.run(command)[0] == 0

    def codes(self):
        try:
            return self.read("/root/codes").split()
        except FileNotFoundError:
            return []


def operate(b):
    """Start a HAProxy that balances four engines, and its clients."""
    shutil.copy(os.path.join(TOP, "build/release/tests/tools/stub_engine"),
                b.path("/usr/local/bin/stub_engine"))
    for i in range(1, 5):
        b.run("systemd-run -q --unit engine%d stub_engine --name s%d --listen 127.0.0.1:800%d "
              "--control 127.0.0.1:0" % (i, i, i))
    with open(b.path(CFG), "a") as f, open(os.path.join(TOP, "tests/it/plain.cfg")) as plain:
        f.write(plain.read())
    with open(b.path("/root/client.sh"), "w") as f:
        f.write(CLIENT)
    b.run("systemctl restart haproxy")
    for i in range(2):
        b.run("systemd-run -q --unit client%d bash /root/client.sh" % i)
    # the engines and HAProxy's checks of them need a moment; from then on every request counts
    answers = wait_for(lambda: b.codes()[-20:] == [b"200"] * 20)
    b.begun = len(b.codes()) - 20
    return answers


def mode(b):
    """What the agent does in the pool: shadow, on, off; None if it was not asked yet."""
    return (re.findall(r'"mode": ?"(\w+)"', b.run("curl -s " + STATUS)[1]) or [None])[0]


def why(b):
    return re.findall(r'"why": ?"(\w+)"', b.run("curl -s " + DECISION)[1])


def more_requests(b, n):
    have = len(b.codes())
    return wait_for(lambda: len(b.codes()) >= have + n)


def prepare(b, command):
    """What the text says happens before this command."""
    b.before = len(b.codes())
    if command == "kvroutectl trial":
        begun = len(b.codes())
        for _ in range(0, MOST, STEP):
            if not more_requests(b, STEP) or "95 % confidence" in b.run(command)[1]:
                break
        print("      after %d requests" % (len(b.codes()) - begun))


def consequence(b, command, out, plain):
    """What the text promises of a command."""
    if command.startswith("apt install ./"):
        result(b.good("systemctl is-active kvroute"), "the agent runs")
    elif "--write" in command:
        result(b.read(CFG) == plain, "doctor --write changes nothing by itself")
    elif command == "kvroutectl why -n 1":
        print("      " + out.strip().replace("\n", "\n      "))
        result(wait_for(lambda: mode(b) == "shadow"), "it decides, and names no server: shadow")
    elif command == "kvroutectl trial":
        print("      " + out.strip().replace("\n", "\n      "))
        result("With 95 % confidence" in out and 'To switch it on, write "mode: on"' in out,
               "trial says what would have been saved, how sure that is, and what to change")
        for url in re.findall(r"<(http:[^>]*)>", section(SECTION)):
            result(b.good("curl -sf %s | grep -qi '</html>'" % url), "%s is a page" % url)
    elif command == "systemctl restart haproxy":
        good = wait_for(lambda: len(b.codes()) >= b.before + 40 and
                        b.codes()[-20:] == [b"200"] * 20)
        b.restarted = range(b.before, len(b.codes()))   # its end cuts connections, as the text says
        result(good, "HAProxy serves again after the restart")
        result(b.good("grep -qz MALLOC_TRIM_THRESHOLD_= /proc/$(systemctl show -P MainPID haproxy)"
                      "/environ"), "it has the variables")
    elif command.startswith("kvroutectl top"):
        result(" on " in out, "top says that it is on")
    elif command.startswith("sed ") or "policy:" in command:
        result(b.good("kvroute -t -f /etc/kvroute/kvroute.yaml"), "its configuration is valid")
    elif command == "systemctl reload kvroute":
        if b"mode: on" in b.read("/etc/kvroute/kvroute.yaml"):
            result(wait_for(lambda: mode(b) == "on" and why(b) == ["cached"]), "it chooses servers")
    elif "--remove" in command:
        result(b.read(CFG) == plain, "HAProxy's file is as it was, to the byte")
        left = set(os.listdir(b.path("/etc/haproxy"))) - {"errors", "haproxy.cfg"}
        result(not left, "nothing else is left beside it %s" % " ".join(left))
    elif command.startswith("apt remove"):
        result(not b.good("systemctl is-active kvroute"), "the agent is gone")


def walk(b, deb):
    os.makedirs(b.path(TREE + "/build/deb"))
    shutil.copy(deb, b.path(TREE + "/build/deb"))
    shutil.copytree(os.path.join(TOP, "haproxy-conf"), b.path(TREE + "/haproxy-conf"))
    if not result(operate(b), "before: HAProxy balances with a plain configuration"):
        return
    plain, variables, b.restarted = b.read(CFG), "", range(0)
    for command in commands(section(SECTION)):
        if re.match(r"\w+=\S*$", command):
            variables += command + "\n"
            continue
        if command.startswith("make "):
            print("      not run here: %s" % command)
            continue
        prepare(b, command)
        status, out = b.run("set -o pipefail\n" + variables + command)
        if not result(status == 0, command):
            print(out[-4000:] + b.run("journalctl -u kvroute -u haproxy -n 30 --no-pager")[1])
        consequence(b, command, out, plain)
    result(more_requests(b, 20), "after: HAProxy balances without the agent")
    open(b.path("/root/stop"), "w").close()
    wait_for(lambda: not b.good("systemctl is-active client0 || systemctl is-active client1"))
    codes = [c for i, c in enumerate(b.codes()) if i >= b.begun and i not in b.restarted]
    bad = [c.decode() for c in codes if c != b"200"]
    result(not bad, "%d requests, %d failed %s" % (len(codes), len(bad), sorted(set(bad))))


def without_packages(b):
    """What the text says of an installation without packages, with the programs of this tree."""
    make, before, start = re.search(
        r"\*\*Without packages\*\*: `([^`]*)`.*?first start:\s`([^`]*)`\. Then\s`([^`]*)` starts",
        section(SECTION), re.S).groups()
    install = make.split("; ")[-1]
    result(subprocess.run(install + " -s DESTDIR=" + b.root, shell=True, cwd=TOP).returncode == 0,
           "without packages: " + install)
    result(b.good("set -e; " + before), before)
    result(b.good(start + " && systemctl show -p ExecStart kvroute | "
                  "grep -q path=/usr/local/sbin/kvroute"), "the agent of /usr/local starts")
    result(b.good("kvroute -t -f /usr/local/etc/kvroute/kvroute.yaml"), "its file is valid")


def commit():
    """The short name of this commit; empty if git does not tell."""
    if shutil.which("git") is None:
        return ""
    return subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=TOP, text=True,
                          capture_output=True).stdout.strip()


def of_this_commit(deb):
    """False, too, if git does not tell."""
    files = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], capture_output=True).stdout
    return commit() != "" and commit().encode() in files


def codename():
    """Of this machine, for which the programs of this tree are built."""
    with open("/etc/os-release") as f:
        names = dict(line.strip().split("=", 1) for line in f if "=" in line)
    return names.get("VERSION_CODENAME", "").strip('"')


def wanted_suites():
    return [s for s in SUITES if os.environ.get("SUITE", s) == s]


def package_of(suite):
    """Of the walk "build" if it was one of this commit; None if there is none."""
    folders = [os.path.join(BUILT, suite), os.path.join(TOP, "build/root", suite)]
    if suite == codename():
        folders.append(os.path.join(TOP, "build/deb"))
    found = [deb for f in folders for deb in glob.glob(os.path.join(f, "kvroute_*.deb"))]
    return ([deb for deb in found if of_this_commit(deb)] + found + [None])[0]


def package():
    for suite in wanted_suites():
        tarball = os.path.join(TOP, "build/root/%s.tar" % suite)
        deb = os.environ.get("DEB") or package_of(suite)
        if deb is None or not os.path.exists(tarball):
            skip("no root or package of %s: tests/run.sh package debian13" % suite)
        elif "DEB" not in os.environ and not of_this_commit(deb):
            skip("the package of %s is of another commit: tests/run.sh package debian13" % suite)
        else:
            with Booted(tarball) as b:
                up = b.init and wait_for(lambda: b.good("systemctl is-active multi-user.target"))
                if not up:
                    skip("systemd does not start in namespaces here")
                    continue
                print("---- %s, %s" % (suite, os.path.basename(deb)), flush=True)
                walk(b, deb)
                if suite == codename():
                    without_packages(b)


COPY = """
{ git ls-files -co --exclude-standard || find . -path ./build -prune -o -type f -print; } |
    tar -c -T - | tar -x -C "$1"
"""
IN_ROOT = """
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" &&
yes | chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive COMMIT="$3" bash -c "cd %s && $2"
""" % TREE


def build_commands(first):
    """What the beginning of the text says, with what "make demo" and "make test" begin with, and an
    installation; <first>: also the package."""
    todo = [c for c in commands(section("")) if not c.startswith("make ")]
    todo += ["make deps", "make -j$(nproc) -s QUIET=1 all tools", "./kvroute -V"]
    todo += ["make -s install",
             "/usr/local/sbin/kvroute -t -f /usr/local/etc/kvroute/kvroute.yaml"]
    if first:
        todo += [c for c in commands(section(SECTION)) if c.startswith("make ")]
    return todo


def build_in(suite, root, log, first):
    """Run the commands in a root of Debian's smallest set of packages, with this machine's
    network."""
    def run(*argv):
        return subprocess.run(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                              cwd=TOP).returncode == 0
    if not run("mmdebstrap", "--variant=minbase", suite, root):
        return skip("no packages of %s: %s" % (suite, log.name))
    os.makedirs(root + TREE)
    run("bash", "-c", COPY, "_", root + TREE)
    shutil.copy("/etc/resolv.conf", root + "/etc/resolv.conf")
    shutil.copy("/etc/hosts", root + "/etc/hosts")
    for command in build_commands(first):
        begun = time.time()
        good = run("unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c",
                   IN_ROOT, "_", root, command, commit())
        if not result(good, "%s: %s (%d s)" % (SUITES[suite], command, time.time() - begun)):
            with open(log.name) as f:
                print(f.read()[-3000:])
            return None
    shutil.rmtree(os.path.join(BUILT, suite), ignore_errors=True)
    for deb in glob.glob(root + TREE + "/build/deb/*.deb"):
        os.makedirs(os.path.join(BUILT, suite), exist_ok=True)
        shutil.copy(deb, os.path.join(BUILT, suite))
    return None


def build():
    if shutil.which("mmdebstrap") is None:
        return skip("no mmdebstrap: make long-deps")
    for suite in wanted_suites():
        folder = tempfile.mkdtemp(prefix="kvroute-readme-", dir="/var/tmp")
        try:
            with open(os.path.join(TOP, "build/readme-%s.log" % suite), "w") as log:
                build_in(suite, os.path.join(folder, "root"), log, suite == wanted_suites()[0])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return None


def main(argv):
    tool = "nsenter" if os.geteuid() == 0 else None
    if tool is None or shutil.which(tool) is None:
        skip("not root, or no nsenter")
    else:
        for name in argv or ["build", "package"]:
            {"package": package, "build": build}[name]()
    print("%d passed, %d failed%s" % (passed, failed, ", %d skipped" % skipped if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
