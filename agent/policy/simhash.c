/* simhash.c - the server that was sent the prompt most like this one, by a hash that is alike for what is alike.
 *
 * A prompt has a signature of 256 bits (Charikar 2002): every page is a feature of 256 bits, and a bit of the signature is
 * what most features have there. Two prompts whose features have an angle of x differ in about x / pi of the bits, so
 * cos(pi * distance / 256) estimates what they share: about s / sqrt(n * m) for s common ones of n and m pages. A feature
 * is a page chained to all before it, so only what is common from the beginning counts: no cache can use another.
 *
 * The signatures of the last RECENT prompts sent are kept, with who got them. A server's likeness is that of its nearest; the
 * likest wins when it is above cache_threshold and its load below load_factor times the mean, else the least loaded.
 *
 * Source: the idea was tried for vLLM's production stack (issue 59, prefix-cache-aware routing) and gave way to its trie,
 * which hit more; no code of it was published, so everything but the hash is chosen here. Two prompts that have nothing
 * in common are 128 bits apart, and 8 either way: 85 bits, likeness 0.5, is chance once in ten million.
 *
 * Unlike a table of blocks it costs the same for long prompts as for short ones in memory, 56 bytes, and finds no
 * common beginning that is a small part of both. */
#include <math.h>

#include "agent/base/mem.h"
#include "agent/policy/internal.h"

#define WORDS		4
#define BITS		(WORDS * 64)
#define RECENT		2048u
#define PLANES		32

struct signature {
	uint64_t w[WORDS];
};

struct recent {
	struct signature s;
	uint64_t space;
	server_id server;
};

struct signatures {
	uint32_t cap, next;		/* next is the oldest */
	double likeness[BITS + 1];	/* by distance */
	struct recent recent[];
};

static void preset(struct policy_opts *o)
{
	o->cache_threshold = 0.5;
	o->load_factor = 1.25;
}

static void *memory_new(const struct policy_opts *o)
{
	size_t cap = o->rule_max_bytes > sizeof(struct signatures) ?
		(o->rule_max_bytes - sizeof(struct signatures)) / sizeof(struct recent) : 0;
	struct signatures *m;

	if (cap > RECENT)
		cap = RECENT;
	if (cap == 0 || (m = mem_alloc(sizeof(*m) + cap * sizeof(*m->recent))) == NULL)
		return NULL;
	m->cap = (uint32_t)cap;
	for (uint32_t i = 0; i < m->cap; i++)
		m->recent[i].server = SERVER_NONE;
	for (int d = 0; d < BITS / 2; d++)
		m->likeness[d] = cos(M_PI * d / BITS);
	return m;
}

static void memory_free(void *m)
{
	mem_free(m);
}

static size_t memory_bytes(const void *of_rule)
{
	const struct signatures *m = of_rule;

	return sizeof(*m) + m->cap * sizeof(*m->recent);
}

/* ---- signatures ------------------------------------------------------------------------------- */

/* 64 counters side by side, plane[k] has bit k of each: one more for every bit of <f> costs a few words, not 64. */
static void count(uint64_t plane[PLANES], uint64_t f)
{
	for (int k = 0; f != 0 && k < PLANES; k++) {
		uint64_t carry = plane[k] & f;

		plane[k] ^= f;
		f = carry;
	}
}

/* The counters that are above <n>. */
static uint64_t above(const uint64_t plane[PLANES], uint32_t n)
{
	uint64_t more = 0, equal = ~0ull;

	for (int k = PLANES - 1; k >= 0; k--) {
		uint64_t of_n = n >> k & 1 ? ~0ull : 0;

		more |= equal & plane[k] & ~of_n;
		equal &= ~(plane[k] ^ of_n);
	}
	return more;
}

static struct signature signature_of(const struct policy_prompt *p)
{
	uint64_t plane[WORDS][PLANES] = { { 0 } }, h = p->space;
	struct signature s;

	for (uint32_t i = 0; i < p->n_pages; i++) {
		h = chain(h, p->pages[i]);
		for (unsigned w = 0; w < WORDS; w++)
			count(plane[w], scatter(h + w));
	}
	for (unsigned w = 0; w < WORDS; w++)
		s.w[w] = above(plane[w], p->n_pages / 2);
	return s;
}

/* How many bits are set, where the processor's own instruction may not be used. */
static unsigned ones(uint64_t x)
{
	x -= x >> 1 & 0x5555555555555555ull;
	x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return (unsigned)(x * 0x0101010101010101ull >> 56);
}

static unsigned distance(const struct signature *a, const struct signature *b)
{
	unsigned n = 0;

	for (unsigned w = 0; w < WORDS; w++)
		n += ones(a->w[w] ^ b->w[w]);
	return n;
}

/* ---- the rule --------------------------------------------------------------------------------- */

/* Likeness as tokens: so much of the prompt seems to be there. */
static void match(void *of_rule, const struct policy_opts *o, const struct policy_prompt *p, msec now,
		  uint32_t *tokens)
{
	const struct signatures *m = of_rule;
	struct signature s = signature_of(p);
	double prompt = (double)p->n_pages * p->page_tokens;

	for (uint32_t i = 0; i < m->cap; i++) {
		const struct recent *r = &m->recent[i];
		uint32_t alike;

		if (r->server == SERVER_NONE || r->space != p->space)
			continue;
		alike = (uint32_t)(m->likeness[distance(&s, &r->s)] * prompt);
		if (alike > tokens[r->server])
			tokens[r->server] = alike;
	}
}

static void sent(void *of_rule, const struct policy_opts *o, const struct policy_prompt *p, server_id to, msec now)
{
	struct signatures *m = of_rule;

	if (p->n_pages == 0)
		return;
	m->recent[m->next] = (struct recent){ .s = signature_of(p), .space = p->space, .server = to };
	m->next = (m->next + 1) % m->cap;
}

static void gone(void *of_rule, server_id id)
{
	struct signatures *m = of_rule;

	for (uint32_t i = 0; i < m->cap; i++) {
		if (m->recent[i].server == id)
			m->recent[i].server = SERVER_NONE;
	}
}

const struct rule rule_simhash = {
	.preset = preset, .choose = longest_where_load_is_well,
	.memory_new = memory_new, .memory_free = memory_free, .memory_bytes = memory_bytes,
	.match = match, .sent = sent, .gone = gone,
};
