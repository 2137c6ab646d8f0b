/* request_in.h - private to agent/request: how a prompt becomes ids. */
#ifndef KVROUTE_REQUEST_REQUEST_IN_H
#define KVROUTE_REQUEST_REQUEST_IN_H

#include "agent/request/conversation_in.h"
#include "agent/request/request.h"

/* Charge <rq> for reading its body once, from byte <from> to <to>. Returns false if no work is left
 * after that. */
bool request_pay_scan(struct request *rq, uint64_t from, uint64_t to);

/* work_share.c: tell if a decision is due after <n> bytes of a body in slices, if more come. */
bool request_slices_due(const struct sliced *s, uint64_t n);

/* token_pages.c: tell if a model may need the ids of a text in slices of bodies of <api>. */
bool request_wants_text(const struct request_env *env, enum prompt_api api);

/* Make pages of ids, with rq->mode, page and tokens. Returns false if the pages of the scanner are
 * to be used. */
bool request_token_pages(struct request *rq);

/* Return whose text is in the segment cache. A tenant, or a salt, must not learn what others have
 * put there. */
uint64_t request_whose(const struct request *rq);

/* chat_pages.c: tell if a model needs the bytes of a conversation in bodies of <api>. */
bool request_wants_raw(const struct request_env *env, enum prompt_api api);

/* Set <out> to the ids of a conversation. Returns false if there are none, and says why in
 * rq->refused, rq->unknown and rq->news. */
bool request_chat_ids(struct request *rq, struct prompt_ids *out);

/* Store what this turn leaves for the next one, after the pages of <ids> were made. */
void request_chat_leave(struct request *rq, const struct prompt_ids *ids);

#endif
