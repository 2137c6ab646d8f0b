/* doctor_live_agents.c - "doctor --live" asks the agents: which answer, which one decided on the
 * request, and whether it learned the end.
 *
 * HAProxy may ask any server of its backend for agents, so with several agents each is asked for
 * the uid of the request; only one knows it, unless they share their state. */
#include <stdio.h>
#include <string.h>

#include "agent/ctl/doctor_live.h"

#define KNOWN_TRIES	10u

int live_check_agents(struct live *l)
{
	unsigned n = 0;

	for (unsigned i = 0; i < l->n_agents; i++) {
		struct live_agent *x = &l->agent[i];
		const char *why = "";

		x->answers = live_counters(x, &x->decisions, &x->done, &x->lines, &why);
		n += x->answers;
		if (x->answers)
			live_passed("agent", "it answers at %s", x->metrics);
		else
			printf("note  agent: no answer from its metrics at %s (%s)\n", x->metrics, why);
	}
	return n > 0 ? 0 : -1;
}

/* Write the addresses of the agents. */
static const char *addresses(const struct live *l, char *to, size_t room)
{
	size_t n = 0;

	*to = '\0';
	for (unsigned i = 0; i < l->n_agents && n < room; i++)
		n += (size_t)snprintf(to + n, room - n, "%s%s", i > 0 ? ", " : "", l->agent[i].metrics);
	return to;
}

static int none_answers(const struct live *l)
{
	char all[1024];

	return live_lost("agent", "no answer from its metrics at %s: start kvroute, or name its "
	    "configuration with -f or the address with --metrics", addresses(l, all, sizeof(all)));
}

/* ---- by counters --------------------------------------------------------------------------- */

/* Ask each agent. Returns the one that decided on something since the request; NULL: none.
 * <learned>: it also learned of an end. */
static struct live_agent *who_moved(struct live *l, bool *learned)
{
	struct live_agent *moved = NULL;
	double decisions, done, lines;
	const char *why = "";

	*learned = false;
	for (unsigned i = 0; i < l->n_agents; i++) {
		struct live_agent *x = &l->agent[i];

		if (!x->answers || !live_counters(x, &decisions, &done, &lines, &why) ||
		    decisions <= x->decisions || (moved != NULL && done <= x->done))
			continue;
		moved = x;
		*learned = done > x->done;
	}
	return moved;
}

/* Without a uid, or without the right to ask for it, counters must move. */
int live_await_counters(struct live *l, const char *reason)
{
	struct live_agent *moved = NULL;
	bool learned = false;

	for (unsigned i = 0; !learned && live_next_try(l, i); i++)
		moved = who_moved(l, &learned);
	if (moved == NULL)
		return live_lost("filter", "no agent was asked: check the path and the conditions of "
		    "send-spoe-group, and that -f or --metrics names the right agents");
	live_passed("filter", "the agent at %s decided (by its counters, because %s)", moved->metrics,
	    reason);
	if (!learned)
		return live_lost("feed", "no line of an end reached the agent: compare the log target with "
		    "log_feed");
	live_passed("feed", "the agent learned of an end");
	return 0;
}

/* ---- by the uid ---------------------------------------------------------------------------- */

/* Ask one agent for the request. Returns true if it knows it; <state>: of its end. */
static bool knows(struct live_agent *x, const char *path, char *state, size_t room)
{
	struct buf page = { 0 };
	const char *why = "";
	bool known = x->answers && live_ask_agent(x, path, &page, &why) == 0 &&
	    strstr(page.p, "\"decision\":") != NULL;

	if (known)
		live_take_field(page.p, page.n, "state", state, room);
	buf_free(&page);
	return known;
}

/* Several agents that share their state all know the request; the one whose record is complete is
 * as good as the one that decided. */
static struct live_agent *who_knows(struct live *l, const char *path, char *state, size_t room)
{
	struct live_agent *found = NULL;

	for (unsigned i = 0; i < l->n_agents && strcmp(state, "done") != 0; i++)
		if (knows(&l->agent[i], path, state, room))
			found = &l->agent[i];
	return found;
}

/* Tell if an agent that answers does not show its decisions here. */
static bool any_hidden(const struct live *l)
{
	for (unsigned i = 0; i < l->n_agents; i++)
		if (l->agent[i].answers && l->agent[i].status == 403)
			return true;
	return false;
}

static int not_found(struct live *l)
{
	char all[1024];

	addresses(l, all, sizeof(all));
	if (l->n_agents == 1)
		return live_lost("agent", "the agent at %s does not know the decision: HAProxy asks another one; "
		    "name the configuration of each with -f, or its address with --metrics", all);
	return live_lost("agent", "none of the agents at %s knows the decision: HAProxy asks another one; "
	    "compare the server lines of %s with their spop.listen", all, l->way.agent);
}

static int no_end(struct live *l, struct live_agent *x)
{
	double decisions, done, lines = 0;
	const char *why = "";

	live_counters(x, &decisions, &done, &lines, &why);
	return live_lost("feed", lines > x->lines ?
	    "lines reach the agent, but not this one: compare the fields of log-format with haproxy-conf" :
	    "no line reaches the agent: compare the server of ring %s with log_feed.tcp", l->way.ring);
}

int live_await_end(struct live *l)
{
	struct live_agent *found = NULL, *again;
	char path[256], state[32] = "";
	bool some = false;

	for (unsigned i = 0; i < l->n_agents; i++)
		some |= l->agent[i].answers;
	if (!some)
		return none_answers(l);
	snprintf(path, sizeof(path), "/decisions?uid=%s", l->uid);
	/* HAProxy has logged the request, so who decided on it has done so */
	for (unsigned i = 0; strcmp(state, "done") != 0 && (found != NULL || (i < KNOWN_TRIES &&
	    !any_hidden(l))) && live_next_try(l, i); i++)
		if ((again = who_knows(l, path, state, sizeof(state))) != NULL)
			found = again;
	if (found == NULL && any_hidden(l))
		return live_await_counters(l, "metrics.decisions does not let this address look");
	if (found == NULL)
		return not_found(l);
	if (l->n_agents > 1)
		live_passed("agent", "the one at %s decided", found->metrics);
	if (strcmp(state, "done") != 0)
		return no_end(l, found);
	live_passed("feed", "the agent learned how the request ended");
	return 0;
}
