/* Metrics of the core: requests, index, decisions, problems. */
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/loop/metrics_in.h"

#define R(f)	offsetof(struct route_stats, f)

static const struct metric_row route_rows[] = {
	{ M_requests_total, "", R(requests) },
	{ M_slices_total, "", R(slices) },
	{ M_bodies_cut_total, "", R(cut) },
	{ M_bodies_cut_recalled_total, "", R(headless_saved) },
	{ M_models_asked_total, "from=\"argument\"", R(models[MODEL_FROM_ARGUMENT]) },
	{ M_models_asked_total, "from=\"body\"", R(models[MODEL_FROM_BODY]) },
	{ M_models_asked_total, "from=\"head\"", R(models[MODEL_FROM_HEAD]) },
	{ M_models_asked_total, "from=\"none\"", R(models[MODEL_FROM_NONE]) },
	{ M_models_asked_total, "from=\"overload\"", R(models[MODEL_FROM_OVERLOAD]) },
	{ M_models_scans_total, "used=\"twice\"", R(scans_shared) },
	{ M_models_scans_total, "used=\"once\"", R(scans_lost) },
	{ M_loads_bad_total, "", R(bad_load) },
	{ M_slices_waiting, "", R(slices_waiting) },
	{ M_slices_waiting_bytes, "", R(slices_bytes) },
	{ M_slices_lost_total, "reason=\"age\"", R(slices_aged) },
	{ M_slices_lost_total, "reason=\"room\"", R(slices_dropped) },
	{ M_slices_again_total, "", R(slices_again) },
	{ M_slices_repeated_total, "", R(slices_repeated) },
	{ M_facts_total, "kind=\"first\"", R(firsts) },
	{ M_facts_total, "kind=\"done\"", R(dones) },
	{ M_facts_unknown_total, "", R(facts_unknown) },
	{ M_failures_total, "kind=\"connect\"", R(failures[VERDICT_CONNECT]) },
	{ M_failures_total, "kind=\"broken\"", R(failures[VERDICT_BROKEN]) },
	{ M_failures_total, "kind=\"5xx\"", R(failures[VERDICT_5XX]) },
	{ M_failures_total, "kind=\"429\"", R(failures[VERDICT_429]) },
	{ M_engine_headers_total, "result=\"taken\"", R(orca[ORCA_TAKEN]) },
	{ M_engine_headers_total, "result=\"late\"", R(orca[ORCA_LATE]) },
	{ M_engine_headers_total, "result=\"unknown\"", R(orca[ORCA_UNKNOWN]) },
	{ M_engine_headers_total, "result=\"bad\"", R(orca[ORCA_BAD]) },
	{ M_ledger_open_requests, "", R(open) },
	{ M_ledger_closed_total, "reason=\"load\"", R(closed_by_load) },
	{ M_ledger_closed_total, "reason=\"silence\"", R(closed_by_silence) },
	{ M_ledger_closed_total, "reason=\"age\"", R(closed_by_age) },
	{ M_ledger_closed_total, "reason=\"room\"", R(closed_by_room) },
	{ M_refused_total, "what=\"pool\"", R(pools_refused) },
	{ M_refused_total, "what=\"server\"", R(servers_refused) },
	{ M_tokenized_prompts_total, "", R(tokenized) },
	{ M_tokens_total, "", R(tokens) },
	{ M_prompt_tokens_compared_total, "", R(tokens_compared) },
	{ M_prompt_tokens_differ_total, "", R(tokens_differed) },
	{ M_models_disagree, "", R(models_disagree) },
	{ M_chat_refused_total, "", R(chat_refused) },
	{ M_chat_unknown_total, "", R(chat_unknown) },
	{ M_tokenize_failed_total, "", R(tokenize_failed) },
	{ M_tokenize_bounded_total, "", R(tokenize_bounded) },
	{ M_tokenize_limits_total, "limit=\"body\"", R(tokenize_bounded_by[BOUND_BODY]) },
	{ M_tokenize_limits_total, "limit=\"tenant\"", R(tokenize_bounded_by[BOUND_TENANT]) },
	{ M_tokenize_limits_total, "limit=\"late\"", R(tokenize_bounded_by[BOUND_CALLER]) },
	{ M_segment_cache_hits_total, "", R(segments.hits) },
	{ M_segment_cache_misses_total, "", R(segments.misses) },
	{ M_segment_cache_hit_tokens_total, "", R(segments.hit_ids) },
	{ M_segment_cache_bytes, "", R(segments.used_bytes) },
	{ M_segment_cache_limit_bytes, "", R(segments.max_bytes) },
	{ M_segment_cache_evicted_total, "", R(segments.evicted) },
	{ M_segment_cache_refused_total, "", R(segments.too_large) },
	{ M_prompt_tokens_total, "", R(prompt_tokens) },
	{ M_hit_tokens_total, "", R(hit_tokens) },
	{ M_best_hit_tokens_total, "", R(best_hit_tokens) },
	{ M_reported_hit_tokens_total, "", R(told_hit_tokens) },
	{ M_reported_prompt_tokens_total, "", R(told_prompt_tokens) },
	{ M_reported_expected_tokens_total, "", R(told_expected_tokens) },
	{ M_log_requests_total, "asked=\"yes\"", R(asked[ASKED_YES]) },
	{ M_log_requests_total, "asked=\"failed\"", R(asked[ASKED_FAILED]) },
	{ M_log_requests_total, "asked=\"no\"", R(asked[ASKED_NO]) },
	{ M_index_bytes, "", R(index.bytes) },
	{ M_index_limit_bytes, "", R(index.max_bytes) },
	{ M_index_fixed_bytes, "", R(index.fixed_bytes) },
	{ M_index_shards, "", R(index.shards) },
	{ M_index_spaces, "", R(index.spaces) },
	{ M_index_nodes, "", R(index.nodes) },
	{ M_index_records, "", R(index.records) },
	{ M_index_pages, "", R(index.pages) },
	{ M_index_claims, "", R(index.claims) },
	{ M_index_matches_total, "", R(index.matches) },
	{ M_index_commits_total, "", R(index.commits) },
	{ M_index_claims_ended_total, "how=\"confirmed\"", R(index.confirmed) },
	{ M_index_claims_ended_total, "how=\"cancelled\"", R(index.cancelled) },
	{ M_index_claims_ended_total, "how=\"expired\"", R(index.expired) },
	{ M_index_evicted_records_total, "", R(index.evicted_records) },
	{ M_index_evicted_pages_total, "", R(index.evicted_pages) },
	{ M_index_refused_total, "", R(index.refused) },
	{ M_heads_bytes, "", R(heads.bytes) },
	{ M_heads, "", R(heads.heads) },
	{ M_heads_openings, "", R(heads.openings) },
	{ M_heads_lookups_total, "result=\"found\"", R(heads.found) },
	{ M_heads_lookups_total, "result=\"missed\"", R(heads.missed) },
	{ M_heads_evicted_total, "", R(heads.evicted) },
	{ M_sessions, "", R(sessions.sessions) },
	{ M_sessions_turns_total, "", R(sessions.turns) },
	{ M_sessions_stayed_total, "", R(sessions.stayed) },
	{ M_sessions_moved_total, "", R(sessions.moved) },
	{ M_sessions_mistrusted_total, "", R(sessions.mistrusted) },
	{ M_sessions_compacted_total, "", R(sessions.compacted) },
	{ M_sessions_evicted_total, "", R(sessions.evicted) },
	{ M_responses, "", R(responses) },
	{ M_responses_followed_total, "", R(responses_followed) },
	{ M_responses_unknown_total, "", R(responses_unknown) },
	{ M_turns_bytes, "", R(turns.bytes) },
	{ M_turns_points, "", R(turns.points) },
	{ M_turns_lookups_total, "result=\"found\"", R(turns.found) },
	{ M_turns_lookups_total, "result=\"missed\"", R(turns.missed) },
	{ M_turns_saved_bytes_total, "", R(turns.saved_bytes) },
	{ M_turns_evicted_total, "", R(turns.evicted) },
};

static const struct {
	enum metric metric;
	size_t at;
} shard_rows[] = {
	{ M_index_shard_commits_total, offsetof(struct index_shard_stats, commits) },
	{ M_index_shard_bytes, offsetof(struct index_shard_stats, bytes) },
	{ M_index_shard_limit_bytes, offsetof(struct index_shard_stats, max_bytes) },
	{ M_index_shard_records, offsetof(struct index_shard_stats, records) },
};

struct shards {
	struct index_shard_stats of[SHARDS_MAX];
	unsigned n;
};

static void add_shard(void *arg, uint32_t i, const struct index_shard_stats *v)
{
	struct shards *s = arg;

	if (i < sizeof(s->of) / sizeof(s->of[0])) {
		s->of[i] = *v;
		s->n = i + 1;
	}
}

static void write_shards(struct metric_page *t, struct route *r)
{
	struct shards s = { .n = 0 };
	char label[32];
	size_t row;
	unsigned i;

	route_each_shard(r, add_shard, &s);
	for (row = 0; row < sizeof(shard_rows) / sizeof(shard_rows[0]); row++) {
		metric_family(t, shard_rows[row].metric);
		for (i = 0; i < s.n; i++) {
			snprintf(label, sizeof(label), "shard=\"%u\"", i);
			metric_sample(t, shard_rows[row].metric, label,
			       *(const uint64_t *)((const char *)&s.of[i] + shard_rows[row].at));
		}
	}
}

static void write_haproxy_errors(struct metric_page *t, const struct route_stats *s)
{
	char label[32];
	unsigned i;

	metric_family(t, M_haproxy_errors_total);
	for (i = 0; i < HAPROXY_ERRORS; i++) {
		snprintf(label, sizeof(label), "code=\"%d\"", haproxy_errors[i].code);
		metric_sample(t, M_haproxy_errors_total, label, s->haproxy_errors[i]);
	}
	metric_sample(t, M_haproxy_errors_total, "code=\"other\"", s->haproxy_errors[i]);
}

static const struct metric_column problem_columns[] = { { M_problem } };

static void add_problem(void *arg, const struct problem_view *p)
{
	struct metric_view *v = metric_view_add(arg, "what", p->word, "pool", p->pool);

	if (v != NULL)
		v->v[0] = p->raised;
}

static void write_problems(struct metric_page *t, struct route *r)
{
	struct metric_views vs;

	metric_views_init(&vs);
	route_each_problem(r, 0, add_problem, &vs);	/* without ages */
	metric_views_write(t, &vs, METRIC_COLUMNS(problem_columns));
}

void metrics_write_core(struct metric_page *t, struct route *r)
{
	struct route_stats *s = mem_alloc(sizeof(*s));
	char label[64];
	int w;

	if (s == NULL) {
		t->t->failed = true;
		return;
	}
	route_stats(r, s);
	METRIC_TABLE(t, route_rows, s);
	metric_family(t, M_decisions_total);
	for (w = 0; w < WHY_COUNT; w++) {
		snprintf(label, sizeof(label), "why=\"%s\"", why_text((enum why)w));
		metric_sample(t, M_decisions_total, label, s->why[w]);
	}
	write_haproxy_errors(t, s);
	write_problems(t, r);
	if (t->shards)
		write_shards(t, r);
	mem_free(s);
}
