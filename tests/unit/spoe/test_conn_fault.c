/* test_conn_fault.c - no memory for fragments: the connection lives, every NOTIFY is ACKed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/fault.h"
#include "tests/unit/spoe/story.h"

#define STREAMS	3u

static const struct { unsigned type, flags, stream; size_t n; } frames[] = {
	{ 3, 0, 1, 3000 }, { 3, 0, 3, 10 }, { 0, 0, 1, 3000 }, { 0, 0, 3, 16000 }, { 3, 1, 5, 100 },
	{ 0, 0, 1, 9000 }, { 3, 0, 7, 5000 }, { 0, 1, 1, 16000 }, { 0, 3, 7, 0 }, { 0, 0, 3, 16000 },
	{ 0, 1, 3, 1 },
};

static void feed(struct spop_conn *c, unsigned type, unsigned flags, unsigned stream, size_t n,
		 struct spop_event *ev)
{
	static uint8_t frame[4 + 7 + 16000];
	uint8_t out[SPOP_REPLY_MAX];
	struct spop_wr w = { out, 0, sizeof(out), false };
	struct hex h = { frame, 4 + 7 + n };

	memset(frame, (int)stream, sizeof(frame));
	memset(frame + 4, 0, 7);
	frame[4] = (uint8_t)type;
	frame[8] = (uint8_t)flags;
	frame[9] = (uint8_t)stream;
	frame[10] = 1;
	hex_length(&h, 0);
	assert_int_equal(spop_conn_next(c, frame, h.n, &w, ev), h.n);
	assert_int_equal(w.n, 0);
}

/* Send all frames once. Each NOTIFY must be reported, complete or lost. Returns the number of lost
 * ones. */
static unsigned tell(struct spop_conn *c)
{
	static const size_t whole[8] = { [1] = 3000 + 3000 + 9000 + 16000, [3] = 10 + 16000 + 16000 + 1,
					 [5] = 100 };
	unsigned i, notified = 0, aborted = 0, lost = 0;
	struct spop_event ev;
	size_t k;

	for (i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		feed(c, frames[i].type, frames[i].flags, frames[i].stream, frames[i].n, &ev);
		assert_int_not_equal(ev.kind, SPOP_EV_CLOSE);
		aborted += ev.kind == SPOP_EV_ABORT;
		if (ev.kind != SPOP_EV_NOTIFY)
			continue;
		notified++;
		lost += ev.lost;
		assert_int_equal(ev.stream_id, frames[i].stream);
		assert_int_equal(ev.messages.left, ev.lost ? 0 : whole[ev.stream_id]);
		for (k = 0; k < ev.messages.left; k++)
			assert_int_equal(ev.messages.p[k], ev.stream_id);
	}
	assert_int_equal(notified, STREAMS);
	assert_int_equal(aborted, 1);
	assert_int_equal(c->n_joining, 0);
	assert_int_equal(c->joining_bytes, 0);
	assert_int_equal(c->state, SPOP_CONN_READY);
	return lost;
}

static struct spop_conn ready(void)
{
	struct hex h = hex("00000000 " STORY_HELLO);
	uint8_t out[SPOP_REPLY_MAX];
	struct spop_wr w = { out, 0, sizeof(out), false };
	struct spop_conn_opts o;
	struct spop_event ev;
	struct spop_conn c;

	spop_conn_defaults(&o);
	spop_conn_init(&c, &o);
	hex_length(&h, 0);
	assert_int_equal(spop_conn_next(&c, h.p, h.n, &w, &ev), h.n);
	assert_int_equal(ev.kind, SPOP_EV_HELLO);
	free(h.p);
	return c;
}

static void test_each_allocation_fails_once(void **state)
{
	unsigned long k;
	unsigned lost, some = 0;
	struct spop_conn c;

	for (k = 1; ; k++) {
		c = ready();
		fault_begin(k);
		lost = tell(&c);
		if (!fault_end()) {
			assert_int_equal(lost, 0);
			spop_conn_fini(&c);
			break;
		}
		assert_in_range(lost, 0, 1);	/* 0: the lost one is aborted anyway */
		assert_int_equal(c.n_lost, 1);
		some += lost;
		assert_int_equal(tell(&c), 0);	/* none is lost afterwards */
		spop_conn_fini(&c);
	}
	assert_true(k > 5 && some > 3);
}

struct shared { size_t used, max, refused; };

static bool take(void *arg, size_t n)
{
	struct shared *s = arg;

	if (n > s->max - s->used) {
		s->refused++;
		return false;
	}
	s->used += n;
	return true;
}

static void give(void *arg, size_t n)
{
	struct shared *s = arg;

	assert_true(n <= s->used);
	s->used -= n;
}

/* Raise the limit from none to more than enough. A NOTIFY without memory is lost, and all memory is
 * freed. */
static void test_shared_memory(void **state)
{
	struct shared s = { 0 };
	struct spop_memory m = { take, give, &s };
	unsigned lost = 3, last = 3;

	for (s.max = 0; lost > 0; s.max += 4096) {
		struct spop_conn c = ready();

		assert_true(s.max < 1 << 20);
		c.opts.memory = &m;
		lost = tell(&c);
		assert_true(lost <= last || s.refused > 0);
		last = lost;
		if (s.max == 0)
			assert_int_equal(lost, 2);	/* the third is unfragmented */
		spop_conn_fini(&c);
		assert_int_equal(s.used, 0);
	}
	assert_true(s.max > 4096);
	/* the budget is returned, too, if it permits memory that malloc() does not have */
	for (unsigned long k = 1; k == 1 || lost > 0; k++) {
		struct spop_conn c = ready();

		c.opts.memory = &m;
		fault_begin(k);
		tell(&c);
		lost = fault_end();
		spop_conn_fini(&c);
		assert_int_equal(s.used, 0);
	}
}

/* Feed a frame of which only the head has arrived. */
static void lose(
    struct spop_conn *c, unsigned type, unsigned flags, unsigned stream, struct spop_event *ev)
{
	uint8_t frame[64] = { 0, 0, 0x20, 0, (uint8_t)type, 0, 0, 0, (uint8_t)flags, (uint8_t)stream, 1 };
	uint8_t out[SPOP_REPLY_MAX];
	struct spop_wr w = { out, 0, sizeof(out), false };

	assert_int_equal(spop_conn_next(c, frame, sizeof(frame), &w, ev), 0);
	assert_int_equal(spop_conn_lose(c, frame, sizeof(frame), &w, ev), sizeof(frame));
}

static void test_frames_thrown_away(void **state)
{
	struct spop_conn c = ready();
	struct spop_event ev;

	lose(&c, 3, 1, 5, &ev);			/* a whole NOTIFY */
	assert_int_equal(ev.kind, SPOP_EV_NOTIFY);
	assert_true(ev.lost && ev.stream_id == 5 && ev.messages.left == 0);
	lose(&c, 3, 0, 7, &ev);			/* the first fragment: the others are read and dropped */
	assert_int_equal(ev.kind, SPOP_EV_NONE);
	feed(&c, 0, 0, 7, 3000, &ev);
	assert_int_equal(ev.kind, SPOP_EV_NONE);
	assert_int_equal(c.joining_bytes, 0);
	feed(&c, 0, 1, 7, 10, &ev);
	assert_true(ev.kind == SPOP_EV_NOTIFY && ev.lost && ev.stream_id == 7);
	feed(&c, 3, 0, 9, 3000, &ev);		/* one in between */
	assert_int_equal(c.joining_bytes, 3000);
	lose(&c, 0, 0, 9, &ev);
	assert_int_equal(c.joining_bytes, 0);
	lose(&c, 0, 3, 9, &ev);			/* given up */
	assert_int_equal(ev.kind, SPOP_EV_ABORT);
	feed(&c, 3, 0, 11, 3000, &ev);		/* the last */
	lose(&c, 0, 1, 11, &ev);
	assert_true(ev.kind == SPOP_EV_NOTIFY && ev.lost && ev.messages.left == 0);
	lose(&c, 99, 1, 0, &ev);		/* of an unknown type */
	assert_int_equal(ev.kind, SPOP_EV_NONE);
	assert_int_equal(c.n_lost, 4);
	assert_int_equal(c.n_joining, 0);
	lose(&c, 1, 1, 0, &ev);			/* a second HELLO */
	assert_int_equal(ev.kind, SPOP_EV_CLOSE);
	spop_conn_fini(&c);
}

/* Whole NOTIFYs, handshakes, health checks and ACKs allocate nothing. */
static void test_no_allocation_without_fragments(void **state)
{
	struct spop_event ev;
	struct spop_conn c = ready();
	uint8_t out[256];
	struct spop_wr w = { out, 0, sizeof(out), false };
	struct spop_ack a;

	fault_begin(1);
	feed(&c, 3, 1, 1, 16000, &ev);
	assert_int_equal(ev.kind, SPOP_EV_NOTIFY);
	spop_ack_begin(&a, &c, &w, 1, 1);
	spop_ack_set_int(&a, SPOP_SCOPE_TXN, "a", 1);
	assert_true(spop_ack_end(&a));
	spop_conn_disconnect(&c, SPOP_STATUS_NORMAL, &w);
	spop_conn_fini(&c);
	assert_false(fault_end());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_allocation_fails_once),
		cmocka_unit_test(test_shared_memory),
		cmocka_unit_test(test_frames_thrown_away),
		cmocka_unit_test(test_no_allocation_without_fragments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
