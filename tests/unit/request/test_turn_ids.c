/* test_turn_ids.c - pages and ids of conversations with the memory of earlier turns are those
 * without it: bodies that grow, shrink, differ in a message or in one byte, two memories that are
 * too small, and ids of earlier turns that are asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/request/request.h"

#define TOKENIZER	"tests/data/tok/llama.tokenizer.json"
#define BODY		(1u << 16)
#define MESSAGES	40u
#define ROUNDS		500u

static struct hash_key key;
static struct tok *tok;

struct reader {
	struct model_opts fallback, model;
	struct request_env env;
	struct request_scratch scratch;
};

static void open_reader(
    struct reader *r, struct chat *chat, size_t turns, size_t segments, uint32_t page)
{
	struct request_opts o = { .slices_max_bytes = 1 << 20, .segcache_max_bytes = segments };

	memset(r, 0, sizeof(*r));
	model_defaults(&r->fallback);
	model_defaults(&r->model);
	strcpy(r->model.name, "m");
	r->model.mode = MODEL_TOKENS;
	r->model.tok = tok;
	r->model.chat = chat;
	prompt_defaults(&o.prompt);
	o.prompt.token_page = page;
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

static enum request_found read_of(
    struct reader *r, struct request *rq, struct span body, const char *tenant)
{
	const struct request_message m = {
		.pool = SPAN("pool"), .path = SPAN("/v1/chat/completions"), .tenant = span_str(tenant),
		.body = body, .seq = -1, .visible = -1, .whole = -1, .wall_s = 1795000000,
	};

	request_start(rq, &r->env, &r->scratch, &m, 1);
	rq->work.left = REQUEST_WORK_FULL;
	rq->in.model = "";
	assert_true(request_take_body(rq, &m));
	return request_read_prompt(rq);
}

static enum request_found read_body(struct reader *r, struct request *rq, struct span body)
{
	return read_of(r, rq, body, "");
}

/* ---- conversations ---- */

struct talk {
	char message[MESSAGES][300];
	unsigned n;
	bool odd;
};

static void put_message(struct talk *t, unsigned at, struct rng *rng)
{
	static const char *const parts[] = {
		"the server", " and ", "<|end|>", "<|en", "d|>", "\\n", "  ", "route", "\\u00e9", "12345",
		"<|begin|>",
		"HAProxy what is", "\\t", "\\u0338", " prompt", "\\\"",
	};
	char *p = t->message[at];
	size_t n = (size_t)sprintf(
	    p, "{\"role\":\"%s\",\"content\":\"", at % 2 == 0 ? "user" : "assistant");

	for (unsigned i = (unsigned)rng_below(rng, 16); i > 0; i--)
		n += (size_t)sprintf(p + n, "%s", parts[rng_below(rng, sizeof(parts) / sizeof(parts[0]))]);
	sprintf(p + n, "\"}");
}

static void change(struct talk *t, struct rng *rng)
{
	unsigned what = (unsigned)rng_below(rng, 14);

	if (what == 0) {
		t->n = 1 + (unsigned)rng_below(rng, t->n);
	} else if (what == 1) {
		put_message(t, (unsigned)rng_below(rng, t->n), rng);
	} else if (what == 2) {
		t->odd = !t->odd;
	} else if (what > 3) {
		for (unsigned i = 1 + (unsigned)rng_below(rng, 2); i > 0 && t->n < MESSAGES; i--)
			put_message(t, t->n++, rng);
		if (t->n == MESSAGES)
			t->n = 3;
	}
}

static size_t write_body(const struct talk *t, char *p)
{
	size_t n = (size_t)sprintf(p, "{\"messages\":[");

	for (unsigned i = 0; i < t->n; i++)
		n += (size_t)sprintf(p + n, "%s%s", i > 0 ? "," : "", t->message[i]);
	return n + (size_t)sprintf(
		       p + n, "],\"model\":\"m\"%s}", t->odd ? ",\"add_special_tokens\":true" : "");
}

/* ---- the same ---- */

struct counts {
	unsigned bodies, on;
};

static void same(struct reader *with, struct reader *without, struct span body, struct rng *rng,
    struct counts *c)
{
	struct request a, b;
	enum request_found found = read_body(without, &b, body);
	const token_id *ids, *all;

	assert_int_equal(read_body(with, &a, body), found);
	c->bodies++;
	c->on += a.ids_from > 0;
	if (found != REQUEST_PROMPT)
		return;
	assert_int_equal(a.mode, b.mode);
	assert_int_equal(a.n_pages, b.n_pages);
	assert_int_equal(a.usable, b.usable);
	assert_int_equal(a.tokens, b.tokens);
	assert_int_equal(a.n_ids, b.n_ids);
	assert_memory_equal(with->scratch.pages.p, without->scratch.pages.p, a.n_pages * sizeof(page_key));
	assert_true(a.ids_from <= a.n_ids && a.ids_from % a.page == 0);
	all = request_ids(&b, 0, b.n_ids);
	for (unsigned i = 0; all != NULL && i < 3; i++) {
		uint64_t from = i == 0 ? a.ids_from : rng_below(rng, a.n_ids + 1), n = a.n_ids - from;

		if (i == 1 && rng_below(rng, 4) > 0)
			break;
		ids = request_ids(&a, from, n);
		assert_non_null(ids);
		assert_memory_equal(ids, all + from, n * sizeof(*ids));
	}
	assert_null(request_ids(&a, 0, a.n_ids + 1));
	assert_null(request_ids(&a, UINT64_MAX, 2));
}

static struct counts conversations(
    const char *template, size_t turns, size_t segments, uint32_t page, uint64_t seed)
{
	struct chat_source src = {
		.template = span_str(template), .template_name = "t", .config_name = ""
	};
	struct talk *t = calloc(1, sizeof(*t));
	struct counts c = { 0 };
	struct reader with, without;
	char *body = malloc(BODY);
	struct chat *chat;
	struct rng rng;
	struct err e;

	rng_init(&rng, seed);
	assert_non_null(chat = chat_load(&src, &key, &e));
	open_reader(&with, chat, turns, segments, page);
	open_reader(&without, chat, 0, 1 << 22, page);
	put_message(t, t->n++, &rng);
	for (unsigned i = 0; i < ROUNDS; i++) {
		size_t n;

		change(t, &rng);
		n = write_body(t, body);
		if (rng_below(&rng, 8) == 0)		/* one byte is another */
			body[rng_below(&rng, n)] ^= (char)(1 << rng_below(&rng, 5));
		same(&with, &without, span_of(body, n), &rng, &c);
	}
	close_reader(&with);
	close_reader(&without);
	chat_unref(chat);
	free(body);
	free(t);
	return c;
}

#define LINE(...)	"{% for m in messages %}" __VA_ARGS__ "{% endfor %}{{ 'assistant: ' }}"

static const char *const templates[] = {
	LINE("{{ m.role }}: {{ m.content }}<|end|>"),
	LINE("{{ m.role }}: {{ m.content }}<|end|>\n  \n"),
	LINE("<|begin|>{{ m.content | trim }}<|end|>{% if not loop.last %}\n{% endif %}"),
	"{% set ns = namespace(n=0) %}" LINE("{{ ns.n }}{% set ns.n = ns.n + 1 %}{{ m.content }}<|end|>"),
	LINE("<|end|>{{ m.role }}: {{ m.content }}"),		/* the token is not at the end */
	LINE("{{ m.role }}: {{ m.content }}"),			/* there is none, but of users */
	LINE("{{ m.content }}{{ messages | length }}<|end|>"),
};

static void growing_conversations(void **state)
{
	static const uint32_t pages[] = { 16, 1, 7, 64 };

	(void)state;
	for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++) {
		struct counts c = conversations(templates[i], 8 << 20, 1 << 22, pages[i % 4], 10 + i);

		if (i < 4 && c.on * 4 < c.bodies)
			fail_msg("template %zu: %u of %u bodies went on", i, c.on, c.bodies);
		if (i == 6)
			assert_int_equal(c.on, 0);
	}
}

static void small_memories(void **state)
{
	struct counts c = { 0 };

	(void)state;
	for (uint64_t i = 0; i < 3; i++) {
		c = conversations(templates[i], TURNS_LEAST, 1 << 22, 16, 30 + i);
		c = conversations(templates[i], 8 << 20, SEGCACHE_LEAST, 16, 40 + i);
	}
	assert_true(c.bodies > 0);
}

/* A tenant's turns serve no other tenant, nor a model whose template or name is another. */
static void others(void **state)
{
	static const char other[] = LINE("{{ m.role }}- {{ m.content }}<|end|>");
	struct chat_source src = {
		.template = span_str(templates[0]), .template_name = "t", .config_name = ""
	};
	struct chat *chat = chat_load(&src, &key, NULL), *chat2;
	struct talk *t = calloc(1, sizeof(*t));
	char *body = malloc(BODY);
	struct reader r;
	struct request rq;
	struct span span;
	struct rng rng;

	(void)state;
	src.template = span_str(other);
	chat2 = chat_load(&src, &key, NULL);
	assert_true(chat != NULL && chat2 != NULL);
	open_reader(&r, chat, 8 << 20, 1 << 22, 16);
	rng_init(&rng, 5);
	while (t->n < 20)
		put_message(t, t->n++, &rng);
	span = span_of(body, write_body(t, body));
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(read_of(&r, &rq, span, "a"), REQUEST_PROMPT);
		assert_int_equal(rq.ids_from > 0, i == 1);
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(read_of(&r, &rq, span, "b"), REQUEST_PROMPT);
		assert_int_equal(rq.ids_from > 0, i == 1);
	}
	r.model.chat = chat2;
	assert_int_equal(read_of(&r, &rq, span, "a"), REQUEST_PROMPT);
	assert_int_equal(rq.ids_from, 0);
	assert_int_equal(rq.mode, PROMPT_TOKENS);
	close_reader(&r);
	chat_unref(chat);
	chat_unref(chat2);
	free(body);
	free(t);
}

static int start(void **state)
{
	struct tok_source src = { .name = TOKENIZER };
	char *text = malloc(1 << 20);
	FILE *f = fopen(TOKENIZER, "r");
	struct rng rng;
	struct err e;

	(void)state;
	rng_init(&rng, 3);
	for (size_t i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
	assert_non_null(f);
	src.file = span_of(text, fread(text, 1, 1 << 20, f));
	fclose(f);
	tok = tok_load(&src, &e);
	free(text);
	assert_non_null(tok);
	return 0;
}

static int end(void **state)
{
	(void)state;
	tok_unref(tok);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(growing_conversations),
		cmocka_unit_test(small_memories),
		cmocka_unit_test(others),
	};

	return cmocka_run_group_tests(tests, start, end);
}
