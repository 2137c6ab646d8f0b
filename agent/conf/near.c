/* near.c - edit distance of two words by dynamic programming, three rows at a time: O(a x b), words
 * of up to 40 bytes. */
#include "agent/conf/near_in.h"

#define WORD_MAX 40

static char fold_char(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return c == '-' ? '_' : c;
}

static unsigned min_of(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned near_distance(struct span a, struct span b)
{
	unsigned rows[3][WORD_MAX + 1];
	unsigned *before = rows[0], *last = rows[1], *row = rows[2], *turn;

	if (a.n > WORD_MAX || b.n > WORD_MAX)
		return NEAR_FAR;
	for (unsigned j = 0; j <= b.n; j++)
		last[j] = j;
	for (unsigned i = 1; i <= a.n; i++) {
		row[0] = i;
		for (unsigned j = 1; j <= b.n; j++) {
			char x = fold_char(a.p[i - 1]), y = fold_char(b.p[j - 1]);

			row[j] = min_of(min_of(last[j], row[j - 1]) + 1, last[j - 1] + (x != y));
			if (i > 1 && j > 1 && x == fold_char(b.p[j - 2]) && y == fold_char(a.p[i - 2]))
				row[j] = min_of(row[j], before[j - 2] + 1);
		}
		turn = before;
		before = last;
		last = row;
		row = turn;
	}
	return last[b.n];
}

static size_t common_prefix(struct span a, struct span b)
{
	size_t n = 0;

	while (n < a.n && n < b.n && fold_char(a.p[n]) == fold_char(b.p[n]))
		n++;
	return n;
}

void near_init(struct near *n, struct span word)
{
	n->word = word;
	n->best = NULL;
	n->distance = word.n < 3 ? 1 : min_of(2 + (unsigned)(word.n / 4), 5);
}

/* A word that is a prefix of the candidate, or the reverse, counts like one wrong letter. Of
 * several candidates at the same distance, one with the same start is preferred. */
void near_try(struct near *n, const char *candidate)
{
	struct span c = span_str(candidate);
	size_t same = common_prefix(n->word, c), shorter = c.n < n->word.n ? c.n : n->word.n;
	unsigned d = near_distance(n->word, c);

	if (same == shorter && same >= 4 && d > 1)
		d = 1;
	if (d < n->distance || (d == n->distance && n->best != NULL &&
				same > common_prefix(n->word, span_str(n->best)))) {
		n->distance = d;
		n->best = candidate;
	}
}
