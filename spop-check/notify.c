/* notify.c - NOTIFYs after the HELLO: messages, typed data, inconsistent payloads, exact sizes. One
 * function for each case, as in bodies.c. */
#include <string.h>

#include "agent/base/rng.h"
#include "spop-check/bodies_in.h"

#define MIB	(1u << 20)

/* ---- arguments -------------------------------------------------------------------------- */

static void put_arg(struct check_plan *p, const char *name, struct spop_data d)
{
	spop_put_str(&p->body, name, strlen(name));
	spop_put_data(&p->body, &d);
}

static void arg_int(struct check_plan *p, const char *name, enum spop_type type, int64_t v)
{
	put_arg(p, name, (struct spop_data){ .type = type, .i = v });
}

static void arg_u64(struct check_plan *p, const char *name, uint64_t v)
{
	put_arg(p, name, (struct spop_data){ .type = SPOP_T_UINT64, .u = v });
}

static void arg_str(
    struct check_plan *p, const char *name, enum spop_type type, const void *v, size_t n)
{
	put_arg(p, name, (struct spop_data){ .type = type, .s = { v, n } });
}

static void arg_fill(struct check_plan *p, const char *name, enum spop_type type, size_t n)
{
	spop_put_str(&p->body, name, strlen(name));
	check_put_u8(&p->body, (uint8_t)type);
	spop_put_varint(&p->body, n);
	check_put_fill(&p->body, 'x', n);
}

/* ---- NOTIFY: messages and arguments ----------------------------------------------------- */

void check_body_notify_one(struct check_plan *p)
{
	check_notify(p, 1, 1);
}

void check_body_notify_empty(struct check_plan *p)
{
	check_frame_end(&p->body, check_notify_begin(p, 1, 1));
}

void check_body_notify_unknown(struct check_plan *p)
{
	static const char name[] = "a-message-that-nobody-knows";
	size_t start = check_notify_begin(p, 1, 1);

	spop_put_str(&p->body, name, sizeof(name) - 1);
	check_put_u8(&p->body, 1);
	arg_str(p, "key", SPOP_T_STR, "value", 5);
	check_frame_end(&p->body, start);
}

void check_body_notify_many(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1), each = 1 + strlen(p->message->name) + 1, i;

	for (i = 0; i < 100 && (i + 1) * each + CHECK_HEADER_MAX < p->agreed; i++)
		check_message_head(p, 0);
	check_frame_end(&p->body, start);
}

void check_body_notify_no_args(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 0);
	check_frame_end(&p->body, start);
}

/* Returns <word> and a number. Each argument has its own name, because some agents keep arguments
 * in a map. */
static const char *name_of(char out[16], const char *word, unsigned i)
{
	snprintf(out, 16, "%s%u", word, i);
	return out;
}

void check_body_notify_255_args(struct check_plan *p)
{
	const size_t fixed = CHECK_HEADER_MAX + strlen(p->message->name) + 3, each = 1 + 4 + 1 + 2;
	size_t start = check_notify_begin(p, 1, 1);
	unsigned n = (unsigned)((p->agreed - fixed) / each), i;
	char name[16];

	n = n < 255 ? n : 255;
	check_message_head(p, (uint8_t)n);
	for (i = 0; i < n; i++)
		arg_int(p, name_of(name, "a", i), SPOP_T_INT32, i);
	check_frame_end(&p->body, start);
}

/* "args src" in a spoe-message: an argument without a name. */
void check_body_notify_no_arg_name(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 1);
	arg_int(p, "", SPOP_T_INT32, 1);
	check_frame_end(&p->body, start);
}

void check_body_notify_no_arg_names(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 2);
	arg_int(p, "", SPOP_T_INT32, 1);
	arg_str(p, "", SPOP_T_STR, "two", 3);
	check_frame_end(&p->body, start);
}

void check_body_notify_same_name(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 2);
	arg_int(p, "twin", SPOP_T_INT32, 1);
	arg_int(p, "twin", SPOP_T_INT32, 2);
	check_frame_end(&p->body, start);
}

void check_body_notify_not_utf8(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 1);
	arg_str(p, "text", SPOP_T_STR, "\xff\xfe caf\xe9 \xc3", 8);
	check_frame_end(&p->body, start);
}

void check_body_notify_nul(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 1);
	arg_str(p, "text", SPOP_T_STR, "a\0b\r\n", 5);
	check_frame_end(&p->body, start);
}

/* ---- NOTIFY: inconsistent payloads ------------------------------------------------------ */

void check_body_nb_args_more(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 3);
	arg_int(p, "one", SPOP_T_INT32, 1);
	check_frame_end(&p->body, start);
}

void check_body_nb_args_fewer(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 1);
	arg_int(p, "one", SPOP_T_INT32, 1);
	arg_int(p, "two", SPOP_T_INT32, 2);
	arg_int(p, "three", SPOP_T_INT32, 3);
	check_frame_end(&p->body, start);
}

void check_body_nb_args_255(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 255);
	check_frame_end(&p->body, start);
}

static void name_of_length(struct check_plan *p, uint64_t n)
{
	size_t start = check_notify_begin(p, 1, 1);

	spop_put_varint(&p->body, n);
	check_put_bytes(&p->body, "short", 5);
	check_frame_end(&p->body, start);
}

void check_body_name_beyond(struct check_plan *p)
{
	name_of_length(p, 100000);
}

void check_body_name_2_64(struct check_plan *p)
{
	name_of_length(p, UINT64_MAX);
}

static void value_of_length(struct check_plan *p, uint64_t n)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 1);
	spop_put_str(&p->body, "text", 4);
	check_put_u8(&p->body, SPOP_T_STR);
	spop_put_varint(&p->body, n);
	check_put_bytes(&p->body, "short", 5);
	check_frame_end(&p->body, start);
}

void check_body_value_beyond(struct check_plan *p)
{
	value_of_length(p, MIB);
}

void check_body_value_2_64(struct check_plan *p)
{
	value_of_length(p, UINT64_MAX);
}

/* 2^64 and more: ten bytes hold more than 64 bits. */
void check_body_varint_long(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 1);
	spop_put_str(&p->body, "n", 1);
	check_put_u8(&p->body, SPOP_T_INT64);
	check_put_fill(&p->body, 0xff, 12);
	check_put_u8(&p->body, 0x00);
	check_frame_end(&p->body, start);
}

void check_body_reserved_type(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 1);
	spop_put_str(&p->body, "what", 4);
	check_put_u8(&p->body, (uint8_t)(10 + p->round % 6));
	check_put_bytes(&p->body, "\x01\x02\x03", 3);
	check_frame_end(&p->body, start);
}

void check_body_name_empty(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	spop_put_str(&p->body, "", 0);
	check_put_u8(&p->body, 0);
	check_frame_end(&p->body, start);
}

/* The frame ends too early: one byte before its end, two bytes, and so on. */
void check_body_message_cut(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1), payload = p->body.n, n;

	check_message_head(p, 2);
	arg_int(p, "one", SPOP_T_UINT32, 4000);
	arg_str(p, "two", SPOP_T_STR, "value", 5);
	n = p->body.n - payload;
	p->body.n = payload + (p->round < n - 1 ? n - 1 - p->round : 1);
	check_frame_end(&p->body, start);
}

void check_body_random_payload(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1), n;
	struct rng rng;

	rng_init(&rng, p->round + 1);
	for (n = 16 + p->round * 32; n > 0; n--)
		check_put_u8(&p->body, (uint8_t)(rng_next(&rng) >> 40));
	check_frame_end(&p->body, start);
}

/* ---- typed data ------------------------------------------------------------------------- */

/* Bytes that are invalid as anything else, so that an agent that reads too few of them is found. */
static const uint8_t ipv4[4] = { 255, 255, 255, 254 };
static const uint8_t ipv6[16] = {
	0x20, 0x01, 0x0d, 0xb8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 254
};

static void arg_ip(struct check_plan *p, const char *name, enum spop_type type)
{
	struct spop_data d = { .type = type };

	memcpy(d.ip, type == SPOP_T_IPV4 ? ipv4 : ipv6, type == SPOP_T_IPV4 ? 4 : 16);
	put_arg(p, name, d);
}

static void arg_null(struct check_plan *p, const char *name)
{
	put_arg(p, name, (struct spop_data){ .type = SPOP_T_NULL });
}

static void arg_bool(struct check_plan *p, const char *name, bool v)
{
	put_arg(p, name, (struct spop_data){ .type = SPOP_T_BOOL, .b = v });
}

void check_body_type_null(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 2);
	arg_null(p, "nothing");
	arg_int(p, "behind", SPOP_T_INT32, 1);
	check_frame_end(&p->body, start);
}

void check_body_type_bool(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 3);
	arg_bool(p, "yes", true);
	arg_bool(p, "no", false);
	arg_int(p, "behind", SPOP_T_INT32, 1);
	check_frame_end(&p->body, start);
}

/* Negative numbers as HAProxy writes them: sign-extended to 64 bits, ten bytes long. */
void check_body_type_int32(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 5);
	arg_int(p, "zero", SPOP_T_INT32, 0);
	arg_int(p, "minus", SPOP_T_INT32, -1);
	arg_int(p, "min", SPOP_T_INT32, INT32_MIN);
	arg_int(p, "max", SPOP_T_INT32, INT32_MAX);
	arg_int(p, "some", SPOP_T_INT32, 2288);
	check_frame_end(&p->body, start);
}

void check_body_type_uint32(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 3);
	arg_int(p, "zero", SPOP_T_UINT32, 0);
	arg_int(p, "max", SPOP_T_UINT32, UINT32_MAX);
	arg_int(p, "some", SPOP_T_UINT32, 264432);
	check_frame_end(&p->body, start);
}

void check_body_type_int64(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 4);
	arg_int(p, "zero", SPOP_T_INT64, 0);
	arg_int(p, "minus", SPOP_T_INT64, -1);
	arg_int(p, "min", SPOP_T_INT64, INT64_MIN);
	arg_int(p, "max", SPOP_T_INT64, INT64_MAX);
	check_frame_end(&p->body, start);
}

/* All lengths of a varint, on both sides of each step. */
void check_body_type_uint64(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);
	uint64_t edge = 240;
	char name[16];
	unsigned i;

	check_message_head(p, 19);
	for (i = 0; i < 9; i++) {
		if (i > 0)
			edge += (uint64_t)1 << (4 + 7 * i);
		arg_u64(p, name_of(name, "below", i), edge - 1);
		arg_u64(p, name_of(name, "at", i), edge);
	}
	arg_u64(p, "max", UINT64_MAX);
	check_frame_end(&p->body, start);
}

void check_body_type_ipv4(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 2);
	arg_ip(p, "src", SPOP_T_IPV4);
	arg_int(p, "behind", SPOP_T_INT32, 1);
	check_frame_end(&p->body, start);
}

void check_body_type_ipv6(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 2);
	arg_ip(p, "src", SPOP_T_IPV6);
	arg_int(p, "behind", SPOP_T_INT32, 1);
	check_frame_end(&p->body, start);
}

void check_body_type_str(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 3);
	arg_str(p, "empty", SPOP_T_STR, "", 0);
	arg_str(p, "some", SPOP_T_STR, "/v1/chat/completions", 20);
	arg_int(p, "behind", SPOP_T_INT32, 1);
	check_frame_end(&p->body, start);
}

void check_body_type_bin(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);
	uint8_t all[256];
	int i;

	for (i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	check_message_head(p, 3);
	arg_str(p, "empty", SPOP_T_BIN, "", 0);
	arg_str(p, "all", SPOP_T_BIN, all, sizeof(all));
	arg_int(p, "behind", SPOP_T_INT32, 1);
	check_frame_end(&p->body, start);
}

void check_body_type_all(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 11);
	arg_null(p, "null");
	arg_bool(p, "true", true);
	arg_bool(p, "false", false);
	arg_int(p, "int32", SPOP_T_INT32, -240);
	arg_int(p, "uint32", SPOP_T_UINT32, 240);
	arg_int(p, "int64", SPOP_T_INT64, -2288);
	arg_u64(p, "uint64", (uint64_t)1 << 63);
	arg_ip(p, "ipv4", SPOP_T_IPV4);
	arg_ip(p, "ipv6", SPOP_T_IPV6);
	arg_str(p, "str", SPOP_T_STR, "text", 4);
	arg_str(p, "bin", SPOP_T_BIN, "\x00\xff", 2);
	check_frame_end(&p->body, start);
}

/* Flags of types that have none: the type is only in the lower four bits. */
void check_body_type_flags(struct check_plan *p)
{
	size_t start = check_notify_begin(p, 1, 1);

	check_message_head(p, 2);
	spop_put_str(&p->body, "n", 1);
	check_put_u8(&p->body, 0xf0 | SPOP_T_UINT32);
	spop_put_varint(&p->body, 7);
	spop_put_str(&p->body, "t", 1);
	check_put_u8(&p->body, 0x20 | SPOP_T_BOOL);	/* false: the first flag is not set */
	check_frame_end(&p->body, start);
}

/* Strings whose length just fits a shorter varint, and just does not; as many as the agreed size
 * allows. */
void check_body_type_lengths(struct check_plan *p)
{
	static const size_t n[] = { 1, 239, 240, 241, 2287, 2288, 2289 };
	const size_t fixed = CHECK_HEADER_MAX + strlen(p->message->name) + 3, each = 6 + 1 + 3;
	size_t start = check_notify_begin(p, 1, 1), n_args = 0, sum = fixed;
	char name[16];
	unsigned i;

	while (n_args < sizeof(n) / sizeof(n[0]) && sum + each + n[n_args] <= p->agreed)
		sum += each + n[n_args++];
	check_message_head(p, (uint8_t)n_args);
	for (i = 0; i < n_args; i++)
		arg_fill(p, name_of(name, "text", i), SPOP_T_STR, n[i]);
	check_frame_end(&p->body, start);
}

/* ---- sizes ------------------------------------------------------------------------------ */

static size_t varint_bytes(uint64_t v)
{
	uint8_t b[10];
	struct spop_wr w = { b, 0, sizeof(b), false };

	spop_put_varint(&w, v);
	return w.n;
}

/* Write a NOTIFY of <size> bytes in all, most of them in one value. If the length of that value
 * skips a size because its varint grows, a longer name fills the gap. */
static void notify_of(struct check_plan *p, size_t size)
{
	static const char *const names[] = { "body", "body_" };
	size_t start, rest, n = 0, i;

	for (i = 0; i < 2; i++) {
		rest = size - 7 - 1 - strlen(p->message->name) - 1 - 1 - strlen(names[i]) - 1;
		for (n = rest - 1; n + varint_bytes(n) > rest; n--)
			;
		if (n + varint_bytes(n) == rest)
			break;
	}
	start = check_notify_begin(p, 1, 1);
	check_message_head(p, 1);
	arg_fill(p, names[i % 2], SPOP_T_BIN, n);
	check_frame_end(&p->body, start);
}

void check_body_frame_above(struct check_plan *p)
{
	notify_of(p, (size_t)p->agreed + 1);
}

void check_body_frame_at_size(struct check_plan *p)
{
	notify_of(p, p->agreed);
}
