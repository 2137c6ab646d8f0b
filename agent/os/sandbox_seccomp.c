/* The list of allowed calls, and the result of all others.
 *
 * A refused call is counted and fails with EPERM (sandbox_refused.c). It does not end the process,
 * because a call that this list forgot, or that a newer libc makes, must not end the service: its
 * caller handles the error like any other. Only calls that neither the agent nor its libraries ever
 * make end the process: they show foreign code, and a dead agent costs no request. clone3() fails
 * with ENOSYS, because a filter cannot read its flags. libc then uses clone(), whose flags must be
 * those of a thread.
 *
 * The filter is set before the threads start, so no byte from outside is read without it. TSYNC
 * covers threads that a library may have started.
 *
 * The list is for 64-bit x86 and ARM. Other machines have further calls for the same purpose
 * (futex_time64) or another order of arguments (clone). A wrong list would end the service, so the
 * filter stays off there. */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/os/sandbox_in.h"

#if defined(__x86_64__) && defined(__LP64__) || defined(__aarch64__) && defined(__LP64__)
#define KNOWN	1
#else
#define KNOWN	0
#endif

/* One allowed call. The listed arguments must match. */
struct rule {
	int call;
	unsigned n;
	struct scmp_arg_cmp arg[2];
};

#define CALL(name)			{ SCMP_SYS(name), 0, { { 0 } } }
#define IS(i, v)			{ i, SCMP_CMP_EQ, v, 0 }
/* compares 32 bits, for any sign */
#define WORD(i, v)			{ i, SCMP_CMP_MASKED_EQ, UINT32_MAX, (uint32_t)(v) }
#define LACKS(i, bits)			{ i, SCMP_CMP_MASKED_EQ, bits, 0 }
/* all bits of <must>, and no others except <may> */
#define ONLY(i, must, may)		{ i, SCMP_CMP_MASKED_EQ, ~(scmp_datum_t)(may), must }
#define CALL1(name, a)			{ SCMP_SYS(name), 1, { a } }
#define CALL2(name, a, b)		{ SCMP_SYS(name), 2, { a, b } }
#define OPTION(level, name)		CALL2(setsockopt, IS(1, level), IS(2, name))

/* Flags of a thread, and those that libcs add. 0x400000 is CLONE_DETACHED, which musl sets and the
 * kernel ignores. */
#define THREAD		(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)
#define THREAD_MORE	(CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | \
			 CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | 0x400000)

static const struct rule serving[] = {
	/* Connections. There is no socket(), so none is started. sendto() without an address sends nothing
	 * on a datagram socket that is not connected. sendmsg() is missing, because its address is in
	 * memory, which a filter cannot read. */
	CALL(accept4), CALL(recvfrom), CALL1(sendto, IS(4, 0)), CALL(shutdown), CALL(read),
	CALL(write), CALL(close),
	CALL(writev), /* libc writes its last message with it before it aborts */
	OPTION(SOL_SOCKET, SO_KEEPALIVE), OPTION(SOL_SOCKET, SO_RCVBUF),
	OPTION(SOL_SOCKET, SO_SNDBUF), OPTION(IPPROTO_TCP, TCP_NODELAY),
	OPTION(IPPROTO_TCP, TCP_KEEPIDLE), OPTION(IPPROTO_TCP, TCP_KEEPINTVL),
	OPTION(IPPROTO_TCP, TCP_KEEPCNT), CALL2(getsockopt, IS(1, SOL_SOCKET), IS(2, SO_MEMINFO)),
	CALL2(getsockopt, IS(1, IPPROTO_TCP), IS(2, TCP_INFO)), CALL1(ioctl, IS(1, FIONREAD)),
	CALL1(fcntl, IS(1, F_GETFL)), CALL1(fcntl, IS(1, F_SETFL)), CALL1(fcntl, IS(1, F_GETFD)),
	CALL1(fcntl, IS(1, F_SETFD)),
	/* loops, times, random numbers */
	CALL(epoll_wait), CALL(epoll_pwait), CALL(epoll_ctl), CALL(poll), CALL(ppoll),
	CALL(
	    epoll_create1), /* libev starts over if epoll_ctl() fails, and aborts without this call */
	CALL(clock_gettime), CALL(clock_nanosleep), CALL(nanosleep), CALL(gettimeofday), CALL(time),
	CALL(getrandom), CALL(restart_syscall),
	/* memory, none of it executable */
	CALL(brk), CALL(munmap), CALL(mremap), CALL(madvise), CALL1(mmap, LACKS(2, PROT_EXEC)),
	CALL1(mprotect, LACKS(2, PROT_EXEC)),
	/* threads and signals of this process only */
	CALL1(clone, ONLY(0, THREAD, THREAD_MORE)), CALL(set_robust_list), CALL(rseq), CALL(futex),
	CALL(sched_yield), CALL(sched_getaffinity), CALL(sysinfo), CALL(gettid), CALL(getpid),
	CALL(geteuid), CALL(rt_sigprocmask), CALL(rt_sigtimedwait), CALL(rt_sigaction),
	CALL(rt_sigreturn), CALL(sigaltstack), CALL(exit), CALL(exit_group),
	CALL1(prctl, IS(0, PR_SET_NAME)),
	/* figures of this process, from open files: process.c */
	CALL(pread64), CALL(lseek), CALL(getdents64), CALL(fstat),
	CALL1(newfstatat, IS(3, AT_EMPTY_PATH)), CALL2(prlimit64, IS(0, 0), IS(2, 0)),
	CALL(fsync), /* a snapshot, and its directory */
	/* No call takes a path: the opener opens, renames and removes files. */
};

/* For peers that are polled. The address is in memory, which a filter cannot read; Landlock checks
 * the port. */
#define STREAM	(SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)

static const struct rule connecting[] = {
	CALL2(socket, IS(0, AF_INET), IS(1, STREAM)), CALL2(socket, IS(0, AF_INET6), IS(1, STREAM)),
	CALL2(socket, IS(0, AF_UNIX), IS(1, STREAM)),
	CALL(connect),
};

/* For KV cache events: what libzmq calls beyond the calls above, when its threads begin, for the
 * mailbox of a socket, and for a connection. */
#define ZMQ_STREAM	(SOCK_STREAM | SOCK_CLOEXEC)

static const struct rule events[] = {
	CALL(sched_getparam), CALL(sched_getscheduler), CALL1(sched_setscheduler, IS(1, SCHED_OTHER)),
	CALL1(eventfd2, IS(1, EFD_CLOEXEC)),
	CALL2(socket, IS(0, AF_INET), IS(1, ZMQ_STREAM)),
	CALL2(socket, IS(0, AF_INET6), IS(1, ZMQ_STREAM)),
	CALL2(socket, IS(0, AF_UNIX), IS(1, ZMQ_STREAM)),
	CALL(connect), OPTION(IPPROTO_IPV6, IPV6_V6ONLY),
	CALL2(getsockopt, IS(1, SOL_SOCKET), IS(2, SO_ERROR)), CALL(getsockname), CALL(getpeername),
};

static const struct rule opening[] = {
	CALL1(openat, LACKS(2, O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE)),
	CALL(fstat), CALL1(newfstatat, IS(3, AT_EMPTY_PATH)), CALL(readlinkat),
	CALL(recvfrom), CALL(close), CALL(exit_group), CALL(rt_sigreturn), CALL(restart_syscall),
};

static const int deadly[] = {
	SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(bpf),
	SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(userfaultfd),
	SCMP_SYS(perf_event_open), SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root),
	SCMP_SYS(setns), SCMP_SYS(keyctl),
};

static int add_rules(scmp_filter_ctx ctx, const struct rule *r, size_t n)
{
	size_t i;
	int rc;

	for (i = 0; i < n; i++)
		if ((rc = seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, r[i].call, r[i].n,
						 r[i].arg)) != 0)
			return rc;
	return 0;
}

static int add_refusals(scmp_filter_ctx ctx)
{
	size_t i;
	int rc;

	for (i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
		if ((rc = seccomp_rule_add(ctx, SCMP_ACT_KILL_PROCESS, deadly[i], 0)) != 0)
			return rc;
	return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

/* abort() must end the process as it does without a filter. Signals to other processes are
 * refused. */
static int add_own_signals(scmp_filter_ctx ctx)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
}

/* Find the kernel's error, because the library returns codes of its own. Sets a filter that is
 * NULL: EFAULT means that the kernel would accept a filter. */
static int kernel_error(int rc)
{
	if (rc == 0)
		return 0;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) < 0 && errno != EFAULT)
		return errno;
	return -rc;
}

/* The library (2.5.4) frees twice if memory runs out inside seccomp_load(). It needs less than this
 * for our list; measured: 0.3 MiB. */
#define FILTER_BYTES	(1u << 20)

static bool memory_is_short(void)
{
	void *p = mem_alloc(FILTER_BYTES);

	mem_free(p);
	return p == NULL;
}

/* ---- both filters ----------------------------------------------------------------------- */

/* A list of rules. Some hold a descriptor, whose number is known only at run time. */
struct list {
	const struct rule *r;
	size_t n;
};

#define LIST(a)		{ a, sizeof(a) / sizeof((a)[0]) }

static int add_lists(scmp_filter_ctx ctx, const struct list *l, size_t n)
{
	int rc;

	if ((rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS)) != 0 ||
	    (rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1)) != 0 ||
	    (rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0)) != 0)
		return rc;
	for (size_t i = 0; i < n; i++)
		if ((rc = add_rules(ctx, l[i].r, l[i].n)) != 0)
			return rc;
	if ((rc = add_own_signals(ctx)) != 0 || (rc = add_refusals(ctx)) != 0)
		return rc;
	/* a tree instead of a list, if the library can: half the cost of a call */
	(void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	return 0;
}

static int load_filter(const struct list *l, size_t n)
{
	scmp_filter_ctx ctx;
	int rc;

	if (!KNOWN)
		return ENOTSUP;
	if (memory_is_short() || (ctx = seccomp_init(SCMP_ACT_TRAP)) == NULL)
		return ENOMEM;
	if ((rc = add_lists(ctx, l, n)) == 0)
		rc = seccomp_load(ctx);
	seccomp_release(ctx);
	return kernel_error(rc);
}

/* Set a second filter, before the first: if connections may be started, connect() is refused for
 * datagram sockets, because a connected one could send to its peer. The kernel reads only 32 bits
 * of a descriptor's 64, so only these are compared. The library allows no two conditions on one
 * argument in a rule, so this filter is separate. */
static int keep_unconnected(const int *fd, size_t n)
{
	scmp_filter_ctx ctx;
	int rc = 0;

	if (!KNOWN)
		return ENOTSUP;
	if (memory_is_short() || (ctx = seccomp_init(SCMP_ACT_ALLOW)) == NULL)
		return ENOMEM;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = seccomp_rule_add(ctx, SCMP_ACT_TRAP, SCMP_SYS(connect), 1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, UINT32_MAX, (uint32_t)fd[i]));
	if (rc == 0 && (rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1)) == 0 &&
	    (rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0)) == 0)
		rc = seccomp_load(ctx);
	seccomp_release(ctx);
	return kernel_error(rc);
}

int sandbox_seccomp(const struct sandbox_opts *o)
{
	/* descriptors that it opened */
	const struct rule opener[] = { CALL1(recvmsg, IS(0, (scmp_datum_t)o->opener)) };
	const struct list l[] = {
		LIST(serving),
		{ opener, o->opener >= 0 },
		{ connecting, o->out->any ? sizeof(connecting) / sizeof(connecting[0]) : 0 },
		{ events, o->out->events ? sizeof(events) / sizeof(events[0]) : 0 },
	};
	int rc;

	if ((o->out->any || o->out->events) && o->n_datagrams > 0 &&
	    (rc = keep_unconnected(o->datagrams, o->n_datagrams)) != 0)
		return rc;
	return load_filter(l, sizeof(l) / sizeof(l[0]));
}

#define MAKE_RULES(dir)	{ \
		CALL2(openat, IS(0, (scmp_datum_t)(dir)), IS(2, SANDBOX_NEW_FILE)), \
		CALL2(renameat, IS(0, (scmp_datum_t)(dir)), IS(2, (scmp_datum_t)(dir))), \
		CALL2(unlinkat, IS(0, (scmp_datum_t)(dir)), IS(2, 0)), \
	}

int sandbox_seccomp_opener(int agent, const int files[SANDBOX_DIRS], bool sockets)
{
	const struct rule talk[] = { CALL1(sendmsg, IS(0, (scmp_datum_t)agent)) };
	const struct rule make[] = MAKE_RULES(files[0]);
	const struct rule make_too[] = MAKE_RULES(files[1]);
	const struct rule remove[] = { CALL2(unlinkat, WORD(0, AT_FDCWD), IS(2, 0)) };
	const struct list l[] = {
		LIST(opening), LIST(talk), { make, files[0] >= 0 ? sizeof(make) / sizeof(make[0]) : 0 },
		{ make_too, files[1] >= 0 ? sizeof(make_too) / sizeof(make_too[0]) : 0 }, { remove, sockets },
	};

	return load_filter(l, sizeof(l) / sizeof(l[0]));
}
