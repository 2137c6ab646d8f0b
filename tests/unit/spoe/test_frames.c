/* test_frames.c - run every case of tests/data/spop/ through a connection: the bytes as a whole,
 * byte by byte, cut in two at every place, and cut short. Events and answers must not depend on the
 * pieces.
 *
 * With the name of a file it prints the result of each case, to be reviewed and stored in the file:
 *	test_frames tests/data/spop/hello.hex */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/spoe/story.h"

#define DIR_OF_CASES	"tests/data/spop"
#define CUTS_MAX	600	/* of long cases, about so many cuts are tried, spread evenly */

static struct spop_conn_opts case_opts(const struct hex_case *c)
{
	struct spop_conn_opts o;

	spop_conn_defaults(&o);
	o.max_frame_size = (uint32_t)hex_opt(c, "max_frame_size", o.max_frame_size);
	o.max_joined = (size_t)hex_opt(c, "max_joined", (long)o.max_joined);
	o.max_open = (unsigned)hex_opt(c, "max_open", o.max_open);
	return o;
}

static void begin(struct story *s, const struct hex_case *c)
{
	struct spop_conn_opts o = case_opts(c);

	story_begin(s, &o);
}

static void must_be(const char *file, const struct hex_case *c, const char *how, size_t cut,
		    const struct story *s, const struct story *good)
{
	if (strcmp(s->log, good->log) == 0 && s->n_out == good->n_out &&
	    memcmp(s->out, good->out, s->n_out) == 0)
		return;
	fail_msg("%s:%d: %s: %s at %zu gives\n%s\nand not\n%s", file, c->line, c->name, how, cut, s->log,
		 good->log);
}

static size_t stride(const struct hex_case *c)
{
	return c->in.n / CUTS_MAX + 1;
}

/* ---- checks of each case; <s> is the result of the whole case -------------------------- */

static void as_expected(const char *file, const struct hex_case *c, const struct story *whole)
{
	if (strcmp(c->expect ? c->expect : "", whole->log) != 0)
		fail_msg("%s:%d: %s gives\n%s\nand not\n%s", file, c->line, c->name, whole->log,
			 c->expect);
}

static void byte_by_byte(const char *file, const struct hex_case *c, const struct story *whole)
{
	static struct story s;
	size_t i;

	begin(&s, c);
	for (i = 0; i < c->in.n; i++)
		story_feed(&s, c->in.p + i, 1);
	must_be(file, c, "byte by byte", 0, &s, whole);
	story_end(&s);
}

static void every_cut(const char *file, const struct hex_case *c, const struct story *whole)
{
	static struct story s;
	size_t cut;

	for (cut = 0; cut <= c->in.n; cut += stride(c)) {
		begin(&s, c);
		story_feed(&s, c->in.p, cut);
		story_feed(&s, c->in.p + cut, c->in.n - cut);
		must_be(file, c, "cut", cut, &s, whole);
		story_end(&s);
	}
}

static void every_prefix(const char *file, const struct hex_case *c, const struct story *whole)
{
	static struct story s;
	size_t n;

	for (n = 0; n < c->in.n; n += stride(c)) {
		begin(&s, c);
		story_feed(&s, c->in.p, n);
		if (strncmp(whole->log, s.log, s.n_log) != 0 || s.n_out > whole->n_out ||
		    memcmp(s.out, whole->out, s.n_out) != 0)
			fail_msg("%s:%d: %s: the first %zu bytes give\n%s\nwhich does not begin\n%s",
				 file, c->line, c->name, n, s.log, whole->log);
		story_end(&s);
	}
}

/* Change each byte of the input in three ways: only the events may differ. */
static void every_byte_changed(
    const char *file, const struct hex_case *c, const struct story *whole)
{
	static const uint8_t masks[] = { 0x01, 0x80, 0xff };
	static struct story s;
	size_t i, k;

	for (i = 0; i < c->in.n; i += stride(c)) {
		for (k = 0; k < sizeof(masks); k++) {
			c->in.p[i] ^= masks[k];
			begin(&s, c);
			story_feed(&s, c->in.p, c->in.n);
			if (strstr(s.log, "it took") || strstr(s.log, "it wants") ||
			    strstr(s.log, "no frame") || strstr(s.log, "did not fit"))
				fail_msg("%s:%d: %s: byte %zu changed by %02x gives\n%s", file, c->line,
					 c->name, i, masks[k], s.log);
			story_end(&s);
			c->in.p[i] ^= masks[k];
		}
	}
}

/* ---- over all files -------------------------------------------------------------------- */

typedef void trial(const char *file, const struct hex_case *c, const struct story *whole);

static unsigned try_file(const char *path, trial *t)
{
	static struct story whole;
	FILE *f = fopen(path, "r");
	struct hex_case c;
	unsigned n = 0;
	int line = 1;

	if (!f)
		fail_msg("cannot read %s", path);
	while (hex_next(f, &line, &c)) {
		begin(&whole, &c);
		story_feed(&whole, c.in.p, c.in.n);
		t(path, &c, &whole);
		story_end(&whole);
		hex_case_free(&c);
		n++;
	}
	fclose(f);
	return n;
}

static void try_all(trial *t)
{
	DIR *dir = opendir(DIR_OF_CASES);
	unsigned n = 0;
	struct dirent *d;
	char path[512];
	size_t len;

	if (!dir)
		fail_msg("cannot read " DIR_OF_CASES ": run this at the top of the tree");
	while ((d = readdir(dir)) != NULL) {
		len = strlen(d->d_name);
		if (len < 4 || strcmp(d->d_name + len - 4, ".hex") != 0)
			continue;
		snprintf(path, sizeof(path), DIR_OF_CASES "/%s", d->d_name);
		n += try_file(path, t);
	}
	closedir(dir);
	assert_in_range(n, 60, 10000);	/* fewer: files were lost */
}

static void test_expected(void **state)		{ try_all(as_expected); }
static void test_byte_by_byte(void **state)	{ try_all(byte_by_byte); }
static void test_every_cut(void **state)	{ try_all(every_cut); }
static void test_every_prefix(void **state)	{ try_all(every_prefix); }
static void test_changed(void **state)		{ try_all(every_byte_changed); }

static void print(const char *file, const struct hex_case *c, const struct story *whole)
{
	printf("case   %s\n%s\n", c->name, whole->log);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_expected),
		cmocka_unit_test(test_byte_by_byte),
		cmocka_unit_test(test_every_cut),
		cmocka_unit_test(test_every_prefix),
		cmocka_unit_test(test_changed),
	};

	if (argc > 1) {
		try_file(argv[1], print);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
