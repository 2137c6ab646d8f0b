/* loadstr.h - read the argument <load>: the servers of a pool as one HAProxy process sees them.
 *
 *      host/pid;name=up,conn,queue,weight;name=up,conn,queue,weight;...
 *
 * The part before the first ';' names the process and may be missing. The weight may be missing;
 * then it is 1. A 'b' before <up> marks a backup server, a 'B' one of a backend with "option
 * allbackups": name=b1,0,0,1. An entry with another number of numbers than the first is dropped,
 * because the last one may be truncated. */
#ifndef KVROUTE_FLEET_LOADSTR_H
#define KVROUTE_FLEET_LOADSTR_H

#include "agent/base/types.h"

enum load_backup {
	BACKUP_NO,
	BACKUP_FIRST,		/* of the backup servers that are up, only the first gets requests */
	BACKUP_ALL		/* all of them do: "option allbackups" */
};

struct load_entry {
	struct span name;
	enum load_backup backup;
	bool up;
	uint32_t conn, queue, weight;
};

struct loadstr {
	struct span process;	/* "" if not named */
	struct span rest;
	unsigned n_numbers;	/* of each entry: 3 or 4, as in the first */
	uint32_t n_bad;		/* entries dropped */
};

void loadstr_start(struct loadstr *l, struct span text);
bool loadstr_next(struct loadstr *l, struct load_entry *e);	/* false if there are no more */

#endif
