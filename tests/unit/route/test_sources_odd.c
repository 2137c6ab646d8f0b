/* test_sources_odd.c - KV cache events that are unusual, malformed or hostile: they change what is
 * expected of their own server only, and never to more than it holds. */
#include "tests/unit/route/kv_batch.h"

#define BLOCK	16u
#define PROMPT	1024u	/* ids: 64 blocks, of which 63 can be hit */
#define ONE	"lb1/1;s1=1,0,0,1"
#define TWO	"lb1/1;s1=1,0,0,1;s2=1,0,0,1"

struct story {
	struct world w;
	struct kv_batch k;
	source_id id;
};

static void prepare(struct story *s)
{
	memset(s, 0, sizeof(*s));
	world_options(&s->w);
	s->w.o.events_max_bytes = 4u << 20;
	s->w.o.pool_default.policy.penalty_failure = 0;
	s->w.q.path = SPAN("/v1/completions");
	s->w.q.load = SPAN(ONE);
}

static source_id publisher(struct story *s, const char *server, bool from_start)
{
	source_id id = route_source_open(s->w.r, SPAN("pool"), span_str(server), 1, s->w.now);

	assert_int_not_equal(id, SOURCE_NONE);
	route_source_state(s->w.r, id, 0, KVCURSOR_SYNCED, from_start, s->w.now);
	return id;
}

static void open_world(struct story *s)
{
	world_open(&s->w);
	s->id = publisher(s, "s1", true);
}

static void begin(struct story *s)
{
	prepare(s);
	open_world(s);
}

static void end(struct story *s)
{
	const char *broken = events_check(s->w.r->sources.events);

	if (broken != NULL)
		fail_msg("events: %s", broken);
	kv_free(&s->k);
	world_end(&s->w);
}

static struct source_batch stores(
    struct story *s, source_id id, uint64_t handle, unsigned blocks, unsigned size)
{
	kv_stored(&s->k, &(struct kv_stored){
		.first_handle = handle, .blocks = blocks, .block_size = size, .first_token = 1000 });
	return kv_publish(&s->w, &s->k, id, 0);
}

static uint32_t asks(struct story *s, const char *uid)
{
	ids(&s->w.body, PROMPT);
	send(&s->w, uid);
	return s->w.a.pages;
}

/* Send the prompt, which fails before it reaches the engine. Returns the pages expected. */
static uint32_t pages_of(struct story *s)
{
	static unsigned n;
	char uid[16];
	uint32_t pages;

	snprintf(uid, sizeof(uid), "x%u", n++);
	pages = asks(s, uid);
	refused(&s->w, uid);
	s->w.now += 1000;
	return pages;
}

static void teach(struct story *s)
{
	asks(s, "taught");
	served(&s->w, "taught");
	s->w.now += 1000;
}

static enum truth truth_of(struct story *s, unsigned i)
{
	return (enum truth)s->w.s->candidates[i].truth;
}

/* ---- sizes of blocks ----------------------------------------------------------------------- */

static void a_prompt_that_cannot_be_divided_into_the_blocks_is_judged_by_the_tree(void **state)
{
	struct story s;

	begin(&s);
	teach(&s);
	stores(&s, s.id, 1, 10, 24);	/* the ids of the prompt are only known in pages of 16 */
	assert_int_equal(pages_of(&s), 63);
	assert_int_equal(truth_of(&s, 0), TRUTH_TREE);
	end(&s);
}

static void a_server_whose_blocks_cannot_be_stored_is_judged_by_the_tree(void **state)
{
	struct story s;

	begin(&s);
	teach(&s);
	assert_int_equal(stores(&s, s.id, 1, 1, 1000).stored, 0);
	assert_int_equal(pages_of(&s), 63);
	assert_int_equal(truth_of(&s, 0), TRUTH_TREE);
	end(&s);
}

static void a_block_stored_in_part_does_not_change_the_block_size(void **state)
{
	struct story s;

	begin(&s);
	stores(&s, s.id, 1, 40, BLOCK);
	kv_stored(&s.k, &(struct kv_stored){ .first_handle = 90, .blocks = 1, .block_size = 7,
		.first_token = 5, .parent = 40 });
	kv_publish(&s.w, &s.k, s.id, 0);
	assert_int_equal(s.w.r->sources.of[s.id].block_size, BLOCK);
	assert_int_equal(pages_of(&s), 40);
	end(&s);
}

static void a_block_stored_in_part_first_does_not_keep_whole_ones_out(void **state)
{
	struct story s;

	begin(&s);
	stores(&s, s.id, 90, 1, 7);
	stores(&s, s.id, 1, 10, 64);
	assert_int_equal(s.w.r->sources.of[s.id].block_size, 64);
	assert_int_equal(pages_of(&s), 40);
	end(&s);
}

static void chunks_of_a_slower_tier_do_not_keep_blocks_out(void **state)
{
	struct story s;

	begin(&s);
	kv_stored(&s.k, &(struct kv_stored){ .first_handle = 900, .blocks = 2, .block_size = 256,
		.first_token = 1000, .medium = "CPU" });
	kv_publish(&s.w, &s.k, s.id, 0);
	assert_int_equal(pages_of(&s), 32);
	stores(&s, s.id, 1, 40, BLOCK);
	assert_int_equal(s.w.r->sources.of[s.id].block_size, BLOCK);
	assert_int_equal(pages_of(&s), 40);
	end(&s);
}

static void a_page_size_is_free_again_when_its_publisher_is_closed(void **state)
{
	static const char *const names[] = { "n0", "n1", "n2", "n3" };
	source_id id[4];
	struct story s;

	begin(&s);
	for (unsigned i = 0; i < 4; i++) {
		id[i] = publisher(&s, names[i], true);
		assert_int_equal(stores(&s, id[i], 1, 1, 17 + 2 * i).stored, i < SOURCE_SIZES - 1);
	}
	route_source_close(s.w.r, id[0]);
	assert_int_equal(stores(&s, s.id, 1, 26, 24).stored, 26);
	end(&s);
}

static void sizes_of_one_publisher_leave_room_for_those_of_others(void **state)
{
	struct story s;
	source_id rogue;

	begin(&s);
	rogue = publisher(&s, "s2", true);
	for (unsigned size = 17; size < 40; size += 2)
		stores(&s, rogue, size, 1, size);
	assert_int_equal(stores(&s, s.id, 1, 40, BLOCK).stored, 40);
	assert_int_equal(pages_of(&s), 40);
	end(&s);
}

/* ---- clears -------------------------------------------------------------------------------- */

static void a_clear_of_a_source_that_was_closed_does_not_reach_the_next_one(void **state)
{
	struct story s;

	begin(&s);
	teach(&s);
	route_source_close(s.w.r, s.id);
	s.id = publisher(&s, "s2", true);
	kv_cleared(&s.k);
	kv_publish(&s.w, &s.k, s.id, 0);
	route_source_close(s.w.r, s.id);
	assert_int_equal(publisher(&s, "s1", false), s.id);
	while (route_work(s.w.r))
		;
	assert_int_equal(pages_of(&s), 63);
	end(&s);
}

static void a_clear_does_not_wait_for_the_lock_of_decisions(void **state)
{
	struct story s;

	begin(&s);
	teach(&s);
	pthread_mutex_lock(&s.w.r->lock);
	kv_cleared(&s.k);
	kv_publish(&s.w, &s.k, s.id, 0);
	route_source_clear(s.w.r, s.id, 0, true, true, s.w.now);
	pthread_mutex_unlock(&s.w.r->lock);
	while (route_work(s.w.r))
		;
	route_source_close(s.w.r, s.id);
	assert_int_equal(pages_of(&s), 0);
	end(&s);
}

static void the_background_waits_for_no_batch(void **state)
{
	struct events_stats es;
	struct story s;

	begin(&s);
	stores(&s, s.id, 1, 40, BLOCK);
	pthread_mutex_lock(&s.w.r->sources.lock);
	kv_cleared(&s.k);
	while (route_work(s.w.r))
		;
	pthread_mutex_unlock(&s.w.r->sources.lock);
	kv_publish(&s.w, &s.k, s.id, 0);	/* the thread of the batch removes the blocks */
	assert_true(route_events_stats(s.w.r, &es));
	assert_int_equal(es.records, 0);
	end(&s);
}

/* ---- malformed ----------------------------------------------------------------------------- */

static void an_event_ends_at_its_first_bad_token(void **state)
{
	struct source_batch out;
	struct buf *b;
	struct story s;

	begin(&s);
	b = &s.k.events;
	s.k.n = 1;
	kv_byte(b, 0x84);
	kv_str(b, "type");
	kv_str(b, "BlockStored");
	kv_str(b, "block_hashes");
	kv_array(b, 4);
	for (unsigned i = 1; i <= 4; i++)
		kv_u64(b, i);
	kv_str(b, "token_ids");
	kv_array(b, 4 * BLOCK);
	for (unsigned i = 0; i < 4 * BLOCK; i++) {
		if (i == BLOCK)
			kv_str(b, "x");
		else
			kv_u64(b, i < BLOCK ? 1000 + i : 1000 + i - 1);
	}
	kv_str(b, "block_size");
	kv_u64(b, BLOCK);
	out = kv_publish(&s.w, &s.k, s.id, 0);
	assert_int_equal(out.stored, 1);
	assert_true(out.skipped);
	assert_int_equal(pages_of(&s), 1);
	end(&s);
}

/* ---- tenants ------------------------------------------------------------------------------- */

static void requests_without_a_tenant_get_no_hits_by_prompts_of_tenants(void **state)
{
	struct story s;

	begin(&s);
	s.w.q.tenant = SPAN("a tenant");
	teach(&s);
	stores(&s, s.id, 1, 40, BLOCK);
	assert_int_equal(pages_of(&s), 40);
	s.w.q.tenant = (struct span){ 0 };
	assert_int_equal(pages_of(&s), 0);
	end(&s);
}

static uint32_t matched(const struct story *s)
{
	const struct events_match *m = &s->w.s->reports;

	return m->n_hits > 0 ? m->hits[0].pages : 0;
}

/* The time of a match depends on the pages that match. */
static void no_more_pages_of_an_isolated_tenant_are_matched_than_it_has_sent(void **state)
{
	struct story s;

	begin(&s);
	stores(&s, s.id, 1, 40, BLOCK);
	pages_of(&s);
	assert_int_equal(matched(&s), 40);
	s.w.q.tenant = SPAN("a tenant");
	pages_of(&s);
	assert_int_equal(matched(&s), 0);
	ids(&s.w.body, 10 * BLOCK);
	send(&s.w, "taught");
	served(&s.w, "taught");
	s.w.now += 1000;
	assert_int_equal(pages_of(&s), 10);
	assert_int_equal(matched(&s), 10);
	end(&s);
}

static void an_answer_counts_for_an_isolated_tenant_too(void **state)
{
	struct story s;
	struct fact f;

	begin(&s);
	s.w.q.tenant = SPAN("a tenant");
	ids(&s.w.body, 10 * BLOCK);
	send(&s.w, "a");
	tell_first(&s.w, "a", "s1", 200, "application/json");
	f = served_fact("a");
	f.output_tokens = 5 * BLOCK + 1;
	route_learn(s.w.r, &f, s.w.now);
	s.w.now += 1000;
	stores(&s, s.id, 1, 15, BLOCK);
	assert_int_equal(pages_of(&s), 15);
	stores(&s, s.id, 1, 40, BLOCK);
	assert_int_equal(pages_of(&s), 15);
	end(&s);
}

static void an_isolated_tenant_does_not_learn_the_rank_of_what_others_sent(void **state)
{
	struct story s;

	prepare(&s);
	world_open(&s.w);
	s.id = route_source_open(s.w.r, SPAN("pool"), SPAN("s1"), 2, s.w.now);
	for (unsigned i = 0; i < 2; i++)
		route_source_state(s.w.r, s.id, i, KVCURSOR_SYNCED, true, s.w.now);
	stores(&s, s.id, 1, 40, BLOCK);
	s.w.q.tenant = SPAN("a tenant");
	assert_int_equal(pages_of(&s), 0);
	assert_int_equal(s.w.a.rank, -1);
	end(&s);
}

static void slower_tiers_of_longer_prompts_cost_an_isolated_tenant_nothing(void **state)
{
	struct story s;

	begin(&s);
	s.w.q.tenant = SPAN("a tenant");
	ids(&s.w.body, 10 * BLOCK);
	send(&s.w, "taught");
	served(&s.w, "taught");
	s.w.now += 1000;
	stores(&s, s.id, 1, 10, BLOCK);
	kv_stored(&s.k, &(struct kv_stored){ .first_handle = 11, .blocks = 30, .block_size = BLOCK,
		.first_token = 1000 + 10 * BLOCK, .parent = 10, .medium = "STORAGE" });
	kv_publish(&s.w, &s.k, s.id, 0);
	assert_int_equal(pages_of(&s), 10);
	assert_int_equal(s.w.s->candidates[0].cached, 10 * BLOCK);
	end(&s);
}

/* ---- requests on their way ----------------------------------------------------------------- */

static void a_request_that_was_sent_again_elsewhere_is_on_its_way_there_only(void **state)
{
	struct story s;

	begin(&s);
	teach(&s);
	asks(&s, "a");
	s.w.q.load = SPAN("lb1/1;s2=1,0,0,1");
	asks(&s, "a");
	s.w.q.load = SPAN(ONE);
	assert_int_equal(pages_of(&s), 0);
	assert_int_equal(truth_of(&s, 0), TRUTH_EVENTS);
	end(&s);
}

/* ---- what is complete ---------------------------------------------------------------------- */

/* An engine with room for 100 blocks, whose events are known from the middle on. */
static void begin_late(struct story *s)
{
	prepare(s);
	s->w.o.pool_default.capacity = 100 * BLOCK;
	world_open(&s->w);
	s->id = publisher(s, "s1", false);
	teach(s);
}

static void fill(struct story *s, unsigned from, unsigned blocks, uint64_t parent)
{
	kv_stored(&s->k, &(struct kv_stored){ .first_handle = from, .blocks = blocks,
		.block_size = BLOCK, .first_token = 90000 + from, .parent = parent });
	kv_publish(&s->w, &s->k, s->id, 0);
}

static void a_prefix_that_new_blocks_follow_is_not_forgotten(void **state)
{
	struct story s;

	begin_late(&s);
	fill(&s, 1000, 60, 0);
	fill(&s, 2000, 1, 77);		/* 77 was stored before the first event */
	fill(&s, 3000, 40, 0);
	assert_int_equal(pages_of(&s), 63);
	assert_int_equal(truth_of(&s, 0), TRUTH_BOTH);
	fill(&s, 4000, 60, 0);		/* 100 since then: it would be evicted */
	assert_int_equal(pages_of(&s), 0);
	assert_int_equal(truth_of(&s, 0), TRUTH_EVENTS);
	end(&s);
}

static void blocks_that_are_not_reported_may_fill_the_rest_of_the_cache(void **state)
{
	struct story s;

	begin_late(&s);
	for (unsigned i = 0; i < 10; i++) {
		fill(&s, 1000 + 20 * i, 20, 0);
		if (i >= 2)
			kv_removed(&s.k, 1000 + 20 * (i - 2), 20, NULL);
	}
	kv_publish(&s.w, &s.k, s.id, 0);
	assert_int_equal(pages_of(&s), 63);
	assert_int_equal(truth_of(&s, 0), TRUTH_BOTH);
	end(&s);
}

static void copies_in_slower_tiers_do_not_fill_the_cache(void **state)
{
	struct story s;

	begin_late(&s);
	fill(&s, 1000, 90, 0);
	kv_stored(&s.k, &(struct kv_stored){ .first_handle = 1000, .blocks = 90, .block_size = BLOCK,
		.first_token = 91000, .medium = "CPU" });
	kv_publish(&s.w, &s.k, s.id, 0);
	assert_int_equal(pages_of(&s), 63);
	assert_int_equal(truth_of(&s, 0), TRUTH_BOTH);
	end(&s);
}

/* ---- secrets ------------------------------------------------------------------------------- */

static void no_token_of_a_batch_is_kept(void **state)
{
	struct story s;

	begin(&s);
	stores(&s, s.id, 1, 40, BLOCK);
	stores(&s, s.id, 500, 1, 7);
	for (unsigned i = 0; i < 4096; i++)
		assert_int_equal(s.w.r->sources.tokens[i], 0);
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_prompt_that_cannot_be_divided_into_the_blocks_is_judged_by_the_tree),
		cmocka_unit_test(a_server_whose_blocks_cannot_be_stored_is_judged_by_the_tree),
		cmocka_unit_test(a_block_stored_in_part_does_not_change_the_block_size),
		cmocka_unit_test(a_block_stored_in_part_first_does_not_keep_whole_ones_out),
		cmocka_unit_test(chunks_of_a_slower_tier_do_not_keep_blocks_out),
		cmocka_unit_test(a_page_size_is_free_again_when_its_publisher_is_closed),
		cmocka_unit_test(sizes_of_one_publisher_leave_room_for_those_of_others),
		cmocka_unit_test(a_clear_of_a_source_that_was_closed_does_not_reach_the_next_one),
		cmocka_unit_test(a_clear_does_not_wait_for_the_lock_of_decisions),
		cmocka_unit_test(the_background_waits_for_no_batch),
		cmocka_unit_test(an_event_ends_at_its_first_bad_token),
		cmocka_unit_test(requests_without_a_tenant_get_no_hits_by_prompts_of_tenants),
		cmocka_unit_test(no_more_pages_of_an_isolated_tenant_are_matched_than_it_has_sent),
		cmocka_unit_test(an_answer_counts_for_an_isolated_tenant_too),
		cmocka_unit_test(an_isolated_tenant_does_not_learn_the_rank_of_what_others_sent),
		cmocka_unit_test(slower_tiers_of_longer_prompts_cost_an_isolated_tenant_nothing),
		cmocka_unit_test(a_request_that_was_sent_again_elsewhere_is_on_its_way_there_only),
		cmocka_unit_test(a_prefix_that_new_blocks_follow_is_not_forgotten),
		cmocka_unit_test(blocks_that_are_not_reported_may_fill_the_rest_of_the_cache),
		cmocka_unit_test(copies_in_slower_tiers_do_not_fill_the_cache),
		cmocka_unit_test(no_token_of_a_batch_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
