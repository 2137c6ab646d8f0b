/* sandbox.h - what the kernel keeps from this process once everything is open.
 *
 *      open all sockets, read the key  ->  sandbox_enter()  ->  start threads, take the first byte
 *
 *      no core      no dump of any kind, no ptrace by others of the same user
 *      no_new_privs exec gives nothing more, ever
 *      capabilities none, also for root (privileges.h)
 *      seccomp      the calls that serving needs, and no other: nothing is opened, removed, run, forked,
 *                   connected, sent to an address or mapped to be executed (sandbox_seccomp.c); where the configuration
 *                   has peers to ask, sockets of streams may be made and connected
 *      landlock     a second layer over paths and ports, where the kernel has it (5.13 and later): all
 *                   is closed, but (6.7 and later) those ports where peers are asked (sandbox_landlock.c)
 *
 * What needs a path later is done by a process of its own (opener.h), so that seccomp allows no
 * call here that takes one: a filter cannot see what a path says.
 *
 * Nothing here fails the start: what is missing is told, and serving goes on. All is for the
 * calling thread and those it starts; no thread of the agent is there before. */
#ifndef KVROUTE_OS_SANDBOX_H
#define KVROUTE_OS_SANDBOX_H

#include "agent/base/types.h"
#include "agent/os/sandbox_refused.h"

/* Sanitizers open, map and trace at their will. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_CAN	0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SANDBOX_CAN	0
#endif
#endif
#ifndef SANDBOX_CAN
#define SANDBOX_CAN	1
#endif

struct sandbox {
	bool core_off, no_new_privs, no_capabilities, seccomp;
	bool open_refused, execve_refused;	/* tried, and refused */
	int landlock_abi;			/* 0: none */
	int seccomp_error, landlock_error;	/* errno, where it is not on */
};

/* No core, also for what is forked later. Before secrets are read. */
void sandbox_no_core(struct sandbox *s);

/* How files are opened that may be made. */
#define SANDBOX_NEW_FILE	(O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)

#define CONNECT_PORTS_MAX	(SERVERS_MAX + 8)

/* The connections that the process may begin. */
struct connect_ports {
	bool any;		/* to unix sockets, and to these ports of TCP */
	size_t n;
	uint16_t port[CONNECT_PORTS_MAX];	/* each once */
};

struct sandbox_opts {
	int opener;			/* the socket to it, -1: none: descriptors may come from there */
	const int *datagrams;		/* sockets of datagrams, which must never be connected */
	size_t n_datagrams;
	const struct connect_ports *out;
	struct refused_count *refused;	/* of the calls that were refused; lives as long as the process */
};

/* The rest, and the self-test, whose calls are not counted. Milliseconds. */
void sandbox_enter(struct sandbox *s, const struct sandbox_opts *o);

/* Landlock has ports from ABI 4 on. */
static inline bool sandbox_binds_ports(const struct sandbox *s)
{
	return s->landlock_abi >= 4;
}

/* True: the self-test was passed, and all is on but perhaps Landlock. */
bool sandbox_whole(const struct sandbox *s);

/* ---- its parts ----------------------------------------------------------------------------------- */

/* Each 0, or the errno that keeps it off. They need no_new_privs. */
int sandbox_seccomp(const struct sandbox_opts *o);
int sandbox_landlock(const struct connect_ports *out, int *abi);

/* The same for the opener, which opens for reading, and answers over <agent>. Files may be made
 * (SANDBOX_NEW_FILE), renamed and removed in each of the open directories <files>, -1: nowhere; and sockets
 * removed in the <n> directories <dir>. */
#define SANDBOX_DIRS	2
int sandbox_seccomp_opener(int agent, const int files[SANDBOX_DIRS], bool sockets);
int sandbox_landlock_opener(const char *const *dir, size_t n, const int files[SANDBOX_DIRS]);

/* Tries to open and to execute; true: it was refused. */
bool sandbox_open_refused(void);
bool sandbox_execve_refused(void);

#endif
