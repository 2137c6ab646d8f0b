/* http_answer.h - an HTTP/1 answer to a GET of ours, in any cuts: its status, its body in pieces, its end.
 *
 * RFC 9112, as far as an engine's metrics need it: a body has a Content-Length, is chunked, or ends with the
 * connection. Informational answers (1xx) before it are passed over, trailers too. What is not clear is an
 * error: two lengths, another coding, a length with letters in it. Nothing is kept but this struct. */
#ifndef KVROUTE_FEED_HTTP_ANSWER_H
#define KVROUTE_FEED_HTTP_ANSWER_H

#include <sys/types.h>

#include "agent/base/types.h"

#define HTTP_ANSWER_HEAD_MAX	(16u << 10)	/* status line and headers, or trailers */
#define HTTP_ANSWER_LINE_MAX	255		/* of which so much is looked at; the headers we read are short */
#define HTTP_ANSWER_BODY_MAX	(32u << 20)

enum {
	HTTP_ANSWER_E_FOREIGN = 1,	/* no status line of HTTP/1 */
	HTTP_ANSWER_E_HEAD,		/* longer than HTTP_ANSWER_HEAD_MAX */
	HTTP_ANSWER_E_LENGTH,		/* where its body ends is not clear */
	HTTP_ANSWER_E_BODY,		/* longer than HTTP_ANSWER_BODY_MAX */
	HTTP_ANSWER_E_CUT,		/* the connection ended before the answer did */
	HTTP_ANSWER_E_COUNT
};

typedef void http_answer_fn(void *arg, const char *p, size_t n);

/* Fields are for http_answer.c, but for what is said to be the caller's. */
struct http_answer {
	http_answer_fn *body;
	void *arg;
	enum { HTTP_AT_STATUS, HTTP_AT_HEADER, HTTP_AT_BODY, HTTP_AT_CHUNK, HTTP_AT_DATA, HTTP_AT_DATA_END,
	       HTTP_AT_TRAILER, HTTP_AT_END } at;
	char line[HTTP_ANSWER_LINE_MAX + 1];
	uint32_t n_line;		/* of the line being read; may be HTTP_ANSWER_LINE_MAX + 1 */
	uint32_t head_bytes;
	int64_t length;			/* -1: not said */
	uint64_t left, body_bytes;	/* of the body, or of a chunk; what came of it */
	bool chunked;
	int error;

	/* the caller's, to read once there was an end: */
	int status;
	bool keep;			/* the connection may be asked again */
};

/* Pieces of the body, of whatever status, go to <body>. */
void http_answer_init(struct http_answer *a, http_answer_fn *body, void *arg);

/* > 0  bytes used: the answer has ended with them
 *   0  all used, there is more to come
 * < 0  -HTTP_ANSWER_E_..., for ever */
ssize_t http_answer_feed(struct http_answer *a, const void *p, size_t n);

/* The connection has ended. 0: and so has the answer, whole; or -HTTP_ANSWER_E_... */
int http_answer_eof(struct http_answer *a);

const char *http_answer_strerror(int error);

#endif
