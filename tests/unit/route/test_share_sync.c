/* test_share_sync.c - whatever is lost, late, repeated or out of order: after rounds of digests all
 * agents hold the same pages, and no request stays open.
 *
 * SHARE_SEEDS=n in the environment: n random runs of each kind; default 3. */
#include "agent/route/share_sync_in.h"
#include "tests/unit/route/fleet.h"
#include "tests/unit/rounds.h"

static struct fleet_world f;
#define A	(&f.a[0].w)
#define B	(&f.a[1].w)
#define C	(&f.a[2].w)

static size_t differing(void)
{
	size_t n = 0;

	for (unsigned i = 1; i < f.n; i++)
		n += pairs_differing(&f.a[0], &f.a[i], false);
	return n;
}

static uint64_t put_of(enum share_kind k)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < f.n; i++)
		n += share_stats(&f.a[i]).put[k];
	return n;
}

static void serve(struct world *w, const char *uid, const char *turns)
{
	char srv[SERVER_NAME_MAX + 1];

	ask(w, uid, turns);
	snprintf(srv, sizeof(srv), SPAN_FMT, SPAN_ARG(w->a.server));
	tell_done(w, uid, srv, 200, "--", 20);
}

static void what_was_lost_comes_again(void **state)
{
	fleet_new(&f, 3);
	serve(A, "1", "abcdef");
	serve(A, "2", "xyz");
	pass(&f, 5);
	f.loss = 1000;
	serve(A, "3", "abcdefg");
	serve(B, "4", "xyzuvw");
	serve(C, "5", "m");
	f.loss = 0;
	pass(&f, 5);
	assert_int_equal(pairs_held(&f.a[0]), 10 * TURN_PAGES);
	assert_int_not_equal(differing(), 0);
	route_share_resync(A->r);
	work_for(&f, 3000, 10);
	assert_int_equal(differing(), 0);
	assert_int_equal(pairs_held(&f.a[0]), 14 * TURN_PAGES);
	assert_in_range(put_of(SHARE_HELD), 3, 6);
	/* of the six turns only the last page or two are not before a known point */
	assert_true(share_stats(&f.a[1]).unplaced == 0);
	fleet_end(&f);
}

static void nothing_to_do_costs_nothing(void **state)
{
	fleet_new(&f, 3);
	serve(A, "1", "abcdef");
	serve(B, "2", "xyz");
	pass(&f, 5);
	work_for(&f, 1000, 10);
	assert_int_equal(put_of(SHARE_DIGEST), 0);
	work_for(&f, 200000, 100);
	assert_in_range(put_of(SHARE_DIGEST), 2 * 3, 5 * 3 * 3);
	assert_int_equal(put_of(SHARE_ENDS), 0);
	assert_int_equal(put_of(SHARE_WANT), 0);
	assert_int_equal(put_of(SHARE_HELD), 0);
	fleet_end(&f);
}

static void work_to_end(struct agent *a)
{
	for (unsigned slices = 0; route_share_work(a->w.r, f.now) && slices < 20000;)
		slices++;
}

/* Each sum of a round comes alone, and is compared before the next one. */
static void a_round_in_pieces_asks_for_no_other(void **state)
{
	static const char *const loads[] = { "lb1/1;s1=1,0,0,1", "lb1/1;s2=1,0,0,1", "lb1/1;s3=1,0,0,1" };

	fleet_new(&f, 2);
	for (unsigned i = 0; i < 3; i++) {
		A->q.load = span_str(loads[i]);
		serve(A, (char[]){ (char)('1' + i), '\0' }, (char[]){ (char)('a' + i), 'x', '\0' });
	}
	pass(&f, 5);
	route_share_resync(A->r);
	for (msec end = f.now + 10000; f.now < end; f.now += 20) {
		struct parcel *p;

		work_to_end(&f.a[0]);
		work_to_end(&f.a[1]);
		if ((p = f.first) == NULL)
			continue;
		f.first = p->next;
		route_share_apply(f.a[p->to].w.r, agent_id(p->from), &p->e, f.now);
		parcel_free(p);
	}
	assert_int_equal(share_stats(&f.a[0]).rounds, 1);
	assert_int_equal(share_stats(&f.a[1]).rounds, 0);
	assert_int_equal(put_of(SHARE_ENDS), 0);
	fleet_end(&f);
}

static void a_new_agent_learns_all(void **state)
{
	fleet_new(&f, 3);
	f.a[2].cut = true;
	for (unsigned i = 0; i < 26; i++)
		serve(&f.a[i % 2].w, (char[]){ 'u', (char)('a' + i), '\0' },
		    (char[]){ (char)('a' + i), 'A', 'B', 'C', (char)('a' + i % 3), '\0' });
	pass(&f, 5);
	assert_int_equal(pairs_differing(&f.a[0], &f.a[1], false), 0);
	assert_int_equal(pairs_held(&f.a[2]), 0);
	f.a[2].cut = false;
	route_share_resync(C->r);		/* it knows no server */
	work_for(&f, 5000, 10);
	assert_int_equal(differing(), 0);
	assert_int_equal(pairs_held(&f.a[2]), 26 * 5 * TURN_PAGES);
	fleet_end(&f);
}

static void a_partition_heals(void **state)
{
	char uid[16];

	fleet_new(&f, 3);
	for (unsigned i = 0; i < 120; i++) {
		struct world *w = &f.a[i % 3].w;

		f.a[2].cut = i >= 40 && i < 80;
		snprintf(uid, sizeof(uid), "%u", i);
		serve(w, uid, (char[]){ (char)('a' + i % 7), (char)('a' + i % 11), (char)('a' + i % 5), '\0' });
		pass(&f, 20);
	}
	assert_int_not_equal(differing(), 0);
	for (unsigned i = 0; i < 3; i++)
		route_share_resync(f.a[i].w.r);
	work_for(&f, 5000, 10);
	assert_int_equal(differing(), 0);
	fleet_end(&f);
}

/* The place of an anchor is another prefix by now: its pages are neither used nor told as known. */
static void an_anchor_that_is_wrong(void **state)
{
	uint64_t chain[2];
	struct index_place other;

	fleet_new(&f, 2);
	serve(A, "1", "abcd");
	memcpy(chain, A->s->chain, sizeof(chain));
	serve(A, "2", "wxyz");
	pass(&f, 5);
	assert_true(anchors_get(B->r->sharing->anchors, A->s->chain[1], 2 * ANCHOR_EVERY, &other));
	anchors_enter(B->r->sharing->anchors, chain, ANCHOR_EVERY,
	    (struct index_place){ other.node, 2 * ANCHOR_EVERY, 0 });
	serve(A, "3", "abcde");
	pass(&f, 5);
	assert_int_equal(share_stats(&f.a[1]).unplaced, 1);
	assert_int_equal(pairs_held(&f.a[1]), 8 * TURN_PAGES);
	work_for(&f, 5000, 10);
	assert_int_equal(differing(), 0);
	assert_int_equal(share_stats(&f.a[1]).unplaced, 1);
	fleet_end(&f);
}

/* Both agents hold the newest prompts that fit: older ones are evicted for those that were lost,
 * and those that would be the oldest of a full server are given up by the one that has them. */
static void full_servers_become_equal(void **state)
{
	uint64_t held, ends;

	fleet_begin(&f, 2);
	A->o.pool_default.capacity = B->o.pool_default.capacity = 65 * 16;
	fleet_open(&f);
	A->q.load = B->q.load = SPAN("lb1/1;s1=1,0,0,1");
	for (unsigned i = 0; i < 26; i++) {
		f.loss = i % 3 == 0 ? 1000 : 0;
		serve(i % 2 ? A : B, (char[]){ (char)('A' + i), '\0' }, (char[]){ (char)('a' + i), '\0' });
		pass(&f, 1000);
	}
	f.loss = 0;
	assert_int_not_equal(differing(), 0);
	route_share_resync(A->r);
	work_for(&f, 5000, 10);
	assert_int_equal(differing(), 0);
	assert_in_range(pairs_held(&f.a[0]), 5 * TURN_PAGES, 65);
	held = put_of(SHARE_HELD);
	ends = put_of(SHARE_ENDS);
	work_for(&f, 60000, 50);
	assert_int_equal(differing(), 0);
	assert_int_equal(put_of(SHARE_HELD), held);
	assert_in_range(put_of(SHARE_ENDS) - ends, 0, 2 * 64);
	fleet_end(&f);
}

/* The smaller capacity decides: what one agent cannot hold, the other gives up. */
static void different_capacities_become_equal(void **state)
{
	fleet_begin(&f, 2);
	A->o.pool_default.capacity = 10000;
	B->o.pool_default.capacity = 60 * 16;
	fleet_open(&f);
	A->q.load = B->q.load = SPAN("lb1/1;s1=1,0,0,1");
	serve(B, "0", "mn");
	f.loss = 1000;
	for (unsigned i = 0; i < 10; i++) {
		pass(&f, 1000);
		serve(A, (char[]){ (char)('0' + i), '\0' }, (char[]){ (char)('a' + i), '\0' });
	}
	f.loss = 0;
	route_share_resync(A->r);
	work_for(&f, 10000, 10);
	assert_int_equal(differing(), 0);
	assert_in_range(pairs_held(&f.a[1]), 4 * TURN_PAGES, 60);
	assert_in_range(put_of(SHARE_HELD), 1, 20);
	fleet_end(&f);
}

/* Bytes are short at one agent: it refuses, and does not ask for the same again and again. */
static void what_is_refused_is_asked_for_ever_later(void **state)
{
	uint64_t want = 0;

	fleet_begin(&f, 2);
	A->o.pool_default.eviction = B->o.pool_default.eviction = INDEX_MRU;
	A->o.pool_default.capacity = 10000;
	B->o.pool_default.capacity = 30 * 16;
	fleet_open(&f);
	A->q.load = B->q.load = SPAN("lb1/1;s1=1,0,0,1");
	f.loss = 1000;
	for (unsigned i = 0; i < 20; i++)
		serve(A, (char[]){ (char)('a' + i), '\0' }, (char[]){ (char)('a' + i), '\0' });
	f.loss = 0;
	for (unsigned i = 0; i < 30; i++) {
		route_share_resync(A->r);
		work_for(&f, 6000, 50);
		if (i == 10)
			want = share_stats(&f.a[1]).ends_lacked;
	}
	assert_true(share_stats(&f.a[1]).held_refused > 0);
	/* 20 rounds, two minutes: 20 ends, each twice or three times */
	assert_in_range(share_stats(&f.a[1]).ends_lacked - want, 1, 3 * 20);
	fleet_end(&f);
}

static void a_cleared_cache_stays_clear(void **state)
{
	fleet_new(&f, 2);
	serve(A, "1", "abcd");
	pass(&f, 5);
	work_for(&f, 5000, 100);
	/* an event that only A got */
	pthread_mutex_lock(&A->r->lock);
	A->r->clearing[0] |= 1;
	A->r->fleet.by_id[0]->cleared = f.now;
	pthread_mutex_unlock(&A->r->lock);
	work_for(&f, 5000, 100);
	assert_int_equal(pairs_held(&f.a[0]), 0);
	serve(A, "2", "zy");
	pass(&f, 5);
	route_share_resync(B->r);
	work_for(&f, 5000, 10);
	route_share_resync(A->r);
	work_for(&f, 10000, 10);
	assert_int_equal(differing(), 0);
	assert_int_equal(pairs_held(&f.a[0]), 2 * TURN_PAGES);
	fleet_end(&f);
}

/* Start <agents>; HAProxy names only s1, to A, which serves there and tells the others. Returns
 * servers.max_age. */
static msec with_s1(unsigned agents)
{
	fleet_new(&f, agents);
	A->q.load = SPAN("lb1/1;s1=1,0,0,1");
	serve(A, "1", "abc");
	pass(&f, 5);
	return A->o.server_max_age_ms;
}

/* HAProxy does not name it any more; what the agents tell each other must not keep it. */
static void a_server_that_left_is_forgotten(void **state)
{
	msec max_age = with_s1(2);

	assert_true(server(B, "s1").found);
	A->q.load = B->q.load = SPAN("lb1/1;s2=1,0,0,1");
	for (unsigned i = 0; i < 20; i++) {
		serve(A, (char[]){ 'a', (char)('a' + i), '\0' }, "xyz");
		serve(B, (char[]){ 'b', (char)('a' + i), '\0' }, "uvw");
		work_for(&f, max_age / 10, 100);
	}
	assert_false(server(A, "s1").found);
	assert_false(server(B, "s1").found);
	assert_true(server(A, "s2").found);
	/* periodic rounds: one in 45 s at most, of either */
	assert_in_range(share_stats(&f.a[0]).rounds + share_stats(&f.a[1]).rounds, 1,
	    2 * (uint64_t)max_age / 45000 + 4);
	fleet_end(&f);
}

/* Only A's HAProxy has s1, and B's has s2. Neither forgets the other's, used or not. */
static void a_server_of_one_haproxy_stays(void **state)
{
	msec max_age = with_s1(3);
	uint64_t held;

	A->q.load = SPAN("lb1/1;s1=0,0,0,1;s3=1,0,0,1");
	B->q.load = SPAN("lb2/1;s2=1,0,0,1");
	work_for(&f, 1000, 100);
	held = put_of(SHARE_HELD);
	for (unsigned i = 0; i < 40; i++) {
		serve(A, (char[]){ 'a', (char)('a' + i), '\0' }, "xyz");
		serve(B, (char[]){ 'b', (char)('a' + i), '\0' }, "uvw");
		work_for(&f, max_age / 10, 100);
		assert_true(server(A, "s1").found && server(A, "s2").found);
		assert_true(server(B, "s1").found && server(B, "s2").found);
		assert_true(server(C, "s1").found && server(C, "s2").found);
	}
	assert_int_equal(put_of(SHARE_HELD), held);
	assert_int_equal(differing(), 0);
	fleet_end(&f);
}

/* B forgets a server sooner than A, and wants none of its pages. A tells of it once more. */
static void a_server_that_a_sibling_does_not_want(void **state)
{
	uint64_t rounds;

	fleet_begin(&f, 2);
	B->o.server_max_age_ms = 60000;
	fleet_open(&f);
	A->q.load = B->q.load = SPAN("lb1/1;s1=1,0,0,1");
	serve(A, "1", "abc");
	pass(&f, 5);
	A->q.load = B->q.load = SPAN("lb1/1;s2=1,0,0,1");
	for (unsigned i = 0; i < 9; i++) {
		serve(A, (char[]){ 'a', (char)('a' + i), '\0' }, "xyz");
		serve(B, (char[]){ 'b', (char)('a' + i), '\0' }, "uvw");
		work_for(&f, 10000, 100);
	}
	assert_true(server(A, "s1").found);
	assert_false(server(B, "s1").found);
	rounds = share_stats(&f.a[0]).rounds;
	for (unsigned i = 0; i < 10; i++) {
		route_share_resync(B->r);
		work_for(&f, 20000, 100);
	}
	assert_in_range(share_stats(&f.a[1]).rounds, 10, 12);
	assert_int_equal(share_stats(&f.a[0]).rounds, rounds + 1);
	fleet_end(&f);
}

/* More sums than there is room for are counted, and compared in a later round. */
static void too_many_sums(void **state)
{
	const uint64_t sums[SPACE_PARTS] = { 0 };
	struct share_entry e = { .kind = SHARE_DIGEST, .u.digest = {
		.at = { SPAN("pool"), SPAN("s1") }, .sums = sums, .n = SPACE_PARTS,
		.cleared_ago_ms = -1, .oldest_ms = -1, .evicted_ago_ms = -1, .named_ago_ms = 0 } };

	fleet_new(&f, 2);
	serve(A, "1", "abc");
	pass(&f, 5);
	for (unsigned i = 0; i < SUMS_MAX + 3; i++)
		route_share_apply(B->r, agent_id(0), &e, f.now);
	assert_int_equal(share_stats(&f.a[1]).sums_dropped, 3);
	work_for(&f, 5000, 10);
	assert_int_equal(differing(), 0);
	fleet_end(&f);
}

/* B gets no load strings: it knows of s1 and s2 by A only. */
static void a_standby_forgets_it_too(void **state)
{
	msec max_age = with_s1(2);

	A->q.load = SPAN("lb1/1;s2=1,0,0,1");
	for (unsigned i = 0; i < 13; i++) {
		serve(A, (char[]){ 'a', (char)('a' + i), '\0' }, "xyz");
		work_for(&f, max_age / 10, 100);
	}
	assert_false(server(A, "s1").found);
	assert_false(server(B, "s1").found);
	assert_true(server(B, "s2").found);
	fleet_end(&f);
}

/* A stream of yesterday has digests and ends of what was held then. */
static void old_digests_are_not_compared(void **state)
{
	uint64_t sums[64];
	struct share_anchor ends[] = { { 77, 16 }, { 0, 0 } };
	struct share_server at = { SPAN("pool"), SPAN("s1") };
	struct share_entry d = { .kind = SHARE_DIGEST, .u.digest = { .at = at, .sums = sums,
		.n = 64, .cleared_ago_ms = -1, .oldest_ms = -1, .evicted_ago_ms = -1 } };
	struct share_entry e = { .kind = SHARE_ENDS, .u.ends = { .at = at, .ends = ends, .n = 2,
		.evicted_ago_ms = -1 } };

	for (unsigned i = 0; i < 64; i++)
		sums[i] = i + 1;
	fleet_new(&f, 2);
	A->q.load = SPAN("lb1/1;s1=1,0,0,1");
	serve(A, "1", "abcd");
	pass(&f, 5);
	d.age_ms = e.age_ms = 61000;
	route_share_apply(A->r, 9, &d, f.now);
	route_share_apply(A->r, 9, &e, f.now);
	work_for(&f, 3000, 100);
	assert_int_equal(put_of(SHARE_ENDS), 0);
	assert_int_equal(put_of(SHARE_WANT), 0);
	d.u.digest.cleared_ago_ms = 0;
	route_share_apply(A->r, 9, &d, f.now);
	work_for(&f, 3000, 100);
	assert_int_equal(pairs_held(&f.a[0]), 0);
	d.age_ms = e.age_ms = 0;
	d.u.digest.cleared_ago_ms = -1;
	route_share_apply(A->r, 9, &d, f.now);
	route_share_apply(A->r, 9, &e, f.now);
	work_for(&f, 3000, 100);
	assert_int_not_equal(put_of(SHARE_ENDS), 0);
	assert_int_not_equal(put_of(SHARE_WANT), 0);
	fleet_end(&f);
}

static void learned_values_reach_a_new_agent(void **state)
{
	struct share_entry e = { .kind = SHARE_SERVER, .u.server = {
		.at = { SPAN("pool"), SPAN("s9") }, .slowness_first = 2000000, .slowness_headers = UINT32_MAX,
		.capacity_tokens = UINT64_MAX } };

	fleet_new(&f, 1);
	route_share_apply(A->r, 7, &e, f.now);
	assert_true(server(A, "s9").found);
	assert_true(server(A, "s9").v.capacity_tokens > 16384);
	assert_int_equal(server(A, "s9").v.capacity_source, CAPACITY_INFERRED);
	e.u.server.capacity_tokens = 20000;
	route_share_apply(A->r, 8, &e, f.now);
	assert_true(server(A, "s9").v.capacity_tokens > 20000);		/* the largest counts */
	route_share_apply(A->r, 7, &e, f.now);
	assert_int_equal(server(A, "s9").v.capacity_tokens, 20000);	/* taken back */
	e.u.server.capacity_tokens = 30000;
	route_share_apply(A->r, 8, &e, f.now);
	assert_int_equal(server(A, "s9").v.capacity_tokens, 30000);
	route_share_gone(A->r, 8, f.now);		/* it restarts */
	work_for(&f, 100000, 1000);
	assert_int_equal(server(A, "s9").v.capacity_tokens, 30000);
	route_share_apply(A->r, 9, &e, f.now);		/* with the size that it had saved */
	e.u.server.capacity_tokens = 20000;
	work_for(&f, 150000, 1000);
	assert_int_equal(server(A, "s9").v.capacity_tokens, 30000);
	route_share_apply(A->r, 7, &e, f.now);
	assert_int_equal(server(A, "s9").v.capacity_tokens, 20000);	/* the next largest */
	work_for(&f, 250000, 1000);
	assert_int_not_equal(server(A, "s9").v.capacity_source, CAPACITY_INFERRED);	/* silent */
	fleet_end(&f);
}

static void odd_entries(void **state)
{
	uint64_t sums[SHARE_SUMS_MAX] = { 1, 2, 3 };
	struct share_anchor ends[40];
	struct share_server at = { SPAN("pool"), SPAN("s1") };
	struct share_entry e;
	page_key pages[20];

	for (unsigned i = 0; i < 40; i++)
		ends[i] = (struct share_anchor){ i * 77, i % 7 == 0 ? UINT32_MAX : i };
	for (unsigned i = 0; i < 20; i++)
		pages[i] = i;
	fleet_new(&f, 2);
	serve(A, "1", "abcd");
	for (unsigned n = 0; n < 3000; n++) {
		struct share_entry all[] = {
			{ .kind = SHARE_DIGEST, .u.digest = { at, n % 3, sums, n % 70, INT64_MAX, n } },
			{ .kind = SHARE_DIGEST, .u.digest = { at, 0, sums, 64, n, -1 } },
			{ .kind = SHARE_DIGEST, .u.digest = { { { 0 }, { 0 } }, 0, sums, 0, n, -1 } },
			{ .kind = SHARE_ENDS, .u.ends = { at, n % 70, ends, n % 40, agent_id(n % 2) } },
			{ .kind = SHARE_WANT, .u.want = { at, ends, n % 40, agent_id(n % 2) } },
			{ .kind = SHARE_HELD, .u.held = { at, { { 1, 2 }, n, n, n }, { 9, n % 5 * 16 }, pages,
				n % 20, 255, 255, INT64_MAX } },
			{ .kind = SHARE_CLEARED, .u.cleared = { at, n % 2, n % 5 ? INT64_MAX : -5 } },
		};

		for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
			if (n % 7 == i || n % 11 == 0)
				route_share_apply(A->r, 9, &all[i], f.now);
		ends[n % 40].hash ^= (uint64_t)n << 32;
		route_share_work(A->r, f.now);
		pass(&f, 1);
	}
	e = (struct share_entry){ .kind = SHARE_KINDS };
	route_share_apply(A->r, 9, &e, f.now);
	work_for(&f, 2000, 10);
	fleet_end(&f);
}

/* ---- at random ------------------------------------------------------------------------------ */

#define OPEN_MOST	60

struct running {
	char uid[16], server[8];
	unsigned by;
	msec first_at, done_at;
	bool streams, fails, first_told;
};

static struct running running[OPEN_MOST];
static unsigned n_running, n_asked;
static char history[20][24];

static void ask_one(struct rng *rng)
{
	unsigned c = rng_below(rng, 20), by = rng_below(rng, f.n);
	struct running *x = &running[n_running];
	size_t n = strlen(history[c]);

	if (n >= 12 || rng_below(rng, 15) == 0)
		n = (size_t)snprintf(history[c], sizeof(history[c]), "%c", 'A' + rng_below(rng, 4));
	history[c][n++] = (char)('a' + rng_below(rng, 26));
	history[c][n] = '\0';
	snprintf(x->uid, sizeof(x->uid), "u%u", n_asked++);
	ask(&f.a[by].w, x->uid, history[c]);
	if (f.a[by].w.a.server.n == 0)
		return;
	if (rng_below(rng, 20) == 0)		/* HAProxy asked another one too */
		ask(&f.a[(by + 1) % f.n].w, x->uid, history[c]);
	snprintf(x->server, sizeof(x->server), SPAN_FMT, SPAN_ARG(f.a[by].w.a.server));
	if (rng_below(rng, 12) == 0)		/* and it went elsewhere */
		snprintf(x->server, sizeof(x->server), "s%u", 1 + rng_below(rng, 4));
	x->by = by;
	x->streams = rng_below(rng, 3) > 0;
	x->fails = rng_below(rng, 12) == 0;
	x->first_at = f.now + rng_below(rng, 200);
	x->done_at = x->first_at + rng_below(rng, 400);
	x->first_told = false;
	n_running++;
}

/* Log lines go to all agents, messages to one. */
static void tell_end(struct running *x, struct rng *rng)
{
	struct fact l = served_fact(x->uid);
	unsigned start = rng_below(rng, f.n);

	l.line = true;
	l.server = span_str(x->server);
	l.total_ms = 500;
	l.bytes_out = 3000;
	if (x->fails) {
		l.status = 500;
		l.end = END_OK;
	}
	for (unsigned i = 0; i < f.n; i++)
		route_learn(f.a[(start + i) % f.n].w.r, &l, f.now);
}

static void go_on(struct rng *rng, bool ask_more)
{
	if (ask_more && n_running < OPEN_MOST && rng_below(rng, 3) == 0)
		ask_one(rng);
	for (unsigned i = 0; i < n_running; i++) {
		struct running *x = &running[i];

		if (!x->first_told && f.now >= x->first_at) {
			x->first_told = true;
			tell_first(&f.a[rng_below(rng, f.n)].w, x->uid, x->server, x->fails ? 500 : 200,
			    x->streams ? STREAM : "application/json");
		}
		if (f.now < x->done_at)
			continue;
		tell_end(x, rng);
		*x = running[--n_running];
		i--;
	}
}

static void assert_sound(void)
{
	for (unsigned i = 0; i < f.n; i++) {
		const char *broken = index_check(f.a[i].w.r->index);

		if (broken != NULL)
			fail_msg("index: %s", broken);
	}
}

static void run_at_random(
    unsigned seed, unsigned loss, unsigned twice, msec delay, const unsigned *capacity_pages)
{
	struct rng rng;

	fleet_begin(&f, 3);
	for (unsigned i = 0; i < 3; i++) {
		f.a[i].w.o.ledger_max_age_ms = 20000;
		f.a[i].w.o.pool_default.capacity = capacity_pages != NULL ? capacity_pages[i] * 16 : 0;
	}
	fleet_open(&f);
	rng_init(&rng, seed);
	rng_init(&f.rng, seed * 7 + 1);
	f.loss = loss;
	f.twice = twice;
	f.delay_most = delay;
	n_running = n_asked = 0;
	memset(history, 0, sizeof(history));
	for (unsigned step = 0; step < 1500; step++) {
		go_on(&rng, step < 1300);
		pass(&f, capacity_pages != NULL ? 30 : 3);
		if (step % 200 == 0)
			assert_sound();
	}
	while (n_running > 0) {
		go_on(&rng, false);
		pass(&f, 3);
	}
	f.loss = 0;
	/* requests whose fact was lost are closed by their age */
	work_for(&f, 30000, 50);
	for (unsigned i = 0; i < 3; i++)
		route_share_resync(f.a[i].w.r);
	work_for(&f, capacity_pages != NULL ? 15000 : 5000, 10);
	assert_sound();
	if (differing() != 0)
		fail_msg("seed %u, loss %u: %zu of %zu differ", seed, loss, differing(), pairs_held(&f.a[0]));
	if (pairs_held(&f.a[0]) <= (capacity_pages != NULL ? capacity_pages[0] : 1000))
		fail_msg("seed %u: only %zu held", seed, pairs_held(&f.a[0]));
	for (unsigned i = 0; i < 3; i++) {
		struct index_stats s;

		index_stats(f.a[i].w.r->index, &s);
		assert_int_equal(s.claims, 0);
		assert_int_equal(stats(&f.a[i].w).open, 0);
		assert_int_equal(share_stats(&f.a[i]).open, 0);
	}
	fleet_end(&f);
}

static unsigned seeds(void)
{
	const char *s = getenv("SHARE_SEEDS");

	return s != NULL ? (unsigned)atoi(s) : rounds(3, 1);
}

static void at_random(void **state)
{
	for (unsigned seed = 1; seed <= seeds(); seed++)
		run_at_random(seed, 0, 0, 0, NULL);
}

static void at_random_late_and_twice(void **state)
{
	for (unsigned seed = 1; seed <= seeds(); seed++)
		run_at_random(seed, 0, 300, 100, NULL);
}

static void at_random_with_loss(void **state)
{
	for (unsigned seed = 1; seed <= seeds(); seed++)
		run_at_random(seed, 100, 100, 50, NULL);
}

static void at_random_with_full_servers(void **state)
{
	for (unsigned seed = 1; seed <= seeds(); seed++) {
		run_at_random(seed, 0, 0, 20, (unsigned[]){ 300, 300, 300 });
		run_at_random(seed, 100, 100, 50, (unsigned[]){ 300, 300, 300 });
		run_at_random(seed, 100, 0, 20, (unsigned[]){ 250, 350, 450 });
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_lost_comes_again),
		cmocka_unit_test(nothing_to_do_costs_nothing),
		cmocka_unit_test(a_round_in_pieces_asks_for_no_other),
		cmocka_unit_test(a_new_agent_learns_all),
		cmocka_unit_test(a_partition_heals),
		cmocka_unit_test(an_anchor_that_is_wrong),
		cmocka_unit_test(full_servers_become_equal),
		cmocka_unit_test(different_capacities_become_equal),
		cmocka_unit_test(what_is_refused_is_asked_for_ever_later),
		cmocka_unit_test(a_cleared_cache_stays_clear),
		cmocka_unit_test(a_server_that_left_is_forgotten),
		cmocka_unit_test(a_server_of_one_haproxy_stays),
		cmocka_unit_test(a_standby_forgets_it_too),
		cmocka_unit_test(a_server_that_a_sibling_does_not_want),
		cmocka_unit_test(too_many_sums),
		cmocka_unit_test(old_digests_are_not_compared),
		cmocka_unit_test(learned_values_reach_a_new_agent),
		cmocka_unit_test(odd_entries),
		cmocka_unit_test(at_random),
		cmocka_unit_test(at_random_late_and_twice),
		cmocka_unit_test(at_random_with_loss),
		cmocka_unit_test(at_random_with_full_servers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
