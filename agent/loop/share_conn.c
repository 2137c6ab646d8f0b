/* One connection to one server of the store.
 *
 * hiredis formats commands and parses answers. Its own functions that connect look up names and
 * open files, which the sandbox refuses, so the socket is made here and given to it. Its
 * asynchronous API is not used either: it frees its context in callbacks, and has no limit for an
 * answer.
 *
 * Answers come in the order of the commands, so what waits for them is a ring. An answer is bounded
 * three ways: bytes, elements of its arrays, and time. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS
#include <errno.h>
#include <hiredis/hiredis.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/os/clock.h"

#define PAUSE_MIN_MS	100
#define PAUSE_MAX_MS	2000
#define PAUSE_LOGIN_MS	5000	/* after a login that was refused; stores may count these */
#define ELEMENTS_MAX	65536	/* of all arrays of an answer */
#define READS_MAX	32	/* of 16 KiB, in a turn of the loop */

#if HIREDIS_MAJOR >= 1
typedef size_t array_count;
#else
typedef int array_count;
#endif

void conn_init(struct conn *c, struct share *sh, const struct conn_use *use, void *owner,
    size_t reply_max)
{
	c->sh = sh;
	c->use = use;
	c->owner = owner;
	c->reply_max = reply_max;
	c->pause_ms = PAUSE_MIN_MS;
}

/* ---- answers ---- */

bool reply_is_any_error(const struct redisReply *r)
{
	return r->type == REDIS_REPLY_ERROR;
}

struct span reply_text(const struct redisReply *r)
{
	bool has = r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_STATUS ||
		   r->type == REDIS_REPLY_ERROR;

	return has ? span_of(r->str, r->len) : SPAN("");
}

bool reply_is_error(const struct redisReply *r, const char *word)
{
	struct span text = reply_text(r);
	size_t n = strlen(word);

	return reply_is_any_error(r) && text.n >= n && memcmp(text.p, word, n) == 0;
}

/* ---- the end ---- */

static void end_connection(struct conn *c)
{
	if (c->ctx == NULL)
		return;
	ev_io_stop(c->sh->loop, &c->io);
	redisFree(c->ctx);
	c->ctx = NULL;
	c->connected = c->answered = c->unsent = false;
	c->secured = NULL;
	c->first = c->n_waiting = 0;
	c->elements = 0;
	c->use->lost(c);
}

void conn_close(struct conn *c)
{
	end_connection(c);
	c->retry_at = 0;
	c->pause_ms = PAUSE_MIN_MS;
}

/* Agents that lost the store at the same time must not all come back at the same time. */
void conn_fail(struct conn *c, const char *why)
{
	snprintf(c->error, sizeof(c->error), "%s", why);
	count_add(&c->sh->figures.failures, 1);
	if (c->to != NULL)
		store_note(c->sh, c->to, span_str(c->error));
	if (c->answered)
		c->pause_ms = PAUSE_MIN_MS;
	c->retry_at =
	    clock_msec() + c->pause_ms / 2 + rng_below(&c->sh->rng, (uint32_t)c->pause_ms + 1);
	c->pause_ms = c->pause_ms * 2 < PAUSE_MAX_MS ? c->pause_ms * 2 : PAUSE_MAX_MS;
	end_connection(c);
}

/* ---- reading ---- */

/* Arrays are allocated by a number from the wire, so it is checked before. */
static void *bounded_array(const redisReadTask *task, array_count n)
{
	struct conn *c = task->privdata;
	redisReply *r;

	if ((int64_t)n < 0 || (size_t)n > ELEMENTS_MAX - c->elements)
		return NULL;
	c->elements += (size_t)n;
	if ((r = mem_alloc(sizeof(*r))) == NULL)
		return NULL;
	r->type = REDIS_REPLY_ARRAY;
	r->elements = (size_t)n;
	if (n > 0 && (r->element = mem_calloc((size_t)n, sizeof(*r->element))) == NULL) {
		mem_free(r);
		return NULL;
	}
	if (task->parent != NULL)
		((redisReply *)task->parent->obj)->element[task->idx] = r;
	return r;
}

static void bound_reader(struct conn *c, redisReplyObjectFunctions *own)
{
	redisReader *reader = c->ctx->reader;

	*own = *reader->fn;
	own->createArray = bounded_array;
	reader->fn = own;
	reader->privdata = c;
}

/* Returns false if the connection has ended. */
static bool take_answer(struct conn *c, redisReply *r)
{
	struct conn_waiting w;

	c->elements = 0;
	if (c->n_waiting == 0) {
		freeReplyObject(r);
		conn_fail(c, "an answer to no command");
		return false;
	}
	w = c->waiting[c->first];
	c->first = (c->first + 1) % CONN_WAITING_MAX;
	c->n_waiting--;
	if (!reply_is_any_error(r)) {
		c->answered = true;
		c->error[0] = '\0';
	}
	if (!w.fn(c, w.arg, w.tag, r))
		freeReplyObject(r);
	return c->ctx != NULL;
}

static bool take_answers(struct conn *c)
{
	void *r;

	for (;;) {
		r = NULL;
		if (redisGetReplyFromReader(c->ctx, &r) != REDIS_OK) {
			conn_fail(c, c->ctx->errstr);
			return false;
		}
		if (r == NULL)
			break;
		if (!take_answer(c, r))
			return false;
	}
	if (c->ctx->reader->len - c->ctx->reader->pos <= c->reply_max)
		return true;
	c->too_long = true;
	conn_fail(c, "an answer is too long");
	return false;
}

static void read_answers(struct conn *c)
{
	size_t before;

	for (unsigned i = 0; i < READS_MAX; i++) {
		before = c->ctx->reader->len;
		if (redisBufferRead(c->ctx) != REDIS_OK) {
			const char *why = c->ctx->err == REDIS_ERR_EOF ? "it closed the connection" :
									 c->ctx->errstr;

			conn_fail(c, c->secured ? tls_why(c->secured, why) : why);
			return;
		}
		if (c->ctx->reader->len == before || !take_answers(c))
			return;
	}
}

/* ---- writing ---- */

static void watch_conn(struct conn *c, int events)
{
	if (c->io.events == events && ev_is_active(&c->io))
		return;
	ev_io_stop(c->sh->loop, &c->io);
	ev_io_set(&c->io, c->ctx->fd, events);
	ev_io_start(c->sh->loop, &c->io);
}

/* With TLS, a write may wait for bytes to read, and a read for room to write. */
static void watch_for_more(struct conn *c)
{
	bool write = c->secured != NULL ? tls_wants_write(c->secured, c->unsent) : c->unsent;

	watch_conn(c, write ? EV_READ | EV_WRITE : EV_READ);
}

static bool write_commands(struct conn *c)
{
	int done = 0;

	if (redisBufferWrite(c->ctx, &done) != REDIS_OK) {
		conn_fail(c, c->secured ? tls_why(c->secured, c->ctx->errstr) : c->ctx->errstr);
		return false;
	}
	c->unsent = !done;
	return true;
}

static bool secure(struct conn *c)
{
	const char *why = "";

	if (c->sh->tls == NULL || c->secured)
		return true;
	c->secured = tls_start(c->sh->tls, c->ctx, c->to->host, &why);
	if (c->secured == NULL)
		conn_fail(c, why);
	return c->secured != NULL;
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct conn *c = io->data;

	if (!c->connected) {
		c->connected = true;
		if (!secure(c))
			return;
	}
	if (c->secured != NULL)
		tls_forget_errors();
	if ((revents & EV_WRITE || c->secured != NULL) && !write_commands(c))
		return;
	if (revents & EV_READ || c->secured != NULL)
		read_answers(c);
	/* the end of the handshake may have come only now, and nothing after it */
	if (c->ctx != NULL && (c->secured == NULL || !c->unsent || write_commands(c)))
		watch_for_more(c);
}

bool conn_send(struct conn *c, conn_reply_fn *fn, void *arg, uint64_t tag, msec wait_ms,
    unsigned n, const struct span *words)
{
	const char *argv[STORE_PARTS_MAX * 2 + 8];
	size_t len[STORE_PARTS_MAX * 2 + 8];

	if (c->ctx == NULL || c->n_waiting == CONN_WAITING_MAX || n > sizeof(len) / sizeof(len[0]))
		return false;
	for (unsigned i = 0; i < n; i++) {
		argv[i] = words[i].p;
		len[i] = words[i].n;
	}
	if (redisAppendCommandArgv(c->ctx, (int)n, argv, len) != REDIS_OK) {
		conn_fail(c, "no memory");
		return false;
	}
	c->waiting[(c->first + c->n_waiting) % CONN_WAITING_MAX] =
	    (struct conn_waiting){ fn, arg, tag, clock_msec() + wait_ms };
	c->n_waiting++;
	c->unsent = true;
	if (c->connected)
		watch_conn(c, EV_READ | EV_WRITE);
	return true;
}

/* ---- the beginning ---- */

static int open_socket(const struct store_server *to)
{
	int fd = socket(to->addr.a.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return -1;
	if (to->addr.a.sa.sa_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, &to->addr.a.sa, to->addr.len) == 0 || errno == EINPROGRESS)
		return fd;
	one = errno;
	close(fd);
	errno = one;
	return -1;
}

/* A server that does not know the command repeats its words, or the beginning of long ones. Returns
 * the text without them. */
static struct span without_words(const struct conn *c, struct span text)
{
	const char *const from[] = { ", with args", c->sh->password };

	for (unsigned i = 0; i < 2; i++) {
		const char *at = memmem(text.p, text.n, from[i], strlen(from[i]));

		if (at != NULL)
			text.n = (size_t)(at - text.p);
	}
	return text;
}

static bool on_login(struct conn *c, void *arg, uint64_t tag, struct redisReply *r)
{
	char why[STORE_TEXT_MAX];

	if (!reply_is_any_error(r))
		return false;
	snprintf(why, sizeof(why), SPAN_FMT, SPAN_ARG(without_words(c, reply_text(r))));
	c->pause_ms = PAUSE_LOGIN_MS;
	conn_fail(c, why);
	return false;
}

static void login(struct conn *c)
{
	struct span words[3] = { SPAN("AUTH") };
	unsigned n = 1;

	if (c->sh->password[0] == '\0')
		return;
	if (c->sh->opts.user[0] != '\0')
		words[n++] = span_str(c->sh->opts.user);
	words[n++] = span_str(c->sh->password);
	conn_send(c, on_login, NULL, 0, c->sh->opts.timeout_ms, n, words);
}

static void open_connection(struct conn *c, msec now)
{
	int fd = open_socket(c->to);

	c->since = now;
	if (fd < 0) {
		conn_fail(c, strerror(errno));
		return;
	}
	if ((c->ctx = redisConnectFd(fd)) == NULL || c->ctx->err != 0) {
		if (c->ctx == NULL)
			close(fd);
		conn_fail(c, "no memory");
		return;
	}
	c->ctx->flags &= ~REDIS_BLOCK;
	bound_reader(c, &c->functions);
	count_add(&c->sh->figures.connects, 1);
	ev_io_init(&c->io, on_io, fd, EV_WRITE);
	c->io.data = c;
	ev_io_start(c->sh->loop, &c->io);
	login(c);
	if (c->ctx != NULL)
		c->use->opened(c);
}

void conn_aim(struct conn *c, struct store_server *to)
{
	if (c->to == to)
		return;
	conn_close(c);
	c->to = to;
}

/* An answer that has begun is too long for this connection. */
static void fail_late(struct conn *c)
{
	c->too_long = c->ctx->reader->len > c->ctx->reader->pos;
	conn_fail(c, c->connected ? "no answer in time" : "no connection in time");
}

void conn_tick(struct conn *c, msec now)
{
	msec late = c->sh->opts.timeout_ms;

	if (c->ctx == NULL) {
		if (c->to != NULL && now >= c->retry_at)
			open_connection(c, now);
		return;
	}
	if (!c->connected && now - c->since > late)
		conn_fail(c, "no connection in time");
	else if (c->n_waiting > 0 && now > c->waiting[c->first].until)
		fail_late(c);
}

#endif
