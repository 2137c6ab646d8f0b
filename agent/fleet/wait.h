/* wait.h - how long a request waits for its first token, as told to HAProxy: an estimate, corrected
 * by how estimates have turned out.
 *
 *      estimate    seconds of work that wait at the server, less what it has done since its last
 *                  first token, and the work of the prompt itself
 *      expected    a + b x estimate: a line fitted to (estimate, real) of the pool's last 128 first
 *                  tokens, or so, by relative errors. a is what a network and a step of the engine
 *                  take, b what the estimate leaves out: from 0 to 4, because a line through
 *                  estimates that are nearly alike may be as steep as chance makes it
 *      real        measured, after the answer was expected
 *
 * Two imagined first tokens, which came as estimated after 0.1 and 10 s, count as well, and less
 * the more others are known. So estimates count as they are at first. No less than a quarter of an
 * estimate is expected, because a queue may be longer than any before. A first token moves the line
 * at most as far as one that is four times as late, or as early, as expected. One that came earlier
 * than expected has the weight of one that came as expected; with the weight of its own short time,
 * a few estimates that are far too high would hold the line down. After two minutes without a first
 * token the line is forgotten: if HAProxy refuses by it, none may come that mends it.
 *
 * Estimates are kept as multiples of the pool's slowness when they were made. So when the slowness
 * is learned, which the line has made up for until then, it does not count twice.
 *
 * Simulated, load 0.8: the median of |expected - real| / real is 0.06 for chats and 0.09 for
 * agents, with ends alone 0.07 to 0.12 and 0.09. Of estimates as they are it is 0.15 and 0.10.
 * Coding agents (make bench-agentic), whole bodies: 0.09, and 0.12 before that weight; sessions in
 * buffers of 16, 64 and 256 KB: 0.20, 0.20 and 0.22.
 *
 * Pure arithmetic, O(1). Not locked: the owner locks. */
#ifndef KVROUTE_FLEET_WAIT_H
#define KVROUTE_FLEET_WAIT_H

#include "agent/base/types.h"

/* Upper bounds of expected / real in the histogram; the last is infinite. An error of at most 25 %
 * is above 0.75 and at most 1.25. */
#define WAIT_BUCKETS	11
extern const double wait_bounds[WAIT_BUCKETS];

struct wait_line {
	double n, x, y, xx, xy;		/* weighted sums; older ones weigh less. x: by slowness */
	uint64_t known;			/* first tokens in them */
	msec last;			/* when the last one came */
	uint64_t bucket[WAIT_BUCKETS];	/* first tokens by expected / real */
	uint64_t count;
	double ratios;			/* sum of expected / real */
	double log_error;		/* ln of the median of |expected - real| / real, of late */
};

/* All zeros: nothing is known yet. Returns the expected seconds. <slowness>: of the pool, as
 * <estimate_s> has it. */
double wait_expected(const struct wait_line *l, double estimate_s, double slowness, msec now);

/* The first token came after <real_s>. <nominal_s>: estimate_s / slowness, of wait_expected(). */
void wait_came(
    struct wait_line *l, double nominal_s, double expected_s, double real_s, msec now);

/* Return the median of |expected - real| / real over about the last 100; negative if there were
 * none. */
double wait_error(const struct wait_line *l);

#endif
