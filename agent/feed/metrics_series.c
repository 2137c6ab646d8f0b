/* metrics_series.c - what the series of engines mean, and the report that is made of them.
 *
 * One table maps names of metrics to meanings, one the names of labels. If several names have one
 * meaning, the first one with a series counts, because an engine that renames a metric exports both
 * names for a while. metrics.c has read all labels and the number when a value is added here, so an
 * invalid line adds nothing. */
#include <math.h>
#include <stdlib.h>

#include "agent/feed/metrics_in.h"

/* ---- names ------------------------------------------------------------------------------- */

enum meaning { WAITING, RUNNING, USED, BLOCK_SIZE, BLOCKS, TOKENS, STARTED, CONFIG, ADAPTERS, HITS,
	ASKED };

#define NAME(s)	{ s, sizeof(s) - 1 }

static const struct {
	struct span name;
	enum meaning meaning;
} rows[METRICS_ROWS] = {
	{ NAME("vllm:num_requests_waiting"), WAITING },
	{ NAME("sglang:num_queue_reqs"), WAITING },
	{ NAME("trtllm_num_requests_waiting"), WAITING },
	{ NAME("vllm:num_requests_running"), RUNNING },
	{ NAME("sglang:num_running_reqs"), RUNNING },
	{ NAME("trtllm_num_requests_running"), RUNNING },
	{ NAME("vllm:kv_cache_usage_perc"), USED },
	{ NAME("vllm:gpu_cache_usage_perc"), USED },
	{ NAME("sglang:token_usage"), USED },
	{ NAME("trtllm_kv_cache_utilization"), USED },
	{ NAME("trtllm_kv_cache_tokens_per_block"), BLOCK_SIZE },
	{ NAME("trtllm_kv_cache_max_blocks"), BLOCKS },
	{ NAME("sglang:max_total_num_tokens"), TOKENS },
	{ NAME("process_start_time_seconds"), STARTED },
	{ NAME("vllm:cache_config_info"), CONFIG },
	{ NAME("sglang:cache_config_info"), CONFIG },
	{ NAME("vllm:lora_requests_info"), ADAPTERS },
	{ NAME("vllm:prefix_cache_hits_total"), HITS },
	{ NAME("vllm:gpu_prefix_cache_hits_total"), HITS },
	{ NAME("sglang:cached_tokens_total"), HITS },
	{ NAME("vllm:prefix_cache_queries_total"), ASKED },
	{ NAME("vllm:gpu_prefix_cache_queries_total"), ASKED },
	{ NAME("sglang:prompt_tokens_total"), ASKED },
};

static const struct {
	const char *name;
	enum metrics_label label;
} labels[] = {
	{ "block_size", LABEL_BLOCK_SIZE },
	{ "page_size", LABEL_BLOCK_SIZE },
	{ "num_gpu_blocks", LABEL_BLOCKS },
	{ "num_pages", LABEL_BLOCKS },
	{ "kv_cache_size_tokens", LABEL_TOKENS },
	{ "max_lora", LABEL_MAX_LORA },
	{ "tp_rank", LABEL_TP },
	{ "pp_rank", LABEL_PP },
	{ "dp_rank", LABEL_DP },
	{ "engine", LABEL_ENGINE },
	{ "running_lora_adapters", LABEL_RUNNING },
	{ "waiting_lora_adapters", LABEL_WAITING },
};

/* Larger values are rejected. No engine has so many, and sums below stay exact in a double. */
#define COUNT_MAX	1e12

int metrics_row_of(struct span name)
{
	for (int i = 0; i < METRICS_ROWS; i++)
		if (span_eq(name, rows[i].name))
			return i;
	return -1;
}

enum metrics_label metrics_label_of(struct span name)
{
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
		if (span_eq(name, span_str(labels[i].name)))
			return labels[i].label;
	return LABEL_OTHER;
}

/* ---- adapters ----------------------------------------------------------------------------- */

/* Return the slot of an adapter, or NULL if all slots hold adapters named later than <at>. */
static struct metrics_seen *seen_at(struct metrics *m, struct span name, double at)
{
	struct metrics_seen *oldest = m->seen, *s;

	for (s = m->seen; s < m->seen + m->n_seen; s++) {
		if (span_eq(span_str(s->a.name), name))
			return s;
		if (s->named < oldest->named)
			oldest = s;
	}
	if (m->n_seen < ENGINE_ADAPTERS_MAX)
		s = &m->seen[m->n_seen++];
	else if (oldest->named < at)
		s = oldest;
	else
		return NULL;
	memset(s, 0, sizeof(*s));
	memcpy(s->a.name, name.p, name.n);
	return s;
}

static void note_adapter(struct metrics *m, struct span name, double at, bool running)
{
	struct metrics_seen *s;

	if (name.n == 0 || name.n > ENGINE_ADAPTER_NAME_MAX || memchr(name.p, '\0', name.n) != NULL ||
	    (s = seen_at(m, name, at)) == NULL)
		return;
	if (at > s->named)
		s->named = at;
	if (running && at > s->ran)
		s->ran = at;
	if (at == m->newest && running)
		s->a.running = true;
	else if (at == m->newest)
		s->a.waiting = true;
}

/* Note the adapters of a list. The last name of a truncated list is incomplete and skipped. */
static void note_list(struct metrics *m, const struct metrics_list *l, double at, bool running)
{
	const char *p = l->text, *end = p + (l->n > METRICS_LIST_MAX ? METRICS_LIST_MAX : l->n), *comma;

	while ((comma = memchr(p, ',', (size_t)(end - p))) != NULL) {
		note_adapter(m, span_of(p, (size_t)(comma - p)), at, running);
		p = comma + 1;
	}
	if (l->n <= METRICS_LIST_MAX)
		note_adapter(m, span_of(p, (size_t)(end - p)), at, running);
}

static void note_adapters(struct metrics *m, double at)
{
	if (at > m->newest) {
		m->newest = at;
		for (uint32_t i = 0; i < m->n_seen; i++)
			m->seen[i].a.running = m->seen[i].a.waiting = false;
	}
	if (m->of_label[LABEL_MAX_LORA] > m->max_lora)
		m->max_lora = m->of_label[LABEL_MAX_LORA];
	note_list(m, &m->running, at, true);
	note_list(m, &m->waiting, at, false);
}

/* Return the adapter that ran last, of those not reported yet, or NULL. */
static struct metrics_seen *ran_last(struct metrics *m)
{
	struct metrics_seen *best = NULL;

	for (uint32_t i = 0; i < m->n_seen; i++)
		if (m->seen[i].ran > 0 && (best == NULL || m->seen[i].ran > best->ran))
			best = &m->seen[i];
	return best;
}

/* Report the adapters that run or wait, then those that ran last until max_lora are loaded. */
static void report_adapters(struct metrics *m, struct engine_report *r)
{
	struct metrics_seen *s;
	int64_t loaded = 0;

	for (uint32_t i = 0; i < m->n_seen; i++) {
		s = &m->seen[i];
		if (s->a.running || s->a.waiting)
			r->adapter[r->n_adapters++] = s->a;
		if (!s->a.running)
			continue;
		loaded++;
		s->ran = 0;
	}
	for (; loaded < m->max_lora && (s = ran_last(m)) != NULL; loaded++) {
		if (!s->a.waiting)
			r->adapter[r->n_adapters++] = s->a;
		s->ran = 0;
	}
}

/* ---- one series --------------------------------------------------------------------------- */

static bool to_double(const struct metrics *m, double *v)
{
	char text[METRICS_NUMBER_MAX + 1], *end;

	if (m->n_number == 0 || m->n_number > METRICS_NUMBER_MAX)
		return false;
	memcpy(text, m->number, m->n_number);
	text[m->n_number] = '\0';
	if (text[strspn(text, "0123456789+-.eE")] != '\0')	/* strtod() accepts more than the format */
		return false;
	*v = strtod(text, &end);
	return end != text && *end == '\0' && isfinite(*v);
}

/* Tell if the value is "not a number" or infinite, which is valid but carries no information. */
static bool is_no_number(const struct metrics *m)
{
	static const char *const words[] = { "NaN", "Nan", "nan", "+Inf", "Inf", "-Inf", "inf" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (span_eq(span_of(m->number, m->n_number), span_str(words[i])))
			return true;
	return false;
}

/* The share of its blocks that an engine can use: vLLM keeps one of them as the block of
 * nothing. */
static double usable_share(const struct metrics *m, double blocks)
{
	bool one_less = rows[m->row].name.p[0] == 'v' && blocks > 1;

	return one_less ? (blocks - 1) / blocks : 1;
}

static void note_config(struct metrics *m)
{
	double size = (double)m->of_label[LABEL_BLOCK_SIZE], blocks = (double)m->of_label[LABEL_BLOCKS];
	double tokens = (double)m->of_label[LABEL_TOKENS], share = usable_share(m, blocks);

	if (size > 0 && (m->block_size == 0 || size < m->block_size))
		m->block_size = size;
	if (size > 0 && blocks > 0 && size * blocks < COUNT_MAX)
		m->blocks_tokens += size * blocks * share;
	if (tokens > 0 && tokens < COUNT_MAX)
		m->cache_tokens += tokens * share;
}

static void note_rank(struct metrics *m)
{
	int64_t r = m->of_label[LABEL_ENGINE] >= 0 ? m->of_label[LABEL_ENGINE] : m->of_label[LABEL_DP];

	if (r >= 0 && r < 64)
		m->ranks |= 1ull << r;
	m->more_ranks |= r >= 64;
}

static bool another_view(const struct metrics *m)
{
	return m->of_label[LABEL_PP] > 0 || (m->of_label[LABEL_TP] > 0 && m->of_label[LABEL_DP] < 0);
}

void metrics_series_end(struct metrics *m)
{
	double v;

	if (!to_double(m, &v)) {
		m->bad_lines += !is_no_number(m);
		return;
	}
	if (another_view(m) || v < 0 || (v > COUNT_MAX && rows[m->row].meaning < CONFIG))
		return;
	m->n[m->row]++;
	if (rows[m->row].meaning == RUNNING)
		note_rank(m);
	if (rows[m->row].meaning == CONFIG)
		note_config(m);
	else if (rows[m->row].meaning == ADAPTERS)
		note_adapters(m, v);
	else
		m->sum[m->row] += v;
}

void metrics_series_start(struct metrics *m)
{
	for (int i = 0; i < N_NUMBER_LABELS; i++)
		m->of_label[i] = -1;
	m->running.n = m->waiting.n = 0;
	m->n_number = 0;
}

/* ---- the report --------------------------------------------------------------------------- */

/* Return the first row of <meaning> that has a series, or -1. */
static int row_with(const struct metrics *m, enum meaning meaning)
{
	for (int i = 0; i < METRICS_ROWS; i++)
		if (rows[i].meaning == meaning && m->n[i] > 0)
			return i;
	return -1;
}

static double sum_of(const struct metrics *m, enum meaning meaning, double none)
{
	int row = row_with(m, meaning);

	return row < 0 ? none : m->sum[row];
}

static double mean_of(const struct metrics *m, enum meaning meaning, double none)
{
	int row = row_with(m, meaning);

	return row < 0 ? none : m->sum[row] / m->n[row];
}

/* Returns n if the ranks are 0 to n - 1. */
static uint32_t ranks_of(const struct metrics *m)
{
	if (m->more_ranks || (m->ranks & (m->ranks + 1)) != 0)
		return 0;
	return (uint32_t)__builtin_popcountll(m->ranks);
}

static uint64_t capacity_of(const struct metrics *m, double block_size)
{
	double tokens = m->cache_tokens;

	if (tokens == 0)
		tokens = sum_of(m, TOKENS, 0);
	if (tokens == 0)
		tokens = m->blocks_tokens;
	if (tokens == 0)
		tokens = sum_of(m, BLOCKS, 0) * block_size;
	return tokens < COUNT_MAX ? (uint64_t)(tokens + 0.5) : 0;
}

/* Larger counters are no counts of tokens. */
#define TOKENS_EVER	1e15

static double counter_of(const struct metrics *m, enum meaning meaning)
{
	double v = sum_of(m, meaning, -1);

	return v <= TOKENS_EVER ? v : -1;
}

int metrics_report(struct metrics *m, struct engine_report *r)
{
	double block_size;
	bool any = false;

	for (int i = 0; i < METRICS_ROWS; i++)
		any |= m->n[i] > 0 && rows[i].meaning != STARTED;
	if (m->error == 0 && !any)
		m->error = -METRICS_E_FOREIGN;
	if (m->error < 0)
		return m->error;
	memset(r, 0, sizeof(*r));
	block_size = m->block_size > 0 ? m->block_size : mean_of(m, BLOCK_SIZE, 0);
	r->waiting = (int64_t)sum_of(m, WAITING, -1);
	r->running = (int64_t)sum_of(m, RUNNING, -1);
	r->kv_used = mean_of(m, USED, -1);
	if (r->kv_used > 1)
		r->kv_used = 1;
	r->block_size = block_size < UINT32_MAX ? (uint32_t)block_size : 0;
	r->capacity = capacity_of(m, block_size);
	r->ranks = ranks_of(m);
	r->started = mean_of(m, STARTED, 0);
	r->hit_tokens = counter_of(m, HITS);
	r->asked_tokens = counter_of(m, ASKED);
	report_adapters(m, r);
	return 0;
}
