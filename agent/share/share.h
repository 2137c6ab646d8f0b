/* share.h - what agents of one fleet tell each other, and its bytes.
 *
 * Agents share facts, not answers. An agent writes entries about what it alone knows, and applies
 * those of its siblings to its own tree and ledger. So each decision is made from local memory.
 *
 *   batch    "kvs", version u8 | part u32 | key id u64 | agent u64 | number u64 | time u64 |
 *            entries | checksum u64
 *   entry    kind u8, bytes u24 | payload
 *
 * All is little endian. Numbers in a payload are LEB128 of at most 10 bytes; hashes take 8 bytes.
 * A number that may be unknown (-1) is written plus one; seconds are written as microseconds.
 *
 * A batch is whole in itself. A server is named once in it: an entry of kind 0 gives pool and
 * server the next number, from 0 on, and later entries have that number.
 *
 * Versions side by side: an agent skips and counts an entry of a kind that it does not know, and
 * ignores what follows the fields that it knows. So a new kind or a new field at the end needs no
 * new version, and an older agent's entry ends before it. A field that is to mean something else
 * needs a new kind: agents that compared digests of two meanings would repair forever. A batch of a
 * newer version is skipped whole; magic, version, key id and checksum
 * have these places in all versions.
 *
 * An entry about a request has its identity, the keyed hash of its uid. Applying an entry twice
 * changes nothing, because the ledger knows which requests are open. A fact that every agent gets
 * by itself (a log line, an event of an engine) is sent by the owner of the request only: the agent
 * that decided, or got a message of HAProxy about it.
 *
 * Only hashes under the fleet's key travel, and names of pools and servers. The key id tells a
 * batch of another fleet, the keyed checksum a damaged one or one that was made without the key. It
 * is no MAC: who learns the key from many hashes can forge entries (doc/threats.md, The store).
 * Every number is checked against its limit. */
#ifndef KVROUTE_SHARE_SHARE_H
#define KVROUTE_SHARE_SHARE_H

#include "agent/base/hash.h"
#include "agent/base/types.h"
#include "agent/feed/fact.h"

#define SHARE_VERSION		1
#define SHARE_BATCH_MAX		((size_t)256 << 10)	/* bytes of a batch */
#define SHARE_SERVERS_MAX	256u			/* servers named in a batch */
#define SHARE_PARTS_MAX		256u			/* streams of a fleet */
/* Limits of one entry. A longer list is cut when it is written; of other numbers above their limit
 * the limit is written. An entry that exceeds one is refused when it is read. */
#define SHARE_PAGES_MAX		16384u
#define SHARE_ENDS_MAX		8192u
#define SHARE_SUMS_MAX		1024u
#define SHARE_HEAD_MAX		((size_t)96 << 10)	/* bytes; a longer one is not written */
#define SHARE_NAME_MAX		127u			/* the same, for the name of a pool or server */
#define SHARE_DEPTH_MAX		(1u << 24)		/* pages before an anchor; parts of a space */
#define SHARE_ROOM_MAX		65535u			/* rooms of a space */
#define SHARE_PRIORITIES	32u			/* a priority is below */
#define SHARE_TOKENS_MAX	(1ull << 40)
#define SHARE_NUMBER_MAX	(1ull << 48)		/* milliseconds, bytes */
#define SHARE_SECONDS_MAX	4000.0

#define SHARE_COMPARED_MS	60000	/* older digests are of another tree than today's */

/* Who writes: random at each start, so that an agent that returns is a new one. Never 0. */
typedef uint64_t share_agent;

/* A server by name. An empty <server>: no known one. */
struct share_server {
	struct span pool, server;
};

/* A space, as struct space_key of the index. <tenant>: its keyed hash, because agents may number
 * tenants differently; 0: no floor of its own. */
struct share_space {
	uint64_t h[2];
	uint64_t tenant;
	uint32_t part_room, page_room;
};

/* The place in a space where pages begin: after <depth> pages whose chain hash is <hash>. Depth 0
 * is the root. */
struct share_anchor {
	uint64_t hash;
	uint32_t depth;
};

enum share_kind {
	SHARE_PLACED = 1,	/* a request was sent to a server, which claims its pages */
	SHARE_FACT,		/* what became of it */
	SHARE_TAKEN_BACK,	/* the decision was undone, or its end was not reported */
	SHARE_HELD,		/* a server holds pages; sent again because a sibling lacks them */
	SHARE_CLEARED,		/* a server's cache was cleared, or the server is gone */
	SHARE_SERVER,		/* what is learned of a server */
	SHARE_HEAD,		/* opening of a conversation and the head that it had */
	SHARE_ALIVE,		/* nothing else to say; and what the agent is */
	SHARE_DIGEST,		/* digests of what each server holds, by part of the space */
	SHARE_ENDS,		/* the ends of all prefixes of one server in one part */
	SHARE_WANT,		/* ends that the sender lacks: their owner should send them */
	SHARE_KINDS
};

/* The end of a prompt: struct grown_end of the router. */
struct share_end {
	uint64_t key;			/* keyed hash; 0: unknown */
	uint64_t tokens;
	uint32_t tail;			/* keyed hash; 0: none */
	uint16_t n_tail;
};

struct share_placed {
	uint64_t uid;			/* keyed hash */
	uint64_t process;		/* keyed hash of the HAProxy process that asked */
	struct share_server at;
	struct share_space space;
	struct share_anchor anchor;
	const page_key *pages;		/* after the anchor; [n] */
	uint32_t n;
	uint8_t priority;
	bool uncertain;			/* most of its work is estimated */
	double nominal_s, unseen_s;	/* struct work: both by policy_prefill_s() */
	uint64_t work_tokens;		/* not cached */
	uint64_t prompt_tokens, common_tokens;
	uint32_t branched;		/* pages after which it leaves all other prompts; 0: it does not */
	/* pages that the server generated as an answer, which ended so long ago; 0: none */
	uint32_t grown;
	msec grown_ago_ms;
	/* for its answer: struct lesson of the router */
	uint32_t block;			/* ids in a page; 0: pages of text */
	bool streams, whole, generates;
	struct share_end end;		/* .key 0: unknown */
	/* its session: hashes of its name, its tenant and its model; <key> 0: none. Tokens of the prompt
	 * with the unseen part, and those of the latter that the server did not have */
	struct {
		uint64_t key, tenant, kind, tokens;
		uint32_t hidden;
		/* not all was seen; it is decided anew; <tokens> may be far too few */
		bool cut, again, rough;
	} session;
	uint64_t stores;		/* hash of its tenant, if its engine may store the answer; 0: no */
};

struct share_fact {
	uint64_t uid;
	/* kind, pool, server, status, end, the four times, both bytes, retries, redispatched, both
	 * counts of tokens, <stored>, and of <type> whether it is a stream of events; the rest is
	 * unknown */
	struct fact fact;
	uint64_t process;
};

struct share_taken_back {
	uint64_t uid;
	bool served;			/* its pages are held: it ended, and only that is not known how */
};

struct share_held {
	struct share_server at;
	struct share_space space;
	struct share_anchor anchor;
	const page_key *pages;
	uint32_t n;
	uint8_t hits, priority;
	msec unused_ms;			/* since its last use */
};

struct share_cleared {
	struct share_server at;
	bool gone;			/* the server left the configuration */
	msec ago_ms;			/* before the batch was made */
};

struct share_learned {
	struct share_server at;
	uint32_t slowness_first, slowness_headers;	/* struct rate_kept */
	uint64_t capacity_tokens;	/* inferred or reported; 0: unknown */
	msec named_ago_ms;		/* HAProxy named it to some agent; -1: unknown */
};

struct share_head {
	struct span bytes;		/* private to agent/prompt: hashes of pages, name of the model */
};

struct share_alive {
	bool warm;			/* it has a sibling's state, or is the first */
	uint32_t open;			/* requests that it decided and that are open */
};

struct share_digest {
	struct share_server at;
	uint32_t first_part;		/* <sums> are of the parts from here on */
	const uint64_t *sums;		/* of the chain hashes of ends, each in part hash % SPACE_PARTS */
	uint32_t n;
	msec quiet_ms;			/* ends used within that time are left out; 0: none */
	msec cleared_ago_ms;		/* last clear known to the sender; -1: none */
	/* ends not used since then are left out; and those are evicted, or will be (index/held.h); -1:
	 * none */
	msec oldest_ms, evicted_ago_ms;
	msec named_ago_ms;		/* HAProxy named the server to some agent; -1: unknown */
};

/* Ends of prefixes that a server holds: chain hash of all pages, and their number. Each end is
 * followed by the same for some shorter prefixes of it, longest first, and by one of depth 0. */
struct share_ends {
	struct share_server at;
	uint32_t part;
	const struct share_anchor *ends;
	uint32_t n;
	uint64_t to;			/* the agent whose digest differs */
	msec evicted_ago_ms;		/* what was not used since then is evicted; -1: none */
};

/* Ends of <at> that the sender lacks, each followed by the longest of its prefixes whose pages the
 * sender knows; depth 0: none. */
struct share_want {
	struct share_server at;
	const struct share_anchor *ends;
	uint32_t n;
	share_agent from;		/* that named the ends */
};

struct share_entry {
	enum share_kind kind;
	msec age_ms;		/* since its batch was made; set by the inbox, not written */
	union {
		struct share_placed placed;
		struct share_fact fact;
		struct share_taken_back taken_back;
		struct share_held held;
		struct share_cleared cleared;
		struct share_learned server;
		struct share_head head;
		struct share_alive alive;
		struct share_digest digest;
		struct share_ends ends;
		struct share_want want;
	} u;
};

/* ---- errors -------------------------------------------------------------------------------- */

enum share_error {
	SHARE_E_DAMAGED = 1,	/* no batch, or its checksum is wrong */
	SHARE_E_STRANGER,	/* made under another key */
	SHARE_E_NEWER,		/* of a version above SHARE_VERSION */
	SHARE_E_KIND,		/* an entry of an unknown kind */
	SHARE_E_ENTRY,		/* an entry with a field that is missing or out of limits */
	SHARE_E_ROOM,		/* the batch needs more memory */
	SHARE_E_FULL		/* the batch names as many servers as it can */
};

/* ---- writing a batch ----------------------------------------------------------------------- */

/* What a batch says of itself. */
struct share_batch {
	share_agent agent;
	uint32_t part;
	uint64_t number;	/* 1 to SHARE_NUMBER_MAX, for each agent and part */
	int64_t made_ms;	/* wall clock of its agent when its first entry was written */
};

struct share_writer {		/* private */
	const struct hash_key *key;
	uint8_t *p;		/* the caller's */
	size_t n, room;
	uint32_t n_names;
	struct share_named {
		uint32_t at;	/* offset of both names in the batch */
		uint8_t pool, server;
	} names[SHARE_SERVERS_MAX];
	uint16_t slots[2 * SHARE_SERVERS_MAX];	/* number of a name + 1, by its hash */
};

#define SHARE_HEADER_BYTES	40u
#define SHARE_EMPTY_BYTES	(SHARE_HEADER_BYTES + 8)	/* a batch without entries */

/* Begin a batch in the <room> bytes at <p>, at least SHARE_EMPTY_BYTES. <key> and <p> are
 * borrowed. */
void share_write_start(struct share_writer *w, const struct hash_key *key, uint8_t *p, size_t room);

/* Return the most bytes that <e> adds to a batch, with the name of its server. */
size_t share_write_most(const struct share_entry *e);

/* Append an entry; nothing of it is kept. Returns 0, or without a change of the batch:
 * -SHARE_E_ROOM if less than share_write_most() is left, -SHARE_E_FULL, or -SHARE_E_ENTRY if it can
 * never be written. After -SHARE_E_ROOM the caller may copy the bytes written so far (w->n) to a
 * larger block, call share_write_moved() and try again. */
int share_write(struct share_writer *w, const struct share_entry *e);
void share_write_moved(struct share_writer *w, uint8_t *p, size_t room);

/* Write header and checksum of the batch at <p>, of which <n> bytes were written (w->n): now or
 * later, without the writer. Returns the bytes of the batch, 8 more. O(bytes), 0.1 ns each. */
size_t share_write_end(
    const struct hash_key *key, uint8_t *p, size_t n, const struct share_batch *b);

/* ---- reading a batch ----------------------------------------------------------------------- */

struct share_reader {		/* private, but for <batch>; 140 KB */
	struct share_batch batch;
	const uint8_t *p;
	size_t left;
	uint32_t n_names;
	struct share_server names[SHARE_SERVERS_MAX];
	union {
		page_key pages[SHARE_PAGES_MAX];
		struct share_anchor ends[SHARE_ENDS_MAX];
		uint64_t sums[SHARE_SUMS_MAX];
	} list;			/* of the last entry, because in the batch it is not aligned */
};

/* Begin to read a batch, which is borrowed until its last entry was read. Returns 0,
 * -SHARE_E_DAMAGED, -SHARE_E_STRANGER or -SHARE_E_NEWER. O(bytes), 0.1 ns each. */
int share_read_start(struct share_reader *r, const struct hash_key *key, struct span bytes);

/* Read the next entry. Returns 1; or 0 at the end; or -SHARE_E_KIND or -SHARE_E_ENTRY, and the next
 * call reads the entry after it. <e> borrows from the batch and from <r> until the next call.
 * Allocates nothing. */
int share_read_next(struct share_reader *r, struct share_entry *e);

#endif
