/* rules_spoe.c - the SPOE file: its agent, groups, variables, arguments, and the body's bound. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/doctor/doctor_in.h"

#define HEADERS_ROOM	2048	/* of a frame, for headers and the other arguments */
#define PROCESSING_MOST_MS	1000

static void check_groups(struct doctor *d, const struct dr_attached *a)
{
	const struct dr_section *s = &d->sections.p[a->section];
	const struct spoe_part *agent = &a->spoe.agents.p[0];
	const struct dr_line *groups = dr_part_line(agent, "groups", NULL);

	for (size_t i = 0; i < s->lines.n; i++) {
		const struct dr_line *l = &s->lines.p[i];
		bool defined = false;

		if (l->n < 4 || !dr_is(l->w[1], "send-spoe-group") || !dr_is(l->w[2], a->engine))
			continue;
		for (size_t k = 0; k < a->spoe.groups.n; k++)
			defined = defined || dr_is(a->spoe.groups.p[k].name, l->w[3]);
		if (!defined || groups == NULL || dr_word(groups, l->w[3], 1) == 0)
			dr_say(d, DR_SPOE_AGENT, &agent->at, l->w[3], "add a section \"spoe-group %s\" and its "
			    "name to the line groups", l->w[3]);
	}
}

static void check_timeouts(struct doctor *d, const struct dr_attached *a)
{
	static const char *const old[] = { "hello", "idle" };
	const struct spoe_part *agent = &a->spoe.agents.p[0];
	const struct dr_line *l = dr_part_line(agent, "timeout", "processing");

	if (l == NULL)
		dr_say(d, DR_TIMEOUT, &agent->at, "processing", "add: timeout processing 50ms");
	else if (dr_time(l->w[2]) > PROCESSING_MOST_MS)
		dr_say(d, DR_TIMEOUT, l, l->w[2],
		    "write: timeout processing 50ms; each request waits that long if the agent hangs");
	for (unsigned i = 0; i < 2 && d->o.version < DOCTOR_VERSION(3, 1, 0); i++) {
		if (dr_part_line(agent, "timeout", old[i]) == NULL)
			dr_say(d, DR_TIMEOUT, &agent->at, old[i], "add: timeout %s %s", old[i],
			    i == 0 ? "100ms" : "1m");
	}
}

/* Tell if a line of the configuration has txn.PREFIX.<name>, so that HAProxy knows the variable. */
static bool is_named(const struct doctor *d, const struct spoe_part *agent, const char *name)
{
	const struct dr_line *prefix = dr_part_line(agent, "option", "var-prefix");
	char text[160];

	snprintf(text, sizeof(text), "txn.%.63s.%s", prefix != NULL ? prefix->w[2] : agent->name, name);
	for (size_t i = 0; i < d->sections.n; i++) {
		const struct dr_section *s = &d->sections.p[i];

		for (size_t k = 0; k < s->lines.n; k++) {
			for (size_t w = 0; w < s->lines.p[k].n; w++) {
				if (dr_has_variable(span_str(s->lines.p[k].w[w]), text))
					return true;
			}
		}
	}
	return false;
}

void dr_check_spoe(struct doctor *d, const struct dr_attached *a)
{
	static const char *const needed[] = { "server", "alt", "why", "hit" };
	const struct spoe_part *agent = a->spoe.agents.n > 0 ? &a->spoe.agents.p[0] : NULL;
	const struct dr_line *l;

	if (agent == NULL) {
		dr_say(d, DR_SPOE_AGENT, &a->spoe.scope, "", "copy the section spoe-agent from kvroute.spoe");
		return;
	}
	check_groups(d, a);
	check_timeouts(d, a);
	if ((l = dr_part_line(agent, "option", "continue-on-error")) != NULL)
		dr_say(d, DR_CONTINUE_ON_ERROR, l, "", "delete the line");
	if (!a->routes || dr_part_line(agent, "option", "force-set-var") != NULL)
		return;
	l = dr_part_line(agent, "register-var-names", NULL);
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if ((l == NULL || dr_word(l, needed[i], 1) == 0) && !is_named(d, agent, needed[i]))
			dr_say(d, DR_UNREGISTERED, l != NULL ? l : &agent->at, needed[i],
			    "write: register-var-names server alt why wait tokens hit_tokens hit pages "
			    "prompt_pages us cut more rank priority model prefill");
	}
}

/* ---- body ---------------------------------------------------------------------------------- */

#define BOUND_MOST	((int64_t)1 << 40)
#define ROOM_LEAST	65536	/* for bodies */

/* Return N of "req.body,bytes(0,N)"; -1: no bound. */
static int64_t bound_of(const char *arg)
{
	const char *at = strstr(arg, "bytes(0,");
	int64_t n = at != NULL ? strtoll(at + 8, NULL, 10) : -1;

	return n < BOUND_MOST ? n : BOUND_MOST;
}

static bool has_wait(const struct doctor *d, const struct dr_section *s)
{
	dr_lines rules = { 0 };
	bool waits = dr_find(d, s, "option", "http-buffer-request") != NULL;

	dr_collect(d, s, "http-request", &rules);
	for (size_t i = 0; i < rules.n; i++)
		waits = waits || dr_is(rules.p[i].w[1], "wait-for-body");
	vec_free(&rules);
	return waits;
}

/* Tell if a body that needs one gets a large buffer: a rule that leads to <a> asks for it. */
static bool takes_large(const struct doctor *d, const struct dr_attached *a)
{
	const struct dr_section *b = &d->sections.p[a->section];
	bool takes = false;

	for (size_t i = 0; i < d->sections.n; i++) {
		const struct dr_section *s = &d->sections.p[i];
		dr_lines rules = { 0 };

		if (s != b && !dr_leads(d, s, b))
			continue;
		dr_collect(d, s, "http-request", &rules);
		for (size_t k = 0; k < rules.n; k++)
			takes = takes || (dr_is(rules.p[k].w[1], "wait-for-body") &&
			    dr_word(&rules.p[k], "use-large-buffer", 2) > 0);
		vec_free(&rules);
	}
	return takes;
}

/* Check the room for bodies. A message is never larger than tune.bufsize, so only slices show more
 * of what a large buffer holds. If the file sets a small tune.bufsize and a bound that fits it, and
 * names sessions, nothing is said: the agent then routes a cut body by its session, and reports cut
 * bodies that have none. */
static void check_room(struct doctor *d, const struct dr_attached *a, int64_t size, bool fits,
		       const struct dr_line *at)
{
	const struct spoe_part *m = dr_spoe_message(&a->spoe, "route");
	bool sliced = dr_spoe_message(&a->spoe, "route-1") != NULL;
	const struct dr_line *session;
	int64_t large = dr_bufsize_large(d);
	bool takes = large > size && takes_large(d, a);

	if (size >= ROOM_LEAST)
		return;
	if (fits && !sliced && large == 0 && dr_is(at->w[0], "tune.bufsize") &&
	    dr_spoe_arg(m, "session=", &session) != NULL)
		return;
	if (!sliced)
		dr_say(d, DR_BODY_BUFFER, at, "", takes ? "take recipes/sliced.cfg: a message is never larger "
		    "than tune.bufsize, so only slices show what a large buffer holds"
		    : "write tune.bufsize 262144 in global");
	else if (large == 0)
		dr_say(d, DR_BODY_BUFFER, at, "", "write the buffers of recipes/sliced.cfg in global: slices "
		    "show no more than one buffer holds");
	else if (!takes || large < ROOM_LEAST)
		dr_say(d, DR_BODY_BUFFER, at, "", "write tune.bufsize.large 131072 in global, and "
		    "use-large-buffer after wait-for-body");
}

static void check_wait(struct doctor *d, const struct dr_attached *a)
{
	const struct dr_section *s = &d->sections.p[a->section];
	bool waits = has_wait(d, s);

	for (size_t i = 0; i < d->sections.n; i++) {
		const struct dr_section *f = &d->sections.p[i];

		if (f != s && dr_leads(d, f, s) && !waits && !has_wait(d, f))
			dr_say(d, DR_BODY_EARLY, &f->at, f->name,
			    "add: http-request wait-for-body time 10m if { var(txn.api) -m found }");
	}
	if (!waits && dr_is_front(s))
		dr_say(d, DR_BODY_EARLY, &s->at, s->name,
		    "add: http-request wait-for-body time 10m if { var(txn.api) -m found }");
}

void dr_check_body(struct doctor *d, const struct dr_attached *a)
{
	const struct spoe_part *m = dr_spoe_message(&a->spoe, a->routes ? "route" : "model");
	const struct dr_line *at = NULL, *size_at;
	int64_t size = dr_bufsize(d, &size_at), bound, most, v;
	const char *body = dr_spoe_arg(m, "body=", &at);
	const struct dr_line *frame = a->spoe.agents.n > 0 ?
	    dr_part_line(&a->spoe.agents.p[0], "max-frame-size", NULL) : NULL;

	check_wait(d, a);
	if (body == NULL) {
		if (m != NULL)
			dr_say(d, DR_BODY_MISSING, at, "", "add body=req.body,bytes(0,256000) at the end of args");
		return;
	}
	bound = bound_of(body);
	most = size - HEADERS_ROOM - dr_load_most(d, &d->sections.p[a->section]);
	if (bound < 0 || bound > most)
		dr_say(d, DR_SPOE_TOO_BIG, at, "", "write body=req.body,bytes(0,%lld), or tune.bufsize %lld in "
		    "global", (long long)(most > 0 ? most : 0), (long long)(bound > 0 ? bound + size - most :
		    262144));
	else if (bound < most / 2 && dr_spoe_message(&a->spoe, "route-1") == NULL)
		dr_say(d, DR_BODY_BOUND, at, "", "write body=req.body,bytes(0,%lld)", (long long)most);
	check_room(d, a, size, bound > 0 && bound <= most, size_at);
	if (size - 4 > (int64_t)d->o.agent.max_frame_size)
		dr_say(d, DR_FRAME_SIZE, size_at, "", "set spop.max_frame_size of the agent to %lld, or lower "
		    "tune.bufsize", (long long)size);
	if (frame != NULL && (v = dr_size(frame->w[1])) != size - 4)
		dr_say(d, DR_FRAME_SIZE, frame, frame->w[1], "delete the line, so that frames follow "
		    "tune.bufsize");
}
