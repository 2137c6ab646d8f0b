/* resume_in.h - private to agent/jinja: what is noted while a loop over messages runs. */
#ifndef KVROUTE_JINJA_RESUME_IN_H
#define KVROUTE_JINJA_RESUME_IN_H

#include "agent/jinja/resume.h"

#define TRACK_SPACES	8u	/* namespaces of a template */

#define TRACK_NUMBERS	8u	/* in namespaces */

/* A whole number in a namespace when the loop started, such as the index of the last question. It
 * may be another one next time if all comparisons with it come out the same: from <least> to
 * <most>. */
struct tracked_number {
	uint32_t space, member;
	int64_t value, least, most;
};

/* A namespace as it was when the loop started. */
struct tracked_space {
	struct jdict *d;
	const struct jdict_entry *was;
	uint32_t n;
};

/* aux of JV_UNREAD: a text of a message, in a namespace. It may only be asked if it is none. */
#define UNREAD_TEXT	0xffff

#define READ_MOST	8u

#define TRACK_GAPS	4u

/* A loop over tools whose text is a function of them: node <id>. */
struct tools_gap {
	uint64_t steps, printed, id;
	size_t at;		/* of the text, where it begins; it has <n> bytes there */
	size_t n;
};

struct track {
	struct jinja_resume *as;	/* NULL: nothing is tracked */
	bool on;			/* in the loop */
	unsigned n_read;
	uint32_t read[READ_MOST];	/* items that were passed over and read after all */
	bool presence;			/* the member that is read is asked if it is none, or defined */
	bool whole, tail;		/* read: anything of the list; that there is no next item */
	uint64_t furthest;		/* items from the start of the list of which one may have been read */
	const struct loop *loop;	/* of the loop; NULL: it has no variable */
	uint64_t start;			/* hash of all that the loop starts with */
	uint64_t light;			/* the same without tools */
	bool has_light;
	struct tools_gap gap[TRACK_GAPS];
	uint32_t n_gaps;		/* executed, or passed over */
	uint32_t n_known;		/* gaps of the state that is gone on from */
	uint32_t id, first;		/* of the loop; messages before its first item */
	uint64_t steps;
	size_t printed;			/* both when it started, less what was passed over */
	uint64_t saved_steps;		/* counted but not executed */
	struct tracked_space space[TRACK_SPACES];
	uint32_t n_spaces;
	struct tracked_number number[TRACK_NUMBERS];
	uint32_t n_numbers;
};

struct run;
struct node;

/* watch.c */

/* Tell if a value needs jx_touched(). */
static inline bool is_watched(const struct jval *v)
{
	return v->kind == JV_UNREAD ||
	       (v->kind == JV_LIST && (v->flags & (JV_WATCHED | JV_HAS_UNREAD)) != 0);
}

bool jx_missed(struct run *r);
/* Note that <n> has the value <*v>, and read it if it is an item that was not. Returns false if it
 * must not be used. */
bool jx_touched(struct run *r, const struct node *n, struct jval *v);
/* Exchange the unread item <*v> for what it is. Returns false if that is not possible. */
bool jx_read_item(struct run *r, struct jval *v);
/* Tell if <name> is the role of the unread item <v>, which needs not be read; then set <*out>. */
bool jx_unread_role(struct jval v, struct jval name, struct jval *out);
/* Note that an item of the watched list <v> is read. */
void jx_item_read(struct run *r, struct jval v, struct jval key);
void jx_end_read(struct run *r, const struct loop *l, bool last);	/* whether there is a next item */
void jx_next_read(struct run *r, const struct loop *l);			/* the next item */
void jx_whole_read(struct run *r);
/* Member <v> of a namespace is read. */
void jx_member_read(struct run *r, const struct jdict *d, const struct jval *v);
/* A member of a namespace is set. */
void jx_member_set(struct run *r, const struct jdict *d, struct jval name);
/* Compare with a number that is tracked. Sets *done to false if <n> is no such comparison. */
bool jx_number_compared(struct run *r, const struct node *n, struct jval *out, bool *done);

/* start_hash.c: hash the text so far, the caller's variables, and the variables that the loop and
 * what follows it can see; <light>: less tools and the gaps. Returns false if that cannot be told.
 */
bool jx_start_hash(struct run *r, bool light, uint64_t *out);

/* gap.c: the loop <n> only prints (node.prints). If it is of tools, jx_gap_begin() passes over it
 * and sets <*over>, or notes where it starts; then jx_gap_end() notes its end. */
bool jx_gap_begin(struct run *r, const struct node *n, bool *over, struct tools_gap *g);
void jx_gap_end(struct run *r, const struct tools_gap *g);

/* resume.c */

/* The loop <n> over <source> starts. Sets <*skip> to the items to pass over, and *completed as it
 * was after them. Returns false on failure. */
bool jx_loop_begin(
    struct run *r, const struct node *n, struct jval source, uint64_t *skip, bool *completed);
/* Item <i> of it starts; or it has ended without break. <completed>: as in exec_for(). */
void jx_loop_item(struct run *r, const struct loop *l, uint64_t i, bool completed);
void jx_loop_end(struct run *r, bool completed);

#endif
