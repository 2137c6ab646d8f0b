/* responses.c - convert a body of /v1/responses to one of chat completions.
 *
 * Source: vLLM's Responses API (entrypoints/openai/responses: utils.py, protocol.py):
 * "instructions" is the first message, of role system; a text as input is the user's; items of a
 * list become:
 *   - a message, or an item without a type: itself; of an assistant's, only the first part
 *   - function_call: an assistant's message with that call
 *   - function_call_output: the answer of the tool
 *   - reasoning: an assistant's message that reasons, with its content or else its summary
 * An assistant's item joins the message before it, if that is an assistant's without such a member;
 * a call always joins. If the last item is not completed, its answer continues. Tools are flat
 * there and become the function, without "type". Only the engine has an earlier response that is
 * named by id, so the start of such a body is unknown. */
#include "agent/chat/make_in.h"

static struct jval message(struct make *k, const char *role)
{
	struct jval m = make_dict(k);

	make_put(k, m, "role", make_str(role));
	return m;
}

/* The messages built from the items so far. */
struct items {
	struct make_list out;
	struct make_list calls;		/* of the last message */
	uint32_t calls_of;		/* number of messages then; 0: of none */
	unsigned before;		/* HAS_... of the message before them */
	bool joins;			/* an item joins that one */
};

unsigned make_has(struct jval message)
{
	return (is_word(get_text(message, "role"), "assistant") ? HAS_ASSISTANT : 0u) |
	       (is_none(get(message, "content")) ? 0u : HAS_CONTENT) |
	       (is_none(get(message, "reasoning")) ? 0u : HAS_REASONING);
}

/* Return the message that an assistant's item joins: the last one or a new one. <key>: the member
 * it adds, which must be absent: HAS_CONTENT or HAS_REASONING; 0: it need not be. */
static struct jval answer(struct make *k, struct items *b, unsigned key)
{
	struct jval last = b->out.n > 0 ? b->out.v[b->out.n - 1] : (struct jval){ .kind = JV_MISSING };
	unsigned has = b->out.n > 0 ? make_has(last) : b->before;
	bool joins = (has & HAS_ASSISTANT) != 0 && (has & key) == 0;

	b->joins |= joins && b->out.n == 0;
	if (!joins || b->out.n == 0) {
		last = message(k, "assistant");
		make_add(k, &b->out, last);
	}
	return last;
}

static void put_call(struct make *k, struct items *b, struct jval m, struct jval call)
{
	if (b->calls_of != b->out.n) {
		struct jval had = get(m, "tool_calls");

		b->calls = (struct make_list){ .n = 0 };
		b->calls_of = b->out.n;
		for (uint32_t i = 0; is_list(had) && i < had.n; i++)
			make_add(k, &b->calls, had.v[i]);
	}
	make_add(k, &b->calls, call);
	make_put(k, m, "tool_calls", make_list_value(&b->calls));
}

static void add_call(struct make *k, struct items *b, struct jval item)
{
	struct jval call = make_dict(k), function = make_dict(k), m = answer(k, b, 0);

	if (!is_none(get(item, "namespace")))
		make_fail(k, MAKE_UNKNOWN);
	make_put(k, function, "name", get(item, "name"));
	make_put(k, function, "arguments", get(item, "arguments"));
	make_put(k, call, "id", get(item, "call_id"));
	make_put(k, call, "function", function);
	make_put(k, call, "type", make_str("function"));
	if (k->state == MAKE_GOOD)
		put_call(k, b, m, call);
}

static void add_output(struct make *k, struct items *b, struct jval item)
{
	struct jval m = message(k, "tool");

	make_put(k, m, "content", get(item, "output"));
	make_put(k, m, "tool_call_id", get(item, "call_id"));
	make_add(k, &b->out, m);
}

static void add_reasoning(struct make *k, struct items *b, struct jval item)
{
	struct jval from = get(item, "content"), text = make_str("");

	if (jval_truth(get(item, "encrypted_content")))
		make_fail(k, MAKE_REFUSED);
	if (!is_list(from) || from.n == 0)
		from = get(item, "summary");
	if (is_list(from) && from.n > 0)
		text = get(from.v[0], "text");
	make_put(k, answer(k, b, HAS_REASONING), "reasoning", text);
}

/* An assistant's message without a text stays unchanged. */
static void add_message(struct make *k, struct items *b, struct jval item)
{
	struct jval content = get(item, "content");

	if (item.kind != JV_DICT) {
		make_fail(k, MAKE_REFUSED);
		return;
	}
	if (is_list(content) && content.n > 0)
		content = get(content.v[0], "text");
	if (is_word(get_text(item, "role"), "assistant") && is_str(content))
		make_put(k, answer(k, b, HAS_CONTENT), "content", content);
	else
		make_add(k, &b->out, make_copy(k, item));
}

static void add_item(struct make *k, struct items *b, struct jval item)
{
	struct jval type = get(item, "type");

	if (is_none(type) || is_word(get_text(item, "type"), "message"))
		add_message(k, b, item);
	else if (is_word(get_text(item, "type"), "function_call"))
		add_call(k, b, item);
	else if (is_word(get_text(item, "type"), "function_call_output"))
		add_output(k, b, item);
	else if (is_word(get_text(item, "type"), "reasoning"))
		add_reasoning(k, b, item);
	else
		make_fail(k, MAKE_UNKNOWN);
}

static void put_tools(struct make *k, struct jval out, struct jval tools)
{
	struct make_list l = { .n = 0 };

	if (!is_list(tools) || tools.n == 0)
		return;
	for (uint32_t i = 0; i < tools.n && k->state == MAKE_GOOD; i++) {
		struct jval tool = make_dict(k);

		if (!is_word(get_text(tools.v[i], "type"), "function"))
			make_fail(k, MAKE_UNKNOWN);
		make_put(k, tool, "type", make_str("function"));
		make_put(k, tool, "function", tools.v[i]);
		make_add(k, &l, tool);
	}
	make_put(k, out, "tools", make_list_value(&l));
}

static bool goes_on(struct jval item)
{
	struct span type = get_text(item, "type"), status = get_text(item, "status");

	return (is_none(get(item, "type")) || is_word(type, "message") || is_word(type, "reasoning")) &&
	       (is_word(status, "in_progress") || is_word(status, "incomplete"));
}

void make_responses_options(struct make *k, struct jval out, struct jval body)
{
	struct jval input = get(body, "input");
	bool on = is_list(input) && input.n > 0 && goes_on(input.v[input.n - 1]);

	make_put(k, out, "add_generation_prompt", jval_bool(!on));
	make_put(k, out, "continue_final_message", jval_bool(on));
	make_put(k, out, "reasoning_effort", get(get(body, "reasoning"), "effort"));
	if (get(body, "chat_template_kwargs").kind == JV_DICT)
		make_put(k, out, "chat_template_kwargs", get(body, "chat_template_kwargs"));
}

static void add_text(struct make *k, struct make_list *l, const char *role, struct jval text)
{
	struct jval m = message(k, role);

	make_put(k, m, "content", text);
	make_add(k, l, m);
}

/* Fail if only the engine has what comes before the input. */
static void check_start(struct make *k, struct jval body)
{
	if (!is_none(get(body, "previous_response_id")) || !is_none(get(body, "conversation")) ||
	    !is_none(get(body, "previous_input_messages")))
		make_fail(k, MAKE_UNKNOWN);
}

static void add_items(struct make *k, struct items *b, struct jval list, struct make_map *map)
{
	*map = (struct make_map){ .after = make_take(k, list.n * sizeof(*map->after)) };
	for (uint32_t i = 0; i < list.n && k->state == MAKE_GOOD; i++) {
		add_item(k, b, list.v[i]);
		map->after[map->n++] = b->out.n;
	}
	map->joins = b->joins;
}

struct jval make_of_responses_list(
    struct make *k, struct jval items, unsigned before, struct make_map *map)
{
	struct items b = { .before = before };

	add_items(k, &b, items, map);
	return make_list_value(&b.out);
}

struct jval make_of_responses(struct make *k, struct jval body, struct make_map *map)
{
	struct jval out = make_dict(k), input = get(body, "input"), first = get(body, "instructions");
	struct items b = { .calls_of = 0 };

	*map = (struct make_map){ .n = 0 };
	check_start(k, body);
	if (is_str(first) && first.n > 0)
		add_text(k, &b.out, "system", first);
	if (is_str(input))
		add_text(k, &b.out, "user", input);
	else if (!is_list(input))
		make_fail(k, MAKE_REFUSED);
	else
		add_items(k, &b, input, map);
	make_put(k, out, "messages", make_list_value(&b.out));
	put_tools(k, out, get(body, "tools"));
	make_responses_options(k, out, body);
	return out;
}

struct jval make_of_items(struct make *k, struct jval body)
{
	struct jval out = make_dict(k), input = get(body, "input"), tools = get(body, "tools");
	struct make_list l = { .n = 0 };

	check_start(k, body);
	if (is_str(input))
		add_text(k, &l, "user", input);
	else if (!is_list(input))
		make_fail(k, MAKE_REFUSED);
	make_put(k, out, "messages", is_list(input) ? input : make_list_value(&l));
	make_put(k, out, "instructions", get(body, "instructions"));
	make_put(k, out, "reasoning_effort", get(get(body, "reasoning"), "effort"));
	if (tools.kind != JV_MISSING)
		make_put(k, out, "tools", tools);
	return out;
}
