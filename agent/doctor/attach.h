/* attach.h - the unified diff that attaches kvroute to a configuration of HAProxy, and the one that
 * takes it out again.
 *
 *   haproxy.cfg --> doctor_attach() --> diff --patch--> haproxy.cfg with added lines, kvroute.spoe
 *   haproxy.cfg with added lines --> doctor_detach() --> diff --patch--> haproxy.cfg as it was
 *
 * A diff only adds whole lines. Each ends with DOCTOR_MARK, by which doctor_detach() finds them, so
 * that the file is the same again, to the byte, whatever was edited elsewhere in the meantime. */
#ifndef KVROUTE_DOCTOR_ATTACH_H
#define KVROUTE_DOCTOR_ATTACH_H

#include "agent/doctor/doctor.h"

#define DOCTOR_MARK	"# kvroute-doctor"	/* a comment by hand may end with "# kvroute" */

struct doctor_attach {
	const char *const *pools;	/* backends of engines; NULL ends. NULL: the only candidate */
	const char *const *frontends;	/* that lead to them; NULL ends. NULL: found in the rules */
	const char *spoe;		/* absolute path of the SPOE file to create */
	const char *root;		/* folder of the diff's names: "" for "/"; absolute, no "/" at its end */
};

/* Why there is no diff. */
enum {
	DOCTOR_REFUSED = -1,	/* something must be changed first */
	DOCTOR_ASKS = -2,	/* options of the command decide it: <pools>, <frontends>, <spoe> */
	DOCTOR_NOMEM = -3,
};

/* Append the diff to <diff>, for "patch -p1" in <root>. <d> has all files and was checked. Returns
 * 0, or one of these: then <diff> is as it was. Each line of <said>, which is empty before, is a
 * sentence: what the operator should know (0), or why not and what to do. */
int doctor_attach(struct doctor *d, const struct doctor_attach *a, struct buf *diff,
		  struct buf *said);

/* The same for the removal of all marked lines; refused also if a line without the mark lies in a
 * section or between .if and .endif that would go, or has such defaults. A file of the filter is
 * deleted if doctor_attach() wrote it. Only <root> of <a> is used. */
int doctor_detach(struct doctor *d, const struct doctor_attach *a, struct buf *diff,
		  struct buf *said);

/* The same for what --remove and then --write would do, in one diff: after servers were added or
 * renamed. Pools, frontends and the file are those of the marked lines, unless <a> names others. */
int doctor_update(struct doctor *d, const struct doctor_attach *a, struct buf *diff,
		  struct buf *said);

#endif
