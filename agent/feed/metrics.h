/* metrics.h - what an inference engine says of itself in Prometheus' text format, as one report.
 *
 *     # TYPE vllm:num_requests_waiting gauge
 *     vllm:num_requests_waiting{engine="0",model_name="m"} 3.0            counts of ranks are added up,
 *     vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.61            shares are averaged
 *     vllm:cache_config_info{block_size="16",num_gpu_blocks="11560",...} 1.0
 *     vllm:lora_requests_info{max_lora="4",running_lora_adapters="a,b",waiting_lora_adapters=""} 1.78e+09
 *
 *     what          vLLM                          SGLang                       TensorRT-LLM
 *     waiting       num_requests_waiting          num_queue_reqs               num_requests_waiting
 *     running       num_requests_running          num_running_reqs             num_requests_running
 *     kv_used       kv_cache_usage_perc, before   token_usage                  kv_cache_utilization
 *                   gpu_cache_usage_perc
 *     block_size    cache_config_info:            cache_config_info:           kv_cache_tokens_per_block
 *                   block_size                    page_size
 *     capacity      kv_cache_size_tokens, before  max_total_num_tokens,        kv_cache_max_blocks
 *                   num_gpu_blocks                or num_pages
 *     adapters      lora_requests_info            -                            -
 *
 *     "vllm:", "sglang:" and "trtllm_" stand before these names.
 *
 * A series of lora_requests_info lives for ever once its labels were seen: its value is when that was, so the
 * newest one is what holds now, and the others say which adapters ran last. The engine keeps max_lora of them
 * loaded and lets go of the one used longest ago; so do we, from those times.
 *
 * Series of a second view of the same scheduler (SGLang's pp_rank, and tp_rank without a dp_rank) are left out.
 *
 * Bytes may arrive in any cuts. Nothing of an answer is kept but this struct, whatever comes: what is no line of
 * the format is counted and skipped. Most of an engine's answer are histograms, passed over with memchr(). */
#ifndef KVROUTE_FEED_METRICS_H
#define KVROUTE_FEED_METRICS_H

#include "agent/base/types.h"

#define ENGINE_ADAPTERS_MAX	32	/* of one engine; those named longest ago are forgotten above */
#define ENGINE_ADAPTER_NAME_MAX	127	/* longer names are left out */
#define METRICS_ANSWER_MAX	(16u << 20)
#define METRICS_LIST_MAX	1023	/* bytes of a list of adapters; what is behind is left out */

struct engine_adapter {
	char name[ENGINE_ADAPTER_NAME_MAX + 1];
	bool running, waiting;		/* now; neither: loaded, it ran before */
};

struct engine_report {
	int64_t waiting, running;	/* requests; -1: not told */
	double kv_used;			/* 0 .. 1; negative: not told */
	uint32_t block_size;		/* tokens; 0: not told */
	uint64_t capacity;		/* tokens in all its KV caches; 0: not told */
	uint32_t n_adapters;
	struct engine_adapter adapter[ENGINE_ADAPTERS_MAX];
};

enum {
	METRICS_E_ANSWER = 1,	/* longer than METRICS_ANSWER_MAX */
	METRICS_E_FOREIGN,	/* not one metric of an engine we know in it */
	METRICS_E_COUNT
};

/* ---- for metrics.c --------------------------------------------------------------------------------- */

#define METRICS_NAME_MAX	47	/* the longest name of ours has 31 bytes */
#define METRICS_LABEL_MAX	31
#define METRICS_NUMBER_MAX	39
#define METRICS_ROWS		16

enum metrics_label {
	LABEL_BLOCK_SIZE, LABEL_BLOCKS, LABEL_TOKENS, LABEL_MAX_LORA, LABEL_TP, LABEL_PP, LABEL_DP, N_NUMBER_LABELS,
	LABEL_RUNNING = N_NUMBER_LABELS, LABEL_WAITING, LABEL_OTHER
};

struct metrics_list {		/* of adapters, with commas */
	char text[METRICS_LIST_MAX + 1];
	uint32_t n;		/* may be METRICS_LIST_MAX + 1: it was cut */
};

struct metrics_seen {
	struct engine_adapter a;
	double named, ran;	/* when last; 0: never */
};

/* One answer being read. */
struct metrics {
	enum { METRICS_LINE, METRICS_NAME, METRICS_LABELS, METRICS_LABEL, METRICS_IS, METRICS_OPEN, METRICS_VALUE,
	       METRICS_ESCAPE, METRICS_CLOSED, METRICS_GAP, METRICS_NUMBER, METRICS_TAIL, METRICS_SKIP } at;
	char name[METRICS_NAME_MAX + 1], label[METRICS_LABEL_MAX + 1], number[METRICS_NUMBER_MAX + 1];
	uint32_t n_name, n_label, n_number;
	int row;			/* of the metric being read */
	enum metrics_label which;	/* label */
	int64_t of_label[N_NUMBER_LABELS];	/* -1: not there, or no number */
	struct metrics_list running, waiting;	/* lists of the series being read */
	/* what came so far */
	double sum[METRICS_ROWS];
	uint32_t n[METRICS_ROWS];
	double block_size, blocks_tokens, cache_tokens;	/* of *_cache_config_info */
	double newest;			/* of lora_requests_info */
	int64_t max_lora;
	struct metrics_seen seen[ENGINE_ADAPTERS_MAX];
	uint32_t n_seen;
	uint32_t answer_bytes;
	int error;

	/* the caller's, to read: */
	uint64_t bad_lines;
};

void metrics_init(struct metrics *m);

/* 0, or -METRICS_E_ANSWER, for ever. <n> may be 0. */
int metrics_feed(struct metrics *m, const void *p, size_t n);

/* The answer is whole: what it said. 0, or -METRICS_E_..., and <r> is not to be read. A last line without its end
 * counts. Once. */
int metrics_end(struct metrics *m, struct engine_report *r);

const char *metrics_strerror(int error);

#endif
