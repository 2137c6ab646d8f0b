/* http_pace [-m] ROUNDS PER_ROUND BYTES PORT... - send the same requests to several ports of
 * 127.0.0.1 in turn.
 *
 * One keep-alive connection for each port, one request at a time: the turns of 8 conversations,
 * which grow from 3/4 to 5/4 of BYTES in 9 turns and are then replaced by new ones; -m: one message
 * of BYTES, which differs each time. Rounds alternate between ports, so that other load affects
 * all; the first round is not counted if there are several. Prints one line for each port:
 *
 *     port=N p50_us=T p90_us=T best_round_p50_us=T failed=N */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/tools/lib/words.h"

#define TALKS	8u
#define TURNS	9u
#define SYSTEMS	4u

struct port {
	int number, fd;
	double *us;		/* of all requests that ended well */
	size_t n;
	unsigned failed;
	double best;		/* p50 of the fastest round */
};

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(double *v, size_t n, double q)
{
	if (n == 0)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return v[(size_t)((double)(n - 1) * q)];
}

static int dial(int port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		perror("connect");
		exit(1);
	}
	return fd;
}

/* Write request <number> of the shape that no agent can know: one message, which differs from that
 * of every other request in its second half. Returns the number of bytes. */
static size_t make_message(char *out, size_t bytes, unsigned number)
{
	char *body = malloc(bytes + 512);
	size_t n, k;

	n = (size_t)sprintf(body,
	    "{\"model\":\"stub\",\"max_tokens\":1,\"messages\":[{\"role\":\"system\",\"content\":\"");
	for (k = 0; n < bytes; k++)
		n += (size_t)sprintf(body + n, "word%zu ", k < bytes / 16 ? k % 97 : (k * 31 + number) % 997);
	n += (size_t)sprintf(body + n, "\"}]}");
	k = words_put_head(out, n);
	memcpy(out + k, body, n);
	free(body);
	return k + n;
}

/* The body of the last turn of a conversation; earlier turns are beginnings of it. */
struct talk {
	char *body;
	size_t end[TURNS];	/* of the messages of each turn */
};

/* Make conversation <number>: a system prompt (a quarter of <bytes>) that every fourth has, a first
 * question (a half), then an answer and a question (an eighth) for each further turn. */
static void talk_make(struct talk *t, size_t bytes, unsigned number)
{
	uint64_t seed = 1000 + (uint64_t)number * 100;
	size_t n;

	if (t->body == NULL)
		t->body = malloc(2 * bytes + 4096);
	n = (size_t)sprintf(t->body, "{\"model\":\"stub\",\"max_tokens\":1,\"messages\":[");
	n += words_put_turn(t->body + n, "system", bytes / 4, number % SYSTEMS);
	n += words_put_turn(t->body + n, "user", bytes / 2, seed);
	t->end[0] = n;
	for (unsigned k = 1; k < TURNS; k++) {
		n += words_put_turn(t->body + n, "assistant", bytes / 32, seed + 2 * k);
		n += words_put_turn(t->body + n, "user", bytes / 32, seed + 2 * k + 1);
		t->end[k] = n;
	}
}

/* Write request <number> of TALKS conversations in turn, each TURNS turns long. Their bodies grow
 * from 3/4 to 5/4 of <bytes>. Returns the number of bytes. */
static size_t make_turn(char *out, size_t bytes, unsigned number)
{
	static struct talk talks[TALKS];
	static unsigned made[TALKS];	/* the conversation there, counted from 1 */
	unsigned i = number % TALKS, turn = number / TALKS % TURNS;
	unsigned which = number / (TALKS * TURNS) * TALKS + i + 1;
	size_t n, head;

	if (made[i] != which)
		talk_make(&talks[i], bytes, which);
	made[i] = which;
	n = talks[i].end[turn];
	head = words_put_head(out, n + 2);
	memcpy(out + head, talks[i].body, n);
	memcpy(out + head + n, "]}", 2);
	return head + n + 2;
}

/* Read one answer with a content-length; its status, or -1. */
static int read_answer(int fd)
{
	static char in[65536];
	size_t n = 0, want = 0;
	char *end, *length;
	ssize_t got;

	for (;;) {
		if ((got = read(fd, in + n, sizeof(in) - 1 - n)) <= 0)
			return -1;
		n += (size_t)got;
		in[n] = '\0';
		if (want == 0 && (end = strstr(in, "\r\n\r\n")) != NULL) {
			length = strcasestr(in, "content-length:");
			want = (size_t)(end + 4 - in) + (length ? strtoul(length + 15, NULL, 10) : 0);
		}
		if (want > 0 && n >= want)
			return atoi(in + 9);
	}
}

static void ask(struct port *p, const char *request, size_t n)
{
	double start = now_us();

	if (write(p->fd, request, n) == (ssize_t)n && read_answer(p->fd) == 200) {
		p->us[p->n++] = now_us() - start;
		return;
	}
	p->failed++;
	close(p->fd);
	p->fd = dial(p->number);
}

/* Send the requests of round <r> to <p>. */
static void pace(struct port *p, unsigned r, unsigned per_round, size_t bytes, bool one_message)
{
	static char *request;
	size_t from = p->n, n;
	double p50;

	if (request == NULL)
		request = malloc(2 * bytes + 8192);
	for (unsigned k = 0; k < per_round; k++) {
		n = (one_message ? make_message : make_turn)(request, bytes, r * per_round + k);
		ask(p, request, n);
	}
	p50 = quantile(p->us + from, p->n - from, 0.5);
	if (p->best == 0 || p50 < p->best)
		p->best = p50;
}

int main(int argc, char **argv)
{
	bool one_message = argc > 1 && strcmp(argv[1], "-m") == 0;
	unsigned rounds, per_round, n_ports, i;
	struct port *ports;
	size_t bytes, n;

	argc -= one_message;
	argv += one_message;
	if (argc < 5) {
		fprintf(stderr, "http_pace [-m] ROUNDS PER_ROUND BYTES PORT...\n");
		return 2;
	}
	n_ports = (unsigned)argc - 4;
	rounds = (unsigned)atoi(argv[1]);
	per_round = (unsigned)atoi(argv[2]);
	bytes = (size_t)atol(argv[3]);
	ports = calloc(n_ports, sizeof(*ports));
	for (i = 0; i < n_ports; i++) {
		ports[i].number = atoi(argv[4 + i]);
		ports[i].fd = dial(ports[i].number);
		ports[i].us = calloc((size_t)rounds * per_round + 1, sizeof(double));
	}
	for (unsigned r = 0; r < rounds; r++) {
		for (i = 0; i < n_ports; i++) {
			if (r == 1)		/* the first round was not warm */
				ports[i].n = 0, ports[i].best = 0;
			pace(&ports[i], r, per_round, bytes, one_message);
		}
	}
	for (i = 0; i < n_ports; i++) {
		n = ports[i].n;
		printf("port=%d p50_us=%.1f p90_us=%.1f best_round_p50_us=%.1f failed=%u\n",
		    ports[i].number, quantile(ports[i].us, n, 0.5), quantile(ports[i].us, n, 0.9),
		    ports[i].best, ports[i].failed);
	}
	return 0;
}
