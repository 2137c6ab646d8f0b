/* The thread that reads KV cache events. */
#include "agent/loop/kvsub.h"

bool kvsub_available(void)
{
#ifdef HAVE_ZMQ
	return true;
#else
	return false;
#endif
}
