/* problems.c - windows of evidence, and what follows from them.
 *
 * A share of a window is judged and not single events, because most bad events happen now and then
 * with a sound configuration: a server goes down between choice and connection, an HAProxy that
 * ends loses log lines, a body is longer than any buffer. Cost: 31 kinds x 200 bytes for each pool,
 * and one pass over them a second. */
#include "agent/base/mem.h"
#include "agent/route/problems.h"

#define LEAST_BAD	3	/* bad observations: fewer in a window are an accident, at any share */
#define LONE_WINDOWS	6u	/* additional windows if all observations are of one tenant */
#define CLEAR_WINDOWS	3	/* from the last faulty window, with a good one at the end */
#define QUIET_WINDOWS	60	/* without a bad observation */
#define CERTAIN_WINDOWS	12	/* the same if the share is 0 */
#define STALE_WINDOWS	360	/* a window with too few requests stays open for so long */
#define LOOK_MOST_MS	1000

const struct problem_row problem_rows[PROBLEM_COUNT] = {
#define X(name, w, s, n_windows, a, b, n, m, eff, rem) \
	[PROBLEM_##name] = { \
		.word = w, .share = s, .windows = n_windows, .text_key = { a, b }, .number_key = n, \
		.message = m, .effect = eff, .remedy = rem, \
	},
	PROBLEM_LIST(X)
#undef X
};

const struct haproxy_error haproxy_errors[] = {
#define X(code, what, cause, remedy) { code, PROBLEM_##what, cause, remedy },
	HAPROXY_ERROR_LIST(X)
#undef X
};

unsigned haproxy_error_index(int code)
{
	unsigned i = 0;

	while (i < HAPROXY_ERRORS && haproxy_errors[i].code != code)
		i++;
	return i;
}

const char *problem_remedy(enum problem what, const struct problem_example *x)
{
	unsigned i = HAPROXY_ERRORS;

	if (what == PROBLEM_SPOE_TIMEOUT || what == PROBLEM_SPOE_TOO_BIG || what == PROBLEM_SPOE_FAILED)
		i = haproxy_error_index((int)x->number);
	return i < HAPROXY_ERRORS ? haproxy_errors[i].remedy : problem_rows[what].remedy;
}

void problems_defaults(struct problems_opts *o)
{
	*o = (struct problems_opts){ .min_requests = 10, .window_ms = 10000, .repeat_ms = 3600000 };
}

/* ---- pools --------------------------------------------------------------------------------- */

int problems_init(struct problems *p)
{
	*p = (struct problems){ .n = 0 };
	return problems_pool(p, SPAN("")) != NULL ? 0 : -1;
}

void problems_fini(struct problems *p)
{
	for (unsigned i = 0; i < p->n; i++)
		mem_free(p->pool[i]);
	p->n = 0;
}

uint64_t problems_bytes(void)
{
	return (uint64_t)PROBLEM_PLACES * (sizeof(struct problem_pool) + 16);
}

struct problem_pool *problems_find(const struct problems *p, struct span name)
{
	for (unsigned i = 0; i < p->n; i++) {
		if (span_eq(name, span_str(p->pool[i]->name)))
			return p->pool[i];
	}
	return NULL;
}

static struct problem_pool *add(struct problems *p, struct span name)
{
	struct problem_pool *pp;

	if (name.n >= sizeof(pp->name) ||
	    (name.n > 0 && memchr(name.p, '\0', name.n) != NULL) ||
	    (pp = mem_alloc(sizeof(*pp))) == NULL)
		return NULL;
	if (name.n > 0)
		memcpy(pp->name, name.p, name.n);
	return p->pool[p->n++] = pp;
}

struct problem_pool *problems_pool(struct problems *p, struct span name)
{
	struct problem_pool *pp = problems_find(p, name);

	return pp != NULL || p->n > PROBLEM_POOLS_MAX + p->n_backends ? pp : add(p, name);
}

struct problem_pool *problems_backend(struct problems *p, struct span name)
{
	struct problem_pool *pp = problems_find(p, name);

	if (pp != NULL)
		return pp;
	if (p->n_backends == PROBLEM_BACKENDS_MAX || (pp = add(p, name)) == NULL)
		return p->pool[0];
	p->n_backends++;
	return pp;
}

/* ---- observations -------------------------------------------------------------------------- */

static void keep_name(char to[PROBLEM_NAME_MAX + 1], struct span s)
{
	size_t n = s.n < PROBLEM_NAME_MAX ? s.n : PROBLEM_NAME_MAX;

	if (n > 0)
		memcpy(to, s.p, n);
	to[n] = '\0';
}

void problems_bad(struct problem_pool *pp, enum problem what, struct span a, struct span b,
		  int64_t number)
{
	struct problem_state *e;

	if (pp == NULL)
		return;
	e = &pp->e[what];
	if (e->bad++ > 0)
		return;
	keep_name(e->example.text[0], a);
	keep_name(e->example.text[1], b);
	e->example.number = number;
}

static void problem_clear(struct problem_state *e)
{
	e->raised = e->warn = false;
	e->over = e->told;
	e->told = false;
	e->run = 0;
}

void problems_end(struct problem_pool *pp, enum problem what)
{
	problem_clear(&pp->e[what]);
	pp->e[what].bad = pp->e[what].bad_before = 0;
}

void problems_unheard(struct problem_pool *pp)
{
	problems_count(pp, PROBLEM_FEED_MISSING, true);
}

void problems_owed(struct problem_pool *pp)
{
	if (pp != NULL)
		pp->owed++;
}

void problems_line(struct problem_pool *pp)
{
	if (pp == NULL)
		return;
	pp->owed -= pp->owed > 0;
	pp->e[PROBLEM_FEED_MISSING].good++;
	if (pp->e[PROBLEM_FEED_MISSING].raised)
		problem_clear(&pp->e[PROBLEM_FEED_MISSING]);
}

bool problems_settled(const struct problems *p, const struct problems_opts *o, msec now)
{
	return p->since != 0 && now - p->since >= o->window_ms;
}

/* ---- windows ------------------------------------------------------------------------------- */

/* Tell if all observations came from one tenant. */
static bool is_lone(const struct problem_state *e)
{
	return e->from != 0 && (e->from & (e->from - 1)) == 0;
}

/* Tell if only one of several tenants has bad observations. */
static bool is_odd(const struct problem_state *e)
{
	return !is_lone(e) && e->from != 0 && (e->bad_from & (e->bad_from - 1)) == 0;
}

static void judge_window(struct problem_state *e, const struct problem_row *row,
		  const struct problems_opts *o, bool faulty, msec now)
{
	if (faulty) {
		if (e->run == 0 && !e->raised)
			e->began = e->opened != 0 ? e->opened : now;
		e->faulty = e->window_end = now;
		e->bad_seen = e->bad;
		e->seen = e->bad + e->good;
		e->run++;
		e->raised |= e->run >= row->windows + (is_lone(e) ? LONE_WINDOWS : 0u);
		return;
	}
	e->run = 0;
	if (e->raised && now - e->window_end >= CLEAR_WINDOWS * o->window_ms)
		problem_clear(e);
}

static void window_reset(struct problem_state *e)
{
	e->good = e->bad = e->bad_before = e->good_before = 0;
	e->from = e->bad_from = 0;
	e->opened = 0;
}

/* While a problem lasts, half of its share is enough, so that one near its bound does not come and
 * go. */
static bool is_faulty(const struct problem_state *e, const struct problem_row *row)
{
	uint64_t least = e->raised ? (row->share + 1u) / 2 : row->share;

	return e->bad >= LEAST_BAD && !is_odd(e) &&
	    (uint64_t)e->bad * 100 >= least * ((uint64_t)e->bad + e->good);
}

/* Close the window of the feed. If lines without JSON came instead of those missing, that is the
 * problem. */
static void close_feed(const struct problems *p, struct problem_pool *pp,
		       const struct problems_opts *o, msec now)
{
	struct problem_state *e = &pp->e[PROBLEM_FEED_MISSING], *plain = &pp->e[PROBLEM_FEED_PLAIN];
	bool faulty = is_faulty(e, &problem_rows[PROBLEM_FEED_MISSING]);
	uint64_t n_plain = __atomic_load_n(&p->plain, __ATOMIC_RELAXED);
	bool lines = n_plain - pp->plain >= e->bad;

	plain->bad = e->bad;
	plain->good = e->good;
	plain->opened = e->opened;
	if (faulty && lines)
		plain->last = now;
	judge_window(e, &problem_rows[PROBLEM_FEED_MISSING], o, faulty && !lines, now);
	judge_window(plain, &problem_rows[PROBLEM_FEED_PLAIN], o, faulty && lines, now);
	pp->plain = n_plain;
	window_reset(plain);
}

static bool window_over(const struct problem_state *e, const struct problem_row *row,
			const struct problems_opts *o, msec now)
{
	if (row->share == 0)
		return e->bad >= LEAST_BAD;
	return (uint64_t)e->good + e->bad >= o->min_requests && now - e->opened >= o->window_ms;
}

static msec window_most(const struct problem_row *row, const struct problems_opts *o)
{
	return (row->share == 0 ? QUIET_WINDOWS : STALE_WINDOWS) * o->window_ms;
}

/* Note what came since the last look. */
static void note_seen(struct problem_state *e, msec now)
{
	if (e->bad != e->bad_before) {
		e->last = now;
		e->good_after = 0;
		if (e->raised)
			e->faulty = now;
	} else if (e->good_after < UINT32_MAX / 2) {
		e->good_after += e->good - e->good_before;
	}
	e->bad_before = e->bad;
	e->good_before = e->good;
}

/* Tell if a raised problem has ended without a whole window: if half of its share were still bad,
 * so many good observations in a row would have a chance below 1 percent. */
static bool is_cured(const struct problem_state *e, const struct problem_row *row,
		     const struct problems_opts *o, msec now)
{
	uint64_t least = (row->share + 1u) / 2;
	msec quiet = row->share > 0 ? QUIET_WINDOWS : CERTAIN_WINDOWS;

	if (now - e->faulty >= quiet * o->window_ms)
		return true;
	return row->share > 0 && now - e->last >= o->window_ms &&
	    (uint64_t)e->good_after * least >= 500;
}

static void close_window(struct problems *p, struct problem_pool *pp, enum problem what,
		    const struct problems_opts *o, msec now)
{
	const struct problem_row *row = &problem_rows[what];
	struct problem_state *e = &pp->e[what];

	note_seen(e, now);
	if (e->opened == 0 && (e->good > 0 || e->bad > 0)) {
		e->opened = now;
		if (row->share > 0)
			return;
	}
	if (e->opened != 0 && window_over(e, row, o, now)) {
		if (what == PROBLEM_FEED_MISSING)
			close_feed(p, pp, o, now);
		else
			judge_window(e, row, o, row->share == 0 || is_faulty(e, row), now);
		window_reset(e);
	} else if (e->opened != 0 && now - e->opened >= window_most(row, o)) {
		window_reset(e);
	}
	if (e->raised && is_cured(e, row, o, now))
		problem_clear(e);
}

/* Count answers whose log line has not come within a window as ended without one. */
static void take_owed(struct problem_pool *pp, const struct problems_opts *o, msec now)
{
	struct problem_state *e = &pp->e[PROBLEM_FEED_MISSING];

	if (pp->owed == 0 || (e->opened != 0 && now - e->opened < o->window_ms))
		return;
	if (e->opened == 0) {
		e->opened = now;
		return;
	}
	e->bad += pp->owed;
	pp->owed = 0;
}

static void plan_line(
    struct problems *p, struct problem_state *e, const struct problems_opts *o, msec now)
{
	if (e->raised && (e->warned == 0 || now - e->warned >= o->repeat_ms)) {
		e->warned = now;
		e->warn = e->told = true;
		e->over = false;
	}
	p->waiting += e->warn || e->over;
}

static void close_windows(struct problems *p, const struct problems_opts *o, msec now)
{
	p->waiting = 0;
	for (unsigned i = 0; i < p->n; i++) {
		take_owed(p->pool[i], o, now);
		for (unsigned k = 0; k < PROBLEM_COUNT; k++)
			close_window(p, p->pool[i], (enum problem)k, o, now);
		for (unsigned k = 0; k < PROBLEM_COUNT; k++)
			plan_line(p, &p->pool[i]->e[k], o, now);
	}
}

void problems_clear(struct problems *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		memset(p->pool[i]->e, 0, sizeof(p->pool[i]->e));
		p->pool[i]->owed = 0;
	}
}

struct problem_view problem_view(const struct problem_pool *pp, enum problem what,
				 const struct problems_opts *o, msec now)
{
	const struct problem_state *e = &pp->e[what];
	msec seen = e->raised && e->last != 0 ? now - e->last : 0;

	return (struct problem_view){
		.word = problem_rows[what].word, .pool = pp->name, .raised = e->raised,
		.quiet = seen >= CLEAR_WINDOWS * o->window_ms,
		.since_ms = e->raised ? now - e->began : 0, .seen_ms = seen,
		.example = e->example, .what = what,
	};
}

static bool take_line(const struct problem_pool *pp, struct problem_state *e, enum problem what,
		      struct problem_event *to)
{
	if (!e->warn && !e->over)
		return false;
	*to = (struct problem_event){
		.what = what, .over = !e->warn, .bad = e->bad_seen, .seen = e->seen,
		.example = e->example,
	};
	memcpy(to->pool, pp->name, sizeof(to->pool));
	e->warn = e->over = false;
	return true;
}

bool problems_next(struct problems *p, const struct problems_opts *o, msec now,
		   struct problem_event *e)
{
	msec every = o->window_ms / 4 < LOOK_MOST_MS ? o->window_ms / 4 : LOOK_MOST_MS;

	if (p->since == 0)
		p->since = now;
	if (now - p->looked >= every) {
		p->looked = now;
		close_windows(p, o, now);
	}
	for (unsigned i = 0; p->waiting > 0 && i < p->n; i++) {
		for (unsigned k = 0; k < PROBLEM_COUNT; k++) {
			if (take_line(p->pool[i], &p->pool[i]->e[k], (enum problem)k, e)) {
				p->waiting--;
				return true;
			}
		}
	}
	return false;
}
