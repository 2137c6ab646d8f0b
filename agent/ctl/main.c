/* main.c - kvroutectl: a table of verbs, each in a file of its own. */
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
	{ "doctor", ctl_doctor, "find what is wrong in how HAProxy's configuration attaches kvroute" },
	{ "events", ctl_events, "print what an engine publishes about its KV cache" },
	{ "models", ctl_models,
		"how each model's prompts become pages; which requests are matched as text" },
	{ "pages", ctl_pages, "how the agent reads a request body: model, space, pages, cut" },
	{ "render", ctl_render, "render a request body with a chat template" },
	{ "sim", ctl_sim, "compare routing rules: replay a trace against simulated engines" },
	{ "spop-check", run_spop_check, "check whether any SPOE agent speaks SPOP as HAProxy needs it" },
	{ "tokenize", ctl_tokenize, "token ids of a text, as an engine computes them" },
	{ "top", ctl_top, "servers, load and hits of a running agent, as they change" },
	{ "trial", ctl_trial, "what shadow mode says: what would be saved, how sure, what to do" },
	{ "why", ctl_why, "explain the last routing decisions" },
};

#define N_VERBS	(sizeof(verbs) / sizeof(verbs[0]))

static int usage(FILE *to, int status)
{
	fprintf(to, "usage: kvroutectl VERB [options] | help [VERB]\n"
		"       kvroutectl -s SOCKET [COMMAND]    a command of the runtime socket; try help\n\n");
	for (size_t i = 0; i < N_VERBS; i++)
		fprintf(to, "  %-10s %s\n", verbs[i].name, verbs[i].help);
	fprintf(to, "\nSee kvroutectl help VERB and kvroutectl(8).\n");
	return status;
}

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < N_VERBS; i++)
		if (strcmp(name, verbs[i].name) == 0)
			return &verbs[i];
	return NULL;
}

static int no_such_verb(const char *name)
{
	fprintf(stderr, "kvroutectl: there is no verb \"%s\"\n", name);
	return usage(stderr, CTL_USAGE);
}

/* "help", and "help VERB", which is "VERB -h". */
static int help(int argc, char **argv)
{
	char option[] = "-h", *words[] = { argv[0], option, NULL };
	const struct verb *v = argc == 2 ? find_verb(argv[1]) : NULL;

	if (argc == 1)
		return usage(stdout, 0);
	if (argc > 2)
		return usage(stderr, CTL_USAGE);
	words[0] = argv[1];
	return v != NULL ? v->run(2, words) : no_such_verb(argv[1]);
}

int main(int argc, char **argv)
{
	const struct verb *v;

	if (argc < 2)
		return usage(stderr, CTL_USAGE);
	if (strcmp(argv[1], "-s") == 0)
		return argc < 3 ? usage(stderr, CTL_USAGE) : ctl_socket(argv[2], argc - 3, argv + 3);
	if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)
		return usage(stdout, 0);
	if (strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "--version") == 0) {
		printf("kvroutectl %s\n", KVROUTE_VERSION);
		return 0;
	}
	if (strcmp(argv[1], "help") == 0)
		return help(argc - 1, argv + 1);
	v = find_verb(argv[1]);
	return v != NULL ? v->run(argc - 1, argv + 1) : no_such_verb(argv[1]);
}
