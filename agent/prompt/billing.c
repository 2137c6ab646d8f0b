/* billing.c - leave out the text of base/billing.h, as agent/chat/ does:
 *
 *   API of messages    a part of a system text that begins with it; a message of role system that
 *                      is such a text; the first line of "system", if that is a text
 *   chat, responses    the first line of a text of role system, or all of a text without another
 *
 * A part that is left out has no mark either. Bytes that agree with the beginning are held back:
 * they are known, so only their number is kept, and they are added once another byte follows.
 *
 * A text that comes before its role is taken for one of the system: some clients sort the keys of a
 * message. */
#include "agent/base/billing.h"
#include "agent/base/simd16.h"
#include "agent/prompt/body_in.h"

#define HOLE_MOST	256u

bool billing_may_begin(const struct body *b, unsigned n_parts)
{
	const struct message *m = &b->r.msg;
	enum prompt_api api = b->prompt.api;

	return (api == API_CHAT || api == API_MESSAGES || api == API_RESPONSES) && m->n_parts == n_parts &&
	       (!m->role_seen || m->role == b->h_system);
}

void billing_start(struct body *b, enum after after, bool part)
{
	struct request *r = &b->r;

	body_value_text(b, &r->msg.run[RUN_CONTENT], after);
	r->take = TAKE_BILLING;
	r->billing = (struct billing){
		.part = part, .line = b->prompt.api != API_MESSAGES || after == AFTER_SYSTEM,
	};
}

/* Read the rest as text, which begins with <text>, after the <held> bytes. */
static void go_on_as_text(struct body *b, size_t held, struct span text)
{
	struct request *r = &b->r;

	r->take = TAKE_TEXT;
	if (r->billing.part)
		part_text(&b->env, &r->msg);
	pager_add(&b->env, r->out, BILLING_BEGIN, held);
	pager_add(&b->env, r->out, text.p, text.n);
}

/* Take the bytes of <text> that agree with the beginning. Returns false if it is another text. */
static bool agrees(struct body *b, struct span *text)
{
	struct billing *x = &b->r.billing;
	size_t n = BILLING_BEGIN_N - x->held;

	n = n < text->n ? n : text->n;
	if (memcmp(&BILLING_BEGIN[x->held], text->p, n) != 0)
		return false;
	x->held += (uint8_t)n;
	*text = span_of(text->p + n, text->n - n);
	return true;
}

static void billing_text(struct body *b, struct span text)
{
	struct billing *x = &b->r.billing;
	const char *end;

	if (x->held < BILLING_BEGIN_N && !agrees(b, &text)) {
		go_on_as_text(b, x->held, text);
		return;
	}
	if (!x->line_ended && x->line && text.n > 0 && (end = memchr(text.p, '\n', text.n)) != NULL) {
		x->line_ended = true;
		text = span_of(end + 1, text.n - (size_t)(end + 1 - text.p));
	}
	if (x->line_ended && text.n > 0)
		go_on_as_text(b, 0, text);
}

void billing_event(struct body *b, enum json_event ev, struct span text)
{
	if (ev == JSON_STRING_PART)
		billing_text(b, text);
	else if (ev == JSON_STRING_END && b->r.billing.held < BILLING_BEGIN_N)
		go_on_as_text(b, b->r.billing.held, SPAN(""));
}

/* ---- the bytes of such a text, for struct turns ---------------------------------------------- */

#if SIMD16
/* An "x", and a "-" so many bytes later: few texts have both. */
#define LATER	11

/* Return where <p> has the first of them and the second follows. */
static inline __m128i two_agree(const char *p)
{
	return _mm_and_si128(
	    _mm_cmpeq_epi8(_mm_loadu_si128((const void *)p), _mm_set1_epi8(BILLING_BEGIN[0])),
	    _mm_cmpeq_epi8(_mm_loadu_si128((const void *)(p + LATER)),
		_mm_set1_epi8(BILLING_BEGIN[LATER])));
}
#endif

/* Return the first place from <p> on where the beginning may be. */
static const char *next_place(const char *p, const char *end)
{
#if SIMD16
	for (; end - p >= 64 + LATER; p += 64) {
		__m128i a = two_agree(p), b = two_agree(p + 16), c = two_agree(p + 32), d = two_agree(p + 48);

		if (_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d))) != 0)
			return p + __builtin_ctzll(simd16_mask4(a, b, c, d));
	}
#endif
	return p;
}

/* Each body of a conversation is searched, and memmem() takes about twice the time. */
const char *billing_find(struct span s)
{
	const char *p = s.p, *end = s.p + s.n;

	for (; (size_t)(end - p) >= BILLING_BEGIN_N; p++) {
		p = next_place(p, end);
		if (billing_begins(span_of(p, (size_t)(end - p))))
			return p;
	}
	return NULL;
}

/* Return how many bytes of <s> are plain text of a JSON string, without an escape or a line end. */
static size_t plain_bytes(struct span s)
{
	size_t n = 0;

	while (n < s.n && s.p[n] >= 0x20 && s.p[n] < 0x7f && s.p[n] != '"' && s.p[n] != '\\')
		n++;
	return n;
}

/* Tell if the scanner has just read the beginning, and the text is surely left out: what comes
 * later in the body may change the role of a message, and not that of "system". */
static bool is_left_out(const struct body *b)
{
	const struct message *m = &b->r.msg;

	return b->r.take == TAKE_BILLING && b->r.billing.held == BILLING_BEGIN_N &&
	       b->prompt.messages.n == 0 &&
	       (b->prompt.api == API_MESSAGES ? m->v == &b->prompt.system : m->role_seen);
}

struct hole billing_hole(struct body *b, struct span p)
{
	enum prompt_api api = b->prompt.api;
	struct hole hole = { 0, 0 };
	const char *at = NULL;
	size_t from, n;

	if (api == API_CHAT || api == API_MESSAGES)
		at = billing_find(p);
	if (at == NULL)
		return hole;
	from = (size_t)(at - p.p) + BILLING_BEGIN_N;
	n = plain_bytes(span_of(p.p + from, p.n - from));
	if (n > HOLE_MOST || from + n == p.n)
		return hole;
	body_feed(b, p.p, from);
	if (is_left_out(b))
		hole = (struct hole){ (uint32_t)from, (uint32_t)n };
	body_reset(b, api);
	return hole;
}
