/* density.c - fading means for each model, published as atomic numbers. */
#include "agent/request/density.h"
#include "agent/request/space.h"

#define FADE		(31.0 / 32)
#define WEIGHT_MOST	8	/* a prompt counts for at most 1 / so much of those before */
#define UNIT_BYTES	1024u
/* no text has more than 16 bytes a token, and none less than one */
#define ROOM_MEASURED_LEAST	(UNIT_BYTES * ROOM_OF_TOKEN / 16)
#define ROOM_MEASURED_MOST	(UNIT_BYTES * ROOM_OF_TOKEN)
#define ROOM_ASSUMED		(UNIT_BYTES * ROOM_OF_TOKEN / TEXT_BYTES_PER_TOKEN)

static struct density_model *model_find(const struct density *d, uint64_t key)
{
	uint32_t n = __atomic_load_n(&d->n, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < n; i++) {
		if (d->of[i].key == key)
			return (struct density_model *)&d->of[i];
	}
	return NULL;
}

static struct density_model *model_add(struct density *d, uint64_t key)
{
	struct density_model *m = &d->of[d->n];

	if (d->n == DENSITY_MODELS)
		return NULL;
	*m = (struct density_model){ .key = key };
	__atomic_store_n(&d->n, d->n + 1, __ATOMIC_RELEASE);
	return m;
}

/* Set the median of the parts that are measured. */
static void model_measure(struct density_model *m)
{
	uint32_t sorted[DENSITY_PARTS], n = 0;

	for (unsigned i = 0; i < DENSITY_PARTS; i++) {
		uint32_t room = m->part[i].room, at = n;

		if (room == 0)
			continue;
		for (n++; at > 0 && sorted[at - 1] > room; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = room;
	}
	__atomic_store_n(
	    &m->room, (uint32_t)(((uint64_t)sorted[(n - 1) / 2] + sorted[n / 2]) / 2), __ATOMIC_RELAXED);
}

/* Add a prompt, bounded: as no text, if it had parts that were not seen; and in weight. */
static void part_learn(struct density_part *p, double bytes, double tokens)
{
	double weight = p->n < DENSITY_LEAST || bytes <= p->bytes / WEIGHT_MOST ? 1 :
		p->bytes / WEIGHT_MOST / bytes;

	if (tokens > bytes)
		tokens = bytes;
	p->bytes = p->bytes * FADE + bytes * weight;
	p->tokens = p->tokens * FADE + tokens * weight;
}

void density_learn(
    struct density *d, uint64_t key, uint64_t tenant, uint64_t bytes, uint64_t tokens)
{
	struct density_model *m;
	struct density_part *p;
	double room;

	if (bytes == 0 || tokens == 0)
		return;
	if ((m = model_find(d, key)) == NULL && (m = model_add(d, key)) == NULL)
		return;
	p = &m->part[tenant % DENSITY_PARTS];
	part_learn(p, (double)bytes, (double)tokens);
	if (p->n < DENSITY_LEAST && ++p->n < DENSITY_LEAST)
		return;
	room = UNIT_BYTES * ROOM_OF_TOKEN * p->tokens / p->bytes;
	if (room < ROOM_MEASURED_LEAST)
		room = ROOM_MEASURED_LEAST;
	else if (room > ROOM_MEASURED_MOST)
		room = ROOM_MEASURED_MOST;
	__atomic_store_n(&p->room, (uint32_t)room, __ATOMIC_RELAXED);
	model_measure(m);
}

uint32_t density_room(const struct density *d, uint64_t key, uint64_t tenant, uint32_t bytes)
{
	const struct density_model *m = model_find(d, key);
	uint32_t measured = 0, room;

	if (m != NULL)
		measured = __atomic_load_n(&m->part[tenant % DENSITY_PARTS].room, __ATOMIC_RELAXED);
	if (m != NULL && measured == 0)
		measured = __atomic_load_n(&m->room, __ATOMIC_RELAXED);
	room = (uint32_t)((uint64_t)(measured != 0 ? measured : ROOM_ASSUMED) * bytes / UNIT_BYTES);
	return room > 0 ? room : 1;
}
