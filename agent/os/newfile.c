/* Temporary names hold the id of the process that writes, so that leftovers of ended processes can
 * be told from files that another process is writing. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/newfile.h"
#include "agent/os/sandbox.h"

void newfile_name(const char *name, char tmp[NEWFILE_NAME_MAX])
{
	snprintf(tmp, NEWFILE_NAME_MAX, "%.280s.tmp.%ld", name, (long)getpid());
}

static bool is_left_over(const char *file, const char *name)
{
	size_t n = strlen(name);
	char *end;
	long pid;

	if (strncmp(file, name, n) != 0 || strncmp(file + n, ".tmp.", 5) != 0)
		return false;
	pid = strtol(file + n + 5, &end, 10);
	return pid > 0 && *end == '\0' &&
	    (pid == getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH));
}

void newfile_clean(int dir, const char *name)
{
	int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again >= 0 ? fdopendir(again) : NULL;
	struct dirent *f;

	while (d != NULL && (f = readdir(d)) != NULL)
		if (is_left_over(f->d_name, name))
			unlinkat(dir, f->d_name, 0);
	if (d != NULL)
		closedir(d);
	else if (again >= 0)
		close(again);
}

int fd_write_all(int fd, const void *bytes, size_t n)
{
	const char *p = bytes;
	ssize_t did;

	for (; n > 0; p += did, n -= (size_t)did) {
		did = write(fd, p, n);
		if (did < 0 && errno != EINTR)
			return -1;
		if (did < 0)
			did = 0;
	}
	return 0;
}

int fd_read_all(int fd, void *to, size_t n)
{
	char *p = to;
	ssize_t got;

	for (; n > 0; p += got, n -= (size_t)got) {
		got = read(fd, p, n);
		if (got == 0)
			errno = EIO;
		if (got == 0 || (got < 0 && errno != EINTR))
			return -1;
		if (got < 0)
			got = 0;
	}
	return 0;
}

int fd_end(int fd, int rc)
{
	int error;

	if (rc == 0)
		rc = fsync(fd);
	error = errno;
	if (close(fd) != 0 && rc == 0) {
		error = errno;
		rc = -1;
	}
	errno = error;
	return rc;
}

/* Makes only calls that the sandbox allows for snapshots. */
int newfile_end(int dir, int fd, const char *tmp, const char *name, int rc)
{
	int error;

	rc = fd_end(fd, rc);
	if (rc == 0 && renameat(dir, tmp, dir, name) == 0) {
		fsync(dir);
		return 0;
	}
	error = errno;
	unlinkat(dir, tmp, 0);
	errno = error;
	return -1;
}

int newfile_write(int dir, const char *name, unsigned mode, const struct span *parts, size_t n)
{
	char tmp[NEWFILE_NAME_MAX];
	int fd, rc = 0;

	newfile_name(name, tmp);
	unlinkat(dir, tmp, 0);
	fd = openat(dir, tmp, SANDBOX_NEW_FILE, mode);
	if (fd < 0)
		return -1;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = fd_write_all(fd, parts[i].p, parts[i].n);
	return newfile_end(dir, fd, tmp, name, rc);
}
