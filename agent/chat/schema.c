/* schema.c - the rules of openai-harmony, src/encoding.rs, json_schema_to_typescript():
 *
 *     {"type": "object", "properties": {          {
 *        "city": {"type": "string",               // Where
 *                 "description": "Where"},        city: string,
 *        "unit": {"enum": ["c", "f"], ...,        unit?: "c" | "f", // default: c
 *                 "default": "c"}},               }
 *      "required": ["city"]}
 *
 * Members keep the order of the body, descriptions their line ends. Nesting shows as white space at
 * the start of lines: four characters a level, three in a choice. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/chat/jval_get.h"
#include "agent/chat/schema_in.h"

/* The last "null" in the text, and the length of the text at the last search. Each byte is searched
 * once, however many levels around it are nullable. */
struct nulls {
	size_t searched, last;
	bool any;
};

/* The place of a schema: the white space of the levels around it, and their number. */
struct at {
	unsigned indent, depth;
	struct nulls *nulls;
};

static int write_type(struct buf *b, struct jval schema, struct at at);

static void pad(struct buf *b, struct at at)
{
	static const char spaces[] = "                                ";
	unsigned n;

	for (unsigned left = at.indent; left > 0; left -= n) {
		n = left < sizeof(spaces) - 1 ? left : sizeof(spaces) - 1;
		buf_add(b, spaces, n);
	}
}

static bool is_enum(struct jval schema)
{
	struct jval e = get(schema, "enum");

	return is_list(e) && e.n > 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void json_string(struct buf *b, struct jval s)
{
	static const char hex[] = "0123456789abcdef";

	buf_add(b, "\"", 1);
	for (uint32_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.s[i];
		const char *short_of = "btn?fr";

		if (c == '"' || c == '\\') {
			buf_add(b, "\\", 1);
			buf_add(b, (const char *)&s.s[i], 1);
		} else if (c >= 8 && c <= 13 && c != 11) {
			buf_add(b, "\\", 1);
			buf_add(b, &short_of[c - 8], 1);
		} else if (c < 0x20) {
			char u[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };

			buf_add(b, u, sizeof(u));
		} else {
			buf_add(b, (const char *)&s.s[i], 1);
		}
	}
	buf_add(b, "\"", 1);
}

/* Write the fewest digits that read back as the same number; an exponent below 1e-5 and from 1e16.
 */
static void json_float(struct buf *b, double f)
{
	char t[40], *e;
	int digits = 1, exponent;

	do
		snprintf(t, sizeof(t), "%.*e", digits - 1, f);
	while (strtod(t, NULL) != f && ++digits <= 17);
	e = strchr(t, 'e');
	exponent = atoi(e + 1);
	if (exponent < -5 || exponent >= 16) {
		*e = '\0';
		buf_str(b, t);
		snprintf(t, sizeof(t), "e%d", exponent);
	} else {
		snprintf(t, sizeof(t), "%.*f", digits - 1 - exponent > 1 ? digits - 1 - exponent : 1, f);
	}
	buf_str(b, t);
}

static int json_list(struct buf *b, struct jval v, unsigned depth)
{
	buf_add(b, "[", 1);
	for (uint32_t i = 0; i < v.n; i++) {
		if (i > 0)
			buf_add(b, ",", 1);
		if (schema_json(b, v.v[i], depth + 1) < 0)
			return -1;
	}
	buf_add(b, "]", 1);
	return 0;
}

static int json_dict(struct buf *b, struct jval v, unsigned depth)
{
	buf_add(b, "{", 1);
	for (uint32_t i = 0; i < v.d->n; i++) {
		if (i > 0)
			buf_add(b, ",", 1);
		json_string(b, v.d->entry[i].key);
		buf_add(b, ":", 1);
		if (schema_json(b, v.d->entry[i].value, depth + 1) < 0)
			return -1;
	}
	buf_add(b, "}", 1);
	return 0;
}

int schema_json(struct buf *b, struct jval v, unsigned depth)
{
	char t[24];

	if (depth > SCHEMA_DEPTH)
		return -1;
	switch (v.kind) {
	case JV_STR:
		json_string(b, v);
		return 0;
	case JV_BIG:
		buf_add(b, v.s, v.n);
		return 0;
	case JV_INT:
		snprintf(t, sizeof(t), "%" PRId64, v.i);
		buf_str(b, t);
		return 0;
	case JV_BOOL:
		buf_str(b, v.i ? "true" : "false");
		return 0;
	case JV_FLOAT:
		if (!isfinite(v.f))	/* JSON has no word for 1e999, not even Python's "Infinity" */
			return -1;
		json_float(b, v.f);
		return 0;
	case JV_LIST:
		return json_list(b, v, depth);
	case JV_DICT:
		return json_dict(b, v, depth);
	default:
		buf_str(b, "null");
		return 0;
	}
}

/* ---- comments -------------------------------------------------------------------------------- */

/* Write a value after "default: ": text in quotes, except for a choice among texts. */
static int write_default(struct buf *b, struct jval value, struct jval schema)
{
	if (!is_str(value))
		return schema_json(b, value, 0);
	buf_str(b, is_enum(schema) ? "" : "\"");
	buf_add(b, value.s, value.n);
	buf_str(b, is_enum(schema) ? "" : "\"");
	return 0;
}

static void comment(struct buf *b, struct at at, struct jval text)
{
	pad(b, at);
	buf_str(b, "// ");
	buf_add(b, text.s, text.n);
	buf_str(b, "\n");
}

static void write_title(struct buf *b, struct jval property, struct at at)
{
	struct jval title = get(property, "title");

	if (!is_str(title))
		return;
	comment(b, at, title);
	pad(b, at);
	buf_str(b, "//\n");
}

static void write_examples(struct buf *b, struct jval property, struct at at)
{
	struct jval examples = get(property, "examples");

	if (!is_list(examples) || examples.n == 0)
		return;
	pad(b, at);
	buf_str(b, "// Examples:\n");
	for (uint32_t i = 0; i < examples.n; i++) {
		if (!is_str(examples.v[i]))
			continue;
		pad(b, at);
		buf_str(b, "// - \"");
		buf_add(b, examples.v[i].s, examples.v[i].n);
		buf_str(b, "\"\n");
	}
}

/* ---- types ----------------------------------------------------------------------------------- */

/* Tell if the text from <from> on has "null". O(bytes written since the last call). */
static bool has_null(const struct buf *b, struct nulls *nulls, size_t from)
{
	size_t at = nulls->searched < 3 ? 0 : nulls->searched - 3;
	const char *p;

	while ((p = memmem(b->p + at, b->n - at, "null", 4)) != NULL) {
		nulls->last = (size_t)(p - b->p);
		nulls->any = true;
		at = nulls->last + 1;
	}
	nulls->searched = b->n;
	return nulls->any && nulls->last >= from;
}

/* Write the type, and " | null" if the schema is nullable and its text does not say so itself. */
static int write_nullable(struct buf *b, struct jval schema, struct at at)
{
	struct jval nullable = get(schema, "nullable");
	size_t from = b->n;

	if (write_type(b, schema, at) < 0)
		return -1;
	if (nullable.kind == JV_BOOL && nullable.i != 0 && !b->failed && !has_null(b, at.nulls, from))
		buf_str(b, " | null");
	return 0;
}

static bool same_text(struct jval a, struct jval b)
{
	return is_str(a) && is_str(b) && span_eq(jval_span(a), jval_span(b));
}

/* Write " // description default: 1" after one of several choices. <described>: its description is
 * written elsewhere. */
static int write_trailer(struct buf *b, struct jval schema, bool described, bool plain_default)
{
	struct jval description = get(schema, "description"), def = get(schema, "default");
	bool text = is_str(description) && !described;

	if (!text && def.kind == JV_MISSING)
		return 0;
	buf_str(b, " // ");
	if (text)
		buf_add(b, description.s, description.n);
	if (def.kind == JV_MISSING)
		return 0;
	buf_str(b, text ? " default: " : "default: ");
	return plain_default && is_str(def) && is_enum(schema) ? schema_json(b, def, 0)
							       : write_default(b, def, schema);
}

static struct at deeper(struct at at, unsigned indent)
{
	return (struct at){ at.indent + indent, at.depth + 1, at.nulls };
}

/* Write a choice that is no property: each on a line of its own. */
static int write_choice(struct buf *b, struct jval of, struct at at)
{
	for (uint32_t i = 0; i < of.n; i++) {
		buf_str(b, "\n");
		pad(b, at);
		buf_str(b, " | ");
		if (write_nullable(b, of.v[i], deeper(at, 3)) < 0 || write_trailer(b, of.v[i], false, true) < 0)
			return -1;
	}
	return 0;
}

/* Write "name", or "name?" if it is optional. */
static void write_name(struct buf *b, struct jval key, bool must, struct at at)
{
	pad(b, at);
	buf_add(b, key.s, key.n);
	buf_str(b, must ? "" : "?");
}

static int write_choice_property(struct buf *b, struct jval key, struct jval property, bool must,
		struct at at)
{
	struct jval of = get(property, "oneOf"), description = get(property, "description");
	struct jval def = get(property, "default");
	bool above = is_str(description) &&
	    !(of.n > 0 && same_text(get(of.v[0], "description"), description));

	if (above)
		comment(b, at, description);
	if (def.kind != JV_MISSING) {
		pad(b, at);
		buf_str(b, "// default: ");
		if (write_default(b, def, property) < 0)
			return -1;
		buf_str(b, "\n");
	}
	write_name(b, key, must, at);
	buf_str(b, ":\n");
	for (uint32_t i = 0; i < of.n; i++) {
		bool described = (i == 0 && above) || same_text(get(of.v[i], "description"), description);

		pad(b, at);
		buf_str(b, " | ");
		if (write_nullable(b, of.v[i], deeper(at, 3)) < 0 ||
		    write_trailer(b, of.v[i], described, false) < 0)
			return -1;
		buf_str(b, "\n");
	}
	pad(b, at);
	buf_str(b, ",\n");
	return 0;
}

static int write_property(struct buf *b, struct jval key, struct jval property, bool must,
		struct at at)
{
	struct jval def = get(property, "default"), choice = get(property, "oneOf");

	write_title(b, property, at);
	if (choice.kind == JV_MISSING && is_str(get(property, "description")))
		comment(b, at, get(property, "description"));
	write_examples(b, property, at);
	if (is_list(choice))
		return write_choice_property(b, key, property, must, at);
	write_name(b, key, must, at);
	buf_str(b, ": ");
	if (write_nullable(b, property, deeper(at, 4)) < 0)
		return -1;
	buf_str(b, ",");
	if (choice.kind == JV_MISSING && def.kind != JV_MISSING) {
		buf_str(b, " // default: ");
		if (write_default(b, def, property) < 0)
			return -1;
	}
	buf_str(b, "\n");
	return 0;
}

/* Tell for each member of <of> if <required> names it. By lookup, because both may be as long as
 * the body. Returns NULL if there is no memory. */
static bool *who_must(const struct jdict *of, struct jval required)
{
	bool *must = mem_calloc(of->n, sizeof(*must));

	for (uint32_t i = 0; must != NULL && is_list(required) && i < required.n; i++) {
		const struct jval *v = is_str(required.v[i]) ? jdict_get(of, required.v[i]) : NULL;

		if (v != NULL)
			must[(const struct jdict_entry *)((const char *)v -
				 offsetof(struct jdict_entry, value)) -
			    of->entry] = true;
	}
	return must;
}

static int write_properties(struct buf *b, const struct jdict *of, struct jval required,
		struct at at)
{
	bool *must = who_must(of, required);
	int rc = 0;

	if (must == NULL) {
		b->failed = true;
		return 0;
	}
	for (uint32_t i = 0; i < of->n && rc == 0; i++)
		rc = write_property(b, of->entry[i].key, of->entry[i].value, must[i], at);
	mem_free(must);
	return rc;
}

static int write_object(struct buf *b, struct jval schema, struct at at)
{
	struct jval properties = get(schema, "properties");

	if (is_str(get(schema, "description")))
		comment(b, at, get(schema, "description"));
	buf_str(b, "{\n");
	if (properties.kind == JV_DICT && properties.d->n > 0 &&
	    write_properties(b, properties.d, get(schema, "required"), at) < 0)
		return -1;
	pad(b, at);
	buf_str(b, "}");
	return 0;
}

static void write_string(struct buf *b, struct jval schema)
{
	struct jval of = get(schema, "enum");
	bool any = false;

	for (uint32_t i = 0; is_list(of) && i < of.n; i++) {
		if (!is_str(of.v[i]))
			continue;
		buf_str(b, any ? " | \"" : "\"");
		buf_add(b, of.v[i].s, of.v[i].n);
		buf_str(b, "\"");
		any = true;
	}
	if (!any)
		buf_str(b, "string");
}

/* Write the types of "type": ["integer", "string"]. Returns false if there is none. */
static bool write_types(struct buf *b, struct jval types)
{
	bool any = false;

	for (uint32_t i = 0; i < types.n; i++) {
		if (!is_str(types.v[i]))
			continue;
		if (any)
			buf_str(b, " | ");
		if (is_word(jval_span(types.v[i]), "integer"))
			buf_str(b, "number");
		else
			buf_add(b, types.v[i].s, types.v[i].n);
		any = true;
	}
	return any;
}

static int write_array(struct buf *b, struct jval schema, struct at at)
{
	struct jval items = get(schema, "items");

	if (items.kind == JV_MISSING) {
		buf_str(b, "Array<any>");
		return 0;
	}
	if (write_type(b, items, deeper(at, 0)) < 0)
		return -1;
	buf_str(b, "[]");
	return 0;
}

static int write_type(struct buf *b, struct jval schema, struct at at)
{
	struct jval type = get(schema, "type"), choice = get(schema, "oneOf");

	if (at.depth > SCHEMA_DEPTH)
		return -1;
	if (is_list(choice))
		return write_choice(b, choice, at);
	if (is_list(type) && write_types(b, type))
		return 0;
	if (!is_str(type)) {
		buf_str(b, "any");
		return 0;
	}
	if (is_word(jval_span(type), "object"))
		return write_object(b, schema, at);
	if (is_word(jval_span(type), "array"))
		return write_array(b, schema, at);
	if (is_word(jval_span(type), "string"))
		write_string(b, schema);
	else if (is_word(jval_span(type), "number") || is_word(jval_span(type), "integer"))
		buf_str(b, "number");
	else
		buf_str(b, is_word(jval_span(type), "boolean") ? "boolean" : "any");
	return 0;
}

int schema_write(struct buf *b, struct jval schema)
{
	struct nulls nulls = { .searched = b->n };

	return write_type(b, schema, (struct at){ .nulls = &nulls });
}
