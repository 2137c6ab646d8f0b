/* command.h - the lines of the runtime socket, without the socket.
 *
 *      "show servers json; clear errors" -> command_split() -> command_parse() -> struct command
 *
 * As in HAProxy, ';' separates commands, blanks separate words, and '\' takes the next byte as it
 * is. Only printable ASCII is allowed. Pure: nothing is executed here. */
#ifndef KVROUTE_LOOP_COMMAND_H
#define KVROUTE_LOOP_COMMAND_H

#include "agent/base/err.h"
#include "agent/base/types.h"

#define COMMAND_LINE_MAX	2048	/* bytes of a line, without its end */
#define COMMAND_WORDS_MAX	12
#define COMMAND_BODY_MAX	(1u << 20)	/* of ask */
#define COMMAND_DECISIONS_MAX	256u	/* of show decisions */

/* name, word, help */
#define SHOW_LIST(X) \
	X(INFO, "info", "version, requests, first tokens, reasons of decisions") \
	X(SERVERS, "servers", "each server: load, expected wait, hits, cache") \
	X(POOLS, "pools", "each pool: mode, facts, pressure") \
	X(MODELS, "models", "how the prompts of each model become pages") \
	X(SPACES, "spaces", "prompts that may share cache, as hashes") \
	X(INDEX, "index", "memory and pages of the index") \
	X(DECISIONS, "decisions", "the last decisions; show decisions N: the last N") \
	X(ERRORS, "errors", "the last warnings and errors of the log") \
	X(PROBLEMS, "problems", "what is wrong now, its effect and its remedy") \
	X(SHARE, "share", "other agents of the fleet") \
	X(EVENTS, "events", "engines that publish KV cache events") \
	X(CONFIG, "config", "all effective values, as YAML")

enum command_show {
#define X(name, word, help) SHOW_##name,
	SHOW_LIST(X)
#undef X
	SHOW_COUNT
};

enum command_do {
	COMMAND_NONE,		/* an empty command, as after the last ';' */
	COMMAND_SHOW,
	COMMAND_WHY,		/* text[0]: the uid */
	COMMAND_ASK,		/* number: bytes of the body that follows the line */
	COMMAND_CLEAR_ERRORS,
	COMMAND_CLEAR_PROBLEMS,
	COMMAND_CLEAR_SPACE,	/* space: its hash */
	COMMAND_CLEAR_SERVER,	/* text[0], text[1]: pool, server */
	COMMAND_SAVE_SNAPSHOT,
	COMMAND_SET_LOG_LEVEL,	/* number: 0 error, 1 warn, 2 info, 3 debug */
	COMMAND_HELP,
	COMMAND_PROMPT,
	COMMAND_QUIT
};

/* Words of ask, each with a value in text[]. */
enum command_ask { ASK_POOL, ASK_PATH, ASK_TENANT, ASK_MODEL, ASK_SESSION, ASK_COUNT };

struct command {
	enum command_do what;
	enum command_show show;
	bool json;
	uint64_t number;		/* of show decisions: how many */
	uint64_t space[2];
	const char *text[ASK_COUNT];	/* point into <words>; NULL: not given */
	char words[COMMAND_LINE_MAX + COMMAND_WORDS_MAX];
};

/* Split the first command off <line>. Returns false at the end. <at>: the offset of the command in
 * the whole line, advanced with <line>; 0 before the first call. */
bool command_split(struct span *line, size_t *at, struct span *command);

/* Parse one command. <at>: its offset in the line, for messages. Returns 0 and sets <c>, or -1 with
 * <e>: the sentence, and the place in e->column. */
int command_parse(struct span command, size_t at, struct command *c, struct err *e);

/* Write the lines of help, each with its newline; what does not fit is left out. Returns the
 * length. */
#define COMMAND_HELP_MAX	4096
size_t command_help(char out[COMMAND_HELP_MAX]);

#endif
