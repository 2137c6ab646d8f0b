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

/* Take a number. Large ones stop at UINT32_MAX. HAProxy's weight fetch is never signed. */
static bool take_number(const char **at, const char *end, uint32_t *v)
{
	const char *p = *at;
	uint64_t n = 0;

	for (; p < end && *p >= '0' && *p <= '9'; p++) {
		n = n * 10 + (uint64_t)(*p - '0');
		if (n > UINT32_MAX)
			n = UINT32_MAX;
	}
	if (p == *at)
		return false;
	*v = (uint32_t)n;
	*at = p;
	return true;
}

static enum load_backup backup_mark(const char **at, const char *end)
{
	enum load_backup b = *at == end ? BACKUP_NO : **at == 'b' ? BACKUP_FIRST :
			     **at == 'B' ? BACKUP_ALL : BACKUP_NO;

	*at += b != BACKUP_NO;
	return b;
}

/* Read "name=[b]1,2,3[,4]" up to ';' or <end>. Returns the number of numbers, with <*at> at the end
 * of the entry; 0, with <*at> somewhere in it, if it is anything else. */
static unsigned entry_parse(const char **at, const char *end, struct load_entry *e)
{
	uint32_t v[4] = { 0, 0, 0, 1 };
	const char *p = *at;
	unsigned n = 0;

	while (p < end && *p != '=' && *p != ';')
		p++;
	e->name = span_of(*at, (size_t)(p - *at));
	*at = p;
	if (e->name.n == 0 || p == end || *p == ';')
		return 0;
	p++;
	e->backup = backup_mark(&p, end);
	for (;; p++) {
		if (n == 4 || !take_number(&p, end, &v[n]))
			return 0;
		n++;
		if (p == end || *p != ',')
			break;
	}
	if (p < end && *p != ';')
		return 0;
	*at = p;
	*e = (struct load_entry){ e->name, e->backup, v[0] != 0, v[1], v[2], v[3] };
	return n;
}

bool loadstr_next(struct loadstr *l, struct load_entry *e)
{
	while (l->rest.n > 0) {
		const char *start = l->rest.p, *end = start + l->rest.n, *p = start;
		unsigned n = entry_parse(&p, end, e);

		if (n == 0 && (p = memchr(p, ';', (size_t)(end - p))) == NULL)
			p = end;
		l->rest = p < end ? span_of(p + 1, (size_t)(end - p) - 1) : span_of(end, 0);
		if (l->n_numbers == 0 && n >= 3)
			l->n_numbers = n;
		if (n >= 3 && n == l->n_numbers)
			return true;
		if (p > start)
			l->n_bad++;
	}
	return false;
}
