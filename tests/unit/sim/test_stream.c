/* test_stream.c - batches between agents: order and delay, loss by chance, and the cut. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/base/mem.h"
#include "agent/sim/stream.h"

static void write_text(struct stream *s, unsigned from, const char *text, double now)
{
	assert_int_equal(stream_write(s, from, 3, span_str(text), now), 0);
}

/* Take the next copy, which is <text> of <from> for <to>, at <at>. */
static void next_is(struct stream *s, unsigned from, unsigned to, const char *text, double at)
{
	struct stream_copy *c;

	assert_true(fabs(stream_next(s) - at) < 1e-9);
	c = stream_take(s);
	assert_int_equal(c->from, from);
	assert_int_equal(c->to, to);
	assert_int_equal(c->part, 3);
	assert_int_equal(c->n, strlen(text));
	assert_memory_equal(c->bytes, text, c->n);
	mem_free(c);
}

static void every_other_agent_gets_a_copy_in_order(void **state)
{
	struct stream s;

	stream_init(&s, &(struct stream_opts){ .n = 3, .delay_s = 0.25 });
	assert_true(stream_next(&s) == INFINITY);
	write_text(&s, 1, "one", 1);
	write_text(&s, 0, "two", 1.125);
	next_is(&s, 1, 0, "one", 1.25);
	next_is(&s, 1, 2, "one", 1.25);
	next_is(&s, 0, 1, "two", 1.375);
	write_text(&s, 2, "", 2);
	next_is(&s, 0, 2, "two", 1.375);
	next_is(&s, 2, 0, "", 2.25);
	next_is(&s, 2, 1, "", 2.25);
	assert_true(stream_next(&s) == INFINITY);
	assert_int_equal(s.batches, 3);
	assert_int_equal(s.bytes, 6);
	assert_int_equal(s.copies, 6);
	write_text(&s, 2, "left behind", 3);
	stream_fini(&s);
}

static unsigned take_all(struct stream *s)
{
	unsigned n = 0;

	for (; stream_next(s) < INFINITY; n++)
		mem_free(stream_take(s));
	return n;
}

static void a_share_is_lost(void **state)
{
	struct stream s;
	unsigned n;

	for (int k = 0; k < 3; k++) {
		stream_init(&s, &(struct stream_opts){ .n = 5, .loss = k * 0.5, .seed = 7 });
		for (int i = 0; i < 1000; i++)
			write_text(&s, 2, "x", i);
		n = take_all(&s);
		assert_int_equal(s.copies, 4000);
		assert_int_equal(n + s.lost, 4000);
		assert_true(fabs(n - (4000 - 2000. * k)) <= (k == 1 ? 100 : 0));
		stream_fini(&s);
	}
}

static void a_cut_parts_the_halves(void **state)
{
	struct stream s;

	stream_init(&s, &(struct stream_opts){ .n = 4, .cut_from = 10, .cut_to = 20 });
	write_text(&s, 0, "before", 9.5);
	assert_int_equal(take_all(&s), 3);
	write_text(&s, 0, "in", 10);
	next_is(&s, 0, 1, "in", 10);
	assert_true(stream_next(&s) == INFINITY);
	write_text(&s, 3, "in", 19.5);
	next_is(&s, 3, 2, "in", 19.5);
	assert_true(stream_next(&s) == INFINITY);
	write_text(&s, 3, "after", 20);
	assert_int_equal(take_all(&s), 3);
	assert_int_equal(s.cut, 4);
	assert_int_equal(s.lost, 0);
	stream_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_other_agent_gets_a_copy_in_order),
		cmocka_unit_test(a_share_is_lost),
		cmocka_unit_test(a_cut_parts_the_halves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
