/* why_read.c - a table of fields, by the list they are in; other fields are skipped. */
#include <stdlib.h>

#include "agent/ctl/why.h"

enum list { IN_DECISION, IN_CANDIDATE, IN_COMPARED, IN_AFTER, IN_OTHER };

struct field {
	enum list list;
	const char *name;
	bool text;
	size_t at;
};

#define D(name)		{ IN_DECISION, #name, false, offsetof(struct why_decision, name) }
#define DT(name)	{ IN_DECISION, #name, true, offsetof(struct why_decision, name) }
#define S(list, name)	{ list, #name, false, offsetof(struct why_server, name) }
#define ST(list, name)	{ list, #name, true, offsetof(struct why_server, name) }
#define A(name)		{ IN_AFTER, #name, false, offsetof(struct why_decision, name) }

static const struct field fields[] = {
	DT(time),
	DT(uid),
	DT(pool),
	DT(mode),
	DT(rule),
	DT(why),
	DT(model),
	DT(matched_as),
	DT(server),
	DT(facts),
	DT(bounded),
	DT(session),
	DT(session_server),
	D(session_turns),
	D(decision),
	D(us),
	D(prompt_tokens),
	D(unseen_tokens),
	D(matched_tokens),
	D(expected_ms),
	D(min_load),
	D(max_load),
	D(cost_s),
	D(regret_s),
	D(n_candidates),
	D(work),
	DT(prefill_best),
	DT(prefill),
	D(prefill_wait_s),
	D(prefill_cached_tokens),
	D(prefill_s),
	D(transfer_s),
	D(here_s),
	D(there_s),
	D(prompt_pages),
	D(pressure),
	D(sacrifice),
	ST(IN_CANDIDATE, server),
	ST(IN_CANDIDATE, truth),
	ST(IN_CANDIDATE, truth_cause),
	S(IN_CANDIDATE, load),
	S(IN_CANDIDATE, wait_s),
	S(IN_CANDIDATE, cached_tokens),
	S(IN_CANDIDATE, session_tokens),
	S(IN_CANDIDATE, compute_s),
	S(IN_CANDIDATE, shared_s),
	S(IN_CANDIDATE, load_s),
	S(IN_CANDIDATE, kv_s),
	S(IN_CANDIDATE, adapter_s),
	S(IN_CANDIDATE, promised_s),
	S(IN_CANDIDATE, penalty),
	S(IN_CANDIDATE, cost_s),
	ST(IN_COMPARED, server),
	ST(IN_COMPARED, rule),
	S(IN_COMPARED, cached_tokens),
	S(IN_COMPARED, regret_s),
	{ IN_AFTER, "server", true, offsetof(struct why_decision, went) },
	{ IN_AFTER, "state", true, offsetof(struct why_decision, state) },
	{ IN_AFTER, "end", true, offsetof(struct why_decision, end) },
	{ IN_AFTER, "ts", true, offsetof(struct why_decision, ts) },
	A(status),
	A(first_ms),
	A(done_ms),
	A(retries),
	A(output_tokens),
	A(engine_tokens),
	{ IN_AFTER, "cached_tokens", false, offsetof(struct why_decision, cached) },
};

#define N_FIELDS	((int)(sizeof(fields) / sizeof(fields[0])))
#define IS_IMBALANCED	N_FIELDS	/* as <field>: a value that is true or false */
#define IS_CUT		(N_FIELDS + 1)

/* Returns where the value is stored, or NULL if it is not used. */
static void *field_place(struct why_reader *r)
{
	struct why_decision *d = &r->d;
	void *base = d;

	if (r->field < 0 || r->field >= N_FIELDS)
		return NULL;
	if (r->list == IN_CANDIDATE)
		base = &d->candidate[d->n_kept - 1];
	else if (r->list == IN_COMPARED)
		base = &d->compared[d->n_compared - 1];
	return (char *)base + fields[r->field].at;
}

static void take_key(struct why_reader *r, const struct json *j, struct span key)
{
	unsigned depth = r->list == IN_DECISION ? 3 : r->list == IN_AFTER ? 4 : 5;

	r->field = -1;
	if (j->depth == 3 && r->list == IN_DECISION && span_eq(key, SPAN("imbalanced")))
		r->field = IS_IMBALANCED;
	if (j->depth == 3 && r->list == IN_DECISION && span_eq(key, SPAN("cut")))
		r->field = IS_CUT;
	for (int i = 0; j->depth == depth && i < N_FIELDS; i++)
		if ((int)fields[i].list == r->list && span_eq(key, span_str(fields[i].name)))
			r->field = i;
	/* the list that this key begins, if any */
	if (j->depth == 3)
		r->list = span_eq(key, SPAN("candidates")) ? IN_CANDIDATE
		    : span_eq(key, SPAN("compare"))        ? IN_COMPARED
		    : span_eq(key, SPAN("after"))          ? IN_AFTER
							   : IN_DECISION;
}

static void take_text(struct why_reader *r, struct span part)
{
	char *to = r->field >= 0 && r->field < N_FIELDS && fields[r->field].text ? field_place(r) : NULL;

	for (size_t i = 0; to != NULL && i < part.n && r->n_text < WHY_NAME_MAX; i++) {
		unsigned char c = (unsigned char)part.p[i];

		if (c >= 0x80 && c < 0xc0)
			continue;	/* a further byte of a character */
		to[r->n_text++] = c < 0x20 || c >= 0x7f ? '?' : (char)c;
	}
}

static void take_number(struct why_reader *r, struct span text)
{
	char copy[JSON_NUMBER_MAX + 1];
	double v;

	if (r->field < 0 || r->field >= N_FIELDS || fields[r->field].text)
		return;
	memcpy(copy, text.p, text.n);
	copy[text.n] = '\0';
	v = strtod(copy, NULL);
	memcpy(field_place(r), &v, sizeof(v));
}

static void begin_record(struct why_reader *r, const struct json *j)
{
	struct why_decision *d = &r->d;

	if (j->depth == 2) {
		*d = (struct why_decision){ .status = -1, .expected_ms = -1, .first_ms = -1, .done_ms = -1,
			.engine_tokens = -1, .cached = -1 };
		r->list = IN_DECISION;
	} else if (j->depth == 4 && r->list == IN_CANDIDATE) {
		r->list = d->n_kept < WHY_SERVERS ? IN_CANDIDATE : IN_OTHER;
		d->n_kept += r->list == IN_CANDIDATE;
	} else if (j->depth == 4 && r->list == IN_COMPARED) {
		r->list = d->n_compared < WHY_RULES ? IN_COMPARED : IN_OTHER;
		d->n_compared += r->list == IN_COMPARED;
	}
	r->field = -1;
}

static void read_sink(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct why_reader *r = arg;

	switch (ev) {
	case JSON_OBJECT: begin_record(r, j); break;
	case JSON_OBJECT_END:
		if (j->depth == 2)
			r->take(r->arg, &r->d);
		else if (j->depth == 3)
			r->list = IN_DECISION;
		break;
	case JSON_ARRAY_END:
		if (j->depth == 3)
			r->list = IN_DECISION;
		break;
	case JSON_KEY: take_key(r, j, text); break;
	case JSON_STRING: r->n_text = 0; break;
	case JSON_STRING_PART: take_text(r, text); break;
	case JSON_NUMBER: take_number(r, text); break;
	case JSON_TRUE:
		r->d.imbalanced |= r->field == IS_IMBALANCED;
		r->d.cut |= r->field == IS_CUT;
		break;
	default: break;
	}
}

void why_start(
    struct why_reader *r, void (*take)(void *arg, const struct why_decision *d), void *arg)
{
	*r = (struct why_reader){ .take = take, .arg = arg, .list = IN_OTHER, .field = -1 };
	json_init(&r->json, 16, read_sink, r);
}

enum json_state why_feed(struct why_reader *r, const char *p, size_t n)
{
	return json_feed(&r->json, p, n);
}
