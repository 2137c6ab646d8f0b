/* test_inbox.c - batches of siblings: new, repeated, with holes, of others; leases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/share/inbox.h"
#include "agent/share/outbox.h"
#include "tests/lib/share/entries.h"

#define PARTS	3u
#define SELF	1000u

static struct hash_key key;

/* What was applied, and who is gone. */
struct seen {
	uint64_t applied[8], gone[4 * SHARE_SIBLINGS_MAX];
	unsigned n_applied, n_gone;
	share_agent from;
};

static void apply(void *arg, share_agent from, const struct share_entry *e)
{
	struct seen *s = arg;

	if (e->kind == SHARE_TAKEN_BACK)
		s->applied[s->n_applied++ % 8] = e->u.taken_back.uid;
	s->from = from;
}

static void gone(void *arg, share_agent agent)
{
	struct seen *s = arg;

	s->gone[s->n_gone++] = agent;
}

static struct share_inbox *inbox(void)
{
	struct share_inbox *i = share_inbox_new(&key, SELF, PARTS);

	assert_non_null(i);
	return i;
}

/* A batch of two entries, <uid> and ALIVE. */
static struct span batch_made(
    share_agent agent, uint32_t part, uint64_t number, uint64_t uid, int64_t made_ms)
{
	static struct share_writer w;
	static uint8_t room[4096];
	struct share_entry e = { .kind = SHARE_TAKEN_BACK, .u.taken_back.uid = uid };
	struct share_entry alive = { .kind = SHARE_ALIVE, .u.alive = { number % 2, (uint32_t)number } };

	share_write_start(&w, &key, room, sizeof(room));
	assert_int_equal(share_write(&w, &e), 0);
	assert_int_equal(share_write(&w, &alive), 0);
	return span_of(room, share_write_end(&key, room, w.n,
	    &(struct share_batch){ agent, part, number, made_ms }));
}

static struct span batch(share_agent agent, uint32_t part, uint64_t number, uint64_t uid)
{
	return batch_made(agent, part, number, uid, 5000);
}

static enum share_read give(struct share_inbox *i, struct seen *s, share_agent agent, uint32_t part,
    uint64_t number, msec now)
{
	return share_inbox_read(i, part, batch(agent, part, number, number), now, 5040, apply, s);
}

static struct share_inbox_stats stats(const struct share_inbox *i)
{
	struct share_inbox_stats s;

	share_inbox_stats(i, &s);
	return s;
}

/* ---- stories ------------------------------------------------------------------------------- */

static void numbers(void **state)
{
	static const struct {
		share_agent agent;
		uint32_t part;
		uint64_t number;
		enum share_read result;
	} cases[] = {
		{ 5, 0, 1, SHARE_READ_NEW },
		{ 5, 0, 2, SHARE_READ_NEW },
		{ 5, 0, 2, SHARE_READ_REPEATED },
		{ 5, 0, 1, SHARE_READ_REPEATED },
		{ 5, 0, 3, SHARE_READ_NEW },
		{ 5, 0, 7, SHARE_READ_HOLE },
		{ 5, 0, 4, SHARE_READ_LATE },
		{ 5, 0, 4, SHARE_READ_REPEATED },
		{ 5, 0, 3, SHARE_READ_REPEATED },
		{ 5, 0, 7, SHARE_READ_REPEATED },
		{ 5, 0, 8, SHARE_READ_NEW },
		{ 5, 0, 6, SHARE_READ_LATE },
		{ 5, 0, 69, SHARE_READ_HOLE },
		{ 5, 0, 5, SHARE_READ_LATE },		/* as late as can be */
		{ 5, 0, 5, SHARE_READ_REPEATED },
		{ 5, 0, 8, SHARE_READ_REPEATED },
		{ 5, 0, 70, SHARE_READ_NEW },
		{ 5, 0, 9, SHARE_READ_LATE },
		{ 5, 0, 135, SHARE_READ_HOLE },
		{ 5, 0, 70, SHARE_READ_REPEATED },	/* too late to tell */
		{ 5, 0, 71, SHARE_READ_LATE },
		{ 5, 1, 1, SHARE_READ_NEW },		/* each part counts for itself */
		{ 6, 0, 41, SHARE_READ_JOINED },
		{ 6, 0, 40, SHARE_READ_REPEATED },	/* known from elsewhere */
		{ 6, 0, 42, SHARE_READ_NEW },
		{ 6, 0, 40, SHARE_READ_REPEATED },
		{ 6, 2, 41, SHARE_READ_JOINED },
		{ SELF, 0, 1, SHARE_READ_OWN },
		{ SELF, 0, 99, SHARE_READ_OWN },
		{ 7, 0, SHARE_NUMBER_MAX, SHARE_READ_JOINED },
		{ 7, 0, SHARE_NUMBER_MAX, SHARE_READ_REPEATED },
	};
	struct share_inbox *i = inbox();
	struct seen s = { 0 };
	unsigned applied = 0;

	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		bool is_new = cases[k].result < SHARE_READ_REPEATED;

		assert_int_equal(give(i, &s, cases[k].agent, cases[k].part, cases[k].number, 100),
		    cases[k].result);
		applied += is_new;
		assert_int_equal(s.n_applied, applied);
		if (is_new) {
			assert_int_equal(s.from, cases[k].agent);
			assert_int_equal(s.applied[(applied - 1) % 8], cases[k].number);
		}
	}
	assert_int_equal(stats(i).missing, 3 + 60 + 64);
	assert_int_equal(stats(i).siblings, 3);
	assert_int_equal(stats(i).entries[SHARE_ALIVE], applied);
	assert_int_equal(stats(i).batches[SHARE_READ_REPEATED], 11);
	assert_int_equal(stats(i).batches[SHARE_READ_LATE], 5);
	assert_int_equal(stats(i).batches[SHARE_READ_OWN], 2);
	share_inbox_free(i);
	share_inbox_free(NULL);
}

/* What was so long ago when a batch was made is longer ago when the batch was late. */
static msec ago_read[SHARE_KINDS];

static void note_ago(void *arg, share_agent from, const struct share_entry *e)
{
	ago_read[e->kind] = e->kind == SHARE_PLACED ? e->u.placed.grown_ago_ms :
	    e->kind == SHARE_HELD ? e->u.held.unused_ms :
	    e->kind == SHARE_CLEARED ? e->u.cleared.ago_ms : e->u.digest.cleared_ago_ms;
}

static void a_late_batch(void **state)
{
	const struct share_entry e[] = {
		{ .kind = SHARE_PLACED, .u.placed = { .grown = 1, .grown_ago_ms = 7000 } },
		{ .kind = SHARE_HELD, .u.held.unused_ms = 8000 },
		{ .kind = SHARE_CLEARED, .u.cleared.ago_ms = 9000 },
		{ .kind = SHARE_DIGEST, .u.digest.cleared_ago_ms = 10000 },
	}, never = { .kind = SHARE_DIGEST, .u.digest.cleared_ago_ms = -1 };
	/* the wall clock there and here: on time, of clocks that differ, a minute late */
	const int64_t made[] = { 100000, 100000, 100000 }, read[] = { 100000, 99000, 160000 };
	struct share_inbox *i = inbox();

	for (unsigned k = 0; k < 3; k++) {
		static struct share_writer w;
		static uint8_t room[4096];
		msec late = k == 2 ? 60000 : 0;

		share_write_start(&w, &key, room, sizeof(room));
		for (unsigned n = 0; n < 4; n++)
			assert_int_equal(share_write(&w, &e[n]), 0);
		size_t n = share_write_end(&key, room, w.n,
		    &(struct share_batch){ 5, 0, 2 * k + 1, made[k] });
		share_inbox_read(i, 0, span_of(room, n), 100, read[k], note_ago, NULL);
		for (unsigned m = 0; m < 4; m++)
			assert_int_equal(ago_read[e[m].kind], 7000 + 1000 * (msec)m + late);
		share_write_start(&w, &key, room, sizeof(room));
		assert_int_equal(share_write(&w, &never), 0);
		n = share_write_end(&key, room, w.n, &(struct share_batch){ 5, 0, 2 * k + 2, made[k] });
		share_inbox_read(i, 0, span_of(room, n), 100, read[k], note_ago, NULL);
		assert_int_equal(ago_read[SHARE_DIGEST], -1);
	}
	share_inbox_free(i);
}

/* None of these changes what is known of agent 5. */
static void refused(void **state)
{
	struct share_inbox *i = inbox(), *other;
	struct hash_key other_key = entry_key(8);
	struct seen s = { 0 };
	struct span b;

	give(i, &s, 5, 1, 1, 100);
	b = batch(5, 1, 2, 2);
	assert_int_equal(share_inbox_read(i, 0, b, 100, 0, apply, &s), SHARE_READ_DAMAGED);
	assert_int_equal(share_inbox_read(i, 1, span_of(b.p, b.n - 1), 100, 0, apply, &s),
	    SHARE_READ_DAMAGED);
	b = SPAN("garbage");
	assert_int_equal(share_inbox_read(i, 1, b, 100, 0, apply, &s), SHARE_READ_DAMAGED);
	b = batch(5, 1, 2, 2);
	other = share_inbox_new(&other_key, SELF, PARTS);
	assert_int_equal(share_inbox_read(other, 1, b, 100, 0, apply, &s), SHARE_READ_STRANGER);
	((uint8_t *)(uintptr_t)b.p)[3]++;
	memcpy((uint8_t *)(uintptr_t)b.p + b.n - 8, &(uint64_t){ hash64(&key, b.p, b.n - 8) }, 8);
	assert_int_equal(share_inbox_read(i, 1, b, 100, 0, apply, &s), SHARE_READ_NEWER);
	assert_int_equal(s.n_applied, 1);
	assert_int_equal(give(i, &s, 5, 1, 2, 100), SHARE_READ_NEW);
	assert_int_equal(stats(i).batches[SHARE_READ_DAMAGED], 3);
	assert_int_equal(stats(i).batches[SHARE_READ_NEWER], 1);
	share_inbox_free(other);
	share_inbox_free(i);
}

/* Entries of a newer agent are skipped and counted, the others are applied. */
static void skipped_entries(void **state)
{
	struct share_inbox *i = inbox();
	struct seen s = { 0 };
	struct span b = batch(5, 0, 1, 9);
	uint8_t *p = (uint8_t *)(uintptr_t)b.p;

	p[40] = 99;		/* its kind */
	memcpy(p + b.n - 8, &(uint64_t){ hash64(&key, p, b.n - 8) }, 8);
	assert_int_equal(share_inbox_read(i, 0, b, 100, 0, apply, &s), SHARE_READ_NEW);
	b = batch(5, 0, 2, 9);
	p[41] = 3;		/* its bytes */
	memcpy(p + b.n - 8, &(uint64_t){ hash64(&key, p, b.n - 8) }, 8);
	assert_int_equal(share_inbox_read(i, 0, b, 100, 0, apply, &s), SHARE_READ_NEW);
	assert_int_equal(s.n_applied, 0);
	assert_int_equal(stats(i).unknown_kinds, 1);
	assert_true(stats(i).bad_entries >= 1);
	assert_int_equal(stats(i).entries[SHARE_ALIVE], 1);
	share_inbox_free(i);
}

static void leases(void **state)
{
	struct share_sibling sib[4];
	struct share_inbox *i = inbox();
	struct seen s = { 0 };

	give(i, &s, 5, 0, 1, 100);
	give(i, &s, 6, 0, 1, 200);
	give(i, &s, 5, 1, 1, 400);		/* any part renews it */
	share_inbox_age(i, 200 + SHARE_LEASE_MS - 1, gone, &s);
	assert_int_equal(s.n_gone, 0);
	assert_int_equal(share_inbox_siblings(i, sib, 4), 2);
	assert_int_equal(share_inbox_siblings(i, sib, 1), 1);
	assert_true(sib[0].agent == 5 && sib[0].heard == 400 && sib[0].lag_ms == 40);
	assert_true(sib[0].told && sib[0].alive.warm && sib[0].alive.open == 1 && sib[0].batches == 2);

	/* a repeated batch is no sign of life */
	assert_int_equal(give(i, &s, 6, 0, 1, 3000), SHARE_READ_REPEATED);
	share_inbox_age(i, 200 + SHARE_LEASE_MS, gone, &s);
	share_inbox_age(i, 200 + SHARE_LEASE_MS, gone, &s);
	assert_int_equal(s.n_gone, 1);
	assert_int_equal(s.gone[0], 6);
	assert_int_equal(stats(i).siblings, 1);
	assert_int_equal(share_inbox_siblings(i, sib, 4), 1);

	/* it returns; what it said in between is missing */
	assert_int_equal(give(i, &s, 6, 0, 9, 9000), SHARE_READ_HOLE);
	assert_int_equal(stats(i).missing, 7);
	share_inbox_age(i, 9000, gone, &s);
	assert_int_equal(s.n_gone, 2);
	assert_int_equal(s.gone[1], 5);
	assert_int_equal(stats(i).gone, 2);

	/* nothing was read for a while: a lease from now on */
	share_inbox_renew(i, 20000);
	share_inbox_age(i, 20000 + SHARE_LEASE_MS - 1, gone, &s);
	assert_int_equal(s.n_gone, 2);
	share_inbox_age(i, 20000 + SHARE_LEASE_MS, gone, &s);
	assert_int_equal(s.n_gone, 3);
	share_inbox_renew(i, 30000);		/* those that are gone stay so */
	assert_int_equal(stats(i).siblings, 0);
	share_inbox_free(i);
}

/* Restarts leave places of agents that are gone; the oldest of them is used again. */
static void more_agents_than_places(void **state)
{
	struct share_inbox *i = inbox();
	struct seen s = { 0 };

	for (unsigned k = 0; k < SHARE_SIBLINGS_MAX; k++)
		assert_int_equal(give(i, &s, 2000 + k, 0, 1, k), SHARE_READ_NEW);
	assert_int_equal(give(i, &s, 5, 0, 1, 500), SHARE_READ_CROWDED);
	assert_int_equal(s.n_applied, SHARE_SIBLINGS_MAX);
	share_inbox_age(i, SHARE_LEASE_MS + 1, gone, &s);	/* 2000 and 2001 */
	assert_int_equal(s.n_gone, 2);
	assert_int_equal(give(i, &s, 5, 0, 8, 3100), SHARE_READ_JOINED);
	assert_int_equal(give(i, &s, 2001, 0, 3, 3100), SHARE_READ_HOLE);
	assert_int_equal(give(i, &s, 2000, 0, 2, 3100), SHARE_READ_CROWDED);
	assert_int_equal(stats(i).siblings, SHARE_SIBLINGS_MAX);
	share_inbox_age(i, 1000000, gone, &s);
	assert_int_equal(s.n_gone, SHARE_SIBLINGS_MAX + 2);
	share_inbox_free(i);
}

/* An agent that starts reads the stream of a day in a moment; in it are 1000 runs of agents. All
 * seem to be alive, and those that are must not be the ones without a place. */
static void old_runs_give_way(void **state)
{
	const int64_t day = 86400000, now = 10 * day;
	struct share_inbox *i = inbox();
	struct share_sibling sib[4];
	struct seen s = { 0 };

	for (unsigned k = 0; k < 1000; k++) {
		int64_t made = now - day + k * 86400;

		for (unsigned n = 1; n <= 3; n++) {
			struct span b = batch_made(3000 + k, 0, n, n, made + n * 500);

			assert_int_equal(share_inbox_read(i, 0, b, 100 + k / 100, now, apply, &s),
			    SHARE_READ_NEW);
		}
		if (k % 100 == 99)
			share_inbox_age(i, 100 + k / 100, gone, &s);
	}
	assert_int_equal(s.n_gone, 1000 - SHARE_SIBLINGS_MAX);
	for (unsigned k = 0; k < s.n_gone; k++)
		assert_int_equal(s.gone[k], 3000 + k);
	assert_int_equal(stats(i).siblings, SHARE_SIBLINGS_MAX);
	/* the two that run now, whose clocks differ */
	assert_int_equal(share_inbox_read(i, 0, batch_made(5, 0, 9, 9, now), 200, now, apply, &s),
	    SHARE_READ_JOINED);
	assert_int_equal(
	    share_inbox_read(i, 0, batch_made(6, 0, 9, 9, now - 2000), 200, now, apply, &s),
	    SHARE_READ_JOINED);
	share_inbox_age(i, 200 + SHARE_LEASE_MS - 1, gone, &s);
	assert_int_equal(share_inbox_siblings(i, sib, 4), 2);
	assert_int_equal(s.n_gone, 1000);
	assert_int_equal(stats(i).gone, 1000);
	assert_int_equal(stats(i).siblings, 2);
	assert_int_equal(stats(i).batches[SHARE_READ_CROWDED], 0);
	share_inbox_free(i);
}

/* ---- two agents ---------------------------------------------------------------------------- */

struct stream_check {
	struct rng rng;
	uint64_t n;
};

static void apply_next(void *arg, share_agent from, const struct share_entry *got)
{
	struct stream_check *c = arg;
	struct share_entry e = entry_random(&c->rng, 60);

	assert_int_equal(from, 7);
	assert_true(same_entry(&e, got));
	c->n++;
}

/* Everything that is put arrives once and in order, although each batch is sent twice. */
static void outbox_to_inbox(void **state)
{
	struct share_outbox *o = share_outbox_new(&key, 7, 2, 8 << 20);
	struct share_inbox *i = share_inbox_new(&key, 8, 2);
	struct stream_check c = { .n = 0 };
	struct share_entry e;
	struct rng rng;
	msec at;

	rng_init(&rng, 11);
	entry_lists(&rng);
	c.rng = rng;
	for (unsigned k = 0; k < 20000; k++) {
		e = entry_random(&rng, 60);
		share_outbox_put(o, 1, &e, k / 50);
		if (!share_outbox_due(o, 1, k / 50, &at))
			continue;
		for (unsigned twice = 0; twice < 2; twice++) {
			struct span b = share_outbox_take(o, 1, k / 50, 1000000 + k / 50);
			enum share_read r = share_inbox_read(i, 1, b, k / 50, 0, apply_next, &c);

			assert_int_equal(r, twice ? SHARE_READ_REPEATED : SHARE_READ_NEW);
			if (twice)
				share_outbox_sent(o, 1);
			else
				share_outbox_take_again(o, 1);
		}
		assert_int_equal(c.n, k + 1);
	}
	assert_true(c.n > 19000 && stats(i).batches[SHARE_READ_NEW] > 70);
	share_inbox_free(i);
	share_outbox_free(o);
}

/* A clock that differs is told from a batch that came late. */
static void clocks_that_differ(void **state)
{
	static const struct { int64_t made_ms; msec off_since; } cases[] = {
		{ 1000000, -1 }, { 940000, -1 }, { 939999, 102 }, { 900000, 102 }, { 1000000, -1 },
		{ 1060000, -1 }, { 1060001, 106 }, { 2000000, 106 }, { 100, 106 }, { 999999, -1 },
	};
	struct share_inbox *i = inbox();
	struct share_sibling sib;
	struct seen s = { 0 };

	for (unsigned k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		assert_int_equal(share_inbox_read(i, 0, batch_made(5, 0, k + 1, 1, cases[k].made_ms),
			100 + k, 1000000, apply, &s), SHARE_READ_NEW);
		assert_int_equal(share_inbox_siblings(i, &sib, 1), 1);
		assert_int_equal(sib.off_since, cases[k].off_since);
	}
	share_inbox_free(i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(a_late_batch),
		cmocka_unit_test(refused),
		cmocka_unit_test(skipped_entries),
		cmocka_unit_test(leases),
		cmocka_unit_test(more_agents_than_places),
		cmocka_unit_test(old_runs_give_way),
		cmocka_unit_test(outbox_to_inbox),
		cmocka_unit_test(clocks_that_differ),
	};

	key = entry_key(42);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
