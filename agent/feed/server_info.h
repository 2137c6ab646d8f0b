/* server_info.h - where an engine publishes KV cache events and its load: SGLang's answer to
 * GET /server_info.
 *
 *      { ...,
 *        "kv_events_config": "{\"endpoint\": \"tcp://..\", \"replay_endpoint\": \"tcp://..\"}",
 *        "kv_events": { "publisher": "zmq", "endpoint_host": "..", "endpoint_port_base": 5557,
 *                       "topic": "kv", "block_size": 64, "dp_size": 2,
 *                       "load_endpoint_port_base": 5559 }, ... }
 *
 * kv_events is null, or missing before SGLang of May 2026, if it publishes none. The option as it
 * was given is there as text, and only it has the replay endpoint. Hosts are not read: an engine
 * must not choose which host the agent connects to.
 *
 * Bytes may arrive in pieces of any size; this struct is all the memory used. */
#ifndef KVROUTE_FEED_SERVER_INFO_H
#define KVROUTE_FEED_SERVER_INFO_H

#include "agent/base/json.h"

#define SERVER_INFO_ANSWER_MAX	(4u << 20)
#define SERVER_INFO_TEXT_MAX	199	/* bytes of a text; a longer one counts as absent */
#define SERVER_INFO_TOPIC_MAX	63
#define SERVER_INFO_RANKS_MAX	64
#define SERVER_INFO_BLOCK_MAX	65536

/* Zeroed: it publishes nothing that can be read. */
struct server_info {
	uint16_t port;		/* of rank 0; 0: none */
	uint16_t replay_port;	/* the same; 0: it replays nothing */
	uint32_t ranks;		/* 1 to SERVER_INFO_RANKS_MAX; 0: not told */
	uint32_t block_size;	/* tokens; 0: not told */
	char topic[SERVER_INFO_TOPIC_MAX + 1];	/* visible ASCII; "": all */
	uint16_t load_port;	/* of the load socket of rank 0; 0: none */
};

enum {
	SERVER_INFO_E_ANSWER = 1,	/* longer than SERVER_INFO_ANSWER_MAX */
	SERVER_INFO_E_JSON,		/* not a JSON object, or its end is missing */
	SERVER_INFO_E_COUNT
};

/* The state of one answer; private to server_info.c. */
struct server_info_reader {
	struct json json, option;	/* the answer; the text of kv_events_config */
	uint32_t answer_bytes;
	bool is_object;
	enum { SERVER_INFO_ELSEWHERE, SERVER_INFO_OPTION, SERVER_INFO_EVENTS } in;
	int key, option_key;		/* of the current value */
	char text[SERVER_INFO_TEXT_MAX + 1];
	uint32_t n_text;		/* above SERVER_INFO_TEXT_MAX: truncated */
	bool zmq;
	struct server_info info;
};

void server_info_init(struct server_info_reader *r);

/* Consume <n> bytes. Returns 0, or -SERVER_INFO_E_... from then on. */
int server_info_feed(struct server_info_reader *r, const void *p, size_t n);

/* End the answer and fill <out>. Returns 0, or -SERVER_INFO_E_... and leaves <out> undefined. */
int server_info_end(struct server_info_reader *r, struct server_info *out);

const char *server_info_strerror(int error);

#endif
