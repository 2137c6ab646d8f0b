/* split_family_in.h - which patterns have a hand-written scanner. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_FAMILY_IN_H
#define KVROUTE_TOK_SPLIT_SPLIT_FAMILY_IN_H

#include "agent/tok/split/split_scan.h"

struct family {
	const char *name;
	split_scan_fn *scan;
	unsigned price;			/* steps of work.h per piece, besides those per byte */
};

/* Return the family of one Split (Isolated) with the regular expression <pattern>; scan == NULL:
 * none. A literal CR or LF in it equals \r or \n. */
struct family family_of_pattern(struct span pattern);

/* Stands for the step Digits (individual) in a list of patterns. */
#define FAMILY_DIGITS	SPAN("\0digits")
#define FAMILY_STEPS	7u		/* more are no family */

/* Return the family of <n> consecutive Splits (Isolated) with <patterns>. */
struct family family_of_sequence(const struct span *patterns, size_t n);

/* split_deepseek1.c: tell if it is the second Split of DeepSeek LLM. */
bool split_is_alphabets(struct span pattern);

extern const struct family family_gpt2;

#endif
