"""sim_rules.py - the rules that kvroutectl sim knows, for the benches that run them."""
import os
import re
import subprocess

REFERENCES = ("roundrobin", "leastconn", "oracle", "oracle_ext10")


def rules(ctl, without=()):
    """RULES; else those that <ctl> knows, but no references and none of <without>. It lists them
    when asked for another."""
    if os.environ.get("RULES"):
        return os.environ["RULES"].split()
    said = subprocess.run([ctl, "sim", "--workload", "chat", "--preset", "?"],
                          stderr=subprocess.PIPE, text=True).stderr
    names = re.search(r"there are ([a-z0-9_ ]+)", said).group(1).split()
    return [name for name in names if name not in REFERENCES + tuple(without)]
