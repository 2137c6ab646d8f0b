/* bench_jinja.c - time to render a conversation of 64 KB with chat templates, compared with
 * memcpy() of the text.
 *
 * For each template (../shared/data/tokenizers/chat/templates, or the named files): "json" reads
 * the body into values, "render" runs the template into a sink that copies, "copy" is memcpy() of
 * that text. The conversation is a system prompt and 40 turns of English prose with a line break
 * every 80 bytes. Medians. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/rng.h"
#include "tests/lib/bench.h"
#include "agent/jinja/jinja.h"

#define ROUNDS	31
#define BODY	65536

static char body[BODY * 2], out[BODY * 4], copied[BODY * 4];
static size_t body_n, out_n, pieces;

static void say(const char *s)
{
	body_n += (size_t)sprintf(body + body_n, "%s", s);
}

static void prose(struct rng *rng, size_t n)
{
	static const char *const words[] = { "the ", "router ", "prefix ", "of ", "cached ", "a ",
		"and ", "request ", "server, ", "which " };
	size_t end = body_n + n, line = body_n;

	while (body_n < end) {
		say(words[rng_below(rng, 10)]);
		if (body_n - line > 80) {
			say("\\n");
			line = body_n;
		}
	}
}

static void make_body(void)
{
	struct rng rng;
	unsigned i;

	rng_init(&rng, 1);
	say("{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"tools\":null,\"add_generation_prompt\":true,"
	    "\"messages\":[");
	say("{\"role\":\"system\",\"content\":\"");
	prose(&rng, 8000);
	for (i = 0; i < 40; i++) {
		say(i % 2 == 0 ? "\"},{\"role\":\"user\",\"content\":\""
			       : "\"},{\"role\":\"assistant\",\"content\":\"");
		prose(&rng, 1400);
	}
	say("\"},{\"role\":\"user\",\"content\":\"go on\"}]}");
}

static bool sink(void *arg, const char *p, size_t n, enum jinja_origin origin)
{
	if (n > sizeof(out) - out_n)
		return false;
	memcpy(out + out_n, p, n);
	out_n += n;
	pieces++;
	return true;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), by_value);
	return v[ROUNDS / 2];
}

static struct jinja *load(const char *path)
{
	FILE *f = fopen(path, "rb");
	char text[65536];
	struct err e = { 0 };
	struct jinja *t;
	size_t n = 0;

	if (f != NULL) {
		n = fread(text, 1, sizeof(text), f);
		fclose(f);
	}
	t = jinja_compile(span_of(text, n), &e);
	if (t == NULL)
		fprintf(stderr, "%s:%d: %s\n", path, e.line, e.text);
	return t;
}

static void bench(const char *path)
{
	struct hash_key key = { "not secret" };
	struct jinja_mem *m = jinja_mem_new(64 << 20, &key);
	struct jinja_limits l = jinja_limits_defaults();
	struct jinja_time now = { 2026, 8, 1, 12, 0, 0, 0 };
	double json[ROUNDS], render[ROUNDS], copy[ROUNDS], compile, t;
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	struct jinja_error why = { 0 };
	enum jinja_result result = JINJA_OK;
	struct jinja *template;
	struct jval v;
	unsigned i;

	compile = now_us();
	template = load(path);
	compile = now_us() - compile;
	for (i = 0; i < ROUNDS && template != NULL && result == JINJA_OK; i++) {
		jinja_mem_reset(m);
		out_n = pieces = 0;
		t = now_us();
		if (jval_from_json(m, span_of(body, body_n), 0, &v, NULL) != 0)
			abort();
		json[i] = now_us() - t;
		t = now_us();
		result = jinja_render(template, m, v.d, &now, &l, sink, NULL, &why);
		render[i] = now_us() - t;
		t = now_us();
		memcpy(copied, out, out_n);
		copy[i] = now_us() - t;
	}
	if (template != NULL && result == JINJA_OK)
		printf(
		    "bench jinja template=%s body_bytes=%zu text_bytes=%zu pieces=%zu json_us=%.1f "
		    "render_us=%.1f copy_us=%.1f "
		    "compile_us=%.0f compiled_bytes=%zu\n",
		    name, body_n, out_n, pieces, median(json), median(render), median(copy),
		    compile, jinja_bytes(template));
	else if (template != NULL)
		printf("bench jinja template=%s result=%s\n", name, jinja_result_name(result));
	jinja_free(template);
	jinja_mem_free(m);
}

int main(int argc, char **argv)
{
	glob_t g;
	size_t k;
	int i;

	make_body();
	for (i = 1; i < argc; i++)
		bench(argv[i]);
	if (argc > 1)
		return 0;
	if (glob("../shared/data/tokenizers/chat/templates/*.jinja", 0, NULL, &g) != 0) {
		printf("skipped: bench_jinja: no data\n");
		return 0;
	}
	for (k = 0; k < g.gl_pathc; k++)
		bench(g.gl_pathv[k]);
	globfree(&g);
	return 0;
}
