/* agents.c - a plan of agents' sessions, and which of their turns are due. */
#include "tests/tools/lib/agents.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "tests/tools/lib/jdom.h"

#define SESSIONS_MAX	100000u
#define TURNS_MAX	1000u		/* of a session */
#define TOKENS_MAX	(1u << 20)

static const char *const kind_names[AGENTS_KINDS] = { "first", "next", "edit", "summarize",
						      "compacted" };

static struct agents_talk *of_talk(const struct talk *t)
{
	return (struct agents_talk *)((char *)(uintptr_t)t - offsetof(struct agents_talk, talk));
}

bool agents_is_first(const struct talk *t)
{
	const struct agents_talk *a = of_talk(t);

	return a->session->turns[a->turn].kind == AGENTS_FIRST;
}

void agents_trace(const struct talk *t, FILE *f)
{
	const struct agents_talk *a = of_talk(t);

	fprintf(f, "session=%u agent=%u planned=%u kind=%s ", a->session->number, a->agent, a->turn,
		kind_names[a->session->turns[a->turn].kind]);
}

/* ---- reading ---- */

/* Write member <key> of <nd> to <to>. -1 stands for none if <none> is set. */
static bool get_u32(const struct jnode *nd, const char *key, double most, bool none, uint32_t *to)
{
	double v = jnumber(jget(nd, key), -2);

	if (none && v == -1) {
		*to = AGENTS_NONE;
		return true;
	}
	if (!(v >= 0 && v <= most))
		return false;
	*to = (uint32_t)v;
	return true;
}

static bool get_kind(const struct jnode *nd, enum agents_kind *kind)
{
	for (int k = 0; k < AGENTS_KINDS; k++)
		if (span_eq(jtext(jget(nd, "kind")), span_str(kind_names[k]))) {
			*kind = (enum agents_kind)k;
			return true;
		}
	return false;
}

/* Sessions follow each other, and so do the turns of one. */
static struct agents_session *session_of(struct agents *a, uint32_t number, uint32_t program)
{
	struct agents_session *s = a->n_sessions ? a->sessions[a->n_sessions - 1] : NULL;

	if (number + 1 == a->n_sessions)
		return s;
	if (number != a->n_sessions || number == SESSIONS_MAX)
		return NULL;
	a->sessions = tool_resize(a->sessions, a->n_sessions + 1, sizeof(struct agents_session *));
	s = tool_resize(NULL, 1, sizeof(*s));
	*s = (struct agents_session){ .number = number, .program = program };
	a->sessions[a->n_sessions++] = s;
	return s;
}

static const char *take_turn(struct agents *a, const struct jnode *root)
{
	const struct jnode *plan = jget(root, "plan");
	double pause = jnumber(jget(plan, "pause_ms"), -1), at = jnumber(jget(root, "timestamp"), -1);
	struct agents_turn q = { 0 };
	struct agents_session *s;
	uint32_t number, program, turn;

	if (!get_u32(plan, "session", SESSIONS_MAX, false, &number) ||
	    !get_u32(plan, "program", SESSIONS_MAX, false, &program) ||
	    !get_u32(plan, "turn", TURNS_MAX - 1, false, &turn) ||
	    !get_u32(plan, "agent", TURNS_MAX, false, &q.agent) ||
	    !get_u32(plan, "after", TURNS_MAX, true, &q.after) ||
	    !get_u32(plan, "join", TURNS_MAX, true, &q.join) ||
	    !get_u32(plan, "keep", TOKENS_MAX, false, &q.keep) ||
	    !get_u32(plan, "add", TOKENS_MAX, false, &q.add) ||
	    !get_u32(root, "output_length", TOKENS_MAX, false, &q.out) || !get_kind(plan, &q.kind) ||
	    !(pause >= 0 && pause < 1e9) || !(at >= 0 && at < 1e12))
		return "a member is missing or out of its range";
	q.pause_s = pause / 1000;
	if ((s = session_of(a, number, program)) == NULL || turn != s->n)
		return "sessions and their turns are not in order";
	if ((q.after == AGENTS_NONE) != (turn == 0) || (turn > 0 && q.after >= turn) ||
	    (q.join != AGENTS_NONE && q.join <= turn) || q.agent > s->n_talks)
		return "a turn waits for one that is not before it";
	if (turn == 0)
		s->start_s = at / 1000;
	if (q.agent == s->n_talks)
		s->n_talks++;
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->turns = tool_resize(s->turns, s->cap, sizeof(*s->turns));
	}
	q.waits = q.after != AGENTS_NONE;
	s->turns[s->n++] = q;
	return NULL;
}

/* Returns NULL if all that turns of <s> wait for exists. */
static const char *join_turns(struct agents_session *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		if (s->turns[i].join == AGENTS_NONE)
			continue;
		if (s->turns[i].join >= s->n)
			return "a turn that others wait for is missing";
		s->turns[s->turns[i].join].waits++;
	}
	return NULL;
}

static void make_talks(struct agents *a, struct agents_session *s)
{
	s->talks = tool_resize(NULL, s->n_talks, sizeof(*s->talks));
	for (uint32_t k = 0; k < s->n_talks; k++)
		s->talks[k] = (struct agents_talk){
			.talk = { .id = a->n_talks++, .system = s->program }, .session = s, .agent = k };
	a->n_turns += s->n;
}

static const char *read_lines(struct agents *a, FILE *f, uint32_t *line)
{
	const char *why = NULL;
	char *text = NULL;
	size_t cap = 0;
	ssize_t n;

	while (why == NULL && (n = getline(&text, &cap, f)) > 0) {
		struct jdom *d = jdom_parse(text, (size_t)n, &why);

		++*line;
		if (d == NULL)
			break;
		why = take_turn(a, jdom_root(d));
		jdom_free(d);
	}
	free(text);
	for (uint32_t i = 0; i < a->n_sessions && why == NULL; i++) {
		why = join_turns(a->sessions[i]);
		make_talks(a, a->sessions[i]);
	}
	return why == NULL && a->n_sessions == 0 ? "it is empty" : why;
}

struct agents *agents_read(const char *path)
{
	struct agents *a = tool_resize(NULL, 1, sizeof(*a));
	const char *why = NULL;
	uint32_t line = 0;
	FILE *f = fopen(path, "r");

	*a = (struct agents){ 0 };
	why = f != NULL ? read_lines(a, f, &line) : strerror(errno);
	if (f != NULL)
		fclose(f);
	if (why == NULL)
		return a;
	fprintf(stderr, "chat_load: %s:%u: %s.\n", path, line, why);
	agents_free(a);
	return NULL;
}

void agents_free(struct agents *a)
{
	for (uint32_t i = 0; a != NULL && i < a->n_sessions; i++) {
		struct agents_session *s = a->sessions[i];

		for (uint32_t k = 0; s->talks != NULL && k < s->n_talks; k++) {
			talk_fini(&s->talks[k].talk);
			buf_free(&s->talks[k].answer);
			free(s->talks[k].results);
		}
		free(s->talks);
		free(s->turns);
		free(s);
	}
	if (a != NULL)
		free(a->sessions);
	free(a);
}

/* ---- whose turn is due ---- */

static void put_turn(struct agents_session *s, uint32_t turn, double at, struct due *d)
{
	struct agents_talk *a = &s->talks[s->turns[turn].agent];

	a->turn = turn;
	a->talk.ready_at = at;
	if (d != NULL)
		due_put(d, &a->talk);
}

void agents_begin(struct agents *a, struct due *d)
{
	for (uint32_t i = 0; i < a->n_sessions; i++)
		put_turn(a->sessions[i], 0, a->sessions[i]->start_s, d);
}

bool agents_answered(struct talk *t, struct span text, double now, struct due *d)
{
	struct agents_talk *a = of_talk(t);
	struct agents_session *s = a->session;
	uint32_t turn = a->turn;

	buf_free(&a->answer);
	buf_put(&a->answer, text.p, text.n);
	t->turn++;
	s->done++;
	for (uint32_t i = turn + 1; i < s->n && !s->failed; i++) {
		struct agents_turn *q = &s->turns[i];
		uint32_t came = (q->after == turn) + (s->turns[turn].join == i);

		q->waits -= came;
		if (came > 0 && q->waits == 0)
			put_turn(s, i, now + q->pause_s, d);
	}
	return s->done == s->n;
}

bool agents_failed(struct talk *t)
{
	struct agents_session *s = of_talk(t)->session;
	bool first = !s->failed;

	s->failed = true;
	return first;
}

bool agents_dropped(const struct talk *t)
{
	return of_talk(t)->session->failed;
}

/* ---- without a server ---- */

static void dry_turn(struct agents_talk *a, const struct load_opts *o, FILE *f)
{
	const struct agents_turn *q = &a->session->turns[a->turn];
	struct buf names = { 0 }, line = { 0 };

	agents_say(a, o);
	agents_put_names(a, o, &names);
	buf_putf(&line, "{\"session\":%u,\"agent\":%u,\"turn\":%u,\"kind\":\"%s\",\"keep\":%u,"
		 "\"add\":%u,\"head\":", a->session->number, a->agent, a->turn, kind_names[q->kind],
		 q->keep, q->add);
	buf_put_json(&line, buf_span(&names));
	buf_puts(&line, ",\"body\":");
	agents_put_body(a, o, &line);
	buf_puts(&line, "}\n");
	fwrite(line.p, 1, line.n, f);
	buf_free(&names);
	buf_free(&line);
}

void agents_dry(struct agents *a, const struct load_opts *o, FILE *f)
{
	for (uint32_t i = 0; i < a->n_sessions; i++) {
		struct agents_session *s = a->sessions[i];

		put_turn(s, 0, 0, NULL);
		for (uint32_t k = 0; k < s->n; k++) {
			struct agents_talk *t = &s->talks[s->turns[k].agent];
			struct buf answer = { 0 };

			dry_turn(t, o, f);
			load_words(&answer, (uint64_t)i << 32 | k, (size_t)s->turns[k].out * 4);
			agents_answered(&t->talk, buf_span(&answer), 0, NULL);
			buf_free(&answer);
		}
	}
}
