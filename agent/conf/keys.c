/* keys.c - the table of keys.
 *
 * A new option of a module needs one line here and a paragraph in kvroute.yaml(5). Tests compare
 * this table with the manual and with doc/kvroute.yaml. Defaults belong to the modules and are read
 * from conf_defaults(). */
#include "agent/conf/keys.h"
#include "agent/conf/value.h"
#include "agent/route/sources.h"

#define KIB	1024.0
#define MIB	(1024 * KIB)
#define GIB	(1024 * MIB)
#define SEC	1000.0
#define MINUTE	(60 * SEC)
#define HOUR	(60 * MINUTE)

#define RELOAD	true
#define RESTART	false

#define FIELD(type, f)	offsetof(type, f), sizeof(((type *)0)->f)
#define CONF(f)		HOME_CONF, FIELD(struct conf, f)
#define LIST(f)		HOME_CONF, offsetof(struct conf, f), ADDR_MAX
#define POLICY(f)	HOME_POLICY, FIELD(struct pool_opts, policy.f)
#define POOL(f)		HOME_POLICY, FIELD(struct pool_opts, f)

/* In the order of enum loop_clock. */
static const char *const clock_words[] = { "monotonic", "message", NULL };

static const char *const level_words[] = { "error", "warn", "info", "debug", NULL };

static const char *const rule_words[] = {
#define X(name, word) #word,
	POLICY_RULE_LIST(X)
#undef X
	NULL
};

/* In the order of enum pool_mode. */
static const char *const mode_words[] = { "on", "shadow", "off", NULL };

/* In the order of enum model_mode, model_chat, model_transformers, model_special and
 * model_normalizer. */
static const char *const model_mode_words[] = { "text", "tokens", NULL };
static const char *const chat_words[] = { "auto", "harmony", "none", NULL };
static const char *const transformers_words[] = { "newest", "5.20", NULL };
static const char *const special_words[] = { "auto", "add", "none", NULL };
static const char *const normalizer_words[] = { "auto", "none", "nfc", NULL };

/* In the order of enum decisions_to. */
static const char *const decisions_words[] = { "local", "all", "none", NULL };

/* In the order of enum share_ready. */
static const char *const ready_words[] = { "warm", "always", NULL };

/* In the order of enum index_order. */
static const char *const eviction_words[] = { "lru", "lfu", "fifo", "mru", "filo", "priority",
	NULL };

const struct conf_key conf_keys[] = {
	{ "threads", TYPE_INT, CONF(loop.threads), 0, 64, RESTART,
	  .help = "Threads that answer HAProxy; 0: one for each CPU, at most 4." },
	{ "user", TYPE_NAME, CONF(loop.user), 0, NAME_CHARS_MAX - 1, RESTART,
	  .help = "User to change to once addresses are bound, if started by root; empty: no change." },
	{ "group", TYPE_NAME, CONF(loop.group), 0, NAME_CHARS_MAX - 1, RESTART,
	  .help = "Group to change to; empty: the group of user." },
	{ "state_dir", TYPE_PATH, CONF(loop.state_dir), 1, PATH_CHARS_MAX - 1, RESTART,
	  .help = "Directory of files that are kept over a restart: the key." },
	{ "key_file", TYPE_PATH, CONF(loop.key_file), 0, PATH_CHARS_MAX - 1, RESTART,
	  .help = "File of the key of all hashes, mode 0600; empty: \"key\" in state_dir." },
	{ "models_dir", TYPE_PATH, CONF(loop.models_dir), 1, PATH_CHARS_MAX - 1, RESTART,
	  .help = "Directory of the models' tokenizer files; none outside of it is read." },
	{ "clock", TYPE_WORD, CONF(loop.clock), 0, 0, RESTART, clock_words,
	  .help = "Source of time; \"message\": now_ms of each message, for simulations." },
	{ "log_level", TYPE_WORD, CONF(loop.log_level), 0, 0, RELOAD, level_words,
	  .help = "Least severe level that is logged." },
	{ "max_pools", TYPE_INT, CONF(route.max_pools), 1, CONF_POOLS_MAX, RELOAD,
	  .help = "Number of pools; requests of further pools get no server." },

	{ "spop.listen", TYPE_ADDRS, LIST(loop.spop), 1, LISTEN_MAX, RESTART, .optional = true,
	  .help = "Addresses that HAProxy's SPOE filter connects to." },
	{ "spop.socket_mode", TYPE_MODE, CONF(loop.socket_mode), 0, 0777, RESTART,
	  .help = "File mode of unix sockets." },
	{ "spop.max_connections", TYPE_INT, CONF(loop.max_connections), 1, 1000000, RELOAD,
	  .help = "SPOP connections open at once, all threads together." },
	{ "spop.max_bytes", TYPE_SIZE, CONF(loop.spop_max_bytes), 16 * MIB, 64 * GIB, RELOAD,
	  .help =
	  "Memory for buffers of all SPOP connections; if it is used up, long frames are not routed." },
	{ "spop.max_frame_size", TYPE_SIZE, CONF(loop.spop_conn.max_frame_size), SPOP_FRAME_MIN,
	  SPOP_FRAME_CEILING, RELOAD,
	  .help = "Largest frame accepted; must be at least HAProxy's tune.bufsize - 4." },
	{ "spop.max_joined", TYPE_SIZE, CONF(loop.spop_conn.max_joined), SPOP_FRAME_MIN, GIB,
	  RELOAD, .help = "Largest message joined from fragments; at least max_frame_size." },
	{ "spop.max_open", TYPE_INT, CONF(loop.spop_conn.max_open), 1, 4096, RELOAD,
	  .help = "Fragmented messages open at once on one connection." },
	{ "spop.send_buffer", TYPE_SIZE, CONF(loop.spop_send_buffer), 16 * KIB, 16 * MIB, RELOAD,
	  .help =
	  "Kernel buffer for ACKs that a peer does not read; if full, the peer is not read from." },
	{ "spop.hello_timeout", TYPE_TIME, CONF(loop.hello_timeout_ms), 10, HOUR, RELOAD,
	  .help = "A connection that sends no HELLO within this time is closed." },
	{ "spop.idle_timeout", TYPE_TIME, CONF(loop.idle_timeout_ms), SEC, 24 * HOUR, RELOAD,
	  .help = "A connection without a frame for this time is closed." },
	{ "spop.timeout_processing", TYPE_TIME, CONF(loop.timeout_processing_ms), 5, MINUTE, RELOAD,
	  .help = "HAProxy's timeout processing; after two fifths of it the answer is overload." },
	{ "spop.drain", TYPE_TIME, CONF(loop.drain_ms), 0, 10 * MINUTE, RELOAD,
	  .help = "Longest wait for open requests at SIGTERM." },

	{ "log_feed.tcp", TYPE_ADDRS, LIST(loop.log_tcp), 0, LISTEN_MAX, RESTART,
	  .help = "Addresses that HAProxy's ring sends log lines to, one JSON object per line." },
	{ "log_feed.udp", TYPE_ADDRS, LIST(loop.log_udp), 0, LISTEN_MAX, RESTART,
	  .help = "Addresses for log lines in UDP datagrams." },
	{ "log_feed.max_connections", TYPE_INT, CONF(loop.max_feeds), 1, 65536, RELOAD,
	  .help = "Log feed connections open at once." },
	{ "log_feed.token_file", TYPE_PATH, CONF(loop.feed_token_file), 0, PATH_CHARS_MAX - 1,
	  RESTART,
	  .help = "File of the token that log lines must carry, mode 0600; empty: none." },

	{ "metrics.listen", TYPE_ADDRS, LIST(loop.metrics), 0, LISTEN_MAX, RESTART,
	  .help = "HTTP addresses for /metrics, /decisions, /live and /ready." },

	{ "metrics.decisions", TYPE_WORD, CONF(loop.decisions_to), 0, 0, RELOAD, decisions_words,
	  .help = "Who may read /decisions there: this machine (local), all clients (all), or none." },

	{ "runtime.path", TYPE_PATH, CONF(loop.runtime_path), 0, 107, RESTART,
	  .help = "Unix socket for commands of an operator: kvroutectl -s; empty: none." },
	{ "runtime.mode", TYPE_MODE, CONF(loop.runtime_mode), 0, 0777, RESTART,
	  .help = "File mode of that socket; who may write to it may give all commands." },
	{ "runtime.group", TYPE_NAME, CONF(loop.runtime_group), 0, NAME_CHARS_MAX - 1, RESTART,
	  .help = "Group of that socket; empty: the group of the agent." },

	{ "stats_feed.sockets", TYPE_ADDRS, LIST(loop.stats), 0, LISTEN_MAX, RELOAD,
	  .help = "HAProxy's stats sockets, one per process, polled for the state of its servers." },
	{ "stats_feed.interval", TYPE_TIME, CONF(loop.stats_interval_ms), 50, 5 * SEC, RELOAD,
	  .help = "Time between polls; an answer is valid for three intervals." },
	{ "stats_feed.timeout", TYPE_TIME, CONF(loop.stats_timeout_ms), 10, MINUTE, RELOAD,
	  .help = "Longest wait for an answer." },

	{ "engine_feed.interval", TYPE_TIME, CONF(loop.engine_interval_ms), 50, 5 * SEC, RELOAD,
	  .help = "Time between polls of an engine's metrics; they are valid for three intervals." },
	{ "engine_feed.timeout", TYPE_TIME, CONF(loop.engine_timeout_ms), 10, MINUTE, RELOAD,
	  .help = "Longest wait for an answer." },

	{ "events.max_bytes", TYPE_SIZE, CONF(route.events_max_bytes), 0, 64 * GIB, RESTART,
	  .help = "Memory for the blocks that engines report in events; 0: no events are read." },

	{ "share.servers", TYPE_HOSTS, LIST(loop.share.servers), 0, STORE_SERVERS_MAX, RESTART,
	  .help = "All servers of one Valkey or Redis: primary and replicas, or a cluster; empty: none." },
	{ "share.cluster", TYPE_BOOL, CONF(loop.share.cluster), 0, 1, RESTART,
	  .help = "The servers are a cluster." },
	{ "share.fleet", TYPE_NAME, CONF(loop.share.fleet), 1, FLEET_NAME_MAX, RESTART,
	  .help = "Agents with the same fleet, key file and store share their state." },
	{ "share.user", TYPE_TEXT, CONF(loop.share.user), 0, NAME_CHARS_MAX - 1, RESTART,
	  .help = "User of the store; empty: its default user." },
	{ "share.password_file", TYPE_PATH, CONF(loop.share.password_file), 0, PATH_CHARS_MAX - 1,
	  RESTART, .help = "File of the user's password, mode 0600; empty: none." },
	{ "share.tls", TYPE_BOOL, CONF(loop.share.tls), 0, 1, RESTART,
	  .help = "Connect over TLS; needs hiredis 1.0 or later." },
	{ "share.tls_ca", TYPE_PATH, CONF(loop.share.tls_ca), 0, PATH_CHARS_MAX - 1, RESTART,
	  .help = "File of the authorities that may sign the store's certificate; empty: the system's." },
	{ "share.tls_cert", TYPE_PATH, CONF(loop.share.tls_cert), 0, PATH_CHARS_MAX - 1, RESTART,
	  .help = "File of the agent's own certificate; empty: none." },
	{ "share.tls_key", TYPE_PATH, CONF(loop.share.tls_key), 0, PATH_CHARS_MAX - 1, RESTART,
	  .help = "File of its private key." },
	{ "share.parts", TYPE_INT, CONF(loop.share.parts), 0, STORE_PARTS_MAX, RESTART,
	  .help = "Streams, the same number in each agent of the fleet; 0: 1, or 8 in a cluster." },
	{ "share.max_bytes", TYPE_SIZE, CONF(loop.share.max_bytes), MIB, 16 * GIB, RESTART,
	  .help = "Memory for what waits to be sent; if it is used up, the oldest is dropped." },
	{ "share.stream_entries", TYPE_INT, CONF(loop.share.stream_entries), 1000, 1e9, RESTART,
	  .help = "About as many batches of entries stay in each stream of the store." },
	{ "share.snapshot_every", TYPE_TIME, CONF(loop.share.snapshot_every_ms), 0, 24 * HOUR, RESTART,
	  .help = "Age at which the store's snapshot is replaced; 0: only if an agent starts." },
	{ "share.ready", TYPE_WORD, CONF(loop.share.ready), 0, 0, RESTART, ready_words,
	  .help = "When /ready says yes: with the state of the fleet (warm), or at once (always)." },
	{ "share.warm_timeout", TYPE_TIME, CONF(loop.share.warm_timeout_ms), 0, 10 * MINUTE, RESTART,
	  .help = "After this time /ready says yes in any case." },
	{ "share.timeout", TYPE_TIME, CONF(loop.share.timeout_ms), 50, MINUTE, RESTART,
	  .help = "Longest wait for an answer of the store, before another connection is tried." },
	{ "share.serve_snapshot", TYPE_BOOL, CONF(loop.share.serve_snapshot), 0, 1, RESTART,
	  .help = "Let siblings without a store read the index from the metrics listener." },
	{ "share.snapshot_from", TYPE_ADDRS, LIST(loop.share.snapshot_from), 0, LISTEN_MAX, RESTART,
	  .help = "Metrics listeners of siblings; without a store the index is read from the first." },
	{ "share.snapshot_from_every", TYPE_TIME, CONF(loop.share.snapshot_from_every_ms), SEC,
	  24 * HOUR, RESTART, .help = "Time between reading it." },

	{ "decisions.keep", TYPE_INT, CONF(route.decisions_keep), 0, 65536, RESTART,
	  .help = "Number of last decisions kept with their inputs, for /decisions; 0: none." },

	{ "prompt.text_page", TYPE_INT, CONF(route.prompt.text_page), 16, 256, RESTART,
	  .help = "Bytes in a page of text." },
	{ "prompt.page_size", TYPE_INT, CONF(route.prompt.token_page), 1, 512, RESTART,
	  .help = "Token ids in a page: the engine's block size." },
	{ "prompt.max_pages", TYPE_INT, CONF(route.prompt.max_pages), 1, 1 << 20, RESTART,
	  .help = "Pages of one prompt that are matched; the rest is ignored." },
	{ "prompt.max_depth", TYPE_INT, CONF(route.prompt.max_depth), 8, JSON_DEPTH_MAX, RESTART,
	  .help = "Deepest nesting of objects and lists in a body; a deeper body has no prompt." },

	{ "index.max_bytes", TYPE_SIZE, CONF(route.index.max_bytes), MIB, 63 * GIB, RESTART,
	  .help =
	  "Memory for the known contents of server caches, allocated at start; oldest evicted first." },
	{ "index.max_pages", TYPE_INT, CONF(route.index.max_pages), 1, 1 << 20, RESTART,
	  .help = "Pages of one prompt that are kept." },
	{ "index.shards", TYPE_INT, CONF(route.index.shards), 1, 64, RESTART,
	  .help = "Parts with a lock each, a power of two; fewer if one had less than 256 KiB." },
	{ "index.max_spaces", TYPE_INT, CONF(route.index.max_spaces), 1, 1 << 24, RESTART,
	  .help = "Spaces of one tenant; all tenants that are not listed count as one." },
	{ "index.reserve", TYPE_INT, CONF(route.index.reserve_percent), 1, 100, RESTART,
	  .help =
	  "Percent of max_bytes for prompts sent but not confirmed; beyond it the oldest are evicted." },
	{ "index.snapshot_file", TYPE_PATH, CONF(loop.snapshot_file), 0, PATH_CHARS_MAX - 1,
	  RESTART,
	  .help = "File that keeps the index over a restart; empty: none. Needs a permanent key." },
	{ "index.snapshot_every", TYPE_TIME, CONF(loop.snapshot_every_ms), 0, 168 * HOUR, RESTART,
	  .help = "Time between snapshots; 0: only at the end." },

	{ "record.file", TYPE_PATH, CONF(loop.record_file), 0, PATH_CHARS_MAX - 1, RESTART,
	  .help = "File for a recording of the traffic, without text, for kvroutectl sim; empty: none." },
	{ "record.max_bytes", TYPE_SIZE, CONF(loop.record_max_bytes), 64 * KIB, 64 * GIB, RESTART,
	  .help = "Size of the file at which the recording ends or continues in a new file." },
	{ "record.rotate", TYPE_BOOL, CONF(loop.record_rotate), 0, 1, RESTART,
	  .help = "Continue in a new file; the old file is kept as FILE.1." },
	{ "record.block_tokens", TYPE_INT, CONF(loop.record_block_tokens), 16, 4096, RESTART,
	  .help = "Tokens per block of the recording: fewer show more reuse and take more bytes." },

	{ "segment_cache.max_bytes", TYPE_SIZE, CONF(route.segcache_max_bytes), 0, 64 * GIB,
	  RESTART,
	  .help =
	  "Memory for token ids of text seen before, allocated with the first tokenizer; 0: none." },

	{ "heads.max_bytes", TYPE_SIZE, CONF(route.heads.max_bytes), 64 * KIB, 64 * GIB, RESTART,
	  .help = "Memory for heads (model, tools, system) that complete bodies cut short." },
	{ "heads.max_tenant_bytes", TYPE_SIZE, CONF(route.heads.max_tenant_bytes), 4 * KIB,
	  64 * GIB, RESTART, .help = "Memory for the heads of one tenant; at most max_bytes." },
	{ "heads.max_head_pages", TYPE_INT, CONF(route.heads.max_head_pages), 1, 1 << 20, RESTART,
	  .help = "Heads with more pages are not kept." },

	{ "sessions.max_bytes", TYPE_SIZE, CONF(route.sessions_max_bytes), 0, 64 * GIB, RESTART,
	  .help = "Memory for what each session's last turns left in which cache; 0: none." },
	{ "turns.max_bytes", TYPE_SIZE, CONF(route.turns.max_bytes), 0, 64 * GIB, RESTART,
	  .help = "Memory of earlier turns, so that only new bytes of a body are read; 0: none." },
	{ "turns.tenant_floor", TYPE_SIZE, CONF(route.turns.floor_bytes), 0, 64 * GIB, RESTART,
	  .help = "Bytes of a tenant that others hardly evict." },

	{ "slices.max_bytes", TYPE_SIZE, CONF(route.slices_max_bytes), MIB, 64 * GIB, RELOAD,
	  .help = "Memory for requests that wait for more slices of their body." },
	{ "slices.max_age", TYPE_TIME, CONF(route.slices_max_age_ms), 10, HOUR, RELOAD,
	  .help = "A request whose next slice does not arrive within this time is dropped." },

	{ "ledger.max_entries", TYPE_INT, CONF(route.ledger_max_entries), 16, 1 << 24, RELOAD,
	  .help = "Open requests in the ledger; beyond it the oldest is closed." },
	{ "ledger.max_age", TYPE_TIME, CONF(route.ledger_max_age_ms), SEC, 168 * HOUR, RELOAD,
	  .help = "A request whose end is not reported is closed after this time." },
	{ "ledger.max_silence", TYPE_TIME, CONF(route.ledger_max_silence_ms), SEC, 168 * HOUR,
	  RELOAD,
	  .help = "Open requests of a HAProxy process are closed after this time without a message." },

	{ "servers.max_age", TYPE_TIME, CONF(route.server_max_age_ms), SEC, 168 * HOUR, RELOAD,
	  .help = "A server that no load string names for this time is forgotten." },

	{ "problems.min_requests", TYPE_INT, CONF(route.problems.min_requests), 1, 1000000, RELOAD,
	  .help =
	  "A fault in HAProxy's configuration is reported after at least this many requests, and" },
	{ "problems.window", TYPE_TIME, CONF(route.problems.window_ms), 100, HOUR, RELOAD,
	  .help = "after at least this time." },
	{ "problems.repeat", TYPE_TIME, CONF(route.problems.repeat_ms), SEC, 168 * HOUR, RELOAD,
	  .help = "Time between log lines about a fault that lasts." },

	{ "policy.rule", TYPE_WORD, POLICY(rule), 0, 0, RELOAD, rule_words,
	  .help = "Rule that chooses a server; naming it sets its authors' defaults." },
	{ "policy.mode", TYPE_WORD, POOL(mode), 0, 0, RELOAD, mode_words,
	  .help = "on: route; shadow: decide and record, but name no server; off: do nothing." },
	{ "policy.compare", TYPE_WORDS, POOL(compare), 0, COMPARE_MAX, RELOAD, rule_words,
	  .help = "Rules evaluated beside the active one: kvroute_compare_* and /decisions." },
	{ "policy.balance_abs_threshold", TYPE_INT, POLICY(balance_abs_threshold), 0, 1000000,
	  RELOAD, .help = "Imbalanced when the loads differ by more requests than this, and" },
	{ "policy.balance_rel_threshold", TYPE_NUMBER, POLICY(balance_rel_threshold), 1, 1000,
	  RELOAD, .help = "when the largest load is more than this many times the smallest." },
	{ "policy.cache_threshold", TYPE_NUMBER, POLICY(cache_threshold), 0, 1, RELOAD,
	  .help = "Rules with a threshold: share of the prompt that a match must exceed." },
	{ "policy.rule_max_bytes", TYPE_SIZE, POLICY(rule_max_bytes), 64 * KIB, 16 * GIB, RELOAD,
	  .help = "Memory of the pool's rule, if it keeps state of its own." },
	{ "policy.load_factor", TYPE_NUMBER, POLICY(load_factor), 1, 1000, RELOAD,
	  .help =
	  "block_tracker, prefix_hash, chwbl: largest load of a server, as a multiple of the mean." },
	{ "policy.max_blocks_per_backend", TYPE_INT, POLICY(max_blocks_per_backend), 1, 1 << 30,
	  RELOAD,
	  .help = "block_tracker, gaie: blocks remembered of one server; aibrix: of all servers." },
	{ "policy.max_prefix_blocks", TYPE_INT, POLICY(max_prefix_blocks), 0, 1 << 20, RELOAD,
	  .help = "gaie: blocks of a prompt that are matched; 0: all." },
	{ "policy.rule_eviction_interval", TYPE_TIME, POLICY(rule_eviction_interval_ms), 0,
	  24 * HOUR, RELOAD,
	  .help = "block_tracker: time between evictions down to that; 0: with every request." },
	{ "policy.session_ttl", TYPE_TIME, POLICY(session_ttl_ms), SEC, 168 * HOUR, RELOAD,
	  .help = "sticky_least_loaded: a session without a request for this time ends." },
	{ "policy.speculative_ttl", TYPE_TIME, POLICY(speculative_ttl_ms), 0, HOUR, RELOAD,
	  .help =
	  "kv_aware: a prompt that was sent counts as cached for this time, whatever events say." },
	{ "policy.ttft_slo", TYPE_TIME, POLICY(ttft_slo_ms), 0, HOUR, RELOAD,
	  .help = "smetric: target time to first token," },
	{ "policy.ttft_slo_per_1k_ms", TYPE_NUMBER, POLICY(ttft_slo_per_1k_ms), 0, 60000, RELOAD,
	  .help = "plus this many milliseconds for each 1000 tokens of the prompt." },
	{ "policy.min_match_tokens", TYPE_INT, POLICY(min_match_tokens), 0, 1 << 24, RELOAD,
	  .help = "cache_aware, prefixaware: fewest tokens of a match." },
	{ "policy.prefill_tokens_per_s", TYPE_NUMBER, POLICY(prefill_tokens_per_s), 1, 1e9, RELOAD,
	  .help = "cost: prompt tokens that one server computes per second; too low is safe." },
	{ "policy.learn_rate", TYPE_BOOL, POLICY(learn_rate), 0, 1, RELOAD,
	  .help = "Learn prefill_tokens_per_s of each server from its times to first token." },
	{ "policy.attention_factor", TYPE_NUMBER, POLICY(attention_factor), 0, 1, RELOAD,
	  .help = "cost: additional seconds for each token squared." },
	{ "policy.load_ms", TYPE_NUMBER, POLICY(load_ms), 0, 60000, RELOAD,
	  .help = "cost: milliseconds added for each open request of a server." },
	{ "policy.adapter_ms", TYPE_NUMBER, POLICY(adapter_ms), 0, 600000, RELOAD,
	  .help = "cost: milliseconds added for loading the LoRA adapter, if other servers have it." },
	{ "policy.sacrifice_min", TYPE_NUMBER, POLICY(sacrifice_min), 0, 1000, RELOAD,
	  .help = "cost: weight of computing against waiting, on an idle pool," },
	{ "policy.sacrifice_gain", TYPE_NUMBER, POLICY(sacrifice_gain), 0, 1000, RELOAD,
	  .help = "its growth with the pressure, if only ends of requests are known," },
	{ "policy.sacrifice_firsts", TYPE_NUMBER, POLICY(sacrifice_firsts), 0, 1000, RELOAD,
	  .help =
	  "or with pressure x w / (1 - w), if first tokens are known (w: share of servers with queues)," },
	{ "policy.sacrifice_max", TYPE_NUMBER, POLICY(sacrifice_max), 0, 1000, RELOAD,
	  .help = "and its maximum; at least sacrifice_min." },
	{ "policy.copy_share", TYPE_NUMBER, POLICY(copy_share), 0, 1, RELOAD,
	  .help = "cost: share of the cost of one more copy of a popular prefix that still counts." },
	{ "policy.kv_ms", TYPE_NUMBER, POLICY(kv_ms), 0, 600000, RELOAD,
	  .help = "cost: milliseconds added if open requests fill a server's cache," },
	{ "policy.kv_share", TYPE_NUMBER, POLICY(kv_share), 0, 1000, RELOAD,
	  .help = "times the part of the cache that they fill above this share." },
	{ "policy.host_weight", TYPE_NUMBER, POLICY(host_weight), 0, 1, RELOAD,
	  .help = "Share of a cached token that one in the host's memory is worth," },
	{ "policy.disk_weight", TYPE_NUMBER, POLICY(disk_weight), 0, 1, RELOAD,
	  .help = "one on its disk," },
	{ "policy.remote_weight", TYPE_NUMBER, POLICY(remote_weight), 0, 1, RELOAD,
	  .help = "and one in remote storage or an unknown place." },
	{ "policy.host_tokens_per_s", TYPE_NUMBER, POLICY(host_tokens_per_s), 0, 1e9, RELOAD,
	  .help = "cost: tokens loaded per second from host memory; 0: host_weight counts instead." },
	{ "policy.disk_tokens_per_s", TYPE_NUMBER, POLICY(disk_tokens_per_s), 0, 1e9, RELOAD,
	  .help = "cost: tokens loaded per second from disk; 0: disk_weight counts instead." },
	{ "policy.backlog_floor", TYPE_NUMBER, POLICY(backlog_floor), 0, 1, RELOAD,
	  .help = "cost: share of unfinished work that counts as waiting, if first tokens are not seen." },
	{ "policy.penalty_half_life", TYPE_TIME, POLICY(penalty_half_life_ms), 100, HOUR, RELOAD,
	  .help =
	  "Time in which a penalty halves; a server that fails always gets one request per such time." },
	{ "policy.penalty_failure", TYPE_NUMBER, POLICY(penalty_failure), 0, 16, RELOAD,
	  .help = "Load, in requests, that a failure adds (5xx, refused, broken off); 0: none." },
	{ "policy.penalty_429", TYPE_NUMBER, POLICY(penalty_429), 0, 16, RELOAD,
	  .help = "Load, in requests, that an answer of 429 adds." },
	{ "policy.prefill_least", TYPE_INT, POLICY(prefill_least), 1, 1 << 24, RELOAD,
	  .help = "pools.prefill: fewest tokens that are not cached to be computed elsewhere." },
	{ "policy.transfer_ms", TYPE_NUMBER, POLICY(transfer_ms), 0, 60000, RELOAD,
	  .help = "pools.prefill: milliseconds to transfer a computed prompt," },
	{ "policy.transfer_per_1k_ms", TYPE_NUMBER, POLICY(transfer_per_1k_ms), 0, 60000, RELOAD,
	  .help = "plus these for each 1000 tokens that the server does not have." },
	{ "policy.learn_transfer", TYPE_BOOL, POLICY(learn_transfer), 0, 1, RELOAD,
	  .help = "Correct both by the times to first token." },
	{ "policy.stall", TYPE_NUMBER, POLICY(stall), 0, 100, RELOAD,
	  .help = "pools.prefill: cost of delaying one running answer, as a share of the delay." },
	{ "policy.isolate_tenants", TYPE_BOOL, POOL(isolate_tenants), 0, 1, RELOAD,
	  .help = "Tenants never share cache and never learn what others have cached." },
	{ "policy.model", TYPE_TEXT, POOL(model), 0, PROMPT_NAME_MAX, RELOAD,
	  .help = "The only model of the pool, whatever bodies name; empty: the model that bodies name." },

	{ "policy.eviction", TYPE_WORD, POOL(eviction), 0, 0, RELOAD, eviction_words,
	  .help = "Order in which engines evict from a full cache; applies to servers not seen yet." },
	{ "policy.capacity", TYPE_INT, POOL(capacity), 0, 1e12, RELOAD,
	  .help = "Cache size of one server in tokens; 0: reported by its engine, or inferred." },
	{ "policy.capacity_guess", TYPE_INT, POOL(capacity_guess), 0, 1e12, RELOAD,
	  .help = "Cache size assumed until it is known; 0: no limit but index.max_bytes." },
	{ "policy.block_size", TYPE_INT, POOL(block_size), 0, 65536, RELOAD,
	  .help = "Tokens of a cache block of its engines; 0: reported by them." },
	{ "policy.max_tree_size", TYPE_INT, POOL(max_tree_size), 0, 1e12, RELOAD,
	  .help = "As in SGLang's router: characters of prompts kept of one server; 0: no limit." },
	{ "policy.eviction_interval", TYPE_TIME, POOL(eviction_interval_ms), 0, 24 * HOUR, RELOAD,
	  .help = "As in SGLang's router: time between evictions down to max_tree_size; 0: at once." },

	{ "pools.name", TYPE_NAME, HOME_POOL, FIELD(struct pool_opts, name), 1, POOL_NAME_MAX,
	  RELOAD, .help = "Name of the HAProxy backend; \"*\": every backend not listed." },
	{ "pools.prefill", TYPE_NAME, HOME_POOL, FIELD(struct pool_opts, prefill), 0, POOL_NAME_MAX,
	  RELOAD, .help = "Another pool, whose servers compute long prompts for this one; empty: none." },

	{ "models.name", TYPE_TEXT, HOME_MODEL, FIELD(struct model_opts, name), 1, PROMPT_NAME_MAX,
	  RELOAD,
	  .help =
	  "Name of the model in requests; \"*\" in it matches any text, alone every other model." },
	{ "models.aliases", TYPE_NAMES, HOME_MODEL, FIELD(struct model_opts, aliases), 0,
	  MODEL_ALIASES_MAX, RELOAD,
	  .help = "Other names of the same model: all names share its cache." },
	{ "models.adapters", TYPE_NAMES, HOME_MODEL, FIELD(struct model_opts, adapters), 0,
	  MODEL_ALIASES_MAX, RELOAD, .optional = true,
	  .help = "LoRA adapters that requests name as model: same tokens, but a cache of their own." },
	{ "models.text_order", TYPE_ORDER, HOME_MODEL, FIELD(struct model_opts, text_order),
	  TEXT_PARTS, TEXT_PARTS, RELOAD,
	  .help = "The order in which the model's chat template writes the parts of a prompt." },
	{ "models.mode", TYPE_WORD, HOME_MODEL, FIELD(struct model_opts, mode), 0, 0, RELOAD,
	  model_mode_words,
	  .help = "Kind of pages: of text, or of tokens by the model's tokenizer." },
	{ "models.tokenizer", TYPE_FILE, HOME_MODEL, FIELD(struct model_opts, tokenizer), 0,
	  MODEL_PATH_MAX, RELOAD,
	  .help = "Path below models_dir: tokenizer.json, tekken.json, a SentencePiece model or ranks." },
	{ "models.tokenizer_config", TYPE_FILE, HOME_MODEL,
	  FIELD(struct model_opts, tokenizer_config), 0, MODEL_PATH_MAX, RELOAD,
	  .help =
	  "Path; empty: tokenizer_config.json beside the tokenizer, if it exists; none: no file." },
	{ "models.pattern", TYPE_TEXT, HOME_MODEL, FIELD(struct model_opts, pattern), 0,
	  MODEL_PATTERN_MAX, RELOAD,
	  .help =
	         "Text splitting of a rank file: cl100k, o200k, kimi, qwen, gpt2 or a regular "
	         "expression." },
	{ "models.normalizer", TYPE_WORD, HOME_MODEL, FIELD(struct model_opts, normalizer), 0, 0,
	  RELOAD, normalizer_words,
	  .help = "Unicode normalization before a rank file is used; auto: from the pattern's name." },
	{ "models.block_size", TYPE_INT, HOME_MODEL, FIELD(struct model_opts, block_size), 0, 512,
	  RELOAD, .help = "Token ids in a page: the engine's block size; 0: prompt.page_size." },
	{ "models.special_tokens", TYPE_WORD, HOME_MODEL, FIELD(struct model_opts, special), 0, 0,
	  RELOAD, special_words,
	  .help = "Add BOS and EOS to completions; auto: as body and tokenizer say." },
	{ "models.chat", TYPE_WORD, HOME_MODEL, FIELD(struct model_opts, chat_by), 0, 0, RELOAD,
	  chat_words,
	  .help = "How conversations become text; auto: by the chat template; harmony: as for gpt-oss." },
	{ "models.transformers", TYPE_WORD, HOME_MODEL, FIELD(struct model_opts, transformers), 0,
	  0, RELOAD, transformers_words,
	  .help = "The engine's version of transformers: newest, or 5.20 for 5.20 and older." },
	{ "models.chat_template", TYPE_FILE, HOME_MODEL, FIELD(struct model_opts, chat_template), 0,
	  MODEL_PATH_MAX, RELOAD,
	  .help = "Path; empty: chat_template.jinja beside the tokenizer, or that of tokenizer_config." },

	{ "tenants.name", TYPE_TEXT, HOME_TENANT, FIELD(struct tenant_opts, name), 1,
	  TENANT_NAME_MAX, RELOAD,
	  .help = "Name of the tenant as HAProxy sends it; \"*\": all tenants not listed, together." },
	{ "tenants.index_floor", TYPE_SIZE, HOME_TENANT, FIELD(struct tenant_opts, index_floor), 0,
	  63 * GIB, RELOAD, .help = "Bytes of the index that other tenants cannot evict." },

	{ "engines.name", TYPE_NAME, HOME_ENGINE, FIELD(struct engine_opts, name), 1,
	  SERVER_NAME_MAX, RELOAD,
	  .help = "Name of the server in HAProxy; \"*\": every server of the pool not listed." },
	{ "engines.pool", TYPE_NAME, HOME_ENGINE, FIELD(struct engine_opts, pool), 1, POOL_NAME_MAX,
	  RELOAD, .help = "Name of its HAProxy backend." },
	{ "engines.metrics", TYPE_URL, HOME_ENGINE, FIELD(struct engine_opts, metrics), 0,
	  ENGINE_URL_MAX, RELOAD,
	  .help = "HTTP address of its metrics; default path: /metrics; empty: they are not read." },
	{ "engines.load", TYPE_ENDPOINT, HOME_ENGINE, FIELD(struct engine_opts, load), 0,
	  ENGINE_URL_MAX, RELOAD,
	  .help = "Where SGLang publishes its load, rank 0; empty: it does not." },
	{ "engines.events.endpoint", TYPE_ENDPOINT, HOME_ENGINE,
	  FIELD(struct engine_opts, events.endpoint), 0, ENGINE_URL_MAX, RELOAD, .optional = true,
	  .help = "Where it publishes KV cache events, rank 0; auto: it is asked; empty: not read." },
	{ "engines.events.replay", TYPE_ENDPOINT, HOME_ENGINE,
	  FIELD(struct engine_opts, events.replay), 0, ENGINE_URL_MAX, RELOAD,
	  .help = "Where it replays lost events, of rank 0; empty: it does not." },
	{ "engines.events.topic", TYPE_TEXT, HOME_ENGINE,
	  FIELD(struct engine_opts, events.topic), 0,
	  sizeof(((struct engine_events_opts *)0)->topic) - 1, RELOAD,
	  .help = "Start of the topics to read; empty: all." },
	{ "engines.events.ranks", TYPE_INT, HOME_ENGINE, FIELD(struct engine_opts, events.ranks),
	  0, SOURCE_RANKS_MAX, RELOAD,
	  .help = "Ranks of data parallelism; rank r has port + r; 0: as it reports, or 1." },
	{ "engines.events.expire", TYPE_TIME, HOME_ENGINE, FIELD(struct engine_opts, events.expire_ms),
	  0, 168 * HOUR, RELOAD,
	  .help = "Life of blocks outside the device if their removal is not reported; 0: without end." },
};

const size_t conf_n_keys = sizeof(conf_keys) / sizeof(*conf_keys);
_Static_assert(sizeof(conf_keys) / sizeof(*conf_keys) <= CONF_KEYS_MAX, "raise CONF_KEYS_MAX");

const struct conf_section conf_sections[] = {
	{ "spop", SHAPE_KEYS, "Connections from HAProxy's SPOE filter." },
	{ "log_feed", SHAPE_KEYS, "HAProxy's log lines: how each request ended." },
	{ "metrics", SHAPE_KEYS, "HTTP listener for Prometheus and health checks." },
	{ "runtime", SHAPE_KEYS, "Socket for commands of an operator: kvroutectl(8), RUNTIME SOCKET." },
	{ "stats_feed", SHAPE_KEYS,
		"HAProxy's stats sockets: drain, maintenance, and the load of servers." },
	{ "engine_feed", SHAPE_KEYS, "Metrics of the engines listed under engines." },
	{ "events", SHAPE_KEYS, "KV cache events of the engines listed under engines." },
	{ "share", SHAPE_KEYS, "State shared with the other agents of a fleet, through Valkey or Redis." },
	{ "decisions", SHAPE_KEYS, "Decisions kept for kvroutectl why." },
	{ "prompt", SHAPE_KEYS, "How request bodies become pages." },
	{ "index", SHAPE_KEYS, "Which server holds which pages." },
	{ "record", SHAPE_KEYS, "Traffic recorded for kvroutectl sim." },
	{ "segment_cache", SHAPE_KEYS, "Token ids of text seen before." },
	{ "heads", SHAPE_KEYS, "Heads remembered for bodies that are cut before model and tools." },
	{ "sessions", SHAPE_KEYS, "Where sessions have their cache." },
	{ "turns", SHAPE_KEYS, "Where the bytes of a conversation's bodies agree." },
	{ "slices", SHAPE_KEYS, "Bodies that arrive in several messages." },
	{ "ledger", SHAPE_KEYS, "Open requests." },
	{ "servers", SHAPE_KEYS, "Servers, as HAProxy's load strings name them." },
	{ "problems", SHAPE_KEYS, "Faults in HAProxy's configuration: kvroute(8), PROBLEMS." },
	{ "policy", SHAPE_POLICY, "How servers are chosen; each pool may set its own values." },
	{ "pools", SHAPE_POOLS,
	  "Pools with settings of their own: a name and any key of policy; default: as in policy.\n"
	  "  - name: chat\n"
	  "    rule: cache_aware" },
	{ "models", SHAPE_MODELS,
	  "Models with settings of their own; \"*\" is every model not named.\n"
	  "  - name: acme/chat-70b\n"
	  "    aliases: [chat, gpt-4o]\n"
	  "    mode: tokens\n"
	  "    tokenizer: acme/chat-70b/tokenizer.json\n"
	  "    block_size: 16" },
	{ "tenants", SHAPE_TENANTS,
	  "Tenants with settings of their own; \"*\" is all tenants not named, together.\n"
	  "  - name: acme\n"
	  "    index_floor: 32 MiB" },
	{ "engines", SHAPE_ENGINES,
	  "Engines whose metrics or KV cache events are read: vLLM, SGLang, TensorRT-LLM.\n"
	  "  - name: gpu1\n"
	  "    pool: chat\n"
	  "    metrics: 10.0.0.1:8000\n"
	  "  - name: \"*\"\n"
	  "    pool: chat\n"
	  "    metrics: \"{address}:{port}\"\n"
	  "    events:\n"
	  "      endpoint: \"tcp://{address}:5557\"\n"
	  "      replay: \"tcp://{address}:5558\"" },
};

_Static_assert(sizeof(conf_sections) / sizeof(*conf_sections) <= CONF_SECTIONS_MAX,
	       "raise CONF_SECTIONS_MAX");

const size_t conf_n_sections = sizeof(conf_sections) / sizeof(*conf_sections);

const char *conf_key_word(const struct conf_key *k)
{
	const char *point = strrchr(k->name, '.');

	return point != NULL ? point + 1 : k->name;
}

struct span conf_key_group(const struct conf_key *k)
{
	const char *first = strchr(k->name, '.'), *last = strrchr(k->name, '.');

	return first == last ? SPAN("") : span_of(first + 1, (size_t)(last - first - 1));
}

const char *conf_section_name(const struct conf_section *s)
{
	return s != NULL ? s->name : "";
}

bool conf_key_in(const struct conf_key *k, const struct conf_section *s)
{
	const char *point = strchr(k->name, '.');
	size_t n = point != NULL ? (size_t)(point - k->name) : 0;

	if (s != NULL && s->shape == SHAPE_POOLS && k->home == HOME_POLICY)
		return true;
	return span_eq(span_of(k->name, n), span_str(conf_section_name(s)));
}

int conf_key_find(const struct conf_section *s, struct span group, struct span word)
{
	for (size_t i = 0; i < conf_n_keys; i++)
		if (conf_key_in(&conf_keys[i], s) &&
		    span_eq(conf_key_group(&conf_keys[i]), group) &&
		    span_eq(span_str(conf_key_word(&conf_keys[i])), word))
			return (int)i;
	return -1;
}

bool conf_group_in(const struct conf_section *s, struct span name)
{
	for (size_t i = 0; i < conf_n_keys; i++)
		if (name.n > 0 && conf_key_in(&conf_keys[i], s) &&
		    span_eq(conf_key_group(&conf_keys[i]), name))
			return true;
	return false;
}

int conf_section_find(struct span word)
{
	for (size_t i = 0; i < conf_n_sections; i++)
		if (span_eq(span_str(conf_sections[i].name), word))
			return (int)i;
	return -1;
}

const void *conf_key_home(const struct conf_key *k, const struct conf *c)
{
	switch (k->home) {
	case HOME_POLICY:
	case HOME_POOL:
		return &c->route.pool_default;
	case HOME_MODEL:
		return &c->route.model_default;
	case HOME_TENANT:
		return &c->route.tenant_default;
	case HOME_ENGINE:
		return &c->loop.engine_default;
	case HOME_CONF:
		break;
	}
	return c;
}
