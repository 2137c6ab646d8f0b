/* doctor.h - parts of "kvroutectl doctor". */
#ifndef KVROUTE_CTL_DOCTOR_H
#define KVROUTE_CTL_DOCTOR_H

#include "agent/conf/conf.h"
#include "agent/doctor/attach.h"

#define DOCTOR_FILES	256	/* of HAProxy's configuration, and files that it names */
#define DOCTOR_HEADERS	16
#define DOCTOR_AGENTS	8	/* of -f, and of --metrics */
#define DOCTOR_NAMES	1024	/* of --pool, and of --frontend */

struct doctor_args {
	char *paths[DOCTOR_FILES];		/* -c, directories replaced by their files; from malloc() */
	unsigned n;
	bool unreadable;			/* one of -c, which was told */
	const char *yaml[DOCTOR_AGENTS + 1], *metrics[DOCTOR_AGENTS + 1];	/* -f, --metrics; NULL ends */
	unsigned n_yaml, n_metrics;
	bool no_yaml;				/* -f "": not even the installed one */
	int version;				/* --haproxy-version; 0: none */
	const char *haproxy;			/* --haproxy; NULL: of PATH; "": none */
	bool write, remove, update;
	bool heap;				/* --heap: examine HAProxy's buffers, too */
	const char *pools[DOCTOR_NAMES + 1], *frontends[DOCTOR_NAMES + 1];	/* NULL ends */
	unsigned n_pools, n_frontends;
	const char *spoe;			/* --spoe; NULL: beside the first file */
	const char *live;			/* --live: HAProxy's stats socket; NULL: not asked */
	const char *path, *url, *model;		/* of the request; NULL: a default */
	const char *headers[DOCTOR_HEADERS];
	unsigned wait_s;			/* --wait: for log line and end of the request */
	unsigned n_headers;
};

/* Add the file <path>, or the files *.cfg of the directory <path> in HAProxy's order. Returns 0, or
 * -1 with a sentence in <why>. */
int doctor_add_path(struct doctor_args *a, const char *path, const char **why);

/* Names of files in the diff: under the working folder if all of -c are, else absolute. */
struct doctor_names {
	char root[4096], spoe[4096 + 64];
	char why[4096 + 256];
};

/* Choose them; may replace a->paths by absolute ones. Returns 0, or -1 with a sentence in
 * <n>->why. */
int doctor_choose_names(struct doctor_args *a, struct doctor_names *n);

/* Find two names of one file in a->paths. Returns 0, or -1 with a sentence that names both. */
int doctor_check_twice(const struct doctor_args *a, char *why, size_t room);

/* The agents' own configurations. */
#define DOCTOR_POOLS		4096
#define DOCTOR_INSTALLED	"/etc/kvroute/kvroute.yaml"
struct doctor_agents {
	struct conf *conf;
	unsigned n;
	const char *pools[DOCTOR_POOLS + 1];	/* named in them; NULL ends */
	const char *metrics[2 * DOCTOR_AGENTS + 1];	/* addresses to ask; NULL ends */
};

/* Load the files of -f, or without any the installed one, and tell <to> what holds for the agents.
 * Prints to standard error which installed file it takes, or why it does not. Returns 0, or -1
 * after printing errors; then there is nothing to free. */
int doctor_load_agents(
    struct doctor_agents *g, const struct doctor_args *a, struct doctor_agent *to);
void doctor_free_agents(struct doctor_agents *g);

/* What HAProxy's binary says; zeros if it is not asked. The caller frees <env>. */
#define DOCTOR_PROBES	64
#define DOCTOR_VALUE	(64 + 1024)
struct doctor_haproxy {
	int version;				/* DOCTOR_VERSION(); 0: unknown */
	char features[2048];			/* "+THREAD -ZLIB ..." */
	const char **env;			/* NAME=VALUE; NULL: no more than this environment */
	char names[DOCTOR_PROBES][64], values[DOCTOR_PROBES][DOCTOR_VALUE];
	size_t n_names;
};

/* Ask the binary of --haproxy, or that in PATH, each time for at most 10 s. Returns 0, also if
 * there is none; or -1 with a sentence in <why> if --haproxy names none. */
int doctor_ask_haproxy(struct doctor_haproxy *h, const struct doctor_args *a, const char **why);

/* Send a request through a running HAProxy and print each station that it reached. <metrics>: the
 * agents' addresses; NULL ends. Returns the exit status. */
int doctor_live(struct doctor *d, const struct doctor_args *a, const char *const *metrics);

/* Print the diff to standard output and what to know to standard error. Returns the exit status. */
int doctor_write(struct doctor *d, const struct doctor_args *a, const struct doctor_names *n);

#endif
