/* test_sources_slices.c - a payload that is applied in slices: each does no more than its work, and
 * all together do what the whole does. Work is counted, not timed. */
#include "tests/unit/route/kv_batch.h"

#define BLOCKS	3000u

struct side {
	struct world w;
	source_id id;
};

static void begin(struct side *s)
{
	memset(s, 0, sizeof(*s));
	world_options(&s->w);
	s->w.o.events_max_bytes = 8u << 20;
	world_open(&s->w);
	s->id = route_source_open(s->w.r, SPAN("pool"), SPAN("s1"), 1, s->w.now);
	route_source_state(s->w.r, s->id, 0, KVCURSOR_SYNCED, true, s->w.now);
}

static void end(struct side *s)
{
	assert_null(events_check(s->w.r->sources.events));
	world_end(&s->w);
}

/* What a hostile publisher may send: blocks of one token, thousands in one event; many events; what
 * is stored again, in another tier, without tokens; and a last event that is cut short. */
static struct span payload_of(struct kv_batch *k)
{
	kv_stored(k, &(struct kv_stored){
		.first_handle = 1, .blocks = BLOCKS, .block_size = 1, .first_token = 70 });
	kv_stored(k, &(struct kv_stored){
		.first_handle = 1, .blocks = BLOCKS, .block_size = 0, .medium = "CPU" });
	for (unsigned i = 0; i < 500; i++)
		kv_stored(k, &(struct kv_stored){ .first_handle = 100000 + i, .blocks = 1,
			.block_size = 1, .first_token = i, .parent = 1 + i % 7 });
	kv_removed(k, 2000, BLOCKS - 2000, NULL);
	kv_removed(k, 500, 50, "CPU");
	kv_stored(k, &(struct kv_stored){ .first_handle = 900000, .blocks = 100, .block_size = 1,
		.first_token = 5, .salt = "a salt" });
	kv_byte(&k->b, 0x93);
	kv_u64(&k->b, 1);
	kv_array(&k->b, k->n);
	buf_add(&k->b, k->events.p, k->events.n);
	kv_byte(&k->b, 0xc0);
	return span_of(k->b.p, k->b.n);
}

static struct events_stats figures(const struct side *s)
{
	struct events_stats st;

	assert_true(route_events_stats(s->w.r, &st));
	return st;
}

static void slices_do_what_the_whole_does(void **state)
{
	static const int64_t works[] = { 1, 64, 65, 1000, 1 << 20 };
	struct kv_batch k = { 0 };
	struct span payload = payload_of(&k);
	struct source_batch whole, out;
	struct source_slices w;
	struct side a, b;
	struct events_stats x, y;

	begin(&a);
	assert_int_equal(route_source_batch(a.w.r, a.id, 0, payload, a.w.now, &whole), 0);
	assert_true(whole.stored > 2 * BLOCKS && whole.removed > 1000);
	x = figures(&a);
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
		uint64_t slices = 0, did = 0;
		bool over = false;

		begin(&b);
		assert_int_equal(route_source_begin(&w, payload), 0);
		while (!over) {
			struct events_stats before = figures(&b), after;
			int64_t left = works[i];

			over = route_source_slice(b.w.r, b.id, 0, &w, &left, b.w.now, &out);
			assert_true(left > -(int64_t)SOURCE_SLICE_OVER);
			assert_true(over || left <= 0);
			after = figures(&b);
			assert_in_range(after.stored + after.removed + after.unknown - before.stored -
				before.removed - before.unknown, 0, (uint64_t)(works[i] - left));
			did += (uint64_t)(works[i] - left);
			slices++;
		}
		y = figures(&b);
		assert_memory_equal(&whole, &out, sizeof(out));
		assert_int_equal(x.records, y.records);
		assert_int_equal(x.stored, y.stored);
		assert_int_equal(x.removed, y.removed);
		assert_int_equal(x.unknown, y.unknown);
		assert_int_equal(x.odd, y.odd);
		assert_true(slices >= did / (uint64_t)(works[i] + SOURCE_SLICE_OVER));
		assert_true(did >= 2 * BLOCKS + 500);
		end(&b);
	}
	end(&a);
	kv_free(&k);
}

static void what_cannot_be_read_is_refused_at_once(void **state)
{
	struct source_slices w;

	assert_int_equal(route_source_begin(&w, SPAN("\xc1")), -KVEVENT_E_FORM);
	assert_int_equal(route_source_begin(&w, SPAN("\x01")), -KVEVENT_E_BATCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_do_what_the_whole_does),
		cmocka_unit_test(what_cannot_be_read_is_refused_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
