/* test_finish.c - what is left of a decision after its ACK: it is done by serve_finish(), or before
 * the next message of the thread is handled. */
#include "tests/unit/serve/peer.h"

/* Let serve read all bytes written, as a connection does before it sends the answers. */
static void feed(struct peer *p)
{
	assert_int_equal(serve_feed(&p->serve, p->in.p, p->in.n, &p->out), p->in.n);
}

static struct decision record_of(struct world *w, const char *uid)
{
	struct decision x;

	if (!decisions_find(w->r->decisions, route_uid_hash(w->r, span_str(uid)), &x))
		fail_msg("no record of %s", uid);
	return x;
}

/* Return the tokens that any server was expected to have of <uid>. It may go to another one, which
 * has nothing to do. */
static uint32_t most_cached(struct world *w, const char *uid)
{
	struct decision x = record_of(w, uid);
	uint32_t most = 0;

	for (uint32_t i = 0; i < x.n_kept; i++)
		most = x.candidate[i].cached > most ? x.candidate[i].cached : most;
	return most;
}

static void the_ack_comes_first(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	p.step = 3;
	notify_route(&p, 1, "u", "ab");
	feed(&p);
	assert_true(answered(&p, "txn.server=\"s1\""));
	assert_int_equal(stats(&w).open, 1);		/* the load is known at once */
	assert_int_equal(stats(&w).index.claims, 0);
	assert_int_equal(p.count.us_count, 0);
	serve_finish(&p.env);
	assert_int_equal(stats(&w).index.claims, 1);
	assert_int_equal(p.count.us_count, 1);
	assert_int_equal(p.count.us_sum, 3 + 3);
	assert_int_equal(record_of(&w, "u").us, 3 + 3);
	serve_finish(&p.env);
	assert_int_equal(stats(&w).index.claims, 1);
	assert_int_equal(p.count.us_count, 1);
	peer_end(&p);
	world_end(&w);
}

/* Two equal prompts in one read: the second finds the pages of the first, and only it is left to be
 * finished. */
static void frames_of_one_read_have_an_order(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	notify_route(&p, 1, "u", "ab");
	notify_route(&p, 2, "v", "ab");
	feed(&p);
	assert_int_equal(count_acks(&p), 2);
	assert_int_equal(p.count.us_count, 1);
	assert_int_equal(stats(&w).index.claims, 1);
	serve_finish(&p.env);
	assert_int_equal(p.count.us_count, 2);
	assert_int_equal(stats(&w).index.claims, 2);
	assert_int_equal(most_cached(&w, "u"), 0);
	assert_int_equal(most_cached(&w, "v"), 320);
	peer_end(&p);
	world_end(&w);
}

/* The same with two messages in one NOTIFY. */
static void messages_of_one_frame_have_an_order(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	chat(&w.body, "", "ab", ",\"model\":\"m\"");
	notify_begin(&p, 1, 1);
	message_route(&p, "u", span_of(w.body.p, w.body.n));
	message_route(&p, "v", span_of(w.body.p, w.body.n));
	message_done(&p, "v", "s1", 200);
	frame_end(&p);
	feed(&p);
	assert_int_equal(count_acks(&p), 1);
	assert_int_equal(stats(&w).open, 1);
	assert_int_equal(most_cached(&w, "v"), 320);
	assert_int_equal(record_of(&w, "v").status, 200);
	serve_finish(&p.env);
	assert_int_equal(p.count.us_count, 1);
	peer_end(&p);
	world_end(&w);
}

static void a_fact_in_the_same_read(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	notify_route(&p, 1, "u", "ab");
	notify_done(&p, 1, "u", "s1", 200);
	feed(&p);
	assert_int_equal(count_acks(&p), 2);
	assert_int_equal(p.count.us_count, 1);
	assert_int_equal(stats(&w).open, 0);
	assert_int_equal(stats(&w).index.claims, 0);
	assert_true(stats(&w).index.pages > 0);
	assert_int_equal(record_of(&w, "u").status, 200);
	peer_end(&p);
	world_end(&w);
}

/* Bytes that begin another frame wait; the decision before them may be finished or not. */
static void a_part_of_a_frame_follows(void **state)
{
	struct world w;
	struct peer p;
	size_t n, whole;

	(void)state;
	for (n = 1; n < 30; n++) {
		world_start(&w);
		peer_hello(&p, &w, 16380);
		notify_route(&p, 1, "u", "ab");
		whole = p.in.n;
		notify_route(&p, 2, "v", "ab");
		assert_int_equal(serve_feed(&p.serve, p.in.p, whole + n, &p.out), whole);
		assert_int_equal(count_acks(&p), 1);
		serve_finish(&p.env);
		assert_int_equal(p.count.us_count, 1);
		assert_int_equal(stats(&w).index.claims, 1);
		peer_end(&p);
		world_end(&w);
	}
}

/* The bytes of a joined NOTIFY are freed when the next frame is read, so nothing is left to do. */
static void fragments_leave_nothing(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	chat(&w.body, "", "ab", ",\"model\":\"m\"");
	frame_begin(&p, "03 00000000");
	frame_hex(&p, "05 01");
	message(&p, "route");
	arg_str(&p, "uid", SPAN("u"));
	arg_str(&p, "pool", SPAN("pool"));
	arg_str(&p, "load", w.q.load);
	arg_str(&p, "path", w.q.path);
	arg_str(&p, "body", span_of(w.body.p, w.body.n));
	frame_end(&p);
	frame_begin(&p, "00 00000001");
	frame_hex(&p, "05 01");
	frame_end(&p);
	feed(&p);
	assert_true(answered(&p, "txn.server"));
	assert_int_equal(p.count.us_count, 1);
	assert_int_equal(stats(&w).index.claims, 1);
	peer_end(&p);
	world_end(&w);
}

/* The end of a connection finishes its decision: peer_end() frees the bytes of the body. */
static void the_end_of_the_connection(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	notify_route(&p, 1, "u", "ab");
	feed(&p);
	serve_stop(&p.serve, SPOP_STATUS_NORMAL, &p.out);
	assert_true(answered(&p, "AGENT-DISCONNECT"));
	assert_int_equal(stats(&w).index.claims, 0);
	peer_end(&p);
	assert_int_equal(stats(&w).index.claims, 1);
	assert_string_equal(record_of(&w, "u").uid, "u");
	world_end(&w);
}

/* An answer without a decision has a time, and no record. */
static void declined(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	p.step = 3;
	notify_route(&p, 1, "u", "ab");
	deliver(&p);
	p.wait = SERVE_LATE;
	p.step = 50;
	notify_route(&p, 2, "v", "ab");
	deliver(&p);
	assert_int_equal(p.count.us_count, 2);
	assert_int_equal(record_of(&w, "u").us, 3 + 3);
	peer_end(&p);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_ack_comes_first),
		cmocka_unit_test(frames_of_one_read_have_an_order),
		cmocka_unit_test(messages_of_one_frame_have_an_order),
		cmocka_unit_test(a_fact_in_the_same_read),
		cmocka_unit_test(a_part_of_a_frame_follows),
		cmocka_unit_test(fragments_leave_nothing),
		cmocka_unit_test(the_end_of_the_connection),
		cmocka_unit_test(declined),
	};

	return cmocka_run_group_tests_name("serve finish", tests, NULL, NULL);
}
