/* The load sockets of an engine: feed/sgl_load.h. Its load counts while all its ranks tell theirs,
 * because a sum without one of them would be too low. */
#include "agent/loop/kvsub_in.h"

#ifdef HAVE_ZMQ
#include "agent/os/clock.h"

#define HOLDS_MS	3000	/* SGLang repeats an unchanged load every second */

_Static_assert(SOURCE_RANKS_MAX <= SGL_LOAD_RANKS_MAX, "one for each rank");

/* The rank is that of the socket, because the one in the message may be missing. */
void kvsub_load_take(struct kvsub_rank *r, const struct kvframe *f)
{
	struct sgl_rank_load one;
	int rc = -SGL_LOAD_E_OTHER;

	if (f != NULL && f->has_sequence && span_eq(f->topic, SPAN(SGL_LOAD_TOPIC)))
		rc = sgl_load_message(f->payload, &one);
	if (rc != 0) {
		r->load.bad++;
		r->load.error = sgl_load_strerror(rc);
		return;
	}
	one.rank = r->n;
	r->load.taken++;
	r->load.last = one;
	r->load.at = clock_msec();
	r->load.news = true;
}

static bool is_fresh(const struct kvsub_load *l, msec now)
{
	return l->taken > 0 && now - l->at < HOLDS_MS;
}

void kvsub_load_tell(struct kvsub_rank *r)
{
	struct kvsub_source *s = r->source;
	struct sgl_loads ranks = { 0 };
	struct engine_load sum;
	msec now = clock_msec();

	if (!r->load.news)
		return;
	r->load.news = false;
	for (unsigned i = 0; i < s->n_ranks; i++)
		if (!is_fresh(&s->rank[i].load, now) || sgl_loads_put(&ranks, &s->rank[i].load.last) != 0)
			return;
	sgl_loads_sum(&ranks, &sum);
	route_observe_load(s->k->agent->route, span_str(s->who.pool), span_str(s->who.server), &sum,
	    agent_msec(s->k->agent));
}

static void log_load(struct kvsub_rank *r, bool good)
{
	const struct event_source *who = &r->source->who;
	struct log_line ln;

	if (!log_begin(&ln, &r->source->k->agent->log, good ? LOG_INFO : LOG_WARN, LOG_EVENTS,
		good ? "load received from an engine" : "no load from an engine's load socket"))
		return;
	log_text(&ln, "pool", who->pool);
	log_text(&ln, "server", who->server);
	log_int(&ln, "rank", r->n);
	log_text(&ln, "load", who->load);
	if (!good) {
		log_text(&ln, "error", r->load.error != NULL ? r->load.error : "no message for 3 s");
		log_text(&ln, "effect", "queue and cache use come from its metrics, or are estimated");
		log_text(&ln, "remedy", "start SGLang with --load-publish-endpoint, and check the port");
	}
	log_end(&ln);
}

/* Open the socket, or again: where one ended that libzmq does not connect again, or at once. */
void kvsub_load_tick(struct kvsub_rank *r, msec now)
{
	struct kvsub_load *l = &r->load;
	int told = is_fresh(l, now) ? 1 : now - l->at >= HOLDS_MS ? -1 : l->told;

	if (r->source->who.load[0] == '\0')
		return;
	if (l->opened_at == 0 || kvsub_socket_is_gone(l->socket, l->opened_at, now)) {
		l->at = l->opened_at == 0 ? now : l->at;
		l->opened_at = now;
		kvsub_load_close(r);
		l->socket = kvsub_socket_open(r->source->k, KVSUB_LOAD, r, r->source->who.load);
	} else if (told != l->told) {
		l->told = told;
		log_load(r, told > 0);
		l->error = NULL;
	}
}

void kvsub_load_close(struct kvsub_rank *r)
{
	if (r->load.socket != NULL)
		kvsub_socket_close(r->load.socket);
	r->load.socket = NULL;
}

#endif
