/* status.h - /status.json of an agent, read as it arrives: what top and trial show.
 *
 * The bytes may come from any process at that address. So names are cut to what fits, characters
 * other than printable ASCII become question marks, and lists are bounded. A figure that the agent
 * does not have is NAN. Fields as in kvroute(8), HTTP. */
#ifndef KVROUTE_CTL_STATUS_H
#define KVROUTE_CTL_STATUS_H

#include "agent/base/json.h"
#include "agent/base/vec.h"

#define STATUS_NAME	64
#define STATUS_TEXT	200
#define STATUS_ROWS_MAX	2048	/* of each list; further ones are not read */

struct status_server {
	char pool[STATUS_NAME], name[STATUS_NAME], speed_source[STATUS_NAME],
	    capacity_source[STATUS_NAME];
	double up, closed, backup, weight, open, queue, backlog_s, tokens_per_s, penalty, picked,
	    hit_tokens, failures, held_tokens, capacity_tokens, kv_used;
};

struct status_pool {
	char name[STATUS_NAME], mode[STATUS_NAME], facts[STATUS_NAME];
	double requests, pressure, wait_error;
	/* of shadow mode: sums over requests whose server is known */
	struct {
		double requests, same, prompt_tokens, hit_tokens, haproxy_hit_tokens, first_s,
		    haproxy_first_s, gain_tokens2, gain_s2;
		double timed, timed_s, haproxy_timed_s, timed_gain_s2;
	} shadow;
};

struct status_problem {
	char what[STATUS_NAME], pool[STATUS_NAME], message[STATUS_TEXT], remedy[STATUS_TEXT];
	double since_s, last_seen_s, quiet;
};

struct status_all {
	char version[STATUS_NAME];
	double time_ms, uptime_s, ready, draining, connections, requests, cut, open, prompt_tokens,
	    hit_tokens, first_tokens, ends;
	double decisions, decision_s, declined, hurried;
	double index_bytes, index_max_bytes, pages, spaces;
};

struct status {
	struct status_all all;
	VEC(struct status_server) servers;
	VEC(struct status_pool) pools;
	VEC(struct status_problem) problems;
	/* while it is read: */
	struct json json;
	unsigned row;			/* list of the open row, an enum of status.c */
	unsigned names;			/* names of the path in use */
	char name[4][JSON_KEY_MAX + 1];
	int field;			/* of the next value; -1: not used */
	size_t n_text;
	bool failed;			/* no memory */
};

/* Start to read; frees what <s> held, which is zeroed or was read before. */
void status_start(struct status *s);
enum json_state status_feed(struct status *s, const char *p, size_t n);
void status_free(struct status *s);

#endif
