/* json_doc.c - read a JSON text in one pass. Strings without a backslash are borrowed from it;
 * others are decoded to one buffer as large as the text, because decoded text is never longer. Only
 * the pages written to exist.
 *
 * Raw values are skipped by their quotes and brackets only; the cursor that reads them checks their
 * contents. */
#include "agent/base/json_doc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/json_text.h"
#include "agent/base/mem.h"
#include "agent/base/utf8.h"

#define CHUNK_NODES	256

struct chunk {
	struct chunk *next;
	uint32_t n;
	struct json_node node[CHUNK_NODES];
};

struct json_doc {
	struct span text;
	const char *name;
	struct json_node *root;
	struct chunk *chunks;
	uint32_t n_nodes;
	char *decoded;		/* text.n bytes, allocated at the first escape */
	size_t n_decoded;
};

struct reader {
	struct json_doc *d;
	const char *p, *end;
	json_doc_raw *raw;
	struct err *e;
};

/* ---- errors and their places ----------------------------------------------------------------- */

/* Write "pre_tokenizer.pretokenizers[1].type" from the end. */
static size_t path(const struct json_node *v, char *buf, size_t cap)
{
	char part[96];
	size_t at = cap - 1, n;

	for (buf[at] = 0; v->parent != NULL; v = v->parent) {
		if (v->parent->kind == NODE_ARRAY)
			n = (size_t)snprintf(part, sizeof(part), "[%u]", v->index);
		else
			n = (size_t)snprintf(part, sizeof(part), "%s%.*s", v->parent->parent ? "." : "",
					     (int)(v->key.n < 60 ? v->key.n : 60), v->key.p);
		if (n > at)
			break;
		at -= n;
		memcpy(buf + at, part, n);
	}
	return at;
}

__attribute__((format(printf, 5, 0))) static int refuse(const struct json_doc *d,
    const struct json_node *v, const char *at, struct err *e, const char *fmt, va_list ap)
{
	char words[ERR_TEXT_MAX - 260], way[256];
	size_t from = sizeof(way) - 1;

	way[from] = 0;
	vsnprintf(words, sizeof(words), fmt, ap);
	if (v != NULL)
		from = path(v, way, sizeof(way));
	err_set(e, "%s%s%s", way + from, way[from] ? ": " : "", words);
	utf8_place(d->text, (size_t)(at - d->text.p), d->name, e);
	return -1;
}

int json_refuse(const struct json_doc *d, const struct json_node *v, struct err *e, const char *fmt,
    ...)
{
	va_list ap;

	va_start(ap, fmt);
	refuse(d, v, v ? v->at : d->text.p, e, fmt, ap);
	va_end(ap);
	return -1;
}

int json_refuse_at(const struct json_doc *d, const char *at, struct err *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	refuse(d, NULL, at, e, fmt, ap);
	va_end(ap);
	return -1;
}

/* ---- strings and numbers --------------------------------------------------------------------- */

/* Skip plain bytes of a string. Returns the first other byte. */
static const char *plain(const char *p, const char *end)
{
	while (p < end && *p != '"' && *p != '\\' && (uint8_t)*p >= 0x20)
		p++;
	return p;
}

/* Read the string at <p>, its quote. Returns the byte after it, or NULL. */
static const char *string(struct json_doc *d, const char *p, const char *end, struct span *out,
    struct err *e)
{
	const char *from = p + 1, *q = plain(from, end);
	char *to;
	size_t n, m, taken;

	if (q < end && *q == '"') {
		*out = span_of(from, (size_t)(q - from));
		return q + 1;
	}
	if (d->decoded == NULL && (d->decoded = mem_alloc(d->text.n + 1)) == NULL) {
		err_set(e, "not enough memory");
		return NULL;
	}
	to = d->decoded + d->n_decoded;
	for (n = 0; ; from = q, q = plain(q, end)) {
		memcpy(to + n, from, (size_t)(q - from));
		n += (size_t)(q - from);
		if (q == end) {
			json_refuse_at(d, p, e, "this string has no end");
			return NULL;
		}
		if (*q == '"')
			break;
		if (*q != '\\') {
			json_refuse_at(d, q, e, "a control character in a string has to be written as an escape");
			return NULL;
		}
		if ((taken = json_escape(q, end, false, to + n, &m)) == 0) {
			json_refuse_at(d, q, e, "this escape is none of JSON's, or half of a surrogate pair");
			return NULL;
		}
		q += taken;
		n += m;
	}
	d->n_decoded += n;
	*out = span_of(to, n);
	return q + 1;
}

/* ---- the tree -------------------------------------------------------------------------------- */

static struct json_node *node_new(struct reader *r)
{
	struct json_doc *d = r->d;
	struct chunk *c = d->chunks;

	if (d->n_nodes++ >= JSON_DOC_NODES_MAX) {
		json_refuse_at(d, r->p, r->e, "more than %u values", JSON_DOC_NODES_MAX);
		return NULL;
	}
	if (c == NULL || c->n == CHUNK_NODES) {
		if ((c = mem_alloc(sizeof(*c))) == NULL) {
			err_set(r->e, "not enough memory");
			return NULL;
		}
		c->next = d->chunks;
		d->chunks = c;
	}
	return &c->node[c->n++];
}

/* Skip a value by its brackets and quotes. */
static int skip(struct reader *r)
{
	const char *from = r->p;
	unsigned int depth = 0;

	do {
		switch (*r->p++) {
		case '{': case '[': depth++; break;
		case '}': case ']': depth--; break;
		case '"':
			while (r->p < r->end && *r->p != '"')
				r->p += *r->p == '\\' ? 2 : 1;
			r->p++;
			break;
		default: break;
		}
	} while (depth > 0 && r->p < r->end);
	if (depth > 0 || r->p > r->end)
		return json_refuse_at(r->d, from, r->e, "this %s has no end", *from == '{' ? "object" : "array");
	return 0;
}

static int value(struct reader *r, struct json_node *v, unsigned int depth);

static int by_key(const void *a, const void *b)
{
	const struct json_node *x = *(const struct json_node *const *)a,
			       *y = *(const struct json_node *const *)b;
	size_t n = x->key.n < y->key.n ? x->key.n : y->key.n;
	int c = n ? memcmp(x->key.p, y->key.p, n) : 0;

	return c != 0 ? c : (x->key.n > y->key.n) - (x->key.n < y->key.n);
}

/* Reject a key that occurs twice, because readers disagree which of the two counts. */
static int distinct(struct reader *r, const struct json_node *object, size_t n)
{
	const struct json_node **all = mem_calloc(n, sizeof(*all)), *twice = NULL;
	size_t i = 0;

	if (all == NULL)
		return err_set(r->e, "not enough memory");
	for (const struct json_node *v = object->child; v != NULL; v = v->next)
		all[i++] = v;
	qsort(all, n, sizeof(*all), by_key);
	for (i = 1; i < n && twice == NULL; i++)
		twice = by_key(&all[i - 1], &all[i]) == 0 ? all[i] : NULL;
	mem_free(all);
	return twice == NULL ? 0 : json_refuse(r->d, twice, r->e, "stands twice in its object");
}

static int member_key(struct reader *r, struct json_node *v)
{
	if (r->p == r->end || *r->p != '"')
		return json_refuse_at(r->d, r->p, r->e, "a key in quotes is expected here");
	if ((r->p = string(r->d, r->p, r->end, &v->key, r->e)) == NULL)
		return -1;
	r->p = json_blanks(r->p, r->end);
	if (r->p == r->end || *r->p != ':')
		return json_refuse_at(r->d, r->p, r->e, "a colon is expected here");
	r->p = json_blanks(r->p + 1, r->end);
	return 0;
}

/* Read members or elements after the bracket. */
static int inside(struct reader *r, struct json_node *up, unsigned int depth)
{
	const char close = up->kind == NODE_OBJECT ? '}' : ']';
	struct json_node **link = &up->child, *v;
	uint32_t n = 0;

	if (depth == JSON_DOC_DEPTH_MAX)
		return json_refuse_at(r->d, r->p, r->e, "nested deeper than %d", JSON_DOC_DEPTH_MAX);
	r->p = json_blanks(r->p + 1, r->end);
	if (r->p < r->end && *r->p == close)
		return r->p++, 0;
	for (;;) {
		if ((v = node_new(r)) == NULL)
			return -1;
		v->parent = up;
		v->index = n++;
		if (up->kind == NODE_OBJECT && member_key(r, v) < 0)
			return -1;
		*link = v;
		link = &v->next;
		if (value(r, v, depth + 1) < 0)
			return -1;
		r->p = json_blanks(r->p, r->end);
		if (r->p < r->end && *r->p == close) {
			r->p++;
			return up->kind == NODE_OBJECT && n > 1 ? distinct(r, up, n) : 0;
		}
		if (r->p == r->end || *r->p != ',')
			return json_refuse_at(r->d, r->p, r->e, "a comma or '%c' is expected here", close);
		r->p = json_blanks(r->p + 1, r->end);
	}
}

static int word(struct reader *r, struct json_node *v)
{
	static const struct { struct span s; enum json_kind kind; } words[] = {
		{ SPAN("null"), NODE_NULL }, { SPAN("true"), NODE_TRUE }, { SPAN("false"), NODE_FALSE }
	};
	const char *q;
	bool real;

	for (size_t i = 0; i < 3; i++) {
		if ((size_t)(r->end - r->p) >= words[i].s.n && memcmp(r->p, words[i].s.p, words[i].s.n) == 0) {
			v->kind = words[i].kind;
			r->p += words[i].s.n;
			return 0;
		}
	}
	if (r->p == r->end || (q = json_number(r->p, r->end, &real)) == NULL)
		return json_refuse_at(r->d, r->p, r->e, "a value is expected here");
	v->kind = NODE_NUMBER;
	v->s = span_of(r->p, (size_t)(q - r->p));
	r->p = q;
	return 0;
}

static int value(struct reader *r, struct json_node *v, unsigned int depth)
{
	v->at = r->p;
	if (r->p == r->end)
		return json_refuse_at(r->d, r->p, r->e, "a value is expected here, the text ends");
	if (*r->p == '{' || *r->p == '[') {
		v->kind = *r->p == '{' ? NODE_OBJECT : NODE_ARRAY;
		if (r->raw == NULL || !r->raw(v))
			return inside(r, v, depth);
		if (skip(r) < 0)
			return -1;
		v->kind = NODE_RAW;
		v->s = span_of(v->at, (size_t)(r->p - v->at));
		return 0;
	}
	if (*r->p == '"') {
		v->kind = NODE_STRING;
		return (r->p = string(r->d, r->p, r->end, &v->s, r->e)) == NULL ? -1 : 0;
	}
	return word(r, v);
}

static int parse(struct reader *r)
{
	struct json_doc *d = r->d;

	if (d->text.n > JSON_DOC_BYTES_MAX)
		return json_refuse(d, NULL, r->e, "larger than %zu MiB", JSON_DOC_BYTES_MAX >> 20);
	if (utf8_check(d->text, d->name, r->e) < 0)
		return -1;
	r->p = json_blanks(r->p, r->end);
	if ((d->root = node_new(r)) == NULL || value(r, d->root, 0) < 0)
		return -1;
	r->p = json_blanks(r->p, r->end);
	return r->p == r->end
	    ? 0
	    : json_refuse_at(d, r->p, r->e, "something stands behind the end of the text's value");
}

struct json_doc *json_doc_new(struct span text, const char *name, json_doc_raw *raw, struct err *e)
{
	struct json_doc *d = mem_alloc(sizeof(*d));
	struct reader r = { .d = d, .raw = raw, .e = e };

	if (d == NULL) {
		err_set(e, "not enough memory");
		return NULL;
	}
	d->text = text.p != NULL ? text : SPAN("");
	d->name = name;
	r.p = d->text.p;
	r.end = r.p + d->text.n;
	if (parse(&r) == 0)
		return d;
	json_doc_free(d);
	return NULL;
}

void json_doc_free(struct json_doc *d)
{
	struct chunk *c;

	if (d == NULL)
		return;
	while ((c = d->chunks) != NULL) {
		d->chunks = c->next;
		mem_free(c);
	}
	mem_free(d->decoded);
	mem_free(d);
}

const struct json_node *json_doc_root(const struct json_doc *d)
{
	return d->root;
}

/* ---- a raw value ----------------------------------------------------------------------------- */

bool json_cursor_open(struct json_cursor *c, struct json_doc *d, const struct json_node *raw,
    char bracket)
{
	if (raw->kind != NODE_RAW || raw->s.p[0] != bracket)
		return false;
	*c = (struct json_cursor){ .d = d, .p = raw->s.p + 1, .end = raw->s.p + raw->s.n };
	return true;
}

int json_cursor_next(struct json_cursor *c, struct err *e)
{
	const char *p = json_blanks(c->p, c->end);

	if (p < c->end && (*p == '}' || *p == ']')) {
		c->p = p + 1;
		return 0;
	}
	if (c->n++ > 0) {
		if (p == c->end || *p != ',')
			return json_refuse_at(c->d, p, e, "a comma or a closing bracket is expected here");
		p = json_blanks(p + 1, c->end);
	}
	c->p = p;
	return 1;
}

int json_cursor_string(struct json_cursor *c, struct span *out, struct err *e)
{
	const char *p = json_blanks(c->p, c->end);

	if (p == c->end || *p != '"')
		return json_refuse_at(c->d, p, e, "a string is expected here");
	p = string(c->d, p, c->end, out, e);
	if (p == NULL)
		return -1;
	c->p = p;
	return 0;
}

int json_cursor_key(struct json_cursor *c, struct span *out, struct err *e)
{
	const char *p;

	if (json_cursor_string(c, out, e) < 0)
		return -1;
	p = json_blanks(c->p, c->end);
	if (p == c->end || *p != ':')
		return json_refuse_at(c->d, p, e, "a colon is expected here");
	c->p = json_blanks(p + 1, c->end);
	return 0;
}

static bool small_number(const char *p, const char *q, uint32_t *out)
{
	uint64_t v = 0;

	if (q - p > 10)
		return false;
	for (; p < q; p++) {
		if (*p < '0' || *p > '9')
			return false;
		v = v * 10 + (uint64_t)(*p - '0');
	}
	*out = (uint32_t)v;
	return v <= UINT32_MAX;
}

int json_cursor_u32(struct json_cursor *c, uint32_t *out, struct err *e)
{
	bool real;
	const char *q = c->p < c->end ? json_number(c->p, c->end, &real) : NULL;

	if (q == NULL || !small_number(c->p, q, out))
		return json_refuse_at(c->d, c->p, e, "a whole number from 0 to 4294967295 is expected here");
	c->p = q;
	return 0;
}

/* ---- asking ---------------------------------------------------------------------------------- */

const char *json_kind_text(enum json_kind k)
{
	static const char *const text[] = { "null", "false", "true", "a number", "a string",
		"an array", "an object", "raw" };

	return text[k];
}

bool json_is(const struct json_node *v, const char *text)
{
	return v != NULL && v->kind == NODE_STRING && span_eq(v->s, span_str(text));
}

const struct json_node *json_get(const struct json_node *object, const char *key)
{
	if (object == NULL || object->kind != NODE_OBJECT)
		return NULL;
	for (const struct json_node *v = object->child; v != NULL; v = v->next) {
		if (span_eq(v->key, span_str(key)))
			return v->kind == NODE_NULL ? NULL : v;
	}
	return NULL;
}

static int wrong(const struct json_doc *d, const struct json_node *v, const char *want,
    struct err *e)
{
	return json_refuse(d, v, e, "is %s; %s is expected", json_kind_text(v->kind), want);
}

int json_get_bool(const struct json_doc *d, const struct json_node *object, const char *key,
    bool *out, struct err *e)
{
	const struct json_node *v = json_get(object, key);

	if (v == NULL)
		return 0;
	if (v->kind != NODE_TRUE && v->kind != NODE_FALSE)
		return wrong(d, v, "true or false", e);
	*out = v->kind == NODE_TRUE;
	return 0;
}

int json_get_text(const struct json_doc *d, const struct json_node *object, const char *key,
    struct span *out, struct err *e)
{
	const struct json_node *v = json_get(object, key);

	if (v == NULL)
		return 0;
	if (v->kind != NODE_STRING)
		return wrong(d, v, "a string", e);
	*out = v->s;
	return 0;
}

static int missing(const struct json_doc *d, const struct json_node *object, const char *key,
    struct err *e)
{
	if (json_get(object, key) != NULL)
		return 0;
	return json_refuse(d, object, e, "\"%s\" is missing", key);
}

int json_need_bool(const struct json_doc *d, const struct json_node *object, const char *key,
    bool *out, struct err *e)
{
	return missing(d, object, key, e) < 0 ? -1 : json_get_bool(d, object, key, out, e);
}

int json_need_text(const struct json_doc *d, const struct json_node *object, const char *key,
    struct span *out, struct err *e)
{
	return missing(d, object, key, e) < 0 ? -1 : json_get_text(d, object, key, out, e);
}

const struct json_node *json_need(const struct json_doc *d, const struct json_node *object,
    const char *key, enum json_kind kind, struct err *e)
{
	const struct json_node *v;

	if (missing(d, object, key, e) < 0)
		return NULL;
	v = json_get(object, key);
	if (v->kind == kind)
		return v;
	wrong(d, v, json_kind_text(kind), e);
	return NULL;
}

int json_u32(const struct json_doc *d, const struct json_node *v, uint32_t *out, struct err *e)
{
	if (v->kind == NODE_NUMBER && small_number(v->s.p, v->s.p + v->s.n, out))
		return 0;
	return json_refuse(d, v, e, "a whole number from 0 to 4294967295 is expected");
}

static bool among(struct span key, const char *keys)
{
	const char *p = keys;

	while (*p != 0) {
		size_t n = strcspn(p, " ");

		if (n == key.n && memcmp(p, key.p, n) == 0)
			return true;
		p += n;
		p += *p == ' ';
	}
	return false;
}

int json_only(const struct json_doc *d, const struct json_node *v, const char *keys, struct err *e)
{
	if (v->kind != NODE_OBJECT)
		return wrong(d, v, "an object", e);
	for (const struct json_node *m = v->child; m != NULL; m = m->next) {
		if (!among(m->key, keys))
			return json_refuse(d, m, e, "is not known here; understood are: %s", keys);
	}
	return 0;
}
