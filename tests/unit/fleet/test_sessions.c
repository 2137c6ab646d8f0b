/* test_sessions.c - what is known of sessions, and what is not believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/fleet/sessions.h"

#define BYTES	((size_t)1 << 20)

static const uint32_t depths[] = { 16, 32, 48, 64 };
static const uint64_t common[] = { 1ull << 40, 2ull << 40, 3ull << 40, 4ull << 40 };
static const uint64_t other[] = { 1ull << 40, 2ull << 40, 8ull << 40, 9ull << 40 };
static msec now = 1000000;

/* A cut prompt whose visible part is that of all sessions. */
static struct session_turn turn(uint64_t key, uint64_t tokens)
{
	return (struct session_turn){ .key = key, .tenant = 1, .kind = 5, .tokens = tokens, .cut = true,
		.n = 4, .depth = depths, .mark = common };
}

static struct session_view look(struct sessions *t, struct session_turn u)
{
	struct session_view v;

	sessions_look(t, &u, &v);
	return v;
}

static void serve(struct sessions *t, struct session_turn u, server_id to)
{
	sessions_sent(t, &u, to, false, 100000, now);
	sessions_ended(t, u.key, &(struct session_end){ .at = to, .answer = 100 }, now + 1000);
	now += 10000;
}

static uint64_t known(struct sessions *t)
{
	struct sessions_stats st;

	sessions_stats(t, &st);
	return st.sessions;
}

static void a_session_holds_its_last_turn(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_view v;

	(void)state;
	assert_non_null(t);
	assert_false(look(t, turn(7, 20000)).known);
	serve(t, turn(7, 20000), 3);
	v = look(t, turn(7, 21000));
	assert_true(v.known && v.trusted);
	assert_int_equal(v.tail[0].server, 3);
	assert_int_equal(v.held[0], 20100);
	assert_false(look(t, turn(8, 21000)).known);
	serve(t, turn(7, 21000), 4);			/* it moved: both are known */
	v = look(t, turn(7, 22000));
	assert_int_equal(v.tail[0].server, 4);
	assert_int_equal(v.held[0], 21100);
	assert_int_equal(v.tail[1].server, 3);
	assert_int_equal(v.held[1], 20100);
	sessions_free(t);
}

static void it_holds_nothing_before_it_was_served(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_turn u = turn(7, 20000);

	(void)state;
	sessions_sent(t, &u, 3, false, 1, now);
	assert_true(look(t, u).open);
	assert_false(look(t, u).trusted);
	sessions_ended(t, 7, &(struct session_end){ .at = SERVER_NONE }, now);
	assert_false(look(t, u).open);
	assert_false(look(t, u).trusted);
	sessions_free(t);
}

static void another_opening_is_not_taken_for_it(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_turn u = turn(7, 21000);

	(void)state;
	serve(t, turn(7, 20000), 3);
	u.mark = other;
	assert_false(look(t, u).trusted);
	u = turn(7, 5000);				/* much shorter */
	assert_false(look(t, u).trusted);
	u = turn(7, 21000);
	u.n = 3;					/* less is visible: the middle mark tells */
	assert_true(look(t, u).trusted);
	sessions_free(t);
}

static void a_server_that_is_gone_holds_nothing(void **state)
{
	struct sessions *t = sessions_new(BYTES);

	(void)state;
	serve(t, turn(7, 20000), 3);
	sessions_server_gone(t, 3);
	assert_false(look(t, turn(7, 21000)).trusted);
	sessions_free(t);
}

/* A session that comes late makes no promise, but its last turn is where it was. */
static void a_late_one_keeps_its_place(void **state)
{
	struct sessions *t = sessions_new(BYTES);

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		serve(t, turn(7, 20000 + 1000 * i), 3);
	assert_true(look(t, turn(7, 30000)).trusted);
	now += 100000;
	assert_true(look(t, turn(7, 30000)).trusted);
	now += 100000;
	sessions_age(t, 10, now);
	assert_true(sessions_promise(t, 3) == 0);
	assert_true(look(t, turn(7, 30000)).trusted);
	sessions_free(t);
}

/* The beginning of a cut prompt agrees with what was summarized, at another server, when it is as
 * long again. */
static void a_summary_ends_what_was_before(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_view v;

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		serve(t, turn(7, 80000 + 1000 * i), 3);
	for (unsigned i = 0; i < 10; i++)
		serve(t, turn(7, 20000 + 8000 * i), 4);
	v = look(t, turn(7, 100000));
	assert_true(v.trusted);
	assert_int_equal(v.tail[0].server, 4);
	assert_true(v.tail[1].server != 3 || v.held[1] == 0);
	sessions_free(t);
}

/* One shorter turn is a subagent's: its parent comes back. After the second one nothing does. */
static void one_shorter_turn_is_no_summary(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_view v;

	(void)state;
	for (unsigned i = 0; i < 16; i++)
		serve(t, turn(7, 80000 + 1000 * i), 3);
	serve(t, turn(7, 20000), 4);
	v = look(t, turn(7, 96000));
	assert_int_equal(v.tail[1].server, 3);
	assert_int_equal(v.held[1], 95100);
	serve(t, turn(7, 28000), 4);
	v = look(t, turn(7, 96000));
	assert_int_equal(v.held[0], 28100);
	assert_int_equal(v.tail[1].server, SERVER_NONE);
	sessions_free(t);
}

/* Clients shorten what tools said: most of the prompt is still there, up to that place. */
static void an_edited_turn_holds_most(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_view v;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		serve(t, turn(7, 80000 + 1000 * i), 3);
	for (unsigned i = 0; i < 4; i++) {		/* each of them leaves the trust as it was */
		v = look(t, turn(7, 83000 - 8000 * (i + 1)));
		assert_true(v.trusted);
		assert_int_equal(v.held[0], 83000 - 8000 * (i + 2));
		serve(t, turn(7, 83000 - 8000 * (i + 1)), 3);
	}
	assert_int_equal(look(t, turn(7, 60000)).tail[1].server, SERVER_NONE);
	assert_int_equal(look(t, turn(7, 30000)).held[0], 0);		/* a summary */
	sessions_free(t);
}

/* The length of a prompt that was cut in an image is not known. */
static void a_rough_estimate_is_no_summary(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_turn u = turn(7, 28000);

	(void)state;
	for (unsigned i = 0; i < 16; i++)
		serve(t, turn(7, 80000 + 1000 * i), 3);
	serve(t, turn(7, 20000), 4);
	u.rough = true;
	serve(t, u, 4);
	assert_int_equal(look(t, turn(7, 96000)).tail[1].server, 3);
	sessions_free(t);
}

/* One key with prompts of all lengths: in the long run few requests find it trusted. */
static void one_key_for_everything_is_not_trusted(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	unsigned trusted = 0, n = 0;
	uint64_t x = 1;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		struct session_turn u;

		x = x * 6364136223846793005u + 1442695040888963407u;
		u = turn(7, 5000 + (x >> 33) % 100000);
		if (i >= 20) {
			trusted += look(t, u).trusted;
			n++;
		}
		serve(t, u, (server_id)(x >> 50 & 3));
	}
	assert_true(trusted * 20 < n);
	sessions_free(t);
}

static void requests_at_the_same_time_are_not_trusted(void **state)
{
	struct sessions *t = sessions_new(BYTES);

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		struct session_turn u = turn(7, 20000 + 100 * i);

		assert_int_equal(look(t, u).trusted, false);
		sessions_sent(t, &u, 3, false, 1, now += 10);
		if (i > 0)
			sessions_ended(t, 7, &(struct session_end){ .at = 3 }, now);
	}
	sessions_ended(t, 7, &(struct session_end){ .at = 3 }, now);
	assert_false(look(t, turn(7, 30000)).trusted);
	sessions_free(t);
}

/* The same request decided again is no other turn. */
static void a_request_decided_again_is_one_turn(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_turn u = turn(7, 20000);

	(void)state;
	sessions_sent(t, &u, 3, false, 1, now);
	sessions_ended(t, 7, &(struct session_end){ .at = SERVER_NONE }, now);
	sessions_sent(t, &u, 4, true, 1, now);
	sessions_ended(t, 7, &(struct session_end){ .at = 4 }, now);
	assert_int_equal(look(t, u).turns, 1);
	assert_int_equal(look(t, turn(7, 21000)).tail[0].server, 4);
	sessions_free(t);
}

static const struct session_place here = { 5, 64, 1 }, there = { 6, 64, 1 };

/* A prompt that was seen whole: of the conversation <marks>. */
static struct session_turn whole(uint64_t tokens, const uint64_t *marks)
{
	struct session_turn u = turn(7, tokens);

	u.cut = false;
	u.mark = marks;
	return u;
}

static void serve_whole(struct sessions *t, struct session_turn u, server_id to,
    const struct session_place *place)
{
	sessions_sent(t, &u, to, false, 100000, now);
	sessions_placed(t, u.key, to, place);
	sessions_ended(t, u.key, &(struct session_end){ .at = to }, now + 1000);
	now += 10000;
}

static struct sessions *sure(unsigned turns)
{
	struct sessions *t = sessions_new(BYTES);

	for (unsigned i = 0; i < turns; i++) {
		assert_false(look(t, whole(20000 + 1000 * i, common)).shrank);
		serve_whole(t, whole(20000 + 1000 * i, common), 3, &here);
	}
	return t;
}

static void a_compaction_is_seen_once_it_is_sure(void **state)
{
	static const uint64_t edited[] = { 1ull << 40, 2ull << 40, 3ull << 40, 9ull << 40 };
	static const uint64_t compacted[] = { 1ull << 40, 8ull << 40, 7ull << 40, 6ull << 40 };
	struct sessions *t = sure(6), *unsure = sure(2);
	struct session_turn u = whole(4000, compacted);

	(void)state;
	u.n = 2;
	assert_true(look(t, u).shrank);
	assert_int_equal(look(t, u).tail[0].place.node, here.node);
	assert_false(look(unsure, u).shrank);
	assert_false(look(t, whole(25500, edited)).shrank);		/* near its end only */
	assert_true(look(t, whole(25500, compacted)).shrank);
	assert_true(look(t, whole(12000, common)).shrank);
	u.cut = true;
	assert_false(look(t, u).shrank);
	sessions_free(t);
	sessions_free(unsure);
}

/* A subagent under the same name looks like a compaction. Its parent comes back. */
static void an_old_path_that_comes_back_is_known(void **state)
{
	static const uint64_t sub[] = { 1ull << 40, 8ull << 40, 7ull << 40, 6ull << 40 };
	struct sessions *t = sure(8);
	struct session_view v;

	(void)state;
	assert_true(look(t, whole(5000, sub)).shrank);
	serve_whole(t, whole(5000, sub), 4, &there);
	sessions_let_go(t, 7, &here, now);
	assert_false(look(t, whole(6000, sub)).shrank);
	v = look(t, whole(28000, common));
	assert_false(v.shrank);
	assert_int_equal(v.tail[1].server, 3);
	assert_int_equal(v.tail[1].let_go, now);
	assert_int_equal(v.proven[1], 64);
	assert_int_equal(v.proven[0], 0);
	serve_whole(t, whole(6000, sub), 4, &there);
	v = look(t, whole(28000, common));
	assert_int_equal(v.proven[1], 64);
	serve_whole(t, whole(28000, common), 3, &here);		/* it is continued: no old path any more */
	v = look(t, whole(29000, common));
	assert_int_equal(v.tail[0].server, 3);
	assert_int_equal(v.tail[0].let_go, 0);
	assert_int_equal(v.tail[2].server, SERVER_NONE);
	sessions_server_gone(t, 3);
	v = look(t, whole(29000, common));
	assert_int_equal(v.proven[0], 0);
	sessions_free(t);
}

/* Reasoning of an answer is not sent again. */
static void an_answer_that_does_not_come_back_is_not_held(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_turn u = turn(7, 20000);

	(void)state;
	sessions_sent(t, &u, 3, false, 1, now);
	sessions_ended(t, 7, &(struct session_end){ .at = 3, .answer = 9000 }, now);
	assert_int_equal(look(t, turn(7, 30000)).held[0], 29000);
	assert_int_equal(look(t, turn(7, 21000)).held[0], 20000);
	assert_true(look(t, turn(7, 20000)).trusted);
	sessions_free(t);
}

static void promises_are_learned_and_decay(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	double busy;

	(void)state;
	serve(t, turn(7, 20000), 3);
	assert_true(sessions_promise(t, 3) == 0);		/* no session had a second turn */
	for (unsigned i = 1; i < 10; i++)
		serve(t, turn(7, 20000 + 1000 * i), 3);
	assert_true(sessions_turns_left(t, 5) > 8.9 && sessions_turns_left(t, 5) < 9.1);
	assert_true(sessions_turns_left(t, 6) == 0);
	busy = sessions_promise(t, 3);
	assert_true(busy > 0.008 && busy < 0.01);		/* 0.9 x 0.1 s of 10 s */
	assert_true(sessions_promise(t, 4) == 0);
	now += 15000;
	sessions_age(t, 100, now);
	assert_true(sessions_promise(t, 3) < 0.6 * busy && sessions_promise(t, 3) > 0);
	now += 160000;
	sessions_age(t, 100, now);
	assert_true(sessions_promise(t, 3) == 0);
	serve(t, turn(7, 30000), 4);				/* elsewhere from now on */
	assert_true(sessions_promise(t, 3) == 0 && sessions_promise(t, 4) > 0);
	sessions_free(t);
}

/* Slices of one body, each decided anew, leave no tail of their own. */
static void slices_are_one_tail(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_turn u = turn(7, 22000);
	struct session_view v;

	(void)state;
	serve(t, turn(7, 20000), 3);
	for (server_id to = 4; to < 7; to++) {
		sessions_sent(t, &u, to, to > 4, 1, now);
		v = look(t, u);
		assert_int_equal(v.tail[0].server, 3);		/* served; the others are not over */
		assert_true(v.tail[0].done);
		if (to < 6)
			sessions_ended(t, 7, &(struct session_end){ .at = SERVER_NONE }, now);
	}
	sessions_ended(t, 7, &(struct session_end){ .at = 6 }, now);
	v = look(t, turn(7, 24000));
	assert_int_equal(v.tail[0].server, 6);
	assert_int_equal(v.tail[1].server, 3);
	assert_int_equal(v.turns, 2);
	sessions_free(t);
}

/* Nor do they push out the earlier ones. */
static void slices_keep_the_earlier_tails(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_turn u = turn(7, 24000);
	struct session_view v;

	(void)state;
	serve(t, turn(7, 20000), 3);
	serve(t, turn(7, 22000), 4);
	for (unsigned i = 0; i < 4; i++) {
		sessions_sent(t, &u, 5, i > 0, 1, now);
		if (i < 3)
			sessions_ended(t, 7, &(struct session_end){ .at = SERVER_NONE }, now);
	}
	sessions_ended(t, 7, &(struct session_end){ .at = 5 }, now);
	v = look(t, turn(7, 26000));
	assert_int_equal(v.tail[0].server, 5);
	assert_int_equal(v.tail[1].server, 4);
	assert_int_equal(v.tail[2].server, 3);
	sessions_free(t);
}

/* A turn that failed leaves none either. */
static void a_failed_turn_is_no_tail(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_turn u = turn(7, 22000);
	struct session_view v;

	(void)state;
	serve(t, turn(7, 20000), 3);
	sessions_sent(t, &u, 4, false, 1, now);
	sessions_ended(t, 7, &(struct session_end){ .at = SERVER_NONE }, now);
	v = look(t, u);
	assert_int_equal(v.tail[0].server, 3);
	assert_true(v.held[0] > 0);
	serve(t, u, 5);
	v = look(t, turn(7, 24000));
	assert_int_equal(v.tail[0].server, 5);
	assert_int_equal(v.tail[1].server, 3);
	sessions_free(t);
}

/* Of two open requests of one session, the end of the first does not end the tail of the second. */
static void an_end_among_several_is_nobodys_tail(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_turn a = turn(7, 20000), b = turn(7, 30000);
	struct session_view v;

	(void)state;
	sessions_sent(t, &a, 3, false, 1, now);
	sessions_sent(t, &b, 4, false, 1, now);
	sessions_ended(t, 7, &(struct session_end){ .at = 3, .answer = 5000 }, now);
	v = look(t, turn(7, 31000));
	assert_int_equal(v.tail[0].server, 4);
	assert_false(v.tail[0].done);
	assert_int_equal(v.tail[0].tokens, 30000);
	sessions_ended(t, 7, &(struct session_end){ .at = 4, .answer = 100 }, now);
	v = look(t, turn(7, 31000));
	assert_int_equal(v.tail[0].server, 4);
	assert_true(v.tail[0].done);
	assert_int_equal(v.tail[0].answer, 100);
	sessions_free(t);
}

/* Two kinds of one place: a session of the first does not teach the second. */
/* What a turn left can be counted once the next one was sent elsewhere, but not there. */
static void hidden_tokens_are_of_the_turn_that_left_them(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_view v;
	msec end;

	(void)state;
	serve(t, turn(7, 20000), 3);
	end = now - 9000;
	assert_false(sessions_counted(t, 7, 3, end + 1, 500, now));
	assert_false(sessions_counted(t, 7, 4, end, 500, now));
	assert_false(sessions_counted(t, 8, 3, end, 500, now));
	assert_true(sessions_counted(t, 7, 3, end, 500, now));
	assert_int_equal(look(t, turn(7, 21000)).tail[0].hidden, 500);
	end = now;
	serve(t, turn(7, 21000), 4);
	assert_true(sessions_counted(t, 7, 3, end, 600, now));
	v = look(t, turn(7, 22000));
	assert_int_equal(v.tail[0].hidden, 0);
	assert_int_equal(v.tail[1].hidden, 600);
	end = now;
	serve(t, turn(7, 22000), 3);
	assert_false(sessions_counted(t, 7, 3, end, 700, now));
	assert_int_equal(look(t, turn(7, 23000)).tail[0].hidden, 0);
	sessions_free(t);
}

static void a_kind_learns_from_its_own_sessions(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct session_turn second = turn(8, 20000);

	(void)state;
	serve(t, turn(7, 20000), 3);
	serve(t, turn(7, 21000), 3);
	assert_true(sessions_turns_left(t, 5) > 0);
	second.kind = 5 + 64;
	serve(t, second, 3);
	assert_true(sessions_turns_left(t, 5) == 0);
	assert_true(sessions_turns_left(t, 5 + 64) == 0);
	for (unsigned i = 2; i < 10; i++)
		serve(t, turn(7, 20000 + 1000 * i), 3);
	assert_true(sessions_turns_left(t, 5 + 64) == 0);
	second.tokens = 21000;
	serve(t, second, 3);
	assert_true(sessions_turns_left(t, 5 + 64) > 0.9 && sessions_turns_left(t, 5 + 64) < 1.1);
	sessions_free(t);
}

static void the_table_is_bounded_and_tenants_keep_some(void **state)
{
	struct sessions *t = sessions_new(BYTES);
	struct sessions_stats st;
	struct session_turn u;

	(void)state;
	for (uint64_t i = 0; i < 20; i++)
		serve(t, turn(100000 + i, 20000), 3);
	for (uint64_t i = 0; i < 60000; i++) {
		u = turn(1 + i, 20000);
		u.tenant = 2;
		if (i < 50000) {
			sessions_sent(t, &u, 3, false, 1, now);
			sessions_ended(t, u.key, &(struct session_end){ .at = 3 }, now++);
		}
	}
	sessions_stats(t, &st);
	assert_int_equal(st.sessions, st.max_sessions);
	assert_true(st.evicted > 40000 && st.max_sessions * sizeof(struct session_tail) < BYTES);
	assert_true(known(t) < 20000);
	assert_true(look(t, turn(50000, 20000)).known);
	assert_false(look(t, turn(1, 20000)).known);
	sessions_free(t);
	assert_null(sessions_new(SESSIONS_LEAST - 1));
}

static void without_a_table_nothing_is_known(void **state)
{
	struct session_turn u = turn(7, 20000);

	(void)state;
	assert_false(look(NULL, u).known);
	sessions_sent(NULL, &u, 3, false, 1, now);
	sessions_ended(NULL, 7, &(struct session_end){ .at = 3 }, now);
	sessions_age(NULL, 10, now);
	sessions_server_gone(NULL, 3);
	assert_true(sessions_promise(NULL, 3) == 0);
	sessions_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_holds_its_last_turn),
		cmocka_unit_test(it_holds_nothing_before_it_was_served),
		cmocka_unit_test(another_opening_is_not_taken_for_it),
		cmocka_unit_test(a_server_that_is_gone_holds_nothing),
		cmocka_unit_test(a_late_one_keeps_its_place),
		cmocka_unit_test(a_summary_ends_what_was_before),
		cmocka_unit_test(one_shorter_turn_is_no_summary),
		cmocka_unit_test(an_edited_turn_holds_most),
		cmocka_unit_test(a_rough_estimate_is_no_summary),
		cmocka_unit_test(one_key_for_everything_is_not_trusted),
		cmocka_unit_test(requests_at_the_same_time_are_not_trusted),
		cmocka_unit_test(a_request_decided_again_is_one_turn),
		cmocka_unit_test(a_compaction_is_seen_once_it_is_sure),
		cmocka_unit_test(an_old_path_that_comes_back_is_known),
		cmocka_unit_test(an_answer_that_does_not_come_back_is_not_held),
		cmocka_unit_test(promises_are_learned_and_decay),
		cmocka_unit_test(slices_are_one_tail),
		cmocka_unit_test(slices_keep_the_earlier_tails),
		cmocka_unit_test(a_failed_turn_is_no_tail),
		cmocka_unit_test(an_end_among_several_is_nobodys_tail),
		cmocka_unit_test(hidden_tokens_are_of_the_turn_that_left_them),
		cmocka_unit_test(a_kind_learns_from_its_own_sessions),
		cmocka_unit_test(the_table_is_bounded_and_tenants_keep_some),
		cmocka_unit_test(without_a_table_nothing_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
