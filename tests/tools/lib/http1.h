/* http1.h - the part of HTTP/1.1 (RFC 9112) that test tools need as client and server: heads and
 * bodies from a stream that may be split at any byte. */
#ifndef KVROUTE_TOOLS_HTTP1_H
#define KVROUTE_TOOLS_HTTP1_H

#include <sys/types.h>

#include "tests/tools/lib/buf.h"

#define HTTP_HEAD_MAX		65536
#define HTTP_FIELDS_MAX		128

struct http_field {
	struct span name, value;
};

/* Borrows from the bytes it was parsed from. */
struct http_head {
	struct span method, target;	/* of a request */
	int status;			/* of a response */
	int minor;			/* HTTP/1.<minor> */
	int64_t length;			/* Content-Length, -1 when absent */
	bool chunked, close, expect;	/* expect: 100-continue */
	size_t n;
	struct http_field fields[HTTP_FIELDS_MAX];
};

/* > 0 bytes of the head, its empty line included; 0 not all here yet; < 0 no HTTP. */
ssize_t http_request_head(const char *p, size_t n, struct http_head *h);
ssize_t http_response_head(const char *p, size_t n, struct http_head *h);

/* The value of field <name>, "" when absent. Case of the name does not matter. */
struct span http_field(const struct http_head *h, const char *name);

enum http_body_kind { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED, HTTP_BODY_CLOSE };

struct http_body {
	enum http_body_kind kind;
	uint64_t left;		/* of the whole, or of this chunk */
	int state;		/* of chunked: private to http1.c */
	bool done;
};

void http_body_init(struct http_body *b, const struct http_head *h, bool response);

/* Append the body bytes among the <n> bytes at <p>, unchunked, to <out>. Returns the bytes used, or
 * -1 if they are invalid. Sets <b->done> if the body is complete. */
ssize_t http_body_feed(struct http_body *b, const char *p, size_t n, struct buf *out);

/* One chunk with its frame; the last one is written by passing no bytes. */
void http_put_chunk(struct buf *out, struct span data);

#endif
