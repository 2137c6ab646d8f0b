/* test_doubt.c - what first tokens tell of the unseen part of cut bodies: how long caches keep what
 * sessions left there, and how much of what clients announce comes. */
#include "tests/unit/route/world.h"

#define ONE	"lb1/1;s1=1,0,0,1"
#define SESSIONS	20
#define WHOLE	100000		/* bytes of which send_turn() shows some 2000 */

/* Send a turn of <session> whose opening is <turns>. */
static void send_turn(
    struct world *w, const char *uid, const char *session, const char *turns, int64_t whole)
{
	chat(&w->body, "\"model\":\"m\",", turns, "");
	w->q.session = span_str(session);
	w->q.visible = (int64_t)w->body.n - 40;
	w->q.whole = whole;
	send_body(w, uid, span_of(w->body.p, w->body.n - 40));
}

static double prefill_s(struct world *w, uint64_t tokens)
{
	return policy_prefill_s(&w->o.pool_default.policy, tokens, 0);
}

static void answer(struct world *w, const char *uid, double seconds)
{
	msec ms = (msec)(1000 * seconds) + 1;

	w->now += ms;
	tell_first(w, uid, "s1", 200, STREAM);
	tell_done(w, uid, "s1", 200, "--", ms);
	w->now += 1000;
}

/* Sessions whose turns come a minute or two after each other, so that nothing is cached any more;
 * <kept>: or all is. Returns the tokens that a turn which shows <opening> is expected to find
 * then. */
static uint64_t found_late(bool kept, const char *opening)
{
	char uid[16], session[16];
	struct world w;
	uint64_t found;

	world_start(&w);
	w.q.load = SPAN(ONE);
	for (int64_t n = 0; n < 4; n++) {
		for (int i = 0; i < SESSIONS; i++) {
			snprintf(uid, sizeof(uid), "t%d", i);
			snprintf(session, sizeof(session), "c%d", i);
			send_turn(&w, uid, session, "abc", WHOLE + 4000 * n);
			answer(&w, uid, prefill_s(&w, kept && n > 0 ? 1000 : w.a.tokens));
		}
		w.now += 60000;
	}
	send_turn(&w, "last", "c0", opening, WHOLE + 16000);
	found = w.a.hit_tokens;
	world_end(&w);
	return found;
}

static void a_late_turn_finds_what_late_turns_found(void **state)
{
	(void)state;
	assert_in_range(found_late(true, "abc"), WHOLE / 4 / 10 * 9, WHOLE / 2);
	assert_in_range(found_late(false, "abc"), 0, WHOLE / 4 / 10);
	/* it shows what was not seen before, and may have been cached with the rest */
	assert_in_range(found_late(true, "abcdefghijkl"), WHOLE / 4 / 10 * 9, WHOLE / 2);
	assert_in_range(found_late(false, "abcdefghijkl"), 0, 4 * TURN_BYTES / 4);
}

/* New sessions of which <part> of what they announce comes. Returns the tokens of the next one that
 * count as open. */
static uint64_t open_tokens(double part)
{
	char uid[16], opening[4] = "aaa";
	struct world w;
	uint64_t n;

	world_start(&w);
	w.q.load = SPAN(ONE);
	for (int i = 0; i < SESSIONS; i++) {
		snprintf(uid, sizeof(uid), "n%d", i);
		opening[0] = (char)('a' + i);
		send_turn(&w, uid, uid, opening, WHOLE / 10);
		answer(&w, uid, prefill_s(&w, (uint64_t)((double)w.a.tokens * part)));
	}
	send_turn(&w, "last", "last", "zyx", WHOLE / 10);
	n = w.r->fleet.pools[0]->servers[0]->open_tokens;
	world_end(&w);
	return n;
}

static void announced_lengths_count_if_they_come(void **state)
{
	uint64_t all = open_tokens(1), half = open_tokens(0.5), none = open_tokens(0.05);

	(void)state;
	assert_in_range(all, WHOLE / 10 / 4 * 9 / 10, WHOLE / 10 / 4);
	assert_true(half < all * 3 / 4);
	assert_true(none < all * 5 / 10);
}

/* ---- which first tokens teach ---------------------------------------------------------------- */

#define LONG	"ABCDEFGHIJKLMNOPQRSTUVWXYZ"	/* 16 KB that are seen */

static const struct unseen_tenant *learned(struct world *w)
{
	return &w->r->fleet.pools[0]->unseen.of[0];
}

/* A turn of a session that is trusted by then, of which all comes; or all is cached, if <kept>. */
static void next_turn(struct world *w, int n, bool kept)
{
	send_turn(w, "turn", "talk", "abc", WHOLE + 400 * n);
	answer(w, "turn", prefill_s(w, kept ? 1000 : w->a.tokens));
}

/* Four turns of it at s1. Of the lessons before, none counts. */
static void trusted(struct world *w)
{
	w->q.load = SPAN(ONE);
	for (int n = 0; n < 4; n++)
		next_turn(w, n, true);
	memset(&w->r->fleet.pools[0]->unseen, 0, sizeof(w->r->fleet.pools[0]->unseen));
}

static void a_turn(struct world *w)
{
	trusted(w);
	next_turn(w, 4, true);
	assert_true(learned(w)->keep.n == 1);
}

static void a_new_one(struct world *w)
{
	w->q.load = SPAN(ONE);
	send_turn(w, "new", "new", "abc", WHOLE / 10);
	answer(w, "new", prefill_s(w, w->a.tokens));
	assert_true(learned(w)->announced.n == 1);
}

static void one_that_another_server_got(struct world *w)
{
	trusted(w);
	w->q.load = SPAN("lb1/1;s2=1,0,0,1");
	w->q.session = SPAN("");
	w->q.visible = w->q.whole = -1;
	for (int i = 0; i < 6; i++) {
		ask(w, "before", "xyz");
		w->now += 1000;
		tell_first(w, "before", "s2", 200, STREAM);
		tell_done(w, "before", "s2", 200, "--", 1000);
	}
	w->q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,0,0,1");
	send_turn(w, "turn", "talk", "abc", WHOLE + 1600);
	assert_span(w->a.server, "s1");
	w->now += 1000;
	tell_first(w, "turn", "s2", 200, STREAM);
}

/* HAProxy sends it to s2, while s1 would be chosen. */
static void one_in_shadow_mode(struct world *w)
{
	trusted(w);
	w->r->opts.pool_default.mode = MODE_SHADOW;
	w->q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,0,0,1");
	send_turn(w, "turn", "talk", "abc", WHOLE + 1600);
	w->now += 1000;
	tell_first(w, "turn", "s2", 200, STREAM);
}

static void one_that_takes_too_long(struct world *w)
{
	trusted(w);
	send_turn(w, "turn", "talk", "abc", WHOLE + 1600);
	answer(w, "turn", 2 * prefill_s(w, w->a.tokens));
}

/* The answer of the other one is no stream, and ends before. */
static void one_behind_another(struct world *w)
{
	trusted(w);
	chat(&w->body, "\"model\":\"m\",", "qrs", "");
	w->q.session = SPAN("");
	w->q.visible = w->q.whole = -1;
	send(w, "other");
	send_turn(w, "turn", "talk", "abc", WHOLE + 1600);
	w->now += 600;
	tell_done(w, "other", "s1", 200, "--", 600);
	answer(w, "turn", prefill_s(w, 1000));
}

/* The other is long, and streams: the time from its first token shows that all was cached. */
static void one_behind_a_stream(struct world *w)
{
	trusted(w);
	chat(&w->body, "\"model\":\"m\",", LONG, "");
	w->q.session = SPAN("");
	w->q.visible = w->q.whole = -1;
	send(w, "other");
	send_turn(w, "turn", "talk", "abc", WHOLE + 1600);
	w->now += 1000;
	tell_first(w, "other", "s1", 200, STREAM);
	answer(w, "turn", 0);
	assert_true(learned(w)->keep.n == 1);
	assert_true(learned(w)->keep.against[0] == 1 && learned(w)->keep.against[KEEP_TIMES - 1] == 0);
}

/* A sixth of it is not seen. */
static void one_that_is_mostly_seen(struct world *w)
{
	w->q.load = SPAN(ONE);
	send_turn(w, "new", "new", LONG LONG, 2 * 26 * TURN_BYTES * 7 / 6);
	answer(w, "new", prefill_s(w, w->a.tokens));
}

static void one_that_is_short(struct world *w)
{
	w->q.load = SPAN(ONE);
	send_turn(w, "new", "new", "ab", 2600);
	answer(w, "new", prefill_s(w, w->a.tokens));
}

/* It is too short for a session, and its server may have all of what the first one brought. */
static void the_same_again(struct world *w)
{
	w->q.load = SPAN(ONE);
	for (int i = 0; i < 2; i++) {
		send_turn(w, "same", "same", "a", WHOLE / 10);
		answer(w, "same", prefill_s(w, w->a.tokens));
	}
}

static void one_that_announces_much_more(struct world *w)
{
	trusted(w);
	send_turn(w, "turn", "talk", "abc", WHOLE * 3 / 2);
	answer(w, "turn", prefill_s(w, 1000));
}

static void one_of_a_session_that_is_elsewhere(struct world *w)
{
	trusted(w);
	w->q.load = SPAN("lb1/1;s2=1,0,0,1");
	send_turn(w, "turn", "talk", "abc", WHOLE + 1600);
	w->now += (msec)(1000 * prefill_s(w, 2000));
	tell_first(w, "turn", "s2", 200, STREAM);
}

/* All that it serves takes three times as long as it should. */
static void one_of_a_slow_server(struct world *w)
{
	char opening[] = LONG;

	w->q.load = SPAN(ONE);
	for (int i = 0; i < 26; i++) {
		opening[0] = (char)('a' + i);
		chat(&w->body, "\"model\":\"m\",", opening, "");
		send(w, "seen");
		answer(w, "seen", 3 * prefill_s(w, w->a.tokens));
	}
	send_turn(w, "new", "new", "abc", WHOLE / 10);
	answer(w, "new", 3 * prefill_s(w, w->a.tokens));
}

static void first_tokens_teach_if_their_time_is_known(void **state)
{
	static const struct {
		const char *name;
		void (*does)(struct world *w);
		uint64_t lessons;
	} cases[] = {
		{ "a turn", a_turn, 1 },
		{ "a new one", a_new_one, 1 },
		{ "another server", one_that_another_server_got, 0 },
		{ "shadow mode", one_in_shadow_mode, 0 },
		{ "too long", one_that_takes_too_long, 0 },
		{ "behind another", one_behind_another, 0 },
		{ "behind a stream", one_behind_a_stream, 1 },
		{ "mostly seen", one_that_is_mostly_seen, 0 },
		{ "short", one_that_is_short, 0 },
		{ "the same again", the_same_again, 1 },
		{ "much more", one_that_announces_much_more, 0 },
		{ "session elsewhere", one_of_a_session_that_is_elsewhere, 0 },
		{ "slow server", one_of_a_slow_server, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct world w;
		uint64_t n;

		world_start(&w);
		cases[i].does(&w);
		n = w.r->fleet.pools[0]->unseen.turn;
		if (n != cases[i].lessons)
			fail_msg("%s: %u lessons", cases[i].name, (unsigned)n);
		world_end(&w);
	}
}

/* Turns of sessions of <tenant>; nothing is cached, or all is. Returns the tokens that the next
 * turn of the first is expected to find. */
static uint64_t tenant_turns(struct world *w, const char *tenant, bool kept)
{
	char session[16];

	w->q.tenant = span_str(tenant);
	for (int64_t n = 0; n < 4; n++) {
		for (int i = 0; i < SESSIONS; i++) {
			snprintf(session, sizeof(session), "c%d", i);
			send_turn(w, "t", session, "abc", WHOLE + 400 * n);
			answer(w, "t", prefill_s(w, kept && n > 0 ? 1000 : w->a.tokens));
		}
	}
	send_turn(w, "last", "c0", "abc", WHOLE + 1600);
	tell_done(w, "last", "s1", 200, "--", 1);
	return w->a.hit_tokens;
}

static void a_tenant_teaches_itself_only(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN(ONE);
	assert_true(tenant_turns(&w, "liar", false) < WHOLE / 4 / 10);
	assert_true(pool(&w).unseen.kept_s > 0);
	route_tick(w.r, w.now + 24 * 3600000);
	assert_true(pool(&w).unseen.kept_s < 0);		/* it is old */
	route_tick(w.r, w.now);
	assert_true(tenant_turns(&w, "other", true) > WHOLE / 4 / 10 * 9);
	w.q.tenant = SPAN("liar");
	send_turn(&w, "last", "c0", "abc", WHOLE + 2000);
	assert_true(w.a.hit_tokens < WHOLE / 4 / 10);
	tell_done(&w, "last", "s1", 200, "--", 1);
	assert_true(tenant_turns(&w, "liar", false) < WHOLE / 4 / 10);
	w.q.tenant = SPAN("other");
	send_turn(&w, "last", "c0", "abc", WHOLE + 2000);	/* it is old by now */
	assert_true(w.a.hit_tokens > WHOLE / 4 / 2);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_late_turn_finds_what_late_turns_found),
		cmocka_unit_test(announced_lengths_count_if_they_come),
		cmocka_unit_test(first_tokens_teach_if_their_time_is_known),
		cmocka_unit_test(a_tenant_teaches_itself_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
