/* The variables are removed once they are read, so that no child process takes itself for the
 * service. They stay if the socket cannot be connected, for whoever looks for the reason. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/os/notify.h"

#define WAIT_S	1

/* Returns the length of the address, or 0 if <path> is none: a path, or @ and an abstract name. */
static socklen_t address_of(struct sockaddr_un *a, const char *path)
{
	size_t n = strlen(path);

	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if ((path[0] != '/' && path[0] != '@') || n < 2 || n >= sizeof(a->sun_path))
		return 0;
	memcpy(a->sun_path, path, n);
	if (path[0] == '@')
		a->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

static int connect_to(const char *path)
{
	struct timeval wait = { .tv_sec = WAIT_S };
	struct sockaddr_un a;
	socklen_t n = address_of(&a, path);
	int fd, saved;

	if (n == 0) {
		errno = EINVAL;
		return -1;
	}
	if ((fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&a, n) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* Returns 0 if the watchdog is off or belongs to another process. */
static msec watchdog_of(const char *usec_text, const char *pid)
{
	char *end;
	unsigned long long us;

	if (usec_text == NULL || (pid != NULL && strtol(pid, NULL, 10) != (long)getpid()))
		return 0;
	us = strtoull(usec_text, &end, 10);
	return *end != '\0' || us > INT64_MAX ? 0 : (msec)(us / 1000);
}

int notify_open(struct notify *n)
{
	const char *path = getenv("NOTIFY_SOCKET");

	*n = (struct notify){ .fd = -1 };
	if (path != NULL && (n->fd = connect_to(path)) >= 0)
		n->watchdog_ms = watchdog_of(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"));
	if (path != NULL && n->fd < 0)
		return -1;
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return 0;
}

void notify_close(struct notify *n)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
}

static bool send_text(const struct notify *n, const char *text, int flags)
{
	return n->fd < 0 || send(n->fd, text, strlen(text), MSG_NOSIGNAL | flags) >= 0;
}

bool notify_send(const struct notify *n, const char *text)
{
	return send_text(n, text, 0);
}

bool notify_try(const struct notify *n, const char *text)
{
	return send_text(n, text, MSG_DONTWAIT);
}
