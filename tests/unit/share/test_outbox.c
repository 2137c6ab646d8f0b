/* test_outbox.c - batches that wait: when they are due, their order and numbers, and what happens
 * if the store does not take them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/share/outbox.h"
#include "tests/lib/share/entries.h"

#define PARTS	4u

static struct hash_key key;
static struct share_reader reader;

static struct share_outbox *outbox(size_t max_bytes)
{
	struct share_outbox *o = share_outbox_new(&key, 77, PARTS, max_bytes);

	assert_non_null(o);
	return o;
}

static struct share_entry taken_back(uint64_t uid)
{
	return (struct share_entry){ .kind = SHARE_TAKEN_BACK, .u.taken_back.uid = uid };
}

/* Of about 8 * <pages> bytes. */
static struct share_entry placed(uint64_t uid, uint32_t pages)
{
	return (struct share_entry){ .kind = SHARE_PLACED, .u.placed = {
		.uid = uid, .at = { SPAN("llm"), SPAN("s1") }, .pages = entry_pages, .n = pages } };
}

static bool put(struct share_outbox *o, uint32_t part, uint64_t uid, msec now)
{
	struct share_entry e = taken_back(uid);

	return share_outbox_put(o, part, &e, now);
}

static bool put_pages(struct share_outbox *o, uint32_t part, uint32_t pages, msec now)
{
	struct share_entry e = placed(1, pages);

	return share_outbox_put(o, part, &e, now);
}

static msec due_at(struct share_outbox *o, uint32_t part, msec now)
{
	msec at = -1;

	assert_true(share_outbox_due(o, part, now, &at) == (at <= now));
	return at;
}

/* Take a batch, which must be number <number>, and return its entries. */
static unsigned take_at(
    struct share_outbox *o, uint32_t part, uint64_t number, msec now, struct span *bytes)
{
	struct span got = share_outbox_take(o, part, now, 50000);
	struct share_entry e;
	unsigned n = 0;

	assert_true(got.n > 0);
	assert_int_equal(share_read_start(&reader, &key, got), 0);
	assert_int_equal(reader.batch.agent, 77);
	assert_int_equal(reader.batch.part, part);
	assert_int_equal(reader.batch.number, number);
	for (; share_read_next(&reader, &e) == 1; n++)
		if (e.kind == SHARE_TAKEN_BACK && n > 0)
			assert_true(e.u.taken_back.uid > 0);
	if (bytes != NULL)
		*bytes = got;
	return n;
}

static unsigned take(struct share_outbox *o, uint32_t part, uint64_t number, struct span *bytes)
{
	return take_at(o, part, number, 1000, bytes);
}

static void nothing_to_take(struct share_outbox *o, uint32_t part)
{
	assert_int_equal(share_outbox_take(o, part, 1000, 50000).n, 0);
}

static struct share_outbox_stats stats(struct share_outbox *o)
{
	struct share_outbox_stats s;

	share_outbox_stats(o, &s);
	return s;
}

/* ---- stories ------------------------------------------------------------------------------- */

static void due_at_once_and_5_ms_later(void **state)
{
	struct share_outbox *o = outbox(0);

	assert_int_equal(due_at(o, 1, 100), INT64_MAX);
	assert_true(put(o, 1, 1, 100));
	assert_int_equal(due_at(o, 1, 100), 100);
	assert_false(put(o, 1, 2, 103));
	assert_int_equal(due_at(o, 1, 104), 104);
	assert_int_equal(due_at(o, 0, 104), INT64_MAX);
	assert_int_equal(take_at(o, 1, 1, 104, NULL), 2);
	assert_int_equal(reader.batch.made_ms, 50000 - (104 - 100));
	assert_int_equal(due_at(o, 1, 104), INT64_MAX);
	assert_true(put(o, 1, 3, 105));		/* soon after a batch, whether it is sent or not */
	assert_int_equal(due_at(o, 1, 105), 109);
	share_outbox_sent(o, 1);
	share_outbox_sent(o, 1);	/* nothing is taken */
	assert_false(put(o, 1, 4, 108));
	assert_int_equal(due_at(o, 1, 108), 109);
	assert_int_equal(due_at(o, 1, 109), 109);
	assert_true(put(o, 0, 5, 109));		/* another part */
	assert_int_equal(due_at(o, 0, 109), 109);
	assert_int_equal(take_at(o, 1, 2, 109, NULL), 2);
	assert_true(put(o, 1, 6, 200));
	assert_int_equal(due_at(o, 1, 200), 200);
	assert_int_equal(take(o, 1, 3, NULL), 1);
	nothing_to_take(o, 1);
	share_outbox_free(o);
	share_outbox_free(NULL);
}

/* Siblings take the age of a batch for that of its entries: none looks much older than it is after
 * the store was away for a while. */
static void entries_of_a_batch_are_alike_in_age(void **state)
{
	struct share_outbox *o = outbox(0);
	uint64_t bytes;

	put(o, 1, 1, 100);
	bytes = stats(o).waiting_bytes;
	put(o, 1, 2, 100 + SHARE_OPEN_MS - 1);
	assert_int_equal(stats(o).waiting_bytes, bytes);
	assert_true(put(o, 1, 3, 100 + SHARE_OPEN_MS));
	assert_true(stats(o).waiting_bytes < 2 * bytes - 1500);		/* and hold no spare memory */
	put(o, 1, 4, 60000);
	assert_int_equal(stats(o).waiting_batches, 3);
	assert_int_equal(take_at(o, 1, 1, 60000, NULL), 2);
	assert_int_equal(reader.batch.made_ms, 0);
	assert_int_equal(take_at(o, 1, 2, 60000, NULL), 1);
	assert_int_equal(take_at(o, 1, 3, 60000, NULL), 1);
	assert_int_equal(reader.batch.made_ms, 50000);
	share_outbox_free(o);
}

static void due_when_large(void **state)
{
	struct share_outbox *o = outbox(0);

	assert_true(put(o, 0, 1, 100));
	assert_int_equal(take_at(o, 0, 1, 100, NULL), 1);
	assert_true(put_pages(o, 0, 4000, 100));
	assert_false(put_pages(o, 0, 4000, 100));
	assert_int_equal(due_at(o, 0, 100), 105);
	assert_true(put_pages(o, 0, 400, 100));
	assert_int_equal(due_at(o, 0, 100), 100);
	assert_false(put(o, 0, 1, 100));	/* into the next one */
	assert_int_equal(take_at(o, 0, 2, 100, NULL), 3);
	assert_int_equal(due_at(o, 0, 100), 105);
	assert_int_equal(take_at(o, 0, 3, 100, NULL), 1);
	/* one that is large in itself */
	assert_true(put_pages(o, 0, SHARE_PAGES_MAX, 100));
	assert_int_equal(due_at(o, 0, 100), 100);
	assert_int_equal(take(o, 0, 4, NULL), 1);
	share_outbox_free(o);
}

/* A batch that names 256 servers is full. */
static void due_when_full_of_names(void **state)
{
	struct share_entry e = { .kind = SHARE_CLEARED };
	struct share_outbox *o = outbox(0);
	char name[16];

	for (unsigned i = 0; i <= SHARE_SERVERS_MAX; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		e.u.cleared.at.server = span_str(name);
		assert_int_equal(share_outbox_put(o, 0, &e, 100), i % SHARE_SERVERS_MAX == 0);
	}
	assert_int_equal(due_at(o, 0, 100), 100);
	assert_int_equal(take(o, 0, 1, NULL), SHARE_SERVERS_MAX);
	assert_int_equal(take(o, 0, 2, NULL), 1);
	share_outbox_free(o);
}

static void several_under_way(void **state)
{
	struct share_outbox *o = outbox(0);
	struct span first, second, again;
	char copy[200];

	put(o, 2, 1, 100);
	take(o, 2, 1, &first);
	put(o, 2, 2, 100);
	take(o, 2, 2, &second);
	put(o, 2, 3, 100);
	assert_true(first.n < sizeof(copy));
	memcpy(copy, first.p, first.n);
	assert_int_equal(stats(o).waiting_batches, 3);

	/* the connection is lost: both come again with the same bytes, then the third */
	share_outbox_take_again(o, 2);
	share_outbox_take_again(o, 2);
	assert_int_equal(due_at(o, 2, 100), 100);
	again = share_outbox_take(o, 2, 9999, 99999);
	assert_true(again.n == first.n && memcmp(again.p, copy, again.n) == 0);
	assert_int_equal(take(o, 2, 2, NULL), 1);
	assert_int_equal(take(o, 2, 3, NULL), 1);
	nothing_to_take(o, 2);
	share_outbox_sent(o, 2);

	/* the first one has arrived */
	share_outbox_take_again(o, 2);
	assert_int_equal(take(o, 2, 2, NULL), 1);
	share_outbox_sent(o, 2);
	assert_int_equal(take(o, 2, 3, NULL), 1);
	share_outbox_sent(o, 2);
	nothing_to_take(o, 2);
	assert_int_equal(stats(o).waiting_batches, 0);
	assert_int_equal(stats(o).waiting_bytes, 0);
	assert_int_equal(stats(o).batches, 3);
	assert_int_equal(stats(o).bytes, first.n * 3);
	assert_int_equal(stats(o).entries[SHARE_TAKEN_BACK], 3);
	share_outbox_free(o);
}

/* The store does not answer: the oldest waiting batches of all parts are dropped, those under way
 * stay, and memory is bounded. */
static void oldest_are_dropped(void **state)
{
	struct share_outbox *o = outbox(SHARE_OUTBOX_MIN);
	struct share_outbox_stats s;
	uint64_t number = 0, put_n = 1;
	struct span bytes;

	put(o, 3, 1, 0);		/* the oldest that waits */
	put_pages(o, 0, 1000, 0);
	take(o, 0, 1, &bytes);		/* under way */
	for (unsigned i = 0; i < 2000; i++, put_n++) {
		put_pages(o, i % 3, 1000, i);
		assert_true(stats(o).waiting_bytes <= SHARE_OUTBOX_MIN);
	}
	s = stats(o);
	assert_true(s.waiting_bytes > SHARE_OUTBOX_MIN / 2);
	assert_true(s.dropped_batches > 100 && s.dropped_entries > 9 * s.dropped_batches / 2);
	assert_int_equal(s.refused, 0);
	nothing_to_take(o, 3);		/* dropped */

	share_outbox_take_again(o, 0);
	take(o, 0, 1, &bytes);		/* it could not be dropped */
	share_outbox_sent(o, 0);
	for (unsigned left = 1; share_outbox_take(o, 0, 1000, 50000).n > 0; left++) {
		uint64_t before = number;

		share_outbox_take_again(o, 0);
		bytes = share_outbox_take(o, 0, 1000, 50000);
		assert_int_equal(share_read_start(&reader, &key, bytes), 0);
		number = reader.batch.number;
		/* the hole is before the first one */
		assert_true(before == 0 ? number > 20 : number == before + 1);
		share_outbox_sent(o, 0);
	}
	put(o, 0, 1, 3000);
	take(o, 0, number + 1, NULL);
	put(o, 3, 1, 3000);
	take(o, 3, 2, NULL);		/* a hole in this part, too */
	share_outbox_free(o);
}

/* All room is under way: nothing can be dropped. */
static void no_room_at_all(void **state)
{
	struct share_outbox *o = outbox(SHARE_OUTBOX_MIN);
	uint64_t n = 0;
	unsigned i;

	for (i = 0; stats(o).dropped_entries == 0; i++) {
		put_pages(o, 0, SHARE_PAGES_MAX, 0);
		n += share_outbox_take(o, 0, 0, 0).n > 0;
	}
	assert_int_equal(n, i - 1);
	for (i = 0; i < 50; i++)
		put_pages(o, 0, SHARE_PAGES_MAX, 0);
	assert_int_equal(stats(o).dropped_entries, 51);
	assert_int_equal(stats(o).dropped_batches, 0);
	nothing_to_take(o, 0);
	share_outbox_sent(o, 0);
	put(o, 0, 5, 0);
	take(o, 0, n + 2, NULL);	/* one number is left out for all of them */
	put(o, 0, 5, 0);
	take(o, 0, n + 3, NULL);
	share_outbox_free(o);
}

/* The open batch itself is the oldest and makes place for a larger entry. */
static void open_batch_is_dropped(void **state)
{
	struct share_outbox *o = outbox(SHARE_OUTBOX_MIN);

	/* the rest is enough for the larger entry, but not for both */
	while (stats(o).waiting_bytes + 170000 < SHARE_OUTBOX_MIN) {
		put_pages(o, 1, 1000, 0);
		assert_true(share_outbox_take(o, 1, 0, 0).n > 0);
	}
	put_pages(o, 0, 7000, 0);
	assert_true(put(o, 2, 1, 0));
	put_pages(o, 0, SHARE_PAGES_MAX, 0);
	assert_int_equal(stats(o).dropped_batches, 1);
	assert_int_equal(stats(o).dropped_entries, 1);
	assert_int_equal(take(o, 0, 2, NULL), 1);
	assert_int_equal(take(o, 2, 1, NULL), 1);
	share_outbox_free(o);
}

static void refused(void **state)
{
	static const char name[SHARE_NAME_MAX + 1];
	struct share_entry e = { .kind = SHARE_CLEARED };
	struct share_outbox *o = outbox(0);

	e.u.cleared.at.pool = span_of(name, sizeof(name));
	share_outbox_put(o, 0, &e, 0);
	assert_int_equal(stats(o).refused, 1);
	put(o, 0, 1, 0);
	assert_int_equal(take(o, 0, 1, NULL), 1);
	share_outbox_free(o);
}

/* Random puts, takes and losses: each entry that was not dropped is taken, in its order. */
static void random_order(void **state)
{
	uint64_t next[PARTS] = { 0 }, number[PARTS] = { 0 }, seen = 0, given = 0;
	unsigned under_way[PARTS] = { 0 };
	struct share_outbox *o = outbox(SHARE_OUTBOX_MIN);
	struct share_outbox_stats s;
	struct share_entry e;
	struct span bytes;
	struct rng rng;

	rng_init(&rng, 3);
	for (unsigned i = 0; i < 100000; i++) {
		uint32_t part = rng_below(&rng, PARTS);

		switch (rng_below(&rng, i / 10000 % 2 == 0 ? 6 : 30)) {
		case 0:
			if (under_way[part] > 3 || (bytes = share_outbox_take(o, part, i, i)).n == 0)
				break;
			under_way[part]++;
			assert_int_equal(share_read_start(&reader, &key, bytes), 0);
			if (reader.batch.number <= number[part])
				break;		/* again */
			number[part] = reader.batch.number;
			while (share_read_next(&reader, &e) == 1) {
				assert_true(e.u.placed.uid > next[part]);
				next[part] = e.u.placed.uid;
				seen++;
			}
			break;
		case 1:
			share_outbox_sent(o, part);
			under_way[part] -= under_way[part] > 0;
			break;
		case 2:
			share_outbox_take_again(o, part);
			under_way[part] = 0;
			break;
		default:
			e = placed(++given, rng_below(&rng, 1500));
			share_outbox_put(o, part, &e, i);
		}
		assert_true(stats(o).waiting_bytes <= SHARE_OUTBOX_MIN);
	}
	for (uint32_t part = 0; part < PARTS; part++)
		while ((bytes = share_outbox_take(o, part, 0, 0)).n > 0) {
			assert_int_equal(share_read_start(&reader, &key, bytes), 0);
			while (reader.batch.number > number[part] && share_read_next(&reader, &e) == 1)
				seen++;
		}
	s = stats(o);
	assert_true(s.dropped_batches > 10 && s.batches > 1000);
	/* a batch that was taken, returned and then dropped was seen here */
	assert_true(seen + s.dropped_entries >= given && seen <= given);
	share_outbox_free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(due_at_once_and_5_ms_later),
		cmocka_unit_test(entries_of_a_batch_are_alike_in_age),
		cmocka_unit_test(due_when_large),
		cmocka_unit_test(due_when_full_of_names),
		cmocka_unit_test(several_under_way),
		cmocka_unit_test(oldest_are_dropped),
		cmocka_unit_test(no_room_at_all),
		cmocka_unit_test(open_batch_is_dropped),
		cmocka_unit_test(refused),
		cmocka_unit_test(random_order),
	};

	key = entry_key(42);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
