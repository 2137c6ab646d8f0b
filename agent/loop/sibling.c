/* Takes the snapshot of a sibling over HTTP from time to time, so that a backup agent is warm
 * without a store. A thread of its own, which may wait: the fetch is bounded in bytes and time. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/index/snapshot.h"
#include "agent/loop/agent_in.h"
#include "agent/os/clock.h"

#define FETCH_MS	60000	/* longest time of one fetch */
#define QUIET_MS	5000	/* longest pause in it */
#define WAIT_MS		200	/* so often it is looked whether the process ends */
#define HEAD_MAX	1024
#define READ_FIRST	65536u

/* One fetch. */
struct fetch {
	struct sibling_reader *s;
	int fd;
	uint8_t *bytes;
	size_t n, cap;
	uint64_t most;
	msec began, heard;
	bool refused;			/* it came, and cannot be used */
	bool busy;			/* the sibling serves another one just now */
	char why[128];
};

#define REMEDY_REACH	"the sibling needs share.serve_snapshot, the same key file, and this " \
			"address in metrics.listen"
#define REMEDY_REFUSED	"give both agents the same version and configuration"
#define REMEDY_AGAIN	"it is asked again each share.snapshot_from_every; if the next fails, " \
			"too, see how that machine and the network are loaded"

uint64_t sibling_proof(const struct hash_key *key)
{
	return hash64(key, "kvroute snapshot", 16);
}

/* ---- one fetch ---- */

static bool fetch_fail(struct fetch *f, const char *why)
{
	snprintf(f->why, sizeof(f->why), "%s", why);
	return false;
}

/* Returns true once the socket is ready for <events>. */
static bool wait_ready(struct fetch *f, short events)
{
	struct pollfd p = { .fd = f->fd, .events = events };
	msec now;

	for (;;) {
		if (poll(&p, 1, WAIT_MS) > 0)
			return true;
		now = clock_msec();
		if (__atomic_load_n(&f->s->stopping, __ATOMIC_ACQUIRE))
			return fetch_fail(f, "the agent ends");
		if (now - f->heard > QUIET_MS || now - f->began > FETCH_MS)
			return fetch_fail(f, "no answer in time");
	}
}

static bool ask(struct fetch *f, const struct addr *to, const char *path)
{
	char request[160];
	int n = snprintf(request, sizeof(request),
	    "GET %s?proof=%016llx HTTP/1.0\r\nHost: kvroute\r\n\r\n", path,
	    (unsigned long long)f->s->proof);

	f->fd = socket(to->a.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (f->fd < 0 || (connect(f->fd, &to->a.sa, to->len) != 0 && errno != EINPROGRESS))
		return fetch_fail(f, strerror(errno));
	if (!wait_ready(f, POLLOUT))
		return false;
	if (send(f->fd, request, (size_t)n, MSG_NOSIGNAL) != n)
		return fetch_fail(f, strerror(errno));
	return true;
}

static bool make_room(struct fetch *f)
{
	size_t cap = f->cap < READ_FIRST ? READ_FIRST : f->cap * 2;
	uint8_t *more;

	if (f->n < f->cap)
		return true;
	if (f->cap > f->most) {
		f->refused = true;
		return fetch_fail(f, "it is larger than this agent could write");
	}
	if (cap > f->most)
		cap = f->most + 1;
	if ((more = mem_resize(f->bytes, cap, 1)) == NULL)
		return fetch_fail(f, "not enough memory");
	f->bytes = more;
	f->cap = cap;
	return true;
}

/* The answer ends with the connection; the snapshot says itself whether it is whole. */
static bool read_all(struct fetch *f)
{
	ssize_t got;

	for (;;) {
		if (!make_room(f) || !wait_ready(f, POLLIN))
			return false;
		got = recv(f->fd, f->bytes + f->n, f->cap - f->n, 0);
		if (got == 0)
			return true;
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			return fetch_fail(f, strerror(errno));
		if (got > 0) {
			f->n += (size_t)got;
			f->heard = clock_msec();
		}
		if (f->heard - f->began > FETCH_MS)
			return fetch_fail(f, "it took too long");
	}
}

/* Set <body> to what an answer of status 200 has. */
static bool find_body(struct fetch *f, struct route_saved *body)
{
	static const char ok[] = "HTTP/1.1 200 ", busy[] = "HTTP/1.1 503 ";
	size_t looked = f->n < HEAD_MAX ? f->n : HEAD_MAX;
	uint8_t *end = looked > 0 ? memmem(f->bytes, looked, "\r\n\r\n", 4) : NULL;

	if (end == NULL || f->n < sizeof(ok) - 1)
		return fetch_fail(f, "what listens there does not speak HTTP, or closed the connection");
	if (memcmp(f->bytes, ok, sizeof(ok) - 1) != 0) {
		f->busy = memcmp(f->bytes, busy, sizeof(busy) - 1) == 0;
		snprintf(f->why, sizeof(f->why), "it answered %.40s", (const char *)f->bytes);
		f->why[strcspn(f->why, "\r\n")] = '\0';
		return false;
	}
	*body = (struct route_saved){
		.bytes = end + 4, .n = f->n - (size_t)(end + 4 - f->bytes), .theirs = true,
		.now = agent_msec(f->s->agent), .wall_ms = clock_wall_ms(),
	};
	return true;
}

static void fetch_begin(struct fetch *f, struct sibling_reader *s, uint64_t most)
{
	msec now = clock_msec();

	*f = (struct fetch){ .s = s, .fd = -1, .most = most, .began = now, .heard = now };
}

static void fetch_end(struct fetch *f)
{
	if (f->fd >= 0)
		close(f->fd);
	mem_free(f->bytes);
}

static bool fetch_index(struct fetch *f, const struct addr *to, struct snapshot_stats *st)
{
	struct route_saved body;
	struct err e = { 0 };

	if (!ask(f, to, "/snapshot") || !read_all(f) || !find_body(f, &body))
		return false;
	f->refused = route_restore(f->s->agent->route, &body, st, &e) != 0;
	return f->refused ? fetch_fail(f, e.text) : true;
}

/* An older sibling answers 404; one without sessions, nothing. */
static bool fetch_sessions(struct fetch *f, const struct addr *to)
{
	static const char none[] = "HTTP/1.1 404 ";
	struct route_saved body;
	struct err e = { 0 };

	if (!ask(f, to, "/snapshot/sessions") || !read_all(f))
		return false;
	if (f->n >= sizeof(none) - 1 && memcmp(f->bytes, none, sizeof(none) - 1) == 0)
		return true;
	if (!find_body(f, &body))
		return false;
	if (route_restore_sessions(f->s->agent->route, &body, &e) == 0 && body.n > 0)
		return fetch_fail(f, "they are cut short");
	f->refused = e.text[0] != '\0';
	return f->refused ? fetch_fail(f, e.text) : true;
}

/* ---- again and again ---- */

static void log_failed(struct fetch *f, const char *from)
{
	struct sibling_reader *s = f->s;
	struct log_line ln;

	if (__atomic_load_n(&s->stopping, __ATOMIC_ACQUIRE) || s->told == SIBLING_TOLD_BAD ||
	    !log_begin(&ln, &s->agent->log, LOG_WARN, LOG_SHARE, "no snapshot from a sibling"))
		return;
	s->told = SIBLING_TOLD_BAD;
	log_text(&ln, "address", from);
	log_text(&ln, "error", f->why);
	log_text(&ln, "effect", "this agent knows only what it saw itself, if it has to take over");
	log_text(&ln, "remedy", f->refused ? REMEDY_REFUSED : REMEDY_REACH);
	log_end(&ln);
}

static void log_loaded(struct sibling_reader *s, const char *from, const struct snapshot_stats *st)
{
	struct log_line ln;

	if (s->told == SIBLING_TOLD_GOOD ||
	    !log_begin(&ln, &s->agent->log, LOG_INFO, LOG_SHARE, "snapshot of a sibling loaded"))
		return;
	s->told = SIBLING_TOLD_GOOD;
	log_text(&ln, "address", from);
	log_int(&ln, "bytes", (int64_t)st->bytes);
	log_int(&ln, "pages", (int64_t)st->pages);
	log_text(&ln, "note", "it is loaded again from time to time, without a line for each");
	log_end(&ln);
}

/* The index came from the same address. */
static void log_without(struct fetch *f, const char *from)
{
	struct sibling_reader *s = f->s;
	struct log_line ln;

	if (__atomic_load_n(&s->stopping, __ATOMIC_ACQUIRE) || f->busy || s->told_sessions ||
	    !log_begin(&ln, &s->agent->log, LOG_WARN, LOG_SHARE, "no sessions from a sibling"))
		return;
	s->told_sessions = true;
	log_text(&ln, "address", from);
	log_text(&ln, "error", f->why);
	log_text(&ln, "effect", "this agent does not know the sessions, if it has to take over");
	log_text(&ln, "remedy", f->refused ? REMEDY_REFUSED : REMEDY_AGAIN);
	log_end(&ln);
}

static bool fetch_from(struct sibling_reader *s, unsigned i)
{
	struct snapshot_stats st = { 0 };
	struct fetch f;
	bool good;

	fetch_begin(&f, s, s->bytes_most);
	if ((good = fetch_index(&f, &s->addr[i], &st))) {
		__atomic_fetch_add(&s->loaded, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&s->bytes, st.bytes, __ATOMIC_RELAXED);
		log_loaded(s, s->text[i], &st);
	} else {
		__atomic_fetch_add(&s->failed, 1, __ATOMIC_RELAXED);
		log_failed(&f, s->text[i]);
	}
	fetch_end(&f);
	if (!good || s->sessions_most == 0)
		return good;
	fetch_begin(&f, s, s->sessions_most);
	if (fetch_sessions(&f, &s->addr[i]))
		s->told_sessions = false;
	else
		log_without(&f, s->text[i]);
	fetch_end(&f);
	return true;
}

/* The first sibling that answers is enough, because they all saw the same. */
static void fetch_once(struct sibling_reader *s)
{
	unsigned i = 0;

	while (i < s->n && !fetch_from(s, i))
		i++;
}

static void *sibling_main(void *arg)
{
	struct sibling_reader *s = arg;

	pthread_setname_np(pthread_self(), "sibling");
	do {
		fetch_once(s);
		__atomic_store_n(&s->tried, true, __ATOMIC_RELEASE);
	} while (!thread_sleep_ms(&s->sleep, s->every_ms));
	return NULL;
}

bool sibling_ready(const struct sibling_reader *s)
{
	return s->n == 0 || s->ready == SHARE_READY_ALWAYS ||
	       __atomic_load_n(&s->tried, __ATOMIC_ACQUIRE) ||
	       clock_msec() - s->started >= s->warm_timeout_ms;
}

/* ---- start and stop ---- */

int sibling_open(struct sibling_reader *s, struct agent *a, const struct loop_opts *o,
    const struct route_opts *ro, const struct hash_key *key, bool kept, struct err *e)
{
	const struct share_opts *so = &o->share;

	s->agent = a;
	s->every_ms = so->snapshot_from_every_ms;
	s->ready = so->ready;
	s->warm_timeout_ms = so->warm_timeout_ms;
	s->bytes_most = snapshot_load_bytes(ro->index.max_bytes);
	s->sessions_most = ro->sessions_max_bytes > 0 ? route_sessions_bytes_most(ro) + HEAD_MAX : 0;
	for (unsigned i = 0; i < LISTEN_MAX && so->snapshot_from[i][0] != '\0'; i++) {
		if (addr_parse(so->snapshot_from[i], &s->addr[i], e) != 0)
			return -1;
		snprintf(s->text[i], sizeof(s->text[i]), "%s", so->snapshot_from[i]);
		s->n++;
	}
	if ((s->n > 0 || so->serve_snapshot) && !kept)
		return err_set(e,
		    "share.snapshot_from and share.serve_snapshot need a permanent key that both agents have: "
		    "state_dir is missing or not writable, and key_file is not set");
	s->proof = sibling_proof(key);
	s->serves = so->serve_snapshot;
	thread_sleep_init(&s->sleep);
	return 0;
}

int sibling_start(struct sibling_reader *s, struct err *e)
{
	int rc;

	if (s->n == 0)
		return 0;
	s->started = clock_msec();
	if ((rc = pthread_create(&s->thread, NULL, sibling_main, s)) != 0)
		return err_set(e, "cannot start the thread that reads snapshots: %s", strerror(rc));
	s->running = true;
	return 0;
}

void sibling_stop(struct sibling_reader *s)
{
	if (!s->running)
		return;
	__atomic_store_n(&s->stopping, true, __ATOMIC_RELEASE);
	thread_sleep_end(&s->sleep);
	pthread_join(s->thread, NULL);
	s->running = false;
}
