/* split_regex.c - regular expressions by PCRE2 with its JIT.
 *
 * One compiled pattern is shared by threads; match data, context and the JIT's stack belong to a
 * scratch. The JIT is fast, but a group that repeats a million times fills its stack. The same
 * match is then run without it, with memory from the heap up to a bound. A text that meets that
 * bound too, or the limit of steps, is not encoded, because half an answer would be wrong ids. All
 * memory except machine code comes from mem.h.
 *
 * A pattern is compiled twice. PCRE2's tables are of Unicode 14, so every set lists newer
 * characters, which costs ten times the time. The second form is without these lists, for texts
 * without such characters.
 *
 * The work of a request bounds all of its matches together. PCRE2's own limit cannot, because it
 * starts again for each character from which a match is tried, and the JIT does not count repeats
 * of one character. So a pattern is compiled with a callout before each item, which charges itself
 * and the bytes since the last one, and stops the match when nothing is left. A callout costs more
 * than the item; patterns that are cheap by their shape have none (split_cost.c).
 *
 * Patterns with atomic groups are interpreted, because the JIT of 10.42 backtracks into them: on
 * "ab1bab", (?>[ab]+|(?:[^ ]{2})+b)\P{N} matches by an alternative that must not be tried any more.
 * So are all patterns where the system refuses executable memory (MemoryDenyWriteExecute= of
 * systemd, or a reload in the sandbox); their items then cost what interpreting them takes. On
 * arm64, so are patterns on texts at the end of a page (jit_may_read()). */
#include "agent/tok/split/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "agent/base/mem.h"
#include "agent/tok/split/split_cost_in.h"
#include "agent/tok/unicode/unicode.h"

#define STEPS_MOST	10000000	/* PCRE2's own default, and Oniguruma's */
#define HEAP_KIB_MOST	(256 * 1024)
#define STACK_FIRST	(32 * 1024)
#define STACK_MOST	(4 * 1024 * 1024)

/* Prices in steps of work.h: a call; bytes per step; callouts of JIT code per step, and steps per
 * callout of the interpreter. */
#define STEPS_MATCH	4
#define STEP_BYTES	8
#define STEP_CALLOUTS	2
#define STEPS_SLOW	4

/* At most so many bytes after a text are read by the JIT of arm64: the aligned 16 that hold a byte
 * at most 11 after the text (MAX_N_CHARS in PCRE2). Pages are at least this large. */
#define JIT_PAST	32
#define PAGE_LEAST	4096

struct regex {
	pcre2_general_context *general;
	pcre2_compile_context *compile;
	pcre2_code *code;
	pcre2_code *plain;	/* for texts without UC_NEW characters; NULL: the same */
	struct regex_cost cost;
	bool no_jit;
};

/* What callouts are charged to, in one call. */
struct count {
	struct work_left *work;
	size_t last;		/* the place of the last one */
	uint64_t items, bytes;	/* tried, passed */
	uint32_t price;		/* of an item; 0: STEP_CALLOUTS of them cost one step */
};

struct regex_scratch {
	pcre2_general_context *general;
	pcre2_match_context *match;
	pcre2_match_data *data;
	pcre2_jit_stack *stack;
};

static void *take(PCRE2_SIZE n, void *arg)
{
	return mem_alloc(n);
}

static void give(void *p, void *arg)
{
	mem_free(p);
}

static int refuse(struct err *e, int code, size_t at, const struct onig *o)
{
	PCRE2_UCHAR text[160];

	pcre2_get_error_message(code, text, sizeof(text));
	return err_set(e, "the pattern is not understood at byte %u: %s",
	    at < o->text.n ? o->from.p[at] + 1 : 0, (const char *)text);
}

static int compile(const struct regex *r, pcre2_code **out, const struct onig *o, struct err *e)
{
	PCRE2_SIZE at = 0;
	int code = 0;

	*out = pcre2_compile((PCRE2_SPTR)o->text.p, o->text.n,
	    PCRE2_UTF | PCRE2_UCP | (r->cost.counted ? PCRE2_AUTO_CALLOUT : 0), &code, &at,
			     r->compile);
	if (*out == NULL)
		return code == PCRE2_ERROR_HEAP_FAILED ? err_set(e, "no memory") : refuse(e, code, at, o);
	if (!o->no_jit)
		pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE);	/* may fail: has_jit() */
	return 0;
}

static bool has_jit(const pcre2_code *code)
{
	size_t bytes = 0;

	return code != NULL && pcre2_pattern_info(code, PCRE2_INFO_JITSIZE, &bytes) == 0 && bytes > 0;
}

static int compile_both(struct regex *r, struct span pattern, bool literal, struct err *e)
{
	struct onig o = { .plain = false }, plain = { .plain = true };
	int rc = -1;

	if ((r->general = pcre2_general_context_create(take, give, NULL)) == NULL ||
	    (r->compile = pcre2_compile_context_create(r->general)) == NULL)
		return err_set(e, "no memory");
	pcre2_set_newline(r->compile, PCRE2_NEWLINE_LF);
	rc = onig_translate(pattern, literal, &o, e);
	if (rc == 0) {
		r->cost = regex_cost_of(span_of(o.text.p, o.text.n));
		rc = compile(r, &r->code, &o, e);
	}
	if (rc == 0)
		rc = !o.sets ? 0
		    : onig_translate(pattern, literal, &plain, e) < 0
		    ? -1
		    : compile(r, &r->plain, &plain, e);
	r->no_jit = !has_jit(r->code);
	onig_fini(&o);
	onig_fini(&plain);
	return rc;
}

struct regex *regex_new(struct span pattern, bool literal, struct err *e)
{
	struct regex *r;

	if ((r = mem_alloc(sizeof(*r))) == NULL) {
		err_set(e, "no memory");
		return NULL;
	}
	if (compile_both(r, pattern, literal, e) == 0)
		return r;
	regex_free(r);
	return NULL;
}

void regex_free(struct regex *r)
{
	if (r == NULL)
		return;
	pcre2_code_free(r->code);
	pcre2_code_free(r->plain);
	pcre2_compile_context_free(r->compile);
	pcre2_general_context_free(r->general);
	mem_free(r);
}

struct regex_scratch *regex_scratch_new(void)
{
	struct regex_scratch *c = mem_alloc(sizeof(*c));

	if (c == NULL)
		return NULL;
	if ((c->general = pcre2_general_context_create(take, give, NULL)) == NULL ||
	    (c->match = pcre2_match_context_create(c->general)) == NULL ||
	    (c->data = pcre2_match_data_create(1, c->general)) == NULL) {
		regex_scratch_free(c);
		return NULL;
	}
	pcre2_set_heap_limit(c->match, HEAP_KIB_MOST);
	pcre2_set_match_limit(c->match, STEPS_MOST);
	if ((c->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MOST, c->general)) != NULL)
		pcre2_jit_stack_assign(c->match, NULL, c->stack);
	return c;
}

void regex_scratch_free(struct regex_scratch *c)
{
	if (c == NULL)
		return;
	if (c->stack != NULL)
		pcre2_jit_stack_free(c->stack);
	pcre2_match_data_free(c->data);
	pcre2_match_context_free(c->match);
	pcre2_general_context_free(c->general);
	mem_free(c);
}

static bool has_new(const uint8_t *p, size_t n)
{
	size_t at = 0;
	uint32_t cp;

	while (at < n) {
		if (p[at] < 0x80) {
			at++;
			continue;
		}
		at += utf8_get(p + at, n - at, &cp);
		if (uc_kind(cp).bits & UC_NEW)
			return true;
	}
	return false;
}

/* Charge an item of the pattern, and the bytes since the last one, because a repeat has passed
 * them. */
static int count_item(pcre2_callout_block *b, void *arg)
{
	struct count *k = arg;
	size_t at = b->current_position, by = at > k->last ? at - k->last : k->last - at;
	uint64_t looks = by / STEP_BYTES;

	k->last = at;
	k->items++;
	k->bytes += by;
	work_spend(k->work, k->price + looks + (k->price == 0 && k->items % STEP_CALLOUTS == 0));
	return work_spent(k->work) || k->items + k->bytes / STEP_BYTES > STEPS_MOST
	    ? PCRE2_ERROR_CALLOUT
	    : 0;
}

/* Return whether JIT code for arm64 reads only memory that exists. Before PCRE2 10.47, it searches
 * for the first characters of a match also where the text ends: "[\r\n]" after a last line end
 * reads the next 16 bytes. In the page of the last byte that does no harm. */
static bool jit_may_read(const uint8_t *p, size_t n)
{
#ifdef __aarch64__
	return n > 0 && (uintptr_t)(p + n - 1) % PAGE_LEAST + JIT_PAST < PAGE_LEAST;
#else
	return true;
#endif
}

static int match(const struct regex *r, const pcre2_code *code, struct regex_scratch *c,
    struct work_left *w, const uint8_t *p, size_t n, size_t from)
{
	bool jit = !r->no_jit && jit_may_read(p, n);
	struct count k = { .work = w, .last = from, .price = jit ? 0 : STEPS_SLOW };
	uint32_t options = PCRE2_NO_UTF_CHECK | (jit ? 0 : PCRE2_NO_JIT);
	int rc;

	k.price += r->cost.least / STEP_BYTES;
	work_spend(w, STEPS_MATCH);
	if (work_spent(w))
		return -1;
	pcre2_set_callout(c->match, r->cost.counted ? count_item : NULL, &k);
	rc = pcre2_match(code, p, n, from, options, c->data, c->match);
	if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
		k.price += STEPS_SLOW;
		k.last = from;
		rc = pcre2_match(code, p, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, c->data, c->match);
	}
	/* 0: more groups than the match data has */
	return rc >= 0 ? 1 : rc == PCRE2_ERROR_NOMATCH ? 0 : -1;
}

int regex_next(const struct regex *r, struct regex_scratch *c, struct work_left *w,
    const uint8_t *p, size_t n, struct regex_at *at, size_t *start, size_t *end)
{
	const PCRE2_SIZE *v = pcre2_get_ovector_pointer(c->data);
	int rc;

	if (!at->begun) {
		at->begun = true;
		at->exact = r->plain == NULL || has_new(p, n);
		work_spend(w, n / STEP_BYTES);
	}
	while (at->from <= n) {
		if ((rc = match(r, at->exact ? r->code : r->plain, c, w, p, n, at->from)) <= 0)
			return rc;
		work_spend(w, (v[1] - at->from) / STEP_BYTES);
		if (v[0] != v[1] || !at->any || v[1] != at->end) {
			*start = v[0];
			*end = at->from = at->end = v[1];
			return at->any = true;
		}
		do	/* an empty match at the end of the last one: go on by one character */
			at->from++;
		while (at->from < n && utf8_inside(p[at->from]));
	}
	return 0;
}
