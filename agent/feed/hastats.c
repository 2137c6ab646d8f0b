/* hastats.c - parse CSV byte by byte and keep the required columns only.
 *
 * A row of 3.2 has 207 columns, of which nine matter. A library would need a buffer for whole
 * lines; this parser has none: each byte goes into the field of its column or is skipped.
 * Quoting follows RFC 4180, as HAProxy's csv_enc() writes it: a field is quoted if it holds a
 * comma, a quote or a new line, such as the reason of a failed check, which an engine can
 * influence. */
#include "agent/feed/hastats.h"

static const char *const column_names[HASTATS_WANTED] = {
	[HASTATS_POOL] = "pxname", [HASTATS_SERVER] = "svname", [HASTATS_QUEUE] = "qcur",
	[HASTATS_SESSIONS] = "scur", [HASTATS_STATUS] = "status", [HASTATS_WEIGHT] = "weight",
	[HASTATS_TYPE] = "type", [HASTATS_BACKUP] = "bck",
	[HASTATS_ADDRESS] = "addr",
};

static const struct {
	const char *word;
	enum hastats_state state;
} states[] = {
	{ "UP", HASTATS_UP }, { "no", HASTATS_UP }, { "DOWN", HASTATS_DOWN }, { "DRAIN", HASTATS_DRAIN },
	{ "NOLB", HASTATS_DRAIN }, { "MAINT", HASTATS_MAINT },
};

const char *hastats_strerror(int error)
{
	static const char *const texts[HASTATS_E_COUNT] = {
		"no error",
		"not the table that \"show stat\" gives",
		"a column is missing",
		"a line is too long",
		"the answer is too long",
	};

	if (error < 0)
		error = -error;
	return error < HASTATS_E_COUNT ? texts[error] : "unknown error";
}

void hastats_init(struct hastats *h, hastats_row_fn *row, void *arg)
{
	memset(h, 0, sizeof(*h));
	memset(h->wanted, HASTATS_WANTED, sizeof(h->wanted));
	h->row = row;
	h->arg = arg;
}

static struct span text_of(const struct hastats_field *f)
{
	return span_of(f->text, f->n);
}

static void field_add(struct hastats_field *f, char c)
{
	if (f->n < HASTATS_FIELD_MAX)
		f->text[f->n] = c;
	if (f->n <= HASTATS_FIELD_MAX)
		f->n++;
}

static bool field_lost(const struct hastats_field *f)
{
	return f->n > HASTATS_FIELD_MAX;
}

/* Return the field that holds the current column, or NULL if the column is ignored. */
static struct hastats_field *field_here(struct hastats *h)
{
	uint8_t w;

	if (h->part == HASTATS_NAMES)
		return &h->name;
	w = h->column < HASTATS_COLUMNS_MAX ? h->wanted[h->column] : HASTATS_WANTED;
	return w < HASTATS_WANTED ? &h->fields[w] : NULL;
}

/* End a column name. If two columns have one name, the first counts. */
static void name_end(struct hastats *h)
{
	if (h->column < HASTATS_COLUMNS_MAX && !field_lost(&h->name)) {
		for (uint8_t w = 0; w < HASTATS_WANTED; w++) {
			if (span_eq(text_of(&h->name), span_str(column_names[w])) &&
			    memchr(h->wanted, w, sizeof(h->wanted)) == NULL)
				h->wanted[h->column] = w;
		}
	}
	h->name.n = 0;
}

static int names_end(struct hastats *h)
{
	for (uint8_t w = 0; w < HASTATS_BACKUP; w++) {
		if (memchr(h->wanted, w, sizeof(h->wanted)) == NULL) {
			h->missing = column_names[w];
			return -HASTATS_E_COLUMN;
		}
	}
	h->part = HASTATS_ROWS;
	return 0;
}

/* Tell if HAProxy allows the name of a proxy or server (invalid_char() in its tools.c). */
static bool is_name(const struct hastats_field *f)
{
	if (f->n == 0 || field_lost(f))
		return false;
	for (uint32_t i = 0; i < f->n; i++) {
		char c = f->text[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		      c == '.' || c == '_' || c == ':' || c == '-'))
			return false;
	}
	return true;
}

static bool to_number(const struct hastats_field *f, uint32_t *v)
{
	uint64_t n = 0;

	if (f->n == 0 || f->n > 10)
		return false;
	for (uint32_t i = 0; i < f->n; i++) {
		if (f->text[i] < '0' || f->text[i] > '9')
			return false;
		n = n * 10 + (uint64_t)(f->text[i] - '0');
	}
	if (n > INT32_MAX)
		return false;
	*v = (uint32_t)n;
	return true;
}

/* Parse the first word of `status`. Returns false for an unknown word, because a guess could be
 * wrong. */
static bool to_state(const struct hastats_field *f, enum hastats_state *state)
{
	const char *space = memchr(f->text, ' ', field_lost(f) ? 0 : f->n);
	struct span word = span_of(f->text, space ? (size_t)(space - f->text) : f->n);

	if (field_lost(f))
		return false;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (span_eq(word, span_str(states[i].word))) {
			*state = states[i].state;
			return true;
		}
	}
	return false;
}

/* Frontends are of type 0, backends 1, servers 2, sockets 3 (management.txt 9.1). */
static void row_end(struct hastats *h)
{
	const struct hastats_field *f = h->fields;
	const struct hastats_field *type = &f[HASTATS_TYPE];
	struct hastats_row row;

	if (type->n == 1 && (type->text[0] == '0' || type->text[0] == '1' || type->text[0] == '3'))
		return;
	if (type->n != 1 || type->text[0] != '2' || !is_name(&f[HASTATS_POOL]) ||
	    !is_name(&f[HASTATS_SERVER]) || !to_state(&f[HASTATS_STATUS], &row.state) ||
	    !to_number(&f[HASTATS_WEIGHT], &row.weight) ||
	    !to_number(&f[HASTATS_SESSIONS], &row.sessions) ||
	    !to_number(&f[HASTATS_QUEUE], &row.queue)) {
		h->bad_rows++;
		return;
	}
	row.backup = f[HASTATS_BACKUP].n == 1 && f[HASTATS_BACKUP].text[0] == '1';
	row.address = field_lost(&f[HASTATS_ADDRESS]) ? SPAN("") : text_of(&f[HASTATS_ADDRESS]);
	row.pool = text_of(&f[HASTATS_POOL]);
	row.server = text_of(&f[HASTATS_SERVER]);
	h->rows++;
	h->row(h->arg, &row);
}

/* End a line. Returns 1 if it was the empty line after the last row. */
static int line_end(struct hastats *h)
{
	int rc = 0;

	if (h->part == HASTATS_NAMES)
		rc = names_end(h);
	else if (h->line_bytes == 1)
		return 1;
	else
		row_end(h);
	for (size_t w = 0; w < HASTATS_WANTED; w++)
		h->fields[w].n = 0;
	h->column = 0;
	h->line_bytes = 0;
	return rc;
}

static int field_end(struct hastats *h, char c)
{
	if (h->part == HASTATS_NAMES)
		name_end(h);
	h->at = HASTATS_START;
	h->column++;
	return c == '\n' ? line_end(h) : 0;
}

static int in_field(struct hastats *h, char c)
{
	struct hastats_field *f;

	if (h->at != HASTATS_QUOTED && (c == ',' || c == '\n'))
		return field_end(h, c);
	if (c == '"' && (h->at == HASTATS_START || h->at == HASTATS_QUOTED)) {
		h->at = h->at == HASTATS_START ? HASTATS_QUOTED : HASTATS_QUOTE;
		return 0;
	}
	if (h->at == HASTATS_QUOTE)	/* two quotes are one; CSV allows nothing else after a closing one */
		h->at = c == '"' ? HASTATS_QUOTED : HASTATS_PLAIN;
	else if (h->at == HASTATS_START)
		h->at = HASTATS_PLAIN;
	f = field_here(h);
	if (f != NULL)
		field_add(f, c);
	return 0;
}

/* Keep the first line for the log: "Permission denied", "No such proxy.", "HTTP/1.1 400". */
static int foreign(struct hastats *h, char c)
{
	struct hastats_field *f = &h->name;

	h->part = HASTATS_FOREIGN;
	if (c != '\n' && f->n < HASTATS_FIELD_MAX) {
		field_add(f, c >= ' ' && c <= '~' ? c : '?');
		return 0;
	}
	memcpy(h->said, f->text, f->n);
	h->said[f->n] = '\0';
	return -HASTATS_E_FOREIGN;
}

static int byte(struct hastats *h, char c)
{
	if (h->answer_bytes++ >= HASTATS_ANSWER_MAX)
		return -HASTATS_E_ANSWER;
	if (h->line_bytes++ >= HASTATS_LINE_MAX)
		return -HASTATS_E_LINE;
	switch (h->part) {
	case HASTATS_HASH:
	case HASTATS_SPACE:	/* one byte each, in this order */
		if (c != "# "[h->part])
			return foreign(h, c);
		field_add(&h->name, c);
		h->part++;
		if (h->part == HASTATS_NAMES)
			h->name.n = 0;
		return 0;
	case HASTATS_FOREIGN:
		return foreign(h, c);
	default:
		return in_field(h, c);
	}
}

ssize_t hastats_feed(struct hastats *h, const void *p, size_t n)
{
	const char *text = p;

	if (h->error < 0)
		return h->error;
	for (size_t i = 0; i < n; i++) {
		int rc = byte(h, text[i]);

		if (rc < 0)
			return h->error = rc;
		if (rc > 0)
			return (ssize_t)(i + 1);
	}
	return 0;
}
