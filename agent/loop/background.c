/* The background thread: log feed, metrics, polls, ticks of the core, and log lines about problems.
 *
 * The core's periodic work (route_work()) is done in small parts, one after each turn of the loop,
 * so that it delays nothing else of this thread. */
#include <stdio.h>

#include "agent/base/count.h"
#include "agent/base/mem.h"
#include "agent/loop/background_in.h"
#include "agent/loop/kvsub.h"
#include "agent/loop/metrics_in.h"
#include "agent/loop/worker_in.h"
#include "agent/os/clock.h"

#define TICK_S	0.1

/* Keeps the loop from blocking. libev does not call it while there is other work, so the work is
 * done in on_turn_end(). */
static void on_idle(struct ev_loop *loop, ev_idle *i, int revents)
{
}

/* Do one part of the core's work after each turn of the loop. */
static void on_turn_end(struct ev_loop *loop, ev_prepare *p, int revents)
{
	struct background *s = p->data;

	if (ev_is_active(&s->idle) && !route_work(s->agent->route))
		ev_idle_stop(loop, &s->idle);
}

static void log_disagreement(struct background *s)
{
	struct route_disagreement d;
	struct log_line ln;

	if (!route_disagrees(s->agent->route, agent_msec(s->agent), &d) ||
	    !log_begin(&ln, &s->agent->log, LOG_WARN, LOG_LIFE,
		"engine and agent count different numbers of prompt tokens for this kind of request"))
		return;
	log_text(&ln, "model", d.model);
	log_text(&ln, "kind", d.kind);
	log_int(&ln, "minutes", (d.for_ms + 59999) / 60000);
	log_text(&ln, "effect",
		"requests of this kind are matched as text for tenants whose counts differ; tokens are tried "
		"again later");
	log_text(&ln, "remedy",
		"compare models.tokenizer, chat_template and transformers with the engine's settings "
		"(kvroutectl render, tokenize)");
	log_end(&ln);
}

static void log_example(
    struct log_line *ln, const struct problem_row *row, const struct problem_example *x)
{
	for (unsigned i = 0; i < 2; i++) {
		if (row->text_key[i][0] != '\0')
			log_text(ln, row->text_key[i], x->text[i]);
	}
	if (row->number_key[0] != '\0')
		log_int(ln, row->number_key, x->number);
}

static void log_problem(struct log *log, const struct problem_event *e)
{
	const struct problem_row *row = &problem_rows[e->what];
	struct log_line ln;
	char msg[160];

	snprintf(msg, sizeof(msg), "%s%s", e->over ? "resolved: " : "", row->message);
	if (!log_begin(&ln, log, e->over ? LOG_INFO : LOG_WARN, LOG_LIFE, msg))
		return;
	log_text(&ln, "problem", row->word);
	log_text(&ln, "pool", e->pool);
	if (!e->over) {
		log_example(&ln, row, &e->example);
		log_int(&ln, "seen", e->bad);
		log_int(&ln, "of", e->seen);
		log_text(&ln, "effect", row->effect);
		log_text(&ln, "remedy", problem_remedy(e->what, &e->example));
	}
	log_end(&ln);
}

static void log_problems(struct background *s)
{
	struct problem_event e;

	while (route_problem_next(s->agent->route, agent_msec(s->agent), &e))
		log_problem(&s->agent->log, &e);
}

static void log_late_thread(struct background *s, unsigned number)
{
	struct log_line ln;

	if (!log_begin(&ln, &s->agent->log, LOG_ERROR, LOG_LIFE, "a SPOP thread does not turn"))
		return;
	log_int(&ln, "thread", number);
	log_text(&ln, "effect",
		"its connections get no answers, so HAProxy balances them as without the agent; the service "
		"manager will restart the agent");
	log_text(&ln, "remedy", "report it with the lines before this one");
	log_end(&ln);
}

/* Tell the service manager that requests are answered. */
static void tick_watchdog(struct background *s)
{
	uint64_t turns[THREADS_MAX];
	msec now = clock_msec();
	unsigned who;

	if (s->watchdog.every_ms == 0 || __atomic_load_n(&s->agent->draining, __ATOMIC_ACQUIRE))
		return;
	for (unsigned i = 0; i < s->agent->n_workers; i++)
		turns[i] = count_read(&s->agent->worker[i]->turns);
	switch (watchdog_check(&s->watchdog, turns, s->agent->n_workers, now, &who)) {
	case WATCHDOG_TELL:
		if (notify_try(&s->agent->notify, "WATCHDOG=1"))
			watchdog_told(&s->watchdog, turns, s->agent->n_workers, now);
		break;
	case WATCHDOG_LATE:
		log_late_thread(s, who);
		break;
	case WATCHDOG_QUIET:
		break;
	}
}

static void on_tick(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct background *s = t->data;

	if (!s->agent->by_messages) {
		route_tick(s->agent->route, clock_msec());
		ev_idle_start(loop, &s->idle);
	}
	log_disagreement(s);
	confine_log_refused(s->agent->refused, &s->refused_told, &s->agent->log, clock_msec());
	log_problems(s);
	logrx_tick(&s->logrx);
	admin_sweep(&s->admin, clock_msec());
	runtime_sweep(&s->runtime, clock_msec());
	tick_watchdog(s);
	mem_wipe(&s->logrx.line, sizeof(s->logrx.line));
	mem_wipe_stack();
}

static void on_stop(struct ev_loop *loop, ev_async *e, int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

static void on_engines(void *arg, const struct engine_opts *list, size_t n)
{
	struct background *s = arg;

	if (s->agent->kvsub != NULL && kvsub_apply_engines(s->agent->kvsub, list, n) != 0)
		log_msg(&s->agent->log, LOG_WARN, LOG_MEMORY,
		    "no memory for the list of engines with KV cache events; the old list stays");
}

static void on_engine_start(void *arg, const struct engine_opts *who, double start_s)
{
	struct background *s = arg;

	if (s->agent->kvsub != NULL)
		kvsub_process_start(
		    s->agent->kvsub, span_str(who->pool), span_str(who->name), start_s);
}

static void on_peers_reload(struct ev_loop *loop, ev_async *e, int revents)
{
	struct background *s = e->data;
	struct poll_peers_opts *o = __atomic_exchange_n(&s->next, NULL, __ATOMIC_ACQ_REL);

	if (o != NULL)
		poll_peers_apply(&s->peers, o);
}

static void render_metrics(void *arg, struct metric_page *p)
{
	struct background *s = arg;
	struct metrics_from from = {
		.agent = s->agent,
		.logrx = &s->logrx.count,
		.admin = &s->admin.count,
		.stats = &s->peers.stats_count,
		.engines = &s->peers.engines_count,
	};

	metrics_write(&from, p);
}

static void *background_main(void *arg)
{
	struct background *s = arg;

	pthread_setname_np(pthread_self(), "background");
	logrx_start(&s->logrx, s->agent, s->loop);
	admin_start(&s->admin, s->agent, s->loop);
	runtime_start(&s->runtime, s->agent, s->loop);
	poll_peers_start(&s->peers, s->agent, s->loop);
	on_peers_reload(s->loop, &s->reload, 0);
	ev_run(s->loop, 0);
	logrx_stop(&s->logrx);
	admin_stop(&s->admin);
	runtime_stop(&s->runtime);
	poll_peers_stop(&s->peers);
	return NULL;
}

struct background *background_new(struct agent *a, const struct loop_opts *o, struct err *e)
{
	struct background *s = mem_alloc(sizeof(*s));

	if (s == NULL || (s->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV)) == NULL ||
	    !process_fd_left() || (s->next = poll_peers_opts_new(o)) == NULL) {
		err_set(e, "not enough memory or file descriptors for the background thread");
		background_free(s);
		return NULL;
	}
	s->agent = a;
	watchdog_init(&s->watchdog, a->notify.watchdog_ms, clock_msec());
	s->admin.render = render_metrics;
	s->admin.arg = s;
	s->peers.on_engines = on_engines;
	s->peers.on_start = on_engine_start;
	s->peers.arg = s;
	ev_async_init(&s->stop, on_stop);
	ev_async_start(s->loop, &s->stop);
	ev_async_init(&s->reload, on_peers_reload);
	s->reload.data = s;
	ev_async_start(s->loop, &s->reload);
	ev_timer_init(&s->tick, on_tick, TICK_S, TICK_S);
	s->tick.data = s;
	ev_idle_init(&s->idle, on_idle);
	ev_prepare_init(&s->turn_end, on_turn_end);
	s->turn_end.data = s;
	ev_prepare_start(s->loop, &s->turn_end);
	ev_timer_start(s->loop, &s->tick);
	return s;
}

int background_start(struct background *s, struct err *e)
{
	int rc = pthread_create(&s->thread, NULL, background_main, s);

	if (rc != 0)
		return err_set(e, "cannot start the background thread: %s", strerror(rc));
	s->running = true;
	return 0;
}

void background_reload(struct background *s, struct poll_peers_opts *o)
{
	mem_free(__atomic_exchange_n(&s->next, o, __ATOMIC_ACQ_REL));
	ev_async_send(s->loop, &s->reload);
}

void background_stop(struct background *s)
{
	if (s == NULL || !s->running)
		return;
	ev_async_send(s->loop, &s->stop);
	pthread_join(s->thread, NULL);
	s->running = false;
}

void background_free(struct background *s)
{
	if (s == NULL)
		return;
	if (s->loop != NULL)
		ev_loop_destroy(s->loop);
	mem_free(s->next);
	mem_free(s);
}
