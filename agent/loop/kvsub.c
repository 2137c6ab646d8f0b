/* The thread that reads KV cache events: its list of sources, its turns, its figures. */
#include "agent/base/mem.h"
#include "agent/loop/kvsub_in.h"

int kvsub_apply_engines(struct kvsub *k, const struct engine_opts *list, size_t n)
{
	struct event_source *s = mem_calloc(n > 0 ? n : 1, sizeof(*s));
	size_t used = 0;
	int rc;

	if (s == NULL)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (list[i].events.endpoint[0] == '\0')
			continue;
		memcpy(s[used].pool, list[i].pool, sizeof(s[used].pool));
		memcpy(s[used].server, list[i].name, sizeof(s[used].server));
		memcpy(s[used].load, list[i].load, sizeof(s[used].load));
		s[used++].events = list[i].events;
	}
	rc = kvsub_apply(k, s, used);
	mem_free(s);
	return rc;
}

#ifdef HAVE_ZMQ
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>
#include <zmq.h>

#include "agent/loop/engine_url.h"
#include "agent/os/clock.h"

#define TICK_S		0.1
#define ZMQ_SOCKETS	(6 * SOURCES_MAX * 16)
#define BOUND_MAX	256

/* ---- from other threads ------------------------------------------------------------------ */

int kvsub_apply(struct kvsub *k, const struct event_source *s, size_t n)
{
	struct kvsub_list *list = mem_alloc(sizeof(*list) + n * sizeof(*s)), *old;

	if (list == NULL)
		return -1;
	list->n = n;
	if (n > 0)
		memcpy(list->s, s, n * sizeof(*s));
	pthread_mutex_lock(&k->lock);
	old = k->next;
	k->next = list;
	pthread_mutex_unlock(&k->lock);
	mem_free(old);
	ev_async_send(k->loop, &k->wake);
	return 0;
}

void kvsub_process_start(struct kvsub *k, struct span pool, struct span server, double start_s)
{
	struct kvsub_start *s;

	if (pool.n > POOL_NAME_MAX || server.n > SERVER_NAME_MAX || !(start_s > 0) ||
	    (s = mem_alloc(sizeof(*s))) == NULL)
		return;
	memcpy(s->pool, pool.p, pool.n);
	memcpy(s->server, server.p, server.n);
	s->start_s = start_s;
	pthread_mutex_lock(&k->lock);
	s->next = k->starts;
	k->starts = s;
	pthread_mutex_unlock(&k->lock);
	ev_async_send(k->loop, &k->wake);
}

static void on_wake(struct ev_loop *loop, ev_async *e, int revents)
{
	struct kvsub *k = e->data;
	struct kvsub_start *start, *next;
	struct kvsub_list *list;

	pthread_mutex_lock(&k->lock);
	list = k->next;
	start = k->starts;
	k->next = NULL;
	k->starts = NULL;
	pthread_mutex_unlock(&k->lock);
	if (list != NULL)
		kvsub_apply_list(k, list);
	mem_free(list);
	for (; start != NULL; start = next) {
		next = start->next;
		kvsub_take_start(k, start);
		mem_free(start);
	}
}

void kvsub_each(struct kvsub *k, kvsub_fn *fn, void *arg)
{
	pthread_mutex_lock(&k->lock);
	for (struct list *l = k->sources.next; l != &k->sources; l = l->next)
		fn(arg, &source_of(l)->who, &source_of(l)->figures);
	pthread_mutex_unlock(&k->lock);
}

/* ---- turns ------------------------------------------------------------------------------- */

/* After each tick another source is the first to begin a replay. */
static void on_tick(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct kvsub *k = t->data;
	msec now = clock_msec();

	for (struct list *l = k->sources.next; l != &k->sources; l = l->next) {
		for (unsigned i = 0; i < source_of(l)->n_ranks; i++)
			kvsub_rank_tick(&source_of(l)->rank[i], now);
		kvsub_faults_look(source_of(l), now);
	}
	pthread_mutex_lock(&k->lock);
	if (!list_empty(&k->sources)) {
		struct list *first = k->sources.next;

		list_remove(first);
		list_append(&k->sources, first);
	}
	pthread_mutex_unlock(&k->lock);
	kvsub_set_figures(k);
	kvsub_watch(k);
}

static void on_idle(struct ev_loop *loop, ev_idle *i, int revents)
{
}

/* Each rank with work gets a slice, and goes to the end of the list. */
static void go_on_working(struct kvsub *k)
{
	struct list now;

	list_init(&now);
	while (!list_empty(&k->working)) {
		struct list *l = k->working.next;

		list_remove(l);
		list_append(&now, l);
	}
	while (!list_empty(&now)) {
		struct list *l = now.next;

		list_remove(l);
		list_append(&k->working, l);
		kvsub_work_go_on(list_entry(l, struct kvsub_rank, working));
	}
}

/* Read each ready socket once. A socket with more goes to the end of the list. */
static void on_turn_end(struct ev_loop *loop, ev_prepare *p, int revents)
{
	struct kvsub *k = p->data;
	struct list now;

	list_init(&now);
	while (!list_empty(&k->ready)) {
		struct list *l = k->ready.next;

		list_remove(l);
		list_append(&now, l);
	}
	while (!list_empty(&now))
		kvsub_socket_read(list_entry(now.next, struct kvsub_socket, ready));
	k->turn++;
	go_on_working(k);
	if (list_empty(&k->ready) && list_empty(&k->working))
		ev_idle_stop(loop, &k->idle);
	kvsub_free_dead(k);
}

static void on_stop(struct ev_loop *loop, ev_async *e, int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

/* ---- the thread -------------------------------------------------------------------------- */

static void bind_all(struct kvsub *k)
{
	for (unsigned i = 0; i < k->n_listeners; i++) {
		struct listener *l = &k->listeners[i];
		const char *colon = strrchr(l->text, ':');
		uint16_t port = colon != NULL ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;

		if (kvsub_socket_bind(k, l->fd, port) != NULL)
			l->fd = -1;
		else
			log_msg(&k->agent->log, LOG_WARN, LOG_EVENTS,
			    "libzmq cannot use an address of engines.events.endpoint");
	}
}

/* The core keeps the blocks, for the snapshot at the end. */
static void close_all(struct kvsub *k)
{
	while (!list_empty(&k->sources))
		kvsub_remove_source(k, source_of(k->sources.next));
	while (!list_empty(&k->sockets))
		kvsub_socket_close(list_entry(k->sockets.next, struct kvsub_socket, link));
	kvsub_free_dead(k);
}

/* The threads of libzmq begin with its first socket, so here, within the sandbox. */
static void *kvsub_main(void *arg)
{
	struct kvsub *k = arg;

	pthread_setname_np(pthread_self(), "events");
	bind_all(k);
	on_wake(k->loop, &k->wake, 0);
	ev_run(k->loop, 0);
	close_all(k);
	zmq_ctx_term(k->context);
	k->context = NULL;
	return NULL;
}

/* ---- start and stop ---------------------------------------------------------------------- */

static bool is_listened(const struct kvsub *k, const char *text)
{
	for (unsigned i = 0; i < k->n_listeners; i++)
		if (strcmp(k->listeners[i].text, text) == 0)
			return true;
	return false;
}

static int listen_for(struct kvsub *k, const struct engine_events_opts *v, struct err *e)
{
	int host = (int)(strrchr(v->endpoint, ':') - v->endpoint) - (int)strlen("tcp://");
	uint32_t ranks = v->ranks > 0 ? v->ranks : 1;
	char text[ADDR_MAX];

	for (uint32_t r = 0; r < ranks; r++) {
		snprintf(text, sizeof(text), "%.*s:%u", v->endpoint[6] == '*' ? 7 : host,
		    v->endpoint[6] == '*' ? "0.0.0.0" : v->endpoint + strlen("tcp://"),
		    engine_endpoint_port(v->endpoint) + r);
		if (is_listened(k, text))
			continue;
		if (k->n_listeners == BOUND_MAX)
			return err_set(e, "engines.events.endpoint: at most %d addresses to bind", BOUND_MAX);
		if (listener_open(&k->listeners[k->n_listeners], text, SOCK_STREAM, 0, e) != 0)
			return -1;
		k->n_listeners++;
	}
	return 0;
}

static int listen_all(struct kvsub *k, const struct loop_opts *o, struct err *e)
{
	if ((k->listeners = mem_calloc(BOUND_MAX, sizeof(k->listeners[0]))) == NULL)
		return err_set(e, "no memory");
	for (size_t i = 0; i < o->n_engines; i++)
		if (engine_endpoint_is_bound(o->engines[i].events.endpoint) &&
		    listen_for(k, &o->engines[i].events, e) != 0)
			return -1;
	return 0;
}

static void init_loop(struct kvsub *k)
{
	ev_async_init(&k->stop, on_stop);
	ev_async_start(k->loop, &k->stop);
	ev_async_init(&k->wake, on_wake);
	k->wake.data = k;
	ev_async_start(k->loop, &k->wake);
	ev_timer_init(&k->tick, on_tick, TICK_S, TICK_S);
	k->tick.data = k;
	ev_timer_start(k->loop, &k->tick);
	ev_idle_init(&k->idle, on_idle);
	ev_prepare_init(&k->turn_end, on_turn_end);
	k->turn_end.data = k;
	ev_prepare_start(k->loop, &k->turn_end);
}

static void init_core(struct kvsub *k, const struct hash_key *key)
{
	uint64_t seed = 0;

	list_init(&k->sources);
	list_init(&k->ready);
	list_init(&k->sockets);
	list_init(&k->dead);
	list_init(&k->working);
	pthread_mutex_init(&k->lock, NULL);
	kvcursor_defaults(&k->without);
	k->with_replay = k->without;
	k->with_replay.replay = true;
	k->store.max = KVSUB_HELD_BYTES;
	k->key = *key;
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = (uint64_t)clock_usec();
	rng_init(&k->rng, seed);
}

struct kvsub *kvsub_new(
    struct agent *a, const struct loop_opts *o, const struct hash_key *key, struct err *e)
{
	struct kvsub *k = mem_alloc(sizeof(*k));

	if (k == NULL || (k->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV)) == NULL ||
	    !process_fd_left() || (k->context = zmq_ctx_new()) == NULL) {
		err_set(e, "not enough memory or file descriptors for the thread of KV cache events");
		if (k != NULL && k->loop != NULL)
			ev_loop_destroy(k->loop);
		mem_free(k);
		return NULL;
	}
	k->agent = a;
	zmq_ctx_set(k->context, ZMQ_MAX_SOCKETS, ZMQ_SOCKETS);
	init_core(k, key);
	init_loop(k);
	if (listen_all(k, o, e) == 0)
		return k;
	kvsub_free(k);
	return NULL;
}

int kvsub_start(struct kvsub *k, struct err *e)
{
	int rc = pthread_create(&k->thread, NULL, kvsub_main, k);

	if (rc != 0)
		return err_set(e, "cannot start the thread of KV cache events: %s", strerror(rc));
	k->running = true;
	return 0;
}

void kvsub_stop(struct kvsub *k)
{
	if (k == NULL || !k->running)
		return;
	ev_async_send(k->loop, &k->stop);
	pthread_join(k->thread, NULL);
	k->running = false;
}

static void free_starts(struct kvsub_start *s)
{
	struct kvsub_start *next;

	for (; s != NULL; s = next) {
		next = s->next;
		mem_free(s);
	}
}

void kvsub_free(struct kvsub *k)
{
	if (k == NULL)
		return;
	for (unsigned i = 0; i < k->n_listeners; i++)
		if (k->listeners[i].fd >= 0)
			listener_close(&k->listeners[i], NULL);
	if (k->context != NULL)
		zmq_ctx_term(k->context);
	ev_loop_destroy(k->loop);
	mem_free(k->listeners);
	mem_free(k->next);
	free_starts(k->starts);
	free_starts(k->known);
	pthread_mutex_destroy(&k->lock);
	mem_wipe(&k->key, sizeof(k->key));
	mem_free(k);
}

#else	/* without libzmq the configuration has no events, so nothing of this is called */

struct kvsub *kvsub_new(
    struct agent *a, const struct loop_opts *o, const struct hash_key *key, struct err *e)
{
	err_set(e, "built without libzmq");
	return NULL;
}

int kvsub_start(struct kvsub *k, struct err *e)
{
	return 0;
}

void kvsub_stop(struct kvsub *k)
{
}

void kvsub_free(struct kvsub *k)
{
}

void kvsub_each(struct kvsub *k, kvsub_fn *fn, void *arg)
{
}

int kvsub_apply(struct kvsub *k, const struct event_source *s, size_t n)
{
	return 0;
}

void kvsub_process_start(struct kvsub *k, struct span pool, struct span server, double start_s)
{
}

#endif
