/* tables.h - rules with a memory of their own: prompts are words, and a letter is a page. */
#ifndef TESTS_POLICY_TABLES_H
#define TESTS_POLICY_TABLES_H

#include "tests/unit/policy/candidates.h"

#define WORD_MAX	64

struct prompt_of {
	page_key pages[WORD_MAX];
	struct policy_prompt p;
};

static inline page_key page_of(char letter)
{
	return ((uint64_t)(unsigned char)letter + 1) * 0x9e3779b97f4a7c15ull;
}

/* Pages of 16 tokens. The result may not be copied. */
static inline const struct policy_prompt *prompt_in(
    struct prompt_of *q, uint64_t space, const char *word)
{
	uint32_t n = (uint32_t)strlen(word);

	assert_true(n <= WORD_MAX);
	for (uint32_t i = 0; i < n; i++)
		q->pages[i] = page_of(word[i]);
	q->p = (struct policy_prompt){
		.pages = q->pages, .n_pages = n, .page_tokens = 16, .tokens = n * 16ull,
		.space = space, .model = space,
	};
	return &q->p;
}

/* A rule with its memory, and the servers of the last choice. */
struct rig {
	struct policy_opts o;
	struct policy_memory *m;
	struct rng rng;
	msec now;
	uint32_t tokens[SERVERS_MAX];
	struct candidate c[ROW_MAX];
};

static inline void rig_start(struct rig *r, enum policy_rule rule)
{
	memset(r, 0, sizeof(*r));
	policy_defaults(&r->o);
	policy_preset(&r->o, rule);
	r->o.rule_max_bytes = 1 << 20;
	r->m = policy_memory_new(&r->o);
	assert_non_null(r->m);
	rng_init(&r->rng, 1);
	r->now = 1000000;
}

static inline void rig_end(struct rig *r)
{
	policy_memory_free(r->m);
}

static inline void sends(struct rig *r, uint64_t space, const char *word, server_id to)
{
	struct prompt_of q;

	policy_sent(r->m, &r->o, prompt_in(&q, space, word), to, r->now);
}

/* Return the pages of <word> that the memory has for <server>. */
static inline uint32_t holds(struct rig *r, uint64_t space, const char *word, server_id server)
{
	struct prompt_of q;

	assert_true(policy_match(r->m, &r->o, prompt_in(&q, space, word), r->now, r->tokens));
	assert_int_equal(r->tokens[server] % 16, 0);
	return r->tokens[server] / 16;
}

/* Choose for <word> among servers 0 .. n - 1; the candidates stay in r->c. */
static inline struct policy_choice chooses(
    struct rig *r, const char *word, const struct seat *row, size_t n)
{
	struct policy_choice out;
	struct prompt_of q;

	row_of(row, n, r->c);
	policy_match(r->m, &r->o, prompt_in(&q, 1, word), r->now, r->tokens);
	for (size_t i = 0; i < n; i++)
		r->c[i].own = r->tokens[r->c[i].id];
	policy_choose(&r->o, r->m, &q.p, &(struct policy_pressure){ 0 }, &r->rng, r->c, n, &out);
	return out;
}

/* Count how often each of <n> servers is the first choice, of 1000 times. */
static inline void choose_often(
    struct rig *r, const char *word, const struct seat *row, size_t n, unsigned *often)
{
	memset(often, 0, n * sizeof(*often));
	for (int i = 0; i < 1000; i++)
		often[chooses(r, word, row, n).first]++;
}

#endif
