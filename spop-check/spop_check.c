/* spop_check.c - spop-check: the command line, and one case after the other.
 *
 * After every case a new connection must get as far as one did at the start: an agent that answers
 * a hostile frame well and then serves no connection has failed. */
#include <getopt.h>
#include <stdlib.h>
#include <time.h>

#include "spop-check/check_in.h"
#include "spop-check/spop_check.h"

#define FAILED		1	/* exit status: a case failed */
#define NOT_CHECKED	2	/* exit status: wrong usage or no connection */
#define TIMEOUT_MS	1000
#define NAME_MAX_BYTES	200	/* of the message, so that it fits 256 bytes with its frame */
#define REVIVE_TRIES	5
#define ONLY_MAX	64

struct args {
	const char *program;
	struct check_target target;
	struct check_message message;
	const char *only[ONLY_MAX];
	size_t n_only;
	bool json, strict, list;
};

static int usage(const char *program, FILE *to, int status)
{
	int indent = (int)strlen("usage:  spop-check ") + (int)strlen(program);

	fprintf(to,
		"usage: %s spop-check [--only NAME]... [--message NAME] [--arg K=V]...\n"
		"%*s[--timeout MS] [--strict] [--json] ADDR\n"
		"       %s spop-check --list [--only NAME]... [--json]\n"
		"\n"
		"  ADDR            host:port, [v6]:port, unix@/path or a path\n"
		"  --only NAME     one case, a group, or the start of a name and a '*'\n"
		"  --message NAME  the message that NOTIFYs carry; default \"spop-check\"\n"
		"  --arg K=V       an argument of it, a string; K:=N is an integer\n"
		"  --timeout MS    for each wait; default %d\n"
		"  --strict        warnings count as failures\n"
		"  --json          the same as JSON\n"
		"  --list          the cases, and what each expects\n"
		"\n"
		"Exit status: 0 all passed, 1 something failed, 2 wrong usage or no connection.\n",
		program, indent, "", program, TIMEOUT_MS);
	return status;
}

/* Add an argument from "K=V" or "K:=N". */
static bool add_arg(struct check_message *m, const char *text)
{
	const char *eq = strchr(text, '=');
	struct spop_data d = { .type = SPOP_T_STR };
	size_t n;
	char *end;

	if (eq == NULL || eq == text || m->n_args == CHECK_ARGS_MAX)
		return false;
	n = (size_t)(eq - text);
	if (eq[-1] == ':') {
		n--;
		d.type = SPOP_T_INT64;
		d.i = strtoll(eq + 1, &end, 10);
		if (end == eq + 1 || *end != '\0')
			return false;
	} else {
		d.s = (struct spop_str){ eq + 1, strlen(eq + 1) };
	}
	m->args[m->n_args].name = (struct spop_str){ text, n };
	m->args[m->n_args++].value = d;
	return true;
}

/* Returns false if no case has such a name. */
static bool add_only(struct args *a, const char *pattern)
{
	size_t i;

	for (i = 0; i < check_n_cases && !check_name_is(check_cases[i].name, pattern); i++)
		;
	if (i == check_n_cases)
		fprintf(stderr, "%s: no case is named \"%s\"; --list names them all\n", a->program, pattern);
	if (i == check_n_cases || a->n_only == ONLY_MAX)
		return false;
	a->only[a->n_only++] = pattern;
	return true;
}

static bool is_selected(const struct args *a, const struct check_case *c)
{
	size_t i;

	for (i = 0; i < a->n_only && !check_name_is(c->name, a->only[i]); i++)
		;
	return a->n_only == 0 || i < a->n_only;
}

static bool parse_option(struct args *a, int c)
{
	switch (c) {
	case 'o': return add_only(a, optarg);
	case 'm': a->message.name = optarg; return optarg[0] != '\0' && strlen(optarg) <= NAME_MAX_BYTES;
	case 'a': return add_arg(&a->message, optarg);
	case 't': a->target.timeout_ms = atoi(optarg); return a->target.timeout_ms > 0;
	case 's': a->strict = true; return true;
	case 'j': a->json = true; return true;
	case 'l': a->list = true; return true;
	default: return false;
	}
}

/* Returns 0 to continue; else the exit status, negative for success. */
static int parse_args(const char *program, int argc, char **argv, struct args *a)
{
	static const struct option longs[] = {
		{ "only", required_argument, NULL, 'o' },
		{ "message", required_argument, NULL, 'm' },
		{ "arg", required_argument, NULL, 'a' },
		{ "timeout", required_argument, NULL, 't' },
		{ "strict", no_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "list", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 }
	};
	int c;

	*a = (struct args){ .program = program, .message = { .name = "spop-check" },
			    .target = { .timeout_ms = TIMEOUT_MS } };
	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h') {
			usage(a->program, stdout, 0);
			return -1;
		}
		if (!parse_option(a, c))
			return usage(a->program, stderr, NOT_CHECKED);
	}
	a->target.message = &a->message;
	if (a->list)
		return optind < argc ? usage(a->program, stderr, NOT_CHECKED) : 0;
	if (optind + 1 != argc)
		return usage(a->program, stderr, NOT_CHECKED);
	a->target.address = argv[optind];
	return 0;
}

/* ---- running ---------------------------------------------------------------------------- */

static const char *skip_why(const struct check_case *c, const struct check_agent *a)
{
	if (c->needs & ~a->can & CHECK_FRAGMENTATION)
		return "the agent does not announce fragmentation";
	if (c->needs & ~a->can & CHECK_PIPELINING)
		return "the agent does not announce pipelining";
	return NULL;
}

static enum check_mark mark_of(const struct check_verdict *v, bool strict)
{
	switch (check_worst(v)) {
	case CHECK_NONE: return CHECK_PASS;
	case CHECK_SHOULD: return strict ? CHECK_FAIL : CHECK_WARN;
	default: return CHECK_FAIL;
	}
}

/* Wait for an agent that a case has ended, because a supervisor may restart it. */
static bool comes_back(const struct check_target *t, enum check_life before)
{
	const struct timespec wait = { t->timeout_ms / 1000, t->timeout_ms % 1000 * 1000000L };
	int i;

	for (i = 0; i < REVIVE_TRIES; i++) {
		if (check_alive(t, NULL) >= before)
			return true;
		nanosleep(&wait, NULL);
	}
	return false;
}

/* Run <c>. Returns NULL, or why no further case can run. */
static const char *run_case(const struct args *a, const struct check_case *c, enum check_life life,
			    struct check_report *r, struct check_result *x)
{
	bool alive;

	*x = (struct check_result){ .c = c, .why = skip_why(c, &r->agent) };
	if (x->why != NULL) {
		x->mark = CHECK_SKIP;
		check_print_result(r, x);
		return NULL;
	}
	check_run(&a->target, c, x);
	alive = check_alive(&a->target, NULL) >= life;
	if (!alive)
		check_find(&x->verdict, CHECK_MUST, "afterwards a new connection is not served");
	x->mark = mark_of(&x->verdict, a->strict);
	check_print_result(r, x);
	if (alive || comes_back(&a->target, life))
		return NULL;
	return "the agent no longer serves connections; the other cases were not run";
}

static int run_all(const struct args *a)
{
	static struct check_result x;
	struct check_report r = {
		.to = stdout, .json = a->json, .strict = a->strict, .target = &a->target
	};
	const char *stopped = NULL;
	enum check_life life;
	char why[160];
	size_t i;

	if (check_reach(&a->target, why, sizeof(why)) < 0) {
		fprintf(stderr, "%s: %s: %s\n", a->program, a->target.address, why);
		return NOT_CHECKED;
	}
	life = check_alive(&a->target, &r.agent);
	check_print_begin(&r);
	for (i = 0; i < check_n_cases && stopped == NULL; i++)
		if (is_selected(a, &check_cases[i]))
			stopped = run_case(a, &check_cases[i], life, &r, &x);
	check_print_end(&r, stopped);
	return r.tally.failed > 0 || stopped != NULL ? FAILED : 0;
}

static int list_cases(const struct args *a)
{
	size_t i, n = 0;

	for (i = 0; i < check_n_cases; i++)
		if (is_selected(a, &check_cases[i]))
			check_print_case(stdout, a->json, n++, &check_cases[i]);
	if (a->json)
		printf("\n]\n");
	else
		printf("%zu cases\n", n);
	return 0;
}

int spop_check(const char *program, int argc, char **argv)
{
	struct args a;
	int status = parse_args(program, argc, argv, &a);

	if (status != 0)
		return status < 0 ? 0 : status;
	return a.list ? list_cases(&a) : run_all(&a);
}
