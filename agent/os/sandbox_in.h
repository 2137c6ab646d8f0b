/* sandbox_in.h - the parts of the sandbox, and the sandbox of the opener. */
#ifndef KVROUTE_OS_SANDBOX_IN_H
#define KVROUTE_OS_SANDBOX_IN_H

#include "agent/os/sandbox.h"

/* Each returns 0, or the errno of the failure. They need no_new_privs. */
int sandbox_seccomp(const struct sandbox_opts *o);
int sandbox_landlock(const struct connect_ports *out, int *abi);

/* The same for the opener, which opens files for reading and answers over <agent>. In each open
 * directory of <files> (-1: none) it may create (SANDBOX_NEW_FILE), rename and remove files. In the
 * <n> directories <dir> it may remove sockets. */
#define SANDBOX_DIRS	2
int sandbox_seccomp_opener(int agent, const int files[SANDBOX_DIRS], bool sockets);
int sandbox_landlock_opener(const char *const *dir, size_t n, const int files[SANDBOX_DIRS]);

/* Try to open and to execute a file. Returns true if it was refused. */
bool sandbox_open_refused(void);
bool sandbox_execve_refused(void);

#endif
