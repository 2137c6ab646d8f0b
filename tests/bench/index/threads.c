/* threads.c - one thread and two on one index: read-only (both match everything), and mixed (each
 * does half of a workload: match, commit, confirm).
 *
 * limit_scaling is what the machine allows at that time. It is the rate of two threads, each with
 * an index of its own and all of the work, over that of one. It is less than 2 where both cores
 * share execution units or caches, or where other programs run. scaling can exceed it a little,
 * because two indexes take twice the cache. limit_cpu_scaling is the same by CPU time.
 *
 * rate is operations by the time spent in them, all threads together. On a machine with other work
 * it falls, so the best of several counts. CPU time is that of the kernel, less the time to make
 * the keys alone: it does not fall when a thread waits for a core, but spinning for a lock counts
 * in it. */
#include <pthread.h>

#include "tests/bench/index/bench.h"

#define THREADS		2
#define APART		2		/* outcome of THREADS that share nothing */
#define PASSES		5
#define PASSES_LARGE	2		/* for a workload above LARGE tokens */
#define LARGE		200000000u

enum work { KEYS, READ, MIXED };

struct job {			/* on lines of its own: each operation writes to it */
	_Alignas(128) struct bench *b;
	struct door *d;
	pthread_barrier_t *start;
	enum work work;
	uint32_t me, n_threads;
	struct door_at at;
	uint64_t ops, busy;
	double cpu_ns;
};

/* Both threads take the time from one clock, about 1 ms for each operation. If it were the number
 * of the operation, a thread that is ahead would use later times than the other, and the search for
 * a record's place in the order of use would be longer than in an agent. */
static void do_op(struct job *j, size_t i)
{
	const struct pbw1_op *op = &j->b->w.ops[i];
	uint64_t t;
	msec now;

	bench_keys(j->b, &j->at, op);
	t = ticks();
	now = (msec)(t >> 12);
	if (j->work != KEYS) {
		door_match(j->d, &j->at);
		if (j->work == MIXED) {
			door_commit(j->d, &j->at, bench_server(j->b, op), now);
			door_confirm(j->d, &j->at, now);
		}
	}
	j->busy += ticks() - t;
	j->ops++;
}

static void *run_job(void *arg)
{
	struct job *j = arg;
	size_t n = j->b->w.n_ops, i;

	pthread_barrier_wait(j->start);
	j->cpu_ns = measure_thread_cpu_ns();
	if (j->work == MIXED)
		for (i = j->me; i < n; i += j->n_threads)
			do_op(j, i);
	else
		for (i = 0; i < n; i++)
			do_op(j, (i + n / j->n_threads * j->me) % n);
	j->cpu_ns = measure_thread_cpu_ns() - j->cpu_ns;
	return NULL;
}

struct outcome {
	double rate, cpu_ns;		/* operations a second; CPU time of one */
};

static void keep_best(struct outcome *best, const struct outcome *o)
{
	if (o->rate > best->rate)
		best->rate = o->rate;
	if (best->cpu_ns == 0 || o->cpu_ns < best->cpu_ns)
		best->cpu_ns = o->cpu_ns;
}

/* Run <n> threads on <d>; with <apart> thread i does all of the work on d[i]. */
static struct outcome run(
    struct bench *b, struct door *d, enum work work, uint32_t n, bool apart)
{
	struct outcome o = { 0 };
	pthread_barrier_t start;
	struct job j[THREADS];
	pthread_t id[THREADS];
	uint64_t ops = 0;
	uint32_t i;

	pthread_barrier_init(&start, NULL, n);
	for (i = 0; i < n; i++) {
		j[i] = (struct job){ .b = b, .d = d, .start = &start, .work = work, .me = i, .n_threads = n };
		if (apart) {
			j[i].d = &d[i];
			j[i].me = 0;
			j[i].n_threads = 1;
		}
		if (door_at_init(&j[i].at, b->w.longest / b->w.page) < 0)
			measure_must(NULL);
		if (pthread_create(&id[i], NULL, run_job, &j[i]) != 0) {
			fprintf(stderr, "bench_index: no thread\n");
			exit(1);
		}
	}
	for (i = 0; i < n; i++) {
		pthread_join(id[i], NULL);
		o.rate += (double)j[i].ops / (bench_ns(b, j[i].busy) / 1e9);
		o.cpu_ns += j[i].cpu_ns;
		ops += j[i].ops;
		door_at_fini(&j[i].at);
	}
	o.cpu_ns /= (double)ops;
	pthread_barrier_destroy(&start);
	return o;
}

/* <o>: of one thread, of two, and of two that share nothing. */
static void say(const struct bench *b, const char *what, const struct outcome *o,
    const struct outcome *keys, const char *same)
{
	double cpu1 = o[0].cpu_ns - keys[0].cpu_ns, cpu2 = o[1].cpu_ns - keys[1].cpu_ns,
	       limit = o[APART].cpu_ns - keys[1].cpu_ns;

	printf(
	    "bench index_threads workload=%s servers=%u page=%u work=%s ops_per_s_1=%.0f ops_per_s_2=%.0f "
	    "scaling=%.2f limit_scaling=%.2f cpu_ns_1=%.0f cpu_ns_2=%.0f cpu_scaling=%.2f "
	    "limit_cpu_scaling=%.2f%s\n",
	    b->name, b->n_servers, b->w.page, what, o[0].rate, o[1].rate, o[1].rate / o[0].rate,
	    o[APART].rate / o[0].rate, cpu1, cpu2, 2 * cpu1 / cpu2,
	    2 * cpu1 / limit, same);
}

static bool ends_alike(struct bench *b, struct door *d)
{
	struct totals t;

	replay_totals(b, d, &t);
	return t.owned == b->first.owned && t.unique == b->first.unique;
}

static void run_apart(struct bench *b, struct outcome *mixed, struct outcome *reads)
{
	struct door d[THREADS];
	struct outcome o;
	uint32_t i;

	for (i = 0; i < THREADS; i++)
		bench_open(b, &d[i], b->budget);
	o = run(b, d, MIXED, THREADS, true);
	keep_best(mixed, &o);
	o = run(b, d, READ, THREADS, true);
	keep_best(reads, &o);
	for (i = 0; i < THREADS; i++)
		door_close(&d[i]);
}

int threads_run(struct bench *b)
{
	uint32_t passes = b->w.n_tokens > LARGE ? PASSES_LARGE : PASSES, pass, n;
	struct outcome keys[THREADS] = { { 0 } }, reads[THREADS + 1] = { { 0 } },
		       mixed[THREADS + 1] = { { 0 } }, o;
	bool same = true;
	struct door d;

	for (pass = 0; pass < passes; pass++) {
		for (n = 1; n <= THREADS; n++) {
			bench_open(b, &d, b->budget);
			o = run(b, &d, MIXED, n, false);
			keep_best(&mixed[n - 1], &o);
			same = same && ends_alike(b, &d);
			o = run(b, &d, READ, n, false);
			keep_best(&reads[n - 1], &o);
			o = run(b, &d, KEYS, n, false);
			keep_best(&keys[n - 1], &o);
			door_close(&d);
		}
		run_apart(b, &mixed[APART], &reads[APART]);
	}
	say(b, "read_only", reads, keys, "");
	say(b, "mixed", mixed, keys, same ? " same_totals=yes" : " same_totals=no");
	return same ? 0 : -1;
}
