/* The sandbox, tried from inside: each call in a child of its own that has entered it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/region.h"
#include "agent/loop/confine_in.h"
#include "agent/loop/log_in.h"
#include "agent/os/clock.h"
#include "agent/os/process.h"
#include "agent/os/sandbox_in.h"

#define WENT_ON		200	/* exit status: the call went through */

/* Files and sockets opened before the sandbox, for calls that need a descriptor. */
static struct {
	char dir[64], other[64], in_dir[96], in_other[96], socket_path[96];
	int pair[2], listener, other_listener, unix_listener, datagrams, epoll, file, opened_dir;
	void *page;
	struct process_files files;
	struct ev_loop *loop;
	ev_async wake;
	struct sandbox box;
	struct connect_ports out;
	struct region region;
} w;

static struct sandbox_refused *refusals;
static pid_t parent;

static void touch(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

/* Returns a listener at a port that the kernel chooses, or -1. */
static int listen_tcp(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return bind(fd, (struct sockaddr *)&in, sizeof(in)) == 0 && listen(fd, 16) == 0 ? fd : -1;
}

static int listen_unix(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	return bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0 && listen(fd, 16) == 0 ? fd : -1;
}

static int setup(void **state)
{
	snprintf(w.dir, sizeof(w.dir), "/tmp/kvroute-box-XXXXXX");
	snprintf(w.other, sizeof(w.other), "/tmp/kvroute-out-XXXXXX");
	if (mkdtemp(w.dir) == NULL || mkdtemp(w.other) == NULL)
		return -1;
	snprintf(w.in_dir, sizeof(w.in_dir), "%s/f", w.dir);
	snprintf(w.in_other, sizeof(w.in_other), "%s/f", w.other);
	touch(w.in_dir);
	touch(w.in_other);
	snprintf(w.socket_path, sizeof(w.socket_path), "%s/s", w.other);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w.pair) != 0)
		return -1;
	w.listener = listen_tcp();
	w.other_listener = listen_tcp();
	w.unix_listener = listen_unix(w.socket_path);
	w.datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	w.epoll = epoll_create1(EPOLL_CLOEXEC);
	w.file = open(w.in_dir, O_WRONLY | O_CLOEXEC);
	w.opened_dir = open(w.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	w.loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	process_open(&w.files);
	parent = getpid();
	if ((refusals = sandbox_refused_new()) == NULL)
		return -1;
	return w.listener >= 0 && w.other_listener >= 0 && w.unix_listener >= 0 &&
	       w.page != MAP_FAILED && w.loop != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	ev_loop_destroy(w.loop);
	process_close(&w.files);
	sandbox_refused_free(refusals);
	munmap(w.page, 4096);
	close(w.epoll);
	close(w.file);
	close(w.opened_dir);
	close(w.datagrams);
	close(w.listener);
	close(w.other_listener);
	close(w.unix_listener);
	unlink(w.socket_path);
	close(w.pair[0]);
	close(w.pair[1]);
	unlink(w.in_dir);
	unlink(w.in_other);
	rmdir(w.other);
	return rmdir(w.dir);
}

static int to_opener = -1;	/* the socket that descriptors may come over */
static void enter(void)
{
	struct sandbox_opts o = { .opener = to_opener,
		.datagrams = &w.datagrams,
		.n_datagrams = 1,
		.out = &w.out,
		.refused = &refusals->agent };

	sandbox_no_core(&w.box);
	sandbox_enter(&w.box, &o);
}

static void forbid(int nr, int error);

/* Enter seccomp alone, to show its rejections on a kernel without Landlock. */
static void enter_without_landlock(void)
{
	forbid(SCMP_SYS(landlock_create_ruleset), ENOSYS);
	enter();
	if (w.box.landlock_abi != 0 || w.box.landlock_error != ENOSYS)
		_exit(98);
}

/* Return the wait status of a child that runs <prepare> and then <try>, which returns 0, or -1 with
 * errno. */
static int in_child(void (*prepare)(void), int (*try)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		/* a new pair, because a shutdown() in one child affects all */
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w.pair) != 0)
			_exit(96);
		prepare();
		errno = 0;
		_exit(try() < 0 ? errno : WENT_ON);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int seccomp_error(void)
{
	errno = w.box.seccomp_error;
	return errno == 0 ? 0 : -1;
}

static bool no_sandbox(void)
{
	int status;

	if (!SANDBOX_CAN) {
		print_message("skipped: the sandbox, in a build with a sanitizer\n");
		return true;
	}
	status = in_child(enter, seccomp_error);
	if (!WIFEXITED(status) || WEXITSTATUS(status) == WENT_ON)
		return false;
	print_message("skipped: the sandbox, seccomp is refused here: %s\n",
		      strerror(WEXITSTATUS(status)));
	return true;
}

/* ---- refused ---------------------------------------------------------------------------- */

#define TRY(name, call)	static int name(void) { return (int)(call) < 0 ? -1 : 0; }

#define AT	AT_FDCWD
#define RD	O_RDONLY

#define THREAD_FLAGS	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

/* Destination of datagrams: an unused port of this machine. */
static union { struct sockaddr sa; struct sockaddr_in in; } loopback = {
	.in = { .sin_family = AF_INET, .sin_port = 9, .sin_addr = { 0x0100007f } },
};
static char byte[1] = "x";
static struct iovec one_byte = { byte, 1 };
static struct msghdr message = { .msg_name = &loopback,
	.msg_namelen = sizeof(loopback),
	.msg_iov = &one_byte,
	.msg_iovlen = 1 };
static struct mmsghdr messages = { .msg_hdr = { .msg_name = &loopback,
				       .msg_namelen = sizeof(loopback),
				       .msg_iov = &one_byte,
				       .msg_iovlen = 1 } };

static char *no_args[] = { NULL };
static char stack[65536] __attribute__((aligned(16)));

static int nothing(void *arg)
{
	return 0;
}

TRY(open_shadow, open("/etc/shadow", RD))
TRY(open_root, open("/", RD | O_DIRECTORY))
TRY(open_self, open("/proc/self/mem", O_RDWR))
TRY(open_old, syscall(SYS_openat, AT, "/etc/passwd", RD, 0))
TRY(open_how, syscall(SYS_openat2, AT, "/etc/passwd", &(uint64_t[3]){ 0 }, 24))
TRY(open_write, open(w.in_dir, O_WRONLY))
TRY(open_new, open("/tmp/kvroute-new", O_WRONLY | O_CREAT, 0600))
TRY(open_handle, syscall(SYS_open_by_handle_at, AT, NULL, RD))
TRY(memory_file, memfd_create("x", 0))
TRY(run, execve("/bin/true", no_args, no_args))
TRY(run_at, syscall(SYS_execveat, AT, "/bin/true", no_args, no_args, 0))
/* not fork(), for which glibc 2.41 blocks all signals: refused, it ends the process */
TRY(make_process, syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0))
TRY(make_clone, clone(nothing, stack + sizeof(stack), SIGCHLD, NULL))
TRY(make_vm_clone, clone(nothing, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL))
TRY(make_clone3, syscall(SYS_clone3, NULL, 0))
TRY(socket_in, socket(AF_INET, SOCK_STREAM, 0))
TRY(socket_in6, socket(AF_INET6, SOCK_DGRAM, 0))
TRY(socket_un, socket(AF_UNIX, SOCK_STREAM, 0))
TRY(socket_netlink, socket(AF_NETLINK, SOCK_RAW, 0))
TRY(socket_packet, socket(AF_PACKET, SOCK_RAW, 0))
TRY(socket_pair, socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){ 0 }))
TRY(send_to, sendto(w.datagrams, "x", 1, 0, &loopback.sa, sizeof(loopback)))
TRY(send_message, sendmsg(w.datagrams, &message, 0))
TRY(send_messages, sendmmsg(w.datagrams, &messages, 1, 0))
TRY(send_fd, sendmsg(w.pair[0], &message, 0))
TRY(receive_fd, recvmsg(w.pair[1], &message, MSG_DONTWAIT))
TRY(move_pages, splice(w.pair[1], NULL, w.pair[0], NULL, 1, SPLICE_F_NONBLOCK))
TRY(make_pipe, pipe((int[2]){ 0 }))
TRY(lend_pages, syscall(SYS_vmsplice, w.pair[0], NULL, 0, 0))
TRY(send_file, syscall(SYS_sendfile, w.pair[0], w.files.statm, NULL, 1))
TRY(write_at, pwrite(w.pair[0], "x", 1, 0))
TRY(remove_socket, unlink(w.in_dir))
TRY(remove_other, unlink(w.in_other))
TRY(remove_at, syscall(SYS_unlinkat, AT, w.in_other, 0))
TRY(look_at, syscall(SYS_newfstatat, AT, w.in_other, &(struct stat){ 0 }, AT_SYMLINK_NOFOLLOW))
TRY(look_through, access("/etc/passwd", F_OK))
TRY(make_file, openat(w.epoll, "/tmp/kvroute-new", SANDBOX_NEW_FILE, 0600))
TRY(move_at, renameat(AT, w.in_dir, AT, "/tmp/kvroute-new"))
TRY(clone_namespace, clone(nothing, stack + sizeof(stack), THREAD_FLAGS | CLONE_NEWUSER, NULL))
TRY(clone_traced, clone(nothing, stack + sizeof(stack), THREAD_FLAGS | CLONE_PTRACE, NULL))
TRY(take_capabilities, syscall(SYS_capset, &(uint32_t[2]){ 0x20080522 }, &(uint32_t[6]){ 0 }))
TRY(queue_signal, syscall(SYS_rt_sigqueueinfo, parent, SIGCONT, &(siginfo_t){ 0 }))
TRY(more_priority, syscall(SYS_setpriority, 0, 0, 0))
TRY(wait_on_file, syscall(SYS_inotify_init1, 0))
TRY(bind_more, bind(w.datagrams, &loopback.sa, sizeof(loopback)))
TRY(listen_more, listen(w.listener, 1))
TRY(go_out, connect(w.datagrams, &(struct sockaddr){ AF_UNSPEC }, sizeof(struct sockaddr)))
TRY(attach, setsockopt(w.pair[0], SOL_SOCKET, SO_ATTACH_FILTER, "", 0))
TRY(ulp, setsockopt(w.listener, IPPROTO_TCP, TCP_ULP, "tls", 3))
TRY(map_exec, -(mmap(NULL, 4096, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED))
TRY(make_exec, mprotect(w.page, 4096, PROT_READ | PROT_EXEC))
TRY(make_exec_key, syscall(SYS_pkey_mprotect, w.page, 4096, PROT_EXEC, -1))
TRY(exec_pages, syscall(SYS_personality, 0x0400000))
TRY(share, syscall(SYS_shmget, 0, 4096, 0600))
TRY(control, ioctl(w.pair[0], TIOCOUTQ, &(int){ 0 }))
TRY(own, fcntl(w.pair[0], F_SETOWN, getpid()))
TRY(copy_fd, dup(w.pair[0]))
TRY(signal_parent, kill(parent, 0))
TRY(signal_other, syscall(SYS_tgkill, parent, parent, 0))
TRY(be_root, syscall(SYS_setuid, 0))
TRY(be_dumpable, prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
TRY(limit, setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 }))
TRY(own_rooms, unshare(CLONE_NEWUSER))
TRY(filter_more, syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL))
TRY(ring, syscall(SYS_io_uring_setup, 1, NULL))
TRY(new_root, chroot("/tmp"))
TRY(go_dir, chdir("/"))
TRY(move, rename(w.in_dir, w.in_other))
TRY(hard_link, link(w.in_other, "/tmp/kvroute-link"))
TRY(soft_link, symlink("/etc/shadow", "/tmp/kvroute-link"))
TRY(mode, chmod(w.in_dir, 0777))
TRY(new_dir, mkdir("/tmp/kvroute-dir", 0700))
TRY(old_dir, rmdir(w.other))
TRY(old_dir_at, unlinkat(AT, w.other, AT_REMOVEDIR))
TRY(cut_file, truncate(w.in_dir, 0))

static const struct {
	const char *name;
	int (*try)(void);
	int error;
} refused[] = {
#define R(f)	{ #f, f, EPERM }
	R(open_shadow),
	R(open_root),
	R(open_self),
	R(open_old),
	R(open_how),
	R(open_write),
	R(open_new),
	R(open_handle),
	R(memory_file),
	R(run),
	R(run_at),
	R(make_process),
	R(make_clone),
	R(make_vm_clone),
	{ "make_clone3", make_clone3, ENOSYS },
	R(socket_in),
	R(socket_in6),
	R(socket_un),
	R(socket_netlink),
	R(socket_packet),
	R(socket_pair),
	R(go_out),
	R(attach),
	R(ulp),
	R(map_exec),
	R(make_exec),
	R(make_exec_key),
	R(exec_pages),
	R(share),
	R(control),
	R(own),
	R(copy_fd),
	R(signal_parent),
	R(signal_other),
	R(be_root),
	R(be_dumpable),
	R(limit),
	R(own_rooms),
	R(filter_more),
	R(ring),
	R(new_root),
	R(go_dir),
	R(move),
	R(hard_link),
	R(soft_link),
	R(mode),
	R(new_dir),
	R(old_dir),
	R(old_dir_at),
	R(cut_file),
	R(send_to),
	R(send_message),
	R(send_messages),
	R(send_fd),
	R(receive_fd),
	R(move_pages),
	R(make_pipe),
	R(lend_pages),
	R(send_file),
	R(write_at),
	R(remove_socket),
	R(remove_other),
	R(remove_at),
	R(look_at),
	R(look_through),
	R(make_file),
	R(move_at),
	R(clone_namespace),
	R(clone_traced),
	R(take_capabilities),
	R(queue_signal),
	R(more_priority),
	R(wait_on_file),
	R(bind_more),
	R(listen_more),
#undef R
};

/* Each rejected call is counted once, except with ENOSYS, where libc has an alternative. */
static void expect_refused(void (*prepare)(void), const char *name, int (*try)(void), int error)
{
	uint64_t before = refused_read(&refusals->agent);
	int status = in_child(prepare, try);

	if (!WIFEXITED(status) || WEXITSTATUS(status) != error)
		fail_msg("%s: status %#x instead of errno %d (%d: it went through)", name,
		    (unsigned)status, error, WENT_ON);
	if (refused_read(&refusals->agent) != before + (error == EPERM))
		fail_msg("%s: counted %llu times", name,
		    (unsigned long long)(refused_read(&refusals->agent) - before));
}

static void calls_are_refused(void **state)
{
	size_t i, n = sizeof(refused) / sizeof(refused[0]);

	if (no_sandbox())
		skip();
	for (i = 0; i < n; i++) {
		expect_refused(enter, refused[i].name, refused[i].try, refused[i].error);
		expect_refused(enter_without_landlock, refused[i].name, refused[i].try, refused[i].error);
	}
	print_message("%zu calls tried, all refused, with Landlock and without\n", n);
}

/* ---- counted, in every thread, and the caller goes on ----------------------------------- */

static void *refused_in_thread(void *arg)
{
	errno = 0;
	if (socket(AF_INET, SOCK_STREAM, 0) != -1 || errno != EPERM || getpid() <= 0)
		return arg;
	errno = 77;
	return syscall(SYS_setuid, 0) == -1 && errno == EPERM ? NULL : arg;
}

static int refused_in_threads(void)
{
	pthread_t t[4];
	void *got;
	int bad = 0;

	for (int i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, refused_in_thread, &bad) != 0)
			return -1;
	for (int i = 0; i < 4; i++)
		bad |= pthread_join(t[i], &got) != 0 || got != NULL;
	return -bad;
}

/* A SIGSYS sent by a process, or blocked or ignored before, has no effect. */
static void enter_with_signal_blocked(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSYS);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGSYS, SIG_IGN);
	enter();
}

static int sent_signal(void)
{
	return syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGSYS) == 0 &&
		open_shadow() == -1
	    ? 0
	    : -1;
}

/* Only mmap(), only while it is said. */
static int expect_mmap(void)
{
	int rc;

	sandbox_refused_expect_mmap(true);
	rc = map_exec() == -1 && open_shadow() == -1 ? 0 : -1;
	sandbox_refused_expect_mmap(false);
	return rc == 0 && map_exec() == -1 ? 0 : -1;
}

static void refusals_are_counted_and_logged(void **state)
{
	struct refused_told told = { 0 };
	char text[2048] = "";
	uint64_t before;
	struct log l;
	int pipes[2];
	ssize_t n;

	if (no_sandbox())
		skip();
	before = refused_read(&refusals->agent);
	assert_int_equal(WEXITSTATUS(in_child(enter, refused_in_threads)), WENT_ON);
	assert_int_equal(refused_read(&refusals->agent), before + 8);
	assert_int_equal(WEXITSTATUS(in_child(enter_with_signal_blocked, sent_signal)), WENT_ON);
	assert_int_equal(refused_read(&refusals->agent), before + 9);
	assert_int_equal(WEXITSTATUS(in_child(enter, expect_mmap)), WENT_ON);
	assert_int_equal(refused_read(&refusals->agent), before + 11);
	assert_int_equal(pipe(pipes), 0);
	log_init(&l, pipes[1], LOG_INFO);
	told.agent = before;
	confine_log_refused(refusals, &told, &l, 1);
	confine_log_refused(refusals, &told, &l, 2);
	refusals->agent.n++;
	confine_log_refused(refusals, &told, &l, 3);		/* within the hour */
	n = read(pipes[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	assert_non_null(strstr(text,
		"level=warn msg=\"the sandbox refused system calls\" process=agent calls=11 last=mmap"));
	assert_ptr_equal(strchr(text, '\n'), text + n - 1);	/* one line */
	memset(text, 0, sizeof(text));
	confine_log_refused(refusals, &told, &l, 1 + REFUSED_LOG_MS);
	assert_true(read(pipes[0], text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "calls=1 "));
	log_fini(&l);
	close(pipes[0]);
	close(pipes[1]);
}

/* Only over the socket to the opener. */
static void enter_with_opener(void)
{
	to_opener = w.pair[1];
	enter();
}

static int receive_from_opener(void)
{
	struct iovec iov = { (char[1]){ 0 }, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	return write(w.pair[0], "x", 1) == 1 && recvmsg(w.pair[1], &m, 0) == 1 &&
		recvmsg(w.pair[0], &m, MSG_DONTWAIT) == -1 && errno == EPERM
	    ? 0
	    : -1;
}

static void descriptors_come_from_the_opener_only(void **state)
{
	if (no_sandbox())
		skip();
	assert_int_equal(WEXITSTATUS(in_child(enter_with_opener, receive_from_opener)), WENT_ON);
}

TRY(trace, ptrace(PTRACE_TRACEME, 0, 0, 0))
TRY(read_other, process_vm_readv(parent, NULL, 0, NULL, 0, 0))
TRY(write_other, process_vm_writev(parent, NULL, 0, NULL, 0, 0))
TRY(load_bpf, syscall(SYS_bpf, 0, NULL, 0))
TRY(load_module, syscall(SYS_init_module, NULL, 0, ""))
TRY(mount_it, mount("none", "/tmp", "tmpfs", MS_RDONLY, ""))
TRY(fault_user, syscall(SYS_userfaultfd, 0))
TRY(watch, syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0))
TRY(keys, syscall(SYS_keyctl, 0, 0, 0, 0, 0))

static int (*const deadly[])(void) = { trace, read_other, write_other, load_bpf, load_module,
	mount_it, fault_user, watch, keys };

static void some_calls_end_the_process(void **state)
{
	size_t i, n = sizeof(deadly) / sizeof(deadly[0]);
	int status;

	if (no_sandbox())
		skip();
	for (i = 0; i < n; i++) {
		status = in_child(enter, deadly[i]);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			fail_msg("call %zu: status %#x", i, (unsigned)status);
	}
	print_message("%zu calls tried, all ended by SIGSYS\n", n);
}

/* ---- allowed ---------------------------------------------------------------------------- */

static void *work(void *arg)
{
	void *p = malloc(8 << 20), *q = malloc(100);

	pthread_setname_np(pthread_self(), "worker");
	if (p == NULL || q == NULL || (p = realloc(p, 64 << 20)) == NULL)
		return arg;
	memset(p, 1, 1 << 20);
	free(p);
	free(q);
	return NULL;
}

static int threads(void)
{
	pthread_t t[8];
	void *got;
	int i, bad = 0;

	for (i = 0; i < 8; i++)
		if (pthread_create(&t[i], NULL, work, &bad) != 0)
			return -1;
	for (i = 0; i < 8; i++)
		bad |= pthread_join(t[i], &got) != 0 || got != NULL;
	return -bad;
}

static int talk(void)
{
	struct sockaddr_in in;
	socklen_t len = sizeof(in);
	struct pollfd p = { .fd = w.pair[1], .events = POLLIN };
	uint32_t info[SK_MEMINFO_VARS];
	socklen_t info_size = sizeof(info);
	int on = 1, fd = accept4(w.listener, (struct sockaddr *)&in, &len, SOCK_NONBLOCK);
	char c;

	return fd == -1 && errno == EAGAIN && send(w.pair[0], "x", 1, MSG_NOSIGNAL) == 1 &&
	       poll(&p, 1, -1) == 1 && recv(w.pair[1], &c, 1, 0) == 1 &&
	       recv(w.datagrams, &c, 1, 0) == -1 && errno == EAGAIN &&
	       setsockopt(w.listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0 &&
	       setsockopt(w.listener, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) == 0 &&
	       setsockopt(w.datagrams, SOL_SOCKET, SO_RCVBUF, &on, sizeof(on)) == 0 &&
	       setsockopt(w.pair[0], SOL_SOCKET, SO_SNDBUF, &on, sizeof(on)) == 0 &&
	       getsockopt(w.datagrams, SOL_SOCKET, SO_MEMINFO, info, &info_size) == 0 &&
	       fcntl(w.pair[0], F_SETFL, O_NONBLOCK) == 0 &&
	       shutdown(w.pair[0], SHUT_WR) == 0 && close(w.pair[0]) == 0 ? 0 : -1;
}

static void on_wake(struct ev_loop *loop, ev_async *a, int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

static void *wake(void *arg)
{
	ev_async_send(w.loop, &w.wake);
	return NULL;
}

static int loops(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, wake, NULL) != 0)
		return -1;
	ev_run(w.loop, 0);
	return -pthread_join(t, NULL);
}

static void enter_with_loop(void)
{
	ev_async_init(&w.wake, on_wake);
	ev_async_start(w.loop, &w.wake);
	enter();
}

/* Another thread closes a listener when this one has its event already: libev, which meets a
 * descriptor it can no longer take out, begins its epoll anew, and ends the process where it may
 * not. */
static ev_io lost;

static void on_lost(struct ev_loop *loop, ev_io *io, int revents)
{
}

static void enter_with_loop_and_copy(void)
{
	if (dup(w.pair[0]) < 0)
		_exit(94);
	ev_io_init(&lost, on_lost, w.pair[0], EV_READ);
	ev_io_start(w.loop, &lost);
	ev_run(w.loop, EVRUN_NOWAIT);
	enter_with_loop();
}

static int loop_anew(void)
{
	ev_io_stop(w.loop, &lost);
	if (close(w.pair[0]) != 0 || write(w.pair[1], "x", 1) != 1)
		return -1;
	ev_run(w.loop, EVRUN_NOWAIT);
	return loops();
}

static int look_and_log(void)
{
	struct process_figures p;
	struct log l;
	uint64_t x;

	process_read(&w.files, &p);
	log_init(&l, w.pair[0], LOG_INFO);
	log_msg(&l, LOG_INFO, LOG_LIFE, "hello");
	return p.fds > 5 && p.resident_bytes > 0 && p.max_fds > 0 && log_lost(&l) == 0 &&
	       getrandom(&x, sizeof(x), 0) == sizeof(x) && clock_usec() > 0 && time(NULL) > 0 ? 0 : -1;
}

/* The calls of a snapshot on an open file and an open directory. */
static int sync_files(void)
{
	struct stat st;

	return fsync(w.file) == 0 && fsync(w.opened_dir) == 0 && fstat(w.file, &st) == 0 &&
		write(w.file, "x", 1) == 1
	    ? 0
	    : -1;
}

/* The memory of the index is mapped before and unmapped at the end; later that address range may
 * have another use. */
static void enter_with_region(void)
{
	if (region_take(&w.region, 1 << 20, true) != 0)
		_exit(95);
	enter();
}

static int give_region(void)
{
	struct region r = w.region;
	void *p;

	region_give(&w.region);
	p = mmap(r.base, r.bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	return p == r.base ? 0 : -1;
}

static int crash(void)
{
	abort();
}

/* libc's message about a corrupt heap must be written, because there is no core file. */
static void enter_with_words(void)
{
	int fd = open(w.in_other, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
		_exit(93);
	enter();
}

static int break_heap(void)
{
	void (*volatile give)(void *) = free;
	void *p = malloc(40);

	give(p);
	give(p);
	return 0;
}

static void last_words_are_heard(void **state)
{
	char text[128] = "";
	int status, fd;

	if (no_sandbox())
		skip();
	status = in_child(enter_with_words, break_heap);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	fd = open(w.in_other, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	assert_non_null(strstr(text, "free"));
}

static void calls_of_serving_are_allowed(void **state)
{
	uint64_t before;
	int status;

	if (no_sandbox())
		skip();
	before = refused_read(&refusals->agent);
	assert_int_equal(WEXITSTATUS(in_child(enter, threads)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter, talk)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter_with_loop, loops)), WENT_ON);
	assert_int_equal(in_child(enter_with_loop_and_copy, loop_anew), WENT_ON << 8);
	assert_int_equal(WEXITSTATUS(in_child(enter, look_and_log)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter_with_region, give_region)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter, sync_files)), WENT_ON);
	assert_int_equal(refused_read(&refusals->agent), before);	/* and makes no other call */
	status = in_child(enter, crash);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_false(WCOREDUMP(status));
}

/* ---- kernels and containers that have less ---------------------------------------------- */

/* Make call <nr> fail with <error>, as on a kernel without it or in a container that forbids it. */
static void forbid(int nr, int error)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);

	if (seccomp_rule_add(ctx, SCMP_ACT_ERRNO((uint32_t)error), nr, 0) != 0 || seccomp_load(ctx) != 0)
		_exit(99);
	seccomp_release(ctx);
}

static int is_whole(void)
{
	return sandbox_whole(&w.box) ? 0 : -1;
}

static void without_seccomp(void)
{
	forbid(SCMP_SYS(seccomp), EPERM);
	enter();
}

static int only_seccomp_is_missing(void)
{
	return !w.box.seccomp && w.box.seccomp_error == EPERM && w.box.no_new_privs && w.box.core_off &&
	       w.box.open_refused == (w.box.landlock_abi > 0) && !sandbox_whole(&w.box) ? 0 : -1;
}

static int serves(void)
{
	return talk() == 0 && threads() == 0 ? 0 : -1;
}

static void landlock_only(void)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (sandbox_landlock(&w.out, &w.box.landlock_abi) != 0)
		_exit(97);
}

/* ---- allowed connections ---------------------------------------------------------------- */

static int connect_to_port(uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || (connect(fd, (struct sockaddr *)&in, sizeof(in)) != 0 && errno != EINPROGRESS))
		return -1;
	return 0;
}

/* Of w.listener and w.other_listener, found before the sandbox forbids the call. */
static uint16_t port_there, port_elsewhere;

static uint16_t port_of(int fd)
{
	struct sockaddr_in in;
	socklen_t len = sizeof(in);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	return ntohs(in.sin_port);
}

static void find_ports(void)
{
	port_there = port_of(w.listener);
	port_elsewhere = port_of(w.other_listener);
}

/* As with one peer in the configuration, at <port_there>. */
static void ask_for_port(void)
{
	w.out.any = true;
	memset(w.out.bits, 0, sizeof(w.out.bits));
	connect_ports_add(&w.out, port_there);
}

static void enter_asking(void)
{
	ask_for_port();
	enter();
}

static void enter_asking_without_landlock(void)
{
	ask_for_port();
	enter_without_landlock();
}

/* As with {port} or auto in the address of an engine. */
static void enter_asking_every(void)
{
	w.out.any = w.out.every = true;
	enter();
}

/* As with an address that publishers of events connect to, and no peer. */
static void enter_bound_events(void)
{
	w.out.events = true;
	enter();
}

static void enter_bound_events_without_landlock(void)
{
	w.out.events = true;
	enter_without_landlock();
}

/* Also if connect() is allowed, no datagram may be sent. */
TRY(connect_datagrams, connect(w.datagrams, &loopback.sa, sizeof(loopback)))
/* The kernel compares 32 bits of a descriptor, a filter 64. */
TRY(connect_widened, syscall(SYS_connect, w.datagrams | 1L << 32, &loopback.sa, sizeof(loopback)))

static int send_through_new(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return (int)sendto(fd, "x", 1, MSG_FASTOPEN, &loopback.sa, sizeof(loopback));
}

static int ask_there(void) { return connect_to_port(port_there); }
static int ask_elsewhere(void) { return connect_to_port(port_elsewhere); }

static int ask_unix(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	memcpy(un.sun_path, w.socket_path, sizeof(w.socket_path));
	return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&un, sizeof(un));
}

/* With the flags that libzmq uses. */
static int ask_blocking(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port_elsewhere),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&in, sizeof(in));
}

static int datagrams(void) { return socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }
static int blocking(void) { return socket(AF_INET, SOCK_STREAM, 0); }
static int raw_packets(void) { return socket(AF_PACKET, SOCK_RAW, 0); }
static int binds_ports(void) { errno = 0; return sandbox_binds_ports(&w.box) ? -1 : 0; }

/* Connections are allowed only as far as the configuration needs them. */
static void allowed_connections(void **state)
{
	if (no_sandbox())
		skip();
	find_ports();
	assert_int_equal(WEXITSTATUS(in_child(enter, ask_there)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, is_whole)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, ask_there)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, datagrams)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, blocking)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, raw_packets)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, open_shadow)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, connect_datagrams)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, connect_widened)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, send_to)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, send_through_new)), EPERM);
}

/* kvroute(8), SANDBOX: without a peer in the configuration nothing can be connected to, on any
 * kernel. With one, seccomp allows every stream; only Landlock looks at ports. */
static void the_configuration_limits_connections(void **state)
{
	static const struct {
		const char *name;
		void (*prepare)(void);
		int there, elsewhere, local;
	} on_any_kernel[] = {
		{ "no peer", enter, EPERM, EPERM, EPERM },
		{ "no peer, without Landlock", enter_without_landlock, EPERM, EPERM, EPERM },
		{ "a peer, without Landlock", enter_asking_without_landlock, WENT_ON, WENT_ON, WENT_ON },
		{ "a peer at any port", enter_asking_every, WENT_ON, WENT_ON, WENT_ON },
	}, *t;

	if (no_sandbox())
		skip();
	find_ports();
	for (t = on_any_kernel; t < on_any_kernel + 4; t++) {
		print_message("%s\n", t->name);
		assert_int_equal(WEXITSTATUS(in_child(t->prepare, ask_there)), t->there);
		assert_int_equal(WEXITSTATUS(in_child(t->prepare, ask_elsewhere)), t->elsewhere);
		assert_int_equal(WEXITSTATUS(in_child(t->prepare, ask_unix)), t->local);
	}
	assert_int_equal(WEXITSTATUS(in_child(enter_bound_events_without_landlock, ask_blocking)),
			 WENT_ON);
	if (WEXITSTATUS(in_child(enter_asking, binds_ports)) == WENT_ON) {
		print_message("skipped: ports, which Landlock of this kernel does not have\n");
		return;
	}
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, ask_there)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, ask_elsewhere)), EACCES);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, ask_unix)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter_bound_events, ask_blocking)), EACCES);
}

static int removes_outside(void)
{
	return unlink(w.in_other);
}

static void each_layer_does_its_part(void **state)
{
	if (no_sandbox())
		skip();
	assert_int_equal(WEXITSTATUS(in_child(enter, is_whole)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter_without_landlock, is_whole)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter_without_landlock, open_shadow)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(enter_without_landlock, serves)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(without_seccomp, only_seccomp_is_missing)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(without_seccomp, serves)), WENT_ON);
	if (WEXITSTATUS(in_child(landlock_only, open_root)) == 97) {
		print_message("skipped: Landlock, which this kernel does not have\n");
		return;
	}
	assert_int_equal(WEXITSTATUS(in_child(landlock_only, open_shadow)), EACCES);
	assert_int_equal(WEXITSTATUS(in_child(landlock_only, open_root)), EACCES);
	assert_int_equal(WEXITSTATUS(in_child(landlock_only, open_write)), EACCES);
	assert_int_equal(WEXITSTATUS(in_child(landlock_only, run)), EACCES);
	assert_int_equal(WEXITSTATUS(in_child(landlock_only, removes_outside)), EACCES);
}

/* The self-test can fail. */
static void the_self_test_detects_open_calls(void **state)
{
	usec start;
	int status;

	assert_false(sandbox_open_refused());
	assert_false(sandbox_execve_refused());
	assert_false(sandbox_whole(&w.box));
	if (no_sandbox())
		return;
	start = clock_usec();
	status = in_child(enter, is_whole);
	print_message("entering, with the self-test and a fork: %lld us\n",
		      (long long)(clock_usec() - start));
	assert_int_equal(WEXITSTATUS(status), WENT_ON);
}

static const int no_dirs[SANDBOX_DIRS] = { -1, -1 };

static void opener_filter(void)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (sandbox_refused_watch(&refusals->opener) != 0 ||
	    sandbox_seccomp_opener(w.pair[1], no_dirs, false) != 0)
		_exit(97);
}

/* With a directory of snapshots and sockets to remove: seccomp alone, and with Landlock. */
static void opener_filter_files(void)
{
	const int dirs[SANDBOX_DIRS] = { w.opened_dir, -1 };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (sandbox_refused_watch(&refusals->opener) != 0 ||
	    sandbox_seccomp_opener(w.pair[1], dirs, true) != 0)
		_exit(97);
}

/* The second directory, that of a recording, without the first. */
static void opener_filter_second(void)
{
	const int dirs[SANDBOX_DIRS] = { -1, w.opened_dir };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (sandbox_refused_watch(&refusals->opener) != 0 ||
	    sandbox_seccomp_opener(w.pair[1], dirs, false) != 0)
		_exit(97);
}

static void opener_landlock(void)
{
	const char *dirs[] = { w.dir, "/nowhere" };
	const int files[SANDBOX_DIRS] = { -1, w.opened_dir };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (sandbox_landlock_opener(dirs, 2, files) != 0)
		_exit(97);
}

static int make_a_snapshot(void)
{
	int fd = openat(w.opened_dir, "new", SANDBOX_NEW_FILE, 0600);

	if (fd < 0 || renameat(w.opened_dir, "new", w.opened_dir, "old") != 0)
		return -1;
	fd = openat(w.opened_dir, "new", SANDBOX_NEW_FILE, 0600);	/* and over the one that is there */
	return fd >= 0 && renameat(w.opened_dir, "new", w.opened_dir, "old") == 0 &&
		unlinkat(w.opened_dir, "old", 0) == 0
	    ? 0
	    : -1;
}

static int read_and_remove(void)
{
	return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 && unlinkat(AT, w.in_dir, 0) == 0 ? 0 : -1;
}

TRY(files_write, openat(w.opened_dir, "x", O_WRONLY))
TRY(files_make_more, openat(w.opened_dir, "x", (SANDBOX_NEW_FILE & ~O_EXCL), 0600))
TRY(files_elsewhere, openat(AT, "/tmp/kvroute-new", SANDBOX_NEW_FILE, 0600))
TRY(files_out, renameat(w.opened_dir, "x", AT, "/tmp/kvroute-new"))
TRY(files_in, renameat(AT, w.in_dir, w.opened_dir, "x"))
TRY(answer_else, sendmsg(w.pair[0], &message, 0))
TRY(write_else, write(w.pair[0], "x", 1))

TRY(open_read, open("/etc/passwd", RD | O_CLOEXEC))
TRY(open_cut, open(w.in_dir, RD | O_TRUNC))
TRY(read_any, read(w.pair[0], NULL, 0))

static void the_opener_only_opens_for_reading(void **state)
{
	if (no_sandbox())
		skip();
	assert_int_equal(WEXITSTATUS(in_child(opener_filter, open_read)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(opener_filter, open_write)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(opener_filter, open_new)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(opener_filter, open_cut)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(opener_filter, read_any)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(opener_filter, run)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(opener_filter, make_process)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(opener_filter, socket_un)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(opener_filter, files_elsewhere)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(opener_filter, remove_other)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(opener_filter, answer_else)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(opener_filter, write_else)), EPERM);
	assert_int_equal(WTERMSIG(in_child(opener_filter, trace)), SIGSYS);
}

static void the_opener_makes_only_snapshots(void **state)
{
	static const struct {
		const char *name;
		int (*try)(void);
	} no[] = {
		{ "write", files_write },
		{ "not exclusive", files_make_more },
		{ "elsewhere", files_elsewhere },
		{ "out", files_out },
		{ "in", files_in },
		{ "move", move },
		{ "directory", old_dir },
		{ "socket", socket_un },
	};
	uint64_t before;

	if (no_sandbox())
		skip();
	assert_int_equal(WEXITSTATUS(in_child(opener_filter_files, make_a_snapshot)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(opener_filter_second, make_a_snapshot)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(opener_filter, make_a_snapshot)), EPERM);
	before = refused_read(&refusals->opener);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		int is = in_child(opener_filter_files, no[i].try);

		if (!WIFEXITED(is) || WEXITSTATUS(is) != EPERM)
			fail_msg("%s: status %#x instead of EPERM", no[i].name, (unsigned)is);
	}
	assert_int_equal(refused_read(&refusals->opener), before + sizeof(no) / sizeof(no[0]));
	assert_int_equal(WEXITSTATUS(in_child(opener_filter_files, read_and_remove)), WENT_ON);
	touch(w.in_dir);
	if (WEXITSTATUS(in_child(opener_landlock, make_a_snapshot)) == 97) {
		print_message("skipped: Landlock, which this kernel does not have\n");
		return;
	}
	assert_int_equal(WEXITSTATUS(in_child(opener_landlock, make_a_snapshot)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(opener_landlock, read_and_remove)), WENT_ON);
	touch(w.in_dir);
	assert_int_equal(WEXITSTATUS(in_child(opener_landlock, remove_other)), EACCES);
	assert_int_equal(WEXITSTATUS(in_child(opener_landlock, files_elsewhere)), EACCES);
	assert_int_equal(WEXITSTATUS(in_child(opener_landlock, run)), EACCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_refused),
		cmocka_unit_test(refusals_are_counted_and_logged),
		cmocka_unit_test(descriptors_come_from_the_opener_only),
		cmocka_unit_test(some_calls_end_the_process),
		cmocka_unit_test(calls_of_serving_are_allowed),
		cmocka_unit_test(last_words_are_heard),
		cmocka_unit_test(each_layer_does_its_part),
		cmocka_unit_test(allowed_connections),
		cmocka_unit_test(the_configuration_limits_connections),
		cmocka_unit_test(the_self_test_detects_open_calls),
		cmocka_unit_test(the_opener_only_opens_for_reading),
		cmocka_unit_test(the_opener_makes_only_snapshots),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
