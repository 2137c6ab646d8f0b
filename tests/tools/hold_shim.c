/* hold_shim.c - measure how long a program holds each of its mutexes, for LD_PRELOAD. HOLD_FILE
 * names a file of at least sizeof(struct holds) bytes, which a program outside maps to read at run
 * time:
 *
 *      at[i].mutex     its address
 *      at[i].site      address of the code that locked it first, relative to the program's
 *      at[i].taken     times it was locked
 *      at[i].ns        how long it was held in all, without the time of these measurements
 *      at[i].longer    times it was held longer than LONG_NS: the thread was preempted, so these
 *                      are not in <ns>
 *
 * A wait for a condition is not part of a hold; what was held before it is not counted. Read-write
 * locks are not measured. */
#include <pthread.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <time.h>

#include "tests/tools/shim.h"

#define PLACES	4096u
#define DEPTH	16u
#define LONG_NS	100000u

struct holds {
	struct place { uint64_t mutex, site, taken, ns, longer; } at[PLACES];
};

struct held {
	pthread_mutex_t *m;
	uint64_t since, site;
	uint64_t measured;		/* holds of this thread that had ended when this began */
};

static struct holds *holds;
static uint64_t base;
static uint64_t clock_ns;		/* between two readings of the clock */
static uint64_t cost_ns;		/* of the measurement of a hold */
static __thread struct held held[DEPTH];
static __thread unsigned n_held;
static __thread uint64_t measured;
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

static void hold_begin(pthread_mutex_t *m, const void *site)
{
	if (holds != NULL && n_held < DEPTH)
		held[n_held++] = (struct held){ m, now_ns(), (uint64_t)(uintptr_t)site - base, measured };
}

/* Forget that <m> is held. Returns its hold; all fields are 0 if it is unknown. */
static struct held hold_end(const pthread_mutex_t *m)
{
	struct held h;

	for (unsigned i = n_held; i-- > 0;) {
		if (held[i].m != m)
			continue;
		h = held[i];
		n_held--;
		for (; i < n_held; i++)
			held[i] = held[i + 1];
		return h;
	}
	return (struct held){ 0 };
}

static void hold_add(const struct held *h, uint64_t until)
{
	uint64_t ns = until - h->since, cost = clock_ns + (measured - h->measured) * cost_ns;
	struct place *p = place_of(h->m);

	measured++;
	if (p == NULL)
		return;
	__atomic_store_n(&p->site, p->site != 0 ? p->site : h->site, __ATOMIC_RELAXED);
	__atomic_add_fetch(&p->taken, 1, __ATOMIC_RELAXED);
	if (ns > LONG_NS)
		__atomic_add_fetch(&p->longer, 1, __ATOMIC_RELAXED);
	else
		__atomic_add_fetch(&p->ns, ns > cost ? ns - cost : 0, __ATOMIC_RELAXED);
}

int pthread_mutex_lock(pthread_mutex_t *m)
{
	int rc;

	if (real_lock == NULL)
		real_lock = shim_real("pthread_mutex_lock");
	rc = real_lock(m);
	hold_begin(m, __builtin_return_address(0));
	return rc;
}

int pthread_mutex_trylock(pthread_mutex_t *m)
{
	int rc;

	if (real_trylock == NULL)
		real_trylock = shim_real("pthread_mutex_trylock");
	if ((rc = real_trylock(m)) == 0)
		hold_begin(m, __builtin_return_address(0));
	return rc;
}

int pthread_mutex_unlock(pthread_mutex_t *m)
{
	struct held h = hold_end(m);
	uint64_t until = h.m != NULL ? now_ns() : 0;
	int rc;

	if (real_unlock == NULL)
		real_unlock = shim_real("pthread_mutex_unlock");
	rc = real_unlock(m);
	if (h.m != NULL)
		hold_add(&h, until);
	return rc;
}

int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	int rc;

	hold_end(m);
	if (real_wait == NULL)
		real_wait = shim_real("pthread_cond_wait");
	rc = real_wait(c, m);
	hold_begin(m, __builtin_return_address(0));
	return rc;
}

int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
	int rc;

	hold_end(m);
	if (real_timedwait == NULL)
		real_timedwait = shim_real("pthread_cond_timedwait");
	rc = real_timedwait(c, m, until);
	hold_begin(m, __builtin_return_address(0));
	return rc;
}

/* The least time of a lock and an unlock, by the given functions. */
static uint64_t pair_ns(int (*lock)(pthread_mutex_t *), int (*unlock)(pthread_mutex_t *))
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	uint64_t least = UINT64_MAX, from, took;

	for (unsigned i = 0; i < 100; i++) {
		from = now_ns();
		for (unsigned k = 0; k < 100; k++) {
			lock(&m);
			unlock(&m);
		}
		took = (now_ns() - from) / 100;
		least = took < least ? took : least;
	}
	return least;
}

/* The program's header is at the address of its program headers less their offset, 64. */
__attribute__((constructor)) static void begin(void)
{
	uint64_t from, took, real;

	real_lock = shim_real("pthread_mutex_lock");
	real_trylock = shim_real("pthread_mutex_trylock");
	real_unlock = shim_real("pthread_mutex_unlock");
	real_wait = shim_real("pthread_cond_wait");
	real_timedwait = shim_real("pthread_cond_timedwait");
	base = getauxval(AT_PHDR) - 64;
	clock_ns = UINT64_MAX;
	for (unsigned i = 0; i < 1000; i++) {
		from = now_ns();
		took = now_ns() - from;
		clock_ns = took < clock_ns ? took : clock_ns;
	}
	holds = shim_file("HOLD_FILE", sizeof(*holds));
	real = pair_ns(real_lock, real_unlock);
	took = pair_ns(pthread_mutex_lock, pthread_mutex_unlock);
	cost_ns = took > real ? took - real : 0;
}
