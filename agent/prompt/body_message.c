/* Values inside messages: content, calls, thoughts, and the parts of a content.
 *
 * body.c calls a function here when the value of a key starts, an element of a list starts, or a
 * message or value ends. message.c assembles the pages. */
#include "agent/prompt/body_in.h"

/* ---- messages ------------------------------------------------------------------------------ */

void body_messages(struct body *b, enum json_event ev)
{
	struct request *r = &b->r;

	prompt_void(b, ev == JSON_NULL);
	if (ev == JSON_ARRAY) {
		body_enter(b, IN_MESSAGES, ev);
	} else if (ev == JSON_STRING && r->rule->arg) {
		message_open(&b->env, &r->msg, &b->prompt.messages, b->side);
		r->msg.role = b->h_user;
		r->msg.role_seen = true;
		body_value_text(b, &r->msg.run[RUN_CONTENT], AFTER_INPUT);
	} else {
		body_value_skip(b, ev);
	}
}

void body_role(struct body *b, uint64_t hash)
{
	struct message *m = &b->r.msg;

	m->role = b->prompt.api == API_CONTENTS && hash == b->h_model ? b->h_assistant : hash;
	m->role_seen = true;
	b->prompt.developer |= m->role == b->h_developer ||
			       (m->role == b->h_system && b->prompt.api == API_MESSAGES);
}

bool body_message_leads(const struct body *b)
{
	const struct message *m = &b->r.msg;

	return m->role_seen && (m->role == b->h_system || m->role == b->h_developer);
}

uint64_t body_message_units(const struct message *m)
{
	return m->run[RUN_CONTENT].n_units + m->run[RUN_CALLS].n_units + m->run[RUN_ASIDE].n_units;
}

static unsigned role_shape(const struct body *b, const struct message *m)
{
	if (!m->role_seen)
		return m->type != 0 && m->run[RUN_CALLS].n_units == 0 ? SHAPE_RESULTS : 0;
	if (m->role == b->h_assistant)
		return SHAPE_ASSISTANT | SHAPE_LAST;
	if (m->role == b->h_tool || m->role == b->h_function)
		return SHAPE_RESULTS;
	if (m->role == b->h_system)
		return SHAPE_SYSTEM;
	if (m->role == b->h_developer)
		return SHAPE_DEVELOPER;
	return m->role == b->h_user ? 0 : SHAPE_OTHER;
}

static void note_shape(struct body *b)
{
	struct request *r = &b->r;
	unsigned role = role_shape(b, &r->msg);

	if ((role & SHAPE_ASSISTANT) != 0 && (r->shape & SHAPE_ASSISTANT) == 0)
		r->n_first = r->msg.start;
	r->shape = (r->shape & ~(unsigned)SHAPE_LAST) | role;
	r->shape |= r->msg.run[RUN_CALLS].n_units > 0 ? SHAPE_CALLS : 0;
	r->shape |= r->msg.run[RUN_ASIDE].n_units > 0 ? SHAPE_THOUGHTS : 0;
}

void body_message_end(struct body *b, bool keep_empty)
{
	struct request *r = &b->r;

	message_close(&b->env, &r->msg, keep_empty);
	note_shape(b);
	r->message_units += body_message_units(&r->msg);
	r->leading = r->leading && body_message_leads(b);
	if (r->leading)
		r->n_leading = b->prompt.messages.n;
	if (r->msg.role_seen && r->msg.role == b->h_assistant) {
		r->n_history = r->msg.start;
		r->n_answer = b->prompt.messages.n;
	}
}

static void content_start(struct body *b, enum json_event ev)
{
	struct message *m = &b->r.msg;

	message_run(&b->env, m, b->r.rule, RUN_CONTENT, ev == JSON_NULL);
	if (ev == JSON_STRING && billing_may_begin(b, 0))
		billing_start(b, AFTER_CONTENT, false);
	else if (ev == JSON_STRING)
		body_value_text(b, &m->run[RUN_CONTENT], AFTER_CONTENT);
	else if (ev == JSON_ARRAY)
		body_enter(b, IN_PARTS, ev);
	else
		body_value_skip(b, ev);
	if (ev != JSON_STRING && ev != JSON_ARRAY)
		message_run_done(m, RUN_CONTENT);
}

static void calls_start(struct body *b, enum json_event ev)
{
	struct message *m = &b->r.msg;

	message_run(&b->env, m, b->r.rule, RUN_CALLS, ev == JSON_NULL);
	if (ev == JSON_OBJECT) {
		call_open(m);
		body_enter(b, IN_CALL, ev);
	} else if (ev == JSON_ARRAY) {
		body_enter(b, IN_CALLS, ev);
	} else {
		body_value_skip(b, ev);
	}
}

/* ---- the beginning of a message ------------------------------------------------------------- */

/* Nearly all messages begin so, with or without spaces. Their first events, from the key "role" to
 * the start of the content, cost more than all others of a short message. */
#define TEXT(lit)	{ lit, sizeof(lit) - 1 }
#define OPENINGS(role)	{ TEXT("{\"role\":\"" role "\",\"content\":\""), \
			  TEXT("{\"role\": \"" role "\", \"content\": \"") }
#define OPENING_EVENTS	5	/* a key, the start and the end of a string, a key, the start of one */
#define ROLE_AT		9

enum opened { OPENED_USER, OPENED_ASSISTANT, OPENED_SYSTEM, OPENED_OTHER };

static const struct span openings[OPENED_OTHER][2] = {
	OPENINGS("user"), OPENINGS("assistant"), OPENINGS("system"),
};

/* Tell which role a message has that begins with <s>, and how many bytes its opening has. */
static enum opened opening_of(struct span s, size_t *n)
{
	bool spaced = s.n > ROLE_AT + 1 && s.p[ROLE_AT - 1] == ' ';
	char c = s.n > ROLE_AT + 1 ? s.p[ROLE_AT + spaced] : 0;
	enum opened o = c == 'u' ? OPENED_USER : c == 'a' ? OPENED_ASSISTANT :
			c == 's' ? OPENED_SYSTEM : OPENED_OTHER;

	if (o == OPENED_OTHER)
		return o;
	*n = openings[o][spaced].n;
	return *n <= s.n && memcmp(s.p, openings[o][spaced].p, *n) == 0 ? o : OPENED_OTHER;
}

static bool has_openings(enum prompt_api api)
{
	return api == API_CHAT || api == API_MESSAGES || api == API_RESPONSES;
}

/* Take role and the start of a content at once, if the message that starts now begins with them. */
static void opening_take(struct body *b)
{
	size_t n;
	enum opened o = opening_of(json_at_hand(&b->r.json), &n);

	if (o == OPENED_OTHER)
		return;
	json_enter_string(&b->r.json, n);
	b->prompt.n_events += OPENING_EVENTS;
	body_role(b, o == OPENED_USER ? b->h_user : o == OPENED_ASSISTANT ? b->h_assistant : b->h_system);
	b->r.rule = rule_content(b->prompt.api);
	content_start(b, JSON_STRING);
}

void body_message(struct body *b, enum json_event ev)
{
	if (ev != JSON_OBJECT) {
		body_value_skip(b, ev);
		return;
	}
	b->r.found = true;
	message_open(&b->env, &b->r.msg, &b->prompt.messages, b->side);
	body_enter(b, IN_MESSAGE, ev);
	if (has_openings(b->prompt.api))
		opening_take(b);
}

/* ---- values of a message -------------------------------------------------------------------- */

/* Consume arguments of any type: a string as text, any other value as JSON text after a mark. */
static void value_start(struct body *b, struct pager *pg, enum after after, enum json_event ev,
			struct span text)
{
	if (ev == JSON_STRING) {
		body_value_text(b, pg, after);
	} else if (ev != JSON_NULL) {
		mark_add(&b->env, pg, MARK_JSON);
		body_value_json(b, pg, after, ev, text, 0);
	}
}

static void call_text_start(struct body *b, enum json_event ev, struct span text)
{
	struct message *m = &b->r.msg;

	message_run(&b->env, m, b->r.rule, RUN_CALLS, ev == JSON_NULL);
	value_start(b, &m->run[RUN_CALLS], AFTER_CALLS, ev, text);
}

static void aside_start(struct body *b, enum json_event ev)
{
	struct message *m = &b->r.msg;

	message_run(&b->env, m, b->r.rule, RUN_ASIDE, ev == JSON_NULL);
	if (ev == JSON_STRING)
		body_value_text(b, &m->run[RUN_ASIDE], AFTER_NOTHING);
	else
		body_value_skip(b, ev);
}

/* Consume a string of which only the hash counts; forget <old>, the hash of an earlier one. */
static void digest_start_at(struct body *b, uint64_t *old, enum after after, enum json_event ev,
			    struct span text)
{
	*old = 0;
	if (ev == JSON_STRING)
		body_value_read(b, TAKE_DIGEST, after, ev, text);
	else
		body_value_skip(b, ev);
}

/* ---- parts and calls ----------------------------------------------------------------------- */

static void media_start(struct body *b, enum json_event ev, struct span text)
{
	struct message *m = &b->r.msg;

	part_payload(&b->env, m, b->r.rule, 0, ev == JSON_NULL);
	if (ev == JSON_NULL)
		return;
	pager_pad(&b->env, &m->run[RUN_CONTENT]);
	body_value_read(b, TAKE_MEDIA, AFTER_MEDIA, ev, text);
}

void body_media_end(struct body *b)
{
	struct message *m = &b->r.msg;

	pager_value(&b->env, &m->run[RUN_CONTENT], body_value_hash(b));
	m->any = false;
	b->r.shape |= SHAPE_MEDIA;
}

static void result_start(struct body *b, enum json_event ev)
{
	struct message *m = &b->r.msg;
	bool text = ev == JSON_STRING, parts = ev == JSON_ARRAY && m->n_parts < PART_LEVELS;

	part_payload(&b->env, m, b->r.rule, text || parts ? MARK_RESULT : 0, !text && !parts);
	if (text) {
		body_value_text(b, &m->run[RUN_CONTENT], AFTER_RESULT);
	} else if (parts) {
		m->any = false;
		body_enter(b, IN_PARTS, ev);
	} else {
		body_value_skip(b, ev);
	}
}

void body_result_end(struct body *b)
{
	mark_add(&b->env, &b->r.msg.run[RUN_CONTENT], MARK_RESULT_END);
	b->r.msg.any = true;
	b->r.shape |= SHAPE_RESULTS;
}

void body_part(struct body *b, enum json_event ev, struct span text)
{
	struct message *m = &b->r.msg;
	const struct rule *r = b->r.rule;

	switch ((enum act)r->act) {
	case ACT_TEXT:
		if (ev == JSON_STRING && r->arg == MARK_TEXT && billing_may_begin(b, 1)) {
			part_payload_later(&b->env, m, r);
			billing_start(b, AFTER_NOTHING, true);
			break;
		}
		if (r->arg == MARK_THINK && ev == JSON_STRING)
			b->r.shape |= SHAPE_THOUGHTS;
		part_payload(&b->env, m, r, ev == JSON_STRING ? r->arg : 0, ev != JSON_STRING);
		if (ev == JSON_STRING)
			body_value_text(b, &m->run[RUN_CONTENT], AFTER_NOTHING);
		else
			body_value_skip(b, ev);
		break;
	case ACT_JSON:
		part_payload(&b->env, m, r, r->arg, ev == JSON_NULL);
		m->part[m->n_parts - 1].call = ev != JSON_NULL;
		if (ev != JSON_NULL)
			b->r.shape |= r->arg == MARK_RESULT ? SHAPE_RESULTS : SHAPE_CALLS;
		value_start(b, &m->run[RUN_CONTENT], AFTER_NOTHING, ev, text);
		break;
	case ACT_PARTS:
		result_start(b, ev);
		break;
	case ACT_MEDIA:
		media_start(b, ev, text);
		break;
	case ACT_PART_NAME:
		digest_start_at(b, &m->part[m->n_parts - 1].name, AFTER_PART_NAME, ev, text);
		break;
	default:
		body_value_skip(b, ev);
	}
}

void body_call(struct body *b, enum json_event ev, struct span text)
{
	struct message *m = &b->r.msg;
	bool inner = b->r.level[b->r.json.depth] == IN_FUNCTION;

	switch ((enum act)b->r.rule->act) {
	case ACT_FUNCTION:
		if (ev == JSON_OBJECT && !inner)
			body_enter(b, IN_FUNCTION, ev);
		else
			body_value_skip(b, ev);
		break;
	case ACT_ARGUMENTS:
		call_arguments(&b->env, m);
		value_start(b, &m->run[RUN_CALLS], AFTER_NOTHING, ev, text);
		break;
	case ACT_CALL_NAME:
		digest_start_at(b, &m->call_name, AFTER_CALL_NAME, ev, text);
		break;
	default:
		body_value_skip(b, ev);
	}
}

void body_message_value(struct body *b, enum json_event ev, struct span text)
{
	struct message *m = &b->r.msg;

	switch ((enum act)b->r.rule->act) {
	case ACT_ROLE:
		m->role_seen = false;
		digest_start_at(b, &m->role, AFTER_ROLE, ev, text);
		break;
	case ACT_MESSAGE_NAME:
		digest_start_at(b, &m->name, AFTER_MESSAGE_NAME, ev, text);
		break;
	case ACT_TYPE:
		digest_start_at(b, &m->type, AFTER_TYPE, ev, text);
		break;
	case ACT_CONTENT:
		content_start(b, ev);
		break;
	case ACT_CALLS:
		calls_start(b, ev);
		break;
	case ACT_CALL_TEXT:
		call_text_start(b, ev, text);
		break;
	case ACT_ASIDE:
		aside_start(b, ev);
		break;
	default:
		body_value_skip(b, ev);
	}
}

void body_parts_element(struct body *b, enum json_event ev)
{
	struct message *m = &b->r.msg;

	if (ev == JSON_OBJECT && m->n_parts < PART_LEVELS) {
		part_open(m);
		body_enter(b, IN_PART, ev);
	} else if (ev == JSON_STRING && billing_may_begin(b, 0)) {
		billing_start(b, AFTER_NOTHING, true);
	} else if (ev == JSON_STRING) {
		part_text(&b->env, m);
		body_value_text(b, &m->run[RUN_CONTENT], AFTER_NOTHING);
	} else {
		body_value_skip(b, ev);
	}
}
