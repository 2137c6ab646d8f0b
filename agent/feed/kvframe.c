/* The parts of a ZeroMQ message that carries KV cache events. */
#include "agent/feed/kvframe.h"

static bool sequence_of(struct span s, uint64_t *sequence)
{
	uint64_t v = 0;

	if (s.n != 8)
		return false;
	for (size_t i = 0; i < 8; i++)
		v = v << 8 | (uint8_t)s.p[i];
	*sequence = v;
	return true;
}

bool kvframe_live(const struct span *parts, unsigned n, struct kvframe *f)
{
	*f = (struct kvframe){ 0 };
	if (n < 1 || n > 3)
		return false;
	f->payload = parts[n - 1];
	if (n > 1)
		f->topic = parts[0];
	f->has_sequence = n == 3;
	return n < 3 || sequence_of(parts[1], &f->sequence);
}

bool kvframe_replay(const struct span *parts, unsigned n, struct kvframe *f)
{
	*f = (struct kvframe){ 0 };
	if (n < 3 || n > 4 || parts[0].n != 0 || !sequence_of(parts[n - 2], &f->sequence))
		return false;
	f->has_sequence = true;
	f->payload = parts[n - 1];
	if (n == 4)
		f->topic = parts[1];
	f->end = f->sequence == UINT64_MAX && f->payload.n == 0;
	return true;
}
