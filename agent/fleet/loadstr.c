/* loadstr.c - one pass over the string; nothing is copied. */
#include "agent/fleet/loadstr.h"

/* Split off the part of <s> before <stop>, and skip <stop>. */
static struct span split_at(struct span *s, char stop, bool *found)
{
	const char *at = s->n ? memchr(s->p, stop, s->n) : NULL;
	size_t n = at ? (size_t)(at - s->p) : s->n;
	struct span head = span_of(s->p, n);

	*found = at != NULL;
	if (at != NULL)
		n++;
	*s = span_of(s->n ? s->p + n : s->p, s->n - n);
	return head;
}

/* Take digits and the comma after them; <more>: there is one. Large numbers stop at UINT32_MAX.
 * HAProxy's weight fetch is never signed. */
static bool take_number(struct span *s, uint32_t *v, bool *more)
{
	uint64_t n = 0;
	size_t i = 0;

	for (; i < s->n && s->p[i] != ','; i++) {
		if (s->p[i] < '0' || s->p[i] > '9')
			return false;
		n = n * 10 + (uint64_t)(s->p[i] - '0');
		if (n > UINT32_MAX)
			n = UINT32_MAX;
	}
	if (i == 0)
		return false;
	*v = (uint32_t)n;
	*more = i < s->n;
	i += *more;
	*s = span_of(s->p + i, s->n - i);
	return true;
}

void loadstr_start(struct loadstr *l, struct span text)
{
	struct span rest = text;
	bool found;
	struct span head = split_at(&rest, ';', &found);

	*l = (struct loadstr){ .rest = text };
	if (head.n == 0 || memchr(head.p, '=', head.n) == NULL) {
		l->process = head;
		l->rest = rest;
	}
}

static enum load_backup backup_mark(struct span *s)
{
	enum load_backup b = s->n == 0 ? BACKUP_NO : s->p[0] == 'b' ? BACKUP_FIRST :
			     s->p[0] == 'B' ? BACKUP_ALL : BACKUP_NO;

	if (b != BACKUP_NO)
		*s = span_of(s->p + 1, s->n - 1);
	return b;
}

/* Read "name=[b]1,2,3[,4]". Returns the number of numbers; 0 if it is anything else. */
static unsigned entry_parse(struct span text, struct load_entry *e)
{
	uint32_t v[4] = { 0, 0, 0, 1 };
	unsigned n = 0;
	bool found, more = true;

	e->name = split_at(&text, '=', &found);
	if (!found || e->name.n == 0)
		return 0;
	e->backup = backup_mark(&text);
	for (; more; n++) {
		if (n == 4 || !take_number(&text, &v[n], &more))
			return 0;
	}
	*e = (struct load_entry){ e->name, e->backup, v[0] != 0, v[1], v[2], v[3] };
	return n;
}

bool loadstr_next(struct loadstr *l, struct load_entry *e)
{
	while (l->rest.n > 0) {
		bool found;
		struct span text = split_at(&l->rest, ';', &found);
		unsigned n = entry_parse(text, e);

		if (l->n_numbers == 0 && n >= 3)
			l->n_numbers = n;
		if (n >= 3 && n == l->n_numbers)
			return true;
		if (text.n > 0)
			l->n_bad++;
	}
	return false;
}
