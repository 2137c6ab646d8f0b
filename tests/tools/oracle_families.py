"""oracle_families.py - files of families that PyPI has no small example of, made here: a table of
replacements (precompiled_charsmap) and models of SentencePiece. oracle.py uses it."""
import json
import os
import struct

# ---- precompiled_charsmap

# "o" is shorter than the two after it, which tokenizers therefore never takes, SentencePiece does
RULES = {"\ufb01": "fi", "\u2122": "TM", "\u3000": " ", "\t": " ", "\n": " ", "\r\n": " ",
         "e\u0301": "\u00e9", "o": "0", "o\u0301": "\u00f3", "on": "ON", "\u200b": "",
         "\uff21": "a", "\u0928\u093c": "\u0929", "\u0600a": "x", "\u00a9\u200d": "c",
         "\U0001f600": ":-)", "\uac00": "\u1100\u1161", "\x01": "", "\u212b": "\u00c5",
         "  ": " ", "\u2581": " "}


def nodes_of(keys):
    """Return the trie as {prefix: bytes that follow it}."""
    out = {b"": set()}
    for k in keys:
        for i, b in enumerate(k):
            out.setdefault(k[:i], set()).add(b)
            out.setdefault(k[:i + 1], set())
    return out


def charsmap(rules=None):
    """Return the bytes of a table: Darts-clone's units, then the replacements."""
    rules = {k.encode(): v.encode() for k, v in (rules or RULES).items()}
    nodes, base, used = nodes_of(rules), {}, {0}
    for prefix in sorted(nodes, key=len):
        places = nodes[prefix] | {0}
        base[prefix] = next(b for b in range(1, 1 << 16)
                            if b not in base.values() and not any((b ^ c) in used for c in places))
        used |= {base[prefix] ^ c for c in places}
    n = (max(used) | 255) + 1
    unit, blob = [1 << 31] * n, b""
    unit[0] = base[b""] << 10
    for prefix, follow in nodes.items():
        for c in follow:
            at, child = base[prefix] ^ c, prefix + bytes([c])
            unit[at] = (at ^ base[child]) << 10 | (child in rules) << 8 | c
    for k, v in sorted(rules.items()):
        unit[base[k]] = 1 << 31 | len(blob)
        blob += v + b"\0"
    return struct.pack("<I", 4 * n) + struct.pack(f"<{n}I", *unit) + blob


# ---- models of SentencePiece

NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6


def varint(v):
    out = b""
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def number(field, v):
    return varint(field << 3) + varint(v)


def chunk(field, b):
    return varint(field << 3 | 2) + varint(len(b)) + b


def model(pieces, table=b"", one_space=True, prefix=True, kind=2, fallback=True, marks=True):
    """Return a model of kind BPE (2) or Unigram (1); <pieces>: (text, score, type)."""
    out = b"".join(chunk(1, chunk(1, t.encode()) + varint(2 << 3 | 5) + struct.pack("<f", s)
                         + number(3, k)) for t, s, k in pieces)
    out += chunk(2, number(3, kind) + number(35, fallback))
    return out + chunk(3, chunk(1, b"made") + (chunk(2, table) if table else b"")
                       + number(3, prefix) + number(4, one_space) + number(5, marks))


def fields(b):
    """Yield number and value of the fields of a message."""
    at = 0

    def take():
        nonlocal at
        v = shift = 0
        while True:
            at += 1
            v |= (b[at - 1] & 127) << shift
            if b[at - 1] < 128:
                return v
            shift += 7
    while at < len(b):
        key = take()
        if key & 7 == 0:
            yield key >> 3, take()
            continue
        n = take() if key & 7 == 2 else 4
        at += n
        yield key >> 3, b[at - n:at]


def special_pieces(path):
    """Return up to 60 pieces of the user and some control pieces of a model."""
    out = {USER: [], CONTROL: []}
    for field, value in fields(open(path, "rb").read()):
        piece = dict(fields(value)) if field == 1 else {}
        if piece.get(3) in out:
            out[piece[3]].append(piece[1].decode())
    return out[USER][:40] + out[USER][40:][-20:] + out[CONTROL][:6]


def pieces_of(path, user=()):
    """Make pieces of tests/data/tok/fallback.tokenizer.json. Some have equal scores."""
    d = json.load(open(path, encoding="utf-8"))["model"]
    made = {a + b: i for i, (a, b) in enumerate(m.split(" ") for m in d["merges"])}
    out = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    out += [(u, 0.0, USER) for u in user]
    out += [(f"<0x{b:02X}>", 0.0, BYTE) for b in range(256)]
    ranked = sorted(d["vocab"], key=lambda t: made.get(t, len(made)))
    out += [(t, -float(made.get(t, 9999) // 3), NORMAL) for t in ranked
            if t not in {p for p, _, _ in out}]
    spaces = ["\u2581" * n for n in (2, 3, 4, 8)]
    return out + [(s, -1e9, NORMAL) for s in spaces if s not in d["vocab"]]


class Sentencepiece:
    def __init__(self, path):
        import sentencepiece
        self.p = sentencepiece.SentencePieceProcessor(model_file=path)
        self.contents = ["<s>", "</s>", "<unk>", "<0x41>", "\u2581", "   ", "\t\t", "<user>",
                         *special_pieces(path)]

    def ids(self, text, special):
        bos = [self.p.bos_id()] if special and self.p.bos_id() >= 0 else []
        return bos + self.p.encode(text)

    def encode(self, text):
        self.p.encode(text)


MODELS = ["small", "users", "unigram", "bytes", "lattice", "kept", "spaces"]
USER_PIECES = ["<user>", "<user>x", "\t\t", "\u2581\u2581\u2581\u2581\u2581", "\t"]
# begins of one another, overlaps, spaces, what RULES replaces, U+2581, more than PrefixMatcher sees
KEPT_PIECES = ["<user>", "<user>x", "<us", "er>x", "a b", "b c", "\ufb01", "\ufb01ne", "e\u0301",
               "on", "\u2581\u2581", "\u2581the", "the router", "\r\n", "\u212b", "\u65e5\u672c",
               "\u672c\u8a9e", ".", "\u00a9"]
SPACE_PIECES = [" ", "  ", "a b", " b c ", "\u2581", "the router ", "o"]
LONG_PIECES = ["z" * n for n in range(1, 71)]


def unigram_pieces(path, fallback):
    """Make pieces of tests/data/tok/unigram.tokenizer.json."""
    kinds = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL}
    vocab = json.load(open(path, encoding="utf-8"))["model"]["vocab"]
    made = [(t, s, BYTE if t.startswith("<0x") else kinds.get(t, NORMAL)) for t, s in vocab]
    return [p for p in made if fallback or p[2] != BYTE]


def with_users(pieces, users):
    out = [p for p in pieces if p[0] not in users]
    return out[:3] + [(u, 0.0, USER) for u in users] + out[3:]


def write_models(to):
    """Write small.model, with a table, users.model, with pieces of the user, unigram.model, with
    a table, bytes.model, with pieces for bytes; and lattice.model (Unigram), kept.model (BPE), with
    both pieces of the user and a table, spaces.model, without marks."""
    fallback = os.path.join(to, "fallback.tokenizer.json")
    words = os.path.join(to, "unigram.tokenizer.json")
    with open(os.path.join(to, "unigram.model"), "wb") as f:
        f.write(model(unigram_pieces(words, False), charsmap(), kind=1, fallback=False))
    with open(os.path.join(to, "bytes.model"), "wb") as f:
        f.write(model(unigram_pieces(words, True), one_space=False, kind=1))
    with open(os.path.join(to, "small.model"), "wb") as f:
        f.write(model(pieces_of(fallback), charsmap()))
    with open(os.path.join(to, "lattice.model"), "wb") as f:
        f.write(model(with_users(unigram_pieces(words, False)[:300], KEPT_PIECES), charsmap(),
                      kind=1, fallback=False))
    with open(os.path.join(to, "kept.model"), "wb") as f:
        f.write(model(with_users(pieces_of(fallback), KEPT_PIECES + LONG_PIECES), charsmap()))
    with open(os.path.join(to, "spaces.model"), "wb") as f:
        f.write(model(with_users(unigram_pieces(words, False)[:100], SPACE_PIECES), charsmap(),
                      one_space=False, kind=1, fallback=False, marks=False))
    with open(os.path.join(to, "users.model"), "wb") as f:
        f.write(model(pieces_of(fallback, USER_PIECES), one_space=False))
