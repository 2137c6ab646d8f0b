/* test_script.c - runs the scripts in tests/data/index: each line a command; behind "->", or on
 * lines that begin with '|', the answer that is expected. UPDATE=1 in the environment rewrites the
 * answers instead.
 *
 * 	page N              from here on N words are a page (default 1); words are hex bytes
 * 	space NAME          go on in that space
 * 	add S WORDS         commit for server S, a letter; answers the number of the claim
 * 	hold S WORDS        add and confirm
 * 	match WORDS         answers server:pages, deepest first, or none
 * 	confirm N, cancel N, drop S
 * 	evict N             forget the N oldest records; answers how many went
 * 	pages S             pages of a server, over all spaces
 * 	dump                the tree of the space
 * 	order O             lru lfu fifo mru filo priority; all servers are dropped
 * 	capacity S N        pages that server S has room for
 * 	at N                from here on it is tick N
 * 	keep S P WORDS      as hold, with the priority P
 * 	tick                evict all that is over a capacity; answers how many pages went
 *
 * A page's key is its words, so that a dump can be read. After each command everything is checked.
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/index/claim_in.h"
#include "tests/lib/index/index_test.h"

#define MAX_LINE	1024
#define MAX_PAGES	256
#define MAX_CLAIMS	256

struct script {
	struct index *ix;
	struct index_match m;
	struct space_key space;
	unsigned page;
	msec now;
	index_claim claims[MAX_CLAIMS];
	unsigned n_claims;
	char *text;		/* the file as it should be */
	size_t n;
	FILE *out;
};

static size_t parse_pages(const struct script *s, char *words, page_key *keys)
{
	size_t n = 0;
	unsigned i = 0;
	page_key k = 0;
	char *w, *save;

	for (w = strtok_r(words, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
		k = k << 8 | strtoul(w, NULL, 16);
		if (++i < s->page)
			continue;
		assert_true(n < MAX_PAGES);
		keys[n++] = k;
		k = 0;
		i = 0;
	}
	return n;		/* a part page is dropped, as everywhere */
}

static void answer_match(struct script *s, const page_key *keys, size_t n)
{
	uint32_t i;
	server_id id;

	index_match(s->ix, &s->space, keys, n, &s->m);
	if (s->m.n_bands == 0)
		fprintf(s->out, " none");
	for (i = 0; i < s->m.n_bands; i++)
		for (id = 0; id < 26; id++)
			if (server_set_has(&s->m.bands[i].servers, id))
				fprintf(s->out, " %c:%u", 'a' + id, s->m.bands[i].depth);
}

static void answer_add(struct script *s, server_id server, const page_key *keys, size_t n,
    bool hold, unsigned priority)
{
	index_claim c = index_commit(s->ix, &s->space, keys, n, NULL, server, s->now, priority);

	if (c == 0) {
		fprintf(s->out, " refused");
		return;
	}
	if (hold) {
		index_confirm(s->ix, c, s->now);
		fprintf(s->out, " held");
		return;
	}
	assert_true(s->n_claims < MAX_CLAIMS);
	s->claims[s->n_claims++] = c;
	fprintf(s->out, " %u", s->n_claims);
}

/* Print the servers after the pages of a node as letters. */
static void put_dump(void *arg, const char *text, size_t n)
{
	struct script *s = arg;
	bool pages = true, start = true;
	char *end, before = 0;
	size_t i;

	for (i = 0; i < n; before = text[i++]) {
		if (start)
			fprintf(s->out, "\n| ");
		start = text[i] == '\n';
		pages = start || (pages && text[i] != ']');
		if (!pages && before == ' ' && text[i] >= '0' && text[i] <= '9') {
			fputc('a' + (int)strtoul(text + i, &end, 10), s->out);
			i = (size_t)(end - text) - 1;
		} else if (!start) {
			fputc(text[i], s->out);
		}
	}
}

/* Evict the oldest records. One shard, so its oldest is the oldest of all. */
static unsigned evict(struct index *ix, unsigned n)
{
	unsigned gone = 0;
	const struct record *r;

	for (; n > 0 && ix->shards[0].tenants[0].by_age.first != 0; n--, gone++) {
		r = at(ix, ix->shards[0].tenants[0].by_age.first);
		record_cut(ix, r->node, r->server, (struct cut){ 1, EDGE_MAX, UINT64_MAX, true, false });
	}
	return gone;
}

static unsigned tick(struct index *ix)
{
	struct index_stats was, st;

	index_stats(ix, &was);
	while (index_tick(ix))
		;
	index_stats(ix, &st);
	return (unsigned)(st.evicted_pages - was.evicted_pages);
}

static void set_order(struct index *ix, const char *name)
{
	static const char *const names[] = { "lru", "lfu", "fifo", "mru", "filo", "priority" };
	unsigned o = 0;
	server_id id;

	while (o < 6 && strcmp(names[o], name) != 0)
		o++;
	assert_true(o < 6);
	for (id = 0; id < 26; id++) {
		index_drop_server(ix, id);
		index_set_order(ix, id, (enum index_order)o);
		index_set_capacity(ix, id, 0);
	}
}

static void run_command(struct script *s, char *line)
{
	char *save, *cmd = strtok_r(line, " \t", &save), *arg;
	page_key keys[MAX_PAGES];
	const char *bad;

	if (strcmp(cmd, "dump") == 0) {
		index_dump(s->ix, &s->space, put_dump, s);
		return;
	}
	if (strcmp(cmd, "match") == 0) {
		fprintf(s->out, "  ->");
		answer_match(s, keys, parse_pages(s, save, keys));
		return;
	}
	if (strcmp(cmd, "tick") == 0) {
		fprintf(s->out, "  -> %u", tick(s->ix));
		return;
	}
	arg = strtok_r(NULL, " \t", &save);
	assert_non_null(arg);
	if (strcmp(cmd, "page") == 0) {
		s->page = (unsigned)strtoul(arg, NULL, 10);
	} else if (strcmp(cmd, "space") == 0) {
		s->space = (struct space_key){ .h = { (uint8_t)arg[0], (uint8_t)arg[1] } };
	} else if (strcmp(cmd, "add") == 0 || strcmp(cmd, "hold") == 0) {
		fprintf(s->out, "  ->");
		answer_add(s, (server_id)(arg[0] - 'a'), keys, parse_pages(s, save, keys),
			   cmd[0] == 'h', 0);
	} else if (strcmp(cmd, "keep") == 0) {
		unsigned priority = (unsigned)strtoul(strtok_r(NULL, " \t", &save), NULL, 10);

		fprintf(s->out, "  ->");
		answer_add(s, (server_id)(arg[0] - 'a'), keys, parse_pages(s, save, keys), true, priority);
	} else if (strcmp(cmd, "order") == 0) {
		set_order(s->ix, arg);
	} else if (strcmp(cmd, "capacity") == 0) {
		index_set_capacity(s->ix, (server_id)(arg[0] - 'a'), strtoul(save, NULL, 10));
	} else if (strcmp(cmd, "at") == 0) {
		s->now = strtoul(arg, NULL, 10) * 16;
	} else if (strcmp(cmd, "confirm") == 0) {
		index_confirm(s->ix, s->claims[strtoul(arg, NULL, 10) - 1], s->now);
	} else if (strcmp(cmd, "cancel") == 0) {
		index_cancel(s->ix, s->claims[strtoul(arg, NULL, 10) - 1]);
	} else if (strcmp(cmd, "drop") == 0) {
		index_drop_server(s->ix, (server_id)(arg[0] - 'a'));
	} else if (strcmp(cmd, "evict") == 0) {
		fprintf(s->out, "  -> %u", evict(s->ix, (unsigned)strtoul(arg, NULL, 10)));
	} else if (strcmp(cmd, "pages") == 0) {
		fprintf(s->out, "  -> %u",
			(unsigned)index_server_room(s->ix, (server_id)(arg[0] - 'a')));
	} else {
		fail_msg("unknown command: %s", cmd);
	}
	if ((bad = index_check(s->ix)) != NULL)
		fail_msg("after %s: %s", cmd, bad);
}

/* Write the line without its answer, then the actual answer. */
static void run_line(struct script *s, char *line)
{
	char *arrow, *p;

	line[strcspn(line, "\n")] = '\0';
	if (line[0] == '|')
		return;
	if (line[0] == '#' || line[strspn(line, " \t")] == '\0') {
		fprintf(s->out, "%s\n", line);
		return;
	}
	if ((arrow = strstr(line, "->")) != NULL)
		*arrow = '\0';
	for (p = line + strlen(line); p > line && (p[-1] == ' ' || p[-1] == '\t'); )
		*--p = '\0';
	fputs(line, s->out);
	run_command(s, line);
	fputc('\n', s->out);
}

static char *run_file(const char *path)
{
	struct script s = { .page = 1 };
	struct index_opts o;
	char line[MAX_LINE];
	FILE *in = fopen(path, "r");

	assert_non_null(in);
	index_defaults(&o);
	o.max_bytes = 1 << 20;
	o.shards = 1;
	o.mixed = true;
	assert_non_null(s.ix = index_new(&o));
	assert_int_equal(index_match_init(&s.m), 0);
	assert_non_null(s.out = open_memstream(&s.text, &s.n));
	while (fgets(line, sizeof(line), in) != NULL)
		run_line(&s, line);
	fclose(in);
	fclose(s.out);
	index_match_fini(&s.m);
	index_free(s.ix);
	return s.text;
}

static char *read_file(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = calloc(1, 1 << 16);

	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
	fclose(f);
	return text;
}

/* Show the first line that differs. Returns false if there is one. */
static bool same_text(const char *path, const char *want, const char *got)
{
	unsigned line = 1;
	size_t w, g;

	for (;; line++, want += w + 1, got += g + 1) {
		w = strcspn(want, "\n");
		g = strcspn(got, "\n");
		if (w != g || strncmp(want, got, w) != 0)
			break;
		if (want[w] == '\0' || got[g] == '\0')
			return want[w] == got[g];
	}
	print_error("%s:%u:\n-%.*s\n+%.*s\n", path, line, (int)w, want, (int)g, got);
	return false;
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void scripts(void **state)
{
	const char *update = getenv("UPDATE");
	unsigned wrong = 0;
	char *want, *got;
	glob_t g;
	size_t i;

	assert_int_equal(glob("tests/data/index/*.txt", 0, NULL, &g), 0);
	for (i = 0; i < g.gl_pathc; i++) {
		want = read_file(g.gl_pathv[i]);
		got = run_file(g.gl_pathv[i]);
		if (update != NULL && strcmp(want, got) != 0)
			write_file(g.gl_pathv[i], got);
		else
			wrong += !same_text(g.gl_pathv[i], want, got);
		free(want);
		free(got);
	}
	assert_true(g.gl_pathc >= 5);
	globfree(&g);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(scripts) };

	return cmocka_run_group_tests_name("index scripts", tests, NULL, NULL);
}
