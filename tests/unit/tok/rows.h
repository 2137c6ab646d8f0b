/* rows.h - the chains of steps for which one scanner exists, from the tokenizer.json of the models.
 * Each chain has a second form with its patterns in a group: no scanner matches that form, so the
 * steps run one by one on PCRE2. For unit tests and the fuzz target. */
#ifndef TESTS_TOK_ROWS_H
#define TESTS_TOK_ROWS_H

#include "agent/tok/split/split.h"

#define ROW_STEPS	7

#define ROW_ALPHABETS \
	"\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯ" \
	"Ա-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ" \
	"-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-" \
	"ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
#define ROW_LLM_MARKS	"\\s?[!-/:-~！-／：-～‘-‟　-。]+"
#define ROW_EAST	"[一-龥ࠀ-一가-\xed\x9f\xbf]+"

#define ROW_SPLIT(text)	{ .kind = STEP_REGEX, .pattern = { text, sizeof(text) - 1 }, \
	.behaviour = SPLIT_ISOLATED }
#define ROW_DIGITS	{ .kind = STEP_DIGITS, .individual = true }
#define ROW_GROUP(text)	ROW_SPLIT("(?:" text ")")

static const struct row_of_steps {
	const char *name;
	size_t n;
	struct split_step step[ROW_STEPS], slow[ROW_STEPS];
} rows_of_steps[] = {
	{ "deepseek-coder", 6,
	  { ROW_SPLIT("[\\r\\n]"), ROW_SPLIT("\\s?\\p{L}+"), ROW_SPLIT("\\s?\\p{P}+"), ROW_SPLIT(ROW_EAST),
	    ROW_DIGITS,
	    { .kind = STEP_BYTE_LEVEL } },
	  { ROW_GROUP("[\\r\\n]"), ROW_GROUP("\\s?\\p{L}+"), ROW_GROUP("\\s?\\p{P}+"), ROW_GROUP(ROW_EAST),
	    ROW_DIGITS,
	    { .kind = STEP_BYTE_LEVEL } } },
	{ "deepseek-llm", 7,
	  { ROW_SPLIT("[\\r\\n]"), ROW_SPLIT(ROW_ALPHABETS), ROW_SPLIT(ROW_LLM_MARKS), ROW_SPLIT("\\s+$"),
	    ROW_SPLIT(ROW_EAST), ROW_DIGITS,
	    { .kind = STEP_BYTE_LEVEL } },
	  { ROW_GROUP("[\\r\\n]"), ROW_GROUP(ROW_ALPHABETS), ROW_GROUP(ROW_LLM_MARKS), ROW_GROUP("\\s+$"),
	    ROW_GROUP(ROW_EAST), ROW_DIGITS,
	    { .kind = STEP_BYTE_LEVEL } } },
	{ "falcon", 4,
	  { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_CONTIGUOUS },
	    { .kind = STEP_BYTE_LEVEL, .use_regex = true },
	    { .kind = STEP_DIGITS }, ROW_SPLIT("[0-9][0-9][0-9]") },
	  { { .kind = STEP_PUNCTUATION, .behaviour = SPLIT_CONTIGUOUS },
	    { .kind = STEP_BYTE_LEVEL, .use_regex = true },
	    { .kind = STEP_DIGITS }, ROW_GROUP("[0-9][0-9][0-9]") } },
};
#define ROWS_OF_STEPS	(sizeof(rows_of_steps) / sizeof(rows_of_steps[0]))

#endif
