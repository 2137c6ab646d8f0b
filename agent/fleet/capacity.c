/* capacity.c - how badly each size explains the first tokens that were seen.
 *
 * Each size has one number for each server. So a first token of which only a part can have been
 * cached, or one between a hit and a miss, needs no verdict. Seconds are compared, not their
 * logarithms, because what disturbs them (the step under way, answers being generated) adds to
 * them.
 *
 * The pace comes from first tokens for which it makes little difference what was cached. It is
 * learned by size, because the configured rate may be far off and real ones are not linear.
 *
 * An engine evicts in the order in which requests ended, and nothing that an open one uses. So a
 * run's place is that of its last end, and an open run is before no other. Counted from one sending
 * to the next, caches of 2 M tokens with 40 open requests seemed to have 1 M to 2.6 M.
 *
 * Cost: about 50 places for a prompt, and 512 additions for each change of distance in it, some
 * microseconds, if the prompt may be watched; 80 sizes for each first token that is evidence. */
#include <math.h>
#include <string.h>

#include "agent/base/chain.h"
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
	return mem_alloc(sizeof(struct marks_table));
}

void marks_table_free(struct marks_table *t)
{
	mem_free(t);
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

/* Return where <run> is in the order of ends; what is open is last. Of runs that nothing ended in,
 * the newer is later. */
static uint64_t place_of(const struct capacity *c, uint32_t run)
{
	uint32_t i = run % RUNS_MAX, ago = c->open[i] > 0 ? 0 : c->ends - c->ended[i] + 1;

	return (uint64_t)(UINT32_MAX - ago) << 32 | (RUNS_MAX - ((c->run - run) & RUN_BITS));
}

/* Sum the tokens of later runs, and half of those in the same run. None is later than the newest
 * that is open. */
static uint32_t distance(const struct capacity *c, uint32_t run)
{
	uint64_t d = c->live[run % RUNS_MAX] / 2, place = place_of(c, run);

	if (((c->run ^ run) & RUN_BITS) == 0 && c->open[run % RUNS_MAX] > 0)
		return (uint32_t)d;
	for (uint32_t i = 0; i < RUNS_MAX; i++)
		if (place_of(c, c->run - i) > place)
			d += c->live[(c->run - i) % RUNS_MAX];
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

/* ---- paces --------------------------------------------------------------------------------- */

#define PACE_MEMORY	64.0f		/* first tokens in a mean */
#define PACE_OWN	8.0f		/* first tokens before a server's own mean replaces its pool's */
#define PACE_LEAST_S	(1.0 / 64)	/* the first octave goes up to twice this */

static int octave_of(double s)
{
	int i = s > PACE_LEAST_S ? ilogb(s / PACE_LEAST_S) : 0;

	return i < (int)PACE_OCTAVES ? i : (int)PACE_OCTAVES - 1;
}

static void pace_learn(struct pace *p, double predicted_s, double took_s)
{
	int i = octave_of(predicted_s);

	if (p->n[i] < PACE_MEMORY)
		p->n[i]++;
	p->log2_ratio[i] += ((float)log2(took_s / predicted_s) - p->log2_ratio[i]) / p->n[i];
}

/* Return the ratio of the nearest known octave, at most two away; 0: none. */
static double pace_of(const struct pace *p, double predicted_s)
{
	int i = octave_of(predicted_s);

	for (int off = 0; off <= 4; off++) {
		int k = off % 2 ? i - (off + 1) / 2 : i + off / 2;

		if (k >= 0 && k < (int)PACE_OCTAVES && p->n[k] > 0)
			return exp2((double)p->log2_ratio[k]);
	}
	return 0;
}

/* Return the server's own ratio if known, because servers differ in speed; else its pool's. */
static double pace_at(const struct capacity *c, const struct capacity_pool *p, double predicted_s)
{
	int i = octave_of(predicted_s);
	double own = c->pace.n[i] >= PACE_OWN ? pace_of(&c->pace, predicted_s) : 0;

	return own > 0 ? own : pace_of(&p->pace, predicted_s);
}

/* ---- evidence ------------------------------------------------------------------------------ */

#define CLEAR_SHARE	0.8	/* a hit must take at most this share of a miss, */
#define CLEAR_S		0.05	/* and be this much faster: steps and networks take some 10 ms */
#define WEIGHT_MEMORY	256.0f	/* first tokens that count; an engine may restart with another size */
#define POOL_WEIGHT	32.0f	/* the whole pool's evidence counts at most as so many of its own */
#define LEAST_LOG	(-32.0)	/* a size less likely than e to this power changes no estimate */
#define STRENGTH	4.0	/* natural logarithm of the odds of one first token: one in eight misleads */
#define USUAL_TOKENS	500000.0	/* an 8B model on 80 GB has about this */
#define USUAL_OCTAVES	1.0	/* standard deviation of that guess */
#define SURE_OCTAVES	0.3	/* standard deviation of an estimate that is used */
#define LARGE_OCTAVES	1.25	/* above the guess; there an unsure one is used, too, */
#define UNSURE_LESS	1.15	/* divided by this */
/* Standard deviation of an estimate from a snapshot. The engine may have restarted with another
 * size; then a few first tokens that contradict the old one are enough. */
#define RECALLED_OCTAVES	0.25

static double size_at(unsigned i)
{
	static const double eighths[] = {	/* 2 ^ (1/16), 2 ^ (3/16), ... */
		1.0442737824274138, 1.1387886347566916, 1.241857812073484, 1.3542555469368927,
		1.4768261459394993, 1.6104903319492543, 1.7562521603732995, 1.9152065613971474,
	};

	return CAPACITY_LEAST * (double)(1u << i / 8) * eighths[i % 8];
}

/* Add a first token, whose beginning had the reuse distance <far>. Older evidence about sizes up to
 * twice that counts less for it. That about larger sizes stays, because long distances are seldom:
 * of a hundred first tokens of agents one tells anything about the size of a large cache. */
static void weigh(struct evidence *e, const float against[CAPACITY_SIZES], uint32_t far)
{
	float keep = e->n < WEIGHT_MEMORY ? 1 : 1 - 1 / WEIGHT_MEMORY, least = INFINITY;

	for (unsigned i = 0; i < CAPACITY_SIZES; i++)
		least = against[i] < least ? against[i] : least;
	for (unsigned i = 0; i < CAPACITY_SIZES; i++)
		e->against[i] = e->against[i] * (size_at(i) < 2.0 * far ? keep : 1) + against[i] - least;
	e->n = e->n * keep + 1;
}

/* Return the predicted seconds to first token at a server whose cache has <size> tokens. */
static double predicted_s(const struct watched_prompt *w, const struct policy_opts *o, double size)
{
	uint64_t held = 0;

	for (uint32_t i = 0; i < w->n_steps && w->step[i].distance < size; i++)
		held = w->step[i].depth;
	return policy_prefill_s(o, w->tokens, held);
}

/* Weigh each size by how far off its prediction is, as a share of the time between hit and miss. */
static void weigh_first_token(
    struct capacity *c, struct capacity_pool *p, const struct policy_opts *o, double took_s)
{
	const struct watched_prompt *w = &c->watched;
	double miss = predicted_s(w, o, 0), hit = predicted_s(w, o, INFINITY), pace = pace_at(c, p, miss);
	float against[CAPACITY_SIZES];

	if (pace <= 0 || hit > CLEAR_SHARE * miss || pace * (miss - hit) < CLEAR_S)
		return;
	for (unsigned i = 0; i < CAPACITY_SIZES; i++) {
		double off = fabs(took_s - pace * predicted_s(w, o, size_at(i))) / (pace * (miss - hit));

		against[i] = off < 1 ? (float)off : 1;
	}
	weigh(&c->own, against, w->step[w->n_steps - 1].distance);
	weigh(&p->all, against, w->step[w->n_steps - 1].distance);
}

bool capacity_first(struct capacity *c, struct capacity_pool *p, const struct policy_opts *o,
    uint64_t uid, msec now)
{
	const struct watched_prompt *w = &c->watched;
	msec begun = c->last_first > w->sent ? c->last_first : w->sent;
	double took_s = now > begun ? (double)(now - begun) / 1000 : 0.001;
	double miss, hit;

	c->last_first = now;
	if (w->uid != uid || uid == 0)
		return false;
	c->watched.uid = 0;
	miss = predicted_s(w, o, 0);
	hit = predicted_s(w, o, INFINITY);
	if (hit > 0 && hit > CLEAR_SHARE * miss) {
		pace_learn(&c->pace, miss, took_s * sqrt(miss / hit));
		pace_learn(&p->pace, miss, took_s * sqrt(miss / hit));
		return false;
	}
	weigh_first_token(c, p, o, took_s);
	return true;
}

/* How likely sizes are before any evidence: half to twice the guess is likely, four times is not.
 * An estimate from a snapshot counts for more than a guess. */
struct prior {
	double centre, width;	/* in octaves from CAPACITY_LEAST */
};

static struct prior prior_of(const struct capacity *c, uint64_t guess)
{
	if (c->recalled > 0)
		return (struct prior){ log2((double)c->recalled / CAPACITY_LEAST), RECALLED_OCTAVES };
	return (struct prior){ log2((guess > 0 ? (double)guess : USUAL_TOKENS) / CAPACITY_LEAST),
		USUAL_OCTAVES };
}

static double octaves_at(unsigned i)
{
	return (i + 0.5) / 8;
}

/* Return how unlikely size <i> is: normal, but above one deviation each more costs the same. With a
 * normal distribution a cache four times the guess, which evicts nothing, is soon taken for the
 * least size that explains all hits, because the next larger one is so much less likely. */
static double unlikely(const struct prior *p, unsigned i)
{
	double off = (octaves_at(i) - p->centre) / p->width;

	return (off > 1 ? off - 0.5 : off * off / 2) / STRENGTH;
}

/* Tell if the size that explains the first tokens of all servers best also explains those of this
 * one, but for one or two first tokens. Servers of a pool mostly are equal, and of one with a large
 * cache few first tokens tell the size. In the cell 10000:4 of make bench-agentic, 3 seeds, the
 * mean time to first token is 3.9 s with it and 4.7 without. */
#define AGREES	1.5f

static bool agrees(
    const struct capacity *c, const struct capacity_pool *p, const struct prior *prior)
{
	double against_all = INFINITY, against_own = INFINITY;
	unsigned all = 0, own = 0;

	for (unsigned i = 0; i < CAPACITY_SIZES; i++) {
		double first = unlikely(prior, i);

		if (p->all.against[i] + first < against_all) {
			against_all = p->all.against[i] + first;
			all = i;
		}
		if (c->own.against[i] + first < against_own) {
			against_own = c->own.against[i] + first;
			own = i;
		}
	}
	return c->own.against[all] - c->own.against[own] < AGREES;
}

/* Set how likely each size is; the sum is 1. <strength>: as STRENGTH. */
static void set_likelihoods(const struct capacity *c, const struct capacity_pool *p,
    const struct prior *prior, double strength, double w[CAPACITY_SIZES])
{
	double share = p->all.n > POOL_WEIGHT ? POOL_WEIGHT / p->all.n : 1, least = INFINITY, sum = 0;

	if (c->recalled == 0 && agrees(c, p, prior))
		share = 1;
	for (unsigned i = 0; i < CAPACITY_SIZES; i++) {
		w[i] = strength * ((1 - share) * c->own.against[i] + share * p->all.against[i]) +
		    STRENGTH * unlikely(prior, i);
		least = w[i] < least ? w[i] : least;
	}
	for (unsigned i = 0; i < CAPACITY_SIZES; i++) {
		double log_w = least - w[i];

		w[i] = log_w > LEAST_LOG ? exp(log_w) : 0;
		sum += w[i];
	}
	for (unsigned i = 0; i < CAPACITY_SIZES; i++)
		w[i] /= sum;
}

/* Return the mean of the logarithms of all sizes, weighed by their likelihood. As long as nothing
 * was evicted, all large sizes explain the same; then they are far apart, and the result is 0
 * unless even the small ones of them are far above the guess. Simulated with sessions of agents
 * (make bench-agentic, engines of 2 M tokens; cells 5000:1 and 8000:4, 3 seeds, each server
 * inferred alone): mean time to first token 1.06 and 4.6 s with 0 until something is evicted, 0.89
 * and 1.84 s with UNSURE_LESS 1, 0.89 and 1.40 with 1.15, 0.95 and 1.29 with 1.3; 0.89 and 1.22 if
 * the sizes are known. */
uint64_t capacity_estimate(const struct capacity *c, const struct capacity_pool *p, uint64_t guess)
{
	const struct prior prior = prior_of(c, guess);
	double w[CAPACITY_SIZES], mean = 0, square = 0;

	if (p->all.n < 1)
		return 0;
	set_likelihoods(c, p, &prior, STRENGTH, w);
	for (unsigned i = 0; i < CAPACITY_SIZES; i++) {
		mean += w[i] * octaves_at(i);
		square += w[i] * octaves_at(i) * octaves_at(i);
	}
	if (square - mean * mean <= SURE_OCTAVES * SURE_OCTAVES)
		return (uint64_t)(CAPACITY_LEAST * exp2(mean));
	return mean < prior.centre + LARGE_OCTAVES
	    ? 0
	    : (uint64_t)(CAPACITY_LEAST * exp2(mean) / UNSURE_LESS);
}

/* STRENGTH of the chance that an old prompt is still cached. A few first tokens that came late for
 * another reason must not end all tries, because only a try can show that they misled. Hundreds of
 * them, which show a full cache, leave no chance all the same. */
#define CHANCE_STRENGTH	0.25

double capacity_chance(
    const struct capacity *c, const struct capacity_pool *p, uint64_t guess, uint64_t far)
{
	const struct prior prior = prior_of(c, guess);
	double w[CAPACITY_SIZES], sum = 0;

	set_likelihoods(c, p, &prior, CHANCE_STRENGTH, w);
	for (unsigned i = CAPACITY_SIZES; i-- > 0 && size_at(i) > (double)far;)
		sum += w[i];
	return sum;
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

uint64_t capacity_bounded(uint64_t tokens)
{
	double least = size_at(0), most = size_at(CAPACITY_SIZES - 1), size = (double)tokens;

	return (uint64_t)(size < least ? least : size > most ? most : size);
}

uint64_t capacity_recall(struct capacity *c, uint64_t tokens)
{
	return c->recalled = capacity_bounded(tokens);
}
