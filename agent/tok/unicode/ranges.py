"""Tables of struct uc_range (ranges.h), for gen_bert.py and gen_grapheme.py."""
import os

WIDTH = 100


def ranges(kinds):
    """Return [first, last, kind] of each run of equal kinds. <kinds>: character -> kind."""
    out = []
    for c in sorted(kinds):
        if out and out[-1][1] == c - 1 and out[-1][2] == kinds[c]:
            out[-1][1] = c
        else:
            out.append([c, c, kinds[c]])
    return out


def table(name, kinds):
    """Return the definition of table <name>; kind None: the table has one kind."""
    lines, line = [], "\t"
    for a, b, kind in ranges(kinds):
        item = "{ 0x%x, 0x%x%s }, " % (a, b, ", " + kind if kind else "")
        if len((line + item).expandtabs(8).rstrip()) > WIDTH:
            lines.append(line.rstrip())
            line = "\t"
        line += item
    lines.append(line.rstrip())
    return "static const struct uc_range %s[] = {\n%s\n};\n" % (name, "\n".join(lines))


def save(name, text):
    """Write <text> to the file <name> beside this one."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
