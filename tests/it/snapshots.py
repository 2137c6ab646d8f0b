"""snapshots.py - which server holds which pages, read from the file of an agent's snapshot.

A reader of its own (the format is in agent/index/snapshot_in.h), so that two agents are compared
without a digest or a metric of theirs."""
import hashlib
import struct

MAGIC = b"kvrsnap\n"
HEADER_BYTES = 48
NAMES, TREE, END = 1, 2, 3
SPACE, NODE = 1, 2


def chained(before, what):
    return hashlib.blake2b(before + what, digest_size=8).digest()


def names_of(p):
    out, at = {}, 0
    while at < len(p):
        server, n = struct.unpack_from("<HH", p, at)
        # pool, NUL, server; after another NUL what was learned of it
        out[server] = b"/".join(p[at + 4:at + 4 + n].split(b"\0")[:2]).decode()
        at += 4 + n
    return out


def pairs_of(p, names, ends):
    """<ends>: the prefix at the end of each space and node so far, by its number."""
    out, at = set(), 0
    while at < len(p):
        kind, _, pages, parent = struct.unpack_from("<BBHI", p, at)
        if kind == SPACE:
            ends.append(chained(b"", p[at + 8:at + 24]))
            at += 24
            continue
        if kind != NODE:
            raise ValueError("an entry of kind %d" % kind)
        _, owners = struct.unpack_from("<HH", p, at + 8)
        keys = at + 16
        at = keys + 8 * pages
        held = []
        for _ in range(owners):
            held.append(struct.unpack_from("<HH", p, at))
            at += 12
        prefix = ends[parent]
        for d in range(pages):
            prefix = chained(prefix, p[keys + 8 * d:keys + 8 * d + 8])
            out.update((names[server], prefix) for server, n in held if d < n)
        ends.append(prefix)
    return out


def read_pairs(path):
    """Return the set of (server, hash of a prefix) in the file at <path>."""
    with open(path, "rb") as f:
        data = f.read()
    if not data.startswith(MAGIC):
        raise ValueError("%s is no snapshot" % path)
    names, ends, out, at = {}, [b""], set(), HEADER_BYTES
    while True:
        kind, n = struct.unpack_from("<II", data, at)
        payload = data[at + 16:at + 16 + n]
        if len(payload) < n:
            raise ValueError("%s is cut short" % path)
        if kind == END:
            return out
        if kind == NAMES:
            names.update(names_of(payload))
        else:
            out |= pairs_of(payload, names, ends)
        at += 16 + n
