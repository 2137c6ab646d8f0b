/* render.c - kvroutectl render: render a request body with a chat template.
 *
 * The code is the agent's. As in engines, members of the body are variables of the template: tools
 * and documents are None if they are missing, add_generation_prompt is true, and members of
 * chat_template_kwargs count as members of the body. Special tokens come from a
 * tokenizer_config.json, and the template too if --template is not given. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/base/rng.h"
#include "agent/ctl/ctl.h"
#include "agent/ctl/read.h"
#include "agent/jinja/jinja.h"

#define FILE_MAX	((size_t)64 << 20)	/* of output */
#define READ_MAX	(2 * FILE_MAX)
#define MEMORY_MAX	((size_t)512 << 20)

struct args {
	const char *template, *config;
	struct jinja_time now;
};

struct job {
	struct jinja_mem *mem;
	struct hash_key key;
	struct buf body, config, template;	/* contents of the files */
	struct jval vars, settings;		/* settings: JV_MISSING without --config */
	struct span text;			/* the template */
	const char *name;
};

static int usage(FILE *to, int status)
{
	fprintf(to,
		"usage: kvroutectl render [--template FILE] [--config FILE] [--date TIME] < body.json\n"
		"\n"
		"  --template FILE  the chat template\n"
		"  --config FILE    tokenizer_config.json: special tokens, and the template without --template\n"
		"  --date TIME      current time for the template: 2026-08-01 or 2026-08-01T12:00:00\n");
	return status;
}

static void set_now(struct jinja_time *t)
{
	time_t now = time(NULL);
	struct tm tm;

	localtime_r(&now, &tm);
	*t = (struct jinja_time){ tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
				  tm.tm_hour, tm.tm_min, tm.tm_sec, 0 };
}

static int parse_args(int argc, char **argv, struct args *a)
{
	static const struct option longs[] = {
		{ "template", required_argument, NULL, 't' },
		{ "config", required_argument, NULL, 'c' },
		{ "date", required_argument, NULL, 'd' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 }
	};
	int c;

	*a = (struct args){ 0 };
	set_now(&a->now);
	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 't':
			a->template = optarg;
			break;
		case 'c':
			a->config = optarg;
			break;
		case 'd':
			if (ctl_read_date(optarg, &a->now) == 0)
				break;
			return CTL_USAGE;
		case 'h':
			usage(stdout, 0);
			return -1;
		default:
			return usage(stderr, CTL_USAGE);
		}
	}
	return optind < argc || (a->template == NULL && a->config == NULL) ? usage(stderr, CTL_USAGE) : 0;
}

/* ---- files ------------------------------------------------------------------------------ */

static int report_error(const char *name, const char *what)
{
	fprintf(stderr, "kvroutectl: %s: %s\n", name, what);
	return -1;
}

/* Returns -1 after printing an error. */
static int read_whole(const char *name, struct buf *to)
{
	if (ctl_read_file(name, READ_MAX, to) == 0)
		return 0;
	return report_error(name, strerror(errno));
}

static int read_json(struct job *j, const char *name, struct span text, struct jval *out)
{
	char what[80];
	size_t at;

	if (jval_from_json(j->mem, text, 0, out, &at) != 0) {
		snprintf(what, sizeof(what), errno == ENOMEM ? "not enough memory" : "not JSON at byte %zu", at);
		return report_error(name, what);
	}
	return out->kind == JV_DICT ? 0 : report_error(name, "is not a JSON object");
}

static int open_files(struct job *j, const struct args *a)
{
	if (a->config != NULL && (read_whole(a->config, &j->config) != 0 ||
	    read_json(j, a->config, span_of(j->config.p, j->config.n), &j->settings) != 0))
		return -1;
	if (a->template != NULL) {
		if (read_whole(a->template, &j->template) != 0)
			return -1;
		j->text = span_of(j->template.p, j->template.n);
		j->name = a->template;
	}
	if (ctl_read(STDIN_FILENO, READ_MAX, &j->body) != 0)
		return report_error("standard input", "cannot be read, or is too large");
	return read_json(j, "standard input", span_of(j->body.p, j->body.n), &j->vars);
}

/* ---- variables -------------------------------------------------------------------------- */

static struct jval json_member(struct jval d, const char *name)
{
	const struct jval *v = d.kind == JV_DICT ? jdict_get_str(d.d, name, strlen(name)) : NULL;

	return v != NULL ? *v : (struct jval){ .kind = JV_MISSING };
}

/* Returns the template named "default", or "tool_use" if there are tools, as Hugging Face does. */
static struct jval choose_template(struct jval list, bool tools)
{
	struct jval found = { .kind = JV_MISSING }, name;
	uint32_t i;

	for (i = 0; i < list.n; i++) {
		name = json_member(list.v[i], "name");
		if (jval_eq(name, jval_str("default", 7)) && found.kind == JV_MISSING)
			found = json_member(list.v[i], "template");
		if (jval_eq(name, jval_str("tool_use", 8)) && tools)
			found = json_member(list.v[i], "template");
	}
	return found;
}

static int load_template(struct job *j, const struct args *a)
{
	struct jval t = json_member(j->settings, "chat_template");

	if (j->template.p != NULL)
		return 0;
	if (t.kind == JV_LIST)
		t = choose_template(t, jval_truth(json_member(j->vars, "tools")));
	if (t.kind != JV_STR)
		return report_error(a->config, "has no chat_template");
	j->text = jval_span(t);
	j->name = a->config;
	return 0;
}

/* Special tokens are strings, or objects with a string in "content". */
static bool put_tokens(struct job *j)
{
	static const char *const names[] = { "bos_token", "eos_token", "unk_token", "sep_token",
		"pad_token", "cls_token", "mask_token" };
	struct jval v;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		v = json_member(j->settings, names[i]);
		if (v.kind == JV_DICT)
			v = json_member(v, "content");
		if (v.kind == JV_STR && json_member(j->vars, names[i]).kind == JV_MISSING &&
		    !jdict_put_str(j->mem, j->vars.d, names[i], v))
			return false;
	}
	return true;
}

static bool put_default(struct job *j, const char *name, struct jval v)
{
	return json_member(j->vars, name).kind != JV_MISSING || jdict_put_str(j->mem, j->vars.d, name, v);
}

static int load_variables(struct job *j)
{
	struct jval more = json_member(j->vars, "chat_template_kwargs");
	bool ok = true;
	uint32_t i;

	for (i = 0; ok && more.kind == JV_DICT && i < more.d->n; i++)
		ok = jdict_put(j->mem, j->vars.d, more.d->entry[i].key, more.d->entry[i].value);
	ok = ok && put_default(j, "tools", jval_none()) && put_default(j, "documents", jval_none()) &&
	     put_default(j, "add_generation_prompt", jval_bool(true)) && put_tokens(j);
	return ok ? 0 : report_error("standard input", "not enough memory");
}

/* ---- rendering -------------------------------------------------------------------------- */

static int render_body(struct job *j, const struct args *a)
{
	struct jinja_limits limits = jinja_limits_defaults();
	struct buf text = { .max = FILE_MAX };
	struct err e = { 0 };
	struct jinja *t = jinja_compile(j->text, &e);
	struct jinja_error why;
	enum jinja_result result;

	if (t == NULL) {
		fprintf(stderr, "kvroutectl: %s:%d: %s\n", j->name, e.line, e.text);
		return -1;
	}
	limits.steps *= 100;
	limits.output = FILE_MAX;
	result = jinja_render(t, j->mem, j->vars.d, &a->now, &limits, jinja_buf_sink, &text, &why);
	if (result == JINJA_OK)
		fwrite(text.p, 1, text.n, stdout);
	else
		fprintf(stderr, "kvroutectl: %s:%u: %s: %s\n", j->name, why.line,
		    jinja_result_name(result), why.text);
	buf_free(&text);
	jinja_free(t);
	return result == JINJA_OK && fflush(stdout) == 0 ? 0 : -1;
}

int ctl_render(int argc, char **argv)
{
	struct job j = { .settings = { .kind = JV_MISSING } };
	struct rng rng;
	struct args a;
	int status = parse_args(argc, argv, &a);
	size_t i;

	if (status != 0)
		return status < 0 ? 0 : status;
	rng_init(&rng, 1);	/* a fixed seed: only the user's own body is read */
	for (i = 0; i < sizeof(j.key.secret); i++)
		j.key.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
	j.mem = jinja_mem_new(MEMORY_MAX, &j.key);
	if (j.mem == NULL)
		status = report_error("render", "there is no memory");
	else if (open_files(&j, &a) != 0 || load_template(&j, &a) != 0 || load_variables(&j) != 0 ||
	    render_body(&j, &a) != 0)
		status = -1;
	jinja_mem_free(j.mem);
	buf_free(&j.body);
	buf_free(&j.config);
	buf_free(&j.template);
	return status == 0 ? 0 : CTL_FAILED;
}
