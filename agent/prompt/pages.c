/* Hash text into page keys.
 *
 * A page that is complete in the input is hashed in place; only a page that spans two calls is
 * copied to the buffer. Text without escapes is therefore read twice, by the scanner and here
 * while it is still in the first-level cache, and never copied.
 *
 * There are three kinds of key, which cannot be confused:
 *   whole   hash64(the bytes of one page)
 *   padded  hash64(fewer bytes), mixed with PADDED and their number
 *   value   hash of an image or similar, mixed with VALUE
 * A page with a mark (the first page of a later prompt of a batch) is any of these, mixed with it.
 *
 * No function here fails. Out of pages or memory, env->full is set and no page is added from
 * then on, so that the pages remain a prefix. */
#include "agent/prompt/pages.h"

enum { PADDED = 0x50414444, VALUE = 0x56414c55 };

void page_push(struct page_env *env, struct page_vec *v, page_key k)
{
	if (env->full)
		return;
	if (env->used >= env->max || page_vec_push(v, k) != 0)
		env->full = true;
	else
		env->used++;
}

void page_append(struct page_env *env, struct page_vec *v, const page_key *p, uint32_t n)
{
	if (!env->full && page_vec_append(v, p, n) != 0)
		env->full = true;
}

void page_drop(struct page_env *env, struct page_vec *v, uint32_t n)
{
	if (v->n <= n)
		return;
	env->used -= v->n - n;
	v->n = n;
}

void pager_start(struct pager *pg, struct page_vec *v, uint64_t mark)
{
	pg->v = v;
	pg->n_units = 0;
	pg->mark = mark;
	pg->fill = 0;
}

static void push_marked(struct page_env *env, struct pager *pg, page_key k)
{
	if (pg->mark != 0)
		k = hash_mix(env->key, k, pg->mark);
	pg->mark = 0;
	page_push(env, pg->v, k);
}

static inline page_key whole(const struct page_env *env, const void *p)
{
	return env->page == 64 ? hash64(env->key, p, 64) : hash64(env->key, p, env->page);
}

/* Hash <n> pages from <p> on. */
static void whole_run(const struct page_env *env, const char *p, size_t n, page_key *out)
{
	if (env->page == 64) {
		hash64_pages(env->key, p, n, out);
		return;
	}
	for (size_t i = 0; i < n; i++)
		out[i] = hash64(env->key, p + i * env->page, env->page);
}

/* Add all full pages of the <n> bytes at <p>. Returns the number of bytes used. */
static size_t whole_pages(struct page_env *env, struct pager *pg, const char *p, size_t n)
{
	size_t pages = n / env->page;
	struct page_vec *v = pg->v;

	if (pages == 0 || env->full)
		return pages * env->page;
	if (pg->mark != 0) {
		push_marked(env, pg, whole(env, p));
		return env->page;
	}
	if (pages > env->max - env->used)
		pages = env->max - env->used;
	if (pages == 0 || vec_reserve(v, (uint32_t)pages) != 0) {
		env->full = true;
		return n;
	}
	whole_run(env, p, pages, v->p + v->n);
	v->n += (uint32_t)pages;
	env->used += (uint32_t)pages;
	return pages * env->page;
}

void pager_add(struct page_env *env, struct pager *pg, const char *p, size_t n)
{
	size_t k;

	pg->n_units += n;
	if (pg->fill > 0) {
		k = env->page - pg->fill;
		if (n < k)
			k = n;
		memcpy(pg->buf + pg->fill, p, k);
		pg->fill += (uint32_t)k;
		p += k;
		n -= k;
		if (pg->fill < env->page)
			return;
		push_marked(env, pg, whole(env, pg->buf));
		pg->fill = 0;
	}
	while (n >= env->page) {
		k = whole_pages(env, pg, p, n);
		p += k;
		n -= k;
	}
	memcpy(pg->buf, p, n);
	pg->fill = (uint32_t)n;
}

void pager_pad(struct page_env *env, struct pager *pg)
{
	uint64_t h;

	if (pg->fill == 0)
		return;
	h = hash64(env->key, pg->buf, pg->fill);
	push_marked(env, pg, hash_mix(env->key, h, (uint64_t)PADDED << 32 | pg->fill));
	pg->fill = 0;
}

void pager_value(struct page_env *env, struct pager *pg, uint64_t value)
{
	pager_pad(env, pg);
	push_marked(env, pg, hash_mix(env->key, value, VALUE));
	pg->n_units += env->page;
}

uint64_t pager_rest(const struct page_env *env, const struct pager *pg)
{
	return pg->fill > 0 ? hash64(env->key, pg->buf, pg->fill) : 0;
}

/* ---- one hash of bytes in pieces ------------------------------------------------------------- */

void digest_start(struct digest *d)
{
	d->h = 0;
	d->n = 0;
	d->fill = 0;
}

static void digest_chunk(struct digest *d, const struct hash_key *key, const void *p)
{
	d->h = hash_mix(key, d->h, hash64(key, p, DIGEST_CHUNK));
}

void digest_add(struct digest *d, const struct hash_key *key, const char *p, size_t n)
{
	size_t k;

	d->n += n;
	if (d->fill > 0) {
		k = DIGEST_CHUNK - d->fill;
		if (n < k)
			k = n;
		memcpy(d->buf + d->fill, p, k);
		d->fill += (uint32_t)k;
		if (d->used < d->fill)
			d->used = d->fill;
		p += k;
		n -= k;
		if (d->fill < DIGEST_CHUNK)
			return;
		digest_chunk(d, key, d->buf);
		d->fill = 0;
	}
	for (; n >= DIGEST_CHUNK; p += DIGEST_CHUNK, n -= DIGEST_CHUNK)
		digest_chunk(d, key, p);
	if (n > 0)
		memcpy(d->buf, p, n);
	d->fill = (uint32_t)n;
	if (d->used < d->fill)
		d->used = d->fill;
}

/* A string shorter than one chunk, as most names are, takes a single hash. */
uint64_t digest_end(struct digest *d, const struct hash_key *key)
{
	uint64_t h = hash64(key, d->buf, d->fill);

	return d->n < DIGEST_CHUNK ? h : hash_mix(key, hash_mix(key, d->h, h), d->n);
}

uint64_t digest_of(const struct hash_key *key, struct span s)
{
	struct digest d = { .used = 0 };

	digest_start(&d);
	digest_add(&d, key, s.p, s.n);
	return digest_end(&d, key);
}
