/* version.h - what this program was built from and runs with, for a bug report. */
#ifndef KVROUTE_VERSION_H
#define KVROUTE_VERSION_H

#include <stdio.h>

/* Print to <to>: version and commit; the libraries in the process, one a line with its version; the
 * code that this CPU selects; compiler and hardening. */
void version_print(FILE *to);

#endif
