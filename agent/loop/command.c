/* command.c - words first, then one table of commands. The first words choose the row; the row says
 * what may follow. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/loop/command.h"

/* What may follow the words of a row. */
enum follow {
	FOLLOW_NONE,
	FOLLOW_SHOW,		/* a word of SHOW_LIST, a number, "json" */
	FOLLOW_UID,		/* a uid, "json" */
	FOLLOW_ASK,		/* a number, pairs of words, "json" */
	FOLLOW_SPACE, FOLLOW_SERVER, FOLLOW_LEVEL
};

struct row {
	enum command_do what;
	const char *words[3];
	enum follow follow;
	const char *usage, *help;
};

static const struct row rows[] = {
	{ COMMAND_SHOW, { "show" }, FOLLOW_SHOW, "show WHAT [json]", NULL },
	{ COMMAND_WHY, { "why" }, FOLLOW_UID, "why UID [json]", "explain the decision on one request" },
	{ COMMAND_ASK, { "ask" }, FOLLOW_ASK,
	    "ask BYTES [pool NAME] [path PATH] [tenant NAME] [model NAME] [session NAME] [json]",
	    "what would be chosen for the body of so many bytes after this line; nothing is recorded" },
	{ COMMAND_CLEAR_ERRORS, { "clear", "errors" }, FOLLOW_NONE, "clear errors",
	    "empty the list of show errors" },
	{ COMMAND_CLEAR_PROBLEMS, { "clear", "problems" }, FOLLOW_NONE, "clear problems",
	    "end all problems; those that last begin again within some seconds" },
	{ COMMAND_CLEAR_SPACE, { "clear", "space" }, FOLLOW_SPACE, "clear space HASH",
	    "forget all prompts of a space; show spaces and kvroutectl pages tell hashes" },
	{ COMMAND_CLEAR_SERVER, { "clear", "server" }, FOLLOW_SERVER, "clear server POOL/SERVER",
	    "forget what requests taught of the cache of a server" },
	{ COMMAND_SAVE_SNAPSHOT, { "save", "snapshot" }, FOLLOW_NONE, "save snapshot",
	    "write index.snapshot_file now" },
	{ COMMAND_SET_LOG_LEVEL, { "set", "log", "level" }, FOLLOW_LEVEL,
	    "set log level error|warn|info|debug", "until the next reload" },
	{ COMMAND_HELP, { "help" }, FOLLOW_NONE, "help", "this list" },
	{ COMMAND_PROMPT, { "prompt" }, FOLLOW_NONE, "prompt",
	    "more than one line: print \"> \" and wait for the next" },
	{ COMMAND_QUIT, { "quit" }, FOLLOW_NONE, "quit", "close the connection" },
};

#define N_ROWS	(sizeof(rows) / sizeof(rows[0]))

static const char *const show_words[] = {
#define X(name, word, help) word,
	SHOW_LIST(X)
#undef X
};

static const char *const ask_words[ASK_COUNT] = { "pool", "path", "tenant", "model", "session" };
static const char *const level_words[] = { "error", "warn", "info", "debug" };

/* ---- words ---------------------------------------------------------------------------- */

struct words {
	const char *word[COMMAND_WORDS_MAX];
	size_t column[COMMAND_WORDS_MAX];	/* from 1 */
	size_t n, end;				/* <end>: the column after the last byte */
};

static int bad_at(struct err *e, size_t column)
{
	e->column = (int)column;
	return -1;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

bool command_split(struct span *line, size_t *at, struct span *command)
{
	size_t i = 0;

	if (line->p == NULL || line->n == 0)
		return false;
	while (i < line->n && line->p[i] != ';')
		i += line->p[i] == '\\' && i + 1 < line->n ? 2 : 1;
	*command = span_of(line->p, i);
	i += i < line->n;	/* the ';' */
	*line = span_of(line->p + i, line->n - i);
	*at += i;
	return true;
}

static int check_bytes(struct span s, size_t at, struct err *e)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char b = (unsigned char)s.p[i];

		if (b == '\t' || (b >= 0x20 && b < 0x7f))
			continue;
		err_set(e, "byte 0x%02x is not printable ASCII; type \"help\" for the commands", b);
		return bad_at(e, at + i + 1);
	}
	return 0;
}

static int read_words(struct span s, size_t at, struct command *c, struct words *w, struct err *e)
{
	char *to = c->words;
	size_t i = 0;

	w->n = 0;
	w->end = at + s.n + 1;
	for (;;) {
		while (i < s.n && is_blank(s.p[i]))
			i++;
		if (i == s.n)
			return 0;
		if (w->n == COMMAND_WORDS_MAX) {
			err_set(e, "more than %d words; type \"help\" for the commands", COMMAND_WORDS_MAX);
			return bad_at(e, at + i + 1);
		}
		w->column[w->n] = at + i + 1;
		w->word[w->n++] = to;
		while (i < s.n && !is_blank(s.p[i])) {
			i += s.p[i] == '\\' && i + 1 < s.n;
			*to++ = s.p[i++];
		}
		*to++ = '\0';
	}
}

static size_t column_of(const struct words *w, size_t i)
{
	return i < w->n ? w->column[i] : w->end;
}

static bool same_word(const struct words *w, size_t i, const char *word)
{
	return i < w->n && strcmp(w->word[i], word) == 0;
}

/* Returns the index of the word in <list>, or -1. */
static int find_word(const struct words *w, size_t i, const char *const *list, size_t n)
{
	for (size_t k = 0; k < n; k++)
		if (same_word(w, i, list[k]))
			return (int)k;
	return -1;
}

/* Set "expected ..., but there is ...". */
static int expected(const struct words *w, size_t i, const char *what, struct err *e)
{
	if (i < w->n)
		err_set(e, "expected %s instead of \"%.60s\"", what, w->word[i]);
	else
		err_set(e, "expected %s at the end of the command", what);
	return bad_at(e, column_of(w, i));
}

/* ---- what follows --------------------------------------------------------------------- */

static int read_number(
    const struct words *w, size_t i, uint64_t most, const char *what, uint64_t *v, struct err *e)
{
	char text[120];
	char *end = NULL;
	unsigned long long n = 0;

	if (i < w->n && w->word[i][0] >= '0' && w->word[i][0] <= '9' && strlen(w->word[i]) <= 18)
		n = strtoull(w->word[i], &end, 10);
	if (end != NULL && *end == '\0' && n >= 1 && n <= most) {
		*v = n;
		return 0;
	}
	snprintf(text, sizeof(text), "%s, 1 to %llu,", what, (unsigned long long)most);
	return expected(w, i, text, e);
}

static void join_words(const char *const *list, size_t n, char *out, size_t cap)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		k += (size_t)snprintf(out + k, cap - k, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", list[i]);
}

static int read_show(const struct words *w, size_t *i, struct command *c, struct err *e)
{
	int k = find_word(w, *i, show_words, SHOW_COUNT);
	char all[200];

	if (k < 0) {
		join_words(show_words, SHOW_COUNT, all, sizeof(all));
		return expected(w, *i, all, e);
	}
	++*i;
	c->show = (enum command_show)k;
	c->number = 10;
	if (c->show != SHOW_DECISIONS || *i == w->n || same_word(w, *i, "json"))
		return 0;
	return read_number(w, (*i)++, COMMAND_DECISIONS_MAX, "a number of decisions", &c->number, e);
}

static int read_ask(const struct words *w, size_t *i, struct command *c, struct err *e)
{
	char all[80];
	int k;

	if (read_number(w, (*i)++, COMMAND_BODY_MAX, "the bytes of the body", &c->number, e) != 0)
		return -1;
	while (*i < w->n && (k = find_word(w, *i, ask_words, ASK_COUNT)) >= 0) {
		++*i;
		if (*i == w->n)
			return expected(w, *i, "a value", e);
		c->text[k] = w->word[(*i)++];
	}
	if (*i == w->n || same_word(w, *i, "json"))
		return 0;
	join_words(ask_words, ASK_COUNT, all, sizeof(all));
	return expected(w, *i, all, e);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int read_space(const struct words *w, size_t i, struct command *c, struct err *e)
{
	for (size_t k = 0; i < w->n && k < 32; k++) {
		int d = hex_digit(w->word[i][k]);

		if (d < 0)
			break;
		c->space[k / 16] = c->space[k / 16] << 4 | (uint64_t)d;
		if (k == 31 && w->word[i][32] == '\0')
			return 0;
	}
	return expected(w, i, "the 32 hexadecimal digits of a space", e);
}

static int read_server(const struct words *w, size_t i, struct command *c, struct err *e)
{
	char *slash = i < w->n ? strchr(w->word[i], '/') : NULL;

	if (slash == NULL || slash == w->word[i] || slash[1] == '\0')
		return expected(w, i, "POOL/SERVER", e);
	*slash = '\0';
	c->text[0] = w->word[i];
	c->text[1] = slash + 1;
	return 0;
}

static int read_level(const struct words *w, size_t i, struct command *c, struct err *e)
{
	int k = find_word(w, i, level_words, 4);

	if (k < 0)
		return expected(w, i, "error, warn, info or debug", e);
	c->number = (uint64_t)k;
	return 0;
}

/* Read what follows from word <*i> on. */
static int read_rest(
    const struct words *w, const struct row *r, size_t *i, struct command *c, struct err *e)
{
	switch (r->follow) {
	case FOLLOW_NONE: return 0;
	case FOLLOW_SHOW: return read_show(w, i, c, e);
	case FOLLOW_ASK: return read_ask(w, i, c, e);
	case FOLLOW_SPACE: return read_space(w, (*i)++, c, e);
	case FOLLOW_SERVER: return read_server(w, (*i)++, c, e);
	case FOLLOW_LEVEL: return read_level(w, (*i)++, c, e);
	case FOLLOW_UID:
		if (*i == w->n)
			return expected(w, *i, "a uid", e);
		c->text[0] = w->word[(*i)++];
		return 0;
	}
	return -1;
}

static bool takes_json(const struct row *r, const struct command *c)
{
	return (r->follow == FOLLOW_SHOW && c->show != SHOW_CONFIG) || r->follow == FOLLOW_UID ||
	    r->follow == FOLLOW_ASK;
}

/* ---- the command ---------------------------------------------------------------------- */

/* Returns the number of words of <r> that <w> begins with. */
static size_t words_met(const struct words *w, const struct row *r)
{
	size_t n = 0;

	while (n < 3 && r->words[n] != NULL && same_word(w, n, r->words[n]))
		n++;
	return n;
}

static int no_such_command(const struct words *w, size_t met, struct err *e)
{
	if (met < w->n)
		err_set(e, "\"%.60s\" is no command here; type \"help\" for the commands", w->word[met]);
	else
		err_set(e, "the command is not complete; type \"help\" for the commands");
	return bad_at(e, column_of(w, met));
}

int command_parse(struct span command, size_t at, struct command *c, struct err *e)
{
	const struct row *r = NULL;
	struct words w;
	size_t i, met = 0;

	*e = (struct err){ .line = 0 };
	memset(c, 0, sizeof(*c));
	if (command.n > COMMAND_LINE_MAX) {
		err_set(e, "the line is longer than %d bytes", COMMAND_LINE_MAX);
		return bad_at(e, COMMAND_LINE_MAX);
	}
	if (check_bytes(command, at, e) != 0 || read_words(command, at, c, &w, e) != 0)
		return -1;
	if (w.n == 0)
		return 0;
	for (size_t k = 0; k < N_ROWS && r == NULL; k++) {
		size_t n = words_met(&w, &rows[k]);

		if (n > met)
			met = n;
		if (n > 0 && (n == 3 || rows[k].words[n] == NULL))
			r = &rows[k];
	}
	if (r == NULL)
		return no_such_command(&w, met, e);
	i = met;
	if (read_rest(&w, r, &i, c, e) != 0)
		return -1;
	if (takes_json(r, c) && same_word(&w, i, "json")) {
		c->json = true;
		i++;
	}
	if (i < w.n) {
		err_set(e, "\"%.60s\" is too much; the command is: %s", w.word[i], r->usage);
		return bad_at(e, w.column[i]);
	}
	c->what = r->what;
	return 0;
}

#define USAGE_WIDTH	26

/* ---- help ----------------------------------------------------------------------------- */

static size_t help_line(char *out, size_t n, const char *usage, const char *help)
{
	size_t room = COMMAND_HELP_MAX - n;
	int k;

	if (strlen(usage) <= USAGE_WIDTH)
		k = snprintf(out + n, room, "%-*s %s\n", USAGE_WIDTH, usage, help);
	else
		k = snprintf(out + n, room, "%s\n%-*s %s\n", usage, USAGE_WIDTH, "", help);
	return k > 0 && (size_t)k < COMMAND_HELP_MAX - n ? n + (size_t)k : n;
}

size_t command_help(char out[COMMAND_HELP_MAX])
{
	static const char *const show_help[] = {
#define X(name, word, help) help,
		SHOW_LIST(X)
#undef X
	};
	char usage[64];
	size_t n = 0;

	for (size_t i = 0; i < SHOW_COUNT; i++) {
		snprintf(usage, sizeof(usage), "show %s%s", show_words[i], i == SHOW_CONFIG ? "" : " [json]");
		n = help_line(out, n, usage, show_help[i]);
	}
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].help != NULL)
			n = help_line(out, n, rows[i].usage, rows[i].help);
	return n;
}
