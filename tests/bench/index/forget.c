/* forget.c - the cost of forgetting half of everything, and all of one server. The longest single
 * call is printed beside the total, because a request may have to wait for it. */
#include "tests/bench/index/bench.h"

#define BIG_PAGES	4096u		/* of a prompt that evicts others */
#define CALLS_MAX	(1u << 20)

/* Every pass makes the same calls, so the least of all passes counts for each of them. */
struct calls {
	struct series t;
	size_t n;			/* calls of this pass */
	uint64_t records, pages;	/* evicted: the most of one call, which no load of the machine changes */
};

static void calls_init(struct calls *c)
{
	series_init(&c->t, CALLS_MAX);
	c->n = 0;
	c->records = c->pages = 0;
}

static void add_call(struct calls *c, uint64_t t)
{
	if (c->n == CALLS_MAX) {
		fprintf(stderr, "bench_index: more than %u calls to forget\n", CALLS_MAX);
		exit(1);
	}
	series_put(&c->t, c->n++, t);
}

static uint64_t longest(const struct calls *c)
{
	uint64_t most = 0;
	size_t i;

	for (i = 0; i < c->n; i++)
		most = c->t.least[i] > most ? c->t.least[i] : most;
	return most;
}

static uint64_t total(const struct calls *c)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < c->n; i++)
		sum += c->t.least[i];
	return sum;
}

static void slices(struct door *d, struct calls *c)
{
	struct door_stats st, before;
	bool more = true;
	uint64_t t;

	door_stats(d, &before);
	while (more) {
		t = ticks();
		more = door_slice(d, 0);
		add_call(c, ticks() - t);
		door_stats(d, &st);
		if (st.evicted_records - before.evicted_records > c->records)
			c->records = st.evicted_records - before.evicted_records;
		if (st.evicted_pages - before.evicted_pages > c->pages)
			c->pages = st.evicted_pages - before.evicted_pages;
		before = st;
	}
}

static server_id largest(struct bench *b, struct door *d)
{
	server_id best = 0;
	uint32_t i;

	for (i = 1; i < b->n_servers; i++)
		if (door_server_pages(d, (server_id)i) > door_server_pages(d, best))
			best = (server_id)i;
	return best;
}

void forget_drop(struct bench *b, const char *name, void (*fill)(struct bench *b, struct door *d))
{
	struct door_stats before = { 0 }, after = { 0 };
	uint64_t pages = 0, t;
	struct calls c;
	struct door d;
	uint32_t rep;
	server_id s;

	calls_init(&c);
	for (rep = 0; rep < b->reps; rep++) {
		bench_open(b, &d, b->budget);
		fill(b, &d);
		s = largest(b, &d);
		pages = door_server_pages(&d, s);
		door_stats(&d, &before);
		c.n = 0;
		t = ticks();
		door_drop(&d, s);
		add_call(&c, ticks() - t);
		slices(&d, &c);
		door_stats(&d, &after);
		if (door_server_pages(&d, s) != 0) {
			fprintf(stderr, "bench_index: %s: a server that was dropped holds pages\n", name);
			exit(1);
		}
		door_close(&d);
	}
	printf(
	    "bench index_drop workload=%s servers=%u page=%u server_tokens=%llu records=%llu "
	    "total_us=%.1f "
	    "longest_us=%.1f calls=%zu ns_per_record=%.0f\n",
	    name, b->n_servers, b->w.page, (unsigned long long)pages * b->w.page,
	    (unsigned long long)(before.records - after.records), bench_ns(b, total(&c)) / 1e3,
	    bench_ns(b, longest(&c)) / 1e3, c.n,
	    bench_ns(b, total(&c)) / (double)(before.records - after.records));
	series_fini(&c.t);
}

static void say_evict(
    struct bench *b, const char *how, const struct calls *c, uint64_t records, double ns)
{
	printf(
	    "bench index_evict workload=%s servers=%u page=%u how=%s records=%llu ns_per_record=%.0f "
	    "longest_us=%.1f "
	    "most_records=%llu most_pages=%llu calls=%zu\n",
	    b->name, b->n_servers, b->w.page, how, (unsigned long long)records,
	    ns / (double)records, bench_ns(b, longest(c)) / 1e3, (unsigned long long)c->records,
	    (unsigned long long)c->pages, c->n);
}

/* Commit large prompts that no other server has, until <records> were evicted or <calls> are
 * done. */
static void push(struct bench *b, struct door *d, uint64_t records, size_t calls, struct calls *c)
{
	size_t n = (size_t)BIG_PAGES * b->w.page;
	uint32_t *p = measure_must(calloc(n, sizeof(*p)));
	struct door_stats before, st;
	struct door_at at;
	uint64_t t;

	if (door_at_init(&at, BIG_PAGES) < 0)
		measure_must(NULL);
	door_stats(d, &before);
	c->n = 0;
	do {
		p[0] = UINT32_MAX - (uint32_t)c->n;
		door_keys(&at, &b->key, p, n, b->w.page);
		door_match(d, &at);
		t = ticks();
		door_commit(d, &at, (server_id)(c->n % b->n_servers), 0);
		add_call(c, ticks() - t);
		door_confirm(d, &at, 0);
		door_stats(d, &st);
	} while (c->n < calls && st.evicted_records - before.evicted_records < records);
	door_at_fini(&at);
	free(p);
}

/* Evict by commits only: a full budget and large prompts; less their cost with room. */
static void evict_by_commits(struct bench *b)
{
	struct door_stats before = { 0 }, after = { 0 };
	struct calls full, roomy;
	struct door d;
	uint32_t rep;

	calls_init(&full);
	calls_init(&roomy);
	for (rep = 0; rep < b->reps; rep++) {
		bench_open(b, &d, b->first.bytes);
		replay_fill(b, &d);
		door_stats(&d, &before);
		push(b, &d, before.records / 2, CALLS_MAX, &full);
		door_stats(&d, &after);
		door_close(&d);
		bench_open(b, &d, b->budget * 2);
		push(b, &d, UINT64_MAX, full.n, &roomy);
		door_close(&d);
	}
	say_evict(b, "commits", &full, after.evicted_records - before.evicted_records,
		  bench_ns(b, total(&full)) - bench_ns(b, total(&roomy)));
	series_fini(&full.t);
	series_fini(&roomy.t);
}

/* Returns false if the index cannot do it. */
static bool evict_half(struct bench *b)
{
	struct door_stats before = { 0 }, after = { 0 };
	bool can = true;
	struct calls c;
	struct door d;
	uint32_t rep;

	calls_init(&c);
	for (rep = 0; rep < b->reps && can; rep++) {
		bench_open(b, &d, b->budget);
		replay_fill(b, &d);
		door_stats(&d, &before);
		c.n = 0;
		if ((can = door_halve(&d)))
			slices(&d, &c);
		door_stats(&d, &after);
		door_close(&d);
	}
	if (can)
		say_evict(b, "slices", &c, before.records - after.records, bench_ns(b, total(&c)));
	series_fini(&c.t);
	return can;
}

void forget_run(struct bench *b)
{
	forget_drop(b, b->name, replay_fill);
	if (!evict_half(b))
		evict_by_commits(b);
}
