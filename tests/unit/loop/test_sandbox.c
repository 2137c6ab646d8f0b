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

#include "agent/index/arena.h"
#include "agent/loop/clock.h"
#include "agent/loop/log.h"
#include "agent/loop/outgoing.h"
#include "agent/loop/process.h"
#include "agent/loop/sandbox.h"

#define WENT_ON		200	/* exit status: the call went through */

/* What was open before, for calls that need something. */
static struct {
	char dir[64], other[64], in_dir[96], in_other[96];
	int pair[2], listener, datagrams, epoll;
	void *page;
	struct process_files files;
	struct ev_loop *loop;
	ev_async wake;
	struct sandbox box;
	struct outgoing out;
	struct region region;
} w;

static void touch(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static int setup(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };

	snprintf(w.dir, sizeof(w.dir), "/tmp/kvroute-box-XXXXXX");
	snprintf(w.other, sizeof(w.other), "/tmp/kvroute-out-XXXXXX");
	if (mkdtemp(w.dir) == NULL || mkdtemp(w.other) == NULL)
		return -1;
	snprintf(w.in_dir, sizeof(w.in_dir), "%s/f", w.dir);
	snprintf(w.in_other, sizeof(w.in_other), "%s/f", w.other);
	touch(w.in_dir);
	touch(w.in_other);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w.pair) != 0)
		return -1;
	w.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	w.datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	w.epoll = epoll_create1(EPOLL_CLOEXEC);
	w.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	w.loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	process_open(&w.files);
	return bind(w.listener, (struct sockaddr *)&in, sizeof(in)) == 0 &&
	       listen(w.listener, 4) == 0 && w.page != MAP_FAILED && w.loop != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	ev_loop_destroy(w.loop);
	process_close(&w.files);
	munmap(w.page, 4096);
	close(w.epoll);
	close(w.datagrams);
	close(w.listener);
	close(w.pair[0]);
	close(w.pair[1]);
	unlink(w.in_dir);
	unlink(w.in_other);
	rmdir(w.other);
	return rmdir(w.dir);
}

static int files = -1;		/* where new ones may be made */

static void enter(void)
{
	const char *dirs[] = { w.dir };

	sandbox_no_core(&w.box);
	sandbox_enter(&w.box, dirs, 1, files, &w.out);
}

/* What waitpid() says of a child that runs <prepare> and then <try>, which gives 0 or -1 with errno. */
static int in_child(void (*prepare)(void), int (*try)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		/* what was shut down in another child is shut down for all */
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

/* ---- refused ---------------------------------------------------------------------------------------- */

#define TRY(name, call)	static int name(void) { return (int)(call) < 0 ? -1 : 0; }

#define AT	AT_FDCWD
#define RD	O_RDONLY

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
TRY(make_process, fork())
TRY(make_clone, clone(nothing, stack + sizeof(stack), SIGCHLD, NULL))
TRY(make_vm_clone, clone(nothing, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL))
TRY(make_clone3, syscall(SYS_clone3, NULL, 0))
TRY(socket_in, socket(AF_INET, SOCK_STREAM, 0))
TRY(socket_in6, socket(AF_INET6, SOCK_DGRAM, 0))
TRY(socket_un, socket(AF_UNIX, SOCK_STREAM, 0))
TRY(socket_netlink, socket(AF_NETLINK, SOCK_RAW, 0))
TRY(socket_packet, socket(AF_PACKET, SOCK_RAW, 0))
TRY(socket_pair, socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){ 0 }))
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
TRY(signal_parent, kill(getppid(), 0))
TRY(signal_other, syscall(SYS_tgkill, getppid(), getppid(), 0))
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
	R(open_shadow), R(open_root), R(open_self), R(open_old), R(open_how), R(open_write), R(open_new),
	R(open_handle), R(memory_file), R(run), R(run_at), R(make_process), R(make_clone),
	R(make_vm_clone), { "make_clone3", make_clone3, ENOSYS }, R(socket_in), R(socket_in6),
	R(socket_un), R(socket_netlink), R(socket_packet), R(socket_pair), R(go_out), R(attach), R(ulp),
	R(map_exec), R(make_exec), R(make_exec_key), R(exec_pages), R(share), R(control), R(own),
	R(copy_fd), R(signal_parent), R(signal_other), R(be_root), R(be_dumpable), R(limit),
	R(own_rooms), R(filter_more), R(ring), R(new_root), R(go_dir), R(move), R(hard_link),
	R(soft_link), R(mode), R(new_dir), R(old_dir), R(old_dir_at), R(cut_file),
#undef R
};

static void calls_are_refused(void **state)
{
	size_t i, n = sizeof(refused) / sizeof(refused[0]);
	int status;

	if (no_sandbox())
		skip();
	for (i = 0; i < n; i++) {
		status = in_child(enter, refused[i].try);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != refused[i].error)
			fail_msg("%s: status %#x instead of errno %d (%d: it went through)",
				 refused[i].name, (unsigned)status, refused[i].error, WENT_ON);
	}
	print_message("%zu calls tried, all refused\n", n);
}

/* ---- with a directory for new files ------------------------------------------------------------------- */

static int write_a_snapshot(void)
{
	int fd = openat(files, "new", SANDBOX_NEW_FILE, 0600);

	if (fd < 0 || write(fd, "x", 1) != 1 || fsync(fd) != 0 || close(fd) != 0 ||
	    renameat(files, "new", files, "old") != 0 || fsync(files) != 0)
		return -1;
	fd = openat(files, "new", SANDBOX_NEW_FILE, 0600);	/* and over the one that is there */
	return fd >= 0 && renameat(files, "new", files, "old") == 0 && unlinkat(files, "old", 0) == 0 ? 0 : -1;
}

TRY(files_read, openat(files, ".", RD))
TRY(files_write, openat(files, "x", O_WRONLY))
TRY(files_make_more, openat(files, "x", (SANDBOX_NEW_FILE & ~O_EXCL), 0600))
TRY(files_elsewhere, openat(AT, "/tmp/kvroute-new", SANDBOX_NEW_FILE, 0600))
TRY(files_out, renameat(files, "x", AT, "/tmp/kvroute-new"))
TRY(files_in, renameat(AT, w.in_dir, files, "x"))

static void new_files_only_where_they_may_be(void **state)
{
	static const struct {
		const char *name;
		int (*try)(void);
	} no[] = {
		{ "read", files_read }, { "write", files_write }, { "not exclusive", files_make_more },
		{ "elsewhere", files_elsewhere }, { "out", files_out }, { "in", files_in },
		{ "open", open_root }, { "shadow", open_shadow }, { "move", move },
	};
	int status;
	size_t i;

	if (no_sandbox())
		skip();
	files = open(w.other, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(files >= 0);
	status = in_child(enter, write_a_snapshot);
	for (i = 0; i < sizeof(no) / sizeof(no[0]) && WEXITSTATUS(status) == WENT_ON; i++) {
		int is = in_child(enter, no[i].try);

		if (!WIFEXITED(is) || WEXITSTATUS(is) != EPERM)
			fail_msg("%s: status %#x instead of EPERM", no[i].name, (unsigned)is);
	}
	close(files);
	files = -1;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != WENT_ON)
		fail_msg("a snapshot: status %#x", (unsigned)status);
}

TRY(trace, ptrace(PTRACE_TRACEME, 0, 0, 0))
TRY(read_other, process_vm_readv(getppid(), NULL, 0, NULL, 0, 0))
TRY(write_other, process_vm_writev(getppid(), NULL, 0, NULL, 0, 0))
TRY(load_bpf, syscall(SYS_bpf, 0, NULL, 0))
TRY(load_module, syscall(SYS_init_module, NULL, 0, ""))
TRY(mount_it, mount("none", "/tmp", "tmpfs", MS_RDONLY, ""))
TRY(fault_user, syscall(SYS_userfaultfd, 0))
TRY(watch, syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0))
TRY(keys, syscall(SYS_keyctl, 0, 0, 0, 0, 0))

static int (*const deadly[])(void) = { trace, read_other, write_other, load_bpf, load_module, mount_it,
				       fault_user, watch, keys };

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

/* ---- allowed ---------------------------------------------------------------------------------------- */

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
	       poll(&p, 1, 1000) == 1 && recv(w.pair[1], &c, 1, 0) == 1 &&
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

/* Another thread closes a listener when this one has its event already: libev, which meets a descriptor it can
 * no longer take out, begins its epoll anew, and ends the process where it may not. */
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

static int end_sockets(void)
{
	struct stat st;

	return lstat(w.in_dir, &st) == 0 && unlink(w.in_dir) == 0 ? 0 : -1;
}

/* The index's memory is taken before and given back at the end: then something else may be there. */
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

/* There is no core, so what libc says of a broken heap is all that anybody will know. */
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

static void what_serving_needs_is_allowed(void **state)
{
	int status;

	if (no_sandbox())
		skip();
	assert_int_equal(WEXITSTATUS(in_child(enter, threads)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter, talk)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter_with_loop, loops)), WENT_ON);
	assert_int_equal(in_child(enter_with_loop_and_copy, loop_anew), WENT_ON << 8);
	assert_int_equal(WEXITSTATUS(in_child(enter, look_and_log)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter_with_region, give_region)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter, end_sockets)), WENT_ON);
	touch(w.in_dir);
	status = in_child(enter, crash);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_false(WCOREDUMP(status));
}

/* ---- kernels and containers that have less ----------------------------------------------------------- */

/* The call <nr> ends with <error>, as where the kernel does not have it or a container forbids it. */
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

static void without_landlock(void)
{
	forbid(SCMP_SYS(landlock_create_ruleset), ENOSYS);
	enter();
	if (w.box.landlock_abi != 0 || w.box.landlock_error != ENOSYS)
		_exit(98);
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
	const char *dirs[] = { w.dir };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (sandbox_landlock(dirs, 1, -1, &w.out, &w.box.landlock_abi) != 0)
		_exit(97);
}

/* ---- who may be asked ------------------------------------------------------------------------------ */

static int connect_to_port(uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || (connect(fd, (struct sockaddr *)&in, sizeof(in)) != 0 && errno != EINPROGRESS))
		return -1;
	return 0;
}

static uint16_t port_there;	/* of w.listener: inside, nobody may ask for it */

static void find_port(void)
{
	struct sockaddr_in in;
	socklen_t len = sizeof(in);

	assert_int_equal(getsockname(w.listener, (struct sockaddr *)&in, &len), 0);
	port_there = ntohs(in.sin_port);
}

static void enter_asking(void)
{
	w.out.any = true;
	w.out.n = 1;
	w.out.port[0] = port_there;
	enter();
}

static int ask_there(void) { return connect_to_port(port_there); }
static int ask_elsewhere(void) { return connect_to_port(port_there ^ 1); }
static int datagrams(void) { return socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }
static int blocking(void) { return socket(AF_INET, SOCK_STREAM, 0); }
static int raw_packets(void) { return socket(AF_PACKET, SOCK_RAW, 0); }
static int binds_ports(void) { errno = 0; return sandbox_binds_ports(&w.box) ? -1 : 0; }

/* As much as that needs, and only where it is configured. */
static void who_may_be_asked(void **state)
{
	if (no_sandbox())
		skip();
	find_port();
	assert_int_equal(WEXITSTATUS(in_child(enter, ask_there)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, is_whole)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, ask_there)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, datagrams)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, blocking)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, raw_packets)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(enter_asking, open_shadow)), EPERM);
	if (WEXITSTATUS(in_child(enter_asking, binds_ports)) == WENT_ON)
		print_message("skipped: ports, which Landlock of this kernel does not have\n");
	else
		assert_int_equal(WEXITSTATUS(in_child(enter_asking, ask_elsewhere)), EACCES);
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
	assert_int_equal(WEXITSTATUS(in_child(without_landlock, is_whole)), WENT_ON);
	assert_int_equal(WEXITSTATUS(in_child(without_landlock, open_shadow)), EPERM);
	assert_int_equal(WEXITSTATUS(in_child(without_landlock, serves)), WENT_ON);
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
	assert_int_equal(WEXITSTATUS(in_child(enter, removes_outside)), EACCES);
	assert_int_equal(WEXITSTATUS(in_child(landlock_only, end_sockets)), WENT_ON);
	touch(w.in_dir);
}

/* The self-test can fail. */
static void the_self_test_sees_what_is_open(void **state)
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

static void opener_filter(void)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (sandbox_seccomp_opener() != 0)
		_exit(97);
}

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
	assert_int_equal(WTERMSIG(in_child(opener_filter, trace)), SIGSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_refused),
		cmocka_unit_test(new_files_only_where_they_may_be),
		cmocka_unit_test(some_calls_end_the_process),
		cmocka_unit_test(what_serving_needs_is_allowed),
		cmocka_unit_test(last_words_are_heard),
		cmocka_unit_test(each_layer_does_its_part),
		cmocka_unit_test(who_may_be_asked),
		cmocka_unit_test(the_self_test_sees_what_is_open),
		cmocka_unit_test(the_opener_only_opens_for_reading),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
