/* gpt_oss.c - build harmony's conversation from the messages of a body, in the order of the rules
 * that gpt_oss.h lists, and render it. gpt_oss_items.c does the same for items of responses. */
#include "agent/chat/gpt_oss.h"
#include "agent/chat/gpt_oss_in.h"

static void *take(struct making *k, size_t n)
{
	return make_take(&k->make, n);
}

static struct span joined(struct making *k, const char *before, struct span s)
{
	struct jval both[] = { make_str(before), jval_str(s.p, s.n) };

	return jval_span(make_joined(&k->make, &(struct make_list){ .v = both, .n = 2 }, ""));
}

/* ---- what a message says --------------------------------------------------------------------- */

/* Reject values that are no part and, in place of "text", parts of the responses API. */
static void check_part(struct making *k, struct jval part)
{
	struct span type = get_text(part, "type");

	if (part.kind != JV_DICT ||
	    (!k->items && (is_word(type, "input_text") || is_word(type, "output_text"))))
		make_fail(&k->make, MAKE_REFUSED);
}

const struct span *making_runs(struct making *k, struct jval content, size_t *n)
{
	struct span *s = take(k, sizeof(*s) * (content.kind == JV_LIST && content.n > 0 ? content.n : 1));

	*n = 0;
	if (s == NULL)
		return NULL;
	if (content.kind != JV_LIST) {
		s[(*n)++] = content.kind == JV_STR ? jval_span(content) : (struct span){ .n = 0 };
		return s;
	}
	for (uint32_t i = 0; i < content.n; i++) {
		check_part(k, content.v[i]);
		s[(*n)++] = get_text(content.v[i], "text");
	}
	return s;
}

bool making_flat(struct making *k, struct jval content, struct span *out)
{
	struct make_list l = { .n = 0 };

	*out = (struct span){ .n = 0 };
	if (is_str(content)) {
		*out = jval_span(content);
		return true;
	}
	for (uint32_t i = 0; is_list(content) && i < content.n; i++) {
		struct jval text = is_str(content.v[i]) ? content.v[i] : get(content.v[i], "text");

		if (!is_str(content.v[i]))
			check_part(k, content.v[i]);
		if (is_str(text))
			make_add(&k->make, &l, text);
	}
	*out = jval_span(make_joined(&k->make, &l, ""));
	return l.n > 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

struct harmony_message *making_add(struct making *k, enum harmony_role role)
{
	if (k->n == k->cap) {
		size_t cap = k->cap > 0 ? 2 * k->cap : 32;
		struct harmony_message *more = take(k, cap * sizeof(*more));

		if (more == NULL)
			return NULL;
		if (k->n > 0)
			memcpy(more, k->m, k->n * sizeof(*more));
		k->m = more;
		k->cap = cap;
	}
	k->m[k->n] = (struct harmony_message){ .role = role };
	return &k->m[k->n++];
}

struct harmony_message *making_add_text(
    struct making *k, enum harmony_role role, const char *channel, struct span text)
{
	struct span *run = take(k, sizeof(*run));
	struct harmony_message *m = run != NULL ? making_add(k, role) : NULL;

	if (m == NULL)
		return NULL;
	*run = text;
	m->text = run;
	m->n_text = 1;
	m->channel = span_str(channel);
	return m;
}

void making_add_call(struct making *k, struct span name, struct span arguments)
{
	struct harmony_message *m = making_add_text(k, HARMONY_ASSISTANT, "commentary", arguments);

	if (m == NULL)
		return;
	m->recipient = joined(k, "functions.", name);
	m->content_type = SPAN("json");
}

static void add_call(struct making *k, struct jval call)
{
	struct jval function = get(call, "function"), arguments = get(function, "arguments");

	if (!is_none(arguments) && !is_str(arguments))
		make_fail(&k->make, MAKE_REFUSED);
	making_add_call(k, get_text(function, "name"), get_text(function, "arguments"));
}

static struct span reasoning_of(struct jval msg)
{
	return get_text(msg, is_none(get(msg, "reasoning")) ? "reasoning_content" : "reasoning");
}

static void add_calls(struct making *k, struct jval msg, struct jval calls)
{
	struct span text;

	if (making_flat(k, get(msg, "content"), &text) && text.n > 0)
		making_add_text(k, HARMONY_ASSISTANT, "commentary", text);
	if (reasoning_of(msg).n > 0)
		making_add_text(k, HARMONY_ASSISTANT, "analysis", reasoning_of(msg));
	for (uint32_t i = 0; i < calls.n; i++)
		add_call(k, calls.v[i]);
}

/* Return the id as a key of the dict; an absent one too. */
static struct jval id_of(struct jval of, const char *key)
{
	struct span id = get_text(of, key);

	return id.n > 0 ? jval_str(id.p, id.n) : jval_str("", 0);
}

/* Collect the function of each call. Of two with one id the last counts, wherever it is. A body may
 * hold as many answers as calls, so answers look up the name in a dict. */
static void find_calls(struct making *k, struct jval messages, uint32_t from)
{
	k->called = make_dict(&k->make);
	for (uint32_t i = from; i < messages.n && k->make.state == MAKE_GOOD; i++) {
		struct jval calls = get(messages.v[i], "tool_calls");

		for (uint32_t c = 0; calls.kind == JV_LIST && c < calls.n; c++)
			make_put_any(&k->make, k->called, id_of(calls.v[c], "id"),
			    get(get(calls.v[c], "function"), "name"));
	}
}

/* Return the name, or "" if there is none. */
static struct span called(struct making *k, struct jval id)
{
	const struct jval *name = jdict_get(k->called.d, id);

	k->misses |= name == NULL;
	return name != NULL && is_str(*name) ? jval_span(*name) : (struct span){ .n = 0 };
}

void making_add_answer(struct making *k, struct span name, struct span text)
{
	struct harmony_message *m = making_add_text(k, HARMONY_TOOL, "commentary", text);

	if (m == NULL)
		return;
	m->name = joined(k, "functions.", name);
	/* the library writes the recipient there; vLLM changes that for calls only */
	m->channel = SPAN("commentary to=assistant");
}

static void add_tool(struct making *k, struct jval msg)
{
	struct span text;

	making_flat(k, get(msg, "content"), &text);
	making_add_answer(k, called(k, id_of(msg, "tool_call_id")), text);
}

static void add_plain(struct making *k, struct jval msg, enum harmony_role role)
{
	size_t n;
	const struct span *runs = making_runs(k, get(msg, "content"), &n);
	struct harmony_message *m;

	if (runs == NULL || (role == HARMONY_ASSISTANT && (n == 0 || runs[0].n == 0)) ||
	    (m = making_add(k, role)) == NULL)
		return;
	m->text = runs;
	m->n_text = n;
	if (role == HARMONY_ASSISTANT)
		m->channel = SPAN("final");
}

/* The type of each tool must be "function", because engines reject others of chat completions, and
 * write those of responses as their own servers of tools describe them. */
static struct jval function_of(struct making *k, struct jval tool)
{
	if (!is_word(get_text(tool, "type"), "function"))
		make_fail(&k->make, k->items && tool.kind == JV_DICT ? MAKE_UNKNOWN : MAKE_REFUSED);
	return k->items ? tool : get(tool, "function");
}

void making_add_developer(
    struct making *k, bool has_instructions, struct span instructions, struct jval tools)
{
	uint32_t n = is_list(tools) ? tools.n : 0;
	struct harmony_developer *d = take(k, sizeof(*d));
	struct jval *of = take(k, n * sizeof(*of));
	struct harmony_message *m = d != NULL && of != NULL ? making_add(k, HARMONY_DEVELOPER) : NULL;

	if (m == NULL)
		return;
	for (uint32_t i = 0; i < n; i++)
		of[i] = function_of(k, tools.v[i]);
	*d = (struct harmony_developer){ .instructions = instructions,
		.has_instructions = has_instructions, .tools = of, .n_tools = n };
	m->developer = d;
}

bool making_instructs(struct jval msg)
{
	return is_word(get_text(msg, "role"), "system") || is_word(get_text(msg, "role"), "developer");
}

/* Add instructions of a message that is not the first. */
static void add_instructions(struct making *k, struct jval msg)
{
	struct jval content = get(msg, "content");
	struct span text;
	size_t n;

	/* the engine builds them before it checks the role, so they must be valid */
	making_runs(k, content, &n);
	if (making_flat(k, content, &text))
		making_add_developer(k, true, text, jval_none());
}

static bool role_of(struct jval msg, enum harmony_role *role)
{
	static const struct { const char *name; enum harmony_role role; } names[] = {
		{ "user", HARMONY_USER }, { "assistant", HARMONY_ASSISTANT }, { "tool", HARMONY_TOOL },
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (is_word(get_text(msg, "role"), names[i].name)) {
			*role = names[i].role;
			return true;
		}
	}
	return false;
}

static void add_message(struct making *k, struct jval msg)
{
	struct jval calls = get(msg, "tool_calls");
	enum harmony_role role;

	if (making_instructs(msg)) {
		add_instructions(k, msg);
		return;
	}
	if (!role_of(msg, &role)) {
		make_fail(&k->make, MAKE_REFUSED);
		return;
	}
	if (role == HARMONY_ASSISTANT && calls.kind == JV_LIST && calls.n > 0) {
		add_calls(k, msg, calls);
		return;
	}
	if (role == HARMONY_TOOL) {
		add_tool(k, msg);
		return;
	}
	if (role == HARMONY_ASSISTANT && reasoning_of(msg).n > 0)
		making_add_text(k, role, "analysis", reasoning_of(msg));
	add_plain(k, msg, role);
}

/* ---- start and end --------------------------------------------------------------------------- */

static enum harmony_effort effort_of(struct making *k, struct jval body)
{
	struct jval effort = get(body, "reasoning_effort");
	struct span s = get_text(body, "reasoning_effort");

	if (is_none(effort) || is_word(s, "medium"))
		return EFFORT_MEDIUM;
	if (!is_word(s, "low") && !is_word(s, "high"))
		make_fail(&k->make, k->items && is_str(effort) ? MAKE_UNKNOWN : MAKE_REFUSED);
	return is_word(s, "low") ? EFFORT_LOW : EFFORT_HIGH;
}

static void add_system(struct making *k, struct jval body, struct span date)
{
	struct harmony_system *s = take(k, sizeof(*s));
	struct harmony_message *m = s != NULL ? making_add(k, HARMONY_SYSTEM) : NULL;

	if (m == NULL)
		return;
	harmony_system_defaults(s);
	s->date = date;
	s->effort = effort_of(k, body);
	m->system = s;
}

/* Add the instructions, or else the text of the first message, and the tools. Returns the number of
 * messages consumed. */
static uint32_t add_preamble(struct making *k, struct jval body, struct jval messages)
{
	struct jval tools = get(body, "tools"), own = get(body, "instructions");
	struct span text = { .n = 0 };
	bool given = k->items && !is_none(own);
	bool first = !given && messages.n > 0 && making_instructs(messages.v[0]);
	bool has = first && making_flat(k, get(messages.v[0], "content"), &text);

	if (given) {
		has = is_str(own);
		text = get_text(body, "instructions");
	}
	if (text.n > 0 || (is_list(tools) && tools.n > 0))
		making_add_developer(k, has, text, tools);
	return first;
}

/* Drop reasoning before the last final answer. Tells if there was one, and if reasoning is left. */
static void drop_thoughts(struct making *k, bool *has_final, bool *thinks)
{
	size_t final = k->n, n = 0;

	while (final > 0 && !is_word(k->m[final - 1].channel, "final"))
		final--;
	*has_final = final > 0;
	*thinks = false;
	for (size_t i = 0; i < k->n; i++) {
		bool thought = is_word(k->m[i].channel, "analysis");

		if (i + 1 < final && thought)
			continue;
		*thinks |= thought;
		k->m[n++] = k->m[i];
	}
	k->n = n;
}

/* Drop reasoning, and note for the next turn what is left. Returns false if the messages that are
 * passed over would be others. */
static bool end_turn(struct making *k, struct gpt_oss_turn *t)
{
	bool final, left;

	drop_thoughts(k, &final, &left);
	if (t == NULL)
		return true;
	if (t->known > 0 &&
	    (k->misses || (final && t->thinks) || gpt_oss_turn_renames(t, k->called.d)))
		return false;
	t->thinks = left || (t->thinks && !final);
	return true;
}

static enum harmony_result failed(enum make_state why)
{
	switch (why) {
	case MAKE_NO_MEMORY:
		return HARMONY_NO_MEMORY;
	case MAKE_UNKNOWN:
		return HARMONY_UNKNOWN;
	default:
		return HARMONY_REFUSED;
	}
}

enum harmony_result gpt_oss_render(struct jinja_mem *mem, struct jval body,
    const struct gpt_oss_opts *o, harmony_put *put, void *arg)
{
	struct jval messages = get(body, "messages");
	struct making k = { .make = { .mem = mem }, .items = o->items };
	struct harmony_opts how = { .completion = o->completion, .max_run = o->max_run };
	uint32_t i, known;
	size_t front;

	if (messages.kind != JV_LIST)
		return HARMONY_REFUSED;
	if (o->turn != NULL && !gpt_oss_turn_read(o->turn, messages))
		return HARMONY_MISSED;
	known = o->turn != NULL ? o->turn->known : 0;
	add_system(&k, body, o->date);
	if (k.items)
		k.called = make_dict(&k.make);
	else
		find_calls(&k, messages, known);
	i = add_preamble(&k, body, messages);
	if (o->turn != NULL)
		o->turn->taken = i;
	front = k.n;
	for (i = known > 0 ? known : i; i < messages.n && k.make.state == MAKE_GOOD; i++)
		(k.items ? making_add_item : add_message)(&k, messages.v[i]);
	if (k.items && k.misses && known == 0)
		make_fail(&k.make, MAKE_REFUSED);
	if (k.make.state != MAKE_GOOD)
		return failed(k.make.state);
	if (!end_turn(&k, o->turn))
		return HARMONY_MISSED;
	return o->turn != NULL ? gpt_oss_turn_write(o->turn, k.m, front, k.n, how, put, arg)
			       : harmony_render(k.m, k.n, how, put, arg);
}
