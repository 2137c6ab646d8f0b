/* shim.h - common to the libraries for LD_PRELOAD: the real functions, and the file through which
 * a program outside sees their counts and gives its orders. */
#ifndef TESTS_SHIM_H
#define TESTS_SHIM_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Returns the function <name> of the next library. Ends the program if there is none. */
static inline void *shim_real(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (p == NULL)
		abort();
	return p;
}

/* Maps the first <n> bytes of the file whose name is in the environment variable <variable>,
 * shared. Returns NULL if the variable is not set or the file cannot be mapped. */
static inline void *shim_file(const char *variable, size_t n)
{
	const char *path = getenv(variable);
	int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p;

	if (fd < 0)
		return NULL;
	p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p != MAP_FAILED ? p : NULL;
}

#endif
