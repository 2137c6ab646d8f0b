/* recipe.c - write and read recipes. Numbers have four bytes in this machine's order; strings
 * follow their length. Reading compares every count and length with the rest of the bytes: an image
 * has a checksum, but a wrong one must not lead outside. */
#include "agent/tok/file/recipe.h"

#include "agent/base/mem.h"

struct wr {
	char *p;		/* NULL: only count */
	size_t n;
};

struct rd {
	const char *p;
	size_t left;
	bool bad;
};

static void put(struct wr *w, const void *p, size_t n)
{
	if (w->p != NULL && n > 0)
		memcpy(w->p + w->n, p, n);
	w->n += n;
}

static void put_u32(struct wr *w, uint32_t v)
{
	put(w, &v, sizeof(v));
}

static void put_span(struct wr *w, struct span s)
{
	put_u32(w, (uint32_t)s.n);
	put(w, s.p, s.n);
}

static void get(struct rd *r, void *out, size_t n)
{
	if (r->left < n) {
		r->bad = true;
		return;
	}
	memcpy(out, r->p, n);
	r->p += n;
	r->left -= n;
}

static uint32_t get_u32(struct rd *r)
{
	uint32_t v = 0;

	get(r, &v, sizeof(v));
	return v;
}

static struct span get_span(struct rd *r)
{
	uint32_t n = get_u32(r);
	struct span s = { r->p, n };

	if (n > r->left) {
		r->bad = true;
		return SPAN("");
	}
	r->p += n;
	r->left -= n;
	return s;
}

static uint32_t get_below(struct rd *r, uint32_t most)
{
	uint32_t v = get_u32(r);

	r->bad |= v > most;
	return r->bad ? 0 : v;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void put_normal(struct wr *w, const struct normal_step *s)
{
	put_u32(w, s->kind);
	put_u32(w, s->regex | s->strip_left << 1 | s->strip_right << 2 | s->flags << 3);
	put_span(w, s->pattern);
	put_span(w, s->content);
}

static void get_normal(struct rd *r, struct normal_step *s)
{
	uint32_t flags;

	s->kind = (enum normal_kind)get_below(r, NORMAL_LAST);
	flags = get_below(r, NORMAL_FLAGS << 3 | 7);
	s->regex = flags & 1;
	s->strip_left = flags & 2;
	s->strip_right = flags & 4;
	s->flags = flags >> 3;
	s->pattern = get_span(r);
	s->content = get_span(r);
}

static void put_split(struct wr *w, const struct split_step *s)
{
	put_u32(w, s->kind);
	put_u32(w, s->behaviour);
	put_u32(w, s->prepend);
	put_u32(w,
	    s->invert | s->use_regex << 1 | s->add_prefix_space << 2 | s->individual << 3 |
		s->split << 4);
	put_span(w, s->pattern);
}

static void get_split(struct rd *r, struct split_step *s)
{
	uint32_t flags;

	s->kind = (enum split_kind)get_below(r, STEP_LAST);
	s->behaviour = (enum split_behaviour)get_below(r, SPLIT_CONTIGUOUS);
	switch (get_below(r, PREPEND_ALWAYS)) {
	case PREPEND_FIRST: s->prepend = PREPEND_FIRST; break;
	case PREPEND_ALWAYS: s->prepend = PREPEND_ALWAYS; break;
	default: s->prepend = PREPEND_NEVER; break;
	}
	flags = get_below(r, 31);
	s->invert = flags & 1;
	s->use_regex = flags & 2;
	s->add_prefix_space = flags & 4;
	s->individual = flags & 8;
	s->split = flags & 16;
	s->pattern = get_span(r);
}

/* The latest flags count, but the first list: draft.c. */
static void put_token(struct wr *w, const struct draft *d, const struct draft_added *t)
{
	uint32_t at = vocab_find(&d->added, t->content);
	const struct draft_added *f = at != VOCAB_NONE ? &d->latest.p[at] : t;

	put_u32(w, t->id);
	put_u32(w,
	    f->single_word | f->lstrip << 1 | f->rstrip << 2 | t->normalized << 3 | f->hidden << 4 |
		f->composes << 5);
	put_span(w, t->content);
}

static void get_token(struct rd *r, struct recipe_token *t)
{
	uint32_t flags;

	t->token.id = get_below(r, VOCAB_ID_MAX);
	flags = get_below(r, 63);
	t->token.single_word = flags & 1;
	t->token.lstrip = flags & 2;
	t->token.rstrip = flags & 4;
	t->normalized = flags & 8;
	t->hidden = flags & 16;
	t->token.composes = flags & 32;
	t->token.content = get_span(r);
	r->bad |= t->token.content.n > ADDED_CONTENT_MAX;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void put_all(struct wr *w, const struct draft *d, uint64_t fingerprint)
{
	put(w, &fingerprint, sizeof(fingerprint));
	put_u32(w, d->n_normal);
	put_u32(w, d->n_split);
	put_u32(w, (uint32_t)(d->special.n + d->plain.n));
	put_u32(w, d->n_before);
	put_u32(w, d->n_after);
	for (uint32_t i = 0; i < d->n_normal; i++)
		put_normal(w, &d->normal[i]);
	for (uint32_t i = 0; i < d->n_split; i++)
		put_split(w, &d->split[i]);
	for (size_t i = 0; i < d->special.n; i++)
		put_token(w, d, &d->special.p[i]);
	for (size_t i = 0; i < d->plain.n; i++)
		put_token(w, d, &d->plain.p[i]);
	put(w, d->dropped, sizeof(d->dropped));
	put(w, d->before, d->n_before * sizeof(d->before[0]));
	put(w, d->after, d->n_after * sizeof(d->after[0]));
}

struct span recipe_write(const struct draft *d, uint64_t fingerprint)
{
	struct wr w = { NULL, 0 };
	char *p;

	put_all(&w, d, fingerprint);
	if ((p = mem_alloc(w.n)) == NULL)
		return (struct span){ NULL, 0 };
	w = (struct wr){ p, 0 };
	put_all(&w, d, fingerprint);
	return span_of(p, w.n);
}

static int get_head(struct rd *r, struct recipe *out)
{
	get(r, &out->fingerprint, sizeof(out->fingerprint));
	out->n_normal = get_below(r, DRAFT_STEPS_MAX);
	out->n_split = get_below(r, DRAFT_STEPS_MAX);
	out->n_tokens = get_below(r, 2 * DRAFT_ADDED_MAX);
	out->n_before = get_below(r, DRAFT_AROUND_MAX);
	out->n_after = get_below(r, DRAFT_AROUND_MAX);
	return r->bad ? -1 : 0;
}

int recipe_read(struct span bytes, struct recipe *out)
{
	struct rd r = { bytes.p, bytes.n, false };

	*out = (struct recipe){ .n_normal = 0 };
	if (get_head(&r, out) < 0)
		return -1;
	out->normal = mem_calloc(out->n_normal + 1, sizeof(*out->normal));
	out->split = mem_calloc(out->n_split + 1, sizeof(*out->split));
	out->tokens = mem_calloc(out->n_tokens + 1, sizeof(*out->tokens));
	out->before = mem_calloc(out->n_before + 1, sizeof(*out->before));
	out->after = mem_calloc(out->n_after + 1, sizeof(*out->after));
	if (!out->normal || !out->split || !out->tokens || !out->before || !out->after)
		goto fail;
	for (uint32_t i = 0; i < out->n_normal; i++)
		get_normal(&r, &out->normal[i]);
	for (uint32_t i = 0; i < out->n_split; i++)
		get_split(&r, &out->split[i]);
	for (uint32_t i = 0; i < out->n_tokens; i++)
		get_token(&r, &out->tokens[i]);
	get(&r, out->dropped, sizeof(out->dropped));
	for (uint32_t i = 0; i < out->n_before; i++)
		out->before[i] = get_below(&r, VOCAB_ID_MAX);
	for (uint32_t i = 0; i < out->n_after; i++)
		out->after[i] = get_below(&r, VOCAB_ID_MAX);
	if (!r.bad && r.left == 0)
		return 0;
fail:
	recipe_fini(out);
	return -1;
}

void recipe_fini(struct recipe *r)
{
	mem_free(r->normal);
	mem_free(r->split);
	mem_free(r->tokens);
	mem_free(r->before);
	mem_free(r->after);
	*r = (struct recipe){ .n_normal = 0 };
}
