/* test_heads_flood.c - crafted tenants, models and messages cannot lengthen the chains in the
 * tables of heads, because the tables use keyed hashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/prompt/heads.c"	/* for struct table */
#include "tests/unit/flood.h"

struct chains {
	unsigned worst, n;
	size_t buckets;
};

static struct chains look(const struct table *t)
{
	struct chains c = { .buckets = t->n };

	for (size_t i = 0; i < t->n; i++) {
		unsigned len = 0;

		for (const struct entry *e = t->bucket[i]; e != NULL; e = e->next)
			len++;
		c.worst = len > c.worst ? len : c.worst;
		c.n += len;
	}
	return c;
}

static struct hash_key key(void)
{
	struct hash_key k;
	struct rng rng;

	rng_init(&rng, 11);
	for (size_t i = 0; i < sizeof(k.secret); i++)
		k.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
	return k;
}

/* Add each message once as tenant and once as model, with its hash as the opening page. */
static void fill(struct heads *h, const struct hash_key *k, enum flood_set set)
{
	static struct prompt p;
	uint8_t m[FLOOD_MAX];
	page_key page;

	memset(&p, 0, sizeof(p));
	p.json = JSON_DONE;
	for (unsigned i = 0; i < FLOOD_N; i++) {
		size_t n = flood_message(set, i, m);

		page = hash64(k, m, n);
		p.messages.p = &page;
		p.messages.n = 1;
		p.model.seen = true;
		p.model.n = (uint16_t)(n < PROMPT_NAME_MAX ? n : PROMPT_NAME_MAX);
		memcpy(p.model.s, m, p.model.n);
		heads_add(h, hash_mix_span(k, 3, span_of(m, n)), 4, &p);
		heads_add(h, 5, 4, &p);
	}
}

static void crafted_names(void **state)
{
	static const char *const names[] = { "tenants", "heads", "openings" };
	struct chains got[FLOOD_SETS + 1][3];
	struct hash_key k = key();
	struct heads_opts o;

	(void)state;
	heads_defaults(&o);
	o.max_tenant_bytes = o.max_bytes;
	for (enum flood_set s = 0; s <= FLOOD_RANDOM; s++) {
		struct heads *h = heads_new(&o, &k);

		assert_non_null(h);
		fill(h, &k, s);
		got[s][0] = look(&h->tenants);
		got[s][1] = look(&h->by_content);
		got[s][2] = look(&h->by_opening);
		heads_free(h);
	}
	for (enum flood_set s = 0; s < FLOOD_SETS; s++) {
		for (int t = 0; t < 3; t++) {
			printf("%s of %s: %u in %zu buckets, worst chain %u (random %u)\n", names[t],
			       flood_names[s], got[s][t].n, got[s][t].buckets, got[s][t].worst,
			       got[FLOOD_RANDOM][t].worst);
			assert_true(got[s][t].n >= FLOOD_N);
			assert_true(got[s][t].worst <= 16);
		}
	}
}

/* With the default limits, chains stay short until the memory budget is full. */
static void a_full_table(void **state)
{
	struct hash_key k = key();
	struct heads_opts o;
	struct heads *h;
	struct chains c;
	static struct prompt p;
	page_key page;

	(void)state;
	heads_defaults(&o);
	assert_non_null(h = heads_new(&o, &k));
	p.json = JSON_DONE;
	for (unsigned i = 0; h->st.evicted == 0; i++) {
		page = hash_mix(&k, 1, i);
		p.messages.p = &page;
		p.messages.n = 1;
		heads_add(h, hash_mix(&k, 2, i / 16), 4, &p);
	}
	c = look(&h->by_opening);
	printf("openings, full: %u in %zu buckets, worst chain %u\n", c.n, c.buckets, c.worst);
	assert_true(c.worst <= 16);
	c = look(&h->tenants);
	printf("tenants, full: %u in %zu buckets, worst chain %u\n", c.n, c.buckets, c.worst);
	assert_true(c.worst <= 16);
	heads_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crafted_names),
		cmocka_unit_test(a_full_table),
	};

	return cmocka_run_group_tests_name("prompt heads flood", tests, NULL, NULL);
}
