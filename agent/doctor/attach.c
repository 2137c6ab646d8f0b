/* attach.c - the whole diff: choose pools and frontends, judge, edit; or the removal of it all. */
#include "agent/base/mem.h"
#include "agent/doctor/attach_in.h"

/* ---- what is said -------------------------------------------------------------------------- */

/* Return the number of a line in the file that the operator has. */
static unsigned real_line(const struct dr_plan *p, const struct dr_line *at)
{
	const dr_raws *raws;
	unsigned no = 0, left = at->no;

	if (p->marked == NULL)
		return at->no;
	raws = &p->marked->raws.p[dr_file_of(p->marked->d, at->file)];
	while (no < raws->n && left > 0)
		left -= !dr_marked(raws->p[no++].text);
	return no;
}

__attribute__((format(printf, 3, 0)))
static void say(struct dr_plan *p, const struct dr_line *at, const char *fmt, va_list ap)
{
	if (at != NULL)
		buf_str(p->said, dr_printf(&p->d->mem, "%s:%u: ", at->file, real_line(p, at)));
	buf_str(p->said, dr_vprintf(&p->d->mem, fmt, ap));
	buf_str(p->said, "\n");
}

__attribute__((format(printf, 4, 0)))
static void refuse(struct dr_plan *p, bool fault, const struct dr_line *at, const char *fmt,
    va_list ap)
{
	if (!p->refused)
		buf_start(p->said, 0);
	p->asks = !fault && (p->asks || !p->refused);
	p->refused = true;
	say(p, at, fmt, ap);
}

void dr_refuse(struct dr_plan *p, const struct dr_line *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	refuse(p, true, at, fmt, ap);
	va_end(ap);
}

void dr_ask(struct dr_plan *p, const struct dr_line *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	refuse(p, false, at, fmt, ap);
	va_end(ap);
}

void dr_note(struct dr_plan *p, const struct dr_line *at, const char *fmt, ...)
{
	va_list ap;

	if (p->refused)
		return;
	va_start(ap, fmt);
	say(p, at, fmt, ap);
	va_end(ap);
}

int dr_plan_status(const struct dr_plan *p, const struct buf *diff)
{
	if (p->d->mem.nomem || diff->failed || p->said->failed)
		return DOCTOR_NOMEM;
	return !p->refused ? 0 : p->asks ? DOCTOR_ASKS : DOCTOR_REFUSED;
}

unsigned dr_file_of(const struct doctor *d, const char *path)
{
	for (unsigned i = 0; i < d->files.n; i++) {
		if (dr_is(d->files.p[i].path, path))
			return i;
	}
	return 0;
}

bool dr_line_marked(const struct dr_plan *p, const struct dr_line *at)
{
	const dr_raws *raws = &p->raws.p[dr_file_of(p->d, at->file)];

	return at->no <= raws->n && dr_marked(raws->p[at->no - 1].text);
}

bool dr_option(const struct doctor *d, const struct dr_section *s, const char *name)
{
	return dr_find(d, s, "option", name) != NULL;
}

/* ---- attach -------------------------------------------------------------------------------- */

bool dr_plan_read(struct dr_plan *p)
{
	struct doctor *d = p->d;

	for (size_t i = 0; i < d->files.n; i++) {
		dr_raws raws = { 0 };

		if (dr_raw_read(d->files.p[i].text, &raws) < 0 || vec_push(&p->raws, raws) < 0) {
			vec_free(&raws);
			d->mem.nomem = true;
			return false;
		}
	}
	return true;
}

/* Edits of one place keep their order: an insertion sort is stable, and there are few. */
void dr_sort_edits(dr_edits *e)
{
	for (size_t i = 1; i < e->n; i++) {
		struct dr_edit moved = e->p[i];
		size_t k = i;

		for (; k > 0 && (e->p[k - 1].file != moved.file ? e->p[k - 1].file > moved.file :
		    e->p[k - 1].after > moved.after); k--)
			e->p[k] = e->p[k - 1];
		e->p[k] = moved;
	}
}

static void put_diff(struct dr_plan *p, struct buf *diff)
{
	struct doctor *d = p->d;
	size_t from = 0, to;
	struct buf spoe = { 0 };

	dr_sort_edits(&p->edits);
	for (unsigned i = 0; i < d->files.n; i++, from = to) {
		for (to = from; to < p->edits.n && p->edits.p[to].file == i; to++)
			continue;
		dr_diff_file(d, diff, dr_diff_name(d, p->o->root, d->files.p[i].path),
		    d->files.p[i].text, p->edits.p + from, to - from, false);
	}
	dr_plan_spoe(p, &spoe);
	d->mem.nomem = d->mem.nomem || spoe.failed;
	if (!spoe.failed)
		dr_diff_whole(diff, dr_diff_name(d, p->o->root, p->o->spoe), span_of(spoe.p, spoe.n), true);
	buf_free(&spoe);
}

static void check_name(struct dr_plan *p, const char *path, const char *otherwise)
{
	if (dr_diff_name(p->d, p->o->root, path) == NULL)
		dr_refuse(p, NULL, "%s: a diff cannot name this file, because \"..\", a double quote or a "
		    "control character is in its name: give an absolute path, or %s", path, otherwise);
}

/* Refuse names that a diff cannot carry, and a file that exists. */
static void check_names(struct dr_plan *p)
{
	struct doctor *d = p->d;
	struct span text;
	const char *why;

	for (size_t i = 0; i < d->files.n; i++)
		check_name(p, d->files.p[i].path, "rename it");
	if (p->o->spoe == NULL)
		return;
	check_name(p, p->o->spoe, "name another with --spoe");
	if (!p->refused && d->o.open != NULL && d->o.open(d->o.arg, p->o->spoe, &text, &why) == 0)
		dr_ask(p, NULL, "%s: this file exists, and the diff would create it: name another with "
		    "--spoe FILE, or delete it if nothing uses it", p->o->spoe);
}

void dr_check_ends(struct dr_plan *p)
{
	for (size_t i = 0; i < p->d->files.n; i++) {
		struct span text = p->d->files.p[i].text;

		if (text.n > 0 && text.p[text.n - 1] != '\n')
			dr_refuse(p, NULL, "%s: the last line has no end, so HAProxy does not start: add a newline",
			    p->d->files.p[i].path);
	}
}

static void check_lines(struct dr_plan *p)
{
	struct doctor *d = p->d;

	for (size_t i = 0; i < d->findings.n; i++) {
		const struct doctor_finding *f = &d->findings.p[i];
		struct dr_line at = { .file = f->file, .no = f->line };

		if (f->severity == DOCTOR_UNREADABLE)
			dr_refuse(p, &at, "this line cannot be read (%s): %s", f->subject, f->remedy);
	}
	if (p->refused)
		return;
	dr_check_ends(p);
	for (unsigned i = 0; i < p->raws.n; i++) {
		struct span text = d->files.p[i].text;

		if (text.n > 0 && memchr(text.p, '\0', text.n) != NULL)
			dr_refuse(p, NULL, "%s: the file has a NUL byte, which no diff can carry: delete it",
			    d->files.p[i].path);
		for (unsigned k = 0; k < p->raws.p[i].n; k++) {
			struct dr_line at = { .file = d->files.p[i].path, .no = k + 1 };

			if (!dr_marked(p->raws.p[i].p[k].text))
				continue;
			dr_refuse(p, &at, "this line ends with \"%s\", so --write has attached this configuration "
			    "already: bring it up to date with --update, or take kvroute out with --remove",
			    DOCTOR_MARK);
			return;
		}
	}
}

void dr_plan_free(struct dr_plan *p)
{
	for (size_t i = 0; i < p->raws.n; i++)
		vec_free(&p->raws.p[i]);
	vec_free(&p->raws);
	vec_free(&p->pools);
	vec_free(&p->fronts);
	vec_free(&p->edits);
	buf_free(&p->text);
}

bool dr_plan_attach(struct dr_plan *p)
{
	struct doctor *d = p->d;

	if (!dr_plan_read(p))
		return false;
	check_lines(p);
	if (!p->refused && d->attached.n > 0)
		dr_refuse(p, &d->attached.p[0].filter, "kvroute is attached by this line already, by hand: "
		    "\"kvroutectl doctor\" says what is wrong with it; to let --write do it, remove its lines "
		    "first");
	if (!p->refused)
		check_names(p);
	if (!p->refused)
		dr_plan_choose(p);
	if (!p->refused)
		dr_plan_judge(p);
	if (p->refused || d->mem.nomem)
		return false;
	dr_plan_edit(p);
	return !p->refused && !d->mem.nomem;
}

static int end_plan(struct dr_plan *p, struct buf *diff, size_t before)
{
	int status = dr_plan_status(p, diff);

	if (status < 0)
		diff->n = before;
	dr_plan_free(p);
	return status;
}

int doctor_attach(struct doctor *d, const struct doctor_attach *a, struct buf *diff,
		  struct buf *said)
{
	struct dr_plan p = { .d = d, .o = a, .said = said };
	size_t before = diff->n;

	if (dr_plan_attach(&p))
		put_diff(&p, diff);
	return end_plan(&p, diff, before);
}

/* ---- detach -------------------------------------------------------------------------------- */

bool dr_wrote(struct span text)
{
	static const char begin[] = DR_SPOE_BEGIN "\n";

	return text.n >= sizeof(begin) - 1 && memcmp(text.p, begin, sizeof(begin) - 1) == 0;
}

/* Tell if a filter that is not marked uses the file <path>, or if an earlier one did. */
static bool file_stays(const struct dr_plan *p, const char *path, size_t before)
{
	for (size_t i = 0; i < p->d->attached.n; i++) {
		const struct dr_attached *a = &p->d->attached.p[i];

		if (dr_is(a->path, path) && (i < before || !dr_line_marked(p, &a->filter)))
			return true;
	}
	return false;
}

static void delete_spoe(struct dr_plan *p, struct buf *diff)
{
	struct doctor *d = p->d;
	const char *why = NULL, *name;
	struct span text;

	for (size_t i = 0; i < d->attached.n; i++) {
		const struct dr_attached *a = &d->attached.p[i];

		if (file_stays(p, a->path, i) || d->o.open(d->o.arg, a->path, &text, &why) < 0 ||
		    !dr_wrote(text))
			continue;
		if ((name = dr_diff_name(d, p->o->root, a->path)) != NULL)
			dr_diff_whole(diff, name, text, false);
		else
			dr_note(p, &a->filter, "delete %s by hand: the diff cannot name it", a->path);
	}
}

int doctor_detach(struct doctor *d, const struct doctor_attach *a, struct buf *diff,
		  struct buf *said)
{
	const struct doctor_attach o = { .root = a->root };
	struct dr_plan p = { .d = d, .o = &o, .said = said };
	size_t before = diff->n;
	unsigned changed = 0;

	if (dr_plan_read(&p)) {
		check_names(&p);
		dr_plan_remove(&p);
	}
	for (unsigned i = 0; i < p.raws.n && !p.refused; i++)
		changed += dr_diff_file(d, diff, dr_diff_name(d, o.root, d->files.p[i].path),
		    d->files.p[i].text, NULL, 0, true);
	if (!p.refused && changed > 0)
		delete_spoe(&p, diff);
	if (!p.refused && changed == 0)
		dr_refuse(&p, NULL, "no line ends with \"%s\", so there is nothing that --write added: name "
		    "all files of the configuration with -c, or, if kvroute was attached by hand, remove the "
		    "lines that haproxy-conf/README.md lists", DOCTOR_MARK);
	return end_plan(&p, diff, before);
}
