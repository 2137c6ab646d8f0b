/* key_file.h - the file of the secret key that all hashes depend on.
 *
 * The file has HASH_SECRET_BYTES bytes. <key_file> names it; if that is "", it is
 * <state_dir>/key. */
#ifndef KVROUTE_OS_KEY_FILE_H
#define KVROUTE_OS_KEY_FILE_H

#include "agent/base/err.h"
#include "agent/base/hash.h"

struct identity;

/* Read the key file, or create it (mode 0600, owner <as>) if it does not exist. If <key_file> is ""
 * and the state directory is missing or not writable, <key> is random, lives as long as the
 * process, and <*kept> is false. Returns 0. Returns -1 with <e> if the file is open to its group or
 * to others, belongs to another user, has another size, or cannot be read or created. */
int key_file_load(const char *key_file, const char *state_dir, const struct identity *as,
    struct hash_key *key, bool *kept, struct err *e);

/* Read the key file for a tool. Never creates it, and accepts any owner, because the tool may run
 * as root. Returns 0, or -1 with <e>. */
int key_file_read(const char *key_file, const char *state_dir, struct hash_key *key, struct err *e);

#endif
