/* job_body.c - the bytes of a request, whole or slice by slice, into its scanner.
 *
 * A message without <seq> is all there will be, however much HAProxy could show. With one, more is
 * asked for until everything visible was seen or the scanner has had enough. */
#include "agent/route/job.h"

#define PORTION		((size_t)16 << 10)
#define EVENTS_MOST	200000u		/* 3 ms; a megabyte of messages of 50 bytes each */

static enum prompt_api api_of(struct span path)
{
	return path.n ? prompt_api_of_path(path) : API_CHAT;
}

static bool more_to_come(const struct job *j, int64_t received)
{
	return j->seq >= 0 && j->visible > received && j->prompt->json == JSON_MORE &&
		!j->prompt->truncated;
}

static void take_sliced(struct job *j, struct sliced *sl)
{
	j->sliced = sl;
	j->body = sl->body;
	j->pool = sl->pool;
	j->tenant = sl->tenant;
	j->model = sl->model;
	j->process = sl->process;
	j->visible = sl->visible;
	j->whole = sl->whole;
}

static void start_sliced(struct route *r, struct job *j, enum prompt_api api)
{
	struct sliced *sl = sliced_new(&j->opts->prompt, &r->key, j->pool, j->tenant, j->model);

	if (sl == NULL)
		return;
	sl->uid = j->uid;
	sl->api = api;
	sl->visible = j->visible;
	sl->whole = j->whole;
	sl->process = j->process;
	sl->next_seq = 1;
	body_reset(sl->body, api);
	if (job_wants_words(j->opts, api) && (sl->words = words_new()) != NULL)
		words_reset(sl->words, api, j->opts->prompt.max_depth);
	sl->raw.wanted = job_wants_raw(j->opts, api);
	take_sliced(j, sl);
}

static bool take_later(struct route *r, struct job *j)
{
	struct sliced *sl = slices_take(&r->slices, j->uid, j->seq, &j->more);

	if (sl == NULL)
		return false;
	sl->next_seq++;
	take_sliced(j, sl);
	return true;
}

struct scanned_key job_scanned_key(const struct route *r, const struct job *j, const struct route_request *q)
{
	return (struct scanned_key){
		.uid = j->uid, .tenant = hash_mix_span(&r->key, 22, j->tenant), .api = api_of(q->path), .bytes = q->body,
	};
}

/* The message <model> may have read it. */
static bool take_scanned(struct route *r, struct job *j, const struct route_request *q)
{
	const struct scanned_key k = job_scanned_key(r, j, q);
	struct scanned_note note;

	if (j->aside || q->uid.n == 0 || !scanned_take(&r->scanned, &r->key, &k, &note, &j->scratch->body))
		return false;
	j->scanned = true;
	j->heads_scope = note.scope;
	j->body = j->scratch->body;
	j->enough = note.n < q->body.n;
	j->raw.n = note.n;
	return true;
}

static void take_first(struct route *r, struct job *j, const struct route_request *q)
{
	enum prompt_api api = api_of(q->path);

	if (j->seq == 0 && q->uid.n > 0) {
		slices_restart(&r->slices, j->uid);
		if (j->visible > (int64_t)q->body.n)
			start_sliced(r, j, api);
	}
	if (j->body == NULL && !take_scanned(r, j, q)) {
		j->body = j->scratch->body;
		body_reset(j->body, api);
	}
}

/* As much of what came as the scanner may take: a body of nothing but brackets costs ten times its bytes. What is left of it is as if it
 * had not been seen. */
static void feed(struct job *j)
{
	const struct prompt *p = body_prompt(j->body);
	size_t at = 0, n;

	for (; at < j->raw.n && p->n_events < EVENTS_MOST; at += n) {
		n = j->raw.n - at < PORTION ? j->raw.n - at : PORTION;
		body_feed(j->body, j->raw.p + at, n);
	}
	j->enough = at < j->raw.n;
	j->raw.n = at;
}

bool job_take_body(struct route *r, struct job *j, const struct route_request *q)
{
	int64_t received;

	j->raw = q->body;
	if (j->seq > 0) {
		if (!take_later(r, j))
			return false;
	} else {
		take_first(r, j, q);
	}
	if (!j->scanned)
		feed(j);
	if (j->raw.n > 0 && j->sliced != NULL && j->sliced->words != NULL)
		words_feed(j->sliced->words, j->raw);
	if (j->sliced != NULL)
		sliced_keep_raw(j->sliced, j->raw);
	j->prompt = body_prompt(j->body);
	received = (int64_t)j->prompt->n_bytes;
	j->more = j->sliced != NULL && !j->enough && more_to_come(j, received);
	j->cut = j->prompt->json == JSON_MORE;
	return true;
}

void job_keep_body(struct route *r, struct job *j)
{
	if (j->sliced == NULL)
		return;
	if (j->more)
		slices_put(&r->slices, j->sliced, j->opts->slices_max_bytes, j->now);
	else
		sliced_free(j->sliced);
	j->sliced = NULL;
}
