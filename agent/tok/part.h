/* part.h - where in a text the bytes that are encoded begin: some steps add a space at a
 * beginning. */
#ifndef KVROUTE_TOK_PART_H
#define KVROUTE_TOK_PART_H

enum part {
	PART_SEGMENT = 0,	/* a segment, after an added token */
	PART_FIRST = 1,		/* the whole text */
	PART_INSIDE = 2		/* a chunk that is not the first of its segment: nothing is added */
};

#endif
