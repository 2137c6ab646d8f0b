/* test_turn_ids_fault.c - each allocation of a body whose conversation goes on fails once, in turn:
 * its pages are those without a memory of turns or it is not in token mode, and the next body's
 * are right whatever was left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/request/request.h"
#include "tests/unit/fault.h"

#define TOKENIZER	"tests/data/tok/llama.tokenizer.json"
#define BODIES		3u

static const struct hash_key key = { { 4, 5, 6 } };
static const char template[] =
    "{% set ns = namespace(n=0) %}{% for m in messages %}{{ ns.n }}{{ m.role }}: "
    "{{ m.content }}<|end|>\n{% set ns.n = ns.n + 1 %}{% endfor %}assistant:";

struct reader {
	struct model_opts fallback, model;
	struct request_env env;
	struct request_scratch scratch;
};

static void open_reader(struct reader *r, struct tok *tok, struct chat *chat, size_t turns)
{
	struct request_opts o = { .slices_max_bytes = 1 << 20, .segcache_max_bytes = 1 << 22 };

	memset(r, 0, sizeof(*r));
	model_defaults(&r->fallback);
	model_defaults(&r->model);
	strcpy(r->model.name, "m");
	r->model.mode = MODEL_TOKENS;
	r->model.tok = tok;
	r->model.chat = chat;
	prompt_defaults(&o.prompt);
	o.prompt.token_page = 4;
	heads_defaults(&o.heads);
	turns_defaults(&o.turns);
	o.turns.max_bytes = turns;
	o.turns.chunk_bytes = 256;
	o.turns.least_bytes = 64;
	o.models.fallback = &r->fallback;
	o.models.list = &r->model;
	o.models.n = 1;
	assert_int_equal(request_env_init(&r->env, &o, &key), 0);
	assert_int_equal(request_scratch_init(&r->scratch, &o.prompt, &key), 0);
}

static void close_reader(struct reader *r)
{
	request_scratch_fini(&r->scratch);
	request_env_fini(&r->env);
}

/* The body of <messages> messages. */
static struct span body_of(char *p, unsigned messages)
{
	size_t n = (size_t)sprintf(p, "{\"messages\":[");

	for (unsigned i = 0; i < messages; i++)
		n += (size_t)sprintf(p + n, "%s{\"role\":\"%s\",\"content\":\"the server and HAProxy %u\"}",
		    i > 0 ? "," : "", i % 2 == 0 ? "user" : "assistant", i);
	return span_of(p, n + (size_t)sprintf(p + n, "],\"model\":\"m\"}"));
}

static bool in_tokens(struct reader *r, struct request *rq, unsigned messages)
{
	static char body[8192];
	const struct request_message m = {
		.pool = SPAN("pool"), .path = SPAN("/v1/chat/completions"),
		.body = body_of(body, messages), .seq = -1, .visible = -1, .whole = -1, .wall_s = 1795000000,
	};
	bool tokens;

	request_start(rq, &r->env, &r->scratch, &m, 1);
	rq->work.left = REQUEST_WORK_FULL;
	rq->in.model = "";
	tokens = request_take_body(rq, &m) && request_read_prompt(rq) == REQUEST_PROMPT &&
	    rq->mode == PROMPT_TOKENS;
	request_keep_body(rq);
	return tokens;
}

/* The same in three slices; all of them are looked at. Returns false if a look has no pages. */
static bool in_slices(struct reader *r, struct request *rq, unsigned messages)
{
	static char body[8192];
	struct span all = body_of(body, messages);
	struct request_message m = {
		.has_uid = true, .uid = 9, .pool = SPAN("pool"), .path = SPAN("/v1/chat/completions"),
		.visible = (int64_t)all.n, .whole = (int64_t)all.n, .wall_s = 1795000000,
	};
	bool tokens = false;

	for (m.seq = 0; m.seq < 3; m.seq++) {
		size_t from = all.n / 3 * (size_t)m.seq, to = m.seq == 2 ? all.n : from + all.n / 3;

		m.body = span_of(all.p + from, to - from);
		request_start(rq, &r->env, &r->scratch, &m, 1);
		rq->work.left = REQUEST_WORK_FULL;
		rq->in.model = "";
		if (!request_take_body(rq, &m))
			return false;
		if (!rq->waits)
			tokens = request_read_prompt(rq) == REQUEST_PROMPT && rq->mode == PROMPT_TOKENS;
		request_keep_body(rq);
	}
	return tokens && !rq->cut;
}

/* The pages of a body without turns. */
struct right {
	page_key pages[512];
	uint32_t n;
};

static void check(const struct reader *r, const struct request *rq, const struct right *right)
{
	assert_int_equal(rq->n_pages, right->n);
	assert_memory_equal(r->scratch.pages.p, right->pages, right->n * sizeof(page_key));
}

static const unsigned messages[BODIES] = { 12, 14, 16 };

static void set_right(struct tok *tok, struct chat *chat, struct right *right)
{
	struct reader r;
	struct request rq;

	open_reader(&r, tok, chat, 0);
	for (unsigned i = 0; i < BODIES; i++) {
		assert_true(in_tokens(&r, &rq, messages[i]));
		assert_int_equal(rq.ids_from, 0);
		assert_true(rq.n_pages > 0 && rq.n_pages <= 512);
		right[i].n = rq.n_pages;
		memcpy(right[i].pages, r.scratch.pages.p, rq.n_pages * sizeof(page_key));
	}
	close_reader(&r);
}

/* Allocation <k> of the second body fails. Returns false if there is none. */
static bool story(struct tok *tok, struct chat *chat, const struct right *right, unsigned long k,
    unsigned *on)
{
	struct reader r;
	struct request rq;
	bool met;

	open_reader(&r, tok, chat, 8 << 20);
	assert_true(in_tokens(&r, &rq, messages[0]));
	check(&r, &rq, &right[0]);
	request_scratch_fini(&r.scratch);	/* the next one has nothing allocated */
	memset(&r.scratch, 0, sizeof(r.scratch));
	assert_int_equal(request_scratch_init(&r.scratch, &r.env.opts.prompt, &key), 0);
	fault_begin(k);
	if (in_tokens(&r, &rq, messages[1])) {
		check(&r, &rq, &right[1]);
		*on += rq.ids_from > 0;
	}
	met = fault_end();
	assert_true(in_tokens(&r, &rq, messages[2]));
	check(&r, &rq, &right[2]);
	assert_true(rq.ids_from > 0);
	fault_begin(k);
	if (in_slices(&r, &rq, messages[1]))
		check(&r, &rq, &right[1]);
	met |= fault_end();
	assert_true(in_slices(&r, &rq, messages[2]));
	check(&r, &rq, &right[2]);
	close_reader(&r);
	return met;
}

static void without_memory(void **state)
{
	struct tok_source src = { .name = TOKENIZER };
	struct chat_source of = { .template = span_str(template) };
	struct right *right = calloc(BODIES, sizeof(*right));
	struct chat *chat = chat_load(&of, &key, NULL);
	char *text = malloc(1 << 20);
	FILE *f = fopen(TOKENIZER, "r");
	unsigned long k = 1;
	unsigned on = 0;
	struct tok *tok;
	struct err e;

	(void)state;
	assert_true(right != NULL && chat != NULL && text != NULL && f != NULL);
	src.file = span_of(text, fread(text, 1, 1 << 20, f));
	fclose(f);
	assert_non_null(tok = tok_load(&src, &e));
	set_right(tok, chat, right);
	while (story(tok, chat, right, k, &on))
		k++;
	assert_true(k > 8 && on > 2);
	tok_unref(tok);
	chat_unref(chat);
	free(text);
	free(right);
}

/* ---- a slice that cannot be kept ---- */

#define PORTION		16384u		/* of read_body.c: no more events than bytes */
#define BRACKETS	900000u

/* Give slice <seq> of a body that has more of them. Returns false if it is dropped. */
static bool take_slice(struct reader *r, struct request *rq, struct span slice, int64_t seq)
{
	const struct request_message m = {
		.has_uid = true, .uid = 9, .pool = SPAN("pool"), .path = SPAN("/v1/chat/completions"),
		.body = slice, .seq = seq, .visible = 4 * BRACKETS, .whole = 4 * BRACKETS,
	};

	request_start(rq, &r->env, &r->scratch, &m, 1);
	rq->work.left = REQUEST_WORK_FULL;
	rq->in.model = "";
	return request_take_body(rq, &m);
}

/* Allocation <k> of the second slice fails. Returns false if there is none. If it was the one to
 * keep the slice, it is read as any other, up to PROMPT_EVENTS_MOST, and nothing is read after
 * it. */
static bool loose(struct span second, bool all, unsigned long k, unsigned *met_loose)
{
	static const struct span first =
	    SPAN("{\"messages\":[{\"role\":\"user\",\"content\":\"the ser");
	const struct prompt *p;
	struct request rq;
	struct reader r;
	bool met;

	open_reader(&r, NULL, NULL, 8 << 20);
	assert_true(take_slice(&r, &rq, first, 0));
	request_keep_body(&rq);
	assert_int_equal(r.env.slices.n, 1);
	fault_begin(k);
	assert_true(take_slice(&r, &rq, second, 1));
	met = fault_end();
	p = rq.prompt;
	assert_true(p->n_events < PROMPT_EVENTS_MOST + PORTION);
	if (rq.sliced->raw.failed) {
		(*met_loose)++;
		assert_int_equal(p->n_bytes, first.n + rq.raw.n);
		assert_int_equal(rq.raw.n == second.n, all);
		assert_int_equal(p->n_events >= PROMPT_EVENTS_MOST, !all);
		request_keep_body(&rq);
		assert_int_equal(r.env.slices.n, 0);
		assert_false(take_slice(&r, &rq, SPAN(" "), 2));
	}
	request_keep_body(&rq);
	close_reader(&r);
	return met;
}

static void slices_that_cannot_be_kept(void **state)
{
	static const char start[] = "ver\"}],\"pad\":[";
	char *p = malloc(BRACKETS + sizeof(start));
	size_t n = sizeof(start) - 1;
	unsigned met = 0;

	(void)state;
	assert_non_null(p);
	memcpy(p, start, n);
	for (; n + 3 <= BRACKETS; n += 3)
		memcpy(p + n, "[],", 3);
	for (unsigned long k = 1; loose(span_of(p, n), false, k, &met); k++)
		;
	assert_true(met > 0);
	met = 0;
	for (unsigned long k = 1; loose(span_of(p, 40000), true, k, &met); k++)
		;
	assert_true(met > 0);
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_memory),
		cmocka_unit_test(slices_that_cannot_be_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
