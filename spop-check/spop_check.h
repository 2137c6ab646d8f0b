/* spop_check.h - a test of any SPOE agent: does it speak SPOP 2.0 as HAProxy needs it?
 *
 * The only header for callers. It knows nothing of kvroute: spoe/ reads and writes frames,
 * agent/base gives types, memory and random numbers. */
#ifndef SPOP_CHECK_SPOP_CHECK_H
#define SPOP_CHECK_SPOP_CHECK_H

/* Run the command line "spop-check [options] ADDR", where argv[0] is "spop-check". Messages and the
 * usage begin with <program>. Writes the report to standard output. Returns the exit status: 0
 * passed, 1 failed, 2 wrong usage or no connection. */
int spop_check(const char *program, int argc, char **argv);

#endif
