/* logline.c - one table of fields, filled from the events of the JSON scanner.
 *
 * HAProxy writes most numbers without quotes. Times such as %Tr are -1 if the event did not
 * occur; %rc is a string, because it has a '+' before a redispatch. Every number may come in
 * either form. */
#include "agent/base/json.h"
#include "agent/base/num.h"
#include "agent/feed/logline.h"

enum field_kind { F_SPAN, F_INT64, F_INT32, F_END, F_RETRIES, F_WHY, F_ERROR, F_COUNT,
	F_HEADER	/* "-": the response has none */
};

#define KEY(text)	{ text, sizeof(text) - 1 }

static const struct field {
	struct span key;
	enum field_kind kind;
	size_t offset;
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
	{ KEY("ptok"), F_COUNT, offsetof(struct fact, prompt_tokens) },
	{ KEY("gtok"), F_COUNT, offsetof(struct fact, output_tokens) },
	{ KEY("ctok"), F_COUNT, offsetof(struct fact, cached_tokens) },
	{ KEY("rid"), F_HEADER, offsetof(struct fact, response) },
	{ KEY("orca"), F_HEADER, offsetof(struct fact, orca) },
	{ KEY("token"), F_SPAN, offsetof(struct fact, token) },
};

#define FIELDS	(sizeof(fields) / sizeof(fields[0]))

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
	return fd->key.n == key.n && fd->key.p[0] == key.p[0] &&
	       memcmp(fd->key.p, key.p, key.n) == 0;
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
	if (fd->kind == F_SPAN || fd->kind == F_WHY)
		*(struct span *)((char *)f + fd->offset) = s;
	else if (fd->kind == F_HEADER)
		*(struct span *)((char *)f + fd->offset) = span_eq(s, SPAN("-")) ? SPAN("") : s;
	else if (fd->kind == F_END)
		fact_take_end(f, s);
	else
		take_int(f, fd, s);
}

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
		p->field = field_of(p, text);
		if (p->field != NULL)
			p->seen |= 1u << (p->field - fields);
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
		if (p->field->kind != F_SPAN && p->field->kind != F_WHY && p->field->kind != F_END &&
		    p->field->kind != F_HEADER)
			take_int(p->f, p->field, text);
		break;
	default:
		break;
	}
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
			f->lacks = fields[i].key.p;
	}
}

int logline_parse(struct logline *l, const char *p, size_t n, struct fact *f)
{
	struct parse state = { .l = l, .f = f };
	const char *brace = n ? memchr(p, '{', n) : NULL;
	struct json j;

	fact_init(f, FACT_DONE);
	l->n = 0;
	if (brace == NULL)
		return -1;
	json_init(&j, 8, on_json, &state);
	/* ignore a parse error after the object, where a second log line may follow */
	json_feed(&j, brace, n - (size_t)(brace - p));
	if (!state.whole)
		return -1;
	take_seen(&state, f);
	return f->uid.n > 0 ? 0 : LOGLINE_NAMELESS;
}
