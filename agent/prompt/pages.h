/* pages.h - text into page keys, and strings into one hash: the same however the bytes were split.
 * Inside agent/prompt only. */
#ifndef KVROUTE_PROMPT_PAGES_H
#define KVROUTE_PROMPT_PAGES_H

#include "agent/prompt/prompt.h"

#define TEXT_PAGE_MAX	256
#define DIGEST_CHUNK	512

/* What all pages of one prompt share. */
struct page_env {
	const struct hash_key *key;
	uint32_t page;		/* bytes a page */
	uint32_t used, max;	/* pages made, and how many may be made */
	bool full;		/* no more pages: <max> was reached, or memory ran out; stays so */
};

/* Append a page, or set env->full. */
void page_push(struct page_env *env, struct page_vec *v, page_key k);

/* Append <n> pages that were counted when they were made. */
void page_append(struct page_env *env, struct page_vec *v, const page_key *p, uint32_t n);

/* Take the last pages off, down to <n>. */
void page_drop(struct page_env *env, struct page_vec *v, uint32_t n);

/* One run of text on its way into pages. */
struct pager {
	struct page_vec *v;
	uint64_t n_units;	/* bytes so far, in pages or not */
	uint64_t mark;		/* if not 0: goes into the key of the next page */
	uint32_t fill;
	uint8_t buf[TEXT_PAGE_MAX];	/* the page that is not full yet */
};

void pager_start(struct pager *pg, struct page_vec *v, uint64_t mark);
void pager_add(struct page_env *env, struct pager *pg, const char *p, size_t n);

/* The page that is not full becomes a padded one; nothing if it is empty. */
void pager_pad(struct page_env *env, struct pager *pg);

/* A page of one value, behind what was there, which is padded. Counts as a page of text. */
void pager_value(struct page_env *env, struct pager *pg, uint64_t value);

/* A hash of the bytes that did not fill a page. */
uint64_t pager_rest(const struct page_env *env, const struct pager *pg);

/* A hash of bytes that come in pieces. */
struct digest {
	uint64_t h, n;
	uint32_t fill;
	uint8_t buf[DIGEST_CHUNK];
};

void digest_start(struct digest *d);
void digest_add(struct digest *d, const struct hash_key *key, const char *p, size_t n);
uint64_t digest_end(struct digest *d, const struct hash_key *key);
uint64_t digest_of(const struct hash_key *key, struct span s);	/* the same at once */

#endif
