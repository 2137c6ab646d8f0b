/* Enters the sandbox and tests it. Two limits are not set: RLIMIT_FSIZE would end the process if
 * standard error is a file, and RLIMIT_NPROC counts the threads of all processes of the user.
 * Neither adds anything to a filter that allows no open and no fork. */
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/os/privileges.h"
#include "agent/os/sandbox_in.h"

/* RLIMIT_CORE does not apply if cores go to a pipe (core(5)); PR_SET_DUMPABLE does. */
void sandbox_no_core(struct sandbox *s)
{
	static const struct rlimit none;

	s->core_off = setrlimit(RLIMIT_CORE, &none) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

/* Any user may open the root directory, so the result does not depend on the user of this
 * process. */
bool sandbox_open_refused(void)
{
	int shadow = open("/etc/shadow", O_RDONLY | O_CLOEXEC);
	int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (shadow >= 0)
		close(shadow);
	if (root >= 0)
		close(root);
	return shadow < 0 && root < 0;
}

/* The file may be executed, but its arguments cannot be read. So a call that is allowed fails with
 * EFAULT, and this process continues. */
bool sandbox_execve_refused(void)
{
	long rc = syscall(SYS_execve, "/proc/self/exe", 1L, 1L);

	return rc < 0 && (errno == EPERM || errno == EACCES);
}

void sandbox_enter(struct sandbox *s, const struct sandbox_opts *o)
{
	s->no_new_privs = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
	s->no_capabilities = privileges_drop();
	s->landlock_error = sandbox_landlock(o->out, &s->landlock_abi);
	s->seccomp_error = sandbox_refused_watch(NULL);
	if (s->seccomp_error == 0)
		s->seccomp_error = sandbox_seccomp(o);
	s->seccomp = s->seccomp_error == 0;
	s->open_refused = sandbox_open_refused();
	s->execve_refused = sandbox_execve_refused();
	sandbox_refused_watch(o->refused);
}

bool sandbox_whole(const struct sandbox *s)
{
	return s->core_off && s->no_new_privs && s->no_capabilities && s->seccomp &&
	    s->open_refused && s->execve_refused;
}
