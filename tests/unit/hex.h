/* hex.h - bytes as text, for tests: in C, hex("03 00000001 00 01 05 \"route\" 00"), and in files of
 * cases that a person can read and write (tests/data/spop/).
 *
 * 	case   name of the case
 * 	what   what it is, in a sentence
 * 	opt    key number		for the test that runs it
 * 	in     bytes			as they are
 * 	frame  bytes			behind a length word that is worked out here
 * 	+      bytes			more of the line above
 * 	event  text			what must come of it: kept as it is, for the test
 * 	reply  text
 *
 * Bytes are hex digits in pairs, "text", or either of them times a number: 00*300 "ab"*4. '#'
 * begins a comment, in bytes up to the end of the line, elsewhere only at the start of one. */
#ifndef TESTS_HEX_H
#define TESTS_HEX_H

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hex { uint8_t *p; size_t n; };		/* free p */

struct hex_case {
	char name[80], what[200], opts[200];
	struct hex in;
	char *expect;		/* the event and reply lines, each with its keyword */
	int line;		/* where the case begins */
};

static inline void hex_add(struct hex *h, const void *p, size_t n)
{
	h->p = realloc(h->p, h->n + n + 1);
	if (!h->p)
		exit(2);
	memcpy(h->p + h->n, p, n);
	h->n += n;
}

static inline void hex_bad(const char *text)
{
	fprintf(stderr, "hex.h: not bytes: %s\n", text);
	exit(2);
}

static inline int hex_digit(const char *s)
{
	const char *digits = "0123456789abcdef", *d;

	d = *s ? strchr(digits, tolower((unsigned char)*s)) : NULL;
	if (!d)
		hex_bad(s);
	return (int)(d - digits);
}

/* Add the bytes that <s> spells to <h>. */
static inline void hex_parse(struct hex *h, const char *s)
{
	struct hex run;
	unsigned long times;
	const char *end;
	uint8_t b;

	for (;;) {
		s += strspn(s, " \t\r\n");
		if (!*s || *s == '#')
			return;
		run = (struct hex){ NULL, 0 };
		if (*s == '"') {
			if (!(end = strchr(s + 1, '"')))
				hex_bad(s);
			hex_add(&run, s + 1, (size_t)(end - s - 1));
			s = end + 1;
		} else {
			for (; isxdigit((unsigned char)*s); s += 2) {
				b = (uint8_t)(hex_digit(s) << 4 | hex_digit(s + 1));
				hex_add(&run, &b, 1);
			}
			if (!run.n)
				hex_bad(s);
		}
		times = 1;
		if (*s == '*')
			times = strtoul(s + 1, (char **)(uintptr_t)&s, 10);
		while (times--)
			hex_add(h, run.p, run.n);
		free(run.p);
	}
}

static inline struct hex hex(const char *s)
{
	struct hex h = { NULL, 0 };

	hex_add(&h, "", 0);
	hex_parse(&h, s);
	return h;
}

static inline void hex_length(struct hex *in, size_t at)
{
	size_t n = in->n - at - 4;

	in->p[at] = (uint8_t)(n >> 24);
	in->p[at + 1] = (uint8_t)(n >> 16);
	in->p[at + 2] = (uint8_t)(n >> 8);
	in->p[at + 3] = (uint8_t)n;
}

static inline void hex_keep(char *to, size_t cap, const char *text)
{
	size_t n = strlen(to);

	snprintf(to + n, cap - n, "%s", text);
}

static inline void hex_expect(struct hex_case *c, const char *line)
{
	size_t n = c->expect ? strlen(c->expect) : 0;

	c->expect = realloc(c->expect, n + strlen(line) + 2);
	if (!c->expect)
		exit(2);
	sprintf(c->expect + n, "%s\n", line);
}

static inline void hex_case_free(struct hex_case *c)
{
	free(c->in.p);
	free(c->expect);
	memset(c, 0, sizeof(*c));
}

static inline long hex_opt(const struct hex_case *c, const char *key, long otherwise)
{
	const char *p = strstr(c->opts, key);

	return p ? strtol(p + strlen(key), NULL, 10) : otherwise;
}

/* The next case of <f>; <line> counts on from call to call. False: no more. */
static inline bool hex_next(FILE *f, int *line, struct hex_case *c)
{
	char buf[4096], key[16], *rest;
	size_t frame = SIZE_MAX;
	long at = ftell(f);
	bool found = false;

	memset(c, 0, sizeof(*c));
	hex_add(&c->in, "", 0);
	for (; fgets(buf, sizeof(buf), f); at = ftell(f), ++*line) {
		buf[strcspn(buf, "\r\n")] = '\0';
		if (sscanf(buf, "%15s", key) != 1 || key[0] == '#')
			continue;
		rest = strstr(buf, key) + strlen(key);
		rest += strspn(rest, " \t");
		if (strcmp(key, "+") != 0)
			frame = SIZE_MAX;
		if (strcmp(key, "case") == 0) {
			if (found) {
				fseek(f, at, SEEK_SET);
				return true;
			}
			found = true;
			c->line = *line;
			hex_keep(c->name, sizeof(c->name), rest);
		} else if (strcmp(key, "what") == 0) {
			hex_keep(c->what, sizeof(c->what), rest);
		} else if (strcmp(key, "opt") == 0) {
			hex_keep(c->opts, sizeof(c->opts), rest);
			hex_keep(c->opts, sizeof(c->opts), " ");
		} else if (strcmp(key, "frame") == 0) {
			frame = c->in.n;
			hex_parse(&c->in, "00000000");
			hex_parse(&c->in, rest);
		} else if (strcmp(key, "in") == 0 || strcmp(key, "+") == 0) {
			hex_parse(&c->in, rest);
		} else if (strcmp(key, "event") == 0 || strcmp(key, "reply") == 0) {
			hex_expect(c, buf);
		} else {
			hex_bad(buf);
		}
		if (frame != SIZE_MAX)
			hex_length(&c->in, frame);
	}
	if (!found)
		hex_case_free(c);
	return found;
}

#endif
