/* read.c - entries out of a batch. The checksum is checked first, so that a damaged batch changes
 * nothing. A batch with a good checksum was made by an agent of the fleet, but maybe by a newer one
 * or one with a bug: each entry has its length, and one that cannot be read is skipped alone. Only
 * a name that cannot be read ends the batch, because later numbers of servers would mean others. */
#include "agent/share/fields_in.h"

#define MADE_MAX	((int64_t)SHARE_NUMBER_MAX)

static bool plausible(const struct share_batch *b)
{
	return b->agent != 0 && b->part < SHARE_PARTS_MAX && b->number != 0 &&
	    b->number <= SHARE_NUMBER_MAX && b->made_ms >= 0 && b->made_ms <= MADE_MAX;
}

int share_read_start(struct share_reader *r, const struct hash_key *key, struct span bytes)
{
	const uint8_t *p = (const uint8_t *)bytes.p;

	if (bytes.n < SHARE_EMPTY_BYTES || bytes.n > SHARE_BATCH_MAX || memcmp(p, WIRE_MAGIC, 3) != 0)
		return -SHARE_E_DAMAGED;
	if (wire_get(p + 8, 8) != hash_key_id(key))
		return -SHARE_E_STRANGER;
	if (wire_get(p + bytes.n - 8, 8) != hash64(key, p, bytes.n - 8))
		return -SHARE_E_DAMAGED;
	if (p[3] > SHARE_VERSION)
		return -SHARE_E_NEWER;
	r->batch = (struct share_batch){
		.part = (uint32_t)wire_get(p + 4, 4),
		.agent = wire_get(p + 16, 8),
		.number = wire_get(p + 24, 8),
		.made_ms = (int64_t)wire_get(p + 32, 8),
	};
	r->p = p + SHARE_HEADER_BYTES;
	r->left = bytes.n - SHARE_EMPTY_BYTES;
	r->n_names = 0;
	return p[3] == 0 || !plausible(&r->batch) ? -SHARE_E_DAMAGED : 0;
}

static bool read_name(struct share_reader *r, struct share_fields *f)
{
	struct share_server at = { 0 };

	share_fields_name(f, &at);
	if (f->failed || r->n_names == SHARE_SERVERS_MAX)
		return false;
	r->names[r->n_names++] = at;
	return true;
}

/* Pass one entry, and set <f> to its payload. Returns its kind, or -1 if it is cut short. */
static int next_payload(struct share_reader *r, struct share_fields *f)
{
	uint64_t head;

	if (r->left < WIRE_HEAD)
		return -1;
	head = wire_get(r->p, WIRE_HEAD);
	if (head >> 8 > r->left - WIRE_HEAD)
		return -1;
	*f = (struct share_fields){ .in = r->p + WIRE_HEAD, .left = head >> 8, .reader = r };
	r->p += WIRE_HEAD + f->left;
	r->left -= WIRE_HEAD + f->left;
	return (int)(head & 0xff);
}

static int read_entry(int kind, struct share_fields *f, struct share_entry *e)
{
	if (kind >= SHARE_KINDS)
		return -SHARE_E_KIND;
	memset(e, 0, sizeof(*e));
	e->kind = (enum share_kind)kind;
	share_fields(f, e);
	return f->failed ? -SHARE_E_ENTRY : 1;
}

int share_read_next(struct share_reader *r, struct share_entry *e)
{
	struct share_fields f;
	int kind;

	while (r->left > 0) {
		kind = next_payload(r, &f);
		if (kind > (int)WIRE_NAME)
			return read_entry(kind, &f, e);
		if (kind < 0 || !read_name(r, &f)) {
			r->left = 0;
			return -SHARE_E_ENTRY;
		}
	}
	return 0;
}
