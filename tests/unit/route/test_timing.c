/* test_timing.c - does the time of a decision reveal what another tenant has sent?
 *
 * A tenant B sends prompts of which another, A, has sent half before, in random order. If the times
 * of the two halves differed, a prompt could be guessed piece by piece. The area under the curve
 * (AUC) is the chance that a prompt of one half took longer than one of the other; 0.5 means that
 * no difference can be seen. The same is measured without isolated tenants, where a difference must
 * be seen, or the measurement could see nothing.
 *
 * Pauses of a shared machine fall on both halves alike, because the halves are drawn at random, and
 * their length does not change ranks. So if the halves take the same time, the AUC of n prompts is
 * normal around 0.5 with a deviation of 1 / sqrt(3 n) on any machine: 0.0041 for 20,000. LONG=1 in
 * the environment: 100,000 prompts, and an AUC within 0.02; else fewer prompts and a wider bound.
 * Noise may hide a difference. If the measurement without isolation sees none, the test is skipped.
 */
#include <math.h>
#include <time.h>

#include "tests/unit/route/world.h"

#define BATCH	64
#define PAGES	24		/* of 64 bytes, in a prompt */
#define SHORT	20000
#define SHORT_BOUND	0.04	/* ten deviations */

enum { KNOWN, NEW };

struct sample {
	double ns;
	int half;
};

static uint64_t number;		/* of prompts made, for new ones */

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Prompt <n>: made again each time, so that it is in no CPU cache from its last use. */
static void prompt(struct world *w, uint64_t n)
{
	struct rng rng;

	rng_init(&rng, n);
	w->body.n = 0;
	say(&w->body, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"");
	for (int i = 0; i < PAGES * 64 / 8; i++)
		say(&w->body, "%08x", (unsigned)rng_next(&rng));
	say(&w->body, "\"}]}");
}

static double ask_as(struct world *w, struct span tenant, const char *uid)
{
	double start;

	w->q.tenant = tenant;
	w->q.uid = span_str(uid);
	w->q.seq = -1;
	w->q.body = span_of(w->body.p, w->body.n);
	start = now_ns();
	route_decide(w->r, w->s, &w->q, w->now, &w->a);
	return now_ns() - start;
}

/* A's prompts first, then the whole batch by B. B's pages are removed again, and outcomes are
 * counted by halves. */
static void batch(struct world *w, struct rng *rng, struct sample *out, unsigned cached[2])
{
	uint64_t n[BATCH];
	int half[BATCH];

	for (int i = 0; i < BATCH; i++) {
		n[i] = ++number;
		half[i] = (int)(rng_next(rng) >> 63);
		if (half[i] == NEW)
			continue;
		prompt(w, n[i]);
		ask_as(w, SPAN("tenant-a"), "a");
		served(w, "a");
	}
	for (int i = 0; i < BATCH; i++) {
		prompt(w, n[i]);
		out[i].ns = ask_as(w, SPAN("tenant-b"), "b");
		out[i].half = half[i];
		cached[half[i]] += w->a.why == WHY_CACHED;
		refused(w, "b");
		w->now += 20;
	}
}

static int order(const void *a, const void *b)
{
	double x = ((const struct sample *)a)->ns, y = ((const struct sample *)b)->ns;

	return x < y ? -1 : x > y;
}

/* Mann and Whitney's U over the product of the sizes; equal times share their ranks. */
static double auc(struct sample *s, unsigned n, double median[2])
{
	double known = 0, ranks = 0, below[2] = { 0 };

	qsort(s, n, sizeof(*s), order);
	for (unsigned i = 0, j; i < n; i = j) {
		for (j = i; j < n && s[j].ns <= s[i].ns; j++)
			;
		for (unsigned k = i; k < j; k++) {
			known += s[k].half == KNOWN;
			ranks += s[k].half == KNOWN ? (i + j + 1) / 2.0 : 0;
		}
	}
	for (unsigned i = 0; i < n; i++)
		if (++below[s[i].half] <= (s[i].half == KNOWN ? known : n - known) / 2)
			median[s[i].half] = s[i].ns;
	return (ranks - known * (known + 1) / 2) / (known * (n - known));
}

static double measure(bool isolate, unsigned n, unsigned cached[2], double median[2])
{
	struct sample *s = malloc(n * sizeof(*s));
	struct rng rng;
	struct world w;
	double a;

	assert_non_null(s);
	world_options(&w);
	w.o.pool_default.isolate_tenants = isolate;
	w.o.decisions_keep = 16;	/* a ring that is in the cache: less noise shows more */
	world_open(&w);
	rng_init(&rng, 77);
	cached[0] = cached[1] = 0;
	for (unsigned i = 0; i < 4; i++)	/* to warm up */
		batch(&w, &rng, s, cached);
	cached[0] = cached[1] = 0;
	for (unsigned i = 0; i + BATCH <= n; i += BATCH)
		batch(&w, &rng, s + i, cached);
	a = auc(s, n / BATCH * BATCH, median);
	world_end(&w);
	free(s);
	return a;
}

static void times_reveal_nothing(void **state)
{
	bool all = getenv("LONG") != NULL;
	unsigned n = all ? 100000 : SHORT, cached[2];
	double bound = all ? 0.02 : SHORT_BOUND, median[2], a = 0;

	/* a machine may change its speed in the middle, so a bad figure must be bad three times */
	for (int turn = 0; turn < 3; turn++) {
		a = measure(true, n, cached, median);
		printf("kept apart: %u prompts, AUC %.4f, median %.0f ns where the other has it, %.0f ns "
		       "where nobody has, %u told cached\n", n, a, median[KNOWN], median[NEW],
		       cached[0] + cached[1]);
		assert_int_equal(cached[KNOWN] + cached[NEW], 0);
		if (fabs(a - 0.5) <= bound)
			break;
	}
	assert_true(fabs(a - 0.5) <= bound);
}

/* Instrumented code spends so much time in common parts that it hides any difference. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HIDDEN	true
#else
#define HIDDEN	false
#endif

static void it_would_be_seen(void **state)
{
	double median[2], a = 0.5;
	unsigned cached[2];

	if (HIDDEN)
		skip();
	/* a busy machine hides it, too */
	for (int turn = 0; turn < 10 && fabs(a - 0.5) <= SHORT_BOUND; turn++) {
		a = measure(false, SHORT, cached, median);
		printf("not kept apart: %u prompts, AUC %.4f, median %.0f ns where the other has it, %.0f ns "
		       "where nobody has, %u and %u told cached\n", SHORT, a, median[KNOWN], median[NEW],
		       cached[KNOWN], cached[NEW]);
		assert_true(cached[KNOWN] > SHORT / 3);
		assert_int_equal(cached[NEW], 0);
	}
	if (fabs(a - 0.5) <= SHORT_BOUND) {
		printf("skipped: the time of a decision: this machine is too noisy to see it\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_reveal_nothing),
		cmocka_unit_test(it_would_be_seen),
	};

	return cmocka_run_group_tests_name("route timing", tests, NULL, NULL);
}
