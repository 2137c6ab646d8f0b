/* workload.c - generate requests: a prompt is blocks that others share, then blocks of its own.
 * Lengths and pauses are drawn around a mean, with few long ones. The numbers are those of
 * published traces, rounded: chats of some hundred tokens a turn, agents with a few thousand tokens
 * of tools. */
#include <math.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/base/rng.h"
#include "agent/sim/agentic.h"
#include "agent/sim/workload.h"

#define BLOCK		64u		/* tokens */
#define PROMPT_MAX	65536u		/* tokens; longer prompts are cut */
#define AGENTIC_MAX	196608u		/* the same, of agentic */
#define AGENTIC_WORK_S	1.0		/* seconds of an engine for one of its requests, about */
#define IDS_MAX		(AGENTIC_MAX / BLOCK)
#define ANSWER_S	0.02		/* to read one token of an answer */

/* Conversations that share <kinds> system prompts; each turn comes a pause after the answer to the
 * one before. They show the effect of a popular prefix on a fleet. */
struct crowd {
	uint32_t kinds;
	bool unequal;		/* some are requested often, most seldom */
	bool loop;		/* a turn waits for the answer; otherwise for the usual time of an answer */
	bool constant;		/* all pauses are equal */
};

struct maker {
	struct sim_trace *t;
	struct rng rng;
	uint32_t next_block, next_session;
	size_t want;		/* requests */
	double span;		/* seconds in which they arrive, about */
	bool no_memory;
	struct crowd crowd;
	struct agentic_opts agentic;
	double last_pause;	/* of the last added turn, before its answer is waited for */
	uint32_t ids[IDS_MAX];	/* of the prompt being made */
	uint32_t n_ids, n_tokens, max_tokens;
};

/* ---- chance ---- */

static double chance(struct maker *m)
{
	return rng_unit(&m->rng);
}

/* Draw a quarter of <mean> at least, exponential above. */
static double draw_around(struct maker *m, double mean)
{
	return mean * (0.25 - 0.75 * log(1 - chance(m)));
}

/* Draw 0 .. n - 1; the k-th has about 1 / (k + 1) of the chance of the first. */
static uint32_t draw_popular(struct maker *m, uint32_t n)
{
	return (uint32_t)(pow(n + 1.0, chance(m)) - 1) % n;
}

/* ---- a prompt ---- */

/* Make blocks that several prompts begin with. Returns the first; they follow each other. */
static uint32_t new_blocks(struct maker *m, uint32_t tokens)
{
	uint32_t first = m->next_block;

	m->next_block += tokens / BLOCK;
	return first;
}

static void begin(struct maker *m, uint32_t first, uint32_t tokens)
{
	m->n_ids = m->n_tokens = 0;
	for (; m->n_tokens + BLOCK <= tokens && m->n_ids < m->max_tokens / BLOCK; m->n_tokens += BLOCK)
		m->ids[m->n_ids++] = first++;
}

/* Add <tokens> of its own. The content of a part block is fixed when it begins, so that a prompt
 * that grows stays a prefix of the longer one. */
static void add_own_tokens(struct maker *m, uint32_t tokens)
{
	m->n_tokens = tokens < m->max_tokens - m->n_tokens ? m->n_tokens + tokens : m->max_tokens;
	while (m->n_ids * BLOCK < m->n_tokens)
		m->ids[m->n_ids++] = m->next_block++;
}

static bool enough(const struct maker *m)
{
	return m->no_memory || m->t->n >= m->want;
}

static void ask(struct maker *m, double at, uint32_t n_out, uint32_t session)
{
	if (!enough(m) &&
	    trace_add(m->t, at, m->n_tokens, n_out > 0 ? n_out : 1, m->ids, m->n_ids, session) < 0)
		m->no_memory = true;
}

/* ---- what is made of them ---- */

/* Conversations: each turn comes when the answer has been read and the pause is over. */
struct talk {
	uint32_t kinds, shared;		/* system prompts, tokens of each */
	double open, add, answer;	/* tokens: of the first turn, of later ones, of answers */
	double turns, pause_s;
	double work_s;			/* of a request under round robin, about: for the rate */
};

/* Add one conversation. As many are under way at the first request as at the last. */
static void talk_once(struct maker *m, const struct talk *k, uint32_t system)
{
	double lead = k->turns * (k->answer * ANSWER_S + k->pause_s),
	       at = chance(m) * (m->span + lead) - lead;
	uint32_t session = m->next_session++, turns = (uint32_t)draw_around(m, k->turns) + 1, out;

	begin(m, system, k->shared);
	add_own_tokens(m, (uint32_t)draw_around(m, k->open) + 1);
	while (turns-- > 0 && !enough(m) && m->n_tokens < m->max_tokens && at < m->span) {
		out = (uint32_t)draw_around(m, k->answer) + 1;
		if (at >= 0)
			ask(m, at, out, session);
		at += out * ANSWER_S + draw_around(m, k->pause_s);
		add_own_tokens(m, out + (uint32_t)draw_around(m, k->add));
	}
}

static void talks(struct maker *m, const struct talk *k)
{
	uint32_t system = new_blocks(m, k->kinds * k->shared);

	m->span *= k->work_s;
	while (!enough(m))
		talk_once(m, k, system + draw_popular(m, k->kinds) * (k->shared / BLOCK));
}

static void make_chat(struct maker *m)
{
	talks(m,
	    &(struct talk){ .kinds = 4,
		.shared = 1024,
		.open = 3000,
		.add = 500,
		.answer = 200,
		.turns = 6,
		.pause_s = 8,
		.work_s = 0.16 });
}

static void make_long_chat(struct maker *m)
{
	talks(m,
	    &(struct talk){ .kinds = 4,
		.shared = 1024,
		.open = 9000,
		.add = 800,
		.answer = 200,
		.turns = 6,
		.pause_s = 8,
		.work_s = 0.35 });
}

static void make_agents(struct maker *m)
{
	talks(m,
	    &(struct talk){ .kinds = 3,
		.shared = 8192,
		.open = 2000,
		.add = 1500,
		.answer = 80,
		.turns = 15,
		.pause_s = 2,
		.work_s = 0.3 });
}

/* ---- sessions of agents: agentic.h ---- */

/* The prompt of an agent that waits for its subagents. */
struct parent {
	uint32_t agent, n_ids, n_tokens;
	uint32_t ids[IDS_MAX];
};

struct agentic {
	struct agentic_session plan;
	struct parent parent;
	uint32_t number[AGENTIC_TURNS_MAX];	/* of each turn's request */
	double end[AGENTIC_TURNS_MAX];		/* of its answer, about: to sort requests */
};

/* Let the maker's prompt be that of <agent>. There are two at a time: a subagent never returns. */
static void agentic_switch(struct maker *m, struct parent *p, uint32_t from, uint32_t agent)
{
	if (from == 0 && agent != 0) {
		p->n_ids = m->n_ids;
		p->n_tokens = m->n_tokens;
		memcpy(p->ids, m->ids, p->n_ids * sizeof(*p->ids));
	} else if (from != 0 && agent == 0) {
		m->n_ids = p->n_ids;
		m->n_tokens = p->n_tokens;
		memcpy(m->ids, p->ids, p->n_ids * sizeof(*p->ids));
	}
}

static void agentic_ask(
    struct maker *m, struct agentic *a, uint32_t i, uint32_t system, double start)
{
	const struct agentic_turn *q = &a->plan.turn[i];
	double at = q->after != AGENTIC_NONE ? a->end[q->after] + q->pause_s : start;

	if (q->keep <= m->agentic.shared) {
		begin(m, system, q->keep);
	} else {
		m->n_ids = q->keep / BLOCK < m->n_ids ? q->keep / BLOCK : m->n_ids;
		m->n_tokens = q->keep;
	}
	add_own_tokens(m, q->add);
	a->number[i] = (uint32_t)m->t->n;
	a->end[i] = at + q->out * ANSWER_S;
	ask(m, at, q->out, m->next_session + q->agent);
	if (q->after != AGENTIC_NONE && !m->no_memory)
		trace_after(m->t, a->number[q->after], q->pause_s);
}

/* Let what waits for all subagents wait for the other ones, too. */
static void agentic_join(struct maker *m, const struct agentic *a, uint32_t i)
{
	for (uint32_t k = 0; k < i && !m->no_memory; k++) {
		if (a->plan.turn[k].join == i)
			trace_join(m->t, a->number[k]);
	}
}

static void agentic_once(struct maker *m, struct agentic *a, uint32_t system)
{
	double start = chance(m) * m->span;
	uint32_t agent = 0;

	agentic_session(&a->plan, &m->agentic, &m->rng);
	system += a->plan.program * (m->agentic.shared / BLOCK);
	for (uint32_t i = 0; i < a->plan.n && !enough(m); i++) {
		agentic_switch(m, &a->parent, agent, a->plan.turn[i].agent);
		agent = a->plan.turn[i].agent;
		agentic_ask(m, a, i, system, start);
		agentic_join(m, a, i);
	}
	m->next_session += a->plan.agents + 1;
}

static void make_agentic(struct maker *m)
{
	const struct agentic_opts *o = &m->agentic;
	struct agentic *a = mem_alloc(sizeof(*a));
	uint32_t system = new_blocks(m, o->programs * (o->shared / BLOCK * BLOCK));

	m->no_memory = a == NULL;
	m->max_tokens = AGENTIC_MAX;
	m->span *= AGENTIC_WORK_S;
	while (!enough(m))
		agentic_once(m, a, system);
	mem_free(a);
}

/* Add questions about one of <n> texts. */
static void questions(struct maker *m, uint32_t n, double length, double question, double work_s)
{
	uint32_t *first = mem_calloc(n, sizeof(*first)), *tokens = mem_calloc(n, sizeof(*tokens)), k;

	m->no_memory = first == NULL || tokens == NULL;
	for (k = 0; !m->no_memory && k < n; k++) {
		tokens[k] = (uint32_t)(n > 1 ? draw_around(m, length) : length) / BLOCK * BLOCK;
		first[k] = new_blocks(m, tokens[k]);
	}
	m->span *= work_s;
	while (!enough(m)) {
		k = draw_popular(m, n);
		begin(m, first[k], tokens[k]);
		add_own_tokens(m, (uint32_t)draw_around(m, question) + 1);
		ask(m, chance(m) * m->span, (uint32_t)draw_around(m, 200), m->next_session++);
	}
	mem_free(first);
	mem_free(tokens);
}

static void make_system(struct maker *m)
{
	questions(m, 1, 4096, 300, 0.05);
}

static void make_prefixes(struct maker *m)
{
	questions(m, 3000, 3000, 150, 0.12);
}

#define BURST_MAX	16
#define BURST_S		0.05

static void make_siblings(struct maker *m)
{
	m->span *= 0.15;
	while (!enough(m)) {
		double at = chance(m) * m->span;
		uint32_t n = 2 + rng_below(&m->rng, BURST_MAX - 1),
			 tokens = (uint32_t)draw_around(m, 6000) / BLOCK * BLOCK;
		uint32_t first = new_blocks(m, tokens), session = m->next_session++;

		while (n-- > 0) {
			begin(m, first, tokens);
			add_own_tokens(m, (uint32_t)draw_around(m, 100) + 1);
			ask(m, at + chance(m) * BURST_S, (uint32_t)draw_around(m, 200), session);
		}
	}
}

#define CROWD_KINDS_MAX	100000u
#define CROWD_SHARED	4992u
#define CROWD_ADD	750u
#define CROWD_OUT	64u
#define CROWD_TURNS	6u
#define CROWD_PAUSE_S	2.0
#define CROWD_ANSWER_S	0.8	/* of an open loop */

static void crowd_talk(struct maker *m, const struct crowd *k, uint32_t system)
{
	double at = chance(m) * m->span, pause;
	uint32_t session = m->next_session++;

	begin(m, system, CROWD_SHARED);
	for (uint32_t turn = 0; turn < CROWD_TURNS && !enough(m); turn++) {
		add_own_tokens(m, CROWD_ADD);
		ask(m, at, CROWD_OUT, session);
		pause = k->constant ? CROWD_PAUSE_S : -CROWD_PAUSE_S * log(1 - chance(m));
		if (turn > 0 && k->loop && !m->no_memory)
			trace_after(m->t, (uint32_t)m->t->n - 2, m->last_pause);
		m->last_pause = pause;
		at += pause + CROWD_ANSWER_S;
		add_own_tokens(m, CROWD_OUT);
	}
}

static void make_crowd(struct maker *m)
{
	const struct crowd *k = &m->crowd;
	uint32_t system = new_blocks(m, k->kinds * CROWD_SHARED), which;

	m->span *= 0.15;
	while (!enough(m)) {
		which = k->unequal ? draw_popular(m, k->kinds) : rng_below(&m->rng, k->kinds);
		crowd_talk(m, k, system + which * (CROWD_SHARED / BLOCK));
	}
}

/* ---- the table ---- */

#define AT_FIRST_OF	8	/* cold: an eighth */
#define LIMIT_BYTES	16000

enum scene { PLAIN, COLD, JOIN, LEAVE, SLOW, FAIL, LIMIT };

static const struct {
	const char *name;
	void (*make)(struct maker *m);
	enum scene scene;
} workloads[] = {
	{ "chat", make_chat, PLAIN },
	{ "agents", make_agents, PLAIN },
	{ "agentic", make_agentic, PLAIN },
	{ "system", make_system, PLAIN },
	{ "prefixes", make_prefixes, PLAIN },
	{ "siblings", make_siblings, PLAIN },
	{ "cold", make_chat, COLD },
	{ "join", make_chat, JOIN },
	{ "leave", make_chat, LEAVE },
	{ "slow", make_chat, SLOW },
	{ "fail", make_chat, FAIL },
	{ "limit", make_long_chat, LIMIT },
	{ "crowd-16-loop", make_crowd, PLAIN },
};

#define N_WORKLOADS	(sizeof(workloads) / sizeof(workloads[0]))

const char *workload_at(size_t i)
{
	return i < N_WORKLOADS ? workloads[i].name : NULL;
}

static void add_event(struct workload *w, double at, enum sim_change change, unsigned engine)
{
	w->events[w->n_events++] = (struct sim_event){ at, change, engine };
}

static void set_scene(struct workload *w, enum scene s, size_t n, unsigned engines)
{
	switch (s) {
	case PLAIN: break;
	case COLD: w->first = n / AT_FIRST_OF; break;
	case JOIN: add_event(w, 0.4, SIM_UP, engines - 1); break;
	case LEAVE: add_event(w, 0.4, SIM_DOWN, 0); break;
	case SLOW: w->first_speed = 0.5; break;
	case FAIL:
		add_event(w, 0.4, SIM_FAIL, 0);
		add_event(w, 0.6, SIM_HEAL, 0);
		break;
	case LIMIT: w->body_limit = LIMIT_BYTES; break;
	}
}

/* Parse "crowd-KINDS", then "-zipf", then "-loop" or "-beat". Returns false if it is no such
 * name. */
static bool crowd_of(struct span name, struct crowd *k)
{
	char text[32];
	char *end;

	*k = (struct crowd){ .kinds = 0 };
	if (name.n >= sizeof(text) || name.n < 7 || memcmp(name.p, "crowd-", 6) != 0)
		return false;
	memcpy(text, name.p, name.n);
	text[name.n] = '\0';
	k->kinds = (uint32_t)strtoul(text + 6, &end, 10);
	if (text[6] < '1' || text[6] > '9' || k->kinds > CROWD_KINDS_MAX)
		return false;
	if (strncmp(end, "-zipf", 5) == 0) {
		k->unequal = true;
		end += 5;
	}
	k->constant = strcmp(end, "-beat") == 0;
	k->loop = k->constant || strcmp(end, "-loop") == 0;
	return *end == '\0' || k->loop;
}

static int make(struct workload *w, size_t i, const struct crowd *crowd, size_t n, unsigned engines,
    uint64_t seed)
{
	struct maker *m = mem_alloc(sizeof(*m));
	bool bad;

	if (m == NULL)
		return -1;
	*w = (struct workload){ .first_speed = 1 };
	trace_init(&w->trace, BLOCK);
	m->t = &w->trace;
	m->want = n;
	m->max_tokens = PROMPT_MAX;
	m->crowd = *crowd;
	agentic_defaults(&m->agentic);
	m->span = 2.0 * (double)n / engines;	/* seconds, times those of a request's work */
	rng_init(&m->rng, seed);
	workloads[i].make(m);
	bad = m->no_memory;
	mem_free(m);
	trace_finish(&w->trace);
	set_scene(w, workloads[i].scene, n, engines);
	if (bad)
		workload_free(w);
	return bad ? -1 : 0;
}

int workload_make(struct workload *w, struct span name, size_t n, unsigned engines, uint64_t seed,
		  struct err *e)
{
	struct crowd crowd;
	bool is_crowd = crowd_of(name, &crowd);

	for (size_t i = 0; i < N_WORKLOADS; i++) {
		if (is_crowd ? workloads[i].make != make_crowd : !span_eq(name, span_str(workloads[i].name)))
			continue;
		return make(w, i, &crowd, n, engines, seed) < 0 ? err_set(e, "not enough memory") : 0;
	}
	return err_set(e, "there is no workload \"" SPAN_FMT "\"", SPAN_ARG(name));
}

void workload_free(struct workload *w)
{
	trace_free(&w->trace);
}
