#!/usr/bin/env python3
"""tokenizer_peers.py - text to ids beside the tokenizers that are installed, one after the other.

    TOKENIZER=tokenizer.json[.gz] [TEXTS="english=FILE code=FILE"] [ROUNDS=5] tokenizer_peers.py

Prints a line for each tokenizer and text, and one for each text with the rates of all:

    bench tokenizers text=english peer=gigatoken version=.. bytes=.. tokens=.. same=yes cold_mb_s=..
                     warm_mb_s=.. rounds=..

Cold: the first text of a new tokenizer; warm: the same text again. Each is the median of all rounds
(at least five) in CPU time: of the process, which may have threads, and of one thread for ours.
<same>: the same ids as ours, by their hash. Ours is bench_bpe (make bench-prompt), which explains
its own lines; its cold run here has a new cache, as a peer's (new_mb_s). "reused" in the last lines
is ours with an empty cache whose memory was used, as in service. Peers are Python packages:
gigatoken, kitoken, tokenizers and tiktoken (only with the patterns of tokenizers whose split this
program knows). A package that is not installed is skipped by name. To install them: "python3 -m
venv V && V/bin/pip install gigatoken kitoken tokenizers tiktoken"; then PYTHON=V/bin/python.

Texts of 400 KB, if TEXTS names none: Python's manual of its language (pydoc_data) and its standard
library, and translations into Chinese, which are skipped if they are not installed.
"""
import gettext
import glob
import gzip
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(os.environ.get("B", os.path.join(TOP, "build/release")),
                     "tests/bench/bench_bpe")
ROUNDS = max(5, int(os.environ.get("ROUNDS", "5")))
BYTES = 400000


def standard_texts():
    """{name: text} of what this machine has."""
    topics = importlib.import_module("pydoc_data.topics").topics
    library = sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py")))
    chinese = []
    for path in sorted(glob.glob("/usr/share/locale/zh_CN/LC_MESSAGES/*.mo")):
        try:
            with open(path, "rb") as f:
                chinese += [s for s in gettext.GNUTranslations(f)._catalog.values()
                            if isinstance(s, str)]
        except (OSError, UnicodeError, ValueError):
            pass
    texts = {"english": "\n".join(topics.values()),
             "code": "\n".join(open(p, encoding="utf-8").read() for p in library),
             "chinese": "\n".join(chinese)}
    return {name: cut(text) for name, text in texts.items() if len(text) > 10000}


def cut(text):
    return text.encode()[:BYTES].decode(errors="ignore")


def named_texts(names):
    return {n: open(p, encoding="utf-8").read()
            for n, p in (pair.split("=", 1) for pair in names.split())}


# Each returns a function that makes a new encoder: text -> ids.

def gigatoken(path):
    module = importlib.import_module("gigatoken")

    def new():
        t = module.Tokenizer(path)
        return t.encode
    return new


def kitoken(path):
    module = importlib.import_module("kitoken")

    def new():
        t = module.Kitoken.from_tokenizers_file(path)
        return t.encode
    return new


def tokenizers(path):
    module = importlib.import_module("tokenizers")

    def new():
        t = module.Tokenizer.from_file(path)
        return lambda text: t.encode(text, add_special_tokens=False).ids
    return new


def letters():
    """The characters that stand for bytes in byte-level vocabularies, and these bytes."""
    shown = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    hidden = [b for b in range(256) if b not in shown]
    return {**{chr(b): b for b in shown}, **{chr(256 + i): b for i, b in enumerate(hidden)}}


def tiktoken(path):
    module = importlib.import_module("tiktoken")
    with open(path, encoding="utf-8") as f:
        spec = json.load(f)
    steps = spec["pre_tokenizer"].get("pretokenizers", [spec["pre_tokenizer"]])
    pattern = next(s["pattern"]["Regex"] for s in steps if s["type"] == "Split")
    of = letters()
    ranks = {bytes(of[c] for c in token): n for token, n in spec["model"]["vocab"].items()
             if all(c in of for c in token)}

    def new():
        t = module.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        return t.encode_ordinary
    return new


def hash_of(ids):
    """FNV-1a of 64 bits, an id a step, as bench_bpe.c has it."""
    h = 0xcbf29ce484222325
    for i in ids:
        h = (h ^ int(i)) * 0x100000001b3 % 2**64
    return "%016x" % h


def measure(new, text):
    """(ids, seconds cold, seconds warm): medians."""
    cold, warm, ids = [], [], []
    for _ in range(ROUNDS):
        encode = new()
        for times in (cold, warm, warm):
            began = time.process_time()
            ids = encode(text)
            times.append(time.process_time() - began)
    return ids, statistics.median(cold), statistics.median(warm)


def ours(path, texts):
    """{text: {name: (hash of ids, cold MB/s, warm MB/s)}}; its lines are printed as they come."""
    got = {}
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, text in texts.items():
            files.append("%s=%s/%s" % (name, folder, name))
            with open("%s/%s" % (folder, name), "w", encoding="utf-8") as f:
                f.write(text)
        out = subprocess.run([BENCH, path] + files, stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    for line in out.splitlines():
        print(line, flush=True)
        row = dict(pair.split("=", 1) for pair in line.split()[2:] if "=" in pair)
        if "text" in row:
            warm = float(row["warm_median_mb_s"])
            got[row["text"]] = {
                "kvroute": (row["ids"], float(row["new_mb_s"]), warm),
                "reused": (row["ids"], float(row["cold_median_mb_s"]), warm)}
    return got


def unpacked(path, folder):
    if not path.endswith(".gz"):
        return path
    plain = os.path.join(folder, "tokenizer.json")
    with gzip.open(path, "rb") as f, open(plain, "wb") as g:
        g.write(f.read())
    return plain


def compare(path, texts):
    rates = ours(path, texts)
    for peer in (gigatoken, kitoken, tokenizers, tiktoken):
        name = peer.__name__
        try:
            new = peer(path)
            version = importlib.import_module("importlib.metadata").version(name)
        except Exception as e:		# whatever a package that does not fit raises
            print("skipped: %s: %s: %s" % (name, type(e).__name__, e), flush=True)
            continue
        for text_name, text in texts.items():
            ids, cold, warm = measure(new, text)
            found = hash_of(ids)
            mb = len(text.encode()) / 1e6
            rates[text_name][name] = (found, mb / cold, mb / warm)
            print("bench tokenizers text=%s peer=%s version=%s bytes=%d tokens=%d same=%s "
                  "cold_mb_s=%.1f warm_mb_s=%.1f rounds=%d"
                  % (text_name, name, version, len(text.encode()), len(ids),
                     "yes" if found == rates[text_name]["kvroute"][0] else "no", mb / cold,
                     mb / warm, ROUNDS), flush=True)
    for name, row in rates.items():
        print("bench tokenizers_all text=%s %s" % (name, " ".join(
            "%s=%.1f/%.1f" % (peer, cold, warm) for peer, (_, cold, warm) in row.items())))


def main():
    python, path = os.environ.get("PYTHON"), os.environ.get("TOKENIZER")
    if python and os.path.realpath(sys.prefix) != os.path.realpath(
            os.path.dirname(os.path.dirname(os.path.abspath(python)))):
        os.execv(python, [python] + sys.argv)
    if not path or not os.access(path, os.R_OK):
        print("skipped: TOKENIZER names no tokenizer.json that can be read")
        return
    texts = named_texts(os.environ["TEXTS"]) if os.environ.get("TEXTS") else standard_texts()
    with tempfile.TemporaryDirectory() as folder:
        compare(unpacked(path, folder), texts)


if __name__ == "__main__":
    sys.exit(main())
