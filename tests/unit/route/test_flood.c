/* test_flood.c - crafted uids, tenants, models, pools, server names and pages through the whole
 * core. */

#include "tests/unit/flood.h"
#include "tests/unit/route/world.h"

/* ---- the tables that find requests by uid ---------------------------------------------------- */

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
		w.q.load = SPAN("lb1/1;s1=1,5000,0,1");	/* or load strings without their connections close them */
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
		c = look_slices(&w.r->requests.slices);
		printf("waiting slices, uids of %s: %u in %u buckets, worst chain %u, %llu bytes\n",
		       flood_names[s], c.n, c.buckets, c.worst, (unsigned long long)w.r->requests.slices.bytes);
		assert_true(c.n > FLOOD_N / 4);
		assert_true(c.worst <= 16);
		world_end(&w);
	}
}

/* ---- all of a request ------------------------------------------------------------------------ */

/* A completions body of 256 token ids: sixteen pages of <set>. A client can write
 * any bytes as token ids; bad UTF-8 in a text becomes U+FFFD before it is hashed. */
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

/* Decide FLOOD_N / 16 requests, crafted in every part. Returns the number with why=cached. */
static unsigned requests(struct world *w, enum flood_set set, unsigned turn)
{
	uint8_t uid[FLOOD_MAX], name[FLOOD_MAX];
	unsigned cached = 0;

	w->q.path = SPAN("/v1/completions");
	for (unsigned i = 0; i < FLOOD_N / 16; i++) {
		size_t n = flood_message(set, i, uid), k = flood_message(set, i + FLOOD_N / 2, name);

		crafted_body(&w->body, set, i);
		uid[8] = (uint8_t)turn;		/* a byte that does not matter to the weak form */
		w->q.uid = span_of(uid, n);
		w->q.tenant = w->q.session = span_of(name, k);
		w->q.seq = -1;
		w->q.body = span_of(w->body.p, w->body.n);
		route_decide(w->r, w->s, &w->q, w->now, &w->a);
		assert_true(w->a.server.n > 0);
		cached += w->a.why == WHY_CACHED;
	}
	return cached;
}

#define TURNS	4

/* In the first turn every body is new to its tenant, so "cached" would mean another tenant's pages.
 * Later all are cached, like random ones. The cost is measured by bench_flood. */
static void crafted_bodies(void **state)
{
	unsigned cached[2] = { 0 };

	for (int which = 0; which < 2; which++) {
		enum flood_set set = which ? FLOOD_PAGE : FLOOD_RANDOM;
		struct world w;

		world_options(&w);
		w.o.max_pools = 4;
		world_open(&w);
		assert_int_equal(requests(&w, set, 0), 0);
		for (unsigned turn = 1; turn < TURNS; turn++)
			cached[which] += requests(&w, set, turn);
		world_end(&w);
	}
	assert_int_equal(cached[1], cached[0]);
	assert_true(cached[1] >= 256 * (TURNS - 1));
}

/* Pools and servers are in no hash table: they are searched in order, and their number is bounded.
 */
static void crafted_pools_and_servers(void **state)
{
	static struct text load;
	uint8_t m[FLOOD_MAX];
	struct world w;
	unsigned refused = 0;

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
	assert_true(w.r->fleet.pools[0]->n_servers <= SERVERS_MAX);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crafted_uids),
		cmocka_unit_test(crafted_uids_of_slices),
		cmocka_unit_test(crafted_bodies),
		cmocka_unit_test(crafted_pools_and_servers),
	};

	return cmocka_run_group_tests_name("route flood", tests, NULL, NULL);
}
