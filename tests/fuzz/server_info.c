/* server_info - an engine's answer to GET /server_info.
 *
 * The result does not depend on how the answer is cut, and its values are within their limits. If
 * the strict reader of files accepts the text, a look-up in its tree finds the same. The first byte
 * selects the cuts. */
#include "agent/base/json_doc.h"
#include "agent/feed/server_info.h"
#include "tests/fuzz/lib/fuzz.h"

/* <seed> of 256: in one piece. Returns the result. */
static int read_in(const char *p, size_t n, unsigned seed, struct server_info *out)
{
	struct server_info_reader *r = must_alloc(malloc(sizeof(*r)));
	struct cutter c;
	size_t used = 0, k;
	int rc;

	cutter_init(&c, seed);
	server_info_init(r);
	while (used < n) {
		k = seed == 256 ? n : cutter_next(&c, n - used);
		char *piece = exact(p + used, k);

		rc = server_info_feed(r, piece, k);
		must(rc == 0 || server_info_strerror(rc)[0] != '\0');
		free(piece);
		used += k;
	}
	memset(out, 0, sizeof(*out));
	rc = server_info_end(r, out);
	free(r);
	if (rc != 0)
		memset(out, 0, sizeof(*out));
	must(rc == 0 || rc == -SERVER_INFO_E_JSON || rc == -SERVER_INFO_E_ANSWER);
	must(out->ranks <= SERVER_INFO_RANKS_MAX && out->block_size <= SERVER_INFO_BLOCK_MAX);
	must(memchr(out->topic, '\0', sizeof(out->topic)) != NULL);
	for (const char *t = out->topic; *t != '\0'; t++)
		must(*t > ' ' && *t <= '~');
	must(out->port > 0 || (out->ranks == 0 && out->replay_port == 0 && out->topic[0] == '\0'));
	return rc;
}

/* ---- the strict reader ------------------------------------------------------------------- */

static uint32_t slow_number(const struct json_node *v, uint32_t max)
{
	char text[24] = "";
	long long n;

	if (v == NULL || v->kind != NODE_NUMBER || v->s.n > 19)
		return 0;
	memcpy(text, v->s.p, v->s.n);
	n = strspn(text, "0123456789") == v->s.n ? atoll(text) : 0;
	return n >= 1 && n <= max ? (uint32_t)n : 0;
}

static uint16_t slow_port(const struct json_node *v)
{
	char text[SERVER_INFO_TEXT_MAX + 1] = "";
	const char *colon;

	if (v == NULL || v->kind != NODE_STRING || v->s.n > SERVER_INFO_TEXT_MAX)
		return 0;
	memcpy(text, v->s.p, v->s.n);
	if (strlen(text) != v->s.n || strncmp(text, "tcp://", 6) != 0 ||
	    (colon = strrchr(text + 6, ':')) == NULL ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1) || strlen(colon + 1) > 30)
		return 0;
	return strtod(colon + 1, NULL) <= UINT16_MAX ? (uint16_t)atoi(colon + 1) : 0;
}

static void slow_topic(const struct json_node *v, char topic[SERVER_INFO_TOPIC_MAX + 1])
{
	if (v == NULL || v->kind != NODE_STRING || v->s.n > SERVER_INFO_TOPIC_MAX)
		return;
	for (size_t i = 0; i < v->s.n; i++)
		if (v->s.p[i] <= ' ' || v->s.p[i] > '~')
			return;
	memcpy(topic, v->s.p, v->s.n);
}

/* The option is read as far as it goes; only a whole one is compared. Returns false if it is not
 * whole. */
static bool slow_option(const struct json_node *v, uint16_t *port)
{
	struct json_doc *d;
	struct err e;

	*port = 0;
	if (v == NULL || v->kind != NODE_STRING)
		return true;
	if ((d = json_doc_new(v->s, "option", NULL, &e)) == NULL)
		return false;
	if (json_doc_root(d)->kind == NODE_OBJECT)
		*port = slow_port(json_get(json_doc_root(d), "replay_endpoint"));
	json_doc_free(d);
	return true;
}

static void compare(const char *p, size_t n, int rc, const struct server_info *got)
{
	const struct json_node *root, *v;
	struct server_info want = { 0 };
	struct json_doc *d;
	bool whole = true;
	struct err e;

	if (rc != 0 || (d = json_doc_new(span_of(p, n), "answer", NULL, &e)) == NULL)
		return;
	root = json_doc_root(d);
	must(root->kind == NODE_OBJECT);
	v = json_get(root, "kv_events");
	if (v != NULL && v->kind == NODE_OBJECT && json_get(v, "publisher") != NULL &&
	    json_is(json_get(v, "publisher"), "zmq"))
		want.port = (uint16_t)slow_number(json_get(v, "endpoint_port_base"), UINT16_MAX);
	if (want.port > 0) {
		want.ranks = slow_number(json_get(v, "dp_size"), SERVER_INFO_RANKS_MAX);
		want.block_size = slow_number(json_get(v, "block_size"), SERVER_INFO_BLOCK_MAX);
		slow_topic(json_get(v, "topic"), want.topic);
		whole = slow_option(json_get(root, "kv_events_config"), &want.replay_port);
	}
	if (!whole)
		want.replay_port = got->replay_port;
	must(want.port == got->port && want.ranks == got->ranks &&
	    want.block_size == got->block_size && want.replay_port == got->replay_port &&
	    strcmp(want.topic, got->topic) == 0);
	json_doc_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct server_info whole, other;
	char *text;
	int rc;

	if (size < 1)
		return 0;
	text = exact(data + 1, size - 1);
	rc = read_in(text, size - 1, 256, &whole);
	for (unsigned k = 0; k < 3; k++) {
		must(read_in(text, size - 1, k == 0 ? 0 : data[0] + k, &other) == rc);
		must(memcmp(&whole, &other, sizeof(whole)) == 0);
	}
	compare(text, size - 1, rc, &whole);
	free(text);
	return 0;
}
