"""kv_publisher.py - publishes KV cache events over ZeroMQ as an inference engine does, and drops,
restarts and lies on request.

Its cache is a model of a paged prefix cache: conversations share system prompts, each turn extends
one, and the least recently used leaf is evicted. publish() makes one batch, so a test decides when
anything happens. A thread answers replay requests.
"""
import collections
import hashlib
import random
import struct
import threading
import time

import zmq

END = b"\xff" * 8


# ---- MessagePack

def pack(v):
    if v is None:
        return b"\xc0"
    if isinstance(v, float):
        return b"\xcb" + struct.pack(">d", v)
    if isinstance(v, int):
        return pack_int(v)
    if isinstance(v, bytes):
        return b"\xc4" + bytes([len(v)]) + v
    if isinstance(v, str):
        return b"\xd9" + bytes([len(v)]) + v.encode()
    if isinstance(v, dict):
        return b"\xde" + struct.pack(">H", len(v)) + b"".join(pack(k) + pack(x)
                                                              for k, x in v.items())
    return b"\xdd" + struct.pack(">I", len(v)) + b"".join(map(pack, v))


def pack_int(v):
    if 0 <= v < 128:
        return bytes([v])
    if v < 0:
        return b"\xd3" + struct.pack(">q", v)
    for code, form, bits in ((b"\xcc", ">B", 8), (b"\xcd", ">H", 16), (b"\xce", ">I", 32)):
        if v < 1 << bits:
            return code + struct.pack(form, v)
    return b"\xcf" + struct.pack(">Q", v)


# ---- encodings

def stored_array(hashes, parent, tokens, size):
    """vLLM up to 0.23: all fields, in order."""
    return ["BlockStored", hashes, parent, tokens, size, None, "GPU", None, [None] * len(hashes), 0,
            "full_attention", None]


def removed_array(hashes):
    return ["BlockRemoved", hashes, "GPU", 0]


def stored_map(hashes, parent, tokens, size):
    """vLLM 0.24 and later: no defaults."""
    e = {"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent,
         "token_ids": tokens, "block_size": size, "lora_id": None, "medium": "GPU",
         "group_idx": 0, "kv_cache_spec_kind": "full_attention"}
    return e


def removed_map(hashes):
    return {"type": "BlockRemoved", "block_hashes": hashes, "medium": "GPU", "group_idx": 0}


def stored_sglang(hashes, parent, tokens, size):
    return ["BlockStored", hashes, parent, tokens, size, None]


def removed_sglang(hashes):
    return ["BlockRemoved", hashes]


def int_hash(d):
    return int.from_bytes(d[-8:], "big")


def signed_hash(d):
    return int.from_bytes(d[-8:], "big", signed=True)


# name -> stored, removed, hash, replay frames with a topic
ENCODINGS = {
    "array": (stored_array, removed_array, int_hash, False),
    "map": (stored_map, removed_map, int_hash, True),
    "bytes": (stored_map, removed_map, bytes, True),
    "sglang": (stored_sglang, removed_sglang, signed_hash, False),
}


# ---- the cache

class Cache:
    """Blocks by digest, in the order of their last use."""

    def __init__(self, seed, capacity, block):
        self.random = random.Random(seed)
        self.capacity, self.block = capacity, block
        self.salt = self.random.randbytes(8)    # an engine's hashes differ after each start
        self.blocks = collections.OrderedDict()         # digest -> parent
        self.children = collections.Counter()
        self.systems = [self.tokens(4) for _ in range(3)]
        self.talks = []

    def tokens(self, blocks):
        return [self.random.randrange(100000) for _ in range(blocks * self.block)]

    def evict(self):
        """Remove the oldest block that no other one continues."""
        for d, parent in self.blocks.items():
            if self.children[d] == 0:
                break
        del self.blocks[d]
        if parent is not None:
            self.children[parent] -= 1
        return d

    def add(self, tokens):
        """Return (parent, digests, tokens) of the blocks that are new, and those removed."""
        parent, first, new, removed = None, None, [], []
        for i in range(0, len(tokens), self.block):
            page = tokens[i:i + self.block]
            d = hashlib.sha256((parent or self.salt) +
                               struct.pack(">%dI" % len(page), *page)).digest()
            if d in self.blocks:
                self.blocks.move_to_end(d)
            else:
                if not new:
                    first = parent
                new.append((d, page))
                self.blocks[d] = parent
                if parent is not None:
                    self.children[parent] += 1
            parent = d
        while len(self.blocks) > self.capacity:
            removed.append(self.evict())
        return first, new, removed

    def turn(self):
        if self.talks and self.random.random() < 0.7:
            talk = self.random.choice(self.talks)
        else:
            talk = list(self.random.choice(self.systems))
            self.talks = self.talks[-20:] + [talk]
        if len(talk) > self.capacity * self.block // 4:
            del talk[4 * self.block:]
        talk += self.tokens(self.random.randrange(1, 6))
        return self.add(talk)


def bind(s, address):
    """A thread of libzmq closes the port that close() frees."""
    for left in range(500, -1, -1):
        try:
            return s.bind(address)
        except zmq.ZMQError:
            if left == 0:
                raise
            time.sleep(0.02)


class Publisher:
    def __init__(self, port, replay=0, encoding="map", topic=b"kv@e1@m", capacity=256, block=16,
                 seed=1, buffer=10000, rank=0, connect=None, start=True, host="127.0.0.1"):
        self.port, self.replay_port, self.topic, self.rank = port, replay, topic, rank
        self.connect, self.host = connect, host
        self.stored_as, self.removed_as, self.hash_as, self.new_replay = ENCODINGS[encoding]
        self.capacity, self.block, self.seed = capacity, block, seed
        self.random = random.Random(seed)
        self.buffer = collections.deque(maxlen=buffer)
        self.lock = threading.Lock()
        self.drop = 0.0                 # share of live batches that are not sent
        self.silent = False             # replay requests are not answered
        self.asked = []                 # first sequences of the requests
        self.requests = self.served = 0
        self.all_stored = 0             # blocks, of all starts
        self.context = zmq.Context()
        self.running = False
        self.begin()
        if start:
            self.open()

    def begin(self):
        """The state of an engine that has just started."""
        self.cache = Cache(self.random.randrange(1 << 30), self.capacity, self.block)
        self.seq = self.stored = self.removed = self.dropped = 0
        self.buffer.clear()

    # ---- sockets

    def open(self):
        self.pub = self.context.socket(zmq.XPUB)        # tells of subscriptions
        self.pub.setsockopt(zmq.XPUB_VERBOSE, 1)        # of each, also beside one of the same topic
        self.pub.set_hwm(100000)
        self.pub.linger = 0
        self.pub.setsockopt(zmq.IPV6, 1)
        if self.connect:
            self.pub.connect(self.connect)
        else:
            bind(self.pub, "tcp://%s:%d" % (self.host, self.port))
        self.running = True
        self.thread = None
        if self.replay_port:
            self.thread = threading.Thread(target=self.serve, daemon=True)
            self.thread.start()

    def close(self):
        self.running = False
        if self.thread:
            self.thread.join()
        self.pub.close()

    def end(self):
        if self.running:
            self.close()
        self.context.destroy(linger=0)

    def restart(self, meanwhile=0):
        """End and begin again, with <meanwhile> batches before anybody can connect."""
        self.close()
        with self.lock:
            self.begin()
        for _ in range(meanwhile):
            self.publish(live=False)
        self.open()

    def subscribed(self, seconds=20):
        """Wait for one more subscription than at the last call."""
        deadline = time.monotonic() + seconds
        while True:
            left = max(0, deadline - time.monotonic())
            assert self.pub.poll(left * 1000), "no subscription within %d s" % seconds
            if self.pub.recv()[:1] == b"\x01":      # else one has ended
                return

    def serve(self):
        router = self.context.socket(zmq.ROUTER)        # with ZeroMQ's own limit of 1000 messages
        router.linger = 0
        router.setsockopt(zmq.IPV6, 1)
        bind(router, "tcp://%s:%d" % (self.host, self.replay_port))
        while self.running:
            if router.poll(20):
                self.answer(router, router.recv_multipart())
        router.close()

    def answer(self, router, frames):
        if len(frames) != 3:
            return
        start = int.from_bytes(frames[2], "big")
        with self.lock:
            self.asked.append(start)
            kept = [x for x in self.buffer if x[0] >= start]
        if self.silent:
            return
        topic = [self.topic] if self.new_replay else []
        for seq, payload in kept:
            router.send_multipart([frames[0], b""] + topic + [struct.pack(">Q", seq), payload])
        router.send_multipart([frames[0], b""] + ([b""] if topic else []) + [END, b""])
        self.served += 1

    # ---- batches

    def events(self):
        events = []
        for _ in range(2):
            parent, new, removed = self.cache.turn()
            for d in removed:
                events.append(self.removed_as([self.hash_as(d)]))
            if new:
                events.append(self.stored_as(
                    [self.hash_as(d) for d, _ in new],
                    None if parent is None else self.hash_as(parent),
                    [t for _, page in new for t in page], self.block))
            self.stored += len(new)
            self.all_stored += len(new)
            self.removed += len(removed)
        return events

    def publish(self, n=1, live=True):
        for _ in range(n):
            events = self.events()
            payload = pack([time.time(), events, self.rank])
            with self.lock:
                self.buffer.append((self.seq, payload))
            if live and self.random.random() >= self.drop:
                self.send(self.seq, payload)
            else:
                self.dropped += 1
            self.seq += 1

    def send(self, seq, payload):
        self.pub.send_multipart([self.topic, struct.pack(">Q", seq), payload])

    def send_load(self, running, waiting, used, size, rank=None, topic=b"load"):
        """Publish a load as SGLang does, of which <pub> must be a socket of its own."""
        self.pub.send_multipart([topic, struct.pack(">Q", self.seq), pack(
            ["LoadStat", running, waiting, used, size, rank, 0])])
        self.seq += 1

    def size(self):
        return len(self.cache.blocks)
