"""kv_recording.py - recordings of the KV cache events of engines, the set of blocks that events
leave, and a publisher that plays them (python3-zmq).

    recording, held = Recording("tests/data/kvevents/vllm-small"), Held()
    player = Player(port, replay_port)
    player.publish(recording.payloads[0])
    held.apply(recording.payloads[0])

A recording is NAME.frames, ZeroMQ messages: u32be count of parts, then u32be length and bytes of
each part; NAME.times, one JSON list a line, beginning with the time at which the message came; and
NAME.requests.jsonl, if there are requests. Each file may be compressed with gzip. A request: conv,
a conversation; its prompt is what the conversation has so far (nothing if "new"), and then "add";
salt; out, the generated tokens; cached, the tokens that the engine found cached; sent, answered.
"""
import collections
import gzip
import json
import os
import struct

from kv_publisher import Publisher


# ---- msgpack

def unpack(data):
    """Return the value in <data>."""
    return _value(memoryview(data), 0)[0]


_SIZED = {0xc4: ("B", "bin"), 0xc5: (">H", "bin"), 0xc6: (">I", "bin"), 0xd9: ("B", "str"),
          0xda: (">H", "str"), 0xdb: (">I", "str"), 0xdc: (">H", "array"), 0xdd: (">I", "array"),
          0xde: (">H", "map"), 0xdf: (">I", "map")}
_NUMBER = {0xca: ">f", 0xcb: ">d", 0xcc: "B", 0xcd: ">H", 0xce: ">I", 0xcf: ">Q", 0xd0: "b",
           0xd1: ">h", 0xd2: ">i", 0xd3: ">q"}


def _value(d, at):
    c = d[at]
    at += 1
    if c < 0x80:
        return c, at
    if c >= 0xe0:
        return c - 256, at
    if c in _NUMBER:
        return struct.unpack_from(_NUMBER[c], d, at)[0], at + struct.calcsize(_NUMBER[c])
    if c < 0xc0:
        kind = "map" if c < 0x90 else "array" if c < 0xa0 else "str"
        n = c & (0x1f if kind == "str" else 0x0f)
    elif c in _SIZED:
        form, kind = _SIZED[c]
        n = struct.unpack_from(form, d, at)[0]
        at += struct.calcsize(form)
    else:
        return {0xc0: None, 0xc2: False, 0xc3: True}[c], at
    if kind in ("str", "bin"):
        raw = bytes(d[at:at + n])
        return raw.decode() if kind == "str" else raw, at + n
    out = []
    for _ in range(n * (2 if kind == "map" else 1)):
        v, at = _value(d, at)
        out.append(v)
    return dict(zip(out[::2], out[1::2])) if kind == "map" else out, at


# ---- recordings

def recorded(path, ending):
    """Return the bytes of a file of a recording, or None if it has none."""
    if os.path.exists(path + ending):
        with open(path + ending, "rb") as f:
            return f.read()
    if os.path.exists(path + ending + ".gz"):
        with gzip.open(path + ending + ".gz") as f:
            return f.read()
    return None


def messages(data):
    """The parts of each message in the bytes of a .frames file."""
    at = 0
    while at < len(data):
        n, = struct.unpack_from(">I", data, at)
        at += 4
        parts = []
        for _ in range(n):
            size, = struct.unpack_from(">I", data, at)
            parts.append(data[at + 4:at + 4 + size])
            at += 4 + size
        yield parts


class Recording:
    def __init__(self, path):
        self.name = os.path.basename(path)
        self.payloads = [m[-1] for m in messages(recorded(path, ".frames"))]
        self.times = [json.loads(line)[0]
                      for line in recorded(path, ".times").decode().splitlines()]
        lines = (recorded(path, ".requests.jsonl") or b"").decode().splitlines()
        self.requests = [json.loads(line) for line in lines]
        so_far, size = {}, self.block_size()
        for r in self.requests:
            r["prompt"] = ([] if r["new"] else so_far[r["conv"]]) + r["add"]
            so_far[r["conv"]] = r["prompt"] + r["out"]
            r["block"] = size
            assert len(r["prompt"]) == r["prompt_tokens"], (self.name, r["conv"])


    def block_size(self):
        for payload in self.payloads:
            for e in unpack(payload)[1]:
                if e["type"] == "BlockStored":
                    return e["block_size"]
        return 0


# ---- what a cache holds

class Held:
    """The blocks of one cache by its events. A block is a node: parent's node, tokens, adapter, and
    what else its hash covers (extra)."""

    def __init__(self):
        self.node_of = {}               # hash -> node
        self.copies = collections.Counter()     # hash -> copies
        self.nodes, self.number = [], {}        # and the number of each
        self.count = collections.Counter()      # node -> hashes of it that are held
        self.full = set()               # groups with full attention
        self.block = 0

    def apply(self, payload):
        for e in unpack(payload)[1]:
            self.apply_event(e)

    def apply_event(self, e):
        if e["type"] == "AllBlocksCleared":
            self.copies.clear()
            self.count.clear()
            return
        group = e.get("group_idx")
        if e["type"] == "BlockStored" and e.get("kv_cache_spec_kind") in (None, "full_attention"):
            self.full.add(group)
        if group not in self.full:
            return
        if e["type"] == "BlockRemoved":
            for h in e["block_hashes"]:
                self.remove(h)
        else:
            self.store(e)

    def remove(self, h):
        if self.copies[h] > 0:
            self.copies[h] -= 1
            self.count[self.node_of[h]] -= self.copies[h] == 0

    def store(self, e):
        at, size = None, e["block_size"]
        self.block = size
        if e.get("parent_block_hash") is not None:
            at = self.node_of.get(e["parent_block_hash"], "unknown")
        for k, h in enumerate(e["block_hashes"]):
            extra = (e.get("extra_keys") or [None] * (k + 1))[k]
            at = self.node(at, tuple(e["token_ids"][k * size:(k + 1) * size]),
                           e.get("lora_name"), tuple(extra or ()))
            self.node_of[h] = at
            self.copies[h] += 1
            self.count[at] += self.copies[h] == 1

    def node(self, *key):
        if key not in self.number:
            self.number[key] = len(self.nodes)
            self.nodes.append(key)
        return self.number[key]

    def blocks(self):
        return sum(n > 0 for n in self.copies.values())

    def match(self, ids, salt=None, lora=None):
        """Return the tokens of the prompt <ids> that are held; the last one never counts."""
        at, held = None, 0
        for k in range(0, len(ids) - self.block, self.block) if self.block else ():
            extra = ((lora, ) if lora else ()) + ((salt, ) if salt and k == 0 else ())
            at = self.number.get((at, tuple(ids[k:k + self.block]), lora, extra))
            if at is None or self.count[at] <= 0:
                break
            held += self.block
        return held

    def prompt_of(self, node):
        """Return ids, salt and adapter of the prompt that ends with <node>, or None if its
        beginning is unknown."""
        ids, lora, extra = [], None, ()
        while node is not None:
            if node == "unknown":
                return None
            node, tokens, lora, extra = self.nodes[node]
            ids = list(tokens) + ids
        return ids, extra[-1] if extra and extra[-1] != lora else None, lora


# ---- a publisher

class Player(Publisher):
    """Publishes given payloads. <framing> of a replay: "topic" (vLLM 0.26 and later) or "plain"
    (before it, and SGLang)."""

    def __init__(self, port, replay=0, framing="topic"):
        super().__init__(port, replay, {"topic": "map", "plain": "array"}[framing])

    def begin(self):
        self.seq = 0
        self.buffer.clear()

    def publish(self, payload, live=True):
        """<live>: not lost on the way."""
        with self.lock:
            self.buffer.append((self.seq, payload))
        if live:
            self.send(self.seq, payload)
        self.seq += 1
