/* why.c - kvroutectl why: read the last decisions from the metrics address of an agent and explain
 * each. */
#include <getopt.h>
#include <stdlib.h>

#include "agent/ctl/ctl.h"
#include "agent/ctl/get.h"
#include "agent/ctl/why.h"

#define UID_MAX		255

struct why_args {
	const char *address;
	unsigned long n;
	char uid[3 * UID_MAX + 1];	/* %XX each; "": none */
	bool json, compare;	/* print the agent's JSON; print compared rules instead of decisions */
	struct http_answer answer;
	struct why_reader reader;
	enum json_state state;
	size_t printed;
};

static int usage(FILE *to, int status)
{
	fprintf(to, "usage: kvroutectl why [options] [ADDRESS]\n"
		"\n"
		"Explain the last routing decisions. ADDRESS is metrics.listen of the agent,\n"
		"host:port or unix@path; default " CTL_ADDRESS ".\n"
		"\n"
		"  -n N         the last N; default 10\n"
		"  --uid UID    only the decision with this uid, as in HAProxy's log\n"
		"  --json       print the agent's JSON\n"
		"  --compare    instead of decisions: the rules of policy.compare, by time to first token\n");
	return status;
}

static int print_failure(const struct why_args *a, const char *why)
{
	fprintf(stderr, "kvroutectl: %s: %s\n", a->address, why);
	return CTL_FAILED;
}

/* ---- request and answer ----------------------------------------------------------------- */

static void print_answer(void *arg, const struct why_decision *d)
{
	struct why_args *a = arg;

	a->printed++;
	why_say(stdout, d);
}

/* The body of an answer with another status is an error message. */
static void take_body(void *arg, const char *p, size_t n)
{
	struct why_args *a = arg;

	if (a->answer.status != 200)
		fwrite(p, 1, n, stderr);
	else if (a->json || a->compare)
		fwrite(p, 1, n, stdout);
	else
		a->state = why_feed(&a->reader, p, n);
}

static void question_of(const struct why_args *a, char *path, size_t cap)
{
	if (a->compare)
		snprintf(path, cap, "/compare");
	else if (a->uid[0] != '\0')
		snprintf(path, cap, "/decisions?uid=%s", a->uid);
	else
		snprintf(path, cap, "/decisions?n=%lu", a->n);
}

static int get_decisions(struct why_args *a)
{
	char path[3 * UID_MAX + 80];
	const char *why = "";

	question_of(a, path, sizeof(path));
	http_answer_init(&a->answer, take_body, a);
	why_start(&a->reader, print_answer, a);
	if (ctl_get(a->address, path, &a->answer, &why) < 0)
		return print_failure(a, why);
	if (a->answer.status != 200)
		return CTL_FAILED;
	if (a->json || a->compare)
		return 0;
	if (a->state != JSON_DONE)
		return print_failure(a, "its answer is not a list of decisions");
	if (a->printed == 0)
		return print_failure(a,
			a->uid[0] != '\0' ? "no decision of that uid is kept" : "there is no decision yet");
	return 0;
}

/* ---- the command line ------------------------------------------------------------------- */

/* A longer uid is cut to UID_MAX, because the agent accepts no more. */
static void set_uid(struct why_args *a, const char *uid)
{
	char *to = a->uid;

	for (size_t i = 0; uid[i] != '\0' && i < UID_MAX; i++)
		to += sprintf(to, "%%%02x", (unsigned char)uid[i]);
}

static bool take_n(struct why_args *a, const char *s)
{
	char *end;

	a->n = strtoul(s, &end, 10);
	return *s >= '1' && *s <= '9' && *end == '\0' && a->n <= 1000000;
}

int ctl_why(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "uid", required_argument, NULL, 'u' }, { "json", no_argument, NULL, 'j' },
		{ "compare", no_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	struct why_args a = { .address = CTL_ADDRESS, .n = 10, .state = JSON_MORE };
	int c;

	while ((c = getopt_long(argc, argv, "n:h", longs, NULL)) != -1) {
		switch (c) {
		case 'n':
			if (!take_n(&a, optarg))
				return usage(stderr, CTL_USAGE);
			break;
		case 'u': set_uid(&a, optarg); break;
		case 'j': a.json = true; break;
		case 'c': a.compare = true; break;
		case 'h': return usage(stdout, 0);
		default: return usage(stderr, CTL_USAGE);
		}
	}
	if (argc - optind > 1)
		return usage(stderr, CTL_USAGE);
	if (optind < argc)
		a.address = argv[optind];
	return get_decisions(&a);
}
