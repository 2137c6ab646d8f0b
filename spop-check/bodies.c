/* bodies.c - the frames after the HELLO, one function for each case. NOTIFYs with special content
 * are in notify.c.
 *
 * A function writes to <p->body> and adds every NOTIFY to <p->ids>, with whether it must be ACKed.
 * Bytes that no writer can produce are written as bytes. */
#include <assert.h>
#include <string.h>

#include "spop-check/bodies_in.h"

/* ---- pieces ----------------------------------------------------------------------------- */

void check_note(struct check_plan *p, uint64_t stream, uint64_t frame, enum check_level ack)
{
	assert(p->n_ids < CHECK_IDS_MAX);
	p->ids[p->n_ids++] = (struct check_id){ stream, frame, ack };
}

size_t check_notify_begin(struct check_plan *p, uint64_t stream, uint64_t frame)
{
	check_note(p, stream, frame, CHECK_MUST);
	return check_frame_begin(&p->body, CHECK_T_NOTIFY, CHECK_F_FIN, stream, frame);
}

void check_put_own(struct check_plan *p)
{
	size_t room = p->agreed > CHECK_HEADER_MAX ? p->agreed - CHECK_HEADER_MAX : 0;

	check_put_message(&p->body, p->message, room);
}

void check_notify(struct check_plan *p, uint64_t stream, uint64_t frame)
{
	size_t start = check_notify_begin(p, stream, frame);

	check_put_own(p);
	check_frame_end(&p->body, start);
}

/* Write the name of the message and the number of its arguments. */
void check_message_head(struct check_plan *p, uint8_t n_args)
{
	spop_put_str(&p->body, p->message->name, strlen(p->message->name));
	check_put_u8(&p->body, n_args);
}

/* Write a frame that needs no ACK, with a payload of <n> bytes. */
static void put_frame(struct check_plan *p, uint8_t type, uint32_t flags, uint64_t stream,
    uint64_t id, const void *payload, size_t n)
{
	size_t start = check_frame_begin(&p->body, type, flags, stream, id);

	check_put_bytes(&p->body, payload, n);
	check_frame_end(&p->body, start);
}

/* ---- frames ----------------------------------------------------------------------------- */

void check_body_frame_unknown(struct check_plan *p)
{
	put_frame(p, 42, CHECK_F_FIN, 1, 1, "whatever", 8);
}

void check_body_frame_unknown_255(struct check_plan *p)
{
	put_frame(p, 255, CHECK_F_FIN, 0, 0, "", 0);
}

void check_body_frame_agents(struct check_plan *p)
{
	put_frame(p, CHECK_T_ACK, CHECK_F_FIN, 1, 1, "", 0);
}

void check_body_frame_reserved_flags(struct check_plan *p)
{
	size_t start;

	check_note(p, 1, 1, CHECK_MUST);
	start = check_frame_begin(&p->body, CHECK_T_NOTIFY, 0xfffffffcu | CHECK_F_FIN, 1, 1);
	check_put_own(p);
	check_frame_end(&p->body, start);
}

void check_body_frame_abort_flag(struct check_plan *p)
{
	size_t start;

	check_note(p, 1, 1, CHECK_SHOULD);
	start = check_frame_begin(&p->body, CHECK_T_NOTIFY, CHECK_F_FIN | CHECK_F_ABORT, 1, 1);
	check_put_own(p);
	check_frame_end(&p->body, start);
}

static void bare_frame(struct check_plan *p, uint32_t length, size_t n)
{
	check_put_u32(&p->body, length);
	check_put_fill(&p->body, CHECK_T_NOTIFY, n);
}

void check_body_frame_length_0(struct check_plan *p)
{
	bare_frame(p, 0, 0);
}

void check_body_frame_length_1(struct check_plan *p)
{
	bare_frame(p, 1, 1);
}

void check_body_frame_length_6(struct check_plan *p)
{
	bare_frame(p, 6, 6);
}

void check_body_frame_length_max(struct check_plan *p)
{
	bare_frame(p, UINT32_MAX, 64);
}

/* A length that is negative if it is read as a signed number. */
void check_body_frame_length_sign(struct check_plan *p)
{
	bare_frame(p, 0x80000000u, 64);
}

void check_body_frame_http(struct check_plan *p)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

	check_put_bytes(&p->body, request, sizeof(request) - 1);
}

static void frame_of_ids(struct check_plan *p, const void *ids, size_t n)
{
	size_t start = p->body.n;

	check_put_u32(&p->body, 0);
	check_put_u8(&p->body, CHECK_T_NOTIFY);
	check_put_u32(&p->body, CHECK_F_FIN);
	check_put_bytes(&p->body, ids, n);
	check_frame_end(&p->body, start);
}

void check_body_frame_id_eleven(struct check_plan *p)
{
	static const uint8_t ids[] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x01, 0x00
	};

	frame_of_ids(p, ids, sizeof(ids));
}

void check_body_frame_id_endless(struct check_plan *p)
{
	uint8_t ids[128];

	memset(ids, 0xff, sizeof(ids));
	frame_of_ids(p, ids, sizeof(ids));
}

void check_body_frame_id_cut(struct check_plan *p)
{
	frame_of_ids(p, "\xf0\x80", 2);
}

void check_body_frame_half(struct check_plan *p)
{
	check_notify(p, 1, 1);
	p->body.n -= p->body.n / 2;
	p->n_ids = 0;
}

/* ---- ids -------------------------------------------------------------------------------- */

/* HAProxy 2.6 and 3.0 count streams from 0. */
void check_body_ids_zero(struct check_plan *p)
{
	check_notify(p, 0, 1);
}

void check_body_ids_edges(struct check_plan *p)
{
	static const uint64_t edges[] = {
		239, 240, 2287, 2288, 264431, 264432, 33818863, 33818864,
		4294967295, 4294967296, 4328786159, 4328786160
	};

	check_notify(p, edges[p->round], edges[p->round]);
}

void check_body_ids_largest(struct check_plan *p)
{
	check_notify(p, p->round ? (uint64_t)1 << 63 : UINT64_MAX, 1);
}

void check_body_ids_frames(struct check_plan *p)
{
	check_notify(p, 1, p->round + 1);
}

/* ---- streams ---------------------------------------------------------------------------- */

void check_body_streams_interleaved(struct check_plan *p)
{
	check_notify(p, 7, 1);
	check_notify(p, 3, 1);
	check_notify(p, 7, 2);
	check_notify(p, 1, 1);
	check_notify(p, 3, 2);
}

void check_body_streams_20(struct check_plan *p)
{
	unsigned i;

	for (i = 0; i < 20; i++)
		check_notify(p, 2 * i + 1, 1);
}

void check_body_streams_coalesced(struct check_plan *p)
{
	check_notify(p, 1, 1);
	check_notify(p, 3, 1);
	check_notify(p, 5, 1);
}

/* ---- order ------------------------------------------------------------------------------ */

void check_body_hello_again(struct check_plan *p)
{
	check_put_hello(&p->body, &p->c->hello);
}

void check_body_first_notify(struct check_plan *p)
{
	check_notify(p, 1, 1);
	p->ids[0].ack = CHECK_NONE;
}

void check_body_unset_first(struct check_plan *p)
{
	put_frame(p, CHECK_T_UNSET, CHECK_F_FIN, 1, 1, "x", 1);
}

/* ---- fragments: HAProxy up to 3.0, if the agent announces them -------------------------- */

/* Write parts <from> to <to> of the message in <n> frames of about the same size. */
static void put_fragments(
    struct check_plan *p, uint64_t stream, unsigned n, unsigned from, unsigned to)
{
	uint8_t whole[CHECK_FRAME_SIZE];
	struct spop_wr w = { whole, 0, sizeof(whole), false };
	size_t at, end;
	unsigned i;

	check_put_message(&w, p->message, 4096);
	for (i = from; i < to; i++) {
		at = w.n * i / n;
		end = w.n * (i + 1) / n;
		put_frame(p, i ? CHECK_T_UNSET : CHECK_T_NOTIFY, i == n - 1 ? CHECK_F_FIN : 0, stream, 1,
		      whole + at, end - at);
	}
}

void check_body_fragments_three(struct check_plan *p)
{
	check_note(p, 1, 1, CHECK_MUST);
	put_fragments(p, 1, 3, 0, 3);
}

/* A byte or two in each frame. */
void check_body_fragments_bytes(struct check_plan *p)
{
	check_note(p, 1, 1, CHECK_MUST);
	put_fragments(p, 1, 12, 0, 12);
}

void check_body_fragments_abort(struct check_plan *p)
{
	check_note(p, 1, 1, CHECK_NONE);
	put_fragments(p, 1, 3, 0, 2);
	put_frame(p, CHECK_T_UNSET, CHECK_F_FIN | CHECK_F_ABORT, 1, 1, "", 0);
}

void check_body_fragments_interleaved(struct check_plan *p)
{
	unsigned i;

	check_note(p, 1, 1, CHECK_MUST);
	check_note(p, 3, 1, CHECK_MUST);
	for (i = 0; i < 3; i++) {
		put_fragments(p, 1, 3, i, i + 1);
		put_fragments(p, 3, 3, i, i + 1);
	}
}

void check_body_fragments_between(struct check_plan *p)
{
	check_note(p, 1, 1, CHECK_MUST);
	put_fragments(p, 1, 2, 0, 1);
	check_notify(p, 3, 1);
	put_fragments(p, 1, 2, 1, 2);
}

void check_body_fragments_orphan(struct check_plan *p)
{
	check_note(p, 9, 1, CHECK_NONE);
	put_frame(p, CHECK_T_UNSET, CHECK_F_FIN, 9, 1, "abc", 3);
}

void check_body_fragments_open_twice(struct check_plan *p)
{
	check_note(p, 1, 1, CHECK_NONE);
	put_fragments(p, 1, 3, 0, 1);
	put_fragments(p, 1, 3, 0, 1);
}

void check_body_fragments_unannounced(struct check_plan *p)
{
	check_note(p, 1, 1, CHECK_SHOULD);
	put_fragments(p, 1, 2, 0, 1);
}

/* ---- the end ---------------------------------------------------------------------------- */

void check_body_bye(struct check_plan *p)
{
	check_put_disconnect(&p->body, 0, "normal");
}

void check_body_bye_after_notify(struct check_plan *p)
{
	check_notify(p, 1, 1);
	p->ids[0].ack = CHECK_SHOULD;
	check_put_disconnect(&p->body, 0, "normal");
}

void check_body_bye_timeout(struct check_plan *p)
{
	check_put_disconnect(&p->body, 2, "a timeout occurred");
}

void check_body_bye_odd_status(struct check_plan *p)
{
	check_put_disconnect(&p->body, 77, "a status of its own");
}

void check_body_bye_empty(struct check_plan *p)
{
	put_frame(p, CHECK_T_HAPROXY_DISCONNECT, CHECK_F_FIN, 0, 0, "", 0);
}

void check_body_bye_fragments(struct check_plan *p)
{
	check_note(p, 1, 1, CHECK_NONE);
	put_fragments(p, 1, 3, 0, 1);
	check_put_disconnect(&p->body, 10, "fragmentation not supported");
}

void check_body_bye_then_notify(struct check_plan *p)
{
	check_put_disconnect(&p->body, 0, "normal");
	check_notify(p, 1, 1);
	p->ids[0].ack = CHECK_SHOULD;
}
