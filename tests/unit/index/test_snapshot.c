/* test_snapshot.c - held pages survive a restart, and a changed file yields nothing.
 *
 * Trees are compared by the pages of each server from the first on (snapshots.h); small ones that
 * are written by hand also by their dumps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/base/sections.h"
#include "agent/index/held.h"
#include "tests/unit/index/snapshots.h"
#include "tests/lib/index/index_test.h"
#include "tests/unit/rounds.h"

#define SERVERS	12
#define SPACES	3

static const struct space_key spaces[SPACES] = {
	{ .h = { 1, 2 } }, { .h = { 1, 3 }, .tenant = 7 }, { .h = { 0, 0 } },
};

static struct index *new_index(size_t max_bytes, enum index_order order)
{
	struct index_opts o;
	struct index *ix;

	index_defaults(&o);
	o.max_bytes = max_bytes;
	o.order = order;
	assert_non_null(ix = index_new(&o));
	return ix;
}

static void check(struct index *ix)
{
	const char *bad = index_check(ix);

	if (bad != NULL)
		fail_msg("%s", bad);
}

static void hold(
    struct index *ix, unsigned space, const page_key *p, size_t n, server_id s, msec now)
{
	index_claim c = index_commit(ix, &spaces[space], p, n, NULL, s, now, 0);

	assert_true(c != 0);
	index_confirm(ix, c, now);
}

static struct index *load(const struct bytes *b, size_t max_bytes, enum index_order order,
    int shift, msec now, struct snapshot_stats *st)
{
	struct index *ix = new_index(max_bytes, order);
	struct snapshot_stats own;
	struct err e = { 0 };

	if (snapshot_load(ix, &here, b->p, b->n, server_by_name, &shift, now, st ? st : &own, &e) != 0)
		fail_msg("%s", e.text);
	check(ix);
	return ix;
}

static void dump_is(struct index *ix, unsigned space, const char *text)
{
	struct bytes b = { NULL };

	index_dump(ix, &spaces[space], put_text, &b);
	put_bytes(&b, "", 1);
	assert_string_equal((char *)b.p, text);
	free(b.p);
}

static void same_in_all(struct index *a, struct index *b)
{
	struct held ha, hb;
	unsigned i;

	for (i = 0; i < SPACES; i++) {
		held_in(a, &spaces[i], &ha);
		held_in(b, &spaces[i], &hb);
		same_held(&ha, &hb);
		held_free(&ha);
		held_free(&hb);
	}
}

/* ---- round trips ---- */

static const page_key abcd[] = { 0xa, 0xb, 0xc, 0xd }, abxy[] = { 0xa, 0xb, 0xe, 0xf },
		      z[] = { 0x9 };

static void small_story(struct index *ix)
{
	hold(ix, 0, abcd, 4, 0, 100);
	hold(ix, 0, abxy, 4, 1, 200);
	hold(ix, 0, abcd, 3, 2, 300);
	hold(ix, 1, z, 1, 0, 400);
}

static void small_tree_comes_back(void **state)
{
	struct index *a = new_index(1 << 20, INDEX_LRU), *b;
	struct bytes s = { NULL };
	struct snapshot_stats w, r;

	small_story(a);
	assert_int_equal(write_all(a, SERVERS, 1000, &s, &w), 1);
	assert_int_equal(w.bytes, s.n);
	b = load(&s, 1 << 20, INDEX_LRU, 0, 5000, &r);
	dump_is(b, 0, "[a b] 0 1 2\n  [c d] 0 2:1\n  [e f] 1\n");
	dump_is(b, 1, "[9] 0\n");
	dump_is(b, 2, "");
	assert_int_equal(r.servers, SERVERS);
	assert_int_equal(r.servers_skipped, 0);
	assert_int_equal(r.spaces, 2);
	assert_int_equal(r.nodes, w.nodes);
	assert_int_equal(r.pages, 7);
	assert_int_equal(r.records, w.records);
	assert_int_equal(r.held, 4);
	assert_int_equal(r.left_out, 0);
	index_free(a);
	index_free(b);
	free(s.p);
}

static void note_youngest(void *arg, const struct held_run *run)
{
	msec *least = arg;

	for (uint32_t i = 0; i < run->n_holders; i++)
		if (run->holders[i].unused_ms < *least)
			*least = run->holders[i].unused_ms;
}

/* Return the time since the last use of the youngest page, if a snapshot was written 600 ms after
 * it, by one wall clock, and is loaded by another. */
static msec youngest(int64_t written, int64_t loaded)
{
	static const struct hash_key key = { .secret = { 1, 2, 3 } };
	struct index *a = new_index(1 << 20, INDEX_LRU), *b = new_index(1 << 20, INDEX_LRU);
	struct snapshot_of of = here;
	struct bytes s = { NULL };
	struct snapshot_stats st;
	struct snapshot_writer *w;
	struct held_walk *walk;
	struct err e;
	msec least = INT64_MAX;

	small_story(a);
	of.wall_ms = written;
	assert_non_null(w = snapshot_writer_new(a, &of, 1000, put_bytes, &s));
	name_servers(w, SERVERS);
	while (snapshot_write(w, 100) == 0)
		;
	snapshot_writer_free(w);
	of.wall_ms = loaded;
	assert_int_equal(snapshot_load(
	    b, &of, s.p, s.n, server_by_name, NULL, (msec)1 << 40, &st, &e), 0);
	assert_non_null(walk = held_walk_new(b, &key));
	while (held_walk(walk, 100, (msec)1 << 40, note_youngest, &least))
		;
	held_walk_free(walk);
	index_free(a);
	index_free(b);
	free(s.p);
	return least;
}

static void the_time_between_makes_pages_older(void **state)
{
	const int64_t wall = 1700000000000, hour = 3600000;

	(void)state;
	assert_in_range(youngest(wall, wall), 580, 620);
	assert_in_range(youngest(wall, wall + hour), hour + 560, hour + 640);
	assert_in_range(youngest(wall, wall - hour), 580, 620);		/* the clock was set back */
	assert_in_range(youngest(0, wall), 580, 620);			/* by an older agent */
	assert_in_range(youngest(wall, 0), 580, 620);
}

static void an_empty_index_comes_back_empty(void **state)
{
	struct index *a = new_index(1 << 20, INDEX_LRU), *b;
	struct bytes s = { NULL };
	struct snapshot_stats r;

	assert_int_equal(write_all(a, 0, 0, &s, NULL), 1);
	b = load(&s, 1 << 20, INDEX_LRU, 0, 0, &r);
	assert_int_equal(r.spaces + r.nodes + r.servers, 0);
	index_free(a);
	index_free(b);
	free(s.p);
}

static void what_is_only_claimed_is_not_there(void **state)
{
	struct index *a = new_index(1 << 20, INDEX_LRU), *b;
	struct bytes s = { NULL };

	hold(a, 0, abcd, 2, 0, 0);
	/* it continues, unconfirmed */
	assert_true(index_commit(a, &spaces[0], abcd, 4, NULL, 0, 0, 0) != 0);
	assert_true(index_commit(a, &spaces[0], abxy, 4, NULL, 1, 0, 0) != 0);	/* another, and a split */
	assert_true(index_commit(a, &spaces[1], z, 1, NULL, 1, 0, 0) != 0);	/* and a space */
	assert_int_equal(write_all(a, SERVERS, 0, &s, NULL), 1);
	b = load(&s, 1 << 20, INDEX_LRU, 0, 0, NULL);
	dump_is(b, 0, "[a b] 0\n");
	dump_is(b, 1, "");
	assert_null(memmem(s.p, s.n, "\x0d\0\0\0\0\0\0\0", 8));
	index_free(a);
	index_free(b);
	free(s.p);
}

static void ids_may_be_others_and_servers_gone(void **state)
{
	struct index *a = new_index(1 << 20, INDEX_LRU), *b;
	struct bytes s = { NULL };
	struct snapshot_stats r;

	small_story(a);
	assert_int_equal(write_all(a, SERVERS, 0, &s, NULL), 1);
	b = load(&s, 1 << 20, INDEX_LRU, 100, 0, NULL);
	dump_is(b, 0, "[a b] 100 101 102\n  [c d] 100 102:1\n  [e f] 101\n");
	index_free(b);
	b = load(&s, 1 << 20, INDEX_LRU, -1, 0, &r);		/* "s0" is unknown */
	dump_is(b, 0, "[a b] 0 1\n  [c] 1\n  [e f] 0\n");
	dump_is(b, 1, "");
	assert_int_equal(r.servers_skipped, 1);
	assert_int_equal(r.servers, SERVERS - 1);
	index_free(b);
	index_free(a);
	free(s.p);
}

/* Servers without a name are left out, and so are those dropped after the writing began, even if
 * the id belongs to another since. */
static void what_was_dropped_does_not_come_back(void **state)
{
	struct index *a = new_index(1 << 20, INDEX_LRU), *b;
	struct bytes s = { NULL };
	struct snapshot_writer *w;

	small_story(a);
	assert_non_null(w = snapshot_writer_new(a, &here, 0, put_bytes, &s));
	name_servers(w, 2);
	index_drop_server(a, 1);
	hold(a, 0, abxy, 4, 1, 0);
	assert_int_equal(snapshot_write(w, 1000), 1);
	snapshot_writer_free(w);
	b = load(&s, 1 << 20, INDEX_LRU, 0, 0, NULL);
	dump_is(b, 0, "[a b c d] 0\n");
	index_free(b);
	index_free(a);
	free(s.p);
}

/* The loaded index evicts in the order of the written one. */
static void the_order_of_forgetting_survives(enum index_order order, const char *left)
{
	static const page_key p[4][2] = { { 1, 1 }, { 2, 2 }, { 3, 3 }, { 4, 4 } };
	struct index *a = new_index(1 << 20, order), *b;
	struct bytes s = { NULL };
	unsigned i;

	for (i = 0; i < 4; i++)
		hold(a, 0, p[i], 2, 0, (msec)(100 * (i + 1)));
	hold(a, 0, p[0], 2, 0, 900);
	hold(a, 0, p[2], 2, 0, 1000);
	assert_int_equal(write_all(a, SERVERS, 2000, &s, NULL), 1);
	b = load(&s, 1 << 20, order, 0, 7000, NULL);
	for (i = 0; i < 2; i++) {
		index_set_capacity(i ? b : a, 0, 4);
		while (index_tick(i ? b : a))
			;
		check(i ? b : a);
		dump_is(i ? b : a, 0, left);
	}
	index_free(a);
	index_free(b);
	free(s.p);
}

static void orders(void **state)
{
	the_order_of_forgetting_survives(INDEX_LRU, "[1 1] 0\n[3 3] 0\n");
	the_order_of_forgetting_survives(INDEX_LFU, "[1 1] 0\n[3 3] 0\n");
	the_order_of_forgetting_survives(INDEX_FIFO, "[3 3] 0\n[4 4] 0\n");
	the_order_of_forgetting_survives(INDEX_MRU, "[2 2] 0\n[4 4] 0\n");
	the_order_of_forgetting_survives(INDEX_FILO, "[1 1] 0\n[2 2] 0\n");
}

static void priorities_survive(void **state)
{
	static const page_key p[2][2] = { { 1, 1 }, { 2, 2 } };
	struct index *a = new_index(1 << 20, INDEX_PRIORITY), *b;
	struct bytes s = { NULL };

	index_confirm(a, index_commit(a, &spaces[0], p[0], 2, NULL, 0, 100, 9), 100);
	index_confirm(a, index_commit(a, &spaces[0], p[1], 2, NULL, 0, 200, 3), 200);
	assert_int_equal(write_all(a, SERVERS, 300, &s, NULL), 1);
	b = load(&s, 1 << 20, INDEX_PRIORITY, 0, 0, NULL);
	index_set_capacity(b, 0, 2);
	while (index_tick(b))
		;
	dump_is(b, 0, "[1 1] 0\n");
	index_free(a);
	index_free(b);
	free(s.p);
}

/* ---- many ---- */

static size_t make(struct rng *rng, page_key *p, size_t most)
{
	size_t n = 1 + rng_below(rng, (uint32_t)most), i;

	for (i = 0; i < n; i++)
		p[i] = i < 3 ? rng_below(rng, 2) : rng_below(rng, 3);
	return n;
}

static void random_steps(struct index *ix, struct rng *rng, unsigned steps, size_t most)
{
	index_claim open[64] = { 0 };
	page_key *p = malloc(most * sizeof(*p));
	unsigned i, k;

	for (i = 0; i < steps; i++) {
		k = rng_below(rng, 64);
		if (rng_below(rng, 2))
			index_confirm(ix, open[k], i);
		else
			index_cancel(ix, open[k]);
		open[k] = index_commit(ix, &spaces[rng_below(rng, SPACES)], p, make(rng, p, most), NULL,
				       (server_id)rng_below(rng, SERVERS), i, 0);
		if (rng_below(rng, 500) == 0)
			index_drop_server(ix, (server_id)rng_below(rng, SERVERS));
	}
	free(p);
}

static void random_trees_come_back(void **state)
{
	struct index *a, *b;
	struct bytes s;
	struct rng rng;
	unsigned i;

	for (i = 0; i < rounds(40, 12); i++) {
		rng_init(&rng, i + 1);
		a = new_index(i % 4 == 3 ? 1 << 18 : 4 << 20, (enum index_order)(i % 6));
		random_steps(a, &rng, 200 + rng_below(&rng, 2000), i % 5 == 4 ? 1500 : 20);
		s = (struct bytes){ NULL };
		assert_int_equal(write_all(a, SERVERS, 3000, &s, NULL), 1);
		b = load(&s, 8 << 20, (enum index_order)(i % 6), 0, 9000, NULL);
		same_in_all(a, b);
		index_free(a);
		index_free(b);
		free(s.p);
	}
}

/* A chain of many nodes: another server ends at every page of it. */
static void long_chains_come_back(void **state)
{
	struct index *a = new_index(8 << 20, INDEX_LRU), *b;
	page_key p[300], q[300];
	struct bytes s = { NULL };
	unsigned i;

	for (i = 0; i < 300; i++)
		p[i] = i;
	for (i = 1; i < 300; i++) {
		memcpy(q, p, sizeof(q));
		q[i] = 77777;
		hold(a, 0, q, i + 1, (server_id)(i % SERVERS), i);
	}
	assert_int_equal(write_all(a, SERVERS, 0, &s, NULL), 1);
	b = load(&s, 8 << 20, INDEX_LRU, 0, 0, NULL);
	same_in_all(a, b);
	index_free(a);
	index_free(b);
	free(s.p);
}

/* A full index writes no more than the reader's bound; half of that bound is for changes
 * meanwhile. */
static void a_full_index_is_within_the_bound(void **state)
{
	static const struct {
		unsigned pages, servers;
	} shape[] = { { 1, 1 }, { 1, SERVERS }, { 200, 1 }, { 40, SERVERS } };
	const size_t max = 1 << 20;

	for (size_t k = 0; k < sizeof(shape) / sizeof(shape[0]); k++) {
		struct index *ix = new_index(max, INDEX_LRU);
		struct bytes s = { NULL };
		struct snapshot_stats w;
		struct index_stats st;
		page_key p[200];
		unsigned i = 0;

		do {
			for (unsigned j = 0; j < shape[k].pages; j++)
				p[j] = 1000ull * i + j;
			for (unsigned j = 0; j < shape[k].servers; j++)
				hold(ix, 0, p, shape[k].pages, (server_id)j, i);
			index_stats(ix, &st);
			i++;
		} while (st.evicted_records < 100 && i < 1000000);
		assert_true(st.evicted_records >= 100);
		assert_int_equal(write_all(ix, SERVERS, i, &s, &w), 1);
		assert_true(s.n <= snapshot_bytes_most(max) - max);
		/* its bytes, and what its loader takes */
		assert_true(s.n + 24 * w.nodes + 12 * w.records <= snapshot_load_bytes(max));
		print_message("%u pages, %u servers: %zu bytes of %zu\n", shape[k].pages,
		    shape[k].servers, s.n, max);
		index_free(ix);
		free(s.p);
	}
}

/* The oldest are left out, and the newest are loaded. */
static void a_smaller_budget_takes_the_newest(void **state)
{
	struct index *a = new_index(16 << 20, INDEX_LRU), *b;
	struct bytes s = { NULL };
	struct snapshot_stats r;
	struct index_match m;
	struct index_stats st;
	page_key p[200];
	unsigned i, k, there[2] = { 0, 0 };

	for (i = 0; i < 2000; i++) {
		for (k = 0; k < 200; k++)
			p[k] = k < 10 ? k : (page_key)i * 1000 + k;
		hold(a, 0, p, 200, (server_id)(i % SERVERS), (msec)i * 100);
	}
	assert_int_equal(write_all(a, SERVERS, 200000, &s, NULL), 1);
	b = load(&s, 2 << 20, INDEX_LRU, 0, 300000, &r);
	assert_int_equal(r.held + r.left_out, 2000);
	assert_in_range(r.left_out, 500, 1500);
	index_stats(b, &st);
	assert_int_equal(st.evicted_records, 0);
	assert_in_range(st.bytes, (2 << 20) * 8 / 10, 2 << 20);
	assert_int_equal(index_match_init(&m), 0);
	for (i = 0; i < 2000; i++) {
		for (k = 0; k < 200; k++)
			p[k] = k < 10 ? k : (page_key)i * 1000 + k;
		index_match(b, &spaces[0], p, 200, &m);
		if (index_match_depth(&m, (server_id)(i % SERVERS)) == 200)
			there[i >= 1000]++;
	}
	assert_int_equal(there[0] + there[1], r.held);
	assert_true(there[1] > there[0] * 3);
	index_match_fini(&m);
	index_free(a);
	index_free(b);
	free(s.p);
}

/* The room of pages is restored, whatever their space has by then. */
static void pages_keep_their_room(void **state)
{
	static const uint32_t rooms[3] = { 5, 0, ROOM_MAX };
	struct index *a = new_index(1 << 20, INDEX_LRU), *b;
	struct space_key k[3];
	struct bytes s = { NULL };

	for (unsigned i = 0; i < 3; i++) {
		k[i] = (struct space_key){ .h = { i + 1, 7 }, .page_room = rooms[i] };
		index_confirm(a, index_commit(a, &k[i], abcd, 4, NULL, 0, 100, 0), 100);
		index_confirm(a, index_commit(a, &k[i], abxy, 4, NULL, 1, 200, 0), 200);
	}
	assert_int_equal(index_server_room(a, 0), 4 * (5 + 1 + ROOM_MAX));
	assert_int_equal(write_all(a, SERVERS, 1000, &s, NULL), 1);
	b = load(&s, 1 << 20, INDEX_LRU, 0, 5000, NULL);
	for (server_id id = 0; id < 2; id++)
		assert_int_equal(index_server_room(b, id), index_server_room(a, id));
	index_free(a);
	index_free(b);
	free(s.p);
}

/* ---- refused ---- */

static int asked;

static int not_asked(void *arg, struct span name)
{
	asked++;
	return 0;
}

/* Refused with a sentence of its own; the index is unchanged. */
static void refused(
    struct index *ix, const struct snapshot_of *of, const uint8_t *p, size_t n, const char *why)
{
	struct snapshot_stats st;
	struct index_stats is;
	struct err e = { 0 };
	uint8_t *exact = malloc(n ? n : 1);	/* so that reading one byte too many is detected */

	memcpy(exact, p, n);
	asked = 0;
	if (snapshot_load(ix, of, exact, n, not_asked, NULL, 0, &st, &e) != -1)
		fail_msg("%zu bytes were taken", n);
	free(exact);
	assert_true(strlen(e.text) > 10);
	if (why != NULL && strstr(e.text, why) == NULL)
		fail_msg("\"%s\" is not about \"%s\"", e.text, why);
	assert_int_equal(asked, 0);
	index_stats(ix, &is);
	assert_int_equal(is.nodes + is.records + is.spaces, 0);
}

static struct bytes small_snapshot(void)
{
	struct index *a = new_index(1 << 20, INDEX_LRU);
	struct bytes s = { NULL };

	small_story(a);
	assert_int_equal(write_all(a, 3, 1000, &s, NULL), 1);
	index_free(a);
	return s;
}

/* ---- in steps ---- */

static size_t room_of(struct index *ix, unsigned id)
{
	return index_server_room(ix, (server_id)id);
}

/* Each step loads a few ends at most, and the index is sound between any two. A server that is
 * dropped meanwhile, and whose number is given to another one, gets no more pages. */
static void loads_in_steps(void **state)
{
	struct index *a = new_index(4 << 20, INDEX_LRU), *b = new_index(4 << 20, INDEX_LRU), *whole;
	struct bytes s = { NULL };
	struct snapshot_stats st;
	struct snapshot_loader *l;
	struct index_stats before, now;
	struct err e;
	struct rng rng;
	unsigned steps = 0, dropped_at = 0;
	int rc;

	rng_init(&rng, 6);
	random_steps(a, &rng, 3000, 100);
	assert_int_equal(write_all(a, SERVERS, 0, &s, NULL), 1);
	whole = load(&s, 4 << 20, INDEX_LRU, 0, 0, NULL);
	assert_true(room_of(whole, 3) > 0);
	assert_non_null(l = snapshot_loader_new(b, &here, s.p, s.n, server_by_name, NULL, 0));
	index_stats(b, &before);
	while ((rc = snapshot_load_step(l, &st, &e)) == 0) {
		index_stats(b, &now);
		assert_true(now.records - before.records <= 600);	/* 8 paths of some nodes */
		before = now;
		if (++steps % 50 == 0)
			check(b);
		if (dropped_at == 0 && room_of(b, 3) > 0) {
			dropped_at = steps;
			while (!index_drop_step(b, 3, 100))
				;
		}
	}
	assert_int_equal(rc, 1);
	assert_true(steps > 100 && dropped_at > 0 && dropped_at < steps);
	check(b);
	assert_int_equal(room_of(b, 3), 0);
	for (unsigned i = 0; i < SERVERS; i++)
		if (i != 3)
			assert_int_equal(room_of(b, i), room_of(whole, i));
	assert_int_equal(snapshot_load_step(l, &st, &e), 1);
	snapshot_loader_free(l);
	index_free(a);
	index_free(b);
	index_free(whole);
	free(s.p);
}

/* What is left out because its server was dropped does not count as refused for want of room. */
static void a_dropped_server_ends_no_load(void **state)
{
	struct index *a = new_index(8 << 20, INDEX_LRU), *b = new_index(8 << 20, INDEX_LRU);
	struct bytes s = { NULL };
	struct snapshot_stats st;
	struct snapshot_loader *l;
	struct err e;
	page_key p = 1;
	int rc;

	hold(a, 0, &p, 1, 0, 100);
	for (p = 2; p < 6000; p++)
		hold(a, 0, &p, 1, 1, 200 + (msec)p);
	assert_int_equal(write_all(a, SERVERS, 10000, &s, NULL), 1);
	assert_non_null(l = snapshot_loader_new(b, &here, s.p, s.n, server_by_name, NULL, 10000));
	while ((rc = snapshot_load_step(l, &st, &e)) == 0 && room_of(b, 1) == 0)
		;
	assert_int_equal(rc, 0);
	while (!index_drop_step(b, 1, 100))
		;
	while ((rc = snapshot_load_step(l, &st, &e)) == 0)
		;
	assert_int_equal(rc, 1);
	assert_int_equal(room_of(b, 1), 0);
	assert_int_equal(room_of(b, 0), room_of(a, 0));
	snapshot_loader_free(l);
	index_free(a);
	index_free(b);
	free(s.p);
}

static void a_server_that_is_being_dropped_gets_nothing(void **state)
{
	struct index *a = new_index(8 << 20, INDEX_LRU), *b = new_index(8 << 20, INDEX_LRU);
	struct bytes s = { NULL };
	struct snapshot_stats st;
	struct snapshot_loader *l;
	struct err e;
	page_key p;
	int rc;

	for (p = 1; p < 200; p++)
		hold(a, 0, &p, 1, 1, 100 + (msec)p);
	hold(a, 0, &p, 1, 0, 10000);
	assert_int_equal(write_all(a, SERVERS, 10000, &s, NULL), 1);
	for (p = 1; p < 10; p++)
		hold(b, 1, &p, 1, 1, 10000);
	assert_false(index_drop_step(b, 1, 1));
	assert_non_null(l = snapshot_loader_new(b, &here, s.p, s.n, server_by_name, NULL, 10000));
	while ((rc = snapshot_load_step(l, &st, &e)) == 0 && room_of(b, 0) == 0)
		;
	assert_int_equal(rc, 0);
	while (!index_drop_step(b, 1, 100))
		;
	while ((rc = snapshot_load_step(l, &st, &e)) == 0)
		;
	assert_int_equal(rc, 1);
	assert_int_equal(room_of(b, 1), 0);
	assert_int_equal(room_of(b, 0), room_of(a, 0));
	snapshot_loader_free(l);
	index_free(a);
	index_free(b);
	free(s.p);
}

static void a_loader_may_be_freed_at_any_step(void **state)
{
	struct bytes s = small_snapshot();
	struct snapshot_stats st;
	struct err e;
	int rc = 0;

	for (unsigned n = 0; rc == 0; n++) {
		struct index *ix = new_index(1 << 20, INDEX_LRU);
		struct snapshot_loader *l =
		    snapshot_loader_new(ix, &here, s.p, s.n, server_by_name, NULL, 0);

		assert_non_null(l);
		rc = 0;
		for (unsigned i = 0; i < n && rc == 0; i++)
			rc = snapshot_load_step(l, &st, &e);
		snapshot_loader_free(l);
		check(ix);
		index_free(ix);
	}
	assert_int_equal(rc, 1);
	free(s.p);
}

static void cut_short_anywhere(void **state)
{
	struct index *ix = new_index(1 << 20, INDEX_LRU);
	struct bytes s = small_snapshot();
	size_t n;

	for (n = 0; n < s.n; n++)
		refused(ix, &here, s.p, n, n < 48 ? "beginning" : "cut short");
	put_bytes(&s, "x", 1);
	refused(ix, &here, s.p, s.n, "after its end");
	index_free(ix);
	free(s.p);
}

static void any_bit_flipped(void **state)
{
	struct index *ix = new_index(1 << 20, INDEX_LRU);
	struct bytes s = small_snapshot();
	size_t i;

	for (i = 0; i < s.n * 8; i++) {
		s.p[i / 8] ^= (uint8_t)(1u << i % 8);
		refused(ix, &here, s.p, s.n, NULL);
		s.p[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	index_free(ix);
	free(s.p);
}

static void any_of_many_bits_flipped(void **state)
{
	struct index *ix = new_index(1 << 20, INDEX_LRU), *a = new_index(4 << 20, INDEX_LRU);
	struct bytes s = { NULL };
	struct rng rng;
	size_t at;
	unsigned i;

	rng_init(&rng, 5);
	random_steps(a, &rng, 3000, 100);
	assert_int_equal(write_all(a, SERVERS, 0, &s, NULL), 1);
	assert_true(s.n > 200000);		/* several sections */
	for (i = 0; i < 300; i++) {
		at = rng_below(&rng, (uint32_t)s.n);
		s.p[at] ^= (uint8_t)(1u << i % 8);
		refused(ix, &here, s.p, s.n, NULL);
		s.p[at] ^= (uint8_t)(1u << i % 8);
		refused(ix, &here, s.p, at, NULL);
	}
	index_free(ix);
	index_free(a);
	free(s.p);
}

static void another_key_page_or_version(void **state)
{
	struct index *ix = new_index(1 << 20, INDEX_LRU);
	struct snapshot_of of = here;
	struct bytes s = small_snapshot();

	of.key_id++;
	refused(ix, &of, s.p, s.n, "another key");
	of = here;
	of.text_page = 128;
	refused(ix, &of, s.p, s.n, "64 bytes");
	of = here;
	of.token_page = 1;
	refused(ix, &of, s.p, s.n, "16 tokens");
	s.p[8] = 0;
	refused(ix, &here, s.p, s.n, "format is 0, this version reads 2 and 1");
	s.p[8] = 3;
	refused(ix, &here, s.p, s.n, "format is 3");
	s.p[8] = 1;		/* nodes of that format have no room */
	put64(s.p + 40, checksum(s.p, 40));
	refused(ix, &here, s.p, s.n, "checksum over all sections");
	refused(ix, &here, (const uint8_t *)"kvroute: not a snapshot, but long enough to be one",
	    50, "no snapshot");
	index_free(ix);
	free(s.p);
}

/* <put> fails: the writer reports it from then on. */
static int put_until(void *arg, const void *p, size_t n)
{
	size_t *left = arg;

	if (n > *left)
		return -1;
	*left -= n;
	return 0;
}

static void a_full_disk_is_told(void **state)
{
	struct index *a = new_index(1 << 20, INDEX_LRU);
	struct snapshot_writer *w;
	size_t left = 100;

	small_story(a);
	assert_non_null(w = snapshot_writer_new(a, &here, 0, put_until, &left));
	name_servers(w, 3);
	assert_int_equal(snapshot_write(w, 1000), -1);
	assert_int_equal(snapshot_write(w, 1000), -1);
	snapshot_writer_free(w);
	index_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_index_is_within_the_bound),
		cmocka_unit_test(small_tree_comes_back),
		cmocka_unit_test(an_empty_index_comes_back_empty),
		cmocka_unit_test(what_is_only_claimed_is_not_there),
		cmocka_unit_test(ids_may_be_others_and_servers_gone),
		cmocka_unit_test(what_was_dropped_does_not_come_back),
		cmocka_unit_test(orders),
		cmocka_unit_test(priorities_survive),
		cmocka_unit_test(random_trees_come_back),
		cmocka_unit_test(long_chains_come_back),
		cmocka_unit_test(a_smaller_budget_takes_the_newest),
		cmocka_unit_test(loads_in_steps),
		cmocka_unit_test(a_dropped_server_ends_no_load),
		cmocka_unit_test(a_server_that_is_being_dropped_gets_nothing),
		cmocka_unit_test(a_loader_may_be_freed_at_any_step),
		cmocka_unit_test(cut_short_anywhere),
		cmocka_unit_test(any_bit_flipped),
		cmocka_unit_test(any_of_many_bits_flipped),
		cmocka_unit_test(the_time_between_makes_pages_older),
		cmocka_unit_test(another_key_page_or_version),
		cmocka_unit_test(pages_keep_their_room),
		cmocka_unit_test(a_full_disk_is_told),
	};

	return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
