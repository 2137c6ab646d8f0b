/* Each allocation of a rendering fails once, in turn: the call returns an error, and nothing leaks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/chat/gpt_oss.h"
#include "tests/unit/chat/harmony_cases.h"
#include "tests/unit/fault.h"

static const char body[] =
	"{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"F.\","
	"\"parameters\":{\"type\":\"object\"}}}],"
	"\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\","
	"\"reasoning\":\"hm\",\"tool_calls\":"
	"[{\"id\":\"1\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\","
	"\"tool_call_id\":\"1\",\"content\":\"42\"}]}";

static int count_bytes(void *arg, enum harmony_piece what, struct span text)
{
	*(size_t *)arg += text.n;
	return 0;
}

static bool story(size_t *n)
{
	struct gpt_oss_opts o = { .date = SPAN("2026-11-21"), .completion = true };
	struct jinja_mem *mem = jinja_mem_new(1 << 20, &case_key);
	enum harmony_result r = HARMONY_NO_MEMORY;
	struct jval v;
	size_t at;

	*n = 0;
	if (mem != NULL && jval_from_json(mem, span_str(body), 0, &v, &at) == 0)
		r = gpt_oss_render(mem, v, &o, count_bytes, n);
	assert_true(r == HARMONY_DONE || r == HARMONY_NO_MEMORY);
	jinja_mem_free(mem);
	return r == HARMONY_DONE;
}

static void without_memory(void **state)
{
	size_t n, whole;
	unsigned long k;

	assert_true(story(&whole));
	for (k = 1; ; k++) {
		bool done;

		fault_begin(k);
		done = story(&n);
		if (!fault_end())
			break;
		assert_false(done);
	}
	assert_int_equal(n, whole);
	assert_true(k > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(without_memory) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
