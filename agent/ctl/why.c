/* why.c - kvroutectl why: read the last decisions from the metrics address of an agent and explain
 * each. */
#include <ctype.h>
#include <getopt.h>
#include <stdlib.h>

#include "agent/ctl/ctl.h"
#include "agent/ctl/get.h"
#include "agent/ctl/outside.h"
#include "agent/ctl/socket.h"
#include "agent/ctl/why.h"

#define UID_MAX		255

struct why_args {
	const char *address, *socket;	/* <socket>: the runtime socket instead; NULL: none */
	unsigned long n;
	char uid[3 * UID_MAX + 1];	/* %XX each; "": none */
	char line[2 * UID_MAX + 16];	/* the same as a command */
	bool begun;		/* the first bytes of its answer came */
	bool refused;		/* the runtime socket answered with a sentence */
	bool json, compare;	/* print the agent's JSON; print compared rules instead of decisions */
	struct http_answer answer;
	struct why_reader reader;
	enum json_state state;
	size_t printed;
};

static int usage(FILE *to, int status)
{
	fprintf(to, "usage: kvroutectl why [options] [UID] [ADDRESS]\n"
		"\n"
		"Explain the decision on one request, or the last ones. UID is as in HAProxy's log.\n"
		"ADDRESS is metrics.listen of the agent, host:port or unix@path; default\n"
		CTL_ADDRESS ".\n"
		"\n"
		"  -n N         the last N; default 10\n"
		"  --uid UID    for a uid that looks like an address\n"
		"  -s SOCKET    ask runtime.path of the agent instead\n"
		"  --json       print the agent's JSON\n"
		"  --compare    instead of decisions: the rules of policy.compare, by time to first token\n");
	return status;
}

static int print_failure(const struct why_args *a, const char *why)
{
	fprintf(stderr, "kvroutectl: %s: %s\n", a->socket != NULL ? a->socket : a->address, why);
	return CTL_FAILED;
}

/* ---- request and answer ----------------------------------------------------------------- */

static void print_answer(void *arg, const struct why_decision *d)
{
	struct why_args *a = arg;

	a->printed++;
	why_say(stdout, d);
	if (a->uid[0] != '\0')
		why_say_all(stdout, d);
}

/* The body of an answer with another status is an error message. */
static void take_body(void *arg, const char *p, size_t n)
{
	struct why_args *a = arg;

	if (a->answer.status != 200)
		ctl_print_outside(stderr, p, n);
	else if (a->json || a->compare)
		ctl_print_outside(stdout, p, n);
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

/* An answer that is not JSON says what is wrong. */
static void take_command(void *arg, const char *p, size_t n)
{
	struct why_args *a = arg;

	if (!a->begun && n > 0) {
		a->begun = true;
		a->refused = p[0] != '{';
	}
	if (a->refused) {
		ctl_print_outside(stderr, p, n);
	} else if (a->json) {
		ctl_print_outside(stdout, p, n);
	} else if (a->state != JSON_BAD) {
		a->state = why_feed(&a->reader, p, n);
	}
}

static int say_none(const struct why_args *a)
{
	return print_failure(a,
	    a->uid[0] != '\0' ? "no decision of that uid is kept" : "there is no decision yet");
}

static int ask_socket(struct why_args *a)
{
	char line[sizeof(a->line) + 16];
	const char *why = "";

	if (a->uid[0] != '\0')
		snprintf(line, sizeof(line), "why %s json", a->line);
	else
		snprintf(line, sizeof(line), "show decisions %lu json", a->n);
	why_start(&a->reader, print_answer, a);
	if (ctl_command(a->socket, line, SPAN(""), take_command, a, &why) < 0)
		return print_failure(a, why);
	if (a->refused || a->json)
		return a->refused ? CTL_FAILED : 0;
	if (a->state != JSON_DONE)
		return print_failure(a, "its answer is not a list of decisions");
	return a->printed == 0 ? say_none(a) : 0;
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
	return a->printed == 0 ? say_none(a) : 0;
}

/* ---- the command line ------------------------------------------------------------------- */

/* A longer uid is cut to UID_MAX, because the agent accepts no more. */
static void set_uid(struct why_args *a, const char *uid)
{
	char *to = a->uid, *line = a->line;

	for (size_t i = 0; uid[i] != '\0' && i < UID_MAX; i++) {
		to += sprintf(to, "%%%02x", (unsigned char)uid[i]);
		if (!isalnum((unsigned char)uid[i]))
			*line++ = '\\';
		*line++ = uid[i];
	}
	*line = '\0';
}

/* Returns true for "unix@path", "host:port" and "[::1]:port". A uid of HAProxy's usual formats has
 * no colon, or several. */
static bool is_address(const char *s)
{
	const char *colon = strrchr(s, ':');

	if (strncmp(s, "unix@", 5) == 0)
		return true;
	if (colon == NULL || colon[1] == '\0' || strlen(colon + 1) > 5 ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return false;
	return s[0] == '[' || strchr(s, ':') == colon;
}

/* The words that are no options: a uid, an address, or both. */
static bool take_words(struct why_args *a, int n, char **word)
{
	bool addressed = false;

	for (int i = 0; i < n; i++) {
		if (is_address(word[i])) {
			if (addressed)
				return false;
			a->address = word[i];
			addressed = true;
		} else if (a->uid[0] == '\0') {
			set_uid(a, word[i]);
		} else {
			return false;
		}
	}
	return !(a->socket != NULL && (addressed || a->compare));
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

	while ((c = getopt_long(argc, argv, "n:s:h", longs, NULL)) != -1) {
		switch (c) {
		case 'n':
			if (!take_n(&a, optarg))
				return usage(stderr, CTL_USAGE);
			break;
		case 's': a.socket = optarg; break;
		case 'u': set_uid(&a, optarg); break;
		case 'j': a.json = true; break;
		case 'c': a.compare = true; break;
		case 'h': return usage(stdout, 0);
		default: return usage(stderr, CTL_USAGE);
		}
	}
	if (!take_words(&a, argc - optind, argv + optind))
		return usage(stderr, CTL_USAGE);
	return a.socket != NULL ? ask_socket(&a) : get_decisions(&a);
}
