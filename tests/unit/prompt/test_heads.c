/* test_heads.c - which remembered head a cut body gets. Prompts are made by hand; a page is a small
 * number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/prompt/heads.h"

static struct hash_key key;	/* random bytes, because XXH3 collides with a secret of zeros */

static struct heads *make(size_t max_bytes, size_t max_tenant_bytes)
{
	struct heads_opts o = { .max_bytes = max_bytes, .max_tenant_bytes = max_tenant_bytes,
				.max_head_pages = 100 };
	struct heads *h = heads_new(&o, &key);

	assert_non_null(h);
	return h;
}

/* Return a vector with a page for each character of <text>. */
static struct page_vec pages(const char *text)
{
	static page_key store[64][256];
	static unsigned next;
	page_key *p = store[next++ % 64];
	uint32_t n;

	for (n = 0; text[n] != '\0'; n++) {
		assert_true(n < 256);
		p[n] = (unsigned char)text[n];
	}
	return (struct page_vec){ .p = n ? p : NULL, .n = n, .cap = n };
}

static struct prompt_name name(const char *s)
{
	struct prompt_name n = { .seen = s != NULL };

	if (s != NULL)
		n.n = (uint16_t)snprintf(n.s, sizeof(n.s), "%s", s);
	return n;
}

static struct prompt whole(const char *messages, const char *model, const char *sys,
    const char *tools)
{
	return (struct prompt){
		.api = API_CHAT, .json = JSON_DONE, .found = true, .model = name(model),
		.system_seen = *sys != '\0', .tools_seen = *tools != '\0', .prompt_seen = true,
		.system = pages(sys), .tools = pages(tools), .messages = pages(messages),
	};
}

static struct prompt cut(const char *messages)
{
	return (struct prompt){ .api = API_CHAT, .json = JSON_MORE, .found = true,
				.messages = pages(messages) };
}

static void add(struct heads *h, uint64_t tenant, struct prompt p)
{
	heads_add(h, tenant, tenant + 100, &p);
}

static struct heads_stats stats(struct heads *h)
{
	struct heads_stats s;

	heads_stats(h, &s);
	return s;
}

/* Return the model of the head that <p> gets; "-" if none. */
static const char *lent(struct heads *h, uint64_t tenant, struct prompt p)
{
	struct prompt_head *head = heads_find(h, tenant, tenant + 100, &p);
	static char s[64];

	snprintf(s, sizeof(s), "%s", "-");
	if (head != NULL)
		snprintf(s, sizeof(s), SPAN_FMT, SPAN_ARG(head->model));
	heads_release(head);
	return s;
}

/* Add whole bodies in order, then find the head for a cut body. */
static void the_longest_opening_wins(void **state)
{
	static const struct {
		const char *added[3][2];	/* messages, model */
		const char *cut, *want;
	} cases[] = {
		{ { { "abc", "m" } }, "a", "m" },
		{ { { "abc", "m" } }, "abcd", "m" },
		{ { { "abc", "m" } }, "ab", "m" },
		{ { { "abc", "m" } }, "axyz", "m" },		/* its first page is enough */
		{ { { "abc", "m" } }, "xbc", "-" },
		{ { { "abc", "m" } }, "", "-" },
		{ { { "", "m" } }, "a", "-" },
		{ { { "ab", "m" }, { "ac", "n" } }, "ab", "m" },	/* the longest match wins */
		{ { { "ab", "m" }, { "ac", "n" } }, "ad", "n" },	/* of equal matches the last added wins */
		{ { { "ac", "n" }, { "ab", "m" } }, "ad", "m" },
		{ { { "abcdefgh1", "m" }, { "abcdefgX", "n" } }, "abcdefgh2", "m" },
		{ { { "abcdefgh1", "m" }, { "abcdefgX", "n" } }, "abcdefg", "n" },	/* 4 pages */
		{ { { "abcd", "m" }, { "abcd", "n" } }, "abcd", "n" },
		{ { { "abcd", "m" }, { "abcd", "n" }, { "abcd", "m" } }, "abcde", "m" },
	};
	struct heads *h;
	size_t i, k;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		h = make(1 << 20, 1 << 20);
		for (k = 0; k < 3 && cases[i].added[k][0] != NULL; k++)
			add(h, 1, whole(cases[i].added[k][0], cases[i].added[k][1], "", ""));
		if (strcmp(lent(h, 1, cut(cases[i].cut)), cases[i].want) != 0)
			fail_msg("case %zu: \"%s\" did not get %s", i, cases[i].cut, cases[i].want);
		heads_free(h);
	}
}

static void a_found_head_outlives_the_table(void **state)
{
	struct heads *h = make(1 << 20, 1 << 20);
	struct prompt p = whole("abc", "model", "SYS", "TOOLS"), q = cut("abcd");
	struct prompt_head *head;

	p.lora = name("adapter");
	heads_add(h, 1, 2, &p);
	head = heads_find(h, 1, 2, &q);
	heads_free(h);
	assert_non_null(head);
	assert_true(span_eq(head->model, SPAN("model")));
	assert_true(span_eq(head->lora, SPAN("adapter")));
	assert_int_equal(head->n_system, 3);
	assert_memory_equal(head->system, p.system.p, 3 * sizeof(page_key));
	assert_int_equal(head->n_tools, 5);
	assert_memory_equal(head->tools, p.tools.p, 5 * sizeof(page_key));
	heads_release(head);
	heads_release(NULL);
	heads_free(NULL);
}

static void bodies_that_are_not_remembered(void **state)
{
	struct heads *h = make(1 << 20, 1 << 20);
	struct heads_stats none = stats(h);
	struct prompt p = whole("abc", "m", "s", "t");
	char many[102];

	p.salt = name("pepper");
	add(h, 1, p);
	p = whole("abc", "m", "s", "t");
	p.json = JSON_MORE;
	add(h, 1, p);
	p.json = JSON_BAD;
	add(h, 1, p);
	p = whole("abc", "m", "s", "t");
	p.truncated = true;
	add(h, 1, p);
	memset(many, 's', 101);
	many[101] = '\0';
	add(h, 1, whole("abc", "m", many, ""));
	add(h, 1, whole("abc", "m", many + 50, many + 51 - 1));
	assert_int_equal(stats(h).bytes, none.bytes);
	assert_int_equal(stats(h).heads, 0);
	add(h, 1, whole("abc", "m", many + 50, many + 52));
	assert_int_equal(stats(h).heads, 1);
	heads_free(h);
}

/* A body gets a head only if the parts that it has agree: equal if it has the whole part, a prefix
 * if it is cut in the part. */
static void a_head_that_disagrees_is_not_found(void **state)
{
	struct heads *h = make(1 << 20, 1 << 20);
	struct prompt p;

	add(h, 1, whole("abc", "m", "sys", "tool"));
	p = cut("abc");
	p.model = name("m");
	assert_string_equal(lent(h, 1, p), "m");
	p.model = name("mm");
	assert_string_equal(lent(h, 1, p), "-");
	p = cut("abc");
	p.lora = name("l");
	assert_string_equal(lent(h, 1, p), "-");
	p = cut("abc");
	p.salt = name("pepper");
	assert_string_equal(lent(h, 1, p), "-");
	p = cut("abc");
	p.system = pages("sy");
	assert_string_equal(lent(h, 1, p), "m");
	p.system_seen = true;
	assert_string_equal(lent(h, 1, p), "-");
	p.system = pages("sys");
	assert_string_equal(lent(h, 1, p), "m");
	p.system_seen = false;
	p.system = pages("sysx");
	assert_string_equal(lent(h, 1, p), "-");
	p = cut("abc");
	p.tools = pages("tx");
	assert_string_equal(lent(h, 1, p), "-");
	p.tools = pages("to");
	assert_string_equal(lent(h, 1, p), "m");
	heads_free(h);
}

static void tenants_scopes_and_kinds_are_apart(void **state)
{
	struct heads *h = make(1 << 20, 1 << 20);
	struct prompt p = whole("abc", "m", "s", "t"), q = cut("abc");
	struct prompt_head *head;

	heads_add(h, 1, 5, &p);
	assert_null(heads_find(h, 2, 5, &q));
	assert_null(heads_find(h, 1, 6, &q));
	q.mode = PROMPT_TOKENS;
	assert_null(heads_find(h, 1, 5, &q));
	q.mode = PROMPT_TEXT;
	q.api = API_MESSAGES;
	assert_null(heads_find(h, 1, 5, &q));
	q.api = API_CHAT;
	assert_non_null(head = heads_find(h, 1, 5, &q));
	heads_release(head);
	assert_int_equal(stats(h).found, 1);
	assert_int_equal(stats(h).missed, 4);
	heads_free(h);
}

static char *numbered(unsigned i)
{
	static char s[16];

	snprintf(s, sizeof(s), "%u", i);
	return s;
}

/* A thousand conversations share one stored head. A head is freed when its last opening goes. */
static void heads_are_shared_by_content(void **state)
{
	struct heads *h = make(1 << 20, 1 << 20);
	size_t empty = stats(h).bytes;
	unsigned i;

	for (i = 0; i < 1000; i++)
		add(h, 1, whole(numbered(10000000 + i), "m", "system", "tools"));
	assert_int_equal(stats(h).heads, 1);
	assert_int_equal(stats(h).openings, 1 + 1 + 1000);	/* "1", "10", 8 digits */
	assert_true(stats(h).bytes - empty < 1002 * 64 + 1024);
	add(h, 1, whole("x", "m", "system", "tools"));
	add(h, 1, whole("x", "m", "system", "other"));
	assert_int_equal(stats(h).heads, 2);
	add(h, 1, whole("x", "m", "system", "third"));
	assert_int_equal(stats(h).heads, 2);
	heads_free(h);
}

/* Write <i> with its last digit first, so that openings differ early. */
static char *parting(unsigned i)
{
	static char s[16];
	unsigned n;

	for (n = 0; i > 0; i /= 10)
		s[n++] = (char)('0' + i % 10);
	s[n] = '\0';
	return s;
}

/* The least recently used head is evicted first: of the first conversations of fifty tenants, only
 * the one that is found again and again survives. */
static void the_least_recently_used_is_evicted(void **state)
{
	struct heads *h = make(65536, 65536);
	struct heads_stats s;
	unsigned i;

	for (i = 0; i < 20000; i++) {
		add(h, 1 + i % 50, whole(parting(10000000 + i / 50), numbered(i), "s", "t"));
		s = stats(h);
		assert_true(s.bytes <= 65536);
		if (i % 50 == 7)
			assert_string_equal(lent(h, 8, cut(parting(10000000))), "7");
	}
	assert_true(s.evicted > 10000);
	assert_true(s.bytes > 60000);
	assert_string_not_equal(lent(h, 9, cut(parting(10000000))), "8");
	assert_string_equal(lent(h, 9, cut(parting(10000399))), numbered(19958));
	heads_free(h);
}

static void a_tenant_has_its_share_and_no_more(void **state)
{
	struct heads *h = make(1 << 20, 1 << 14);
	size_t empty = stats(h).bytes;
	unsigned i;

	add(h, 1, whole("mine", "m", "s", "t"));
	for (i = 0; i < 20000; i++)
		add(h, 2, whole(parting(100000 + i * 7), numbered(i), "s", "t"));
	assert_in_range(stats(h).bytes - empty, 1 << 13, (1 << 14) + 1024);
	assert_string_equal(lent(h, 1, cut("mine")), "m");
	assert_true(stats(h).evicted > 10000);
	heads_free(h);
}

static void a_head_larger_than_the_share_evicts_nothing(void **state)
{
	struct heads *h = make(1 << 20, 2800);
	char many[101] = { 0 };

	memset(many, 's', 100);
	add(h, 1, whole("a", "m", "s", "t"));
	add(h, 1, whole("b", "n", many, ""));
	assert_string_equal(lent(h, 1, cut("a")), "m");
	assert_string_equal(lent(h, 1, cut("b")), "-");
	heads_free(h);
}

/* A prompt of one page, which is one opening. All have the same head. */
static struct prompt single(unsigned i)
{
	const char text[2] = { (char)('0' + i), '\0' };

	return whole(text, "m", "s", "t");
}

static bool has_single(struct heads *h, unsigned i)
{
	const char text[2] = { (char)('0' + i), '\0' };

	return *lent(h, 1, cut(text)) == 'm';
}

/* Openings that are all in use: one addition passes over 16, and those have no bit then. */
static void few_openings_are_passed_over(void **state)
{
	struct heads *h = make(1 << 20, 1 << 12);
	unsigned i, n;

	for (n = 0; stats(h).evicted == 0; n++) {
		for (i = 0; i < n; i++)
			assert_true(has_single(h, i));
		add(h, 1, single(n));
	}
	assert_in_range(n, 36, 70);
	add(h, 1, single(n++));		/* passes over the next 16 */
	assert_int_equal(stats(h).evicted, 2);
	for (i = 0; i < n; i++)
		assert_int_equal(has_single(h, i), i != 16 && i != 33);
	heads_free(h);
}

/* An opening that was added once more was used, too. */
static void an_opening_set_again_outlives_others(void **state)
{
	struct heads *h = make(1 << 20, 1 << 12);
	unsigned n;

	add(h, 1, single(0));
	add(h, 1, single(1));
	add(h, 1, single(0));
	for (n = 2; stats(h).evicted == 0; n++)
		add(h, 1, single(n));
	assert_true(has_single(h, 0));
	assert_false(has_single(h, 1));
	heads_free(h);
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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longest_opening_wins),
		cmocka_unit_test(a_found_head_outlives_the_table),
		cmocka_unit_test(bodies_that_are_not_remembered),
		cmocka_unit_test(a_head_that_disagrees_is_not_found),
		cmocka_unit_test(tenants_scopes_and_kinds_are_apart),
		cmocka_unit_test(heads_are_shared_by_content),
		cmocka_unit_test(the_least_recently_used_is_evicted),
		cmocka_unit_test(few_openings_are_passed_over),
		cmocka_unit_test(an_opening_set_again_outlives_others),
		cmocka_unit_test(a_tenant_has_its_share_and_no_more),
		cmocka_unit_test(a_head_larger_than_the_share_evicts_nothing),
	};

	make_key();
	return cmocka_run_group_tests_name("heads", tests, NULL, NULL);
}
