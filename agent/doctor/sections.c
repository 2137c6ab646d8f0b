/* sections.c - lines of HAProxy's files into sections, and the section of defaults that each
 * proxy takes: that named by "from", else the last one before it. */
#include <ctype.h>
#include <string.h>

#include "agent/base/mem.h"
#include "agent/doctor/doctor_in.h"

static const struct {
	const char *word;
	enum dr_kind kind;
} openings[] = {
	{ "global", DR_GLOBAL }, { "defaults", DR_DEFAULTS }, { "frontend", DR_FRONTEND },
	{ "backend", DR_BACKEND }, { "listen", DR_LISTEN }, { "ring", DR_RING },
	{ "peers", DR_OTHER }, { "resolvers", DR_OTHER }, { "userlist", DR_OTHER },
	{ "cache", DR_OTHER }, { "program", DR_OTHER }, { "log-forward", DR_OTHER },
	{ "http-errors", DR_OTHER }, { "mailers", DR_OTHER }, { "fcgi-app", DR_OTHER },
	{ "crt-store", DR_OTHER }, { "traces", DR_OTHER }, { "acme", DR_OTHER },
	{ "log-profile", DR_OTHER }, { "dynamic-update", DR_OTHER }, { "healthcheck", DR_OTHER },
};

#define N_OPENINGS	(sizeof(openings) / sizeof(openings[0]))

bool dr_opens_section(struct span word)
{
	for (size_t i = 0; i < N_OPENINGS; i++) {
		if (span_eq(word, span_str(openings[i].word)))
			return true;
	}
	return false;
}

static int find_defaults(const struct doctor *d, const char *name)
{
	for (size_t i = d->sections.n; i-- > 0;) {
		const struct dr_section *s = &d->sections.p[i];

		if (s->kind == DR_DEFAULTS && dr_is(s->name, name))
			return (int)i;
	}
	return -1;
}

static void open_section(struct doctor *d, const struct dr_line *l, enum dr_kind kind)
{
	unsigned from = dr_word(l, "from", 1);
	struct dr_section s = {
		.kind = kind, .name = l->n > 1 && from != 1 ? l->w[1] : "",
		.from = from > 0 ? l->w[from + 1] : "", .at = *l, .base = -1,
	};

	if (from > 0 && (s.base = find_defaults(d, s.from)) < 0)
		dr_say(d, DR_UNREADABLE, l, s.from, "no section \"defaults %s\" precedes it", s.from);
	else if (from == 0 && dr_proxy(&s))
		s.base = d->defaults;
	if (vec_push(&d->sections, s) < 0) {
		d->mem.nomem = true;
		return;
	}
	d->place = IN_SECTION;
	if (kind == DR_DEFAULTS)
		d->defaults = (int)d->sections.n - 1;
}

/* Of the lines before the first section of a file, the first one is told. */
static void say_outside(struct doctor *d, const struct dr_line *l)
{
	if (d->place == OUTSIDE_TOLD)
		return;
	d->place = OUTSIDE_TOLD;
	if (d->files.n == 1)
		dr_say(d, DR_UNREADABLE, l, l->w[0], "the line is in no section; the first word of a "
		    "section is unknown");
	else
		dr_say(d, DR_UNREADABLE, l, l->w[0], "the line is in no section, because a section ends with "
		    "its file, and HAProxy does not start: move the line and those after it to the file of "
		    "their section");
}

static void put_line(struct doctor *d, void *arg, const struct dr_line *l)
{
	for (size_t i = 0; i < N_OPENINGS; i++) {
		if (dr_is(l->w[0], openings[i].word)) {
			open_section(d, l, openings[i].kind);
			return;
		}
	}
	if (d->place != IN_SECTION) {
		say_outside(d, l);
		return;
	}
	if (d->sections.p[d->sections.n - 1].kind == DR_GLOBAL)
		dr_take_env(d, l);
	if (vec_push(&d->sections.p[d->sections.n - 1].lines, *l) < 0)
		d->mem.nomem = true;
}

void doctor_file(struct doctor *d, const char *path, struct span text)
{
	struct dr_file f = { dr_text(&d->mem, path, strlen(path)), text };

	if (vec_push(&d->files, f) < 0) {
		d->mem.nomem = true;
		return;
	}
	d->place = OUTSIDE;
	dr_read_lines(d, f.path, text, put_line, NULL);
}

/* ---- lines in effect ----------------------------------------------------------------------- */

unsigned dr_word(const struct dr_line *l, const char *word, unsigned from)
{
	for (unsigned i = from; i < l->n; i++) {
		if (dr_is(l->w[i], word))
			return i;
	}
	return 0;
}

const char *dr_join(struct doctor *d, const struct dr_line *l, unsigned from)
{
	size_t n = 0, at = 0;
	char *to;

	for (unsigned i = from; i < l->n; i++)
		n += strlen(l->w[i]) + 1;
	if ((to = dr_alloc(&d->mem, n + 1)) == NULL)
		return "";
	for (unsigned i = from; i < l->n; i++) {
		size_t len = strlen(l->w[i]);

		memcpy(to + at, l->w[i], len);
		at += len;
		to[at++] = i + 1 < l->n ? ' ' : '\0';
	}
	return to;
}

static const struct dr_line *find_own(const struct dr_section *s, const char *w0, const char *w1,
				      bool *cancelled)
{
	for (size_t i = s->lines.n; i-- > 0;) {
		const struct dr_line *l = &s->lines.p[i];

		if (dr_is(l->w[0], w0) && (w1 == NULL || (l->n > 1 && dr_is(l->w[1], w1))))
			return l;
		if (dr_is(l->w[0], "no") && l->n > 1 && dr_is(l->w[1], w0) &&
		    (w1 == NULL || (l->n > 2 && dr_is(l->w[2], w1)))) {
			*cancelled = true;
			return NULL;
		}
	}
	return NULL;
}

const struct dr_line *dr_find(const struct doctor *d, const struct dr_section *s, const char *w0,
			      const char *w1)
{
	bool cancelled = false;
	const struct dr_line *l;

	for (unsigned deep = 0; deep < 64; deep++) {
		if ((l = find_own(s, w0, w1, &cancelled)) != NULL || cancelled || s->base < 0)
			return l;
		s = &d->sections.p[s->base];
	}
	return NULL;
}

static void collect(const struct doctor *d, const struct dr_section *s, const char *w0,
		    dr_lines *to, unsigned deep)
{
	if (s->base >= 0 && deep < 64)
		collect(d, &d->sections.p[s->base], w0, to, deep + 1);
	for (size_t i = 0; i < s->lines.n; i++) {
		if (dr_is(s->lines.p[i].w[0], w0) && vec_push(to, s->lines.p[i]) < 0)
			((struct doctor *)d)->mem.nomem = true;
	}
}

void dr_collect(const struct doctor *d, const struct dr_section *s, const char *w0, dr_lines *to)
{
	collect(d, s, w0, to, 0);
}

const struct dr_section *dr_named(const struct doctor *d, unsigned kinds, const char *name)
{
	for (size_t i = 0; i < d->sections.n; i++) {
		const struct dr_section *s = &d->sections.p[i];

		if ((kinds >> s->kind & 1) != 0 && dr_is(s->name, name))
			return s;
	}
	return NULL;
}

bool dr_has_variable(struct span text, const char *name)
{
	const char *end = text.p + text.n, *at = text.p;
	size_t n = strlen(name);

	while (at < end && (at = memmem(at, (size_t)(end - at), name, n)) != NULL) {
		at += n;
		if (at == end || (!isalnum((unsigned char)*at) && *at != '_'))
			return true;
	}
	return false;
}
