/* hints.c - what a body says of the work to come: the length of its answer, and its priority.
 *
 *   "max_tokens" and the like      the engine makes no more, so an answer is at most so long
 *   nvext.agent_hints.osl          the client expects so many, at most twice a usual answer
 *   nvext.agent_hints.priority     below 0: the client can wait, so the price of work is higher for
 *                                  it, and it goes where it disturbs others least
 *
 * An open request counts at its server by the length of its answer, a quarter to twice a usual
 * one of its pool. A client may claim anything, so a claim only does what the client could also
 * do without: the longest answer weighs as one more open request. A priority above 0 changes
 * nothing, because all could claim it. "priority" outside of agent_hints changes nothing either,
 * because to one engine a high number is urgent and to another a low one. */
#include "agent/route/job_in.h"

#define USUAL_LEAST	16	/* answers before one is usual */
#define USUAL_KEEP	64	/* about so many count */
#define CLAIM_MOST	2.0
#define WEIGHT_LEAST	0.25

int16_t job_extra(const struct job *j)
{
	const struct prompt *p = j->rq.prompt;
	double usual = j->pool_seen->mean_output, weight = 1;

	if (j->pool_seen->n_outputs < USUAL_LEAST || usual < 1)
		return 0;
	if (p->output_hint > 0)
		weight = p->output_hint < CLAIM_MOST * usual ? p->output_hint / usual : CLAIM_MOST;
	if (p->output_limit > 0 && p->output_limit < weight * usual)
		weight = p->output_limit / usual;
	if (weight < WEIGHT_LEAST)
		weight = WEIGHT_LEAST;
	return (int16_t)((weight - 1) * WEIGHT_ONE);
}

double job_patience(const struct job *j)
{
	const struct prompt *p = j->rq.prompt;

	return p->priority_hinted && p->priority < 0 ?
		(double)p->priority / PROMPT_PRIORITY_MIN : 0;
}

void hints_learn(struct pool *p, uint32_t tokens)
{
	if (tokens == 0)
		return;
	if (p->n_outputs < USUAL_KEEP)
		p->n_outputs++;
	p->mean_output += (tokens - p->mean_output) / p->n_outputs;
}
