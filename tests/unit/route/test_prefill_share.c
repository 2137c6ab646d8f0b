/* test_prefill_share.c - siblings know both entries of a split prompt, and both ends. */
#include "tests/unit/route/fleet.h"
#include "tests/unit/route/prefill.h"

static struct fleet_world f;
#define A	(&f.a[0].w)
#define B	(&f.a[1].w)

/* Only the first agent sees HAProxy's rows. */
static void begin(void)
{
	fleet_begin(&f, 2);
	options_split(A);
	options_split(B);
	fleet_open(&f);
	row(A, "p1", HASTATS_UP, "10.0.0.7:8000");
}

static void finish(void)
{
	fleet_end(&f);
	free(A->o.pools);
	free(B->o.pools);
}

static void ask_split(struct world *w, const char *uid, const char *turns, char *at)
{
	ask(w, uid, turns);
	assert_true(w->a.prefill.n > 0);
	memcpy(at, w->a.server.p, w->a.server.n);
	at[w->a.server.n] = '\0';
}

static const struct server *decodes(struct world *w, const char *name)
{
	const struct server *s = pool_find(pool_named(w, "pool"), span_str(name), 0);

	assert_non_null(s);
	return s;
}

static uint64_t held(struct world *w, const struct server *s)
{
	return index_server_room(w->r->index, s->id);
}

static void nothing_is_open(struct world *w)
{
	struct index_stats s;

	index_stats(w->r->index, &s);
	assert_int_equal(s.claims, 0);
	assert_int_equal(w->r->ledger.n, 0);
	assert_int_equal(in_pre(w, "p1")->n_open + in_pre(w, "p1")->n_unanswered, 0);
	assert_true(in_pre(w, "p1")->unanswered_s == 0);
}

static void both_entries_and_both_ends(void **state)
{
	char at[SERVER_NAME_MAX + 1];

	(void)state;
	begin();
	ask_split(A, "u1", LONG, at);
	pass(&f, 5);
	assert_int_equal(B->r->ledger.n, 2);
	assert_int_equal(in_pre(B, "p1")->n_open, 1);
	assert_true(in_pre(B, "p1")->unanswered_s > 0);
	assert_int_equal(decodes(B, at)->n_open, 1);
	assert_int_equal(decodes(B, at)->n_elsewhere, 1);
	assert_true(decodes(B, at)->unanswered_s == 0);
	pass(&f, 900);
	tell_first(A, "u1", at, 200, STREAM);
	pass(&f, 5);
	assert_int_equal(in_pre(B, "p1")->n_open, 0);
	assert_int_equal(decodes(B, at)->n_open, 1);
	assert_int_equal(decodes(B, at)->n_elsewhere, 0);
	tell_done(A, "u1", at, 200, "--", 900);
	pass(&f, 5);
	nothing_is_open(A);
	nothing_is_open(B);
	assert_true(held(B, in_pre(B, "p1")) > 0);
	assert_int_equal(held(B, in_pre(B, "p1")), held(B, decodes(B, at)));
	assert_int_equal(pairs_differing(&f.a[0], &f.a[1], true), 0);
	finish();
}

/* Only the entry at the server that generates is a turn of the session. */
static void one_turn_of_its_session(void **state)
{
	char at[SERVER_NAME_MAX + 1];

	(void)state;
	begin();
	A->q.session = SPAN("one");
	ask_split(A, "u1", LONG, at);
	pass(&f, 5);
	assert_int_equal(B->r->ledger.n, 2);
	assert_int_equal(stats(A).sessions.turns, 1);
	assert_int_equal(stats(B).sessions.turns, 1);
	assert_int_equal(stats(B).sessions.mistrusted, 0);
	finish();
}

/* HAProxy reports the answer to the sibling. */
static void an_end_that_the_sibling_gets(void **state)
{
	char at[SERVER_NAME_MAX + 1];

	(void)state;
	begin();
	ask_split(A, "u1", LONG, at);
	pass(&f, 5);
	tell_first(B, "u1", at, 200, STREAM);
	tell_done(B, "u1", at, 200, "--", 900);
	pass(&f, 5);
	nothing_is_open(A);
	nothing_is_open(B);
	assert_int_equal(pairs_differing(&f.a[0], &f.a[1], true), 0);
	finish();
}

static void an_end_before_the_entry(void **state)
{
	char at[SERVER_NAME_MAX + 1];

	(void)state;
	begin();
	f.delay_least = f.delay_most = 50;
	ask_split(A, "u1", LONG, at);
	tell_done(B, "u1", at, 200, "--", 900);
	pass(&f, 100);
	pass(&f, 100);
	assert_int_equal(decodes(B, at)->n_open, 0);
	nothing_is_open(A);
	finish();
}

/* The same request again, now short, as after a slice: it is not split, and siblings know. */
static void a_split_that_is_taken_back(void **state)
{
	char at[SERVER_NAME_MAX + 1];

	(void)state;
	begin();
	ask_split(A, "u1", LONG, at);
	pass(&f, 5);
	assert_int_equal(in_pre(B, "p1")->n_open, 1);
	ask(A, "u1", "a");
	assert_int_equal(A->a.prefill.n, 0);
	pass(&f, 5);
	assert_int_equal(in_pre(A, "p1")->n_open, 0);
	assert_int_equal(in_pre(B, "p1")->n_open, 0);
	assert_int_equal(B->r->ledger.n, 1);
	assert_int_equal(pairs_differing(&f.a[0], &f.a[1], true), 0);
	finish();
}

static uint64_t sized(const struct server *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < RUNS_MAX; i++)
		n += s->capacity.live[i];
	return n;
}

/* The first token of a split prompt tells nothing of the decode server's cache, nor how large its
 * prefill server's is, because a transfer is in it. */
static void no_cache_size_is_inferred_from_it(void **state)
{
	char at[SERVER_NAME_MAX + 1], uid[16], turns[32] = LONG;

	(void)state;
	begin();
	for (int i = 0; i < 12; i++) {
		snprintf(uid, sizeof(uid), "u%d", i);
		turns[0] = (char)('A' + i);
		ask_split(A, uid, turns, at);
		pass(&f, 5);
		for (unsigned k = 0; k < 2; k++) {
			assert_int_equal(decodes(&f.a[k].w, at)->capacity.watched.uid, 0);
			assert_int_equal(sized(decodes(&f.a[k].w, at)), 0);
		}
		pass(&f, 900);
		tell_first(A, uid, at, 200, STREAM);
		tell_done(A, uid, at, 200, "--", 900);
		pass(&f, 500);
		for (unsigned k = 0; k < 2; k++) {
			assert_true(decodes(&f.a[k].w, at)->capacity.own.n == 0);
			assert_true(in_pre(&f.a[k].w, "p1")->capacity.own.n == 0);
		}
	}
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_entries_and_both_ends),
		cmocka_unit_test(one_turn_of_its_session),
		cmocka_unit_test(an_end_that_the_sibling_gets),
		cmocka_unit_test(an_end_before_the_entry),
		cmocka_unit_test(a_split_that_is_taken_back),
		cmocka_unit_test(no_cache_size_is_inferred_from_it),
	};

	return cmocka_run_group_tests_name("route prefill, siblings", tests, NULL, NULL);
}
