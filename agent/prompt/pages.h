/* pages.h - private to agent/prompt: hash text into page keys, and strings into one hash.
 * Results do not depend on how the bytes were split. */
#ifndef KVROUTE_PROMPT_PAGES_H
#define KVROUTE_PROMPT_PAGES_H

#include "agent/prompt/prompt.h"

#define TEXT_PAGE_MAX	256
#define DIGEST_CHUNK	512

/* State shared by all pages of one prompt. */
struct page_env {
	const struct hash_key *key;
	uint32_t page;		/* bytes a page */
	uint32_t used, max;	/* pages made, and how many may be made */
	bool full;		/* <max> was reached or memory ran out: no more pages are added */
};

/* Append a page, or set env->full. */
void page_push(struct page_env *env, struct page_vec *v, page_key k);

/* Append <n> pages that env->used counts already. */
void page_append(struct page_env *env, struct page_vec *v, const page_key *p, uint32_t n);

/* Remove pages from the end until <n> are left. */
void page_drop(struct page_env *env, struct page_vec *v, uint32_t n);

/* One run of text that is being divided into pages. */
struct pager {
	struct page_vec *v;
	uint64_t n_units;	/* bytes so far, including the unfinished page */
	uint64_t mark;		/* mixed into the key of the next page, if not 0 */
	uint32_t fill;
	uint8_t buf[TEXT_PAGE_MAX];	/* the unfinished page; only the first env->page bytes are used */
};

void pager_start(struct pager *pg, struct page_vec *v, uint64_t mark);
void pager_add(struct page_env *env, struct pager *pg, const char *p, size_t n);

/* End the unfinished page as a padded one, unless it is empty. */
void pager_pad(struct page_env *env, struct pager *pg);

/* Pad the unfinished page, then add a page for one value. It counts as a page of text. */
void pager_value(struct page_env *env, struct pager *pg, uint64_t value);

/* Return a hash of the unfinished page, or 0 if it is empty. */
uint64_t pager_rest(const struct page_env *env, const struct pager *pg);

/* A hash of bytes that arrive in pieces. */
struct digest {
	uint64_t h, n;
	uint32_t fill;
	uint32_t used;		/* the most bytes that <buf> held, whatever was started since */
	uint8_t buf[DIGEST_CHUNK];
};

void digest_start(struct digest *d);
void digest_add(struct digest *d, const struct hash_key *key, const char *p, size_t n);
uint64_t digest_end(struct digest *d, const struct hash_key *key);
uint64_t digest_of(const struct hash_key *key, struct span s);	/* the same at once */

#endif
