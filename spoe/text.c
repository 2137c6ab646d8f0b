/* text.c - SPOP as text: statuses, errors, and one frame as one line.
 *
 * The line shows the fields that steer a request and hides its content: strings of up to 40
 * bytes and all numbers are shown; of longer strings and every BIN value, such as a body, only
 * the length. Strings are quoted and escaped, so that a hostile one cannot end the line or
 * imitate a field. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>

#include "spoe/wire.h"

/* Longer strings are shown by their length. Strings of the protocol itself (versions, the text of a
 * DISCONNECT) hold no user data and may be longer. */
#define SHOWN_MAX		40u
#define SHOWN_MAX_PROTOCOL	120u

const char *spop_status_text(int status)
{
	switch (status) {
#define X(name, number, text) case number: return text;
	SPOP_STATUS_LIST(X)
#undef X
	default:
		return "a status SPOP does not define";
	}
}

const char *spop_error_text(int error)
{
	switch (error < 0 ? -(unsigned)error : (unsigned)error) {
	case SPOP_E_NONE:
		return "no error";
#define X(name, text) case SPOP_E_##name: return text;
	SPOP_E_LIST(X)
#undef X
	default:
		return "an unknown error";
	}
}

/* Append like snprintf(): <n> counts all characters, also those that did not fit. It stays below
 * INT_MAX because the size of a frame bounds its text. */
struct text { char *p; size_t n, cap; size_t shown_max; };

__attribute__((format(printf, 2, 3)))
static void add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->n < t->cap ? t->p + t->n : NULL, t->n < t->cap ? t->cap - t->n : 0, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->n += (size_t)n;
}

/* Print a string with quotes or a name without; escape characters that could be misread. */
static void add_bytes(struct text *t, struct spop_str s, bool quoted)
{
	size_t i;
	uint8_t b;

	if (s.n > t->shown_max) {
		add(t, "str:%zu", s.n);
		return;
	}
	if (quoted)
		add(t, "\"");
	for (i = 0; i < s.n; i++) {
		b = (uint8_t)s.p[i];
		if (b < ' ' || b > '~' || b == '"' || b == '\\' || (!quoted && (b == ' ' || b == '=')))
			add(t, "\\x%02x", b);
		else
			add(t, "%c", b);
	}
	if (quoted)
		add(t, "\"");
}

static void add_data(struct text *t, const struct spop_data *d)
{
	char ip[INET6_ADDRSTRLEN];

	switch (d->type) {
	case SPOP_T_NULL:
		add(t, "null");
		break;
	case SPOP_T_BOOL:
		add(t, d->b ? "true" : "false");
		break;
	case SPOP_T_INT32:
		add(t, "int32:%lld", (long long)d->i);
		break;
	case SPOP_T_UINT32:
		add(t, "uint32:%lld", (long long)d->i);
		break;
	case SPOP_T_INT64:
		add(t, "int64:%lld", (long long)d->i);
		break;
	case SPOP_T_UINT64:
		add(t, "uint64:%llu", (unsigned long long)d->u);
		break;
	case SPOP_T_IPV4:
	case SPOP_T_IPV6:
		inet_ntop(d->type == SPOP_T_IPV4 ? AF_INET : AF_INET6, d->ip, ip, sizeof(ip));
		add(t, "%s", ip);
		break;
	case SPOP_T_STR:
		add_bytes(t, d->s, true);
		break;
	case SPOP_T_BIN:
		add(t, "bin:%zu", d->s.n);
		break;
	}
}

static void add_kv(struct text *t, struct spop_str name, const struct spop_data *d)
{
	add(t, " ");
	add_bytes(t, name, false);
	add(t, "=");
	add_data(t, d);
}

static int add_kv_list(struct text *t, struct spop_rd r)
{
	struct spop_str name;
	struct spop_data d;
	int rc;

	while (r.left) {
		if ((rc = spop_get_kv(&r, &name, &d)) < 0)
			return rc;
		add_kv(t, name, &d);
	}
	return 0;
}

static int add_messages(struct text *t, struct spop_rd r)
{
	struct spop_message m;
	struct spop_str name;
	struct spop_data d;
	int rc;

	while ((rc = spop_message_next(&r, &m)) > 0) {
		add(t, " msg=");
		add_bytes(t, m.name, false);
		while (spop_arg_next(&m, &name, &d))
			add_kv(t, name, &d);
	}
	return rc;
}

static int add_actions(struct text *t, struct spop_rd r)
{
	static const char *const scopes[] = { "proc", "sess", "txn", "req", "res" };
	uint8_t action, n_args, scope;
	struct spop_str name;
	struct spop_data d;
	int rc;

	while (r.left) {
		if ((rc = spop_get_u8(&r, &action)) < 0 || (rc = spop_get_u8(&r, &n_args)) < 0 ||
		    (rc = spop_get_u8(&r, &scope)) < 0 || (rc = spop_get_str(&r, &name)) < 0)
			return rc;
		if (!(action == SPOP_ACTION_SET && n_args == 3) &&
		    !(action == SPOP_ACTION_UNSET && n_args == 2))
			return -SPOP_E_TYPE;
		if (scope >= sizeof(scopes) / sizeof(scopes[0]))
			return -SPOP_E_RANGE;
		add(t, " %s %s.", action == SPOP_ACTION_SET ? "set" : "unset", scopes[scope]);
		add_bytes(t, name, false);
		if (action == SPOP_ACTION_UNSET)
			continue;
		if ((rc = spop_get_data(&r, &d)) < 0)
			return rc;
		add(t, "=");
		add_data(t, &d);
	}
	return 0;
}

static const char *frame_name(uint8_t type)
{
	switch (type) {
	case SPOP_FRAME_UNSET:			return "UNSET";
	case SPOP_FRAME_HAPROXY_HELLO:		return "HAPROXY-HELLO";
	case SPOP_FRAME_HAPROXY_DISCONNECT:	return "HAPROXY-DISCONNECT";
	case SPOP_FRAME_NOTIFY:			return "NOTIFY";
	case SPOP_FRAME_AGENT_HELLO:		return "AGENT-HELLO";
	case SPOP_FRAME_AGENT_DISCONNECT:	return "AGENT-DISCONNECT";
	case SPOP_FRAME_ACK:			return "ACK";
	default:				return NULL;
	}
}

static int add_payload(struct text *t, const struct spop_frame *f)
{
	if (f->type == SPOP_FRAME_UNSET || !(f->flags & SPOP_FLAG_FIN) || !frame_name(f->type)) {
		add(t, " payload=%zu", f->payload.left);
		return 0;
	}
	if (f->type == SPOP_FRAME_NOTIFY)
		return add_messages(t, f->payload);
	if (f->type == SPOP_FRAME_ACK)
		return add_actions(t, f->payload);
	t->shown_max = SHOWN_MAX_PROTOCOL;
	return add_kv_list(t, f->payload);
}

int spop_frame_print(const uint8_t *frame, size_t n, char *out, size_t cap)
{
	struct text t = { out, 0, cap, SHOWN_MAX };
	struct spop_frame f;
	int rc;

	if (cap)
		out[0] = '\0';
	if ((rc = spop_frame_get(frame, n, &f)) < 0) {
		add(&t, "? length=%zu", n);
	} else {
		if (frame_name(f.type))
			add(&t, "%s", frame_name(f.type));
		else
			add(&t, "type-%u", f.type);
		add(&t, " stream=%llu frame=%llu", (unsigned long long)f.stream_id,
		    (unsigned long long)f.frame_id);
		if (f.flags & SPOP_FLAG_FIN)
			add(&t, " fin");
		if (f.flags & SPOP_FLAG_ABORT)
			add(&t, " abort");
		rc = add_payload(&t, &f);
	}
	if (rc < 0)
		add(&t, " bad=\"%s\"", spop_error_text(rc));
	return (int)t.n;
}
