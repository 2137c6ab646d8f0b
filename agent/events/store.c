/* store.c - the effect of stored and removed blocks.
 *
 * A run of an event is walked block by block along its chain. Meanwhile the handles of later blocks
 * are hashed, the first lines of their slots prefetched, and half the way their second lines. */
#include "agent/events/events_in.h"

#define AHEAD	64u	/* blocks whose hash is computed, and first line prefetched, ahead */
#define TRIES	64u	/* times that memory is freed for one block */

/* Handles of an event whose lines are being prefetched. */
struct ahead {
	const struct events *ev;
	const struct handles *map;
	const uint64_t *handles;
	uint32_t n, first, second;	/* so many are asked for */
	bool add;
	uint64_t hash[AHEAD];
};

static uint64_t ahead_hash(struct ahead *a, uint32_t i)
{
	for (; a->first < a->n && a->first < i + AHEAD; a->first++) {
		uint64_t hash = handle_hash(a->ev, a->handles[a->first]);

		a->hash[a->first % AHEAD] = hash;
		handles_ask(a->ev, a->map, hash);
	}
	for (; a->second < a->first && a->second < i + AHEAD / 2; a->second++)
		handles_ask_second(a->ev, a->map, a->hash[a->second % AHEAD], a->add);
	return a->hash[i % AHEAD];
}

/* The position in a run of an event. */
struct course {
	struct events *ev;
	const struct events_run *run;
	struct pen pen;
	bool known;		/* <at> is the block before; it is pinned */
	struct place at;
	uint64_t before;	/* hash of its handle */
};

enum taken { TAKEN, IGNORED, ODD, REFUSED };

static void set_at(struct course *c, struct place at)
{
	c->known = true;
	c->at = at;
}

/* Count blocks for which there is no room. */
static void refuse(const struct course *c, uint32_t n)
{
	COUNT(c->ev, refused, n);
	if (c->run->server < SERVERS_MAX)
		server_lose(c->ev, c->run->server, n);
}

/* Free memory. The block before stays where it is. */
static bool make_room(struct course *c)
{
	run_pin(c->ev, c->at);
	pen_close(c->ev, &c->pen);
	return evict_some(c->ev);
}

static enum taken store_known(struct course *c, struct slot s)
{
	struct events *ev = c->ev;
	uint32_t copies = record_copies(ev, c->pen.holder, s);

	set_at(c, slot_place(s));
	if (!record_set(ev, &c->pen, s, copies_add(copies, c->run->tier)))
		server_lose(ev, c->run->server, 1);
	slot_renew(&ev->holders[c->pen.holder].map, s);
	pen_open(ev, &c->pen, c->pen.holder, c->at.run);
	pen_stamp(ev, &c->pen);
	return TAKEN;
}

/* Add a record of the block with <key> that follows c->at. */
static bool add_record(struct course *c, uint64_t hash, uint64_t key, uint32_t copies)
{
	struct place from = c->at, p;
	unsigned tries;

	for (tries = 0; tries < TRIES; tries++) {
		p = from;
		if (run_step(c->ev, &p, key, true)) {
			if (record_add(c->ev, &c->pen, hash, p, copies)) {
				pen_stamp(c->ev, &c->pen);
				set_at(c, p);
				return true;
			}
			c->pen.shrunk = true;
		}
		if (!make_room(c))
			break;
	}
	return false;
}

/* Store the parked blocks that wait for <hash>, those that wait for them, and so on. */
static void join_parked(struct course *c, uint64_t hash)
{
	struct events *ev = c->ev;
	uint32_t holder = c->pen.holder, ready = park_take(ev, holder, hash, 0);
	struct place at = c->at;
	struct slot s;

	while (ready != 0) {
		const struct parked p = ev->parked[ready - 1];

		ready = park_give(ev, ready);
		s = handles_find(ev, &ev->holders[holder].map, p.parent);
		if (s.line != NULL)
			set_at(c, slot_place(s));
		if (s.line == NULL || !add_record(c, p.own, p.key, p.copies)) {
			refuse(c, 1);
			continue;
		}
		COUNT(ev, joined, 1);
		ready = park_take(ev, holder, p.own, ready);
	}
	s = handles_find(ev, &ev->holders[holder].map, hash);
	c->known = s.line != NULL;
	c->at = s.line != NULL ? slot_place(s) : at;
}

static enum taken store_new(struct course *c, uint64_t hash, uint64_t key)
{
	struct events *ev = c->ev;
	struct holder *src = &ev->holders[c->pen.holder];
	struct parked *p;

	if (src->n_parked > 0 && (p = park_find(ev, c->pen.holder, hash)) != NULL) {
		/* it was stored after another parent before: one of the two reports was wrong */
		park_remove(ev, p);
		COUNT(ev, odd, 1);
	}
	if (!add_record(c, hash, key, copies_add(0, c->run->tier)))
		return REFUSED;
	if (src->n_parked > 0)
		join_parked(c, hash);
	return TAKEN;
}

static enum taken store_parked(struct course *c, uint64_t hash, uint64_t key)
{
	struct parked *p = park_find(c->ev, c->pen.holder, hash);

	if (p != NULL) {
		if (p->parent != c->before || p->key != key)
			return ODD;
		p->copies = (uint16_t)copies_add(p->copies, c->run->tier);
		return TAKEN;
	}
	if (hash == c->before)
		return ODD;
	return park_add(c->ev, c->pen.holder, hash, c->before, key, copies_add(0, c->run->tier))
	    ? TAKEN
	    : REFUSED;
}

static enum taken store_without_keys(struct course *c, uint64_t hash)
{
	struct events *ev = c->ev;
	struct slot s = handles_find(ev, &ev->holders[c->pen.holder].map, hash);
	struct parked *p;

	if (s.line != NULL)
		return store_known(c, s);
	if ((p = park_find(ev, c->pen.holder, hash)) == NULL)
		return IGNORED;
	p->copies = (uint16_t)copies_add(p->copies, c->run->tier);
	return TAKEN;
}

static enum taken store_with_key(struct course *c, uint64_t hash, uint64_t key)
{
	struct events *ev = c->ev;
	struct slot s = handles_find(ev, &ev->holders[c->pen.holder].map, hash);
	struct place p = c->at, is;

	if (s.line == NULL)
		return c->known ? store_new(c, hash, key) : store_parked(c, hash, key);
	/* if its parent is gone, its place is known from an earlier report */
	if (c->known) {
		is = slot_place(s);
		if (!run_step(ev, &p, key, false) || p.run != is.run || p.off != is.off)
			return ODD;
	}
	return store_known(c, s);
}

/* Returns false if there is no room for a root. */
static bool begin_run(struct course *c)
{
	const struct events_run *run = c->run;
	struct events *ev = c->ev;
	struct slot s;
	line_ref root;
	unsigned tries;

	if (run->keys == NULL)
		return true;
	if (!run->has_parent) {
		uint64_t hash = root_hash(ev, run->space, run->block_pages);

		for (tries = 0; (root = root_find(ev, hash, true)) == 0; tries++)
			if (tries == TRIES || !evict_some(ev))
				return false;
		set_at(c, (struct place){ root, 0 });
		return true;
	}
	c->before = handle_hash(ev, run->parent);
	s = handles_find(ev, &ev->holders[c->pen.holder].map, c->before);
	if (s.line == NULL)
		return true;
	set_at(c, slot_place(s));
	pen_open(ev, &c->pen, c->pen.holder, c->at.run);
	pen_stamp(ev, &c->pen);
	return true;
}

static uint32_t store_blocks(struct course *c)
{
	const struct events_run *run = c->run;
	struct events *ev = c->ev;
	struct ahead ahead = { .ev = ev, .map = &ev->holders[c->pen.holder].map,
			       .handles = run->handles, .n = run->n, .add = true };
	enum taken how = TAKEN;
	uint32_t i, n = 0;
	uint64_t hash;

	for (i = 0; i < run->n; i++) {
		hash = ahead_hash(&ahead, i);
		how = run->keys == NULL ? store_without_keys(c, hash) :
					  store_with_key(c, hash, block_key(ev,
					      run->keys + (size_t)i * run->block_pages, run->block_pages));
		if (how == ODD || how == REFUSED)
			break;
		if (how == IGNORED)
			COUNT(ev, unknown, 1);
		n += how == TAKEN;
		c->before = hash;
	}
	if (how == ODD)
		COUNT(ev, odd, run->n - i);
	else if (how == REFUSED)
		refuse(c, run->n - i);
	return n;
}

uint32_t events_stored(struct events *ev, const struct events_run *run)
{
	struct course c = { .ev = ev, .run = run };
	uint32_t n;

	if ((unsigned)run->tier >= EVENTS_TIERS || (run->keys != NULL && run->block_pages == 0)) {
		COUNT(ev, odd, run->n);
		return 0;
	}
	c.pen.holder = run->keys != NULL ? holder_get(ev, run->server, run->rank) :
					   holder_find(ev, run->server, run->rank);
	if (c.pen.holder == NO_HOLDER) {
		if (run->keys != NULL)
			refuse(&c, run->n);
		else
			COUNT(ev, unknown, run->n);
		return 0;
	}
	if (run->keys != NULL && !holder_size(ev, c.pen.holder, run->block_pages)) {
		if (ev->holders[c.pen.holder].size != 0)
			COUNT(ev, odd, run->n);
		else
			refuse(&c, run->n);
		return 0;
	}
	holder_expires(ev, c.pen.holder, run->ttl_ms);
	ev->stamp++;
	if (!begin_run(&c)) {
		refuse(&c, run->n);
		return 0;
	}
	n = store_blocks(&c);
	COUNT(ev, stored, n);
	pen_close(ev, &c.pen);
	if (c.known && run_is_root(run_at(ev, c.at.run)))
		run_trim(ev, c.at.run);
	if (ev->pinned.run != 0)
		run_pin(ev, (struct place){ 0 });
	keep_to_capacity(ev, c.pen.holder);
	return n;
}

/* ---- removed ---- */

static bool remove_copy(struct events *ev, struct pen *p, uint64_t hash, unsigned tier)
{
	struct slot s = handles_find(ev, &ev->holders[p->holder].map, hash);
	uint32_t copies, one = 1u << 4 * tier;
	struct parked *parked;

	if (s.line != NULL) {
		copies = record_copies(ev, p->holder, s);
		if (copies_of(copies, tier) == 0)
			return false;
		if (record_set(ev, p, s, copies - one))
			return true;
		COUNT(ev, refused, 1);
		return false;
	}
	if (ev->holders[p->holder].n_parked == 0 ||
	    (parked = park_find(ev, p->holder, hash)) == NULL || copies_of(parked->copies, tier) == 0)
		return false;
	parked->copies = (uint16_t)(parked->copies - one);
	if (parked->copies == 0)
		park_remove(ev, parked);
	return true;
}

uint32_t events_removed(struct events *ev, server_id server, uint16_t rank, const uint64_t *handles,
    uint32_t n, enum events_tier tier)
{
	struct pen p = { .holder = holder_find(ev, server, rank) };
	struct ahead ahead = { .ev = ev, .handles = handles, .n = n };
	uint32_t i, known = 0;

	if (p.holder != NO_HOLDER && (unsigned)tier < EVENTS_TIERS) {
		ahead.map = &ev->holders[p.holder].map;
		for (i = 0; i < n; i++)
			known += remove_copy(ev, &p, ahead_hash(&ahead, i), tier);
	}
	pen_close(ev, &p);
	COUNT(ev, removed, known);
	COUNT(ev, unknown, n - known);
	return known;
}

bool events_has(const struct events *ev, server_id server, uint16_t rank, uint64_t handle)
{
	uint32_t h = holder_find(ev, server, rank);
	uint64_t hash = handle_hash(ev, handle);

	return h != NO_HOLDER && (handles_find(ev, &ev->holders[h].map, hash).line != NULL ||
		(ev->holders[h].n_parked > 0 && park_find(ev, h, hash) != NULL));
}
