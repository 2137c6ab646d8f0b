/* The states of one polled peer. A timer starts each request and limits it. The next pause starts
 * at its end, so a peer never has two requests at once. */
#include <errno.h>
#include <unistd.h>

#include "agent/loop/poll_client_in.h"
#include "agent/os/clock.h"

#define READ_MAX	16384	/* one read per wake, because log feeds and scrapes share the thread */
#define HOLDS		3

static void request_begin(struct poll_client *k);

static void watch_fd(struct poll_client *k, int events)
{
	ev_io_stop(k->loop, &k->io);
	ev_io_set(&k->io, k->io.fd, events);
	ev_io_start(k->loop, &k->io);
}

static void close_connection(struct poll_client *k)
{
	if (k->io.fd < 0)
		return;
	ev_io_stop(k->loop, &k->io);
	close(k->io.fd);
	k->io.fd = -1;
}

static void wake_after(struct poll_client *k, msec ms)
{
	ev_timer_stop(k->loop, &k->timer);
	ev_timer_set(&k->timer, (double)ms / 1000, 0.);
	ev_timer_start(k->loop, &k->timer);
}

/* ---- the end of a request --------------------------------------------------------------- */

static msec next_pause(const struct poll_client *k)
{
	msec ms = k->interval_ms;

	if (k->failures == 0)
		return k->took < ms / 2 ? ms - k->took : ms / 2;
	for (unsigned i = 1; i < k->failures && ms < POLL_CLIENT_PATIENCE_MS; i++)
		ms *= 2;
	return ms < POLL_CLIENT_PATIENCE_MS ? ms : POLL_CLIENT_PATIENCE_MS;
}

static void request_end(struct poll_client *k, const char *error, bool keep)
{
	if (!keep)
		close_connection(k);
	k->at = POLL_CLIENT_IDLE;
	k->failures = error == NULL ? 0 : k->failures + 1;
	if (error == NULL)
		k->took = clock_msec() - k->began;
	if (keep)
		watch_fd(k, EV_READ);
	wake_after(k, next_pause(k));
	k->ended(k->arg, error);
}

/* Handle a lost connection. A kept connection that the peer closed before it sent anything is tried
 * once more, on a new one. */
static void connection_lost(struct poll_client *k, const char *error)
{
	if (!k->reused || k->got_bytes) {
		request_end(k, error, false);
		return;
	}
	close_connection(k);
	request_begin(k);
}

static void handle_reply(struct poll_client *k, enum poll_client_reply says)
{
	if (says == POLL_CLIENT_MORE)
		return;
	k->reused = true;
	request_end(k, says == POLL_CLIENT_BAD ? "" : NULL, says == POLL_CLIENT_KEEP);
}

/* ---- the steps of a request ------------------------------------------------------------- */

static void read_answer(struct poll_client *k)
{
	char buf[READ_MAX];
	ssize_t n = recv(k->io.fd, buf, sizeof(buf), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0 || (n == 0 && !k->got_bytes)) {
		connection_lost(k, n < 0 ? strerror(errno) : "closed without an answer");
		return;
	}
	k->got_bytes = true;
	handle_reply(k, k->feed(k->arg, buf, (size_t)n));
}

static void send_request(struct poll_client *k)
{
	ssize_t n = send(k->io.fd, k->request.p + k->sent, k->request.n - k->sent, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		connection_lost(k, strerror(errno));	/* errors of connect() arrive here as well */
		return;
	}
	if (n > 0)
		k->sent += (size_t)n;
	k->at = k->sent < k->request.n ? POLL_CLIENT_SENDING : POLL_CLIENT_READING;
	watch_fd(k, k->at == POLL_CLIENT_READING ? EV_READ : EV_WRITE);
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct poll_client *k = io->data;

	switch (k->at) {
	case POLL_CLIENT_IDLE:	/* a kept connection was closed, or sent bytes without a request */
		close_connection(k);
		break;
	case POLL_CLIENT_CONNECTING:
	case POLL_CLIENT_SENDING:
		send_request(k);
		break;
	case POLL_CLIENT_READING:
		read_answer(k);
		break;
	}
}

static void connect_peer(struct poll_client *k)
{
	int fd = socket(k->to.a.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		request_end(k, strerror(errno), false);
		return;
	}
	k->reused = false;
	ev_io_set(&k->io, fd, EV_WRITE);
	if (connect(fd, &k->to.a.sa, k->to.len) == 0) {
		send_request(k);
	} else if (errno == EINPROGRESS) {
		k->at = POLL_CLIENT_CONNECTING;
		watch_fd(k, EV_WRITE);
	} else {
		request_end(k, strerror(errno), false);
	}
}

static void request_begin(struct poll_client *k)
{
	k->sent = 0;
	k->got_bytes = false;
	k->begin(k->arg);
	if (k->io.fd >= 0)
		send_request(k);
	else
		connect_peer(k);
}

static void on_timer(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct poll_client *k = t->data;

	if (k->at != POLL_CLIENT_IDLE) {
		request_end(k, "no answer in time", false);
		return;
	}
	k->began = clock_msec();
	wake_after(k, k->timeout_ms);
	request_begin(k);
}

msec poll_client_holds_ms(const struct poll_client *k)
{
	msec taken = clock_msec() - k->began;

	return HOLDS * (taken > k->interval_ms ? taken : k->interval_ms);
}

void poll_client_start(struct poll_client *k, msec after)
{
	ev_io_init(&k->io, on_io, -1, EV_READ);
	k->io.data = k;
	ev_timer_init(&k->timer, on_timer, 0., 0.);
	k->timer.data = k;
	k->at = POLL_CLIENT_IDLE;
	wake_after(k, after);
}

void poll_client_stop(struct poll_client *k)
{
	close_connection(k);
	ev_timer_stop(k->loop, &k->timer);
}
