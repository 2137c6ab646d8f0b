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

	request_start(rq, &r->env, &r->scratch, &m, 1);
	rq->work.left = REQUEST_WORK_FULL;
	rq->in.model = "";
	return request_take_body(rq, &m) && request_read_prompt(rq) == REQUEST_PROMPT &&
	       rq->mode == PROMPT_TOKENS;
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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(without_memory) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
