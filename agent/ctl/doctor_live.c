/* doctor_live.c - "doctor --live": send one request through a running HAProxy and say at which
 * station it got lost.
 *
 *   show stat    /metrics    the request     show events RING      /decisions?uid=
 *   agent is up  it answers  HAProxy serves  filter, agent, server  the agent learned its end
 *
 * With --heap the memory of HAProxy is examined then: doctor_live_heap.c.
 *
 * The request is marked by its size, which is random: the log line with that "in" has its uid. Its
 * text is the agent's own, so nothing of a client is read or shown. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "agent/ctl/doctor_live.h"
#include "agent/ctl/get.h"
#include "agent/route/problems.h"

#define HEAD_ROOM	96u	/* HAProxy counts the head in its own form */
#define PAUSE_MS	100
#define ANSWER_S	60	/* and --wait */

void live_passed(const char *station, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("ok    %s: ", station);
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
}

int live_lost(const char *station, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("lost  %s: ", station);
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
	return -1;
}

static void pause_once(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000 }, NULL);
}

bool live_next_try(const struct live *l, unsigned i)
{
	if (i > 0)
		pause_once();
	return i <= l->a->wait_s * 1000 / PAUSE_MS;
}

/* ---- stations before the request ----------------------------------------------------------- */

/* Find the rows of <backend>. Returns how many servers it has; <up>: how many are up; <drained>:
 * how many are drained otherwise than by weight 0. */
static unsigned count_rows(const char *stat, const char *backend, unsigned *up, unsigned *drained)
{
	unsigned n = 0;
	size_t len = strlen(backend);

	*up = *drained = 0;
	for (const char *p = stat; *p != '\0'; p += strcspn(p, "\n"), p += *p == '\n') {
		const char *field = p;

		if (strncmp(p, backend, len) != 0 || p[len] != ',' ||
		    strncmp(p + len, ",BACKEND,", 9) == 0 || strncmp(p + len, ",FRONTEND,", 10) == 0)
			continue;
		for (int i = 0; i < 17 && field != NULL; i++)
			field = (field = strchr(field, ',')) != NULL ? field + 1 : NULL;
		n++;
		*up += field != NULL && (strncmp(field, "UP", 2) == 0 || strncmp(field, "no check", 8) == 0);
		*drained += field != NULL && strncmp(field, "DRAIN", 5) == 0;
	}
	return n;
}

static void say_drained(const struct live *l, const char *pool, unsigned n)
{
	printf("note  HAProxy: %u server%s of %s %s drained, which HAProxy does not show the agent: set "
	       "weight 0 instead, or write into the agent's configuration: stats_feed: {sockets: "
	       "[\"%s%s\"]}, if the agent's user may write to it\n",
	       n, n == 1 ? "" : "s", pool, n == 1 ? "is" : "are",
	       l->a->live[0] == '/' ? "unix@" : "", l->a->live);
}

/* Each pool needs a server that is up. */
static int check_pools(struct live *l, const char *stat)
{
	unsigned n, up, drained;

	for (size_t i = 0; i < l->way.n_pools; i++) {
		n = count_rows(stat, l->way.pools[i], &up, &drained);
		if (drained > 0 && !doctor_sees_drain(l->d))
			say_drained(l, l->way.pools[i], drained);
		if (n > 0 && up == 0)
			return live_lost("HAProxy", "no server of %s is up: start the engines, and look at the checks "
			    "of their server lines", l->way.pools[i]);
	}
	return 0;
}

static int check_haproxy(struct live *l)
{
	struct buf stat = { 0 };
	const char *why = "";
	unsigned up = 0, n = 0, drained;
	int status = live_ask_haproxy(l, "show stat\n", &stat, &why);

	if (status < 0)
		live_lost("HAProxy", "no answer from its stats socket %s (%s): name the address after \"stats "
		    "socket\" in global, as a user who may write to it", l->a->live, why);
	else if ((n = count_rows(stat.p, l->way.agent, &up, &drained)) == 0)
		status = live_lost("HAProxy", "the running HAProxy has no backend %s: reload it with this "
		    "configuration", l->way.agent);
	else if (up == 0)
		status = live_lost("agent", "HAProxy holds each server of %s for down, so it asks none: start "
		    "kvroute, compare the server line with spop.listen, and let HAProxy's group write to the "
		    "agent's socket if that is a unix socket", l->way.agent);
	else if ((status = check_pools(l, stat.p)) == 0)
		live_passed("HAProxy", "%u of %u servers of %s are up", up, n, l->way.agent);
	buf_free(&stat);
	return status;
}

/* ---- the request --------------------------------------------------------------------------- */

/* Send the request and read the answer. Returns 0, or -1 without a whole answer. */
static int exchange(struct live *l, int fd, const char *host, struct buf *answer)
{
	struct timeval limit = { .tv_sec = ANSWER_S + l->a->wait_s };
	struct buf request = { 0 };
	int status = -1;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	live_request(l, host, &request);
	live_mark_ring(l);
	if (!request.failed &&
	    send(fd, request.p, request.n, MSG_NOSIGNAL) == (ssize_t)request.n)
		status = live_read(fd, answer);
	buf_free(&request);
	return status;
}

static int send_request(struct live *l)
{
	const char *url = live_url(l), *host = live_host(url), *why = "";
	bool tls = strncmp(url, LIVE_TLS, sizeof(LIVE_TLS) - 1) == 0;
	struct buf answer = { 0 };
	int fd, status, code = 0;
	pid_t child = 0;

	if (host[0] == '\0')
		return live_lost("request", "no frontend of a pool has a bind line that this host can use: name "
		    "an address of HAProxy with --url, as 127.0.0.1:80 or https://127.0.0.1:443");
	fd = tls ? live_connect_tls(host, &child, &why) : ctl_connect(host, &why);
	if (fd < 0 && why == NULL)
		return live_lost("request", "TLS needs the program openssl, which does not start: install it, or "
		    "name an address without TLS of a frontend that leads to the same pool with --url");
	if (fd < 0)
		return live_lost("request", "HAProxy does not take connections at %s (%s): name the address of a "
		    "frontend with --url", url, why);
	status = exchange(l, fd, host, &answer);
	close(fd);
	if (tls)
		live_end_tls(child);
	if (answer.n > 12 && strncmp(answer.p, "HTTP/1.", 7) == 0)
		code = atoi(answer.p + 9);
	buf_free(&answer);
	if (code == 0)
		return live_lost("request", "%s %s: look at HAProxy's log and at the engines", url, status < 0 ?
		    "did not answer in time" : "closed the connection without an answer");
	if (code == 401 || code == 403 || code == 429)
		printf("note  request: the answer is %d: if a rule of the frontend wants a key, add it with "
		    "--header \"authorization: Bearer KEY\"\n", code);
	live_passed("request", "sent to %s, answer %d", url, code);
	return 0;
}

/* ---- the log line -------------------------------------------------------------------------- */

bool live_take_field(const char *line, size_t n, const char *name, char *to, size_t room)
{
	char key[32];
	const char *at;
	size_t len;

	snprintf(key, sizeof(key), "\"%s\":", name);
	if ((at = memmem(line, n, key, strlen(key))) == NULL)
		return false;
	at += strlen(key);
	at += *at == '"';
	len = strcspn(at, "\",}\n");
	snprintf(to, room, "%.*s", (int)(len < room ? len : room - 1), at);
	for (; *to != '\0'; to++)
		*to = *to < ' ' || *to > '~' ? '?' : *to;
	return true;
}

/* Tell if a line is that of the request. */
static bool is_marked(const struct live *l, const char *line, size_t n)
{
	char in[32];
	unsigned long bytes;

	if (!live_take_field(line, n, "in", in, sizeof(in)))
		return false;
	bytes = strtoul(in, NULL, 10);
	return bytes + HEAD_ROOM >= l->n_sent && bytes <= l->n_sent + HEAD_ROOM;
}

/* Return the lines that came after the request was sent. */
static const char *new_lines(const struct live *l, const char *events)
{
	const char *at = l->last.n > 0 ? strstr(events, l->last.p) : NULL;

	return at != NULL ? at + l->last.n - 1 : events;
}

/* Take the fields of a line. Returns false if one is missing. */
static bool take_line(struct live *l, const char *line, size_t n)
{
	return live_take_field(line, n, "uid", l->uid, sizeof(l->uid)) &&
	    live_take_field(line, n, "be", l->be, sizeof(l->be)) &&
	    live_take_field(line, n, "srv", l->srv, sizeof(l->srv)) &&
	    live_take_field(line, n, "want", l->want, sizeof(l->want)) &&
	    live_take_field(line, n, "why", l->why, sizeof(l->why)) &&
	    live_take_field(line, n, "err", l->err, sizeof(l->err));
}

/* Take the line of the request. Returns the number of requests that it may be: only 1 is a hit. */
static unsigned find_line(struct live *l, const char *events)
{
	char uid[sizeof(l->uid)] = "";
	unsigned found = 0;
	size_t n;

	for (const char *p = new_lines(l, events); *p != '\0'; p += n + (p[n] == '\n')) {
		n = strcspn(p, "\n");
		if (!is_marked(l, p, n))
			continue;
		if (found == 0)
			found = take_line(l, p, n);
		else if (live_take_field(p, n, "uid", uid, sizeof(uid)))
			found += strcmp(uid, l->uid) != 0;
	}
	return found;
}

static unsigned look_for_line(struct live *l)
{
	struct buf events = { 0 };
	unsigned found = live_ask_ring(l, &events) == 0 ? find_line(l, events.p) : 0;

	buf_free(&events);
	return found;
}

/* Returns the number of requests with a line that may be that of the request; 0: none has come.
 * Looks once more after a hit, because a client's line may have come before that of the request. */
static unsigned await_line(struct live *l)
{
	unsigned found = 0, again;

	for (unsigned i = 0; found == 0 && live_next_try(l, i); i++)
		found = look_for_line(l);
	if (found == 1) {
		pause_once();
		again = look_for_line(l);
		found = again > 0 ? again : found;
	}
	return found;
}

/* Send the request and find its line; once more, with another size, if that is ambiguous. */
static int send_and_find(struct live *l)
{
	unsigned found;

	if (send_request(l) < 0)
		return -1;
	if ((found = await_line(l)) > 1) {
		printf("note  log: another request of this size came at the same time: once more\n");
		if (send_request(l) < 0)
			return -1;
		found = await_line(l);
	}
	if (found > 1)
		return live_lost("log", "ring %s has several requests of this size: try again when there are "
		    "fewer clients", l->way.ring);
	if (found == 0)
		return live_lost("log", "ring %s has no JSON line of this request: check that its frontend has "
		    "the log target, log-format-sd (or log-format) and \"log global\" of haproxy-conf, and that "
		    "--url leads to it", l->way.ring);
	live_passed("log", "ring %s has its line, uid %s", l->way.ring, l->uid);
	return 0;
}

/* Judge a line without <why> that the list of variables leaves out: the agent knows the rest. */
static int judge_left_out(const struct live *l)
{
	printf("note  filter: the list of variables (vars in the SPOE file) leaves out why, so the agent "
	    "is asked whether it decided\n");
	if (l->want[0] != '\0' && strcmp(l->want, "-") != 0 && strcmp(l->want, l->srv) == 0)
		live_passed("server", "HAProxy took %s, as the agent chose", l->srv);
	return 0;
}

static int judge_line(struct live *l)
{
	bool none = l->why[0] == '\0' || strcmp(l->why, "-") == 0;
	unsigned code = haproxy_error_index(atoi(l->err));
	const struct haproxy_error *e = code < HAPROXY_ERRORS ? &haproxy_errors[code] : NULL;

	if (!doctor_is_pool(l->d, l->be) && strcmp(l->be, l->way.frontend) == 0)
		return live_lost("filter", "a rule of frontend %s answered before a backend was chosen: add what "
		    "the rule wants with --header", l->be);
	if (!doctor_is_pool(l->d, l->be))
		return live_lost("filter", "the request went to %s, which has no filter of kvroute: send it to a "
		    "path (--path) or with a header (--header) that leads to a pool", l->be);
	if (none && l->err[0] != '\0' && strcmp(l->err, "-") != 0)
		return live_lost("filter", "HAProxy's error %s, %s: %s", l->err, e != NULL ? e->cause : "unknown",
		    e != NULL ? e->remedy : "look into the logs of HAProxy and of the agent");
	if (none && !doctor_sets(l->d, l->be, "why"))
		return judge_left_out(l);
	if (none)
		return live_lost("filter", "HAProxy did not ask the agent: check that the path is one of "
		    "api-paths.lst, and the group and the conditions of send-spoe-group in %s", l->be);
	if (strcmp(l->why, "noload") == 0 || strcmp(l->why, "noserver") == 0)
		return live_lost("agent", "it chose no server (%s): check the line set-var-fmt(txn.load) in %s, "
		    "and that servers are up", l->why, l->be);
	live_passed("filter", "HAProxy asked the agent in %s, the answer is %s", l->be, l->why);
	if (!doctor_sets(l->d, l->be, "server"))
		return live_lost("server", "the list of variables (vars in the SPOE file) leaves out server, so "
		    "HAProxy balances: add it");
	if (strcmp(l->want, "-") == 0 || l->want[0] == '\0')
		printf("note  server: the agent named none (%s), so HAProxy balanced\n", l->why);
	else if (strcmp(l->want, l->srv) != 0)
		return live_lost("server", "the agent chose %s and HAProxy took %s: check the rules use-server "
		    "of %s, and register-var-names; or that server was down or full", l->want, l->srv, l->be);
	else
		live_passed("server", "HAProxy took %s, as the agent chose", l->srv);
	return 0;
}

int doctor_live(struct doctor *d, const struct doctor_args *a, const char *const *metrics)
{
	struct live l = { .d = d, .a = a };
	int status;

	for (; l.n_agents < LIVE_AGENTS && metrics[l.n_agents] != NULL; l.n_agents++)
		l.agent[l.n_agents].metrics = metrics[l.n_agents];
	doctor_way_of(d, &l.way);
	if (l.way.agent[0] == '\0') {
		live_lost("filter", "no pool has a filter of kvroute with an agent: attach it first (--write)");
		return 1;
	}
	status = check_haproxy(&l) < 0;
	/* an agent that does not answer here is asked by HAProxy all the same, whose error says more */
	if (status == 0)
		live_check_agents(&l);
	if (status == 0 && l.way.ring[0] == '\0')
		status = send_request(&l) < 0 || live_await_counters(&l, "no ring has the line") < 0;
	else if (status == 0)
		status = send_and_find(&l) < 0 || judge_line(&l) < 0 || live_await_end(&l) < 0;
	if (status == 0 && a->heap)
		status = live_check_heap(&l) < 0;
	buf_free(&l.last);
	fflush(stdout);
	return status;
}
