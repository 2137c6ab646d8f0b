/* doctor_agents.c - the agents' own configurations: the files of -f, or the one that is installed.
 *
 * Without -f the installed file tells more than the agent's defaults do: addresses that were
 * changed, pools, a token, the stats feed. Its directory may be closed to this user; then the
 * defaults are assumed, as on a host without an agent, but this is said, because a finding may be
 * wrong for that reason. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/ctl/doctor.h"
#include "agent/ctl/get.h"
#include "agent/ctl/load.h"

#define VARIABLE	"KVROUTE_YAML"	/* names another place; empty: none */

/* Where the package and "make install" put it. */
static const char *const places[] = {
	DOCTOR_INSTALLED, "/usr/local/etc/kvroute/kvroute.yaml",
};

/* ---- one agent ----------------------------------------------------------------------------- */

/* Add the addresses of one more agent. The first of a list is that of the first agent. */
static void take_addresses(const char *to[DOCTOR_ADDRS], char from[][ADDR_MAX])
{
	unsigned n = 0;

	while (n < DOCTOR_ADDRS && to[n] != NULL)
		n++;
	for (unsigned i = 0; n < DOCTOR_ADDRS && i < LISTEN_MAX && from[i][0] != '\0'; i++)
		to[n++] = from[i];
}

static bool has_pool(const char **pools, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(pools[i], name) == 0)
			return true;
	return false;
}

/* Tell if the pool <name> only computes prompts for another one, so that its backend needs no lines
 * of the agent. */
static bool is_prefill(const struct conf *c, const char *name)
{
	for (size_t i = 0; i < c->route.n_pools; i++)
		if (strcmp(c->route.pools[i].prefill, name) == 0)
			return true;
	return false;
}

/* Take the configuration of one more agent: what holds for any of them, and the narrowest bound. */
static void take_agent(struct doctor_agent *a, struct conf *c, const char **pools)
{
	size_t n = 0;

	if (!a->given)
		*a = (struct doctor_agent){ .given = true, .stats_feed = true, .max_frame_size = UINT64_MAX };
	take_addresses(a->spop, c->loop.spop);
	take_addresses(a->feed, c->loop.log_tcp);
	take_addresses(a->udp, c->loop.log_udp);
	take_addresses(a->metrics, c->loop.metrics);
	while (pools[n] != NULL)
		n++;
	for (size_t i = 0; i < c->route.n_pools && n < DOCTOR_POOLS; i++) {
		const char *name = c->route.pools[i].name;

		if (strcmp(name, "*") != 0 && !is_prefill(c, name) && !has_pool(pools, n, name))
			pools[n++] = name;
	}
	a->pools = pools;
	a->feed_token |= c->loop.feed_token_file[0] != '\0';
	a->stats_feed &= c->loop.stats[0][0] != '\0';
	if (c->loop.spop_conn.max_frame_size < a->max_frame_size)
		a->max_frame_size = c->loop.spop_conn.max_frame_size;
}

/* ---- the installed one --------------------------------------------------------------------- */

/* Tell if a file is at <path>, or may be there and this user cannot look. */
static bool may_be_at(const char *path)
{
	return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* Return the installed file, and say so; NULL: there is none, or it cannot be read. */
static const char *find_installed(void)
{
	const char *path = getenv(VARIABLE);

	for (size_t i = 0; path == NULL && i < sizeof(places) / sizeof(places[0]); i++)
		path = may_be_at(places[i]) ? places[i] : NULL;
	if (path == NULL || *path == '\0')
		return NULL;
	if (access(path, R_OK) == 0) {
		fprintf(stderr, "kvroutectl doctor: note: the agent's configuration is %s; -f names another "
		    "one\n", path);
		return path;
	}
	fprintf(stderr, "kvroutectl doctor: note: %s: %s: the agent's defaults are assumed; use sudo, or "
	    "name a file that you can read with -f\n", path, strerror(errno));
	return NULL;
}

/* ---- all of them --------------------------------------------------------------------------- */

/* The addresses to ask: those of --metrics, and the first one of each agent of -f. With --metrics
 * the agents may be on other hosts, so the installed one is not asked. */
static void choose_metrics(struct doctor_agents *g, const struct doctor_args *a, bool installed)
{
	unsigned n = 0;

	for (unsigned i = 0; i < a->n_metrics; i++)
		g->metrics[n++] = a->metrics[i];
	for (unsigned i = 0; i < g->n && !(installed && n > 0); i++)
		if (g->conf[i].loop.metrics[0][0] != '\0')
			g->metrics[n++] = g->conf[i].loop.metrics[0];
	if (n == 0)
		g->metrics[n++] = CTL_ADDRESS;
	g->metrics[n] = NULL;
}

int doctor_load_agents(
    struct doctor_agents *g, const struct doctor_args *a, struct doctor_agent *to)
{
	const char *installed = a->n_yaml > 0 || a->no_yaml || a->remove ? NULL : find_installed();
	unsigned n = installed != NULL ? 1 : a->n_yaml;

	*g = (struct doctor_agents){ .conf = NULL };
	if (n > 0 && (g->conf = calloc(n, sizeof(*g->conf))) == NULL) {
		fprintf(stderr, "kvroutectl doctor: there is no memory\n");
		return -1;
	}
	for (; g->n < n; g->n++) {
		if (ctl_load_conf(&g->conf[g->n], installed != NULL ? installed : a->yaml[g->n]) < 0) {
			if (installed != NULL)
				fprintf(stderr, "kvroutectl doctor: correct it, or name another file with -f\n");
			doctor_free_agents(g);
			return -1;
		}
		take_agent(to, &g->conf[g->n], g->pools);
	}
	choose_metrics(g, a, installed != NULL);
	return 0;
}

void doctor_free_agents(struct doctor_agents *g)
{
	while (g->n > 0)
		conf_free(&g->conf[--g->n]);
	free(g->conf);
	g->conf = NULL;
}
