/* metric_list.h - every metric: name, kind, unit, labels, stability, help.
 *
 *     METRIC(name, KIND, "unit", "label,label", STABILITY, "help")
 *
 * The one place that describes metrics. metric_table.h makes an enum and a table of it, for
 * /metrics; doc/metrics.py makes the list in kvroute(8), the dashboard and the alert rules in
 * doc/monitoring, and their tests. So it has comments and entries only, and is included where
 * METRIC is defined.
 *
 *     name        without "kvroute_"; a counter ends with "_total", and a unit ends the name
 *     labels      in the order of the page; a histogram has "le" besides
 *     STABLE      its name, labels and meaning change with a major version only
 *     INTERNAL    a figure of the present implementation; may change with any version */

/* ---- the process, SPOP threads, listeners, polls: metrics.c */

METRIC(spop_frames_total, COUNTER, "", "", STABLE,
	"SPOP frames received.")
METRIC(spop_notifies_total, COUNTER, "", "", STABLE,
	"NOTIFYs received, whole or joined from fragments.")
METRIC(spop_acks_total, COUNTER, "", "", STABLE,
	"ACKs written, one for each NOTIFY.")
METRIC(spop_messages_total, COUNTER, "", "", STABLE,
	"Messages in NOTIFYs.")
METRIC(spop_messages_unknown_total, COUNTER, "", "", STABLE,
	"Messages with an unknown name.")
METRIC(spop_args_bad_total, COUNTER, "", "", STABLE,
	"NOTIFYs with invalid messages, or with more than 16.")
METRIC(spop_lost_total, COUNTER, "", "", INTERNAL,
	"NOTIFYs answered without routing, because there was no memory to hold them.")
METRIC(spop_uncompared_total, COUNTER, "", "", INTERNAL,
	"Late requests decided without the rules of policy.compare.")
METRIC(spop_hurried_total, COUNTER, "", "", STABLE,
	"Late requests decided from cheap information only.")
METRIC(spop_hellos_total, COUNTER, "", "", STABLE,
	"Handshakes.")
METRIC(spop_healthchecks_total, COUNTER, "", "", STABLE,
	"Health checks answered.")
METRIC(spop_aborts_total, COUNTER, "", "", STABLE,
	"Fragmented NOTIFYs that HAProxy aborted.")
METRIC(spop_fragments_total, COUNTER, "", "", STABLE,
	"Fragments received.")
METRIC(spop_closed_by_peer_total, COUNTER, "", "", STABLE,
	"Connections that HAProxy ended with a DISCONNECT.")
METRIC(spop_connections, GAUGE, "", "", STABLE,
	"Open SPOP connections.")
METRIC(spop_accepted_total, COUNTER, "", "", STABLE,
	"SPOP connections accepted.")
METRIC(spop_accept_errors_total, COUNTER, "", "", STABLE,
	"Failed accepts of SPOP connections, usually because file descriptors ran out.")
METRIC(spop_refused_total, COUNTER, "", "reason", STABLE,
	"SPOP connections refused, by reason.")
METRIC(spop_closed_total, COUNTER, "", "reason", STABLE,
	"SPOP connections closed: by HAProxy with a DISCONNECT (peer, also health checks) or "
	"without (eof), or by the agent.")
METRIC(spop_received_bytes_total, COUNTER, "bytes", "", STABLE,
	"Bytes from HAProxy.")
METRIC(spop_sent_bytes_total, COUNTER, "bytes", "", STABLE,
	"Bytes to HAProxy.")
METRIC(spop_writes_total, COUNTER, "", "", INTERNAL,
	"System calls that wrote answers.")
METRIC(spop_paused_total, COUNTER, "", "", INTERNAL,
	"Times reading from a peer stopped because it did not read its answers.")
METRIC(spop_buffer_bytes, GAUGE, "bytes", "", INTERNAL,
	"Memory used by buffers of SPOP connections.")
METRIC(spop_buffer_limit_bytes, GAUGE, "bytes", "", INTERNAL,
	"Memory limit of these buffers.")
METRIC(spop_buffer_refused_total, COUNTER, "", "kind", INTERNAL,
	"Buffers refused because of the limit: the first of a connection, or a larger one.")
METRIC(feed_connections, GAUGE, "", "", STABLE,
	"Open log feed connections.")
METRIC(feed_accepted_total, COUNTER, "", "", STABLE,
	"Log feed connections accepted.")
METRIC(feed_accept_errors_total, COUNTER, "", "", STABLE,
	"Failed accepts of log feed connections, usually because file descriptors ran out.")
METRIC(feed_refused_total, COUNTER, "", "", STABLE,
	"Log feed connections refused because of log_feed.max_connections.")
METRIC(feed_pushed_out_total, COUNTER, "", "", STABLE,
	"Log feed connections without an accepted line that were closed for new ones.")
METRIC(feed_lines_total, COUNTER, "", "result", STABLE,
	"Lines of the log feed: taken, invalid (bad), without JSON (other: HAProxy's notices, "
	"other logs), too long.")
METRIC(facts_refused_total, COUNTER, "", "reason", STABLE,
	"Lines of the log feed rejected because of their token.")
METRIC(feed_datagrams_total, COUNTER, "", "", STABLE,
	"Datagrams of the log feed.")
METRIC(feed_udp_dropped_total, COUNTER, "", "", STABLE,
	"Datagrams of the log feed that the kernel dropped because its buffer was full.")
METRIC(feed_received_bytes_total, COUNTER, "bytes", "", STABLE,
	"Bytes of the log feed.")
METRIC(http_requests_total, COUNTER, "", "result", STABLE,
	"Requests to the metrics listener, by result.")
METRIC(http_accept_errors_total, COUNTER, "", "", STABLE,
	"Failed accepts of connections to the metrics listener.")
METRIC(stats_sockets, GAUGE, "", "", STABLE,
	"Stats sockets of HAProxy that are polled.")
METRIC(stats_polls_total, COUNTER, "", "result", STABLE,
	"Polls of stats sockets: answered, no answer in time (unreachable), invalid answer (bad).")
METRIC(stats_rows_total, COUNTER, "", "result", STABLE,
	"Rows of servers in the answers of stats sockets.")
METRIC(stats_received_bytes_total, COUNTER, "bytes", "", STABLE,
	"Bytes of the answers of stats sockets.")
METRIC(engines, GAUGE, "", "", STABLE,
	"Engines whose metrics are polled.")
METRIC(engine_polls_total, COUNTER, "", "result", STABLE,
	"Polls of engines: answered, no answer in time (unreachable), invalid answer (bad).")
METRIC(engine_lines_bad_total, COUNTER, "", "", STABLE,
	"Invalid lines in the metrics of engines.")
METRIC(engine_received_bytes_total, COUNTER, "bytes", "", STABLE,
	"Bytes of the metrics of engines.")
METRIC(spop_disconnects_total, COUNTER, "", "status", STABLE,
	"SPOP connections closed by the agent because of a protocol error, by SPOP status.")
METRIC(decision_seconds, HISTOGRAM, "seconds", "", STABLE,
	"Time of route messages in the agent: from frame to ACK, and to store the decision after it.")
METRIC(thread_connections, GAUGE, "", "thread", INTERNAL,
	"Open SPOP connections, by thread.")
METRIC(sandbox_refused_total, COUNTER, "", "process", STABLE,
	"System calls that the sandbox refused; the agent needs none of them.")
METRIC(sandbox, GAUGE, "", "part", STABLE,
	"1: this part of the sandbox is active.")
METRIC(build_info, GAUGE, "", "version", STABLE,
	"1, with the version.")
METRIC(ready, GAUGE, "", "", STABLE,
	"1: all listeners are open, and the agent is not draining.")
METRIC(process_start_time_seconds, GAUGE, "seconds", "", STABLE,
	"Start time of the process, in seconds since 1970.")
METRIC(process_cpu_seconds_total, COUNTER, "seconds", "", STABLE,
	"CPU time of all threads.")
METRIC(process_resident_memory_bytes, GAUGE, "bytes", "", STABLE,
	"Resident memory.")
METRIC(process_open_fds, GAUGE, "", "", STABLE,
	"Open file descriptors.")
METRIC(process_max_fds, GAUGE, "", "", STABLE,
	"Limit of open file descriptors.")
METRIC(log_lines_lost_total, COUNTER, "", "", STABLE,
	"Log lines dropped because standard error was not ready.")
METRIC(snapshot_written_total, COUNTER, "", "", STABLE,
	"Snapshots written.")
METRIC(snapshot_failed_total, COUNTER, "", "", STABLE,
	"Snapshots that could not be written.")
METRIC(snapshot_bytes, GAUGE, "bytes", "", STABLE,
	"Size of the last snapshot written.")
METRIC(snapshot_loaded_pages, GAUGE, "", "", STABLE,
	"Pages loaded from the snapshot at the start.")
METRIC(snapshot_age_seconds, GAUGE, "seconds", "", STABLE,
	"Time since the last snapshot was written.")
METRIC(sibling_snapshots_total, COUNTER, "", "result", STABLE,
	"Snapshots of siblings (share.snapshot_from): loaded, or failed to be.")
METRIC(sibling_snapshot_bytes, GAUGE, "bytes", "", STABLE,
	"Size of the last one that was loaded.")
METRIC(record_requests_total, COUNTER, "", "", STABLE,
	"Requests written to the recording.")
METRIC(record_dropped_total, COUNTER, "", "", STABLE,
	"Decisions and facts not recorded because the queue was full.")
METRIC(record_bytes, GAUGE, "bytes", "", STABLE,
	"Size of the recording's file.")
METRIC(record_ended, GAUGE, "", "", STABLE,
	"1: the recording ended, because its file is full or could not be written.")
METRIC(tokenizer_bytes, GAUGE, "bytes", "model", STABLE,
	"Memory of a model's tokenizer; models with the same files share it.")
METRIC(tokenizer_load_seconds, GAUGE, "seconds", "model,source", STABLE,
	"Load time of the tokenizer, from its files or from its compiled image.")
METRIC(stats_answer_seconds_total, COUNTER, "seconds", "", STABLE,
	"Total time of answered polls.")
METRIC(engine_answer_seconds_total, COUNTER, "seconds", "", STABLE,
	"Total time of answered polls.")

/* ---- requests, index, decisions: metrics_core.c */

METRIC(requests_total, COUNTER, "", "", STABLE,
	"Requests: route messages with seq 0.")
METRIC(slices_total, COUNTER, "", "", STABLE,
	"Slices of a body after the first.")
METRIC(bodies_cut_total, COUNTER, "", "", STABLE,
	"Bodies of which only a part was seen.")
METRIC(bodies_cut_recalled_total, COUNTER, "", "", STABLE,
	"Cut bodies completed by a head remembered from an earlier body.")
METRIC(models_asked_total, COUNTER, "", "from", STABLE,
	"Messages that ask for the model before a pool is chosen, by the source of the answer.")
METRIC(models_scans_total, COUNTER, "", "used", INTERNAL,
	"Bodies read for the model, by whether the route message reused that reading.")
METRIC(loads_bad_total, COUNTER, "", "", STABLE,
	"Load strings with an invalid entry.")
METRIC(slices_waiting, GAUGE, "", "", STABLE,
	"Requests that wait for more slices.")
METRIC(slices_waiting_bytes, GAUGE, "bytes", "", STABLE,
	"Memory of requests that wait for slices.")
METRIC(slices_lost_total, COUNTER, "", "reason", INTERNAL,
	"Requests dropped while they waited for slices, by reason.")
METRIC(slices_again_total, COUNTER, "", "", INTERNAL,
	"Requests that restarted with the uid of one that waited for slices.")
METRIC(slices_repeated_total, COUNTER, "", "", INTERNAL,
	"Slices that arrived twice and were ignored.")
METRIC(facts_total, COUNTER, "", "kind", STABLE,
	"Facts accepted, by kind.")
METRIC(facts_unknown_total, COUNTER, "", "", STABLE,
	"Facts for a uid that is not open: late, repeated, of an agent that shares nothing, or "
	"the log line of an answer that was already reported.")
METRIC(failures_total, COUNTER, "", "kind", STABLE,
	"Requests that failed on a server, by kind.")
METRIC(engine_headers_total, COUNTER, "", "result", STABLE,
	"Log lines with the load header of an engine's response, by result.")
METRIC(ledger_open_requests, GAUGE, "", "", STABLE,
	"Requests that are open in the ledger.")
METRIC(ledger_closed_total, COUNTER, "", "reason", STABLE,
	"Open requests that were closed without a fact, by reason.")
METRIC(refused_total, COUNTER, "", "what", STABLE,
	"Names refused because a limit was reached.")
METRIC(tokenized_prompts_total, COUNTER, "", "", STABLE,
	"Requests whose prompt text was encoded to token ids.")
METRIC(tokens_total, COUNTER, "", "", STABLE,
	"Token ids of text, from the segment cache or newly encoded.")
METRIC(prompt_tokens_compared_total, COUNTER, "", "", STABLE,
	"Prompts with a token count from the engine.")
METRIC(prompt_tokens_differ_total, COUNTER, "", "", STABLE,
	"Of these, prompts with another count by the agent.")
METRIC(models_disagree, GAUGE, "", "", STABLE,
	"Models with a kind of request matched as text because engine and agent count different "
	"tokens.")
METRIC(chat_refused_total, COUNTER, "", "", INTERNAL,
	"Conversations that the model's chat template rejects; the engine will answer with an "
	"error.")
METRIC(chat_unknown_total, COUNTER, "", "", INTERNAL,
	"Conversations of models in token mode matched as text: images, own template, limits.")
METRIC(tokenize_failed_total, COUNTER, "", "", INTERNAL,
	"Requests matched as text because encoding failed: no memory, or the pattern's limit was "
	"reached.")
METRIC(tokenize_bounded_total, COUNTER, "", "", INTERNAL,
	"Requests of which only the start was encoded, because all of it would take too long.")
METRIC(tokenize_limits_total, COUNTER, "", "limit", INTERNAL,
	"The same by limit: body size, the tenant's share of the thread, or lateness of the "
	"agent.")
METRIC(segment_cache_hits_total, COUNTER, "", "", STABLE,
	"Segments of text found in the cache.")
METRIC(segment_cache_misses_total, COUNTER, "", "", STABLE,
	"Segments of text not found in the cache.")
METRIC(segment_cache_hit_tokens_total, COUNTER, "tokens", "", INTERNAL,
	"Token ids found in the segment cache.")
METRIC(segment_cache_bytes, GAUGE, "bytes", "", STABLE,
	"Memory used by the segment cache.")
METRIC(segment_cache_limit_bytes, GAUGE, "bytes", "", STABLE,
	"Memory limit of the segment cache; 0: not allocated yet.")
METRIC(segment_cache_evicted_total, COUNTER, "", "", INTERNAL,
	"Segments evicted from the cache.")
METRIC(segment_cache_refused_total, COUNTER, "", "", INTERNAL,
	"Segments too large for the cache.")
METRIC(prompt_tokens_total, COUNTER, "tokens", "", STABLE,
	"Prompt tokens of decisions that set a server; estimated for text and for parts not seen.")
METRIC(hit_tokens_total, COUNTER, "tokens", "", STABLE,
	"Of these, tokens expected in the cache of the server.")
METRIC(best_hit_tokens_total, COUNTER, "tokens", "", STABLE,
	"The same of the candidate that is expected to hold most of each prompt.")
METRIC(reported_hit_tokens_total, COUNTER, "tokens", "", STABLE,
	"Prompt tokens that engines found in their caches, by log lines that tell (ctok).")
METRIC(reported_prompt_tokens_total, COUNTER, "tokens", "", STABLE,
	"Prompt tokens of these requests.")
METRIC(reported_expected_tokens_total, COUNTER, "tokens", "", STABLE,
	"Of these, tokens that were expected in the cache.")
METRIC(log_requests_total, COUNTER, "", "asked", STABLE,
	"Log lines of requests that went to a server: HAProxy asked the agent (yes), asked and got no "
	"answer (failed), did not ask (no).")
METRIC(index_bytes, GAUGE, "bytes", "", STABLE,
	"Memory of the index.")
METRIC(index_limit_bytes, GAUGE, "bytes", "", STABLE,
	"Memory limit of the index.")
METRIC(index_fixed_bytes, GAUGE, "bytes", "", INTERNAL,
	"Part of the index memory used by fixed tables.")
METRIC(index_shards, GAUGE, "", "", INTERNAL,
	"Shards of the index, each with its own lock.")
METRIC(index_spaces, GAUGE, "", "", INTERNAL,
	"Spaces: prefixes match only within one space.")
METRIC(index_nodes, GAUGE, "", "", INTERNAL,
	"Nodes of all prefix trees.")
METRIC(index_records, GAUGE, "", "", INTERNAL,
	"Pairs of node and server.")
METRIC(index_pages, GAUGE, "", "", STABLE,
	"Distinct pages on nodes.")
METRIC(index_claims, GAUGE, "", "", INTERNAL,
	"Claims that are neither confirmed nor cancelled.")
METRIC(index_matches_total, COUNTER, "", "", INTERNAL,
	"Prompts looked up.")
METRIC(index_commits_total, COUNTER, "", "", INTERNAL,
	"Prompts added.")
METRIC(index_claims_ended_total, COUNTER, "", "how", INTERNAL,
	"Claims that ended, by how.")
METRIC(index_evicted_records_total, COUNTER, "", "", STABLE,
	"Records evicted, for bytes or a server's capacity.")
METRIC(index_evicted_pages_total, COUNTER, "", "", STABLE,
	"Pages evicted, for bytes or a server's capacity.")
METRIC(index_refused_total, COUNTER, "", "", INTERNAL,
	"Prompts not added because there was no room.")
METRIC(heads_bytes, GAUGE, "bytes", "", INTERNAL,
	"Memory used by remembered heads.")
METRIC(heads, GAUGE, "", "", INTERNAL,
	"Heads remembered.")
METRIC(heads_openings, GAUGE, "", "", INTERNAL,
	"Body beginnings that identify a head.")
METRIC(heads_lookups_total, COUNTER, "", "result", INTERNAL,
	"Lookups of heads, by result.")
METRIC(heads_evicted_total, COUNTER, "", "", INTERNAL,
	"Heads evicted for the budget.")
METRIC(sessions, GAUGE, "", "", STABLE,
	"Sessions that are remembered.")
METRIC(sessions_turns_total, COUNTER, "", "", STABLE,
	"Requests with a session.")
METRIC(sessions_stayed_total, COUNTER, "", "", STABLE,
	"Requests that went to the server of their session's last turn.")
METRIC(sessions_moved_total, COUNTER, "", "", STABLE,
	"Requests that went elsewhere.")
METRIC(sessions_mistrusted_total, COUNTER, "", "", STABLE,
	"Requests that do not continue the last turn of their session.")
METRIC(sessions_compacted_total, COUNTER, "", "", STABLE,
	"Old prompts of compacted sessions that were let go.")
METRIC(sessions_evicted_total, COUNTER, "", "", STABLE,
	"Sessions evicted for the budget.")
METRIC(responses, GAUGE, "", "", STABLE,
	"Stored responses whose server is known.")
METRIC(responses_followed_total, COUNTER, "", "", STABLE,
	"Requests sent to the server that has stored the response they continue or name.")
METRIC(responses_unknown_total, COUNTER, "", "", STABLE,
	"Requests that continue or name a response of which no server that is up is known.")
METRIC(turns_bytes, GAUGE, "bytes", "", INTERNAL,
	"Memory of earlier turns.")
METRIC(turns_points, GAUGE, "", "", INTERNAL,
	"Places in bodies where reading may resume.")
METRIC(turns_lookups_total, COUNTER, "", "result", INTERNAL,
	"Bodies that began like an earlier one, or did not.")
METRIC(turns_saved_bytes_total, COUNTER, "bytes", "", INTERNAL,
	"Bytes of bodies that were hashed instead of read.")
METRIC(turns_evicted_total, COUNTER, "", "", INTERNAL,
	"Points evicted for the budget.")
METRIC(index_shard_commits_total, COUNTER, "", "shard", INTERNAL,
	"Commits that ended on a node of the shard.")
METRIC(index_shard_bytes, GAUGE, "bytes", "shard", INTERNAL,
	"Memory in use, by shard.")
METRIC(index_shard_limit_bytes, GAUGE, "bytes", "shard", INTERNAL,
	"Memory limit, by shard.")
METRIC(index_shard_records, GAUGE, "", "shard", INTERNAL,
	"Pairs of node and server, by shard.")
METRIC(haproxy_errors_total, COUNTER, "", "code", STABLE,
	"Log lines that report a failed SPOE exchange, by HAProxy's error code.")
METRIC(problem, GAUGE, "", "what,pool", STABLE,
	"1: this fault in HAProxy's configuration is present; see kvroute(8), PROBLEMS.")
METRIC(decisions_total, COUNTER, "", "why", STABLE,
	"Answers to route messages, by reason.")

/* ---- KV cache events as they come: metrics_kvsub.c */

METRIC(events_state, GAUGE, "", "pool,server", STABLE,
	"Stream of events: 0 not connected; 1 complete (synced); 2 batches are missing (gap); 3 "
	"they are sent again (replaying); 4 some are lost (degraded); 5 connected, and nothing "
	"came since (waiting). Of several ranks the worst: 0, 5, 4, 3, 2, 1.")
METRIC(events_ranks_synced, GAUGE, "", "pool,server", INTERNAL,
	"Ranks whose stream is complete.")
METRIC(events_lag_seconds, GAUGE, "seconds", "pool,server", STABLE,
	"Age of the newest batch when it was applied, by the clocks of engine and agent.")
METRIC(events_batches_total, COUNTER, "", "pool,server", INTERNAL,
	"Batches applied.")
METRIC(events_gaps_total, COUNTER, "", "pool,server", INTERNAL,
	"Gaps in the sequence of batches.")
METRIC(events_replays_total, COUNTER, "", "pool,server", INTERNAL,
	"Times that missing batches were asked for.")
METRIC(events_replayed_batches_total, COUNTER, "", "pool,server", INTERNAL,
	"Batches applied that were sent again.")
METRIC(events_lost_batches_total, COUNTER, "", "pool,server", STABLE,
	"Batches that could not be had any more.")
METRIC(events_restarts_total, COUNTER, "", "pool,server", INTERNAL,
	"Restarts of the engine, as told by its events or metrics.")
METRIC(events_resets_total, COUNTER, "", "pool,server", INTERNAL,
	"Times that all blocks of a rank were forgotten because too much was lost, or because a "
	"restart could not be ruled out.")
METRIC(events_undecoded_batches_total, COUNTER, "", "pool,server", INTERNAL,
	"Batches that are no valid MessagePack of events.")
METRIC(events_bad_frames_total, COUNTER, "", "pool,server", INTERNAL,
	"Messages that are no frame of events, or that do not belong to a replay.")
METRIC(events_held_batches, GAUGE, "", "pool,server", INTERNAL,
	"Batches that wait for missing ones.")
METRIC(events_connections_total, COUNTER, "", "pool,server", INTERNAL,
	"Connections to the sockets where events are published.")
METRIC(events_connections_ended_total, COUNTER, "", "pool,server", INTERNAL,
	"Connections ended because too many bytes of them waited in memory.")
METRIC(events_received_bytes_total, COUNTER, "bytes", "pool,server", INTERNAL,
	"Bytes of messages received.")
METRIC(events_unanswered_replays_total, COUNTER, "", "pool,server", INTERNAL,
	"Times that missing batches were asked for and nothing came.")
METRIC(events_silent, GAUGE, "", "pool,server", STABLE,
	"1: a request with new blocks was sent to the server 30 seconds ago, and no event came "
	"since.")
METRIC(events_size_differs, GAUGE, "", "pool,server", STABLE,
	"1: its blocks are not of the size in models.block_size, or prompts cannot be divided so.")
METRIC(events_slices_total, COUNTER, "", "pool,server", INTERNAL,
	"Times that the rest of a batch was left for a later turn, so that others come first.")
METRIC(events_turn_work_max, GAUGE, "", "pool,server", INTERNAL,
	"Most blocks and events of a rank that one turn has applied.")
METRIC(engine_load_messages_total, COUNTER, "", "pool,server", STABLE,
	"Messages of its load socket (engines.load).")
METRIC(engine_load_bad_messages_total, COUNTER, "", "pool,server", STABLE,
	"Messages of its load socket that are no load.")

/* ---- servers, engines, pools, models, compared rules: metrics_pools.c */

METRIC(server_up, GAUGE, "", "pool,server", STABLE,
	"1: up, as last reported by HAProxy.")
METRIC(server_weight, GAUGE, "", "pool,server", STABLE,
	"Weight, as last reported by HAProxy.")
METRIC(server_connections, GAUGE, "", "pool,server", STABLE,
	"Connections, as last reported by HAProxy.")
METRIC(server_queue, GAUGE, "", "pool,server", STABLE,
	"Requests queued for the server, as last reported by HAProxy.")
METRIC(server_open_requests, GAUGE, "", "pool,server", STABLE,
	"Requests open on the server, by the agent's ledger.")
METRIC(server_backlog_seconds, GAUGE, "seconds", "pool,server", STABLE,
	"Estimated prefill time of requests sent there and not answered yet.")
METRIC(server_wait_seconds, GAUGE, "seconds", "pool,server", STABLE,
	"Expected wait of a new request there, before it is computed; NaN: no facts tell.")
METRIC(server_picked_total, COUNTER, "", "pool,server", STABLE,
	"Decisions for the server.")
METRIC(server_hit_tokens_total, COUNTER, "tokens", "pool,server", STABLE,
	"Prompt tokens expected in its cache.")
METRIC(server_held_tokens, GAUGE, "tokens", "pool,server", STABLE,
	"Tokens of the pages it holds or claims, over all spaces.")
METRIC(server_failures_total, COUNTER, "", "pool,server", STABLE,
	"Requests that failed on the server.")
METRIC(server_penalty_requests, GAUGE, "", "pool,server", STABLE,
	"Load added for its recent failures, in requests; decays.")
METRIC(server_output_tokens, GAUGE, "tokens", "pool,server", STABLE,
	"Generated tokens that its cache is expected to hold.")
METRIC(server_room_tokens, GAUGE, "tokens", "pool,server", STABLE,
	"Most tokens that the index keeps of it; 0: no limit but index.max_bytes.")
METRIC(server_watchers, GAUGE, "", "pool,server", STABLE,
	"HAProxy processes whose stats socket currently reports the server.")
METRIC(server_closed, GAUGE, "", "pool,server", STABLE,
	"1: one of them reports drain, maintenance or weight 0, so it gets no requests.")
METRIC(server_prefill_tokens_per_second, GAUGE, "", "pool,server", STABLE,
	"Estimated prompt tokens it computes per second.")
METRIC(server_capacity_tokens, GAUGE, "tokens", "pool,server", STABLE,
	"Assumed size of its cache in tokens; 0: unknown.")
METRIC(server_capacity_source, GAUGE, "", "pool,server", STABLE,
	"Source of that size: 0 none, 1 guess, 2 inferred from times to first token, 3 engine, 4 "
	"configuration.")
METRIC(server_choices_total, COUNTER, "", "pool,server,why", STABLE,
	"Decisions for the server by reason; a reason is here once it occurred.")
METRIC(engine_hit_tokens_total, COUNTER, "tokens", "pool,server", STABLE,
	"Prompt tokens that the engine found in its prefix cache, by its own metrics, since it is polled.")
METRIC(engine_asked_tokens_total, COUNTER, "tokens", "pool,server", STABLE,
	"Prompt tokens that it looked up there.")
METRIC(engine_waiting_requests, GAUGE, "", "pool,server", STABLE,
	"Requests in the engine's queue, as it reports; NaN: not reported.")
METRIC(engine_running_requests, GAUGE, "", "pool,server", STABLE,
	"Requests that the engine works on; NaN: not reported.")
METRIC(engine_kv_used_ratio, GAUGE, "ratio", "pool,server", STABLE,
	"Share of its KV cache in use; NaN: not reported.")
METRIC(engine_foreign_requests, GAUGE, "", "pool,server", STABLE,
	"Requests on the engine that neither HAProxy nor the agent sent.")
METRIC(engine_block_size_tokens, GAUGE, "tokens", "pool,server", STABLE,
	"Tokens of a block of its KV cache; 0: not reported.")
METRIC(engine_capacity_tokens, GAUGE, "tokens", "pool,server", STABLE,
	"Size of its KV cache in tokens; 0: not reported.")
METRIC(engine_adapters_running, GAUGE, "", "pool,server", STABLE,
	"LoRA adapters in running requests.")
METRIC(engine_adapters_waiting, GAUGE, "", "pool,server", STABLE,
	"LoRA adapters of waiting requests.")
METRIC(engine_adapters_loaded, GAUGE, "", "pool,server", STABLE,
	"LoRA adapters assumed to be loaded in the engine, by their last use.")
METRIC(pool_requests_total, COUNTER, "", "pool", STABLE,
	"Requests of the pool.")
METRIC(pool_imbalanced, GAUGE, "", "pool", STABLE,
	"1: the loads of the pool are imbalanced.")
METRIC(pool_imbalance_transitions_total, COUNTER, "", "pool", STABLE,
	"Changes between balanced and imbalanced.")
METRIC(pool_pressure_ratio, GAUGE, "ratio", "pool", STABLE,
	"Ratio of mean waiting time to mean work, smoothed.")
METRIC(pool_wait_error_ratio, GAUGE, "ratio", "pool", STABLE,
	"Median of |expected - real| / real of the pool's latest first tokens; NaN: none yet.")
METRIC(pool_unseen_kept_seconds, GAUGE, "seconds", "pool", STABLE,
	"Time for which caches keep what sessions left there, as learned from turns whose bodies are "
	"cut; of the tenant with the shortest; NaN: nothing learned, or nothing was evicted.")
METRIC(pool_unseen_came_ratio, GAUGE, "ratio", "pool", STABLE,
	"Share of announced work beyond the visible part of bodies that came, as learned from first "
	"tokens; mean of tenants; NaN: unknown.")
METRIC(pool_choices_total, COUNTER, "", "pool", STABLE,
	"Choices among servers; each slice of a body makes one.")
METRIC(pool_choices_dearer_total, COUNTER, "", "pool", STABLE,
	"Of these, choices of a server without the least cost.")
METRIC(pool_regret_seconds_total, COUNTER, "seconds", "pool", STABLE,
	"Cost of these choices above the least cost, as estimated by the agent.")
METRIC(pool_first_token_seconds, HISTOGRAM, "seconds", "pool", STABLE,
	"Time from the decision to the first token, of requests that this agent decided; by the headers "
	"of streams if no message tells first tokens.")
METRIC(pool_request_seconds, HISTOGRAM, "seconds", "pool", STABLE,
	"Time from the decision to the fact that the request ended, of requests that this agent "
	"decided.")
METRIC(pool_decision_seconds, HISTOGRAM, "seconds", "pool", STABLE,
	"Time of route messages in the agent, as decision_seconds.")
METRIC(pool_prompt_tokens, HISTOGRAM, "tokens", "pool", STABLE,
	"Prompt tokens of requests, by their first message; estimated for text and for parts not seen.")
METRIC(shadow_requests_total, COUNTER, "", "pool", STABLE,
	"Requests in shadow mode whose server is known and could have been chosen, so that HAProxy's own "
	"balancing (haproxy) can be compared with the agent's choice, by the same estimates.")
METRIC(shadow_same_total, COUNTER, "", "pool", STABLE,
	"Of these, requests that HAProxy sent to the server of the agent's choice.")
METRIC(shadow_prompt_tokens_total, COUNTER, "tokens", "pool", STABLE,
	"Prompt tokens of these.")
METRIC(shadow_hit_tokens_total, COUNTER, "tokens", "pool", STABLE,
	"Of these, tokens expected in the cache of the agent's choice.")
METRIC(shadow_haproxy_hit_tokens_total, COUNTER, "tokens", "pool", STABLE,
	"Of these, tokens expected in the cache of the server that HAProxy chose.")
METRIC(shadow_first_seconds_total, COUNTER, "seconds", "pool", STABLE,
	"Estimated time to the first token at the agent's choice.")
METRIC(shadow_haproxy_first_seconds_total, COUNTER, "seconds", "pool", STABLE,
	"Estimated time to the first token at the server that HAProxy chose.")
METRIC(pool_prefill_total, COUNTER, "", "pool", STABLE,
	"Prompts that a server of pools.prefill was to compute.")
METRIC(pool_prefill_failures_total, COUNTER, "", "pool", STABLE,
	"Of these, requests that ended with 429, 5xx or a timeout.")
METRIC(pool_transfer_ratio, GAUGE, "ratio", "pool", STABLE,
	"Time to transfer a computed prompt, as learned, by the configured one.")
METRIC(pool_facts, GAUGE, "", "pool,facts", STABLE,
	"1, with the kind of facts that the pool gets.")
METRIC(pool_mode, GAUGE, "", "pool,mode", STABLE,
	"1, with the mode of the pool: on, shadow, off.")
METRIC(model_mode, GAUGE, "", "model,mode", STABLE,
	"1, with the mode of the model: text, tokens, mixed (some kinds of request as text). "
	"\"*\": models not listed.")
METRIC(model_page_tokens, GAUGE, "tokens", "model,mode", STABLE,
	"Token ids in a page of its prompts, in token mode.")
METRIC(model_kinds_text, GAUGE, "", "model,mode", STABLE,
	"Kinds of request matched as text because token counts differ, counted for each tenant.")
METRIC(model_kind_text_tenants, GAUGE, "", "model,kind", STABLE,
	"Tenants for which a kind of request is matched as text because token counts differ.")
METRIC(compare_choices_total, COUNTER, "", "pool,rule", INTERNAL,
	"Choices evaluated by a compared rule.")
METRIC(compare_same_total, COUNTER, "", "pool,rule", INTERNAL,
	"Of these, choices of the server that was really chosen.")
METRIC(compare_regret_seconds_total, COUNTER, "seconds", "pool,rule", INTERNAL,
	"Cost of its choices above the least cost, as estimated by the agent.")
METRIC(compare_hit_tokens_total, COUNTER, "tokens", "pool,rule", INTERNAL,
	"Prompt tokens expected in the caches of the servers that it would choose.")
METRIC(compare_same_first_tokens_total, COUNTER, "tokens", "pool,rule", INTERNAL,
	"First tokens from the server that it would have chosen.")
METRIC(compare_same_first_seconds_total, COUNTER, "seconds", "pool,rule", INTERNAL,
	"What these took.")
METRIC(compare_other_first_tokens_total, COUNTER, "tokens", "pool,rule", INTERNAL,
	"First tokens from a server that it would not have chosen.")
METRIC(compare_other_first_seconds_total, COUNTER, "seconds", "pool,rule", INTERNAL,
	"What these took.")
METRIC(compare_judged_seconds_total, COUNTER, "seconds", "pool,rule", INTERNAL,
	"Estimated time of these on the server that it would have chosen, corrected by "
	"measurements.")
METRIC(compare_gain_seconds, GAUGE, "seconds", "pool,rule", INTERNAL,
	"Mean seconds saved by this rule per request on which it differs; negative: lost.")
METRIC(compare_gain_error_seconds, GAUGE, "seconds", "pool,rule", INTERNAL,
	"Standard error of compare_gain_seconds.")
METRIC(pool_wait_ratio, HISTOGRAM, "ratio", "pool", STABLE,
	"First tokens of the pool by expected time / real time. 1: as expected.")

/* ---- what agents share: metrics_share.c */

METRIC(share_batches_out_total, COUNTER, "", "", INTERNAL,
	"Batches that the store has confirmed.")
METRIC(share_dropped_total, COUNTER, "", "what", STABLE,
	"What was not sent because share.max_bytes was used up; siblings find it by digests.")
METRIC(share_waiting_bytes, GAUGE, "bytes", "", INTERNAL,
	"Memory of batches that the store has not confirmed.")
METRIC(share_siblings, GAUGE, "", "", STABLE,
	"Agents of the fleet that are heard, without this one.")
METRIC(share_gone_total, COUNTER, "", "", INTERNAL,
	"Siblings that fell silent; their requests count no longer.")
METRIC(share_batches_in_total, COUNTER, "", "result", INTERNAL,
	"Batches read from the store, by result: applied because they are new, the first of an "
	"agent that runs already (joined), after missing ones (hole), or one of these after all "
	"(late); not applied because they are known (repeated), this agent's own, of another key "
	"(stranger), damaged, of a newer version (newer), or of more agents than there is room "
	"for (crowded).")
METRIC(share_missing_batches_total, COUNTER, "", "", INTERNAL,
	"Batches of siblings that had not come when a later one did; digests find what they held.")
METRIC(share_skipped_entries_total, COUNTER, "", "reason", INTERNAL,
	"Entries skipped: of a kind that this version does not know, or malformed (bad).")
METRIC(share_pages_total, COUNTER, "", "what", INTERNAL,
	"Pages of requests decided here: sent to siblings, or known to them and so not sent "
	"(skipped); and pages of siblings (applied).")
METRIC(share_unplaced_total, COUNTER, "", "", INTERNAL,
	"Entries whose pages continue pages that are not known here; they come later, by digests.")
METRIC(share_repeated_total, COUNTER, "", "", INTERNAL,
	"Entries that changed nothing.")
METRIC(share_early_facts_total, COUNTER, "", "", INTERNAL,
	"Facts about a request that came before the request itself.")
METRIC(share_ignored_facts_total, COUNTER, "", "", INTERNAL,
	"Facts about requests that are not known.")
METRIC(share_no_room_total, COUNTER, "", "", INTERNAL,
	"Entries of pools or servers for which there is no room here.")
METRIC(share_open_requests, GAUGE, "", "", INTERNAL,
	"Open requests that siblings decided.")
METRIC(share_closed_by_lease_total, COUNTER, "", "", INTERNAL,
	"Requests of siblings that were closed because the sibling fell silent.")
METRIC(share_closed_as_lost_total, COUNTER, "", "", INTERNAL,
	"Requests of siblings that were closed because their ends were lost on the way.")
METRIC(share_resyncs_total, COUNTER, "", "", INTERNAL,
	"Digests made of all servers, to compare with those of siblings.")
METRIC(share_sums_dropped_total, COUNTER, "", "", INTERNAL,
	"Digests that were not compared, because too many came at once; those of the next round are.")
METRIC(share_differing_parts, GAUGE, "", "", STABLE,
	"Parts of servers that differed in the last digest of any sibling; 0: all hold the same.")
METRIC(share_ends_lacked_total, COUNTER, "", "", INTERNAL,
	"Prefixes of siblings that were not known here when digests were compared.")
METRIC(share_held_total, COUNTER, "", "what", INTERNAL,
	"Prefixes sent again because a sibling lacked them: sent, applied, without room or too "
	"old (refused).")
METRIC(share_anchors, GAUGE, "", "", INTERNAL,
	"Places that pages of siblings can continue from.")
METRIC(share_store_connections_total, COUNTER, "", "", INTERNAL,
	"Connections to servers of the store.")
METRIC(share_store_failures_total, COUNTER, "", "", STABLE,
	"Connections to servers of the store that failed or ended with an error.")
METRIC(share_store_errors_total, COUNTER, "", "", INTERNAL,
	"Batches that the store refused.")
METRIC(share_store_losses_total, COUNTER, "", "", INTERNAL,
	"Streams that had lost entries before they were read here: trimmed, or the store was "
	"emptied.")
METRIC(share_bytes_total, COUNTER, "bytes", "direction", STABLE,
	"Bytes of batches.")
METRIC(share_snapshots_total, COUNTER, "", "result", INTERNAL,
	"Snapshots in the store: written by this agent, failed to be written, loaded, refused.")
METRIC(share_snapshot_bytes, GAUGE, "bytes", "", INTERNAL,
	"Size of the last one written or loaded.")
METRIC(share_lag_seconds, GAUGE, "seconds", "agent", STABLE,
	"Age of the newest batch of a sibling when it was read, by the clocks of both.")
METRIC(share_silent_seconds, GAUGE, "seconds", "agent", STABLE,
	"Time since the newest batch of a sibling.")
METRIC(share_sibling_warm, GAUGE, "", "agent", INTERNAL,
	"1: the sibling has the state of the fleet.")
METRIC(share_sibling_holes_total, COUNTER, "", "agent", INTERNAL,
	"Holes in the numbers of a sibling's batches.")
METRIC(share_entries_out_total, COUNTER, "", "kind", INTERNAL,
	"Entries for siblings, by kind.")
METRIC(share_entries_in_total, COUNTER, "", "kind", INTERNAL,
	"Entries of siblings that were applied, by kind.")
METRIC(share_connected, GAUGE, "", "", STABLE,
	"1: all streams of the store are written and read.")
METRIC(share_warm, GAUGE, "", "", STABLE,
	"1: this agent has the state of the fleet.")

/* ---- KV cache events as applied: metrics_sources.c */

METRIC(events_index_limit_bytes, GAUGE, "bytes", "", STABLE,
	"Memory limit of the index of reported blocks.")
METRIC(events_index_records, GAUGE, "", "", INTERNAL,
	"Pairs of block and rank in that index.")
METRIC(events_orphans, GAUGE, "", "", INTERNAL,
	"Blocks that wait for an unknown parent.")
METRIC(events_orphans_joined_total, COUNTER, "", "", INTERNAL,
	"Orphans whose parent came.")
METRIC(events_orphans_dropped_total, COUNTER, "", "", INTERNAL,
	"Orphans dropped for lack of room.")
METRIC(events_evicted_records_total, COUNTER, "", "", INTERNAL,
	"Records evicted for lack of room or above a capacity.")
METRIC(events_expired_records_total, COUNTER, "", "", INTERNAL,
	"Records that engines.events.expire has ended.")
METRIC(events_unknown_blocks_total, COUNTER, "", "", INTERNAL,
	"Blocks removed, or stored without tokens, that were not known.")
METRIC(events_odd_blocks_total, COUNTER, "", "", INTERNAL,
	"Blocks refused because they contradict what is known of their hash.")
METRIC(events_refused_blocks_total, COUNTER, "", "", INTERNAL,
	"Blocks refused for lack of room.")
METRIC(events_ranks, GAUGE, "", "pool,server", INTERNAL,
	"Data-parallel ranks of a server that publishes KV cache events.")
METRIC(events_ranks_trusted, GAUGE, "", "pool,server", INTERNAL,
	"Of these, ranks whose events are complete enough for decisions.")
METRIC(events_from_start, GAUGE, "", "pool,server", STABLE,
	"1: no event since the engine was started or cleared its cache is missing, and no block "
	"had no room.")
METRIC(events_block_size_tokens, GAUGE, "tokens", "pool,server", INTERNAL,
	"Tokens of a block, by its events; 0: none stored yet.")
METRIC(events_blocks, GAUGE, "", "pool,server", STABLE,
	"Blocks that the engine holds by its events, in all tiers.")
METRIC(events_stored_blocks_total, COUNTER, "", "pool,server", INTERNAL,
	"Blocks stored; each copy counts.")
METRIC(events_removed_blocks_total, COUNTER, "", "pool,server", INTERNAL,
	"Blocks removed; each copy counts.")
METRIC(events_cleared_total, COUNTER, "", "pool,server", INTERNAL,
	"Times that the engine cleared its whole cache.")
METRIC(events_skipped_total, COUNTER, "", "pool,server", INTERNAL,
	"Events that are of an unknown kind or malformed.")
METRIC(events_not_dense_total, COUNTER, "", "pool,server", INTERNAL,
	"Stored events whose tokens are not exactly those of their blocks.")
METRIC(events_other_layers_total, COUNTER, "", "pool,server", INTERNAL,
	"Events of layers without full attention, which hold no whole prefix.")
METRIC(events_odd_size_total, COUNTER, "", "pool,server", INTERNAL,
	"Stored events whose blocks are no whole blocks of their rank, or are too large for a "
	"page.")
METRIC(choices_by_truth_total, COUNTER, "", "truth", STABLE,
	"Choices by the knowledge of the chosen server's cache: requests (tree), its events, "
	"requests on their way (sent), or both.")
