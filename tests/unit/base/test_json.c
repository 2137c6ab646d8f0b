/* test_json.c - the scanner against a reference reader (json_ref.h): whole, split at every byte,
 * byte by byte, and with each form of the inner loop. Texts end at an unreadable page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "tests/unit/base/json_ref.h"
#include "tests/unit/edge.h"

#define DEPTH	16

static const struct json_scan *const forms[] = {
	&json_scan_plain,
#ifdef __x86_64__
	&json_scan_sse2, &json_scan_avx2,
#elif SIMD16
	&json_scan_neon,
#endif
};

static size_t n_forms(void)
{
	size_t n = sizeof(forms) / sizeof(forms[0]);

	return n == 3 && json_scan_best() != forms[2] ? 2 : n;	/* a CPU without AVX2 */
}

#define C(lit)	{ lit, sizeof(lit) - 1 }

static const struct span good[] = {
	C("{}"), C("[]"), C(" [ ] "), C("\"\""), C("null"), C("true"), C("false"), C("0 "),
	C("{\"a\":1,\"b\":[true,false,null,{}],\"\":\"\"}"),
	C("\t{ \"a\" :\r\n[ 1 , -2.5 , 3e4 , 0.1E-2, 1e+9 ] }\n"),
	C("[0,10,9999999,99999999,123456789,1.5,1e5,0,1 ,2\n,7654321,12345678901234567890,1,2,3,4,5,6]"),
	C("[0,-0,10,0.0,-1.25,1E5,123456789012345678901234567890123456789012345678901234567890123]"),
	C("[\"plain text\",\"with \\\"quotes\\\" and \\\\ and \\/\",\"\\b\\f\\n\\r\\t\"]"),
	C("\"\\u0041\\u00e9\\u4e2d\\ud83d\\ude00\\u0000|\""),
	C("\"lone \\ud83d high, \\ude00 low, \\ud83d\\ud83d\\ude00 twice, \\ud83d\\n, \\ud83d\""),
	C("\"\\ud83d\\u0041 \\udc00\\ud800 \\uDBFF\\uDFFF \\ud83dx\\ude00\""),
	C("\"\xe4\xb8\xad\xe6\x96\x87 \xc3\xa9 \xf0\x9f\x98\x80 \xef\xbf\xbf\""),
	C("\"bad \xff \xc0\xaf \xe0\x80\xaf \xed\xa0\x80 \xf0\x80\x80\xaf \xf4\x90\x80\x80 \xf5\""),
	C("\"cut \xe4\xb8 \xf0\x9f\x98 \xc3 \xe4\xb8\\n \xf0\x9f\x98\\u0041 \xe4\""),
	C("\"\x80\x80 \xe4\xe4\xb8\xad \xf0\x9f\xe4\xb8\xad\xc3\xc3\xa9\xf1\x80\x80\""),
	C("\"\\ud83d\xe4\xb8\xad \\ud83d\xff \xe4\xb8\\ud83d\\ude00\""),
	C("\"raw controls \x01\x1f\n\t and \x7f, a NUL \0 too\""),
	C("\xef\xbb\xbf{\"bom\":1}"),
	C("{\"k\\u00e9y\\n\":1,\"\\ud83d\\ude00\":2,\"\xff\":3}"),
	C("{\"a key that is longer than sixty-three bytes is cut, and so is this one:\":1}"),
	C("{\"a key that is longer than sixty-three bytes, with \\\"escapes\\\" in it, \\n\":1}"),
	C("[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]"),
	C("{\"a\":1,\"a\":2,\"a\":{\"a\":[]}}"),
	C("\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123"
	  "456789abcdef0123456789abcdef\\n0123456789abcdef0123456789abcdef0123456789abcdef\""),
	C("\"\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad"
	  "\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87"
	  "\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\""),
};

static const struct span wrong[] = {
	C("]"), C("}"), C(","), C(":"), C("x"), C("'a'"), C("[1,]"), C("[,1]"), C("[1 2]"), C("[1}"),
	C("{]"), C("{\"a\"}"), C("{\"a\" 1}"), C("{\"a\":}"), C("{\"a\":1,}"), C("{,}"), C("{1:2}"),
	C("{\"a\":1 \"b\"}"), C("{} x"), C("{}{}"), C("[] []"), C("1 2"), C("\"a\" \"b\""),
	C("[01]"), C("[-]"), C("[1.]"), C("[.5]"), C("[+1]"), C("[1e]"), C("[1e+]"), C("[--1]"),
	C("[01,2,3,4,5,6,7]"), C("[00000001]"), C("[1.,2,3,4,5,6,7]"), C("[1x,2,3,4,5,6,7]"),
	C("[1+2,3,4,5,6,7]"), C("[1234567e,2,3,4,5]"), C("[12345678901.,2,3]"),
	C("[0x10]"), C("[1.2.3]"), C("[1-2]"), C("[00]"), C("[-01]"), C("[NaN]"), C("[Infinity]"),
	C("[1234567890123456789012345678901234567890123456789012345678901234]"),
	C("[tru]"), C("[truE]"), C("[nul ]"), C("[True]"), C("[nulll]"), C("[truefalse]"),
	C("[\"\\x\"]"), C("[\"\\u12g4\"]"), C("[\"\\u 123\"]"), C("[\"\\ud83d\\x\"]"),
	C("\xef\xbb\xbf\xef\xbb\xbf{}"), C(" \xef\xbb\xbf{}"), C("\xef\xbb{}"), C("\xfe\xff{}"),
	C("[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]"), C("\0"), C("{}\0"), C("/**/{}"), C("[1]]"),
};

/* Feed the first <at> bytes, then the rest in pieces of at most <step> bytes; 0: in one piece. */
static enum json_state feed(struct recorder *r, const char *p, size_t n, size_t at, size_t step)
{
	size_t k;

	json_feed(&r->j, p, at);
	for (p += at, n -= at; n > 0; p += k, n -= k) {
		k = step > 0 && step < n ? step : n;
		json_feed(&r->j, p, k);
	}
	return r->j.state;
}

static void compare(struct recorder *r, struct log *want, struct span text, size_t form)
{
	size_t at;

	for (at = 0; at <= text.n; at++) {
		record_start(r, DEPTH, forms[form]);
		if (feed(r, text.p, text.n, at, 0) != JSON_DONE)
			fail_msg("form %zu, split at %zu: refused: %s", form, at, text.p);
		if (r->log.n != want->n || memcmp(r->log.p, want->p, want->n) != 0)
			fail_msg("form %zu, split at %zu: got\n%s\nwant\n%s", form, at,
				 r->log.p, want->p);
		assert_int_equal(r->j.offset, text.n);
	}
	for (at = 1; at < 4; at++) {
		record_start(r, DEPTH, forms[form]);
		assert_int_equal(feed(r, text.p, text.n, 0, at), JSON_DONE);
		assert_int_equal(r->log.n, want->n);
		assert_memory_equal(r->log.p, want->p, want->n);
	}
}

/* The scanner gives the events of the reference, or JSON_BAD if the reference refuses the text. */
static void check(struct span text)
{
	struct recorder r = { 0 };
	struct log want = { 0 };
	uint8_t *copy = edge_copy(text.p, text.n);
	struct span s = span_of(copy, text.n);
	bool is_good = ref_read(s.p, s.n, DEPTH, &want);
	enum json_state state;
	size_t form, at;

	for (form = 0; form < n_forms(); form++) {
		if (is_good) {
			compare(&r, &want, s, form);
			continue;
		}
		record_start(&r, DEPTH, forms[form]);
		state = feed(&r, s.p, s.n, 0, 0);
		assert_int_not_equal(state, JSON_DONE);
		for (at = 1; at <= s.n; at++) {
			record_start(&r, DEPTH, forms[form]);
			assert_int_equal(feed(&r, s.p, s.n, at, 1), state);
		}
	}
	record_free(&r);
	free(want.p);
	edge_free(copy, text.n);
}

static void test_good(void **state)
{
	struct log l = { 0 };
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (!ref_read(good[i].p, good[i].n, DEPTH, &l))
			fail_msg("the reference refuses: %s", good[i].p);
		check(good[i]);
	}
	free(l.p);
}

static void test_wrong(void **state)
{
	struct recorder r = { 0 };
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		check(wrong[i]);
		record_start(&r, DEPTH, NULL);
		if (json_feed(&r.j, wrong[i].p, wrong[i].n) != JSON_BAD)
			fail_msg("not refused: %s", wrong[i].p);
		assert_true(r.j.offset < wrong[i].n);
		assert_int_equal(json_feed(&r.j, "{}", 2), JSON_BAD);	/* the state lasts */
	}
	record_free(&r);
}

/* Decoded strings, spelled out here because the reference could have the same error. */
static void test_decoded(void **state)
{
	static const struct {
		struct span text, want;
	} cases[] = {
		{ C("\"\\u00e9\\n\\u0000x\""), C("\xc3\xa9\n\0x") },
		{ C("\"\\ud83d\\ude00\""), C("\xf0\x9f\x98\x80") },
		{ C("\"\\ud83d!\""), C("\xef\xbf\xbd!") },
		{ C("\"\\ude00\\ud83d\""), C("\xef\xbf\xbd\xef\xbf\xbd") },
		/* Unicode 15, table 3-8: one U+FFFD for each maximal part */
		{ C("\"\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64\""),
		  C("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\x62\xef\xbf\xbd\x63\xef\xbf\xbd\xef\xbf\xbd\x64") },
		{ C("\"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41\""),
		  C("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
		    "\xef\xbf\xbd\x41") },
		{ C("\"\xed\xa0\x80\""), C("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd") },
	};
	struct recorder r = { 0 };
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		record_start(&r, DEPTH, NULL);
		json_feed(&r.j, cases[i].text.p, cases[i].text.n);
		assert_int_equal(r.text.n, cases[i].want.n);
		assert_memory_equal(r.text.p, cases[i].want.p, r.text.n);
	}
	record_free(&r);
}

/* A text cut at any byte gives the events before the cut, and the unfinished string up to its last
 * whole character. */
static void test_cut(void **state)
{
	static const char text[] = "{\"messages\":[{\"content\":\"one \xe4\xb8\xad two\\n\\ud83d\\ude00 ";
	struct recorder r = { 0 };
	size_t n, last = 0;

	for (n = 0; n < sizeof(text); n++) {
		uint8_t *copy = edge_copy(text, n);

		record_start(&r, DEPTH, NULL);
		assert_int_equal(json_feed(&r.j, (const char *)copy, n), JSON_MORE);
		assert_true(r.text.n >= last);
		last = r.text.n;
		edge_free(copy, n);
	}
	assert_int_equal(last, strlen("one \xe4\xb8\xad two\n\xf0\x9f\x98\x80 "));
	assert_memory_equal(r.text.p, "one \xe4\xb8\xad two\n\xf0\x9f\x98\x80 ", last);
	record_free(&r);
}

static void count_event(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	(*(size_t *)arg)++;
}

static void test_bombs(void **state)
{
	static const uint16_t depths[] = { 1, 128, JSON_DEPTH_MAX, 60000 };
	char *bomb = malloc(1 << 20);
	struct json j;
	size_t events, i, k;

	assert_non_null(bomb);
	for (k = 0; k < 2; k++) {
		for (i = 0; i < 1 << 20; i++)
			bomb[i] = k == 0 ? '[' : "{\"\":"[i % 4];
		for (i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
			events = 0;
			json_init(&j, depths[i], count_event, &events);
			assert_int_equal(json_feed(&j, bomb, 1 << 20), JSON_BAD);
			assert_true(events <= 2 * JSON_DEPTH_MAX);
			assert_int_equal(j.depth, depths[i] < JSON_DEPTH_MAX ? depths[i] : JSON_DEPTH_MAX);
		}
	}
	free(bomb);
}

/* Nesting just under, at and just over the maximal depth. */
static void test_depth(void **state)
{
	char text[2 * JSON_DEPTH_MAX + 4];
	struct json j;
	size_t events = 0, n;

	for (n = JSON_DEPTH_MAX - 1; n <= JSON_DEPTH_MAX + 1; n++) {
		memset(text, '[', n);
		memset(text + n, ']', n);
		json_init(&j, JSON_DEPTH_MAX, count_event, &events);
		assert_int_equal(json_feed(&j, text, 2 * n), n <= JSON_DEPTH_MAX ? JSON_DONE : JSON_BAD);
	}
}

static void test_long(void **state)
{
	size_t n = 1 << 20, i;
	char *text = malloc(n + 2);
	struct recorder r = { 0 };

	assert_non_null(text);
	memset(text, 'a', n + 2);
	text[0] = text[n + 1] = '"';
	for (i = 0; i < n_forms(); i++) {
		record_start(&r, DEPTH, forms[i]);
		assert_int_equal(feed(&r, text, n + 2, 333, 4096), JSON_DONE);
		assert_int_equal(r.text.n, n);
		assert_int_equal(r.text.p[n - 1], 'a');
	}
	text[1] = '[';	/* an endless number is refused early */
	memset(text + 2, '1', n);
	record_start(&r, DEPTH, NULL);
	assert_int_equal(feed(&r, text + 1, n, 0, 1000), JSON_BAD);
	record_free(&r);
	free(text);
}

/* A copy of the scanner's state works like the original, because it has no pointer into itself. */
static void test_moved(void **state)
{
	static const char text[] = "{\"key\":\"a\\ud83d\\ude00b\",\"n\":12.5,\"l\":null}";
	struct recorder whole = { 0 }, a = { 0 };
	struct json moved;
	size_t i;

	record_start(&whole, DEPTH, NULL);
	json_feed(&whole.j, text, sizeof(text) - 1);
	record_start(&a, DEPTH, NULL);
	for (i = 0; i + 1 < sizeof(text); i++) {
		moved = a.j;
		memset(&a.j, 0xa5, sizeof(a.j));
		json_feed(&moved, text + i, 1);
		a.j = moved;
	}
	assert_int_equal(a.log.n, whole.log.n);
	assert_memory_equal(a.log.p, whole.log.p, a.log.n);
	record_free(&whole);
	record_free(&a);
}

/* ---- random texts ---------------------------------------------------------------------------- */

static void put_value(struct rng *rng, struct log *l, unsigned depth);

static void put_string(struct rng *rng, struct log *l)
{
	static const char *const bits[] = {
		"a", "word ", "\\n", "\\\"", "\\\\", "\\u0041", "\\u00e9", "\\ud83d\\ude00", "\\ud83d",
		"\\udc00", "\xc3\xa9", "\xe4\xb8\xad\xe6\x96\x87", "\xf0\x9f\x98\x80", "\xff", "\xe4\xb8",
		"\xf0\x9f\x98", "\x80", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", "\\u0000", "\t",
		"a longer run of plain text, as in prose; it fills more than one block of the loop ",
		("\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad"
		 "\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87"),
	};
	const char *bit;
	uint32_t n = rng_below(rng, 9), common = rng_below(rng, 24);

	log_bytes(l, "\"", 1);
	while (n-- > 0) {
		bit = bits[rng_below(rng, 3) ? common : rng_below(rng, 24)];
		log_bytes(l, bit, strlen(bit));
	}
	log_bytes(l, "\"", 1);
}

static void put_members(struct rng *rng, struct log *l, unsigned depth, bool object)
{
	uint32_t n = rng_below(rng, 5), i;

	log_bytes(l, object ? "{" : "[", 1);
	for (i = 0; i < n; i++) {
		if (i > 0)
			log_bytes(l, " ,\n", rng_below(rng, 4) ? 2 : 3);
		if (object) {
			put_string(rng, l);
			log_bytes(l, ":", 1);
		}
		put_value(rng, l, depth + 1);
	}
	log_bytes(l, object ? "}" : "]", 1);
}

static void put_value(struct rng *rng, struct log *l, unsigned depth)
{
	static const char *const plain[] = { "0", "-1", "2.5e-3", "1234567", "true", "false", "null" };
	uint32_t what = rng_below(rng, depth > 5 ? 2 : 4);

	if (what == 0) {
		what = rng_below(rng, 7);
		log_bytes(l, plain[what], strlen(plain[what]));
	} else if (what == 1) {
		put_string(rng, l);
	} else {
		put_members(rng, l, depth, what == 2);
	}
}

/* Feed random texts, some with a changed byte, in random pieces to every form of the inner loop. */
static void test_chance(void **state)
{
	struct log text = { 0 }, want = { 0 };
	struct recorder r = { 0 };
	struct rng rng;
	unsigned round, bad = 0;

	rng_init(&rng, 20);
	for (round = 0; round < 20000; round++) {
		bool is_good;
		uint8_t *copy;
		size_t form, i, k;

		text.n = 0;
		put_members(&rng, &text, 0, rng_below(&rng, 2));
		if (rng_below(&rng, 3) == 0)
			text.p[rng_below(&rng, (uint32_t)text.n)] = (char)rng_below(&rng, 256);
		copy = edge_copy(text.p, text.n);
		is_good = ref_read(copy, text.n, DEPTH, &want);
		bad += !is_good;
		for (form = 0; form < n_forms(); form++) {
			record_start(&r, DEPTH, forms[form]);
			for (i = 0; i < text.n; i += k) {
				k = 1 + rng_below(&rng, rng_below(&rng, 4) ? 20 : 4000);
				k = k < text.n - i ? k : text.n - i;
				json_feed(&r.j, (const char *)copy + i, k);
			}
			assert_int_equal(r.j.state == JSON_DONE, is_good);
			if (!is_good)
				continue;
			assert_int_equal(r.log.n, want.n);
			assert_memory_equal(r.log.p, want.p, want.n);
		}
		edge_free(copy, text.n);
	}
	assert_in_range(bad, 500, 6000);
	free(text.p);
	free(want.p);
	record_free(&r);
}

/* ---- values taken as text -------------------------------------------------------------------- */

static void write_quoted(struct log *out, const struct log *text, size_t n)
{
	size_t i;

	log_bytes(out, "\"", 1);
	for (i = 0; i < n; i++) {
		if (text->p[i] == '"' || text->p[i] == '\\')
			log_bytes(out, "\\", 1);
		log_bytes(out, text->p + i, 1);
	}
	log_bytes(out, "\"", 1);
}

/* Write the valid text at <r> as compact JSON, without members named "a" at <levels> levels down.
 */
static void write_compact(struct ref *r, struct log *out, int levels)
{
	struct log text = { 0 }, nowhere = { 0 };
	const unsigned char *from;
	bool first = true, object;
	char close;

	ref_space(r);
	log_bytes(&text, "", 0);
	if (*r->p == '"') {
		r->p++;
		ref_string(r, &text);
		write_quoted(out, &text, text.n);
	} else if (*r->p == '{' || *r->p == '[') {
		object = *r->p == '{';
		close = object ? '}' : ']';
		log_bytes(out, r->p++, 1);
		for (ref_space(r); *r->p != (unsigned char)close; ref_space(r)) {
			struct log *to = out;

			text.n = 0;
			if (object) {
				ref_eat(r, "\"");
				ref_string(r, &text);
				ref_space(r);
				ref_eat(r, ":");
				if (levels == 1 && text.n == 1 && text.p[0] == 'a')
					to = &nowhere;
			}
			if (to == out && !first)
				log_bytes(out, ",", 1);
			first = first && to != out;
			if (object && to == out) {
				write_quoted(out, &text, levels == 1 && text.n > JSON_KEY_MAX ?
					     JSON_KEY_MAX : text.n);
				log_bytes(out, ":", 1);
			}
			write_compact(r, to, levels - 1);
			ref_space(r);
			ref_eat(r, ",");
		}
		log_bytes(out, r->p++, 1);
	} else {
		from = r->p;
		while (r->p < r->end && *r->p != '\0' && strchr("+-.eE0123456789truefalsn", *r->p) != NULL)
			r->p++;
		log_bytes(out, from, (size_t)(r->p - from));
	}
	free(text.p);
	free(nowhere.p);
}

struct text_of {
	struct json j;
	struct log log;
	uint16_t levels, ends, others;
};

static void text_event(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct text_of *t = arg;

	if (ev == JSON_TEXT) {
		assert_true(text.n > 0);
		log_bytes(&t->log, text.p, text.n);
	} else if (ev == JSON_OBJECT || ev == JSON_ARRAY) {
		json_as_text(&t->j, t->levels, "a");
	} else if (ev == JSON_OBJECT_END || ev == JSON_ARRAY_END) {
		t->ends++;
	} else {
		t->others++;
	}
}

/* Feed the first <first> bytes, then <step> bytes at a time; 0: the rest at once. */
static enum json_state text_feed(struct text_of *t, const struct json_scan *scan, uint16_t levels,
				 const char *p, size_t n, size_t first, size_t step)
{
	size_t k;

	t->log.n = 0;
	t->levels = levels;
	t->ends = t->others = 0;
	json_init(&t->j, DEPTH, text_event, t);
	t->j.scan = scan;
	json_feed(&t->j, p, first);
	for (p += first, n -= first; n > 0; p += k, n -= k) {
		k = step > 0 && step < n ? step : n;
		json_feed(&t->j, p, k);
	}
	return t->j.state;
}

static void compact(const char *p, size_t n, uint16_t levels, struct log *want)
{
	struct ref r = { (const unsigned char *)p, (const unsigned char *)p + n, NULL, DEPTH };

	want->n = 0;
	ref_eat(&r, "\xef\xbb\xbf");
	write_compact(&r, want, levels);
}

static void check_text(struct text_of *t, const struct log *want, enum json_state state,
    const char *p)
{
	assert_int_equal(state, JSON_DONE);
	if (t->log.n != want->n || memcmp(t->log.p, want->p, want->n) != 0)
		fail_msg("levels %d of %s: got\n%s\nwant\n%s", t->levels, p, t->log.p, want->p);
	assert_int_equal(t->ends, 1);
	assert_int_equal(t->others, 0);
}

static bool is_container(struct span s)
{
	while (s.n > 0 && strchr(" \t\r\n\xef\xbb\xbf", *s.p) != NULL)
		s.p++, s.n--;
	return s.n > 0 && (*s.p == '{' || *s.p == '[');
}

static const struct span texts[] = {
	C("{\"a\":1,\"b\":2,\"a\":[3],\"c\":{\"a\":4}}"), C("{\"a\":{\"a\":{\"a\":[{\"a\":1}]}}}"),
	C(" { \"b\" : 1 , \"\\u0061\" : { \"x\" : [ 1 , 2 ] } , \"c\" : \"a\" } "),
	C("[ {\"a\":\"x\\ny\"}, {\"b\":\"x\\ny\",\"a\":null}, {\"a\":true,\"c\":1}, \"a\", 2 ]"),
	C("[[{\"k\\\"\\\\\\/\":\"v\\\"\\\\\\/\\u0022\\u005c\\u00e9\",\"a\":-1.5e3}]]"),
	C("{\"a key that is longer than sixty-three bytes, but it begins with an a:\":1,\"a\":2}"),
	C("{\"b\":[\"a string that is longer than sixteen bytes\",\"and \xe4\xb8\xad\xe6\x96\x87 \xff "
		"\xe4\xb8\"]}"),
	C("{\"a\":\"\\ud83d\\ude00 \\ud83d \\\" cut\",\"b\":\"\\ud83d\\ude00 \\ud83d \\\" cut\"}"),
};

static void test_as_text(void **state)
{
	struct text_of t = { 0 };
	struct log want = { 0 };
	size_t n_texts = sizeof(texts) / sizeof(texts[0]), n_good = sizeof(good) / sizeof(good[0]);
	size_t i, at, form;
	uint16_t levels;

	for (i = 0; i < n_texts + n_good; i++) {
		struct span s = i < n_texts ? texts[i] : good[i - n_texts];
		uint8_t *copy = edge_copy(s.p, s.n);
		const char *p = (const char *)copy;

		for (levels = 0; levels < 5 && is_container(s); levels++) {
			compact(p, s.n, levels, &want);
			for (form = 0; form < n_forms(); form++) {
				for (at = 0; at <= s.n; at++)
					check_text(&t, &want, text_feed(&t, forms[form], levels, p, s.n, at, 0), p);
				for (at = 1; at < 4; at++)
					check_text(&t, &want, text_feed(&t, forms[form], levels, p, s.n, 0, at), p);
			}
		}
		edge_free(copy, s.n);
	}
	free(t.log.p);
	free(want.p);
}

/* One case spelled out by hand. */
static void test_as_text_by_hand(void **state)
{
	static const char text[] = "[ {\"a\":1, \"b\" : \"x\\n\\\"\\u0041\" , \"a\":{ } }, [ 1 , true ] ]";
	struct text_of t = { 0 };

	text_feed(&t, json_scan_best(), 2, text, sizeof(text) - 1, 0, 0);
	assert_string_equal(t.log.p, "[{\"b\":\"x\n\\\"A\"},[1,true]]");
	free(t.log.p);
}

/* The text of a value cut at any byte is a prefix of the whole text. */
static void test_as_text_cut(void **state)
{
	struct text_of whole = { 0 }, t = { 0 };
	size_t i, n;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		text_feed(&whole, json_scan_best(), 2, texts[i].p, texts[i].n, 0, 0);
		for (n = 0; n < texts[i].n; n++) {
			text_feed(&t, json_scan_best(), 2, texts[i].p, n, 0, 0);
			assert_true(t.log.n <= whole.log.n);
			if (t.log.n > 0)
				assert_memory_equal(t.log.p, whole.log.p, t.log.n);
		}
	}
	free(t.log.p);
	free(whole.log.p);
}

static void test_as_text_chance(void **state)
{
	struct log text = { 0 }, want = { 0 };
	struct text_of t = { 0 };
	struct rng rng;
	unsigned round;
	size_t form;

	rng_init(&rng, 21);
	for (round = 0; round < 10000; round++) {
		uint16_t levels = (uint16_t)rng_below(&rng, 4);

		text.n = 0;
		put_members(&rng, &text, 0, rng_below(&rng, 2));
		compact(text.p, text.n, levels, &want);
		for (form = 0; form < n_forms(); form++) {
			size_t first = rng_below(&rng, (uint32_t)text.n + 1), step = 1 + rng_below(&rng, 200);

			check_text(&t, &want, text_feed(&t, forms[form], levels, text.p, text.n, first, step),
				   text.p);
		}
	}
	free(text.p);
	free(want.p);
	free(t.log.p);
}

/* The three forms of the inner loop stop at the same byte for any input. */
static void test_scan(void **state)
{
	static const char bits[] = "aaaaaaaaab\"\\\n\x80\xbf\xc2\xc3\xe0\xa0\xe4\xb8\xed\xf0\x90\xf4\x8f";
	char text[200];
	struct rng rng;
	unsigned round;
	size_t i, n;

	rng_init(&rng, 4);
	for (round = 0; round < 100000; round++) {
		uint8_t *copy;
		const char *a;

		n = rng_below(&rng, sizeof(text));
		for (i = 0; i < n; i++) {
			if (rng_below(&rng, 40) == 0)
				text[i] = bits[rng_below(&rng, sizeof(bits) - 1)];
			else if (i + 3 < n && rng_below(&rng, 3) == 0 && memcpy(text + i, "\xe4\xb8\xad", 3))
				i += 2;
			else if (i + 4 < n && rng_below(&rng, 9) == 0 && memcpy(text + i, "\xf0\x9f\x98\x80", 4))
				i += 3;
			else
				text[i] = 'x';
		}
		if (round % 64 != 0) {	/* an unreadable page now and then, because it costs a system call */
			a = json_scan_plain.plain(text, text + n);
			for (i = 1; i < n_forms(); i++)
				assert_ptr_equal(forms[i]->plain(text, text + n), a);
			continue;
		}
		copy = edge_copy(text, n);
		a = json_scan_plain.plain((const char *)copy, (const char *)copy + n);
		for (i = 1; i < n_forms(); i++)
			assert_ptr_equal(forms[i]->plain((const char *)copy, (const char *)copy + n), a);
		edge_free(copy, n);
	}
}

struct skipper {
	struct json json;
	uint64_t upto;
	char events[64];
	size_t n;
};

static void skip_list(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct skipper *s = arg;

	s->events[s->n++] = (char)('a' + ev);
	if (ev == JSON_ARRAY)
		json_skip(&s->json, s->upto);
	if (ev == JSON_OBJECT_END)
		assert_int_equal(j->edge, 26);
}

static void a_value_that_is_left_out_has_no_further_events(void **state)
{
	static const char text[] = "{\"a\":[1,{\"b\":2}],\"c\":true}";
	static const enum json_event right[] = {
		JSON_OBJECT, JSON_KEY, JSON_ARRAY, JSON_KEY, JSON_TRUE, JSON_OBJECT_END
	};
	struct skipper s;

	for (size_t cut = 0; cut <= sizeof(text) - 1; cut++) {
		memset(&s, 0, sizeof(s));
		s.upto = 16;
		json_init(&s.json, 9, skip_list, &s);
		json_feed(&s.json, text, cut);
		assert_int_equal(json_feed(&s.json, text + cut, sizeof(text) - 1 - cut),
				 JSON_DONE);
		assert_int_equal(s.n, 6);
		for (unsigned i = 0; i < 6; i++)
			assert_int_equal(s.events[i], 'a' + right[i]);
	}
}

#define ENTERED	"{\"a\":\""

/* Enters an object that is at hand as far as ENTERED. */
static void enter_object(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct skipper *s = arg;
	struct span hand;

	s->events[s->n++] = (char)('a' + ev);
	if (ev == JSON_OBJECT_END)
		assert_int_equal(j->edge, 19);
	if (ev != JSON_OBJECT)
		return;
	hand = json_at_hand(j);
	assert_int_equal(j->edge, 1);
	assert_int_equal(hand.n, s->upto - 1);
	if (hand.n >= strlen(ENTERED) && memcmp(hand.p, ENTERED, strlen(ENTERED)) == 0)
		json_enter_string(&s->json, strlen(ENTERED));
}

static void a_string_that_is_entered_has_no_event_for_its_start(void **state)
{
	static const char text[] = "[{\"a\":\"x\\ny\",\"b\":1}]";
	static const enum json_event entered[] = {
		JSON_ARRAY, JSON_OBJECT, JSON_STRING_PART, JSON_STRING_PART, JSON_STRING_END, JSON_KEY,
		JSON_NUMBER, JSON_OBJECT_END, JSON_ARRAY_END
	};
	struct skipper s = { .upto = sizeof(text) - 1 };

	json_init(&s.json, 9, enter_object, &s);
	assert_int_equal(json_feed(&s.json, text, s.upto), JSON_DONE);
	assert_int_equal(s.n, sizeof(entered) / sizeof(entered[0]));
	for (unsigned i = 0; i < s.n; i++)
		assert_int_equal(s.events[i], 'a' + entered[i]);
	for (size_t cut = 2; cut < sizeof(text) - 1; cut++) {	/* at hand are only bytes of this call */
		memset(&s, 0, sizeof(s));
		s.upto = cut;
		json_init(&s.json, 9, enter_object, &s);
		assert_int_equal(json_feed(&s.json, text, cut), JSON_MORE);
		assert_int_equal(
		    json_feed(&s.json, text + cut, sizeof(text) - 1 - cut), JSON_DONE);
		assert_int_equal(s.events[s.n - 1], 'a' + JSON_ARRAY_END);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_decoded),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_bombs),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_moved),
		cmocka_unit_test(test_chance),
		cmocka_unit_test(test_as_text),
		cmocka_unit_test(test_as_text_by_hand),
		cmocka_unit_test(test_as_text_cut),
		cmocka_unit_test(test_as_text_chance),
		cmocka_unit_test(test_scan),
		cmocka_unit_test(a_value_that_is_left_out_has_no_further_events),
		cmocka_unit_test(a_string_that_is_entered_has_no_event_for_its_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
