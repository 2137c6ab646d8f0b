/* A fact is what HAProxy, an engine or a client's connection told of one request. Fields that were
 * not said are -1, so a reader never takes a missing number for a zero. */
#include "agent/base/num.h"
#include "agent/feed/fact.h"

void fact_init(struct fact *f, enum fact_kind kind)
{
	*f = (struct fact){
		.kind = kind,
		.status = -1,
		.end = END_UNKNOWN,
		.queue_ms = -1,
		.connect_ms = -1,
		.response_ms = -1,
		.total_ms = -1,
		.bytes_out = -1,
		.bytes_in = -1,
		.retries = -1,
		.prompt_tokens = -1,
		.output_tokens = -1,
		.cached_tokens = -1,
		.error = -1,
	};
}

bool fact_streams(const struct fact *f)
{
	static const char want[] = "text/event-stream";

	return f->type.n >= sizeof(want) - 1 && strncasecmp(f->type.p, want, sizeof(want) - 1) == 0;
}

/* configuration.txt 8.5: the first letter is the event that ended the session, the second its
 * state. 'c' and 's' are timeouts of client and server. "PH" is a response that is not HTTP
 * (measured on 2.6 and 3.2). "PD" may be caused by the client's body and is no evidence against
 * the server. */
enum fact_end fact_end_of(struct span ts)
{
	if (ts.n < 2)
		return END_UNKNOWN;
	if (ts.p[1] == 'Q')
		return END_QUEUE;
	switch (ts.p[0]) {
	case '-':
		return END_OK;
	case 'C': case 'c':
		return END_CLIENT;
	case 'S': case 's':
		return ts.p[1] == 'C' ? END_CONNECT : END_SERVER;
	case 'D':
		return END_SERVER;
	case 'P':
		return ts.p[1] == 'H' ? END_SERVER : END_PROXY;
	default:
		return END_PROXY;
	}
}

void fact_take_end(struct fact *f, struct span ts)
{
	f->end = fact_end_of(ts);
	for (size_t i = 0; i < sizeof(f->ts); i++)
		f->ts[i] = ts.n < 2 ? '\0' :
		    (ts.p[i] >= 'A' && ts.p[i] <= 'Z') || (ts.p[i] >= 'a' && ts.p[i] <= 'z') || ts.p[i] == '-' ?
		    ts.p[i] : '?';
}

static enum fact_cause cause_of_status(int32_t status)
{
	if (status < 100)
		return CAUSE_OF_UNKNOWN;
	if (status == 429)
		return CAUSE_OF_TOO_MANY;
	return status >= 500 ? CAUSE_OF_SERVER_ERROR : status >= 400 ? CAUSE_OF_CLIENT_ERROR : CAUSE_OF_OK;
}

/* A small first letter is a timeout. Without letters these ends have no known cause. */
enum fact_cause fact_cause(const struct fact *f)
{
	bool late = f->ts[0] == 'c' || f->ts[0] == 's';

	if (f->ts[0] == '\0' && (f->end == END_CONNECT || f->end == END_CLIENT || f->end == END_SERVER))
		return CAUSE_OF_UNKNOWN;
	switch (f->end) {
	case END_CONNECT:
		return late ? CAUSE_OF_CONNECT_TIMEOUT : CAUSE_OF_REFUSED;
	case END_CLIENT:
		return late ? CAUSE_OF_CLIENT_TIMEOUT : CAUSE_OF_CLIENT_GONE;
	case END_SERVER:
		if (f->ts[0] == 'D' || f->ts[0] == 'P')
			return f->ts[0] == 'D' ? CAUSE_OF_SERVER_DOWN : CAUSE_OF_NOT_HTTP;
		return late ? CAUSE_OF_SERVER_TIMEOUT : CAUSE_OF_CLOSED;
	case END_QUEUE:
		return f->ts[0] == 'C' || f->ts[0] == 'c' ? CAUSE_OF_CLIENT_GONE : CAUSE_OF_QUEUE;
	case END_PROXY:
		return CAUSE_OF_HAPROXY;
	default:
		return cause_of_status(f->status);
	}
}

const char *fact_cause_word(enum fact_cause cause)
{
	static const char *const words[] = {
#define X(name, word, sentence) word,
		FACT_CAUSE_LIST(X)
#undef X
	};

	return words[cause];
}

static enum verdict verdict_of_status(int32_t status)
{
	if (status >= 200 && status < 300)
		return VERDICT_WORKED;
	if (status == 429)
		return VERDICT_429;
	return status >= 500 && status < 600 ? VERDICT_5XX : VERDICT_NONE;
}

enum verdict fact_verdict(const struct fact *f)
{
	switch (f->end) {
	case END_CONNECT:
		return VERDICT_CONNECT;
	case END_SERVER:
		return VERDICT_BROKEN;
	case END_UNKNOWN: case END_OK:
		return verdict_of_status(f->status);
	default:
		return VERDICT_NONE;
	}
}

/* Take the part of <s> before the first <by>; <s> keeps what comes after it. */
static struct span count_part(struct span *s, char by)
{
	const char *at = s->n > 0 ? memchr(s->p, by, s->n) : NULL;
	size_t n = at != NULL ? (size_t)(at - s->p) : s->n;
	struct span part = span_of(s->p, n);

	*s = at != NULL ? span_of(at + 1, s->n - n - 1) : span_of(s->p + s->n, 0);
	return part;
}

/* -1: no number in it. */
static int64_t count_sum(struct span s)
{
	int64_t sum = -1, v;

	while (s.n > 0) {
		struct span one = count_part(&s, '+');

		if (one.n == 0)
			continue;
		if (!num_parse(one, &v) || v < 0 || v > FACT_TOKENS_MAX)
			return -1;
		sum = sum < 0 ? v : sum + v;
		if (sum > FACT_TOKENS_MAX)
			return -1;
	}
	return sum;
}

bool fact_count(struct span s, int64_t *v)
{
	while (s.n > 0) {
		int64_t n = count_sum(count_part(&s, ' '));

		if (n >= 0) {
			*v = n;
			return true;
		}
	}
	return false;
}
