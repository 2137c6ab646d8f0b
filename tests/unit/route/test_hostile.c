/* test_hostile.c - no body costs more than its bound, in counted steps, and each is answered: over
 * the corpus of tests/hostile.h.
 *
 * `make bench-hostile` measures how long a step takes. Here no clock is read. Where the processor
 * counts instructions (perf), the test checks that steps are work: at most so many instructions for
 * a step, and for a byte of the body. */
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/hostile.h"
#include "tests/unit/route/tokens.h"

#define SMALL	((size_t)16 << 10)
#define LARGE	250000u
#define SMALL_STEPS	68000u		/* limit for 16 KiB: 0.7 ms at 10 ns */
#define PER_STEP	150u		/* instructions */
#define PER_BYTE	400u
#define PER_BODY	3000000u

static const struct hash_key key = { { 1 } };
static char body[LARGE + HOSTILE_ROOM];
static int counter = -1;

static int count_instructions(void)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(a),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}

static uint64_t instructions(void)
{
	uint64_t n = 0;

	return counter >= 0 && read(counter, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static void hostile_world(struct world *w, struct tok *t, enum chat_format format)
{
	static char template[4096];
	struct chat_source src = { .format = format, .template_name = "t" };
	FILE *f = fopen("tests/data/tok/llama.chat_template.jinja", "r");
	struct err e;

	assert_non_null(f);
	if (format == CHAT_TEMPLATE)
		src.template = span_of(template, fread(template, 1, sizeof(template), f));
	fclose(f);
	src.config = SPAN("{\"bos_token\":\"<|begin|>\"}");
	src.config_name = "c";
	token_world(w, t, 16);
	if ((token_models[0].chat = chat_load(&src, &key, &e)) == NULL)
		fail_msg("%s", e.text);
	world_open(w);
}

static void hostile_end(struct world *w)
{
	world_end(w);
	chat_unref(token_models[0].chat);
	token_models[0].chat = NULL;
}

/* Each body comes from its own tenant, a minute later, so that no cache and no used share affects
 * it. */
static void one(struct world *w, const char *name, bool chat, size_t n)
{
	static unsigned count;
	char tenant[16], uid[16];
	uint64_t before;
	uint32_t most = n <= SMALL ? SMALL_STEPS : ROUTE_WORK_FULL;

	snprintf(tenant, sizeof(tenant), "t%u", ++count);
	snprintf(uid, sizeof(uid), "u%u", count);
	w->q.tenant = span_str(tenant);
	w->q.path = chat ? SPAN("/v1/chat/completions") : SPAN("/v1/completions");
	w->now += 60000;
	before = instructions();
	send_body(w, uid, span_of(body, n));
	before = instructions() - before;
	if (w->a.work > most)
		fail_msg("%s, %zu bytes: %u steps", name, n, w->a.work);
	if (before > (uint64_t)w->a.work * PER_STEP + n * PER_BYTE + PER_BODY)
		fail_msg("%s, %zu bytes: %llu instructions for %u steps", name, n,
		    (unsigned long long)before, w->a.work);
	if (w->a.server.n == 0 && w->a.why != WHY_BADBODY && w->a.why != WHY_NOPROMPT)
		fail_msg("%s, %zu bytes: no server, %s", name, n, why_text(w->a.why));
}

static void all_kinds(struct tok *t, enum chat_format format, size_t size)
{
	struct hostile h;
	struct world w;

	hostile_world(&w, t, format);
	for (size_t i = 0; i < 2 * HOSTILE_TEXTS; i++) {
		hostile_start(&h, body, size - 100, i);
		hostile_body(&h, hostile_texts[i / 2], i % 2);
		one(&w, hostile_texts[i / 2], i % 2, h.n);
	}
	for (size_t i = 0; i < HOSTILE_SHAPES; i++) {
		hostile_start(&h, body, size - 500, i);
		hostile_shape(&h, hostile_shapes[i]);
		one(&w, hostile_shapes[i], strcmp(hostile_shapes[i], "prompts") != 0, h.n);
	}
	hostile_end(&w);
}

static void no_body_takes_more_than_it_may(void **state)
{
	struct tok *t = tok_with(NULL, NULL);

	all_kinds(t, CHAT_TEMPLATE, SMALL);
	all_kinds(t, CHAT_TEMPLATE, LARGE);
	tok_unref(t);
}

static void nor_by_harmony(void **state)
{
	struct tok *t = tok_with(NULL, NULL);

	all_kinds(t, CHAT_HARMONY, SMALL);
	tok_unref(t);
}

/* A pattern of a tokenizer that takes exponential time for some texts: its matches share one
 * budget. */
static struct tok *tok_with_bomb(void)
{
	static const char steps[] =
	    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:a|aa|aaa)+$|[^a]\"},"
	    "\"behavior\":\"Isolated\",\"invert\":false}";
	static char text[65536];
	struct tok_source src = { .name = "bomb" };
	FILE *f = fopen(SMALL_TOKENIZER, "r");
	char *at, *end;
	size_t n;
	struct tok *t;
	struct err e;

	assert_non_null(f);
	n = fread(text, 1, sizeof(text) / 2, f);
	fclose(f);
	text[n] = '\0';
	assert_non_null(at = strstr(text, "{\"type\":\"Split\""));
	assert_non_null(end = strstr(at, "\"invert\":false}"));
	end += strlen("\"invert\":false}");
	memmove(at + sizeof(steps) - 1, end, strlen(end) + 1);
	memcpy(at, steps, sizeof(steps) - 1);
	src.file = span_str(text);
	if ((t = tok_load(&src, &e)) == NULL)
		fail_msg("%s", e.text);
	return t;
}

static void matches_share_one_budget(void **state)
{
	struct tok *t = tok_with_bomb();
	struct hostile h;
	struct world w;

	hostile_world(&w, t, CHAT_TEMPLATE);
	hostile_start(&h, body, 230, 1);
	hostile_body(&h, "bomb", false);
	w.q.path = SPAN("/v1/completions");
	send_body(&w, "1", span_of(body, h.n));
	assert_int_equal(stats(&w).tokenize_bounded, 1);
	assert_int_equal(stats(&w).tokenize_failed, 0);
	assert_true(w.a.server.n > 0 && w.a.prompt_pages > 0);
	hostile_end(&w);
	all_kinds(t, CHAT_TEMPLATE, SMALL);
	tok_unref(t);
}

/* Ids made before the work runs out are the beginning of all ids. */
static void known_ids_are_exact(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct request_preview v;
	struct hostile h;
	page_key first[64];
	struct world w;

	hostile_world(&w, t, CHAT_TEMPLATE);
	hostile_start(&h, body, 100000, 3);
	hostile_body(&h, "words", true);
	w.q.path = SPAN("/v1/chat/completions");
	w.q.work = 40000;
	send_body(&w, "1", span_of(body, h.n));
	assert_true(w.a.prompt_pages >= 64 && w.a.prompt_pages < 100000 / 16 && w.a.server.n > 0);
	memcpy(first, w.s->rq.pages.p, sizeof(first));
	assert_int_equal(stats(&w).tokenize_bounded_by[BOUND_CALLER], 1);
	w.q.work = ROUTE_WORK_FULL;
	preview_body(w.r, w.s, &w.q, &v);
	assert_true(v.pages > 64);
	assert_memory_equal(first, v.keys, sizeof(first));
	hostile_end(&w);
	tok_unref(t);
}

/* ---- slices -------------------------------------------------------------------------------- */

/* A body in <n> slices: steps in all, and how many slices were decided. */
static uint64_t sliced(
    struct world *w, const char *uid, size_t n_bytes, size_t n, unsigned *decided)
{
	uint64_t steps = 0;

	*decided = 0;
	for (size_t i = 0; i < n; i++) {
		struct route_request q = w->q;

		if (i > 0)
			q = (struct route_request){ .work = ROUTE_WORK_FULL };
		q.uid = span_str(uid);
		q.seq = (int64_t)i;
		q.visible = q.whole = (int64_t)n_bytes;
		q.body = span_of(body + n_bytes * i / n, n_bytes * (i + 1) / n - n_bytes * i / n);
		route_decide(w->r, w->s, &q, w->now, &w->a);
		*decided += !w->a.stands;
		steps += w->a.stands ? 0 : w->a.work;
	}
	return steps;
}

static void slices_cost_little_more_than_the_body(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct hostile h;
	unsigned decided;
	uint64_t whole;
	uint32_t pages;
	struct world w;

	for (int chat = 0; chat < 2; chat++) {
		hostile_world(&w, t, CHAT_TEMPLATE);
		hostile_start(&h, body, 60000, 1);
		hostile_body(&h, "english", chat);
		w.q.path = chat ? SPAN("/v1/chat/completions") : SPAN("/v1/completions");
		w.q.tenant = SPAN("one");
		send_body(&w, "1", span_of(body, h.n));
		whole = w.a.work;
		pages = w.a.prompt_pages;
		w.q.tenant = SPAN("other");
		assert_true(sliced(&w, "2", h.n, 6, &decided) < 8 * whole);
		assert_int_equal(decided, 6);
		assert_int_equal(w.a.prompt_pages, pages);
		w.q.tenant = SPAN("third");
		assert_true(sliced(&w, "3", h.n, 941, &decided) < 8 * whole);
		assert_in_range(decided, 5, 60);
		assert_int_equal(w.a.prompt_pages, pages);
		assert_false(w.a.stands || w.a.more);
		hostile_end(&w);
	}
	tok_unref(t);
}

static void hostile_slices_are_bounded(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct hostile h;
	unsigned decided;
	struct world w;

	hostile_world(&w, t, CHAT_TEMPLATE);
	for (size_t i = 0; i < HOSTILE_TEXTS; i++) {
		hostile_start(&h, body, 60000, i);
		hostile_body(&h, hostile_texts[i], i % 2);
		w.q.path = i % 2 ? SPAN("/v1/chat/completions") : SPAN("/v1/completions");
		w.now += 60000;
		assert_true(sliced(&w, "1", h.n, 200, &decided) <= 2 * ROUTE_WORK_FULL);
		assert_true(w.a.server.n > 0 || w.a.why == WHY_BADBODY);
	}
	hostile_end(&w);
	tok_unref(t);
}

/* All slices together may cost twice as much as a body; each but the last takes half of the rest,
 * so that the last has some. */
static void a_slice_takes_half_of_the_rest(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	uint64_t left = 2 * (uint64_t)ROUTE_WORK_FULL;
	struct hostile h;
	struct world w;

	hostile_world(&w, t, CHAT_TEMPLATE);
	hostile_start(&h, body, 240000, 5);
	hostile_body(&h, "words", false);
	w.q.path = SPAN("/v1/completions");
	for (size_t i = 0; i < 4; i++) {
		struct route_request q = i > 0 ? (struct route_request){ .work = ROUTE_WORK_FULL } : w.q;

		q.uid = SPAN("1");
		q.seq = (int64_t)i;
		q.visible = q.whole = (int64_t)h.n;
		q.body = span_of(body + h.n * i / 4, h.n * (i + 1) / 4 - h.n * i / 4);
		route_decide(w.r, w.s, &q, w.now, &w.a);
		assert_false(w.a.stands);
		assert_true(w.a.work <= (i < 3 ? left / 2 : left));
		if (i > 0)		/* the first one is bounded by its size; random words use all their steps */
			assert_true(w.a.work >= (i < 3 ? left / 2 : left) - 10);
		left -= w.a.work;
	}
	assert_true(w.a.prompt_pages > 0 && left < 10);
	hostile_end(&w);
	tok_unref(t);
}

/* ---- tenants ------------------------------------------------------------------------------- */

static void ask_as(struct world *w, const char *tenant, unsigned i)
{
	char uid[16];
	struct hostile h;

	snprintf(uid, sizeof(uid), "u%u", i);
	hostile_start(&h, body, 240000, i);
	hostile_body(&h, "words", true);
	w->q.tenant = span_str(tenant);
	send_body(w, uid, span_of(body, h.n));
}

/* A tenant that sends as much as it can uses up its share. Another tenant still gets the full limit
 * for each request. */
static void a_tenant_has_its_share(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct world w;
	unsigned i;

	hostile_world(&w, t, CHAT_TEMPLATE);
	w.q.path = SPAN("/v1/chat/completions");
	ask_as(&w, "good", 1);
	ask_as(&w, "greedy", 2);
	w.now += METER_KNOWN_MS;
	for (i = 3; i < 200 && stats(&w).tokenize_bounded_by[BOUND_TENANT] == 0; i++)
		ask_as(&w, "greedy", i);
	assert_in_range(i, 40, 70);	/* half of a core: 19 million steps */
	for (unsigned k = 0; k < 5; k++)
		ask_as(&w, "greedy", i++);
	assert_true(w.a.work <= 11000 && w.a.server.n > 0 && w.a.prompt_pages > 0);
	ask_as(&w, "good", i++);
	assert_true(w.a.work > ROUTE_WORK_FULL - 10);
	w.now += 20 * METER_HALF_MS;
	ask_as(&w, "greedy", i++);
	assert_true(w.a.work > ROUTE_WORK_FULL - 10);
	hostile_end(&w);
	tok_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_body_takes_more_than_it_may),
		cmocka_unit_test(nor_by_harmony),
		cmocka_unit_test(matches_share_one_budget),
		cmocka_unit_test(known_ids_are_exact),
		cmocka_unit_test(slices_cost_little_more_than_the_body),
		cmocka_unit_test(hostile_slices_are_bounded),
		cmocka_unit_test(a_slice_takes_half_of_the_rest),
		cmocka_unit_test(a_tenant_has_its_share),
	};

	if ((counter = count_instructions()) < 0)
		printf("skipped: instructions for each step, no counter of them here\n");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
