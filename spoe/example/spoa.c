/* spoa.c PORT - a whole SPOE agent in 100 lines, on the SPOP library of ../spop.h.
 *
 * HAProxy sends the message "check" with the argument "path"; the agent answers with two variables:
 * "length", and "verdict", which is "long" for a path of more than 32 bytes. haproxy.cfg and
 * example.spoe are HAProxy's side. Build it with:
 *
 *      cc -O2 -o spoa spoa.c $(pkg-config --cflags --libs kvroute-spoe) */
#include <netinet/in.h>
#include <poll.h>
#include <spop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNS	256

static struct conn {
	struct spop_conn spop;
	uint8_t *in;		/* grows to the largest frame, at most 1 MiB */
	size_t n, cap;
} conn[CONNS];		/* conn[i] belongs to fd[i] */
static struct pollfd fd[CONNS + 1];	/* the last one is the listener */
static unsigned n_conns;

static void answer(struct conn *c, struct spop_event *ev, struct spop_wr *out)
{
	struct spop_message m;
	struct spop_str name, path = { "", 0 };
	struct spop_data d;
	struct spop_ack a;

	while (spop_message_next(&ev->messages, &m) > 0)
		while (spop_arg_next(&m, &name, &d) > 0)
			if (name.n == 4 && memcmp(name.p, "path", 4) == 0)
				spop_data_str(&d, &path);	/* not if it is no string */
	spop_ack_begin(&a, &c->spop, out, ev->stream_id, ev->frame_id);
	spop_ack_set_int(&a, SPOP_SCOPE_TXN, "length", (int64_t)path.n);
	spop_ack_set_str(&a, SPOP_SCOPE_TXN, "verdict", path.n > 32 ? "long" : "good", 4);
	spop_ack_end(&a);
}

/* Read once and answer each whole frame. Returns 0 at the end of the connection. */
static int work(struct conn *c, int s)
{
	uint8_t reply[512];	/* holds any frame of the library, and the answer above */
	ssize_t used, got;
	struct spop_event ev;
	size_t want = spop_conn_want(&c->spop, c->in, c->n);

	if (want > c->cap && (c->in = realloc(c->in, c->cap = want)) == NULL)
		return perror("spoa"), exit(1), 0;
	if ((got = read(s, c->in + c->n, c->cap - c->n)) <= 0)
		return 0;
	c->n += (size_t)got;
	for (;;) {
		struct spop_wr out = { reply, 0, sizeof(reply), false };

		if ((used = spop_conn_next(&c->spop, c->in, c->n, &out, &ev)) == 0)
			return c->spop.state != SPOP_CONN_CLOSED;
		if (ev.kind == SPOP_EV_NOTIFY)
			answer(c, &ev, &out);
		if (out.n > 0 && write(s, reply, out.n) != (ssize_t)out.n)
			return 0;
		memmove(c->in, c->in + used, c->n -= (size_t)used);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(argc > 1 ? (uint16_t)atoi(argv[1]) : 12345) };
	struct spop_conn_opts o;
	int on = 1, s, l = socket(AF_INET, SOCK_STREAM, 0);

	spop_conn_defaults(&o);
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(l, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(l, 64) != 0)
		return perror("spoa"), 1;
	for (;;) {
		fd[n_conns] = (struct pollfd){ .fd = l, .events = POLLIN };
		if (poll(fd, n_conns + (n_conns < CONNS), -1) < 0)
			continue;
		if (n_conns < CONNS && fd[n_conns].revents && (s = accept(l, NULL, NULL)) >= 0) {
			fd[n_conns] = (struct pollfd){ .fd = s, .events = POLLIN };
			spop_conn_init(&conn[n_conns].spop, &o);
			conn[n_conns].in = NULL;
			conn[n_conns].n = conn[n_conns].cap = 0;
			n_conns++;
		}
		for (unsigned i = n_conns; i-- > 0;)
			if (fd[i].revents && !work(&conn[i], fd[i].fd)) {
				close(fd[i].fd);
				spop_conn_fini(&conn[i].spop);
				free(conn[i].in);
				conn[i] = conn[--n_conns];	/* the last one takes its place */
				fd[i] = fd[n_conns];
			}
	}
}
