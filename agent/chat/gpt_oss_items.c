/* gpt_oss_items.c - items of the API of responses as messages of harmony (gpt_oss.h: the rules). An
 * answer looks up its call in a dict, so many of both cost no more than their bytes. Absent texts
 * are taken, although vLLM 0.32 rejects them: later versions may not. */
#include "agent/chat/gpt_oss_in.h"

static void add_message(struct making *k, struct jval item)
{
	struct jval content = get(item, "content");
	bool answer = is_word(get_text(item, "role"), "assistant");
	struct harmony_message *m;
	struct span text;
	size_t n = 0;
	const struct span *runs;

	if ((!is_str(content) && !is_list(content)) ||
	    (!answer && !making_instructs(item) && !is_word(get_text(item, "role"), "user")))
		make_fail(&k->make, MAKE_REFUSED);
	if (making_instructs(item)) {
		if (making_flat(k, content, &text) && text.n > 0)
			making_add_developer(k, true, text, jval_none());
		return;
	}
	runs = making_runs(k, content, &n);
	m = runs != NULL ? making_add(k, answer ? HARMONY_ASSISTANT : HARMONY_USER) : NULL;
	if (m == NULL)
		return;
	m->text = runs;
	m->n_text = n;
	if (answer)
		m->channel = SPAN("final");
}

static void add_call(struct making *k, struct jval item)
{
	struct jval id = get(item, "call_id"), name = get(item, "name");
	struct jval arguments = get(item, "arguments");

	if (!is_str(id) || !is_str(name) || !is_str(arguments)) {
		make_fail(&k->make, MAKE_REFUSED);
		return;
	}
	making_add_call(k, jval_span(name), jval_span(arguments));
	make_put_any(&k->make, k->called, id, name);
}

static void add_answer(struct making *k, struct jval item)
{
	struct jval id = get(item, "call_id"), output = get(item, "output");
	const struct jval *name;

	if (!is_str(id) || !is_str(output)) {
		make_fail(&k->make, is_list(output) ? MAKE_UNKNOWN : MAKE_REFUSED);
		return;
	}
	if ((name = jdict_get(k->called.d, id)) == NULL)
		k->misses = true;
	else
		making_add_answer(k, jval_span(*name), jval_span(output));
}

static void add_reasoning(struct making *k, struct jval item)
{
	struct jval content = get(item, "content");
	struct make_list l = { .n = 0 };

	if (!is_none(content) && !is_list(content))
		make_fail(&k->make, MAKE_REFUSED);
	for (uint32_t i = 0; is_list(content) && i < content.n; i++) {
		if (!is_str(get(content.v[i], "text")))
			make_fail(&k->make, MAKE_REFUSED);
		if (k->make.state == MAKE_GOOD)
			make_add(&k->make, &l, get(content.v[i], "text"));
	}
	if (l.n > 0)
		making_add_text(k, HARMONY_ASSISTANT, "analysis", jval_span(make_joined(&k->make, &l, "\n")));
}

void making_add_item(struct making *k, struct jval item)
{
	struct span type = get_text(item, "type");

	if (item.kind != JV_DICT)
		make_fail(&k->make, MAKE_REFUSED);
	else if (is_none(get(item, "type")) || is_word(type, "message"))
		add_message(k, item);
	else if (is_word(type, "function_call"))
		add_call(k, item);
	else if (is_word(type, "function_call_output"))
		add_answer(k, item);
	else if (is_word(type, "reasoning"))
		add_reasoning(k, item);
	else
		make_fail(&k->make, MAKE_UNKNOWN);
}
