/* The list of sources, as the configuration has it, and their figures. */
#include "agent/loop/kvsub_in.h"

#ifdef HAVE_ZMQ
#include "agent/base/mem.h"
#include "agent/os/clock.h"

/* ---- sources ---------------------------------------------------------------------------- */

static bool same_source(const struct event_source *a, const struct event_source *b)
{
	return strcmp(a->pool, b->pool) == 0 && strcmp(a->server, b->server) == 0 &&
	       strcmp(a->events.endpoint, b->events.endpoint) == 0 &&
	       strcmp(a->events.replay, b->events.replay) == 0 &&
	       strcmp(a->events.topic, b->events.topic) == 0 && strcmp(a->load, b->load) == 0 &&
	       a->events.ranks == b->events.ranks && a->events.expire_ms == b->events.expire_ms;
}

static void close_rank(struct kvsub_rank *r)
{
	kvsub_rank_fini(r);
	if (r->live == NULL)
		return;
	if (r->live->kind == KVSUB_LIVE) {
		kvsub_socket_close(r->live);
		return;
	}
	list_remove(&r->at_bound);
	kvsub_subscribe(r->live, r->source->who.events.topic, false);
}

void kvsub_remove_source(struct kvsub *k, struct kvsub_source *s)
{
	for (unsigned i = 0; i < s->n_ranks; i++)
		close_rank(&s->rank[i]);
	pthread_mutex_lock(&k->lock);
	list_remove(&s->link);
	pthread_mutex_unlock(&k->lock);
	mem_free(s);
}

/* ---- the start of an engine's process ---------------------------------------------------- */

static struct kvsub_start *known_start(struct kvsub *k, const char *pool, const char *server)
{
	for (struct kvsub_start *s = k->known; s != NULL; s = s->next)
		if (strcmp(s->pool, pool) == 0 && strcmp(s->server, server) == 0)
			return s;
	return NULL;
}

static void tell_start(struct kvsub_source *s, double start_s)
{
	msec now = clock_msec();

	for (unsigned i = 0; i < s->n_ranks; i++) {
		kvcursor_process_start(&s->rank[i].cursor, start_s, now);
		kvsub_rank_look(&s->rank[i], now);
	}
}

/* It may be known before the source is. */
void kvsub_take_start(struct kvsub *k, const struct kvsub_start *start)
{
	struct kvsub_start *s = known_start(k, start->pool, start->server);

	if (s == NULL && (s = mem_copy(start, sizeof(*start))) != NULL) {
		s->next = k->known;
		k->known = s;
	}
	if (s != NULL)
		s->start_s = start->start_s;
	for (struct list *l = k->sources.next; l != &k->sources; l = l->next)
		if (strcmp(source_of(l)->who.pool, start->pool) == 0 &&
		    strcmp(source_of(l)->who.server, start->server) == 0)
			tell_start(source_of(l), start->start_s);
}

/* ---- the list ---------------------------------------------------------------------------- */

static void add_source(struct kvsub *k, const struct event_source *who)
{
	unsigned n = who->events.ranks > 0 ? who->events.ranks : 1;
	struct kvsub_source *s = mem_alloc(sizeof(*s) + n * sizeof(s->rank[0]));
	const struct kvsub_start *start;

	if (s == NULL) {
		kvsub_log_unread(k, who, "no memory", "reload the configuration once there is memory");
		return;
	}
	s->id = route_source_open(k->agent->route, span_str(who->pool), span_str(who->server), n,
	    agent_msec(k->agent));
	if (s->id == SOURCE_NONE) {
		kvsub_log_unread(k, who, "too many publishers, or events.max_bytes is 0",
		    "list fewer engines with events, or set events.max_bytes and restart");
		mem_free(s);
		return;
	}
	route_source_expire(k->agent->route, s->id, who->events.expire_ms);
	s->k = k;
	s->who = *who;
	s->n_ranks = n;
	s->wanted = true;
	for (unsigned i = 0; i < n; i++) {
		kvsub_rank_init(&s->rank[i], s, i);
		kvsub_rank_open(&s->rank[i]);
	}
	if ((start = known_start(k, who->pool, who->server)) != NULL)
		tell_start(s, start->start_s);
	pthread_mutex_lock(&k->lock);
	list_append(&k->sources, &s->link);
	pthread_mutex_unlock(&k->lock);
}

static bool keep_source(struct kvsub *k, const struct event_source *who)
{
	for (struct list *l = k->sources.next; l != &k->sources; l = l->next)
		if (same_source(&source_of(l)->who, who))
			return source_of(l)->wanted = true;
	return false;
}

/* A source whose address has changed is removed first, because the core has one for each server. */
void kvsub_apply_list(struct kvsub *k, const struct kvsub_list *list)
{
	struct list *l, *next;

	for (l = k->sources.next; l != &k->sources; l = l->next)
		source_of(l)->wanted = false;
	for (size_t i = 0; i < list->n; i++)
		keep_source(k, &list->s[i]);
	for (l = k->sources.next; l != &k->sources; l = next) {
		next = l->next;
		if (source_of(l)->wanted)
			continue;
		route_source_close(k->agent->route, source_of(l)->id);
		kvsub_remove_source(k, source_of(l));
	}
	for (size_t i = 0; i < list->n; i++)
		if (!keep_source(k, &list->s[i]))
			add_source(k, &list->s[i]);
}

/* ---- figures ----------------------------------------------------------------------------- */

static void add_rank(struct kvsub_figures *f, const struct kvsub_rank *r)
{
	static const unsigned badness[KVCURSOR_STATES] = { 5, 0, 1, 2, 3, 4 };
	const struct kvcursor_counters *c = &r->cursor.count;

	if (f->ranks++ == 0 || badness[r->state] > badness[f->worst])
		f->worst = r->state;
	if (f->ranks == 1 || r->lag_s > f->lag_s)
		f->lag_s = r->lag_s;
	f->synced += r->state == KVCURSOR_SYNCED;
	f->batches += c->applied;
	f->gaps += c->gaps;
	f->replays += c->replays;
	f->replayed += c->replayed;
	f->lost += c->lost;
	f->restarts += c->restarts;
	f->resets += c->clears;
	f->undecoded += c->undecoded;
	f->bad_frames += r->bad_frames + c->foreign;
	f->connected += r->connected;
	f->ended += r->ended;
	f->bytes += r->bytes;
	f->held += r->cursor.n_held;
	f->loads += r->load.taken;
	f->bad_loads += r->load.bad;
	f->unanswered += c->unanswered;
	f->slices += r->slices;
	f->turn_work = r->turn_work > f->turn_work ? r->turn_work : f->turn_work;
}

void kvsub_set_figures(struct kvsub *k)
{
	pthread_mutex_lock(&k->lock);
	for (struct list *l = k->sources.next; l != &k->sources; l = l->next) {
		struct kvsub_source *s = source_of(l);

		s->figures = (struct kvsub_figures){ 0 };
		for (unsigned i = 0; i < s->n_ranks; i++)
			add_rank(&s->figures, &s->rank[i]);
		s->figures.silent = s->silent.bad;
		s->figures.sizes = s->sizes.bad;
	}
	pthread_mutex_unlock(&k->lock);
}

#endif
