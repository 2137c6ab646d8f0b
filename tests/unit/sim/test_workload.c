/* test_workload.c - every workload is a consistent trace, equal for equal seeds, with something to
 * share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/sim/text.h"
#include "agent/sim/workload.h"

#define N	400

static void make(struct workload *w, const char *name, uint64_t seed)
{
	struct err e;

	if (workload_make(w, span_str(name), N, 4, seed, &e) < 0)
		fail_msg("%s: %s", name, e.text);
}

static void check_request(
    const struct sim_trace *t, const struct sim_request *r, uint32_t *stamp, uint32_t mark)
{
	assert_true(r->n_in >= 1 && r->n_out >= 1);
	assert_int_equal(r->n_ids, (r->n_in + t->block - 1) / t->block);
	assert_int_equal(r->n_full, r->n_in / t->block);
	for (uint32_t i = 0; i < r->n_ids; i++) {
		uint32_t id = t->ids[r->first + i];

		assert_true(id < t->n_blocks);
		assert_int_not_equal(stamp[id], mark);
		stamp[id] = mark;
	}
}

static void holds_together(const char *name)
{
	struct workload w;
	uint32_t *stamp, shared = 0, before;

	make(&w, name, 1);
	assert_int_equal(w.trace.n, N);
	assert_non_null(stamp = calloc(w.trace.n_blocks, sizeof(*stamp)));
	for (size_t i = 0; i < N; i++) {
		const struct sim_request *r = &w.trace.r[i];

		assert_true(i == 0 ? r->at == 0 : r->at >= w.trace.r[i - 1].at);
		before = r->n_full > 0 ? stamp[w.trace.ids[r->first]] : 0;
		shared += before != 0;
		check_request(&w.trace, r, stamp, (uint32_t)i + 1);
	}
	if (shared < N / 10)
		fail_msg("%s: only %u begin as another did", name, shared);
	for (unsigned i = 0; i < w.n_events; i++)
		assert_true(w.events[i].engine < 4);
	free(stamp);
	workload_free(&w);
}

static const char *const crowds[] = { "crowd-1", "crowd-3-zipf", "crowd-64-loop",
	"crowd-16-zipf-beat" };

static void each_holds_together(void **state)
{
	size_t i;

	for (i = 0; workload_at(i) != NULL; i++)
		holds_together(workload_at(i));
	assert_int_equal(i, 13);
	for (i = 0; i < sizeof(crowds) / sizeof(crowds[0]); i++)
		holds_together(crowds[i]);
}

static void same_seed_same_requests(void **state)
{
	for (size_t i = 0; workload_at(i) != NULL; i++) {
		struct workload a, b, c;

		make(&a, workload_at(i), 7);
		make(&b, workload_at(i), 7);
		make(&c, workload_at(i), 8);
		assert_memory_equal(a.trace.r, b.trace.r, N * sizeof(*a.trace.r));
		assert_int_equal(a.trace.n_ids, b.trace.n_ids);
		assert_memory_equal(a.trace.ids, b.trace.ids, a.trace.n_ids * sizeof(*a.trace.ids));
		assert_memory_not_equal(a.trace.r, c.trace.r, N * sizeof(*a.trace.r));
		workload_free(&a);
		workload_free(&b);
		workload_free(&c);
	}
}

static void no_such_workload(void **state)
{
	struct workload w;
	struct err e;

	assert_int_equal(workload_make(&w, SPAN("lunch"), N, 4, 1, &e), -1);
	assert_non_null(strstr(e.text, "lunch"));
}

/* ---- bodies ---- */

/* Return the part of a body from the start of its prompt to the end. */
static struct span prompt_of(const struct buf *b, enum sim_text form)
{
	const char *mark = form == SIM_TEXT_IDS ? "\"prompt\":[" : "\"content\":\"";
	const char *start = strstr(b->p, mark) + strlen(mark), *end;

	end = form == SIM_TEXT_IDS ? strchr(start, ']') : strchr(start, '"');
	return span_of(start, (size_t)(end - start));
}

static size_t common(struct span a, struct span b)
{
	size_t n = 0;

	while (n < a.n && n < b.n && a.p[n] == b.p[n])
		n++;
	return n;
}

/* Prompts are equal as far as their ids are, and no further; a part block is a prefix of its
 * whole. */
static void equal_ids_equal_text(void **state)
{
	static const struct {
		enum sim_text form;
		size_t of_token;
	} forms[] = { { SIM_TEXT_IDS, 3 }, { SIM_TEXT_CHAT, 4 } };
	const uint32_t a[] = { 0, 1, 2 }, b[] = { 0, 1, 3 };
	struct sim_trace t;

	trace_init(&t, 64);
	assert_int_equal(trace_add(&t, 0, 150, 5, a, 3, 0), 0);
	assert_int_equal(trace_add(&t, 1, 192, 5, a, 3, 0), 0);
	assert_int_equal(trace_add(&t, 2, 192, 5, b, 3, 0), 0);
	assert_int_equal(trace_add(&t, 3, 192, 5, a, 2, 0), 0);	/* the third is unknown */
	for (int i = 0; i < 2; i++) {
		struct buf x = { 0 }, y = { 0 };
		struct span p;
		size_t n;

		assert_int_equal(text_body(&x, &t, &t.r[0], forms[i].form), 0);
		p = prompt_of(&x, forms[i].form);
		assert_int_equal(p.n, 150 * forms[i].of_token - (forms[i].form == SIM_TEXT_IDS));
		assert_int_equal(text_body(&y, &t, &t.r[1], forms[i].form), 0);
		assert_int_equal(common(p, prompt_of(&y, forms[i].form)), p.n);
		for (int k = 2; k < 4; k++) {
			assert_int_equal(text_body(&x, &t, &t.r[k], forms[i].form), 0);
			n = common(prompt_of(&x, forms[i].form), prompt_of(&y, forms[i].form));
			assert_true(n >= 128 * forms[i].of_token && n < 136 * forms[i].of_token);
		}
		buf_free(&x);
		buf_free(&y);
	}
	trace_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_holds_together),
		cmocka_unit_test(same_seed_same_requests),
		cmocka_unit_test(no_such_workload),
		cmocka_unit_test(equal_ids_equal_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
