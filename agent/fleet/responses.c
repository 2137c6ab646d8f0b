/* responses.c - sets of four places, the newest first. */
#include "agent/base/mem.h"
#include "agent/fleet/responses.h"

#define WAYS	4u

struct response {
	uint64_t key;		/* 0: free, as all after it */
	uint32_t tokens;
	server_id at;
	uint16_t life;		/* of the server */
};

struct responses {
	uint64_t mask;		/* of sets */
	uint64_t n;
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

void responses_put(struct responses *t, uint64_t key, server_id at, uint32_t tokens)
{
	struct response *s, *x;

	if (t == NULL || key == 0 || at >= SERVERS_MAX)
		return;
	s = set_of(t, key);
	if ((x = place_of(t, key)) == NULL) {
		x = &s[WAYS - 1];
		t->n += x->key == 0;
	} else if (tokens == 0 && x->at == at) {
		tokens = x->tokens;
	}
	memmove(s + 1, s, (size_t)(x - s) * sizeof(*s));
	*s = (struct response){ .key = key, .tokens = tokens, .at = at, .life = t->life[at] };
}

server_id responses_find(const struct responses *t, uint64_t key, uint32_t *tokens)
{
	const struct response *x = t != NULL && key != 0 ? place_of(t, key) : NULL;

	if (x == NULL || x->life != t->life[x->at])
		return SERVER_NONE;
	*tokens = x->tokens;
	return x->at;
}

void responses_server_gone(struct responses *t, server_id id)
{
	if (t != NULL && id < SERVERS_MAX)
		t->life[id]++;
}

/* The oldest of a set comes first, so that a table which is filled in this order has the same. */
uint32_t responses_read(
    const struct responses *t, uint32_t *from, struct response_saved *out, uint32_t n)
{
	uint32_t k = 0;

	for (; t != NULL && k + WAYS <= n && *from <= t->mask; ++*from) {
		const struct response *s = &t->place[(uint64_t)*from * WAYS];

		for (unsigned i = WAYS; i-- > 0;)
			if (s[i].key != 0 && s[i].life == t->life[s[i].at])
				out[k++] = (struct response_saved){ s[i].key, s[i].at };
	}
	return k;
}

uint64_t responses_known(const struct responses *t)
{
	return t != NULL ? t->n : 0;
}
