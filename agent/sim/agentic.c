/* agentic.c - draw sessions. Lengths and pauses are log-normal around a median, because published
 * ones have few that are many times as long: the mean answer is twice the median. */
#include <math.h>

#include "agent/sim/agentic.h"

/* deviation of the logarithm */
#define SPREAD_TURNS	0.7
#define SPREAD_TOKENS	0.8
#define SPREAD_OUT	1.15
#define SPREAD_PAUSE	0.9
#define SPREAD_SUMMARY	0.3

#define MAIN_TURNS_MAX	400u
#define OUT_MAX		16000u
#define EXPLORE_TURNS	5.0	/* reading becomes less with each turn: e^(-turns / this) */
#define SLOW_TOOL	0.12	/* share of pauses for builds and tests: this many times as long */
#define SLOW_TIMES	8.0
#define USER		0.03	/* share of pauses for a user */
#define USER_TIMES	40.0
#define PAUSE_TIMES_MAX	200.0
#define ASK_SUMMARY	300u
#define KEPT_ANSWER	0.7	/* of an answer; clients remove its reasoning */
#define EDIT_REACH	0.3	/* of the prompt, from its end: where an edit may be */
#define STARTS_MORE	0.4	/* chance of one more start of subagents, after each */
#define AT_ONCE_MAX	3u
#define SUB_TURNS	6.0
#define SUB_TURNS_MAX	20u
#define SUB_TASK	0.3	/* of the size of a session's task, and of what is read */
#define SUB_RESULT	0.5	/* of the last answer, which the parent reads */

void agentic_defaults(struct agentic_opts *o)
{
	*o = (struct agentic_opts){ .programs = 3, .shared = 20480, .limit = 180000, .turns = 43,
		.task = 4000, .read = 16000, .add = 300, .out = 444, .summary = 4000, .pause_s = 4,
		.subagents = 0.44, .edits = 0.02 };
}

/* ---- chance ---- */

/* Draw from a log-normal distribution. */
static double draw_about(struct rng *rng, double median, double spread)
{
	double u = 1 - rng_unit(rng), v = rng_unit(rng);

	return median * exp(spread * sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v));
}

static uint32_t draw_count(struct rng *rng, double median, double spread, uint32_t most)
{
	double x = draw_about(rng, median, spread);

	return x < 1 ? 1 : x > most ? most : (uint32_t)x;
}

static uint32_t draw_program(struct rng *rng, uint32_t n)
{
	return (uint32_t)(pow(n + 1.0, rng_unit(rng)) - 1) % n;
}

static double draw_pause(struct rng *rng, const struct agentic_opts *o)
{
	double kind = rng_unit(rng), slow = kind < USER + SLOW_TOOL ? SLOW_TIMES : 1,
	       times = kind < USER ? USER_TIMES : slow,
	       s = draw_about(rng, o->pause_s * times, SPREAD_PAUSE);

	return s < o->pause_s * PAUSE_TIMES_MAX ? s : o->pause_s * PAUSE_TIMES_MAX;
}

/* ---- one agent's prompt ---- */

struct talk {
	uint32_t agent, last;		/* its last turn */
	uint32_t tokens;		/* of its last prompt */
	uint32_t since;			/* turns since it began, or since the last summary */
	double size;			/* of what it reads; 1 */
};

struct draft {
	const struct agentic_opts *o;
	struct rng *rng;
	struct agentic_session *s;
};

static bool is_full(const struct draft *d)
{
	return d->s->n >= AGENTIC_TURNS_MAX;
}

static void ask(struct draft *d, struct talk *t, uint32_t keep, uint32_t add, uint32_t out)
{
	struct agentic_turn *q = &d->s->turn[d->s->n];

	add = add < d->o->limit - keep ? add : d->o->limit - keep;
	*q = (struct agentic_turn){ .agent = t->agent, .after = t->last, .join = AGENTIC_NONE,
		.pause_s = d->s->n > 0 ? draw_pause(d->rng, d->o) : 0, .keep = keep, .add = add, .out = out };
	t->tokens = keep + add;
	t->last = d->s->n++;
}

static uint32_t draw_out(struct draft *d)
{
	return draw_count(d->rng, d->o->out, SPREAD_OUT, OUT_MAX);
}

/* Return the new tokens of the next turn: the last answer and the result of a tool. */
static uint32_t draw_add(struct draft *d, const struct talk *t)
{
	double read = d->o->read * t->size * exp(-(double)t->since / EXPLORE_TURNS);

	return draw_count(d->rng, d->o->add + read, SPREAD_TOKENS, d->o->limit / 4) +
	       (uint32_t)(KEPT_ANSWER * d->s->turn[t->last].out);
}

static void first_turn(struct draft *d, struct talk *t)
{
	uint32_t task = draw_count(d->rng, d->o->task * t->size, SPREAD_TOKENS, d->o->limit / 4);

	ask(d, t, d->o->shared, task, draw_out(d));
}

/* The client asks for a summary of all, and goes on with that. */
static void summarize(struct draft *d, struct talk *t)
{
	uint32_t summary = draw_count(d->rng, d->o->summary, SPREAD_SUMMARY, OUT_MAX);

	ask(d, t, t->tokens, ASK_SUMMARY, summary);
	t->since = 0;
	if (!is_full(d))
		ask(d, t, d->o->shared, summary + draw_add(d, t) / 2, draw_out(d));
	d->s->turn[t->last].pause_s = 0;
}

/* An edit makes an earlier message half as long, and what follows it is sent as before. */
static void next_turn(struct draft *d, struct talk *t)
{
	uint32_t add = draw_add(d, t), keep = t->tokens, behind = 0;

	t->since++;
	if (keep + add + ASK_SUMMARY >= d->o->limit) {
		summarize(d, t);
		return;
	}
	if (rng_unit(d->rng) < d->o->edits) {
		behind = (uint32_t)(EDIT_REACH * rng_unit(d->rng) * (keep - d->o->shared));
		keep -= behind;
		behind /= 2;
	}
	ask(d, t, keep, behind + add, draw_out(d));
}

/* ---- a session ---- */

/* Add a subagent that begins after the parent's last turn. Returns its last turn. */
static uint32_t add_subagent(struct draft *d, const struct talk *parent)
{
	struct talk t = { .agent = ++d->s->agents, .last = parent->last, .size = SUB_TASK };
	uint32_t turns = draw_count(d->rng, SUB_TURNS, SPREAD_TURNS, SUB_TURNS_MAX);

	first_turn(d, &t);
	d->s->turn[t.last].pause_s = 0;
	while (--turns > 0 && !is_full(d))
		next_turn(d, &t);
	return t.last;
}

/* Start subagents after the parent's last turn; its next turn waits for all of them. */
static void start_subagents(struct draft *d, struct talk *parent)
{
	uint32_t n = 1 + rng_below(d->rng, AT_ONCE_MAX), last[AT_ONCE_MAX], result = 0, k = 0;

	while (k < n && !is_full(d)) {
		last[k] = add_subagent(d, parent);
		result += (uint32_t)(SUB_RESULT * d->s->turn[last[k++]].out);
	}
	if (k == 0 || is_full(d))
		return;
	for (uint32_t i = 0; i + 1 < k; i++)
		d->s->turn[last[i]].join = d->s->n;
	ask(d, parent, parent->tokens, draw_add(d, parent) + result, draw_out(d));
	d->s->turn[parent->last].after = last[k - 1];
	d->s->turn[parent->last].pause_s = 0;
}

void agentic_session(struct agentic_session *s, const struct agentic_opts *o, struct rng *rng)
{
	struct draft d = { .o = o, .rng = rng, .s = s };
	struct talk t = { .last = AGENTIC_NONE, .size = 1 };
	uint32_t turns = draw_count(rng, o->turns, SPREAD_TURNS, MAIN_TURNS_MAX), starts = 0, at;

	s->n = s->agents = 0;
	s->program = draw_program(rng, o->programs);
	if (rng_unit(rng) < o->subagents)
		for (starts = 1; rng_unit(rng) < STARTS_MORE; starts++)
			;
	at = starts > 0 ? rng_below(rng, turns) : 0;
	first_turn(&d, &t);
	for (uint32_t k = 1; k < turns && !is_full(&d); k++) {
		if (starts > 0 && k >= at) {
			start_subagents(&d, &t);
			at = k + 1 + rng_below(rng, turns);
			starts--;
		} else {
			next_turn(&d, &t);
		}
	}
}
