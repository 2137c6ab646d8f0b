/* test_sources_cause.c - why the events of a server do not count, or not alone: each cause, in the
 * decision; and what a publisher cannot do to others. */
#include "tests/unit/route/kv_batch.h"

#define BLOCK	16u
#define ONE	"lb1/1;s1=1,0,0,1"

struct story {
	struct world w;
	struct kv_batch k;
	source_id id;
};

static void begin_with(struct story *s, unsigned ranks, bool from_start)
{
	memset(s, 0, sizeof(*s));
	world_options(&s->w);
	s->w.o.events_max_bytes = 1u << 20;
	s->w.q.path = SPAN("/v1/completions");
	s->w.q.load = SPAN(ONE);
	world_open(&s->w);
	s->id = route_source_open(s->w.r, SPAN("pool"), SPAN("s1"), ranks, s->w.now);
	for (unsigned i = 0; i < ranks; i++)
		route_source_state(s->w.r, s->id, i, KVCURSOR_SYNCED, from_start, s->w.now);
}

static void begin(struct story *s)
{
	begin_with(s, 1, true);
}

static void end(struct story *s)
{
	assert_null(events_check(s->w.r->sources.events));
	kv_free(&s->k);
	world_end(&s->w);
}

static void stores(struct story *s, source_id id, unsigned blocks, unsigned size, const char *lora)
{
	kv_stored(&s->k, &(struct kv_stored){ .first_handle = 1, .blocks = blocks,
		.block_size = size, .first_token = 1000, .lora = lora });
	kv_publish(&s->w, &s->k, id, 0);
}

static uint32_t asks_with(struct story *s, const char *uid, const char *more)
{
	ids(&s->w.body, 1024);
	s->w.body.n--;
	say(&s->w.body, "%s}", more);
	send(&s->w, uid);
	refused(&s->w, uid);
	s->w.now += 10;
	return s->w.a.pages;
}

static uint32_t asks(struct story *s)
{
	return asks_with(s, "x", "");
}

static enum truth_cause cause_of(const struct story *s)
{
	return (enum truth_cause)s->w.s->candidates[0].cause;
}

static void expect(struct story *s, enum truth_cause cause)
{
	asks(s);
	assert_string_equal(truth_cause_text(cause_of(s)), truth_cause_text(cause));
}

/* ---- each cause ---------------------------------------------------------------------------- */

static void events_that_count_alone_have_no_cause(void **state)
{
	struct story s;

	begin(&s);
	expect(&s, CAUSE_NONE);
	stores(&s, s.id, 40, BLOCK, NULL);
	expect(&s, CAUSE_NONE);
	s.w.q.load = SPAN("lb1/1;s9=1,0,0,1");	/* publishes nothing */
	expect(&s, CAUSE_NONE);
	end(&s);
}

static void of_the_stream(void **state)
{
	static const struct { enum kvcursor_state state; enum truth_cause cause; } cases[] = {
		{ KVCURSOR_OFF, CAUSE_OFF }, { KVCURSOR_WAITING, CAUSE_WAITING },
		{ KVCURSOR_DEGRADED, CAUSE_DEGRADED },
		/* the last ones: a gap is trusted for a while */
		{ KVCURSOR_GAP, CAUSE_NONE }, { KVCURSOR_REPLAYING, CAUSE_NONE },
	};
	struct story s;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (unsigned ranks = 1; ranks < 3; ranks++) {
			begin_with(&s, ranks, true);
			stores(&s, s.id, 4, BLOCK, NULL);
			route_source_state(s.w.r, s.id, 0, cases[i].state, true, s.w.now);
			expect(&s, cases[i].cause);
			s.w.now += SOURCE_GAP_MS + 1;
			expect(&s, i == 3 ? CAUSE_GAP : i == 4 ? CAUSE_REPLAYING : cases[i].cause);
			end(&s);
		}
	}
}

static void of_what_came(void **state)
{
	struct story s;

	begin_with(&s, 1, false);
	expect(&s, CAUSE_NO_BLOCK);
	stores(&s, s.id, 40, BLOCK, NULL);
	expect(&s, CAUSE_OLDER);
	end(&s);

	begin(&s);
	kv_removed(&s.k, 1, 1, NULL);
	kv_stored(&s.k, &(struct kv_stored){ .first_handle = 1, .blocks = 0, .block_size = BLOCK,
		.first_token = 1000 });
	kv_publish(&s.w, &s.k, s.id, 0);
	expect(&s, CAUSE_NONE);
	route_source_expire(s.w.r, s.id, 1000);
	expect(&s, CAUSE_EXPIRES);
	end(&s);

	begin(&s);
	stores(&s, s.id, 1, 1000, NULL);
	expect(&s, CAUSE_ODD_SIZE);
	end(&s);

	begin(&s);
	stores(&s, s.id, 10, 24, NULL);		/* ids are only known in pages of 16 */
	expect(&s, CAUSE_OTHER_SIZE);
	end(&s);
}

static void of_the_request(void **state)
{
	struct story s;

	begin(&s);
	stores(&s, s.id, 40, BLOCK, NULL);
	asks_with(&s, "x", ",\"cache_salt\":\"a\"");
	assert_int_equal(cause_of(&s), CAUSE_UNNAMED);
	s.w.q.tenant = SPAN("a tenant");
	expect(&s, CAUSE_ISOLATED);
	s.w.q.tenant = SPAN("");
	s.w.q.path = SPAN("/v1/chat/completions");
	chat(&s.w.body, "", "one two", "");
	send(&s.w, "chat");
	assert_int_equal(cause_of(&s), CAUSE_TOKENS);
	end(&s);
}

/* ---- views --------------------------------------------------------------------------------- */

static void look(void *arg, const struct source_view *v)
{
	if (strcmp(v->server, "s1") == 0)
		*(bool *)arg = v->from_start;
}

static bool from_start(struct story *s)
{
	bool yes = false;

	route_each_source(s->w.r, look, &yes);
	return yes;
}

static void a_server_that_lost_room_is_not_known_from_the_start(void **state)
{
	struct events *ev;
	struct story s;

	begin(&s);
	ev = s.w.r->sources.events;
	for (unsigned i = 1; i < 200 && events_server_lost(ev, (server_id)s.id) == 0; i++) {
		assert_true(from_start(&s));
		kv_stored(&s.k, &(struct kv_stored){ .first_handle = i * 1000, .blocks = 1000,
			.block_size = BLOCK, .first_token = i * 1000 * BLOCK });
		kv_publish(&s.w, &s.k, s.id, 0);
	}
	assert_false(from_start(&s));
	expect(&s, CAUSE_NO_ROOM);
	kv_cleared(&s.k);
	kv_publish(&s.w, &s.k, s.id, 0);
	assert_true(from_start(&s));
	expect(&s, CAUSE_NONE);
	end(&s);
}

static void a_server_whose_orphans_were_dropped_is_not_known_from_the_start(void **state)
{
	struct story s;

	begin(&s);
	for (unsigned i = 0; i < 50 && from_start(&s); i++) {
		kv_stored(&s.k, &(struct kv_stored){ .first_handle = 1 + i * 100, .blocks = 100,
			.block_size = BLOCK, .first_token = 1000, .parent = 99999999 });
		kv_publish(&s.w, &s.k, s.id, 0);
	}
	assert_false(from_start(&s));
	expect(&s, CAUSE_NO_ROOM);
	end(&s);
}

/* ---- signs of a wrong configuration -------------------------------------------------------- */

static struct source_signs signs_of(struct story *s)
{
	struct source_signs x;

	route_source_signs(s->w.r, s->id, s->w.now, &x);
	return x;
}

static void silence_while_requests_come(void **state)
{
	struct story s;

	begin(&s);
	s.w.now += 100000;
	assert_false(signs_of(&s).silent);
	ids(&s.w.body, 1024);
	send(&s.w, "a");
	s.w.now += SOURCE_SILENT_MS;
	assert_false(signs_of(&s).silent);
	s.w.now++;
	assert_true(signs_of(&s).silent);
	stores(&s, s.id, 1, BLOCK, NULL);
	assert_false(signs_of(&s).silent);
	end(&s);
}

static void sizes_that_differ(void **state)
{
	struct story s;

	begin(&s);
	stores(&s, s.id, 10, 24, NULL);		/* ids are only known in pages of 16 */
	assert_false(signs_of(&s).misfit);
	asks(&s);
	assert_true(signs_of(&s).misfit);
	assert_int_equal(signs_of(&s).block_size, 24);
	assert_int_equal(signs_of(&s).page, 16);
	end(&s);

	begin(&s);
	s.w.o.model_default.block_size = 16;
	assert_int_equal(route_reconfigure(s.w.r, &s.w.o), 0);
	stores(&s, s.id, 4, 16, NULL);
	asks(&s);
	assert_false(signs_of(&s).misfit || signs_of(&s).differs);
	stores(&s, s.id, 4, 32, NULL);
	asks(&s);
	assert_true(signs_of(&s).differs);
	assert_false(signs_of(&s).misfit);
	end(&s);
}

/* ---- names --------------------------------------------------------------------------------- */

/* A publisher calls the model of others an adapter: only its own blocks are then those of one. */
static void a_publisher_makes_no_adapter_of_the_model_of_others(void **state)
{
	source_id hostile;
	struct story s;

	begin(&s);
	stores(&s, s.id, 40, BLOCK, NULL);
	assert_int_equal(asks(&s), 40);
	hostile = route_source_open(s.w.r, SPAN("pool"), SPAN("s2"), 1, s.w.now);
	route_source_state(s.w.r, hostile, 0, KVCURSOR_SYNCED, true, s.w.now);
	stores(&s, hostile, 40, BLOCK, "m");
	asks(&s);
	assert_int_equal(cause_of(&s), CAUSE_UNNAMED);
	assert_int_equal(s.w.s->candidates[0].truth, TRUTH_TREE);
	s.w.q.load = SPAN("lb1/1;s2=1,0,0,1");
	assert_int_equal(asks(&s), 40);
	end(&s);
}

/* ---- the manual ---------------------------------------------------------------------------- */

static void the_manual_has_every_word(void **state)
{
	static char page[1 << 20];
	FILE *f = fopen("doc/kvroute.8", "r");
	char item[64];
	size_t n;

	assert_non_null(f);
	n = fread(page, 1, sizeof(page) - 1, f);
	fclose(f);
	page[n] = '\0';
	for (unsigned c = 1; c < TRUTH_CAUSES; c++) {
		const char *word = truth_cause_text((enum truth_cause)c);

		snprintf(item, sizeof(item), ".It Li %s\n", word);
		if (strstr(page, item) == NULL)
			fail_msg("%s", word);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_that_count_alone_have_no_cause),
		cmocka_unit_test(of_the_stream),
		cmocka_unit_test(of_what_came),
		cmocka_unit_test(of_the_request),
		cmocka_unit_test(a_server_that_lost_room_is_not_known_from_the_start),
		cmocka_unit_test(a_server_whose_orphans_were_dropped_is_not_known_from_the_start),
		cmocka_unit_test(silence_while_requests_come),
		cmocka_unit_test(sizes_that_differ),
		cmocka_unit_test(a_publisher_makes_no_adapter_of_the_model_of_others),
		cmocka_unit_test(the_manual_has_every_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
