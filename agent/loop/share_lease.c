/* The lease of the agent that writes a snapshot: a key with its number, which expires.
 *
 * An agent that paused for longer may find the lease of another one there, and must neither extend
 * nor delete that. So each of the two is a script: the store compares and changes in one step. A
 * store that refuses scripts lets the lease expire, which is logged once. */
#include "agent/loop/share_snapshot_in.h"

#ifdef HAVE_HIREDIS

#define IF_MINE	"if redis.call('GET',KEYS[1])~=ARGV[1] then return 0 end return redis.call("

/* Without scripts a snapshot that takes longer than the lease may be written by two agents. */
void lease_refused(struct share *sh, struct span why)
{
	struct log_line ln;

	if (sh->told_eval || !log_begin(&ln, &sh->agent->log, LOG_WARN, LOG_LIFE,
				 "the store refuses the scripts that extend and end the lease of a snapshot"))
		return;
	sh->told_eval = true;
	log_span(&ln, "error", why);
	log_text(&ln, "effect", "two agents may write a snapshot at once, or the next one starts later");
	log_text(&ln, "remedy", "allow share.user the command EVAL: kvroute(8), SHARING, has the rights");
	log_end(&ln);
}

static bool on_ended(struct conn *c, void *arg, uint64_t tag, struct redisReply *r)
{
	struct share *sh = arg;

	if (reply_is_any_error(r))
		lease_refused(sh, reply_text(r));
	if (sh->ending)
		ev_break(sh->loop, EVBREAK_ALL);
	return false;
}

void lease_ask(struct share *sh, struct conn *c, conn_reply_fn *fn, uint64_t wanted)
{
	char key[STORE_KEY_MAX], self[24], ms[24];
	const struct span words[] = { SPAN("SET"),
		(snapshot_key(sh, "snapshot-writer", key), span_str(key)),
		hex_text(self, sh->self), SPAN("NX"), SPAN("PX"),
		number_text(ms, LEASE_MS) };

	conn_send(c, fn, sh, wanted, sh->opts.timeout_ms, 6, words);
}

void lease_extend(struct share *sh, conn_reply_fn *fn)
{
	char key[STORE_KEY_MAX], self[24], ms[24];
	const struct span words[] = { SPAN("EVAL"), SPAN(IF_MINE "'PEXPIRE',KEYS[1],ARGV[2])"), SPAN("1"),
		(snapshot_key(sh, "snapshot-writer", key), span_str(key)), hex_text(self, sh->self),
		number_text(ms, LEASE_MS) };

	conn_send(&sh->bulk, fn, sh, 0, BULK_WAIT_MS(sh), 6, words);
}

void lease_end(struct share *sh)
{
	char key[STORE_KEY_MAX], self[24];
	const struct span words[] = { SPAN("EVAL"), SPAN(IF_MINE "'DEL',KEYS[1])"), SPAN("1"),
		(snapshot_key(sh, "snapshot-writer", key), span_str(key)), hex_text(self, sh->self) };

	if (sh->part[0].owner != NULL)
		conn_send(&sh->part[0].owner->cmd, on_ended, sh, 0, sh->opts.timeout_ms, 5, words);
}

#endif
