/* test_tokens.c - pages of token ids in blocks of a model's own size, from bodies whole, cut and in slices. */
#include "agent/route/job.h"
#include "tests/unit/route/world.h"

static struct model_opts models[2];

static void world_with_blocks(struct world *w, uint32_t block)
{
	world_options(w);
	models[0] = w->o.model_default;
	strcpy(models[0].name, "m");
	models[0].block_size = block;
	w->o.models = models;
	w->o.n_models = 1;
	w->q.path = SPAN("/v1/completions");
	world_open(w);
}

static void slice(struct world *w, const char *uid, int64_t seq, size_t from, size_t to)
{
	struct route_request q = { .visible = -1, .whole = -1 };

	if (seq == 0) {
		q = w->q;
		q.visible = q.whole = (int64_t)w->body.n;
	}
	q.uid = span_str(uid);
	q.seq = seq;
	q.body = span_of(w->body.p + from, to - from);
	route_decide(w->r, w->s, &q, w->now, &w->a);
}

static struct route_preview preview(struct world *w)
{
	struct route_preview v;

	w->q.body = span_of(w->body.p, w->body.n);
	route_preview(w->r, w->s, &w->q, &v);
	return v;
}

/* ---- ids that the body brings ----------------------------------------------------------------- */

static void ids_come_in_blocks_of_the_model(void **state)
{
	struct route_preview v;
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

/* The engine computes the last token again, so the block that holds it is no hit; with it the next request has it. */
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

/* Another model's blocks are of the usual size: where both are the same number of ids, they are still not the same. */
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

/* The model comes behind the ids, so that nothing can be paged before the end. */
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
		slice(&w, "sliced", 0, 0, i);
		slice(&w, "sliced", 1, i, w.body.n);
		assert_int_equal(w.a.prompt_pages, 299 / 24 + 301 / 24);
		assert_int_equal(w.a.pages, w.a.prompt_pages);
		refused(&w, "sliced");
	}
	assert_int_equal(stats(&w).slices_waiting, 0);
	world_end(&w);
}

/* What waits of them is in the budget of slices. */
static void words_that_wait_are_counted(void **state)
{
	uint64_t bytes[2];

	for (unsigned i = 0; i < 2; i++) {
		struct world w;

		world_with_blocks(&w, i ? 32 : 0);
		ids(&w.body, 8000);
		slice(&w, "1", 0, 0, w.body.n - 5);
		assert_int_equal(stats(&w).slices_waiting, 1);
		bytes[i] = stats(&w).slices_bytes;
		world_end(&w);
	}
	assert_true(bytes[1] >= bytes[0] + 8000 * sizeof(token_id));
	assert_true(bytes[1] <= bytes[0] + 3 * 8000 * sizeof(token_id));
}

/* Nobody keeps words where no model asks for them, or of what has none. */
static void words_are_kept_where_they_are_asked_for(void **state)
{
	struct world w;

	world_with_blocks(&w, 16);
	assert_false(job_wants_words(&w.o, API_COMPLETIONS));
	world_end(&w);
	world_with_blocks(&w, 32);
	assert_true(job_wants_words(&w.o, API_COMPLETIONS));
	assert_true(job_wants_words(&w.o, API_EMBEDDINGS));
	assert_false(job_wants_words(&w.o, API_CHAT));
	chat(&w.body, "", "ab", ",\"model\":\"m\"");
	w.q.path = SPAN("/v1/chat/completions");
	assert_int_equal(preview(&w).mode, PROMPT_TEXT);
	assert_null(w.s->words);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_come_in_blocks_of_the_model),
		cmocka_unit_test(the_last_block_is_never_hit),
		cmocka_unit_test(blocks_of_two_sizes_never_meet),
		cmocka_unit_test(ids_in_slices),
		cmocka_unit_test(words_that_wait_are_counted),
		cmocka_unit_test(words_are_kept_where_they_are_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
