/* load_talk.c - conversations made of words, the same for the same seed.
 *
 * A talk keeps its turns as they stand in a request body, so that a request is a head, that text
 * and a tail. The user's words depend on seed, talk and turn; the system prompt's on seed and its
 * number alone, which is what makes it shared. */
#include "tests/tools/lib/load.h"

#include <math.h>

#include "agent/base/rng.h"

static const char *const syllables[] = {
	"ta", "ri", "mo", "len", "sor", "ka", "ne", "vi", "dal", "pe", "ro", "shu", "gan", "el",
	"ti", "bor"
};

void load_words(struct buf *out, uint64_t key, size_t n)
{
	size_t end = out->n + n;
	struct rng r;

	rng_init(&r, key);
	rng_next(&r);
	while (out->n < end) {
		for (uint32_t k = 1 + rng_below(&r, 3); k > 0; k--)
			buf_puts(out, syllables[rng_below(&r, 16)]);
		buf_puts(out, rng_below(&r, 12) ? " " : ". ");
	}
	out->n = end;
}

uint64_t load_key(const struct load_opts *o, uint64_t a, uint64_t b)
{
	return (o->seed + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ a << 24 ^ b;
}

static void put_system(const struct talk *t, const struct load_opts *o, struct buf *out)
{
	buf_puts(out, "You are an assistant of the kind that ");
	load_words(out, load_key(o, UINT64_C(1) << 36, t->system), o->system_bytes);
}

static void put_message(struct buf *out, const char *role, struct span text)
{
	if (out->n)
		buf_puts(out, ",");
	buf_putf(out, "{\"role\":\"%s\",\"content\":", role);
	buf_put_json(out, text);
	buf_puts(out, "}");
}

/* Completions have no roles: the talk is one text, and is escaped when the body is made. */
static void say(struct talk *t, const struct load_opts *o, const char *role, struct span text)
{
	if (o->api != API_COMPLETIONS) {
		put_message(&t->said, role, text);
		return;
	}
	buf_putf(&t->said, "%s: ", role);
	buf_put(&t->said, text.p, text.n);
	buf_puts(&t->said, "\n");
}

void talk_init(struct talk *t, const struct load_opts *o, uint32_t id)
{
	struct buf b = { 0 };
	struct rng r;

	*t = (struct talk){ .id = id };
	rng_init(&r, load_key(o, UINT64_C(1) << 37, id));
	rng_next(&r);
	t->system = rng_below(&r, o->systems);
	t->tenant = o->tenants ? id % o->tenants : 0;
	if (o->system_bytes == 0 || (o->api != API_CHAT && o->api != API_COMPLETIONS))
		return;
	put_system(t, o, &b);
	say(t, o, "system", buf_span(&b));
	buf_free(&b);
}

void talk_fini(struct talk *t)
{
	buf_free(&t->said);
}

void talk_user(struct talk *t, const struct load_opts *o)
{
	struct buf b = { 0 };

	load_words(&b, load_key(o, t->id + 1, t->turn), o->user_bytes);
	say(t, o, "user", buf_span(&b));
	buf_free(&b);
}

/* The completions prompt ends with "assistant:", and the text that came after it follows here, so
 * that the next prompt starts with this one byte for byte. */
void talk_assistant(struct talk *t, const struct load_opts *o, struct span text)
{
	if (o->api != API_COMPLETIONS) {
		say(t, o, "assistant", text);
		return;
	}
	buf_puts(&t->said, "assistant:");
	buf_put(&t->said, text.p, text.n);
	buf_puts(&t->said, "\n");
}

/* The logarithm is of a number in (0, 1], so a pause is at most 37 times the mean. */
double talk_think(const struct talk *t, const struct load_opts *o)
{
	struct rng r;

	if (o->think_constant || o->think <= 0)
		return o->think;
	rng_init(&r, load_key(o, (UINT64_C(1) << 38) + t->id, t->turn));
	rng_next(&r);
	return -o->think * log((double)((rng_next(&r) >> 11) + 1) * 0x1p-53);
}

static void put_prompt(const struct talk *t, const struct load_opts *o, struct buf *out)
{
	struct buf b = { 0 };

	switch (o->api) {
	case API_COMPLETIONS:
		buf_put(&b, t->said.p, t->said.n);
		buf_puts(&b, "assistant:");
		buf_puts(out, "\"prompt\":");
		buf_put_json(out, buf_span(&b));
		break;
	case API_RESPONSES:
		buf_puts(out, "\"input\":[");
		buf_put(out, t->said.p, t->said.n);
		buf_puts(out, "]");
		break;
	default:
		buf_puts(out, "\"messages\":[");
		buf_put(out, t->said.p, t->said.n);
		buf_puts(out, "]");
	}
	if (o->system_bytes && (o->api == API_MESSAGES || o->api == API_RESPONSES)) {
		put_system(t, o, &b);
		buf_puts(out, o->api == API_MESSAGES ? ",\"system\":" : ",\"instructions\":");
		buf_put_json(out, buf_span(&b));
	}
	buf_free(&b);
}

void load_put_rest(const struct load_opts *o, struct buf *out)
{
	buf_puts(out, "\"model\":");
	buf_put_json(out, span_str(o->model));
	buf_putf(out, ",\"%s\":%u", o->api == API_RESPONSES ? "max_output_tokens" : "max_tokens",
		 o->max_tokens);
	if (o->whole)
		return;
	buf_puts(out, ",\"stream\":true");
	if (o->api == API_CHAT || o->api == API_COMPLETIONS)
		buf_puts(out, ",\"stream_options\":{\"include_usage\":true}");
}

static const char *path_of(enum api api)
{
	switch (api) {
	case API_COMPLETIONS: return "/v1/completions";
	case API_RESPONSES: return "/v1/responses";
	case API_MESSAGES: return "/v1/messages";
	default: return "/v1/chat/completions";
	}
}

static void put_chunks(struct buf *out, struct span body)
{
	while (body.n) {
		size_t n = body.n < 4096 ? body.n : 4096;

		http_put_chunk(out, span_of(body.p, n));
		body.p += n;
		body.n -= n;
	}
	http_put_chunk(out, (struct span){ "", 0 });
}

static void put_head(const struct talk *t, const struct load_opts *o, struct buf *out)
{
	buf_putf(out, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
		 "Accept: application/json\r\nUser-Agent: chat_load\r\n", path_of(o->api), o->host);
	if (o->tenants)
		buf_putf(out, "%s: t%u\r\n", o->tenant_header, t->tenant);
	if (o->session_header)
		buf_putf(out, "%s: talk-%llu-%u\r\n", o->session_header, (unsigned long long)o->seed,
			 t->id);
	for (size_t i = 0; i < o->n_headers; i++)
		buf_putf(out, "%s\r\n", o->headers[i]);
}

void load_put_request(const struct talk *t, const struct load_opts *o, struct span more,
		      struct span body, struct buf *out)
{
	put_head(t, o, out);
	buf_put(out, more.p, more.n);
	if (o->chunked) {
		buf_puts(out, "Transfer-Encoding: chunked\r\n\r\n");
		put_chunks(out, body);
	} else {
		buf_putf(out, "Content-Length: %zu\r\n\r\n", body.n);
		buf_put(out, body.p, body.n);
	}
}

void talk_request(const struct talk *t, const struct load_opts *o, struct buf *out)
{
	struct buf body = { 0 };

	buf_puts(&body, "{");
	if (o->model_first) {
		load_put_rest(o, &body);
		buf_puts(&body, ",");
	}
	put_prompt(t, o, &body);
	if (!o->model_first) {
		buf_puts(&body, ",");
		load_put_rest(o, &body);
	}
	buf_puts(&body, "}");
	load_put_request(t, o, (struct span){ "", 0 }, buf_span(&body), out);
	buf_free(&body);
}
