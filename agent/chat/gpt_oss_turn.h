/* gpt_oss_turn.h - private to agent/chat: what a conversation in harmony's format leaves at the end
 * of a message, so that the next turn is rendered on from there.
 *
 *   front            system message, instructions, tools     its runs are hashed each time
 *   known messages   passed over
 *   new messages     written, then the start of an answer
 *
 * What is written of a message does not depend on those before it, but for two things, which are
 * noted: reasoning since the last final answer, which a later one drops, and the ids of calls that
 * were answered, because a later call with such an id gives the old answer another name. Where new
 * messages need more than that, the whole is to be rendered. No text of a message is left. */
#ifndef KVROUTE_CHAT_GPT_OSS_TURN_H
#define KVROUTE_CHAT_GPT_OSS_TURN_H

#include "agent/base/buf.h"
#include "agent/base/work.h"
#include "agent/chat/harmony.h"

struct gpt_oss_turn {
	/* of the caller */
	const struct hash_key *key;
	struct span from;	/* what an earlier body left; n == 0: nothing */
	struct work_left *work;	/* charged for comparing ids, and for a front that is not written */
	struct buf *left;	/* set to what this one leaves, unless it failed */
	/* messages that are part of the front; "instructions" may have the same text */
	uint32_t taken;
	/* set by gpt_oss_turn_read() */
	struct jval messages;
	uint32_t known;		/* messages that are passed over; 0: none */
	uint64_t front;		/* hash of the runs before them */
	bool thinks;		/* they have reasoning that a final answer drops */
	struct span answered;	/* hashes of the ids of calls that were answered, as words */
};

/* Read t->from. Returns false if it does not fit <messages>. */
bool gpt_oss_turn_read(struct gpt_oss_turn *t, struct jval messages);

/* Tell if one of <calls>, a dict by ids, may have the id of an old answer. */
bool gpt_oss_turn_renames(const struct gpt_oss_turn *t, const struct jdict *calls);

/* Hash the first <front> messages of <n>; returns HARMONY_MISSED if they are not those that are
 * known. Write the others, after these if nothing is known. Then set t->left; the caller has set
 * t->thinks for all messages. */
enum harmony_result gpt_oss_turn_write(struct gpt_oss_turn *t, const struct harmony_message *m,
    size_t front, size_t n, struct harmony_opts o, harmony_put *put, void *arg);

#endif
