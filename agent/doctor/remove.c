/* remove.c - lines that would silently change their meaning if the marked lines were deleted. */
#include "agent/doctor/attach_in.h"

struct removal {
	struct dr_plan *p;
	unsigned file;
	unsigned section;		/* line of the section's opening, if it is marked; else 0 */
	unsigned opened[DR_DEPTH];	/* line of each .if around */
	bool marked[DR_DEPTH];		/* that line is marked */
	unsigned depth, n_marked;
};

static struct dr_line place(const struct removal *r, unsigned no)
{
	return (struct dr_line){ .file = r->p->d->files.p[r->file].path, .no = no };
}

/* Return the line of the innermost marked .if. */
static unsigned marked_if(const struct removal *r)
{
	for (unsigned i = r->depth; i-- > 0;) {
		if (r->marked[i])
			return r->opened[i];
	}
	return 0;
}

/* Follow an .endif. Refuse if only one of the two lines is marked. */
static void end_if(struct removal *r, unsigned no, bool marked)
{
	struct dr_line at;

	if (r->depth == 0)
		return;
	r->depth--;
	r->n_marked -= r->marked[r->depth];
	if (r->marked[r->depth] == marked)
		return;
	at = place(r, marked ? r->opened[r->depth] : no);
	dr_refuse(r->p, &at, "only one of this line and line %u ends with \"%s\": delete both, or neither",
	    marked ? no : r->opened[r->depth], DOCTOR_MARK);
}

static void begin_if(struct removal *r, unsigned no, bool marked)
{
	if (r->depth == DR_DEPTH)
		return;		/* the configuration is unreadable */
	r->opened[r->depth] = no;
	r->marked[r->depth++] = marked;
	r->n_marked += marked;
}

/* Judge an unmarked line that has words. */
static void judge_kept(struct removal *r, unsigned no, struct span word)
{
	struct dr_line at = place(r, no);

	if (r->n_marked > 0)
		dr_refuse(r->p, &at, "this line depends on the .if in line %u, which --remove deletes: move or "
		    "delete this line first", marked_if(r));
	else if (r->section > 0 && word.p[0] != '.')
		dr_refuse(r->p, &at, "this line belongs to the section of line %u, which --remove deletes: "
		    "move or delete this line first", r->section);
}

static void judge_file(struct removal *r)
{
	const dr_raws *raws = &r->p->raws.p[r->file];

	for (unsigned no = 1; no <= raws->n; no++) {
		const struct dr_raw *raw = &raws->p[no - 1];
		bool marked = dr_marked(raw->text);

		if (raw->word.n == 0)
			continue;
		if (dr_opens_section(raw->word))
			r->section = marked ? no : 0;
		if (span_eq(raw->word, SPAN(".endif")))
			end_if(r, no, marked);
		else if (!marked)
			judge_kept(r, no, raw->word);
		if (span_eq(raw->word, SPAN(".if")))
			begin_if(r, no, marked);
	}
}

/* A proxy with the defaults of a section that goes takes others, or none. */
static void judge_defaults(struct dr_plan *p)
{
	const struct doctor *d = p->d;

	for (size_t i = 0; i < d->sections.n; i++) {
		const struct dr_section *s = &d->sections.p[i], *base;

		if (s->base < 0 || dr_line_marked(p, &s->at))
			continue;
		base = &d->sections.p[s->base];
		if (!dr_line_marked(p, &base->at))
			continue;
		dr_refuse(p, &s->at, "this section has the defaults of line %u, which --remove deletes: move "
		    "it above that line, or name others with \"from\"", base->at.no);
	}
}

void dr_plan_remove(struct dr_plan *p)
{
	for (unsigned i = 0; i < p->raws.n; i++) {
		struct removal r = { .p = p, .file = i };

		judge_file(&r);
	}
	judge_defaults(p);
}
