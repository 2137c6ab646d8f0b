/* json_doc.h - a whole JSON text as a tree of borrowed strings, with the place of every value.
 *
 *   { "model": { "type": "BPE", "vocab": {..28 MB..} } }     object - "model" - object - "type"  - string
 *                                                                                      \ "vocab" - raw
 *
 * For files that a person wrote or fetched and that are in memory at once: a mistake is told with line, column and path. (What
 * comes over the wire in pieces is base/json.h's business; its keys end at 63 bytes, a vocabulary's do not.)
 * Some members stay raw, that is text that was only skipped: "vocab" and "merges" of the root's "model", and "vocab" of the root.
 * They are read by a cursor, one string after another, because a tree of a million nodes would cost more than all the rest.
 *
 * Strict RFC 8259: the text is valid UTF-8, a lone surrogate is a mistake, and so is a key that an object has twice. */
#ifndef KVROUTE_BASE_JSON_DOC_H
#define KVROUTE_BASE_JSON_DOC_H

#include "agent/base/err.h"
#include "agent/base/types.h"

#define JSON_DOC_DEPTH_MAX	64
#define JSON_DOC_NODES_MAX	(1u << 20)
#define JSON_DOC_BYTES_MAX	((size_t)1 << 30)

enum json_kind { NODE_NULL, NODE_FALSE, NODE_TRUE, NODE_NUMBER, NODE_STRING, NODE_ARRAY, NODE_OBJECT, NODE_RAW };

struct json_node {
	enum json_kind kind;
	uint32_t index;			/* among its parent's */
	const char *at;			/* where it begins, in the text */
	struct span key;		/* of a member, decoded */
	struct span s;			/* string: decoded; number and raw: as written */
	struct json_node *parent, *child, *next;
};

struct json_doc;

/* Tell if the object or array <v>, whose key and parent are known, is kept as raw text. */
typedef bool json_doc_raw(const struct json_node *v);

/* Borrows <text> and <name> for its life. NULL and <e> filled. O(n). */
struct json_doc *json_doc_new(struct span text, const char *name, json_doc_raw *raw, struct err *e);
void json_doc_free(struct json_doc *d);
const struct json_node *json_doc_root(const struct json_doc *d);

/* Say what is wrong with the value <v> (NULL: the text as a whole), or at <at>: file, line and column are filled in,
 * and "path: " stands before the sentence. Return -1. */
int json_refuse(const struct json_doc *d, const struct json_node *v, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int json_refuse_at(const struct json_doc *d, const char *at, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

const char *json_kind_text(enum json_kind k);
bool json_is(const struct json_node *v, const char *text);	/* a string with just this content */

/* A member, or NULL; one that is null counts as not there. */
const struct json_node *json_get(const struct json_node *object, const char *key);

/* The same with what it has to be. 0; -1 and <e> filled: it is there and is not such a value, or is not there and
 * has to be (json_need_). Without it <out> stays as it is. */
int json_get_bool(const struct json_doc *d, const struct json_node *object, const char *key, bool *out, struct err *e);
int json_get_text(const struct json_doc *d, const struct json_node *object, const char *key, struct span *out, struct err *e);
int json_need_bool(const struct json_doc *d, const struct json_node *object, const char *key, bool *out, struct err *e);
int json_need_text(const struct json_doc *d, const struct json_node *object, const char *key, struct span *out, struct err *e);
const struct json_node *json_need(const struct json_doc *d, const struct json_node *object, const char *key, enum json_kind kind, struct err *e);
int json_u32(const struct json_doc *d, const struct json_node *v, uint32_t *out, struct err *e);

/* <v> is an object and has no members but those of <keys> (separated by blanks). */
int json_only(const struct json_doc *d, const struct json_node *v, const char *keys, struct err *e);

/* Read a raw value. A cursor stands behind the bracket that opens it, or behind a value. */
struct json_cursor {
	struct json_doc *d;
	const char *p, *end;
	uint64_t n;		/* values read */
};
bool json_cursor_open(struct json_cursor *c, struct json_doc *d, const struct json_node *raw, char bracket);
/* The next: 1 there is one, <c> stands before it; 0 it was the last; -1 and <e> filled. */
int json_cursor_next(struct json_cursor *c, struct err *e);
int json_cursor_string(struct json_cursor *c, struct span *out, struct err *e);	/* borrowed until json_doc_free() */
int json_cursor_key(struct json_cursor *c, struct span *out, struct err *e);		/* and the colon */
int json_cursor_u32(struct json_cursor *c, uint32_t *out, struct err *e);

#endif
