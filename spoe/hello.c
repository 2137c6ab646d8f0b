/* hello.c - the handshake (SPOE.txt 3.2.4, 3.2.5).
 *
 * HAProxy sends its versions, frame size and capabilities. The answer is 2.0, the same frame
 * size and "pipelining,fragmentation". Three choices are not obvious:
 *
 * - The frame size is echoed and never lowered. HAProxy 3.1 and later encode with their own
 *   limit and check the agent's only when they send, so with a smaller one every larger NOTIFY
 *   fails. A size above the ceiling is therefore rejected with an error text instead of
 *   negotiated down.
 * - "fragmentation" is announced although HAProxy never does, because it means that the
 *   announcer accepts fragments. HAProxy up to 3.0 then sends them; without it a message that is
 *   too long is lost.
 * - "async" is never announced. Each ACK then returns on the connection of its NOTIFY, and
 *   connections share no state.
 *
 * Unknown keys are skipped; a known key with a value of another type makes the frame unreadable. */
#include "spoe/wire.h"

#define OUR_VERSION		"2.0"
#define OUR_CAPABILITIES	"pipelining,fragmentation"

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

/* Read the next item of a comma-separated list, without surrounding spaces. Returns false at the
 * end. */
static bool list_next(struct spop_str *list, struct spop_str *item)
{
	size_t n = 0;

	if (!list->n)
		return false;
	while (n < list->n && list->p[n] != ',')
		n++;
	*item = (struct spop_str){ list->p, n };
	if (n < list->n)
		n++;
	list->p += n;
	list->n -= n;
	while (item->n && is_space(item->p[0])) {
		item->p++;
		item->n--;
	}
	while (item->n && is_space(item->p[item->n - 1]))
		item->n--;
	return true;
}

/* Tell if a version is "2." and digits. Support of 2.1 implies 2.0: "it means it also support all
 * previous minor versions". */
static bool is_version_2(struct spop_str v)
{
	size_t i;

	if (v.n < 3 || v.p[0] != '2' || v.p[1] != '.')
		return false;
	for (i = 2; i < v.n; i++)
		if (v.p[i] < '0' || v.p[i] > '9')
			return false;
	return true;
}

static void take_versions(struct spop_hello *h, struct spop_str list)
{
	struct spop_str v;

	h->has_versions = true;
	h->speaks_2 = false;
	while (list_next(&list, &v))
		h->speaks_2 |= is_version_2(v);
}

static void take_capabilities(struct spop_hello *h, struct spop_str list)
{
	struct spop_str c;

	h->has_capabilities = true;
	h->pipelining = h->async = h->fragmentation = false;
	while (list_next(&list, &c)) {
		h->pipelining |= spop_str_is(c, "pipelining");
		h->async |= spop_str_is(c, "async");
		h->fragmentation |= spop_str_is(c, "fragmentation");
	}
}

static int take_item(struct spop_hello *h, struct spop_str name, const struct spop_data *d)
{
	if (spop_str_is(name, "supported-versions")) {
		if (d->type != SPOP_T_STR)
			return -SPOP_E_TYPE;
		take_versions(h, d->s);
	} else if (spop_str_is(name, "capabilities")) {
		if (d->type != SPOP_T_STR)
			return -SPOP_E_TYPE;
		take_capabilities(h, d->s);
	} else if (spop_str_is(name, "max-frame-size")) {
		if (d->type == SPOP_T_BOOL || !spop_data_int(d, &h->size))
			return -SPOP_E_TYPE;
		h->has_size = true;
	} else if (spop_str_is(name, "healthcheck")) {
		if (d->type != SPOP_T_BOOL)
			return -SPOP_E_TYPE;
		h->healthcheck = d->b;
	} else if (spop_str_is(name, "engine-id")) {
		if (d->type != SPOP_T_STR)
			return -SPOP_E_TYPE;
		h->engine_id = d->s;
	}
	return 0;
}

int spop_hello_get(struct spop_rd payload, struct spop_hello *h)
{
	struct spop_str name;
	struct spop_data d;
	int rc;

	*h = (struct spop_hello){ .has_size = false };
	while (payload.left)
		if ((rc = spop_get_kv(&payload, &name, &d)) < 0 || (rc = take_item(h, name, &d)) < 0)
			return rc;
	return 0;
}

int spop_hello_judge(const struct spop_hello *h, uint32_t ceiling, const char **text,
		     uint64_t *limit)
{
	int status = SPOP_STATUS_NORMAL;

	*limit = 0;
	*text = NULL;
	if (!h->has_versions) {
		status = SPOP_STATUS_NO_VERSION;
	} else if (!h->has_size) {
		status = SPOP_STATUS_NO_FRAME_SIZE;
	} else if (!h->has_capabilities) {
		status = SPOP_STATUS_NO_CAPABILITIES;
	} else if (!h->speaks_2) {
		status = SPOP_STATUS_BAD_VERSION;
		*text = "unsupported version: this agent speaks SPOP 2.0";
	} else if (h->size < SPOP_FRAME_MIN) {
		status = SPOP_STATUS_BAD_FRAME_SIZE;
		*limit = SPOP_FRAME_MIN;
		*text = "max-frame-size is below the smallest that SPOP allows";
	} else if (h->size > ceiling) {
		status = SPOP_STATUS_BAD_FRAME_SIZE;
		*limit = ceiling;
		*text = "max-frame-size is above what this agent is set up to take";
	}
	if (!*text)
		*text = spop_status_text(status);
	return status;
}

void spop_put_agent_hello(struct spop_wr *w, uint32_t frame_size)
{
	const struct spop_data version = {
		.type = SPOP_T_STR, .s = { OUR_VERSION, sizeof(OUR_VERSION) - 1 }
	};
	const struct spop_data capabilities = {
		.type = SPOP_T_STR, .s = { OUR_CAPABILITIES, sizeof(OUR_CAPABILITIES) - 1 }
	};
	const struct spop_data size = { .type = SPOP_T_UINT32, .i = frame_size };
	size_t start = spop_frame_begin(w, SPOP_FRAME_AGENT_HELLO, 0, 0);

	spop_put_str(w, "version", 7);
	spop_put_data(w, &version);
	spop_put_str(w, "max-frame-size", 14);
	spop_put_data(w, &size);
	spop_put_str(w, "capabilities", 12);
	spop_put_data(w, &capabilities);
	spop_frame_end(w, start);
}
