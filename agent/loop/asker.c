#include <errno.h>
#include <unistd.h>

#include "agent/loop/asker.h"
#include "agent/os/clock.h"

#define READ_MAX	16384	/* one read a wake: log feeds and scrapes share the thread */
#define HOLDS		3

static void ask(struct asker *k);

static void watch(struct asker *k, int events)
{
	ev_io_stop(k->loop, &k->io);
	ev_io_set(&k->io, k->io.fd, events);
	ev_io_start(k->loop, &k->io);
}

static void hang_up(struct asker *k)
{
	if (k->io.fd < 0)
		return;
	ev_io_stop(k->loop, &k->io);
	close(k->io.fd);
	k->io.fd = -1;
}

static void wake_after(struct asker *k, msec ms)
{
	ev_timer_stop(k->loop, &k->timer);
	ev_timer_set(&k->timer, (double)ms / 1000, 0.);
	ev_timer_start(k->loop, &k->timer);
}

/* ---- the end of a question -------------------------------------------------------------------------- */

static msec pause_of(const struct asker *k)
{
	msec ms = k->interval_ms;

	if (k->failures == 0)
		return k->took < ms / 2 ? ms - k->took : ms / 2;
	for (unsigned i = 1; i < k->failures && ms < ASKER_PATIENCE_MS; i++)
		ms *= 2;
	return ms < ASKER_PATIENCE_MS ? ms : ASKER_PATIENCE_MS;
}

static void end(struct asker *k, const char *error, bool keep)
{
	if (!keep)
		hang_up(k);
	k->at = ASKER_IDLE;
	k->failures = error == NULL ? 0 : k->failures + 1;
	if (error == NULL)
		k->took = clock_msec() - k->began;
	if (keep)
		watch(k, EV_READ);
	wake_after(k, pause_of(k));
	k->over(k->arg, error);
}

/* The peer may have closed what was kept just as we asked. */
static void lost(struct asker *k, const char *error)
{
	if (!k->reused || k->heard) {
		end(k, error, false);
		return;
	}
	hang_up(k);
	ask(k);
}

static void judge(struct asker *k, enum asker_says says)
{
	if (says == ASKER_MORE)
		return;
	k->reused = true;
	end(k, says == ASKER_BAD ? "" : NULL, says == ASKER_KEEP);
}

/* ---- its way ------------------------------------------------------------------------------------------ */

static void read_answer(struct asker *k)
{
	char buf[READ_MAX];
	ssize_t n = recv(k->io.fd, buf, sizeof(buf), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0 || (n == 0 && !k->heard)) {
		lost(k, n < 0 ? strerror(errno) : "closed without an answer");
		return;
	}
	k->heard = true;
	judge(k, k->take(k->arg, buf, (size_t)n));
}

static void send_question(struct asker *k)
{
	ssize_t n = send(k->io.fd, k->question.p + k->sent, k->question.n - k->sent, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		lost(k, strerror(errno));	/* what connect() has to say comes here, too */
		return;
	}
	if (n > 0)
		k->sent += (size_t)n;
	k->at = k->sent < k->question.n ? ASKER_SENDING : ASKER_READING;
	watch(k, k->at == ASKER_READING ? EV_READ : EV_WRITE);
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct asker *k = io->data;

	switch (k->at) {
	case ASKER_IDLE:	/* it was kept, and is closed; or somebody talks who was not asked */
		hang_up(k);
		break;
	case ASKER_CONNECTING:
	case ASKER_SENDING:
		send_question(k);
		break;
	case ASKER_READING:
		read_answer(k);
		break;
	}
}

static void call(struct asker *k)
{
	int fd = socket(k->to.a.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		end(k, strerror(errno), false);
		return;
	}
	k->reused = false;
	ev_io_set(&k->io, fd, EV_WRITE);
	if (connect(fd, &k->to.a.sa, k->to.len) == 0) {
		send_question(k);
	} else if (errno == EINPROGRESS) {
		k->at = ASKER_CONNECTING;
		watch(k, EV_WRITE);
	} else {
		end(k, strerror(errno), false);
	}
}

static void ask(struct asker *k)
{
	k->sent = 0;
	k->heard = false;
	k->begin(k->arg);
	if (k->io.fd >= 0)
		send_question(k);
	else
		call(k);
}

static void on_timer(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct asker *k = t->data;

	if (k->at != ASKER_IDLE) {
		end(k, "no answer in time", false);
		return;
	}
	k->began = clock_msec();
	wake_after(k, k->timeout_ms);
	ask(k);
}

msec asker_holds_ms(const struct asker *k)
{
	msec taken = clock_msec() - k->began;

	return HOLDS * (taken > k->interval_ms ? taken : k->interval_ms);
}

void asker_start(struct asker *k, msec after)
{
	ev_io_init(&k->io, on_io, -1, EV_READ);
	k->io.data = k;
	ev_timer_init(&k->timer, on_timer, 0., 0.);
	k->timer.data = k;
	k->at = ASKER_IDLE;
	wake_after(k, after);
}

void asker_stop(struct asker *k)
{
	hang_up(k);
	ev_timer_stop(k->loop, &k->timer);
}
