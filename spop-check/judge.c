/* judge.c - judge an agent's answer: bytes in, verdict out.
 *
 * There are two kinds of findings. Some hold for every case and are musts: an agent sends whole
 * frames of types that an agent may send, not above the agreed size, not fragmented, with readable
 * payloads, each ACK once and for a NOTIFY that was sent, and nothing after an AGENT-DISCONNECT.
 * The others compare the state of the connection with what the case expects, at the level of the
 * case.
 *
 * Silence is never right: a HAProxy that gets neither an ACK nor an end waits for its timeout, and
 * so does its client. */
#include <stdarg.h>
#include <string.h>

#include "spop-check/check_in.h"

#define LENGTH_BYTES	4u
#define STATUS_KNOWN	13
#define STATUS_UNKNOWN	99

#define must(v, ...)	check_find(v, CHECK_MUST, __VA_ARGS__)
#define should(v, ...)	check_find(v, CHECK_SHOULD, __VA_ARGS__)

/* One frame of a reply. */
struct frame {
	uint8_t type;
	uint32_t flags, length;
	uint64_t stream, frame;
	struct spop_rd payload;
};

/* The summary of a whole reply. */
struct reply {
	unsigned n_frames, n_hello, n_bye, n_ack[CHECK_IDS_MAX];
	int64_t status;			/* of the AGENT-DISCONNECT; -1: none, or unreadable */
	bool broken;			/* what follows cannot be parsed */
};

void check_find(struct check_verdict *v, enum check_level level, const char *fmt, ...)
{
	va_list ap;

	if (v == NULL || v->n == CHECK_FINDINGS_MAX || level == CHECK_NONE)
		return;
	v->f[v->n].level = level;
	va_start(ap, fmt);
	vsnprintf(v->f[v->n++].text, CHECK_TEXT_MAX, fmt, ap);
	va_end(ap);
}

enum check_level check_worst(const struct check_verdict *v)
{
	enum check_level worst = CHECK_NONE;
	unsigned i;

	for (i = 0; i < v->n; i++)
		if (v->f[i].level > worst)
			worst = v->f[i].level;
	return worst;
}

/* ---- frames ----------------------------------------------------------------------------- */

static uint32_t load_u32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Read the next frame of <r>. Returns 1 with <f>, 0 if it is incomplete, or -1 if it has no
 * header. */
static int next_frame(struct spop_rd *r, struct frame *f)
{
	struct spop_rd in;

	if (r->left < LENGTH_BYTES)
		return 0;
	f->length = load_u32(r->p);
	if (f->length > r->left - LENGTH_BYTES)
		return 0;
	in = (struct spop_rd){ r->p + LENGTH_BYTES, f->length };
	r->p += LENGTH_BYTES + f->length;
	r->left -= LENGTH_BYTES + f->length;
	if (in.left < 5)
		return -1;
	f->type = in.p[0];
	f->flags = load_u32(in.p + 1);
	in.p += 5;
	in.left -= 5;
	if (spop_get_varint(&in, &f->stream) < 0 || spop_get_varint(&in, &f->frame) < 0)
		return -1;
	f->payload = in;
	return 1;
}

static const char *type_name(uint8_t type)
{
	switch (type) {
	case CHECK_T_AGENT_HELLO: return "AGENT-HELLO";
	case CHECK_T_AGENT_DISCONNECT: return "AGENT-DISCONNECT";
	case CHECK_T_ACK: return "ACK";
	default: return "frame";
	}
}

/* ---- payloads --------------------------------------------------------------------------- */

static bool is_text(struct spop_str s, const char *text)
{
	return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

static bool get_kv(struct spop_rd *r, struct spop_str *name, struct spop_data *d)
{
	return spop_get_str(r, name) == 0 && spop_get_data(r, d) == 0;
}

/* SPOE.txt requires a UINT32 here; HAProxy accepts the other integers as well. */
static bool read_u32(const char *frame, const char *key, const struct spop_data *d, int64_t *out,
		     struct check_verdict *v)
{
	if (d->type == SPOP_T_BOOL || !spop_data_int(d, out)) {
		must(v, "%s: %s is no integer", frame, key);
		return false;
	}
	if (d->type != SPOP_T_UINT32)
		should(v, "%s: %s is an integer, but no UINT32", frame, key);
	return true;
}

/* Copy without surrounding spaces; invisible characters become '?'. */
static void copy_text(char *to, size_t cap, struct spop_str s)
{
	size_t i;

	while (s.n > 0 && s.p[0] == ' ') {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && s.p[s.n - 1] == ' ')
		s.n--;
	for (i = 0; i < s.n && i + 1 < cap; i++)
		to[i] = s.p[i] >= ' ' && s.p[i] < 0x7f ? s.p[i] : '?';
	to[i] = '\0';
}

/* Returns true if <word> is in the comma-separated <list>. */
static bool list_has(const char *list, const char *word)
{
	size_t n = strlen(word);
	const char *p;

	for (p = list; (p = strstr(p, word)) != NULL; p += n)
		if ((p == list || strchr(", ", p[-1]) != NULL) &&
		    (p[n] == '\0' || strchr(", ", p[n]) != NULL))
			return true;
	return false;
}

static void take_hello(struct spop_rd r, struct check_agent *a, struct check_verdict *v)
{
	bool has_version = false, has_size = false, has_capabilities = false;
	struct spop_str name;
	struct spop_data d;
	int64_t size = 0;

	*a = (struct check_agent){ .known = true };
	while (r.left > 0) {
		if (!get_kv(&r, &name, &d)) {
			must(v, "AGENT-HELLO: the payload is no list of keys and values");
			return;
		}
		if (is_text(name, "version") && (has_version = d.type == SPOP_T_STR))
			copy_text(a->version, sizeof(a->version), d.s);
		else if (is_text(name, "capabilities") && (has_capabilities = d.type == SPOP_T_STR))
			copy_text(a->capabilities, sizeof(a->capabilities), d.s);
		else if (is_text(name, "max-frame-size"))
			has_size = read_u32("AGENT-HELLO", "max-frame-size", &d, &size, v);
	}
	if (!has_version)
		must(v, "AGENT-HELLO: no version, or it is no string");
	else if (strcmp(a->version, "2.0") != 0)
		must(v, "AGENT-HELLO: version \"%s\"; HAProxy takes \"2.0\" and no other",
		     a->version);
	if (!has_size)
		must(v, "AGENT-HELLO: no max-frame-size");
	if (!has_capabilities)
		must(v, "AGENT-HELLO: no capabilities, or they are no string");
	a->size = size < 0 || size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
	a->can = (list_has(a->capabilities, "pipelining") ? CHECK_PIPELINING : 0) |
		 (list_has(a->capabilities, "fragmentation") ? CHECK_FRAGMENTATION : 0);
}

static void judge_hello_size(const struct check_plan *p, const struct check_agent *a,
			     struct check_verdict *v)
{
	uint32_t offered = check_offered(&p->c->hello);

	if (p->c->hello.odd & (CHECK_NO_SIZE | CHECK_SIZE_STR))
		return;
	if (a->size > offered)
		must(v, "AGENT-HELLO: max-frame-size %u is above the %u offered", a->size, offered);
	else if (a->size < SPOP_FRAME_MIN && offered >= SPOP_FRAME_MIN)
		must(v, "AGENT-HELLO: max-frame-size %u is below the smallest, 256", a->size);
	else if (a->size < offered && p->c->expect.echo)
		should(v,
		       "AGENT-HELLO: max-frame-size %u is below the %u offered: HAProxy 3.1 and later then "
		       "lose every longer NOTIFY",
		       a->size, offered);
}

/* Returns 0, or -1 if the list cannot be read. */
static int check_action(struct spop_rd *r, struct check_verdict *v)
{
	static const uint8_t n_args[] = { [1] = 3, [2] = 2 };
	struct spop_str name;
	struct spop_data d;
	uint8_t type, args, scope;

	if (r->left < 3)
		return -1;
	type = r->p[0];
	args = r->p[1];
	scope = r->p[2];
	r->p += 3;
	r->left -= 3;
	if (type != 1 && type != 2) {
		must(v, "ACK: action %u; there are set-var (1) and unset-var (2)", type);
		return -1;
	}
	if (args != n_args[type]) {
		must(v, "ACK: %s with %u arguments instead of %u",
		     type == 1 ? "set-var" : "unset-var", args, n_args[type]);
		return -1;
	}
	if (scope > 4)
		must(v, "ACK: scope %u; there are 0 (proc) to 4 (res)", scope);
	if (spop_get_str(r, &name) < 0 || (type == 1 && spop_get_data(r, &d) < 0))
		return -1;
	if (name.n == 0)
		must(v, "ACK: a variable without a name");
	return 0;
}

static void judge_actions(struct spop_rd r, struct check_verdict *v)
{
	while (r.left > 0) {
		if (check_action(&r, v) == 0)
			continue;
		must(v, "ACK: the list of actions cannot be read to its end");
		return;
	}
}

static int64_t take_bye(struct spop_rd r, struct check_verdict *v)
{
	bool has_status = false, has_message = false;
	struct spop_str name;
	struct spop_data d;
	int64_t status = -1;

	while (r.left > 0) {
		if (!get_kv(&r, &name, &d)) {
			must(v, "AGENT-DISCONNECT: the payload is no list of keys and values");
			return status;
		}
		if (is_text(name, "status-code"))
			has_status = read_u32("AGENT-DISCONNECT", "status-code", &d, &status, v);
		else if (is_text(name, "message"))
			has_message = d.type == SPOP_T_STR;
	}
	if (!has_status)
		must(v, "AGENT-DISCONNECT: no status-code");
	else if (status < 0 || (status > STATUS_KNOWN && status != STATUS_UNKNOWN))
		should(v, "AGENT-DISCONNECT: status-code %lld is none SPOE.txt knows",
		       (long long)status);
	if (!has_message)
		must(v, "AGENT-DISCONNECT: no message, or it is no string");
	return status;
}

/* ---- a sequence of frames --------------------------------------------------------------- */

static void take_ack(const struct check_plan *p, const struct frame *f, struct reply *r,
		     struct check_verdict *v)
{
	unsigned i;

	judge_actions(f->payload, v);
	for (i = 0; i < p->n_ids; i++)
		if (p->ids[i].stream == f->stream && p->ids[i].frame == f->frame)
			break;
	if (i == p->n_ids) {
		must(v,
		     "ACK of stream %llu, frame %llu: no such NOTIFY was sent on this connection",
		     (unsigned long long)f->stream, (unsigned long long)f->frame);
		return;
	}
	if (p->ids[i].ack == CHECK_NONE)
		must(v, "ACK of stream %llu, frame %llu, which must not be ACKed",
		     (unsigned long long)f->stream, (unsigned long long)f->frame);
	if (r->n_ack[i]++ == 1)
		must(v, "stream %llu, frame %llu was ACKed more than once",
		     (unsigned long long)f->stream, (unsigned long long)f->frame);
}

static void take_frame(const struct check_plan *p, const struct frame *f, struct reply *r,
    uint32_t *limit, struct check_verdict *v)
{
	struct check_agent a;

	r->n_frames++;
	if (r->n_bye > 0)
		must(v, "%s after AGENT-DISCONNECT", type_name(f->type));
	if (f->length > *limit)
		must(v, "%s of %u bytes, above the agreed %u", type_name(f->type), f->length,
		     *limit);
	if (!(f->flags & CHECK_F_FIN))
		must(v, "%s without FIN: HAProxy takes no fragments", type_name(f->type));
	if (f->flags & ~(uint32_t)CHECK_F_FIN)
		should(v, "%s with flags %08x: only FIN has a meaning here", type_name(f->type),
		       f->flags);
	if (f->type != CHECK_T_ACK && (f->stream != 0 || f->frame != 0))
		must(v, "%s with stream-id %llu, frame-id %llu instead of 0, 0", type_name(f->type),
		     (unsigned long long)f->stream, (unsigned long long)f->frame);
	switch (f->type) {
	case CHECK_T_AGENT_HELLO:
		if (r->n_hello++ > 0)
			should(v, "more than one AGENT-HELLO");
		take_hello(f->payload, &a, v);
		judge_hello_size(p, &a, v);
		if (a.size >= SPOP_FRAME_MIN && a.size < *limit)
			*limit = a.size;
		break;
	case CHECK_T_AGENT_DISCONNECT:
		r->n_bye++;
		r->status = take_bye(f->payload, v);
		break;
	case CHECK_T_ACK:
		if (r->n_hello == 0 && !(p->c->hello.odd & CHECK_NO_HELLO))
			must(v, "ACK before AGENT-HELLO");
		take_ack(p, f, r, v);
		break;
	default:
		must(v, "a frame of type %u, which no agent sends", f->type);
	}
}

/* Returns HAProxy's limit before the handshake ends; if a HELLO offers no valid size, the usual
 * one. */
static uint32_t first_limit(const struct check_plan *p)
{
	uint32_t offered = check_offered(&p->c->hello);

	return offered < SPOP_FRAME_MIN ? CHECK_FRAME_SIZE : offered;
}

static void take_reply(const struct check_plan *p, const struct check_seen *s, struct reply *r,
		       struct check_verdict *v)
{
	struct spop_rd in = { s->p, s->n };
	uint32_t limit = first_limit(p);
	struct frame f;
	int rc;

	*r = (struct reply){ .status = -1 };
	while ((rc = next_frame(&in, &f)) > 0)
		take_frame(p, &f, r, &limit, v);
	if (rc < 0)
		must(v, "a frame of %u bytes that has no readable header", f.length);
	else if (in.left >= LENGTH_BYTES && load_u32(in.p) > limit)
		must(v, "a frame of %u bytes is announced, above the agreed %u", load_u32(in.p),
		     limit);
	else if (in.left > 0)
		must(v, "the last frame is not all here: %zu bytes of it", in.left);
	r->broken = rc < 0 || in.left > 0;
}

/* ---- the state of the connection -------------------------------------------------------- */

static const char *end_words(enum check_end end)
{
	return end == CHECK_WAS_RESET ? "the agent reset the connection" :
	       end == CHECK_CLOSED ? "the agent closed the connection" : "the connection stayed open";
}

static void judge_acks(const struct check_plan *p, const struct reply *r, enum check_level level,
		       struct check_verdict *v)
{
	unsigned i;

	for (i = 0; i < p->n_ids; i++) {
		if (p->ids[i].ack != CHECK_MUST || r->n_ack[i] > 0)
			continue;
		check_find(v, level, "no ACK of stream %llu, frame %llu%s: HAProxy waits until its timeout",
			   (unsigned long long)p->ids[i].stream, (unsigned long long)p->ids[i].frame,
			   p->ids[i].stream == CHECK_PROBE_STREAM ? " (a plain NOTIFY after it)" : "");
		return;		/* one finding is enough */
	}
}

static void judge_served(const struct check_plan *p, const struct check_seen *s,
    const struct reply *r, enum check_level level, struct check_verdict *v)
{
	if (r->n_bye > 0)
		check_find(v, level, "AGENT-DISCONNECT, status %lld, where the connection must go on",
			   (long long)r->status);
	else if (s->end != CHECK_OPEN)
		check_find(v, level, "%s, which must go on", end_words(s->end));
	judge_acks(p, r, level, v);
}

static bool status_fits(const struct check_expect *e, int64_t status)
{
	unsigned i;

	for (i = 0; i < e->n_status; i++)
		if (e->status[i] == status)
			return true;
	return e->n_status == 0;
}

static void judge_ended(const struct check_plan *p, const struct check_seen *s,
    const struct reply *r, enum check_level level, struct check_verdict *v)
{
	const struct check_expect *e = &p->c->expect;

	if (e->acked)
		judge_acks(p, r, level, v);
	if (s->end == CHECK_OPEN)
		check_find(v, level, "%sthe connection stayed open",
			   r->n_bye > 0 ? "AGENT-DISCONNECT came, but " : "");
	if (r->n_bye == 0)
		check_find(v, e->disconnect < level ? e->disconnect : level,
			   "no AGENT-DISCONNECT came; %s", end_words(s->end));
	else if (r->status >= 0 && !status_fits(e, r->status))
		should(v, "AGENT-DISCONNECT has status %lld (%s) instead of %u (%s)",
		       (long long)r->status, spop_status_text((int)r->status), e->status[0],
		       spop_status_text(e->status[0]));
}

/* Returns true if the connection ended in one of the two ways. */
static bool has_ended(const struct check_seen *s, const struct reply *r)
{
	return s->end != CHECK_OPEN || r->n_bye > 0;
}

void check_judge(const struct check_plan *p, const struct check_seen *s, struct check_verdict *v)
{
	const struct check_expect *e = &p->c->expect;
	enum check_level level = p->c->level;
	struct reply r;

	take_reply(p, s, &r, v);
	if (e->hello == CHECK_HELLO_YES && r.n_hello == 0 && !(p->c->hello.odd & CHECK_NO_HELLO)) {
		check_find(v, level, "no AGENT-HELLO came; %s", end_words(s->end));
		if (r.n_bye == 0)
			return;
	}
	if (e->hello == CHECK_HELLO_NO && r.n_hello > 0)
		check_find(v, level, "AGENT-HELLO, where the agent must refuse");
	if (e->in_one && r.n_hello > 0 && s->first < LENGTH_BYTES)
		should(v,
		       "the length word of AGENT-HELLO came in pieces, the first of %zu bytes: HAProxy 3.2 "
		       "then loses requests",
		       s->first);
	switch (e->outcome) {
	case CHECK_SERVED:
		judge_served(p, s, &r, level, v);
		break;
	case CHECK_ENDED:
		judge_ended(p, s, &r, level, v);
		break;
	case CHECK_EITHER:
		if (has_ended(s, &r))
			judge_ended(p, s, &r, level, v);
		else
			judge_served(p, s, &r, level, v);
		if (e->rather_ended && !has_ended(s, &r))
			should(v, "the agent went on, where it should end the connection");
		break;
	}
}

/* ---- whether to wait for more ----------------------------------------------------------- */

/* Returns true if nothing after this can be parsed. */
static bool is_hopeless(const struct spop_rd *rest, int rc)
{
	return rc < 0 || (rest->left >= LENGTH_BYTES && load_u32(rest->p) > CHECK_BYTES_MAX);
}

bool check_hello_settled(const struct check_seen *s)
{
	struct spop_rd in = { s->p, s->n };
	struct frame f;
	int rc;

	if (s->end != CHECK_OPEN)
		return true;
	rc = next_frame(&in, &f);
	return rc > 0 ? f.type != CHECK_T_AGENT_DISCONNECT : is_hopeless(&in, rc);
}

bool check_body_settled(const struct check_plan *p, const struct check_seen *s)
{
	struct spop_rd in = { s->p, s->n };
	bool acked[CHECK_IDS_MAX] = { false };
	struct frame f;
	unsigned i;
	int rc;

	if (s->end != CHECK_OPEN)
		return true;
	while ((rc = next_frame(&in, &f)) > 0) {
		if (f.type == CHECK_T_AGENT_DISCONNECT)
			return false;	/* the end must follow */
		for (i = 0; f.type == CHECK_T_ACK && i < p->n_ids; i++)
			acked[i] |= p->ids[i].stream == f.stream && p->ids[i].frame == f.frame;
	}
	if (is_hopeless(&in, rc))
		return true;
	if (in.left > 0 || (p->c->expect.outcome == CHECK_ENDED && !p->more))
		return false;
	for (i = 0; i < p->n_ids; i++)
		if (p->ids[i].ack == CHECK_MUST && !acked[i])
			return false;
	return true;
}

bool check_agent_read(const struct check_seen *s, struct check_agent *a)
{
	struct spop_rd in = { s->p, s->n };
	struct frame f;

	*a = (struct check_agent){ .known = false };
	if (next_frame(&in, &f) <= 0 || f.type != CHECK_T_AGENT_HELLO)
		return false;
	take_hello(f.payload, a, NULL);
	return true;
}
