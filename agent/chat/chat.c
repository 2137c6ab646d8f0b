/* chat.c - from the bytes of a body to text.
 *
 * A cut body is closed behind its last whole message and rendered three times: as it is, with one more message, and with a whole
 * turn more, without the beginning of an answer in any. What they have in common does not depend on what comes next, so it is
 * what the whole body's text begins with, for templates that look no further ahead than that. */
#include <errno.h>
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/chat/cut.h"
#include "agent/chat/gpt_oss.h"
#include "agent/chat/internal.h"

#define BODY_DEPTH	128
/* Of one rendering: a loop is held for some 8 ms at most, three times less for each of a cut body's three. 5000 messages of a usual
 * template fit. */
#define STEPS_MOST	500000u
#define STEPS_CUT	170000u
#define RUNS_KEPT	65536	/* of a scratch, when it is wiped */

struct chat_scratch *chat_scratch_new(size_t max_bytes, const struct hash_key *key)
{
	struct chat_scratch *s = mem_alloc(sizeof(*s));

	if (s != NULL && (s->mem = jinja_mem_new(max_bytes, key)) == NULL) {
		mem_free(s);
		s = NULL;
	}
	return s;
}

void chat_scratch_free(struct chat_scratch *s)
{
	if (s == NULL)
		return;
	jinja_mem_wipe(s->mem);
	jinja_mem_free(s->mem);
	buffer_free(&s->closed);
	buffer_free(&s->text);
	buffer_free(&s->other);
	mem_free(s->runs);
	mem_free(s);
}

void chat_scratch_wipe(struct chat_scratch *s)
{
	jinja_mem_wipe(s->mem);
	buffer_wipe(&s->closed);
	buffer_wipe(&s->text);
	buffer_wipe(&s->other);
	s->n_runs = 0;
	if (s->cap_runs <= RUNS_KEPT)
		return;
	mem_free(s->runs);
	s->runs = NULL;
	s->cap_runs = 0;
}

const char *chat_result_name(enum chat_result r)
{
	static const char *const names[] = { "done", "refused", "unknown", "limit", "memory" };

	return names[r];
}

/* ---- one rendering ------------------------------------------------------------------------------------- */

struct rendering {
	const struct chat *c;
	struct chat_scratch *s;
	const struct chat_body *b;
	struct chat_text *out;
	struct buffer *into;
	struct jval body, messages, tools;
	bool completion;	/* an answer begins behind it */
};

static enum chat_result why(struct rendering *r, enum chat_result result, const char *text)
{
	snprintf(r->out->why, sizeof(r->out->why), "%s", text);
	return result;
}

static bool add_run(struct chat_scratch *s, struct chat_run run)
{
	if (s->n_runs == s->cap_runs) {
		size_t cap = s->cap_runs > 0 ? 2 * s->cap_runs : 64;
		struct chat_run *more = mem_resize(s->runs, cap, sizeof(*more));

		if (more == NULL)
			return false;
		s->runs = more;
		s->cap_runs = cap;
	}
	s->runs[s->n_runs++] = run;
	return true;
}

static bool jinja_piece(void *arg, const char *p, size_t n, enum jinja_origin origin)
{
	struct buffer *b = arg;

	buffer_add(b, p, n);
	return !b->failed;
}

static int harmony_piece(void *arg, enum harmony_piece what, struct span text)
{
	struct rendering *r = arg;
	struct chat_run run = {
		.at = (uint32_t)r->into->n, .n = (uint32_t)text.n, .kind = what == PIECE_TOKEN ? RUN_TOKEN : RUN_PLAIN,
	};

	buffer_span(r->into, text);
	return r->into->failed || r->into->n > UINT32_MAX || !add_run(r->s, run) ? -1 : 0;
}

/* What the body says of the template's arguments goes over everything else, but for those that engines give themselves. */
static void put_arguments(struct make *k, struct jval vars, struct jval arguments)
{
	for (uint32_t i = 0; arguments.kind == JV_DICT && i < arguments.d->n && k->state == MAKE_GOOD; i++) {
		struct jval key = arguments.d->entry[i].key;

		if (is_word(jval_span(key), "chat_template") || is_word(jval_span(key), "tokenize"))
			make_fail(k, MAKE_REFUSED);
		make_put_any(k, vars, key, arguments.d->entry[i].value);
	}
}

static struct jval variables(struct make *k, const struct rendering *r)
{
	struct jval vars = make_copy(k, r->c->tokens), documents = get(r->body, "documents");

	make_put(k, vars, "documents", is_none(documents) ? jval_none() : documents);
	if (is_str(get(r->body, "reasoning_effort")))
		make_put(k, vars, "reasoning_effort", get(r->body, "reasoning_effort"));
	put_arguments(k, vars, get(r->body, "chat_template_kwargs"));
	make_put(k, vars, "messages", r->messages);
	make_put(k, vars, "tools", r->tools);
	make_put(k, vars, "add_generation_prompt", jval_bool(r->completion));
	return vars;
}

static enum chat_result of_make(struct rendering *r, const struct make *k)
{
	switch (k->state) {
	case MAKE_GOOD:
		return CHAT_DONE;
	case MAKE_REFUSED:
		return why(r, CHAT_REFUSED, "this is no conversation that the engine would take");
	case MAKE_UNKNOWN:
		return why(r, CHAT_UNKNOWN, "there is something in it that is not text");
	default:
		return why(r, jinja_mem_full(r->s->mem) ? CHAT_LIMIT : CHAT_NO_MEMORY, "it takes too much memory");
	}
}

static enum chat_result of_jinja(struct rendering *r, enum jinja_result result, const struct jinja_error *e)
{
	static const enum chat_result of[] = {
		[JINJA_OK] = CHAT_DONE, [JINJA_RAISED] = CHAT_REFUSED, [JINJA_UNKNOWN] = CHAT_UNKNOWN, [JINJA_LIMIT] = CHAT_LIMIT,
		[JINJA_NO_MEMORY] = CHAT_NO_MEMORY, [JINJA_STOPPED] = CHAT_NO_MEMORY,
	};

	if (result != JINJA_OK)
		snprintf(r->out->why, sizeof(r->out->why), "line %u of the template: %.120s", e->line, e->text);
	return of[result];
}

static enum chat_result by_template(struct rendering *r)
{
	const struct chat *c = r->c;
	struct make k = { .mem = r->s->mem };
	struct jval vars = variables(&k, r);
	struct jinja_limits limits = jinja_limits_defaults();
	struct jinja_error e = { .line = 0 };
	bool tools = c->tool_use != NULL && is_list(r->tools);

	limits.steps = r->b->cut ? STEPS_CUT : STEPS_MOST;
	if (k.state != MAKE_GOOD)
		return of_make(r, &k);
	return of_jinja(r, jinja_render(tools ? c->tool_use : c->plain, r->s->mem, vars.d, &r->b->now, &limits, jinja_piece, r->into, &e),
			&e);
}

static enum chat_result by_harmony(struct rendering *r)
{
	static const enum chat_result of[] = {
		[HARMONY_DONE] = CHAT_DONE, [HARMONY_REFUSED] = CHAT_REFUSED, [HARMONY_NO_MEMORY] = CHAT_NO_MEMORY,
		[HARMONY_ENDED] = CHAT_NO_MEMORY, [HARMONY_LIMIT] = CHAT_LIMIT,
	};
	char date[32];
	struct make k = { .mem = r->s->mem };
	struct jval body = make_dict(&k);
	struct gpt_oss_opts o = { .completion = r->completion };
	enum harmony_result result;

	snprintf(date, sizeof(date), "%04d-%02d-%02d", r->b->now.year, r->b->now.month, r->b->now.day);
	o.date = span_str(date);
	make_put(&k, body, "messages", r->messages);
	make_put(&k, body, "tools", get(r->body, "tools"));
	make_put(&k, body, "reasoning_effort", get(r->body, "reasoning_effort"));
	if (k.state != MAKE_GOOD)
		return of_make(r, &k);
	r->s->n_runs = 0;
	result = gpt_oss_render(r->s->mem, body, &o, harmony_piece, r);
	if (r->into->full || (result == HARMONY_NO_MEMORY && jinja_mem_full(r->s->mem)))
		result = HARMONY_LIMIT;
	if (result == HARMONY_REFUSED && r->b->api != CHAT_COMPLETIONS)	/* arguments that are no text are the engine's to write */
		return why(r, CHAT_UNKNOWN, "there is something in it that is not text");
	return result == HARMONY_DONE ? CHAT_DONE :
	       why(r, of[result], result == HARMONY_REFUSED ? "harmony has no form for it" : "it takes too much memory");
}

static enum chat_result render(struct rendering *r, struct buffer *into)
{
	enum chat_result result;

	buffer_start(into, jinja_limits_defaults().output);
	r->into = into;
	result = r->c->format == CHAT_HARMONY ? by_harmony(r) : by_template(r);
	if (result == CHAT_DONE && into->failed)
		return why(r, CHAT_NO_MEMORY, "there is no memory for its text");
	return result;
}

/* ---- an answer that goes on ---------------------------------------------------------------------------- */

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

/* The text of the last message: of parts, the last one that has some. */
static struct span last_text(const struct rendering *r)
{
	struct jval content;

	if (r->messages.n == 0)
		return (struct span){ .n = 0 };
	content = get(r->messages.v[r->messages.n - 1], "content");
	for (uint32_t i = is_list(content) ? content.n : 0; i > 0; i--) {
		if (is_str(get(content.v[i - 1], "text")))
			return get_text(content.v[i - 1], "text");
	}
	return is_str(content) ? jval_span(content) : (struct span){ .n = 0 };
}

/* Hugging Face's apply_chat_template(): the text ends where the last message does, with the white space behind it if the
 * template left that. */
static enum chat_result end_at_last(struct rendering *r)
{
	struct span s = last_text(r), full;
	struct buffer *b = r->into;
	const char *at = NULL;
	size_t n;

	while (s.n > 0 && is_space(s.p[0]))
		s = span_of(s.p + 1, s.n - 1);
	full = s;
	while (s.n > 0 && is_space(s.p[s.n - 1]))
		s.n--;
	if (s.n == 0)
		return why(r, CHAT_REFUSED, "there is no last message to go on with");
	if (!jinja_find_last(r->s->mem, span_of(b->p, b->n), s, &at))
		return why(r, jinja_mem_full(r->s->mem) ? CHAT_LIMIT : CHAT_NO_MEMORY, "it takes too much memory");
	if (at == NULL)
		return why(r, CHAT_REFUSED, "the template changes the last message, so that it cannot go on");
	n = (size_t)(at - b->p);
	b->n = n + (b->n - n >= full.n && memcmp(at, full.p, full.n) == 0 ? full.n : s.n);
	return CHAT_DONE;
}

/* ---- cut bodies ---------------------------------------------------------------------------------------- */

/* With <n> more messages: a user's, an answer, a user's; or from an answer on, for templates that take no two of a kind in a row. */
static enum chat_result render_longer(struct rendering *r, unsigned n, bool from_answer)
{
	struct jval messages = r->messages, dummy = { .kind = JV_MISSING };
	struct make k = { .mem = r->s->mem };
	struct make_list l = { .n = 0 };
	bool parts = r->c->tool_use != NULL && is_list(r->tools) ? r->c->tool_parts : r->c->plain_parts;
	enum chat_result result;

	for (uint32_t i = 0; i < messages.n; i++)
		make_add(&k, &l, messages.v[i]);
	for (unsigned i = 0; i < n && k.state == MAKE_GOOD; i++) {
		dummy = make_dict(&k);
		make_put(&k, dummy, "role", make_str((i % 2 == 0) != from_answer ? "user" : "assistant"));
		make_put(&k, dummy, "content", make_str("x"));
		dummy = make_messages(&k, jval_list(&dummy, 1), parts);
		if (k.state == MAKE_GOOD)
			make_add(&k, &l, dummy.v[0]);
	}
	if (k.state != MAKE_GOOD)
		return of_make(r, &k);
	r->messages = make_list_value(&l);
	result = render(r, &r->s->other);
	r->messages = messages;
	return result;
}

static size_t common(const struct buffer *a, const struct buffer *b)
{
	size_t n = a->n < b->n ? a->n : b->n, i = 0;

	while (i < n && a->p[i] == b->p[i])
		i++;
	while (i > 0 && i < a->n && ((unsigned char)a->p[i] & 0xc0) == 0x80)
		i--;
	return i;
}

/* One message behind it may be the last one of its kind, and three are a turn of their own: some templates write the last answer or
 * the last turn in another way. */
static enum chat_result render_cut(struct rendering *r)
{
	static const unsigned more[] = { 1, 3 };
	size_t same = SIZE_MAX;
	bool from_answer = false;
	enum chat_result result;

	if (r->messages.n == 0)
		return why(r, CHAT_UNKNOWN, "it is cut before its first message ends");
	r->completion = false;
	if ((result = render(r, &r->s->text)) != CHAT_DONE)
		return result;
	for (unsigned i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		result = render_longer(r, more[i], from_answer);
		if (result == CHAT_REFUSED && i == 0)
			result = render_longer(r, more[i], from_answer = true);
		if (result != CHAT_DONE)
			return result;
		if (common(&r->s->text, &r->s->other) < same)
			same = common(&r->s->text, &r->s->other);
	}
	if (r->c->format == CHAT_HARMONY && (result = render(r, &r->s->text)) != CHAT_DONE)	/* the runs are of the last one */
		return result;
	r->s->text.n = same;
	r->out->part = true;
	r->out->why[0] = '\0';
	return CHAT_DONE;
}

/* Runs of harmony end with the text. */
static void trim_runs(struct chat_scratch *s)
{
	while (s->n_runs > 0 && s->runs[s->n_runs - 1].at >= s->text.n)
		s->n_runs--;
	if (s->n_runs > 0 && s->runs[s->n_runs - 1].at + s->runs[s->n_runs - 1].n > s->text.n)
		s->n_runs--;
	s->text.n = s->n_runs > 0 ? s->runs[s->n_runs - 1].at + s->runs[s->n_runs - 1].n : 0;
}

/* ---- the body ------------------------------------------------------------------------------------------ */

static bool truth(struct jval v, bool otherwise)
{
	return v.kind == JV_BOOL ? v.i != 0 : otherwise;
}

/* The body as values; of a cut one what is whole. */
static enum chat_result read_body(struct rendering *r)
{
	struct span raw = r->b->raw;
	struct cut cut;
	size_t at;

	if (r->b->cut) {
		if (!cut_find(raw, r->b->api == CHAT_RESPONSES ? "input" : "messages", &cut))
			return why(r, CHAT_UNKNOWN, "nothing of it is whole");
		buffer_start(&r->s->closed, 0);
		buffer_add(&r->s->closed, raw.p, cut.n);
		buffer_str(&r->s->closed, cut.close);
		if (r->s->closed.failed)
			return why(r, CHAT_NO_MEMORY, "there is no memory for it");
		raw = span_of(r->s->closed.p, r->s->closed.n);
	}
	errno = 0;
	if (jval_from_json(r->s->mem, raw, BODY_DEPTH, &r->body, &at) < 0) {
		if (jinja_mem_full(r->s->mem))
			return why(r, CHAT_LIMIT, "it takes too much memory");
		return errno == ENOMEM ? why(r, CHAT_NO_MEMORY, "there is no memory for it") : why(r, CHAT_REFUSED, "it is no JSON");
	}
	return r->body.kind == JV_DICT ? CHAT_DONE : why(r, CHAT_REFUSED, "it is no JSON object");
}

static enum chat_result convert(struct rendering *r)
{
	struct make k = { .mem = r->s->mem };
	bool parts;

	if (r->b->api == CHAT_RESPONSES && r->c->format == CHAT_HARMONY)
		return why(r, CHAT_UNKNOWN, "responses by harmony are not known");
	if (!is_none(get(r->body, "chat_template")))
		return why(r, CHAT_UNKNOWN, "it brings a template of its own");
	if (r->b->api == CHAT_MESSAGES)
		r->body = make_of_anthropic(&k, r->body);
	else if (r->b->api == CHAT_RESPONSES)
		r->body = make_of_responses(&k, r->body);
	if (k.state != MAKE_GOOD)
		return of_make(r, &k);
	if (r->c->format == CHAT_HARMONY) {
		r->messages = get(r->body, "messages");
		return is_list(r->messages) ? CHAT_DONE : why(r, CHAT_REFUSED, "it has no messages");
	}
	r->tools = make_tools(&k, get(r->body, "tools"));
	parts = r->c->tool_use != NULL && is_list(r->tools) ? r->c->tool_parts : r->c->plain_parts;
	r->messages = make_messages(&k, get(r->body, "messages"), parts);
	return of_make(r, &k);
}

static enum chat_result render_whole(struct rendering *r)
{
	bool goes_on = truth(get(r->body, "continue_final_message"), false);
	enum chat_result result;

	r->completion = truth(get(r->body, "add_generation_prompt"), true);
	if (goes_on && r->completion)
		return why(r, CHAT_REFUSED, "an answer cannot begin and go on");
	result = render(r, &r->s->text);
	return result == CHAT_DONE && goes_on ? end_at_last(r) : result;
}

static void set_out(struct rendering *r)
{
	struct chat_scratch *s = r->s;

	if (r->c->format == CHAT_HARMONY) {
		trim_runs(s);
	} else {
		s->n_runs = 0;
		if (s->text.n > 0 && s->text.n <= UINT32_MAX)
			add_run(s, (struct chat_run){ .n = (uint32_t)s->text.n, .kind = RUN_TEXT });
	}
	r->out->p = s->text.p;
	r->out->n = s->text.n;
	r->out->runs = s->runs;
	r->out->n_runs = s->n_runs;
	r->out->special = truth(get(r->body, "add_special_tokens"), false);
	r->out->tools_unseen = r->b->cut && get(r->body, "tools").kind == JV_MISSING;
}

enum chat_result chat_render(const struct chat *c, struct chat_scratch *s, const struct chat_body *b, struct chat_text *out)
{
	struct rendering r = { .c = c, .s = s, .b = b, .out = out };
	enum chat_result result;

	*out = (struct chat_text){ .p = "" };
	jinja_mem_wipe(s->mem);
	result = read_body(&r);
	if (result == CHAT_DONE)
		result = convert(&r);
	if (result == CHAT_DONE)
		result = b->cut ? render_cut(&r) : render_whole(&r);
	if (result != CHAT_DONE)
		return result;
	set_out(&r);
	return out->n > 0 && s->n_runs == 0 ? why(&r, CHAT_NO_MEMORY, "there is no memory for its text") : CHAT_DONE;
}
