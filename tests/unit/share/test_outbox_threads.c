/* test_outbox_threads.c - four threads put while one takes and applies: nothing is lost, and the
 * entries of each thread stay in their order. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/share/inbox.h"
#include "agent/share/outbox.h"
#include "tests/lib/share/entries.h"

#define THREADS	4u
#define PARTS	2u
#define PUTS	20000u

static struct hash_key key;
static struct share_outbox *outbox;
static atomic_uint running;

static void *put_all(void *arg)
{
	uint64_t thread = (uintptr_t)arg;
	struct share_entry e = { .kind = SHARE_PLACED, .u.placed = {
		.process = thread, .at = { SPAN("llm"), SPAN("s1") }, .pages = entry_pages } };
	struct rng rng;

	rng_init(&rng, thread + 1);
	for (uint64_t i = 1; i <= PUTS; i++) {
		e.u.placed.uid = i;
		e.u.placed.n = rng_below(&rng, 50);
		share_outbox_put(outbox, (uint32_t)(i % PARTS), &e, (msec)i);
		if (i % 1000 == 0)
			sched_yield();
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

struct seen {
	uint64_t last[THREADS][PARTS], n;
};

static void apply(void *arg, share_agent from, const struct share_entry *e)
{
	struct seen *s = arg;
	const struct share_placed *p = &e->u.placed;
	uint64_t *last = &s->last[p->process % THREADS][p->uid % PARTS];

	assert_true(p->uid > *last);
	*last = p->uid;
	s->n++;
}

static bool take_one(struct share_inbox *i, uint32_t part, struct seen *s)
{
	struct share_outbox_stats st;
	struct span b = share_outbox_take(outbox, part, 0, 0);

	share_outbox_stats(outbox, &st);
	assert_int_equal(st.dropped_entries, 0);
	if (b.n == 0)
		return false;
	assert_int_equal(share_inbox_read(i, part, b, 0, 0, apply, s), SHARE_READ_NEW);
	share_outbox_sent(outbox, part);
	return true;
}

static void four_put_one_takes(void **state)
{
	struct share_inbox *i = share_inbox_new(&key, 8, PARTS);
	struct seen s = { .n = 0 };
	pthread_t t[THREADS];
	bool more = true;

	outbox = share_outbox_new(&key, 7, PARTS, 256 << 20);
	atomic_store(&running, THREADS);
	for (uintptr_t k = 0; k < THREADS; k++)
		assert_int_equal(pthread_create(&t[k], NULL, put_all, (void *)k), 0);
	while (more) {
		more = atomic_load(&running) > 0;
		for (uint32_t part = 0; part < PARTS; part++)
			while (take_one(i, part, &s))
				more = true;
	}
	for (unsigned k = 0; k < THREADS; k++)
		pthread_join(t[k], NULL);
	assert_int_equal(s.n, THREADS * PUTS);
	share_outbox_free(outbox);
	share_inbox_free(i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(four_put_one_takes),
	};

	key = entry_key(42);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
