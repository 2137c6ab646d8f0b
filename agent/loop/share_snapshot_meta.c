/* What the store says of its last snapshot: version, number, chunks, bytes, wish, parts, and a
 * position of each part's stream. */
#include "agent/loop/share_snapshot_in.h"

#ifdef HAVE_HIREDIS
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define META_VERSION	1

size_t snapshot_write_meta(
    const struct share *sh, const struct snapshot_meta *m, char *out, size_t cap)
{
	size_t n = (size_t)snprintf(out, cap, "%u %llx %u %llu %llx %u", META_VERSION,
	    (unsigned long long)m->gen, m->chunks, (unsigned long long)m->bytes,
	    (unsigned long long)m->wanted, sh->n_parts);

	for (uint32_t i = 0; i < sh->n_parts && n < cap; i++)
		n += (size_t)snprintf(out + n, cap - n, " %s", m->at[i]);
	return n < cap ? n : cap - 1;
}

bool word_take(struct span *s, char *out, size_t cap)
{
	size_t n = 0;

	while (n < s->n && s->p[n] != ' ')
		n++;
	if (n == 0 || n >= cap)
		return false;
	memcpy(out, s->p, n);
	out[n] = '\0';
	*s = span_of(s->p + n + (n < s->n), s->n - n - (n < s->n));
	return true;
}

bool meta_take_value(struct span *s, int base, uint64_t max, uint64_t *v)
{
	char word[24], *end;

	if (!word_take(s, word, sizeof(word)) || word[0] == '-' || word[0] == '+')
		return false;
	errno = 0;
	*v = strtoull(word, &end, base);
	return errno == 0 && *end == '\0' && *v <= max;
}

/* An agent with another number of parts reads other streams. */
static void log_parts(struct share *sh, uint32_t parts)
{
	struct log_line ln;

	if (sh->told_parts || !log_begin(&ln, &sh->agent->log, LOG_WARN, LOG_LIFE,
				  "another agent of the fleet has another number of parts"))
		return;
	sh->told_parts = true;
	log_int(&ln, "parts", sh->n_parts);
	log_int(&ln, "other", parts);
	log_text(&ln, "effect", "each of the two learns only a part of what the other does");
	log_text(&ln, "remedy",
		"set share.parts and share.cluster alike on all agents, or share.fleet apart");
	log_end(&ln);
}

static void log_version(struct share *sh, uint64_t version)
{
	struct log_line ln;

	if (sh->told_snapshot || !log_begin(&ln, &sh->agent->log, LOG_WARN, LOG_LIFE,
				     "the snapshot in the store has an unknown format"))
		return;
	sh->told_snapshot = true;
	log_int(&ln, "format", (int64_t)version);
	log_int(&ln, "known", META_VERSION);
	log_text(&ln, "effect", "it is not read, and an agent of this version writes another one");
	log_text(&ln, "remedy", "give all agents of the fleet the same version");
	log_end(&ln);
}

bool snapshot_read_meta(struct share *sh, struct span s, struct snapshot_meta *m)
{
	uint64_t version, chunks, parts;

	if (!meta_take_value(&s, 10, UINT32_MAX, &version))
		return false;
	if (version != META_VERSION) {
		log_version(sh, version);
		return false;
	}
	if (!meta_take_value(&s, 16, UINT64_MAX, &m->gen) ||
	    !meta_take_value(&s, 10, UINT32_MAX, &chunks) ||
	    !meta_take_value(&s, 10, UINT64_MAX, &m->bytes) ||
	    !meta_take_value(&s, 16, UINT64_MAX, &m->wanted) ||
	    !meta_take_value(&s, 10, STORE_PARTS_MAX, &parts))
		return false;
	if (parts != sh->n_parts) {
		log_parts(sh, (uint32_t)parts);
		return false;
	}
	m->chunks = (uint32_t)chunks;
	for (uint32_t i = 0; i < sh->n_parts; i++)
		if (!word_take(&s, m->at[i], sizeof(m->at[i])) || !position_is_valid(m->at[i]))
			return false;
	return s.n == 0;
}

#endif
