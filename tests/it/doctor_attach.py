#!/usr/bin/env python3
"""doctor_attach.py [-k WORD] - kvroutectl doctor --write and --remove.

Configurations of tests/data/doctor/ are attached with patch(1): HAProxy 2.6, 3.0 and 3.2 accept
them, the doctor finds nothing, and --remove gives each file back to the byte. What a diff cannot
decide is refused with its place. A running HAProxy is attached and detached by reloads while its
clients are served and its own log stays as it was.

The last line is "N passed, N failed".
"""
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "promises"))

import cases  # noqa: E402
import fleet  # noqa: E402
from doctor_breaks import BREAKS  # noqa: E402
from fleet import BUILD, TOP, edited, wait_for  # noqa: E402
from p17_haproxy_reload import workers  # noqa: E402

os.environ["KVROUTE_YAML"] = ""     # none of this machine
DATA = os.path.join(TOP, "tests/data/doctor")
VERSIONS = [v for v in ("2.6", "3.0", "3.2")
            if os.access(os.path.join(TOP, "build/haproxy", v, "haproxy"), os.X_OK)]
MARK = " # kvroute-doctor"
FIXED = {"@MAIL@": "10125", "@MONITOR@": "10189", "@PORT@": "10180", "@TLSPORT@": "10143",
         "@SYSLOG@": "10114", "@CLOSED@": "10109"}


def haproxy(version):
    return os.path.join(TOP, "build/haproxy", version, "haproxy")


def run(argv, folder, text=None, env=None):
    """Status, output and errors, with line ends as they are."""
    got = subprocess.run(argv, cwd=folder, input=text.encode() if text else None,
                         capture_output=True, timeout=120, env={**os.environ, **(env or {})})
    return got.returncode, got.stdout.decode(), got.stderr.decode()


def doctor(folder, *argv, env=None):
    return run([os.path.join(BUILD, "kvroutectl"), "doctor", *argv], folder, env=env)


def certificate(folder):
    """A file for "crt", or None without openssl."""
    if shutil.which("openssl") is None:
        return None
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key", "-out", "cert",
                    "-subj", "/CN=localhost", "-days", "2"], cwd=folder, check=True,
                   capture_output=True)
    path = os.path.join(folder, "site.pem")
    with open(path, "w") as to:
        for name in ("cert", "key"):
            with open(os.path.join(folder, name)) as f:
                to.write(f.read())
    return path


def filled(text, folder, words=None):
    pem = certificate(folder) if "@PEM@" in text else None
    if "@PEM@" in text and pem is None:
        print("skipped: TLS in two-pools.cfg, there is no openssl to make a certificate")
        text = re.sub(r"(?m)^.* crt @PEM@.*\n", "", text)
    words = {**FIXED, "@PEM@": pem or "", "@PLACE@": folder,
             "@SOCKET@": os.path.join(folder, "admin.sock"), **(words or {})}
    for word, value in words.items():
        text = text.replace(word, value)
    return text


class Site:
    """A folder with files of HAProxy's configuration."""

    def __init__(self, names, edit=None, env=None):
        self.folder = tempfile.mkdtemp(prefix="kvroute-doctor-")
        self.names, self.env = names, {"PLACE": self.folder, "PORT": "10180", **(env or {})}
        for name in names:
            with open(os.path.join(DATA, name), newline="") as f:
                text = filled(f.read(), self.folder)
            os.makedirs(os.path.dirname(os.path.join(self.folder, name)), exist_ok=True)
            with open(os.path.join(self.folder, name), "w", newline="") as f:
                f.write(edit(text) if edit else text)
        with open(os.path.join(self.folder, "hosts.map"), "w") as f:
            f.write("# host   backend\nexample.net engines\n")

    def __enter__(self):
        return self

    def __exit__(self, *what):
        shutil.rmtree(self.folder)

    def args(self):
        return [w for name in self.names for w in ("-c", name)]

    def texts(self):
        out = {}
        for path in glob.glob(self.folder + "/**", recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    out[os.path.relpath(path, self.folder)] = f.read()
        return out

    def diff(self, *more, args=None):
        return doctor(self.folder, *(args or self.args()), *more, env=self.env)

    def broken_bound(self):
        """What the doctor says about a bound that is too large."""
        path = os.path.join(self.folder, "kvroute.spoe")
        with open(path) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(re.sub(r"body,bytes\(0,\d+\)", "body,bytes(0,9999999)", text))
        return self.diff()[1]

    def patch(self, diff, *more):
        status, out, err = run(["patch", "-p1", "--no-backup-if-mismatch", *more], self.folder,
                               diff)
        cases.equal(status, 0, "patch: " + out + err)
        assert "offset" not in out and "fuzz" not in out, out

    def warnings(self, version):
        """What haproxy -c says, without places; it must accept the files."""
        files = [w for name in self.names for w in ("-f", name)]
        status, out, err = run([haproxy(version), "-c", *files], self.folder, env=self.env)
        cases.equal(status, 0, "haproxy -c, %s: %s" % (version, out + err))
        return set(re.sub(r".*?(\[\S+:)\d+(\])", r"\1\2", line)
                   for line in (out + err).splitlines() if "[WARNING]" in line)


class Folder(Site):
    """A folder of tests/data/doctor/sites/, with all its files."""

    def __init__(self, name):
        self.folder = tempfile.mkdtemp(prefix="kvroute-doctor-")
        self.names, self.env = ["."] if name == "edge" else ["haproxy.cfg"], {}
        copy_site(name, self.folder, {})

    def warnings(self, version):
        return {re.sub(r"\(\d+\)|cfg:\d+", "", line) for line in super().warnings(version)}


def copy_site(name, folder, words, edit=None):
    for path in glob.glob(os.path.join(DATA, "sites", name, "*")):
        with open(path) as f:
            text = filled(edit(f.read()) if edit else f.read(), folder, words)
        with open(os.path.join(folder, os.path.basename(path)), "w",
                  newline="\r\n" if name == "edge" else "") as f:
            f.write(text)


def round_trip(site, *more, args=None, root=None):
    before = site.texts()
    warned = {v: site.warnings(v) for v in VERSIONS}
    status, diff, err = site.diff("--write", *more, args=args)
    cases.equal(status, 0, err)
    for line in diff.split("\n")[:-1]:
        assert line[0] in " @+" or line.startswith("--- "), line
    site.patch(diff, *(root or []))
    for v in VERSIONS:
        new = {w for w in site.warnings(v) if w not in warned[v]}
        assert not new, "HAProxy %s warns: %s" % (v, new)
        status, out, err = site.diff("--haproxy-version", v, args=args)
        cases.equal((status, out), (0, "no fault found\n"), "doctor, HAProxy " + v)
    attached = site.texts()
    status, diff, err = site.diff("--remove", args=args)
    cases.equal(status, 0, err)
    site.patch(diff, *(root or []))
    assert site.texts() == before, "the files differ"
    return {name: text.decode() for name, text in attached.items()}


# ---- round trips

def case_two_pools():
    with Site(["two-pools.cfg"]) as s:
        text = round_trip(s, "--pool", "chat", "--pool", "code")["two-pools.cfg"]
    code = text[text.index("backend code"):]
    assert text.count("filter compression" + MARK) == 1 and "filter compression" in code
    assert "set-var(txn.pool) str(code)" in code and "spare=b%[srv_is_up(spare)]" in text
    assert text.index("deny_status 401") < text.index("set-var(txn.api)")
    assert text.index("set-var(txn.api)") < text.index("use_backend")
    assert re.search(r"set-var\(txn.api\).* !\{ path_end /count_tokens /input_tokens ", text)


def case_one_pool():
    with Site(["two-pools.cfg"]) as s:
        texts = round_trip(s, "--pool", "chat")
    assert "pool=str(chat)" in texts["kvroute.spoe"]
    assert "filter" not in texts["two-pools.cfg"].split("backend code")[1].split("backend")[0]


def case_absolute_names():
    with Site(["two-pools.cfg"]) as s:
        path = os.path.join(s.folder, "two-pools.cfg")
        round_trip(s, "--pool", "chat", args=["-c", path], root=["-d", "/"])


def case_branches():
    with Site(["branches.cfg"]) as s:
        text = round_trip(s)["branches.cfg"]
    front = text[text.index("frontend api"):text.index("\nbackend nothing")]
    assert front.index(".endif") < front.index("set-var(txn.api)") < front.index("use_backend %[")
    assert "gpu1=%[srv_is_up(gpu1)]" in text and "wait-for-body time 20m at-least 1" in text
    assert ("http-request wait-for-body time 10m if { var(txn.api) -m found } "
            "{ nbsrv(spoe_agent) gt 0 }") in text
    assert text.index("use-server gpu2 if") < text.index("use-server %[var(txn.kvroute.server)]")
    assert "tune.bufsize 262144" + MARK in text
    assert "kvroute" not in text[text.index("listen monitor"):text.index("ring kvroute-feed")]


# folders of tests/data/doctor/sites/: (options, servers that are checked, of each backend)
SITES = {
    "edge": ([], {"vllm": 4}),
    "gateway": (["--pool", "models", "--pool", "big"], {"models": 2, "big": 2}),
    "listen": ([], {"llama": 3}),
    "quotes": ([], {"engines": 0}),
    "sni": ([], {"llm": 0}),
    "waf": ([], {"engines": 4}),
}


def case_sites():
    for name, (more, _) in SITES.items():
        with Folder(name) as s:
            try:
                round_trip(s, *more)
            except AssertionError as e:
                raise AssertionError(name + ": " + str(e))


def case_directory():
    with Site(["files/%s.cfg" % n for n in ("10-global", "20-defaults", "30-gateway",
                                            "40-rest")]) as s:
        texts = round_trip(s, "--spoe", "files/other.spoe", args=["-c", "files"])
    assert "tune.bufsize" in texts["files/10-global.cfg"]
    assert "kvroute" not in texts["files/20-defaults.cfg"]
    gateway = texts["files/30-gateway.cfg"]
    assert gateway.index(".endif\n    log ring@") < gateway.index("server one"), gateway
    assert "option httplog" + MARK in gateway and "unique-id-format" not in gateway


def case_odd_ends():
    """Lines that end with a carriage return; no global section; comments at the end."""
    for edit in (lambda t: t.replace("\n", "\r\n"), lambda t: t[t.index("defaults"):],
                 lambda t: t + "\n\n  \n# the end\n"):
        with Site(["two-pools.cfg"], edit) as s:
            round_trip(s, "--pool", "code")


def case_edited_between():
    """Lines that the operator adds or changes stay, whatever kvroute's lines have become."""
    with Site(["two-pools.cfg"]) as s:
        before = s.texts()["two-pools.cfg"]
        s.patch(s.diff("--write", "--pool", "chat")[1])
        path = os.path.join(s.folder, "two-pools.cfg")
        with open(path) as f:
            text = f.read()
        text = edited(text, "    balance leastconn\n", "    balance first\n", 1)
        text = edited(text, "on-marked-down shutdown-sessions" + MARK, "rise 2" + MARK)
        with open(path, "w") as f:
            f.write(text)
        s.patch(s.diff("--remove")[1])
        cases.equal(s.texts()["two-pools.cfg"],
                    before.replace(b"    balance leastconn\n", b"    balance first\n", 1))


def case_agent_addresses():
    with Site(["two-pools.cfg"]) as s:
        with open(os.path.join(s.folder, "agent.yaml"), "w") as f:
            f.write('spop: {listen: ["unix@/run/x.sock"]}\nlog_feed: {tcp: [], udp: '
                    '["127.0.0.1:7401"]}\n')
        text = round_trip(s, "--pool", "chat", args=["-c", "two-pools.cfg", "-f", "agent.yaml"])
    text = text["two-pools.cfg"]
    assert "server a1 unix@/run/x.sock check" in text and "log 127.0.0.1:7401 len" in text
    assert "ring kvroute" not in text


# ---- questions that stay open

REFUSED = {
    "several backends": (None, [], r"asks: two-pools.cfg:\d+: .* add: --pool code"),
    "no such pool": (None, ["--pool", "other"],
                     r"--pool other: no file of -c has this backend: correct"),
    "no servers": (None, ["--pool", "figures"], r"figures: it has no server lines, so .*: name"),
    "no such frontend": (None, ["--pool", "chat", "--frontend", "other"],
                         r"--frontend other: no file of -c has this frontend: correct"),
    "a frontend elsewhere": (
        lambda t: t + "frontend lone\n    bind 127.0.0.1:1\n", ["--pool", "chat", "--frontend",
                                                                 "lone"],
        r"cfg:\d+: --frontend lone: none of its rules leads to a pool: leave"),
    "no frontend": (lambda t: t + "backend lone\n    server x 127.0.0.1:1\n", ["--pool", "lone"],
                    r"cfg:\d+: no frontend leads to lone, so .*: write the use_backend"),
    "mode tcp": (lambda t: t + "backend lone\n    mode tcp\n    server x 127.0.0.1:1\n",
                 ["--pool", "lone"],
                 r"cfg:\d+: --pool lone: it is not in mode http, .*: write mode"),
    "nothing to attach": (lambda t: t.replace("    server ", "    # "), [],
                          r"no backend has servers, .*: name all files"),
    "the name of the SPOE file": (None, ["--pool", "chat", "--spoe", 'a"b'],
                                  r'a"b: a diff cannot name this file, because .*: give'),
    "a NUL byte": (lambda t: t + "# \0\n", ["--pool", "chat"],
                   r"cfg: the file has a NUL byte, .*: delete"),
    "defaults that are missing": (
        lambda t: t + "backend lone from other\n", ["--pool", "chat"],
        r'cfg:\d+: this line cannot be read \(other\): no section "defaults other" precedes'),
    "dynamic": (lambda t: edited(t, "use_backend code if is_code", "use_backend %[req.hdr(x-to)]"),
                ["--pool", "code"], r"asks: \S+cfg:\d+: public chooses .* --frontend public"),
    "log-format-sd": (lambda t: edited(t, "    option httplog\n", "    option httplog\n"
                                       "    log-format-sd '{}'\n"),
                      ["--pool", "chat"], r"cfg:\d+: kvroute needs log-format-sd"),
    "dontlog-normal": (lambda t: edited(t, "dontlognull", "dontlog-normal"), ["--pool", "chat"],
                       r"cfg:\d+: the agent learns from the log"),
    "logasap": (lambda t: edited(t, "dontlognull", "logasap"), ["--pool", "chat"],
                r"cfg:\d+: the agent learns from the log .* with option logasap public writes"),
    "silent": (lambda t: edited(t, "    # only customers\n",
                                "    http-request set-log-level silent\n"), ["--pool", "chat"],
               r"cfg:\d+: the agent learns from the log .* this rule silences it: give it a"),
    "silent pool": (lambda t: edited(t, "    balance leastconn\n", "    balance leastconn\n"
                                     "    http-response set-log-level silent\n"),
                    ["--pool", "chat"], r"cfg:\d+: .* this rule silences it: give it a"),
    "a name that is not set": (lambda t: edited(t, "server s1", 'server "${UNSET}s1"'),
                               ["--pool", "chat"], r'cfg:\d+: this name has .* be "s1": run'),
    "a pool that is not set": (
        lambda t: t.replace("default_backend chat", 'default_backend "${UNSET}"'),
        ["--pool", "chat"], r'cfg:\d+: this name has .* be "": run'),
    "unique-id": (lambda t: edited(t, "    option httplog\n", "    option httplog\n"
                                   "    unique-id-format %[req.hdr(x-id)]\n"),
                  ["--pool", "chat"], r"cfg:\d+: a client can choose this unique-id"),
    "variable": (lambda t: edited(t, "    # only customers\n",
                                  "    http-request set-var(txn.pool) str(x)\n"),
                 ["--pool", "chat"], r"cfg:\d+: the variable txn.pool is in use"),
    "name": (lambda t: t + "backend spoe_agent\n", ["--pool", "chat"],
             r"cfg:\d+: the name spoe_agent is taken"),
    "variable of the agent": (
        lambda t: edited(t, "    # only customers\n",
                         "    http-request set-var(txn.kvroute.why) str(x)\n"),
        ["--pool", "chat"], r"cfg:\d+: the variable txn.kvroute is in use"),
    "list": (lambda t: edited(t, "global\n", "global\n    set-var proc.kvroute_vars str(x)\n", 1),
             ["--pool", "chat"], r"cfg:\d+: the variable proc.kvroute_vars is in use"),
    "mark": (lambda t: edited(t, "    # only customers", "    # only customers" + MARK),
             ["--pool", "chat"], r"cfg:\d+: this line ends with"),
    "unreadable": (lambda t: edited(t, "option httplog", "option 'httplog"), ["--pool", "chat"],
                   r"cfg:\d+: this line cannot be read \(a quote is not closed\): correct"),
    "no last newline": (lambda t: t.rstrip("\n"), ["--pool", "chat"],
                        r"cfg: the last line has no end"),
    "many servers": (lambda t: edited(t, "    server spare", "    server-template x 70 127.0.0.1:1"
                                      "\n"
                                      "    server spare"), ["--pool", "chat"],
                     r"cfg:\d+: chat has 73 servers"),
}


def says(err, option, asks=False):
    """Each line is one refusal, with its remedy; only a question is called one."""
    lines = err.splitlines()
    if asks:
        last = lines.pop()
        assert "because a question is open: repeat " + option in last, err
    for line in lines:
        assert re.match("kvroutectl doctor: %s %s: .+[:,] ." % (
            option, "asks" if asks else "refused"), line), err
    assert lines and "question" not in "".join(lines), err


def case_refused():
    for name, (edit, more, sentence) in REFUSED.items():
        with Site(["two-pools.cfg"], edit) as s:
            before = s.texts()
            status, out, err = s.diff("--write", *more)
            cases.equal((status, out), (1, ""), name)
            assert re.search(sentence, err), "%s: %s" % (name, err)
            says(err, "--write", " asks: " in sentence or sentence.startswith("asks: "))
            cases.equal(s.texts(), before, name)


def case_refused_by_hand():
    """A configuration that was attached by hand, as those of haproxy-conf/."""
    with Site(["two-pools.cfg"]) as s:
        for name in ("haproxy.cfg", "kvroute.spoe"):
            with open(os.path.join(TOP, "haproxy-conf", name)) as f, \
                    open(os.path.join(s.folder, name), "w") as to:
                to.write(f.read().replace("/etc/haproxy/kvroute/kvroute.spoe", "kvroute.spoe"))
        status, out, err = s.diff("--write", args=["-c", "haproxy.cfg"])
        assert status == 1 and out == "" and "attached by this line already" in err, err
        says(err, "--write")
        status, out, err = s.diff("--remove", args=["-c", "haproxy.cfg"])
        assert status == 1 and out == "" and "no line ends with" in err, err
        says(err, "--remove")


def case_refused_otherwise():
    with Site(["two-pools.cfg"]) as s:
        status, out, err = s.diff("--remove")
        assert status == 1 and out == "" and "no line ends with" in err, err
        with open(os.path.join(s.folder, "kvroute.spoe"), "w") as f:
            f.write("mine\n")
        status, out, err = s.diff("--write", "--pool", "chat")
        assert status == 1 and "this file exists" in err, err
        says(err, "--write", True)
        status, out, err = s.diff("--write", "--pool", "chat", "--spoe", "more/k.spoe")
        assert status == 0 and "+++ b/more/k.spoe" in out, err
        s.patch(out)
        status, out, err = s.diff("--write", "--pool", "chat", "--spoe", "again.spoe")
        assert status == 1 and "take kvroute out with --remove" in err, err
        cases.equal(s.diff("--write", "--remove")[0], 64)


def case_sent_variables():
    """Variables of the operator that the SPOE file sends are named, once."""
    rules = "".join("    http-request set-var(txn.%s) req.hdr(x-%s)\n" % (n, n)
                    for n in ("tenant", "model", "model"))
    with Site(["two-pools.cfg"], lambda t: edited(t, "    # only customers\n", rules)) as s:
        status, diff, err = s.diff("--write", "--pool", "chat")
        cases.equal((status, err.count("note: ")), (0, 2), err)
        for name in ("tenant", "model"):
            assert re.search(r"note: two-pools.cfg:\d+: txn.%s is sent to the agent as the %s" %
                             (name, name), err), err


def case_frontend_named():
    edit = REFUSED["dynamic"][0]
    with Site(["two-pools.cfg"], edit) as s:
        round_trip(s, "--pool", "code", "--frontend", "public")


KEPT = {
    "in a section": ("    server a1 ", "    server a2 127.0.0.1:9410\n",
                     r"two-pools.cfg:%d: this line belongs to the section of line \d+"),
    "in an .if": (".if version_atleast(3.0)", "    http-response set-header x y\n",
                  r"cfg:%d: this line depends on the .if in line \d+"),
    "in global": ("    tune.bufsize 262144", "    maxconn 5000\n",
                  r"cfg:%d: this line belongs to the section of line \d+"),
    "an .endif": ("    http-response send-spoe-group kvroute first", ".endif\n.if TRUE\n",
                  r"cfg:%d: only one of this line and line \d+ ends with"),
    "with defaults": ("    server a1 ", "backend mine\n    server m 127.0.0.1:9\n",
                      r"cfg:%d: this section has the defaults of line \d+"),
}


def case_remove_keeps_meaning():
    """A line of the operator whose section, .if or defaults --remove would delete is named."""
    for name, (after, line, sentence) in KEPT.items():
        with Site(["two-pools.cfg"], lambda t: t[t.index("defaults"):]) as s:
            s.patch(s.diff("--write", "--pool", "chat")[1])
            path = os.path.join(s.folder, "two-pools.cfg")
            with open(path) as f:
                text = f.read()
            at = re.search(r"(?m)^%s.*\n" % re.escape(after), text).end()
            with open(path, "w") as f:
                f.write(text[:at] + line + text[at:])
            status, out, err = s.diff("--remove")
            cases.equal((status, out), (1, ""), name)
            no = text[:at].count("\n") + 1
            assert re.search(sentence % no, err), "%s: %s" % (name, err)
            says(err, "--remove")
            with open(path, "w") as f:
                f.write(text[:at] + "# a comment\n\n" + text[at:])
            cases.equal(s.diff("--remove")[0], 0, name)


def case_comment_by_hand():
    """A line that ends with "# kvroute" is the operator's own."""
    with Site(["two-pools.cfg"], lambda t: edited(t, "    balance leastconn\n",
                                                  "    balance leastconn # kvroute\n", 1)) as s:
        text = round_trip(s, "--pool", "chat")["two-pools.cfg"]
        assert "    balance leastconn # kvroute\n" in text
        status, out, err = s.diff("--remove")
        assert status == 1 and out == "" and "no line ends with" in err, err


def case_named_twice():
    """One file under two names gives no diff, because it would not apply."""
    with Site(["two-pools.cfg"]) as s:
        os.symlink("two-pools.cfg", os.path.join(s.folder, "other.cfg"))
        for first, second in (("two-pools.cfg", "./two-pools.cfg"), ("other.cfg", "two-pools.cfg"),
                              (".", s.folder + "/two-pools.cfg")):
            status, out, err = s.diff("--write", "--pool", "chat",
                                      args=["-c", first, "-c", second])
            cases.equal((status, out), (2, ""), second)
            assert re.search(r"\.cfg and \S+\.cfg are the same file: name it once", err), err


# ---- the lines are those of haproxy-conf/

def rules_of(text):
    return {" ".join(line.split()) for line in text.splitlines()}


def case_same_as_shipped():
    """Each added rule is in haproxy-conf/, which the stories and recipes test."""
    shipped = set()
    for name in ("haproxy.cfg", "recipes/keep-your-log.cfg", "kvroute.spoe"):
        with open(os.path.join(TOP, "haproxy-conf", name)) as f:
            text = f.read()
        if name == "haproxy.cfg":
            acls = dict(re.findall(r"(?m)^ *acl (\w+) (.*)$", text))
            with open(os.path.join(TOP, "haproxy-conf/api-paths.lst")) as f:
                paths = [w for w in f.read().split("\n") if w and w[0] != "#"]
            acls["llm_api"] = "path_beg " + " ".join(paths)
            for acl, what in acls.items():
                text = re.sub(r"(?m)^( *http-re.*)\b%s\b" % acl, r"\1{ %s }" % what, text)
        shipped |= rules_of(text)
    with Site(["two-pools.cfg"], lambda t: edited(t, "spare", "s0")) as s:
        s.patch(s.diff("--write", "--pool", "chat")[1])
        texts = {k: v.decode() for k, v in s.texts().items()}
    added = {r[:-len(MARK)] for r in rules_of(texts["two-pools.cfg"]) if r.endswith(MARK)}
    added |= rules_of(texts["kvroute.spoe"])
    strange = {r for r in added - shipped if not re.match(
        r"filter spoe|log ring@|http-request set-var-fmt\(txn.load\)|args uid=.*body=|# Written",
        r)}
    cases.equal(strange, set(), "lines that haproxy-conf/ does not have")


# ---- broken afterwards

def case_update():
    """Servers come, go and change their names: one diff, and --remove still gives the rest back."""
    def renamed(text):
        text = edited(text, "    server s1 127.0.0.1:8001 check\n", "    server one 127.0.0.1:8001 "
                      "check\n    server nine 127.0.0.1:8009 check\n", 1)
        return edited(text, "    server s4 127.0.0.1:8004 check\n", "", 1)

    with Site(["two-pools.cfg"]) as s:
        path = os.path.join(s.folder, "two-pools.cfg")
        with open(path) as f:
            plain = f.read()
        s.patch(s.diff("--write", "--pool", "chat", "--pool", "code")[1])
        status, diff, err = s.diff("--update")
        cases.equal((status, diff), (0, ""), err)
        assert "up to date" in err and "apply it" not in err, err
        with open(path) as f:
            attached = f.read()
        with open(path, "w") as f:
            f.write(renamed(attached))
        status, out, err = s.diff()
        assert status == 1 and "[fault server_unnamed]" in out and "[fault load_absent]" in out, out
        assert "take the diff of --update, or write the line: " in out, out
        status, diff, err = s.diff("--update")
        cases.equal(status, 0, err)
        cases.equal(sum(w[:1] == "+" and w[:3] != "+++" for w in diff.split("\n")), 2, diff)
        s.patch(diff)
        status, out, err = s.diff()
        cases.equal((status, out), (0, "no fault found\n"))
        assert "nine=%[srv_is_up(nine)]" in s.texts()["two-pools.cfg"].decode()
        # more servers than before, so that the bound of bodies changes as well
        many = "".join("    server more-%02d 127.0.0.1:8%03d check\n" % (i, i) for i in range(40))
        text = edited(s.texts()["two-pools.cfg"].decode(), "    server nine",
                      many + "    server nine", 1)
        with open(path, "w") as f:
            f.write(text)
        diff = s.diff("--update")[1]
        assert "kvroute.spoe" in diff and "+    args uid=" in diff, diff
        s.patch(diff)
        cases.equal(s.diff()[:2], (0, "no fault found\n"))
        s.patch(s.diff("--remove")[1])
        text = re.sub(r"(?m)^    server more-.*\n", "", s.texts()["two-pools.cfg"].decode())
        cases.equal(text, renamed(plain))


def case_update_lists_what_is_read():
    """A line of the operator reads one more variable of the agent."""
    with Site(["two-pools.cfg"]) as s:
        s.patch(s.diff("--write", "--pool", "chat")[1])
        path = os.path.join(s.folder, "two-pools.cfg")
        with open(path) as f:
            text = f.read()
        assert "    set-var proc.kvroute_vars str(server+alt+why)" + MARK in text, text
        with open(path, "w") as f:
            f.write(edited(text, "    balance leastconn\n", "    balance leastconn\n"
                           "    http-response set-header x-wait %[var(txn.kvroute.wait)]\n", 1))
        status, out, err = s.diff()
        assert status == 1 and re.search(r"\[fault vars_left_out\] .*\(wait\): take the diff of "
                                         r"--update, or write in two-pools.cfg, line \d+: set-var "
                                         r"proc.kvroute_vars str\(server\+alt\+why\+wait\)" + MARK,
                                         out), out
        status, diff, err = s.diff("--update")
        cases.equal(status, 0, err)
        cases.equal([w for w in diff.split("\n") if w[:1] == "+" and w[:3] != "+++"],
                    ["+    set-var proc.kvroute_vars str(server+alt+why+wait)" + MARK])
        s.patch(diff)
        cases.equal(s.diff()[:2], (0, "no fault found\n"))
        status, diff, err = s.diff("--remove")
        cases.equal(status, 0, err)


def case_update_refused():
    with Site(["two-pools.cfg"]) as s:
        status, out, err = s.diff("--update")
        assert status == 1 and out == "" and "no filter line ends with" in err, err
        says(err, "--update")
        s.patch(s.diff("--write", "--pool", "chat")[1])
        with open(os.path.join(s.folder, "kvroute.spoe"), "r+") as f:
            text = f.read()
            f.seek(0)
            f.write("#" + text)
        status, out, err = s.diff("--update")
        assert status == 1 and out == "" and "--update leaves it alone" in err, err
        says(err, "--update")


def case_update_asks():
    """Places are those of the file with the marked lines."""
    edit = REFUSED["dynamic"][0]
    with Site(["two-pools.cfg"]) as s:
        s.patch(s.diff("--write", "--pool", "code")[1])
        path = os.path.join(s.folder, "two-pools.cfg")
        with open(path) as f:
            text = edit(f.read())
        with open(path, "w") as f:
            f.write(text)
        no = text[:text.index("use_backend %[req.hdr(x-to)]")].count("\n") + 1
        status, out, err = s.diff("--update", "--frontend", "public")
        cases.equal((status, err.count("\n")), (0, 1), err)
        with open(path, "w") as f:
            f.write(edited(text, "    default_backend", "    log-format-sd 'x'\n"
                           "    default_backend", 1))
        status, out, err = s.diff("--update")
        cases.equal(status, 1, err)
        assert "two-pools.cfg:%d: kvroute needs log-format-sd" % (no + 1) in err, err
        says(err, "--update")


def case_remedy_has_the_mark():
    """A line that is pasted as the doctor prints it goes with --remove."""
    with Site(["two-pools.cfg"]) as s:
        before = s.texts()
        s.patch(s.diff("--write", "--pool", "chat")[1])
        path = os.path.join(s.folder, "two-pools.cfg")
        with open(path) as f:
            text = f.read()
        line = re.search(r"(?m)^.*set-var-fmt\(txn.load\).*\n", text).group(0)
        with open(path, "w") as f:
            f.write(text.replace(line, ""))
        remedy = re.search(r"(?m)^.*\[fault load_unset\].*put before send-spoe-group: (.*)$",
                           s.diff()[1]).group(1)
        assert remedy.endswith(MARK), remedy
        with open(path, "w") as f:
            f.write(text.replace(line, "    " + remedy + "\n"))
        cases.equal(s.diff()[:2], (0, "no fault found\n"))
        s.patch(s.diff("--remove")[1])
        cases.equal(s.texts(), before)


def case_slack():
    """Longer names of servers or one more fit the bound that --write chose."""
    with Site(["two-pools.cfg"]) as s:
        s.patch(s.diff("--write", "--pool", "chat")[1])
        spoe = s.texts()["kvroute.spoe"].decode()
        bound = int(re.search(r"body,bytes\(0,(\d+)\)", spoe).group(1))
        most = int(re.search(r"body=[\w.]*,bytes\(0,(\d+)\)", s.broken_bound()).group(1))
        assert 2048 <= most - bound < 3072, (most, bound)


def case_breaks():
    """Each mistake in an attached configuration is named at its place, with what to write."""
    with Site(["two-pools.cfg"]) as s:
        s.patch(s.diff("--write", "--pool", "chat", "--pool", "code")[1])
        good = {k: s.texts()[k].decode() for k in ("two-pools.cfg", "kvroute.spoe")}
        for name, (rule, cfg, spoe) in BREAKS.items():
            for path, edit in (("two-pools.cfg", cfg), ("kvroute.spoe", spoe)):
                with open(os.path.join(s.folder, path), "w") as f:
                    f.write(edit(good[path]) if edit else good[path])
            status, out, err = s.diff()
            cases.equal((status, err), (1, ""), name)
            assert re.search(r"(?m)^\S+: \[\w+ %s\] .+: \S" % rule, out), name + "\n" + out


# ---- a running HAProxy

class Running(fleet.Fleet):
    """two-pools.cfg in operation, with a listener for its own log."""

    def __init__(self, version):
        super().__init__(engines=4, haproxy=haproxy(version), routed=False, show=False,
                         pools=("chat", "code"))
        self.syslog = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.syslog.bind(("127.0.0.1", 0))
        self.syslog.settimeout(fleet.HANG_SECONDS)

    def haproxy_cfg(self):
        with open(os.path.join(DATA, "two-pools.cfg")) as f:
            return filled(self.put_servers(f.read()), self.folder, {
                "@PORT@": str(self.port), "@SYSLOG@": str(self.syslog.getsockname()[1]),
                "@SOCKET@": self.stats_path, "@TLSPORT@": str(self.ports.take()),
                "@CLOSED@": str(self.ports.take())})

    def ask(self, text, model):
        got = self.chat([{"role": "user", "content": text}], headers={
            "authorization": "Bearer x", "x-model": model})
        cases.equal(got.status, 200)
        return got.engine

    def own_log(self, backend):
        """The next line of a request in HAProxy's own log; it is as without kvroute."""
        while True:
            line = self.syslog.recv(65536).decode()
            if " public" in line and "POST" in line:
                break
        assert re.search(r" public~? %s/s\d .*\"POST /v1/chat/completions" % backend, line), line
        assert "uid" not in line and "txn" not in line, line

    def patched(self, *more):
        status, diff, err = doctor("/", "-c", self.cfg_path, "-f",
                                   os.path.join(self.folder, "kvroute.yaml"), *more)
        cases.equal(status, 0, err)
        cases.equal(run(["patch", "-d", "/", "-p1"], "/", diff)[0], 0, "patch")

    def reload(self):
        """The master may miss a signal while it starts again, so it gets another one."""
        old, sent = workers(self), [0]

        def replaced():
            if time.monotonic() > sent[0] + 5:
                self.processes["haproxy"].send_signal(signal.SIGUSR2)
                sent[0] = time.monotonic()
            return workers(self) and not workers(self) & old
        wait_for("a new worker instead of the old one", 30, replaced)

    def wait_ended(self):
        """A request counts as open at its server until its log line has come."""
        wait_for("lines of the log feed", 10, lambda: self.total(
            "kvroute_facts_total", 'kind="done"') >= self.total("kvroute_decisions_total"))

    def total(self, name, part=""):
        return sum(v for k, v in self.metrics().items() if k.startswith(name) and part in k)


def patient(text):
    """An answer of the agent is never late, however busy the machine is."""
    return re.sub(r"timeout (processing|hello) \d+ms", r"timeout \1 60s", text)


def attach_and_detach(version):
    prompt = "a prompt of several pages " * 300
    with Running(version) as f:
        with open(f.cfg_path, "rb") as g:
            before = g.read()
        f.ask(prompt, "chat")
        f.own_log("chat")
        spoe = os.path.join(f.folder, "own", "kvroute.spoe")
        f.patched("--write", "--pool", "chat", "--pool", "code", "--spoe", spoe)
        with open(spoe) as g:
            text = patient(g.read())
        with open(spoe, "w") as g:
            g.write(text)
        with open(f.cfg_path) as g:
            text = edited(g.read(), "    option spop-check", "    timeout check 60s%s\n"
                          "    option spop-check" % MARK)
        with open(f.cfg_path, "w") as g:
            g.write(text)
        f.reload()
        wait_for("the check of the agent", 10, lambda: f.up_servers("spoe_agent") == 1)
        wait_for("the checks of the engines", 10,
                 lambda: f.up_servers("chat") == 2 and f.up_servers("code") == 2)
        for model in ("chat", "code"):
            engines = set()
            for _ in range(4):
                engines.add(f.ask(model + prompt, model))
                f.own_log(model)
                f.wait_ended()
            cases.equal(len(engines), 1, "engines of one prompt to " + model)
        asked = f.total("kvroute_decisions_total")
        assert asked >= 8, asked
        assert f.total("kvroute_decisions_total", 'why="cached"') >= 6, f.metrics()
        status, out, err = doctor("/", "-c", f.cfg_path, "-f",
                                  os.path.join(f.folder, "kvroute.yaml"), "--haproxy-version",
                                  version)
        out = "\n".join(line for line in out.splitlines() if " timeout] " not in line)
        cases.equal((out, err), ("", ""), "doctor")
        status, out, err = doctor("/", "-c", f.cfg_path, "-f",
                                  os.path.join(f.folder, "kvroute.yaml"), "--live", f.stats_path,
                                  "--header", "authorization: Bearer x", "--wait", "900")
        cases.equal(re.findall("(?m)^(ok|lost|note)  ", out), ["ok"] * 7, out + err)
        asked = f.total("kvroute_decisions_total")
        f.patched("--remove")
        f.reload()
        with open(f.cfg_path, "rb") as g:
            assert g.read() == before, "the file differs"
        assert not os.path.exists(spoe)
        wait_for("the checks of the engines", 10, lambda: f.up_servers("chat") == 2)
        f.ask(prompt, "chat")
        cases.equal(f.total("kvroute_decisions_total"), asked, "decisions after --remove")


class RunningFiles(Running):
    """The directory of files in operation: a listen section, no log of its own."""

    def start_haproxy(self):
        self.cfg_path = os.path.join(self.folder, "files")
        os.mkdir(self.cfg_path)
        for path in glob.glob(os.path.join(DATA, "files", "*")):
            with open(path) as f:
                text = filled(self.put_servers(f.read()), self.folder, {
                    "@PORT@": str(self.port), "@SOCKET@": self.stats_path})
            self.write(os.path.join("files", os.path.basename(path)), text)
        self.spawn("haproxy", [self.haproxy_bin, "-W", "-db", "-f", self.cfg_path])
        self.wait_alive("haproxy", "HAProxy", lambda: os.path.exists(self.stats_path)
                        and self.up_servers("gateway") == 2)

    def texts(self):
        out = {}
        for path in glob.glob(self.cfg_path + "/*"):
            with open(path, "rb") as f:
                out[path] = f.read()
        return out


class RunningSite(Running):
    """A folder of tests/data/doctor/sites/ in operation."""

    def __init__(self, name, version):
        super().__init__(version)
        self.site, self.pools = name, SITES[name][1]

    def start_haproxy(self):
        def edit(text):
            """Ports after a variable, too."""
            return re.sub(r"(HOST\}?\"?):800(\d)", lambda m: "%s:%d" % (
                m[1], self.engines["s" + m[2]]), self.put_servers(text))
        self.place = os.path.join(self.folder, "site")
        os.mkdir(self.place)
        copy_site(self.site, self.place, {
            "@SOCKET@": self.stats_path, "@PORT@": str(self.port),
            "@SYSLOG@": str(self.syslog.getsockname()[1]),
            **{w: str(self.ports.take()) for w in FIXED if w not in ("@PORT@", "@SYSLOG@")}}, edit)
        self.cfg_path = self.place if self.site == "edge" else self.place + "/haproxy.cfg"
        self.spawn("haproxy", [self.haproxy_bin, "-W", "-db", "-f", self.cfg_path])
        self.wait_alive("haproxy", "HAProxy", lambda: os.path.exists(self.stats_path)
                        and self.all_up())

    def all_up(self):
        return all(self.up_servers(p) >= n for p, n in self.pools.items())

    def texts(self):
        out = {}
        for path in glob.glob(self.place + "/*"):
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    out[path] = f.read()
        return out


def run_site(name, version):
    with RunningSite(name, version) as f:
        before = f.texts()
        f.ask("a prompt", "llama-8b")
        f.patched("--write", *SITES[name][0])
        with open(f.place + "/kvroute.spoe") as g:
            text = patient(g.read())
        with open(f.place + "/kvroute.spoe", "w") as g:
            g.write(text)
        last = max(p for p in f.texts() if p.endswith(".cfg"))
        with open(last, "a") as g:
            g.write("    timeout check 60s%s\n" % MARK)
        f.reload()
        wait_for("the check of the agent", 10, lambda: f.up_servers("spoe_agent") == 1)
        wait_for("the checks of the engines", 10, f.all_up)
        for model in ("llama-8b", "llama-405b"):
            engines = set()
            for _ in range(3):
                engines.add(f.ask(model + " a prompt of several pages " * 300, model))
                f.wait_ended()
            cases.equal(len(engines), 1, "engines of one prompt")
        assert f.total("kvroute_decisions_total", 'why="cached"') >= 4, f.metrics()
        status, out, err = doctor("/", "-c", f.cfg_path, "-f", f.folder + "/kvroute.yaml", "--live",
                                  f.stats_path, "--wait", "900")
        cases.equal(re.findall("(?m)^(ok|lost|note)  ", out), ["ok"] * 7, out + err)
        f.patched("--remove")
        cases.equal(f.texts(), before, "the files")
        f.reload()
        wait_for("the checks of the engines", 10, f.all_up)
        f.ask("a prompt", "llama-8b")


def case_sites_in_operation():
    """Each on one version of HAProxy; case_sites() has them all."""
    for i, name in enumerate(SITES if VERSIONS else ()):
        run_site(name, VERSIONS[i % len(VERSIONS)])


def case_running_directory_3_0():
    with RunningFiles("3.0") as f:
        before = f.texts()
        f.patched("--write")
        spoe = os.path.join(f.cfg_path, "kvroute.spoe")
        with open(spoe) as g:
            text = patient(g.read())
        with open(spoe, "w") as g:
            g.write(text)
        with open(os.path.join(f.cfg_path, "40-rest.cfg"), "a") as g:
            g.write("    timeout check 60s%s\n" % MARK)
        f.reload()
        wait_for("the check of the agent", 10, lambda: f.up_servers("spoe_agent") == 1)
        engines = set()
        for _ in range(4):
            engines.add(f.ask("a prompt of several pages " * 300, "x"))
            f.wait_ended()
        cases.equal(len(engines), 1, "engines of one prompt")
        assert f.total("kvroute_decisions_total", 'why="cached"') >= 3, f.metrics()
        f.patched("--remove")
        cases.equal(f.texts(), before, "the files")
        f.reload()
        f.ask("a prompt", "x")


def case_running_2_6():
    attach_and_detach("2.6")


def case_running_3_0():
    attach_and_detach("3.0")


def case_running_3_2():
    attach_and_detach("3.2")


CASES = [v for k, v in list(globals().items()) if k.startswith("case_")
         and (not k.startswith("case_running_") or k[-3:].replace("_", ".") in VERSIONS)]

if __name__ == "__main__":
    for version in {"2.6", "3.0", "3.2"} - set(VERSIONS):
        print("skipped: HAProxy %s is not available" % version)
    sys.exit(cases.main(CASES, sys.argv[1:]))
