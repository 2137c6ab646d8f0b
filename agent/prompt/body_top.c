/* body_top.c - values of keys at the top of a body, and in objects that only hold more such keys.
 *
 * body.c calls a function here when such a value starts, when system text or tools have ended, and
 * at the end of the body. A key that comes again drops at once what its earlier value has set, also
 * if the later one is null or of the wrong type. Pages of functions and documents are kept aside
 * until the end, because only then their order is known. */
#include "agent/prompt/body_in.h"

enum { TOOLS_END = 0x544f4f4c };

/* ---- system and tools ------------------------------------------------------------------------ */

static void system_open(struct body *b)
{
	message_open(&b->env, &b->r.msg, &b->prompt.system, b->side);
	b->r.msg.role = b->h_system;
}

void body_system_close(struct body *b)
{
	b->r.msg.role = b->h_system;	/* whatever "role" an object has */
	message_close(&b->env, &b->r.msg, false);
	b->r.system_units = b->r.msg.run[RUN_CONTENT].n_units;
	b->prompt.system_seen = true;
}

static void system_start(struct body *b, enum json_event ev)
{
	body_trail_void(b, &b->prompt.system);
	page_drop(&b->env, &b->prompt.system, 0);
	b->r.system_units = 0;
	b->prompt.system_seen = ev == JSON_NULL;
	if (ev == JSON_STRING) {
		system_open(b);
		if (billing_may_begin(b, 0))
			billing_start(b, AFTER_SYSTEM, false);
		else
			body_value_text(b, &b->r.msg.run[RUN_CONTENT], AFTER_SYSTEM);
	} else if (ev == JSON_ARRAY) {
		system_open(b);
		body_enter(b, IN_PARTS, ev);
	} else if (ev == JSON_OBJECT && b->r.rule->arg) {
		system_open(b);
		body_enter(b, IN_SYSTEM, ev);
	} else {
		body_value_skip(b, ev);
	}
}

static void tools_start(struct body *b, enum json_event ev, struct span text)
{
	unsigned int slot = b->r.rule->arg;
	struct page_vec *v = slot == TOOLS_TOOLS ? &b->prompt.tools : &b->slot[slot];

	body_trail_void(b, v);
	page_drop(&b->env, v, 0);
	b->r.tools_units[slot] = 0;
	if (slot == TOOLS_TOOLS) {
		b->prompt.tools_seen = ev == JSON_NULL;
		body_tools_void(b);
	}
	if (ev != JSON_ARRAY && ev != JSON_OBJECT) {
		body_value_skip(b, ev);
		return;
	}
	if (slot == TOOLS_TOOLS && body_tools_recall(b))
		return;
	b->r.tools_open = true;
	pager_start(&b->r.tools, v, 0);
	body_value_json(b, &b->r.tools, AFTER_TOOLS, ev, text, ev == JSON_ARRAY ? 2 : 0);
}

void body_tools_done(struct body *b)
{
	struct pager *pg = &b->r.tools;
	unsigned int slot = b->r.rule->arg;
	uint64_t word[3] = { (uint64_t)TOOLS_END << 32 | slot, pg->n_units, pager_rest(&b->env, pg) };

	b->r.tools_open = false;
	if (pg->n_units > EMPTY_TOOLS) {
		page_push(&b->env, pg->v, hash64(b->key, word, sizeof(word)));
		b->r.tools_units[slot] = pg->n_units;
	}
	if (slot == TOOLS_TOOLS) {
		b->prompt.tools_seen = true;
		body_tools_note(b);
	}
}

/* ---- numbers, and each key's value ---------------------------------------------------------- */

/* Return the whole part of a number in JSON, limited. A number with an exponent is 0. */
static int32_t number_of(struct span text, int32_t least, int32_t most)
{
	bool minus = text.n > 0 && text.p[0] == '-';
	int32_t v = 0, limit = minus ? -least : most;
	size_t i;

	if (memchr(text.p, 'e', text.n) != NULL || memchr(text.p, 'E', text.n) != NULL)
		return 0;
	for (i = minus; i < text.n && text.p[i] != '.'; i++)
		v = v * 10 + text.p[i] - '0' < limit ? v * 10 + text.p[i] - '0' : limit;
	return minus ? -v : v;
}

static void priority_start(struct body *b, enum json_event ev, struct span text)
{
	bool hint = b->r.rule->arg != 0;

	if (hint || !b->prompt.priority_hinted)
		b->prompt.priority = ev == JSON_NUMBER ?
			(int8_t)number_of(text, PROMPT_PRIORITY_MIN, PROMPT_PRIORITY_MAX) : 0;
	b->prompt.priority_hinted |= hint && ev == JSON_NUMBER;
	body_value_skip(b, ev);
}

static uint32_t output_of(enum json_event ev, struct span text)
{
	return ev == JSON_NUMBER ? (uint32_t)number_of(text, 0, PROMPT_OUTPUT_MAX) : 0;
}

static void limit_start(struct body *b, enum json_event ev, struct span text)
{
	uint32_t *limit = b->r.output_limit;

	limit[b->r.rule->arg] = output_of(ev, text);
	b->prompt.output_limit = limit[limit[1] > 0];
	body_value_skip(b, ev);
}

static void object_start(struct body *b, enum level what, enum json_event ev)
{
	if (ev == JSON_OBJECT)
		body_enter(b, what, ev);
	else
		body_value_skip(b, ev);
}

void body_top_value(struct body *b, enum json_event ev, struct span text)
{
	switch ((enum act)b->r.rule->act) {
	case ACT_NAME:
		name_start(b, ev, text);
		break;
	case ACT_METADATA:
		object_start(b, IN_METADATA, ev);
		break;
	case ACT_NVEXT:
		object_start(b, IN_NVEXT, ev);
		break;
	case ACT_HINTS:
		object_start(b, IN_HINTS, ev);
		break;
	case ACT_LIMITS:
		object_start(b, IN_LIMITS, ev);
		break;
	case ACT_CONVERSATION:
		conversation_start(b, ev, text);
		break;
	case ACT_PRIORITY:
		priority_start(b, ev, text);
		break;
	case ACT_LIMIT:
		limit_start(b, ev, text);
		break;
	case ACT_OUTPUT:
		b->prompt.output_hint = output_of(ev, text);
		body_value_skip(b, ev);
		break;
	case ACT_TRUNCATE:
		b->prompt.truncates = ev != JSON_NULL;
		body_value_skip(b, ev);
		break;
	case ACT_OPTION:
		b->r.options |= ev != JSON_NULL && ev != JSON_FALSE;
		body_value_skip(b, ev);
		break;
	case ACT_STREAM:
		b->prompt.streams = ev == JSON_TRUE;
		body_value_skip(b, ev);
		break;
	case ACT_SYSTEM:
		system_start(b, ev);
		break;
	case ACT_TOOLS:
		tools_start(b, ev, text);
		break;
	case ACT_MESSAGES:
		body_messages(b, ev);
		break;
	case ACT_PROMPT:
		prompt_start(b, ev, text);
		break;
	default:
		body_value_skip(b, ev);
	}
}

/* ---- the end of the body --------------------------------------------------------------------- */

void body_top_end(struct body *b)
{
	unsigned int i;

	for (i = TOOLS_FUNCTIONS; i < TOOLS_SLOTS; i++) {
		page_append(&b->env, &b->prompt.tools, b->slot[i].p, b->slot[i].n);
		b->slot[i].n = 0;
	}
}
