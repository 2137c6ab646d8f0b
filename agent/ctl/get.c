/* get.c - one HTTP/1.0 request on a blocking socket with a time limit for each read and write. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/ctl/get.h"

#define TIMEOUT_S	10
#define ADDRESS_MAX	255
#define PATH_MAX_BYTES	1023

static int try_one(int family, const struct sockaddr *sa, socklen_t len)
{
	struct timeval limit = { .tv_sec = TIMEOUT_S };
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

static int connect_unix(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(un.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(un.sun_path, path);
	return try_one(AF_UNIX, (struct sockaddr *)&un, sizeof(un));
}

/* Connect to "host:port" or "[::1]:port". Returns a descriptor, or -1 with <why>. */
static int connect_inet(const char *address, const char **why)
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
		fd = try_one(ai->ai_family, ai->ai_addr, ai->ai_addrlen);
	*why = strerror(errno);
	freeaddrinfo(list);
	return fd;
}

int ctl_connect(const char *address, const char **why)
{
	int fd;

	if (strncmp(address, "unix@", 5) != 0)
		return connect_inet(address, why);
	fd = connect_unix(address + 5);
	*why = strerror(errno);
	return fd;
}

static int send_question(int fd, const char *path)
{
	char text[PATH_MAX_BYTES + 32];
	int n = snprintf(text, sizeof(text), "GET %.*s HTTP/1.0\r\n\r\n", PATH_MAX_BYTES, path);

	return send(fd, text, (size_t)n, MSG_NOSIGNAL) == n ? 0 : -1;
}

static int read_answer(int fd, struct http_answer *a, const char **why)
{
	char buf[16384];
	ssize_t n, used = 0;

	while (used == 0 && (n = recv(fd, buf, sizeof(buf), 0)) > 0)
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

int ctl_get(const char *address, const char *path, struct http_answer *a, const char **why)
{
	int fd = ctl_connect(address, why), status;

	if (fd < 0)
		return -1;
	if ((status = send_question(fd, path)) < 0)
		*why = strerror(errno);
	else
		status = read_answer(fd, a, why);
	close(fd);
	return status;
}
