/* tree.c - libyaml's events into a flat array of nodes.
 *
 * Events are used instead of libyaml's documents, because each has a mark, and reading stops at the
 * first limit. So a nesting bomb never gets deep, and an alias bomb never gets large. The stack of
 * open collections has CONF_DEPTH_MAX entries; nothing recurses. */
#include <stdio.h>

#include <yaml.h>

#include "agent/base/mem.h"
#include "agent/conf/tree_in.h"
#include "agent/conf/value.h"

struct reader {
	struct conf_tree *t;
	const char *file;
	struct span text;
	struct conf_errors *es;
	struct { uint32_t node, last; } open[CONF_DEPTH_MAX];	/* last: its youngest child, or 0 */
	unsigned depth;
	unsigned documents;
};

void conf_tree_free(struct conf_tree *t)
{
	for (uint32_t i = 0; i < t->nodes.n; i++)
		mem_free((char *)t->nodes.p[i].text.p);
	vec_free(&t->nodes);
}

bool conf_node_is_null(const struct conf_node *n)
{
	static const char *const words[] = { "", "~", "null", "Null", "NULL" };

	if (n->kind != NODE_SCALAR || !n->plain)
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (span_eq(n->text, span_str(words[i])))
			return true;
	return false;
}

/* ---- bytes before YAML ------------------------------------------------------------------- */

static bool yaml_allows(uint32_t cp)
{
	return cp == '\t' || cp == '\n' || cp == '\r' || cp == 0x85 || cp == 0x2028 || cp == 0x2029 ||
	       cp == 0xfeff || conf_can_be_seen(cp);
}

/* Checked before libyaml, because it would guess UTF-16 and gives no line for an invalid byte. */
static int check_bytes(struct reader *r)
{
	struct conf_mark at = { 1, 1 };
	struct span s = r->text;
	uint32_t cp = 0;
	size_t n;

	for (; s.n > 0; s = span_of(s.p + n, s.n - n)) {
		n = conf_utf8(s, &cp);
		if (n == 0) {
			conf_errors_add(r->es, r->file, at, "The byte 0x%02x is not UTF-8 here; save the file as UTF-8.",
					(uint8_t)s.p[0]);
			return -1;
		}
		if (!yaml_allows(cp)) {
			conf_errors_add(r->es, r->file, at,
				"The control character 0x%02x is not allowed in a configuration.", (unsigned)cp);
			return -1;
		}
		if (cp == '\n') {
			at.line++;
			at.column = 0;
		}
		at.column++;
	}
	return 0;
}

/* Returns the column of a tab in the indentation of <line> (from 1), or 0. */
static int tab_in_indent(struct span text, int line)
{
	const char *p = text.p, *end = text.p + text.n;

	while (--line > 0 && (p = memchr(p, '\n', (size_t)(end - p))) != NULL)
		p++;
	if (p == NULL)
		return 0;
	for (int column = 1; p < end && (*p == ' ' || *p == '\t'); p++, column++)
		if (*p == '\t')
			return column;
	return 0;
}

/* ---- events ------------------------------------------------------------------------------ */

static struct conf_mark mark_of(const yaml_mark_t *m)
{
	return (struct conf_mark){ (int)m->line + 1, (int)m->column + 1 };
}

static int no_memory(struct reader *r)
{
	conf_errors_add(r->es, r->file, (struct conf_mark){ 0, 0 },
			"There is not enough memory to read the configuration.");
	return -1;
}

/* Add a node below the open one. Returns -1, and reports it, if reading must end. */
static int add_node(struct reader *r, enum conf_kind kind, struct conf_mark at)
{
	struct conf_tree *t = r->t;
	uint32_t i = (uint32_t)t->nodes.n;

	if (i == CONF_NODES_MAX) {
		conf_errors_add(r->es, r->file, at,
			"The configuration holds more than %d keys and values.", CONF_NODES_MAX);
		return -1;
	}
	if (vec_push(&t->nodes, (struct conf_node){ .kind = kind, .at = at }) < 0)
		return no_memory(r);
	if (r->depth > 0) {
		if (r->open[r->depth - 1].last != 0)
			t->nodes.p[r->open[r->depth - 1].last].next = i;
		else
			t->nodes.p[r->open[r->depth - 1].node].first = i;
		r->open[r->depth - 1].last = i;
	}
	return 0;
}

static int open_collection(struct reader *r, enum conf_kind kind, struct conf_mark at)
{
	if (r->depth == CONF_DEPTH_MAX) {
		conf_errors_add(r->es, r->file, at,
			"Lists and sections are nested more than %d deep here.", CONF_DEPTH_MAX);
		return -1;
	}
	if (add_node(r, kind, at) != 0)
		return -1;
	r->open[r->depth].node = (uint32_t)r->t->nodes.n - 1;
	r->open[r->depth].last = 0;
	r->depth++;
	return 0;
}

static int add_scalar(struct reader *r, const yaml_event_t *ev, struct conf_mark at)
{
	struct conf_node *node;
	const char *p = (const char *)ev->data.scalar.value;
	size_t n = ev->data.scalar.length;
	char *text;

	if (n > CONF_SCALAR_MAX) {
		conf_errors_add(r->es, r->file, at, "This text is longer than %d bytes.",
				CONF_SCALAR_MAX);
		return add_node(r, NODE_REFUSED, at);
	}
	if (add_node(r, NODE_SCALAR, at) != 0)
		return -1;
	node = &r->t->nodes.p[r->t->nodes.n - 1];
	if ((text = mem_strndup(p, n)) == NULL) {
		node->kind = NODE_REFUSED;
		return no_memory(r);
	}
	node->text = span_of(text, n);
	node->whole = true;
	node->plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	return 0;
}

static void refuse_decoration(struct reader *r, const yaml_char_t *anchor, const yaml_char_t *tag,
			      struct conf_mark at)
{
	char show[CONF_SHOW_MAX];

	if (anchor != NULL)
		conf_errors_add(r->es, r->file, at,
			"The anchor %s is not allowed: there are no aliases in a configuration.",
				conf_show(span_str((const char *)anchor), show));
	if (tag != NULL)
		conf_errors_add(r->es, r->file, at,
			"The tag %s is not allowed: the type of each value is "
			"known.", conf_show(span_str((const char *)tag), show));
}

static int handle_event(struct reader *r, const yaml_event_t *ev)
{
	struct conf_mark at = mark_of(&ev->start_mark);
	char show[CONF_SHOW_MAX];

	switch (ev->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (++r->documents == 1)
			return 0;
		conf_errors_add(r->es, r->file, at,
			"A second document starts here; a configuration is one document.");
		return -1;
	case YAML_ALIAS_EVENT:
		conf_errors_add(r->es, r->file, at, "The alias %s is not allowed: write the value out.",
				conf_show(span_str((const char *)ev->data.alias.anchor), show));
		return add_node(r, NODE_REFUSED, at);
	case YAML_SCALAR_EVENT:
		refuse_decoration(r, ev->data.scalar.anchor, ev->data.scalar.tag, at);
		return add_scalar(r, ev, at);
	case YAML_SEQUENCE_START_EVENT:
		refuse_decoration(r, ev->data.sequence_start.anchor, ev->data.sequence_start.tag, at);
		return open_collection(r, NODE_LIST, at);
	case YAML_MAPPING_START_EVENT:
		refuse_decoration(r, ev->data.mapping_start.anchor, ev->data.mapping_start.tag, at);
		return open_collection(r, NODE_MAP, at);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		r->depth--;
		r->t->nodes.p[r->open[r->depth].node].whole = true;
		return 0;
	default:
		return 0;
	}
}

static void syntax_error(struct reader *r, const yaml_parser_t *p)
{
	struct conf_mark at = mark_of(&p->problem_mark);
	const char *problem = p->problem != NULL ? p->problem : "it cannot be read";
	int column;

	if (p->error == YAML_MEMORY_ERROR) {
		no_memory(r);
		return;
	}
	if (p->error == YAML_READER_ERROR)
		at = (struct conf_mark){ 0, 0 };
	if ((column = tab_in_indent(r->text, at.line)) > 0) {
		at.column = column;
		conf_errors_add(r->es, r->file, at, "A tab may not indent; YAML wants spaces.");
	} else if (p->context != NULL && p->context_mark.line != p->problem_mark.line) {
		conf_errors_add(r->es, r->file, at, "This is not YAML: %s (%s that starts in line %d).",
				problem, p->context, (int)p->context_mark.line + 1);
	} else {
		conf_errors_add(r->es, r->file, at, "This is not YAML: %s.", problem);
	}
}

void conf_tree_read(struct conf_tree *t, const char *file, struct span text,
		    struct conf_errors *es)
{
	struct reader r = { .t = t, .file = file, .text = text, .es = es };
	yaml_parser_t parser;
	yaml_event_t ev;
	int rc;

	memset(t, 0, sizeof(*t));
	if (check_bytes(&r) != 0)
		return;
	if (!yaml_parser_initialize(&parser)) {
		no_memory(&r);
		return;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)(text.p ? text.p : ""), text.n);
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	do {
		if (!yaml_parser_parse(&parser, &ev)) {
			syntax_error(&r, &parser);
			break;
		}
		rc = ev.type == YAML_STREAM_END_EVENT ? 1 : handle_event(&r, &ev);
		yaml_event_delete(&ev);
	} while (rc == 0);
	yaml_parser_delete(&parser);
}
