/* test_decisions.c - records of decisions: their inputs, their outcomes, and the effect of pool
 * modes and compared rules. */
#include "tests/unit/route/world.h"

#define HALF_BUSY	"lb1/1;s1=1,0,0,1;s2=1,3,0,1;s3=1,3,0,1;s4=1,3,0,1"

static struct decision found(struct world *w, const char *uid)
{
	struct decision x;

	if (!decisions_find(w->r->decisions, route_uid_hash(w->r, span_str(uid)), &x))
		fail_msg("no record of %s", uid);
	return x;
}

static const char *name_of(struct world *w, struct decision_server s)
{
	static char text[4][SERVER_NAME_MAX + 1];
	static unsigned turn;
	char *to = text[turn++ % 4];

	decisions_name_of(w->r->decisions, s, to, SERVER_NAME_MAX + 1);
	return to;
}

static bool near(double a, double b)
{
	return a - b < 1e-4 && b - a < 1e-4;
}

/* ---- records -------------------------------------------------------------------------- */

static void a_record_has_all(void **state)
{
	struct decision x;
	struct world w;

	world_start(&w);
	w.q.load = SPAN(HALF_BUSY);
	ask(&w, "one", "a");
	served(&w, "one");
	w.now += 2000;
	ask(&w, "two", "ab");
	x = found(&w, "two");
	assert_int_equal(x.number, 2);
	assert_string_equal(x.uid, "two");
	assert_string_equal(x.pool, "pool");
	assert_string_equal(name_of(&w, x.chosen), "s1");
	assert_int_equal(x.why, WHY_CACHED);
	assert_int_equal(x.rule, RULE_COST);
	assert_int_equal(x.mode, MODE_ON);
	assert_int_equal(x.at, w.now);
	assert_int_equal(x.step, STEP_FIRST);
	assert_int_equal(x.tokens, 2 * TURN_PAGES * 16);
	assert_int_equal(x.matched, TURN_PAGES * 16);
	assert_int_equal(x.hit, 500);
	assert_int_equal(x.pages, TURN_PAGES);
	assert_int_equal(x.prompt_pages, 2 * TURN_PAGES);
	assert_int_equal(x.max_load, 3);
	assert_int_equal(x.n_candidates, 4);
	assert_int_equal(x.n_kept, 4);
	assert_true(x.regret_s == 0 && x.cost_s > 0);
	assert_string_equal(name_of(&w, x.candidate[0].server), "s1");
	assert_int_equal(x.candidate[0].cached, TURN_PAGES * 16);
	assert_true(x.candidate[1].compute_s > x.candidate[0].compute_s);
	assert_true(near(x.candidate[0].cost_s, x.cost_s));
	assert_int_equal(x.after, AFTER_OPEN);
	assert_int_equal(w.a.decision, 2);
	route_took(w.r, &w.a, 77);
	assert_int_equal(found(&w, "two").us, 77);
	world_end(&w);
}

/* The record lists the chosen server, the second, then the cheapest, for any number of servers. */
static void of_many_candidates_the_cheapest(void **state)
{
	struct decision x;
	struct world w;

	world_start(&w);
	w.q.load = SPAN(
	    "lb1/1;s1=1,9,0,1;s2=1,8,0,1;s3=1,7,0,1;s4=1,6,0,1;s5=1,5,0,1;s6=1,4,0,1;s7=1,3,0,1;"
	    "s8=1,2,0,1;s9=1,1,0,1");
	ask(&w, "1", "a");
	x = found(&w, "1");
	assert_int_equal(x.n_candidates, 9);
	assert_int_equal(x.n_kept, DECISION_CANDIDATES);
	for (unsigned i = 0; i < x.n_kept; i++) {
		char want[3] = { 's', (char)('9' - i), 0 };

		assert_string_equal(name_of(&w, x.candidate[i].server), want);
	}
	world_end(&w);
}

static void no_server_is_a_decision_too(void **state)
{
	struct decision x;
	struct world w;

	world_start(&w);
	send_body(&w, "bad", SPAN("{]"));
	x = found(&w, "bad");
	assert_int_equal(x.why, WHY_BADBODY);
	assert_int_equal(x.chosen.id, SERVER_NONE);
	assert_int_equal(x.tokens, 0);
	w.q.load = SPAN("");
	w.q.pool = SPAN("other");
	ask(&w, "1", "a");
	x = found(&w, "1");
	assert_int_equal(x.why, WHY_NOLOAD);
	assert_int_equal(x.tokens, TURN_PAGES * 16);
	assert_int_equal(x.n_kept, 0);
	world_end(&w);
}

static void facts_give_the_outcome(void **state)
{
	struct decision x;
	struct fact f;
	struct world w;

	world_start(&w);
	ask(&w, "1", "a");
	w.now += 120;
	tell_first(&w, "1", "s1", 200, STREAM);
	x = found(&w, "1");
	assert_int_equal(x.after, AFTER_FIRST);
	assert_int_equal(x.first_ms, 120);
	assert_int_equal(x.done_ms, -1);
	w.now += 400;
	fact_init(&f, FACT_DONE);
	f.uid = SPAN("1");
	f.server = SPAN("s3");
	f.status = 200;
	f.end = END_OK;
	f.retries = 1;
	f.bytes_out = 600 + 52 * 256;
	route_learn(w.r, &f, w.now);
	x = found(&w, "1");
	assert_int_equal(x.after, AFTER_DONE);
	assert_int_equal(x.done_ms, 520);
	assert_int_equal(x.status, 200);
	assert_int_equal(x.retries, 1);
	assert_int_equal(x.output_tokens, 52);
	assert_string_equal(name_of(&w, x.went), "s3");
	f.status = 500;				/* a second log line changes nothing */
	route_learn(w.r, &f, w.now);
	assert_int_equal(found(&w, "1").status, 200);
	ask(&w, "2", "b");
	tell_done(&w, "2", "s9", 200, "--", 5);	/* unknown server */
	assert_string_equal(name_of(&w, found(&w, "2").went), "");
	world_end(&w);
}

/* ---- the ring ------------------------------------------------------------------------------ */

static void the_oldest_goes(void **state)
{
	struct decision x[16];
	struct world w;
	char uid[8];

	world_options(&w);
	w.o.decisions_keep = 5;
	world_open(&w);
	for (int i = 1; i <= 12; i++) {
		snprintf(uid, sizeof(uid), "%d", i);
		ask(&w, uid, "a");
		served(&w, uid);
	}
	assert_int_equal(decisions_read(w.r->decisions, UINT64_MAX, x, 16), 5);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(x[i].number, 12 - i);
		assert_int_equal(atoi(x[i].uid), 12 - (int)i);
		assert_int_equal(found(&w, x[i].uid).number, 12 - i);
	}
	assert_int_equal(decisions_read(w.r->decisions, 11, x, 2), 2);
	assert_int_equal(x[0].number, 10);
	assert_int_equal(decisions_read(w.r->decisions, 8, x, 16), 0);
	assert_int_equal(decisions_read(w.r->decisions, 0, x, 16), 0);
	assert_false(decisions_find(w.r->decisions, route_uid_hash(w.r, SPAN("7")), x));
	tell_done(&w, "7", "s1", 200, "--", 5);		/* a fact for an overwritten record */
	world_end(&w);
}

static void none_are_kept(void **state)
{
	struct world w;

	world_options(&w);
	w.o.decisions_keep = 0;
	world_open(&w);
	ask(&w, "1", "a");
	assert_int_equal(w.a.decision, 0);
	route_took(w.r, &w.a, 5);
	served(&w, "1");
	assert_null(route_decisions(w.r));
	world_end(&w);
}

/* Slices of one request, and a request that is sent twice, are one decision. */
static void a_request_has_one_record(void **state)
{
	struct decision x[4];
	struct world w;

	world_start(&w);
	chat(&w.body, "", "abc", "");
	w.q.uid = SPAN("s");
	for (int64_t seq = 0; seq < 2; seq++) {
		w.q.seq = seq;
		w.q.visible = (int64_t)w.body.n;
		w.q.body = span_of(w.body.p + seq * 1000, seq ? w.body.n - 1000 : 1000);
		route_decide(w.r, w.s, &w.q, w.now, &w.a);
	}
	assert_int_equal(decisions_read(w.r->decisions, UINT64_MAX, x, 4), 1);
	assert_int_equal(x[0].prompt_pages, 3 * TURN_PAGES);
	w.q.visible = -1;
	ask(&w, "twice", "a");
	ask(&w, "twice", "a");
	assert_int_equal(decisions_read(w.r->decisions, UINT64_MAX, x, 4), 2);
	served(&w, "twice");
	ask(&w, "twice", "b");				/* another request by that name */
	assert_int_equal(decisions_read(w.r->decisions, UINT64_MAX, x, 4), 3);
	world_end(&w);
}

/* A multiple of the number of buckets for a ring of seven: uids that differ by it share a chain. */
#define CHAIN_STRIDE	(16u * DECISION_BLOCKS_MAX)

/* With any uids, the last record of each is found, and overwritten ones are not. */
static void any_mix_of_uids(void **state)
{
	struct hash_key k = test_key();
	struct decisions *d = decisions_new(7, &k, 1);
	struct decision x = { .n_blocks = 0 }, got;
	uint64_t last[5] = { 0 };
	struct rng rng;

	rng_init(&rng, 3);
	for (uint64_t made = 0, i = 0; i < 20000; i++) {
		uint64_t uid = rng_below(&rng, 5), number;

		x.uid_hash = uid * CHAIN_STRIDE;	/* all in one chain */
		x.after = rng_below(&rng, 4) ? AFTER_DONE : AFTER_OPEN;
		if (rng_below(&rng, 2))
			decisions_prefetch_put(d, x.uid_hash);	/* changes nothing */
		number = decisions_put(d, &x, NULL);
		assert_true(number == made + 1 || number == last[uid]);
		made = number > made ? number : made;
		last[uid] = number;
		for (uint64_t u = 0; u < 5; u++) {
			bool there = decisions_find(d, u * CHAIN_STRIDE, &got);

			assert_int_equal(there, last[u] + 7 > made && last[u] > 0);
			assert_true(!there || got.number == last[u]);
			assert_int_equal(decisions_has(d, last[u]), there);
		}
	}
	decisions_free(d);
}

static void a_long_uid_is_cut(void **state)
{
	char uid[300];
	struct world w;

	world_start(&w);
	memset(uid, 'u', sizeof(uid) - 1);
	uid[sizeof(uid) - 1] = '\0';
	ask(&w, uid, "a");
	assert_int_equal(strlen(found(&w, uid).uid), DECISION_UID_MAX);
	ask(&w, "", "a");
	ask(&w, "", "a");			/* without one each is its own */
	assert_int_equal(w.a.decision, 3);
	world_end(&w);
}

/* A record outlives its server; another that gets the id does not get the record. */
static void a_server_that_has_gone(void **state)
{
	struct decision x;
	struct world w;

	world_start(&w);
	ask(&w, "1", "a");
	x = found(&w, "1");
	decisions_name(w.r->decisions, x.chosen.id, 12345, "pool", "other");
	assert_string_equal(name_of(&w, x.chosen), "");
	assert_string_equal(name_of(&w, (struct decision_server){ .id = SERVER_NONE }), "");
	world_end(&w);
}

/* A peer that knows the uid of an open request could send false facts about it. */
static void uids_count_while_facts_do(void **state)
{
	struct world w;
	uint64_t uid;

	world_start(&w);
	uid = route_uid_hash(w.r, SPAN("1"));
	assert_false(route_uid_counts(w.r, uid));
	ask(&w, "1", "a");
	assert_true(route_uid_counts(w.r, uid));
	tell_first(&w, "1", "s1", 200, "application/json");
	assert_true(route_uid_counts(w.r, uid));	/* its log line is to come */
	tell_done(&w, "1", "s1", 200, "--", 5);
	assert_false(route_uid_counts(w.r, uid));
	world_end(&w);
}

/* ---- blocks -------------------------------------------------------------------------------- */

/* Ten pages of 16 tokens a turn, 32 a block: "abcdefgh" has three blocks. */
static void blocks_show_common_beginnings(void **state)
{
	static uint32_t a[DECISION_BLOCKS_MAX], b[DECISION_BLOCKS_MAX], c[DECISION_BLOCKS_MAX];
	struct decision x, y, z;
	struct world w;

	world_start(&w);
	ask(&w, "1", "abcdefgh");
	ask(&w, "2", "abcdefgi");
	w.q.tenant = SPAN("acme");
	ask(&w, "3", "abcdefgh");
	x = found(&w, "1");
	y = found(&w, "2");
	z = found(&w, "3");
	assert_int_equal(x.block_tokens, 512);
	assert_int_equal(decisions_blocks_of(w.r->decisions, &x, a), 3);
	assert_int_equal(decisions_blocks_of(w.r->decisions, &y, b), 3);
	assert_int_equal(decisions_blocks_of(w.r->decisions, &z, c), 3);
	assert_true(a[0] == b[0] && a[1] == b[1] && a[2] != b[2]);
	for (unsigned i = 0; i < 3; i++)
		assert_true(a[i] != c[i] && a[i] != (uint32_t)x.uid_hash);
	world_end(&w);
}

#define PAGES	70u		/* four groups of the chain, and 6 pages */

static struct decision_pages pages_of(const page_key *pages, uint32_t n, uint64_t *groups)
{
	struct marks m;

	marks_of(&m, 9, pages, n, groups);
	return (struct decision_pages){ .start = 9, .groups = groups, .pages = pages, .n = n };
}

/* Another process with the same key has other numbers. */
static void blocks_end_with_the_process(void **state)
{
	struct hash_key k = test_key();
	page_key pages[4] = { 1, 2, 3, 4 };
	uint64_t groups[1];
	struct decision_pages p = pages_of(pages, 4, groups);
	struct decisions *d = decisions_new(4, &k, 1), *e = decisions_new(4, &k, 2);
	uint32_t a[DECISION_BLOCKS_MAX], b[DECISION_BLOCKS_MAX];

	assert_int_equal(decisions_blocks(d, &p, 3, a), 2);
	assert_int_equal(decisions_blocks(e, &p, 3, b), 2);
	assert_true(a[0] != b[0] && a[1] != b[1]);
	p.n = 3;
	assert_int_equal(decisions_blocks(d, &p, 3, b), 1);
	assert_int_equal(a[0], b[0]);
	p.groups = NULL;
	assert_int_equal(decisions_blocks(d, &p, 3, b), 0);
	decisions_free(d);
	decisions_free(e);
	decisions_free(NULL);
}

/* Blocks of <of> pages, with page <changed> another one: all before it stay, no other does. */
static void change_page(const struct decisions *d, uint32_t of, uint32_t changed)
{
	static uint32_t a[DECISION_BLOCKS_MAX], b[DECISION_BLOCKS_MAX];
	page_key pages[PAGES];
	uint64_t groups[PAGES];
	struct decision_pages p;
	uint32_t n = (PAGES + of - 1) / of;

	for (uint32_t i = 0; i < PAGES; i++)
		pages[i] = i * 0x9e3779b97f4a7c15ull;
	p = pages_of(pages, PAGES, groups);
	assert_int_equal(decisions_blocks(d, &p, of, a), n);
	pages[changed] ^= 1;
	p = pages_of(pages, PAGES, groups);
	assert_int_equal(decisions_blocks(d, &p, of, b), n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(a[i] == b[i], i < changed / of);
	for (uint32_t i = 1; i < n; i++)
		assert_true(a[i] != a[i - 1]);
}

static void blocks_tell_all_pages_before(void **state)
{
	static const uint32_t of[] = { 1, 3, 16, 32, 64, 70, 100 };
	struct hash_key k = test_key();
	struct decisions *d = decisions_new(4, &k, 1);

	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		for (uint32_t changed = 0; changed < PAGES; changed++)
			change_page(d, of[i], changed);
	decisions_free(d);
}

static void blocks_written_over_are_gone(void **state)
{
	static uint32_t blocks[DECISION_BLOCKS_MAX], out[DECISION_BLOCKS_MAX];
	struct hash_key k = test_key();
	struct decisions *d = decisions_new(4, &k, 1);
	struct decision x = { .n_blocks = DECISION_BLOCKS_MAX, .after = AFTER_DONE }, first;

	assert_int_equal(decisions_put(d, &x, blocks), 1);
	assert_int_equal(decisions_read(d, 2, &first, 1), 1);
	assert_int_equal(decisions_blocks_of(d, &first, out), DECISION_BLOCKS_MAX);
	x.uid_hash = 5;
	assert_int_equal(decisions_put(d, &x, blocks), 2);
	assert_int_equal(decisions_blocks_of(d, &first, out), 0);
	decisions_free(d);
}

/* ---- modes --------------------------------------------------------------------------------- */

static void set_mode(struct world *w, enum pool_mode m)
{
	w->o.pool_default.mode = m;
	assert_int_equal(route_reconfigure(w->r, &w->o), 0);
}

static void shadow_names_no_server_and_follows_facts(void **state)
{
	struct decision x;
	struct world w;

	world_options(&w);
	w.o.pool_default.mode = MODE_SHADOW;
	world_open(&w);
	for (int i = 0; i < 4; i++) {
		char uid[4] = { (char)('1' + i), 0 };

		ask(&w, uid, "a");
		assert_why(&w, WHY_SHADOW);
		assert_span(w.a.server, "");
		assert_span(w.a.alt, "");
		assert_int_equal(w.a.hit, 0);
		assert_int_equal(w.a.pages, 0);
		assert_int_equal(w.a.prompt_pages, TURN_PAGES);
		x = found(&w, uid);
		assert_int_equal(x.mode, MODE_SHADOW);
		assert_int_equal(x.why, i < 1 ? WHY_COLD : WHY_CACHED);
		if (i > 0)
			assert_string_equal(name_of(&w, x.chosen), "s3");
		for (int k = 1; k <= 4; k++) {
			char name[3] = { 's', (char)('0' + k), 0 };

			assert_int_equal(server(&w, name).v.open, 0);
			assert_true(server(&w, name).v.backlog_s == 0);
		}
		assert_int_equal(stats(&w).open, 1);
		tell_first(&w, uid, "s3", 200, STREAM);		/* where HAProxy sent it */
		assert_int_equal(server(&w, "s3").v.open, 1);
		assert_int_equal(server(&w, "s3").v.held_tokens, TURN_PAGES * 16);
		tell_done(&w, uid, "s3", 200, "--", 5);
		assert_int_equal(stats(&w).open, 0);
		assert_string_equal(name_of(&w, found(&w, uid).went), "s3");
		w.now += 1000;
	}
	assert_int_equal(server(&w, "s1").v.held_tokens + server(&w, "s2").v.held_tokens +
		server(&w, "s4").v.held_tokens,
	    0);
	assert_int_equal(stats(&w).why[WHY_SHADOW], 4);
	set_mode(&w, MODE_ON);
	ask(&w, "on", "a");
	assert_why(&w, WHY_CACHED);
	assert_span(w.a.server, "s3");
	world_end(&w);
}

/* A request without facts has no outcome. */
static void shadow_without_facts_learns_nothing(void **state)
{
	static const char *const ends[][2] = { { "<NOSRV>", "SC" }, { "", "--" },
		{ "<CACHE>", "--" }, { "s9", "--" } };
	struct index_stats none;
	struct world w;

	world_options(&w);
	w.o.pool_default.mode = MODE_SHADOW;
	w.o.ledger_max_age_ms = 5000;
	world_open(&w);
	for (unsigned i = 0; i < 4; i++) {
		ask(&w, "1", "a");
		tell_done(&w, "1", ends[i][0], i ? 200 : 503, ends[i][1], i ? 5 : -1);
	}
	ask(&w, "aged", "a");
	w.now += 6000;
	route_tick(w.r, w.now);
	assert_int_equal(stats(&w).open, 0);
	assert_int_equal(stats(&w).closed_by_age, 1);
	none = stats(&w).index;
	assert_int_equal(none.confirmed, 0);
	assert_int_equal(none.claims, 0);
	ask(&w, "2", "a");
	assert_int_equal(found(&w, "2").why, WHY_COLD);
	world_end(&w);
}

static void off_does_not_look(void **state)
{
	struct world w;

	world_start(&w);
	ask(&w, "before", "a");
	set_mode(&w, MODE_OFF);
	ask(&w, "1", "a");
	assert_why(&w, WHY_SHADOW);
	assert_span(w.a.server, "");
	assert_int_equal(w.a.prompt_pages, 0);
	assert_int_equal(w.a.decision, 0);
	assert_false(w.a.more);
	assert_int_equal(stats(&w).open, 1);		/* the one before */
	assert_int_equal(stats(&w).why[WHY_SHADOW], 1);
	assert_int_equal(server(&w, "s4").found, true);
	tell_done(&w, "before", "s1", 200, "--", 5);
	assert_int_equal(stats(&w).open, 0);
	tell_done(&w, "1", "s1", 200, "--", 5);
	assert_int_equal(stats(&w).facts_unknown, 1);
	send_body(&w, "2", SPAN("{]"));
	assert_why(&w, WHY_SHADOW);
	set_mode(&w, MODE_ON);
	ask(&w, "3", "a");
	assert_why(&w, WHY_CACHED);
	assert_span(w.a.server, "s1");
	world_end(&w);
}

/* ---- compared rules ------------------------------------------------------------------------ */

struct compared_find { const char *rule; struct route_compare_view v; bool found; };

static void compared_look(void *arg, const struct route_compare_view *v)
{
	struct compared_find *f = arg;

	if (strcmp(v->rule, f->rule) == 0) {
		f->v = *v;
		f->found = true;
	}
}

static struct compared_find compared(struct world *w, const char *rule)
{
	struct compared_find f = { .rule = rule };

	route_each_compared(w->r, compared_look, &f);
	return f;
}

static void compare_open(struct world *w, enum policy_rule a, enum policy_rule b)
{
	world_options(w);
	w->o.pool_default.compare[0] = (uint8_t)(a + 1);
	w->o.pool_default.compare[1] = (uint8_t)(b + 1);
	world_open(w);
}

/* s1 holds the prompt and has two more requests than the others: cost chooses s1, least_conn not.
 */
static void compared_rules_differ(void **state)
{
	struct decision x;
	struct world w;

	compare_open(&w, RULE_LEAST_CONN, RULE_CACHE_AWARE);
	ask(&w, "1", "abcdefgh");
	served(&w, "1");
	w.q.load = SPAN("lb1/1;s1=1,2,0,1;s2=1,0,0,1;s3=1,9,0,1;s4=1,9,0,1");
	w.now += 1000;
	ask(&w, "2", "abcdefgh");
	assert_span(w.a.server, "s1");
	x = found(&w, "2");
	assert_int_equal(x.n_compared, 2);
	assert_int_equal(x.compared[0].rule, RULE_LEAST_CONN);
	assert_string_equal(name_of(&w, x.compared[0].server), "s2");
	assert_int_equal(x.compared[0].cached, 0);
	assert_string_equal(name_of(&w, x.compared[1].server), "s1");
	assert_int_equal(x.compared[1].cached, 8 * TURN_PAGES * 16);
	for (unsigned i = 0; i < x.n_kept; i++)
		if (strcmp(name_of(&w, x.candidate[i].server), "s2") == 0)
			assert_true(near(x.compared[0].regret_s, x.candidate[i].cost_s - x.cost_s));
	assert_true(x.compared[0].regret_s > 0.1 && x.compared[1].regret_s == 0 && x.regret_s == 0);
	assert_int_equal(compared(&w, "least_conn").v.choices, 2);
	assert_int_equal(compared(&w, "least_conn").v.same, 1);
	assert_true(near(compared(&w, "least_conn").v.regret_s, x.compared[0].regret_s));
	assert_int_equal(compared(&w, "least_conn").v.hit_tokens, 0);
	assert_int_equal(compared(&w, "cache_aware").v.same, 2);
	assert_int_equal(compared(&w, "cache_aware").v.hit_tokens, 8 * TURN_PAGES * 16);
	world_end(&w);
}

/* The acting rule has its own regrets. */
static void the_acting_rule_regrets(void **state)
{
	struct decision x;
	struct world w;

	compare_open(&w, RULE_COST, RULE_COST);
	w.o.pool_default.compare[1] = 0;
	policy_preset(&w.o.pool_default.policy, RULE_LEAST_CONN);
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,5,0,1");
	ask(&w, "1", "abcdefgh");
	served(&w, "1");
	w.q.load = SPAN("lb1/1;s1=1,1,0,1;s2=1,0,0,1");
	ask(&w, "2", "abcdefgh");
	assert_span(w.a.server, "s2");
	x = found(&w, "2");
	assert_true(x.regret_s > 0.1);
	assert_string_equal(name_of(&w, x.compared[0].server), "s1");
	assert_true(x.compared[0].regret_s == 0);
	assert_int_equal(pool(&w).choices, 2);
	assert_int_equal(pool(&w).dearer, 1);
	assert_true(near(pool(&w).regret_s, x.regret_s));
	world_end(&w);
}

/* A compared rule with its own memory learns where requests really went. It keeps the memory over a
 * reload that does not change the rule. */
static void a_compared_memory_follows_facts(void **state)
{
	struct decision x;
	struct world w;

	compare_open(&w, RULE_BLOCK_TRACKER, RULE_CHWBL);
	ask(&w, "1", "abcdefgh");
	assert_span(w.a.server, "s1");
	served(&w, "1");
	w.o.pool_default.compare[1] = RULE_RANDOM + 1;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	w.now += 1000;		/* s1 had its turn: without a memory it would come last */
	ask(&w, "2", "abcdefgh");
	x = found(&w, "2");
	assert_int_equal(x.compared[0].rule, RULE_BLOCK_TRACKER);
	assert_string_equal(name_of(&w, x.compared[0].server), "s1");
	assert_int_equal(x.compared[1].rule, RULE_RANDOM);
	assert_int_equal(compared(&w, "block_tracker").v.choices, 2);
	world_end(&w);
}

/* Compared rules do not affect decisions. A reload keeps the figures of rules that stay. */
static void comparing_changes_no_decision(void **state)
{
	struct world w, v;
	char uid[8];

	compare_open(&w, RULE_RANDOM, RULE_POWER_OF_TWO);
	world_options(&v);
	policy_preset(&v.o.pool_default.policy, RULE_POWER_OF_TWO);
	w.o.pool_default.policy = v.o.pool_default.policy;
	world_open(&v);
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	for (int i = 0; i < 50; i++) {
		snprintf(uid, sizeof(uid), "%d", i);
		ask(&w, uid, "a");
		ask(&v, uid, "a");
		assert_true(span_eq(w.a.server, v.a.server));
	}
	assert_int_equal(compared(&w, "random").v.choices, 50);
	w.o.pool_default.compare[0] = RULE_POWER_OF_TWO + 1;
	w.o.pool_default.compare[1] = RULE_ROUND_ROBIN + 1;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	assert_int_equal(compared(&w, "power_of_two").v.choices, 50);
	assert_int_equal(compared(&w, "round_robin").v.choices, 0);
	assert_false(compared(&w, "random").found);
	w.o.pool_default.compare[0] = 0;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	assert_false(compared(&w, "power_of_two").found);
	world_end(&w);
	world_end(&v);
}

/* Hashes that begin alike are in one chain with one tag. */
static void a_hash_is_compared_whole(void **state)
{
	struct hash_key key = { 0 };
	struct decisions *d = decisions_new(4, &key, 1);
	struct decision x = { .uid_hash = 5 };

	(void)state;
	assert_non_null(d);
	assert_int_equal(decisions_put(d, &x, NULL), 1);
	x.uid_hash |= 1ull << 32;
	assert_int_equal(decisions_put(d, &x, NULL), 2);
	assert_true(decisions_find(d, 5, &x));
	assert_int_equal(x.number, 1);
	assert_false(decisions_find(d, 5 | 1ull << 33, &x));
	decisions_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_has_all),
		cmocka_unit_test(of_many_candidates_the_cheapest),
		cmocka_unit_test(no_server_is_a_decision_too),
		cmocka_unit_test(facts_give_the_outcome),
		cmocka_unit_test(the_oldest_goes),
		cmocka_unit_test(none_are_kept),
		cmocka_unit_test(a_request_has_one_record),
		cmocka_unit_test(any_mix_of_uids),
		cmocka_unit_test(a_hash_is_compared_whole),
		cmocka_unit_test(a_long_uid_is_cut),
		cmocka_unit_test(a_server_that_has_gone),
		cmocka_unit_test(uids_count_while_facts_do),
		cmocka_unit_test(blocks_show_common_beginnings),
		cmocka_unit_test(blocks_end_with_the_process),
		cmocka_unit_test(blocks_tell_all_pages_before),
		cmocka_unit_test(blocks_written_over_are_gone),
		cmocka_unit_test(shadow_names_no_server_and_follows_facts),
		cmocka_unit_test(shadow_without_facts_learns_nothing),
		cmocka_unit_test(off_does_not_look),
		cmocka_unit_test(compared_rules_differ),
		cmocka_unit_test(the_acting_rule_regrets),
		cmocka_unit_test(a_compared_memory_follows_facts),
		cmocka_unit_test(comparing_changes_no_decision),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
