/* test_unicode.c - the Unicode tables: every code point against PCRE2, which has its own tables,
 * and the size of each class against unicodedata2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "agent/tok/unicode/unicode.h"

#define END	0x110000u
#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

static bool is_char(uint32_t cp)
{
	return cp - 0xd800 > 0x7ff;
}

/* Set <bit> in <bits> for each character that matches <pattern>, in one text of all characters. */
static void mark(uint8_t *bits, uint8_t bit, const char *pattern)
{
	int code;
	PCRE2_SIZE at;
	pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
	    PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
	pcre2_match_data *d = pcre2_match_data_create(1, NULL);
	uint8_t *text = malloc(4 * END);
	uint32_t cp;
	size_t n = 0, from = 0;

	for (cp = 0; cp < END; cp++)
		if (is_char(cp))
			n += utf8_put(text + n, cp);
	assert_non_null(re);
	while (pcre2_match(re, text, n, from, PCRE2_NO_UTF_CHECK, d, NULL) >= 0) {
		const PCRE2_SIZE *v = pcre2_get_ovector_pointer(d);

		for (from = v[0]; from < v[1]; ) {
			from += utf8_get(text + from, n - from, &cp);
			bits[cp] |= bit;
		}
	}
	pcre2_match_data_free(d);
	pcre2_code_free(re);
	free(text);
}

/* The tables may differ only for characters that one of them does not know yet. */
static void classes_match_pcre2(void **state)
{
	static const struct { uint8_t bit; const char *pattern; } sets[] = {
		{ UC_LETTER_LOWER, "\\p{Ll}+" }, { UC_LETTER_UPPER, "[\\p{Lu}\\p{Lt}]+" },
		{ UC_LETTER_OTHER, "[\\p{Lm}\\p{Lo}]+" },
		{ UC_MARK, "\\p{M}+" }, { UC_NUMBER, "\\p{N}+" }, { UC_PUNCT_SYMBOL, "[\\p{P}\\p{S}]+" },
		{ UC_SPACE, "[\\x09-\\x0d\\x{85}\\p{Z}]+" },
	};
	uint8_t *bits = calloc(1, END), *none = calloc(1, END);
	uint32_t cp, differ = 0;
	size_t i;

	for (i = 0; i < COUNT(sets); i++)
		mark(bits, sets[i].bit, sets[i].pattern);
	mark(none, 1, "\\p{Cn}+");
	for (cp = 0; cp < END; cp++) {
		uint8_t have = uc_class(cp) & 0x7f;

		if (!is_char(cp) || have == bits[cp])
			continue;
		if (have != 0 && !none[cp])
			fail_msg("U+%04X: %02x here, %02x in PCRE2", (unsigned)cp, have, bits[cp]);
		differ++;
	}
	assert_true(differ < 20000);
	free(bits);
	free(none);
}

static void counts_match_unicode_16(void **state)
{
	static const uint32_t want[8] = { 2258, 1889, 136881, 2501, 1911, 9369, 25, 99030 };
	uint32_t have[8] = { 0 }, cp;
	size_t i;

	for (cp = 0; cp < END; cp++)
		for (i = 0; i < 8; i++)
			have[i] += uc_class(cp) >> i & 1;
	for (i = 0; i < 8; i++)
		assert_int_equal(have[i], want[i]);
}

static void some_characters(void **state)
{
	static const struct { uint32_t cp; uint8_t want; } cases[] = {
		{ 'a', UC_LETTER_LOWER }, { 'Z', UC_LETTER_UPPER }, { '0', UC_NUMBER }, { ' ', UC_SPACE },
		{ '\n', UC_SPACE }, { '\0', 0 },
		{ '_', UC_PUNCT_SYMBOL }, { '+', UC_PUNCT_SYMBOL }, { 0x7f, 0 }, { 0x85, UC_SPACE },
		{ 0xaa, UC_LETTER_OTHER },
		{ 0xb2, UC_NUMBER }, { 0x1c5, UC_LETTER_UPPER }, { 0x301, UC_MARK }, { 0x180e, 0 }, { 0x200b, 0 },
		{ 0x3000, UC_SPACE },
		{ 0x3007, UC_NUMBER | UC_HAN }, { 0x3005, UC_LETTER_OTHER | UC_HAN },
		{ 0x2e80, UC_PUNCT_SYMBOL | UC_HAN },
		{ 0x4e00, UC_LETTER_OTHER | UC_HAN }, { 0x3042, UC_LETTER_OTHER }, { 0x1fa77, UC_PUNCT_SYMBOL },
		{ 0x323af, UC_LETTER_OTHER | UC_HAN }, { 0xd800, 0 }, { 0x10ffff, 0 }, { 0x110000, 0 },
		{ UINT32_MAX, 0 },
	};
	size_t i;

	for (i = 0; i < COUNT(cases); i++)
		if (uc_class(cases[i].cp) != cases[i].want)
			fail_msg("U+%04X: class %02x", (unsigned)cases[i].cp, uc_class(cases[i].cp));
}

static void utf8_round_trip(void **state)
{
	uint8_t p[4] = { 0 };
	uint32_t cp, got;
	size_t n;

	for (cp = 0; cp < END; cp++) {
		n = utf8_put(p, cp);
		assert_int_equal(n, cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4);
		assert_int_equal(utf8_get(p, n, &got), n);
		assert_int_equal(got, cp);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_match_pcre2),
		cmocka_unit_test(counts_match_unicode_16),
		cmocka_unit_test(some_characters),
		cmocka_unit_test(utf8_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
