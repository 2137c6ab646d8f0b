/* split - a text for a pre-tokenizer or a normalizer.
 *
 * The first byte modulo 4 selects the input; bytes that are not UTF-8 become U+FFFD.
 *   0  family, text: compare the hand-written scanner with PCRE2 and the same pattern, and with
 *      itself in two parts and by single bytes
 *   1  how, pattern, NUL, text: a rejected pattern has a sentence; an accepted one gives pieces
 *      that add up to the text, and the same pieces again
 *   2  steps, text: a chain; pieces of steps that drop nothing add up to the text, and none is
 *      empty
 *   3  steps, text: a chain of normalizers; normalizing twice changes nothing; enough is held back
 *      at the end
 * No pattern may read outside the text, which ends at the end of its memory. */
#include "agent/tok/normal.h"
#include "agent/tok/split/split.h"
#include "agent/base/utf8.h"
#include "tests/fuzz/lib/fuzz.h"
#include "tests/unit/tok/rows.h"

#define PIECES_MOST	(1 << 16)
#define PATTERN_MOST	120
#define TEXT_MOST	4000
#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

/* Pieces as bytes in a row, and where they end. */
struct result {
	uint8_t *p;
	size_t n, cap;
	uint32_t end[PIECES_MOST];
	size_t n_pieces;
	bool gave_up;
};

static void result_add(struct result *r, const struct pieces *b)
{
	size_t bytes = b->n ? b->end[b->n - 1] : 0;
	uint32_t i;

	if (r->n + bytes > r->cap) {
		r->cap = 2 * (r->n + bytes);
		r->p = must_alloc(realloc(r->p, r->cap));
	}
	if (bytes)
		memcpy(r->p + r->n, b->text, bytes);
	for (i = 0; i < b->n; i++) {
		must(r->n_pieces < PIECES_MOST);
		must(b->end[i] > (i ? b->end[i - 1] : 0));
		r->end[r->n_pieces++] = (uint32_t)r->n + b->end[i];
	}
	r->n += bytes;
}

/* The text given in two, or by <by> bytes, or (0, 0) at once. */
static void run(const struct split *s, struct split_scratch *c, const char *text, size_t n,
    size_t cut, size_t by, struct result *r)
{
	static struct pieces b;
	size_t have = 0, at = 0;
	bool last;
	char *p;

	r->n = r->n_pieces = 0;
	r->gave_up = false;
	do {
		size_t from = 0, left;

		have = have == 0 && cut ? cut : by ? have + by : n;
		have = have < n ? have : n;
		last = have == n;
		left = have - at;
		p = exact(text + at, left);
		do {
			if (split_next(s, c, (const uint8_t *)p + from, left - from, at + from == 0, last, &b) < 0) {
				split_scratch_forget(c);
				r->gave_up = true;
				free(p);
				return;
			}
			result_add(r, &b);
			must(b.used <= left - from);
			from += b.used;
		} while (b.n > 0 && from < left);
		must(!last || from == left);
		free(p);
		at += from;
	} while (!last);
}

static void check_same(const struct result *a, const struct result *b)
{
	must(a->n == b->n && a->n_pieces == b->n_pieces && a->gave_up == b->gave_up);
	must(a->n == 0 || memcmp(a->p, b->p, a->n) == 0);
	must(a->n_pieces == 0 || memcmp(a->end, b->end, a->n_pieces * sizeof(a->end[0])) == 0);
}

static void check_text(const struct result *r, const char *text, size_t n)
{
	must(r->n == n && (n == 0 || memcmp(r->p, text, n) == 0));
}

static struct result one, two;

/* ---- families ---------------------------------------------------------------------------- */

#define CJK		"[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+"
#define DEEPSEEK	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" \
	"[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
			" ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char *const families[] = {
	"cl100k", "qwen2", "qwen3.5", "cl100k-digits", "o200k", "tekken", "kimi", "gpt2", "deepseek",
	"deepseek-coder", "deepseek-llm", "falcon",
};

/* Made once. <wrap>: in a group, which makes it a pattern that is not known. */
static struct split *make_family(const char *name, bool wrap)
{
	const char *pattern[3] = { "\\p{N}{1,3}", CJK, DEEPSEEK };
	struct split_step step[3];
	static char text[2048];
	struct err e;
	size_t i, n = 3;

	for (i = 0; i < ROWS_OF_STEPS; i++)
		if (strcmp(name, rows_of_steps[i].name) == 0)
			return must_alloc(
			    split_new(wrap ? rows_of_steps[i].slow : rows_of_steps[i].step,
				rows_of_steps[i].n, &e));

	if (split_known_pattern(name).p != NULL) {
		pattern[0] = split_known_pattern(name).p;
		n = 1;
	}
	if (wrap) {
		snprintf(text, sizeof(text), "(?:%s)", pattern[n - 1]);
		pattern[n - 1] = text;
	}
	for (i = 0; i < n; i++)
		step[i] = (struct split_step){ .kind = STEP_REGEX,
			.pattern = span_str(pattern[i]),
			.behaviour = SPLIT_ISOLATED };
	return must_alloc(split_new(step, n, &e));
}

static void check_family(struct input *in, struct split_scratch *c, const char *text, size_t n)
{
	static struct split *hand[COUNT(families)], *pcre[COUNT(families)];
	unsigned k = in_u8(in) % COUNT(families);
	size_t cut = in_u16(in) % (n + 1);

	if (hand[k] == NULL) {
		hand[k] = make_family(families[k], false);
		pcre[k] = make_family(families[k], true);
		must(strcmp(split_traits(hand[k]).name, families[k]) == 0 && !split_traits(pcre[k]).streams);
	}
	run(hand[k], c, text, n, 0, 0, &one);
	check_text(&one, text, n);
	run(pcre[k], c, text, n, 0, 0, &two);
	check_same(&one, &two);
	if (!split_traits(hand[k]).streams)
		return;
	run(hand[k], c, text, n, cut, 0, &two);
	check_same(&one, &two);
	run(hand[k], c, text, n, 0, 1, &two);
	check_same(&one, &two);
}

/* ---- patterns and chains ----------------------------------------------------------------- */

static void check_split(const struct split *s, struct split_scratch *c, const char *text, size_t n)
{
	run(s, c, text, n, 0, 0, &one);
	if (!one.gave_up && !split_traits(s).rewrites)
		check_text(&one, text, n);
	run(s, c, text, n, 0, 0, &two);
	check_same(&one, &two);
}

static void check_pattern(
    unsigned how, struct span pattern, struct split_scratch *c, const char *text, size_t n)
{
	struct split_step step = { .kind = how & 1 ? STEP_STRING : STEP_REGEX,
		.pattern = pattern,
		.invert = how >> 1 & 1,
		.behaviour = (enum split_behaviour)((how >> 2) % 5) };
	struct err e = { .text = "" };
	struct split *s = split_new(&step, 1, &e);

	must(s != NULL || strncmp(e.text, "step 1 of the pre-tokenizer, Split: ", 36) == 0);
	if (s != NULL)
		check_split(s, c, text, n);
	split_free(s);
}

static void check_chain(struct input *in, struct split_scratch *c, const char *text, size_t n)
{
	static const char *const patterns[] = { "\\s+", "\\p{N}{1,3}", "[\\w&&[^a-f]]+",
		"(?i:ss|a)|^", "\\b.", "[^\\s\\p{L}]+$" };
	struct split_step step[4];
	struct err e = { .text = "" };
	struct split *s;
	size_t i, k = in_u8(in) % 5;

	for (i = 0; i < k; i++) {
		uint8_t a = in_u8(in), b = in_u8(in);

		step[i] = (struct split_step){ .kind = (enum split_kind)(a % 9),
			.behaviour = (enum split_behaviour)(b % 5),
			.invert = a & 32,
			.use_regex = a & 64,
			.add_prefix_space = a & 128,
			.individual = b & 32,
			.split = b & 64,
			.prepend = b >> 6,
			.pattern = span_str(patterns[a / 9 % COUNT(patterns)]) };
		if (step[i].kind >= STEP_CHAR_DELIMITER)
			step[i].pattern = b & 16 ? SPAN("\xe2\x96\x81") : SPAN("a");
	}
	if ((s = split_new(step, k, &e)) == NULL) {
		must(e.text[0] != '\0');
		return;
	}
	check_split(s, c, text, n);
	split_free(s);
}

/* ---- normalizers ------------------------------------------------------------------------- */

static char *normal_copy(
    const struct normal *m, struct normal_buf *b, const char *text, size_t n, size_t *out_n)
{
	char *p = exact(text, n), *copy;
	struct span out;

	normal_run(m, b, span_of(p, n), &out);
	must(out.p != NULL);
	copy = exact(out.p, out.n);
	*out_n = out.n;
	free(p);
	return copy;
}

static void check_normal(struct input *in, const char *text, size_t n)
{
	struct normal_step step[3];
	struct normal_buf b = { .work = NULL };
	size_t i, k = 1 + in_u8(in) % 3, whole, again;
	struct normal *m;
	struct err e;
	char *a, *x;

	for (i = 0; i < k; i++) {
		uint8_t a0 = in_u8(in);

		step[i] = (struct normal_step){ .kind = (enum normal_kind)(a0 % 10),
			.pattern = a0 & 64 ? SPAN("\\w|a*") : SPAN(" "),
			.content = a0 & 128 ? SPAN("\xe2\x96\x81") : SPAN(""),
			.regex = a0 & 64,
			.strip_left = a0 & 32,
			.strip_right = a0 & 16 };
	}
	m = must_alloc(normal_new(step, k, &e));
	a = normal_copy(m, &b, text, n, &whole);
	if (k == 1 && step[0].kind <= NORMAL_NFKD) {
		x = normal_copy(m, &b, a, whole, &again);
		must(again == whole && memcmp(x, a, whole) == 0);
		free(x);
	}
	free(a);
	normal_free(m);
	normal_buf_fini(&b);
}

/* ------------------------------------------------------------------------------------------
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	unsigned kind = in_u8(&in) % 4, how = kind == 1 ? in_u8(&in) : 0;
	struct split_scratch *c = must_alloc(split_scratch_new());
	struct input head = in;
	uint8_t *pattern = NULL;
	size_t n, n_pattern = 0;
	char *text;

	if (kind == 1) {
		const uint8_t *end = in.left ? memchr(in.p, 0, in.left) : NULL;
		size_t most = end ? (size_t)(end - in.p) : in.left;

		pattern = must_alloc(malloc(3 * PATTERN_MOST + 1));
		n_pattern = utf8_mend(in.p, most < PATTERN_MOST ? most : PATTERN_MOST, pattern);
		in.p += most + (end != NULL);
		in.left -= most + (end != NULL);
	} else {
		n = kind == 0 ? 3 : kind == 2 ? 9 : 6;		/* the head: read from the copy */
		n = n < in.left ? n : in.left;
		head.left = n;
		in.p += n;
		in.left -= n;
	}
	if (in.left > (kind == 1 ? 100 : TEXT_MOST))	/* what a pattern may cost grows fast */
		in.left = kind == 1 ? 100 : TEXT_MOST;
	text = must_alloc(malloc(3 * in.left + 1));
	n = utf8_mend(in.p, in.left, (uint8_t *)text);
	if (kind == 0)
		check_family(&head, c, text, n);
	else if (kind == 1)
		check_pattern(how, span_of(pattern, n_pattern), c, text, n);
	else if (kind == 2)
		check_chain(&head, c, text, n);
	else
		check_normal(&head, text, n);
	free(text);
	free(pattern);
	split_scratch_free(c);
	return 0;
}
