/* orca.h - decode the load report in an engine's response header.
 *
 * ORCA (Open Request Cost Aggregation) is Envoy's format for load that a server reports with its
 * responses. vLLM and Triton answer with the header endpoint-load-metrics if the request has
 * endpoint-load-metrics-format: TEXT or JSON. All of these forms are in use:
 *
 *     TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=2.0
 *     named_metrics.kv_cache_usage_perc=0.4,named_metrics.num_requests_waiting=2
 *     JSON {"named_metrics": {"kv_cache_usage_perc": 0.4, "num_requests_waiting": 2.0}}
 *     {"named_metrics":{"kv_cache_usage_perc":0.4,"num_requests_waiting":2}}
 *
 * In text, ':' may stand for '='.
 *
 *     vLLM      kv_cache_usage_perc, num_requests_waiting
 *     Triton    kv_cache_utilization, max_token_capacity
 *
 * Metrics with other names are skipped. The binary form (base64 of a protobuf) is refused.
 *
 * The value comes from the engine, so it may say anything, but only about that engine: the caller
 * applies it to the server that HAProxy names, and to no other. */
#ifndef KVROUTE_FEED_ORCA_H
#define KVROUTE_FEED_ORCA_H

#include "agent/feed/engine_load.h"

#define ORCA_MAX	1024	/* bytes of a header; a longer one is refused */

enum {
	ORCA_E_FORM = 1,	/* neither text nor JSON, cut, or too long */
	ORCA_E_NUMBER,		/* a known metric is not a number, or negative, or too large */
	ORCA_E_NOTHING,		/* no known metric */
	ORCA_E_COUNT
};

/* Decode the header's value <s>. If a metric is named twice, the last one counts. Returns 0 and
 * sets <out>, in which at least one field is told. Returns -ORCA_E_... if it is no report; then
 * <out> is undefined. O(bytes). */
int orca_parse(struct span s, struct engine_load *out);

const char *orca_strerror(int error);

#endif
