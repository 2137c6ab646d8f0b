/* Names of which only a keyed hash is kept: of a session, and of the response before this one.
 *
 * Claude Code puts its session into "metadata": {"user_id"}, in one of two forms:
 *
 *   user_<hash>_account_<uuid>_session_<uuid>
 *   {"device_id":"...","account_uuid":"...","session_id":"<uuid>"}
 *
 * Text of another form is a user. A value that is longer than PROMPT_NAME_MAX is searched in its
 * first bytes only. */
#include "agent/prompt/body_in.h"

enum { SESSION_PART = 0x53455353, RESPONSE = 0x52455350 };

/* Return what follows the last <word> in <s>; .n 0: nothing does. */
static struct span after_last(struct span s, struct span word)
{
	for (size_t i = s.n >= word.n ? s.n - word.n + 1 : 0; i-- > 0;)
		if (memcmp(s.p + i, word.p, word.n) == 0)
			return span_of(s.p + i + word.n, s.n - i - word.n);
	return span_of(s.p, 0);
}

static struct span without_space(struct span s)
{
	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t' || s.p[0] == '\n' || s.p[0] == '\r'))
		s = span_of(s.p + 1, s.n - 1);
	return s;
}

/* Return the string after a key of JSON. It is compared only, so escapes stay as they are. */
static struct span string_after_colon(struct span s)
{
	const char *end;

	s = without_space(s);
	if (s.n == 0 || s.p[0] != ':')
		return span_of(s.p, 0);
	s = without_space(span_of(s.p + 1, s.n - 1));
	if (s.n == 0 || s.p[0] != '"' || (end = memchr(s.p + 1, '"', s.n - 1)) == NULL)
		return span_of(s.p, 0);
	return span_of(s.p + 1, (size_t)(end - s.p) - 1);
}

static struct span session_part(struct span user_id)
{
	if (user_id.n > 0 && user_id.p[0] == '{')
		return string_after_colon(after_last(user_id, SPAN("\"session_id\"")));
	return after_last(user_id, SPAN("_session_"));
}

static uint64_t part_hash(const struct body *b, struct span s)
{
	return s.n > 0 ? hash_mix_span(b->key, SESSION_PART, s) | 1 : 0;
}

uint64_t prompt_response_hash(const struct hash_key *key, struct span id)
{
	struct digest d = { .used = 0 };

	digest_start(&d);
	digest_add(&d, key, id.p, id.n);
	return id.n > 0 ? hash_mix(key, RESPONSE, digest_end(&d, key) | 1) | 1 : 0;
}

void named_set(struct body *b, enum name_slot slot, uint64_t h, struct span text)
{
	struct prompt *p = &b->prompt;

	switch (slot) {
	case NAME_CACHE_KEY:
		p->named[NAMED_CACHE_KEY] = h;
		break;
	case NAME_CONVERSATION:
		p->named[NAMED_CONVERSATION] = h;
		break;
	case NAME_SAFETY:
		p->named[NAMED_SAFETY] = h;
		break;
	case NAME_USER:
		p->named[NAMED_USER] = h;
		break;
	case NAME_META_USER:
		p->named[NAMED_META_USER] = h;
		p->named[NAMED_SESSION] = part_hash(b, session_part(text));
		break;
	case NAME_RESPONSE:
		p->previous = h != 0 ? hash_mix(b->key, RESPONSE, h) | 1 : 0;
		break;
	default:
		break;
	}
}

void conversation_start(struct body *b, enum json_event ev, struct span text)
{
	if (ev != JSON_OBJECT) {
		name_start(b, ev, text);
		return;
	}
	named_set(b, NAME_CONVERSATION, 0, SPAN(""));
	body_enter(b, IN_CONVERSATION, ev);
}
