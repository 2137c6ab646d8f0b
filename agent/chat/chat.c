/* chat.c - render the bytes of a body to text: read it, let messages.c and the like build the
 * engine's messages, run the template or harmony, divide the text into runs. A rendering that meets
 * a limit, or a part of the body that only the engine knows, gives no text. */
#include <errno.h>
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/chat/close_body.h"
#include "agent/chat/gpt_oss.h"
#include "agent/chat/chat_in.h"

#define BODY_DEPTH	128
/* Limit of one rendering, besides the work of the request: 5000 messages of a usual template fit.
 */
#define STEPS_MOST	500000u
/* Prices in steps of work.h: two steps of a template; bytes of text per step; a run of harmony;
 * bytes per step when the end of a cut body is searched. */
#define STEPS_TWO	3
#define STEP_TEXT	100
#define STEPS_RUN	6
#define STEP_CUT	8
#define STEP_HARMONY	10u		/* bytes that harmony writes per step; it counts nothing else */

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
	buf_free(&s->closed);
	buf_free(&s->text);
	buf_free(&s->other);
	buf_free(&s->left);
	buf_free(&s->resume.state);
	vec_free(&s->runs);
	mem_free(s);
}

/* ---- one rendering --------------------------------------------------------------------------- */

enum chat_result chat_why(struct rendering *r, enum chat_result result, const char *text)
{
	snprintf(r->out->why, sizeof(r->out->why), "%s", text);
	return result;
}

static int harmony_piece(void *arg, enum harmony_piece what, struct span text)
{
	struct rendering *r = arg;
	struct chat_run run = {
		.at = (uint32_t)r->into->n,
		.n = (uint32_t)text.n,
		.kind = what == PIECE_TOKEN ? RUN_TOKEN : RUN_PLAIN,
	};

	buf_span(r->into, text);
	return r->into->failed || r->into->n > UINT32_MAX ? -1 : vec_push(&r->s->runs, run);
}

enum chat_result chat_of_make(struct rendering *r, const struct make *k)
{
	switch (k->state) {
	case MAKE_GOOD:
		return CHAT_DONE;
	case MAKE_REFUSED:
		return chat_why(r, CHAT_REFUSED, "this is no conversation that the engine would take");
	case MAKE_UNKNOWN:
		return chat_why(r, CHAT_UNKNOWN, "there is something in it that is not text");
	case MAKE_SPENT:
		return chat_why(r, CHAT_LIMIT, "it takes too much work");
	default:
		return chat_why(r, jinja_mem_full(r->s->mem) ? CHAT_LIMIT : CHAT_NO_MEMORY,
		    "it takes too much memory");
	}
}

static enum chat_result of_jinja(struct rendering *r, enum jinja_result result,
		const struct jinja_error *e)
{
	static const enum chat_result of[] = {
		[JINJA_OK] = CHAT_DONE,
		[JINJA_RAISED] = CHAT_REFUSED,
		[JINJA_UNKNOWN] = CHAT_UNKNOWN,
		[JINJA_LIMIT] = CHAT_LIMIT,
		[JINJA_NO_MEMORY] = CHAT_NO_MEMORY,
		[JINJA_STOPPED] = CHAT_NO_MEMORY,
		[JINJA_MISSED] = CHAT_UNKNOWN,
	};

	if (result != JINJA_OK)
		snprintf(r->out->why, sizeof(r->out->why), "line %u of the template: %.120s", e->line, e->text);
	return of[result];
}

static enum chat_result by_template(struct rendering *r)
{
	const struct chat *c = r->c;
	struct make k = { .mem = r->s->mem, .work = r->work };
	struct jval vars;
	struct jinja_limits limits = jinja_limits_defaults();
	struct jinja_error e = { .line = 0 };
	bool tools = c->tool_use != NULL && is_list(r->tools);
	enum jinja_result result;
	uint64_t took = 0;

	if (r->resume != NULL)
		r->messages.flags |= JV_WATCHED;
	vars = chat_variables(&k, r);
	limits.steps = r->work->left / STEPS_TWO < STEPS_MOST / 2 ? 2 * (r->work->left / STEPS_TWO)
								  : STEPS_MOST;
	limits.took = &took;
	if (k.state != MAKE_GOOD)
		return chat_of_make(r, &k);
	if (r->resume != NULL) {
		r->resume->list = r->messages.v;
		r->resume->n = r->messages.n;
		r->resume->text = r->into;
		r->resume->most_steps = STEPS_MOST;
		result = jinja_render_on(tools ? c->tool_use : c->plain, r->s->mem, vars.d, &r->b->now,
		    &limits, r->resume, &e);
	} else {
		result = jinja_render(tools ? c->tool_use : c->plain, r->s->mem, vars.d, &r->b->now,
		    &limits, jinja_buf_sink, r->into, &e);
	}
	work_spend(r->work, took * STEPS_TWO / 2);
	return of_jinja(r, result, &e);
}

static enum chat_result by_harmony(struct rendering *r)
{
	static const enum chat_result of[] = {
		[HARMONY_DONE] = CHAT_DONE,
		[HARMONY_REFUSED] = CHAT_REFUSED,
		[HARMONY_NO_MEMORY] = CHAT_NO_MEMORY,
		[HARMONY_ENDED] = CHAT_NO_MEMORY,
		[HARMONY_LIMIT] = CHAT_LIMIT,
	};
	char date[32];
	struct make k = { .mem = r->s->mem, .work = r->work };
	struct jval body = make_dict(&k);
	struct gpt_oss_opts o = { .completion = r->completion, .max_run = r->into->max };
	enum harmony_result result;

	snprintf(date, sizeof(date), "%04d-%02d-%02d", r->b->now.year, r->b->now.month, r->b->now.day);
	o.date = span_str(date);
	make_put(&k, body, "messages", r->messages);
	make_put(&k, body, "tools", get(r->body, "tools"));
	make_put(&k, body, "reasoning_effort", get(r->body, "reasoning_effort"));
	if (k.state != MAKE_GOOD)
		return chat_of_make(r, &k);
	r->s->runs.n = 0;
	result = gpt_oss_render(r->s->mem, body, &o, harmony_piece, r);
	if (r->into->full || (result == HARMONY_NO_MEMORY && jinja_mem_full(r->s->mem)))
		result = HARMONY_LIMIT;
	if (result == HARMONY_LIMIT)	/* the text reached the work's limit */
		work_spend(r->work, r->work->left);
	/* the engine writes arguments that are no text itself */
	if (result == HARMONY_REFUSED && r->b->api != CHAT_COMPLETIONS)
		return chat_why(r, CHAT_UNKNOWN, "there is something in it that is not text");
	return result == HARMONY_DONE ? CHAT_DONE
				      : chat_why(r, of[result],
					    result == HARMONY_REFUSED ? "harmony has no form for it"
								      : "it takes too much memory");
}

enum chat_result chat_write(struct rendering *r, struct buf *into)
{
	size_t had = jinja_mem_used(r->s->mem), most = jinja_limits_defaults().output;
	enum chat_result result;

	if (work_spent(r->work))
		return chat_why(r, CHAT_LIMIT, "it takes too much work");
	if (r->c->format == CHAT_HARMONY && r->work->left < most / STEP_HARMONY)
		most = (size_t)r->work->left * STEP_HARMONY;
	buf_start(into, most);
	r->into = into;
	result = r->c->format == CHAT_HARMONY ? by_harmony(r) : by_template(r);
	if (r->c->format == CHAT_HARMONY)
		work_spend(r->work,
		    r->s->runs.n * STEPS_RUN + into->n / STEP_HARMONY +
			(jinja_mem_used(r->s->mem) - had) / STEP_MADE);
	work_spend(r->work, into->n / STEP_TEXT);
	if (result == CHAT_DONE && into->failed)
		return chat_why(r, CHAT_NO_MEMORY, "there is no memory for its text");
	return result;
}

/* Drop runs of harmony, or their ends, after the end of the text. */
static void trim_runs(struct chat_scratch *s)
{
	while (s->runs.n > 0 && s->runs.p[s->runs.n - 1].at >= s->text.n)
		s->runs.n--;
	if (s->runs.n > 0 && s->runs.p[s->runs.n - 1].at + s->runs.p[s->runs.n - 1].n > s->text.n)
		s->runs.n--;
	s->text.n = s->runs.n > 0 ? s->runs.p[s->runs.n - 1].at + s->runs.p[s->runs.n - 1].n : 0;
}

/* ---- the body -------------------------------------------------------------------------------- */

/* Read the body as values; of a cut body, the part that is whole. */
static enum chat_result read_body(struct rendering *r)
{
	struct span raw = r->b->raw;
	struct cut cut;

	if (r->b->cut) {
		work_spend(r->work, raw.n / STEP_CUT);
		if (!cut_find(raw, r->b->api == CHAT_RESPONSES ? "input" : "messages", &cut))
			return chat_why(r, CHAT_UNKNOWN, "nothing of it is whole");
		buf_start(&r->s->closed, 0);
		buf_add(&r->s->closed, raw.p, cut.n);
		buf_str(&r->s->closed, cut.close);
		if (r->s->closed.failed)
			return chat_why(r, CHAT_NO_MEMORY, "there is no memory for it");
		raw = span_of(r->s->closed.p, r->s->closed.n);
		r->in_list = cut.in_list;
	}
	return chat_of_body(r, raw);
}

enum chat_result chat_of_body(struct rendering *r, struct span raw)
{
	errno = 0;
	if (make_from_json(r->s->mem, r->work, raw, BODY_DEPTH, &r->body) < 0) {
		if (errno == E2BIG)
			return chat_why(r, CHAT_LIMIT, "it takes too much work");
		if (jinja_mem_full(r->s->mem))
			return chat_why(r, CHAT_LIMIT, "it takes too much memory");
		return errno == ENOMEM ? chat_why(r, CHAT_NO_MEMORY, "there is no memory for it")
				       : chat_why(r, CHAT_REFUSED, "it is no JSON");
	}
	return r->body.kind == JV_DICT ? CHAT_DONE : chat_why(r, CHAT_REFUSED, "it is no JSON object");
}

static enum chat_result to_messages(struct rendering *r)
{
	const struct chat_traits *t;
	struct make k = { .mem = r->s->mem, .work = r->work };
	struct make_how how = { .aliases = r->c->aliases, .responses = r->b->api == CHAT_RESPONSES };

	r->tools = make_tools(&k, get(r->body, "tools"));
	t = traits_of(r);
	how.parts = t->parts;
	r->messages = make_messages(&k, &how, get(r->body, "messages"));
	r->developer = k.developer;
	r->messages = k.state == MAKE_GOOD && k.developer && !t->developer
	    ? make_systems(&k, r->messages)
	    : r->messages;
	return chat_of_make(r, &k);
}

static enum chat_result convert(struct rendering *r)
{
	struct make k = { .mem = r->s->mem, .work = r->work };
	bool harmony = r->c->format == CHAT_HARMONY;

	if (r->b->api == CHAT_RESPONSES && harmony)
		return chat_why(r, CHAT_UNKNOWN, "responses by harmony are not known");
	if (!harmony && !is_none(get(r->body, "chat_template")))
		return chat_why(r, CHAT_UNKNOWN, "it brings a template of its own");
	if (r->b->api == CHAT_COMPLETIONS && is_list(get(r->body, "tools")) &&
	    get(r->body, "tools").n == 0)
		return chat_why(r, CHAT_REFUSED, "its tools are an empty list");
	if (r->b->api == CHAT_MESSAGES)
		r->body = make_of_anthropic(&k, &r->c->anthropic, r->body);
	else if (r->b->api == CHAT_RESPONSES)
		r->body = make_of_responses(&k, r->body);
	if (k.state != MAKE_GOOD)
		return chat_of_make(r, &k);
	if (!harmony)
		return to_messages(r);
	r->messages = get(r->body, "messages");
	return is_list(r->messages) ? CHAT_DONE : chat_why(r, CHAT_REFUSED, "it has no messages");
}

bool chat_goes_on(const struct rendering *r)
{
	return chat_truth(get(r->body, "continue_final_message"), false);
}

bool chat_completes(const struct rendering *r)
{
	return chat_truth(
	    get(r->body, "add_generation_prompt"), r->c->format != CHAT_HARMONY || !chat_goes_on(r));
}

/* Check two options that harmony ignores, because the engine rejects bad ones before it renders. */
static enum chat_result write_whole(struct rendering *r)
{
	bool harmony = r->c->format == CHAT_HARMONY, goes_on = chat_goes_on(r);
	enum chat_result result;
	struct span last;

	r->completion = chat_completes(r);
	if (goes_on && r->completion)
		return chat_why(r, CHAT_REFUSED, "an answer cannot begin and go on");
	r->completion |= harmony;
	if (!goes_on || harmony)
		return chat_write(r, &r->s->text);
	result = chat_tag_last(r, &last);
	if (result == CHAT_DONE)
		result = chat_write(r, &r->s->text);
	return result == CHAT_DONE ? chat_end_at_tag(r, last) : result;
}

/* Tell if an escape of half a surrogate pair is at <p>: 1: the first half, 2: the second, 0: none.
 */
static unsigned half_at(const char *p, const char *end)
{
	char c = end - p >= 6 ? (char)(p[3] | 0x20) : '\0';

	if (end - p < 6 || p[0] != '\\' || p[1] != 'u' || (p[2] | 0x20) != 'd')
		return 0;
	return c == '8' || c == '9' || c == 'a' || c == 'b' ? 1 : c >= 'c' && c <= 'f' ? 2 : 0;
}

static bool has_lone_half(struct span raw)
{
	const char *p = raw.n > 0 ? raw.p : "", *end = p + raw.n;

	while ((p = memchr(p, '\\', (size_t)(end - p))) != NULL && end - p >= 2) {
		unsigned half = half_at(p, end);

		if (half == 2 || (half == 1 && half_at(p + 6, end) != 2))
			return true;
		p += half == 1 ? 12 : 2;
	}
	return false;
}

bool chat_has_replacement(struct span text)
{
	const char *p = text.n > 0 ? text.p : "", *end = p + text.n;

	while (p != end && (p = memchr(p, 0xef, (size_t)(end - p))) != NULL) {
		if (end - p >= 3 && (unsigned char)p[1] == 0xbf && (unsigned char)p[2] == 0xbd)
			return true;
		p++;
	}
	return false;
}

/* Reject half a surrogate pair: Python keeps it, no tokenizer does, and the text has U+FFFD. */
enum chat_result chat_check_halves(struct rendering *r)
{
	if (chat_has_replacement(span_of(r->s->text.p, r->s->text.n)) && has_lone_half(r->b->raw))
		return chat_why(r, CHAT_REFUSED, "there is half a surrogate pair in its text");
	return CHAT_DONE;
}

static void set_out(struct rendering *r)
{
	struct chat_scratch *s = r->s;

	if (r->c->format == CHAT_HARMONY) {
		trim_runs(s);
	} else {
		s->runs.n = 0;
		if (s->text.n > 0 && s->text.n <= UINT32_MAX)
			(void)vec_push(&s->runs, (struct chat_run){ .n = (uint32_t)s->text.n, .kind = RUN_TEXT });
	}
	r->out->p = s->text.p;
	r->out->n = s->text.n;
	r->out->runs = s->runs.p;
	r->out->n_runs = s->runs.n;
	r->out->special = chat_truth(get(r->body, "add_special_tokens"), false);
	r->out->tools_unseen = r->b->cut && get(r->body, "tools").kind == JV_MISSING;
}

static void start(struct rendering *r, const struct chat *c, struct chat_scratch *s,
    const struct chat_body *b, struct chat_text *out)
{
	*out = (struct chat_text){ .p = "", .keep = SIZE_MAX };
	*r = (struct rendering){ .c = c, .s = s, .b = b, .out = out, .any = { WORK_ANY } };
	r->work = b->work != NULL ? b->work : &r->any;
	jinja_mem_wipe(s->mem);
}

enum chat_result chat_render(
    const struct chat *c, struct chat_scratch *s, const struct chat_body *b, struct chat_text *out)
{
	struct rendering r;
	enum chat_result result;
	size_t had;

	start(&r, c, s, b, out);
	if (b->turn != NULL && chat_turn_on(&r)) {
		set_out(&r);
		return CHAT_DONE;
	}
	start(&r, c, s, b, out);
	result = read_body(&r);
	had = jinja_mem_used(s->mem);
	if (result == CHAT_DONE)
		result = chat_take_truncation(&r);
	if (result == CHAT_DONE) {
		chat_note_unseen(&r);
		result = convert(&r);
	}
	if (result == CHAT_DONE && b->turn != NULL)
		chat_turn_start(&r);
	work_spend(r.work, (jinja_mem_used(s->mem) - had) / STEP_MADE);
	if (result == CHAT_DONE)
		result = b->cut ? chat_write_part(&r) : write_whole(&r);
	if (result == CHAT_DONE)
		result = chat_check_halves(&r);
	if (result != CHAT_DONE)
		return result;
	if (r.resume != NULL)
		chat_turn_leave(&r, 0, (struct span){ .n = 0 });
	set_out(&r);
	return out->n > 0 && s->runs.n == 0
	    ? chat_why(&r, CHAT_NO_MEMORY, "there is no memory for its text")
	    : CHAT_DONE;
}
