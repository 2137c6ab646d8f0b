#!/usr/bin/env python3
"""zsh_complete.py FOLDER KVROUTECTL - complete kvroutectl in a real zsh on a terminal, with the
function in FOLDER: all verbs after the first word, and for each verb the options that the bash
completion has. Prints what is missing; exits with 1 if something is."""
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

SECONDS = 60


class Zsh:
    def __init__(self, folder):
        self.home = tempfile.TemporaryDirectory(prefix="kvroute-zsh-")
        pid, self.fd = pty.fork()
        if pid == 0:
            os.environ.update(HOME=self.home.name, ZDOTDIR=self.home.name, TERM="dumb", LC_ALL="C",
                              COLUMNS="180", LINES="200")
            os.execvp("zsh", ["zsh", "-f", "-i"])
        self.type("unsetopt zle_bracketed_paste prompt_cr; stty rows 200 columns 180; PS1='> '\n")
        self.type("fpath=(%s $fpath); autoload -Uz compinit; compinit -u -D\n" % folder)
        self.type("LISTMAX=1000; setopt auto_list no_list_ambiguous no_beep\n")
        self.n = 0
        self.until_mark()

    def type(self, text):
        os.write(self.fd, text.encode())

    def until_mark(self):
        """What was printed until zsh has taken all that was typed."""
        self.n += 1
        self.type("print mark-$((1000 + %d))\n" % self.n)
        out, end = b"", time.time() + SECONDS
        while b"mark-%d" % (1000 + self.n) not in out:
            if time.time() > end:
                raise SystemExit("no answer of zsh: %r" % out[-500:])
            if select.select([self.fd], [], [], 1)[0]:
                out += os.read(self.fd, 65536)
        return out.decode(errors="replace")

    def complete(self, line, words):
        """What zsh lists for <line>; again and slower if one of <words> lacks, because zsh lists
        nothing while more is typed. ^U leaves the line empty again."""
        shown, pause = "", 0
        while pause < 10 and not all(has(shown, w) for w in words):
            for key in (line + "\t", "\t", "\x15"):
                self.type(key)
                time.sleep(pause)
            shown += self.until_mark()
            pause = 2 * pause or 0.1
        return shown


def has(shown, word):
    return re.search(r"(?<![\w-])%s(?![\w-])" % word, shown)


def main(folder, ctl):
    zsh, bad = Zsh(folder), []
    text = subprocess.run([ctl, "-h"], capture_output=True, text=True, check=True).stdout
    verbs = re.findall(r"(?m)^  ([a-z-]+) +[^ ]", text)
    shown = zsh.complete("kvroutectl ", [v + " +--" for v in verbs])
    bad += ["verb " + v for v in verbs if not has(shown, v + " +--")]
    with open(os.path.join(folder, "_kvroutectl")) as f:
        parts = dict(re.findall(r"(?ms)^([a-z-]+)\)\n  options=\((.*?)\n  \) ;;", f.read()))
    n = 0
    for v in verbs:
        options = re.findall(r"'\*(-[\w-]+)", parts.get(v, ""))
        shown = zsh.complete("kvroutectl %s -" % v, options)
        for option in options:
            n += 1
            # one option alone is written into the line
            if not has(shown, option):
                bad.append("option %s of %s" % (option, v))
    print("%d verbs, %d options%s" % (len(verbs), n, "; missing: " + ", ".join(bad) if bad else ""))
    return 1 if bad or n < len(verbs) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
