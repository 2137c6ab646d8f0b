/* Turn events of the JSON scanner into pages: a state machine with a small stack.
 *
 * level[d] is the kind of the container open at depth d, if it has a rule; none is deeper than
 * LEVELS. At a key the machine looks up its rule (rules.c). At the start of the value the rule
 * decides: enter a container, or consume the value whole (body_value.c). The machine looks
 * ahead only for the usual beginning of a message (body_message.c), and keeps no text except one
 * page that is not full yet.
 *
 * Files:   body_top.c      values of keys at the top    message.c  pages of messages, parts, calls
 *          body_message.c  values inside messages        names.c    model, adapter, salt, user
 *          body_value.c    values consumed whole         batch.c    prompts without messages
 *          billing.c       a text that is left out
 *
 * Rules:
 *   - null counts as absent everywhere; so do [] and {} as tools, and an empty system text
 *   - a value of the wrong type counts as absent
 *   - the keys of a part decide if it is text, media or a call; its "type" does not
 *   - "input": "text" (Responses) is a message of role "user"; "system" and "instructions" make the
 *     pages of a message of role "system"
 *   - functions and documents follow the tools, and only if the body is complete */
#include "agent/base/mem.h"
#include "agent/prompt/body_in.h"

void body_enter(struct body *b, enum level what, enum json_event ev)
{
	struct request *r = &b->r;

	if (r->json.depth + 1 >= LEVELS)
		body_value_skip(b, ev);
	else
		r->level[r->json.depth + 1] = (uint8_t)what;
}

/* ---- the state machine --------------------------------------------------------------------- */

/* Start the value of a key whose rule is b->r.rule. */
static void keyed_start(struct body *b, enum level level, enum json_event ev, struct span text)
{
	if (b->r.rule == NULL)
		body_value_skip(b, ev);
	else if (level >= IN_TOP && level <= IN_CONVERSATION)
		body_top_value(b, ev, text);
	else if (level == IN_MESSAGE || level == IN_SYSTEM)
		body_message_value(b, ev, text);
	else if (level == IN_PART)
		body_part(b, ev, text);
	else
		body_call(b, ev, text);
}

static void any_start(struct body *b, enum json_event ev, struct span text)
{
	struct request *r = &b->r;
	enum level level = r->json.depth > 0 ? r->level[r->json.depth] : IN_UNKNOWN;

	switch (level) {
	case IN_UNKNOWN:
		if (ev == JSON_OBJECT)
			body_enter(b, IN_TOP, ev);
		else
			body_value_skip(b, ev);
		break;
	case IN_TOP: case IN_METADATA: case IN_NVEXT: case IN_HINTS: case IN_LIMITS:
	case IN_CONVERSATION: case IN_SYSTEM: case IN_MESSAGE: case IN_PART: case IN_CALL:
	case IN_FUNCTION:
		keyed_start(b, level, ev, text);
		break;
	case IN_NAMES:
		name_element(b, ev, text);
		break;
	case IN_MESSAGES:
		body_message(b, ev);
		break;
	case IN_PARTS:
		body_parts_element(b, ev);
		break;
	case IN_CALLS:
		if (ev == JSON_OBJECT) {
			call_open(&r->msg);
			body_enter(b, IN_CALL, ev);
		} else {
			body_value_skip(b, ev);
		}
		break;
	case IN_BATCH:
		batch_element(b, ev, text);
		break;
	case IN_IDS:
		batch_id(b, ev, text);
		break;
	}
}

void body_taken(struct body *b)
{
	struct request *r = &b->r;
	struct message *m = &r->msg;

	switch (r->after) {
	case AFTER_NOTHING:
		break;
	case AFTER_NAME:
		name_done(b);
		break;
	case AFTER_TOOLS:
		body_tools_done(b);
		break;
	case AFTER_SYSTEM:
		body_system_close(b);
		break;
	case AFTER_INPUT:
		r->found = m->run[RUN_CONTENT].n_units > 0;
		body_message_end(b, false);
		b->prompt.prompt_seen = true;
		break;
	case AFTER_PROMPT:
		batch_text_end(b);
		b->prompt.prompt_seen = true;
		break;
	case AFTER_ITEM:
		batch_text_end(b);
		break;
	case AFTER_ROLE:
		body_role(b, body_value_hash(b));
		break;
	case AFTER_MESSAGE_NAME:
		m->name = body_value_hash(b);
		break;
	case AFTER_TYPE:
		m->type = body_value_hash(b);
		if (m->type == b->h_message)
			m->type = 0;	/* the default type of an item */
		break;
	case AFTER_CONTENT:
		message_run_done(m, RUN_CONTENT);
		break;
	case AFTER_CALLS:
		message_run_done(m, RUN_CALLS);
		break;
	case AFTER_MEDIA:
		body_media_end(b);
		break;
	case AFTER_RESULT:
		body_result_end(b);
		break;
	case AFTER_PART_NAME:
		m->part[m->n_parts - 1].name = body_value_hash(b);
		break;
	case AFTER_CALL_NAME:
		m->call_name = body_value_hash(b);
		break;
	}
	r->take = TAKE_NOTHING;
}

static void parts_end(struct body *b, enum level around)
{
	struct message *m = &b->r.msg;

	if (around == IN_MESSAGE || around == IN_SYSTEM)
		message_run_done(m, RUN_CONTENT);
	else if (around == IN_PART)
		body_result_end(b);
	else
		body_system_close(b);
}

static void call_end(struct body *b, enum level around)
{
	call_close(&b->env, &b->r.msg);
	if (around == IN_MESSAGE)
		message_run_done(&b->r.msg, RUN_CALLS);
}

/* End the container <what>; <around> is the container that holds it. */
static void level_end(struct body *b, enum level what, enum level around)
{
	switch (what) {
	case IN_TOP:
		body_top_end(b);
		break;
	case IN_MESSAGES: case IN_BATCH:
		if (what == IN_BATCH && b->r.batch.kind == KIND_IDS)
			batch_ids_end(b);
		b->prompt.prompt_seen = true;
		break;
	case IN_MESSAGE:
		body_message_end(b, true);
		if (b->trail.on)
			body_border(b);
		break;
	case IN_SYSTEM:
		body_system_close(b);
		break;
	case IN_PARTS:
		parts_end(b, around);
		break;
	case IN_PART:
		part_close(&b->env, &b->r.msg);
		break;
	case IN_CALLS:
		message_run_done(&b->r.msg, RUN_CALLS);
		break;
	case IN_CALL:
		call_end(b, around);
		break;
	case IN_IDS:
		batch_ids_end(b);
		break;
	case IN_UNKNOWN: case IN_METADATA: case IN_NVEXT: case IN_HINTS: case IN_LIMITS:
	case IN_CONVERSATION: case IN_NAMES: case IN_FUNCTION:
		break;
	}
}

static enum place place_of(enum level level)
{
	switch (level) {
	case IN_TOP:
		return PLACE_TOP;
	case IN_METADATA:
		return PLACE_METADATA;
	case IN_NVEXT:
		return PLACE_NVEXT;
	case IN_HINTS:
		return PLACE_HINTS;
	case IN_LIMITS:
		return PLACE_LIMITS;
	case IN_CONVERSATION:
		return PLACE_CONVERSATION;
	case IN_SYSTEM: case IN_MESSAGE:
		return PLACE_MESSAGE;
	case IN_PART:
		return PLACE_PART;
	default:
		return PLACE_CALL;
	}
}

/* Handle an event outside of values that are consumed whole. */
static void structure(struct body *b, const struct json *j, enum json_event ev, struct span text)
{
	struct request *r = &b->r;

	if (ev == JSON_KEY)
		r->rule = rule_find(b->prompt.api, place_of(r->level[j->depth]), text);
	else if (ev == JSON_OBJECT_END || ev == JSON_ARRAY_END)
		level_end(b, r->level[j->depth + 1], j->depth > 0 ? r->level[j->depth] : IN_UNKNOWN);
	else
		any_start(b, ev, text);
}

static void on_event(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct body *b = arg;

	if (b->r.take == TAKE_TEXT && ev == JSON_STRING_PART) {
		pager_add(&b->env, b->r.out, text.p, text.n);
		return;
	}
	if (ev != JSON_STRING_PART && (ev != JSON_TEXT || !json_in_token(j)))
		b->prompt.n_events++;
	if (b->r.take != TAKE_NOTHING)
		body_value_event(b, j->depth, ev, text);
	else
		structure(b, j, ev, text);
}

/* ---- the prompt after each piece of the body ------------------------------------------------- */

static uint64_t units(const struct body *b)
{
	const struct request *r = &b->r;
	uint64_t n = r->system_units + r->message_units;
	int i;

	for (i = 0; i < TOOLS_SLOTS; i++)
		n += r->tools_units[i];
	if (r->tools_open && r->tools.n_units > EMPTY_TOOLS)
		n += r->tools.n_units;
	if (r->batch.open)
		n += r->msg.run[RUN_CONTENT].n_units;
	if (r->msg.open)
		n += body_message_units(&r->msg);
	return n;
}

static void show(struct body *b)
{
	struct request *r = &b->r;
	struct prompt *p = &b->prompt;
	bool message = r->msg.open && r->msg.v == &p->messages;
	bool begun = (message || r->batch.open) && r->msg.run[RUN_CONTENT].n_units > 0;

	if (r->msg.open)
		message_show(&b->env, &r->msg);
	p->n_leading = r->n_leading;
	p->n_history = r->n_history;
	p->n_answer = r->n_answer;
	p->n_first = r->n_first;
	p->shape = (uint16_t)(r->shape | (r->options ? SHAPE_OPTIONS : 0) |
			      (p->mode == PROMPT_TOKENS ? SHAPE_IDS : 0));
	if (message && r->leading && body_message_leads(b))
		p->n_leading = p->messages.n;
	p->found = (r->found || begun) && !r->bad_prompt;
	p->in_media = r->take == TAKE_MEDIA;
	p->truncated = b->env.full;
	p->n_units = units(b);
	p->n_bytes = r->json.offset;
	p->json = r->json.state;
}

enum json_state body_feed(struct body *b, const char *p, size_t n)
{
	json_feed(&b->r.json, p, n);
	show(b);
	return b->prompt.json;
}

const struct prompt *body_prompt(const struct body *b)
{
	return &b->prompt;
}

/* ---- life ---------------------------------------------------------------------------------- */

static uint32_t within(uint32_t v, uint32_t low, uint32_t high)
{
	return v < low ? low : v > high ? high : v;
}

struct body *body_new(const struct prompt_opts *o, const struct hash_key *key)
{
	struct body *b = mem_alloc(sizeof(*b));

	if (b == NULL)
		return NULL;
	b->opts = *o;
	b->opts.text_page = within(o->text_page, 16, TEXT_PAGE_MAX);
	b->opts.token_page = within(o->token_page, 1, PROMPT_TOKEN_PAGE_MAX);
	b->key = key;
	b->h_system = digest_of(key, SPAN("system"));
	b->h_developer = digest_of(key, SPAN("developer"));
	b->h_user = digest_of(key, SPAN("user"));
	b->h_assistant = digest_of(key, SPAN("assistant"));
	b->h_model = digest_of(key, SPAN("model"));
	b->h_tool = digest_of(key, SPAN("tool"));
	b->h_function = digest_of(key, SPAN("function"));
	b->h_message = digest_of(key, SPAN("message"));
	body_reset(b, API_NONE);
	return b;
}

void body_free(struct body *b)
{
	unsigned int i;

	if (b == NULL)
		return;
	page_vec_free(&b->prompt.system);
	page_vec_free(&b->prompt.tools);
	page_vec_free(&b->prompt.messages);
	for (i = 0; i < 2; i++)
		page_vec_free(&b->side[i]);
	for (i = 0; i < TOOLS_SLOTS; i++)
		page_vec_free(&b->slot[i]);
	vec_free(&b->trail.marks);
	vec_free(&b->trail.keys);
	vec_free(&b->trail.copy.data);
	vec_free(&b->trail.walk.keys);
	mem_wipe(b, sizeof(*b));
	mem_free(b);
}

static void walk_reset(struct walk *w)
{
	struct walk empty = { .keys = w->keys };

	empty.keys.n = 0;
	*w = empty;
}

void body_reset(struct body *b, enum prompt_api api)
{
	unsigned int i;

	body_wipe(b);
	b->prompt.api = api;
	for (i = 0; i < 2; i++)
		b->side[i].n = 0;
	for (i = 0; i < TOOLS_SLOTS; i++)
		b->slot[i].n = 0;
	b->env = (struct page_env){ b->key, b->opts.text_page, 0, b->opts.max_pages, false };
	b->r.leading = true;
	b->trail.hole = (struct hole){ 0, 0 };
	b->trail.on = b->trail.rooted = b->trail.tools_met = false;
	b->trail.turns = NULL;
	b->trail.raw = (struct span){ .n = 0 };
	b->trail.tools = (struct tools_value){ .n = 0 };
	b->trail.ahead.made = 0;
	b->trail.recalled = b->trail.known = b->trail.marks.n = b->trail.keys.n = 0;
	name_clear(&b->trail.model);
	name_clear(&b->trail.lora);
	walk_reset(&b->trail.walk);
	json_init(&b->r.json, b->opts.max_depth, on_event, b);
}

size_t body_bytes(const struct body *b)
{
	const struct prompt *p = &b->prompt;
	size_t cap = (size_t)p->system.cap + p->tools.cap + p->messages.cap;
	unsigned int i;

	for (i = 0; i < 2; i++)
		cap += b->side[i].cap;
	for (i = 0; i < TOOLS_SLOTS; i++)
		cap += b->slot[i].cap;
	return sizeof(*b) + cap * sizeof(page_key) + b->trail.marks.cap * sizeof(struct mark) +
	       b->trail.copy.data.cap +
	       (b->trail.keys.cap + b->trail.walk.keys.cap) * sizeof(struct hash128);
}
