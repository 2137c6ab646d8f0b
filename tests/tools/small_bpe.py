"""small_bpe.py - token ids of ASCII text by a tokenizer.json of Llama 3's kind, by the slow
algorithm of its definition.

It shares no code with the agent, because the ids of both are compared. Merges are tried pair by
pair, lowest rank first.
"""
import json
import re

# The pattern of Llama 3 where all text is ASCII.
PIECES = re.compile(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\na-zA-Z0-9]?[a-zA-Z]+|[0-9]{1,3}| "
                    r"?[^\sa-zA-Z0-9]+[\r\n]*"
                    r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_characters():
    """Return the character of each byte in the vocabulary."""
    plain = [b for b in range(256) if 33 <= b < 127 or 0xa1 <= b < 0xad or 0xae <= b]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


class SmallBpe:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            d = json.load(f)
        self.vocab = d["model"]["vocab"]
        self.rank = {tuple(m.split(" ")): i for i, m in enumerate(d["model"]["merges"])}
        self.bos = [d["post_processor"]["special_tokens"]["<|begin|>"]["ids"][0]]
        self.added = {a["content"]: a["id"] for a in d["added_tokens"]}
        self.characters = byte_characters()

    def piece(self, text):
        parts = [self.characters[b] for b in text.encode("ascii")]
        while True:
            known = [(self.rank[p], i) for i, p in enumerate(zip(parts, parts[1:]))
                     if p in self.rank]
            if not known:
                return [self.vocab[p] for p in parts]
            i = min(known)[1]
            parts[i:i + 2] = [parts[i] + parts[i + 1]]

    def ids(self, text, special=True):
        return (self.bos if special else []) + [i for p in PIECES.findall(text)
                                                for i in self.piece(p)]
