/* make.c - build values in the memory of one rendering. Every function does nothing after a
 * failure, so that callers check once, at the end. */
#include <errno.h>

#include "agent/chat/make_in.h"

int make_from_json(struct jinja_mem *m, struct work_left *w, struct span text, unsigned max_depth,
    struct jval *out)
{
	uint64_t had = w != NULL ? w->left / STEPS_VALUE : UINT64_MAX, left = had;
	size_t at;
	int rc = jval_from_json_within(m, text, max_depth, &left, out, &at);
	int why = errno;

	if (w != NULL)
		work_spend(w, (had - left) * STEPS_VALUE + text.n / STEP_JSON);
	errno = why;
	return rc;
}

void make_fail(struct make *k, enum make_state why)
{
	if (k->state == MAKE_GOOD)
		k->state = why;
}

void *make_take(struct make *k, size_t n)
{
	void *p = k->state == MAKE_GOOD ? jinja_mem_take(k->mem, n > 0 ? n : 1) : NULL;

	if (p == NULL)
		make_fail(k, MAKE_NO_MEMORY);
	return p;
}

struct jval make_dict(struct make *k)
{
	struct jval d = jval_dict(k->mem, 4);

	if (d.kind == JV_MISSING)
		make_fail(k, MAKE_NO_MEMORY);
	return d;
}

void make_put(struct make *k, struct jval dict, const char *key, struct jval value)
{
	if (k->state == MAKE_GOOD && !jdict_put_str(k->mem, dict.d, key, value))
		make_fail(k, MAKE_NO_MEMORY);
}

void make_put_any(struct make *k, struct jval dict, struct jval key, struct jval value)
{
	if (k->state == MAKE_GOOD && !jdict_put(k->mem, dict.d, key, value))
		make_fail(k, MAKE_NO_MEMORY);
}

void make_add(struct make *k, struct make_list *l, struct jval v)
{
	if (l->n == l->cap) {
		uint32_t cap = l->cap > 0 ? 2 * l->cap : 8;
		struct jval *more = make_take(k, cap * sizeof(*more));

		if (more == NULL)
			return;
		if (l->n > 0)
			memcpy(more, l->v, l->n * sizeof(*more));
		l->v = more;
		l->cap = cap;
	}
	l->v[l->n++] = v;
}

struct jval make_str(const char *s)
{
	return jval_str(s, strlen(s));
}

struct jval make_joined(struct make *k, const struct make_list *texts, const char *between)
{
	size_t gap = strlen(between), n = 0, at = 0;
	char *p;

	if (texts->n <= 1)
		return texts->n == 1 ? texts->v[0] : make_str("");
	for (uint32_t i = 0; i < texts->n; i++)
		n += texts->v[i].n + (i > 0 ? gap : 0);
	if (n > UINT32_MAX)
		make_fail(k, MAKE_NO_MEMORY);
	if ((p = make_take(k, n)) == NULL)
		return make_str("");
	for (uint32_t i = 0; i < texts->n; i++) {
		if (i > 0)
			memcpy(p + at, between, gap);
		at += i > 0 ? gap : 0;
		if (texts->v[i].n > 0)
			memcpy(p + at, texts->v[i].s, texts->v[i].n);
		at += texts->v[i].n;
	}
	return jval_str(p, n);
}

struct jval make_copy(struct make *k, struct jval of)
{
	struct jval d = make_dict(k);

	for (uint32_t i = 0; of.kind == JV_DICT && i < of.d->n && k->state == MAKE_GOOD; i++)
		make_put_any(k, d, of.d->entry[i].key, of.d->entry[i].value);
	return d;
}
