/* models.c - kvroutectl models: how the prompts of each model become pages, and which kinds of
 * request are matched as text because the engine counts other tokens. It reads /metrics and prints
 * sentences. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "agent/ctl/ctl.h"
#include "agent/ctl/get.h"

#define LINE_MAX_BYTES	1023	/* longer lines are not needed and skipped */

struct reader {
	struct http_answer answer;
	char line[LINE_MAX_BYTES + 1];
	size_t n;
	bool lost;			/* a part of this line did not fit */
	unsigned printed;
};

static int usage(FILE *to, int status)
{
	fprintf(to, "usage: kvroutectl models [ADDRESS]\n"
		"\n"
		"How the prompts of each model become pages, and which kinds of request are matched as\n"
		"text for a while because the engine counts other tokens than the agent. ADDRESS is\n"
		"metrics.listen of the agent, host:port or unix@path; default " CTL_ADDRESS ".\n");
	return status;
}

/* Write the value of label <name> to <out>, without its escapes. Returns false if there is none. */
static bool label_of(const char *line, const char *name, char *out, size_t cap)
{
	char key[32];
	const char *p;
	size_t n = 0;

	snprintf(key, sizeof(key), "%s=\"", name);
	if ((p = strstr(line, key)) == NULL)
		return false;
	for (p += strlen(key); *p != '"' && *p != '\0' && n + 1 < cap; p++) {
		if (*p == '\\' && p[1] != '\0')
			p++;
		out[n++] = *p;
	}
	out[n] = '\0';
	return true;
}

/* Returns the value of a sample of metric <name>, or NULL if the line is not one. */
static const char *sample_of(const char *line, const char *name)
{
	size_t n = strlen(name);
	const char *at = strrchr(line, ' ');

	return strncmp(line, name, n) == 0 && (line[n] == '{' || line[n] == ' ') && at != NULL
	    ? at + 1
	    : NULL;
}

static void say_line(struct reader *r)
{
	char model[512], word[512];
	const char *v;

	if (label_of(r->line, "model", model, sizeof(model)) &&
	    (v = sample_of(r->line, "kvroute_model_mode")) != NULL &&
	    label_of(r->line, "mode", word, sizeof(word)))
		r->printed += printf("%s: %s\n", model, word) > 0;
	else if ((v = sample_of(r->line, "kvroute_model_kind_text_tenants")) != NULL &&
	    label_of(r->line, "kind", word, sizeof(word)))
		printf(
		    "%s: matched as text for %s tenant%s, because the engine counts other tokens: %s\n",
		    model, v, strcmp(v, "1") == 0 ? "" : "s", word);
	else if ((v = sample_of(r->line, "kvroute_prompt_tokens_compared_total")) != NULL)
		printf("prompts with a token count from the engine: %s\n", v);
	else if ((v = sample_of(r->line, "kvroute_prompt_tokens_differ_total")) != NULL)
		printf("of these, with a different count: %s\n", v);
}

static void take_body(void *arg, const char *p, size_t n)
{
	struct reader *r = arg;

	if (r->answer.status != 200) {
		fwrite(p, 1, n, stderr);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (p[i] != '\n' && r->n < LINE_MAX_BYTES) {
			r->line[r->n++] = p[i];
			continue;
		}
		r->lost |= p[i] != '\n';
		if (p[i] != '\n')
			continue;
		r->line[r->n] = '\0';
		if (!r->lost && r->line[0] != '#')
			say_line(r);
		r->n = 0;
		r->lost = false;
	}
}

int ctl_models(int argc, char **argv)
{
	static const struct option longs[] = { { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 } };
	struct reader r = { .n = 0 };
	const char *address, *why = "";
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1)
		return c == 'h' ? usage(stdout, 0) : usage(stderr, CTL_USAGE);
	if (argc - optind > 1)
		return usage(stderr, CTL_USAGE);
	address = optind < argc ? argv[optind] : CTL_ADDRESS;
	http_answer_init(&r.answer, take_body, &r);
	if (ctl_get(address, "/metrics", &r.answer, &why) == 0 && r.answer.status == 200 && r.printed > 0)
		return 0;
	fprintf(stderr, "kvroutectl: %s: %s\n", address,
		why[0] != '\0' ? why : "its metrics name no model");
	return CTL_FAILED;
}
