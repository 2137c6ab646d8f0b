/* test_turns_threads.c - several threads read bodies of the same conversations with one memory that
 * is too small for them: each body means the same as without it. */
#include <pthread.h>

#include "agent/prompt/turns.h"
#include "tests/unit/prompt/bodies.h"

#define THREADS	4
#define TALKS	6
#define ROUNDS	200

static struct turns *shared;
static uint64_t sums[TALKS][40];

static size_t write_body(char *out, unsigned talk, unsigned messages)
{
	size_t n = (size_t)sprintf(out, "{\"messages\":[");

	for (unsigned i = 0; i < messages; i++)
		n += (size_t)sprintf(out + n, "%s{\"role\":\"user\",\"content\":\"%u%0700u\"}", i > 0 ? "," : "",
		    i > 3 ? talk : 0, i);
	return n + (size_t)sprintf(out + n, "],\"model\":\"m\"}");
}

static uint64_t sum_of(struct body *b, struct turns *t, const char *p, size_t n)
{
	const struct page_vec *v = &body_prompt(b)->messages;
	size_t at;

	body_reset(b, API_CHAT);
	at = body_recall(b, t, 1, p, n);
	body_feed(b, p + at, n - at);
	body_remember(b, n, true);
	return hash64(&key, v->p, v->n * sizeof(*v->p));
}

static void *reader(void *arg)
{
	unsigned long wrong = 0;
	struct body *b = body_make();
	char *text = malloc(40000);
	struct turns_stats s;
	struct rng rng;

	rng_init(&rng, (uint64_t)(uintptr_t)arg);
	for (unsigned r = 0; r < ROUNDS; r++) {
		unsigned talk = rng_below(&rng, TALKS), m = 1 + rng_below(&rng, 39);
		size_t n = write_body(text, talk, m);

		wrong += sum_of(b, shared, text, n) != sums[talk][m];
		if (r % 50 == 49)
			turns_clear(shared);
		turns_stats(shared, &s);
	}
	free(text);
	body_free(b);
	return (void *)wrong;
}

static void threads_share_a_memory(void **state)
{
	const struct turns_opts o = {
		.max_bytes = 80000, .floor_bytes = 0, .least_bytes = 4096, .chunk_bytes = 8192
	};
	struct body *b = body_make();
	char *text = malloc(40000);
	pthread_t thread[THREADS];

	shared = turns_new(&o, &key);
	assert_non_null(shared);
	for (unsigned i = 0; i < TALKS; i++)
		for (unsigned m = 1; m < 40; m++)
			sums[i][m] = sum_of(b, NULL, text, write_body(text, i, m));
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, reader, (void *)(uintptr_t)(i + 1)), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		void *wrong;

		pthread_join(thread[i], &wrong);
		assert_null(wrong);
	}
	free(text);
	body_free(b);
	turns_free(shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(threads_share_a_memory) };

	bodies_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
