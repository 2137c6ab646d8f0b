/* rules_feed.c - log lines to the agent: target, ring, format, fields. */
#include "agent/doctor/doctor_in.h"

#define LINE_LEAST	2048	/* bytes of a log line with long names */

static const char *const fields[] = {
	"uid", "be", "srv", "want", "why", "err", "st", "ts", "tw", "tc", "tr", "ta", "out", "in", "rc",
	"sq", "bq",
};

static bool in_list(const char *const *list, const char *address)
{
	for (size_t i = 0; i < DOCTOR_ADDRS && list[i] != NULL; i++) {
		if (dr_same_address(address, list[i]))
			return true;
	}
	return false;
}

/* The unix socket for log lines has no default in spoken configurations: recipes use log.sock. */
static bool to_feed(const struct doctor *d, const char *address, bool udp)
{
	const struct doctor_agent *a = &d->o.agent;

	return in_list(udp ? a->udp : a->feed, address) ||
	    (!a->given && dr_has(address, "/kvroute/log.sock"));
}

static const char *option_of(const struct dr_line *l, const char *name)
{
	unsigned at = dr_word(l, name, 1);

	return at > 0 ? l->w[at + 1] : "";
}

static const struct dr_line *ring_server(const struct dr_section *ring)
{
	for (size_t i = 0; i < ring->lines.n; i++) {
		if (dr_is(ring->lines.p[i].w[0], "server") && ring->lines.p[i].n > 2)
			return &ring->lines.p[i];
	}
	return NULL;
}

static void check_ring(struct doctor *d, const struct dr_section *r, const struct dr_line *log)
{
	const struct dr_line *f = NULL, *len = NULL, *server = ring_server(r);
	const char *want = option_of(log, "format");

	for (size_t i = 0; i < r->lines.n; i++) {
		if (dr_is(r->lines.p[i].w[0], "format"))
			f = &r->lines.p[i];
		if (dr_is(r->lines.p[i].w[0], "maxlen"))
			len = &r->lines.p[i];
	}
	if (want[0] != '\0' && (f == NULL || !dr_is(f->w[1], want)))
		dr_say(d, DR_FEED_FORMAT, f != NULL ? f : &r->at, r->name, "write format %s", want);
	if (len == NULL || dr_size(len->w[1]) < LINE_LEAST)
		dr_say(d, DR_FEED_LENGTH, len != NULL ? len : &r->at, r->name, "write maxlen 4096");
	if (dr_server_has(d, r, server, "ssl"))
		dr_say(d, DR_TLS_ON_FEED, server, server->w[1], NULL);
}

static bool is_level(const char *w)
{
	static const char *const levels[] = {
		"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
	};

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (dr_is(w, levels[i]))
			return true;
	}
	return false;
}

/* The line ends with "FACILITY [MAXIMUM [MINIMUM]]". */
static void check_target(struct doctor *d, const struct dr_line *l)
{
	unsigned level = l->n - 1;

	if (level > 2 && is_level(l->w[level]) && is_level(l->w[level - 1]))
		level--;
	if (is_level(l->w[level]) && !dr_is(l->w[level], "info") && !dr_is(l->w[level], "debug"))
		dr_say(d, DR_FEED_LEVEL, l, l->w[level], "write \"info info\" at the end of the line");
	if (dr_size(option_of(l, "len")) < LINE_LEAST)
		dr_say(d, DR_FEED_LENGTH, l, l->w[1], "write len 4096");
}

static bool sets_level(const struct dr_line *l)
{
	return l->n >= 3 && dr_starts(l->w[0], "http-") && dr_is(l->w[1], "set-log-level");
}

/* Return when a rule runs: all rules of one kind before those of the next. */
static int stage(const struct dr_line *l)
{
	return dr_is(l->w[0], "http-request") ? 0 : dr_is(l->w[0], "http-response") ? 1 : 2;
}

/* Tell if <s>, or its defaults, has a rule that sets another level than silent. */
static bool sets_loud(const struct doctor *d, const struct dr_section *s)
{
	for (unsigned deep = 0; deep < 64; deep++) {
		for (size_t i = 0; i < s->lines.n; i++) {
			if (sets_level(&s->lines.p[i]) && !dr_is(s->lines.p[i].w[2], "silent"))
				return true;
		}
		if (s->base < 0)
			return false;
		s = &d->sections.p[s->base];
	}
	return false;
}

/* Follow the rules of one section, which run after those of its defaults. <*l>: the rule that
 * silences all requests so far, or NULL. After a rule that ends the others for some requests, no
 * rule of its kind is for all of them. */
static void follow_levels(const struct dr_section *s, const struct dr_line **l, bool ended[3])
{
	for (int k = 0; k < 3; k++) {
		for (size_t i = 0; i < s->lines.n; i++) {
			const struct dr_line *at = &s->lines.p[i];

			if (!dr_starts(at->w[0], "http-") || stage(at) != k)
				continue;
			ended[k] |= dr_is(at->w[1], "allow");
			if (!sets_level(at))
				continue;
			if (!dr_is(at->w[2], "silent"))
				*l = *l != NULL && stage(*l) > k ? *l : NULL;
			else if (at->n == 3 && !ended[k] && (*l == NULL || stage(*l) <= k))
				*l = at;
		}
	}
}

static void silent_of(
    const struct doctor *d, const struct dr_section *s, unsigned deep, const struct dr_line **l,
    bool ended[3])
{
	if (s->base >= 0 && deep < 64)
		silent_of(d, &d->sections.p[s->base], deep + 1, l, ended);
	follow_levels(s, l, ended);
}

/* Sections before and after <s> may set the level anew; in which order depends on the kinds of
 * rules, so any such rule there is believed. */
const struct dr_line *dr_silent(const struct doctor *d, const struct dr_section *s)
{
	const struct dr_line *l = NULL;
	bool ended[3] = { false };

	silent_of(d, s, 0, &l, ended);
	for (size_t i = 0; l != NULL && i < d->sections.n; i++) {
		const struct dr_section *x = &d->sections.p[i];

		if (x != s && (dr_leads(d, x, s) || dr_leads(d, s, x)) && sets_loud(d, x))
			return NULL;
	}
	return l;
}

static void check_json(struct doctor *d, const struct dr_section *f, const struct dr_line *target)
{
	bool sd = dr_is(option_of(target, "format"), "rfc5424");
	const char *want = sd ? "log-format-sd" : "log-format", *text;
	const struct dr_line *l = dr_find(d, f, want, NULL), *plain = dr_find(d, f, "log-format", NULL);

	if (l == NULL || !dr_has(text = dr_join(d, l, 1), "\"uid\":")) {
		dr_say(d, DR_FEED_PLAIN, l != NULL ? l : &f->at, f->name, "add the line %s of %s, because the "
		    "target in line %u has format %s", want, sd ? "recipes/keep-your-log.cfg" : "haproxy.cfg",
		    target->no, sd ? "rfc5424" : "raw");
		return;
	}
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (!dr_has(text, dr_printf(&d->mem, "\"%s\":", fields[i])))
			dr_say(d, DR_FEED_FIELDS, l, fields[i], "copy %s whole from haproxy-conf", want);
	}
	if (sd && plain == NULL && dr_find(d, f, "option", "httplog") == NULL &&
	    dr_find(d, f, "option", "httpslog") == NULL)
		dr_say(d, DR_FEED_PLAIN, l, "no log-format", "add: option httplog");
	if ((l = dr_find(d, f, "option", "dontlog-normal")) != NULL)
		dr_say(d, DR_FEED_MISSING, l, f->name, "delete option dontlog-normal");
	if ((l = dr_find(d, f, "option", "logasap")) != NULL)
		dr_say(d, DR_FEED_EARLY, l, f->name, "delete option logasap, or add: no option logasap");
}

/* Judge one log line; returns true if it leads to the agent. Sets <*dead> to <l> if it goes to a
 * ring that delivers to nobody, as a ring in memory does. */
static bool judge(struct doctor *d, const struct dr_section *f, const struct dr_line *l,
		  const struct dr_line **dead)
{
	const struct dr_section *r = dr_starts(l->w[1], "ring@") ?
	    dr_named(d, 1u << DR_RING, l->w[1] + 5) : NULL;
	const struct dr_line *server = r != NULL ? ring_server(r) : NULL;
	const char *address = dr_address(d, server != NULL ? server->w[2] : l->w[1]);

	if (dr_starts(l->w[1], "ring@") && server == NULL) {
		*dead = l;
		return false;
	}
	if (in_list(d->o.agent.spop, address))
		dr_say(d, DR_LOG_ON_SPOP, server != NULL ? server : l, address, NULL);
	else if (in_list(d->o.agent.metrics, address))
		dr_say(d, DR_LOG_ON_HTTP, server != NULL ? server : l, address, NULL);
	if (!to_feed(d, address, r == NULL))
		return false;
	if (r != NULL)
		check_ring(d, r, l);
	check_target(d, l);
	check_json(d, f, l);
	return true;
}

static bool judge_all(struct doctor *d, const struct dr_section *f, const dr_lines *logs,
		      struct dr_line *dead)
{
	const struct dr_line *at = NULL;
	bool found = false;

	for (size_t i = 0; i < logs->n; i++) {
		if (!dr_is(logs->p[i].w[1], "global"))
			found |= judge(d, f, &logs->p[i], &at);
	}
	if (at != NULL)
		*dead = *at;
	return found;
}

static void check_one(struct doctor *d, const struct dr_section *f)
{
	struct dr_line dead = { .n = 0 };
	dr_lines logs = { 0 };
	bool found, global = false;

	dr_collect(d, f, "log", &logs);
	for (size_t i = 0; i < logs.n; i++)
		global |= dr_is(logs.p[i].w[1], "global");
	found = judge_all(d, f, &logs, &dead);
	logs.n = 0;
	for (size_t i = 0; i < d->sections.n; i++) {
		if (d->sections.p[i].kind == DR_GLOBAL && global)
			dr_collect(d, &d->sections.p[i], "log", &logs);
	}
	found |= judge_all(d, f, &logs, &dead);
	vec_free(&logs);
	if (!found && dead.n > 0)
		dr_say(d, DR_FEED_RING, &dead, dead.w[1] + 5, "write a section \"ring %s\" with a line: server "
		    "agent 127.0.0.1:9401", dead.w[1] + 5);
	else if (!found)
		dr_say(d, DR_FEED_MISSING, &f->at, f->name, "no log target goes to log_feed (%s): correct the "
		    "address in ring or log, or add \"log global\" here",
		    d->o.agent.feed[0] != NULL ? d->o.agent.feed[0] : "none");
}

static void check_silent(struct doctor *d, const struct dr_section *s)
{
	const struct dr_line *l = dr_silent(d, s);

	if (l != NULL)
		dr_say(d, DR_FEED_MISSING, l, s->name, "give this rule a condition that no request of an API "
		    "satisfies");
}

void dr_check_feed(struct doctor *d, const struct dr_attached *a)
{
	check_silent(d, &d->sections.p[a->section]);
	for (size_t i = 0; i < d->sections.n; i++) {
		if (dr_leads(d, &d->sections.p[i], &d->sections.p[a->section]))
			check_one(d, &d->sections.p[i]);
	}
	for (size_t i = 0; i < d->sections.n; i++) {
		if (dr_leads(d, &d->sections.p[i], &d->sections.p[a->section]))
			check_silent(d, &d->sections.p[i]);
	}
}
