/* stream.c - one queue for all copies: the delay is the same for all, so they arrive in the order
 * in which they were written. */
#include <math.h>

#include "agent/base/mem.h"
#include "agent/sim/stream.h"

void stream_init(struct stream *s, const struct stream_opts *o)
{
	*s = (struct stream){ .opts = *o };
	s->end = &s->first;
	rng_init(&s->rng, o->seed);
}

void stream_fini(struct stream *s)
{
	while (s->first != NULL)
		mem_free(stream_take(s));
}

static bool is_cut(const struct stream_opts *o, unsigned from, unsigned to, double now)
{
	return now >= o->cut_from && now < o->cut_to && (from < o->n / 2) != (to < o->n / 2);
}

/* Chance is drawn for each copy, so that a cut does not change what is lost after it. */
static bool is_lost(struct stream *s, unsigned from, unsigned to, double now)
{
	bool lost = rng_below(&s->rng, 1u << 20) < s->opts.loss * (1u << 20);

	s->copies++;
	if (is_cut(&s->opts, from, to, now)) {
		s->cut++;
		return true;
	}
	s->lost += lost;
	return lost;
}

int stream_write(struct stream *s, unsigned from, uint32_t part, struct span bytes, double now)
{
	struct stream_copy *c;

	s->batches++;
	s->bytes += bytes.n;
	for (unsigned to = 0; to < s->opts.n; to++) {
		if (to == from || is_lost(s, from, to, now))
			continue;
		if ((c = mem_alloc(sizeof(*c) + bytes.n)) == NULL)
			return -1;
		*c = (struct stream_copy){ .at = now + s->opts.delay_s, .from = from, .to = to, .part = part,
					   .n = bytes.n };
		memcpy(c->bytes, bytes.p, bytes.n);
		*s->end = c;
		s->end = &c->next;
	}
	return 0;
}

double stream_next(const struct stream *s)
{
	return s->first != NULL ? s->first->at : INFINITY;
}

struct stream_copy *stream_take(struct stream *s)
{
	struct stream_copy *c = s->first;

	s->first = c->next;
	if (s->first == NULL)
		s->end = &s->first;
	return c;
}
