/* poll_engine_in.h - the polls of one engine: its metrics, and where it publishes KV cache events.
 *
 *      events.endpoint: auto     GET /server_info, until answered; again after a restart
 *      then, each interval       GET <metrics>: load to the core; ranks and start are kept
 *
 * A restart shows as an error, or as another start in the metrics. */
#ifndef KVROUTE_LOOP_POLL_ENGINE_IN_H
#define KVROUTE_LOOP_POLL_ENGINE_IN_H

#include "agent/feed/http_answer.h"
#include "agent/feed/sgl_load.h"
#include "agent/loop/poll_peers_in.h"

/* The part that stats sockets and engines share. */
struct polled_peer {
	struct list link;
	struct poll_peers *peers;
	struct poll_counters *count;
	struct poll_client client;
	bool wanted;		/* is in the list that is being applied */
	enum { STATE_UNKNOWN, STATE_GOOD, STATE_BAD } state;	/* as logged */
	usec began;
	char why[160];		/* reason of the last invalid answer */
};

struct engine_poll {
	struct polled_peer poll;
	struct engine_opts who;
	char request[ADDR_MAX + ENGINE_URL_MAX + 128];
	struct http_answer http;
	enum { ASKS_METRICS, ASKS_LOADS, ASKS_INFO } asks;	/* LOADS: SGLang's /v1/loads, in JSON */
	union {
		struct metrics text;
		struct sgl_loads_answer loads;
		struct server_info_reader info;
	};
	struct engine_told told;
	bool has_info;		/* /server_info was answered since the last restart */
	enum { STATE_UNKNOWN_INFO, STATE_TOLD, STATE_NOT_TOLD } info_state;	/* as logged */
	msec info_at;		/* not before */
	bool changed;		/* <told> was, in this request */
};

void polled_peer_set_bad(struct polled_peer *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Count the end of a request. Returns true if the state has changed, which is logged. */
bool polled_peer_count_end(struct polled_peer *p, const char *error);
void polled_peer_log_error(
    struct log_line *ln, const struct polled_peer *p, const char *error, const char *effect);
void polled_peer_start(struct poll_peers *p, struct polled_peer *one, struct list *in,
    struct poll_counters *count, msec after);

/* Poll <who>, whose metrics are an address without place-holders. */
void engine_poll_add(struct poll_peers *p, const struct engine_opts *who, msec after);

/* Replace the options, which have the same server and metrics. */
void engine_poll_set(struct engine_poll *e, const struct engine_opts *who);

#endif
