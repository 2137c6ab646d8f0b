/* test_sources_apart.c - blocks that an engine has offloaded: in chunks of another size, and from a
 * publisher that does not report their removal (LMCache). */
#include "agent/base/sections.h"
#include "tests/unit/route/kv_batch.h"

#define BLOCK	16u
#define CHUNK	256u		/* tokens: 16 blocks */
#define ONE	"lb1/1;s1=1,0,0,1"

struct story {
	struct world w;
	struct kv_batch k;
	source_id id;
};

static void begin(struct story *s, msec ttl)
{
	memset(s, 0, sizeof(*s));
	world_options(&s->w);
	s->w.o.events_max_bytes = 4u << 20;
	s->w.q.path = SPAN("/v1/completions");
	s->w.q.load = SPAN(ONE);
	world_open(&s->w);
	s->id = route_source_open(s->w.r, SPAN("pool"), SPAN("s1"), 1, s->w.now);
	route_source_expire(s->w.r, s->id, ttl);
	route_source_state(s->w.r, s->id, 0, KVCURSOR_SYNCED, true, s->w.now);
}

static void end(struct story *s)
{
	assert_null(events_check(s->w.r->sources.events));
	kv_free(&s->k);
	world_end(&s->w);
}

static struct source_batch stores(
    struct story *s, uint64_t handle, unsigned blocks, unsigned size, const char *medium)
{
	kv_stored(&s->k, &(struct kv_stored){ .first_handle = handle, .blocks = blocks,
		.block_size = size, .first_token = 1000, .medium = medium });
	return kv_publish(&s->w, &s->k, s->id, 0);
}

/* Expect so many blocks of a prompt of 64, of which <device> are on the device. */
static void expect(struct story *s, uint32_t pages, uint32_t device)
{
	const struct candidate *c = &s->w.s->candidates[0];
	const struct policy_opts *p = &s->w.o.pool_default.policy;

	ids(&s->w.body, 1024);
	send(&s->w, "x");
	refused(&s->w, "x");
	assert_int_equal(s->w.a.pages, pages);
	assert_int_equal(c->depth, pages);
	assert_int_equal(c->cached,
	    (uint64_t)(device * BLOCK + (pages - device) * BLOCK * p->host_weight));
	s->w.now += 10;
}

static enum truth truth_of(struct story *s)
{
	return (enum truth)s->w.s->candidates[0].truth;
}

static void chunks_extend_what_the_device_has(void **state)
{
	struct story s;

	begin(&s, 0);
	stores(&s, 1, 20, BLOCK, "GPU");
	assert_int_equal(stores(&s, 900, 3, CHUNK, "cpu").stored, 3);
	expect(&s, 48, 20);
	kv_removed(&s.k, 6, 15, NULL);
	kv_publish(&s.w, &s.k, s.id, 0);
	expect(&s, 48, 5);
	kv_removed(&s.k, 901, 1, "cpu");
	assert_int_equal(kv_publish(&s.w, &s.k, s.id, 0).removed, 1);
	expect(&s, 16, 5);
	end(&s);
}

static void copies_of_blocks_are_removed_from_the_blocks(void **state)
{
	struct story s;

	begin(&s, 0);
	stores(&s, 1, 20, BLOCK, "GPU");
	stores(&s, 900, 1, CHUNK, "CPU");
	stores(&s, 1, 20, BLOCK, "CPU");
	kv_removed(&s.k, 1, 20, NULL);
	kv_publish(&s.w, &s.k, s.id, 0);
	expect(&s, 20, 0);
	kv_removed(&s.k, 1, 20, "CPU");
	assert_int_equal(kv_publish(&s.w, &s.k, s.id, 0).removed, 20);
	expect(&s, 16, 0);
	end(&s);
}

static void only_whole_chunks_count(void **state)
{
	struct story s;

	begin(&s, 0);
	stores(&s, 1, 2, BLOCK, "GPU");
	stores(&s, 900, 2, CHUNK, "cpu");
	assert_int_equal(stores(&s, 950, 1, 100, "cpu").stored, 0);
	assert_int_equal(stores(&s, 951, 1, 48, "cpu").stored, 0);
	expect(&s, 32, 2);
	end(&s);
}

static void a_clear_forgets_chunks_too(void **state)
{
	struct story s;

	begin(&s, 0);
	stores(&s, 1, 2, BLOCK, "GPU");
	stores(&s, 900, 2, CHUNK, "cpu");
	kv_cleared(&s.k);
	kv_publish(&s.w, &s.k, s.id, 0);
	expect(&s, 0, 0);
	stores(&s, 1, 2, BLOCK, "GPU");
	stores(&s, 900, 2, CHUNK, "cpu");
	route_source_clear(s.w.r, s.id, 0, true, true, s.w.now);
	route_source_state(s.w.r, s.id, 0, KVCURSOR_SYNCED, true, s.w.now);
	expect(&s, 0, 0);
	end(&s);
}

/* Blocks of the device are removed by events, so they do not expire. */
static void what_is_not_reported_to_be_removed_expires(void **state)
{
	struct story s;

	begin(&s, 60000);
	stores(&s, 1, 20, BLOCK, "GPU");
	stores(&s, 900, 3, CHUNK, "cpu");
	expect(&s, 48, 20);
	assert_int_equal(truth_of(&s), TRUTH_BOTH);
	for (unsigned i = 0; i < 59; i++) {
		route_tick(s.w.r, s.w.now += 1000);
		while (route_work(s.w.r))
			;
	}
	expect(&s, 48, 20);
	for (unsigned i = 0; i < 17; i++) {
		route_tick(s.w.r, s.w.now += 1000);
		while (route_work(s.w.r))
			;
	}
	expect(&s, 20, 20);
	stores(&s, 900, 3, CHUNK, "cpu");
	expect(&s, 48, 20);
	end(&s);
}

/* With a time to live copies of blocks expire as well, and batches are enough to make it so. */
static void batches_make_blocks_expire(void **state)
{
	struct story s;

	begin(&s, 60000);
	stores(&s, 1, 20, BLOCK, "GPU");
	stores(&s, 1, 30, BLOCK, "CPU");
	expect(&s, 30, 20);
	for (unsigned i = 0; i < 80; i++) {
		s.w.now += 1000;
		stores(&s, 1, 20, BLOCK, "GPU");
	}
	expect(&s, 20, 20);
	end(&s);
}

static int put_bytes(void *arg, const void *bytes, size_t n)
{
	buf_add(arg, bytes, n);
	return 0;
}

static void chunks_survive_a_restart(void **state)
{
	struct kvcursor_place p = { .next = 7, .hash = 8, .blocks = 23, .from_start = true };
	struct buf b = { 0 };
	struct story s;
	struct err e = { 0 };

	begin(&s, 60000);
	stores(&s, 1, 20, BLOCK, "GPU");
	assert_int_equal(stores(&s, 900, 3, CHUNK, "cpu").expiring, 3);
	route_source_place(s.w.r, s.id, 0, &p);
	assert_int_equal(route_save_events(s.w.r, put_bytes, &b), 0);
	end(&s);

	begin(&s, 60000);
	route_source_close(s.w.r, s.id);
	assert_int_equal(
	    route_restore_events(s.w.r, (const uint8_t *)b.p, b.n, s.w.now, &e), 0);
	s.id = route_source_open(s.w.r, SPAN("pool"), SPAN("s1"), 1, s.w.now);
	assert_true(route_source_resume(s.w.r, s.id, 0, &p));
	route_source_state(s.w.r, s.id, 0, KVCURSOR_SYNCED, true, s.w.now);
	expect(&s, 48, 20);
	kv_removed(&s.k, 901, 2, "cpu");
	assert_int_equal(kv_publish(&s.w, &s.k, s.id, 0).removed, 2);
	assert_int_equal(stores(&s, 990, 1, 100, "cpu").stored, 0);
	expect(&s, 20, 20);
	end(&s);
	buf_free(&b);
}

/* No chunk is as large; all that come would seem to be parts of larger ones. */
static void a_chunk_that_is_too_large(void **state)
{
	struct kvcursor_place p = { .next = 7, .hash = 8, .blocks = 23, .from_start = true };
	struct buf b = { 0 };
	struct story s;
	struct err e = { 0 };
	uint8_t *list, *flags;
	uint32_t n;

	begin(&s, 60000);
	stores(&s, 1, 20, BLOCK, "GPU");
	stores(&s, 900, 3, CHUNK, "cpu");
	route_source_place(s.w.r, s.id, 0, &p);
	assert_int_equal(route_save_events(s.w.r, put_bytes, &b), 0);
	end(&s);

	list = (uint8_t *)b.p + 40;
	n = get32((uint8_t *)b.p + 28);
	flags = list + 16 + strlen("pool") + strlen("s1") + 40;
	assert_int_equal(get32(flags) >> 16, CHUNK);
	put32(flags, (get32(flags) & 0xffff) | 5000u << 16);
	put64(list + n - 8, checksum(list, n - 8));
	begin(&s, 60000);
	route_source_close(s.w.r, s.id);
	assert_int_equal(
	    route_restore_events(s.w.r, (const uint8_t *)b.p, b.n, s.w.now, &e), -1);
	assert_non_null(strstr(e.text, "malformed"));
	s.id = route_source_open(s.w.r, SPAN("pool"), SPAN("s1"), 1, s.w.now);
	end(&s);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_extend_what_the_device_has),
		cmocka_unit_test(copies_of_blocks_are_removed_from_the_blocks),
		cmocka_unit_test(only_whole_chunks_count),
		cmocka_unit_test(a_clear_forgets_chunks_too),
		cmocka_unit_test(what_is_not_reported_to_be_removed_expires),
		cmocka_unit_test(batches_make_blocks_expire),
		cmocka_unit_test(chunks_survive_a_restart),
		cmocka_unit_test(a_chunk_that_is_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
