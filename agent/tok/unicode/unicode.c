/* unicode.c - look up the tables of unicode_data_in.h.
 *
 * Two-stage tables of bytes have the properties that every character needs (class, kind of normal
 * form). Sorted lists, searched by bisection, have the rare ones. Decompositions are stored
 * complete, so nothing is decomposed twice; compositions are pairs, without those that Unicode
 * excludes. Hangul is arithmetic (Unicode 14, 3.12). */
#include "agent/tok/unicode/unicode.h"

#include "agent/tok/unicode/unicode_data_in.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

enum {
	S_BASE = 0xac00,
	L_BASE = 0x1100,
	V_BASE = 0x1161,
	T_BASE = 0x11a7,
	L_COUNT = 19,
	V_COUNT = 21,
	T_COUNT = 28,
	S_COUNT = L_COUNT * V_COUNT * T_COUNT
};

struct uc_kind uc_kind(uint32_t cp)
{
	unsigned k = cp < 0x110000 ? uc_kind_leaf[uc_kind_block[cp >> 7]][cp & 127] : 0;

	return (struct uc_kind){ kinds[k].ccc, kinds[k].bits };
}

static const uint32_t *hangul_apart(uint32_t cp, uint32_t out[3], size_t *n)
{
	uint32_t s = cp - S_BASE;

	out[0] = L_BASE + s / (V_COUNT * T_COUNT);
	out[1] = V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT;
	out[2] = T_BASE + s % T_COUNT;
	*n = s % T_COUNT ? 3 : 2;
	return out;
}

const uint32_t *uc_decompose(uint32_t cp, bool compat, uint32_t hangul[3], size_t *n)
{
	size_t lo = 0, hi = COUNT(decompositions), mid;

	if (cp - S_BASE < S_COUNT)
		return hangul_apart(cp, hangul, n);
	while (lo < hi) {		/* the first of <cp> */
		mid = lo + (hi - lo) / 2;
		if (decompositions[mid].cp < cp)
			lo = mid + 1;
		else
			hi = mid;
	}
	*n = 0;
	/* NFD's comes before NFKD's */
	for (hi = lo; hi < COUNT(decompositions) && decompositions[hi].cp == cp; hi++)
		if (compat || !decompositions[hi].compat) {
			*n = decompositions[hi].n;
			lo = hi;
		}
	return *n ? decomposed + decompositions[lo].at : NULL;
}

uint32_t uc_compose(uint32_t a, uint32_t b)
{
	uint64_t want = (uint64_t)a << 32 | b, got;
	size_t lo = 0, hi = COUNT(pairs), mid;

	if (a - L_BASE < L_COUNT && b - V_BASE < V_COUNT)
		return S_BASE + ((a - L_BASE) * V_COUNT + (b - V_BASE)) * T_COUNT;
	if (a - S_BASE < S_COUNT && (a - S_BASE) % T_COUNT == 0 && b - T_BASE - 1 < T_COUNT - 1)
		return a + (b - T_BASE);
	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		got = (uint64_t)pairs[mid].first << 32 | pairs[mid].second;
		if (got == want)
			return pairs[mid].both;
		if (got < want)
			lo = mid + 1;
		else
			hi = mid;
	}
	return 0;
}

uint32_t uc_lower(uint32_t cp)
{
	size_t lo = 0, hi = COUNT(lowers), mid;

	if (cp < 0x80)
		return cp - 'A' < 26 ? cp + 32 : cp;
	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (cp < lowers[mid].first)
			hi = mid;
		else if (cp > lowers[mid].last)
			lo = mid + 1;
		else	/* every character of a run, or every second one: A a A a */
			return (cp - lowers[mid].first) % lowers[mid].step ? cp : cp + (uint32_t)lowers[mid].plus;
	}
	return cp;
}
