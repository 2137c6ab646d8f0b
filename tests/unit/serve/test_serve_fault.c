/* test_serve_fault.c - each allocation of a connection fails once, in turn: every NOTIFY gets its
 * ACK, nothing leaks, and no null pointer is used. */
#include "tests/unit/fault.h"
#include "tests/unit/serve/peer.h"
#include "tests/lib/index/index_test.h"

/* All state of the test, so that the test itself allocates nothing while allocations fail. */
struct stage {
	struct world w;
	struct peer p;
	unsigned sent;
};

static void write_story(struct stage *g)
{
	struct peer *p = &g->p;
	struct span b;

	say_hello(p, 16380);
	notify_route(p, 1, "a", "ab");
	notify_route(p, 2, "b", "cd");
	notify_first(p, 1, "a", "s3", 200);		/* not the server that was set */
	notify_done(p, 1, "a", "s3", 200);
	notify_route(p, 3, "c", "abef");
	notify_done(p, 2, "b", "s2", 503);
	chat(&g->w.body, "", "abef", ",\"model\":\"m\"");
	b = span_of(g->w.body.p, g->w.body.n);
	notify_begin(p, 4, 1);
	message_route(p, "d", span_of(b.p, 1000));	/* in slices */
	arg_int(p, "blen", (int64_t)b.n);
	arg_int(p, "seq", 0);
	frame_end(p);
	notify_begin(p, 4, 2);
	message(p, "route-1");
	arg_str(p, "uid", SPAN("d"));
	arg_bin(p, "body", span_of(b.p + 1000, b.n - 1000));
	frame_end(p);
	notify_begin(p, 5, 1);
	message_route(p, "e", span_of(b.p, 2000));	/* a cut body: its head may be remembered */
	frame_end(p);
	g->sent = 9;
	frame_begin(p, "03 00000000 06 01");		/* a NOTIFY in fragments */
	frame_hex(p, "04 \"done\" 00");
	frame_end(p);
	frame_begin(p, "00 00000001 06 01");
	frame_hex(p, "05 \"route\" 00");
	frame_end(p);
	g->sent++;
}

/* Run the story with allocation <k> failed; 0: none. Returns true if the failure was reached. */
static bool run(struct stage *g, unsigned long k, bool from_birth)
{
	struct hash_key key = test_key();
	bool met;

	world_options(&g->w);
	if (from_birth)
		fault_begin(k);
	g->w.r = route_new(&g->w.o, &key, 0);
	g->w.s = g->w.r ? route_scratch_new(g->w.r) : NULL;
	met = fault_end();
	if (g->w.s != NULL && !(from_birth && met)) {
		peer_connect(&g->p, &g->w);
		write_story(g);
		if (!from_birth)
			fault_begin(k);
		deliver(&g->p);
		route_tick(g->w.r, g->w.now);
		if (!from_birth)
			met = fault_end();
		assert_int_equal(count_acks(&g->p), g->sent);
		assert_int_equal(g->p.count.notifies, g->sent);
		assert_false(g->p.serve.closing);
		assert_null(index_check(g->w.r->index));
		peer_end(&g->p);
	} else {
		assert_true(from_birth);
	}
	route_scratch_free(g->w.s);
	route_free(g->w.r);
	return met;
}

static void each_failed_once(bool from_birth)
{
	struct stage *g = malloc(sizeof(*g));
	unsigned long k;

	assert_non_null(g);
	for (k = 1; run(g, k, from_birth); k++)
		;
	print_message("%lu allocations\n", k - 1);
	assert_true(k > 5);
	free(g);
}

static void without_failures(void **state)
{
	struct stage *g = malloc(sizeof(*g));

	(void)state;
	assert_false(run(g, 0, false));
	free(g);
}

static void failures_at_start(void **state)
{
	(void)state;
	each_failed_once(true);
}

static void failures_while_serving(void **state)
{
	(void)state;
	each_failed_once(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_failures),
		cmocka_unit_test(failures_at_start),
		cmocka_unit_test(failures_while_serving),
	};

	return cmocka_run_group_tests_name("serve fault", tests, NULL, NULL);
}
