/* command - a line of the runtime socket.
 *
 * The parts of a split line and their ';' are the line. A command gives the same result with more
 * blanks between its words. A refused one has a sentence and a place within it. Texts end within
 * the command, and numbers lie within their limits. */
#include "agent/loop/command.h"
#include "tests/fuzz/lib/fuzz.h"

static void check_good(const struct command *c, size_t n)
{
	for (unsigned i = 0; i < ASK_COUNT; i++)
		if (c->text[i] != NULL)
			must(c->text[i] >= c->words && c->text[i] + strlen(c->text[i]) < c->words + sizeof(c->words) &&
			    strlen(c->text[i]) <= n);
	if (c->what == COMMAND_ASK)
		must(c->number >= 1 && c->number <= COMMAND_BODY_MAX);
	if (c->what == COMMAND_SHOW)
		must(c->show < SHOW_COUNT && c->number >= 1 && c->number <= COMMAND_DECISIONS_MAX);
	if (c->what == COMMAND_SET_LOG_LEVEL)
		must(c->number <= 3);
	if (c->what == COMMAND_WHY || c->what == COMMAND_CLEAR_SERVER)
		must(c->text[0] != NULL);
}

/* Double the blanks that separate words. */
static size_t with_blanks(struct span s, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		out[n++] = s.p[i];
		if (s.p[i] == '\\' && i + 1 < s.n)
			out[n++] = s.p[++i];
		else if (s.p[i] == ' ')
			out[n++] = '\t';
	}
	return n;
}

static bool same(const struct command *a, const struct command *b)
{
	for (unsigned i = 0; i < ASK_COUNT; i++)
		if ((a->text[i] == NULL) != (b->text[i] == NULL) ||
		    (a->text[i] != NULL && strcmp(a->text[i], b->text[i]) != 0))
			return false;
	return a->what == b->what && a->show == b->show && a->json == b->json &&
	    a->number == b->number && a->space[0] == b->space[0] && a->space[1] == b->space[1];
}

static void check_one(struct span s, size_t at)
{
	struct command *c = must_alloc(malloc(2 * sizeof(*c)));
	char *exact = must_alloc(malloc(s.n + 1)), *wide = must_alloc(malloc(2 * s.n + 1));
	struct err e;
	size_t n;
	int rc;

	memcpy(exact, s.p, s.n);	/* an access after its end is a find */
	rc = command_parse(span_of(exact, s.n), at, &c[0], &e);
	if (rc == 0) {
		check_good(&c[0], s.n);
		n = with_blanks(s, wide);
		if (n <= COMMAND_LINE_MAX)
			must(command_parse(span_of(wide, n), at, &c[1], &e) == 0 && same(&c[0], &c[1]));
	} else {
		must(rc == -1 && e.text[0] != '\0');
		if (s.n <= COMMAND_LINE_MAX)
			must(e.column > (int)at && (size_t)e.column <= at + s.n + 1);
	}
	free(wide);
	free(exact);
	free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span line = span_of(data, size), one;
	size_t at = 0, before = 0;

	while (command_split(&line, &at, &one)) {
		must(one.p == (const char *)data + before && (at == before + one.n + 1 || at == size));
		check_one(one, before);
		before = at;
	}
	must(at == size);
	return 0;
}
