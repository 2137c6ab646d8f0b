/* test_split_rows.c - a chain with a scanner of its own gives the same pieces as its steps do:
 * whole, cut in two at every place, byte by byte, for each kind of character next to each other,
 * and for texts of more than one batch. */
#include "agent/base/rng.h"
#include "agent/tok/unicode/unicode.h"
#include "tests/unit/edge.h"
#include "tests/unit/tok/cases.h"
#include "tests/unit/tok/rows.h"

static struct split *hand[ROWS_OF_STEPS], *slow[ROWS_OF_STEPS];
static struct split_scratch *scratch;

static struct split *make(const struct split_step *steps, size_t n)
{
	struct err e;
	struct split *s = split_new(steps, n, &e);

	if (s == NULL)
		fail_msg("%s", e.text);
	return s;
}

static int set_up(void **state)
{
	scratch = split_scratch_new();
	for (size_t i = 0; i < ROWS_OF_STEPS; i++) {
		hand[i] = make(rows_of_steps[i].step, rows_of_steps[i].n);
		slow[i] = make(rows_of_steps[i].slow, rows_of_steps[i].n);
		assert_string_equal(split_traits(hand[i]).name, rows_of_steps[i].name);
		assert_string_equal(split_traits(slow[i]).name, "chain");
	}
	return scratch == NULL;
}

static int tear_down(void **state)
{
	for (size_t i = 0; i < ROWS_OF_STEPS; i++) {
		split_free(hand[i]);
		split_free(slow[i]);
	}
	split_scratch_free(scratch);
	return 0;
}

/* Split the text in parts: <cut> bytes and the rest, or <by> bytes at a time. Only for chains that
 * stream. */
static void in_parts(const struct split *s, const struct case_text *want, size_t cut, size_t by)
{
	static struct pieces b;
	size_t have = 0, at = 0, k = 0;

	while (have < want->n) {
		have = by ? have + by : have ? want->n : cut;
		have = have < want->n ? have : want->n;
		do {
			uint8_t *p = edge_copy(want->p + at, have - at);

			assert_int_equal(split_next(s, scratch, p, have - at, PART_SEGMENT,
						    have == want->n, &b),
					 0);
			for (uint32_t i = 0; i < b.n; i++, k++)
				if (k >= want->n_pieces || at + b.end[i] != want->end[k])
					fail_msg("cut %zu by %zu: piece %zu ends at %zu", cut, by,
						 k, at + b.end[i]);
			edge_free(p, have - at);
			at += b.used;
		} while (b.n > 0);
	}
	assert_int_equal(k, want->n_pieces);
}

static void compare(size_t row, const uint8_t *text, size_t n, bool parts)
{
	static struct case_text a, b;
	uint8_t *p = edge_copy(text, n);

	case_split(hand[row], scratch, p, n, &a);
	case_split(slow[row], scratch, p, n, &b);
	edge_free(p, n);
	if (!case_same(&a, &b)) {
		case_print("hand  ", &a);
		case_print("steps ", &b);
		fail_msg("chain %s: other pieces than by its steps", rows_of_steps[row].name);
	}
	if (!parts || !split_traits(hand[row]).streams)
		return;
	for (size_t cut = 1; cut < n; cut++)
		in_parts(hand[row], &b, cut, 0);
	in_parts(hand[row], &b, 0, 1);
}

/* Some characters of each class that a step distinguishes. */
static const char *const alphabet[] = {
	" ",
	" ",
	"  ",
	"\n",
	"\r",
	"\t",
	"\x0b",
	"a",
	"b",
	"Z",
	"foo",
	"1",
	"23",
	"4567",
	"+",
	"=",
	"^",
	"$",
	"!",
	".",
	"'s",
	"(",
	")",
	"\x01",
	"\x7f",
	"é",
	"ß",
	"ж",
	"中",
	"文",
	"日本",
	"ー",
	"한",
	"ा",
	"क",
	"१",
	"½",
	"²",
	"٣",
	"。",
	"，",
	"、",
	"　",
	"！",
	"Ａ",
	"ａ",
	"１",
	"‘",
	"”",
	"—",
	"\xe2\x80\x83",
	"\xe2\x80\xa8",
	"\xc2\xa0",
	"\xc2\x85",
	"©",
	"€",
	"Ⅷ",
	"ↄ",
	"ᴀ",
	"Ⅎ",
	"岲",
	"岼",
	"\xf0\x9f\x98\x80",
	"\xf0\x9d\x9f\x99",
	"\xcc\x81",
	"\xe1\x9a\x80",
	"᙭",
	"⹃",
	"ƻ",
	"ʔ",
	"\xed\x9f\xbf",
	"\xef\xbf\xbd",
};
#define ALPHABET	(sizeof(alphabet) / sizeof(alphabet[0]))

static size_t random_text(struct rng *r, uint8_t *out, size_t most)
{
	uint32_t base = rng_below(r, ALPHABET), width = 1 + rng_below(r, ALPHABET);
	size_t n = 0;

	for (uint32_t parts = 1 + rng_below(r, 30); parts > 0; parts--) {
		const char *s = alphabet[(base + rng_below(r, width)) % ALPHABET];

		if (n + strlen(s) > most)
			break;
		memcpy(out + n, s, strlen(s));
		n += strlen(s);
	}
	return n;
}

static void random_texts(void **state)
{
	uint8_t text[200];
	struct rng r;

	rng_init(&r, 1);
	for (unsigned i = 0; i < 4000; i++) {
		size_t n = random_text(&r, text, sizeof(text));

		for (size_t row = 0; row < ROWS_OF_STEPS; row++)
			compare(row, text, n, i % 8 == 0);
	}
}

/* Any two entries of <alphabet> next to each other, with a third after them. */
static void neighbours(void **state)
{
	static uint8_t text[CASE_MOST];

	for (size_t a = 0; a < ALPHABET; a++)
		for (size_t row = 0; row < ROWS_OF_STEPS; row++) {
			size_t n = 0;

			for (size_t b = 0; b < ALPHABET; b++) {
				n += (size_t)sprintf((char *)text + n, "%s%s%s\n", alphabet[a],
						     alphabet[b], alphabet[(a + b) % ALPHABET]);
				n += (size_t)sprintf((char *)text + n, "+%s%s.", alphabet[b],
						     alphabet[a]);
			}
			assert_true(n < sizeof(text));
			compare(row, text, n, false);
		}
}

/* Each Unicode character at the edge of a run of one class, and one in 97 of the others. */
static void every_class(void **state)
{
	static uint8_t text[CASE_MOST];
	struct uc_kind before = { 0, 0 };
	unsigned class = 0;
	size_t n = 0;

	for (uint32_t cp = 0x80; cp < 0x110000; cp++) {
		bool edge = uc_class(cp) != class || uc_kind(cp).bits != before.bits;

		class = uc_class(cp);
		before = uc_kind(cp);
		if ((cp >= 0xd800 && cp < 0xe000) || (!edge && cp % 97 != 0))
			continue;
		for (uint32_t k = cp - edge; k <= cp; k++) {
			if (k >= 0xd800 && k < 0xe000)
				continue;
			n += utf8_put(text + n, k);
			text[n++] = 'a';
			n += utf8_put(text + n, k);
			text[n++] = ' ';
			n += utf8_put(text + n, k);
			text[n++] = '1';
			n += utf8_put(text + n, k);
			text[n++] = '+';
			text[n++] = ' ';
		}
		if (n < 4000 && cp < 0x10ffff - 97)
			continue;
		for (size_t row = 0; row < ROWS_OF_STEPS; row++)
			compare(row, text, n, false);
		n = 0;
	}
}

static void long_runs(void **state)
{
	static uint8_t text[CASE_MOST];

	for (size_t a = 0; a < ALPHABET; a++)
		for (size_t b = 0; b < ALPHABET; b += 5) {
			size_t n = 0;

			while (n < 2200)
				n += (size_t)sprintf((char *)text + n, "%s%s", alphabet[a],
						     alphabet[b]);
			for (size_t row = 0; row < ROWS_OF_STEPS; row++)
				compare(row, text, n, false);
		}
}

/* Each piece costs at least one step of work, here in a text with a piece for each character. */
static void pieces_cost_work(void **state)
{
	static struct case_text out;
	static uint8_t text[1500];
	struct work_left w;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = "a+"[i % 2];
	for (size_t row = 0; row < ROWS_OF_STEPS; row++) {
		w.left = 100000;
		split_scratch_work(scratch, &w);
		case_split(hand[row], scratch, text, sizeof(text), &out);
		assert_int_equal(out.n_pieces, sizeof(text));
		assert_true(100000 - w.left >= sizeof(text));
	}
	split_scratch_work(scratch, NULL);
}

/* A chain with one step less, one step more or another flag does not get the scanner. */
static void other_chains_have_no_scanner(void **state)
{
	for (size_t row = 0; row < ROWS_OF_STEPS; row++)
		for (size_t i = 0; i < rows_of_steps[row].n; i++) {
			struct split_step step[ROW_STEPS];
			struct split *s;

			memcpy(step, rows_of_steps[row].step, sizeof(step));
			if (step[i].kind == STEP_REGEX)
				step[i].invert = true;
			else if (step[i].kind == STEP_BYTE_LEVEL)
				step[i].add_prefix_space = true;
			else if (step[i].kind == STEP_DIGITS)
				step[i].individual = !step[i].individual;
			else
				step[i].behaviour = SPLIT_ISOLATED;
			s = make(step, rows_of_steps[row].n);
			assert_string_equal(split_traits(s).name, "chain");
			split_free(s);
			s = make(rows_of_steps[row].step + 1, rows_of_steps[row].n - 1);
			assert_string_equal(split_traits(s).name, "chain");
			split_free(s);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_texts),
		cmocka_unit_test(neighbours),
		cmocka_unit_test(every_class),
		cmocka_unit_test(long_runs),
		cmocka_unit_test(pieces_cost_work),
		cmocka_unit_test(other_chains_have_no_scanner),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
