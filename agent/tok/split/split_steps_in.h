/* split_steps_in.h - one step of a chain: divides the pieces of a list. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_STEPS_IN_H
#define KVROUTE_TOK_SPLIT_SPLIT_STEPS_IN_H

#include "agent/base/buf.h"
#include "agent/base/vec.h"
#include "agent/tok/split/split_regex.h"
#include "agent/tok/split/split_scan.h"

struct step {
	enum {
		RUN_SCAN,
		RUN_REGEX,
		RUN_CHARS,
		RUN_FALCON,
		RUN_PREFIX_SPACE,
		RUN_METASPACE,
		RUN_TO_CHARS,
		RUN_TO_BYTES,
		RUN_END
	} run;
	split_scan_fn *scan;		/* SCAN: adjacent matches */
	struct regex *regex;		/* REGEX; owned */
	enum step_chars { CHARS_DIGIT, CHARS_PUNCT, CHARS_SPACE, CHARS_ONE } chars;
	uint32_t one;			/* CHARS_ONE, METASPACE: the character */
	enum split_behaviour behaviour;
	bool invert, split;
	int prepend;			/* METASPACE */
};

/* TO_CHARS: each byte becomes the character that stands for it in vocabularies (ByteLevel), for
 * later steps. TO_BYTES: the reverse, even if a step cut between the bytes of one character. */

/* Tell if a step changes the bytes of pieces. */
bool step_rewrites(const struct step *s);

/* Pieces, as ends; <text> is borrowed. */
struct piece_list {
	const uint8_t *text;
	size_t bytes;
	VEC(uint32_t) end;
};

/* A match, or the text between two. */
struct step_cut {
	uint32_t start, end;
	bool match;
};

struct steps_scratch {
	struct piece_list list[2];
	struct buf bytes[2];
	VEC(struct step_cut) cuts;
	struct regex_scratch *regex;
	struct pieces batch;		/* of RUN_SCAN */
	struct work_left *work, no_limit;	/* the budget; never NULL */
};
void steps_scratch_fini(struct steps_scratch *c);	/* wipes it */

/* Run all <n> steps over a text. Returns the pieces, borrowed from <c> until its next use; or NULL
 * if there is no memory, PCRE2 met a limit, or the work is used up. */
const struct piece_list *steps_run(const struct step *s, size_t n, struct steps_scratch *c,
    const uint8_t *p, size_t size, enum part part);

#endif
