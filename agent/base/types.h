/* types.h - typedefs of numbers with a unit or meaning, and struct span, a borrowed run of
 * bytes. */
#ifndef KVROUTE_BASE_TYPES_H
#define KVROUTE_BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int64_t msec;		/* milliseconds on a monotonic clock that the caller owns */
typedef int64_t usec;		/* microseconds, the same */
typedef uint64_t page_key;	/* keyed hash of one whole page of a prompt */
typedef uint16_t server_id;	/* a server's number in the index */

#define SERVERS_MAX	1024	/* server ids are 0 .. SERVERS_MAX - 1 */
#define SERVER_NONE	((server_id)0xffff)

/* Borrowed bytes. <p> may be NULL if <n> is 0. */
struct span {
	const char *p;
	size_t n;
};

#define SPAN(lit)	((struct span){ "" lit, sizeof(lit) - 1 })
#define SPAN_FMT	"%.*s"
#define SPAN_ARG(s)	((int)(s).n), ((s).p ? (s).p : "")

static inline struct span span_of(const void *p, size_t n)
{
	return (struct span){ p, n };
}

static inline struct span span_str(const char *s)
{
	return (struct span){ s, s ? strlen(s) : 0 };
}

static inline bool span_eq(struct span a, struct span b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

#endif
