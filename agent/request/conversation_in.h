/* conversation_in.h - private to agent/request: the token ids of a conversation, one at a time. */
#ifndef KVROUTE_REQUEST_CONVERSATION_IN_H
#define KVROUTE_REQUEST_CONVERSATION_IN_H

#include "agent/chat/chat.h"
#include "agent/request/text_ids_in.h"
#include "agent/request/turn_ids.h"

struct conversation *conversation_new(const struct hash_key *key);	/* NULL: no memory */
void conversation_free(struct conversation *t);		/* wipes it; <t> may be NULL */

struct conversation_ask {
	const struct chat *chat;
	struct ids_ask by;		/* all but max_ids */
	struct chat_body body;
	const struct hash_key *key;
	struct turn_ids *turn;		/* NULL: nothing is kept. It may have been found */
	bool only;			/* CHAT_UNKNOWN if it does not go on from <turn> */
};

/* Of this scratch; kept between two uses. */
struct turn_ids *conversation_turn(struct conversation *t);

struct conversation_ids {
	struct prompt_ids ids;		/* borrowed until the next use */
	bool part;			/* more ids follow these */
	bool tools_unseen, system_unseen, developer_unseen;	/* as in struct chat_text */
	bool bounded;			/* the work is used up */
	bool resumed;			/* ids follow those of ask.turn, less what it has as rest */
};

/* Return all ids of the conversation that was asked for last without ids of its turns before; they
 * live as those. Returns NULL if that fails. <n>: how many there must be. */
const token_id *conversation_all(
    struct conversation *t, const struct conversation_ask *a, size_t n);

/* Set <out> if the result is CHAT_DONE; otherwise there are no ids. CHAT_NO_MEMORY also if a
 * pattern gave up. */
enum chat_result conversation_ids(struct conversation *t, const struct conversation_ask *a,
				  struct conversation_ids *out);

#endif
