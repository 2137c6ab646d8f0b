/* print.c - results as text and as JSON, with the same facts. */
#include <inttypes.h>

#include "spop-check/check_in.h"

#define SHOWN_MAX	256u	/* bytes of each direction, in hex */
#define WORDS_MAX	8u	/* frames of each direction, in words */
#define LINE_MAX	400u

static const char *level_word(enum check_level level)
{
	return level == CHECK_MUST ? "must" : "should";
}

static const char *mark_word(enum check_mark mark)
{
	static const char *const words[] = { "pass", "warn", "fail", "skip" };

	return words[mark];
}

static const char *end_word(enum check_end end)
{
	return end == CHECK_OPEN ? "still open" :
	       end == CHECK_CLOSED ? "closed by the agent" : "reset by the agent";
}

/* ---- bytes ------------------------------------------------------------------------------ */

/* Describe the whole frame at <*at>. Returns false if there is none. */
static bool next_words(const struct check_kept *k, size_t *at, char *out, size_t cap)
{
	const uint8_t *p = k->p + *at;
	size_t left = k->n - *at;
	uint32_t n;

	if (left < 4)
		return false;
	n = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	if (n > left - 4)
		return false;
	spop_frame_print(p + 4, n, out, cap);
	*at += 4 + (size_t)n;
	return true;
}

static size_t shown_bytes(const struct check_kept *k)
{
	return k->n < SHOWN_MAX ? k->n : SHOWN_MAX;
}

static void text_bytes(FILE *to, const struct check_kept *k)
{
	char words[LINE_MAX];
	size_t i, at = 0;
	unsigned n;

	for (i = 0; i < shown_bytes(k); i++) {
		if (i % 16 == 0)
			fprintf(to, "%s        %04zx:", i ? "\n" : "", i);
		fprintf(to, " %02x", k->p[i]);
	}
	if (i > 0)
		fprintf(to, "\n");
	if (k->all > i)
		fprintf(to, "        ... %zu bytes in all\n", k->all);
	for (n = 0; n < WORDS_MAX && next_words(k, &at, words, sizeof(words)); n++)
		fprintf(to, "        = %s\n", words);
}

/* ---- JSON ------------------------------------------------------------------------------- */

static void json_str(FILE *to, const char *s)
{
	putc('"', to);
	for (; *s != '\0'; s++) {
		if (*s == '"' || *s == '\\')
			fprintf(to, "\\%c", *s);
		else if ((unsigned char)*s < ' ' || (unsigned char)*s > '~')
			fprintf(to, "\\u%04x", (unsigned char)*s);
		else
			putc(*s, to);
	}
	putc('"', to);
}

static void json_key_str(FILE *to, const char *key, const char *s)
{
	fprintf(to, "\"%s\":", key);
	json_str(to, s);
}

static void json_bytes(FILE *to, const char *key, const struct check_kept *k)
{
	char words[LINE_MAX];
	size_t i, at = 0;
	unsigned n;

	fprintf(to, "\"%s\":{\"bytes\":%zu,\"hex\":\"", key, k->all);
	for (i = 0; i < shown_bytes(k); i++)
		fprintf(to, "%02x", k->p[i]);
	fprintf(to, "\",\"frames\":[");
	for (n = 0; n < WORDS_MAX && next_words(k, &at, words, sizeof(words)); n++) {
		if (n > 0)
			putc(',', to);
		json_str(to, words);
	}
	fprintf(to, "]}");
}

static void json_case(FILE *to, const struct check_case *c)
{
	json_key_str(to, "name", c->name);
	fprintf(to, ",");
	json_key_str(to, "level", level_word(c->level));
	fprintf(to, ",");
	json_key_str(to, "clause", c->clause);
	fprintf(to, ",");
	json_key_str(to, "sent", c->sent);
	fprintf(to, ",");
	json_key_str(to, "expected", c->expected);
}

static void json_result(FILE *to, const struct check_result *x)
{
	unsigned i;

	fprintf(to, "{");
	json_case(to, x->c);
	fprintf(to, ",\"result\":\"%s\",\"ms\":%.1f,\"findings\":[", mark_word(x->mark), x->ms);
	for (i = 0; i < x->verdict.n; i++) {
		fprintf(to, "%s{\"level\":\"%s\",", i ? "," : "", level_word(x->verdict.f[i].level));
		json_key_str(to, "text", x->verdict.f[i].text);
		fprintf(to, "}");
	}
	fprintf(to, "]");
	if (x->mark == CHECK_SKIP) {
		fprintf(to, ",");
		json_key_str(to, "why", x->why);
	} else {
		fprintf(to, ",\"round\":%u,", x->round);
		json_bytes(to, "bytes_sent", &x->sent);
		fprintf(to, ",");
		json_bytes(to, "bytes_received", &x->got);
		fprintf(to, ",");
		json_key_str(to, "connection", end_word(x->end));
	}
	fprintf(to, "}");
}

/* ---- text ------------------------------------------------------------------------------- */

static void text_result(FILE *to, const struct check_result *x)
{
	static const char *const marks[] = { "ok   ", "warn ", "FAIL ", "skip " };
	unsigned i;

	fprintf(to, "%s %s", marks[x->mark], x->c->name);
	if (x->mark == CHECK_SKIP)
		fprintf(to, ": %s", x->why);
	fprintf(to, "\n");
	if (x->mark != CHECK_WARN && x->mark != CHECK_FAIL)
		return;
	fprintf(to, "      clause    %s (%s)\n", x->c->clause, level_word(x->c->level));
	fprintf(to, "      sent      %s", x->c->sent);
	if (x->round > 0)
		fprintf(to, " (round %u)", x->round + 1);
	fprintf(to, "\n      expected  %s\n", x->c->expected);
	for (i = 0; i < x->verdict.n; i++)
		fprintf(to, "      found     %s: %s\n", level_word(x->verdict.f[i].level),
			x->verdict.f[i].text);
	fprintf(to, "      bytes sent\n");
	text_bytes(to, &x->sent);
	fprintf(to, "      bytes received, connection %s\n", end_word(x->end));
	text_bytes(to, &x->got);
}

/* ---- the report ------------------------------------------------------------------------- */

void check_print_begin(struct check_report *r)
{
	const struct check_agent *a = &r->agent;

	if (!r->json) {
		fprintf(r->to, "spop-check of %s: ", r->target->address);
		if (a->known)
			fprintf(r->to, "version %s, max-frame-size %u, capabilities \"%s\"\n",
				a->version, a->size, a->capabilities);
		else
			fprintf(r->to, "no AGENT-HELLO to the usual HELLO\n");
		return;
	}
	fprintf(r->to, "{\"address\":");
	json_str(r->to, r->target->address);
	fprintf(r->to, ",\"strict\":%s,\"agent\":", r->strict ? "true" : "false");
	if (a->known) {
		fprintf(r->to, "{");
		json_key_str(r->to, "version", a->version);
		fprintf(r->to, ",\"max_frame_size\":%u,", a->size);
		json_key_str(r->to, "capabilities", a->capabilities);
		fprintf(r->to, "}");
	} else {
		fprintf(r->to, "null");
	}
	fprintf(r->to, ",\"cases\":[");
}

void check_print_result(struct check_report *r, const struct check_result *x)
{
	unsigned *const counts[] = {
		&r->tally.passed, &r->tally.warned, &r->tally.failed, &r->tally.skipped
	};

	++*counts[x->mark];
	if (r->json) {
		fprintf(r->to, r->n > 0 ? ",\n" : "\n");
		json_result(r->to, x);
	} else {
		text_result(r->to, x);
	}
	r->n++;
	fflush(r->to);
}

void check_print_end(struct check_report *r, const char *stopped)
{
	const struct check_tally *t = &r->tally;

	if (r->json) {
		fprintf(r->to, "\n],\"stopped\":");
		if (stopped != NULL)
			json_str(r->to, stopped);
		else
			fprintf(r->to, "null");
		fprintf(r->to, ",\"passed\":%u,\"failed\":%u,\"warned\":%u,\"skipped\":%u}\n",
			t->passed, t->failed, t->warned, t->skipped);
		return;
	}
	if (stopped != NULL)
		fprintf(r->to, "stopped: %s\n", stopped);
	fprintf(r->to, "%u passed, %u failed, %u warned, %u skipped\n", t->passed, t->failed,
		t->warned, t->skipped);
}

void check_print_case(FILE *to, bool json, size_t nth, const struct check_case *c)
{
	if (json) {
		fprintf(to, nth == 0 ? "[\n{" : ",\n{");
		json_case(to, c);
		fprintf(to, "}");
	} else {
		fprintf(to, "%-28s %-6s  %s\n", c->name, level_word(c->level), c->clause);
		fprintf(to, "%-28s %-6s  sent: %s\n", "", "", c->sent);
		fprintf(to, "%-28s %-6s  expected: %s\n", "", "", c->expected);
	}
}
