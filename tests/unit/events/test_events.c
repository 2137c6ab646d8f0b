/* test_events.c - the event door, story by story. A page is a letter here, and a block is named by
 * the letters up to its end, so "ab" is the handle of block b after block a. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/events/events_in.h"
#include "tests/unit/rounds.h"

static const uint64_t space[2] = { 1, 2 }, other_space[2] = { 2, 1 };
static struct hash_key key;

struct door {
	struct events *ev;
	struct events_match m;
};

static struct door open_door(size_t max_bytes, uint32_t max_holders, uint32_t max_parked)
{
	struct events_opts o;
	struct door d;

	events_defaults(&o);
	o.max_bytes = max_bytes;
	o.max_holders = max_holders;
	o.max_parked = max_parked;
	o.key = &key;
	d.ev = events_new(&o);
	assert_non_null(d.ev);
	assert_int_equal(events_match_init(&d.m), 0);
	return d;
}

static void close_door(struct door *d)
{
	if (events_check(d->ev) != NULL)
		print_message("%s\n", events_check(d->ev));
	assert_null(events_check(d->ev));
	events_match_fini(&d->m);
	events_free(d->ev);
}

static struct door a_door(void)
{
	return open_door(1 << 20, 64, 8);
}

static uint64_t handle_of(const char *text, size_t n, uint16_t rank)
{
	uint64_t h = 14695981039346656037ull + rank;

	while (n-- > 0)
		h = (h ^ (uint8_t)*text++) * 1099511628211ull;
	return h;
}

static void pages_of(const char *text, page_key *keys)
{
	for (; *text != '\0'; text++)
		*keys++ = (uint8_t)*text * 0x9e3779b97f4a7c15ull;
}

/* Store blocks of <size> letters: those of <text> after its first <behind> letters. */
static uint32_t stored_of(struct door *d, server_id server, uint16_t rank, const char *text,
    size_t behind, uint32_t size, enum events_tier tier)
{
	page_key keys[64];
	uint64_t handles[64];
	struct events_run run = { .server = server,
		.rank = rank,
		.tier = tier,
		.block_pages = size,
		.handles = handles,
		.keys = keys + behind,
		.space = space,
		.has_parent = behind > 0 };

	pages_of(text, keys);
	run.parent = handle_of(text, behind, rank);
	run.n = (uint32_t)((strlen(text) - behind) / size);
	for (uint32_t i = 0; i < run.n; i++)
		handles[i] = handle_of(text, behind + (i + 1) * size, rank);
	return events_stored(d->ev, &run);
}

static uint32_t stored(struct door *d, server_id server, const char *text, size_t behind)
{
	return stored_of(d, server, 0, text, behind, 1, EVENTS_DEVICE);
}

static uint32_t removed_of(
    struct door *d, server_id server, uint16_t rank, const char *text, enum events_tier tier)
{
	uint64_t handle = handle_of(text, strlen(text), rank);

	return events_removed(d->ev, server, rank, &handle, 1, tier);
}

static uint32_t removed(struct door *d, server_id server, const char *text)
{
	return removed_of(d, server, 0, text, EVENTS_DEVICE);
}

static uint32_t pages(struct door *d, server_id server, const char *text)
{
	page_key keys[64];

	pages_of(text, keys);
	events_match(d->ev, space, keys, strlen(text), &d->m);
	return events_match_pages(&d->m, server);
}

static struct events_stats stats(struct door *d)
{
	struct events_stats st;

	events_stats(d->ev, &st);
	return st;
}

/* ---- contiguity ---- */

static void as_far_as_each_goes(void **state)
{
	struct door d = a_door();
	page_key keys[4];

	assert_int_equal(stored(&d, 1, "abcd", 0), 4);
	assert_int_equal(stored(&d, 2, "abxy", 0), 4);
	assert_int_equal(pages(&d, 1, "abcdef"), 4);
	assert_int_equal(events_match_pages(&d.m, 2), 2);
	assert_int_equal(d.m.n_hits, 2);
	assert_int_equal(pages(&d, 1, "abc"), 3);
	assert_int_equal(pages(&d, 1, "bcd"), 0);
	assert_int_equal(d.m.n_hits, 0);
	assert_int_equal(pages(&d, 1, ""), 0);
	pages_of("abcd", keys);
	events_match(d.ev, other_space, keys, 4, &d.m);
	assert_int_equal(d.m.n_hits, 0);
	close_door(&d);
}

static void an_inner_block_goes(void **state)
{
	struct door d = a_door();

	stored(&d, 1, "abcd", 0);
	assert_int_equal(removed(&d, 1, "ab"), 1);
	assert_int_equal(pages(&d, 1, "abcd"), 1);
	assert_int_equal(stats(&d).records, 3);
	assert_int_equal(removed(&d, 1, "ab"), 0);
	assert_int_equal(stats(&d).unknown, 1);
	stored(&d, 1, "ab", 1);
	assert_int_equal(pages(&d, 1, "abcd"), 4);
	/* the parent is gone, but the block is not: the next one can follow it */
	removed(&d, 1, "abc");
	assert_int_equal(stored(&d, 1, "abcde", 3), 2);
	assert_int_equal(stats(&d).parked, 0);
	stored(&d, 1, "abc", 2);
	assert_int_equal(pages(&d, 1, "abcde"), 5);
	close_door(&d);
}

static void blocks_of_every_size(void **state)
{
	struct door d = a_door();
	const char *text = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN";
	static const uint32_t sizes[] = { 1, 2, 4, 8, 32 };
	uint32_t i;

	for (i = 0; i < 5; i++)
		assert_int_equal(stored_of(&d, (server_id)i, 0, text, 0, sizes[i], EVENTS_DEVICE), 40 / sizes[i]);
	assert_int_equal(pages(&d, 0, text), 40);
	for (i = 1; i < 5; i++)
		assert_int_equal(events_match_pages(&d.m, (server_id)i), 40 / sizes[i] * sizes[i]);
	pages(&d, 0, "abcdefghijk");
	for (i = 0; i < 5; i++)
		assert_int_equal(events_match_pages(&d.m, (server_id)i), 11 / sizes[i] * sizes[i]);
	/* a rank has one block size while it has blocks */
	assert_int_equal(stored_of(&d, 1, 0, "xyz", 0, 3, EVENTS_DEVICE), 0);
	assert_int_equal(stats(&d).odd, 1);
	stored_of(&d, 9, 0, "xy", 0, 2, EVENTS_DEVICE);
	removed(&d, 9, "xy");
	assert_int_equal(stored_of(&d, 9, 0, "xyz", 0, 3, EVENTS_DEVICE), 1);
	assert_int_equal(pages(&d, 9, "xyz"), 3);
	close_door(&d);
}

static void a_rank_is_a_cache_of_its_own(void **state)
{
	struct door d = a_door();

	stored_of(&d, 1, 0, "abcd", 0, 1, EVENTS_DEVICE);
	stored_of(&d, 1, 1, "abcd", 0, 1, EVENTS_DEVICE);
	removed_of(&d, 1, 0, "ab", EVENTS_DEVICE);
	removed_of(&d, 1, 1, "abcd", EVENTS_DEVICE);
	assert_int_equal(pages(&d, 1, "abcd"), 3);
	assert_int_equal(d.m.n_hits, 1);
	assert_int_equal(d.m.hits[0].rank, 1);
	events_cleared(d.ev, 1, 1);
	assert_int_equal(pages(&d, 1, "abcd"), 1);
	close_door(&d);
}

/* ---- copies and tiers ---- */

static void copies(void **state)
{
	struct door d = a_door();
	unsigned i;

	for (i = 0; i < 3; i++)
		stored(&d, 1, "a", 0);
	for (i = 0; i < 3; i++) {
		assert_int_equal(pages(&d, 1, "a"), 1);
		assert_int_equal(removed(&d, 1, "a"), 1);
	}
	assert_int_equal(pages(&d, 1, "a"), 0);
	for (i = 0; i < 40; i++)
		stored(&d, 1, "a", 0);
	for (i = 0; i < EVENTS_COPIES_MAX; i++)
		assert_int_equal(removed(&d, 1, "a"), 1);
	assert_int_equal(removed(&d, 1, "a"), 0);
	assert_int_equal(stats(&d).records, 0);
	close_door(&d);
}

/* The frames of SGLang that name every tier: ../shared/data/kvevents/s_medium. */
static void tiers_as_sglang_says_them(void **state)
{
	static const uint64_t h[2] = { 0xffd2096221cf7c3d, 0x5896e29f0df73626 };
	static const page_key page[2] = { 11, 12 };
	struct door d = a_door();
	struct events_run run = {
		.server = 3, .n = 2, .block_pages = 1, .handles = h, .keys = page, .space = space
	};

	assert_int_equal(events_stored(d.ev, &run), 2);
	assert_int_equal(events_removed(d.ev, 3, 0, &h[1], 1, EVENTS_DEVICE), 1);
	run = (struct events_run){ .server = 3,
		.n = 1,
		.block_pages = 1,
		.handles = &h[1],
		.keys = &page[1],
		.space = space,
		.has_parent = true,
		.parent = h[0],
		.tier = EVENTS_HOST };
	assert_int_equal(events_stored(d.ev, &run), 1);
	run = (struct events_run){ .server = 3,
		.n = 1,
		.block_pages = 1,
		.handles = h,
		.keys = page,
		.space = space,
		.tier = EVENTS_DISK };
	assert_int_equal(events_stored(d.ev, &run), 1);
	run.tier = EVENTS_OTHER;
	assert_int_equal(events_stored(d.ev, &run), 1);
	events_match(d.ev, space, page, 2, &d.m);
	assert_int_equal(d.m.hits[0].in_tier[EVENTS_DEVICE], 1);
	assert_int_equal(events_removed(d.ev, 3, 0, h, 1, EVENTS_DEVICE), 1);
	events_match(d.ev, space, page, 2, &d.m);
	assert_int_equal(d.m.hits[0].pages, 2);
	assert_int_equal(d.m.hits[0].in_tier[EVENTS_DEVICE], 0);
	assert_int_equal(d.m.hits[0].in_tier[EVENTS_HOST], 1);
	assert_int_equal(d.m.hits[0].in_tier[EVENTS_DISK], 1);
	assert_int_equal(d.m.hits[0].in_tier[EVENTS_OTHER], 0);
	run.tier = EVENTS_TIERS;
	assert_int_equal(events_stored(d.ev, &run), 0);
	assert_int_equal(events_removed(d.ev, 3, 0, h, 1, EVENTS_TIERS), 0);
	close_door(&d);
}

/* vLLM's offloading reports a block without its tokens. */
static void without_tokens(void **state)
{
	struct door d = a_door();
	uint64_t handles[2] = { handle_of("ab", 2, 0), 77 };
	struct events_run run = { .server = 1, .n = 2, .handles = handles, .tier = EVENTS_HOST };

	assert_int_equal(events_stored(d.ev, &run), 0);
	stored(&d, 1, "abc", 0);
	assert_int_equal(events_stored(d.ev, &run), 1);
	assert_int_equal(stats(&d).unknown, 3);
	removed(&d, 1, "ab");
	assert_int_equal(pages(&d, 1, "abc"), 3);
	assert_int_equal(d.m.hits[0].in_tier[EVENTS_HOST], 1);
	close_door(&d);
}

/* ---- parents that are not known ---- */

static void parked_and_joined(void **state)
{
	struct door d = a_door();

	assert_int_equal(stored(&d, 1, "abcdef", 4), 2);
	assert_int_equal(stored(&d, 1, "abcd", 2), 2);
	assert_int_equal(stored(&d, 1, "abX", 2), 1);
	assert_int_equal(stats(&d).parked, 5);
	assert_int_equal(pages(&d, 1, "abcdef"), 0);
	assert_int_equal(stored(&d, 2, "ab", 0), 2);		/* another server's block is no parent */
	assert_int_equal(stats(&d).parked, 5);
	assert_int_equal(stored(&d, 1, "ab", 0), 2);
	assert_int_equal(pages(&d, 1, "abcdef"), 6);
	assert_int_equal(pages(&d, 1, "abX"), 3);
	assert_int_equal(stats(&d).parked, 0);
	assert_int_equal(stats(&d).joined, 5);
	close_door(&d);
}

static void parked_and_gone(void **state)
{
	struct door d = a_door();

	stored(&d, 1, "abcdef", 2);
	stored(&d, 1, "abcd", 3);
	assert_int_equal(removed(&d, 1, "abcd"), 1);
	assert_int_equal(removed(&d, 1, "abcd"), 1);	/* it was there twice */
	assert_int_equal(removed(&d, 1, "abcd"), 0);
	stored(&d, 1, "ab", 0);
	assert_int_equal(pages(&d, 1, "abcdef"), 3);
	assert_int_equal(stats(&d).parked, 2);
	stored(&d, 1, "abcd", 3);
	assert_int_equal(pages(&d, 1, "abcdef"), 6);
	stored(&d, 1, "xyz", 1);
	events_cleared(d.ev, 1, 0);
	assert_int_equal(stats(&d).parked, 0);
	stored(&d, 1, "x", 0);
	assert_int_equal(pages(&d, 1, "xyz"), 1);
	close_door(&d);
}

static void the_oldest_parked_goes(void **state)
{
	struct door d = a_door();		/* room for 8 */

	stored(&d, 1, "ab", 1);
	stored(&d, 2, "ab", 1);
	stored(&d, 1, "xbcdefgh", 1);
	assert_int_equal(stats(&d).parked, 8);
	assert_int_equal(stats(&d).parked_dropped, 1);
	assert_int_equal(events_server_lost(d.ev, 1), 1);
	assert_int_equal(events_server_lost(d.ev, 2), 0);
	stored(&d, 1, "a", 0);
	stored(&d, 2, "a", 0);
	assert_int_equal(pages(&d, 1, "ab"), 1);
	assert_int_equal(events_match_pages(&d.m, 2), 2);
	stored(&d, 1, "x", 0);
	assert_int_equal(pages(&d, 1, "xbcdefgh"), 8);
	close_door(&d);
}

/* ---- what cannot be true ---- */

static void a_handle_means_one_block(void **state)
{
	struct door d = a_door();
	uint64_t handles[4] = { 1, 2, 1, 3 };
	page_key keys[4] = { 5, 6, 7, 8 };
	struct events_run run = { .server = 1,
		.n = 4,
		.block_pages = 1,
		.handles = handles,
		.keys = keys,
		.space = space };

	assert_int_equal(events_stored(d.ev, &run), 2);		/* 1 again, after 2 */
	assert_int_equal(stats(&d).odd, 2);
	run = (struct events_run){ .server = 1,
		.n = 1,
		.block_pages = 1,
		.handles = &handles[3],
		.keys = keys,
		.space = space,
		.has_parent = true,
		.parent = 3 };
	assert_int_equal(events_stored(d.ev, &run), 0);		/* its own parent */
	assert_int_equal(stats(&d).odd, 3);
	run.parent = 99;
	assert_int_equal(events_stored(d.ev, &run), 1);
	run.parent = 98;
	assert_int_equal(events_stored(d.ev, &run), 0);		/* parked after another */
	/* parked after one parent and now without any: only the latter has a place */
	run.has_parent = false;
	assert_int_equal(events_stored(d.ev, &run), 1);
	assert_int_equal(stats(&d).odd, 5);
	assert_int_equal(stats(&d).parked, 0);
	close_door(&d);
}

/* A handle of 0 is like any other, also as a parent. */
static void handle_zero(void **state)
{
	struct door d = a_door();
	uint64_t handles[2] = { 0, 1 };
	page_key keys[2] = { 5, 6 };
	struct events_run run = { .server = 1,
		.n = 1,
		.block_pages = 1,
		.handles = &handles[1],
		.keys = &keys[1],
		.space = space,
		.has_parent = true };

	assert_int_equal(events_stored(d.ev, &run), 1);
	assert_int_equal(stats(&d).parked, 1);
	run = (struct events_run){ .server = 1,
		.n = 1,
		.block_pages = 1,
		.handles = handles,
		.keys = keys,
		.space = space };
	assert_int_equal(events_stored(d.ev, &run), 1);
	events_match(d.ev, space, keys, 2, &d.m);
	assert_int_equal(events_match_pages(&d.m, 1), 2);
	close_door(&d);
}

/* ---- going ---- */

static void cleared_at_once_and_bit_by_bit(void **state)
{
	struct door d = a_door();
	unsigned steps = 0;

	stored(&d, 1, "abcdefghij", 0);
	stored_of(&d, 1, 1, "abc", 0, 1, EVENTS_DISK);
	stored(&d, 2, "ab", 0);
	events_cleared(d.ev, 1, 0);
	assert_int_equal(pages(&d, 1, "abcdefghij"), 3);
	assert_int_equal(stats(&d).records, 15);
	assert_int_equal(events_server_records(d.ev, 1), 3);
	stored(&d, 1, "abcd", 0);			/* it continues at once */
	assert_int_equal(pages(&d, 1, "abcdefghij"), 4);
	while (events_tick(d.ev, 3))
		steps++;
	assert_int_equal(steps, 3);
	assert_int_equal(stats(&d).records, 9);
	assert_int_equal(pages(&d, 1, "abcdefghij"), 4);
	events_drop_server(d.ev, 1);
	assert_int_equal(pages(&d, 1, "abcd"), 0);
	assert_int_equal(events_match_pages(&d.m, 2), 2);
	assert_false(events_tick(d.ev, 100));
	assert_int_equal(stats(&d).records, 2);
	events_cleared(d.ev, 7, 3);
	events_drop_server(d.ev, 7);
	events_drop_server(d.ev, SERVERS_MAX);
	close_door(&d);
}

static uint32_t stored_in(struct door *d, uint64_t in, uint32_t n, struct rng *rng)
{
	uint64_t handles[64], of[2] = { in, ~in };
	page_key keys[64];
	struct events_run run = { .server = 1, .block_pages = 1, .handles = handles, .keys = keys,
		.space = of, .n = n };

	for (uint32_t i = 0; i < n; i++)
		keys[i] = handles[i] = rng_next(rng);
	events_stored(d->ev, &run);
	events_match(d->ev, of, keys, n, &d->m);
	return events_match_pages(&d->m, 1);
}

/* Memory of keys is used again for runs and spaces. */
static void spaces_after_a_clear(void **state)
{
	struct door d = open_door(8 << 20, 64, 8);
	struct rng rng;

	rng_init(&rng, 4);
	for (uint64_t i = 0; i < 64; i++)
		assert_int_equal(stored_in(&d, 7, 64, &rng), 64);
	events_cleared(d.ev, 1, 0);
	while (events_tick(d.ev, 100))
		;
	for (uint64_t i = 0; i < 500; i++)
		assert_int_equal(stored_in(&d, 1000 + i, 1, &rng), 1);
	events_cleared(d.ev, 1, 0);
	while (events_tick(d.ev, 100))
		;
	close_door(&d);
}

static void capacity(void **state)
{
	struct door d = a_door();

	events_set_capacity(d.ev, 1, 4);
	stored(&d, 1, "ab", 0);
	stored(&d, 1, "xyz", 0);
	assert_int_equal(pages(&d, 1, "ab"), 1);	/* the end of a run is evicted first */
	assert_int_equal(pages(&d, 1, "xyz"), 3);
	stored(&d, 1, "ab", 1);				/* and a is newer than x now */
	assert_int_equal(pages(&d, 1, "ab"), 2);
	assert_int_equal(pages(&d, 1, "xyz"), 2);
	assert_int_equal(stats(&d).evicted, 2);
	assert_int_equal(events_server_records(d.ev, 1), 4);
	assert_int_equal(events_server_lost(d.ev, 1), 0);
	close_door(&d);
}

/* Server 1 fills the budget; server 2 has one block. */
static void evicted_without_room_counts_for_the_server(void **state)
{
	struct door d = a_door();
	uint64_t handles[64];
	struct events_run run = { .server = 1, .n = 64, .block_pages = 1, .handles = handles,
		.keys = handles, .space = space };
	struct rng rng;

	rng_init(&rng, 1);
	stored(&d, 2, "a", 0);
	while (stats(&d).evicted == 0) {
		assert_int_equal(events_server_lost(d.ev, 1), 0);
		for (unsigned i = 0; i < 64; i++)
			handles[i] = rng_next(&rng);
		assert_int_equal(events_stored(d.ev, &run), 64);
	}
	assert_int_equal(events_server_lost(d.ev, 1), stats(&d).evicted);
	assert_int_equal(events_server_lost(d.ev, 2), 0);
	assert_int_equal(events_server_lost(d.ev, SERVERS_MAX), 0);
	events_cleared(d.ev, 1, 0);
	assert_int_equal(events_server_lost(d.ev, 1), stats(&d).evicted);
	events_drop_server(d.ev, 1);
	assert_int_equal(events_server_lost(d.ev, 1), 0);
	close_door(&d);
}

static void refused_without_room_counts_for_the_server(void **state)
{
	struct door d = open_door(1 << 20, 1, 8);

	assert_int_equal(stored(&d, 1, "abc", 0), 3);
	assert_int_equal(stored(&d, 2, "abc", 0), 0);
	assert_int_equal(stored(&d, SERVERS_MAX, "abc", 0), 0);
	assert_int_equal(stats(&d).refused, 6);
	assert_int_equal(events_server_lost(d.ev, 1), 0);
	assert_int_equal(events_server_lost(d.ev, 2), 3);
	close_door(&d);
}

/* ---- many holders ---- */

static void held_by_all_servers(void **state)
{
	struct door d = open_door(4 << 20, 2 * SERVERS_MAX, 8);
	uint64_t bytes;
	uint32_t i;

	for (i = 0; i < SERVERS_MAX; i++)
		assert_int_equal(stored(&d, (server_id)i, "abcdefgh", 0), 8);
	for (i = 0; i < SERVERS_MAX; i += 2)
		assert_int_equal(removed(&d, (server_id)i, "abcde"), 1);
	/* one set for all, and one for those with the hole */
	assert_int_equal(stats(&d).runs, 1);
	assert_int_equal(stats(&d).sets, 2);
	bytes = stats(&d).bytes;
	assert_null(events_check(d.ev));
	assert_int_equal(pages(&d, 0, "abcdefgh"), 4);
	assert_int_equal(d.m.n_hits, SERVERS_MAX);
	for (i = 0; i < SERVERS_MAX; i++)
		assert_int_equal(d.m.hits[i].pages, d.m.hits[i].server % 2 ? 8 : 4);
	for (i = 0; i < SERVERS_MAX; i++)
		events_drop_server(d.ev, (server_id)i);
	while (events_tick(d.ev, 64))
		;
	assert_int_equal(stats(&d).sets, 0);
	assert_int_equal(stats(&d).records, 0);
	assert_int_equal(stats(&d).blocks, 0);
	assert_true(stats(&d).bytes < bytes);
	close_door(&d);
}

/* An engine that came back with another seed reports the same pages under new handles; its old
 * blocks are removed later. */
static void two_handles_for_one_block(void **state)
{
	struct door d = open_door(1 << 20, 64, 8);
	uint64_t handles[2] = { 1, 2 };
	page_key page = 5;
	uint32_t s, i;

	for (s = 0; s < 20; s++) {
		struct events_run run = { .server = (server_id)s,
			.n = 1,
			.block_pages = 1,
			.keys = &page,
			.space = space };

		for (i = 0; i < 2; i++) {
			run.handles = &handles[i];
			assert_int_equal(events_stored(d.ev, &run), 1);
		}
	}
	assert_int_equal(stats(&d).blocks, 1);
	for (i = 0; i < 2; i++) {
		for (s = 0; s < 20; s++)
			assert_int_equal(events_removed(d.ev, (server_id)s, 0,
					     &handles[s % 2 ? i : !i], 1, EVENTS_DEVICE),
			    1);
		events_match(d.ev, space, &page, 1, &d.m);
		assert_int_equal(d.m.n_hits, i == 0 ? 20 : 0);
		assert_null(events_check(d.ev));
	}
	close_door(&d);
}

/* ---- bytes, and handles that were crafted ---- */

/* Each server stores conversations of 64 blocks until the budget is full, then on and on. */
static void bytes_per_record(void **state)
{
	static const size_t budgets[] = { 4 << 20, 16 << 20 };
	uint64_t handles[64];
	page_key keys[64];
	struct events_run run = {
		.n = 64, .block_pages = 1, .handles = handles, .keys = keys, .space = space
	};
	uint64_t records = 0;
	struct events_stats st;
	struct rng rng;
	uint32_t i, b, more;

	for (b = 0; b < rounds(2, 1); b++) {
		struct door d = open_door(budgets[b], 64, 512);

		rng_init(&rng, b);
		for (more = 0; more < rounds(2000, 500);) {
			for (i = 0; i < 64; i++)
				handles[i] = keys[i] = rng_next(&rng);
			run.server = (server_id)rng_below(&rng, 16);
			assert_int_equal(events_stored(d.ev, &run), 64);
			st = stats(&d);
			assert_true(st.bytes <= st.max_bytes);
			if (st.evicted == 0)
				records = st.records;
			else
				more++;
		}
		assert_int_equal(st.refused, 0);
		assert_true(st.max_bytes <= budgets[b]);
		printf("%zu MiB: %lu records of %.2f bytes, then %lu\n", budgets[b] >> 20,
		    (unsigned long)records, (double)budgets[b] / (double)records,
		    (unsigned long)st.records);
		/* the fixed part weighs less in a larger budget */
		assert_true(budgets[b] <= (b > 0 ? 32 : 40) * records);
		assert_true(st.records > records - records / 8);
		close_door(&d);
	}
}

/* Count the slots that are not in their home line, because lookups of them take longer. */
static uint64_t away(const struct events *ev)
{
	const struct handles *h = &ev->holders[0].map;
	const struct slots *l;
	uint64_t n = 0;
	uint32_t i, k;

	for (i = 0; i < h->n_lines; i++) {
		l = handles_line(ev, h, i);
		for (k = 0; k < LINE_SLOTS; k++)
			n += OWN(&l->run[k]) != 0 && handles_first(h, OWN(&l->word[k])) != i;
	}
	return n;
}

static uint64_t away_with(unsigned shift, bool sum)
{
	struct door d = open_door(4 << 20, 64, 8);
	struct rng rng;
	uint64_t i, n, handle;
	page_key page;
	struct events_run run = {
		.n = 1, .block_pages = 1, .handles = &handle, .keys = &page, .space = space
	};

	rng_init(&rng, 3);
	for (i = 0; i < 10000; i++) {
		handle = shift == 64 ? rng_next(&rng) : i << shift;
		if (sum)
			handle += ~handle << 32;	/* both halves add up to the same */
		page = rng_next(&rng);
		assert_int_equal(events_stored(d.ev, &run), 1);
		if (i % 1000 == 0)
			assert_int_equal(events_removed(d.ev, 0, 0, &handle, 1, EVENTS_DEVICE), 1);
	}
	n = away(d.ev);
	assert_int_equal(stats(&d).records, 9990);
	assert_int_equal(stats(&d).unknown, 0);
	close_door(&d);
	return n;
}

static void crafted_handles(void **state)
{
	uint64_t usual = away_with(64, false);
	unsigned shift;

	assert_true(usual > 0);
	for (shift = 0; shift <= 48; shift += 16)
		assert_true(away_with(shift, false) < 2 * usual + 100);
	assert_true(away_with(0, true) < 2 * usual + 100);
}

/* ---- runs ---- */

/* Conversations part inside a run, and the end of a run is used again after it was evicted. */
static void branches(void **state)
{
	struct door d = a_door();

	stored(&d, 1, "abcdefgh", 0);
	stored(&d, 2, "abcdEFGH", 0);
	stored(&d, 3, "abcdefghijkl", 0);
	assert_int_equal(stats(&d).runs, 2);
	assert_int_equal(stats(&d).blocks, 16);
	assert_int_equal(pages(&d, 1, "abcdefghijkl"), 8);
	assert_int_equal(events_match_pages(&d.m, 2), 4);
	assert_int_equal(events_match_pages(&d.m, 3), 12);
	assert_int_equal(pages(&d, 2, "abcdEFGHijkl"), 8);
	assert_int_equal(events_match_pages(&d.m, 3), 4);
	events_drop_server(d.ev, 3);
	while (events_tick(d.ev, 5))
		;
	assert_int_equal(stats(&d).blocks, 12);
	stored(&d, 1, "abcdefghXYZ", 8);
	assert_int_equal(stats(&d).runs, 2);
	assert_int_equal(pages(&d, 1, "abcdefghXYZ"), 11);
	/* the parent's blocks stay as long as the branch does */
	events_cleared(d.ev, 1, 0);
	while (events_tick(d.ev, 5))
		;
	assert_int_equal(pages(&d, 2, "abcdEFGH"), 8);
	removed(&d, 2, "a");
	assert_int_equal(pages(&d, 2, "abcdEFGH"), 0);
	stored(&d, 2, "a", 0);
	assert_int_equal(pages(&d, 2, "abcdEFGH"), 8);
	events_drop_server(d.ev, 2);
	while (events_tick(d.ev, 5))
		;
	assert_int_equal(stats(&d).blocks, 0);
	assert_int_equal(stats(&d).runs, 0);
	close_door(&d);
}

/* A prompt of many runs; each run is read by what the one before says. */
static void a_long_chain(void **state)
{
	struct door d = open_door(4 << 20, 64, 8);
	uint64_t handles[1000];
	page_key keys[1000];
	struct events_run run = { .server = 4,
		.n = 1000,
		.block_pages = 1,
		.handles = handles,
		.keys = keys,
		.space = space };
	struct rng rng;
	uint32_t i;

	rng_init(&rng, 7);
	for (i = 0; i < 1000; i++)
		handles[i] = keys[i] = rng_next(&rng);
	assert_int_equal(events_stored(d.ev, &run), 1000);
	assert_int_equal(stats(&d).runs, 16);
	for (i = 0; i <= 1000; i += 13) {
		events_match(d.ev, space, keys, i, &d.m);
		assert_int_equal(events_match_pages(&d.m, 4), i);
	}
	assert_int_equal(events_removed(d.ev, 4, 0, &handles[500], 1, EVENTS_DEVICE), 1);
	events_match(d.ev, space, keys, 1000, &d.m);
	assert_int_equal(events_match_pages(&d.m, 4), 500);
	for (i = 1000; i-- > 0;)
		assert_int_equal(events_removed(d.ev, 4, 0, &handles[i], 1, EVENTS_DEVICE), i != 500);
	assert_int_equal(stats(&d).runs, 0);
	close_door(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_far_as_each_goes),
		cmocka_unit_test(an_inner_block_goes),
		cmocka_unit_test(blocks_of_every_size),
		cmocka_unit_test(a_rank_is_a_cache_of_its_own),
		cmocka_unit_test(copies),
		cmocka_unit_test(tiers_as_sglang_says_them),
		cmocka_unit_test(without_tokens),
		cmocka_unit_test(parked_and_joined),
		cmocka_unit_test(parked_and_gone),
		cmocka_unit_test(the_oldest_parked_goes),
		cmocka_unit_test(a_handle_means_one_block),
		cmocka_unit_test(handle_zero),
		cmocka_unit_test(cleared_at_once_and_bit_by_bit),
		cmocka_unit_test(spaces_after_a_clear),
		cmocka_unit_test(capacity),
		cmocka_unit_test(evicted_without_room_counts_for_the_server),
		cmocka_unit_test(refused_without_room_counts_for_the_server),
		cmocka_unit_test(held_by_all_servers),
		cmocka_unit_test(two_handles_for_one_block),
		cmocka_unit_test(bytes_per_record),
		cmocka_unit_test(crafted_handles),
		cmocka_unit_test(branches),
		cmocka_unit_test(a_long_chain),
	};
	struct rng rng;
	unsigned i;

	rng_init(&rng, 1);
	for (i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&rng);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
