/* spop_turn.c - time of a warm turn from its frame to its ACK, over a real SPOP connection.
 *
 *   spop_turn PORT MODEL BYTES
 *
 * A few conversations grow by 2 KB a turn and take turns; each body is sent in one NOTIFY to the
 * agent at 127.0.0.1:PORT, then its end as a message "done". First each body is repeated until that
 * is not faster any more, because an agent may encode a long new one in parts. Prints medians and
 * the least of
 *
 *   turn        from before write() to the last byte of the ACK
 *   decision    the variable "us" of that ACK: from the whole frame to the answer, in the agent
 *   transport   a frame of the same size with a message that the agent does not know, to its ACK:
 *               what the kernel, the two processes and their waking take
 *   xxh3        to hash the bytes, here
 *
 * Before each frame both sides sleep for PAUSE_US, as a connection does between two requests. What
 * comes right after another frame is faster by 20 to 40 us: no processor has to be woken. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/hash_wide.h"
#include "agent/base/rng.h"
#include "spoe/wire.h"
#include "tests/lib/frames.h"

#define TALKS	8
#define TURNS	12
#define MESSAGE	1024	/* bytes; two of them are a turn */
#define WARM	30	/* repeats of a new body, at most */
#define PAUSE_US	2000
#define SAMPLES	(TALKS * TURNS)

struct talk {
	char *p;
	size_t n;
	struct rng rng;
};

struct client {
	int fd;
	struct spop_wr w;
	uint64_t sent;
	double decision_us;	/* of the last ACK; -1: it had none */
	const char *model;
	struct talk talk[TALKS];
};

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void fail(const char *what)
{
	fprintf(stderr, "spop_turn: %s\n", what);
	exit(1);
}

/* ---- bodies ---- */

static void add_message(struct talk *t, const char *role)
{
	static const char *const words[] = {
		"server ", "prompt ", "the ", "of ", "cache ", "turn ", "and ", "waits ", "first ",
		"token ", "a ", "returns ", "if\\n", "more "
	};
	size_t end;

	t->n += (size_t)sprintf(t->p + t->n, "%s{\"role\":\"%s\",\"content\":\"",
				t->p[t->n - 1] == '[' ? "" : ",", role);
	for (end = t->n + MESSAGE - 60; t->n < end; )
		t->n += (size_t)sprintf(t->p + t->n, "%s", words[rng_below(&t->rng, 14)]);
	t->n += (size_t)sprintf(t->p + t->n, "\"}");
}

static void start_talk(struct talk *t, size_t n, uint64_t seed)
{
	if ((t->p = malloc(n + (TURNS + 8) * 2 * MESSAGE)) == NULL)
		fail("no memory");
	rng_init(&t->rng, seed);
	t->n = (size_t)sprintf(t->p, "{\"messages\":[");
	add_message(t, "system");
	add_message(t, "user");
	while (t->n < n) {
		add_message(t, "assistant");
		add_message(t, "user");
	}
}

/* ---- frames ---- */

/* A message that the agent has no use for. */
static void put_unknown(struct spop_wr *w, const char *p, size_t n)
{
	size_t start = spop_frame_begin(w, SPOP_FRAME_NOTIFY, 3, 1);

	put_message(w, "nothing", 1);
	put_arg(w, "body", p, n, SPOP_T_BIN);
	spop_frame_end(w, start);
}

/* ---- the connection ---- */

static void get(int fd, void *to, size_t n)
{
	char *p = to;
	ssize_t got;

	for (; n > 0; p += got, n -= (size_t)got)
		if ((got = read(fd, p, n)) <= 0)
			fail("the agent closed the connection");
}

/* Return the variable <name> of an ACK; -1: it sets no such number. */
static int64_t ack_number(const uint8_t *p, size_t n, const char *name)
{
	struct spop_frame f;
	struct spop_data d;
	struct spop_str s;
	uint8_t action[3];	/* kind, number of arguments, scope */
	int64_t v;

	if (spop_frame_get(p, n, &f) < 0)
		return -1;
	while (f.payload.left > 0) {
		for (unsigned i = 0; i < 3; i++)
			if (spop_get_u8(&f.payload, &action[i]) < 0)
				return -1;
		if (action[0] != SPOP_ACTION_SET || spop_get_kv(&f.payload, &s, &d) < 0)
			return -1;
		if (spop_str_is(s, name))
			return spop_data_int(&d, &v) ? v : -1;
	}
	return -1;
}

/* Send what is written, and wait for one frame, of <*type>. Returns the time of both. */
static double exchange(struct client *c, uint8_t *type)
{
	uint8_t head[4], frame[4096];
	double t = now_us();
	size_t n;

	for (size_t at = 0; at < c->w.n; ) {
		ssize_t put = write(c->fd, c->w.p + at, c->w.n - at);

		if (put <= 0)
			fail("cannot send");
		at += (size_t)put;
	}
	get(c->fd, head, 4);
	n = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
	if (n == 0 || n > sizeof(frame))
		fail("an answer of an odd size");
	get(c->fd, frame, n);
	t = now_us() - t;
	*type = frame[0];
	c->decision_us = frame[0] == SPOP_FRAME_ACK ? (double)ack_number(frame, n, "us") : -1;
	return t;
}

static double acked(struct client *c)
{
	uint8_t type;
	double us = exchange(c, &type);

	if (c->w.full || type != SPOP_FRAME_ACK)
		fail("no ACK");
	return us;
}

static void open_client(struct client *c, uint16_t port, size_t room)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1;
	uint8_t type;

	c->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		fail("cannot connect");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if ((c->w.p = malloc(room)) == NULL)
		fail("no memory");
	c->w.cap = room;
	put_hello(&c->w, 1 << 20);
	exchange(c, &type);
	if (type != SPOP_FRAME_AGENT_HELLO)
		fail("no AGENT-HELLO");
}

static double turn(struct client *c, struct talk *t, double *decision, size_t *bytes)
{
	char uid[32];
	double us;

	*bytes = t->n + (size_t)sprintf(t->p + t->n, "],\"model\":\"%s\",\"stream\":true}", c->model);
	snprintf(uid, sizeof(uid), "u-%llu", (unsigned long long)c->sent++);
	c->w.n = 0;
	put_route(&c->w, uid, "/v1/chat/completions", t->p, *bytes);
	usleep(PAUSE_US);
	us = acked(c);
	if ((*decision = c->decision_us) < 0)
		fail("an ACK without a time");
	c->w.n = 0;
	put_done(&c->w, uid);
	acked(c);
	return us;
}

static double unknown(struct client *c, const char *p, size_t n)
{
	c->w.n = 0;
	put_unknown(&c->w, p, n);
	usleep(PAUSE_US);
	return acked(c);
}

static void warm(struct client *c, struct talk *t)
{
	size_t bytes;
	double least = 1e12, us, decision;

	for (unsigned i = 0, slower = 0; i < WARM && slower < 6; i++) {
		us = turn(c, t, &decision, &bytes);
		slower = us < 0.95 * least ? 0 : slower + 1;
		least = us < least ? us : least;
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}

static void print(const char *name, double *v, size_t n)
{
	double p50 = median(v, n);

	printf(" %s_us=%.1f %s_min_us=%.1f", name, p50, name, v[0]);
}

int main(int argc, char **argv)
{
	static double us[SAMPLES], decision[SAMPLES], transport[SAMPLES], hash[SAMPLES];
	static struct client c;
	static struct hash_key key = { .secret = { 1 } };
	size_t n = 0, bytes = 0, size = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	volatile uint64_t sink = 0;
	double t;

	if (size < 16000 || size > 900000)	/* the turns are 12 KB of it */
		fail("usage: spop_turn PORT MODEL BYTES");
	c.model = argv[2];
	open_client(&c, (uint16_t)atoi(argv[1]), size + 65536);
	for (unsigned i = 0; i < TALKS; i++) {
		start_talk(&c.talk[i], size - TURNS * MESSAGE, i + 1);
		warm(&c, &c.talk[i]);
	}
	for (unsigned r = 0; r < TURNS; r++) {
		for (unsigned i = 0; i < TALKS; i++, n++) {
			struct talk *talk = &c.talk[i];

			add_message(talk, "assistant");
			add_message(talk, "user");
			us[n] = turn(&c, talk, &decision[n], &bytes);
			transport[n] = unknown(&c, talk->p, bytes);
			t = now_us();
			sink = sink + hash128_best()(&key, talk->p, bytes).lo;
			hash[n] = now_us() - t;
		}
	}
	printf("bench turn_socket mode=%s body_bytes=%zu", c.model, bytes);
	print("turn", us, n);
	print("transport", transport, n);
	print("decision", decision, n);
	print("xxh3", hash, n);
	printf(" n=%zu\n", n);
	return 0;
}
