/* test_hastats.c - HAProxy's "show stat" as rows. The files in tests/data/hastats/ are answers of
 * 2.6, 3.0 and 3.2 with servers in all states that record.py there could produce. The tables here
 * have the words and forms that it could not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/feed/hastats.h"
#include "tests/unit/edge.h"

#define HEADER	"# pxname,svname,qcur,qmax,scur,status,weight,type,last_chk,\n"

static const char *const state_words[] = { "up", "down", "drain", "maint" };

/* The result of an answer as text: one line a row, the end last. */
struct told {
	char text[64 << 10];
	size_t n;
};

static void tell(void *arg, const struct hastats_row *r)
{
	struct told *t = arg;

	if (sizeof(t->text) - t->n > 400)
		t->n += (size_t)sprintf(t->text + t->n, SPAN_FMT "/" SPAN_FMT " %s w%u s%u q%u%s%s" SPAN_FMT "\n",
					SPAN_ARG(r->pool), SPAN_ARG(r->server), state_words[r->state],
					r->weight, r->sessions, r->queue, r->backup ? " backup" : "",
					r->address.n ? " @" : "", SPAN_ARG(r->address));
}

static void tell_end(struct told *t, const struct hastats *h, ssize_t rc, size_t fed)
{
	if (rc < 0)
		t->n += (size_t)sprintf(t->text + t->n, "%s%s%s%s%s\n", hastats_strerror((int)rc),
					h->said[0] ? ": " : "", h->said, h->missing ? ": " : "",
					h->missing ? h->missing : "");
	else if (rc > 0)
		t->n += (size_t)sprintf(t->text + t->n, "end\n");
	else
		t->n += (size_t)sprintf(t->text + t->n, "more after %zu\n", fed);
	if (h->bad_rows)
		t->n += (size_t)sprintf(t->text + t->n, "bad %d\n", (int)h->bad_rows);
	t->text[t->n] = '\0';
}

/* Feeds <p> in pieces of <size> bytes, each of which ends at an unreadable page. */
static struct told *feed(const char *p, size_t n, size_t size)
{
	static struct hastats h;
	static struct told told[2];
	static int turn;
	struct told *t = &told[turn ^= 1];
	ssize_t rc = 0;
	size_t used = 0;

	t->n = 0;
	hastats_init(&h, tell, t);
	while (rc == 0 && used < n) {
		size_t k = n - used < size ? n - used : size;
		uint8_t *edge = edge_copy(p + used, k);

		rc = hastats_feed(&h, edge, k);
		edge_free(edge, k);
		used += rc > 0 ? (size_t)rc : k;
	}
	assert_int_equal(hastats_feed(&h, NULL, 0), rc < 0 ? rc : 0);
	tell_end(t, &h, rc, used);
	return t;
}

/* An answer cut at any byte gives the same result as the whole. */
static void feed_all_cuts(const char *name, const char *p, size_t n, const char *want)
{
	struct told *whole = feed(p, n, n ? n : 1);

	if (strcmp(whole->text, want) != 0)
		fail_msg("%s: got\n%sexpected\n%s", name, whole->text, want);
	for (size_t cut = 1; cut <= 7; cut += 2) {
		struct told *t = feed(p, n, cut);

		if (strcmp(t->text, want) != 0)
			fail_msg("%s, %zu bytes a time: got\n%sexpected\n%s", name, cut, t->text, want);
	}
}

static const struct { const char *name, *answer, *want;
} cases[] = {
	{ "one row", HEADER "pool,s1,3,4,5,UP,100,2,,\n\n", "pool/s1 up w100 s5 q3\nend\n" },
	{ "backup servers",
	    "# pxname,svname,qcur,scur,status,weight,act,bck,type\np,a,0,0,UP,1,1,0,2\n"
	    "p,b,0,0,UP,1,0,1,2\np,c,0,0,UP,1,0,,2\np,d,0,0,UP,1,0,11,2\n\n",
	    "p/a up w1 s0 q0\np/b up w1 s0 q0 backup\np/c up w1 s0 q0\np/d up w1 s0 q0\nend\n" },
	{ "addresses",
	    "# pxname,svname,addr,qcur,scur,status,weight,type\np,a,10.0.0.7:8000,0,0,UP,1,2\n"
	    "p,b,[fd00::7]:8000,0,0,UP,1,2\np,c,unix,0,0,UP,1,2\np,d,,0,0,UP,1,2\n"
	    "p,e,\"a,\"\"b\nc\",0,0,UP,1,2\np,f,\"\",0,0,UP,1,2\n\n",
	    "p/a up w1 s0 q0 @10.0.0.7:8000\np/b up w1 s0 q0 @[fd00::7]:8000\np/c up w1 s0 q0 @unix\n"
	    "p/d up w1 s0 q0\np/e up w1 s0 q0 @a,\"b\nc\np/f up w1 s0 q0\nend\n" },
	{ "no rows", HEADER "\n", "end\n" },
	{ "no end yet", HEADER "pool,s1,3,4,5,UP,100,2,,\n",
	    "pool/s1 up w100 s5 q3\nmore after 85\n" },
	{ "nothing", "", "more after 0\n" },
	{ "what is behind the end is another's", HEADER "\n1\n# be_id be_name\n", "end\n" },
	{ "every word of the status",
	    HEADER
	    "p,a,0,,0,UP 1/3,1,2,,\np,b,0,,0,no check,1,2,,\np,c,0,,0,DOWN 1/2,1,2,,\n"
	    "p,d,0,,0,DOWN (agent),1,2,,\np,e,0,,0,NOLB 1/2,1,2,,\np,f,0,,0,DRAIN (agent),1,2,,\n"
	    "p,g,0,,0,MAINT (via p/a),1,2,,\np,h,0,,0,MAINT (resolution),1,2,,\np,i,0,,0,DRAIN "
	    "1/2,1,2,,\n\n",
	    "p/a up w1 s0 q0\np/b up w1 s0 q0\np/c down w1 s0 q0\np/d down w1 s0 q0\np/e drain w1 s0 q0\n"
	    "p/f drain w1 s0 q0\np/g maint w1 s0 q0\np/h maint w1 s0 q0\np/i drain w1 s0 q0\nend\n" },
	{ "a word that we do not know",
	    HEADER "p,a,0,,0,GLAD,1,2,,\np,b,0,,0,UPPER,1,2,,\n"
		   "p,c,0,,0,,1,2,,\n\n",
	    "end\nbad 3\n" },
	{ "frontends, backends and sockets are no servers",
	    HEADER "f,FRONTEND,,,0,OPEN,,0,,\np,BACKEND,0,0,0,UP,1,1,,\nf,sock-1,,,0,OPEN,,3,,\n\n",
	    "end\n" },
	{ "types that are none",
	    HEADER "p,a,0,,0,UP,1,4,,\np,b,0,,0,UP,1,,,\np,c,0,,0,UP,1,22,,\n\n", "end\nbad 3\n" },
	{ "columns in another order, and others between them",
	    "# x,type,weight,status,scur,qcur,svname,y,pxname\n,2,7,UP,5,3,s1,,pool\n\n",
	    "pool/s1 up w7 s5 q3\nend\n" },
	{ "the first of two columns",
	    "# pxname,svname,qcur,scur,status,weight,type,weight,pxname\n"
	    "p,s,1,2,UP,3,2,9,q\n\n",
	    "p/s up w3 s2 q1\nend\n" },
	{ "a column is missing", "# pxname,svname,qcur,scur,weight,type\np,s,1,2,3,2\n\n",
	    "a column is missing: status\n" },
	{ "column names that only begin or end like ours",
	    "# pxname,svname,qcur,scur,status,weight,typ,types,atype\n",
	    "a column is missing: type\n" },
	{ "no columns", "# \n", "a column is missing: pxname\n" },
	{ "more fields than columns", HEADER "p,s,1,,2,UP,3,2,,,,,,,9,9,9\n\n",
	    "p/s up w3 s2 q1\nend\n" },
	{ "fewer, but ours", HEADER "p,s,1,,2,UP,3,2\n\n", "p/s up w3 s2 q1\nend\n" },
	{ "fewer", HEADER "p,s,1,,2,UP,3\np\n,\np,t,1,,2,UP,3,2\n\n",
	    "p/t up w3 s2 q1\nend\nbad 3\n" },
	{ "quoted, with all that needs it",
	    HEADER "\"p\",s,1,,2,\"UP\",3,2,\"a, \"\"b\"\"\nc\",\"\"\n\"p\",t,1,,2,UP,3,2,,\n\n",
	    "p/s up w3 s2 q1\np/t up w3 s2 q1\nend\n" },
	{ "an empty line inside quotes is no end", HEADER "p,s,1,,2,UP,3,2,\"\n\n\n\"\n\n",
	    "p/s up w3 s2 q1\nend\n" },
	{ "quoted column names",
	    "# \"pxname\",\"svname\",qcur,scur,status,weight,\"type\"\np,s,1,2,UP,3,2\n\n",
	    "p/s up w3 s2 q1\nend\n" },
	{ "a quote inside an unquoted field, and words behind a closing one",
	    HEADER
	    "p,s,1,,2,UP,3,2,it\"s \"fine\",\np,\"t\"x,1,,2,UP,3,2,,\np,u\"v,1,,2,UP,3,2,,\n\n",
	    "p/s up w3 s2 q1\np/tx up w3 s2 q1\nend\nbad 1\n" },
	{ "names that HAProxy does not take",
	    HEADER ",s,1,,2,UP,3,2,,\np,,1,,2,UP,3,2,,\np,a b,1,,2,UP,3,2,,\np,a/b,1,,2,UP,3,2,,\n"
		   "p,\"a\nb\",1,,2,UP,3,2,,\np,\"a,b\",1,,2,UP,3,2,,\np,\xc3\xa4,1,,2,UP,3,2,,\n"
		   "P.x_y:8-0,s.x_y:8-0,1,,2,UP,3,2,,\n\n",
	    "P.x_y:8-0/s.x_y:8-0 up w3 s2 q1\nend\nbad 7\n" },
	{ "numbers that are none",
	    HEADER "p,a,,,2,UP,3,2,,\np,b,1,,,UP,3,2,,\np,c,1,,2,UP,,2,,\np,d,-1,,2,UP,3,2,,\n"
		   "p,e,1,,2 ,UP,3,2,,\np,f,1,,2,UP,1e3,2,,\np,g,1,,2,UP,+3,2,,\n\n",
	    "end\nbad 7\n" },
	{ "numbers at their end",
	    HEADER "p,a,2147483647,,0000000002,UP,3,2,,\np,b,2147483648,,2,UP,3,2,,\n"
		   "p,c,00000000001,,2,UP,3,2,,\np,d,18446744073709551617,,2,UP,3,2,,\n\n",
	    "p/a up w3 s2 q2147483647\nend\nbad 3\n" },
	{ "Permission denied", "Permission denied\n\n",
	    "not the table that \"show stat\" gives: Permission denied\n" },
	{ "Unknown command",
	    "Unknown command, but maybe one of the following ones is a better match:\n  "
	    "show\n",
	    "not the table that \"show stat\" gives: Unknown command, but maybe one of the following ones "
	    "is "
	    "a better match:\n" },
	{ "No such proxy", "No such proxy.\n\n",
	    "not the table that \"show stat\" gives: No such "
	    "proxy.\n" },
	{ "an empty answer", "\n", "not the table that \"show stat\" gives\n" },
	{ "another server", "HTTP/1.1 400 Bad request\r\nContent-Length: 0\r\n\r\n",
	    "not the table that \"show stat\" gives: HTTP/1.1 400 Bad request?\n" },
	{ "terminal tricks", "\x1b[2J\xff#1\n",
	    "not the table that \"show stat\" gives: ?[2J?#1\n" },
	{ "a hash and no more", "#pxname,svname\n",
	    "not the table that \"show stat\" gives: "
	    "#pxname,svname\n" },
	{ "a sentence without an end is cut",
	    "12345678901234567890123456789012345678901234567890123456789012345678901234567890"
	    "123456789012345678901234567890123456789012345678901234567890",
	    "not the table that \"show stat\" gives: "
	    "1234567890123456789012345678901234567890123456789012345678901"
	    "234567890123456789012345678901234567890123456789012345678901234567\n" },
};

static void answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		feed_all_cuts(cases[i].name, cases[i].answer, strlen(cases[i].answer), cases[i].want);
}

/* ---- answers of real HAProxies ---------------------------------------------------------- */

#define AT	" @127.0.0.1:"
#define ENGINES								\
	"pool/plain up w10 s0 q0" AT "1\n"				\
	"pool/drained drain w20 s0 q0" AT "1\n"			\
	"pool/zero up w0 s0 q0" AT "1\n" "pool/off maint w1 s0 q0" AT "1\n"	\
	"pool/dead down w1 s0 q0" AT "1\n"				\
	"pool/maint maint w256 s0 q0" AT "36309\n"			\
	"pool/follows down w1 s0 q0" AT "1\n"				\
	"pool/also-maint maint w1 s0 q0" AT "1\n"			\
	"pool/a.b-c_d:80 up w1 s0 q0 backup" AT "1\n"			\
	"pool/gpu1 maint w1 s0 q0" AT "1\n" "pool/gpu2 maint w1 s0 q0" AT "1\n"	\
	"pool/gpu3 maint w1 s0 q0" AT "1\n"				\
	"engines/busy up w5 s2 q3" AT "36309\n" "engines/told drain w1 s0 q0" AT "36309\n" \
	"soft/leaving drain w1 s0 q0" AT "36309\n" "quoted/odd down w1 s0 q0" AT "36309\n" \
	"both/only up w1 s0 q0" AT "36309\n" "end\n"

static const char *const versions[] = { "2.6", "3.0", "3.2" };

static size_t read_file(const char *version, const char *what, char *buf, size_t room)
{
	char path[200];
	FILE *in;
	size_t n;

	snprintf(path, sizeof(path), "tests/data/hastats/%s-%s", version, what);
	if ((in = fopen(path, "r")) == NULL)
		fail_msg("%s cannot be read", path);
	n = fread(buf, 1, room, in);
	fclose(in);
	assert_true(n > 0 && n < room);
	return n;
}

static unsigned columns_of(const char *p, size_t n)
{
	const char *end = memchr(p, '\n', n);
	unsigned k = 0;

	for (; p < end; p++)
		k += *p == ',';
	return k;
}

static void three_versions(void **state)
{
	static const char *const answers_of[] = { "stat.csv", "all.csv" };
	static char buf[64 << 10];

	(void)state;
	for (size_t v = 0; v < 3; v++) {
		for (size_t a = 0; a < 2; a++) {
			size_t n = read_file(versions[v], answers_of[a], buf, sizeof(buf));

			feed_all_cuts(versions[v], buf, n, ENGINES);
			printf("HAProxy %s, %s: %zu bytes, %u columns, 17 servers\n", versions[v],
			       answers_of[a], n, columns_of(buf, n));
			assert_true(columns_of(buf, n) < HASTATS_COLUMNS_MAX);
		}
	}
}

/* Only the other table is reported as foreign, complete or cut. */
static void the_other_table(void **state)
{
	static char buf[64 << 10];

	(void)state;
	for (size_t v = 0; v < 3; v++) {
		size_t n = read_file(versions[v], "state.txt", buf, sizeof(buf));

		feed_all_cuts(versions[v], buf, n, "not the table that \"show stat\" gives: 1\n");
	}
}

/* Cut an answer in two at every byte. No beginning of an answer is accepted as complete. */
static void cut_once_anywhere(void **state)
{
	static struct hastats h;
	static struct told t;
	static char buf[64 << 10];
	size_t n = read_file("3.2", "stat.csv", buf, sizeof(buf));

	(void)state;
	for (size_t cut = 0; cut < n; cut++) {
		ssize_t rc;

		t.n = 0;
		hastats_init(&h, tell, &t);
		assert_int_equal(hastats_feed(&h, buf, cut), 0);
		rc = hastats_feed(&h, buf + cut, n - cut);
		assert_int_equal(rc, n - cut);
		tell_end(&t, &h, rc, n);
		assert_string_equal(t.text, ENGINES);
	}
}

/* ---- bounds ----------------------------------------------------------------------------- */

/* <n> bytes of <c> between two texts. */
static size_t fill(char *buf, const char *before, char c, size_t n, const char *behind)
{
	size_t at = strlen(before);

	memcpy(buf, before, at);
	memset(buf + at, c, n);
	strcpy(buf + at + n, behind);
	return at + n + strlen(behind);
}

static void a_field_just_fits(void **state)
{
	static char buf[4096];
	size_t n = fill(buf, HEADER "p,", 's', HASTATS_FIELD_MAX, ",1,,2,UP,3,2,,\n\n");
	struct told *t = feed(buf, n, n);

	(void)state;
	assert_non_null(strstr(t->text, "s up w3 s2 q1\nend\n"));
	n = fill(buf, HEADER "p,", 's', HASTATS_FIELD_MAX + 1, ",1,,2,UP,3,2,,\n\n");
	assert_string_equal(feed(buf, n, n)->text, "end\nbad 1\n");
	n = fill(buf, HEADER "p,", 's', 3000, ",1,,2,UP,3,2,,\n\n");
	assert_string_equal(feed(buf, n, 5)->text, "end\nbad 1\n");
	n = fill(buf, HEADER "p,s,1,,2,UP ", 'x', 3000, ",3,2,,\n\n");
	assert_string_equal(feed(buf, n, n)->text, "end\nbad 1\n");
	n = fill(buf, "# addr,pxname,svname,qcur,scur,status,weight,type\n", 'x', 128,
		 ",p,s,1,2,UP,3,2\n\n");		/* too long for an address: none */
	assert_string_equal(feed(buf, n, n)->text, "p/s up w3 s2 q1\nend\n");
	n = fill(buf, HEADER "p,s,1,,2,UP,3,2,", 'x', 3000, "\n\n");	/* an unused column */
	assert_string_equal(feed(buf, n, n)->text, "p/s up w3 s2 q1\nend\n");
}

static void a_line_just_fits(void **state)
{
	static const char row[] = "p,s,1,,2,UP,3,2,";
	static char buf[2 * HASTATS_LINE_MAX];
	size_t n;

	(void)state;
	n = fill(buf, "# pxname,svname,qcur,x,scur,status,weight,type\np,s,1,,2,UP,3,2,", 'x',
		 HASTATS_LINE_MAX - strlen(row) - 1, "\n\n");
	assert_string_equal(feed(buf, n, n)->text, "p/s up w3 s2 q1\nend\n");
	n = fill(buf, "# pxname,svname,qcur,x,scur,status,weight,type\np,s,1,,2,UP,3,2,", 'x',
		 HASTATS_LINE_MAX - strlen(row), "\n\n");
	assert_string_equal(feed(buf, n, n)->text, "a line is too long\n");
	n = fill(buf, HEADER "p,s,1,,2,UP,3,2,\"", '\n', HASTATS_LINE_MAX, "");	/* a quote never closed */
	assert_string_equal(feed(buf, n, 1000)->text, "a line is too long\n");
	n = fill(buf, "# ", ',', HASTATS_LINE_MAX, "");
	assert_string_equal(feed(buf, n, n)->text, "a line is too long\n");
}

static void columns_after_the_last(void **state)
{
	static char buf[8192];
	size_t n;

	(void)state;
	n = fill(buf, "# pxname,svname,qcur,scur,status,weight", ',', HASTATS_COLUMNS_MAX - 6, "type\n");
	assert_string_equal(feed(buf, n, n)->text, "more after 1062\n");
	n = fill(buf, "# pxname,svname,qcur,scur,status,weight", ',', HASTATS_COLUMNS_MAX - 5, "type\n");
	assert_string_equal(feed(buf, n, n)->text, "a column is missing: type\n");
}

static void an_answer_has_an_end(void **state)
{
	static struct hastats h;
	static struct told t;
	static const char row[] = "p,s,1,,2,UP,3,2,,\n";
	uint64_t fed = 0;
	ssize_t rc = hastats_feed((hastats_init(&h, tell, &t), &h), HEADER, strlen(HEADER));

	(void)state;
	for (; rc == 0 && fed < 2 * (uint64_t)HASTATS_ANSWER_MAX; fed += strlen(row))
		rc = hastats_feed(&h, row, strlen(row));
	assert_int_equal(rc, -HASTATS_E_ANSWER);
	assert_true(fed <= HASTATS_ANSWER_MAX + strlen(row));
	assert_int_equal(hastats_feed(&h, row, strlen(row)), -HASTATS_E_ANSWER);
	printf("an answer without an end: given up after %u rows, %zu bytes of memory\n", (unsigned)h.rows,
	       sizeof(h));
}

/* ---- chance ----------------------------------------------------------------------------- */

static void check_row(void *arg, const struct hastats_row *r)
{
	assert_true(r->pool.n > 0 && r->pool.n <= HASTATS_FIELD_MAX);
	assert_true(r->server.n > 0 && r->server.n <= HASTATS_FIELD_MAX);
	assert_true(r->weight <= INT32_MAX && r->sessions <= INT32_MAX && r->queue <= INT32_MAX);
	assert_true(r->state <= HASTATS_MAINT);
	++*(uint64_t *)arg;
}

/* Real answers with changed bytes, and random bytes that the parser branches on. The result is the
 * same for each cut, and no byte outside is read or written. */
static void damaged(void **state)
{
	static const char alphabet[] = ",\n\"# 20aUPDRAIN\x00\xff";
	static char buf[64 << 10], was[64 << 10];
	static struct hastats h;
	struct rng rng;
	size_t n = read_file("2.6", "stat.csv", was, sizeof(was));
	uint64_t rows = 0, ended = 0, refused = 0, bad = 0;

	(void)state;
	rng_init(&rng, 7);
	for (int turn = 0; turn < 4000; turn++) {
		ssize_t rc = 0;
		size_t at = 0;

		memcpy(buf, was, n);
		for (int k = turn % 16; k >= 0; k--)
			buf[rng_below(&rng, (uint32_t)(turn % 2 ? n : 700))] =
				alphabet[rng_below(&rng, sizeof(alphabet) - 1)];
		hastats_init(&h, check_row, &rows);
		while (rc == 0 && at < n) {
			size_t k = 1 + rng_below(&rng, 900);

			k = k < n - at ? k : n - at;
			rc = hastats_feed(&h, buf + at, k);
			at += k;
		}
		ended += rc > 0;
		refused += rc < 0;
		bad += h.bad_rows;
	}
	printf("4000 damaged answers: %u rows, %u rows left out, %u ended, %u refused\n", (unsigned)rows,
	       (unsigned)bad, (unsigned)ended, (unsigned)refused);
	assert_true(rows > 0 && ended > 0 && refused > 0 && bad > 0);
}

static void noise(void **state)
{
	static const char alphabet[] = ",,\n\"2UP p0";
	static char buf[2000];
	struct rng rng;
	size_t head = strlen(HEADER);

	(void)state;
	rng_init(&rng, 11);
	memcpy(buf, HEADER, head);
	for (int turn = 0; turn < 2000; turn++) {
		struct told *whole;

		for (size_t i = head; i < sizeof(buf); i++)
			buf[i] = turn % 2 ? (char)rng_below(&rng, 256) :
				 alphabet[rng_below(&rng, sizeof(alphabet) - 1)];
		whole = feed(buf, sizeof(buf), sizeof(buf));
		assert_string_equal(feed(buf, sizeof(buf), 1 + rng_below(&rng, 300))->text, whole->text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers),
		cmocka_unit_test(three_versions),
		cmocka_unit_test(the_other_table),
		cmocka_unit_test(cut_once_anywhere),
		cmocka_unit_test(a_field_just_fits),
		cmocka_unit_test(a_line_just_fits),
		cmocka_unit_test(columns_after_the_last),
		cmocka_unit_test(an_answer_has_an_end),
		cmocka_unit_test(damaged),
		cmocka_unit_test(noise),
	};

	return cmocka_run_group_tests_name("feed hastats", tests, NULL, NULL);
}
