/* value.h - what a template computes with: Python's values, in memory that goes away as a whole.
 *
 * A struct jval is 16 bytes and is copied freely. Strings, lists and tuples are a pointer and a length, so that a slice of
 * one is a value and no copy; what they point to never changes (the sandbox that real templates run in forbids it).
 * Dicts keep the order of insertion and change only while they are built; namespaces are dicts that a template may change.
 *
 *     "Paris"      { JV_STR, n = 5, s }               [1, 2]      { JV_LIST, n = 2, v -> jval[2] }
 *     {"a": 1}     { JV_DICT, d -> entries, index }   not there   { JV_UNDEF, why, the name that was asked for }
 *
 * Memory is a struct jinja_mem: taken from the front, never given back but by jinja_mem_reset(), bounded. Everything here
 * that returns a pointer or false says with NULL or false that there was no memory; jinja_mem_full() tells which kind. */
#ifndef KVROUTE_JINJA_VALUE_H
#define KVROUTE_JINJA_VALUE_H

#include "agent/base/hash.h"
#include "agent/base/types.h"

enum jval_kind {
	JV_MISSING,	/* a variable that nobody has set yet; templates see it as JV_UNDEF */
	JV_UNDEF, JV_NONE, JV_BOOL, JV_INT,
	JV_BIG,		/* an integer beyond 64 bits: its digits are kept as text */
	JV_FLOAT, JV_STR, JV_LIST, JV_TUPLE, JV_DICT, JV_NS, JV_RANGE,
	JV_VIEW,	/* dict.keys(), .values(), .items() */
	JV_GEN,		/* what map, select and their like give: walked once */
	JV_MACRO, JV_FUNC, JV_METHOD, JV_LOOP
};

enum {
	/* of JV_STR */
	JV_ASCII = 1,	/* known to be ASCII; without it: not looked at yet */
	JV_MARKUP = 2,	/* went through |safe: what is joined to it with + gets escaped for HTML */
	JV_CONST = 4	/* a whole constant of the template: its bytes live as long as that */
};

/* flags of JV_UNDEF: how it came to be, which is what it says when it is used */
enum jval_why { UNDEF_NAME, UNDEF_ATTR, UNDEF_ELEMENT, UNDEF_HINT, UNDEF_UNSAFE };

struct jdict;

struct jval {
	uint8_t kind, flags;
	uint16_t aux;		/* JV_UNDEF: kind of the object that was asked; JV_VIEW, JV_FUNC, JV_METHOD: which */
	uint32_t n;		/* bytes of a string, items of a list or tuple */
	union {
		int64_t i;			/* JV_INT, JV_BOOL */
		double f;
		const char *s;
		const struct jval *v;		/* items; JV_METHOD: whose; UNDEF_ELEMENT: which */
		struct jdict *d;
		void *p;			/* of the other kinds: run.h */
	};
};

struct jdict_entry {
	struct jval key, value;
};

struct jdict {
	uint32_t n, room;
	uint32_t slots;			/* of <index>, a power of two; 0: few enough to look at each */
	uint32_t *index;		/* entry number + 1; 0: free */
	const struct hash_key *key;
	struct jdict_entry *entry;
};

struct jinja_mem;

/* At most <max_bytes> (a few pages are kept over a reset). <key> is borrowed; it hashes the keys of large dicts. */
struct jinja_mem *jinja_mem_new(size_t max_bytes, const struct hash_key *key);
void jinja_mem_free(struct jinja_mem *m);
void jinja_mem_reset(struct jinja_mem *m);		/* all values in <m> are gone */
void jinja_mem_wipe(struct jinja_mem *m);		/* the same, and overwritten */
bool jinja_mem_full(const struct jinja_mem *m);		/* the bound was met, not the machine's end */
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

/* Borrowed: the bytes must live as long as the value; good UTF-8, less than 4 GiB. */
/* The bytes of a string are never at NULL, so that they may be given to memcpy() and its like when there are none. */
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

/* A dict with room for <room> entries to begin with; kind JV_MISSING: no memory. */
struct jval jval_dict(struct jinja_mem *m, uint32_t room);
/* Last wins, at the place of the first. Keys: strings, numbers, None, tuples of these. */
bool jdict_put(struct jinja_mem *m, struct jdict *d, struct jval key, struct jval value);
bool jdict_put_str(struct jinja_mem *m, struct jdict *d, const char *key, struct jval value);	/* <key> is borrowed */
/* NULL: not there. */
struct jval *jdict_get(const struct jdict *d, struct jval key);
struct jval *jdict_get_str(const struct jdict *d, const char *p, size_t n);

/* One JSON text as a value, as Python's json.loads() reads it: numbers with a point or an exponent are floats, other ones
 * integers of any size, of two members with one name the last wins. Strings without escapes are borrowed from <text>.
 * Bad UTF-8 and lone surrogates become U+FFFD, one for each maximal bad part. 0; or -1 and <*at>: not JSON (there), deeper
 * than <max_depth> (0: JVAL_DEPTH), or (jinja_mem_full(), errno ENOMEM) no memory. O(n). */
#define JVAL_DEPTH	128
int jval_from_json(struct jinja_mem *m, struct span text, unsigned max_depth, struct jval *out, size_t *at);

/* The same of at most *values values, four escapes being one, too; it becomes what is left. -1 and errno E2BIG: there are more. */
int jval_from_json_within(struct jinja_mem *m, struct span text, unsigned max_depth, uint64_t *values, struct jval *out, size_t *at);

/* Where <what> comes last in <in>; NULL: nowhere. False: no memory; it takes four bytes for each of a <what> above 64. O(length). */
bool jinja_find_last(struct jinja_mem *m, struct span in, struct span what, const char **at);

/* ---- what Python says of values ---------------------------------------------------------------- */

bool jval_truth(struct jval v);
bool jval_eq(struct jval a, struct jval b);	/* a == b; nesting that is too deep, or a million values, counts as different */
bool jval_eq_within(struct jval a, struct jval b, uint64_t *left);	/* the same with a bound of one's own; 0 is left when it was met */
bool jval_hashable(struct jval v);
size_t jval_chars(struct jval s);		/* code points of a string */
struct span jval_strip(struct span s, bool left, bool right);	/* str.lstrip(), str.rstrip() */
bool jval_ascii(struct jval s);
/* "str", "NoneType": type(v).__name__ */
const char *jval_type(unsigned kind);

#endif
