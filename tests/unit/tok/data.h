/* data.h - reads recorded tokenizers and vectors from ../shared/data/tokenizers. A checkout may
 * lack that folder. For unit tests only. */
#ifndef TESTS_TOK_DATA_H
#define TESTS_TOK_DATA_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/types.h"

#define DATA_ROOT "../shared/data/tokenizers/"

static inline bool data_there(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), DATA_ROOT "%s", name);
	return access(path, R_OK) == 0;
}

static inline struct span data_all(FILE *f)
{
	size_t cap = 1u << 20, n = 0, got;
	char *p = malloc(cap);

	while (p != NULL && (got = fread(p + n, 1, cap - n, f)) > 0) {
		n += got;
		if (n == cap)
			p = realloc(p, cap *= 2);
	}
	if (p == NULL)
		exit(2);
	return span_of(p, n);
}

/* Read a file below DATA_ROOT, and unpack it if its name ends in .gz. Returns p == NULL if the file
 * does not exist. The caller frees the bytes. */
static inline struct span data_read(const char *name)
{
	size_t n = strlen(name);
	bool gz = n > 3 && strcmp(name + n - 3, ".gz") == 0;
	char command[600];
	struct span s;
	FILE *f;

	if (!data_there(name))
		return (struct span){ NULL, 0 };
	snprintf(command, sizeof(command), "%s" DATA_ROOT "%s", gz ? "gzip -dc " : "", name);
	f = gz ? popen(command, "r") : fopen(command, "r");
	if (f == NULL)
		return (struct span){ NULL, 0 };
	s = data_all(f);
	if (gz)
		pclose(f);
	else
		fclose(f);
	return s;
}

#endif
