/* http_answer.h - parse an HTTP/1 response to a GET: its status, its body in pieces, its end.
 *
 * Follows RFC 9112 as far as metrics endpoints need it: a body has a Content-Length, is chunked,
 * or ends with the connection. Informational responses (1xx) and trailers are skipped. An
 * ambiguous length is an error: two lengths, another coding, a length with letters. Bytes may
 * arrive in pieces of any size; this struct is all the memory used. */
#ifndef KVROUTE_FEED_HTTP_ANSWER_H
#define KVROUTE_FEED_HTTP_ANSWER_H

#include <sys/types.h>

#include "agent/base/types.h"

#define HTTP_ANSWER_HEAD_MAX	(16u << 10)	/* status line and headers, or trailers */
#define HTTP_ANSWER_LINE_MAX	255		/* bytes of a line that are parsed; the rest is ignored */
#define HTTP_ANSWER_BODY_MAX	(32u << 20)

enum {
	HTTP_ANSWER_E_FOREIGN = 1,	/* no status line of HTTP/1 */
	HTTP_ANSWER_E_HEAD,		/* longer than HTTP_ANSWER_HEAD_MAX */
	HTTP_ANSWER_E_LENGTH,		/* the length of its body is ambiguous */
	HTTP_ANSWER_E_BODY,		/* longer than HTTP_ANSWER_BODY_MAX */
	HTTP_ANSWER_E_CUT,		/* the connection ended before the answer did */
	HTTP_ANSWER_E_COUNT
};

typedef void http_answer_fn(void *arg, const char *p, size_t n);

/* Fields are private to http_answer.c up to the caller's. */
struct http_answer {
	http_answer_fn *body;
	void *arg;
	enum { HTTP_AT_STATUS, HTTP_AT_HEADER, HTTP_AT_BODY, HTTP_AT_CHUNK, HTTP_AT_DATA, HTTP_AT_DATA_END,
	       HTTP_AT_TRAILER, HTTP_AT_END } at;
	char line[HTTP_ANSWER_LINE_MAX + 1];
	uint32_t n_line;		/* bytes of the current line; HTTP_ANSWER_LINE_MAX + 1: truncated */
	uint32_t head_bytes;
	int64_t length;			/* Content-Length; -1: absent */
	uint64_t left, body_bytes;	/* bytes left of body or chunk; bytes of body so far */
	bool chunked;
	int error;

	/* for the caller, once the response has ended: */
	int status;
	bool keep;			/* the connection may be used again */
};

/* Prepare for one response. Pieces of its body go to <body>, whatever the status. */
void http_answer_init(struct http_answer *a, http_answer_fn *body, void *arg);

/* Consume <n> bytes. Returns
 *   > 0  bytes used: the response ended with them
 *     0  all used, the response is incomplete
 *   < 0  -HTTP_ANSWER_E_...; all later calls return the same */
ssize_t http_answer_feed(struct http_answer *a, const void *p, size_t n);

/* End the connection. Returns 0 if the response is complete, or -HTTP_ANSWER_E_... */
int http_answer_eof(struct http_answer *a);

const char *http_answer_strerror(int error);

#endif
