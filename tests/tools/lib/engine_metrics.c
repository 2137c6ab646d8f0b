/* engine_metrics.c - GET /metrics with vLLM's names, labels and units (its V1 engine: tokens). */
#include "tests/tools/lib/engine.h"

/* vLLM's buckets of vllm:time_to_first_token_seconds, up to 80 s. */
static const double bounds[HIST_BUCKETS] = {
	0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20,
	40, 80
};

void hist_add(struct hist *h, double seconds)
{
	size_t i = 0;

	while (i < HIST_BUCKETS && seconds > bounds[i])
		i++;
	h->n[i]++;
	h->sum += seconds;
}

struct page {
	struct buf *out, labels;
};

static void put_type(struct page *p, const char *name, const char *type, const char *help)
{
	buf_putf(p->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_value(
    struct page *p, const char *name, const char *type, const char *help, double v)
{
	put_type(p, name, type, help);
	buf_putf(p->out, "%s{" SPAN_FMT "} %.15g\n", name, SPAN_ARG(buf_span(&p->labels)), v);
}

static void put_hist(struct page *p, const char *name, const char *help, const struct hist *h)
{
	struct span l = buf_span(&p->labels);
	uint64_t n = 0;

	put_type(p, name, "histogram", help);
	for (size_t i = 0; i < HIST_BUCKETS; i++) {
		n += h->n[i];
		buf_putf(p->out, "%s_bucket{" SPAN_FMT ",le=\"%g\"} %llu\n", name, SPAN_ARG(l),
			 bounds[i], (unsigned long long)n);
	}
	n += h->n[HIST_BUCKETS];
	buf_putf(p->out, "%s_bucket{" SPAN_FMT ",le=\"+Inf\"} %llu\n%s_sum{" SPAN_FMT "} %.9g\n"
		 "%s_count{" SPAN_FMT "} %llu\n", name, SPAN_ARG(l), (unsigned long long)n, name,
		 SPAN_ARG(l), h->sum, name, SPAN_ARG(l), (unsigned long long)n);
}

static double used_share(const struct engine *e)
{
	const struct blocks *b = sched_blocks(e->sched);

	return e->faults.kv > 0 ? e->faults.kv : 1 - (double)blocks_n_free(b) / blocks_n_total(b);
}

static void put_cache(struct engine *e, struct page *p)
{
	const struct blocks *b = sched_blocks(e->sched);
	const struct sched_stats *s = sched_stats(e->sched);
	double used = used_share(e);

	put_value(p, "vllm:kv_cache_usage_perc", "gauge", "KV cache in use, 1 is all of it.", used);
	put_value(p, "vllm:gpu_cache_usage_perc", "gauge", "The same under its older name.", used);
	put_value(p, "vllm:prefix_cache_queries_total", "counter", "Tokens asked of the prefix cache.",
		  (double)s->query_tokens);
	put_value(p, "vllm:prefix_cache_hits_total", "counter", "Tokens found in the prefix cache.",
		  (double)s->cached_tokens);
	put_type(p, "vllm:cache_config_info", "gauge", "How the KV cache is set up.");
	buf_putf(p->out, "vllm:cache_config_info{engine=\"0\",block_size=\"%u\",num_gpu_blocks=\"%u\","
		 "enable_prefix_caching=\"True\"} 1\n", e->o.sched.block_size, blocks_n_total(b));
}

void engine_metrics(struct engine *e, struct buf *out)
{
	const struct sched_stats *s = sched_stats(e->sched);
	struct page p = { .out = out };

	buf_puts(&p.labels, "engine=\"0\",model_name=");
	buf_put_json(&p.labels, span_str(e->o.model));
	put_value(&p, "vllm:num_requests_running", "gauge", "Requests in the batch.",
		  sched_n_running(e->sched));
	put_value(&p, "vllm:num_requests_waiting", "gauge", "Requests in the queue.",
		  sched_n_waiting(e->sched));
	put_cache(e, &p);
	put_value(&p, "vllm:prompt_tokens_total", "counter", "Prompt tokens of admitted requests.",
		  (double)s->prompt_tokens);
	put_value(&p, "vllm:generation_tokens_total", "counter", "Output tokens.",
		  (double)s->output_tokens);
	put_value(&p, "vllm:request_success_total", "counter", "Requests answered in full.",
		  (double)e->counts.finished);
	put_value(&p, "vllm:num_preemptions_total", "counter", "Requests put back; none ever is.", 0);
	put_hist(&p, "vllm:time_to_first_token_seconds", "From arrival to the first token.", &e->ttft);
	put_hist(&p, "vllm:request_queue_time_seconds", "From arrival to admission.", &e->queued);
	put_hist(&p, "vllm:e2e_request_latency_seconds", "From arrival to the last token.", &e->e2e);
	put_type(&p, "process_start_time_seconds", "gauge", "When this process started.");
	buf_putf(out, "process_start_time_seconds %.3f\n", e->started);
	buf_free(&p.labels);
}

void engine_loads(struct engine *e, struct buf *out)
{
	uint64_t max = (uint64_t)e->o.sched.block_size * blocks_n_total(sched_blocks(e->sched));

	buf_putf(out, "{\"timestamp\":\"2026-01-01T00:00:00+00:00\",\"version\":\"stub\",\"loads\":[{"
		 "\"dp_rank\":0,\"num_running_reqs\":%u,\"num_waiting_reqs\":%u,\"num_used_tokens\":%llu,"
		 "\"max_total_num_tokens\":%llu,\"token_usage\":%.4f}]}",
		 sched_n_running(e->sched), sched_n_waiting(e->sched),
		 (unsigned long long)(used_share(e) * (double)max), (unsigned long long)max, used_share(e));
}

/* As vLLM writes it: floats, the format before them. */
void engine_load_header(struct engine *e, enum load_format f, struct buf *out)
{
	double used = used_share(e);
	unsigned waiting = sched_n_waiting(e->sched);

	if (f == LOAD_TEXT)
		buf_putf(out, "endpoint-load-metrics: TEXT named_metrics.kv_cache_usage_perc=%.17g, "
			 "named_metrics.num_requests_waiting=%u.0\r\n", used, waiting);
	else if (f == LOAD_JSON)
		buf_putf(out, "endpoint-load-metrics: JSON {\"named_metrics\": {\"kv_cache_usage_perc\": "
			 "%.17g, \"num_requests_waiting\": %u.0}}\r\n", used, waiting);
}
