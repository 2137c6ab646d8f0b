/* test_heads_fault.c - each allocation fails once, in turn: a head may then be missing, but a head
 * that is found is right, and nothing leaks or is counted twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/prompt/heads.h"
#include "tests/unit/fault.h"

static struct hash_key key;	/* random bytes, because XXH3 collides with a secret of zeros */

static struct prompt body(page_key *pages, uint32_t n, enum json_state json, const char *model)
{
	struct prompt p = { .api = API_CHAT, .json = json, .found = true };

	p.messages = (struct page_vec){ pages, n, n };
	p.tools = json == JSON_DONE ? (struct page_vec){ pages, 2, 2 } : (struct page_vec){ 0 };
	p.model.n = (uint16_t)strlen(model);
	p.model.seen = p.model.n > 0;
	memcpy(p.model.s, model, p.model.n);
	return p;
}

static void expect(struct heads *h, page_key *pages, uint32_t n, const char *model, const char *or)
{
	struct prompt p = body(pages, n, JSON_MORE, "");
	struct prompt_head *head = heads_find(h, 1, 1, &p);

	if (head != NULL)
		assert_true(span_eq(head->model, span_str(model)) ||
			    span_eq(head->model, span_str(or)));
	heads_release(head);
}

static void story(void)
{
	struct heads_opts o = { .max_bytes = 1 << 18, .max_tenant_bytes = 4096, .max_head_pages = 99 };
	page_key pages[300] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
	struct heads *h = heads_new(&o, &key);
	struct heads_stats s;
	struct prompt p;
	unsigned i;

	if (h == NULL)
		return;
	p = body(pages, 10, JSON_DONE, "m");
	heads_add(h, 1, 1, &p);
	expect(h, pages, 9, "m", "m");
	p = body(pages, 4, JSON_DONE, "n");
	heads_add(h, 1, 1, &p);
	expect(h, pages, 4, "n", "m");
	expect(h, pages, 10, "m", "n");
	for (i = 0; i < 30; i++) {		/* beyond the share of a tenant: the oldest are evicted */
		pages[0] = 100 + i;
		p = body(pages, 3, JSON_DONE, i % 2 ? "m" : "n");
		heads_add(h, 1, 1, &p);
	}
	heads_stats(h, &s);
	assert_true(s.bytes <= o.max_bytes);
	assert_true(s.heads <= 4 + 30);
	heads_free(h);
}

static void every_allocation_fails_once(void **state)
{
	unsigned long k;

	for (k = 1; k < 10000; k++) {
		fault_begin(k);
		story();
		if (!fault_end())
			break;
	}
	assert_in_range(k, 20, 9999);
}

static void make_key(void)
{
	struct rng rng;
	size_t i;

	rng_init(&rng, 1);
	for (i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&rng);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_allocation_fails_once) };

	make_key();
	return cmocka_run_group_tests_name("heads faults", tests, NULL, NULL);
}
