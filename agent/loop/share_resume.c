/* Positions in the streams, kept in the file of the agent's own snapshot, so that after a restart
 * it reads on from there and needs no snapshot of a sibling.
 *
 *   version 1  fleet  parts  position of each part      words, with a space between
 *
 * A position is the last entry that was read before the snapshot began. What the snapshot lacks of
 * requests that were open then lies before it, so reading begins SAFETY_MS earlier. The streams
 * must reach back that far and be the same ones as before (compare_ends); otherwise the agent asks
 * the store for a snapshot, as without positions. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS
#include <stdio.h>
#include <stdlib.h>

#include "agent/loop/share_snapshot_in.h"

void positions_note(struct share *sh)
{
	bool real = sh->warm.state == WARM_YES;

	for (uint32_t i = 0; i < sh->n_parts; i++)
		real &= !sh->part[i].at_is_early && position_is_valid(sh->part[i].at);
	pthread_mutex_lock(&sh->lock);
	for (uint32_t i = 0; real && i < sh->n_parts; i++)
		memcpy(sh->kept[i], sh->part[i].at, STORE_ID_MAX);
	pthread_mutex_unlock(&sh->lock);
}

size_t share_positions(struct share *sh, char *out, size_t cap)
{
	size_t n = 0;

	if (sh == NULL)
		return 0;
	pthread_mutex_lock(&sh->lock);
	if (sh->kept[0][0] != '\0')
		n = (size_t)snprintf(out, cap, "1 %s %u", sh->opts.fleet, sh->n_parts);
	for (uint32_t i = 0; n > 0 && n < cap && i < sh->n_parts; i++)
		n += (size_t)snprintf(out + n, cap - n, " %s", sh->kept[i]);
	pthread_mutex_unlock(&sh->lock);
	return n < cap ? n : 0;
}

/* Cut the first word off <s>. Returns false if it is not <want>. */
static bool take_same(struct span *s, const char *want)
{
	char word[FLEET_NAME_MAX + 1];

	return word_take(s, word, sizeof(word)) && strcmp(word, want) == 0;
}

bool share_resume(struct share *sh, struct span text)
{
	char parts[16], at[STORE_PARTS_MAX][STORE_ID_MAX];

	if (sh == NULL)
		return false;
	snprintf(parts, sizeof(parts), "%u", sh->n_parts);
	if (!take_same(&text, "1") || !take_same(&text, sh->opts.fleet) || !take_same(&text, parts))
		return false;
	for (uint32_t i = 0; i < sh->n_parts; i++)
		if (!word_take(&text, at[i], sizeof(at[i])) || !position_is_valid(at[i]))
			return false;
	if (text.n > 0)
		return false;
	for (uint32_t i = 0; i < sh->n_parts; i++)
		memcpy(sh->part[i].resumed, at[i], STORE_ID_MAX);
	sh->warm.resuming = true;
	return true;
}

#else

size_t share_positions(struct share *sh, char *out, size_t cap)
{
	return 0;
}

bool share_resume(struct share *sh, struct span text)
{
	return false;
}

#endif
