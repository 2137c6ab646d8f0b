/* action.c - writing an ACK (SPOE.txt 3.2.7, 3.4).
 *
 *      action  arguments  scope  name  value
 *      1 byte  1 byte     1 byte str   typed data        (no value for unset-var)
 *
 * An action is written first and removed again if it exceeds the frame size or the writer's
 * room. The ACK stays valid and is shorter; without any ACK HAProxy would wait for its timeout.
 * An ACK is never fragmented, because no version of HAProxy accepts fragments. */
#include <string.h>

#include "spoe/wire.h"

#define ACTION_HEAD	4u	/* action, arguments, scope, length of the name */

void spop_ack_begin(struct spop_ack *a, const struct spop_conn *c, struct spop_wr *w,
		    uint64_t stream_id, uint64_t frame_id)
{
	*a = (struct spop_ack){ .w = w, .max = c->frame_size };
	a->start = spop_frame_begin(w, SPOP_FRAME_ACK, stream_id, frame_id);
}

/* Write all of an action but its value if <name> is short, and leave <room> bytes for the value.
 * Returns where the value goes. Returns NULL if there is too little room, and writes nothing. */
static uint8_t *put_short(
    const struct spop_ack *a, enum spop_scope scope, const char *name, size_t room)
{
	const struct spop_wr *w = a->w;
	size_t n = strlen(name);
	uint8_t *p = w->p + w->n;

	if (w->full || n >= SPOP_VARINT_LONG || w->cap - w->n < ACTION_HEAD + n + room ||
	    a->max < w->n - a->start + ACTION_HEAD + n + room)
		return NULL;
	p[0] = SPOP_ACTION_SET;
	p[1] = 3;
	p[2] = scope;
	p[3] = (uint8_t)n;
	memcpy(p + ACTION_HEAD, name, n);
	return p + ACTION_HEAD + n;
}

static void end_short(struct spop_ack *a, const uint8_t *end)
{
	a->w->n = (size_t)(end - a->w->p);
	a->n_actions++;
}

static void put_action(struct spop_ack *a, enum spop_action action, enum spop_scope scope,
		       const char *name, const struct spop_data *value)
{
	const uint8_t head[] = { action, value ? 3 : 2, scope };
	struct spop_wr *w = a->w;
	size_t before = w->n;

	if (w->full)	/* the frame itself did not fit; spop_ack_end() reports it */
		return;
	spop_put_bytes(w, head, sizeof(head));
	spop_put_str(w, name, strlen(name));
	if (value)
		spop_put_data(w, value);
	if (w->full || w->n - a->start - SPOP_LENGTH_BYTES > a->max) {
		w->n = before;
		w->full = false;
		a->dropped = true;
	} else {
		a->n_actions++;
	}
}

void spop_ack_set(struct spop_ack *a, enum spop_scope scope, const char *name,
		  const struct spop_data *value)
{
	put_action(a, SPOP_ACTION_SET, scope, name, value);
}

void spop_ack_set_str(struct spop_ack *a, enum spop_scope scope, const char *name,
		      const char *p, size_t n)
{
	const struct spop_data d = { .type = SPOP_T_STR, .s = { p, n } };
	uint8_t *to = n < SPOP_VARINT_LONG ? put_short(a, scope, name, 2 + n) : NULL;

	if (to != NULL) {
		to[0] = SPOP_T_STR;
		to[1] = (uint8_t)n;
		if (n > 0)
			memcpy(to + 2, p, n);
		end_short(a, to + 2 + n);
		return;
	}
	put_action(a, SPOP_ACTION_SET, scope, name, &d);
}

void spop_ack_set_int(struct spop_ack *a, enum spop_scope scope, const char *name, int64_t v)
{
	const struct spop_data d = { .type = SPOP_T_INT64, .i = v };
	uint8_t *to = (uint64_t)v < SPOP_VARINT_LONG ? put_short(a, scope, name, 2) : NULL;

	if (to != NULL) {
		to[0] = SPOP_T_INT64;
		to[1] = (uint8_t)v;
		end_short(a, to + 2);
		return;
	}
	put_action(a, SPOP_ACTION_SET, scope, name, &d);
}

void spop_ack_unset(struct spop_ack *a, enum spop_scope scope, const char *name)
{
	put_action(a, SPOP_ACTION_UNSET, scope, name, NULL);
}

bool spop_ack_end(struct spop_ack *a)
{
	return spop_frame_end(a->w, a->start);
}
