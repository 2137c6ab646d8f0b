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
 * Cost: 80 sizes for each first token that is evidence. */
#include <math.h>

#include "agent/fleet/capacity.h"

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

uint64_t capacity_bounded(uint64_t tokens)
{
	double least = size_at(0), most = size_at(CAPACITY_SIZES - 1), size = (double)tokens;

	return (uint64_t)(size < least ? least : size > most ? most : size);
}

uint64_t capacity_recall(struct capacity *c, uint64_t tokens)
{
	return c->recalled = capacity_bounded(tokens);
}
