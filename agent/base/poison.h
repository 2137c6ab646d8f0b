/* poison.h - have AddressSanitizer report uses of memory that is kept for later, as it does of
 * freed memory. Without it nothing happens. */
#ifndef KVROUTE_BASE_POISON_H
#define KVROUTE_BASE_POISON_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON_WORKS	1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define POISON_WORKS	1
#endif

#ifdef POISON_WORKS
#include <sanitizer/asan_interface.h>

#define poison(p, n)	ASAN_POISON_MEMORY_REGION(p, n)
#define unpoison(p, n)	ASAN_UNPOISON_MEMORY_REGION(p, n)
#define is_poisoned(p)	(__asan_address_is_poisoned(p) != 0)
#else
#define poison(p, n)	((void)(p), (void)(n))
#define unpoison(p, n)	((void)(p), (void)(n))
#define is_poisoned(p)	((void)(p), false)
#endif

#endif
