/* jdoc.h - a whole JSON text as a tree of borrowed strings, with the place of every value.
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
#ifndef KVROUTE_TOK_JDOC_H
#define KVROUTE_TOK_JDOC_H

#include "agent/base/err.h"
#include "agent/base/types.h"

#define JDOC_DEPTH_MAX	64
#define JDOC_NODES_MAX	(1u << 20)
#define JDOC_BYTES_MAX	((size_t)1 << 30)

enum jkind { J_NULL, J_FALSE, J_TRUE, J_NUMBER, J_STRING, J_ARRAY, J_OBJECT, J_RAW };

struct jnode {
	enum jkind kind;
	uint32_t index;			/* among its parent's */
	const char *at;			/* where it begins, in the text */
	struct span key;		/* of a member, decoded */
	struct span s;			/* string: decoded; number and raw: as written */
	struct jnode *parent, *child, *next;
};

struct jdoc;

/* Borrows <text> and <name> for its life. NULL and <e> filled. O(n). */
struct jdoc *jdoc_new(struct span text, const char *name, struct err *e);
void jdoc_free(struct jdoc *d);
const struct jnode *jdoc_root(const struct jdoc *d);

/* Say what is wrong with the value <v> (NULL: the text as a whole), or at <at>: file, line and column are filled in,
 * and "path: " stands before the sentence. Return -1. */
int j_refuse(const struct jdoc *d, const struct jnode *v, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int j_refuse_at(const struct jdoc *d, const char *at, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

const char *jkind_text(enum jkind k);
bool j_is(const struct jnode *v, const char *text);	/* a string with just this content */

/* A member, or NULL; one that is null counts as not there. */
const struct jnode *j_get(const struct jnode *object, const char *key);

/* The same with what it has to be. 0; -1 and <e> filled: it is there and is not such a value, or is not there and
 * has to be (j_need_). Without it <out> stays as it is. */
int j_bool(const struct jdoc *d, const struct jnode *object, const char *key, bool *out, struct err *e);
int j_text(const struct jdoc *d, const struct jnode *object, const char *key, struct span *out, struct err *e);
int j_need_bool(const struct jdoc *d, const struct jnode *object, const char *key, bool *out, struct err *e);
int j_need_text(const struct jdoc *d, const struct jnode *object, const char *key, struct span *out, struct err *e);
const struct jnode *j_need(const struct jdoc *d, const struct jnode *object, const char *key, enum jkind kind, struct err *e);
int j_u32(const struct jdoc *d, const struct jnode *v, uint32_t *out, struct err *e);

/* <v> is an object and has no members but those of <keys> (separated by blanks). */
int j_only(const struct jdoc *d, const struct jnode *v, const char *keys, struct err *e);

/* Read a raw value. A cursor stands behind the bracket that opens it, or behind a value. */
struct jcur {
	struct jdoc *d;
	const char *p, *end;
	uint64_t n;		/* values read */
};
bool jcur_open(struct jcur *c, struct jdoc *d, const struct jnode *raw, char bracket);
/* The next: 1 there is one, <c> stands before it; 0 it was the last; -1 and <e> filled. */
int jcur_next(struct jcur *c, struct err *e);
int jcur_string(struct jcur *c, struct span *out, struct err *e);	/* borrowed until jdoc_free() */
int jcur_key(struct jcur *c, struct span *out, struct err *e);		/* and the colon */
int jcur_u32(struct jcur *c, uint32_t *out, struct err *e);

#endif
