/* responses.c - a body of /v1/responses as one of chat completions.
 *
 * Source: vLLM's Responses API (entrypoints/openai/responses: utils.py): "instructions" is the first message, of role system; an
 * input that is a text is the user's; of a list of items
 *   - a message, or an item without a type, is a message as it stands
 *   - function_call is an assistant's message with that call, and goes into the one before it when that only thinks
 *   - function_call_output is what the tool says
 *   - reasoning is an assistant's message that thinks: its content, or else its summary
 * Tools are flat there, and become the function as a whole. An earlier response that is meant by its id is kept by the engine
 * alone, so that what is in front of this body is not known. */
#include "agent/chat/make.h"

static struct jval message(struct make *k, const char *role)
{
	struct jval m = make_dict(k);

	make_put(k, m, "role", make_str(role));
	return m;
}

static bool only_thinks(struct jval m)
{
	return is_word(get_text(m, "role"), "assistant") && is_str(get(m, "reasoning")) && get(m, "content").kind == JV_MISSING;
}

static void add_call(struct make *k, struct make_list *out, struct jval item)
{
	struct jval call = make_dict(k), function = make_dict(k), m;
	struct make_list calls = { .n = 0 }, *l = &calls;
	bool joins = out->n > 0 && only_thinks(out->v[out->n - 1]) && get(out->v[out->n - 1], "tool_calls").kind == JV_MISSING;

	make_put(k, function, "name", get(item, "name"));
	make_put(k, function, "arguments", get(item, "arguments"));
	make_put(k, call, "id", get(item, "call_id"));
	make_put(k, call, "function", function);
	make_put(k, call, "type", make_str("function"));
	make_add(k, l, call);
	m = joins ? out->v[out->n - 1] : message(k, "assistant");
	make_put(k, m, "tool_calls", make_list_value(l));
	if (!joins)
		make_add(k, out, m);
}

static void add_output(struct make *k, struct make_list *out, struct jval item)
{
	struct jval m = message(k, "tool");

	make_put(k, m, "content", get(item, "output"));
	make_put(k, m, "tool_call_id", get(item, "call_id"));
	make_add(k, out, m);
}

static void add_reasoning(struct make *k, struct make_list *out, struct jval item)
{
	struct jval m, from = get(item, "content");

	if (!is_none(get(item, "encrypted_content")))
		make_fail(k, MAKE_UNKNOWN);
	if (!is_list(from) || from.n == 0)
		from = get(item, "summary");
	if (!is_list(from) || from.n == 0)
		return;
	m = message(k, "assistant");
	make_put(k, m, "reasoning", get(from.v[0], "text"));
	make_add(k, out, m);
}

static void add_item(struct make *k, struct make_list *out, struct jval item)
{
	struct jval type = get(item, "type");

	if (is_none(type) || is_word(get_text(item, "type"), "message"))
		make_add(k, out, item);
	else if (is_word(get_text(item, "type"), "function_call"))
		add_call(k, out, item);
	else if (is_word(get_text(item, "type"), "function_call_output"))
		add_output(k, out, item);
	else if (is_word(get_text(item, "type"), "reasoning"))
		add_reasoning(k, out, item);
	else
		make_fail(k, MAKE_UNKNOWN);
}

static void put_tools(struct make *k, struct jval out, struct jval tools)
{
	struct make_list l = { .n = 0 };

	if (!is_list(tools))
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

struct jval make_of_responses(struct make *k, struct jval body)
{
	struct jval out = make_dict(k), input = get(body, "input"), first = get(body, "instructions"), m;
	struct make_list l = { .n = 0 };

	if (!is_none(get(body, "previous_response_id")) || !is_none(get(body, "conversation")))
		make_fail(k, MAKE_UNKNOWN);
	if (is_str(first) && first.n > 0) {
		m = message(k, "system");
		make_put(k, m, "content", first);
		make_add(k, &l, m);
	}
	if (is_str(input)) {
		m = message(k, "user");
		make_put(k, m, "content", input);
		make_add(k, &l, m);
	} else if (!is_list(input)) {
		make_fail(k, MAKE_REFUSED);
	}
	for (uint32_t i = 0; is_list(input) && i < input.n && k->state == MAKE_GOOD; i++)
		add_item(k, &l, input.v[i]);
	make_put(k, out, "messages", make_list_value(&l));
	put_tools(k, out, get(body, "tools"));
	if (is_str(get(get(body, "reasoning"), "effort")))
		make_put(k, out, "reasoning_effort", get(get(body, "reasoning"), "effort"));
	if (get(body, "chat_template_kwargs").kind == JV_DICT)
		make_put(k, out, "chat_template_kwargs", get(body, "chat_template_kwargs"));
	return out;
}
