/* ask.c - request bodies of seven APIs to tokens.
 *
 * A tokenizer is not needed here: equal text must give equal tokens, the count must be about right
 * (English has 4 bytes a token), and a prefix must stay a prefix. One pass over the body's tree;
 * O(bytes). */
#include "tests/tools/lib/ask.h"

#include <stdlib.h>

#include "agent/base/billing.h"
#include "tests/tools/lib/blocks.h"
#include "tests/tools/lib/buf.h"
#include "tests/tools/lib/jdom.h"

#define IMAGE_TOKENS	64

static bool ends_with(struct span s, struct span end)
{
	return s.n > end.n && memcmp(s.p + s.n - end.n, end.p, end.n) == 0;
}

enum api api_of_path(struct span path)
{
	static const struct {
		const char *path;
		enum api api;
	} all[] = {
		{ "/v1/chat/completions", API_CHAT }, { "/v1/completions", API_COMPLETIONS },
		{ "/v1/responses", API_RESPONSES }, { "/v1/messages", API_MESSAGES },
		{ "/v1/embeddings", API_EMBEDDINGS }, { "/generate", API_GENERATE },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (span_eq(path, span_str(all[i].path)))
			return all[i].api;
	if (ends_with(path, SPAN(":generateContent")))
		return API_CONTENTS;
	if (ends_with(path, SPAN(":streamGenerateContent")))
		return API_STREAM_CONTENTS;
	return API_NONE;
}

static uint32_t *room(struct tokens *ts, size_t n)
{
	if (ts->cap - ts->n < n) {
		ts->cap = (ts->n + n) * 2;
		ts->t = tool_resize(ts->t, ts->cap, sizeof(*ts->t));
	}
	ts->n += n;
	return ts->t + ts->n - n;
}

static void put_token(struct tokens *ts, uint32_t t)
{
	*room(ts, 1) = t;
}

static void put_text(struct tokens *ts, struct span s)
{
	size_t n = s.n / 4 + (s.n % 4 != 0);
	uint32_t *to;

	if (n == 0)
		return;
	to = room(ts, n);
	to[n - 1] = 0;
	memcpy(to, s.p, s.n);
}

static uint64_t hash_text(uint64_t before, struct span s)
{
	struct tokens ts = { 0 };
	uint64_t h;

	put_text(&ts, s);
	put_token(&ts, (uint32_t)s.n);
	h = blocks_hash(before, ts.t, ts.n);
	free(ts.t);
	return h;
}

/* A token no text gives: its lowest byte is 0xff, which UTF-8 does not have. */
static void put_mark(struct tokens *ts, struct span word)
{
	put_token(ts, (uint32_t)hash_text(0, word) | 0xff);
}

static void put_image(struct tokens *ts, struct span what)
{
	uint64_t h = hash_text(1, what);

	for (uint32_t i = 0; i < IMAGE_TOKENS; i++)
		put_token(ts, (uint32_t)(h >> 16) * (i + 1) | 0xff);
}

/* Text parts in a row, from <c> on, are one text, as templates join them; anything else ends the
 * run. */
static void put_parts(struct tokens *ts, const struct jnode *c)
{
	struct buf text = { 0 };

	for (; c; c = c->next) {
		const struct jnode *t = jis(c, J_STRING) ? c : jget(c, "text");

		if (jis(t, J_STRING)) {
			buf_put(&text, t->text.p, t->text.n);
			continue;
		}
		put_text(ts, buf_span(&text));
		text.n = 0;
		if (jget(c, "image_url") || jget(c, "source") || jget(c, "input_audio"))
			put_image(ts, c->raw);
		else
			put_text(ts, c->raw);
	}
	put_text(ts, buf_span(&text));
	buf_free(&text);
}

static void put_content(struct tokens *ts, const struct jnode *c)
{
	if (jis(c, J_STRING))
		put_text(ts, c->text);
	else if (jis(c, J_ARRAY))
		put_parts(ts, c->first);
}

static void put_raw(struct tokens *ts, const char *mark, const struct jnode *nd)
{
	if (nd == NULL)
		return;
	put_mark(ts, span_str(mark));
	put_text(ts, nd->raw);
}

/* A chat message, or an item of the responses API. */
static void put_message(struct tokens *ts, const struct jnode *m)
{
	struct span role = jtext(jget(m, "role"));

	put_mark(ts, role.n ? role : jtext(jget(m, "type")));
	put_content(ts, jget(m, "content"));
	put_raw(ts, "tool_calls", jget(m, "tool_calls"));
	put_raw(ts, "name", jget(m, "name"));
	put_raw(ts, "tool_call_id", jget(m, "tool_call_id"));
	put_raw(ts, "arguments", jget(m, "arguments"));
	put_raw(ts, "output", jget(m, "output"));
	put_mark(ts, SPAN("end"));
}

/* As vLLM, without Claude Code's block that differs in each request. */
static void put_system(struct tokens *ts, const struct jnode *content)
{
	if (content == NULL)
		return;
	put_mark(ts, SPAN("system"));
	if (jis(content, J_ARRAY) && content->first &&
	    billing_begins(jtext(jget(content->first, "text"))))
		put_parts(ts, content->first->next);
	else
		put_content(ts, content);
	put_mark(ts, SPAN("end"));
}

static const char *put_conversation(struct tokens *ts, const struct jnode *messages,
				    const struct jnode *tools)
{
	const struct jnode *m = messages->first;

	for (; m && span_eq(jtext(jget(m, "role")), SPAN("system")); m = m->next)
		put_message(ts, m);
	put_raw(ts, "tools", tools);
	for (; m; m = m->next) {
		if (!jis(m, J_OBJECT))
			return "a message is not an object";
		put_message(ts, m);
	}
	put_mark(ts, SPAN("assistant"));
	return NULL;
}

static struct tokens *prompt_new(struct ask *a)
{
	return a->n_prompts < ASK_PROMPTS_MAX ? &a->prompts[a->n_prompts++] : NULL;
}

static const char *put_ids(struct tokens *ts, const struct jnode *ids)
{
	for (const struct jnode *c = ids->first; c; c = c->next) {
		double v = jnumber(c, -1);

		if (v < 0 || v > UINT32_MAX)
			return "a token id is not a number that can be one";
		put_token(ts, (uint32_t)v);
	}
	return NULL;
}

/* One prompt: a string or a list of token ids. */
static const char *put_prompt(struct ask *a, const struct jnode *nd)
{
	struct tokens *ts = prompt_new(a);

	if (ts == NULL)
		return "too many prompts in one request";
	if (jis(nd, J_ARRAY))
		return put_ids(ts, nd);
	if (!jis(nd, J_STRING))
		return "a prompt is neither text nor token ids";
	put_text(ts, nd->text);
	return NULL;
}

/* A prompt or a list of them. A list that starts with a number is one prompt. */
static const char *put_prompts(struct ask *a, const struct jnode *nd)
{
	const char *why = NULL;

	if (nd == NULL)
		return "there is no prompt";
	if (!jis(nd, J_ARRAY) || jis(nd->first, J_NUMBER))
		return put_prompt(a, nd);
	for (const struct jnode *c = nd->first; c && why == NULL; c = c->next)
		why = put_prompt(a, c);
	return why;
}

static const char *put_chat(struct ask *a, const struct jnode *root)
{
	struct tokens *ts = prompt_new(a);
	const struct jnode *messages = jget(root, "messages");

	if (!jis(messages, J_ARRAY) || messages->n == 0)
		return "there are no messages";
	put_system(ts, jget(root, "system"));
	return put_conversation(ts, messages, jget(root, "tools"));
}

static const char *put_responses(struct ask *a, const struct jnode *root)
{
	const struct jnode *input = jget(root, "input");
	struct tokens *ts = prompt_new(a);

	put_system(ts, jget(root, "instructions"));
	if (jis(input, J_ARRAY))
		return put_conversation(ts, input, jget(root, "tools"));
	if (!jis(input, J_STRING))
		return "there is no input";
	put_raw(ts, "tools", jget(root, "tools"));
	put_mark(ts, SPAN("user"));
	put_text(ts, input->text);
	put_mark(ts, SPAN("end"));
	put_mark(ts, SPAN("assistant"));
	return NULL;
}

static const char *put_contents(struct ask *a, const struct jnode *root)
{
	const struct jnode *contents = jget(root, "contents");
	struct tokens *ts = prompt_new(a);

	if (!jis(contents, J_ARRAY) || contents->n == 0)
		return "there are no contents";
	put_system(ts, jget(jget(root, "systemInstruction"), "parts"));
	put_raw(ts, "tools", jget(root, "tools"));
	for (const struct jnode *c = contents->first; c; c = c->next) {
		put_mark(ts, jtext(jget(c, "role")));
		put_content(ts, jget(c, "parts"));
		put_mark(ts, SPAN("end"));
	}
	put_mark(ts, SPAN("model"));
	return NULL;
}

static const char *put_all(struct ask *a, const struct jnode *root)
{
	switch (a->api) {
	case API_CHAT:
	case API_MESSAGES:
		return put_chat(a, root);
	case API_RESPONSES:
		return put_responses(a, root);
	case API_CONTENTS:
		return put_contents(a, root);
	case API_EMBEDDINGS:
		return put_prompts(a, jget(root, "input"));
	case API_GENERATE:
		return put_prompts(a, jget(root, "text") ? jget(root, "text")
							 : jget(root, "input_ids"));
	default:
		return put_prompts(a, jget(root, "prompt"));
	}
}

static void read_max(struct ask *a, const struct jnode *root, const struct ask_limits *lim)
{
	static const char *const keys[] = {
		"max_completion_tokens", "max_output_tokens", "max_tokens", "max_new_tokens",
		"maxOutputTokens"
	};
	const struct jnode *sampling = jget(root, a->api == API_CONTENTS ? "generationConfig"
								     : "sampling_params");
	double v = -1;

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys) && v < 0; i++) {
		v = jnumber(jget(root, keys[i]), -1);
		if (v < 0)
			v = jnumber(jget(sampling, keys[i]), -1);
	}
	a->max_given = v >= 1;
	a->max_out = !a->max_given ? lim->default_out : v > lim->max_out ? lim->max_out : (uint32_t)v;
	if (a->api == API_EMBEDDINGS)
		a->max_out = 0;
}

static void read_head(struct ask *a, const struct jnode *root, const struct ask_limits *lim)
{
	struct span model = jtext(jget(root, "model"));

	if (model.n == 0)
		model = span_str(lim->model);
	if (model.n >= sizeof(a->model))
		model.n = sizeof(a->model) - 1;
	memcpy(a->model, model.p, model.n);
	a->model[model.n] = 0;
	a->space = hash_text(2, model);
	a->space = hash_text(a->space, jtext(jget(root, "cache_salt")));
	a->space = hash_text(a->space, jtext(jget(root, "lora_path")));
	a->stream = jbool(jget(root, "stream"), false) && a->api != API_EMBEDDINGS;
	read_max(a, root, lim);
}

static bool copy_text(char *to, size_t size, struct span s)
{
	if (s.n == 0 || s.n >= size)
		return false;
	memcpy(to, s.p, s.n);
	to[s.n] = 0;
	return true;
}

/* Both null and {} are tolerated, as engines do. */
static const char *read_kv(struct ask *a, const struct jnode *kv)
{
	double port = jnumber(jget(kv, "remote_port"), 0);

	a->kv.hold = jbool(jget(kv, "do_remote_decode"), false);
	a->kv.fetch = jbool(jget(kv, "do_remote_prefill"), false);
	if ((a->kv.hold || a->kv.fetch) && a->n_prompts != 1)
		return "kv_transfer_params are for one prompt";
	if (a->kv.hold && (a->kv.fetch || a->stream))
		return "do_remote_decode is neither streamed nor fetched";
	if (!a->kv.fetch)
		return NULL;
	if (!copy_text(a->kv.host, sizeof(a->kv.host), jtext(jget(kv, "remote_host"))) ||
	    !copy_text(a->kv.request, sizeof(a->kv.request), jtext(jget(kv, "remote_request_id"))) ||
	    !(port >= 1 && port <= 65535))
		return "do_remote_prefill without remote_host, remote_port or remote_request_id";
	a->kv.port = (uint32_t)port;
	return NULL;
}

static const char *read_root(struct ask *a, const struct jnode *root, const struct ask_limits *lim)
{
	const char *why;

	if (!jis(root, J_OBJECT))
		return "the body is not an object";
	if (jnumber(jget(root, "n"), 1) > 1)
		return "n above 1 is not simulated";
	read_head(a, root, lim);
	if ((why = put_all(a, root)) != NULL)
		return why;
	for (size_t i = 0; i < a->n_prompts; i++)
		if (a->prompts[i].n == 0)
			return "a prompt is empty";
	return a->n_prompts ? read_kv(a, jget(root, "kv_transfer_params")) : "there is no prompt";
}

const char *ask_parse(struct ask *a, enum api api, const char *body, size_t n,
		      const struct ask_limits *lim)
{
	const char *why = NULL;
	struct jdom *d;

	*a = (struct ask){ .api = api == API_STREAM_CONTENTS ? API_CONTENTS : api };
	if ((d = jdom_parse(body, n, &why)) == NULL)
		return why;
	why = read_root(a, jdom_root(d), lim);
	if (api == API_STREAM_CONTENTS)
		a->stream = true;
	jdom_free(d);
	return why;
}

void ask_fini(struct ask *a)
{
	for (size_t i = 0; i < a->n_prompts; i++)
		free(a->prompts[i].t);
	a->n_prompts = 0;
}
