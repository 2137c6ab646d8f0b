/* The agent's side of the opener. The agent never waits for the opener to end, because it may hang
 * in the file system; its new parent reaps it. */
#include <errno.h>
#include <sys/time.h>
#include <unistd.h>

#include "agent/os/opener_in.h"

int opener_start(struct opener *o, const struct opener_files *f)
{
	struct timeval wait = { .tv_sec = OPENER_WAIT_S };
	int pair[2];
	pid_t pid;

	*o = (struct opener){ .fd = -1 };
	pthread_mutex_init(&o->lock, NULL);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return -1;
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	pid = fork();
	if (pid == 0)
		opener_child(pair[1], f);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return -1;
	}
	o->fd = pair[0];
	return 0;
}

/* Receive one reply. <*fd> is -1 if no descriptor came with it. */
static int receive_reply(int from, struct opener_reply *r, int *fd)
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

/* Send <q> and receive its reply. Replies to earlier requests that timed out may still come; they
 * are skipped. <*fd>: as in receive_reply(). */
static int exchange(struct opener *o, struct opener_request *q, size_t n, int *fd)
{
	struct opener_reply r;
	int rc;

	*fd = -1;
	q->number = ++o->number;
	if (o->fd < 0 || send(o->fd, q, n, MSG_NOSIGNAL) != (ssize_t)n)
		return -ESRCH;
	for (;;) {
		if ((rc = receive_reply(o->fd, &r, fd)) != 0)
			return rc;
		if (r.number == q->number)
			return -r.error;
		if (*fd >= 0)
			close(*fd);
	}
}

static int send_request(struct opener *o, struct opener_request *q, const char *path, int *fd)
{
	size_t n = strlen(path);
	int rc;

	if (n > sizeof(q->path))
		return -ENAMETOOLONG;
	memcpy(q->path, path, n);
	pthread_mutex_lock(&o->lock);
	rc = exchange(o, q, OPENER_REQUEST_HEAD + n, fd);
	pthread_mutex_unlock(&o->lock);
	return rc;
}

/* Ask for a descriptor. Returns it, or -errno. If the reply has no error and no descriptor, this
 * process had no free descriptor: -EMFILE. */
static int request_fd(struct opener *o, enum opener_what what, const char *path)
{
	struct opener_request q = { .what = what };
	int fd, rc = send_request(o, &q, path, &fd);

	if (fd >= 0)
		return fd;
	return rc != 0 ? rc : -EMFILE;
}

static int request_done(struct opener *o, struct opener_request q, const char *path)
{
	int fd, rc = send_request(o, &q, path, &fd);

	if (fd >= 0)
		close(fd);
	return rc;
}

int opener_open(struct opener *o)
{
	return request_fd(o, OPENER_CONF, "");
}

int opener_open_model(struct opener *o, const char *path)
{
	return path[0] == '\0' ? -ENOENT : request_fd(o, OPENER_MODEL, path);
}

int opener_snapshot_new(struct opener *o)
{
	return request_fd(o, OPENER_SNAPSHOT_NEW, "");
}

int opener_record_new(struct opener *o)
{
	return request_fd(o, OPENER_RECORD_NEW, "");
}

int opener_snapshot_keep(struct opener *o)
{
	return request_done(o, (struct opener_request){ .what = OPENER_SNAPSHOT_KEEP }, "");
}

int opener_snapshot_drop(struct opener *o)
{
	return request_done(o, (struct opener_request){ .what = OPENER_SNAPSHOT_DROP }, "");
}

int opener_remove_socket(struct opener *o, const char *path, uint64_t dev, uint64_t ino)
{
	return request_done(
	    o, (struct opener_request){ .what = OPENER_SOCKET_REMOVE, .dev = dev, .ino = ino }, path);
}

void opener_stop(struct opener *o)
{
	if (o->fd >= 0)
		close(o->fd);
	o->fd = -1;
}
