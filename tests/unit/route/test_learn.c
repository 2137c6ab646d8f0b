/* test_learn.c - the effect of facts, load strings and time on the ledger, claims and servers. */
#include "tests/unit/route/world.h"

#define EACH(i, table)	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)

/* Return the pages of <turns> expected at the best server, without changing any state. */
static uint32_t held(struct world *w, const char *turns)
{
	uint32_t pages;

	ask(w, "probe", turns);
	pages = w->a.pages;
	refused(w, "probe");
	return pages;
}

/* ---- a claim is kept or taken back -------------------------------------------------------- */

static void claims_are_kept_or_removed(void **state)
{
	static const struct {
		const char *name;
		bool first;		/* else done */
		const char *srv;
		int st;
		const char *more;	/* ts of done, content type of first */
		int64_t tr;
		bool kept, open;
	} cases[] = {
		{ "served", false, "s1", 200, "--", 20, true, false },
		{ "created", false, "s1", 201, "--", 0, true, false },
		{ "the client left while it streamed", false, "s1", 200, "CD", 20, true, false },
		{ "the server died while it streamed", false, "s1", 200, "SD", 20, true, false },
		{ "no name, but headers", false, "", 200, "--", 20, true, false },
		{ "refused", false, "<NOSRV>", 503, "SC", -1, false, false },
		{ "queue timeout", false, "<NOSRV>", 503, "sQ", -1, false, false },
		{ "the client left before headers", false, "s1", -1, "CH", -1, false, false },
		{ "the server died before headers", false, "s1", 502, "SH", -1, false, false },
		{ "too late", false, "s1", 504, "sH", -1, false, false },
		{ "bad request", false, "s1", 400, "--", 3, false, false },
		{ "too many", false, "s1", 429, "--", 3, false, false },
		{ "failed", false, "s1", 500, "--", 3, false, false },
		{ "no headers, whatever it says", false, "s1", 200, "--", -1, false, false },
		{ "from HAProxy's cache", false, "<CACHE>", 200, "--", 0, false, false },
		{ "first token", true, "s1", 200, STREAM, -1, true, true },
		{ "its type in other letters", true, "s1", 200, "Text/Event-Stream; charset=utf-8", -1, true,
		  true },
		{ "the answer at once", true, "s1", 200, "application/json", -1, true, false },
		{ "no type", true, "s1", 200, "", -1, true, false },
		{ "failed at once", true, "s1", 503, "application/json", -1, false, false },
		{ "failed in a stream", true, "s1", 500, STREAM, -1, false, false },
		{ "no status", true, "s1", -1, STREAM, -1, false, false },
	};
	struct world w;

	(void)state;
	EACH(i, cases) {
		struct index_stats x;

		world_start(&w);
		ask(&w, "1", "ab");
		assert_span(w.a.server, "s1");
		assert_int_equal(stats(&w).index.claims, 1);
		if (cases[i].first)
			tell_first(&w, "1", cases[i].srv, cases[i].st, cases[i].more);
		else
			tell_done(&w, "1", cases[i].srv, cases[i].st, cases[i].more, cases[i].tr);
		x = stats(&w).index;
		if (x.claims != cases[i].open || (x.pages > 0) != cases[i].kept ||
		    stats(&w).open != cases[i].open || x.confirmed != (cases[i].kept && !cases[i].open))
			fail_msg("%s: %d claims, %d pages, %d open", cases[i].name, (int)x.claims,
				 (int)x.pages, (int)stats(&w).open);
		assert_int_equal(held(&w, "ab"), cases[i].kept ? 2 * TURN_PAGES : 0);
		world_end(&w);
	}
}

/* Pages that one request has confirmed stay when a later one fails. */
static void a_failure_takes_only_its_own(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "a");
	served(&w, "1");
	ask(&w, "2", "abc");
	refused(&w, "2");
	assert_int_equal(held(&w, "abc"), TURN_PAGES);
	ask(&w, "3", "abc");
	tell_first(&w, "3", "s1", 200, STREAM);
	tell_done(&w, "3", "s1", 200, "SD", 10);	/* after its first token: the pages are there */
	assert_int_equal(held(&w, "abc"), 3 * TURN_PAGES);
	world_end(&w);
}

static void redispatched(void **state)
{
	struct world w;

	(void)state;
	for (int first = 0; first < 2; first++) {
		world_start(&w);
		ask(&w, "1", "ab");
		assert_span(w.a.server, "s1");
		if (first) {
			tell_first(&w, "1", "s3", 200, STREAM);
			assert_int_equal(server(&w, "s1").v.open, 0);
			assert_int_equal(server(&w, "s3").v.open, 1);
		}
		tell_done(&w, "1", "s3", 200, "--", 30);
		assert_int_equal(server(&w, "s1").v.held_tokens, 0);
		assert_int_equal(server(&w, "s3").v.held_tokens, 2 * TURN_PAGES * 16);
		assert_int_equal(server(&w, "s3").v.open, 0);
		ask(&w, "2", "abc");
		assert_span(w.a.server, "s3");
		assert_why(&w, WHY_CACHED);
		world_end(&w);
	}
}

/* A request that is over at once brings a load string. */
static void speak(struct world *w, msec later, struct span load)
{
	w->now += later;
	w->q.load = load;
	ask(w, "speaker", "z");
	served(w, "speaker");
}

/* A redispatched request reached its new server later than the requests that were open there. So
 * load strings close it last. Its age counts from its start. */
static void moved_goes_last_by_load_and_in_turn_by_age(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "old", "ab");
	assert_span(w.a.server, "s1");
	w.now += 2000;
	w.q.load = SPAN("lb1/1;s1=1,1,0,1;s3=1,0,0,0;s2=1,0,0,1");
	ask(&w, "young", "x");
	assert_span(w.a.server, "s2");
	w.now += 100;
	tell_first(&w, "old", "s2", 200, STREAM);
	assert_int_equal(server(&w, "s2").v.open, 2);
	speak(&w, 0, SPAN("lb1/1;s1=1,0,0,1;s2=1,2,0,1;s3=1,0,0,1"));
	speak(&w, 1000, SPAN("lb1/1;s1=1,0,0,1;s2=1,1,0,1;s3=1,0,0,1"));
	speak(&w, 1000, SPAN("lb1/1;s1=1,0,0,1;s2=1,1,0,1;s3=1,0,0,1"));
	assert_int_equal(stats(&w).closed_by_load, 1);
	tell_done(&w, "old", "s2", 200, "--", 30);
	assert_int_equal(stats(&w).facts_unknown, 0);	/* it was still there */
	tell_done(&w, "young", "s2", 200, "--", 30);
	assert_int_equal(stats(&w).facts_unknown, 1);
	world_end(&w);

	world_options(&w);
	w.o.ledger_max_age_ms = 10000;
	world_open(&w);
	ask(&w, "old", "ab");
	w.now += 2000;
	w.q.load = SPAN("lb1/1;s1=1,1,0,1;s2=1,0,0,1");
	ask(&w, "young", "x");
	tell_first(&w, "old", "s2", 200, STREAM);
	w.now += 8000;
	route_tick(w.r, w.now);
	assert_int_equal(stats(&w).closed_by_age, 1);
	tell_done(&w, "young", "s2", 200, "--", 30);
	assert_int_equal(stats(&w).facts_unknown, 0);
	tell_done(&w, "old", "s2", 200, "--", 30);
	assert_int_equal(stats(&w).facts_unknown, 1);
	world_end(&w);
}

/* A stream is open until its log line comes, or until ledger.max_age; then a late line changes
 * nothing, and what the first token has confirmed stays. */
static void a_stream_of_many_minutes(void **state)
{
	static const msec over[] = { -1000, 1000 };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct world w;
		msec end;

		world_start(&w);
		ask(&w, "long", "ab");
		w.now += 1000;
		tell_first(&w, "long", "s1", 200, STREAM);
		for (end = w.now - 1000 + w.o.ledger_max_age_ms + over[i]; w.now + 10000 < end; ) {
			w.now += 10000;
			speak(&w, 0, SPAN("lb1/1;s1=1,1,0,1;s2=1,0,0,1;s3=1,0,0,1"));
			route_tick(w.r, w.now);
			assert_int_equal(server(&w, "s1").v.open, 1);
		}
		w.now = end;
		route_tick(w.r, w.now);
		assert_int_equal(stats(&w).open, i == 0);
		assert_int_equal(stats(&w).closed_by_age, i);
		tell_done(&w, "long", "s1", 200, "--", 900);
		assert_int_equal(stats(&w).open, 0);
		assert_int_equal(stats(&w).facts_unknown, i);
		assert_int_equal(stats(&w).closed_by_load, 0);
		assert_true(held(&w, "ab") > 0);
		world_end(&w);
	}
}

/* If a server that is in no load string served it, no known server holds its pages. */
static void served_by_a_stranger(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "ab");
	tell_done(&w, "1", "s9", 200, "--", 30);
	assert_int_equal(held(&w, "ab"), 0);
	assert_int_equal(stats(&w).open, 0);
	world_end(&w);
}

static void facts_of_unknown_requests(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "ab");
	tell_done(&w, "other", "s1", 503, "SC", -1);
	tell_done(&w, "", "s1", 503, "SC", -1);
	tell_first(&w, "", "s1", 200, STREAM);
	assert_int_equal(stats(&w).facts_unknown, 3);
	assert_int_equal(stats(&w).open, 1);
	tell_done(&w, "1", "s1", 200, "--", 9);
	tell_done(&w, "1", "s1", 503, "SC", -1);	/* twice: the first counts */
	assert_int_equal(stats(&w).facts_unknown, 4);
	assert_int_equal(stats(&w).dones, 4);
	assert_int_equal(stats(&w).firsts, 1);
	assert_int_equal(held(&w, "ab"), 2 * TURN_PAGES);
	world_end(&w);
}

/* HAProxy sends each message twice if the filter is in frontend and backend. */
static void one_uid_is_one_request(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "ab");
	assert_span(w.a.server, "s1");
	ask(&w, "1", "ab");
	assert_span(w.a.server, "s1");
	assert_int_equal(w.a.pages, 0);		/* its own claim is no cached prefix */
	assert_int_equal(stats(&w).open, 1);
	assert_int_equal(stats(&w).index.claims, 1);
	refused(&w, "1");
	assert_int_equal(stats(&w).index.pages, 0);
	world_end(&w);
}

static void without_uid_each_is_its_own(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "", "a");
	ask(&w, "", "b");
	ask(&w, "", "c");
	assert_int_equal(stats(&w).open, 3);
	tell_done(&w, "", "s1", 200, "--", 1);
	assert_int_equal(stats(&w).open, 3);
	world_end(&w);
}

/* ---- closing by load strings ------------------------------------------------------------ */

#define MANY	SPAN("lb1/1;s1=1,99,0,1")
#define THREE	SPAN("lb1/1;s1=1,2,1,1")	/* conn + queue */

static void load_closes_the_oldest(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = MANY;
	for (int i = 0; i < 5; i++) {
		char uid[8], turns[2] = { (char)('a' + i), 0 };

		snprintf(uid, sizeof(uid), "%d", i);
		ask(&w, uid, turns);
	}
	speak(&w, 1000, MANY);		/* from a mark before the others came */
	speak(&w, 1000, MANY);
	speak(&w, 999, THREE);		/* a request marked just now may not be connected yet */
	speak(&w, 1, THREE);
	ask(&w, "5", "f");
	speak(&w, 999, MANY);		/* their log lines may still be on their way */
	assert_int_equal(server(&w, "s1").v.open, 6);
	speak(&w, 1, MANY);
	assert_int_equal(server(&w, "s1").v.open, 4);
	assert_int_equal(stats(&w).closed_by_load, 2);
	tell_done(&w, "1", "s1", 200, "--", 1);		/* the oldest went first */
	assert_int_equal(stats(&w).facts_unknown, 1);
	tell_done(&w, "2", "s1", 200, "--", 1);
	assert_int_equal(stats(&w).facts_unknown, 1);
	assert_int_equal(held(&w, "a"), TURN_PAGES);	/* closed by load: it counts as served */
	world_end(&w);
}

/* A request whose log line came in time is not closed twice. */
static void a_late_log_line_costs_no_other(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = MANY;
	for (int i = 0; i < 5; i++) {
		char uid[8];

		snprintf(uid, sizeof(uid), "%d", i);
		ask(&w, uid, "a");
	}
	speak(&w, 1000, MANY);
	speak(&w, 1000, MANY);
	speak(&w, 1000, THREE);
	tell_done(&w, "4", "s1", 200, "--", 1);
	tell_done(&w, "2", "s1", 200, "--", 1);
	speak(&w, 1000, THREE);
	assert_int_equal(server(&w, "s1").v.open, 3);
	assert_int_equal(stats(&w).closed_by_load, 0);
	world_end(&w);
}

static void unconnected_requests_are_not_closed(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	ask(&w, "slow", "a");
	speak(&w, 0, SPAN("lb1/1;s1=1,0,0,1"));
	speak(&w, 999, SPAN("lb1/1;s1=1,0,0,1"));
	for (int i = 0; i < 5; i++)
		speak(&w, 1000, SPAN("lb1/1;s1=1,1,0,1"));
	assert_int_equal(stats(&w).open, 1);
	assert_int_equal(stats(&w).closed_by_load, 0);
	world_end(&w);
}

/* A client that sends its next request at once is always ahead of its own log line. */
static void a_long_answer_beside_a_quick_client(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	ask(&w, "long", "a");
	for (int i = 0; i < 60; i++) {
		char uid[8], before[8];

		snprintf(uid, sizeof(uid), "%d", i);
		snprintf(before, sizeof(before), "%d", i - 1);
		w.now += i % 2 ? 300 : 2100;
		w.q.load = SPAN("lb1/1;s1=1,1,0,1");
		ask(&w, uid, "b");
		tell_done(&w, before, "s1", 200, "--", 1);
	}
	assert_int_equal(stats(&w).closed_by_load, 0);
	assert_int_equal(stats(&w).open, 2);
	world_end(&w);
}

static void each_haproxy_counts_its_own(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	ask(&w, "1", "a");
	ask(&w, "2", "b");
	w.q.load = SPAN("lb2/1;s1=1,0,0,1");
	ask(&w, "3", "c");
	assert_int_equal(server(&w, "s1").v.open, 3);
	for (int i = 0; i < 3; i++)		/* lb2 has nothing open there: 3 is over, 1 and 2 are lb1's */
		speak(&w, 1000, SPAN("lb2/1;s1=1,0,0,1"));
	assert_int_equal(server(&w, "s1").v.open, 2);
	tell_done(&w, "3", "s1", 200, "--", 1);
	assert_int_equal(stats(&w).facts_unknown, 1);
	for (int i = 0; i < 5; i++)		/* lb1 has one; the first mark was before 2 came */
		speak(&w, 1000, SPAN("lb1/1;s1=1,1,0,1"));
	tell_done(&w, "1", "s1", 200, "--", 1);
	assert_int_equal(stats(&w).facts_unknown, 2);
	tell_done(&w, "2", "s1", 200, "--", 1);
	assert_int_equal(stats(&w).facts_unknown, 2);
	world_end(&w);
}

/* ---- age and room ------------------------------------------------------------------------- */

static void ten_minutes(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "a");
	w.now += 900;			/* too young for the load string to close it */
	ask(&w, "2", "b");
	w.now += 599099;
	route_tick(w.r, w.now);
	assert_int_equal(stats(&w).open, 2);
	w.now += 1;
	route_tick(w.r, w.now);
	assert_int_equal(stats(&w).open, 1);
	w.now += 1000;
	route_tick(w.r, w.now);
	assert_int_equal(stats(&w).open, 0);
	assert_int_equal(stats(&w).closed_by_age, 2);
	assert_int_equal(stats(&w).index.claims, 0);
	world_end(&w);
}

#define FULL4(process)	SPAN(process ";s1=1,99,0,1;s2=1,99,0,1;s3=1,99,0,1;s4=1,99,0,1")

static void tick_to(struct world *w, msec now)
{
	w->now = now;
	route_tick(w->r, w->now);
}

/* lb1/1 is killed, or ends with lines in its ring: no line reports the end of its requests. */
static void a_process_that_others_outlive(void **state)
{
	struct world w;
	msec begun;

	(void)state;
	world_start(&w);
	begun = w.now;
	w.q.load = FULL4("lb1/1");
	for (int i = 0; i < 70; i++) {		/* more than one tick closes */
		char uid[8];

		snprintf(uid, sizeof(uid), "%d", i);
		ask(&w, uid, "a");
	}
	w.now += 1000;
	w.q.load = FULL4("lb1/2");
	ask(&w, "young", "b");
	tick_to(&w, begun + 300000);
	assert_int_equal(stats(&w).open, 71);	/* without requests no time counts */
	w.now = begun + 29999;
	ask(&w, "more", "c");
	tick_to(&w, begun + 301000);
	assert_int_equal(stats(&w).open, 72);
	w.now = begun + 30000;
	ask(&w, "still more", "c");
	for (int i = 1; i <= 5; i++)
		tick_to(&w, begun + 301000 + i * 1000);
	assert_int_equal(stats(&w).open, 3);
	assert_int_equal(stats(&w).closed_by_silence, 70);
	tell_done(&w, "young", "s1", 200, "--", 1);
	assert_int_equal(stats(&w).facts_unknown, 0);
	world_end(&w);
}

/* A long request is not closed as long as its process sends others. */
static void an_active_process_keeps_its_requests(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = FULL4("lb1/1");
	ask(&w, "long", "a");
	for (int i = 0; i < 50; i++) {
		char uid[8];

		snprintf(uid, sizeof(uid), "%d", i);
		w.q.load = i % 2 ? FULL4("lb1/1") : FULL4("lb1/2");
		ask(&w, uid, "b");
		served(&w, uid);
		tick_to(&w, w.now + 10000);
	}
	assert_int_equal(stats(&w).open, 1);
	assert_int_equal(stats(&w).closed_by_silence, 0);
	world_end(&w);
}

/* If there are more processes than slots, some share one. No load string counts all requests of a
 * shared slot, so none may close them. Here each process reports its own three long answers. */
static void a_shared_slot_is_not_closed_by_load(void **state)
{
	enum { PROCESSES = SLOTS_MAX + 8, LONG = 3 };
	char uid[16], load[64];
	struct world w;

	world_start(&w);
	for (int i = 0; i < LONG * PROCESSES; i++) {
		snprintf(load, sizeof(load), "lb%d/1;s1=1,%d,0,1", i % PROCESSES, i / PROCESSES);
		w.q.load = span_str(load);
		snprintf(uid, sizeof(uid), "long%d", i);
		ask(&w, uid, "a");
	}
	for (int i = 0; i < 60 * PROCESSES; i++) {
		snprintf(load, sizeof(load), "lb%d/1;s1=1,%d,0,1", i % PROCESSES, LONG);
		w.q.load = span_str(load);
		snprintf(uid, sizeof(uid), "short%d", i);
		ask(&w, uid, "b");
		tell_done(&w, uid, "s1", 200, "--", 3);
		tick_to(&w, w.now + 1000 / PROCESSES);
	}
	assert_int_equal(server(&w, "s1").v.open, LONG * PROCESSES);
	assert_int_equal(stats(&w).closed_by_load, 0);
	assert_int_equal(stats(&w).closed_by_silence, 0);
	world_end(&w);
}

static void many_at_once_take_several_ticks(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	for (int i = 0; i < 300; i++) {
		char uid[8];

		snprintf(uid, sizeof(uid), "%d", i);
		ask(&w, uid, "a");
	}
	w.now += 600000;
	for (unsigned left = 300, i = 0; left > 0; i++) {
		route_tick(w.r, w.now);
		assert_true(stats(&w).open < left && i < 10);
		left = (unsigned)stats(&w).open;
	}
	assert_int_equal(stats(&w).index.claims, 0);
	world_end(&w);
}

static void the_ledger_has_room_for_so_many(void **state)
{
	struct world w;

	(void)state;
	world_options(&w);
	w.o.ledger_max_entries = 3;
	world_open(&w);
	for (int i = 0; i < 10; i++) {
		char uid[8];

		snprintf(uid, sizeof(uid), "%d", i);
		ask(&w, uid, "a");
		assert_true(stats(&w).open <= 3);
	}
	assert_int_equal(stats(&w).closed_by_room, 7);
	send_body(&w, "x", SPAN("{}"));			/* adds no entry, so none must be evicted */
	assert_int_equal(stats(&w).closed_by_room, 7);
	assert_int_equal(stats(&w).open, 3);
	tell_done(&w, "6", "s1", 200, "--", 1);
	assert_int_equal(stats(&w).facts_unknown, 1);
	tell_done(&w, "7", "s1", 200, "--", 1);
	assert_int_equal(stats(&w).facts_unknown, 1);
	world_end(&w);
}

/* ---- the ladder --------------------------------------------------------------------------- */

static void facts_step_up_and_down(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "a");
	assert_string_equal(pool(&w).facts, "load");
	tell_done(&w, "1", "s1", 200, "--", 5);
	ask(&w, "2", "b");
	assert_string_equal(pool(&w).facts, "end");
	tell_first(&w, "2", "s1", 200, "application/json");
	ask(&w, "3", "c");
	assert_string_equal(pool(&w).facts, "end");	/* a whole answer tells no first-token time */
	tell_first(&w, "3", "s1", 503, STREAM);
	ask(&w, "4", "d");
	assert_string_equal(pool(&w).facts, "end");	/* nor does a failure */
	tell_first(&w, "4", "s1", 200, STREAM);
	ask(&w, "5", "e");
	assert_string_equal(pool(&w).facts, "first");
	w.now += 60000;
	ask(&w, "6", "f");
	assert_string_equal(pool(&w).facts, "load");	/* facts a minute old do not count */
	tell_done(&w, "6", "s1", 200, "--", 5);
	ask(&w, "7", "g");
	assert_string_equal(pool(&w).facts, "end");
	world_end(&w);
}

/* With first-token reports the wait is all unanswered work; without, it drains with time. */
static void waiting_work(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "abcdefgh");
	assert_true(server(&w, "s1").v.backlog_s > 0.1);
	tell_first(&w, "1", "s1", 200, STREAM);
	assert_true(server(&w, "s1").v.backlog_s == 0);
	assert_int_equal(server(&w, "s1").v.open, 1);
	tell_done(&w, "1", "s1", 200, "--", 5);
	assert_true(server(&w, "s1").v.backlog_s == 0);
	world_end(&w);
}

/* ---- servers that go away ----------------------------------------------------------------- */

static void a_server_out_of_the_load_strings(void **state)
{
	struct world w;
	server_id id;

	(void)state;
	world_start(&w);
	ask(&w, "1", "a");
	assert_span(w.a.server, "s1");
	served(&w, "1");
	id = server(&w, "s1").v.id;
	w.q.load = SPAN("lb1/1;s2=1,0,0,1");
	for (int i = 0; i < 599; i++) {
		w.now += 1000;
		send_body(&w, "x", SPAN("{}"));		/* no prompt, but it brings its load string */
		route_tick(w.r, w.now);
	}
	assert_true(server(&w, "s1").found);
	w.now += 1000;
	send_body(&w, "x", SPAN("{}"));
	route_tick(w.r, w.now);
	route_tick(w.r, w.now + 1000);
	route_tick(w.r, w.now + 2000);
	assert_false(server(&w, "s1").found || server(&w, "s3").found || server(&w, "s4").found);
	assert_true(server(&w, "s2").found);
	while (route_work(w.r))
		;
	assert_int_equal(index_server_room(w.r->index, id), 0);
	w.q.load = SPAN(IDLE4);
	ask(&w, "2", "ab");			/* back again, empty */
	assert_why(&w, WHY_COLD);
	world_end(&w);
}

/* Without load strings no server is taken for gone. */
static void silence_removes_no_server(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "a");
	served(&w, "1");
	w.now += 10000000;
	for (int i = 0; i < 5; i++)
		route_tick(w.r, w.now += 1000);
	assert_true(server(&w, "s1").found);
	assert_int_equal(held(&w, "a"), TURN_PAGES);
	world_end(&w);
}

static void a_server_with_requests_open_stays(void **state)
{
	struct world w;

	(void)state;
	world_options(&w);
	w.o.server_max_age_ms = 5000;
	world_open(&w);
	ask(&w, "1", "a");
	w.q.load = SPAN("lb1/1;s2=1,0,0,1");
	w.now += 6000;
	send_body(&w, "x", SPAN("{}"));
	for (int i = 0; i < 5; i++)
		route_tick(w.r, w.now += 1000);
	assert_true(server(&w, "s1").found);
	assert_false(server(&w, "s3").found);
	served(&w, "1");
	route_tick(w.r, w.now += 1000);
	assert_false(server(&w, "s1").found);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claims_are_kept_or_removed),
		cmocka_unit_test(a_failure_takes_only_its_own),
		cmocka_unit_test(redispatched),
		cmocka_unit_test(moved_goes_last_by_load_and_in_turn_by_age),
		cmocka_unit_test(a_stream_of_many_minutes),
		cmocka_unit_test(served_by_a_stranger),
		cmocka_unit_test(facts_of_unknown_requests),
		cmocka_unit_test(one_uid_is_one_request),
		cmocka_unit_test(without_uid_each_is_its_own),
		cmocka_unit_test(load_closes_the_oldest),
		cmocka_unit_test(a_late_log_line_costs_no_other),
		cmocka_unit_test(unconnected_requests_are_not_closed),
		cmocka_unit_test(a_long_answer_beside_a_quick_client),
		cmocka_unit_test(each_haproxy_counts_its_own),
		cmocka_unit_test(ten_minutes),
		cmocka_unit_test(a_process_that_others_outlive),
		cmocka_unit_test(an_active_process_keeps_its_requests),
		cmocka_unit_test(a_shared_slot_is_not_closed_by_load),
		cmocka_unit_test(many_at_once_take_several_ticks),
		cmocka_unit_test(the_ledger_has_room_for_so_many),
		cmocka_unit_test(facts_step_up_and_down),
		cmocka_unit_test(waiting_work),
		cmocka_unit_test(a_server_out_of_the_load_strings),
		cmocka_unit_test(silence_removes_no_server),
		cmocka_unit_test(a_server_with_requests_open_stays),
	};

	return cmocka_run_group_tests_name("route learn", tests, NULL, NULL);
}
