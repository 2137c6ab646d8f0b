/* split_family_in.h - which patterns have a scanner written by hand. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_FAMILY_IN_H
#define KVROUTE_TOK_SPLIT_SPLIT_FAMILY_IN_H

#include "agent/tok/split/split_scan.h"

struct family {
	const char *name;
	split_scan_fn *scan;
	unsigned price;			/* steps of work.h for each piece, besides those for each byte */
};

/* The family of one Split (Isolated) with the regular expression <pattern>; scan == NULL: none. CR and LF themselves in the
 * pattern are the same as \r and \n. */
struct family family_of_pattern(struct span pattern);

/* Stands for the step Digits (individual) in a row of patterns. */
#define FAMILY_DIGITS	SPAN("\0digits")
#define FAMILY_STEPS	7u		/* more make no family */

/* The family of the <n> Splits (Isolated) with <patterns> in a row. */
struct family family_of_sequence(const struct span *patterns, size_t n);

/* split_deepseek1.c: whether it is the second Split of DeepSeek LLM. */
bool split_is_alphabets(struct span pattern);

extern const struct family family_gpt2;

#endif
