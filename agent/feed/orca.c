/* orca.c - one table of metrics, filled from either form. */
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "agent/base/json.h"
#include "agent/feed/orca.h"

enum meaning { WAITING, RUNNING, USED, CAPACITY };

static const struct {
	const char *name;
	enum meaning meaning;
} metrics[] = {
	{ "kv_cache_usage_perc", USED },
	{ "kv_cache_utilization", USED },
	{ "num_requests_waiting", WAITING },
	{ "num_requests_running", RUNNING },
	{ "max_token_capacity", CAPACITY },
};

#define NAMED	"named_metrics"

const char *orca_strerror(int error)
{
	static const char *const texts[ORCA_E_COUNT] = {
		"no error",
		"the header is neither text nor JSON, or is incomplete",
		"a metric is not a valid number",
		"the header has no known metric",
	};

	if (error < 0)
		error = -error;
	return error < ORCA_E_COUNT ? texts[error] : "unknown error";
}

static int metric_of(struct span name)
{
	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
		if (span_eq(name, span_str(metrics[i].name)))
			return metrics[i].meaning;
	return -1;
}

/* strtod() accepts more than a decimal number: spaces, hexadecimal digits, names of infinity. */
static bool decimal_of(struct span s, double *v)
{
	char text[40], *end;

	if (s.n == 0 || s.n >= sizeof(text))
		return false;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	if (strspn(text, "0123456789.eE+-") != s.n)
		return false;
	*v = strtod(text, &end);
	return *end == '\0' && isfinite(*v) && *v >= 0 && *v <= ENGINE_COUNT_MAX;
}

static int note_metric(struct engine_load *l, int meaning, struct span value)
{
	double v;

	if (meaning < 0)
		return 0;
	if (!decimal_of(value, &v))
		return -ORCA_E_NUMBER;
	if (meaning == WAITING)
		l->waiting = (int64_t)v;
	else if (meaning == RUNNING)
		l->running = (int64_t)v;
	else if (meaning == USED)
		l->kv_used = v < 1 ? v : 1;
	else
		l->capacity = (uint64_t)v;
	return 0;
}

/* ---- text --------------------------------------------------------------------------------- */

static struct span trimmed(struct span s)
{
	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = span_of(s.p + 1, s.n - 1);
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

/* Skip <word> in any case, if <s> begins with it. */
static bool skip_word(struct span *s, const char *word)
{
	size_t n = strlen(word);

	if (s->n < n || strncasecmp(s->p, word, n) != 0)
		return false;
	*s = span_of(s->p + n, s->n - n);
	return true;
}

/* "name=value", or "name:value" as Envoy reads it. */
static int pair_parse(struct span s, struct engine_load *l)
{
	struct span name;
	size_t n = 0;

	while (n < s.n && s.p[n] != '=' && s.p[n] != ':')
		n++;
	if (n == s.n)
		return -ORCA_E_FORM;
	name = trimmed(span_of(s.p, n));
	skip_word(&name, NAMED ".");
	return note_metric(l, metric_of(name), trimmed(span_of(s.p + n + 1, s.n - n - 1)));
}

static int text_parse(struct span s, struct engine_load *l)
{
	const char *comma;
	int rc;

	while (s.n > 0 && (comma = memchr(s.p, ',', s.n)) != NULL) {
		size_t n = (size_t)(comma - s.p);

		if ((rc = pair_parse(span_of(s.p, n), l)) < 0)
			return rc;
		s = span_of(comma + 1, s.n - n - 1);
	}
	return pair_parse(s, l);
}

/* ---- JSON --------------------------------------------------------------------------------- */

struct json_load {
	struct engine_load *l;
	bool named;		/* inside of "named_metrics" */
	int meaning;		/* of the last key in it; -1: unknown */
	int error;
};

static void on_json(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct json_load *jl = arg;

	if (j->depth == 1 && ev == JSON_KEY) {
		jl->named = span_eq(text, SPAN(NAMED));
		jl->meaning = -1;
	}
	if (j->depth != 2 || !jl->named)
		return;
	if (ev == JSON_KEY)
		jl->meaning = metric_of(text);
	else if (jl->error == 0 && ev == JSON_NUMBER)
		jl->error = note_metric(jl->l, jl->meaning, text);
	else if (jl->error == 0 && jl->meaning >= 0)
		jl->error = -ORCA_E_NUMBER;
}

static int json_parse(struct span s, struct engine_load *l)
{
	struct json_load jl = { .l = l, .meaning = -1 };
	struct json j;

	json_init(&j, 8, on_json, &jl);
	if (json_feed(&j, s.p, s.n) != JSON_DONE)
		return -ORCA_E_FORM;
	return jl.error;
}

int orca_parse(struct span s, struct engine_load *out)
{
	int rc;

	*out = ENGINE_LOAD_NONE;
	if (s.n > ORCA_MAX)
		return -ORCA_E_FORM;
	s = trimmed(s);
	if (!skip_word(&s, "TEXT "))
		skip_word(&s, "JSON ");
	s = trimmed(s);
	rc = s.n > 0 && s.p[0] == '{' ? json_parse(s, out) : text_parse(s, out);
	if (rc < 0)
		return rc;
	return engine_load_told(out) ? 0 : -ORCA_E_NOTHING;
}
