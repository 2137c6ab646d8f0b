/* main.c - kvroutectl: what an operator types. A table of verbs, each in a file of its own. */
#include <stdio.h>
#include <string.h>

#include "agent/ctl/ctl.h"
#include "spop-check/spop_check.h"

static int run_spop_check(int argc, char **argv)
{
	return spop_check("kvroutectl", argc, argv);
}

static const struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} verbs[] = {
	{ "models", ctl_models, "how each model's prompts become pages, and what is text as counts differ" },
	{ "pages", ctl_pages, "what a request body is to the router: model, space, pages, cut" },
	{ "render", ctl_render, "what a chat template makes of a request body" },
	{ "sim", ctl_sim, "what a rule is worth: a trace against engines in memory" },
	{ "spop-check", run_spop_check, "does an agent, any agent, speak SPOP as HAProxy needs it" },
	{ "tokenize", ctl_tokenize, "the ids of a text, as an engine will see them" },
	{ "why", ctl_why, "why the last requests went where they went" },
};

#define N_VERBS	(sizeof(verbs) / sizeof(verbs[0]))

static int usage(FILE *to, int status)
{
	fprintf(to, "usage: kvroutectl VERB [options]\n\n");
	for (size_t i = 0; i < N_VERBS; i++)
		fprintf(to, "  %-10s %s\n", verbs[i].name, verbs[i].help);
	fprintf(to, "\nkvroutectl VERB -h says more; so does kvroutectl(8).\n");
	return status;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return usage(stderr, CTL_USAGE);
	if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)
		return usage(stdout, 0);
	if (strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "--version") == 0) {
		printf("kvroutectl %s\n", KVROUTE_VERSION);
		return 0;
	}
	for (size_t i = 0; i < N_VERBS; i++) {
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	}
	fprintf(stderr, "kvroutectl: there is no verb \"%s\"\n", argv[1]);
	return usage(stderr, CTL_USAGE);
}
