/* What agents of another key or version write to the store: said at most hourly while it comes.
 * Such an agent looks healthy by itself, so its siblings are the ones who notice. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS

#define TOLD_EVERY_MS	3600000

/* What is said about each. */
static const struct {
	const char *msg, *unit, *effect, *remedy;
} strange[STRANGE_WHATS] = {
	[STRANGE_KEY] = { "batches of agents with another key are in the store", "batches",
		"nothing is shared with these agents, in either direction",
		"give all agents of the fleet the same file key_file; agents that shall not share need another "
		"share.fleet" },
	[STRANGE_VERSION] = { "batches of a later version are in the store", "batches",
		"they are skipped: this agent does not know what those agents tell, and decides without it",
		"update this agent to the version of its siblings" },
	[STRANGE_KIND] = { "entries of an unknown kind are in the store", "entries",
		"they are skipped, and the rest of these batches is used",
		"none is needed while agents are updated; then all should have the same version" },
	[STRANGE_ENTRY] = { "entries that this agent cannot read are in the store", "entries",
		"they are skipped, and the rest of these batches is used",
		"give all agents of the fleet the same version; if they have it, please report this" },
};

static uint64_t count_of(const struct share_inbox_stats *st, unsigned what)
{
	switch (what) {
	case STRANGE_KEY:
		return st->batches[SHARE_READ_STRANGER];
	case STRANGE_VERSION:
		return st->batches[SHARE_READ_NEWER];
	case STRANGE_KIND:
		return st->unknown_kinds;
	default:
		return st->bad_entries;
	}
}

static void tell(struct share *sh, unsigned what, uint64_t n)
{
	struct log_line ln;

	if (!log_begin(&ln, &sh->agent->log, LOG_WARN, LOG_LIFE, strange[what].msg))
		return;
	log_text(&ln, "fleet", sh->opts.fleet);
	log_int(&ln, strange[what].unit, (int64_t)n);
	log_text(&ln, "effect", strange[what].effect);
	log_text(&ln, "remedy", strange[what].remedy);
	log_end(&ln);
}

void strange_log(struct share *sh, msec now)
{
	for (unsigned what = 0; what < STRANGE_WHATS; what++) {
		struct strange_told *told = &sh->strange[what];
		uint64_t n = count_of(&sh->siblings.inbox, what);

		if (n == told->n || (told->at != 0 && now - told->at < TOLD_EVERY_MS))
			continue;
		tell(sh, what, n - told->n);
		*told = (struct strange_told){ now, n };
	}
}

#endif
