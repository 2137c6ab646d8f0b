/* http_flood CONNECTIONS REQUESTS BYTES SEED PORT [RUN] - send chat requests to a port of 127.0.0.1
 * in a closed loop: each keep-alive connection sends its next request when it has the answer.
 *
 * Bodies have about BYTES: 64 conversations over 8 system prompts (a quarter of the body) with a
 * history (a half) and a last turn that is new in each request. SEED makes the conversations again.
 * With another RUN they go on: the same conversations in another order, with other last turns. Run
 * 0 begins with one request of each. Prints requests=N failed=N seconds=T. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/tools/lib/words.h"

#define TALKS	64u
#define SYSTEMS	8u
#define ANSWER	65536u

struct talk {
	char *text;		/* head and body */
	size_t n, serial;	/* <serial>: where 16 digits differ in each request */
};

struct conn {
	int fd;
	char *out, in[ANSWER];
	size_t n_out, sent, n_in;
	bool writes;		/* epoll watches for room */
};

struct flood {
	int ep, port;
	struct talk talks[TALKS];
	uint64_t random;
	unsigned long run, started, answered, failed, wanted;
};

static void make_talk(struct talk *t, size_t bytes, uint64_t seed, unsigned number)
{
	size_t turn = bytes / 2 / 8 < 256 ? bytes / 4 : bytes / 16, n, head;
	char *body = malloc(bytes + 4096);

	n = (size_t)sprintf(body, "{\"model\":\"stub\",\"max_tokens\":8,\"messages\":[");
	n += words_put_turn(body + n, "system", bytes / 4, seed * 1000 + number % SYSTEMS);
	for (size_t at = 0; at + turn <= bytes / 2; at += turn)
		n += words_put_turn(body + n, at / turn % 2 ? "assistant" : "user", turn,
			      seed * 1000 + 100 + number * 16 + at / turn);
	n += (size_t)sprintf(body + n, ",{\"role\":\"user\",\"content\":\"");
	t->text = malloc(n + bytes + 4096);
	t->serial = n;
	n += (size_t)sprintf(body + n, "0000000000000000 ");
	n += words_put(body + n, bytes > n + 80 ? bytes - n - 4 : 64, seed * 1000 + 5000 + number);
	n += (size_t)sprintf(body + n, "\"}]}");
	head = words_put_head(t->text, n);
	memcpy(t->text + head, body, n);
	t->n = head + n;
	t->serial += head;
	free(body);
}

static void watch(struct flood *f, struct conn *c, int op, bool writes)
{
	struct epoll_event ev = { .events = EPOLLIN | (writes ? EPOLLOUT : 0), .data.ptr = c };

	c->writes = writes;
	epoll_ctl(f->ep, op, c->fd, &ev);
}

static void dial(struct flood *f, struct conn *c)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)f->port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1;

	c->fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(c->fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		perror("connect");
		exit(1);
	}
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	watch(f, c, EPOLL_CTL_ADD, false);
}

/* Returns false if the connection broke. */
static bool conn_write(struct flood *f, struct conn *c)
{
	ssize_t n = send(c->fd, c->out + c->sent, c->n_out - c->sent, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN)
		return false;
	c->sent += n > 0 ? (size_t)n : 0;
	if (c->writes != (c->sent < c->n_out))
		watch(f, c, EPOLL_CTL_MOD, c->sent < c->n_out);
	return true;
}

static bool conn_start(struct flood *f, struct conn *c)
{
	bool first = f->run == 0 && f->started < TALKS;
	const struct talk *t =
	    &f->talks[first ? f->started : words_random(&f->random) % TALKS];
	char serial[32];

	if (f->started == f->wanted)
		return true;
	memcpy(c->out, t->text, t->n);
	snprintf(serial, sizeof(serial), "%016llx", (unsigned long long)words_random(&f->random));
	memcpy(c->out + t->serial, serial, 16);
	c->n_out = t->n;
	c->sent = c->n_in = 0;
	f->started++;
	return conn_write(f, c);
}

/* Returns false if the connection broke, or the answer is no 200. */
static bool conn_read(struct flood *f, struct conn *c)
{
	ssize_t got = read(c->fd, c->in + c->n_in, ANSWER - 1 - c->n_in);
	const char *end, *length;

	if (got <= 0)
		return got < 0 && errno == EAGAIN;
	c->n_in += (size_t)got;
	c->in[c->n_in] = '\0';
	if ((end = strstr(c->in, "\r\n\r\n")) == NULL)
		return true;
	length = strcasestr(c->in, "content-length:");
	if (length == NULL || c->n_in < (size_t)(end + 4 - c->in) + strtoul(length + 15, NULL, 10))
		return length != NULL;
	if (strncmp(c->in + 9, "200", 3) != 0)
		return false;
	f->answered++;
	return conn_start(f, c);
}

static void conn_again(struct flood *f, struct conn *c)
{
	f->failed++;
	close(c->fd);
	dial(f, c);
	conn_start(f, c);
}

static void run(struct flood *f, unsigned n_conns, size_t bytes)
{
	struct epoll_event got[128];

	for (unsigned i = 0; i < n_conns; i++) {
		struct conn *c = calloc(1, sizeof(*c));

		c->out = malloc(2 * bytes + 8192);
		dial(f, c);
		if (!conn_start(f, c))
			conn_again(f, c);
	}
	while (f->answered + f->failed < f->wanted) {
		int n = epoll_wait(f->ep, got, 128, -1);

		for (int i = 0; i < n; i++) {
			struct conn *c = got[i].data.ptr;
			bool good = true;

			if ((got[i].events & EPOLLOUT) && c->sent < c->n_out)
				good = conn_write(f, c);
			if (good && (got[i].events & ~(uint32_t)EPOLLOUT))
				good = conn_read(f, c);
			if (!good)
				conn_again(f, c);
		}
	}
}

int main(int argc, char **argv)
{
	struct flood f = { .ep = epoll_create1(0) };
	struct timespec from, to;
	size_t bytes;

	if (argc != 6 && argc != 7) {
		fprintf(stderr, "http_flood CONNECTIONS REQUESTS BYTES SEED PORT [RUN]\n");
		return 2;
	}
	f.wanted = strtoul(argv[2], NULL, 10);
	bytes = strtoul(argv[3], NULL, 10);
	f.run = argc > 6 ? strtoul(argv[6], NULL, 10) : 0;
	f.random = 88172645463325252u + strtoul(argv[4], NULL, 10) * 7919 + f.run * 104729;
	f.port = atoi(argv[5]);
	for (unsigned k = 0; k < TALKS; k++)
		make_talk(&f.talks[k], bytes, strtoul(argv[4], NULL, 10), k);
	clock_gettime(CLOCK_MONOTONIC, &from);
	run(&f, (unsigned)atoi(argv[1]), bytes);
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("requests=%lu failed=%lu seconds=%.3f\n", f.answered, f.failed,
	       (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
	return 0;
}
