/* split_steps_in.h - one step of a chain: a list of pieces into a list of smaller ones. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_STEPS_IN_H
#define KVROUTE_TOK_SPLIT_SPLIT_STEPS_IN_H

#include "agent/base/buf.h"
#include "agent/base/vec.h"
#include "agent/tok/split/split_regex.h"
#include "agent/tok/split/split_scan.h"

struct step {
	enum { RUN_SCAN, RUN_REGEX, RUN_CHARS, RUN_FALCON, RUN_PREFIX_SPACE, RUN_METASPACE, RUN_TO_CHARS, RUN_TO_BYTES } run;
	split_scan_fn *scan;		/* SCAN: matches that touch */
	struct regex *regex;		/* REGEX; owned */
	enum step_chars { CHARS_DIGIT, CHARS_PUNCT, CHARS_SPACE, CHARS_ONE } chars;
	uint32_t one;			/* CHARS_ONE, METASPACE: the character */
	enum split_behaviour behaviour;
	bool invert, split;
	int prepend;			/* METASPACE */
};

/* TO_CHARS: each byte becomes the character that stands for it in vocabularies (ByteLevel), for steps behind it, which see these;
 * TO_BYTES: back, even where a step cut between the characters of one. */

/* Whether the bytes that come out are others than those that go in. */
bool step_rewrites(const struct step *s);

/* Pieces, as ends; <text> is not owned. */
struct piece_list {
	const uint8_t *text;
	size_t bytes;
	VEC(uint32_t) end;
};

/* A match or what is between two. */
struct step_cut {
	uint32_t start, end;
	bool match;
};

struct steps_scratch {
	struct piece_list list[2];
	struct buf bytes[2];
	VEC(struct step_cut) cuts;
	struct regex_scratch *regex;
	struct pieces batch;		/* RUN_SCAN's */
	struct work_left *work, nobody;	/* who pays; never NULL */
};
void steps_scratch_fini(struct steps_scratch *c);	/* wipes it */

/* All <n> steps over a text. The pieces, borrowed from <c> until its next use; NULL: no memory, a limit of PCRE2, or the work is used up. */
const struct piece_list *steps_run(const struct step *s, size_t n, struct steps_scratch *c, const uint8_t *p, size_t size, enum part part);

#endif
