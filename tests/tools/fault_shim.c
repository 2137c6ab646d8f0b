/* fault_shim.c - make allocations of a program fail, for LD_PRELOAD. FAULT_FILE names a file of at
 * least sizeof(struct fault) bytes. A program that maps the same file controls and reads it at run
 * time, for all threads and children:
 *
 *      armed      0: no failures, no counting
 *      seen       allocations since it was armed; each takes the next number, from 1
 *      fail_at    number of the first one that fails
 *      fail_n     number of failures from there on (0: all)
 *      failed     failures so far; 0: fail_at was never reached
 *      spared     failures left out because the caller is the library whose name contains
 *                 FAULT_SPARE
 *
 * With FAULT_TRACE the addresses of the callers go to standard error, for addr2line. The unit tests
 * use tests/unit/fault.h instead; this one is for a whole program with its libraries. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tools/shim.h"

struct fault { uint64_t armed, seen, fail_at, fail_n, failed, bytes, spared; };

static struct fault *fault;
static const char *spare;
static int trace;
static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);

__attribute__((constructor)) static void begin(void)
{
	struct fault *p = shim_file("FAULT_FILE", sizeof(*p));
	void *warm[1];

	if (p == NULL)
		return;
	spare = getenv("FAULT_SPARE");
	if ((trace = getenv("FAULT_TRACE") != NULL))
		backtrace(warm, 1);
	fault = p;
}

static void tell(void)
{
	void *at[24];

	backtrace_symbols_fd(at, backtrace(at, 24), STDERR_FILENO);
}

static int is_spared(void *caller)
{
	Dl_info info;

	return spare != NULL && dladdr(caller, &info) && info.dli_fname != NULL &&
	       strstr(info.dli_fname, spare) != NULL;
}

static int fails(size_t n, void *caller)
{
	uint64_t k;

	if (fault == NULL || !__atomic_load_n(&fault->armed, __ATOMIC_SEQ_CST))
		return 0;
	k = __atomic_add_fetch(&fault->seen, 1, __ATOMIC_SEQ_CST);
	if (k < fault->fail_at || (fault->fail_n > 0 && k - fault->fail_at >= fault->fail_n))
		return 0;
	if (is_spared(caller)) {
		__atomic_add_fetch(&fault->spared, 1, __ATOMIC_SEQ_CST);
		return 0;
	}
	fault->bytes = n;
	__atomic_add_fetch(&fault->failed, 1, __ATOMIC_SEQ_CST);
	if (trace)
		tell();
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t n)
{
	if (real_malloc == NULL)
		*(void **)&real_malloc = shim_real("malloc");
	return fails(n, __builtin_return_address(0)) ? NULL : real_malloc(n);
}

void *calloc(size_t count, size_t n)
{
	if (real_calloc == NULL)
		*(void **)&real_calloc = shim_real("calloc");
	return fails(count * n, __builtin_return_address(0)) ? NULL : real_calloc(count, n);
}

void *realloc(void *p, size_t n)
{
	if (real_realloc == NULL)
		*(void **)&real_realloc = shim_real("realloc");
	return n > 0 && fails(n, __builtin_return_address(0)) ? NULL : real_realloc(p, n);
}
