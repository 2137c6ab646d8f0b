/* sched.c - an engine's scheduler, as far as its behaviour is visible from outside.
 *
 * A step takes one output token from every running sequence whose prompt is computed, then fills
 * what is left of the token budget with prompt chunks, first come first served, and admits waiting
 * sequences while there is budget, a place and memory. A sequence is admitted when all the blocks
 * it may ever need are free beside what the running ones may still take, so nothing is preempted.
 *
 * A block can be matched from the end of the step that filled it: two equal prompts that arrive
 * together are both computed, as in the real thing. The last prompt token is always computed, for
 * its logits: at most floor((n - 1) / block) blocks hit. The last output token never enters the KV
 * memory; it does when the client sends it back. */
#include "tests/tools/lib/sched.h"

#include <stdlib.h>

#include "agent/base/rng.h"
#include "tests/tools/lib/buf.h"

#define STEP_MIN_S	0.0002	/* no step is faster: launching kernels takes time too */

struct sched {
	struct sched_opts o;
	struct blocks *blocks;
	struct list waiting, running;
	uint32_t n_waiting, n_running;
	uint32_t promised;	/* blocks that running sequences may still take */
	struct sched_stats stats;
	sched_event *event;
	void *arg;
};

struct sched_opts sched_defaults(void)
{
	return (struct sched_opts){
		.block_size = 16, .n_blocks = 8192, .max_seqs = 256, .step_tokens = 2048,
		.prefill_tps = 8000, .decode_ms = 8, .decode_seq_ms = 0.05,
	};
}

struct sched *sched_new(const struct sched_opts *o, sched_event *event, void *arg)
{
	struct sched *s = tool_resize(NULL, 1, sizeof(*s));

	*s = (struct sched){ .o = *o, .event = event, .arg = arg };
	s->blocks = blocks_new(o->n_blocks);
	list_init(&s->waiting);
	list_init(&s->running);
	return s;
}

void sched_free(struct sched *s)
{
	if (s == NULL)
		return;
	blocks_free(s->blocks);
	free(s);
}

/* The hashes of all blocks that are full with the first <n> tokens. */
static void hash_blocks(const struct sched *s, struct seq *q, uint32_t n)
{
	uint32_t bs = s->o.block_size;

	for (; q->n_hashes < n / bs; q->n_hashes++)
		q->hashes[q->n_hashes] = blocks_hash(
			q->n_hashes ? q->hashes[q->n_hashes - 1] : q->space,
			q->tokens + (size_t)q->n_hashes * bs, bs);
}

bool sched_add(struct sched *s, struct seq *q, double now)
{
	uint64_t n = (uint64_t)q->n_prompt + q->max_out;

	q->need = (uint32_t)((n + s->o.block_size - 1) / s->o.block_size);
	if (n > (uint64_t)s->o.block_size * s->o.n_blocks)
		return false;
	q->tokens = tool_resize(NULL, n, sizeof(*q->tokens));
	memcpy(q->tokens, q->prompt, q->n_prompt * sizeof(*q->tokens));
	q->hashes = tool_resize(NULL, q->need, sizeof(*q->hashes));
	q->ids = tool_resize(NULL, q->need, sizeof(*q->ids));
	hash_blocks(s, q, q->n_prompt);
	q->chance = blocks_hash(q->space, q->tokens, q->n_prompt) + s->o.seed;
	q->arrived = now;
	q->state = SEQ_WAITING;
	list_append(&s->waiting, &q->link);
	s->n_waiting++;
	return true;
}

void sched_release(struct sched *s, struct seq *q)
{
	while (q->n_ids)
		blocks_unref(s->blocks, q->ids[--q->n_ids]);
}

static void give_back(struct sched *s, struct seq *q)
{
	s->promised -= q->need - q->n_ids;
	if (!q->hold)
		sched_release(s, q);
	list_remove(&q->link);
	s->n_running--;
	q->state = SEQ_DONE;
}

void sched_cancel(struct sched *s, struct seq *q)
{
	q->hold = false;
	if (q->state == SEQ_RUNNING) {
		give_back(s, q);
	} else if (q->state == SEQ_WAITING) {
		list_remove(&q->link);
		s->n_waiting--;
		q->state = SEQ_DONE;
	} else {
		return;
	}
	s->stats.cancelled++;
}

void sched_forget(struct seq *q)
{
	free(q->tokens);
	free(q->hashes);
	free(q->ids);
	q->tokens = NULL;
	q->hashes = NULL;
	q->ids = NULL;
}

/* The KV of <q> now reaches <q->computed> tokens: take blocks for it, make full ones known. */
static void hold(struct sched *s, struct seq *q)
{
	uint32_t bs = s->o.block_size, n = (q->computed + bs - 1) / bs;

	while (q->n_ids < n) {
		q->ids[q->n_ids++] = blocks_take(s->blocks);
		s->promised--;
	}
	hash_blocks(s, q, q->computed);
	for (; q->stored < q->computed / bs; q->stored++)
		blocks_store(s->blocks, q->ids[q->stored], q->hashes[q->stored]);
}

/* Take what another engine has computed of <q>. The last token is computed here all the same. */
static void take_given(struct sched *s, struct seq *q)
{
	uint32_t given = q->given < q->n_prompt ? q->given : q->n_prompt - 1;

	if (given <= q->computed)
		return;
	s->stats.given_tokens += given - q->computed;
	q->cached = q->computed = given;
	hold(s, q);
}

static bool admit(struct sched *s, struct seq *q, double now)
{
	uint32_t may_hit = (q->n_prompt - 1) / s->o.block_size;

	q->n_ids = blocks_match(s->blocks, q->hashes, may_hit, q->ids);
	if ((uint64_t)s->promised + q->need - q->n_ids > blocks_n_free(s->blocks)) {
		while (q->n_ids)
			blocks_unref(s->blocks, q->ids[--q->n_ids]);
		return false;
	}
	s->promised += q->need - q->n_ids;
	q->stored = q->n_ids;
	q->cached = q->computed = q->n_ids * s->o.block_size;
	q->admitted = now;
	q->state = SEQ_RUNNING;
	list_remove(&q->link);
	list_append(&s->running, &q->link);
	s->n_waiting--;
	s->n_running++;
	s->stats.query_tokens += q->n_prompt;
	s->stats.prompt_tokens += q->n_prompt;
	s->stats.cached_tokens += q->cached;
	take_given(s, q);
	return true;
}

/* Plan tokens of the prompt; <pairs>: of each of them with a token before it. */
static uint32_t plan_prefill(struct seq *q, uint32_t budget, double *pairs)
{
	uint32_t left = q->n_prompt - q->computed;

	q->plan = left < budget ? left : budget;
	*pairs += q->plan * (q->computed + q->plan / 2.0);
	return q->plan;
}

double sched_begin(struct sched *s, double now)
{
	uint32_t budget = s->o.step_tokens, n_decode = 0, n_prefill = 0;
	struct list *l;
	double seconds, pairs = 0;

	for (l = s->running.next; l != &s->running; l = l->next) {
		struct seq *q = list_entry(l, struct seq, link);

		q->plan = q->n_out > 0 && budget > 0;
		budget -= q->plan;
		n_decode += q->plan;
	}
	for (l = s->running.next; l != &s->running; l = l->next) {
		struct seq *q = list_entry(l, struct seq, link);

		if (q->n_out == 0)
			n_prefill += plan_prefill(q, budget - n_prefill, &pairs);
	}
	while (s->n_waiting && s->n_running < s->o.max_seqs && n_prefill < budget) {
		struct seq *q = list_entry(s->waiting.next, struct seq, link);

		if (!admit(s, q, now))
			break;
		n_prefill += plan_prefill(q, budget - n_prefill, &pairs);
	}
	if (n_decode + n_prefill == 0)
		return -1;
	s->stats.steps++;
	seconds = n_prefill / s->o.prefill_tps + pairs * s->o.attention_ns * 1e-9;
	if (n_decode)
		seconds += (s->o.decode_ms + n_decode * s->o.decode_seq_ms) / 1000;
	return seconds < STEP_MIN_S ? STEP_MIN_S : seconds;
}

/* A space and three letters, so that any cut of the text is plain words. The bytes are in memory in
 * the order of the answer. */
static uint32_t word(const struct seq *q)
{
	struct rng r;
	uint32_t n;
	char c[4];

	rng_init(&r, q->chance + q->n_out);
	n = rng_below(&r, 26 * 26 * 26);
	c[0] = ' ';
	c[1] = (char)('a' + n % 26);
	c[2] = (char)('a' + n / 26 % 26);
	c[3] = (char)('a' + n / 26 / 26);
	memcpy(&n, c, sizeof(n));
	return n;
}

static void advance(struct sched *s, struct seq *q, double now)
{
	bool token = false;

	q->computed += q->plan;
	q->plan = 0;
	hold(s, q);
	if (q->computed < q->n_prompt)
		return;
	if (q->n_out < q->max_out) {
		q->tokens[q->n_prompt + q->n_out] = word(q);
		q->n_out++;
		s->stats.output_tokens++;
		token = true;
	}
	if (q->n_out <= 1)
		q->first = now;
	if (q->n_out == q->max_out) {
		q->last = now;
		s->stats.finished++;
		give_back(s, q);
	}
	s->event(s->arg, q, token);
}

void sched_end(struct sched *s, double now)
{
	struct list *l, *next;

	for (l = s->running.next; l != &s->running; l = next) {
		struct seq *q = list_entry(l, struct seq, link);

		next = l->next;
		if (q->plan)
			advance(s, q, now);
	}
}

struct span sched_text(const struct seq *q)
{
	return span_of(q->tokens + q->n_prompt, q->n_out * sizeof(*q->tokens));
}

const struct sched_stats *sched_stats(const struct sched *s)
{
	return &s->stats;
}

struct blocks *sched_blocks(struct sched *s)
{
	return s->blocks;
}

uint32_t sched_n_running(const struct sched *s)
{
	return s->n_running;
}

uint32_t sched_n_waiting(const struct sched *s)
{
	return s->n_waiting;
}
