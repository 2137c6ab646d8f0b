/* agree.c - a small table of places in sets, each with the last counts as bits. */
#include <stdio.h>

#include "agent/request/agree.h"

#define SETS	(AGREE_PLACES / AGREE_WAYS)

void agree_init(struct agree *a)
{
	memset(a, 0, sizeof(*a));
	pthread_mutex_init(&a->lock, NULL);
}

void agree_fini(struct agree *a)
{
	pthread_mutex_destroy(&a->lock);
}

/* ---- kinds --------------------------------------------------------------------------------- */

#define SHAPE_BITS	12

uint16_t agree_kind(const struct prompt *p)
{
	unsigned shape = p->shape;

	if (p->system.n > 0)
		shape |= SHAPE_SYSTEM;
	if (p->tools.n > 0)
		shape |= SHAPE_TOOLS;
	return (uint16_t)((unsigned)p->api << SHAPE_BITS | shape);
}

void agree_kind_text(uint16_t kind, char *out, size_t cap)
{
	size_t n = (size_t)snprintf(
	    out, cap, "%s", prompt_api_name((enum prompt_api)(kind >> SHAPE_BITS)));

	for (unsigned i = 0; i < SHAPE_BITS && n < cap; i++)
		if (kind >> i & 1)
			n += (size_t)snprintf(out + n, cap - n, " %s", prompt_shape_word(i));
}

/* ---- models -------------------------------------------------------------------------------- */

static struct agree_model *model_of(const struct agree *a, uint64_t key)
{
	for (uint32_t i = 0; i < a->n_models; i++)
		if (a->models[i].key == key)
			return (struct agree_model *)&a->models[i];
	return NULL;
}

static struct agree_model *oldest_model(struct agree *a)
{
	struct agree_model *old = &a->models[0];

	for (uint32_t i = 1; i < a->n_models; i++)
		if (a->models[i].met < old->met)
			old = &a->models[i];
	return old;
}

void agree_meet(struct agree *a, uint64_t key, const char *name, msec now)
{
	struct agree_model *m;

	pthread_mutex_lock(&a->lock);
	m = model_of(a, key);
	if (m == NULL) {
		m = a->n_models < AGREE_MODELS ? &a->models[a->n_models++] : oldest_model(a);
		*m = (struct agree_model){ .key = key };
		strncpy(m->name, name, PROMPT_NAME_MAX);
	}
	m->met = now;
	pthread_mutex_unlock(&a->lock);
}

/* ---- places -------------------------------------------------------------------------------- */

static struct agree_place *set_of(const struct agree *a, const struct agree_ref *q)
{
	return (struct agree_place *)&a->place[(q->model ^ q->who) % SETS * AGREE_WAYS];
}

static struct agree_place *place_find(const struct agree *a, const struct agree_ref *q)
{
	struct agree_place *set = set_of(a, q);

	for (unsigned i = 0; i < AGREE_WAYS; i++)
		if (set[i].model == q->model && set[i].who == q->who && set[i].kind == q->kind)
			return &set[i];
	return NULL;
}

static void set_off(struct agree *a, struct agree_place *p, msec until)
{
	uint32_t n = a->n_off;

	n += (until != 0) - (p->until != 0);
	p->until = until;
	__atomic_store_n(&a->n_off, n, __ATOMIC_RELAXED);
}

/* Tell if <x> is evicted before <y>: free places first, then places that are on, then the one that
 * was compared longest ago. */
static bool goes_before(const struct agree_place *x, const struct agree_place *y)
{
	if (x->model == 0 || y->model == 0)
		return x->model == 0 && y->model != 0;
	if ((x->until == 0) != (y->until == 0))
		return x->until == 0;
	return x->last < y->last;
}

static struct agree_place *place_replace(struct agree *a, const struct agree_ref *q)
{
	struct agree_place *set = set_of(a, q), *p = &set[0];

	for (unsigned i = 1; i < AGREE_WAYS; i++)
		if (goes_before(&set[i], p))
			p = &set[i];
	set_off(a, p, 0);
	*p = (struct agree_place){ .model = q->model, .who = q->who, .kind = q->kind };
	return p;
}

static bool knows_conversation(const struct agree_place *p, uint32_t conversation)
{
	for (uint32_t i = 0; i < AGREE_LEAST && i < p->n_conversations; i++)
		if (p->conversation[i] == conversation)
			return true;
	return false;
}

static bool too_many(const struct agree_place *p)
{
	uint32_t n = (uint32_t)__builtin_popcountll(p->differ);

	return n >= AGREE_LEAST && n * AGREE_ONE_IN > p->n;
}

static msec off_for(unsigned times)
{
	msec ms = (msec)AGREE_OFF_MS << (times < 6 ? times : 6);

	return ms < AGREE_OFF_MAX_MS ? ms : AGREE_OFF_MAX_MS;
}

static void place_forget(struct agree_place *p)
{
	p->differ = 0;
	p->n = 0;
	p->n_conversations = 0;
}

static void place_note(struct agree_place *p, bool differs, uint32_t conversation)
{
	p->differ = p->differ << 1 | differs;
	p->n += p->n < AGREE_LAST;
	if (differs)
		p->conversation[p->n_conversations++ % AGREE_LEAST] = conversation;
}

static void place_conclude(struct agree *a, struct agree_place *p, msec now)
{
	if (too_many(p)) {
		set_off(a, p, now + off_for(p->times));
		p->times += p->times < UINT8_MAX;
		p->told = 0;
		place_forget(p);
	} else if (p->n == AGREE_LAST && p->differ == 0) {
		*p = (struct agree_place){ 0 };
	}
}

static void place_learn(struct agree *a, const struct agree_ref *q, bool differs, msec now)
{
	struct agree_place *p;

	a->compared++;
	a->differed += differs;
	p = place_find(a, q);
	if (p == NULL && differs)
		p = place_replace(a, q);
	if (p == NULL || now < p->until)	/* it was decided before that went off */
		return;
	set_off(a, p, 0);
	p->last = now;
	if (differs && knows_conversation(p, q->conversation))
		return;
	place_note(p, differs, q->conversation);
	place_conclude(a, p, now);
}

void agree_learn(
    struct agree *a, const struct agree_ref *q, uint64_t ours, uint64_t theirs, msec now)
{
	if (q->model == 0)
		return;
	pthread_mutex_lock(&a->lock);
	place_learn(a, q, ours != theirs, now);
	pthread_mutex_unlock(&a->lock);
}

bool agree_off(struct agree *a, const struct agree_ref *q, msec now)
{
	const struct agree_place *p;
	bool off;

	if (__atomic_load_n(&a->n_off, __ATOMIC_RELAXED) == 0)
		return false;
	pthread_mutex_lock(&a->lock);
	p = place_find(a, q);
	off = p != NULL && now < p->until;
	pthread_mutex_unlock(&a->lock);
	return off;
}

/* ---- reports -------------------------------------------------------------------------------- */

static uint32_t count_off(const struct agree *a, uint64_t key)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < AGREE_PLACES; i++)
		n += a->place[i].model == key && a->now < a->place[i].until;
	return n;
}

uint32_t agree_count_off(struct agree *a, uint64_t key)
{
	uint32_t n;

	pthread_mutex_lock(&a->lock);
	n = count_off(a, key);
	pthread_mutex_unlock(&a->lock);
	return n;
}

void agree_counts(struct agree *a, struct agree_counts *c)
{
	pthread_mutex_lock(&a->lock);
	*c = (struct agree_counts){ .compared = a->compared, .differed = a->differed };
	for (uint32_t i = 0; i < a->n_models; i++)
		c->models_off += count_off(a, a->models[i].key) > 0;
	pthread_mutex_unlock(&a->lock);
}

static bool is_same_off(
    const struct agree *a, const struct agree_place *x, const struct agree_place *y)
{
	return x->model == y->model && x->kind == y->kind && a->now < x->until;
}

static bool is_first_off(const struct agree *a, const struct agree_place *p)
{
	for (const struct agree_place *o = a->place; o < p; o++)
		if (is_same_off(a, o, p))
			return false;
	return a->now < p->until;
}

void agree_each_off(struct agree *a,
    void (*fn)(void *arg, const char *model, uint16_t kind, uint32_t tenants), void *arg)
{
	pthread_mutex_lock(&a->lock);
	for (uint32_t i = 0; a->n_off > 0 && i < AGREE_PLACES; i++) {
		const struct agree_model *m = model_of(a, a->place[i].model);
		uint32_t n = 0;

		if (m == NULL || !is_first_off(a, &a->place[i]))
			continue;
		for (uint32_t k = i; k < AGREE_PLACES; k++)
			n += is_same_off(a, &a->place[k], &a->place[i]);
		fn(arg, m->name, a->place[i].kind, n);
	}
	pthread_mutex_unlock(&a->lock);
}

/* Tell if another tenant's place of the same kind was reported lately. */
static bool is_old_news(const struct agree *a, const struct agree_place *p, msec now)
{
	for (uint32_t i = 0; i < AGREE_PLACES; i++) {
		const struct agree_place *o = &a->place[i];

		if (o != p && o->model == p->model && o->kind == p->kind && o->told != 0 &&
		    now - o->told < AGREE_TELL_MS)
			return true;
	}
	return false;
}

static bool find_news(struct agree *a, msec now, struct agree_news *out)
{
	for (uint32_t i = 0; a->n_off > 0 && i < AGREE_PLACES; i++) {
		struct agree_place *p = &a->place[i];
		const struct agree_model *m;

		if (now >= p->until || p->told != 0 || (m = model_of(a, p->model)) == NULL ||
		    is_old_news(a, p, now))
			continue;
		p->told = now;
		*out = (struct agree_news){ .kind = p->kind, .for_ms = p->until - now };
		memcpy(out->model, m->name, sizeof(out->model));
		return true;
	}
	return false;
}

bool agree_news(struct agree *a, msec now, struct agree_news *out)
{
	bool any;

	pthread_mutex_lock(&a->lock);
	a->now = now;
	any = find_news(a, now, out);
	pthread_mutex_unlock(&a->lock);
	return any;
}
