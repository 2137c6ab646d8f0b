/* load_opts.c - the command line of the load generator. Numbers are a table of where they go and
 * what they may be; the rest is a switch. */
#include "tests/tools/lib/load.h"

#include <getopt.h>
#include <stdlib.h>

static const char usage_text[] =
"usage: chat_load [options]\n"
"  --url ADDR            host:port, http://host:port or unix@/path (127.0.0.1:8000)\n"
"  --api NAME            chat, completions, messages or responses (chat)\n"
"  --conversations N     how many (20)\n"
"  --turns N             of each (5)\n"
"  --live N              conversations under way at once (all)\n"
"  --concurrency N       requests at once (8)\n"
"  --rate X              new conversations a second (as fast as they are taken)\n"
"  --think SECONDS       between the turns of a conversation, on average (0)\n"
"  --think-constant      each pause is that long; else they are drawn from an exponential\n"
"  --system-prompts N    different ones, shared at random (4)\n"
"  --system-bytes N      of each; 0 for none (4000)\n"
"  --user-bytes N        of a user's turn (400)\n"
"  --max-tokens N        of an answer (32)\n"
"  --model NAME          (stub)\n"
"  --tenants N           send a tenant header, t0 to t(N-1) (none)\n"
"  --tenant-header NAME  (x-tenant)\n"
"  --session NAME        send the conversation's id in this header (none)\n"
"  --header 'K: V'       send this too; may be repeated\n"
"  --agents PLAN         replay a plan of agents_plan instead: sessions with tools and subagents\n"
"  --names WHICH         of its sessions: headers, body or none (headers)\n"
"  --dry FILE            write its requests, with words as answers, and send nothing\n"
"  --key-order WHICH     messages-first, as OpenAI's library sends it, or model-first\n"
"  --chunked             send bodies in chunks\n"
"  --whole               ask for answers in one piece\n"
"  --seconds X           start no more requests after this (no limit)\n"
"  --timeout X           of one request (60)\n"
"  --seed N              of everything that is said (1)\n"
"  --progress            a line on stderr that is rewritten, or one every 5 s\n"
"  --label TEXT          in front of that line\n"
"  --out FILE            key=value lines for scripts, - for standard output\n"
"  --json                the same as one JSON object\n"
"  --trace FILE          one line for each request\n"
"With --rate the load is open: a request's times count from when it was meant to be sent.\n"
"Without, they count from when it was sent.\n"
"Exit status: 0 all requests went well, 1 some did not, 2 wrong use.\n";

struct numbers {
	uint32_t *u;
	double *d;
	const char *name;
	double lo, hi;
};

enum {
	OPT_URL = 1000,
	OPT_API,
	OPT_MODEL,
	OPT_TENANT_HEADER,
	OPT_SESSION,
	OPT_HEADER,
	OPT_KEY_ORDER,
	OPT_CHUNKED,
	OPT_WHOLE,
	OPT_PROGRESS,
	OPT_LABEL,
	OPT_OUT,
	OPT_JSON,
	OPT_TRACE,
	OPT_SEED,
	OPT_THINK_CONSTANT,
	OPT_AGENTS,
	OPT_NAMES,
	OPT_DRY,
	OPT_HELP,
	OPT_NUMBER
};

static int wrong(const char *what, const char *arg)
{
	fprintf(stderr, "chat_load: %s cannot be \"%s\".\n", what, arg);
	return -1;
}

static int set_number(const struct numbers *n, const char *arg)
{
	char *end;
	double v = strtod(arg, &end);

	if (*arg == 0 || *end || !(v >= n->lo && v <= n->hi))
		return wrong(n->name, arg);
	if (n->u)
		*n->u = (uint32_t)v;
	else
		*n->d = v;
	return 0;
}

static int set_api(struct load_opts *o, const char *arg)
{
	static const struct {
		const char *name;
		enum api api;
	} apis[] = { { "chat", API_CHAT }, { "completions", API_COMPLETIONS },
		     { "messages", API_MESSAGES }, { "responses", API_RESPONSES } };

	for (size_t i = 0; i < sizeof(apis) / sizeof(*apis); i++)
		if (strcmp(arg, apis[i].name) == 0) {
			o->api = apis[i].api;
			return 0;
		}
	return wrong("--api", arg);
}

static int add_header(struct load_opts *o, const char *arg)
{
	if (o->n_headers == LOAD_HEADERS_MAX || strchr(arg, ':') == NULL || strpbrk(arg, "\r\n"))
		return wrong("--header", arg);
	o->headers[o->n_headers++] = arg;
	return 0;
}

static int set_names(struct load_opts *o, const char *arg)
{
	static const char *const names[] = { "headers", "body", "none" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(arg, names[i]) == 0) {
			o->names = (enum agents_names)i;
			return 0;
		}
	return wrong("--names", arg);
}

static int set_option(struct load_opts *o, int opt, const char *arg)
{
	switch (opt) {
	case OPT_URL: o->url = strncmp(arg, "http://", 7) ? arg : arg + 7; return 0;
	case OPT_API: return set_api(o, arg);
	case OPT_MODEL: o->model = arg; return 0;
	case OPT_TENANT_HEADER: o->tenant_header = arg; return 0;
	case OPT_SESSION: o->session_header = arg; return 0;
	case OPT_HEADER: return add_header(o, arg);
	case OPT_KEY_ORDER:
		o->model_first = strcmp(arg, "model-first") == 0;
		return o->model_first || !strcmp(arg, "messages-first") ? 0 : wrong("--key-order", arg);
	case OPT_CHUNKED: o->chunked = true; return 0;
	case OPT_WHOLE: o->whole = true; return 0;
	case OPT_PROGRESS: o->progress = true; return 0;
	case OPT_LABEL: o->label = arg; return 0;
	case OPT_OUT: o->out = arg; return 0;
	case OPT_JSON: o->json = true; return 0;
	case OPT_TRACE: o->trace = arg; return 0;
	case OPT_THINK_CONSTANT: o->think_constant = true; return 0;
	case OPT_AGENTS: o->agents = arg; return 0;
	case OPT_NAMES: return set_names(o, arg);
	case OPT_DRY: o->dry = arg; return 0;
	case OPT_SEED: o->seed = strtoull(arg, NULL, 10); return 0;
	case OPT_HELP: fputs(usage_text, stdout); exit(0);
	default: fputs(usage_text, stderr); return -1;
	}
}

#define N_NUMBERS	13
#define N_WORDS		20

static void defaults(struct load_opts *o)
{
	*o = (struct load_opts){
		.url = "127.0.0.1:8000", .api = API_CHAT, .model = "stub", .tenant_header = "x-tenant",
		.label = "", .conversations = 20, .turns = 5, .live = UINT32_MAX, .concurrency = 8,
		.systems = 4, .system_bytes = 4000, .user_bytes = 400, .max_tokens = 32, .seed = 1,
		.timeout = 60,
	};
}

int load_opts_read(struct load_opts *o, int argc, char **argv)
{
	const struct numbers nums[N_NUMBERS] = {
		{ &o->conversations, NULL, "conversations", 1, 1000000 },
		{ &o->turns, NULL, "turns", 1, 10000 }, { &o->live, NULL, "live", 1, 1000000 },
		{ &o->concurrency, NULL, "concurrency", 1, 20000 },
		{ &o->systems, NULL, "system-prompts", 1, 1000000 },
		{ &o->system_bytes, NULL, "system-bytes", 0, 16 << 20 },
		{ &o->user_bytes, NULL, "user-bytes", 1, 16 << 20 },
		{ &o->max_tokens, NULL, "max-tokens", 1, 65536 },
		{ &o->tenants, NULL, "tenants", 0, 100000 }, { NULL, &o->rate, "rate", 0, 100000 },
		{ NULL, &o->think, "think", 0, 3600 }, { NULL, &o->seconds, "seconds", 0, 86400 },
		{ NULL, &o->timeout, "timeout", 0.001, 3600 },
	};
	struct option longs[N_WORDS + N_NUMBERS + 1] = {
		{ "url", 1, NULL, OPT_URL }, { "api", 1, NULL, OPT_API },
		{ "model", 1, NULL, OPT_MODEL },
		{ "tenant-header", 1, NULL, OPT_TENANT_HEADER }, { "session", 1, NULL, OPT_SESSION },
		{ "header", 1, NULL, OPT_HEADER }, { "key-order", 1, NULL, OPT_KEY_ORDER },
		{ "chunked", 0, NULL, OPT_CHUNKED }, { "whole", 0, NULL, OPT_WHOLE },
		{ "progress", 0, NULL, OPT_PROGRESS }, { "label", 1, NULL, OPT_LABEL },
		{ "out", 1, NULL, OPT_OUT }, { "json", 0, NULL, OPT_JSON },
		{ "trace", 1, NULL, OPT_TRACE }, { "think-constant", 0, NULL, OPT_THINK_CONSTANT },
		{ "seed", 1, NULL, OPT_SEED }, { "help", 0, NULL, OPT_HELP },
		{ "agents", 1, NULL, OPT_AGENTS }, { "names", 1, NULL, OPT_NAMES },
		{ "dry", 1, NULL, OPT_DRY },
	};
	int opt, rc;

	defaults(o);
	for (int i = 0; i < N_NUMBERS; i++)
		longs[N_WORDS + i] = (struct option){ nums[i].name, 1, NULL, OPT_NUMBER + i };
	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		rc = opt >= OPT_NUMBER ? set_number(&nums[opt - OPT_NUMBER], optarg)
				       : set_option(o, opt, optarg);
		if (rc)
			return -1;
	}
	o->host = strncmp(o->url, "unix@", 5) ? o->url : "localhost";
	if (o->agents && o->api == API_COMPLETIONS)
		return wrong("--api of agents", "completions");
	if (o->dry && !o->agents)
		return wrong("--dry without --agents", o->dry);
	return optind < argc ? wrong("an argument", argv[optind]) : 0;
}
