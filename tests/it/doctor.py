#!/usr/bin/env python3
"""doctor.py [-k WORD] - kvroutectl doctor on every shipped file, which must be clean for HAProxy
2.6, 3.0, 3.2 and 3.4, and on configurations with one mistake each, which must be named.

Starts no agent, and HAProxy's program only to be asked. The last line is "N passed, N failed".
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TMP = tempfile.mkdtemp()
results = []
os.environ["KVROUTE_YAML"] = ""     # none of this machine


def doctor(cfg, version="3.2", *more):
    got = subprocess.run([os.path.join(TOP, "kvroutectl"), "doctor", "-c", cfg,
                          "--haproxy-version", version, *more], capture_output=True, text=True,
                         timeout=120)
    return got.returncode, got.stdout + got.stderr


def result(ok, what, text=""):
    results.append(bool(ok))
    print(("ok    " if ok else "FAIL  ") + what + ("" if ok else "\n" + text))


def swap(old, new):
    def edit(text):
        if old not in text:
            raise AssertionError("nothing to replace: " + old)
        return text.replace(old, new, 1)
    return edit


def sub(old, new):
    def edit(text):
        got = re.sub(old, new, text)
        if got == text:
            raise AssertionError("nothing to replace: " + old)
        return got
    return edit


def chroot(agent):
    """HAProxy changes its root as in Debian's file, and the agent's server has another address."""
    def edit(text):
        text = swap("global\n", "global\n    chroot /var/lib/haproxy\n")(text)
        return swap("a1 127.0.0.1:9400", "a1 " + agent)(text)
    return edit


def drop(word):
    return sub(r"(?m)^ *(?!#)[^#\n]*%s.*\n" % word, "")


def late(text):
    line = re.search(r"(?m)^ *http-request set-var-fmt\(txn.load\).*\n", text).group(0)
    send = re.search(r"(?m)^ *http-request send-spoe-group.*\n", text).group(0)
    return text.replace(line, "").replace(send, send + line)


def in_front(text):
    line = re.search(r"(?m)^ *filter spoe.*\n", text).group(0)
    return text.replace(line, "").replace("    bind :8080\n", "    bind :8080\n" + line)


def twice(text):
    line = re.search(r"(?m)^ *filter spoe.*\n", text).group(0)
    return text.replace("    bind :8080\n", "    bind :8080\n" + line)


# name: (rule that must be named, edit of haproxy.cfg, edit of kvroute.spoe, version)
CASES = {
    "a path without its slash": (
        "path_never",
        swap("acl llm_api path_beg -f", "acl llm_api path_beg v1/ #"),
        None,
        "3.2"),
    "the end for the begin of a path": (
        "path_never",
        swap("acl llm_api path_beg -f", "acl llm_api path_end /v1 #"),
        None,
        "3.2"),
    "a path that the API has not": (
        "path_never",
        swap("if METH_POST llm_api", "if METH_POST { path -m str /v1/chat } llm_api"),
        None,
        "3.2"),
    "each path excluded": (
        "path_never",
        swap("if METH_POST llm_api", "if METH_POST !llm_api { path_beg /v1/ /generate /v1beta/ }"),
        None,
        "3.2"),
    "a misspelt path": (
        "path_never",
        swap("acl llm_api path_beg -f", "acl llm_api path_beg /v1/chat/completion/ #"),
        None,
        "3.2"),
    "one name twice": (
        "server_twice",
        swap("    server s2 ", "    server-template s 2-2 127.0.0.1:8009\n    server s2 "),
        None,
        "3.2"),
    "no file of paths": ("file_missing", swap("api-paths.lst", "api-path.lst"), None, "3.2"),
    "an empty file of paths": ("file_empty", swap("api-paths.lst", "empty.lst"), None, "3.2"),
    "no map": (
        "file_missing",
        swap("    default_backend pool", "    use_backend %[path,map_beg(" + TMP + "/no.map)]\n"
             "    default_backend pool"),
        None,
        "3.2"),
    "an empty map": (
        "file_empty",
        swap("    default_backend pool", "    use_backend %[path,map_beg(" + TMP +
             "/empty.lst,pool)]\n    default_backend pool"),
        None,
        "3.2"),
    "a map to an unknown backend": (
        "map_unknown",
        swap("    default_backend pool", "    use_backend %[path,map_beg(" + TMP + "/wrong.map)]\n"
             "    default_backend pool"),
        None,
        "3.2"),
    "no filter": ("not_attached", drop("filter spoe"), None, "3.2"),
    "wrong port of the agent": (
        "agent_address",
        swap("a1 127.0.0.1:9400", "a1 127.0.0.1:9499"),
        None,
        "3.2"),
    "agent's socket outside of the chroot": (
        "agent_chroot",
        chroot("unix@/run/kvroute/spop.sock"),
        None,
        "3.2"),
    "agent's line to the feed": (
        "spop_on_feed",
        swap("a1 127.0.0.1:9400", "a1 127.0.0.1:9401"),
        None,
        "3.2"),
    "agent's line to the metrics": (
        "spop_on_http",
        swap("a1 127.0.0.1:9400", "a1 127.0.0.1:9402"),
        None,
        "3.2"),
    "ring to the port for SPOP": (
        "log_on_spop",
        swap("agent 127.0.0.1:9401", "agent 127.0.0.1:9400"),
        None,
        "3.2"),
    "ring to the metrics": (
        "log_on_http",
        swap("agent 127.0.0.1:9401", "agent 127.0.0.1:9402"),
        None,
        "3.2"),
    "ring to a closed port": (
        "feed_missing",
        swap("agent 127.0.0.1:9401", "agent 127.0.0.1:9498"),
        None,
        "3.2"),
    "ring with TLS": (
        "tls_on_feed",
        swap("agent 127.0.0.1:9401", "agent 127.0.0.1:9401 ssl"),
        None,
        "3.2"),
    "ring without a server": ("feed_ring", drop("server agent"), None, "3.2"),
    "format of the ring": (
        "feed_format",
        swap("ring kvroute-feed\n    format raw", "ring kvroute-feed\n    format rfc5424"),
        None,
        "3.2"),
    "short ring": ("feed_length", swap("maxlen 4096", "maxlen 512"), None, "3.2"),
    "level notice": ("feed_level", swap("local0 info info", "local0 notice"), None, "3.2"),
    "no log global": ("feed_missing", drop("log global"), None, "3.2"),
    "no log-format": ("feed_plain", drop("log-format"), None, "3.2"),
    "silent": (
        "feed_missing",
        swap("    http-request wait-for-body", "    http-request set-log-level silent\n"
             "    http-request wait-for-body"),
        None,
        "3.2"),
    "lines at the begin of an answer": (
        "feed_early",
        swap("    mode http\n", "    mode http\n    option logasap\n"),
        None,
        "3.2"),
    "a field is missing": ("feed_fields", swap('"rc":"%rc",', ""), None, "3.2"),
    "load of an absent server": (
        "load_absent",
        swap("s2=%[srv_is_up(s2)]", "s2=%[srv_is_up(sx)]"),
        None,
        "3.2"),
    "label differs": ("load_label", swap(";s2=", ";s2.x="), None, "3.2"),
    "an entry without sense": ("load_bad", swap(";s2=", ";nothing;s2="), None, "3.2"),
    "server not in load": ("server_unnamed", sub(r";s4=[^\"]*", ""), None, "3.2"),
    "backup server": (
        "load_backup",
        swap("server s4 127.0.0.1:8004", "server s4 127.0.0.1:8004 backup"),
        None,
        "3.2"),
    "a server that drains itself": (
        "drain_unseen",
        swap("server s2 127.0.0.1:8002", "server s2 127.0.0.1:8002 agent-check agent-port 9"),
        None,
        "3.2"),
    "servers that drain themselves": (
        "drain_unseen",
        swap("    server s1 ", "    default-server agent-check agent-port 9\n    server s1 "),
        None,
        "3.2"),
    "server-template": (
        "server_unnamed",
        swap("server s4 127.0.0.1:8004", "server-template s 4-5 127.0.0.1:8004"),
        None,
        "3.2"),
    "no load": ("load_unset", drop(r"set-var-fmt\(txn.load\)"), None, "3.2"),
    "load after the send": ("load_late", late, None, "3.2"),
    "load without a format": (
        "load_empty",
        sub(r"set-var-fmt\(txn.load\).*", "set-var-fmt(txn.load)"),
        None,
        "3.2"),
    "no argument load": ("load_missing", None, swap("load=var(txn.load) ", ""), "3.2"),
    "bufsize by default": ("spoe_too_big", drop("tune.bufsize"), None, "3.2"),
    "a unit that HAProxy 3.0 ignores": (
        "spoe_too_big",
        swap("tune.bufsize 262144", "tune.bufsize 256k"),
        None,
        "3.0"),
    "no bound of the body": ("spoe_too_big", None, swap(",bytes(0,256000)", ""), "3.2"),
    "small bound of the body": ("body_bound", None, swap("256000", "8000"), "3.2"),
    "small buffer": (
        "body_buffer",
        swap("tune.bufsize 262144", "tune.bufsize 32768"),
        None,
        "3.2"),
    "no body": ("body_missing", None, swap(" body=req.body,bytes(0,256000)", ""), "3.2"),
    "bufsize above the agent's": (
        "frame_size",
        swap("tune.bufsize 262144", "tune.bufsize 2097152"),
        None,
        "3.2"),
    "max-frame-size": (
        "frame_size",
        None,
        swap("    groups route", "    max-frame-size 4096\n    groups route"),
        "3.2"),
    "no pool": ("pool_unset", None, swap("pool=str(pool) ", ""), "3.2"),
    "txn.pool is not set": (
        "pool_unset",
        None,
        swap("pool=str(pool)", "pool=var(txn.pool)"),
        "3.2"),
    "another pool": ("pool_differs", None, swap("pool=str(pool)", "pool=str(lama)"), "3.2"),
    "variables not registered": ("unregistered", None, drop("register-var-names"), "3.2"),
    "another prefix": (
        "answer_lost",
        None,
        swap("option var-prefix kvroute", "option var-prefix other"),
        "3.2"),
    "name of the engine": ("spoe_engine", None, swap("[kvroute]", "[kv-route]"), "3.2"),
    "lines above the engine's": (
        "spoe_engine",
        None,
        lambda t: t.replace("[kvroute]\n", "") + "[kvroute-model]\n",
        "3.2"),
    "words after the engine's name": (
        "unreadable",
        None,
        swap("[kvroute]", "[kvroute] engine"),
        "3.2"),
    "an engine without its agent": (
        "spoe_agent",
        None,
        lambda t: "[kvroute]\n",
        "3.2"),
    "a filter without engine, a file with it": (
        "spoe_engine",
        swap("filter spoe engine kvroute", "filter spoe"),
        None,
        "3.2"),
    "no file": (
        "spoe_file",
        sub(r"config \S+", "config /nonexistent/kvroute.spoe"),
        None,
        "3.2"),
    "no agent in the file": (
        "spoe_agent",
        swap("send-spoe-group kvroute route", "send-spoe-group kvroute rout"),
        None,
        "3.2"),
    "filter in the frontend": ("filter_frontend", in_front, None, "3.2"),
    "filter twice": ("filter_twice", twice, None, "3.2"),
    "no wait-for-body": ("body_early", drop("http-request wait-for-body"), None, "3.2"),
    "no unique-id": ("uid_missing", drop("unique-id-format"), None, "3.2"),
    "unique-id of the client": (
        "uid_client",
        swap("%[uuid()]", "%[req.hdr(x-request-id)]"),
        None,
        "3.2"),
    "tenant of the client": (
        "tenant_client",
        swap("    http-request wait-for",
             "    http-request set-var(txn.tenant) req.hdr(x-tenant)\n    http-request wait-for"),
        None,
        "3.2"),
    "session from a secret": (
        "session_secret",
        swap("req.hdr(x-session-id)", "req.hdr(authorization)"),
        None,
        "3.2"),
    "session of any length": (
        "session_long",
        swap("    http-request wait-for",
             "    http-request set-var(txn.session) req.hdr(x-user-id)\n    http-request wait-for"),
        None,
        "3.2"),
    "no use-server": ("not_followed", drop("use-server"), None, "3.2"),
    "not sent": ("not_asked", drop("send-spoe-group kvroute route"), None, "3.2"),
    "no nbsrv": ("no_nbsrv", sub(r"(send-spoe-group .*) { nbsrv\(spoe_agent\) gt 0 }", r"\1"), None,
                 "3.2"),
    "continue-on-error": (
        "continue_on_error",
        None,
        swap("    groups route", "    option continue-on-error\n    groups route"),
        "3.2"),
    "slow timeout processing": (
        "timeout",
        None,
        swap("timeout processing 50ms", "timeout processing 10s"),
        "3.2"),
    "no timeout hello": ("timeout", None, drop("timeout hello"), "3.0"),
    "short wait for the first token": (
        "timeout",
        swap("time 10m at-least", "time 10s at-least"),
        None,
        "3.2"),
    "first before 3.0": (
        "first_early",
        sub(r"(?m)^\.if version_atleast.*\n", ".if version_atleast(2.6)\n"),
        None,
        "2.6"),
    "no first": ("first_missing", drop("send-spoe-group kvroute first"), None, "3.2"),
    "first at the headers": ("first_headers", drop("at-least 1"), None, "3.2"),
    "no http-no-delay": ("no_delay", drop("option http-no-delay"), None, "3.2"),
    "compression": (
        "compression",
        swap("    mode http\n", "    mode http\n    compression algo gzip\n"),
        None,
        "3.2"),
    "option persist": (
        "persist",
        swap("    mode http\n", "    mode http\n    option persist\n"),
        None,
        "3.2"),
    "no backend of the agent": (
        "agent_backend",
        None,
        swap("use-backend spoe_agent", "use-backend other"),
        "3.2"),
    "send-proxy by default": (
        "proxy_on_spop",
        swap("    mode tcp\n", "    mode tcp\n    default-server send-proxy-v2\n"),
        None,
        "3.2"),
    "ssl by default": (
        "tls_on_spop",
        swap("    mode tcp\n", "    mode tcp\n    default-server ssl\n"),
        None,
        "3.2"),
    "maxconn by default": (
        "agent_limit",
        swap("    mode tcp\n", "    mode tcp\n    default-server maxconn 4\n"),
        None,
        "3.2"),
    "httpchk by default": (
        "http_on_spop",
        swap("    option spop-check", "    option httpchk"),
        None,
        "3.2"),
    "mode http for the agent": (
        "agent_mode",
        swap("    mode tcp\n", "    mode http\n"),
        None,
        "3.2"),
    "no spop-check": ("agent_check", drop("option spop-check"), None, "3.2"),
    "the agent's defaults reach others": (
        "agent_defaults",
        lambda t: t + "\nfrontend other\n    bind :8099\n",
        None,
        "3.2"),
    "a quote is not closed": ("unreadable", swap("%[uuid()]", "\"%[uuid()]"), None, "3.2"),
    ".if without .endif": ("unreadable", swap(".endif", ""), None, "3.2"),
}


def shipped():
    for version in ("2.6", "3.0", "3.2", "3.4"):
        for cfg in [TMP + "/haproxy.cfg"] + sorted(glob.glob(TMP + "/recipes/*.cfg")):
            status, text = doctor(cfg, version)
            result(status == 0, "%s is clean, HAProxy %s" % (os.path.relpath(cfg, TMP), version),
                   text)


def broken(word):
    with open(TMP + "/haproxy.cfg") as f:
        cfg = f.read()
    with open(TMP + "/kvroute.spoe") as f:
        spoe = f.read()
    for name, (rule, edit, edit_spoe, version) in CASES.items():
        if word not in name:
            continue
        with open(TMP + "/broken-kvroute.spoe", "w") as f:
            f.write(edit_spoe(spoe) if edit_spoe else spoe)
        with open(TMP + "/broken.cfg", "w") as f:
            f.write((edit(cfg) if edit else cfg).replace("/kvroute.spoe", "/broken-kvroute.spoe"))
        status, text = doctor(TMP + "/broken.cfg", version)
        named = re.search(r"(?m)^\S+?(:\d+)?: \[\w+ %s\] .+: \S.*$" % rule, text)
        result(bool(named) and status == (2 if rule == "unreadable" else 1),
               "%s: %s" % (name, rule), "status %d\n%s" % (status, text))


def arguments():
    status, text = doctor(TMP + "/absent.cfg")
    result(status == 2 and "absent.cfg" in text, "a file that is missing", text)
    os.mkdir(TMP + "/none")
    for more in ((), ("--write",)):
        status, text = doctor(TMP + "/none", "3.2", *more)
        result((status, text) == (2, "kvroutectl doctor: %s/none: no file *.cfg is in this folder"
               "\n" % TMP), "a folder without files", text)
        status, text = doctor(TMP + "/absent.cfg", "3.2", *more)
        result((status, text) == (2, "kvroutectl doctor: %s/absent.cfg: No such file or directory"
               "\n" % TMP), "a missing file: " + " ".join(more), text)
    with open(TMP + "/rows.txt", "w") as f:
        f.write("no section\n")
    status, text = doctor(TMP + "/rows.txt")
    result(status == 2 and "rows.txt:1:" in text, "a file without a section", text)
    status, text = doctor(TMP + "/haproxy.cfg", "soon")
    result(status == 64, "a version without sense", text)


def installed():
    """Without -f it reads the agent's installed file, and says so."""
    with open(TMP + "/agent.yaml", "w") as to:
        to.write("spop: {listen: [\"127.0.0.1:9499\"]}\n")
    with open(TMP + "/wrong.yaml", "w") as to:
        to.write("nonsense: 1\n")
    os.symlink("loop.yaml", TMP + "/loop.yaml")
    cfg, name = TMP + "/haproxy.cfg", "the agent's configuration is "
    for what, yaml, more, wanted, said in (
            ("is used", "agent.yaml", (), 1, (name + TMP + "/agent.yaml", " agent_address]")),
            ("-f wins", "agent.yaml", ("-f", TOP + "/doc/kvroute.yaml"), 0, ("no fault found",)),
            ("-f with an empty name", "agent.yaml", ("-f", ""), 0, ("no fault found",)),
            ("is missing", "absent.yaml", (), 0, ("no fault found", "absent.yaml: No such file",
             "the agent's defaults are assumed")),
            ("cannot be read", "loop.yaml", (), 0, ("no fault found", "loop.yaml: Too many levels",
             "the agent's defaults are assumed; use sudo, or name a file that you can read with "
             "-f")),
            ("has an error", "wrong.yaml", (), 2, ("wrong.yaml:1:1",
             "or name another file with -f")),
            ("no diff needs it", "wrong.yaml", ("--remove",), 1, ())):
        os.environ["KVROUTE_YAML"] = os.path.join(TMP, yaml)
        status, text = doctor(cfg, "3.2", *more)
        result(status == wanted and all(w in text for w in said) and
               ("note: " in text) == (name in text or "assumed" in text),
               "the installed file " + what, "%d\n%s" % (status, text))
    del os.environ["KVROUTE_YAML"]
    for path in ("/etc", "/usr/local/etc"):
        root = TMP + path
        os.makedirs(root + "/kvroute")
        shutil.copy(TMP + "/agent.yaml", root + "/kvroute/kvroute.yaml")
        mounts = "mount --bind %s/etc /etc && mount --bind %s %s && exec \"$@\"" % (
            TMP, root, path)
        got = subprocess.run(["unshare", "-rm", "sh", "-c", mounts, "sh", TOP + "/kvroutectl",
                              "doctor", "-c", cfg, "--haproxy-version", "3.2"],
                             capture_output=True, text=True, timeout=120)
        if "unshare" in got.stderr or "mount" in got.stderr:
            print("skipped: folders of its own: " + got.stderr.strip().split("\n")[0])
        else:
            result(got.returncode == 1 and name + path + "/kvroute/kvroute.yaml" in got.stderr,
                   "an agent is installed in " + path, got.stdout + got.stderr)
        shutil.rmtree(root + "/kvroute")
    os.environ["KVROUTE_YAML"] = ""


def across_files():
    """A section ends with its file; defaults hold for later files. As HAProxy itself has it."""
    with open(TMP + "/haproxy.cfg") as f:
        text = f.read()
    for what, at, ends in (("in a backend", "    server s4 ", True),
                           ("in a frontend", "    default_backend pool\n", True),
                           ("in global", "    maxconn 2000", True),
                           ("between sections", "\nbackend pool\n", False),
                           ("after defaults", "\nfrontend llm\n", False)):
        os.makedirs(TMP + "/parts", exist_ok=True)
        for name, part in (("10.cfg", text[:text.index(at)]), ("20.cfg", text[text.index(at):])):
            with open(TMP + "/parts/" + name, "w") as to:
                to.write(part)
        status, out = doctor(TMP + "/parts")
        no = 1 if ends else 0
        said = re.search(r"parts/20.cfg:1: \[unreadable unreadable\] .* a section ends with its "
                         r"file.*: move the line", out)
        result((status, out.count(" unreadable]"), bool(said)) == (2 * no, no, ends),
               "two files, cut " + what, "%d\n%s" % (status, out))
        diff = doctor(TMP + "/parts", "3.2", "--write")[1]
        said = "--write refused: %s/parts/20.cfg:1: this line cannot be read" % TMP
        result((said in diff) == ends, "--write, cut " + what, diff)
        for path in sorted(glob.glob(TOP + "/build/haproxy/*/haproxy")):
            got = subprocess.run([path, "-c", "-f", TMP + "/parts"], capture_output=True, text=True,
                                 timeout=120)
            result((got.returncode != 0) == ends and ("out of section" in got.stderr) == ends,
                   "HAProxy, cut " + what, got.stderr)


def bounded():
    """Many mistakes of one kind stay readable."""
    servers = "".join("    server x%d 127.0.0.1:9\n" % i for i in range(900))
    load = ";".join("y%d=%%[srv_is_up(y%d)]" % (i, i) for i in range(900))
    for more, n in ((servers, 900), ("", 0)):
        with open(TMP + "/haproxy.cfg") as f, open(TMP + "/many.cfg", "w") as to:
            to.write(sub(r"(?m)^( *http-request set-var-fmt\(txn.load\) ).*$",
                         r'\1"%%[hostname]/%%pid;%s" if { var(txn.api) -m found }' % load)(
                             f.read()).replace("    server s1 ", more + "    server s1 "))
        status, text = doctor(TMP + "/many.cfg")
        result(status == 1 and len(text) < 8000 and " load_absent] and 892 more like these" in text
               and text.count(" load_absent]") == 9, "900 wrong servers, %d servers" % n,
               text[:3000])


def without_engine():
    """A filter that names no engine reads the lines above the first one."""
    with open(TMP + "/kvroute.spoe") as f, open(TMP + "/plain.spoe", "w") as to:
        to.write(f.read().replace("[kvroute]", "").replace("spoe-agent kvroute-agent",
                                                           "spoe-agent kvroute"))
    with open(TMP + "/haproxy.cfg") as f, open(TMP + "/plain.cfg", "w") as to:
        to.write(f.read().replace("filter spoe engine kvroute", "filter spoe")
                 .replace("/kvroute.spoe", "/plain.spoe"))
    status, text = doctor(TMP + "/plain.cfg")
    with open(TMP + "/haproxy.cfg") as f, open(TMP + "/unit.cfg", "w") as to:
        to.write(f.read().replace("tune.bufsize 262144", "tune.bufsize 256k"))
    result(doctor(TMP + "/unit.cfg")[0] == 0, "tune.bufsize with a unit, HAProxy 3.2")
    result(status == 0, "a filter without engine", text)


def large_buffers():
    """Slices show what a large buffer of 3.4 holds, and one message no more than tune.bufsize. A
    small buffer with a bound that fits is wanted, if sessions are named."""
    with open(TMP + "/recipes/sliced.cfg") as f:
        sliced = f.read()
    with open(TMP + "/haproxy.cfg") as f:
        whole = f.read()
    small = swap("tune.bufsize 262144", "tune.bufsize 16384\n    tune.bufsize.large 262144")
    with open(TMP + "/kvroute.spoe") as f:
        spoe = f.read()
    for name, line, session, want in (
            ("sessions are named", "tune.bufsize 16384", "session=var(txn.session) ", 0),
            ("no session", "tune.bufsize 16384", "", 1),
            ("not written", "maxconn 2000", "session=var(txn.session) ", 1)):
        with open(TMP + "/small.cfg", "w") as to:
            to.write(swap("tune.bufsize 262144", line)(whole).replace("kvroute.spoe", "small.spoe"))
        with open(TMP + "/small.spoe", "w") as to:
            to.write(swap("256000", "13300")(swap("session=var(txn.session) ", session)(spoe)))
        status, out = doctor(TMP + "/small.cfg", "3.2")
        result(status == want and (" body_buffer]" in out) == bool(want),
               "small buffer: " + name, out)
    for name, text, version, said in (
            ("none", drop("tune.bufsize.large")(sliced), "3.4", "buffers of recipes/sliced.cfg"),
            ("none, before 3.4", swap("tune.bufsize 131072", "tune.bufsize 32768")(sliced), "3.2",
             "buffers of recipes/sliced.cfg"),
            ("no rule takes one", swap(" use-large-buffer", "")(sliced), "3.4",
             "use-large-buffer after wait-for-body"),
            ("too small", swap("large 131072", "large 32768")(sliced), "3.4",
             "tune.bufsize.large 131072"),
            ("one message", swap("request wait-for-body time 10m", "request wait-for-body time 10m "
                                 "use-large-buffer")(small(whole)), "3.4",
             "only slices show")):
        with open(TMP + "/large.cfg", "w") as to:
            to.write(text)
        with open(TMP + "/kvroute.spoe") as f, open(TMP + "/large.spoe", "w") as to:
            to.write(swap("256000", "13000")(f.read()))
        if name == "one message":
            with open(TMP + "/large.cfg", "w") as to:
                to.write(text.replace("/kvroute.spoe", "/large.spoe"))
        status, out = doctor(TMP + "/large.cfg", version)
        result(status == 1 and " body_buffer]" in out and said in out and
               out.count(": [") == 1, "large buffers: " + name, out)


def variables():
    """setenv, presetenv, unsetenv and resetenv; variables in addresses; a condition on one."""
    with open(TMP + "/haproxy.cfg") as f:
        text = f.read()
    text = text.replace("127.0.0.1:9400", "${AGENT}:$PORT").replace("127.0.0.1:9401", "$AGENT:9401")
    for lines, rule in (
            ("setenv AGENT 127.0.0.1\n    presetenv PORT 9400\n    presetenv PORT 1", None),
            ("setenv AGENT 127.0.0.1\n    setenv PORT 9499", "agent_address"),
            ("setenv AGENT 127.0.0.1\n    setenv PORT 9400\n    unsetenv PORT", "agent_address"),
            ("setenv AGENT 127.0.0.1\n    setenv PORT 9400\n    resetenv AGENT", "agent_address"),
            ("setenv AGENT 127.0.0.1\n    setenv PORT 9400\n.if defined(PORT)\n    tune.bufsize "
             "16384\n.endif", "spoe_too_big")):
        with open(TMP + "/variables.cfg", "w") as to:
            to.write(text.replace("    maxconn 2000\n", "").replace(
                "    stats socket", "    %s\n    stats socket" % lines, 1))
        status, out = doctor(TMP + "/variables.cfg")
        result(rule in out and status == 1 if rule else status == 0,
               "variables: %s: %s" % (lines.split()[-1], rule or "clean"), out)


def listed():
    """The list of variables has what lines read."""
    with open(TMP + "/haproxy.cfg") as f:
        text = f.read()
    with open(TMP + "/kvroute.spoe") as f:
        spoe = f.read()
    line = "set-var proc.kvroute_vars str(server+alt+why)"
    header = ("    http-response set-header x-wait %[var(txn.kvroute.wait)]\n"
              "    default-server check")
    reads = swap("    default-server check", header)
    own = swap("option var-prefix kvroute", "option var-prefix own")
    wait = line.replace("why", "why+wait")
    for name, edit, edit_spoe, said in (
            ("a header", reads, None, r"x.cfg:\d+: \[fault .* \(wait\): write in .*/x.cfg, "
             r"line \d+: " + re.escape(wait) + "$"),
            ("a log line", swap(line, line.replace("+why", "")), None,
             r"\(why\): .*str\(server\+alt\+why\)$"),
            ("in the SPOE file", reads, swap("var(proc.kvroute_vars)", "str(server+alt+why)"),
             r"write in .*/x.spoe, line \d+: vars=str\(server\+alt\+why\+wait\)$"),
            ("another prefix", lambda t: reads(t).replace("txn.kvroute.", "txn.own."), own,
             r"\(wait\): "),
            ("another prefix is read", reads, own, None),
            ("it is listed", lambda t: swap(line, wait)(reads(t)), None, None),
            ("it is set", swap("    default-server check", "    http-response set-var("
                               "txn.kvroute.wait) int(1)\n    default-server check"), None, None),
            ("no list", lambda t: drop("set-var proc.kvroute_vars")(reads(t)), None, None),
            ("no argument", reads, swap("vars=var(proc.kvroute_vars) ", ""), None),
            ("known at run time only", lambda t: swap("str(server+alt+why)", "env(LIST)")(reads(t)),
             None, None),
            ("a longer name", swap("    default-server check", "    http-response set-header x "
                                   "%[var(txn.kvroute.waiting)]\n    default-server check"), None,
             None)):
        with open(TMP + "/x.cfg", "w") as to:
            to.write(edit(text).replace("/kvroute.spoe", "/x.spoe"))
        with open(TMP + "/x.spoe", "w") as to:
            to.write(edit_spoe(spoe) if edit_spoe else spoe)
        status, out = doctor(TMP + "/x.cfg")
        found = re.search("(?m)" + said, out) if said else "vars_left_out" not in out
        result(bool(found) and ("vars_left_out" in out) == bool(said), "list of variables: " + name,
               out)


def binary():
    """Version, features and variables from HAProxy's own binary."""
    def asked(cfg, *more):
        got = subprocess.run([os.path.join(TOP, "kvroutectl"), "doctor", "-c", cfg, *more],
                             capture_output=True, text=True, timeout=120)
        return got.returncode, got.stdout + got.stderr

    with open(TMP + "/haproxy.cfg") as f:
        text = f.read()
    with open(TMP + "/early.cfg", "w") as to:
        to.write(sub(r"(?m)^\.if version_atleast.*\n", ".if feature(OPENSSL)\n")(text))
    with open(TMP + "/branch.cfg", "w") as to:
        to.write(text.replace("    stats socket", '.if streq("${HAPROXY_BRANCH}",3.0)\n    '
                              "tune.bufsize 16384\n.endif\n    stats socket", 1))
    for version, cfg, rule in (("2.6", "early", "first_early"), ("3.0", "early", None),
                               ("3.0", "branch", "spoe_too_big"), ("3.2", "branch", None)):
        path = os.path.join(TOP, "build/haproxy", version, "haproxy")
        if not os.access(path, os.X_OK):
            print("skipped: HAProxy %s is not available, for its binary" % version)
            continue
        status, out = asked(TMP + "/%s.cfg" % cfg, "--haproxy", path)
        result(rule in out and status == 1 if rule else status == 0,
               "--haproxy %s: %s: %s" % (version, cfg, rule or "clean"), out)
    status, out = asked(TMP + "/haproxy.cfg", "--haproxy", "/bin/true")
    result(status == 2 and "no HAProxy" in out, "--haproxy: another program", out)
    status, out = asked(TMP + "/haproxy.cfg", "--haproxy", "")
    result(status == 0, "--haproxy: none", out)


def leads():
    """A frontend that leads elsewhere by a map is not judged; one that may lead anywhere is."""
    with open(TMP + "/haproxy.cfg") as f:
        text = f.read()
    with open(TMP + "/hosts.map", "w") as to:
        to.write("# host backend\na.example other\n\n b.example  other\n")
    for rule, found in (
            ("use_backend %%[req.hdr(host),map(%s/hosts.map)]" % TMP, False),
            ("use_backend %%[req.hdr(host),lower,map_dom(%s/hosts.map,pool)]" % TMP, True),
            ("use_backend %[str(other)]", False),
            ("use_backend %[str(pool)]", True),
            ("http-request set-var(txn.to) req.hdr(host),map(%s/hosts.map)\n    use_backend "
             "%%[var(txn.to)]" % TMP, False),
            ("http-request set-var(txn.to) req.hdr(x-to)\n    use_backend %[var(txn.to)]", True),
            ("use_backend %[req.hdr(x-to)]", True),
            ("use_backend %%[req.hdr(host),map(%s/absent.map)]" % TMP, True)):
        with open(TMP + "/leads.cfg", "w") as to:
            to.write(text.replace("\nfrontend llm", "\nfrontend second\n    bind :8081\n    %s\n\n"
                                  "backend other\n    server o 127.0.0.1:8009\n\nfrontend llm"
                                  % rule))
        status, out = doctor(TMP + "/leads.cfg")
        result(("uid_missing" in out) == found and status == found, "leads: " + rule, out)


def given():
    """With the agent's configuration its addresses, sizes and sources count."""
    with open(TMP + "/agent.yaml", "w") as f:
        f.write('spop: {listen: ["127.0.0.1:27400"], max_frame_size: 64 KiB}\n'
                'log_feed: {tcp: ["127.0.0.1:27401"]}\n')
    status, text = doctor(TMP + "/haproxy.cfg", "3.2", "-f", TMP + "/agent.yaml")
    for rule in ("agent_address", "feed_missing", "frame_size"):
        result(status == 1 and " %s]" % rule in text, "-f: " + rule, text)
    with open(TMP + "/agent.yaml", "w") as f:
        f.write('spop: {listen: ["127.0.0.1:9400"]}\n')
    with open(TMP + "/haproxy.cfg") as f, open(TMP + "/two.cfg", "w") as to:
        to.write(sub(r"( *server a)1 127.0.0.1:9400(.*)",
                     r"\g<1>1 127.0.0.1:9400\2\n\g<1>2 127.0.0.1:9410\2")(f.read()))
    status, text = doctor(TMP + "/two.cfg", "3.2", "-f", TMP + "/agent.yaml")
    result(status == 0, "-f: a second agent has another address", text)
    with open(TMP + "/haproxy.cfg") as f, open(TMP + "/names.cfg", "w") as to:
        to.write(sub(r"(\n *)(http-request wait-for-body)",
                     r"\1http-request set-var(txn.x) var(txn.kvroute.alt)\1\2")(f.read())
                 .replace(TMP + "/kvroute.spoe", TMP + "/names.spoe"))
    with open(TMP + "/kvroute.spoe") as f, open(TMP + "/names.spoe", "w") as to:
        to.write(sub(r"register-var-names .*", "register-var-names hit")(f.read()))
    status, text = doctor(TMP + "/names.cfg", "3.2")
    result("unregistered" not in text or "(alt)" not in text, "variables that a line names", text)
    with open(TMP + "/agent.yaml", "w") as f:
        f.write('pools: [{name: nobody}, {name: "*"}]\n')
    status, text = doctor(TMP + "/haproxy.cfg", "3.2", "-f", TMP + "/agent.yaml")
    result(status == 1 and " pool_unknown]" in text, "-f: pool_unknown", text)
    with open(TMP + "/agent.yaml", "w") as f:
        f.write('stats_feed: {sockets: ["unix@/run/haproxy/admin.sock"]}\n')
    with open(TMP + "/haproxy.cfg") as f, open(TMP + "/stats.cfg", "w") as to:
        to.write(drop(r"set-var-fmt\(txn.load\)")(f.read()))
    status, text = doctor(TMP + "/stats.cfg", "3.2", "-f", TMP + "/agent.yaml")
    result(status == 0, "-f: stats_feed needs no load", text)
    below = "unix@/var/lib/haproxy/run/kvroute/spop.sock"
    outside = "unix@/run/kvroute/spop.sock"
    for listen, good, told in ((below, 0, "no fault found"),
                               (outside, 1, "name %s in spop.listen" % below)):
        with open(TMP + "/agent.yaml", "w") as f:
            f.write('spop: {listen: ["%s"]}\n' % listen)
        with open(TMP + "/haproxy.cfg") as f, open(TMP + "/chroot.cfg", "w") as to:
            to.write(chroot("unix@/run/kvroute/spop.sock")(f.read()))
        status, text = doctor(TMP + "/chroot.cfg", "3.2", "-f", TMP + "/agent.yaml")
        result(status == good and told in text, "-f: chroot, the agent at " + listen, text)


def levels():
    """Whether rules silence the log of all requests: (of the frontend, of the pool, told)."""
    r, silent = "    http-%s set-log-level %s\n", "    http-request set-log-level silent\n"
    after, info = r % ("response", "info"), r % ("request", "info if { path_beg /v1 }")
    with open(TMP + "/haproxy.cfg") as f:
        text = f.read()
    for front, pool, told in (
            (silent, "", True), ("", silent, True), (info + silent, "", True),
            (r % ("response", "silent") + info, "", True), (silent + silent, "", True),
            (silent + info, "", False), (silent + after, "", False), (after + silent, "", False),
            (silent, info, False), (after, silent, False),
            ("    http-request allow if { path_beg /v1 }\n" + silent, "", False),
            (silent + "    http-request allow if { path_beg /v1 }\n", "", True),
            (r % ("request", "silent if { path /health }"), "", False)):
        with open(TMP + "/levels.cfg", "w") as f:
            f.write(re.sub(r"(?m)^    default_backend .*\n", lambda m: m.group(0) + front,
                           swap("backend pool\n", "backend pool\n" + pool)(text)))
        status, said = doctor(TMP + "/levels.cfg")
        result(status == told and ("fault feed_missing" in said) == told,
               "levels of the log: " + repr((front, pool)), said)


def paths_that_match():
    """Conditions that some request satisfies, in ways that the files of this tree do not use."""
    with open(TMP + "/haproxy.cfg") as f:
        text = f.read()
    line = "if METH_POST llm_api"
    for condition in ("if METH_POST { path -i /V1/chat/completions }", "if { path_sub chat }",
                      "if { path_beg /openai/ }", "if { path_dir v1 } METH_POST",
                      "if { path_reg ^/x } or { path_beg -i /V1 }", "unless { path /health }",
                      "if !{ path_beg /v1/files }", "if { path,lower -m beg /x }",
                      "if { path -m end completions :generateContent }", "if METH_POST"):
        name = os.path.join(TMP, "paths.cfg")
        with open(name, "w") as f:
            f.write(swap(line, condition)(text))
        status, said = doctor(name)
        result(status == 0 and "path_never" not in said, "matches: " + condition, said)


def main():
    word = sys.argv[2] if sys.argv[1:2] == ["-k"] else ""
    try:
        shutil.copytree(os.path.join(TOP, "haproxy-conf"), TMP, dirs_exist_ok=True)
        for name in glob.glob(TMP + "/**/*", recursive=True):
            if name.endswith((".cfg", ".spoe")):
                with open(name) as f:
                    text = f.read()
                with open(name, "w") as f:
                    f.write(text.replace("/etc/haproxy/kvroute", TMP))
        with open(TMP + "/empty.lst", "w") as f:
            f.write("# nothing\n\n")
        with open(TMP + "/wrong.map", "w") as f:
            f.write("/v1/chat pool\n/v1/ poool\n")
        if not word:
            shipped()
            paths_that_match()
            arguments()
            installed()
            across_files()
            given()
            bounded()
            variables()
            listed()
            large_buffers()
            leads()
            levels()
            binary()
            without_engine()
        broken(word)
    finally:
        shutil.rmtree(TMP)
    print("%d passed, %d failed" % (sum(results), len(results) - sum(results)))
    return 0 if all(results) else 1


sys.exit(main())
