#include "agent/route/agree.h"

static const struct agree_model *find(const struct agree *a, uint64_t key)
{
	uint32_t n = __atomic_load_n(&a->n, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < n; i++) {
		if (a->of[i].key == key)
			return &a->of[i];
	}
	return NULL;
}

bool agree_off(const struct agree *a, uint64_t key)
{
	const struct agree_model *m = find(a, key);

	return m != NULL && __atomic_load_n(&m->off, __ATOMIC_RELAXED);
}

void agree_meet(struct agree *a, uint64_t key, const char *name)
{
	struct agree_model *m = &a->of[a->n];

	if (a->n == AGREE_MODELS || find(a, key) != NULL)
		return;
	m->key = key;
	strncpy(m->name, name, PROMPT_NAME_MAX);
	__atomic_store_n(&a->n, a->n + 1, __ATOMIC_RELEASE);
}

void agree_learn(struct agree *a, uint64_t key, uint64_t ours, uint64_t theirs)
{
	struct agree_model *m = (struct agree_model *)find(a, key);

	if (m == NULL)
		return;
	a->compared++;
	a->differed += ours != theirs;
	m->differ = m->differ << 1 | (ours != theirs);
	if (m->n < AGREE_LAST)
		m->n++;
	if (m->n >= AGREE_LEAST && (uint32_t)__builtin_popcountll(m->differ) * AGREE_ONE_IN > m->n)
		__atomic_store_n(&m->off, true, __ATOMIC_RELAXED);
}

uint32_t agree_count_off(const struct agree *a)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < a->n; i++)
		n += a->of[i].off;
	return n;
}

const char *agree_news(struct agree *a)
{
	for (uint32_t i = 0; i < a->n; i++) {
		if (a->of[i].off && !a->of[i].told) {
			a->of[i].told = true;
			return a->of[i].name;
		}
	}
	return NULL;
}
