/* diff.c - unified diffs of files that gain or lose whole lines. */
#include <stdio.h>

#include "agent/doctor/attach_in.h"

#define CONTEXT	3

struct diff_row {
	char op;		/* ' ', '+', '-' */
	bool open;		/* without "\n" */
	struct span text;
};

typedef VEC(struct diff_row) diff_rows;

struct diff_writer {
	struct doctor *d;
	diff_rows rows;
};

static void push(struct diff_writer *w, char op, struct span text)
{
	if (vec_push(&w->rows, (struct diff_row){ op, false, text }) < 0)
		w->d->mem.nomem = true;
}

static void push_text(struct diff_writer *w, const char *text)
{
	const char *stop;

	for (; (stop = strchr(text, '\n')) != NULL; text = stop + 1)
		push(w, '+', span_of(text, (size_t)(stop - text)));
}

/* Write the hunk of rows <from> to <to>, exclusive. */
static void put_hunk(struct buf *out, const struct diff_row *r, size_t from, size_t to,
		     const unsigned at[2])
{
	unsigned n[2] = { 0, 0 };
	char head[96];

	for (size_t i = from; i < to; i++) {
		n[0] += r[i].op != '+';
		n[1] += r[i].op != '-';
	}
	snprintf(head, sizeof(head), "@@ -%u,%u +%u,%u @@\n", at[0] + (n[0] > 0), n[0],
	    at[1] + (n[1] > 0), n[1]);
	buf_str(out, head);
	for (size_t i = from; i < to; i++) {
		buf_add(out, &r[i].op, 1);
		buf_span(out, r[i].text);
		buf_str(out, r[i].open ? "\n\\ No newline at end of file\n" : "\n");
	}
}

static size_t next_change(const diff_rows *rows, size_t from)
{
	while (from < rows->n && rows->p[from].op == ' ')
		from++;
	return from;
}

static void put_hunks(struct buf *out, const diff_rows *rows)
{
	unsigned at[2] = { 0, 0 };	/* lines before row <counted>, in the old file and the new */
	size_t counted = 0, from, change = next_change(rows, 0), end;

	while (change < rows->n) {
		from = change > counted + CONTEXT ? change - CONTEXT : counted;
		for (end = change; change < rows->n && change <= end + 2 * CONTEXT;
		    change = next_change(rows, end))
			end = change + 1;
		end = end + CONTEXT < rows->n ? end + CONTEXT : rows->n;
		at[0] += (unsigned)(from - counted);
		at[1] += (unsigned)(from - counted);
		put_hunk(out, rows->p, from, end, at);
		for (; from < end; from++) {
			at[0] += rows->p[from].op != '+';
			at[1] += rows->p[from].op != '-';
		}
		counted = end;
	}
}

/* A tab ends a name with blanks. */
static void put_names(struct buf *to, const char *name, bool create, bool delete)
{
	const char *end = strchr(name, ' ') != NULL ? "\t\n" : "\n";

	buf_str(to, create ? "--- /dev/null" : "--- a/");
	buf_str(to, create ? "" : name);
	buf_str(to, create ? "\n" : end);
	buf_str(to, delete ? "+++ /dev/null" : "+++ b/");
	buf_str(to, delete ? "" : name);
	buf_str(to, delete ? "\n" : end);
}

/* Write the hunks, if there is a change. */
static bool put_rows(struct diff_writer *w, struct buf *to, const char *name)
{
	bool changes = next_change(&w->rows, 0) < w->rows.n && !w->d->mem.nomem;

	if (changes) {
		put_names(to, name, false, false);
		put_hunks(to, &w->rows);
	}
	vec_free(&w->rows);
	return changes;
}

bool dr_diff_file(struct doctor *d, struct buf *to, const char *name, struct span text,
		  const struct dr_edit *adds, size_t n, bool marked)
{
	struct diff_writer w = { .d = d };
	dr_raws raws = { 0 };
	size_t k = 0;

	if (dr_raw_read(text, &raws) < 0)
		d->mem.nomem = true;
	for (size_t i = 0; i <= raws.n; i++) {
		for (; k < n && adds[k].after == i; k++)
			push_text(&w, adds[k].text);
		if (i < raws.n)
			push(&w, marked && dr_marked(raws.p[i].text) ? '-' : ' ', raws.p[i].text);
	}
	if (w.rows.n > 0 && text.n > 0 && text.p[text.n - 1] != '\n')
		w.rows.p[w.rows.n - 1].open = true;
	vec_free(&raws);
	return put_rows(&w, to, name);
}

/* Replace <from> by <by>: lines that both begin or end with stay. */
static void push_change(struct diff_writer *w, const dr_raws *from, const dr_raws *by)
{
	size_t head = 0, tail = 0, least = from->n < by->n ? from->n : by->n;

	while (head < least && span_eq(from->p[head].text, by->p[head].text))
		push(w, ' ', from->p[head++].text);
	while (tail < least - head &&
	    span_eq(from->p[from->n - 1 - tail].text, by->p[by->n - 1 - tail].text))
		tail++;
	for (size_t i = head; i < from->n - tail; i++)
		push(w, '-', from->p[i].text);
	for (size_t i = head; i < by->n - tail; i++)
		push(w, '+', by->p[i].text);
	for (size_t i = from->n - tail; i < from->n; i++)
		push(w, ' ', from->p[i].text);
}

bool dr_diff_update(struct doctor *d, struct buf *to, const char *name, struct span text,
		    const struct dr_edit *adds, size_t n)
{
	struct diff_writer w = { .d = d };
	dr_raws raws = { 0 }, from = { 0 }, by = { 0 };
	size_t k = 0, kept = 0;

	if (dr_raw_read(text, &raws) < 0)
		d->mem.nomem = true;
	for (size_t i = 0; i <= raws.n && !d->mem.nomem; i++) {
		if (i < raws.n && dr_marked(raws.p[i].text)) {
			if (vec_push(&from, raws.p[i]) < 0)
				d->mem.nomem = true;
			continue;
		}
		for (; k < n && adds[k].after == kept; k++)
			if (dr_raw_read(span_str(adds[k].text), &by) < 0)
				d->mem.nomem = true;
		push_change(&w, &from, &by);
		from.n = by.n = 0;
		kept++;
		if (i < raws.n)
			push(&w, ' ', raws.p[i].text);
	}
	vec_free(&raws);
	vec_free(&from);
	vec_free(&by);
	return put_rows(&w, to, name);
}

bool dr_diff_texts(struct doctor *d, struct buf *to, const char *name, struct span text,
		   struct span then)
{
	struct diff_writer w = { .d = d };
	dr_raws from = { 0 }, by = { 0 };

	if (dr_raw_read(text, &from) < 0 || dr_raw_read(then, &by) < 0)
		d->mem.nomem = true;
	push_change(&w, &from, &by);
	vec_free(&from);
	vec_free(&by);
	return put_rows(&w, to, name);
}

void dr_diff_whole(struct buf *to, const char *name, struct span text, bool create)
{
	const char *p = text.n > 0 ? text.p : "", *end = p + text.n, *stop;
	unsigned n = 0;
	char head[64];

	for (size_t i = 0; i < text.n; i++)
		n += text.p[i] == '\n' || i + 1 == text.n;
	put_names(to, name, create, !create);
	snprintf(head, sizeof(head), create ? "@@ -0,0 +1,%u @@\n" : "@@ -1,%u +0,0 @@\n", n);
	buf_str(to, head);
	for (; p < end; p = stop + 1) {
		if ((stop = memchr(p, '\n', (size_t)(end - p))) == NULL)
			stop = end;
		buf_str(to, create ? "+" : "-");
		buf_add(to, p, (size_t)(stop - p));
		buf_str(to, stop == end ? "\n\\ No newline at end of file\n" : "\n");
	}
}

/* GNU patch refuses names with ".." and takes a name up to a tab. */
const char *dr_diff_name(struct doctor *d, const char *root, const char *path)
{
	size_t n = strlen(root);

	if (path[0] == '/') {
		if (strncmp(path, root, n) != 0 || path[n] != '/')
			return NULL;
		path += n + 1;
	}
	while (path[0] == '.' && path[1] == '/')
		path += 2;
	for (const char *c = path; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == '"' || (c[0] == '.' && c[1] == '.' &&
		    (c == path || c[-1] == '/') && (c[2] == '/' || c[2] == '\0')))
			return NULL;
	}
	return *path != '\0' ? dr_printf(&d->mem, "%s", path) : NULL;
}
