/* runtime.c - the sockets of the runtime socket: bytes to lines, lines to commands, answers out.
 *
 * A connection is in one phase, and its time limit counts from the start of the phase, not from the
 * last byte, so a peer that sends or reads a byte now and then gains nothing:
 *
 *      LINE  --line-->  WORK  --command-->  SEND  --sent-->  WORK  ...  LINE (prompt) or END
 *                        | ask: BODY ---------^
 *                        | walk: WALK, a step a turn ---^
 *
 * END: everything is sent and shut down; what the peer still sends is discarded until it closes,
 * because a close with unread bytes could take the answer from it. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/count.h"
#include "agent/base/mem.h"
#include "agent/loop/page_text_in.h"
#include "agent/loop/runtime_in.h"

enum phase { PHASE_LINE, PHASE_BODY, PHASE_WORK, PHASE_WALK, PHASE_SEND, PHASE_END };

struct runtime_conn {
	struct list link, walking;	/* <walking>: in rt->walking if the phase is WALK */
	struct runtime *rt;
	ev_io io;
	enum phase phase;
	msec since;			/* start of the phase */
	bool prompt, quit, eof;
	char in[COMMAND_LINE_MAX + 2];	/* received and not used yet */
	size_t n_in;
	char line[COMMAND_LINE_MAX + 1];	/* the line at work */
	struct span left;		/* of <line>, not executed yet */
	size_t at;			/* offset of <left> in it */
	struct command command;
	struct runtime_walk walk;
	char *body;			/* of ask; NULL: none */
	size_t n_body;
	struct buf out;
	size_t sent;
};

static void enter(struct runtime_conn *c, enum phase phase)
{
	c->phase = phase;
	c->since = clock_msec();
	list_remove(&c->link);
	list_append(&c->rt->conns, &c->link);
}

static void drop_body(struct runtime_conn *c)
{
	if (c->body == NULL)
		return;
	mem_free_wiped(c->body, c->n_body);
	c->body = NULL;
	c->rt->body = false;
}

static void conn_free(struct runtime_conn *c)
{
	if (c->phase == PHASE_WALK)
		list_remove(&c->walking);
	ev_io_stop(c->rt->loop, &c->io);
	close(c->io.fd);
	list_remove(&c->link);
	c->rt->n_conns--;
	drop_body(c);
	buf_free(&c->walk.json);
	buf_free(&c->out);
	mem_wipe(c->in, sizeof(c->in));
	mem_free(c);
}

static void watch(struct runtime_conn *c, int events)
{
	if (ev_is_active(&c->io) && (c->io.events & (EV_READ | EV_WRITE)) == events)
		return;
	ev_io_stop(c->rt->loop, &c->io);
	ev_io_set(&c->io, c->io.fd, events);
	if (events != 0)
		ev_io_start(c->rt->loop, &c->io);
}

/* ---- answers ----------------------------------------------------------------------- */

/* An empty line ends each answer. */
static void end_answer(struct runtime_conn *c)
{
	if (c->out.failed) {
		buf_free(&c->out);
		c->out.max = RUNTIME_ANSWER_MAX + 4096;
		buf_str(&c->out, "not enough memory\n");
	}
	buf_str(&c->out, "\n");
	enter(c, PHASE_SEND);
}

static void refuse(struct runtime_conn *c, const struct err *e)
{
	page_addf(&c->out, "refused at character %d: %.400s\n", e->column, e->text);
	c->left = SPAN("");	/* later commands of the line may rely on this one */
	end_answer(c);
}

static void start_walk(struct runtime_conn *c)
{
	struct runtime *rt = c->rt;

	c->walk = (struct runtime_walk){ .n = 0 };
	enter(c, PHASE_WALK);
	list_append(&rt->walking, &c->walking);
	ev_idle_start(rt->loop, &rt->idle);
}

/* ---- commands ---------------------------------------------------------------------- */

static bool is_blank(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] != ' ' && s.p[i] != '\t')
			return false;
	return true;
}

/* The body comes with the next bytes. */
static void start_ask(struct runtime_conn *c)
{
	struct err e = { .column = (int)c->at + 1 };

	if (!is_blank(c->left))
		err_set(&e, "ask must be the last command of its line, because its body follows");
	else if (c->rt->body)
		err_set(&e, "another connection asks at the moment; try again");
	else if ((c->body = mem_alloc((size_t)c->command.number)) == NULL)
		err_set(&e, "not enough memory for the body");
	if (c->body == NULL) {
		c->quit = true;		/* the body must not be read as commands */
		refuse(c, &e);
		return;
	}
	c->rt->body = true;
	c->n_body = 0;
	enter(c, PHASE_BODY);
}

static void execute(struct runtime_conn *c, struct span command, size_t at)
{
	struct err e;

	if (command_parse(command, at, &c->command, &e) != 0) {
		refuse(c, &e);
		return;
	}
	switch (c->command.what) {
	case COMMAND_NONE: return;
	case COMMAND_QUIT:
		c->quit = true;
		c->left = SPAN("");
		return;
	case COMMAND_PROMPT:
		c->prompt = true;
		return;
	case COMMAND_ASK: start_ask(c); return;
	default: break;
	}
	if (runtime_answer(c->rt->agent, &c->command, SPAN(""), &c->out))
		end_answer(c);
	else
		start_walk(c);
}

/* Take the bytes of the body that are there. */
static void take_body(struct runtime_conn *c)
{
	size_t need = (size_t)c->command.number - c->n_body, n = c->n_in < need ? c->n_in : need;
	struct err e = { .column = 1 };

	memcpy(c->body + c->n_body, c->in, n);
	c->n_body += n;
	memmove(c->in, c->in + n, c->n_in - n);
	c->n_in -= n;
	if (n == need) {
		runtime_answer(c->rt->agent, &c->command, span_of(c->body, c->n_body), &c->out);
		drop_body(c);
		end_answer(c);
	} else if (c->eof) {
		err_set(&e, "the body ended after %zu of %llu bytes", c->n_body,
		    (unsigned long long)c->command.number);
		drop_body(c);
		refuse(c, &e);
	}
}

/* Take the next line of <in>. Returns false if none is complete. */
static bool take_line(struct runtime_conn *c)
{
	const char *end = memchr(c->in, '\n', c->n_in);
	size_t n = end != NULL ? (size_t)(end - c->in) : c->n_in;
	struct err e = { .column = COMMAND_LINE_MAX + 1 };

	if (end == NULL && n <= COMMAND_LINE_MAX && !(c->eof && n > 0))
		return false;
	if (n > COMMAND_LINE_MAX) {
		err_set(&e, "the line is longer than %d bytes", COMMAND_LINE_MAX);
		c->quit = true;
		c->at = 0;
		refuse(c, &e);
		return true;
	}
	memcpy(c->line, c->in, n);
	c->n_in -= n + (end != NULL);
	memmove(c->in, c->in + n + (end != NULL), c->n_in);
	c->left = span_of(c->line, n > 0 && c->line[n - 1] == '\r' ? n - 1 : n);
	c->at = 0;
	enter(c, PHASE_WORK);
	return true;
}

/* The line is done. */
static void end_line(struct runtime_conn *c)
{
	if (!c->prompt || c->quit || (c->eof && c->n_in == 0)) {
		shutdown(c->io.fd, SHUT_WR);
		enter(c, PHASE_END);
		return;
	}
	buf_str(&c->out, "> ");
	enter(c, PHASE_SEND);
	c->at = SIZE_MAX;	/* the next line, once it is sent */
}

static void send_out(struct runtime_conn *c)
{
	size_t left = c->out.n - c->sent;
	ssize_t n = left == 0 ? 0 : send(c->io.fd, c->out.p + c->sent,
	    left < RUNTIME_SEND ? left : RUNTIME_SEND, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		c->eof = c->quit = true;	/* the peer is gone */
		c->prompt = false;
		c->left = SPAN("");
		c->sent = c->out.n;
	}
	if (n > 0)
		c->sent += (size_t)n;
	if (c->sent < c->out.n)
		return;
	buf_wipe(&c->out, RUNTIME_SEND);
	c->sent = 0;
	enter(c, c->at == SIZE_MAX ? PHASE_LINE : PHASE_WORK);
}

static void work(struct runtime_conn *c)
{
	struct span command;
	size_t at = c->at;

	if (command_split(&c->left, &c->at, &command))
		execute(c, command, at);
	else
		end_line(c);
}

/* ---- one turn ---------------------------------------------------------------------- */

/* Go on until the connection has to wait, but execute one command at most. */
static void proceed(struct runtime_conn *c)
{
	for (;;) {
		switch (c->phase) {
		case PHASE_LINE:
			if (!take_line(c)) {
				if (c->eof)
					conn_free(c);
				else
					watch(c, EV_READ);
				return;
			}
			break;
		case PHASE_BODY:
			take_body(c);
			if (c->phase == PHASE_BODY) {
				watch(c, EV_READ);
				return;
			}
			break;
		case PHASE_WORK: work(c); break;
		case PHASE_SEND:
			send_out(c);
			/* the next command comes in another turn */
			watch(c, EV_WRITE);
			return;
		case PHASE_WALK: watch(c, 0); return;
		case PHASE_END:
			if (c->eof)
				conn_free(c);
			else
				watch(c, EV_READ);
			return;
		}
	}
}

static void receive(struct runtime_conn *c)
{
	ssize_t n;

	if (c->phase == PHASE_END)
		c->n_in = 0;
	n = recv(c->io.fd, c->in + c->n_in, sizeof(c->in) - c->n_in, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		c->eof = true;
	else
		c->n_in += (size_t)n;
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct runtime_conn *c = io->data;

	if (revents & EV_READ)
		receive(c);
	proceed(c);
}

/* Keeps the loop from blocking; the work is done in on_turn_end(). */
static void on_idle(struct ev_loop *loop, ev_idle *i, int revents)
{
}

static void on_turn_end(struct ev_loop *loop, ev_prepare *p, int revents)
{
	struct runtime *rt = p->data;
	struct runtime_conn *c;

	if (list_empty(&rt->walking)) {
		ev_idle_stop(loop, &rt->idle);
		return;
	}
	c = list_entry(rt->walking.next, struct runtime_conn, walking);
	list_remove(&c->walking);
	if (!runtime_walk_step(rt->agent, &c->command, &c->walk, &c->out)) {
		list_append(&rt->walking, &c->walking);
		return;
	}
	end_answer(c);
	proceed(c);
}

/* ---- connections ------------------------------------------------------------------- */

/* Close one that waits for its peer for some time, or is over. Returns false if there is none. */
static bool make_place(struct runtime *rt, msec now)
{
	for (struct list *l = rt->conns.next; l != &rt->conns; l = l->next) {
		struct runtime_conn *c = list_entry(l, struct runtime_conn, link);

		if (c->phase == PHASE_END || (c->phase != PHASE_WALK && now - c->since >= RUNTIME_IDLE_MS)) {
			conn_free(c);
			return true;
		}
	}
	return false;
}

static void on_accepted(void *arg, int fd, const union sockaddr_any *peer)
{
	static const char busy[] = "refused: as many connections as allowed are in use; try again\n\n";
	struct runtime *rt = arg;
	struct runtime_conn *c = NULL;

	if (rt->n_conns < RUNTIME_CONNS_MAX || make_place(rt, clock_msec()))
		c = mem_alloc(sizeof(*c));
	if (c == NULL) {
		if (send(fd, busy, sizeof(busy) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			count_add(&rt->accept_errors, 1);
		close(fd);
		return;
	}
	c->rt = rt;
	c->since = clock_msec();
	c->out.max = RUNTIME_ANSWER_MAX + 4096;
	ev_io_init(&c->io, on_io, fd, EV_READ);
	c->io.data = c;
	list_append(&rt->conns, &c->link);
	rt->n_conns++;
	ev_io_start(rt->loop, &c->io);
}

void runtime_start(struct runtime *rt, struct agent *a, struct ev_loop *loop)
{
	rt->agent = a;
	rt->loop = loop;
	list_init(&rt->conns);
	list_init(&rt->walking);
	ev_idle_init(&rt->idle, on_idle);
	ev_prepare_init(&rt->turn_end, on_turn_end);
	rt->turn_end.data = rt;
	ev_prepare_start(loop, &rt->turn_end);
	rt->acceptor = (struct acceptor){ .log = &a->log, .name = "runtime", .accepted = on_accepted,
		.arg = rt, .errors = &rt->accept_errors };
	if (a->runtime.n > 0)
		acceptor_start(&rt->acceptor, loop, &a->runtime.l[0]);
}

static msec limit_of(const struct runtime_conn *c)
{
	return c->phase == PHASE_LINE && c->prompt ? RUNTIME_PROMPT_MS : RUNTIME_MS;
}

void runtime_sweep(struct runtime *rt, msec now)
{
	struct list *l, *next;

	for (l = rt->conns.next; l != &rt->conns; l = next) {
		struct runtime_conn *c = list_entry(l, struct runtime_conn, link);

		next = l->next;
		if (now - c->since >= limit_of(c) && c->phase != PHASE_WALK)
			conn_free(c);
	}
}

void runtime_stop(struct runtime *rt)
{
	acceptor_stop(&rt->acceptor);
	while (!list_empty(&rt->conns))
		conn_free(list_entry(rt->conns.next, struct runtime_conn, link));
	ev_prepare_stop(rt->loop, &rt->turn_end);
	ev_idle_stop(rt->loop, &rt->idle);
}
