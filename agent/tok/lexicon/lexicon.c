/* lexicon.c - encode with a lexicon; its image.
 *
 * An image has a checksum, but a wrong one must not lead outside: the number of slots and nodes
 * agrees with its length, every child is a node, and a free slot ends every search. */
#include "agent/tok/lexicon/lexicon.h"

#include "agent/base/mem.h"
#include "agent/base/utf8.h"
#include "agent/tok/lexicon/lexicon_in.h"

/* ---- the block ------------------------------------------------------------------------------- */

void lexicon_free(struct lexicon *x)
{
	if (x == NULL)
		return;
	mem_free_line(x->owned);
	mem_free(x);
}

size_t lexicon_bytes(const struct lexicon *x)
{
	return sizeof(*x) + x->bytes;
}

struct span lexicon_image(const struct lexicon *x)
{
	return span_of(x->head, x->bytes);
}

static bool head_holds(const struct lex_head *h, size_t n)
{
	return h->magic == LEX_MAGIC && h->log2_slots > 0 && h->log2_slots <= 26 &&
	       h->n_nodes > NODE_ROOT && h->n_nodes <= NODES_MAX && h->inside < h->n_nodes &&
	       h->max_chars <= LEXICON_CHARS_MAX && h->kind <= LEXICON_SENTENCE && lex_block_bytes(h) == n;
}

static bool slots_hold(const struct lexicon *x)
{
	bool free = false;

	for (size_t i = 0; i <= x->mask; i++) {
		if (x->slot[i].key == 0)
			free = true;
		else if (x->slot[i].child == 0 || x->slot[i].child >= x->head->n_nodes)
			return false;
	}
	return free;
}

struct lexicon *lexicon_of_image(struct span image)
{
	struct lexicon *x;

	if (image.n < sizeof(struct lex_head) || (uintptr_t)image.p % BPE_ALIGN != 0 ||
	    !head_holds((const struct lex_head *)(const void *)image.p, image.n) ||
	    (x = mem_alloc(sizeof(*x))) == NULL)
		return NULL;
	lex_point(x, image.p);
	if (slots_hold(x))
		return x;
	mem_free(x);
	return NULL;
}

/* ---- WordPiece ------------------------------------------------------------------------------- */

/* Return the length of the longest token below <node> that begins p[0 .. n), or 0; *id: its id.
 * *looks += the bytes read. */
static size_t longest(const struct lexicon *x, uint32_t node, const uint8_t *p, size_t n,
    token_id *id, size_t *looks)
{
	size_t i = 0, best = 0;

	while (i < n && (node = lex_child(x, node, p[i])) != 0) {
		i++;
		if (x->id[node] != BPE_NO_ID) {
			best = i;
			*id = x->id[node];
		}
	}
	*looks += i + 1;
	return best;
}

/* Tell if p[0 .. n) has at most <most> characters. O(most). */
static bool is_short(const uint8_t *p, size_t n, size_t most)
{
	return n <= most || (n <= most * UTF8_MAX && utf8_count(p, n) <= most);
}

/* Append the ids of one piece. <out> has room for one for each of its bytes if it is short. */
static void wordpiece(const struct lexicon *x, struct work_left *w, const uint8_t *p, size_t n,
    bool is_short, struct ids *out)
{
	size_t at = 0, from = out->n, looks = 0, len;
	uint32_t node = NODE_ROOT;
	token_id id = x->head->unk;

	while (is_short && at < n && node != 0 &&
	    (len = longest(x, node, p + at, n - at, &id, &looks)) > 0) {
		out->p[out->n++] = id;
		at += len;
		node = x->head->inside;
	}
	if (at < n) {
		out->n = from;
		out->p[out->n++] = x->head->unk;
	}
	work_spend(w, LEX_WORDPIECE * (LEX_STEPS_PIECE + (uint64_t)looks * x->look));
}

static int wordpiece_one(const struct lexicon *x, struct work_left *w, const uint8_t *p, size_t n,
    struct ids *out)
{
	bool fits = is_short(p, n, x->head->max_chars);

	if (ids_reserve(out, fits ? n + 1 : 1) < 0)
		return -1;
	if (n > 0)
		wordpiece(x, w, p, n, fits, out);
	return 0;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

struct lexicon_scratch *lexicon_scratch_new(void)
{
	return mem_alloc(sizeof(struct lexicon_scratch));
}

size_t lexicon_scratch_bytes(const struct lexicon_scratch *c)
{
	return sizeof(*c) + c->best.cap * sizeof(*c->best.p);
}

void lexicon_scratch_wipe(struct lexicon_scratch *c)
{
	vec_free(&c->best);
	mem_wipe(c, sizeof(*c));
}

void lexicon_scratch_free(struct lexicon_scratch *c)
{
	if (c == NULL)
		return;
	lexicon_scratch_wipe(c);
	mem_free(c);
}

int lexicon_long_start(const struct lexicon *x, struct lexicon_scratch *c, const uint8_t *p,
    size_t n)
{
	c->p = p;
	c->n = n;
	c->at = 0;
	return x->head->kind != LEXICON_WORDPIECE ? unigram_start(c) : 0;
}

int lexicon_long_step(const struct lexicon *x, struct lexicon_scratch *c, struct work_left *w,
    struct ids *out)
{
	return x->head->kind != LEXICON_WORDPIECE ? unigram_step(x, c, w, out)
						  : wordpiece_one(x, w, c->p, c->n, out);
}

int lexicon_encode(const struct lexicon *x, struct lexicon_scratch *c, struct work_left *w,
    const uint8_t *text, const uint32_t *end, size_t n, struct ids *out)
{
	size_t before = out->n, at = 0;
	int rc;

	for (size_t i = 0; i < n; at = end[i++]) {
		if (work_spent(w))
			return 1;
		if ((rc = lexicon_long_start(x, c, text + at, end[i] - at)) == 0)
			rc = lexicon_long_step(x, c, w, out);
		if (rc > 0)
			return 1;
		if (rc < 0) {
			out->n = before;
			return -1;
		}
	}
	return 0;
}
