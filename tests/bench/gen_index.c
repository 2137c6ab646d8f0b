/* gen_index.c - write workload files for bench_index and for other programs that read PBW1
 * (index/pbw1.h).
 *
 *   gen_index NAME OUT          syn1k, syn8k, syn64k, syn1kbig; syntest: a small one, for tests
 *   gen_index moon OUT TRACE    the Mooncake conversation trace, a JSON object in each line
 *   gen_index check FILE        read FILE as bench_index does; print its first error
 *
 * The same name always gives the same bytes, because the random seed is fixed.
 *
 * syn: each prompt is a system prompt of a quarter of L tokens, shared by many, and then the
 * conversation. A session has four turns, each adding 3/16 L, less up to 15 tokens so that prompts
 * end anywhere in a page. 512 sessions are open at a time, and a random one continues. About 73 %
 * of the requested pages exist already. moon: each hash_id stands for 512 tokens, always the same,
 * cut at input_length. A request belongs to the conversation that used its deepest known block
 * last, except the first block, which all share.
 *
 * The key of an operation is its session's own, or in one of ten a random one, which selects
 * another server. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/rng.h"
#include "tests/bench/index/pbw1.h"

#define PAGE		16u
#define TURNS		4u
#define LIVE		512u
#define TOKENS		128000u		/* ids are below */
#define BLOCK		512u		/* tokens of a hash_id */
#define BLOCKS_MAX	65536u		/* of a request */
#define IDS_MAX		(1u << 26)

struct syn {
	const char *name;
	uint32_t length, systems, sessions;
};

static const struct syn syns[] = {
	{ "syn1k", 1024, 32, 10000 },
	{ "syn8k", 8192, 32, 1500 },
	{ "syn64k", 65536, 8, 200 },
	{ "syn1kbig", 1024, 512, 100000 },
	{ "syntest", 512, 4, 60 },
};

static int fail(const char *what, const char *of)
{
	fprintf(stderr, "gen_index: %s: %s\n", of, what);
	return 1;
}

static uint64_t mix(uint64_t x)		/* splitmix64: no state, so that any token can be asked for */
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static void fill(uint32_t *out, uint64_t of, uint32_t from, uint32_t to)
{
	uint64_t seed = mix(of);
	uint32_t i;

	for (i = from; i < to; i++)
		out[i] = (uint32_t)(((mix(seed ^ i) >> 32) * TOKENS) >> 32);
}

static uint32_t key_of(struct rng *rng, uint64_t session)
{
	bool anywhere = rng_below(rng, 10) == 0;
	uint32_t random = (uint32_t)(rng_next(rng) >> 32);

	return anywhere ? random : (uint32_t)(mix(session ^ 0x6b65790000000000ull) >> 32);
}

/* ---- sessions that grow ------------------------------------------------------------------ */

static int put_turn(struct pbw1_out *o, const struct syn *s, struct rng *rng, uint32_t *tokens,
		    uint32_t session, uint32_t turn)
{
	uint32_t system = s->length / 4;
	uint32_t n = system + s->length * 3 / 16 * turn - rng_below(rng, PAGE);

	fill(tokens, 1u << 30 | mix(session) % s->systems, 0, system);
	fill(tokens, session, system, n);
	return pbw1_put(o, key_of(rng, session), tokens, n);
}

static int make_syn(struct pbw1_out *o, const struct syn *s)
{
	struct { uint32_t session, turn; } live[LIVE];
	uint32_t n_live = 0, next = 0, i;
	uint32_t *tokens = malloc((size_t)s->length * 4);
	struct rng rng;
	int rc = tokens ? 0 : -1;

	rng_init(&rng, s->length + s->sessions);
	while (rc == 0) {
		while (n_live < LIVE && next < s->sessions) {
			live[n_live].session = next++;
			live[n_live++].turn = 0;
		}
		if (n_live == 0)
			break;
		i = rng_below(&rng, n_live);
		rc = put_turn(o, s, &rng, tokens, live[i].session, ++live[i].turn);
		if (live[i].turn == TURNS)
			live[i] = live[--n_live];
	}
	free(tokens);
	return rc;
}

/* ---- the Mooncake trace ------------------------------------------------------------------ */

struct moon {
	uint32_t *talk;			/* by hash_id: the conversation that used it last, 0: none */
	uint32_t n_ids, n_talks;
	uint32_t *ids, *tokens;		/* of one request */
	struct rng rng;
};

/* The numbers of "hash_ids": [...]; 0: there are none, or too many. */
static uint32_t read_ids(const char *line, uint32_t *ids)
{
	const char *p = strstr(line, "\"hash_ids\"");
	uint32_t n = 0;
	unsigned long v;
	char *end;

	if (p == NULL || (p = strchr(p, '[')) == NULL)
		return 0;
	do {
		v = strtoul(++p, &end, 10);
		if (end == p || v >= IDS_MAX || n == BLOCKS_MAX)
			return 0;
		ids[n++] = (uint32_t)v;
		p = end;
	} while (*p == ',');
	return *p == ']' ? n : 0;
}

static int know_ids(struct moon *m, uint32_t most)
{
	uint32_t n = m->n_ids ? m->n_ids : 4096;
	uint32_t *p;

	while (n <= most)
		n *= 2;
	if (n == m->n_ids)
		return 0;
	if ((p = realloc(m->talk, (size_t)n * 4)) == NULL)
		return -1;
	memset(p + m->n_ids, 0, (size_t)(n - m->n_ids) * 4);
	m->talk = p;
	m->n_ids = n;
	return 0;
}

static uint32_t talk_of(struct moon *m, uint32_t n)
{
	uint32_t i, talk = 0;

	for (i = n - 1; i > 0 && talk == 0; i--)
		talk = m->talk[m->ids[i]];
	if (talk == 0)
		talk = ++m->n_talks;
	for (i = 0; i < n; i++)
		m->talk[m->ids[i]] = talk;
	return talk;
}

static int put_request(struct pbw1_out *o, struct moon *m, const char *line)
{
	const char *p = strstr(line, "\"input_length\":");
	uint32_t n = read_ids(line, m->ids), most = 0, i;
	unsigned long length;

	if (p == NULL || n == 0)
		return -1;
	length = strtoul(p + strlen("\"input_length\":"), NULL, 10);
	if (length > (unsigned long)n * BLOCK)
		length = (unsigned long)n * BLOCK;
	for (i = 0; i < n; i++)
		most = m->ids[i] > most ? m->ids[i] : most;
	if (know_ids(m, most) < 0)
		return -1;
	for (i = 0; i < n; i++)
		fill(m->tokens + (size_t)i * BLOCK, 1ull << 40 | m->ids[i], 0, BLOCK);
	return pbw1_put(o, key_of(&m->rng, 1ull << 41 | talk_of(m, n)), m->tokens, (uint32_t)length);
}

static int make_moon(struct pbw1_out *o, const char *trace)
{
	struct moon m = { .ids = malloc(BLOCKS_MAX * 4),
		.tokens = malloc((size_t)BLOCKS_MAX * BLOCK * 4) };
	FILE *f = fopen(trace, "r");
	char *line = NULL;
	size_t cap = 0;
	int rc = f && m.ids && m.tokens ? 0 : -1;

	rng_init(&m.rng, 25);
	while (rc == 0 && getline(&line, &cap, f) > 0)
		rc = put_request(o, &m, line);
	if (rc < 0)
		fprintf(stderr, "gen_index: %s: line %llu cannot be read\n", trace,
			(unsigned long long)o->n_ops + 1);
	if (f)
		fclose(f);
	free(line);
	free(m.ids);
	free(m.tokens);
	free(m.talk);
	return rc;
}

/* ---- the command ------------------------------------------------------------------------- */

static int make(const char *name, struct pbw1_out *o, const char *trace)
{
	size_t i;

	if (strcmp(name, "moon") == 0)
		return trace ? make_moon(o, trace) : -1;
	for (i = 0; i < sizeof(syns) / sizeof(*syns); i++)
		if (strcmp(name, syns[i].name) == 0)
			return make_syn(o, &syns[i]);
	return -1;
}

static int check(const char *path)
{
	struct pbw1 w;
	char why[256];

	if (pbw1_open(&w, path, why, sizeof(why)) < 0) {
		fprintf(stderr, "gen_index: %s\n", why);
		return 1;
	}
	printf("%s: page %u, %llu operations, %llu tokens, longest %u\n", path, w.page,
	       (unsigned long long)w.n_ops, (unsigned long long)w.n_tokens, w.longest);
	pbw1_close(&w);
	return 0;
}

int main(int argc, char **argv)
{
	struct pbw1_out o;
	char temp[4096];

	if (argc == 3 && strcmp(argv[1], "check") == 0)
		return check(argv[2]);
	if (argc < 3 || argc > 4) {
		fprintf(stderr,
		    "usage: gen_index syn1k|syn8k|syn64k|syn1kbig|syntest OUT | moon OUT TRACE | check FILE\n");
		return 2;
	}
	/* under another name until it is whole */
	if (snprintf(temp, sizeof(temp), "%s.part", argv[2]) >= (int)sizeof(temp))
		return fail("too long a name", argv[2]);
	if (pbw1_create(&o, temp, PAGE) < 0)
		return fail("cannot be written", temp);
	if (make(argv[1], &o, argc == 4 ? argv[3] : NULL) < 0 || pbw1_finish(&o) < 0) {
		remove(temp);
		return fail("not made", argv[1]);
	}
	return rename(temp, argv[2]) == 0 ? 0 : fail("cannot be renamed", temp);
}
