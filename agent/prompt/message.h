/* message.h - one message put together from keys that come in any order. Inside agent/prompt only.
 *
 * A message is three runs of text and what is said about it:
 *
 *   [content ... media ...][calls ...][aside ...][final]
 *
 * Only whole pages stand in the first three; what is left of each, role and name go into the one
 * final page, which every message has. So the order of keys does not matter, and a message that was
 * cut short is a prefix of the whole one as long as a run is shown only behind runs seen to the end.
 * Content goes straight to its segment; calls and aside wait in vectors of their own. */
#ifndef KVROUTE_PROMPT_MESSAGE_H
#define KVROUTE_PROMPT_MESSAGE_H

#include "agent/prompt/pages.h"
#include "agent/prompt/rules.h"

enum run { RUN_CONTENT, RUN_CALLS, RUN_ASIDE, RUNS };

#define PART_LEVELS	2	/* a part, and a part of the tool result in it */

/* A place to go back to, for a key that comes twice. */
struct snapshot {
	uint32_t n, fill;
	uint64_t n_units;
	bool any;
	uint8_t buf[TEXT_PAGE_MAX];
};

struct part {
	uint32_t seen;		/* rules of PLACE_PART that brought something, a bit each */
	bool call;		/* a tool call: its name counts */
	uint64_t name;
	struct snapshot before;
};

struct message {
	bool open, role_seen;
	bool any;			/* the content has a part already */
	uint8_t done;			/* runs seen to the end, a bit each */
	uint8_t n_parts;		/* open levels of parts */
	uint32_t start;			/* pages of the segment before this message */
	uint32_t tail;			/* pages of calls and aside that are shown behind the content */
	uint64_t role, name, type;	/* hashes; 0: not there */
	const struct rule *last[RUNS];	/* whose value the run holds */
	struct page_vec *v;		/* the segment */
	struct pager run[RUNS];
	struct part part[PART_LEVELS];
	/* a tool call */
	bool args_seen;
	uint64_t call_name;
};

/* <side>: two vectors for calls and aside. */
void message_open(struct page_env *env, struct message *m, struct page_vec *v,
		  struct page_vec *side);

/* The last page. <keep_empty>: also when there is no text at all. */
void message_close(struct page_env *env, struct message *m, bool keep_empty);

/* A value for a run comes: what another value left there is dropped, unless this one is null and of
 * another key. */
void message_run(struct page_env *env, struct message *m, const struct rule *r, enum run run,
		 bool null);
void message_run_done(struct message *m, enum run run);

/* Show the whole pages of calls and aside that a message cut here has for sure. */
void message_show(struct page_env *env, struct message *m);

void part_open(struct message *m);
void part_close(struct page_env *env, struct message *m);

/* Something of the innermost part comes, behind byte <mark> (0: none). A second one of the same key
 * drops what the part brought before. */
void part_payload(struct page_env *env, struct message *m, const struct rule *r, uint8_t mark,
		  bool null);
void part_text(struct page_env *env, struct message *m);	/* a bare string among the parts */

void call_open(struct message *m);
void call_arguments(struct page_env *env, struct message *m);
void call_close(struct page_env *env, struct message *m);

void mark_add(struct page_env *env, struct pager *pg, uint8_t mark);

#endif
