/* schema_in.h - write a tool's JSON schema as harmony shows it to the model: a TypeScript type with
 * comments. */
#ifndef KVROUTE_CHAT_SCHEMA_IN_H
#define KVROUTE_CHAT_SCHEMA_IN_H

#include "agent/base/buf.h"
#include "agent/jinja/value.h"

#define SCHEMA_DEPTH	64

/* Append the type of <schema>. Returns -1 if it is nested beyond SCHEMA_DEPTH or schema_json()
 * fails; <b> then has a part of it. O(length). */
int schema_write(struct buf *b, struct jval schema);

/* Append <v> as compact JSON, as Rust's serde_json does. Returns -1 likewise, or for a number
 * beyond the range of a double. */
int schema_json(struct buf *b, struct jval v, unsigned depth);

#endif
