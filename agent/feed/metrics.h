/* metrics.h - decode an inference engine's metrics in Prometheus' text format into one report.
 *
 *     # TYPE vllm:num_requests_waiting gauge
 *     vllm:num_requests_waiting{engine="0",model_name="m"} 3.0            counts of ranks are
 *     summed,
 *     vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.61            shares are averaged
 *     vllm:cache_config_info{block_size="16",num_gpu_blocks="11560",...} 1.0
 *     vllm:lora_requests_info{max_lora="4",running_lora_adapters="a,b",waiting_lora_adapters=""}
 *     1.78e+09
 *
 *     what          vLLM                          SGLang                       TensorRT-LLM
 *     waiting       num_requests_waiting          num_queue_reqs               num_requests_waiting
 *     running       num_requests_running          num_running_reqs             num_requests_running
 *     kv_used       kv_cache_usage_perc, before   token_usage                  kv_cache_utilization
 *                   gpu_cache_usage_perc
 *     block_size    cache_config_info:            cache_config_info:
 *     kv_cache_tokens_per_block
 *                   block_size                    page_size
 *     capacity      kv_cache_size_tokens, before  max_total_num_tokens,        kv_cache_max_blocks
 *                   num_gpu_blocks                or num_pages
 *     adapters      lora_requests_info            -                            -
 *     hit_tokens    prefix_cache_hits_total,      cached_tokens_total          -
 *                   before gpu_prefix_cache_...
 *     asked_tokens  prefix_cache_queries_total    prompt_tokens_total          -
 *
 *     These names have the prefix "vllm:", "sglang:" or "trtllm_".
 *     vLLM never uses one of its blocks, but counts it among its tokens; <capacity> leaves it out.
 *
 * An engine never removes a series of lora_requests_info; its value is the time when its labels
 * were last set. The newest series is therefore the current state, and older ones tell which
 * adapters ran before. The engine keeps max_lora adapters loaded and evicts the least recently
 * used; the report derives the loaded ones from these times.
 *
 * Ranks are the numbers of the labels `engine` (vLLM) and `dp_rank` (SGLang) at running requests.
 * process_start_time_seconds, which both export, tells a restart.
 *
 * Series that repeat a scheduler (SGLang's pp_rank, and tp_rank without a dp_rank) are skipped.
 *
 * Bytes may arrive in pieces of any size, and this struct is all the memory used. Invalid lines
 * are counted and skipped. Most of an answer are histograms, which are skipped with memchr(). */
#ifndef KVROUTE_FEED_METRICS_H
#define KVROUTE_FEED_METRICS_H

#include "agent/base/types.h"

#define ENGINE_ADAPTERS_MAX	32	/* of one engine; the one named longest ago is replaced */
#define ENGINE_ADAPTER_NAME_MAX	127	/* an adapter with a longer name is skipped */
#define METRICS_ANSWER_MAX	(16u << 20)
#define METRICS_LIST_MAX	1023	/* bytes of a list of adapters; the rest is ignored */

struct engine_adapter {
	char name[ENGINE_ADAPTER_NAME_MAX + 1];
	bool running, waiting;		/* now; neither: loaded, because it ran before */
};

struct engine_report {
	int64_t waiting, running;	/* requests; -1: not told */
	double kv_used;			/* 0 .. 1; negative: not told */
	uint32_t block_size;		/* tokens; 0: not told */
	uint64_t capacity;		/* tokens in all its KV caches; 0: not told */
	/* ever found in its prefix cache, and of prompts looked up there; -1: not told */
	double hit_tokens, asked_tokens;
	uint32_t ranks;			/* of data parallelism, 1 to 64; 0: not told, or not numbered from 0 */
	double started;			/* of its process, seconds since 1970; 0: not told */
	uint32_t n_adapters;
	struct engine_adapter adapter[ENGINE_ADAPTERS_MAX];
};

enum {
	METRICS_E_ANSWER = 1,	/* longer than METRICS_ANSWER_MAX */
	METRICS_E_FOREIGN,	/* no metric of a known engine */
	METRICS_E_COUNT
};

/* ---- for metrics.c ------------------------------------------------------------------------ */

#define METRICS_NAME_MAX	47	/* the longest known name has 31 bytes */
#define METRICS_LABEL_MAX	31
#define METRICS_NUMBER_MAX	39
#define METRICS_ROWS		23

enum metrics_label {
	LABEL_BLOCK_SIZE, LABEL_BLOCKS, LABEL_TOKENS, LABEL_MAX_LORA, LABEL_TP, LABEL_PP, LABEL_DP,
	LABEL_ENGINE,
	N_NUMBER_LABELS, LABEL_RUNNING = N_NUMBER_LABELS, LABEL_WAITING, LABEL_OTHER
};

struct metrics_list {		/* adapters, separated by commas */
	char text[METRICS_LIST_MAX + 1];
	uint32_t n;		/* METRICS_LIST_MAX + 1: truncated */
};

struct metrics_seen {
	struct engine_adapter a;
	double named, ran;	/* time of the last mention and of the last run; 0: never */
};

/* The state of one answer. */
struct metrics {
	enum {
		METRICS_LINE, METRICS_NAME, METRICS_LABELS, METRICS_LABEL, METRICS_IS, METRICS_OPEN,
		METRICS_VALUE, METRICS_ESCAPE, METRICS_CLOSED, METRICS_GAP, METRICS_NUMBER,
		METRICS_TAIL, METRICS_SKIP
	} at;
	char name[METRICS_NAME_MAX + 1], label[METRICS_LABEL_MAX + 1], number[METRICS_NUMBER_MAX + 1];
	uint32_t n_name, n_label, n_number;
	int row;			/* row of the current metric */
	enum metrics_label which;	/* current label */
	int64_t of_label[N_NUMBER_LABELS];	/* -1: absent, or not a number */
	struct metrics_list running, waiting;	/* lists of the current series */
	/* results so far */
	double sum[METRICS_ROWS];
	uint32_t n[METRICS_ROWS];
	double block_size, blocks_tokens, cache_tokens;	/* of *_cache_config_info */
	double newest;			/* of lora_requests_info */
	int64_t max_lora;
	uint64_t ranks;			/* numbers seen, a bit each */
	bool more_ranks;		/* and one above 63 */
	struct metrics_seen seen[ENGINE_ADAPTERS_MAX];
	uint32_t n_seen;
	uint32_t answer_bytes;
	int error;

	/* for the caller: */
	uint64_t bad_lines;
};

void metrics_init(struct metrics *m);

/* Consume <n> bytes, which may be 0. Returns 0, or -METRICS_E_ANSWER from then on. */
int metrics_feed(struct metrics *m, const void *p, size_t n);

/* End the answer and fill <r>. A last line without a line end counts. Call it once. Returns 0, or
 * -METRICS_E_... and leaves <r> undefined. */
int metrics_end(struct metrics *m, struct engine_report *r);

const char *metrics_strerror(int error);

#endif
