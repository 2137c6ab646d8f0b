/* test_text.c - the collected texts and ids of a prompt give the pages that the scanner gives: for
 * every body, in pieces of any size and cut at any place. */
#include "agent/prompt/text.h"
#include "tests/unit/prompt/bodies.h"

enum { PADDED = 0x50414444, BATCH = 0x42415443 };

static const struct { enum prompt_api api; const char *text; } bodies[] = {
	{ API_COMPLETIONS, "{\"prompt\":\"Once upon a time\"}" },
	{ API_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\\nb \\u00e9\\ud83d\\ude00\\ud83d\","
	  "\"add_special_tokens\":false}" },
	{ API_COMPLETIONS, "{\"add_special_tokens\":true,\"prompt\":[\"one\",\"\",\"two\"],"
	  "\"x\":[\"three\"]}" },
	{ API_COMPLETIONS, "{\"prompt\":[1,2,3,4,5,4294967295]}" },
	{ API_COMPLETIONS, "{\"prompt\":[[1,2,3],[],[4,5,6,7,8,9,10],[1]]}" },
	{ API_COMPLETIONS, "{\"prompt\":[1,2,4294967296]}" },
	{ API_COMPLETIONS, "{\"prompt\":[1,-2]}" },
	{ API_COMPLETIONS, "{\"prompt\":[1,2.5]}" },
	{ API_COMPLETIONS, "{\"prompt\":[\"a\",1]}" },
	{ API_COMPLETIONS, "{\"prompt\":[1,\"a\"]}" },
	{ API_COMPLETIONS, "{\"prompt\":[[1],2]}" },
	{ API_COMPLETIONS, "{\"prompt\":[[1,[2]],[3]]}" },
	{ API_COMPLETIONS, "{\"prompt\":[[1,\"x\"],[3]]}" },
	{ API_COMPLETIONS, "{\"prompt\":[{\"prompt\":\"no\"},\"b\"]}" },
	{ API_COMPLETIONS, "{\"prompt\":{\"prompt\":\"no\"}}" },
	{ API_COMPLETIONS, "{\"prompt\":true}" },
	{ API_COMPLETIONS, "{\"prompt\":\"first\",\"prompt\":\"second\"}" },
	{ API_COMPLETIONS, "{\"prompt\":\"first\",\"prompt\":null}" },
	{ API_COMPLETIONS, "{\"prompt\":7,\"prompt\":[8,9]}" },
	{ API_COMPLETIONS, "{\"prompt\":[\"a\"],\"prompt\":[1,2,3,4,5]}" },
	{ API_COMPLETIONS, "{\"x\":{\"prompt\":\"deep\"},\"y\":[[\"deep\"]],\"messages\":\"no\"}" },
	{ API_COMPLETIONS, "{\"prompt\":[]}" },
	{ API_COMPLETIONS, "{\"prompt\":[null]}" },
	{ API_COMPLETIONS, "[\"prompt\",\"text\"]" },
	{ API_COMPLETIONS, "\"prompt\"" },
	{ API_COMPLETIONS, "{\"prompt\":\"bad\xff utf\xc3" "8\"}" },
	{ API_EMBEDDINGS, "{\"input\":[\"a\",\"b\"],\"add_special_tokens\":null,\"model\":\"m\"}" },
	{ API_EMBEDDINGS, "{\"input\":\"gone\",\"messages\":[]}" },
	{ API_EMBEDDINGS, "{\"input\":\"stays\",\"messages\":null}" },
	{ API_GENERATE, "{\"text\":\"void\",\"input_ids\":[1,2,3,4,5,6,7,8]}" },
	{ API_GENERATE, "{\"input_ids\":[1,2,3,4,5,6,7,8],\"text\":null}" },
	{ API_GENERATE, "{\"text\":\"hello\",\"add_special_tokens\":false}" },
};

#define N_BODIES	(sizeof(bodies) / sizeof(bodies[0]))

/* ---- the pages that the scanner makes of these texts and ids --------------------------------- */

static void words_pages(const struct prompt_text *t, struct page_vec *out)
{
	size_t at = 0;
	bool later = false;

	for (size_t i = 0; i < t->items.n; i++) {
		size_t n = t->items.p[i].end - at;

		while (n >= opts.text_page || (n > 0 && t->items.p[i].whole)) {
			size_t k = n < opts.text_page ? n : opts.text_page;
			page_key h = hash64(&key, t->words.p + at, k);

			if (k < opts.text_page)
				h = hash_mix(&key, h, (uint64_t)PADDED << 32 | k);
			page_vec_push(out, later ? hash_mix(&key, h, BATCH) : h);
			later = false;
			at += k;
			n -= k;
		}
		at = t->items.p[i].end;
		later = at > 0;
	}
}

static void ids_pages(const struct prompt_text *t, struct page_vec *out)
{
	size_t at = 0;

	for (size_t i = 0; i < t->items.n; i++) {
		assert_int_equal(prompt_pages_of_ids(&key, t->ids.p + at, t->items.p[i].end - at,
				     opts.token_page, at > 0, opts.max_pages, out),
		    0);
		at = t->items.p[i].end;
	}
}

static void same_as_scanner(const struct prompt_text *t, const struct prompt *p, const char *text,
    size_t n)
{
	struct page_vec out = { 0 };
	bool any = t->words.n > 0 || t->ids.n > 0;

	if (p->json == JSON_BAD)
		return;
	assert_false(t->lost);
	if (p->found != (any && !t->bad))
		fail_msg("%.*s: found %d, taken %zu bytes and %zu ids, bad %d", (int)n, text,
		    p->found, t->words.n, t->ids.n, t->bad);
	if (!p->found)
		return;
	assert_int_equal(p->mode, t->kind == TEXT_WORDS ? PROMPT_TEXT : PROMPT_TOKENS);
	assert_int_equal(p->n_units, t->words.n + t->ids.n);
	if (t->kind == TEXT_WORDS)
		words_pages(t, &out);
	else
		ids_pages(t, &out);
	if (!vec_eq(&out, &p->messages))
		fail_msg("%.*s: %zu pages of the texts, %zu of the scanner", (int)n, text, out.n,
			 p->messages.n);
	page_vec_free(&out);
}

/* ---- the same in pieces ---------------------------------------------------------------------- */

static void same_taken(const struct prompt_text *a, const struct prompt_text *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->bad, b->bad);
	assert_int_equal(a->special, b->special);
	assert_int_equal(a->words.n, b->words.n);
	assert_int_equal(a->ids.n, b->ids.n);
	assert_int_equal(a->items.n, b->items.n);
	if (a->words.n > 0)
		assert_memory_equal(a->words.p, b->words.p, a->words.n);
	if (a->ids.n > 0)
		assert_memory_equal(a->ids.p, b->ids.p, a->ids.n * sizeof(*a->ids.p));
	for (size_t i = 0; i < a->items.n; i++) {
		assert_int_equal(a->items.p[i].end, b->items.p[i].end);
		assert_int_equal(a->items.p[i].whole, b->items.p[i].whole);
	}
}

static void take(struct prompt_text *t, enum prompt_api api, const char *text, size_t n,
    size_t piece)
{
	const char *p = (const char *)edge_copy(text, n);

	prompt_text_reset(t, api, opts.max_depth);
	for (size_t i = 0; i < n; i += piece)
		prompt_text_feed(t, p + i, n - i < piece ? n - i : piece);
	edge_free((const uint8_t *)p, n);
}

static void check(enum prompt_api api, const char *text, size_t n)
{
	struct prompt_text *whole = prompt_text_new(), *t = prompt_text_new();
	struct body *b = body_make();

	take(whole, api, text, n, n ? n : 1);
	same_as_scanner(whole, feed_whole(b, api, text, n), text, n);
	for (size_t piece = 1; piece < 8; piece += 4) {
		take(t, api, text, n, piece);
		same_taken(whole, t);
	}
	body_free(b);
	prompt_text_free(t);
	prompt_text_free(whole);
}

static void all_bodies_at_all_cuts(void **state)
{
	opts.text_page = 16;
	opts.token_page = 3;
	for (size_t i = 0; i < N_BODIES; i++) {
		for (size_t n = 0; n <= strlen(bodies[i].text); n++)
			check(bodies[i].api, bodies[i].text, n);
	}
	bodies_init();
}

/* Random bodies of the members and values that matter here. */
static void random_bodies(void **state)
{
	static const char *const parts[] = {
		"\"prompt\":", "\"input\":", "\"text\":", "\"input_ids\":", "\"messages\":",
		"\"add_special_tokens\":", "\"x\":",
		"\"\"", "\"word\"", "\"a long text with more than one page\"", "1", "23", "-1", "[", "]", "{",
		"}", ",", ",", ",",
		"null", "true", "[1,2,3,4]", "[\"a\",\"b\"]", "[[1,2],[3,4,5,6]]",
	};
	static const enum prompt_api apis[] = { API_COMPLETIONS, API_EMBEDDINGS, API_GENERATE };
	struct rng rng;
	char text[512];

	rng_init(&rng, 3);
	opts.text_page = 16;
	opts.token_page = 2;
	for (int i = 0; i < 4000; i++) {
		size_t n = 1;

		text[0] = '{';
		for (uint32_t k = 1 + rng_below(&rng, 5); k > 0; k--) {	/* members, most of them valid */
			n += (size_t)sprintf(text + n, "%s", parts[rng_below(&rng, 7)]);
			for (uint32_t v = rng_below(&rng, 8) ? 1 : rng_below(&rng, 6); v > 0; v--)
				n += (size_t)sprintf(text + n, "%s", parts[7 + rng_below(&rng, 18)]);
			text[n++] = k > 1 ? ',' : '}';
		}
		check(apis[i % 3], text, n);
	}
	bodies_init();
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void special_is_read(void **state)
{
	static const struct { enum prompt_api api; const char *text; int special; } cases[] = {
		{ API_COMPLETIONS, "{\"prompt\":\"a\"}", -1 },
		{ API_COMPLETIONS, "{\"prompt\":\"a\",\"add_special_tokens\":false}", 0 },
		{ API_COMPLETIONS, "{\"add_special_tokens\":true,\"prompt\":\"a\"}", 1 },
		{ API_COMPLETIONS, "{\"add_special_tokens\":true,\"add_special_tokens\":false}", 0 },
		{ API_COMPLETIONS, "{\"add_special_tokens\":\"yes\"}", -1 },
		{ API_COMPLETIONS, "{\"x\":{\"add_special_tokens\":false}}", -1 },
		{ API_EMBEDDINGS, "{\"add_special_tokens\":false}", 0 },
		{ API_GENERATE, "{\"add_special_tokens\":false}", -1 },
	};
	struct prompt_text *t = prompt_text_new();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		take(t, cases[i].api, cases[i].text, strlen(cases[i].text), 5);
		assert_int_equal(t->special, cases[i].special);
	}
	prompt_text_free(t);
}

static void ends_of_items(void **state)
{
	static const struct { const char *text; size_t items; bool whole; } cases[] = {
		{ "{\"prompt\":\"ab", 1, false }, { "{\"prompt\":\"ab\"", 1, true },
		{ "{\"prompt\":[\"ab\",\"c", 2, false }, { "{\"prompt\":[\"ab\",\"c\"", 2, true },
		{ "{\"prompt\":[1,2,", 1, false }, { "{\"prompt\":[1,2]", 1, true },
		{ "{\"prompt\":[[1],[2,", 2, false }, { "{\"prompt\":[[1],[2]", 2, true },
	};
	struct prompt_text *t = prompt_text_new();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		take(t, API_COMPLETIONS, cases[i].text, strlen(cases[i].text), 3);
		assert_int_equal(t->items.n, cases[i].items);
		assert_int_equal(t->items.p[t->items.n - 1].whole, cases[i].whole);
	}
	prompt_text_free(t);
}

/* <lives> changes when the items are dropped, so a reader knows that its position is void. */
static void lives_change_when_items_are_dropped(void **state)
{
	struct prompt_text *t = prompt_text_new();
	uint32_t lives;

	prompt_text_reset(t, API_COMPLETIONS, 16);
	prompt_text_feed(t, "{\"prompt\":\"ab", 13);
	lives = t->lives;
	prompt_text_feed(t, "cd\",\"prompt\":null", 17);
	assert_true(t->lives != lives && t->words.n == 0);
	lives = t->lives;
	prompt_text_feed(t, ",\"prompt\":\"ef", 13);
	assert_true(t->lives != lives && t->words.n == 2);
	lives = t->lives;
	prompt_text_feed(t, "g\"}", 3);
	assert_int_equal(t->lives, lives);
	assert_memory_equal(t->words.p, "efg", 3);
	assert_true(t->items.p[0].whole);
	prompt_text_reset(t, API_COMPLETIONS, 16);
	assert_true(t->lives != lives);
	prompt_text_free(t);
	assert_int_equal(prompt_text_bytes(NULL), 0);
}

/* At TEXT_ITEMS_MAX items the text stops growing and is marked lost. */
static void items_are_bounded(void **state)
{
	struct prompt_text *t = prompt_text_new();
	size_t bytes;

	prompt_text_reset(t, API_COMPLETIONS, 16);
	prompt_text_feed(t, "{\"prompt\":[\"\"", 13);
	for (int i = 1; i < TEXT_ITEMS_MAX; i++)
		prompt_text_feed(t, ",\"\"", 3);
	assert_false(t->lost);
	assert_int_equal(t->items.n, TEXT_ITEMS_MAX);
	bytes = prompt_text_bytes(t);
	for (int i = 0; i < TEXT_ITEMS_MAX; i++)
		prompt_text_feed(t, ",\"abcdefgh\"", 11);
	assert_true(t->lost);
	assert_int_equal(prompt_text_bytes(t), bytes);
	prompt_text_reset(t, API_COMPLETIONS, 16);
	assert_false(t->lost);
	prompt_text_free(t);
}

static void pages_stop_at_the_limit(void **state)
{
	struct page_vec out = { 0 };
	token_id ids[64] = { 0 };

	assert_int_equal(prompt_pages_of_ids(&key, ids, 64, 4, false, 5, &out), 0);
	assert_int_equal(out.n, 5);
	assert_int_equal(prompt_pages_of_ids(&key, ids, 64, 4, true, 5, &out), 0);
	assert_int_equal(out.n, 5);
	assert_int_equal(prompt_pages_of_ids(&key, ids, 3, 4, true, 9, &out), 0);
	assert_int_equal(out.n, 5);
	page_vec_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_bodies_at_all_cuts),
		cmocka_unit_test(random_bodies),
		cmocka_unit_test(special_is_read),
		cmocka_unit_test(ends_of_items),
		cmocka_unit_test(lives_change_when_items_are_dropped),
		cmocka_unit_test(items_are_bounded),
		cmocka_unit_test(pages_stop_at_the_limit),
	};

	bodies_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
