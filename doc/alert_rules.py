"""alert_rules.py - when an operator should look, for monitoring.py.

Each rule has a story in which it fires, and one in which it does not: series of Prometheus' tests,
a value a minute. Texts have no templates; the labels of an alert name its agent.
"""
import collections

Alert = collections.namedtuple(
    "Alert", "name severity lasts expr summary remedy at bad good labels",
    defaults=[{"instance": "a", "job": "kvroute"}])


def of_agent(name, labels=""):
    return 'kvroute_%s{job="kvroute",instance="a"%s}' % (name, labels and "," + labels)


def up(values):
    return [('up{job="kvroute",instance="a"}', values)]


BY = "sum by (job, instance) "
REQUESTS = "(%s(rate(kvroute_requests_total[5m])) > 0.1)" % BY
HIT_SHARE = ("(%s(rate(kvroute_hit_tokens_total[%%s]%%s)) / "
             "%s(rate(kvroute_prompt_tokens_total[%%s]%%s)))" % (BY, BY))

ALERTS = [
    Alert("KvrouteDown", "critical", "2m", 'up{job="kvroute"} == 0',
          "The agent does not answer.",
          "HAProxy balances without it, so prompts are computed again. See its log.",
          "5m", up("0x10"), up("1x10")),
    Alert("KvrouteNotReady", "warning", "5m", "kvroute_ready == 0",
          "The agent runs and is not ready: it starts or drains, or a listener is not open.",
          "See /ready and the log.",
          "10m", [(of_agent("ready"), "0x20")], [(of_agent("ready"), "1x20")]),
    Alert("KvrouteOverload", "warning", "5m",
          BY + '(rate(kvroute_decisions_total{why="overload"}[5m])) / ' + REQUESTS + " > 0.01",
          "More than 1 % of the requests are not decided, because the agent is too busy.",
          "Raise threads or add an agent; kvroute(8), OVERLOAD, and doc/tuning.md.",
          "15m", [(of_agent("decisions_total", 'why="overload"'), "0+6x20"),
                  (of_agent("requests_total"), "0+60x20")],
          [(of_agent("decisions_total", 'why="overload"'), "0x20"),
           (of_agent("requests_total"), "0+60x20")]),
    Alert("KvrouteSlowDecisions", "warning", "10m",
          "histogram_quantile(0.99, sum by (job, instance, le) "
          "(rate(kvroute_decision_seconds_bucket[5m]))) > 0.005",
          "One decision in a hundred takes more than 5 ms.",
          "kvroute_tokenize_limits_total and the sizes of prompts tell why; kvroute(8), OVERLOAD.",
          "20m", [(of_agent("decision_seconds_bucket", 'le="0.005"'), "0+50x30"),
                  (of_agent("decision_seconds_bucket", 'le="0.02"'), "0+60x30"),
                  (of_agent("decision_seconds_bucket", 'le="+Inf"'), "0+60x30")],
          [(of_agent("decision_seconds_bucket", 'le="0.005"'), "0+60x30"),
           (of_agent("decision_seconds_bucket", 'le="0.02"'), "0+60x30"),
           (of_agent("decision_seconds_bucket", 'le="+Inf"'), "0+60x30")]),
    Alert("KvrouteProblem", "warning", "5m",
          "max by (job, instance, what, pool) (kvroute_problem) == 1",
          "A mistake in how HAProxy is attached.",
          "The label what names it: kvroute(8), PROBLEMS, has its effect and its remedy.",
          "10m", [(of_agent("problem", 'what="load_missing",pool="p"'), "1x20")],
          [(of_agent("problem", 'what="load_missing",pool="p"'), "0x20")],
          {"instance": "a", "job": "kvroute", "what": "load_missing", "pool": "p"}),
    Alert("KvrouteFeedSilent", "warning", "10m",
          REQUESTS + " unless " + BY + '(rate(kvroute_facts_total{kind="done"}[10m])) > 0',
          "Requests come, and no log line or message tells that one has ended.",
          "The agent guesses when servers are free. kvroute(8), LOG FEED; kvroutectl doctor.",
          "25m", [(of_agent("requests_total"), "0+60x30"),
                  (of_agent("facts_total", 'kind="done"'), "7x30")],
          [(of_agent("requests_total"), "0+60x30"),
           (of_agent("facts_total", 'kind="done"'), "0+60x30")]),
    Alert("KvrouteNotAsked", "warning", "15m",
          BY + '(rate(kvroute_log_requests_total{asked="no"}[10m])) / ' + BY +
          "(rate(kvroute_log_requests_total[10m])) > 0.05",
          "HAProxy does not ask the agent about more than 5 % of the requests.",
          "kvroutectl doctor finds a condition or a filter that leaves them out.",
          "30m", [(of_agent("log_requests_total", 'asked="no"'), "0+10x40"),
                  (of_agent("log_requests_total", 'asked="yes"'), "0+50x40")],
          [(of_agent("log_requests_total", 'asked="no"'), "0+1x40"),
           (of_agent("log_requests_total", 'asked="yes"'), "0+50x40")]),
    Alert("KvrouteAnswersLost", "warning", "10m",
          BY + '(rate(kvroute_log_requests_total{asked="failed"}[5m])) / ' + BY +
          "(rate(kvroute_log_requests_total[5m])) > 0.01",
          "HAProxy asked about more than 1 % of the requests and got no answer.",
          "kvroute_haproxy_errors_total has the codes; kvroute(8) has their causes.",
          "20m", [(of_agent("log_requests_total", 'asked="failed"'), "0+5x30"),
                  (of_agent("log_requests_total", 'asked="yes"'), "0+50x30")],
          [(of_agent("log_requests_total", 'asked="failed"'), "0x30"),
           (of_agent("log_requests_total", 'asked="yes"'), "0+50x30")]),
    Alert("KvrouteHitShareCollapse", "warning", "30m",
          HIT_SHARE % ("30m", "", "30m", "") + " < 0.5 * (" +
          HIT_SHARE % ("6h", " offset 1h", "6h", " offset 1h") + " > 0.1) and " + REQUESTS,
          "The share of prompt tokens found in a cache fell to less than half of what it was.",
          "New prompts, a restart, or engines that were emptied; see decisions by why, "
          "kvroute_pool_imbalanced and kvroute_index_evicted_pages_total.",
          "10h", [(of_agent("hit_tokens_total"), "0+600x480 288000+10x300"),
                  (of_agent("prompt_tokens_total"), "0+1000x900"),
                  (of_agent("requests_total"), "0+60x900")],
          [(of_agent("hit_tokens_total"), "0+600x900"),
           (of_agent("prompt_tokens_total"), "0+1000x900"),
           (of_agent("requests_total"), "0+60x900")]),
    Alert("KvrouteHitsNotDelivered", "warning", "30m",
          BY + "(rate(kvroute_reported_hit_tokens_total[30m])) < 0.5 * (" + BY +
          "(rate(kvroute_reported_expected_tokens_total[30m])) > 1)",
          "Engines find less than half of the tokens in their caches that the agent expects.",
          "Caches are smaller than configured, evict by another order, or other clients use them: "
          "policy.capacity, policy.eviction, kvroute_engine_foreign_requests.",
          "2h", [(of_agent("reported_hit_tokens_total"), "0+100x200"),
                 (of_agent("reported_expected_tokens_total"), "0+1000x200")],
          [(of_agent("reported_hit_tokens_total"), "0+900x200"),
           (of_agent("reported_expected_tokens_total"), "0+1000x200")]),
    Alert("KvrouteServerFailing", "warning", "5m",
          "sum by (job, instance, pool, server) (rate(kvroute_server_failures_total[5m])) / "
          "(sum by (job, instance, pool, server) (rate(kvroute_server_picked_total[5m])) > 0.05) "
          "> 0.1",
          "More than a tenth of the requests fail on a server.",
          "kvroute_failures_total tells how they fail; its engine's log tells why.",
          "15m", [(of_agent("server_failures_total", 'pool="p",server="s1"'), "0+10x30"),
                  (of_agent("server_picked_total", 'pool="p",server="s1"'), "0+50x30")],
          [(of_agent("server_failures_total", 'pool="p",server="s1"'), "0+1x30"),
           (of_agent("server_picked_total", 'pool="p",server="s1"'), "0+50x30")],
          {"instance": "a", "job": "kvroute", "pool": "p", "server": "s1"}),
    Alert("KvrouteStoreDisconnected", "warning", "2m", "kvroute_share_connected == 0",
          "The agent is not connected to the store, so it decides alone.",
          "See share.servers, and the log for the cause.",
          "5m", [(of_agent("share_connected"), "0x10")], [(of_agent("share_connected"), "1x10")]),
    Alert("KvrouteSiblingLag", "warning", "5m",
          "max by (job, instance) (kvroute_share_lag_seconds) > 2",
          "What siblings tell arrives more than 2 s late.",
          "The store is busy or far away, or the clocks of the machines differ.",
          "15m", [(of_agent("share_lag_seconds", 'agent="1"'), "5x20")],
          [(of_agent("share_lag_seconds", 'agent="1"'), "0.01x20")]),
    Alert("KvrouteSiblingSilent", "warning", "1m",
          "max by (job, instance) (kvroute_share_silent_seconds) > 30",
          "A sibling has told nothing for 30 s.",
          "It is gone or cannot reach the store; its requests count no longer here.",
          "5m", [(of_agent("share_silent_seconds", 'agent="1"'), "60x10")],
          [(of_agent("share_silent_seconds", 'agent="1"'), "0.2x10")]),
    Alert("KvrouteIndexFullTooEarly", "warning", "15m",
          "(kvroute_index_bytes / kvroute_index_limit_bytes > 0.95) and (" + BY +
          "(kvroute_server_held_tokens) < 0.8 * " + BY + "(kvroute_server_capacity_tokens))",
          "The memory of the index is used up before it knows what caches hold.",
          "Raise index.max_bytes; doc/tuning.md has the size for a number of tokens.",
          "30m", [(of_agent("index_bytes"), "99x40"), (of_agent("index_limit_bytes"), "100x40"),
                  (of_agent("server_held_tokens", 'pool="p",server="s1"'), "1000x40"),
                  (of_agent("server_capacity_tokens", 'pool="p",server="s1"'), "9000x40")],
          [(of_agent("index_bytes"), "99x40"), (of_agent("index_limit_bytes"), "100x40"),
           (of_agent("server_held_tokens", 'pool="p",server="s1"'), "8900x40"),
           (of_agent("server_capacity_tokens", 'pool="p",server="s1"'), "9000x40")]),
    Alert("KvrouteEventsLost", "warning", "10m",
          "max by (job, instance, pool, server) (kvroute_events_state) == 4",
          "KV cache events of an engine were lost, so that its cache is known in part only.",
          "kvroute_events_lost_batches_total counts them; raise the engine's buffer_steps.",
          "20m", [(of_agent("events_state", 'pool="p",server="s1"'), "4x30")],
          [(of_agent("events_state", 'pool="p",server="s1"'), "1x30")],
          {"instance": "a", "job": "kvroute", "pool": "p", "server": "s1"}),
    Alert("KvrouteFilesRunOut", "warning", "5m",
          "kvroute_process_open_fds / kvroute_process_max_fds > 0.8",
          "The agent uses more than 80 % of its file descriptors.",
          "Raise LimitNOFILE of the unit, or lower spop.max_connections.",
          "10m", [(of_agent("process_open_fds"), "90x20"),
                  (of_agent("process_max_fds"), "100x20")],
          [(of_agent("process_open_fds"), "10x20"), (of_agent("process_max_fds"), "100x20")]),
]
