/* update.c - the diff from an attached configuration to the same one attached anew: what --remove
 * and --write would make of it, in one step.
 *
 *   files --without marked lines--> a second doctor --> edits --+
 *   files with marked lines --------------------------------> diff of both
 *
 * The second doctor does not see the SPOE file, because it would refuse to replace it. */
#include "agent/doctor/attach_in.h"

struct update {
	struct doctor *d, *fresh;
	const struct doctor_attach *a;
	const char *spoe;		/* path of the SPOE file */
	struct span spoe_text;
	const char **pools, **fronts;	/* names; NULL ends */
	struct buf *said;
};

/* ---- without marked lines ------------------------------------------------------------------ */

static int open_others(void *arg, const char *path, struct span *text, const char **why)
{
	const struct update *u = arg;

	if (dr_is(path, u->spoe)) {
		*why = "it is written anew";
		return -1;
	}
	return u->d->o.open(u->d->o.arg, path, text, why);
}

/* Return <text> without its marked lines; it lives as long as the doctor. */
static struct span stripped(struct dr_plan *p, unsigned file)
{
	const dr_raws *raws = &p->raws.p[file];
	struct buf b = { 0 };
	const char *text;
	size_t n;

	for (size_t i = 0; i < raws->n; i++) {
		if (dr_marked(raws->p[i].text))
			continue;
		buf_span(&b, raws->p[i].text);
		buf_str(&b, "\n");
	}
	p->d->mem.nomem = p->d->mem.nomem || b.failed;
	n = b.n;
	text = dr_text(&p->d->mem, n > 0 ? b.p : "", n);
	buf_free(&b);
	return span_of(text, n);
}

static struct doctor *without_marks(struct update *u, struct dr_plan *old)
{
	struct doctor_opts o = u->d->o;
	struct doctor *fresh;

	o.open = open_others;
	o.arg = u;
	if ((fresh = doctor_new(&o)) == NULL) {
		u->d->mem.nomem = true;
		return NULL;
	}
	for (unsigned i = 0; i < u->d->files.n; i++)
		doctor_file(fresh, u->d->files.p[i].path, stripped(old, i));
	if (doctor_check(fresh) < 0)
		u->d->mem.nomem = true;
	return fresh;
}

/* ---- what was attached --------------------------------------------------------------------- */

/* Find the SPOE file of the marked filters, and their backends. */
static void find_pools(struct update *u, struct dr_plan *old)
{
	struct doctor *d = u->d;
	const char *why;
	size_t n = 0;

	if ((u->pools = dr_alloc(&d->mem, (d->attached.n + 1) * sizeof(*u->pools))) == NULL)
		return;
	for (size_t i = 0; i < d->attached.n; i++) {
		const struct dr_attached *a = &d->attached.p[i];

		if (!dr_line_marked(old, &a->filter))
			continue;
		if (u->spoe == NULL)
			u->spoe = a->path;
		u->pools[n++] = d->sections.p[a->section].name;
	}
	if (u->spoe == NULL) {
		dr_refuse(old, NULL, "no filter line ends with \"%s\", so there is nothing that --write added: "
		    "attach this configuration with --write, or name all of its files with -c", DOCTOR_MARK);
	} else if (d->o.open(d->o.arg, u->spoe, &u->spoe_text, &why) < 0) {
		u->spoe_text = SPAN("");
	} else if (!dr_wrote(u->spoe_text)) {
		dr_refuse(old, NULL, "%s: this SPOE file does not begin as --write begins it, so --update leaves "
		    "it alone: edit it by hand, or attach anew with --remove, --write and --spoe FILE", u->spoe);
	}
}

static bool has_mark(struct dr_plan *old, const struct dr_section *s)
{
	for (size_t i = 0; i < s->lines.n; i++) {
		if (dr_line_marked(old, &s->lines.p[i]))
			return true;
	}
	return false;
}

static bool leads_to_pool(const struct update *u, const struct dr_section *f)
{
	const struct dr_section *b;

	for (const char **p = u->pools; *p != NULL; p++) {
		if ((b = dr_named(u->d, DR_BACKS, *p)) != NULL && dr_lead(u->d, f, b) == DR_LEADS)
			return true;
	}
	return false;
}

/* The frontends that had lines, and those that certainly lead to a pool now. */
static void find_fronts(struct update *u, struct dr_plan *old)
{
	struct doctor *d = u->d;
	size_t n = 0;

	if ((u->fronts = dr_alloc(&d->mem, (d->sections.n + 1) * sizeof(*u->fronts))) == NULL)
		return;
	for (size_t i = 0; i < d->sections.n; i++) {
		const struct dr_section *s = &d->sections.p[i];

		if (dr_is_front(s) && (leads_to_pool(u, s) || (s->kind == DR_FRONTEND && has_mark(old, s))))
			u->fronts[n++] = s->name;
	}
}

/* ---- the diff ------------------------------------------------------------------------------ */

/* Returns true if something changes. */
static bool put_update(struct update *u, struct dr_plan *p, struct buf *diff)
{
	struct doctor *d = u->d;
	size_t from = 0, to;
	struct buf spoe = { 0 };
	bool changes = false;
	const char *name = dr_diff_name(d, u->a->root, u->spoe);

	dr_sort_edits(&p->edits);
	for (unsigned i = 0; i < d->files.n; i++, from = to) {
		for (to = from; to < p->edits.n && p->edits.p[to].file == i; to++)
			continue;
		changes |= dr_diff_update(d, diff, dr_diff_name(d, u->a->root, d->files.p[i].path),
		    d->files.p[i].text, p->edits.p + from, to - from);
	}
	dr_plan_spoe(p, &spoe);
	d->mem.nomem = d->mem.nomem || spoe.failed;
	if (!spoe.failed && u->spoe_text.n == 0)
		dr_diff_whole(diff, name, span_of(spoe.p, spoe.n), changes = true);
	else if (!spoe.failed)
		changes |= dr_diff_texts(d, diff, name, u->spoe_text, span_of(spoe.p, spoe.n));
	buf_free(&spoe);
	return changes;
}

static int write_update(struct update *u, const struct dr_plan *old, struct buf *diff)
{
	const struct doctor_attach o = {
		.pools = u->a->pools != NULL ? u->a->pools : u->pools,
		.frontends = u->a->frontends != NULL ? u->a->frontends : u->fronts,
		.spoe = u->spoe, .root = u->a->root,
	};
	struct dr_plan p = { .d = u->fresh, .o = &o, .said = u->said, .marked = old };
	int status;

	if (dr_plan_attach(&p) && !put_update(u, &p, diff))
		dr_note(&p, NULL, "the lines are up to date, so the diff is empty");
	status = dr_plan_status(&p, diff);
	dr_plan_free(&p);
	return status;
}

int doctor_update(struct doctor *d, const struct doctor_attach *a, struct buf *diff,
		  struct buf *said)
{
	struct update u = { .d = d, .a = a, .said = said };
	struct dr_plan old = { .d = d, .o = a, .said = said };
	size_t before = diff->n;
	int status;

	if (dr_plan_read(&old)) {
		dr_check_ends(&old);
		dr_plan_remove(&old);
		find_pools(&u, &old);
	}
	if (dr_plan_status(&old, diff) == 0)
		find_fronts(&u, &old);
	if (dr_plan_status(&old, diff) == 0)
		u.fresh = without_marks(&u, &old);
	if ((status = dr_plan_status(&old, diff)) == 0)
		status = write_update(&u, &old, diff);
	if (status == 0)
		status = dr_plan_status(&old, diff);
	doctor_free(u.fresh);
	dr_plan_free(&old);
	if (status < 0)
		diff->n = before;
	return status;
}
