/* Versions of shared libraries are asked from the libraries, because those of the build may differ
 * from those that the process uses. */
#include <ev.h>
#include <gnu/libc-version.h>
#include <seccomp.h>
#include <yaml.h>
#ifdef HAVE_ZMQ
#include <zmq.h>
#endif
#ifdef HAVE_HIREDIS
#include <hiredis/hiredis.h>
#endif
#ifdef HAVE_HIREDIS_SSL
#include <openssl/crypto.h>
#endif
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "agent/base/hash.h"
#include "agent/base/json_scan.h"
#include "agent/version.h"

#ifndef KVROUTE_COMMIT
#define KVROUTE_COMMIT	""
#endif
#ifndef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE	0
#endif

static void print_optional(FILE *to)
{
#ifdef HAVE_ZMQ
	int major, minor, patch;

	zmq_version(&major, &minor, &patch);
	fprintf(to, "libzmq %d.%d.%d\n", major, minor, patch);
#else
	fprintf(to, "libzmq none: no KV cache events\n");
#endif
#ifdef HAVE_HIREDIS
	fprintf(to, "hiredis %d.%d.%d\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
#else
	fprintf(to, "hiredis none: no shared state\n");
#endif
#ifdef HAVE_HIREDIS_SSL
	fprintf(to, "%s\n", OpenSSL_version(OPENSSL_VERSION));
#endif
}

static void print_libraries(FILE *to)
{
	const struct scmp_version *s = seccomp_version();
	uint32_t jit = 0;
	char pcre2[64] = "";

	pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
	pcre2_config(PCRE2_CONFIG_JIT, &jit);
	fprintf(to, "libev %d.%d\n", ev_version_major(), ev_version_minor());
	fprintf(to, "libyaml %s\n", yaml_get_version_string());
	fprintf(to, "libseccomp %u.%u.%u\n", s->major, s->minor, s->micro);
	fprintf(to, "pcre2 %s%s\n", pcre2, jit ? ", with JIT" : "");
	fprintf(to, "xxhash %u.%u.%u\n", XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE);
	print_optional(to);
	fprintf(to, "libc %s\n", gnu_get_libc_version());
}

static const char *compiler(void)
{
#ifdef __clang__
	return __VERSION__;
#else
	return "GCC " __VERSION__;
#endif
}

void version_print(FILE *to)
{
	const char *commit = KVROUTE_COMMIT;

	fprintf(to, "kvroute %s%s%s\n", KVROUTE_VERSION, commit[0] != '\0' ? ", commit " : "", commit);
	print_libraries(to);
	fprintf(to, "cpu path %s\n", json_scan_best()->name);
	fprintf(to, "built with %s, _FORTIFY_SOURCE=%d\n", compiler(), _FORTIFY_SOURCE);
}
