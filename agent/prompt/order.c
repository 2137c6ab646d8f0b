/* Put the segments in order, with a remembered head in place of segments that were not seen.
 *
 * A page means "this text, directly after the pages before". No segment may therefore follow one
 * that is incomplete. A truncated body has two cases:
 *   - truncated inside the leading system messages: the prompt ends there, without tools
 *   - truncated inside "tools" or "system", after the messages: the incomplete segment is
 *     omitted, so that bodies of one conversation truncated at different places still match
 *
 * If the engine puts what it has stored before the input, the pages of the input are no beginning
 * of a prompt. They are marked by what they continue, so that no other prompt matches them. */
#include "agent/prompt/prompt.h"

enum fate {
	WHOLE,		/* complete */
	LAST,		/* incomplete; the prompt ends with it */
	ONLY_LAST	/* incomplete; used only if no segment follows */
};

struct piece {
	const page_key *p;
	uint32_t n;
	enum fate fate;
	bool input;	/* comes after pages that the engine has stored */
};

#define PIECES_MAX	(2 * TEXT_PARTS)

static const struct text_order usual = { { TEXT_SYSTEM, TEXT_TOOLS, TEXT_MESSAGES } };

static struct piece run_of(const struct page_vec *v, uint32_t from, uint32_t to, enum fate fate)
{
	if (from >= to)
		return (struct piece){ .fate = fate };
	return (struct piece){ .p = v->p + from, .n = to - from, .fate = fate };
}

static struct piece system_of(const struct prompt *p, const struct prompt_head *head)
{
	if (p->system_seen || p->json == JSON_DONE)
		return run_of(&p->system, 0, p->system.n, WHOLE);
	if (head != NULL)
		return (struct piece){ .p = head->system, .n = head->n_system, .fate = WHOLE };
	return run_of(&p->system, 0, p->system.n, ONLY_LAST);
}

static struct piece tools_of(const struct prompt *p, const struct prompt_head *head)
{
	if (p->tools_seen || p->json == JSON_DONE)
		return run_of(&p->tools, 0, p->tools.n, WHOLE);
	if (head != NULL)
		return (struct piece){ .p = head->tools, .n = head->n_tools, .fate = WHOLE };
	return run_of(&p->tools, 0, p->tools.n, ONLY_LAST);
}

static struct piece input_of(const struct prompt *p, uint32_t from, uint32_t to, enum fate fate)
{
	struct piece x = run_of(&p->messages, from, to, fate);

	x.input = true;
	return x;
}

static struct piece leading_of(const struct prompt *p)
{
	bool cut = p->json != JSON_DONE && !p->prompt_seen && p->n_leading == p->messages.n;

	return input_of(p, 0, p->n_leading, cut ? LAST : WHOLE);
}

static size_t pieces_of(const struct prompt *p, const struct text_order *order,
			const struct prompt_head *head, struct piece *x)
{
	size_t n = 0, i;

	for (i = 0; i < TEXT_PARTS; i++) {
		switch ((enum text_part)order->part[i]) {
		case TEXT_SYSTEM:
			x[n++] = system_of(p, head);
			x[n++] = leading_of(p);
			break;
		case TEXT_TOOLS:
			x[n++] = tools_of(p, head);
			break;
		case TEXT_MESSAGES:
			x[n++] = input_of(p, p->n_leading, p->messages.n, WHOLE);
			break;
		case TEXT_PARTS:
			break;
		}
	}
	return n;
}

static bool more_behind(const struct piece *x, size_t i, size_t n)
{
	for (i++; i < n; i++)
		if (x[i].n > 0)
			return true;
	return false;
}

/* Both hashes are keyed, so no client knows a page that gives one of another prompt. */
static void mark_input(const struct prompt *p, page_key *pages, size_t n)
{
	uint64_t mark = p->previous != 0 ? p->previous : p->named[NAMED_CONVERSATION];

	for (size_t i = 0; i < n; i++)
		pages[i] ^= mark;
}

int prompt_pages(const struct prompt *p, const struct text_order *order,
		 const struct prompt_head *head, struct page_vec *out)
{
	struct piece x[PIECES_MAX];
	size_t n = pieces_of(p, order != NULL ? order : &usual, head, x), i;
	bool stored = prompt_continues_stored(p);

	out->n = 0;
	for (i = 0; i < n; i++) {
		if (x[i].n == 0 || (x[i].fate == ONLY_LAST && more_behind(x, i, n)))
			continue;
		if (page_vec_append(out, x[i].p, x[i].n) != 0)
			return -1;
		if (stored && x[i].input)
			mark_input(p, out->p + out->n - x[i].n, x[i].n);
		if (x[i].fate == LAST)
			break;
	}
	return 0;
}
