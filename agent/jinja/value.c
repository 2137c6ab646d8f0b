/* The arena, dicts, and equality.
 *
 * Chunks double from 16 KiB to 1 MiB. One is kept over a reset, so that a thread that renders
 * repeatedly allocates nothing. The last block can grow in place (jinja_mem_grow), so that text
 * built piece by piece is copied only when a chunk is full.
 *
 * Dicts of up to 8 entries are searched linearly, which is faster than a hash for the dicts of
 * messages: lengths are compared first, then bytes. Larger ones (a tool's properties, hostile
 * bodies) have an index hashed with the caller's secret, so that no client can make names
 * collide. Numbers that are equal in Python (1, 1.0, True) have equal hashes. */
#include <errno.h>
#include <math.h>

#include "agent/base/mem.h"
#include "agent/jinja/run_in.h"
#include "agent/jinja/value.h"

#define CHUNK_MIN	16384
#define CHUNK_MAX	(1u << 20)
#define SCAN_MAX	8	/* entries of a dict without an index */
#define EQ_DEPTH	200
/* pairs of values, or 64 bytes of text each; for callers that count no steps */
#define EQ_WORK		(1u << 20)

struct chunk {
	struct chunk *next;
	size_t room, used;
	_Alignas(16) char bytes[];
};

struct jinja_mem {
	struct chunk *chunks;		/* the first one is being filled */
	size_t total, max;		/* bytes of all chunks; their bound */
	const struct hash_key *key;
	bool full;
};

struct jinja_mem *jinja_mem_new(size_t max_bytes, const struct hash_key *key)
{
	struct jinja_mem *m = mem_alloc(sizeof(*m));

	if (m == NULL)
		return NULL;
	m->max = max_bytes < (1u << 30) ? max_bytes : 1u << 30;
	m->key = key;
	return m;
}

void jinja_mem_free(struct jinja_mem *m)
{
	struct chunk *c, *next;

	if (m == NULL)
		return;
	for (c = m->chunks; c != NULL; c = next) {
		next = c->next;
		mem_free(c);
	}
	mem_free(m);
}

/* Free all chunks but the one added last, which is the largest. */
void jinja_mem_reset(struct jinja_mem *m)
{
	struct chunk *c, *next;

	m->full = false;
	if (m->chunks == NULL)
		return;
	for (c = m->chunks->next; c != NULL; c = next) {
		next = c->next;
		m->total -= c->room;
		mem_free(c);
	}
	m->chunks->next = NULL;
	m->chunks->used = 0;
	if (m->chunks->room > CHUNK_MAX) {
		mem_free(m->chunks);
		m->chunks = NULL;
		m->total = 0;
	}
}

void jinja_mem_wipe(struct jinja_mem *m)
{
	struct chunk *c;

	for (c = m->chunks; c != NULL; c = c->next)
		mem_wipe(c->bytes, c->used);
	jinja_mem_reset(m);
}

bool jinja_mem_full(const struct jinja_mem *m)
{
	return m->full;
}

size_t jinja_mem_used(const struct jinja_mem *m)
{
	const struct chunk *c;
	size_t n = 0;

	for (c = m->chunks; c != NULL; c = c->next)
		n += c->used;
	return n;
}

static void *take_in_new_chunk(struct jinja_mem *m, size_t n)
{
	size_t room = m->chunks == NULL ? CHUNK_MIN : m->chunks->room * 2;
	struct chunk *c;

	if (room > CHUNK_MAX)
		room = CHUNK_MAX;
	if (room < n)
		room = n;
	if (room > m->max - m->total)
		room = n;
	if (n > m->max - m->total) {
		m->full = true;
		errno = ENOMEM;
		return NULL;
	}
	c = mem_resize(NULL, 1, sizeof(*c) + room);
	if (c == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	c->room = room;
	c->used = n;
	c->next = m->chunks;
	m->chunks = c;
	m->total += room;
	return c->bytes;
}

void *jinja_mem_take(struct jinja_mem *m, size_t n)
{
	struct chunk *c = m->chunks;
	char *p;

	if (n > m->max)
		n = m->max + 1;		/* exceeds the bound without overflow below */
	n = (n + 15) & ~(size_t)15;
	if (c == NULL || n > c->room - c->used)
		return take_in_new_chunk(m, n);
	p = c->bytes + c->used;
	c->used += n;
	return p;
}

void *jinja_mem_grow(struct jinja_mem *m, void *p, size_t n, size_t want)
{
	struct chunk *c = m->chunks;
	size_t old = (n + 15) & ~(size_t)15, new = (want + 15) & ~(size_t)15;
	char *q;

	if (p != NULL && c != NULL && (char *)p + old == c->bytes + c->used &&
	    new >= old &&new - old <= c->room - c->used) {
		c->used += new - old;
		return p;
	}
	q = jinja_mem_take(m, want);
	if (q != NULL && n > 0)
		memcpy(q, p, n);
	return q;
}

/* ---- numbers and strings as keys --------------------------------------------------------- */

static bool is_integral(struct jval v, int64_t *i)
{
	if (v.kind == JV_INT || v.kind == JV_BOOL) {
		*i = v.i;
		return true;
	}
	if (v.kind != JV_FLOAT || !(v.f >= -9223372036854775808.0 && v.f < 9223372036854775808.0) ||
	    v.f != floor(v.f))
		return false;
	*i = (int64_t)v.f;
	return true;
}

static bool numbers_eq(struct jval a, struct jval b)
{
	int64_t x, y;

	if (a.kind == JV_BIG || b.kind == JV_BIG)
		return a.kind == b.kind && span_eq(jval_span(a), jval_span(b));
	if (a.kind == JV_FLOAT && b.kind == JV_FLOAT)
		return a.f == b.f;
	return is_integral(a, &x) && is_integral(b, &y) && x == y;
}

static inline bool is_number(unsigned kind)
{
	return kind == JV_INT || kind == JV_BOOL || kind == JV_FLOAT || kind == JV_BIG;
}

static uint64_t key_hash(const struct hash_key *key, struct jval k)
{
	int64_t i;

	if (k.kind == JV_STR || k.kind == JV_BIG)
		return hash64(key, k.s, k.n);
	if (is_integral(k, &i))
		return hash64(key, &i, sizeof(i));
	if (k.kind == JV_FLOAT)
		return hash64(key, &k.f, sizeof(k.f));
	return k.kind;		/* None and tuples, which are rarely keys */
}

/* Tell if a value can be a key. <left> bounds the work, because nested tuples may repeat one value
 * exponentially often. */
static bool hashable_at(struct jval v, unsigned depth, uint32_t *left)
{
	uint32_t i;

	if (v.kind != JV_TUPLE)
		return v.kind != JV_LIST && v.kind != JV_DICT && v.kind != JV_VIEW;
	for (i = 0; i < v.n && depth <= EQ_DEPTH; i++)
		if (*left == 0 || --*left == 0 || !hashable_at(v.v[i], depth + 1, left))
			return false;
	return depth <= EQ_DEPTH;
}

bool jval_hashable(struct jval v)
{
	uint32_t left = EQ_WORK;

	return hashable_at(v, 0, &left);
}

/* ---- dicts ------------------------------------------------------------------------------- */

struct jval jval_dict(struct jinja_mem *m, uint32_t room)
{
	struct jdict *d = jinja_mem_take(m, sizeof(*d));
	struct jval v = { .kind = JV_DICT };

	if (d == NULL)
		return (struct jval){ .kind = JV_MISSING };
	memset(d, 0, sizeof(*d));
	d->key = m->key;
	if (room > 0) {
		d->entry = jinja_mem_take(m, room * sizeof(*d->entry));
		if (d->entry == NULL)
			return (struct jval){ .kind = JV_MISSING };
		d->room = room;
	}
	v.d = d;
	return v;
}

static inline bool key_eq(struct jval a, struct jval b)
{
	if (a.kind == JV_STR && b.kind == JV_STR)
		return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
	return jval_eq(a, b);
}

/* Return the index slot of <key>, or the free slot for it. */
static uint32_t *place_of(const struct jdict *d, struct jval key)
{
	uint64_t at = key_hash(d->key, key);
	uint32_t e;

	for (;; at++) {
		e = d->index[at & (d->slots - 1)];
		if (e == 0 || key_eq(d->entry[e - 1].key, key))
			return &d->index[at & (d->slots - 1)];
	}
}

struct jval *jdict_get(const struct jdict *d, struct jval key)
{
	uint32_t i;

	if (d->slots > 0) {
		i = *place_of(d, key);
		return i == 0 ? NULL : &d->entry[i - 1].value;
	}
	for (i = 0; i < d->n; i++)
		if (key_eq(d->entry[i].key, key))
			return &d->entry[i].value;
	return NULL;
}

struct jval *jdict_get_str(const struct jdict *d, const char *p, size_t n)
{
	return jdict_get(d, jval_str(p, n));
}

static bool make_index(struct jinja_mem *m, struct jdict *d, uint32_t slots)
{
	uint32_t i;

	d->index = jinja_mem_take(m, slots * sizeof(*d->index));
	if (d->index == NULL)
		return false;
	memset(d->index, 0, slots * sizeof(*d->index));
	d->slots = slots;
	for (i = 0; i < d->n; i++)
		*place_of(d, d->entry[i].key) = i + 1;
	return true;
}

static bool make_room(struct jinja_mem *m, struct jdict *d)
{
	uint32_t room = d->room ? d->room * 2 : 4;
	struct jdict_entry *e;

	if (d->n < d->room)
		return true;
	e = jinja_mem_grow(m, d->entry, d->n * sizeof(*e), (size_t)room * sizeof(*e));
	if (e == NULL)
		return false;
	d->entry = e;
	d->room = room;
	return true;
}

bool jdict_put(struct jinja_mem *m, struct jdict *d, struct jval key, struct jval value)
{
	struct jval *old = jdict_get(d, key);

	if (old != NULL) {
		*old = value;
		return true;
	}
	if (!make_room(m, d))
		return false;
	if (d->n >= SCAN_MAX && (d->n + 1) * 2 > d->slots &&
	    !make_index(m, d, d->slots ? d->slots * 2 : SCAN_MAX * 4))
		return false;
	d->entry[d->n] = (struct jdict_entry){ key, value };
	d->n++;
	if (d->slots > 0)
		*place_of(d, key) = d->n;
	return true;
}

bool jdict_put_str(struct jinja_mem *m, struct jdict *d, const char *key, struct jval value)
{
	return jdict_put(m, d, jval_str(key, strlen(key)), value);
}

/* ---- truth and equality ------------------------------------------------------------------ */

bool jval_truth(struct jval v)
{
	switch (v.kind) {
	case JV_MISSING: case JV_UNDEF: case JV_NONE:
		return false;
	case JV_BOOL: case JV_INT:
		return v.i != 0;
	case JV_FLOAT:
		return v.f != 0;
	case JV_STR: case JV_LIST: case JV_TUPLE:
		return v.n != 0;
	case JV_DICT: case JV_VIEW:
		return v.d->n != 0;
	case JV_RANGE:
		return range_length(v) != 0;
	default:
		return true;
	}
}

static bool eq_at(struct jval a, struct jval b, unsigned depth, uint64_t *left);

/* Charge <n> units. Returns false, with nothing left, if the bound is exceeded. */
static bool spend(uint64_t *left, uint64_t n)
{
	bool enough = n < *left;

	*left = enough ? *left - n : 0;
	return enough;
}

static bool items_eq(struct jval a, struct jval b, unsigned depth, uint64_t *left)
{
	uint32_t i;

	if (a.n != b.n)
		return false;
	for (i = 0; i < a.n; i++)
		if (!eq_at(a.v[i], b.v[i], depth, left))
			return false;
	return true;
}

static bool dicts_eq(const struct jdict *a, const struct jdict *b, unsigned depth, uint64_t *left)
{
	const struct jval *other;
	uint32_t i;

	if (a->n != b->n)
		return false;
	for (i = 0; i < a->n; i++) {
		other = jdict_get(b, a->entry[i].key);
		if (other == NULL || !eq_at(a->entry[i].value, *other, depth, left))
			return false;
	}
	return true;
}

static bool ranges_eq(const struct jrange *a, const struct jrange *b)
{
	return a->n == b->n && (a->n == 0 || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

static bool eq_at(struct jval a, struct jval b, unsigned depth, uint64_t *left)
{
	if (!spend(left, 1))
		return false;
	if (is_number(a.kind) && is_number(b.kind))
		return numbers_eq(a, b);
	if (a.kind == JV_MISSING)
		a.kind = JV_UNDEF;
	if (b.kind == JV_MISSING)
		b.kind = JV_UNDEF;
	if (a.kind != b.kind || depth > EQ_DEPTH)
		return false;
	switch (a.kind) {
	case JV_UNDEF: case JV_NONE:
		return true;
	case JV_STR:
		return a.n == b.n && spend(left, a.n / STEP_BYTES) && memcmp(a.s, b.s, a.n) == 0;
	case JV_LIST: case JV_TUPLE:
		return items_eq(a, b, depth + 1, left);
	case JV_DICT:
		return a.d == b.d || dicts_eq(a.d, b.d, depth + 1, left);
	case JV_RANGE:
		return ranges_eq(a.p, b.p);
	case JV_FUNC:
		return a.aux == b.aux;
	default:
		return a.p == b.p && a.aux == b.aux;
	}
}

bool jval_eq_within(struct jval a, struct jval b, uint64_t *left)
{
	return eq_at(a, b, 0, left);
}

bool jval_eq(struct jval a, struct jval b)
{
	uint64_t left = EQ_WORK;

	return jval_eq_within(a, b, &left);
}

/* ---- strings ----------------------------------------------------------------------------- */

bool jval_ascii(struct jval s)
{
	const char *p = s.s, *end = p + s.n;
	uint64_t w, all = 0;

	if (s.flags & JV_ASCII)
		return true;
	for (; end - p >= 8; p += 8) {
		memcpy(&w, p, 8);
		all |= w;
		if (all & 0x8080808080808080ull)
			return false;
	}
	for (; p < end; p++)
		all |= (uint8_t)*p;
	return (all & 0x8080808080808080ull) == 0;
}

size_t jval_chars(struct jval s)
{
	return s.flags & JV_ASCII ? s.n : utf8_count(s.s, s.n);
}

const char *jval_type(unsigned kind)
{
	static const char *const names[] = {
		[JV_MISSING] = "Undefined", [JV_UNDEF] = "Undefined", [JV_NONE] = "NoneType", [JV_BOOL] = "bool",
		[JV_INT] = "int", [JV_BIG] = "int", [JV_FLOAT] = "float", [JV_STR] = "str", [JV_LIST] = "list",
		[JV_TUPLE] = "tuple", [JV_DICT] = "dict", [JV_NS] = "Namespace", [JV_RANGE] = "range",
		[JV_VIEW] = "dict_items", [JV_GEN] = "generator", [JV_MACRO] = "Macro", [JV_FUNC] = "function",
		[JV_METHOD] = "builtin_function_or_method", [JV_LOOP] = "LoopContext",
		[JV_UNREAD] = "dict",
	};

	return names[kind];
}
