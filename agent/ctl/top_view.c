/* top_view.c - lines are made as plain text, cut to the width, then printed with one attribute. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/ctl/top_view.h"

#define WIDTH_MOST	500
#define PROBLEMS_MOST	3
#define PLAIN		""
#define BOLD		"\033[1m"
#define RED		"\033[31m"
#define INVERSE		"\033[7m"
#define DIM		"\033[2m"

struct screen {
	const struct top_view *v;
	struct buf *out;
	int line;		/* lines so far */
};

/* ---- lines -------------------------------------------------------------------------------- */

/* Rows that are left; the last one is for the foot. */
static int left(const struct screen *s)
{
	return s->v->rows == 0 ? INT32_MAX : s->v->rows - 1 - s->line;
}

static void put_line(struct screen *s, const char *attribute, const char *text)
{
	int n = (int)strlen(text), most = s->v->columns < WIDTH_MOST ? s->v->columns : WIDTH_MOST;

	if (n > most)
		n = most;
	if (s->v->rows > 0 && s->line > 0)
		buf_str(s->out, "\r\n");
	if (s->v->rows > 0)
		buf_str(s->out, attribute);
	buf_add(s->out, text, (size_t)n);
	if (s->v->rows > 0)
		buf_str(s->out, "\033[0m\033[K");
	else
		buf_str(s->out, "\n");
	s->line++;
}

__attribute__((format(printf, 3, 4)))
static void put_linef(struct screen *s, const char *attribute, const char *fmt, ...)
{
	char text[WIDTH_MOST + 1];
	va_list ap;

	if (left(s) <= 0)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_line(s, attribute, text);
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* Write "1234", "12.3k", "4.5M": six characters at most for numbers below 10^15. */
static const char *short_count(double v, char out[16])
{
	static const char unit[] = " kMGT";
	unsigned u = 0;

	if (!(v >= 0 && v < 1e15))
		v = 0;
	for (; v >= 9999.5 && u < 4; u++)
		v /= 1000;
	if (u == 0)
		snprintf(out, 16, "%.0f", v);
	else
		snprintf(out, 16, "%.*f%c", v < 99.95 ? 1 : 0, v, unit[u]);
	return out;
}

static const char *short_time(double s, char out[16])
{
	if (!(s >= 0 && s < 1e12))
		s = 0;
	if (s < 120)
		snprintf(out, 16, "%.0f s", s);
	else if (s < 7200)
		snprintf(out, 16, "%.0f min", s / 60);
	else
		snprintf(out, 16, "%.0f h", s / 3600);
	return out;
}

static double share(double part, double of)
{
	return of > 0 ? part / of : NAN;
}

static const char *short_share(double v, char out[16])
{
	if (isfinite(v))
		snprintf(out, 16, "%.0f%%", 100 * (v < 0 ? 0 : v > 9 ? 9 : v));
	else
		snprintf(out, 16, "-");
	return out;
}

/* Write <n> in so many seconds; "-" before a second look, and if the agent began again. */
static const char *rate(double n, double seconds, char out[16])
{
	if (seconds > 0 && n >= 0)
		snprintf(out, 16, "%.1f", n / seconds);
	else
		snprintf(out, 16, "-");
	return out;
}

/* ---- the head ----------------------------------------------------------------------------- */

static void put_head(struct screen *s, const struct status *now, const struct status *before)
{
	const struct status_all *a = &now->all, *b = before != NULL ? &before->all : a;
	double seconds = (a->time_ms - b->time_ms) / 1000, n = a->decisions - b->decisions;
	double took = n > 0 ? (a->decision_s - b->decision_s) / n : share(a->decision_s, a->decisions);
	char t[6][16];

	put_linef(s, s->v->trouble != NULL ? RED : BOLD, "kvroute %s  %s  up %s  %.0f connections%s%s",
	    a->version, a->draining > 0 ? "draining" : a->ready > 0 ? "ready" : "not ready",
	    short_time(a->uptime_s, t[0]), a->connections, s->v->trouble != NULL ? "  no answer: " : "",
	    s->v->trouble != NULL ? s->v->trouble : "");
	put_linef(s, PLAIN, "%s requests  %s/s  %.0f open  hits %s (now %s)",
	    short_count(a->requests, t[0]), rate(a->requests - b->requests, seconds, t[3]), a->open,
	    short_share(share(a->hit_tokens, a->prompt_tokens), t[1]),
	    short_share(share(a->hit_tokens - b->hit_tokens, a->prompt_tokens - b->prompt_tokens), t[2]));
	put_linef(s, PLAIN, "index %s%% of %s  %s pages  %.0f spaces  decision %.0f us  declined %.0f",
	    short_count(100 * share(a->index_bytes, a->index_max_bytes), t[0]),
	    short_count(a->index_max_bytes, t[1]), short_count(a->pages, t[2]), a->spaces,
	    isfinite(took) ? took * 1e6 : 0, a->declined);
}

static void put_problems(struct screen *s, const struct status *now)
{
	for (size_t i = 0; i < now->problems.n; i++) {
		const struct status_problem *p = &now->problems.p[i];
		char t[16];

		if (i == PROBLEMS_MOST) {
			put_linef(s, RED, "! and %zu more: kvroutectl -s SOCKET show problems",
			    now->problems.n - i);
			return;
		}
		put_linef(s, p->quiet > 0 ? DIM : RED, "! %s%s%s%s, %s %s%s: %s", p->what,
		    p->pool[0] != '\0' ? " (" : "", p->pool, p->pool[0] != '\0' ? ")" : "",
		    p->quiet > 0 ? "last seen" : "for", short_time(p->quiet > 0 ? p->last_seen_s :
		    p->since_s, t), p->quiet > 0 ? " ago" : "", p->message);
		put_linef(s, DIM, "  %s", p->remedy);
	}
}

static void put_pools(struct screen *s, const struct status *now)
{
	char t[2][16];

	for (size_t i = 0; i < now->pools.n && left(s) > 3; i++) {
		const struct status_pool *p = &now->pools.p[i];

		put_linef(s, PLAIN, "%s  %s  %s requests  facts %s  pressure %.2f s  wait off by %s", p->name,
		    p->mode, short_count(p->requests, t[0]), p->facts, p->pressure,
		    short_share(p->wait_error, t[1]));
	}
}

/* ---- servers ------------------------------------------------------------------------------ */

struct row {
	const struct status_server *s;
	double picked;		/* of all servers of its pool, a share */
	size_t place;		/* in the answer: of equal ones, the first stays first */
	const struct top_view *v;
};

static double hits_of(const struct status_server *s)
{
	return s->hit_tokens;
}

/* Columns from the most to the least important; those that do not fit are left out. */
static const struct column {
	char key;
	const char *title;
	int width;
} columns[] = {
	{ 'o', "OPEN", 5 }, { 'w', "WAIT_S", 7 }, { 'p', "PICKED", 7 }, { 'h', "HIT_TOK", 8 },
	{ 'c', "CACHE", 6 }, { 's', "STATE", 7 }, { 'f', "FAILED", 7 }, { 't', "TOK/S", 7 },
	{ 'k', "KV", 5 },
};

#define N_COLUMNS	(sizeof(columns) / sizeof(columns[0]))
#define NAME_LEAST	10
#define NAME_MOST	30

static const char *state_of(const struct status_server *s)
{
	return s->closed > 0 ? "closed" : s->up > 0 ? "up" : "DOWN";
}

static double value_of(const struct status_server *s, char key)
{
	switch (key) {
	case 'o': return s->open;
	case 'w': return s->backlog_s;
	case 'p': return s->picked;
	case 'h': return hits_of(s);
	case 'c': return share(s->held_tokens, s->capacity_tokens);
	case 's': return s->closed > 0 ? 1 : s->up > 0 ? 0 : 2;
	case 'f': return s->failures;
	case 't': return s->tokens_per_s;
	case 'k': return s->kv_used;
	}
	return 0;
}

static int by_name(const struct status_server *a, const struct status_server *b)
{
	int c = strcmp(a->pool, b->pool);

	return c != 0 ? c : strcmp(a->name, b->name);
}

/* Largest first; names from a to z. */
static int order(const void *x, const void *y)
{
	const struct row *a = x, *b = y;
	double va = value_of(a->s, a->v->sort), vb = value_of(b->s, a->v->sort);
	int c;

	va = isfinite(va) ? va : -1;
	vb = isfinite(vb) ? vb : -1;
	c = a->v->sort == 'n' ? by_name(a->s, b->s) : va == vb ? 0 : va > vb ? -1 : 1;
	if (a->v->reverse)
		c = -c;
	return c != 0 ? c : a->place < b->place ? -1 : 1;
}

/* Tell if a figure comes from a guess, not from what the server was seen to do. */
static bool is_guess(const struct status_server *s, char key)
{
	if (key == 'c')
		return strcmp(s->capacity_source, "guess") == 0;
	return (key == 'w' || key == 't') && (strcmp(s->speed_source, "guess") == 0 ||
	    strcmp(s->speed_source, "pool") == 0);
}

static void cell_text(const struct status_server *s, char key, char out[17])
{
	double v = value_of(s, key);

	if (is_guess(s, key) && isfinite(v))
		*out++ = '~';
	if (key == 's')
		snprintf(out, 16, "%s", state_of(s));
	else if (key == 'c' || key == 'k')
		short_share(v, out);
	else if (key == 'w')
		snprintf(out, 16, "%.2f", v >= 0 && v < 1e6 ? v : 0);
	else
		short_count(v, out);
}

/* Returns the number of columns beside the name that fit, and the width of the name. */
static unsigned fitting(const struct top_view *v, int *name)
{
	int used = NAME_LEAST;
	unsigned n = 0;

	while (n < N_COLUMNS && used + columns[n].width + 1 <= v->columns)
		used += columns[n++].width + 1;
	*name = NAME_LEAST + (v->columns > used ? v->columns - used : 0);
	if (*name > NAME_MOST)
		*name = NAME_MOST;
	return n;
}

static void put_server_head(struct screen *s, unsigned n, int name)
{
	char text[WIDTH_MOST + 1];
	int k = snprintf(text, sizeof(text), "%-*s", name, s->v->sort == 'n' ? "*SERVER" : "SERVER");

	for (unsigned i = 0; i < n; i++) {
		char title[16];

		snprintf(title, sizeof(title), "%s%s", s->v->sort == columns[i].key ? "*" : "",
		    columns[i].title);
		k += snprintf(text + k, sizeof(text) - (size_t)k, " %*s", columns[i].width, title);
	}
	put_linef(s, INVERSE, "%s", text);
}

static void put_server(struct screen *s, const struct row *r, unsigned n, int name)
{
	char text[WIDTH_MOST + 1], cell[17], full[2 * STATUS_NAME + 1];
	int k;

	snprintf(full, sizeof(full), "%s/%s", r->s->pool, r->s->name);
	k = snprintf(text, sizeof(text), "%-*.*s", name, name,
	    (int)strlen(full) <= name ? full : r->s->name);
	for (unsigned i = 0; i < n; i++) {
		cell_text(r->s, columns[i].key, cell);
		k += snprintf(text + k, sizeof(text) - (size_t)k, " %*.*s", columns[i].width,
		    columns[i].width, cell);
	}
	put_linef(s, r->s->up > 0 ? PLAIN : RED, "%s", text);
}

static void put_servers(struct screen *s, const struct status *now)
{
	struct row *row = now->servers.n > 0 ? calloc(now->servers.n, sizeof(*row)) : NULL;
	int name;
	unsigned n = fitting(s->v, &name);

	put_server_head(s, n, name);
	for (size_t i = 0; row != NULL && i < now->servers.n; i++)
		row[i] = (struct row){ .s = &now->servers.p[i], .place = i, .v = s->v };
	if (row != NULL)
		qsort(row, now->servers.n, sizeof(*row), order);
	for (size_t i = 0; row != NULL && i < now->servers.n; i++) {
		if (left(s) == 1 && i + 1 < now->servers.n) {
			put_linef(s, DIM, "and %zu more", now->servers.n - i);
			break;
		}
		put_server(s, &row[i], n, name);
	}
	free(row);
}

/* ---- the screen --------------------------------------------------------------------------- */

bool top_view_key(struct top_view *v, char key)
{
	bool known = key == 'n';

	for (size_t i = 0; i < N_COLUMNS; i++)
		known |= columns[i].key == key;
	if (key == 'r')
		v->reverse = !v->reverse;
	else if (known)
		v->sort = key;
	return known || key == 'r';
}

void top_view_draw(const struct top_view *v, const struct status *now,
    const struct status *before, struct buf *out)
{
	struct screen s = { v, out, 0 };

	if (v->columns < 1 || (v->rows != 0 && v->rows < 2))
		return;
	if (v->rows > 0)
		buf_str(out, "\033[H");
	put_head(&s, now, before);
	put_problems(&s, now);
	put_pools(&s, now);
	put_servers(&s, now);
	if (v->rows == 0)
		return;
	buf_str(out, "\033[J");
	while (s.line < v->rows - 1)
		put_line(&s, PLAIN, "");
	put_line(&s, INVERSE, "q quit  sort: n o w p h c s f t k  r reverse");
}
