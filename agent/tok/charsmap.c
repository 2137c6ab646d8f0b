/* charsmap.c - check a double array, and look up in it.
 *
 * A unit has a label in bits 0 to 7 and bit 31, "a key ends here" in bit 8, and an offset from bit
 * 10 on, shifted by 8 if bit 9 is set. The children of a unit at <i> are units at base ^ byte with
 * the byte as label, where base is i ^ offset; the unit at base itself holds the key's value. So
 * all children of a base are in one block of 256 units, which must exist. Checking visits every
 * base that the root leads to once. A table may have loops, or keys of any length: a look-up ends
 * with the text at the latest, and says how far it went, which is charged. */
#include "agent/tok/charsmap.h"

#include "agent/base/mem.h"
#include "agent/base/utf8.h"

#define LABEL		0x800000ffu
#define VALUE		0x7fffffffu
#define HAS_KEY		(1u << 8)

struct charsmap {
	uint32_t n_units, root;		/* <root>: base of the first bytes */
	struct span to;			/* replacements */
	uint32_t unit[];
};

static uint32_t u32_of(const char *s)
{
	const uint8_t *p = (const uint8_t *)s;

	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t offset(uint32_t unit)
{
	return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* Return the base after <byte>, or the same if there is none; *unit: the byte's unit. */
static inline bool child(const struct charsmap *m, uint32_t *base, uint8_t byte, uint32_t *unit)
{
	uint32_t at = *base ^ byte;

	*unit = m->unit[at];
	if (byte == 0 || (*unit & LABEL) != byte)
		return false;
	*base = at ^ offset(*unit);
	return true;
}

static struct span replacement(const struct charsmap *m, uint32_t base)
{
	uint32_t at = m->unit[base] & VALUE;
	struct span to = { m->to.p + at, m->to.n - at };
	const char *nul = to.n > 0 ? memchr(to.p, 0, to.n) : NULL;

	to.n = nul != NULL ? (size_t)(nul - to.p) : to.n;
	return to;
}

/* ---- checking -------------------------------------------------------------------------------- */

static bool base_fits(const struct charsmap *m, uint32_t base)
{
	return (base | 0xff) < m->n_units;
}

static bool value_fits(const struct charsmap *m, uint32_t base)
{
	uint32_t at = m->unit[base] & VALUE;

	return at < m->to.n ? !utf8_inside((uint8_t)m->to.p[at]) : at == m->to.n;
}

/* Check every base below <base>; <seen> has a bit for each unit, <todo> room for all. */
static bool check_all(const struct charsmap *m, uint32_t base, uint8_t *seen, uint32_t *todo)
{
	uint32_t n = 0, unit, next;

	todo[n++] = base;
	seen[base / 8] |= (uint8_t)(1u << base % 8);
	while (n > 0) {
		base = todo[--n];
		for (unsigned b = 1; b < 256; b++) {
			next = base;
			if (!child(m, &next, (uint8_t)b, &unit))
				continue;
			if (!base_fits(m, next) || ((unit & HAS_KEY) && !value_fits(m, next)))
				return false;
			if (seen[next / 8] >> next % 8 & 1)
				continue;
			seen[next / 8] |= (uint8_t)(1u << next % 8);
			todo[n++] = next;
		}
	}
	return true;
}

static int check(struct charsmap *m, struct err *e)
{
	uint8_t *seen;
	uint32_t *todo;
	int rc = 0;

	m->root = m->n_units > 0 ? offset(m->unit[0]) : 0;
	if (utf8_good((const uint8_t *)m->to.p, m->to.n) != m->to.n)
		return err_set(e, "its replacements are not UTF-8");
	if (!base_fits(m, m->root))
		return err_set(e, "its table leads outside of itself");
	seen = mem_calloc(m->n_units / 8 + 1, 1);
	todo = mem_calloc(m->n_units, sizeof(*todo));
	if (seen == NULL || todo == NULL)
		rc = err_set(e, "not enough memory");
	else if (!check_all(m, m->root, seen, todo))
		rc = err_set(e, "its table leads outside of itself");
	mem_free(seen);
	mem_free(todo);
	return rc;
}

struct charsmap *charsmap_new(struct span bytes, struct err *e)
{
	uint32_t n = bytes.n >= 4 ? u32_of(bytes.p) / 4 : 0;
	struct charsmap *m;

	if (bytes.n < 4 || (bytes.n - 4) / 4 < n) {
		err_set(e, "it is shorter than its table");
		return NULL;
	}
	if (n > CHARSMAP_UNITS_MAX) {
		err_set(e, "its table has more than %u units", CHARSMAP_UNITS_MAX);
		return NULL;
	}
	bytes = span_of(bytes.p + 4, bytes.n - 4);
	if ((m = mem_alloc(sizeof(*m) + bytes.n + 1)) == NULL) {
		err_set(e, "not enough memory");
		return NULL;
	}
	m->n_units = n;
	for (uint32_t i = 0; i < n; i++)
		m->unit[i] = u32_of(bytes.p + (size_t)i * 4);
	m->to = span_of((char *)(m->unit + n), bytes.n - (size_t)n * 4);
	if (m->to.n > 0)
		memcpy((char *)(m->unit + n), bytes.p + (size_t)n * 4, m->to.n);
	if (check(m, e) == 0)
		return m;
	mem_free(m);
	return NULL;
}

void charsmap_free(struct charsmap *m)
{
	mem_free(m);
}

/* ---- looking up ------------------------------------------------------------------------------ */

size_t charsmap_shortest(const struct charsmap *m, const uint8_t *p, size_t n, struct span *to)
{
	uint32_t base = m->root, unit;

	for (size_t i = 0; i < n && child(m, &base, p[i], &unit); i++) {
		if (unit & HAS_KEY) {
			*to = replacement(m, base);
			return i + 1;
		}
	}
	return 0;
}

size_t charsmap_longest(
    const struct charsmap *m, const uint8_t *p, size_t n, struct span *to, size_t *seen)
{
	uint32_t base = m->root, unit, best = 0;
	size_t len = 0, i;

	for (i = 0; i < n && child(m, &base, p[i], &unit); i++) {
		if (unit & HAS_KEY) {
			best = base;
			len = i + 1;
		}
	}
	*seen = i;
	if (len > 0)
		*to = replacement(m, best);
	return len;
}
