/* sandbox.h - what the kernel keeps from this process once everything is open.
 *
 *      open all sockets, read the key  ->  sandbox_enter()  ->  start threads, take the first byte
 *
 *      no core      no dump of any kind, no ptrace by others of the same user
 *      no_new_privs exec gives nothing more, ever
 *      seccomp      the calls that serving needs, and no other: nothing is opened, run, forked,
 *                   connected or mapped to be executed (sandbox_seccomp.c); where the configuration has
 *                   peers to ask, sockets of streams may be made and connected
 *      landlock     a second layer over paths and ports, where the kernel has it (5.13 and later): all
 *                   is closed, but sockets may be unlinked in their directories, and (6.7 and later) those
 *                   ports be connected to where peers are asked (sandbox_landlock.c)
 *
 * The configuration is opened by a process of its own (opener.h), so that a reload works although
 * this one can open no file on any kernel. Where a snapshot is configured, new files may be made, never an old one
 * opened, and renamed: by name below its directory, where a path that begins with / gets past seccomp, which
 * sees no names, and is stopped by Landlock and by the rights of the user only.
 *
 * Nothing here fails the start: what is missing is told, and serving goes on. All is for the calling
 * thread and those it starts; no thread of the agent is there before. */
#ifndef KVROUTE_LOOP_SANDBOX_H
#define KVROUTE_LOOP_SANDBOX_H

#include "agent/base/types.h"

#define SANDBOX_DIRS_MAX	32	/* LISTEN_MAX sockets in each of four lists */

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
	bool core_off, no_new_privs, seccomp;
	bool open_refused, execve_refused;	/* tried, and refused */
	int landlock_abi;			/* 0: none */
	int seccomp_error, landlock_error;	/* errno, where it is not on */
};

/* No core, also for what is forked later. Before secrets are read. */
void sandbox_no_core(struct sandbox *s);

/* How files are opened that may be made. */
#define SANDBOX_NEW_FILE	(O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)

/* The rest, and the self-test. Files may be unlinked in the <n> directories <dir>, and made (SANDBOX_NEW_FILE),
 * synced and renamed in the open directory <files>; -1: nowhere. Connections may be begun as <out> has them.
 * Milliseconds. */
struct outgoing;
void sandbox_enter(struct sandbox *s, const char *const *dir, size_t n, int files, const struct outgoing *out);

/* Landlock has ports from ABI 4 on. */
static inline bool sandbox_binds_ports(const struct sandbox *s)
{
	return s->landlock_abi >= 4;
}

/* True: the self-test was passed, and all is on but perhaps Landlock. */
bool sandbox_whole(const struct sandbox *s);

/* ---- its parts ----------------------------------------------------------------------------------- */

/* Each 0, or the errno that keeps it off. They need no_new_privs, or root. */
int sandbox_seccomp(int files, bool connect);
int sandbox_seccomp_opener(void);	/* for a process that only opens for reading and passes on */
int sandbox_landlock(const char *const *dir, size_t n, int files, const struct outgoing *out, int *abi);

/* Tries to open and to execute; true: it was refused. */
bool sandbox_open_refused(void);
bool sandbox_execve_refused(void);

#endif
