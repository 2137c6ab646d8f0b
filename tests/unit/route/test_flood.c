/* test_flood.c - crafted uids, tenants, models, pools, server names and pages through the whole core. */
#include <time.h>

#include "tests/unit/flood.h"
#include "tests/unit/route/world.h"

/* ---- the tables that know requests by uid ---------------------------------------------------- */

struct chains { unsigned worst, n, buckets; };

static struct chains look_ledger(const struct ledger *l)
{
	struct chains c = { .buckets = (unsigned)l->n_buckets };

	for (size_t i = 0; i < l->n_buckets; i++) {
		unsigned len = 0;

		for (const struct ledger_entry *e = l->table[i]; e != NULL; e = e->chain)
			len++;
		c.worst = len > c.worst ? len : c.worst;
		c.n += len;
	}
	return c;
}

static struct chains look_slices(const struct slices *t)
{
	struct chains c = { .buckets = SLICE_BUCKETS };

	for (size_t i = 0; i < SLICE_BUCKETS; i++) {
		unsigned len = 0;

		for (const struct sliced *s = t->table[i]; s != NULL; s = s->chain)
			len++;
		c.worst = len > c.worst ? len : c.worst;
		c.n += len;
	}
	return c;
}

static void send_uid(struct world *w, enum flood_set set, unsigned i, int64_t seq)
{
	uint8_t m[FLOOD_MAX];
	size_t n = flood_message(set, i, m);

	w->q.uid = span_of(m, n);
	w->q.seq = seq;
	route_decide(w->r, w->s, &w->q, w->now, &w->a);
}

static void crafted_uids(void **state)
{
	for (enum flood_set s = 0; s <= FLOOD_RANDOM; s++) {
		struct world w;
		struct chains c;

		world_start(&w);
		chat(&w.body, "", "a", ",\"model\":\"m\"");
		w.q.body = span_of(w.body.p, w.body.n);
		w.q.load = SPAN("lb1/1;s1=1,5000,0,1");	/* or the connections that are not there close them */
		for (unsigned i = 0; i < FLOOD_N; i++)
			send_uid(&w, s, i, -1);
		c = look_ledger(&w.r->ledger);
		printf("open requests, uids of %s: %u in %u buckets, worst chain %u\n", flood_names[s], c.n,
		       c.buckets, c.worst);
		assert_int_equal(c.n, FLOOD_N);
		assert_true(c.worst <= 16);
		world_end(&w);
	}
}

static void crafted_uids_of_slices(void **state)
{
	for (enum flood_set s = 0; s <= FLOOD_RANDOM; s++) {
		struct world w;
		struct chains c;

		world_start(&w);
		w.q.body = SPAN("{\"messages\":[{\"role\":\"user\",\"content\":\"half of a body");
		w.q.visible = 1000;
		w.q.whole = 1000;
		for (unsigned i = 0; i < FLOOD_N; i++)
			send_uid(&w, s, i, 0);
		c = look_slices(&w.r->slices);
		printf("waiting slices, uids of %s: %u in %u buckets, worst chain %u, %llu bytes\n",
		       flood_names[s], c.n, c.buckets, c.worst, (unsigned long long)w.r->slices.bytes);
		assert_true(c.n > FLOOD_N / 4);
		assert_true(c.worst <= 16);
		world_end(&w);
	}
}

/* ---- all of a request ------------------------------------------------------------------------ */

/* A completions body of 256 token ids: sixteen pages of <set>. Token ids are what a client can write any
 * bytes with; bad UTF-8 in a text becomes U+FFFD before it is hashed. */
static void crafted_body(struct text *t, enum flood_set set, unsigned i)
{
	uint8_t m[FLOOD_MAX];
	uint32_t id;

	t->n = 0;
	say(t, "{\"model\":\"m\",\"prompt\":[");
	for (unsigned k = 0; k < 16; k++) {
		assert_int_equal(flood_message(set, (i * 16 + k) % FLOOD_N, m), 64);
		for (unsigned at = 0; at < 64; at += 4) {
			memcpy(&id, m + at, 4);
			say(t, "%s%u", k + at ? "," : "", id);
		}
	}
	say(t, "]}");
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Decides FLOOD_N / 16 requests, crafted in every part. Gives the time, and how many were told "cached". */
static double requests(struct world *w, enum flood_set set, unsigned turn, unsigned *cached)
{
	uint8_t uid[FLOOD_MAX], name[FLOOD_MAX];
	double start, sum = 0;

	w->q.path = SPAN("/v1/completions");
	for (unsigned i = 0; i < FLOOD_N / 16; i++) {
		size_t n = flood_message(set, i, uid), k = flood_message(set, i + FLOOD_N / 2, name);

		crafted_body(&w->body, set, i);
		uid[8] = (uint8_t)turn;		/* a byte that does not matter to the weak form */
		w->q.uid = span_of(uid, n);
		w->q.tenant = w->q.session = span_of(name, k);
		w->q.seq = -1;
		w->q.body = span_of(w->body.p, w->body.n);
		start = seconds();
		route_decide(w->r, w->s, &w->q, w->now, &w->a);
		sum += seconds() - start;
		assert_true(w->a.server.n > 0);
		*cached += w->a.why == WHY_CACHED;
	}
	return sum;
}

#define TURNS	12

/* Loose, as the machine may be shared; the bench prints the figure. In the first turn every body is new to
 * its tenant: one that is told "cached" would have met another's pages. */
static void throughput(void **state)
{
	double best[2] = { 1e9, 1e9 };
	unsigned cached[2] = { 0 };

	for (int which = 0; which < 2; which++) {
		enum flood_set set = which ? FLOOD_PAGE : FLOOD_RANDOM;
		struct world w;

		world_options(&w);
		w.o.max_pools = 4;
		world_open(&w);
		for (unsigned turn = 0; turn < TURNS; turn++) {
			double t = requests(&w, set, turn, &cached[which]);

			best[which] = t < best[which] ? t : best[which];
			if (turn == 0)
				assert_int_equal(cached[which], 0);
		}
		world_end(&w);
	}
	printf("256 requests of 16 pages, tenants and uids crafted: %.0f us, random %.0f us, throughput %.2f of "
	       "random\n", best[1] * 1e6, best[0] * 1e6, best[0] / best[1]);
	assert_int_equal(cached[1], cached[0]);
	assert_true(cached[1] >= 256 * (TURNS - 1));
	assert_true(best[1] < best[0] * 2);
}

/* Pools and servers are in no hash table: they are looked through, and their number has an end. */
static void crafted_pools_and_servers(void **state)
{
	static struct text load;
	uint8_t m[FLOOD_MAX];
	struct world w;
	unsigned refused = 0;
	double start, best;

	world_options(&w);
	w.o.max_pools = 8;
	world_open(&w);
	chat(&w.body, "", "a", ",\"model\":\"m\"");
	for (unsigned i = 0; i < 64; i++) {
		size_t n = flood_message(FLOOD_PAGE, i, m);

		w.q.pool = span_of(m, n);
		send(&w, "u");
		refused += w.a.why == WHY_NOLOAD;
	}
	assert_int_equal(refused, 64 - 8);
	assert_int_equal(stats(&w).pools_refused, 64 - 8);
	load.n = 0;
	say(&load, "lb/1");
	for (unsigned i = 1500; i-- > 0;)
		say(&load, ";x%u=1,0,0,1", i * 7 % 1500);
	w.q.pool = span_of(m, flood_message(FLOOD_PAGE, 0, m));
	w.q.load = span_of(load.p, load.n);
	send(&w, "v");
	best = 1e9;
	for (unsigned i = 0; i < 10; i++) {
		start = seconds();
		send(&w, "v");
		best = seconds() - start < best ? seconds() - start : best;
	}
	printf("1500 servers named: %u known, %.0f us a request\n",
	       (unsigned)(w.r->fleet.pools[0]->n_servers), best * 1e6);
	assert_true(w.r->fleet.pools[0]->n_servers <= SERVERS_MAX);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crafted_uids),
		cmocka_unit_test(crafted_uids_of_slices),
		cmocka_unit_test(throughput),
		cmocka_unit_test(crafted_pools_and_servers),
	};

	return cmocka_run_group_tests_name("route flood", tests, NULL, NULL);
}
