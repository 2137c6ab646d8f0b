/* test_action.c - ACKs: their bytes, their limits, and the actions left out if they do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/spoe/story.h"

#define N(a)	(sizeof(a) / sizeof((a)[0]))
#define SMALL	256u	/* the smallest frame size SPOP knows */

static struct spop_conn conn_of(uint32_t frame_size)
{
	struct spop_conn_opts o;
	struct spop_conn c;

	spop_conn_defaults(&o);
	spop_conn_init(&c, &o);
	c.frame_size = frame_size;
	return c;
}

static void must_print(const struct spop_wr *w, size_t at, const char *want)
{
	const uint8_t *p = w->p + at;
	char text[1024];
	size_t n;

	n = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
	assert_int_equal(at + 4 + n, w->n);
	spop_frame_print(p + 4, n, text, sizeof(text));
	assert_string_equal(text, want);
}

static void test_bytes(void **state)
{
	struct hex want = hex("0000003b 67 00000001 00 f0 00"
			      "01 03 02 06 \"server\" 08 02 \"s1\""
			      "01 03 03 03 \"hit\" 04 fc f0 06"
			      "02 02 04 03 \"alt\""
			      "01 03 00 01 \"b\" 11"
			      "01 03 01 01 \"n\" 00");
	struct spop_conn c = conn_of(16380);
	const struct spop_data yes = { SPOP_T_BOOL, .b = true }, null = { SPOP_T_NULL };
	uint8_t out[256];
	struct spop_wr w = { out, 0, sizeof(out), false };
	struct spop_ack a;

	hex_length(&want, 0);
	spop_ack_begin(&a, &c, &w, 0, 240);
	spop_ack_set_str(&a, SPOP_SCOPE_TXN, "server", "s1", 2);
	spop_ack_set_int(&a, SPOP_SCOPE_REQ, "hit", 16380);
	spop_ack_unset(&a, SPOP_SCOPE_RES, "alt");
	spop_ack_set(&a, SPOP_SCOPE_PROC, "b", &yes);
	spop_ack_set(&a, SPOP_SCOPE_SESS, "n", &null);
	assert_true(spop_ack_end(&a));
	assert_int_equal(a.n_actions, 5);
	assert_false(a.dropped);
	assert_int_equal(w.n, want.n);
	assert_memory_equal(out, want.p, want.n);
	must_print(&w, 0, "ACK stream=0 frame=240 fin set txn.server=\"s1\" set req.hit=int64:16380 "
		   "unset res.alt set proc.b=true set sess.n=null");
	free(want.p);
}

static void test_all_types(void **state)
{
	static const struct spop_data d[] = {
		{ SPOP_T_NULL }, { SPOP_T_BOOL, .b = true }, { SPOP_T_INT32, .i = -5 },
		{ SPOP_T_UINT32, .i = 5 }, { SPOP_T_INT64, .i = -6 }, { SPOP_T_UINT64, .u = 6 },
		{ SPOP_T_IPV4, .ip = { 127, 0, 0, 1 } }, { SPOP_T_IPV6, .ip = { [15] = 1 } },
		{ SPOP_T_STR, .s = { "x", 1 } }, { SPOP_T_BIN, .s = { "xyz", 3 } },
	};
	struct spop_conn c = conn_of(16380);
	uint8_t out[512];
	struct spop_wr w = { out, 0, sizeof(out), false };
	struct spop_ack a;
	size_t i;

	spop_ack_begin(&a, &c, &w, UINT64_MAX, UINT64_MAX);
	for (i = 0; i < sizeof(d) / sizeof(d[0]); i++)
		spop_ack_set(&a, SPOP_SCOPE_TXN, "v", &d[i]);
	assert_true(spop_ack_end(&a));
	must_print(&w, 0, "ACK stream=18446744073709551615 frame=18446744073709551615 fin set txn.v=null"
		   " set txn.v=true set txn.v=int32:-5 set txn.v=uint32:5 set txn.v=int64:-6"
		   " set txn.v=uint64:6 set txn.v=127.0.0.1 set txn.v=::1 set txn.v=\"x\""
		   " set txn.v=bin:3");
}

/* Values of every length around the frame size: no frame exceeds it, and only whole actions are
 * left out. */
static void test_frame_size(void **state)
{
	static char value[SMALL * 2];
	struct spop_conn c = conn_of(SMALL);
	uint8_t out[SMALL * 4];
	bool fitted_at_limit = false, dropped_above = false;
	struct spop_ack a;
	struct spop_wr w;
	size_t n, len;

	memset(value, 'v', sizeof(value));
	for (n = 0; n < sizeof(value); n++) {
		w = (struct spop_wr){ out, 0, sizeof(out), false };
		spop_ack_begin(&a, &c, &w, 1, 1);
		spop_ack_set_str(&a, SPOP_SCOPE_TXN, "first", "1", 1);
		spop_ack_set_str(&a, SPOP_SCOPE_TXN, "long", value, n);
		assert_true(spop_ack_end(&a));
		assert_false(w.full);
		len = w.n - SPOP_LENGTH_BYTES;
		assert_true(len <= SMALL);
		fitted_at_limit |= len == SMALL && a.n_actions == 2 && !a.dropped;
		if (a.dropped) {
			dropped_above = true;
			assert_int_equal(a.n_actions, 1);
			must_print(&w, 0, "ACK stream=1 frame=1 fin set txn.first=\"1\"");
		}
	}
	assert_true(fitted_at_limit && dropped_above);
}

/* An action after one that was left out may still fit. */
static void test_after_dropped(void **state)
{
	static char value[SMALL];
	struct spop_conn c = conn_of(SMALL);
	uint8_t out[SMALL * 2];
	struct spop_wr w = { out, 0, sizeof(out), false };
	struct spop_ack a;

	memset(value, 'v', sizeof(value));
	spop_ack_begin(&a, &c, &w, 1, 1);
	spop_ack_set_str(&a, SPOP_SCOPE_TXN, "long", value, sizeof(value));
	spop_ack_set_int(&a, SPOP_SCOPE_TXN, "pages", 3);
	assert_true(spop_ack_end(&a));
	assert_true(a.dropped && a.n_actions == 1);
	must_print(&w, 0, "ACK stream=1 frame=1 fin set txn.pages=int64:3");
}

/* Every size of the output buffer: either whole actions, or none and the earlier bytes
 * unchanged. */
static void test_room(void **state)
{
	struct spop_conn c = conn_of(16380);
	unsigned none = 0, some = 0, all = 0;
	const uint8_t room[64] = "abc";
	uint8_t *out;
	struct spop_ack a;
	struct spop_wr w;
	size_t cap;

	for (cap = 3; cap < 64; cap++) {
		out = edge_copy(room, cap);
		w = (struct spop_wr){ out, 3, cap, false };
		spop_ack_begin(&a, &c, &w, 1, 1);
		spop_ack_set_int(&a, SPOP_SCOPE_TXN, "a", 1);
		spop_ack_set_int(&a, SPOP_SCOPE_TXN, "b", 2);
		if (!spop_ack_end(&a)) {
			assert_int_equal(w.n, 3);
			assert_true(w.full);
			none++;
		} else if (a.n_actions == 2) {
			must_print(&w, 3, "ACK stream=1 frame=1 fin set txn.a=int64:1 set txn.b=int64:2");
			all++;
		} else {
			assert_true(a.dropped && !w.full);
			some++;
		}
		assert_memory_equal(out, "abc", 3);
		edge_free(out, cap);
	}
	assert_true(none == 11 && some && all);	/* 4 + 7 bytes are the frame alone */
}

/* Several ACKs in one writer, to leave in one write. */
static void test_in_a_row(void **state)
{
	struct spop_conn c = conn_of(16380);
	uint8_t out[256];
	struct spop_wr w = { out, 0, sizeof(out), false };
	struct spop_ack a;
	size_t second;

	spop_ack_begin(&a, &c, &w, 1, 1);
	spop_ack_set_int(&a, SPOP_SCOPE_TXN, "a", 1);
	assert_true(spop_ack_end(&a));
	second = w.n;
	spop_ack_begin(&a, &c, &w, 3, 1);
	assert_true(spop_ack_end(&a));
	must_print(&w, second, "ACK stream=3 frame=1 fin");
}

/* Numbers and strings around one byte: those that are written at once and those that are not have
 * the bytes of the general way. */
static void test_short_and_long(void **state)
{
	static const int64_t numbers[] = { -1, 0, 239, 240, INT64_MIN, INT64_MAX };
	static const size_t lengths[] = { 0, 239, 240 };
	static char value[SMALL];
	uint8_t out[2][512];
	struct spop_conn c = conn_of(16380);

	memset(value, 'v', sizeof(value));
	for (size_t i = 0; i < N(numbers) + N(lengths); i++) {
		bool is_int = i < N(numbers);
		int64_t v = is_int ? numbers[i] : 0;
		size_t n = is_int ? 0 : lengths[i - N(numbers)];
		const struct spop_data number = { SPOP_T_INT64, .i = v };
		const struct spop_data text = { SPOP_T_STR, .s = { value, n } };
		struct spop_wr a = { out[0], 0, sizeof(out[0]), false };
		struct spop_wr b = { out[1], 0, sizeof(out[1]), false };
		struct spop_ack ack;

		spop_ack_begin(&ack, &c, &a, 1, 1);
		if (is_int)
			spop_ack_set_int(&ack, SPOP_SCOPE_TXN, "v", v);
		else
			spop_ack_set_str(&ack, SPOP_SCOPE_TXN, "v", value, n);
		assert_true(spop_ack_end(&ack) && ack.n_actions == 1);
		spop_ack_begin(&ack, &c, &b, 1, 1);
		spop_ack_set(&ack, SPOP_SCOPE_TXN, "v", is_int ? &number : &text);
		assert_true(spop_ack_end(&ack) && ack.n_actions == 1);
		assert_int_equal(a.n, b.n);
		assert_memory_equal(out[0], out[1], a.n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_all_types),
		cmocka_unit_test(test_frame_size),
		cmocka_unit_test(test_after_dropped),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_in_a_row),
		cmocka_unit_test(test_short_and_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
