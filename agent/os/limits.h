/* limits.h - sizes of texts in the configuration, each with its NUL. */
#ifndef KVROUTE_OS_LIMITS_H
#define KVROUTE_OS_LIMITS_H

#define ADDR_MAX	128	/* of an address: addr.h */
#define PATH_CHARS_MAX	256	/* of a file or directory */
#define NAME_CHARS_MAX	64	/* of a user or group */

#endif
