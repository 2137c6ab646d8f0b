/* reload_in.h - the main thread's work at SIGHUP, and the loading of models that the start shares
 * with it. */
#ifndef KVROUTE_LOOP_RELOAD_IN_H
#define KVROUTE_LOOP_RELOAD_IN_H

#include "agent/loop/background_in.h"

/* Read the configuration again and apply it, or log why the old one stays. <reload> may be NULL.
 * Tells the service manager when it begins and ends. */
void agent_reload(struct agent *a, struct background *bg, const struct loop_reload *reload);

/* Copy <ro> to <own> and load the tokenizers of its models. The caller frees <own> in any case.
 * Returns 0, or -1 with <e>. */
int agent_load_models(struct agent *a, const struct loop_opts *o, const struct route_opts *ro,
    struct route_opts *own, struct err *e);

/* Apply the options that may change while the threads run (loop.c). */
void agent_apply_options(struct agent *a, const struct loop_opts *o);

#endif
