/* doctor_tls.c - a connection through TLS, by the program "openssl" of this host.
 *
 * The request goes to a frontend of this host with text that the doctor made up, so its certificate
 * need not be valid, and no library is needed for this one request. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/ctl/doctor_live.h"

#define ARGS_MAX	12

/* Set <name> to the host of "host:port"; empty for a number or a socket, which SNI cannot name. */
static void name_of(const char *address, char name[256])
{
	size_t n = strcspn(address, ":");

	name[0] = '\0';
	if (strncmp(address, "unix@", 5) != 0 && address[0] != '[' && n < 256 &&
	    strspn(address, "0123456789.") < n)
		snprintf(name, 256, "%.*s", (int)n, address);
}

static void arguments(const char *address, const char *name, char *argv[ARGS_MAX])
{
	bool local = strncmp(address, "unix@", 5) == 0;
	unsigned n = 0;

	argv[n++] = (char *)"openssl";
	argv[n++] = (char *)"s_client";
	argv[n++] = (char *)"-quiet";
	argv[n++] = (char *)(local ? "-unix" : "-connect");
	argv[n++] = (char *)(local ? address + 5 : address);
	argv[n++] = (char *)(name[0] != '\0' ? "-servername" : "-noservername");
	if (name[0] != '\0')
		argv[n++] = (char *)name;
	argv[n] = NULL;
}

int live_connect_tls(const char *address, pid_t *child, const char **why)
{
	posix_spawn_file_actions_t files;
	char name[256], *argv[ARGS_MAX];
	int ends[2], status;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
		*why = strerror(errno);
		return -1;
	}
	name_of(address, name);
	arguments(address, name, argv);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, ends[1], 0);
	posix_spawn_file_actions_adddup2(&files, ends[1], 1);
	posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	status = posix_spawnp(child, "openssl", &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	if (status == 0)
		return ends[0];
	close(ends[0]);
	*why = NULL;
	return -1;
}

void live_end_tls(pid_t child)
{
	kill(child, SIGTERM);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		continue;
}
