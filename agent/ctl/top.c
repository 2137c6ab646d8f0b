/* top.c - kvroutectl top: the terminal around top_view.c.
 *
 * The terminal is put back on every way out: q, the end of input, a signal, a suspend. Signals are
 * blocked except while this waits for a key, so no handler interrupts a redraw. Only plain escape
 * sequences are used, which every terminal of today knows. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "agent/ctl/ctl.h"
#include "agent/ctl/get_status.h"
#include "agent/ctl/top_view.h"

#define ENTER_SCREEN	"\033[?1049h\033[?25l"
#define LEAVE_SCREEN	"\033[0m\033[?25h\033[?1049l"
#define LIMIT_MS	3000	/* of a request; keys and signals wait for it */
#define SUSPEND_KEY	26	/* control Z */
#define INTERRUPT_KEY	3	/* control C */

struct top {
	const char *address;
	double every_s;
	bool once;
	struct top_view view;
	struct status figures[2];
	unsigned now;			/* index of the last figures */
	bool some, two;			/* there are figures; and earlier ones */
	struct termios saved;
	bool raw;
	sigset_t waiting;		/* mask while waiting for a key */
};

static volatile sig_atomic_t caught;	/* the signal that ends or suspends; 0: none */

static void on_signal(int sig)
{
	if (sig != SIGWINCH && sig != SIGCONT)
		caught = sig;
}

/* ---- the terminal ------------------------------------------------------------------------- */

static void write_all(const char *p, size_t n)
{
	while (n > 0) {
		ssize_t k = write(STDOUT_FILENO, p, n);

		if (k < 0 && errno != EINTR && errno != EAGAIN)
			return;
		if (k > 0) {
			p += k;
			n -= (size_t)k;
		}
	}
}

static void enter_raw(struct top *t)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &t->saved) < 0)
		return;
	raw = t->saved;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
	t->raw = true;
	write_all(ENTER_SCREEN, sizeof(ENTER_SCREEN) - 1);
}

static void leave_raw(struct top *t)
{
	if (!t->raw)
		return;
	write_all(LEAVE_SCREEN, sizeof(LEAVE_SCREEN) - 1);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &t->saved);
	t->raw = false;
}

static void suspend(struct top *t)
{
	leave_raw(t);
	kill(getpid(), SIGSTOP);
	enter_raw(t);
}

static void measure(struct top *t)
{
	struct winsize w;

	t->view.columns = 80;
	t->view.rows = 24;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 && w.ws_row > 0) {
		t->view.columns = w.ws_col;
		t->view.rows = w.ws_row;
	}
}

static void catch_signals(struct top *t)
{
	static const int all[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH, SIGCONT };
	struct sigaction a = { .sa_handler = on_signal };
	sigset_t block;

	sigemptyset(&block);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		sigaction(all[i], &a, NULL);
		sigaddset(&block, all[i]);
	}
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_BLOCK, &block, &t->waiting);
}

/* ---- figures ------------------------------------------------------------------------------ */

/* Old figures stay if there is no answer. */
static void get_figures(struct top *t)
{
	unsigned next = 1 - t->now;
	const char *why = NULL;

	if (ctl_get_status(t->address, LIMIT_MS, &t->figures[next], &why) < 0) {
		t->two = false;
		t->view.trouble = why;
		return;
	}
	t->two = t->some;
	t->some = true;
	t->now = next;
	t->view.trouble = NULL;
}

static void draw(struct top *t)
{
	struct buf out = { .p = NULL };

	top_view_draw(
	    &t->view, &t->figures[t->now], t->two ? &t->figures[1 - t->now] : NULL, &out);
	write_all(out.p, out.n);
	buf_free(&out);
}

/* ---- keys --------------------------------------------------------------------------------- */

static double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Wait for a key or a signal until <until>. Returns the key; 0: none; -1: the end of input. */
static int wait_key(struct top *t, double until)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	double s = until - seconds_now();
	struct timespec ts = { .tv_sec = 0 };
	unsigned char key;

	if (s > 0) {
		ts.tv_sec = (time_t)s;
		ts.tv_nsec = (long)((s - (double)ts.tv_sec) * 1e9);
	}
	if (ppoll(&p, 1, &ts, &t->waiting) <= 0)
		return 0;
	return read(STDIN_FILENO, &key, 1) == 1 ? key : -1;
}

static bool is_end(int key)
{
	return key == 'q' || key == -1 || key == INTERRUPT_KEY;
}

/* Returns the signal that ended it, or 0. */
static int run(struct top *t)
{
	double next = seconds_now();
	int key = 0;

	while (!is_end(key)) {
		if (seconds_now() >= next) {
			get_figures(t);
			next = seconds_now() + t->every_s;
		}
		measure(t);
		draw(t);
		key = wait_key(t, next);
		if (key == SUSPEND_KEY || caught == SIGTSTP) {
			caught = 0;
			suspend(t);
		} else if (caught != 0) {
			return caught;
		}
		top_view_key(&t->view, (char)key);
	}
	return 0;
}

static int show_once(struct top *t)
{
	get_figures(t);
	if (t->view.trouble != NULL) {
		fprintf(stderr, "kvroutectl: %s: %s\n", t->address, t->view.trouble);
		return CTL_FAILED;
	}
	t->view.columns = 100;
	draw(t);
	return 0;
}

/* ---- the command line --------------------------------------------------------------------- */

static int usage(FILE *to, int status)
{
	fprintf(to, "usage: kvroutectl top [-1] [-d SECONDS] [ADDRESS]\n"
		"\n"
		"Show servers, load and hits of an agent as they change. ADDRESS is metrics.listen of the\n"
		"agent, host:port or unix@path; default " CTL_ADDRESS ".\n"
		"\n"
		"  -1           once, as plain text; also if the output is no terminal\n"
		"  -d SECONDS   time between two looks; default 2\n");
	return status;
}

static int show(struct top *t)
{
	int sig, status = 0;

	if (t->once || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		status = show_once(t);
	} else {
		catch_signals(t);
		enter_raw(t);
		sig = run(t);
		leave_raw(t);
		status = sig != 0 ? 128 + sig : 0;
	}
	status_free(&t->figures[0]);
	status_free(&t->figures[1]);
	return status;
}

int ctl_top(int argc, char **argv)
{
	static const struct option longs[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	struct top t = { .address = CTL_ADDRESS, .every_s = 2, .view = { .sort = 'n' } };
	int c;

	while ((c = getopt_long(argc, argv, "1d:h", longs, NULL)) != -1) {
		switch (c) {
		case '1': t.once = true; break;
		case 'd':
			t.every_s = strtod(optarg, NULL);
			if (!(t.every_s >= 0.1 && t.every_s <= 3600))
				return usage(stderr, CTL_USAGE);
			break;
		case 'h': return usage(stdout, 0);
		default: return usage(stderr, CTL_USAGE);
		}
	}
	if (argc - optind > 1)
		return usage(stderr, CTL_USAGE);
	if (optind < argc)
		t.address = argv[optind];
	return show(&t);
}
