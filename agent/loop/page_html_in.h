/* page_html_in.h - GET /: agent/loop/page.html, as one file with its script and style.
 *
 * It asks this listener for /status.json and /decisions, and nobody else: its policy allows no
 * other address. It shows no more than those two pages tell. */
#ifndef KVROUTE_LOOP_PAGE_HTML_IN_H
#define KVROUTE_LOOP_PAGE_HTML_IN_H

#include <stddef.h>

extern const char page_html[];
extern const size_t page_html_n;

#endif
