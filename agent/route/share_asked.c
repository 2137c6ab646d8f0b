/* share_asked.c - ends that were asked for a moment ago, here or by a sibling.
 *
 * Their pages go to all agents. They may be on the way, or lost, or refused for want of room or of
 * an anchor. So this agent asks again after 1 s, and from the third time on after twice as long
 * each time. Without room for it, the end that was asked for longest ago is forgotten. */
#include "agent/route/share_sync_in.h"

#define WAIT_LEAST_MS	1000
#define WAIT_DOUBLED	6u		/* times: 64 s */
#define QUICK_TIMES	3u		/* asked without a longer wait */
#define FORGET_MS	180000		/* it was there in the meantime */

static struct asked *asked_places(struct sync *y, uint64_t key)
{
	return &y->asked[(key >> 20) % (ASKED_PLACES / ASKED_WAYS) * ASKED_WAYS];
}

static uint64_t asked_key(uint64_t end, server_id id)
{
	return (end ^ (id + 1) * 0x9e3779b97f4a7c15ull) | 1;
}

bool asked_may(struct sync *y, uint64_t end, server_id id, msec now)
{
	uint64_t key = asked_key(end, id);
	const struct asked *a = asked_places(y, key);

	for (unsigned i = 0; i < ASKED_WAYS; i++, a++) {
		uint32_t doubled = a->times > QUICK_TIMES ? a->times - QUICK_TIMES : 0;

		if (a->key == key)
			return now - a->at >=
			    (msec)WAIT_LEAST_MS << (doubled < WAIT_DOUBLED ? doubled : WAIT_DOUBLED);
	}
	return true;
}

void asked_note(struct sync *y, uint64_t end, server_id id, bool by_this, msec now)
{
	uint64_t key = asked_key(end, id);
	struct asked *a = asked_places(y, key), *oldest = a;

	for (unsigned i = 0; i < ASKED_WAYS && oldest->key != key; i++, a++)
		if (a->key == key || a->at < oldest->at)
			oldest = a;
	if (oldest->key != key || now - oldest->at > FORGET_MS)
		*oldest = (struct asked){ .key = key };
	oldest->at = now;
	oldest->times += by_this;
}
