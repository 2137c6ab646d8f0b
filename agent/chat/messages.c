/* messages.c - messages and tools of a body as vLLM hands them to a template.
 *
 * Source: vllm/entrypoints/chat_utils.py (parse_chat_messages, _postprocess_messages) and the models of its requests:
 *   - content becomes one text, its parts joined by line ends, or a list of {"type": "text", "text": ...} where the template walks
 *     through them; null is no text
 *   - of an assistant "tool_calls" stay, when there are any, with the arguments read: a JSON text becomes the value, what is none
 *     becomes {}; "reasoning" (or "reasoning_content") is there under both names
 *   - of a tool's answer the id stays, and parts that are all text are one text
 *   - "name" and "task" stay, of a developer message "tools"; all other members of a message are gone
 *   - a tool's definition has type and function, and a function always name, description and parameters, in this order, null when
 *     they are not there; members of other names come behind */
#include <errno.h>

#include "agent/chat/make.h"

#define ARGUMENTS_DEPTH	64

/* ---- content ------------------------------------------------------------------------------------------- */

static bool is_text_type(struct span type)
{
	return is_word(type, "text") || is_word(type, "input_text") || is_word(type, "output_text");
}

static bool is_media_type(struct span type)
{
	static const char *const types[] = {
		"image_url", "input_image", "image_embeds", "image_pil", "audio_url", "input_audio", "audio_embeds", "video_url",
		"prompt_embeds",
	};

	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (is_word(type, types[i]))
			return true;
	}
	return false;
}

/* The text of a part; JV_MISSING: it has none, and is left out, or k->state says why it cannot be known. */
static struct jval text_of_part(struct make *k, struct jval part)
{
	struct span type = get_text(part, "type");
	const char *key = is_word(type, "refusal") ? "refusal" : is_word(type, "thinking") ? "thinking" : "text";

	if (is_str(part))
		return part;
	if (is_text_type(type) || key[0] != 't' || is_word(type, "thinking")) {
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

/* A tool that is only named: templates that walk through parts see it as it is. */
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

static void add_part(struct make *k, struct make_list *l, struct jval part, bool parts)
{
	struct jval text;

	if (is_word(get_text(part, "type"), "tool_reference") && is_str(get(part, "name"))) {
		make_add(k, l, reference_part(k, part, parts));
		return;
	}
	text = text_of_part(k, part);
	if (text.kind != JV_MISSING)
		make_add(k, l, parts ? text_part(k, text) : text);
}

static struct jval content_of(struct make *k, struct jval content, bool parts)
{
	struct make_list l = { .n = 0 };

	if (is_str(content))
		add_part(k, &l, content, parts);
	for (uint32_t i = 0; is_list(content) && i < content.n; i++)
		add_part(k, &l, content.v[i], parts);
	if (!is_str(content) && !is_list(content) && !is_none(content))
		make_fail(k, MAKE_REFUSED);
	return parts ? make_list_value(&l) : make_joined(k, &l, "\n");
}

/* What a tool says, where content is parts: one text, unless a part is no text. */
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

/* ---- calls --------------------------------------------------------------------------------------------- */

static struct jval arguments_of(struct make *k, struct jval arguments)
{
	struct jval v;
	size_t at;

	if (arguments.kind == JV_DICT || is_list(arguments))
		return arguments;
	if (!is_str(arguments))
		return make_dict(k);
	if (jval_from_json(k->mem, jval_span(arguments), ARGUMENTS_DEPTH, &v, &at) == 0)
		return v;
	if (errno == ENOMEM)
		make_fail(k, MAKE_NO_MEMORY);
	return make_dict(k);
}

static struct jval call_of(struct make *k, struct jval call)
{
	struct jval function = get(call, "function"), made, f;

	if (function.kind != JV_DICT) {
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

/* ---- messages ------------------------------------------------------------------------------------------ */

static void put_assistant(struct make *k, struct jval msg, struct jval of)
{
	struct jval reasoning = get(of, "reasoning");

	put_calls(k, msg, get(of, "tool_calls"));
	if (is_none(reasoning))
		reasoning = get(of, "reasoning_content");
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

static struct jval message_of(struct make *k, struct jval of, bool parts)
{
	struct jval msg = make_dict(k), role = get(of, "role");

	if (!is_str(role))
		make_fail(k, MAKE_REFUSED);
	if (k->state != MAKE_GOOD)
		return msg;
	make_put(k, msg, "role", role);
	make_put(k, msg, "content", content_of(k, get(of, "content"), parts));
	if (is_word(jval_span(role), "assistant"))
		put_assistant(k, msg, of);
	else if (is_word(jval_span(role), "tool"))
		put_tool(k, msg, of, parts);
	if (is_str(get(of, "name")))
		make_put(k, msg, "name", get(of, "name"));
	if (is_str(get(of, "task")))
		make_put(k, msg, "task", get(of, "task"));
	if (is_word(jval_span(role), "developer"))
		make_put(k, msg, "tools", is_none(get(of, "tools")) ? jval_none() : get(of, "tools"));
	return msg;
}

struct jval make_messages(struct make *k, struct jval messages, bool parts)
{
	struct make_list l = { .n = 0 };

	if (!is_list(messages))
		make_fail(k, MAKE_REFUSED);
	for (uint32_t i = 0; i < messages.n && k->state == MAKE_GOOD; i++)
		make_add(k, &l, message_of(k, messages.v[i], parts));
	return make_list_value(&l);
}

/* ---- tools --------------------------------------------------------------------------------------------- */

static struct jval or_none(struct jval v)
{
	return v.kind == JV_MISSING ? jval_none() : v;
}

/* Members <first> to begin with, in this order, then the others. */
static struct jval in_order(struct make *k, struct jval of, const char *const *first)
{
	struct jval made = make_dict(k);

	for (unsigned i = 0; first[i] != NULL; i++)
		make_put(k, made, first[i], or_none(get(of, first[i])));
	for (uint32_t i = 0; i < of.d->n && k->state == MAKE_GOOD; i++)
		make_put_any(k, made, of.d->entry[i].key, of.d->entry[i].value);
	return made;
}

static struct jval tool_of(struct make *k, struct jval tool)
{
	static const char *const outside[] = { "type", "function", NULL }, *const inside[] = { "name", "description", "parameters", NULL };
	struct jval made, function = get(tool, "function");

	if (function.kind != JV_DICT || !is_str(get(function, "name"))) {
		make_fail(k, MAKE_REFUSED);
		return tool;
	}
	made = in_order(k, tool, outside);
	if (is_none(get(tool, "type")))
		make_put(k, made, "type", make_str("function"));
	make_put(k, made, "function", in_order(k, function, inside));
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
