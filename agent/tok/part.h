/* part.h - where in a text the encoded bytes begin, because some steps add a space at a beginning.
 */
#ifndef KVROUTE_TOK_PART_H
#define KVROUTE_TOK_PART_H

enum part {
	PART_SEGMENT = 0,	/* a segment, after an added token */
	PART_FIRST = 1,		/* the whole text */
	PART_INSIDE = 2		/* a later chunk of a segment: nothing is added */
};

#endif
