/* fixture.h - the small tokenizers of tests/data/tok, and their cases. For unit tests only; include
 * it after cmocka.h. */
#ifndef TESTS_TOK_FIXTURE_H
#define TESTS_TOK_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/json_doc.h"
#include "agent/tok/tok.h"

static inline struct span fixture_read(const char *name)
{
	char path[200], *p;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "tests/data/tok/%s", name);
	f = fopen(path, "r");
	assert_non_null(f);
	p = malloc(1u << 20);
	assert_non_null(p);
	n = fread(p, 1, 1u << 20, f);
	assert_true(n < 1u << 20);
	fclose(f);
	return span_of(p, n);
}

static inline struct tok *fixture_load(const char *name, const char *config, const char *pattern)
{
	struct tok_source src = { .file = fixture_read(name),
		.config = span_str(config),
		.name = name,
		.pattern = pattern };
	struct err e;
	struct tok *t = tok_load(&src, &e);

	if (t == NULL)
		printf("%s:%d:%d: %s\n", e.file, e.line, e.column, e.text);
	assert_non_null(t);
	free((void *)src.file.p);
	return t;
}

/* A case: a text, and its ids without and with special tokens. */
struct fixture_case {
	struct span text;	/* valid as long as <doc> */
	token_id ids[2][512];
	size_t n[2];
	struct json_doc *doc;
};

static inline const char *fixture_ids(const char *p, token_id *ids, size_t *n)
{
	for (*n = 0; *p != '\n' && *p != 0; ) {
		char *after;

		assert_true(*n < 512);
		ids[(*n)++] = (token_id)strtoul(p, &after, 10);
		p = after + (*after == ' ');
	}
	return p + (*p == '\n');
}

/* Read the next case of a NUL-terminated .cases file at <p>. Returns NULL if there is none. The
 * caller frees the case with json_doc_free(c->doc). */
static inline const char *fixture_next(const char *p, struct fixture_case *c)
{
	const char *eol;
	struct err e;

	if ((p = strstr(p, "\n\"")) == NULL)
		return NULL;
	p++;
	eol = strchr(p, '\n');
	assert_non_null(eol);
	c->doc = json_doc_new(span_of(p, (size_t)(eol - p)), "case", NULL, &e);
	assert_non_null(c->doc);
	c->text = json_doc_root(c->doc)->s;
	p = fixture_ids(eol + 1, c->ids[0], &c->n[0]);
	p = fixture_ids(p, c->ids[1], &c->n[1]);
	return p - 1;
}

#endif
