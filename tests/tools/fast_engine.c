/* fast_engine PORT... - an engine that answers each request at once, for measuring what is before
 * it.
 *
 * It listens on each port of 127.0.0.1, in one thread. It discards the body of a request, which
 * must have a content-length, and answers as a chat completion does, and a GET with its list of
 * models, which other routers ask for. It prints "ready" when it
 * listens. Its cost is a read and a send for each request, and a read for each 256 KiB of body. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_MAX	16384u
#define BLOCK		262144u

struct conn {
	int fd;
	bool listens;
	size_t n;		/* bytes of <head> */
	size_t body;		/* bytes of the body that are still to come */
	bool gets;		/* the request is a GET */
	char head[HEAD_MAX + 1];
};

static const char answer[] =
	"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 189\r\n\r\n"
	"{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":"
	"{\"role\":\"assistant\",\"content\":\"1\"}}],\"usage\":{\"prompt_tokens\":500,"
	"\"completion_tokens\":1,\"total_tokens\":501}}  \n";

static const char models[] =
	"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 78\r\n\r\n"
	"{\"object\":\"list\",\"data\":[{\"id\":\"stub\",\"object\":\"model\","
	"\"owned_by\":\"vllm\"}]}  \n";

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void conn_add(int ep, int fd, bool listens)
{
	struct conn *c = calloc(1, sizeof(*c));
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };
	int on = 1;

	if (c == NULL)
		die("fast_engine");
	c->fd = fd;
	c->listens = listens;
	if (!listens)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0)
		die("epoll_ctl");
}

static void listen_at(int ep, int port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 1024) < 0)
		die("fast_engine");
	conn_add(ep, fd, true);
}

static bool conn_answer(const struct conn *c)
{
	const char *text = c->gets ? models : answer;
	size_t n = c->gets ? sizeof(models) - 1 : sizeof(answer) - 1;

	return send(c->fd, text, n, MSG_NOSIGNAL) == (ssize_t)n;
}

/* Take <n> bytes at <p>, which end a head or belong to a body. Returns false if the connection is
 * over. */
static bool conn_take(struct conn *c, const char *p, size_t n)
{
	const char *length;
	size_t part;
	char *end;

	while (n > 0 || c->n > 0) {
		part = n < HEAD_MAX - c->n ? n : HEAD_MAX - c->n;
		memcpy(c->head + c->n, p, part);
		c->head[c->n + part] = '\0';
		if ((end = strstr(c->head, "\r\n\r\n")) == NULL) {
			c->n += part;
			return c->n < HEAD_MAX;
		}
		part = (size_t)(end + 4 - c->head) - c->n;
		p += part;
		n -= part;
		length = strcasestr(c->head, "\r\ncontent-length:");
		c->body = length != NULL && length < end ? strtoul(length + 17, NULL, 10) : 0;
		c->gets = strncmp(c->head, "GET ", 4) == 0;
		c->n = 0;
		part = n < c->body ? n : c->body;
		p += part;
		n -= part;
		c->body -= part;
		if (c->body == 0 && !conn_answer(c))
			return false;
	}
	return true;
}

/* Returns false if the connection is over. */
static bool conn_read(struct conn *c)
{
	static char block[BLOCK];
	ssize_t got = read(c->fd, block, sizeof(block));
	size_t part;

	if (got <= 0)
		return got < 0 && errno == EINTR;
	part = (size_t)got < c->body ? (size_t)got : c->body;
	c->body -= part;
	if (part > 0 && c->body == 0 && !conn_answer(c))
		return false;
	return part == (size_t)got || conn_take(c, block + part, (size_t)got - part);
}

int main(int argc, char **argv)
{
	struct epoll_event got[64];
	int ep = epoll_create1(0), n, fd;

	if (argc < 2) {
		fprintf(stderr, "fast_engine PORT...\n");
		return 2;
	}
	for (int i = 1; i < argc; i++)
		listen_at(ep, atoi(argv[i]));
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		n = epoll_wait(ep, got, 64, -1);
		for (int i = 0; i < n; i++) {
			struct conn *c = got[i].data.ptr;

			if (c->listens && (fd = accept(c->fd, NULL, NULL)) >= 0) {
				conn_add(ep, fd, false);
			} else if (!c->listens && !conn_read(c)) {
				close(c->fd);
				free(c);
			}
		}
	}
}
