/* test_server_info.c - an engine's answer about its events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/feed/server_info.h"
#include "tests/unit/edge.h"

static const char *tell(struct server_info_reader *r)
{
	static char text[400];
	struct server_info i;
	int rc = server_info_end(r, &i);

	if (rc < 0)
		return server_info_strerror(rc);
	snprintf(text, sizeof(text), "port %u replay %u ranks %u block %u topic %s", i.port,
	    i.replay_port, i.ranks, i.block_size, i.topic);
	if (i.load_port > 0)
		snprintf(text + strlen(text), 20, " load %u", i.load_port);
	return text;
}

static const char *feed(const char *p, size_t n, size_t size)
{
	static struct server_info_reader r;

	server_info_init(&r);
	for (size_t used = 0; used < n; used += size) {
		size_t k = n - used < size ? n - used : size;
		uint8_t *edge = edge_copy(p + used, k);

		server_info_feed(&r, edge, k);
		edge_free(edge, k);
	}
	return tell(&r);
}

#define EVENTS	"\"kv_events\":{\"publisher\":\"zmq\",\"endpoint_host\":\"*\","	\
		"\"endpoint_port_base\":5557,\"topic\":\"kv\",\"block_size\":64,\"dp_size\":2}"
#define NONE	"port 0 replay 0 ranks 0 block 0 topic "
#define BAD	"the answer is not a JSON object"

static const struct { const char *name, *answer, *want; } cases[] = {
	{ "what is told", "{\"model_path\":\"m\"," EVENTS ",\"version\":\"0.5.20\"}",
	    "port 5557 replay 0 ranks 2 block 64 topic kv" },
	{ "with the option",
	    "{\"kv_events_config\":\"{\\\"publisher\\\": \\\"zmq\\\", \\\"endpoint\\\": "
	    "\\\"tcp://*:5557\\\", \\\"replay_endpoint\\\": \\\"tcp://*:5600\\\"}\"," EVENTS "}",
	    "port 5557 replay 5600 ranks 2 block 64 topic kv" },
	{ "the option comes later, with escapes",
	    "{" EVENTS ","
	    "\"kv_events_config\":\"{\\u0022replay_endpoint\\\":\\\"tcp://\\\\u002a:5600\\\"}\"}",
	    "port 5557 replay 5600 ranks 2 block 64 topic kv" },
	{ "an option that is no JSON", "{\"kv_events_config\":\"{replay_endpoint: 5\"," EVENTS "}",
	    "port 5557 replay 0 ranks 2 block 64 topic kv" },
	{ "options that are no text",
	    "{\"kv_events_config\":{\"replay_endpoint\":\"tcp://*:1\"}," EVENTS "}",
	    "port 5557 replay 0 ranks 2 block 64 topic kv" },
	{ "a replay endpoint of another kind",
	    "{\"kv_events_config\":\"{\\\"replay_endpoint\\\": \\\"ipc:///x:5\\\"}\"," EVENTS "}",
	    "port 5557 replay 0 ranks 2 block 64 topic kv" },
	{ "a replay port that is none",
	    "{\"kv_events_config\":\"{\\\"replay_endpoint\\\": \\\"tcp://*:65536\\\"}\"," EVENTS "}",
	    "port 5557 replay 0 ranks 2 block 64 topic kv" },
	{ "a replay endpoint deeper in the option",
	    "{\"kv_events_config\":"
	    "\"{\\\"a\\\":{\\\"replay_endpoint\\\": \\\"tcp://*:1\\\"}}\"," EVENTS "}",
	    "port 5557 replay 0 ranks 2 block 64 topic kv" },
	{ "no events", "{\"kv_events\":null,\"version\":\"1\"}", NONE },
	{ "an older engine", "{\"version\":\"0.4\",\"internal_states\":[{\"kv\":1}]}", NONE },
	{ "another publisher",
	    "{\"kv_events\":{\"publisher\":\"nats\",\"endpoint_port_base\":5557}}", NONE },
	{ "no publisher", "{\"kv_events\":{\"endpoint_port_base\":5557,\"dp_size\":2}}", NONE },
	{ "no port", "{\"kv_events\":{\"publisher\":\"zmq\",\"dp_size\":2,\"topic\":\"kv\"}}", NONE },
	{ "only what is needed", "{\"kv_events\":{\"publisher\":\"zmq\",\"endpoint_port_base\":1}}",
	    "port 1 replay 0 ranks 0 block 0 topic " },
	{ "ports that are none",
	    "{\"kv_events\":{\"publisher\":\"zmq\",\"endpoint_port_base\":65536}}", NONE },
	{ "a port below", "{\"kv_events\":{\"publisher\":\"zmq\",\"endpoint_port_base\":-5557}}", NONE },
	{ "a port with a fraction",
	    "{\"kv_events\":{\"publisher\":\"zmq\",\"endpoint_port_base\":5557.5}}", NONE },
	{ "a port as text", "{\"kv_events\":{\"publisher\":\"zmq\",\"endpoint_port_base\":\"5557\"}}",
	    NONE },
	{ "numbers out of range",
	    "{\"kv_events\":{\"publisher\":\"zmq\",\"endpoint_port_base\":9,\"dp_size\":65,"
	    "\"block_size\":65537}}", "port 9 replay 0 ranks 0 block 0 topic " },
	{ "numbers at their end",
	    "{\"kv_events\":{\"publisher\":\"zmq\",\"endpoint_port_base\":65535,\"dp_size\":64,"
	    "\"block_size\":65536}}", "port 65535 replay 0 ranks 64 block 65536 topic " },
	{ "a load socket",
	    "{\"kv_events\":{\"publisher\":\"zmq\",\"endpoint_port_base\":9,\"topic\":\"t\","
	    "\"load_endpoint_port_base\":5559,\"load_topic\":\"load\"}}",
	    "port 9 replay 0 ranks 0 block 0 topic t load 5559" },
	{ "a load port out of range",
	    "{\"kv_events\":{\"publisher\":\"zmq\",\"endpoint_port_base\":9,"
	    "\"load_endpoint_port_base\":70000}}", "port 9 replay 0 ranks 0 block 0 topic " },
	{ "a load socket without events",
	    "{\"kv_events\":{\"publisher\":\"nats\",\"load_endpoint_port_base\":70}}", NONE },
	{ "a topic that does not fit",
	    "{\"kv_events\":{\"publisher\":\"zmq\",\"endpoint_port_base\":9,\"topic\":"
	    "\"0123456789012345678901234567890123456789012345678901234567890123\"}}",
	    "port 9 replay 0 ranks 0 block 0 topic " },
	{ "a topic for a terminal",
	    "{\"kv_events\":{\"publisher\":\"zmq\",\"endpoint_port_base\":9,\"topic\":\"\\u001b[2J\"}}",
	    "port 9 replay 0 ranks 0 block 0 topic " },
	{ "the same words elsewhere",
	    "{\"x\":{\"kv_events\":{\"publisher\":\"zmq\",\"endpoint_port_base\":9}},"
	    "\"publisher\":\"zmq\",\"endpoint_port_base\":9}", NONE },
	{ "the same words deeper",
	    "{\"kv_events\":{\"a\":{\"publisher\":\"zmq\",\"endpoint_port_base\":9},\"b\":[\"zmq\",9]}}",
	    NONE },
	{ "a list of events", "{\"kv_events\":[" "\"publisher\",\"zmq\",5557]}", NONE },
	{ "a list", "[{" EVENTS "}]", BAD },
	{ "a number", "5557", BAD },
	{ "no JSON", "<html></html>", BAD },
	{ "nothing", "", BAD },
	{ "a cut answer", "{" EVENTS, BAD },
	{ "more than one", "{" EVENTS "}{}", BAD },
};

static void answers(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = strlen(cases[i].answer);

		for (size_t k = 0; k < 4; k++) {
			const char *got = feed(cases[i].answer, n, (const size_t[]){ n + 1, 1, 3, 17 }[k]);

			if (strcmp(got, cases[i].want) != 0)
				fail_msg("%s, cut %zu: got %s", cases[i].name, k, got);
		}
	}
}

static void bounds(void **state)
{
	static struct server_info_reader r;
	static char big[1 << 20];

	memset(big, ' ', sizeof(big));
	server_info_init(&r);
	for (int i = 0; i < 4; i++)
		assert_int_equal(server_info_feed(&r, big, sizeof(big)), 0);
	assert_int_equal(server_info_feed(&r, " ", 1), -SERVER_INFO_E_ANSWER);
	assert_int_equal(server_info_feed(&r, "", 0), -SERVER_INFO_E_ANSWER);
	assert_string_equal(tell(&r), "the answer is too long");
	memset(big, '[', sizeof(big));
	big[0] = '{';
	memcpy(big + 1, "\"a\":", 4);
	server_info_init(&r);
	assert_int_equal(server_info_feed(&r, big, sizeof(big)), -SERVER_INFO_E_JSON);
	assert_string_equal(tell(&r), BAD);
	printf("a server_info_reader has %zu bytes\n", sizeof(r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers),
		cmocka_unit_test(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
