/* Histograms, one for each pool, and the one of all decisions. Figures are copied first, because
 * the lock of the core is held while pools are visited. Those of threads are added up.
 *
 * Exemplars name decisions by their numbers, so a request whose record is gone is none. */
#include "agent/base/histogram.h"
#include "agent/loop/metrics_in.h"
#include "agent/loop/worker_in.h"

/* One pool: its label, as text that ends with a NUL byte, and its figures. */
struct pool_bars {
	struct buf label;
	struct wait_line wait;
	struct histogram first, request;	/* ms */
	struct histogram us, tokens;
};

struct all_bars {
	VEC(struct pool_bars) pool;
	bool failed;
};

static void add_pool(void *arg, const struct route_pool_view *v)
{
	struct all_bars *all = arg;
	struct pool_bars *b;

	if (vec_push(&all->pool, (struct pool_bars){ .wait = *v->wait }) < 0) {
		all->failed = true;
		return;
	}
	b = &all->pool.p[all->pool.n - 1];
	page_label(&b->label, "pool", span_str(v->name));
	buf_add(&b->label, "", 1);
	all->failed |= b->label.failed;
	b->first = *v->first;
	b->request = *v->request;
}

/* Add what thread <w> has of the pools. */
static void add_thread(const struct worker *w, struct all_bars *all)
{
	for (size_t i = 0; i < all->pool.n && i < SERVE_POOLS_MAX; i++) {
		const struct serve_pool *p = __atomic_load_n(&w->pools.of[i], __ATOMIC_ACQUIRE);

		if (p == NULL)
			continue;
		histogram_merge(&all->pool.p[i].us, &p->us);
		histogram_merge(&all->pool.p[i].tokens, &p->tokens);
	}
}

/* Replace hashes of uids by numbers of decisions. */
static void number_exemplars(struct route *r, struct histogram *h)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		if (h->who[i] != 0)
			h->who[i] = route_decision_of(r, h->who[i]);
}

/* Leave out decisions whose record is gone, because why cannot explain them. */
static void keep_exemplars(struct route *r, struct histogram *h)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		if (h->who[i] != 0 && !route_decision_kept(r, h->who[i]))
			h->who[i] = 0;
}

static void write_scaled(struct metric_page *t, enum metric m, const char *label,
    const struct histogram *h, const uint32_t *bounds, double unit)
{
	double bound[HISTOGRAM_BUCKETS], value[HISTOGRAM_BUCKETS];
	const struct metric_bars bars = {
		.label = label, .n = HISTOGRAM_BUCKETS, .bounds = bound, .bucket = h->bucket,
		.sum = (double)h->sum / unit, .decision = h->who, .value = value,
	};

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		bound[i] = i + 1 < HISTOGRAM_BUCKETS ? (double)bounds[i] / unit : 0;
		value[i] = (double)h->value[i] / unit;
	}
	metric_histogram(t, m, &bars);
}

static void write_wait(struct metric_page *t, const struct pool_bars *b)
{
	const struct metric_bars bars = {
		.label = b->label.p, .n = WAIT_BUCKETS, .bounds = wait_bounds, .bucket = b->wait.bucket,
		.sum = b->wait.ratios,
	};

	metric_histogram(t, M_pool_wait_ratio, &bars);
}

static void write_first(struct metric_page *t, const struct pool_bars *b)
{
	write_scaled(t, M_pool_first_token_seconds, b->label.p, &b->first, route_first_ms, 1e3);
}

static void write_request(struct metric_page *t, const struct pool_bars *b)
{
	write_scaled(t, M_pool_request_seconds, b->label.p, &b->request, route_request_ms, 1e3);
}

static void write_decision(struct metric_page *t, const struct pool_bars *b)
{
	write_scaled(t, M_pool_decision_seconds, b->label.p, &b->us, serve_us_bounds, 1e6);
}

static void write_tokens(struct metric_page *t, const struct pool_bars *b)
{
	write_scaled(t, M_pool_prompt_tokens, b->label.p, &b->tokens, serve_token_bounds, 1);
}

static const struct {
	enum metric metric;
	void (*write)(struct metric_page *t, const struct pool_bars *b);
} histograms[] = {
	{ M_pool_wait_ratio, write_wait },
	{ M_pool_first_token_seconds, write_first },
	{ M_pool_request_seconds, write_request },
	{ M_pool_decision_seconds, write_decision },
	{ M_pool_prompt_tokens, write_tokens },
};

static void gather(struct metric_page *t, const struct agent *a, struct all_bars *all)
{
	*all = (struct all_bars){ .failed = false };
	route_each_pool(a->route, add_pool, all);
	for (unsigned i = 0; i < a->n_workers; i++)
		add_thread(a->worker[i], all);
	for (size_t i = 0; i < all->pool.n && t->openmetrics; i++) {
		number_exemplars(a->route, &all->pool.p[i].first);
		number_exemplars(a->route, &all->pool.p[i].request);
		keep_exemplars(a->route, &all->pool.p[i].us);
		keep_exemplars(a->route, &all->pool.p[i].tokens);
	}
	t->t->failed |= all->failed;
}

static void all_bars_free(struct all_bars *all)
{
	for (size_t i = 0; i < all->pool.n; i++)
		buf_free(&all->pool.p[i].label);
	vec_free(&all->pool);
}

void metrics_write_histograms(struct metric_page *t, const struct agent *a)
{
	struct all_bars all;

	gather(t, a, &all);
	for (size_t h = 0; all.pool.n > 0 && h < sizeof(histograms) / sizeof(histograms[0]); h++) {
		metric_family(t, histograms[h].metric);
		for (size_t i = 0; i < all.pool.n && !t->t->failed; i++)
			histograms[h].write(t, &all.pool.p[i]);
	}
	all_bars_free(&all);
}

/* Of all messages, also those that found no pool. Its exemplars are those of the pools. */
void metrics_write_decisions(
    struct metric_page *t, const struct agent *a, const struct serve_counters *c)
{
	struct histogram h = { .sum = 0 };

	for (unsigned i = 0; i < a->n_workers && t->openmetrics; i++)
		for (unsigned k = 0; k < SERVE_POOLS_MAX; k++) {
			const struct serve_pool *p = __atomic_load_n(&a->worker[i]->pools.of[k], __ATOMIC_ACQUIRE);

			if (p != NULL)
				histogram_merge(&h, &p->us);
		}
	if (t->openmetrics)
		keep_exemplars(a->route, &h);
	memcpy(h.bucket, c->us_bucket, sizeof(h.bucket));
	h.sum = c->us_sum;
	metric_family(t, M_decision_seconds);
	write_scaled(t, M_decision_seconds, "", &h, serve_us_bounds, 1e6);
}
