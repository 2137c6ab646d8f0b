/* added.c - find added tokens with a filter and a trie.
 *
 * The filter skips to the next byte that may begin a token. From there a walk down the trie
 * remembers the last end of a token: that is the longest one, so the result is leftmost-longest
 * without failure links. Nearly all tokens of nearly all models begin with '<' or '[', which are
 * rare in text. An Aho-Corasick automaton would read each byte (1 ns); the filter reads 32 per
 * nanosecond. The worst case is a text of half tokens: n times the longest content. Contents come
 * from the operator's file and have at most ADDED_CONTENT_MAX bytes; a search with a budget charges
 * the nodes of each walk.
 *
 * Filter, AVX2: two tables, by the high and the low half of a byte, ANDed. Bit b of high[h] stands
 * for row h, and bit b of low[l] tells that this row has l. There are eight bits; with more rows,
 * two share a bit, and bytes may pass that begin no token.
 *
 * Trie: nodes are sorted by depth; the children of a node are adjacent and sorted by byte. */
#include "agent/tok/added.h"

#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/base/utf8.h"
#include "agent/tok/unicode/unicode.h"
#include "agent/tok/word.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define NO_TOKEN	UINT32_MAX

/* The price of a walk: nodes per step of work.h in a trie that stays in the cache, steps per node
 * in larger ones, where each node waits for memory. Measured on a busy machine with tokens of 500
 * bytes that overlap: 3 to 11 ns a step from 3 to 28 MiB, and 330 ns a node with 84 MiB.
 * memcmp() compares NODE_BYTES in the time of a node. */
#define STEP_NODES	2u
#define NODES_SMALL	(1u << 16)
#define STEPS_LARGE	4u
#define NODES_LARGE	(1u << 21)
#define STEPS_HUGE	40u
#define NODE_BYTES	16u

struct node {
	uint32_t first, n;	/* children */
	uint32_t token;
	/* the only token that ends below, whose content is compared at once; or NO_TOKEN */
	uint32_t only;
};

struct token {
	uint32_t at, n;		/* in <contents> */
	token_id id;
	bool single_word, lstrip, rstrip, composes;
};

struct added {
	struct token *token;
	uint32_t n_tokens;
	char *contents;
	size_t n_contents;
	struct node *node;
	uint8_t *byte;		/* the byte that leads to each node */
	uint32_t n_nodes;
	bool any_lstrip;
	bool avx2;
	bool begins[256];
	uint32_t child[256];	/* children of the root; 0: none */
	uint8_t low[16], high[16];
};

/* ---- building -------------------------------------------------------------------------------- */

static int by_content(const void *a, const void *b)
{
	const struct added_token *x = *(const struct added_token *const *)a,
				 *y = *(const struct added_token *const *)b;
	size_t n = x->content.n < y->content.n ? x->content.n : y->content.n;
	int c = n ? memcmp(x->content.p, y->content.p, n) : 0;

	if (c != 0)
		return c;
	if (x->content.n != y->content.n)
		return x->content.n < y->content.n ? -1 : 1;
	return (x > y) - (x < y);	/* of two equal ones, the first stays */
}

/* Copy <tokens> in the order of their contents, each content once. */
static int take_tokens(struct added *a, const struct added_token *tokens, size_t n)
{
	const struct added_token **sorted = mem_calloc(n + 1, sizeof(*sorted));
	size_t all = 0, m = 0;

	for (size_t i = 0; sorted != NULL && i < n; i++) {
		if (tokens[i].content.n > 0)
			sorted[m++] = &tokens[i];
		all += tokens[i].content.n;
	}
	a->token = mem_calloc(n + 1, sizeof(*a->token));
	a->contents = mem_alloc(all + 1);
	if (sorted == NULL || a->token == NULL || a->contents == NULL) {
		mem_free(sorted);
		return -1;
	}
	qsort(sorted, m, sizeof(*sorted), by_content);
	for (size_t i = 0; i < m; i++) {
		const struct added_token *s = sorted[i];

		if (i > 0 && span_eq(s->content, sorted[i - 1]->content))
			continue;
		memcpy(a->contents + a->n_contents, s->content.p, s->content.n);
		a->token[a->n_tokens++] = (struct token){ (uint32_t)a->n_contents, (uint32_t)s->content.n, s->id,
							  s->single_word, s->lstrip, s->rstrip, s->composes };
		a->n_contents += s->content.n;
		a->any_lstrip |= s->lstrip;
	}
	mem_free(sorted);
	return 0;
}

/* The tokens [from, to) share <depth> bytes, and <at> is their node. Levels are built top down. */
struct range {
	uint32_t from, to, depth;
};

static uint8_t byte_at(const struct added *a, uint32_t token, uint32_t depth)
{
	return (uint8_t)a->contents[a->token[token].at + depth];
}

static void children(struct added *a, struct range *range, uint32_t at)
{
	struct range r = range[at];
	struct node *nd = &a->node[at];
	uint32_t i = r.from, j;

	nd->first = a->n_nodes;
	nd->token = NO_TOKEN;
	nd->only = NO_TOKEN;
	if (i < r.to && a->token[i].n == r.depth)
		nd->token = i++;
	if (i + 1 == r.to)
		nd->only = i;
	for (; i < r.to; i = j) {
		uint8_t b = byte_at(a, i, r.depth);

		for (j = i + 1; j < r.to && byte_at(a, j, r.depth) == b; )
			j++;
		range[a->n_nodes] = (struct range){ i, j, r.depth + 1 };
		a->byte[a->n_nodes++] = b;
		nd->n++;
	}
}

static int build_trie(struct added *a)
{
	size_t most = a->n_contents + 1;
	struct range *range = mem_calloc(most, sizeof(*range));

	a->node = mem_calloc(most, sizeof(*a->node));
	a->byte = mem_alloc(most);
	if (range == NULL || a->node == NULL || a->byte == NULL) {
		mem_free(range);
		return -1;
	}
	range[0] = (struct range){ 0, a->n_tokens, 0 };
	a->n_nodes = 1;
	for (uint32_t at = 0; at < a->n_nodes; at++)
		children(a, range, at);
	mem_free(range);
	return 0;
}

static void build_filter(struct added *a)
{
	unsigned int rows = 0;

	for (uint32_t i = 0; i < a->node[0].n; i++) {
		uint8_t b = a->byte[a->node[0].first + i];

		a->child[b] = a->node[0].first + i;
		a->begins[b] = true;
		if (a->high[b >> 4] == 0)
			a->high[b >> 4] = (uint8_t)(1u << (rows++ & 7));
		a->low[b & 15] |= a->high[b >> 4];
	}
#ifdef __x86_64__
	a->avx2 = __builtin_cpu_supports("avx2");
#endif
}

struct added *added_new(const struct added_token *tokens, size_t n)
{
	struct added *a = mem_alloc(sizeof(*a));

	if (a == NULL || take_tokens(a, tokens, n) < 0 || build_trie(a) < 0) {
		added_free(a);
		return NULL;
	}
	build_filter(a);
	return a;
}

void added_free(struct added *a)
{
	if (a == NULL)
		return;
	mem_free(a->token);
	mem_free(a->contents);
	mem_free(a->node);
	mem_free(a->byte);
	mem_free(a);
}

size_t added_bytes(const struct added *a)
{
	return sizeof(*a) + (a->n_tokens + 1) * sizeof(*a->token) +
	    (a->n_contents + 1) * (sizeof(*a->node) + 2);
}

bool added_none(const struct added *a)
{
	return a->n_tokens == 0;
}

/* ---- searching ------------------------------------------------------------------------------- */

#ifdef __x86_64__
__attribute__((target("avx2")))
static size_t filter_avx2(const struct added *a, const uint8_t *p, size_t i, size_t n)
{
	const __m256i low = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)a->low));
	const __m256i high = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)a->high));
	const __m256i half = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();

	for (; n - i >= 32; i += 32) {
		__m256i v = _mm256_loadu_si256((const __m256i *)(p + i));
		__m256i l = _mm256_shuffle_epi8(low, _mm256_and_si256(v, half));
		__m256i h = _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16(v, 4), half));
		uint32_t none = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_and_si256(l, h), zero));

		if (none != UINT32_MAX)
			return i + (size_t)__builtin_ctz(~none);
	}
	return i;
}
#endif

/* Return the next place from <i> on where a token may begin, or <n>. It may be a false alarm. */
static size_t filter(const struct added *a, const uint8_t *p, size_t i, size_t n)
{
	while (i < n && !a->begins[p[i]]) {
#ifdef __x86_64__
		if (a->avx2 && n - i >= 32) {
			i = filter_avx2(a, p, i, n);
			if (i < n && !a->begins[p[i]])
				i++;
			continue;
		}
#endif
		i++;
	}
	return i;
}

struct walk {
	bool open;		/* the text ends where a longer token is possible */
	size_t nodes;		/* looked at */
};

/* Compare the rest of the only token below a node; <depth> bytes of it precede <p>. */
static bool rest_is(const struct added *a, uint32_t only, size_t depth, const uint8_t *p, size_t n,
    struct walk *w)
{
	const struct token *t = &a->token[only];
	size_t rest = t->n - depth, here = rest < n ? rest : n;

	w->nodes += here / NODE_BYTES;
	if (memcmp(p, a->contents + t->at + depth, here) != 0)
		return false;
	w->open = here < rest;
	return !w->open;
}

/* Return the longest token at <i>, or NO_TOKEN. */
static uint32_t longest(const struct added *a, const uint8_t *p, size_t i, size_t n, struct walk *w)
{
	uint32_t at = a->child[p[i]], best = NO_TOKEN;
	size_t from = i;

	*w = (struct walk){ .nodes = 0 };
	for (i++; ; i++) {
		const struct node *nd = &a->node[at];
		const uint8_t *hit;

		if (nd->token != NO_TOKEN)
			best = nd->token;
		w->nodes++;
		w->open = i == n && nd->n > 0;
		if (i == n || nd->n == 0)
			return best;
		if (nd->only != NO_TOKEN)
			return rest_is(a, nd->only, i - from, p + i, n - i, w) ? nd->only : best;
		hit = nd->n == 1 ? (a->byte[nd->first] == p[i] ? a->byte + nd->first : NULL)
				 : memchr(a->byte + nd->first, p[i], nd->n);
		if (hit == NULL)
			return best;
		at = (uint32_t)(hit - a->byte);
	}
}

static uint64_t price(const struct added *a, const struct walk *w)
{
	return 1 + (a->n_nodes <= NODES_SMALL       ? w->nodes / STEP_NODES
		    : a->n_nodes <= NODES_LARGE ? w->nodes * STEPS_LARGE
						: w->nodes * STEPS_HUGE);
}

size_t added_longest(const struct added *a, struct span text, size_t at, uint64_t *steps)
{
	const uint8_t *p = (const uint8_t *)text.p;
	struct walk w;
	uint32_t found;

	*steps = 0;
	if (!a->begins[p[at]])
		return 0;
	found = longest(a, p, at, text.n, &w);
	*steps = price(a, &w);
	return found != NO_TOKEN ? a->token[found].n : 0;
}

static size_t before(const uint8_t *p, size_t i, uint32_t *cp)
{
	size_t from = utf8_before(p, i);

	if (utf8_get_lossy(p + from, i - from, cp) == i - from)
		return from;
	*cp = 0xfffd;
	return i - 1;
}

static bool space_at(const uint8_t *p, size_t i, size_t n, size_t *next)
{
	uint32_t cp;

	*next = i + utf8_get_lossy(p + i, n - i, &cp);
	return (uc_class(cp) & UC_SPACE) != 0;
}

/* Return the start of the white space that ends at <i>. */
static size_t strip_left(const uint8_t *p, size_t i)
{
	uint32_t cp;

	while (i > 0) {
		size_t from = before(p, i, &cp);

		if ((uc_class(cp) & UC_SPACE) == 0)
			break;
		i = from;
	}
	return i;
}

static size_t strip_right(const uint8_t *p, size_t i, size_t n)
{
	size_t next;

	while (i < n && space_at(p, i, n, &next))
		i = next;
	return i;
}

static bool alone(const uint8_t *p, size_t from, size_t to, size_t n)
{
	uint32_t cp;

	if (from > 0) {
		before(p, from, &cp);
		if (word_char(cp))
			return false;
	}
	if (to == n)
		return true;
	utf8_get_lossy(p + to, n - to, &cp);
	return !word_char(cp);
}

/* Tell if NFC combines the character before p[to] with a later one: the next, or a mark that
 * follows no other mark of its class. <open>: the text ends too early to tell. */
static bool joined(const uint8_t *p, size_t to, size_t n, bool *open)
{
	uint8_t seen[32] = { 0 };
	uint32_t last, cp, hangul[3];

	*open = false;
	before(p, to, &last);
	for (size_t i = to, parts; i < n; ) {
		const uint32_t *part;
		uint8_t class;

		i += utf8_get_lossy(p + i, n - i, &cp);
		part = uc_decompose(cp, false, hangul, &parts);
		cp = parts > 0 ? part[0] : cp;
		class = uc_kind(cp).ccc;
		if ((seen[class / 8] >> (class % 8) & 1) == 0 && uc_compose(last, cp) != 0)
			return true;
		if (class == 0)
			return false;
		seen[0] |= 1;	/* only the next character may have class 0 */
		seen[class / 8] |= (uint8_t)(1u << (class % 8));
	}
	*open = true;
	return false;
}

bool added_next(const struct added *a, struct span text, struct added_at *at, struct added_hit *hit)
{
	const uint8_t *p = (const uint8_t *)text.p;
	size_t i = at->search, n = text.n, from, to;
	const struct token *t;
	uint32_t found;
	struct walk w;
	bool open;

	if (a->n_tokens == 0)
		return false;
	for (; (i = filter(a, p, i, n)) < n; i++) {
		at->looks++;
		found = longest(a, p, i, n, &w);
		if (at->work != NULL)
			work_spend(at->work, price(a, &w));
		if (at->work != NULL && work_spent(at->work))
			return false;
		if (found == NO_TOKEN)
			continue;
		t = &a->token[found];
		from = i;
		to = i + t->n;
		if (t->single_word && !alone(p, from, to, n)) {
			i = to - 1;
			continue;
		}
		if (t->composes && joined(p, to, n, &open))
			continue;
		at->search = to;
		if (t->lstrip && (from = strip_left(p, from)) < at->end)
			from = at->end;
		if (t->rstrip)
			to = strip_right(p, to, n);
		*hit = (struct added_hit){ from, to - from, t->id };
		at->end = to;
		return true;
	}
	at->search = n;
	return false;
}

/* Return where unsettled text starts: a match that may grow or vanish, or the space that it strips.
 */
static size_t unsettled(const struct added *a, const uint8_t *p, size_t i, size_t n, size_t end)
{
	struct walk w;
	bool open;

	for (; (i = filter(a, p, i, n)) < n; ) {
		uint32_t found = longest(a, p, i, n, &w);
		const struct token *t = found != NO_TOKEN ? &a->token[found] : NULL;

		if (w.open)
			break;
		if (t != NULL &&
		    ((t->single_word && i + t->n == n) ||
			(t->rstrip && strip_right(p, i + t->n, n) == n)))
			break;
		if (t != NULL && t->composes && (joined(p, i + t->n, n, &open) || open)) {
			if (open)
				break;
			t = NULL;
		}
		i += t != NULL ? t->n : 1;
	}
	if (a->any_lstrip)
		i = strip_left(p, i);
	return i > end ? i : end;
}

size_t added_tail(const struct added *a, struct span text, const struct added_at *at)
{
	if (a->n_tokens == 0)
		return 0;
	return text.n -
	    unsettled(a, (const uint8_t *)text.p, at->search < at->end ? at->end : at->search,
		text.n, at->end);
}
