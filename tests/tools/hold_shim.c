/* hold_shim.c - measure how long a program holds each of its mutexes, for LD_PRELOAD. HOLD_FILE
 * names a file of at least sizeof(struct holds) bytes, which a program outside maps to read at run
 * time:
 *
 *      at[i].mutex     its address
 *      at[i].taken     times it was locked
 *      at[i].ns        how long it was held in all, without the time of this measurement
 *      at[i].longer    times it was held longer than LONG_NS: the thread was preempted, so these are
 *                      not in <ns>
 *
 * A wait for a condition is not part of a hold; what was held before it is not counted. Read-write locks are not measured. */
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "tests/tools/shim.h"

#define PLACES	4096u
#define DEPTH	16u
#define LONG_NS	100000u

struct holds {
	struct place { uint64_t mutex, taken, ns, longer; } at[PLACES];
};

static struct holds *holds;
static uint64_t cost_ns;		/* of a measurement */
static __thread struct held { pthread_mutex_t *m; uint64_t since; } held[DEPTH];
static __thread unsigned n_held;
static int (*real_lock)(pthread_mutex_t *);
static int (*real_trylock)(pthread_mutex_t *);
static int (*real_unlock)(pthread_mutex_t *);
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*real_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

__attribute__((constructor)) static void begin(void)
{
	uint64_t from, took;

	real_lock = shim_real("pthread_mutex_lock");
	real_trylock = shim_real("pthread_mutex_trylock");
	real_unlock = shim_real("pthread_mutex_unlock");
	real_wait = shim_real("pthread_cond_wait");
	real_timedwait = shim_real("pthread_cond_timedwait");
	cost_ns = UINT64_MAX;
	for (unsigned i = 0; i < 1000; i++) {
		from = now_ns();
		took = now_ns() - from;
		cost_ns = took < cost_ns ? took : cost_ns;
	}
	holds = shim_file("HOLD_FILE", sizeof(*holds));
}

/* The place of <m>; NULL if all are used. A place is claimed once and stays. */
static struct place *place_of(const pthread_mutex_t *m)
{
	uint64_t key = (uint64_t)(uintptr_t)m;
	unsigned i = (unsigned)(key * 0x9E3779B97F4A7C15u >> 40) % PLACES;

	for (unsigned k = 0; k < PLACES; i = (i + 1) % PLACES, k++) {
		uint64_t none = 0;

		if (__atomic_load_n(&holds->at[i].mutex, __ATOMIC_RELAXED) == key)
			return &holds->at[i];
		if (__atomic_compare_exchange_n(&holds->at[i].mutex, &none, key, 0, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED) || none == key)
			return &holds->at[i];
	}
	return NULL;
}

static void hold_begin(pthread_mutex_t *m)
{
	if (holds != NULL && n_held < DEPTH)
		held[n_held++] = (struct held){ m, now_ns() };
}

/* Forget that <m> is held. Returns since when, or 0. */
static uint64_t hold_end(const pthread_mutex_t *m)
{
	uint64_t since;

	for (unsigned i = n_held; i-- > 0;) {
		if (held[i].m != m)
			continue;
		since = held[i].since;
		n_held--;
		for (; i < n_held; i++)
			held[i] = held[i + 1];
		return since;
	}
	return 0;
}

static void hold_add(const pthread_mutex_t *m, uint64_t since, uint64_t until)
{
	uint64_t ns = until - since > cost_ns ? until - since - cost_ns : 0;
	struct place *p = since > 0 ? place_of(m) : NULL;

	if (p == NULL)
		return;
	__atomic_add_fetch(&p->taken, 1, __ATOMIC_RELAXED);
	if (ns > LONG_NS)
		__atomic_add_fetch(&p->longer, 1, __ATOMIC_RELAXED);
	else
		__atomic_add_fetch(&p->ns, ns, __ATOMIC_RELAXED);
}

int pthread_mutex_lock(pthread_mutex_t *m)
{
	int rc;

	if (real_lock == NULL)
		real_lock = shim_real("pthread_mutex_lock");
	rc = real_lock(m);
	hold_begin(m);
	return rc;
}

int pthread_mutex_trylock(pthread_mutex_t *m)
{
	int rc;

	if (real_trylock == NULL)
		real_trylock = shim_real("pthread_mutex_trylock");
	if ((rc = real_trylock(m)) == 0)
		hold_begin(m);
	return rc;
}

int pthread_mutex_unlock(pthread_mutex_t *m)
{
	uint64_t since = holds != NULL ? hold_end(m) : 0, until = since > 0 ? now_ns() : 0;
	int rc;

	if (real_unlock == NULL)
		real_unlock = shim_real("pthread_mutex_unlock");
	rc = real_unlock(m);
	if (since > 0)
		hold_add(m, since, until);
	return rc;
}

int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	int rc;

	hold_end(m);
	if (real_wait == NULL)
		real_wait = shim_real("pthread_cond_wait");
	rc = real_wait(c, m);
	hold_begin(m);
	return rc;
}

int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
	int rc;

	hold_end(m);
	if (real_timedwait == NULL)
		real_timedwait = shim_real("pthread_cond_timedwait");
	rc = real_timedwait(c, m, until);
	hold_begin(m);
	return rc;
}
