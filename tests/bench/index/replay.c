/* replay.c - replay a workload into an empty index.
 *
 * Match, commit and confirm are timed apart in some replays, and together in others, where the
 * clock is read only twice for an operation. Of each operation the least time of all its replays
 * counts. */
#include "tests/bench/index/bench.h"
#include "tests/bench/index/model.h"

#define BUDGET_FIRST	((size_t)16 << 20)
#define BUDGET_LAST	((size_t)16 << 30)

enum kind { APART, FUSED, FUSED_CONFIRM, KINDS };

struct times {
	struct series match, commit, confirm, fused, fused_confirm, full_hit;
};

static void one_apart(struct bench *b, struct door *d, size_t i, struct times *s)
{
	const struct pbw1_op *op = &b->w.ops[i];
	uint64_t t0, t1, t2, t3;

	bench_keys(b, &b->at, op);
	t0 = ticks();
	b->matched[i] = door_match(d, &b->at);
	t1 = ticks();
	door_commit(d, &b->at, bench_server(b, op), (msec)i);
	t2 = ticks();
	door_confirm(d, &b->at, (msec)i);
	t3 = ticks();
	series_put(&s->match, i, t1 - t0);
	series_put(&s->commit, i, t2 - t1);
	series_put(&s->confirm, i, t3 - t2);
}

static void one_fused(struct bench *b, struct door *d, size_t i, struct times *s)
{
	const struct pbw1_op *op = &b->w.ops[i];
	uint64_t t;

	bench_keys(b, &b->at, op);
	t = ticks();
	b->matched[i] = door_match(d, &b->at);
	door_commit(d, &b->at, bench_server(b, op), (msec)i);
	series_put(&s->fused, i, ticks() - t);
	door_confirm(d, &b->at, (msec)i);
}

static void one_fused_confirm(struct bench *b, struct door *d, size_t i, struct times *s)
{
	const struct pbw1_op *op = &b->w.ops[i];
	uint64_t t;

	bench_keys(b, &b->at, op);
	t = ticks();
	b->matched[i] = door_match(d, &b->at);
	door_commit(d, &b->at, bench_server(b, op), (msec)i);
	door_confirm(d, &b->at, (msec)i);
	series_put(&s->fused_confirm, i, ticks() - t);
}

void replay_fill(struct bench *b, struct door *d)
{
	const struct pbw1_op *op;
	size_t i;

	for (i = 0; i < b->w.n_ops; i++) {
		op = &b->w.ops[i];
		bench_keys(b, &b->at, op);
		b->matched[i] = door_match(d, &b->at);
		door_commit(d, &b->at, bench_server(b, op), (msec)i);
		door_confirm(d, &b->at, (msec)i);
	}
}

void replay_totals(struct bench *b, struct door *d, struct totals *t)
{
	struct door_stats st;
	size_t i;

	door_stats(d, &st);
	*t = (struct totals){ .unique = st.pages, .nodes = st.nodes, .records = st.records,
			      .bytes = st.bytes, .empty_bytes = st.empty_bytes };
	for (i = 0; i < b->w.n_ops; i++)
		t->matched += b->matched[i];
	for (i = 0; i < b->n_servers; i++)
		t->owned += door_server_pages(d, (server_id)i);
}

/* Find the least budget, doubling, without an eviction. This also warms up. */
void replay_size(struct bench *b)
{
	struct door_stats st;
	struct door d;

	for (b->budget = BUDGET_FIRST; b->budget <= BUDGET_LAST; b->budget *= 2) {
		bench_open(b, &d, b->budget);
		replay_fill(b, &d);
		door_stats(&d, &st);
		replay_totals(b, &d, &b->first);
		door_close(&d);
		if (st.evicted_records == 0 && st.refused == 0)
			return;
	}
	fprintf(stderr, "bench_index: %s: does not fit in %zu MiB\n", b->name, BUDGET_LAST >> 20);
	exit(1);
}

static int agree(const struct bench *b, const struct totals *t)
{
	if (t->matched == b->first.matched && t->owned == b->first.owned && t->unique == b->first.unique)
		return 0;
	fprintf(stderr,
	    "bench_index: %s: two replays differ: matched %llu and %llu pages, owned %llu and %llu\n",
	    b->name, (unsigned long long)b->first.matched, (unsigned long long)t->matched,
	    (unsigned long long)b->first.owned, (unsigned long long)t->owned);
	return -1;
}

/* Every prompt is found whole. */
static void full_hits(struct bench *b, struct door *d, struct times *s)
{
	const struct pbw1_op *op;
	uint32_t rep, depth;
	uint64_t t;
	size_t i;

	for (rep = 0; rep < b->reps; rep++)
		for (i = 0; i < b->w.n_ops; i++) {
			op = &b->w.ops[i];
			bench_keys(b, &b->at, op);
			t = ticks();
			depth = door_match(d, &b->at);
			series_put(&s->full_hit, i, ticks() - t);
			if (depth != op->n / b->w.page) {
				fprintf(stderr, "bench_index: %s: operation %zu is not found whole\n",
					b->name, i + 1);
				exit(1);
			}
		}
}

static int replays(struct bench *b, struct times *s)
{
	static void (*const one[KINDS])(struct bench *, struct door *, size_t, struct times *) = {
		one_apart, one_fused, one_fused_confirm
	};
	struct totals t;
	struct door d;
	uint32_t rep, k;
	size_t i;
	int rc = 0;

	for (rep = 0; rep < b->reps; rep++)
		for (k = 0; k < KINDS; k++) {
			bench_open(b, &d, b->budget);
			for (i = 0; i < b->w.n_ops; i++)
				one[k](b, &d, i, s);
			replay_totals(b, &d, &t);
			rc |= agree(b, &t);
			if (rep == 0 && k == 0)
				full_hits(b, &d, s);
			door_close(&d);
		}
	return rc;
}

/* ---- the floor: the same keys only read, as warm and under the same clock ---- */

enum part { MATCHED, NEW, ALL, PARTS };

struct floors {
	struct series read[PARTS];
	struct series hash;		/* of the pages of the prompt: the cost of the keys in the agent's scanner */
};

static void time_read(struct floors *f, enum part part, size_t i, const page_key *keys, size_t n)
{
	uint64_t t = ticks();

	measure_keep(measure_read(keys, n));
	series_put(&f->read[part], i, ticks() - t);
}

static void time_floors(struct bench *b, struct floors *f, size_t i)
{
	const struct pbw1_op *op = &b->w.ops[i];
	uint32_t n = op->n / b->w.page, hit = b->matched[i];
	uint64_t t;

	bench_keys(b, &b->at, op);
	t = ticks();
	bench_keys(b, &b->at, op);
	series_put(&f->hash, i, ticks() - t);
	/* a match that ends early has read the key where it ends */
	time_read(f, MATCHED, i, b->at.keys, hit < n ? hit + 1 : n);
	time_read(f, NEW, i, b->at.keys + hit, n - hit);
	time_read(f, ALL, i, b->at.keys, n);
}

static void floors_init(struct floors *f, size_t n)
{
	int k;

	for (k = 0; k < PARTS; k++)
		series_init(&f->read[k], n);
	series_init(&f->hash, n);
}

static void floors_fini(struct floors *f)
{
	int k;

	for (k = 0; k < PARTS; k++)
		series_fini(&f->read[k]);
	series_fini(&f->hash);
}

/* ---- output ---- */

static void say_head(const struct bench *b, const char *line)
{
	printf("bench %s workload=%s servers=%u page=%u ", line, b->name, b->n_servers, b->w.page);
}

static void say_op(
    struct bench *b, const char *op, const struct series *s, const struct floors *f, int part)
{
	struct summary r = series_sum(s, b->clock.ns), rd;

	say_head(b, "index");
	printf("op=%s mean_ns=%.0f p50_ns=%.0f p99_ns=%.0f", op, r.mean, r.p50, r.p99);
	if (part < PARTS) {
		rd = series_sum(&f->read[part], b->clock.ns);
		printf(" read_ns=%.0f share_of_read=%.2f", rd.mean, rd.mean / r.mean);
	}
	printf("\n");
}

static void say_totals(const struct bench *b)
{
	const struct totals *t = &b->first;
	uint64_t asked = 0;
	size_t i;

	for (i = 0; i < b->w.n_ops; i++)
		asked += b->w.ops[i].n;
	say_head(b, "index");
	printf(
	    "ops=%llu tokens=%llu matched_tokens=%llu matched_share=%.3f "
	    "owned_tokens=%llu unique_pages=%llu "
	    "nodes=%llu records=%llu\n",
	    (unsigned long long)b->w.n_ops, (unsigned long long)asked,
	    (unsigned long long)t->matched * b->w.page,
	    asked ? (double)(t->matched * b->w.page) / (double)asked : 0,
	    (unsigned long long)t->owned * b->w.page, (unsigned long long)t->unique,
	    (unsigned long long)t->nodes, (unsigned long long)t->records);
	say_head(b, "index_bytes");
	printf(
	    "per_page=%.2f per_page_with_empty_index=%.2f bytes=%llu empty_bytes=%llu budget_mib=%zu\n",
	    (double)(t->bytes - t->empty_bytes) / (double)t->unique,
	    (double)t->bytes / (double)t->unique, (unsigned long long)t->bytes,
	    (unsigned long long)t->empty_bytes, b->budget >> 20);
}

static void say_limits(struct bench *b, const struct floors *f)
{
	say_head(b, "index_limits");
	printf("whole_prompt hash_pages_ns=%.0f read_keys_ns=%.0f\n",
	    series_sum(&f->hash, b->clock.ns).mean, series_sum(&f->read[ALL], b->clock.ns).mean);
}

static void times_each(struct times *s, size_t n, void (*f)(struct series *s, size_t n))
{
	f(&s->match, n);
	f(&s->commit, n);
	f(&s->confirm, n);
	f(&s->fused, n);
	f(&s->fused_confirm, n);
	f(&s->full_hit, n);
}

static void fini_one(struct series *s, size_t n)
{
	series_fini(s);
}

int replay_run(struct bench *b)
{
	struct floors f;
	struct times s;
	uint32_t rep;
	size_t i;
	int rc;

	times_each(&s, b->w.n_ops, series_init);
	floors_init(&f, b->w.n_ops);
	rc = replays(b, &s);
	for (rep = 0; rep < b->reps; rep++)
		for (i = 0; i < b->w.n_ops; i++)
			time_floors(b, &f, i);
	say_totals(b);
	say_op(b, "match", &s.match, &f, MATCHED);
	say_op(b, "commit", &s.commit, &f, NEW);
	say_op(b, "confirm", &s.confirm, &f, PARTS);
	say_op(b, "match+commit", &s.fused, &f, ALL);
	say_op(b, "match+commit+confirm", &s.fused_confirm, &f, ALL);
	say_op(b, "full_hit", &s.full_hit, &f, ALL);
	say_limits(b, &f);
	times_each(&s, 0, fini_one);
	floors_fini(&f);
	return rc;
}

/* ---- comparison with the model ---- */

/* Returns true if every server's depth is the model's. */
static bool same_depths(
    const struct bench *b, const uint32_t *depth, uint32_t most, uint32_t matched, size_t i)
{
	uint32_t s, got;

	if (matched != most) {
		printf("operation %zu: matched %u pages, the model %u\n", i + 1, matched, most);
		return false;
	}
	for (s = 0; s < b->n_servers; s++)
		if ((got = door_depth(&b->at, (server_id)s)) != depth[s]) {
			printf("operation %zu: server %u holds %u pages, the model says %u\n", i + 1, s, got,
			       depth[s]);
			return false;
		}
	return true;
}

int replay_check(struct bench *b)
{
	struct model *m = model_new(b->w.page, b->n_servers, b->w.n_tokens / b->w.page);
	uint32_t *depth = measure_must(calloc(SERVERS_MAX + 64, sizeof(*depth)));
	const struct pbw1_op *op;
	struct totals t;
	uint64_t wrong = 0;
	struct door d;
	size_t i;

	bench_open(b, &d, b->budget);
	for (i = 0; i < b->w.n_ops && wrong < 10; i++) {
		op = &b->w.ops[i];
		bench_keys(b, &b->at, op);
		b->matched[i] = door_match(&d, &b->at);
		wrong += !same_depths(b, depth, model_match(m, op->tokens, op->n, depth), b->matched[i], i);
		door_commit(&d, &b->at, bench_server(b, op), (msec)i);
		door_confirm(&d, &b->at, (msec)i);
		model_add(m, op->tokens, op->n, bench_server(b, op));
	}
	replay_totals(b, &d, &t);
	wrong += t.owned != model_owned_pages(m) || t.unique != model_unique_pages(m);
	say_head(b, "index_check");
	printf(
	    "ops=%zu matched_tokens=%llu owned_tokens=%llu model_owned_tokens=%llu unique_pages=%llu "
	    "model_unique_pages=%llu exact=%s\n",
	    i, (unsigned long long)t.matched * b->w.page, (unsigned long long)t.owned * b->w.page,
	    (unsigned long long)model_owned_pages(m) * b->w.page, (unsigned long long)t.unique,
	    (unsigned long long)model_unique_pages(m), wrong ? "no" : "yes");
	door_close(&d);
	model_free(m);
	free(depth);
	return wrong ? -1 : 0;
}

/* ---- for an instruction counter ---- */

#define NAMED	__attribute__((noinline, used))

NAMED void few_match(struct bench *b, struct door *d);
NAMED void few_commit(struct bench *b, struct door *d, const struct pbw1_op *op);
NAMED void few_confirm(struct bench *b, struct door *d);
NAMED void few_full_hit(struct bench *b, struct door *d);

void few_match(struct bench *b, struct door *d)
{
	door_match(d, &b->at);
}

void few_commit(struct bench *b, struct door *d, const struct pbw1_op *op)
{
	door_commit(d, &b->at, bench_server(b, op), 0);
}

void few_confirm(struct bench *b, struct door *d)
{
	door_confirm(d, &b->at, 0);
}

void few_full_hit(struct bench *b, struct door *d)
{
	door_match(d, &b->at);
}

void replay_few(struct bench *b)
{
	struct door d;
	size_t i;

	bench_open(b, &d, BUDGET_FIRST);
	for (i = 0; i < b->w.n_ops; i++) {
		bench_keys(b, &b->at, &b->w.ops[i]);
		few_match(b, &d);
		few_commit(b, &d, &b->w.ops[i]);
		few_confirm(b, &d);
	}
	for (i = 0; i < b->w.n_ops; i++) {
		bench_keys(b, &b->at, &b->w.ops[i]);
		few_full_hit(b, &d);
	}
	door_close(&d);
	say_head(b, "index_few");
	printf("ops=%llu\n", (unsigned long long)b->w.n_ops);
}
