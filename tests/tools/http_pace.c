/* http_pace ROUNDS PER_ROUND BYTES PORT... - send the same requests to several ports of 127.0.0.1
 * in turn.
 *
 * One keep-alive connection for each port, one request at a time: chat bodies of about BYTES, each
 * with its own words in the middle. Rounds alternate between ports, so that other load affects all.
 * Prints one line for each port: port=N p50_us=T p90_us=T best_round_p50_us=T failed=N. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

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

/* Head and body in one run of bytes; returns how many. */
static size_t make_request(char *out, size_t bytes, unsigned number)
{
	char *body = malloc(bytes + 512);
	size_t n, k;

	n = (size_t)sprintf(body,
	    "{\"model\":\"stub\",\"max_tokens\":1,\"messages\":[{\"role\":\"system\",\"content\":\"");
	for (k = 0; n < bytes; k++)
		n += (size_t)sprintf(body + n, "word%zu ", k < bytes / 16 ? k % 97 : (k * 31 + number) % 997);
	n += (size_t)sprintf(body + n, "\"}]}");
	k = (size_t)sprintf(out,
	    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
	    "content-length: %zu\r\n\r\n",
	    n);
	memcpy(out + k, body, n);
	free(body);
	return k + n;
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

int main(int argc, char **argv)
{
	unsigned rounds, per_round, n_ports = argc > 4 ? (unsigned)argc - 4 : 0, r, i, k;
	size_t bytes, n, from;
	struct port *ports;
	char *request;
	double p50;

	if (n_ports == 0) {
		fprintf(stderr, "http_pace ROUNDS PER_ROUND BYTES PORT...\n");
		return 2;
	}
	rounds = (unsigned)atoi(argv[1]);
	per_round = (unsigned)atoi(argv[2]);
	bytes = (size_t)atol(argv[3]);
	request = malloc(bytes + 4096);
	ports = calloc(n_ports, sizeof(*ports));
	for (i = 0; i < n_ports; i++) {
		ports[i].number = atoi(argv[4 + i]);
		ports[i].fd = dial(ports[i].number);
		ports[i].us = calloc((size_t)rounds * per_round + 1, sizeof(double));
	}
	for (r = 0; r < rounds; r++) {
		for (i = 0; i < n_ports; i++) {
			from = ports[i].n;
			for (k = 0; k < per_round; k++) {
				n = make_request(request, bytes, r * per_round + k);
				ask(&ports[i], request, n);
			}
			p50 = quantile(ports[i].us + from, ports[i].n - from, 0.5);
			if (r == 0 || p50 < ports[i].best)
				ports[i].best = p50;
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
