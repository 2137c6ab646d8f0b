/* Addresses and listening sockets.
 *
 * A unix socket file survives a process that was killed. So a file at the address is first
 * connected to, and removed only if the connection is refused, because then no process listens. Two
 * processes that start at the same time must not both remove the file: each holds a lock on the
 * directory from that test until it listens. The lock leaves no file.
 *
 * The umask is set around bind(), so the socket file never has a wrong mode. The umask belongs to
 * the whole process, so listeners are opened before any thread starts. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/addr.h"
#include "agent/os/opener.h"

#define UNIX_PREFIX	"unix@"

/* ---- text to address -------------------------------------------------------------------- */

static int parse_unix(const char *text, struct addr *a, struct err *e)
{
	const char *path = text + strlen(UNIX_PREFIX);

	if (path[0] != '/')
		return err_set(e, "\"%s\": the path of a unix socket must start with \"/\"", text);
	if (strlen(path) >= sizeof(a->a.un.sun_path))
		return err_set(e,
			"\"%s\": the path of a unix socket must be shorter than %zu "
			"characters", text, sizeof(a->a.un.sun_path));
	a->a.un.sun_family = AF_UNIX;
	memcpy(a->a.un.sun_path, path, strlen(path) + 1);
	a->len = sizeof(a->a.un);
	return 0;
}

/* Returns a port from 0 to 65535, or -1 if <text> is not digits only or is too large. */
static int parse_port(const char *text)
{
	int port = 0;

	if (*text == '\0')
		return -1;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		port = port * 10 + (*text - '0');
		if (port > 65535)
			return -1;
	}
	return port;
}

static bool parse_v6(const char *host, size_t n, struct addr *a)
{
	char copy[INET6_ADDRSTRLEN];

	if (n < 2 || host[0] != '[' || host[n - 1] != ']' || n - 2 >= sizeof(copy))
		return false;
	memcpy(copy, host + 1, n - 2);
	copy[n - 2] = '\0';
	a->a.in6.sin6_family = AF_INET6;
	a->len = sizeof(a->a.in6);
	return inet_pton(AF_INET6, copy, &a->a.in6.sin6_addr) == 1;
}

static bool parse_v4(const char *host, size_t n, struct addr *a)
{
	char copy[INET_ADDRSTRLEN];

	a->a.in.sin_family = AF_INET;
	a->len = sizeof(a->a.in);
	if (n == 0 || (n == 1 && host[0] == '*'))
		return true;		/* INADDR_ANY is 0 */
	if (n >= sizeof(copy))
		return false;
	memcpy(copy, host, n);
	copy[n] = '\0';
	return inet_pton(AF_INET, copy, &a->a.in.sin_addr) == 1;
}

int addr_parse(const char *text, struct addr *a, struct err *e)
{
	const char *colon = strrchr(text, ':');
	size_t n;
	int port;

	memset(a, 0, sizeof(*a));
	if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
		return parse_unix(text, a, e);
	if (colon == NULL)
		return err_set(e,
			"\"%s\" is not an address: write 127.0.0.1:9400, [::1]:9400 or unix@/path", text);
	if ((port = parse_port(colon + 1)) < 0)
		return err_set(e, "\"%s\": the port must be a number from 0 to 65535", text);
	n = (size_t)(colon - text);
	if (n > 0 && text[0] == '[' ? !parse_v6(text, n, a) : !parse_v4(text, n, a))
		return err_set(e,
			"\"%s\": the host must be an IPv4 address, an IPv6 address in brackets, or \"*\"", text);
	if (a->a.sa.sa_family == AF_INET6)
		a->a.in6.sin6_port = htons((uint16_t)port);
	else
		a->a.in.sin_port = htons((uint16_t)port);
	return 0;
}

bool sockaddr_is_loopback(const union sockaddr_any *a)
{
	if (a->sa.sa_family == AF_UNIX)
		return true;
	if (a->sa.sa_family == AF_INET)
		return ntohl(a->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	if (a->sa.sa_family != AF_INET6)
		return false;
	if (IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr))
		return a->in6.sin6_addr.s6_addr[12] == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
}

bool addr_is_loopback(const char *text)
{
	struct addr a;
	struct err e;

	return addr_parse(text, &a, &e) != 0 || sockaddr_is_loopback(&a.a);
}

void addr_print(const union sockaddr_any *a, char *out, size_t cap)
{
	char host[INET6_ADDRSTRLEN] = "";

	if (a->sa.sa_family == AF_INET) {
		inet_ntop(AF_INET, &a->in.sin_addr, host, sizeof(host));
		snprintf(out, cap, "%s:%u", host, ntohs(a->in.sin_port));
	} else if (a->sa.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &a->in6.sin6_addr, host, sizeof(host));
		snprintf(out, cap, "[%s]:%u", host, ntohs(a->in6.sin6_port));
	} else {
		snprintf(out, cap, "unix");
	}
}

/* ---- unix socket files ------------------------------------------------------------------ */

#define LOCK_TRIES	200
#define LOCK_PAUSE_NS	10000000

static void directory_of(const char *path, char *dir)
{
	size_t n = (size_t)(strrchr(path, '/') - path);

	memcpy(dir, path, n + 1);
	dir[n ? n : 1] = '\0';
}

static bool directory_missing(const char *dir)
{
	struct stat st;

	return stat(dir, &st) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* Lock <dir>. Returns a descriptor that holds the lock until it is closed. Returns -1 if the
 * directory cannot be read or its lock is not free for two seconds. The start then goes on without
 * the lock, because only two starts at the same moment need it. */
static int directory_lock(const char *dir)
{
	struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), i;

	for (i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return fd;
		nanosleep(&pause, NULL);
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Returns true if a process listens at <a>. A full backlog (EAGAIN) counts as listening. */
static bool unix_answers(const struct addr *a, int type)
{
	int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool yes;

	if (fd < 0)
		return true;
	yes = connect(fd, &a->a.sa, a->len) == 0 || errno != ECONNREFUSED;
	close(fd);
	return yes;
}

/* Remove a stale socket file at the path of <a>. */
static int unix_clear(const struct addr *a, int type, struct err *e)
{
	const char *path = a->a.un.sun_path;
	struct stat st;

	if (lstat(path, &st) != 0)
		return 0;	/* bind() reports the error, if there is one */
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, "cannot listen on %s: a file of that name exists and is not a socket",
			       path);
	if (unix_answers(a, type))
		return err_set(e, "cannot listen on %s: another process listens there", path);
	if (unlink(path) != 0 && errno != ENOENT)
		return err_set(e, "cannot remove the old socket %s: %s", path, strerror(errno));
	return 0;
}

static int bind_with_mode(int fd, const struct addr *a, uint32_t mode)
{
	mode_t old;
	int rc, saved;

	if (a->a.sa.sa_family != AF_UNIX)
		return bind(fd, &a->a.sa, a->len);
	old = umask(~(mode_t)mode & 0777);
	rc = bind(fd, &a->a.sa, a->len);
	saved = errno;
	umask(old);
	errno = saved;
	return rc;
}

/* ---- listening -------------------------------------------------------------------------- */

static void remember_name(struct listener *l, const char *text)
{
	socklen_t len = sizeof(l->addr.a);
	struct stat st;

	snprintf(l->text, sizeof(l->text), "%s", text);
	if (l->addr.a.sa.sa_family != AF_UNIX) {
		if (getsockname(l->fd, &l->addr.a.sa, &len) == 0)
			addr_print(&l->addr.a, l->text, sizeof(l->text));
	} else if (lstat(l->addr.a.un.sun_path, &st) == 0) {
		l->dev = st.st_dev;
		l->ino = st.st_ino;
	}
}

/* The only datagrams are those of the log feed, which no second agent of the host may share. */
static int listen_failed(struct listener *l, const char *text, int type, struct err *e)
{
	bool taken = errno == EADDRINUSE;

	err_set(e, "cannot listen on %s: %s%s", text, strerror(errno), !taken ? "" :
	    type == SOCK_DGRAM ? "; a second agent on this host needs another log_feed.udp, or none: "
		"log_feed: {udp: []}" :
	    "; a second agent on this host needs other addresses in spop.listen, log_feed.tcp and "
		"metrics.listen");
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	return -1;
}

static int open_socket(struct listener *l, const char *text, int type, uint32_t mode, struct err *e)
{
	int on = 1, family = l->addr.a.sa.sa_family;

	l->fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return listen_failed(l, text, type, e);
	/* not for datagrams: a second agent could then bind the same address and get half of them */
	if (family != AF_UNIX && type == SOCK_STREAM)
		setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind_with_mode(l->fd, &l->addr, mode) != 0)
		return listen_failed(l, text, type, e);
	remember_name(l, text);
	if (type == SOCK_STREAM && listen(l->fd, SOMAXCONN) != 0) {
		listen_failed(l, text, type, e);
		if (family == AF_UNIX)
			unlink(l->addr.a.un.sun_path);
		return -1;
	}
	return 0;
}

static int open_unix(struct listener *l, const char *text, int type, uint32_t mode, struct err *e)
{
	char dir[sizeof(l->addr.a.un.sun_path)];
	int lock, rc;

	directory_of(l->addr.a.un.sun_path, dir);
	if (directory_missing(dir)) {
		err_set(e, "cannot listen on %s: its directory is missing", text);
		return 1;
	}
	lock = directory_lock(dir);
	rc = unix_clear(&l->addr, type, e);
	if (rc == 0)
		rc = open_socket(l, text, type, mode, e);
	if (lock >= 0)
		close(lock);
	return rc;
}

int listener_open(struct listener *l, const char *text, int type, uint32_t mode, struct err *e)
{
	l->fd = -1;
	if (addr_parse(text, &l->addr, e) != 0)
		return -1;
	if (l->addr.a.sa.sa_family == AF_UNIX)
		return open_unix(l, text, type, mode, e);
	return open_socket(l, text, type, mode, e);
}

/* Uses only calls that the opener's filter allows. */
int addr_remove_socket(const char *path, uint64_t dev, uint64_t ino)
{
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	bool is;

	if (fd < 0)
		return -1;
	is = fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && (uint64_t)st.st_dev == dev &&
	    (uint64_t)st.st_ino == ino;
	close(fd);
	errno = ESTALE;
	return is ? unlinkat(AT_FDCWD, path, 0) : -1;
}

void listener_close(struct listener *l, struct opener *by)
{
	const char *path = l->addr.a.un.sun_path;

	if (l->fd < 0)
		return;
	if (l->addr.a.sa.sa_family == AF_UNIX && by != NULL && by->fd >= 0)
		opener_remove_socket(by, path, l->dev, l->ino);
	else if (l->addr.a.sa.sa_family == AF_UNIX)
		addr_remove_socket(path, l->dev, l->ino);
	close(l->fd);
	l->fd = -1;
}
