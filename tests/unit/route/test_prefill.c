/* test_prefill.c - prompts that a server of another pool computes. */
#include "tests/unit/route/prefill.h"

static uint64_t held(struct world *w, const struct server *s)
{
	return index_server_room(w->r->index, s->id);
}

static void long_prompts_are_split_and_short_ones_not(void **state)
{
	struct world w;

	(void)state;
	start(&w);
	row(&w, "p1", HASTATS_UP, "10.0.0.7:8000");
	ask(&w, "u1", "a");
	assert_int_equal(w.a.prefill.n, 0);
	assert_int_equal(in_pre(&w, "p1")->n_open, 0);
	ask(&w, "u2", LONG);
	assert_true(is(w.a.prefill, "10.0.0.7:8000"));
	assert_true(w.a.server.n > 0);
	assert_int_equal(in_pre(&w, "p1")->n_open, 1);
	assert_true(in_pre(&w, "p1")->unanswered_s > 0);
	/* the decode server has an answer to come, and no work */
	assert_true(pool_find(pool_named(&w, "pool"), w.a.server, 0)->n_open >= 1);
	assert_int_equal(pool_named(&w, "pool")->route->splits, 1);
	end(&w);
}

static void both_hold_the_prompt_afterwards(void **state)
{
	struct server *s;
	struct world w;
	char at[SERVER_NAME_MAX + 1] = "";

	(void)state;
	start(&w);
	row(&w, "p1", HASTATS_UP, "[fd00::7]:8000");
	ask(&w, "u1", LONG);
	assert_true(is(w.a.prefill, "[fd00::7]:8000"));
	memcpy(at, w.a.server.p, w.a.server.n);
	s = pool_find(pool_named(&w, "pool"), w.a.server, 0);
	w.now += 900;
	tell_first(&w, "u1", at, 200, "text/event-stream");
	assert_int_equal(in_pre(&w, "p1")->n_open, 0);
	assert_int_equal(in_pre(&w, "p1")->n_unanswered, 0);
	assert_int_equal(s->n_open, 1);
	tell_done(&w, "u1", at, 200, "--", 900);
	assert_int_equal(s->n_open, 0);
	assert_true(held(&w, s) > 0);
	assert_int_equal(held(&w, s), held(&w, in_pre(&w, "p1")));
	/* the next turn is cached where it is decoded, and computing is cheaper than a transfer */
	w.o.pools[0].policy.prefill_tokens_per_s = 8000;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	ask(&w, "u2", LONG "A");
	assert_true(is(w.a.server, at));
	assert_int_equal(w.a.prefill.n, 0);
	end(&w);
}

/* A sidecar sends the requests of some APIs to both servers, and only a prompt that is all in its
 * body: no prefill server has what another engine stored. */
static const struct { const char *path, *key, *more; bool split; } kinds[] = {
	{ "/v1/completions", "prompt", "", true },
	{ "/v1/responses", "input", "", true },
	{ "/generate", "text", "", true },
	{ "/v1/embeddings", "input", "", false },
	{ "/v1/responses", "input", ",\"previous_response_id\":\"resp_1\"", false },
	{ "/v1/responses", "input", ",\"conversation\":\"conv_1\"", false },
	{ "/v1/responses", "input", ",\"conversation\":{\"id\":\"conv_1\"}", false },
	{ "/v1/completions", "prompt", ",\"conversation\":\"conv_1\"", true },
};

static void only_whole_prompts_of_its_apis_are_split(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct world w;

		start(&w);
		row(&w, "p1", HASTATS_UP, "10.0.0.7:8000");
		w.q.path = span_str(kinds[i].path);
		w.body.n = 0;
		say(&w.body, "{\"model\":\"m\",\"%s\":\"", kinds[i].key);
		for (int k = 0; k < 2000; k++)
			say(&w.body, "word %d; ", k);
		say(&w.body, "\"%s}", kinds[i].more);
		send(&w, "u1");
		if (w.a.server.n == 0 || (w.a.prefill.n > 0) != kinds[i].split)
			fail_msg("%s%s", kinds[i].path, kinds[i].more);
		assert_int_equal(in_pre(&w, "p1")->n_open, kinds[i].split);
		end(&w);
	}
}

static const struct { const char *name; enum hastats_state state; const char *address; } none[] = {
	{ "down", HASTATS_DOWN, "10.0.0.7:8000" },
	{ "drained", HASTATS_DRAIN, "10.0.0.7:8000" },
	{ "without an address", HASTATS_UP, "" },
	{ "on a unix socket", HASTATS_UP, "unix" },
	{ "with a header in its address", HASTATS_UP, "10.0.0.7:80\r\nx: y" },
	{ "of no host", HASTATS_UP, "0.0.0.0:8000" },
	{ "port 0", HASTATS_UP, "10.0.0.7:0" },
};

static void without_a_server_nothing_is_split(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		struct world w;

		start(&w);
		row(&w, "p1", none[i].state, none[i].address);
		ask(&w, "u1", LONG);
		if (w.a.prefill.n > 0 || w.a.server.n == 0)
			fail_msg("%s: split", none[i].name);
		end(&w);
	}
}

static void an_unknown_address_is_a_problem(void **state)
{
	struct problem_event e;
	struct world w;
	bool found = false;
	char uid[16];

	(void)state;
	start(&w);
	for (int i = 0; i < 300; i++) {
		snprintf(uid, sizeof(uid), "u%d", i);
		ask(&w, uid, LONG);
		served(&w, uid);
		w.now += 500;
		while (route_problem_next(w.r, w.now, &e))
			found |= e.what == PROBLEM_PREFILL_UNKNOWN && strcmp(e.pool, "pool") == 0;
	}
	assert_true(found);
	end(&w);
}

/* One server fails all its prompts: the other one gets them. */
static void a_prefill_server_that_fails_gets_fewer(void **state)
{
	unsigned bad = 0, good = 0;
	struct world w;
	char uid[16], turns[32] = LONG;

	(void)state;
	start(&w);
	row(&w, "p1", HASTATS_UP, "10.0.0.1:8000");
	row(&w, "p2", HASTATS_UP, "10.0.0.2:8000");
	for (int i = 0; i < 40; i++) {
		char at[SERVER_NAME_MAX + 1] = "";
		bool first;

		turns[0] = (char)('A' + i % 26);
		turns[1] = (char)('A' + i / 26);
		snprintf(uid, sizeof(uid), "u%d", i);
		ask(&w, uid, turns);
		memcpy(at, w.a.server.p, w.a.server.n);
		first = is(w.a.prefill, "10.0.0.1:8000");
		bad += first;
		good += is(w.a.prefill, "10.0.0.2:8000");
		w.now += 50;
		tell_done(&w, uid, at, first ? 502 : 200, "--", 50);
	}
	assert_true(good > 4 * bad);
	assert_true(pool_named(&w, "pool")->route->split_failures == bad && bad > 0);
	assert_int_equal(in_pre(&w, "p1")->n_open + in_pre(&w, "p2")->n_open, 0);
	end(&w);
}

/* What of the outcome of a split request counts against its prefill server. */
static const struct { int status; const char *end; bool counts; } outcomes[] = {
	{ 500, "--", true }, { 502, "--", true }, { 503, "--", true }, { 429, "--", true },
	{ 504, "sH", true }, { 200, "--", false }, { 400, "--", false }, { 503, "SC", false },
	{ 503, "sC", false }, { 502, "SH", false }, { 200, "SD", false }, { 503, "sQ", false },
	{ 400, "CR", false },
};

static void a_failure_of_either_counts_for_both(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
		char at[SERVER_NAME_MAX + 1] = "";
		struct world w;

		start(&w);
		row(&w, "p1", HASTATS_UP, "10.0.0.1:8000");
		ask(&w, "u1", LONG);
		memcpy(at, w.a.server.p, w.a.server.n);
		w.now += 50;
		tell_done(&w, "u1", at, outcomes[i].status, outcomes[i].end, 50);
		if ((in_pre(&w, "p1")->failures > 0) != outcomes[i].counts)
			fail_msg("%d %s", outcomes[i].status, outcomes[i].end);
		assert_int_equal(pool_named(&w, "pool")->route->split_failures, outcomes[i].counts);
		assert_int_equal(w.r->ledger.n, 0);
		end(&w);
	}
}

static void a_repeated_request_is_counted_once(void **state)
{
	struct world w;

	(void)state;
	start(&w);
	row(&w, "p1", HASTATS_UP, "10.0.0.7:8000");
	ask(&w, "u1", LONG);
	ask(&w, "u1", LONG);
	assert_int_equal(in_pre(&w, "p1")->n_open, 1);
	assert_int_equal(pool_named(&w, "pool")->route->splits, 1);
	w.now += w.o.ledger_max_age_ms + 1;
	route_tick(w.r, w.now);
	assert_int_equal(in_pre(&w, "p1")->n_open, 0);
	end(&w);
}

static void in_shadow_mode_none_is_named(void **state)
{
	struct world w;

	(void)state;
	start(&w);
	w.o.pools[0].mode = MODE_SHADOW;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	row(&w, "p1", HASTATS_UP, "10.0.0.7:8000");
	ask(&w, "u1", LONG);
	assert_int_equal(w.a.prefill.n, 0);
	assert_int_equal(in_pre(&w, "p1")->n_open, 0);
	end(&w);
}

/* ---- both entries --------------------------------------------------------------------------- */

static struct server *in_pool(struct world *w, struct span name)
{
	struct server *s = pool_find(pool_named(w, "pool"), name, 0);

	assert_non_null(s);
	return s;
}

/* Answers to come that are computed elsewhere, at all decode servers. */
static unsigned to_come(struct world *w)
{
	const struct pool *p = pool_named(w, "pool");
	unsigned n = 0;

	for (size_t i = 0; i < p->n_servers; i++)
		n += p->servers[i]->n_elsewhere;
	return n;
}

/* Its work is counted once, and it stalls no other prompt before its first token. */
static void an_answer_to_come_is_neither_work_nor_running(void **state)
{
	struct server *s, *other;
	struct world w;
	char at[SERVER_NAME_MAX + 1] = "";

	(void)state;
	start(&w);
	row(&w, "p1", HASTATS_UP, "10.0.0.7:8000");
	ask(&w, "u1", LONG);
	memcpy(at, w.a.server.p, w.a.server.n);
	s = in_pool(&w, w.a.server);
	assert_int_equal(s->n_elsewhere, 1);
	assert_int_equal(s->n_unanswered, 0);
	assert_true(s->unanswered_s == 0);
	w.now += 900;
	tell_first(&w, "u1", at, 200, STREAM);
	assert_int_equal(s->n_elsewhere, 0);
	tell_done(&w, "u1", at, 200, "--", 900);
	ask(&w, "u2", "Z" LONG);		/* HAProxy sends it elsewhere */
	assert_true(w.a.prefill.n > 0);
	s = in_pool(&w, w.a.server);
	other = in_pool(&w, is(w.a.server, "s1") ? SPAN("s2") : SPAN("s1"));
	tell_first(&w, "u2", other->name, 200, STREAM);
	assert_int_equal(s->n_open + s->n_elsewhere, 0);
	assert_int_equal(other->n_open, 1);
	assert_int_equal(other->n_elsewhere, 0);
	tell_done(&w, "u2", other->name, 200, "--", 900);
	assert_int_equal(to_come(&w), 0);
	end(&w);
}

static void a_load_string_closes_both(void **state)
{
	struct world w;
	char uid[16];

	(void)state;
	start(&w);
	row(&w, "p1", HASTATS_UP, "10.0.0.7:8000");
	ask(&w, "lost", LONG);
	assert_int_equal(to_come(&w), 1);
	for (int i = 0; i < 12; i++) {
		w.now += 2500;
		snprintf(uid, sizeof(uid), "u%d", i);
		ask(&w, uid, "a");
		served(&w, uid);
	}
	assert_true(stats(&w).closed_by_load >= 1);
	assert_int_equal(to_come(&w), 0);
	assert_int_equal(in_pre(&w, "p1")->n_open, 0);
	assert_int_equal(w.r->ledger.n, 0);
	end(&w);
}

/* The bound of the ledger closes requests, not half of them. */
static void the_ledger_is_bounded(void **state)
{
	struct world w;
	char uid[16], turns[32] = LONG;

	(void)state;
	start(&w);
	w.o.ledger_max_entries = 6;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	row(&w, "p1", HASTATS_UP, "10.0.0.7:8000");
	row(&w, "p2", HASTATS_UP, "10.0.0.8:8000");
	for (int i = 0; i < 20; i++) {
		turns[0] = (char)('A' + i);
		snprintf(uid, sizeof(uid), "u%d", i);
		ask(&w, uid, i % 6 < 3 ? (char[]){ turns[0], '\0' } : turns);
		w.now += 10;
		assert_true(w.r->ledger.n <= 7);
		assert_int_equal(to_come(&w), in_pre(&w, "p1")->n_open + in_pre(&w, "p2")->n_open);
	}
	assert_int_equal(stats(&w).closed_by_room, 20 - to_come(&w) - (w.r->ledger.n - 2 * to_come(&w)));
	end(&w);
}

static void a_price_is_in_the_record(void **state)
{
	struct decision d;
	struct world w;

	(void)state;
	start(&w);
	row(&w, "p1", HASTATS_UP, "10.0.0.7:8000");
	ask(&w, "u1", LONG);
	assert_int_equal(decisions_read(w.r->decisions, UINT64_MAX, &d, 1), 1);
	assert_int_equal(d.prefill.id, in_pre(&w, "p1")->id);
	assert_int_equal(d.offer.server.id, d.prefill.id);
	assert_true(d.offer.there_s > 0 && d.offer.there_s < d.offer.here_s);
	assert_true(d.offer.ready_s > 0 && d.offer.transfer_s > 0);
	assert_int_equal(d.offer.cached, 0);
	w.o.pools[0].policy.prefill_tokens_per_s = 1e6;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	ask(&w, "u2", "Z" LONG);
	assert_int_equal(decisions_read(w.r->decisions, UINT64_MAX, &d, 1), 1);
	assert_true(d.prefill.id == SERVER_NONE && d.offer.server.id == in_pre(&w, "p1")->id);
	assert_true(d.offer.there_s > d.offer.here_s);
	assert_true(d.offer.wait_s > 0);
	ask(&w, "u3", "Y");
	assert_int_equal(decisions_read(w.r->decisions, UINT64_MAX, &d, 1), 1);
	assert_true(d.offer.server.id == SERVER_NONE);
	end(&w);
}

/* ---- several pools -------------------------------------------------------------------------- */

/* What was computed for one pool is cached for another one that names the same prefill servers. */
static void pools_share_what_prefill_servers_hold(void **state)
{
	struct decision d;
	struct server *there;
	struct world w;

	(void)state;
	world_options(&w);
	options_split(&w);
	w.o.pools = realloc(w.o.pools, 4 * sizeof(*w.o.pools));
	assert_non_null(w.o.pools);
	w.o.pools[2] = w.o.pools[3] = w.o.pools[0];
	w.o.n_pools = 4;
	strcpy(w.o.pools[2].name, "other");
	strcpy(w.o.pools[3].name, "alone");
	w.o.pools[3].prefill[0] = '\0';
	world_open(&w);
	row(&w, "p1", HASTATS_UP, "10.0.0.1:8000");
	row(&w, "p2", HASTATS_UP, "10.0.0.2:8000");
	ask(&w, "u1", LONG);
	there = in_pre(&w, is(w.a.prefill, "10.0.0.1:8000") ? "p1" : "p2");
	assert_true(there->n_unanswered == 1);
	w.now += 900;
	served(&w, "u1");
	w.q.pool = SPAN("other");
	ask(&w, "u2", LONG "A");
	assert_int_equal(decisions_read(w.r->decisions, UINT64_MAX, &d, 1), 1);
	assert_true(d.offer.server.id == there->id && d.prefill.id == there->id);
	assert_true(d.offer.cached > 3000);
	assert_int_equal(w.a.pages, 0);		/* no server of that pool holds it */
	served(&w, "u2");
	w.q.pool = SPAN("alone");
	ask(&w, "u3", LONG "A");
	assert_int_equal(w.a.pages, 0);
	assert_int_equal(w.a.prefill.n, 0);
	served(&w, "u3");
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_prompts_are_split_and_short_ones_not),
		cmocka_unit_test(both_hold_the_prompt_afterwards),
		cmocka_unit_test(without_a_server_nothing_is_split),
		cmocka_unit_test(only_whole_prompts_of_its_apis_are_split),
		cmocka_unit_test(an_unknown_address_is_a_problem),
		cmocka_unit_test(a_prefill_server_that_fails_gets_fewer),
		cmocka_unit_test(a_failure_of_either_counts_for_both),
		cmocka_unit_test(a_repeated_request_is_counted_once),
		cmocka_unit_test(in_shadow_mode_none_is_named),
		cmocka_unit_test(an_answer_to_come_is_neither_work_nor_running),
		cmocka_unit_test(a_load_string_closes_both),
		cmocka_unit_test(the_ledger_is_bounded),
		cmocka_unit_test(a_price_is_in_the_record),
		cmocka_unit_test(pools_share_what_prefill_servers_hold),
	};

	return cmocka_run_group_tests_name("route prefill", tests, NULL, NULL);
}
