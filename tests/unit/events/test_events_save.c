/* test_events_save.c - an index as bytes: saved, loaded and compared; damaged bytes are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/events/save_in.h"

#define SERVERS	5u
#define PROMPTS	12u
#define LEN	160u

static const uint64_t space[2] = { 1, 2 };
static const uint32_t sizes[SERVERS] = { 1, 1, 2, 4, 1 };
static struct hash_key key;
static page_key keys[PROMPTS][LEN];

struct bytes {
	uint8_t *p;
	size_t n, room, most;
};

static int put(void *arg, const void *p, size_t n)
{
	struct bytes *b = arg;

	if (b->most != 0 && b->n + n > b->most)
		return -1;
	if (b->n + n > b->room) {
		b->room = (b->n + n) * 2;
		b->p = realloc(b->p, b->room);
		assert_non_null(b->p);
	}
	memcpy(b->p + b->n, p, n);
	b->n += n;
	return 0;
}

static int same_server(void *arg, server_id number)
{
	return arg != NULL && number == *(server_id *)arg ? -1 : number;
}

static struct events *make(size_t max_bytes)
{
	struct events_opts o;
	struct events *ev;

	events_defaults(&o);
	o.max_bytes = max_bytes;
	o.max_holders = 64;
	o.key = &key;
	ev = events_new(&o);
	assert_non_null(ev);
	return ev;
}

static uint64_t handle_of(uint32_t server, uint32_t prompt, uint32_t end, uint32_t seed)
{
	/* equal for equal blocks, as an engine's are: prompts that share pages share keys */
	uint64_t h = server * 7 + seed;
	uint32_t i;

	for (i = 0; i < end; i++)
		h = (h ^ keys[prompt][i]) * 0x9e3779b97f4a7c15ull;
	return h;
}

static void store_some(struct events *ev, struct rng *rng)
{
	uint32_t server = rng_below(rng, SERVERS), prompt = rng_below(rng, PROMPTS), i;
	uint32_t size = sizes[server], seed = rng_below(rng, 8) == 0;
	uint64_t handles[LEN];
	struct events_run run = { .server = (server_id)server,
		.rank = (uint16_t)(prompt % 2),
		.tier = rng_below(rng, 4) ? EVENTS_DEVICE : rng_below(rng, EVENTS_TIERS),
		.n = 1 + rng_below(rng, LEN / size),
		.block_pages = size,
		.handles = handles,
		.keys = keys[prompt],
		.space = space };

	for (i = 0; i < run.n; i++)
		handles[i] = handle_of(server, prompt, (i + 1) * size, seed);
	assert_int_equal(events_stored(ev, &run), run.n);
}

static void remove_some(struct events *ev, struct rng *rng)
{
	uint32_t server = rng_below(rng, SERVERS), prompt = rng_below(rng, PROMPTS);
	uint64_t handle = handle_of(
	    server, prompt, (1 + rng_below(rng, LEN / sizes[server])) * sizes[server], 0);

	events_removed(ev, (server_id)server, (uint16_t)(prompt % 2), &handle, 1,
	    rng_below(rng, 3) ? EVENTS_DEVICE : EVENTS_HOST);
}

static struct events *filled(void)
{
	struct events *ev = make(4 << 20);
	struct rng rng;
	uint32_t i;

	rng_init(&rng, 3);
	for (i = 0; i < 400; i++) {
		store_some(ev, &rng);
		remove_some(ev, &rng);
		remove_some(ev, &rng);
	}
	events_cleared(ev, 4, 1);	/* and its records are still there */
	assert_null(events_check(ev));
	return ev;
}

static struct bytes saved(const struct events *ev)
{
	struct bytes b = { 0 };

	assert_int_equal(events_save(ev, put, &b), 0);
	return b;
}

static void same_matches(const struct events *a, const struct events *b)
{
	struct events_match x, y;
	uint32_t p, i, n, hits = 0;

	assert_int_equal(events_match_init(&x) + events_match_init(&y), 0);
	for (p = 0; p < PROMPTS; p++) {
		for (n = 1; n <= LEN; n += 7) {
			events_match(a, space, keys[p], n, &x);
			events_match(b, space, keys[p], n, &y);
			assert_int_equal(x.n_hits, y.n_hits);
			for (i = 0; i < x.n_hits; i++)
				assert_int_equal(x.hits[i].pages, events_match_pages(&y, x.hits[i].server));
			hits += x.n_hits;
		}
	}
	assert_true(hits > 100);
	events_match_fini(&x);
	events_match_fini(&y);
}

static void comes_back_the_same(void **state)
{
	struct events *ev = filled(), *other = make(4 << 20);
	struct bytes b = saved(ev), again;
	struct events_loaded l;
	struct events_stats was, is;
	struct rng rng;
	struct err e;
	uint32_t s, i;

	assert_int_equal(events_load(other, b.p, b.n, same_server, NULL, &l, &e), 0);
	assert_null(events_check(other));
	assert_int_equal(l.skipped + l.left_out, 0);
	for (s = 0; s < SERVERS; s++)
		assert_int_equal(
		    events_server_records(ev, (server_id)s), events_server_records(other, (server_id)s));
	same_matches(ev, other);
	while (events_tick(ev, 100))
		;
	events_stats(ev, &was);
	events_stats(other, &is);
	assert_int_equal(l.records, is.records);
	assert_int_equal(was.records, is.records);
	assert_int_equal(was.holders, is.holders);
	assert_int_equal(was.blocks, is.blocks);
	/* what comes later has the same effect on both, with copies and tiers */
	rng_init(&rng, 9);
	for (i = 0; i < 2000; i++) {
		struct rng both = rng;

		remove_some(ev, &rng);
		remove_some(other, &both);
	}
	same_matches(ev, other);
	events_stats(ev, &was);
	events_stats(other, &is);
	assert_int_equal(was.records, is.records);
	assert_null(events_check(other));
	again = saved(other);
	assert_true(again.n < b.n);
	free(b.p);
	free(again.p);
	events_free(ev);
	events_free(other);
}

static void servers_that_are_gone(void **state)
{
	struct events *ev = filled(), *other = make(4 << 20);
	struct bytes b = saved(ev);
	struct events_loaded l;
	server_id gone = 1;
	struct err e;

	assert_int_equal(events_load(other, b.p, b.n, same_server, &gone, &l, &e), 0);
	assert_null(events_check(other));
	assert_int_equal(l.skipped, events_server_records(ev, 1));
	assert_int_equal(events_server_records(other, 1), 0);
	assert_int_equal(events_server_records(other, 0), events_server_records(ev, 0));
	/* once more: everything is there already */
	assert_int_equal(events_load(other, b.p, b.n, same_server, &gone, &l, &e), 0);
	assert_int_equal(l.records, 0);
	assert_true(l.left_out > 0);
	assert_null(events_check(other));
	free(b.p);
	events_free(ev);
	events_free(other);
}

static void refused(struct events *ev, const uint8_t *p, size_t n)
{
	struct events_stats st;
	struct events_loaded l;
	struct err e = { .text = "" };

	assert_int_equal(events_load(ev, p, n, same_server, NULL, &l, &e), -1);
	assert_true(strlen(e.text) > 10);
	events_stats(ev, &st);
	assert_int_equal(st.records + st.runs + st.holders, 0);
}

static void damaged_bytes(void **state)
{
	struct events *ev = filled(), *other = make(1 << 20);
	struct bytes b = saved(ev);
	struct hash_key was = key;
	struct rng rng;
	uint32_t i;
	size_t at;

	for (at = 0; at < b.n; at += at < 200 ? 1 : 97)
		refused(other, b.p, at);
	rng_init(&rng, 1);
	for (i = 0; i < 3000; i++) {
		const uint8_t bit = (uint8_t)(1u << rng_below(&rng, 8));

		at = i < 100 ? i : rng_below(&rng, (uint32_t)b.n);
		b.p[at] ^= bit;
		refused(other, b.p, b.n);
		b.p[at] ^= bit;
	}
	events_free(other);
	key.secret[30] ^= 1;	/* the id of a key is a hash, which does not read all of its bytes */
	other = make(1 << 20);
	refused(other, b.p, b.n);
	key = was;
	events_free(other);
	free(b.p);
	events_free(ev);
}

/* An index without room takes what fits, and evicts nothing. */
static void a_small_index(void **state)
{
	struct events *ev = filled(), *other = make(1 << 20);
	struct bytes b = saved(ev);
	struct events_loaded l;
	struct events_stats st;
	struct err e;

	other->slab.max_chunks = 12;
	assert_int_equal(events_load(other, b.p, b.n, same_server, NULL, &l, &e), 0);
	assert_null(events_check(other));
	events_stats(other, &st);
	assert_true(l.left_out > 0 && l.records > 0);
	assert_int_equal(st.records, l.records);
	assert_int_equal(st.evicted, 0);
	free(b.p);
	events_free(ev);
	events_free(other);
}

static void nothing_and_no_room(void **state)
{
	struct events *ev = make(1 << 20), *other = make(1 << 20);
	struct bytes b = saved(ev), most = { .most = 20 };
	struct events_loaded l;
	struct err e;

	assert_int_equal(events_load(other, b.p, b.n, same_server, NULL, &l, &e), 0);
	assert_int_equal(l.records + l.holders, 0);
	assert_null(events_check(other));
	assert_int_equal(events_save(ev, put, &most), -1);
	free(b.p);
	free(most.p);
	events_free(ev);
	events_free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_back_the_same),
		cmocka_unit_test(servers_that_are_gone),
		cmocka_unit_test(damaged_bytes),
		cmocka_unit_test(a_small_index),
		cmocka_unit_test(nothing_and_no_room),
	};
	struct rng rng;
	uint32_t i, j, shared;

	rng_init(&rng, 1);
	for (i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&rng);
	for (i = 0; i < PROMPTS; i++) {
		shared = i < 2 ? 0 : rng_below(&rng, LEN);
		for (j = 0; j < LEN; j++)
			keys[i][j] = j < shared ? keys[i - 2][j] : rng_next(&rng);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
