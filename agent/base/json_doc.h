/* json_doc.h - a whole JSON text as a tree of borrowed strings, with the place of every value.
 *
 *   { "model": { "type": "BPE", "vocab": {..28 MB..} } }
 *
 *   object - "model" - object - "type" - string
 *                             \ "vocab" - raw
 *
 * The strict reader, for files in memory: an error has line, column and path. Requests are read by
 * json.h, which is tolerant and resumable, and whose keys end at 63 bytes; keys of a vocabulary do
 * not. The caller may keep some values raw: their text is skipped, and a cursor reads it one string
 * after another, because a tree of a million nodes costs more than all the rest.
 *
 * Strict RFC 8259: invalid UTF-8 is an error, and so are a lone surrogate and a duplicate key. */
#ifndef KVROUTE_BASE_JSON_DOC_H
#define KVROUTE_BASE_JSON_DOC_H

#include "agent/base/err.h"
#include "agent/base/types.h"

#define JSON_DOC_DEPTH_MAX	64
#define JSON_DOC_NODES_MAX	(1u << 20)
#define JSON_DOC_BYTES_MAX	((size_t)1 << 30)

enum json_kind {
	NODE_NULL,
	NODE_FALSE,
	NODE_TRUE,
	NODE_NUMBER,
	NODE_STRING,
	NODE_ARRAY,
	NODE_OBJECT,
	NODE_RAW
};

struct json_node {
	enum json_kind kind;
	uint32_t index;			/* in its parent */
	const char *at;			/* its start in the text */
	struct span key;		/* of a member, decoded */
	struct span s;			/* string: decoded; number and raw: as written */
	struct json_node *parent, *child, *next;
};

struct json_doc;

/* Tell if the object or array <v>, whose key and parent are known, is kept as raw text. */
typedef bool json_doc_raw(const struct json_node *v);

/* Borrow <text> and <name> for its life. Returns NULL and fills <e> on failure. O(n). */
struct json_doc *json_doc_new(struct span text, const char *name, json_doc_raw *raw, struct err *e);
void json_doc_free(struct json_doc *d);
const struct json_node *json_doc_root(const struct json_doc *d);

/* Reject the value <v> (NULL: the whole text), or the place <at>: set file, line and column of <e>,
 * and its text, after "path: ". Return -1. */
int json_refuse(const struct json_doc *d, const struct json_node *v, struct err *e, const char *fmt,
    ...) __attribute__((format(printf, 4, 5)));
int json_refuse_at(const struct json_doc *d, const char *at, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

const char *json_kind_text(enum json_kind k);
/* tells if it is a string with this content */
bool json_is(const struct json_node *v, const char *text);

/* Return a member, or NULL; a null member counts as absent. */
const struct json_node *json_get(const struct json_node *object, const char *key);

/* Read a member of a given kind. Return 0, or -1 and fill <e> if it is of another kind, or, for
 * json_need_*(), absent. An absent one leaves <out> unchanged. */
int json_get_bool(const struct json_doc *d, const struct json_node *object, const char *key,
    bool *out, struct err *e);
int json_get_text(const struct json_doc *d, const struct json_node *object, const char *key,
    struct span *out, struct err *e);
int json_need_bool(const struct json_doc *d, const struct json_node *object, const char *key,
    bool *out, struct err *e);
int json_need_text(const struct json_doc *d, const struct json_node *object, const char *key,
    struct span *out, struct err *e);
const struct json_node *json_need(const struct json_doc *d, const struct json_node *object,
    const char *key, enum json_kind kind, struct err *e);
int json_u32(const struct json_doc *d, const struct json_node *v, uint32_t *out, struct err *e);

/* Check that <v> is an object with members of <keys> (separated by blanks) only. */
int json_only(const struct json_doc *d, const struct json_node *v, const char *keys, struct err *e);

/* Read a raw value. A cursor is after the opening bracket, or after a value. */
struct json_cursor {
	struct json_doc *d;
	const char *p, *end;
	uint64_t n;		/* values read */
};
bool json_cursor_open(struct json_cursor *c, struct json_doc *d, const struct json_node *raw,
    char bracket);
/* Go to the next value. Returns 1 if there is one: <c> is before it; 0 at the end; -1 and fills <e>
 * on failure. */
int json_cursor_next(struct json_cursor *c, struct err *e);
/* borrowed until json_doc_free() */
int json_cursor_string(struct json_cursor *c, struct span *out, struct err *e);
/* reads the colon too */
int json_cursor_key(struct json_cursor *c, struct span *out, struct err *e);
int json_cursor_u32(struct json_cursor *c, uint32_t *out, struct err *e);

#endif
