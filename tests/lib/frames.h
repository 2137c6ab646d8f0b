/* frames.h - frames as HAProxy sends them, for benches: HELLO, a request to route, and its end. */
#ifndef KVROUTE_TESTS_LIB_FRAMES_H
#define KVROUTE_TESTS_LIB_FRAMES_H

#include <string.h>

#include "spoe/wire.h"

static inline void put_arg(struct spop_wr *w, const char *name, const char *p, size_t n,
			   enum spop_type type)
{
	struct spop_data d = { .type = type, .s = { p, n } };

	spop_put_str(w, name, strlen(name));
	spop_put_data(w, &d);
}

static inline void put_int(struct spop_wr *w, const char *name, int64_t v, enum spop_type type)
{
	struct spop_data d = { .type = type, .i = v };

	spop_put_str(w, name, strlen(name));
	spop_put_data(w, &d);
}

static inline void put_message(struct spop_wr *w, const char *name, uint8_t n_args)
{
	spop_put_str(w, name, strlen(name));
	spop_put_u8(w, n_args);
}

static inline void put_hello(struct spop_wr *w, uint32_t frame_size)
{
	size_t start = spop_frame_begin(w, SPOP_FRAME_HAPROXY_HELLO, 0, 0);

	put_arg(w, "supported-versions", "2.0", 3, SPOP_T_STR);
	put_int(w, "max-frame-size", frame_size, SPOP_T_UINT32);
	put_arg(w, "capabilities", "pipelining", 10, SPOP_T_STR);
	spop_frame_end(w, start);
}

/* The message "route" for a pool of four idle servers, with <n> bytes of a body of <all>: slice
 * <seq>, or the whole body if it is -1. */
static inline void put_body(struct spop_wr *w, const char *uid, const char *path, int seq,
			    const char *body, size_t n, size_t all)
{
	static const char load[] = "lb/1;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1";
	size_t start = spop_frame_begin(w, SPOP_FRAME_NOTIFY, 1, seq < 0 ? 1 : (unsigned)seq + 1);

	put_message(w, "route", seq < 0 ? 7 : 8);
	put_arg(w, "uid", uid, strlen(uid), SPOP_T_STR);
	put_arg(w, "pool", "pool", 4, SPOP_T_STR);
	put_arg(w, "load", load, sizeof(load) - 1, SPOP_T_STR);
	put_arg(w, "path", path, strlen(path), SPOP_T_STR);
	put_int(w, "blen", (int64_t)all, SPOP_T_INT64);
	put_int(w, "bsize", (int64_t)all, SPOP_T_INT64);
	put_arg(w, "body", body, n, SPOP_T_BIN);
	if (seq >= 0)
		put_int(w, "seq", seq, SPOP_T_INT64);
	spop_frame_end(w, start);
}

static inline void put_route(struct spop_wr *w, const char *uid, const char *path,
			     const char *body, size_t n)
{
	put_body(w, uid, path, -1, body, n, n);
}

static inline void put_slice(struct spop_wr *w, const char *uid, const char *path, unsigned seq,
			     const char *body, size_t n, size_t all)
{
	put_body(w, uid, path, (int)seq, body, n, all);
}

/* The message "done": its answer was good. */
static inline void put_done(struct spop_wr *w, const char *uid)
{
	size_t start = spop_frame_begin(w, SPOP_FRAME_NOTIFY, 2, 1);

	put_message(w, "done", 4);
	put_arg(w, "uid", uid, strlen(uid), SPOP_T_STR);
	put_arg(w, "ts", "--", 2, SPOP_T_STR);
	put_int(w, "st", 200, SPOP_T_INT64);
	put_int(w, "tr", 5, SPOP_T_INT64);
	spop_frame_end(w, start);
}

#endif
