/* test_slices.c - bodies in slices, and truncated bodies: the prompt is incomplete when the
 * first answer is due. */
#include "tests/unit/route/world.h"

static void slice(struct world *w, const char *uid, int64_t seq, size_t from, size_t to)
{
	slice_at(w, w->s, uid, seq, from, to);
}

/* ---- whole and sliced are the same -------------------------------------------------------- */

static void same_answer(const struct route_answer *a, const struct route_answer *b)
{
	assert_true(span_eq(a->server, b->server));
	assert_true(span_eq(a->alt, b->alt));
	assert_string_equal(why_text(a->why), why_text(b->why));
	assert_int_equal(a->hit, b->hit);
	assert_int_equal(a->pages, b->pages);
	assert_int_equal(a->prompt_pages, b->prompt_pages);
	assert_int_equal(a->cut, b->cut);
	assert_int_equal(a->more, b->more);
}

/* <whole> and <sliced> get the same requests, except that this body comes whole or in slices. */
static void at_all_cuts(struct world *whole, struct world *sliced, size_t step)
{
	struct route_scratch *other = route_scratch_new(sliced->r);
	size_t n = whole->body.n;

	sliced->body = whole->body;
	for (size_t i = 0; i < n; i += step) {
		for (size_t k = i; k < n; k += step * 5) {
			send(whole, "u");
			slice_at(sliced, other, "u", 0, 0, i);
			assert_true(sliced->a.more);
			slice_at(sliced, sliced->s, "u", 1, i, k);
			assert_true(sliced->a.more);
			slice_at(sliced, other, "u", 2, k, n);
			same_answer(&whole->a, &sliced->a);
			assert_int_equal(stats(sliced).open, stats(whole).open);
			assert_int_equal(stats(sliced).index.claims, stats(whole).index.claims);
			assert_int_equal(stats(sliced).index.pages, stats(whole).index.pages);
			refused(whole, "u");
			refused(sliced, "u");
		}
	}
	route_scratch_free(other);
}

static void whole_equals_sliced(void **state)
{
	static const char *const heads[][2] = {
		{ "", ",\"model\":\"m\",\"tools\":[{\"name\":\"f\"}],\"stream\":true" },
		{ "\"model\":\"m\",\"tools\":[{\"name\":\"f\"}],", "" },
		{ "", ",\"model\":\"m\",\"cache_salt\":\"pepper\"" },
		{ "", "" },
	};
	struct world whole, sliced, *both[] = { &whole, &sliced };

	(void)state;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		for (int k = 0; k < 2; k++) {
			world_start(both[k]);
			chat(&both[k]->body, heads[i][0], "ab", heads[i][1]);
			send(both[k], "1");
			served(both[k], "1");
			chat(&both[k]->body, heads[i][0], "abc", heads[i][1]);
		}
		at_all_cuts(&whole, &sliced, 67);	/* its next turn: found with its holder */
		assert_true(whole.a.pages >= 2 * TURN_PAGES);
		chat(&whole.body, heads[i][0], "xy", heads[i][1]);
		at_all_cuts(&whole, &sliced, 131);	/* a cold one: the same server in its turn */
		assert_true(whole.a.pages <= 1);	/* the tools, where there are any */
		world_end(&whole);
		world_end(&sliced);
	}
}

/* A whole body finds pages stored from slices, and the reverse. */
static void both_land_in_one_place(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	chat(&w.body, "", "abc", ",\"model\":\"m\"");
	slice(&w, "1", 0, 0, 500);
	slice(&w, "1", 1, 500, 1300);
	slice(&w, "1", 2, 1300, w.body.n);
	assert_int_equal(w.a.prompt_pages, 3 * TURN_PAGES);
	assert_false(w.a.more || w.a.cut || w.a.stands);
	assert_int_equal(stats(&w).open, 1);
	assert_int_equal(stats(&w).index.claims, 1);
	assert_int_equal(stats(&w).index.pages, 3 * TURN_PAGES);
	assert_int_equal(stats(&w).index.spaces, 1);	/* no page of its beginning without a head stays */
	assert_int_equal(stats(&w).requests, 1);
	assert_int_equal(stats(&w).slices, 2);
	assert_int_equal(stats(&w).slices_waiting, 0);
	served(&w, "1");
	send(&w, "2");
	assert_int_equal(w.a.hit, 1000);
	served(&w, "2");
	chat(&w.body, "", "abcde", ",\"model\":\"m\"");
	slice(&w, "3", 0, 0, 1000);
	slice(&w, "3", 1, 1000, w.body.n);
	assert_int_equal(w.a.pages, 3 * TURN_PAGES);
	world_end(&w);
}

/* ---- answers to slices before the last ---------------------------------------------------- */

static void it_does_not_see_its_own_claim(void **state)
{
	struct world w;
	char first[8];

	(void)state;
	world_start(&w);
	chat(&w.body, "\"model\":\"m\",", "abcdef", "");
	slice(&w, "1", 0, 0, 1000);
	assert_true(w.a.more && w.a.cut);
	assert_why(&w, WHY_COLD);
	assert_true(w.a.prompt_pages > 0);
	snprintf(first, sizeof(first), SPAN_FMT, SPAN_ARG(w.a.server));
	for (size_t at = 1000, seq = 1; at < w.body.n; at += 700, seq++) {
		slice(&w, "1", (int64_t)seq, at, at + 700 < w.body.n ? at + 700 : w.body.n);
		assert_why(&w, WHY_COLD);
		assert_int_equal(w.a.pages, 0);
		assert_int_equal(w.a.hit, 0);
		assert_span(w.a.server, first);		/* between equals it stays */
		assert_int_equal(stats(&w).open, 1);
		assert_int_equal(stats(&w).index.claims, 1);
	}
	assert_false(w.a.more);
	world_end(&w);
}

/* Other requests were sent meanwhile, some to the same server. */
static void it_stays_where_it_was(void **state)
{
	static const char *const others[] = { "uuuu", "vvvv", "xxxx", "yyyy" };
	struct world w;

	(void)state;
	world_start(&w);
	chat(&w.body, "\"model\":\"m\",", "abc", "");
	slice(&w, "1", 0, 0, 1000);
	assert_span(w.a.server, "s1");
	for (int i = 0; i < 4; i++)
		ask(&w, others[i], others[i]);
	assert_span(w.a.server, "s1");
	for (int i = 0; i < 4; i++)
		refused(&w, others[i]);
	chat(&w.body, "\"model\":\"m\",", "abc", "");
	slice(&w, "1", 1, 1000, w.body.n);
	assert_span(w.a.server, "s1");
	world_end(&w);
}

/* The shared opening selects one server, the whole prompt another. */
static void a_later_slice_knows_better(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "a");
	served(&w, "1");
	ask(&w, "2", "xyz");
	assert_span(w.a.server, "s2");
	served(&w, "2");
	chat(&w.body, "\"model\":\"m\",", "xyz", "");
	slice(&w, "3", 0, 0, 20);
	assert_why(&w, WHY_NOPROMPT);
	assert_true(w.a.more);
	assert_int_equal(w.a.server.n, 0);
	slice(&w, "3", 1, 20, 50);		/* less than a page of it */
	assert_true(w.a.server.n > 0);
	slice(&w, "3", 2, 50, 900);
	assert_span(w.a.server, "s2");
	slice(&w, "3", 3, 900, w.body.n);
	assert_span(w.a.server, "s2");
	assert_int_equal(w.a.hit, 1000);
	assert_int_equal(server(&w, "s2").v.open, 1);
	assert_int_equal(server(&w, "s3").v.open, 0);
	world_end(&w);
}

static void enough_is_enough(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	chat(&w.body, "", "a", ",\"model\":\"m\"");
	slice(&w, "1", 0, 0, w.body.n);		/* all that is visible came at once */
	assert_false(w.a.more);
	say(&w.body, "   ");
	slice(&w, "2", 0, 0, w.body.n - 3);	/* the value is whole, though bytes are to come */
	assert_false(w.a.more);
	slice(&w, "3", 0, 0, 10);
	assert_true(w.a.more);
	w.body.p[10] = '}';
	slice(&w, "3", 1, 10, 100);		/* invalid JSON: no more slices are requested */
	assert_why(&w, WHY_BADBODY);
	assert_false(w.a.more);
	assert_int_equal(w.a.server.n, 0);
	assert_int_equal(stats(&w).slices_waiting, 0);
	world_end(&w);
}

/* HAProxy sends the part that fits its buffer. Also if that is the whole prompt, the body counts as
 * cut. */
static void the_visible_part_is_not_all(void **state)
{
	struct world w;
	size_t n;

	(void)state;
	world_start(&w);
	chat(&w.body, "\"model\":\"m\",", "abcd", "");
	n = w.body.n;
	w.body.n = 2000;			/* blen; the rest is still with the client */
	slice(&w, "1", 0, 0, 1000);
	assert_true(w.a.more);
	slice(&w, "1", 1, 1000, 2000);
	assert_false(w.a.more);
	assert_true(w.a.cut && n > 2000);
	assert_why(&w, WHY_COLD);
	world_end(&w);
}

/* Counts of a request grow with its slices, and count once. */
static void counted_once(void **state)
{
	struct world whole, sliced, *both[] = { &whole, &sliced };

	(void)state;
	for (int k = 0; k < 2; k++) {
		world_start(both[k]);
		ask(both[k], "1", "abcd");
		served(both[k], "1");
		chat(&both[k]->body, "", "abcdef", ",\"model\":\"m\"");
	}
	send(&whole, "2");
	slice(&sliced, "2", 0, 0, 10);		/* no prompt yet */
	slice(&sliced, "2", 1, 10, 1000);
	slice(&sliced, "2", 2, 1000, 2000);
	slice(&sliced, "2", 3, 2000, sliced.body.n);
	assert_int_equal(stats(&whole).hit_tokens, 4 * TURN_PAGES * 16);
	assert_int_equal(stats(&sliced).hit_tokens, stats(&whole).hit_tokens);
	assert_int_equal(stats(&sliced).prompt_tokens, stats(&whole).prompt_tokens);
	assert_int_equal(server(&sliced, "s1").v.picked, server(&whole, "s1").v.picked);
	assert_int_equal(server(&sliced, "s1").v.hit_tokens, server(&whole, "s1").v.hit_tokens);
	world_end(&whole);
	world_end(&sliced);
}

/* ---- errors ---------------------------------------------------------------------- */

static void an_unexpected_slice_changes_nothing(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	chat(&w.body, "\"model\":\"m\",", "abc", "");
	slice(&w, "nobody", 1, 0, 100);
	assert_true(w.a.stands);
	assert_int_equal(w.a.server.n, 0);
	slice(&w, "1", 0, 0, 500);
	assert_true(w.a.more && w.a.server.n > 0);
	slice(&w, "1", 2, 1000, w.body.n);	/* 1 is missing */
	assert_true(w.a.stands);
	slice(&w, "1", 1, 500, 1000);		/* too late */
	assert_true(w.a.stands);
	assert_int_equal(stats(&w).open, 1);	/* the entry of the first one stays */
	assert_int_equal(stats(&w).index.claims, 1);
	assert_int_equal(stats(&w).slices_waiting, 0);
	slice(&w, "", 1, 0, 10);
	assert_true(w.a.stands);
	slice(&w, "", 0, 0, 500);		/* without a uid slices cannot be joined */
	assert_false(w.a.more || w.a.stands);
	assert_int_equal(stats(&w).slices, 5 - 1);
	world_end(&w);
}

/* If its filter is declared twice, HAProxy sends each message twice: the decision is the same. */
static void a_slice_that_comes_twice(void **state)
{
	struct world once, twice;
	size_t at = 0;

	(void)state;
	world_start(&once);
	world_start(&twice);
	chat(&once.body, "\"model\":\"m\",", "abcd", "");
	twice.body = once.body;
	for (int64_t seq = 0; at < once.body.n; seq++, at += 600) {
		size_t to = at + 600 < once.body.n ? at + 600 : once.body.n;
		bool last = to == once.body.n;

		slice(&once, "1", seq, at, to);
		slice(&twice, "1", seq, at, to);
		same_answer(&once.a, &twice.a);
		slice(&twice, "1", seq, at, to);
		assert_int_equal(twice.a.stands, seq > 0);
		assert_int_equal(twice.a.more, !last);		/* or HAProxy would send no more of it */
		if (seq > 1 && !last) {
			slice(&twice, "1", 1, 600, 1200);	/* an old one, late */
			assert_true(twice.a.stands && twice.a.more);
		}
		assert_int_equal(stats(&twice).slices_waiting, !last);
		assert_int_equal(stats(&twice).index.claims, stats(&once).index.claims);
		assert_int_equal(stats(&twice).index.pages, stats(&once).index.pages);
	}
	assert_int_equal(once.a.prompt_pages, 4 * TURN_PAGES);
	assert_int_equal(stats(&once).slices_repeated, 0);
	assert_int_equal(stats(&twice).slices_repeated, 5);
	assert_int_equal(stats(&twice).open, 1);
	world_end(&once);
	world_end(&twice);
}

static void a_uid_that_starts_anew(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	chat(&w.body, "\"model\":\"m\",", "abc", "");
	slice(&w, "1", 0, 0, 500);
	slice(&w, "1", 1, 500, 900);
	slice(&w, "1", 0, 0, 700);
	assert_int_equal(stats(&w).slices_again, 1);
	assert_int_equal(stats(&w).slices_waiting, 1);
	assert_int_equal(stats(&w).open, 1);
	slice(&w, "1", 1, 700, w.body.n);
	assert_false(w.a.more || w.a.stands || w.a.cut);
	assert_int_equal(w.a.prompt_pages, 3 * TURN_PAGES);
	assert_int_equal(stats(&w).index.claims, 1);
	slice(&w, "1", 0, 0, 700);	/* it was done: nothing live to start anew */
	assert_int_equal(stats(&w).slices_again, 1);
	world_end(&w);
}

static void a_fact_ends_the_waiting(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	chat(&w.body, "\"model\":\"m\",", "abc", "");
	slice(&w, "1", 0, 0, 500);
	assert_int_equal(stats(&w).slices_waiting, 1);
	tell_done(&w, "1", "<NOSRV>", -1, "CR", -1);
	assert_int_equal(stats(&w).slices_waiting, 0);
	assert_int_equal(stats(&w).index.pages, 0);
	slice(&w, "1", 1, 500, w.body.n);
	assert_true(w.a.stands);
	assert_int_equal(stats(&w).open, 0);
	world_end(&w);
}

static void bounded_in_bytes_and_age(void **state)
{
	struct world w;
	uint64_t one;

	(void)state;
	world_start(&w);
	chat(&w.body, "\"model\":\"m\",", "abcdef", "");
	slice(&w, "0", 0, 0, 2000);
	one = stats(&w).slices_bytes;
	assert_true(one > 0);
	w.o.slices_max_bytes = 4 * one;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	for (int i = 1; i < 20; i++) {
		char uid[8];

		snprintf(uid, sizeof(uid), "%d", i);
		slice(&w, uid, 0, 0, 2000);
		assert_true(stats(&w).slices_bytes <= 4 * one);
	}
	assert_true(stats(&w).slices_dropped >= 16);
	slice(&w, "1", 1, 2000, w.body.n);
	assert_true(w.a.stands);
	slice(&w, "19", 1, 2000, w.body.n);
	assert_false(w.a.stands);
	assert_int_equal(w.a.prompt_pages, 6 * TURN_PAGES);
	w.now += 1000;
	route_tick(w.r, w.now);
	assert_true(stats(&w).slices_waiting > 0);
	w.now += 1;
	route_tick(w.r, w.now);
	assert_int_equal(stats(&w).slices_waiting, 0);
	assert_int_equal(stats(&w).slices_bytes, 0);
	assert_true(stats(&w).slices_aged > 0);
	world_end(&w);
}

/* A later slice brings no load string; a server missing in the last one is no candidate. */
static void later_slices_go_by_the_last_load_string(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "a");
	assert_span(w.a.server, "s1");
	served(&w, "1");
	chat(&w.body, "\"model\":\"m\",", "a", "");
	slice(&w, "2", 0, 0, 300);
	assert_span(w.a.server, "s1");
	w.now += 10;
	w.q.load = SPAN("lb1/1;s2=1,0,0,1;s3=0,0,0,1");	/* s1 is taken out, s3 down */
	send_body(&w, "x", SPAN("{}"));
	slice(&w, "2", 1, 300, w.body.n);
	assert_span(w.a.server, "s2");
	assert_int_equal(w.a.alt.n, 0);
	world_end(&w);
}

/* ---- cut bodies --------------------------------------------------------------------------- */

/* The first <n> bytes of a body, as HAProxy shows them. */
static void send_cut(
    struct world *w, const char *uid, const char *turns, const char *after, size_t n)
{
	chat(&w->body, "", turns, after);
	w->q.visible = (int64_t)n;
	w->q.whole = (int64_t)w->body.n;
	assert_true(n < w->body.n);
	w->body.n = n;
	send(w, uid);
	w->q.visible = w->q.whole = -1;
}

static void headless_turns_meet(void **state)
{
	struct world w;
	char first[8];

	(void)state;
	world_start(&w);
	ask(&w, "0", "z");
	served(&w, "0");
	send_cut(&w, "1", "abc", ",\"model\":\"m\"", 1900);
	assert_why(&w, WHY_HEADLESS);
	assert_true(w.a.cut);
	assert_true(w.a.prompt_pages >= 2 * TURN_PAGES);
	snprintf(first, sizeof(first), SPAN_FMT, SPAN_ARG(w.a.server));
	assert_string_not_equal(first, "s1");
	served(&w, "1");
	send_cut(&w, "2", "abcde", ",\"model\":\"m\"", 2500);
	assert_why(&w, WHY_HEADLESS);
	assert_span(w.a.server, first);
	assert_true(w.a.pages >= 2 * TURN_PAGES);
	assert_int_equal(stats(&w).cut, 2);
	assert_int_equal(stats(&w).headless_saved, 0);
	refused(&w, "2");
	ask(&w, "3", "abcde");			/* with a model it is in that model's space */
	assert_int_equal(w.a.pages, 0);
	refused(&w, "3");
	chat(&w.body, "", "abcde", "");		/* and a whole body without one in a third */
	send(&w, "3");
	assert_int_equal(w.a.pages, 0);
	refused(&w, "3");
	w.q.tenant = SPAN("other");
	send_cut(&w, "4", "abcde", ",\"model\":\"m\"", 2500);
	assert_int_equal(w.a.pages, 0);
	world_end(&w);
}

static void a_remembered_head_stands_in(void **state)
{
	static const char head[] = ",\"tools\":[{\"name\":\"a tool of a page or so, which comes before "
		"the messages in the prompt\"}],\"model\":\"m\"";
	struct world w;
	char first[8];

	(void)state;
	world_start(&w);
	chat(&w.body, "", "ab", head);
	send(&w, "1");
	assert_why(&w, WHY_COLD);
	assert_true(w.a.prompt_pages > 2 * TURN_PAGES);
	snprintf(first, sizeof(first), SPAN_FMT, SPAN_ARG(w.a.server));
	served(&w, "1");
	send_cut(&w, "2", "abcd", head, 1900);
	assert_why(&w, WHY_CACHED);
	assert_span(w.a.server, first);
	assert_true(w.a.cut);
	assert_true(w.a.pages > 2 * TURN_PAGES);	/* the tools too */
	assert_int_equal(stats(&w).headless_saved, 1);
	refused(&w, "2");
	w.q.tenant = SPAN("other");
	send_cut(&w, "3", "abcd", head, 1900);
	assert_why(&w, WHY_HEADLESS);
	assert_int_equal(stats(&w).headless_saved, 1);
	world_end(&w);
}

static void a_salted_body_lends_no_head(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	chat(&w.body, "", "ab", ",\"model\":\"m\",\"cache_salt\":\"s\"");
	send(&w, "1");
	served(&w, "1");
	assert_int_equal(stats(&w).heads.heads, 0);
	send_cut(&w, "2", "abcd", ",\"model\":\"m\",\"cache_salt\":\"s\"", 1900);
	assert_why(&w, WHY_HEADLESS);
	assert_int_equal(w.a.pages, 0);
	world_end(&w);
}

/* If the model is known from another source, a cut body is in its space at once. */
static void a_model_from_elsewhere(void **state)
{
	struct pool_opts one;
	struct world w;

	(void)state;
	for (int by_pool = 0; by_pool < 2; by_pool++) {
		world_options(&w);
		one = w.o.pool_default;
		strcpy(one.name, "pool");
		strcpy(one.model, by_pool ? "m" : "");
		w.o.pools = &one;
		w.o.n_pools = 1;
		world_open(&w);
		w.q.model = by_pool ? (struct span){ 0 } : SPAN("m");
		chat(&w.body, "", "ab", "");		/* it names none, and so does its head */
		send(&w, "1");
		served(&w, "1");
		send_cut(&w, "2", "abcd", ",\"model\":\"other\"", 1900);
		assert_why(&w, WHY_CACHED);
		assert_int_equal(w.a.pages, 2 * TURN_PAGES);
		served(&w, "2");
		chat(&w.body, "", "abcd", ",\"model\":\"other\"");
		send(&w, "3");
		assert_true(w.a.pages > 2 * TURN_PAGES);
		world_end(&w);
	}
}

/* A request without a body is no cut body. */
static void an_empty_body_is_not_cut(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	send_body(&w, "1", SPAN(""));
	assert_false(w.a.cut);
	send_body(&w, "2", SPAN("{\"model\":"));
	assert_false(w.a.cut);
	assert_int_equal(stats(&w).cut, 0);
	assert_int_equal(stats(&w).headless_saved, 0);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_equals_sliced),
		cmocka_unit_test(both_land_in_one_place),
		cmocka_unit_test(it_does_not_see_its_own_claim),
		cmocka_unit_test(it_stays_where_it_was),
		cmocka_unit_test(a_later_slice_knows_better),
		cmocka_unit_test(counted_once),
		cmocka_unit_test(enough_is_enough),
		cmocka_unit_test(the_visible_part_is_not_all),
		cmocka_unit_test(an_unexpected_slice_changes_nothing),
		cmocka_unit_test(a_slice_that_comes_twice),
		cmocka_unit_test(a_uid_that_starts_anew),
		cmocka_unit_test(a_fact_ends_the_waiting),
		cmocka_unit_test(bounded_in_bytes_and_age),
		cmocka_unit_test(later_slices_go_by_the_last_load_string),
		cmocka_unit_test(headless_turns_meet),
		cmocka_unit_test(a_remembered_head_stands_in),
		cmocka_unit_test(a_salted_body_lends_no_head),
		cmocka_unit_test(a_model_from_elsewhere),
		cmocka_unit_test(an_empty_body_is_not_cut),
	};

	return cmocka_run_group_tests_name("route slices", tests, NULL, NULL);
}
