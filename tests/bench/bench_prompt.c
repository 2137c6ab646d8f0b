/* bench_prompt.c - speed of request bodies to pages, compared with the speed of the machine.
 *
 * Bodies are chat conversations of a given size: English prose with a line break every 80 bytes,
 * Chinese, C code (an escape every 25 bytes), and token ids. "scan" is the scanner alone, with a
 * sink that counts; "body" is everything from body bytes to page keys, warm. For comparison: memcpy
 * and a read (XOR of 8-byte words) of the same bytes. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/rng.h"
#include "tests/lib/bench.h"
#include "agent/prompt/prompt.h"

#define ROUNDS	41

struct text {
	char *p;
	size_t n, cap;
};

static void add(struct text *t, const char *s, size_t n)
{
	if (t->n + n > t->cap)
		abort();
	memcpy(t->p + t->n, s, n);
	t->n += n;
}

static void adds(struct text *t, const char *s)
{
	add(t, s, strlen(s));
}

/* ---- bodies ---- */

static void prose(struct rng *rng, struct text *t, size_t n)
{
	static const char *const words[] = {
		"the ", "router ", "prefix ", "of ", "cached ", "a ", "and ", "request ", "server, ", "which ",
		"tokens ", "because ", "it ", "holds ", "longest ", "match; ", "then ", "waiting ", "is ", "not ",
	};
	size_t end = t->n + n, line = t->n;

	while (t->n < end) {
		adds(t, words[rng_below(rng, 20)]);
		if (t->n - line > 80) {
			adds(t, "\\n");
			line = t->n;
		}
	}
}

static void chinese(struct rng *rng, struct text *t, size_t n)
{
	size_t end = t->n + n;
	char u[3];

	while (t->n < end) {
		uint32_t c = 0x4e00 + rng_below(rng, 0x5000);

		u[0] = (char)(0xe0 | c >> 12);
		u[1] = (char)(0x80 | (c >> 6 & 0x3f));
		u[2] = (char)(0x80 | (c & 0x3f));
		add(t, u, 3);
		if (rng_below(rng, 16) == 0)
			adds(t, "\xef\xbc\x8c");
		if (rng_below(rng, 64) == 0)
			adds(t, "\\n");
	}
}

static void code(struct rng *rng, struct text *t, size_t n)
{
	static const char *const lines[] = {
		"static int parse(const char *p, size_t n)\\n{\\n", "\\tif (n == 0)\\n\\t\\treturn -1;\\n",
		"\\tprintf(\\\"%s: %d\\\\n\\\", name, (int)n);\\n", "\\tfor (i = 0; i < n; i++)\\n",
		"\\t\\tsum += table[p[i] & 0xff];\\n", "}\\n\\n", "#include \\\"agent/base/json.h\\\"\\n",
	};
	size_t end = t->n + n;

	while (t->n < end)
		adds(t, lines[rng_below(rng, 7)]);
}

typedef void speak(struct rng *rng, struct text *t, size_t n);

/* A conversation of about <n> bytes: a system text, then turns of 200 to 2000 bytes. */
static struct text chat(speak *say, size_t n)
{
	struct text t = { malloc(2 * n + 65536), 0, 2 * n + 65536 };
	struct rng rng;
	bool user = true;

	rng_init(&rng, 1);
	if (t.p == NULL)
		abort();
	adds(&t, "{\"messages\":[{\"role\":\"system\",\"content\":\"");
	say(&rng, &t, n / 8);
	while (t.n < n) {
		adds(&t,
		    user ? "\"},{\"role\":\"user\",\"content\":\""
			 : "\"},{\"role\":\"assistant\",\"content\":\"");
		say(&rng, &t, user ? 200 : 200 + rng_below(&rng, 1800));
		user = !user;
	}
	adds(&t, "\"}],\"model\":\"llama-3.3-70b\",\"stream\":true,\"temperature\":0.7}");
	return t;
}

static struct text tools(size_t n)
{
	struct text t = { malloc(n + 65536), 0, n + 65536 };
	int i;

	if (t.p == NULL)
		abort();
	adds(&t, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"tools\":[");
	for (i = 0; t.n < n; i++) {
		char s[512];

		snprintf(s, sizeof(s),
		    "%s{\"type\":\"function\",\"function\":{\"name\":\"get_%d\",\"description\":"
		    "\"Look up the thing with this number, and say what it is.\",\"parameters\":{\"type\":"
		    "\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"limit\":{\"type\":\"integer\","
		    "\"minimum\":1}},\"required\":[\"id\"]}}}",
		    i ? "," : "", i);
		adds(&t, s);
	}
	adds(&t, "]}");
	return t;
}

static struct text ids(size_t n)
{
	struct text t = { malloc(n + 65536), 0, n + 65536 };
	struct rng rng;
	char s[16];

	rng_init(&rng, 1);
	if (t.p == NULL)
		abort();
	adds(&t, "{\"prompt\":[1");
	while (t.n < n) {
		snprintf(s, sizeof(s), ",%u", rng_below(&rng, 128256));
		adds(&t, s);
	}
	adds(&t, "],\"model\":\"m\"}");
	return t;
}

/* ---- timing ---- */

struct job {
	const struct text *t;
	struct body *b;
	enum prompt_api api;
	const struct json_scan *scan;
	char *to;
	uint64_t sum;
};

static void count_event(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	*(uint64_t *)arg += text.n;
}

static void do_scan(struct job *x)
{
	struct json j;

	json_init(&j, 128, count_event, &x->sum);
	j.scan = x->scan;
	if (json_feed(&j, x->t->p, x->t->n) != JSON_DONE)
		abort();
}

static void do_body(struct job *x)
{
	body_reset(x->b, x->api);
	if (body_feed(x->b, x->t->p, x->t->n) != JSON_DONE)
		abort();
	x->sum += body_prompt(x->b)->messages.n;
}

static void do_copy(struct job *x)
{
	memcpy(x->to, x->t->p, x->t->n);
	__asm__ volatile("" : : "r"(x->to) : "memory");
}

static void do_read(struct job *x)
{
	uint64_t sum = 0, w;
	size_t i;

	for (i = 0; i + 8 <= x->t->n; i += 8) {
		memcpy(&w, x->t->p + i, 8);
		sum ^= w;
	}
	x->sum += sum;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Microseconds of one call: the median and the best of ROUNDS, each over enough calls to be seen.
 */
static void measure(void (*f)(struct job *), struct job *x, double *p50, double *best)
{
	double us[ROUNDS], start;
	size_t calls = 1 + 400000 / x->t->n, i, k;

	for (i = 0; i < 3; i++)
		f(x);
	for (i = 0; i < ROUNDS; i++) {
		start = now_us();
		for (k = 0; k < calls; k++)
			f(x);
		us[i] = (now_us() - start) / (double)calls;
	}
	qsort(us, ROUNDS, sizeof(us[0]), by_value);
	*p50 = us[ROUNDS / 2];
	*best = us[0];
}

static const char *cpu(void)
{
	static char line[256];
	FILE *f = fopen("/proc/cpuinfo", "r");
	char *p = NULL, *q;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "model name", 10) == 0 && (p = strchr(line, ':')) != NULL)
			break;
	if (f != NULL)
		fclose(f);
	if (p == NULL)
		return "unknown";
	for (q = p += 2; *q != '\0'; q++)
		*q = *q == ' ' ? '_' : *q == '\n' ? '\0' : *q;
	return p;
}

static void bench_scan(const char *what, const struct text *t)
{
	static const struct json_scan *const forms[] = {
		&json_scan_plain,
#ifdef __x86_64__
		&json_scan_sse2, &json_scan_avx2,
#elif SIMD16
		&json_scan_neon,
#endif
	};
	struct job x = { .t = t };
	double p50, best, gbs = (double)t->n / 1e3;
	size_t i;

	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (i == 2 && json_scan_best() != forms[i])
			continue;
		x.scan = forms[i];
		measure(do_scan, &x, &p50, &best);
		printf("bench scan_%s isa=%s bytes=%zu p50_gbs=%.2f best_gbs=%.2f\n", what, forms[i]->name,
		       t->n, gbs / p50, gbs / best);
	}
}

static void bench_body(const char *what, enum prompt_api api, const struct text *t, struct body *b)
{
	struct job x = { .t = t, .b = b, .api = api };
	double p50, best;

	measure(do_body, &x, &p50, &best);
	printf("bench body_%s bytes=%zu pages=%zu p50_us=%.2f best_us=%.2f\n", what, t->n,
	       body_prompt(b)->messages.n + body_prompt(b)->tools.n, p50, best);
}

static void bench_limit(const struct text *t)
{
	struct job x = { .t = t, .to = malloc(t->n) };
	double copy, read, best;

	if (x.to == NULL)
		abort();
	measure(do_copy, &x, &copy, &best);
	measure(do_read, &x, &read, &best);
	printf("bench limit bytes=%zu copy_us=%.2f copy_gbs=%.2f read_us=%.2f read_gbs=%.2f\n", t->n, copy,
	       (double)t->n / 1e3 / copy, read, (double)t->n / 1e3 / read);
	free(x.to);
}

int main(void)
{
	static const size_t sizes[] = { 16 << 10, 128 << 10, 1 << 20 };
	static const char *const names[] = { "16k", "128k", "1m" };
	struct prompt_opts o;
	struct hash_key key;
	struct body *b;
	struct rng rng;
	char what[32];
	size_t i, k;

	rng_init(&rng, 3);
	for (i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&rng);
	prompt_defaults(&o);
	b = body_new(&o, &key);
	if (b == NULL)
		return 1;
	printf("bench conditions cpu=%s compiler=%s isa=%s rounds=%d\n", cpu(),
#ifdef __clang__
	       "clang-" __clang_version__,
#else
	       "gcc-" __VERSION__,
#endif
	       json_scan_best()->name,
	       ROUNDS);
	for (i = 0; i < 3; i++) {
		struct text t[] = { chat(prose, sizes[i]), chat(chinese, sizes[i]), chat(code, sizes[i]),
				    tools(sizes[i]), ids(sizes[i]) };
		static const char *const kinds[] = { "prose", "chinese", "code", "tools", "ids" };

		bench_limit(&t[0]);
		for (k = 0; k < 5; k++) {
			snprintf(what, sizeof(what), "%s_%s", kinds[k], names[i]);
			if (i == 1)
				bench_scan(what, &t[k]);
			bench_body(what, k == 4 ? API_COMPLETIONS : API_CHAT, &t[k], b);
			free(t[k].p);
		}
	}
	body_free(b);
	return 0;
}
