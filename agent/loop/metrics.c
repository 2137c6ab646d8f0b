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
	{ "spop_frames_total", "", COUNTER, S(frames), "SPOP frames received." },
	{ "spop_notifies_total", "", COUNTER, S(notifies),
		"NOTIFYs received, whole or joined from fragments." },
	{ "spop_acks_total", "", COUNTER, S(acks), "ACKs written, one for each NOTIFY." },
	{ "spop_messages_total", "", COUNTER, S(messages), "Messages in NOTIFYs." },
	{ "spop_messages_unknown_total", "", COUNTER, S(messages_unknown),
		"Messages with an unknown name." },
	{ "spop_args_bad_total", "", COUNTER, S(args_bad),
		"NOTIFYs with invalid messages, or with more than 16." },
	{ "spop_lost_total", "", COUNTER, S(lost),
	  "NOTIFYs answered without routing, because there was no memory to hold them." },
	{ "spop_uncompared_total", "", COUNTER, S(uncompared),
	  "Late requests decided without the rules of policy.compare." },
	{ "spop_hurried_total", "", COUNTER, S(hurried),
	  "Late requests decided from cheap information only." },
	{ "spop_hellos_total", "", COUNTER, S(hellos), "Handshakes." },
	{ "spop_healthchecks_total", "", COUNTER, S(healthchecks), "Health checks answered." },
	{ "spop_aborts_total", "", COUNTER, S(aborts), "Fragmented NOTIFYs that HAProxy aborted." },
	{ "spop_fragments_total", "", COUNTER, S(fragments), "Fragments received." },
	{ "spop_closed_by_peer_total", "", COUNTER, S(closed_by_peer),
	  "Connections that HAProxy ended with a DISCONNECT." },
};

#define K(f)	offsetof(struct sock_counters, f)

static const struct metric_row sock_rows[] = {
	{ "spop_connections", "", GAUGE, K(open), "Open SPOP connections." },
	{ "spop_accepted_total", "", COUNTER, K(accepted), "SPOP connections accepted." },
	{ "spop_accept_errors_total", "", COUNTER, K(accept_errors),
	  "Failed accepts of SPOP connections, usually because file descriptors ran out." },
	{ "spop_refused_total", "reason=\"limit\"", COUNTER, K(refused_full),
		"SPOP connections refused, by reason." },
	{ "spop_refused_total", "reason=\"memory\"", COUNTER, K(refused_memory), NULL },
	{ "spop_closed_total", "reason=\"eof\"", COUNTER, K(closed_eof),
	  "SPOP connections closed: by HAProxy with a DISCONNECT (peer, also health checks) or without "
	  "(eof), or by the agent." },
	{ "spop_closed_total", "reason=\"peer\"", COUNTER, K(closed_peer), NULL },
	{ "spop_closed_total", "reason=\"error\"", COUNTER, K(closed_error), NULL },
	{ "spop_closed_total", "reason=\"hello_timeout\"", COUNTER, K(closed_hello), NULL },
	{ "spop_closed_total", "reason=\"idle_timeout\"", COUNTER, K(closed_idle), NULL },
	{ "spop_closed_total", "reason=\"drain\"", COUNTER, K(closed_drain), NULL },
	{ "spop_closed_total", "reason=\"protocol\"", COUNTER, K(closed_protocol), NULL },
	{ "spop_closed_total", "reason=\"memory\"", COUNTER, K(closed_memory), NULL },
	{ "spop_received_bytes_total", "", COUNTER, K(bytes_in), "Bytes from HAProxy." },
	{ "spop_sent_bytes_total", "", COUNTER, K(bytes_out), "Bytes to HAProxy." },
	{ "spop_writes_total", "", COUNTER, K(writes), "System calls that wrote answers." },
	{ "spop_paused_total", "", COUNTER, K(paused),
	  "Times reading from a peer stopped because it did not read its answers." },
};

#define U(f)	offsetof(struct budget, f)

static const struct metric_row budget_rows[] = {
	{ "spop_buffer_bytes", "", GAUGE, U(used), "Memory used by buffers of SPOP connections." },
	{ "spop_buffer_limit_bytes", "", GAUGE, U(max), "Memory limit of these buffers." },
	{ "spop_buffer_refused_total", "kind=\"first\"", COUNTER, U(refused_first),
	  "Buffers refused because of the limit: the first of a connection, or a larger one." },
	{ "spop_buffer_refused_total", "kind=\"large\"", COUNTER, U(refused_large), NULL },
};

static void write_disconnects(struct buf *t, const struct serve_counters *c)
{
	char label[32];

	metric_family(t, "spop_disconnects_total", COUNTER,
	       "SPOP connections closed by the agent because of a protocol error, by SPOP status.");
#define X(name, number, words) \
	if ((number) != SPOP_STATUS_NORMAL) { \
		snprintf(label, sizeof(label), "status=\"%d\"", number); \
		metric_sample(t, "spop_disconnects_total", label, c->closed_bad[number]); \
	}
	SPOP_STATUS_LIST(X)
#undef X
}

static void write_seconds(struct buf *t, const struct serve_counters *c)
{
	uint64_t n = 0;
	int i;

	metric_family(t, "decision_seconds", HISTOGRAM,
		"Time of route messages in the agent, from frame to ACK.");
	for (i = 0; i < SERVE_SECONDS_BUCKETS; i++) {
		n += c->us_bucket[i];
		if (i + 1 < SERVE_SECONDS_BUCKETS)
			page_addf(t, "kvroute_decision_seconds_bucket{le=\"%g\"} %llu\n",
				  (double)serve_us_bounds[i] / 1e6, (unsigned long long)n);
	}
	page_addf(t, "kvroute_decision_seconds_bucket{le=\"+Inf\"} %llu\n", (unsigned long long)n);
	page_addf(t, "kvroute_decision_seconds_sum");
	metric_value(t, (double)c->us_sum / 1e6);
	page_addf(t, "kvroute_decision_seconds_count %llu\n", (unsigned long long)n);
}

static void write_threads(struct buf *t, const struct agent *a)
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
	write_seconds(t, &serve);
	metric_family(t, "thread_connections", GAUGE, "Open SPOP connections, by thread.");
	for (i = 0; i < a->n_workers; i++) {
		snprintf(label, sizeof(label), "thread=\"%u\"", i);
		metric_sample(t, "thread_connections", label, count_read(&a->worker[i]->socks_count.open));
	}
}

/* ---- listeners, polls, process, files --------------------------------------------------- */

#define L(f)	offsetof(struct logrx_counters, f)

static const struct metric_row logrx_rows[] = {
	{ "feed_connections", "", GAUGE, L(open), "Open log feed connections." },
	{ "feed_accepted_total", "", COUNTER, L(accepted), "Log feed connections accepted." },
	{ "feed_accept_errors_total", "", COUNTER, L(accept_errors),
	  "Failed accepts of log feed connections, usually because file descriptors ran out." },
	{ "feed_refused_total", "", COUNTER, L(refused_full),
		"Log feed connections refused because of log_feed.max_connections." },
	{ "feed_pushed_out_total", "", COUNTER, L(pushed_out),
	  "Log feed connections without an accepted line that were closed for new ones." },
	{ "feed_lines_total", "result=\"taken\"", COUNTER, L(lines),
	  "Lines of the log feed: taken, invalid (bad), without JSON (other: HAProxy's notices, other "
	  "logs), too long." },
	{ "feed_lines_total", "result=\"bad\"", COUNTER, L(lines_bad), NULL },
	{ "feed_lines_total", "result=\"other\"", COUNTER, L(lines_other), NULL },
	{ "feed_lines_total", "result=\"long\"", COUNTER, L(lines_long), NULL },
	{ "facts_refused_total", "reason=\"no_token\"", COUNTER, L(no_token),
	  "Lines of the log feed rejected because of their token." },
	{ "facts_refused_total", "reason=\"wrong_token\"", COUNTER, L(wrong_token), NULL },
	{ "feed_datagrams_total", "", COUNTER, L(datagrams), "Datagrams of the log feed." },
	{ "feed_udp_dropped_total", "", COUNTER, L(dropped),
	  "Datagrams of the log feed that the kernel dropped because its buffer was full." },
	{ "feed_received_bytes_total", "", COUNTER, L(bytes), "Bytes of the log feed." },
};

#define A(f)	offsetof(struct admin_counters, f)

static const struct metric_row admin_rows[] = {
	{ "http_requests_total", "result=\"answered\"", COUNTER, A(requests),
	  "Requests to the metrics listener, by result." },
	{ "http_requests_total", "result=\"refused\"", COUNTER, A(refused), NULL },
	{ "http_requests_total", "result=\"timeout\"", COUNTER, A(timeouts), NULL },
	{ "http_requests_total", "result=\"pushed_out\"", COUNTER, A(pushed_out), NULL },
	{ "http_accept_errors_total", "", COUNTER, A(accept_errors),
	  "Failed accepts of connections to the metrics listener." },
};

#define P(f)	offsetof(struct poll_counters, f)

static const struct metric_row stats_rows[] = {
	{ "stats_sockets", "", GAUGE, P(peers), "Stats sockets of HAProxy that are polled." },
	{ "stats_polls_total", "result=\"answered\"", COUNTER, P(answered),
	  "Polls of stats sockets: answered, no answer in time (unreachable), invalid answer (bad)." },
	{ "stats_polls_total", "result=\"unreachable\"", COUNTER, P(unreachable), NULL },
	{ "stats_polls_total", "result=\"bad\"", COUNTER, P(bad), NULL },
	{ "stats_rows_total", "result=\"taken\"", COUNTER, P(items),
		"Rows of servers in the answers of stats sockets." },
	{ "stats_rows_total", "result=\"bad\"", COUNTER, P(items_bad), NULL },
	{ "stats_received_bytes_total", "", COUNTER, P(bytes), "Bytes of the answers of stats sockets." },
};

static const struct metric_row engine_rows[] = {
	{ "engines", "", GAUGE, P(peers), "Engines whose metrics are polled." },
	{ "engine_polls_total", "result=\"answered\"", COUNTER, P(answered),
	    "Polls of engines: answered, no answer in time (unreachable), invalid answer (bad)." },
	{ "engine_polls_total", "result=\"unreachable\"", COUNTER, P(unreachable), NULL },
	{ "engine_polls_total", "result=\"bad\"", COUNTER, P(bad), NULL },
	{ "engine_lines_bad_total", "", COUNTER, P(items_bad),
	    "Invalid lines in the metrics of engines." },
	{ "engine_received_bytes_total", "", COUNTER, P(bytes),
	    "Bytes of the metrics of engines." },
};

static void write_refused(struct buf *t, const struct sandbox_refused *r)
{
	metric_family(t, "sandbox_refused_total", COUNTER,
		"System calls that the sandbox refused; the agent needs none of them.");
	metric_sample(t, "sandbox_refused_total", "process=\"agent\"",
	    r != NULL ? refused_read(&r->agent) : 0);
	metric_sample(t, "sandbox_refused_total", "process=\"opener\"",
	    r != NULL ? refused_read(&r->opener) : 0);
}

static void write_sandbox(struct buf *t, const struct sandbox *s)
{
	metric_family(t, "sandbox", GAUGE, "1: this part of the sandbox is active.");
	metric_sample(t, "sandbox", "part=\"seccomp\"", s->seccomp);
	metric_sample(t, "sandbox", "part=\"landlock\"", s->landlock_abi > 0);
	metric_sample(t, "sandbox", "part=\"no_new_privs\"", s->no_new_privs);
	metric_sample(t, "sandbox", "part=\"no_capabilities\"", s->no_capabilities);
	metric_sample(t, "sandbox", "part=\"no_core\"", s->core_off);
	metric_sample(t, "sandbox", "part=\"open_refused\"", s->open_refused);
	metric_sample(t, "sandbox", "part=\"execve_refused\"", s->execve_refused);
}

static void write_process(struct buf *t, const struct agent *a)
{
	struct process_figures p;

	process_read(&a->files, &p);
	metric_family(t, "build_info", GAUGE, "1, with the version.");
	metric_sample(t, "build_info", "version=\"" KVROUTE_VERSION "\"", 1);
	metric_single(t, "ready", GAUGE, "1: all listeners are open, and the agent is not draining.",
	    __atomic_load_n(&a->ready, __ATOMIC_RELAXED));
	metric_single(t, "process_start_time_seconds", GAUGE,
		"Start time of the process, in seconds since 1970.",
	    (double)a->started);
	metric_single(t, "process_cpu_seconds_total", COUNTER, "CPU time of all threads.", p.cpu_s);
	metric_single(t, "process_resident_memory_bytes", GAUGE, "Resident memory.",
	    (double)p.resident_bytes);
	metric_single(t, "process_open_fds", GAUGE, "Open file descriptors.", (double)p.fds);
	metric_single(t, "process_max_fds", GAUGE, "Limit of open file descriptors.", (double)p.max_fds);
	metric_single(t, "log_lines_lost_total", COUNTER,
		"Log lines dropped because standard error was not ready.",
	    (double)log_lost(&a->log));
}

static void write_snapshot(struct buf *t, const struct snapfile *s)
{
	msec at = __atomic_load_n(&s->written_at, __ATOMIC_RELAXED);

	if (s->dir < 0)
		return;
	metric_single(t, "snapshot_written_total", COUNTER, "Snapshots written.",
	    (double)__atomic_load_n(&s->written, __ATOMIC_RELAXED));
	metric_single(t, "snapshot_failed_total", COUNTER, "Snapshots that could not be written.",
	    (double)__atomic_load_n(&s->failed, __ATOMIC_RELAXED));
	metric_single(t, "snapshot_bytes", GAUGE, "Size of the last snapshot written.",
	    (double)__atomic_load_n(&s->bytes, __ATOMIC_RELAXED));
	metric_single(t, "snapshot_loaded_pages", GAUGE, "Pages loaded from the snapshot at the start.",
	    (double)__atomic_load_n(&s->loaded_pages, __ATOMIC_RELAXED));
	if (at != 0)
		metric_single(t, "snapshot_age_seconds", GAUGE,
		    "Time since the last snapshot was written.",
		    (double)(clock_msec() - at) / 1000);
}

static void write_sibling(struct buf *t, const struct sibling_reader *s)
{
	if (s->n == 0)
		return;
	metric_family(t, "sibling_snapshots_total", COUNTER,
	    "Snapshots of siblings (share.snapshot_from): loaded, or failed to be.");
	metric_sample(t, "sibling_snapshots_total", "result=\"loaded\"",
	    __atomic_load_n(&s->loaded, __ATOMIC_RELAXED));
	metric_sample(t, "sibling_snapshots_total", "result=\"failed\"",
	    __atomic_load_n(&s->failed, __ATOMIC_RELAXED));
	metric_single(t, "sibling_snapshot_bytes", GAUGE, "Size of the last one that was loaded.",
	    (double)__atomic_load_n(&s->bytes, __ATOMIC_RELAXED));
}

static void write_record(struct buf *t, const struct recfile *f)
{
	if (f->queue == NULL)
		return;
	metric_single(t, "record_requests_total", COUNTER, "Requests written to the recording.",
	    (double)__atomic_load_n(&f->lines, __ATOMIC_RELAXED));
	metric_single(t, "record_dropped_total", COUNTER,
		"Decisions and facts not recorded because the queue was full.",
	    (double)traffic_dropped(f->queue));
	metric_single(t, "record_bytes", GAUGE, "Size of the recording's file.",
	    (double)__atomic_load_n(&f->bytes, __ATOMIC_RELAXED));
	metric_single(t, "record_ended", GAUGE,
		"1: the recording ended, because its file is full or could not be written.",
	    (double)__atomic_load_n(&f->ended, __ATOMIC_RELAXED));
}

static void write_model_bytes(void *arg, const struct model_figures *v)
{
	page_addf(arg, "kvroute_tokenizer_bytes{");
	page_label(arg, "model", span_str(v->model));
	page_addf(arg, "} %zu\n", v->bytes);
}

static void write_model_load(void *arg, const struct model_figures *v)
{
	page_addf(arg, "kvroute_tokenizer_load_seconds{");
	page_label(arg, "model", span_str(v->model));
	page_addf(arg, ",source=\"%s\"} %.6f\n", v->image ? "image" : "file", v->load_s);
}

static void count_model(void *arg, const struct model_figures *v)
{
	++*(size_t *)arg;
}

static void write_models(struct buf *t, struct models *m)
{
	size_t n = 0;

	models_each(m, count_model, &n);
	if (n == 0)
		return;
	metric_family(t, "tokenizer_bytes", GAUGE,
		"Memory of a model's tokenizer; models with the same files share it.");
	models_each(m, write_model_bytes, t);
	metric_family(t, "tokenizer_load_seconds", GAUGE,
		"Load time of the tokenizer, from its files or from its compiled image.");
	models_each(m, write_model_load, t);
}

void metrics_write(const struct metrics_from *from, struct buf *t)
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
	write_threads(t, from->agent);
	METRIC_TABLE(t, logrx_rows, from->logrx);
	METRIC_TABLE(t, admin_rows, from->admin);
	METRIC_TABLE(t, stats_rows, from->stats);
	metric_single(t, "stats_answer_seconds_total", COUNTER, "Total time of answered polls.",
	    (double)count_read(&from->stats->us) / 1e6);
	METRIC_TABLE(t, engine_rows, from->engines);
	metric_single(t, "engine_answer_seconds_total", COUNTER, "Total time of answered polls.",
	    (double)count_read(&from->engines->us) / 1e6);
}
