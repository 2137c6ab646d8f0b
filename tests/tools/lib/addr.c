/* addr.c - sockets by name for the test tools. */
#include "tests/tools/lib/addr.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int parse_unix(struct addr *a, const char *path, struct err *err)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&a->sa;

	if (*path == 0 || strlen(path) >= sizeof(un->sun_path))
		return err_set(err, "\"%s\" is empty or too long for a unix socket.", path);
	un->sun_family = AF_UNIX;
	strcpy(un->sun_path, path);
	a->len = sizeof(*un);
	return 0;
}

int addr_parse(struct addr *a, const char *text, struct err *err)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *res;
	const char *colon = strrchr(text, ':');
	char host[256];
	size_t n;
	int rc;

	memset(a, 0, sizeof(*a));
	if (strncmp(text, "unix@", 5) == 0)
		return parse_unix(a, text + 5, err);
	if (colon == NULL || (n = (size_t)(colon - text)) >= sizeof(host))
		return err_set(err, "\"%s\" is not host:port or unix@/path.", text);
	memcpy(host, text, n);
	host[n] = 0;
	if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
		memmove(host, host + 1, n - 2);
		host[n - 2] = 0;
	}
	hints.ai_flags = *host ? 0 : AI_PASSIVE;
	if (*host == 0)
		hints.ai_family = AF_INET;
	rc = getaddrinfo(*host ? host : NULL, colon + 1, &hints, &res);
	if (rc)
		return err_set(err, "\"%s\": %s.", text, gai_strerror(rc));
	memcpy(&a->sa, res->ai_addr, res->ai_addrlen);
	a->len = res->ai_addrlen;
	freeaddrinfo(res);
	return 0;
}

/* Only a socket is removed: a path given by mistake keeps its file. */
static void remove_stale(const struct addr *a)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)&a->sa;
	struct stat st;

	if (a->sa.ss_family == AF_UNIX && lstat(un->sun_path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(un->sun_path);
}

int addr_listen(struct addr *a, struct err *err)
{
	int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
	char text[ADDR_TEXT_MAX];

	if (fd < 0)
		return err_set(err, "socket: %s.", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	remove_stale(a);
	if (bind(fd, (struct sockaddr *)&a->sa, a->len) || listen(fd, 4096)) {
		err_set(err, "%s: %s.", addr_text(a, text), strerror(errno));
		close(fd);
		return -1;
	}
	if (a->sa.ss_family != AF_UNIX)
		getsockname(fd, (struct sockaddr *)&a->sa, &a->len);
	return fd;
}

int addr_connect(const struct addr *a)
{
	int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return -1;
	if (a->sa.ss_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (const struct sockaddr *)&a->sa, a->len) && errno != EINPROGRESS) {
		int e = errno;

		close(fd);
		errno = e;
		return -1;
	}
	return fd;
}

const char *addr_text(const struct addr *a, char *out)
{
	char host[96], port[16];

	if (a->sa.ss_family == AF_UNIX) {
		snprintf(out, ADDR_TEXT_MAX, "unix@%s", ((const struct sockaddr_un *)&a->sa)->sun_path);
		return out;
	}
	if (getnameinfo((const struct sockaddr *)&a->sa, a->len, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(out, ADDR_TEXT_MAX, "?");
	else
		snprintf(out, ADDR_TEXT_MAX, a->sa.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
			 host, port);
	return out;
}
