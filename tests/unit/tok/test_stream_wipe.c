/* test_stream_wipe.c - no text is left in the memory that a stream, its steps and its scratch free.
 * This file defines the functions of mem.h, so that it can look at a block before it is freed. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/base/mem.h"
#include "agent/tok/stream.h"
#include "tests/unit/tok/small.h"

#define SECRET	"Zebra7719"

static size_t left_over, freed;

static void look(void *p)
{
	if (p == NULL)
		return;
	freed++;
	left_over += memmem(p, malloc_usable_size(p), SECRET, sizeof(SECRET) - 1) != NULL;
}

void *mem_alloc(size_t n)
{
	return calloc(1, n ? n : 1);
}

void *mem_calloc(size_t count, size_t size)
{
	return calloc(count ? count : 1, size ? size : 1);
}

/* Always move the block, so that the test sees the old one. */
void *mem_resize(void *p, size_t count, size_t size)
{
	size_t old = p != NULL ? malloc_usable_size(p) : 0;
	void *q = calloc(count ? count : 1, size ? size : 1);

	if (q != NULL && p != NULL) {
		memcpy(q, p, old < count * size ? old : count * size);
		mem_free(p);
	}
	return q;
}

void *mem_copy(const void *p, size_t n)
{
	void *q = mem_alloc(n);

	if (q != NULL && n > 0)
		memcpy(q, p, n);
	return q;
}

char *mem_strndup(const char *p, size_t n)
{
	char *s = mem_alloc(n + 1);

	if (s != NULL && n > 0)
		memcpy(s, p, n);
	return s;
}

void mem_free(void *p)
{
	look(p);
	free(p);
}

void mem_wipe(void *p, size_t n)
{
	explicit_bzero(p, n);
}

void mem_wipe_stack(void)
{
}

static void freed_blocks_are_wiped(void **state)
{
	static const enum small_kind kinds[] = { SMALL_L3, SMALL_QWEN, SMALL_STRIP, SMALL_SPM };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct tok *t = small_tok(kinds[i]);
		struct cached c = { .tok = t, .scratch = tok_scratch_new() };
		struct stream_opts o = { .max_bytes = 1 << 20 };
		struct stream *s = stream_new(&o);
		struct ids out = { 0 };

		freed = left_over = 0;
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
		assert_true(freed > 6);
		assert_int_equal(left_over, 0);
		tok_unref(t);
		ids_free(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(freed_blocks_are_wiped) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
