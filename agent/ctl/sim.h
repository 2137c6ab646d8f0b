/* sim.h - kvroutectl sim: its command line, and the rows of its report. */
#ifndef KVROUTE_CTL_SIM_H
#define KVROUTE_CTL_SIM_H

#include <stdio.h>

#include "agent/conf/conf.h"
#include "agent/sim/agents.h"
#include "agent/sim/workload.h"

#define SIM_PRESETS_MAX	64
#define SIM_NAME_MAX	63
#define SIM_SEEDS_MAX	100u

struct sim_args {
	const char *trace;		/* NULL: a workload */
	const char *workload;
	const char *config;
	const char *presets[SIM_PRESETS_MAX];
	size_t n_presets;
	uint32_t block;
	size_t limit, first;		/* requests to read; requests to judge, 0: all but the first tenth */
	uint64_t seed;
	unsigned seeds;			/* repeats, with <seed> and the ones after it */
	double load;
	bool json, servers, keep_stamps, own_capacity, own_text, no_session;
	uint64_t capacity;
	enum router_facts facts;
	enum router_loads loads;
	enum sim_text text;
	size_t body_limit;
	struct sim_opts engines;
	bool own_haste, own_engines;
	bool all_publish;		/* --events all */
	struct agents_opts agents;	/* .n 0: the router alone */
	double settle_s;
	struct sim_recorded recorded;	/* figures that the trace records about itself */
};

/* Returns 0 to continue; else the exit status, negative for success. */
int sim_parse(int argc, char **argv, struct sim_args *a);

/* Print "what: why" to standard error. Returns -1. */
int sim_fail(const char *what, const char *why);

/* Load the requests, and the engines and bodies of a workload into <a>. Returns 0, or -1 after
 * printing an error. */
int sim_load(struct sim_args *a, struct workload *w);

struct sim_row {
	char name[SIM_NAME_MAX + 1];
	struct sim_result r;
	double haste;			/* of its arrivals */
	double ratio;			/* its mean / the least mean of the oracles with the same seed; 0: unknown */
	struct route_stats s;
	struct router_heard heard;
	unsigned inferred;		/* servers whose cache size was inferred, */
	double capacity_tokens;		/* and the mean of these sizes */		/* all 0: not the core */
	bool core;
	struct agents_result agents;
	bool is_agents;
};

/* Print <n> rules; each has a->seeds adjacent rows. */
void sim_print(
    FILE *to, const struct sim_args *a, const char *what, const struct sim_row *rows, size_t n);

/* sim_agents.c: print what several agents add to a row: lines of a table, members of an object. */
void sim_print_agents(FILE *to, const struct sim_args *a, const struct sim_row *r);
void sim_json_agents(FILE *to, const struct sim_args *a, const struct sim_row *r);

#endif
