/* Writes all metrics in the order of the page. The metrics of the process, the SPOP threads and the
 * listeners are in this file. */
#include <stdio.h>

#include "agent/base/count.h"
#include "agent/loop/metrics_in.h"
#include "agent/loop/worker_in.h"
#include "agent/os/clock.h"
#include "agent/route/traffic.h"

/* ---- the SPOP threads ------------------------------------------------------------------- */

#define S(f)	offsetof(struct serve_counters, f)

static const struct metric_row serve_rows[] = {
	{ M_spop_frames_total, "", S(frames) },
	{ M_spop_notifies_total, "", S(notifies) },
	{ M_spop_acks_total, "", S(acks) },
	{ M_spop_messages_total, "", S(messages) },
	{ M_spop_messages_unknown_total, "", S(messages_unknown) },
	{ M_spop_args_bad_total, "", S(args_bad) },
	{ M_spop_lost_total, "", S(lost) },
	{ M_spop_uncompared_total, "", S(uncompared) },
	{ M_spop_hurried_total, "", S(hurried) },
	{ M_spop_hellos_total, "", S(hellos) },
	{ M_spop_healthchecks_total, "", S(healthchecks) },
	{ M_spop_aborts_total, "", S(aborts) },
	{ M_spop_fragments_total, "", S(fragments) },
	{ M_spop_closed_by_peer_total, "", S(closed_by_peer) },
};

#define K(f)	offsetof(struct sock_counters, f)

static const struct metric_row sock_rows[] = {
	{ M_spop_connections, "", K(open) },
	{ M_spop_accepted_total, "", K(accepted) },
	{ M_spop_accept_errors_total, "", K(accept_errors) },
	{ M_spop_refused_total, "reason=\"limit\"", K(refused_full) },
	{ M_spop_refused_total, "reason=\"memory\"", K(refused_memory) },
	{ M_spop_closed_total, "reason=\"eof\"", K(closed_eof) },
	{ M_spop_closed_total, "reason=\"peer\"", K(closed_peer) },
	{ M_spop_closed_total, "reason=\"error\"", K(closed_error) },
	{ M_spop_closed_total, "reason=\"hello_timeout\"", K(closed_hello) },
	{ M_spop_closed_total, "reason=\"idle_timeout\"", K(closed_idle) },
	{ M_spop_closed_total, "reason=\"drain\"", K(closed_drain) },
	{ M_spop_closed_total, "reason=\"protocol\"", K(closed_protocol) },
	{ M_spop_closed_total, "reason=\"memory\"", K(closed_memory) },
	{ M_spop_received_bytes_total, "", K(bytes_in) },
	{ M_spop_sent_bytes_total, "", K(bytes_out) },
	{ M_spop_writes_total, "", K(writes) },
	{ M_spop_paused_total, "", K(paused) },
};

#define U(f)	offsetof(struct budget, f)

static const struct metric_row budget_rows[] = {
	{ M_spop_buffer_bytes, "", U(used) },
	{ M_spop_buffer_limit_bytes, "", U(max) },
	{ M_spop_buffer_refused_total, "kind=\"first\"", U(refused_first) },
	{ M_spop_buffer_refused_total, "kind=\"large\"", U(refused_large) },
};

static void write_disconnects(struct metric_page *t, const struct serve_counters *c)
{
	char label[32];

	metric_family(t, M_spop_disconnects_total);
#define X(name, number, words) \
	if ((number) != SPOP_STATUS_NORMAL) { \
		snprintf(label, sizeof(label), "status=\"%d\"", number); \
		metric_sample(t, M_spop_disconnects_total, label, c->closed_bad[number]); \
	}
	SPOP_STATUS_LIST(X)
#undef X
}

static void write_threads(struct metric_page *t, const struct agent *a)
{
	struct serve_counters serve;
	struct sock_counters socks;
	char label[32];
	unsigned i;

	workers_count(a, &serve, &socks);
	METRIC_TABLE(t, serve_rows, &serve);
	METRIC_TABLE(t, sock_rows, &socks);
	METRIC_TABLE(t, budget_rows, &a->budget);
	write_disconnects(t, &serve);
	metrics_write_decisions(t, a, &serve);
	metric_family(t, M_thread_connections);
	for (i = 0; i < a->n_workers; i++) {
		snprintf(label, sizeof(label), "thread=\"%u\"", i);
		metric_sample(t, M_thread_connections, label, count_read(&a->worker[i]->socks_count.open));
	}
}

/* ---- listeners, polls, process, files --------------------------------------------------- */

#define L(f)	offsetof(struct logrx_counters, f)

static const struct metric_row logrx_rows[] = {
	{ M_feed_connections, "", L(open) },
	{ M_feed_accepted_total, "", L(accepted) },
	{ M_feed_accept_errors_total, "", L(accept_errors) },
	{ M_feed_refused_total, "", L(refused_full) },
	{ M_feed_pushed_out_total, "", L(pushed_out) },
	{ M_feed_lines_total, "result=\"taken\"", L(lines) },
	{ M_feed_lines_total, "result=\"bad\"", L(lines_bad) },
	{ M_feed_lines_total, "result=\"other\"", L(lines_other) },
	{ M_feed_lines_total, "result=\"long\"", L(lines_long) },
	{ M_facts_refused_total, "reason=\"no_token\"", L(no_token) },
	{ M_facts_refused_total, "reason=\"wrong_token\"", L(wrong_token) },
	{ M_feed_datagrams_total, "", L(datagrams) },
	{ M_feed_udp_dropped_total, "", L(dropped) },
	{ M_feed_received_bytes_total, "", L(bytes) },
};

#define A(f)	offsetof(struct admin_counters, f)

static const struct metric_row admin_rows[] = {
	{ M_http_requests_total, "result=\"answered\"", A(requests) },
	{ M_http_requests_total, "result=\"refused\"", A(refused) },
	{ M_http_requests_total, "result=\"timeout\"", A(timeouts) },
	{ M_http_requests_total, "result=\"pushed_out\"", A(pushed_out) },
	{ M_http_accept_errors_total, "", A(accept_errors) },
};

#define P(f)	offsetof(struct poll_counters, f)

static const struct metric_row stats_rows[] = {
	{ M_stats_sockets, "", P(peers) },
	{ M_stats_polls_total, "result=\"answered\"", P(answered) },
	{ M_stats_polls_total, "result=\"unreachable\"", P(unreachable) },
	{ M_stats_polls_total, "result=\"bad\"", P(bad) },
	{ M_stats_rows_total, "result=\"taken\"", P(items) },
	{ M_stats_rows_total, "result=\"bad\"", P(items_bad) },
	{ M_stats_received_bytes_total, "", P(bytes) },
};

static const struct metric_row engine_rows[] = {
	{ M_engines, "", P(peers) },
	{ M_engine_polls_total, "result=\"answered\"", P(answered) },
	{ M_engine_polls_total, "result=\"unreachable\"", P(unreachable) },
	{ M_engine_polls_total, "result=\"bad\"", P(bad) },
	{ M_engine_lines_bad_total, "", P(items_bad) },
	{ M_engine_received_bytes_total, "", P(bytes) },
};

static void write_refused(struct metric_page *t, const struct sandbox_refused *r)
{
	metric_family(t, M_sandbox_refused_total);
	metric_sample(t, M_sandbox_refused_total, "process=\"agent\"",
	    r != NULL ? refused_read(&r->agent) : 0);
	metric_sample(t, M_sandbox_refused_total, "process=\"opener\"",
	    r != NULL ? refused_read(&r->opener) : 0);
}

static void write_sandbox(struct metric_page *t, const struct sandbox *s)
{
	metric_family(t, M_sandbox);
	metric_sample(t, M_sandbox, "part=\"seccomp\"", s->seccomp);
	metric_sample(t, M_sandbox, "part=\"landlock\"", s->landlock_abi > 0);
	metric_sample(t, M_sandbox, "part=\"no_new_privs\"", s->no_new_privs);
	metric_sample(t, M_sandbox, "part=\"no_capabilities\"", s->no_capabilities);
	metric_sample(t, M_sandbox, "part=\"no_core\"", s->core_off);
	metric_sample(t, M_sandbox, "part=\"open_refused\"", s->open_refused);
	metric_sample(t, M_sandbox, "part=\"execve_refused\"", s->execve_refused);
}

static void write_process(struct metric_page *t, const struct agent *a)
{
	struct process_figures p;

	process_read(&a->files, &p);
	metric_family(t, M_build_info);
	metric_sample(t, M_build_info, "version=\"" KVROUTE_VERSION "\"", 1);
	metric_single(t, M_ready, __atomic_load_n(&a->ready, __ATOMIC_RELAXED));
	metric_single(t, M_process_start_time_seconds, (double)a->started);
	metric_single(t, M_process_cpu_seconds_total, p.cpu_s);
	metric_single(t, M_process_resident_memory_bytes, (double)p.resident_bytes);
	metric_single(t, M_process_open_fds, (double)p.fds);
	metric_single(t, M_process_max_fds, (double)p.max_fds);
	metric_single(t, M_log_lines_lost_total, (double)log_lost(&a->log));
}

static void write_snapshot(struct metric_page *t, const struct snapfile *s)
{
	msec at = __atomic_load_n(&s->written_at, __ATOMIC_RELAXED);

	if (s->dir < 0)
		return;
	metric_single(t, M_snapshot_written_total, (double)__atomic_load_n(&s->written, __ATOMIC_RELAXED));
	metric_single(t, M_snapshot_failed_total, (double)__atomic_load_n(&s->failed, __ATOMIC_RELAXED));
	metric_single(t, M_snapshot_bytes, (double)__atomic_load_n(&s->bytes, __ATOMIC_RELAXED));
	metric_single(t, M_snapshot_loaded_pages,
	    (double)__atomic_load_n(&s->loaded_pages, __ATOMIC_RELAXED));
	if (at != 0)
		metric_single(t, M_snapshot_age_seconds, (double)(clock_msec() - at) / 1000);
}

static void write_sibling(struct metric_page *t, const struct sibling_reader *s)
{
	if (s->n == 0)
		return;
	metric_family(t, M_sibling_snapshots_total);
	metric_sample(t, M_sibling_snapshots_total, "result=\"loaded\"",
	    __atomic_load_n(&s->loaded, __ATOMIC_RELAXED));
	metric_sample(t, M_sibling_snapshots_total, "result=\"failed\"",
	    __atomic_load_n(&s->failed, __ATOMIC_RELAXED));
	metric_single(t, M_sibling_snapshot_bytes, (double)__atomic_load_n(&s->bytes, __ATOMIC_RELAXED));
}

static void write_record(struct metric_page *t, const struct recfile *f)
{
	if (f->queue == NULL)
		return;
	metric_single(t, M_record_requests_total, (double)__atomic_load_n(&f->lines, __ATOMIC_RELAXED));
	metric_single(t, M_record_dropped_total, (double)traffic_dropped(f->queue));
	metric_single(t, M_record_bytes, (double)__atomic_load_n(&f->bytes, __ATOMIC_RELAXED));
	metric_single(t, M_record_ended, (double)__atomic_load_n(&f->ended, __ATOMIC_RELAXED));
}

static const struct metric_column tokenizer_columns[] = { { M_tokenizer_bytes } };
static const struct metric_column load_columns[] = { { M_tokenizer_load_seconds } };

static void add_model_bytes(void *arg, const struct model_figures *m)
{
	struct metric_view *v = metric_view_add(arg, "model", m->model, NULL, NULL);

	if (v != NULL)
		v->v[0] = (double)m->bytes;
}

static void add_model_load(void *arg, const struct model_figures *m)
{
	struct metric_view *v =
	    metric_view_add(arg, "model", m->model, "source", m->image ? "image" : "file");

	if (v != NULL)
		v->v[0] = m->load_s;
}

static void write_models(struct metric_page *t, struct models *m)
{
	struct metric_views bytes, loads;

	metric_views_init(&bytes);
	metric_views_init(&loads);
	models_each(m, add_model_bytes, &bytes);
	models_each(m, add_model_load, &loads);
	metric_views_write(t, &bytes, METRIC_COLUMNS(tokenizer_columns));
	metric_views_write(t, &loads, METRIC_COLUMNS(load_columns));
}

void metrics_write(const struct metrics_from *from, struct metric_page *t)
{
	write_process(t, from->agent);
	write_sandbox(t, &from->agent->sandbox);
	write_refused(t, from->agent->refused);
	write_snapshot(t, &from->agent->snapfile);
	write_sibling(t, &from->agent->sibling);
	write_record(t, &from->agent->recfile);
	write_models(t, &from->agent->models);
	metrics_write_core(t, from->agent->route);
	metrics_write_servers(t, from->agent);
	metrics_write_sources(t, from->agent);
	metrics_write_kvsub(t, from->agent);
	metrics_write_share(t, from->agent);
	metrics_write_pools(t, from->agent->route);
	metrics_write_histograms(t, from->agent);
	write_threads(t, from->agent);
	METRIC_TABLE(t, logrx_rows, from->logrx);
	METRIC_TABLE(t, admin_rows, from->admin);
	METRIC_TABLE(t, stats_rows, from->stats);
	metric_single(t, M_stats_answer_seconds_total, (double)count_read(&from->stats->us) / 1e6);
	METRIC_TABLE(t, engine_rows, from->engines);
	metric_single(t, M_engine_answer_seconds_total, (double)count_read(&from->engines->us) / 1e6);
	if (t->openmetrics)
		buf_str(t->t, "# EOF\n");
}
