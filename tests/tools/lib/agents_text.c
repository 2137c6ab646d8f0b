/* agents_text.c - what agents say: tools, system prompts, messages, calls of tools and their
 * results, in the form of an API. All text is words that the seed makes, at 4 bytes a token, so a
 * body has about four times as many bytes as its plan has tokens. */
#include "tests/tools/lib/agents.h"

#include <stddef.h>
#include <stdlib.h>

#include "agent/base/billing.h"
#include "agent/base/rng.h"

#define TOKEN_BYTES	4u
#define TOOLS_SHARE	0.6	/* of tools and system prompt together */
#define KEPT_ANSWER	0.7	/* as agent/sim/agentic.c has it */
#define TEXT_MIN	16u	/* bytes of a message or result */
#define FRAME		160u	/* bytes around the text of a message or result, about */

/* what the words of a key are for */
enum { WORDS_TASK, WORDS_CALL, WORDS_RESULT, WORDS_ASK, WORDS_BILLING, WORDS_KINDS };

static uint64_t key_of(const struct agents_talk *a, const struct load_opts *o, unsigned what)
{
	return load_key(o, (UINT64_C(1) << 35) + a->talk.id, a->turn * WORDS_KINDS + what);
}

static void put_words_json(struct buf *out, uint64_t key, size_t n)
{
	buf_puts(out, "\"");
	load_words(out, key, n);
	buf_puts(out, "\"");
}

/* ---- tools and system prompt of a program ---- */

static void put_schema(struct buf *out, uint64_t key)
{
	buf_puts(out, "{\"type\":\"object\",\"properties\":{");
	for (unsigned i = 0; i < 4; i++) {
		buf_putf(out, "%s\"argument_%u\":{\"type\":\"string\",\"description\":", i ? "," : "", i);
		put_words_json(out, key + i, 150);
		buf_puts(out, "}");
	}
	buf_puts(out, "},\"required\":[\"argument_0\"]}");
}

static void put_tool(struct buf *out, const struct load_opts *o, uint64_t key, unsigned number)
{
	if (number > 0)
		buf_puts(out, ",");
	buf_puts(out, o->api == API_CHAT ? "{\"type\":\"function\",\"function\":{" :
		 o->api == API_RESPONSES ? "{\"type\":\"function\"," : "{");
	buf_putf(out, "\"name\":\"tool_%u\",\"description\":", number);
	put_words_json(out, key, 900);
	buf_putf(out, ",\"%s\":", o->api == API_MESSAGES ? "input_schema" : "parameters");
	put_schema(out, key + 1);
	buf_puts(out, o->api == API_CHAT ? "}}" : "}");
}

/* Both depend on the program only. They have <opening> bytes or, for small ones, one tool. */
static void put_opening(const struct agents_talk *a, const struct load_opts *o, struct buf *tools,
			struct buf *system)
{
	uint64_t program = (UINT64_C(1) << 39) + a->session->program;
	size_t used;

	buf_puts(tools, "[");
	for (unsigned i = 0; i == 0 || (double)tools->n < TOOLS_SHARE * (double)a->opening; i++)
		put_tool(tools, o, load_key(o, program, i * 16), i);
	buf_puts(tools, "]");
	used = tools->n + TEXT_MIN < a->opening ? tools->n : a->opening - TEXT_MIN;
	load_words(system, load_key(o, program, (1u << 24) - 1), a->opening - used);
}

/* ---- messages ---- */

static void put_comma(struct buf *said)
{
	if (said->n > 0)
		buf_puts(said, ",");
}

static void put_begin(struct buf *said, enum api api, const char *role)
{
	put_comma(said);
	if (api == API_CHAT)
		buf_putf(said, "{\"role\":\"%s\",\"content\":", role);
	else if (api == API_MESSAGES)
		buf_putf(said, "{\"role\":\"%s\",\"content\":[{\"type\":\"text\",\"text\":", role);
	else
		buf_putf(said, "{\"type\":\"message\",\"role\":\"%s\",\"content\":[{\"type\":\"%s\",\"text\":",
			 role, strcmp(role, "user") == 0 ? "input_text" : "output_text");
}

static void put_user(struct agents_talk *a, enum api api, struct span text)
{
	struct buf *said = &a->talk.said;

	put_begin(said, api, "user");
	buf_put_json(said, text);
	buf_puts(said, api == API_CHAT ? "}" : "}]}");
}

/* Say the answer, and call a tool unless it asks for none. */
static void put_assistant(struct agents_talk *a, const struct load_opts *o, struct span text,
			  bool call)
{
	struct buf *said = &a->talk.said, arg = { 0 };
	unsigned id = ++a->calls, tool;

	load_words(&arg, key_of(a, o, WORDS_CALL), 24);
	tool = (unsigned)(key_of(a, o, WORDS_CALL) >> 40) % 4;
	put_begin(said, o->api, "assistant");
	buf_put_json(said, text);
	if (o->api == API_CHAT && call)
		buf_putf(said, ",\"tool_calls\":[{\"id\":\"call_%u_%u\",\"type\":\"function\",\"function\":"
			 "{\"name\":\"tool_%u\",\"arguments\":\"{\\\"argument_0\\\":\\\"%.*s\\\"}\"}}]",
			 a->talk.id, id, tool, (int)arg.n, arg.p);
	if (o->api == API_MESSAGES && call)
		buf_putf(said, "},{\"type\":\"tool_use\",\"id\":\"toolu_%u_%u\",\"name\":\"tool_%u\","
			 "\"input\":{\"argument_0\":\"%.*s\"}", a->talk.id, id, tool, (int)arg.n, arg.p);
	buf_puts(said, o->api == API_CHAT ? "}" : "}]}");
	if (o->api == API_RESPONSES && call)
		buf_putf(said, ",{\"type\":\"function_call\",\"call_id\":\"call_%u_%u\",\"name\":\"tool_%u\","
			 "\"arguments\":\"{\\\"argument_0\\\":\\\"%.*s\\\"}\"}", a->talk.id, id, tool,
			 (int)arg.n, arg.p);
	buf_free(&arg);
}

static void put_result(struct agents_talk *a, const struct load_opts *o, size_t n)
{
	struct buf *said = &a->talk.said;
	unsigned long talk = a->talk.id, id = a->calls;

	put_comma(said);
	if (o->api == API_CHAT)
		buf_putf(said, "{\"role\":\"tool\",\"tool_call_id\":\"call_%lu_%lu\",\"content\":", talk, id);
	else if (o->api == API_MESSAGES)
		buf_putf(said, "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
			 "\"toolu_%lu_%lu\",\"content\":", talk, id);
	else
		buf_putf(said, "{\"type\":\"function_call_output\",\"call_id\":\"call_%lu_%lu\",\"output\":",
			 talk, id);
	a->results = tool_resize(a->results, a->n_results + 1, sizeof(*a->results));
	a->results[a->n_results++] = (struct agents_result){ said->n + 1, n };
	put_words_json(said, key_of(a, o, WORDS_RESULT), n);
	buf_puts(said, o->api == API_MESSAGES ? "}]}" : "}");
}

/* ---- a turn ---- */

/* Return the bytes of text that are missing until all is as long as <q> says. */
static size_t missing(const struct agents_talk *a, const struct agents_turn *q)
{
	size_t whole = (size_t)(q->keep + q->add) * TOKEN_BYTES;
	size_t there = a->opening + a->talk.said.n + FRAME;

	return whole > there + TEXT_MIN ? whole - there : TEXT_MIN;
}

/* The answer as it is sent again, at most <most> bytes of it. */
static struct span kept_answer(const struct agents_talk *a, size_t most)
{
	size_t n = (size_t)(KEPT_ANSWER * (double)a->answer.n);

	n = n < most ? n : most;
	n -= n % TOKEN_BYTES;
	return span_of(a->answer.p, n >= TOKEN_BYTES ? n : a->answer.n < TOKEN_BYTES ? a->answer.n
										       : TOKEN_BYTES);
}

/* Shorten the result at the token up to which the prompt stays, or the next one: by half of what is
 * after it, but no more than there is. */
static void shorten(struct agents_talk *a, const struct agents_turn *q)
{
	size_t at = (size_t)q->keep * TOKEN_BYTES, all = a->opening + a->talk.said.n, k = 0, from, cut;
	struct buf *said = &a->talk.said;

	if (a->n_results == 0 || at >= all)
		return;
	at = at > a->opening ? at - a->opening : 0;
	while (k + 1 < a->n_results && a->results[k].at + a->results[k].n <= at + TEXT_MIN)
		k++;
	from = a->results[k].at + TEXT_MIN;
	from = from > at ? from : at;
	if (from >= a->results[k].at + a->results[k].n)
		return;
	cut = a->results[k].at + a->results[k].n - from;
	cut = cut < (all - a->opening - at) / 2 ? cut : (all - a->opening - at) / 2;
	memmove(said->p + from, said->p + from + cut, said->n - from - cut);
	said->n -= cut;
	a->results[k].n -= cut;
	while (++k < a->n_results)
		a->results[k].at -= cut;
}

static void say_user(struct agents_talk *a, const struct load_opts *o, const struct agents_turn *q,
		     const char *begin, struct span then)
{
	struct buf text = { 0 };
	size_t want = missing(a, q);

	buf_puts(&text, begin);
	buf_put(&text, then.p, then.n);
	if (text.n < want)
		load_words(&text, key_of(a, o, WORDS_TASK), want - text.n);
	put_user(a, o->api, buf_span(&text));
	buf_free(&text);
}

static void say_compacted(struct agents_talk *a, const struct load_opts *o,
			  const struct agents_turn *q)
{
	buf_free(&a->talk.said);
	a->n_results = 0;
	say_user(a, o, q, "This goes on where a longer conversation ended. Its summary: ",
		 buf_span(&a->answer));
}

void agents_say(struct agents_talk *a, const struct load_opts *o)
{
	const struct agents_turn *q = &a->session->turns[a->turn];
	size_t room;

	a->opening = (size_t)a->session->turns[0].keep * TOKEN_BYTES;
	switch (q->kind) {
	case AGENTS_FIRST:
		say_user(a, o, q, "", (struct span){ "", 0 });
		return;
	case AGENTS_COMPACTED:
		say_compacted(a, o, q);
		return;
	default:
		break;
	}
	if (q->kind == AGENTS_EDIT)
		shorten(a, q);
	room = missing(a, q);
	put_assistant(a, o, kept_answer(a, room > 4 * FRAME ? room - 4 * FRAME : TOKEN_BYTES),
		      q->kind != AGENTS_SUMMARIZE);
	if (q->kind == AGENTS_SUMMARIZE)
		say_user(a, o, q, "Summarize all of this for whom goes on with it. ", (struct span){ "", 0 });
	else
		put_result(a, o, missing(a, q));
}

/* ---- a request ---- */

/* <agent> 0 names the session. */
static void put_uuid(const struct agents_talk *a, const struct load_opts *o, uint32_t agent,
		     struct buf *out)
{
	uint64_t key = load_key(o, (UINT64_C(1) << 37) + a->session->number, agent);
	struct rng r;

	rng_init(&r, key);
	rng_next(&r);
	key = rng_next(&r);
	buf_putf(out, "%08x-%04x-4%03x-a%03x-%012llx", (uint32_t)key, (uint32_t)(key >> 32 & 0xffff),
		 (uint32_t)(key >> 48 & 0xfff), a->session->number & 0xfff,
		 (unsigned long long)rng_next(&r) >> 16);
}

/* As Claude Code names session and subagent, or Codex its conversation. */
void agents_put_names(const struct agents_talk *a, const struct load_opts *o, struct buf *out)
{
	if (o->names != NAMES_HEADERS)
		return;
	buf_puts(out, o->api == API_MESSAGES ? "x-claude-code-session-id: " : "session_id: ");
	put_uuid(a, o, o->api == API_MESSAGES ? 0 : a->agent, out);
	buf_puts(out, "\r\n");
	if (o->api != API_MESSAGES || a->agent == 0)
		return;
	buf_puts(out, "x-claude-code-agent-id: ");
	put_uuid(a, o, a->agent, out);
	buf_puts(out, "\r\n");
}

static void put_name(const struct agents_talk *a, const struct load_opts *o, struct buf *out)
{
	if (o->names != NAMES_BODY)
		return;
	buf_puts(out, o->api == API_MESSAGES ? ",\"metadata\":{\"user_id\":\"user_1_account__session_"
					     : ",\"prompt_cache_key\":\"");
	put_uuid(a, o, o->api == API_MESSAGES ? 0 : a->agent, out);
	buf_puts(out, o->api == API_MESSAGES ? "\"}" : "\"");
}

#define MARKER		"\"cache_control\":{\"type\":\"ephemeral\"}"
#define BLOCK_END	"}]}"		/* of the last message, in the messages API */

/* As Claude Code does: the end of the last message is marked. */
static void put_said(const struct agents_talk *a, const struct load_opts *o, struct buf *out)
{
	const struct buf *said = &a->talk.said;
	bool mark = o->api == API_MESSAGES;

	buf_put(out, said->p, said->n - (mark ? strlen(BLOCK_END) : 0));
	if (mark)
		buf_puts(out, "," MARKER BLOCK_END);
}

/* Claude Code's system prompt: its first block differs in each request. */
static void put_claude_system(
    const struct agents_talk *a, const struct load_opts *o, struct span system, struct buf *out)
{
	struct rng r;
	uint64_t key;

	rng_init(&r, key_of(a, o, WORDS_BILLING));
	rng_next(&r);
	key = rng_next(&r);
	buf_putf(out, ",\"system\":[{\"type\":\"text\",\"text\":\"" BILLING_BEGIN
		 ": cc_version=2.1.120.%03x; cc_entrypoint=cli; cch=%05x;\"},"
		 "{\"type\":\"text\",\"text\":", (unsigned)(key >> 40 & 0xfff),
		 (unsigned)(key >> 20 & 0xfffff));
	buf_put_json(out, system);
	buf_puts(out, "," MARKER "}]");
}

/* Keys come in the order in which the clients of these APIs send them: of the messages API first
 * the messages, then system prompt and tools. */
void agents_put_body(const struct agents_talk *a, const struct load_opts *o, struct buf *out)
{
	struct load_opts own = *o;
	struct buf tools = { 0 }, system = { 0 };

	own.max_tokens = a->session->turns[a->turn].out;
	put_opening(a, o, &tools, &system);
	buf_puts(out, "{");
	load_put_rest(&own, out);
	if (o->api == API_RESPONSES) {
		buf_puts(out, ",\"instructions\":");
		buf_put_json(out, buf_span(&system));
	}
	buf_putf(out, ",\"%s\":[", o->api == API_RESPONSES ? "input" : "messages");
	if (o->api == API_CHAT) {
		buf_puts(out, "{\"role\":\"system\",\"content\":");
		buf_put_json(out, buf_span(&system));
		buf_puts(out, "},");
	}
	put_said(a, o, out);
	buf_puts(out, "]");
	if (o->api == API_MESSAGES)
		put_claude_system(a, o, buf_span(&system), out);
	buf_puts(out, ",\"tools\":");
	buf_put(out, tools.p, tools.n);
	put_name(a, o, out);
	buf_puts(out, "}");
	buf_free(&tools);
	buf_free(&system);
}

void agents_request(struct talk *t, const struct load_opts *o, struct buf *out)
{
	struct agents_talk *a = (struct agents_talk *)((char *)t - offsetof(struct agents_talk, talk));
	struct buf names = { 0 }, body = { 0 };

	agents_say(a, o);
	agents_put_names(a, o, &names);
	agents_put_body(a, o, &body);
	load_put_request(t, o, buf_span(&names), buf_span(&body), out);
	buf_free(&names);
	buf_free(&body);
}
