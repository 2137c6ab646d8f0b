/* lexicon_build.c - make the trie: sorted tokens share the nodes of their common beginning with the
 * token before, so the number of nodes is known before the block is allocated. At most half of the
 * slots are used. */
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/tok/lexicon/lexicon_in.h"

#define LOG2_LEAST	4u

size_t lex_block_bytes(const struct lex_head *h)
{
	size_t node = sizeof(token_id) + (h->kind != LEXICON_WORDPIECE ? sizeof(double) : 0);

	return sizeof(*h) + (sizeof(struct lex_slot) << h->log2_slots) + h->n_nodes * node;
}

static uint32_t look_steps(size_t bytes)
{
	return bytes <= 2u << 20  ? LEX_LOOK_SMALL
	     : bytes <= 8u << 20  ? LEX_LOOK_MEDIUM
	     : bytes <= 32u << 20 ? LEX_LOOK_LARGE
				  : LEX_LOOK_HUGE;
}

void lex_point(struct lexicon *x, const void *block)
{
	x->head = block;
	x->slot = (const struct lex_slot *)(x->head + 1);
	x->score = (const double *)(const void *)(x->slot + ((size_t)1 << x->head->log2_slots));
	x->id = (const token_id *)(x->score + (x->head->kind != LEXICON_WORDPIECE ? x->head->n_nodes : 0));
	x->bytes = lex_block_bytes(x->head);
	x->look = look_steps(x->bytes);
	x->shift = 32 - x->head->log2_slots;
	x->mask = (1u << x->head->log2_slots) - 1;
}

static int by_text(const void *a, const void *b)
{
	const struct lexicon_token *x = a, *y = b;
	size_t n = x->text.n < y->text.n ? x->text.n : y->text.n;
	int c = n > 0 ? memcmp(x->text.p, y->text.p, n) : 0;

	return c != 0 ? c : (x->text.n > y->text.n) - (x->text.n < y->text.n);
}

static size_t common(struct span a, struct span b)
{
	size_t n = a.n < b.n ? a.n : b.n, i = 0;

	while (i < n && a.p[i] == b.p[i])
		i++;
	return i;
}

static size_t count_nodes(const struct lexicon_token *t, uint32_t n)
{
	struct span before = SPAN("");
	size_t nodes = NODE_ROOT + 1;

	for (uint32_t i = 0; i < n; i++) {
		nodes += t[i].text.n - common(before, t[i].text);
		before = t[i].text;
	}
	return nodes;
}

static void put_edge(const struct lexicon *x, struct lex_slot *slot, uint32_t node, uint8_t byte,
    uint32_t child)
{
	uint32_t key = node << 8 | byte, i = lex_hash(key, x->shift);

	while (slot[i].key != 0)
		i = (i + 1) & x->mask;
	slot[i] = (struct lex_slot){ key, child };
}

/* <path>: the nodes of the token before, by depth. */
static void put_tokens(const struct lexicon *x, char *block, const struct lexicon_token *t,
    uint32_t n, uint32_t *path)
{
	struct lex_slot *slot = (struct lex_slot *)(void *)(block + sizeof(struct lex_head));
	double *score = (double *)(void *)(block + ((const char *)x->score - (const char *)x->head));
	token_id *id = (token_id *)(void *)(block + ((const char *)x->id - (const char *)x->head));
	struct span before = SPAN("");
	uint32_t next = NODE_ROOT + 1;

	memset(id, 0xff, x->head->n_nodes * sizeof(*id));	/* BPE_NO_ID */
	path[0] = NODE_ROOT;
	for (uint32_t i = 0; i < n; i++) {
		struct span s = t[i].text;

		for (size_t at = common(before, s); at < s.n; at++) {
			put_edge(x, slot, path[at], (uint8_t)s.p[at], next);
			path[at + 1] = next++;
		}
		id[path[s.n]] = t[i].id;
		if (x->head->kind != LEXICON_WORDPIECE)
			score[path[s.n]] = t[i].score;
		before = s;
	}
}

/* Return the node of <s>, or 0. */
static uint32_t node_of(const struct lexicon *x, struct span s)
{
	uint32_t node = NODE_ROOT;

	for (size_t i = 0; i < s.n && node != 0; i++)
		node = lex_child(x, node, (uint8_t)s.p[i]);
	return node;
}

/* As SentencePiece and tokenizers: 10 below the least score. */
static double unk_score(const struct lexicon_spec *spec)
{
	double least = spec->n_tokens > 0 ? spec->tokens[0].score : 0;

	for (uint32_t i = 1; i < spec->n_tokens; i++)
		least = spec->tokens[i].score < least ? spec->tokens[i].score : least;
	return spec->kind == LEXICON_SENTENCE ? (double)(float)(least - 10) : least - 10;
}

static int build(struct lexicon *x, const struct lexicon_spec *spec,
    const struct lexicon_token *sorted, uint32_t *path, struct err *e)
{
	struct lex_head h = { .magic = LEX_MAGIC, .log2_slots = LOG2_LEAST,
		.max_chars = spec->max_chars, .unk = spec->unk, .kind = spec->kind,
		.byte_fallback = spec->byte_fallback, .unk_score = unk_score(spec) };
	size_t nodes = count_nodes(sorted, spec->n_tokens);
	struct lex_head *head;

	if (nodes > NODES_MAX)
		return err_set(e, "model.vocab: more than %u beginnings of tokens", NODES_MAX);
	if (spec->byte_fallback)
		memcpy(h.byte_id, spec->byte_id, sizeof(h.byte_id));
	while ((1u << h.log2_slots) < 2 * nodes)
		h.log2_slots++;
	h.n_nodes = (uint32_t)nodes;
	if ((x->owned = mem_alloc_huge(lex_block_bytes(&h))) == NULL)
		return err_set(e, "not enough memory");
	head = x->owned;
	*head = h;
	lex_point(x, head);
	put_tokens(x, x->owned, sorted, spec->n_tokens, path);
	head->inside = node_of(x, spec->prefix);
	return 0;
}

static int check(const struct lexicon_spec *spec, size_t *longest, struct err *e)
{
	*longest = 0;
	for (uint32_t i = 0; i < spec->n_tokens; i++) {
		if (spec->tokens[i].text.n > *longest)
			*longest = spec->tokens[i].text.n;
	}
	if (*longest > LEXICON_TOKEN_MAX)
		return err_set(e, "model.vocab: a token of more than %u bytes", LEXICON_TOKEN_MAX);
	return 0;
}

struct lexicon *lexicon_new(const struct lexicon_spec *spec, struct err *e)
{
	struct lexicon *x = NULL;
	struct lexicon_token *sorted;
	uint32_t *path;
	size_t longest;

	if (check(spec, &longest, e) < 0)
		return NULL;
	sorted = mem_calloc((size_t)spec->n_tokens + 1, sizeof(*sorted));
	path = mem_calloc(longest + 1, sizeof(*path));
	if (sorted == NULL || path == NULL || (x = mem_alloc(sizeof(*x))) == NULL) {
		err_set(e, "not enough memory");
	} else {
		for (uint32_t i = 0; i < spec->n_tokens; i++)
			sorted[i] = spec->tokens[i];
		qsort(sorted, spec->n_tokens, sizeof(*sorted), by_text);
		if (build(x, spec, sorted, path, e) < 0) {
			lexicon_free(x);
			x = NULL;
		}
	}
	mem_free(sorted);
	mem_free(path);
	return x;
}
