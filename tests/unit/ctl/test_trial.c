/* test_trial.c - the sentences for no data, little data, a gain, none, and a loss, letter by
 * letter; and hostile figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/ctl/trial.h"

#define SERVERS(a, b)	"{\"servers\":[" SERVER(a) "," SERVER(b) "],"
#define SERVER(source)	\
	"{\"pool\":\"chat\",\"up\":true,\"weight\":1,\"speed_source\":\"" source "\"}"
#define POOL(n, hit, theirs, first, their_first, t2, s2) \
	TIMED(SERVERS("learned", "learned"), n, n, hit, theirs, first, their_first, t2, s2)
#define TIMED(servers, n, timed, hit, theirs, first, their_first, t2, s2) \
	servers "\"pools\":[{\"name\":\"chat\",\"mode\":\"shadow\",\"requests\":" n "," \
	"\"shadow\":{\"requests\":" n ",\"same\":1,\"prompt_tokens\":2000000,\"hit_tokens\":" hit \
	",\"haproxy_hit_tokens\":" theirs \
	",\"timed\":" timed ",\"timed_s\":" first ",\"haproxy_timed_s\":" their_first \
	",\"gain_tokens2\":" t2 ",\"timed_gain_s2\":" s2 "}}]}"
/* <n> requests of nothing */
#define EMPTY(servers, facts, n) \
	servers "\"pools\":[{\"name\":\"chat\",\"mode\":\"shadow\",\"facts\":\"" facts "\",\"shadow\":{" \
	"\"requests\":" n ",\"prompt_tokens\":0,\"hit_tokens\":0,\"haproxy_hit_tokens\":0,\"timed\":0}}]}"
#define REPORTED(reports, n)	EMPTY("{" reports "," TWO_GUESSED, "load", n)
#define TWO_GUESSED	"\"servers\":[" SERVER("guess") "," SERVER("guess") "],"
#define NEEDED(n)	" (" n " are needed)"
#define BACKUP(source)	\
	"{\"pool\":\"chat\",\"up\":true,\"backup\":true,\"weight\":1,\"speed_source\":\"" source "\"}"
#define EARLY(n, learned, all, needed) \
	"In " n " requests of pool chat, kvroute's servers held 0 % of the prompt tokens and HAProxy's " \
	"0 %, so kvroute would have saved 0 prompt tokens (0 a request); what that is in time is not " \
	"known yet.\n" \
	"It is too early to tell: the speeds of " learned " of " all " servers are learned" needed \
	", and 0 of at least 100 requests came since then, so there is no confidence.\n"
#define ASK_AGAIN	"Leave pool chat in shadow mode, and ask again after more requests.\n"
#define UNREPORTED \
	"Nothing reports first tokens or ends of requests, so speeds are never learned: run " \
	"kvroutectl doctor, and leave pool chat in shadow mode.\n"

static const struct {
	const char *json, *text;
	unsigned pools;
} cases[] = {
	{ "{\"pools\":[]}",
	    "The agent knows no pool yet, because no request has come; ask again after some traffic.\n",
	    0 },
	{ "{\"pools\":[{\"name\":\"chat\",\"mode\":\"on\"}]}",
	    "No pool is in shadow mode, so nothing is compared with HAProxy's own choices; write "
	    "\"mode: shadow\" into kvroute.yaml, under pools or policy, and reload the agent (SIGHUP).\n",
	    0 },
	{ "{\"pools\":[{\"name\":\"chat\",\"mode\":\"shadow\",\"requests\":7}]}",
	    "Nothing is known of pool chat yet: the agent decided on 7 of its requests, and was told the "
	    "server of none.\n"
	    "There is no sample, so there is no confidence.\n"
	    "Check with kvroutectl doctor that HAProxy's log lines or first messages reach the agent, "
	    "leave the pool in shadow mode, and ask again.\n", 1 },
	{ POOL("50", "60000", "10000", "50", "100", "60000000", "60"),
	    "In 50 requests of pool chat, kvroute's servers held 3 % of the prompt tokens and HAProxy's "
	    "0 %, so kvroute would have saved 50000 prompt tokens (1000 a request), and first tokens "
	    "would have come after 1.00 s in the mean instead of 2.00 s, 1.00 s sooner.\n"
	    "It is too early to tell: the speeds of 2 of 2 servers are learned, and 50 of at least 100 "
	    "requests came since then, so there is no confidence.\n"
	    "Leave pool chat in shadow mode, and ask again after more requests.\n", 1 },
	{ TIMED(SERVERS("guess", "guess"), "1000", "0", "1200000", "400000", "0", "0", "800000000", "0"),
	    "In 1000 requests of pool chat, kvroute's servers held 60 % of the prompt tokens and "
	    "HAProxy's 20 %, so kvroute would have saved 800000 prompt tokens (800 a request); what that "
	    "is in time is not known yet.\n"
	    "It is too early to tell: the speeds of 0 of 2 servers are learned" NEEDED("2") ", and 0 of "
	    "at least 100 requests came since then, so there is no confidence.\n"
	    "Leave pool chat in shadow mode, and ask again after more requests.\n", 1 },
	{ TIMED(SERVERS("learned", "pool"), "1000", "200", "1200000", "400000", "100", "180", "800000000",
	    "82"),
	    "In 1000 requests of pool chat, kvroute's servers held 60 % of the prompt tokens and "
	    "HAProxy's 20 %, so kvroute would have saved 800000 prompt tokens (800 a request), and first "
	    "tokens would have come after 0.50 s in the mean instead of 0.90 s, 0.40 s sooner (in the "
	    "200 requests since speeds are learned).\n"
	    "With 95 % confidence, one request would have saved 775 to 825 prompt tokens, and had its "
	    "first token 0.331 to 0.469 s sooner.\n"
	    "To switch it on, write \"mode: on\" for pool chat into kvroute.yaml, under pools or policy, "
	    "and reload the agent (SIGHUP).\n", 1 },
	{ "{\"pools\":[{\"name\":\"chat\",\"mode\":\"shadow\",\"facts\":\"load\",\"shadow\":{"
	    "\"requests\":400,\"prompt_tokens\":2000000,\"hit_tokens\":800000,"
	    "\"haproxy_hit_tokens\":400000,\"timed\":0}}]}",
	    "In 400 requests of pool chat, kvroute's servers held 40 % of the prompt tokens and HAProxy's "
	    "20 %, so kvroute would have saved 400000 prompt tokens (1000 a request); what that is in "
	    "time is not known yet.\n"
	    "It is too early to tell: the speeds of 0 of 0 servers are learned, and 0 of at least 100 "
	    "requests came since then, so there is no confidence.\n"
	    "Nothing reports first tokens or ends of requests, so speeds are never learned: run "
	    "kvroutectl doctor, and leave pool chat in shadow mode.\n", 1 },
	{ REPORTED("\"ends\":0", "19"), EARLY("19", "0", "2", NEEDED("2")) ASK_AGAIN, 1 },
	{ REPORTED("\"ends\":0", "20"), EARLY("20", "0", "2", NEEDED("2")) UNREPORTED, 1 },
	{ REPORTED("\"ends\":1", "400"), EARLY("400", "0", "2", NEEDED("2")) ASK_AGAIN, 1 },
	{ REPORTED("\"first_tokens\":1", "400"), EARLY("400", "0", "2", NEEDED("2")) ASK_AGAIN, 1 },
	/* backup servers count if there are no others */
	{ EMPTY("{\"servers\":[" SERVER("learned") "," SERVER("learned") "," BACKUP("guess") ","
	    BACKUP("guess") "],", "log", "400"), EARLY("400", "2", "2", "") ASK_AGAIN, 1 },
	{ EMPTY("{\"servers\":[" BACKUP("learned") "," BACKUP("guess") "],", "log", "400"),
	    EARLY("400", "1", "2",
		" (needed: three quarters of the backup servers that get requests)") ASK_AGAIN, 1 },
	/* one that is down, closed, or without weight */
	{ EMPTY("{\"servers\":[" SERVER("learned") "," SERVER("learned") "," SERVER("guess") ","
	    SERVER("guess") "],", "none", "400"), EARLY("400", "2", "4", NEEDED("3")) UNREPORTED, 1 },
	{ EMPTY("{\"servers\":[" SERVER("learned") "," SERVER("learned") "," SERVER("guess") ","
	    "{\"pool\":\"chat\",\"up\":false},{\"pool\":\"other\",\"up\":true}],", "log", "400"),
	    EARLY("400", "2", "3", NEEDED("3")) ASK_AGAIN, 1 },
	{ EMPTY("{\"servers\":[" SERVER("learned") "," SERVER("learned") ",{\"pool\":\"chat\",\"up\":true,"
	    "\"closed\":true},{\"pool\":\"chat\",\"up\":true,\"weight\":0}],", "log", "400"),
	    EARLY("400", "2", "2", "") ASK_AGAIN, 1 },
	{ EMPTY("{\"servers\":[" SERVER("learned") "," SERVER("learned") "," SERVER("learned") ","
	    SERVER("guess") "],", "log", "400"), EARLY("400", "3", "4", "") ASK_AGAIN, 1 },
	{ POOL("1000", "1200000", "400000", "500", "900", "800000000", "410"),
	    "In 1000 requests of pool chat, kvroute's servers held 60 % of the prompt tokens and "
	    "HAProxy's 20 %, so kvroute would have saved 800000 prompt tokens (800 a request), and first "
	    "tokens would have come after 0.50 s in the mean instead of 0.90 s, 0.40 s sooner.\n"
	    "With 95 % confidence, one request would have saved 775 to 825 prompt tokens, and had its "
	    "first token 0.369 to 0.431 s sooner.\n"
	    "To switch it on, write \"mode: on\" for pool chat into kvroute.yaml, under pools or policy, "
	    "and reload the agent (SIGHUP).\n", 1 },
	{ POOL("1000", "400500", "400000", "900", "900", "800000000", "410"),
	    "In 1000 requests of pool chat, kvroute's servers held 20 % of the prompt tokens and "
	    "HAProxy's 20 %, so kvroute would have saved 500 prompt tokens (0 a request), and first "
	    "tokens would have come after 0.90 s in the mean instead of 0.90 s, 0.00 s sooner.\n"
	    "With 95 % confidence, one request would have saved -55 to 56 prompt tokens, and had its "
	    "first token -0.040 to 0.040 s sooner, which may be nothing.\n"
	    "Leave pool chat in shadow mode, unless its prompts will have more in common than now; to "
	    "switch it on, write \"mode: on\" into kvroute.yaml and reload.\n", 1 },
	{ POOL("1000", "300000", "400000", "1200", "900", "20000000", "100"),
	    "In 1000 requests of pool chat, kvroute's servers held 15 % of the prompt tokens and "
	    "HAProxy's 20 %, so kvroute would have computed 100000 prompt tokens more (100 a request), "
	    "and first tokens would have come after 1.20 s in the mean instead of 0.90 s, 0.30 s later.\n"
	    "With 95 % confidence, one request would have saved -106 to -94 prompt tokens, and had its "
	    "first token -0.306 to -0.294 s sooner, which is a loss.\n"
	    "Leave pool chat in shadow mode, and look at kvroutectl doctor, and at "
	    "policy.prefill_tokens_per_s and the rule of the pool; do not write \"mode: on\".\n", 1 },
};

static struct status s;

static char *sentences(const char *json, unsigned *pools)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	status_start(&s);
	assert_int_equal(status_feed(&s, json, strlen(json)), JSON_DONE);
	*pools = trial_say(f, &s);
	fclose(f);
	return text;
}

static void test_sentences(void **state)
{
	unsigned pools;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = sentences(cases[i].json, &pools);

		assert_string_equal(text, cases[i].text);
		assert_int_equal(pools, cases[i].pools);
		free(text);
	}
}

/* Three lines for each pool, whatever the figures are. */
static void test_odd_figures(void **state)
{
	static const char *const odd[] = {
		POOL("1e300", "1e308", "0", "1e308", "-1e308", "-5", "1e308"),
		POOL("0.5", "1", "1", "1", "1", "1", "1"), POOL("null", "1", "1", "1", "1", "1", "1"),
		POOL("-3", "-1", "null", "1", "1", "1", "1"),
		"{\"pools\":[[{\"name\":\"x\"}],{\"mode\":\"shadow\",\"shadow\":[{\"requests\":1}]}]}",
	};
	unsigned pools;

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		char *text = sentences(odd[i], &pools), *p = text;
		unsigned lines = 0;

		for (; (p = strchr(p, '\n')) != NULL; p++)
			lines++;
		assert_int_equal(lines, pools == 0 ? 1 : 3);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sentences), cmocka_unit_test(test_odd_figures),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	status_free(&s);
	return rc;
}
