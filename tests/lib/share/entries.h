/* entries.h - random entries of every kind, and their comparison field by field, for tests, fuzzing
 * and the bench of agent/share. Each .c that includes it has its own copies of the lists. */
#ifndef TESTS_SHARE_ENTRIES_H
#define TESTS_SHARE_ENTRIES_H

#include <stdio.h>

#include "agent/base/rng.h"
#include "agent/share/share.h"

static page_key entry_pages[SHARE_PAGES_MAX + 100];
static struct share_anchor entry_ends[SHARE_ENDS_MAX + 100];
static char entry_bytes[SHARE_HEAD_MAX + 100];

static inline struct hash_key entry_key(uint64_t seed)
{
	struct hash_key key;
	struct rng rng;

	rng_init(&rng, seed);
	for (size_t i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&rng);
	return key;
}

/* Small numbers, numbers of any size, and the limits. */
static inline uint64_t entry_number(struct rng *rng, uint64_t max)
{
	switch (rng_below(rng, 8)) {
	case 0:
		return 0;
	case 1:
		return max;
	case 2:
		return max - (max > 0);
	default:
		return (rng_next(rng) >> rng_below(rng, 64)) % (max == UINT64_MAX ? max : max + 1);
	}
}

static inline int64_t entry_maybe(struct rng *rng, uint64_t max)
{
	return rng_below(rng, 4) == 0 ? -1 : (int64_t)entry_number(rng, max);
}

static inline uint32_t entry_count(struct rng *rng, uint32_t max)
{
	uint32_t small = rng_below(rng, 16) == 0 ? max : rng_below(rng, 40);

	return small < max ? small : max;
}

/* One of 40 servers of 4 pools, at times without a name. */
static inline struct share_server entry_server(struct rng *rng)
{
	static char names[40][16];
	static const char *const pools[] = { "llm", "chat", "", "a" };
	uint32_t i = rng_below(rng, 40);

	snprintf(names[i], sizeof(names[i]), "server%u", i);
	return (struct share_server){ span_str(pools[i % 4]), span_str(i == 7 ? "" : names[i]) };
}

static inline struct share_space entry_space(struct rng *rng)
{
	return (struct share_space){
		.h = { rng_next(rng), rng_next(rng) },
		.tenant = entry_number(rng, UINT64_MAX),
		.part_room = (uint32_t)entry_number(rng, SHARE_ROOM_MAX),
		.page_room = (uint32_t)entry_number(rng, SHARE_ROOM_MAX),
	};
}

static inline struct share_anchor entry_anchor(struct rng *rng)
{
	struct share_anchor a = { .depth = (uint32_t)entry_number(rng, SHARE_DEPTH_MAX) };

	a.hash = a.depth > 0 ? rng_next(rng) : 0;
	return a;
}

static inline double entry_seconds(struct rng *rng)
{
	return (double)entry_number(rng, (uint64_t)(SHARE_SECONDS_MAX * 1e6)) / 1e6;
}

static inline void entry_fact(struct rng *rng, struct share_fact *s)
{
	struct share_server at = entry_server(rng);
	struct fact *f = &s->fact;

	fact_init(f, rng_below(rng, 2) ? FACT_DONE : FACT_FIRST);
	s->uid = rng_next(rng);
	s->process = rng_next(rng);
	f->pool = at.pool;
	f->server = at.server;
	f->type = rng_below(rng, 2) ? SPAN("text/event-stream") : SPAN("");
	f->status = (int32_t)entry_maybe(rng, 0xffff);
	f->end = rng_below(rng, END_PROXY + 1);
	f->queue_ms = entry_maybe(rng, SHARE_NUMBER_MAX);
	f->connect_ms = entry_maybe(rng, SHARE_NUMBER_MAX);
	f->response_ms = entry_maybe(rng, SHARE_NUMBER_MAX);
	f->total_ms = entry_maybe(rng, SHARE_NUMBER_MAX);
	f->bytes_out = entry_maybe(rng, SHARE_NUMBER_MAX);
	f->bytes_in = entry_maybe(rng, SHARE_NUMBER_MAX);
	f->retries = (int32_t)entry_maybe(rng, 0xffff);
	f->redispatched = rng_below(rng, 2);
	f->prompt_tokens = entry_maybe(rng, SHARE_TOKENS_MAX);
	f->output_tokens = entry_maybe(rng, SHARE_TOKENS_MAX);
	f->stored = rng_below(rng, 2) ? rng_next(rng) : 0;
}

static inline void entry_placed(struct rng *rng, struct share_placed *p, uint32_t max_pages)
{
	*p = (struct share_placed){
		.uid = rng_next(rng), .process = rng_next(rng), .at = entry_server(rng),
		.space = entry_space(rng), .anchor = entry_anchor(rng), .pages = entry_pages,
		.n = entry_count(rng, max_pages),
		.priority = (uint8_t)entry_number(rng, SHARE_PRIORITIES - 1),
		.uncertain = rng_below(rng, 2), .nominal_s = entry_seconds(rng),
		.unseen_s = entry_seconds(rng), .work_tokens = entry_number(rng, SHARE_TOKENS_MAX),
		.prompt_tokens = entry_number(rng, SHARE_TOKENS_MAX),
		.common_tokens = entry_number(rng, SHARE_TOKENS_MAX),
		.branched = (uint32_t)entry_number(rng, SHARE_DEPTH_MAX),
		.grown = (uint32_t)entry_number(rng, SHARE_DEPTH_MAX),
		.block = (uint32_t)entry_number(rng, SHARE_DEPTH_MAX),
		.streams = rng_below(rng, 2), .whole = rng_below(rng, 2), .generates = rng_below(rng, 2),
	};
	if (p->grown > 0)
		p->grown_ago_ms = (msec)entry_number(rng, SHARE_NUMBER_MAX);
	if (rng_below(rng, 2))
		p->end = (struct share_end){ rng_next(rng), entry_number(rng, SHARE_TOKENS_MAX),
			(uint32_t)rng_next(rng), (uint16_t)rng_next(rng) };
	p->stores = rng_below(rng, 2) ? rng_next(rng) : 0;
	if (rng_below(rng, 2) == 0)
		return;
	p->session.key = rng_next(rng) | 1;
	p->session.tenant = rng_next(rng);
	p->session.kind = rng_next(rng);
	p->session.tokens = entry_number(rng, SHARE_TOKENS_MAX);
	p->session.hidden = (uint32_t)entry_number(rng, UINT32_MAX);
	p->session.cut = rng_below(rng, 2);
	p->session.again = rng_below(rng, 2);
	p->session.rough = rng_below(rng, 2);
}

static inline void entry_lists(struct rng *rng)
{
	for (size_t i = 0; i < sizeof(entry_pages) / sizeof(entry_pages[0]); i++)
		entry_pages[i] = rng_next(rng);
	for (size_t i = 0; i < sizeof(entry_ends) / sizeof(entry_ends[0]); i++)
		entry_ends[i] = (struct share_anchor){ rng_next(rng),
			(uint32_t)entry_number(rng, SHARE_DEPTH_MAX) };
	for (size_t i = 0; i < sizeof(entry_bytes); i++)
		entry_bytes[i] = (char)rng_next(rng);
}

/* An entry of any kind. Lists are at most <longest>, and never above their limit. */
static inline struct share_entry entry_random(struct rng *rng, uint32_t longest)
{
	struct share_entry e = { .kind = 1 + rng_below(rng, SHARE_KINDS - 1) };
	uint32_t pages = longest < SHARE_PAGES_MAX ? longest : SHARE_PAGES_MAX;
	uint32_t ends = longest < SHARE_ENDS_MAX ? longest : SHARE_ENDS_MAX;
	uint32_t sums = longest < SHARE_SUMS_MAX ? longest : SHARE_SUMS_MAX;

	switch (e.kind) {
	case SHARE_PLACED:
		entry_placed(rng, &e.u.placed, pages);
		break;
	case SHARE_FACT:
		entry_fact(rng, &e.u.fact);
		break;
	case SHARE_TAKEN_BACK:
		e.u.taken_back = (struct share_taken_back){ rng_next(rng), rng_below(rng, 2) };
		break;
	case SHARE_HELD:
		e.u.held = (struct share_held){ entry_server(rng), entry_space(rng), entry_anchor(rng),
			entry_pages, entry_count(rng, pages), (uint8_t)rng_next(rng),
			(uint8_t)entry_number(rng, SHARE_PRIORITIES - 1),
			(msec)entry_number(rng, SHARE_NUMBER_MAX) };
		break;
	case SHARE_CLEARED:
		e.u.cleared = (struct share_cleared){ entry_server(rng), rng_below(rng, 2),
			(msec)entry_number(rng, SHARE_NUMBER_MAX) };
		break;
	case SHARE_SERVER:
		e.u.server = (struct share_learned){ entry_server(rng),
			(uint32_t)entry_number(rng, UINT32_MAX), (uint32_t)entry_number(rng, UINT32_MAX),
			entry_number(rng, SHARE_TOKENS_MAX) };
		break;
	case SHARE_HEAD:
		e.u.head.bytes = span_of(entry_bytes, rng_below(rng, longest < 1000 ? longest + 1 : 1001));
		break;
	case SHARE_ALIVE:
		e.u.alive = (struct share_alive){ rng_below(rng, 2),
			(uint32_t)entry_number(rng, UINT32_MAX) };
		break;
	case SHARE_DIGEST:
		e.u.digest = (struct share_digest){ entry_server(rng),
			(uint32_t)entry_number(rng, SHARE_DEPTH_MAX), entry_pages, entry_count(rng, sums),
			(msec)entry_number(rng, SHARE_NUMBER_MAX), entry_maybe(rng, SHARE_NUMBER_MAX),
			entry_maybe(rng, SHARE_NUMBER_MAX), entry_maybe(rng, SHARE_NUMBER_MAX) };
		break;
	case SHARE_ENDS:
		e.u.ends = (struct share_ends){ entry_server(rng),
			(uint32_t)entry_number(rng, SHARE_DEPTH_MAX), entry_ends, entry_count(rng, ends),
			rng_next(rng), entry_maybe(rng, SHARE_NUMBER_MAX) };
		break;
	default:
		e.u.want = (struct share_want){ entry_server(rng), entry_ends, entry_count(rng, ends),
			rng_next(rng) };
	}
	return e;
}

/* ---- comparison ---------------------------------------------------------------------------- */

#define SAME(field)	(a->field == b->field)

static inline bool same_server(const struct share_server *a, const struct share_server *b)
{
	return span_eq(a->pool, b->pool) && span_eq(a->server, b->server);
}

static inline bool same_space(const struct share_space *a, const struct share_space *b)
{
	return SAME(h[0]) && SAME(h[1]) && SAME(tenant) && SAME(part_room) && SAME(page_room);
}

static inline bool same_anchor(const struct share_anchor *a, const struct share_anchor *b)
{
	return SAME(hash) && SAME(depth);
}

static inline bool same_hashes(const uint64_t *a, uint32_t n, const uint64_t *b, uint32_t m)
{
	return n == m && (n == 0 || memcmp(a, b, n * sizeof(*a)) == 0);
}

static inline bool same_ends(
    const struct share_anchor *a, uint32_t n, const struct share_anchor *b, uint32_t m)
{
	uint32_t i = 0;

	if (n != m)
		return false;
	while (i < n && same_anchor(&a[i], &b[i]))
		i++;
	return i == n;
}

static inline bool same_placed(const struct share_placed *a, const struct share_placed *b)
{
	return SAME(uid) && SAME(process) && same_server(&a->at, &b->at) &&
	    same_space(&a->space, &b->space) && same_anchor(&a->anchor, &b->anchor) &&
	    same_hashes(a->pages, a->n, b->pages, b->n) && SAME(priority) && SAME(uncertain) &&
	    SAME(nominal_s) && SAME(unseen_s) && SAME(work_tokens) && SAME(prompt_tokens) &&
	    SAME(common_tokens) && SAME(branched) && SAME(grown) && SAME(grown_ago_ms) && SAME(block) &&
	    SAME(streams) && SAME(whole) && SAME(generates) && SAME(end.key) && SAME(end.tokens) &&
	    SAME(end.tail) && SAME(end.n_tail) && SAME(session.key) && SAME(session.tenant) &&
	    SAME(session.kind) && SAME(session.tokens) && SAME(session.hidden) && SAME(session.cut) &&
	    SAME(session.again) && SAME(session.rough) && SAME(stores);
}

/* Also the fields that do not travel: those of <a> are empty. */
static inline bool same_fact(const struct fact *a, const struct fact *b)
{
	return SAME(kind) && span_eq(a->uid, b->uid) && span_eq(a->pool, b->pool) &&
	    span_eq(a->server, b->server) && span_eq(a->wanted, b->wanted) &&
	    span_eq(a->type, b->type) && SAME(status) && SAME(end) && SAME(queue_ms) &&
	    SAME(connect_ms) && SAME(response_ms) && SAME(total_ms) && SAME(bytes_out) &&
	    SAME(bytes_in) && SAME(retries) && SAME(redispatched) && SAME(prompt_tokens) &&
	    SAME(output_tokens) && SAME(stored) && span_eq(a->response, b->response) &&
	    span_eq(a->orca, b->orca) && span_eq(a->token, b->token) &&
	    SAME(line) && SAME(has_why) && span_eq(a->why, b->why) && SAME(error) && SAME(lacks);
}

static inline bool same_held(const struct share_held *a, const struct share_held *b)
{
	return same_server(&a->at, &b->at) && same_space(&a->space, &b->space) &&
	    same_anchor(&a->anchor, &b->anchor) && same_hashes(a->pages, a->n, b->pages, b->n) &&
	    SAME(hits) && SAME(priority) && SAME(unused_ms);
}

static inline bool same_entry(const struct share_entry *a, const struct share_entry *b)
{
	if (!SAME(kind))
		return false;
	switch (a->kind) {
	case SHARE_PLACED:
		return same_placed(&a->u.placed, &b->u.placed);
	case SHARE_FACT:
		return SAME(u.fact.uid) && SAME(u.fact.process) &&
		    same_fact(&a->u.fact.fact, &b->u.fact.fact);
	case SHARE_TAKEN_BACK:
		return SAME(u.taken_back.uid) && SAME(u.taken_back.served);
	case SHARE_HELD:
		return same_held(&a->u.held, &b->u.held);
	case SHARE_CLEARED:
		return same_server(&a->u.cleared.at, &b->u.cleared.at) && SAME(u.cleared.gone) &&
		    SAME(u.cleared.ago_ms);
	case SHARE_SERVER:
		return same_server(&a->u.server.at, &b->u.server.at) && SAME(u.server.slowness_first) &&
		    SAME(u.server.slowness_headers) && SAME(u.server.capacity_tokens);
	case SHARE_HEAD:
		return span_eq(a->u.head.bytes, b->u.head.bytes);
	case SHARE_ALIVE:
		return SAME(u.alive.warm) && SAME(u.alive.open);
	case SHARE_DIGEST:
		return same_server(&a->u.digest.at, &b->u.digest.at) && SAME(u.digest.first_part) &&
		    same_hashes(a->u.digest.sums, a->u.digest.n, b->u.digest.sums, b->u.digest.n) &&
		    SAME(u.digest.quiet_ms) && SAME(u.digest.cleared_ago_ms) && SAME(u.digest.oldest_ms) &&
		    SAME(u.digest.evicted_ago_ms);
	case SHARE_ENDS:
		return same_server(&a->u.ends.at, &b->u.ends.at) && SAME(u.ends.part) && SAME(u.ends.to) &&
		    same_ends(a->u.ends.ends, a->u.ends.n, b->u.ends.ends, b->u.ends.n) &&
		    SAME(u.ends.evicted_ago_ms);
	default:
		return same_server(&a->u.want.at, &b->u.want.at) && SAME(u.want.from) &&
		    same_ends(a->u.want.ends, a->u.want.n, b->u.want.ends, b->u.want.n);
	}
}

#endif
