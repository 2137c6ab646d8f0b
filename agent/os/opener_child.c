/* The opener process. A request holds numbers and a path below models_dir or of a socket; all other
 * paths are fixed at the start. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/addr.h"
#include "agent/os/opener_in.h"
#include "agent/os/sandbox_in.h"

struct child {
	const struct opener_files *f;
	int from;		/* the socket to the agent */
	int snapshots;		/* directory of the snapshot, -1: none */
	int records;		/* directory of the recording, -1: none */
};

static ssize_t send_reply(int to, struct opener_reply *r, int fd)
{
	struct iovec iov = { r, sizeof(*r) };
	union control c = { .room = { 0 } };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *h;

	if (fd >= 0) {
		m.msg_control = c.room;
		m.msg_controllen = sizeof(c.room);
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	}
	return sendmsg(to, &m, MSG_NOSIGNAL);
}

/* ---- requests: each returns a descriptor, OK or -errno ---------------------------------- */

#define OK	INT32_MIN	/* success without a descriptor */

static int open_conf(const char *path)
{
	int fd;

	if (path == NULL)
		return -ENOENT;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);	/* O_NONBLOCK: a pipe may never get a writer */
	return fd < 0 ? -errno : fd;
}

/* The directory is opened for each request, because it may be created or replaced at any time. */
static int open_model(const char *models_dir, const char *path)
{
	int dir, rc;

	if (models_dir == NULL)
		return -EACCES;
	/* no O_DIRECTORY: it is a bit of O_TMPFILE, which the filter refuses */
	if ((dir = open(models_dir, O_PATH | O_CLOEXEC)) < 0)
		return -errno;
	rc = safe_path_open(dir, path);
	close(dir);
	return rc;
}

static int handle_snapshot(const struct child *c, uint32_t what)
{
	const struct opener_files *f = c->f;
	int rc;

	if (c->snapshots < 0)
		return -ENOENT;
	if (what == OPENER_SNAPSHOT_KEEP)
		return renameat(c->snapshots, f->snapshot_tmp, c->snapshots, f->snapshot) == 0 ? OK : -errno;
	rc = unlinkat(c->snapshots, f->snapshot_tmp, 0);
	if (what == OPENER_SNAPSHOT_DROP)
		return rc == 0 ? OK : -errno;
	rc = openat(c->snapshots, f->snapshot_tmp, SANDBOX_NEW_FILE, 0600);
	return rc < 0 ? -errno : rc;
}

static int record_new(const struct child *c)
{
	const struct opener_files *f = c->f;
	int fd;

	if (c->records < 0)
		return -ENOENT;
	if (renameat(c->records, f->record, c->records, f->record_old) != 0 && errno != ENOENT)
		return -errno;
	fd = openat(c->records, f->record, SANDBOX_NEW_FILE, 0600);
	return fd < 0 ? -errno : fd;
}

static int remove_socket(const struct opener_files *f, const char *path, uint64_t dev, uint64_t ino)
{
	for (size_t i = 0; i < f->n_sockets; i++)
		if (strcmp(f->socket[i], path) == 0)
			return addr_remove_socket(f->socket[i], dev, ino) == 0 ? OK : -errno;
	return -EACCES;
}

/* Handle the request <q> of <n> bytes, at least OPENER_REQUEST_HEAD. Returns a descriptor, OK or
 * -errno. */
static int handle_request(const struct child *c, const struct opener_request *q, size_t n)
{
	char path[SAFE_PATH_MAX + 1];

	if (n > sizeof(*q))
		return -ENAMETOOLONG;
	n -= OPENER_REQUEST_HEAD;
	if (memchr(q->path, '\0', n) != NULL)
		return -EACCES;
	memcpy(path, q->path, n);
	path[n] = '\0';
	switch (q->what) {
	case OPENER_CONF:
		return open_conf(c->f->conf);
	case OPENER_MODEL:
		return open_model(c->f->models_dir, path);
	case OPENER_SNAPSHOT_NEW:
	case OPENER_SNAPSHOT_KEEP:
	case OPENER_SNAPSHOT_DROP:
		return handle_snapshot(c, q->what);
	case OPENER_RECORD_NEW:
		return record_new(c);
	case OPENER_SOCKET_REMOVE:
		return remove_socket(c->f, path, q->dev, q->ino);
	}
	return -EINVAL;
}

static void handle_requests(const struct child *c)
{
	struct opener_request q;
	struct opener_reply r;
	ssize_t n;
	int rc;

	for (;;) {
		n = recv(c->from, &q, sizeof(q), MSG_TRUNC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < (ssize_t)OPENER_REQUEST_HEAD)	/* the agent has ended */
			return;
		rc = handle_request(c, &q, (size_t)n);
		r = (struct opener_reply){ .number = q.number, .error = rc < 0 && rc != OK ? -rc : 0 };
		if (send_reply(c->from, &r, rc) < 0)
			return;
		if (rc >= 0)
			close(rc);
	}
}

/* ---- the process ------------------------------------------------------------------------ */

/* Collect the directory of each socket, for Landlock. */
static size_t socket_directories(
    const struct opener_files *f, char (*room)[ADDR_MAX], const char **dir)
{
	for (size_t i = 0; i < f->n_sockets; i++) {
		char *slash;

		snprintf(room[i], ADDR_MAX, "%s", f->socket[i]);
		slash = strrchr(room[i], '/');
		slash[slash == room[i]] = '\0';
		dir[i] = room[i];
	}
	return f->n_sockets;
}

/* Enter a sandbox like the agent's. A part that the kernel does not have is missing here as
 * well. */
static void enter_sandbox(const struct child *c)
{
	char room[OPENER_SOCKETS_MAX][ADDR_MAX];
	const char *dir[OPENER_SOCKETS_MAX];
	const int files[SANDBOX_DIRS] = { c->snapshots, c->records };
	size_t n = socket_directories(c->f, room, dir);

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	privileges_drop();
	sandbox_landlock_opener(dir, n, files);
	if (sandbox_refused_watch(c->f->refused) == 0)
		sandbox_seccomp_opener(c->from, files, n > 0);
}

/* Change to the user <as>. PR_SET_PDEATHSIG comes after that, because a change of user resets
 * it. */
static void become_user(const struct identity *as)
{
	struct err e;

	if (as != NULL && SANDBOX_CAN)
		privileges_bound();
	if (as != NULL && identity_become(as, &e) != 0)
		_exit(1);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Signals to the process group or by name are meant for the agent, so the opener ignores them. */
_Noreturn void opener_child(int from, const struct opener_files *f)
{
	struct child c = { .f = f, .from = from, .snapshots = -1, .records = -1 };

	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	prctl(PR_SET_NAME, "kvroute-opener");
	become_user(f->as);
	if (from > 3)
		close_range(3, (unsigned)from - 1, 0);
	close_range((unsigned)from + 1, ~0u, 0);
	if (f->snapshot_dir != NULL)
		c.snapshots = open(f->snapshot_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (f->record_dir != NULL)
		c.records = open(f->record_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (SANDBOX_CAN)
		enter_sandbox(&c);
	handle_requests(&c);
	_exit(0);
}
