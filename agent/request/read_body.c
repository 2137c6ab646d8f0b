/* read_body.c - bytes of a body, whole or slice by slice, into its scanner.
 *
 * A message without <seq> brings all there will be, whatever HAProxy could show. With <seq>,
 * further slices are wanted until all visible bytes were read or the scanner has enough. */
#include "agent/request/request_in.h"

#define PORTION		((size_t)16 << 10)	/* fed at a time */

/* Sizes come from outside: one that no body can have must not overflow an estimate. */
#define BODY_BYTES_MAX	((int64_t)1 << 40)

static int64_t sane_size(int64_t n)
{
	return n < 0 ? -1 : n < BODY_BYTES_MAX ? n : BODY_BYTES_MAX;
}

void request_start(struct request *rq, struct request_env *env, struct request_scratch *s,
		   const struct request_message *m, msec now)
{
	*rq = (struct request){
		.env = env, .scratch = s, .now = now, .wall_s = m->wall_s, .uid = m->uid,
		.pool = m->pool, .tenant = m->tenant,
		.model = m->model.n > 0 ? m->model : prompt_model_of_path(m->path),
		.seq = m->seq, .visible = sane_size(m->visible), .whole = sane_size(m->whole),
	};
}

static enum prompt_api api_of(struct span path)
{
	return path.n ? prompt_api_of_path(path) : API_CHAT;
}

static bool more_to_come(const struct request *rq, int64_t received)
{
	return rq->seq >= 0 && rq->visible > received && rq->prompt->json == JSON_MORE &&
		!rq->prompt->truncated;
}

/* Continue the body of <sl>: what its first slice said holds. */
static void use_sliced(struct request *rq, struct sliced *sl)
{
	rq->sliced = sl;
	rq->body = sl->body;
	rq->pool = sl->pool;
	rq->tenant = sl->tenant;
	rq->model = sl->model;
	rq->process = sl->process;
	rq->visible = sl->visible;
	rq->whole = sl->whole;
}

static uint64_t turns_tenant(const struct request *rq)
{
	return hash_mix_span(rq->env->key, 25, rq->tenant);
}

/* Begin a body in slices. Without memory it is read as if this slice were all. */
static void start_sliced(struct request *rq, enum prompt_api api)
{
	const struct request_env *env = rq->env;
	struct sliced *sl = sliced_new(&env->opts.prompt, env->key, rq->pool, rq->tenant, rq->model);

	if (sl == NULL)
		return;
	sl->uid = rq->uid;
	sl->api = api;
	sl->visible = rq->visible;
	sl->whole = rq->whole;
	sl->process = rq->process;
	sl->next_seq = 1;
	body_reset(sl->body, api);
	if (request_wants_text(env, api) && (sl->text = text_ids_new()) != NULL)
		text_ids_reset(sl->text, api, env->opts.prompt.max_depth);
	sl->raw_wanted = request_wants_raw(env, api);
	body_slices_start(sl->body, rq->env->turns, turns_tenant(rq));
	use_sliced(rq, sl);
}

static bool continue_sliced(struct request *rq)
{
	struct sliced *sl = slices_take(&rq->env->slices, rq->uid, rq->seq, &rq->more);

	if (sl == NULL)
		return false;
	sl->next_seq++;
	use_sliced(rq, sl);
	return true;
}

struct scanned_key request_scanned_key(const struct request *rq, const struct request_message *m)
{
	return (struct scanned_key){
		.uid = rq->uid, .tenant = hash_mix_span(rq->env->key, 22, rq->tenant),
		.api = api_of(m->path), .bytes = m->body,
	};
}

/* Use the scanner that the message <model> has left, if it has read this body. */
static bool use_scanned(struct request *rq, const struct request_message *m)
{
	struct request_env *env = rq->env;
	struct scanned_note note;
	struct scanned_key k;

	if (rq->aside || !m->has_uid || !scanned_any(&env->scanned))
		return false;
	k = request_scanned_key(rq, m);
	if (!scanned_take(&env->scanned, env->key, &k, &note, &rq->scratch->body))
		return false;
	rq->scanned = true;
	rq->heads_scope = note.scope;
	rq->body = rq->scratch->body;
	rq->enough = note.n < m->body.n;
	rq->raw.n = note.n;
	return true;
}

static void start_body(struct request *rq, const struct request_message *m)
{
	enum prompt_api api = api_of(m->path);

	if (rq->seq == 0 && m->has_uid) {
		slices_restart(&rq->env->slices, rq->uid);
		if (rq->visible > (int64_t)m->body.n)
			start_sliced(rq, api);
	}
	if (rq->body == NULL && !use_scanned(rq, m)) {
		rq->body = rq->scratch->body;
		body_reset(rq->body, api);
	}
}

/* Return the bytes of the portion at byte <at>, of which <n> have come. Portions begin at the same
 * places, wherever an earlier body or a slice ends. */
static size_t portion_at(uint64_t at, size_t n)
{
	size_t most = PORTION - (size_t)(at % PORTION);

	return n < most ? n : most;
}

/* Feed the scanner as many bytes as it may take: a body of only brackets costs ten times its
 * bytes. Bytes beyond that count as not seen. What is new in the body is remembered when its bytes
 * are not needed any more, which is after its answer: request_keep_body(). */
static void feed_scanner(struct request *rq)
{
	const struct prompt *p = body_prompt(rq->body);
	size_t at, n;

	at = body_recall(rq->body, rq->env->turns, turns_tenant(rq), rq->raw.p, rq->raw.n);
	for (; at < rq->raw.n && p->n_events < PROMPT_EVENTS_MOST; at += n) {
		n = portion_at(at, rq->raw.n - at);
		body_feed(rq->body, rq->raw.p + at, n);
	}
	rq->enough = at < rq->raw.n;
	rq->raw.n = at;
	if (rq->aside)
		body_remember(rq->body, at, rq->lasting);
	else
		rq->new_turns = true;
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Read <bytes>, which begins with byte <from> of the body, from its byte <at> on, as far as
 * feed_scanner() would. Returns how many bytes of the body have been read then. */
static uint64_t read_on(struct request *rq, uint64_t at, struct span bytes, uint64_t from)
{
	const struct prompt *p = body_prompt(rq->body);
	uint64_t end = from + bytes.n;
	size_t n;

	for (; at < end && p->n_events < PROMPT_EVENTS_MOST; at += n) {
		n = portion_at(at, (size_t)(end - at));
		body_slice_read(rq->body, bytes.p + (at - from), n);
	}
	rq->enough |= at < end;
	return at;
}

/* The same for <held>, all bytes that are kept, from the first that was not read. */
static uint64_t read_slices(struct request *rq, struct span held, uint64_t from)
{
	return read_on(rq, body_slice_ready(rq->body, held, from), held, from);
}

/* Tell if nobody needs to see the prompt before the next slice: all of it is known so far, more
 * comes, and no decision is due. */
static bool reading_waits(const struct request *rq, uint64_t n)
{
	return rq->seq > 0 && body_slice_known(rq->body) && rq->visible > (int64_t)n &&
	       !request_slices_due(rq->sliced, n);
}

/* Read a slice that there is no memory to keep, and no more of the body: request_keep_body() then
 * frees what was kept of it. */
static void read_loose_slice(struct request *rq)
{
	struct sliced *sl = rq->sliced;
	struct span held = sliced_raw(sl);
	uint64_t end = sl->raw_from + held.n, at = read_slices(rq, held, sl->raw_from);

	rq->raw.n = at == end ? (size_t)(read_on(rq, at, rq->raw, end) - end) : 0;
	rq->enough = true;
}

static void feed_slice(struct request *rq)
{
	struct sliced *sl = rq->sliced;
	uint64_t from = sl->raw_from, at;
	struct span held;
	size_t left;

	if (!sliced_add_raw(sl, rq->raw)) {
		read_loose_slice(rq);
		return;
	}
	held = sliced_raw(sl);
	body_slice(rq->body, held, from);
	rq->waits = reading_waits(rq, from + held.n);
	at = rq->waits ? from + held.n : read_slices(rq, held, from);
	left = (size_t)(from + held.n - at);		/* more than this slice if others waited */
	rq->raw.n -= left < rq->raw.n ? left : rq->raw.n;
	sl->raw.n = (size_t)(at - from);
	sliced_drop_raw(sl, body_slice_needs(rq->body, sliced_raw(sl), from));
}

bool request_take_body(struct request *rq, const struct request_message *m)
{
	int64_t received;

	rq->raw = m->body;
	if (rq->seq > 0) {
		if (!continue_sliced(rq))
			return false;
	} else {
		start_body(rq, m);
	}
	if (rq->sliced != NULL)
		feed_slice(rq);
	else if (!rq->scanned)
		feed_scanner(rq);
	if (rq->raw.n > 0 && rq->sliced != NULL && rq->sliced->text != NULL)
		text_ids_feed(rq->sliced->text, rq->raw);
	rq->prompt = body_prompt(rq->body);
	received = (int64_t)rq->prompt->n_bytes;
	rq->more = rq->waits || (rq->sliced != NULL && !rq->enough && more_to_come(rq, received));
	rq->cut = rq->prompt->json == JSON_MORE;
	if (rq->sliced != NULL && !rq->more)
		body_slices_remember(rq->body, !rq->aside || rq->lasting);
	return true;
}

void request_keep_body(struct request *rq)
{
	if (rq->new_head.due)
		heads_add(rq->env->heads, rq->new_head.tenant, rq->new_head.scope, rq->prompt);
	rq->new_head.due = false;
	if (rq->new_turns)
		body_remember(rq->body, rq->raw.n, true);
	rq->new_turns = false;
	if (rq->sliced == NULL)
		return;
	if (rq->more)
		slices_put(&rq->env->slices, rq->sliced, rq->env->opts.slices_max_bytes, rq->now);
	else
		sliced_free(rq->sliced);
	rq->sliced = NULL;
}
