/* test_stream_wipe.c - no text is left in the memory that a stream, its steps and its scratch free.
 * wiped.h looks at a block before it is freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/tok/stream.h"
#include "tests/unit/tok/small.h"
#include "tests/unit/wiped.h"

#define SECRET	"Zebra7719"

static void freed_blocks_are_wiped(void **state)
{
	static const enum small_kind kinds[] = { SMALL_L3, SMALL_QWEN, SMALL_STRIP, SMALL_SPM };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct tok *t = small_tok(kinds[i]);
		struct cached c = { .tok = t, .scratch = tok_scratch_new() };
		struct stream_opts o = { .max_bytes = 1 << 20 };
		struct stream *s = stream_new(&o);
		struct ids out = { 0 };

		wiped = (struct wiped){ .secret = SECRET };
		for (unsigned text = 0; text < 3; text++) {
			assert_int_equal(stream_begin(s, &c, &out), STREAM_DONE);
			/* the first text has no place to cut, so it is encoded in steps */
			for (unsigned k = 0; k < 20000; k++) {
				assert_int_equal(stream_feed(s,
						     text ? SPAN(SECRET " and ")
							  : SPAN(SECRET "\xff")),
				    STREAM_DONE);
				if (k % 100 == 0 && text < 2)
					assert_true(stream_step(s, 1000) >= 0);
			}
			stream_end(s);
			while (text < 2 && stream_step(s, 1000) == STREAM_MORE)
				;
		}
		stream_free(s);
		tok_scratch_free(c.scratch);
		assert_true(wiped.freed > 6);
		assert_int_equal(wiped.dirty, 0);
		tok_unref(t);
		ids_free(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(freed_blocks_are_wiped) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
