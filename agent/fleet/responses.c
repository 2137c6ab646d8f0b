/* responses.c - sets of four places, each with the turn in which it was filled. */
#include "agent/base/mem.h"
#include "agent/fleet/responses.h"

#define WAYS	4u

struct response {
	uint64_t key;		/* 0: free */
	uint32_t turn;		/* of the table; wraps */
	server_id at;
	uint16_t life;		/* of the server */
};

struct responses {
	uint64_t mask;		/* of sets */
	uint64_t n;
	uint32_t turn;
	uint16_t life[SERVERS_MAX];
	struct response *place;
};

_Static_assert(sizeof(struct response) == 16, "a line has a set");
_Static_assert(sizeof(struct responses) < RESPONSES_LEAST / 2, "the least table has places");

struct responses *responses_new(size_t max_bytes)
{
	struct responses *t;
	size_t sets = 1, most;

	if (max_bytes < RESPONSES_LEAST || (t = mem_alloc(sizeof(*t))) == NULL)
		return NULL;
	most = (max_bytes - sizeof(*t)) / (WAYS * sizeof(struct response));
	while (sets * 2 <= most)
		sets *= 2;
	t->mask = sets - 1;
	if ((t->place = mem_calloc(sets * WAYS, sizeof(*t->place))) == NULL) {
		mem_free(t);
		return NULL;
	}
	return t;
}

void responses_free(struct responses *t)
{
	if (t == NULL)
		return;
	mem_free(t->place);
	mem_free(t);
}

static struct response *set_of(const struct responses *t, uint64_t key)
{
	return &t->place[((key ^ key >> 32) & t->mask) * WAYS];
}

static struct response *place_of(const struct responses *t, uint64_t key)
{
	struct response *s = set_of(t, key);

	for (unsigned i = 0; i < WAYS; i++)
		if (s[i].key == key)
			return &s[i];
	return NULL;
}

/* Return a free place of the set, or the oldest. */
static struct response *place_for(const struct responses *t, uint64_t key)
{
	struct response *s = set_of(t, key), *best = s;

	for (unsigned i = 0; i < WAYS; i++) {
		if (s[i].key == 0)
			return &s[i];
		if (t->turn - s[i].turn > t->turn - best->turn)
			best = &s[i];
	}
	return best;
}

void responses_put(struct responses *t, uint64_t key, server_id at)
{
	struct response *x;

	if (t == NULL || key == 0 || at >= SERVERS_MAX)
		return;
	if ((x = place_of(t, key)) == NULL)
		x = place_for(t, key);
	t->n += x->key == 0;
	*x = (struct response){ .key = key, .turn = t->turn++, .at = at, .life = t->life[at] };
}

server_id responses_find(const struct responses *t, uint64_t key)
{
	const struct response *x = t != NULL && key != 0 ? place_of(t, key) : NULL;

	return x != NULL && x->life == t->life[x->at] ? x->at : SERVER_NONE;
}

void responses_server_gone(struct responses *t, server_id id)
{
	if (t != NULL && id < SERVERS_MAX)
		t->life[id]++;
}

uint32_t responses_read(
    const struct responses *t, uint32_t *from, struct response_saved *out, uint32_t n)
{
	uint32_t k = 0;

	for (; t != NULL && k < n && *from < (t->mask + 1) * WAYS; ++*from) {
		const struct response *x = &t->place[*from];

		if (x->key != 0 && x->life == t->life[x->at])
			out[k++] = (struct response_saved){ x->key, x->at };
	}
	return k;
}

uint64_t responses_known(const struct responses *t)
{
	return t != NULL ? t->n : 0;
}
