/* Metrics of the core: requests, index, decisions, problems. */
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/loop/metrics_in.h"

#define R(f)	offsetof(struct route_stats, f)

static const struct metric_row route_rows[] = {
	{ "requests_total", "", COUNTER, R(requests), "Requests: route messages with seq 0." },
	{ "slices_total", "", COUNTER, R(slices), "Slices of a body after the first." },
	{ "bodies_cut_total", "", COUNTER, R(cut), "Bodies of which only a part was seen." },
	{ "bodies_cut_recalled_total", "", COUNTER, R(headless_saved),
	    "Cut bodies completed by a head remembered from an earlier body." },
	{ "models_asked_total", "from=\"argument\"", COUNTER, R(models[MODEL_FROM_ARGUMENT]),
	    "Messages that ask for the model before a pool is chosen, by the source of the answer." },
	{ "models_asked_total", "from=\"body\"", COUNTER, R(models[MODEL_FROM_BODY]), NULL },
	{ "models_asked_total", "from=\"head\"", COUNTER, R(models[MODEL_FROM_HEAD]), NULL },
	{ "models_asked_total", "from=\"none\"", COUNTER, R(models[MODEL_FROM_NONE]), NULL },
	{ "models_asked_total", "from=\"overload\"", COUNTER, R(models[MODEL_FROM_OVERLOAD]),
	    NULL },
	{ "models_scans_total", "used=\"twice\"", COUNTER, R(scans_shared),
	    "Bodies read for the model, by whether the route message reused that reading." },
	{ "models_scans_total", "used=\"once\"", COUNTER, R(scans_lost), NULL },
	{ "loads_bad_total", "", COUNTER, R(bad_load), "Load strings with an invalid entry." },
	{ "slices_waiting", "", GAUGE, R(slices_waiting), "Requests that wait for more slices." },
	{ "slices_waiting_bytes", "", GAUGE, R(slices_bytes),
	    "Memory of requests that wait for slices." },
	{ "slices_lost_total", "reason=\"age\"", COUNTER, R(slices_aged),
	    "Requests dropped while they waited for slices, by reason." },
	{ "slices_lost_total", "reason=\"room\"", COUNTER, R(slices_dropped), NULL },
	{ "slices_again_total", "", COUNTER, R(slices_again),
	    "Requests that restarted with the uid of one that waited for slices." },
	{ "slices_repeated_total", "", COUNTER, R(slices_repeated),
	    "Slices that arrived twice and were ignored." },
	{ "facts_total", "kind=\"first\"", COUNTER, R(firsts), "Facts accepted, by kind." },
	{ "facts_total", "kind=\"done\"", COUNTER, R(dones), NULL },
	{ "facts_unknown_total", "", COUNTER, R(facts_unknown),
	    "Facts for a uid that is not open: late, repeated, of an agent that shares nothing, or the "
	    "log line of an answer that was already reported." },
	{ "failures_total", "kind=\"connect\"", COUNTER, R(failures[VERDICT_CONNECT]),
	    "Requests that failed on a server, by kind." },
	{ "failures_total", "kind=\"broken\"", COUNTER, R(failures[VERDICT_BROKEN]), NULL },
	{ "failures_total", "kind=\"5xx\"", COUNTER, R(failures[VERDICT_5XX]), NULL },
	{ "failures_total", "kind=\"429\"", COUNTER, R(failures[VERDICT_429]), NULL },
	{ "engine_headers_total", "result=\"taken\"", COUNTER, R(orca[ORCA_TAKEN]),
	    "Log lines with the load header of an engine's response, by result." },
	{ "engine_headers_total", "result=\"late\"", COUNTER, R(orca[ORCA_LATE]), NULL },
	{ "engine_headers_total", "result=\"unknown\"", COUNTER, R(orca[ORCA_UNKNOWN]), NULL },
	{ "engine_headers_total", "result=\"bad\"", COUNTER, R(orca[ORCA_BAD]), NULL },
	{ "ledger_open_requests", "", GAUGE, R(open), "Requests that are open in the ledger." },
	{ "ledger_closed_total", "reason=\"load\"", COUNTER, R(closed_by_load),
	    "Open requests that were closed without a fact, by reason." },
	{ "ledger_closed_total", "reason=\"silence\"", COUNTER, R(closed_by_silence), NULL },
	{ "ledger_closed_total", "reason=\"age\"", COUNTER, R(closed_by_age), NULL },
	{ "ledger_closed_total", "reason=\"room\"", COUNTER, R(closed_by_room), NULL },
	{ "refused_total", "what=\"pool\"", COUNTER, R(pools_refused),
	    "Names refused because a limit was reached." },
	{ "refused_total", "what=\"server\"", COUNTER, R(servers_refused), NULL },
	{ "tokenized_prompts_total", "", COUNTER, R(tokenized),
	    "Requests whose prompt text was encoded to token ids." },
	{ "tokens_total", "", COUNTER, R(tokens),
	    "Token ids of text, from the segment cache or newly encoded." },
	{ "prompt_tokens_compared_total", "", COUNTER, R(tokens_compared),
	    "Prompts with a token count from the engine." },
	{ "prompt_tokens_differ_total", "", COUNTER, R(tokens_differed),
	    "Of these, prompts with another count by the agent." },
	{ "models_disagree", "", GAUGE, R(models_disagree),
	    "Models with a kind of request matched as text because engine and agent count different "
	    "tokens." },
	{ "chat_refused_total", "", COUNTER, R(chat_refused),
	    "Conversations that the model's chat template rejects; the engine will answer with an "
	    "error." },
	{ "chat_unknown_total", "", COUNTER, R(chat_unknown),
	    "Conversations of models in token mode matched as text: images, own template, limits." },
	{ "tokenize_failed_total", "", COUNTER, R(tokenize_failed),
	    "Requests matched as text because encoding failed: no memory, or the pattern's limit was "
	    "reached." },
	{ "tokenize_bounded_total", "", COUNTER, R(tokenize_bounded),
	    "Requests of which only the start was encoded, because all of it would take too long." },
	{ "tokenize_limits_total", "limit=\"body\"", COUNTER, R(tokenize_bounded_by[BOUND_BODY]),
	    "The same by limit: body size, the tenant's share of the thread, or lateness of the agent." },
	{ "tokenize_limits_total", "limit=\"tenant\"", COUNTER,
	    R(tokenize_bounded_by[BOUND_TENANT]), NULL },
	{ "tokenize_limits_total", "limit=\"late\"", COUNTER, R(tokenize_bounded_by[BOUND_CALLER]),
	    NULL },
	{ "segment_cache_hits_total", "", COUNTER, R(segments.hits),
	    "Segments of text found in the cache." },
	{ "segment_cache_misses_total", "", COUNTER, R(segments.misses),
	    "Segments of text not found in the cache." },
	{ "segment_cache_hit_tokens_total", "", COUNTER, R(segments.hit_ids),
	    "Token ids found in the segment cache." },
	{ "segment_cache_bytes", "", GAUGE, R(segments.used_bytes),
	    "Memory used by the segment cache." },
	{ "segment_cache_limit_bytes", "", GAUGE, R(segments.max_bytes),
	    "Memory limit of the segment cache; 0: not allocated yet." },
	{ "segment_cache_evicted_total", "", COUNTER, R(segments.evicted),
	    "Segments evicted from the cache." },
	{ "segment_cache_refused_total", "", COUNTER, R(segments.too_large),
	    "Segments too large for the cache." },
	{ "prompt_tokens_total", "", COUNTER, R(prompt_tokens),
	    "Prompt tokens of decisions that set a server; estimated for text and for parts not seen." },
	{ "hit_tokens_total", "", COUNTER, R(hit_tokens),
	    "Of these, tokens expected in the cache of the server." },
	{ "index_bytes", "", GAUGE, R(index.bytes), "Memory of the index." },
	{ "index_limit_bytes", "", GAUGE, R(index.max_bytes), "Memory limit of the index." },
	{ "index_fixed_bytes", "", GAUGE, R(index.fixed_bytes),
	    "Part of the index memory used by fixed tables." },
	{ "index_shards", "", GAUGE, R(index.shards),
	    "Shards of the index, each with its own lock." },
	{ "index_spaces", "", GAUGE, R(index.spaces),
	    "Spaces: prefixes match only within one space." },
	{ "index_nodes", "", GAUGE, R(index.nodes), "Nodes of all prefix trees." },
	{ "index_records", "", GAUGE, R(index.records), "Pairs of node and server." },
	{ "index_pages", "", GAUGE, R(index.pages), "Distinct pages on nodes." },
	{ "index_claims", "", GAUGE, R(index.claims),
	    "Claims that are neither confirmed nor cancelled." },
	{ "index_matches_total", "", COUNTER, R(index.matches), "Prompts looked up." },
	{ "index_commits_total", "", COUNTER, R(index.commits), "Prompts added." },
	{ "index_claims_ended_total", "how=\"confirmed\"", COUNTER, R(index.confirmed),
	    "Claims that ended, by how." },
	{ "index_claims_ended_total", "how=\"cancelled\"", COUNTER, R(index.cancelled), NULL },
	{ "index_claims_ended_total", "how=\"expired\"", COUNTER, R(index.expired), NULL },
	{ "index_evicted_records_total", "", COUNTER, R(index.evicted_records),
	    "Records evicted, for bytes or a server's capacity." },
	{ "index_evicted_pages_total", "", COUNTER, R(index.evicted_pages),
	    "Pages evicted, for bytes or a server's capacity." },
	{ "index_refused_total", "", COUNTER, R(index.refused),
	    "Prompts not added because there was no room." },
	{ "heads_bytes", "", GAUGE, R(heads.bytes), "Memory used by remembered heads." },
	{ "heads", "", GAUGE, R(heads.heads), "Heads remembered." },
	{ "heads_openings", "", GAUGE, R(heads.openings), "Body beginnings that identify a head." },
	{ "heads_lookups_total", "result=\"found\"", COUNTER, R(heads.found),
	    "Lookups of heads, by result." },
	{ "heads_lookups_total", "result=\"missed\"", COUNTER, R(heads.missed), NULL },
	{ "heads_evicted_total", "", COUNTER, R(heads.evicted), "Heads evicted for the budget." },
	{ "sessions", "", GAUGE, R(sessions.sessions), "Sessions that are remembered." },
	{ "sessions_turns_total", "", COUNTER, R(sessions.turns), "Requests with a session." },
	{ "sessions_stayed_total", "", COUNTER, R(sessions.stayed),
	  "Requests that went to the server of their session's last turn." },
	{ "sessions_moved_total", "", COUNTER, R(sessions.moved), "Requests that went elsewhere." },
	{ "sessions_mistrusted_total", "", COUNTER, R(sessions.mistrusted),
	  "Requests that do not continue the last turn of their session." },
	{ "sessions_compacted_total", "", COUNTER, R(sessions.compacted),
	  "Old prompts of compacted sessions that were let go." },
	{ "sessions_evicted_total", "", COUNTER, R(sessions.evicted), "Sessions evicted for the budget." },
	{ "turns_bytes", "", GAUGE, R(turns.bytes), "Memory of earlier turns." },
	{ "turns_points", "", GAUGE, R(turns.points), "Places in bodies where reading may resume." },
	{ "turns_lookups_total", "result=\"found\"", COUNTER, R(turns.found),
	    "Bodies that began like an earlier one, or did not." },
	{ "turns_lookups_total", "result=\"missed\"", COUNTER, R(turns.missed), NULL },
	{ "turns_saved_bytes_total", "", COUNTER, R(turns.saved_bytes),
	    "Bytes of bodies that were hashed instead of read." },
	{ "turns_evicted_total", "", COUNTER, R(turns.evicted), "Points evicted for the budget." },
};

static const struct {
	const char *name;
	enum metric_kind kind;
	size_t at;
	const char *help;
} shard_rows[] = {
	{ "index_shard_commits_total", COUNTER, offsetof(struct index_shard_stats, commits),
	  "Commits that ended on a node of the shard." },
	{ "index_shard_bytes", GAUGE, offsetof(struct index_shard_stats, bytes),
		"Memory in use, by shard." },
	{ "index_shard_limit_bytes", GAUGE, offsetof(struct index_shard_stats, max_bytes),
		"Memory limit, by shard." },
	{ "index_shard_records", GAUGE, offsetof(struct index_shard_stats, records),
	  "Pairs of node and server, by shard." },
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

static void write_shards(struct buf *t, struct route *r)
{
	struct shards s = { .n = 0 };
	char label[32];
	size_t row;
	unsigned i;

	route_each_shard(r, add_shard, &s);
	for (row = 0; row < sizeof(shard_rows) / sizeof(shard_rows[0]); row++) {
		metric_family(t, shard_rows[row].name, shard_rows[row].kind, shard_rows[row].help);
		for (i = 0; i < s.n; i++) {
			snprintf(label, sizeof(label), "shard=\"%u\"", i);
			metric_sample(t, shard_rows[row].name, label,
			       *(const uint64_t *)((const char *)&s.of[i] + shard_rows[row].at));
		}
	}
}

static void write_haproxy_errors(struct buf *t, const struct route_stats *s)
{
	char label[32];
	unsigned i;

	metric_family(t, "haproxy_errors_total", COUNTER,
		"Log lines that report a failed SPOE exchange, by HAProxy's error code.");
	for (i = 0; i < HAPROXY_ERRORS; i++) {
		snprintf(label, sizeof(label), "code=\"%d\"", haproxy_errors[i].code);
		metric_sample(t, "haproxy_errors_total", label, s->haproxy_errors[i]);
	}
	metric_sample(t, "haproxy_errors_total", "code=\"other\"", s->haproxy_errors[i]);
}

static void write_problem(void *arg, const char *what, const char *pool, bool raised)
{
	page_addf(arg, "kvroute_problem{what=\"%s\",", what);
	page_label(arg, "pool", span_str(pool));
	page_addf(arg, "} %d\n", raised);
}

static void write_problems(struct buf *t, struct route *r)
{
	metric_family(t, "problem", GAUGE,
		"1: this fault in HAProxy's configuration is present; see kvroute(8), PROBLEMS.");
	route_each_problem(r, write_problem, t);
}

void metrics_write_core(struct buf *t, struct route *r)
{
	struct route_stats *s = mem_alloc(sizeof(*s));
	char label[64];
	int w;

	if (s == NULL) {
		t->failed = true;
		return;
	}
	route_stats(r, s);
	METRIC_TABLE(t, route_rows, s);
	metric_family(t, "decisions_total", COUNTER, "Answers to route messages, by reason.");
	for (w = 0; w < WHY_COUNT; w++) {
		snprintf(label, sizeof(label), "why=\"%s\"", why_text((enum why)w));
		metric_sample(t, "decisions_total", label, s->why[w]);
	}
	write_haproxy_errors(t, s);
	write_problems(t, r);
	write_shards(t, r);
	mem_free(s);
}
