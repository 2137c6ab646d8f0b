/* jinja.h - render a model's chat template exactly as its engine does.
 *
 *	template --jinja_compile()--> struct jinja (immutable, shared)  \
 *	                                                                 jinja_render() --> text
 *	body --jval_from_json()--> values in a struct jinja_mem         /
 *
 * The language is Jinja2 3.1 as configured by Hugging Face's apply_chat_template() and the engines:
 * ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, no autoescape, the extension
 * loopcontrols and {% generation %}; raise_exception, strftime_now; tojson as
 * json.dumps(ensure_ascii=False). Output equals Python's byte for byte, or rendering fails: an
 * unsupported construct is rejected at compile time if its name tells, otherwise when it is
 * executed (JINJA_UNKNOWN).
 *
 * No function reads a file or a clock, or keeps state between calls. */
#ifndef KVROUTE_JINJA_JINJA_H
#define KVROUTE_JINJA_JINJA_H

#include "agent/base/buf.h"
#include "agent/base/err.h"
#include "agent/jinja/value.h"

#define JINJA_TEXT_MAX	(1u << 20)	/* bytes of a template; the largest seen of 78 has 17 KiB */

struct jinja;

/* Compile a template; <text> is copied. Returns NULL and fills <e> (line, sentence) if the template
 * cannot be rendered exactly. */
struct jinja *jinja_compile(struct span text, struct err *e);
void jinja_free(struct jinja *t);
size_t jinja_bytes(const struct jinja *t);	/* memory it holds */

/* Tell if the template loops over the content of a message. Engines then pass content as a list of
 * parts instead of a text. */
bool jinja_walks_content(const struct jinja *t);

/* The time for strftime_now(): the wall clock of the engine's machine, as the caller knows it. */
struct jinja_time {
	int year;		/* 1 .. 9999 */
	int month, day;		/* from 1 */
	int hour, minute, second, usec;
};

struct jinja_limits {
	/* one per node executed, per 64 bytes copied or searched, per 4 bytes examined one by one,
	 * and per part of a split */
	uint64_t steps;
	size_t output;		/* bytes */
	unsigned depth;		/* nesting when executed; Python stops at about 300 macros */
	uint64_t *took;		/* the steps used are added to it; may be NULL */
};
struct jinja_limits jinja_limits_defaults(void);	/* 4 million steps, 16 MiB, 1000 */

enum jinja_result {
	JINJA_OK,
	JINJA_RAISED,		/* Python raises an exception: the engine answers with an error */
	JINJA_UNKNOWN,		/* the template used something unsupported */
	JINJA_LIMIT,		/* a limit was reached: steps, output, depth or memory */
	JINJA_NO_MEMORY,
	JINJA_STOPPED,		/* the sink returned false */
	JINJA_MISSED		/* resume.h: all of it must be rendered */
};
const char *jinja_result_name(enum jinja_result r);

struct jinja_error {
	uint32_t line;
	char text[240];		/* "TypeError: ..." as in Python; may quote a prompt: never log it */
};

/* The origin of a piece of output. JINJA_CONST: a whole constant of the template. Its address stays
 * the same while the template lives, so a caller can cache results by address. JINJA_VALUE: text of
 * the caller's values, or of several sources; valid during the call. */
enum jinja_origin { JINJA_CONST, JINJA_VALUE };

/* Receive one piece of output, never empty. Returns false to stop. If the result of rendering is
 * not JINJA_OK, all pieces are void. */
typedef bool jinja_sink(void *arg, const char *p, size_t n, enum jinja_origin origin);

/* A sink that appends all output to the struct buf <arg>. Its field <max> bounds the output. */
bool jinja_buf_sink(void *arg, const char *p, size_t n, enum jinja_origin origin);

/* Render the template with the members of <vars> as its variables. New values are allocated in <m>.
 * The caller passes tools and documents as None if absent, as Hugging Face does. <now> may be NULL:
 * strftime_now() is then unsupported. <why> may be NULL. */
enum jinja_result jinja_render(const struct jinja *t, struct jinja_mem *m, const struct jdict *vars,
			       const struct jinja_time *now, const struct jinja_limits *limits,
			       jinja_sink *sink, void *arg, struct jinja_error *why);

#endif
