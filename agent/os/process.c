/* Figures come from open files of /proc and from system calls that the sandbox allows. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/process.h"

void process_open(struct process_files *f)
{
	f->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	f->fds = opendir("/proc/self/fd");
}

void process_close(struct process_files *f)
{
	if (f->statm >= 0)
		close(f->statm);
	if (f->fds != NULL)
		closedir(f->fds);
}

static uint64_t resident_bytes(int statm)
{
	unsigned long size = 0, resident = 0;
	char text[128];
	ssize_t n = statm < 0 ? -1 : pread(statm, text, sizeof(text) - 1, 0);

	if (n < 0)
		return 0;
	text[n] = '\0';
	if (sscanf(text, "%lu %lu", &size, &resident) != 2)
		return 0;
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_fds(DIR *d)
{
	struct dirent *de;
	uint64_t n = 0;

	if (d == NULL)
		return 0;
	rewinddir(d);
	while ((de = readdir(d)) != NULL)
		if (de->d_name[0] != '.')
			n++;
	return n;
}

void process_read(const struct process_files *f, struct process_figures *p)
{
	struct timespec ts = { 0 };
	struct rlimit rl = { 0 };

	getrlimit(RLIMIT_NOFILE, &rl);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	p->resident_bytes = resident_bytes(f->statm);
	p->fds = open_fds(f->fds);
	p->max_fds = rl.rlim_cur;
	p->cpu_s = (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

uint64_t process_raise_fds(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) != 0)
		return 0;
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);
	getrlimit(RLIMIT_NOFILE, &rl);
	return rl.rlim_cur;
}

/* Takes <n> descriptors and closes them again, because free numbers may lie between used ones. */
bool process_fds_left(unsigned n)
{
	int fd = n > 0 ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0) : -1;
	bool enough = n == 0 || (fd >= 0 && process_fds_left(n - 1));

	if (fd >= 0)
		close(fd);
	return enough;
}

unsigned process_cpus(void)
{
	cpu_set_t set;
	int n;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 1;
	n = CPU_COUNT(&set);
	return n > 0 ? (unsigned)n : 1;
}
