/* A SPOP thread. A flag and an ev_async tell it to drain: it stops accepting, ends its connections
 * (sock_end.c), and leaves its loop if there are none, if the time is up, or if a second flag tells
 * it to hurry. The last worker that stops accepting closes the listeners, so that no connection
 * waits in a queue that is never served. */
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/base/count.h"
#include "agent/loop/sock_in.h"
#include "agent/os/clock.h"

#define SWEEP_S		0.25
#define HEAP_AHEAD	(112u << 10)	/* bytes for some 25 turns of conversations */
#define HEAP_NOTIFIES	16		/* requests between two calls of touch_heap() */
#define CROWDED_BY	2	/* connections more than the least busy thread */
#define REST_US		50	/* longer than the kernel takes to tell which sockets are ready */
/* of one turn; libev has allocated memory for as many before the first turn */
#define PRIMED_EVENTS	128
#define PRIMED_TIMERS	8

static int64_t env_wall(void *arg)
{
	return clock_wall_s();
}

static usec env_clock(void *arg)
{
	return clock_usec();
}

static enum serve_wait env_wait(void *arg, usec now, msec asked)
{
	struct worker *w = arg;

	return overload_judge(&w->overload, w->judged, now, asked);
}

/* ---- accepting -------------------------------------------------------------------------- */

static void worker_accept(void *arg, int fd, const union sockaddr_any *peer)
{
	sock_open(arg, fd, peer);
}

static bool has_more_than_others(void *arg)
{
	const struct worker *w = arg;
	uint64_t mine = count_read(&w->socks_count.open);
	unsigned i;

	for (i = 0; i < w->agent->n_workers; i++)
		if (count_read(&w->agent->worker[i]->socks_count.open) + CROWDED_BY <= mine)
			return true;
	return false;
}

static void accept_start(struct worker *w)
{
	struct listeners *ls = &w->agent->spop;
	struct acceptor *a;
	unsigned i;

	for (i = 0; i < ls->n; i++) {
		a = &w->acceptor[i];
		a->log = &w->agent->log;
		a->name = "spop";
		a->accepted = worker_accept;
		a->crowded = has_more_than_others;
		a->arg = w;
		a->errors = &w->socks_count.accept_errors;
		acceptor_start(a, w->loop, &ls->l[i]);
	}
}

static void accept_stop(struct worker *w)
{
	struct listeners *ls = &w->agent->spop;
	unsigned i;

	for (i = 0; i < ls->n; i++)
		acceptor_stop(&w->acceptor[i]);
	if (__atomic_sub_fetch(&w->agent->n_accepting, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	for (i = 0; i < ls->n; i++)
		listener_close(&ls->l[i], &w->agent->opener);
}

/* ---- the loop --------------------------------------------------------------------------- */

static void leave_if_done(struct worker *w)
{
	if (w->draining && !sock_any(w))
		ev_break(w->loop, EVBREAK_ALL);
}

/* First callback of a turn, right after the wait. */
static void on_pass(struct ev_loop *loop, ev_check *c, int revents)
{
	struct worker *w = c->data;
	usec now = clock_usec();

	if (w->found)
		w->looked = w->queried;
	w->found = false;
	w->queried = w->turn_ended;
	w->pass_start = now;
	count_add(&w->turns, 1);
	w->rested = now - w->turn_ended > REST_US;
	if (w->rested)
		overload_rest(&w->overload, now - w->turn_ended, now);
	overload_bounds(&w->overload, tune_get(w->agent->tune.timeout_processing_ms));
}

/* Called after all other events of this turn. */
static void on_turn(struct ev_loop *loop, ev_check *c, int revents)
{
	sock_turn(c->data);
}

/* Have the kernel give pages to the end of this thread's heap, where the next conversations will be
 * remembered: a request that needs a new page waits 5 us for it. glibc takes larger blocks from
 * elsewhere, and gives back what is above 128 KiB. */
static void touch_heap(struct worker *w)
{
	uint8_t *p = mem_resize(NULL, HEAP_AHEAD, 1);

	for (size_t i = 0; p != NULL && i < HEAP_AHEAD; i += 4096)
		*(volatile uint8_t *)(p + i) = 0;
	mem_free(p);
	w->notifies_touched = w->count.notifies;
}

/* Wipe spare buffers, which is cheap, and the scanner if nothing has come since the last sweep. A
 * spare one may be unused for long while notifies come: connections that keep theirs need none. */
static void wipe_prompts(struct worker *w)
{
	bool quiet = w->notifies_swept == w->count.notifies;

	w->notifies_swept = w->count.notifies;
	sock_wipe_spares(w);
	if (!quiet || !w->dirty)
		return;
	route_scratch_wipe(w->env.scratch);
	mem_wipe_stack();
	w->dirty = false;
}

static void on_sweep(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct worker *w = t->data;

	sock_sweep(w, clock_msec());
	wipe_prompts(w);
}

static void on_drain_end(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct worker *w = t->data;

	sock_close_all(w);
}

/* Last callback of a turn, before the next wait. */
static void on_turn_end(struct ev_loop *loop, ev_prepare *p, int revents)
{
	struct worker *w = p->data;

	if (w->count.notifies - w->notifies_touched >= HEAP_NOTIFIES)
		touch_heap(w);
	w->turn_ended = clock_usec();
	leave_if_done(w);
}

static void on_wake(struct ev_loop *loop, ev_async *e, int revents)
{
	struct worker *w = e->data;

	if (!__atomic_load_n(&w->agent->draining, __ATOMIC_ACQUIRE))
		return;
	if (!w->draining) {
		w->draining = true;
		accept_stop(w);
		ev_timer_set(&w->drain_end, (double)tune_get(w->agent->tune.drain_ms) / 1000., 0.);
		ev_timer_start(loop, &w->drain_end);
		sock_drain_all(w);
	}
	if (__atomic_load_n(&w->agent->hurried, __ATOMIC_ACQUIRE))
		sock_close_all(w);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	char name[16];

	snprintf(name, sizeof(name), "spop-%u", w->number);
	pthread_setname_np(pthread_self(), name);
	accept_start(w);
	ev_run(w->loop, 0);
	__atomic_sub_fetch(&w->agent->n_running, 1, __ATOMIC_ACQ_REL);
	return NULL;
}

/* ---- start and stop --------------------------------------------------------------------- */

static bool grant_fragments(void *arg, size_t n)
{
	return budget_take(arg, BUDGET_LARGE, n);
}

static void release_fragments(void *arg, size_t n)
{
	budget_give(arg, n);
}

static void watchers_start(struct worker *w)
{
	ev_async_init(&w->wake, on_wake);
	ev_check_init(&w->pass, on_pass);
	ev_check_init(&w->turn, on_turn);
	ev_prepare_init(&w->turn_end, on_turn_end);
	ev_timer_init(&w->sweep, on_sweep, SWEEP_S, SWEEP_S);
	ev_timer_init(&w->drain_end, on_drain_end, 0., 0.);
	w->wake.data = w->pass.data = w->turn.data = w->turn_end.data = w;
	w->sweep.data = w->drain_end.data = w;
	ev_set_priority(&w->pass, EV_MAXPRI);
	ev_set_priority(&w->turn, EV_MINPRI);
	ev_async_start(w->loop, &w->wake);
	ev_check_start(w->loop, &w->pass);
	ev_check_start(w->loop, &w->turn);
	ev_prepare_start(w->loop, &w->turn_end);
	ev_timer_start(w->loop, &w->sweep);
}

static void on_nothing(struct ev_loop *loop, ev_timer *t, int revents)
{
}

/* Run one turn with many events before all others. libev grows its lists as needed and waits if
 * there is no memory (loop.c), and then all connections of this thread wait. After this turn a
 * thread that only continues with its connections needs no more memory. */
static void prime_loop(struct ev_loop *loop)
{
	ev_timer due[PRIMED_TIMERS], fed[PRIMED_EVENTS];
	unsigned i;

	for (i = 0; i < PRIMED_TIMERS; i++) {
		ev_timer_init(&due[i], on_nothing, -1., 0.);
		ev_timer_start(loop, &due[i]);
	}
	for (i = 0; i < PRIMED_EVENTS; i++) {
		ev_timer_init(&fed[i], on_nothing, 0., 0.);
		ev_feed_event(loop, &fed[i], EV_CUSTOM);
	}
	ev_run(loop, EVRUN_NOWAIT);
	for (i = 0; i < PRIMED_TIMERS; i++)
		ev_timer_stop(loop, &due[i]);
}

struct worker *worker_new(struct agent *a, unsigned number, struct err *e)
{
	struct worker *w = mem_alloc(sizeof(*w));
	enum sock_phase phase;

	if (w == NULL)
		goto fail;
	w->agent = a;
	w->number = number;
	for (phase = SOCK_HELLO; phase < SOCK_PHASES; phase++)
		list_init(&w->socks[phase]);
	list_init(&w->ready);
	w->pass_start = clock_usec();
	w->fragments = (struct spop_memory){ grant_fragments, release_fragments, &a->budget };
	w->env.route = a->route;
	w->env.count = &w->count;
	w->env.pools = &w->pools;
	w->env.clock = env_clock;
	w->env.wall = env_wall;
	if (a->by_messages)
		w->env.message_clock = &a->message_clock;
	/* a simulation must not depend on this machine's time */
	w->env.wait = a->by_messages ? NULL : env_wait;
	w->env.wait_arg = w;
	if (!sock_spares(w) || (w->env.scratch = route_scratch_new(a->route)) == NULL)
		goto fail;
	if ((w->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV)) == NULL || !process_fd_left())
		goto fail;
	watchers_start(w);
	prime_loop(w->loop);
	return w;
fail:
	err_set(e, "not enough memory or file descriptors for thread spop-%u", number);
	worker_free(w);
	return NULL;
}

int worker_start(struct worker *w, struct err *e)
{
	int rc;

	__atomic_add_fetch(&w->agent->n_running, 1, __ATOMIC_ACQ_REL);
	if ((rc = pthread_create(&w->thread, NULL, worker_main, w)) != 0) {
		__atomic_sub_fetch(&w->agent->n_running, 1, __ATOMIC_ACQ_REL);
		return err_set(e, "cannot start thread spop-%u: %s", w->number, strerror(rc));
	}
	w->running = true;
	return 0;
}

void worker_wake(struct worker *w)
{
	ev_async_send(w->loop, &w->wake);
}

void worker_join(struct worker *w)
{
	if (w->running)
		pthread_join(w->thread, NULL);
	w->running = false;
}

void worker_free(struct worker *w)
{
	if (w == NULL)
		return;
	sock_free_spares(w);
	if (w->loop != NULL)
		ev_loop_destroy(w->loop);
	route_scratch_free(w->env.scratch);
	serve_pools_free(&w->pools);
	mem_free(w);
}
