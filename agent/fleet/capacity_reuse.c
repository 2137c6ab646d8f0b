/* capacity_reuse.c - how long ago the beginnings of a prompt were last used at a server, in tokens.
 *
 * An engine evicts in the order in which requests ended, and nothing that an open one uses. So a
 * run's place is that of its last end, and an open run is before no other. Counted from one sending
 * to the next, caches of 2 M tokens with 40 open requests seemed to have 1 M to 2.6 M.
 *
 * A token counts in one run at a time: what a prompt uses again moves to the newest run. One prompt
 * of a server is watched at a time; its steps of distance are what capacity_first() weighs.
 *
 * Cost: about 50 places for a prompt, and 512 additions for each change of distance in it, some
 * microseconds, if the prompt may be watched. */
#include <string.h>

#include "agent/base/mem.h"
#include "agent/fleet/capacity.h"

/* ---- places in a prompt -------------------------------------------------------------------- */

#define UNSEEN_SHARE	0.1f
#define BLIND_SHARE	0.25f	/* from here on a size that was inferred before is too small */
#define UNSEEN_SMOOTH	(1.0f / 64)	/* a request */
#define WAIT_SHARE	3	/* tokens that may wait before it, for each that the cache may save */
#define WATCH_MS	60000	/* after this its first token is not expected any more */

#define TABLE_MARKS	(1u << 18)

/* <rest>: the last prompt that ended before the next mark went on for this share of the way, in
 * 255ths. Its tokens are in the same run. */
struct mark { uint32_t tag, run : 24, rest : 8; };

#define RUN_BITS	0xffffffu
#define REST_ALL	255u
struct marks_table { struct mark at[TABLE_MARKS]; };

static uint64_t stir(uint64_t h)
{
	h = (h ^ h >> 32) * 0xd6e8feb86659fd93ull;
	h = (h ^ h >> 32) * 0xd6e8feb86659fd93ull;
	return h ^ h >> 32;
}

/* Return the depth of the mark after the one at <depth>. */
static uint32_t mark_after(uint32_t depth)
{
	uint32_t step = (depth / 8 + MARK_EVERY / 2) / MARK_EVERY * MARK_EVERY;

	return depth + (step > MARK_EVERY ? step : MARK_EVERY);
}

void marks_depths(struct marks *m)
{
	m->depth[0] = MARK_EVERY;
	for (uint32_t i = 1; i < MARKS_MAX; i++)
		m->depth[i] = mark_after(m->depth[i - 1]);
}

void marks_go_on(struct marks *m, uint32_t from, uint64_t h, const page_key *pages, uint32_t n,
    uint64_t *every)
{
	uint32_t next = m->n > 0 ? mark_after(m->depth[m->n - 1]) : MARK_EVERY;

	for (uint32_t i = from; i + MARK_EVERY <= n && (every != NULL || m->n < MARKS_MAX);) {
		h = chain_group(h, pages + i);
		i += MARK_EVERY;
		if (every != NULL)
			*every++ = h;
		if (i < next || m->n == MARKS_MAX)
			continue;
		m->depth[m->n] = i;
		m->key[m->n++] = h;
		next = mark_after(i);
	}
}

void marks_of(
    struct marks *m, uint64_t space, const page_key *pages, uint32_t n, uint64_t *every)
{
	m->n = 0;
	marks_go_on(m, 0, space, pages, n, every);
}

struct marks_table *marks_table_new(void)
{
	return mem_alloc_huge(sizeof(struct marks_table));
}

void marks_table_free(struct marks_table *t)
{
	mem_free_line(t);
}

size_t marks_table_bytes(void)
{
	return sizeof(struct marks_table);
}

/* ---- reuse distances ----------------------------------------------------------------------- */

void capacity_init(struct capacity *c, uint64_t salt)
{
	*c = (struct capacity){ .salt = stir(salt), .run = RUNS_MAX };
}

static uint32_t *live_of(struct capacity *c, uint32_t run)
{
	return &c->live[run % RUNS_MAX];
}

static bool is_known(const struct capacity *c, uint32_t run)
{
	return ((c->run - run) & RUN_BITS) < RUNS_MAX;
}

/* Return how many ends ago the last one of run <i> was, and one more; 0: some of it is open. */
static uint32_t ends_ago(const struct capacity *c, uint32_t i)
{
	return (c->ends - c->ended[i] + 1) & -(uint32_t)(c->open[i] == 0);
}

/* Sum the tokens of later runs, and half of those in the same run. Runs are in the order of ends;
 * what is open is last. Of runs that nothing ended in, the newer is later. None is later than the
 * newest that is open. The loop has no branch, so that the compiler makes vectors of it. */
static uint32_t distance(const struct capacity *c, uint32_t run)
{
	uint32_t at = run % RUNS_MAX, older = (c->run - run) & RUN_BITS, ago = ends_ago(c, at);
	uint64_t d = c->live[at] / 2;

	if (older == 0 && ago == 0)
		return (uint32_t)d;
	for (uint32_t i = 0; i < RUNS_MAX; i++) {
		uint32_t other = ends_ago(c, i);
		uint32_t newer = (c->run - i) % RUNS_MAX < older;
		uint32_t later = (other < ago) | ((other == ago) & newer);

		d += c->live[i] & -later;
	}
	return d < UINT32_MAX ? (uint32_t)d : UINT32_MAX;
}

static void use(struct capacity *c, uint64_t tokens)
{
	uint32_t *live = live_of(c, c->run);

	*live = tokens < UINT32_MAX - *live ? *live + (uint32_t)tokens : UINT32_MAX;
}

static void next_run(struct capacity *c)
{
	if (*live_of(c, c->run) < RUN_TOKENS)
		return;
	*live_of(c, ++c->run) = 0;
	c->open[c->run % RUNS_MAX] = 0;
	c->ended[c->run % RUNS_MAX] = c->ends;
}

uint32_t capacity_opened(struct capacity *c)
{
	c->open[c->run % RUNS_MAX]++;
	return c->run;
}

void capacity_ended(struct capacity *c, uint32_t run)
{
	uint32_t i = run % RUNS_MAX;

	if (c->run - run >= RUNS_MAX || c->open[i] == 0)
		return;
	c->open[i]--;
	c->ended[i] = ++c->ends;
}

static void unuse(struct capacity *c, uint32_t run, uint64_t tokens)
{
	uint32_t *live = live_of(c, run);

	*live = *live > tokens ? *live - (uint32_t)tokens : 0;
}

/* Return the tokens of <rest> after a mark at <depth>. */
static uint64_t rest_tokens(uint32_t rest, uint32_t depth, uint32_t page_tokens)
{
	return (uint64_t)(mark_after(depth) - depth) * page_tokens * rest / REST_ALL;
}

/* Return the share of the way to the mark after <depth> that <tokens> go. */
static uint32_t rest_of(uint64_t tokens, uint32_t depth, uint32_t page_tokens)
{
	uint64_t all = rest_tokens(REST_ALL, depth, page_tokens);

	return tokens < all ? (uint32_t)(tokens * REST_ALL / all) : REST_ALL;
}

static void add_step(struct watched_prompt *w, uint32_t depth, uint32_t distance)
{
	uint32_t n = w->n_steps;

	if (n > 0 && distance <= w->step[n - 1].distance) {
		w->step[n - 1].depth = depth;
		return;
	}
	if (n == CAPACITY_STEPS)
		memmove(w->step, w->step + 1, --n * sizeof(w->step[0]));
	w->step[n].depth = depth;
	w->step[n].distance = distance;
	w->n_steps = n + 1;
}

static uint32_t deepest(const struct watched_prompt *w)
{
	return w->n_steps > 0 ? w->step[w->n_steps - 1].depth : 0;
}

bool capacity_is_blind(const struct capacity *c)
{
	return c->unseen > BLIND_SHARE;
}

/* Tell if <w> is better evidence than the request watched now. Work that waits before it must not
 * hide the time that the cache may have saved. */
static bool worth_watching(
    const struct capacity *c, const struct watched_prompt *w, uint64_t waiting)
{
	if (c->unseen > UNSEEN_SHARE || waiting > (uint64_t)WAIT_SHARE * deepest(w))
		return false;
	return c->watched.uid == 0 || w->sent - c->watched.sent > WATCH_MS ||
	    deepest(w) > deepest(&c->watched);
}

/* Tell if a step of <s>, used so <far> ago, is evidence: it is matched, or can have been evicted
 * for lack of room. Nearer, something else must have happened to it: its request failed, or the
 * engine was cleared. */
static bool is_evidence(const struct capacity_sent *s, uint32_t depth, uint32_t far)
{
	return depth <= s->matched || (s->room > 0 && far > s->room / 2);
}

static const struct mark *mark_found(
    const struct capacity *c, const struct marks_table *t, uint64_t hash)
{
	const struct mark *k = &t->at[hash % TABLE_MARKS];

	return k->tag == (uint32_t)(hash >> 32) && is_known(c, k->run) ? k : NULL;
}

/* Tell if the beginning up to <depth> is most of what the index says is cached. */
static bool covers_match(const struct capacity_sent *s, uint32_t depth)
{
	return depth >= (uint64_t)s->matched * s->page_tokens / 4 * 3;
}

/* Tell if the request may be watched, if all marks that are found and may be evidence are. Only
 * then their distances are worth their cost. */
static bool may_watch(const struct capacity *c, const struct marks_table *t,
    const struct capacity_sent *s, const uint64_t *hash, msec now)
{
	struct watched_prompt most = { .sent = now };
	uint32_t i = s->marks->n;

	if (s->unseen > 0 || c->unseen > UNSEEN_SHARE)
		return false;
	while (i > 0 && (!is_evidence(s, s->marks->depth[i - 1], UINT32_MAX) ||
	    mark_found(c, t, hash[i - 1]) == NULL))
		i--;
	if (i > 0)
		add_step(&most, s->marks->depth[i - 1] * s->page_tokens, 0);
	return covers_match(s, deepest(&most)) && worth_watching(c, &most, s->waiting);
}

/* A mark that another one has replaced counts as used with the next mark found. If too many are
 * missing at the end of the cached part, its distance is unknown. Of the unseen tokens at most as
 * many as were seen add to the distances of others, because they may never come.
 *
 * What a prompt had after its last mark moves with the next prompt that passes this mark. Otherwise
 * each turn of a conversation would count it once more, a sixteenth of the prompt; with agents that
 * made caches of 2 M tokens look like 4 M. */
void capacity_sent(
    struct capacity *c, struct marks_table *t, const struct capacity_sent *s, msec now)
{
	struct watched_prompt w = { .uid = s->uid, .sent = now, .tokens = s->tokens };
	const struct marks *m = s->marks;
	uint64_t seen = s->tokens - s->unseen, tokens = s->unseen < seen ? s->tokens : 2 * seen;
	uint64_t hash[MARKS_MAX];
	uint32_t told = 0, last = 0, far = 0;
	bool lost;

	for (uint32_t i = 0; i < m->n; i++) {
		hash[i] = stir(c->salt ^ m->key[i]);
		__builtin_prefetch(&t->at[hash[i] % TABLE_MARKS], 1);
	}
	if (s->tokens > 0)
		c->unseen += UNSEEN_SMOOTH * ((float)s->unseen / (float)s->tokens - c->unseen);
	lost = !may_watch(c, t, s, hash, now);
	next_run(c);
	for (uint32_t i = 0; i < m->n; i++) {
		uint64_t h = hash[i];
		struct mark *k = &t->at[h % TABLE_MARKS];

		if (mark_found(c, t, h) != NULL) {
			if (!lost && k->run != last)
				far = distance(c, last = k->run);
			if (!lost && is_evidence(s, m->depth[i], far))
				add_step(&w, m->depth[i] * s->page_tokens, far);
			else
				lost = true;
			unuse(c, k->run, (uint64_t)(m->depth[i] - told) * s->page_tokens +
				rest_tokens(k->rest, m->depth[i], s->page_tokens));
			use(c, (uint64_t)(m->depth[i] - told) * s->page_tokens);
			told = m->depth[i];
		}
		*k = (struct mark){ .tag = (uint32_t)(h >> 32), .run = c->run & RUN_BITS };
		if (i + 1 == m->n && tokens > (uint64_t)m->depth[i] * s->page_tokens)
			k->rest = rest_of(tokens - (uint64_t)m->depth[i] * s->page_tokens, m->depth[i],
			    s->page_tokens) & REST_ALL;
	}
	if (tokens > (uint64_t)told * s->page_tokens)
		use(c, tokens - (uint64_t)told * s->page_tokens);
	if (s->unseen == 0 && covers_match(s, deepest(&w)) &&
	    worth_watching(c, &w, s->waiting))
		c->watched = w;
}

void capacity_prefetch(
    const struct capacity *c, const struct marks_table *t, const struct marks *m)
{
	for (uint32_t i = 0; i < m->n; i++)
		__builtin_prefetch(&t->at[stir(c->salt ^ m->key[i]) % TABLE_MARKS], 1);
}

/* Forget all marks: change the salt, under which none of them is found. */
void capacity_cleared(struct capacity *c)
{
	c->salt = stir(c->salt + 1);
	memset(c->live, 0, sizeof(c->live));
	c->watched.uid = 0;
}

void capacity_output(struct capacity *c, uint64_t tokens)
{
	use(c, tokens);
	next_run(c);
}

void capacity_forget(struct capacity *c, uint64_t uid)
{
	if (c->watched.uid == uid)
		c->watched.uid = 0;
}

bool capacity_far(
    const struct capacity *c, const struct marks_table *t, uint64_t mark, uint64_t *far)
{
	const struct mark *k = mark_found(c, t, stir(c->salt ^ mark));

	if (k == NULL)
		return false;
	*far = distance(c, k->run);
	return true;
}
