/* message.c - one table of arguments for requests, one for facts. */
#include "agent/base/num.h"
#include "agent/feed/response_id.h"
#include "agent/serve/message_in.h"

enum arg_kind { A_SPAN, A_INT64, A_INT32, A_END, A_RETRIES, A_COUNT, A_HEAD };

/* The names are part of the tables, so that a message reads four cache lines of them. As strings
 * they would be anywhere among those of the program, and few of them in a cache. */
struct arg {
	char name[12];
	uint8_t n;		/* length of the name; 0: the end of the table */
	uint8_t kind;		/* enum arg_kind */
	uint16_t offset;
};

#define NAME(text)	text, sizeof(text) - 1

/* In the order of kvroute.spoe: read_args(). */
static const struct arg request_args[] = {
	{ NAME("uid"), A_SPAN, offsetof(struct route_request, uid) },
	{ NAME("asked_ms"), A_INT64, offsetof(struct route_request, asked_ms) },
	{ NAME("vars"), A_SPAN, offsetof(struct route_request, vars) },
	{ NAME("pool"), A_SPAN, offsetof(struct route_request, pool) },
	{ NAME("load"), A_SPAN, offsetof(struct route_request, load) },
	{ NAME("path"), A_SPAN, offsetof(struct route_request, path) },
	{ NAME("tenant"), A_SPAN, offsetof(struct route_request, tenant) },
	{ NAME("model"), A_SPAN, offsetof(struct route_request, model) },
	{ NAME("session"), A_SPAN, offsetof(struct route_request, session) },
	{ NAME("user"), A_SPAN, offsetof(struct route_request, user) },
	{ NAME("blen"), A_INT64, offsetof(struct route_request, visible) },
	{ NAME("bsize"), A_INT64, offsetof(struct route_request, whole) },
	{ NAME("body"), A_SPAN, offsetof(struct route_request, body) },
	{ NAME("seq"), A_INT64, offsetof(struct route_request, seq) },
	{ "", 0, 0, 0 }
};

/* First those of message first, in its order. Then fields of the log line (feed/logline.c). Of the
 * response <ct>, and its first bytes, <head>. */
static const struct arg fact_args[] = {
	{ NAME("uid"), A_SPAN, offsetof(struct fact, uid) },
	{ NAME("srv"), A_SPAN, offsetof(struct fact, server) },
	{ NAME("st"), A_INT32, offsetof(struct fact, status) },
	{ NAME("ct"), A_SPAN, offsetof(struct fact, type) },
	{ NAME("head"), A_HEAD, offsetof(struct fact, response) },
	{ NAME("be"), A_SPAN, offsetof(struct fact, pool) },
	{ NAME("want"), A_SPAN, offsetof(struct fact, wanted) },
	{ NAME("ts"), A_END, 0 },
	{ NAME("tw"), A_INT64, offsetof(struct fact, queue_ms) },
	{ NAME("tc"), A_INT64, offsetof(struct fact, connect_ms) },
	{ NAME("tr"), A_INT64, offsetof(struct fact, response_ms) },
	{ NAME("ta"), A_INT64, offsetof(struct fact, total_ms) },
	{ NAME("out"), A_INT64, offsetof(struct fact, bytes_out) },
	{ NAME("in"), A_INT64, offsetof(struct fact, bytes_in) },
	{ NAME("rc"), A_RETRIES, 0 },
	{ NAME("ptok"), A_COUNT, offsetof(struct fact, prompt_tokens) },
	{ NAME("gtok"), A_COUNT, offsetof(struct fact, output_tokens) },
	{ NAME("ctok"), A_COUNT, offsetof(struct fact, cached_tokens) },
	{ "", 0, 0, 0 }
};

_Static_assert(sizeof(struct route_request) <= UINT16_MAX && sizeof(struct fact) <= UINT16_MAX,
    "arg.offset is too small");

static bool name_is(struct spop_str s, const char *word)
{
	return s.n == strlen(word) && memcmp(s.p, word, s.n) == 0;
}

/* Return the number in "route-12", or -1. At most four digits: no configuration has more slices. */
static int64_t slice_number(struct spop_str name)
{
	int64_t v = 0;

	if (name.n < 7 || name.n > 10 || memcmp(name.p, "route-", 6) != 0)
		return -1;
	for (size_t i = 6; i < name.n; i++) {
		if (name.p[i] < '0' || name.p[i] > '9')
			return -1;
		v = v * 10 + (name.p[i] - '0');
	}
	return v;
}

enum message_kind message_kind(const struct spop_message *m)
{
	if (name_is(m->name, "route") || slice_number(m->name) >= 0)
		return MESSAGE_ROUTE;
	if (name_is(m->name, "model"))
		return MESSAGE_MODEL;
	if (name_is(m->name, "first"))
		return MESSAGE_FIRST;
	return name_is(m->name, "done") ? MESSAGE_DONE : MESSAGE_UNKNOWN;
}

/* Read a number, or a string of digits as in log fields. */
static bool read_number(const struct spop_data *d, int64_t *v)
{
	struct spop_str s;

	return spop_data_int(d, v) || (spop_data_str(d, &s) && num_parse(span_of(s.p, s.n), v));
}

/* Read "1", or "+1": that retry went to another server. */
static void read_retries(struct fact *f, const struct spop_data *d)
{
	struct spop_str s;
	int64_t v;

	if (!read_number(d, &v) || v < 0 || v > INT32_MAX)
		return;
	f->retries = (int32_t)v;
	f->redispatched = spop_data_str(d, &s) && s.p[0] == '+';
}

#define NOW_MAX	((msec)1 << 52)		/* 140,000 years, so that times can be added */

msec message_now(const struct spop_message *m)
{
	struct spop_message copy = *m;
	struct spop_str name;
	struct spop_data d;
	int64_t v;

	while (spop_arg_next(&copy, &name, &d) > 0)
		if (name_is(name, "now_ms") && read_number(&d, &v) && v >= 0)
			return v < NOW_MAX ? v : NOW_MAX;
	return -1;
}

static void read_arg(void *to, const struct arg *a, const struct spop_data *d)
{
	char *at = (char *)to + a->offset;
	struct spop_str s;
	int64_t v;

	switch (a->kind) {
	case A_SPAN:
		if (spop_data_str(d, &s))
			*(struct span *)at = span_of(s.p, s.n);
		else if (((struct span *)at)->p == NULL)
			*(struct span *)at = SPAN("");
		break;
	case A_END:
		if (spop_data_str(d, &s))
			fact_take_end(to, span_of(s.p, s.n));
		break;
	case A_INT64:
		if (read_number(d, &v))
			*(int64_t *)at = v;
		break;
	case A_INT32:
		if (read_number(d, &v) && v >= INT32_MIN && v <= INT32_MAX)
			*(int32_t *)at = (int32_t)v;
		break;
	case A_RETRIES:
		read_retries(to, d);
		break;
	case A_HEAD:
		if (spop_data_str(d, &s))
			*(struct span *)at = response_id(span_of(s.p, s.n));
		break;
	case A_COUNT:
		if (spop_data_str(d, &s))
			fact_count(span_of(s.p, s.n), (int64_t *)at);
		else if (spop_data_int(d, &v) && v >= 0 && v <= FACT_TOKENS_MAX)
			*(int64_t *)at = v;
		break;
	}
}

/* Return the argument <name> of <table>, or NULL. The search begins at <*next>, because messages
 * have their arguments in the order of the table. */
static const struct arg *find_arg(const struct arg *table, size_t *next, struct spop_str name)
{
	size_t i = *next;

	do {
		if (table[i].n == 0) {
			i = 0;
			continue;
		}
		if (name.n == table[i].n && memcmp(name.p, table[i].name, name.n) == 0) {
			*next = i + 1;
			return &table[i];
		}
		i++;
	} while (i != *next);
	return NULL;
}

static void read_args(struct spop_message *m, const struct arg *table, void *to)
{
	const struct arg *a;
	struct spop_str name;
	struct spop_data d;
	size_t next = 0;

	while (spop_arg_next(m, &name, &d) > 0)
		if ((a = find_arg(table, &next, name)) != NULL)
			read_arg(to, a, &d);
}

void message_request(struct spop_message *m, struct route_request *q)
{
	*q = (struct route_request){
		.seq = slice_number(m->name), .visible = -1, .whole = -1, .asked_ms = -1, .work = ROUTE_WORK_FULL,
	};
	read_args(m, request_args, q);
	if (q->seq < -1)
		q->seq = -1;
}

void message_fact(struct spop_message *m, enum fact_kind kind, struct fact *f)
{
	fact_init(f, kind);
	read_args(m, fact_args, f);
}
