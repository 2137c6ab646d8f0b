/* trial_text.c - a mean, its interval, and a verdict.
 *
 * Both choices were judged by the same estimates of the same moment. The interval covers chance
 * only: requests are taken as independent, and an estimate that is wrong for all is not seen. */
#include <math.h>

#include "agent/ctl/trial.h"

#define SURE	1.96	/* standard errors of a 95 % interval */

struct mean {
	double mean, low, high;
};

enum verdict { VERDICT_FEW, VERDICT_GAIN, VERDICT_NONE, VERDICT_LOSS };

static struct mean mean_of(double sum, double squares, double n)
{
	double mean = sum / n, spread = squares / n - mean * mean;
	double error = SURE * sqrt((spread > 0 ? spread : 0) / n);

	return (struct mean){ mean, mean - error, mean + error };
}

static enum verdict judge(double n, const struct mean *tokens, const struct mean *seconds)
{
	if (n < TRIAL_ENOUGH)
		return VERDICT_FEW;
	if (seconds->high < 0 || (tokens->high < 0 && seconds->low <= 0))
		return VERDICT_LOSS;
	return tokens->low > 0 || seconds->low > 0 ? VERDICT_GAIN : VERDICT_NONE;
}

static double percent(double part, double of)
{
	return of > 0 ? 100 * part / of : 0;
}

static void say_saved(FILE *to, const struct status_pool *p, const struct mean *seconds)
{
	double n = p->shadow.requests, ours = p->shadow.hit_tokens;
	double theirs = p->shadow.haproxy_hit_tokens, saved = ours - theirs;

	fprintf(to,
	    "In %.0f requests of pool %s, kvroute's servers held %.0f %% of the prompt tokens and "
	    "HAProxy's %.0f %%, so kvroute would have %s %.0f prompt tokens%s (%.0f a request), and "
	    "first tokens would have come after %.2f s in the mean instead of %.2f s, %.2f s %s.\n",
	    n, p->name, percent(ours, p->shadow.prompt_tokens), percent(theirs, p->shadow.prompt_tokens),
	    saved >= 0 ? "saved" : "computed", fabs(saved), saved >= 0 ? "" : " more", fabs(saved) / n,
	    p->shadow.first_s / n, p->shadow.haproxy_first_s / n, fabs(seconds->mean),
	    seconds->mean >= 0 ? "sooner" : "later");
}

static void say_sure(FILE *to, double n, enum verdict v, const struct mean *tokens,
    const struct mean *seconds)
{
	if (v == VERDICT_FEW) {
		fprintf(to, "That is too little to tell: %.0f of at least %d requests.\n", n, TRIAL_ENOUGH);
		return;
	}
	fprintf(to,
	    "With 95 %% confidence, one request would have saved %.0f to %.0f prompt tokens, and had its "
	    "first token %.3f to %.3f s sooner%s.\n",
	    tokens->low, tokens->high, seconds->low, seconds->high,
	    v == VERDICT_GAIN ? "" : v == VERDICT_LOSS ? ", which is a loss" : ", which may be nothing");
}

static void say_change(FILE *to, const char *pool, enum verdict v)
{
	switch (v) {
	case VERDICT_FEW:
		fprintf(to, "Leave pool %s in shadow mode, and ask again after more requests.\n", pool);
		break;
	case VERDICT_GAIN:
		fprintf(to,
		    "To switch it on, write \"mode: on\" for pool %s into kvroute.yaml, under pools or "
		    "policy, and reload the agent (SIGHUP).\n", pool);
		break;
	case VERDICT_NONE:
		fprintf(to,
		    "Leave pool %s in shadow mode, unless its prompts will have more in common than "
		    "now; to switch it on, write \"mode: on\" into kvroute.yaml and reload.\n", pool);
		break;
	case VERDICT_LOSS:
		fprintf(to,
		    "Leave pool %s in shadow mode, and look at kvroutectl doctor, and at "
		    "policy.prefill_tokens_per_s and the rule of the pool; do not write \"mode: on\".\n",
		    pool);
		break;
	}
}

static void say_pool(FILE *to, const struct status_pool *p)
{
	double n = p->shadow.requests;
	struct mean tokens, seconds;
	enum verdict v;

	if (!(n >= 1)) {
		fprintf(to,
		    "Nothing is known of pool %s yet: the agent decided on %.0f of its requests, and was told "
		    "the server of none.\n"
		    "There is no sample, so there is no confidence.\n"
		    "Check with kvroutectl doctor that HAProxy's log lines or first messages reach the agent, "
		    "leave the pool in shadow mode, and ask again.\n", p->name, p->requests);
		return;
	}
	tokens = mean_of(p->shadow.hit_tokens - p->shadow.haproxy_hit_tokens, p->shadow.gain_tokens2, n);
	seconds = mean_of(p->shadow.haproxy_first_s - p->shadow.first_s, p->shadow.gain_s2, n);
	v = judge(n, &tokens, &seconds);
	say_saved(to, p, &seconds);
	say_sure(to, n, v, &tokens, &seconds);
	say_change(to, p->name, v);
}

unsigned trial_say(FILE *to, const struct status *s)
{
	unsigned n = 0;

	for (size_t i = 0; i < s->pools.n; i++) {
		if (strcmp(s->pools.p[i].mode, "shadow") != 0)
			continue;
		if (n++ > 0)
			fprintf(to, "\n");
		say_pool(to, &s->pools.p[i]);
	}
	if (s->pools.n == 0)
		fprintf(to,
		    "The agent knows no pool yet, because no request has come; ask again after some "
		    "traffic.\n");
	else if (n == 0)
		fprintf(to,
		    "No pool is in shadow mode, so nothing is compared with HAProxy's own choices; write "
		    "\"mode: shadow\" into kvroute.yaml, under pools or policy, and reload the agent "
		    "(SIGHUP).\n");
	return n;
}
