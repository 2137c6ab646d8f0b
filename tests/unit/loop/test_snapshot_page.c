/* test_snapshot_page.c - the page of sessions that a sibling reads. */
#include "agent/base/mem.h"
#include "agent/loop/snapshot_page_in.h"

#define send	world_send	/* the one of sockets is declared above */
#include "tests/unit/route/world.h"

#define PROOF	0x0123456789abcdefu
#define QUERY	SPAN("proof=0123456789abcdef")

static void turns(struct world *w)
{
	chat(&w->body, "\"model\":\"m\",", "abc", "");
	w->q.session = SPAN("one");
	for (unsigned i = 0; i < 2; i++) {
		send_body(w, i ? "t1" : "t0", span_of(w->body.p, w->body.n));
		tell_done(w, i ? "t1" : "t0", "s1", 200, "--", 100);
		w->now += 2000;
	}
}

/* Return when the session of the page was seen, by the clock of a router that loads it at <now>. */
static msec read_at(struct buf *b, msec now)
{
	const struct route_saved from = {
		.bytes = (const uint8_t *)b->p, .n = b->n, .theirs = true, .now = now,
	};
	struct session_saved s;
	struct err e = { 0 };
	struct world w;
	uint32_t first = 0;

	world_start(&w);
	assert_int_equal(route_restore_sessions(w.r, &from, &e), b->n);
	assert_int_equal(sessions_read(w.r->sessions, &first, &s, 1), 1);
	world_end(&w);
	return s.seen;
}

/* Return the sessions, as the sibling gets them. */
static struct buf page(struct world *w, msec now)
{
	struct sibling_reader s = { .serves = true, .proof = PROOF };
	struct snapshot_page *p = NULL;
	struct buf out = { 0 };

	assert_int_equal(snapshot_page_begin(&p, &s, w->r, true, QUERY, now, &out), 200);
	assert_int_equal(snapshot_page_step(p), 1);
	snapshot_page_free(p);
	return out;
}

/* The router may have another clock than the process: the time that messages say. */
static void ages_are_by_the_clock_of_the_router(void **state)
{
	struct session_saved s;
	struct world w;
	struct buf b;
	uint32_t from = 0;

	(void)state;
	world_start(&w);
	turns(&w);
	assert_int_equal(sessions_read(w.r->sessions, &from, &s, 1), 1);
	b = page(&w, w.now + 5000);
	assert_int_equal(read_at(&b, w.now + 5000), s.seen);
	buf_free(&b);
	world_end(&w);
}

static void only_for_who_has_the_key(void **state)
{
	struct sibling_reader s = { .serves = true, .proof = PROOF };
	struct snapshot_page *p = NULL;
	struct buf out = { 0 };
	struct world w;

	(void)state;
	world_start(&w);
	assert_int_equal(
	    snapshot_page_begin(&p, &s, w.r, true, SPAN("proof=0123456789abcdee"), w.now, &out), 403);
	assert_int_equal(snapshot_page_begin(&p, &s, w.r, true, SPAN(""), w.now, &out), 403);
	s.serves = false;
	assert_int_equal(snapshot_page_begin(&p, &s, w.r, true, QUERY, w.now, &out), 404);
	assert_null(p);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ages_are_by_the_clock_of_the_router),
		cmocka_unit_test(only_for_who_has_the_key),
	};

	return cmocka_run_group_tests_name("snapshot page", tests, NULL, NULL);
}
