/* test_sessions_save.c - sessions and stored responses over a restart, whole, damaged and cut. */
#include "tests/unit/route/world.h"

#include "agent/base/buf.h"
#include "agent/base/sections.h"

#define HEAD	56u
#define WALL	1700000000000

static int put(void *arg, const void *p, size_t n)
{
	buf_add(arg, p, n);
	return 0;
}

static int put_nothing(void *arg, const void *p, size_t n)
{
	(void)arg;
	(void)p;
	return n > 0 ? -1 : 0;
}

static bool theirs;
static char why[ERR_TEXT_MAX];

static size_t load(struct world *w, const void *p, size_t n, int64_t wall_ms)
{
	const struct route_saved from = {
		.bytes = p, .n = n, .theirs = theirs, .now = w->now, .wall_ms = wall_ms,
	};
	struct err e = { 0 };
	size_t used = route_restore_sessions(w->r, &from, &e);

	memcpy(why, e.text, sizeof(why));
	return used;
}

/* Send a turn of <session>, of which the first part is visible and <whole> bytes exist. */
static void turn(struct world *w, const char *session, const char *load, int64_t whole)
{
	static unsigned n;
	char uid[16], srv[SERVER_NAME_MAX + 1];

	snprintf(uid, sizeof(uid), "t%u", n++);
	chat(&w->body, "\"model\":\"m\",", "abc", "");
	w->q.session = span_str(session);
	w->q.load = span_str(load);
	w->q.visible = (int64_t)w->body.n - 40;
	w->q.whole = whole;
	send_body(w, uid, span_of(w->body.p, w->body.n - 40));
	snprintf(srv, sizeof(srv), SPAN_FMT, SPAN_ARG(w->a.server));
	tell_done(w, uid, srv, 200, "--", 100);
	w->now += 2000;
}

static void respond(struct world *w)
{
	struct fact f = served_fact("r");

	w->q.path = SPAN("/v1/responses");
	w->body.n = 0;
	say(&w->body, "{\"model\":\"m\",\"input\":\"hello\"}");
	w->q.load = SPAN("lb1/1;s3=1,0,0,1");
	send(w, "r");
	f.server = SPAN("s3");
	f.response = SPAN("resp_1");
	route_learn(w->r, &f, w->now);
	w->q.path = SPAN("/v1/chat/completions");
}

/* Six sessions of several turns, at two servers in turn, and a response. */
static struct buf saved(void)
{
	static const char *const name[] = { "one", "two", "three", "four", "five", "six" };
	struct buf b = { 0 };
	struct world w;

	world_start(&w);
	for (unsigned k = 0; k < 4; k++)
		for (unsigned i = 0; i < 6; i++)
			turn(&w, name[i], i % 2 ? "lb1/1;s2=1,0,0,1" : "lb1/1;s4=1,0,0,1", 200000 + 4000 * k);
	respond(&w);
	assert_int_equal(route_save_sessions(w.r, w.now, WALL, put_nothing, NULL), -1);
	assert_int_equal(route_save_sessions(w.r, w.now, WALL, put, &b), 0);
	assert_in_range(b.n, 1, route_sessions_bytes_most(&w.o));
	world_end(&w);
	return b;
}

static void they_come_back(void **state)
{
	static const char *const each[] = { "lb1/1;s1=1,0,0,1", "lb1/1;s2=1,0,0,1",
		"lb1/1;s3=1,0,0,1", "lb1/1;s4=1,0,0,1" };
	struct buf b = saved();
	struct world w;

	(void)state;
	world_start(&w);
	for (unsigned i = 0; i < 4; i++)		/* another order of numbers; all hold what is visible */
		turn(&w, "", each[i], 0);
	assert_int_equal(load(&w, b.p, b.n, WALL), b.n);
	assert_int_equal(stats(&w).sessions.sessions, 6);
	assert_int_equal(stats(&w).responses, 1);
	assert_true(sessions_promise(w.r->sessions, server(&w, "s2").v.id) > 0);
	for (unsigned i = 0; i < 2; i++) {
		turn(&w, i ? "five" : "two", IDLE4, 216000);
		assert_span(w.a.server, i ? "s4" : "s2");
		assert_true(w.a.hit_tokens > w.a.tokens * 9 / 10);
	}
	w.q.path = SPAN("/v1/responses");
	w.body.n = 0;
	say(&w.body, "{\"model\":\"m\",\"input\":\"hi\",\"previous_response_id\":\"resp_1\"}");
	send(&w, "p");
	assert_span(w.a.server, "s3");
	assert_int_equal(load(&w, b.p, b.n, WALL), b.n);
	assert_int_equal(stats(&w).sessions.sessions, 6);		/* twice changes nothing */
	world_end(&w);
	buf_free(&b);
}

/* Return the server of each session's last turn. */
static void homes(const struct world *w, server_id at[6], msec seen[6])
{
	struct session_saved s[6];
	uint32_t from = 0;

	assert_int_equal(sessions_read(w->r->sessions, &from, s, 6), 6);
	for (unsigned i = 0; i < 6; i++) {
		at[i] = s[i].tail[0].server;
		seen[i] = s[i].seen;
	}
}

/* A sibling's come again and again: the later turn counts, here or there. A server that the index
 * of the sibling did not name is not added. */
static void a_siblings_sessions_are_as_new_as_both_know(void **state)
{
	struct buf b = saved();
	server_id at[6], now[6];
	msec seen[6], then[6];
	struct world w;

	(void)state;
	theirs = true;
	world_start(&w);
	assert_int_equal(load(&w, b.p, b.n, WALL), b.n);
	assert_string_equal(why, "");
	assert_false(server(&w, "s2").found);
	homes(&w, at, seen);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(at[i], SERVER_NONE);
	turn(&w, "", IDLE4, 0);
	w.now -= 2000;
	assert_int_equal(load(&w, b.p, b.n, WALL), b.n);	/* no later turn: nothing changes */
	homes(&w, at, seen);
	assert_int_equal(at[0], SERVER_NONE);
	w.now += 10000;
	assert_int_equal(load(&w, b.p, b.n, WALL), b.n);	/* as if the turns were later */
	homes(&w, at, then);
	for (unsigned i = 0; i < 6; i++) {
		assert_true(then[i] > seen[i] + 9000);
		assert_int_equal(at[i], server(&w, i % 2 ? "s2" : "s4").v.id);
	}
	w.now += 10000;
	turn(&w, "one", "lb1/1;s1=1,0,0,1", 220000);		/* a turn here is later than theirs */
	homes(&w, at, seen);
	w.now -= 12000;
	assert_int_equal(load(&w, b.p, b.n, WALL), b.n);
	homes(&w, now, then);
	assert_memory_equal(at, now, sizeof(at));
	assert_memory_equal(seen, then, sizeof(seen));
	theirs = false;
	world_end(&w);
	buf_free(&b);
}

static void another_format_is_told(void **state)
{
	struct buf b = saved();
	struct world w;

	(void)state;
	world_start(&w);
	b.p[8]++;
	assert_int_equal(load(&w, b.p, b.n, WALL), b.n);
	assert_string_equal(why, "their format is 2, this version reads format 1");
	assert_int_equal(stats(&w).sessions.sessions, 0);
	world_end(&w);
	buf_free(&b);
}

/* Each byte changed in turn, also with a right checksum, and each length. */
static void damaged(void **state)
{
	struct buf b = saved();
	uint8_t *p = malloc(b.n);
	struct world w;

	(void)state;
	assert_non_null(p);
	world_start(&w);
	for (size_t n = 0; n < b.n; n += n < 64 ? 1 : 37)
		assert_int_equal(load(&w, b.p, n, WALL), 0);
	for (size_t i = 0; i < b.n; i++) {
		memcpy(p, b.p, b.n);
		p[i] ^= (uint8_t)(1u << i % 8);
		assert_true(load(&w, p, b.n, WALL) <= b.n);
	}
	for (size_t i = 24; i < b.n; i++) {
		memcpy(p, b.p, b.n);
		p[i] ^= (uint8_t)(i % 3 ? 0xff : 1u << i % 8);
		if (i < 40 || i >= 48)
			put64(p + 40, checksum(p + HEAD, b.n - HEAD));
		assert_true(load(&w, p, b.n, WALL) <= b.n);
	}
	sessions_age(w.r->sessions, 10000, w.now + 100000);
	free(p);
	buf_free(&b);
	world_end(&w);
}

/* A count that is too high or too low, and the right checksum: not even the names are known. */
static void what_is_damaged_changes_nothing(void **state)
{
	struct buf b = saved();
	uint8_t *p = (uint8_t *)b.p;
	struct world w;

	(void)state;
	world_start(&w);
	for (size_t i = 24; i < 40; i += 4) {
		for (uint32_t add = 1; add != UINT32_MAX - 1; add = add == 1 ? UINT32_MAX : UINT32_MAX - 1) {
			uint32_t n = get32(p + i);

			put32(p + i, n + add);
			assert_int_equal(load(&w, p, b.n, WALL), b.n);
			assert_int_equal(stats(&w).sessions.sessions, 0);
			assert_int_equal(stats(&w).responses, 0);
			assert_false(server(&w, "s2").found);
			put32(p + i, n);
		}
	}
	assert_int_equal(load(&w, p, b.n, WALL), b.n);
	assert_int_equal(stats(&w).sessions.sessions, 6);
	buf_free(&b);
	world_end(&w);
}

/* Return when session number 1 had its last turn, if <wall> was the clock at the restart. */
static msec last_turn(const struct buf *b, int64_t wall)
{
	struct session_saved s;
	struct world w;
	uint32_t from = 0;

	world_start(&w);
	assert_int_equal(load(&w, b->p, b->n, wall), b->n);
	assert_int_equal(sessions_read(w.r->sessions, &from, &s, 1), 1);
	assert_true(s.tail[0].at - s.seen < 60000);
	world_end(&w);
	return s.tail[0].at;
}

static void the_time_between_makes_them_older(void **state)
{
	struct buf b = saved();
	msec at = last_turn(&b, WALL);

	(void)state;
	assert_int_equal(last_turn(&b, WALL + 3600000), at - 3600000);
	assert_int_equal(last_turn(&b, WALL - 3600000), at);		/* the clock was set back */
	assert_int_equal(last_turn(&b, INT64_MAX), at - (msec)7 * 24 * 3600 * 1000);
	buf_free(&b);
}

static void without_any_nothing_is_written(void **state)
{
	struct buf b = { 0 };
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "a", "ab");
	assert_int_equal(route_save_sessions(w.r, w.now, WALL, put, &b), 0);
	assert_int_equal(b.n, 0);
	assert_int_equal(load(&w, "kvrread\n", 8, WALL), 0);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_come_back),
		cmocka_unit_test(a_siblings_sessions_are_as_new_as_both_know),
		cmocka_unit_test(another_format_is_told),
		cmocka_unit_test(damaged),
		cmocka_unit_test(what_is_damaged_changes_nothing),
		cmocka_unit_test(the_time_between_makes_them_older),
		cmocka_unit_test(without_any_nothing_is_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
