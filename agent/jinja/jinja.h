/* jinja.h - a model's chat template, rendered as its engine renders it.
 *
 *	template --jinja_compile()--> struct jinja (immutable, shared)  \
 *	                                                                 jinja_render() --> text, in pieces
 *	body --jval_from_json()--> values in a struct jinja_mem         /
 *
 * The language is Jinja2 3.1 as Hugging Face's apply_chat_template() and the engines set it up: ImmutableSandboxedEnvironment,
 * trim_blocks, lstrip_blocks, no autoescape, the extension loopcontrols and {% generation %}; raise_exception, strftime_now;
 * tojson as json.dumps(ensure_ascii=False). What is rendered here is what Python would render, byte for byte, or it is not
 * rendered: what a template uses and is not known here is refused, when it is compiled if its name says so, else when
 * it is met (JINJA_UNKNOWN).
 *
 * Nothing here reads a file or a clock or keeps state between calls. */
#ifndef KVROUTE_JINJA_JINJA_H
#define KVROUTE_JINJA_JINJA_H

#include "agent/base/err.h"
#include "agent/jinja/value.h"

#define JINJA_TEXT_MAX	(1u << 20)	/* bytes of a template; the largest seen of 78 has 17 KiB */

struct jinja;

/* NULL and <e> (line, sentence) when the text is not a template that can be rendered exactly. The text is copied. */
struct jinja *jinja_compile(struct span text, struct err *e);
void jinja_free(struct jinja *t);
size_t jinja_bytes(const struct jinja *t);	/* memory it holds */

/* Whether it has a loop over the content of a message: engines then give content as a list of parts, else as a text. */
bool jinja_walks_content(const struct jinja *t);

/* What strftime_now() prints: the wall clock where the engine runs, as the caller knows it. */
struct jinja_time {
	int year;		/* 1 .. 9999 */
	int month, day;		/* from 1 */
	int hour, minute, second, usec;
};

struct jinja_limits {
	uint64_t steps;		/* nodes that are run, one for each 64 bytes that are copied or searched, 4 that are looked at one by one, and each part */
	size_t output;		/* bytes */
	unsigned depth;		/* of nested statements, expressions and macros; Python stops at about 300 macros */
	uint64_t *took;		/* the steps that were run are added to it; NULL */
};
struct jinja_limits jinja_limits_defaults(void);	/* 4 million steps, 16 MiB, 1000 */

enum jinja_result {
	JINJA_OK,
	JINJA_RAISED,		/* Python would raise here: the engine answers with an error */
	JINJA_UNKNOWN,		/* Python would do something that is not known here */
	JINJA_LIMIT,		/* steps, output, depth, or the bound of the memory */
	JINJA_NO_MEMORY,
	JINJA_STOPPED		/* the sink wanted no more */
};
const char *jinja_result_name(enum jinja_result r);

struct jinja_error {
	uint32_t line;
	char text[240];		/* "TypeError: ..." as Python says it; may quote what was rendered: not for logs */
};

/* Where a piece of the text comes from. JINJA_CONST: from the template; <p> is in the template's own memory, the same
 * address for the same constant each time, for as long as the template lives: what is worked out for it once can be kept. A
 * constant is passed on whole. JINJA_VALUE: from the caller's values, or made of several; lives for the call. */
enum jinja_origin { JINJA_CONST, JINJA_VALUE };

/* Pieces come in order and are never empty. False: stop. When the result is not JINJA_OK, what came before it is void. */
typedef bool jinja_sink(void *arg, const char *p, size_t n, enum jinja_origin origin);

/* A sink that keeps everything: set <max>, zero the rest; <p> is the caller's to free with mem_free(). */
struct jinja_text {
	char *p;
	size_t n, room, max;
	bool no_memory;
};
bool jinja_text_sink(void *text, const char *p, size_t n, enum jinja_origin origin);

/* Render with the members of the dict <vars> as the template's variables. Values that the template makes are taken from <m>.
 * HF passes tools and documents as None when there are none: that is up to the caller. <now>: NULL: strftime_now() is not known.
 * <why> may be NULL. */
enum jinja_result jinja_render(const struct jinja *t, struct jinja_mem *m, const struct jdict *vars, const struct jinja_time *now,
			       const struct jinja_limits *limits, jinja_sink *sink, void *arg, struct jinja_error *why);

#endif
