/* chat.c - render the bytes of a body to text: read it, let messages.c and the like build the
 * engine's messages, write their text (write.c), divide it into runs. A rendering that meets a
 * limit, or a part of the body that only the engine knows, gives no text. */
#include <errno.h>
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/chat/close_body.h"
#include "agent/chat/chat_in.h"

#define BODY_DEPTH	128
#define STEP_CUT	8	/* bytes for a step of work.h when the end of a cut body is searched */

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
	buf_free(&s->shared);
	buf_free(&s->ends);
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

enum chat_result chat_close(struct rendering *r)
{
	struct buf *b = &r->s->closed;
	struct cut cut;

	work_spend(r->work, b->n / STEP_CUT);
	if (!cut_find(
		span_of(b->p, b->n), chat_list_name(r), &cut))
		return chat_why(r, CHAT_UNKNOWN, "nothing of it is whole");
	b->n = cut.n;
	buf_str(b, cut.close);
	r->in_list = cut.in_list;
	return b->failed ? chat_why(r, CHAT_NO_MEMORY, "there is no memory for it") : CHAT_DONE;
}

/* Read the body as values; of a cut body, the part that is whole. */
static enum chat_result read_body(struct rendering *r)
{
	struct buf *b = &r->s->closed;
	enum chat_result result;

	if (!r->b->cut)
		return chat_of_body(r, r->b->raw);
	buf_start(b, 0);
	buf_span(b, r->b->raw);
	result = b->failed ? chat_why(r, CHAT_NO_MEMORY, "there is no memory for it") : chat_close(r);
	return result == CHAT_DONE ? chat_of_body(r, span_of(b->p, b->n)) : result;
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

	if (!harmony && !is_none(get(r->body, "chat_template")))
		return chat_why(r, CHAT_UNKNOWN, "it brings a template of its own");
	if (r->b->api == CHAT_COMPLETIONS && is_list(get(r->body, "tools")) &&
	    get(r->body, "tools").n == 0)
		return chat_why(r, CHAT_REFUSED, "its tools are an empty list");
	r->marked = chat_marked(get(r->body, chat_list_name(r)));
	if (r->b->api == CHAT_MESSAGES)
		r->body = make_of_anthropic(&k, &r->c->anthropic, r->body, &r->map);
	else if (r->b->api == CHAT_RESPONSES)
		r->body = harmony ? make_of_items(&k, r->body) :
				    make_of_responses(&k, r->body, &r->map);
	if (k.state != MAKE_GOOD)
		return chat_of_make(r, &k);
	r->made = get(r->body, "messages");
	if (!harmony)
		return to_messages(r);
	r->messages = r->made;
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
	for (int light = chat_turn_is_light(b); b->turn != NULL && light >= 0;
	     light--) {
		if (chat_turn_on(&r, light > 0)) {
			set_out(&r);
			return CHAT_DONE;
		}
		start(&r, c, s, b, out);
	}
	if (b->turn != NULL && b->turn->only)
		return chat_why(&r, CHAT_UNKNOWN, "it does not go on");
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
