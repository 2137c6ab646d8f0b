/* The opener: a file that is replaced, missing, and restored; files of models; an opener that hangs
 * or has ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/clock.h"
#include "agent/os/opener_in.h"
#include "agent/os/safe_path.h"

static char dir[64], path[96], next[96], models[96], outside[96], snaps[96], sock_path[96];
static struct opener_files files;
static struct opener o;
static pid_t child;

static void put(const char *to, const char *text)
{
	int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* Return the only child of this process. */
static pid_t only_child(void)
{
	char name[64];
	int pid = 0;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/self/task/%d/children", (int)getpid());
	if ((f = fopen(name, "re")) == NULL)
		return 0;
	if (fscanf(f, "%d", &pid) != 1)
		pid = 0;
	fclose(f);
	return pid;
}

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/kvroute-opener-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/conf", dir);
	snprintf(next, sizeof(next), "%s/conf.new", dir);
	snprintf(models, sizeof(models), "%s/models", dir);
	snprintf(outside, sizeof(outside), "%s/outside", dir);
	snprintf(snaps, sizeof(snaps), "%s/snaps", dir);
	snprintf(sock_path, sizeof(sock_path), "%s/sock", dir);
	put(path, "one");
	put(outside, "secret");
	if (mkdir(snaps, 0700) != 0)
		return -1;
	files = (struct opener_files){ .conf = path,
		.models_dir = models,
		.snapshot_dir = snaps,
		.snapshot = "snap",
		.snapshot_tmp = "snap.tmp.1",
		.record_dir = snaps,
		.record = "rec",
		.record_old = "rec.1",
		.socket = { sock_path },
		.n_sockets = 1 };
	if (opener_start(&o, &files) != 0)
		return -1;
	return (child = only_child()) > 0 ? 0 : -1;
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *at)
{
	return remove(name);
}

static int teardown(void **state)
{
	int status;

	opener_stop(&o);
	unlink(path);
	unlink(outside);
	nftw(models, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	nftw(snaps, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	unlink(sock_path);
	rmdir(dir);
	return waitpid(child, &status, 0) == child ? 0 : -1;	/* it ends by itself */
}

static void expect_fd(int fd, const char *text)
{
	char got[64];
	ssize_t n;

	assert_true(fd >= 0);
	n = read(fd, got, sizeof(got));
	assert_int_equal(n, (ssize_t)strlen(text));
	assert_memory_equal(got, text, (size_t)n);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(fd);
}

static void expect(const char *text)
{
	expect_fd(opener_open(&o), text);
}

static void opens_the_current_file(void **state)
{
	usec start = clock_usec();
	int i;

	expect("one");
	put(path, "written over");
	expect("written over");
	put(next, "replaced");
	assert_int_equal(rename(next, path), 0);
	expect("replaced");
	unlink(path);
	assert_int_equal(opener_open(&o), -ENOENT);
	assert_int_equal(symlink("nowhere", path), 0);
	assert_int_equal(opener_open(&o), -ENOENT);
	unlink(path);
	put(path, "back");
	start = clock_usec();
	for (i = 0; i < 100; i++)
		expect("back");
	print_message("%lld us for each open and read\n", (long long)(clock_usec() - start) / 100);
}

/* A pipe without a writer must not block the opener: the file that replaces it must be opened. */
static void a_pipe_does_not_hold_it(void **state)
{
	usec start = clock_usec();
	int fd;

	expect("one");
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	fd = opener_open(&o);
	assert_true(fd >= 0);
	close(fd);
	unlink(path);
	put(path, "back");
	expect("back");
	print_message("%lld ms\n", (long long)(clock_usec() - start) / 1000);
}

static void signals_do_not_end_it(void **state)
{
	static const int signals[] = { SIGHUP, SIGINT, SIGTERM };
	size_t i;

	expect("one");		/* after it, the signals are ignored */
	for (i = 0; i < 3; i++)
		assert_int_equal(kill(child, signals[i]), 0);
	expect("one");
}

static void hanging_is_given_up(void **state)
{
	struct pollfd late = { .fd = o.fd, .events = POLLIN };
	usec start = clock_usec();

	expect("one");
	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_int_equal(opener_open(&o), -ETIMEDOUT);
	print_message("given up after %lld ms\n", (long long)(clock_usec() - start) / 1000);
	assert_true(clock_usec() - start < 180 * 1000000ll);
	put(path, "two");
	assert_int_equal(kill(child, SIGCONT), 0);
	assert_int_equal(poll(&late, 1, -1), 1);
	put(next, "three");
	assert_int_equal(rename(next, path), 0);
	expect("three");	/* and not the late answer, which is "two" */
}

static void a_dead_opener_is_reported(void **state)
{
	expect("one");
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(opener_open(&o), -ESRCH);
	assert_int_equal(opener_open(&o), -ESRCH);
	opener_stop(&o);
	assert_int_equal(opener_open(&o), -ESRCH);
}

/* Count the descriptors of the child, except the three standard ones. */
static int fds_of_child(void)
{
	char name[64];
	struct stat st;
	int i, n = 0;

	for (i = 3; i < 64; i++) {
		snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)child, i);
		n += lstat(name, &st) == 0;
	}
	return n;
}

static void assert_holds_nothing(void)
{
	int tries;

	for (tries = 0; tries < 36000 && fds_of_child() != 3; tries++)
		usleep(5000);	/* it may still have to close a sent one */
	/* the socket, and the directories of snapshots and of recordings */
	assert_int_equal(fds_of_child(), 3);
}

/* ---- files of models -------------------------------------------------------------------- */

static char *in_models(const char *name)
{
	static char full[256];

	snprintf(full, sizeof(full), "%s/%s", models, name);
	return full;
}

static void put_model(const char *name, const char *text)
{
	put(in_models(name), text);
}

static void link_model(const char *name, const char *to)
{
	assert_int_equal(symlink(to, in_models(name)), 0);
}

static void make_models(void)
{
	assert_int_equal(mkdir(models, 0700), 0);
	assert_int_equal(mkdir(in_models("a"), 0700), 0);
	assert_int_equal(mkdir(in_models("a/blobs"), 0700), 0);
	assert_int_equal(mkdir(in_models("a/snap"), 0700), 0);
	put_model("top.json", "top");
	put_model("a/blobs/12ab", "blob");
	link_model("a/snap/t.json", "../blobs/12ab");
	link_model("b", "a/snap");
	link_model("b2", "./b//../snap/.");
}

static void models_are_opened(void **state)
{
	char name[SAFE_PATH_MAX + 1];

	assert_int_equal(opener_open_model(&o, "top.json"), -ENOENT);	/* the directory may come later */
	make_models();
	expect_fd(opener_open_model(&o, "top.json"), "top");
	expect_fd(opener_open_model(&o, "./a//blobs/./12ab"), "blob");
	expect_fd(opener_open_model(&o, "a/snap/t.json"), "blob");
	expect_fd(opener_open_model(&o, "b/t.json"), "blob");
	expect_fd(opener_open_model(&o, "b2/t.json"), "blob");
	expect_fd(opener_open_model(&o, "a/snap/../blobs/12ab"), "blob");	/* still below the root */
	expect("one");
	put_model("top.json", "replaced");
	expect_fd(opener_open_model(&o, "top.json"), "replaced");
	memset(name, '/', sizeof(name));
	name[0] = '.';
	strcpy(name + SAFE_PATH_MAX - 8, "top.json");
	expect_fd(opener_open_model(&o, name), "replaced");
}

/* Requests of a hostile agent. */
static void nothing_else_is_opened(void **state)
{
	char name[SAFE_PATH_MAX + 2], deep[3 * SAFE_PATH_DEPTH_MAX + 8] = "";
	static const struct { const char *name; int error;
	} table[] = {
		{ "../outside", EXDEV },
		{ "a/../../outside", EXDEV },
		{ "a/snap/../../../outside", EXDEV },
		{ "..", EXDEV },
		{ "/etc/passwd", EXDEV },
		{ "/", EXDEV },
		{ "//etc/passwd", EXDEV },
		{ "b/../../../outside", EXDEV },
		{ "out", EXDEV },
		{ "a/out", EXDEV },
		{ "root/etc/passwd", EXDEV },
		{ "up/outside", EXDEV },
		{ "via/outside", EXDEV },
		{ "same", EXDEV }, /* absolute: rejected, although its target is inside */
		{ "pipe", EBADFD },
		{ "null", EBADFD },
		{ "sock", EBADFD },
		{ "pipe/x", EBADFD },
		{ "loop", ELOOP },
		{ "loop/x", ELOOP },
		{ "long", ELOOP },
		{ "a", EISDIR },
		{ "a/snap", EISDIR },
		{ ".", EISDIR },
		{ "a/..", EISDIR },
		{ "top.json/", ENOTDIR },
		{ "top.json/x", ENOTDIR },
		{ "top.json/..", ENOTDIR },
		{ "missing", ENOENT },
		{ "a/missing/x", ENOENT },
		{ "", ENOENT },
		{ "dangling", ENOENT },
	};
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	make_models();
	link_model("out", "../outside");
	link_model("a/out", "../../outside");
	link_model("root", "/");
	link_model("up", "..");
	link_model("via", "a/snap/../../..");
	link_model("same", in_models("top.json"));
	link_model("loop", "loop");
	link_model("long", "long/long");
	link_model("dangling", "nowhere");
	assert_int_equal(mkfifo(in_models("pipe"), 0600), 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", in_models("sock"));
	assert_int_equal(bind(sock, (struct sockaddr *)&un, sizeof(un)), 0);
	if (mknod(in_models("null"), S_IFCHR | 0600, makedev(1, 3)) != 0)
		assert_int_equal(mkfifo(in_models("null"), 0600), 0);	/* only root may create a device */
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (opener_open_model(&o, table[i].name) != -table[i].error)
			fail_msg("\"%s\" is not refused with %s", table[i].name, strerror(table[i].error));
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(opener_open_model(&o, name), -ENAMETOOLONG);
	name[sizeof(name) - 2] = '\0';
	/* one part: the kernel's error */
	assert_int_equal(opener_open_model(&o, name), -ENAMETOOLONG);
	for (unsigned i = 0; i < SAFE_PATH_DEPTH_MAX; i++) {
		strcat(deep, i ? "/d" : "d");
		assert_int_equal(mkdir(in_models(deep), 0700), 0);
	}
	strcat(deep, "/f");
	put_model(deep, "too deep");
	assert_int_equal(opener_open_model(&o, deep), -ENAMETOOLONG);
	expect_fd(opener_open_model(&o, "top.json"), "top");
	expect("one");
	assert_holds_nothing();
	close(sock);
}

/* Bytes that the agent's own functions would never send. */
static void raw_questions(void **state)
{
	static const char after_zero[] = "top.json\0/../../outside";
	static char raw[8192];
	struct opener_request q = { .number = 7, .what = OPENER_MODEL };
	size_t n = OPENER_REQUEST_HEAD + sizeof(after_zero) - 1;
	struct { uint32_t number; int32_t error; } r;

	make_models();
	memcpy(q.path, after_zero, sizeof(after_zero) - 1);
	assert_int_equal(send(o.fd, &q, n, 0), n);
	assert_int_equal(recv(o.fd, &r, sizeof(r), 0), sizeof(r));
	assert_int_equal(r.error, EACCES);
	memset(raw, '/', sizeof(raw));
	assert_int_equal(send(o.fd, raw, sizeof(raw), 0), sizeof(raw));
	assert_int_equal(recv(o.fd, &r, sizeof(r), 0), sizeof(r));
	assert_int_equal(r.error, ENAMETOOLONG);
	q.what = 99;
	assert_int_equal(send(o.fd, &q, OPENER_REQUEST_HEAD, 0), OPENER_REQUEST_HEAD);
	assert_int_equal(recv(o.fd, &r, sizeof(r), 0), sizeof(r));
	assert_int_equal(r.error, EINVAL);
	expect("one");
	assert_int_equal(send(o.fd, raw, 3, 0), 3);	/* no question at all: it ends */
	assert_int_equal(opener_open(&o), -ESRCH);
}

static void has_no_other_descriptor(void **state)
{
	expect("one");
	assert_holds_nothing();
}

/* ---- snapshots and sockets -------------------------------------------------------------- */

static char *in_snaps(const char *name)
{
	static char full[256];

	snprintf(full, sizeof(full), "%s/%s", snaps, name);
	return full;
}

static bool exists(const char *name)
{
	struct stat st;

	return lstat(name, &st) == 0;
}

static void write_new(const char *text)
{
	int fd = opener_snapshot_new(&o);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_WRONLY);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void snapshots_are_made(void **state)
{
	int fd;

	assert_int_equal(opener_snapshot_keep(&o), -ENOENT);
	assert_int_equal(opener_snapshot_drop(&o), -ENOENT);
	write_new("one");
	assert_true(exists(in_snaps("snap.tmp.1")));
	assert_int_equal(opener_snapshot_keep(&o), 0);
	assert_false(exists(in_snaps("snap.tmp.1")));
	write_new("half");
	assert_int_equal(opener_snapshot_drop(&o), 0);
	write_new("left over");
	write_new("two");
	assert_int_equal(symlink(outside, in_snaps("other")), 0);
	assert_int_equal(opener_snapshot_keep(&o), 0);
	fd = open(in_snaps("snap"), O_RDONLY | O_CLOEXEC);
	expect_fd(fd, "two");
	/* a link in its place is removed, not followed */
	assert_int_equal(symlink(outside, in_snaps("snap.tmp.1")), 0);
	write_new("three");
	assert_int_equal(opener_snapshot_keep(&o), 0);
	fd = open(outside, O_RDONLY | O_CLOEXEC);
	expect_fd(fd, "secret");
}

/* A new recording gets the name of the previous one, which is renamed to the old one. */
static void recordings_are_made(void **state)
{
	static const char *const text[] = { "one", "two", "three" };
	struct stat st;
	int fd;

	for (size_t i = 0; i < 3; i++) {
		fd = opener_record_new(&o);
		assert_true(fd >= 0);
		assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_WRONLY);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
		assert_int_equal(write(fd, text[i], strlen(text[i])), (ssize_t)strlen(text[i]));
		close(fd);
	}
	expect_fd(open(in_snaps("rec"), O_RDONLY | O_CLOEXEC), "three");
	expect_fd(open(in_snaps("rec.1"), O_RDONLY | O_CLOEXEC), "two");
	/* a link is not followed, and Landlock forbids renaming it */
	assert_int_equal(unlink(in_snaps("rec")), 0);
	assert_int_equal(symlink(outside, in_snaps("rec")), 0);
	fd = opener_record_new(&o);
	if (fd >= 0) {
		assert_int_equal(write(fd, "four", 4), 4);
		close(fd);
	}
	expect_fd(open(outside, O_RDONLY | O_CLOEXEC), "secret");
}

/* It removes no file except configured sockets that this process created. */
static void only_our_socket_is_removed(void **state)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st, other;

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", sock_path);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(lstat(sock_path, &st), 0);
	assert_int_equal(lstat(outside, &other), 0);
	assert_int_equal(opener_remove_socket(&o, outside, other.st_dev, other.st_ino), -EACCES);
	assert_int_equal(opener_remove_socket(&o, "", st.st_dev, st.st_ino), -EACCES);
	assert_int_equal(opener_remove_socket(&o, sock_path, st.st_dev, st.st_ino + 1), -ESTALE);
	assert_true(exists(sock_path) && exists(outside));
	assert_int_equal(opener_remove_socket(&o, sock_path, st.st_dev, st.st_ino), 0);
	assert_false(exists(sock_path));
	put(sock_path, "no socket");
	assert_int_equal(lstat(sock_path, &st), 0);
	assert_int_equal(opener_remove_socket(&o, sock_path, st.st_dev, st.st_ino), -ESTALE);
	assert_true(exists(sock_path));
	close(fd);
}

int main(void)
{
#define T(f)	cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(opens_the_current_file),
		T(a_pipe_does_not_hold_it),
		T(signals_do_not_end_it),
		T(snapshots_are_made),
		T(recordings_are_made),
		T(only_our_socket_is_removed),
		T(models_are_opened),
		T(nothing_else_is_opened),
		T(raw_questions),
		T(hanging_is_given_up),
		T(a_dead_opener_is_reported),
		T(has_no_other_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
