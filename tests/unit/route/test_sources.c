/* test_sources.c - what KV cache events change in a decision: hits as engines report them, tiers,
 * ranks, requests on their way, and when the tree counts again. */
#include "tests/unit/route/kv_batch.h"

#define BLOCK	16u
#define PROMPT	1024u	/* ids: 64 blocks, of which 63 can be hit */

/* A pool of two servers, of which the first publishes. */
struct story {
	struct world w;
	struct kv_batch k;
	source_id id;
};

#define TWO	"lb1/1;s1=1,0,0,1;s2=1,0,0,1"

static void begin_in(struct story *s, size_t max_bytes, unsigned ranks, bool from_start)
{
	memset(s, 0, sizeof(*s));
	world_options(&s->w);
	s->w.o.events_max_bytes = max_bytes;
	s->w.q.path = SPAN("/v1/completions");
	s->w.q.load = SPAN(TWO);
	world_open(&s->w);
	s->id = route_source_open(s->w.r, SPAN("pool"), SPAN("s1"), ranks, s->w.now);
	assert_int_not_equal(s->id, SOURCE_NONE);
	for (unsigned i = 0; i < ranks; i++)
		route_source_state(s->w.r, s->id, i, KVCURSOR_SYNCED, from_start, s->w.now);
}

static void begin_with(struct story *s, unsigned ranks, bool from_start)
{
	begin_in(s, 4u << 20, ranks, from_start);
}

static void begin(struct story *s)
{
	begin_with(s, 1, true);
}

static void end(struct story *s)
{
	const char *broken = events_check(s->w.r->sources.events);

	if (broken != NULL)
		fail_msg("events: %s", broken);
	kv_free(&s->k);
	world_end(&s->w);
}

/* The engine stores the first <blocks> blocks of the prompt of ids(). */
static void stores(struct story *s, unsigned blocks)
{
	kv_stored(&s->k, &(struct kv_stored){
		.first_handle = 1, .blocks = blocks, .block_size = BLOCK, .first_token = 1000 });
	kv_publish(&s->w, &s->k, s->id, 0);
}

/* Send the prompt. Returns the pages expected at the chosen server. */
static uint32_t asks(struct story *s, const char *uid)
{
	ids(&s->w.body, PROMPT);
	send(&s->w, uid);
	return s->w.a.pages;
}

static void expect_pages(struct story *s, const char *server, uint32_t pages)
{
	static unsigned n;
	char uid[16];

	snprintf(uid, sizeof(uid), "x%u", n++);
	assert_int_equal(asks(s, uid), pages);
	if (pages > 0)
		assert_true(is(s->w.a.server, server));
	refused(&s->w, uid);
	s->w.now += 1000;
}

/* ---- what engines report ------------------------------------------------------------------- */

static void blocks_that_an_engine_reports_are_hits(void **state)
{
	struct story s;

	begin(&s);
	expect_pages(&s, "", 0);
	stores(&s, 40);
	expect_pages(&s, "s1", 40);
	end(&s);
}

static void a_source_may_be_known_before_its_server(void **state)
{
	struct story s;

	begin(&s);
	stores(&s, 40);
	expect_pages(&s, "s1", 40);
	end(&s);
}

static void the_last_token_is_always_computed(void **state)
{
	struct story s;

	begin(&s);
	stores(&s, 64);
	expect_pages(&s, "s1", 63);
	end(&s);
}

static void evicted_blocks_are_no_hits_although_requests_taught_them(void **state)
{
	struct story s;

	begin(&s);
	s.w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	asks(&s, "a");
	stores(&s, 64);
	served(&s.w, "a");
	s.w.now += 1000;
	expect_pages(&s, "s1", 63);
	kv_removed(&s.k, 11, 54, NULL);
	kv_publish(&s.w, &s.k, s.id, 0);
	expect_pages(&s, "s1", 10);
	end(&s);
}

static void blocks_after_a_hole_are_no_hits_until_it_is_stored_again(void **state)
{
	struct story s;

	begin(&s);
	stores(&s, 40);
	kv_removed(&s.k, 21, 1, NULL);
	kv_publish(&s.w, &s.k, s.id, 0);
	expect_pages(&s, "s1", 20);
	kv_stored(&s.k, &(struct kv_stored){ .first_handle = 21, .blocks = 1, .block_size = BLOCK,
		.first_token = 1000 + 20 * BLOCK, .parent = 20 });
	kv_publish(&s.w, &s.k, s.id, 0);
	expect_pages(&s, "s1", 40);
	end(&s);
}

static void blocks_may_be_larger_than_pages(void **state)
{
	struct story s;

	begin(&s);
	kv_stored(&s.k, &(struct kv_stored){
		.first_handle = 1, .blocks = 5, .block_size = 128, .first_token = 1000 });
	kv_publish(&s.w, &s.k, s.id, 0);
	expect_pages(&s, "s1", 40);
	kv_stored(&s.k, &(struct kv_stored){ .first_handle = 6, .blocks = 3, .block_size = 128,
		.first_token = 1000 + 640, .parent = 5 });
	kv_publish(&s.w, &s.k, s.id, 0);
	expect_pages(&s, "s1", 56);	/* the last block holds the last token */
	end(&s);
}

static void adapters_salts_and_images_separate_blocks(void **state)
{
	static const struct kv_stored others[] = {
		{ .lora = "ad1" }, { .salt = "s3" }, { .image = "img" },
	};

	for (unsigned i = 0; i < 3; i++) {
		struct kv_stored e = others[i];
		struct story s;

		begin(&s);
		e.first_handle = 1;
		e.blocks = 40;
		e.block_size = BLOCK;
		e.first_token = 1000;
		kv_stored(&s.k, &e);
		assert_int_equal(kv_publish(&s.w, &s.k, s.id, 0).stored, 40);
		expect_pages(&s, "s1", i == 2 ? 1 : 0);	/* the first block has no image */
		end(&s);
	}
}

static void a_salt_in_the_body_finds_its_blocks(void **state)
{
	struct story s;

	begin(&s);
	kv_stored(&s.k, &(struct kv_stored){ .first_handle = 1, .blocks = 40, .block_size = BLOCK,
		.first_token = 1000, .salt = "s3" });
	kv_publish(&s.w, &s.k, s.id, 0);
	ids(&s.w.body, PROMPT);
	s.w.body.n--;
	say(&s.w.body, ",\"cache_salt\":\"s3\"}");
	send(&s.w, "a");
	assert_int_equal(s.w.a.pages, 40);
	end(&s);
}

static void an_isolated_tenant_gets_no_hits_by_the_prompts_of_others(void **state)
{
	struct story s;

	begin(&s);
	stores(&s, 40);
	s.w.q.tenant = SPAN("a tenant");
	expect_pages(&s, "", 0);
	s.w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	asks(&s, "a");
	served(&s.w, "a");
	s.w.now += 1000;
	expect_pages(&s, "s1", 40);
	s.w.q.tenant = SPAN("another");
	expect_pages(&s, "", 0);
	end(&s);
}

static void an_adapter_named_by_events_has_its_own_blocks(void **state)
{
	struct story s;

	begin(&s);
	stores(&s, 40);
	kv_stored(&s.k, &(struct kv_stored){ .first_handle = 1001, .blocks = 10, .block_size = BLOCK,
		.first_token = 1000, .lora = "ad1" });
	kv_publish(&s.w, &s.k, s.id, 0);
	s.w.q.model = SPAN("ad1");
	expect_pages(&s, "s1", 10);
	s.w.q.model = SPAN("m");
	expect_pages(&s, "s1", 40);
	end(&s);
}

static void tenants_that_share_cache_see_the_engine_as_it_is(void **state)
{
	struct story s;

	begin(&s);
	s.w.o.pool_default.isolate_tenants = false;
	assert_int_equal(route_reconfigure(s.w.r, &s.w.o), 0);
	stores(&s, 40);
	s.w.q.tenant = SPAN("a tenant");
	expect_pages(&s, "s1", 40);
	end(&s);
}

static void a_tier_that_is_slow_counts_less(void **state)
{
	struct story s;

	begin(&s);
	kv_stored(&s.k, &(struct kv_stored){ .first_handle = 1, .blocks = 40, .block_size = BLOCK,
		.first_token = 1000, .medium = "STORAGE" });
	kv_publish(&s.w, &s.k, s.id, 0);
	asks(&s, "a");
	assert_true(is(s.w.a.server, "s1"));
	assert_int_equal(s.w.s->candidates[0].depth + s.w.s->candidates[1].depth, 40);
	assert_int_equal(s.w.s->candidates[0].cached + s.w.s->candidates[1].cached,
	    (uint64_t)(40 * BLOCK * s.w.o.pool_default.policy.disk_weight));
	end(&s);
}

static void the_rank_with_the_longest_part_is_named(void **state)
{
	struct story s;

	begin_with(&s, 2, true);
	kv_stored(&s.k, &(struct kv_stored){
		.first_handle = 1, .blocks = 10, .block_size = BLOCK, .first_token = 1000 });
	kv_publish(&s.w, &s.k, s.id, 0);
	kv_stored(&s.k, &(struct kv_stored){
		.first_handle = 1, .blocks = 30, .block_size = BLOCK, .first_token = 1000 });
	kv_publish(&s.w, &s.k, s.id, 1);
	expect_pages(&s, "s1", 30);
	assert_int_equal(s.w.a.rank, 1);
	end(&s);
}

static void a_server_of_one_rank_names_none(void **state)
{
	struct story s;

	begin(&s);
	stores(&s, 40);
	expect_pages(&s, "s1", 40);
	assert_int_equal(s.w.a.rank, -1);
	end(&s);
}

static void teach(struct story *s)
{
	s->w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	asks(s, "taught");
	served(&s->w, "taught");
	s->w.now += 1000;
}

/* ---- requests on their way ----------------------------------------------------------------- */

static void a_request_on_its_way_counts_until_its_blocks_must_be_reported(void **state)
{
	struct story s;

	begin(&s);
	s.w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	asks(&s, "a");
	assert_int_equal(asks(&s, "b"), 48);	/* up to the last mark in the prompt */
	served(&s.w, "a");
	served(&s.w, "b");
	s.w.now += 50;
	assert_int_equal(asks(&s, "c"), 48);
	served(&s.w, "c");
	s.w.now += 200;
	assert_int_equal(asks(&s, "d"), 0);	/* the engine has reported nothing */
	end(&s);
}

/* A prompt that was evicted, and another one that begins as it does and is on its way. */
static void what_follows_the_shared_beginning_is_not_on_its_way(void **state)
{
	struct story s;

	begin(&s);
	s.w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	teach(&s);
	ids(&s.w.body, 50 * BLOCK);
	s.w.body.n -= 2;
	for (unsigned i = 0; i < 200; i++)
		say(&s.w.body, ",%u", 50000 + i);
	say(&s.w.body, "]}");
	send(&s.w, "a");
	assert_int_equal(asks(&s, "b"), 48);
	end(&s);
}

static void a_failed_request_is_not_on_its_way(void **state)
{
	struct story s;

	begin(&s);
	s.w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	asks(&s, "a");
	refused(&s.w, "a");
	assert_int_equal(asks(&s, "b"), 0);
	end(&s);
}

/* A new prompt that begins as the last one, and differs in the page that its answer completed. */
static void an_answer_on_its_way_is_not_taken_for_another_prompt(void **state)
{
	struct story s;
	struct fact f;

	begin(&s);
	s.w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	ids(&s.w.body, 285);
	send(&s.w, "a");
	stores(&s, 17);
	tell_first(&s.w, "a", "s1", 200, "application/json");
	f = served_fact("a");
	f.output_tokens = 40;
	route_learn(s.w.r, &f, s.w.now);
	ids(&s.w.body, 280);
	s.w.body.n -= 2;
	for (unsigned i = 0; i < 200; i++)
		say(&s.w.body, ",%u", 50000 + i);
	say(&s.w.body, "]}");
	send(&s.w, "b");
	assert_int_equal(s.w.a.pages, 17);
	end(&s);
}

/* ---- which knowledge is used --------------------------------------------------------------- */

static void without_a_synced_rank_the_tree_counts(void **state)
{
	static const enum kvcursor_state states[] = { KVCURSOR_OFF, KVCURSOR_DEGRADED };

	for (unsigned i = 0; i < 2; i++) {
		struct story s;

		begin(&s);
		teach(&s);
		expect_pages(&s, "s1", 0);
		route_source_state(s.w.r, s.id, 0, states[i], true, s.w.now);
		expect_pages(&s, "s1", 63);
		end(&s);
	}
}

static void a_gap_is_trusted_for_a_while(void **state)
{
	struct story s;

	begin(&s);
	teach(&s);
	route_source_state(s.w.r, s.id, 0, KVCURSOR_GAP, true, s.w.now);
	s.w.now += SOURCE_GAP_MS;
	expect_pages(&s, "s1", 0);
	expect_pages(&s, "s1", 63);
	route_source_state(s.w.r, s.id, 0, KVCURSOR_SYNCED, true, s.w.now);
	expect_pages(&s, "s1", 0);
	end(&s);
}

static void events_from_the_middle_add_to_the_tree(void **state)
{
	struct story s;

	begin_with(&s, 1, false);
	teach(&s);
	expect_pages(&s, "s1", 63);
	end(&s);
}

static void after_a_clear_nothing_older_is_missing(void **state)
{
	struct story s;

	begin_with(&s, 1, false);
	kv_cleared(&s.k);
	kv_publish(&s.w, &s.k, s.id, 0);
	while (route_work(s.w.r))
		;
	teach(&s);
	stores(&s, 40);
	expect_pages(&s, "s1", 40);
	end(&s);
}

static void an_engine_that_filled_its_cache_has_reported_all_of_it(void **state)
{
	struct story s;

	begin_with(&s, 1, false);
	s.w.o.pool_default.capacity = 100 * BLOCK;
	assert_int_equal(route_reconfigure(s.w.r, &s.w.o), 0);
	teach(&s);
	expect_pages(&s, "s1", 63);
	kv_stored(&s.k, &(struct kv_stored){
		.first_handle = 1000, .blocks = 100, .block_size = BLOCK, .first_token = 90000 });
	kv_publish(&s.w, &s.k, s.id, 0);
	expect_pages(&s, "s1", 0);
	end(&s);
}

/* Publish up to <most> chains of 1000 blocks that nothing else holds, until <victim> has lost
 * some. */
static void fill(struct story *s, source_id id, source_id victim, unsigned most)
{
	const struct events *ev = s->w.r->sources.events;

	for (unsigned i = 1; i <= most && events_server_lost(ev, (server_id)victim) == 0; i++) {
		kv_stored(&s->k, &(struct kv_stored){ .first_handle = (id + 1) * 1000000ull + i * 1000,
			.blocks = 1000, .block_size = BLOCK,
			.first_token = 1000000 + (id * 1000 + i) * 1000 * BLOCK });
		kv_publish(&s->w, &s->k, id, 0);
	}
}

static void blocks_evicted_without_room_may_still_be_at_the_engine(void **state)
{
	struct story s;
	source_id other;

	begin_in(&s, 1u << 20, 1, true);
	other = route_source_open(s.w.r, SPAN("pool"), SPAN("s2"), 1, s.w.now);
	route_source_state(s.w.r, other, 0, KVCURSOR_SYNCED, true, s.w.now);
	teach(&s);
	stores(&s, 40);
	fill(&s, s.id, s.id, 20);
	expect_pages(&s, "s1", 40);
	fill(&s, other, s.id, 100);
	assert_true(events_server_lost(s.w.r->sources.events, (server_id)s.id) > 0);
	expect_pages(&s, "s1", 63);
	kv_removed(&s.k, 7, 1, NULL);		/* a batch of its own changes nothing */
	kv_publish(&s.w, &s.k, s.id, 0);
	expect_pages(&s, "s1", 63);
	route_source_clear(s.w.r, s.id, 0, false, false, s.w.now);
	route_source_state(s.w.r, s.id, 0, KVCURSOR_SYNCED, true, s.w.now);
	expect_pages(&s, "s1", 0);
	stores(&s, 30);
	expect_pages(&s, "s1", 30);
	end(&s);
}

static void a_publisher_that_is_silent_while_requests_go_there_is_not_trusted(void **state)
{
	struct story s;

	begin(&s);
	teach(&s);
	asks(&s, "a");
	served(&s.w, "a");
	s.w.now += SOURCE_QUIET_MS + 1;
	assert_int_equal(asks(&s, "b"), 63);
	stores(&s, 10);
	refused(&s.w, "b");
	s.w.now += 1000;
	expect_pages(&s, "s1", 10);
	end(&s);
}

static void a_closed_source_leaves_the_tree(void **state)
{
	struct story s;

	begin(&s);
	stores(&s, 40);
	teach(&s);
	route_source_close(s.w.r, s.id);
	expect_pages(&s, "s1", 63);
	end(&s);
}

static void an_empty_cache_empties_the_tree_too(void **state)
{
	struct story s;

	begin(&s);
	teach(&s);
	kv_cleared(&s.k);
	kv_publish(&s.w, &s.k, s.id, 0);
	while (route_work(s.w.r))
		;
	route_source_close(s.w.r, s.id);
	expect_pages(&s, "s1", 0);
	teach(&s);
	expect_pages(&s, "s1", 63);
	end(&s);
}

static void text_counts_by_the_blocks_that_are_left(void **state)
{
	struct story s;
	uint64_t room;

	begin(&s);
	teach(&s);
	stores(&s, 64);
	kv_removed(&s.k, 33, 32, NULL);
	kv_publish(&s.w, &s.k, s.id, 0);
	s.w.now += 2000;
	route_tick(s.w.r, s.w.now);
	room = index_server_capacity(s.w.r->index, 0);
	assert_int_equal(room, 32 * BLOCK * 9 / 8 * ROOM_OF_TOKEN);
	end(&s);
}

/* Store 564 blocks of a cache of 100 blocks, and report no removal. Returns the blocks that are
 * kept. */
static uint64_t kept_of_564(struct story *s)
{
	struct events_stats es;

	teach(s);
	stores(s, 64);
	s->w.now += 2000;
	route_tick(s->w.r, s->w.now);
	for (unsigned i = 0; i < 10; i++) {
		kv_stored(&s->k, &(struct kv_stored){ .first_handle = 1000 + 100 * i, .blocks = 50,
			.block_size = BLOCK, .first_token = 90000 + 1000 * i });
		kv_publish(&s->w, &s->k, s->id, 0);
	}
	while (route_work(s->w.r))
		;
	assert_true(route_events_stats(s->w.r, &es));
	return es.records;
}

static void no_more_blocks_are_kept_than_the_cache_has_room_for(void **state)
{
	struct engine_report e = { .waiting = -1, .running = -1, .kv_used = -1, .capacity = 100 * BLOCK };
	struct story s;

	begin(&s);
	asks(&s, "named");
	refused(&s.w, "named");
	route_observe_engine(s.w.r, SPAN("pool"), SPAN("s1"), &e, s.w.now, s.w.now + 60000);
	assert_in_range(kept_of_564(&s), 100, 110);
	end(&s);
}

/* It may be a part of the cache, and events name all of it. */
static void a_configured_size_bounds_no_events(void **state)
{
	struct story s;

	begin(&s);
	s.w.o.pool_default.capacity = 100 * BLOCK;
	assert_int_equal(route_reconfigure(s.w.r, &s.w.o), 0);
	assert_int_equal(kept_of_564(&s), 564);
	end(&s);
}

static void an_engine_whose_events_cannot_be_used_is_judged_by_requests(void **state)
{
	struct story s;
	struct buf *b;

	begin(&s);
	teach(&s);
	b = &s.k.events;		/* an event whose tokens are not those of its blocks */
	s.k.n++;
	kv_byte(b, 0x84);
	kv_str(b, "type");
	kv_str(b, "BlockStored");
	kv_str(b, "block_hashes");
	kv_array(b, 1);
	kv_u64(b, 7);
	kv_str(b, "token_ids");
	kv_array(b, 1);
	kv_u64(b, 5);
	kv_str(b, "block_size");
	kv_u64(b, BLOCK);
	kv_publish(&s.w, &s.k, s.id, 0);
	expect_pages(&s, "s1", 63);
	stores(&s, 40);
	expect_pages(&s, "s1", 40);
	end(&s);
}

static void a_salt_that_events_never_name_leaves_the_tree(void **state)
{
	struct story s;

	begin(&s);
	s.w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	stores(&s, 40);
	for (unsigned i = 0; i < 2; i++) {
		ids(&s.w.body, PROMPT);
		s.w.body.n--;
		say(&s.w.body, ",\"extra_key\":\"s3\"}");
		send(&s.w, "a");
		assert_int_equal(s.w.a.pages, i == 0 ? 0 : 63);
		served(&s.w, "a");
		s.w.now += 1000;
	}
	end(&s);
}

/* Another request has started it, whose blocks should have been stored by now. */
static void a_refused_request_stops_no_clock(void **state)
{
	struct story s;

	begin(&s);
	teach(&s);
	stores(&s, 10);
	s.w.now += 1000;
	asks(&s, "a");
	s.w.now += 1000;
	asks(&s, "b");
	refused(&s.w, "b");
	served(&s.w, "a");
	s.w.now += SOURCE_QUIET_MS + 1;
	assert_int_equal(asks(&s, "c"), 63);
	end(&s);
}

static void a_refused_request_starts_no_clock(void **state)
{
	struct story s;

	begin(&s);
	teach(&s);
	stores(&s, 10);
	s.w.now += 1000;
	asks(&s, "a");
	refused(&s.w, "a");
	s.w.now += SOURCE_QUIET_MS + 1;
	expect_pages(&s, "s1", 10);
	end(&s);
}

/* ---- hostile and odd ----------------------------------------------------------------------- */

static void a_payload_that_is_no_batch_changes_nothing(void **state)
{
	struct source_batch out;
	struct story s;
	int rc;

	begin(&s);
	stores(&s, 40);
	rc = route_source_batch(s.w.r, s.id, 0, SPAN("\xc1"), s.w.now, &out);
	assert_int_equal(rc, -KVEVENT_E_FORM);
	rc = route_source_batch(s.w.r, s.id, 0, SPAN("\x90"), s.w.now, &out);
	assert_int_equal(rc, -KVEVENT_E_BATCH);
	expect_pages(&s, "s1", 40);
	end(&s);
}

static void blocks_of_any_size_are_safe(void **state)
{
	struct story s;

	begin(&s);
	for (unsigned size = 1; size < 6000; size = size * 5 / 3 + 1) {
		kv_stored(&s.k, &(struct kv_stored){
			.first_handle = size * 100, .blocks = 3, .block_size = size, .first_token = 5 });
		kv_publish(&s.w, &s.k, s.id, 0);
	}
	expect_pages(&s, "", 0);
	end(&s);
}

static void sources_are_bounded_and_can_be_opened_again(void **state)
{
	char name[16];
	struct story s;
	source_id id;

	begin(&s);
	assert_int_equal(route_source_open(s.w.r, SPAN("pool"), SPAN("s1"), 1, s.w.now), s.id);
	for (unsigned i = 1; i < SOURCES_MAX; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		id = route_source_open(s.w.r, SPAN("pool"), span_str(name), 1, s.w.now);
		assert_int_not_equal(id, SOURCE_NONE);
	}
	assert_int_equal(route_source_open(s.w.r, SPAN("pool"), SPAN("more"), 1, s.w.now), SOURCE_NONE);
	route_source_close(s.w.r, id);
	assert_int_equal(route_source_open(s.w.r, SPAN("pool"), SPAN("more"), 1, s.w.now), id);
	assert_int_equal(route_source_open(s.w.r, SPAN("pool"), SPAN("s1"), 0, s.w.now), SOURCE_NONE);
	id = route_source_open(s.w.r, SPAN("pool"), SPAN("s1"), SOURCE_RANKS_MAX + 1, s.w.now);
	assert_int_equal(id, SOURCE_NONE);
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_that_an_engine_reports_are_hits),
		cmocka_unit_test(a_source_may_be_known_before_its_server),
		cmocka_unit_test(the_last_token_is_always_computed),
		cmocka_unit_test(evicted_blocks_are_no_hits_although_requests_taught_them),
		cmocka_unit_test(blocks_after_a_hole_are_no_hits_until_it_is_stored_again),
		cmocka_unit_test(blocks_may_be_larger_than_pages),
		cmocka_unit_test(adapters_salts_and_images_separate_blocks),
		cmocka_unit_test(a_salt_in_the_body_finds_its_blocks),
		cmocka_unit_test(an_isolated_tenant_gets_no_hits_by_the_prompts_of_others),
		cmocka_unit_test(an_adapter_named_by_events_has_its_own_blocks),
		cmocka_unit_test(tenants_that_share_cache_see_the_engine_as_it_is),
		cmocka_unit_test(a_tier_that_is_slow_counts_less),
		cmocka_unit_test(the_rank_with_the_longest_part_is_named),
		cmocka_unit_test(a_server_of_one_rank_names_none),
		cmocka_unit_test(a_request_on_its_way_counts_until_its_blocks_must_be_reported),
		cmocka_unit_test(what_follows_the_shared_beginning_is_not_on_its_way),
		cmocka_unit_test(a_failed_request_is_not_on_its_way),
		cmocka_unit_test(an_answer_on_its_way_is_not_taken_for_another_prompt),
		cmocka_unit_test(without_a_synced_rank_the_tree_counts),
		cmocka_unit_test(a_gap_is_trusted_for_a_while),
		cmocka_unit_test(events_from_the_middle_add_to_the_tree),
		cmocka_unit_test(after_a_clear_nothing_older_is_missing),
		cmocka_unit_test(an_engine_that_filled_its_cache_has_reported_all_of_it),
		cmocka_unit_test(blocks_evicted_without_room_may_still_be_at_the_engine),
		cmocka_unit_test(a_publisher_that_is_silent_while_requests_go_there_is_not_trusted),
		cmocka_unit_test(a_closed_source_leaves_the_tree),
		cmocka_unit_test(an_empty_cache_empties_the_tree_too),
		cmocka_unit_test(text_counts_by_the_blocks_that_are_left),
		cmocka_unit_test(no_more_blocks_are_kept_than_the_cache_has_room_for),
		cmocka_unit_test(a_configured_size_bounds_no_events),
		cmocka_unit_test(an_engine_whose_events_cannot_be_used_is_judged_by_requests),
		cmocka_unit_test(a_salt_that_events_never_name_leaves_the_tree),
		cmocka_unit_test(a_refused_request_stops_no_clock),
		cmocka_unit_test(a_refused_request_starts_no_clock),
		cmocka_unit_test(a_payload_that_is_no_batch_changes_nothing),
		cmocka_unit_test(blocks_of_any_size_are_safe),
		cmocka_unit_test(sources_are_bounded_and_can_be_opened_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
