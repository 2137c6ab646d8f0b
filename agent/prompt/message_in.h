/* message_in.h - private to agent/prompt: assemble one message from keys in any order.
 *
 * A message is three runs of text and a final page:
 *
 *   [content ... media ...][calls ...][aside ...][final]
 *
 * The first three hold full pages only. The rest of each run, the role and the name go into the
 * final page, which every message has, so the order of keys does not matter. A truncated message
 * is a prefix of the whole one, because a run is shown only after the runs before it are
 * complete. Content goes directly to its segment; calls and aside are collected in vectors of
 * their own. */
#ifndef KVROUTE_PROMPT_MESSAGE_IN_H
#define KVROUTE_PROMPT_MESSAGE_IN_H

#include "agent/prompt/pages.h"
#include "agent/prompt/rules_in.h"

enum run { RUN_CONTENT, RUN_CALLS, RUN_ASIDE, RUNS };

#define PART_LEVELS	2	/* a part, and a part of the tool result in it */

/* A state to restore if a key comes twice. */
struct snapshot {
	uint32_t n, fill;
	uint64_t n_units;
	bool any;
	uint8_t buf[TEXT_PAGE_MAX];
};

struct part {
	uint64_t seen;		/* rules of PLACE_PART that had a value, one bit each */
	bool call;		/* a tool call: its name counts */
	uint64_t name;
	struct snapshot before;
};

struct message {
	bool open, role_seen;
	bool any;			/* the content has a part already */
	uint8_t done;			/* complete runs, one bit each */
	uint8_t n_parts;		/* open levels of parts */
	uint32_t start;			/* pages of the segment before this message */
	uint32_t tail;			/* pages of calls and aside shown after the content */
	uint64_t role, name, type;	/* hashes; 0: absent */
	const struct rule *last[RUNS];	/* rule of the key that each run is from */
	struct page_vec *v;		/* the segment */
	/* a tool call */
	bool args_seen;
	uint64_t call_name;
	struct pager run[RUNS];
	struct part part[PART_LEVELS];
};

/* Start a message at the end of <v>. <side>: two vectors, for calls and aside. */
void message_open(struct page_env *env, struct message *m, struct page_vec *v,
		  struct page_vec *side);

/* End a message with its final page. A message without text has one only if <keep_empty>. */
void message_close(struct page_env *env, struct message *m, bool keep_empty);

/* Start a value of run <run>: drop the value of an earlier key. A null of another key than the
 * current holder changes nothing. */
void message_run(struct page_env *env, struct message *m, const struct rule *r, enum run run,
		 bool null);
void message_run_done(struct message *m, enum run run);

/* Show the full pages of calls and aside that the message has even if it is truncated here. */
void message_show(struct page_env *env, struct message *m);

void part_open(struct message *m);
void part_close(struct page_env *env, struct message *m);

/* Start a payload of the innermost part, after byte <mark> (0: none). A second payload of the
 * same key replaces what the part held. */
void part_payload(struct page_env *env, struct message *m, const struct rule *r, uint8_t mark,
		  bool null);
/* The same, but part_text() follows, unless the text is left out. */
void part_payload_later(struct page_env *env, struct message *m, const struct rule *r);
void part_text(struct page_env *env, struct message *m);	/* a text comes, of a part or a bare one */

void call_open(struct message *m);
void call_arguments(struct page_env *env, struct message *m);
void call_close(struct page_env *env, struct message *m);

void mark_add(struct page_env *env, struct pager *pg, uint8_t mark);

#endif
