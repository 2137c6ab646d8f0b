/* trial.c - kvroutectl trial: read /status.json of an agent in shadow mode. */
#include <stdio.h>

#include "agent/ctl/ctl.h"
#include "agent/ctl/get_status.h"
#include "agent/ctl/trial.h"

#define LIMIT_MS	10000

static int usage(FILE *to, int status)
{
	fprintf(to, "usage: kvroutectl trial [ADDRESS]\n"
		"\n"
		"Say what kvroute would have saved in pools with mode shadow. ADDRESS is metrics.listen of\n"
		"the agent, host:port or unix@path; default " CTL_ADDRESS ".\n");
	return status;
}

int ctl_trial(int argc, char **argv)
{
	const char *address = argc > 1 ? argv[1] : CTL_ADDRESS, *why = "";
	struct status s = { .failed = false };
	int rc = CTL_FAILED;

	if (argc == 2 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0))
		return usage(stdout, 0);
	if (argc > 2 || address[0] == '-')
		return usage(stderr, CTL_USAGE);
	if (ctl_get_status(address, LIMIT_MS, &s, &why) < 0)
		fprintf(stderr, "kvroutectl: %s: %s\n", address, why);
	else
		rc = trial_say(stdout, &s) > 0 ? 0 : CTL_FAILED;
	status_free(&s);
	return rc;
}
