/* sgl_load.h - decode SGLang's load: the messages of its load socket, and the answer of /v1/loads.
 *
 * With --load-publish-endpoint each rank publishes its load, in three frames: the topic "load", a
 * sequence number (eight bytes, big endian), and one object in MessagePack. It is an array, to
 * which newer versions append; a map with the same names is read as well.
 *
 *     ["LoadStat", num_running_reqs, num_waiting_reqs, num_tokens, max_total_num_tokens,
 *      attn_dp_rank, num_waiting_uncached_tokens, ...]
 *     {"type": "LoadStat", "num_running_reqs": 5, ...}
 *
 * GET /v1/loads answers with one object a rank:
 *
 *     {"version": "0.5.18", "loads": [{"dp_rank": 0, "num_running_reqs": 5, "num_waiting_reqs": 2,
 *      "num_used_tokens": 812, "max_total_num_tokens": 65536, "token_usage": 0.0124, ...}]}
 *
 * Tokens in use are those of running requests; cached tokens that no request uses do not count
 * (scheduler_components: used = total - available - evictable). A rank is a cache of its own; the
 * load of a server is the sum of its ranks.
 *
 * Positions and names: sglang/srt/managers/scheduler_components/load_publisher.py and
 * sglang/srt/entrypoints/v1_loads.py. */
#ifndef KVROUTE_FEED_SGL_LOAD_H
#define KVROUTE_FEED_SGL_LOAD_H

#include "agent/base/json.h"
#include "agent/feed/engine_load.h"

#define SGL_LOAD_TOPIC		"load"
#define SGL_LOAD_RANKS_MAX	64
#define SGL_LOAD_ANSWER_MAX	(1u << 20)	/* bytes of /v1/loads */

struct sgl_rank_load {
	uint32_t rank;
	uint64_t running, waiting;		/* requests */
	bool has_tokens;
	uint64_t tokens, max_tokens;		/* in use; in its cache */
};

enum {
	SGL_LOAD_E_FORM = 1,	/* not MessagePack, not JSON, incomplete, or too long */
	SGL_LOAD_E_OTHER,	/* another message, or another answer */
	SGL_LOAD_E_FIELD,	/* a field is missing or has the wrong type */
	SGL_LOAD_E_RANKS,	/* more ranks than SGL_LOAD_RANKS_MAX */
	SGL_LOAD_E_COUNT
};

const char *sgl_load_strerror(int error);

/* Decode the third frame. A message without a rank is of rank 0. Returns 0 and sets <out>, or
 * -SGL_LOAD_E_... Allocates nothing. O(bytes). */
int sgl_load_message(struct span payload, struct sgl_rank_load *out);

/* The last loads of the ranks of one server. */
struct sgl_loads {
	uint32_t n;
	struct sgl_rank_load of[SGL_LOAD_RANKS_MAX];
};

/* Replace the load of its rank. Returns -SGL_LOAD_E_RANKS, and changes nothing, if there are too
 * many. */
int sgl_loads_put(struct sgl_loads *l, const struct sgl_rank_load *one);

/* Sum the ranks. <kv_used> is their tokens in use over their tokens, unless a rank tells none. */
void sgl_loads_sum(const struct sgl_loads *l, struct engine_load *out);

/* The state of one answer of /v1/loads. */
struct sgl_loads_answer {
	struct json json;
	struct sgl_loads loads;
	struct sgl_rank_load rank;	/* the current one */
	unsigned seen;			/* its fields */
	int field;			/* of the next number; -1: unknown */
	bool in_loads, any;
	uint32_t bytes;
	int error;
};

void sgl_loads_answer_init(struct sgl_loads_answer *a);

/* Consume <n> more bytes of the body. Returns 0, or -SGL_LOAD_E_... from then on. */
int sgl_loads_answer_feed(struct sgl_loads_answer *a, const char *p, size_t n);

/* End the answer. Returns 0 and sets <out>, or -SGL_LOAD_E_... */
int sgl_loads_answer_end(struct sgl_loads_answer *a, struct engine_load *out);

#endif
