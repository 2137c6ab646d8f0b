/* runtime_answer.c - executes commands. An answer is JSON first: the same figures as on the page
 * (status_page.c); as text it goes through show_text(). */
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/loop/decision_rows_in.h"
#include "agent/loop/decisions_page_in.h"
#include "agent/loop/runtime_in.h"
#include "agent/loop/show_text.h"
#include "agent/loop/status_page_in.h"
#include "agent/route/decisions.h"

#define ASK_WORK	5000000u	/* steps of 10 ns: a large body delays this thread by 50 ms */
#define NO_DECISIONS	"no decisions are kept: set decisions.keep and restart\n"

/* ---- show --------------------------------------------------------------------------------- */

static void add_model(void *arg, const struct route_model_view *v)
{
	struct buf *t = arg;

	buf_str(t, t->p[t->n - 1] == '[' ? "\n{\"name\":" : ",\n{\"name\":");
	page_json(t, v->name[0] != '\0' ? v->name : "*");
	page_addf(t, ",\"mode\":\"%s\",\"page_tokens\":%u,\"kinds_as_text\":%u}", v->mode, v->page,
	    v->kinds_off);
}

static void put_models(struct agent *a, struct buf *t)
{
	buf_str(t, "{\"models\":[");
	if (!t->failed)
		route_each_model(a->route, add_model, t);
	buf_str(t, "]}\n");
}

static void put_errors(struct agent *a, struct buf *t)
{
	char line[LOG_LINE_MAX];
	uint64_t n = 0;

	buf_str(t, "{\"errors\":[");
	for (bool some = false; log_kept(&a->log, &n, line); some = true) {
		buf_str(t, some ? ",\n" : "\n");
		page_json(t, line);
	}
	buf_str(t, "]}\n");
}

static void put_error_lines(struct agent *a, struct buf *t)
{
	char line[LOG_LINE_MAX];
	uint64_t n = 0;

	while (log_kept(&a->log, &n, line)) {
		buf_str(t, line);
		buf_str(t, "\n");
	}
	if (n == 0)
		buf_str(t, "none\n");
}

/* Returns false if no decisions are kept. */
static bool put_decisions(struct agent *a, uint64_t n, bool whole, struct buf *t)
{
	struct decisions_page *p = NULL;
	const char *type;
	char query[32];
	int status;

	if (route_decisions(a->route) == NULL)
		return false;
	if (!whole) {
		decision_rows_write(a->route, n, agent_msec(a), clock_wall_ms(), t);
		return true;
	}
	snprintf(query, sizeof(query), "n=%llu", (unsigned long long)n);
	status = decisions_page_begin(
	    &p, a->route, span_str(query), true, agent_msec(a), clock_wall_ms(), t, &type);
	while (status == 200 && decisions_page_step(p) == 0)
		;
	decisions_page_free(p);
	return true;
}

/* ---- one decision ------------------------------------------------------------------------- */

/* Write the list of one decision that kvroutectl reads, or as text the decision itself. */
static void put_one(struct agent *a, const struct command *c, const struct decision *x,
    const uint64_t *space, struct buf *t)
{
	if (c->json)
		buf_str(t, "{\"decisions\":[\n");
	decisions_page_one(a->route, x, agent_msec(a), clock_wall_ms(), t);
	if (space != NULL && !t->failed && t->n > 0 && t->p[t->n - 1] == '}') {
		t->n--;
		page_addf(t, ",\"space\":\"%016llx%016llx\"}", (unsigned long long)space[0],
		    (unsigned long long)space[1]);
	}
	buf_str(t, c->json ? "\n]}\n" : "\n");
}

/* Returns an error as text, or NULL. */
static const char *put_why(struct agent *a, const struct command *c, struct buf *t)
{
	struct decisions *d = route_decisions(a->route);
	struct decision x;

	if (d == NULL)
		return NO_DECISIONS;
	if (!decisions_find(d, route_uid_hash(a->route, span_str(c->text[0])), &x))
		return "no decision of that uid is kept; compare %ID in the log of HAProxy, and raise "
		       "decisions.keep if it is older\n";
	put_one(a, c, &x, NULL, t);
	return NULL;
}

static struct span text_or(const char *text, const char *otherwise)
{
	return span_str(text != NULL ? text : otherwise);
}

static const char *put_asked(
    struct agent *a, const struct command *c, struct span body, struct buf *t)
{
	const struct route_request q = {
		.body = body, .seq = -1, .visible = -1, .whole = -1, .wall_s = clock_wall_ms() / 1000,
		.pool = text_or(c->text[ASK_POOL], ""), .tenant = text_or(c->text[ASK_TENANT], ""),
		.path = text_or(c->text[ASK_PATH], "/v1/chat/completions"),
		.model = text_or(c->text[ASK_MODEL], ""), .session = text_or(c->text[ASK_SESSION], ""),
		.work = ASK_WORK, .no_compare = true,
	};
	struct route_scratch *s;
	struct decision x;
	uint64_t space[2];

	if (route_decisions(a->route) == NULL)
		return NO_DECISIONS;
	if ((s = route_scratch_new(a->route)) == NULL)
		return "not enough memory\n";
	route_ask(a->route, s, &q, agent_msec(a), &x, space);
	route_scratch_wipe(s);
	route_scratch_free(s);
	mem_wipe_stack();
	put_one(a, c, &x, space[0] != 0 || space[1] != 0 ? space : NULL, t);
	return NULL;
}

/* ---- steer -------------------------------------------------------------------------------- */

static const char *clear_server(struct agent *a, const struct command *c)
{
	return route_clear_server(a->route, span_str(c->text[0]), span_str(c->text[1])) ?
		"what requests taught of it is being forgotten\n" :
		"there is no such server; show servers lists all\n";
}

static void log_command(struct agent *a, const char *msg)
{
	log_msg(&a->log, LOG_INFO, LOG_LIFE, msg);
}

static const char *steer(struct agent *a, const struct command *c)
{
	switch (c->what) {
	case COMMAND_CLEAR_ERRORS:
		log_clear_kept(&a->log);
		return "cleared\n";
	case COMMAND_CLEAR_PROBLEMS:
		route_clear_problems(a->route);
		log_command(a, "an operator cleared the problems");
		return "cleared; those that last come back\n";
	case COMMAND_CLEAR_SERVER:
		log_command(a, "an operator cleared a server");
		return clear_server(a, c);
	case COMMAND_SAVE_SNAPSHOT:
		return snapfile_ask(&a->snapfile) ? "the snapshot is being written\n" :
			"there is no snapshot to write: set index.snapshot_file and restart\n";
	case COMMAND_SET_LOG_LEVEL:
		log_set_level(&a->log, (enum log_level)c->number);
		return "done, until the next reload\n";
	default: return NULL;
	}
}

static void put_help(struct buf *out)
{
	char *text = mem_alloc(COMMAND_HELP_MAX);

	if (text == NULL)
		out->failed = true;
	else
		buf_add(out, text, command_help(text));
	mem_free(text);
}

/* ---- the answer --------------------------------------------------------------------------- */

/* Append <json> as it was asked for. */
static void put_answer(const struct command *c, struct buf *json, struct buf *out)
{
	size_t before = out->n;

	if (c->json)
		buf_add(out, json->p, json->n);
	if (!json->failed && !out->failed && (c->json || show_text(span_of(json->p, json->n), out) == 0))
		return;
	out->n = before;
	out->failed = out->full = false;
	buf_str(out, "the answer is larger than its limit, or memory is short\n");
}

/* Returns what was wrong, or NULL with the answer in <t>. */
static const char *put_json(
    struct agent *a, const struct command *c, struct span body, struct buf *t)
{
	if (c->what == COMMAND_WHY)
		return put_why(a, c, t);
	if (c->what == COMMAND_ASK)
		return put_asked(a, c, body, t);
	switch (c->show) {
	case SHOW_MODELS: put_models(a, t); break;
	case SHOW_ERRORS: put_errors(a, t); break;
	case SHOW_DECISIONS: return put_decisions(a, c->number, c->json, t) ? NULL : NO_DECISIONS;
	default: status_part_write(a, c->show, clock_wall_ms(), t); break;
	}
	return NULL;
}

bool runtime_answer(struct agent *a, const struct command *c, struct span body, struct buf *out)
{
	struct buf json = { .max = RUNTIME_ANSWER_MAX };
	const char *wrong;

	if (c->what == COMMAND_CLEAR_SPACE || (c->what == COMMAND_SHOW && c->show == SHOW_SPACES))
		return false;
	if (c->what == COMMAND_HELP) {
		put_help(out);
	} else if ((wrong = steer(a, c)) != NULL) {
		buf_str(out, wrong);
	} else if (c->what == COMMAND_SHOW && c->show == SHOW_CONFIG) {
		if (!config_text_copy(&a->config_text, out))
			buf_str(out, "the configuration is not known here; use kvroute -tv\n");
	} else if (c->what == COMMAND_SHOW && c->show == SHOW_ERRORS && !c->json) {
		put_error_lines(a, out);
	} else if (c->what == COMMAND_SHOW || c->what == COMMAND_WHY || c->what == COMMAND_ASK) {
		wrong = put_json(a, c, body, &json);
		if (wrong != NULL)
			buf_str(out, wrong);
		else
			put_answer(c, &json, out);
	}
	buf_free(&json);
	return true;
}

/* ---- walks -------------------------------------------------------------------------------- */

static void add_space(void *arg, const struct space_view *v)
{
	struct runtime_walk *w = arg;

	page_addf(&w->json,
	    "%s\n{\"space\":\"%016llx%016llx\",\"tenant\":%u,\"openings\":%u}",
	    w->n++ > 0 ? "," : "{\"spaces\":[", (unsigned long long)v->h[0], (unsigned long long)v->h[1],
	    v->tenant, v->openings);
}

bool runtime_walk_step(
    struct agent *a, const struct command *c, struct runtime_walk *w, struct buf *out)
{
	if (c->what == COMMAND_CLEAR_SPACE) {
		if (route_clear_space(a->route, &w->at, c->space, RUNTIME_WALK_LOOKS, &w->records))
			return false;
		log_command(a, "an operator cleared a space");
		page_addf(out, "%llu records of servers cut\n", (unsigned long long)w->records);
		return true;
	}
	w->json.max = RUNTIME_ANSWER_MAX;
	if (route_spaces(a->route, &w->at, RUNTIME_WALK_LOOKS, add_space, w))
		return false;
	buf_str(&w->json, w->n > 0 ? "]}\n" : "{\"spaces\":[]}\n");
	put_answer(c, &w->json, out);
	buf_free(&w->json);
	return true;
}
