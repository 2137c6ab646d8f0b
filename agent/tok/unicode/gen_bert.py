#!/usr/bin/env python3
"""Write agent/tok/unicode/bert_in.h: the characters that BertNormalizer of tokenizers drops.

    pip install tokenizers==0.22.2
    python3 agent/tok/unicode/gen_bert.py

Its tables are of Unicode 8, and differ from every other in tokenizers; so the library is asked
about every code point. "Marks" are asked after NFD, so those that decompose are not listed."""
import sys

from tokenizers import normalizers

sys.dont_write_bytecode = True
from ranges import save, table  # noqa: E402

CHARS = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
NFD = normalizers.NFD()


def dropped(normalizer, chars):
    return {c: None for c in chars if normalizer.normalize_str("a" + chr(c) + "b") == "ab"}


def main():
    def bert(clean, accents):
        return normalizers.BertNormalizer(clean_text=clean, handle_chinese_chars=False,
                                          strip_accents=accents, lowercase=False)
    whole = [c for c in CHARS if NFD.normalize_str(chr(c)) == chr(c)]
    save("bert_in.h",
         "/* bert_in.h - written by gen_bert.py: what BertNormalizer of tokenizers 0.22 drops. */\n"
         "#ifndef KVROUTE_TOK_UNICODE_BERT_IN_H\n#define KVROUTE_TOK_UNICODE_BERT_IN_H\n\n"
         "#include \"agent/tok/unicode/ranges.h\"\n\n"
         "/* control characters, U+FFFD: clean_text */\n"
         + table("bert_controls", dropped(bert(True, False), CHARS))
         + "\n/* nonspacing marks that do not decompose: strip_accents */\n"
         + table("bert_marks", dropped(bert(False, True), whole)) + "\n#endif\n")


if __name__ == "__main__":
    main()
