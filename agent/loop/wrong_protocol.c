/* A table says which protocol on which port is a problem with a name. */
#include "agent/feed/spoken.h"
#include "agent/loop/wrong_protocol_in.h"

/* Returns PROBLEM_COUNT if <s> is right for <port>, or is no problem with a name. */
static enum problem problem_of(enum port_kind port, enum spoken s)
{
	static const uint8_t what[PORT_KINDS][SPOKEN_LOG + 1] = {
		[PORT_SPOP] = {
			[SPOKEN_UNKNOWN] = PROBLEM_COUNT, [SPOKEN_SPOP] = PROBLEM_COUNT,
			[SPOKEN_HTTP] = PROBLEM_HTTP_ON_SPOP, [SPOKEN_TLS] = PROBLEM_TLS_ON_SPOP,
			[SPOKEN_PROXY] = PROBLEM_PROXY_ON_SPOP,
			[SPOKEN_LOG] = PROBLEM_LOG_ON_SPOP,
		},
		[PORT_FEED] = {
			[SPOKEN_UNKNOWN] = PROBLEM_COUNT, [SPOKEN_SPOP] = PROBLEM_SPOP_ON_FEED,
			[SPOKEN_HTTP] = PROBLEM_HTTP_ON_FEED, [SPOKEN_TLS] = PROBLEM_TLS_ON_FEED,
			[SPOKEN_PROXY] = PROBLEM_COUNT, [SPOKEN_LOG] = PROBLEM_COUNT,
		},
		[PORT_HTTP] = {
			[SPOKEN_UNKNOWN] = PROBLEM_COUNT, [SPOKEN_SPOP] = PROBLEM_SPOP_ON_HTTP,
			[SPOKEN_HTTP] = PROBLEM_COUNT, [SPOKEN_TLS] = PROBLEM_TLS_ON_HTTP,
			[SPOKEN_PROXY] = PROBLEM_COUNT, [SPOKEN_LOG] = PROBLEM_LOG_ON_HTTP,
		},
	};

	return (enum problem)what[port][s];
}

_Static_assert(PROBLEM_COUNT <= UINT8_MAX, "problem_of() keeps them in a byte");

bool wrong_protocol_note(struct agent *a, enum port_kind port, const void *bytes, size_t n,
		const union sockaddr_any *peer)
{
	enum problem what = problem_of(port, spoken_of(bytes, n));
	char text[ADDR_MAX];

	if (what == PROBLEM_COUNT)
		return false;
	addr_print(peer, text, sizeof(text));
	route_stray(a->route, what, span_str(text));
	return true;
}
