/* show_text.h - an answer of the runtime socket for people: the same JSON as lines and tables.
 *
 *      {"requests":6,"why":{"cached":4},     ->      requests: 6
 *       "servers":[{"name":"s1","up":true},          why.cached: 4
 *                  {"name":"s2","up":false}]}        servers:
 *                                                    # name up
 *                                                    s1     yes
 *                                                    s2     no
 *
 * A list in a row of a table is left out. No line is empty, because an empty line ends an answer.
 * Characters other than printable ASCII become question marks. Pure. */
#ifndef KVROUTE_LOOP_SHOW_TEXT_H
#define KVROUTE_LOOP_SHOW_TEXT_H

#include "agent/base/buf.h"

#define SHOW_COLUMNS_MAX	64	/* further ones are left out */
#define SHOW_WIDTH_MAX	132	/* of a line of a table; columns beyond it are left out */
#define SHOW_COLUMN_MAX	60	/* a table with a wider column becomes lines, rows apart by "--" */

/* Append the text of <json> to <out>. Returns 0, or -1 if it is not JSON or there is no memory.
 * O(n). */
int show_text(struct span json, struct buf *out);

#endif
