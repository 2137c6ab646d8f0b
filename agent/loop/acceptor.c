/* Accepts connections without spinning and without one loop taking all of them.
 *
 * A listener is level-triggered in the epoll of each loop that shares it. So every loop wakes for a
 * new connection, and the first one gets it. A loop accepts only a few connections per wake. A loop
 * that has more connections than another yields once, for a millisecond, before it accepts. If
 * descriptors run out, the connection stays in the kernel's queue and would wake the loops all the
 * time, so the watcher pauses for 100 ms. */
#include <errno.h>
#include <unistd.h>

#include "agent/loop/acceptor_in.h"
#include "agent/base/count.h"

static void pause_accepting(struct acceptor *a, double seconds)
{
	ev_io_stop(a->loop, &a->io);
	ev_timer_stop(a->loop, &a->pause);
	ev_timer_set(&a->pause, seconds, 0.);
	ev_timer_start(a->loop, &a->pause);
}

static void on_pause(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct acceptor *a = t->data;

	ev_io_start(loop, &a->io);
}

/* Returns true if accept() may be tried again at once after <err>. */
static bool is_transient(int err)
{
	return err == EINTR || err == ECONNABORTED || err == EPROTO;
}

static void accept_failed(struct acceptor *a, int err)
{
	struct log_line ln;

	count_add(a->errors, 1);
	if (log_begin(&ln, a->log, LOG_ERROR, LOG_ACCEPT, "cannot accept a connection")) {
		log_text(&ln, "listener", a->name);
		log_text(&ln, "error", strerror(err));
		log_text(&ln, "effect", "new connections wait; the next attempt is in 100 ms");
		log_end(&ln);
	}
	pause_accepting(a, ACCEPT_PAUSE_S);
}

static void on_acceptor_ready(struct ev_loop *loop, ev_io *io, int revents)
{
	struct acceptor *a = io->data;
	union sockaddr_any peer;
	socklen_t len;
	int i, fd;

	if (a->crowded != NULL && !a->yielded && a->crowded(a->arg)) {
		a->yielded = true;
		pause_accepting(a, ACCEPT_YIELD_S);
		return;
	}
	a->yielded = false;
	for (i = 0; i < ACCEPT_FEW; i++) {
		len = sizeof(peer);
		memset(&peer, 0, sizeof(peer));
		fd = accept4(io->fd, &peer.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0)
			a->accepted(a->arg, fd, &peer);
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			return;
		else if (!is_transient(errno)) {
			accept_failed(a, errno);
			return;
		}
	}
}

void acceptor_start(struct acceptor *a, struct ev_loop *loop, const struct listener *l)
{
	a->loop = loop;
	ev_io_init(&a->io, on_acceptor_ready, l->fd, EV_READ);
	a->io.data = a;
	ev_timer_init(&a->pause, on_pause, 0., 0.);
	a->pause.data = a;
	ev_io_start(loop, &a->io);
}

void acceptor_stop(struct acceptor *a)
{
	if (a->loop == NULL)
		return;
	ev_io_stop(a->loop, &a->io);
	ev_timer_stop(a->loop, &a->pause);
	a->loop = NULL;
}
