#!/usr/bin/env python3
"""Write the tables of characters, all of them:

    agent/tok/unicode/unicode_data_in.h     classes, normal forms and lower case, for tokenizers
    agent/tok/unicode/unicode_newer.h       what Unicode 16 has and PCRE2's 14 has not
    agent/jinja/unicode_table_in.h          str.isprintable(), lower(), upper(), title()

    pip install --no-deps tokenizers==0.22.2 unicodedata2==16.0.0
    python3 agent/tok/unicode/gen_unicode.py [DIRECTORY]

Run it with Python 3.11, whose own unicodedata is of Unicode 14, from the top of the tree. With
DIRECTORY the tables go there instead of into the tree.

Tokenizers: what counts is what the library in the engines does, and its parts are of several ages.
Each was asked about every code point (tokenizers 0.22.2): regular expressions (Oniguruma 6.9.10)
are of Unicode 16; lower case and numbers are Rust's, of 17; normal forms and accents are of 9;
punctuation of about 8. So all is from unicodedata2 16.0, and what each part lacks or has beyond
that is listed below as ranges; so are White_Space (PropList.txt) and Script=Han (Scripts.txt),
which unicodedata2 does not have.

Newer characters: categories are from unicodedata2; scripts, Alphabetic, Lowercase and Uppercase are
what Oniguruma in tokenizers answers for these characters.

Jinja: what this Python's str says."""
import os
import sys
import unicodedata as old
import unicodedata2 as U

from tokenizers import Regex, pre_tokenizers

assert (U.unidata_version, old.unidata_version) == ("16.0.0", "14.0.0")    # Python 3.11

WIDTH = 100

SPACE = [(0x09, 0x0d), (0x20, 0x20), (0x85, 0x85), (0xa0, 0xa0), (0x1680, 0x1680),
    (0x2000, 0x200a), (0x2028, 0x2029), (0x202f, 0x202f), (0x205f, 0x205f), (0x3000, 0x3000)]
HAN = [(0x2e80, 0x2e99), (0x2e9b, 0x2ef3), (0x2f00, 0x2fd5), (0x3005, 0x3005), (0x3007, 0x3007),
    (0x3021, 0x3029), (0x3038, 0x303b), (0x3400, 0x4dbf), (0x4e00, 0x9fff), (0xf900, 0xfa6d),
    (0xfa70, 0xfad9), (0x16fe2, 0x16fe3), (0x16ff0, 0x16ff1), (0x20000, 0x2a6df),
    (0x2a700, 0x2b739), (0x2b740, 0x2b81d), (0x2b820, 0x2cea1), (0x2ceb0, 0x2ebe0),
    (0x2ebf0, 0x2ee5d), (0x2f800, 0x2fa1d), (0x30000, 0x3134a), (0x31350, 0x323af)]
# not known to its parts, and what they have that is not in 16
NO_FORMS = [(0x32ff, 0x32ff), (0xa7f2, 0xa7f4), (0xab69, 0xab69), (0x105c9, 0x105c9),
    (0x105e4, 0x105e4), (0x10781, 0x10785), (0x10787, 0x107b0), (0x107b2, 0x107ba),
    (0x11383, 0x11383), (0x11385, 0x11385), (0x1138e, 0x1138e), (0x11391, 0x11391),
    (0x113c5, 0x113c5), (0x113c7, 0x113c8), (0x11938, 0x11938), (0x16121, 0x16128),
    (0x16d68, 0x16d6a), (0x1ccd6, 0x1ccf9), (0x1e030, 0x1e06d), (0x1f16c, 0x1f16c),
    (0x1fbf0, 0x1fbf9)]
NO_CCC = [(0x7fd, 0x7fd), (0x897, 0x89f), (0x8ca, 0x8d3), (0x9fe, 0x9fe), (0xc3c, 0xc3c),
    (0xd3b, 0xd3c), (0xeba, 0xeba), (0x1715, 0x1715), (0x1abf, 0x1ace), (0x1df6, 0x1dfa),
    (0xa82c, 0xa82c), (0x10d24, 0x10d27), (0x10d69, 0x10d6d), (0x10eab, 0x10eac),
    (0x10efd, 0x10eff), (0x10f46, 0x10f50), (0x10f82, 0x10f85), (0x11070, 0x11070),
    (0x1133b, 0x1133b), (0x113ce, 0x113d0), (0x1145e, 0x1145e), (0x11839, 0x1183a),
    (0x1193d, 0x1193e), (0x11943, 0x11943), (0x119e0, 0x119e0), (0x11a34, 0x11a34),
    (0x11a47, 0x11a47), (0x11a99, 0x11a99), (0x11d42, 0x11d42), (0x11d44, 0x11d45),
    (0x11d97, 0x11d97), (0x11f41, 0x11f42), (0x1612f, 0x1612f), (0x16ff0, 0x16ff1),
    (0x1e08f, 0x1e08f), (0x1e130, 0x1e136), (0x1e2ae, 0x1e2ae), (0x1e2ec, 0x1e2ef),
    (0x1e4ec, 0x1e4ef), (0x1e5ee, 0x1e5ef)]
NO_ACCENT = [(0x7fd, 0x7fd), (0x897, 0x89f), (0x8ca, 0x8d3), (0x9fe, 0x9fe), (0xafa, 0xaff),
    (0xb55, 0xb55), (0xc04, 0xc04), (0xc3c, 0xc3c), (0xcf3, 0xcf3), (0xd00, 0xd00), (0xd3b, 0xd3c),
    (0xd81, 0xd81), (0xeba, 0xeba), (0xece, 0xece), (0x1715, 0x1715), (0x180f, 0x180f),
    (0x1abf, 0x1ace), (0x1cf7, 0x1cf7), (0x1df6, 0x1dfa), (0xa82c, 0xa82c), (0xa8ff, 0xa8ff),
    (0x10d24, 0x10d27), (0x10d69, 0x10d6d), (0x10eab, 0x10eac), (0x10efc, 0x10eff),
    (0x10f46, 0x10f50), (0x10f82, 0x10f85), (0x11070, 0x11070), (0x11073, 0x11074),
    (0x110c2, 0x110c2), (0x11145, 0x11146), (0x111c9, 0x111c9), (0x111ce, 0x111cf),
    (0x11241, 0x11241), (0x1133b, 0x1133b), (0x113b8, 0x113c0), (0x113c2, 0x113c2),
    (0x113c5, 0x113c5), (0x113c7, 0x113ca), (0x113cc, 0x113d0), (0x113d2, 0x113d2),
    (0x113e1, 0x113e2), (0x1145e, 0x1145e), (0x1182c, 0x1183a), (0x11930, 0x11935),
    (0x11937, 0x11938), (0x1193b, 0x1193e), (0x11940, 0x11940), (0x11942, 0x11943),
    (0x119d1, 0x119d7), (0x119da, 0x119e0), (0x119e4, 0x119e4), (0x11a01, 0x11a0a),
    (0x11a33, 0x11a39), (0x11a3b, 0x11a3e), (0x11a47, 0x11a47), (0x11a51, 0x11a5b),
    (0x11a8a, 0x11a99), (0x11d31, 0x11d36), (0x11d3a, 0x11d3a), (0x11d3c, 0x11d3d),
    (0x11d3f, 0x11d45), (0x11d47, 0x11d47), (0x11d8a, 0x11d8e), (0x11d90, 0x11d91),
    (0x11d93, 0x11d97), (0x11ef3, 0x11ef6), (0x11f00, 0x11f01), (0x11f03, 0x11f03),
    (0x11f34, 0x11f3a), (0x11f3e, 0x11f42), (0x11f5a, 0x11f5a), (0x13440, 0x13440),
    (0x13447, 0x13455), (0x1611e, 0x1612f), (0x16f4f, 0x16f4f), (0x16f7f, 0x16f87),
    (0x16fe4, 0x16fe4), (0x16ff0, 0x16ff1), (0x1cf00, 0x1cf2d), (0x1cf30, 0x1cf46),
    (0x1e08f, 0x1e08f), (0x1e130, 0x1e136), (0x1e2ae, 0x1e2ae), (0x1e2ec, 0x1e2ef),
    (0x1e4ec, 0x1e4ef), (0x1e5ee, 0x1e5ef)]
NO_PUNCT = [(0x61d, 0x61d), (0x9fd, 0x9fd), (0xa76, 0xa76), (0xc77, 0xc77), (0xc84, 0xc84),
    (0x1b4e, 0x1b4f), (0x1b7d, 0x1b7f), (0x2e43, 0x2e4f), (0x2e52, 0x2e5d), (0x10d6e, 0x10d6e),
    (0x10ead, 0x10ead), (0x10f55, 0x10f59), (0x10f86, 0x10f89), (0x113d4, 0x113d5),
    (0x113d7, 0x113d8), (0x1144b, 0x1144f), (0x1145a, 0x1145b), (0x1145d, 0x1145d),
    (0x11660, 0x1166c), (0x116b9, 0x116b9), (0x1183b, 0x1183b), (0x11944, 0x11946),
    (0x119e2, 0x119e2), (0x11a3f, 0x11a46), (0x11a9a, 0x11a9c), (0x11a9e, 0x11aa2),
    (0x11b00, 0x11b09), (0x11be1, 0x11be1), (0x11c41, 0x11c45), (0x11c70, 0x11c71),
    (0x11ef7, 0x11ef8), (0x11f43, 0x11f4f), (0x11fff, 0x11fff), (0x12ff1, 0x12ff2),
    (0x16d6d, 0x16d6f), (0x16e97, 0x16e9a), (0x16fe2, 0x16fe2), (0x1e5ff, 0x1e5ff),
    (0x1e95e, 0x1e95f)]
# categories are those of Unicode 14, but \\s (U+180E), Alphabetic and Lowercase are not
NOT_AS_IN_14 = [(0x180e, 0x180e), (0x363, 0x36f), (0xc04, 0xc04), (0xf82, 0xf83), (0x1dd3, 0x1de6),
    (0x11080, 0x11081), (0x10fc, 0x10fc), (0xa7f2, 0xa7f4), (0xab69, 0xab69)]
ALSO_PUNCT = [(0x166d, 0x166d), (0x111c9, 0x111c9)]
ALSO_ACCENT = [(0x1cf2, 0x1cf3)]
ALSO_NUMBER = [(0x11de0, 0x11de9), (0x16ff4, 0x16ff6)]
ALSO_LOWER = [(0x1c89, 0x1c89, 1), (0xa7cb, 0xa7cb, -42343), (0xa7cc, 0xa7cc, 1),
    (0xa7ce, 0xa7ce, 1), (0xa7d2, 0xa7d2, 1), (0xa7d4, 0xa7d4, 1), (0xa7da, 0xa7da, 1),
    (0xa7dc, 0xa7dc, -42561), (0x10d50, 0x10d65, 32), (0x16ea0, 0x16eb8, 27)]

CLASS = {"Ll": 1, "Lu": 2, "Lt": 2, "Lm": 4, "Lo": 4, "Mn": 8, "Mc": 8, "Me": 8,
         "Nd": 16, "Nl": 16, "No": 16}
FORMS = ["NFC", "NFD", "NFKC", "NFKD"]
END = 0x110000
SURROGATES = range(0xd800, 0xe000)
HANGUL = range(0xac00, 0xd7a4)


def within(c, ranges):
    return any(a <= c <= b for a, b in ranges)


def class_of(c):
    k = U.category(chr(c))
    bits = CLASS.get(k, 32 if k[0] in "PS" else 0)
    return bits | (64 if within(c, SPACE) else 0) | (128 if within(c, HAN) else 0)


def chars():
    return (c for c in range(END) if c not in SURROGATES)


# ---- normal forms -------------------------------------------------------------------------------

# what a character is in the end, if that is another
full = {form: {} for form in ("NFD", "NFKD")}
pairs = {}                                          # (first, second) -> the one they make
for c in chars():
    s = chr(c)
    if c in HANGUL or within(c, NO_FORMS):          # Hangul by arithmetic: unicode.c
        continue
    for form in full:
        t = U.normalize(form, s)
        if t != s:
            full[form][c] = t
    d = U.decomposition(s)
    if d and d[0] != "<":
        d = [int(x, 16) for x in d.split()]
        if len(d) == 2 and U.normalize("NFC", s) == s:      # composition exclusions change
            pairs[tuple(d)] = c

seconds = {b for _, b in pairs} | set(range(0x1161, 0x1176)) | set(range(0x11a8, 0x11c3))


def kind_of(c):
    """The combining class and bits: a bit for each form in which the character may change, alone or
    after another; what StripAccents, Punctuation and Digits take it for; and whether PCRE2 with
    tables of Unicode 14 takes it for something else."""
    s = chr(c)
    bits = 0
    if not within(c, NO_FORMS):
        bits = sum(1 << i for i, form in enumerate(FORMS) if U.normalize(form, s) != s)
    if c in seconds:
        bits |= 1 | 4
    k = U.category(s)[0]
    if k == "M" and not within(c, NO_ACCENT) or within(c, ALSO_ACCENT):
        bits |= 16
    if c < 128 and k in "PS" or k == "P" and not within(c, NO_PUNCT) or within(c, ALSO_PUNCT):
        bits |= 32
    if k == "N" or within(c, ALSO_NUMBER):
        bits |= 64
    if U.category(s) != old.category(s) or within(c, NOT_AS_IN_14):
        bits |= 128
    return 0 if within(c, NO_CCC) else U.combining(s), bits


kinds = sorted({kind_of(c) for c in chars()})
kind_index = {k: i for i, k in enumerate(kinds)}
assert kinds[0] == (0, 0) and len(kinds) <= 256

lower = {c: chr(c).lower() for c in chars() if chr(c).lower() != chr(c)}
for a, b, d in ALSO_LOWER:
    lower.update({c: chr(c + d) for c in range(a, b + 1)})
assert [c for c, s in lower.items() if len(s) != 1] == [0x130]      # to i and U+0307: normal.c


# ---- writing ------------------------------------------------------------------------------------

lines = []


def put(text=""):
    lines.append(text)


def rows(words, sep=""):
    """Words in lines of at most WIDTH characters, each after a tab."""
    line = "\t"
    for word in words:
        if len(line) + len(sep) + len(word) > WIDTH:
            put(line)
            line = "\t"
        line += (sep if line != "\t" else "") + word
    put(line)


def save(path):
    if len(sys.argv) > 1:
        path = os.path.join(sys.argv[1], os.path.basename(path))
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    lines.clear()


def numbers(values):
    return [f"{v}," for v in values]


# ---- unicode_data_in.h --------------------------------------------------------------------------


def stages(name, of):
    blocks, first = {}, []
    for at in range(0, END, 128):
        block = tuple(of(c) if c not in SURROGATES else 0 for c in range(at, at + 128))
        first.append(blocks.setdefault(block, len(blocks)))
    assert len(blocks) <= 256
    put(f"const uint8_t {name}_block[] = {{")
    rows(numbers(first))
    put("};\n")
    put(f"const uint8_t {name}_leaf[][128] = {{")
    for block in blocks:
        put("{")
        rows(numbers(block))
        put("},")
    put("};\n")


def decompositions():
    """Sorted: character, place and number of its parts, whether only NFKD decomposes it."""
    text, known, out = [], {}, []
    for c in sorted(full["NFKD"]):
        for compat, form in enumerate(("NFD", "NFKD")):
            t = full[form].get(c)
            if t is None or (compat and t == full["NFD"].get(c)):
                continue
            if t not in known:
                known[t] = len(text)
                text += [ord(x) for x in t]
            assert len(t) < 32 and known[t] < 1 << 16
            out.append((c, known[t], len(t), compat))
    return out, text


def lower_runs():
    """Runs of (first, last, step, difference)."""
    out = []
    for c in sorted(lower):
        if c == 0x130:
            continue
        d = ord(lower[c]) - c
        if out and out[-1][3] == d and out[-1][1] == out[-1][0] and c - out[-1][1] <= 2:
            out[-1][1:3] = [c, c - out[-1][1]]
        elif out and out[-1][3] == d and c - out[-1][1] == out[-1][2]:
            out[-1][1] = c
        else:
            out.append([c, c, 1, d])
    return out


put("/* unicode_data_in.h - written by gen_unicode.py from Unicode 16: do not edit. */")
put("/* clang-format off */\n")
stages("uc_class", class_of)
stages("uc_kind", lambda c: kind_index[kind_of(c)])
put("static const struct { uint8_t ccc, bits; } kinds[] = {")
rows([f"{{{a},{b}}}," for a, b in kinds])
put("};\n")
deco, text = decompositions()
put("static const struct decomposition {")
put("\tuint32_t cp : 21, n : 5, compat : 1;")
put("\tuint16_t at;")
put("} decompositions[] = {")
rows([f"{{{c},{n},{k},{at}}}," for c, at, n, k in deco])
put("};\n")
put("static const uint32_t decomposed[] = {")
rows(numbers(text))
put("};\n")
put("static const struct { uint32_t first, second, both; } pairs[] = {")
rows([f"{{{a},{b},{c}}}," for (a, b), c in sorted(pairs.items())])
put("};\n")
put("static const struct {")
put("\tuint32_t first : 21, step : 2;")
put("\tuint32_t last;")
put("\tint32_t plus;")
put("} lowers[] = {")
rows([f"{{{a},{s},{b},{d}}}," for a, b, s, d in lower_runs()])
put("};\n\n/* clang-format on */")
save("agent/tok/unicode/unicode_data_in.h")


# ---- unicode_newer.h ----------------------------------------------------------------------------

SCRIPTS = """
Arabic Armenian Bengali Bopomofo Braille Cherokee Common Coptic Cyrillic Devanagari
Ethiopic Georgian Greek Gujarati Gurmukhi Han Hangul Hebrew Hiragana Inherited Kannada
Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Oriya Sinhala Syriac Tamil
Telugu Thaana Thai Tibetan""".split()
CHANGED = [c for c in chars() if old.category(chr(c)) != U.category(chr(c))]
TEXT = "".join(map(chr, CHANGED))


def having(prop):
    step = pre_tokenizers.Split(Regex(rf"\p{{{prop}}}"), "removed", invert=True)
    return {ord(x) for s, _ in step.pre_tokenize_str(TEXT) for x in s}


script = {c: name for name in SCRIPTS for c in having(name)}
alpha, small, capital = (having(p) for p in ("Alphabetic", "Lowercase", "Uppercase"))
put("/* unicode_newer.h - written by gen_unicode.py: what Unicode 16 has and 14 has not. */")
put("/* clang-format off */\n")
put("static const char *const scripts[] = {")
for name in SCRIPTS:
    put(f'\t"{name}",')
put("};\n")
runs = []
for c in CHANGED:
    key = (U.category(chr(c)), script.get(c), c in alpha, c in small, c in capital)
    if runs and runs[-1][1] == c - 1 and runs[-1][2] == key:
        runs[-1][1] = c
    else:
        runs.append([c, c, key])
put("static const struct newer {")
put("\tuint32_t first, last;")
put("\tchar category[3];")
put("\tint8_t script;\t\t\t/* in <scripts>; -1: one that is not listed */")
put("\tbool alpha, lower, upper;\t/* Alphabetic, Lowercase, Uppercase */")
put("} newer[] = {")
for a, b, (k, s, x, y, z) in runs:
    put(f'\t{{ 0x{a:x}, 0x{b:x}, "{k}", {SCRIPTS.index(s) if s else -1}, {x:d}, {y:d}, {z:d} }},')
put("};\n\n/* clang-format on */")
save("agent/tok/unicode/unicode_newer.h")


# ---- unicode_table_in.h -------------------------------------------------------------------------


def ranges(pred):
    out, start = [], None
    for c in range(END + 1):
        hit = c < END and c not in SURROGATES and pred(chr(c))
        if hit and start is None:
            start = c
        elif not hit and start is not None:
            out.append((start, c - 1))
            start = None
    return out


def case_runs(how):
    """Runs of characters whose mapping has one character and one distance, every one or every
    second."""
    one, many = {}, []
    for c in range(0x80, END):
        if c in SURROGATES:
            continue
        to = how(chr(c))
        if to == chr(c):
            continue
        if len(to) == 1:
            one[c] = ord(to) - c
        else:
            many.append((c, [ord(x) for x in to]))
    runs = []
    for c in sorted(one):
        if runs:
            first, last, step, d = runs[-1]
            if d == one[c] and (c - last == step or (first == last and c - last <= 2)):
                runs[-1] = (first, c, c - last, d)
                continue
        runs.append((c, c, 1, one[c]))
    return runs, many


def show(name, words, kind):
    put(f"static const {kind} {name}[] = {{")
    rows(words, " ")
    put("};\n")


put("/* unicode_table_in.h - written by gen_unicode.py from Unicode 14: do not edit. */")
put("#ifndef KVROUTE_JINJA_UNICODE_TABLE_IN_H")
put("#define KVROUTE_JINJA_UNICODE_TABLE_IN_H")
put("""
#include <stdint.h>

struct char_range {
	uint32_t first, last;
};

struct case_run {
	uint32_t first, last, step;
	int32_t distance;
};

struct case_many {
	uint32_t from, to[3];
};
""")
hidden = sorted(ranges(lambda s: not s.isprintable()) + [(0xd800, 0xdfff)])
show("not_printable", [f"{{ 0x{a:x}, 0x{b:x} }}," for a, b in hidden], "struct char_range")
cased = ranges(lambda s: (s + "a").title()[-1] == "a")
show("cased", [f"{{ 0x{a:x}, 0x{b:x} }}," for a, b in cased], "struct char_range")
for name, how in ("lower", str.lower), ("upper", str.upper), ("title", str.title):
    runs, many = case_runs(how)
    words = [f"{{ 0x{a:x}, 0x{b:x}, {s}, {d} }}," for a, b, s, d in runs]
    show("to_" + name, words, "struct case_run")
    words = ["{ 0x%x, { %s } }," % (c, ", ".join(f"0x{x:x}" for x in to)) for c, to in many]
    show("to_" + name + "_many", words, "struct case_many")
put("#endif")
save("agent/jinja/unicode_table_in.h")
