/* Each block that the encoder frees is all zeros first, because a growing array of ids or of
 * scratch leaves its old block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/tok/bpe/bpe_cache_in.h"
#include "tests/unit/tok/bpe_truth.h"
#include "tests/unit/wiped.h"

static uint8_t text[300000];

static void write_text(struct rng *r)
{
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = "abc"[rng_below(r, 3)];
}

static void all_zeros(const void *p, size_t n)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++)
		assert_int_equal(b[i], 0);
}

/* A long piece that is given up leaves nothing in the scratch itself, which goes on with others. */
static void stop_within(const struct bpe *b, struct bpe_scratch *c, struct ids *out)
{
	uint32_t end[] = { 50 };

	for (size_t budget = 1; budget < 200; budget++) {
		assert_int_equal(bpe_long_start(b, c, text, sizeof(text)), 0);
		assert_int_equal(bpe_long_step(b, c, budget, out), 1);
		bpe_scratch_wipe(c);
		all_zeros(&c->walk, sizeof(c->walk));
		all_zeros(&c->atoms, sizeof(c->atoms));
		assert_true(c->phase == LONG_IDLE && c->out_at == 0);
	}
	assert_int_equal(bpe_encode(b, c, text, end, 1, out), 0);
}

/* Encode pieces of growing length, whole and in steps, so that every array grows several times. */
static void encode(const struct bpe_spec *spec)
{
	struct bpe *b = bpe_new(spec, NULL);
	struct bpe_scratch *c = bpe_scratch_new();
	struct ids out = { 0 };

	assert_true(b != NULL && c != NULL);
	wiped = (struct wiped){ 0 };
	for (uint32_t n = 3; n < sizeof(text); n = n * 2 + 1) {
		uint32_t end[] = { n / 3, n / 2, n };

		assert_int_equal(bpe_encode(b, c, text, end, 3, &out), 0);
		assert_int_equal(bpe_long_start(b, c, text, n), 0);
		while (bpe_long_step(b, c, BPE_BUDGET, &out) == 1)
			;
	}
	assert_true(out.n > 100000);
	assert_true(wiped.freed > 20);
	stop_within(b, c, &out);
	ids_free(&out);
	bpe_scratch_free(c);
	assert_int_equal(wiped.dirty, 0);
	bpe_free(b);
}

static void of_bytes(void **state)
{
	static const char *const letters[] = { "a", "b", "c" };
	struct vocab v;
	struct rng r;

	rng_init(&r, 7);
	write_text(&r);
	vocab_init(&v);
	vocab_bytes(&v, 0);
	vocab_random(&v, &r, letters, 3, 60);
	encode(&v.spec);
	vocab_fini(&v);
}

/* Unknown characters give no id, so pieces are merged in order of rank. */
static void of_characters(void **state)
{
	struct vocab v;
	struct rng r;

	rng_init(&r, 8);
	write_text(&r);
	vocab_init(&v);
	v.spec.characters = true;
	vocab_token(&v, 300, "a", 1);
	vocab_token(&v, 301, "b", 1);
	vocab_token(&v, 302, "ab", 2);
	vocab_merge(&v, 300, 301, 302);
	encode(&v.spec);
	vocab_fini(&v);
}

/* A new cache has all its pages: no text waits for them. */
static void is_in_memory(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct bpe_scratch *c = bpe_scratch_new();
	uintptr_t at, end;
	unsigned char in;

	(void)state;
	assert_non_null(c);
	at = (uintptr_t)c->cache / page * page;
	end = (uintptr_t)(c->cache + 1);
	for (; at < end; at += page) {
		assert_int_equal(mincore((void *)at, page, &in), 0);
		assert_true(in & 1);
	}
	bpe_scratch_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_in_memory),		/* first: later memory was used before */
		cmocka_unit_test(of_bytes),
		cmocka_unit_test(of_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
