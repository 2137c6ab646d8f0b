/* Histograms, one for each pool. They are copied first, because the lock of the core is held while
 * pools are visited. */
#include "agent/loop/metrics_in.h"

/* The label of one pool as text that ends with a NUL byte, and its figures. */
struct pool_bars {
	struct buf label;
	struct wait_line wait;
};

struct all_bars {
	VEC(struct pool_bars) pool;
	bool failed;
};

static void add_pool(void *arg, const struct route_pool_view *v)
{
	struct all_bars *all = arg;
	struct pool_bars b = { .wait = *v->wait };

	page_label(&b.label, "pool", span_str(v->name));
	buf_add(&b.label, "", 1);
	if (b.label.failed || vec_push(&all->pool, b) < 0) {
		buf_free(&b.label);
		all->failed = true;
	}
}

static void write_wait(struct metric_page *t, const struct pool_bars *b)
{
	const struct metric_bars bars = {
		.label = b->label.p, .n = WAIT_BUCKETS, .bounds = wait_bounds, .bucket = b->wait.bucket,
		.sum = b->wait.ratios,
	};

	metric_histogram(t, M_pool_wait_ratio, &bars);
}

static const struct {
	enum metric metric;
	void (*write)(struct metric_page *t, const struct pool_bars *b);
} histograms[] = {
	{ M_pool_wait_ratio, write_wait },
};

void metrics_write_histograms(struct metric_page *t, struct route *r)
{
	struct all_bars all = { .failed = false };

	route_each_pool(r, add_pool, &all);
	t->t->failed |= all.failed;
	for (size_t h = 0; all.pool.n > 0 && h < sizeof(histograms) / sizeof(histograms[0]); h++) {
		metric_family(t, histograms[h].metric);
		for (size_t i = 0; i < all.pool.n; i++)
			histograms[h].write(t, &all.pool.p[i]);
	}
	for (size_t i = 0; i < all.pool.n; i++)
		buf_free(&all.pool.p[i].label);
	vec_free(&all.pool);
}
