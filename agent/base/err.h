/* err.h - what a person must mend: where it is, and a whole sentence. */
#ifndef KVROUTE_BASE_ERR_H
#define KVROUTE_BASE_ERR_H

#define ERR_TEXT_MAX	640	/* the longest names all rules */

struct err {
	char file[128];		/* "" when no file is meant */
	int line, column;	/* from 1; 0 when unknown */
	char text[ERR_TEXT_MAX];
};

/* Fill <e> (may be NULL) and return -1, so that "return err_set(e, ...)" reads well. */
int err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
