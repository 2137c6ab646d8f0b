/* test_sessions.c - cut bodies whose visible part is common: the session tells them apart. */
#include "tests/unit/route/world.h"

/* Send a turn of <session>, of which the first part is visible and <whole> bytes exist. */
static struct span turn(struct world *w, const char *uid, const char *session, int64_t whole)
{
	chat(&w->body, "\"model\":\"m\",", "abc", "");
	w->q.session = span_str(session);
	w->q.visible = (int64_t)w->body.n - 40;
	w->q.whole = whole;
	send_body(w, uid, span_of(w->body.p, w->body.n - 40));
	return w->a.server;
}

static void done(struct world *w, const char *uid)
{
	char srv[SERVER_NAME_MAX + 1];

	snprintf(srv, sizeof(srv), SPAN_FMT, SPAN_ARG(w->a.server));
	tell_done(w, uid, srv, 200, "--", 100);
}

/* Let every server hold the visible part: nothing but the session tells them apart. */
static void open_world(struct world *w)
{
	world_start(w);
	for (unsigned i = 0; i < 4; i++) {
		static const char *const only[] = { "lb1/1;s1=1,0,0,1", "lb1/1;s2=1,0,0,1",
			"lb1/1;s3=1,0,0,1", "lb1/1;s4=1,0,0,1" };
		char uid[8];

		snprintf(uid, sizeof(uid), "w%u", i);
		w->q.load = span_str(only[i]);
		turn(w, uid, "", 0);
		done(w, uid);
	}
	w->q.load = SPAN(IDLE4);
}

static void each_session_stays_where_its_cache_is(void **state)
{
	static const char *const name[] = { "one", "two", "three", "four", "five", "six" };
	char at[6][16], uid[16];
	struct world w;

	(void)state;
	open_world(&w);
	for (unsigned n = 0; n < 5; n++) {
		for (unsigned i = 0; i < 6; i++) {
			unsigned k = n % 2 ? 5 - i : i;		/* so that turns alone do not help */
			struct span s;

			snprintf(uid, sizeof(uid), "t%u-%u", n, k);
			s = turn(&w, uid, name[k], 200000 + 4000 * n);
			if (n > 0)
				assert_true(span_eq(s, span_str(at[k])));
			snprintf(at[k], sizeof(at[k]), SPAN_FMT, SPAN_ARG(s));
			done(&w, uid);
			w.now += 1000;
		}
	}
	world_end(&w);
}

/* Requests with one key and any length are decided as those without one. */
static void one_key_for_everything_gains_nothing(void **state)
{
	unsigned same = 0;
	struct world a, b;
	struct rng rng;

	(void)state;
	rng_init(&rng, 3);
	open_world(&a);
	open_world(&b);
	for (unsigned n = 0; n < 200; n++) {
		int64_t whole = 20000 + (int64_t)rng_below(&rng, 400000);
		char uid[16];

		snprintf(uid, sizeof(uid), "k%u", n);
		turn(&a, uid, "all", whole);
		turn(&b, uid, "", whole);
		same += a.a.hit_tokens == b.a.hit_tokens;
		done(&a, uid);
		done(&b, uid);
		a.now += 1000;
		b.now += 1000;
	}
	assert_true(same > 180);
	world_end(&a);
	world_end(&b);
}

static void tenants_do_not_share_sessions(void **state)
{
	struct world w;

	(void)state;
	open_world(&w);
	turn(&w, "x", "one", 200000);
	done(&w, "x");
	w.q.tenant = SPAN("other");
	turn(&w, "y", "one", 204000);
	done(&w, "y");
	w.q.tenant = SPAN("");
	assert_int_equal(w.r->sessions != NULL, true);
	{
		struct sessions_stats st;

		sessions_stats(w.r->sessions, &st);
		assert_int_equal(st.sessions, 2);
	}
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_session_stays_where_its_cache_is),
		cmocka_unit_test(one_key_for_everything_gains_nothing),
		cmocka_unit_test(tenants_do_not_share_sessions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
