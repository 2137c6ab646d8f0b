/* doctor_haproxy.c - what only HAProxy's own binary knows: its version, the features that it was
 * built with, and variables that it sets for itself, such as HAPROXY_BRANCH.
 *
 * "-vv" has the first two. For the third it gets a configuration with one line for each variable
 * that the files name and this environment lacks, and prints it with -dC (3.0 and later), which
 * expands them. -dC of the files themselves would not do: it joins words without quotes and does
 * not follow setenv. */
#include <ctype.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/vec.h"
#include "agent/ctl/doctor.h"
#include "agent/ctl/read.h"

#define OUTPUT_MAX	((size_t)1 << 20)
#define WAIT_MS		10000
#define PROBE		"KVROUTE_PROBE_"

/* ---- running it ---------------------------------------------------------------------------- */

/* Append what <fd> gives until its end, or for WAIT_MS. */
static void read_output(int fd, struct buf *out)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec begun, now;
	char block[4096];
	ssize_t n = 1;
	long left = WAIT_MS;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	while (n > 0 && left > 0 && out->n < OUTPUT_MAX && poll(&p, 1, (int)left) > 0) {
		if ((n = read(fd, block, sizeof(block))) > 0)
			buf_add(out, block, (size_t)n);
		clock_gettime(CLOCK_MONOTONIC, &now);
		left = WAIT_MS - (now.tv_sec - begun.tv_sec) * 1000;
	}
}

/* Run <path> and collect its standard output. Returns 0, or -1 if it did not start. */
static int run(const char *path, char *const *argv, struct buf *out)
{
	posix_spawn_file_actions_t files;
	int ends[2], status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, ends[1], 1);
	posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	status = posix_spawn(&pid, path, &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	if (status == 0) {
		read_output(ends[0], out);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	close(ends[0]);
	return status == 0 || out->n > 0 ? 0 : -1;
}

/* Find "haproxy" in PATH. Returns false if there is none. */
static bool find_haproxy(char *to, size_t room)
{
	const char *path = getenv("PATH");

	for (size_t n; path != NULL && *path != '\0'; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		if (snprintf(to, room, "%.*s/haproxy", (int)n, path) < (int)room && access(to, X_OK) == 0)
			return true;
	}
	return false;
}

/* ---- version and features ------------------------------------------------------------------ */

static void take_version(struct doctor_haproxy *h, const char *text)
{
	const char *at = strstr(text, "version "), *list = strstr(text, "Feature list : ");
	int major, minor, patch = 0;

	if (at != NULL && sscanf(at + 8, "%2d.%3d.%3d", &major, &minor, &patch) >= 2)
		h->version = DOCTOR_VERSION(major, minor, patch);
	if (list != NULL)
		snprintf(h->features, sizeof(h->features), "%.*s", (int)strcspn(list + 15, "\n"),
		    list + 15);
}

/* ---- variables ----------------------------------------------------------------------------- */

static bool known(const struct doctor_haproxy *h, struct span name)
{
	for (size_t i = 0; i < h->n_names; i++) {
		if (span_eq(span_str(h->names[i]), name))
			return true;
	}
	for (char *const *v = environ; *v != NULL; v++) {
		if (strncmp(*v, name.p, name.n) == 0 && (*v)[name.n] == '=')
			return true;
	}
	return false;
}

/* Collect the names after "$" in a file. */
static void take_names(struct doctor_haproxy *h, struct span text)
{
	const char *p = text.n > 0 ? text.p : "", *end = p + text.n, *from;

	while (p < end && h->n_names < DOCTOR_PROBES && (p = memchr(p, '$', (size_t)(end - p))) != NULL) {
		p++;
		p += p < end && *p == '{';
		for (from = p; p < end && (isalnum((unsigned char)*p) || *p == '_');)
			p++;
		if (p > from && (size_t)(p - from) < sizeof(h->names[0]) &&
		    !isdigit((unsigned char)*from) && !known(h, span_of(from, (size_t)(p - from)))) {
			memcpy(h->names[h->n_names], from, (size_t)(p - from));
			h->names[h->n_names++][p - from] = '\0';
		}
	}
}

static void put_value(char to[DOCTOR_VALUE], const char *name, const char *value)
{
	size_t n = strlen(name), m = strlen(value);

	memcpy(to, name, n);
	to[n] = '=';
	memcpy(to + n + 1, value, m + 1);
}

/* Take the values of the last time that the configuration is printed. */
static void take_values(struct doctor_haproxy *h, const char *text)
{
	char *end, value[1024];
	unsigned long i;
	size_t n;

	while ((text = strstr(text, "setenv " PROBE)) != NULL) {
		text += sizeof("setenv " PROBE) - 1;
		i = strtoul(text, &end, 10);
		n = strcspn(end, "\n");
		if (i >= h->n_names || *end != ' ')
			continue;
		while (n > 0 && end[n - 1] == ' ')
			n--;
		if (n <= 1 || n > sizeof(value))
			continue;
		memcpy(value, end + 1, n - 1);
		value[n - 1] = '\0';
		put_value(h->values[i], h->names[i], value);
	}
}

static void ask_variables(struct doctor_haproxy *h, char *path)
{
	char name[] = "/tmp/kvroute-doctor-XXXXXX";
	char *argv[] = { path, (char[]){ "-dC0" }, (char[]){ "-c" }, (char[]){ "-f" }, name, NULL };
	struct buf out = { 0 };
	int fd = mkstemp(name);

	if (fd < 0)
		return;
	dprintf(fd, "global\n");
	for (size_t i = 0; i < h->n_names; i++)
		dprintf(fd, "    setenv " PROBE "%zu \"${%s}\"\n", i, h->names[i]);
	close(fd);
	if (run(path, argv, &out) == 0) {
		buf_add(&out, "", 1);
		if (!out.failed)
			take_values(h, out.p);
	}
	unlink(name);
	buf_free(&out);
}

/* Make <h>->env: this environment and the values found. */
static void make_env(struct doctor_haproxy *h)
{
	size_t n = 0, k = 0;

	while (environ[n] != NULL)
		n++;
	if ((h->env = calloc(n + h->n_names + 1, sizeof(*h->env))) == NULL)
		return;
	for (; k < n; k++)
		h->env[k] = environ[k];
	for (size_t i = 0; i < h->n_names; i++) {
		if (h->values[i][0] != '\0')
			h->env[k++] = h->values[i];
	}
}

int doctor_ask_haproxy(struct doctor_haproxy *h, const struct doctor_args *a, const char **why)
{
	char path[4096];
	char *argv[] = { path, (char[]){ "-vv" }, NULL };
	struct buf out = { 0 };

	if (a->haproxy != NULL)
		snprintf(path, sizeof(path), "%s", a->haproxy);
	if ((a->haproxy != NULL && a->haproxy[0] == '\0') ||
	    (a->haproxy == NULL && !find_haproxy(path, sizeof(path))))
		return 0;
	if (run(path, argv, &out) == 0) {
		buf_add(&out, "", 1);
		take_version(h, out.failed ? "" : out.p);
	}
	buf_free(&out);
	if (h->version == 0 && a->haproxy != NULL) {
		*why = "this program does not run or is no HAProxy";
		return -1;
	}
	for (unsigned i = 0; i < a->n && h->version > 0; i++) {
		struct buf text = { 0 };

		if (ctl_read_file(a->paths[i], DOCTOR_FILE_MAX, &text) == 0)
			take_names(h, span_of(text.p, text.n));
		buf_free(&text);
	}
	if (h->n_names > 0)
		ask_variables(h, path);
	make_env(h);
	return 0;
}
