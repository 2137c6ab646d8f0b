/* main.c - the command line, and who is wired to whom.
 *
 *      kvroute [-f FILE]           run
 *      kvroute [-f FILE] -t        check the configuration: every mistake, or "is valid"
 *      kvroute [-f FILE] -t -v     print all effective values, as YAML that loads again
 *      kvroute -V | -h
 *
 * Exit codes: 0 as asked; 1 a mistake in the configuration or at the start; 64 a wrong command line. */
#include <ev.h>
#include <getopt.h>
#include <stdio.h>
#include <yaml.h>

#include "agent/conf/conf.h"
#include "agent/loop/loop.h"

#define EXIT_USAGE	64

struct args {
	const char *file;	/* NULL: none, all defaults */
	bool check, verbose, version, help;
};

static const char usage[] =
	"Usage: kvroute [-f FILE] [-t [-v]]\n"
	"  -f FILE         configuration; without it all defaults hold\n"
	"  -t              check the configuration and exit\n"
	"  -t -v, -tv      print all effective values as YAML and exit\n"
	"  -V, --version   print version and libraries\n"
	"  -h, --help      print this\n";

/* ---- configuration ------------------------------------------------------------------------------- */

static void print_err(const struct err *e, const char *file)
{
	const char *name = e->file[0] != '\0' ? e->file : file;

	if (name == NULL)
		fprintf(stderr, "kvroute: %s\n", e->text);
	else if (e->line > 0)
		fprintf(stderr, "%s:%d:%d: %s\n", name, e->line, e->column, e->text);
	else
		fprintf(stderr, "%s: %s\n", name, e->text);
}

static int load(struct conf *c, const char *file)
{
	struct conf_errors es = { 0 };
	size_t i;
	int rc;

	if (file == NULL) {
		conf_defaults(c);
		return 0;
	}
	rc = conf_load(c, file, &es);
	for (i = 0; i < es.n; i++)
		print_err(&es.e[i], file);
	if (es.lost > 0)
		fprintf(stderr, "%s: and %zu more\n", file, es.lost);
	conf_errors_free(&es);
	return rc;
}

struct reload_arg {
	const char *file;
	const struct conf *now;
};

/* The first of several mistakes stands for all: a log line has no room for more. */
static void first_of(const struct conf_errors *es, struct err *e)
{
	size_t more = es->n + es->lost - 1;
	size_t n;

	*e = es->e[0];
	n = strlen(e->text);
	if (more > 0)
		snprintf(e->text + n, sizeof(e->text) - n, " (and %zu more: kvroute -t lists them)", more);
}

static int reload(void *arg, struct route_opts *route, struct loop_opts *loop, struct err *e)
{
	const struct reload_arg *r = arg;
	struct conf_errors es = { 0 };
	struct conf next;

	if (r->file == NULL)
		return err_set(e, "no configuration file was named at the start (-f), so there is none "
			       "to reload");
	if (conf_load(&next, r->file, &es) != 0) {
		if (es.n > 0)
			first_of(&es, e);
		else
			err_set(e, "%s cannot be loaded", r->file);
		conf_errors_free(&es);
		return -1;
	}
	conf_errors_free(&es);
	if (conf_reloadable(r->now, &next, e) != 0) {
		conf_free(&next);
		return -1;
	}
	*route = next.route;	/* with what it points to; the rest of <next> owns nothing */
	*loop = next.loop;
	return 0;
}

/* ---- what can be asked for ------------------------------------------------------------------------- */

static void put_stdout(void *arg, const char *text, size_t n)
{
	fwrite(text, 1, n, stdout);
}

/* All of the output must have gone out, or a script would take half of it for the whole. */
static int flushed(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	perror("kvroute: cannot write");
	return 1;
}

static int check(const struct conf *c, bool verbose)
{
	if (verbose)
		conf_print(c, put_stdout, NULL);
	else
		puts("configuration is valid");
	return flushed();
}

static int version(void)
{
	printf("kvroute %s\n", KVROUTE_VERSION);
	printf("libev %d.%d, libyaml %s, xxhash %u.%u.%u\n", ev_version_major(), ev_version_minor(),
	       yaml_get_version_string(), XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE);
	printf("built with %s\n",
#ifdef __clang__
	       __VERSION__
#else
	       "GCC " __VERSION__
#endif
	       );
	return flushed();
}

static int run(const struct conf *c, const char *file)
{
	struct reload_arg arg = { file, c };
	struct loop_reload again = { reload, &arg };
	struct err e = { 0 };

	if (loop_run(&c->loop, &c->route, &again, &e) == 0)
		return 0;
	print_err(&e, NULL);
	return 1;
}

/* ---- the command line ------------------------------------------------------------------------------- */

static int wrong(const char *what)
{
	if (what != NULL)
		fprintf(stderr, "kvroute: %s\n", what);
	fputs(usage, stderr);
	return EXIT_USAGE;
}

static int parse(int argc, char **argv, struct args *a)
{
	static const struct option words[] = {
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	int c;

	while ((c = getopt_long(argc, argv, "f:tvVh", words, NULL)) != -1) {
		switch (c) {
		case 'f':
			if (a->file != NULL)
				return wrong("-f may be given once");
			a->file = optarg;
			break;
		case 't':
			a->check = true;
			break;
		case 'v':
			a->verbose = true;
			break;
		case 'V':
			a->version = true;
			break;
		case 'h':
			a->help = true;
			break;
		default:
			return wrong(NULL);
		}
	}
	if (optind < argc)
		return wrong("there are no arguments besides options");
	if (a->verbose && !a->check)
		return wrong("-v goes with -t");
	return 0;
}

int main(int argc, char **argv)
{
	struct args a = { 0 };
	struct conf c;
	int rc;

	if ((rc = parse(argc, argv, &a)) != 0)
		return rc;
	if (a.help) {
		fputs(usage, stdout);
		return flushed();
	}
	if (a.version)
		return version();
	if (load(&c, a.file) != 0)
		return 1;
	rc = a.check ? check(&c, a.verbose) : run(&c, a.file);
	conf_free(&c);
	return rc;
}
