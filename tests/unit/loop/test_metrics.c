/* Check the text of /metrics line by line against the rules of the format. The core is a fake with
 * distinct figures and with names that a hostile peer might send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/events/events.h"
#include "agent/loop/kvsub_in.h"
#include "agent/loop/metrics_in.h"
#include "agent/loop/worker_in.h"
#include "agent/route/share.h"
#include "agent/route/sources.h"

/* ---- the faked core --------------------------------------------------------------------- */

#define N_NAMES	4

static const char *const names[N_NAMES] = {
	"s1", "a\"b\\c\nd", "x\x01\xff", "n=1,pool=\"y\"} 5"
};
static unsigned n_servers = N_NAMES;

const uint32_t serve_us_bounds[SERVE_SECONDS_BUCKETS] = {
	5, 10, 20, 35, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 5000, 20000, UINT32_MAX
};

const uint32_t serve_token_bounds[HISTOGRAM_BUCKETS - 1] = {
	32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288,
};
const uint32_t route_first_ms[HISTOGRAM_BUCKETS - 1] = {
	10, 20, 50, 100, 200, 300, 500, 750, 1000, 2000, 5000, 10000, 20000, 60000, 120000,
};
const uint32_t route_request_ms[HISTOGRAM_BUCKETS - 1] = {
	50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000, 1800000,
};

#define GONE	99u	/* the number of a decision whose record is gone */

/* The record of one of these requests is gone. */
bool route_decision_kept(struct route *r, uint64_t number)
{
	return number != GONE;
}

uint64_t route_decision_of(struct route *r, uint64_t uid_hash)
{
	return uid_hash == 0xabc ? 4711 : 0;
}

void route_stats(struct route *r, struct route_stats *s)
{
	uint64_t *p = (uint64_t *)s;
	size_t i;

	for (i = 0; i < sizeof(*s) / sizeof(*p); i++)
		p[i] = 1000 + i;
	s->requests = 123456789012345ull;
	s->haproxy_errors[haproxy_error_index(257)] = 12;
	s->haproxy_errors[HAPROXY_ERRORS] = 13;
}

void route_share_stats(struct route *r, struct route_share_stats *s)
{
	*s = (struct route_share_stats){ .pages_put = 1 };
}

bool route_events_stats(struct route *r, struct events_stats *s)
{
	*s = (struct events_stats){ .records = 515, .parked = 7 };
	return true;
}

void route_each_source(
    struct route *r, void (*fn)(void *arg, const struct source_view *v), void *arg)
{
	for (unsigned i = 0; i < N_NAMES && n_servers > 0; i++) {
		const struct source_view v = {
			.pool = "chat", .server = names[i], .ranks = 2, .good = 1, .block_size = 16, .blocks = 4321,
		};

		fn(arg, &v);
	}
}

void kvsub_each(struct kvsub *k, kvsub_fn *fn, void *arg)
{
	const struct kvsub_figures f = {
		.worst = KVCURSOR_DEGRADED, .ranks = 2, .lag_s = 0.25, .lost = 3
	};
	const struct event_source who = { .pool = "chat", .server = "s1" };

	fn(arg, &who, &f);
}

void route_each_server(struct route *r, msec now,
		       void (*fn)(void *arg, const struct route_server_view *v), void *arg)
{
	static const uint64_t why[WHY_COUNT] = { [WHY_CACHED] = 70, [WHY_IMBALANCE] = 7 };
	char name[32];
	unsigned i;

	for (i = 0; i < n_servers; i++) {
		struct route_server_view v = {
			.picked_why = why, .told_hits = i == 1, .engine_hit_tokens = 600,
			.engine_asked_tokens = 900,
			.pool = "chat", .name = names[i % N_NAMES], .id = (server_id)i, .up = true,
			.weight = 100, .conn = i, .queue = 2, .open = 3, .backlog_s = 0.25, .wait_s = i == 1 ? -1 : 0.5,
			.picked = 77, .hit_tokens = 1ull << 50, .held_tokens = 9, .failures = 5,
			.penalty = 2.5, .output_tokens = 21, .room_tokens = 34, .watchers = 2, .closed = i == 1,
			.capacity_tokens = 250000, .capacity_source = CAPACITY_INFERRED,
			.engine = i < 2, .waiting = 6, .running = i == 1 ? -1 : 7, .kv_used = 0.625, .foreign = 8,
			.block_size = 16, .engine_capacity = 901024, .adapters_running = 1, .adapters_waiting = 4,
			.adapters_loaded = 3,
		};

		if (i >= N_NAMES) {
			snprintf(name, sizeof(name), "server-%u", i);
			v.name = name;
		}
		fn(arg, &v);
	}
}

void route_each_shard(struct route *r,
    void (*fn)(void *arg, uint32_t i, const struct index_shard_stats *v), void *arg)
{
	struct index_shard_stats v = { .bytes = 5000, .max_bytes = 6000, .records = 7, .commits = 88 };
	uint32_t i;

	for (i = 0; i < 64; i++, v.commits++)
		fn(arg, i, &v);
}

void route_each_pool(
    struct route *r, void (*fn)(void *arg, const struct route_pool_view *v), void *arg)
{
	struct wait_line wait = {
		.bucket = { 1, 0, 2, [WAIT_BUCKETS - 1] = 4 }, .count = 7, .ratios = 30.5,
	};
	const struct histogram first = {
		.bucket = { [5] = 2, [15] = 1 }, .sum = 200500, .who = { [5] = 0xabc, [15] = 0xdef },
		.value = { [5] = 250, [15] = 200000 },
	};
	const struct histogram request = { .bucket = { 1 }, .sum = 40 };
	struct route_pool_view v = {
		.first = &first, .request = &request,
		.shadow = {
			.requests = 5, .same = 1, .hit_tokens = 60, .haproxy_hit_tokens = 20, .first_s = 1.5,
		},
		.prefill = "computing", .splits = 31, .split_failures = 2, .transfer_factor = 1.5,
		.unseen = { .kept_s = 40.5, .came_share = -1 },
		.name = "chat", .wait = &wait, .imbalanced = true, .facts = "first", .imbalance_transitions = 3,
		.requests = 11, .pressure = 0.5, .mode = "shadow", .choices = 10, .dearer = 4, .regret_s = 1.5,
	};

	fn(arg, &v);
}

void route_each_model(
    struct route *r, void (*fn)(void *arg, const struct route_model_view *v), void *arg)
{
	struct route_model_view v = {
		.name = "acme/\"chat\"", .mode = "mixed", .page = 32, .kinds_off = 3
	};

	fn(arg, &v);
	v = (struct route_model_view){ .name = "*", .mode = "text", .page = 16 };
	fn(arg, &v);
}

void route_each_kind(
    struct route *r, void (*fn)(void *arg, const struct route_kind_view *v), void *arg)
{
	struct route_kind_view v = { .model = "acme/\"chat\"", .kind = "chat system tools", .tenants = 2 };

	fn(arg, &v);
}

void route_each_compared(
    struct route *r, void (*fn)(void *arg, const struct route_compare_view *v), void *arg)
{
	struct route_compare_view v = {
		.pool = "chat", .rule = "random", .choices = 10, .same = 3, .hit_tokens = 4096, .regret_s = 2.25,
	};

	fn(arg, &v);
	v.rule = "least_conn";
	fn(arg, &v);
}

void route_each_problem(
    struct route *r, msec now, void (*fn)(void *arg, const struct problem_view *v), void *arg)
{
	fn(arg, &(struct problem_view){ .word = "load_unset", .pool = "" });
	fn(arg, &(struct problem_view){ .word = "load_unset", .pool = "a\"b\n", .raised = true });
}

/* ---- the text --------------------------------------------------------------------------- */

static char *render_as(bool openmetrics, bool shards)
{
	static struct serve_pool chat[2];
	static struct worker w[2];
	static struct agent a;
	static struct kvsub events;
	struct logrx_counters logrx = { .lines = 5, .lines_bad = 6 };
	struct admin_counters admin = { .requests = 7 };
	struct poll_counters stats = { .peers = 2, .answered = 8 }, engines = { .peers = 4, .bad = 9 };
	struct metrics_from from = { &a, &logrx, &admin, &stats, &engines };
	struct buf t = { .p = NULL };
	struct metric_page page = { .t = &t, .openmetrics = openmetrics, .shards = shards };
	char *s;
	int i;

	memset(w, 0, sizeof(w));
	for (i = 0; i < 2; i++) {
		a.worker[i] = &w[i];
		w[i].count.acks = 20 + (unsigned)i;
		w[i].count.us_bucket[0] = 3;
		w[i].count.us_bucket[2] = 4;
		w[i].count.us_bucket[SERVE_SECONDS_BUCKETS - 1] = 1;
		w[i].count.us_sum = 1500000;
		w[i].count.us_count = 8;
		w[i].count.closed_bad[SPOP_STATUS_INVALID] = 2;
		w[i].socks_count.open = 30 + (unsigned)i;
	}
	w[0].pools.of[0] = &chat[0];
	w[1].pools.of[0] = &chat[1];
	memset(chat, 0, sizeof(chat));
	histogram_add(&chat[0].us, serve_us_bounds, 15, 90);
	histogram_add(&chat[1].us, serve_us_bounds, 16, 91);
	histogram_add(&chat[1].tokens, serve_token_bounds, 4000, 91);
	chat[1].tokens.who[0] = chat[1].us.who[0] = GONE;
	a.n_workers = 2;
	a.kvsub = &events;
	a.ready = true;
	a.started = 1700000000;
	buf_start(&t, 8u << 20);
	metrics_write(&from, &page);
	assert_false(t.failed);
	s = mem_strndup(t.p, t.n);
	assert_non_null(s);
	buf_free(&t);
	return s;
}

static char *render(void)
{
	return render_as(false, false);
}

static void has_line(const char *text, const char *line)
{
	size_t n = strlen(line);
	const char *p;

	for (p = text; (p = strstr(p, line)) != NULL; p++)
		if ((p == text || p[-1] == '\n') && p[n] == '\n')
			return;
	fail_msg("no line: %s", line);
}

static void figures(void **state)
{
	char *s = render();

	has_line(s, "kvroute_requests_total 123456789012345");
	has_line(s, "# TYPE kvroute_requests_total counter");
	has_line(s, "kvroute_build_info{version=\"" KVROUTE_VERSION "\"} 1");
	has_line(s, "kvroute_ready 1");
	has_line(s, "kvroute_process_start_time_seconds 1700000000");
	has_line(s, "kvroute_spop_acks_total 41");
	has_line(s, "kvroute_spop_connections 61");
	has_line(s, "kvroute_thread_connections{thread=\"1\"} 31");
	has_line(s, "kvroute_spop_disconnects_total{status=\"4\"} 4");
	has_line(s, "kvroute_spop_disconnects_total{status=\"99\"} 0");
	has_line(s, "kvroute_feed_lines_total{result=\"taken\"} 5");
	has_line(s, "kvroute_feed_lines_total{result=\"bad\"} 6");
	has_line(s, "kvroute_http_requests_total{result=\"answered\"} 7");
	has_line(s, "kvroute_stats_sockets 2");
	has_line(s, "kvroute_stats_polls_total{result=\"answered\"} 8");
	has_line(s, "kvroute_engines 4");
	has_line(s, "kvroute_engine_polls_total{result=\"bad\"} 9");
	has_line(s, "kvroute_server_backlog_seconds{pool=\"chat\",server=\"s1\"} 0.25");
	has_line(s, "kvroute_server_wait_seconds{pool=\"chat\",server=\"s1\"} 0.5");
	has_line(s, "kvroute_server_wait_seconds{pool=\"chat\",server=\"a\\\"b\\\\c\\nd\"} NaN");
	has_line(s, "kvroute_server_hit_tokens_total{pool=\"chat\",server=\"s1\"} 1125899906842624");
	has_line(s, "kvroute_events_index_records 515");
	has_line(s, "kvroute_events_state{pool=\"chat\",server=\"s1\"} 4");
	has_line(s, "kvroute_events_lag_seconds{pool=\"chat\",server=\"s1\"} 0.25");
	has_line(s, "kvroute_events_lost_batches_total{pool=\"chat\",server=\"s1\"} 3");
	has_line(s, "kvroute_events_blocks{pool=\"chat\",server=\"s1\"} 4321");
	has_line(s, "kvroute_pool_mode{pool=\"chat\",mode=\"shadow\"} 1");
	has_line(s, "kvroute_model_mode{model=\"acme/\\\"chat\\\"\",mode=\"mixed\"} 1");
	has_line(s, "kvroute_model_kinds_text{model=\"acme/\\\"chat\\\"\",mode=\"mixed\"} 3");
	has_line(s,
		"kvroute_model_kind_text_tenants{model=\"acme/\\\"chat\\\"\",kind=\"chat system tools\"} 2");
	has_line(s, "kvroute_model_mode{model=\"*\",mode=\"text\"} 1");
	has_line(s, "kvroute_model_page_tokens{model=\"*\",mode=\"text\"} 16");
	has_line(s, "kvroute_problem{what=\"load_unset\",pool=\"\"} 0");
	has_line(s, "kvroute_problem{what=\"load_unset\",pool=\"a\\\"b\\n\"} 1");
	has_line(s, "kvroute_haproxy_errors_total{code=\"257\"} 12");
	has_line(s, "kvroute_haproxy_errors_total{code=\"other\"} 13");
	has_line(s, "kvroute_pool_choices_total{pool=\"chat\"} 10");
	has_line(s, "kvroute_pool_choices_dearer_total{pool=\"chat\"} 4");
	has_line(s, "kvroute_pool_regret_seconds_total{pool=\"chat\"} 1.5");
	has_line(s, "kvroute_compare_choices_total{pool=\"chat\",rule=\"random\"} 10");
	has_line(s, "kvroute_compare_same_total{pool=\"chat\",rule=\"least_conn\"} 3");
	has_line(s, "kvroute_compare_regret_seconds_total{pool=\"chat\",rule=\"random\"} 2.25");
	has_line(s, "kvroute_compare_hit_tokens_total{pool=\"chat\",rule=\"random\"} 4096");
	has_line(s, "kvroute_server_choices_total{pool=\"chat\",server=\"s1\",why=\"cached\"} 70");
	has_line(s, "kvroute_server_choices_total{pool=\"chat\",server=\"s1\",why=\"imbalance\"} 7");
	assert_null(strstr(s, "server=\"s1\",why=\"cold\""));
	has_line(s, "kvroute_engine_hit_tokens_total{pool=\"chat\",server=\"a\\\"b\\\\c\\nd\"} 600");
	assert_null(strstr(s, "kvroute_engine_asked_tokens_total{pool=\"chat\",server=\"s1\"}"));
	has_line(s, "kvroute_shadow_haproxy_hit_tokens_total{pool=\"chat\"} 20");
	has_line(s, "kvroute_shadow_first_seconds_total{pool=\"chat\"} 1.5");
	has_line(s, "kvroute_server_output_tokens{pool=\"chat\",server=\"s1\"} 21");
	has_line(s, "kvroute_server_room_tokens{pool=\"chat\",server=\"s1\"} 34");
	has_line(s, "kvroute_server_capacity_tokens{pool=\"chat\",server=\"s1\"} 250000");
	has_line(s, "kvroute_server_capacity_source{pool=\"chat\",server=\"s1\"} 2");
	has_line(s, "kvroute_server_watchers{pool=\"chat\",server=\"s1\"} 2");
	has_line(s, "kvroute_server_closed{pool=\"chat\",server=\"s1\"} 0");
	has_line(s, "kvroute_engine_waiting_requests{pool=\"chat\",server=\"s1\"} 6");
	has_line(s, "kvroute_engine_running_requests{pool=\"chat\",server=\"s1\"} 7");
	has_line(s, "kvroute_engine_running_requests{pool=\"chat\",server=\"a\\\"b\\\\c\\nd\"} NaN");
	has_line(s, "kvroute_engine_kv_used_ratio{pool=\"chat\",server=\"s1\"} 0.625");
	has_line(s, "kvroute_engine_foreign_requests{pool=\"chat\",server=\"s1\"} 8");
	has_line(s, "kvroute_engine_block_size_tokens{pool=\"chat\",server=\"s1\"} 16");
	has_line(s, "kvroute_engine_capacity_tokens{pool=\"chat\",server=\"s1\"} 901024");
	has_line(s, "kvroute_engine_adapters_running{pool=\"chat\",server=\"s1\"} 1");
	has_line(s, "kvroute_engine_adapters_waiting{pool=\"chat\",server=\"s1\"} 4");
	has_line(s, "kvroute_engine_adapters_loaded{pool=\"chat\",server=\"s1\"} 3");
	assert_null(strstr(s, "kvroute_engine_waiting_requests{pool=\"chat\",server=\"x"));
	assert_null(strstr(s, "_shard_"));
	assert_non_null(strstr(s, "kvroute_index_claims_ended_total{how=\"expired\"} 1"));
	assert_non_null(strstr(s, "\nkvroute_index_fixed_bytes 1"));
	has_line(s, "kvroute_pool_imbalanced{pool=\"chat\"} 1");
	has_line(s, "kvroute_pool_facts{pool=\"chat\",facts=\"first\"} 1");
	mem_free(s);
}

static void rows_of_shards_only_if_asked_for(void **state)
{
	char *s = render_as(false, true);

	has_line(s, "kvroute_index_shard_bytes{shard=\"0\"} 5000");
	has_line(s, "kvroute_index_shard_limit_bytes{shard=\"63\"} 6000");
	has_line(s, "kvroute_index_shard_commits_total{shard=\"63\"} 151");
	has_line(s, "kvroute_index_shard_records{shard=\"5\"} 7");
	mem_free(s);
}

static void histogram(void **state)
{
	char *s = render();

	has_line(s, "# TYPE kvroute_decision_seconds histogram");
	has_line(s, "kvroute_decision_seconds_bucket{le=\"5e-06\"} 6");
	has_line(s, "kvroute_decision_seconds_bucket{le=\"1e-05\"} 6");
	has_line(s, "kvroute_decision_seconds_bucket{le=\"2e-05\"} 14");
	has_line(s, "kvroute_decision_seconds_bucket{le=\"0.02\"} 14");
	has_line(s, "kvroute_decision_seconds_bucket{le=\"+Inf\"} 16");
	has_line(s, "# TYPE kvroute_pool_wait_ratio histogram");
	has_line(s, "kvroute_pool_wait_ratio_bucket{pool=\"chat\",le=\"0.25\"} 1");
	has_line(s, "kvroute_pool_wait_ratio_bucket{pool=\"chat\",le=\"0.75\"} 3");
	has_line(s, "kvroute_pool_wait_ratio_bucket{pool=\"chat\",le=\"4\"} 3");
	has_line(s, "kvroute_pool_wait_ratio_bucket{pool=\"chat\",le=\"+Inf\"} 7");
	has_line(s, "kvroute_pool_wait_ratio_sum{pool=\"chat\"} 30.5");
	has_line(s, "kvroute_pool_wait_ratio_count{pool=\"chat\"} 7");
	has_line(s, "kvroute_pool_wait_error_ratio{pool=\"chat\"} 1");
	has_line(s, "kvroute_pool_unseen_kept_seconds{pool=\"chat\"} 40.5");
	has_line(s, "kvroute_pool_unseen_came_ratio{pool=\"chat\"} NaN");
	has_line(s, "kvroute_pool_first_token_seconds_bucket{pool=\"chat\",le=\"0.3\"} 2");
	has_line(s, "kvroute_pool_first_token_seconds_bucket{pool=\"chat\",le=\"+Inf\"} 3");
	has_line(s, "kvroute_pool_first_token_seconds_sum{pool=\"chat\"} 200.5");
	has_line(s, "kvroute_pool_request_seconds_bucket{pool=\"chat\",le=\"0.05\"} 1");
	has_line(s, "kvroute_pool_decision_seconds_bucket{pool=\"chat\",le=\"2e-05\"} 2");
	has_line(s, "kvroute_pool_decision_seconds_count{pool=\"chat\"} 2");
	has_line(s, "kvroute_pool_prompt_tokens_bucket{pool=\"chat\",le=\"4096\"} 1");
	has_line(s, "kvroute_pool_prompt_tokens_sum{pool=\"chat\"} 4000");
	has_line(s, "kvroute_decision_seconds_sum 3");
	has_line(s, "kvroute_decision_seconds_count 16");
	mem_free(s);
}

static void hostile_names(void **state)
{
	char *s = render();

	has_line(s, "kvroute_server_up{pool=\"chat\",server=\"a\\\"b\\\\c\\nd\"} 1");
	has_line(s, "kvroute_server_up{pool=\"chat\",server=\"x\\\\x01\\\\xff\"} 1");
	has_line(s, "kvroute_server_up{pool=\"chat\",server=\"n=1,pool=\\\"y\\\"} 5\"} 1");
	mem_free(s);
}

/* ---- the rules of the format ------------------------------------------------------------ */

struct family {
	char name[128], type[16];
	int samples;
};

static bool is_name(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!islower((unsigned char)p[i]) && !isdigit((unsigned char)p[i]) && p[i] != '_')
			return false;
	return n > 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

/* Return true if <p>, the text after a sample's name, is valid: labels with closed quotes, one
 * space, a number, and no more. */
static bool rest_ok(const char *p)
{
	bool quoted = false;
	char *end;

	if (*p == '{') {
		for (p++; *p != '\0' && (quoted || *p != '}'); p++) {
			if (quoted && *p == '\\')
				p++;
			else if (*p == '"')
				quoted = !quoted;
		}
		if (*p++ != '}')
			return false;
	}
	if (*p++ != ' ')
		return false;
	strtod(p, &end);
	return end != p && *end == '\0';
}

static void check_sample(struct family *f, const char *line)
{
	size_t n = strcspn(line, "{ "), base = strlen(f->name);

	f->samples++;
	if (!is_name(line, n) || !rest_ok(line + n))
		fail_msg("no sample: %s", line);
	if (strncmp(line, f->name, base) != 0 ||
	    (n != base && strcmp(f->type, "histogram") != 0))
		fail_msg("stands below %s: %s", f->name, line);
}

static void check_family(const struct family *f, const char *all_so_far)
{
	char type_line[192];

	if (f->name[0] == '\0')
		return;
	if (f->samples == 0)
		fail_msg("%s has no sample", f->name);
	if (strncmp(f->name, "kvroute_", 8) != 0)
		fail_msg("%s is not ours", f->name);
	if (ends_with(f->name, "_total") != (strcmp(f->type, "counter") == 0))
		fail_msg("%s is a %s", f->name, f->type);
	snprintf(type_line, sizeof(type_line), "# TYPE %s %s\n", f->name, f->type);
	if (strstr(strstr(all_so_far, type_line) + 1, type_line) != NULL)
		fail_msg("%s comes twice", f->name);
}

static void format(void **state)
{
	char *s = render(), *copy = strdup(s), *line, *save = NULL;
	struct family f = { "" };
	char help[128];
	int families = 0;

	assert_int_equal(s[strlen(s) - 1], '\n');
	for (line = strtok_r(copy, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		if (strncmp(line, "# HELP ", 7) == 0) {
			check_family(&f, s);
			memset(&f, 0, sizeof(f));
			assert_int_equal(sscanf(line, "# HELP %127s", help), 1);
			assert_true(strlen(line) > 7 + strlen(help) + 5);
		} else if (strncmp(line, "# TYPE ", 7) == 0) {
			assert_int_equal(sscanf(line, "# TYPE %127s %15s", f.name, f.type), 2);
			assert_string_equal(f.name, help);
			families++;
		} else {
			check_sample(&f, line);
		}
	}
	check_family(&f, s);
	assert_true(families > 60);
	free(copy);
	mem_free(s);
}

/* ---- the table -------------------------------------------------------------------------- */

/* Return the metric that a sample of length <n> belongs to, with the suffixes of a histogram. */
static const struct metric_info *info_of(const char *line, size_t n)
{
	static const char *const suffix[] = { "", "_bucket", "_sum", "_count" };

	assert_true(n > 8 && strncmp(line, "kvroute_", 8) == 0);
	for (unsigned m = 0; m < METRICS; m++)
		for (unsigned k = 0; k < (metric_table[m].kind == HISTOGRAM ? 4 : 1); k++) {
			size_t base = strlen(metric_table[m].name);

			if (n - 8 == base + strlen(suffix[k]) &&
			    strncmp(line + 8, metric_table[m].name, base) == 0 &&
			    strncmp(line + 8 + base, suffix[k], strlen(suffix[k])) == 0)
				return &metric_table[m];
		}
	fail_msg("not in metric_list.h: %.*s", (int)n, line);
	return NULL;
}

/* Copy the names of the labels of a sample to <out>, without "le", with commas between them. */
static void label_names(const char *p, char out[200])
{
	size_t n = 0, start;
	bool quoted = false;

	while (*p != '\0' && *p++ != '{')
		;
	for (start = 0; *p != '\0' && (quoted || *p != '}'); p++) {
		if (quoted && *p == '\\') {
			p++;
		} else if (*p == '"') {
			quoted = !quoted;
		} else if (!quoted && *p == '=') {
			if (n - start == 2 && strncmp(out + start, "le", 2) == 0)
				n = start > 0 ? start - 1 : 0;
		} else if (!quoted) {
			if (*p == ',')
				start = n + 1;
			if (n < 198)
				out[n++] = *p;
		}
	}
	out[n] = '\0';
}

static void labels_are_those_of_the_table(void **state)
{
	char *s = render_as(false, true), *line, *save = NULL, have[200];

	for (line = strtok_r(s, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		const struct metric_info *i;

		if (line[0] == '#')
			continue;
		i = info_of(line, strcspn(line, "{ "));
		label_names(line, have);
		if (strcmp(have, i->labels) != 0)
			fail_msg("labels \"%s\" in metric_list.h, \"%s\" here: %s", i->labels, have, line);
	}
	mem_free(s);
}

static void entries_are_well_formed(void **state)
{
	for (unsigned m = 0; m < METRICS; m++) {
		const struct metric_info *i = &metric_table[m];
		char base[128], end[16];

		snprintf(base, sizeof(base), "%s", i->name);
		assert_int_equal(ends_with(base, "_total"), i->kind == COUNTER);
		if (i->kind == COUNTER)
			base[strlen(base) - strlen("_total")] = '\0';
		snprintf(end, sizeof(end), "_%s", i->unit);
		if (i->unit[0] != '\0' && !ends_with(base, end))
			fail_msg("%s does not end with its unit %s", base, i->unit);
		if (i->unit[0] == '\0')
			assert_false(ends_with(base, "_seconds") || ends_with(base, "_bytes"));
		assert_true(strlen(i->help) > 5 && i->help[strlen(i->help) - 1] == '.');
		for (unsigned k = 0; k < m; k++)
			assert_string_not_equal(i->name, metric_table[k].name);
	}
}

/* ---- OpenMetrics ------------------------------------------------------------------------ */

static void openmetrics(void **state)
{
	char *s = render_as(true, false), *copy = strdup(s), *line, *save = NULL, family[128] = "";

	has_line(s, "# TYPE kvroute_requests counter");
	has_line(s, "kvroute_requests_total 123456789012345");
	has_line(s, "# TYPE kvroute_index_bytes gauge");
	has_line(s, "# UNIT kvroute_index_bytes bytes");
	has_line(s, "# TYPE kvroute_pool_regret_seconds counter");
	has_line(s, "# UNIT kvroute_pool_regret_seconds seconds");
	has_line(s, "kvroute_pool_wait_ratio_bucket{pool=\"chat\",le=\"4.0\"} 3");
	has_line(s, "kvroute_decision_seconds_bucket{le=\"5e-06\"} 6");
	assert_null(strstr(s, "{decision=\"99\"}"));
	has_line(s, "kvroute_decision_seconds_bucket{le=\"2e-05\"} 14 # {decision=\"91\"} 1.6e-05");
	has_line(s, "kvroute_pool_prompt_tokens_bucket{pool=\"chat\",le=\"4096.0\"} 1 # {decision=\"91\"} "
		    "4000");
	has_line(s, "kvroute_pool_first_token_seconds_bucket{pool=\"chat\",le=\"0.3\"} 2 "
		    "# {decision=\"4711\"} 0.25");
	has_line(s, "kvroute_pool_first_token_seconds_bucket{pool=\"chat\",le=\"+Inf\"} 3");
	assert_true(ends_with(s, "\n# EOF\n"));
	for (line = strtok_r(copy, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		if (strncmp(line, "# TYPE ", 7) == 0) {
			sscanf(line, "# TYPE %127s", family);
			assert_false(ends_with(family, "_total"));
		} else if (line[0] != '#') {
			assert_int_equal(strncmp(line, family, strlen(family)), 0);
		} else if (strncmp(line, "# HELP ", 7) == 0) {
			for (char *q = line; (q = strchr(q, '"')) != NULL; q++)
				assert_int_equal(q[-1], '\\');
		}
	}
	free(copy);
	mem_free(s);
	s = render();
	assert_null(strstr(s, "# UNIT"));
	assert_null(strstr(s, "# EOF"));
	mem_free(s);
}

/* doc/metrics.py writes the list from the source; every metric printed here must be in it. */
static void each_is_in_the_manual(void **state)
{
	static char page[1u << 20];
	char *s = render(), *copy = strdup(s), *line, *save = NULL, name[128], item[160];
	FILE *in = fopen("doc/kvroute.8", "r");
	size_t n;

	if (in == NULL)
		fail_msg("doc/kvroute.8 cannot be read");
	n = fread(page, 1, sizeof(page) - 1, in);
	fclose(in);
	assert_true(n > 0 && n < sizeof(page) - 1);
	page[n] = '\0';
	for (line = strtok_r(copy, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "# HELP %127s", name) != 1)
			continue;
		n = (size_t)snprintf(item, sizeof(item), ".It Li %s", name);
		line = strstr(page, item);
		if (line == NULL || (line[n] != '{' && line[n] != ' '))
			fail_msg("%s is not in doc/kvroute.8: run doc/metrics.py", name);
	}
	free(copy);
	mem_free(s);
}

/* The largest number of servers, and none. */
static void many_and_none(void **state)
{
	char *s;

	n_servers = SERVERS_MAX;
	s = render();
	has_line(s, "kvroute_server_held_tokens{pool=\"chat\",server=\"server-1023\"} 9");
	mem_free(s);
	n_servers = 0;
	s = render();
	assert_null(strstr(s, "kvroute_server_"));
	mem_free(s);
	n_servers = N_NAMES;
}

/* ---- text_* ----------------------------------------------------------------------------- */

static void text_is_bounded(void **state)
{
	struct buf t = { .p = NULL };
	char page[1000];
	int i;

	memset(page, 'x', sizeof(page));
	buf_start(&t, 10000);
	for (i = 0; i < 10; i++)
		buf_add(&t, page, sizeof(page));
	assert_false(t.failed);
	assert_int_equal(t.n, 10000);
	buf_add(&t, "y", 1);
	assert_true(t.failed);
	assert_int_equal(t.n, 10000);
	buf_free(&t);
	buf_start(&t, 100000);
	page_addf(&t, "%0600d", 1);	/* longer than any metrics line: fails instead of being cut */
	assert_true(t.failed);
	buf_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures),
		cmocka_unit_test(rows_of_shards_only_if_asked_for),
		cmocka_unit_test(histogram),
		cmocka_unit_test(hostile_names),
		cmocka_unit_test(format),
		cmocka_unit_test(labels_are_those_of_the_table),
		cmocka_unit_test(entries_are_well_formed),
		cmocka_unit_test(openmetrics),
		cmocka_unit_test(each_is_in_the_manual),
		cmocka_unit_test(many_and_none),
		cmocka_unit_test(text_is_bounded),
	};

	return cmocka_run_group_tests_name("loop/metrics", tests, NULL, NULL);
}
