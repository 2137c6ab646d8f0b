"""doctor_breaks.py - mistakes that operators make in an attached two-pools.cfg, and the rules that
must name them: edits of the configuration and of the SPOE file. doctor_attach.py runs them."""
import re

from fleet import edited


def swap(old, new):
    return lambda text: edited(text, old, new, 1)


def drop(pattern):
    """Without each line that has <pattern>."""
    def edit(text):
        got = re.sub(r"(?m)^.*%s.*\n" % pattern, "", text)
        if got == text:
            raise AssertionError("nothing to drop: " + pattern)
        return got
    return edit


def sub(old, new):
    def edit(text):
        got, n = re.subn(old, new, text)
        if n == 0:
            raise AssertionError("nothing to replace: " + old)
        return got
    return edit


def both(first, second):
    return lambda text: second(first(text))


def late_load(text):
    line = re.search(r"(?m)^.*set-var-fmt\(txn.load\).*\n", text).group(0)
    send = re.search(r"(?m)^.*http-request send-spoe-group.*\n", text).group(0)
    return text.replace(line, "", 1).replace(send, send + line, 1)


def filter_in_front(text):
    line = re.search(r"(?m)^.*filter spoe.*\n", text).group(0)
    return text.replace(line, "").replace("    acl is_code", line + "    acl is_code", 1)


AGENT, FEED = "a1 127.0.0.1:9400", "agent 127.0.0.1:9401"
# name: (rule, edit of the configuration, edit of the SPOE file)
BREAKS = {
    "wrong port of the agent": ("agent_address", swap(AGENT, "a1 127.0.0.1:9499"), None),
    "ports exchanged": ("spop_on_feed", both(swap(AGENT, "a1 127.0.0.1:9401"),
                                             swap(FEED, "agent 127.0.0.1:9400")), None),
    "feed to a wrong port": ("feed_missing", swap(FEED, "agent 127.0.0.1:9498"), None),
    "agent's line to the metrics": ("spop_on_http", swap(AGENT, "a1 127.0.0.1:9402"), None),
    "load asks for an unknown server": ("load_absent", swap("srv_is_up(s2)", "srv_is_up(s9)"),
                                        None),
    "labels of load differ": ("load_label", sub(r";(s\d)=", r";\1.x="), None),
    "a server is not in load": ("server_unnamed", sub(r";s2=[^;\"]*", ""), None),
    "no load": ("load_unset", drop(r"set-var-fmt\(txn.load\)"), None),
    "load after the message": ("load_late", late_load, None),
    "buffer of 16 KiB": ("spoe_too_big", drop("tune.bufsize"), None),
    "buffer above the agent's limit": ("frame_size", swap("bufsize 262144", "bufsize 2097152"),
                                       None),
    "no pool": ("pool_unset", drop(r"set-var\(txn.pool\)"), None),
    "another pool": ("pool_differs", swap("str(chat)", "str(caht)"), None),
    "variables not registered": ("unregistered", None, drop("register-var-names")),
    "the list lacks what is read": ("vars_left_out", swap("str(server+alt+why)", "str(server)"),
                                     None),
    "another engine": ("spoe_engine", None, swap("[kvroute]", "[kv-route]")),
    "the engine's line is missing": ("spoe_engine", None, drop(r"\[kvroute\]")),
    "filter in the frontend": ("filter_frontend", filter_in_front, None),
    "no wait for the body": ("body_early", drop("http-request wait-for-body"), None),
    "no JSON": ("feed_plain", drop("log-format-sd"), None),
    "no unique-id": ("uid_missing", drop("unique-id-format"), None),
    "no use-server": ("not_followed", drop("use-server"), None),
    "compression in defaults": ("compression", both(drop("filter compression"), swap(
        "    option forwardfor\n", "    option forwardfor\n    compression algo gzip\n")), None),
    "no check of the agent": ("agent_check", drop("option spop-check"), None),
    "a message without its group": ("spoe_agent", None, swap("groups route first",
                                                             "groups first")),
    "the agent's backend is gone": ("agent_backend", None, swap("use-backend spoe_agent",
                                                                "use-backend agents")),
}
