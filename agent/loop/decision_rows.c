/* decision_rows.c - the last decisions as a table that fits a terminal. */
#include <stdio.h>
#include <time.h>

#include "agent/base/mem.h"
#include "agent/loop/decision_rows_in.h"
#include "agent/loop/page_text_in.h"
#include "agent/route/decisions.h"

#define NAME_SHOWN	16	/* bytes of a name */
#define AT_ONCE		8u

static void put_cut(struct buf *t, const char *key, const char *name)
{
	char text[NAME_SHOWN + 4];

	snprintf(text, sizeof(text), strlen(name) > NAME_SHOWN ? "%.*s.." : "%.*s", NAME_SHOWN, name);
	page_addf(t, ",\"%s\":", key);
	page_json(t, text);
}

static void put_server(struct buf *t, struct decisions *d, struct decision_server s)
{
	char text[SERVER_NAME_MAX + 1] = "";

	if (s.id != SERVER_NONE)
		decisions_name_of(d, s, text, sizeof(text));
	put_cut(t, "server", text);
}

static void put_ms(struct buf *t, const char *key, int64_t ms)
{
	if (ms >= 0)
		page_addf(t, ",\"%s\":%lld", key, (long long)ms);
	else
		page_addf(t, ",\"%s\":null", key);
}

static const char *end_of(const struct decision *x)
{
	if (x->after != AFTER_DONE)
		return x->after == AFTER_FIRST ? "running" : "open";
	return x->cause == CAUSE_OF_UNKNOWN ? "done" : fact_cause_word((enum fact_cause)x->cause);
}

static void put_row(struct buf *t, struct decisions *d, const struct decision *x, msec now,
    int64_t wall)
{
	time_t s = (time_t)((wall - (now - x->at)) / 1000);
	char text[16] = "";
	struct tm tm;

	if (gmtime_r(&s, &tm) != NULL)
		strftime(text, sizeof(text), "%H:%M:%S", &tm);
	page_addf(t, "%s{\"number\":%llu,\"time\":\"%s\"", t->p[t->n - 1] == '[' ? "\n" : ",\n",
	    (unsigned long long)x->number, text);
	put_cut(t, "pool", x->pool != NULL ? x->pool : "");
	put_server(t, d, x->chosen);
	page_addf(t, ",\"why\":\"%s\",\"prompt\":%llu,\"cached\":%u", why_text((enum why)x->why),
	    (unsigned long long)x->tokens, x->matched);
	put_ms(t, "expect_ms", x->expected_ms);
	put_ms(t, "first_ms", x->first_ms);
	page_addf(t, ",\"end\":\"%s\"}", end_of(x));
}

void decision_rows_write(struct route *r, uint64_t n, msec now, int64_t wall, struct buf *t)
{
	struct decisions *d = route_decisions(r);
	struct decision *x = mem_alloc(AT_ONCE * sizeof(*x));
	uint64_t before = UINT64_MAX;
	size_t got = 1;

	buf_str(t, "{\"decisions\":[");
	t->failed |= x == NULL;
	while (n > 0 && got > 0 && !t->failed) {
		got = decisions_read(d, before, x, n < AT_ONCE ? (size_t)n : AT_ONCE);
		for (size_t i = 0; i < got && !t->failed; i++)
			put_row(t, d, &x[i], now, wall);
		before = got > 0 ? x[got - 1].number : 0;
		n -= got;
	}
	mem_free(x);
	buf_str(t, "]}\n");
}
