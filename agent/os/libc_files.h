/* libc_files.h - files that libc reads once, at a time of its own choice.
 *
 * The sandbox allows no open, so they are read before it closes. */
#ifndef KVROUTE_OS_LIBC_FILES_H
#define KVROUTE_OS_LIBC_FILES_H

/* Read them. No other thread may run. */
void libc_files_read(void);

#endif
