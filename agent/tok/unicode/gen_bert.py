#!/usr/bin/env python3
"""Write agent/tok/unicode/bert_in.h: the characters that BertNormalizer of tokenizers drops.

    pip install tokenizers==0.22.2
    python3 agent/tok/unicode/gen_bert.py

Its tables are of Unicode 8, and differ from every other in tokenizers; so the library is asked
about every code point. "Marks" are asked after NFD, so those that decompose are not listed."""
import os

from tokenizers import normalizers

WIDTH = 100
CHARS = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
NFD = normalizers.NFD()


def dropped(normalizer, chars):
    return [c for c in chars if normalizer.normalize_str("a" + chr(c) + "b") == "ab"]


def ranges(chars):
    out = []
    for c in chars:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(name, chars):
    lines, line = [], "\t"
    for a, b in ranges(chars):
        item = f"{{ 0x{a:x}, 0x{b:x} }}, "
        if len((line + item).expandtabs(8).rstrip()) > WIDTH:
            lines.append(line.rstrip())
            line = "\t"
        line += item
    lines.append(line.rstrip())
    return f"static const struct uc_range {name}[] = {{\n" + "\n".join(lines) + "\n};\n"


def main():
    def bert(clean, accents):
        return normalizers.BertNormalizer(clean_text=clean, handle_chinese_chars=False,
                                          strip_accents=accents, lowercase=False)
    whole = [c for c in CHARS if NFD.normalize_str(chr(c)) == chr(c)]
    text = ("/* bert_in.h - written by gen_bert.py: what BertNormalizer of tokenizers 0.22 drops. "
            "*/\n"
            "#ifndef KVROUTE_TOK_UNICODE_BERT_IN_H\n#define KVROUTE_TOK_UNICODE_BERT_IN_H\n\n"
            "struct uc_range {\n\tuint32_t first, last;\n};\n\n"
            "/* control characters, U+FFFD: clean_text */\n"
            + table("bert_controls", dropped(bert(True, False), CHARS))
            + "\n/* nonspacing marks that do not decompose: strip_accents */\n"
            + table("bert_marks", dropped(bert(False, True), whole)) + "\n#endif\n")
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bert_in.h")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    main()
