/* test_sessions.c - cut bodies whose visible part is common: the session tells them apart. */
#include "tests/unit/route/world.h"

/* Send a turn of <session>, of which the first part is visible and <whole> bytes exist. */
static struct span turn(struct world *w, const char *uid, const char *session, int64_t whole)
{
	chat(&w->body, "\"model\":\"m\",", "abc", "");
	w->q.session = span_str(session);
	w->q.visible = (int64_t)w->body.n - 40;
	w->q.whole = whole;
	send_body(w, uid, span_of(w->body.p, w->body.n - 40));
	return w->a.server;
}

static void done(struct world *w, const char *uid)
{
	char srv[SERVER_NAME_MAX + 1];

	snprintf(srv, sizeof(srv), SPAN_FMT, SPAN_ARG(w->a.server));
	tell_done(w, uid, srv, 200, "--", 100);
}

/* Let every server hold the visible part: nothing but the session tells them apart. */
static void open_world(struct world *w)
{
	world_start(w);
	for (unsigned i = 0; i < 4; i++) {
		static const char *const only[] = { "lb1/1;s1=1,0,0,1", "lb1/1;s2=1,0,0,1",
			"lb1/1;s3=1,0,0,1", "lb1/1;s4=1,0,0,1" };
		char uid[8];

		snprintf(uid, sizeof(uid), "w%u", i);
		w->q.load = span_str(only[i]);
		turn(w, uid, "", 0);
		done(w, uid);
	}
	w->q.load = SPAN(IDLE4);
}

static void each_session_stays_where_its_cache_is(void **state)
{
	static const char *const name[] = { "one", "two", "three", "four", "five", "six" };
	char at[6][16], uid[16];
	struct world w;

	(void)state;
	open_world(&w);
	for (unsigned n = 0; n < 5; n++) {
		for (unsigned i = 0; i < 6; i++) {
			unsigned k = n % 2 ? 5 - i : i;		/* so that turns alone do not help */
			struct span s;

			snprintf(uid, sizeof(uid), "t%u-%u", n, k);
			s = turn(&w, uid, name[k], 200000 + 4000 * n);
			if (n > 0)
				assert_true(span_eq(s, span_str(at[k])));
			snprintf(at[k], sizeof(at[k]), SPAN_FMT, SPAN_ARG(s));
			done(&w, uid);
			w.now += 1000;
		}
	}
	world_end(&w);
}

/* Requests with one key and any length are decided as those without one. */
static void one_key_for_everything_gains_nothing(void **state)
{
	unsigned same = 0;
	struct world a, b;
	struct rng rng;

	(void)state;
	rng_init(&rng, 3);
	open_world(&a);
	open_world(&b);
	for (unsigned n = 0; n < 200; n++) {
		int64_t whole = 20000 + (int64_t)rng_below(&rng, 400000);
		char uid[16];

		snprintf(uid, sizeof(uid), "k%u", n);
		turn(&a, uid, "all", whole);
		turn(&b, uid, "", whole);
		same += a.a.hit_tokens == b.a.hit_tokens;
		done(&a, uid);
		done(&b, uid);
		a.now += 1000;
		b.now += 1000;
	}
	assert_true(same > 180);
	world_end(&a);
	world_end(&b);
}

static void tenants_do_not_share_sessions(void **state)
{
	struct world w;

	(void)state;
	open_world(&w);
	turn(&w, "x", "one", 200000);
	done(&w, "x");
	w.q.tenant = SPAN("other");
	turn(&w, "y", "one", 204000);
	done(&w, "y");
	w.q.tenant = SPAN("");
	assert_int_equal(w.r->sessions != NULL, true);
	{
		struct sessions_stats st;

		sessions_stats(w.r->sessions, &st);
		assert_int_equal(st.sessions, 2);
	}
	world_end(&w);
}

/* ---- prompts that are seen whole ----------------------------------------------------------- */

/* Send the conversation <turns> of <session> to the only server of <load>, if it has one only. */
static void talk(struct world *w, const char *session, const char *turns, const char *load)
{
	static unsigned n;
	char uid[16];

	snprintf(uid, sizeof(uid), "u%u", n++);
	w->q.session = span_str(session);
	w->q.load = span_str(load);
	w->q.visible = w->q.whole = -1;
	ask(w, uid, turns);
	done(w, uid);
	w->now += 5000;
}

#define S1	"lb1/1;s1=1,0,0,1"
#define S2	"lb1/1;s2=1,0,0,1"
#define PAGES	(TURN_PAGES * 1u)

/* What each server holds of <turns>, by a request that changes nothing: it is refused. */
static uint32_t held(struct world *w, const char *turns, const char *load)
{
	static unsigned n;
	char uid[16];
	uint32_t pages;

	snprintf(uid, sizeof(uid), "h%u", n++);
	w->q.session = SPAN("");
	w->q.load = span_str(load);
	ask(w, uid, turns);
	pages = w->a.pages;
	refused(w, uid);
	return pages;
}

static uint64_t let_go(struct world *w)
{
	return stats(w).sessions.compacted;
}

static void grow_conversation(struct world *w, const char *session, unsigned turns)
{
	char text[27] = "abcdefghijklmnopqrstuvwxyz";

	for (unsigned n = 12; n <= 12 + turns; n++) {
		char now[27];

		snprintf(now, sizeof(now), "%.*s", (int)n, text);
		talk(w, session, now, S1);
	}
}

static void a_compaction_lets_the_old_path_go(void **state)
{
	struct world w;
	uint64_t pages;

	(void)state;
	world_start(&w);
	grow_conversation(&w, "one", 8);
	talk(&w, "two", "abcXY", S1);		/* another session shares three turns */
	pages = stats(&w).index.pages;
	assert_int_equal(held(&w, "abcdefghijklmnopqrst", S1), 20 * PAGES);
	talk(&w, "one", "abZ", S1);		/* its own opening, then a summary */
	assert_int_equal(let_go(&w), 1);
	assert_int_equal(held(&w, "abcdefghijklmnopqrst", S1), 3 * PAGES);
	assert_int_equal(held(&w, "abcXY", S1), 5 * PAGES);
	assert_int_equal(held(&w, "abZ", S1), 3 * PAGES);
	assert_true(stats(&w).index.pages < pages - 15 * PAGES);
	talk(&w, "one", "abZY", S1);
	assert_int_equal(let_go(&w), 1);
	world_end(&w);
}

/* A body that is cut in an image has no unseen tokens, and its visible part is short. */
static void a_cut_image_is_no_compaction(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	grow_conversation(&w, "one", 8);
	chat(&w.body, "\"model\":\"m\",", "abZ", "");
	w.body.n -= 2;
	say(&w.body, ",{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":"
	    "{\"url\":\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA");
	w.q.session = SPAN("one");
	w.q.load = SPAN(S1);
	w.q.visible = (int64_t)w.body.n;
	w.q.whole = 500000;
	send(&w, "i");
	assert_true(w.a.cut);
	done(&w, "i");
	assert_int_equal(let_go(&w), 0);
	assert_int_equal(held(&w, "abcdefghijklmnopqrst", S1), 20 * PAGES);
	world_end(&w);
}

/* The room of what was let go still counts until the engine's cache would have evicted it. */
static void the_old_path_still_fills_the_cache(void **state)
{
	struct world w;
	uint64_t room;
	server_id id;

	(void)state;
	world_options(&w);
	w.o.pool_default.capacity = 100000;
	world_open(&w);
	grow_conversation(&w, "one", 8);
	id = server(&w, "s1").v.id;
	room = index_server_room(w.r->index, id) + index_server_output(w.r->index, id);
	talk(&w, "one", "abZ", S1);
	assert_int_equal(let_go(&w), 1);
	assert_true(index_server_room(w.r->index, id) < room / 2);
	assert_true(index_server_room(w.r->index, id) + index_server_output(w.r->index, id) >= room);
	world_end(&w);
}

/* The part of a body that was not seen fills the cache too, once for all turns of a session. */
static void hidden_tokens_fill_the_cache(void **state)
{
	struct world w;
	uint64_t room[2];
	server_id id;

	(void)state;
	world_options(&w);
	w.o.pool_default.capacity = 400000;
	world_open(&w);
	w.q.load = SPAN(S1);
	for (unsigned i = 0; i < 2; i++) {
		turn(&w, i ? "two" : "one", "talk", 400000 + 8000 * i);
		w.now += 10;
		done(&w, i ? "two" : "one");
		id = server(&w, "s1").v.id;
		room[i] = index_server_room(w.r->index, id) + index_server_output(w.r->index, id);
		assert_true(room[i] >= w.a.tokens * ROOM_OF_TOKEN * 9 / 10);
		w.now += 1000;
	}
	assert_true(room[1] < room[0] * 12 / 10);
	turn(&w, "three", "other", 400000);		/* another session has hidden tokens of its own */
	done(&w, "three");
	assert_true(index_server_output(w.r->index, id) > room[0] * 14 / 10);
	world_end(&w);
}

static uint64_t output(struct world *w, const char *name)
{
	return index_server_output(w->r->index, server(w, name).v.id);
}

/* The next turn is asked for before the last one has ended, and then they end. What of the prompt
 * was not seen counts once, with the turn after them. */
static void open_turns_count_hidden_tokens_once(void **state)
{
	uint64_t once, after;
	struct world w;

	(void)state;
	world_options(&w);
	w.o.pool_default.capacity = 400000;
	world_open(&w);
	w.q.load = SPAN(S1);
	for (int i = 0; i < 20; i++) {		/* so that two open turns do not end the trust */
		turn(&w, "before", "talk", 200000 + 400 * i);
		done(&w, "before");
		w.now += 1000;
	}
	once = output(&w, "s1");
	turn(&w, "one", "talk", 208000);
	w.now += 1000;
	turn(&w, "two", "talk", 208400);
	w.now += 1000;
	done(&w, "one");
	w.now += 1000;
	done(&w, "two");
	w.now += 1000;
	turn(&w, "three", "talk", 208800);
	w.now += 1000;
	done(&w, "three");
	after = output(&w, "s1");
	assert_true(after < once * 12 / 10);
	assert_true(after > once * 8 / 10);
	world_end(&w);
}

/* A turn is decided anew and goes to another server: what turns before left at the first one counts
 * there again, until the next turn takes it up. */
static void a_turn_that_moves_gives_back_what_it_took_up(void **state)
{
	uint64_t room;
	struct world w;

	(void)state;
	world_options(&w);
	w.o.pool_default.capacity = 400000;
	world_open(&w);
	w.q.load = SPAN(S1);
	turn(&w, "one", "talk", 200000);
	w.now += 1000;
	done(&w, "one");
	room = output(&w, "s1");
	w.now += 1000;
	turn(&w, "two", "talk", 200400);
	assert_int_equal(output(&w, "s1"), 0);
	w.q.load = SPAN(S2);
	turn(&w, "two", "talk", 200400);
	assert_span(w.a.server, "s2");
	assert_int_equal(output(&w, "s1"), room);
	w.now += 1000;
	done(&w, "two");
	w.now += 1000;
	w.q.load = SPAN(S1);
	turn(&w, "three", "talk", 200800);
	assert_int_equal(output(&w, "s1"), 0);
	w.now += 1000;
	done(&w, "three");
	assert_in_range(output(&w, "s1"), room, room * 11 / 10);
	world_end(&w);
}

/* Open a world where s1 served a turn of "talk" and a second one, "two", took up what it left.
 * Returns the room of that. */
static uint64_t open_taken_up(struct world *w)
{
	uint64_t room;

	world_options(w);
	w->o.pool_default.capacity = 400000;
	world_open(w);
	w->q.load = SPAN(S1);
	turn(w, "one", "talk", 200000);
	w->now += 1000;
	done(w, "one");
	room = output(w, "s1");
	w->now += 1000;
	turn(w, "two", "talk", 200400);
	assert_int_equal(output(w, "s1"), 0);
	w->now += 1000;
	return room;
}

/* Decide <uid> anew for s2, and ask s1 for the turn after it. Returns what that finds there. */
static uint64_t hit_after_move(struct world *w)
{
	w->q.load = SPAN(S2);
	turn(w, "two", "talk", 200400);
	w->now += 1000;
	done(w, "two");
	w->now += 1000;
	w->q.load = SPAN(S1);
	turn(w, "three", "talk", 200800);
	return w->a.hit_tokens;
}

static void what_was_taken_up_is_there_if_it_was_not_lost(void **state)
{
	struct world w;

	(void)state;
	open_taken_up(&w);
	assert_true(hit_after_move(&w) > 40000);
	world_end(&w);
}

static void what_was_cleared_since_is_not_given_back(void **state)
{
	struct world w;

	(void)state;
	open_taken_up(&w);
	route_tick(w.r, w.now);
	assert_true(route_clear_server(w.r, SPAN("pool"), SPAN("s1")));
	while (route_work(w.r))
		;
	w.now += 1000;
	w.q.load = SPAN(S2);
	turn(&w, "two", "talk", 200400);
	assert_int_equal(output(&w, "s1"), 0);
	assert_true(hit_after_move(&w) < 1000);
	done(&w, "three");
	assert_true(output(&w, "s1") < 100000 * ROOM_OF_TOKEN);
	world_end(&w);
}

/* Other sessions fill the cache while the turn is open. */
static void what_was_evicted_since_is_not_given_back(void **state)
{
	uint64_t before;
	struct world w;
	char uid[8];

	(void)state;
	open_taken_up(&w);
	for (unsigned i = 0; i < 12; i++) {
		snprintf(uid, sizeof(uid), "o%u", i);
		turn(&w, uid, uid, 400000);
		w.now += 1000;
		done(&w, uid);
		w.now += 1000;
	}
	before = output(&w, "s1");
	w.q.load = SPAN(S2);
	turn(&w, "two", "talk", 200400);
	assert_int_equal(output(&w, "s1"), before);
	assert_true(hit_after_move(&w) < 10000);
	world_end(&w);
}

static void a_turn_decided_twice_at_one_server_counts_once(void **state)
{
	struct world w;
	uint64_t room;

	(void)state;
	room = open_taken_up(&w);
	for (unsigned i = 0; i < 3; i++) {
		turn(&w, "two", "talk", 200400);
		assert_int_equal(output(&w, "s1"), 0);
		w.now += 1000;
	}
	done(&w, "two");
	assert_in_range(output(&w, "s1"), room, room * 11 / 10);
	world_end(&w);
}

/* It is another client's: the turn before it was never served. */
static void a_uid_used_again_by_another_session(void **state)
{
	struct world w;
	uint64_t room;

	(void)state;
	room = open_taken_up(&w);
	w.q.load = SPAN(S2);
	turn(&w, "two", "other", 200400);
	assert_int_equal(output(&w, "s1"), room);
	done(&w, "two");
	assert_in_range(output(&w, "s2"), room * 9 / 10, room * 11 / 10);
	w.q.load = SPAN(S1);
	turn(&w, "three", "talk", 200800);
	assert_true(w.a.hit_tokens > 40000);
	assert_int_equal(output(&w, "s1"), 0);
	world_end(&w);
}

static void a_turn_that_finds_no_server_gives_back(void **state)
{
	struct world w;
	uint64_t room;

	(void)state;
	room = open_taken_up(&w);
	w.q.load = SPAN("lb1/1;s1=0,0,0,1");
	turn(&w, "two", "talk", 200400);
	assert_why(&w, WHY_NOSERVER);
	assert_int_equal(output(&w, "s1"), room);
	world_end(&w);
}

/* An image of megabytes is no million tokens: the engine's count bounds the guess. */
static void the_count_bounds_hidden_tokens(void **state)
{
	struct world w;
	struct fact f = served_fact("one");

	(void)state;
	world_options(&w);
	w.o.pool_default.capacity = 400000;
	world_open(&w);
	w.q.load = SPAN(S1);
	turn(&w, "one", "talk", 5000000);
	f.prompt_tokens = 6000;
	route_learn(w.r, &f, w.now);
	assert_in_range(output(&w, "s1"), 5000 * ROOM_OF_TOKEN, 6000 * ROOM_OF_TOKEN);
	world_end(&w);
}

/* Without a count no guess fills the cache alone. */
static void a_guess_is_at_most_half_of_the_cache(void **state)
{
	struct world w;

	(void)state;
	world_options(&w);
	w.o.pool_default.capacity = 400000;
	world_open(&w);
	w.q.load = SPAN(S1);
	turn(&w, "one", "talk", 5000000);
	done(&w, "one");
	assert_in_range(output(&w, "s1"), 100000 * ROOM_OF_TOKEN, 200000 * ROOM_OF_TOKEN);
	w.now += 1000;
	turn(&w, "two", "talk", 5010000);
	done(&w, "two");
	assert_in_range(output(&w, "s1"), 100000 * ROOM_OF_TOKEN, 201000 * ROOM_OF_TOKEN);
	world_end(&w);
}

/* A slice may be followed by another one, which is decided anew. */
static void a_slice_takes_no_hidden_tokens(void **state)
{
	struct route_request q;
	struct world w;
	uint64_t room;

	(void)state;
	world_options(&w);
	w.o.pool_default.capacity = 400000;
	world_open(&w);
	w.q.load = SPAN(S1);
	turn(&w, "one", "talk", 400000);
	done(&w, "one");
	w.now += 1000;
	room = output(&w, "s1");
	assert_true(room > 0);
	q = w.q;
	q.uid = SPAN("two");
	q.seq = 0;
	q.visible = q.whole = 408000;
	q.body = span_of(w.body.p, w.body.n - 40);
	route_decide(w.r, w.s, &q, w.now, &w.a);
	assert_true(w.a.more);
	assert_int_equal(output(&w, "s1"), room);
	world_end(&w);
}

/* What a turn that was seen whole left is pages: none of it is in the room of other sessions. */
static void a_whole_turn_has_no_hidden_tokens(void **state)
{
	struct world w;
	uint64_t room;

	(void)state;
	world_options(&w);
	w.o.pool_default.capacity = 400000;
	world_open(&w);
	talk(&w, "whole", "abcde", S1);
	w.now -= 5000;
	turn(&w, "x", "other", 400000);
	done(&w, "x");
	room = output(&w, "s1");
	assert_true(room > 0);
	w.now += 1000;
	turn(&w, "y", "whole", 400000);
	assert_int_equal(output(&w, "s1"), room);
	world_end(&w);
}

/* A subagent under its parent's name shares the opening. The parent comes back and is known. */
static void a_subagent_is_no_compaction_for_good(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	grow_conversation(&w, "one", 8);
	talk(&w, "one", "abZ", IDLE4);
	talk(&w, "one", "abZYX", IDLE4);
	assert_int_equal(let_go(&w), 1);
	assert_int_equal(held(&w, "abcdefghijklmnopqrstu", S1), 2 * PAGES);
	talk(&w, "one", "abcdefghijklmnopqrstu", IDLE4);
	assert_span(w.a.server, "s1");
	assert_true(w.a.pages >= 16 * PAGES);
	assert_int_equal(held(&w, "abcdefghijklmnopqrstu", S1), 21 * PAGES);
	world_end(&w);
}

/* A subagent with a name of its own has nothing of the parent's tail: all see the same opening. */
static void a_subagent_has_not_its_parents_tail(void **state)
{
	struct world w;
	uint64_t of_parent = 0;
	char uid[8];

	(void)state;
	open_world(&w);
	for (unsigned i = 0; i < 16; i++) {		/* until one other request does not end the trust */
		snprintf(uid, sizeof(uid), "p%u", i);
		turn(&w, uid, "parent", 200000 + 4000 * i);
		of_parent = w.a.hit_tokens;
		done(&w, uid);
	}
	assert_true(of_parent > w.a.tokens * 9 / 10);
	turn(&w, "s1", "parent/sub", 100000);
	assert_true(w.a.hit_tokens < w.a.tokens * 6 / 10);
	done(&w, "s1");
	turn(&w, "s2", "parent", 100000);	/* or the same name: it is shorter than its parent */
	assert_true(w.a.hit_tokens < w.a.tokens * 6 / 10);
	done(&w, "s2");
	turn(&w, "q", "parent", 264000);
	assert_true(w.a.hit_tokens > of_parent);
	world_end(&w);
}

/* The server of the last turn is gone: the server of an earlier one holds the most, whatever a hash
 * of the session would say. */
static void a_session_that_must_move_goes_to_the_best_holder(void **state)
{
	static const char *const names[] = { "one", "two", "three", "four", "five" };

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		struct world w;

		world_start(&w);
		talk(&w, names[i], "abcdefgh", "lb1/1;s3=1,0,0,1");
		talk(&w, names[i], "abcdefghijkl", S2);
		talk(&w, names[i], "abcdefghijklmnop", S1);
		talk(&w, names[i], "abcdefghijklmnopq", IDLE4);
		assert_span(w.a.server, "s1");
		talk(&w, names[i], "abcdefghijklmnopqr", "lb1/1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1");
		assert_span(w.a.server, "s2");
		assert_int_equal(w.a.pages, 12 * PAGES);
		world_end(&w);
	}
}

/* Its pages were evicted for lack of room. If the size of the cache is a guess, the engine may have
 * them still, and the session stays although another server is next in turn; if it is
 * configured, the session leaves. */
static void a_session_stays_where_it_may_be(void **state)
{
	(void)state;
	for (unsigned sure = 0; sure < 2; sure++) {
		struct world w;

		world_options(&w);
		w.o.pool_default.capacity_guess = 20000;
		w.o.pool_default.capacity = sure ? 20000 : 0;
		world_open(&w);
		talk(&w, "one", "abcdefghijklmnop", S1);
		for (unsigned i = 0; i < 26; i++) {
			char name[8], turns[] = "ABCDEFGHIJKLMNOP";

			snprintf(name, sizeof(name), "n%u", i);
			turns[0] = (char)(' ' + 1 + i);
			talk(&w, name, turns, S1);
		}
		while (route_work(w.r))
			;
		talk(&w, "one", "abcdefghijklmnopq", "lb1/1;s1=1,0,0,1;s2=1,0,0,1");
		assert_span(w.a.server, sure ? "s2" : "s1");
		assert_int_equal(w.a.pages, 0);
		world_end(&w);
	}
}

/* The same for a body that is cut: only the session knows of the hidden part. */
static void a_cut_session_that_must_move_goes_to_the_best_holder(void **state)
{
	struct world w;

	(void)state;
	open_world(&w);
	w.q.load = SPAN("lb1/1;s3=1,0,0,1");
	turn(&w, "a", "one", 200000);
	done(&w, "a");
	w.q.load = SPAN(S1);
	turn(&w, "b", "one", 204000);
	done(&w, "b");
	w.q.load = SPAN(IDLE4);
	turn(&w, "c", "one", 208000);
	assert_span(w.a.server, "s1");
	done(&w, "c");
	w.q.load = SPAN("lb1/1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1");
	turn(&w, "d", "one", 212000);
	assert_span(w.a.server, "s3");
	done(&w, "d");
	world_end(&w);
}

/* Send a turn of <session> to s1, of <whole> bytes and answered after <ms>. */
static void timed(struct world *w, const char *session, int64_t whole, msec ms)
{
	turn(w, "t", session, whole);
	w->now += ms;
	tell_first(w, "t", "s1", 200, STREAM);
	tell_done(w, "t", "s1", 200, "--", ms);
	w->now += 1000;
}

/* What else takes turns with the session "one", whose turns are honest. */
struct liar {
	int64_t whole, grown;	/* 0: nobody */
	msec ms;
};

struct learned {
	uint64_t count;		/* first tokens that were compared with expected times */
	int64_t wait_ms;	/* expected of the last turn of "one" */
	double speed;		/* tokens a second that s1 is taken for */
};

/* Turns of "one", each <grown> bytes longer and answered after <ms>, and those of <liar>. */
static struct learned learned_of(int64_t grown, msec ms, struct liar liar)
{
	struct learned l;
	struct world w;

	open_world(&w);
	w.q.load = SPAN(S1);
	for (int i = 0; i < 100; i++) {
		if (liar.whole > 0)
			timed(&w, "lie", liar.whole + liar.grown * i, liar.ms);
		timed(&w, "one", 200000 + grown * i, ms);
	}
	l = (struct learned){ w.r->fleet.pools[0]->wait.count, w.a.wait_ms,
		server(&w, "s1").v.tokens_per_s };
	world_end(&w);
	return l;
}

/* What its last turn left in the cache tells what a turn computes: here 1000 tokens. */
static void a_cut_turn_teaches_the_wait(void **state)
{
	struct learned l;

	(void)state;
	l = learned_of(4000, 100, (struct liar){ 0 });
	assert_true(l.count > 90);
	assert_in_range(l.wait_ms, 75, 125);
	l = learned_of(4000, 400, (struct liar){ 0 });
	assert_true(l.count > 90);
	assert_in_range(l.wait_ms, 300, 500);
}

/* Nothing is learned of turns that announce far more than is seen, nor of those whose length is
 * bounded, so that the next one seems to bring nothing new. */
static void far_lengths_teach_nothing(void **state)
{
	static const struct liar liars[] = {
		{ 200000, 8000000, 50 }, { 200000, 400000, 50 }, { 200000, 400000, 5000 },
		{ 1000000000000, 0, 50 }, { 1000000000000, 0, 5000 },
	};
	struct learned honest, l;

	(void)state;
	honest = learned_of(4000, 100, (struct liar){ 0 });
	for (size_t i = 0; i < sizeof(liars) / sizeof(liars[0]); i++) {
		l = learned_of(4000, 100, liars[i]);
		assert_int_equal(l.count, honest.count);
		assert_int_equal(l.wait_ms, honest.wait_ms);
		assert_true(l.speed == honest.speed);
	}
}

/* Half of the turns bring far less than they announce, but not so far that they teach nothing; or
 * far more, because nothing of the hidden part is as it was. What others expect stays between two
 * thirds and one and a half times what it is without them, and no speed is learned. */
static void a_liar_moves_the_wait_of_others_little(void **state)
{
	static const struct liar liars[] = {
		{ 200000, 3000, 10 }, { 200000, 6000, 10 }, { 200000, 7000, 10 },
		{ 200000, 0, 500 }, { 200000, 0, 5000 }, { 200000, 4000, 5000 },
	};
	struct learned honest, l;

	(void)state;
	honest = learned_of(4000, 100, (struct liar){ 0 });
	for (size_t i = 0; i < sizeof(liars) / sizeof(liars[0]); i++) {
		l = learned_of(4000, 100, liars[i]);
		assert_true(l.count > honest.count * 3 / 2);
		assert_in_range(l.wait_ms, honest.wait_ms * 2 / 3, honest.wait_ms * 3 / 2);
		assert_true(l.speed == honest.speed);
	}
}

/* Without a name the visible part is one, if it is of this conversation alone. */
static void the_visible_part_names_a_session(void **state)
{
	char uid[8], at[16];
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN(IDLE4);
	for (unsigned i = 0; i < 5; i++) {
		snprintf(uid, sizeof(uid), "t%u", i);
		turn(&w, uid, "", 200000 + 4000 * i);
		if (i > 0) {
			assert_span(w.a.server, at);
			assert_true(w.a.hit_tokens > w.a.tokens / 20 * 19);
		}
		snprintf(at, sizeof(at), SPAN_FMT, SPAN_ARG(w.a.server));
		done(&w, uid);
		w.now += 1000;
	}
	world_end(&w);
}

/* Requests at the same time with one visible part are no session: half of the rest counts. */
static void a_common_visible_part_is_no_session(void **state)
{
	struct world w;
	char uid[8];

	(void)state;
	open_world(&w);
	for (unsigned i = 0; i < 4; i++) {
		snprintf(uid, sizeof(uid), "t%u", i);
		turn(&w, uid, "", 200000);
	}
	turn(&w, "last", "", 200000);
	assert_true(w.a.hit_tokens > w.a.tokens / 3 && w.a.hit_tokens < w.a.tokens / 3 * 2);
	world_end(&w);
}

/* Of a body in slices only the last one shows all that its name is of. */
static void a_slice_names_no_session(void **state)
{
	struct route_request q = { .visible = -1, .whole = -1, .work = ROUTE_WORK_FULL };
	struct route_request first;
	struct world w;
	size_t n, third;

	(void)state;
	world_start(&w);
	chat(&w.body, "\"model\":\"m\",", "abcdef", "");
	n = w.body.n - 40;
	third = n / 3;
	first = w.q;
	first.uid = q.uid = SPAN("one");
	first.visible = (int64_t)n;
	first.whole = (int64_t)n * 10;
	for (unsigned i = 0; i < 3; i++) {
		struct route_request *p = i == 0 ? &first : &q;

		p->seq = i;
		p->body = span_of(w.body.p + i * third, i < 2 ? third : n - 2 * third);
		route_decide(w.r, w.s, p, w.now, &w.a);
		assert_int_equal(w.a.more, i < 2);
		assert_int_equal(stats(&w).sessions.sessions, i == 2);
	}
	world_end(&w);
}

/* ---- names in the body ---------------------------------------------------------------------- */

/* Turns of two bodies that name their session with <a> and <b>. Returns how many sessions these
 * are. */
static uint64_t sessions_of(const char *a, const char *b)
{
	struct world w;
	uint64_t n;

	world_start(&w);
	chat(&w.body, a, "abcdef", "");
	send(&w, "a");
	chat(&w.body, b, "abcdefgh", "");
	send(&w, "b");
	n = stats(&w).sessions.sessions;
	world_end(&w);
	return n;
}

static void bodies_name_their_sessions(void **state)
{
#define X100	X20 X20 X20 X20 X20
#define X20	"01234567890123456789"
#define LONG(s)	"\"metadata\":{\"user_id\":\"{\\\"session_id\\\":\\\"a\\\",\\\"x\\\":\\\"" \
	X100 X100 X100 s "\\\"}\"},"
#define META(s)	"\"metadata\":{\"user_id\":\"user_1_account_2_session_" s "\"},"

	(void)state;
	assert_int_equal(sessions_of("", ""), 0);
	assert_int_equal(sessions_of("\"prompt_cache_key\":\"k\",", "\"prompt_cache_key\":\"k\","), 1);
	assert_int_equal(sessions_of("\"prompt_cache_key\":\"k\",", "\"prompt_cache_key\":\"l\","), 2);
	assert_int_equal(sessions_of(META("a") "\"user\":\"u\",", META("a")), 1);
	assert_int_equal(sessions_of(META("a") "\"user\":\"u\",", META("b") "\"user\":\"u\","), 2);
	assert_int_equal(sessions_of("\"user\":\"u\",", "\"user\":\"u\","), 1);
	assert_int_equal(sessions_of(LONG("1"), LONG("2")), 1);		/* it is in the first bytes */
}

/* The argument <user> names a session if nothing else does. */
static void a_user_is_the_weakest_name(void **state)
{
	static const struct { const char *session, *before; uint64_t sessions; } turns[] = {
		{ "", "", 1 }, { "", "", 1 }, { "", "\"prompt_cache_key\":\"k\",", 2 },
		{ "", "\"prompt_cache_key\":\"l\",", 3 }, { "", "\"user\":\"x\",", 4 },
		{ "s", "", 5 }, { "t", "\"prompt_cache_key\":\"k\",", 6 }, { "", "", 6 },
	};
	struct world w;

	(void)state;
	world_start(&w);
	w.q.user = SPAN("somebody");
	for (unsigned i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
		char uid[8];

		snprintf(uid, sizeof(uid), "%u", i);
		w.q.session = span_str(turns[i].session);
		chat(&w.body, turns[i].before, "abcdef", "");
		send(&w, uid);
		assert_int_equal(stats(&w).sessions.sessions, turns[i].sessions);
	}
	world_end(&w);
}

/* Only the first slice has the argument. */
static void a_user_in_slices(void **state)
{
	struct world w;
	size_t third;

	(void)state;
	world_start(&w);
	chat(&w.body, "\"model\":\"m\",", "abcdef", "");
	third = w.body.n / 3;
	w.q.visible = w.q.whole = (int64_t)w.body.n;
	w.q.user = SPAN("somebody");
	for (unsigned i = 0; i < 3; i++) {
		slice_at(&w, w.s, "one", i, i * third, i < 2 ? (i + 1) * third : w.body.n);
		w.q.user = SPAN("");
	}
	assert_int_equal(w.a.more, 0);
	assert_int_equal(stats(&w).sessions.sessions, 1);
	w.q.visible = w.q.whole = -1;
	w.q.user = SPAN("somebody");
	send(&w, "two");
	assert_int_equal(stats(&w).sessions.sessions, 1);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_session_stays_where_its_cache_is),
		cmocka_unit_test(one_key_for_everything_gains_nothing),
		cmocka_unit_test(tenants_do_not_share_sessions),
		cmocka_unit_test(a_compaction_lets_the_old_path_go),
		cmocka_unit_test(a_cut_image_is_no_compaction),
		cmocka_unit_test(the_old_path_still_fills_the_cache),
		cmocka_unit_test(hidden_tokens_fill_the_cache),
		cmocka_unit_test(open_turns_count_hidden_tokens_once),
		cmocka_unit_test(a_turn_that_moves_gives_back_what_it_took_up),
		cmocka_unit_test(what_was_taken_up_is_there_if_it_was_not_lost),
		cmocka_unit_test(what_was_cleared_since_is_not_given_back),
		cmocka_unit_test(what_was_evicted_since_is_not_given_back),
		cmocka_unit_test(a_turn_decided_twice_at_one_server_counts_once),
		cmocka_unit_test(a_uid_used_again_by_another_session),
		cmocka_unit_test(a_turn_that_finds_no_server_gives_back),
		cmocka_unit_test(the_count_bounds_hidden_tokens),
		cmocka_unit_test(a_guess_is_at_most_half_of_the_cache),
		cmocka_unit_test(a_slice_takes_no_hidden_tokens),
		cmocka_unit_test(a_whole_turn_has_no_hidden_tokens),
		cmocka_unit_test(a_subagent_is_no_compaction_for_good),
		cmocka_unit_test(a_subagent_has_not_its_parents_tail),
		cmocka_unit_test(a_session_that_must_move_goes_to_the_best_holder),
		cmocka_unit_test(a_session_stays_where_it_may_be),
		cmocka_unit_test(a_cut_turn_teaches_the_wait),
		cmocka_unit_test(far_lengths_teach_nothing),
		cmocka_unit_test(a_liar_moves_the_wait_of_others_little),
		cmocka_unit_test(a_cut_session_that_must_move_goes_to_the_best_holder),
		cmocka_unit_test(the_visible_part_names_a_session),
		cmocka_unit_test(a_common_visible_part_is_no_session),
		cmocka_unit_test(a_slice_names_no_session),
		cmocka_unit_test(bodies_name_their_sessions),
		cmocka_unit_test(a_user_is_the_weakest_name),
		cmocka_unit_test(a_user_in_slices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
