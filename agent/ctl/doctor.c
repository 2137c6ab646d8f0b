/* doctor.c - "kvroutectl doctor": hand HAProxy's files to the doctor and print what it finds. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/ctl/ctl.h"
#include "agent/ctl/load.h"
#include "agent/ctl/read.h"
#include "agent/doctor/doctor.h"

#define FILES_MAX	64
#define POOLS_MAX	4096

struct opened {
	struct buf text[FILES_MAX];
	char path[FILES_MAX][512];
	unsigned n;
};

static int doctor_usage(FILE *to, int status)
{
	fprintf(to, "usage: kvroutectl doctor -c HAPROXY.CFG [-c FILE]... [-f KVROUTE.YAML] "
	    "[--haproxy-version X.Y]\n\n"
	    "Find what is wrong in how a configuration of HAProxy attaches kvroute. It changes nothing.\n"
	    "Exits with 0 if all is well, 1 if something is wrong, 2 if a file of -c or -f cannot be "
	    "read.\n");
	return status;
}

static int open_file(void *arg, const char *path, struct span *text, const char **why)
{
	struct opened *o = arg;
	struct buf *b = &o->text[o->n];

	for (unsigned i = 0; i < o->n; i++) {
		if (strcmp(o->path[i], path) == 0) {
			*text = span_of(o->text[i].p, o->text[i].n);
			return 0;
		}
	}
	if (o->n == FILES_MAX || strlen(path) >= sizeof(o->path[0])) {
		*why = "too many files";
		return -1;
	}
	if (ctl_read_file(path, DOCTOR_FILE_MAX, b) < 0) {
		*why = strerror(errno);
		buf_free(b);
		return -1;
	}
	memcpy(o->path[o->n++], path, strlen(path) + 1);
	*text = span_of(b->p, b->n);
	return 0;
}

static void take_addresses(const char *to[DOCTOR_ADDRS], char from[][ADDR_MAX])
{
	for (unsigned i = 0; i < DOCTOR_ADDRS; i++)
		to[i] = i < LISTEN_MAX && from[i][0] != '\0' ? from[i] : NULL;
}

static void take_agent(struct doctor_agent *a, struct conf *c, const char **pools)
{
	a->given = true;
	take_addresses(a->spop, c->loop.spop);
	take_addresses(a->feed, c->loop.log_tcp);
	take_addresses(a->udp, c->loop.log_udp);
	take_addresses(a->metrics, c->loop.metrics);
	for (size_t i = 0, n = 0; i < c->route.n_pools && n < POOLS_MAX; i++) {
		if (strcmp(c->route.pools[i].name, "*") != 0)
			pools[n++] = c->route.pools[i].name;
	}
	a->pools = pools;
	a->stats_feed = c->loop.stats[0][0] != '\0';
	a->max_frame_size = c->loop.spop_conn.max_frame_size;
}

static int print_findings(struct doctor *d)
{
	struct buf out = { 0 };

	doctor_print(d, &out);
	if (out.n > 0)
		fwrite(out.p, 1, out.n, stdout);
	else if (doctor_status(d) == 0)
		puts("no fault found");
	buf_free(&out);
	return doctor_status(d);
}

static int examine(const struct doctor_opts *o, struct opened *opened, char *const *paths,
		   unsigned n)
{
	struct doctor *d = doctor_new(o);
	const char *why;
	struct span text;
	int status = 2;

	for (unsigned i = 0; d != NULL && i < n; i++) {
		if (open_file(opened, paths[i], &text, &why) < 0) {
			fprintf(stderr, "kvroutectl doctor: %s: %s\n", paths[i], why);
			doctor_free(d);
			return 2;
		}
		doctor_file(d, paths[i], text);
	}
	if (d == NULL || doctor_check(d) < 0)
		fprintf(stderr, "kvroutectl doctor: there is no memory\n");
	else
		status = print_findings(d);
	doctor_free(d);
	return status;
}

static int read_version(const char *s)
{
	int major, minor, patch = 0;

	return sscanf(s, "%2d.%3d.%3d", &major, &minor, &patch) >= 2 && major > 0 && minor >= 0 &&
	    patch >= 0 ? DOCTOR_VERSION(major, minor, patch) : -1;
}

int ctl_doctor(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "haproxy-version", required_argument, NULL, 'v' }, { "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct opened opened = { .n = 0 };
	struct doctor_opts o;
	struct conf conf;
	const char *pools[POOLS_MAX + 1] = { NULL };
	char *paths[FILES_MAX];
	const char *yaml = NULL;
	unsigned n = 0;
	int c, status;

	doctor_defaults(&o);
	while ((c = getopt_long(argc, argv, "c:f:h", longs, NULL)) != -1) {
		if (c == 'c' && n < FILES_MAX)
			paths[n++] = optarg;
		else if (c == 'f')
			yaml = optarg;
		else if (c == 'h')
			return doctor_usage(stdout, 0);
		else if (c != 'v' || (o.version = read_version(optarg)) < 0)
			return doctor_usage(stderr, CTL_USAGE);
	}
	if (n == 0 || optind < argc)
		return doctor_usage(stderr, CTL_USAGE);
	if (ctl_load_conf(&conf, yaml) < 0)
		return 2;
	if (yaml != NULL)
		take_agent(&o.agent, &conf, pools);
	o.env = (const char *const *)environ;
	o.open = open_file;
	o.arg = &opened;
	status = examine(&o, &opened, paths, n);
	for (unsigned i = 0; i < opened.n; i++)
		buf_free(&opened.text[i]);
	conf_free(&conf);
	return status;
}
