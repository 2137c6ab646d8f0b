/* tok_image.c - the image of a tokenizer. Its head has the key and a checksum of all bytes after
 * it. bpe.h checks and borrows the tables; the rest is built from the recipe as if the files had
 * been read. Patterns are compiled again, because compiled ones have pointers. */
#include "agent/tok/tok_image.h"

#include "agent/base/mem.h"
#include "agent/tok/tok_in.h"

#define FORMAT	4u
#define ALIGN	64u

struct head {
	char magic[8];
	uint32_t format, order;		/* <order>: 0x01020304 as this machine writes it */
	uint64_t key[2];
	uint64_t checksum;		/* of all bytes after the head */
	uint64_t lexicon;		/* 1: the vocabulary is a lexicon, 0: a bpe */
	uint64_t recipe_bytes, vocab_at, vocab_bytes;
};

static const char magic[8] = "kvr tok";

struct tok_image_key tok_image_key(const struct tok_source *src)
{
	XXH128_hash_t part[4] = { XXH3_128bits(src->file.p, src->file.n),
		XXH3_128bits(src->config.p, src->config.n),
		XXH3_128bits(src->pattern, src->pattern ? strlen(src->pattern) : 0),
		{ src->normalizer, 0 } };
	XXH128_hash_t all = XXH3_128bits_withSeed(part, sizeof(part), FORMAT);

	return (struct tok_image_key){ { all.low64, all.high64 } };
}

static size_t aligned(size_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

struct span tok_image(const struct tok *t, struct tok_image_key key)
{
	struct span vocab = t->bpe != NULL ? bpe_image(t->bpe) : lexicon_image(t->lexicon);
	struct head h = { .format = FORMAT, .order = 0x01020304, .key = { key.h[0], key.h[1] },
			  .lexicon = t->bpe == NULL, .recipe_bytes = t->recipe.n,
			  .vocab_bytes = vocab.n };
	size_t n;
	char *p;

	memcpy(h.magic, magic, sizeof(magic));
	h.vocab_at = aligned(sizeof(h) + t->recipe.n);
	n = h.vocab_at + vocab.n;
	if ((p = mem_alloc(n)) == NULL)
		return (struct span){ NULL, 0 };
	memcpy(p + sizeof(h), t->recipe.p, t->recipe.n);
	memcpy(p + h.vocab_at, vocab.p, vocab.n);
	h.checksum = XXH3_64bits(p + sizeof(h), n - sizeof(h));
	memcpy(p, &h, sizeof(h));
	return span_of(p, n);
}

static int check(struct span image, struct tok_image_key key, struct head *h, struct err *e)
{
	if (image.n < sizeof(*h))
		return err_set(e, "this image of a tokenizer is cut");
	memcpy(h, image.p, sizeof(*h));
	if (memcmp(h->magic, magic, sizeof(magic)) != 0)
		return err_set(e, "this is no image of a tokenizer");
	if (h->format != FORMAT || h->order != 0x01020304)
		return err_set(e, "this image of a tokenizer is of another version or machine");
	if (h->key[0] != key.h[0] || h->key[1] != key.h[1])
		return err_set(e, "this image is of another tokenizer, or its files have changed");
	if (h->recipe_bytes > image.n - sizeof(*h) ||
	    h->vocab_at != aligned(sizeof(*h) + h->recipe_bytes) ||
	    h->vocab_at > image.n || h->vocab_bytes != image.n - h->vocab_at)
		return err_set(e, "this image of a tokenizer is cut");
	if (h->lexicon > 1 ||
	    XXH3_64bits(image.p + sizeof(*h), image.n - sizeof(*h)) != h->checksum)
		return err_set(e, "this image of a tokenizer is damaged");
	return 0;
}

struct tok *tok_of_image(struct span image, struct tok_image_key key, void (*gone)(void *arg),
    void *arg, struct err *e)
{
	struct head h;
	struct tok *t;
	struct bpe *bpe = NULL;
	struct lexicon *lexicon = NULL;
	struct span vocab;
	char *recipe;

	if (check(image, key, &h, e) < 0)
		return NULL;
	vocab = span_of(image.p + h.vocab_at, h.vocab_bytes);
	if (h.lexicon)
		lexicon = lexicon_of_image(vocab);
	else
		bpe = bpe_of_image(vocab);
	recipe = mem_alloc(h.recipe_bytes + 1);
	if ((bpe == NULL && lexicon == NULL) || recipe == NULL) {
		bpe_free(bpe);
		lexicon_free(lexicon);
		mem_free(recipe);
		err_set(e, "not enough memory, or a damaged image");
		return NULL;
	}
	memcpy(recipe, image.p + sizeof(h), h.recipe_bytes);
	if ((t = tok_make(span_of(recipe, h.recipe_bytes), bpe, lexicon, e)) == NULL)
		return NULL;
	t->gone = gone;
	t->gone_arg = arg;
	return t;
}
