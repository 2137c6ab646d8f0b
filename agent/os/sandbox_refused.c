/* The filter answers with SECCOMP_RET_TRAP (sandbox_seccomp.c). The kernel then skips the call and
 * sends SIGSYS to the thread, with the registers of the call in the context. The value that the
 * handler writes to the result register is what the call returns.
 *
 * The handler does two atomic operations and one store. It makes no system call and does not
 * change errno. The kernel would kill a thread that blocks SIGSYS, so nothing here blocks it.
 * libc blocks all signals while it creates a thread, but makes only allowed calls then
 * (tests/unit/loop/test_sandbox.c creates threads under the filter). SECCOMP_RET_ERRNO could not
 * count. A supervisor (SECCOMP_RET_USER_NOTIF) would be a process that each refused call waits
 * for. */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/os/sandbox_refused.h"

#ifndef SYS_SECCOMP
#define SYS_SECCOMP	1
#endif

static struct refused_count *counted;	/* of this process; see the header */
static __thread bool mmap_expected;

struct sandbox_refused *sandbox_refused_new(void)
{
	void *p = mmap(NULL, sizeof(struct sandbox_refused), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void sandbox_refused_free(struct sandbox_refused *r)
{
	if (r == NULL)
		return;
	counted = NULL;
	munmap(r, sizeof(*r));
}

void sandbox_refused_expect_mmap(bool yes)
{
	mmap_expected = yes;
}

static void set_result(ucontext_t *uc, long value)
{
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RAX] = value;
#elif defined(__aarch64__)
	uc->uc_mcontext.regs[0] = (unsigned long long)value;
#endif
}

/* A SIGSYS that another process sent is ignored. */
static void on_refused(int sig, siginfo_t *si, void *context)
{
	if (si->si_code != SYS_SECCOMP)
		return;
	if (counted != NULL && !(mmap_expected && si->si_syscall == SYS_mmap)) {
		__atomic_store_n(&counted->last, si->si_syscall, __ATOMIC_RELAXED);
		__atomic_fetch_add(&counted->n, 1, __ATOMIC_RELAXED);
	}
	set_result(context, -EPERM);
}

int sandbox_refused_watch(struct refused_count *c)
{
	struct sigaction sa = { .sa_sigaction = on_refused, .sa_flags = SA_SIGINFO };
	sigset_t set;

	counted = c;
	sigemptyset(&sa.sa_mask);
	sigemptyset(&set);
	sigaddset(&set, SIGSYS);
	if (sigaction(SIGSYS, &sa, NULL) != 0)
		return errno;
	return pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
