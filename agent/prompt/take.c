/* Values taken as a whole: whatever is in them, until they end.
 *
 *   TAKE_SKIP     nothing of it counts
 *   TAKE_TEXT     a string, into pages
 *   TAKE_JSON     any value as JSON text, into pages
 *   TAKE_DIGEST   a string, into one hash (role, name)
 *   TAKE_NAME     a string, kept (model, adapter, salt, user)
 *   TAKE_SALT     any value as JSON text, into one hash: a salt that is no string separates, too
 *   TAKE_MEDIA    any value, into one hash that does not depend on the order of keys, so that
 *                 "image_url": "U" and "image_url": {"url": "U"} are the same image
 *
 * What happens when the value ends was said at its start (enum after) and is done by body_taken(). */
#include "agent/prompt/body.h"

static bool is_scalar(enum json_event ev)
{
	return ev >= JSON_NUMBER;
}

static bool is_end(enum json_event ev)
{
	return ev == JSON_STRING_END || ev == JSON_OBJECT_END || ev == JSON_ARRAY_END ||
	       is_scalar(ev);
}

static bool is_string(enum json_event ev)
{
	return ev == JSON_STRING || ev == JSON_STRING_PART || ev == JSON_STRING_END;
}

static void name_add(struct request *r, struct span text)
{
	struct prompt_name *m = &r->name;
	size_t n = text.n;

	if (n > (size_t)(PROMPT_NAME_MAX - m->n))
		n = (size_t)(PROMPT_NAME_MAX - m->n);
	memcpy(m->s + m->n, text.p, n);
	m->n += (uint16_t)n;
}

/* Left out: "cache_control" of a tool. True: this event belongs to it. */
static bool dropped(struct request *r, uint16_t depth, enum json_event ev, struct span text)
{
	if (r->drop_depth != 0) {
		if (depth == r->drop_depth && is_end(ev))
			r->drop_depth = 0;
		return true;
	}
	if (ev != JSON_KEY || depth != r->drop_key_depth || !span_eq(text, SPAN("cache_control")))
		return false;
	r->drop_depth = depth;
	return true;
}

static void json_take(struct body *b, uint16_t depth, enum json_event ev, struct span text)
{
	char room[CANON_ROOM];
	struct span s;

	if (dropped(&b->r, depth, ev, text))
		return;
	s = canon_event(&b->r.canon, ev, text, room);
	pager_add(&b->env, b->r.out, s.p, s.n);
}

static void digest_take(struct body *b, enum json_event ev, struct span text)
{
	char room[CANON_ROOM];
	struct span s = canon_event(&b->r.canon, ev, text, room);

	digest_add(&b->r.digest, b->key, s.p, s.n);
}

static void media_key(struct body *b, struct span key)
{
	struct media *x = &b->r.media;

	x->plain = span_eq(key, SPAN("url")) || span_eq(key, SPAN("data")) ||
		   span_eq(key, SPAN("file_data"));
	x->skip = span_eq(key, SPAN("cache_control"));
	x->key = hash64(b->key, key.p, key.n);
	digest_start(&b->r.digest);
	b->r.canon.comma = false;
}

static void media_member_end(struct body *b)
{
	struct media *x = &b->r.media;
	uint64_t h = digest_end(&b->r.digest, b->key);

	if (!x->skip)
		x->sum += x->plain ? h : hash_mix(b->key, x->key, h);
}

/* A string as the value itself, or as a member of it, counts by its bytes; all else as JSON text. */
static void media_take(struct body *b, uint16_t depth, enum json_event ev, struct span text)
{
	struct request *r = &b->r;
	bool own = depth == r->take_depth;
	bool member = r->media.object && depth == r->take_depth + 1;

	if (own && (ev == JSON_OBJECT || ev == JSON_OBJECT_END)) {
		r->media.object = true;
		return;
	}
	if (member && ev == JSON_KEY) {
		media_key(b, text);
		return;
	}
	if (!(own || member) || !is_string(ev))
		digest_take(b, ev, text);
	else if (ev == JSON_STRING_PART)
		digest_add(&r->digest, b->key, text.p, text.n);
	if (member && is_end(ev) && ev != JSON_NULL)
		media_member_end(b);
}

uint64_t take_hash(struct body *b)
{
	if (b->r.take == TAKE_MEDIA && b->r.media.object)
		return b->r.media.sum;
	return digest_end(&b->r.digest, b->key);
}

void take_event(struct body *b, uint16_t depth, enum json_event ev, struct span text)
{
	struct request *r = &b->r;

	switch (r->take) {
	case TAKE_TEXT:
		if (ev == JSON_STRING_PART)
			pager_add(&b->env, r->out, text.p, text.n);
		break;
	case TAKE_JSON:
		json_take(b, depth, ev, text);
		break;
	case TAKE_NAME:
		if (ev == JSON_STRING_PART)
			name_add(r, text);
		/* fall through */
	case TAKE_DIGEST:
		if (ev == JSON_STRING_PART)
			digest_add(&r->digest, b->key, text.p, text.n);
		break;
	case TAKE_SALT:
		digest_take(b, ev, text);
		break;
	case TAKE_MEDIA:
		media_take(b, depth, ev, text);
		break;
	case TAKE_SKIP: case TAKE_NOTHING:
		break;
	}
	if (depth == r->take_depth && is_end(ev))
		body_taken(b);
}

/* <ev> starts a value: all of it goes there. */
void take_value(struct body *b, enum take what, enum after after, enum json_event ev,
		struct span text)
{
	struct request *r = &b->r;

	r->take = what;
	r->after = after;
	r->take_depth = r->json.depth;
	r->canon.comma = false;
	digest_start(&r->digest);
	if (what == TAKE_NAME)
		r->name.n = 0;
	if (what == TAKE_MEDIA)
		memset(&r->media, 0, sizeof(r->media));
	take_event(b, r->json.depth, ev, text);
}

void take_skip(struct body *b, enum json_event ev)
{
	if (is_scalar(ev))
		return;
	b->r.take = TAKE_SKIP;
	b->r.after = AFTER_NOTHING;
	b->r.take_depth = b->r.json.depth;
}

void take_text(struct body *b, struct pager *out, enum after after)
{
	b->r.out = out;
	b->r.take = TAKE_TEXT;
	b->r.after = after;
	b->r.take_depth = b->r.json.depth;
}

/* "cache_control" is left out <levels_to_cache_control> levels down (0: nowhere). */
void take_json(struct body *b, struct pager *out, enum after after, enum json_event ev,
	       struct span text, uint16_t levels_to_cache_control)
{
	struct request *r = &b->r;

	r->out = out;
	r->drop_depth = r->drop_key_depth = 0;
	if (levels_to_cache_control > 0)
		r->drop_key_depth = (uint16_t)(r->json.depth + levels_to_cache_control);
	take_value(b, TAKE_JSON, after, ev, text);
}
