/* The lease of the agent that writes a snapshot: a key with its number, which expires.
 *
 * An agent that paused for longer may find the lease of another one there, and must neither extend
 * nor delete that. So each of the two is a script: the store compares and changes in one step. A
 * store that refuses scripts lets the lease expire. */
#include "agent/loop/share_snapshot_in.h"

#ifdef HAVE_HIREDIS

#define IF_MINE	"if redis.call('GET',KEYS[1])~=ARGV[1] then return 0 end return redis.call("

static bool on_ignored(struct conn *c, void *arg, uint64_t tag, struct redisReply *r)
{
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
		conn_send(&sh->part[0].owner->cmd, on_ignored, NULL, 0, sh->opts.timeout_ms, 5, words);
}

#endif
