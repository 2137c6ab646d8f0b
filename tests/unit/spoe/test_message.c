/* test_message.c - messages and arguments of a NOTIFY's payload, and the same as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/spoe/story.h"

/* Read <n> bytes and write "name(arg=type ...) ..." and the result to <text>. */
static void walk(const uint8_t *bytes, size_t n, char *text, size_t cap)
{
	const uint8_t *p = edge_copy(bytes, n);
	struct spop_rd r = { p, n }, before;
	struct spop_message m;
	struct spop_str name;
	struct spop_data d;
	size_t t = 0, left;
	unsigned args;
	int rc;

	for (;;) {
		before = r;
		if ((rc = spop_message_next(&r, &m)) <= 0)
			break;
		assert_true(r.left < before.left);
		t += (size_t)snprintf(text + t, cap - t, "%.*s(", (int)m.name.n, m.name.p);
		left = m.args.left;
		for (args = 0; spop_arg_next(&m, &name, &d); args++) {
			t += (size_t)snprintf(text + t, cap - t, "%s%.*s=%d", args ? " " : "",
					      (int)name.n, name.p, d.type);
			assert_true(m.args.left < left);
			left = m.args.left;
		}
		assert_int_equal(args, m.n_args);
		assert_int_equal(m.args.left, 0);
		t += (size_t)snprintf(text + t, cap - t, ") ");
	}
	assert_true(r.p == before.p && r.left == before.left);
	assert_true(rc < 0 || r.left == 0);
	snprintf(text + t, cap - t, "%s", rc == 0 ? "end" : spop_error_text(rc));
	edge_free(p, n);
}

static const struct { const char *bytes, *want; } walks[] = {
	{ "", "end" },
	{ "05 \"route\" 00", "route() end" },
	{ "00 00", "() end" },
	{ "05 \"route\" 02 03 \"uid\" 08 01 \"a\" 04 \"body\" 09 02 7b7d", "route(uid=8 body=9) end" },
	{ "01 \"a\" 01 00 00  01 \"b\" 00", "a(=0) b() end" },
	{ "01 \"a\" ff 00*510", "a(=0" },	/* 255 arguments of two bytes; compared as far as it goes */
	{ "01 \"a\" ff 00*509", "bytes are missing" },
	{ "01 \"a\" 01 00 00  01", "a(=0) bytes are missing" },
	{ "01 \"a\" 01 00 00  01 \"b\"", "a(=0) bytes are missing" },
	{ "01 \"a\" 02 00 00", "bytes are missing" },
	{ "01 \"a\" 01 00 0a", "unknown data type" },
	{ "01 \"a\" 01 00 03 ff f0 fe fe fe 00", "a number out of its range" },
	{ "ff f0 fe fe fe fe fe fe fe 0e \"a\" 00", "bytes are missing" },
	{ "ff*11", "a number out of its range" },
	{ "01 \"a\" 01 ff f0 fe fe fe fe fe fe fe 0e 00", "bytes are missing" },
	{ "01 \"a\" 01 01 \"x\" 09 f0 00 \"y\"*239", "bytes are missing" },
	{ "01 \"a\" 01 01 \"x\" 09 f0 00 \"y\"*240", "a(x=9) end" },
	{ "01 \"a\" 01 01 \"x\" 07 00*15", "bytes are missing" },
	{ "01 \"a\" 01 01 \"x\" 06 00*3", "bytes are missing" },
};

static void test_walks(void **state)
{
	char text[8192];
	struct hex h;
	size_t i, n;

	for (i = 0; i < sizeof(walks) / sizeof(walks[0]); i++) {
		h = hex(walks[i].bytes);
		walk(h.p, h.n, text, sizeof(text));
		if (strncmp(text, walks[i].want, strlen(walks[i].want)) != 0)
			fail_msg("%s gives %s", walks[i].bytes, text);
		for (n = 0; n < h.n; n++)	/* cut anywhere: an end or an error, checked by walk() */
			walk(h.p, n, text, sizeof(text));
		free(h.p);
	}
}

/* A message handed out keeps its place while the next one is read. */
static void test_two_at_once(void **state)
{
	struct hex h = hex("01 \"a\" 01 01 \"x\" 02 01  01 \"b\" 01 01 \"y\" 02 02");
	struct spop_rd r = { h.p, h.n };
	struct spop_message a, b;
	struct spop_str name;
	struct spop_data d;

	assert_int_equal(spop_message_next(&r, &a), 1);
	assert_int_equal(spop_message_next(&r, &b), 1);
	assert_int_equal(spop_message_next(&r, &b), 0);
	assert_true(spop_arg_next(&a, &name, &d) && d.i == 1 && *name.p == 'x');
	assert_false(spop_arg_next(&a, &name, &d));
	assert_true(spop_arg_next(&b, &name, &d) && d.i == 2 && *name.p == 'y');
	free(h.p);
}

static const struct {
	const char *bytes, *want;
} prints[] = {
	{ "", "? length=0 bad=\"bytes are missing\"" },
	{ "03 00000001 01", "? length=6 bad=\"bytes are missing\"" },
	{ "03 00000001 03 01 05 \"route\" 02 03 \"uid\" 08 28 \"u\"*40 04 \"body\" 09 02 \"{}\"",
	    "NOTIFY stream=3 frame=1 fin msg=route uid=\"uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu\" "
	    "body=bin:2" },
	{ "03 00000001 03 01 05 \"route\" 01 03 \"uid\" 08 29 \"u\"*41",
	    "NOTIFY stream=3 frame=1 fin msg=route uid=str:41" },
	{ "03 00000001 03 01 05 \"route\" 02 00 00",
	    "NOTIFY stream=3 frame=1 fin bad=\"bytes are missing\"" },
	{ "03 00000000 03 01 05 \"rou\"", "NOTIFY stream=3 frame=1 payload=4" },
	{ "00 00000003 03 01", "UNSET stream=3 frame=1 fin abort payload=0" },
	{ "2a 00000001 03 01 \"abc\"", "type-42 stream=3 frame=1 fin payload=3" },
	{ "02 00000001 00 00 0b \"status-code\" 03 02 07 \"message\" 08 02 \"no\"",
	    "HAPROXY-DISCONNECT stream=0 frame=0 fin status-code=uint32:2 message=\"no\"" },
	{ "67 00000001 03 01 01 03 02 01 \"a\" 08 02 \"s1\" 02 02 00 01 \"b\"",
	    "ACK stream=3 frame=1 fin set txn.a=\"s1\" unset proc.b" },
	{ "67 00000001 03 01 03 02 02 01 \"a\"",
	    "ACK stream=3 frame=1 fin bad=\"unknown data type\"" },
	{ "67 00000001 03 01 01 02 02 01 \"a\"",
	    "ACK stream=3 frame=1 fin bad=\"unknown data type\"" },
	{ "67 00000001 03 01 02 02 05 01 \"a\"",
	    "ACK stream=3 frame=1 fin bad=\"a number out of its range\"" },
	{ "67 00000001 03 01 01 03", "ACK stream=3 frame=1 fin bad=\"bytes are missing\"" },
};

static void test_prints(void **state)
{
	const uint8_t *p;
	char text[512];
	struct hex h;
	size_t i, n;
	int len;

	for (i = 0; i < sizeof(prints) / sizeof(prints[0]); i++) {
		h = hex(prints[i].bytes);
		p = edge_copy(h.p, h.n);
		len = spop_frame_print(p, h.n, text, sizeof(text));
		assert_string_equal(text, prints[i].want);
		assert_int_equal(len, strlen(text));
		for (n = 0; n <= (size_t)len; n++) {	/* like snprintf() into too little room */
			memset(text, '~', sizeof(text));
			assert_int_equal(spop_frame_print(p, h.n, n ? text : NULL, n), len);
			if (n)
				assert_true(strlen(text) == n - 1 &&
					    strncmp(text, prints[i].want, n - 1) == 0);
			assert_int_equal(text[n], '~');
		}
		edge_free(p, h.n);
		free(h.p);
	}
}

static void test_texts(void **state)
{
	int i;

	for (i = -200; i <= 200; i++) {
		assert_true(spop_status_text(i) && *spop_status_text(i));
		assert_string_equal(spop_error_text(i), spop_error_text(-i));
	}
	assert_string_equal(spop_status_text(SPOP_STATUS_TOO_BIG), "frame is too big");
	assert_string_equal(spop_error_text(-SPOP_E_SHORT), "bytes are missing");
	assert_true(spop_error_text(INT32_MIN) != NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walks),
		cmocka_unit_test(test_two_at_once),
		cmocka_unit_test(test_prints),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
