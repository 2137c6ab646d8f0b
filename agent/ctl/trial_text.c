/* trial_text.c - a mean, its interval, and a verdict.
 *
 * Both choices were judged by the same estimates of the same moment. The interval covers chance
 * only: requests are taken as independent, and an estimate that is wrong for all is not seen. So
 * seconds count only from requests that came when the speeds of most servers were learned. */
#include <math.h>

#include "agent/ctl/trial.h"

#define SURE	1.96	/* standard errors of a 95 % interval */
#define SOME	20	/* requests, of which one at least should have been reported */

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

/* <timed>: requests with learned speeds. */
static enum verdict judge(
    double n, double timed, const struct mean *tokens, const struct mean *seconds)
{
	if (!(n >= TRIAL_ENOUGH && timed >= TRIAL_ENOUGH))
		return VERDICT_FEW;
	if (seconds->high < 0 || (tokens->high < 0 && seconds->low <= 0))
		return VERDICT_LOSS;
	return tokens->low > 0 || seconds->low > 0 ? VERDICT_GAIN : VERDICT_NONE;
}

static double percent(double part, double of)
{
	return of > 0 ? 100 * part / of : 0;
}

/* The servers of a pool that are up and open for requests, as the agent counts them: backup servers
 * only if there are no others. */
struct speeds {
	unsigned all, learned;
	bool backups;		/* they are backup servers: HAProxy may use only the first of them */
};

static struct speeds count_speeds(const struct status *s, const char *pool, bool backups)
{
	struct speeds v = { 0, 0, backups };

	for (size_t i = 0; i < s->servers.n; i++) {
		const struct status_server *x = &s->servers.p[i];

		if (strcmp(x->pool, pool) != 0 || !(x->up > 0) || x->closed > 0 || x->weight == 0 ||
		    (x->backup > 0) != backups)
			continue;
		v.all++;
		v.learned += strcmp(x->speed_source, "learned") == 0 ||
		    strcmp(x->speed_source, "configuration") == 0;
	}
	return v;
}

static struct speeds speeds_of(const struct status *s, const char *pool)
{
	struct speeds v = count_speeds(s, pool, false);

	return v.all > 0 ? v : count_speeds(s, pool, true);
}

static void say_saved(FILE *to, const struct status_pool *p, const struct mean *seconds)
{
	double n = p->shadow.requests, ours = p->shadow.hit_tokens, timed = p->shadow.timed;
	double theirs = p->shadow.haproxy_hit_tokens, saved = ours - theirs;

	fprintf(to,
	    "In %.0f requests of pool %s, kvroute's servers held %.0f %% of the prompt tokens and "
	    "HAProxy's %.0f %%, so kvroute would have %s %.0f prompt tokens%s (%.0f a request)", n,
	    p->name, percent(ours, p->shadow.prompt_tokens), percent(theirs, p->shadow.prompt_tokens),
	    saved >= 0 ? "saved" : "computed", fabs(saved), saved >= 0 ? "" : " more", fabs(saved) / n);
	if (!(timed >= 1)) {
		fprintf(to, "; what that is in time is not known yet.\n");
		return;
	}
	fprintf(to,
	    ", and first tokens would have come after %.2f s in the mean instead of %.2f s, %.2f s %s",
	    p->shadow.timed_s / timed, p->shadow.haproxy_timed_s / timed, fabs(seconds->mean),
	    seconds->mean >= 0 ? "sooner" : "later");
	if (timed < n)
		fprintf(to, " (in the %.0f requests since speeds are learned)", timed);
	fprintf(to, ".\n");
}

static void say_early(FILE *to, const struct status_pool *p, const struct speeds *v)
{
	fprintf(to, "It is too early to tell: the speeds of %u of %u servers are learned", v->learned,
	    v->all);
	if (v->learned * 4 < v->all * 3 && v->backups)
		fprintf(to, " (needed: three quarters of the backup servers that get requests)");
	else if (v->learned * 4 < v->all * 3)
		fprintf(to, " (%u are needed)", (v->all * 3 + 3) / 4);
	fprintf(to, ", and %.0f of at least %d requests came since then, so there is no confidence.\n",
	    p->shadow.timed > 0 ? p->shadow.timed : 0, TRIAL_ENOUGH);
}

static void say_sure(
    FILE *to, enum verdict v, const struct mean *tokens, const struct mean *seconds)
{
	fprintf(to,
	    "With 95 %% confidence, one request would have saved %.0f to %.0f prompt tokens, and had its "
	    "first token %.3f to %.3f s sooner%s.\n",
	    tokens->low, tokens->high, seconds->low, seconds->high,
	    v == VERDICT_GAIN ? "" : v == VERDICT_LOSS ? ", which is a loss" : ", which may be nothing");
}

/* Without reports of requests no speed is ever learned. The first may still be on their way. */
static bool unreported(const struct status *s, const struct status_pool *p)
{
	return (strcmp(p->facts, "load") == 0 || strcmp(p->facts, "none") == 0) &&
	    p->shadow.requests >= SOME && !(s->all.ends > 0) && !(s->all.first_tokens > 0);
}

static void say_wait(FILE *to, const struct status *s, const struct status_pool *p)
{
	if (unreported(s, p))
		fprintf(to, "Nothing reports first tokens or ends of requests, so speeds are never learned: run "
		    "kvroutectl doctor, and leave pool %s in shadow mode.\n", p->name);
	else
		fprintf(to, "Leave pool %s in shadow mode, and ask again after more requests.\n", p->name);
}

static void say_change(FILE *to, const char *pool, enum verdict v)
{
	switch (v) {
	case VERDICT_FEW: break;
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

static void say_pool(FILE *to, const struct status *s, const struct status_pool *p)
{
	struct speeds speeds = speeds_of(s, p->name);
	double n = p->shadow.requests, timed = p->shadow.timed;
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
	seconds = mean_of(p->shadow.haproxy_timed_s - p->shadow.timed_s, p->shadow.timed_gain_s2,
	    timed >= 1 ? timed : 1);
	v = judge(n, timed, &tokens, &seconds);
	say_saved(to, p, &seconds);
	if (v == VERDICT_FEW) {
		say_early(to, p, &speeds);
		say_wait(to, s, p);
		return;
	}
	say_sure(to, v, &tokens, &seconds);
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
		say_pool(to, s, &s->pools.p[i]);
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
