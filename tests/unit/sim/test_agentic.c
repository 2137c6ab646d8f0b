/* test_agentic.c - sessions of agents have the figures that were published of them, hold together,
 * and are equal for equal seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/types.h"
#include "agent/sim/agentic.h"

#define SESSIONS	2000u

struct figures {
	uint32_t turns[SESSIONS];
	uint32_t *in, *out;
	double *pause;
	uint32_t n, with_subagents, summaries, from_subagents;
	double sum_in, sum_out, sum_add;
};

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static uint32_t median(uint32_t *v, uint32_t n)
{
	qsort(v, n, sizeof(*v), by_number);
	return v[n / 2];
}

static void add(struct figures *f, const struct agentic_session *s, uint32_t which)
{
	f->with_subagents += s->agents > 0;
	for (uint32_t i = 0; i < s->n; i++, f->n++) {
		const struct agentic_turn *q = &s->turn[i];

		f->turns[which] += q->agent == 0;
		f->from_subagents += q->agent != 0;
		f->summaries += i > 0 && q->agent == 0 && q->keep == 20480;
		f->in[f->n] = q->keep + q->add;
		f->out[f->n] = q->out;
		f->pause[f->n] = q->pause_s;
		f->sum_in += q->keep + q->add;
		f->sum_out += q->out;
		f->sum_add += q->add;
	}
}

static void collect(struct figures *f)
{
	struct agentic_session *s = malloc(sizeof(*s));
	struct agentic_opts o;
	struct rng rng;

	*f = (struct figures){ 0 };
	f->in = malloc(SESSIONS * AGENTIC_TURNS_MAX * sizeof(*f->in));
	f->out = malloc(SESSIONS * AGENTIC_TURNS_MAX * sizeof(*f->out));
	f->pause = malloc(SESSIONS * AGENTIC_TURNS_MAX * sizeof(*f->pause));
	assert_true(s != NULL && f->in != NULL && f->out != NULL && f->pause != NULL);
	agentic_defaults(&o);
	rng_init(&rng, 1);
	for (uint32_t i = 0; i < SESSIONS; i++) {
		agentic_session(s, &o, &rng);
		add(f, s, i);
	}
	free(s);
}

static void between(const char *what, double v, double low, double high)
{
	if (v < low || v > high)
		fail_msg("%s: %.3f is not between %.3f and %.3f", what, v, low, high);
}

static void figures_as_published(void **state)
{
	struct figures *f = malloc(sizeof(*f));
	uint32_t minutes = 0;

	assert_non_null(f);
	collect(f);
	for (uint32_t i = 0; i < f->n; i++)
		minutes += f->pause[i] >= 60;
	between("turns of a session, median", median(f->turns, SESSIONS), 39, 47);
	between("tokens of input, median", median(f->in, f->n), 130000, 150000);
	between("least input", f->in[0], 20480, 30000);
	between("most input", f->in[f->n - 1], 179000, 180000);
	between("tokens of output, median", median(f->out, f->n), 420, 470);
	between("input to output", f->sum_in / f->sum_out, 121, 141);
	between("share of sessions with subagents", (double)f->with_subagents / SESSIONS, 0.41, 0.47);
	between("requests of subagents", (double)f->from_subagents / f->n, 0.08, 0.16);
	between("share that is new", f->sum_add / f->sum_in, 0.02, 0.05);
	between("summaries in a session", (double)f->summaries / SESSIONS, 0.3, 1.5);
	between("share of pauses of a minute", (double)minutes / f->n, 0.02, 0.15);
	free(f->in);
	free(f->out);
	free(f->pause);
	free(f);
}

/* Check <s>: what a turn waits for is before it, and it keeps no more than there was. */
static void check(const struct agentic_session *s)
{
	uint32_t last = 0, parent = 0, waited[AGENTIC_TURNS_MAX] = { 0 };

	for (uint32_t i = 0; i < s->n; i++) {
		const struct agentic_turn *q = &s->turn[i];

		assert_true((q->after == AGENTIC_NONE) == (i == 0));
		assert_true(i == 0 || q->after < i);
		assert_true(q->join == AGENTIC_NONE || (q->join > i && q->join < s->n));
		assert_true(q->out >= 1 && q->pause_s >= 0 && q->agent <= s->agents);
		if (q->join != AGENTIC_NONE)
			waited[q->join]++;
		if (i > 0 && q->agent != 0 && q->agent != s->turn[i - 1].agent)
			assert_true(q->keep == 20480 && q->agent > s->turn[i - 1].agent);
		else if (i > 0 && (q->agent == 0 || q->agent == s->turn[last].agent))
			assert_true(q->keep <= s->turn[q->agent == 0 ? parent : last].keep +
				s->turn[q->agent == 0 ? parent : last].add);
		last = i;
		parent = q->agent == 0 ? i : parent;
	}
	for (uint32_t i = 0; i < s->n; i++)
		assert_true(waited[i] == 0 || (s->turn[i].agent == 0 && waited[i] <= 2));
}

static void sessions_hold_together(void **state)
{
	static struct agentic_session a, b;
	struct agentic_opts o;
	struct rng x, y;

	agentic_defaults(&o);
	rng_init(&x, 7);
	rng_init(&y, 7);
	for (int i = 0; i < 500; i++) {
		agentic_session(&a, &o, &x);
		agentic_session(&b, &o, &y);
		assert_true(a.n == b.n && a.program == b.program);
		assert_memory_equal(a.turn, b.turn, a.n * sizeof(a.turn[0]));
		check(&a);
	}
}

static void options_matter(void **state)
{
	static struct agentic_session s;
	struct agentic_opts o;
	struct rng rng;

	agentic_defaults(&o);
	o.subagents = 0;
	o.limit = 60000;
	rng_init(&rng, 3);
	for (int i = 0; i < 200; i++) {
		agentic_session(&s, &o, &rng);
		assert_int_equal(s.agents, 0);
		for (uint32_t k = 0; k < s.n; k++)
			assert_true(s.turn[k].keep + s.turn[k].add <= 60000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_as_published),
		cmocka_unit_test(sessions_hold_together),
		cmocka_unit_test(options_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
