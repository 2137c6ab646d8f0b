/* names.h - limits for the names of pools and servers. */
#ifndef KVROUTE_FLEET_NAMES_H
#define KVROUTE_FLEET_NAMES_H

#define POOL_NAME_MAX	127
#define SERVER_NAME_MAX	127

#endif
