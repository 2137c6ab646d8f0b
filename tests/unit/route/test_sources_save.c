/* test_sources_save.c - publishers and their blocks over a restart of the agent. */
#include "tests/unit/route/kv_batch.h"

#define BLOCK	16u
#define BLOCKS	40u

static int put_bytes(void *arg, const void *bytes, size_t n)
{
	buf_add(arg, bytes, n);
	return 0;
}

static int put_nothing(void *arg, const void *bytes, size_t n)
{
	return -1;
}

static void open_world(struct world *w)
{
	memset(w, 0, sizeof(*w));
	world_options(w);
	w->o.events_max_bytes = 4u << 20;
	w->q.path = SPAN("/v1/completions");
	w->q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,0,0,1");
	world_open(w);
}

static const struct kvcursor_place place = {
	.next = 77, .hash = 0x1234567890abcdef, .blocks = BLOCKS, .from_start = true
};

/* Let "s1" publish the first blocks of the prompt of ids(). */
static source_id publish(struct world *w, bool placed)
{
	struct kv_batch k = { 0 };
	source_id id = route_source_open(w->r, SPAN("pool"), SPAN("s1"), 2, w->now);

	for (unsigned rank = 0; rank < 2; rank++) {
		route_source_state(w->r, id, rank, KVCURSOR_SYNCED, true, w->now);
		kv_stored(&k, &(struct kv_stored){ .first_handle = 1, .blocks = rank == 0 ? BLOCKS : 3,
			.block_size = BLOCK, .first_token = 1000 });
		kv_publish(w, &k, id, rank);
		if (placed)
			route_source_place(w->r, id, rank, &place);
	}
	kv_free(&k);
	return id;
}

static uint32_t pages_of_prompt(struct world *w)
{
	ids(&w->body, 1024);
	send(w, "x");
	refused(w, "x");
	w->now += 1000;
	return w->a.pages;
}

static int restore(struct world *w, const struct buf *b, struct err *e)
{
	*e = (struct err){ .line = 0 };
	return route_restore_events(w->r, (const uint8_t *)b->p, b->n, w->now, e);
}

static struct buf saved(bool placed)
{
	struct buf b = { 0 };
	struct world w;

	open_world(&w);
	publish(&w, placed);
	assert_int_equal(route_save_events(w.r, put_bytes, &b), 0);
	assert_int_equal(route_save_events(w.r, put_nothing, NULL), -1);
	assert_in_range(b.n, 1, route_events_bytes_most(&w.o));
	world_end(&w);
	return b;
}

static void blocks_and_places_come_back(void **state)
{
	struct buf b = saved(true);
	struct kvcursor_place p;
	struct world w;
	source_id id;
	struct err e;

	open_world(&w);
	assert_int_equal(restore(&w, &b, &e), 0);
	id = route_source_open(w.r, SPAN("pool"), SPAN("s1"), 2, w.now);
	for (unsigned rank = 0; rank < 2; rank++) {
		assert_true(route_source_resume(w.r, id, rank, &p));
		assert_int_equal(p.next, place.next);
		assert_int_equal(p.hash, place.hash);
		assert_int_equal(p.blocks, place.blocks);
		assert_true(p.from_start);
		assert_false(route_source_resume(w.r, id, rank, &p));
	}
	assert_int_equal(pages_of_prompt(&w), 0);	/* not trusted before its cursor is */
	for (unsigned rank = 0; rank < 2; rank++)
		route_source_state(w.r, id, rank, KVCURSOR_SYNCED, true, w.now);
	assert_int_equal(pages_of_prompt(&w), BLOCKS);
	assert_int_equal(w.a.rank, 0);
	assert_null(events_check(w.r->sources.events));
	world_end(&w);
	buf_free(&b);
}

static void a_rank_without_a_place_begins_anew(void **state)
{
	struct buf b = saved(false);
	struct kvcursor_place p;
	struct events_stats es;
	struct world w;
	source_id id;
	struct err e;

	open_world(&w);
	assert_int_equal(restore(&w, &b, &e), 0);
	id = route_source_open(w.r, SPAN("pool"), SPAN("s1"), 2, w.now);
	assert_false(route_source_resume(w.r, id, 0, &p));
	while (route_work(w.r))
		;
	assert_true(route_events_stats(w.r, &es));
	assert_int_equal(es.records, 0);
	world_end(&w);
	buf_free(&b);
}

static void a_source_that_nobody_opens_is_forgotten(void **state)
{
	struct buf b = saved(true);
	struct events_stats es;
	struct world w;
	struct err e;

	open_world(&w);
	assert_int_equal(restore(&w, &b, &e), 0);
	w.now += SOURCE_RESTORED_MS + 2000;
	route_tick(w.r, w.now);
	while (route_work(w.r))
		;
	assert_true(route_events_stats(w.r, &es));
	assert_int_equal(es.records, 0);
	assert_int_equal(es.holders, 0);
	world_end(&w);
	buf_free(&b);
}

static void nothing_is_written_without_sources(void **state)
{
	struct buf b = { 0 };
	struct world w;

	open_world(&w);
	assert_int_equal(route_save_events(w.r, put_bytes, &b), 0);
	assert_int_equal(b.n, 0);
	world_end(&w);
}

static void damaged_bytes_are_refused(void **state)
{
	struct buf b = saved(true), part;
	struct events_stats es;
	struct world w;
	struct err e;

	open_world(&w);
	for (size_t n = 0; n < b.n; n++) {
		part = b;
		part.n = n;
		assert_int_equal(restore(&w, &part, &e), -1);
		assert_true(e.text[0] != '\0');
	}
	for (size_t i = 0; i < b.n; i++) {
		b.p[i] ^= 0x10;
		assert_int_equal(restore(&w, &b, &e), -1);
		b.p[i] ^= 0x10;
	}
	while (route_work(w.r))
		;
	if (route_events_stats(w.r, &es))
		assert_int_equal(es.records, 0);
	assert_int_equal(restore(&w, &b, &e), 0);
	world_end(&w);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_and_places_come_back),
		cmocka_unit_test(a_rank_without_a_place_begins_anew),
		cmocka_unit_test(a_source_that_nobody_opens_is_forgotten),
		cmocka_unit_test(nothing_is_written_without_sources),
		cmocka_unit_test(damaged_bytes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
