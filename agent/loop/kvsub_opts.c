/* What the configuration says about KV cache events. */
#include "agent/loop/engine_list.h"
#include "agent/loop/kvsub_in.h"

bool kvsub_available(void)
{
#ifdef HAVE_ZMQ
	return true;
#else
	return false;
#endif
}

bool kvsub_wanted(const struct loop_opts *o)
{
	for (size_t i = 0; i < o->n_engines; i++)
		if (o->engines[i].events.endpoint[0] != '\0')
			return true;
	return false;
}

/* The load socket may be told with the events. */
static bool has_load(const struct engine_opts *e)
{
	return e->load[0] != '\0' || engine_events_are_auto(e);
}

uint64_t kvsub_fds(const struct loop_opts *o)
{
	uint64_t n = kvsub_wanted(o) ? KVSUB_FDS_THREAD : 0;

	for (size_t i = 0; i < o->n_engines; i++) {
		const struct engine_events_opts *v = &o->engines[i].events;

		if (v->endpoint[0] != '\0')
			n += (KVSUB_FDS_RANK + (has_load(&o->engines[i]) ? KVSUB_FDS_LOAD : 0)) *
			     (v->ranks > 0 ? v->ranks : 1);
	}
	return n;
}
