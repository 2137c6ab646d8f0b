/* http.h - the part of HTTP/1 that the metrics listener needs: one request without a body, one
 * answer. */
#ifndef KVROUTE_LOOP_HTTP_H
#define KVROUTE_LOOP_HTTP_H

#include "agent/base/types.h"

#define HTTP_REQUEST_MAX	8192	/* request line and headers; longer ones get 431 */

struct http_request {
	struct span method, path;	/* point into the request; the path without its query */
	struct span query;		/* after the question mark; empty: none */
	struct span accept;		/* value of the first header Accept; empty: none */
};

/* Parse a request head of <n> bytes. Returns:
 *   > 0        the status of the error (400, 431)
 *   HTTP_MORE  the head is not complete yet
 *   0          <r> is a complete request head */
#define HTTP_MORE	(-1)
int http_parse(const char *p, size_t n, struct http_request *r);

/* Tell if the value of a header Accept prefers OpenMetrics ("application/openmetrics-text") to
 * plain text. */
bool http_wants_openmetrics(struct span accept);

/* Write the head of an answer with a body of <length> bytes to <out>. Returns its length. Browsers
 * are told to take the type as it is, to keep nothing, and to show it in no frame. */
#define HTTP_HEAD_MAX	384
size_t http_head(char *out, int status, const char *type, size_t length);

/* The same for a body that ends with the connection. */
size_t http_head_endless(char *out, const char *type);

#endif
