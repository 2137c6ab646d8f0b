/* split_cost.c - recognize patterns that are cheap to match by their shape.
 *
 * A match is tried from each character of a text. The sum is bounded by the text if each try costs
 * little, or succeeds: it then consumes what it read. Each alternative of such a pattern is
 *
 * 	atoms that repeat up to REPEATS_MOST times		\p{N}{1,3}	[0-9][0-9][0-9]	's|'t
 * 	then at most one atom that repeats without limit	\s?\p{L}+	[^\s\p{L}]+[\r\n]*
 * 	followed by nothing that must match
 *
 * Others may fail after reading far, again from each character: \s+$ on a run of spaces costs the
 * square of the run, (?:a|aa)+b exponential time. PCRE2's own limit misses the first, because it
 * starts again for each character from which a match is tried, and its JIT does not count repeats
 * of one character. */
#include "agent/tok/split/split_cost_in.h"

#define REPEATS_MOST	16u
#define WAYS_MOST	64u		/* ways in which the atoms of a pattern may repeat */

struct reader {
	const char *p, *end;
	uint32_t least, ways;
	bool bad;			/* not such a shape */
};

struct quantity {
	uint32_t least, most;		/* <most> UINT32_MAX: unlimited */
};

static uint32_t number(struct reader *r)
{
	uint32_t v = 0;

	for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
		v = v < 100000 ? v * 10 + (uint32_t)(*r->p - '0') : v;
	return v;
}

/* Read {n} {n,} {n,m}. */
static struct quantity interval(struct reader *r)
{
	struct quantity q;

	r->p++;
	q.least = q.most = number(r);
	if (r->p < r->end && *r->p == ',') {
		r->p++;
		q.most = r->p < r->end && *r->p == '}' ? UINT32_MAX : number(r);
	}
	r->bad |= r->p == r->end || *r->p != '}';
	r->p += r->p < r->end;
	return q;
}

static struct quantity quantity(struct reader *r)
{
	struct quantity q = { 1, 1 };

	if (r->p == r->end)
		return q;
	switch (*r->p) {
	case '*': q = (struct quantity){ 0, UINT32_MAX }; r->p++; break;
	case '+': q = (struct quantity){ 1, UINT32_MAX }; r->p++; break;
	case '?': q = (struct quantity){ 0, 1 }; r->p++; break;
	case '{': q = interval(r); break;
	default: return q;
	}
	if (r->p < r->end && (*r->p == '?' || *r->p == '+'))	/* lazy, possessive */
		r->p++;
	r->least = q.least > r->least ? q.least : r->least;
	if (q.most != UINT32_MAX && q.most > REPEATS_MOST)
		q.most = UINT32_MAX;
	if (q.most != UINT32_MAX && r->ways <= WAYS_MOST)
		r->ways *= q.most < q.least ? 1 : q.most - q.least + 1;
	return q;
}

/* Skip a letter after a backslash, and its argument in braces. */
static void escape(struct reader *r)
{
	if (++r->p == r->end)
		return;
	r->bad |= *r->p == 'g' || *r->p == 'k' ||
		  (*r->p >= '1' && *r->p <= '9');	/* a reference to a group */
	r->p++;
	if (r->p < r->end && *r->p == '{' && strchr("pPxo", r->p[-1]) != NULL)
		while (r->p < r->end && *r->p++ != '}')
			;
}

static void set(struct reader *r)
{
	for (r->p++; r->p < r->end && *r->p != ']';) {
		if (*r->p == '\\') {
			escape(r);
		} else if (*r->p == '[') {			/* [:alpha:] */
			while (r->p < r->end && *r->p++ != ']')
				;
		} else {
			r->p++;
		}
	}
	r->p += r->p < r->end;
}

/* Check a group: nothing in it may repeat without limit, and it may not repeat. Returns at its end.
 */
static void group(struct reader *r)
{
	unsigned depth = 0;

	do {
		switch (*r->p) {
		case '(':
			depth++;
			r->p++;
			if (r->p < r->end && *r->p == '?')	/* (?: (?= (?i: */
				r->p++;
			continue;
		case ')': depth--; r->p++; break;
		case '|': r->p++; continue;
		case '[': set(r); break;
		case '\\': escape(r); break;
		default: r->p++; break;
		}
		if (depth > 0)
			r->bad |= quantity(r).most == UINT32_MAX;
	} while (depth > 0 && r->p < r->end);
}

static void read_all(struct reader *r)
{
	bool open = false, is_group;
	struct quantity q;

	while (r->p < r->end) {
		is_group = *r->p == '(';
		if (*r->p == '|') {
			open = false;
			r->p++;
			continue;
		}
		if (is_group)
			group(r);
		else if (*r->p == '[')
			set(r);
		else if (*r->p == '\\')
			escape(r);
		else
			r->p++;
		q = quantity(r);
		r->bad |= (open && q.least > 0) || (is_group && q.most > 1);
		open |= q.most == UINT32_MAX;
	}
}

struct regex_cost regex_cost_of(struct span p)
{
	struct reader r = { .p = p.p, .end = p.p + p.n, .ways = 1 };

	read_all(&r);
	return (struct regex_cost){ .counted = r.bad || r.ways > WAYS_MOST, .least = r.least };
}
