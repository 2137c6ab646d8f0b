/* harmony.c - write a conversation in the format of gpt-oss. Each message is its header in special
 * tokens, then its runs of text. System and developer messages have fixed sections, of which those
 * without contents are omitted. */
#include "agent/chat/harmony.h"
#include "agent/chat/jval_get.h"
#include "agent/chat/schema_in.h"

static const char browser_about[] =
	"Tool for browsing.\n"
	"The `cursor` appears in brackets before each browsing display: `[{cursor}]`.\n"
	"Cite information from the tool using the following format:\n"
	"`【{cursor}†L{line_start}(-L{line_end})?】`, for example: `【6†L9-L11】` or `【8†L3】`.\n"
	"Do not quote more than 10 words directly from the tool output.\n"
	"sources=web (default: web)";

/* The browser's functions are the same in all conversations. They are kept as text, not as schemas.
 */
static const char browser_functions[] =
    "// Searches for information related to `query` and displays `topn` results.\n"
    "type search = (_: {\nquery: string,\ntopn?: number, // default: 10\nsource?: string,\n}) => "
    "any;\n\n"
    "// Opens the link `id` from the page indicated by `cursor` starting at line number `loc`, "
    "showing `num_lines` lines.\n"
    "// Valid link ids are displayed with the formatting: `【{id}†.*】`.\n"
    "// If `cursor` is not provided, the most recent page is implied.\n"
    "// If `id` is a string, it is treated as a fully qualified URL associated with `source`.\n"
    "// If `loc` is not provided, the viewport will be positioned at the beginning of the "
    "document or centered on the most "
    "relevant passage, if available.\n"
    "// Use this function without `id` to scroll to a new location of an opened page.\n"
    "type open = (_: {\nid?: number | string, // default: -1\ncursor?: number, // default: "
    "-1\nloc?: number, // default: -1\n"
    "num_lines?: number, // default: -1\nview_source?: boolean, // default: false\nsource?: "
    "string,\n}) => any;\n\n"
    "// Finds exact matches of `pattern` in the current page, or the page given by `cursor`.\n"
    "type find = (_: {\npattern: string,\ncursor?: number, // default: -1\n}) => any;\n\n";

static const char python_about[] =
    "Use this tool to execute Python code in your chain of thought. The code will not be shown to "
    "the user. This tool should be "
    "used for internal reasoning, but not for code that is intended to be visible to the user "
    "(e.g. when creating plots, tables, "
    "or files).\n\n"
    "When you send a message containing Python code to python, it will be executed in a stateful "
    "Jupyter notebook environment. "
    "python will respond with the output of the execution or time out after 120.0 seconds. The "
    "drive at '/mnt/data' can be used "
    "to save and persist user files. Internet access for this session is UNKNOWN. Depends on the "
    "cluster.";

struct renderer {
	harmony_put *put;
	void *arg;
	struct buf text;		/* of the run under construction */
	bool functions;			/* some developer message has functions */
	enum harmony_result result;
};

void harmony_system_defaults(struct harmony_system *s)
{
	*s = (struct harmony_system){
		.identity = SPAN("You are ChatGPT, a large language model trained by OpenAI."),
		.cutoff = SPAN("2024-06"),
		.effort = EFFORT_MEDIUM,
		.channels = { SPAN("analysis"), SPAN("commentary"), SPAN("final") },
		.n_channels = 3,
	};
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static void put(struct renderer *r, enum harmony_piece what, struct span text)
{
	if (r->result == HARMONY_DONE && r->put(r->arg, what, text) < 0)
		r->result = HARMONY_ENDED;
}

static void put_token(struct renderer *r, const char *token)
{
	put(r, PIECE_TOKEN, span_str(token));
}

static void put_text(struct renderer *r, struct span text)
{
	if (text.n > 0)
		put(r, PIECE_TEXT, text);
}

/* Emit the collected <text> as one run. */
static void put_run(struct renderer *r)
{
	if (r->text.failed && r->result == HARMONY_DONE)
		r->result = r->text.full ? HARMONY_LIMIT : HARMONY_NO_MEMORY;
	put_text(r, span_of(r->text.p, r->text.n));
	r->text.n = 0;
}

static void put_run_of(struct renderer *r, const char *before, struct span s)
{
	buf_str(&r->text, before);
	buf_span(&r->text, s);
	put_run(r);
}

/* ---- tools ----------------------------------------------------------------------------------- */

/* Prefix each line with "// ". The last line needs no line end; "\r\n" is one line end. */
static void comment_lines(struct buf *b, struct span text)
{
	while (text.n > 0) {
		const char *end = memchr(text.p, '\n', text.n);
		size_t n = end != NULL ? (size_t)(end - text.p) : text.n, took = end != NULL ? n + 1 : n;

		if (end != NULL && n > 0 && text.p[n - 1] == '\r')
			n--;
		buf_str(b, "// ");
		buf_add(b, text.p, n);
		buf_str(b, "\n");
		text = span_of(text.p + took, text.n - took);
	}
}

static int write_tool(struct buf *b, struct jval tool)
{
	struct jval parameters = get(tool, "parameters");

	comment_lines(b, get_text(tool, "description"));
	buf_str(b, "type ");
	buf_span(b, get_text(tool, "name"));
	if (is_none(parameters)) {
		buf_str(b, " = () => any;\n\n");
		return 0;
	}
	buf_str(b, " = (_: ");
	if (schema_write(b, parameters) < 0)
		return -1;
	buf_str(b, ") => any;\n\n");
	return 0;
}

static int write_functions(struct buf *b, const struct harmony_developer *d)
{
	buf_str(b, "# Tools\n\n## functions\n\nnamespace functions {\n\n");
	for (size_t i = 0; i < d->n_tools; i++) {
		if (write_tool(b, d->tools[i]) < 0)
			return -1;
	}
	buf_str(b, "} // namespace functions");
	return 0;
}

static void write_own_tools(struct buf *b, const struct harmony_system *s)
{
	buf_str(b, "# Tools");
	if (s->browser) {
		buf_str(b, "\n\n## browser\n\n");
		comment_lines(b, span_str(browser_about));
		buf_str(b, "namespace browser {\n\n");
		buf_str(b, browser_functions);
		buf_str(b, "} // namespace browser");
	}
	if (s->python) {
		buf_str(b, "\n\n## python\n\n");
		buf_str(b, python_about);
	}
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Write an empty line between sections. */
static void section(struct buf *b)
{
	if (b->n > 0)
		buf_str(b, "\n\n");
}

static void write_line(struct buf *b, const char *name, struct span value)
{
	if (value.n == 0)
		return;
	buf_str(b, b->n > 0 ? "\n" : "");
	buf_str(b, name);
	buf_span(b, value);
}

static void write_channels(struct buf *b, const struct harmony_system *s, bool functions)
{
	section(b);
	buf_str(b, "# Valid channels: ");
	for (unsigned i = 0; i < s->n_channels; i++) {
		buf_str(b, i > 0 ? ", " : "");
		buf_span(b, s->channels[i]);
	}
	buf_str(b, ". Channel must be included for every message.");
	if (functions)
		buf_str(b, "\nCalls to these tools must go to the commentary channel: 'functions'.");
}

static void put_system(struct renderer *r, const struct harmony_system *s)
{
	static const char *const effort[] = { "", "low", "medium", "high" };
	struct buf *b = &r->text;

	write_line(b, "", s->identity);
	write_line(b, "Knowledge cutoff: ", s->cutoff);
	write_line(b, "Current date: ", s->date);
	if (s->effort != EFFORT_NONE) {
		section(b);
		buf_str(b, "Reasoning: ");
		buf_str(b, effort[s->effort]);
	}
	if (s->browser || s->python) {
		section(b);
		write_own_tools(b, s);
	}
	if (s->n_channels > 0)
		write_channels(b, s, r->functions);
	put_run(r);
}

static void put_developer(struct renderer *r, const struct harmony_developer *d)
{
	if (d->has_instructions) {
		buf_str(&r->text, "# Instructions\n\n");
		buf_span(&r->text, d->instructions);
	}
	if (d->n_tools > 0) {
		section(&r->text);
		if (write_functions(&r->text, d) < 0)
			r->result = HARMONY_REFUSED;
	}
	put_run(r);
}

static void put_author(struct renderer *r, const struct harmony_message *m)
{
	static const char *const role[] = { "system", "developer", "user", "assistant" };

	if (m->role == HARMONY_TOOL) {
		if (m->name.n == 0)
			r->result = HARMONY_REFUSED;
		put_text(r, m->name);
		return;
	}
	put_text(r, span_str(role[m->role]));
	if (m->name.n > 0)
		put_run_of(r, ":", m->name);
}

/* "<|constrain|>" before a type is a token of its own, after a blank. */
static void put_type(struct renderer *r, struct span type)
{
	static const char constrain[] = "<|constrain|>";
	size_t n = sizeof(constrain) - 1;

	if (type.n == 0)
		return;
	if (type.n < n || memcmp(type.p, constrain, n) != 0) {
		put_run_of(r, " ", type);
		return;
	}
	put_text(r, SPAN(" "));
	put_token(r, constrain);
	put_text(r, span_of(type.p + n, type.n - n));
}

static void put_message(struct renderer *r, const struct harmony_message *m)
{
	put_token(r, "<|start|>");
	put_author(r, m);
	if (m->recipient.n > 0 && !span_eq(m->recipient, SPAN("all")))
		put_run_of(r, " to=", m->recipient);
	if (m->channel.n > 0) {
		put_token(r, "<|channel|>");
		put_text(r, m->channel);
	}
	put_type(r, m->content_type);
	put_token(r, "<|message|>");
	if (m->system != NULL)
		put_system(r, m->system);
	if (m->developer != NULL)
		put_developer(r, m->developer);
	for (size_t i = 0; i < m->n_text; i++)
		put_text(r, m->text[i]);
	put_token(r, m->role == HARMONY_ASSISTANT && m->recipient.n > 0 ? "<|call|>" : "<|end|>");
}

/* ---- the conversation ------------------------------------------------------------------------ */

static bool in_channel(const struct harmony_message *m, const char *channel)
{
	return span_eq(m->channel, span_str(channel));
}

/* Return the index of the message before which reasoning is dropped. */
static size_t drop_before(const struct harmony_message *m, size_t n)
{
	size_t last = n, first = 0;

	while (last > 0 && m[last - 1].role != HARMONY_ASSISTANT)
		last--;
	if (last == 0 || !in_channel(&m[last - 1], "final"))
		return 0;
	while (!in_channel(&m[first], "final"))
		first++;
	return first;
}

enum harmony_result harmony_render(
    const struct harmony_message *m, size_t n, struct harmony_opts o, harmony_put *fn, void *arg)
{
	size_t max = o.max_run > 0 && o.max_run < HARMONY_RUN_MAX ? o.max_run : HARMONY_RUN_MAX;
	struct renderer r = { .put = fn, .arg = arg, .text = { .max = max }, .result = HARMONY_DONE };
	size_t first = o.drop_analysis ? drop_before(m, n) : 0;

	for (size_t i = 0; i < n; i++)
		r.functions |= m[i].developer != NULL && m[i].developer->n_tools > 0;
	for (size_t i = 0; i < n && r.result == HARMONY_DONE; i++) {
		if (i >= first || !in_channel(&m[i], "analysis"))
			put_message(&r, &m[i]);
	}
	if (o.completion) {
		put_token(&r, "<|start|>");
		put_text(&r, SPAN("assistant"));
	}
	buf_free(&r.text);
	return r.result;
}
