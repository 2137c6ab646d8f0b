/* start_hash.c - hash what a loop over messages starts with (resume.h): the text so far and all
 * that variables lead to. Namespaces are noted as they are, and numbers in them are tracked. */
#include "agent/base/mem.h"
#include "agent/jinja/run_in.h"

#define HASHED_BYTES	(1u << 20)	/* of texts among the variables, and their number */
#define HASHED_VALUES	(1u << 16)
#define HASHED_DEPTH	64u
#define BLOCK	1024u		/* words and short texts are hashed by so many bytes */
#define SHORT	256u

struct state_hash {
	struct run *r;
	uint64_t h;
	size_t fill;			/* of <block>: what is not in <h> yet */
	size_t bytes, values;		/* left */
	unsigned depth, inside;		/* values around this one; lists and dicts of these */
	bool failed;
	char block[BLOCK];
};

static void hash_block(struct state_hash *s)
{
	s->h = hash_mix_span(s->r->track.as->key, s->h, span_of(s->block, s->fill));
	s->fill = 0;
}

static inline void add_bytes(struct state_hash *s, const void *p, size_t n)
{
	if (n > BLOCK - s->fill)
		hash_block(s);
	if (n > 0)
		memcpy(s->block + s->fill, p, n);
	s->fill += n;
}

static void add_word(struct state_hash *s, uint64_t w)
{
	add_bytes(s, &w, sizeof(w));
}

/* Add a text whose length is added already. */
static void add_chars(struct state_hash *s, struct span t)
{
	if (t.n > s->bytes) {
		s->failed = true;
		return;
	}
	s->bytes -= t.n;
	if (t.n <= SHORT)
		add_bytes(s, t.p, t.n);
	else
		add_word(s, hash64(s->r->track.as->key, t.p, t.n));
}

static void add_text(struct state_hash *s, struct span t)
{
	add_word(s, t.n);
	add_chars(s, t);
}

static void add_value(struct state_hash *s, struct jval v);

static void add_members(struct state_hash *s, const struct jdict *d)
{
	add_word(s, d->n);
	for (uint32_t i = 0; i < d->n && !s->failed; i++) {
		add_value(s, d->entry[i].key);
		add_value(s, d->entry[i].value);
	}
}

/* Track a number instead of adding it. Returns false if it is none, or there are too many. */
static bool add_number(struct state_hash *s, struct jval v, uint32_t space, uint32_t member)
{
	struct track *t = &s->r->track;

	if (v.kind != JV_INT || t->n_numbers == TRACK_NUMBERS)
		return false;
	add_word(s, JV_UNREAD);
	t->number[t->n_numbers++] =
		(struct tracked_number){ space, member, v.i, INT64_MIN, INT64_MAX };
	return true;
}

/* Add a namespace, and note its members as they are now. */
static void add_space(struct state_hash *s, struct jval v)
{
	struct track *t = &s->r->track;
	uint32_t space = t->n_spaces;
	struct jdict_entry *was;

	for (uint32_t i = 0; i < t->n_spaces; i++) {
		if (t->space[i].d == v.d) {
			add_word(s, i);
			return;
		}
	}
	was = t->n_spaces < TRACK_SPACES ? jinja_mem_take(s->r->m, v.d->n * sizeof(*was) + 1) : NULL;
	if (was == NULL) {
		s->failed = true;
		return;
	}
	if (v.d->n > 0)
		memcpy(was, v.d->entry, v.d->n * sizeof(*was));
	t->space[t->n_spaces++] = (struct tracked_space){ v.d, was, v.d->n };
	add_word(s, v.d->n);
	for (uint32_t i = 0; i < v.d->n && !s->failed; i++) {
		add_value(s, v.d->entry[i].key);
		if (!add_number(s, v.d->entry[i].value, space, i))
			add_value(s, v.d->entry[i].value);
	}
}

/* Add the list of messages, or the rest of it from some item on, as such. Inside of another value
 * its reads would not be noted. */
static bool add_messages(struct state_hash *s, struct jval v)
{
	const struct jinja_resume *as = s->r->track.as;

	if (v.kind != JV_LIST || (v.flags & JV_WATCHED) == 0 || v.v < as->list ||
	    v.v + v.n != as->list + as->n)
		return false;
	s->failed |= s->inside > 0;
	add_word(s, JV_UNREAD);		/* no value of a list */
	add_word(s, (uint64_t)(v.v - as->list));
	return true;
}

static void add_macro(struct state_hash *s, struct jval v)
{
	const struct macro *m = v.p;

	s->failed |= m->up != s->r->rec;
	add_word(s, m->fn->number);
}

static void add_items(struct state_hash *s, struct jval v)
{
	add_word(s, v.n);
	s->inside++;
	for (uint32_t i = 0; i < v.n && !s->failed; i++)
		add_value(s, v.v[i]);
	s->inside--;
}

static void add_range(struct state_hash *s, const struct jrange *g)
{
	add_word(s, (uint64_t)g->start);
	add_word(s, (uint64_t)g->stop);
	add_word(s, (uint64_t)g->step);
}

static void add_undefined(struct state_hash *s, struct jval v)
{
	add_word(s, (uint64_t)v.flags << 32 | v.aux);
	if (v.flags == UNDEF_ELEMENT)
		add_value(s, *v.v);
	else
		add_text(s, jval_span(v));
}

static void add_value_of_kind(struct state_hash *s, struct jval v)
{
	switch (v.kind) {
	case JV_MISSING: case JV_NONE:
		return;
	case JV_UNDEF:
		add_undefined(s, v);
		return;
	case JV_BOOL: case JV_INT: case JV_FLOAT:
		add_word(s, (uint64_t)v.i);
		return;
	case JV_STR: case JV_BIG:
		add_chars(s, jval_span(v));
		return;
	case JV_LIST: case JV_TUPLE:
		add_items(s, v);
		return;
	case JV_DICT:
		s->inside++;
		add_members(s, v.d);
		s->inside--;
		return;
	case JV_NS:
		add_space(s, v);
		return;
	case JV_RANGE:
		add_range(s, v.p);
		return;
	case JV_FUNC:
		add_word(s, v.aux);
		return;
	case JV_MACRO:
		add_macro(s, v);
		return;
	}
	s->failed = true;	/* a generator changes when it is used; an unread item is unknown */
}

/* Return what tells <v> from values of other kinds; of a text, also its length. */
static uint64_t kind_word(struct jval v)
{
	if (v.kind == JV_STR)
		return v.kind | (v.flags & JV_MARKUP) << 8 | (uint64_t)v.n << 32;
	return v.kind == JV_BIG ? v.kind | (uint64_t)v.n << 32 : v.kind;
}

static void add_value(struct state_hash *s, struct jval v)
{
	if (s->values == 0 || s->depth == HASHED_DEPTH)
		s->failed = true;
	if (s->failed)
		return;
	s->values--;
	s->depth++;
	add_word(s, kind_word(v));
	if (!add_messages(s, v))
		add_value_of_kind(s, v);
	s->depth--;
}

/* Return which of the caller's variables <v> is, or their number: tools are hashed once. */
static uint32_t variable_of(const struct jdict *vars, struct jval v)
{
	uint32_t i = 0;

	while (i < vars->n && memcmp(&vars->entry[i].value, &v, sizeof(v)) != 0)
		i++;
	return i;
}

/* Add the text so far without the gaps. Which loops they are is compared apart. */
static void add_pieces(struct state_hash *s, struct span text)
{
	const struct track *t = &s->r->track;
	size_t at = 0;

	for (uint32_t i = 0; i < t->n_gaps; i++) {
		const struct tools_gap *g = &t->gap[i];

		add_text(s, span_of(text.p + at, g->at - at));
		at = g->at + g->n;
	}
	add_text(s, span_of(text.p + at, text.n - at));
}

/* Add the caller's variables without tools. */
static void add_others(struct state_hash *s, const struct jdict *d)
{
	const struct jval tools = s->r->track.as->tools;

	add_word(s, d->n);
	for (uint32_t i = 0; i < d->n && !s->failed; i++) {
		add_value(s, d->entry[i].key);
		if (memcmp(&d->entry[i].value, &tools, sizeof(tools)) == 0)
			add_word(s, JV_UNREAD);
		else
			add_value(s, d->entry[i].value);
	}
}

bool jx_start_hash(struct run *r, bool light, uint64_t *out)
{
	const struct buf *text = r->track.as->text;
	struct state_hash s;

	s.r = r;
	s.h = s.fill = s.depth = s.inside = 0;
	s.bytes = HASHED_BYTES;
	s.values = HASHED_VALUES;
	s.failed = false;
	r->track.n_spaces = r->track.n_numbers = 0;
	if (light) {
		add_pieces(&s, span_of(text->p, text->n));
		add_others(&s, r->vars);
	} else {
		add_text(&s, span_of(text->p, text->n));
		add_members(&s, r->vars);
	}
	for (uint32_t i = 0; i < r->t->n_root && !s.failed; i++) {
		struct jval v = r->rec->slot[r->t->root[i]];
		uint32_t k = v.kind >= JV_LIST ? variable_of(r->vars, v) : r->vars->n;

		add_word(&s, k);
		if (k == r->vars->n)
			add_value(&s, v);
	}
	hash_block(&s);
	mem_wipe(s.block, sizeof(s.block));
	*out = s.h;
	return !s.failed;
}
