/* sim_args.c - the command line of kvroutectl sim. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

#include "agent/ctl/ctl.h"
#include "agent/ctl/sim.h"

static int usage(FILE *to, int status)
{
	fprintf(to,
		"usage: kvroutectl sim TRACE | --workload NAME [options]\n"
		"\n"
		"  --workload NAME    generated requests instead of a trace: kvroutectl(8)\n"
		"  --preset NAME      a rule, or roundrobin, leastconn; may be given several times;\n"
		"  --preset NAME:KEY=VALUE,...   with keys of \"policy\" set for it\n"
		"  -f FILE            the agent's configuration\n"
		"  --engines N        default: the number of servers in a recording; else 8\n"
		"  --profile NAME     profile of the engines: 8b-h100 (default), 8b-h100-bigkv, 70b-tp4, stub\n"
		"  --prefill N        the last N engines compute prompts for the others; default 0\n"
		"  --transfer MS:MS   to bring a computed prompt, and each 1000 tokens of it; default 20:10\n"
		"  --kv-tokens N      cache size of an engine, instead of the profile's\n"
		"  --slow I:F         engine I, from 0, is F times as fast; may be given several times\n"
		"  --load F           share of time the engines prefill under round robin; default 0.7\n"
		"  --speed F          arrivals F times as fast as recorded, instead of --load\n"
		"  --facts WHAT       reports that the router gets: first (default), end, none\n"
		"  --engine-load WHAT  load that engines tell the router: none (default), answers, polls\n"
		"  --events all|N     all engines, or the first N, publish KV cache events; bodies of token ids\n"
		"  --events-delay MS  from the end of a step to the arrival of its events; default -5\n"
		"  --events-lost F    share of the batches of events that are lost; default 0\n"
		"  --capacity N       policy.capacity; an 8b-h100 has 500000\n"
		"  --body chat|ids    bodies of text (default) or of token ids\n"
		"  --body-limit N     bytes of a body that HAProxy can show; default: all\n"
		"  --no-session       requests name no session\n"
		"  --limit N          take the first N requests; of a workload: make N, default 5000\n"
		"  --first N          judge by the first N requests; default: all but the first tenth\n"
		"  --block N          tokens of a block; default: from the trace's .meta.json, or 512\n"
		"  --keep-stamps      do not spread requests of one timestamp up to the next\n"
		"  --seed N           random seed of workloads and ties; default 1\n"
		"  --seeds N          run with N seeds and print the spread of the figures; default 1\n"
		"  --agents N         N agents, up to 16, get the requests in turn; default: one\n"
		"  --agents-random    by chance instead\n"
		"  --one-haproxy      one HAProxy for all agents, instead of one for each\n"
		"  --agent-restart F  at the share F of the time agent 0 dies; a fresh one starts 2 s later\n"
		"  --no-share         they do not share what they know\n"
		"  --share-delay MS   from the write of a batch of entries to its arrival; default 5\n"
		"  --share-loss F     share of the batches that do not arrive; default 0\n"
		"  --share-cut F-F    between these shares of the time two halves of them hear nothing of\n"
		"                     each other\n"
		"  --share-settle S   seconds until all must know the same after the run; default 130\n"
		"  --servers          print what each engine was sent\n"
		"  --json             one JSON object per line\n");
	return status;
}

static bool parse_float(const char *s, double min, double max, double *v)
{
	char *end;
	double x = strtod(s, &end);

	if (end == s || *end != '\0' || !(x >= min && x <= max))
		return false;
	*v = x;
	return true;
}

static bool parse_count(const char *s, uint64_t min, uint64_t max, uint64_t *v)
{
	char *end;
	unsigned long long x;

	errno = 0;
	x = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || *end != '\0' || errno != 0 || x < min || x > max)
		return false;
	*v = x;
	return true;
}

static bool parse_slow(const char *s, struct sim_opts *f)
{
	const char *colon = strchr(s, ':');
	char number[16];
	uint64_t i;

	if (colon == NULL || (size_t)(colon - s) >= sizeof(number))
		return false;
	memcpy(number, s, (size_t)(colon - s));
	number[colon - s] = '\0';
	return parse_count(number, 0, SIM_ENGINES_MAX - 1, &i) &&
	       parse_float(colon + 1, 0.01, 100, &f->speed[i]);
}

static bool parse_facts(const char *s, enum router_facts *f)
{
	if (strcmp(s, "first") == 0)
		*f = ROUTER_FIRST;
	else if (strcmp(s, "end") == 0)
		*f = ROUTER_END;
	else if (strcmp(s, "none") == 0)
		*f = ROUTER_NONE;
	else
		return false;
	return true;
}

static bool parse_loads(const char *s, enum router_loads *l)
{
	if (strcmp(s, "none") == 0)
		*l = ROUTER_LOADS_NONE;
	else if (strcmp(s, "answers") == 0)
		*l = ROUTER_LOADS_ANSWERS;
	else if (strcmp(s, "polls") == 0)
		*l = ROUTER_LOADS_POLLS;
	else
		return false;
	return true;
}

static bool parse_profile(const char *s, struct engine_profile *p)
{
	const struct engine_profile *found = engine_profile_of(span_str(s));
	uint32_t kv = p->kv_tokens;

	if (found == NULL)
		return false;
	*p = *found;
	if (kv != engine_profile_at(0)->kv_tokens)
		p->kv_tokens = kv;
	return true;
}

static bool parse_publishers(const char *s, struct sim_args *a)
{
	uint64_t n;

	a->all_publish = strcmp(s, "all") == 0;
	if (a->all_publish)
		return true;
	if (!parse_count(s, 0, SIM_ENGINES_MAX, &n))
		return false;
	a->engines.kv.publishers = (unsigned)n;
	return true;
}

static bool parse_delay(const char *s, double least_ms, double *seconds)
{
	double ms;

	if (!parse_float(s, least_ms, 60000, &ms))
		return false;
	*seconds = ms / 1000;
	return true;
}

/* Parse "0.4-0.6". */
static bool parse_cut(const char *s, struct agents_opts *o)
{
	const char *dash = strchr(s, '-');
	char from[16];

	if (dash == NULL || (size_t)(dash - s) >= sizeof(from))
		return false;
	memcpy(from, s, (size_t)(dash - s));
	from[dash - s] = '\0';
	return parse_float(from, 0, 1, &o->cut_from) &&
	       parse_float(dash + 1, o->cut_from, 1, &o->cut_to);
}

/* Parse "20:10". */
static bool parse_transfer(const char *s, struct sim_opts *f)
{
	const char *colon = strchr(s, ':');
	char once[16];

	if (colon == NULL || (size_t)(colon - s) >= sizeof(once))
		return false;
	memcpy(once, s, (size_t)(colon - s));
	once[colon - s] = '\0';
	return parse_float(once, 0, 60000, &f->transfer_ms) &&
	       parse_float(colon + 1, 0, 60000, &f->transfer_1k_ms);
}

static bool apply_preset(struct sim_args *a, const char *s)
{
	if (a->n_presets == SIM_PRESETS_MAX || strlen(s) > SIM_NAME_MAX)
		return false;
	a->presets[a->n_presets++] = s;
	return true;
}

static bool parse_option(struct sim_args *a, int c, const char *s)
{
	uint64_t n = 0;
	bool ok = true;

	switch (c) {
	case 'f': a->config = s; break;
	case 'w': a->workload = s; break;
	case 'p': return apply_preset(a, s);
	case 'P': return parse_profile(s, &a->engines.profile);
	case 'S': return parse_slow(s, &a->engines);
	case 'F': return parse_facts(s, &a->facts);
	case 'A': return parse_loads(s, &a->loads);
	case 'E': return parse_publishers(s, a);
	case 'D': return parse_delay(s, -10000, &a->engines.kv.delay_s);
	case 'O': return parse_float(s, 0, 1, &a->engines.kv.lost);
	case 'l': return parse_float(s, 0.01, 10, &a->load);
	case 's': a->own_haste = true; return parse_float(s, 1e-3, 1e3, &a->engines.haste);
	case 'n':
		ok = parse_count(s, 1, SIM_ENGINES_MAX, &n);
		a->engines.n = (unsigned)n;
		a->own_engines = true;
		break;
	case 'u':
		ok = parse_count(s, 0, SIM_ENGINES_MAX - 1, &n);
		a->engines.prefills = (unsigned)n;
		break;
	case 't': return parse_transfer(s, &a->engines);
	case 'k':
		ok = parse_count(s, 1024, 1u << 28, &n);
		a->engines.profile.kv_tokens = (uint32_t)n;
		break;
	case 'c': ok = parse_count(s, 0, (uint64_t)1 << 40, &a->capacity); a->own_capacity = true; break;
	case 'B': ok = parse_count(s, 1, (uint64_t)1 << 40, &n); a->body_limit = n; break;
	case 'L': ok = parse_count(s, 1, SIM_REQUESTS_MAX, &n); a->limit = n; break;
	case '1': ok = parse_count(s, 1, SIM_REQUESTS_MAX, &n); a->first = n; break;
	case 'b': ok = parse_count(s, 1, SIM_BLOCK_MAX, &n); a->block = (uint32_t)n; break;
	case 'r': return parse_count(s, 1, UINT32_MAX, &a->seed);
	case 'T':
		a->own_text = true;
		a->text = strcmp(s, "chat") == 0 ? SIM_TEXT_CHAT : SIM_TEXT_IDS;
		return a->text == SIM_TEXT_CHAT || strcmp(s, "ids") == 0;
	case 'z': a->no_session = true; break;
	case 'K': a->keep_stamps = true; break;
	case 'N': ok = parse_count(s, 1, SIM_SEEDS_MAX, &n); a->seeds = (unsigned)n; break;
	case 'V': a->servers = true; break;
	case 'G':
		ok = parse_count(s, 1, AGENTS_MAX, &n);
		a->agents.n = (unsigned)n;
		break;
	case 'R': a->agents.spread = AGENTS_BY_CHANCE; break;
	case 'H': a->agents.one_haproxy = true; break;
	case 'Q': return parse_float(s, 0.001, 1, &a->agents.restart_at);
	case 'X': a->agents.share = false; break;
	case 'd': return parse_delay(s, 0, &a->agents.delay_s);
	case 'o': return parse_float(s, 0, 1, &a->agents.loss);
	case 'C': return parse_cut(s, &a->agents);
	case 'W': return parse_float(s, 0, 1000, &a->settle_s);
	case 'j': a->json = true; break;
	}
	return ok;
}

static const struct option longs[] = {
	{ "workload", required_argument, NULL, 'w' },
	{ "preset", required_argument, NULL, 'p' },
	{ "engines", required_argument, NULL, 'n' },
	{ "prefill", required_argument, NULL, 'u' },
	{ "transfer", required_argument, NULL, 't' },
	{ "profile", required_argument, NULL, 'P' },
	{ "kv-tokens", required_argument, NULL, 'k' },
	{ "slow", required_argument, NULL, 'S' },
	{ "load", required_argument, NULL, 'l' },
	{ "speed", required_argument, NULL, 's' },
	{ "facts", required_argument, NULL, 'F' },
	{ "engine-load", required_argument, NULL, 'A' },
	{ "events", required_argument, NULL, 'E' },
	{ "events-delay", required_argument, NULL, 'D' },
	{ "events-lost", required_argument, NULL, 'O' },
	{ "capacity", required_argument, NULL, 'c' },
	{ "body", required_argument, NULL, 'T' },
	{ "body-limit", required_argument, NULL, 'B' },
	{ "limit", required_argument, NULL, 'L' },
	{ "no-session", no_argument, NULL, 'z' },
	{ "first", required_argument, NULL, '1' },
	{ "block", required_argument, NULL, 'b' },
	{ "keep-stamps", no_argument, NULL, 'K' },
	{ "seed", required_argument, NULL, 'r' },
	{ "seeds", required_argument, NULL, 'N' },
	{ "servers", no_argument, NULL, 'V' },
	{ "agents", required_argument, NULL, 'G' },
	{ "agents-random", no_argument, NULL, 'R' },
	{ "one-haproxy", no_argument, NULL, 'H' },
	{ "agent-restart", required_argument, NULL, 'Q' },
	{ "no-share", no_argument, NULL, 'X' },
	{ "share-delay", required_argument, NULL, 'd' },
	{ "share-loss", required_argument, NULL, 'o' },
	{ "share-cut", required_argument, NULL, 'C' },
	{ "share-settle", required_argument, NULL, 'W' },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 }
};

int sim_parse(int argc, char **argv, struct sim_args *a)
{
	int c, i = -1;

	*a = (struct sim_args){ .load = 0.7, .seed = 1, .seeds = 1, .text = SIM_TEXT_CHAT,
				.settle_s = 130, .agents = { .share = true, .delay_s = 0.005 } };
	sim_defaults(&a->engines);
	a->engines.n = 8;
	while ((c = getopt_long(argc, argv, "f:h", longs, &i)) != -1) {
		if (c == 'h') {
			usage(stdout, 0);
			return -1;
		}
		if (c == '?')
			return usage(stderr, CTL_USAGE);
		if (!parse_option(a, c, optarg)) {
			fprintf(stderr, "kvroutectl: --%s: \"%s\" is not one of its values\n",
				i >= 0 ? longs[i].name : "?", optarg);
			return usage(stderr, CTL_USAGE);
		}
		i = -1;
	}
	if (optind < argc)
		a->trace = argv[optind++];
	if (!a->own_text && (a->all_publish || a->engines.kv.publishers > 0))
		a->text = SIM_TEXT_IDS;
	a->agents.share &= a->agents.n > 1;
	if (a->engines.prefills > 0 && (a->engines.prefills >= a->engines.n || a->agents.n > 0)) {
		fprintf(stderr, "kvroutectl: --prefill: fewer than --engines, and not with --agents\n");
		return usage(stderr, CTL_USAGE);
	}
	if (optind < argc || (a->trace == NULL) == (a->workload == NULL))
		return usage(stderr, CTL_USAGE);
	return 0;
}
