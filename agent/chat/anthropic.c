/* anthropic.c - convert a body of /v1/messages to one of chat completions.
 *
 * Source: vllm/entrypoints/anthropic/serving.py:
 *   - all texts of "system", joined, are the first message. A block that begins with
 *     x-anthropic-billing-header is dropped, because it differs with each request.
 *     System messages join the first one if the template raises an error for them
 *     (struct make_anthropic); otherwise they stay where they are.
 *   - blocks: text; thinking becomes reasoning; tool_use becomes a call; the tool_result of
 *     a user becomes a message of role tool before the user's own. A user's message with
 *     nothing left is dropped.
 *   - one block of text becomes plain text
 *   - the schema of a tool becomes its parameters; "output_config.effort" becomes the
 *     reasoning effort, unless "thinking" is disabled */
#include "agent/chat/make_in.h"

static struct jval message(struct make *k, const char *role, struct jval content)
{
	struct jval m = make_dict(k);

	make_put(k, m, "role", make_str(role));
	make_put(k, m, "content", content);
	return m;
}

static void add_blocks(struct make *k, struct make_list *l, struct jval of)
{
	for (uint32_t i = 0; is_list(of) && i < of.n; i++) {
		struct jval text = get(of.v[i], "text");

		if (is_word(get_text(of.v[i], "type"), "text") && is_str(text) && text.n > 0 &&
		    !make_is_billing(text))
			make_add(k, l, text);
	}
}

/* Return the text of a message of role system; n == 0: there is no message. */
static struct jval system_text(struct make *k, struct jval content)
{
	struct make_list l = { .n = 0 };

	if (is_str(content))
		return make_is_billing(content) ? make_str("") : content;
	add_blocks(k, &l, content);
	return make_joined(k, &l, "");
}

static void add_system(struct make *k, const struct make_anthropic *how, struct make_list *out,
		struct jval body)
{
	struct jval messages = get(body, "messages"), system = get(body, "system");
	struct make_list l = { .n = 0 };

	if (is_str(system) && system.n > 0)
		make_add(k, &l, system);
	add_blocks(k, &l, system);
	for (uint32_t i = 0; how->merge && is_list(messages) && i < messages.n; i++) {
		struct jval text = make_str("");

		if (is_word(get_text(messages.v[i], "role"), "system"))
			text = system_text(k, get(messages.v[i], "content"));
		if (text.n > 0)
			make_add(k, &l, text);
	}
	if (l.n > 0)
		make_add(k, out, message(k, "system", make_joined(k, &l, "")));
}

/* ---- blocks ---------------------------------------------------------------------------------- */

struct blocks {
	struct make_list parts, calls, thoughts;
};

static void add_call(struct make *k, struct blocks *b, struct jval block)
{
	struct jval call = make_dict(k), function = make_dict(k), input = get(block, "input");

	make_put(k, function, "name", is_str(get(block, "name")) ? get(block, "name") : make_str(""));
	make_put(k, function, "arguments", input.kind == JV_DICT ? input : make_dict(k));
	make_put(k, call, "id", is_str(get(block, "id")) ? get(block, "id") : make_str(""));
	make_put(k, call, "type", make_str("function"));
	make_put(k, call, "function", function);
	make_add(k, &b->calls, call);
}

/* Join the texts of a result's blocks by line ends. */
static struct jval result_text(struct make *k, struct jval content)
{
	struct make_list l = { .n = 0 };

	if (is_str(content))
		return content;
	for (uint32_t i = 0; is_list(content) && i < content.n; i++) {
		struct span type = get_text(content.v[i], "type");

		if (is_word(type, "text") && is_str(get(content.v[i], "text")))
			make_add(k, &l, get(content.v[i], "text"));
		else if (is_word(type, "image"))
			make_fail(k, MAKE_UNKNOWN);
	}
	return make_joined(k, &l, "\n");
}

/* Pass references to tools in a result to the template unchanged, in a message of their own. */
static void add_references(struct make *k, struct make_list *out, struct jval block, struct jval id)
{
	struct jval content = get(block, "content"), m, ref;
	struct make_list l = { .n = 0 };

	for (uint32_t i = 0; is_list(content) && i < content.n; i++) {
		struct jval name = get(content.v[i], "tool_name");

		if (!is_word(get_text(content.v[i], "type"), "tool_reference"))
			continue;
		if (!is_str(name) || name.n == 0)
			name = get(content.v[i], "name");
		if (!is_str(name) || name.n == 0)
			continue;
		ref = make_dict(k);
		make_put(k, ref, "type", make_str("tool_reference"));
		make_put(k, ref, "name", name);
		make_add(k, &l, ref);
	}
	if (l.n == 0)
		return;
	m = message(k, "tool", make_list_value(&l));
	make_put(k, m, "tool_call_id", id);
	make_add(k, out, m);
}

static void add_result(struct make *k, struct make_list *out, struct jval block)
{
	struct jval id = get(block, "tool_use_id"),
		    m = message(k, "tool", result_text(k, get(block, "content")));

	if (!is_str(id))
		id = make_str("");
	make_put(k, m, "tool_call_id", id);
	make_add(k, out, m);
	add_references(k, out, block, id);
}

static void add_block(struct make *k, struct make_list *out, struct blocks *b, struct jval block,
		bool user)
{
	struct span type = get_text(block, "type");

	if (is_word(type, "text")) {
		if (get_text(block, "text").n > 0)
			make_add(k, &b->parts, block);
	} else if (is_word(type, "thinking")) {
		if (is_str(get(block, "thinking")))
			make_add(k, &b->thoughts, get(block, "thinking"));
	} else if (is_word(type, "tool_use")) {
		add_call(k, b, block);
	} else if (is_word(type, "tool_result") && user) {
		add_result(k, out, block);
	} else if (is_word(type, "tool_result") || is_word(type, "image") || is_word(type, "document") ||
		   is_word(type, "tool_addition") || is_word(type, "tool_removal")) {
		make_fail(k, MAKE_UNKNOWN);	/* the engine would show an assistant's result in Python's notation */
	} else if (!is_word(type, "redacted_thinking") && !is_word(type, "tool_reference")) {
		make_fail(k, MAKE_REFUSED);
	}
}

static void put_blocks(struct make *k, struct jval m, struct blocks *b)
{
	if (b->thoughts.n > 0)
		make_put(k, m, "reasoning", make_joined(k, &b->thoughts, ""));
	if (b->calls.n > 0)
		make_put(k, m, "tool_calls", make_list_value(&b->calls));
	if (b->parts.n == 1)
		make_put(k, m, "content", get(b->parts.v[0], "text"));
	else if (b->parts.n > 1)
		make_put(k, m, "content", make_list_value(&b->parts));
}

static void add_own_system(struct make *k, struct make_list *out, struct jval content)
{
	struct jval text = system_text(k, content);

	if (text.n > 0)
		make_add(k, out, message(k, "system", text));
}

static void add_message(struct make *k, const struct make_anthropic *how, struct make_list *out,
		struct jval of)
{
	struct jval m = make_dict(k), role = get(of, "role"), content = get(of, "content");
	struct blocks b = { .parts = { .n = 0 } };
	bool user;

	if (!is_str(role)) {
		make_fail(k, MAKE_REFUSED);
		return;
	}
	if (is_word(jval_span(role), "system")) {
		if (!how->merge)
			add_own_system(k, out, content);
		return;
	}
	user = is_word(jval_span(role), "user");
	make_put(k, m, "role", role);
	if (is_str(content))
		make_put(k, m, "content", content);
	for (uint32_t i = 0; is_list(content) && i < content.n && k->state == MAKE_GOOD; i++)
		add_block(k, out, &b, content.v[i], user);
	if (k->state != MAKE_GOOD)
		return;
	put_blocks(k, m, &b);
	if (!user || get(m, "content").kind != JV_MISSING)
		make_add(k, out, m);
}

/* ---- the body -------------------------------------------------------------------------------- */

static struct jval tool(struct make *k, struct jval of)
{
	struct jval t = make_dict(k), function = make_dict(k);

	make_put(k, function, "name", get(of, "name"));
	make_put(k, function, "description",
	    is_none(get(of, "description")) ? jval_none() : get(of, "description"));
	make_put(k, function, "parameters",
	    is_none(get(of, "input_schema")) ? jval_none() : get(of, "input_schema"));
	make_put(k, function, "strict", get(of, "strict"));
	make_put(k, function, "defer_loading", get(of, "defer_loading"));
	make_put(k, t, "type", make_str("function"));
	make_put(k, t, "function", function);
	return t;
}

static void put_tools(struct make *k, struct jval out, struct jval tools)
{
	struct make_list l = { .n = 0 };

	if (!is_list(tools))
		return;
	for (uint32_t i = 0; i < tools.n && k->state == MAKE_GOOD; i++) {
		if (is_none(get(tools.v[i], "name")))
			make_fail(k, MAKE_REFUSED);
		else
			make_add(k, &l, tool(k, tools.v[i]));
	}
	make_put(k, out, "tools", make_list_value(&l));
}

static struct jval effort_of(const struct make_anthropic *how, struct jval body)
{
	if (is_word(get_text(get(body, "thinking"), "type"), "disabled"))
		return make_str(how->disabled);
	return get(get(body, "output_config"), "effort");
}

/* Append what is made of <messages>, each by itself. */
static void add_messages(struct make *k, const struct make_anthropic *how, struct make_list *out,
    struct jval messages, struct make_map *map)
{
	*map = (struct make_map){ .n = is_list(messages) ? messages.n : 0 };
	map->after = make_take(k, map->n * sizeof(*map->after));
	for (uint32_t i = 0; i < map->n && k->state == MAKE_GOOD; i++) {
		map->system |= is_word(get_text(messages.v[i], "role"), "system");
		add_message(k, how, out, messages.v[i]);
		map->after[i] = out->n;
	}
}

struct jval make_of_anthropic_list(struct make *k, const struct make_anthropic *how,
    struct jval messages, struct make_map *map)
{
	struct make_list l = { .n = 0 };

	add_messages(k, how, &l, messages, map);
	return make_list_value(&l);
}

struct jval make_of_anthropic(struct make *k, const struct make_anthropic *how, struct jval body,
    struct make_map *map)
{
	struct jval out = make_dict(k), messages = get(body, "messages");
	struct make_list l = { .n = 0 };

	if (!is_list(messages))
		make_fail(k, MAKE_REFUSED);
	add_system(k, how, &l, body);
	add_messages(k, how, &l, messages, map);
	make_put(k, out, "messages", make_list_value(&l));
	put_tools(k, out, get(body, "tools"));
	make_put(k, out, "reasoning_effort", effort_of(how, body));
	if (get(body, "chat_template_kwargs").kind == JV_DICT)
		make_put(k, out, "chat_template_kwargs", get(body, "chat_template_kwargs"));
	return out;
}
