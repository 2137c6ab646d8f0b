/* talk.h - what a thread needs to make ids of conversations: one at a time, within bounds. */
#ifndef KVROUTE_ROUTE_TALK_H
#define KVROUTE_ROUTE_TALK_H

#include "agent/chat/chat.h"
#include "agent/route/words.h"

struct talk;

struct talk *talk_new(const struct hash_key *key);	/* NULL: no memory */
void talk_free(struct talk *t);				/* wipes it; takes NULL */

struct talk_ask {
	const struct chat *chat;
	struct words_ask by;		/* tok, scratch, cache, tenant, work */
	struct chat_body body;
};

/* What is known of a body's ids. */
struct talk_ids {
	struct words_ids ids;		/* lives until the next use */
	bool part;			/* more ids stand behind them */
	bool tools_unseen, system_unseen, developer_unseen;	/* of struct chat_text */
	bool bounded;			/* <work> was reached */
};

/* CHAT_DONE: <out>. Others: there are no ids; CHAT_NO_MEMORY also when a pattern gave up. */
enum chat_result talk_ids(struct talk *t, const struct talk_ask *a, struct talk_ids *out);

#endif
