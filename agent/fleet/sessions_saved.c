/* sessions_saved.c - sessions as they go into a snapshot, and come back. */
#include "agent/fleet/sessions_in.h"

/* A turn that two agents know has about the same time in both: their clocks differ, and each loads
 * what the other has saved. */
#define SAME_TURN_MS	1000

uint32_t sessions_read(
    const struct sessions *t, uint32_t *from, struct session_saved *out, uint32_t n)
{
	uint32_t k = 0;

	for (; t != NULL && k < n && *from < t->n; k++) {
		const struct session *s = &t->e[++*from];

		out[k] = (struct session_saved){
			.key = s->key, .turns = s->turns, .gap_ms = s->gap_ms, .work_us = s->work_us,
			.trust = s->trust, .tenant = s->tenant, .kind = s->kind, .seen = s->seen,
		};
		memcpy(out[k].tail, s->tail, sizeof(out[k].tail));
		if (!s->tail[0].done)		/* its end will not be known after a restart */
			out[k].tail[0] = s->served;
		for (unsigned i = 0; i < SESSION_TAILS; i++)
			if (out[k].tail[i].server < SERVERS_MAX &&
			    out[k].tail[i].life != t->life[out[k].tail[i].server])
				out[k].tail[i].server = SERVER_NONE;
	}
	return k;
}

/* Only turns that were served are told. */
static void restore_tail(const struct sessions *t, struct session_tail *l)
{
	if (l->server >= SERVERS_MAX || !l->done)
		*l = (struct session_tail){ .server = SERVER_NONE };
	else
		l->life = t->life[l->server];
	l->place = (struct session_place){ 0 };
	l->let_go = 0;
	l->hidden = 0;		/* nothing of it is counted */
}

/* Return the place for <s>: a new one, or that of the same session, if its last turn here is older
 * and over. Returns NULL if it stays as it is. */
static struct session *place_of(struct sessions *t, const struct session_saved *s)
{
	struct session_turn u = { .key = s->key, .tenant = s->tenant, .kind = s->kind };
	uint32_t i = session_find(t, s->key);

	if (i != 0 && (t->e[i].n_open > 0 || s->seen < t->e[i].seen + SAME_TURN_MS))
		return NULL;
	if (i != 0) {
		t->e[i].served.server = SERVER_NONE;
		session_used(t, i);
		return &t->e[i];
	}
	if (t->kind[s->kind].key != 0)		/* else its place is taken by a key that no model has */
		u.kind = t->kind[s->kind].key;
	return &t->e[session_take(t, &u)];
}

void sessions_restore(struct sessions *t, const struct session_saved *s, msec now)
{
	struct session *e;

	if (t == NULL || s->key == 0 || s->turns == 0 || s->kind >= KINDS ||
	    (e = place_of(t, s)) == NULL)
		return;
	e->turns = s->turns;
	e->gap_ms = s->gap_ms;
	e->work_us = s->work_us;
	e->trust = s->trust;
	e->seen = s->seen;
	memcpy(e->tail, s->tail, sizeof(e->tail));
	for (unsigned i = 0; i < SESSION_TAILS; i++)
		restore_tail(t, &e->tail[i]);
	session_promise(t, e, now);
}

bool sessions_learned(const struct sessions *t, uint32_t i, struct session_learned *k)
{
	if (t == NULL || i >= KINDS)
		return false;
	*k = (struct session_learned){
		t->kind[i].key, t->kind[i].turns, t->kind[i].sessions, t->kind[i].gap_ms,
	};
	return true;
}

void sessions_learned_before(struct sessions *t, const struct session_learned *k)
{
	struct session_kind *to = t != NULL ? &t->kind[k->key % KINDS] : NULL;

	if (to == NULL || to->key != 0 || k->key == 0 || k->turns > SESSION_TURNS_KEPT ||
	    k->sessions > k->turns)
		return;
	to->key = k->key;
	to->turns = k->turns;
	to->sessions = k->sessions;
	to->gap_ms = k->gap_ms;
}
