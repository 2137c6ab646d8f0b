/* socket.c - kvroutectl -s SOCKET: commands of the runtime socket, from the command line, or line
 * by line from standard input. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/ctl/ctl.h"
#include "agent/ctl/get.h"
#include "agent/ctl/outside.h"
#include "agent/ctl/read.h"
#include "agent/ctl/socket.h"

#define PATH_MOST	255
#define LINE_MOST	2048	/* the agent takes no longer one */
#define BODY_MOST	(1u << 20)
#define WHOLE_MS	60000	/* of a command and its answer */

static int connect_socket(const char *socket, const char **why)
{
	char address[PATH_MOST + 8];
	int fd;

	snprintf(address, sizeof(address), "%s%.*s", strncmp(socket, "unix@", 5) == 0 ? "" : "unix@",
	    PATH_MOST, socket);
	errno = 0;
	if ((fd = ctl_connect(address, why)) < 0 && errno == ENOENT)
		*why = "No such file or directory; the agent makes it at its start, if runtime.path is set";
	return fd;
}

static int send_all(int fd, const char *p, size_t n, int64_t until)
{
	while (n > 0) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

		if (k >= 0 && ctl_now_ms() >= until) {
			errno = ETIMEDOUT;
			return -1;
		}
		if (k < 0)
			return -1;
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

int ctl_command_within(const char *socket, const char *line, struct span body, int limit_ms,
    void (*take)(void *arg, const char *p, size_t n), void *arg, const char **why)
{
	int64_t until = ctl_now_ms() + limit_ms;
	int fd = connect_socket(socket, why), rc;
	char text[16384];
	ssize_t n;

	if (fd < 0)
		return -1;
	/* an agent that refuses the line closes before it has read all; its answer says why */
	rc = send_all(fd, line, strlen(line), until);
	if (rc == 0 && send_all(fd, "\n", 1, until) == 0 && send_all(fd, body.p, body.n, until) == 0)
		shutdown(fd, SHUT_WR);
	while ((n = ctl_receive(fd, text, sizeof(text), until)) > 0)
		take(arg, text, (size_t)n);
	if (n < 0 || rc < 0)
		*why = strerror(errno);
	close(fd);
	return n < 0 || rc < 0 ? -1 : 0;
}

int ctl_command(const char *socket, const char *line, struct span body,
    void (*take)(void *arg, const char *p, size_t n), void *arg, const char **why)
{
	return ctl_command_within(socket, line, body, WHOLE_MS, take, arg, why);
}

/* ---- a command ---------------------------------------------------------------------------- */

/* Looks at how lines begin, after a prompt or not, in bytes as they come. */
struct finder {
	size_t n;
	char line[24];
	bool found;		/* an answer was a refusal */
};

static void find_refusal(struct finder *f, const char *p, size_t n)
{
	static const char *const refusals[] = { "refused at character ", "refused: as many " };

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n') {
			f->n = 0;
		} else if (f->n < sizeof(f->line) && (f->n > 0 || (p[i] != '>' && p[i] != ' '))) {
			f->line[f->n++] = p[i];
			for (size_t k = 0; k < sizeof(refusals) / sizeof(refusals[0]); k++)
				f->found |= f->n == strlen(refusals[k]) && memcmp(f->line, refusals[k], f->n) == 0;
		}
	}
}

static void print_part(void *arg, const char *p, size_t n)
{
	find_refusal(arg, p, n);
	ctl_print_outside(stdout, p, n);
}

static int fail(const char *socket, const char *why)
{
	fprintf(stderr, "kvroutectl: %s: %s\n", socket, why);
	return CTL_FAILED;
}

/* Append a word. What has a meaning in a line is escaped, unless it is a whole line or a ";". */
static void put_word(struct buf *line, const char *word, bool whole)
{
	bool plain = whole || strcmp(word, ";") == 0;

	for (; *word != '\0'; word++) {
		if (!plain && strchr(" \t;\\", *word) != NULL)
			buf_str(line, "\\");
		buf_add(line, word, 1);
	}
}

/* Tell if the command is "ask", in a word of its own or before a blank. */
static bool is_ask(const char *word)
{
	return strncmp(word, "ask", 3) == 0 && (word[3] == '\0' || word[3] == ' ');
}

/* Join the words of a command; a single one is a whole line, as "show info; show pools". After
 * "ask" comes the length of <body>. Returns false if the line is too long. */
static bool join(int argc, char **argv, size_t body, char line[LINE_MOST + 1])
{
	struct buf text = { 0 };
	char length[32];
	bool fits;

	snprintf(length, sizeof(length), "ask %zu", body);
	for (int i = 0; i < argc; i++) {
		const char *word = argv[i];

		if (i > 0)
			buf_str(&text, " ");
		if (i == 0 && is_ask(word)) {
			buf_str(&text, length);
			word += 3;
		}
		put_word(&text, word, argc == 1 || i == 0);
	}
	fits = !text.failed && text.n > 0 && text.n <= LINE_MOST;
	if (fits)
		snprintf(line, LINE_MOST + 1, "%.*s", (int)text.n, text.p);
	buf_free(&text);
	return fits;
}

static int run_command(const char *socket, int argc, char **argv)
{
	char line[LINE_MOST + 1];
	struct buf body = { .p = NULL };
	struct finder refusals = { .n = 0 };
	const char *why = "";
	int status = CTL_FAILED;

	if (is_ask(argv[0]) && ctl_read(STDIN_FILENO, BODY_MOST, &body) < 0)
		why = "standard input cannot be read, or is larger than 1 MiB";
	else if (!join(argc, argv, body.n, line))
		why = "the command is longer than 2048 bytes";
	else if (ctl_command(socket, line, span_of(body.p, body.n), print_part, &refusals, &why) == 0)
		status = 0;
	if (status != 0)
		fail(socket, why);
	else if (refusals.found)
		status = CTL_FAILED;
	buf_free(&body);
	return status;
}

/* ---- line by line ------------------------------------------------------------------------- */

struct talk {
	int fd;
	bool ended;		/* standard input did */
	size_t at, n;		/* of <text>, what is not sent yet */
	char text[16384];
	struct finder refusals;
};

/* Print what the agent sent. Returns 1, 0 after all, or -1 with errno. */
static int take_answer(struct talk *t)
{
	char text[16384];
	ssize_t n = recv(t->fd, text, sizeof(text), 0);

	if (n > 0) {
		find_refusal(&t->refusals, text, (size_t)n);
		ctl_print_outside(stdout, text, (size_t)n);
		fflush(stdout);
	}
	return n > 0 ? 1 : (int)n;
}

/* Send as much as the agent takes now: it takes nothing while its answers are not read. */
static void send_some(struct talk *t)
{
	ssize_t n = send(t->fd, t->text + t->at, t->n - t->at, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n > 0)
		t->at += (size_t)n;
	if (t->ended && t->at == t->n)
		shutdown(t->fd, SHUT_WR);
}

static void read_input(struct talk *t)
{
	ssize_t n = read(STDIN_FILENO, t->text, sizeof(t->text));

	t->ended = n <= 0;
	t->at = 0;
	t->n = n > 0 ? (size_t)n : 0;
	send_some(t);
}

/* Returns 0 when the agent has closed, or -1 with errno. */
static int exchange(struct talk *t)
{
	for (;;) {
		bool rest = t->at < t->n;
		struct pollfd p[2] = {
			{ .fd = t->ended || rest ? -1 : STDIN_FILENO, .events = POLLIN },
			{ .fd = t->fd, .events = (short)(rest ? POLLIN | POLLOUT : POLLIN) },
		};

		if (poll(p, 2, -1) < 0)
			return -1;
		if (p[1].revents & (POLLIN | POLLHUP | POLLERR)) {
			int rc = take_answer(t);

			if (rc <= 0)
				return rc;
		} else if (p[1].revents & POLLOUT) {
			send_some(t);
		}
		if (p[0].revents != 0)
			read_input(t);
	}
}

/* Returns true if commands were not sent: the agent closed before. */
static bool is_left_over(const struct talk *t)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	char c;

	if (t->at < t->n)
		return true;
	return !t->ended && !isatty(STDIN_FILENO) && poll(&p, 1, 0) > 0 &&
	    read(STDIN_FILENO, &c, 1) > 0;
}

static int talk(const char *socket)
{
	const char *why = "";
	struct talk t = { .fd = connect_socket(socket, &why) };
	int rc, error;

	if (t.fd < 0)
		return fail(socket, why);
	memcpy(t.text, "prompt\n", 7);
	t.n = 7;
	rc = exchange(&t);
	error = errno;
	close(t.fd);
	if (rc < 0)
		return fail(socket, strerror(error));
	if (is_left_over(&t))
		return fail(socket, "the agent closed before all commands were sent");
	return t.refusals.found ? CTL_FAILED : 0;
}

int ctl_socket(const char *socket, int argc, char **argv)
{
	return argc > 0 ? run_command(socket, argc, argv) : talk(socket);
}
