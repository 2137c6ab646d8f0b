/* config_text_in.h - the effective values as text, made by the main thread at the start and after
 * each reload, read by the runtime socket. Values are paths, never what is in secret files. */
#ifndef KVROUTE_LOOP_CONFIG_TEXT_IN_H
#define KVROUTE_LOOP_CONFIG_TEXT_IN_H

#include <pthread.h>

#include "agent/base/buf.h"
#include "agent/loop/loop.h"

#define CONFIG_TEXT_MAX	(4u << 20)	/* a configuration may list thousands of engines */

struct config_text {
	pthread_mutex_t lock;		/* guards <text> */
	struct buf text;		/* YAML without comments and empty lines */
};

void config_text_init(struct config_text *c);
void config_text_free(struct config_text *c);

/* Write the values anew. Without <reload>, or its print(), there is no text. */
void config_text_set(struct config_text *c, const struct loop_reload *reload,
    const struct route_opts *ro, const struct loop_opts *o);

/* Append the text to <to>. Returns false if there is none. */
bool config_text_copy(struct config_text *c, struct buf *to);

#endif
