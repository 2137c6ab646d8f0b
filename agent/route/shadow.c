/* shadow.c - a table of open requests; see shadow_in.h. */
#include "agent/base/mem.h"
#include "agent/route/shadow_in.h"

struct shadow_at {
	server_id id;
	uint32_t tokens;	/* of the prompt in its cache */
	float s;		/* until its first token, by the estimate */
};

struct shadow_open {
	uint64_t uid;		/* 0: free */
	uint32_t tokens, n;
	bool learned, untimed;
	bool more;		/* there were others than those in <at> */
	struct shadow_at chosen, others, at[SHADOW_KEPT];
};

struct shadow {
	struct shadow_sums sums;
	struct shadow_open open[SHADOW_OPEN];
};

uint64_t shadow_bytes(void)
{
	return sizeof(struct shadow);
}

static struct shadow_at place_of(const struct shadow_choice *c, const struct candidate *from)
{
	uint64_t held = from->cached < c->tokens ? from->cached : c->tokens;

	return (struct shadow_at){
		.id = from->id, .tokens = (uint32_t)(held < UINT32_MAX ? held : UINT32_MAX),
		.s = (float)(from->backlog_s + from->adapter_s + from->kv_s + from->load_s +
		    from->slowness * policy_prefill_s(c->opts, c->prompt->tokens, from->cached)),
	};
}

/* Return the place in <o> for <a>: the next free one, or that of the fewest tokens, which it
 * exceeds; NULL if it does not. */
static struct shadow_at *kept_place(struct shadow_open *o, const struct shadow_at *a)
{
	struct shadow_at *least = &o->at[0];

	if (o->n < SHADOW_KEPT)
		return &o->at[o->n++];
	for (uint32_t i = 1; i < o->n; i++)
		if (o->at[i].tokens < least->tokens)
			least = &o->at[i];
	return a->tokens > least->tokens ? least : NULL;
}

void shadow_chose(struct shadow **s, const struct shadow_choice *c)
{
	struct shadow_open *o;
	double tokens = 0, seconds = 0;

	if (c->uid == 0 || (*s == NULL && (*s = mem_alloc(sizeof(**s))) == NULL))
		return;
	o = &(*s)->open[c->uid % SHADOW_OPEN];
	*o = (struct shadow_open){
		.uid = c->uid, .tokens = (uint32_t)(c->tokens < UINT32_MAX ? c->tokens : UINT32_MAX),
		.chosen = place_of(c, &c->from[c->chosen]), .learned = c->learned,
		.untimed = c->untimed, .more = c->n > SHADOW_KEPT,
	};
	for (size_t i = 0; i < c->n; i++) {
		struct shadow_at a = place_of(c, &c->from[i]), *to = kept_place(o, &a), out = a;

		if (to != NULL) {
			out = *to;
			*to = a;
		}
		if (i >= SHADOW_KEPT) {
			tokens += out.tokens;
			seconds += (double)out.s;
		}
	}
	if (c->n > SHADOW_KEPT) {
		o->others.tokens = (uint32_t)(tokens / (double)(c->n - SHADOW_KEPT));
		o->others.s = (float)(seconds / (double)(c->n - SHADOW_KEPT));
	}
}

/* Return what is known of <to>. */
static const struct shadow_at *place_at(const struct shadow_open *o, server_id to)
{
	for (uint32_t i = 0; i < o->n; i++)
		if (o->at[i].id == to)
			return &o->at[i];
	return &o->others;
}

bool shadow_work_at(const struct shadow *s, uint64_t uid, server_id to, struct shadow_work *w)
{
	const struct shadow_open *o = s != NULL ? &s->open[uid % SHADOW_OPEN] : NULL;
	const struct shadow_at *at;

	if (o == NULL || uid == 0 || o->uid != uid)
		return false;
	at = place_at(o, to);
	if (at == &o->others && !o->more)
		return false;
	*w = (struct shadow_work){ .tokens = o->tokens, .cached = at->tokens, .untimed = o->untimed };
	return true;
}

void shadow_went(struct shadow *s, uint64_t uid, server_id to)
{
	struct shadow_open *o = s != NULL ? &s->open[uid % SHADOW_OPEN] : NULL;
	const struct shadow_at *went;
	double tokens, seconds;

	if (o == NULL || uid == 0 || o->uid != uid)
		return;
	went = place_at(o, to);
	o->uid = 0;
	if (went == &o->others && !o->more)
		return;
	s->sums.requests++;
	s->sums.same += o->chosen.id == to;
	s->sums.prompt_tokens += o->tokens;
	s->sums.hit_tokens += o->chosen.tokens;
	s->sums.haproxy_hit_tokens += went->tokens;
	s->sums.first_s += (double)o->chosen.s;
	s->sums.haproxy_first_s += (double)went->s;
	tokens = (double)o->chosen.tokens - (double)went->tokens;
	seconds = (double)went->s - (double)o->chosen.s;
	s->sums.gain_tokens2 += tokens * tokens;
	s->sums.gain_s2 += seconds * seconds;
	if (!o->learned)
		return;
	s->sums.timed++;
	s->sums.timed_s += (double)o->chosen.s;
	s->sums.haproxy_timed_s += (double)went->s;
	s->sums.timed_gain_s2 += seconds * seconds;
}

struct shadow_sums shadow_sums(const struct shadow *s)
{
	return s != NULL ? s->sums : (struct shadow_sums){ 0 };
}

void shadow_free(struct shadow *s)
{
	mem_free(s);
}
