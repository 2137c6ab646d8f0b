/* snapshot_load_in.h - a snapshot on its way into an index: what its two steps have in common. */
#ifndef KVROUTE_INDEX_SNAPSHOT_LOAD_H
#define KVROUTE_INDEX_SNAPSHOT_LOAD_H

#include "agent/index/snapshot_in.h"

struct part {			/* a space or a node */
	const uint8_t *p;
	uint32_t parent, end;	/* pages from the start to its end */
	uint32_t first_owner;	/* number of its first owner, over all nodes */
};

struct end {
	uint32_t age, part;
	uint16_t owner;
};

enum load_phase {
	LOAD_SUMS, LOAD_ENTRIES, LOAD_NAMES, LOAD_INNER, LOAD_LIST, LOAD_HEAP, LOAD_COMMIT, LOAD_DONE
};

struct snapshot_loader {
	struct index *ix;
	struct snapshot_of of;
	const uint8_t *p, *end;		/* all bytes; payload of the last section */
	size_t n;
	snapshot_server *server;
	void *arg;
	enum load_phase phase;
	size_t at;			/* of the phase: the next byte, name, node or end */
	uint64_t total;			/* checksum over the sections before <at> */
	struct part *parts;		/* [1 .. n_parts] */
	uint32_t n_parts, cap_parts, n_owners, depth;
	struct span names[SERVERS_MAX];
	int ids[SERVERS_MAX];		/* current numbers of the servers of the snapshot */
	uint32_t drops[SERVERS_MAX];	/* of these, when they were looked up */
	uint8_t *inner;			/* a bit an owner: it is no end */
	struct end *ends;		/* a heap once sorted: the next to load is first */
	size_t n_ends, n_listed;
	uint32_t refused;		/* ends in a row that found no room */
	page_key *keys;			/* of the path to one end */
	uint32_t tick;
	uint32_t passed;		/* ticks since the snapshot began */
	struct snapshot_stats st;
};

static inline const uint8_t *node_keys(const struct part *t)
{
	return t->p + NODE_BYTES;
}

static inline uint32_t part_start(const struct part *t)
{
	return t->p[0] == ENTRY_SPACE ? 0 : t->end - get16(t->p + 2);
}

static inline uint32_t part_owners(const struct part *t)
{
	return t->p[0] == ENTRY_SPACE ? 0 : get16(t->p + 10);
}

static inline const uint8_t *owner_at(const struct part *t, uint32_t i)
{
	return node_keys(t) + get16(t->p + 2) * 8u + i * OWNER_BYTES;
}

/* Return the room of a page of <t>. Nodes of format 1 have no room, but 0: their pages get that of
 * a page of token ids, in 16ths of a token, which a page of text takes by default, too. */
static inline uint32_t node_room(const struct snapshot_loader *l, const struct part *t)
{
	uint32_t room = get32(t->p + 12);

	if (get32(l->p + 8) != SNAPSHOT_VERSION_OLD)
		return room;
	return room == 0 ? 16 * l->of.token_page : 0;
}

/* Check the next sections, first their sums, then their entries. Returns 0 if there are more, 1 if
 * the snapshot is good, or -1 with <e>. */
int snapshot_check(struct snapshot_loader *l, struct err *e);

#endif
