/* test_split_block.c - pieces found 64 bytes at a time are those of PCRE2 with the same pattern:
 * for random texts of a few characters each, whole, in parts, and with each instruction set. Texts
 * end at an unreadable page. */
#include "agent/base/rng.h"
#include "agent/tok/split/split_block.h"
#include "tests/unit/edge.h"
#include "tests/unit/tok/cases.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))
#define TEXTS		1500
#define TEXT_MOST	600

static const char *const deepseek[] = {
	"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
	("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]"
	 "+| ?[\\p{P}\\p{S}]+[\r\n]*|"
	 "\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
};

static const struct family {
	const char *name;
	split_block_fn *sets[2];
} families[] = {
#ifdef __x86_64__
#define SETS(f)	{ split_block_##f, split_block_##f##_avx2 }
#elif SIMD16
#define SETS(f)	{ split_block_##f, split_block_##f }
#else
#define SETS(f)	{ NULL, NULL }
#endif
	{ "cl100k", SETS(l3) }, { "qwen2", SETS(q2) }, { "qwen3.5", SETS(q35) },
	{ "cl100k-digits", SETS(digit_runs) }, { "o200k", SETS(o200k) }, { "tekken", SETS(tekken) },
	{ "kimi", SETS(kimi) }, { "gpt2", SETS(gpt2) }, { "deepseek", SETS(deepseek) },
};

/* What texts are made of. Each text takes some of them, and some often. */
static const char *const parts[] = {
	"a", "b", "Z", "T", "s", "re", "LL", "ve", "word", "Word", "wordWord", "HTTP",
	"averyveryverylongword",
	"1", "12", "123", "1234567", " ", " ", "  ", "        ", "\t", "\t\t\t", "\n",
	"\n\n", "\r\n", "\r",
	" \n", "\n \n", "\n   \n   ", "\v", "\f", "'", "'s", "'S", "'t", "'re", "'Re",
	"'rE", "'ll", "'lx", "'v",
	"'\xc5\xbf", "'s's", "''", "(", ")", "((", "()", ";\n", ";\n/", "/", "//",
	"/*", "\"", ". ", ", ", "- ",
	"====================", "\x01", "\x1f", "\x7f", "\x1c", "é", "É", "ß", "×",
	"÷", "я", "Я", "ѐ", "Ωω",
	"ʰ", "ª", "ǅ", "中", "文", "漢字", "中文漢字中文漢字", "。", "，", "、", "「", "」", "ー", "・", "カ", "が",
	"か\xe3\x82\x99", "한", "국어", "ꦀ", "䷀", "䶿", "䷿", "一", "龥", "龦", "鿿", "ꀀ", "퟿", "가", "힣", "ힰ",
	"\xc2\xa0", "\xe3\x80\x80", "\xe2\x80\x83", "\xe2\x80\xa8", "\xe1\xa0\x8e",
	"\xc2\x85", "½", "٣", "٣٤٥٦",
	"Ⅷ", "e\xcc\x81", "\xcc\x81", "ก", "ก็", "हि", "“", "”", "‘", "’", "…", "😀",
	"👨\xe2\x80\x8d👩", "𝒜", "𠀀",
	"\xe2\x80\x8b", "\xef\xbb\xbf", "\xee\x80\x80", "\xef\xbf\xbd", "\xcd\xb8", "〇", "々", "ᄀ", "豈",
	"Ѐ", "Џб", "бЯ", "џѠ", "Αα", "Ρ\xce\xa2Σ", "Ωά", "ώϏ", "ϊΪΫ", "ΐ", "த", "தி", "ქართ",
	"⺀", "〡", "〢〣", "㐀", "क", "का", "हिन्दी", "ไทย", "ที่", "แก้",
	"\xe0\xa3\xbf", "\xe0\xa4\x80", "\xe0\xa4\x83\xe0\xa4\x84", "\xe0\xa4\xbc",
	"\xe0\xa5\xa3", "\xe0\xa5\xa4", "\xe0\xa5\xa5", "\xe0\xa5\xa6", "\xe0\xa5\xb0",
	"\xe0\xa5\xb1", "\xe0\xa5\xbf", "\xe0\xb8\x80", "\xe0\xb8\x81", "\xe0\xb8\xb1",
	"\xe0\xb8\xba", "\xe0\xb8\xbb", "\xe0\xb8\xbf", "\xe0\xb9\x80", "\xe0\xb9\x87",
	"\xe0\xb9\x8e", "\xe0\xb9\x8f", "\xe0\xb9\x90", "\xe0\xb9\x9b", "\xcc\x80",
	"\xe2\x83\x9d", "\xe3\x80\xaa",
};

static struct split *split_of(const char *family, bool grouped)
{
	struct split_step step[3] = { { 0 } };
	const char *pattern[3] = { split_known_pattern(family).p };
	static char text[2048];
	struct split *s;
	size_t i, n = 1;

	if (strcmp(family, "deepseek") == 0)
		for (n = 0; n < 3; n++)
			pattern[n] = deepseek[n];
	if (grouped) {		/* no family */
		snprintf(text, sizeof(text), "(?:%s)", pattern[n - 1]);
		pattern[n - 1] = text;
	}
	for (i = 0; i < n; i++)
		step[i] = (struct split_step){ .kind = STEP_REGEX, .pattern = span_str(pattern[i]),
			.behaviour = SPLIT_ISOLATED };
	s = split_new(step, n, NULL);
	assert_non_null(s);
	assert_int_equal(strcmp(split_traits(s).name, family) == 0, !grouped);
	return s;
}

static size_t make_text(struct rng *r, uint8_t *to)
{
	size_t n = 0, most = 1 + rng_below(r, TEXT_MOST), few = 1 + rng_below(r, 12), i, len;
	const char *some[12];

	for (i = 0; i < few; i++)
		some[i] = parts[rng_below(r, rng_below(r, 2) ? COUNT(parts) : 62)];
	while (n < most) {
		const char *w = rng_below(r, 30) ? some[rng_below(r, few)] : parts[rng_below(r, COUNT(parts))];

		len = strlen(w);
		if (n + len > most)
			break;
		memcpy(to + n, w, len);
		n += len;
	}
	return n;
}

/* Whether every end that a set of instructions finds from each piece on is one of <want>. */
static void check_set(split_block_fn *block, const uint8_t *p, const struct case_text *want)
{
	uint32_t to[SPLIT_BATCH], at = 0, n, i;
	size_t k = 0;

	for (; at < want->n && block != NULL; at = want->end[k++]) {
		n = block(p + at, want->n - at, at, to, SPLIT_BATCH);
		for (i = 0; i < n; i++)
			if (k + i >= want->n_pieces || to[i] != want->end[k + i])
				fail_msg("from %u: piece %u ends at %u", at, i, to[i]);
	}
}

/* Given by <by> bytes, whole pieces only. */
static void check_stream(const struct split *s, struct split_scratch *c,
    const struct case_text *want, size_t by)
{
	static struct pieces b;
	size_t have, at = 0, k = 0, i;

	for (have = by; at < want->n; have = have + by < want->n ? have + by : want->n) {
		have = have < want->n ? have : want->n;
		do {
			assert_int_equal(split_next(s, c, want->p + at, have - at, at == 0, have == want->n, &b), 0);
			for (i = 0; i < b.n; i++)
				assert_int_equal(at + b.end[i], want->end[k++]);
			at += b.used;
		} while (b.n > 0);
	}
	assert_int_equal(k, want->n_pieces);
}

static void check(const struct family *f, struct rng *r, size_t texts)
{
	static struct case_text want, got;
	struct split *hand = split_of(f->name, false), *pcre = split_of(f->name, true);
	struct split_scratch *c = split_scratch_new();
	uint8_t text[TEXT_MOST], *p;
	size_t n;

	while (texts-- > 0) {
		n = make_text(r, text);
		p = edge_copy(text, n);
		case_split(pcre, c, p, n, &want);
		case_split(hand, c, p, n, &got);
		if (!case_same(&got, &want)) {
			case_print("want ", &want);
			case_print("got  ", &got);
			fail_msg("family %s: other pieces", f->name);
		}
		check_set(f->sets[0], p, &want);
#ifdef __x86_64__
		if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
		    __builtin_cpu_supports("popcnt"))
			check_set(f->sets[1], p, &want);
#endif
		check_stream(hand, c, &want, 1 + rng_below(r, 200));
		edge_free(p, n);
	}
	split_free(hand);
	split_free(pcre);
	split_scratch_free(c);
}

static void blocks_match_the_patterns(void **state)
{
	const char *texts = getenv("TEXTS"), *seed = getenv("SEED");
	struct rng r;
	size_t i;

	rng_init(&r, seed != NULL ? strtoull(seed, NULL, 10) : 1);
	for (i = 0; i < COUNT(families); i++)
		check(&families[i], &r, texts != NULL ? strtoul(texts, NULL, 10) : TEXTS);
}

/* A long text is mostly found in blocks, in batches of which each is nearly full. */
static void batches(void **state)
{
	static uint8_t text[CASE_MOST];
	static struct pieces b;
	struct split *s = split_of("cl100k", false);
	struct split_scratch *c = split_scratch_new();
	size_t i, n = sizeof(text), pieces = 0;

	for (i = 0; i < n; i++)
		text[i] = i % 2 ? 'a' : ' ';
	for (i = 0; i < n; i += b.used) {
		assert_int_equal(split_next(s, c, text + i, n - i, PART_FIRST, true, &b), 0);
		assert_true(b.n <= SPLIT_BATCH && (b.n > SPLIT_BATCH / 2 || i + b.used == n));
		pieces += b.n;
	}
	assert_int_equal(pieces, n / 2);
	split_free(s);
	split_scratch_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_match_the_patterns),
		cmocka_unit_test(batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
