/* model.h - the slow model: a table of all prefixes, compared token by token, with their
 * servers. */
#ifndef TESTS_BENCH_INDEX_MODEL_H
#define TESTS_BENCH_INDEX_MODEL_H

#include <stddef.h>
#include <stdint.h>

struct model;

struct model *model_new(uint32_t page, uint32_t n_servers, uint64_t max_pages);
void model_free(struct model *m);

/* Write to depth[server] how many pages each server has. Returns the most of all. */
uint32_t model_match(struct model *m, const uint32_t *tokens, size_t n_tokens, uint32_t *depth);

/* Keeps a pointer to <tokens>. */
void model_add(struct model *m, const uint32_t *tokens, size_t n_tokens, uint32_t server);

uint64_t model_owned_pages(const struct model *m);	/* summed over servers */
uint64_t model_unique_pages(const struct model *m);

#endif
