/* heads_share.c - heads as bytes, so that a conversation keeps its head if it goes on at another
 * agent.
 *
 * Only what is new is told: openings that had no head or another one, and the head itself if this
 * agent has just made it. Numbers are little endian. */
#include <endian.h>

#include "agent/base/mem.h"
#include "agent/prompt/heads_in.h"

/* Before the openings, 8 bytes each, and the pages and names of a whole head. All little endian. */
struct told {
	uint64_t tenant, content;
	uint32_t n_openings, n_system, n_tools;
	uint16_t n_model, n_lora;
	uint8_t whole, developer, zero[6];
};

_Static_assert(sizeof(struct told) == 40, "no byte between");

void heads_tell(struct heads *h, heads_tell_fn *fn, void *arg)
{
	h->tell = fn;
	h->tell_arg = arg;
}

static void words_swap(uint64_t *to, const uint64_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = htole64(from[i]);
}

void heads_tell_news(const struct heads *h, const struct news *w, const struct parts *x)
{
	size_t n_pages = w->whole ? (size_t)x->n_system + x->n_tools : 0;
	size_t n = sizeof(struct told) + w->n * sizeof(uint64_t) + (w->whole ? head_parts_bytes(x) : 0);
	struct told *t = mem_alloc(n);
	uint64_t *words;

	if (t == NULL)
		return;
	*t = (struct told){
		.tenant = htole64(w->tenant), .content = htole64(w->content), .n_openings = htole32(w->n),
		.n_system = htole32(x->n_system), .n_tools = htole32(x->n_tools),
		.n_model = htole16((uint16_t)x->model.n), .n_lora = htole16((uint16_t)x->lora.n),
		.whole = w->whole, .developer = x->developer,
	};
	words = (uint64_t *)(t + 1);
	words_swap(words, w->key, w->n);
	if (w->whole)
		head_copy_parts(words + w->n, x);
	words_swap(words + w->n, words + w->n, n_pages);
	h->tell(h->tell_arg, w->tenant, span_of(t, n));
	mem_free(t);
}

/* Read the openings into <w>, and the sizes of the rest into <x>. Returns false if the bytes have
 * another length, or if there is no room for such a head. */
static bool read_told(
    const struct heads *h, const struct told *t, struct span rest, struct news *w, struct parts *x)
{
	size_t keys = (size_t)le32toh(t->n_openings) * sizeof(uint64_t);

	*x = (struct parts){
		.n_system = le32toh(t->n_system), .n_tools = le32toh(t->n_tools),
		.model.n = le16toh(t->n_model), .lora.n = le16toh(t->n_lora), .developer = t->developer != 0,
	};
	w->n = le32toh(t->n_openings);
	if (w->n == 0 || w->n > DEPTHS_MAX || x->model.n > PROMPT_NAME_MAX ||
	    x->lora.n > PROMPT_NAME_MAX || !head_is_fit(h, x) ||
	    rest.n != keys + (t->whole ? head_parts_bytes(x) : 0))
		return false;
	memcpy(w->key, rest.p, keys);
	words_swap(w->key, w->key, w->n);
	w->tenant = le64toh(t->tenant);
	w->content = le64toh(t->content);
	return true;
}

bool heads_take(struct heads *h, struct span bytes)
{
	struct news w = { .n = 0 };
	struct told t;
	struct parts x;
	page_key *pages = NULL;
	size_t n_pages;

	if (bytes.n < sizeof(t))
		return false;
	memcpy(&t, bytes.p, sizeof(t));
	if (!read_told(h, &t, span_of(bytes.p + sizeof(t), bytes.n - sizeof(t)), &w, &x))
		return false;
	if (t.whole) {
		n_pages = (size_t)x.n_system + x.n_tools;
		if ((pages = mem_alloc(head_parts_bytes(&x) + 1)) == NULL)
			return true;
		memcpy(pages, bytes.p + sizeof(t) + w.n * sizeof(uint64_t), head_parts_bytes(&x));
		words_swap(pages, pages, n_pages);
		x.system = pages;
		x.tools = pages + x.n_system;
		x.model.p = (const char *)(pages + n_pages);
		x.lora.p = x.model.p + x.model.n;
	}
	pthread_mutex_lock(&h->lock);
	heads_store(h, &w, t.whole ? &x : NULL);
	pthread_mutex_unlock(&h->lock);
	mem_free(pages);
	return true;
}
