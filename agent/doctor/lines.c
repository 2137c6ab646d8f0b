/* lines.c - the lines of a file that are active, after ".if", ".elif", ".else" and ".endif"
 * (HAProxy's manual, 2.4). */
#include "agent/doctor/doctor_in.h"

enum branch { BRANCH_TAKEN, BRANCH_OPEN, BRANCH_DONE, BRANCH_OFF };

struct lines_reader {
	struct doctor *d;
	const char *path;
	enum branch at[DR_DEPTH];	/* of each nested .if; OFF: one around it is not taken */
	bool has_else[DR_DEPTH];
	struct dr_line opened[DR_DEPTH];
	unsigned depth;
};

static bool active(const struct lines_reader *r)
{
	return r->depth == 0 || r->at[r->depth - 1] == BRANCH_TAKEN;
}

static void unreadable(struct lines_reader *r, const struct dr_line *l, const char *why)
{
	dr_say(r->d, DR_UNREADABLE, l, why, "correct the line; HAProxy does not start with it");
}

static enum branch judge(struct lines_reader *r, const struct dr_line *l)
{
	const char *why = NULL;
	int yes = dr_condition(&r->d->o, &r->d->env, dr_join(r->d, l, 1), &why);

	if (yes < 0)
		unreadable(r, l, why);
	return yes > 0 ? BRANCH_TAKEN : BRANCH_OPEN;
}

static void begin_if(struct lines_reader *r, const struct dr_line *l)
{
	if (r->depth == DR_DEPTH) {
		unreadable(r, l, "too many nested .if");
		return;
	}
	r->at[r->depth] = active(r) ? judge(r, l) : BRANCH_OFF;
	r->has_else[r->depth] = false;
	r->opened[r->depth++] = *l;
}

static void begin_other(struct lines_reader *r, const struct dr_line *l, bool is_else)
{
	enum branch *b = r->depth > 0 ? &r->at[r->depth - 1] : NULL;

	if (b == NULL || r->has_else[r->depth - 1]) {
		unreadable(r, l, "no .if belongs to it");
		return;
	}
	r->has_else[r->depth - 1] = is_else;
	if (*b == BRANCH_TAKEN)
		*b = BRANCH_DONE;
	else if (*b == BRANCH_OPEN)
		*b = is_else ? BRANCH_TAKEN : judge(r, l);
}

/* Follow a line that begins with '.'. */
static void directive(struct lines_reader *r, const struct dr_line *l)
{
	static const char *const said[] = { ".notice", ".warning", ".diag" };

	if (dr_is(l->w[0], ".if")) {
		begin_if(r, l);
	} else if (dr_is(l->w[0], ".elif") || dr_is(l->w[0], ".else")) {
		begin_other(r, l, dr_is(l->w[0], ".else"));
	} else if (dr_is(l->w[0], ".endif")) {
		if (r->depth == 0)
			unreadable(r, l, "no .if belongs to it");
		r->depth -= r->depth > 0;
	} else if (active(r) && dr_is(l->w[0], ".alert")) {
		unreadable(r, l, "this .alert stops HAProxy");
	} else if (active(r)) {
		for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
			if (dr_is(l->w[0], said[i]))
				return;
		}
		unreadable(r, l, "unknown directive");
	}
}

/* Split a line. Returns false if it has no words. */
static bool take_line(struct lines_reader *r, struct span text, struct dr_line *l)
{
	const char *words[DR_WORDS + 1], *why = NULL;
	int n = dr_split(&r->d->mem, &r->d->env, text, words, &l->unset, &why);

	l->depth = r->depth;
	if (n < 0 && active(r))
		unreadable(r, l, why);
	if (n <= 0)
		return false;
	words[n] = "";
	l->n = (unsigned)n;
	l->w = dr_alloc(&r->d->mem, (size_t)(n + 1) * sizeof(*l->w));
	if (l->w == NULL)
		return false;
	memcpy(l->w, words, (size_t)(n + 1) * sizeof(*l->w));
	return true;
}

void dr_read_lines(struct doctor *d, const char *path, struct span text, dr_put *put,
		   void *arg)
{
	struct lines_reader r = { .d = d, .path = path };
	struct dr_line l = { .file = path };
	const char *p = text.n > 0 ? text.p : "", *end = p + text.n, *stop;

	for (; p < end && d->lines < DR_LINES && !d->mem.nomem; p = stop + 1, d->lines++) {
		if ((stop = memchr(p, '\n', (size_t)(end - p))) == NULL)
			stop = end;
		l = (struct dr_line){ .file = path, .no = l.no + 1 };
		if (!take_line(&r, span_of(p, (size_t)(stop - p)), &l))
			continue;
		if (l.w[0][0] == '.')
			directive(&r, &l);
		else if (active(&r))
			put(d, arg, &l);
	}
	if (d->lines == DR_LINES)
		unreadable(&r, &l, "the files have too many lines");
	if (r.depth > 0)
		unreadable(&r, &r.opened[r.depth - 1], "no .endif ends it");
}
