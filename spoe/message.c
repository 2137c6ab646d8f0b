/* message.c - the messages of a NOTIFY (SPOE.txt 3.2, LIST-OF-MESSAGES).
 *
 *      name  number of arguments  name value  name value ...  |  name  number ...
 *      str   1 byte               str  typed data
 *
 * A message has no length, so finding the next one requires reading every argument. This walk
 * also validates them before the message is returned; spop_arg_next() then walks valid bytes.
 * The cost is O(arguments) twice, at most 255 of them, and does not depend on the length of a
 * body. */
#include "spoe/wire.h"

int spop_message_next(struct spop_rd *r, struct spop_message *m)
{
	struct spop_rd t = *r;
	struct spop_str name;
	struct spop_data d;
	uint8_t n_args;
	unsigned i;
	int rc;

	if (!t.left)
		return 0;
	if ((rc = spop_get_str(&t, &m->name)) < 0 || (rc = spop_get_u8(&t, &n_args)) < 0)
		return rc;
	m->n_args = n_args;
	m->args = t;
	for (i = 0; i < m->n_args; i++)
		if (!spop_get_usual_kv(&t, &name, &d) && (rc = spop_get_kv(&t, &name, &d)) < 0)
			return rc;
	m->args.left -= t.left;
	*r = t;
	return 1;
}

int spop_arg_next(struct spop_message *m, struct spop_str *name, struct spop_data *d)
{
	return m->args.left &&
	       (spop_get_usual_kv(&m->args, name, d) || spop_get_kv(&m->args, name, d) == 0);
}
