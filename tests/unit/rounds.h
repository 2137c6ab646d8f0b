/* rounds.h - how many random or similar cases a test tries. In a build with a sanitizer each takes
 * several times as long, so only the first are tried there, unless UNIT_ROUNDS=all is in the
 * environment, as in suite asan-long of "make test-long". Other builds try all. */
#ifndef TESTS_ROUNDS_H
#define TESTS_ROUNDS_H

#include <stdlib.h>
#include <string.h>

static inline unsigned rounds(unsigned all, unsigned sanitized)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	const char *s = getenv("UNIT_ROUNDS");

	return s != NULL && strcmp(s, "all") == 0 ? all : sanitized;
#else
	(void)sanitized;
	return all;
#endif
}

#endif
