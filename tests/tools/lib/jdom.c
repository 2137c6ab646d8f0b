/* jdom.c - JSON to a tree, without recursion.
 *
 * The parser stands in one container and knows its parent; opening a bracket moves it down, closing
 * one moves it up. Decoded text is never longer than the escapes it came from, so one allocation as
 * long as the input holds all of it. Nodes come in blocks and never move. One pass, O(bytes). */
#include "tests/tools/lib/jdom.h"

#include <stdlib.h>

#include "tests/tools/lib/buf.h"

#define NODES_PER_BLOCK	64

struct block {
	struct block *next;
	struct jnode nodes[NODES_PER_BLOCK];
};

struct jdom {
	const char *p, *end;		/* what is left of the input */
	char *text, *text_at;		/* decoded strings */
	struct block *blocks;
	uint32_t n_nodes, depth;
	struct jnode *root;
	const char *why;
};

static struct jnode *node_new(struct jdom *d)
{
	struct block *b = d->blocks;
	uint32_t at = d->n_nodes % NODES_PER_BLOCK;

	if (d->n_nodes >= JDOM_NODES_MAX) {
		d->why = "too many values";
		return NULL;
	}
	if (at == 0) {
		b = tool_resize(NULL, 1, sizeof(*b));
		b->next = d->blocks;
		d->blocks = b;
	}
	d->n_nodes++;
	b->nodes[at] = (struct jnode){ 0 };
	return &b->nodes[at];
}

static void skip_space(struct jdom *d)
{
	while (d->p < d->end && (*d->p == ' ' || *d->p == '\t' || *d->p == '\n' || *d->p == '\r'))
		d->p++;
}

static int hex4(struct jdom *d)
{
	int v = 0;

	if (d->end - d->p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = *d->p++;

		if (c >= '0' && c <= '9')
			v = v * 16 + c - '0';
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			v = v * 16 + (c | 0x20) - 'a' + 10;
		else
			return -1;
	}
	return v;
}

static void put_utf8(struct jdom *d, uint32_t c)
{
	if (c < 0x80) {
		*d->text_at++ = (char)c;
		return;
	}
	if (c < 0x800) {
		*d->text_at++ = (char)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*d->text_at++ = (char)(0xe0 | c >> 12);
		} else {
			*d->text_at++ = (char)(0xf0 | c >> 18);
			*d->text_at++ = (char)(0x80 | (c >> 12 & 0x3f));
		}
		*d->text_at++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*d->text_at++ = (char)(0x80 | (c & 0x3f));
}

/* Called after "\u". A high surrogate takes the low one that follows; alone, each is U+FFFD. */
static bool unicode_escape(struct jdom *d)
{
	int c = hex4(d), low;

	if (c < 0)
		return false;
	if (c >= 0xd800 && c < 0xdc00 && d->end - d->p >= 6 && d->p[0] == '\\' && d->p[1] == 'u') {
		const char *back = d->p;

		d->p += 2;
		low = hex4(d);
		if (low >= 0xdc00 && low < 0xe000) {
			put_utf8(d, 0x10000 + ((uint32_t)(c - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
			return true;
		}
		d->p = back;
	}
	put_utf8(d, c >= 0xd800 && c < 0xe000 ? 0xfffd : (uint32_t)c);
	return true;
}

static bool escape(struct jdom *d)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at;

	if (d->p == d->end)
		return false;
	if (*d->p == 'u') {
		d->p++;
		return unicode_escape(d);
	}
	if (*d->p == '\0' || (at = strchr(from, *d->p)) == NULL)
		return false;
	*d->text_at++ = to[at - from];
	d->p++;
	return true;
}

/* At the opening quote. */
static bool string(struct jdom *d, struct span *out)
{
	char *start = d->text_at;

	for (d->p++; d->p < d->end; ) {
		char c = *d->p++;

		if (c == '"') {
			*out = span_of(start, (size_t)(d->text_at - start));
			return true;
		}
		if (c != '\\')
			*d->text_at++ = c;
		else if (!escape(d))
			break;
	}
	d->why = "bad string";
	return false;
}

static bool digits(struct jdom *d)
{
	const char *from = d->p;

	while (d->p < d->end && *d->p >= '0' && *d->p <= '9')
		d->p++;
	return d->p > from;
}

static bool number(struct jdom *d, struct jnode *nd)
{
	const char *from = d->p;
	bool good;

	if (*d->p == '-')
		d->p++;
	good = digits(d);
	if (good && d->p < d->end && *d->p == '.') {
		d->p++;
		good = digits(d);
	}
	if (good && d->p < d->end && (*d->p | 0x20) == 'e') {
		d->p++;
		if (d->p < d->end && (*d->p == '+' || *d->p == '-'))
			d->p++;
		good = digits(d);
	}
	nd->text = span_of(from, (size_t)(d->p - from));
	if (!good)
		d->why = "bad number";
	return good;
}

static bool literal(struct jdom *d, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(d->end - d->p) < n || memcmp(d->p, word, n)) {
		d->why = "bad value";
		return false;
	}
	d->p += n;
	return true;
}

static bool scalar(struct jdom *d, struct jnode *nd)
{
	switch (*d->p) {
	case '"':
		nd->type = J_STRING;
		return string(d, &nd->text);
	case 't':
		nd->type = J_TRUE;
		return literal(d, "true");
	case 'f':
		nd->type = J_FALSE;
		return literal(d, "false");
	case 'n':
		nd->type = J_NULL;
		return literal(d, "null");
	default:
		nd->type = J_NUMBER;
		return number(d, nd);
	}
}

/* Read the name and the colon before a member of an object. */
static bool member_key(struct jdom *d, struct span *key)
{
	if (d->p == d->end || *d->p != '"') {
		d->why = "a key was expected";
		return false;
	}
	if (!string(d, key))
		return false;
	skip_space(d);
	if (d->p == d->end || *d->p != ':') {
		d->why = "a colon was expected";
		return false;
	}
	d->p++;
	skip_space(d);
	return true;
}

static void adopt(struct jdom *d, struct jnode *in, struct jnode *nd)
{
	nd->parent = in;
	if (in == NULL) {
		d->root = nd;
		return;
	}
	if (in->last)
		in->last->next = nd;
	else
		in->first = nd;
	in->last = nd;
	in->n++;
}

/* One value starts at d->p inside <in>. Gives the container to stand in next; <in> for a scalar. */
static struct jnode *value(struct jdom *d, struct jnode *in)
{
	struct span key = { 0 };
	struct jnode *nd;
	bool open;

	if (in && in->type == J_OBJECT && !member_key(d, &key))
		return NULL;
	if (d->p == d->end) {
		d->why = "ends early";
		return NULL;
	}
	if ((nd = node_new(d)) == NULL)
		return NULL;
	nd->key = key;
	nd->raw.p = d->p;
	adopt(d, in, nd);
	open = *d->p == '{' || *d->p == '[';
	if (open) {
		nd->type = *d->p++ == '{' ? J_OBJECT : J_ARRAY;
		if (++d->depth > JDOM_DEPTH_MAX) {
			d->why = "nested too deeply";
			return NULL;
		}
		return nd;
	}
	if (!scalar(d, nd))
		return NULL;
	nd->raw.n = (size_t)(d->p - nd->raw.p);
	return in ? in : nd;
}

static bool closes(const struct jdom *d, const struct jnode *in)
{
	return d->p < d->end && *d->p == (in->type == J_OBJECT ? '}' : ']');
}

static bool parse(struct jdom *d)
{
	struct jnode *in;

	skip_space(d);
	if ((in = value(d, NULL)) == NULL)
		return false;
	while (d->depth > 0) {
		skip_space(d);
		if (closes(d, in)) {
			d->p++;
			d->depth--;
			in->raw.n = (size_t)(d->p - in->raw.p);
			in = in->parent;
			continue;
		}
		if (in->n) {
			if (d->p == d->end || *d->p != ',') {
				d->why = "a comma or an end was expected";
				return false;
			}
			d->p++;
			skip_space(d);
		}
		if ((in = value(d, in)) == NULL)
			return false;
	}
	skip_space(d);
	if (d->p != d->end)
		d->why = "more than one value";
	return d->p == d->end;
}

struct jdom *jdom_parse(const char *p, size_t n, const char **why)
{
	struct jdom *d = tool_resize(NULL, 1, sizeof(*d));

	*d = (struct jdom){ .p = p, .end = p + n };
	d->text = d->text_at = tool_resize(NULL, n + 1, 1);
	if (parse(d))
		return d;
	*why = d->why ? d->why : "not JSON";
	jdom_free(d);
	return NULL;
}

void jdom_free(struct jdom *d)
{
	struct block *b, *next;

	if (d == NULL)
		return;
	for (b = d->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	free(d->text);
	free(d);
}

const struct jnode *jdom_root(const struct jdom *d)
{
	return d->root;
}

const struct jnode *jget(const struct jnode *nd, const char *key)
{
	const struct jnode *found = NULL;

	if (!jis(nd, J_OBJECT))
		return NULL;
	for (const struct jnode *c = nd->first; c; c = c->next)
		if (span_eq(c->key, span_str(key)))
			found = c;
	return jis(found, J_NULL) ? NULL : found;
}

bool jis(const struct jnode *nd, enum jtype type)
{
	return nd && nd->type == type;
}

struct span jtext(const struct jnode *nd)
{
	return jis(nd, J_STRING) ? nd->text : (struct span){ 0 };
}

double jnumber(const struct jnode *nd, double otherwise)
{
	char s[64];

	if (!jis(nd, J_NUMBER) || nd->text.n >= sizeof(s))
		return otherwise;
	memcpy(s, nd->text.p, nd->text.n);
	s[nd->text.n] = 0;
	return strtod(s, NULL);
}

bool jbool(const struct jnode *nd, bool otherwise)
{
	return jis(nd, J_TRUE) ? true : jis(nd, J_FALSE) ? false : otherwise;
}
