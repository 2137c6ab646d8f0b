/* bodies_in.h - the functions that write what follows the HELLO, for the table of cases.c. */
#ifndef SPOP_CHECK_BODIES_IN_H
#define SPOP_CHECK_BODIES_IN_H

#include "spop-check/check_in.h"

#define CHECK_BODIES(X) \
	X(notify_one) \
	X(notify_empty) X(notify_unknown) X(notify_many) X(notify_no_args) X(notify_255_args) X( \
	    notify_no_arg_name) X(notify_no_arg_names) X(notify_not_utf8) X(notify_nul) \
	    X(notify_same_name) X(nb_args_more) X(nb_args_fewer) X(nb_args_255) X(name_beyond) X( \
		name_2_64) X(value_beyond) X(value_2_64) X(varint_long) X(reserved_type) \
		X(name_empty) X(message_cut) X(random_payload) X(type_null) X(type_bool) X( \
		    type_int32) X(type_uint32) X(type_int64) X(type_uint64) X(type_ipv4) \
		    X(type_ipv6) X(type_str) X(type_bin) X(type_all) X(type_flags) X( \
			type_lengths) X(frame_unknown) X(frame_unknown_255) X(frame_agents) \
			X(frame_reserved_flags) X(frame_abort_flag) X(frame_length_0) X( \
			    frame_length_1) X(frame_length_6) X(frame_length_max) \
			    X(frame_length_sign) X(frame_http) X(frame_above) X(frame_at_size) X( \
				frame_id_eleven) X(frame_id_endless) X(frame_id_cut) X(frame_half) \
				X(ids_zero) X(ids_edges) X(ids_largest) X(ids_frames) \
				    X(streams_interleaved) X(streams_20) X(streams_coalesced) \
					X(hello_again) X(first_notify) X(unset_first) X( \
					    fragments_three) X(fragments_bytes) X(fragments_abort) \
					    X(fragments_interleaved) X(fragments_between) X( \
						fragments_orphan) X(fragments_unannounced) \
						X(fragments_open_twice) X(bye) X(bye_after_notify) \
						    X(bye_timeout) X(bye_odd_status) X(bye_empty) \
							X(bye_fragments) X(bye_then_notify)

/* ---- pieces for bodies.c and notify.c --------------------------------------------------- */

#define CHECK_HEADER_MAX	25u	/* type, flags, two ids of 10 bytes */

void check_note(struct check_plan *p, uint64_t stream, uint64_t frame, enum check_level ack);
/* Begin a NOTIFY that must be ACKed, up to its payload; check_frame_end() ends it. */
size_t check_notify_begin(struct check_plan *p, uint64_t stream, uint64_t frame);
/* Write the user's message; write a NOTIFY with it. */
void check_put_own(struct check_plan *p);
void check_notify(struct check_plan *p, uint64_t stream, uint64_t frame);
/* Write the name of the message and the number of its arguments. */
void check_message_head(struct check_plan *p, uint8_t n_args);

#define X(name) void check_body_##name(struct check_plan *p);
CHECK_BODIES(X)
#undef X

#endif
