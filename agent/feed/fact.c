#include "agent/feed/fact.h"

void fact_init(struct fact *f, enum fact_kind kind)
{
	*f = (struct fact){
		.kind = kind, .status = -1, .end = END_UNKNOWN,
		.queue_ms = -1, .connect_ms = -1, .response_ms = -1, .total_ms = -1,
		.bytes_out = -1, .bytes_in = -1, .retries = -1,
	};
}

/* configuration.txt 8.5: the first letter is the event that ended the session, the second the state
 * it was in. 'c' and 's' are the sides' time-outs. */
enum fact_end fact_end_of(struct span ts)
{
	if (ts.n < 2)
		return END_UNKNOWN;
	if (ts.p[1] == 'Q')
		return END_QUEUE;
	switch (ts.p[0]) {
	case '-':
		return END_OK;
	case 'C': case 'c':
		return END_CLIENT;
	case 'S': case 's':
		return END_SERVER;
	default:
		return END_PROXY;
	}
}
