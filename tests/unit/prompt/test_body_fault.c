/* test_body_fault.c - each allocation fails once, in turn: the prompt is then marked truncated, and
 * its pages are a prefix of the pages of the whole body. */
#include "tests/unit/prompt/bodies.h"
#include "tests/unit/fault.h"

#define S10	"0123456789"
#define S64	S10 S10 S10 S10 S10 S10 "0123"
#define S1K	S64 S64 S64 S64 S64 S64 S64 S64 S64 S64 S64 S64 S64 S64 S64 S64
#define S8K	S1K S1K S1K S1K S1K S1K S1K S1K

static const char body_text[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"" S1K
    "\"},{\"tool_calls\":[{\"function\":{\"name\":\"f\","
    "\"arguments\":\"" S1K "\"}}],\"reasoning\":\"" S8K "\",\"content\":[{\"text\":\"" S8K
    "\"},{\"image_url\":"
    "\"u\"},{\"text\":\"" S1K "\"}]}],\"functions\":[\"" S1K "\"],\"tools\":[\"" S8K "\"]}";

static bool story(const struct prompt *whole, struct page_vec *whole_order)
{
	struct body *b = body_new(&opts, &key);
	struct page_vec out = { 0 };
	const struct prompt *p;
	bool all;
	int i;

	if (b == NULL)
		return false;
	body_reset(b, API_CHAT);
	for (i = 0; i < 4; i++)		/* the pages of calls and reasoning come out early and are taken back */
		body_feed(b, body_text + i * (sizeof(body_text) / 4),
			  i < 3 ? sizeof(body_text) / 4 : sizeof(body_text) - 1 - 3 * (sizeof(body_text) / 4));
	p = body_prompt(b);
	assert_int_equal(p->json, JSON_DONE);
	assert_true(p->found);
	assert_int_equal(p->n_units, whole->n_units);
	assert_true(vec_starts(&whole->messages, &p->messages));
	assert_true(vec_starts(&whole->tools, &p->tools));
	all = !p->truncated && vec_eq(&whole->messages, &p->messages) && vec_eq(&whole->tools, &p->tools);
	assert_int_equal(all, !p->truncated);
	if (prompt_pages(p, NULL, NULL, &out) != 0 || !all)
		all = false;
	else
		assert_true(vec_eq(&out, whole_order));
	page_vec_free(&out);
	body_free(b);
	return all;
}

static void test_fault(void **state)
{
	struct body *b = body_make();
	struct prompt whole = prompt_keep(feed_whole(b, API_CHAT, body_text, sizeof(body_text) - 1));
	struct page_vec order = { 0 };
	unsigned long k;
	bool all;

	assert_int_equal(prompt_pages(&whole, NULL, NULL, &order), 0);
	check_ref(&whole, body_text, sizeof(body_text) - 1);
	for (k = 1; ; k++) {
		fault_begin(k);
		all = story(&whole, &order);
		if (!fault_end())
			break;
		assert_false(all);	/* a failure without effect: the allocation was not needed */
	}
	assert_true(all);
	assert_in_range(k, 8, 100);
	prompt_drop(&whole);
	page_vec_free(&order);
	body_free(b);
}

/* A warm scanner allocates nothing. */
static void test_warm(void **state)
{
	struct body *b = body_make();

	feed_whole(b, API_CHAT, body_text, sizeof(body_text) - 1);
	fault_begin(1);
	feed_whole(b, API_CHAT, body_text, sizeof(body_text) - 1);
	feed_text(b, API_COMPLETIONS, "{\"prompt\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}");
	feed_text(b, API_MESSAGES, "{\"messages\":[{\"content\":\"" S1K "\"}]}");
	assert_false(fault_end());
	assert_false(body_prompt(b)->truncated);
	body_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fault),
		cmocka_unit_test(test_warm),
	};

	bodies_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
