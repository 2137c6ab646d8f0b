/* Takes a few values from the events of the JSON scanner. A value of another type or range than
 * expected counts as absent. */
#include "agent/base/num.h"
#include "agent/feed/server_info.h"

#define DEPTH_MAX	64

enum { KEY_OTHER, KEY_PUBLISHER, KEY_PORT, KEY_TOPIC, KEY_BLOCK_SIZE, KEY_DP_SIZE,
       KEY_LOAD_PORT };

static const struct {
	const char *word;
	int key;
} keys[] = {
	{ "publisher", KEY_PUBLISHER }, { "endpoint_port_base", KEY_PORT }, { "topic", KEY_TOPIC },
	{ "block_size", KEY_BLOCK_SIZE }, { "dp_size", KEY_DP_SIZE },
	{ "load_endpoint_port_base", KEY_LOAD_PORT },
};

const char *server_info_strerror(int error)
{
	static const char *const texts[SERVER_INFO_E_COUNT] = {
		"no error",
		"the answer is too long",
		"the answer is not a JSON object",
	};

	if (error < 0)
		error = -error;
	return error < SERVER_INFO_E_COUNT ? texts[error] : "unknown error";
}

static void text_add(struct server_info_reader *r, struct span s)
{
	uint32_t room = SERVER_INFO_TEXT_MAX - r->n_text;

	if (r->n_text > SERVER_INFO_TEXT_MAX)
		return;
	if (s.n > room) {
		r->n_text = SERVER_INFO_TEXT_MAX + 1;
		return;
	}
	memcpy(r->text + r->n_text, s.p, s.n);
	r->n_text += (uint32_t)s.n;
}

static struct span text_of(const struct server_info_reader *r)
{
	return span_of(r->text, r->n_text <= SERVER_INFO_TEXT_MAX ? r->n_text : 0);
}

/* ---- kv_events_config ------------------------------------------------------------------- */

/* Returns the port of "tcp://0.0.0.0:5558", or 0. */
static uint16_t port_of(struct span s)
{
	static const char scheme[] = "tcp://";
	const char *colon;
	uint32_t port = 0;

	if (s.n < sizeof(scheme) || memcmp(s.p, scheme, sizeof(scheme) - 1) != 0)
		return 0;
	colon = memrchr(s.p + sizeof(scheme) - 1, ':', s.n - (sizeof(scheme) - 1));
	for (const char *p = colon != NULL ? colon + 1 : s.p + s.n; p < s.p + s.n; p++) {
		if (*p < '0' || *p > '9')
			return 0;
		port = port * 10 + (uint32_t)(*p - '0');
		if (port > UINT16_MAX)
			return 0;
	}
	return (uint16_t)port;
}

static void on_option(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct server_info_reader *r = arg;

	if (j->depth != 1)
		return;
	if (ev == JSON_KEY)
		r->option_key = span_eq(text, SPAN("replay_endpoint"));
	if (!r->option_key)
		return;
	if (ev == JSON_STRING)
		r->n_text = 0;
	else if (ev == JSON_STRING_PART)
		text_add(r, text);
	else if (ev == JSON_STRING_END)
		r->info.replay_port = port_of(text_of(r));
}

/* ---- kv_events -------------------------------------------------------------------------- */

static uint32_t number_within(int64_t v, uint32_t max)
{
	return v >= 1 && v <= max ? (uint32_t)v : 0;
}

static void take_number(struct server_info_reader *r, struct span text)
{
	int64_t v;

	if (!num_parse(text, &v))
		v = 0;
	if (r->key == KEY_PORT)
		r->info.port = (uint16_t)number_within(v, UINT16_MAX);
	else if (r->key == KEY_LOAD_PORT)
		r->info.load_port = (uint16_t)number_within(v, UINT16_MAX);
	else if (r->key == KEY_BLOCK_SIZE)
		r->info.block_size = number_within(v, SERVER_INFO_BLOCK_MAX);
	else if (r->key == KEY_DP_SIZE)
		r->info.ranks = number_within(v, SERVER_INFO_RANKS_MAX);
}

static void take_text(struct server_info_reader *r)
{
	struct span s = text_of(r);

	if (r->key == KEY_PUBLISHER)
		r->zmq = span_eq(s, SPAN("zmq"));
	if (r->key != KEY_TOPIC)
		return;
	memset(r->info.topic, 0, sizeof(r->info.topic));
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return;
	if (s.n <= SERVER_INFO_TOPIC_MAX)
		memcpy(r->info.topic, s.p, s.n);
}

static void in_events(struct server_info_reader *r, enum json_event ev, struct span text)
{
	if (ev == JSON_KEY) {
		r->key = KEY_OTHER;
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			if (span_eq(text, span_str(keys[i].word)))
				r->key = keys[i].key;
	} else if (ev == JSON_NUMBER) {
		take_number(r, text);
	} else if (ev == JSON_STRING) {
		r->n_text = 0;
	} else if (ev == JSON_STRING_PART) {
		text_add(r, text);
	} else if (ev == JSON_STRING_END) {
		take_text(r);
	}
}

/* ---- the answer ------------------------------------------------------------------------- */

static void begin_member(struct server_info_reader *r, struct span key)
{
	r->in = SERVER_INFO_ELSEWHERE;
	if (span_eq(key, SPAN("kv_events")))
		r->in = SERVER_INFO_EVENTS;
	else if (span_eq(key, SPAN("kv_events_config")))
		r->in = SERVER_INFO_OPTION;
}

static void on_answer(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct server_info_reader *r = arg;

	if (j->depth == 0 && ev == JSON_OBJECT)
		r->is_object = true;
	else if (j->depth == 1 && ev == JSON_KEY)
		begin_member(r, text);
	else if (r->in == SERVER_INFO_EVENTS && j->depth == 2)
		in_events(r, ev, text);
	else if (r->in == SERVER_INFO_OPTION && j->depth == 1 && ev == JSON_STRING)
		json_init(&r->option, DEPTH_MAX, on_option, r);
	else if (r->in == SERVER_INFO_OPTION && j->depth == 1 && ev == JSON_STRING_PART)
		json_feed(&r->option, text.p, text.n);
}

void server_info_init(struct server_info_reader *r)
{
	memset(r, 0, sizeof(*r));
	json_init(&r->json, DEPTH_MAX, on_answer, r);
}

int server_info_feed(struct server_info_reader *r, const void *p, size_t n)
{
	if (n > SERVER_INFO_ANSWER_MAX - r->answer_bytes)
		r->answer_bytes = SERVER_INFO_ANSWER_MAX + 1;
	if (r->answer_bytes > SERVER_INFO_ANSWER_MAX)
		return -SERVER_INFO_E_ANSWER;
	r->answer_bytes += (uint32_t)n;
	return json_feed(&r->json, p, n) == JSON_BAD ? -SERVER_INFO_E_JSON : 0;
}

int server_info_end(struct server_info_reader *r, struct server_info *out)
{
	if (r->answer_bytes > SERVER_INFO_ANSWER_MAX)
		return -SERVER_INFO_E_ANSWER;
	if (json_feed(&r->json, "\n", 1) != JSON_DONE || !r->is_object)
		return -SERVER_INFO_E_JSON;
	if (!r->zmq || r->info.port == 0)
		memset(&r->info, 0, sizeof(r->info));
	*out = r->info;
	return 0;
}
