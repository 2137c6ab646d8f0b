/* Writes log lines to a descriptor, from any thread.
 *
 * The log must never block a thread that answers HAProxy. Each kind of line that a peer can cause
 * has a rate limit. A line is written only if the descriptor accepts it at once: for a pipe,
 * POLLOUT means that PIPE_BUF bytes fit, and lines are shorter. A line that cannot be written is
 * counted and dropped. The lock is held over poll() and write(), so that no other thread fills the
 * pipe in between. It is never held during a wait. */
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "agent/loop/log_in.h"
#include "agent/os/clock.h"

#define LOG_TAIL	40	/* reserved for suppressed=N and the newline */

static const char *const level_name[] = { "error", "warn", "info", "debug" };

bool log_gate_pass(struct log_gate *g, msec now, uint64_t *suppressed)
{
	uint32_t burst = g->patient ? 1 : LOG_BURST;
	msec every = g->patient ? LOG_PATIENT_MS : LOG_EVERY_MS;
	msec filled = (now - g->since) / every;

	if (filled > 0) {
		g->used = filled >= (msec)g->used ? 0 : g->used - (uint32_t)filled;
		g->since += filled * every;
	}
	if (g->used >= burst) {
		g->suppressed++;
		return false;
	}
	if (g->used++ == 0)
		g->since = now;
	*suppressed = g->suppressed;
	g->suppressed = 0;
	return true;
}

void log_init(struct log *l, int fd, enum log_level level)
{
	memset(l, 0, sizeof(*l));
	l->fd = fd;
	l->level = (int)level;
	l->gate[LOG_FRAME_SIZE].patient = l->gate[LOG_ACCEPT].patient = true;
	l->gate[LOG_OVERLOAD].patient = true;
	pthread_mutex_init(&l->lock, NULL);
}

void log_fini(struct log *l)
{
	pthread_mutex_destroy(&l->lock);
}

void log_set_level(struct log *l, enum log_level level)
{
	__atomic_store_n(&l->level, (int)level, __ATOMIC_RELAXED);
}

uint64_t log_lost(const struct log *l)
{
	return __atomic_load_n(&l->lost, __ATOMIC_RELAXED);
}

/* ---- one line --------------------------------------------------------------------------- */

static bool is_plain(unsigned char c)
{
	return c > 0x20 && c < 0x7f && c != '"' && c != '=' && c != '\\';
}

static bool needs_quotes(struct span v)
{
	size_t i;

	for (i = 0; i < v.n; i++)
		if (!is_plain((unsigned char)v.p[i]))
			return true;
	return v.n == 0;
}

/* Write <c> as it appears between quotes. Returns its length, at most 4. */
static size_t escape(char *out, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";

	if (c == '"' || c == '\\') {
		out[0] = '\\';
		out[1] = (char)c;
		return 2;
	}
	if (c == '\n') {
		memcpy(out, "\\n", 2);
		return 2;
	}
	if (c >= 0x20 && c < 0x7f) {
		out[0] = (char)c;
		return 1;
	}
	out[0] = '\\';
	out[1] = 'x';
	out[2] = hex[c >> 4];
	out[3] = hex[c & 15];
	return 4;
}

static void put(struct log_line *ln, const char *p, size_t n)
{
	if (ln->full || n > sizeof(ln->text) - LOG_TAIL - ln->n) {
		ln->full = true;
		return;
	}
	memcpy(ln->text + ln->n, p, n);
	ln->n += n;
}

static void put_value(struct log_line *ln, struct span v)
{
	bool quotes = needs_quotes(v);
	char c[4];
	size_t i;

	if (!quotes) {
		put(ln, v.p, v.n);
		return;
	}
	put(ln, "\"", 1);
	for (i = 0; i < v.n; i++)
		put(ln, c, escape(c, (unsigned char)v.p[i]));
	put(ln, "\"", 1);
}

void log_span(struct log_line *ln, const char *key, struct span value)
{
	size_t start = ln->n;
	bool cut = value.n > LOG_VALUE_MAX;

	if (cut)
		value.n = LOG_VALUE_MAX;
	ln->full = false;
	put(ln, " ", 1);
	put(ln, key, strlen(key));
	put(ln, "=", 1);
	put_value(ln, value);
	if (cut)
		put(ln, "...", 3);
	if (ln->full)
		ln->n = start;
}

void log_text(struct log_line *ln, const char *key, const char *value)
{
	log_span(ln, key, span_str(value));
}

void log_int(struct log_line *ln, const char *key, int64_t value)
{
	char number[24];

	snprintf(number, sizeof(number), "%lld", (long long)value);
	log_text(ln, key, number);
}

static void put_head(struct log_line *ln, enum log_level level)
{
	struct timespec ts;
	struct tm tm;
	char head[64];
	size_t n;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	n = strftime(head, sizeof(head), "ts=%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(head + n, sizeof(head) - n, ".%03dZ", (int)(ts.tv_nsec / 1000000));
	put(ln, head, strlen(head));
	log_text(ln, "level", level_name[level]);
}

bool log_begin(struct log_line *ln, struct log *l, enum log_level level, enum log_kind kind,
	       const char *msg)
{
	bool pass = true;

	if ((int)level > __atomic_load_n(&l->level, __ATOMIC_RELAXED))
		return false;
	ln->log = l;
	ln->level = level;
	ln->suppressed = 0;
	ln->n = 0;
	ln->full = false;
	if (kind != LOG_LIFE) {
		pthread_mutex_lock(&l->lock);
		pass = log_gate_pass(&l->gate[kind], clock_msec(), &ln->suppressed);
		pthread_mutex_unlock(&l->lock);
	}
	if (!pass)
		return false;
	put_head(ln, level);
	log_text(ln, "msg", msg);
	return true;
}

/* The lock is held. The newline is left out. */
static void keep_line(struct log *l, const struct log_line *ln)
{
	char *to = l->kept[(l->n_kept + 1) % LOG_KEPT];

	if (ln->level > LOG_WARN)
		return;
	memcpy(to, ln->text, ln->n - 1);
	to[ln->n - 1] = '\0';
	l->n_kept++;
}

bool log_kept(struct log *l, uint64_t *n, char out[LOG_LINE_MAX])
{
	uint64_t next = *n + 1;
	bool is;

	pthread_mutex_lock(&l->lock);
	if (next <= l->cleared)
		next = l->cleared + 1;
	if (l->n_kept >= LOG_KEPT && next <= l->n_kept - LOG_KEPT)
		next = l->n_kept - LOG_KEPT + 1;
	is = next <= l->n_kept;
	if (is)
		memcpy(out, l->kept[next % LOG_KEPT], LOG_LINE_MAX);
	pthread_mutex_unlock(&l->lock);
	if (is)
		*n = next;
	return is;
}

void log_clear_kept(struct log *l)
{
	pthread_mutex_lock(&l->lock);
	l->cleared = l->n_kept;
	pthread_mutex_unlock(&l->lock);
}

void log_end(struct log_line *ln)
{
	struct log *l = ln->log;
	struct pollfd pfd = { .fd = l->fd, .events = POLLOUT };
	bool sent = false;

	if (ln->suppressed > 0)		/* always fits: LOG_TAIL */
		ln->n += (size_t)snprintf(ln->text + ln->n, LOG_TAIL, " suppressed=%llu",
					  (unsigned long long)ln->suppressed);
	ln->text[ln->n++] = '\n';
	pthread_mutex_lock(&l->lock);
	keep_line(l, ln);
	if (poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLOUT))
		sent = write(l->fd, ln->text, ln->n) == (ssize_t)ln->n;
	pthread_mutex_unlock(&l->lock);
	if (!sent)
		__atomic_fetch_add(&l->lost, 1, __ATOMIC_RELAXED);
}

void log_msg(struct log *l, enum log_level level, enum log_kind kind, const char *msg)
{
	struct log_line ln;

	if (log_begin(&ln, l, level, kind, msg))
		log_end(&ln);
}
