/* messages.c - build messages and tools as vLLM passes them to a template.
 *
 * Source: vllm/entrypoints/chat_utils.py (parse_chat_messages, _postprocess_messages) and the
 * models of its requests:
 *   - content becomes one text, its parts joined by line ends, or a list of {"type": "text",
 *     "text": ...} if the template iterates over parts; null is no text. A first line of a
 *     system message that begins with x-anthropic-billing-header is dropped.
 *   - of an assistant, "tool_calls" stay if there are any, with arguments parsed: the text of
 *     a JSON object becomes that object, anything else {}. "reasoning" (or
 *     "reasoning_content") has both names, and "thinking" too with transformers 5.21 or
 *     later (utils/chat_template_utils.py).
 *   - of a tool's answer the id stays; parts that are all text become one text
 *   - "name" and "task" stay, "tools" of a developer message; other members are dropped
 *   - a tool definition has type and function; a function always has name, description and
 *     parameters, in this order, null if absent; then "strict" and "defer_loading" if they
 *     are set; nothing else stays */
#include <errno.h>

#include "agent/chat/make_in.h"

#define ARGUMENTS_DEPTH	64

/* ---- content --------------------------------------------------------------------------------- */

static bool is_text_type(const struct make_how *how, struct span type)
{
	return is_word(type, "text") ||
	    (how->responses && (is_word(type, "input_text") || is_word(type, "output_text")));
}

static bool is_media_type(struct span type)
{
	static const char *const types[] = {
		"image_url",
		"input_image",
		"image_embeds",
		"image_pil",
		"audio_url",
		"input_audio",
		"audio_embeds",
		"video_url",
		"prompt_embeds",
	};

	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (is_word(type, types[i]))
			return true;
	}
	return false;
}

/* Return the text of a part. JV_MISSING: it has none and is dropped, or k->state says why it is
 * unknown. */
static struct jval text_of_part(struct make *k, const struct make_how *how, struct jval part)
{
	struct span type = get_text(part, "type");
	const char *key = is_word(type, "refusal") ? "refusal"
	    : is_word(type, "thinking")            ? "thinking"
						   : "text";

	if (is_str(part))
		return part;
	if (is_text_type(how, type) || key[0] != 't' || is_word(type, "thinking")) {
		struct jval text = get(part, key);

		if (is_str(text))
			return text;
		if (!is_none(text) || is_word(type, "thinking"))
			make_fail(k, MAKE_REFUSED);
	} else {
		make_fail(k, is_media_type(type) || type.n == 0 ? MAKE_UNKNOWN : MAKE_REFUSED);
	}
	return (struct jval){ .kind = JV_MISSING };
}

static struct jval text_part(struct make *k, struct jval text)
{
	struct jval part = make_dict(k);

	make_put(k, part, "type", make_str("text"));
	make_put(k, part, "text", text);
	return part;
}

/* Return a part that only names a tool: templates that iterate over parts get it unchanged. */
static struct jval reference_part(struct make *k, struct jval of, bool parts)
{
	struct jval part;

	if (!parts)
		return get(of, "name");
	part = make_dict(k);
	make_put(k, part, "type", make_str("tool_reference"));
	make_put(k, part, "name", get(of, "name"));
	return part;
}

/* Drop a line of the client that differs with each request. Returns false if nothing is left. */
static bool without_billing(struct jval *text)
{
	const char *end;

	if (!make_is_billing(*text))
		return true;
	end = memchr(text->s, '\n', text->n);
	if (end == NULL || end + 1 == text->s + text->n)
		return false;
	*text = jval_str(end + 1, text->n - (size_t)(end + 1 - text->s));
	return true;
}

static void add_part(struct make *k, const struct make_how *how, struct make_list *l,
		struct jval part, bool system)
{
	struct jval text;

	if (is_word(get_text(part, "type"), "tool_reference") && is_str(get(part, "name"))) {
		make_add(k, l, reference_part(k, part, how->parts));
		return;
	}
	text = text_of_part(k, how, part);
	system &= is_str(part) || is_word(get_text(part, "type"), "text");
	if (text.kind == JV_MISSING || (system && !without_billing(&text)))
		return;
	make_add(k, l, how->parts ? text_part(k, text) : text);
}

static struct jval content_of(struct make *k, const struct make_how *how, struct jval content,
		bool system)
{
	struct make_list l = { .n = 0 };

	if (is_str(content))
		add_part(k, how, &l, content, system);
	for (uint32_t i = 0; is_list(content) && i < content.n; i++)
		add_part(k, how, &l, content.v[i], system);
	if (!is_str(content) && !is_list(content) && !is_none(content))
		make_fail(k, MAKE_REFUSED);
	return how->parts ? make_list_value(&l) : make_joined(k, &l, "\n");
}

/* Return a tool's content from parts: one text, unless a part is no text. */
static struct jval tool_content(struct make *k, struct jval content)
{
	struct make_list l = { .n = 0 };

	for (uint32_t i = 0; is_list(content) && i < content.n; i++) {
		if (!is_word(get_text(content.v[i], "type"), "text"))
			return content;
		make_add(k, &l, get(content.v[i], "text"));
	}
	return make_joined(k, &l, "\n");
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct jval arguments_of(struct make *k, struct jval arguments)
{
	struct jval v;

	if (arguments.kind == JV_DICT)
		return arguments;
	if (!is_str(arguments))
		return make_dict(k);
	errno = 0;
	if (make_from_json(k->mem, k->work, jval_span(arguments), ARGUMENTS_DEPTH, &v) == 0)
		return v.kind == JV_DICT ? v : make_dict(k);
	if (errno == ENOMEM || errno == E2BIG)
		make_fail(k, errno == E2BIG ? MAKE_SPENT : MAKE_NO_MEMORY);
	return make_dict(k);
}

static struct jval call_of(struct make *k, struct jval call)
{
	struct jval function = get(call, "function"), type = get(call, "type"), made, f;

	if (function.kind != JV_DICT ||
	    (type.kind != JV_MISSING && !is_word(get_text(call, "type"), "function"))) {
		make_fail(k, MAKE_REFUSED);
		return call;
	}
	made = make_copy(k, call);
	f = make_copy(k, function);
	make_put(k, f, "arguments", arguments_of(k, get(function, "arguments")));
	make_put(k, made, "function", f);
	return made;
}

static void put_calls(struct make *k, struct jval msg, struct jval calls)
{
	struct make_list l = { .n = 0 };

	for (uint32_t i = 0; is_list(calls) && i < calls.n && k->state == MAKE_GOOD; i++)
		make_add(k, &l, call_of(k, calls.v[i]));
	if (l.n > 0)
		make_put(k, msg, "tool_calls", make_list_value(&l));
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Return the reasoning of an assistant's message. */
static struct jval reasoning_of(struct jval of)
{
	struct jval reasoning = get(of, "reasoning");

	return is_none(reasoning) ? get(of, "reasoning_content") : reasoning;
}

static void put_assistant(struct make *k, struct jval msg, struct jval of, struct jval reasoning)
{
	put_calls(k, msg, get(of, "tool_calls"));
	if (is_none(reasoning))
		return;
	make_put(k, msg, "reasoning", reasoning);
	make_put(k, msg, "reasoning_content", reasoning);
}

static void put_tool(struct make *k, struct jval msg, struct jval of, bool parts)
{
	if (get(of, "tool_call_id").kind != JV_MISSING)
		make_put(k, msg, "tool_call_id", get(of, "tool_call_id"));
	if (parts)
		make_put(k, msg, "content", tool_content(k, get(msg, "content")));
}

static struct jval message_of(struct make *k, const struct make_how *how, struct jval of)
{
	struct jval msg = make_dict(k), role = get(of, "role"), reasoning = { .kind = JV_MISSING };
	bool assistant = is_str(role) && is_word(jval_span(role), "assistant");

	if (!is_str(role))
		make_fail(k, MAKE_REFUSED);
	if (k->state != MAKE_GOOD)
		return msg;
	if (assistant)
		reasoning = reasoning_of(of);
	if (how->aliases && !is_none(reasoning))
		make_put(k, msg, "thinking", reasoning);
	make_put(k, msg, "role", role);
	make_put(k, msg, "content",
	    content_of(k, how, get(of, "content"), is_word(jval_span(role), "system")));
	if (assistant)
		put_assistant(k, msg, of, reasoning);
	else if (is_word(jval_span(role), "tool"))
		put_tool(k, msg, of, how->parts);
	if (is_str(get(of, "name")))
		make_put(k, msg, "name", get(of, "name"));
	if (is_str(get(of, "task")))
		make_put(k, msg, "task", get(of, "task"));
	if (is_word(jval_span(role), "developer")) {
		make_put(k, msg, "tools", is_none(get(of, "tools")) ? jval_none() : get(of, "tools"));
		k->developer = true;
	}
	return msg;
}

struct jval make_messages(struct make *k, const struct make_how *how, struct jval messages)
{
	struct make_list l = { .n = 0 };

	if (!is_list(messages))
		make_fail(k, MAKE_REFUSED);
	for (uint32_t i = 0; i < messages.n && k->state == MAKE_GOOD; i++)
		make_add(k, &l, message_of(k, how, messages.v[i]));
	return make_list_value(&l);
}

/* ---- tools ----------------------------------------------------------------------------------- */

static struct jval or_none(struct jval v)
{
	return v.kind == JV_MISSING ? jval_none() : v;
}

static void put_if_set(struct make *k, struct jval dict, const char *key, struct jval value)
{
	if (!is_none(value))
		make_put(k, dict, key, value);
}

static struct jval function_of(struct make *k, struct jval of, struct jval defer_loading)
{
	struct jval f = make_dict(k), own = get(of, "defer_loading");

	make_put(k, f, "name", get(of, "name"));
	make_put(k, f, "description", or_none(get(of, "description")));
	make_put(k, f, "parameters", or_none(get(of, "parameters")));
	put_if_set(k, f, "strict", get(of, "strict"));
	put_if_set(k, f, "defer_loading", is_none(own) ? defer_loading : own);
	return f;
}

static struct jval tool_of(struct make *k, struct jval tool)
{
	struct jval made = make_dict(k), function = get(tool, "function"), type = get(tool, "type");

	if (function.kind != JV_DICT || !is_str(get(function, "name")) ||
	    (type.kind != JV_MISSING && !is_word(get_text(tool, "type"), "function")))
		make_fail(k, MAKE_REFUSED);
	if (k->state != MAKE_GOOD)
		return made;
	make_put(k, made, "type", make_str("function"));
	make_put(k, made, "function", function_of(k, function, get(tool, "defer_loading")));
	put_if_set(k, made, "defer_loading", get(tool, "defer_loading"));
	return made;
}

struct jval make_tools(struct make *k, struct jval tools)
{
	struct make_list l = { .n = 0 };

	if (is_none(tools))
		return jval_none();
	if (!is_list(tools))
		make_fail(k, MAKE_REFUSED);
	for (uint32_t i = 0; i < tools.n && k->state == MAKE_GOOD; i++)
		make_add(k, &l, tool_of(k, tools.v[i]));
	return make_list_value(&l);
}
