/* test_text_fault.c - each allocation fails once, in turn: the collected text is then marked lost,
 * and nothing leaks. */
#include "agent/prompt/text.h"
#include "tests/unit/prompt/bodies.h"
#include "tests/unit/fault.h"

#define S10	"0123456789"
#define S1K	S10 S10 S10 S10 S10 S10 S10 S10 S10 S10 S10 S10 S10 S10 \
		S10 S10 S10 S10 S10 S10 S10 S10 S10 S10 S10 S10 S10 S10
#define WORDS	"{\"prompt\":[\"" S1K S1K S1K S1K S1K S1K S1K S1K S1K S1K \
		 S1K S1K S1K S1K S1K S1K S1K S1K S1K "\",\"b\"]}"

static void feed(struct prompt_text *t, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i += 100)
		prompt_text_feed(t, text + i, n - i < 100 ? n - i : 100);
}

/* Collect both prompts. Returns true if both are complete. */
static bool story(const char *ids, size_t n)
{
	struct prompt_text *t = prompt_text_new();
	bool all;

	if (t == NULL)
		return false;
	prompt_text_reset(t, API_COMPLETIONS, 16);
	feed(t, WORDS, sizeof(WORDS) - 1);
	assert_int_equal(t->json.state, JSON_DONE);
	all = !t->lost;
	assert_true(t->lost ||
	    (t->items.n == 2 && t->items.p[1].whole && t->words.n == sizeof(WORDS) - 19));
	prompt_text_reset(t, API_COMPLETIONS, 16);
	feed(t, ids, n);
	assert_true(t->lost || (t->items.n == 1 && t->ids.n == 3000));
	all = all && !t->lost;
	prompt_text_free(t);
	return all;
}

static void test_fault(void **state)
{
	static char ids[32768];
	size_t n = (size_t)sprintf(ids, "{\"prompt\":[1");
	unsigned long k;
	bool all;

	for (int i = 1; i < 3000; i++)
		n += (size_t)sprintf(ids + n, ",%d", i);
	n += (size_t)sprintf(ids + n, "]}");
	for (k = 1; ; k++) {
		fault_begin(k);
		all = story(ids, n);
		if (!fault_end())
			break;
		assert_false(all);
	}
	assert_true(all);
	assert_in_range(k, 6, 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_fault) };

	bodies_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
