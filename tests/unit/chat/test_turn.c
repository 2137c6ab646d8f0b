/* test_turn.c - a conversation that is rendered on from what an earlier body left has the text of a
 * whole rendering, whatever the template reads and whatever was changed: random conversations that
 * grow, shrink and differ, by templates made for each kind of read and by all real ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/chat/chat.h"
#include "agent/chat/ends.h"
#include "tests/unit/rounds.h"

#define TEMPLATES	"../shared/data/tokenizers/chat/templates"
#define BODY		(1u << 16)
#define MESSAGES	24u
#define KEPT		6u		/* what so many bodies left is tried */
#define ROUNDS		120u

static const struct jinja_time now = { .year = 2026, .month = 11, .day = 21, .hour = 12 };
static struct hash_key key;
static unsigned long cut_tried, cut_resumed;	/* in all */
static enum chat_api api = CHAT_COMPLETIONS;
static bool harmony;		/* conversations are made for it */
static bool looks_back;		/* the template reads no message after the one that it writes */

/* ---- conversations ---- */

struct talk {
	char message[MESSAGES][512];
	unsigned n;
	bool tools, kwargs, no_start, developer;
	unsigned said;			/* which text is around the messages */
	bool effort;
	unsigned tool, tools_at;	/* which tools, and where they are: put_tools() */
	unsigned call;			/* number of the last call; ids of its kind: see put_id() */
	char content[64];
};

static const char *random_text(struct talk *t, struct rng *rng)
{
	static const char *const texts[] = {
		"hello", "  spaces  ", "", "line\\nline", "<think>a</think>b", "caf\\u00e9", "\\ud83d\\ude00",
		"<tool_response>x</tool_response>", "a \\\"quote\\\"", "</think>", "\xef\xbf\xbd",
	};

	snprintf(t->content, sizeof(t->content), "%s%u",
	    texts[rng_below(rng, 60) == 0 ? 10 : rng_below(rng, 10)], (unsigned)rng_below(rng, 5));
	return t->content;
}

/* A message of /v1/messages: a text, or blocks that become several messages, or none. */
static void put_blocks(struct talk *t, char *p, size_t room, bool user, struct rng *rng)
{
	size_t n;

	if (rng_below(rng, 20) == 0) {
		snprintf(p, room, "{\"role\":\"system\",\"content\":\"%s\"}", random_text(t, rng));
		return;
	}
	if (rng_below(rng, 3) == 0) {
		snprintf(p, room, "{\"role\":\"%s\",\"content\":\"%s\"}", user ? "user" : "assistant",
		    random_text(t, rng));
		return;
	}
	n = (size_t)snprintf(p, room, "{\"content\":[");
	for (unsigned i = (unsigned)rng_below(rng, 4); i > 0; i--) {
		const char *marker = rng_below(rng, 8) == 0 ? ",\"cache_control\":{}" : "";

		if (rng_below(rng, 2) == 0)
			n += (size_t)snprintf(p + n, room - n, "{\"type\":\"text\",\"text\":\"%s\"%s}",
			    random_text(t, rng), marker);
		else if (user)
			n += (size_t)snprintf(p + n, room - n, "{\"type\":\"tool_result\",\"tool_use_id\":"
			    "\"call12345\",\"content\":\"%s\"}", random_text(t, rng));
		else
			n += (size_t)snprintf(p + n, room - n, "{\"type\":\"tool_use\",\"id\":\"call12345\","
			    "\"name\":\"f\",\"input\":{\"x\":%u}}", (unsigned)rng_below(rng, 3));
		n += (size_t)snprintf(p + n, room - n, "%s", i > 1 ? "," : "");
	}
	snprintf(p + n, room - n, "],\"role\":\"%s\"}", user ? "user" : "assistant");
}

/* A message of /v1/responses: texts or parts, of which an assistant's may join other items. */
static void put_item_message(
    struct talk *t, char *p, size_t room, const char *role, struct rng *rng)
{
	bool answers = strcmp(role, "assistant") == 0;
	const char *end = rng_below(rng, 16) == 0 ? ",\"status\":\"incomplete\"" : "", *part;
	const char *type = rng_below(rng, 2) == 0 ? "\"type\":\"message\"," : "";

	part = answers ? "output_text" : "input_text";
	if (rng_below(rng, 3) == 0)
		snprintf(p, room,
		    "{%s\"role\":\"%s\",\"content\":[{\"type\":\"%s\",\"text\":\"%s\"}]%s}", type, role, part,
		    random_text(t, rng), end);
	else if (answers && !harmony && rng_below(rng, 12) == 0)
		snprintf(p, room, "{%s\"role\":\"assistant\",\"reasoning\":\"own\"%s}", type, end);
	else
		snprintf(p, room, "{%s\"content\":\"%s\",\"role\":\"%s\"%s}", type, random_text(t, rng), role,
		    end);
}

/* Return the id of a call before item <at>: most often that of the last one; or of none. */
static unsigned called_before(const struct talk *t, unsigned at, struct rng *rng)
{
	unsigned id;

	while (at-- > 0) {
		if (sscanf(t->message[at], "{\"type\":\"function_call\",\"call_id\":\"%u\"", &id) == 1 &&
		    rng_below(rng, 6) > 0)
			return id;
	}
	return 0;
}

/* An item as gpt-oss has them: a call, which may have an earlier id, an answer or reasoning. */
static bool put_item_thought(struct talk *t, unsigned at, struct rng *rng)
{
	char *p = t->message[at];
	size_t room = sizeof(t->message[at]);
	unsigned id = called_before(t, at, rng);

	switch (rng_below(rng, 8)) {
	case 0: case 1: case 2:
		if (id == 0 && rng_below(rng, 40) > 0)
			return false;
		snprintf(p, room, "{\"type\":\"function_call_output\",\"call_id\":\"%u\",\"output\":\"%s\"}",
		    id, random_text(t, rng));
		return true;
	case 3: case 4:
		id = id > 0 && rng_below(rng, 4) == 0 ? id : ++t->call;
		snprintf(p, room, "{\"type\":\"function_call\",\"call_id\":\"%u\",\"name\":\"f%u\","
		    "\"arguments\":\"{}\"}", id, (unsigned)rng_below(rng, 3));
		return true;
	case 5:
		snprintf(p, room, "{\"summary\":[{\"text\":\"short\"}],\"type\":\"reasoning\",\"content\":"
		    "[%s{\"type\":\"reasoning_text\",\"text\":\"why %u\"}]}",
		    rng_below(rng, 2) == 0 ? "{\"text\":\"so\"}," : "", (unsigned)rng_below(rng, 3));
		return true;
	default:
		return false;
	}
}

static void put_item(struct talk *t, unsigned at, struct rng *rng)
{
	char *p = t->message[at];
	size_t room = sizeof(t->message[at]);

	if (harmony && at > 0 && put_item_thought(t, at, rng))
		return;
	if (harmony && rng_below(rng, 2) == 0) {
		put_item_message(t, p, room, at == 0 ? "developer" : "assistant", rng);
		return;
	}
	switch (harmony || (at == 0 && rng_below(rng, 3) > 0) ? 7 : rng_below(rng, 10)) {
	case 0: case 1:
		snprintf(p, room, "{\"type\":\"function_call\",\"call_id\":\"call12345\",\"name\":\"f\","
		    "\"arguments\":\"{\\\"x\\\":%u}\"}", (unsigned)rng_below(rng, 3));
		return;
	case 2: case 3:
		snprintf(p, room, "{\"type\":\"function_call_output\",\"call_id\":\"call12345\","
		    "\"output\":\"%s\"}", random_text(t, rng));
		return;
	case 4:
		snprintf(p, room, "{\"type\":\"reasoning\",\"%s\":[{\"type\":\"text\",\"text\":\"why %u\"}]%s}",
		    rng_below(rng, 2) == 0 ? "content" : "summary", (unsigned)rng_below(rng, 3),
		    rng_below(rng, 16) == 0 ? ",\"status\":\"in_progress\"" : "");
		return;
	case 5: case 6:
		put_item_message(t, p, room, "assistant", rng);
		return;
	default:
		put_item_message(t, p, room, rng_below(rng, 24) == 0 ? "system" :
		    t->developer && rng_below(rng, 12) == 0 ? "developer" : "user", rng);
	}
}

/* A message as gpt-oss has them: reasoning, calls, one of which may have an earlier id, and
 * answers, most of them to the last call. */
static void put_thought(struct talk *t, char *p, size_t room, struct rng *rng)
{
	const char *why = rng_below(rng, 2) == 0 ? ",\"reasoning\":\"why\"" : "";
	unsigned id = t->call;

	if (id > 0 && rng_below(rng, 2) == 0) {
		id = rng_below(rng, 8) == 0 ? (unsigned)rng_below(rng, id + 1) : id;
		snprintf(p, room, "{\"role\":\"tool\",\"tool_call_id\":\"%u\",\"content\":\"%s\"}", id,
		    random_text(t, rng));
		return;
	}
	id = rng_below(rng, 6) == 0 ? (unsigned)rng_below(rng, id + 1) : ++t->call;
	if (rng_below(rng, 4) == 0)
		snprintf(p, room, "{\"role\":\"assistant\",\"content\":\"%s\"%s}", random_text(t, rng), why);
	else
		snprintf(p, room, "{\"role\":\"%s\",\"content\":\"%s\"%s,\"tool_calls\":[{\"id\":\"%u\","
		    "\"function\":{\"name\":\"f%u\",\"arguments\":\"{}\"}}]}",
		    rng_below(rng, 12) == 0 ? "user" : "assistant", random_text(t, rng), why, id,
		    (unsigned)rng_below(rng, 3));
}

static void put_message(struct talk *t, unsigned at, struct rng *rng)
{
	static const char *const roles[] = { "user", "assistant", "user", "assistant", "tool", "system" };
	const char *role = roles[at % 2 == 0 || rng_below(rng, 4) == 0 ? rng_below(rng, 6) : 1];
	char *p = t->message[at];
	size_t room = sizeof(t->message[at]);

	if (api == CHAT_MESSAGES) {
		put_blocks(t, p, room, at % 2 == 0, rng);
		return;
	}
	if (api == CHAT_RESPONSES) {
		put_item(t, at, rng);
		return;
	}
	if (harmony && at > 0 && rng_below(rng, 4) > 0) {
		put_thought(t, p, room, rng);
		return;
	}
	if (at == 0 && rng_below(rng, 2) == 0)
		role = "system";
	if (at <= 1 && rng_below(rng, 3) > 0)
		role = "user";
	if (t->developer && rng_below(rng, 12) == 0)
		role = "developer";
	if (strcmp(role, "assistant") == 0 && rng_below(rng, 3) == 0)
		snprintf(p, room, "{\"role\":\"assistant\",\"content\":%s,\"tool_calls\":[{\"id\":\"call12345\","
		    "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":%u}\"}}]}",
		    rng_below(rng, 2) == 0 ? "null" : "\"\"", (unsigned)rng_below(rng, 3));
	else if (strcmp(role, "assistant") == 0 && rng_below(rng, 3) == 0)
		snprintf(p, room, "{\"role\":\"assistant\",\"reasoning_content\":\"why %u\",\"content\":\"%s\"}",
		    (unsigned)rng_below(rng, 3), random_text(t, rng));
	else if (strcmp(role, "tool") == 0)
		snprintf(p, room, "{\"role\":\"tool\",\"tool_call_id\":\"call12345\",\"content\":\"%s\"}",
		    random_text(t, rng));
	else if (rng_below(rng, 6) == 0)
		snprintf(p, room, "{\"content\":[{\"type\":\"text\",\"text\":\"%s\"}],\"role\":\"%s\"}",
		    random_text(t, rng), role);
	else
		snprintf(p, room, "{\"role\":\"%s\",\"content\":\"%s\"}", role, random_text(t, rng));
}

static void change(struct talk *t, struct rng *rng)
{
	switch (rng_below(rng, 15)) {
	case 14:
		t->tools = true;
		t->tool = (unsigned)rng_below(rng, 6);
		break;
	case 13:
		t->tools_at = (unsigned)rng_below(rng, 7);
		break;
	case 12:
		t->said = (unsigned)rng_below(rng, 3);
		t->effort = harmony && !t->effort;
		break;
	case 0:
		t->n = 1 + (unsigned)rng_below(rng, t->n);
		break;
	case 1:
		put_message(t, (unsigned)rng_below(rng, t->n), rng);
		break;
	case 2:
		t->tools = !t->tools;
		break;
	case 3:
		t->kwargs = !t->kwargs;
		break;
	case 4:
		t->no_start = !t->no_start;
		break;
	case 5:
		break;
	default:
		for (unsigned i = 1 + (unsigned)rng_below(rng, 3); i > 0 && t->n < MESSAGES; i--)
			put_message(t, t->n++, rng);
		if (t->n == MESSAGES)
			t->n = 2;
	}
}

#define F_TOOL(more)	"{\"type\":\"function\",\"function\":{\"name\":\"f\"" more "}}"

/* Write the tools of chat completions to <early>, before the messages, or to <late>, at the end: at
 * most 300 bytes each. */
static void put_tools(const struct talk *t, char *early, char *late)
{
	static const char *const tools[] = {
		"[" F_TOOL(",\"parameters\":{}") "]", "[" F_TOOL(",\"description\":\"d\"") "]",
		"[" F_TOOL(",\"description\":\"e\"") "]", "[" F_TOOL(",\"description\": \"d\"") "]",
		"[" F_TOOL("") "," F_TOOL("") "]", "[" F_TOOL(",\"description\":\"\\ud800\"") "]",
	};
	const char *of = tools[t->tool];

	*early = *late = '\0';
	switch (t->tools_at) {
	case 0: case 1:
		sprintf(late, ",\"tools\":%s", of);
		return;
	case 2:
		sprintf(early, "\"tools\": %s,", of);
		return;
	case 3:		/* the last one is meant */
		sprintf(early, "\"tools\":%s,", of);
		sprintf(late, ",\"tools\":%s", tools[1]);
		return;
	case 4:
		sprintf(late, ",\"metadata\":{\"tools\":%s},\"tools\":%s", of, tools[1]);
		return;
	case 5:		/* as a mark would be */
		sprintf(late, ",\"metadata\":{\"tools\":%s},\"tools\":\"-\"", of);
		return;
	default:
		sprintf(late, ",\"tools\":%s,\"tools\":null", of);
	}
}

static size_t write_body(const struct talk *t, char *p)
{
	bool messages = api == CHAT_MESSAGES, items = api == CHAT_RESPONSES;
	const char *system = messages ? "system" : "instructions";
	char early[512] = "", late[64] = "", tools[512] = "", kwargs[96] = "";
	size_t n;

	if (t->kwargs)
		sprintf(kwargs, ",\"chat_template_kwargs\":{\"enable_thinking\":false,\"said\":%u}",
		    t->said);
	if (t->tools && api == CHAT_COMPLETIONS)
		put_tools(t, early, tools);

	if (api != CHAT_COMPLETIONS && !t->developer)
		sprintf(early, "\"%s\":\"be good\",", system);
	else if (api != CHAT_COMPLETIONS && t->said > 0)
		sprintf(late, ",\"%s\":\"be late %u\"", system, t->said);
	n = (size_t)sprintf(p, "{\"model\":\"m\",%s\"%s\":[", early, items ? "input" : "messages");
	for (unsigned i = 0; i < t->n; i++)
		n += (size_t)sprintf(p + n, "%s%s", i > 0 ? ", " : "", t->message[i]);
	n += (size_t)sprintf(p + n, "]%s%s%s%s%s}", late,
	    !t->effort ? "" : items ? ",\"reasoning\":{\"effort\":\"low\"}" :
		",\"reasoning_effort\":\"low\"",
	    t->tools && messages ? ",\"tools\":[{\"name\":\"f\",\"input_schema\":{}}]" :
	    t->tools && items ?
		",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{}}]" :
	    tools,
	    kwargs,
	    t->no_start && api == CHAT_COMPLETIONS ? ",\"add_generation_prompt\":false" : "");
	return n;
}

/* ---- what bodies left ---- */

struct kept {
	char *raw, *memo, *text;
	size_t at, n_memo, n_text;
};

struct memory {
	struct kept kept[KEPT];
	unsigned next;
	unsigned long tried, resumed;
	unsigned long cut_tried, cut_resumed;	/* of bodies whose end has not arrived */
};

static char *copy(const void *p, size_t n)
{
	char *to = malloc(n + 1);

	assert_non_null(to);
	if (n > 0)
		memcpy(to, p, n);
	return to;
}

static void drop(struct kept *k)
{
	free(k->raw);
	free(k->memo);
	free(k->text);
	*k = (struct kept){ .raw = NULL };
}

/* Keep what <turn> left of <raw>, whose whole text begins with <before> bytes that it has not. */
static void keep(struct memory *m, const struct chat_turn *turn, const char *raw, const char *text,
    size_t before)
{
	struct kept *k = &m->kept[m->next++ % KEPT];

	drop(k);
	k->at = (size_t)turn->left_at;
	k->n_memo = turn->left.n;
	k->n_text = before + turn->text_at;
	k->raw = copy(raw, k->at);
	k->memo = copy(turn->left.p, k->n_memo);
	k->text = copy(text, k->n_text);
}

/* ---- the same text ---- */

static enum chat_result render(const struct chat *c, struct chat_scratch *s, struct span raw,
    bool cut, struct chat_turn *turn, struct chat_text *out)
{
	const struct chat_body b = {
		.api = api, .raw = raw, .cut = cut, .now = now, .turn = turn
	};

	return chat_render(c, s, &b, out);
}

static void same_text(const char *name, struct span raw, const struct kept *k, const char *whole,
    size_t n, const struct chat_text *got, size_t lead)
{
	if (k->n_text + got->n - lead == n && memcmp(k->text, whole, k->n_text) == 0 &&
	    memcmp(got->p + lead, whole + k->n_text, n - k->n_text) == 0)
		return;
	fail_msg("%s\nbody  " SPAN_FMT "\nbytes %zu are known\nwhole %.*s\nknown %.*s\nnew   %.*s", name,
	    SPAN_ARG(raw), k->at, (int)n, whole, (int)k->n_text, k->text, (int)(got->n - lead),
	    got->p + lead);
}

static void one_body(const char *name, const struct chat *c, struct chat_scratch *s,
    struct memory *m, struct span raw, bool cut)
{
	struct chat_turn turn = { .key = &key };
	enum chat_result result;
	struct chat_text text;
	size_t n = 0;
	char *whole = NULL;

	result = render(c, s, raw, cut, NULL, &text);
	if (result == CHAT_DONE) {
		n = text.n;
		whole = copy(text.p, n);
	}
	for (unsigned i = 0; i < KEPT; i++) {
		const struct kept *k = &m->kept[i];

		if (k->raw == NULL || k->at > raw.n || memcmp(k->raw, raw.p, k->at) != 0)
			continue;
		turn = (struct chat_turn){ .key = &key, .memo = span_of(k->memo, k->n_memo), .at = k->at,
			.lead = SPAN("lead") };
		assert_int_equal(render(c, s, raw, cut, &turn, &text), result);
		m->tried++;
		if (result != CHAT_DONE)
			continue;
		m->resumed += turn.resumed;
		m->cut_tried += cut;
		m->cut_resumed += cut && turn.resumed;
		if (turn.resumed)
			same_text(name, raw, k, whole, n, &text, 4);
		else
			assert_true(text.n == n && memcmp(text.p, whole, n) == 0);
		if (turn.good && turn.resumed) {
			keep(m, &turn, raw.p, whole, k->n_text - 4);
			break;
		}
	}
	turn = (struct chat_turn){ .key = &key };
	assert_int_equal(render(c, s, raw, cut, &turn, &text), result);
	if (result == CHAT_DONE && turn.good)
		keep(m, &turn, raw.p, whole, 0);
	free(whole);
}

/* The text of a body that is cut is what the whole one starts with. */
static void same_beginning(
    const char *name, const struct chat *c, struct chat_scratch *s, struct span raw, size_t cut)
{
	struct chat_text text;
	size_t n;
	char *whole;

	if (render(c, s, raw, false, NULL, &text) != CHAT_DONE)
		return;
	whole = copy(text.p, n = text.n);
	if (render(c, s, span_of(raw.p, cut), true, NULL, &text) == CHAT_DONE && !text.tools_unseen &&
	    !text.system_unseen && !text.developer_unseen &&
	    (text.n > n || memcmp(whole, text.p, text.n) != 0))
		fail_msg("%s\nbody  " SPAN_FMT "\ncut   %zu\nwhole %.*s\nbegin %.*s", name, SPAN_ARG(raw),
		    cut, (int)n, whole, (int)text.n, text.p);
	free(whole);
}

static unsigned long conversations(const char *name, const struct chat *c, uint64_t seed,
    unsigned bodies, unsigned long *tried)
{
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key);
	struct memory m = { .next = 0 };
	struct talk t = { .n = 1, .developer = seed % 2 };
	char *body = malloc(BODY);
	struct rng rng;

	assert_non_null(s);
	rng_init(&rng, seed);
	put_message(&t, 0, &rng);
	for (unsigned i = 0; i < bodies; i++) {
		size_t n, whole;
		bool cut;

		change(&t, &rng);
		n = write_body(&t, body);
		if (rng_below(&rng, 8) == 0)		/* one byte is another */
			body[rng_below(&rng, (uint32_t)n)] ^= (char)(1 << rng_below(&rng, 5));
		cut = rng_below(&rng, 4) == 0;
		whole = n;
		if (cut)
			n -= rng_below(&rng, rng_below(&rng, 2) == 0 ? (uint32_t)n : 200) % n;
		one_body(name, c, s, &m, span_of(body, n), cut);
		if (cut && looks_back)
			same_beginning(name, c, s, span_of(body, whole), n);
	}
	for (unsigned i = 0; i < KEPT; i++)
		drop(&m.kept[i]);
	free(body);
	chat_scratch_free(s);
	*tried += m.tried;
	cut_tried += m.cut_tried;
	cut_resumed += m.cut_resumed;
	return m.resumed;
}

static struct chat *load(struct span template, const char *name)
{
	struct chat_source src = { .template = template, .template_name = name,
		.config = SPAN("{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}"), .config_name = "" };
	struct err e;

	return chat_load(&src, &key, &e);
}

/* ---- templates ---- */

#define SAYS	"<{{ m.role }}>{{ m.content }}" \
		"{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}"
#define OF_TOOLS	"{% if tools %}{% for t in tools %}{{ '<' + t | tojson }}{% endfor %}{% endif %}"
#define EACH(...)	"{{ bos_token }}{% for m in messages %}" __VA_ARGS__ "{% endfor %}" \
			"{% if add_generation_prompt %}A{% endif %}"

static const struct {
	const char *template;
	bool resumes;		/* if the options stay and the conversation grows */
} made[] = {
	{ EACH(SAYS), true },
	{ EACH(SAYS "{% if not loop.last %},{% endif %}"), true },
	{ EACH(SAYS "{{ loop.index }}{{ loop.first }}"), true },
	{ EACH(SAYS "{% if loop.nextitem is defined %}{{ loop.nextitem.role }}{% endif %}"), false },
	{ EACH(SAYS "{% if loop.previtem is defined %}{{ loop.previtem.role }}{% endif %}"), false },
	{ EACH(SAYS "{{ loop.length }}"), false },
	{ EACH(SAYS "{{ loop.revindex }}"), false },
	{ EACH(SAYS "{{ messages | length }}"), false },
	{ EACH("{{ messages[-1].role }}" SAYS), false },
	{ EACH(SAYS "{{ (messages[loop.index0 + 1] | default({'role': 'none'})).role }}"), false },
	{ EACH("{% if loop.index0 > 0 %}{{ messages[loop.index0 - 1].role }}{% endif %}" SAYS), false },
	{ EACH("{{ messages[0].role }}" SAYS), true },
	{ EACH("{% if m.role == 'system' %}{% continue %}{% endif %}" SAYS), true },
	{ EACH("{% if m.role == 'tool' %}{% break %}{% endif %}" SAYS), false },
	{ EACH(SAYS "{% if messages %}!{% endif %}"), false },
	{ EACH(SAYS "{% for o in messages %}{{ o.role[0] }}{% endfor %}"), false },
	{ EACH(SAYS "{{ messages | map(attribute='role') | join }}"), false },
	{ EACH(SAYS "{{ messages == messages }}{{ m in messages }}"), false },
	{ EACH(SAYS "{{ messages[1:] | tojson }}"), false },
	{ EACH(SAYS "{{ strftime_now('%Y') }}"), false },
	{ "{% set ns = namespace(n=0, last='', seen=false, f=0.5) %}"
	  EACH("{{ ns.n }}{{ ns.last }}{{ ns.seen }}{{ ns.f }}" SAYS "{% set ns.n = ns.n + 1 %}"
	       "{% set ns.last = m.role %}{% set ns.f = ns.f * 2 %}{% set ns.new = 'const' %}"
	       "{% if m.role == 'tool' %}{% set ns.seen = true %}{% endif %}")
	  "{{ ns.n }}{{ ns.new }}", true },
	{ "{% set ns = namespace(text='') %}"
	  EACH(SAYS "{% set ns.text = m.content %}") "{{ ns.text }}", false },
	{ "{% set ns = namespace(all=[]) %}"
	  EACH(SAYS "{% set ns.all = ns.all + [m] %}") "{{ ns.all | length }}", false },
	{ "{% set ns = namespace(m=messages) %}" EACH(SAYS "{{ ns.m[0].role }}"), false },
	{ "{% set ns = namespace(m=messages) %}" EACH(SAYS "{{ ns | string | length }}"), false },
	{ "{% set x = [messages] %}" EACH(SAYS "{{ x | tojson }}"), false },
	{ "{% set x = {'m': messages} %}" EACH(SAYS "{{ x | tojson }}"), false },
	{ "{% set ns = namespace(m=messages) %}"
	  EACH(SAYS "{{ [ns] | map(attribute='m') | map('length') | list }}"), false },
	{ "{% set ns = namespace(q=messages | length) %}" EACH(SAYS "{{ ns | string }}"), false },
	{ "{% set ns = namespace(m=messages) %}" EACH(SAYS "{{ ns.m | length }}"), false },
	{ "{% set a = namespace(x=1) %}{% set b = a %}"
	  EACH(SAYS "{% set b.x = b.x + 1 %}{{ a.x }}"), true },
	{ "{% macro say(m) %}[{{ m.role }}{{ m.content }}]{% endmacro %}" EACH("{{ say(m) }}"), true },
	{ "{% macro all() %}{{ messages | length }}{% endmacro %}" EACH(SAYS "{{ all() }}"), false },
	{ "{% macro say(m) %}[{{ m.content }}{{ x }}]{% endmacro %}{% set x = messages | length %}"
	  EACH("{{ say(m) }}"), false },
	{ "{% if messages[0].role == 'system' %}S{{ messages[0].content }}{% set rest = messages[1:] %}"
	  "{% else %}{% set rest = messages %}{% endif %}{% for m in rest %}" SAYS "{% endfor %}", true },
	{ "{% for m in messages %}{% if m.role == 'system' %}S{% endif %}{% endfor %}" EACH(SAYS), false },
	{ "{% for m in messages %}" SAYS "{% else %}none{% endfor %}", true },
	{ "{% for m in messages %}{% continue %}{% else %}none{% endfor %}", true },
	{ "{% for m in messages if m.role != 'system' %}" SAYS "{% endfor %}", false },
	{ "{% for m in messages[:-1] %}" SAYS "{% endfor %}!", false },
	{ "{% for m in messages[::-1] %}" SAYS "{% endfor %}", false },
	{ "{% for m in messages | reverse %}" SAYS "{% endfor %}", false },
	{ "{% set x = messages | selectattr('role', 'equalto', 'user') | list %}"
	  EACH(SAYS "{{ x | length }}"), false },
	{ "{% set ns = namespace(q=messages | length - 1, on=true) %}{% for m in messages[::-1] %}"
	  "{% set i = messages | length - 1 - loop.index0 %}{% if ns.on and m.role == 'user' %}"
	  "{% set ns.on = false %}{% set ns.q = i %}{% endif %}{% endfor %}"
	  EACH(SAYS "{% if loop.index0 > ns.q %}late{% endif %}"), false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{% if ns.q < 5 %}a{% elif 9 <= ns.q %}b{% elif ns.q == 7 %}c{% endif %}"), false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{% if 3 < ns.q < 6 %}a{% endif %}{% if ns.q > 4.5 %}f{% endif %}"
	       "{% if ns.q >= ns.q %}s{% endif %}{% if ns['q'] > 6 %}g{% endif %}"), false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{% if ns.q > 5 %}{% set ns.q = 3 %}{% endif %}{{ ns.q > 4 }}") "{{ ns.q }}", false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{% if loop.index0 == 1 %}{% set ns.q = 4 %}{% endif %}") "{{ ns.q }}", false },
	{ "{% set ns = namespace(q=messages | length, n=0) %}{% set o = ns %}"
	  EACH(SAYS "{% set ns.n = ns.n + 1 %}{% if o.q > 4 %}x{% endif %}{% if ns.n > 3 %}y{% endif %}"),
	  true },
	{ "{% set ns = namespace(q=messages | length, on=true) %}{% macro late(i) %}{{ i > ns.q }}"
	  "{% endmacro %}" EACH(SAYS "{{ late(loop.index0 + 3) }}"), false },
	/* the other side of a comparison sets the number */
	{ "{% set ns = namespace(q=messages | length) %}{% macro three() %}{% set ns.q = 3 %}3"
	  "{% endmacro %}" EACH(SAYS "{{ three() | int >= ns.q }}{{ ns.q }}"), false },
	{ "{% set ns = namespace(q=messages | length) %}{% macro three() %}{% set ns.q = 3 %}3"
	  "{% endmacro %}" EACH(SAYS "{{ ns.q < three() | int }}{{ ns.q }}"), false },
	/* a list that a filter takes from a namespace */
	{ "{% set ns = namespace(m=none) %}{% set ns.m = messages %}" EACH(SAYS)
	  "{{ [ns] | map(attribute='m') | map('last') | select('mapping') | list | length }}", false },
	{ "{% with y = messages %}{% for m in y %}" SAYS "{% endfor %}{% endwith %}", false },
	{ "{% filter upper %}{% for m in messages %}" SAYS "{% endfor %}{% endfilter %}", false },
	{ EACH(SAYS) "{{ messages[-1].role }}", false },
	{ EACH(SAYS) "{{ messages | length }}", true },
	{ EACH(SAYS) "{% for m in messages %}{{ m.role }}{% endfor %}", false },
	{ "{% if tools %}{{ tools | tojson }}{% endif %}" EACH(SAYS "{% if tools %}T{% endif %}"), true },
	/* loops over tools, which need not be read if they are the same */
	{ OF_TOOLS EACH(SAYS), true },
	{ "{% if tools is not none and tools is defined %}" OF_TOOLS "T{% endif %}" EACH(SAYS)
	  "{% if tools %}T{% endif %}", true },
	{ OF_TOOLS "{{ (tools or []) | length }}" EACH(SAYS) "{{ tools | tojson }}", true },
	{ OF_TOOLS EACH(SAYS) OF_TOOLS, true },
	{ OF_TOOLS EACH(SAYS OF_TOOLS), true },
	{ OF_TOOLS "{{ messages[-1].role }}" EACH(SAYS), false },
	{ "{% macro e() %}{{ said }}{% endmacro %}" OF_TOOLS EACH(SAYS "{{ e() }}"), true },
	{ OF_TOOLS OF_TOOLS OF_TOOLS OF_TOOLS OF_TOOLS EACH(SAYS), true },
	{ "{% set x = tools or [] %}{% for t in x %}{{ t | tojson }}{% endfor %}" EACH(SAYS), true },
	{ OF_TOOLS "{% set x = tools %}{% set y = tools or [] %}" EACH(SAYS "{{ x == y }}"), true },
	{ OF_TOOLS "{% set ns = namespace(t=tools) %}" EACH(SAYS "{{ ns.t | string | length }}"), true },
	{ OF_TOOLS "{% set ns = namespace(t=1) %}{% set ns.t = tools %}" EACH(SAYS "{{ ns.t }}"), true },
	{ "{% macro p(tools) %}" OF_TOOLS "{% endmacro %}{{ p(tools) }}" OF_TOOLS EACH(SAYS), true },
	{ "{% if messages[-1].role == 'user' %}" OF_TOOLS "{% else %}{% if tools %}{% for t in tools %}"
	  "{{ t | tojson }}{% endfor %}{% endif %}{% endif %}" EACH(SAYS), true },
	{ "{% if tools %}{% if messages[-1].role == 'user' %}{% for t in tools %}{{ t | tojson }}"
	  "{% endfor %}{% else %}{% for t in tools %}{{ t | tojson(indent=2) }}{% endfor %}{% endif %}"
	  "{% endif %}" EACH(SAYS), true },
	{ "{% if tools %}{% for k in range(messages | length) %}{% if k < 6 %}{% for t in tools %}"
	  "{{ t | tojson }}{% endfor %}{% endif %}{% endfor %}{% endif %}" EACH(SAYS), false },
	{ "{% if tools %}{% for k in [1] %}{% set r = messages[-1].role %}{% for t in tools %}"
	  "{{ r }}{% endfor %}{% endfor %}{% endif %}" EACH(SAYS), false },
	{ "{% if tools %}{% for k in [1] %}{% set r = messages[-1].role %}{% for t in tools %}"
	  "{{ t | tojson ~ r }}{% endfor %}{% endfor %}{% endif %}" EACH(SAYS), false },
	{ EACH(SAYS "{% if enable_thinking is defined %}E{% endif %}"), true },
	{ EACH("{% set x = loop.last %}" SAYS "{{ x }}"), true },
	{ EACH("{% set l = loop %}{% if true %}" SAYS "{{ l.length }}{% endif %}"), false },
	{ EACH("{% if m is mapping and m.content is string %}" SAYS "{% endif %}"), true },
	{ "{% macro f(x=messages) %}{{ x | length }}{% endmacro %}" EACH(SAYS "{{ f() }}"), false },
	{ "{% macro f(x=messages[-1]) %}{{ x.role }}{% endmacro %}" EACH(SAYS "{{ f() }}"), false },
	{ "{% macro f(n, x=ns.q) %}{{ n > x }}{% endmacro %}{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{{ f(loop.index) }}"), false },
	{ "{% macro f(m) %}{{ caller(m.role) }}{% endmacro %}"
	  EACH("{% call(r) f(m) %}{{ r }}{{ m.content }}{% endcall %}"), true },
	{ EACH(SAYS "{{ messages[::2] | length }}{{ m in messages[::-1] }}"), false },
	{ EACH(SAYS) "{{ messages[0] in messages[:0:-1] }}{{ messages[::-1] == messages }}", false },
	{ EACH(SAYS "{{ messages.0.role }}{{ messages[0]['role'] }}"), false },
	{ EACH(SAYS "{{ m is sameas messages[0] }}"), false },
	{ EACH(SAYS "{{ m == messages[0] }}"), true },
	{ EACH(SAYS "{{ (messages | last).role }}{{ (messages | first).role }}"), false },
	{ EACH(SAYS) "{{ messages[-2:] | map(attribute='role') | join }}", false },
	{ EACH(SAYS "{{ messages is sequence }}{{ not messages }}{{ messages is defined }}"), false },
	{ EACH(SAYS "{{ [messages][0][0].role }}"
	       "{{ (messages if tools else messages[0:])[0].role }}"), false },
	{ EACH(SAYS "{{ dict(a=messages).a | length }}{{ namespace(a=messages).a | length }}"), false },
	{ "{% set x = messages if tools else messages[0:] %}" EACH(SAYS "{{ x[0].role }}"), true },
	{ "{% set x = messages[1:] if messages[0].role == 'system' else messages %}"
	  "{% for m in x %}" SAYS "{% endfor %}", true },
	{ EACH(SAYS) "{{ messages if tools else 1 }}{{ 1 if tools else messages[1:] }}", false },
	{ EACH("{% for c in m.content %}{{ loop.last }}{{ loop.length }}{{ loop.nextitem }}{% endfor %}"),
	  true },
	{ EACH("{% for k, v in m.items() %}{{ k }}{{ v | string }}{% endfor %}"), true },
	{ EACH("{% for a in messages %}{% if loop.last %}{{ a.role }}{% endif %}"
	       "{% endfor %}" SAYS), false },
	{ "{% for i in range(messages | length) %}{{ messages[i].role }}{% endfor %}", false },
	{ "{% for role, content in messages %}{{ role }}{% endfor %}", false },
	{ EACH(SAYS "{% if loop.previtem and loop.previtem.role == m.role %}same{% endif %}"), false },
	{ EACH("{% if not loop.first and loop.previtem.role == 'tool' %}t{% endif %}" SAYS
	       "{% if loop.last or loop.nextitem.role != 'tool' %}e{% endif %}"), false },
	{ "{% set ns = namespace(l=0) %}" EACH(SAYS "{{ ns.l.index }}{% set ns.l = loop %}"), false },
	{ "{% set ns = namespace(i=0) %}" EACH(SAYS "{{ ns.i.n }}{% set ns.i = namespace(n=m.role) %}"),
	  false },
	{ "{% set ns = namespace(i=namespace(n=0, q=messages | length)) %}"
	  EACH("{% set i = ns.i %}" SAYS "{% set i.n = i.n + 1 %}{{ ns.i.n }}{{ i.q > 4 }}")
	  "{{ ns.i.q }}", true },
	/* a text of a message in a namespace may only be asked for being none */
	{ "{% set ns = namespace(t=none) %}" EACH(SAYS "{% if ns.t is none %}N{% endif %}"
	       "{% if ns.t is not none %}T{% endif %}{{ ns.t is defined }}"
	       "{% if m.role == 'assistant' %}{% set ns.t = m.content %}{% endif %}"), true },
	{ "{% set ns = namespace(t=none) %}" EACH(SAYS "{% set ns.t = m.content %}")
	  "{{ [ns] | map(attribute='t') | first }}", false },
	{ "{% set ns = namespace(t=none) %}" EACH(SAYS "{% set ns.t = m.content %}") "{{ ns['t'] }}",
	  false },
	{ "{% set ns = namespace(t=none) %}" EACH(SAYS "{% set ns.t = m.content %}") "{{ ns.t == 'a' }}",
	  false },
	{ "{% set ns = namespace(t=none) %}" EACH(SAYS "{% set ns.t = m.content %}") "{{ ns }}", false },
	{ "{% set ns = namespace(t=none) %}" EACH(SAYS "{% set ns.t = m.content %}{% set x = ns %}")
	  "{% set y = ns.t %}{{ y is none }}{{ y }}{{ ns.t | default('x') }}{{ ns.t is string }}", false },
	{ "{% set ns = namespace(t=none) %}" EACH(SAYS "{% set ns.t = m.content %}")
	  "{{ ns.t.upper() if ns.t is not none else 'n' }}{{ [ns.t, 1] | length }}", false },
	/* roles of messages that are not read */
	{ "{% set ns = namespace(q=-1) %}{% for m in messages %}{% if m.role == 'user' %}"
	  "{% set ns.q = loop.index0 %}{% endif %}{% endfor %}"
	  EACH(SAYS "{% if loop.index0 > ns.q %}late{% endif %}"), true },
	{ "{% set ns = namespace(q=0) %}{% for i in range(messages | length) %}"
	  "{% if messages[i]['role'] == 'user' %}{% set ns.q = i %}{% endif %}{% endfor %}"
	  EACH(SAYS "{% if loop.index0 > ns.q %}late{% endif %}"), true },
	{ "{% set x = messages | map(attribute='role') | list %}" EACH(SAYS "{{ x[0] }}"), false },
	{ "{% for m in messages %}{% if m.role == 'tool' %}{{ m.content }}{% endif %}{% endfor %}"
	  EACH(SAYS), false },
	{ EACH("{% if not loop.first and messages[loop.index0 - 1].role == 'tool' %}t{% endif %}" SAYS),
	  true },
	{ EACH("{% for k in range(loop.index0) %}{% set p = messages[k] %}"
	       "{{ p.role[0] }}{% endfor %}" SAYS), true },
	{ EACH("{% for k in range(loop.index0) %}{% set p = messages[k] %}"
	       "{{ p is mapping }}{{ p }}{% endfor %}" SAYS), false },
	{ "{% set ns = namespace(n=1) %}" EACH(SAYS "{% set ns.n = ns.n * 65536 %}{{ ns.n }}"), false },
	{ "{% set ns = namespace(d={'a': 1}) %}" EACH(SAYS "{% set ns.d = dict(ns.d, b=m.role) %}"
	       "{{ ns.d }}"), false },
	{ "{% set x = ['a'] %}" EACH(SAYS "{% set y = x.append(m.role) %}{{ x }}"), false },
	{ EACH("{% set y = m.pop('content') %}" SAYS), false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{{ [ns] | map(attribute='q') | first }}"), false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{{ ns.q in [3, 5] }}{{ 4 <= ns.q }}{{ ns.q != 6 }}{{ ns.q is odd }}"), false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{% if (4 if loop.first else ns.q) < ns.q %}x{% endif %}"), false },
	{ "{% set ns = namespace(a=messages | length, b=4) %}"
	  EACH(SAYS "{{ ns.a > ns.b }}{{ ns.b < loop.index }}{% set ns.b = ns.b + 1 %}")
	  "{{ ns.b }}", false },
	{ EACH("{% generation %}" SAYS "{% endgeneration %}"), true },
	/* a filter takes from a namespace what need not be read for itself */
	{ "{% set ns = namespace(t=1) %}" OF_TOOLS EACH(SAYS) "{% set ns.t = tools %}"
	  "{{ [ns] | selectattr('t', 'sequence') | list | length }}", true },
	{ "{% set ns = namespace(t=1) %}" OF_TOOLS EACH(SAYS) "{% set ns.t = tools %}"
	  "{{ [ns] | selectattr('t', 'eq', tools) | list | length }}", true },
	{ "{% set ns = namespace(t=1) %}" OF_TOOLS "{% set ns.t = tools %}" EACH(SAYS)
	  "{{ [ns] | selectattr('t', 'iterable') | list | length }}", true },
	{ "{% set ns = namespace(t=1) %}" EACH(SAYS) "{% if messages[1] is defined %}"
	  "{% set ns.t = messages[1] %}{% endif %}"
	  "{{ [ns] | selectattr('t', 'mapping') | list | length }}", true },
};

static void made_templates(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
		struct chat *c = load(span_str(made[i].template), "made");
		unsigned long tried = 0, resumed = 0;

		assert_non_null(c);
		looks_back = i == 0;
		for (uint64_t seed = 0; seed < rounds(6, 2); seed++)
			resumed += conversations(made[i].template, c, 100 * i + seed, ROUNDS, &tried);
		if (getenv("VERBOSE") != NULL)
			printf("%lu of %lu %s\n", resumed, tried, made[i].template);
		if (made[i].resumes && (tried <= 50 || resumed * 12 < tried))
			fail_msg("%s: %lu of %lu went on", made[i].template, resumed, tried);
		chat_unref(c);
	}
	assert_true(cut_resumed > 100);
	cut_tried = cut_resumed = 0;
}

static void real_templates(void **state)
{
	unsigned long tried = 0, resumed = 0, n = 0, some = 0;
	DIR *d = opendir(TEMPLATES);
	struct dirent *e;

	(void)state;
	if (d == NULL) {
		printf("skipped: real templates: no data\n");
		return;
	}
	while ((e = readdir(d)) != NULL) {
		static char text[1 << 18];
		unsigned long of = 0, went;
		char path[600];
		struct chat *c;
		FILE *f;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), TEMPLATES "/%s", e->d_name);
		f = fopen(path, "r");
		assert_non_null(f);
		c = load(span_of(text, fread(text, 1, sizeof(text), f)), e->d_name);
		fclose(f);
		if (c == NULL)
			continue;
		went = 0;
		for (unsigned k = 0; k < rounds(2, 1); k++)
			went += conversations(e->d_name, c, n + 1000 * k, rounds(60, 40), &of);
		if (getenv("VERBOSE") != NULL)
			printf("%lu of %lu %s\n", went, of, e->d_name);
		tried += of;
		resumed += went;
		some += went > 0;
		n++;
		chat_unref(c);
	}
	closedir(d);
	printf("%lu of %lu templates, %lu of %lu turns went on; %lu of %lu cut\n", some, n, resumed,
	    tried, cut_resumed, cut_tried);
	assert_true(resumed > 0);
}

static void other_api(void **state, enum chat_api other)
{
	unsigned long of_real;

	api = other;
	cut_tried = cut_resumed = 0;
	real_templates(state);
	of_real = cut_resumed;
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
		struct chat *c = load(span_str(made[i].template), "made");
		unsigned long tried = 0, resumed = 0;

		looks_back = i == 0;
		for (uint64_t seed = 0; seed < rounds(6, 2); seed++)
			resumed += conversations(made[i].template, c, 100 * i + seed, ROUNDS, &tried);
		if (getenv("VERBOSE") != NULL)
			printf("%lu of %lu %s\n", resumed, tried, made[i].template);
		if (i < 3 && (tried <= 50 || resumed * 12 < tried))
			fail_msg("%s: %lu of %lu went on", made[i].template, resumed, tried);
		chat_unref(c);
	}
	assert_true(cut_resumed - of_real > 100);
	api = CHAT_COMPLETIONS;
	cut_tried = cut_resumed = 0;
}

static void api_of_messages(void **state)
{
	other_api(state, CHAT_MESSAGES);
}

static void api_of_responses(void **state)
{
	other_api(state, CHAT_RESPONSES);
}

static struct chat *load_harmony(void)
{
	return chat_load(&(struct chat_source){ .format = CHAT_HARMONY }, &key, NULL);
}

/* gpt-oss, whose text is written by code. */
static void by_harmony(void **state)
{
	struct chat *c = load_harmony();

	(void)state;
	harmony = true;
	for (unsigned i = 0; i < 3; i++) {
		unsigned long tried = 0, resumed = 0;

		api = (enum chat_api)i;
		for (uint64_t seed = 0; seed < 16; seed++)
			resumed += conversations("harmony", c, 5000 + seed, ROUNDS, &tried);
		printf("api %u: %lu of %lu turns by harmony went on\n", i, resumed, tried);
		assert_true(resumed > 100 && (api == CHAT_MESSAGES || resumed * 12 > tried));
	}
	api = CHAT_COMPLETIONS;
	harmony = false;
	chat_unref(c);
}

/* A body that grew: the first one, what its messages and the rest of it got. */
struct growth {
	const char *old, *new, *rest;
	bool on;
};

static void grown(const char *start, const struct growth *cases, size_t n)
{
	struct chat *c = load_harmony();
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key);
	char body[2048];

	for (size_t i = 0; i < n; i++) {
		struct memory m = { .next = 0 };

		one_body("old", c, s, &m,
		    span_of(body, (size_t)sprintf(body, "%s%s]}", start, cases[i].old)), false);
		assert_int_equal(m.next, 1);
		one_body("new", c, s, &m, span_of(body, (size_t)sprintf(body, "%s%s%s]%s}", start,
		    cases[i].old, cases[i].new, cases[i].rest)), false);
		if (m.tried != 1 || m.resumed != cases[i].on)
			fail_msg("case %zu: %lu of %lu went on", i, m.resumed, m.tried);
		for (unsigned k = 0; k < KEPT; k++)
			drop(&m.kept[k]);
	}
	chat_scratch_free(s);
	chat_unref(c);
}

/* What a later message changes in harmony's text of earlier ones, and what changes its front. */
static void far_in_harmony(void **state)
{
#define OLD	"{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\"," \
		"\"content\":\"a\"}"
#define CALL(id, name)	",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"" id "\",\"function\":" \
			"{\"name\":\"" name "\",\"arguments\":\"{}\"}}]}"
#define ANSWER(id)	",{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"r\"}"
#define THINKS		",{\"role\":\"assistant\",\"reasoning\":\"hm\",\"tool_calls\":[{\"id\":\"9\"," \
			"\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]}"
#define FINAL		",{\"role\":\"assistant\",\"content\":\"done\"}"
#define USER		",{\"role\":\"user\",\"content\":\"b\"}"
	static const struct growth cases[] = {
		{ CALL("1", "f") ANSWER("1"), CALL("2", "f") ANSWER("2"), "", true },
		{ CALL("1", "f") ANSWER("1"), CALL("1", "g"), "", false },
		{ CALL("1", "f") ANSWER("1"), USER, "", true },
		{ CALL("1", "f"), CALL("1", "g") ANSWER("1"), "", true },
		{ CALL("1", "f"), ANSWER("1"), "", false },
		{ ANSWER("1"), CALL("1", "f"), "", false },
		{ ANSWER(""), CALL("", "f"), "", false },
		{ ANSWER("1"), ",{\"role\":\"user\",\"content\":\"b\",\"tool_calls\":[{\"id\":\"1\"}]}", "",
		    false },
		{ THINKS ANSWER("9"), CALL("2", "f"), "", true },
		{ THINKS ANSWER("9"), USER, "", true },
		{ THINKS ANSWER("9"), USER FINAL, "", false },
		{ THINKS ANSWER("9") FINAL, USER FINAL, "", true },
		{ FINAL, THINKS ",{\"role\":\"user\",\"content\":\"c\"}" FINAL USER, "", true },
		{ FINAL, ",{\"role\":\"developer\",\"content\":\"d\"}", "", true },
		{ FINAL, USER, ",\"reasoning_effort\":\"high\"", false },
		{ FINAL, USER, ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", false },
		{ FINAL, USER, ",\"continue_final_message\":true,\"add_generation_prompt\":false", false },
		{ FINAL, USER, ",\"messages\":[{\"role\":\"user\",\"content\":\"z\"}]", false },
		{ FINAL, ",{\"role\":\"other\"}", "", false },
		{ FINAL, "", "", true },
	};

	(void)state;
	grown(OLD, cases, sizeof(cases) / sizeof(cases[0]));
}

/* The same for items of responses. */
static void far_in_items(void **state)
{
#define ITEMS	"{\"input\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\"," \
		"\"content\":\"a\"}"
#define I_CALL(id, name)	",{\"type\":\"function_call\",\"call_id\":\"" id "\",\"name\":\"" name \
				"\",\"arguments\":\"{}\"}"
#define I_ANSWER(id)	",{\"type\":\"function_call_output\",\"call_id\":\"" id "\",\"output\":\"r\"}"
#define I_THINKS	",{\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"type\":" \
			"\"reasoning_text\",\"text\":\"hm\"}]}"
#define I_SUMS_UP	",{\"type\":\"reasoning\",\"summary\":[{\"text\":\"hm\"}],\"content\":null}"
#define I_TOOL		"{\"type\":\"function\",\"name\":\"f\",\"parameters\":{}}"
	static const struct growth cases[] = {
		{ I_CALL("1", "f") I_ANSWER("1"), I_CALL("2", "f") I_ANSWER("2"), "", true },
		{ I_CALL("1", "f") I_ANSWER("1"), I_CALL("1", "g") I_ANSWER("1"), "", true },
		{ I_CALL("1", "f"), I_CALL("1", "g") I_ANSWER("1"), "", true },
		{ I_CALL("1", "f"), I_ANSWER("1"), "", false },
		{ I_CALL("1", "f"), I_ANSWER("2"), "", false },
		{ I_THINKS I_CALL("1", "f") I_ANSWER("1"), I_THINKS I_CALL("2", "f") I_ANSWER("2"), "", true },
		{ I_THINKS I_CALL("1", "f") I_ANSWER("1"), USER, "", true },
		{ I_THINKS I_CALL("1", "f") I_ANSWER("1"), FINAL, "", false },
		{ I_THINKS I_CALL("1", "f") I_ANSWER("1") FINAL, USER I_THINKS, "", true },
		{ I_SUMS_UP I_CALL("1", "f") I_ANSWER("1"), FINAL USER, "", true },
		{ FINAL, USER, ",\"reasoning\":{\"effort\":\"medium\"}", true },
		{ FINAL, USER, ",\"reasoning\":{\"effort\":\"high\"}", false },
		{ FINAL, USER, ",\"tools\":[]", true },
		{ FINAL, USER, ",\"tools\":[" I_TOOL "]", false },
		{ FINAL, USER, ",\"instructions\":\"s\"", false },
		{ FINAL, USER, ",\"instructions\":\"\"", false },
		{ FINAL, USER, ",\"instructions\":null", true },
		{ FINAL, USER, ",\"previous_response_id\":\"r\"", false },
		{ FINAL, ",{\"role\":\"developer\",\"content\":\"d\"}", "", true },
		{ FINAL, ",{\"type\":\"custom_tool_call\"}", "", false },
		{ FINAL, "", "", true },
	};

	(void)state;
	api = CHAT_RESPONSES;
	grown(ITEMS, cases, sizeof(cases) / sizeof(cases[0]));
	api = CHAT_COMPLETIONS;
}

/* Each turn goes on from what the one before left, which did so itself. */
static void chain(const char *template)
{
	struct chat *c = template != NULL ? load(span_str(template), "made") : load_harmony();
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key);
	struct kept k = { .raw = NULL };
	struct talk t = { .n = 0 };
	char *body = malloc(BODY);

	while (t.n < MESSAGES) {
		struct chat_turn turn = { .key = &key, .memo = span_of(k.memo, k.n_memo), .at = k.at };
		struct chat_text text;

		snprintf(t.message[t.n], sizeof(t.message[0]), "{\"role\":\"%s\",\"content\":\"text %u\"}",
		    t.n % 2 == 0 ? "user" : "assistant", t.n);
		t.n++;
		assert_int_equal(render(c, s, span_of(body, write_body(&t, body)), false, &turn, &text),
		    CHAT_DONE);
		if (t.n > 3 && !(turn.resumed && turn.good))
			fail_msg("%s: %u messages: did not go on", template != NULL ? template : "harmony", t.n);
		if (!turn.good)
			continue;
		drop(&k);
		k = (struct kept){ .at = (size_t)turn.left_at, .n_memo = turn.left.n };
		k.memo = copy(turn.left.p, k.n_memo);
	}
	drop(&k);
	free(body);
	chat_scratch_free(s);
	chat_unref(c);
}

static void each_turn(void **state)
{
	(void)state;
	chain(NULL);
	api = CHAT_RESPONSES;
	chain(NULL);
	api = CHAT_COMPLETIONS;
	chain(EACH(SAYS));
	chain("{% set ns = namespace(was='none') %}"
	      EACH("{{ ns.was }}" SAYS "{% set ns.was = m.role %}"));
	chain("{% set ns = namespace(at='a') %}" EACH("{{ ns.at }}" SAYS "{% set ns.at = 'b<c>' %}"));
	chain("{% set ns = namespace() %}" EACH("{{ ns.at }}" SAYS "{% set ns.at = 'b' %}") "{{ ns.at }}");
	chain("{% set ns = namespace(at='a') %}" EACH("{{ ns.at }}" SAYS
	    "{% if loop.index0 == 1 %}{% set ns.at = 'b' %}{% endif %}"));
	/* one old item that is read often is read once */
	chain(EACH(SAYS) "{% if messages | length > 2 %}{% set m = messages[2] %}"
			 "{% for i in range(20) %}{{ m.content }}{% endfor %}{% endif %}");
}

/* Start a body with tools and a task. */
static size_t put_task(char *p)
{
	if (api == CHAT_RESPONSES)
		return (size_t)sprintf(p, "{\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"description\":"
		    "\"d\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}],"
		    "\"instructions\":\"be good\",\"input\":[{\"role\":\"user\",\"content\":\"task\"}");
	if (api == CHAT_MESSAGES)
		return (size_t)sprintf(p, "{\"tools\":[{\"name\":\"f\",\"description\":\"d\",\"input_schema\":"
		    "{\"type\":\"object\",\"properties\":{}}}],\"system\":\"be good\","
		    "\"messages\":[{\"role\":\"user\",\"content\":\"task\"}");
	return (size_t)sprintf(p, "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
	    "\"description\":\"d\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}],"
	    "\"messages\":["
	    "{\"role\":\"system\",\"content\":\"be good\"},{\"role\":\"user\",\"content\":\"task\"}");
}

/* Add a call and its result. */
static size_t put_step(char *p, unsigned i)
{
	if (api == CHAT_RESPONSES)
		return (size_t)sprintf(p, ",{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":"
		    "\"output_text\",\"text\":\"step %u\"}]},{\"type\":\"function_call\",\"call_id\":"
		    "\"call%05u\",\"name\":\"f\",\"arguments\":\"{\\\"x\\\":%u}\"},{\"type\":"
		    "\"function_call_output\",\"call_id\":\"call%05u\",\"output\":\"result %u\"}",
		    i, i, i, i, i);
	if (api == CHAT_MESSAGES)
		return (size_t)sprintf(p, ",{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":"
		    "\"step %u\"},{\"type\":\"tool_use\",\"id\":\"call%05u\",\"name\":\"f\",\"input\":"
		    "{\"x\":%u}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
		    "\"tool_use_id\":\"call%05u\",\"content\":\"result %u\"}]}", i, i, i, i, i);
	return (size_t)sprintf(p, ",{\"role\":\"assistant\",\"content\":\"step %u\",\"tool_calls\":["
	    "{\"id\":\"call%05u\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
	    "\"{\\\"x\\\":%u}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"call%05u\",\"name\":\"f\","
	    "\"content\":\"result %u\"}", i, i, i, i, i);
}

/* An agent's session: a task, then calls of tools and their results, and a further task at times.
 * Each turn brings one call and its result. Returns how many of the turns went on. */
static unsigned agent_session(const struct chat *c, unsigned *turns)
{
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key);
	struct kept k = { .raw = NULL };
	char *body = malloc(BODY), *whole = NULL;
	struct chat_text text;
	size_t n = put_task(body), end;
	unsigned went = 0;

	for (unsigned i = 0; i < 40; i++) {
		struct chat_turn turn = { .key = &key, .memo = span_of(k.memo, k.n_memo), .at = k.at };
		size_t before;

		n += put_step(body + n, i);
		if (i % 16 == 15)
			n += (size_t)sprintf(body + n, ",{\"role\":\"user\",\"content\":\"next task\"}");
		end = n + (size_t)sprintf(body + n, "],\"model\":\"m\"}");
		assert_true(end < BODY);
		if (render(c, s, span_of(body, end), false, NULL, &text) != CHAT_DONE)
			break;
		whole = copy(text.p, before = text.n);
		assert_int_equal(render(c, s, span_of(body, end), false, &turn, &text), CHAT_DONE);
		if (turn.resumed)
			same_text("agent", span_of(body, end), &k, whole, before, &text, 0);
		went += turn.resumed;
		++*turns;
		if (turn.good) {
			before = turn.resumed ? k.n_text : 0;
			drop(&k);
			k = (struct kept){ .at = (size_t)turn.left_at, .n_memo = turn.left.n };
			k.memo = copy(turn.left.p, k.n_memo);
			k.n_text = before + turn.text_at;
			k.text = copy(whole, k.n_text);
		}
		free(whole);
	}
	drop(&k);
	free(body);
	chat_scratch_free(s);
	return went;
}

#define REFUSED	UINT_MAX

static void sessions_of_agents(void **state)
{
	static const struct {
		const char *name;
		unsigned least;		/* turns that go on */
	} names[] = {
		{ "GLM-4.6", 35 }, { "GLM-4.7-Flash", 35 }, { "GLM-5.2", 35 }, { "MiniMax-M2", 35 },
		{ "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 35 }, { "deepseek-ai-DeepSeek-V3.1", 35 },
		/* it reads the calls of all messages, and so more and more of the old ones */
		{ "deepseek-ai-DeepSeek-V3.2", 10 },
		{ "deepseek-ai-DeepSeek-V4", 35 }, { "google-gemma-4-31B-it", 35 }, { "Qwen3-Coder", 35 },
		{ "Qwen3.5-4B", 35 }, { "openai-gpt-oss-120b", 35 }, { "moonshotai-Kimi-K2", 35 },
		/* they call append(), which the sandbox of Jinja refuses once there is a call */
		{ "Kimi-K2-Instruct", REFUSED }, { "Kimi-K2-Thinking", REFUSED },
	};

	struct chat *gpt_oss = load_harmony();
	unsigned of = 0;

	(void)state;
	assert_int_equal(agent_session(gpt_oss, &of), 39);
	api = CHAT_RESPONSES;
	assert_int_equal(agent_session(gpt_oss, &of), 39);
	api = CHAT_COMPLETIONS;
	chat_unref(gpt_oss);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		static char text[1 << 18];
		unsigned turns = 0, went;
		char path[600];
		struct chat *c;
		FILE *f;

		snprintf(path, sizeof(path), TEMPLATES "/%s.jinja", names[i].name);
		if ((f = fopen(path, "r")) == NULL) {
			printf("skipped: sessions of agents with %s: no data\n", names[i].name);
			continue;
		}
		c = load(span_of(text, fread(text, 1, sizeof(text), f)), names[i].name);
		fclose(f);
		assert_non_null(c);
		went = agent_session(c, &turns);
		if (names[i].least == REFUSED)
			assert_int_equal(turns, 0);
		else if (turns < 40 || went < names[i].least)
			fail_msg("%s: %u of %u turns of an agent went on", names[i].name, went, turns);
		chat_unref(c);
	}
}

/* ---- where messages end ---- */

static void ends_of_messages(void **state)
{
	static const struct {
		const char *body;
		bool good;
		uint32_t n;
		uint64_t first, last;
	} cases[] = {
		{ "{\"messages\":[{},{\"a\":\"]\"}]}", true, 2, 15, 25 },
		{ "{\"x\":{\"messages\":[{}]},\"messages\" : [ {\"a\":\"\\\\\"} ]}", true, 1, 48, 48 },
		{ "{\"messages\":[{\"a\":\"\\\"}\"}]}", true, 1, 24, 24 },
		{ "{\"messages\":[{}],\"messages\":[{}]}", false, 0, 0, 0 },
		{ "{\"messages\":[{}],\"m\\u0065ssages\":[{}]}", false, 0, 0, 0 },
		{ "{\"messages\":\"x\"}", true, 0, 0, 0 },
		{ "{}", true, 0, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf all = { .n = 0 };
		struct ends e = { .list = SPAN("messages"), .all = &all, .n = 9 }, on;
		uint32_t last;

		assert_int_equal(ends_find(span_str(cases[i].body), &e), cases[i].good);
		if (cases[i].good)
			assert_int_equal(e.n, cases[i].n);
		if (cases[i].good && e.n > 0) {
			assert_int_equal(e.first, cases[i].first);
			assert_int_equal(all.n, e.n * sizeof(last));
			memcpy(&last, all.p + all.n - sizeof(last), sizeof(last));
			assert_int_equal(last, cases[i].last);
			on = (struct ends){ .list = e.list, .all = &all, .n = 1, .first = e.first };
			assert_true(ends_go_on(span_str(cases[i].body), e.first, &on));
			assert_int_equal(on.n, e.n);
		}
		buf_free(&all);
	}
}

/* A list that comes twice, or a message the list of which is another, is not gone on from. */
static void other_lists(void **state)
{
	static const char first[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
				    "{\"role\":\"assistant\",\"content\":\"b\"}";
	static const char *const rests[] = {
		"],\"messages\":[{\"role\":\"user\",\"content\":\"z\"}]}",
		("],\"mess\\u0061ges\":[{\"role\":\"user\",\"content\":\"z\"},"
		 "{\"role\":\"user\",\"content\":\"y\"}]}"),
		",\"-\"]}", "],\"tools\":[]}", "],\"continue_final_message\":true}",
		"],\"continue_final_message\":true,\"add_generation_prompt\":false}",
		"],\"truncate_prompt_tokens\":3}", "],\"chat_template\":\"x\"}",
		",{\"role\":\"developer\",\"content\":\"d\"}]}",
	};
	struct chat *c = load(span_str(made[0].template), "made");
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key);
	struct memory m = { .next = 0 };
	char body[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++) {
		unsigned long before;

		one_body("first", c, s, &m, span_of(body, (size_t)sprintf(body, "%s]}", first)),
		    false);
		before = m.resumed;
		one_body(rests[i], c, s, &m, span_of(body, (size_t)sprintf(body, "%s%s", first, rests[i])),
		    false);
		assert_int_equal(m.resumed, before);
	}
	for (unsigned i = 0; i < KEPT; i++)
		drop(&m.kept[i]);
	chat_scratch_free(s);
	chat_unref(c);
}

/* ---- tools ---- */

#define MANY_TOOLS	200u

/* Write a conversation of <n> messages with many tools, before or after them; <byte> is in one. */
static size_t put_many(char *p, unsigned n, bool before, char byte)
{
	char *tools = malloc(MANY_TOOLS * 128), *at = p;
	size_t used = 0;

	assert_non_null(tools);
	for (unsigned i = 0; i < MANY_TOOLS; i++)
		used += (size_t)sprintf(tools + used,
		    "%s{\"type\":\"function\",\"function\":{\"name\":\"%c%u\"}}", i > 0 ? "," : "[",
		    i == MANY_TOOLS / 2 ? byte : 'f', i);
	at += sprintf(at, "{%s%s%s\"messages\":[", before ? "\"tools\":" : "", before ? tools : "",
	    before ? "]," : "");
	for (unsigned i = 0; i < n; i++)
		at += sprintf(at, "%s{\"role\":\"%s\",\"content\":\"%u \\\"tools\\\":\"}",
		    i > 0 ? "," : "", i % 2 == 0 ? "user" : "assistant", i);
	at += sprintf(at, "]%s%s%s}", before ? "" : ",\"tools\":", before ? "" : tools,
	    before ? "" : "]");
	free(tools);
	return (size_t)(at - p);
}

/* Return the steps of the last turn of a conversation; <byte> is then in its tools. */
static uint64_t steps_of_turn(const char *template, bool before, char byte)
{
	struct chat *c = load(span_str(template), "made");
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key);
	struct kept k = { .raw = NULL };
	char *body = malloc(BODY);
	uint64_t steps = 0;

	for (unsigned n = 4; n <= 10; n += 2) {
		struct chat_turn turn = { .key = &key, .memo = span_of(k.memo, k.n_memo), .at = k.at };
		struct work_left work = { 1u << 30 };
		size_t used = put_many(body, n, before, n == 10 ? byte : 'f');
		const struct chat_body b = {
			.api = api, .raw = span_of(body, used), .now = now, .turn = &turn, .work = &work,
		};
		struct chat_text text;

		assert_int_equal(chat_render(c, s, &b, &text), CHAT_DONE);
		assert_true(turn.good);
		assert_int_equal(turn.resumed, n > 4 && (n < 10 || byte == 'f'));
		steps = (1u << 30) - work.left;
		drop(&k);
		k = (struct kept){ .at = (size_t)turn.left_at, .n_memo = turn.left.n };
		k.memo = copy(turn.left.p, k.n_memo);
	}
	drop(&k);
	free(body);
	chat_scratch_free(s);
	chat_unref(c);
	if (getenv("VERBOSE") != NULL)
		printf("%lu steps %s\n", (unsigned long)steps, template);
	return steps;
}

/* Tools that are the same are neither read nor printed again, wherever they are. */
static void tools_left_out(void **state)
{
	static const char template[] = OF_TOOLS EACH(SAYS);
	static const char inside[] = OF_TOOLS EACH(SAYS "{% if loop.first %}" OF_TOOLS "{% endif %}");
	static const char reads[] = "{{ (tools or [1]) | length }}" OF_TOOLS EACH(SAYS);

	(void)state;
	assert_true(steps_of_turn(template, false, 'f') < 1000);
	assert_true(steps_of_turn(template, true, 'f') < 1000);
	assert_true(steps_of_turn(inside, true, 'f') < 1000);
	assert_in_range(steps_of_turn(reads, false, 'f'), 4000, 10000);	/* read, not printed */
	assert_true(steps_of_turn(template, false, 'g') > 10000);
}

/* The first message is read again, and so must be one item. */
static void a_first_message_of_two_items(void **state)
{
	static const char first[] = "{\"input\":[{\"role\":\"assistant\",\"content\":\"a\"},"
				    "{\"type\":\"function_call\",\"call_id\":\"call12345\",\"name\":\"f\","
				    "\"arguments\":\"{}\"},"
				    "{\"role\":\"user\",\"content\":\"b\"}";
	struct chat *c = load(SPAN(EACH(SAYS) "{{ messages[0].tool_calls | length }}"), "made");
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key);
	struct memory m = { .next = 0 };
	char body[1024];

	(void)state;
	api = CHAT_RESPONSES;
	one_body("first", c, s, &m, span_of(body, (size_t)sprintf(body, "%s]}", first)), false);
	one_body("next", c, s, &m, span_of(body, (size_t)sprintf(body, "%s,%s", first,
	    "{\"role\":\"user\",\"content\":\"c\"}]}")), false);
	api = CHAT_COMPLETIONS;
	assert_int_equal(m.next, 0);	/* nothing was left */
	for (unsigned i = 0; i < KEPT; i++)
		drop(&m.kept[i]);
	chat_scratch_free(s);
	chat_unref(c);
}

/* Render the body <first>, of which the end may be missing, and then <next>. Returns if that went
 * on from what the first left. Its text is compared in any case. */
static bool next_goes_on(const char *first, bool cut, const char *next)
{
	struct chat *c = load(span_str(made[0].template), "made");
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key);
	struct memory m = { .next = 0 };

	api = CHAT_RESPONSES;
	one_body("first", c, s, &m, span_str(first), cut);
	assert_int_equal(m.next, 1);	/* it left something */
	one_body("next", c, s, &m, span_str(next), false);
	api = CHAT_COMPLETIONS;
	assert_int_equal(m.tried, 1);
	for (unsigned i = 0; i < KEPT; i++)
		drop(&m.kept[i]);
	chat_scratch_free(s);
	chat_unref(c);
	return m.resumed > 0;
}

#define ITEM_USER	"{\"role\":\"user\",\"content\":\"u\"}"
#define ITEM_OPEN	"{\"role\":\"assistant\",\"content\":\"a\",\"status\":\"incomplete\"}"
#define ITEMS_OLD	"{\"input\":[" ITEM_USER "," ITEM_USER

/* A new item that is last and incomplete: the answer goes on, so the turn does not. */
static void an_incomplete_item_last(void **state)
{
	(void)state;
	assert_true(next_goes_on(ITEMS_OLD "]}", false, ITEMS_OLD "," ITEM_USER "]}"));
	assert_false(next_goes_on(ITEMS_OLD "]}", false, ITEMS_OLD "," ITEM_OPEN "]}"));
}

/* Nothing new: the last item, which may be incomplete, is not read again. */
static void no_new_item(void **state)
{
	(void)state;
	assert_false(next_goes_on(ITEMS_OLD "]}", false, ITEMS_OLD "]}"));
	assert_false(next_goes_on(ITEMS_OLD "," ITEM_OPEN "," ITEM_USER ",{\"role\":\"us", true,
	    ITEMS_OLD "," ITEM_OPEN "]}"));
}

static int start(void **state)
{
	struct rng rng;

	(void)state;
	rng_init(&rng, 7);
	for (size_t i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(made_templates),
		cmocka_unit_test(real_templates),
		cmocka_unit_test(api_of_messages),
		cmocka_unit_test(api_of_responses),
		cmocka_unit_test(by_harmony),
		cmocka_unit_test(far_in_harmony),
		cmocka_unit_test(far_in_items),
		cmocka_unit_test(each_turn),
		cmocka_unit_test(sessions_of_agents),
		cmocka_unit_test(ends_of_messages),
		cmocka_unit_test(other_lists),
		cmocka_unit_test(tools_left_out),
		cmocka_unit_test(a_first_message_of_two_items),
		cmocka_unit_test(an_incomplete_item_last),
		cmocka_unit_test(no_new_item),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
