/* probe.c - detect properties of a template by trial renderings at load.
 *
 * What the engine detects in this way, for bodies of messages:
 *
 * Source: vllm/entrypoints/anthropic/serving.py (_detect_merge_inline_system,
 * _probe_disabled_thinking_effort):
 *   - a conversation of system, user, system, user is rendered by the bare template, without
 *     the functions, tags and variables of transformers. If it raises an error, system
 *     messages go to the start.
 *   - disabled "thinking" is the effort "none"; or "low", if the template rejects that or
 *     writes the same for another effort
 *
 * And for cut bodies: whether the template writes a late message of role system or developer at the
 * start. */
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/chat/chat_in.h"

#define PROBE_STEPS	100000u
#define PROBE_BYTES	((size_t)16 << 20)

static bool drop(void *arg, const char *p, size_t n, enum jinja_origin origin)
{
	return true;
}

static bool merges(struct jinja_mem *mem, const struct jinja *t)
{
	static const char body[] =
	    "[{\"role\":\"system\",\"content\":\"t\"},{\"role\":\"user\",\"content\":\"t\"},"
	    "{\"role\":\"system\",\"content\":\"t\"},{\"role\":\"user\",\"content\":\"t\"}]";
	struct make k = { .mem = mem };
	struct jval vars = make_dict(&k), messages;
	struct jinja_limits limits = jinja_limits_defaults();
	size_t at;

	limits.steps = PROBE_STEPS;
	if (jval_from_json(mem, span_of(body, sizeof(body) - 1), 0, &messages, &at) < 0)
		return true;
	make_put(&k, vars, "messages", messages);
	make_put(&k, vars, "add_generation_prompt", jval_bool(false));
	make_put(&k, vars, "strftime_now", (struct jval){ .kind = JV_MISSING });
	return k.state != MAKE_GOOD ||
	    jinja_render(t, mem, vars.d, NULL, &limits, drop, NULL, NULL) != JINJA_OK;
}

/* n == 0: there is no text. */
static struct span text_of(const struct chat *c, struct chat_scratch *s, const char *body,
		enum chat_result *result)
{
	static const struct jinja_time day = { .year = 2026, .month = 1, .day = 1 };
	struct chat_body b = { .raw = span_str(body), .now = day };
	struct chat_text t;

	*result = chat_render(c, s, &b, &t);
	return *result == CHAT_DONE ? span_of(t.p, t.n) : (struct span){ .n = 0 };
}

/* Render one question with this effort. */
static struct span ask(const struct chat *c, struct chat_scratch *s, const char *effort,
		enum chat_result *result)
{
	char body[128];

	snprintf(body, sizeof(body),
	    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"reasoning_effort\":\"%s\"}",
	    effort);
	return text_of(c, s, body, result);
}

static bool same_as_another(const struct chat *c, struct chat_scratch *a, struct chat_scratch *b)
{
	static const char *const others[] = { "low", "medium", "high", "xhigh", "max" };
	enum chat_result result;
	struct span none = ask(c, a, "none", &result);

	if (result != CHAT_DONE)
		return true;
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct span other = ask(c, b, others[i], &result);

		if (result == CHAT_DONE && span_eq(none, other))
			return true;
	}
	return false;
}

/* Tell if a late message of <role> changes text before it. <tools>: a member of the body, or "". */
static bool moves(const struct chat *c, struct chat_scratch *a, struct chat_scratch *b,
    const char *role, const char *tools)
{
#define BEGIN	"{%s\"messages\":[{\"role\":\"system\",\"content\":\"S\"}," \
		"{\"role\":\"user\",\"content\":\"first question\"}," \
		"{\"role\":\"assistant\",\"content\":\"A\"}"
	static const char question[] = "first question";
	char body[512];
	enum chat_result short_result, long_result;
	struct span text, other;
	const char *at;
	size_t n;

	snprintf(body, sizeof(body), BEGIN "]}", tools);
	text = text_of(c, a, body, &short_result);
	at = text.n > 0 ? memmem(text.p, text.n, question, sizeof(question) - 1) : NULL;
	n = at != NULL ? (size_t)(at - text.p) + sizeof(question) - 1 : 0;
	snprintf(body, sizeof(body),
	    BEGIN ",{\"role\":\"%s\",\"content\":\"late\"},{\"role\":\"user\",\"content\":\"B\"}]}",
	    tools, role);
	other = text_of(c, b, body, &long_result);
	return long_result == CHAT_DONE && (other.n < n || (n > 0 && memcmp(text.p, other.p, n) != 0));
#undef BEGIN
}

/* The same for any role that it may have, with and without tools. */
static bool moves_any(const struct chat *c, struct chat_scratch *a, struct chat_scratch *b)
{
	static const char *const tools[] = {
		"", "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\","
		"\"parameters\":{\"type\":\"object\",\"properties\":{}}}}],",
	};

	for (unsigned i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
		bool developer = i > 0 ? c->tool_traits.developer : c->plain_traits.developer;

		if (moves(c, a, b, "system", tools[i]) || (developer && moves(c, a, b, "developer", tools[i])))
			return true;
	}
	return false;
}

int chat_probe(struct chat *c, const struct hash_key *key)
{
	struct chat_scratch *a = chat_scratch_new(PROBE_BYTES, key),
			    *b = chat_scratch_new(PROBE_BYTES, key);
	int rc = a != NULL && b != NULL ? 0 : -1;

	c->anthropic = (struct make_anthropic){ .merge = true, .disabled = "low" };
	if (rc == 0 && c->format == CHAT_TEMPLATE) {
		c->anthropic.merge = c->plain_traits.generation || c->tool_traits.generation ||
		    merges(a->mem, c->plain) ||
		    (c->tool_use != NULL && merges(a->mem, c->tool_use));
		c->anthropic.disabled = same_as_another(c, a, b) ? "low" : "none";
		c->moves_system = moves_any(c, a, b);
	}
	chat_scratch_free(a);
	chat_scratch_free(b);
	return rc;
}
