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
#include "agent/request/conversation_in.h"
#include "agent/request/request.h"
#include "tests/unit/rounds.h"

#define TOKENIZER	"tests/data/tok/llama.tokenizer.json"
#define BODY		(1u << 16)
#define MESSAGES	40u
#define ROUNDS		500u

static struct hash_key key;
static struct tok *tok;
static const char *path = "/v1/chat/completions";

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
		.pool = SPAN("pool"), .path = span_str(path), .tenant = span_str(tenant),
		.body = body, .seq = -1, .visible = -1, .whole = -1, .wall_s = 1795000000,
	};
	enum request_found found;

	request_start(rq, &r->env, &r->scratch, &m, 1);
	rq->work.left = REQUEST_WORK_FULL;
	rq->in.model = "";
	assert_true(request_take_body(rq, &m));
	found = request_read_prompt(rq);
	request_keep_body(rq);
	return found;
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
	bool items = strcmp(path, "/v1/responses") == 0;
	size_t n = (size_t)sprintf(p, "{\"%s\":[", items ? "input" : "messages");

	for (unsigned i = 0; i < t->n; i++)
		n += (size_t)sprintf(p + n, "%s%s", i > 0 ? "," : "", t->message[i]);
	return n + (size_t)sprintf(
		       p + n, "],\"model\":\"m\"%s}", t->odd ? ",\"add_special_tokens\":true" : "");
}

/* ---- the same ---- */

struct counts {
	unsigned bodies, on;
	unsigned cut, cut_on;		/* looks at a beginning of a body; those that went on */
	unsigned sliced, sliced_on;	/* bodies in slices; those whose last look went on */
	uint64_t steps, plain;		/* of looks at slices; without the memory of turns */
};

/* The pages of the beginning of a body. Tokens are estimated, of what was rendered. */
static void same_cut(const struct reader *with, const struct request *a, enum request_found found,
    struct reader *without, struct span body, uint64_t *steps)
{
	struct request b;

	assert_int_equal(read_body(without, &b, body), found);
	*steps += REQUEST_WORK_FULL - b.work.left;
	if (found != REQUEST_PROMPT)
		return;
	assert_int_equal(a->mode, b.mode);
	assert_int_equal(a->cut, b.cut);
	assert_int_equal(a->part, b.part);
	assert_int_equal(a->front_unseen, b.front_unseen);
	assert_int_equal(a->n_pages, b.n_pages);
	assert_int_equal(a->usable, b.usable);
	assert_memory_equal(
	    with->scratch.pages.p, without->scratch.pages.p, a->n_pages * sizeof(page_key));
}

static bool went_on(const struct request *rq)
{
	const struct conversation *t = rq->scratch->conversation;

	return t != NULL && rq->prompt->found && conversation_turn(rq->scratch->conversation)->found;
}

/* Read <body> in slices of about <slice> bytes, and compare each look. */
static void same_slices(struct reader *with, struct reader *without, struct span body,
    size_t slice, struct rng *rng, struct counts *c)
{
	static uint64_t uid;
	struct request_message m = {
		.has_uid = true, .uid = ++uid, .pool = SPAN("pool"), .path = span_str(path),
		.tenant = SPAN(""), .visible = (int64_t)body.n, .whole = (int64_t)body.n, .wall_s = 1795000000,
	};
	struct request a = { .more = true };
	size_t from = 0, n;

	for (m.seq = 0; a.more; m.seq++, from += n) {
		n = 1 + (size_t)rng_below(rng, (uint32_t)(2 * slice));
		n = n < body.n - from ? n : body.n - from;
		m.body = span_of(body.p + from, n);
		request_start(&a, &with->env, &with->scratch, &m, 1);
		a.work.left = REQUEST_WORK_FULL;
		a.in.model = "";
		assert_true(request_take_body(&a, &m));
		if (!a.more || !a.waits) {
			enum request_found found = request_read_prompt(&a);

			c->steps += REQUEST_WORK_FULL - a.work.left;
			same_cut(with, &a, found, without, span_of(body.p, from + n), &c->plain);
			c->cut += a.more;
			c->cut_on += a.more && went_on(&a);
			c->sliced += !a.more;
			c->sliced_on += !a.more && went_on(&a);
		}
		request_keep_body(&a);
	}
}

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

/* <template>: NULL: harmony */
static struct chat *load(const char *template)
{
	struct chat_source src = { .format = CHAT_HARMONY, .template_name = "t", .config_name = "" };
	struct err e;

	if (template != NULL) {
		src.format = CHAT_TEMPLATE;
		src.template = span_str(template);
	}
	return chat_load(&src, &key, &e);
}

static struct counts conversations(
    const char *template, size_t turns, size_t segments, uint32_t page, uint64_t seed)
{
	struct talk *t = calloc(1, sizeof(*t));
	struct counts c = { 0 };
	struct reader with, without;
	char *body = malloc(BODY);
	struct chat *chat;
	struct rng rng;

	rng_init(&rng, seed);
	assert_non_null(chat = load(template));
	open_reader(&with, chat, turns, segments, page);
	open_reader(&without, chat, 0, 1 << 22, page);
	put_message(t, t->n++, &rng);
	for (unsigned i = 0; i < rounds(ROUNDS, ROUNDS / 4); i++) {
		size_t n;

		change(t, &rng);
		n = write_body(t, body);
		if (rng_below(&rng, 8) == 0)		/* one byte is another */
			body[rng_below(&rng, n)] ^= (char)(1 << rng_below(&rng, 5));
		if (i % 3 == 1) {
			same_slices(&with, &without, span_of(body, n), n / (2 + rng_below(&rng, 6)) + 1, &rng, &c);
			continue;
		}
		if (i % 3 == 2) {
			size_t part = rng_below(&rng, n);
			uint64_t steps = 0;
			struct request rq;

			same_cut(&with, &rq, read_body(&with, &rq, span_of(body, part)), &without, span_of(body, part),
			    &steps);
			c.cut++;
			c.cut_on += went_on(&rq);
		}
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

		printf("template %zu: %u of %u bodies, %u of %u cuts, %u of %u in slices went on\n", i, c.on,
		    c.bodies, c.cut_on, c.cut, c.sliced_on, c.sliced);
		if (i < 4 && (c.on * 4 < c.bodies || c.cut_on * 4 < c.cut || c.sliced_on * 4 < c.sliced))
			fail_msg("template %zu: too few", i);
		if (i == 6)
			assert_int_equal(c.on, 0);
	}
}

/* Of harmony, only looks at a whole body go on, also after slices. */
static void conversations_in_harmony(void **state)
{
	static const uint32_t pages[] = { 16, 1, 7, 64 };
	static const char *const apis[] = { "/v1/chat/completions", "/v1/messages", "/v1/responses" };

	(void)state;
	for (size_t i = 0; i < 12; i++) {
		struct counts c;

		path = apis[i / 4];
		c = conversations(NULL, 8 << 20, 1 << 22, pages[i % 4], 70 + i);
		printf("harmony, %s: %u of %u bodies, %u of %u in slices went on\n", path, c.on, c.bodies,
		    c.sliced_on, c.sliced);
		assert_true(c.on * 4 >= c.bodies && c.sliced_on * 8 >= c.sliced);
	}
	(void)conversations(NULL, TURNS_LEAST, 1 << 22, 16, 80);
	(void)conversations(NULL, 8 << 20, SEGCACHE_LEAST, 16, 81);
	path = "/v1/chat/completions";
}

static void conversations_by(const char *api)
{
	path = api;
	for (size_t i = 0; i < 6; i++) {
		struct counts c = conversations(templates[i], 8 << 20, 1 << 22, 16, 50 + i);

		printf("template %zu: %u of %u bodies, %u of %u cuts, %u of %u in slices went on\n", i, c.on,
		    c.bodies, c.cut_on, c.cut, c.sliced_on, c.sliced);
		if (i < 4 && (c.on * 4 < c.bodies || c.cut_on * 4 < c.cut || c.sliced_on * 4 < c.sliced))
			fail_msg("template %zu: too few", i);
	}
	path = "/v1/chat/completions";
}

static void conversations_of_messages(void **state)
{
	(void)state;
	conversations_by("/v1/messages");
}

static void conversations_of_responses(void **state)
{
	(void)state;
	conversations_by("/v1/responses");
}

/* Clients mark where a cache is to end: at the end of the last message, of the last two, or of the
 * last two of a user. In the next turn the bytes of these are others. */
static void markers_that_move(void **state)
{
	static const char *const paths[] = { "/v1/messages", "/v1/chat/completions" };
	static const unsigned marks[] = { 1, 3, 5 };	/* bits: of the last message, the one before, ... */
	static const char marker[] = ",\"cache_control\":{\"type\":\"ephemeral\"}";
	char *body = malloc(BODY);

	(void)state;
	for (unsigned k = 0; k < 6; k++) {
		struct chat *chat = load(templates[0]);
		struct reader with, without;
		struct counts c = { 0 };
		struct rng rng;

		path = paths[k % 2];
		open_reader(&with, chat, 8 << 20, 1 << 22, 16);
		open_reader(&without, chat, 0, 1 << 22, 16);
		rng_init(&rng, k);
		for (unsigned turn = 0; turn < 12; turn++) {
			unsigned n = 5 + 2 * turn;
			size_t at = (size_t)sprintf(body, "{\"model\":\"m\",\"messages\":[");

			for (unsigned i = 0; i < n; i++)
				at += (size_t)sprintf(body + at, "%s{\"role\":\"%s\",\"content\":[{\"type\":"
				    "\"text\",\"text\":\"message %u what is the server, please and again\"%s}]}",
				    i > 0 ? "," : "", i % 2 ? "assistant" : "user", i,
				    n - 1 - i < 3 && (marks[k / 2] >> (n - 1 - i) & 1) != 0 ? marker : "");
			at += (size_t)sprintf(body + at, "]}");
			same(&with, &without, span_of(body, at), &rng, &c);
		}
		assert_true(c.on >= 10);
		close_reader(&with);
		close_reader(&without);
		chat_unref(chat);
	}
	free(body);
}

/* Looks at slices cost what is new and not the body so far; of a known turn, all of them less than
 * one look at a body whose segments are known. */
static void looks_at_slices_cost_what_is_new(void **state)
{
	struct chat_source src = {
		.template = span_str(templates[0]), .template_name = "t", .config_name = ""
	};
	struct chat *chat = chat_load(&src, &key, NULL);
	struct talk *t = calloc(1, sizeof(*t));
	char *body = malloc(BODY);
	struct reader with, without;
	struct counts c = { 0 };
	struct request rq;
	struct rng rng;
	size_t n;

	(void)state;
	assert_non_null(chat);
	open_reader(&with, chat, 8 << 20, 1 << 22, 16);
	open_reader(&without, chat, 0, 1 << 22, 16);
	rng_init(&rng, 6);
	put_message(t, t->n++, &rng);
	n = write_body(t, body);		/* its model, for the bodies that are cut before it */
	same(&with, &without, span_of(body, n), &rng, &c);
	while (t->n < MESSAGES - 3)
		put_message(t, t->n++, &rng);
	n = write_body(t, body);
	same_slices(&with, &without, span_of(body, n), n / 24, &rng, &c);
	assert_true(c.cut > 12 && c.cut_on > c.cut / 2);
	assert_true(c.steps < c.plain / 4);
	assert_int_equal(c.sliced_on, 1);	/* from an earlier look at it */
	while (t->n < MESSAGES - 1)
		put_message(t, t->n++, &rng);
	n = write_body(t, body);
	c.steps = 0;
	same_slices(&with, &without, span_of(body, n), n / 2, &rng, &c);
	assert_int_equal(c.sliced_on, 2);
	read_body(&without, &rq, span_of(body, n));
	assert_true(c.steps < REQUEST_WORK_FULL - rq.work.left);
	close_reader(&with);
	close_reader(&without);
	chat_unref(chat);
	free(body);
	free(t);
}

/* Two messages more cost a part of the whole body whose segments are known, by any API, also in
 * harmony. */
static void a_turn_costs_what_is_new(void **state)
{
	static const struct {
		const char *path;
		bool harmony;
	} kinds[] = {
		{ "/v1/messages", false }, { "/v1/responses", false }, { "/v1/messages", true },
		{ "/v1/responses", true }, { "/v1/chat/completions", true }, { "/v1/chat/completions", false },
	};
	char *body = malloc(BODY);

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct chat *chat = load(kinds[i].harmony ? NULL : templates[0]);
		struct talk *t = calloc(1, sizeof(*t));
		struct reader with, without;
		struct request a, b;
		struct rng rng;

		assert_non_null(chat);
		path = kinds[i].path;
		open_reader(&with, chat, 8 << 20, 1 << 22, 16);
		open_reader(&without, chat, 0, 1 << 22, 16);
		rng_init(&rng, 9);
		while (t->n < MESSAGES) {
			struct span raw;

			put_message(t, t->n++, &rng);
			put_message(t, t->n++, &rng);
			raw = span_of(body, write_body(t, body));
			assert_int_equal(read_body(&without, &b, raw), REQUEST_PROMPT);
			assert_int_equal(read_body(&with, &a, raw), REQUEST_PROMPT);
		}
		assert_true(a.mode == PROMPT_TOKENS && a.ids_from > 0);
		printf("%s, %s: %llu steps for 2 of %u messages, %llu without turns\n", path,
		    kinds[i].harmony ? "harmony" : "a template",
		    (unsigned long long)(REQUEST_WORK_FULL - a.work.left), t->n,
		    (unsigned long long)(REQUEST_WORK_FULL - b.work.left));
		assert_true(4 * (REQUEST_WORK_FULL - a.work.left) < REQUEST_WORK_FULL - b.work.left);
		close_reader(&with);
		close_reader(&without);
		chat_unref(chat);
		free(t);
	}
	free(body);
}

/* Return the steps of a first look at the same body: at once, or in slices. */
static uint64_t first_look(struct chat *chat, struct span head, struct span body, unsigned slices)
{
	struct reader with, without;
	struct counts c = { 0 };
	struct request rq;
	struct rng rng;

	rng_init(&rng, 7);
	open_reader(&with, chat, 8 << 20, 1 << 22, 16);
	open_reader(&without, chat, 0, 1 << 22, 16);
	same(&with, &without, head, &rng, &c);		/* its model, before it is seen */
	if (slices > 0) {
		same_slices(&with, &without, body, body.n / slices, &rng, &c);
		assert_true(c.cut * 2 >= slices);
	} else {
		assert_int_equal(read_body(&with, &rq, body), REQUEST_PROMPT);
		assert_int_equal(rq.mode, PROMPT_TOKENS);
		c.steps = REQUEST_WORK_FULL - rq.work.left;
	}
	close_reader(&with);
	close_reader(&without);
	return c.steps;
}

/* Steps count what is read, rendered and encoded. Each look reads and renders the message again
 * that was the last one before. */
/* The pages of a turn are collected from few earlier ones, however many there were; also after an
 * answer was generated again. */
static void pages_come_from_few_turns(void **state)
{
	struct reader with, without;
	struct chat *chat = load(templates[0]);
	char *body = malloc(BODY);
	struct counts c = { 0 };
	unsigned most = 0, all = 0, again = 0;
	size_t at[600], n;
	struct rng rng;

	(void)state;
	rng_init(&rng, 5);
	open_reader(&with, chat, 8 << 20, 1 << 22, 4);
	open_reader(&without, chat, 0, 1 << 22, 4);
	at[0] = (size_t)sprintf(body, "{\"messages\":[{\"role\":\"user\",\"content\":\"0\"}");
	for (unsigned i = 1; i < 600; i++) {
		const struct turn_ids *t;

		at[i] = at[i - 1] + (size_t)sprintf(body + at[i - 1],
		    ",{\"role\":\"assistant\",\"content\":\"%u %u\"},"
		    "{\"role\":\"user\",\"content\":\"%u\"}", i, again, i);
		n = at[i] + (size_t)sprintf(body + at[i], "],\"model\":\"m\"}");
		same(&with, &without, span_of(body, n), &rng, &c);
		t = conversation_turn(with.scratch.conversation);
		assert_true(t->found || i < 6);		/* short bodies are not remembered */
		most = t->found && t->n_steps > most ? t->n_steps : most;
		all += t->found ? t->n_steps : 0;
		if (i % 50 == 49 && again == i / 50) {
			again++;
			i -= 1 + (unsigned)rng_below(&rng, 6);
		}
	}
	printf("%u bodies, %u went on from %u turns, at most %u\n", c.bodies, c.on, all, most);
	assert_int_equal(most, 13);
	assert_true(all < 8 * c.on && c.on + 10 > c.bodies);
	close_reader(&with);
	close_reader(&without);
	chat_unref(chat);
	free(body);
}

static void a_first_look_in_slices_costs_one_look(void **state)
{
	struct talk *t = calloc(1, sizeof(*t));
	char *body = malloc(BODY), head[1024];
	struct rng rng;
	size_t n, n_head;

	(void)state;
	rng_init(&rng, 8);
	put_message(t, t->n++, &rng);
	n_head = write_body(t, head);
	while (t->n < MESSAGES - 1)
		put_message(t, t->n++, &rng);
	n = write_body(t, body);
	for (size_t i = 0; i < 4; i++) {
		struct chat_source src = {
			.template = span_str(templates[i]), .template_name = "t", .config_name = ""
		};
		struct chat *chat = chat_load(&src, &key, NULL);
		uint64_t once = first_look(chat, span_of(head, n_head), span_of(body, n), 0);

		for (unsigned slices = 2; slices <= 8; slices *= 2) {
			uint64_t all =
			    first_look(chat, span_of(head, n_head), span_of(body, n), slices);

			printf("template %zu: %llu steps at once, %llu in %u slices\n", i,
			    (unsigned long long)once, (unsigned long long)all, slices);
			assert_true(2 * all < 3 * once);
		}
		chat_unref(chat);
	}
	free(body);
	free(t);
}

/* A message as long as <n> bytes of the body. */
static size_t put_long(char *p, size_t n, const char *content)
{
	size_t at = (size_t)sprintf(p, "{\"role\":\"user\",\"content\":\"%s", content);

	while (at + 12 < n)
		at += (size_t)sprintf(p + at, "the server ");
	return at + (size_t)sprintf(p + at, "\"}");
}

static struct request look_at(
    struct reader *r, struct span all, size_t from, size_t to, int64_t seq)
{
	const struct request_message m = {
		.has_uid = true, .uid = 7, .pool = SPAN("pool"), .path = span_str(path), .tenant = SPAN(""),
		.body = span_of(all.p + from, to - from), .seq = seq, .visible = (int64_t)all.n,
		.whole = (int64_t)all.n, .wall_s = 1795000000,
	};
	struct request rq;

	request_start(&rq, &r->env, &r->scratch, &m, 1);
	rq.work.left = REQUEST_WORK_FULL;
	rq.in.model = "";
	assert_true(request_take_body(&rq, &m));
	assert_int_equal(request_read_prompt(&rq), REQUEST_PROMPT);
	return rq;
}

/* A state of an earlier look at the body is found however long the message after it is; one of an
 * earlier body, up to 32 chunks back. */
static void states_far_back(void **state)
{
	struct chat_source src = {
		.template = span_str(templates[0]), .template_name = "t", .config_name = ""
	};
	static const char head[] = "{\"model\":\"m\",\"messages\":[";
	struct chat *chat = chat_load(&src, &key, NULL);
	char *body = malloc(BODY);
	struct reader r;
	struct request rq;
	size_t n, border;

	(void)state;
	assert_non_null(chat);
	for (unsigned own = 0; own < 2; own++) {
		open_reader(&r, chat, 8 << 20, 1 << 22, 16);
		n = (size_t)sprintf(body, "%s", head);
		for (unsigned i = 0; i < 4; i++) {
			n += put_long(body + n, 400, "");
			n += (size_t)sprintf(body + n, ",");
		}
		border = n;
		if (!own) {
			memcpy(body + n - 1, "]}", 2);
			assert_int_equal(read_body(&r, &rq, span_of(body, n + 1)), REQUEST_PROMPT);
			assert_int_equal(rq.mode, PROMPT_TOKENS);
			body[n - 1] = ',';
		}
		n += put_long(body + n, 40 * 256, "");
		n += (size_t)sprintf(body + n, "]}");
		if (!own)
			border = sizeof(head) + 60;
		rq = look_at(&r, span_of(body, n), 0, border, 0);
		assert_true(rq.more);
		assert_int_equal(rq.sliced->state_chunk == SIZE_MAX, !own);
		request_keep_body(&rq);
		rq = look_at(&r, span_of(body, n), border, n, 1);
		assert_int_equal(rq.mode, PROMPT_TOKENS);
		assert_int_equal(went_on(&rq), own);
		request_keep_body(&rq);
		close_reader(&r);
	}
	chat_unref(chat);
	free(body);
}

/* A template that cannot go on where it was reads the body as if nothing was known of it. */
static void a_state_that_does_not_help_is_paid(void **state)
{
	static const char template[] =
	    LINE("{{ m.content }}<|end|>{% if m.content == 'all' %}{% for k in messages %}"
		 "{{ k.content }}{% endfor %}{% endif %}");
	struct chat_source src = {
		.template = span_str(template), .template_name = "t", .config_name = ""
	};
	struct chat *chat = chat_load(&src, &key, NULL);
	char *body = malloc(BODY);
	struct reader with, without;
	struct request a, b;
	size_t n;

	(void)state;
	assert_non_null(chat);
	open_reader(&with, chat, 8 << 20, 1 << 22, 16);
	open_reader(&without, chat, 0, 1 << 22, 16);
	n = (size_t)sprintf(body, "{\"model\":\"m\",\"messages\":[");
	for (unsigned i = 0; i < 12; i++) {	/* more than a template may read after all */
		n += put_long(body + n, 1400, "");
		n += (size_t)sprintf(body + n, ",");
	}
	memcpy(body + n - 1, "]}", 2);
	assert_int_equal(read_body(&with, &a, span_of(body, n + 1)), REQUEST_PROMPT);
	assert_int_equal(read_body(&without, &b, span_of(body, n + 1)), REQUEST_PROMPT);
	for (unsigned all = 0; all < 2; all++) {
		size_t whole = n - 1 + (size_t)sprintf(body + n - 1,
		    ",{\"role\":\"user\",\"content\":\"%s\"}]}", all ? "all" : "one");

		assert_int_equal(read_body(&with, &a, span_of(body, whole)), REQUEST_PROMPT);
		assert_int_equal(read_body(&without, &b, span_of(body, whole)), REQUEST_PROMPT);
		assert_true(a.mode == PROMPT_TOKENS && b.mode == PROMPT_TOKENS);
		assert_int_equal(a.ids_from > 0, !all);
	}
	printf("%u steps, %u without turns\n", (unsigned)(REQUEST_WORK_FULL - a.work.left),
	    (unsigned)(REQUEST_WORK_FULL - b.work.left));
	assert_true(a.work.left <= b.work.left);
	close_reader(&with);
	close_reader(&without);
	chat_unref(chat);
	free(body);
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

/* Harmony's ids are those of its text, where no run of text ends beside another. */
static void ids_of_harmony(void **state)
{
	static const char raw[] =
	    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"route\"},"
	    "{\"role\":\"assistant\",\"content\":\"HAProxy\"},{\"role\":\"user\",\"content\":\"and\"}]}";
	struct chat_body b = {
		.raw = span_str(raw), .now = { .year = 2026, .month = 11, .day = 18 }
	};
	struct chat *chat = load(NULL);
	struct chat_scratch *s = chat_scratch_new(1 << 20, &key);
	struct tok_scratch *c = tok_scratch_new();
	struct ids ids = { .n = 0 };
	struct chat_text text;
	struct reader r;
	struct request rq;

	(void)state;
	open_reader(&r, chat, 0, 1 << 22, 1);
	assert_int_equal(read_body(&r, &rq, span_str(raw)), REQUEST_PROMPT);
	assert_int_equal(chat_render(chat, s, &b, &text), CHAT_DONE);
	assert_int_equal(tok_encode(tok, c, span_of(text.p, text.n), 0, &ids), 0);
	assert_int_equal(rq.n_ids, ids.n);
	assert_memory_equal(request_ids(&rq, 0, ids.n), ids.p, ids.n * sizeof(*ids.p));
	ids_free(&ids);
	tok_scratch_free(c);
	chat_scratch_free(s);
	close_reader(&r);
	chat_unref(chat);
}

/* Put harmony's tokens after those of the file in <text>. */
static size_t add_tokens(char *text, size_t n)
{
	static const char *const tokens[] = {
		"<|start|>", "<|channel|>", "<|message|>", "<|call|>"
	};
	char more[1024], *at;
	size_t n_more = 0;

	text[n] = '\0';
	at = strstr(text, "],\"normalizer\"");
	assert_non_null(at);
	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++)
		n_more += (size_t)sprintf(more + n_more,
		    ",{\"id\":%zu,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,"
		    "\"rstrip\":false,\"normalized\":false,\"special\":true}", 402 + i, tokens[i]);
	memmove(at + n_more, at, n - (size_t)(at - text));
	memcpy(at, more, n_more);
	return n + n_more;
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
	src.file = span_of(text, add_tokens(text, fread(text, 1, 1 << 19, f)));
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

/* So the answer does not wait for it. A request without an end is remembered at once. */
static void a_body_is_remembered_at_the_end_of_its_request(void **state)
{
	static const char text[] =
	    "{\"messages\":[{\"role\":\"user\",\"content\":\"where are my pages kept, please?\"},"
	    "{\"role\":\"assistant\",\"content\":\"in the index\"}]}";
	const struct request_message m = {
		.path = span_str(path), .body = span_str(text), .seq = -1, .visible = -1, .whole = -1,
	};
	struct turns_stats before, after;
	struct request rq;
	struct reader r;

	open_reader(&r, NULL, 1 << 20, 0, 16);
	for (unsigned aside = 0; aside < 2; aside++) {
		turns_clear(r.env.turns);
		request_start(&rq, &r.env, &r.scratch, &m, 1);
		rq.aside = rq.lasting = aside;
		assert_true(request_take_body(&rq, &m));
		turns_stats(r.env.turns, &before);
		request_keep_body(&rq);
		turns_stats(r.env.turns, &after);
		assert_true(after.points > 0);
		assert_int_equal(before.points, aside ? after.points : 0);
	}
	close_reader(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(growing_conversations),
		cmocka_unit_test(conversations_in_harmony),
		cmocka_unit_test(conversations_of_messages),
		cmocka_unit_test(conversations_of_responses),
		cmocka_unit_test(markers_that_move),
		cmocka_unit_test(looks_at_slices_cost_what_is_new),
		cmocka_unit_test(a_turn_costs_what_is_new),
		cmocka_unit_test(pages_come_from_few_turns),
		cmocka_unit_test(a_first_look_in_slices_costs_one_look),
		cmocka_unit_test(states_far_back),
		cmocka_unit_test(a_state_that_does_not_help_is_paid),
		cmocka_unit_test(small_memories),
		cmocka_unit_test(a_body_is_remembered_at_the_end_of_its_request),
		cmocka_unit_test(others), cmocka_unit_test(ids_of_harmony),
	};

	return cmocka_run_group_tests(tests, start, end);
}
