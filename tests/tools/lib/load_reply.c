/* load_reply.c - the text and the usage out of an answer, streamed or whole.
 *
 * Of an event stream only "data:" lines matter here: the type that "event:" names is in the data as
 * well. A line may come in pieces; it waits in <line> until its end is there. */
#include "tests/tools/lib/load.h"

#include "tests/tools/lib/jdom.h"

#define LINE_MAX_BYTES	(16u << 20)

void reply_init(struct reply *r, enum api api, bool stream)
{
	*r = (struct reply){ .api = api, .stream = stream };
}

void reply_fini(struct reply *r)
{
	buf_free(&r->line);
	buf_free(&r->text);
}

static void set(uint32_t *to, const struct jnode *nd)
{
	if (jis(nd, J_NUMBER))
		*to = (uint32_t)jnumber(nd, 0);
}

/* Prompt tokens are all of them, read from a cache or not; only the messages API counts otherwise.
 */
static void take_usage(struct reply *r, const struct jnode *u)
{
	const struct jnode *input = jget(u, "input_tokens");

	if (!jis(u, J_OBJECT))
		return;
	r->has_usage = true;
	set(&r->out, jget(u, "completion_tokens"));
	set(&r->out, jget(u, "output_tokens"));
	set(&r->prompt, jget(u, "prompt_tokens"));
	set(&r->cached, jget(jget(u, "prompt_tokens_details"), "cached_tokens"));
	set(&r->cached, jget(jget(u, "input_tokens_details"), "cached_tokens"));
	set(&r->cached, jget(u, "cache_read_input_tokens"));
	set(&r->prompt, input);
	if (input && r->api == API_MESSAGES)
		r->prompt += r->cached;
}

static void take_text(struct reply *r, const struct jnode *nd)
{
	struct span s = jtext(nd);

	buf_put(&r->text, s.p, s.n);
}

static const struct jnode *child(const struct jnode *array)
{
	return jis(array, J_ARRAY) ? array->first : NULL;
}

static void take_choice(struct reply *r, const struct jnode *root)
{
	const struct jnode *c = child(jget(root, "choices"));

	take_text(r, jget(jget(c, "delta"), "content"));
	take_text(r, jget(jget(c, "message"), "content"));
	take_text(r, jget(c, "text"));
	take_usage(r, jget(root, "usage"));
}

static void take_event(struct reply *r, const struct jnode *root)
{
	struct span type = jtext(jget(root, "type"));

	if (r->api != API_RESPONSES && r->api != API_MESSAGES) {
		r->bad |= jget(root, "error") != NULL;
		take_choice(r, root);
		return;
	}
	if (span_eq(type, SPAN("response.output_text.delta")))
		take_text(r, jget(root, "delta"));
	else if (span_eq(type, SPAN("content_block_delta")))
		take_text(r, jget(jget(root, "delta"), "text"));
	else if (span_eq(type, SPAN("error")) || span_eq(type, SPAN("response.failed")))
		r->bad = true;
	r->complete |= span_eq(type, SPAN("response.completed")) || span_eq(type, SPAN("message_stop"));
	take_usage(r, jget(root, "usage"));
	take_usage(r, jget(jget(root, "response"), "usage"));
	take_usage(r, jget(jget(root, "message"), "usage"));
}

static void take_whole(struct reply *r, const struct jnode *root)
{
	const struct jnode *item = child(jget(root, "output"));

	take_text(r, jget(child(jget(item, "content")), "text"));
	take_text(r, jget(child(jget(root, "content")), "text"));
	take_choice(r, root);
	r->complete = r->has_usage;
}

static void parse(struct reply *r, struct span json)
{
	const char *why;
	struct jdom *d = jdom_parse(json.p, json.n, &why);

	if (d == NULL) {
		r->bad = true;
		return;
	}
	if (r->stream)
		take_event(r, jdom_root(d));
	else
		take_whole(r, jdom_root(d));
	jdom_free(d);
}

static void take_line(struct reply *r, struct span line)
{
	if (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	if (line.n < 5 || memcmp(line.p, "data:", 5))
		return;
	line.p += 5;
	line.n -= 5;
	if (line.n && *line.p == ' ') {
		line.p++;
		line.n--;
	}
	if (span_eq(line, SPAN("[DONE]")))
		r->complete = true;
	else
		parse(r, line);
}

void reply_feed(struct reply *r, struct span body)
{
	const char *nl;

	buf_put(&r->line, body.p, body.n);
	while (r->stream && (nl = memchr(r->line.p ? r->line.p : "", '\n', r->line.n)) != NULL) {
		size_t n = (size_t)(nl - r->line.p);

		take_line(r, span_of(r->line.p, n));
		buf_take(&r->line, n + 1);
	}
	r->bad |= r->line.n > LINE_MAX_BYTES;
}

void reply_end(struct reply *r)
{
	if (!r->stream)
		parse(r, buf_span(&r->line));
}
