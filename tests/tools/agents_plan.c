/* agents_plan.c - write sessions of coding agents as a plan: who asks when, and how long each
 * prompt is. Drawn by the generator of kvroutectl sim --workload agentic (agent/sim/agentic.h).
 *
 *   agents_plan --sessions 24 --seed 7 > plan
 *   chat_load --agents plan --url ...      sends these requests, with bodies of that length
 *   kvroutectl sim plan                    simulates them
 *
 * A line is a turn, and a request of a trace as agent/sim/trace.h describes it. Its last member
 * says what a replay needs (tests/tools/lib/agents.h):
 *
 *   "plan":{"session":3,"program":1,"agent":0,"turn":7,"after":6,"join":-1,"pause_ms":812.500,
 *           "keep":31200,"add":900,"kind":"next"}
 *
 * Times of the trace are about those of a replay: answers are not waited for there. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/sim/agentic.h"

#define ANSWER_S	0.02	/* to make a token, about */
#define IDS_MAX		(AGENTIC_LIMIT_MAX / 16 + 1)

static const char usage_text[] =
"usage: agents_plan [options]\n"
"  --sessions N        how many (24)\n"
"  --over SECONDS      in which they begin, by chance (20)\n"
"  --seed N            (1)\n"
"  --programs N        client programs, which have tools and system prompt of their own (3)\n"
"  --shared N          tokens of these (20480)\n"
"  --limit N           tokens of a prompt; a longer one is summarized (180000)\n"
"  --turns X           of a session, median (43)\n"
"  --task X            tokens of the first message, median (4000)\n"
"  --read X            tokens more of a turn while the agent explores (16000)\n"
"  --add X             tokens of a tool's result, median (300)\n"
"  --answer X          tokens of an answer, median (444)\n"
"  --summary X         tokens of a summary, median (4000)\n"
"  --pause SECONDS     of a quick tool, median (4)\n"
"  --subagents X       share of the sessions that start some (0.44)\n"
"  --edits X           share of the turns that change an earlier message (0.02)\n"
"  --block N           tokens of a block of \"hash_ids\" (512)\n";

struct args {
	struct agentic_opts o;
	uint32_t sessions, block;
	double over;
	uint64_t seed;
};

/* A prompt as blocks. */
struct prompt {
	uint32_t n, tokens;
	uint64_t ids[IDS_MAX];
};

struct maker {
	struct args a;
	struct rng rng;
	uint64_t next_block;
	struct agentic_session s;
	double end[AGENTIC_TURNS_MAX];
	struct prompt now, parent;
};

/* ---- the kind of a turn ---- */

/* Return the next turn of the agent of turn <i>, or AGENTIC_NONE. */
static uint32_t next_of(const struct agentic_session *s, uint32_t i)
{
	for (uint32_t k = i + 1; k < s->n; k++)
		if (s->turn[k].agent == s->turn[i].agent)
			return k;
	return AGENTIC_NONE;
}

static const char *kind_of(const struct maker *m, uint32_t i)
{
	const struct agentic_turn *q = &m->s.turn[i];
	uint32_t k = i, next = next_of(&m->s, i);

	while (k > 0 && m->s.turn[k - 1].agent != q->agent)
		k--;
	if (k == 0)
		return "first";
	if (q->keep == m->a.o.shared)
		return "compacted";
	if (next != AGENTIC_NONE && m->s.turn[next].keep == m->a.o.shared)
		return "summarize";
	return q->keep < m->s.turn[k - 1].keep + m->s.turn[k - 1].add ? "edit" : "next";
}

/* ---- a prompt ---- */

static void keep_blocks(struct maker *m, const struct agentic_turn *q)
{
	struct prompt *p = &m->now;
	uint32_t block = m->a.block, shared = m->a.o.shared;

	if (q->keep > shared) {
		p->n = q->keep / block < p->n ? q->keep / block : p->n;
	} else {
		uint64_t first = (uint64_t)m->s.program * (shared / block);

		for (p->n = 0; p->n < shared / block; p->n++)
			p->ids[p->n] = first + p->n;
	}
	p->tokens = q->keep;
}

static void add_blocks(struct maker *m, uint32_t tokens)
{
	struct prompt *p = &m->now;

	p->tokens += tokens;
	while (p->n * m->a.block < p->tokens)
		p->ids[p->n++] = m->next_block++;
}

static void switch_agent(struct maker *m, uint32_t from, uint32_t to)
{
	if (from == 0 && to != 0)
		m->parent = m->now;
	else if (from != 0 && to == 0)
		m->now = m->parent;
}

/* ---- lines ---- */

static int number_or_none(uint32_t v)
{
	return v == AGENTIC_NONE ? -1 : (int)v;
}

static void print_turn(const struct maker *m, uint32_t session, uint32_t i, double at)
{
	const struct agentic_turn *q = &m->s.turn[i];

	printf("{\"timestamp\":%.0f,\"input_length\":%u,\"output_length\":%u,\"block_size\":%u,"
	       "\"session\":\"%u.%u\",\"hash_ids\":[", at * 1000, q->keep + q->add, q->out, m->a.block,
	       session, q->agent);
	for (uint32_t k = 0; k < m->now.n; k++)
		printf("%s%llu", k ? "," : "", (unsigned long long)m->now.ids[k]);
	printf("],\"plan\":{\"session\":%u,\"program\":%u,\"agent\":%u,\"turn\":%u,\"after\":%d,"
	       "\"join\":%d,\"pause_ms\":%.3f,\"keep\":%u,\"add\":%u,\"kind\":\"%s\"}}\n", session,
	       m->s.program, q->agent, i, number_or_none(q->after), number_or_none(q->join),
	       q->pause_s * 1000, q->keep, q->add, kind_of(m, i));
}

static void make_session(struct maker *m, uint32_t session)
{
	double start = rng_unit(&m->rng) * m->a.over;
	uint32_t agent = 0;

	agentic_session(&m->s, &m->a.o, &m->rng);
	for (uint32_t i = 0; i < m->s.n; i++) {
		const struct agentic_turn *q = &m->s.turn[i];
		double at = start;

		if (q->after != AGENTIC_NONE)
			at = m->end[q->after] + q->pause_s;
		for (uint32_t k = 0; k < i; k++)
			if (m->s.turn[k].join == i && m->end[k] + q->pause_s > at)
				at = m->end[k] + q->pause_s;
		m->end[i] = at + q->out * ANSWER_S;
		switch_agent(m, agent, q->agent);
		agent = q->agent;
		keep_blocks(m, q);
		add_blocks(m, q->add);
		print_turn(m, session, i, at);
	}
}

/* ---- the command line ---- */

enum { OPT_SEED = 1000, OPT_HELP, OPT_NUMBER };

struct number {
	uint32_t *u;
	double *d;
	const char *name;
	double lo, hi;
};

#define N_NUMBERS	15

static int set_number(const struct number *n, const char *arg)
{
	char *end;
	double v = strtod(arg, &end);

	if (*arg == 0 || *end || !(v >= n->lo && v <= n->hi)) {
		fprintf(stderr, "agents_plan: --%s takes a number from %g to %g, not \"%s\".\n", n->name,
			n->lo, n->hi, arg);
		return -1;
	}
	if (n->u)
		*n->u = (uint32_t)v;
	else
		*n->d = v;
	return 0;
}

static int read_args(struct args *a, int argc, char **argv)
{
	struct agentic_opts *o = &a->o;
	const struct number nums[N_NUMBERS] = {
		{ &a->sessions, NULL, "sessions", 1, 100000 }, { NULL, &a->over, "over", 0, 86400 },
		{ &o->programs, NULL, "programs", 1, 1000 }, { &o->shared, NULL, "shared", 64, 500000 },
		{ &o->limit, NULL, "limit", 1000, AGENTIC_LIMIT_MAX }, { NULL, &o->turns, "turns", 1, 400 },
		{ NULL, &o->task, "task", 1, 1e6 }, { NULL, &o->read, "read", 0, 1e6 },
		{ NULL, &o->add, "add", 1, 1e6 }, { NULL, &o->out, "answer", 1, 16000 },
		{ NULL, &o->summary, "summary", 1, 16000 }, { NULL, &o->pause_s, "pause", 0, 3600 },
		{ NULL, &o->subagents, "subagents", 0, 1 }, { NULL, &o->edits, "edits", 0, 1 },
		{ &a->block, NULL, "block", 16, 65536 },
	};
	struct option longs[N_NUMBERS + 3] = { { "seed", 1, NULL, OPT_SEED },
					       { "help", 0, NULL, OPT_HELP } };
	int opt;

	for (int i = 0; i < N_NUMBERS; i++)
		longs[2 + i] = (struct option){ nums[i].name, 1, NULL, OPT_NUMBER + i };
	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (opt == OPT_SEED)
			a->seed = strtoull(optarg, NULL, 10);
		else if (opt == OPT_HELP)
			exit(fputs(usage_text, stdout) < 0);
		else if (opt < OPT_NUMBER || set_number(&nums[opt - OPT_NUMBER], optarg))
			return -1;
	}
	if (optind < argc || o->limit < 2 * o->shared) {
		fputs(optind < argc ? usage_text : "agents_plan: --limit is below twice --shared.\n", stderr);
		return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct maker *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return 1;
	m->a = (struct args){ .sessions = 24, .block = 512, .over = 20, .seed = 1 };
	agentic_defaults(&m->a.o);
	if (read_args(&m->a, argc, argv))
		return 2;
	rng_init(&m->rng, m->a.seed);
	m->next_block = (uint64_t)m->a.o.programs * (m->a.o.shared / m->a.block);
	for (uint32_t i = 0; i < m->a.sessions; i++)
		make_session(m, i);
	free(m);
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
