/* test_share.c - what one agent decides and learns is known to its siblings, once. */
#include "tests/unit/route/fleet.h"

static struct fleet_world f;
#define A	(&f.a[0].w)
#define B	(&f.a[1].w)
#define C	(&f.a[2].w)

static uint64_t open_at(struct world *w, const char *name)
{
	struct server_find s = server(w, name);

	return s.found ? s.v.open : 0;
}

static uint64_t pages_at(struct world *w, const char *name)
{
	struct server_find s = server(w, name);

	return s.found ? index_server_room(w->r->index, s.v.id) / (16 * ROOM_OF_TOKEN) : 0;
}

static uint64_t claims(struct world *w)
{
	struct index_stats s;

	index_stats(w->r->index, &s);
	return s.claims;
}

/* No agent has an open request, and all trees hold the same. */
static void assert_settled(void)
{
	for (unsigned i = 0; i < f.n; i++) {
		assert_int_equal(stats(&f.a[i].w).open, 0);
		assert_int_equal(claims(&f.a[i].w), 0);
		assert_int_equal(share_stats(&f.a[i]).open, 0);
		assert_int_equal(pairs_differing(&f.a[0], &f.a[i], true), 0);
	}
}

static void a_sibling_knows_what_was_sent(void **state)
{
	fleet_new(&f, 2);
	ask(A, "1", "ab");
	assert_span(A->a.server, "s1");
	assert_int_equal(stats(B).open, 0);
	pass(&f, 5);
	assert_int_equal(stats(B).open, 1);
	assert_int_equal(open_at(B, "s1"), 1);
	assert_int_equal(pages_at(B, "s1"), 2 * TURN_PAGES);
	assert_int_equal(claims(B), 1);
	assert_int_equal(pairs_held(&f.a[1]), 0);
	tell_first(A, "1", "s1", 200, STREAM);
	pass(&f, 5);
	ask(B, "2", "abc");		/* the next turn comes to the other agent */
	assert_span(B->a.server, "s1");
	assert_int_equal(B->a.pages, 2 * TURN_PAGES);
	assert_int_equal(stats(B).requests, 1);
	fleet_end(&f);
}

static void the_same_backlog(void **state)
{
	fleet_new(&f, 2);
	ask(A, "1", "abcd");
	pass(&f, 1);
	assert_true(server(A, "s1").v.backlog_s > 0);
	assert_true(server(B, "s1").v.backlog_s > 0);
	ask(B, "2", "x");		/* not where the other agent has sent work */
	assert_span(B->a.server, "s2");
	pass(&f, 1);
	ask(A, "3", "y");
	assert_span(A->a.server, "s3");
	fleet_end(&f);
}

static void a_turn_counts_for_all(void **state)
{
	const char *want[] = { "s1", "s2", "s3", "s4" };
	char uid[8];

	fleet_new(&f, 2);
	for (unsigned i = 0; i < 4; i++) {
		struct world *w = &f.a[i % 2].w;

		snprintf(uid, sizeof(uid), "%u", i);
		ask(w, uid, (char[]){ (char)('a' + i), '\0' });
		assert_span(w->a.server, want[i]);
		pass(&f, 1);
		tell_done(w, uid, want[i], 200, "--", 20);
		pass(&f, 1);
	}
	assert_settled();
	fleet_end(&f);
}

static void a_fact_closes_everywhere(void **state)
{
	fleet_new(&f, 3);
	ask(A, "1", "ab");
	pass(&f, 5);
	tell_first(A, "1", "s1", 200, STREAM);
	pass(&f, 5);
	assert_int_equal(stats(C).open, 1);
	assert_int_equal((int)(server(C, "s1").v.backlog_s * 1000), 0);
	tell_done(A, "1", "s1", 200, "--", 20);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(pairs_held(&f.a[2]), 2 * TURN_PAGES);
	assert_int_equal(stats(B).firsts + stats(B).dones, 0);
	fleet_end(&f);
}

static void a_fact_that_came_to_another_agent(void **state)
{
	fleet_new(&f, 3);
	ask(A, "1", "ab");
	pass(&f, 5);
	tell_first(B, "1", "s1", 200, STREAM);	/* HAProxy asked the other one for the response */
	pass(&f, 5);
	assert_int_equal((int)(server(A, "s1").v.backlog_s * 1000), 0);
	assert_int_equal((int)(server(C, "s1").v.backlog_s * 1000), 0);
	tell_done(B, "1", "s1", 200, "--", 20);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(pairs_held(&f.a[0]), 2 * TURN_PAGES);
	fleet_end(&f);
}

static void another_server_got_it(void **state)
{
	fleet_new(&f, 2);
	ask(A, "1", "ab");
	pass(&f, 5);
	tell_done(A, "1", "s4", 200, "--", 20);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(pages_at(B, "s1"), 0);
	assert_int_equal(pages_at(B, "s4"), 2 * TURN_PAGES);
	fleet_end(&f);
}

static void a_failure_holds_nothing(void **state)
{
	fleet_new(&f, 2);
	ask(A, "1", "ab");
	pass(&f, 5);
	tell_done(A, "1", "s1", 500, "--", 20);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(pages_at(B, "s1"), 0);
	assert_true(server(B, "s1").v.penalty > 0);
	fleet_end(&f);
}

/* ---- more than once, and in another order --------------------------------------------------- */

static void placed_twice(void **state)
{
	fleet_new(&f, 2);
	f.twice = 1000;
	ask(A, "1", "ab");
	pass(&f, 5);
	assert_int_equal(stats(B).open, 1);
	assert_int_equal(claims(B), 1);
	assert_int_equal(open_at(B, "s1"), 1);
	assert_int_equal(share_stats(&f.a[1]).repeated, 1);
	tell_first(A, "1", "s1", 200, STREAM);
	tell_done(A, "1", "s1", 200, "--", 20);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(share_stats(&f.a[1]).repeated, 3);
	fleet_end(&f);
}

/* Deliver the parcels of B in reverse. */
static void pass_reversed(void)
{
	struct parcel *reversed = NULL, *p;

	while ((p = f.first) != NULL) {
		f.first = p->next;
		p->next = reversed;
		reversed = p;
	}
	f.first = reversed;
	pass(&f, 5);
}

static void facts_before_their_request(void **state)
{
	fleet_new(&f, 2);
	ask(A, "1", "ab");
	tell_first(A, "1", "s2", 200, STREAM);
	tell_done(A, "1", "s2", 200, "--", 20);
	ask(A, "2", "xy");
	tell_first(A, "2", "s2", 200, STREAM);
	ask(A, "3", "z");
	tell_done(A, "3", "s3", 503, "SC", -1);
	pass_reversed();
	assert_int_equal(stats(B).open, 1);		/* "2" */
	assert_int_equal(share_stats(&f.a[1]).early, 4);
	assert_int_equal((int)(server(B, "s2").v.backlog_s * 1000), 0);
	assert_int_equal(pages_at(B, "s2"), 4 * TURN_PAGES);
	tell_done(A, "2", "s2", 200, "--", 20);
	pass(&f, 5);
	assert_settled();
	fleet_end(&f);
}

static int64_t bytes_of_tenant(const struct world *w, const char *name)
{
	uint32_t number = tenant_number(&w->r->requests.tenants, &w->r->key, span_str(name));

	assert_int_not_equal(number, 0);
	return index_tenant_bytes(w->r->index, number);
}

/* Pages count for the tenant who sent them, although each agent numbers its tenants in its way. */
static void tenants_with_other_numbers(void **state)
{
	struct tenant_opts all[] = { { "x", 1 << 20 }, { "y", 1 << 20 }, { "z", 1 << 20 } };

	fleet_new(&f, 2);
	for (unsigned first = 0; first < 3; first++) {
		const char *name = all[first].name;

		A->o.tenants = all;
		A->o.n_tenants = 3;
		B->o.tenants = &all[first];
		B->o.n_tenants = 1;
		assert_int_equal(route_reconfigure(A->r, &A->o), 0);
		assert_int_equal(route_reconfigure(B->r, &B->o), 0);
		A->q.tenant = span_str(name);
		ask(A, (char[]){ (char)('1' + first), '\0' }, "ab");
		pass(&f, 5);
		assert_true(bytes_of_tenant(B, name) > 0);
		assert_int_equal(bytes_of_tenant(A, name), bytes_of_tenant(B, name));
	}
	A->o.tenants = B->o.tenants = NULL;
	A->o.n_tenants = B->o.n_tenants = 0;
	A->q.tenant = (struct span){ 0 };
	fleet_end(&f);
}

static void a_repeated_request_after_its_end(void **state)
{
	fleet_new(&f, 2);
	struct parcel *late = NULL;

	f.twice = 1000;
	ask(A, "1", "ab");
	for (struct parcel *p = f.first; p != NULL; p = p->next)
		if (p->e.kind == SHARE_PLACED)
			late = p;
	assert_non_null(late);
	late->due += 100;		/* one of the two comes late */
	pass(&f, 5);
	tell_done(A, "1", "s1", 200, "--", 20);
	pass(&f, 5);
	assert_settled();
	pass(&f, 200);
	assert_null(f.first);
	assert_settled();
	fleet_end(&f);
}

/* A log line that both agents get. */
static struct fact line_of(const char *uid, int64_t output_tokens)
{
	struct fact l = served_fact(uid);

	l.line = true;
	l.output_tokens = output_tokens;
	l.prompt_tokens = 300;
	l.bytes_out = 1000;
	l.total_ms = 60000;
	return l;
}

static void a_line_before_the_fact(void **state)
{
	struct fact l = line_of("1", 50);

	fleet_new(&f, 2);
	ask(A, "1", "ab");
	pass(&f, 5);
	route_learn(B->r, &l, f.now);
	assert_int_equal(f.first == NULL, true);		/* the agent that decided tells it */
	assert_int_equal(stats(B).open, 0);
	route_learn(A->r, &l, f.now);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(A->r->answer_size.tokens, 50);
	assert_int_equal(B->r->answer_size.tokens, 50);
	assert_int_equal(index_server_output(A->r->index, server(A, "s1").v.id), 50 * ROOM_OF_TOKEN);
	assert_int_equal(index_server_output(B->r->index, server(B, "s1").v.id), 50 * ROOM_OF_TOKEN);
	fleet_end(&f);
}

static void a_line_after_the_fact(void **state)
{
	struct fact l = line_of("1", 50);

	fleet_new(&f, 2);
	ask(A, "1", "ab");
	pass(&f, 5);
	route_learn(A->r, &l, f.now);
	pass(&f, 5);
	assert_settled();
	route_learn(B->r, &l, f.now);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(stats(B).facts_unknown, 0);		/* A has told it */
	assert_int_equal(A->r->answer_size.tokens, 50);
	assert_int_equal(B->r->answer_size.tokens, 50);
	assert_int_equal(index_server_output(B->r->index, server(B, "s1").v.id), 50 * ROOM_OF_TOKEN);
	fleet_end(&f);
}

static void a_line_before_the_request(void **state)
{
	struct fact l = line_of("1", 50);

	fleet_new(&f, 2);
	ask(B, "0", "q");		/* so that B knows its servers */
	refused(B, "0");
	pass(&f, 5);
	ask(A, "1", "ab");
	route_learn(B->r, &l, f.now);
	pass(&f, 5);
	assert_int_equal(stats(B).open, 0);
	route_learn(A->r, &l, f.now);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(A->r->answer_size.tokens, 50);
	assert_int_equal(B->r->answer_size.tokens, 50);
	assert_int_equal(index_server_output(B->r->index, server(B, "s1").v.id), 50 * ROOM_OF_TOKEN);
	fleet_end(&f);
}

/* The message of the end comes to the other agent, before the request is known there. */
static void an_end_before_the_request(void **state)
{
	struct fact done = line_of("1", 50);

	fleet_new(&f, 2);
	done.line = false;
	ask(B, "0", "q");		/* so that B knows its servers */
	refused(B, "0");
	pass(&f, 5);
	ask(A, "1", "ab");
	route_learn(B->r, &done, f.now);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(A->r->answer_size.tokens, 50);
	assert_int_equal(B->r->answer_size.tokens, 50);
	assert_int_equal(index_server_output(B->r->index, server(B, "s1").v.id), 50 * ROOM_OF_TOKEN);
	fleet_end(&f);
}

/* The whole answer was ready with its first byte; its line tells how many tokens it had. */
static void a_whole_answer(void **state)
{
	struct fact l = line_of("1", 50);

	fleet_new(&f, 2);
	ask(A, "1", "ab");
	pass(&f, 5);
	tell_first(A, "1", "s1", 200, "application/json");
	pass(&f, 5);
	assert_int_equal(stats(B).open, 0);
	route_learn(A->r, &l, f.now);
	pass(&f, 5);
	route_learn(B->r, &l, f.now);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(A->r->answer_size.tokens, 50);
	assert_int_equal(B->r->answer_size.tokens, 50);
	assert_int_equal(index_server_output(B->r->index, server(B, "s1").v.id), 50 * ROOM_OF_TOKEN);
	fleet_end(&f);
}

static void both_were_asked(void **state)
{
	for (unsigned first = 0; first < 2; first++) {
		fleet_new(&f, 3);
		ask(A, "1", "ab");
		if (first == 1)
			pass(&f, 5);
		ask(B, "1", "ab");
		pass(&f, 5);
		for (unsigned i = 0; i < 3; i++) {
			assert_int_equal(stats(&f.a[i].w).open, 1);
			assert_int_equal(claims(&f.a[i].w), 1);
		}
		struct fact l = line_of("1", 50);

		l.server = SPAN("s3");
		route_learn(A->r, &l, f.now);
		route_learn(B->r, &l, f.now);
		pass(&f, 5);
		route_learn(C->r, &l, f.now);
		pass(&f, 5);
		assert_settled();
		assert_int_equal(pages_at(C, "s3"), 2 * TURN_PAGES);
		assert_int_equal(C->r->answer_size.tokens, A->r->answer_size.tokens);
		fleet_end(&f);
	}
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void taken_back(void **state)
{
	fleet_new(&f, 2);
	ask(A, "1", "ab");
	pass(&f, 5);
	assert_int_equal(stats(B).open, 1);
	A->q.load = SPAN("lb1/1;s1=0,0,0,1;s2=0,0,0,1;s3=0,0,0,1;s4=0,0,0,1");
	ask(A, "1", "ab");		/* once more, and now no server is up */
	assert_int_equal(A->a.server.n, 0);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(pages_at(B, "s1"), 0);
	fleet_end(&f);
}

static void replaced(void **state)
{
	fleet_new(&f, 2);
	ask(A, "1", "ab");
	pass(&f, 5);
	ask(A, "1", "abc");
	pass(&f, 5);
	assert_int_equal(stats(B).open, 1);
	assert_int_equal(claims(B), 1);
	assert_int_equal(share_stats(&f.a[1]).put[SHARE_TAKEN_BACK], 0);
	tell_done(A, "1", "s1", 200, "--", 20);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(pairs_held(&f.a[1]), 3 * TURN_PAGES);
	fleet_end(&f);
}

static void an_end_that_only_its_agent_noticed(void **state)
{
	fleet_begin(&f, 2);
	A->o.ledger_max_age_ms = 1000;
	fleet_open(&f);
	ask(A, "1", "ab");
	pass(&f, 5);
	pass(&f, 2000);
	route_tick(A->r, f.now);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(pairs_held(&f.a[1]), 2 * TURN_PAGES);
	fleet_end(&f);
}

static void a_sibling_is_gone(void **state)
{
	char uid[16];

	fleet_new(&f, 2);
	for (unsigned i = 0; i < 150; i++) {
		snprintf(uid, sizeof(uid), "%u", i);
		ask(A, uid, (char[]){ (char)('a' + i % 26), (char)('A' + i / 26), '\0' });
	}
	ask(B, "own", "zz");
	pass(&f, 5);
	assert_int_equal(stats(B).open, 151);
	while (route_share_gone(B->r, agent_id(0), f.now))
		;
	assert_int_equal(stats(B).open, 1);
	assert_int_equal(share_stats(&f.a[1]).closed_by_lease, 150);
	assert_int_equal(share_stats(&f.a[1]).open, 0);
	tell_done(A, "7", "s1", 200, "--", 20);		/* it lives, and is late */
	pass(&f, 5);
	assert_int_equal(stats(B).open, 1);
	fleet_end(&f);
}

/* Load strings of B's own HAProxy say nothing about what A has sent. */
static void no_load_string_closes_it(void **state)
{
	fleet_new(&f, 2);
	ask(A, "1", "ab");
	pass(&f, 5);
	B->q.load = SPAN("lb2/9;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1");
	for (unsigned i = 0; i < 100; i++) {
		ask(B, "x", "x");
		refused(B, "x");
		route_tick(B->r, f.now);
		pass(&f, 1000);
	}
	assert_int_equal(stats(B).open, 1);
	fleet_end(&f);
}

static void requests_without_a_uid(void **state)
{
	fleet_new(&f, 2);
	ask(A, "", "ab");
	ask(B, "", "xy");
	pass(&f, 5);
	assert_int_equal(stats(A).open, 2);
	assert_int_equal(stats(B).open, 2);
	fleet_end(&f);
}

static void in_shadow_mode(void **state)
{
	fleet_begin(&f, 2);
	A->o.pool_default.mode = B->o.pool_default.mode = MODE_SHADOW;
	fleet_open(&f);
	ask(A, "1", "ab");
	ask(B, "0", "q");
	refused(B, "0");
	pass(&f, 5);
	assert_int_equal(stats(B).open, 1);
	tell_done(A, "1", "s3", 200, "--", 20);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(pages_at(B, "s3"), 2 * TURN_PAGES);
	fleet_end(&f);
}

/* ---- anchors -------------------------------------------------------------------------------- */

static void only_new_pages_are_sent(void **state)
{
	char turns[] = "abcdefghijkl", uid[8];
	uint64_t sent;

	fleet_new(&f, 3);
	for (unsigned n = 1; n < sizeof(turns); n++) {
		struct world *w = &f.a[n % 3].w;
		char part[16] = "";

		memcpy(part, turns, n);
		snprintf(uid, sizeof(uid), "%u", n);
		sent = f.n_pages;
		ask(w, uid, part);
		assert_in_range(f.n_pages - sent, TURN_PAGES, TURN_PAGES + ANCHOR_EVERY);
		pass(&f, 5);
		tell_done(w, uid, "s1", 200, "--", 20);
		pass(&f, 5);
		assert_settled();
	}
	assert_int_equal(share_stats(&f.a[0]).unplaced, 0);
	assert_int_equal(pairs_held(&f.a[0]), (sizeof(turns) - 1) * TURN_PAGES);
	fleet_end(&f);
}

/* Return whether B has collected pages before the anchor since they were wiped. */
static bool collected(void)
{
	return B->r->sharing->pages[0] != 0;
}

static void pages_before_a_known_anchor_are_not_read(void **state)
{
	const struct marks *m;

	fleet_new(&f, 2);
	ask(A, "1", "abcdef");
	tell_done(A, "1", "s1", 200, "--", 20);
	pass(&f, 5);
	B->r->sharing->pages[0] = 0;
	ask(A, "2", "abcdefghijklmnop");
	pass(&f, 5);
	assert_false(collected());
	m = &B->r->sharing->marks;
	assert_int_equal(m->n, A->s->marks.n);
	assert_memory_equal(m->key, A->s->marks.key, m->n * sizeof(m->key[0]));
	assert_memory_equal(m->depth, A->s->marks.depth, m->n * sizeof(m->depth[0]));
	tell_done(A, "2", "s1", 200, "--", 20);
	pass(&f, 5);
	assert_settled();
	/* the next turn is of another agent, which has sent none of the pages before */
	ask(B, "3", "abcdefghijklmnopq");
	pass(&f, 5);
	B->r->sharing->pages[0] = 0;
	ask(A, "4", "abcdefghijklmnopqrstuv");
	pass(&f, 5);
	assert_false(collected());
	/* another server has none of them */
	A->q.load = SPAN("lb1/1;s1=0,0,0,1;s2=1,0,0,1");
	ask(A, "5", "abcdefghijklmnopqrstuvw");
	pass(&f, 5);
	assert_true(span_eq(A->a.server, SPAN("s2")));
	assert_true(collected());
	for (char uid[] = "3"; uid[0] <= '5'; uid[0]++)
		tell_done(uid[0] == '3' ? B : A, uid, uid[0] == '5' ? "s2" : "s1", 200, "--", 20);
	pass(&f, 5);
	assert_settled();
	assert_int_equal(share_stats(&f.a[1]).unplaced, 0);
	fleet_end(&f);
}

static void an_anchor_that_is_unknown(void **state)
{
	fleet_new(&f, 2);
	f.loss = 1000;
	ask(A, "1", "abcd");
	tell_done(A, "1", "s1", 200, "--", 20);
	f.loss = 0;
	ask(A, "2", "abcde");
	pass(&f, 5);
	assert_int_equal(share_stats(&f.a[1]).unplaced, 1);
	assert_int_equal(stats(B).open, 1);		/* it counts all the same */
	assert_int_equal(claims(B), 0);
	tell_done(A, "2", "s1", 200, "--", 20);
	pass(&f, 5);
	assert_int_equal(stats(B).open, 0);
	fleet_end(&f);
}

/* ---- heads ---------------------------------------------------------------------------------- */

/* Send the beginning of w->body, of which HAProxy could show no more. */
static void send_cut(struct world *w, const char *uid, size_t n)
{
	w->q.visible = (int64_t)n;
	w->q.whole = (int64_t)w->body.n;
	send_body(w, uid, span_of(w->body.p, n));
	w->q.visible = w->q.whole = -1;
}

static void a_head_goes_with_its_conversation(void **state)
{
	fleet_new(&f, 2);
	ask(A, "1", "ab");
	pass(&f, 5);
	tell_done(A, "1", "s1", 200, "--", 20);
	pass(&f, 5);
	assert_int_equal(share_stats(&f.a[0]).put[SHARE_HEAD], 1);
	chat(&B->body, "", "abc", ",\"model\":\"m\"");
	send_cut(B, "2", B->body.n - 40);
	assert_why(B, WHY_CACHED);
	assert_span(B->a.server, "s1");
	assert_true(B->a.pages >= 2 * TURN_PAGES - 1);
	assert_int_equal(stats(B).headless_saved, 1);
	ask(B, "3", "abcd");		/* four messages: one more opening of the same head */
	pass(&f, 5);
	assert_int_equal(share_stats(&f.a[1]).put[SHARE_HEAD], 1);
	ask(A, "4", "abcd");
	assert_int_equal(share_stats(&f.a[0]).put[SHARE_HEAD], 1);
	fleet_end(&f);
}

static void odd_heads(void **state)
{
	uint8_t bytes[400] = { 0 };
	struct share_entry e = { .kind = SHARE_HEAD };
	struct rng rng;

	fleet_new(&f, 1);
	rng_init(&rng, 3);
	for (unsigned i = 0; i < 200000; i++) {
		uint32_t n = rng_below(&rng, sizeof(bytes) + 1);

		for (unsigned k = 0; k < 3; k++)
			bytes[rng_below(&rng, 48)] = (uint8_t)(rng_below(&rng, 4) ? rng_below(&rng, 8) : rng_next(&rng));
		memset(bytes + 17, 0, 3);
		memset(bytes + 22, 0, 2);
		memset(bytes + 26, 0, 2);
		if (rng_below(&rng, 2)) {	/* the right length */
			uint32_t pages = bytes[20] + 256u * bytes[21] + bytes[24] + 256u * bytes[25];

			bytes[29] = bytes[31] = 0;
			n = 40 + 8u * bytes[16] + (bytes[32] ? 8 * pages + bytes[28] + bytes[30] : 0);
			n = n <= sizeof(bytes) ? n : (uint32_t)sizeof(bytes);
		}
		e.u.head.bytes = span_of(bytes, n);
		route_share_apply(A->r, 5, &e, f.now);
	}
	assert_in_range(share_stats(&f.a[0]).refused, 1000, 199000);
	ask(A, "1", "ab");
	fleet_end(&f);
}

/* ---- values that are not trusted ------------------------------------------------------------- */

static struct share_entry placed_entry(uint64_t uid, const page_key *pages, uint32_t n)
{
	return (struct share_entry){ .kind = SHARE_PLACED, .u.placed = {
		.uid = uid, .at = { SPAN("pool"), SPAN("s1") }, .space = { { 1, 2 }, 0, 256, 256 },
		.pages = pages, .n = n, .prompt_tokens = 1000, .work_tokens = 1000, .nominal_s = 0.1,
	} };
}

static void odd_values(void **state)
{
	static page_key pages[SHARE_PAGES_MAX];
	struct share_entry e;
	char name[400];

	fleet_begin(&f, 1);
	A->o.index.max_pages = 100;
	A->o.max_pools = 2;
	fleet_open(&f);
	memset(name, 'x', sizeof(name));
	for (unsigned i = 0; i < SHARE_PAGES_MAX; i++)
		pages[i] = i * 77 + 1;
	e = placed_entry(1, pages, SHARE_PAGES_MAX);
	route_share_apply(A->r, 5, &e, f.now);
	assert_int_equal(pages_at(A, "s1"), 100);
	e = placed_entry(2, pages, 5);
	e.u.placed.nominal_s = -1e300;
	e.u.placed.unseen_s = 0.0 / 0.0;
	e.u.placed.prompt_tokens = e.u.placed.work_tokens = e.u.placed.common_tokens = UINT64_MAX;
	e.u.placed.space.tenant = UINT32_MAX;
	e.u.placed.space.page_room = e.u.placed.space.part_room = UINT32_MAX;
	e.u.placed.grown = UINT32_MAX;
	e.u.placed.grown_ago_ms = INT64_MIN;
	e.u.placed.branched = UINT32_MAX;
	e.u.placed.priority = 255;
	route_share_apply(A->r, 5, &e, f.now);
	assert_int_equal(stats(A).open, 2);
	e = placed_entry(3, pages, 5);
	e.u.placed.anchor = (struct share_anchor){ 12345, UINT32_MAX };
	route_share_apply(A->r, 5, &e, f.now);
	assert_int_equal(share_stats(&f.a[0]).unplaced, 1);
	e = placed_entry(4, pages, 5);
	e.u.placed.at.server = span_of(name, sizeof(name));
	route_share_apply(A->r, 5, &e, f.now);
	e = placed_entry(5, pages, 5);
	e.u.placed.at.pool = span_of(name, sizeof(name));
	route_share_apply(A->r, 5, &e, f.now);
	assert_int_equal(share_stats(&f.a[0]).refused, 2);
	e = placed_entry(0, pages, 5);
	route_share_apply(A->r, 5, &e, f.now);
	assert_int_equal(stats(A).open, 3);
	assert_true(server(A, "s1").v.backlog_s < 1);
	e = placed_entry(6, pages, 5);
	route_share_apply(A->r, agent_id(0), &e, f.now);		/* its own */
	assert_int_equal(stats(A).open, 3);
	while (route_share_gone(A->r, 5, f.now))
		;
	assert_int_equal(stats(A).open, 0);
	fleet_end(&f);
}

static void many_requests_of_one_that_is_gone(void **state)
{
	unsigned calls = 0;
	bool more = true;

	fleet_new(&f, 1);
	for (unsigned i = 1; i <= 1000; i++) {
		struct share_entry e = placed_entry(i, NULL, 0);	/* nothing is claimed */

		route_share_apply(A->r, 5, &e, f.now);
	}
	for (; more; calls++) {
		uint64_t open = stats(A).open;

		more = route_share_gone(A->r, 5, f.now);
		assert_in_range(open - stats(A).open, 0, SETTLE_MAX);
	}
	assert_int_equal(stats(A).open, 0);
	assert_in_range(calls, 1000 / SETTLE_MAX, 1000);
	fleet_end(&f);
}

/* What cannot be entered takes the place of no other request. */
static void no_room_is_made_for_what_is_refused(void **state)
{
	struct share_entry e = placed_entry(1, NULL, 0);
	char name[400];

	fleet_begin(&f, 1);
	A->o.ledger_max_entries = 1;
	fleet_open(&f);
	ask(A, "1", "ab");
	memset(name, 'x', sizeof(name));
	e.u.placed.at.server = span_of(name, sizeof(name));
	route_share_apply(A->r, 5, &e, f.now);
	assert_int_equal(share_stats(&f.a[0]).refused, 1);
	assert_int_equal(stats(A).open, 1);
	assert_int_equal(stats(A).closed_by_room, 0);
	fleet_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sibling_knows_what_was_sent),
		cmocka_unit_test(the_same_backlog),
		cmocka_unit_test(a_turn_counts_for_all),
		cmocka_unit_test(a_fact_closes_everywhere),
		cmocka_unit_test(a_fact_that_came_to_another_agent),
		cmocka_unit_test(another_server_got_it),
		cmocka_unit_test(a_failure_holds_nothing),
		cmocka_unit_test(placed_twice),
		cmocka_unit_test(facts_before_their_request),
		cmocka_unit_test(a_repeated_request_after_its_end),
		cmocka_unit_test(tenants_with_other_numbers),
		cmocka_unit_test(a_line_before_the_fact),
		cmocka_unit_test(a_line_after_the_fact),
		cmocka_unit_test(a_line_before_the_request),
		cmocka_unit_test(an_end_before_the_request),
		cmocka_unit_test(a_whole_answer),
		cmocka_unit_test(both_were_asked),
		cmocka_unit_test(taken_back),
		cmocka_unit_test(replaced),
		cmocka_unit_test(an_end_that_only_its_agent_noticed),
		cmocka_unit_test(a_sibling_is_gone),
		cmocka_unit_test(many_requests_of_one_that_is_gone),
		cmocka_unit_test(no_room_is_made_for_what_is_refused),
		cmocka_unit_test(no_load_string_closes_it),
		cmocka_unit_test(requests_without_a_uid),
		cmocka_unit_test(in_shadow_mode),
		cmocka_unit_test(only_new_pages_are_sent),
		cmocka_unit_test(pages_before_a_known_anchor_are_not_read),
		cmocka_unit_test(an_anchor_that_is_unknown),
		cmocka_unit_test(a_head_goes_with_its_conversation),
		cmocka_unit_test(odd_heads),
		cmocka_unit_test(odd_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
