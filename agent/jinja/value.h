/* value.h - the values of a template, which are Python's, in an arena that is released as a whole.
 *
 * A struct jval has 16 bytes and is copied by value. Strings, lists and tuples are a pointer and a
 * length, so that a slice needs no copy; their contents never change, because the sandbox of real
 * templates forbids it. Dicts keep insertion order and change only while they are built;
 * namespaces are dicts that a template may change.
 *
 *     "Paris"      { JV_STR, n = 5, s }               [1, 2]      { JV_LIST, n = 2, v -> jval[2] }
 *     {"a": 1}     { JV_DICT, d -> entries, index }   undefined   { JV_UNDEF, why, the name }
 *
 * A struct jinja_mem is a bounded arena: memory is released by jinja_mem_reset() only. Functions
 * here return NULL or false if there is no memory; jinja_mem_full() tells if the bound was met. */
#ifndef KVROUTE_JINJA_VALUE_H
#define KVROUTE_JINJA_VALUE_H

#include "agent/base/hash.h"
#include "agent/base/types.h"

enum jval_kind {
	JV_MISSING,	/* a variable without a value yet; templates see it as JV_UNDEF */
	JV_UNDEF, JV_NONE, JV_BOOL, JV_INT,
	JV_BIG,		/* an integer beyond 64 bits, kept as text */
	JV_FLOAT, JV_STR, JV_LIST, JV_TUPLE, JV_DICT, JV_NS, JV_RANGE,
	JV_VIEW,	/* dict.keys(), .values(), .items() */
	JV_GEN,		/* a generator of map, select and similar: iterated once */
	JV_MACRO, JV_FUNC, JV_METHOD, JV_LOOP,
	JV_UNREAD	/* an item that was not read: resume.h */
};

enum {
	/* of JV_STR */
	JV_ASCII = 1,	/* known to be ASCII; otherwise unknown */
	JV_MARKUP = 2,	/* result of |safe: "+" escapes the other operand for HTML */
	JV_CONST = 4	/* a whole constant of the template, valid as long as the template */
};

/* flags of JV_UNDEF: its origin, which determines the error when it is used */
enum jval_why { UNDEF_NAME, UNDEF_ATTR, UNDEF_ELEMENT, UNDEF_HINT, UNDEF_UNSAFE };

struct jdict;

struct jval {
	uint8_t kind, flags;
	uint16_t aux;		/* JV_UNDEF: kind of the object; JV_VIEW, JV_FUNC, JV_METHOD: which one */
	uint32_t n;		/* bytes of a string, items of a list or tuple */
	union {
		int64_t i;			/* JV_INT, JV_BOOL */
		double f;
		const char *s;
		const struct jval *v;		/* items; JV_METHOD: its object; UNDEF_ELEMENT: the key */
		struct jdict *d;
		void *p;			/* other kinds: see run_in.h */
	};
};

struct jdict_entry {
	struct jval key, value;
};

struct jdict {
	uint32_t n, room;
	uint32_t slots;			/* of <index>, a power of two; 0: no index, entries are few */
	uint32_t *index;		/* entry number + 1; 0: free */
	const struct hash_key *key;
	struct jdict_entry *entry;
};

struct jinja_mem;

/* Create an arena of at most <max_bytes>; a reset keeps a few pages. <key> is borrowed and
 * hashes the keys of large dicts. */
struct jinja_mem *jinja_mem_new(size_t max_bytes, const struct hash_key *key);
void jinja_mem_free(struct jinja_mem *m);
void jinja_mem_reset(struct jinja_mem *m);		/* release all values */
void jinja_mem_wipe(struct jinja_mem *m);		/* overwrite, then release all values */
bool jinja_mem_full(const struct jinja_mem *m);		/* the bound was met, not the system's */
size_t jinja_mem_used(const struct jinja_mem *m);
void *jinja_mem_take(struct jinja_mem *m, size_t n);	/* not zeroed, 16-byte aligned */

static inline struct jval jval_none(void)
{
	return (struct jval){ .kind = JV_NONE };
}

static inline struct jval jval_bool(bool b)
{
	return (struct jval){ .kind = JV_BOOL, .i = b };
}

static inline struct jval jval_int(int64_t i)
{
	return (struct jval){ .kind = JV_INT, .i = i };
}

static inline struct jval jval_float(double f)
{
	return (struct jval){ .kind = JV_FLOAT, .f = f };
}

/* Make a string that borrows <p>: valid UTF-8, less than 4 GiB. The pointer is never NULL, so
 * that an empty string may be passed to memcpy(). */
static inline struct jval jval_str(const char *p, size_t n)
{
	return (struct jval){ .kind = JV_STR, .n = (uint32_t)n, .s = p != NULL ? p : "" };
}

static inline struct jval jval_list(const struct jval *v, size_t n)
{
	return (struct jval){ .kind = JV_LIST, .n = (uint32_t)n, .v = v };
}

static inline struct span jval_span(struct jval s)
{
	return span_of(s.s, s.n);
}

/* Create a dict with initial room for <room> entries. Returns kind JV_MISSING if there is no
 * memory. */
struct jval jval_dict(struct jinja_mem *m, uint32_t room);
/* Set a member. An existing key keeps its position. Keys: strings, numbers, None, tuples of
 * these. */
bool jdict_put(struct jinja_mem *m, struct jdict *d, struct jval key, struct jval value);
/* <key> is borrowed */
bool jdict_put_str(struct jinja_mem *m, struct jdict *d, const char *key, struct jval value);
/* Return the value of <key>, or NULL. */
struct jval *jdict_get(const struct jdict *d, struct jval key);
struct jval *jdict_get_str(const struct jdict *d, const char *p, size_t n);

/* Convert one JSON text to a value as Python's json.loads() does: a number with a point or an
 * exponent is a float, any other an integer of any size; if a name comes twice the last one
 * wins. Strings without escapes are borrowed from <text>. Bad UTF-8 and lone surrogates become
 * U+FFFD, one per maximal bad part. Returns 0, or -1 and sets <*at>: invalid JSON at this
 * offset, deeper than <max_depth> (0: JVAL_DEPTH), or out of memory (jinja_mem_full(), errno
 * ENOMEM). O(n). */
#define JVAL_DEPTH	128
int jval_from_json(struct jinja_mem *m, struct span text, unsigned max_depth, struct jval *out,
		   size_t *at);

/* The same for at most *values values, where four escapes count as one; subtracts the values used.
 * Returns -1 with errno E2BIG if there are more. */
int jval_from_json_within(struct jinja_mem *m, struct span text, unsigned max_depth,
			  uint64_t *values, struct jval *out, size_t *at);

/* Set <at> to the last <what> in <in>, or to NULL. Returns false if there is no memory: a <what>
 * above 64 bytes needs four bytes for each. O(length). */
bool jinja_find_last(struct jinja_mem *m, struct span in, struct span what, const char **at);

/* ---- Python's operations on values ------------------------------------------------------- */

bool jval_truth(struct jval v);
bool jval_eq(struct jval a, struct jval b);	/* a == b; false above the bounds of depth and work */
/* The same with a bound of the caller; *left is 0 if it was met. */
bool jval_eq_within(struct jval a, struct jval b, uint64_t *left);
bool jval_hashable(struct jval v);
size_t jval_chars(struct jval s);		/* code points of a string */
struct span jval_strip(struct span s, bool left, bool right);	/* str.lstrip(), str.rstrip() */
bool jval_ascii(struct jval s);
/* "str", "NoneType": type(v).__name__ */
const char *jval_type(unsigned kind);

#endif
