/* heads_in.h - private to agent/prompt: the data of heads, for heads.c and heads_share.c. */
#ifndef KVROUTE_PROMPT_HEADS_IN_H
#define KVROUTE_PROMPT_HEADS_IN_H

#include <pthread.h>

#include "agent/base/hash_wide.h"
#include "agent/base/list.h"
#include "agent/prompt/heads.h"

#define DEPTHS_MAX	32u		/* of one body; older agents tell all powers of two */

struct entry {			/* of a table: the first member of each struct stored in one */
	struct entry *next;
	uint64_t key : 63;
	uint64_t used : 1;	/* of an opening: since it came or was passed over */
};

struct table {
	struct entry **bucket;
	size_t n;		/* a power of two */
};

struct tenant {
	struct entry in;
	struct list openings;	/* oldest first */
	size_t bytes;
};

struct head {
	struct entry in;
	struct tenant *tenant;
	size_t size;
	uint32_t n_openings, n_system, n_tools;
	bool developer;
	uint16_t n_model, n_lora;
	page_key pages[];	/* system, tools; then the bytes of model and adapter */
};

struct opening {
	struct entry in;
	struct list all, mine;	/* in heads.openings, in tenant.openings */
	struct head *head;
};

struct heads {
	struct heads_opts opts;
	const struct hash_key *key;
	hash64_fn *hash;	/* of many pages */
	heads_tell_fn *tell;	/* NULL: no other agent */
	void *tell_arg;
	pthread_mutex_t lock;	/* guards everything below */
	struct table tenants, by_content, by_opening;
	struct list openings;	/* oldest first */
	size_t fixed_bytes;	/* of the tables; in st.bytes too */
	struct heads_stats st;
};

/* What a head consists of; borrowed. */
struct parts {
	const page_key *system, *tools;
	uint32_t n_system, n_tools;
	struct span model, lora;
	bool developer;
};

/* What other agents need to know of an addition. */
struct news {
	uint64_t tenant, content, key[DEPTHS_MAX];	/* key: of openings that were set */
	uint32_t n;
	bool whole;			/* the head is new here too */
};

size_t head_parts_bytes(const struct parts *x);
/* Write pages and names. */
void head_copy_parts(void *to, const struct parts *x);
/* Tell if a head has room, with all its openings. */
bool head_is_fit(const struct heads *h, const struct parts *x);

/* Set the openings of <w> to its head, which is made of <x> if it is new; <x> NULL: it must be
 * known. Leaves those openings in <w> that were changed by that. The lock is held. */
void heads_store(struct heads *h, struct news *w, const struct parts *x);

/* Let other agents know of <w>. The lock is not held. */
void heads_tell_news(const struct heads *h, const struct news *w, const struct parts *x);

#endif
