/* test_conn.c - stories of one connection that a file of frames cannot express: options, room,
 * limits of real size, freed memory, random bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/spoe/story.h"

static struct story s;		/* too large for the stack of a test under sanitizers */

static void must_log(const char *want)
{
	if (!strstr(s.log, want))
		fail_msg("no \"%s\" in\n%s", want, s.log);
}

static void test_options(void **state)
{
	static const struct { uint32_t asked, taken, before_hello; } sizes[] = {
		{ 0, SPOP_FRAME_MIN, SPOP_FRAME_MIN },
		{ 255, 256, 256 }, { 256, 256, 256 }, { 257, 257, 257 },
		{ 16383, 16383, 16383 }, { 16384, 16384, 16384 }, { 16385, 16385, 16384 },
		{ SPOP_FRAME_CEILING, SPOP_FRAME_CEILING, 16384 },
		{ SPOP_FRAME_CEILING + 1, SPOP_FRAME_CEILING, 16384 },
		{ UINT32_MAX, SPOP_FRAME_CEILING, 16384 },
	};
	struct spop_conn_opts o;
	struct spop_conn c;
	size_t i;

	spop_conn_defaults(&o);
	assert_int_equal(o.max_frame_size, 1 << 20);
	assert_int_equal(o.max_joined, 4 << 20);
	assert_int_equal(o.max_open, 32);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		o.max_frame_size = sizes[i].asked;
		spop_conn_init(&c, &o);
		assert_int_equal(c.opts.max_frame_size, sizes[i].taken);
		assert_int_equal(c.frame_size, sizes[i].before_hello);
		spop_conn_fini(&c);
	}
	o.max_open = 1000;
	spop_conn_init(&c, &o);
	assert_int_equal(c.opts.max_open, SPOP_OPEN_CEILING);
	spop_conn_fini(&c);
}

static void test_want(void **state)
{
	static const struct { const char *bytes; size_t want; } wants[] = {
		{ "", 4 }, { "00", 4 }, { "00 00 00", 4 },
		{ "00 00 00 4e", 82 }, { "00 00 00 4e 01", 82 },
		{ "00 00 40 00", 16388 }, { "00 00 40 01", 16388 }, { "ffffffff", 16388 },
		{ "00 00 00 00", 4 },
	};
	struct hex h;
	size_t i;

	story_begin(&s, NULL);
	for (i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		h = hex(wants[i].bytes);
		assert_int_equal(spop_conn_want(&s.conn, h.p, h.n), wants[i].want);
		free(h.p);
	}
	story_hello(&s);
	h = hex("ffffffff");
	assert_int_equal(spop_conn_want(&s.conn, h.p, h.n), 16384);
	free(h.p);
	story_end(&s);
}

/* Our own DISCONNECT, in every state, and after an ACK in the same bytes. */
static void test_disconnect(void **state)
{
	uint8_t buf[512];
	struct spop_wr w = { buf, 0, sizeof(buf), false };
	struct spop_event ev;
	struct spop_ack a;
	char text[256];
	size_t ack;

	story_begin(&s, NULL);
	spop_conn_disconnect(&s.conn, SPOP_STATUS_NORMAL, &w);
	assert_int_equal(s.conn.state, SPOP_CONN_CLOSED);
	spop_frame_print(buf + 4, w.n - 4, text, sizeof(text));
	assert_string_equal(text, "AGENT-DISCONNECT stream=0 frame=0 fin status-code=uint32:0 "
				  "message=\"normal\"");
	ack = w.n;
	spop_conn_disconnect(&s.conn, SPOP_STATUS_TIMEOUT, &w);
	assert_int_equal(w.n, ack);
	story_end(&s);

	story_begin(&s, NULL);
	story_hello(&s);
	story_feed_frame(&s, "03 00000000 01 01 05 \"rou\"");
	w.n = 0;
	spop_ack_begin(&a, &s.conn, &w, 1, 1);
	assert_true(spop_ack_end(&a));
	ack = w.n;
	spop_conn_disconnect(&s.conn, SPOP_STATUS_TIMEOUT, &w);
	spop_frame_print(buf + ack + 4, w.n - ack - 4, text, sizeof(text));
	assert_string_equal(text, "AGENT-DISCONNECT stream=0 frame=0 fin status-code=uint32:2 "
				  "message=\"a timeout occurred\"");
	assert_int_equal(s.conn.n_joining, 0);
	assert_int_equal(s.conn.joining_bytes, 0);
	assert_int_equal(
	    spop_conn_next(&s.conn, (const uint8_t *)"\0\0\0\7\3\0\0\0\1\1\1", 11, &w, &ev), 0);
	assert_int_equal(ev.kind, SPOP_EV_NONE);
	story_end(&s);
}

/* After CLOSE no byte is read and none is written. */
static void test_closed(void **state)
{
	const uint8_t http[] = "GET / HTTP/1.1\r\n\r\n";
	uint8_t buf[512];
	struct spop_wr w = { buf, 0, sizeof(buf), false };
	struct spop_event ev;
	struct spop_conn c;
	size_t n;

	story_begin(&s, NULL);
	c = s.conn;
	assert_int_equal(spop_conn_next(&c, http, sizeof(http), &w, &ev), sizeof(http));
	assert_int_equal(ev.kind, SPOP_EV_CLOSE);
	assert_int_equal(ev.status, SPOP_STATUS_TOO_BIG);
	assert_false(ev.by_peer);
	n = w.n;
	assert_true(n > 0 && n <= SPOP_REPLY_MAX);
	assert_int_equal(spop_conn_next(&c, http, sizeof(http), &w, &ev), 0);
	assert_int_equal(ev.kind, SPOP_EV_NONE);
	assert_int_equal(w.n, n);
	spop_conn_fini(&c);
}

/* A reply is written completely or not at all, for any room. SPOP_REPLY_MAX is always enough. */
static void test_room_for_replies(void **state)
{
	static const char *const frames[] = {
		STORY_HELLO, "02 00000001 00 00", "03 00000001 01 01",
		("01 00000001 00 00 12 \"supported-versions\" 08 03 \"2.0\" "
		 "0e \"max-frame-size\" 05 ff f0 fe fe fe fe fe fe fe 06 0c \"capabilities\" 08 00"),
	};
	struct spop_conn_opts o;
	const uint8_t room[SPOP_REPLY_MAX] = "";
	struct spop_event ev;
	struct spop_conn c;
	struct spop_wr w;
	struct hex h;
	size_t i, cap;

	spop_conn_defaults(&o);
	for (i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		h = hex("00000000");
		hex_parse(&h, frames[i]);
		hex_length(&h, 0);
		for (cap = 0; cap <= sizeof(room); cap++) {
			w = (struct spop_wr){ edge_copy(room, cap), 0, cap, false };
			spop_conn_init(&c, &o);
			assert_int_equal(spop_conn_next(&c, h.p, h.n, &w, &ev), h.n);
			assert_true(w.full == (w.n == 0));
			assert_true(cap < sizeof(room) || !w.full);
			spop_conn_fini(&c);
			edge_free(w.p, cap);
		}
		free(h.p);
	}
}

/* A frame of exactly the agreed size, from the smallest to the largest; one more byte is
 * rejected. */
static void test_agreed_size(void **state)
{
	static const uint32_t sizes[] = {
		256, 257, 16380, 65532, 131068, 1048572, 1 << 20, SPOP_FRAME_CEILING
	};
	struct spop_conn_opts o;
	struct spop_event ev;
	uint8_t out[512], *frame;
	struct spop_wr w;
	struct hex h;
	size_t i, n;

	spop_conn_defaults(&o);
	o.max_frame_size = SPOP_FRAME_CEILING;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		story_begin(&s, &o);
		w = (struct spop_wr){ out, 0, sizeof(out), false };
		h = hex("00000000 01 00000001 00 00 12 \"supported-versions\" 08 03 \"2.0\" "
			"0c \"capabilities\" 08 00 0e \"max-frame-size\" 03");
		hex_add(&h, out, 0);
		spop_put_varint(&w, sizes[i]);
		hex_add(&h, out, w.n);
		hex_length(&h, 0);
		w.n = 0;
		assert_int_equal(spop_conn_next(&s.conn, h.p, h.n, &w, &ev), h.n);
		assert_int_equal(ev.kind, SPOP_EV_HELLO);
		assert_int_equal(s.conn.frame_size, sizes[i]);
		free(h.p);

		n = sizes[i];
		frame = calloc(1, n + 4);
		h = (struct hex){ frame, n + 4 };
		memcpy(frame + 4, "\3\0\0\0\1\1\1", 7);
		hex_length(&h, 0);
		assert_int_equal(spop_conn_want(&s.conn, frame, n + 4), n + 4);
		assert_int_equal(spop_conn_next(&s.conn, frame, n + 3, &w, &ev), 0);
		assert_int_equal(spop_conn_next(&s.conn, frame, n + 4, &w, &ev), n + 4);
		assert_int_equal(ev.kind, SPOP_EV_NOTIFY);
		assert_int_equal(ev.messages.left, n - 7);
		h.n++;		/* the length word alone says one more */
		hex_length(&h, 0);
		assert_int_equal(spop_conn_next(&s.conn, frame, 4, &w, &ev), 4);
		assert_int_equal(ev.kind, SPOP_EV_CLOSE);
		assert_int_equal(ev.status, SPOP_STATUS_TOO_BIG);
		assert_int_equal(ev.offer, n + 1);
		assert_int_equal(ev.limit, n);
		free(frame);
		story_end(&s);
	}
}

/* ---- fragments ------------------------------------------------------------------------- */

static uint32_t dice(uint32_t *seed, uint32_t n)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)*seed * n) >> 32);
}

static void feed_fragment(unsigned type, unsigned flags, unsigned id, const uint8_t *p, size_t n,
			  struct spop_event *ev)
{
	static uint8_t frame[4 + 7 + 16373];
	const uint8_t head[11] = { [4] = (uint8_t)type, [8] = (uint8_t)flags, (uint8_t)id, 1 };
	uint8_t out[SPOP_REPLY_MAX];
	struct spop_wr w = { out, 0, sizeof(out), false };
	struct hex h = { frame, sizeof(head) + n };

	assert_true(h.n <= sizeof(frame));
	memcpy(frame, head, sizeof(head));
	if (n)
		memcpy(frame + sizeof(head), p, n);
	hex_length(&h, 0);
	assert_int_equal(spop_conn_next(&s.conn, frame, h.n, &w, ev), h.n);
	if (type == 0)
		memset(frame, 0xdd, sizeof(frame));	/* joined bytes must not point into it */
}

/* Several NOTIFYs of random bytes, cut at random, their fragments shuffled into each other. */
static void test_joined_is_whole(void **state)
{
	enum { STREAMS = 8, MOST = 40000 };
	static uint8_t bytes[STREAMS][MOST];
	size_t n[STREAMS], at[STREAMS], k;
	struct spop_event ev;
	unsigned round, i, open;
	uint32_t seed = 1;
	bool first, last;

	for (i = 0; i < STREAMS; i++)
		for (k = 0; k < MOST; k++)
			bytes[i][k] = (uint8_t)dice(&seed, 256);
	story_begin(&s, NULL);
	story_hello(&s);
	for (round = 0; round < 50; round++) {
		for (i = 0; i < STREAMS; i++) {
			n[i] = dice(&seed, round % 2 ? MOST : 40);
			at[i] = SIZE_MAX;
		}
		for (open = STREAMS; open; ) {
			i = dice(&seed, STREAMS);
			if (at[i] != SIZE_MAX && at[i] > n[i])
				continue;
			first = at[i] == SIZE_MAX;
			if (first)
				at[i] = 0;
			k = dice(&seed, round % 2 ? 16000 : 10);
			last = k >= n[i] - at[i];
			if (last)
				k = n[i] - at[i];
			feed_fragment(first ? 3 : 0, last, i, bytes[i] + at[i], k, &ev);
			if (!last) {
				assert_int_equal(ev.kind, SPOP_EV_NONE);
				at[i] += k;
				continue;
			}
			assert_int_equal(ev.kind, SPOP_EV_NOTIFY);
			assert_int_equal(ev.stream_id, i);
			assert_int_equal(ev.frame_id, 1);
			assert_int_equal(ev.messages.left, n[i]);
			assert_false(ev.lost);
			if (n[i])
				assert_memory_equal(ev.messages.p, bytes[i], n[i]);
			at[i] = n[i] + 1;
			open--;
		}
		assert_int_equal(s.conn.n_joining, 0);
		assert_int_equal(s.conn.joining_bytes, 0);
	}
	assert_int_equal(s.conn.n_notify, 50 * STREAMS);
	assert_int_equal(s.conn.n_lost, 0);
	assert_true(s.conn.n_fragments > 1000);
	story_end(&s);
}

/* The default bounds, reached and passed by one. */
static void test_joined_bounds(void **state)
{
	static uint8_t bytes[16373];
	struct spop_event ev;
	size_t left = 4u << 20, n;
	unsigned i;

	story_begin(&s, NULL);
	story_hello(&s);
	for (i = 0; left; i = 1) {
		n = left < sizeof(bytes) ? left : sizeof(bytes);
		left -= n;
		feed_fragment(i ? 0 : 3, 0, 1, bytes, n, &ev);
		assert_int_equal(ev.kind, SPOP_EV_NONE);
	}
	feed_fragment(0, 0, 1, bytes, 0, &ev);
	assert_int_equal(ev.kind, SPOP_EV_NONE);
	assert_int_equal(s.conn.joining_bytes, 4u << 20);
	feed_fragment(0, 1, 1, bytes, 1, &ev);
	assert_int_equal(ev.kind, SPOP_EV_CLOSE);
	assert_int_equal(ev.status, SPOP_STATUS_TOO_BIG);
	assert_int_equal(ev.offer, (4u << 20) + 1);
	assert_int_equal(ev.limit, 4u << 20);
	story_end(&s);

	story_begin(&s, NULL);
	story_hello(&s);
	for (i = 0; i < SPOP_OPEN_CEILING; i++) {
		feed_fragment(3, 0, i, bytes, 1, &ev);
		assert_int_equal(ev.kind, SPOP_EV_NONE);
	}
	feed_fragment(3, 0, i, bytes, 1, &ev);
	assert_int_equal(ev.kind, SPOP_EV_CLOSE);
	assert_int_equal(ev.status, SPOP_STATUS_BAD_INTERLACED);
	assert_int_equal(s.conn.n_joining, 0);		/* all given back with CLOSE already */
	assert_int_equal(s.conn.joining_bytes, 0);
	story_end(&s);
}

/* ---- more ------------------------------------------------------------------------------ */

static void test_counters(void **state)
{
	story_begin(&s, NULL);
	story_hello(&s);
	story_feed_frame(&s, "03 00000001 01 01");
	story_feed_frame(&s, "03 00000000 01 01");
	story_feed_frame(&s, "00 00000001 01 01");
	story_feed_frame(&s, "2a 00000001 01 01");
	assert_int_equal(s.conn.n_frames, 5);
	assert_int_equal(s.conn.n_notify, 2);
	assert_int_equal(s.conn.n_fragments, 2);
	must_log("reply AGENT-HELLO");
	story_end(&s);
}

/* Random bytes after a HELLO, and frames of correct length with random content: the connection ends
 * with one AGENT-DISCONNECT, never hangs, and has no NOTIFY without an ACK. */
static void test_noise(void **state)
{
	uint8_t frame[4 + 64];
	struct hex h = { frame, 0 };
	unsigned round, i, n, closed = 0, notified = 0;
	uint32_t seed = 7;
	char *bye;

	for (round = 0; round < 3000; round++) {
		story_begin(&s, NULL);
		if (round % 8)
			story_hello(&s);
		for (i = 0; i < 30 && s.conn.state != SPOP_CONN_CLOSED; i++) {
			n = 4 + dice(&seed, 64);
			h.n = n;
			while (n)
				frame[--n] = (uint8_t)dice(&seed, round % 2 ? 256 : 8);
			if (round % 4)
				hex_length(&h, 0);
			if (round % 3 && h.n > 8)
				frame[8] &= 3;
			if (round % 3 && h.n > 4)
				frame[4] &= 3;
			story_feed(&s, frame, h.n);
		}
		closed += s.conn.state == SPOP_CONN_CLOSED;
		notified += s.n_notify;
		if (strstr(s.log, "it took") || strstr(s.log, "no frame") || strstr(s.log, "it wants"))
			fail_msg("round %u gives\n%s", round, s.log);
		if (s.conn.state == SPOP_CONN_CLOSED) {
			bye = strstr(s.log, "reply AGENT-DISCONNECT");
			assert_non_null(bye);
			assert_null(strstr(bye + 1, "reply AGENT-DISCONNECT"));
		}
		story_end(&s);
	}
	assert_true(closed > 1000 && notified > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_want),
		cmocka_unit_test(test_disconnect),
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_room_for_replies),
		cmocka_unit_test(test_agreed_size),
		cmocka_unit_test(test_joined_is_whole),
		cmocka_unit_test(test_joined_bounds),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
