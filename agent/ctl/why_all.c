/* why_all.c - one decision with all its terms, for who asks about one request. */
#include "agent/ctl/why.h"

static const char *or_dash(const char *s)
{
	return s[0] != '\0' ? s : "-";
}

static void say_prompt(FILE *to, const struct why_decision *d)
{
	fprintf(to, "    prompt: %.0f tokens in %.0f pages", d->prompt_tokens, d->prompt_pages);
	if (d->matched_as[0] != '\0')
		fprintf(to, " of %s", d->matched_as);
	if (d->unseen_tokens > 0)
		fprintf(to, ", %.0f of them not seen", d->unseen_tokens);
	fprintf(to, "; the body came %s\n", d->cut ? "cut" : "whole");
	fprintf(to, "    model: %s; pool: %s, mode %s, rule %s; facts: %s\n", or_dash(d->model),
	    or_dash(d->pool), or_dash(d->mode), or_dash(d->rule), or_dash(d->facts));
	fprintf(to, "    decided in %.0f us", d->us);
	if (d->n_kept > 0)
		fprintf(to, " among %.0f servers; pressure %.3g s, sacrifice %.3g", d->n_candidates,
		    d->pressure, d->sacrifice);
	fprintf(to, "\n");
}

/* Seconds each; <shared> is the part of <compute> that later requests will use, and <session> that
 * of <cached> of which only the session tells. */
static void say_candidate(FILE *to, const struct why_server *c, const char *mark, int width)
{
	fprintf(to,
	    "    %s %-*s %4.0f %7.3f %8.0f %7.0f %7.3f %7.3f %7.3f %7.3f %7.3f %7.3f %4.0f %8.3f  %s\n",
	    mark, width, or_dash(c->server), c->load, c->wait_s, c->cached_tokens, c->session_tokens,
	    c->compute_s, c->shared_s, c->load_s, c->kv_s, c->adapter_s, c->promised_s, c->penalty,
	    c->cost_s, or_dash(c->truth));
}

static void say_candidates(FILE *to, const struct why_decision *d)
{
	int width = 6;

	for (unsigned i = 0; i < d->n_kept; i++)
		if ((int)strlen(d->candidate[i].server) > width)
			width = (int)strlen(d->candidate[i].server);
	fprintf(to, "      %-*s %4s %7s %8s %7s %7s %7s %7s %7s %7s %7s %4s %8s  %s\n", width, "server",
	    "open", "wait", "cached", "session", "compute", "shared", "load", "kv", "adapter", "promise",
	    "fail", "cost", "truth");
	for (unsigned i = 0; i < d->n_kept; i++)
		say_candidate(to, &d->candidate[i], i == 0 ? "*" : " ", width);
	if (d->n_candidates > d->n_kept)
		fprintf(to, "      and %.0f more, which cost more\n", d->n_candidates - d->n_kept);
}

static void say_counts(FILE *to, const struct why_decision *d)
{
	if (d->state[0] == '\0' || strcmp(d->state, "open") == 0) {
		fprintf(to, "    afterwards: nothing was reported yet\n");
		return;
	}
	if (d->engine_tokens > 0) {
		fprintf(to, "    its engine counted %.0f tokens of prompt", d->engine_tokens);
		if (d->cached >= 0)
			fprintf(to, ", %.0f of them from its cache", d->cached);
		fprintf(to, "\n");
	}
	if (d->output_tokens > 0)
		fprintf(to, "    the answer has about %.0f tokens\n", d->output_tokens);
}

void why_say_all(FILE *to, const struct why_decision *d)
{
	if (d->prompt_tokens > 0)
		say_prompt(to, d);
	if (d->n_kept > 0)
		say_candidates(to, d);
	say_counts(to, d);
}
