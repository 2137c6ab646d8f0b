#!/usr/bin/env python3
"""Write split_newer.h: characters that came after Unicode 14, which PCRE2 10.42 (Debian 12) does not know.

    pip install tokenizers==0.22.2 unicodedata2==16.0.0
    python3 agent/tok/split_newer.py > agent/tok/split_newer.h

With Python 3.11, whose own unicodedata is of 14. Categories are from unicodedata2; scripts and what is not there
(Alphabetic, Lowercase, Uppercase) are what Oniguruma 6.9.10 in tokenizers answers for these characters."""
import unicodedata as old
import unicodedata2 as new

from tokenizers import Regex, pre_tokenizers

assert old.unidata_version == "14.0.0" and new.unidata_version == "16.0.0"

SCRIPTS = """Arabic Armenian Bengali Bopomofo Braille Cherokee Common Coptic Cyrillic Devanagari Ethiopic Georgian Greek Gujarati
Gurmukhi Han Hangul Hebrew Hiragana Inherited Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Oriya Sinhala Syriac Tamil
Telugu Thaana Thai Tibetan""".split()
CHANGED = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000 and old.category(chr(c)) != new.category(chr(c))]
TEXT = "".join(map(chr, CHANGED))


def having(prop):
    step = pre_tokenizers.Split(Regex(rf"\p{{{prop}}}"), "removed", invert=True)
    return {ord(x) for s, _ in step.pre_tokenize_str(TEXT) for x in s}


script = {}
for i, name in enumerate(SCRIPTS):
    for c in having(name):
        script[c] = name
alpha, lower, upper = (having(p) for p in ("Alphabetic", "Lowercase", "Uppercase"))

print("/* split_newer.h - written by split_newer.py: what Unicode 16 has and 14 has not. Not to be changed by hand. */")
print("/* clang-format off */\n")
print("static const char *const scripts[] = {")
print("".join(f"\t\"{s}\",\n" for s in SCRIPTS), end="")
print("};\n")
rows = []
for c in CHANGED:
    key = (new.category(chr(c)), script.get(c), c in alpha, c in lower, c in upper)
    if rows and rows[-1][1] == c - 1 and rows[-1][2] == key:
        rows[-1][1] = c
    else:
        rows.append([c, c, key])
print("/* first, last, category, script (-1: one that is not in the list), Alphabetic, Lowercase, Uppercase */")
print("static const struct newer { uint32_t first, last; char category[3]; int8_t script; bool alpha, lower, upper; } newer[] = {")
for a, b, (k, s, x, y, z) in rows:
    print(f"\t{{ 0x{a:x}, 0x{b:x}, \"{k}\", {SCRIPTS.index(s) if s else -1}, {x:d}, {y:d}, {z:d} }},")
print("};\n\n/* clang-format on */")
