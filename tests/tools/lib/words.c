/* words.c - see words.h. A word has 3 to 8 letters, as in English with its short words left out. */
#include "tests/tools/lib/words.h"

#include <stdio.h>

uint64_t words_random(uint64_t *r)
{
	*r ^= *r << 13;
	*r ^= *r >> 7;
	*r ^= *r << 17;
	return *r;
}

size_t words_put(char *to, size_t n, uint64_t seed)
{
	uint64_t r = seed * 0x9E3779B97F4A7C15u + 1, bits;
	size_t at = 0;

	while (at < n) {
		bits = words_random(&r);
		for (size_t k = 3 + bits % 6; k > 0 && at < n; k--, bits >>= 5)
			to[at++] = (char)('a' + bits % 26);
		if (at < n)
			to[at++] = ' ';
	}
	return n;
}

size_t words_put_turn(char *to, const char *role, size_t n, uint64_t seed)
{
	size_t at = (size_t)sprintf(to, "%s{\"role\":\"%s\",\"content\":\"", role[0] == 's' ? "" : ",",
				    role);

	at += words_put(to + at, n, seed);
	return at + (size_t)sprintf(to + at, "\"}");
}

size_t words_put_head(char *to, size_t n)
{
	return (size_t)sprintf(to, "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
			       "content-type: application/json\r\ncontent-length: %zu\r\n\r\n", n);
}
