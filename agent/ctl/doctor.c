/* doctor.c - "kvroutectl doctor": hand HAProxy's files to the doctor and print what it finds. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/ctl/ctl.h"
#include "agent/ctl/doctor.h"
#include "agent/ctl/read.h"

#define FILES_MAX	DOCTOR_FILES

struct opened {
	struct buf text[FILES_MAX];
	char path[FILES_MAX][512];
	unsigned n;
};

static int doctor_usage(FILE *to, int status)
{
	fprintf(to, "usage: kvroutectl doctor -c HAPROXY.CFG [-c FILE]... [-f KVROUTE.YAML] "
	    "[--haproxy FILE] [--haproxy-version X.Y]\n"
	    "       kvroutectl doctor -c HAPROXY.CFG... [-f KVROUTE.YAML] --write [--pool NAME]... "
	    "[--frontend NAME]... [--spoe FILE]\n"
	    "       kvroutectl doctor -c HAPROXY.CFG... [-f KVROUTE.YAML] --update [--pool NAME]... "
	    "[--frontend NAME]...\n"
	    "       kvroutectl doctor -c HAPROXY.CFG... --remove\n"
	    "       kvroutectl doctor -c HAPROXY.CFG... [-f KVROUTE.YAML]... --live STATS_SOCKET "
	    "[--metrics ADDRESS]...\n"
	    "           [--url ADDRESS] [--path PATH] [--model NAME] [--header LINE]... "
	    "[--wait SECONDS] [--heap]\n\n"
	    "Find what is wrong in how a configuration of HAProxy attaches kvroute. It changes nothing.\n"
	    "--write prints the diff that attaches kvroute, --remove the one that takes it out again,\n"
	    "--update the one that brings its lines up to date after servers were added or renamed,\n"
	    "for \"patch -p1\", or \"patch -d / -p1\" after absolute paths. Without -f it reads the\n"
	    "agent's installed configuration, " DOCTOR_INSTALLED ", if there is one.\n\n"
	    "Exits with 0 if all is well, 1 if something is wrong, 2 if a file of -c or -f cannot be "
	    "read, 64 if these arguments are wrong.\n");
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

/* Tell if a diff is asked for. */
static bool doctor_writes(const struct doctor_args *a)
{
	return a->write || a->remove || a->update;
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

static int examine(const struct doctor_opts *o, struct opened *opened,
		   const struct doctor_args *a, const struct doctor_names *names,
		   const struct doctor_agents *agents)
{
	struct doctor *d = doctor_new(o);
	const char *why;
	struct span text;
	int status = 2;

	for (unsigned i = 0; d != NULL && i < a->n; i++) {
		if (open_file(opened, a->paths[i], &text, &why) < 0) {
			fprintf(stderr, "kvroutectl doctor: %s: %s\n", a->paths[i], why);
			doctor_free(d);
			return 2;
		}
		doctor_file(d, a->paths[i], text);
	}
	if (d == NULL || doctor_check(d) < 0)
		fprintf(stderr, "kvroutectl doctor: there is no memory\n");
	else
		status = doctor_writes(a) ? doctor_write(d, a, names) : print_findings(d);
	if (d != NULL && status < 2 && a->live != NULL) {
		fflush(stdout);
		status = doctor_live(d, a, agents->metrics) | status;
	}
	doctor_free(d);
	return status;
}

static int read_version(const char *s)
{
	int major, minor, patch = 0;

	return sscanf(s, "%2d.%3d.%3d", &major, &minor, &patch) >= 2 && major > 0 && minor >= 0 &&
	    patch >= 0 ? DOCTOR_VERSION(major, minor, patch) : -1;
}

static int run(struct doctor_args *a)
{
	const char *why;
	struct opened opened = { .n = 0 };
	struct doctor_haproxy haproxy = { .version = 0 };
	struct doctor_names names;
	struct doctor_opts o;
	struct doctor_agents agents;
	char twice[1024];
	int status;

	doctor_defaults(&o);
	if (doctor_writes(a) && doctor_check_twice(a, twice, sizeof(twice)) < 0) {
		fprintf(stderr, "kvroutectl doctor: %s\n", twice);
		return 2;
	}
	if (doctor_ask_haproxy(&haproxy, a, &why) < 0) {
		fprintf(stderr, "kvroutectl doctor: %s: %s\n", a->haproxy, why);
		return 2;
	}
	o.features = haproxy.features[0] != '\0' ? haproxy.features : NULL;
	if (a->version > 0 || haproxy.version > 0)
		o.version = a->version > 0 ? a->version : haproxy.version;
	if (doctor_writes(a) && doctor_choose_names(a, &names) < 0) {
		fprintf(stderr, "kvroutectl doctor: %s\n", names.why);
		return 2;
	}
	if (doctor_load_agents(&agents, a, &o.agent) < 0)
		return 2;
	o.env = haproxy.env != NULL ? haproxy.env : (const char *const *)environ;
	o.open = open_file;
	o.arg = &opened;
	status = examine(&o, &opened, a, &names, &agents);
	for (unsigned i = 0; i < opened.n; i++)
		buf_free(&opened.text[i]);
	doctor_free_agents(&agents);
	free(haproxy.env);
	return status;
}

static bool take_name(const char **to, unsigned *n, const char *name)
{
	if (*n == DOCTOR_NAMES)
		return false;
	to[(*n)++] = name;
	return true;
}

/* Take an option. Returns false if it has no sense. */
static bool take_option(struct doctor_args *a, int c, const char *value)
{
	const char *why;

	switch (c) {
	case 'c':
		if (doctor_add_path(a, value, &why) == 0)
			return true;
		fprintf(stderr, "kvroutectl doctor: %s: %s\n", value, why);
		a->unreadable = true;
		return false;
	case 'f':
		a->no_yaml |= *value == '\0';
		return *value == '\0' || (a->n_yaml < DOCTOR_AGENTS && (a->yaml[a->n_yaml++] = value) != NULL);
	case 'M':
		return a->n_metrics < DOCTOR_AGENTS && *value != '\0' &&
		    (a->metrics[a->n_metrics++] = value) != NULL;
	case 'v':
		return (a->version = read_version(value)) > 0;
	case 'H':
		a->haproxy = value;
		return true;
	case 'l':
		a->live = value;
		return *value != '\0';
	case 'P':
		a->path = value;
		return *value == '/' && strpbrk(value, " \r\n") == NULL;
	case 'u':
		a->url = value;
		return *value != '\0' && strpbrk(value, " \r\n") == NULL;
	case 'm':
		a->model = value;
		return strpbrk(value, "\"\\\r\n") == NULL;
	case 'W':
		return sscanf(value, "%4u", &a->wait_s) == 1;
	case 'd':
		return strpbrk(value, "\r\n") == NULL && strchr(value, ':') != NULL &&
		    a->n_headers < DOCTOR_HEADERS && (a->headers[a->n_headers++] = value) != NULL;
	case 'w':
		return a->write = true;
	case 'r':
		return a->remove = true;
	case 'U':
		return a->update = true;
	case 'p':
		return take_name(a->pools, &a->n_pools, value);
	case 'F':
		return take_name(a->frontends, &a->n_frontends, value);
	case 'e':
		return a->heap = true;
	case 's':
		a->spoe = value;
		return *value != '\0';
	default:
		return false;
	}
}

int ctl_doctor(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "haproxy-version", required_argument, NULL, 'v' }, { "write", no_argument, NULL, 'w' },
		{ "remove", no_argument, NULL, 'r' }, { "pool", required_argument, NULL, 'p' },
		{ "frontend", required_argument, NULL, 'F' }, { "spoe", required_argument, NULL, 's' },
		{ "live", required_argument, NULL, 'l' }, { "path", required_argument, NULL, 'P' },
		{ "url", required_argument, NULL, 'u' }, { "model", required_argument, NULL, 'm' },
		{ "metrics", required_argument, NULL, 'M' }, { "update", no_argument, NULL, 'U' },
		{ "header", required_argument, NULL, 'd' }, { "wait", required_argument, NULL, 'W' },
		{ "haproxy", required_argument, NULL, 'H' }, { "help", no_argument, NULL, 'h' },
		{ "heap", no_argument, NULL, 'e' },
		{ NULL, 0, NULL, 0 },
	};
	struct doctor_args a = { .wait_s = 5 };
	bool good = true, help = false;
	int c, status;

	while (good && !help && (c = getopt_long(argc, argv, "c:f:h", longs, NULL)) != -1) {
		help = c == 'h';
		good = help || take_option(&a, c, optarg);
	}
	good = good && a.n > 0 && optind == argc && a.write + a.remove + a.update + (a.live != NULL) <= 1;
	status = help ? doctor_usage(stdout, 0) : good ? run(&a) : a.unreadable ? 2 :
	    doctor_usage(stderr, CTL_USAGE);
	for (unsigned i = 0; i < a.n; i++)
		free(a.paths[i]);
	return status;
}
