/* socket.h - one line to the runtime socket of an agent, and its answers. */
#ifndef KVROUTE_CTL_SOCKET_H
#define KVROUTE_CTL_SOCKET_H

#include "agent/base/types.h"

/* Send <line>, its newline and <body> to <socket>, a path with or without "unix@", and call <take>
 * with what comes back until the agent closes. Returns 0, or -1 with <why>, which is a literal or
 * from strerror(). Each read waits at most 10 s, and the whole takes at most 60 s. */
int ctl_command(const char *socket, const char *line, struct span body,
    void (*take)(void *arg, const char *p, size_t n), void *arg, const char **why);

/* The same, and the whole takes at most <limit_ms>. */
int ctl_command_within(const char *socket, const char *line, struct span body, int limit_ms,
    void (*take)(void *arg, const char *p, size_t n), void *arg, const char **why);

#endif
