/* Decode batches of KV cache events. Positions of array events are a table for each tag, keys of
 * map events a table of names; both lead to one function that stores a field. A field of another
 * type than its own makes the event bad and leaves the batch readable. */
#include "agent/feed/kvevent.h"

enum field {
	FIELD_NONE,
	FIELD_TYPE,
	FIELD_HASHES,
	FIELD_PARENT,
	FIELD_TOKENS,
	FIELD_BLOCK_SIZE,
	FIELD_LORA_ID,
	FIELD_MEDIUM,
	FIELD_LORA_NAME,
	FIELD_EXTRA,
	FIELD_GROUP,
	FIELD_ATTENTION,
	FIELD_LOCALITY,
	FIELD_SALT,
	FIELD_ORIGIN,
	FIELD_METADATA
};

static const uint8_t stored_positions[] = {
	FIELD_HASHES, FIELD_PARENT, FIELD_TOKENS, FIELD_BLOCK_SIZE, FIELD_LORA_ID, FIELD_MEDIUM,
	FIELD_METADATA, FIELD_EXTRA, FIELD_GROUP, FIELD_ATTENTION,
};
static const uint8_t removed_positions[] = { FIELD_HASHES, FIELD_MEDIUM, FIELD_GROUP };

static const struct { struct span key; enum field field; } keys[] = {
	{ { "type", 4 }, FIELD_TYPE },
	{ { "block_hashes", 12 }, FIELD_HASHES },
	{ { "parent_block_hash", 17 }, FIELD_PARENT },
	{ { "token_ids", 9 }, FIELD_TOKENS },
	{ { "block_size", 10 }, FIELD_BLOCK_SIZE },
	{ { "lora_id", 7 }, FIELD_LORA_ID },
	{ { "medium", 6 }, FIELD_MEDIUM },
	{ { "lora_name", 9 }, FIELD_LORA_NAME },
	{ { "extra_keys", 10 }, FIELD_EXTRA },
	{ { "group_idx", 9 }, FIELD_GROUP },
	{ { "kv_cache_spec_kind", 18 }, FIELD_ATTENTION },
	{ { "locality", 8 }, FIELD_LOCALITY },
	{ { "cache_salt", 10 }, FIELD_SALT },
	{ { "origin", 6 }, FIELD_ORIGIN },
};

const char *kvevent_strerror(int error)
{
	static const char *const texts[KVEVENT_E_COUNT] = {
		[KVEVENT_E_FORM] = "the payload is not MessagePack",
		[KVEVENT_E_BATCH] = "the payload is not a batch of KV cache events",
	};

	return error > 0 && error < KVEVENT_E_COUNT ? texts[error] : "";
}

/* ---- values -------------------------------------------------------------------------------- */

/* Read the next value: set <v> to its head and <in> to what is inside it, and move <r> past all of
 * it. Returns false at the end, or if it is malformed. */
static bool next_value(struct msgpack *r, struct msgpack *in, struct msgpack_value *v)
{
	*in = *r;
	return msgpack_skip(r) && msgpack_next(in, v);
}

/* Read the next key and value of a map. The key is empty if it is no string. */
static bool next_member(
    struct msgpack *r, struct span *key, struct msgpack *in, struct msgpack_value *v)
{
	struct msgpack_value k;
	struct msgpack unused;

	if (!next_value(r, &unused, &k) || !next_value(r, in, v))
		return false;
	*key = k.type == MSGPACK_STR ? k.s : (struct span){ 0 };
	return true;
}

static bool hash_of(const struct msgpack_value *v, uint64_t *hash)
{
	uint64_t h = 0;

	if (v->type == MSGPACK_UINT || v->type == MSGPACK_NEGATIVE) {
		*hash = v->u;
		return true;
	}
	if (v->type != MSGPACK_BIN || v->s.n < 8)
		return false;
	for (size_t i = v->s.n - 8; i < v->s.n; i++)
		h = h << 8 | (uint8_t)v->s.p[i];
	*hash = h;
	return true;
}

bool kvevent_hash(struct kv_list *l, uint64_t *hash)
{
	struct msgpack_value v;

	if (l->left == 0 || !msgpack_next(&l->at, &v) || !hash_of(&v, hash))
		return false;
	l->left--;
	return true;
}

/* Read the first of a pair and skip the second. */
static bool pair(struct msgpack *r, uint32_t *out)
{
	struct msgpack_value v;

	return msgpack_next(r, &v) && v.type == MSGPACK_ARRAY && v.n == 2 && msgpack_u32(r, out) &&
	       msgpack_skip(r);
}

bool kvevent_tokens(struct kv_list *l, uint32_t *out, uint32_t n)
{
	if (n > l->left)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (l->at.p < l->at.end && *l->at.p == 0x92 ? !pair(&l->at, &out[i])
							    : !msgpack_u32(&l->at, &out[i]))
			return false;
	l->left -= n;
	return true;
}

static void extra_string(struct span s, struct span lora_name, bool first, struct kv_extra *out)
{
	if (lora_name.n > 0 && span_eq(s, lora_name))
		return;
	if (first && out->salt.n == 0 && s.n > 0)
		out->salt = s;
	else
		out->other = true;
}

bool kvevent_extra(struct kv_list *l, struct span lora_name, bool first, struct kv_extra *out)
{
	struct msgpack_value v, x;
	struct msgpack at, unused;

	*out = (struct kv_extra){ 0 };
	if (l->left == 0 || !next_value(&l->at, &at, &v))
		return false;
	l->left--;
	if (v.type == MSGPACK_NIL)
		return true;
	out->other = v.type != MSGPACK_ARRAY;
	for (uint32_t i = 0; v.type == MSGPACK_ARRAY && i < v.n; i++) {
		if (!next_value(&at, &unused, &x))
			return false;
		if (x.type == MSGPACK_STR)
			extra_string(x.s, lora_name, first, out);
		else
			out->other = true;
	}
	return true;
}

static bool same_word(struct span s, const char *word)
{
	size_t n = strlen(word);

	if (s.n != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if ((s.p[i] & ~0x20) != (word[i] & ~0x20))
			return false;
	return true;
}

static bool one_of(struct span s, const char *const *words)
{
	for (; *words != NULL; words++)
		if (same_word(s, *words))
			return true;
	return false;
}

static enum kv_tier tier_of(struct span medium)
{
	static const char *const device[] = { "GPU", "DEVICE", "HBM", NULL };
	static const char *const host[] = { "CPU", "CPU_PINNED", "CPU_TIER1", NULL };
	static const char *const disk[] = { "CPU_TIER2", "DISK", "NVME", "STORAGE", NULL };

	if (one_of(medium, device))
		return TIER_DEVICE;
	if (one_of(medium, host))
		return TIER_HOST;
	return one_of(medium, disk) ? TIER_DISK : TIER_REMOTE;
}

static enum kv_attention attention_of(struct span kind)
{
	static const char *const full[] = {
		"full_attention", "mla_attention", "sink_full_attention", NULL
	};

	return one_of(kind, full) ? ATTENTION_FULL : ATTENTION_OTHER;
}

static enum kvevent_kind kind_of(struct span tag)
{
	if (span_eq(tag, SPAN("BlockStored")))
		return KVEVENT_STORED;
	if (span_eq(tag, SPAN("BlockRemoved")))
		return KVEVENT_REMOVED;
	return span_eq(tag, SPAN("AllBlocksCleared")) ? KVEVENT_CLEARED : KVEVENT_UNKNOWN;
}

/* ---- fields -------------------------------------------------------------------------------- */

static bool set_list(struct kv_list *l, const struct msgpack *r, const struct msgpack_value *v)
{
	if (v->type != MSGPACK_ARRAY)
		return false;
	*l = (struct kv_list){ *r, v->n };
	return true;
}

static bool set_text(struct span *s, const struct msgpack_value *v)
{
	if (v->type != MSGPACK_STR)
		return false;
	*s = v->s;
	return true;
}

static bool set_u32(uint32_t *to, const struct msgpack_value *v)
{
	*to = (uint32_t)v->u;
	return v->type == MSGPACK_UINT && v->u <= UINT32_MAX;
}

/* Store one field. <r> is after the head <v>. nil is as good as absent. */
static bool set_field(struct kvevent *e, enum field f, const struct msgpack *r,
		      const struct msgpack_value *v)
{
	struct span s;

	if (v->type == MSGPACK_NIL)
		return f != FIELD_HASHES && f != FIELD_TYPE;
	switch (f) {
	case FIELD_TYPE:
		if (!set_text(&s, v))
			return false;
		e->kind = kind_of(s);
		return true;
	case FIELD_HASHES:
		return set_list(&e->hashes, r, v);
	case FIELD_PARENT:
		e->has_parent = true;
		return hash_of(v, &e->parent);
	case FIELD_TOKENS:
		return set_list(&e->tokens, r, v);
	case FIELD_BLOCK_SIZE:
		return set_u32(&e->block_size, v);
	case FIELD_LORA_ID:
		e->has_lora_id = true;
		e->lora_id = (int64_t)v->u;
		return v->type == MSGPACK_UINT || v->type == MSGPACK_NEGATIVE;
	case FIELD_MEDIUM:
		if (!set_text(&s, v))
			return false;
		e->tier = tier_of(s);
		return true;
	case FIELD_LORA_NAME:
		return set_text(&e->lora_name, v);
	case FIELD_EXTRA:
		return set_list(&e->extra, r, v);
	case FIELD_GROUP:
		e->has_group = true;
		return set_u32(&e->group, v);
	case FIELD_ATTENTION:
		if (!set_text(&s, v))
			return false;
		e->attention = attention_of(s);
		return true;
	case FIELD_LOCALITY:
		if (!set_text(&s, v))
			return false;
		e->remote = !same_word(s, "LOCAL");
		return true;
	case FIELD_SALT:
		return set_text(&e->salt, v);
	case FIELD_ORIGIN:
		if (!set_text(&s, v))
			return false;
		e->reused = same_word(s, "REUSED");
		return true;
	case FIELD_NONE: case FIELD_METADATA:
		break;
	}
	return true;
}

static enum field key_field(struct span key)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (span_eq(keys[i].key, key))
			return keys[i].field;
	return FIELD_NONE;
}

/* Read <pairs> keys and values. A key that is no string is skipped with its value. */
static bool read_map(struct kvevent *e, struct msgpack r, uint32_t pairs)
{
	struct msgpack_value v;
	struct msgpack in;
	struct span key;

	for (; pairs > 0; pairs--)
		if (!next_member(&r, &key, &in, &v) || !set_field(e, key_field(key), &in, &v))
			return false;
	return true;
}

/* The seventh value after the tag: the name of an adapter (vLLM), or a map with a salt (SGLang). */
static bool set_metadata(struct kvevent *e, const struct msgpack *r, const struct msgpack_value *v)
{
	return v->type == MSGPACK_MAP ? read_map(e, *r, v->n) : set_field(e, FIELD_LORA_NAME, r, v);
}

static bool read_positions(struct kvevent *e, struct msgpack r, uint32_t n)
{
	const uint8_t *positions = e->kind == KVEVENT_STORED ? stored_positions : removed_positions;
	size_t known = e->kind == KVEVENT_STORED ? sizeof(stored_positions) :
		       e->kind == KVEVENT_REMOVED ? sizeof(removed_positions) : 0;
	struct msgpack_value v;
	struct msgpack at;

	for (size_t i = 0; i < n && i < known; i++) {
		if (!next_value(&r, &at, &v))
			return false;
		if (positions[i] == FIELD_METADATA ? !set_metadata(e, &at, &v)
						   : !set_field(e, positions[i], &at, &v))
			return false;
	}
	return true;
}

static bool read_array(struct kvevent *e, struct msgpack r, uint32_t n)
{
	struct msgpack_value tag;

	if (n == 0 || !msgpack_next(&r, &tag) || tag.type != MSGPACK_STR)
		return false;
	e->kind = kind_of(tag.s);
	return read_positions(e, r, n - 1);
}

/* A stored or removed event without hashes says nothing. */
static bool complete(const struct kvevent *e)
{
	return e->hashes.at.p != NULL || (e->kind != KVEVENT_STORED && e->kind != KVEVENT_REMOVED);
}

bool kvevent_next(struct kvevent_batch *b, struct kvevent *e)
{
	struct msgpack_value v;
	struct msgpack at;
	bool good;

	*e = (struct kvevent){ .kind = KVEVENT_UNKNOWN };
	if (b->events.left == 0 || !next_value(&b->events.at, &at, &v))
		return false;
	b->events.left--;
	if (v.type == MSGPACK_ARRAY)
		good = read_array(e, at, v.n);
	else
		good = v.type == MSGPACK_MAP && read_map(e, at, v.n);
	if (!good || !complete(e))
		*e = (struct kvevent){ .kind = KVEVENT_BAD };
	return true;
}

/* ---- the batch ------------------------------------------------------------------------------- */

static bool set_time(struct kvevent_batch *b, const struct msgpack_value *v)
{
	b->time = v->type == MSGPACK_FLOAT ? v->f : (double)v->u;
	return v->type == MSGPACK_FLOAT || v->type == MSGPACK_UINT;
}

static bool set_rank(struct kvevent_batch *b, const struct msgpack_value *v)
{
	b->has_rank = v->type != MSGPACK_NIL;
	return !b->has_rank || set_u32(&b->rank, v);
}

/* [time, events, rank, epoch, ...]: the first two are always there. */
static bool open_array(struct kvevent_batch *b, struct msgpack r, uint32_t n)
{
	struct msgpack_value v;
	struct msgpack at;

	for (uint32_t i = 0; i < n; i++) {
		bool good = true;

		if (!next_value(&r, &at, &v))
			return false;
		if (i == 0)
			good = set_time(b, &v);
		else if (i == 1)
			good = set_list(&b->events, &at, &v);
		else if (i == 2)
			good = set_rank(b, &v);
		else if (i == 3 && v.type == MSGPACK_STR)
			b->epoch = v.s;
		if (!good)
			return false;
	}
	return n >= 2;
}

static bool open_pair(struct kvevent_batch *b, struct span key, const struct msgpack *at,
		      const struct msgpack_value *v)
{
	if (span_eq(key, SPAN("ts")))
		return set_time(b, v);
	if (span_eq(key, SPAN("events")))
		return set_list(&b->events, at, v);
	if (span_eq(key, SPAN("data_parallel_rank")) || span_eq(key, SPAN("attn_dp_rank")) ||
	    span_eq(key, SPAN("dp_rank")))
		return set_rank(b, v);
	if (span_eq(key, SPAN("publisher_epoch")) && v->type == MSGPACK_STR)
		b->epoch = v->s;
	return true;
}

static bool open_map(struct kvevent_batch *b, struct msgpack r, uint32_t pairs)
{
	struct msgpack_value v;
	struct msgpack in;
	struct span key;

	for (; pairs > 0; pairs--)
		if (!next_member(&r, &key, &in, &v) || !open_pair(b, key, &in, &v))
			return false;
	return b->events.at.p != NULL;
}

int kvevent_open(struct kvevent_batch *b, struct span payload)
{
	struct msgpack all = msgpack_of(payload), r = all;
	struct msgpack_value v;
	bool good;

	*b = (struct kvevent_batch){ 0 };
	if (!msgpack_skip(&all) || all.p != all.end || !msgpack_next(&r, &v))
		return -KVEVENT_E_FORM;
	if (v.type == MSGPACK_ARRAY)
		good = open_array(b, r, v.n);
	else
		good = v.type == MSGPACK_MAP && open_map(b, r, v.n);
	if (!good)
		return -KVEVENT_E_BATCH;
	b->n_events = b->events.left;
	return 0;
}
