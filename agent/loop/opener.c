/* The opener is never waited for: it may hang in the file system, and whoever adopts it reaps it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "agent/loop/beneath.h"
#include "agent/loop/opener.h"
#include "agent/loop/sandbox.h"

struct question {
	uint32_t asked;
	char path[BENEATH_PATH_MAX];	/* as much as was sent, without its NUL; nothing: the configuration */
};

struct reply {
	uint32_t asked;
	int32_t error;		/* errno, or 0: with a descriptor */
};

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(int))];
};

/* ---- the opener ------------------------------------------------------------------------------------ */

static ssize_t send_reply(int to, struct reply *r, int fd)
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

static int open_conf(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);	/* a pipe: nobody may ever write */

	return fd < 0 ? -errno : fd;
}

/* The directory is opened each time: it may have come, or been replaced. */
static int open_model(const char *models_dir, const char *asked, size_t n)
{
	char path[BENEATH_PATH_MAX + 1];
	int dir, rc;

	if (models_dir == NULL || memchr(asked, '\0', n) != NULL)
		return -EACCES;
	memcpy(path, asked, n);
	path[n] = '\0';
	if ((dir = open(models_dir, O_PATH | O_CLOEXEC)) < 0)	/* the filter lets no O_DIRECTORY through: a bit of O_TMPFILE */
		return -errno;
	rc = beneath_open(dir, path);
	close(dir);
	return rc;
}

static void answer(int from, const char *path, const char *models_dir)
{
	struct question q;
	struct reply r = { 0 };
	ssize_t n;
	int fd;

	for (;;) {
		n = recv(from, &q, sizeof(q), MSG_TRUNC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < (ssize_t)sizeof(q.asked))	/* the agent has ended */
			return;
		if (n == sizeof(q.asked))
			fd = open_conf(path);
		else
			fd = n > (ssize_t)sizeof(q) ? -ENAMETOOLONG :
				open_model(models_dir, q.path, (size_t)n - sizeof(q.asked));
		r.asked = q.asked;
		r.error = fd < 0 ? -fd : 0;
		if (send_reply(from, &r, fd) < 0)
			return;
		if (fd >= 0)
			close(fd);
	}
}

/* Signals to the whole group or by name are the agent's; they are ignored here. */
static _Noreturn void be_opener(int from, const char *path, const char *models_dir)
{
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	prctl(PR_SET_NAME, "kvroute-opener");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (from > 3)
		close_range(3, (unsigned)from - 1, 0);
	close_range((unsigned)from + 1, ~0u, 0);
	if (SANDBOX_CAN) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		sandbox_seccomp_opener();
	}
	answer(from, path, models_dir);
	_exit(0);
}

/* ---- the agent -------------------------------------------------------------------------------------- */

int opener_start(struct opener *o, const char *path, const char *models_dir)
{
	struct timeval wait = { .tv_sec = OPENER_WAIT_S };
	int pair[2];
	pid_t pid;

	o->fd = -1;
	o->asked = 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return -1;
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	pid = fork();
	if (pid == 0)
		be_opener(pair[1], path, models_dir);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return -1;
	}
	o->fd = pair[0];
	return 0;
}

/* One reply. <*fd> is -1 when none came with it. */
static int take_reply(int from, struct reply *r, int *fd)
{
	struct iovec iov = { r, sizeof(*r) };
	union control c;
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.room,
			    .msg_controllen = sizeof(c.room) };
	struct cmsghdr *h;
	ssize_t n;

	*fd = -1;
	while ((n = recvmsg(from, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -ESRCH;
	h = CMSG_FIRSTHDR(&m);
	if (h != NULL && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(h), sizeof(*fd));
	if (n == sizeof(*r))
		return 0;
	if (*fd >= 0)
		close(*fd);
	return -ESRCH;
}

/* A reply to a question that was given up may still come; it is skipped. */
static int ask(struct opener *o, const char *path)
{
	struct question q = { .asked = ++o->asked };
	size_t n = strlen(path);
	uint32_t asked = q.asked;
	struct reply r;
	int fd, rc;

	if (n > sizeof(q.path))
		return -ENAMETOOLONG;
	memcpy(q.path, path, n);
	n += sizeof(q.asked);
	if (o->fd < 0 || send(o->fd, &q, n, MSG_NOSIGNAL) != (ssize_t)n)
		return -ESRCH;
	for (;;) {
		if ((rc = take_reply(o->fd, &r, &fd)) != 0)
			return rc;
		if (r.asked == asked && fd >= 0)
			return fd;
		if (r.asked == asked)	/* without both: there was no room for a descriptor here */
			return r.error != 0 ? -r.error : -EMFILE;
		if (fd >= 0)
			close(fd);
	}
}

int opener_open(struct opener *o)
{
	return ask(o, "");
}

int opener_open_model(struct opener *o, const char *path)
{
	return path[0] == '\0' ? -ENOENT : ask(o, path);
}

void opener_stop(struct opener *o)
{
	if (o->fd >= 0)
		close(o->fd);
	o->fd = -1;
}
