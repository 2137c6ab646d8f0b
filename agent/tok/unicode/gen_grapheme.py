#!/usr/bin/env python3
"""Write agent/tok/unicode/grapheme_in.h: what characters are to grapheme clusters (UAX #29).

    cargo fetch        (in a crate that depends on unicode-segmentation =1.12.0)
    python3 agent/tok/unicode/gen_grapheme.py .../unicode-segmentation-1.12.0/src/tables.rs

The properties of Unicode 16, read from the crate that is in tokenizers 0.22.2. Hangul syllables are
left out: grapheme.c computes them."""
import re
import sys

sys.dont_write_bytecode = True
from ranges import save, table  # noqa: E402

KINDS = {"GC_Control": "CONTROL", "GC_CR": "CR", "GC_LF": "LF", "GC_Extend": "EXTEND",
         "GC_Extended_Pictographic": "PICTURE", "GC_InCB_Consonant": "CONSONANT", "GC_L": "L",
         "GC_V": "V", "GC_T": "T", "GC_Prepend": "PREPEND", "GC_Regional_Indicator": "REGION",
         "GC_SpacingMark": "SPACING", "GC_ZWJ": "ZWJ"}
CHAR = r"'\\u\{([0-9a-fA-F]+)\}'"


def source(text, name, more):
    """Yield the ranges of one table of the crate."""
    body = text[text.index(f"const {name}:"):]
    body = body[body.index("&[", body.index("=")):body.index("];")]
    for m in re.finditer(rf"\(\s*{CHAR},\s*{CHAR}{more}\s*\)", body):
        yield int(m[1], 16), int(m[2], 16), m[3] if more else None


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    kind = {}
    for a, b, k in source(text, "grapheme_cat_table", r",\s*(\w+)"):
        if k not in ("GC_LV", "GC_LVT"):
            kind.update((c, KINDS[k]) for c in range(a, b + 1))
    linkers = re.search(r"fn is_incb_linker.*?\}\n", text, re.S)[0]
    linkers = [int(m, 16) for m in re.findall(CHAR, linkers)]
    assert linkers
    for a, b, _ in source(text, "InCB_Extend_table", ""):
        for c in range(a, b + 1):
            assert kind[c] in ("EXTEND", "ZWJ"), hex(c)
            kind[c] = "JOINS" if kind[c] == "EXTEND" else "ZWJ"
    for c in linkers:
        assert kind[c] == "EXTEND", hex(c)
        kind[c] = "LINKER"
    save("grapheme_in.h",
         "/* grapheme_in.h - written by gen_grapheme.py: kinds of characters in grapheme "
         "clusters, of\n * Unicode 16. */\n"
         "#ifndef KVROUTE_TOK_UNICODE_GRAPHEME_IN_H\n"
         "#define KVROUTE_TOK_UNICODE_GRAPHEME_IN_H\n\n"
         "#include \"agent/tok/unicode/ranges.h\"\n\n"
         + table("kinds", {c: "GC_" + k for c, k in kind.items()}) + "\n#endif\n")


if __name__ == "__main__":
    main()
