/* options.c - members of a body that decide how its prompt is made: arguments of the template, and
 * how much of the prompt is kept.
 *
 * Source: vllm/entrypoints/openai/chat_completion/protocol.py (build_chat_params,
 * build_tok_params), renderers/params.py:
 *   - members of "chat_template_kwargs" are variables of the template; "documents" and
 *     "reasoning_effort" of the body override them
 *   - reasoning_effort also sets enable_thinking, unless chat_template_kwargs has it: false
 *     for "none", otherwise true
 *   - of more than "truncate_prompt_tokens" ids the last ones are kept, unless
 *     "truncation_side" is "right" */
#include "agent/chat/chat_in.h"

bool chat_truth(struct jval v, bool otherwise)
{
	return v.kind == JV_BOOL ? v.i != 0 : otherwise;
}

/* Tell if <key> is a parameter of Hugging Face's function, which would do more than set a variable.
 */
static bool is_parameter(struct span key)
{
	static const char *const names[] = {
		"tools", "conversation", "padding", "truncation", "max_length", "return_tensors", "return_dict",
		"return_assistant_tokens_mask", "tokenizer_kwargs",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (is_word(key, names[i]))
			return true;
	}
	return false;
}

static void put_arguments(struct make *k, struct jval vars, struct jval arguments)
{
	for (uint32_t i = 0;
	     arguments.kind == JV_DICT && i < arguments.d->n && k->state == MAKE_GOOD; i++) {
		struct jval key = arguments.d->entry[i].key;

		if (is_word(jval_span(key), "chat_template") || is_word(jval_span(key), "tokenize"))
			make_fail(k, MAKE_REFUSED);
		if (is_parameter(jval_span(key)))
			make_fail(k, MAKE_UNKNOWN);
		make_put_any(k, vars, key, arguments.d->entry[i].value);
	}
}

static void put_effort(struct make *k, struct jval vars, struct jval effort, struct jval arguments)
{
	static const char *const known[] = { "none", "minimal", "low", "medium", "high", "xhigh", "max" };
	bool found = false;

	if (is_none(effort))
		return;
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		found |= is_str(effort) && is_word(jval_span(effort), known[i]);
	if (!found)
		make_fail(k, is_str(effort) ? MAKE_UNKNOWN : MAKE_REFUSED);
	make_put(k, vars, "reasoning_effort", effort);
	if (found && get(arguments, "enable_thinking").kind == JV_MISSING)
		make_put(k, vars, "enable_thinking", jval_bool(!is_word(jval_span(effort), "none")));
}

struct jval chat_variables(struct make *k, const struct rendering *r)
{
	struct jval vars = make_copy(k, r->c->tokens), documents = get(r->body, "documents");
	struct jval arguments = get(r->body, "chat_template_kwargs");

	make_put(k, vars, "documents", jval_none());
	put_arguments(k, vars, arguments);
	if (!is_none(documents))
		make_put(k, vars, "documents", documents);
	put_effort(k, vars, get(r->body, "reasoning_effort"), arguments);
	make_put(k, vars, "messages", r->messages);
	make_put(k, vars, "tools", r->tools);
	make_put(k, vars, "add_generation_prompt", jval_bool(r->completion));
	return vars;
}

static bool take_side(struct jval side, enum chat_side *out)
{
	if (is_none(side))
		return true;
	if (!is_str(side) || (!is_word(jval_span(side), "left") && !is_word(jval_span(side), "right")))
		return false;
	*out = is_word(jval_span(side), "left") ? SIDE_LEFT : SIDE_RIGHT;
	return true;
}

/* Only chat completions have these members, and harmony ignores them. */
enum chat_result chat_take_truncation(struct rendering *r)
{
	struct jval keep = get(r->body, "truncate_prompt_tokens");

	if (r->b->api != CHAT_COMPLETIONS || is_none(keep) || r->c->format == CHAT_HARMONY)
		return CHAT_DONE;
	if (!take_side(get(r->body, "truncation_side"), &r->out->side))
		return chat_why(r, CHAT_REFUSED, "its truncation_side is neither left nor right");
	if (keep.kind != JV_INT || keep.i == -1)
		return chat_why(r, CHAT_UNKNOWN, "it is truncated to the engine's own length");
	if (keep.i <= 0)
		return chat_why(r, CHAT_REFUSED, "nothing of it is kept");
	if (r->b->cut && r->out->side != SIDE_RIGHT)
		return chat_why(r, CHAT_UNKNOWN, "its beginning is truncated, and its end was not seen");
	r->out->keep = (size_t)keep.i;
	return CHAT_DONE;
}
