/* Consume values whole, with everything in them, until they end.
 *
 *   TAKE_SKIP     ignore the value
 *   TAKE_TEXT     a string: hash it into pages
 *   TAKE_BILLING  the same, unless it begins as billing.c says
 *   TAKE_JSON     any value: hash its JSON text into pages
 *   TAKE_DIGEST   a string: compute one hash (role, name)
 *   TAKE_NAME     a string: keep it (model, adapter, salt, user)
 *   TAKE_SALT     any value: compute one hash of its JSON text, because such a salt separates too
 *   TAKE_MEDIA    any value: compute one hash that does not depend on the order of keys, so that
 *                 "image_url": "U" and "image_url": {"url": "U"} are the same image
 *
 * The start of a value sets the action for its end (enum after); body_taken() carries it out. */
#include "agent/prompt/body_in.h"

static bool is_scalar(enum json_event ev)
{
	return ev >= JSON_NUMBER && ev <= JSON_NULL;
}

static bool is_end(enum json_event ev)
{
	return ev == JSON_STRING_END || ev == JSON_OBJECT_END || ev == JSON_ARRAY_END ||
	       is_scalar(ev);
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

/* Return the text of an event. An object or array is read as text from here on. */
static struct span value_text(struct body *b, enum json_event ev, struct span text)
{
	switch (ev) {
	case JSON_OBJECT: case JSON_ARRAY:
		json_as_text(&b->r.json, b->r.drop_levels, "cache_control");
		break;
	case JSON_TEXT: case JSON_NUMBER: case JSON_STRING_PART:
		return text;
	case JSON_TRUE:
		return SPAN("true");
	case JSON_FALSE:
		return SPAN("false");
	default:
		break;
	}
	return SPAN("");
}

static void digest_take(struct body *b, enum json_event ev, struct span text)
{
	struct span s = value_text(b, ev, text);

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
}

static void media_member_end(struct body *b)
{
	struct media *x = &b->r.media;
	uint64_t h = digest_end(&b->r.digest, b->key);

	if (!x->skip)
		x->sum += x->plain ? h : hash_mix(b->key, x->key, h);
}

/* Hash each member of the value by itself; a nested value counts as text. */
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
	digest_take(b, ev, text);
	if (member && is_end(ev) && ev != JSON_NULL)
		media_member_end(b);
}

uint64_t body_value_hash(struct body *b)
{
	if (b->r.take == TAKE_MEDIA && b->r.media.object)
		return b->r.media.sum;
	return digest_end(&b->r.digest, b->key);
}

void body_value_event(struct body *b, uint16_t depth, enum json_event ev, struct span text)
{
	struct request *r = &b->r;

	switch (r->take) {
	case TAKE_TEXT:		/* on_event() handles the text itself */
		break;
	case TAKE_BILLING:
		billing_event(b, ev, text);
		break;
	case TAKE_JSON:
		text = value_text(b, ev, text);
		pager_add(&b->env, r->out, text.p, text.n);
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

/* Consume the value that <ev> starts. */
void body_value_read(struct body *b, enum take what, enum after after, enum json_event ev,
		struct span text)
{
	struct request *r = &b->r;

	r->take = what;
	r->after = after;
	r->take_depth = r->json.depth;
	r->drop_levels = 0;
	digest_start(&r->digest);
	if (what == TAKE_NAME)
		name_clear(&r->name);
	if (what == TAKE_MEDIA)
		memset(&r->media, 0, sizeof(r->media));
	body_value_event(b, r->json.depth, ev, text);
}

void body_value_skip(struct body *b, enum json_event ev)
{
	if (is_scalar(ev))
		return;
	b->r.take = TAKE_SKIP;
	b->r.after = AFTER_NOTHING;
	b->r.take_depth = b->r.json.depth;
}

void body_value_text(struct body *b, struct pager *out, enum after after)
{
	b->r.out = out;
	b->r.take = TAKE_TEXT;
	b->r.after = after;
	b->r.take_depth = b->r.json.depth;
}

/* Consume a value as JSON text. "cache_control" is dropped <drop_levels> levels down (0:
 * nowhere). */
void body_value_json(struct body *b, struct pager *out, enum after after, enum json_event ev,
	       struct span text, uint16_t drop_levels)
{
	struct request *r = &b->r;

	r->out = out;
	r->take = TAKE_JSON;
	r->after = after;
	r->take_depth = r->json.depth;
	r->drop_levels = drop_levels;
	body_value_event(b, r->json.depth, ev, text);
}
