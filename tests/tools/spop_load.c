/* spop_load ADDR [-c CONNECTIONS] [-r PER_SECOND [-o]] [-n COUNT | -t SECONDS] [-b BYTES] [-x] [-A]
 * [-w WINDOW] [-d MS] [-p PID] [-W WARM]
 * - send NOTIFYs to any SPOE agent at a given rate, and measure the ACKs. SIGTERM ends the run
 *   early.
 *
 * Each NOTIFY has two messages of kvroute: "done" for an earlier request, and "route" with a chat
 * body of BYTES, with one of 16 system prompts and a new text; with -x the text is random words,
 * which are new to every tokenizer.
 *
 * -r 0 sends as fast as ACKs come, WINDOW at a time on each connection. With -r, a NOTIFY that is
 * due while all windows are full is sent later. With -o its time still counts from when it was due,
 * so that an agent that delays the sender does not look fast (open loop), and NOTIFYs that were
 * never sent count as late. The argument asked_ms has that time, like HAProxy's date(), unless -A
 * is given. With -p the resident memory of that process is read after the first WARM share of the
 * run (default 0.3) and at the end. <within> is the share of all NOTIFYs whose ACK came in at most
 * MS (default 50, the "timeout processing" of the recipes), <overload> the share of ACKs with
 * why=overload. The last line:
 *
 *   notifies=N acks=N lost=N seconds=S rate=N p50_us=T p99_us=T max_us=T within=SHARE
 *   rss_kib=A..B growth=SHARE overload=SHARE
 *
 * Exits with 0 if there are as many ACKs as NOTIFYs. */
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "spoe/wire.h"
#include "tests/tools/lib/addr.h"

#define SLOTS		1024u		/* in flight on one connection, at most */
#define CONNS_MAX	256u
#define FRAME_SMALL	65532u
#define FRAME_LARGE	262140u		/* of HAProxy with "tune.bufsize 262144" */
#define SENDERS_ZERO	1790000000000	/* its clock is not the agent's */
#define LOAD		"host/1;s1=1,0,0,100;s2=1,0,0,100;s3=1,0,0,100;s4=1,0,0,100"

struct conn {
	int fd;
	uint8_t *out, *in;
	size_t n_out, sent, n_in;
	uint64_t next, open;		/* stream ids, and how many wait for their ACK */
	double at[SLOTS];
};

struct load {
	unsigned n_conns, window, bytes, deadline_ms;
	double rate, seconds, warm;
	uint64_t count;
	int pid;
	struct conn *conns;
	char *body;
	size_t n_body, unique_at, unique_end;
	bool random;
	bool open_loop;
	bool silent;			/* no asked_ms */
	double start;
	uint64_t sent, acked, overload;
	uint32_t *us;			/* a histogram: microseconds up to 1 s */
	double max_us;
};

#define US_MAX	1000000u

static volatile sig_atomic_t enough;
static unsigned frame_size = FRAME_SMALL;

static void on_term(int sig)
{
	enough = sig;
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void die(const char *what)
{
	fprintf(stderr, "spop_load: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void *must(void *p)
{
	if (p == NULL)
		die("memory");
	return p;
}

/* ---- frames ------------------------------------------------------------------------------ */

static void put_arg(struct spop_wr *w, const char *name, const char *p, size_t n)
{
	struct spop_data d = { .type = SPOP_T_STR, .s = { p, n } };

	spop_put_str(w, name, strlen(name));
	spop_put_data(w, &d);
}

static void put_text(struct spop_wr *w, const char *name, const char *text)
{
	put_arg(w, name, text, strlen(text));
}

static void put_hello(struct spop_wr *w)
{
	size_t start = spop_frame_begin(w, SPOP_FRAME_HAPROXY_HELLO, 0, 0);
	struct spop_data d = { .type = SPOP_T_UINT32, .i = frame_size };

	put_text(w, "supported-versions", "2.0");
	spop_put_str(w, "max-frame-size", 14);
	spop_put_data(w, &d);
	put_text(w, "capabilities", "pipelining");
	spop_frame_end(w, start);
}

/* The prose of a body; its unique part is after the first quarter. */
static void make_body(struct load *l)
{
	size_t n;

	l->body = must(malloc(l->bytes + 256u));
	n = (size_t)sprintf(l->body,
	    "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"system 00 ");
	while (n < l->bytes / 4)
		n += (size_t)sprintf(l->body + n, "instruction %zu. ", n % 89);
	l->unique_at = n + strlen("\"},{\"role\":\"user\",\"content\":\"");
	n += (size_t)sprintf(l->body + n, "\"},{\"role\":\"user\",\"content\":\"0000000000000000 ");
	while (n + 40 < l->bytes)
		n += (size_t)sprintf(l->body + n, "word%zu ", n % 97);
	l->unique_end = n;
	n += (size_t)sprintf(l->body + n, "\"}],\"stream\":true}");
	l->n_body = n;
}

/* Six letters a word on average: xorshift64, five bits a letter. */
static void random_words(char *p, char *end, uint64_t seed)
{
	static const char letter[33] = "etaoin shrdlu cmfwyp vbgkjqxz eai";
	uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;

	while (end - p >= 12) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		for (unsigned i = 0; i < 12; i++)
			*p++ = letter[x >> (4 + 5 * i) & 31];
	}
}

static void set_body(struct load *l, uint64_t number)
{
	char *system = strstr(l->body, "system 0") + 7;
	char hex[24];

	system[1] = (char)('a' + number % 16);
	snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)number);
	memcpy(l->body + l->unique_at, hex, 16);
	if (l->random)
		random_words(l->body + l->unique_at + 17, l->body + l->unique_end, number);
}

static void put_notify(struct load *l, struct conn *c, uint64_t number, double at_us)
{
	struct spop_data asked = { .type = SPOP_T_INT64, .i = SENDERS_ZERO + (int64_t)(at_us / 1e3) };
	struct spop_wr w = { c->out, c->n_out, 2 * frame_size, false };
	size_t start = spop_frame_begin(&w, SPOP_FRAME_NOTIFY, c->next, 1);
	char uid[24];

	snprintf(uid, sizeof(uid), "u%llu", (unsigned long long)(number > 64 ? number - 64 : 0));
	spop_put_str(&w, "done", 4);
	spop_put_u8(&w, 6);
	put_text(&w, "uid", uid);
	put_text(&w, "be", "pool");
	put_text(&w, "srv", "s1");
	put_text(&w, "st", "200");
	put_text(&w, "ts", "--");
	put_text(&w, "tr", "5");
	set_body(l, number);
	snprintf(uid, sizeof(uid), "u%llu", (unsigned long long)number);
	spop_put_str(&w, "route", 5);
	spop_put_u8(&w, l->silent ? 5 : 6);
	put_text(&w, "uid", uid);
	if (!l->silent) {
		spop_put_str(&w, "asked_ms", 8);
		spop_put_data(&w, &asked);
	}
	put_text(&w, "pool", "pool");
	put_text(&w, "load", LOAD);
	put_text(&w, "path", "/v1/chat/completions");
	put_arg(&w, "body", l->body, l->n_body);
	if (!spop_frame_end(&w, start))
		die("a frame that does not fit: less than 250000 bytes please");
	c->n_out = w.n;
}

/* ---- connections ------------------------------------------------------------------------- */

static void conn_flush(struct conn *c)
{
	ssize_t n;

	while (c->sent < c->n_out) {
		n = send(c->fd, c->out + c->sent, c->n_out - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			die("send");
		c->sent += (size_t)n;
	}
	c->sent = c->n_out = 0;
}

static void conn_ask(struct load *l, struct conn *c)
{
	double at = l->open_loop ? l->start + (double)l->sent * 1e6 / l->rate : now_us();

	put_notify(l, c, l->sent++, at);
	c->at[c->next++ % SLOTS] = at;
	c->open++;
	conn_flush(c);
}

static void take_ack(struct load *l, struct conn *c, const struct spop_frame *f)
{
	double us = now_us() - c->at[f->stream_id % SLOTS];

	l->acked++;
	l->overload += memmem(f->payload.p, f->payload.left, "overload", 8) != NULL;
	c->open--;
	l->us[us < US_MAX ? (uint32_t)us : US_MAX]++;
	if (us > l->max_us)
		l->max_us = us;
}

static void conn_read(struct load *l, struct conn *c)
{
	ssize_t got = recv(c->fd, c->in + c->n_in, frame_size - c->n_in, MSG_DONTWAIT);
	struct spop_frame f;
	size_t at = 0, len;

	if (got < 0 && errno == EAGAIN)
		return;
	if (got <= 0)
		die("the agent ended the connection");
	c->n_in += (size_t)got;
	while (c->n_in - at >= 4 && (len = spop_load_u32(c->in + at)) <= c->n_in - at - 4) {
		if (spop_frame_get(c->in + at + 4, len, &f) < 0 || f.type == SPOP_FRAME_AGENT_DISCONNECT)
			die("no ACK came");
		if (f.type == SPOP_FRAME_ACK)
			take_ack(l, c, &f);
		at += len + 4;
	}
	memmove(c->in, c->in + at, c->n_in - at);
	c->n_in -= at;
}

static void conn_open(struct conn *c, const struct addr *a)
{
	struct pollfd p;
	struct spop_wr w;
	int on = 1;

	c->out = must(malloc(2 * frame_size));
	c->in = must(malloc(frame_size));
	if ((c->fd = addr_connect(a)) < 0)
		die("connect");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	p = (struct pollfd){ c->fd, POLLOUT, 0 };
	poll(&p, 1, 2000);
	w = (struct spop_wr){ c->out, 0, frame_size, false };
	put_hello(&w);
	c->n_out = w.n;
	conn_flush(c);
	p.events = POLLIN;
	if (poll(&p, 1, 2000) <= 0 || recv(c->fd, c->in, frame_size, 0) <= 0 ||
	    c->in[4] != SPOP_FRAME_AGENT_HELLO)
		die("no AGENT-HELLO came");
	c->next = 1;
}

/* ---- the run ----------------------------------------------------------------------------- */

static long rss_kib(int pid)
{
	char path[64], line[256];
	long kib = -1;
	FILE *f;

	if (pid == 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if ((f = fopen(path, "r")) == NULL)
		return -1;
	while (fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

static bool wanted(const struct load *l, double elapsed_us)
{
	if (enough)
		return false;
	if (l->count > 0)
		return l->sent < l->count;
	if (l->open_loop && elapsed_us < l->seconds * 1e6 + l->deadline_ms * 1e3)
		/* send all due ones, unless they are already late */
		return (double)l->sent + 1 < l->rate * l->seconds;
	return elapsed_us < l->seconds * 1e6;
}

/* Send the due NOTIFYs. Returns true if there was one. */
static bool send_due(struct load *l, double elapsed_us)
{
	uint64_t due = l->rate > 0 ? (uint64_t)(elapsed_us * l->rate / 1e6) : UINT64_MAX;
	bool any = false, more = true;

	while (more) {
		more = false;
		for (unsigned i = 0; i < l->n_conns; i++) {
			struct conn *c = &l->conns[i];

			if (l->sent >= due || !wanted(l, elapsed_us) || c->open >= l->window || c->n_out > 0)
				continue;
			conn_ask(l, c);
			any = more = true;
		}
	}
	return any;
}

static void wait_and_read(struct load *l, int ms)
{
	struct pollfd p[CONNS_MAX];

	for (unsigned i = 0; i < l->n_conns; i++)
		p[i] = (struct pollfd){ l->conns[i].fd, (short)(POLLIN | (l->conns[i].n_out ? POLLOUT : 0)), 0 };
	if (poll(p, l->n_conns, ms) <= 0)
		return;
	for (unsigned i = 0; i < l->n_conns; i++) {
		if (p[i].revents & POLLOUT)
			conn_flush(&l->conns[i]);
		if (p[i].revents & (POLLIN | POLLHUP | POLLERR))
			conn_read(l, &l->conns[i]);
	}
}

static double quantile(const struct load *l, double q)
{
	uint64_t want = (uint64_t)((double)l->acked * q), sum = 0;
	uint32_t us;

	for (us = 0; us < US_MAX && (sum += l->us[us]) <= want; us++)
		;
	return us;
}

static double share_within(const struct load *l)
{
	double asked = (double)l->sent;
	uint64_t sum = 0;

	for (uint32_t us = 0; us <= l->deadline_ms * 1000 && us < US_MAX; us++)
		sum += l->us[us];
	if (l->open_loop && l->count == 0 && asked < l->rate * l->seconds)
		asked = l->rate * l->seconds;
	return asked > 0 ? (double)sum / asked : 0;
}

static double share_done(const struct load *l, double elapsed_us)
{
	return l->count > 0 ? (double)l->sent / (double)l->count : elapsed_us / (l->seconds * 1e6);
}

static int run(struct load *l)
{
	double elapsed, asked;
	long warm = -1, end;

	l->start = now_us();
	while (elapsed = now_us() - l->start, wanted(l, elapsed)) {
		if (warm < 0 && share_done(l, elapsed) >= l->warm)
			warm = rss_kib(l->pid);
		wait_and_read(l, send_due(l, elapsed) ? 0 : 1);
	}
	asked = (now_us() - l->start) / 1e6;
	for (double until = now_us() + 2e6; l->acked < l->sent && now_us() < until;)
		wait_and_read(l, 10);
	end = rss_kib(l->pid);
	printf(
	    "notifies=%llu acks=%llu lost=%llu seconds=%.1f rate=%.0f p50_us=%.0f p99_us=%.0f max_us=%.0f "
	    "within=%.5f rss_kib=%ld..%ld growth=%.4f overload=%.4f\n",
	    (unsigned long long)l->sent, (unsigned long long)l->acked,
	    (unsigned long long)(l->sent - l->acked), asked, (double)l->sent / asked,
	    quantile(l, 0.5), quantile(l, 0.99), l->max_us, share_within(l), warm, end,
	    warm > 0 ? (double)(end - warm) / (double)warm : 0.,
	    l->acked > 0 ? (double)l->overload / (double)l->acked : 0.);
	return l->sent == l->acked ? 0 : 1;
}

static void usage(void)
{
	fprintf(stderr,
	    "spop_load ADDR [-c CONNECTIONS] [-r PER_SECOND [-o]] [-n COUNT | -t SECONDS] [-b BYTES] [-x] "
	    "[-A] "
	    "[-w WINDOW] [-d MS] [-p PID] [-W WARM]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	struct load l = { .n_conns = 4,
		.window = 8,
		.bytes = 4096,
		.deadline_ms = 50,
		.seconds = 5,
		.warm = 0.3 };
	struct addr a;
	struct err e;
	int c;

	while ((c = getopt(argc, argv, "c:r:on:t:b:xAw:d:p:W:")) != -1) {
		switch (c) {
		case 'c': l.n_conns = (unsigned)atoi(optarg); break;
		case 'r': l.rate = atof(optarg); break;
		case 'x': l.random = true; break;
		case 'A': l.silent = true; break;
		case 'o': l.open_loop = true; break;
		case 'n': l.count = strtoull(optarg, NULL, 10); break;
		case 't': l.seconds = atof(optarg); break;
		case 'b': l.bytes = (unsigned)atoi(optarg); break;
		case 'w': l.window = (unsigned)atoi(optarg); break;
		case 'd': l.deadline_ms = (unsigned)atoi(optarg); break;
		case 'p': l.pid = atoi(optarg); break;
		case 'W': l.warm = atof(optarg); break;
		default: usage();
		}
	}
	if (optind >= argc || (l.open_loop && l.rate <= 0) || l.n_conns == 0 ||
	    l.n_conns > CONNS_MAX || l.window == 0 || l.window > SLOTS || l.bytes < 512 ||
	    l.bytes > 250000)
		usage();
	if (addr_parse(&a, argv[optind], &e) < 0) {
		fprintf(stderr, "spop_load: %s\n", e.text);
		return 2;
	}
	if (l.bytes > FRAME_SMALL - 5000)
		frame_size = FRAME_LARGE;
	signal(SIGTERM, on_term);
	make_body(&l);
	l.us = must(calloc(US_MAX + 1, sizeof(*l.us)));
	l.conns = must(calloc(l.n_conns, sizeof(*l.conns)));
	for (unsigned i = 0; i < l.n_conns; i++)
		conn_open(&l.conns[i], &a);
	return run(&l);
}
