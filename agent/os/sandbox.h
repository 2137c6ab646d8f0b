/* sandbox.h - the rights that the process gives up once everything is open.
 *
 *      open sockets, read the key  ->  sandbox_enter()  ->  start threads, read the first byte
 *
 *      no core       no core dump, no ptrace by other processes of the same user
 *      no_new_privs  exec never gives more rights
 *      capabilities  none, also for root (privileges.h)
 *      seccomp       only the calls that serving needs: no open, remove, exec, fork, connect, send
 *                    to an address, or executable mapping (sandbox_seccomp.c). If the configuration
 *                    has peers to poll, stream sockets may be created and connected.
 *      landlock      a second layer for paths and ports, if the kernel has it (5.13 and later): no
 *                    path, and (6.7 and later) only the ports of peers (sandbox_landlock.c)
 *
 * A process of its own does what needs a path later (opener.h), because a filter cannot read a
 * path. So no call that takes a path is allowed here.
 *
 * Nothing here fails the start: a missing part is logged, and the agent serves. The sandbox holds
 * for the calling thread and the threads that it starts, so enter it before any other thread
 * exists. */
#ifndef KVROUTE_OS_SANDBOX_H
#define KVROUTE_OS_SANDBOX_H

#include "agent/base/types.h"
#include "agent/os/sandbox_refused.h"

/* Sanitizers open, map and trace files and memory. */
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
	bool open_refused, execve_refused;	/* tested, and refused */
	int landlock_abi;			/* 0: none */
	int seccomp_error, landlock_error;	/* errno if it is off */
};

/* Disable core dumps, also of processes forked later. Call it before secrets are read. */
void sandbox_no_core(struct sandbox *s);

/* The flags of open() for a new file. */
#define SANDBOX_NEW_FILE	(O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)

/* The connections that the process may start. */
struct connect_ports {
	bool any;		/* to unix sockets and to the TCP ports below */
	bool every;		/* to all TCP ports */
	bool events;		/* libzmq makes some of them, with threads of its own */
	uint64_t bits[(UINT16_MAX + 1) / 64];	/* port p: bit p % 64 of word p / 64 */
};

static inline bool connect_ports_has(const struct connect_ports *o, uint16_t port)
{
	return o->every || (o->bits[port / 64] >> (port % 64) & 1);
}

static inline void connect_ports_add(struct connect_ports *o, uint16_t port)
{
	o->bits[port / 64] |= 1ull << (port % 64);
}

struct sandbox_opts {
	int opener;			/* socket to the opener, which may send descriptors; -1: none */
	const int *datagrams;		/* datagram sockets, which must never be connected */
	size_t n_datagrams;
	const struct connect_ports *out;
	struct refused_count *refused;	/* counter of refused calls; lives as long as the process */
};

/* Enter all other parts and test them; the calls of the test are not counted. Takes
 * milliseconds. */
void sandbox_enter(struct sandbox *s, const struct sandbox_opts *o);

/* Landlock knows ports since ABI 4. */
static inline bool sandbox_binds_ports(const struct sandbox *s)
{
	return s->landlock_abi >= 4;
}

/* Returns true if the test passed and all parts are on, except perhaps Landlock. */
bool sandbox_whole(const struct sandbox *s);

#endif
