/* sched.h - the scheduler of the stub engine: a queue, chunked prefill, batched decode, in steps of
 * simulated work.
 *
 *    waiting  ->  running: prefill in chunks  ->  running: one token per step  ->  finished
 *
 * Pure: the caller waits for the time that sched_begin() returns, then calls sched_end(). Time is
 * in seconds of any clock that does not go backwards. */
#ifndef KVROUTE_TOOLS_SCHED_H
#define KVROUTE_TOOLS_SCHED_H

#include "agent/base/list.h"
#include "tests/tools/lib/blocks.h"

struct sched_opts {
	uint32_t block_size, n_blocks;
	uint32_t max_seqs;		/* running at once */
	uint32_t step_tokens;		/* prompt and output tokens of one step together */
	double prefill_tps;		/* uncached prompt tokens a second */
	double attention_ns;		/* and for each of these and each token before it */
	double decode_ms;		/* a step that decodes takes this, */
	double decode_seq_ms;		/* and this for each sequence it decodes */
	uint64_t seed;			/* of the words that are made */
};

struct sched_opts sched_defaults(void);

enum seq_state { SEQ_NEW, SEQ_WAITING, SEQ_RUNNING, SEQ_DONE };

/* One prompt and its output. The caller fills the first part and keeps it until the sequence is
 * done or cancelled. The rest belongs to the scheduler, and may be read. */
struct seq {
	const uint32_t *prompt;
	uint32_t n_prompt;	/* at least 1 */
	uint32_t max_out;	/* 0: prefill only */
	uint64_t space;		/* prompts of different spaces share nothing */
	bool hold;		/* keeps its blocks when it is done, until sched_release() */
	uint32_t given;		/* tokens of the prompt whose KV was brought from another engine */
	void *owner;

	struct list link;
	enum seq_state state;
	uint32_t *tokens;	/* the prompt, then the output */
	uint32_t n_out;
	uint32_t computed;	/* tokens whose KV is computed */
	uint32_t cached;	/* prompt tokens that were found in the cache */
	uint32_t plan;		/* tokens of the step under way */
	uint64_t *hashes;	/* of its full blocks */
	uint32_t *ids;		/* its blocks */
	uint32_t n_hashes, n_ids, need, stored;
	uint64_t chance;
	double arrived, admitted, first, last;	/* 0 until it happened */
};

struct sched_stats {
	uint64_t prompt_tokens, cached_tokens, output_tokens;
	uint64_t given_tokens;		/* brought from other engines and used */
	uint64_t finished, cancelled, steps;
	uint64_t query_tokens;		/* looked up in the prefix cache */
};

struct sched;

/* Called from sched_end() after each output token, and once when a sequence is done (state tells).
 * May call sched_add(), not sched_cancel(). */
typedef void sched_event(void *arg, struct seq *q, bool token);

struct sched *sched_new(const struct sched_opts *o, sched_event *event, void *arg);
void sched_free(struct sched *s);

/* Returns false, and does nothing, if <q> could never fit. */
bool sched_add(struct sched *s, struct seq *q, double now);

/* Stop <q> in any state and release its blocks. */
void sched_cancel(struct sched *s, struct seq *q);

/* Release the blocks of <q>, which is done and held. */
void sched_release(struct sched *s, struct seq *q);

/* Free what the scheduler keeps in <q>, which is done or cancelled: tokens and hashes. */
void sched_forget(struct seq *q);

/* Choose the work of the next step. Returns the seconds it takes, or < 0 if there is none. */
double sched_begin(struct sched *s, double now);
void sched_end(struct sched *s, double now);

/* The output of <q> so far as text: 4 bytes each, the same for the same prompt. */
struct span sched_text(const struct seq *q);

const struct sched_stats *sched_stats(const struct sched *s);
struct blocks *sched_blocks(struct sched *s);
uint32_t sched_n_running(const struct sched *s);
uint32_t sched_n_waiting(const struct sched *s);

#endif
