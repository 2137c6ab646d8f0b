/* The polls of one engine. */
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/base/count.h"
#include "agent/loop/poll_engine_in.h"
#include "agent/os/clock.h"

#define INFO_PATH	"/server_info"
#define INFO_PAUSE_MS	10000	/* between requests for it */

_Static_assert(sizeof(struct engine_poll) <= POLL_BYTES, "loop_budget() counts too little");

/* ---- the request ------------------------------------------------------------------------ */

static void on_body(void *arg, const char *p, size_t n)
{
	struct engine_poll *e = arg;

	if (e->http.status != 200)
		return;
	if (e->asks == ASKS_INFO)
		server_info_feed(&e->info, p, n);
	else if (e->asks == ASKS_LOADS)
		sgl_loads_answer_feed(&e->loads, p, n);
	else
		metrics_feed(&e->text, p, n);
}

static bool wants_info(const struct engine_poll *e)
{
	return engine_events_are_auto(&e->who) && !e->has_info && clock_msec() >= e->info_at;
}

static void make_request(struct engine_poll *e)
{
	struct engine_url t;
	struct err err;

	engine_url_parse(e->who.metrics, &t, &err);	/* was valid when it was added */
	e->asks = wants_info(e) ? ASKS_INFO : strstr(t.path, "/v1/loads") != NULL ? ASKS_LOADS :
	                                                                        ASKS_METRICS;
	snprintf(e->request, sizeof(e->request),
	    "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: kvroute/" KVROUTE_VERSION
	    "\r\nAccept: %s\r\n\r\n",
	    e->asks == ASKS_INFO ? INFO_PATH : t.path, t.host,
	    e->asks == ASKS_METRICS ? "text/plain;version=0.0.4" : "application/json");
	e->poll.client.request = span_str(e->request);
}

static void engine_begin(void *arg)
{
	struct engine_poll *e = arg;

	e->poll.began = clock_usec();
	make_request(e);
	http_answer_init(&e->http, on_body, e);
	if (e->asks == ASKS_INFO) {
		e->info_at = clock_msec() + INFO_PAUSE_MS;
		server_info_init(&e->info);
	} else if (e->asks == ASKS_LOADS) {
		sgl_loads_answer_init(&e->loads);
	} else {
		metrics_init(&e->text);
	}
}

/* ---- the answer of /server_info --------------------------------------------------------- */

static void log_info(struct engine_poll *e, bool told)
{
	const struct server_info *i = &e->told.info;
	bool changed = e->info_state != (told ? STATE_TOLD : STATE_NOT_TOLD);
	struct log_line ln;

	e->info_state = told ? STATE_TOLD : STATE_NOT_TOLD;
	if (!changed ||
	    !log_begin(&ln, &e->poll.peers->agent->log, told ? LOG_INFO : LOG_WARN, LOG_POLL,
		told ? "engine tells where it publishes KV cache events" :
		       "engine does not tell where it publishes KV cache events"))
		return;
	log_text(&ln, "pool", e->who.pool);
	log_text(&ln, "server", e->who.name);
	if (told) {
		log_int(&ln, "port", i->port);
		log_int(&ln, "replay_port", i->replay_port);
		log_int(&ln, "ranks", i->ranks);
		log_int(&ln, "block_size", i->block_size);
		log_int(&ln, "load_port", i->load_port);
	} else {
		log_int(&ln, "status", e->http.status);
		log_text(&ln, "effect", "its events are not read");
		log_text(&ln, "remedy",
		    "start SGLang with --kv-events-config, or set engines.events.endpoint to the address");
	}
	log_end(&ln);
}

/* An answer of another status than 200 is that of an engine without /server_info, or of one that
 * is starting. */
static enum poll_client_reply info_report(struct engine_poll *e)
{
	struct server_info info = { .port = 0 };

	if (e->http.status == 200 && server_info_end(&e->info, &info) == 0)
		e->has_info = true;
	else
		memset(&info, 0, sizeof(info));
	e->changed |= memcmp(&info, &e->told.info, sizeof(info)) != 0;
	e->told.info = info;
	log_info(e, info.port > 0);
	return e->http.keep ? POLL_CLIENT_KEEP : POLL_CLIENT_CLOSE;
}

/* ---- the answer of metrics -------------------------------------------------------------- */

/* End the answer. Returns 0 and sets <r>, or -1 and sets the reason. */
static int engine_answer_end(struct engine_poll *e, struct engine_report *r)
{
	struct engine_load l;
	int rc;

	if (e->asks == ASKS_LOADS) {
		rc = sgl_loads_answer_end(&e->loads, &l);
		*r = (struct engine_report){
			.waiting = l.waiting, .running = l.running, .kv_used = l.kv_used, .capacity = l.capacity,
		};
		if (rc < 0)
			polled_peer_set_bad(&e->poll, "%s", sgl_load_strerror(rc));
		return rc < 0 ? -1 : 0;
	}
	rc = metrics_end(&e->text, r);
	count_add(&e->poll.count->items_bad, e->text.bad_lines);
	if (rc < 0)
		polled_peer_set_bad(&e->poll, "%s", metrics_strerror(rc));
	return rc < 0 ? -1 : 0;
}

static void note_ranks(struct engine_poll *e, const struct engine_report *r)
{
	e->changed |= !e->told.answered || (r->ranks > 0 && r->ranks != e->told.ranks);
	e->told.answered = true;
	if (r->ranks > 0)
		e->told.ranks = r->ranks;
}

/* The engine was restarted, or may have been. */
static void ask_again(struct engine_poll *e)
{
	e->has_info = false;
	e->info_at = 0;
}

static void note_start(struct engine_poll *e, const struct engine_report *r)
{
	struct poll_peers *p = e->poll.peers;

	if (r->started == 0 || r->started == e->told.started)
		return;
	if (e->told.started != 0)
		ask_again(e);
	e->told.started = r->started;
	if (p->on_start != NULL)
		p->on_start(p->arg, &e->who, r->started);
}

static enum poll_client_reply engine_report(struct engine_poll *e)
{
	struct agent *a = e->poll.peers->agent;
	struct engine_report r;
	msec now = agent_msec(a);

	if (e->asks == ASKS_INFO)
		return info_report(e);
	if (e->http.status != 200) {
		polled_peer_set_bad(&e->poll, "HTTP status %d", e->http.status);
		return POLL_CLIENT_BAD;
	}
	if (engine_answer_end(e, &r) < 0)
		return POLL_CLIENT_BAD;
	count_add(&e->poll.count->items, 1);
	note_ranks(e, &r);
	note_start(e, &r);
	if (r.block_size == 0)
		r.block_size = e->told.info.block_size;
	route_observe_engine(a->route, span_str(e->who.pool), span_str(e->who.name), &r, now,
			     now + poll_client_holds_ms(&e->poll.client));
	return e->http.keep ? POLL_CLIENT_KEEP : POLL_CLIENT_CLOSE;
}

static enum poll_client_reply engine_feed(void *arg, const char *p, size_t n)
{
	struct engine_poll *e = arg;
	ssize_t rc = n > 0 ? http_answer_feed(&e->http, p, n) : http_answer_eof(&e->http);

	count_add(&e->poll.count->bytes, n);
	if (rc < 0) {
		polled_peer_set_bad(&e->poll, "%s", http_answer_strerror((int)rc));
		return POLL_CLIENT_BAD;
	}
	if (rc == 0 && n > 0)
		return POLL_CLIENT_MORE;
	if ((size_t)rc < n)
		e->http.keep = false;	/* more bytes than the answer has */
	return engine_report(e);
}

/* ---- the end of a request --------------------------------------------------------------- */

static void log_state(struct engine_poll *e, const char *error)
{
	struct log_line ln;

	if (!log_begin(&ln, &e->poll.peers->agent->log, error != NULL ? LOG_WARN : LOG_INFO, LOG_POLL,
		error != NULL ? "no metrics from engine" : "engine metrics received"))
		return;
	log_text(&ln, "pool", e->who.pool);
	log_text(&ln, "server", e->who.name);
	log_text(&ln, "metrics", e->who.metrics);
	polled_peer_log_error(&ln, &e->poll, error, "its queue and cache size are estimated");
}

static void engine_ended(void *arg, const char *error)
{
	struct engine_poll *e = arg;
	bool changed = e->changed;

	e->changed = false;
	if (error != NULL) {
		changed |= !e->told.answered;
		e->told.answered = true;	/* nothing more is to be expected soon */
		if (e->asks != ASKS_INFO)
			ask_again(e);
	}
	if ((e->asks != ASKS_INFO || error != NULL) && polled_peer_count_end(&e->poll, error))
		log_state(e, error);
	if (changed && e->who.events.endpoint[0] != '\0')
		poll_peers_told(e->poll.peers);
}

void engine_poll_set(struct engine_poll *e, const struct engine_opts *who)
{
	e->who = *who;
}

void engine_poll_add(struct poll_peers *p, const struct engine_opts *who, msec after)
{
	struct engine_poll *en = mem_alloc(sizeof(*en));
	struct engine_url t;
	struct err e;

	if (en == NULL || engine_url_parse(who->metrics, &t, &e) != 0) {
		mem_free(en);
		return;
	}
	en->who = *who;
	en->poll.client.to = t.to;
	en->poll.client.arg = en;
	en->poll.client.begin = engine_begin;
	en->poll.client.feed = engine_feed;
	en->poll.client.ended = engine_ended;
	polled_peer_start(p, &en->poll, &p->engines, &p->engines_count, after);
}
