/* lock_shim.c - count the mutexes that a program takes and those that it waits for, for LD_PRELOAD.
 * LOCK_FILE names a file of at least sizeof(struct locks) bytes, which a program outside maps to
 * read the counts at run time:
 *
 *      base            address at which the program is loaded
 *      n               places that are used
 *      at[i].site      address of the code that called pthread_mutex_lock(), relative to <base>
 *      at[i].taken     calls from there; at[i].waited: of them, those that found the mutex locked
 *
 * A call first tries, then waits; so it costs more than without this library. */
#include <pthread.h>
#include <stdint.h>
#include <sys/auxv.h>

#include "tests/tools/shim.h"

#define SITES	256

struct locks {
	uint64_t base, n;
	struct site { uint64_t site, taken, waited; } at[SITES];
};

static struct locks *locks;
static int (*real_lock)(pthread_mutex_t *);

/* The program's header is at the address of its program headers less their offset, 64. */
__attribute__((constructor)) static void begin(void)
{
	real_lock = shim_real("pthread_mutex_lock");
	locks = shim_file("LOCK_FILE", sizeof(*locks));
	if (locks != NULL)
		locks->base = getauxval(AT_PHDR) - 64;
}

/* The place of <site>; NULL if all are used. A place is claimed once and stays. */
static struct site *site_of(uint64_t site)
{
	for (unsigned i = (unsigned)(site >> 2) % SITES, k = 0; k < SITES; i = (i + 1) % SITES, k++) {
		uint64_t none = 0;

		if (__atomic_load_n(&locks->at[i].site, __ATOMIC_RELAXED) == site)
			return &locks->at[i];
		if (__atomic_compare_exchange_n(&locks->at[i].site, &none, site, 0, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED) || none == site)
			return &locks->at[i];
	}
	return NULL;
}

int pthread_mutex_lock(pthread_mutex_t *m)
{
	struct site *s = NULL;

	if (real_lock == NULL)
		real_lock = shim_real("pthread_mutex_lock");
	if (locks != NULL)
		s = site_of((uint64_t)__builtin_return_address(0) - locks->base);
	if (s == NULL)
		return real_lock(m);
	__atomic_add_fetch(&s->taken, 1, __ATOMIC_RELAXED);
	if (pthread_mutex_trylock(m) == 0)
		return 0;
	__atomic_add_fetch(&s->waited, 1, __ATOMIC_RELAXED);
	return real_lock(m);
}
