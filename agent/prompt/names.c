/* Names: model, adapter, salt, user.
 *
 *   - a name that is not a string is absent; of a list of adapters the first string counts; a
 *     salt of another type counts by a hash of its JSON text, because it separates caches too
 *   - "lora_path" goes before "lora_name" before "adapter_id", and "user" before
 *     "metadata": {"user_id"}, in any order of keys in the body
 *   - with both "cache_salt" and "extra_key" the salt is a hash of both
 *   - images beside the text (generate's "image_data") have no position among the pages; a hash
 *     of their content separates prompts as a salt does */
#include <stdio.h>

#include "agent/prompt/body_in.h"

enum { BOTH_SALTS = 0x53414c54 };

void name_set(struct prompt_name *m, const char *s, uint16_t n)
{
	if (m->n > n)
		memset(m->s + n, 0, m->n - n);
	memcpy(m->s, s, n);
	m->n = n;
}

void name_clear(struct prompt_name *m)
{
	if (m->n > 0)		/* six names of each body are cleared, and most are empty */
		memset(m->s, 0, m->n);
	m->n = 0;
	m->seen = false;
}

void name_copy(struct prompt_name *to, const struct prompt_name *from)
{
	name_set(to, from->s, from->n);
	to->seen = from->seen;
}

static void name_hash(struct prompt_name *m, uint64_t h)
{
	name_clear(m);
	m->n = (uint16_t)snprintf(m->s, sizeof(m->s), "hash:%016llx", (unsigned long long)h);
	m->seen = true;
}

static struct prompt_name *name_of(struct body *b, enum name_slot slot)
{
	switch (slot) {
	case NAME_MODEL:
		return &b->prompt.model;
	case NAME_LORA_PATH: case NAME_LORA_NAME: case NAME_ADAPTER:
		return &b->prompt.lora;
	case NAME_SALT: case NAME_EXTRA: case NAME_IMAGES:
		return &b->prompt.salt;
	default:
		return &b->prompt.user;
	}
}

/* Return the slot that holds a name which several keys can set, or NULL if only one key can. */
static enum name_slot *holder_of(struct request *r, enum name_slot slot)
{
	switch (slot) {
	case NAME_LORA_PATH: case NAME_LORA_NAME: case NAME_ADAPTER:
		return &r->lora_slot;
	case NAME_USER: case NAME_META_USER:
		return &r->user_slot;
	default:
		return NULL;
	}
}

static bool is_salt(enum name_slot slot)
{
	return slot >= NAME_SALT && slot <= NAME_IMAGES;
}

/* Combine the salts and images of the body into one salt. */
static void salt_join(struct body *b)
{
	const struct request *r = &b->r;
	uint64_t h = 0;
	unsigned int n = 0;

	if (r->salt_seen[0] && r->salt_seen[1]) {
		h = hash_mix(b->key, BOTH_SALTS, hash_mix(b->key, r->salt_hash[0], r->salt_hash[1]));
		n = 2;
	} else if (r->salt_seen[0] || r->salt_seen[1]) {
		h = r->salt_hash[r->salt_seen[1]];
		n = 1;
	}
	if (r->salt_seen[2])
		h = n > 0 ? hash_mix(b->key, h, r->salt_hash[2]) : r->salt_hash[2];
	b->prompt.salt.seen = n > 0 || r->salt_seen[2];
	if (b->prompt.salt.seen)
		name_hash(&b->prompt.salt, h);
}

static void salt_done(struct body *b, enum name_slot slot, uint64_t h, bool text)
{
	struct request *r = &b->r;
	unsigned int i = slot - NAME_SALT, n;

	r->salt_seen[i] = true;
	r->salt_hash[i] = h;
	n = r->salt_seen[0] + r->salt_seen[1] + r->salt_seen[2];
	if (n == 1 && text && slot != NAME_IMAGES)
		name_copy(&b->prompt.salt, &r->name);
	else
		salt_join(b);
}

void name_done(struct body *b)
{
	struct request *r = &b->r;
	enum name_slot slot = r->name_slot, *holder = holder_of(r, slot);
	uint64_t n = r->digest.n, h = digest_end(&r->digest, b->key);
	bool text = r->take == TAKE_NAME;

	if (slot >= NAME_USER)		/* it searches the text itself */
		named_set(b, slot, n > 0 ? h | 1 : 0, span_of(r->name.s, r->name.n));
	if (text && n > PROMPT_NAME_MAX)
		name_hash(&r->name, h);
	r->name.seen = true;
	if (slot > NAME_META_USER)
		return;
	if (is_salt(slot)) {
		salt_done(b, slot, h, text);
		return;
	}
	if (holder != NULL) {
		if (name_of(b, slot)->seen && *holder < slot)
			return;
		*holder = slot;
	}
	name_copy(name_of(b, slot), &r->name);
}

/* Forget the earlier value of a key that comes again. */
static void name_void(struct body *b, enum name_slot slot)
{
	struct request *r = &b->r;
	enum name_slot *holder = holder_of(r, slot);
	struct prompt_name *m = name_of(b, slot);

	if (slot >= NAME_USER)
		named_set(b, slot, 0, SPAN(""));
	if (slot > NAME_META_USER)
		return;
	if (is_salt(slot)) {
		if (!r->salt_seen[slot - NAME_SALT])
			return;
		r->salt_seen[slot - NAME_SALT] = false;
		salt_join(b);
	} else if (holder == NULL || *holder == slot) {
		m->seen = false;
	}
	if (!m->seen)
		name_clear(m);
}

void name_start(struct body *b, enum json_event ev, struct span text)
{
	enum name_slot slot = b->r.rule->arg;

	name_void(b, slot);
	b->r.name_slot = slot;
	if (ev == JSON_STRING)
		body_value_read(b, TAKE_NAME, AFTER_NAME, ev, text);
	else if (holder_of(&b->r, slot) == &b->r.lora_slot && ev == JSON_ARRAY)
		body_enter(b, IN_NAMES, ev);
	else if (is_salt(slot) && ev != JSON_NULL)
		body_value_read(b, TAKE_SALT, AFTER_NAME, ev, text);
	else
		body_value_skip(b, ev);
}

/* Read one element of a list of adapters. */
void name_element(struct body *b, enum json_event ev, struct span text)
{
	if (ev == JSON_STRING && !(b->prompt.lora.seen && b->r.lora_slot == b->r.name_slot))
		body_value_read(b, TAKE_NAME, AFTER_NAME, ev, text);
	else
		body_value_skip(b, ev);
}
