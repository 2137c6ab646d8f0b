#!/usr/bin/env python3
"""Print agent/jinja/unicode_table.h from the Python that runs this: what str.isprintable(),
lower(), upper() and title() say."""
import sys
import unicodedata


def ranges(pred):
    out, start = [], None
    for c in range(0x110000 + 1):
        hit = c < 0x110000 and not 0xD800 <= c < 0xE000 and pred(chr(c))
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
    for c in range(0x80, 0x110000):
        if 0xD800 <= c < 0xE000:
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


def show(name, rows, kind, per_line):
    print(f"static const {kind} {name}[] = {{")
    for i in range(0, len(rows), per_line):
        print("\t" + " ".join(rows[i:i + per_line]))
    print("};\n")


print(f"""/* unicode_table.h - printed by tests/tools/gen_jinja_unicode.py; Unicode {unicodedata.unidata_version}. Do not edit. */
#ifndef KVROUTE_JINJA_UNICODE_TABLE_H
#define KVROUTE_JINJA_UNICODE_TABLE_H

#include <stdint.h>

struct char_range {{
	uint32_t first, last;
}};

struct case_run {{
	uint32_t first, last, step;
	int32_t distance;
}};

struct case_many {{
	uint32_t from, to[3];
}};
""")
surrogates = [(0xD800, 0xDFFF)]
hidden = sorted(ranges(lambda s: not s.isprintable()) + surrogates)
show("not_printable", [f"{{ 0x{a:x}, 0x{b:x} }}," for a, b in hidden], "struct char_range", 6)
show("cased",
     [f"{{ 0x{a:x}, 0x{b:x} }}," for a, b in ranges(lambda s: (s + "a").title()[-1] == "a")],
     "struct char_range", 6)
for name, how in ("lower", str.lower), ("upper", str.upper), ("title", str.title):
    runs, many = case_runs(how)
    show("to_" + name, [f"{{ 0x{a:x}, 0x{b:x}, {s}, {d} }}," for a, b, s, d in runs],
         "struct case_run", 4)
    show("to_" + name + "_many",
         ["{ 0x%x, { %s } }," % (c, ", ".join(f"0x{x:x}" for x in to)) for c, to in many],
         "struct case_many", 3)
print("#endif")
sys.stdout.flush()
