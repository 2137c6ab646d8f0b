/* test_meanwhile.c - events about a request while it is being decided. This file includes
 * job_match.c and commit.c with a hook before the match and one before the commit, where a thread
 * begins to act. The decision goes on when that thread is done, or waits for the decision. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/unit/route/world.h"

static struct world w;
static void (*before_match)(void), (*before_commit)(void);

static pthread_t other;
static bool started, waited;
static atomic_bool done;

static void *act(void *arg)
{
	void (**what)(void) = arg;

	(*what)();
	done = true;
	return NULL;
}

static unsigned n_waiting(void)
{
	unsigned n;

	pthread_mutex_lock(&w.r->lock);
	n = w.r->n_waiting;
	pthread_mutex_unlock(&w.r->lock);
	return n;
}

static void meanwhile(void (**what)(void))
{
	static void (*now)(void);

	if (*what == NULL)
		return;
	now = *what;
	*what = NULL;		/* once */
	done = false;
	started = true;
	assert_int_equal(pthread_create(&other, NULL, act, &now), 0);
	while (!done && n_waiting() == 0)
		sched_yield();
	waited = !done;
}

/* Decide, and let the other thread come to its end. */
static void ask_meanwhile(const char *uid, const char *turns)
{
	started = waited = false;
	ask(&w, uid, turns);
	if (started)
		pthread_join(other, NULL);
}

#define index_match(...)	(meanwhile(&before_match), index_match(__VA_ARGS__))
#define index_commit_at(...)	(meanwhile(&before_commit), index_commit_at(__VA_ARGS__))
#include "agent/route/job_match.c"
#include "agent/route/commit.c"
#undef index_match
#undef index_commit_at

static uint64_t pages(const char *name)
{
	struct server_find f = server(&w, name);

	assert_true(f.found);
	return index_server_room(w.r->index, f.v.id) / (16 * ROOM_OF_TOKEN);
}

static uint64_t all_pages(void)
{
	return pages("s1") + pages("s2") + pages("s3") + pages("s4");
}

static void refused_meanwhile(void)
{
	refused(&w, "1");
}

static void failed_meanwhile(void)
{
	tell_first(&w, "1", "s1", 503, "");
}

static void whole_meanwhile(void)
{
	tell_done(&w, "1", "s1", 200, "--", 20);
}

static void first_meanwhile(void)
{
	tell_first(&w, "1", "s1", 200, STREAM);
}

static void first_and_broken_off(void)
{
	tell_first(&w, "1", "s1", 200, STREAM);
	tell_done(&w, "1", "s1", 200, "SD", 20);
}

static void elsewhere_meanwhile(void)
{
	tell_first(&w, "1", "s3", 200, STREAM);
}

static void done_elsewhere_meanwhile(void)
{
	tell_done(&w, "1", "s3", 200, "--", 20);
}

static void nowhere_meanwhile(void)
{
	tell_first(&w, "1", "unknown", 200, STREAM);
}

static void given_up_meanwhile(void)
{
	w.now += w.o.ledger_max_age_ms;
	route_tick(w.r, w.now);
}

/* A request ends before its claim is stored: the claim ends in the same way. */
static void an_end_before_the_claim(void **state)
{
	static const struct {
		const char *name;
		void (*what)(void);
		bool open, s1, s3;
	} cases[] = {
		{ "nothing", NULL, true, true, false },
		{ "refused", refused_meanwhile, false, false, false },
		{ "failed", failed_meanwhile, false, false, false },
		{ "answered whole", whole_meanwhile, false, true, false },
		{ "first token", first_meanwhile, true, true, false },
		{ "first token, then broken off", first_and_broken_off, false, true, false },
		{ "first token elsewhere", elsewhere_meanwhile, true, false, true },
		{ "answered whole elsewhere", done_elsewhere_meanwhile, false, false, true },
		{ "by nobody we know", nowhere_meanwhile, true, false, false },
		{ "too old", given_up_meanwhile, false, true, false },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		world_start(&w);
		before_commit = cases[i].what;
		ask_meanwhile("1", "abc");
		print_message("%s\n", cases[i].name);
		assert_span(w.a.server, "s1");
		assert_int_equal(stats(&w).open, cases[i].open);
		assert_int_equal(stats(&w).index.claims, cases[i].open && cases[i].s1);
		assert_int_equal(pages("s1") > 0, cases[i].s1);
		assert_int_equal(pages("s3") > 0, cases[i].s3);
		tell_done(&w, "1", "s1", 200, "--", 20);
		assert_int_equal(stats(&w).open, 0);
		assert_int_equal(stats(&w).index.claims, 0);
		world_end(&w);
	}
}

/* In shadow mode a claim belongs to no server until a fact names one. */
static void an_end_before_the_claim_in_shadow(void **state)
{
	static const struct {
		void (*what)(void);
		bool s1, s3;
	} cases[] = {
		{ whole_meanwhile, true, false }, { elsewhere_meanwhile, false, true },
		{ refused_meanwhile, false, false }, { given_up_meanwhile, false, false },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		world_options(&w);
		w.o.pool_default.mode = MODE_SHADOW;
		world_open(&w);
		before_commit = cases[i].what;
		ask_meanwhile("1", "abc");
		assert_int_equal(stats(&w).index.claims, 0);
		assert_int_equal(pages("s1") > 0, cases[i].s1);
		assert_int_equal(pages("s3") > 0, cases[i].s3);
		assert_int_equal(stats(&w).index.pages > 0, cases[i].s1 || cases[i].s3);
		world_end(&w);
	}
}

static struct route_answer inner;

static void same_uid(void)
{
	struct route_scratch *s = route_scratch_new(w.r);
	struct route_request q = w.q;

	assert_non_null(s);
	route_decide(w.r, s, &q, w.now, &inner);
	inner.server = (struct span){ 0 };		/* of the scratch */
	route_scratch_free(s);
}

/* A request that comes twice at once is one entry of the ledger, with one claim. */
static void two_at_once_with_one_uid(void **state)
{
	void (**when[])(void) = { &before_match, &before_commit };
	struct route_stats once, st;

	(void)state;
	world_start(&w);
	ask(&w, "1", "abc");
	once = stats(&w);
	world_end(&w);
	for (unsigned i = 0; i < 2; i++) {
		world_start(&w);
		*when[i] = same_uid;
		ask_meanwhile("1", "abc");
		assert_int_equal(waited, i == 1);
		assert_null(*when[i]);
		st = stats(&w);
		assert_int_equal(st.requests, 2);
		assert_int_equal(st.open, 1);
		assert_int_equal(st.index.claims, 1);
		assert_int_equal(st.prompt_tokens, once.prompt_tokens);
		assert_int_equal(all_pages(), w.a.prompt_pages);
		assert_int_equal(server(&w, "s1").v.picked, 1);
		assert_int_equal(server(&w, "s2").v.picked, 0);
		refused(&w, "1");
		assert_int_equal(stats(&w).open, 0);
		assert_int_equal(stats(&w).index.claims, 0);
		assert_int_equal(all_pages(), 0);
		world_end(&w);
	}
}

static struct decision record_of(const char *uid)
{
	struct decision x;

	assert_true(decisions_find(w.r->decisions, route_uid_hash(w.r, span_str(uid)), &x));
	return x;
}

static struct { unsigned n, asked, ended; } order;

static void note_asked(void *arg, const struct traffic_asked *a, const uint64_t *blocks)
{
	order.asked = ++order.n;
}

static void note_ended(void *arg, const struct traffic_ended *e)
{
	order.ended = ++order.n;
}

/* A fact that comes after the answer, to another thread, waits until the decision is finished. So
 * its record gets the fact, and a recording has both in order. */
static void a_fact_waits_for_its_decision(void **state)
{
	static const struct traffic_sink sink = { NULL, note_asked, note_ended };
	struct traffic *t = traffic_new(1 << 16, 32, &(struct hash_key){ { 1 } }, 7);

	(void)state;
	assert_non_null(t);
	world_start(&w);
	route_traffic(w.r, t);
	before_commit = whole_meanwhile;
	ask_meanwhile("1", "abc");
	assert_true(waited);
	assert_int_equal(record_of("1").status, 200);
	assert_int_equal(stats(&w).facts_unknown, 0);
	traffic_take(t, &sink);
	assert_int_equal(order.asked, 1);
	assert_int_equal(order.ended, 2);
	world_end(&w);
	traffic_free(t);
}

static void *reload(void *arg)
{
	struct route_opts o = w.o;

	o.pool_default.mode = MODE_SHADOW;
	route_reconfigure(w.r, &o);
	return NULL;
}

/* New options wait until the decision is finished, and the next one has them. */
static void a_decision_keeps_its_options(void **state)
{
	struct route_answer a;
	pthread_t t;

	(void)state;
	world_start(&w);
	chat(&w.body, "", "abc", ",\"model\":\"m\"");
	w.q.uid = SPAN("1");
	w.q.seq = -1;
	w.q.body = span_of(w.body.p, w.body.n);
	route_begin(w.r, w.s, &w.q, w.now, &a);
	assert_span(a.server, "s1");
	assert_int_equal(pthread_rwlock_trywrlock(&w.r->opts_lock), EBUSY);
	assert_int_equal(pthread_create(&t, NULL, reload, NULL), 0);
	assert_true(route_finish(w.r, w.s) > 0);
	pthread_join(t, NULL);
	assert_true(open_of(ledger_find(&w.r->ledger, route_uid(w.r, SPAN("1"))))->run > 0);
	assert_int_equal(record_of("1").mode, MODE_ON);
	assert_int_equal(stats(&w).index.claims, 1);
	assert_true(pages("s1") > 0);
	ask(&w, "2", "abc");
	assert_int_equal(w.a.why, WHY_SHADOW);
	world_end(&w);
}

/* The next slice of a body may come to another thread, so an answer that says <more> leaves nothing
 * unfinished. */
static void an_answer_that_waits_for_a_slice_is_finished(void **state)
{
	struct route_scratch *s;
	struct route_answer a;

	(void)state;
	world_start(&w);
	s = route_scratch_new(w.r);
	chat(&w.body, "", "abcdef", ",\"model\":\"m\"");
	w.q.uid = SPAN("1");
	w.q.seq = 0;
	w.q.visible = w.q.whole = (int64_t)w.body.n;
	w.q.body = span_of(w.body.p, w.body.n / 2);
	route_begin(w.r, w.s, &w.q, w.now, &a);
	assert_true(a.more);
	w.q = (struct route_request){
		.uid = SPAN("1"), .seq = 1, .visible = -1, .whole = -1, .work = ROUTE_WORK_FULL,
		.body = span_of(w.body.p + w.body.n / 2, w.body.n - w.body.n / 2),
	};
	route_begin(w.r, s, &w.q, w.now, &a);
	assert_false(a.stands || a.more);
	assert_span(a.server, "s1");
	route_finish(w.r, s);
	assert_int_equal(stats(&w).open, 1);
	assert_int_equal(stats(&w).slices_waiting, 0);
	assert_int_equal(stats(&w).index.claims, 1);
	route_finish(w.r, w.s);
	route_scratch_free(s);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_end_before_the_claim),
		cmocka_unit_test(an_end_before_the_claim_in_shadow),
		cmocka_unit_test(two_at_once_with_one_uid),
		cmocka_unit_test(a_fact_waits_for_its_decision),
		cmocka_unit_test(a_decision_keeps_its_options),
		cmocka_unit_test(an_answer_that_waits_for_a_slice_is_finished),
	};

	return cmocka_run_group_tests_name("route meanwhile", tests, NULL, NULL);
}
