/* gpt_oss_in.h - private to agent/chat: a conversation for gpt-oss under construction. Functions do
 * nothing after a failure, which make.state holds. */
#ifndef KVROUTE_CHAT_GPT_OSS_IN_H
#define KVROUTE_CHAT_GPT_OSS_IN_H

#include "agent/chat/harmony.h"
#include "agent/chat/make_in.h"

/* The conversation under construction, in memory of <make>. */
struct making {
	struct make make;
	bool items;			/* of the API of responses */
	struct harmony_message *m;
	size_t n, cap;
	struct jval called;		/* a dict: id of each call that is read -> name of its function */
	bool misses;			/* an answer is to none of them */
};

struct harmony_message *making_add(struct making *k, enum harmony_role role);
struct harmony_message *making_add_text(
    struct making *k, enum harmony_role role, const char *channel, struct span text);
void making_add_call(struct making *k, struct span name, struct span arguments);
void making_add_answer(struct making *k, struct span name, struct span text);
/* Add a developer message. <tools>: a list or nothing. */
void making_add_developer(
    struct making *k, bool has_instructions, struct span instructions, struct jval tools);

/* Return the runs of a message's content: for a list, the text of each part, empty ones too. */
const struct span *making_runs(struct making *k, struct jval content, size_t *n);
/* Join all texts of <content>. Returns false if it has none. */
bool making_flat(struct making *k, struct jval content, struct span *out);
bool making_instructs(struct jval msg);	/* tells if its role is system or developer */

/* gpt_oss_items.c: add what an item of responses becomes. */
void making_add_item(struct making *k, struct jval item);

#endif
