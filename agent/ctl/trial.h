/* trial.h - what the counters of shadow mode say, in three sentences for each pool.
 *
 *      what kvroute would have saved     prompt tokens, time to the first token
 *      how sure that is                  the 95 % interval of the mean of a request
 *      what to do                        switch it on, wait, or leave it off */
#ifndef KVROUTE_CTL_TRIAL_H
#define KVROUTE_CTL_TRIAL_H

#include <stdio.h>

#include "agent/ctl/status.h"

#define TRIAL_ENOUGH	100	/* requests; fewer tell nothing */

/* Print the sentences. Returns the number of pools in shadow mode. */
unsigned trial_say(FILE *to, const struct status *s);

#endif
