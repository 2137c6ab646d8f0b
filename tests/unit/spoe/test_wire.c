/* test_wire.c - varints, strings and typed data, both ways. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "spoe/wire.h"
#include "tests/unit/edge.h"
#include "tests/unit/hex.h"

static const struct { uint64_t v; const char *bytes; } varints[] = {
	{ 0, "00" }, { 1, "01" }, { 239, "ef" },
	{ 240, "f0 00" }, { 241, "f1 00" }, { 255, "ff 00" }, { 256, "f0 01" }, { 2287, "ff 7f" },
	{ 2288, "f0 80 00" }, { 16380, "fc f0 06" }, { 264431, "ff ff 7f" },
	{ 264432, "f0 80 80 00" }, { 33818863, "ff ff ff 7f" },
	{ 33818864, "f0 80 80 80 00" }, { UINT32_MAX, "ff f0 fe fe 7e" },
	{ UINT64_C(4328786159), "ff ff ff ff 7f" }, { UINT64_C(4328786160), "f0 80 80 80 80 00" },
	{ INT64_MAX, "ff f0 fe fe fe fe fe fe fe 06" },
	{ UINT64_MAX - 1, "fe f0 fe fe fe fe fe fe fe 0e" },
	{ UINT64_MAX, "ff f0 fe fe fe fe fe fe fe 0e" },
};

#define N(a) (sizeof(a) / sizeof((a)[0]))

static void test_varints(void **state)
{
	uint8_t out[16];
	const uint8_t *p;
	struct spop_wr w;
	struct spop_rd r;
	struct hex h;
	uint64_t v;
	size_t i, n;

	for (i = 0; i < N(varints); i++) {
		h = hex(varints[i].bytes);
		w = (struct spop_wr){ out, 0, sizeof(out), false };
		spop_put_varint(&w, varints[i].v);
		assert_int_equal(w.n, h.n);
		assert_memory_equal(out, h.p, h.n);
		for (n = 0; n <= h.n; n++) {
			p = edge_copy(h.p, n);
			r = (struct spop_rd){ p, n };
			v = 42;
			if (n < h.n) {
				assert_int_equal(spop_get_varint(&r, &v), -SPOP_E_SHORT);
				assert_int_equal(r.left, n);
				assert_true(r.p == p && v == 42);
			} else {
				assert_int_equal(spop_get_varint(&r, &v), 0);
				assert_int_equal(r.left, 0);
				assert_true(v == varints[i].v);
			}
			edge_free(p, n);
		}
		for (n = 0; n < h.n; n++) {	/* a writer with too little room stays as it was */
			w = (struct spop_wr){ out, 0, n, false };
			spop_put_varint(&w, varints[i].v);
			assert_true(w.full);
			assert_int_equal(w.n, 0);
		}
		free(h.p);
	}
}

static void test_varints_out_of_range(void **state)
{
	static const char *const bad[] = {
		"f0 f1 fe fe fe fe fe fe fe 0e",	/* 2^64: one more than fits */
		"ff f0 fe fe fe fe fe fe fe 0f",
		"ff f0 fe fe fe fe fe fe fe 10",
		"ff f0 fe fe fe fe fe fe fe 7f",
		"ff ff ff ff ff ff ff ff ff 0f",
		"ff f0 fe fe fe fe fe fe fe 8e 00",	/* eleven bytes */
		"f0 80 80 80 80 80 80 80 80 80 00",
		"ff*11 00", "ff*64",
	};
	struct spop_rd r;
	struct hex h;
	uint64_t v;
	size_t i;

	for (i = 0; i < N(bad); i++) {
		h = hex(bad[i]);
		r = (struct spop_rd){ h.p, h.n };
		assert_int_equal(spop_get_varint(&r, &v), -SPOP_E_RANGE);
		assert_int_equal(r.left, h.n);
		free(h.p);
	}
}

/* Encode and decode numbers around every power of two and every step of length. */
static void test_varints_there_and_back(void **state)
{
	uint8_t out[16];
	struct spop_wr w;
	struct spop_rd r;
	uint64_t v, got;
	unsigned bit;
	int64_t d;

	for (bit = 0; bit < 64; bit++) {
		for (d = -300; d <= 300; d++) {
			v = (UINT64_C(1) << bit) + (uint64_t)d;
			w = (struct spop_wr){ out, 0, sizeof(out), false };
			spop_put_varint(&w, v);
			r = (struct spop_rd){ out, w.n };
			assert_int_equal(spop_get_varint(&r, &got), 0);
			assert_int_equal(r.left, 0);
			assert_true(got == v);
		}
	}
}

static const struct { struct spop_data d; const char *bytes; } data[] = {
	{ { SPOP_T_NULL }, "00" },
	{ { SPOP_T_BOOL, .b = false }, "01" },
	{ { SPOP_T_BOOL, .b = true }, "11" },
	{ { SPOP_T_INT32, .i = 0 }, "02 00" },
	{ { SPOP_T_INT32, .i = INT32_MAX }, "02 ff f0 fe fe 3e" },
	{ { SPOP_T_INT32, .i = -1 }, "02 ff f0 fe fe fe fe fe fe fe 0e" },
	{ { SPOP_T_INT32, .i = INT32_MIN }, "02 f0 f1 fe fe be fe fe fe fe 0e" },
	{ { SPOP_T_UINT32, .i = UINT32_MAX }, "03 ff f0 fe fe 7e" },
	{ { SPOP_T_INT64, .i = INT64_MAX }, "04 ff f0 fe fe fe fe fe fe fe 06" },
	{ { SPOP_T_INT64, .i = INT64_MIN }, "04 f0 f1 fe fe fe fe fe fe fe 06" },
	{ { SPOP_T_INT64, .i = -2 }, "04 fe f0 fe fe fe fe fe fe fe 0e" },
	{ { SPOP_T_UINT64, .u = UINT64_MAX }, "05 ff f0 fe fe fe fe fe fe fe 0e" },
	{ { SPOP_T_IPV4, .ip = { 192, 0, 2, 1 } }, "06 c0000201" },
	{ { SPOP_T_IPV6, .ip = { 0x20, 1, 0xd, 0xb8, [15] = 1 } }, "07 20010db8 00*11 01" },
	{ { SPOP_T_STR, .s = { "", 0 } }, "08 00" },
	{ { SPOP_T_STR, .s = { "route", 5 } }, "08 05 \"route\"" },
	{ { SPOP_T_BIN, .s = { "\0\xff", 2 } }, "09 02 00ff" },
};

static bool same(const struct spop_data *a, const struct spop_data *b)
{
	if (a->type != b->type)
		return false;
	switch (a->type) {
	case SPOP_T_NULL:	return true;
	case SPOP_T_BOOL:	return a->b == b->b;
	case SPOP_T_UINT64:	return a->u == b->u;
	case SPOP_T_IPV4:	return memcmp(a->ip, b->ip, 4) == 0;
	case SPOP_T_IPV6:	return memcmp(a->ip, b->ip, 16) == 0;
	case SPOP_T_STR:
	case SPOP_T_BIN:	return a->s.n == b->s.n && !memcmp(a->s.p, b->s.p, a->s.n);
	default:		return a->i == b->i;
	}
}

static void test_data(void **state)
{
	struct spop_data d;
	uint8_t out[64];
	const uint8_t *p;
	struct spop_wr w;
	struct spop_rd r;
	struct hex h;
	size_t i, n;

	for (i = 0; i < N(data); i++) {
		h = hex(data[i].bytes);
		w = (struct spop_wr){ out, 0, sizeof(out), false };
		spop_put_data(&w, &data[i].d);
		assert_int_equal(w.n, h.n);
		assert_memory_equal(out, h.p, h.n);
		for (n = 0; n <= h.n; n++) {
			p = edge_copy(h.p, n);
			r = (struct spop_rd){ p, n };
			if (n < h.n) {
				assert_int_equal(spop_get_data(&r, &d), -SPOP_E_SHORT);
				assert_int_equal(r.left, n);
			} else {
				assert_int_equal(spop_get_data(&r, &d), 0);
				assert_int_equal(r.left, 0);
				assert_true(same(&d, &data[i].d));
			}
			edge_free(p, n);
		}
		for (n = 0; n < h.n; n++) {	/* whole or not at all */
			w = (struct spop_wr){ out, 0, n, false };
			spop_put_data(&w, &data[i].d);
			assert_true(w.full);
			assert_int_equal(w.n, 0);
		}
		free(h.p);
	}
}

static void test_data_odd(void **state)
{
	static const struct { const char *bytes; int rc; int64_t i; } odd[] = {
		{ "02 ff f0 fe fe 7e", 0, -1 },				/* 32 bits are enough */
		{ "02 f0 f1 fe fe 3e", 0, INT32_MIN },
		{ "02 f0 f1 fe fe 7e", -SPOP_E_RANGE, 0 },			/* 2^32 */
		{ "02 ff f0 fe fe fe fe fe fe fe 06", -SPOP_E_RANGE, 0 },	/* 2^63 - 1 */
		{ "02 f0 f1 fe fe fe fe fe fe fe 06", -SPOP_E_RANGE, 0 },	/* -2^63 */
		{ "02 ff f0 fe fe be fe fe fe fe 0e", -SPOP_E_RANGE, 0 },	/* -2^31 - 1 */
		{ "03 f0 f1 fe fe 7e", -SPOP_E_RANGE, 0 },
		{ "03 ff f0 fe fe fe fe fe fe fe 0e", -SPOP_E_RANGE, 0 },
		{ "f2 07", 0, 7 },						/* flags of an INT32 */
		{ "0a 00", -SPOP_E_TYPE, 0 }, { "0b 00", -SPOP_E_TYPE, 0 }, { "0c 00", -SPOP_E_TYPE, 0 },
		{ "0d 00", -SPOP_E_TYPE, 0 }, { "0e 00", -SPOP_E_TYPE, 0 }, { "0f 00", -SPOP_E_TYPE, 0 },
		{ "08 ff f0 fe fe fe fe fe fe fe 0e 00", -SPOP_E_SHORT, 0 },	/* 2^64 - 1 bytes */
		{ "09 ff f0 fe fe fe fe fe fe fe 06 00", -SPOP_E_SHORT, 0 },
		{ "08 ff f0 fe fe fe fe fe fe fe 0f 00", -SPOP_E_RANGE, 0 },
	};
	struct spop_data d;
	const uint8_t *p;
	struct spop_rd r;
	struct hex h;
	size_t i;

	for (i = 0; i < N(odd); i++) {
		h = hex(odd[i].bytes);
		p = edge_copy(h.p, h.n);
		r = (struct spop_rd){ p, h.n };
		assert_int_equal(spop_get_data(&r, &d), odd[i].rc);
		if (odd[i].rc == 0)
			assert_true(d.i == odd[i].i && r.left == 0);
		else
			assert_int_equal(r.left, h.n);
		edge_free(p, h.n);
		free(h.p);
	}
}

static void test_views(void **state)
{
	static const struct { struct spop_data d; bool is_str, is_int; int64_t i; } views[] = {
		{ { SPOP_T_NULL }, false, false },
		{ { SPOP_T_BOOL, .b = true }, false, true, 1 },
		{ { SPOP_T_BOOL, .b = false }, false, true, 0 },
		{ { SPOP_T_INT32, .i = -7 }, false, true, -7 },
		{ { SPOP_T_UINT32, .i = UINT32_MAX }, false, true, UINT32_MAX },
		{ { SPOP_T_INT64, .i = INT64_MIN }, false, true, INT64_MIN },
		{ { SPOP_T_UINT64, .u = 7 }, false, true, 7 },
		{ { SPOP_T_UINT64, .u = INT64_MAX }, false, true, INT64_MAX },
		{ { SPOP_T_UINT64, .u = UINT64_C(1) << 63 }, false, true, INT64_MAX },
		{ { SPOP_T_IPV4 }, false, false }, { { SPOP_T_IPV6 }, false, false },
		{ { SPOP_T_STR, .s = { "a", 1 } }, true, false },
		{ { SPOP_T_BIN, .s = { "a", 1 } }, true, false },
	};
	struct spop_str s;
	int64_t v;
	size_t i;

	for (i = 0; i < N(views); i++) {
		v = 42;
		assert_int_equal(spop_data_str(&views[i].d, &s), views[i].is_str);
		assert_int_equal(spop_data_int(&views[i].d, &v), views[i].is_int);
		assert_true(v == (views[i].is_int ? views[i].i : 42));
		if (views[i].is_str)
			assert_true(s.n == 1 && *s.p == 'a');
	}
}

/* A full writer stays full: a shorter item after one that was left out is left out, too. */
static void test_full_stays(void **state)
{
	uint8_t out[4];
	struct spop_wr w = { out, 0, sizeof(out), false };

	spop_put_str(&w, "abc", 3);
	assert_int_equal(w.n, 4);
	assert_false(w.full);
	w.n = 1;
	spop_put_str(&w, "abc", 3);
	assert_true(w.full);
	assert_int_equal(w.n, 1);
	spop_put_varint(&w, 1);
	assert_int_equal(w.n, 1);
}

static uint32_t dice(uint32_t *seed, size_t n)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)*seed * n) >> 32);
}

static void usual_is_get(const uint8_t *bytes, size_t n, unsigned *read)
{
	const uint8_t *p = edge_copy(bytes, n);
	struct spop_rd fast = { p, n }, slow = { p, n };
	struct spop_str name, name_slow;
	struct spop_data d = { 0 }, d_slow;

	if (spop_get_usual_kv(&fast, &name, &d)) {
		assert_int_equal(spop_get_str(&slow, &name_slow), 0);
		assert_int_equal(spop_get_data(&slow, &d_slow), 0);
		assert_true(fast.p == slow.p);
		assert_int_equal(fast.left, slow.left);
		assert_true(name.p == name_slow.p && name.n == name_slow.n && d.type == d_slow.type);
		if (d.type == SPOP_T_INT64)
			assert_true(d.i == d_slow.i);
		else if (d.type != SPOP_T_NULL)
			assert_true(d.s.p == d_slow.s.p && d.s.n == d_slow.s.n);
		(*read)++;
	} else {
		assert_true(fast.p == p && fast.left == n);
	}
	edge_free(p, n);
}

/* Random items, and good ones with one byte changed, cut anywhere: what is read the short way is as
 * spop_get_str() and spop_get_data() read it. */
static void test_usual(void **state)
{
	static const char text[300] = "long";
	static const struct spop_data values[] = {
		{ SPOP_T_NULL }, { SPOP_T_BOOL, .b = true }, { SPOP_T_INT32, .i = 7 },
		{ SPOP_T_UINT32, .i = 239 }, { SPOP_T_INT64, .i = 240 }, { SPOP_T_UINT64, .u = 5 },
		{ SPOP_T_INT64, .i = 1764360000000 }, { SPOP_T_INT64, .i = INT64_MAX },
		{ SPOP_T_INT64, .i = (int64_t)1 << 60 }, { SPOP_T_INT64, .i = -1 },
		{ SPOP_T_IPV4 }, { SPOP_T_IPV6 }, { SPOP_T_STR, .s = { "text", 4 } },
		{ SPOP_T_BIN, .s = { "bytes", 5 } }, { SPOP_T_STR, .s = { "", 0 } },
		{ SPOP_T_BIN, .s = { text, sizeof(text) } },
	};
	unsigned random = 0, good = 0, changed = 0;
	uint32_t seed = 1;
	uint8_t out[512];

	for (unsigned i = 0; i < 40000; i++) {
		struct spop_wr w = { out, 0, sizeof(out), false };
		size_t n = dice(&seed, 24);

		for (size_t k = 0; k < n; k++)
			out[k] = (uint8_t)(dice(&seed, dice(&seed, 2) ? 256 : 18));
		usual_is_get(out, n, &random);
		spop_put_str(&w, "name", dice(&seed, 5));
		spop_put_data(&w, &values[dice(&seed, N(values))]);
		n = w.n;
		usual_is_get(out, n, &good);
		out[dice(&seed, n)] = (uint8_t)dice(&seed, 256);
		usual_is_get(out, n - dice(&seed, 2), &changed);
	}
	assert_true(random > 1000 && good > 16000 && changed > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_varints),
		cmocka_unit_test(test_varints_out_of_range),
		cmocka_unit_test(test_varints_there_and_back),
		cmocka_unit_test(test_data),
		cmocka_unit_test(test_data_odd),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_full_stays),
		cmocka_unit_test(test_usual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
