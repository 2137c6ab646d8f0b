/* socket.c - kvroutectl -s SOCKET: commands of the runtime socket, from the command line, or line
 * by line from standard input. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/ctl/ctl.h"
#include "agent/ctl/get.h"
#include "agent/ctl/read.h"
#include "agent/ctl/socket.h"

#define PATH_MOST	255
#define LINE_MOST	2048	/* the agent takes no longer one */
#define BODY_MOST	(1u << 20)

static int connect_socket(const char *socket, const char **why)
{
	char address[PATH_MOST + 8];

	snprintf(address, sizeof(address), "%s%.*s", strncmp(socket, "unix@", 5) == 0 ? "" : "unix@",
	    PATH_MOST, socket);
	return ctl_connect(address, why);
}

static int send_all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

		if (k < 0)
			return -1;
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

int ctl_command(const char *socket, const char *line, struct span body,
    void (*take)(void *arg, const char *p, size_t n), void *arg, const char **why)
{
	int fd = connect_socket(socket, why), rc;
	char text[16384];
	ssize_t n;

	if (fd < 0)
		return -1;
	/* an agent that refuses the line closes before it has read all; its answer says why */
	rc = send_all(fd, line, strlen(line));
	if (rc == 0 && send_all(fd, "\n", 1) == 0 && send_all(fd, body.p, body.n) == 0)
		shutdown(fd, SHUT_WR);
	while ((n = recv(fd, text, sizeof(text), 0)) > 0)
		take(arg, text, (size_t)n);
	if (n < 0 || rc < 0)
		*why = strerror(errno);
	close(fd);
	return n < 0 || rc < 0 ? -1 : 0;
}

/* ---- a command ---------------------------------------------------------------------------- */

struct printer {
	bool some, refused;
};

static void print_part(void *arg, const char *p, size_t n)
{
	struct printer *pr = arg;

	if (!pr->some && n >= 7 && memcmp(p, "refused", 7) == 0)
		pr->refused = true;
	pr->some = true;
	fwrite(p, 1, n, stdout);
}

static int fail(const char *socket, const char *why)
{
	fprintf(stderr, "kvroutectl: %s: %s\n", socket, why);
	return CTL_FAILED;
}

/* Join the words of a command; after "ask" comes the length of <body>. Returns false if the line is
 * too long. */
static bool join(int argc, char **argv, size_t body, bool ask, char line[LINE_MOST + 1])
{
	size_t n = 0;

	for (int i = 0; i < argc && n <= LINE_MOST; i++) {
		n += (size_t)snprintf(line + n, LINE_MOST + 1 - n, "%s%s", i > 0 ? " " : "", argv[i]);
		if (i == 0 && ask && n <= LINE_MOST)
			n += (size_t)snprintf(line + n, LINE_MOST + 1 - n, " %zu", body);
	}
	return n <= LINE_MOST;
}

static int run_command(const char *socket, int argc, char **argv)
{
	bool ask = strcmp(argv[0], "ask") == 0;
	char line[LINE_MOST + 1];
	struct buf body = { .p = NULL };
	struct printer pr = { .some = false };
	const char *why = "";
	int status = CTL_FAILED;

	if (ask && ctl_read(STDIN_FILENO, BODY_MOST, &body) < 0)
		why = "standard input cannot be read, or is larger than 1 MiB";
	else if (!join(argc, argv, body.n, ask, line))
		why = "the command is longer than 2048 bytes";
	else if (ctl_command(socket, line, span_of(body.p, body.n), print_part, &pr, &why) == 0)
		status = 0;
	if (status != 0)
		fail(socket, why);
	else if (pr.refused)
		status = CTL_FAILED;
	buf_free(&body);
	return status;
}

/* ---- line by line ------------------------------------------------------------------------- */

/* Copy what is there from <from> to <to>. Returns false at the end. */
static bool copy_some(int from, int to)
{
	char text[16384];
	ssize_t n = read(from, text, sizeof(text));

	for (ssize_t at = 0, k; at < n; at += k)
		if ((k = write(to, text + at, (size_t)(n - at))) < 0)
			return false;
	return n > 0;
}

static int talk(const char *socket)
{
	struct pollfd p[2] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .events = POLLIN } };
	const char *why = "";
	int fd = connect_socket(socket, &why);

	if (fd < 0 || send_all(fd, "prompt\n", 7) < 0) {
		if (fd >= 0)
			close(fd);
		return fail(socket, fd < 0 ? why : strerror(errno));
	}
	p[1].fd = fd;
	signal(SIGPIPE, SIG_IGN);	/* the agent closes after quit */
	while (poll(p, 2, -1) > 0) {
		if (p[1].revents != 0 && !copy_some(fd, STDOUT_FILENO))
			break;
		if (p[0].revents != 0 && !copy_some(STDIN_FILENO, fd)) {
			shutdown(fd, SHUT_WR);
			p[0].fd = -1;	/* not looked at any more */
		}
	}
	close(fd);
	return 0;
}

int ctl_socket(const char *socket, int argc, char **argv)
{
	return argc > 0 ? run_command(socket, argc, argv) : talk(socket);
}
