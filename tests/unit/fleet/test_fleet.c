/* test_fleet.c - pools, servers, slots and the ledger, each alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "agent/base/poison.h"
#include "agent/fleet/ledger.h"

#define WORK(seconds)	(&(struct work){ .s = (seconds), .tokens = 10 })

/* Found, or added. */
static struct pool *pool_of(struct fleet *f, struct span name, uint32_t max_pools)
{
	struct pool *p = fleet_find(f, name);

	return p != NULL ? p : fleet_pool_add(f, name, max_pools);
}

/* ---- fleet -------------------------------------------------------------------------------- */

static void pools_are_found_again(void **state)
{
	struct fleet f;
	struct pool *p;

	(void)state;
	fleet_init(&f);
	p = pool_of(&f, SPAN("a"), 3);
	assert_non_null(p);
	assert_ptr_equal(pool_of(&f, SPAN("a"), 3), p);
	assert_ptr_not_equal(pool_of(&f, SPAN("ab"), 3), p);
	assert_non_null(pool_of(&f, (struct span){ 0 }, 3));
	assert_null(pool_of(&f, SPAN("one too many"), 3));
	assert_int_equal(f.pools_refused, 1);
	assert_null(pool_of(&f, span_of("a\0b", 3), 4));
	assert_int_equal(f.pools_refused, 2);
	fleet_fini(&f);
}

static void ids_are_given_again_last(void **state)
{
	static char name[SERVERS_MAX + 1][8];
	struct server *s[SERVERS_MAX], *late;
	struct fleet f;
	struct pool *p;

	(void)state;
	fleet_init(&f);
	p = pool_of(&f, SPAN("pool"), 64);
	for (int i = 0; i < SERVERS_MAX; i++) {
		snprintf(name[i], sizeof(name[i]), "n%d", i);
		assert_non_null(s[i] = fleet_server(&f, p, span_str(name[i]), 1));
		assert_int_equal(s[i]->id, i);
		if (i == 99) {		/* an id just given back is not the next one given */
			fleet_drop(&f, s[50]);
			assert_null(pool_find(p, SPAN("n50"), 50));
			assert_ptr_equal(pool_find(p, SPAN("n51"), 51), s[51]);
		}
	}
	assert_null(fleet_server(&f, p, SPAN("none left yet"), 1));
	assert_int_equal(fleet_leaving(&f), 50);
	fleet_left(&f, 50);
	assert_int_equal(fleet_leaving(&f), SERVER_NONE);
	assert_non_null(late = fleet_server(&f, p, SPAN("late"), 1));
	assert_int_equal(late->id, 50);
	assert_null(fleet_server(&f, p, SPAN("none left"), 1));
	assert_int_equal(f.servers_refused, 2);
	fleet_drop(&f, late);
	assert_null(fleet_server(&f, p, span_of("n\0", 2), 1));
	fleet_fini(&f);
}

static void names_have_a_longest(void **state)
{
	char name[SERVER_NAME_MAX + 1];
	struct fleet f;
	struct pool *p;

	(void)state;
	memset(name, 'n', sizeof(name));
	fleet_init(&f);
	assert_non_null(p = pool_of(&f, span_of(name, POOL_NAME_MAX), 64));
	assert_null(pool_of(&f, span_of(name, POOL_NAME_MAX + 1), 64));
	assert_non_null(fleet_server(&f, p, span_of(name, SERVER_NAME_MAX), 1));
	assert_null(fleet_server(&f, p, span_of(name, SERVER_NAME_MAX + 1), 1));
	assert_non_null(pool_find(p, span_of(name, SERVER_NAME_MAX), SIZE_MAX));
	fleet_fini(&f);
}

static void slots_are_reused_and_shared(void **state)
{
	struct slot *sl[SLOTS_MAX];
	struct server *s;
	struct fleet f;

	(void)state;
	fleet_init(&f);
	s = fleet_server(&f, pool_of(&f, SPAN("pool"), 64), SPAN("s1"), 1);
	for (uint64_t i = 0; i < SLOTS_MAX; i++) {
		assert_non_null(sl[i] = server_slot(s, i + 1, 0));
		sl[i]->n_open++;		/* in use */
	}
	assert_ptr_equal(server_slot(s, 5, 0), sl[4]);
	assert_ptr_equal(server_heard(s, SLOTS_MAX, 1), sl[SLOTS_MAX - 1]);
	assert_ptr_equal(server_slot(s, 1000, 2), sl[SLOTS_MAX - 1]);	/* no room: shared */
	assert_ptr_equal(server_slot(s, 1001, 2), sl[SLOTS_MAX - 1]);
	assert_ptr_equal(server_heard(s, 1, 3), sl[0]);
	assert_int_equal(sl[SLOTS_MAX - 1]->heard, 2);
	assert_null(server_heard(s, SLOTS_MAX, 4));	/* its count is not that of the shared slot, */
	assert_int_equal(sl[SLOTS_MAX - 1]->heard, 4);	/* but its requests are there, */
	assert_null(server_heard(s, 1001, 5));
	assert_int_equal(sl[SLOTS_MAX - 1]->heard, 5);
	sl[3]->n_open--;
	assert_ptr_equal(server_slot(s, 1000, 6), sl[3]);		/* an idle one changes hands */
	assert_int_equal(sl[3]->process, 1000);
	assert_ptr_equal(server_heard(s, 1000, 6), sl[3]);
	sl[3]->n_open++;
	sl[SLOTS_MAX - 1]->n_open--;
	assert_ptr_equal(server_slot(s, 1001, 7), sl[SLOTS_MAX - 1]);	/* and is no longer shared */
	assert_ptr_equal(server_heard(s, 1001, 8), sl[SLOTS_MAX - 1]);
	fleet_fini(&f);
}

/* <streams>: the number of the server whose stream ended; upper case 'A' + number: it was empty.
 * Returns how many of those were failures. */
static unsigned failed_streams(unsigned n_servers, const char *streams, unsigned times)
{
	struct server *s[4];
	struct fleet f;
	unsigned n = 0;

	fleet_init(&f);
	for (unsigned i = 0; i < n_servers; i++)
		s[i] = fleet_server(&f, pool_of(&f, SPAN("pool"), 64), span_of(&"s0s1s2s3"[2 * i], 2), i + 1);
	for (unsigned k = 0; k < times; k++)
		for (const char *p = streams; *p != '\0'; p++)
			n += server_stream_ended(s[*p >= 'A' ? *p - 'A' : *p - '0'], *p >= 'A');
	fleet_fini(&f);
	return n;
}

static void empty_streams_are_failures_where_others_have_none(void **state)
{
	assert_int_equal(failed_streams(4, "0123", 100), 0);
	assert_int_equal(failed_streams(4, "A123", 100), 98);	/* from the third in a row on */
	assert_int_equal(failed_streams(4, "A", 100), 98);	/* it gets all requests */
	assert_in_range(failed_streams(4, "A123ABCD", 100), 190, 200);	/* half are empty elsewhere */
	assert_in_range(failed_streams(4, "AB23", 100), 190, 196);	/* two fail */
	assert_in_range(failed_streams(4, "ABC3", 100), 280, 296);	/* all but one fail */
	assert_int_equal(failed_streams(4, "ABCD", 100), 0);	/* all: one token is requested */
	assert_int_equal(failed_streams(2, "BAAAAAAAAAAAAAAAAAAA", 20), 0);	/* most at one server */
	assert_int_equal(failed_streams(4, "A12301230123", 100), 0);	/* one of three */
	assert_int_equal(failed_streams(1, "A", 100), 0);	/* there is no other server */
}

/* The speed is known from the headers of twenty answers, so less wait remains. */
static void a_learned_rate_lowers_the_floor(void **state)
{
	static const struct policy_opts opts = { .learn_rate = true };
	struct pool p = { .policy = &opts };
	struct server s = { .fluid_at = 1000, .pool = &p };

	(void)state;
	rate_init(&s.rate, 1);
	server_work_add(&s, WORK(18), 1000);
	assert_true(fabs(server_backlog(&s, STEP_END, 0.3, 60000) - 0.3 * 18) < 1e-9);
	for (int i = 0; i < 20; i++)
		rate_headers(&s.rate, 1, 1000, 60000);
	assert_true(fabs(server_backlog(&s, STEP_END, 0.3, 60000) - 0.3) < 1e-9);
	assert_true(server_backlog(&s, STEP_FIRST, 0.3, 60000) == 18);
}

/* Bytes that were announced and not seen count like a prompt of that length, and no longer: else
 * bytes that never come would hold all other requests off for as long as their request is open. */
static void unseen_work_drains_with_reports_too(void **state)
{
	static const struct policy_opts opts = { .learn_rate = false };
	struct work cut = { .s = 50, .unseen_s = 40 };
	struct pool p = { .policy = &opts };
	struct server s = { .fluid_at = 1000, .pool = &p };

	(void)state;
	server_work_add(&s, &cut, 1000);
	assert_true(server_backlog(&s, STEP_FIRST, 0.3, 1000) == 50);
	assert_true(server_backlog(&s, STEP_FIRST, 0.3, 11000) == 40);
	server_work_add(&s, WORK(2), 11000);
	assert_true(server_backlog(&s, STEP_FIRST, 0.3, 51000) == 12);
	assert_true(server_backlog(&s, STEP_END, 0.3, 91000) == 0.3 * 12);
	server_work_end(&s, &cut, 91000);
	assert_true(server_backlog(&s, STEP_FIRST, 0.3, 91000) == 2);
}

/* A small wait, lost by rounding in a huge sum, does not stay in it. */
static void an_idle_server_has_no_backlog(void **state)
{
	static const struct policy_opts opts = { .learn_rate = false };
	struct pool p = { .policy = &opts };
	struct server s = { .fluid_at = 1000, .pool = &p };

	(void)state;
	server_work_add(&s, WORK(0.3), 1000);
	server_work_add(&s, WORK(4.9e17), 1000);
	server_work_add(&s, WORK(300), 1000);
	server_work_end(&s, WORK(0.3), 1000);
	server_work_end(&s, WORK(4.9e17), 1000);
	server_work_end(&s, WORK(300), 1000);
	assert_true(server_backlog(&s, STEP_FIRST, 0.3, 1000) == 0);
	assert_true(server_backlog(&s, STEP_END, 0.3, 1000) == 0);
	server_work_add(&s, WORK(0.3), 1000);
	server_work_end(&s, WORK(1e-300), 1000);	/* the order of the two does not matter */
	assert_true(server_backlog(&s, STEP_FIRST, 0.3, 1000) == 0);
}

static void work_drains_without_reports(void **state)
{
	static const struct policy_opts opts = { .learn_rate = false };
	struct pool p = { .policy = &opts };
	struct server s = { .fluid_at = 1000, .pool = &p };

	(void)state;
	server_work_add(&s, WORK(2), 1000);
	assert_true(server_backlog(&s, STEP_FIRST, 0.3, 1500) == 2);	/* to the letter */
	assert_true(server_backlog(&s, STEP_END, 0.3, 1500) == 1.5);
	assert_true(server_backlog(&s, STEP_LOAD, 0.3, 2000) == 1);
	assert_true(server_backlog(&s, STEP_LOAD, 0.3, 9000) == 0.6);	/* not below the floor */
	server_work_add(&s, WORK(1), 9000);
	assert_true(server_backlog(&s, STEP_END, 0.3, 9000) == 1);
	server_work_end(&s, WORK(2), 9000);
	assert_true(server_backlog(&s, STEP_END, 0.3, 9000) == 1);	/* never above the open work */
	server_work_end(&s, WORK(1), 9000);
	assert_true(server_backlog(&s, STEP_END, 0.3, 9000) == 0);
}

/* Threads read their clocks at different times; work that has drained once does not drain again. */
static void a_clock_that_steps_back(void **state)
{
	static const struct policy_opts opts = { .learn_rate = false };
	struct pool p = { .policy = &opts };
	struct server s = { .fluid_at = 1000, .pool = &p };

	(void)state;
	server_work_add(&s, WORK(2), 1000);
	assert_true(server_backlog(&s, STEP_END, 0, 1500) == 1.5);
	assert_true(server_backlog(&s, STEP_END, 0, 1400) == 1.5);
	assert_true(server_backlog(&s, STEP_END, 0, 1500) == 1.5);
	assert_true(server_backlog(&s, STEP_END, 0, 2000) == 1);
}

static void facts_are_fresh_for_a_minute(void **state)
{
	struct pool p = { .opts = NULL };

	(void)state;
	assert_int_equal(pool_step(&p, 5), STEP_NONE);
	p.loaded = 1;
	assert_int_equal(pool_step(&p, 5), STEP_LOAD);
	p.done_seen = 10;
	assert_int_equal(pool_step(&p, 10), STEP_END);
	p.first_seen = 20;
	assert_int_equal(pool_step(&p, 20), STEP_FIRST);
	assert_int_equal(pool_step(&p, 60019), STEP_FIRST);
	assert_int_equal(pool_step(&p, 60020), STEP_LOAD);
}

/* ---- ledger ------------------------------------------------------------------------------- */

static void entries_open_and_close(void **state)
{
	struct server *s;
	struct ledger l;
	struct fleet f;
	struct slot *sl;

	(void)state;
	fleet_init(&f);
	assert_int_equal(ledger_init(&l, sizeof(struct ledger_entry)), 0);
	s = fleet_server(&f, pool_of(&f, SPAN("pool"), 64), SPAN("s1"), 1);
	sl = server_slot(s, 1, 0);
	ledger_prefetch(&l);		/* no entry was closed yet */
	for (uint64_t i = 0; i < 5000; i++)	/* far more than there are buckets at first */
		assert_non_null(ledger_open(&l, i * 256, s, sl, WORK(0.001), 0, 0, 1000));
	assert_int_equal(l.n, 5000);
	assert_int_equal(s->n_open, 5000);
	assert_int_equal(sl->n_open, 5000);
	for (uint64_t i = 0; i < 5000; i += 2)
		ledger_close(&l, ledger_find(&l, i * 256), true, 1000);
	ledger_prefetch(&l);
	for (uint64_t i = 0; i < 5000; i++)
		assert_int_equal(ledger_find(&l, i * 256) != NULL, i % 2);
	assert_null(ledger_find(&l, 7));
	assert_int_equal(list_entry(l.by_age.next, struct ledger_entry, by_age)->uid, 256);
	while (!list_empty(&l.by_age))
		ledger_close(&l, list_entry(l.by_age.next, struct ledger_entry, by_age), true, 1000);
	assert_int_equal(l.n, 0);
	assert_int_equal(s->n_open, 0);
	assert_true(s->unanswered_s == 0);	/* not nearly: an idle server is idle */
	ledger_fini(&l);
	fleet_fini(&f);
}

static void entries_move_with_their_work(void **state)
{
	struct ledger_entry *e;
	struct server *a, *b;
	struct ledger l;
	struct fleet f;
	struct pool *p;

	(void)state;
	fleet_init(&f);
	assert_int_equal(ledger_init(&l, sizeof(struct ledger_entry)), 0);
	p = pool_of(&f, SPAN("pool"), 64);
	a = fleet_server(&f, p, SPAN("a"), 1);
	b = fleet_server(&f, p, SPAN("b"), 1);
	e = ledger_open(&l, 1, a, server_slot(a, 9, 0), WORK(0.5), 0, 0, 1000);
	e->claim = 77;
	ledger_move(e, b, server_slot(b, 9, 0), 1000);
	assert_int_equal(a->n_open + a->slots[0]->n_open, 0);
	assert_int_equal(b->n_open, 1);
	assert_true(a->unanswered_s == 0 && b->unanswered_s == 0.5);
	ledger_answered(e, 1000);
	assert_true(b->unanswered_s == 0 && b->n_open == 1);
	assert_int_equal(ledger_close(&l, e, true, 1000), 77);
	assert_int_equal(b->n_open, 0);
	ledger_open(&l, 2, a, server_slot(a, 9, 0), WORK(0.5), 0, 0, 1000);	/* freed with the ledger */
	ledger_fini(&l);
	fleet_fini(&f);
}

/* A prompt that was mostly unseen took time for an unknown amount of work, and an unknown part of
 * the time of requests that waited with it. So it teaches no rate. */
static void uncertain_work_teaches_no_rate(void **state)
{
	struct work cut = { .s = 50, .nominal_s = 50, .unseen_s = 40, .uncertain = true };
	struct server *s;
	struct ledger l;
	struct fleet f;

	(void)state;
	fleet_init(&f);
	assert_int_equal(ledger_init(&l, sizeof(struct ledger_entry)), 0);
	s = fleet_server(&f, pool_of(&f, SPAN("pool"), 64), SPAN("s1"), 1);
	for (uint64_t i = 1; i <= 3; i++)
		ledger_open(&l, i, s, server_slot(s, 9, 0), i == 1 ? &cut : WORK(0.5), 0, 0, 1000);
	ledger_answered(ledger_find(&l, 1), 2000);
	ledger_answered(ledger_find(&l, 2), 2001);
	assert_true(s->rate.firsts == 0 && rate_by_first(&s->rate) == 1);
	assert_true(fabs(server_backlog(s, STEP_FIRST, 0.3, 2001) - 0.5) < 1e-9);
	ledger_open(&l, 4, s, server_slot(s, 9, 0), WORK(0.5), 0, 0, 2002);
	ledger_answered(ledger_find(&l, 4), 3000);
	assert_true(s->rate.firsts == 1);
	ledger_fini(&l);
	fleet_fini(&f);
}

/* Each of four servers takes half of what is predicted, and five answers: too few for itself. */
static void a_pool_learns_before_its_servers(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d" };
	struct policy_opts o = { .learn_rate = true };
	struct server *s[4];
	struct fleet f;
	struct pool *p;
	msec now = 1000;

	(void)state;
	fleet_init(&f);
	p = pool_of(&f, SPAN("pool"), 3);
	p->policy = &o;
	p->step = STEP_FIRST;
	for (unsigned i = 0; i < 4; i++)
		s[i] = fleet_server(&f, p, span_str(names[i]), now);
	for (unsigned i = 0; i < 20; i++) {
		rate_begin(&s[i % 4]->rate, now);
		rate_answered(&s[i % 4]->rate, 4, now, now + 2000);
		now += 3000;
		pool_slowness(p, now);
		assert_true(i < 16 ? p->slowness == 1 : fabs(p->slowness - 0.5) < 0.05);
		assert_false(server_speed_known(s[i % 4], STEP_FIRST, now));
		assert_true(server_slowness(s[i % 4], STEP_FIRST, now) == p->slowness);
	}
	o.learn_rate = false;
	pool_slowness(p, now);
	assert_true(p->slowness == 1);
	fleet_fini(&f);
}

/* An owner's entry, as ledger_init() allows. */
struct owned {
	struct ledger_entry e;
	uint64_t own;
};

static void open_all(struct ledger *l, struct server *s, uint64_t n)
{
	static const struct ledger_entry none;
	struct owned *o;

	for (uint64_t i = 0; i < n; i++) {
		o = (struct owned *)ledger_open(l, i, s, server_slot(s, 1, 0), WORK(0.001), 9, 0, 1000);
		assert_non_null(o);
		assert_true(o->own == 0 && o->e.claim == 0 && o->e.pending == NULL && o->e.extra == 0);
		assert_true(!o->e.answered && !o->e.unsent && o->e.answered_at == 0);
		assert_memory_equal(&o->e.added, &none.added, sizeof(none.added));
		o->own = o->e.claim = i + 1;
		o->e.unsent = true;
		ledger_weigh(&o->e, 5);
		ledger_answered(&o->e, 1001);
	}
}

/* Some closed entries are opened again, with nothing of before. */
static void closed_entries_are_kept(void **state)
{
	struct server *s;
	struct ledger l;
	struct fleet f;

	(void)state;
	fleet_init(&f);
	assert_int_equal(ledger_init(&l, sizeof(struct owned)), 0);
	s = fleet_server(&f, pool_of(&f, SPAN("pool"), 64), SPAN("s1"), 1);
	for (unsigned round = 0; round < 3; round++) {
		open_all(&l, s, 300);
		assert_int_equal(l.n_spare, 0);
		for (uint64_t i = 0; i < 300; i++)
			assert_int_equal(ledger_close(&l, ledger_find(&l, i), true, 1002), i + 1);
		assert_int_equal(l.n_spare, LEDGER_SPARE_MOST);
	}
#ifdef POISON_WORKS
	assert_true(is_poisoned(l.spare) && is_poisoned((char *)l.spare + sizeof(struct owned) - 1));
#endif
	open_all(&l, s, 100);
	assert_int_equal(l.n_spare, 156);
	ledger_fini(&l);		/* frees both kinds */
	fleet_fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pools_are_found_again),
		cmocka_unit_test(ids_are_given_again_last),
		cmocka_unit_test(names_have_a_longest),
		cmocka_unit_test(slots_are_reused_and_shared),
		cmocka_unit_test(empty_streams_are_failures_where_others_have_none),
		cmocka_unit_test(a_learned_rate_lowers_the_floor),
		cmocka_unit_test(a_pool_learns_before_its_servers),
		cmocka_unit_test(unseen_work_drains_with_reports_too),
		cmocka_unit_test(an_idle_server_has_no_backlog),
		cmocka_unit_test(work_drains_without_reports),
		cmocka_unit_test(a_clock_that_steps_back),
		cmocka_unit_test(facts_are_fresh_for_a_minute),
		cmocka_unit_test(entries_open_and_close),
		cmocka_unit_test(closed_entries_are_kept),
		cmocka_unit_test(entries_move_with_their_work),
		cmocka_unit_test(uncertain_work_teaches_no_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
