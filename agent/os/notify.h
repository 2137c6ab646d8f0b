/* notify.h - telling the service manager how the process is: the protocol of sd_notify(3).
 *
 *      NOTIFY_SOCKET, WATCHDOG_USEC  ->  notify_open()  ->  "READY=1", "WATCHDOG=1", "STOPPING=1"
 *
 * The socket is connected at the start, because the sandbox allows no connect() later. Without a
 * service manager nothing is sent. */
#ifndef KVROUTE_OS_NOTIFY_H
#define KVROUTE_OS_NOTIFY_H

#include "agent/base/types.h"

struct notify {
	int fd;			/* -1: none */
	msec watchdog_ms;	/* the manager restarts the service after this time without "WATCHDOG=1";
				 * 0: never */
};

/* Connect to the socket that the environment names, and remove the variables. Call it before other
 * threads start. A socket that cannot be connected is left out. Returns 0, or -1 with errno if the
 * environment names one that was left out. */
int notify_open(struct notify *n);
void notify_close(struct notify *n);

/* Send <text>, lines of NAME=VALUE. notify_send() waits for at most a second; notify_try() does not
 * wait. Returns true if it was sent or there is no socket. From any thread. */
bool notify_send(const struct notify *n, const char *text);
bool notify_try(const struct notify *n, const char *text);

#endif
