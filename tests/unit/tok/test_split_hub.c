/* test_split_hub.c - the step Split with the 141 patterns found on the Hugging Face hub, against
 * 2,027 lists of pieces from tokenizers 0.22.2. All lists match, and no pattern is refused. */
#include "tests/unit/tok/cases.h"

#define HUB	"tests/data/tok/split_hub.txt"
#define TEXTS	32

struct hub {
	struct case_text text[TEXTS], want, got, pattern;
	size_t n_texts, next, n;
	struct split_step step;
	struct split *split;
	struct split_scratch *scratch;
	char name[80];
};

static enum split_behaviour behaviour(const char *s)
{
	static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious",
		"MergedWithNext", "Contiguous" };
	int i;

	for (i = 0; i < 5; i++)
		if (strncmp(s, names[i], strlen(names[i])) == 0)
			return (enum split_behaviour)i;
	fail_msg("unknown behaviour %s", s);
	return SPLIT_REMOVED;
}

static void take_how(struct hub *h, const char *how)
{
	struct err e;

	h->step.behaviour = behaviour(how);
	h->step.invert = strstr(how, "inverted") != NULL;
	h->step.pattern = span_of(h->pattern.p, h->pattern.n);
	split_free(h->split);
	if ((h->split = split_new(&h->step, 1, &e)) == NULL)
		fail_msg("%s: %s", h->name, e.text);
	h->next = 0;
}

static void take_pieces(struct hub *h, const char *line)
{
	struct case_text *text = &h->text[h->next == TEXTS ? TEXTS - 1 : h->next++];

	case_undo(line, &h->want);
	case_split(h->split, h->scratch, text->p, text->n, &h->got);
	if (!case_same(&h->want, &h->got)) {
		case_print("want ", &h->want);
		case_print("got  ", &h->got);
		fail_msg("pattern %s, text %zu: other pieces", h->name, h->next);
	}
	h->n++;
}

static void take_line(struct hub *h, const char *line)
{
	const char *rest;

	if (case_is(line, "text", &rest)) {
		case_undo(rest, &h->text[h->n_texts++]);
	} else if (case_is(line, "name", &rest)) {
		snprintf(h->name, sizeof(h->name), "%s", rest);
	} else if (case_is(line, "pattern", &rest)) {
		case_undo(rest, &h->pattern);
	} else if (case_is(line, "how", &rest)) {
		take_how(h, rest);
	} else if (line[0] == '<') {
		case_undo(line + 1, &h->text[TEXTS - 1]);
		h->next = TEXTS;
	} else {
		assert_int_equal(line[0], '=');
		take_pieces(h, line + 1);
	}
}

static void hub_patterns_match_tokenizers(void **state)
{
	static struct hub h;
	static char line[CASE_MOST];
	FILE *f = case_open(HUB);

	h.scratch = split_scratch_new();
	while (case_line(f, line, sizeof(line)) != NULL)
		take_line(&h, line);
	assert_int_equal(h.n, 2027);
	split_free(h.split);
	split_scratch_free(h.scratch);
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hub_patterns_match_tokenizers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
