/* show_text.c - one pass over the JSON. Members of objects are printed at once; a list of objects
 * is kept until its end, because widths of columns depend on all rows. */
#include <stdio.h>

#include "agent/base/json.h"
#include "agent/base/mem.h"
#include "agent/base/vec.h"
#include "agent/loop/show_text.h"

#define LEVELS		4	/* of objects, whose names are put together */
#define NAME_MAX_BYTES	(LEVELS * (JSON_KEY_MAX + 1))

struct cell {
	uint32_t row, column;
	size_t at, n;			/* in <values> */
};

struct table {
	char name[NAME_MAX_BYTES];
	char column[SHOW_COLUMNS_MAX][NAME_MAX_BYTES];
	size_t width[SHOW_COLUMNS_MAX];
	unsigned n_columns;
	uint32_t n_rows;
	VEC(struct cell) cells;
};

struct writer {
	struct buf *out;
	struct json json;
	char name[LEVELS][JSON_KEY_MAX + 1];	/* keys of the open objects, from the root or the row */
	unsigned depth;				/* names in use */
	struct table table;
	unsigned list;				/* depth of the list that is a table; 0: none */
	unsigned skip;				/* depth of a list that is left out; 0: none */
	bool lines;				/* a line was written */
	struct buf value, values;		/* the string being read; all cells */
	bool failed;
};

static void put_name(const struct writer *w, char out[NAME_MAX_BYTES])
{
	size_t n = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < w->depth; i++)
		n += (size_t)snprintf(out + n, NAME_MAX_BYTES - n, "%s%s", i > 0 ? "." : "", w->name[i]);
}

static void add_plain(struct buf *to, struct span s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c >= 0x80 && c < 0xc0)
			continue;	/* a further byte of a character */
		buf_add(to, c < 0x20 || c >= 0x7f ? "?" : s.p + i, 1);
	}
}

/* ---- tables --------------------------------------------------------------------------- */

/* Returns the number of the column of that name; SHOW_COLUMNS_MAX: there is no room for it. */
static unsigned column_of(struct table *t, const char *name)
{
	for (unsigned i = 0; i < t->n_columns; i++)
		if (strcmp(t->column[i], name) == 0)
			return i;
	if (t->n_columns == SHOW_COLUMNS_MAX)
		return SHOW_COLUMNS_MAX;
	snprintf(t->column[t->n_columns], NAME_MAX_BYTES, "%s", name);
	t->width[t->n_columns] = strlen(name);
	return t->n_columns++;
}

static void add_cell(struct writer *w, struct span text)
{
	struct table *t = &w->table;
	char name[NAME_MAX_BYTES];
	unsigned column;

	put_name(w, name);
	column = column_of(t, name);
	if (column == SHOW_COLUMNS_MAX)
		return;
	if (vec_reserve(&t->cells, 1) < 0) {
		w->failed = true;
		return;
	}
	if (text.n > t->width[column])
		t->width[column] = text.n;
	t->cells.p[t->cells.n++] = (struct cell){ t->n_rows - 1, column, w->values.n, text.n };
	buf_span(&w->values, text);
}

static void pad(struct buf *out, size_t n)
{
	while (n-- > 0)
		buf_str(out, " ");
}

/* The head begins with "# ", so the first column is two characters wider than its name. */
static void put_head(struct writer *w)
{
	struct table *t = &w->table;

	buf_str(w->out, "# ");
	for (unsigned i = 0; i < t->n_columns; i++) {
		buf_str(w->out, t->column[i]);
		if (i + 1 < t->n_columns)
			pad(w->out, t->width[i] - strlen(t->column[i]) + 1);
	}
	buf_str(w->out, "\n");
}

static void put_row(struct writer *w, const struct cell *const *cell)
{
	struct table *t = &w->table;

	for (unsigned i = 0; i < t->n_columns; i++) {
		size_t n = cell[i] != NULL ? cell[i]->n : 1;

		if (cell[i] != NULL)
			buf_add(w->out, w->values.p + cell[i]->at, n);
		else
			buf_str(w->out, "-");
		if (i + 1 < t->n_columns)
			pad(w->out, t->width[i] + (i == 0 ? 2 : 0) - n + 1);
	}
	buf_str(w->out, "\n");
}

/* Write each row as lines "name: value", for texts that no terminal has room for in a column. */
static void put_blocks(struct writer *w)
{
	struct table *t = &w->table;

	for (size_t i = 0; i < t->cells.n; i++) {
		const struct cell *c = &t->cells.p[i];

		if (i > 0 && c->row != t->cells.p[i - 1].row)
			buf_str(w->out, "--\n");
		buf_str(w->out, t->column[c->column]);
		buf_str(w->out, ": ");
		buf_add(w->out, w->values.p + c->at, c->n);
		buf_str(w->out, "\n");
	}
}

/* Return how many columns fit; <widest>: the width of the widest one. */
static unsigned columns_fitting(const struct table *t, size_t *widest)
{
	size_t used = 2;
	unsigned n = 0;

	*widest = 0;
	for (unsigned i = 0; i < t->n_columns; i++) {
		*widest = t->width[i] > *widest ? t->width[i] : *widest;
		used += t->width[i] + 1;
		n += used <= SHOW_WIDTH_MAX;
	}
	return n;
}

static void put_left_out(struct writer *w, unsigned n)
{
	char text[80];

	snprintf(text, sizeof(text), "# and %u more columns, which json shows\n", n);
	buf_str(w->out, text);
}

static void put_rows(struct writer *w)
{
	const struct cell *cell[SHOW_COLUMNS_MAX];
	struct table *t = &w->table;
	size_t at = 0;

	for (uint32_t row = 0; row < t->n_rows; row++) {
		memset(cell, 0, sizeof(cell));
		for (; at < t->cells.n && t->cells.p[at].row == row; at++)
			cell[t->cells.p[at].column] = &t->cells.p[at];
		put_row(w, cell);
	}
}

static void put_table(struct writer *w)
{
	struct table *t = &w->table;
	size_t widest;
	unsigned all = t->n_columns, fit = columns_fitting(t, &widest);

	if (w->lines) {
		buf_str(w->out, t->name);
		buf_str(w->out, ":\n");
	}
	if (all == 0) {
		buf_str(w->out, "none\n");
	} else if (widest > SHOW_COLUMN_MAX) {
		put_blocks(w);
	} else {
		t->n_columns = fit;
		put_head(w);
		put_rows(w);
		if (fit < all)
			put_left_out(w, all - fit);
	}
	w->lines = true;
	vec_free(&t->cells);
	memset(t, 0, sizeof(*t));
	buf_wipe(&w->values, SIZE_MAX);
}

/* ---- events --------------------------------------------------------------------------- */

static bool in_list(const struct json *j)
{
	return j->depth > 0 && (j->is_object[(j->depth - 1) / 64] >> (j->depth - 1) % 64 & 1) == 0;
}

/* Names of a row begin at the row, names of other objects at the root. */
static unsigned level_of(const struct writer *w, const struct json *j)
{
	return j->depth - 1u - w->list;
}

static void put_value(struct writer *w, const struct json *j, struct span text)
{
	char name[NAME_MAX_BYTES];

	if (w->skip != 0 || j->depth == 0 || in_list(j) || level_of(w, j) >= LEVELS)
		return;
	if (text.n == 0)
		text = SPAN("-");
	if (w->list != 0) {
		add_cell(w, text);
		return;
	}
	put_name(w, name);
	buf_str(w->out, name);
	buf_str(w->out, ": ");
	buf_span(w->out, text);
	buf_str(w->out, "\n");
	w->lines = true;
}

static void take_key(struct writer *w, const struct json *j, struct span key)
{
	unsigned level = level_of(w, j);
	struct buf name = { .max = JSON_KEY_MAX };

	if (w->skip != 0 || level >= LEVELS)
		return;
	add_plain(&name, key);
	snprintf(w->name[level], sizeof(w->name[level]), "%.*s", (int)name.n, name.n > 0 ? name.p : "");
	w->depth = level + 1;
	w->failed |= name.failed && !name.full;
	buf_free(&name);
}

static void begin_list(struct writer *w, const struct json *j)
{
	if (w->skip != 0)
		return;
	if (w->list != 0 || j->depth == 0 || in_list(j)) {
		w->skip = j->depth + 1u;
		return;
	}
	put_name(w, w->table.name);
	w->list = j->depth + 1u;
}

static void end_list(struct writer *w, const struct json *j)
{
	if (w->skip == j->depth + 1u) {
		w->skip = 0;
	} else if (w->list == j->depth + 1u) {
		w->list = 0;
		put_table(w);
	}
}

static void on_event(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct writer *w = arg;

	switch (ev) {
	case JSON_OBJECT:
		if (w->skip == 0 && w->list != 0 && j->depth == w->list)
			w->table.n_rows++;
		break;
	case JSON_ARRAY: begin_list(w, j); break;
	case JSON_ARRAY_END: end_list(w, j); break;
	case JSON_KEY: take_key(w, j, text); break;
	case JSON_STRING: buf_wipe(&w->value, SIZE_MAX); break;
	case JSON_STRING_PART: add_plain(&w->value, text); break;
	case JSON_STRING_END: put_value(w, j, span_of(w->value.p, w->value.n)); break;
	case JSON_NUMBER: put_value(w, j, text); break;
	case JSON_TRUE: put_value(w, j, SPAN("yes")); break;
	case JSON_FALSE: put_value(w, j, SPAN("no")); break;
	case JSON_NULL: put_value(w, j, SPAN("-")); break;
	default: break;
	}
}

int show_text(struct span json, struct buf *out)
{
	struct writer *w = mem_alloc(sizeof(*w));
	enum json_state state;
	bool failed;

	if (w == NULL)
		return -1;
	w->out = out;
	json_init(&w->json, 16, on_event, w);
	state = json_feed(&w->json, json.p, json.n);
	failed = w->failed || w->value.failed || w->values.failed || out->failed;
	vec_free(&w->table.cells);
	buf_free(&w->value);
	buf_free(&w->values);
	mem_free(w);
	return state == JSON_DONE && !failed ? 0 : -1;
}
