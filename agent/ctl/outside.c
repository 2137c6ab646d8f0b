/* outside.c - bytes of another process may be sequences that command a terminal. */
#include <stdbool.h>
#include <unistd.h>

#include "agent/ctl/outside.h"

void ctl_print_outside(FILE *to, const char *p, size_t n)
{
	if (to != stderr && !isatty(fileno(to))) {
		fwrite(p, 1, n, to);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];
		bool plain = (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t';

		putc(plain ? c : '?', to);
	}
}
