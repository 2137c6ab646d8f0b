/* turn_ids.h - private to agent/request: pages and ids of a conversation's earlier turns.
 *
 *   ids    | page | page | page | rest |<- new
 *                                      ^ the end of an added token, after some messages
 *
 * What is kept for the first bytes of a body, in struct turns (turns_state.h): pages since an
 * earlier turn and the key of that one's, the state of the template (chat.h), and the few bytes
 * between the added token and the text to come, if they are white space. The ids of the page that
 * is not full are kept in the segment cache, where the last bytes of the body encrypt them. Of
 * harmony, whose runs are encoded one by one, the place is the end of any message. */
#ifndef KVROUTE_REQUEST_TURN_IDS_H
#define KVROUTE_REQUEST_TURN_IDS_H

#include "agent/chat/chat.h"
#include "agent/prompt/turns_state.h"
#include "agent/tok/segcache.h"

#define TURN_SHOWN	16u	/* bytes of an added token that are kept, so that what follows sees them */
#define TURN_OVER	32u	/* bytes after it that are kept */

#define TURN_STEPS	16u	/* turns that are looked up for the pages of one, at most */

/* A turn that the pages of a later one were collected from. */
struct turn_step {
	struct hash128 key;
	uint32_t number;
	uint32_t n_pages, n_own;	/* up to its end; those that it has itself */
};

/* Of one turn: found, and left. */
struct turn_ids {
	/* of the caller */
	uint64_t what;			/* hash of all that pages depend on besides the body */
	uint32_t page;			/* ids in one */
	struct page_vec *pages;		/* where those of all turns before are written to */
	/* found */
	bool found;
	struct turns_state state;
	uint32_t n_pages;		/* in <pages> */
	struct ids rest;
	struct turn_step step[TURN_STEPS];	/* from the turn that was found to the first one */
	uint32_t n_steps;
	bool special;			/* TOK_SPECIAL was set */
	bool apart;			/* of the caller: what is left does not refer to it */
	struct span memo;		/* for struct chat_turn, in <state> */
	char lead[TURN_SHOWN + TURN_OVER];
	size_t n_shown, n_lead;
	/* left */
	bool good;
	uint64_t at, n_ids;		/* bytes of the body; ids of all turns up to there */
	struct span left;
	char left_lead[TURN_SHOWN + TURN_OVER];
	size_t left_shown, left_n;
	bool left_special;
	struct turns_copy item;
};

/* Who and where. */
struct turn_place {
	const struct body *body;
	struct turns *turns;		/* NULL: nothing is kept */
	struct segcache *cache;
	uint64_t tenant;
	struct span raw;
};

void turn_ids_fini(struct turn_ids *t);

/* Set t->found and what follows it. */
void turn_ids_find(struct turn_ids *t, const struct turn_place *p);

/* Note what is to be left: <text> is the text, whose last added token up to <at> ends at <cut> and
 * has <cut_n> bytes. Sets t->good if it may be kept. */
void turn_ids_leave(struct turn_ids *t, struct span text, size_t at, size_t cut, size_t cut_n);

/* The same for a text in runs that are encoded one by one: one of them ends there, if <good>, so
 * that nothing of it need be kept. */
void turn_ids_leave_runs(struct turn_ids *t, bool good);

/* Store what is left. t->pages has those of the whole body; <rest>: the ids since the last full
 * page. */
void turn_ids_put(struct turn_ids *t, const struct turn_place *p, const token_id *rest);

#endif
