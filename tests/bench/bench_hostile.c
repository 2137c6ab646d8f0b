/* bench_hostile.c - CPU time of one decision for the worst bodies (tests/hostile.h: texts and
 * shapes), for every available tokenizer.
 *
 * 	bench_hostile [-v] [-kKIND] [pcre2:]tokenizer.json|ranks.tiktoken [template.jinja] ...
 *
 * Each body is new to every cache, because each comes from another tenant. The figure is CPU time
 * of this thread around route_decide(), the least of TIMES, because other load only makes it
 * longer; each kind with SEEDS seeds; statistics are over all bodies of a size. For comparison:
 * reading the bytes once (XXH3), and the same body in text mode, which always runs. step_ns is the
 * time for one charged step of the most expensive kind; it shows that steps measure work.
 * "benign_bounded" counts bodies of English, code and Chinese ("benign" of them) that lost ids
 * because of the limit of work. "pcre2:": with equivalent patterns that have no scanner. "over"
 * counts decisions above the promise: 1 ms up to 16 KiB, 5 ms for any body. -v: a line for each
 * kind; -kKIND: only that kind. */
#include <stdarg.h>
#include <unistd.h>

#include "agent/route/route.h"
#include "tests/lib/bench.h"
#include "tests/hostile.h"

#define SEEDS	4
#define TIMES	3
#define SIZES	4
#define MOST	(1u << 20)
#define CASES	(2 * HOSTILE_TEXTS + HOSTILE_SHAPES)

static const size_t sizes[SIZES] = { 16384 - 100, 65536 - 100, 250000, MOST - 200 };
static const double promised_us[SIZES] = { 1000, 5000, 5000, 5000 };
static struct hash_key key;
static bool verbose;
static const char *only;

static struct span slurp(const char *path)
{
	size_t cap = 64u << 20, n = strlen(path);
	char *text = must(malloc(cap)), command[600];
	FILE *f;

	snprintf(command, sizeof(command), "%s '%s'",
	    n > 3 && strcmp(path + n - 3, ".gz") == 0 ? "gzip -dc" : "cat", path);
	f = must(popen(command, "r"));
	n = fread(text, 1, cap, f);
	pclose(f);
	return span_of(text, n);
}

static const char *pattern_of(const char *path)
{
	return strstr(path, "o200k")    ? "o200k"
	    : strstr(path, "kimi")      ? "kimi"
	    : strstr(path, ".tiktoken") ? "cl100k"
					: NULL;
}

/* Add an alternative that no text has to each pattern, so that none of them is a known one. */
static struct span wrapped(struct span file)
{
	static const char name[] = "\"Regex\":", other[] = "|\\\\x{10ffff}";
	char *out = must(malloc(file.n + 4096)), *at = out;
	const char *p = file.p, *end = file.p + file.n, *q, *close;

	while ((q = memmem(p, (size_t)(end - p), name, sizeof(name) - 1)) != NULL) {
		q += sizeof(name) - 1;
		q += strspn(q, " ");
		if (*q != '"') {		/* a token of that name */
			at = (char *)mempcpy(at, p, (size_t)(q - p));
			p = q;
			continue;
		}
		q++;
		for (close = q; *close != '"'; close++)
			close += *close == '\\';
		at = (char *)mempcpy(at, p, (size_t)(q - p));
		at = (char *)mempcpy(at, q, (size_t)(close - q));
		at = (char *)mempcpy(at, other, sizeof(other) - 1);
		p = close;
	}
	at = (char *)mempcpy(at, p, (size_t)(end - p));
	free((char *)file.p);
	return span_of(out, (size_t)(at - out));
}

static struct tok *load_tok(const char *path)
{
	bool slow = strncmp(path, "pcre2:", 6) == 0;
	struct tok_source src = {
		.file = slurp(path + (slow ? 6 : 0)), .name = path, .pattern = pattern_of(path)
	};
	struct tok *t;
	struct err e;

	if (slow)
		src.file = wrapped(src.file);
	if ((t = tok_load(&src, &e)) == NULL)
		printf("# %s: %s\n", path, e.text);
	free((char *)src.file.p);
	return t;
}

static struct chat *load_chat(const char *path)
{
	struct chat_source src = { .template_name = path,
		.config = SPAN("{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}"),
		.config_name = "" };
	struct chat *c;
	struct err e;

	if (strcmp(path, "harmony") == 0)
		src.format = CHAT_HARMONY;
	else
		src.template = slurp(path);
	if ((c = chat_load(&src, &key, &e)) == NULL)
		printf("# %s: %s\n", path, e.text);
	return c;
}

/* ---- one decision ---- */

struct bench {
	struct route *r;
	struct route_scratch *s;
	char *body;
	uint64_t n;
	msec now;
};

static struct bench start(struct tok *tok, struct chat *chat)
{
	static struct model_opts model;
	struct route_opts ro;
	struct bench b = { .now = 1000 };

	route_defaults(&ro);
	model = ro.model_default;
	strcpy(model.name, "m");
	model.mode = MODEL_TOKENS;
	model.tok = tok;
	model.chat = chat;
	ro.models = &model;
	ro.n_models = 1;
	b.r = must(route_new(&ro, &key, 1));
	b.s = must(route_scratch_new(b.r));
	b.body = must(malloc(MOST + HOSTILE_ROOM));
	return b;
}

static void stop(struct bench *b)
{
	route_scratch_free(b->s);
	route_free(b->r);
	free(b->body);
}

static size_t make(struct bench *b, size_t kind, size_t size, uint64_t seed)
{
	struct hostile h;

	hostile_start(&h, b->body, size, seed);
	if (kind < 2 * HOSTILE_TEXTS)
		hostile_body(&h, hostile_texts[kind / 2], kind % 2);
	else
		hostile_shape(&h, hostile_shapes[kind - 2 * HOSTILE_TEXTS]);
	return h.n;
}

static const char *name_of(size_t kind)
{
	return kind < 2 * HOSTILE_TEXTS ? hostile_texts[kind / 2]
					: hostile_shapes[kind - 2 * HOSTILE_TEXTS];
}

static bool is_chat(size_t kind)
{
	return kind < 2 * HOSTILE_TEXTS ? kind % 2 : strcmp(name_of(kind), "prompts") != 0;
}

/* Each body comes from another tenant, ten seconds after the previous one, so that no share of a
 * thread is used up. */
static double once(struct bench *b, size_t kind, size_t n, uint32_t work, struct route_answer *a)
{
	char uid[32], tenant[32];
	struct route_request q = {
		.pool = SPAN("p"),
		.load = SPAN("lb/1;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1"),
		.model = SPAN("m"),
		.seq = -1,
		.path = is_chat(kind) ? SPAN("/v1/chat/completions") : SPAN("/v1/completions"),
		.visible = (int64_t)n,
		.whole = (int64_t)n,
		.work = work,
		.body = span_of(b->body, n),
	};
	double t;

	snprintf(uid, sizeof(uid), "u%llu", (unsigned long long)++b->n);
	snprintf(tenant, sizeof(tenant), "t%llu", (unsigned long long)b->n);
	q.uid = span_str(uid);
	q.tenant = span_str(tenant);
	b->now += 10000;
	t = cpu_us();
	route_decide(b->r, b->s, &q, b->now, a);
	route_scratch_wipe(b->s);
	return cpu_us() - t;
}

static uint64_t bounded(const struct bench *b)
{
	struct route_stats s;

	route_stats(b->r, &s);
	return s.tokenize_bounded;
}

static double one(struct bench *b, size_t kind, size_t n, uint32_t work, struct route_answer *a)
{
	double least = once(b, kind, n, work, a), t;

	for (int i = 1; i < TIMES; i++) {
		t = once(b, kind, n, work, a);
		least = t < least ? t : least;
	}
	return least;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double at(const double *sorted, size_t n, double share)
{
	size_t i = (size_t)((double)n * share);

	return sorted[i < n ? i : n - 1];
}

static void run_size(struct bench *b, const char *name, int size)
{
	static double us[CASES * SEEDS];
	double step_ns = 0, read = 0, text = 0, english = 0;
	const char *worst = "", *dear = "";
	size_t n_us = 0, over = 0, worst_at = 0, benign = 0, lost = 0;

	for (size_t kind = 0; kind < CASES; kind++) {
		if (only != NULL && strcmp(only, name_of(kind)) != 0)
			continue;
		double most = 0, least = 1e9, t0, plain = 0;
		uint32_t steps = 0;

		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			struct route_answer a, t;
			size_t n = make(b, kind, sizes[size], seed + 100 * kind);
			uint64_t before = bounded(b);
			double took = one(b, kind, n, ROUTE_WORK_FULL, &a);

			if (kind < 2 * HOSTILE_TEXTS && hostile_is_benign(name_of(kind))) {
				benign++;
				lost += bounded(b) > before;
			}

			t0 = cpu_us();
			b->n += hash64(&key, b->body, n) == 0;
			read += cpu_us() - t0;
			plain = one(b, kind, n, 0, &t);
			text += plain;
			us[n_us++] = took;
			over += took > promised_us[size];
			most = took > most ? took : most;
			least = took < least ? took : least;
			steps = a.work;
			if (took > us[worst_at] || n_us == 1) {
				worst_at = n_us - 1;
				worst = name_of(kind);
			}
		}
		if (steps > 2000 && (least - plain) * 1000 / steps > step_ns) {
			step_ns = (least - plain) * 1000 / steps;
			dear = name_of(kind);
		}
		english = kind == 1 ? least : english;
		if (verbose)
			printf(
			    "# %s size=%zu kind=%s%s us_least=%.0f us_most=%.0f text_us=%.0f steps=%u step_ns=%.1f\n",
			    name, sizes[size], name_of(kind),
			    kind < 2 * HOSTILE_TEXTS ? kind % 2 ? "/chat" : "/completion" : "",
			    least, most, plain, steps,
			    steps > 0 ? (least - plain) * 1000 / steps : 0);
	}
	double top = us[worst_at];
	qsort(us, n_us, sizeof(*us), by_value);
	printf(
	    "bench hostile tokenizer=%s bytes=%zu bodies=%zu p50_us=%.0f p99_us=%.0f p999_us=%.0f "
	    "max_us=%.0f worst=%s over=%zu benign=%zu benign_bounded=%zu english_us=%.0f "
	    "text_mode_us=%.0f read_us=%.1f step_ns=%.1f dearest=%s\n",
	    name, sizes[size], n_us, at(us, n_us, 0.5), at(us, n_us, 0.99), at(us, n_us, 0.999),
	    top, worst, over, benign, lost, english, text / (double)n_us, read / (double)n_us,
	    step_ns, dear);
	fflush(stdout);
}

static void run(const char *path, const char *template)
{
	struct tok *tok = load_tok(path);
	struct chat *chat = tok != NULL ? load_chat(template) : NULL;
	const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
	struct bench b;

	if (tok != NULL && chat != NULL) {
		printf("# %s: template %s; gcc %s\n", name, template, __VERSION__);
		b = start(tok, chat);
		for (int i = 0; i < SIZES; i++)
			run_size(&b, name, i);
		stop(&b);
	}
	chat_unref(chat);
	tok_unref(tok);
}

int main(int argc, char **argv)
{
	memset(key.secret, 0x5a, sizeof(key.secret));
	for (int i = 1; i < argc; i++) {
		bool template = i + 1 < argc &&
		    (strstr(argv[i + 1], ".jinja") != NULL || strcmp(argv[i + 1], "harmony") == 0);

		if (strcmp(argv[i], "-v") == 0) {
			verbose = true;
			continue;
		}
		if (strncmp(argv[i], "-k", 2) == 0) {
			only = argv[i] + 2;
			continue;
		}
		run(argv[i], template ? argv[i + 1] : "tests/data/tok/llama.chat_template.jinja");
		i += template;
	}
	if (argc == 1)
		run("tests/data/tok/llama.tokenizer.json", "tests/data/tok/llama.chat_template.jinja");
	return 0;
}
