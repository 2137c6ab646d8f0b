/* status.c - a table of paths. A path has the keys from the root, or from the row of a list. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/ctl/status.h"

enum row { ROW_NONE, ROW_SERVER, ROW_POOL, ROW_PROBLEM, ROW_OTHER };

static const struct field {
	enum row row;
	const char *path;
	size_t at, text;	/* <text>: bytes of the place; 0: a number */
} fields[] = {
#define ALL(path, name)		{ ROW_NONE, path, offsetof(struct status_all, name), 0 }
#define SERVER(path, name)	{ ROW_SERVER, path, offsetof(struct status_server, name), 0 }
#define POOL(path, name)	{ ROW_POOL, path, offsetof(struct status_pool, name), 0 }
#define PROBLEM(path, name)	{ ROW_PROBLEM, path, offsetof(struct status_problem, name), 0 }
#define TEXT(row, type, name) \
	{ row, #name, offsetof(struct type, name), sizeof(((struct type *)0)->name) }
	TEXT(ROW_NONE, status_all, version),
	ALL("time_ms", time_ms), ALL("uptime_s", uptime_s), ALL("ready", ready),
	ALL("draining", draining), ALL("connections", connections), ALL("requests", requests),
	ALL("cut", cut), ALL("open", open), ALL("prompt_tokens", prompt_tokens),
	ALL("hit_tokens", hit_tokens), ALL("first_tokens", first_tokens), ALL("ends", ends),
	ALL("decisions.count", decisions), ALL("decisions.seconds", decision_s),
	ALL("decisions.declined", declined), ALL("decisions.hurried", hurried),
	ALL("index.bytes", index_bytes), ALL("index.max_bytes", index_max_bytes),
	ALL("index.pages", pages), ALL("index.spaces", spaces),
	TEXT(ROW_SERVER, status_server, pool), TEXT(ROW_SERVER, status_server, name),
	TEXT(ROW_SERVER, status_server, speed_source), TEXT(ROW_SERVER, status_server, capacity_source),
	SERVER("up", up), SERVER("closed", closed), SERVER("backup", backup),
	SERVER("weight", weight),
	SERVER("open", open), SERVER("queue", queue), SERVER("backlog_s", backlog_s),
	SERVER("tokens_per_s", tokens_per_s),
	SERVER("penalty", penalty), SERVER("picked", picked), SERVER("hit_tokens", hit_tokens),
	SERVER("failures", failures), SERVER("held_tokens", held_tokens),
	SERVER("capacity_tokens", capacity_tokens), SERVER("engine.kv_used", kv_used),
	TEXT(ROW_POOL, status_pool, name), TEXT(ROW_POOL, status_pool, mode),
	TEXT(ROW_POOL, status_pool, facts),
	POOL("requests", requests), POOL("pressure", pressure), POOL("wait_error", wait_error),
	POOL("shadow.requests", shadow.requests), POOL("shadow.same", shadow.same),
	POOL("shadow.prompt_tokens", shadow.prompt_tokens),
	POOL("shadow.hit_tokens", shadow.hit_tokens),
	POOL("shadow.haproxy_hit_tokens", shadow.haproxy_hit_tokens),
	POOL("shadow.first_s", shadow.first_s), POOL("shadow.haproxy_first_s", shadow.haproxy_first_s),
	POOL("shadow.gain_tokens2", shadow.gain_tokens2), POOL("shadow.gain_s2", shadow.gain_s2),
	POOL("shadow.timed", shadow.timed), POOL("shadow.timed_s", shadow.timed_s),
	POOL("shadow.haproxy_timed_s", shadow.haproxy_timed_s),
	POOL("shadow.timed_gain_s2", shadow.timed_gain_s2),
	TEXT(ROW_PROBLEM, status_problem, what), TEXT(ROW_PROBLEM, status_problem, pool),
	TEXT(ROW_PROBLEM, status_problem, message), TEXT(ROW_PROBLEM, status_problem, remedy),
	PROBLEM("since_s", since_s), PROBLEM("last_seen_s", last_seen_s), PROBLEM("quiet", quiet),
};

#define N_FIELDS	((int)(sizeof(fields) / sizeof(fields[0])))
#define LIST_DEPTH	2	/* values open around a row: the root and its list */

/* Returns where the value is stored, or NULL if it is not used. */
static void *field_place(struct status *s)
{
	void *base = &s->all;

	if (s->field < 0)
		return NULL;
	if (s->row == ROW_SERVER)
		base = &s->servers.p[s->servers.n - 1];
	else if (s->row == ROW_POOL)
		base = &s->pools.p[s->pools.n - 1];
	else if (s->row == ROW_PROBLEM)
		base = &s->problems.p[s->problems.n - 1];
	return (char *)base + fields[s->field].at;
}

/* Objects of a row may come where the page has none. */
static bool has_row(const struct status *s)
{
	return s->row == ROW_NONE || (s->row == ROW_SERVER && s->servers.n > 0) ||
	    (s->row == ROW_POOL && s->pools.n > 0) || (s->row == ROW_PROBLEM && s->problems.n > 0);
}

static void find_field(struct status *s)
{
	char path[4 * (JSON_KEY_MAX + 1)];
	size_t n = 0;

	s->field = -1;
	for (unsigned i = 0; i < s->names; i++)
		n += (size_t)snprintf(path + n, sizeof(path) - n, "%s%s", i > 0 ? "." : "", s->name[i]);
	for (int i = 0; has_row(s) && i < N_FIELDS; i++)
		if (fields[i].row == s->row && strcmp(fields[i].path, path) == 0)
			s->field = i;
}

static void take_key(struct status *s, const struct json *j, struct span key)
{
	unsigned level = j->depth - 1u - (s->row != ROW_NONE ? LIST_DEPTH : 0);

	s->field = -1;
	if (s->row == ROW_OTHER || level >= 4)
		return;
	snprintf(s->name[level], sizeof(s->name[level]), SPAN_FMT, SPAN_ARG(key));
	s->names = level + 1;
	find_field(s);
}

static void take_text(struct status *s, struct span part)
{
	char *to = s->field >= 0 && fields[s->field].text > 0 ? field_place(s) : NULL;

	for (size_t i = 0; to != NULL && i < part.n && s->n_text + 1 < fields[s->field].text; i++) {
		unsigned char c = (unsigned char)part.p[i];

		if (c >= 0x80 && c < 0xc0)
			continue;	/* a further byte of a character */
		to[s->n_text++] = c < 0x20 || c >= 0x7f ? '?' : (char)c;
	}
}

static void take_value(struct status *s, double v)
{
	if (s->field >= 0 && fields[s->field].text == 0)
		memcpy(field_place(s), &v, sizeof(v));
	s->field = -1;
}

static void take_number(struct status *s, struct span text)
{
	char copy[JSON_NUMBER_MAX + 1];

	memcpy(copy, text.p, text.n);
	copy[text.n] = '\0';
	take_value(s, strtod(copy, NULL));
}

/* A list at the top of the page begins. */
static void begin_list(struct status *s, const struct json *j)
{
	if (j->depth != 1)
		return;
	s->row = strcmp(s->name[0], "servers") == 0 ? ROW_SERVER :
	    strcmp(s->name[0], "pools") == 0 ? ROW_POOL :
	    strcmp(s->name[0], "problems") == 0 ? ROW_PROBLEM : ROW_OTHER;
	s->field = -1;
}

static int push_row(struct status *s)
{
	if (s->row == ROW_SERVER)
		return s->servers.n >= STATUS_ROWS_MAX ? 1 :
			vec_push(&s->servers, (struct status_server){ .kv_used = NAN });
	if (s->row == ROW_POOL)
		return s->pools.n >= STATUS_ROWS_MAX ? 1 :
			vec_push(&s->pools, (struct status_pool){ .wait_error = NAN });
	if (s->row == ROW_PROBLEM)
		return s->problems.n >= STATUS_ROWS_MAX ? 1 :
			vec_push(&s->problems, (struct status_problem){ .what = "" });
	return 0;
}

static void begin_row(struct status *s, const struct json *j)
{
	int rc = j->depth == LIST_DEPTH && s->row != ROW_NONE ? push_row(s) : 0;

	if (rc != 0)
		s->row = ROW_OTHER;
	s->failed |= rc < 0;
	s->names = rc == 0 && j->depth == LIST_DEPTH ? 0 : s->names;
	s->field = -1;
}

static void on_event(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct status *s = arg;

	switch (ev) {
	case JSON_OBJECT: begin_row(s, j); break;
	case JSON_ARRAY: begin_list(s, j); break;
	case JSON_ARRAY_END:
		if (j->depth == 1)
			s->row = ROW_NONE;
		break;
	case JSON_KEY: take_key(s, j, text); break;
	case JSON_STRING: s->n_text = 0; break;
	case JSON_STRING_PART: take_text(s, text); break;
	case JSON_NUMBER: take_number(s, text); break;
	case JSON_TRUE: take_value(s, 1); break;
	case JSON_FALSE: take_value(s, 0); break;
	case JSON_NULL: take_value(s, NAN); break;
	default: break;
	}
}

void status_free(struct status *s)
{
	vec_free(&s->servers);
	vec_free(&s->pools);
	vec_free(&s->problems);
}

void status_start(struct status *s)
{
	status_free(s);
	memset(s, 0, sizeof(*s));
	s->field = -1;
	json_init(&s->json, 16, on_event, s);
}

enum json_state status_feed(struct status *s, const char *p, size_t n)
{
	return json_feed(&s->json, p, n);
}
