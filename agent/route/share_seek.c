/* share_seek.c - ends that the walk looks for: a set, found by hash and server, and a heap of those
 * that it collects. */
#include "agent/route/share_sync_in.h"

/* ---- sets of ends -------------------------------------------------------------------------- */

static uint32_t slot_of(uint64_t hash, server_id server)
{
	return (uint32_t)((hash ^ server * 0x9e3779b97f4a7c15ull) >> 20) % (4 * SOUGHT_MAX);
}

static struct sought *seek_find(struct seek *s, uint64_t hash, server_id server)
{
	uint32_t i = slot_of(hash, server);

	for (; s->slot[i] != 0; i = (i + 1) % (4 * SOUGHT_MAX)) {
		struct sought *x = &s->of[s->slot[i] - 1];

		if (x->hash == hash && x->server == server)
			return x;
	}
	return NULL;
}

static void seek_link(struct seek *s, uint32_t number)
{
	uint32_t i = slot_of(s->of[number].hash, s->of[number].server);

	while (s->slot[i] != 0)
		i = (i + 1) % (4 * SOUGHT_MAX);
	s->slot[i] = (uint16_t)(number + 1);
}

void seek_add(struct seek *s, const struct sought *x)
{
	if (s->n == SOUGHT_MAX || seek_find(s, x->hash, x->server) != NULL)
		return;
	s->of[s->n] = *x;
	s->parts[x->server] |= (uint64_t)1 << x->hash % SPACE_PARTS;
	seek_link(s, s->n++);
}

void seek_drop(struct seek *s, uint64_t pass)
{
	uint32_t kept = 0;

	if (s->n == 0)
		return;
	memset(s->slot, 0, sizeof(s->slot));
	for (uint32_t i = 0; i < s->n; i++)
		if (s->of[i].since > pass)
			s->of[kept++] = s->of[i];
	s->n = kept;
	if (kept == 0)
		memset(s->parts, 0, sizeof(s->parts));
	for (uint32_t i = 0; i < kept; i++)
		seek_link(s, i);
}

/* ---- the walk ------------------------------------------------------------------------------ */

static void look_up(struct seek *s, const struct held_run *run, const struct holder *h)
{
	uint64_t parts = s->parts[h->server];

	for (uint32_t k = 0; k < h->pages && parts != 0; k++) {
		struct sought *x = parts >> run->hashes[k] % SPACE_PARTS & 1 ?
		    seek_find(s, run->hashes[k], h->server) : NULL;

		if (x == NULL)
			continue;
		x->found = true;
		x->at = (struct index_place){ run->end.node, run->start + k + 1, 0 };
		x->use = (struct held_use){ h->hits, h->priority, h->unused_ms };
	}
}

static bool tail_before(const struct tail *x, const struct tail *y)
{
	if (x->server != y->server)
		return x->server < y->server;
	return x->part != y->part ? x->part < y->part : x->end < y->end;
}

/* Add to the heap. */
static void tail_push(struct sync *y, const struct tail *t)
{
	uint32_t i = y->n_tails++, up;

	for (; i > 0 && tail_before(t, &y->tails[up = (i - 1) / 2]); i = up)
		y->tails[i] = y->tails[up];
	y->tails[i] = *t;
}

struct tail tail_pop(struct sync *y)
{
	struct tail first = y->tails[0], last = y->tails[--y->n_tails];
	uint32_t i = 0, down;

	while ((down = 2 * i + 1) < y->n_tails) {
		if (down + 1 < y->n_tails && tail_before(&y->tails[down + 1], &y->tails[down]))
			down++;
		if (!tail_before(&y->tails[down], &last))
			break;
		y->tails[i] = y->tails[down];
		i = down;
	}
	y->tails[i] = last;
	return first;
}

void ends_see(struct sync *y, const struct held_run *run, const struct holder *h, bool compared)
{
	uint64_t end = run->hashes[h->pages - 1];
	uint32_t part = end % SPACE_PARTS;

	look_up(&y->lack, run, h);
	look_up(&y->want, run, h);
	if (!compared || !(y->cells[h->server] >> part & 1))
		return;
	y->crowded |= y->n_tails == TAILS_MAX;
	if (!y->crowded)
		tail_push(y, &(struct tail){ h->server, part, end,
			{ run->end.node, run->start + h->pages, 0 } });
}
