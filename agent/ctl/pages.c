/* pages.c - kvroutectl pages: how the agent reads a request body.
 *
 * Reads a body from standard input with the same code as the agent, and with its key if that is
 * readable, so that the space printed is the one in the agent's index. Tokenizers are loaded from
 * their files, or from images beside them. Stores nothing. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/base/rng.h"
#include "agent/conf/conf.h"
#include "agent/ctl/ctl.h"
#include "agent/ctl/load.h"
#include "agent/ctl/read.h"
#include "agent/loop/models.h"
#include "agent/os/key_file.h"
#include "agent/request/request.h"

#define BODY_MAX	((size_t)64 << 20)

struct args {
	const char *config;
	bool keys, null;
	int64_t wall_s;		/* < 0: now */
	struct request_message q;
};

static int usage(FILE *to, int status)
{
	fprintf(to,
		"usage: kvroutectl pages [-f FILE] [--path PATH] [--pool NAME] [--tenant NAME]\n"
		"                        [--model NAME] [--size BYTES] [--date TIME] [--keys] [--null]\n"
		"                        < body.json\n"
		"\n"
		"  -f FILE         the agent's configuration\n"
		"  --path PATH     path of the request; default /v1/chat/completions\n"
		"  --pool NAME     the HAProxy backend; default \"pool\"\n"
		"  --tenant NAME   tenant name, as HAProxy sends it\n"
		"  --model NAME    model name instead of the one in the body\n"
		"  --size BYTES    size of the whole body, if the input is cut\n"
		"  --date TIME     current time for templates: 2026-08-01 or 2026-08-01T12:00:00\n"
		"  --keys          also print the key of every page\n"
		"  --null          input is bodies that each end with a null byte; print an empty line\n"
		"                  after each\n");
	return status;
}

static int parse_date(struct args *a, const char *text)
{
	struct jinja_time t;
	struct tm tm;

	if (ctl_read_date(text, &t) < 0)
		return -1;
	tm = (struct tm){ .tm_year = t.year - 1900,
		.tm_mon = t.month - 1,
		.tm_mday = t.day,
		.tm_hour = t.hour,
		.tm_min = t.minute,
		.tm_sec = t.second };
	a->wall_s = timegm(&tm);
	return 0;
}

/* Returns 0 to continue; else the exit status, negative for success. */
static int parse_args(int argc, char **argv, struct args *a)
{
	static const struct option longs[] = {
		{ "path", required_argument, NULL, 'p' },
		{ "pool", required_argument, NULL, 'o' },
		{ "tenant", required_argument, NULL, 't' },
		{ "model", required_argument, NULL, 'm' },
		{ "size", required_argument, NULL, 's' },
		{ "date", required_argument, NULL, 'd' },
		{ "keys", no_argument, NULL, 'k' },
		{ "null", no_argument, NULL, '0' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 }
	};
	int c;

	*a = (struct args){ .wall_s = -1,
			    .q = { .path = SPAN("/v1/chat/completions"), .pool = SPAN("pool"),
				   .seq = -1, .visible = -1, .whole = -1 } };
	while ((c = getopt_long(argc, argv, "f:h", longs, NULL)) != -1) {
		switch (c) {
		case 'f': a->config = optarg; break;
		case 'p': a->q.path = span_str(optarg); break;
		case 'o': a->q.pool = span_str(optarg); break;
		case 't': a->q.tenant = span_str(optarg); break;
		case 'm': a->q.model = span_str(optarg); break;
		case 's': a->q.whole = strtoll(optarg, NULL, 10); break;
		case 'd':
			if (parse_date(a, optarg) < 0)
				return CTL_USAGE;
			break;
		case 'k': a->keys = true; break;
		case '0': a->null = true; break;
		case 'h': usage(stdout, 0); return -1;
		default: return usage(stderr, CTL_USAGE);
		}
	}
	return optind < argc ? usage(stderr, CTL_USAGE) : 0;
}

static int load_models(struct conf *c, const char *path)
{
	const struct model_files f = {
		.open = models_open,
		.arg = c->loop.models_dir,
		.models_dir = c->loop.models_dir,
		.images = IMAGES_READ,
	};
	struct err e = { .line = 0 };
	struct model_set *set = models_load(&c->route, NULL, &f, &e);
	const char *name = e.file[0] != '\0' ? e.file : path != NULL ? path : "kvroutectl";

	if (set == NULL && e.line > 0)
		fprintf(stderr, "%s:%d:%d: %s\n", name, e.line, e.column, e.text);
	else if (set == NULL)
		fprintf(stderr, "%s: %s\n", name, e.text);
	models_free(set);
	return set != NULL ? 0 : -1;
}

static void show_space(const struct request_preview *v, const struct args *a)
{
	printf("space         %016" PRIx64 "%016" PRIx64 "\nof            pool=" SPAN_FMT
	       " tenant=" SPAN_FMT " %s" SPAN_FMT,
	    v->space.h[0], v->space.h[1], SPAN_ARG(a->q.pool), SPAN_ARG(v->tenant),
	    v->headless ? "headless" : "model=", SPAN_ARG(v->model));
	if (v->lora.n > 0)
		printf(" lora=" SPAN_FMT, SPAN_ARG(v->lora));
	printf("%s mode=%s/%u\n", v->salted ? " salted" : "",
	       v->mode == PROMPT_TEXT ? "text" : "tokens", v->page);
}

static void print_request(const struct request_preview *v, const struct args *a)
{
	if (v->found != REQUEST_PROMPT) {
		printf("why           %s\n",
		       why_text(v->found == REQUEST_NO_PROMPT ? WHY_NOPROMPT : WHY_BADBODY));
		return;
	}
	printf("model         " SPAN_FMT "\n", SPAN_ARG(v->model));
	show_space(v, a);
	printf("%s        %" PRIu64 "\n", v->mode == PROMPT_TEXT ? "bytes " : "tokens", v->units);
	printf("pages         %u\n", v->pages);
	printf("cut           %d\n", v->cut);
	for (uint32_t i = 0; a->keys && i < v->pages; i++)
		printf("page %-8u %016" PRIx64 "\n", i, v->keys[i]);
}

/* Take the agent's key if it is readable. Otherwise use a fixed one, which gives other spaces and
 * page keys but the same counts. It is not zeros, because XXH3 needs a secret that looks random. */
static void load_key(const struct loop_opts *o, struct hash_key *key)
{
	struct rng rng;
	struct err e;

	if (key_file_read(o->key_file, o->state_dir, key, &e) == 0)
		return;
	rng_init(&rng, 1);
	for (size_t i = 0; i < sizeof(key->secret); i++)
		key->secret[i] = (uint8_t)(rng_next(&rng) >> 32);
	fprintf(stderr, "kvroutectl: %s; space and keys differ from the agent's\n", e.text);
}

/* What all bodies of one call are read with. */
struct reader {
	struct request_env env;
	struct request_scratch scratch;
	struct request_pool pool;
};

static int reader_init(
    struct reader *r, const struct route_opts *o, const struct hash_key *key, struct span pool)
{
	const struct request_opts ro = route_request_opts(o);
	const struct pool_opts *po = pool_options_of(o, pool);

	r->pool = (struct request_pool){
		.isolate_tenants = po->isolate_tenants, .model = po->model, .caches = po->prefill,
	};
	if (request_env_init(&r->env, &ro, key) < 0)
		return -1;
	return request_scratch_init(&r->scratch, &o->prompt, key);
}

static void reader_free(struct reader *r)
{
	if (r == NULL)
		return;
	request_scratch_fini(&r->scratch);
	request_env_fini(&r->env);
	mem_free(r);
}

/* Returns false if the body has no prompt. */
static bool show_body(struct reader *r, struct args *a, struct span body)
{
	struct request_preview v;

	a->q.body = body;
	request_preview(&r->env, &r->scratch, &a->q, &r->pool, &v);
	print_request(&v, a);
	return v.found == REQUEST_PROMPT;
}

static bool show_bodies(struct reader *r, struct args *a, struct span all)
{
	bool good = true;

	if (!a->null)
		return show_body(r, a, all);
	while (all.n > 0) {
		const char *end = memchr(all.p, '\0', all.n);
		size_t n = end != NULL ? (size_t)(end - all.p) : all.n;

		good &= show_body(r, a, span_of(all.p, n));
		putchar('\n');
		n += end != NULL;
		all = span_of(all.p + n, all.n - n);
	}
	return good;
}

static int print_preview(const struct conf *c, struct args *a)
{
	struct reader *r = mem_alloc(sizeof(*r));
	struct hash_key key;
	struct buf body = { 0 };
	bool good = false;

	if (ctl_read(STDIN_FILENO, BODY_MAX, &body) < 0) {
		fprintf(stderr, "kvroutectl: standard input cannot be read, or is larger than %zu MiB\n",
			BODY_MAX >> 20);
		goto out;
	}
	load_key(&c->loop, &key);
	if (r == NULL || reader_init(r, &c->route, &key, a->q.pool) < 0) {
		fprintf(stderr, "kvroutectl: not enough memory\n");
	} else {
		a->q.wall_s = a->wall_s >= 0 ? a->wall_s : time(NULL);
		good = show_bodies(r, a, span_of(body.p, body.n));
	}
out:
	reader_free(r);
	buf_free(&body);
	return good ? 0 : CTL_FAILED;
}

int ctl_pages(int argc, char **argv)
{
	struct args a;
	struct conf c;
	int status = parse_args(argc, argv, &a);

	if (status != 0)
		return status < 0 ? 0 : status;
	if (ctl_load_conf(&c, a.config) < 0)
		return CTL_FAILED;
	status = load_models(&c, a.config) < 0 ? CTL_FAILED : print_preview(&c, &a);
	conf_free(&c);
	return status;
}
