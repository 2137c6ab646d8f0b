/* heads.h - the head of a body (model, adapter, tools, system) remembered by its opening pages.
 *
 * Clients send "messages" first. When the body is cut before "model" and "tools" come, the head is
 * taken from the last whole body of the same tenant and pool whose messages opened with the same
 * pages: an earlier, shorter turn of the conversation, as a rule.
 *
 * An opening is remembered at depths 1, 2, 4, 8, ... pages, and looked up deepest first, so that the
 * most specific earlier body wins; depth 1 is often a system prompt many share, where the last body
 * wins. Bounded in bytes over all, and in its share for each tenant; the oldest entry goes first.
 * Bodies with a cache salt are never remembered: a salt must not be guessed. Locks itself. */
#ifndef KVROUTE_PROMPT_HEADS_H
#define KVROUTE_PROMPT_HEADS_H

#include "agent/prompt/prompt.h"

struct heads;

struct heads_opts {
	size_t max_bytes;		/* default 16 MiB; at least 64 KiB are taken */
	size_t max_tenant_bytes;	/* of one tenant; default 2 MiB */
	uint32_t max_head_pages;	/* heads with more system + tools pages are not kept; 8192 */
};

void heads_defaults(struct heads_opts *o);
struct heads *heads_new(const struct heads_opts *o, const struct hash_key *key);
void heads_free(struct heads *h);

/* Remember the head of <p>, a whole body without salt; anything else is ignored.
 * <scope> is a hash of all that must not be mixed: tenant and pool. <tenant> is for the share. */
void heads_add(struct heads *h, uint64_t tenant, uint64_t scope, const struct prompt *p);

/* A copy of the head for the opening of <p>, for the caller to free with heads_release(); NULL when
 * none is known, or when what <p> did see (model, adapter, salt, system, tools) disagrees. */
struct prompt_head *heads_find(struct heads *h, uint64_t tenant, uint64_t scope,
			       const struct prompt *p);
void heads_release(struct prompt_head *head);	/* takes NULL */

struct heads_stats {
	uint64_t bytes, heads, openings, found, missed, evicted;
};

void heads_stats(struct heads *h, struct heads_stats *s);

#endif
