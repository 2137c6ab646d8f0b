/* get_status.c - figures that are not complete are an error. */
#include "agent/ctl/get_status.h"

struct reading {
	struct status *s;
	enum json_state state;
};

static void take_body(void *arg, const char *p, size_t n)
{
	struct reading *r = arg;

	if (r->state != JSON_BAD)
		r->state = status_feed(r->s, p, n);
}

int ctl_get_status(const char *address, int limit_ms, struct status *s, const char **why)
{
	struct reading r = { s, JSON_MORE };
	struct http_answer a;

	status_start(s);
	http_answer_init(&a, take_body, &r);
	if (ctl_get_within(address, "/status.json", limit_ms, &a, why) < 0)
		return -1;
	*why = a.status != 200 ? "its answer is an error; is this metrics.listen of an agent?" :
	    s->failed ? "not enough memory" :
	    r.state != JSON_DONE ? "its answer is not the figures of an agent" : NULL;
	return *why == NULL ? 0 : -1;
}
