/* schema_in.h - a tool's JSON schema as harmony shows it to the model: a type of TypeScript with comments. */
#ifndef KVROUTE_CHAT_SCHEMA_IN_H
#define KVROUTE_CHAT_SCHEMA_IN_H

#include "agent/base/buf.h"
#include "agent/jinja/value.h"

#define SCHEMA_DEPTH	64

/* Append the type of <schema>. -1: nested beyond SCHEMA_DEPTH, or schema_json() says so; <b> then has a part of it. O(length). */
int schema_write(struct buf *b, struct jval schema);

/* Append <v> as compact JSON, as Rust's serde_json writes it. -1: the same, or a number beyond what a double holds. */
int schema_json(struct buf *b, struct jval v, unsigned depth);

#endif
