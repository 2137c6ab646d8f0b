/* why_text.c - a decision in words.
 *
 * First the chosen server and the reasons for it; then the server that a reader would expect
 * instead, and the reasons against it; then what happened afterwards; then the choices of other
 * rules. */
#include <string.h>

#include "agent/ctl/why.h"
#include "agent/feed/fact.h"
#include "agent/route/truth.h"

#define LITTLE_S	0.0005		/* shorter times count as zero */

/* ---- numbers ---------------------------------------------------------------------------- */

/* Returns "12,288". The text is valid until the eighth further call. */
static const char *text_count(double v)
{
	static char out[8][40];
	static unsigned turn;
	char digits[32], *to = out[turn++ % 8];
	int n = snprintf(digits, sizeof(digits), "%.0f", v >= 0 && v < 1e15 ? v : 0), k = 0;

	for (int i = 0; i < n; i++) {
		if (i > 0 && (n - i) % 3 == 0)
			to[k++] = ',';
		to[k++] = digits[i];
	}
	to[k] = '\0';
	return to;
}

static const char *text_seconds(double s)
{
	static char out[8][32];
	static unsigned turn;
	char *to = out[turn++ % 8];

	if (s < LITTLE_S)
		snprintf(to, 32, "no time");
	else if (s < 0.01)
		snprintf(to, 32, "%.0f ms", s * 1000);
	else
		snprintf(to, 32, "%.*f s", s < 1 ? 2 : s < 10 ? 1 : 0, s < 1e9 ? s : 1e9);
	return to;
}

/* ---- names and waits -------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static const char *server_text(const char *server)
{
	return server[0] != '\0' ? server : "a server that has gone";
}

static void say_wait(FILE *to, const struct why_server *s)
{
	if (s->wait_s < LITTLE_S)
		fprintf(to, "no work waited");
	else
		fprintf(to, "%s of work waited", text_seconds(s->wait_s));
}

static void say_cached(FILE *to, const struct why_decision *d, double cached)
{
	if (cached <= 0)
		fprintf(to, "none of its %s tokens were there", text_count(d->prompt_tokens));
	else if (cached >= d->prompt_tokens)
		fprintf(to, "all of its %s tokens were there", text_count(d->prompt_tokens));
	else
		fprintf(to, "%s of %s tokens were there", text_count(cached), text_count(d->prompt_tokens));
}

/* Say where the number of cached tokens is from, unless it is from requests, as it usually is. */
static void say_truth(FILE *to, const struct why_server *s)
{
	static const char *const text[][2] = {
		{ "events", " by its engine's events" },
		{ "sent", ", of which some are on their way" },
		{ "both", " by requests and its engine's events" },
	};

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		if (same_text(s->truth, text[i][0]))
			fprintf(to, "%s", text[i][1]);
}

static const char *no_server(const char *why)
{
	static const char *const text[][2] = {
		{ "noprompt", "there is no prompt in its body, or its path is none that is known" },
		{ "badbody", "its body is no JSON, or its chat template refuses it" },
		{ "noload", "HAProxy reported no servers, or there are more pools than max_pools" },
		{ "noserver", "no server of the pool is up with weight" },
		{ "overload", "the agent was too busy to look" },
	};

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		if (same_text(why, text[i][0]))
			return text[i][1];
	return "the agent does not say more";
}

static void say_head(FILE *to, const struct why_decision *d)
{
	fprintf(to, "%s", d->time[0] != '\0' ? d->time : "?");
	if (d->pool[0] != '\0')
		fprintf(to, " %s", d->pool);
	if (d->uid[0] != '\0')
		fprintf(to, " %s", d->uid);
	else if (same_text(d->state, "open") || same_text(d->state, "first"))
		fprintf(to, " (still open)");
	fprintf(to, "\n    ");
}

static bool went_elsewhere(const struct why_decision *d)
{
	return d->went[0] != '\0' && !same_text(d->went, d->server);
}

/* HAProxy ended it while it was a request (R) or in a queue (Q), so no server got it. */
static bool went_nowhere(const struct why_decision *d)
{
	return d->went[0] == '\0' && d->ts[0] != '\0' && (d->ts[1] == 'R' || d->ts[1] == 'Q');
}

static void say_choice(FILE *to, const struct why_decision *d)
{
	const char *verb = same_text(d->mode, "shadow") ? "would have gone to" :
			   went_elsewhere(d) || went_nowhere(d) ? "was to go to" : "went to";

	fprintf(to, "%s %s (%s, by %s)", verb, server_text(d->server), d->why, d->rule);
	if (d->n_kept == 0)
		return;
	fprintf(to, ": ");
	say_cached(to, d, d->candidate[0].cached_tokens);
	say_truth(to, &d->candidate[0]);
	fprintf(to, ", ");
	say_wait(to, &d->candidate[0]);
	if (d->candidate[0].shared_s > 0)
		fprintf(to, ", later requests will use %s of its work", text_seconds(d->candidate[0].shared_s));
	if (d->candidate[0].load_s > 0)
		fprintf(to, ", cached blocks had to be loaded (%s)", text_seconds(d->candidate[0].load_s));
	if (d->candidate[0].kv_s > 0)
		fprintf(to, ", its cache was nearly full (counts as %s)", text_seconds(d->candidate[0].kv_s));
	if (d->candidate[0].adapter_s > 0)
		fprintf(to, ", the adapter had to be loaded (%s)", text_seconds(d->candidate[0].adapter_s));
	if (d->imbalanced)
		fprintf(to, "; the pool was out of balance, its loads from %s to %s", text_count(d->min_load),
			text_count(d->max_load));
}

/* Say which server computed the prompt, if it may be another one, and what either cost. */
static void say_prefill(FILE *to, const struct why_decision *d)
{
	const char *here = server_text(d->server);

	if (d->prefill_best[0] == '\0')
		return;
	fprintf(to, "    ");
	if (d->prefill[0] != '\0')
		fprintf(to, "%s was to compute the prompt: ", d->prefill);
	else
		fprintf(to, "%s was to compute the prompt, not %s: ", here, d->prefill_best);
	fprintf(to, "at %s ", d->prefill_best);
	say_cached(to, d, d->prefill_cached_tokens);
	if (d->prefill_wait_s < LITTLE_S)
		fprintf(to, " and no work waited");
	else
		fprintf(to, " and %s of work waited", text_seconds(d->prefill_wait_s));
	fprintf(to, ", ready after an estimated %s", text_seconds(d->prefill_s));
	fprintf(to, " and %s of transfer; this cost %s, and at %s ", text_seconds(d->transfer_s),
	    text_seconds(d->there_s), here);
	fprintf(to, "%s, with the delay of its answers\n", text_seconds(d->here_s));
}

/* ---- the server that a reader would expect ---------------------------------------------- */

static const struct why_server *most_cached(const struct why_decision *d)
{
	const struct why_server *most = &d->candidate[0];

	for (unsigned i = 1; i < d->n_kept; i++)
		if (d->candidate[i].cached_tokens > most->cached_tokens)
			most = &d->candidate[i];
	return most != &d->candidate[0] ? most : NULL;
}

/* Ignores failures, because a reader would ask about a server that looks idle, even if it fails. */
static double busy_seconds(const struct why_server *s)
{
	return s->load + s->wait_s;
}

static const struct why_server *least_busy(const struct why_decision *d)
{
	const struct why_server *least = &d->candidate[0];

	for (unsigned i = 1; i < d->n_kept; i++)
		if (busy_seconds(&d->candidate[i]) < busy_seconds(least))
			least = &d->candidate[i];
	return least != &d->candidate[0] ? least : NULL;
}

static void say_busy(FILE *to, const struct why_server *s)
{
	if (s->load <= 0 && s->wait_s < LITTLE_S)
		fprintf(to, "was idle");
	else if (s->load <= 0)
		fprintf(to, "had %s of work waiting", text_seconds(s->wait_s));
	else
		fprintf(to, "had %s request%s open", text_count(s->load), s->load == 1 ? "" : "s");
	if (s->penalty > 0)
		fprintf(to, " and has been failing (counts as %s more)", text_count(s->penalty));
	if (s->load_s > 0)
		fprintf(to, " and has to load cached blocks (%s)", text_seconds(s->load_s));
	if (s->kv_s > 0)
		fprintf(to, " and its cache was nearly full (%s)", text_seconds(s->kv_s));
	if (s->adapter_s > 0)
		fprintf(to, " and has not loaded the adapter (%s)", text_seconds(s->adapter_s));
}

/* The chosen server was best in everything: print what any other would have cost. */
static void say_others(FILE *to, const struct why_decision *d)
{
	const struct why_server *best = NULL;

	for (unsigned i = 1; i < d->n_kept; i++)
		if (best == NULL || d->candidate[i].compute_s < best->compute_s)
			best = &d->candidate[i];
	if (best != NULL && best->cached_tokens < d->candidate[0].cached_tokens)
		fprintf(to, "; any other would have had to compute %s: %s", best->cached_tokens > 0 ?
			text_count(d->prompt_tokens - best->cached_tokens) : "all", text_seconds(best->compute_s));
}

static void say_other(FILE *to, const struct why_decision *d)
{
	const struct why_server *s;

	if (d->n_kept == 0)
		return;
	if ((s = most_cached(d)) != NULL) {
		fprintf(to, "; %s held %s of them, but ", server_text(s->server), text_count(s->cached_tokens));
		say_busy(to, s);
		if (s->load > 0 && s->wait_s >= LITTLE_S)
			fprintf(to, " and %s of work waiting", text_seconds(s->wait_s));
	} else if ((s = least_busy(d)) != NULL) {
		fprintf(to, "; %s ", server_text(s->server));
		say_busy(to, s);
		if (s->cached_tokens < d->candidate[0].cached_tokens)
			fprintf(to, " but would have had to compute %s: %s", s->cached_tokens > 0 ?
				text_count(d->prompt_tokens - s->cached_tokens) : "all", text_seconds(s->compute_s));
	} else {
		say_others(to, d);
	}
}

static void say_cheapest(FILE *to, const struct why_decision *d)
{
	const struct why_server *least = &d->candidate[0];

	for (unsigned i = 1; i < d->n_kept; i++)
		if (d->candidate[i].cost_s < least->cost_s)
			least = &d->candidate[i];
	if (least != &d->candidate[0] && d->regret_s >= LITTLE_S)
		fprintf(to, "; by our estimate %s was cheaper by %s", server_text(least->server),
		    text_seconds(d->regret_s));
}

static const char *text_after(double ms)
{
	static char out[2][48];
	static unsigned turn;
	char *to = out[turn++ % 2];

	if (ms < 1000 * LITTLE_S)
		snprintf(to, 48, "at once");
	else
		snprintf(to, 48, "after %s", text_seconds(ms / 1000));
	return to;
}

/* ---- afterwards ------------------------------------------------------------------------- */

/* A newer agent may have other words. */
static void say_failure(FILE *to, const struct why_decision *d)
{
#define TEXT(name, word, sentence)	{ word, sentence },
	static const char *const text[][2] = { FACT_CAUSE_LIST(TEXT) };
#undef TEXT
	const char *sentence = d->end;

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		if (same_text(d->end, text[i][0]))
			sentence = text[i][1];
	if (sentence[0] == '\0')
		return;
	fprintf(to, "    it failed: %s", sentence);
	if (d->ts[0] != '\0' && !same_text(d->ts, "--"))
		fprintf(to, " (%s in HAProxy's log)", d->ts);
	fprintf(to, "\n");
}

static void say_after(FILE *to, const struct why_decision *d)
{
	const char *sep = "    ";

	if (went_elsewhere(d)) {
		fprintf(to, "%sHAProxy sent it to %s", sep, d->went);
		sep = ", ";
	}
	if (went_nowhere(d)) {
		fprintf(to, "%sno server got it", sep);
		sep = ", ";
	}
	if (d->retries > 0) {
		fprintf(to, "%s%s retr%s", sep, text_count(d->retries), d->retries == 1 ? "y" : "ies");
		sep = ", ";
	}
	if (d->first_ms >= 0) {
		fprintf(to, "%sits answer began %s", sep, text_after(d->first_ms));
		if (d->expected_ms >= 0)
			fprintf(to, " (expected: %s)", text_seconds(d->expected_ms / 1000));
		sep = ", ";
	}
	if (d->done_ms >= 0) {
		fprintf(to, "%sit was over %s", sep, text_after(d->done_ms));
		sep = ", ";
	}
	if (d->status >= 0)
		fprintf(to, "%sstatus %.0f", sep, d->status);
	if (sep[0] == ',' || d->status >= 0)
		fprintf(to, "\n");
	say_failure(to, d);
}

static void say_compared(FILE *to, const struct why_decision *d)
{
	for (unsigned i = 0; i < d->n_compared; i++) {
		const struct why_server *c = &d->compared[i];

		fprintf(to, "    %s: ", c->rule);
		if (same_text(c->server, d->server))
			fprintf(to, "the same\n");
		else if (c->regret_s > d->regret_s + LITTLE_S)
			fprintf(to, "%s, dearer by %s\n", server_text(c->server),
			    text_seconds(c->regret_s - d->regret_s));
		else if (c->regret_s < d->regret_s - LITTLE_S)
			fprintf(to, "%s, cheaper by %s\n", server_text(c->server),
			    text_seconds(d->regret_s - c->regret_s));
		else
			fprintf(to, "%s, at the same cost\n", server_text(c->server));
	}
}

/* A newer agent may have other words. */
static const char *cause_text(const char *word)
{
#define TEXT(name, word, sentence)	{ word, sentence },
	static const char *const text[][2] = { TRUTH_CAUSE_LIST(TEXT) };
#undef TEXT

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		if (same_text(word, text[i][0]))
			return text[i][1];
	return word;
}

/* Say why events were not used, or not alone: a line for each cause, with its servers. */
static void say_causes(FILE *to, const struct why_decision *d)
{
	for (unsigned i = 0; i < d->n_kept; i++) {
		const char *word = d->candidate[i].truth_cause, *sep = "";
		bool told = word[0] == '\0';

		for (unsigned k = 0; k < i; k++)
			told |= same_text(d->candidate[k].truth_cause, word);
		if (told)
			continue;
		fprintf(to, "    events of ");
		for (unsigned k = i; k < d->n_kept; k++) {
			if (!same_text(d->candidate[k].truth_cause, word))
				continue;
			fprintf(to, "%s%s", sep, server_text(d->candidate[k].server));
			sep = ", ";
		}
		fprintf(to, " do not count alone: %s\n", cause_text(word));
	}
}

/* Say what the session added to the decision. */
static void say_session(FILE *to, const struct why_decision *d)
{
	const struct why_server *c = &d->candidate[0];

	if (same_text(d->session, "turn"))
		fprintf(to, "    turn %s of its session, whose last one went to %s",
		    text_count(d->session_turns + 1), server_text(d->session_server));
	else if (same_text(d->session, "compacted"))
		fprintf(to, "    its session was compacted: what only its old prompt had at %s was let go",
		    server_text(d->session_server));
	else if (same_text(d->session, "open"))
		fprintf(to, "    its session does not count, because another request of it was open");
	else if (same_text(d->session, "other"))
		fprintf(to, "    its session does not count, because it continues none of its last turns");
	else if (same_text(d->session, "new") && d->n_kept > 0 && c->promised_s >= LITTLE_S)
		fprintf(to, "    a new session: those that will come back to %s count as %s",
		    server_text(c->server), text_seconds(c->promised_s));
	else
		return;
	if (d->n_kept > 0 && c->session_tokens > 0)
		fprintf(to, "; only that tells of %s tokens there", text_count(c->session_tokens));
	fprintf(to, "\n");
}

/* Returns why only a part of the prompt was encoded to tokens. */
static const char *bound_of(const char *bounded)
{
	if (same_text(bounded, "body"))
		return "a body of its size may not cost more";
	if (same_text(bounded, "tenant"))
		return "its tenant's share of the agent was used up";
	return same_text(bounded, "late") ? "it came late" : "of a bound that is not known here";
}

void why_say(FILE *to, const struct why_decision *d)
{
	say_head(to, d);
	if (d->n_kept == 0 && d->server[0] == '\0') {
		fprintf(to, "no server was named (%s): %s", d->why, no_server(d->why));
	} else {
		say_choice(to, d);
		say_other(to, d);
		say_cheapest(to, d);
	}
	fprintf(to, "\n");
	say_prefill(to, d);
	say_after(to, d);
	say_compared(to, d);
	say_causes(to, d);
	say_session(to, d);
	if (d->unseen_tokens > 0)
		fprintf(to,
		    "    an estimated %s of the tokens were not seen, as the body was cut%s\n",
		    text_count(d->unseen_tokens), same_text(d->session, "turn") ? "" :
		    "; if all seen ones were there, half of these count as there");
	if (d->bounded[0] != '\0')
		fprintf(to,
		    "    its text was made into tokens in part only, as %s: %s steps of work\n",
		    bound_of(d->bounded), text_count(d->work));
	if (d->n_kept > 0 && (same_text(d->facts, "load") || same_text(d->facts, "none")))
		fprintf(to, "    no report had come yet how requests end, so waits were estimated\n");
}
