/* attach_in.h - raw lines of a file, edits of them, and the plan of an attachment. */
#ifndef KVROUTE_DOCTOR_ATTACH_IN_H
#define KVROUTE_DOCTOR_ATTACH_IN_H

#include "agent/doctor/attach.h"
#include "agent/doctor/doctor_in.h"

/* ---- raw lines: active or not -------------------------------------------------------------- */

struct dr_raw {
	struct span text;	/* without its "\n" */
	struct span word;	/* the first one; empty: blank or comment */
	unsigned depth;		/* nested .if around it; a directive is outside of its own */
};

typedef VEC(struct dr_raw) dr_raws;

/* Split <text>, whose last line may lack its "\n". Returns 0, or -1 without memory. */
int dr_raw_read(struct span text, dr_raws *to);

/* The place of a section in its file: lines <first> to <last> after its opening line, counted from
 * 1; first > last: none. */
struct dr_extent {
	unsigned first, last, depth;
};

struct dr_extent dr_extent_of(const dr_raws *raws, const struct dr_line *opening);

/* Return the number of the line after which rules of a section belong: its last request rule, or
 * the .endif around that; else the line before its first one that selects a backend or server. */
unsigned dr_rules_end(const dr_raws *raws, struct dr_extent e);
/* Return the number of the last line of the section that has words. */
unsigned dr_section_end(const dr_raws *raws, struct dr_extent e);
/* Return that of the last line beginning with <word> in no .if; 0: none. */
unsigned dr_last_with(const dr_raws *raws, struct dr_extent e, const char *word);

/* Tell if a line carries DOCTOR_MARK. */
bool dr_marked(struct span line);

/* ---- edits --------------------------------------------------------------------------------- */

struct dr_edit {
	unsigned file;		/* index in d->files */
	unsigned after;		/* number of a line; 0: before the first */
	const char *text;	/* whole lines */
};

typedef VEC(struct dr_edit) dr_edits;

/* Append the hunks of one file. <adds>: its edits in ascending order of <after>. <marked>: delete
 * each marked line. Returns false if nothing changes or there is no memory (d->mem.nomem). */
bool dr_diff_file(struct doctor *d, struct buf *to, const char *name, struct span text,
		  const struct dr_edit *adds, size_t n, bool marked);
/* Append the diff that creates, or deletes, the file <name> with <text>. */
void dr_diff_whole(struct buf *to, const char *name, struct span text, bool create);

/* Return the name of <path> in a diff for <root>; NULL if it has none. */
const char *dr_diff_name(struct doctor *d, const char *root, const char *path);

/* Append the hunks that turn <text>, with marked lines, into the same without them but with <adds>,
 * whose <after> count the lines that have no mark. */
bool dr_diff_update(struct doctor *d, struct buf *to, const char *name, struct span text,
		    const struct dr_edit *adds, size_t n);
/* Append the hunk that turns <text> into <then>. */
bool dr_diff_texts(struct doctor *d, struct buf *to, const char *name, struct span text,
		   struct span then);

#define DR_SPOE_BEGIN \
	"# Written by \"kvroutectl doctor --write\"; \"--remove\" deletes it. " DOCTOR_MARK

/* Tell if <text> is a SPOE file that doctor_attach() wrote. */
bool dr_wrote(struct span text);

/* ---- plan ---------------------------------------------------------------------------------- */

struct dr_plan {
	struct doctor *d;
	const struct doctor_attach *o;
	struct buf *said;
	const struct dr_plan *marked;		/* its files with the marked lines, if <d> is without; or NULL */
	bool refused;
	bool asks;				/* refused, and only by dr_ask() */
	VEC(unsigned) pools, fronts;		/* indexes of sections */
	VEC(dr_raws) raws;			/* of each file */
	dr_edits edits;
	struct buf text;			/* of the edit being written */
	int64_t bufsize;			/* with the edits */
};

/* Add "FILE:LINE: sentence" to <said>; <at> may be NULL. A sentence of a refusal says why, and what
 * to do. Notes are dropped once there is one. dr_ask() is for what an option of the command
 * decides. */
void dr_refuse(struct dr_plan *p, const struct dr_line *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void dr_ask(struct dr_plan *p, const struct dr_line *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void dr_note(struct dr_plan *p, const struct dr_line *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Return 0, or what keeps <p> from a diff. */
int dr_plan_status(const struct dr_plan *p, const struct buf *diff);

/* Refuse files whose last line has no end, because a diff cannot add lines after it. */
void dr_check_ends(struct dr_plan *p);

/* Read the raw lines. Returns false without memory. */
bool dr_plan_read(struct dr_plan *p);
/* Make the edits that attach. Returns false if it was refused, or without memory. */
bool dr_plan_attach(struct dr_plan *p);
void dr_sort_edits(dr_edits *e);
void dr_plan_free(struct dr_plan *p);

/* Choose pools and frontends, and refuse what cannot be attached. */
void dr_plan_choose(struct dr_plan *p);
void dr_plan_judge(struct dr_plan *p);
/* Write the edits, and the text of the SPOE file. */
void dr_plan_edit(struct dr_plan *p);
void dr_plan_spoe(struct dr_plan *p, struct buf *to);

/* Refuse lines without DOCTOR_MARK whose section, .if or defaults go with the marked lines. */
void dr_plan_remove(struct dr_plan *p);

/* Return the index of the file of a line. */
unsigned dr_file_of(const struct doctor *d, const char *path);

/* Tell if the line <at> carries DOCTOR_MARK. */
bool dr_line_marked(const struct dr_plan *p, const struct dr_line *at);

/* Tell if <s> is in effect with "option NAME". */
bool dr_option(const struct doctor *d, const struct dr_section *s, const char *name);

#endif
