/* Reads the memory limits of control groups (versions 2 and 1), from the group of this process up
 * to the root, and the available memory of the machine. A container may see its own group as the
 * root, so all levels are read. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/os/memory.h"

#define PATH_MAX_CHARS	1024
#define REMEDY		"lower index.max_bytes"

static double to_mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

/* Returns the number in the file <path>, or UINT64_MAX if it has none or "max". */
static uint64_t number_in(const char *path)
{
	char text[64] = "", *end;
	FILE *f = fopen(path, "re");
	uint64_t n = UINT64_MAX;

	if (f == NULL)
		return n;
	if (fgets(text, sizeof(text), f) != NULL) {
		n = strtoull(text, &end, 10);
		if (end == text)
			n = UINT64_MAX;
	}
	fclose(f);
	return n;
}

/* Check <group> and all groups above it, below <top>. Overwrites <group>. */
static int groups_enough(
    const char *top, char *group, const char *file, uint64_t bytes, struct err *e)
{
	char path[PATH_MAX_CHARS], *slash;
	uint64_t limit;

	for (;;) {
		snprintf(path, sizeof(path), "%s%s/%s", top, group, file);
		limit = number_in(path);
		if (limit < bytes)
			return err_set(e,
				"index.max_bytes: cannot allocate %.0f MiB: the limit of the control group is %.0f MiB "
				"(%.120s); " REMEDY ", or raise that limit (systemd: MemoryMax=)",
				       to_mib(bytes), to_mib(limit), path);
		if ((slash = strrchr(group, '/')) == NULL)
			return 0;
		*slash = '\0';
	}
}

/* Check one line of /proc/self/cgroup, "number:controllers:path". Version 2 has no controllers. */
static int line_enough(const char *root, char *line, uint64_t bytes, struct err *e)
{
	char *controllers = strchr(line, ':'), *group, top[PATH_MAX_CHARS];
	bool v2;

	line[strcspn(line, "\n")] = '\0';
	if (controllers == NULL || (group = strchr(++controllers, ':')) == NULL)
		return 0;
	*group++ = '\0';
	v2 = controllers[0] == '\0';
	if (!v2 && strcmp(controllers, "memory") != 0)
		return 0;
	snprintf(top, sizeof(top), "%s/sys/fs/cgroup%s", root, v2 ? "" : "/memory");
	if (strcmp(group, "/") == 0)
		group[0] = '\0';
	return groups_enough(top, group, v2 ? "memory.max" : "memory.limit_in_bytes", bytes, e);
}

static int all_groups_enough(const char *root, uint64_t bytes, struct err *e)
{
	char path[PATH_MAX_CHARS], line[PATH_MAX_CHARS / 2];
	int rc = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	if ((f = fopen(path, "re")) == NULL)
		return 0;
	while (rc == 0 && fgets(line, sizeof(line), f) != NULL)
		rc = line_enough(root, line, bytes, e);
	fclose(f);
	return rc;
}

static int machine_enough(const char *root, uint64_t bytes, struct err *e)
{
	unsigned long long kib, left = 0;
	char path[PATH_MAX_CHARS], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	if ((f = fopen(path, "re")) == NULL)
		return 0;
	while (fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "MemAvailable: %llu", &kib) == 1 || sscanf(line, "SwapFree: %llu", &kib) == 1)
			left += kib;
	fclose(f);
	if (left == 0 || left * 1024 >= bytes)
		return 0;
	return err_set(e,
	    "index.max_bytes: cannot allocate %.0f MiB: the machine has %.0f MiB left; " REMEDY,
	    to_mib(bytes), to_mib(left * 1024));
}

int memory_enough_at(const char *root, uint64_t bytes, struct err *e)
{
	return all_groups_enough(root, bytes, e) != 0 ? -1 : machine_enough(root, bytes, e);
}

int memory_enough(uint64_t bytes, struct err *e)
{
	return memory_enough_at("", bytes, e);
}

bool memory_may_execute(void)
{
	size_t n = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return false;
	munmap(p, n);
	return true;
}
