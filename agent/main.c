/* main.c - the command line, and the wiring of the modules.
 *
 *      kvroute [-f FILE]           run; --no-sandbox: without the sandbox
 *      kvroute [-f FILE] -t        check the configuration: every error, or "is valid"
 *      kvroute [-f FILE] -t -v     print all effective values, as YAML that loads again
 *      kvroute -V | -h
 *
 * Exit status: 0 success; 1 an error in the configuration or at the start; 64 a wrong command
 * line. */
#include <getopt.h>
#include <stdio.h>

#include "agent/conf/conf.h"
#include "agent/loop/listen_warnings.h"
#include "agent/loop/loop.h"
#include "agent/loop/models.h"
#include "agent/version.h"

#define EXIT_USAGE	64
#define NO_SANDBOX	256	/* an option without a letter */

struct args {
	char *file;	/* NULL: all defaults */
	bool check, verbose, version, help, no_sandbox;
};

static const char usage[] =
	"Usage: kvroute [-f FILE] [-t [-v]] [--no-sandbox]\n"
	"  -f FILE         configuration; without it, all keys have their defaults\n"
	"  -t              check the configuration and exit\n"
	"  -t -v, -tv      print all effective values as YAML and exit\n"
	"  --no-sandbox    leave all system calls open, for a debugger\n"
	"  -V, --version   print version, commit, libraries and CPU path\n"
	"  -h, --help      print this\n";

/* ---- configuration ---------------------------------------------------------------------- */

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

static int load_conf(struct conf *c, const char *file)
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
	if (rc != 0 && es.n == 0)	/* no memory for the errors */
		fprintf(stderr, "%s: cannot be loaded: not enough memory\n", file);
	else if (es.lost > 0)
		fprintf(stderr, "%s: %zu more errors\n", file, es.lost);
	conf_errors_free(&es);
	return rc;
}

struct reload_arg {
	const char *file;
	const struct conf *now;
};

static void copy_errors(const char *file, const struct conf_errors *from, struct reload_errors *es)
{
	while (es->n < from->n && es->n < RELOAD_ERRORS_MAX) {
		es->e[es->n] = from->e[es->n];
		es->n++;
	}
	es->more = from->n - es->n + from->lost;
	if (es->n > 0)
		return;
	err_set(&es->e[0], "%s cannot be loaded", file);	/* not enough memory */
	es->n = 1;
	es->more = 0;
}

static int reload(void *arg, int fd, struct route_opts *route, struct loop_opts *loop,
		  struct reload_errors *es)
{
	const struct reload_arg *r = arg;
	struct conf_errors found = { 0 };
	struct conf next;
	int rc;

	rc = conf_load_fd(&next, r->file, fd, &found);
	if (rc != 0)
		copy_errors(r->file, &found, es);
	conf_errors_free(&found);
	if (rc != 0)
		return -1;
	if (conf_reloadable(r->now, &next, &es->e[0]) != 0) {
		es->n = 1;
		conf_free(&next);
		return -1;
	}
	*route = next.route;	/* with what they point to; the rest of <next> owns nothing */
	*loop = next.loop;
	return 0;
}

static void print_options(void *arg, const struct route_opts *route, const struct loop_opts *loop,
    void (*put)(void *to, const char *text, size_t n), void *to)
{
	const struct conf c = { .route = *route, .loop = *loop };	/* borrowed: not freed */

	conf_print(&c, put, to);
}

/* ---- actions ---------------------------------------------------------------------------- */

static void write_stdout(void *arg, const char *text, size_t n)
{
	fwrite(text, 1, n, stdout);
}

/* Check that all output was written, so that no script takes half of it for the whole. */
static int flushed(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	perror("kvroute: cannot write");
	return 1;
}

static void warn(void *arg, const char *sentence)
{
	fprintf(stderr, "%s: warning: %s\n", arg != NULL ? (const char *)arg : "kvroute", sentence);
}

/* Load the models from their files, without images. */
static int load_models(struct conf *c, const char *file)
{
	const struct model_files f = { .open = models_open,
		.arg = c->loop.models_dir,
		.models_dir = c->loop.models_dir,
		.images = IMAGES_NONE };
	struct err e = { 0 };
	struct model_set *set = models_load(&c->route, NULL, &f, &e);

	if (set == NULL)
		print_err(&e, file);
	models_free(set);
	return set != NULL ? 0 : -1;
}

static int check_conf(struct conf *c, char *file, bool verbose)
{
	if (load_models(c, file) != 0)
		return 1;
	listen_warnings(&c->loop, warn, file);
	if (verbose)
		conf_print(c, write_stdout, NULL);
	else
		puts("configuration is valid");
	return flushed();
}

static int version(void)
{
	version_print(stdout);
	return flushed();
}

static int run_agent(const struct conf *c, const char *file)
{
	struct reload_arg arg = { file, c };
	struct loop_reload again = { file, reload, print_options, &arg };
	struct err e = { 0 };

	if (loop_run(&c->loop, &c->route, &again, &e) == 0)
		return 0;
	print_err(&e, NULL);
	return 1;
}

/* ---- the command line ------------------------------------------------------------------- */

static int usage_error(const char *what)
{
	if (what != NULL)
		fprintf(stderr, "kvroute: %s\n", what);
	fputs(usage, stderr);
	return EXIT_USAGE;
}

static int parse_args(int argc, char **argv, struct args *a)
{
	static const struct option words[] = {
		{ "no-sandbox", no_argument, NULL, NO_SANDBOX },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	int c;

	while ((c = getopt_long(argc, argv, "f:tvVh", words, NULL)) != -1) {
		switch (c) {
		case 'f':
			if (a->file != NULL)
				return usage_error("-f may be given once");
			a->file = optarg;
			break;
		case 't':
			a->check = true;
			break;
		case 'v':
			a->verbose = true;
			break;
		case NO_SANDBOX:
			a->no_sandbox = true;
			break;
		case 'V':
			a->version = true;
			break;
		case 'h':
			a->help = true;
			break;
		default:
			return usage_error(NULL);
		}
	}
	if (optind < argc)
		return usage_error("unexpected argument");
	if (a->verbose && !a->check)
		return usage_error("-v is valid only with -t");
	return 0;
}

int main(int argc, char **argv)
{
	struct args a = { 0 };
	struct conf c;
	int rc;

	if ((rc = parse_args(argc, argv, &a)) != 0)
		return rc;
	if (a.help) {
		fputs(usage, stdout);
		return flushed();
	}
	if (a.version)
		return version();
	if (load_conf(&c, a.file) != 0)
		return 1;
	c.loop.no_sandbox = a.no_sandbox;
	rc = a.check ? check_conf(&c, a.file, a.verbose) : run_agent(&c, a.file);
	conf_free(&c);
	return rc;
}
