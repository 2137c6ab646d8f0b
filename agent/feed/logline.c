/* logline.c - one table of fields, filled from the events of the JSON scanner.
 *
 * A line as the recipes write it has no white space, no escapes, no nesting and only integers. It
 * is read directly, with a quarter of the instructions; any other line by the scanner.
 *
 * HAProxy writes most numbers without quotes. Times such as %Tr are -1 if the event did not
 * occur; %rc is a string, because it has a '+' before a redispatch. Every number may come in
 * either form. */
#include "agent/base/json.h"
#include "agent/base/num.h"
#include "agent/feed/logline.h"

enum field_kind { F_SPAN, F_INT64, F_INT32, F_END, F_RETRIES, F_WHY, F_ERROR, F_COUNT,
	F_HEADER,	/* "-": the response has none */
	F_UNUSED	/* in all recipes, and here so that the next field is found at once */
};

#define KEY(text)	text, sizeof(text) - 1

/* The keys are part of the table, so that a line reads six cache lines of it. */
static const struct field {
	char key[10];		/* ends with a NUL byte */
	uint8_t n;		/* length of the key */
	uint8_t kind;		/* enum field_kind */
	uint16_t offset;
	bool needed;		/* required for learning or for finding faults of the set-up */
} fields[] = {
	{ KEY("uid"), F_SPAN, offsetof(struct fact, uid), true },
	{ KEY("be"), F_SPAN, offsetof(struct fact, pool), true },
	{ KEY("srv"), F_SPAN, offsetof(struct fact, server), true },
	{ KEY("want"), F_SPAN, offsetof(struct fact, wanted), true },
	{ KEY("why"), F_WHY, offsetof(struct fact, why), true },
	{ KEY("err"), F_ERROR, offsetof(struct fact, error), true },
	{ KEY("st"), F_INT32, offsetof(struct fact, status), true },
	{ KEY("ts"), F_END, offsetof(struct fact, end), true },
	{ KEY("tw"), F_INT64, offsetof(struct fact, queue_ms) },
	{ KEY("tc"), F_INT64, offsetof(struct fact, connect_ms) },
	{ KEY("tr"), F_INT64, offsetof(struct fact, response_ms), true },
	{ KEY("ta"), F_INT64, offsetof(struct fact, total_ms) },
	{ KEY("out"), F_INT64, offsetof(struct fact, bytes_out), true },
	{ KEY("in"), F_INT64, offsetof(struct fact, bytes_in) },
	{ KEY("rc"), F_RETRIES, 0, true },
	{ KEY("sq"), F_UNUSED, 0 },
	{ KEY("bq"), F_UNUSED, 0 },
	{ KEY("ptok"), F_COUNT, offsetof(struct fact, prompt_tokens) },
	{ KEY("gtok"), F_COUNT, offsetof(struct fact, output_tokens) },
	{ KEY("ctok"), F_COUNT, offsetof(struct fact, cached_tokens) },
	{ KEY("rid"), F_HEADER, offsetof(struct fact, response) },
	{ KEY("orca"), F_HEADER, offsetof(struct fact, orca) },
	{ KEY("token"), F_SPAN, offsetof(struct fact, token) },
};

#define FIELDS	(sizeof(fields) / sizeof(fields[0]))

_Static_assert(sizeof(struct fact) <= UINT16_MAX, "field.offset is too small");

struct parse {
	struct logline *l;
	struct fact *f;
	const struct field *field;	/* field of the last key; NULL: unknown key */
	size_t next;			/* the place in fields[] after the last known key */
	size_t start;			/* start of the current string */
	bool lost;			/* a string did not fit */
	bool whole;			/* the object has ended; later text is ignored */
	uint32_t seen;			/* bit i: fields[i] */
};

static bool is_key(const struct field *fd, struct span key)
{
	return fd->n == key.n && fd->key[0] == key.p[0] && memcmp(fd->key, key.p, key.n) == 0;
}

/* The recipes write fields in the order of the table, so the search begins after the last one. */
static const struct field *field_of(struct parse *p, struct span key)
{
	size_t i = p->next;

	for (size_t n = 0; n < FIELDS && key.n > 0; n++, i = i + 1 < FIELDS ? i + 1 : 0) {
		if (is_key(&fields[i], key)) {
			p->next = i + 1 < FIELDS ? i + 1 : 0;
			return &fields[i];
		}
	}
	return NULL;
}

static void take_int(struct fact *f, const struct field *fd, struct span s)
{
	char *at = (char *)f + fd->offset;
	int64_t v;

	if (fd->kind == F_COUNT) {
		fact_count(s, (int64_t *)at);
		return;
	}
	if (!num_parse(s, &v))
		return;
	if (fd->kind == F_ERROR) {
		f->error = v > 0 && v <= INT32_MAX ? (int32_t)v : 0;
	} else if (fd->kind == F_INT64) {
		*(int64_t *)at = v;
	} else if (fd->kind == F_INT32 && v >= INT32_MIN && v <= INT32_MAX) {
		*(int32_t *)at = (int32_t)v;
	} else if (fd->kind == F_RETRIES && v >= 0 && v <= INT32_MAX) {
		f->retries = (int32_t)v;
		f->redispatched = s.p[0] == '+';
	}
}

static void take(struct fact *f, const struct field *fd, struct span s)
{
	if (fd->kind == F_UNUSED)
		return;
	if (fd->kind == F_SPAN || fd->kind == F_WHY)
		*(struct span *)((char *)f + fd->offset) = s;
	else if (fd->kind == F_HEADER)
		*(struct span *)((char *)f + fd->offset) = span_eq(s, SPAN("-")) ? SPAN("") : s;
	else if (fd->kind == F_END)
		fact_take_end(f, s);
	else
		take_int(f, fd, s);
}

/* Take a number that is written as one. Fields of text do not take it. */
static void take_number(struct fact *f, const struct field *fd, struct span s)
{
	if (fd->kind != F_SPAN && fd->kind != F_WHY && fd->kind != F_END && fd->kind != F_HEADER &&
	    fd->kind != F_UNUSED)
		take_int(f, fd, s);
}

static void take_key(struct parse *p, struct span key)
{
	p->field = field_of(p, key);
	if (p->field != NULL)
		p->seen |= 1u << (p->field - fields);
}

/* ---- any line ------------------------------------------------------------------------------ */

static void take_string(struct parse *p)
{
	struct logline *l = p->l;

	if (!p->lost)
		take(p->f, p->field, span_of(l->text + p->start, l->n - p->start));
}

static void add_text(struct parse *p, struct span s)
{
	struct logline *l = p->l;

	if (s.n > sizeof(l->text) - l->n) {
		p->lost = true;
		return;
	}
	memcpy(l->text + l->n, s.p, s.n);
	l->n += s.n;
}

static void on_json(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct parse *p = arg;

	if (j->depth == 0 && ev == JSON_OBJECT_END)
		p->whole = true;
	if (j->depth != 1 || p->whole)
		return;
	if (ev == JSON_KEY) {
		take_key(p, text);
		return;
	}
	if (p->field == NULL)
		return;
	switch (ev) {
	case JSON_STRING:
		p->start = p->l->n;
		p->lost = false;
		break;
	case JSON_STRING_PART:
		add_text(p, text);
		break;
	case JSON_STRING_END:
		take_string(p);
		break;
	case JSON_NUMBER:
		take_number(p->f, p->field, text);
		break;
	default:
		break;
	}
}

static bool read_any(struct parse *p, const char *text, size_t n)
{
	struct json j;

	json_init(&j, 8, on_json, p);
	/* ignore a parse error after the object, where a second log line may follow */
	json_feed(&j, text, n);
	return p->whole;
}

/* ---- lines of the recipes ------------------------------------------------------------------ */

/* Return the end of the integer at <p>, or NULL if it is none or too long. */
static const char *integer_end(const char *p, const char *end)
{
	const char *first, *q;

	first = q = p < end && *p == '-' ? p + 1 : p;
	while (q < end && *q >= '0' && *q <= '9')
		q++;
	return q == first || q - first > NUM_DIGITS_MAX || (*first == '0' && q - first > 1) ? NULL : q;
}

/* Take the string or integer at <p>. Returns its end, or NULL if it is another value. */
static const char *take_value(
    struct parse *p, const struct json_scan *scan, const char *at, const char *end)
{
	bool quoted = at < end && *at == '"';
	const char *stop = quoted ? json_plain_end(scan, ++at, end) : integer_end(at, end);

	if (stop != NULL && p->field != NULL)
		(quoted ? take : take_number)(p->f, p->field, span_of(at, (size_t)(stop - at)));
	return stop != NULL && quoted ? stop + 1 : stop;
}

/* Read the object at <at>. Returns false, with some fields taken, if it is not written as the
 * recipes do. */
static bool read_plain(struct parse *p, const char *at, const char *end)
{
	const struct json_scan *scan = json_scan_best();
	const char *stop;

	do {
		at++;
		if (at == end || *at++ != '"' || (stop = json_plain_end(scan, at, end)) == NULL ||
		    end - stop < 2 || stop[1] != ':')
			return false;
		take_key(p, span_of(at, (size_t)(stop - at)));
		at = take_value(p, scan, stop + 2, end);
	} while (at != NULL && at < end && *at == ',');
	return at != NULL && at < end && *at == '}';
}

/* Read a line as the recipes write it from a copy, because the fact borrows from <l>. */
static bool read_recipe(struct logline *l, const char *text, size_t n, struct parse *p)
{
	if (n > sizeof(l->text))
		return false;
	memcpy(l->text, text, n);
	l->n = n;
	return read_plain(p, l->text, l->text + n);
}

/* Finish the fact from the set of keys seen. HAProxy writes "-" for no error, which is not a
 * number. */
static void take_seen(const struct parse *p, struct fact *f)
{
	f->line = true;
	for (size_t i = 0; i < FIELDS; i++) {
		bool seen = p->seen >> i & 1;

		f->has_why |= seen && fields[i].kind == F_WHY;
		if (seen && fields[i].kind == F_ERROR && f->error < 0)
			f->error = 0;
		if (!seen && fields[i].needed && f->lacks == NULL)
			f->lacks = fields[i].key;
	}
}

int logline_parse(struct logline *l, const char *p, size_t n, struct fact *f)
{
	struct parse state = { .l = l, .f = f };
	const char *brace = n ? memchr(p, '{', n) : NULL;

	fact_init(f, FACT_DONE);
	l->n = 0;
	if (brace == NULL)
		return -1;
	n -= (size_t)(brace - p);
	if (!read_recipe(l, brace, n, &state)) {
		fact_init(f, FACT_DONE);
		l->n = 0;
		state = (struct parse){ .l = l, .f = f };
		if (!read_any(&state, brace, n))
			return -1;
	}
	take_seen(&state, f);
	return f->uid.n > 0 ? 0 : LOGLINE_NAMELESS;
}
