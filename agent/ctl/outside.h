/* outside.h - print bytes that another process sent. */
#ifndef KVROUTE_CTL_OUTSIDE_H
#define KVROUTE_CTL_OUTSIDE_H

#include <stddef.h>
#include <stdio.h>

/* Write <n> bytes to <to>. On standard error and on a terminal, all but printable ASCII, newlines
 * and tabs become question marks, so that none of them can command a terminal. */
void ctl_print_outside(FILE *to, const char *p, size_t n);

#endif
