/* system.c - system and developer messages for a template without the role "developer".
 *
 *     system "A", user "q", developer "B"   ->   system "A\n\nB", user "q"
 *
 * Source: vllm/renderers/hf.py (_convert_developer_to_system, _consolidate_system_messages).
 * Without a developer message nothing changes, not even a system message after others. */
#include "agent/base/billing.h"
#include "agent/chat/make_in.h"

static bool is_role(struct jval message, const char *role)
{
	return is_word(get_text(message, "role"), role);
}

bool make_is_billing(struct jval text)
{
	return is_str(text) && billing_begins(jval_span(text));
}

/* Copy a message, except for role and "tools". */
static struct jval as_system(struct make *k, struct jval of)
{
	struct jval m = make_dict(k);

	for (uint32_t i = 0; i < of.d->n && k->state == MAKE_GOOD; i++) {
		struct jval key = of.d->entry[i].key;

		if (is_word(jval_span(key), "role"))
			make_put(k, m, "role", make_str("system"));
		else if (!is_word(jval_span(key), "tools"))
			make_put_any(k, m, key, of.d->entry[i].value);
	}
	return m;
}

static struct jval text_of(struct make *k, struct jval content)
{
	struct make_list l = { .n = 0 };

	if (!is_list(content))
		return content;
	for (uint32_t i = 0; i < content.n; i++) {
		if (is_str(get(content.v[i], "text")))
			make_add(k, &l, get(content.v[i], "text"));
	}
	return make_joined(k, &l, "\n");
}

static struct jval in_front(struct make *k, struct jval messages)
{
	struct make_list texts = { .n = 0 }, out = { .n = 0 };
	struct jval merged = make_dict(k);

	for (uint32_t i = 0; i < messages.n && k->state == MAKE_GOOD; i++) {
		struct jval text;

		if (!is_role(messages.v[i], "system"))
			continue;
		text = text_of(k, get(messages.v[i], "content"));
		if (is_str(text) && text.n > 0)
			make_add(k, &texts, text);
	}
	make_put(k, merged, "role", make_str("system"));
	make_put(k, merged, "content", make_joined(k, &texts, "\n\n"));
	make_add(k, &out, merged);
	for (uint32_t i = 0; i < messages.n && k->state == MAKE_GOOD; i++) {
		if (!is_role(messages.v[i], "system"))
			make_add(k, &out, messages.v[i]);
	}
	return make_list_value(&out);
}

struct jval make_systems(struct make *k, struct jval messages)
{
	struct make_list l = { .n = 0 };
	bool move = false;

	for (uint32_t i = 0; i < messages.n && k->state == MAKE_GOOD; i++) {
		bool developer = is_role(messages.v[i], "developer");

		make_add(k, &l, developer ? as_system(k, messages.v[i]) : messages.v[i]);
		move |= i > 0 && (developer || is_role(messages.v[i], "system"));
	}
	if (k->state != MAKE_GOOD)
		return messages;
	return move ? in_front(k, make_list_value(&l)) : make_list_value(&l);
}
