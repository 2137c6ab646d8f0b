/* http.h - as much of HTTP/1 as the metrics listener needs: one bodyless request, one answer. */
#ifndef KVROUTE_LOOP_HTTP_H
#define KVROUTE_LOOP_HTTP_H

#include "agent/base/types.h"

#define HTTP_REQUEST_MAX	8192	/* request line and headers; more is refused with 431 */

struct http_request {
	struct span method, path;	/* borrowed; the path without its query */
	struct span query;		/* behind the question mark; empty: none */
};

/* > 0  the status to refuse it with (400, 431)     HTTP_MORE  not all here yet
 *   0  <r> is a whole request head */
#define HTTP_MORE	(-1)
int http_parse(const char *p, size_t n, struct http_request *r);

/* The head of an answer with a body of <length> bytes, to <out>; returns its length. */
#define HTTP_HEAD_MAX	256
size_t http_head(char *out, int status, const char *type, size_t length);

#endif
