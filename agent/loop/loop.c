/* The main thread: open everything, start the threads, wait for signals, drain.
 *
 * Signals are blocked in every thread, and this one waits for them, so there is no signal handler.
 * A reload is read and checked here (reload.c) while the other threads work, and applied only if
 * all of it is valid. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/loop/agent_in.h"
#include "agent/loop/background_in.h"
#include "agent/loop/confine_in.h"
#include "agent/loop/kvsub_in.h"
#include "agent/loop/listen_warnings.h"
#include "agent/loop/reload_in.h"
#include "agent/loop/share_in.h"
#include "agent/loop/worker_in.h"
#include "agent/os/clock.h"
#include "agent/os/key_file.h"
#include "agent/os/memory.h"
#include "agent/os/process.h"

#define FDS_BESIDE		64	/* listeners, loops, files, metrics connections */
/* The opener, two files of /proc, snapshot and its directory, recording with its directory and next
 * file, the file of a reload, and one connection of each kind. */
#define FDS_OWN			13
#define FDS_LOOP		2	/* of each loop: epoll and its wake-up */
#define PATIENCE_NS		10000000
#define DRAIN_LOOK_NS		10000000

static void apply_tune(struct tune *t, const struct loop_opts *o)
{
	tune_set(t->max_connections, o->max_connections);
	tune_set(t->max_feeds, o->max_feeds);
	tune_set(t->hello_timeout_ms, o->hello_timeout_ms);
	tune_set(t->idle_timeout_ms, o->idle_timeout_ms);
	tune_set(t->timeout_processing_ms, o->timeout_processing_ms);
	tune_set(t->drain_ms, o->drain_ms);
	tune_set(t->max_frame_size, o->spop_conn.max_frame_size);
	tune_set(t->max_joined, o->spop_conn.max_joined);
	tune_set(t->max_open, o->spop_conn.max_open);
	tune_set(t->send_buffer, o->spop_send_buffer);
	tune_set(t->decisions_to, o->decisions_to);
}

void agent_apply_options(struct agent *a, const struct loop_opts *o)
{
	apply_tune(&a->tune, o);
	budget_set(&a->budget, o->spop_max_bytes);
	log_set_level(&a->log, o->log_level);
}

/* libev ends the process if an allocation fails. It allocates little and seldom, for one more
 * descriptor or timer, so the thread waits here until memory is free. Meanwhile HAProxy goes on by
 * its timeout, and no state is lost. */
static void *patient_realloc(void *p, long n) EV_NOEXCEPT
{
	struct timespec pause = { .tv_nsec = PATIENCE_NS };
	void *q;

	if (n == 0) {
		mem_free(p);
		return NULL;
	}
	while ((q = mem_resize(p, (size_t)n, 1)) == NULL)
		nanosleep(&pause, NULL);
	return q;
}

/* ---- opening ---------------------------------------------------------------------------- */

static int open_list(struct listeners *ls, const char (*text)[ADDR_MAX], const bool *optional,
		     int type, uint32_t mode, struct err *e)
{
	unsigned i;
	int rc;

	for (i = 0; i < LISTEN_MAX && text[i][0] != '\0'; i++) {
		rc = listener_open(&ls->l[ls->n], text[i], type, mode, e);
		if (rc == 0)
			ls->n++;
		else if (rc < 0 || optional == NULL || !optional[i])
			return -1;
	}
	return 0;
}

static int open_runtime(struct agent *a, const struct loop_opts *o, struct err *e)
{
	char text[ADDR_MAX + sizeof("unix@")];

	if (o->runtime_path[0] == '\0')
		return 0;
	snprintf(text, sizeof(text), "unix@%s", o->runtime_path);
	if (listener_open(&a->runtime.l[0], text, SOCK_STREAM, o->runtime_mode, e) != 0)
		return -1;
	a->runtime.n = 1;
	return 0;
}

static int open_all(struct agent *a, const struct loop_opts *o, struct err *e)
{
	uint32_t mode = o->socket_mode;

	if (open_list(&a->spop, o->spop, o->spop_optional, SOCK_STREAM, mode, e) != 0 ||
	    open_list(&a->log_tcp, o->log_tcp, NULL, SOCK_STREAM, mode, e) != 0 ||
	    open_list(&a->log_udp, o->log_udp, NULL, SOCK_DGRAM, mode, e) != 0 ||
	    open_list(&a->metrics, o->metrics, NULL, SOCK_STREAM, mode, e) != 0 ||
	    open_runtime(a, o, e) != 0)
		return -1;
	if (a->spop.n == 0)
		return err_set(e,
			"there is no address for HAProxy to connect to: each address of spop.listen is optional, and "
			"its directory is missing");
	return 0;
}

static void close_list(struct listeners *ls, struct opener *by)
{
	unsigned i;

	for (i = 0; i < ls->n; i++)
		listener_close(&ls->l[i], by);
	ls->n = 0;
}

/* <took> is below 0 before the allocation. */
static void log_index(struct agent *a, const struct route_opts *ro, usec took)
{
	struct log_line ln;

	if (!log_begin(&ln, &a->log, LOG_INFO, LOG_LIFE,
		       took < 0 ? "allocating the memory of the index" : "memory of the index allocated"))
		return;
	log_int(&ln, "index_max_bytes", (int64_t)ro->index.max_bytes);
	if (took >= 0)
		log_int(&ln, "ms", (int64_t)(took / 1000));
	log_end(&ln);
}

static int make_route(
    struct agent *a, const struct route_opts *ro, const struct hash_key *key, struct err *e)
{
	struct route_opts own = *ro;
	usec start = clock_usec();
	uint64_t seed = 0;

	if (memory_enough(ro->index.max_bytes, e) != 0)
		return -1;
	log_index(a, ro, -1);
	own.index.prefault = true;
	if (a->by_messages)
		seed = 1;	/* a simulation repeats its figures */
	else if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		seed = (uint64_t)time(NULL);
	errno = 0;
	a->route = route_new(&own, key, seed);
	if (a->route == NULL)
		return err_set(e,
			"index.max_bytes: cannot allocate %llu MiB and the tables beside it: %s; lower "
			"index.max_bytes, or raise the limits of the process (ulimit -v, -d)",
			       (unsigned long long)(ro->index.max_bytes >> 20), strerror(errno ? errno : ENOMEM));
	log_index(a, ro, clock_usec() - start);
	return 0;
}

/* ---- threads ---------------------------------------------------------------------------- */

static unsigned thread_count(const struct loop_opts *o)
{
	unsigned n = o->threads;

	if (n == 0) {
		n = process_cpus();
		if (n > THREADS_DEFAULT_MAX)
			n = THREADS_DEFAULT_MAX;
	}
	return n > THREADS_MAX ? THREADS_MAX : n;
}

/* Create all workers before any runs, because they read each other's counters. */
static int make_workers(struct agent *a, unsigned n, struct err *e)
{
	while (a->n_workers < n) {
		a->worker[a->n_workers] = worker_new(a, a->n_workers, e);
		if (a->worker[a->n_workers] == NULL)
			return -1;
		a->n_workers++;
	}
	return 0;
}

static int start_threads(struct agent *a, struct background *bg, struct err *e)
{
	unsigned i;

	a->n_accepting = a->n_workers;
	if (a->log_tcp.n == 0 && a->log_udp.n == 0)
		route_without_feed(a->route);
	if (a->kvsub != NULL && kvsub_start(a->kvsub, e) != 0)
		return -1;
	if ((a->share != NULL && share_start(a->share, e) != 0) || sibling_start(&a->sibling, e) != 0)
		return -1;
	if (background_start(bg, e) != 0 || snapfile_start(&a->snapfile, e) != 0 ||
	    recfile_start(&a->recfile, e) != 0)
		return -1;
	for (i = 0; i < a->n_workers; i++)
		if (worker_start(a->worker[i], e) != 0)
			return -1;
	__atomic_store_n(&a->ready, true, __ATOMIC_RELEASE);
	return 0;
}

static void signals_of(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
}

static void wake_workers(struct agent *a)
{
	unsigned i;

	for (i = 0; i < a->n_workers; i++)
		worker_wake(a->worker[i]);
}

/* Wait until all workers have ended, or a second signal to end arrives. A reload is ignored. */
static void wait_for_drain(struct agent *a)
{
	struct timespec pause = { .tv_nsec = DRAIN_LOOK_NS };
	sigset_t set;
	int sig;

	signals_of(&set);
	while (__atomic_load_n(&a->n_running, __ATOMIC_ACQUIRE) > 0) {
		sig = sigtimedwait(&set, NULL, &pause);
		if (sig != SIGTERM && sig != SIGINT)
			continue;
		log_msg(&a->log, LOG_INFO, LOG_LIFE, "second signal to end: open requests are not waited for");
		__atomic_store_n(&a->hurried, true, __ATOMIC_RELEASE);
		wake_workers(a);
		return;
	}
}

/* Stop the SPOP threads first, so that metrics and log feed work until the drain ends. Also called
 * after a start that failed. */
static void stop_threads(struct agent *a, struct background *bg)
{
	unsigned i;

	__atomic_store_n(&a->ready, false, __ATOMIC_RELEASE);
	__atomic_store_n(&a->draining, true, __ATOMIC_RELEASE);
	wake_workers(a);
	wait_for_drain(a);
	for (i = 0; i < a->n_workers; i++)
		worker_join(a->worker[i]);
	background_stop(bg);
	kvsub_stop(a->kvsub);
	share_stop(a->share);
	sibling_stop(&a->sibling);
	snapfile_stop(&a->snapfile);
	recfile_stop(&a->recfile);
}

static void agent_fini(struct agent *a, struct background *bg)
{
	unsigned i;

	background_free(bg);
	kvsub_free(a->kvsub);
	for (i = 0; i < a->n_workers; i++)
		worker_free(a->worker[i]);
	route_free(a->route);
	share_free(a->share);
	close_list(&a->spop, &a->opener);
	close_list(&a->log_tcp, &a->opener);
	close_list(&a->log_udp, &a->opener);
	close_list(&a->metrics, &a->opener);
	close_list(&a->runtime, &a->opener);
	snapfile_close(&a->snapfile);
	recfile_close(&a->recfile);
	models_fini(&a->models);
	config_text_free(&a->config_text);
	notify_close(&a->notify);
	confine_end(a);
}

/* ---- log lines -------------------------------------------------------------------------- */

static void log_list(struct log_line *ln, const char *key, const struct listeners *ls)
{
	char all[LISTEN_MAX * (ADDR_MAX + 1)] = "";
	size_t n = 0;
	unsigned i;

	for (i = 0; i < ls->n; i++)
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i ? "," : "", ls->l[i].text);
	log_text(ln, key, n ? all : "none");
}

static bool log_addresses(struct log_line *ln, struct agent *a, const char *msg)
{
	if (!log_begin(ln, &a->log, LOG_INFO, LOG_LIFE, msg))
		return false;
	log_text(ln, "version", KVROUTE_VERSION);
	log_int(ln, "pid", getpid());
	log_list(ln, "spop", &a->spop);
	log_list(ln, "log_tcp", &a->log_tcp);
	log_list(ln, "log_udp", &a->log_udp);
	log_list(ln, "metrics", &a->metrics);
	if (a->runtime.n > 0)
		log_list(ln, "runtime", &a->runtime);
	return true;
}

/* Written before the steps that take seconds. */
static void log_listening(struct agent *a)
{
	struct log_line ln;

	if (!log_addresses(&ln, a, "listening"))
		return;
	log_text(&ln, "note", "connections wait until the start is complete");
	log_end(&ln);
}

static void log_start(struct agent *a, const struct route_opts *ro, bool kept)
{
	struct log_line ln;

	if (!log_addresses(&ln, a, "started"))
		return;
	log_int(&ln, "threads", a->n_workers);
	log_text(&ln, "key", kept ? "kept" : "temporary");
	log_int(&ln, "index_max_bytes", (int64_t)ro->index.max_bytes);
	log_text(&ln, "regex", a->jit ? "jit" : "interpreted");
	log_end(&ln);
}

static void log_key(struct agent *a, const struct loop_opts *o, bool kept)
{
	struct log_line ln;

	if (kept || !log_begin(&ln, &a->log, LOG_WARN, LOG_LIFE,
			       "the hash key is temporary: state_dir is missing or not writable"))
		return;
	log_text(&ln, "state_dir", o->state_dir);
	log_text(&ln, "effect", "page keys differ after a restart, and from other agents");
	log_text(&ln, "remedy", "create state_dir, writable for the agent's user, or set key_file");
	log_end(&ln);
}

/* Returns the descriptors that every start needs, with one connection of each kind. */
static unsigned fds_least(const struct loop_opts *o)
{
	const char (*list[])[ADDR_MAX] = { o->spop, o->log_tcp, o->log_udp, o->metrics };
	unsigned n = FDS_OWN + FDS_LOOP * (thread_count(o) + 1) + (unsigned)loop_peers(o);

	n += o->runtime_path[0] != '\0' ? 2 : 0;

	for (size_t l = 0; l < sizeof(list) / sizeof(list[0]); l++)
		for (unsigned i = 0; i < LISTEN_MAX && list[l][i][0] != '\0'; i++)
			n++;
	return n;
}

static int check_fds(struct agent *a, const struct loop_opts *o, struct err *e)
{
	uint64_t have = process_raise_fds();
	uint64_t need = (uint64_t)o->max_connections + o->max_feeds + loop_peers_most(o) + FDS_BESIDE +
			kvsub_fds(o) + share_fds(o) +
			(o->runtime_path[0] != '\0' ? 1 + RUNTIME_CONNS_MAX : 0);
	unsigned least = fds_least(o);
	struct log_line ln;

	if (!process_fds_left(least))
		return err_set(e,
			"the limit of open files is %llu: threads, addresses and one connection of each kind need %u "
			"more than are open now; raise it to %llu (ulimit -n; systemd: LimitNOFILE=)",
			       (unsigned long long)have, least, (unsigned long long)need);
	if (have >= need ||
	    !log_begin(&ln, &a->log, LOG_WARN, LOG_LIFE,
		"the limit of open files is too low for the configuration"))
		return 0;
	log_int(&ln, "limit", (int64_t)have);
	log_int(&ln, "needed", (int64_t)need);
	log_text(&ln, "effect", "connections beyond the limit wait");
	log_text(&ln, "remedy", "raise the limit (ulimit -n; systemd: LimitNOFILE=)");
	log_end(&ln);
	return 0;
}

static void log_listen_warning(void *arg, const char *sentence)
{
	struct agent *a = arg;

	log_msg(&a->log, LOG_WARN, LOG_LIFE, sentence);
}

/* The opener has been forked by now and does not have the socket. */
static void open_notify(struct agent *a)
{
	struct log_line ln;

	if (notify_open(&a->notify) == 0 ||
	    !log_begin(&ln, &a->log, LOG_WARN, LOG_LIFE, "cannot connect to the service manager"))
		return;
	log_text(&ln, "error", strerror(errno));
	log_text(&ln, "effect", "it does not learn that the agent is ready, and may end it");
	log_text(&ln, "remedy", "check NOTIFY_SOCKET; with systemd: Type=notify");
	log_end(&ln);
}

/* ---- signals ---------------------------------------------------------------------------- */

static void wait_for_end(struct agent *a, struct background *bg, const struct loop_reload *reload)
{
	sigset_t set;
	int sig;

	signals_of(&set);
	for (;;) {
		if (sigwait(&set, &sig) != 0)
			continue;
		if (sig != SIGHUP)
			break;
		agent_reload(a, bg, reload);
	}
	notify_send(&a->notify, "STOPPING=1\nSTATUS=waiting for open requests");
	log_msg(&a->log, LOG_INFO, LOG_LIFE, "draining");
}

/* ---- start and stop --------------------------------------------------------------------- */

static int restore_snapshot(struct agent *a, const struct loop_opts *o, bool kept, struct err *e)
{
	if (snapfile_open(&a->snapfile, o, kept, e) != 0)
		return -1;
	a->snapfile.share = a->share;
	snapfile_load(&a->snapfile, a->route, &a->log);
	return 0;
}

/* Addresses and the first log line come before the steps that take seconds, so that a wrong address
 * is reported at once. Secrets are read as the user that started the process, everything else as
 * the final user. */
static int bind_and_read_secrets(
    struct agent *a, const struct loop_opts *o, struct hash_key *key, bool *kept, struct err *e)
{
	if (check_fds(a, o, e) != 0 ||
	    token_read(&a->feed_token, o->feed_token_file, &a->identity, e) != 0 ||
	    open_all(a, o, e) != 0)
		return -1;
	log_listening(a);
	return key_file_load(o->key_file, o->state_dir, &a->identity, key, kept, e);
}

static int make_kvsub(
    struct agent *a, const struct loop_opts *o, const struct hash_key *key, struct err *e)
{
	return !kvsub_wanted(o) || (a->kvsub = kvsub_new(a, o, key, e)) != NULL ? 0 : -1;
}

static int make_share(
    struct agent *a, const struct loop_opts *o, struct err *e)
{
	return !share_wanted(o) || (a->share = share_new(a, o, e)) != NULL ? 0 : -1;
}

static int make_all(struct agent *a, const struct loop_opts *o, const struct route_opts *ro,
    const struct hash_key *key, bool kept, struct background **bg, struct err *e)
{
	struct route_opts own = { .n_pools = 0 };	/* with tokenizers */
	int rc = -1;

	if (agent_load_models(a, o, ro, &own, e) == 0 && make_route(a, &own, key, e) == 0 &&
	    (a->share == NULL || share_attach(a->share, &own, key, kept, e) == 0) &&
	    sibling_open(&a->sibling, a, o, &own, key, kept, e) == 0 &&
	    restore_snapshot(a, o, kept, e) == 0 &&
	    recfile_open(&a->recfile, o, a->route, key, &a->log, e) == 0 &&
	    make_workers(a, thread_count(o), e) == 0 && make_kvsub(a, o, key, e) == 0 &&
	    (*bg = background_new(a, o, e)) != NULL)
		rc = 0;
	route_opts_free(&own);
	return rc;
}

static int start_agent(struct agent *a, const struct loop_opts *o, const struct route_opts *ro,
    bool *kept, struct background **bg, struct err *e)
{
	struct hash_key key;
	int rc = -1;

	if (bind_and_read_secrets(a, o, &key, kept, e) == 0 && make_share(a, o, e) == 0 &&
	    confine_user(a, o, e) == 0)
		rc = make_all(a, o, ro, &key, *kept, bg, e);
	mem_wipe(&key, sizeof(key));
	return rc;
}

static int run_agent(struct agent *a, const struct loop_opts *o, const struct route_opts *ro,
	       const struct loop_reload *reload, struct err *e)
{
	struct background *bg = NULL;
	bool kept = false;
	int rc = -1;

	snapfile_init(&a->snapfile, o, ro, &a->opener);
	recfile_init(&a->recfile, o, &a->opener);
	a->files.statm = a->opener.fd = a->notify.fd = -1;
	if (confine_begin(a, o, reload != NULL ? reload->file : NULL, e) != 0)
		goto out;
	open_notify(a);
	if (start_agent(a, o, ro, &kept, &bg, e) != 0)
		goto out;
	log_key(a, o, kept);
	listen_warnings(o, log_listen_warning, a);
	confine_enter(a, o);
	if (start_threads(a, bg, e) == 0) {
		log_start(a, ro, kept);
		notify_send(&a->notify, "READY=1\nSTATUS=answering HAProxy");
		wait_for_end(a, bg, reload);
		rc = 0;
	}
	stop_threads(a, bg);
	if (rc == 0) {
		snapfile_write(&a->snapfile);
		log_msg(&a->log, LOG_INFO, LOG_LIFE, "stopped");
	}
out:
	agent_fini(a, bg);
	return rc;
}

int loop_run(const struct loop_opts *o, const struct route_opts *ro,
    const struct loop_reload *reload, struct err *e)
{
	struct agent *a = mem_alloc(sizeof(*a));
	sigset_t set, old;
	int rc;

	if (a == NULL)
		return err_set(e, "no memory");
	ev_set_allocator(patient_realloc);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);	/* a snapshot above the limit is a failed write */
	signals_of(&set);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	log_init(&a->log, STDERR_FILENO, o->log_level);
	models_init(&a->models);
	config_text_init(&a->config_text);
	config_text_set(&a->config_text, reload, ro, o);
	agent_apply_options(a, o);
	connect_ports_of(o, &a->connect_ports);
	a->by_messages = o->clock == CLOCK_MESSAGE;
	a->started = (int64_t)time(NULL);
	rc = run_agent(a, o, ro, reload, e);
	log_fini(&a->log);
	mem_wipe(&a->feed_token, sizeof(a->feed_token));
	mem_free(a);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}
