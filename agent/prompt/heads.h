/* heads.h - remember the head of a body (model, adapter, tools, system) by its opening pages.
 *
 * Clients send "messages" first. If a body is truncated before "model" and "tools", its head is
 * taken from the last complete body of the same tenant and pool whose messages began with the
 * same pages, usually an earlier turn of the same conversation.
 *
 * An opening is stored at depths 1, 2, 8, 32, ... pages and looked up deepest first, so that the
 * most specific earlier body wins. Depth 1 is often a system prompt that many share; there the
 * last body wins. Bytes are bounded in total and per tenant. Eviction takes the oldest opening; one
 * that was used is passed over and becomes the newest, but at most 16 are in a row (CLOCK).
 * Bodies with a cache salt are never stored, because a salt must not be guessed. Takes its own
 * lock. */
#ifndef KVROUTE_PROMPT_HEADS_H
#define KVROUTE_PROMPT_HEADS_H

#include "agent/prompt/prompt.h"

struct heads;

struct heads_opts {
	size_t max_bytes;		/* default 16 MiB, at least 64 KiB */
	size_t max_tenant_bytes;	/* of one tenant; default 2 MiB */
	uint32_t max_head_pages;	/* a head with more system + tools pages is not stored; 8192 */
};

void heads_defaults(struct heads_opts *o);
struct heads *heads_new(const struct heads_opts *o, const struct hash_key *key);
void heads_free(struct heads *h);

/* Store the head of <p>, if it is a complete body without salt. <scope> is a hash of tenant and
 * pool, which must not be mixed. <tenant> is charged for the bytes. O(log(messages)). */
void heads_add(struct heads *h, uint64_t tenant, uint64_t scope, const struct prompt *p);

/* Return a copy of the head for the opening of <p>; free it with heads_release(). Returns NULL
 * if none is known, or if the part of the head that <p> holds (model, adapter, salt, system,
 * tools) differs. */
struct prompt_head *heads_find(struct heads *h, uint64_t tenant, uint64_t scope,
			       const struct prompt *p);
void heads_release(struct prompt_head *head);	/* <head> may be NULL */

/* ---- for agents that share ----------------------------------------------------------------- */

/* Call <tell> for each heads_add() that changed something, with bytes for the heads_take() of other
 * agents with the same key: hashes, and the names of model and adapter. The bytes are valid for the
 * call; no lock is held. To be called before any thread adds. */
typedef void heads_tell_fn(void *arg, uint64_t tenant, struct span bytes);
void heads_tell(struct heads *h, heads_tell_fn *tell, void *arg);

/* Store what another agent has added. A head that it has told before is named only; if that is not
 * known here, nothing is stored. Returns false if the bytes make no sense. */
bool heads_take(struct heads *h, struct span bytes);

struct heads_stats {
	uint64_t bytes, heads, openings, found, missed, evicted;
};

void heads_stats(struct heads *h, struct heads_stats *s);

#endif
