/* inbox.c - siblings in an array, and for each of them the last number of every part. A batch is of
 * hundreds of entries or pages, so the search through the array does not count. */
#include "agent/base/mem.h"
#include "agent/share/inbox.h"

#define LATE_MOST	64u	/* so far behind the last number, a batch may still come */

/* What has come of one part. */
struct numbers {
	uint64_t last;		/* 0: none */
	uint64_t before;	/* bit i: last - 1 - i has come, or is known otherwise */
};

struct known {
	struct share_sibling s;
	int64_t made_ms;		/* of its last batch, by its own wall clock */
	bool gone;
	struct numbers *numbers;	/* of each part */
};

struct share_inbox {
	const struct hash_key *key;
	share_agent self;
	uint32_t n_parts;
	size_t n;			/* known agents, with those that are gone */
	struct known known[SHARE_SIBLINGS_MAX];
	share_agent displaced[SHARE_SIBLINGS_MAX];	/* gone, and not told yet */
	size_t n_displaced;
	struct share_inbox_stats st;
	struct share_reader reader;
	struct numbers numbers[];
};

struct share_inbox *share_inbox_new(const struct hash_key *key, share_agent self, uint32_t parts)
{
	size_t numbers = (size_t)parts * SHARE_SIBLINGS_MAX;
	struct share_inbox *i = mem_alloc(sizeof(*i) + numbers * sizeof(i->numbers[0]));

	if (i == NULL)
		return NULL;
	i->key = key;
	i->self = self;
	i->n_parts = parts;
	for (size_t k = 0; k < SHARE_SIBLINGS_MAX; k++)
		i->known[k].numbers = i->numbers + k * parts;
	return i;
}

void share_inbox_free(struct share_inbox *i)
{
	mem_free(i);
}

/* ---- siblings ------------------------------------------------------------------------------ */

static struct known *find_known(struct share_inbox *i, share_agent agent)
{
	for (size_t k = 0; k < i->n; k++)
		if (i->known[k].s.agent == agent)
			return &i->known[k];
	return NULL;
}

/* Return the agent of which to forget all, for another one whose batch was made then: one that is
 * gone for the longest time; else one that was silent for a lease before that. An old stream, read
 * in a moment, has runs of many agents that ended long ago. */
static struct known *oldest_known(struct share_inbox *i, int64_t made_ms)
{
	struct known *gone = NULL, *old = NULL;

	for (size_t k = 0; k < i->n; k++) {
		struct known *one = &i->known[k];

		if (one->gone && (gone == NULL || one->s.heard < gone->s.heard))
			gone = one;
		if (!one->gone && made_ms - one->made_ms >= SHARE_LEASE_MS &&
		    (old == NULL || one->made_ms < old->made_ms))
			old = one;
	}
	return gone != NULL ? gone : old;
}

static struct known *free_place(struct share_inbox *i, int64_t made_ms)
{
	struct known *k;

	if (i->n < SHARE_SIBLINGS_MAX)
		return &i->known[i->n++];
	k = oldest_known(i, made_ms);
	if (k == NULL || k->gone)
		return k;
	if (i->n_displaced == SHARE_SIBLINGS_MAX)
		return NULL;
	i->displaced[i->n_displaced++] = k->s.agent;
	i->st.siblings--;
	return k;
}

static struct known *add_known(struct share_inbox *i, share_agent agent, int64_t made_ms)
{
	struct known *k = free_place(i, made_ms);

	if (k == NULL)
		return NULL;
	k->s = (struct share_sibling){ .agent = agent, .off_since = -1 };
	k->gone = true;		/* until it is heard */
	memset(k->numbers, 0, i->n_parts * sizeof(k->numbers[0]));
	return k;
}

static void hear(struct share_inbox *i, struct known *k, msec now, int64_t lag_ms)
{
	if (k->gone)
		i->st.siblings++;
	k->gone = false;
	k->s.heard = now;
	k->s.lag_ms = lag_ms;
	if (lag_ms <= SHARE_COMPARED_MS && lag_ms >= -SHARE_COMPARED_MS)
		k->s.off_since = -1;
	else if (k->s.off_since < 0)
		k->s.off_since = now;
	k->s.batches++;
}

void share_inbox_age(struct share_inbox *i, msec now, share_gone_fn *gone, void *arg)
{
	i->st.gone += i->n_displaced;
	for (size_t k = 0; k < i->n_displaced; k++)
		if (find_known(i, i->displaced[k]) == NULL)
			gone(arg, i->displaced[k]);
	i->n_displaced = 0;
	for (size_t k = 0; k < i->n; k++) {
		struct known *one = &i->known[k];

		if (one->gone || now - one->s.heard < SHARE_LEASE_MS)
			continue;
		one->gone = true;
		i->st.siblings--;
		i->st.gone++;
		gone(arg, one->s.agent);
	}
}

void share_inbox_renew(struct share_inbox *i, msec now)
{
	for (size_t k = 0; k < i->n; k++)
		if (!i->known[k].gone)
			i->known[k].s.heard = now;
}

size_t share_inbox_siblings(const struct share_inbox *i, struct share_sibling *s, size_t max)
{
	size_t n = 0;

	for (size_t k = 0; k < i->n && n < max; k++)
		if (!i->known[k].gone)
			s[n++] = i->known[k].s;
	return n;
}

/* ---- batches ------------------------------------------------------------------------------- */

static enum share_read result_of(int error)
{
	switch (-error) {
	case SHARE_E_STRANGER:
		return SHARE_READ_STRANGER;
	case SHARE_E_NEWER:
		return SHARE_READ_NEWER;
	default:
		return SHARE_READ_DAMAGED;
	}
}

/* Note a number. Returns what it is, compared with those that have come. */
static enum share_read place_number(
    struct share_inbox *i, struct known *k, struct numbers *had, uint64_t number)
{
	enum share_read r = SHARE_READ_NEW;
	uint64_t ahead = number - had->last, behind = had->last - number;

	if (number <= had->last) {
		if (behind == 0 || behind > LATE_MOST || (had->before >> (behind - 1) & 1))
			return SHARE_READ_REPEATED;
		had->before |= (uint64_t)1 << (behind - 1);
		return SHARE_READ_LATE;
	}
	if (had->last == 0 && number > 1) {
		r = SHARE_READ_JOINED;
		had->before = UINT64_MAX;
	} else if (ahead > 1) {
		r = SHARE_READ_HOLE;
		i->st.missing += ahead - 1;
		k->s.holes++;
	}
	if (r != SHARE_READ_JOINED)
		had->before = ahead > LATE_MOST ? 0 : had->before << (ahead - 1) << 1 |
		    (uint64_t)1 << (ahead - 1);
	had->last = number;
	return r;
}

/* -1: unknown. */
static void make_older(msec *ago, msec age)
{
	*ago += *ago >= 0 ? age : 0;
}

/* Let times that had passed when the batch was made be those that have passed now. It may be hours
 * old: it waited for the store, or this agent reads an old stream. */
static void add_age(struct share_entry *e, msec age)
{
	e->age_ms = age;
	switch (e->kind) {
	case SHARE_PLACED:
		e->u.placed.grown_ago_ms += age;
		break;
	case SHARE_HELD:
		e->u.held.unused_ms += age;
		break;
	case SHARE_CLEARED:
		e->u.cleared.ago_ms += age;
		break;
	case SHARE_DIGEST:
		make_older(&e->u.digest.cleared_ago_ms, age);
		make_older(&e->u.digest.oldest_ms, age);
		make_older(&e->u.digest.evicted_ago_ms, age);
		make_older(&e->u.digest.named_ago_ms, age);
		break;
	case SHARE_SERVER:
		make_older(&e->u.server.named_ago_ms, age);
		break;
	case SHARE_ENDS:
		make_older(&e->u.ends.evicted_ago_ms, age);
		break;
	default:
		break;
	}
}

static void apply_all(struct share_inbox *i, struct known *k, share_apply_fn *apply, void *arg)
{
	struct share_entry e;
	int rc;

	while ((rc = share_read_next(&i->reader, &e)) != 0) {
		if (rc == -SHARE_E_KIND) {
			i->st.unknown_kinds++;
			continue;
		}
		if (rc < 0) {
			i->st.bad_entries++;
			continue;
		}
		i->st.entries[e.kind]++;
		add_age(&e, k->s.lag_ms > 0 ? k->s.lag_ms : 0);
		if (e.kind == SHARE_ALIVE) {
			k->s.told = true;
			k->s.alive = e.u.alive;
		}
		apply(arg, k->s.agent, &e);
	}
}

static enum share_read read_batch(struct share_inbox *i, uint32_t part, struct span bytes, msec now,
    int64_t wall_ms, share_apply_fn *apply, void *arg)
{
	const struct share_batch *b = &i->reader.batch;
	int rc = share_read_start(&i->reader, i->key, bytes);
	enum share_read r;
	struct known *k;

	if (rc != 0)
		return result_of(rc);
	if (b->part != part)
		return SHARE_READ_DAMAGED;
	if (b->agent == i->self)
		return SHARE_READ_OWN;
	k = find_known(i, b->agent);
	if (k == NULL && (k = add_known(i, b->agent, b->made_ms)) == NULL)
		return SHARE_READ_CROWDED;
	r = place_number(i, k, &k->numbers[part], b->number);
	if (r >= SHARE_READ_REPEATED)
		return r;
	hear(i, k, now, wall_ms - b->made_ms);
	k->made_ms = b->made_ms;
	i->st.bytes += bytes.n;
	apply_all(i, k, apply, arg);
	return r;
}

enum share_read share_inbox_read(struct share_inbox *i, uint32_t part, struct span bytes, msec now,
    int64_t wall_ms, share_apply_fn *apply, void *arg)
{
	enum share_read r = read_batch(i, part, bytes, now, wall_ms, apply, arg);

	i->st.batches[r]++;
	return r;
}

void share_inbox_stats(const struct share_inbox *i, struct share_inbox_stats *s)
{
	*s = i->st;
}
