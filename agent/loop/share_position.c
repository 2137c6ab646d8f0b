/* Positions in a stream of the store: "1700000000000-0", milliseconds by the store's clock, then a
 * number. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS
#include <stdio.h>

static bool take_number(struct span *s, uint64_t *v)
{
	size_t n = 0;

	for (*v = 0; n < s->n && s->p[n] >= '0' && s->p[n] <= '9'; n++)
		if (__builtin_mul_overflow(*v, 10, v) ||
		    __builtin_add_overflow(*v, (uint64_t)(s->p[n] - '0'), v))
			return false;
	*s = span_of(s->p + n, s->n - n);
	return n > 0;
}

bool position_parse(struct span s, struct stream_id *id)
{
	if (!take_number(&s, &id->ms) || s.n == 0 || s.p[0] != '-')
		return false;
	s = span_of(s.p + 1, s.n - 1);
	return take_number(&s, &id->seq) && s.n == 0;
}

bool position_is_after(struct stream_id a, struct stream_id b)
{
	return a.ms != b.ms ? a.ms > b.ms : a.seq > b.seq;
}

void position_set(struct share_part *p, struct stream_id id)
{
	snprintf(p->at, sizeof(p->at), "%llu-%llu", (unsigned long long)id.ms,
	    (unsigned long long)id.seq);
}

bool position_is_valid(const char *at)
{
	struct stream_id id;

	return position_parse(span_str(at), &id);
}

/* Entries that are read twice change nothing. */
void position_before(const char *at, msec ms, char out[STORE_ID_MAX])
{
	struct stream_id id = { 0, 0 };

	if (position_parse(span_str(at), &id))
		id.ms = id.ms > (uint64_t)ms ? id.ms - (uint64_t)ms : 0;
	snprintf(out, STORE_ID_MAX, "%llu-0", (unsigned long long)id.ms);
}

#endif
