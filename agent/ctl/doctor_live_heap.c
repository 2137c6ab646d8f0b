/* doctor_live_heap.c - find a HAProxy whose buffers return to the kernel after each use.
 *
 * Debian builds HAProxy without its global cache of free memory, so buffers beyond the small cache
 * of a thread go back to glibc. Large ones may go on to the kernel, and then each use faults all
 * their pages in again (doc/haproxy-heap.md). It depends on the process, not on the configuration,
 * and shows only in its minor faults, which are counted here.
 *
 * What makes HAProxy take buffers is requests that never end: several connections at once, each
 * with a body whose rest does not come. HAProxy waits for it (wait-for-body), so no engine sees
 * them. Then the connections are closed; HAProxy logs them as aborted, and from 3.1 on it asks the
 * agent about them, which says noprompt. So it is done only on request (--heap). The first rounds
 * warm the process up and do not count, and faults of other traffic are taken off: as many as in
 * the same time before. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/ctl/doctor_live.h"
#include "agent/ctl/get.h"

#define LARGE_BUFFER	131072	/* smaller ones stay in the cache of a thread, or cost little */
#define ROUNDS		16u
#define WARM		8u	/* of them */
#define CONNS_A_THREAD	4u	/* a thread keeps 512 KiB of free memory */
#define CONNS_MAX	64u
#define PAGE		4096u
#define PROC_MAX	1024
#define SETTLE_MS	100

/* Return the number after <name> in the answer to "show info", or 0. */
static long info_number(const char *info, const char *name)
{
	const char *at = strstr(info, name);

	return at != NULL ? strtol(at + strlen(name), NULL, 10) : 0;
}

/* Read the beginning of /proc/<pid>/<name>, and a NUL. Returns its length; 0 if that fails. */
static size_t read_proc(long pid, const char *name, char text[PROC_MAX])
{
	char path[64];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/%s", pid, name);
	if ((f = fopen(path, "r")) == NULL)
		return 0;
	n = fread(text, 1, PROC_MAX - 1, f);
	fclose(f);
	text[n] = '\0';
	return n;
}

/* Tell if the process is HAProxy: on another host or in another container the number is that of
 * something else, or of nothing. */
static bool is_haproxy(long pid)
{
	char text[PROC_MAX];
	size_t n = read_proc(pid, "cmdline", text);

	return n > 0 && memmem(text, n, "haproxy", 7) != NULL;
}

static long minor_faults(long pid)
{
	char text[PROC_MAX];
	const char *at;
	long faults = 0;

	if (read_proc(pid, "stat", text) > 0 && (at = strrchr(text, ')')) != NULL &&
	    sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %ld", &faults) == 1)
		return faults;
	return 0;
}

/* Send the head of a request and the first <n> bytes of a longer body. */
static bool send_beginning(const struct live *l, const char *url, int fd, size_t n)
{
	struct buf text = { 0 };
	char length[64];
	bool good;

	live_head(l, url, &text);
	snprintf(length, sizeof(length), "content-length: %zu\r\n\r\n", 2 * n);
	buf_str(&text, length);
	for (size_t i = 0; i < n && !text.failed; i += 16)
		buf_str(&text, "                ");
	good = !text.failed && send(fd, text.p, text.n, MSG_NOSIGNAL) == (ssize_t)text.n;
	buf_free(&text);
	return good;
}

static void settle(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = SETTLE_MS * 1000000 }, NULL);
}

/* Open <n> connections, let HAProxy fill a buffer for each, and close them. */
static bool fill_buffers(const struct live *l, const char *url, unsigned n, size_t bytes)
{
	const char *why;
	int fd[CONNS_MAX];
	unsigned open = 0;
	bool good = true;

	for (; good && open < n; open++) {
		good = (fd[open] = ctl_connect(url, &why)) >= 0;
		if (!good)
			break;
		good = send_beginning(l, url, fd[open], bytes);
	}
	settle();
	while (open > 0)
		close(fd[--open]);
	settle();
	return good;
}

static int say_slow(long pid, long faults, const char *version)
{
	bool old = strncmp(version, "2.", 2) == 0;

	printf("slow  heap: process %ld of HAProxy faults %ld pages a request, because its buffers return "
	       "to the kernel: set MALLOC_MMAP_THRESHOLD_=33554432 and MALLOC_TRIM_THRESHOLD_=268435456 "
	       "in its environment (haproxy.service.conf of haproxy-conf) %sand restart it\n", pid, faults,
	       old ? "or the option -dMglobal " : "and tune.memory.hot-size 33554432 in global ");
	return -1;
}

/* Count the faults of process <pid> for each request. Returns -1 if requests could not be sent. */
static long count_faults(const struct live *l, const char *url, long pid, unsigned n, size_t bytes)
{
	long from = minor_faults(pid), others, faults;

	for (unsigned i = 0; i < 2 * (ROUNDS - WARM); i++)
		settle();
	others = minor_faults(pid) - from;
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (i == WARM)
			from = minor_faults(pid);
		if (!fill_buffers(l, url, n, bytes))
			return -1;
	}
	faults = minor_faults(pid) - from - others;
	return faults > 0 ? faults / (long)(n * (ROUNDS - WARM)) : 0;
}

static int judge(const struct live *l, const char *info, size_t bytes)
{
	long pid = info_number(info, "\nPid: "), threads = info_number(info, "\nNbthread: "), faults = -1;
	unsigned n = CONNS_A_THREAD * (unsigned)(threads > 0 ? threads : 1);
	const char *version = strstr(info, "\nVersion: ");

	if (strncmp(live_url(l), LIVE_TLS, sizeof(LIVE_TLS) - 1) == 0) {
		printf("note  heap: not examined through TLS: name an address of plain HTTP with --url\n");
		return 0;
	}
	n = n < CONNS_MAX ? n : CONNS_MAX;
	if (is_haproxy(pid)) {
		printf("note  heap: sends the beginnings of %u requests\n", n * ROUNDS);
		fflush(stdout);
		faults = count_faults(l, live_host(live_url(l)), pid, n, bytes);
	}
	if (faults < 0) {
		printf("note  heap: not examined: process %ld of HAProxy is not one of this host, or took no "
		       "requests\n", pid);
		return 0;
	}
	if ((size_t)faults >= bytes / PAGE / 4)
		return say_slow(pid, faults, version != NULL ? version + 10 : "");
	printf("ok    heap: process %ld of HAProxy faults %ld pages a request\n", pid, faults);
	return 0;
}

int live_check_heap(const struct live *l)
{
	size_t buffer = doctor_bufsize(l->d);
	struct buf info = { 0 };
	const char *why = "";
	int status = 0;

	if (buffer >= LARGE_BUFFER && live_ask_haproxy(l, "show info\n", &info, &why) == 0)
		status = judge(l, info.p, buffer / 2 < LARGE_BUFFER ? buffer / 2 : LARGE_BUFFER);
	buf_free(&info);
	return status;
}
