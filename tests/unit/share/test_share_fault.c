/* test_share_fault.c - a story with each allocation failing once: what finds no memory is counted
 * and leaves a hole, and nothing else is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/share/inbox.h"
#include "agent/share/outbox.h"
#include "tests/lib/share/entries.h"
#include "tests/unit/fault.h"

static struct hash_key key;

static void apply(void *arg, share_agent from, const struct share_entry *e)
{
	++*(unsigned *)arg;
}

static void deliver(struct share_outbox *o, struct share_inbox *i, uint32_t part, unsigned *applied)
{
	struct span b;

	while ((b = share_outbox_take(o, part, 0, 0)).n > 0) {
		assert_true(share_inbox_read(i, part, b, 0, 0, apply, applied) < SHARE_READ_REPEATED);
		share_outbox_sent(o, part);
	}
}

/* Tells whether all memory came. */
static bool story(void)
{
	struct share_outbox *o = share_outbox_new(&key, 7, 2, 4 << 20);
	struct share_inbox *i = share_inbox_new(&key, 8, 2);
	struct share_entry e = { .kind = SHARE_PLACED, .u.placed = {
		.at = { SPAN("llm"), SPAN("s1") }, .pages = entry_pages } };
	struct share_outbox_stats st;
	struct share_inbox_stats in;
	unsigned applied = 0;
	bool lost;

	if (o == NULL || i == NULL) {
		share_outbox_free(o);
		share_inbox_free(i);
		return false;
	}
	for (unsigned k = 0; k < 60; k++) {
		e.u.placed.n = 20 * k;
		share_outbox_put(o, k % 2, &e, k);
		if (k % 20 == 19)
			deliver(o, i, k / 20 % 2, &applied);
	}
	deliver(o, i, 0, &applied);
	deliver(o, i, 1, &applied);
	share_outbox_stats(o, &st);
	lost = st.dropped_entries > 0;
	/* with one more batch the hole is seen */
	share_outbox_put(o, 0, &e, 100);
	share_outbox_put(o, 1, &e, 100);
	deliver(o, i, 0, &applied);
	deliver(o, i, 1, &applied);
	share_outbox_stats(o, &st);
	share_inbox_stats(i, &in);
	assert_int_equal(applied + st.dropped_entries, 62);
	assert_int_equal(st.waiting_bytes, 0);
	assert_int_equal(lost, in.missing > 0 || in.batches[SHARE_READ_JOINED] > 0);
	share_outbox_free(o);
	share_inbox_free(i);
	return st.dropped_entries == 0;
}

static void each_allocation_fails_once(void **state)
{
	unsigned long k;

	for (k = 1; ; k++) {
		bool all;

		fault_begin(k);
		all = story();
		if (!fault_end()) {
			assert_true(all);
			break;
		}
		assert_false(all);
	}
	assert_true(k > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_allocation_fails_once),
	};

	key = entry_key(42);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
