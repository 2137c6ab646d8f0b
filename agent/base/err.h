/* err.h - an error that a person must fix: its place and one sentence with the remedy. */
#ifndef KVROUTE_BASE_ERR_H
#define KVROUTE_BASE_ERR_H

#define ERR_TEXT_MAX	640	/* the longest text lists all routing rules */

struct err {
	char file[128];		/* "" if the error has no file */
	int line, column;	/* from 1; 0 if unknown */
	char text[ERR_TEXT_MAX];
};

/* Format the text of <e> (may be NULL). Returns -1, so that a caller can "return err_set(e,
 * ...)". */
int err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
