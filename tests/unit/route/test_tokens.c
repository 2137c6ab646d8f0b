/* test_tokens.c - pages of token ids in blocks of a model's own size, from bodies whole,
 * truncated and in slices. */
#include "tests/unit/route/tokens.h"

static struct tok *tok;

static void world_with_blocks(struct world *w, uint32_t block)
{
	token_world(w, NULL, block);
	w->q.model = (struct span){ 0 };
	world_open(w);
}

static void world_with_tok(struct world *w, uint32_t block)
{
	token_world(w, tok, block);
	world_open(w);
}

/* The ids of the whole text of a body {"prompt":"..."}, encoded at once. */
static struct ids ids_of(const struct world *w, unsigned flags)
{
	struct prompt_text *t = prompt_text_new();
	struct tok_scratch *c = tok_scratch_new();
	struct ids out = { 0 };

	prompt_text_reset(t, API_COMPLETIONS, 16);
	prompt_text_feed(t, w->body.p, w->body.n);
	assert_int_equal(tok_encode(tok, c, span_of(t->words.p, t->words.n), flags, &out), 0);
	tok_scratch_free(c);
	prompt_text_free(t);
	return out;
}

static struct page_vec pages_of(const struct world *w, const struct ids *v, uint32_t block)
{
	struct page_vec out = { 0 };

	assert_int_equal(prompt_pages_of_ids(&w->r->key, v->p, v->n, block, false, UINT32_MAX, &out), 0);
	return out;
}

/* A thread has the tokenizer's memory from the start if a model is encoded, and only then. */
static void a_thread_starts_ready(void **state)
{
	struct route_scratch *s;
	struct world w;

	world_with_tok(&w, 16);
	s = route_scratch_new(w.r);
	assert_true(s != NULL && s->rq.tok != NULL);
	route_scratch_free(s);
	world_end(&w);
	world_with_blocks(&w, 16);
	s = route_scratch_new(w.r);
	assert_true(s != NULL && s->rq.tok == NULL);
	route_scratch_free(s);
	world_end(&w);
}

/* ---- ids that the body brings -------------------------------------------------------------- */

static void ids_come_in_blocks_of_the_model(void **state)
{
	struct request_preview v;
	struct world w;
	token_id p[200];

	for (unsigned i = 0; i < 200; i++)
		p[i] = 1000 + i;
	for (uint32_t block = 1; block <= 200; block += 7) {
		struct page_vec want = { 0 };

		world_with_blocks(&w, block);
		ids(&w.body, 200);
		v = preview(&w);
		assert_int_equal(prompt_pages_of_ids(&w.r->key, p, 200, block, false, 1000, &want), 0);
		assert_int_equal(v.mode, PROMPT_TOKENS);
		assert_int_equal(v.page, block);
		assert_int_equal(v.units, 200);
		assert_int_equal(v.pages, 200 / block);
		assert_memory_equal(v.keys, want.p, want.n * sizeof(*want.p));
		page_vec_free(&want);
		world_end(&w);
	}
}

/* The engine computes the last token again, so the block that holds it is no hit; with it the next
 * request has it. */
static void the_last_block_is_never_hit(void **state)
{
	struct world w;

	world_with_blocks(&w, 32);
	ids(&w.body, 96);
	send(&w, "1");
	assert_int_equal(w.a.prompt_pages, 3);
	served(&w, "1");
	send(&w, "2");
	assert_int_equal(w.a.pages, 2);
	assert_int_equal(w.a.hit, 64 * 1000 / 96);
	served(&w, "2");
	ids(&w.body, 97);
	send(&w, "3");
	assert_int_equal(w.a.pages, 3);
	world_end(&w);
}

/* Another model has blocks of the default size. Blocks of equal length of both models still
 * differ. */
static void blocks_of_two_sizes_never_meet(void **state)
{
	struct world w;
	struct space_key space[2];

	world_with_blocks(&w, 32);
	ids(&w.body, 100);
	space[0] = preview(&w).space;
	w.q.model = SPAN("other");
	assert_int_equal(preview(&w).page, 16);
	world_end(&w);
	world_with_blocks(&w, 64);
	ids(&w.body, 100);
	space[1] = preview(&w).space;
	assert_true(space[0].h[0] != space[1].h[0] && space[0].h[1] != space[1].h[1]);
	world_end(&w);
}

/* The model comes after the ids, so nothing can be divided into pages before the end. */
static void ids_in_slices(void **state)
{
	struct world w;

	world_with_blocks(&w, 24);
	w.body.n = 0;
	say(&w.body, "{\"prompt\":[[1");
	for (unsigned i = 2; i < 300; i++)
		say(&w.body, ",%u", i);
	say(&w.body, "],[7,8,9");
	for (unsigned i = 2; i < 300; i++)
		say(&w.body, ",%u", i);
	say(&w.body, "]],\"model\":\"m\"}");
	send(&w, "whole");
	assert_int_equal(w.a.prompt_pages, 299 / 24 + 301 / 24);
	served(&w, "whole");
	for (size_t i = 1; i < w.body.n; i += 13) {
		slice_at(&w, w.s, "sliced", 0, 0, i);
		slice_at(&w, w.s, "sliced", 1, i, w.body.n);
		assert_int_equal(w.a.prompt_pages, 299 / 24 + 301 / 24);
		assert_int_equal(w.a.pages, w.a.prompt_pages);
		refused(&w, "sliced");
	}
	assert_int_equal(stats(&w).slices_waiting, 0);
	world_end(&w);
}

/* Text and ids that wait count in the budget of slices. */
static void words_that_wait_are_counted(void **state)
{
	uint64_t bytes[2];

	for (unsigned i = 0; i < 2; i++) {
		struct world w;

		world_with_blocks(&w, i ? 32 : 0);
		ids(&w.body, 8000);
		slice_at(&w, w.s, "1", 0, 0, w.body.n - 5);
		assert_int_equal(stats(&w).slices_waiting, 1);
		bytes[i] = stats(&w).slices_bytes;
		world_end(&w);
	}
	assert_true(bytes[1] >= bytes[0] + 8000 * sizeof(token_id));
	assert_true(bytes[1] <= bytes[0] + 3 * 8000 * sizeof(token_id));
}

/* Text is kept only if a model needs it and the API has any. */
static void text_is_kept_for_models_that_need_it(void **state)
{
	struct world w;

	world_with_blocks(&w, 16);
	assert_false(request_wants_text(&w.r->requests, API_COMPLETIONS));
	world_end(&w);
	world_with_blocks(&w, 32);
	assert_true(request_wants_text(&w.r->requests, API_COMPLETIONS));
	assert_true(request_wants_text(&w.r->requests, API_EMBEDDINGS));
	assert_false(request_wants_text(&w.r->requests, API_CHAT));
	chat(&w.body, "", "ab", ",\"model\":\"m\"");
	w.q.path = SPAN("/v1/chat/completions");
	assert_int_equal(preview(&w).mode, PROMPT_TEXT);
	assert_null(w.s->rq.text);
	world_end(&w);
}

/* ---- ids of text ----------------------------------------------------------------------------- */

static void expect_pages(struct world *w, const struct ids *v, uint32_t block)
{
	struct page_vec want = pages_of(w, v, block);
	struct request_preview p = preview(w);

	assert_int_equal(p.mode, PROMPT_TOKENS);
	assert_int_equal(p.page, block);
	assert_int_equal(p.units, v->n);
	assert_int_equal(p.pages, want.n);
	if (want.n > 0)
		assert_memory_equal(p.keys, want.p, want.n * sizeof(*want.p));
	page_vec_free(&want);
}

static void text_has_the_pages_of_its_ids(void **state)
{
	struct world w;
	struct ids v;

	for (size_t n = 0; n < 9000; n += n < 40 ? 1 : 997) {
		world_with_tok(&w, 16);
		completion(&w.body, n, n, "");
		v = ids_of(&w, TOK_SPECIAL);
		if (n > 0)
			expect_pages(&w, &v, 16);
		ids_free(&v);
		world_end(&w);
	}
}

static void ids_and_their_text_share_pages(void **state)
{
	struct world w;
	struct ids v;

	world_with_tok(&w, 16);
	completion(&w.body, 1, 3000, "");
	v = ids_of(&w, TOK_SPECIAL);
	send(&w, "text");
	assert_int_equal(w.a.prompt_pages, v.n / 16);
	served(&w, "text");
	w.body.n = 0;
	say(&w.body, "{\"prompt\":[%u", v.p[0]);
	for (size_t i = 1; i < v.n; i++)
		say(&w.body, ",%u", v.p[i]);
	say(&w.body, "]}");
	send(&w, "ids");
	assert_int_equal(w.a.pages, (v.n - 1) / 16);
	assert_int_equal(w.a.hit, (v.n - 1) / 16 * 16 * 1000 / v.n);
	ids_free(&v);
	world_end(&w);
}

static void a_batch_of_texts_is_a_batch_of_ids(void **state)
{
	struct page_vec want = { 0 };
	struct request_preview p;
	struct world w;
	size_t n = 0;

	world_with_tok(&w, 8);
	for (int i = 0; i < 3; i++) {
		struct ids v;

		completion(&w.body, (uint64_t)i, (size_t)i * 700, "");
		v = ids_of(&w, TOK_SPECIAL);
		assert_int_equal(prompt_pages_of_ids(&w.r->key, v.p, v.n, 8, i > 0, 10000, &want), 0);
		n += v.n;
		ids_free(&v);
	}
	w.body.n = 0;
	say(&w.body, "{\"prompt\":[\"\",\"");
	say_words(&w.body, 1, 700);
	say(&w.body, "\",\"");
	say_words(&w.body, 2, 1400);
	say(&w.body, "\"]}");
	p = preview(&w);
	assert_int_equal(p.units, n);
	assert_int_equal(p.pages, want.n);
	assert_memory_equal(p.keys, want.p, want.n * sizeof(*want.p));
	page_vec_free(&want);
	world_end(&w);
}

/* BOS where the engine puts it. */
static void special_tokens(void **state)
{
	static const struct { enum model_special special; const char *path, *after; bool bos; } cases[] = {
		{ SPECIAL_AUTO, "/v1/completions", "", true },
		{ SPECIAL_AUTO, "/v1/completions", ",\"add_special_tokens\":true", true },
		{ SPECIAL_AUTO, "/v1/completions", ",\"add_special_tokens\":false", false },
		{ SPECIAL_ADD, "/v1/completions", ",\"add_special_tokens\":false", true },
		{ SPECIAL_NONE, "/v1/completions", ",\"add_special_tokens\":true", false },
		{ SPECIAL_AUTO, "/generate", ",\"add_special_tokens\":false", true },
	};
	struct world w;
	struct ids v;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		token_world(&w, tok, 4);
		token_models[0].special = cases[i].special;
		world_open(&w);
		completion(&w.body, 9, 500, cases[i].after);
		v = ids_of(&w, cases[i].bos ? TOK_SPECIAL : 0);
		assert_int_equal(v.p[0] == BOS, cases[i].bos);
		if (cases[i].path[1] == 'g')
			memcpy(w.body.p, "{  \"text\"", 9);
		w.q.path = span_str(cases[i].path);
		expect_pages(&w, &v, 4);
		ids_free(&v);
		world_end(&w);
	}
}

static void names_and_tokenizers_make_spaces(void **state)
{
	struct tok *other = tok_with("<|end|>", "<|fin|>");
	struct space_key one, alias, fresh;
	struct world w;

	assert_true(tok_fingerprint(tok) != tok_fingerprint(other));
	world_with_tok(&w, 16);
	completion(&w.body, 1, 500, "");
	one = preview(&w).space;
	w.q.model = SPAN("alias");
	alias = preview(&w).space;
	assert_memory_equal(one.h, alias.h, sizeof(one.h));
	token_models[0].tok = other;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	fresh = preview(&w).space;
	assert_true(one.h[0] != fresh.h[0] && one.h[1] != fresh.h[1]);
	w.q.model = SPAN("else");
	assert_int_equal(preview(&w).mode, PROMPT_TEXT);
	world_end(&w);
	tok_unref(other);
}

static void conversations_stay_text(void **state)
{
	struct world w;

	world_with_tok(&w, 16);
	w.q.path = SPAN("/v1/chat/completions");
	chat(&w.body, "", "ab", "");
	assert_int_equal(preview(&w).mode, PROMPT_TEXT);
	w.q.path = SPAN("/v1/embeddings");
	assert_int_equal(preview(&w).mode, PROMPT_TEXT);
	assert_int_equal(preview(&w).found, REQUEST_PROMPT);
	send(&w, "1");
	assert_int_equal(stats(&w).tokenized + stats(&w).tokenize_failed, 0);
	world_end(&w);
}

/* ---- cut and in slices --------------------------------------------------------------------- */

/* Pages of a truncated body are pages of every whole one, and few are held back. */
static void a_cut_text_has_the_first_pages(void **state)
{
	struct page_vec whole;
	struct world w;
	struct ids v;
	size_t n;

	world_with_tok(&w, 4);
	completion(&w.body, 5, 5000, "");
	v = ids_of(&w, TOK_SPECIAL);
	whole = pages_of(&w, &v, 4);
	n = w.body.n;
	for (w.body.n = 80; w.body.n < n - 2; w.body.n += w.body.n < 4300 ? 31 : 1) {
		struct request_preview p = preview(&w);

		assert_true(p.cut);
		if (p.mode == PROMPT_TEXT)
			fail_msg("text at %zu", w.body.n);
		assert_true(p.pages <= whole.n);
		assert_memory_equal(p.keys, whole.p, p.pages * sizeof(*p.keys));
		assert_in_range(p.pages * 4 + 80,
		    v.n * w.body.n / n > 40 ? v.n * w.body.n / n - 40 : 0,
		    v.n * w.body.n / n + 160);
	}
	page_vec_free(&whole);
	ids_free(&v);
	world_end(&w);
}

/* Each way to cut a body in three gives the same pages, on any threads. */
static void slices_end_in_the_same_ids(void **state)
{
	static const char *const after[] = { "", ",\"add_special_tokens\":false",
		",\"prompt\":null,\"prompt\":[\"a b\",\"c d e f\"]" };
	struct route_scratch *other;
	struct world w;

	for (size_t k = 0; k < 3; k++) {
		uint32_t pages;

		world_with_tok(&w, k == 2 ? 1 : 16);
		assert_non_null(other = route_scratch_new(w.r));
		completion(&w.body, 77 + k, 6000, after[k]);
		send(&w, "whole");
		pages = w.a.prompt_pages;
		assert_true(k == 2 ? pages > 4 && pages < 20 : pages > 100);
		served(&w, "whole");
		for (size_t i = 0; i < w.body.n; i += 211) {
			for (size_t m = i; m < w.body.n; m += 1 + (i * 7 + m * 13) % 1500) {
				slice_at(&w, other, "u", 0, 0, i);
				slice_at(&w, w.s, "u", 1, i, m);
				assert_true(w.a.more);
				slice_at(&w, other, "u", 2, m, w.body.n);
				assert_int_equal(w.a.prompt_pages, pages);
				assert_in_range(w.a.pages, pages - 1, pages);
				refused(&w, "u");
			}
		}
		assert_int_equal(stats(&w).tokenize_failed, 0);
		assert_int_equal(stats(&w).slices_bytes, 0);
		route_scratch_free(other);
		world_end(&w);
	}
}

static void byte_by_byte(void **state)
{
	struct world w;
	uint32_t pages;

	world_with_tok(&w, 2);
	completion(&w.body, 3, 300, "");
	send(&w, "whole");
	pages = w.a.prompt_pages;
	for (size_t i = 0; i < w.body.n; i++)
		slice_at(&w, w.s, "u", (int64_t)i, i, i + 1);
	assert_int_equal(w.a.prompt_pages, pages);
	assert_int_equal(stats(&w).tokenized, 2);
	world_end(&w);
}

/* A waiting request holds nothing of the thread that read its first slice. (ASan sees it.) */
static void a_thread_ends_between_slices(void **state)
{
	struct route_scratch *other;
	struct world w;
	uint32_t pages;

	world_with_tok(&w, 16);
	completion(&w.body, 8, 20000, "");
	send(&w, "whole");
	pages = w.a.prompt_pages;
	assert_non_null(other = route_scratch_new(w.r));
	slice_at(&w, other, "u", 0, 0, 9000);
	route_scratch_free(other);
	slice_at(&w, w.s, "u", 1, 9000, w.body.n);
	assert_int_equal(w.a.prompt_pages, pages);
	world_end(&w);
}

/* A body cut after its prompt has a whole prompt: its length and its last token are known. */
static void a_body_cut_after_its_prompt(void **state)
{
	struct route_stats before, after;
	struct world w;
	struct ids v;
	size_t n;

	world_with_tok(&w, 16);
	completion(&w.body, 8, 1000, "");
	for (n = 1000; v = ids_of(&w, TOK_SPECIAL), v.n % 16 != 0; ids_free(&v))
		completion(&w.body, 8, n++, "");
	send(&w, "whole");
	served(&w, "whole");
	w.body.n--;
	w.q.whole = (int64_t)w.body.n + 1000;
	before = stats(&w);
	send(&w, "cut");
	after = stats(&w);
	assert_true(w.a.cut);
	assert_int_equal(w.a.prompt_pages, v.n / 16);
	assert_int_equal(w.a.pages, v.n / 16 - 1);
	assert_int_equal(after.prompt_tokens - before.prompt_tokens, v.n);
	assert_int_equal(pool(&w).requests, 2);
	ids_free(&v);
	world_end(&w);
}

/* The tokenizer of the options goes between two slices, and another comes. */
static void a_reload_between_slices(void **state)
{
	struct tok *other = tok_with("<|end|>", "<|fin|>");
	struct world w;

	world_with_tok(&w, 16);
	completion(&w.body, 8, 9000, "");
	slice_at(&w, w.s, "1", 0, 0, 6000);
	assert_int_equal(w.a.prompt_pages > 0, true);
	token_models[0].tok = other;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	slice_at(&w, w.s, "1", 1, 6000, w.body.n);
	served(&w, "1");
	send(&w, "2");
	assert_in_range(w.a.pages, w.a.prompt_pages - 1, w.a.prompt_pages);
	token_models[0].tok = NULL;
	token_models[0].mode = MODEL_TEXT;
	slice_at(&w, w.s, "3", 0, 0, 6000);
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	slice_at(&w, w.s, "3", 1, 6000, w.body.n);
	assert_int_equal(preview(&w).mode, PROMPT_TEXT);
	assert_int_equal(w.a.prompt_pages, preview(&w).pages);
	world_end(&w);
	tok_unref(other);
}

/* ---- counters ----------------------------------------------------------------------- */

static void a_conversation_that_grows_is_encoded_once(void **state)
{
	struct route_stats before, after;
	struct world w;
	uint64_t known = 0;
	char turn[8];

	world_with_tok(&w, 16);
	for (int i = 1; i <= 6; i++) {
		struct ids v;

		before = stats(&w);
		completion(&w.body, 4, (size_t)i * 8000, "");
		v = ids_of(&w, TOK_SPECIAL);
		snprintf(turn, sizeof(turn), "%d", i);
		send(&w, turn);
		after = stats(&w);
		assert_int_equal(after.tokenized - before.tokenized, 1);
		assert_int_equal(after.tokens - before.tokens, v.n);
		assert_in_range(after.segments.misses - before.segments.misses, 1, 8000 / 48);
		assert_in_range(after.segments.hits - before.segments.hits, known * 9 / 10, known);
		known += after.segments.misses - before.segments.misses;
		assert_int_equal(after.prompt_tokens - before.prompt_tokens, v.n);
		served(&w, turn);
		ids_free(&v);
	}
	world_end(&w);
}

/* Text of one tenant makes nothing faster for another, nor does one salt for another. */
static void tenants_have_segments_of_their_own(void **state)
{
	struct world w;

	world_with_tok(&w, 16);
	completion(&w.body, 4, 8000, "");
	w.q.tenant = SPAN("a");
	send(&w, "1");
	assert_int_equal(stats(&w).segments.hits, 0);
	w.q.tenant = SPAN("b");
	send(&w, "2");
	assert_int_equal(stats(&w).segments.hits, 0);
	completion(&w.body, 4, 8000, ",\"cache_salt\":\"x\"");
	send(&w, "3");
	assert_int_equal(stats(&w).segments.hits, 0);
	send(&w, "4");
	assert_true(stats(&w).segments.hits > 0);
	world_end(&w);
}

static void without_a_cache_of_segments(void **state)
{
	struct world w;
	struct ids v;

	token_world(&w, tok, 16);
	w.o.segcache_max_bytes = 0;
	world_open(&w);
	completion(&w.body, 4, 8000, "");
	v = ids_of(&w, TOK_SPECIAL);
	expect_pages(&w, &v, 16);
	assert_null(w.r->requests.segments);
	ids_free(&v);
	world_end(&w);
}

/* ---- bounds ---------------------------------------------------------------------- */

static char *long_body(char letter, size_t n, size_t *bytes)
{
	char *p = malloc(n + 64);
	struct rng rng;

	assert_non_null(p);
	rng_init(&rng, 1);
	*bytes = (size_t)sprintf(p, "{\"prompt\":\"");
	for (size_t i = 0; i < n; i++)
		p[(*bytes)++] = letter ? letter : " aeinorst"[rng_below(&rng, 9)];
	*bytes += (size_t)sprintf(p + *bytes, "\"}");
	return p;
}

/* Its beginning has pages of ids, and the same prompt sent again continues from there. */
static void a_text_that_is_too_long(void **state)
{
	struct world w;
	uint32_t pages;
	size_t n;
	char *p = long_body(0, 1 << 20, &n);

	world_with_tok(&w, 16);
	w.q.body = span_of(p, n);
	send_body(&w, "1", span_of(p, n));
	assert_int_equal(stats(&w).tokenize_bounded, 1);
	assert_int_equal(stats(&w).tokenize_failed, 0);
	pages = w.a.prompt_pages;
	assert_in_range(pages, 1000, 25000);
	assert_in_range(stats(&w).prompt_tokens, (1 << 20) / 2, 1 << 20);
	served(&w, "1");
	send_body(&w, "2", span_of(p, n));
	assert_true(w.a.prompt_pages > pages + pages / 2);
	assert_int_equal(w.a.pages, pages);
	world_end(&w);
	free(p);
}

/* A megabyte of one letter is one piece, which has no id before its end. It stays text, and is
 * found again. */
static void a_piece_that_is_too_long(void **state)
{
	struct world w;
	size_t n;
	char *p = long_body('a', 1 << 20, &n);

	world_with_tok(&w, 16);
	send_body(&w, "1", span_of(p, n));
	assert_int_equal(stats(&w).tokenize_bounded, 1);
	assert_true(w.a.prompt_pages > 0 && w.a.server.n > 0);
	served(&w, "1");
	send_body(&w, "2", span_of(p, n));
	assert_true(w.a.hit > 0);
	world_end(&w);
	free(p);
}

/* No more ids are made than a prompt may have pages for. */
static void no_more_pages_than_there_may_be(void **state)
{
	struct world w;

	token_world(&w, tok, 1);
	w.o.prompt.max_pages = 50;
	world_open(&w);
	completion(&w.body, 4, 3000, "");
	send(&w, "1");
	assert_int_equal(w.a.prompt_pages, 50);
	world_end(&w);
}

/* The caller bounds the work of a request. With no work allowed it gives pages of text, with little
 * the first pages of ids. */
static void no_more_work_than_the_caller_says(void **state)
{
	struct world w;
	uint32_t pages;
	size_t n;
	char *p = long_body(0, 100000, &n);

	world_with_tok(&w, 16);
	w.q.work = 0;
	send_body(&w, "1", span_of(p, n));
	assert_in_range(w.a.prompt_pages, 100000 / 64, 100000 / 64 + 1);
	assert_int_equal(stats(&w).tokenized, 0);
	assert_true(w.a.server.n > 0);
	w.q.work = 40000;	/* reading takes some 17,000 */
	send_body(&w, "2", span_of(p, n));
	pages = w.a.prompt_pages;
	assert_in_range(pages, 50, 2500);
	assert_int_equal(stats(&w).tokenize_bounded, 1);
	w.q.work = ROUTE_WORK_FULL;
	send_body(&w, "3", span_of(p, n));
	assert_true(w.a.prompt_pages > 2 * pages);
	world_end(&w);
	free(p);
}

static int load_tok(void **state)
{
	tok = tok_with(NULL, NULL);
	return 0;
}

static int drop_tok(void **state)
{
	tok_unref(tok);
	return 0;
}

/* The ids that "truncate_prompt_tokens" leaves have pages, for prompts of ids and of text; if they
 * are unknown, there are no pages, or pages of text. */
static const struct {
	const char *path, *prompt, *more;
	int mode;
	const char *same;
} truncations[] = {
	{ "/v1/completions", "[1,2,3,4,5,6,7,8,9]", ",\"truncate_prompt_tokens\":4", PROMPT_TOKENS,
	    "[6,7,8,9]" },
	{ "/v1/completions", "[1,2,3,4,5,6,7,8,9]",
	    ",\"truncate_prompt_tokens\":4,\"truncation_side\":\"right\"", PROMPT_TOKENS,
	    "[1,2,3,4]" },
	{ "/v1/completions", "[[1,2,3,4,5,6,7,8],[4,5]]",
	    ",\"truncation_side\":\"left\",\"truncate_prompt_tokens\":4", PROMPT_TOKENS,
	    "[[5,6,7,8],[4,5]]" },
	{ "/v1/completions", "[1,2,3,4,5,6,7,8]",
	    ",\"truncate_prompt_tokens\":4,\"truncate_prompt_tokens\":null", PROMPT_TOKENS,
	    "[1,2,3,4,5,6,7,8]" },
	{ "/v1/completions", "[1,2,3,4,5,6,7,8]", ",\"truncate_prompt_tokens\":99", PROMPT_TOKENS,
	    "[1,2,3,4,5,6,7,8]" },
	{ "/v1/completions", "[1,2,3,4,5,6,7,8]", ",\"truncate_prompt_tokens\":-1", PROMPT_TOKENS,
	    "[]" },
	{ "/v1/embeddings", "[1,2,3,4,5,6,7,8]", ",\"truncate_prompt_tokens\":4", PROMPT_TOKENS,
	    "[1,2,3,4]" },
	{ "/v1/completions", "\"the server has pages and that is of agent\"",
	    ",\"add_special_tokens\":false,\"truncate_prompt_tokens\":4", PROMPT_TOKENS, NULL },
	{ "/v1/completions", "\"the server has pages and that is of agent\"",
	    ",\"truncate_prompt_tokens\":4", PROMPT_TEXT, NULL },
	{ "/v1/completions", "\"the server has pages and that is of agent\"",
	    ",\"truncate_prompt_tokens\":-1", PROMPT_TEXT, NULL },
};

static struct request_preview preview_of(
    struct world *w, const char *path, const char *prompt, const char *more)
{
	w->q.path = span_str(path);
	w->body.n = 0;
	say(&w->body, "{\"%s\":%s%s}", strstr(path, "embed") ? "input" : "prompt", prompt, more);
	return preview(w);
}

static void truncated(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct world w;

	token_world(&w, t, 4);
	w.o.prompt.token_page = 4;
	world_open(&w);
	for (size_t i = 0; i < sizeof(truncations) / sizeof(truncations[0]); i++) {
		struct request_preview v =
		    preview_of(&w, truncations[i].path, truncations[i].prompt, truncations[i].more);
		page_key keys[8];
		uint32_t n = v.pages;

		if ((int)v.mode != truncations[i].mode)
			fail_msg("%zu: mode %d", i, (int)v.mode);
		if (truncations[i].same == NULL) {
			assert_int_equal(n, v.mode == PROMPT_TOKENS ? 1 : n);
			continue;
		}
		assert_in_range(n, 0, 8);
		memcpy(keys, v.keys, n * sizeof(*keys));
		if (strcmp(truncations[i].same, "[]") == 0) {
			assert_int_equal(n, 0);
			continue;
		}
		v = preview_of(&w, truncations[i].path, truncations[i].same, "");
		if (v.pages != n || memcmp(keys, v.keys, n * sizeof(*keys)) != 0)
			fail_msg("%zu: %u pages", i, n);
	}
	world_end(&w);
	tok_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(truncated),
		cmocka_unit_test(a_thread_starts_ready),
		cmocka_unit_test(ids_come_in_blocks_of_the_model),
		cmocka_unit_test(the_last_block_is_never_hit),
		cmocka_unit_test(blocks_of_two_sizes_never_meet),
		cmocka_unit_test(ids_in_slices),
		cmocka_unit_test(words_that_wait_are_counted),
		cmocka_unit_test(text_is_kept_for_models_that_need_it),
		cmocka_unit_test(text_has_the_pages_of_its_ids),
		cmocka_unit_test(ids_and_their_text_share_pages),
		cmocka_unit_test(a_batch_of_texts_is_a_batch_of_ids),
		cmocka_unit_test(special_tokens),
		cmocka_unit_test(names_and_tokenizers_make_spaces),
		cmocka_unit_test(conversations_stay_text),
		cmocka_unit_test(a_cut_text_has_the_first_pages),
		cmocka_unit_test(slices_end_in_the_same_ids),
		cmocka_unit_test(byte_by_byte),
		cmocka_unit_test(a_thread_ends_between_slices),
		cmocka_unit_test(a_body_cut_after_its_prompt),
		cmocka_unit_test(a_reload_between_slices),
		cmocka_unit_test(a_conversation_that_grows_is_encoded_once),
		cmocka_unit_test(tenants_have_segments_of_their_own),
		cmocka_unit_test(without_a_cache_of_segments),
		cmocka_unit_test(a_text_that_is_too_long),
		cmocka_unit_test(a_piece_that_is_too_long),
		cmocka_unit_test(no_more_pages_than_there_may_be),
		cmocka_unit_test(no_more_work_than_the_caller_says),
	};

	return cmocka_run_group_tests(tests, load_tok, drop_tok);
}
