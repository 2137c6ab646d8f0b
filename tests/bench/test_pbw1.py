#!/usr/bin/env python3
"""test_pbw1.py - workload files: the output of the generator, rejected input of the reader, and
the sums of a hand-made file.

The encoder and decoder here are not those of the bench. Last line: N passed, N failed.
"""
import os
import struct
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(TOP, os.environ.get("B", "build/release"), "tests/bench")
GEN, INDEX = os.path.join(BENCH, "gen_index"), os.path.join(BENCH, "bench_index")


def encode(ops, page=4, n_ops=None, n_tokens=None, magic=b"PBW1"):
    """<ops>: (key, tokens) or (key, tokens, the count that is claimed)."""
    out = magic + struct.pack("<IQQ", page, len(ops) if n_ops is None else n_ops,
                              sum(len(op[1]) for op in ops) if n_tokens is None else n_tokens)
    for op in ops:
        out += struct.pack("<II", op[0], op[2] if len(op) > 2
                           else len(op[1])) + struct.pack("<%dI" % len(op[1]), *op[1])
    return out


def decode(data):
    page, n_ops, n_tokens = struct.unpack_from("<IQQ", data, 4)
    at, ops = 24, []
    for _ in range(n_ops):
        key, n = struct.unpack_from("<II", data, at)
        ops.append((key, struct.unpack_from("<%dI" % n, data, at + 8)))
        at += 8 + 4 * n
    assert data[:4] == b"PBW1" and at == len(data) and sum(len(t) for _, t in ops) == n_tokens
    return page, ops


def run(*args):
    return subprocess.run(args, capture_output=True, text=True, errors="replace", timeout=600)


class Files:
    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def put(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data)
        return self.path(name)

    def made(self, *args):
        r = run(GEN, args[0], self.path("made"), *args[1:])
        assert r.returncode == 0, r.stderr
        with open(self.path("made"), "rb") as f:
            return f.read()


def refused(path, words, *command):
    r = run(*(command or (GEN, "check", path)))
    lines = r.stderr.splitlines()
    assert r.returncode == 1, "%s: exit %d, %s" % (words, r.returncode, r.stdout + r.stderr)
    assert len(lines) == 1 and path in lines[0] and words in lines[0], lines


OPS = [(7, [1, 2, 3, 4, 5, 6, 7, 8, 9]), (8, [1, 2, 3, 4, 9, 9, 9, 9]), (9, []),
       (7, [1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1])]


def test_a_good_file_is_read(files):
    r = run(GEN, "check", files.put("good", encode(OPS)))
    assert r.returncode == 0 and "page 4, 4 operations, 29 tokens, longest 12" in r.stdout, r


def test_sums_made_by_hand(files):
    """Pages of 4: A B | A C | nothing | A B D, for servers 7 % 2, 8 % 2 and 7 % 2 again."""
    r = run(INDEX, "-c", files.put("good", encode(OPS)), "2")
    # matched: 0, then A, then none, then A B; owned: A B D by one, A C by the other
    for words in ("matched_tokens=12 ", "owned_tokens=20 ", "model_owned_tokens=20 ",
                  "unique_pages=4 ", "exact=yes"):
        assert r.returncode == 0 and words in r.stdout, (words, r)


def test_another_magic(files):
    refused(files.put("bad", encode(OPS, magic=b"PBW2")), "does not begin with PBW1")


def test_cut_off_at_every_byte(files):
    whole = encode(OPS)
    for n in range(len(whole)):
        refused(files.put("cut", whole[:n]), "shorter than the head" if n < 24 else "the head says")


def test_bytes_behind_the_end(files):
    for more in (b"x", b"xxxx", b"\0" * 8):
        refused(files.put("long", encode(OPS) + more), "bytes behind the last" if more == b"x"
                else "the head says")


def test_a_page_that_cannot_be(files):
    for page in (0, 4097, 0xffffffff):
        refused(files.put("page", encode(OPS, page=page)), "a page of %d tokens" % page)


def test_counts_that_lie(files):
    for n in (0, 3, 5, 1 << 32, 1 << 61, (1 << 64) - 1):
        refused(files.put("ops", encode(OPS, n_ops=n)),
                "the head says %d" % n if n > 5 else "the head says 29 tokens")
    for n in (0, 28, 30, 1 << 62, (1 << 64) - 1):
        refused(files.put("tokens", encode(OPS, n_tokens=n)), "the head says %d tokens" % n)
    for n in (10, 1 << 30, 0xffffffff):
        refused(files.put("n", encode([(1, [1] * 9, n)])),
                "operation 1 says %d tokens, the file has 9" % n)
    # one operation takes the head of the next for tokens: the sum is right, the chain is not
    refused(files.put("n", encode([(1, [1] * 9, 11), (1, [77] * 9)])),
            "operation 2 says 77 tokens, the file has 7")
    refused(files.put("n", encode([(1, [1] * 9, 20), (1, [77] * 9)])),
            "ends before operation 2 of 2")
    refused(files.put("n", encode([(1, [1] * 9, 8)])), "bytes behind the last operation")
    refused(files.put("n",
                      encode([(1, [], 0), (1, [3, 3], 2), (1, [1] * 9, 9)], n_ops=2, n_tokens=13)),
            "44 bytes behind")


def test_what_is_no_file(files):
    refused(files.path("none"), "cannot be opened")
    refused(files.folder, "no workload file")


def test_the_bench_refuses_as_well(files):
    for nothing in ([], [(1, [1, 2, 3]), (2, [])]):
        path = files.put("nothing", encode(nothing))
        refused(path, "no prompt has a whole page of 4 tokens", INDEX, path, "64")
    bad = files.put("bad", encode(OPS, n_ops=5))
    refused(bad, "the head says", INDEX, bad, "64")
    for servers in ("0", "1025", "x"):
        r = run(INDEX, files.put("good", encode(OPS)), servers)
        assert r.returncode == 2 and "1 to 1024 servers" in r.stderr, r


def test_the_generator_repeats_itself(files):
    a, b = files.made("syntest"), files.made("syntest")
    assert a == b
    page, ops = decode(a)
    assert page == 16 and len(ops) == 240
    # turns grow: all prompts but the first of a session begin with an earlier one's last whole page
    known, grown = set(), 0
    for _, t in ops:
        whole = len(t) // 16 * 16
        grown += any(t[:n] in known for n in range(144, whole, 16))
        known.add(t[:whole])
    assert grown == 180, grown


def test_the_generated_file_is_exact(files):
    files.made("syntest")
    for servers in ("1", "7", "1024"):
        r = run(INDEX, "-c", files.path("made"), servers)
        assert r.returncode == 0 and "exact=yes" in r.stdout, r


def test_a_trace(files):
    lines = ['{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 5]}',
             '{"timestamp": 1, "input_length": 9999, "output_length": 5, "hash_ids": [0, 5, 9000]}']
    trace = files.put("trace", "\n".join(lines).encode())
    _, ops = decode(files.made("moon", trace))
    assert [len(t) for _, t in ops] == [700, 1536]
    assert ops[1][1][:700] == ops[0][1] and ops[1][1][512:1024] != ops[1][1][1024:]
    for bad in ("{}", lines[0].replace("5]", "x]"), lines[0].replace("0, 5", ""),
                lines[0].replace("5]}", "5"),
                lines[0].replace("5]", "99999999999]")):
        trace = files.put("trace", (lines[0] + "\n" + bad + "\n").encode())
        r = run(GEN, "moon", files.path("out"), trace)
        assert r.returncode == 1 and "line 2 cannot be read" in r.stderr, (bad, r)
        assert not os.path.exists(files.path("out")) and not os.path.exists(files.path("out.part"))


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, test in list(globals().items()):
            if not name.startswith("test_"):
                continue
            try:
                test(Files(folder))
                passed += 1
            except Exception as e:  # an assertion, or the unexpected
                print("%s: %s: %s" % (name, type(e).__name__, e))
                failed += 1
    print("%d passed, %d failed" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
