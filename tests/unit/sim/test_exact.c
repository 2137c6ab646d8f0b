/* test_exact.c - is the router's estimate of the cached prefix what the engine finds?
 *
 * Engines of the simulator have caches like vLLM's block pool: whole blocks, the last token always
 * computed, blocks of a request pinned until its answer ends, freed from the end of the prompt, the
 * least recently freed evicted. 26 conversations of 5 turns on three system prompts alternate, so
 * that each finds its own blocks partly evicted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/sim/router.h"
#include "tests/unit/rounds.h"

#define ENGINES		2u
#define BLOCKS		1000u	/* of the cache of one */
#define TALKS		26u
#define TURNS		5u
#define SYSTEMS		3u
#define SYSTEM_BLOCKS	14u

/* ---- requests ---------------------------------------------------------------------------------
 */

enum arrivals {
	ONE_BY_ONE,	/* each after the end of the one before */
	FOUR_AT_ONCE,
	ALL_AT_ONCE	/* a turn of all conversations: more wait than a cache has room for */
};

struct talk {
	uint32_t n_in;			/* tokens so far */
	uint32_t ids[1024], n_ids;
};

static uint32_t next_id;

/* Make it so long that it ends within a block, as prompts do. */
static void go_on(struct talk *t, uint32_t tokens, uint32_t block)
{
	t->n_in += tokens;
	if (t->n_in % block == 0)
		t->n_in++;
	while (t->n_ids < t->n_in / block)
		t->ids[t->n_ids++] = next_id++;
}

static double time_of(enum arrivals how, uint32_t turn, uint32_t i)
{
	static const double apart_s[] = { [ONE_BY_ONE] = 20, [FOUR_AT_ONCE] = 5, [ALL_AT_ONCE] = 0.001 };
	uint32_t n = turn * TALKS + i;

	return how == ALL_AT_ONCE ? turn * 1000.0 + i * apart_s[how] :
	       how == FOUR_AT_ONCE ? n / 4 * 4 * apart_s[how] + n % 4 * 0.001 : n * apart_s[how];
}

static void make(struct sim_trace *t, uint32_t block, enum arrivals how)
{
	static const uint32_t eighths[] = { 32, 96, 240, 480 };		/* of a block */
	static struct talk talk[TALKS];
	struct rng rng;

	rng_init(&rng, 7);
	trace_init(t, block);
	next_id = SYSTEMS * SYSTEM_BLOCKS;
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		for (uint32_t i = 0; i < TALKS; i++) {
			struct talk *a = &talk[i];
			uint32_t tokens = eighths[rng_below(&rng, 4)] * block / 8 + rng_below(&rng, block);

			if (turn == 0) {
				a->n_in = SYSTEM_BLOCKS * block;
				for (a->n_ids = 0; a->n_ids < SYSTEM_BLOCKS; a->n_ids++)
					a->ids[a->n_ids] = i % SYSTEMS * SYSTEM_BLOCKS + a->n_ids;
			}
			go_on(a, tokens, block);
			assert_int_equal(trace_add(t, time_of(how, turn, i), a->n_in, 8, a->ids, a->n_ids, i), 0);
		}
	}
	trace_finish(t);
}

/* ---- a run -------------------------------------------------------------------------------------
 */

struct setting {
	uint32_t block;
	enum sim_text text;
	enum router_facts facts;
	enum arrivals how;
	double believed;		/* share of the true capacity */
};

struct outcome {
	double exact, high;		/* shares of the requests */
	double lost;			/* of those with an earlier turn: a part of it was evicted */
};

/* Text pages are smaller than blocks; count whole blocks of the estimate. */
static uint32_t blocks_of(const struct setting *s, const struct sim_job *j)
{
	return s->text == SIM_TEXT_IDS ? j->pages : j->pages * 16 / s->block;
}

static struct outcome count(const struct setting *s, const struct sim *f)
{
	unsigned exact = 0, high = 0, lost = 0, later = 0;

	for (size_t i = 0; i < f->trace->n; i++) {
		const struct sim_job *j = &f->jobs[i];
		uint32_t expected = blocks_of(s, j);

		exact += expected == j->hit;
		high += expected > j->hit;
		if (j->q->number < TALKS)
			continue;
		later++;
		lost += j->hit < f->trace->r[i - TALKS].n_full;
	}
	return (struct outcome){ (double)exact / (double)f->trace->n,
		(double)high / (double)f->trace->n, (double)lost / later };
}

static struct outcome run(const struct setting *s)
{
	struct router_opts ro = { .name = "cost", .facts = s->facts, .text = s->text, .seed = 1 };
	struct model_opts model;
	struct sim_opts o;
	struct sim_trace t;
	struct outcome out;
	struct chooser c;
	struct router *x;
	struct sim f;
	struct err e;

	make(&t, s->block, s->how);
	sim_defaults(&o);
	o.n = ENGINES;
	o.profile.kv_tokens = BLOCKS * s->block;
	o.profile.max_seqs = 4;
	route_defaults(&ro.route);
	ro.route.index.max_bytes = 32u << 20;
	ro.route.pool_default.capacity = (uint64_t)(s->believed * o.profile.kv_tokens);
	model = ro.route.model_default;
	strcpy(model.name, "m");
	model.block_size = s->block;
	ro.route.models = &model;
	ro.route.n_models = 1;
	assert_non_null(x = router_new(&ro, &t, &c));
	if (sim_run(&f, &o, &t, &c, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(f.n_failed + f.n_fallback, 0);
	out = count(s, &f);
	sim_fini(&f);
	router_free(x);
	trace_free(&t);
	return out;
}

static struct outcome tell(const struct setting *s)
{
	static const char *const how[] = { "one by one", "four at once", "all at once" };
	struct outcome out = run(s);

	print_message(
	    "blocks of %u, %s, %s, %s, believed %.2f: exact %.3f, too high %.3f, lost %.2f\n",
	    s->block, s->text == SIM_TEXT_IDS ? "ids" : "text",
	    s->facts == ROUTER_FIRST ? "first tokens" : "ends", how[s->how], s->believed, out.exact,
	    out.high, out.lost);
	return out;
}

/* ---- tests --------------------------------------------------------------------------------------
 */

static const uint32_t sizes[] = { 16, 32, 64, 128 };

static void every_setting(enum sim_text text, enum arrivals how, double least)
{
	for (unsigned i = 0; i < rounds(sizeof(sizes) / sizeof(sizes[0]), 2); i++) {
		for (int facts = 0; facts < 2; facts++) {
			struct setting s = { sizes[i], text, facts ? ROUTER_FIRST : ROUTER_END, how, 1 };
			struct outcome out = tell(&s);

			assert_true(out.exact >= least);
			assert_true(out.lost > 0.3);	/* otherwise it shows nothing */
		}
	}
}

static void ids_one_by_one(void **state) { every_setting(SIM_TEXT_IDS, ONE_BY_ONE, 0.96); }
static void ids_four_at_once(void **state) { every_setting(SIM_TEXT_IDS, FOUR_AT_ONCE, 0.96); }
/* The waiting prompts need twice the room of the cache, so the first of them are evicted when the
 * last is served. */
static void ids_in_full_queues(void **state) { every_setting(SIM_TEXT_IDS, ALL_AT_ONCE, 0.93); }
static void text_one_by_one(void **state) { every_setting(SIM_TEXT_CHAT, ONE_BY_ONE, 0.93); }
static void text_in_full_queues(void **state) { every_setting(SIM_TEXT_CHAT, ALL_AT_ONCE, 0.93); }

/* A proof that the measure works: with a capacity twice too large, far fewer are exact. */
static void another_size_shows(void **state)
{
	struct setting s = { 32, SIM_TEXT_IDS, ROUTER_END, ONE_BY_ONE, 2 };

	assert_true(tell(&s).exact < 0.8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_one_by_one),
		cmocka_unit_test(ids_four_at_once),
		cmocka_unit_test(ids_in_full_queues),
		cmocka_unit_test(text_one_by_one),
		cmocka_unit_test(text_in_full_queues),
		cmocka_unit_test(another_size_shows),
	};

	return cmocka_run_group_tests_name("exact", tests, NULL, NULL);
}
