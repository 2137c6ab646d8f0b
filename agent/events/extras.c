/* extras.c - numbers that few blocks have: copies beyond one a tier, and several handles for one
 * block. One table of (key, value) each: open addressing, and a removal moves back what follows. */
#include "agent/events/events_in.h"

#define ROOM_LEAST	64u

static uint32_t home_of(const struct extras *x, uint64_t key)
{
	return (uint32_t)((key >> 32) * x->room >> 32);
}

static uint32_t find(const struct extras *x, uint64_t key)
{
	uint32_t i = home_of(x, key);

	while (x->at[i].key != 0 && x->at[i].key != key)
		i = i + 1 == x->room ? 0 : i + 1;
	return i;
}

uint64_t extras_get(const struct extras *x, uint64_t key)
{
	return x->room == 0 ? 0 : x->at[find(x, key)].value;
}

static bool grow(struct events *ev, struct extras *x)
{
	struct extras more = { .room = x->room > 0 ? x->room * 2 : ROOM_LEAST };
	uint32_t i, j;

	more.at = heap_resize(ev, NULL, 0, more.room * sizeof(*more.at));
	if (more.at == NULL)
		return false;
	for (i = 0; i < x->room; i++) {
		if (x->at[i].key == 0)
			continue;
		j = find(&more, x->at[i].key);
		more.at[j] = x->at[i];
		more.n++;
	}
	extras_free(ev, x);
	*x = more;
	return true;
}

static void remove_at(struct extras *x, uint32_t i)
{
	uint32_t j = i, home;

	x->n--;
	for (;;) {
		x->at[i].key = x->at[i].value = 0;
		do {
			j = j + 1 == x->room ? 0 : j + 1;
			if (x->at[j].key == 0)
				return;
			home = home_of(x, x->at[j].key);
		} while (i <= j ? i < home && home <= j : i < home || home <= j);
		x->at[i] = x->at[j];
		i = j;
	}
}

bool extras_put(struct events *ev, struct extras *x, uint64_t key, uint64_t value)
{
	uint32_t i;

	if (x->room > 0 && x->at[i = find(x, key)].key == key) {
		if (value != 0)
			x->at[i].value = value;
		else
			remove_at(x, i);
		return true;
	}
	if (value == 0)
		return true;
	if (x->n >= x->room - x->room / 4 && !grow(ev, x))
		return false;
	i = find(x, key);
	x->at[i].key = key;
	x->at[i].value = value;
	x->n++;
	return true;
}

void extras_free(struct events *ev, struct extras *x)
{
	heap_give(ev, x->at, x->room * sizeof(*x->at));
	*x = (struct extras){ 0 };
}
