/* fields_in.h - the fields of each kind of entry, private to agent/share.
 *
 * One description of a kind serves both directions: share_fields() visits its fields in their
 * order, and each visit either writes the field or reads it. So writer and reader cannot differ. A
 * visit has the limit of its field: a larger number is cut when written and refused when read. */
#ifndef KVROUTE_SHARE_FIELDS_IN_H
#define KVROUTE_SHARE_FIELDS_IN_H

#include <endian.h>

#include "agent/share/share.h"

#define WIRE_MAGIC	"kvs"
#define WIRE_NAME	0u		/* kind of the entry that names a server */
#define WIRE_HEAD	4u		/* bytes before the payload of an entry */
#define WIRE_FIXED_MAX	256u		/* most bytes of an entry but for its list or its names */

struct share_fields {
	const uint8_t *in;		/* reading: the next byte; NULL: writing */
	uint8_t *out;			/* writing: the next place */
	size_t left;			/* of either */
	bool failed;			/* too short, or a number is out of limits; <left> is 0 then */
	uint32_t server;		/* writing: number of the entry's server */
	struct share_reader *reader;	/* reading: names of servers, and memory of lists */
};

/* Write or read the payload of <e>, whose kind is set. */
void share_fields(struct share_fields *f, struct share_entry *e);

/* Write or read the payload of a WIRE_NAME. */
void share_fields_name(struct share_fields *f, struct share_server *at);

static inline void wire_put(uint8_t *p, uint64_t v, size_t n)
{
	v = htole64(v);
	memcpy(p, &v, n);
}

static inline uint64_t wire_get(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	memcpy(&v, p, n);
	return le64toh(v);
}

#endif
