/* density.c - a fading mean for each model, published as one atomic number. */
#include "agent/request/density.h"
#include "agent/request/space.h"

#define FADE		(31.0 / 32)
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

void density_learn(struct density *d, uint64_t key, uint64_t bytes, uint64_t tokens)
{
	struct density_model *m;
	double room;

	if (bytes == 0 || tokens == 0)
		return;
	if ((m = model_find(d, key)) == NULL && (m = model_add(d, key)) == NULL)
		return;
	m->bytes = m->bytes * FADE + (double)bytes;
	m->tokens = m->tokens * FADE + (double)tokens;
	if (m->n < DENSITY_LEAST && ++m->n < DENSITY_LEAST)
		return;
	room = UNIT_BYTES * ROOM_OF_TOKEN * m->tokens / m->bytes;
	if (room < ROOM_MEASURED_LEAST)
		room = ROOM_MEASURED_LEAST;
	else if (room > ROOM_MEASURED_MOST)
		room = ROOM_MEASURED_MOST;
	__atomic_store_n(&m->room, (uint32_t)room, __ATOMIC_RELAXED);
}

uint32_t density_room(const struct density *d, uint64_t key, uint32_t bytes)
{
	const struct density_model *m = model_find(d, key);
	uint32_t measured = m != NULL ? __atomic_load_n(&m->room, __ATOMIC_RELAXED) : 0;
	uint32_t room =
	    (uint32_t)((uint64_t)(measured != 0 ? measured : ROOM_ASSUMED) * bytes / UNIT_BYTES);

	return room > 0 ? room : 1;
}
