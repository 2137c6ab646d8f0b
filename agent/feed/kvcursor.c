/* The live side of a cursor: what each live frame means, and what is lost. The replays are in
 * kvcursor_replay.c. */
#include "agent/base/mem.h"
#include "agent/feed/kvcursor_in.h"

void kvcursor_defaults(struct kvcursor_opts *o)
{
	*o = (struct kvcursor_opts){
		.silence_ms = 1000, .total_ms = 120000, .spacing_ms = 50, .retry_ms = 1000, .attempts = 3,
		.cooldown_ms = 30000, .probe_ms = 10000, .hold_batches = 4096, .hold_bytes = 8u << 20,
		.lost_max = 1000,
	};
}

void kvcursor_init(struct kvcursor *c, const struct kvcursor_opts *o,
    const struct kvcursor_calls *calls, void *arg, const struct hash_key *key,
    struct kvcursor_store *store, struct rng *rng)
{
	*c = (struct kvcursor){
		.o = o, .calls = calls, .arg = arg, .key = key, .store = store, .rng = rng
	};
}

void kvcursor_fini(struct kvcursor *c)
{
	kvcursor_drop_held(c);
	mem_free(c->held);
	c->held = NULL;
}

enum kvcursor_state kvcursor_state(const struct kvcursor *c)
{
	if (!c->connected)
		return KVCURSOR_OFF;
	if (c->replay != KVCURSOR_NONE && c->replay != KVCURSOR_PROBE)
		return KVCURSOR_REPLAYING;
	if (c->waits)
		return KVCURSOR_GAP;
	if (!c->begun || c->unsure)
		return KVCURSOR_WAITING;
	return c->degraded ? KVCURSOR_DEGRADED : KVCURSOR_SYNCED;
}

bool kvcursor_place(const struct kvcursor *c, struct kvcursor_place *p)
{
	*p = (struct kvcursor_place){
		.next = c->next, .hash = c->hash, .blocks = c->blocks, .from_start = c->from_start
	};
	return c->begun && c->has_hash && !c->unsure && !c->degraded;
}

void kvcursor_resume(struct kvcursor *c, const struct kvcursor_place *p)
{
	c->begun = c->has_hash = c->numbered = true;
	c->full_used = true;
	c->next = c->live_next = p->next;
	c->hash = p->hash;
	c->blocks = p->blocks;
	c->from_start = p->from_start;
}

/* ---- batches held ----------------------------------------------------------------------- */

static struct kvcursor_held *held_front(struct kvcursor *c)
{
	return c->n_held > 0 ? &c->held[c->held_at] : NULL;
}

static void pop_held(struct kvcursor *c)
{
	struct kvcursor_held *h = &c->held[c->held_at];

	c->store->used -= h->payload.n;
	c->held_bytes -= h->payload.n;
	mem_free_wiped((void *)h->payload.p, h->payload.n);
	c->held_at = (c->held_at + 1) % c->held_room;
	c->n_held--;
}

void kvcursor_drop_held(struct kvcursor *c)
{
	while (c->n_held > 0)
		pop_held(c);
}

static bool grow_held(struct kvcursor *c)
{
	uint32_t room = c->held_room > 0 ? c->held_room * 2 : 16;
	struct kvcursor_held *h = mem_calloc(room, sizeof(*h));

	if (h == NULL)
		return false;
	for (uint32_t i = 0; i < c->n_held; i++)
		h[i] = c->held[(c->held_at + i) % c->held_room];
	mem_free(c->held);
	c->held = h;
	c->held_at = 0;
	c->held_room = room;
	return true;
}

/* A payload has tokens of prompts, so it is wiped when it is freed. An empty one is held as one
 * byte, so that it is not NULL. */
static bool push_held(struct kvcursor *c, uint64_t sequence, struct span payload)
{
	char *copy;

	if (c->n_held >= c->o->hold_batches || payload.n > c->o->hold_bytes - c->held_bytes ||
	    c->store->used > c->store->max || payload.n > c->store->max - c->store->used ||
	    (c->n_held == c->held_room && !grow_held(c)) ||
	    (copy = mem_alloc(payload.n > 0 ? payload.n : 1)) == NULL)
		return false;
	if (payload.n > 0)
		memcpy(copy, payload.p, payload.n);
	c->held[(c->held_at + c->n_held++) % c->held_room] =
	    (struct kvcursor_held){ sequence, span_of(copy, payload.n) };
	c->store->used += payload.n;
	c->held_bytes += payload.n;
	return true;
}

/* Hold a batch. Once one was dropped, later ones are dropped too, so that the held ones have no
 * hole that the publisher did not make. */
static void hold(struct kvcursor *c, uint64_t sequence, struct span payload)
{
	c->unheld = c->unheld || !push_held(c, sequence, payload);
	if (c->unheld)
		c->count.unheld++;
}

/* ---- applying --------------------------------------------------------------------------- */

void kvcursor_forget(struct kvcursor *c, bool from_start, bool restarted)
{
	c->degraded = false;
	c->blocks = c->owed = c->lost = 0;
	c->from_start = from_start;
	c->calls->clear(c->arg, from_start, restarted);
}

void kvcursor_lose(struct kvcursor *c, uint64_t n)
{
	if (n == 0)
		return;
	c->count.lost += n;
	c->lost = n < UINT64_MAX - c->lost ? c->lost + n : UINT64_MAX;
	c->from_start = false;
	c->owed = c->blocks;
	c->degraded = c->owed > 0;
	if (c->lost <= c->o->lost_max)
		return;
	c->count.clears++;
	kvcursor_forget(c, false, false);
}

void kvcursor_took(struct kvcursor *c, const struct kvcursor_effect *did)
{
	if (did->cleared) {
		c->blocks = c->owed = 0;
		c->from_start = true;
	}
	c->blocks += did->stored;
	c->blocks -= did->removed < c->blocks ? did->removed : c->blocks;
	c->owed -= did->removed < c->owed ? did->removed : c->owed;
	if (c->owed == 0)
		c->degraded = false;
}

void kvcursor_was_busy(struct kvcursor *c, msec now)
{
	c->heard = c->quiet_at = now;
}

static bool apply_payload(struct kvcursor *c, struct span payload)
{
	struct kvcursor_effect did = { 0 };

	if (c->calls->apply(c->arg, payload, &did)) {
		c->count.applied++;
		kvcursor_took(c, &did);
	} else {
		c->count.undecoded++;
		kvcursor_lose(c, 1);
		return false;
	}
	return true;
}

void kvcursor_apply(struct kvcursor *c, uint64_t sequence, struct span payload)
{
	c->begun = true;
	c->next = sequence + 1;
	c->has_hash = true;
	c->hash = hash64(c->key, payload.p, payload.n);
	apply_payload(c, payload);
}

void kvcursor_begin_at(struct kvcursor *c, uint64_t sequence)
{
	c->begun = true;
	c->next = sequence;
	c->from_start = sequence == 0;
}

void kvcursor_drain(struct kvcursor *c)
{
	struct kvcursor_held *h;

	while ((h = held_front(c)) != NULL && h->sequence <= c->next) {
		if (h->sequence == c->next)
			kvcursor_apply(c, h->sequence, h->payload);
		pop_held(c);
	}
	if (h == NULL)
		c->unheld = false;
}

/* ---- the end of certainty --------------------------------------------------------------- */

/* Begin anew, as on the first contact. */
static void begin_anew(struct kvcursor *c, bool from_start, bool restarted)
{
	kvcursor_drop_held(c);
	if (c->replay != KVCURSOR_NONE)
		kvcursor_abort(c);
	c->begun = c->unsure = c->torn = c->unheld = c->has_hash = false;
	c->next = c->live_next = 0;
	kvcursor_forget(c, from_start, restarted);
	c->from_start = false;
}

void kvcursor_restarted(struct kvcursor *c, bool from_start, msec now)
{
	c->count.restarts++;
	c->started_before = c->started != 0 ? c->started : c->started_before;
	c->started = 0;
	c->full_used = c->full_again = false;
	c->due = now;
	begin_anew(c, from_start, true);
}

/* The engine may be the same or not, and nothing can tell: what is known may be wrong. */
void kvcursor_unverified(struct kvcursor *c)
{
	c->count.clears++;
	begin_anew(c, false, false);
}

/* Begin with the first batch held, unless that is known to be the next. */
static void begin_at_held(struct kvcursor *c, const struct kvcursor_held *h)
{
	if (c->unsure && h->sequence != c->next) {
		c->count.clears++;
		kvcursor_forget(c, false, false);
		c->begun = false;
	}
	c->unsure = false;
	if (!c->begun)
		kvcursor_begin_at(c, h->sequence);
}

void kvcursor_begin_before(struct kvcursor *c, uint64_t sequence)
{
	const struct kvcursor_held *h = held_front(c);

	if (!c->begun)
		kvcursor_begin_at(c, h != NULL && h->sequence < sequence ? h->sequence : sequence);
	kvcursor_drain(c);
}

/* Lose all that is missing before and between the batches held, and after them. */
static void lose_missing(struct kvcursor *c)
{
	const struct kvcursor_held *h;

	while ((h = held_front(c)) != NULL) {
		kvcursor_lose(c, h->sequence - c->next);
		c->next = h->sequence;
		kvcursor_drain(c);
	}
	c->unheld = false;
	if (c->live_next <= c->next)
		return;
	kvcursor_lose(c, c->live_next - c->next);
	c->next = c->live_next;
	c->has_hash = false;
}

void kvcursor_give_up(struct kvcursor *c, msec now)
{
	c->torn = false;
	if (held_front(c) != NULL)
		begin_at_held(c, held_front(c));
	if (!c->begun || c->unsure)
		return;
	kvcursor_drain(c);
	if (kvcursor_need(c, now) != KVCURSOR_FILL)
		lose_missing(c);
}

/* ---- the connection --------------------------------------------------------------------- */

void kvcursor_connected(struct kvcursor *c, msec now)
{
	if (c->connected)
		kvcursor_disconnected(c, now);
	c->connected = true;
	c->failed = 0;
	c->rest_until = 0;
	c->due = c->quiet_at = now;
	c->probe_after = c->o->probe_ms;
	if (c->begun && c->unnumbered && !c->numbered)
		kvcursor_unverified(c);
	else if (c->begun && c->has_hash)
		c->unsure = true;
	else if (c->begun && c->next == 0)
		c->begun = false;
	else if (c->begun)
		kvcursor_unverified(c);
	kvcursor_look(c, now);
}

/* The publisher still has what is held. */
void kvcursor_disconnected(struct kvcursor *c, msec now)
{
	if (!c->connected)
		return;
	c->connected = false;
	if (c->replay != KVCURSOR_NONE)
		kvcursor_abort(c);
	kvcursor_drop_held(c);
	c->unheld = c->waits = false;
}

void kvcursor_process_start(struct kvcursor *c, double start_s, msec now)
{
	if (!(start_s > 0) || start_s == c->started || start_s == c->started_before)
		return;
	if (c->started != 0 && c->begun) {
		kvcursor_restarted(c, false, now);
		kvcursor_look(c, now);
	}
	c->started = start_s;
}

/* ---- live frames ------------------------------------------------------------------------ */

/* What cannot be decoded may come from a peer that is no publisher at all. */
static void live_unnumbered(struct kvcursor *c, struct span payload)
{
	if (c->numbered) {
		c->count.foreign++;
		return;
	}
	if (apply_payload(c, payload))
		c->unnumbered = c->begun = true;
}

/* A publisher never repeats a number. So a lower number is that of another start of the engine, and
 * so is an equal one with another payload. Returns true if the frame needs no more. */
static bool live_repeats(struct kvcursor *c, const struct kvframe *f, msec now)
{
	bool is_last = c->begun && c->has_hash && f->sequence + 1 == c->next;
	bool same = is_last && c->hash == hash64(c->key, f->payload.p, f->payload.n);
	bool older = f->sequence + 1 < c->live_next;
	bool covered = c->begun && f->sequence < c->next;	/* by a replay, if it is new here */

	if (older || (is_last && !same) || (covered && c->unsure && !same && !kvcursor_can(c, now))) {
		kvcursor_restarted(c, f->sequence == 0, now);
		return false;
	}
	if (same)
		c->unsure = c->unsure && kvcursor_can(c, now);
	if (!covered && f->sequence + 1 != c->live_next)
		return false;
	c->count.repeated++;
	if (f->sequence >= c->live_next)
		c->live_next = f->sequence + 1;
	return true;
}

static void live_new(struct kvcursor *c, const struct kvframe *f, msec now)
{
	uint64_t s = f->sequence;
	bool behind = c->live_next > c->next || c->torn;

	c->live_next = s + 1;
	if (!c->begun && s == 0)
		kvcursor_begin_at(c, 0);
	if (kvcursor_need(c, now) == KVCURSOR_FULL || kvcursor_need(c, now) == KVCURSOR_OVERLAP ||
	    c->replay == KVCURSOR_FULL || (c->replay == KVCURSOR_OVERLAP && c->unsure)) {
		hold(c, s, f->payload);
		return;
	}
	if (c->unsure && s != c->next) {
		c->count.lost += s - c->next;
		kvcursor_unverified(c);
		c->live_next = s + 1;
	}
	c->unsure = false;
	if (!c->begun)
		kvcursor_begin_at(c, s);
	if (s == c->next) {
		kvcursor_apply(c, s, f->payload);
		return;
	}
	c->count.gaps += !behind;
	if (kvcursor_can(c, now)) {
		hold(c, s, f->payload);
		return;
	}
	kvcursor_lose(c, s - c->next);
	kvcursor_apply(c, s, f->payload);
}

static void live_numbered(struct kvcursor *c, const struct kvframe *f, msec now)
{
	if (f->sequence == UINT64_MAX) {
		c->count.foreign++;
		return;
	}
	if (c->unnumbered && !c->numbered)
		kvcursor_unverified(c);
	c->numbered = true;
	if (!live_repeats(c, f, now))
		live_new(c, f, now);
}

/* A frame of a connection that is lost. */
static void live_late(struct kvcursor *c, const struct kvframe *f)
{
	if (!c->begun || c->unsure || !f->has_sequence || f->sequence == UINT64_MAX ||
	    f->sequence != c->next || c->live_next > c->next)
		return;
	c->live_next = f->sequence + 1;
	kvcursor_apply(c, f->sequence, f->payload);
}

void kvcursor_live(struct kvcursor *c, const struct kvframe *f, msec now)
{
	if (!c->connected) {
		live_late(c, f);
		return;
	}
	c->quiet_at = now;
	c->probe_after = c->o->probe_ms;
	if (!f->has_sequence)
		live_unnumbered(c, f->payload);
	else
		live_numbered(c, f, now);
	kvcursor_look(c, now);
}
