/* The end of SPOP connections: by the agent, by a timeout, or in a drain.
 *
 * The last bytes are sent, and then the sending side is shut down. Input is discarded until the
 * peer closes, for at most a second. close() with unread input would send a reset, and then the
 * peer would lose the answer that it has not read yet.
 *
 * Timeouts: each phase has a list ordered by the time of the last frame, so a sweep only looks at
 * its head, and no connection has a timer. Single bytes are not frames: a peer that sends one byte
 * per second is idle. */
#include <errno.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/loop/sock_conn_in.h"

#define LINGER_MS	1000

void sock_free(struct sock *s, uint64_t *reason)
{
	struct worker *w = s->w;

	if (reason != NULL)
		count_add(reason, 1);
	count_add(&w->socks_count.open, (uint64_t)-1);
	__atomic_fetch_sub(&w->agent->n_conns, 1, __ATOMIC_RELAXED);
	ev_io_stop(w->loop, &s->io);
	close(s->io.fd);
	list_remove(&s->link);
	list_remove(&s->ready);
	serve_fini(&s->serve);		/* before <in>: it may finish a decision */
	sock_return_in(s);
	conn_buf_return(&s->out, &w->spare_out, &w->agent->budget);
	mem_free(s);
}

void sock_no_memory(struct sock *s)
{
	log_msg(&s->w->agent->log, LOG_ERROR, LOG_MEMORY,
		"not enough memory for a SPOP connection; it was closed");
	sock_free(s, &s->w->socks_count.closed_memory);
}

void sock_linger(struct sock *s)
{
	shutdown(s->io.fd, SHUT_WR);
	list_remove(&s->ready);
	sock_return_in(s);
	sock_set_phase(s, SOCK_LINGER);
	sock_watch(s, EV_READ);
}

bool sock_linger_read(struct sock *s)
{
	uint8_t waste[4096];
	ssize_t n = recv(s->io.fd, waste, sizeof(waste), 0);

	if (n > 0)
		mem_wipe(waste, (size_t)n);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void end_hello(struct sock *s)
{
	struct log_line ln;

	if (sock_log_begin(&ln, s, LOG_WARN, LOG_TIMEOUT,
		"no HELLO within spop.hello_timeout; connection closed"))
		log_end(&ln);
	sock_free(s, &s->w->socks_count.closed_hello);
}

static void end_idle(struct sock *s)
{
	struct worker *w = s->w;

	count_add(&w->socks_count.closed_idle, 1);
	if (s->out.n > s->sent ||
	    !conn_buf_borrow(&s->out, &w->spare_out, SOCK_OUT_BYTES, &w->agent->budget)) {
		sock_free(s, NULL);	/* the peer does not read, so a further answer is useless */
		return;
	}
	sock_say_goodbye(s, SPOP_STATUS_TIMEOUT);
	switch (sock_flush(s)) {
	case 0:
		sock_linger(s);
		break;
	case 1:
		sock_free(s, NULL);
		break;
	}
}

static struct sock *oldest_pending(struct worker *w, enum sock_phase phase, msec now, msec age)
{
	struct list *head = &w->socks[phase];
	struct sock *s;

	if (list_empty(head))
		return NULL;
	s = list_entry(head->next, struct sock, link);
	return now - s->since >= age ? s : NULL;
}

void sock_sweep(struct worker *w, msec now)
{
	struct tune *t = &w->agent->tune;
	struct sock *s;

	while ((s = oldest_pending(w, SOCK_HELLO, now, tune_get(t->hello_timeout_ms))) != NULL)
		end_hello(s);
	while ((s = oldest_pending(w, SOCK_OPEN, now, tune_get(t->idle_timeout_ms))) != NULL)
		end_idle(s);
	while ((s = oldest_pending(w, SOCK_LINGER, now, LINGER_MS)) != NULL)
		sock_free(s, NULL);
	sock_trim_spares(w);
}

/* Read what the kernel has, answer it, and end the connection after that. A peer that does not read
 * its answers, or has sent a partial frame, is handled at its next event. */
static void drain_one(struct worker *w, struct sock *s)
{
	list_remove(&s->ready);		/* because reading appends it again if bytes are left */
	if (s->out.n == s->sent)
		sock_read(s);
	sock_keep_spares(w, s);
}

void sock_drain_all(struct worker *w)
{
	enum sock_phase phase;
	struct list todo, *l;
	struct sock *s;

	list_init(&todo);	/* each once, because answering moves connections between lists */
	for (phase = SOCK_HELLO; phase < SOCK_LINGER; phase++) {
		while (!list_empty(&w->socks[phase])) {
			l = w->socks[phase].next;
			list_remove(l);
			list_append(&todo, l);
		}
	}
	while (!list_empty(&todo)) {
		s = list_entry(todo.next, struct sock, link);
		list_remove(&s->link);
		list_append(&w->socks[s->phase], &s->link);
		drain_one(w, s);
	}
}

void sock_close_all(struct worker *w)
{
	enum sock_phase phase;

	for (phase = SOCK_HELLO; phase < SOCK_PHASES; phase++)
		while (!list_empty(&w->socks[phase]))
			sock_free(list_entry(w->socks[phase].next, struct sock, link), NULL);
}

bool sock_any(const struct worker *w)
{
	return !list_empty(&w->socks[SOCK_HELLO]) || !list_empty(&w->socks[SOCK_OPEN]) ||
	       !list_empty(&w->socks[SOCK_LINGER]);
}
