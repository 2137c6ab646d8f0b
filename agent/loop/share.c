/* The thread that shares: its turns, and its start and end.
 *
 * The threads that decide put entries into the outbox and wake this one; they never wait for it. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS
#include <stdio.h>
#include <sys/random.h>

#include "agent/base/mem.h"
#include "agent/index/snapshot.h"
#include "agent/os/clock.h"

#define TICK_S		0.1
#define END_S		0.3
#define CLOCKS_EVERY_MS	1000
#define CLOCKS_OFF_MS	5000	/* old batches, as after an outage, are read within that time */

/* ---- entries of this agent ---- */

static void put_entry(void *arg, uint32_t part, const struct share_entry *e)
{
	struct share *sh = arg;

	if (share_outbox_put(sh->outbox, part, e, clock_msec()))
		ev_async_send(sh->loop, &sh->wake);
}

static void on_wake(struct ev_loop *loop, ev_async *e, int revents)
{
	send_due(e->data, clock_msec());
}

static void on_due(struct ev_loop *loop, ev_timer *t, int revents)
{
	send_due(t->data, clock_msec());
}

/* Also while the store is gone: then the entry waits in the outbox, and is dropped first. */
static void put_alive(struct share *sh, msec now)
{
	struct share_entry e = { .kind = SHARE_ALIVE };

	if (now - sh->alive_at < SHARE_ALIVE_MS)
		return;
	sh->alive_at = now;
	e.u.alive.warm = sh->warm.state == WARM_YES;
	e.u.alive.open = route_share_open(sh->agent->route);
	for (uint32_t i = 0; i < sh->n_parts; i++)
		share_outbox_put(sh->outbox, i, &e, now);
}

/* ---- siblings ---- */

static bool close_gone(struct share *sh)
{
	if (sh->n_gone > 0 && !route_share_gone(sh->agent->route, sh->gone[sh->n_gone - 1],
				  agent_msec(sh->agent)))
		sh->n_gone--;
	return sh->n_gone > 0;
}

static void note_gone(void *arg, share_agent agent)
{
	struct share *sh = arg;
	struct log_line ln;
	char text[SHARE_AGENT_TEXT];

	while (sh->n_gone == SHARE_SIBLINGS_MAX)	/* an old stream had so many */
		close_gone(sh);
	sh->gone[sh->n_gone++] = agent;
	if (!log_begin(&ln, &sh->agent->log, LOG_INFO, LOG_SHARE, "a sibling has fallen silent"))
		return;
	log_text(&ln, "agent", share_agent_text(agent, text));
	log_text(&ln, "effect", "the requests that it had open count no longer");
	log_end(&ln);
}

static void note_siblings(struct share *sh)
{
	pthread_mutex_lock(&sh->lock);
	sh->siblings.n = share_inbox_siblings(sh->inbox, sh->siblings.s, SHARE_SIBLINGS_MAX);
	share_inbox_stats(sh->inbox, &sh->siblings.inbox);
	pthread_mutex_unlock(&sh->lock);
}

/* Agents whose clocks are too far apart seem healthy, but repair nothing. */
static void look_at_clocks(struct share *sh, msec now)
{
	char text[SHARE_AGENT_TEXT];

	if (now - sh->clocks_at < CLOCKS_EVERY_MS || sh->warm.state != WARM_YES)
		return;
	sh->clocks_at = now;
	for (size_t i = 0; i < sh->siblings.n; i++) {
		const struct share_sibling *s = &sh->siblings.s[i];

		if (s->off_since >= 0 && now - s->off_since >= CLOCKS_OFF_MS)
			route_stray(sh->agent->route, PROBLEM_CLOCKS_DIFFER,
			    span_str(share_agent_text(s->agent, text)));
	}
}

/* ---- turns ---- */

static void on_tick(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct share *sh = t->data;
	msec now = clock_msec();

	store_tick(sh, now);
	read_tick(sh, now);
	conn_tick(&sh->bulk, now);
	share_inbox_age(sh->inbox, now, note_gone, sh);
	note_siblings(sh);
	strange_log(sh, now);
	look_at_clocks(sh, now);
	put_alive(sh, now);
	warm_tick(sh, now);
	positions_note(sh);
	snapshot_tick(sh, now);
	store_log(sh, now);
	send_due(sh, now);
	ev_idle_start(loop, &sh->idle);		/* for the router's slices */
}

/* Keeps the loop from blocking. libev does not call it while there is other work, so the work is
 * done in on_turn_end(). */
static void on_idle(struct ev_loop *loop, ev_idle *i, int revents)
{
}

static void on_turn_end(struct ev_loop *loop, ev_prepare *p, int revents)
{
	struct share *sh = p->data;
	bool more;

	if (!ev_is_active(&sh->idle))
		return;
	more = read_apply(sh);
	more |= snapshot_step(sh);
	more |= warm_step(sh);
	more |= close_gone(sh);
	more |= route_share_work(sh->agent->route, agent_msec(sh->agent));
	if (!more)
		ev_idle_stop(loop, &sh->idle);
}

static void on_stop(struct ev_loop *loop, ev_async *e, int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

static void on_end(struct ev_loop *loop, ev_timer *t, int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

/* If this agent writes a snapshot, give the lease back: otherwise no other agent writes one until
 * it expires. A store that does not answer is not waited for. */
static void stop_writing(struct share *sh)
{
	if (sh->writer.w == NULL)
		return;
	sh->ending = true;
	ev_timer_stop(sh->loop, &sh->tick);
	ev_timer_init(&sh->tick, on_end, END_S, 0.);
	ev_timer_start(sh->loop, &sh->tick);
	snapshot_stop(sh);
	ev_run(sh->loop, 0);
}

static void close_all(struct share *sh)
{
	stop_writing(sh);
	read_free(sh);
	conn_aim(&sh->bulk, NULL);
	for (unsigned i = 0; i < sh->n_servers; i++)
		conn_close(&sh->server[i].cmd);
	warm_free(sh);
}

static void *share_main(void *arg)
{
	struct share *sh = arg;

	pthread_setname_np(pthread_self(), "share");
	__atomic_store_n(&sh->started, clock_msec(), __ATOMIC_RELAXED);
	on_tick(sh->loop, &sh->tick, 0);
	ev_run(sh->loop, 0);
	close_all(sh);
	return NULL;
}

bool share_ready(const struct share *sh)
{
	msec started = __atomic_load_n(&sh->started, __ATOMIC_RELAXED);

	return sh->opts.ready == SHARE_READY_ALWAYS ||
	       __atomic_load_n(&sh->is_warm, __ATOMIC_ACQUIRE) != 0 ||
	       (started != 0 && clock_msec() - started >= sh->opts.warm_timeout_ms);
}

/* ---- start and stop ---- */

static void init_loop(struct share *sh)
{
	ev_async_init(&sh->stop, on_stop);
	ev_async_start(sh->loop, &sh->stop);
	ev_async_init(&sh->wake, on_wake);
	sh->wake.data = sh;
	ev_async_start(sh->loop, &sh->wake);
	ev_timer_init(&sh->tick, on_tick, TICK_S, TICK_S);
	sh->tick.data = sh;
	ev_timer_start(sh->loop, &sh->tick);
	ev_timer_init(&sh->due, on_due, 0., 0.);
	sh->due.data = sh;
	ev_idle_init(&sh->idle, on_idle);
	ev_prepare_init(&sh->turn_end, on_turn_end);
	sh->turn_end.data = sh;
	ev_prepare_start(sh->loop, &sh->turn_end);
}

static uint64_t random_word(void)
{
	uint64_t v = 0;

	if (getrandom(&v, sizeof(v), 0) != (ssize_t)sizeof(v))
		v = (uint64_t)clock_usec();
	return v != 0 ? v : 1;
}

static int read_password(struct share *sh, const struct agent *a, struct err *e)
{
	if (sh->opts.password_file[0] == '\0')
		return 0;
	return secret_read_line("password", sh->opts.password_file, &a->identity, sh->password,
	    sizeof(sh->password), e);
}

struct share *share_new(struct agent *a, const struct loop_opts *o, struct err *e)
{
	struct share *sh = mem_alloc(sizeof(*sh));

	if (sh == NULL || (sh->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV)) == NULL ||
	    !process_fd_left()) {
		err_set(e, "not enough memory or file descriptors for the thread that shares");
		if (sh != NULL && sh->loop != NULL)
			ev_loop_destroy(sh->loop);
		mem_free(sh);
		return NULL;
	}
	pthread_mutex_init(&sh->lock, NULL);
	sh->agent = a;
	sh->opts = o->share;
	sh->n_parts = share_parts(&o->share);
	sh->n_readers = o->share.cluster ? sh->n_parts : 1;
	sh->self = random_word();
	rng_init(&sh->rng, random_word());
	init_loop(sh);
	sh->part = mem_calloc(sh->n_parts, sizeof(*sh->part));
	sh->reader = mem_calloc(sh->n_readers, sizeof(*sh->reader));
	if (sh->part == NULL || sh->reader == NULL)
		err_set(e, "no memory");
	else if (read_password(sh, a, e) == 0 &&
		 (!o->share.tls || (sh->tls = tls_new(&o->share, e)) != NULL)) {
		store_init(sh);
		read_init(sh);
		snapshot_init(sh);
		store_find_servers(sh, &o->share);
		return sh;
	}
	share_free(sh);
	return NULL;
}

int share_attach(struct share *sh, const struct route_opts *ro, const struct hash_key *key,
    bool kept, struct err *e)
{
	struct route_share to = { put_entry, sh, sh->n_parts, sh->self };

	if (!kept)
		return err_set(e,
		    "share.servers needs a permanent key that all agents of the fleet have: state_dir is missing "
		    "or not writable, and key_file is not set");
	sh->key = *key;
	sh->warm.most = snapshot_load_bytes(ro->index.max_bytes);
	sh->warm.sessions.most = ro->sessions_max_bytes > 0 ? route_sessions_bytes_most(ro) : 0;
	sh->outbox = share_outbox_new(&sh->key, sh->self, sh->n_parts, sh->opts.max_bytes);
	sh->inbox = share_inbox_new(&sh->key, sh->self, sh->n_parts);
	if (sh->outbox == NULL || sh->inbox == NULL || route_share(sh->agent->route, &to) != 0)
		return err_set(e, "not enough memory to share");
	return 0;
}

int share_start(struct share *sh, struct err *e)
{
	int rc = pthread_create(&sh->thread, NULL, share_main, sh);

	if (rc != 0)
		return err_set(e, "cannot start the thread that shares: %s", strerror(rc));
	sh->running = true;
	return 0;
}

void share_stop(struct share *sh)
{
	if (sh == NULL || !sh->running)
		return;
	ev_async_send(sh->loop, &sh->stop);
	pthread_join(sh->thread, NULL);
	sh->running = false;
}

/* The router may put entries until it is freed, so that comes first. */
void share_free(struct share *sh)
{
	if (sh == NULL)
		return;
	share_outbox_free(sh->outbox);
	share_inbox_free(sh->inbox);
	tls_free(sh->tls);
	ev_loop_destroy(sh->loop);
	mem_free(sh->part);
	mem_free(sh->reader);
	pthread_mutex_destroy(&sh->lock);
	mem_wipe(&sh->key, sizeof(sh->key));
	mem_wipe(sh->password, sizeof(sh->password));
	mem_free(sh);
}

#else	/* without hiredis the configuration has no store, so nothing of this is called */

struct share *share_new(struct agent *a, const struct loop_opts *o, struct err *e)
{
	err_set(e, "built without hiredis");
	return NULL;
}

int share_attach(struct share *sh, const struct route_opts *ro, const struct hash_key *key,
    bool kept, struct err *e)
{
	return 0;
}

int share_start(struct share *sh, struct err *e)
{
	return 0;
}

void share_stop(struct share *sh)
{
}

void share_free(struct share *sh)
{
}

bool share_ready(const struct share *sh)
{
	return true;
}

#endif
