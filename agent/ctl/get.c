/* get.c - one HTTP/1.0 request with a time limit for each read and write, and for the whole. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/ctl/get.h"

#define TIMEOUT_MS	10000	/* of a read or write */
#define WHOLE_MS	60000	/* of a request */
#define ADDRESS_MAX	255
#define PATH_MAX_BYTES	1023

int64_t ctl_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Returns how long a read or write may wait, at least 1 ms. */
static int wait_ms(int64_t until)
{
	int64_t left = until - ctl_now_ms();

	return left < 1 ? 1 : left > TIMEOUT_MS ? TIMEOUT_MS : (int)left;
}

static int try_one(int family, const struct sockaddr *sa, socklen_t len, int64_t until)
{
	int ms = wait_ms(until);
	struct timeval limit = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, sa, len) == 0)
		return fd;
	close(fd);
	return -1;
}

static int connect_unix(const char *path, int64_t until)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(un.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(un.sun_path, path);
	return try_one(AF_UNIX, (struct sockaddr *)&un, sizeof(un), until);
}

/* Connect to "host:port" or "[::1]:port". Returns a descriptor, or -1 with <why>. */
static int connect_inet(const char *address, int64_t until, const char **why)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	char host[ADDRESS_MAX + 1], *port, *name = host;
	int rc, fd = -1;

	snprintf(host, sizeof(host), "%s", address);
	if ((port = strrchr(host, ':')) == NULL) {
		*why = "the address must be host:port, [IPv6]:port or unix@path";
		return -1;
	}
	*port++ = '\0';
	if (name[0] == '[' && name[strlen(name) - 1] == ']') {
		name[strlen(name) - 1] = '\0';
		name++;
	}
	if ((rc = getaddrinfo(name[0] != '\0' ? name : "127.0.0.1", port, &hints, &list)) != 0) {
		*why = gai_strerror(rc);
		return -1;
	}
	for (struct addrinfo *ai = list; ai != NULL && fd < 0; ai = ai->ai_next)
		fd = try_one(ai->ai_family, ai->ai_addr, ai->ai_addrlen, until);
	*why = strerror(errno);
	freeaddrinfo(list);
	return fd;
}

static int connect_until(const char *address, int64_t until, const char **why)
{
	int fd;

	if (strncmp(address, "unix@", 5) != 0)
		return connect_inet(address, until, why);
	fd = connect_unix(address + 5, until);
	*why = strerror(errno);
	return fd;
}

int ctl_connect(const char *address, const char **why)
{
	return connect_until(address, ctl_now_ms() + TIMEOUT_MS, why);
}

static int send_question(int fd, const char *path)
{
	char text[PATH_MAX_BYTES + 32];
	int n = snprintf(text, sizeof(text), "GET %.*s HTTP/1.0\r\n\r\n", PATH_MAX_BYTES, path);

	return send(fd, text, (size_t)n, MSG_NOSIGNAL) == n ? 0 : -1;
}

ssize_t ctl_receive(int fd, char *buf, size_t cap, int64_t until)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int rc = ctl_now_ms() < until ? poll(&p, 1, wait_ms(until)) : 0;

	if (rc == 0)
		errno = ETIMEDOUT;
	return rc > 0 ? recv(fd, buf, cap, 0) : -1;
}

/* http_answer.h bounds the bytes. */
static int read_answer(int fd, int64_t until, struct http_answer *a, const char **why)
{
	char buf[16384];
	ssize_t n, used = 0;

	while (used == 0 && (n = ctl_receive(fd, buf, sizeof(buf), until)) > 0)
		used = http_answer_feed(a, buf, (size_t)n);
	if (used == 0 && n < 0) {
		*why = strerror(errno);
		return -1;
	}
	if (used == 0)
		used = http_answer_eof(a);
	if (used < 0)
		*why = http_answer_strerror((int)-used);
	return used < 0 ? -1 : 0;
}

int ctl_get_within(const char *address, const char *path, int limit_ms, struct http_answer *a,
    const char **why)
{
	int64_t until = ctl_now_ms() + limit_ms;
	int fd = connect_until(address, until, why), status;

	if (fd < 0)
		return -1;
	if ((status = send_question(fd, path)) < 0)
		*why = strerror(errno);
	else
		status = read_answer(fd, until, a, why);
	close(fd);
	return status;
}

int ctl_get(const char *address, const char *path, struct http_answer *a, const char **why)
{
	return ctl_get_within(address, path, WHOLE_MS, a, why);
}
