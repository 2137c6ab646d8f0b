/* ledger.c - a hash table by uid, and lists by age and by slot through each entry.
 *
 * Sums at the server (open tokens, waiting work) change with the entry, so reading them is O(1).
 *
 * Some closed entries are kept for those to come. A thread of SPOP opens them and another one
 * closes them, so that both would meet in the heap of the first. */
#include "agent/base/mem.h"
#include "agent/base/poison.h"
#include "agent/base/prefetch.h"
#include "agent/fleet/ledger.h"

#define BUCKETS_AT_START	256

int ledger_init(struct ledger *l, size_t entry_bytes)
{
	*l = (struct ledger){ .n_buckets = BUCKETS_AT_START, .entry_bytes = entry_bytes };
	list_init(&l->by_age);
	l->table = mem_calloc(l->n_buckets, sizeof(*l->table));
	return l->table ? 0 : -1;
}

static struct ledger_entry *spare_take(struct ledger *l)
{
	struct ledger_entry *e = l->spare;

	unpoison(e, l->entry_bytes);
	l->spare = e->chain;
	l->n_spare--;
	return memset(e, 0, l->entry_bytes);
}

static struct ledger_entry *entry_alloc(struct ledger *l)
{
	return l->spare != NULL ? spare_take(l) : mem_alloc(l->entry_bytes);
}

void ledger_prefetch(const struct ledger *l)
{
	if (l->spare != NULL)
		prefetch_bytes_to_write(l->spare, l->entry_bytes);
}

static void entry_free(struct ledger *l, struct ledger_entry *e)
{
	if (l->n_spare == LEDGER_SPARE_MOST) {
		mem_free(e);
		return;
	}
	e->chain = l->spare;
	l->spare = e;
	l->n_spare++;
	poison(e, l->entry_bytes);
}

void ledger_fini(struct ledger *l)
{
	while (l->spare != NULL)
		mem_free(spare_take(l));
	while (l->table != NULL && !list_empty(&l->by_age)) {
		struct list *at = l->by_age.next;

		list_remove(at);
		mem_free(list_entry(at, struct ledger_entry, by_age));
	}
	mem_free(l->table);
}

static struct ledger_entry **bucket_of(const struct ledger *l, uint64_t uid)
{
	return &l->table[uid & (l->n_buckets - 1)];
}

struct ledger_entry *ledger_find(const struct ledger *l, uint64_t uid)
{
	struct ledger_entry *e = *bucket_of(l, uid);

	while (e != NULL && e->uid != uid)
		e = e->chain;
	return e;
}

/* Double the buckets. Without memory the chains only get longer. */
static void double_buckets(struct ledger *l)
{
	struct ledger grown = *l;

	grown.n_buckets *= 2;
	grown.table = mem_calloc(grown.n_buckets, sizeof(*grown.table));
	if (grown.table == NULL)
		return;
	for (struct list *at = l->by_age.next; at != &l->by_age; at = at->next) {
		struct ledger_entry *e = list_entry(at, struct ledger_entry, by_age);
		struct ledger_entry **b = bucket_of(&grown, e->uid);

		e->chain = *b;
		*b = e;
	}
	mem_free(l->table);
	l->table = grown.table;
	l->n_buckets = grown.n_buckets;
}

static void entry_attach(struct ledger_entry *e, struct server *s, struct slot *sl)
{
	e->server = s;
	e->slot = sl;
	e->number = sl->n_ever++;
	list_append(&sl->open, &e->in_slot);
	sl->n_open++;
	s->n_open++;
	s->open_tokens += e->prompt_tokens;
	s->kv_tokens += e->kv_tokens;
	s->extra += e->extra;
}

static void entry_detach(struct ledger_entry *e)
{
	list_remove(&e->in_slot);
	e->slot->n_marked -= e->number < e->slot->mark;
	e->slot->n_open--;
	e->server->n_open--;
	e->server->open_tokens -= e->prompt_tokens;
	e->server->kv_tokens -= e->kv_tokens;
	e->server->extra -= e->extra;
}

struct ledger_entry *ledger_open(struct ledger *l, uint64_t uid, struct server *s, struct slot *sl,
				 const struct work *w, uint64_t prompt_tokens, uint64_t common_tokens,
				 msec now)
{
	struct ledger_entry *e = entry_alloc(l), **b;

	if (e == NULL)
		return NULL;
	if (l->n >= l->n_buckets)
		double_buckets(l);
	e->uid = uid;
	e->since = now;
	e->work = *w;
	e->prompt_tokens = prompt_tokens;
	e->kv_tokens = prompt_tokens > common_tokens ? prompt_tokens - common_tokens : 0;
	e->from = SERVER_NONE;
	list_append(&l->by_age, &e->by_age);
	b = bucket_of(l, uid);
	e->chain = *b;
	*b = e;
	l->n++;
	entry_attach(e, s, sl);
	if (w->elsewhere)
		s->n_elsewhere++;
	else
		server_work_add(s, w, now);
	return e;
}

void ledger_renew(struct ledger *l, struct ledger_entry *e)
{
	list_remove(&e->by_age);
	list_append(&l->by_age, &e->by_age);
}

void ledger_weigh(struct ledger_entry *e, int16_t extra)
{
	e->server->extra += extra - e->extra;
	e->extra = extra;
}

/* The wait of an entry that was moved here began elsewhere, so it says nothing about this server;
 * nor does that of an entry whose work is unknown. */
void ledger_answered(struct ledger_entry *e, msec now)
{
	if (e->answered)
		return;
	e->answered = true;
	e->answered_at = now;
	if (e->work.elsewhere) {
		e->server->n_elsewhere--;
		return;
	}
	if (e->from == SERVER_NONE && !e->work.uncertain)
		e->added = rate_answered(&e->server->rate, e->work.nominal_s, e->since, now);
	else
		rate_void(&e->server->rate, now);
	e->server->n_answered++;
	server_work_end(e->server, &e->work, now);
}

static void end_untimed(struct ledger_entry *e, msec now)
{
	if (e->work.elsewhere) {
		e->server->n_elsewhere--;
		return;
	}
	if (!e->unsent)
		rate_void(&e->server->rate, now);
	server_work_end(e->server, &e->work, now);
}

/* Returns true if it still waits. */
static bool entry_move(struct ledger_entry *e, struct server *to, struct slot *sl, msec now)
{
	bool waits = !e->answered;

	if (waits)
		end_untimed(e, now);
	entry_detach(e);
	entry_attach(e, to, sl);
	return waits;
}

void ledger_place(struct ledger_entry *e, struct server *to, struct slot *sl, const struct work *w,
		  msec now)
{
	bool waits = entry_move(e, to, sl, now);

	e->work = *w;
	if (waits)
		server_work_late(to, w, e->since, now);
}

void ledger_move(struct ledger_entry *e, struct server *to, struct slot *sl, msec now)
{
	bool waits = entry_move(e, to, sl, now);

	if (waits && e->work.elsewhere)
		to->n_elsewhere++;
	else if (waits)
		server_work_add(to, &e->work, now);
}

uint64_t ledger_settle(struct ledger_entry *e, bool confirm)
{
	uint64_t claim = e->claim;

	e->claim = 0;
	if (e->pending != NULL)
		*e->pending = (struct ledger_pending){ .settled = true, .confirm = confirm, .at = e->server->id };
	e->pending = NULL;
	return claim;
}

uint64_t ledger_close(struct ledger *l, struct ledger_entry *e, bool confirm, msec now)
{
	struct ledger_entry **at = bucket_of(l, e->uid);
	uint64_t claim = ledger_settle(e, confirm);

	while (*at != e)
		at = &(*at)->chain;
	*at = e->chain;
	l->n--;
	list_remove(&e->by_age);
	if (!e->answered)
		end_untimed(e, now);
	entry_detach(e);
	entry_free(l, e);
	return claim;
}
