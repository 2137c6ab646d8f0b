/* truth.h - by which knowledge a server is expected to hold a part of a prompt.
 *
 *     tree     as requests taught: it publishes no events, they cannot be trusted now, or the
 *              tokens of the request are unknown
 *     events   as its engine reports
 *     sent     the same, and an open request with the same beginning was sent there, whose blocks
 *              are not reported yet
 *     both     the larger of tree and events, because the events do not tell all that the engine
 *              holds
 *
 * The cause says why events of a server that publishes were not used, or not alone. */
#ifndef KVROUTE_ROUTE_TRUTH_H
#define KVROUTE_ROUTE_TRUTH_H

enum truth { TRUTH_TREE, TRUTH_EVENTS, TRUTH_SENT, TRUTH_BOTH, TRUTHS };

/* name, word, sentence of kvroutectl why. kvroute(8) has the same words; a test compares them. */
#define TRUTH_CAUSE_LIST(X) \
	X(TOKENS, "tokens_unknown", "the token ids of the request are unknown, or fill no page") \
	X(OFF, "not_connected", "the agent is not connected to them") \
	X(WAITING, "waiting", "nothing came since the agent connected") \
	X(GAP, "gap", "batches are missing") \
	X(REPLAYING, "replaying", "missing batches are being sent again") \
	X(DEGRADED, "degraded", "batches are lost") \
	X(QUIET, "quiet", "a request with new blocks was sent, and no event came") \
	X(UNUSABLE, "unusable", "they have no blocks that can be stored") \
	X(ODD_SIZE, "odd_size", "blocks of their size cannot be stored") \
	X(OTHER_SIZE, "other_size", "the prompt cannot be divided into blocks of their size") \
	X(UNNAMED, "unnamed", "they have not named the adapter, or any salt") \
	X(NO_BLOCK, "no_block", "no block was stored since the agent connected") \
	X(OLDER, "older", "older blocks are unknown") \
	X(NO_ROOM, "no_room", "some blocks had no room in events.max_bytes") \
	X(EXPIRES, "expires", "removals of some blocks are not reported") \
	X(ISOLATED, "isolated", "tenants are isolated, so they add nothing to its own requests")

#define TRUTH_CAUSE_ENUM(name, word, sentence)	CAUSE_##name,
enum truth_cause { CAUSE_NONE, TRUTH_CAUSE_LIST(TRUTH_CAUSE_ENUM) TRUTH_CAUSES };
#undef TRUTH_CAUSE_ENUM

const char *truth_text(enum truth t);

/* "gap"; "" for CAUSE_NONE. */
const char *truth_cause_text(enum truth_cause c);

#endif
