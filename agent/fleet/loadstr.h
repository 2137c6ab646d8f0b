/* loadstr.h - the argument <load>: one HAProxy process's view of the servers of a pool.
 *
 *      host/pid;name=up,conn,queue,weight;name=up,conn,queue,weight;...
 *
 * The part before the first ';' names the process and may be missing; so may the weight (then 1). A 'b' before
 * <up> marks a backup server, a 'B' one of a backend with "option allbackups": name=b1,0,0,1.
 * A last entry that was cut in half is dropped: one with fewer numbers than the first has. */
#ifndef KVROUTE_FLEET_LOADSTR_H
#define KVROUTE_FLEET_LOADSTR_H

#include "agent/base/types.h"

enum load_backup {
	BACKUP_NO,
	BACKUP_FIRST,		/* of the backup servers that are up, only the first takes requests */
	BACKUP_ALL		/* all of them do: "option allbackups" */
};

struct load_entry {
	struct span name;
	enum load_backup backup;
	bool up;
	uint32_t conn, queue, weight;
};

struct loadstr {
	struct span process;	/* "" when not named */
	struct span rest;
	unsigned n_numbers;	/* each entry has: 3 or 4, as the first */
	uint32_t n_bad;		/* entries that made no sense and were left out */
};

void loadstr_start(struct loadstr *l, struct span text);
bool loadstr_next(struct loadstr *l, struct load_entry *e);	/* false: no more */

#endif
