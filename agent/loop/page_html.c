/* page_html.c - the file as it is in the tree. The Makefile names it as a dependency. */
#include "agent/loop/page_html_in.h"

__asm__(".section .rodata\n"
	".global page_html\n"
	"page_html: .incbin \"agent/loop/page.html\"\n"
	"page_html_end: .byte 0\n"
	".global page_html_n\n"
	".balign 8\n"
	"page_html_n: .quad page_html_end - page_html\n"
	".previous\n");
